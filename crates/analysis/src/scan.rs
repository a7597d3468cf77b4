//! One pass over a run's traces, on as many processors as there are: what is counted, values, rows to be written.
//!
//! Idea: row groups are dealt out in rounds, one to each worker; within a group a worker looks at a piece of rows at a time,
//! small enough that their columns stay in the processor's cache. Guarantees: figures, suspicions and written rows are the
//! same for any number of workers: what depends on order is merged in the order of the groups.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::Range;
use std::thread;

use tickscope_store::{KeyedReader, KeyedRows, KeyedWriter, Sparse};
use tickscope_trace::{
    Column, Durations, Layout, Marks, Reconstruction, Role, StageDurations, StageTally, StageValues, Traces,
    reconstruct, tally,
};

use crate::analysis::Prepared;
use crate::auxiliary_clocks::Widths;
use crate::error::Error;
use crate::figures::Collector;
use crate::passages::PassageSummary;
use crate::truth::Truth;

/// Rows looked at together.
const PIECE_ROWS: usize = 1 << 11;

/// What is wanted of a pass beside what it counts.
pub(crate) struct Wanted<'a> {
    /// Each stage's values, for order statistics.
    pub values: bool,
    /// What a page draws of single traces.
    pub figures: bool,
    /// Who is given the durations, in the order of the traces.
    pub rows: Option<&'a mut KeyedWriter>,
    /// What durations are held against.
    pub truth: Option<Truth>,
}

/// What is counted of some traces.
#[derive(Clone)]
pub(crate) struct Counts {
    /// By stage.
    pub tallies: Vec<StageTally>,
    /// By point.
    pub published: Vec<Reconstruction>,
    /// By clock beside the counters.
    pub widths: Vec<Widths>,
    pub truth: Option<Truth>,
    /// Ids that passed some point more than once.
    pub passages: PassageSummary,
    /// Traces whose path stages do not sum to the whole.
    pub sum_mismatches: u64,
    /// What a page draws of single traces, where it is wanted.
    pub figures: Option<Collector>,
}

/// What one pass gathers of all traces.
pub(crate) struct Pass {
    pub counts: Counts,
    workers: Vec<Worker>,
}

/// What a worker has to itself.
struct Worker {
    readers: Vec<KeyedReader>,
    /// By stage, of all groups that were this worker's; none where they are not wanted.
    values: Vec<StageValues>,
}

/// Goes over all traces.
pub(crate) fn over(prepared: &Prepared, readers: &[KeyedReader], wanted: Wanted<'_>) -> Result<Pass, Error> {
    let Wanted { values, figures, rows: mut writer, truth } = wanted;
    let stages = if values { prepared.layout.stages().len() } else { 0 };
    let groups = readers.iter().enumerate();
    let groups: Vec<(usize, usize)> =
        groups.flat_map(|(reader, table)| (0..table.groups()).map(move |group| (reader, group))).collect();
    let workers = processors().min(groups.len().max(1));
    let mut workers = (0..workers).map(|_| Worker::new(readers, stages)).collect::<Result<Vec<_>, Error>>()?;
    let none = Counts { figures: figures.then(Collector::default), ..Counts::none(prepared, readers, truth) };
    let (mut counts, writes) = (none.clone(), writer.is_some());
    for round in groups.chunks(workers.len()) {
        let parts = in_parallel(round.iter().zip(&mut workers), |(&(reader, group), worker)| {
            let keyed = worker.readers[reader].read_group(group)?;
            let mut counts = none.clone();
            let rows = counts.add_group(prepared, &keyed, &mut worker.values, writes)?;
            Ok::<_, Error>((counts, KeyedRows { columns: rows, ..keyed }))
        });
        for part in parts {
            let (more, rows) = part?;
            counts.merge(more);
            if let Some(writer) = &mut writer {
                writer.write(rows)?;
            }
        }
    }
    Ok(Pass { counts, workers })
}

