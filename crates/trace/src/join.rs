//! The stamps of one id, side by side.
//!
//! Ids are mostly dense sequence numbers, so nothing is sorted or hashed: a stamp is *scattered* to slot `id - first`
//! of its point's column, O(1) a stamp whatever the order it arrives in; the same pass finds what is missing and what
//! came twice. (Measured on 99 million stamps, the same scatter took a half to a quarter of the CPU time of three
//! engines' joins.) Where ids are sparse - fewer than one in [`SPARSEST`] of the range is used - a hash table of the
//! keys takes the place of the subtraction. Memory stays bounded because ids are taken range by range.
//!
//! The key of a trace is (kind, id). Traces leave in the order (id, kind, occurrence), whichever way they were joined
//! and however the range was cut. Ids that passed some point several times are read once more, with the threads that
//! stamped them, and told apart passage by passage (`passages.rs`); a run without any pays nothing for that.
//!
//! A stamp may stand for several consecutive ids (`spans.rs`).
//!
//! Where a range edge leads from one set of ids to another, rows have the ids of its first point, and go on with the
//! offset that each belongs to; where parts and wholes meet, rows have the parts' ids, and go on with the whole
//! (`links.rs`); that is looked up for the rows of one range of ids at a time.
//!
//! Assumes: ticks of one point are of one domain, so "first" and "last" mean the smaller and the larger tick.
//! Guarantees: every stamp is counted; every key that any point saw is a trace; no sentinel (any tick is legal).
//! Deliberately absent: the time order of arrival. "Out of order" is judged by ticks, which is what happened, and does
//! not depend on how channels were written to files.

mod attempts;
mod batches;
mod links;
mod passages;
mod plan;
mod rows;
mod spans;
mod tally;

pub use attempts::AttemptContradiction;
pub use links::LinkCounts;
pub use passages::{MayPrecede, StampAt};
pub use spans::{MOST_SPANNED, SHORT_SPAN};
pub use tally::{JoinCounts, PointCounts};

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use crate::{Attribute, Columns, Extent, KeptStamps, Layout, LongSpans, Match, StampColumns, StampSource, Traces};
use batches::Gathered;
use plan::JoinPlan;
use rows::{Full, Rows, Slots};
use tally::Tally;

/// Below one used id in this many, ids are hashed: a slot of 9 bytes a point for each unused id then costs more memory
/// than the table's entry a used one. The same limit holds for kinds: with more of them, most slots would stay empty.
pub const SPARSEST: u64 = 8;

/// How much the join holds at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Keys (kind, id) whose stamps are held at once; one key with all its stamps is held whatever this says.
    pub keys: usize,
    /// Rows handed over at once; more only where one id has more occurrences.
    pub rows: usize,
}

impl Limits {
    /// Bytes of the slots of one chunk: with 10 points, 3.9 million ids.
    pub const DEFAULT_BYTES: usize = 600_000_000;

    /// As many keys as fit into `bytes` with so many `points`.
    pub fn within(bytes: usize, points: usize) -> Self {
        // A tick and its presence a point; a key, its row and the empty part of the table where keys are hashed.
        let key = points.saturating_mul(9).saturating_add(64);
        Self { keys: bytes / key, rows: 1 << 16 }.clamped()
    }

    /// At least one key, and no more rows than 32 bits number.
    fn clamped(self) -> Self {
        Self { keys: self.keys.clamp(1, 1 << 31), rows: self.rows.clamp(1, 1 << 31) }
    }
}

