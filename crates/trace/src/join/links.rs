//! Rows beyond an edge that leads to other ids: what the byte offsets of a stream at one point became at the next, and
//! the whole that a part is of.
//!
//! At both ends of a *range* edge an id is a byte offset: that at which the stamp's bytes end. So a stamp covers what
//! lies above the next smaller offset of its point, up to its own. A row that has the offset `a` at the edge's first
//! point belongs to the smallest offset of the second that is not below `a`: to what held the last of its bytes.
//! Streams are told apart by kind. Several rows may belong to one offset (blocks in one packet), and offsets between
//! two such belong to none (packets in the middle of a block). The offset found is the id by which the row goes on.
//!
//! Idea: the offsets of a chunk's rows, sorted, divide the stream; each stamp at the second point falls into one part,
//! of which the smallest offset is kept, and a part without one takes that of the next. So nothing of the second point
//! is held or sorted, whatever the order it was written in. Where a policy left out stamps of the second point, the
//! next one that is there need not hold the last byte: then only a row belongs to it that has its very offset.
//!
//! Of parts and their whole, rows are the parts: each has one whole at most, the parent that its stamps say, and goes
//! on by that id.
//!
//! Guarantees: a row is linked, or counted by why it is not ([`LinkCounts`]): an offset below 0, an offset that either
//! point stamped more than once (a retransmission, say), or none that reaches it; a part that says no parent, or
//! several, or whose whole nobody stamped, or somebody more than once: nothing tells which of these stamps a part is
//! of, nor, before a whole that parts become, which stamp of a part went into it. Deliberately absent: rows for offsets
//! of the second point, or wholes, that
//! no row of the first belongs to; such wholes are counted.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use super::Joiner;
use super::batches::Gathered;
use crate::{Columns, Edge, KeptStamps, Mark, Marks, Match, StampSource, Traces};

/// Outcomes of the keys that were stamped at the first point of a range edge, or at the parts' end of an edge of parts;
/// each is counted once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkCounts {
    /// Keys with an offset, or a whole, at the other point.
    pub matched: u64,
    /// Keys whose offset nothing at the second point reaches, or whose whole was not stamped.
    pub unreached: u64,
    /// Keys below 0, which are no offsets.
    pub negative: u64,
    /// Keys stamped more than once at the first point, or whose offset at the second was; parts that say several
    /// parents.
    pub repeated: u64,
    /// Parts of which nothing tells which stamp of their whole is theirs: it was stamped more than once, two things
    /// have its id or theirs, or they were stamped more than once before they became it.
    pub untold: u64,
    /// Parts that say no parent.
    pub unsaid: u64,
    /// Wholes that no part names; `None`: parts named more of them than could be remembered.
    pub apart: Option<u64>,
}

/// The stamps beyond links of the keys of one chunk.
pub struct Linked {
    sets: Vec<LinkedSet>,
}

/// Those at the points of one set of ids.
struct LinkedSet {
    points: Vec<usize>,
    /// By key: its row in `traces`.
    rows: Vec<Option<usize>>,
    /// The ids of these rows are those of this set.
    traces: Traces,
}

/// An offset at the second point of an edge, and whether it was stamped more than once there.
type Reached = Option<(i64, bool)>;

impl Linked {
    /// Nothing beyond any edge.
    pub const NONE: Self = Self { sets: Vec::new() };

    /// The stamp of a key beyond a link: its row in the traces that hold it.
    pub fn at(&self, point: usize, key: usize) -> Option<(&Traces, usize)> {
        let set = self.sets.iter().find(|set| set.points.contains(&point))?;
        Some((&set.traces, (*set.rows.get(key)?)?))
    }

    /// The marks of a key's trace, those beyond range edges included; `seen` holds for points that it passed.
    pub fn marks(&self, key: usize, own: Option<&Marks>, seen: impl Fn(usize) -> bool) -> Option<Marks> {
        let row = |set: &LinkedSet| set.rows.get(key).copied().flatten();
        let beyond = |set: &LinkedSet| row(set).is_some_and(|row| set.traces.marks(row).is_some());
        if self.sets.is_empty() || own.is_none() && !self.sets.iter().any(beyond) {
            return own.cloned();
        }
        let points = self.sets.first().map_or(0, |set| set.traces.points().len());
        let mark = |point: usize| {
            let set = self.sets.iter().find(|set| set.points.contains(&point));
            let marks = match set {
                None => own,
                Some(set) => row(set).and_then(|row| set.traces.marks(row)),
            };
            let once = if seen(point) { Mark::Once } else { Mark::Unseen };
            marks.map_or(once, |marks| marks.points()[point])
        };
        Some(Marks::new((0..points).map(mark).collect()))
    }
}