impl Pass {
    /// What `finish` makes of the values of each stage, by stage; in parallel, since order statistics take as long as the
    /// pass.
    pub fn finish_stages<R: Send>(&mut self, finish: impl Fn(usize, StageValues) -> R + Sync) -> Vec<R> {
        let stages = self.counts.tallies.len();
        let mut results = Vec::with_capacity(stages);
        for first in (0..stages).step_by(processors()) {
            let some: Vec<_> =
                (first..stages.min(first + processors())).map(|stage| (stage, self.take(stage))).collect();
            results.extend(in_parallel(some.into_iter(), |(stage, parts)| {
                let whole = parts.into_iter().reduce(|mut all, more| {
                    all.append(more);
                    all
                });
                finish(stage, whole.unwrap_or_default())
            }));
        }
        results
    }

    /// The values of one stage, by worker: an order statistic does not ask for their order.
    fn take(&mut self, stage: usize) -> Vec<StageValues> {
        self.workers.iter_mut().filter_map(|worker| worker.values.get_mut(stage).map(std::mem::take)).collect()
    }
}

impl Worker {
    fn new(readers: &[KeyedReader], stages: usize) -> Result<Self, Error> {
        let readers = readers.iter().map(KeyedReader::again).collect::<Result<_, _>>()?;
        Ok(Self { readers, values: vec![StageValues::default(); stages] })
    }
}

impl Counts {
    fn none(prepared: &Prepared, readers: &[KeyedReader], truth: Option<Truth>) -> Self {
        Self {
            tallies: vec![StageTally::default(); prepared.layout.stages().len()],
            published: vec![Reconstruction::default(); prepared.layout.points().len()],
            widths: vec![Widths::default(); prepared.auxiliary_clocks.len()],
            truth,
            passages: PassageSummary::none(&prepared.layout, readers),
            sum_mismatches: 0,
            figures: None,
        }
    }

    fn merge(&mut self, later: Self) {
        self.tallies.iter_mut().zip(&later.tallies).for_each(|(all, more)| all.merge(more));
        self.published.iter_mut().zip(&later.published).for_each(|(all, more)| all.merge(*more));
        self.widths.iter_mut().zip(&later.widths).for_each(|(all, more)| all.merge(more));
        if let (Some(truth), Some(more)) = (&mut self.truth, &later.truth) {
            truth.known += more.known;
            truth.inside += more.inside;
        }
        self.passages.merge(&later.passages);
        self.sum_mismatches += later.sum_mismatches;
        if let (Some(figures), Some(more)) = (&mut self.figures, later.figures) {
            figures.merge(more);
        }
    }

    /// Adds one row group; returns its columns of durations, or none unless `writes`.
    fn add_group(
        &mut self,
        prepared: &Prepared,
        keyed: &KeyedRows,
        values: &mut [StageValues],
        writes: bool,
    ) -> Result<Vec<Sparse<i64>>, Error> {
        let columns = if writes { 3 * self.tallies.len() } else { 0 };
        let mut columns = vec![Sparse::default(); columns];
        let mut points: Vec<_> = keyed.columns.iter().map(Sparse::iter).collect();
        let marks = marks(keyed)?;
        let mut first = 0;
        while first < keyed.len() {
            let piece = first..piece_end(keyed, first);
            first = piece.end;
            let ticks =
                points.iter_mut().map(|point| point.by_ref().take(piece.len()).map(Option::<&i64>::copied).collect());
            let of_piece = marks.range(piece.clone()).map(|(row, marks)| (row - piece.start, marks.clone()));
            let traces = traces(keyed, piece.clone(), ticks.collect())?.with_marks(of_piece).map_err(Error::work)?;
            let durations = Durations::of(&prepared.layout, &prepared.clocks, &traces).map_err(Error::work)?;
            self.add(prepared, &traces, &durations);
            for (stage, values) in values.iter_mut().enumerate() {
                values.add(&prepared.layout, &traces, &durations, stage);
            }
            append(&mut columns, &durations);
        }
        Ok(columns)
    }