/// Joins the stamps of every point of `layout` and hands the traces to `sink`, a batch at a time, in the order (id,
/// kind, occurrence). `may_precede` is asked of stamps of ids that passed some point several times. Errors are those of
/// the source and of the sink.
pub fn join<S: StampSource>(
    layout: &Layout,
    source: &mut S,
    limits: Limits,
    may_precede: &MayPrecede<'_>,
    sink: &mut dyn FnMut(&Traces) -> Result<(), S::Error>,
) -> Result<JoinCounts, S::Error> {
    let mut attributes = Vec::new();
    for point in 0..layout.points().len() {
        attributes.extend(source.attributes(point)?.into_iter().map(|attribute| (point, attribute)));
    }
    let limits = limits.clamped();
    let mut joiner = Joiner::new(layout, source, limits, may_precede, attributes)?;
    let mut tally = Tally::new(layout);
    let mut batch = joiner.no_traces();
    let points = layout.id_space(layout.root());
    joiner.each_chunk(&points, i64::MIN..=i64::MAX, &mut |joiner, gathered| {
        tally.add_stamps(gathered);
        let linked = joiner.link(gathered, tally.links())?;
        tally.add_ambiguous(gathered.ambiguous());
        tally.add_contradictions(gathered);
        gathered.emit(&linked, &mut batch, limits.rows, &mut |traces| {
            tally.add_traces(traces);
            sink(traces)
        })
    })?;
    joiner.count_apart(tally.links())?;
    joiner.unexpanded().into_iter().enumerate().for_each(|(point, ids)| tally.add_unexpanded(point, ids));
    for point in (0..layout.points().len()).filter(|&point| !points.contains(&point)) {
        tally.add_stamps_beyond(point, joiner.source.extents(point)?.iter().map(|extent| extent.stamps).sum());
    }
    Ok(tally.counts())
}

/// State of a join while it goes on.
struct Joiner<'a, S> {
    layout: &'a Layout,
    source: &'a mut S,
    limits: Limits,
    may_precede: &'a MayPrecede<'a>,
    /// Attributes of the stamps of each point.
    attributes: Vec<(usize, Attribute)>,
    /// By range edge, kinds of whose offsets the last one was read.
    ended: HashSet<(usize, i32)>,
    /// By edge of parts: the wholes that parts named, as kind and id; absent where they are too many.
    named: HashMap<usize, HashSet<(i32, i64)>>,
    /// By point: what its stamps of many ids stand for.
    long: Vec<LongSpans>,
    /// By point: ids of those that other stamps have, and how many more may be looked at.
    tails: Vec<(u64, u64)>,
    /// Ids that two things have, sorted.
    ambiguous: Vec<i64>,
    /// By point: which of its stamps are there.
    kept: Vec<KeptStamps>,
    /// Slots of the chunk before, whose memory the next one takes over.
    spare: Vec<Slots>,
}

/// Receiver of each chunk.
type Visit<'a, J, E> = dyn FnMut(&mut J, &Gathered) -> Result<(), E> + 'a;

impl<'a, S: StampSource> Joiner<'a, S> {
    fn new(
        layout: &'a Layout,
        source: &'a mut S,
        limits: Limits,
        may_precede: &'a MayPrecede<'a>,
        attributes: Vec<(usize, Attribute)>,
    ) -> Result<Self, S::Error> {
        let points = layout.points().len();
        let long = (0..points).map(|point| source.long_spans(point)).collect::<Result<Vec<_>, _>>()?;
        let ambiguous = source.ambiguous_ids()?;
        let kept = (0..points).map(|point| source.kept_stamps(point)).collect::<Result<Vec<_>, _>>()?;
        let of_parts = layout.links().into_iter().enumerate().filter(|(_, edge)| edge.by != Match::Range);
        let named = of_parts.map(|(number, _)| (number, HashSet::new())).collect();
        let tails = vec![(0, MOST_SPANNED); points];
        Ok(Self {
            layout,
            source,
            limits,
            may_precede,
            attributes,
            ended: HashSet::new(),
            named,
            long,
            tails,
            ambiguous,
            kept,
            spare: Vec::new(),
        })
    }

    /// By point: ids of stamps of many that have no trace.
    fn unexpanded(&self) -> Vec<u64> {
        let left = |(long, tails): (&LongSpans, &(u64, u64))| {
            if long.are_whole() {
                0
            } else {
                long.ids - long.stamps.min(long.ids) - tails.0.min(long.ids - long.stamps)
            }
        };
        self.long.iter().zip(&self.tails).map(left).collect()
    }

