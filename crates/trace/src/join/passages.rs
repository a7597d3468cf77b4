//! The passages of one id that was stamped more than once at some point: which stamp here belongs to which there.
//!
//! Each point is held against the one before it in the layout: the nearest that every way to it passes and that saw the
//! id. One stamp there: all
//! stamps here come from it, as with a fan-out or a datagram that the network doubled. Several there: every passage has
//! one stamp at most at either point and comes to this one later. If only one assignment obeys that, it is taken: with
//! both sides in order of time, the k-th here can then come from the first k there and from no later one. Where the
//! stamps of both points say which attempt of the id each was, that alone decides (`attempts.rs`). Where
//! passages overlap, they are told apart by thread: if every stamp here follows one of its own thread there, and within
//! each thread only one assignment is left, a passage is taken to have stayed on its thread. Anything else is *untold*:
//! no duration between the two points is made of it.
//!
//! A policy may keep one stamp of an id and leave out another ([`KeptStamps::Any`]). What is left out did happen: such
//! a point never shows how many passages there were, and neither one stamp there nor the order of several tells which
//! of them is whose. So of an id that is known to have several passages, stamps are paired *from* such a point by
//! attempt alone; *to* it they are paired as ever, since the point before shows all that can have come.
//!
//! A trace follows one passage. Where passages part, at the first point or after a single stamp, the rule of the
//! point says which is followed, of those that came furthest: an attempt that failed on the way is no id's trace where
//! another arrived.
//!
//! Assumes: a passage that came to a point has a stamp at those before it where any passage of its id has one; stamps
//! that were lost are events, and may make this false; so may policies for an id of which
//! no point has several stamps and no stamp says that it was retried. Deliberately absent: guesses; and any use of
//! points further away than the one before.

use std::collections::HashMap;

use super::attempts::{AttemptContradiction, ByAttempt};
use crate::marks::{Mark, Marks};
use crate::{Attribute, KeptStamps, Layout, Rule};

/// A stamp, by the index of its point in the layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StampAt {
    /// The point.
    pub point: usize,
    /// The raw tick.
    pub tick: i64,
}

/// Test whether the first stamp may have been taken before the second, or when it was, for all that is known of their
/// clocks.
pub type MayPrecede<'a> = dyn Fn(StampAt, StampAt) -> bool + 'a;

/// A stamp with the thread that took it, where it is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Threaded {
    pub point: usize,
    pub tick: i64,
    /// Transmissions of the id before it.
    pub attempt: Option<i32>,
    pub thread: Option<u32>,
    pub attributes: [Option<i64>; Attribute::COUNT],
}

/// The traces of one id.
#[derive(Debug)]
pub(super) struct Passages {
    pub marks: Marks,
    /// By trace, then by point: the stamp.
    pub traces: Vec<Vec<Option<Threaded>>>,
    /// An attempt whose stamps cannot be.
    pub contradiction: Option<AttemptContradiction>,
}

impl StampAt {
    pub(super) fn of(stamp: &Threaded) -> Self {
        Self { point: stamp.point, tick: stamp.tick }
    }
}

/// How the stamps of a point come from those of the point before it.
enum Link {
    Unseen,
    /// Nothing lies before, or nothing tells which stamp there is whose.
    Free,
    /// All come from the one stamp of that point.
    From(usize),
    /// By stamp of that point: the one here.
    Matched(usize, Vec<Option<usize>>),
}

/// The stamps of one id.
pub(super) struct Id<'a> {
    layout: &'a Layout,
    may_precede: &'a MayPrecede<'a>,
    /// By point.
    kept: &'a [KeptStamps],
    /// By point, in order of ticks.
    pub(super) stamps: Vec<&'a [Threaded]>,
}