    fn add(&mut self, prepared: &Prepared, traces: &Traces, durations: &Durations) {
        let Prepared { layout, clocks, clock_of_point, .. } = prepared;
        tally(layout, clocks, traces, durations, &mut self.tallies);
        if let Some(truth) = &mut self.truth {
            truth.compare(layout, traces, durations);
        }
        reconstruct(clocks, traces, durations, &mut self.published);
        for (point, clock) in clock_of_point.iter().enumerate() {
            if let (Some(clock), Some(stamps)) = (clock, durations.own(point)) {
                self.widths[*clock].add(stamps);
            }
        }
        self.passages.add(traces);
        self.sum_mismatches += mismatches(layout, traces, durations);
        if let Some(figures) = &mut self.figures {
            figures.add(layout, traces, durations);
        }
    }
}

/// Where a piece that begins at `first` ends: never between two traces of one id.
fn piece_end(keyed: &KeyedRows, first: usize) -> usize {
    let end = keyed.len().min(first + PIECE_ROWS);
    end + keyed.occurrence[end..].iter().take_while(|&&occurrence| occurrence > 0).count()
}

/// The marks of traces whose ids passed some point more than once, by row.
pub(crate) fn marks(keyed: &KeyedRows) -> Result<BTreeMap<usize, Marks>, Error> {
    if keyed.passages.is_all_null() {
        return Ok(BTreeMap::new());
    }
    let rows = keyed.passages.iter().enumerate();
    rows.filter_map(|(row, text)| Some((row, text?)))
        .map(|(row, text)| {
            let marks = Marks::parse(text);
            let wrong = || Error::work(format!("traces: expected a mark a point, found '{text}'. Join the run again"));
            Ok((row, marks.ok_or_else(wrong)?))
        })
        .collect()
}

fn traces(keyed: &KeyedRows, piece: Range<usize>, ticks: Vec<Column>) -> Result<Traces, Error> {
    let (kinds, ids) = (keyed.kind[piece.clone()].to_vec(), keyed.id[piece.clone()].to_vec());
    Traces::new(kinds, ids, keyed.occurrence[piece].to_vec(), ticks).map_err(Error::work)
}

fn append(columns: &mut [Sparse<i64>], durations: &Durations) {
    let values = durations.stages().iter().flat_map(StageDurations::columns);
    for (column, values) in columns.iter_mut().zip(values) {
        (0..values.len()).for_each(|row| column.push(values.get(row)));
    }
}

/// Traces whose path stages do not sum to the whole exactly: there are none, and the table says that it was looked at.
fn mismatches(layout: &Layout, traces: &Traces, durations: &Durations) -> u64 {
    let estimate = |stage: usize, row| durations.stages()[stage].estimate.get(row);
    let stages = layout.stages().iter().enumerate().filter(|(_, stage)| stage.role == Role::EndToEnd);
    let routes: Vec<_> = stages.map(|(whole, stage)| (whole, layout.route(stage))).collect();
    let differs = |&row: &usize| {
        routes.iter().any(|(whole, route)| {
            let sum: Option<i64> = route.iter().map(|&stage| estimate(stage, row)).sum();
            sum.is_some() && sum != estimate(*whole, row)
        })
    };
    (0..traces.len()).filter(differs).count() as u64
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// One thread a piece of work; results in the order of the work.
fn in_parallel<W: Send, R: Send>(work: impl ExactSizeIterator<Item = W>, each: impl Fn(W) -> R + Sync) -> Vec<R> {
    if work.len() == 1 {
        return work.map(each).collect();
    }
    thread::scope(|scope| {
        let each = &each;
        let threads: Vec<_> = work.map(|one| scope.spawn(move || each(one))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}