    /// Gathers the stamps that `points`, which share their ids, have in `ids`, chunk by chunk in the order of ids.
    fn each_chunk(
        &mut self,
        points: &[usize],
        ids: RangeInclusive<i64>,
        visit: &mut Visit<'_, Self, S::Error>,
    ) -> Result<(), S::Error> {
        let all = self.layout.points().len();
        let mut extents = vec![Vec::new(); all];
        for &point in points {
            let within = self.source.extents(point)?.into_iter().map(|extent| Extent {
                first: extent.first.max(*ids.start()),
                last: extent.last.min(*ids.end()),
                ..extent
            });
            extents[point] = within.filter(|extent| extent.first <= extent.last).collect();
        }
        let mut plan = JoinPlan::new(&extents, self.limits);
        let whole: Vec<bool> = self.long.iter().map(|long| long.are_whole()).collect();
        while let Some(chunk) = plan.next() {
            let spare = std::mem::take(&mut self.spare);
            let mut rows = Rows::new(&whole, points, &self.attributes, &chunk, self.limits).in_memory_of(spare);
            let left = self.tails.iter().map(|tails| tails.1).collect();
            let columns = self.columns();
            match gather(&mut rows, self.source, chunk.ids(), columns, left)? {
                Some(Full::Keys) => plan.halve(chunk),
                Some(Full::Kinds) => plan.hash(chunk),
                None => {
                    let tails = rows.tails_of(&mut self.tails);
                    debug_assert!(tails <= MOST_SPANNED * all as u64);
                    let ambiguous = within(&self.ambiguous, chunk.ids());
                    let gathered = rows.finish(self.layout, self.may_precede, &self.kept, ambiguous);
                    visit(self, &gathered)?;
                    self.spare = gathered.into_slots();
                }
            }
        }
        Ok(())
    }

    /// The columns that are read of every stamp. Where a policy left stamps out, an id with one stamp at each point
    /// may still say that these are of several passages.
    fn columns(&self) -> Columns {
        if self.kept.contains(&KeptStamps::Any) { Columns::KeysAndAttempts } else { Columns::Keys }
    }

    fn no_traces(&self) -> Traces {
        Traces::empty(self.layout.points().len(), &self.attributes)
    }
}

/// Reads the stamps of a chunk, point by point, until it turns out not to fit.
fn gather<S: StampSource>(
    rows: &mut Rows,
    source: &mut S,
    ids: RangeInclusive<i64>,
    columns: Columns,
    left: Vec<u64>,
) -> Result<Option<Full>, S::Error> {
    let full = read(rows, source, ids.clone(), columns, Rows::put)?;
    if full.is_none() && rows.has_tails {
        rows.begin_tails(left);
        read(rows, source, ids.clone(), Columns::KeysAndThreads, Rows::put_tails)?;
    }
    if full.is_some() || !rows.find_repeated() {
        return Ok(full);
    }
    read(rows, source, ids, Columns::KeysAndThreads, Rows::put_repeated)
}

/// Those of some sorted ids that lie in a chunk.
fn within(sorted: &[i64], ids: RangeInclusive<i64>) -> &[i64] {
    let from = sorted.partition_point(|id| id < ids.start());
    let length = sorted[from..].partition_point(|id| id <= ids.end());
    &sorted[from..from + length]
}

fn read<S: StampSource>(
    rows: &mut Rows,
    source: &mut S,
    ids: RangeInclusive<i64>,
    columns: Columns,
    put: fn(&mut Rows, usize, StampColumns<'_>) -> Result<(), Full>,
) -> Result<Option<Full>, S::Error> {
    for point in rows.of().to_vec() {
        let mut full = None;
        source.read(point, ids.clone(), columns, &mut |stamps| {
            if full.is_none() {
                full = put(rows, point, stamps).err();
            }
        })?;
        if full.is_some() {
            return Ok(full);
        }
    }
    Ok(None)
}