impl Passages {
    /// The passages of an id with these stamps, sorted; `kept`: by point, which stamps are there.
    pub fn of(layout: &Layout, may_precede: &MayPrecede<'_>, kept: &[KeptStamps], stamps: &[Threaded]) -> Self {
        let mut by_point: Vec<&[Threaded]> = vec![&[]; layout.points().len()];
        for group in stamps.chunk_by(|a, b| a.point == b.point) {
            by_point[group[0].point] = group;
        }
        let id = Id { layout, may_precede, kept, stamps: by_point };
        let mut contradiction = None;
        let links = (0..id.stamps.len()).map(|point| id.link(point, &mut contradiction));
        let (marks, links): (Vec<Mark>, Vec<Link>) = links.unzip();
        let stamp = |(point, chosen): (usize, &Option<usize>)| chosen.map(|index| id.stamps[point][index]);
        let traces = id.follow(&links);
        let traces = traces.iter().map(|chosen| chosen.iter().enumerate().map(stamp).collect()).collect();
        Self { marks: Marks::new(marks), traces, contradiction }
    }
}

impl Id<'_> {
    fn link(&self, point: usize, contradiction: &mut Option<AttemptContradiction>) -> (Mark, Link) {
        let here = self.stamps[point];
        let [told, untold] = match here.len() {
            0 => return (Mark::Unseen, Link::Unseen),
            1 if self.shows_all(point) => [Mark::Once, Mark::OnceUntold],
            _ => [Mark::ByTime, Mark::SeveralUntold], // or one of several, whose others were left out
        };
        let Some(before) = self.before(point) else { return (told, Link::Free) };
        let there = self.stamps[before];
        match self.by_attempt(before, here) {
            ByAttempt::Told(matched) => return (Mark::ByAttempt, Link::Matched(before, matched)),
            ByAttempt::Untold(found) => {
                *contradiction = contradiction.or(found);
                return (untold, Link::Free);
            }
            ByAttempt::Unsaid if !self.shows_all(before) => return (untold, Link::Free),
            ByAttempt::Unsaid => {}
        }
        let earlier = |&stamp: &Threaded| !self.may_precede(there[0], stamp);
        if there.len() == 1 && here.len() > 1 && here.iter().any(earlier) {
            return (untold, Link::Free); // it comes from a passage without a stamp there, and so may others
        }
        if there.len() == 1 {
            return (told, Link::From(before));
        }
        if self.one_by_one(there, here) {
            let matched = (0..there.len()).map(|index| (index < here.len()).then_some(index));
            return (told, Link::Matched(before, matched.collect()));
        }
        match self.within(there, here, |stamp| stamp.thread) {
            Some(matched) => (Mark::ByThread, Link::Matched(before, matched)),
            None => (untold, Link::Free),
        }
    }

    /// Returns whether every passage of the id that came to the point has its stamp there, but for lost ones.
    pub(super) fn shows_all(&self, point: usize) -> bool {
        self.kept[point] != KeptStamps::Any
    }

    /// The point that an id comes to before `point`: the nearest on the way back that saw it, else the first that did.
    fn before(&self, point: usize) -> Option<usize> {
        let seen = |&at: &usize| !self.stamps[at].is_empty();
        let way = self.layout.way_back(point);
        way.into_iter().skip(1).find(seen).or_else(|| (0..point).find(seen))
    }

    /// Returns whether the k-th stamp here comes from the k-th there in the only way to assign them: no later one can
    /// precede it.
    fn one_by_one(&self, there: &[Threaded], here: &[Threaded]) -> bool {
        // A clock that was set back reads in another order than that of time.
        let apart = |stamps: &[Threaded]| stamps.windows(2).all(|two| !self.may_precede(two[1], two[0]));
        here.len() <= there.len()
            && apart(&there[..there.len().min(here.len() + 1)])
            && apart(here)
            && here.iter().enumerate().all(|(index, &stamp)| {
                let later = there.get(index + 1);
                self.may_precede(there[index], stamp) && later.is_none_or(|&later| !self.may_precede(later, stamp))
            })
    }

    /// By stamp there: the one here with the same key, if that is so for all here in exactly one way.
    pub(super) fn within(
        &self,
        there: &[Threaded],
        here: &[Threaded],
        key: fn(&Threaded) -> Option<u32>,
    ) -> Option<Vec<Option<usize>>> {
        let (earlier, later) = (by_key(there, key)?, by_key(here, key)?);
        let mut matched = vec![None; there.len()];
        for (key, of_here) in &later {
            let of_there = earlier.get(key)?;
            let pick = |stamps: &[Threaded], of: &[usize]| of.iter().map(|&index| stamps[index]).collect::<Vec<_>>();
            if !self.one_by_one(&pick(there, of_there), &pick(here, of_here)) {
                return None;
            }
            of_there.iter().zip(of_here).for_each(|(&from, &to)| matched[from] = Some(to));
        }
        Some(matched)
    }

    pub(super) fn may_precede(&self, first: Threaded, second: Threaded) -> bool {
        (self.may_precede)(StampAt::of(&first), StampAt::of(&second))
    }

    /// Traces as the indices of their stamps, by point.
    fn follow(&self, links: &[Link]) -> Vec<Vec<Option<usize>>> {
        let mut traces = vec![vec![None; links.len()]];
        for (point, link) in links.iter().enumerate() {
            match link {
                Link::Unseen => {}
                Link::Matched(before, matched) => {
                    traces.iter_mut().for_each(|trace| trace[point] = trace[*before].and_then(|from| matched[from]));
                }
                Link::From(before) => self.part(point, Some(*before), self.taken(point, links), &mut traces),
                Link::Free => self.part(point, None, self.taken(point, links), &mut traces),
            }
        }
        traces
    }

    /// The stamps at `point` whose passages become traces: of those that are known to come furthest, as
    /// the rule of the point has it.
    fn taken(&self, point: usize, links: &[Link]) -> Vec<usize> {
        let all = 0..self.stamps[point].len();
        let rule = self.layout.points()[point].rule;
        if rule == Rule::All || all.len() == 1 {
            return all.collect();
        }
        let reach: Vec<usize> = all.clone().map(|index| self.reach(point, index, links)).collect();
        let furthest = reach.iter().copied().max();
        let mut these = all.filter(|&index| Some(reach[index]) == furthest);
        if rule == Rule::First { these.next() } else { these.next_back() }.into_iter().collect()
    }

    /// How deep in the graph the passage with this stamp is known to have come.
    fn reach(&self, point: usize, index: usize, links: &[Link]) -> usize {
        let mut known = vec![None; links.len()];
        known[point] = Some(index);
        for (next, link) in links.iter().enumerate().take(self.layout.trunk().len()).skip(point + 1) {
            if let Link::Matched(before, matched) = link {
                known[next] = known[*before].and_then(|stamp| matched[stamp]);
            }
        }
        let depths = known.iter().enumerate().filter(|(_, stamp)| stamp.is_some());
        depths.map(|(at, _)| self.layout.depth(at)).max().unwrap_or(0)
    }

    /// Passages part at `point`: the first one taken goes on with the first trace that came to `before`, the
    /// second with the next one, and so on; the only one with all. What is left over begins traces of its own.
    fn part(&self, point: usize, before: Option<usize>, taken: Vec<usize>, traces: &mut Vec<Vec<Option<usize>>>) {
        let only = if let [only] = taken[..] { Some(only) } else { None };
        let mut taken = taken.into_iter();
        let mut end = None;
        for (row, trace) in traces.iter_mut().enumerate() {
            if before.is_none_or(|before| trace[before].is_some()) {
                trace[point] = only.or_else(|| taken.next());
                end = Some(row + 1);
            }
        }
        let Some(end) = end.filter(|_| only.is_none()) else { return };
        let way = before.map_or(Vec::new(), |before| self.layout.way_back(before));
        let shared = |at: usize, of: &[Option<usize>]| {
            of[at].filter(|_| at < point && (way.contains(&at) || self.stamps[at].len() == 1))
        };
        let of = traces[end - 1].clone();
        let begun = taken.map(|index| {
            let mut trace: Vec<_> = (0..of.len()).map(|at| shared(at, &of)).collect();
            trace[point] = Some(index);
            trace
        });
        let begun: Vec<_> = begun.collect();
        traces.splice(end..end, begun);
    }
}

/// Indices of the stamps of each thread or attempt; `None` where that of one is not known.
pub(super) fn by_key(stamps: &[Threaded], key: fn(&Threaded) -> Option<u32>) -> Option<HashMap<u32, Vec<usize>>> {
    let mut found: HashMap<u32, Vec<usize>> = HashMap::new();
    for (index, stamp) in stamps.iter().enumerate() {
        found.entry(key(stamp)?).or_default().push(index);
    }
    Some(found)
}