/// The id of a key in the set of ids before an edge: where it was stamped there once, or why not.
#[derive(Clone, Copy)]
enum Offset {
    Absent,
    Repeated,
    At(i64),
}

/// What the stamps of a part say of its whole.
#[derive(Clone, Copy)]
enum Said {
    Nothing,
    One(i64),
    Several,
}

impl Said {
    fn add(&mut self, parent: i64) {
        *self = match *self {
            Self::Nothing => Self::One(parent),
            Self::One(known) if known == parent => Self::One(known),
            Self::One(_) | Self::Several => Self::Several,
        };
    }
}

impl<S: StampSource> Joiner<'_, S> {
    /// The stamps of a chunk's keys beyond all links.
    pub fn link(&mut self, gathered: &Gathered, counts: &mut [LinkCounts]) -> Result<Linked, S::Error> {
        let mut linked = Linked::NONE;
        let edges = self.layout.links();
        let mut keys = Vec::new();
        if !edges.is_empty() {
            gathered.each_key(&mut |id, kind, row| {
                keys.push((id, kind, row));
                Ok::<_, S::Error>(())
            })?;
        }
        for (number, (edge, counts)) in edges.iter().zip(counts).enumerate() {
            let near = edge.near();
            let stamped = |(key, &(id, _, row)): (usize, &(i64, i32, usize))| {
                if self.layout.shares_ids(near, self.layout.root()) {
                    return (id, gathered.mark(near, row));
                }
                let Some((traces, row)) = linked.at(near, key) else { return (id, Mark::Unseen) };
                let seen = if traces.points()[near].get(row).is_some() { Mark::Once } else { Mark::Unseen };
                (traces.ids()[row], traces.marks(row).map_or(seen, |marks| marks.points()[near]))
            };
            let stamped: Vec<(i64, Mark)> = keys.iter().enumerate().map(stamped).collect();
            let kinds: Vec<i32> = keys.iter().map(|key| key.1).collect();
            let found = if edge.by == Match::Range {
                let offsets: Vec<Offset> = stamped.iter().map(|&(id, mark)| offset_of(id, mark)).collect();
                self.reached_by(number, edge, &kinds, &offsets, counts)?
            } else {
                self.wholes_of(edge, &kinds, &stamped, counts)?
            };
            let mut set = self.linked_set(edge.far(), &kinds, &found)?;
            if edge.by != Match::Range {
                self.count_wholes(number, edge.far(), &mut set, (&kinds, &found), counts);
            }
            linked.sets.push(set);
        }
        Ok(linked)
    }

    /// By key: the whole that it is part of, by the parent that its stamps at the edge's end of the parts say.
    fn wholes_of(
        &mut self,
        edge: &Edge,
        kinds: &[i32],
        parts: &[(i64, Mark)],
        counts: &mut LinkCounts,
    ) -> Result<Vec<Option<i64>>, S::Error> {
        let keys = || kinds.iter().zip(parts).map(|(&kind, part)| ((kind, part.0), part.1));
        let mut wanted: Vec<(i32, i64)> =
            keys().filter(|(_, mark)| *mark != Mark::Unseen).map(|(key, _)| key).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let ids = || wanted.iter().map(|wanted| wanted.1);
        let mut said: Vec<Said> = vec![Said::Nothing; wanted.len()];
        if let (Some(first), Some(last)) = (ids().min(), ids().max()) {
            self.source.read(edge.near(), first..=last, Columns::KeysAndParents, &mut |stamps| {
                for (index, &id) in stamps.ids().iter().enumerate() {
                    let Some(parent) = stamps.parent(index) else { continue };
                    let (kind, last) = (stamps.kind(index), stamps.lasts().map_or(id, |lasts| lasts[index]));
                    let from = wanted.partition_point(|&wanted| wanted < (kind, id));
                    let these = wanted[from..].iter().zip(&mut said[from..]);
                    these.take_while(|(wanted, _)| **wanted <= (kind, last)).for_each(|(_, said)| said.add(parent));
                }
            })?;
        }
        // A part that is stamped again comes from the same whole, but becomes one by one of its stamps. Whoever has the
        // id of two things is neither for certain.
        let is_untold = |mark: Mark| mark == Mark::SeveralUntold || edge.by == Match::FanIn && mark.is_several();
        let whole = |(key, mark): ((i32, i64), Mark)| {
            let said = if mark == Mark::Unseen { None } else { wanted.binary_search(&key).ok().map(|at| said[at]) };
            let why = match said? {
                Said::One(whole) if !is_untold(mark) => return Some(whole),
                Said::One(_) => &mut counts.untold,
                Said::Nothing => &mut counts.unsaid,
                Said::Several => &mut counts.repeated,
            };
            *why += 1;
            None
        };
        Ok(keys().map(whole).collect())
    }

    /// Counts which of the wholes that parts named were stamped, and remembers them; parts lose one that was stamped
    /// more than once.
    fn count_wholes(
        &mut self,
        number: usize,
        far: usize,
        set: &mut LinkedSet,
        (kinds, wholes): (&[i32], &[Option<i64>]),
        counts: &mut LinkCounts,
    ) {
        let LinkedSet { rows, traces, .. } = set;
        for ((&kind, whole), row) in kinds.iter().zip(wholes).zip(rows) {
            let Some(whole) = *whole else { continue };
            let once = |row: usize| if traces.points()[far].get(row).is_some() { Mark::Once } else { Mark::Unseen };
            let mark = |row: usize| traces.marks(row).map_or(once(row), |marks| marks.points()[far]);
            match row.map_or(Mark::Unseen, mark) {
                Mark::Unseen => counts.unreached += 1,
                Mark::Once | Mark::OnceUntold => counts.matched += 1,
                Mark::ByTime | Mark::ByThread | Mark::ByAttempt | Mark::SeveralUntold => {
                    counts.untold += 1;
                    *row = None;
                }
            }
            let forget = match self.named.get_mut(&number) {
                Some(named) => {
                    named.insert((kind, whole));
                    named.len() > self.limits.keys
                }
                None => false,
            };
            if forget {
                self.named.remove(&number);
            }
        }
    }

    /// Counts the wholes that no part named.
    pub fn count_apart(&mut self, counts: &mut [LinkCounts]) -> Result<(), S::Error> {
        for (number, (edge, counts)) in self.layout.links().iter().zip(counts).enumerate() {
            let Some(named) = self.named.remove(&number) else { continue };
            let (mut apart, far) = (0, edge.far());
            self.each_chunk(&self.layout.id_space(far), i64::MIN..=i64::MAX, &mut |_, gathered| {
                gathered.each_key(&mut |id, kind, row| {
                    apart += u64::from(gathered.mark(far, row) != Mark::Unseen && !named.contains(&(kind, id)));
                    Ok(())
                })
            })?;
            counts.apart = Some(apart);
        }
        Ok(())
    }

    /// By key: the offset at the edge's second point that it belongs to.
    fn reached_by(
        &mut self,
        number: usize,
        edge: &Edge,
        kinds: &[i32],
        offsets: &[Offset],
        counts: &mut LinkCounts,
    ) -> Result<Vec<Option<i64>>, S::Error> {
        let keys = || kinds.iter().zip(offsets);
        let legal = keys().filter_map(|(&kind, offset)| match offset {
            Offset::At(at @ 0..) => Some((kind, *at)),
            _ => None,
        });
        let mut wanted: Vec<(i32, i64)> = legal.collect();
        wanted.sort_unstable();
        wanted.dedup();
        let reached = self.reach(number, edge.far(), &wanted)?;
        let is_next = |at: i64, offset: i64| at == offset || self.kept[edge.far()] == KeptStamps::All;
        let found = keys().map(|(&kind, offset)| {
            let (count, found) = match *offset {
                Offset::Absent => return None,
                Offset::Repeated => (&mut counts.repeated, None),
                Offset::At(..0) => (&mut counts.negative, None),
                Offset::At(at) => match wanted.binary_search(&(kind, at)).ok().and_then(|index| reached[index]) {
                    None => (&mut counts.unreached, None),
                    Some((offset, _)) if !is_next(at, offset) => (&mut counts.unreached, None),
                    Some((_, true)) => (&mut counts.repeated, None),
                    Some((offset, false)) => (&mut counts.matched, Some(offset)),
                },
            };
            *count += 1;
            found
        });
        Ok(found.collect())
    }

    /// The smallest offset at `point` that is not below each of `wanted`, sorted pairs of kind and offset.
    fn reach(&mut self, edge: usize, point: usize, wanted: &[(i32, i64)]) -> Result<Vec<Reached>, S::Error> {
        let mut found: Vec<Reached> = vec![None; wanted.len()];
        let offsets = || wanted.iter().map(|wanted| wanted.1);
        let (Some(first), Some(last)) = (offsets().min(), offsets().max()) else { return Ok(found) };
        self.read_offsets(point, first..=last, wanted, &mut found)?;
        let mut ends: Vec<i64> = self.source.extents(point)?.iter().map(|extent| extent.last).collect();
        ends.sort_unstable();
        ends.dedup();
        // The end of a kind's offsets may be far off; one that has ended is not looked for again.
        let is_last = |index: usize| wanted.get(index + 1).is_none_or(|next| next.0 != wanted[index].0);
        let lasts: Vec<usize> = (0..wanted.len()).filter(|&index| is_last(index)).collect();
        let open = |found: &[Reached], ended: &HashSet<(usize, i32)>| {
            let kinds = lasts.iter().filter(|&&index| found[index].is_none()).map(|&index| (edge, wanted[index].0));
            kinds.filter(|kind| !ended.contains(kind)).collect::<Vec<_>>()
        };
        let mut done = last;
        for end in ends.into_iter().filter(|&end| end > last) {
            if open(&found, &self.ended).is_empty() {
                break;
            }
            self.read_offsets(point, done + 1..=end, wanted, &mut found)?;
            done = end;
        }
        let ended = open(&found, &self.ended);
        self.ended.extend(ended);
        for index in (1..wanted.len()).rev().filter(|&index| wanted[index].0 == wanted[index - 1].0) {
            found[index - 1] = found[index - 1].or(found[index]);
        }
        Ok(found)
    }

    /// Takes the offsets of a window into the parts that `wanted` divides the stream into.
    fn read_offsets(
        &mut self,
        point: usize,
        window: RangeInclusive<i64>,
        wanted: &[(i32, i64)],
        found: &mut [Reached],
    ) -> Result<(), S::Error> {
        self.source.read(point, window.clone(), Columns::Keys, &mut |stamps| {
            for (index, &offset) in stamps.ids().iter().enumerate() {
                let (kind, last) = (stamps.kind(index), stamps.lasts().map_or(offset, |lasts| lasts[index]));
                let (offset, last) = (offset.max(*window.start()), last.min(*window.end()));
                let after = wanted.partition_point(|&wanted| wanted <= (kind, offset));
                let mut put = |part: usize, offset: i64| {
                    found[part] = match found[part] {
                        Some((least, repeated)) if least < offset => Some((least, repeated)),
                        Some((least, _)) if least == offset => Some((least, true)),
                        _ => Some((offset, false)),
                    };
                };
                if offset > last {
                    continue;
                }
                after
                    .checked_sub(1)
                    .filter(|&part| wanted[part].0 == kind)
                    .into_iter()
                    .for_each(|part| put(part, offset));
                // Of a stamp of many offsets each one that is wanted is reached by itself.
                let these = wanted[after..].iter().take_while(|&&wanted| wanted <= (kind, last));
                these.enumerate().for_each(|(at, wanted)| put(after + at, wanted.1));
            }
        })
    }

    /// The stamps, at all points that share the ids of `point`, of the ids found for the keys.
    fn linked_set(&mut self, point: usize, kinds: &[i32], found: &[Option<i64>]) -> Result<LinkedSet, S::Error> {
        let points = self.layout.id_space(point);
        let keys = || found.iter().zip(kinds).map(|(id, &kind)| Some((((*id)?), kind)));
        let mut row_of: HashMap<(i64, i32), Option<usize>> = keys().flatten().map(|key| (key, None)).collect();
        let mut traces = self.no_traces();
        let (first, last) = (row_of.keys().map(|key| key.0).min(), row_of.keys().map(|key| key.0).max());
        if let (Some(first), Some(last)) = (first, last) {
            let mut batch = self.no_traces();
            self.each_chunk(&points, first..=last, &mut |joiner, gathered| {
                gathered.emit(&Linked::NONE, &mut batch, joiner.limits.rows, &mut |batch| {
                    for row in 0..batch.len() {
                        if let Some(known @ None) = row_of.get_mut(&(batch.ids()[row], batch.kinds()[row])) {
                            *known = Some(traces.len());
                            traces.push_row(batch, row);
                        }
                    }
                    Ok(())
                })
            })?;
        }
        let rows = keys().map(|key| row_of.get(&key?).copied().flatten()).collect();
        Ok(LinkedSet { points, rows, traces })
    }
}

fn offset_of(id: i64, mark: Mark) -> Offset {
    match mark {
        Mark::Unseen => Offset::Absent,
        Mark::Once | Mark::OnceUntold => Offset::At(id),
        Mark::ByTime | Mark::ByThread | Mark::ByAttempt | Mark::SeveralUntold => Offset::Repeated,
    }
}
