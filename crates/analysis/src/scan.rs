//! One scan over a run's traces, on as many processors as there are, for whoever wants something of them: a [`Sink`].
//!
//! Idea: row groups are dealt out in rounds, one to each worker; within a group a worker looks at a piece of rows at
//! a time, small enough that their columns stay in the processor's cache, and shows it to the sink's [`Part`] for
//! that group. Assumes: a sink that grows with the run does so knowingly. Guarantees: every trace is seen once; parts
//! are merged in the order of the groups, so what a sink gathers does not depend on the number of workers; a group's
//! memory is given back with its part; attributes of stamps are read only where a sink asks for them. Deliberately
//! absent: what is gathered. Sinks stand in files of their own and are composed as tuples and options.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::Range;
use std::thread;

use tickscope_store::{Channel, KeyedReader, KeyedRows, Run};
use tickscope_trace::{Attribute, Clocks, Column, Durations, Layout, Marks, StageRole, Traces};

use crate::Query;
use crate::clock_maps::ClockMapSummary;
use crate::counters::reference_node;
use crate::error::Error;
use crate::figures::ClockMapCurve;
use crate::inputs::{Inputs, traces_of};
use crate::span::Span;

/// Rows looked at together.
const PIECE_ROWS: usize = 1 << 11;

/// Gathers something of all traces of a run.
pub trait Sink {
    /// The part gathered from one row group.
    type Part: Part;

    /// A part that has seen nothing yet.
    fn part(&self) -> Self::Part;

    /// Takes the part of the next row group, in the order of the traces.
    fn merge(&mut self, part: Self::Part) -> Result<(), Error>;

    /// The attributes of stamps that its parts read.
    fn wanted(&self) -> Vec<Wanted> {
        Vec::new()
    }
}

/// An attribute of the stamps of one point.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Wanted {
    /// The point's index in the layout.
    pub point: usize,
    /// The attribute of its stamps.
    pub attribute: Attribute,
}

/// The part of a [`Sink`] gathered from one row group, on whichever thread reads it.
pub trait Part: Send {
    /// Looks at the next traces of the group; all traces of one id come together.
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error>;

    /// It has seen the whole group; still on the thread that reads it.
    fn end(&mut self) {}
}

/// Some traces and their durations.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The points, and the stages between them.
    pub layout: &'a Layout,
    /// The clock of every point.
    pub clocks: &'a Clocks,
    /// Kinds, ids, occurrences and raw ticks.
    pub traces: &'a Traces,
    /// Every stage of each trace: estimate, lower and upper end, in ticks of the reference.
    pub durations: &'a Durations,
    /// Number of its first trace among all of the run, from 0.
    pub number: u64,
    attributes: &'a BTreeMap<Wanted, Column>,
    /// Where it begins in the columns of the attributes.
    first: usize,
}

/// Outcome of one stage of one trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It has a duration, which counts.
    Measured,
    /// It has a duration that cannot be: even the upper end is negative on the path. It counts.
    Impossible,
    /// The duration, or its absence, of the trace before it of the same id and the same two stamps: not counted again.
    Repeated,
    /// It lacks one of its two stamps.
    Missing,
    /// It has both stamps, and no interval.
    Refused,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 5] = [Self::Measured, Self::Impossible, Self::Repeated, Self::Missing, Self::Refused];

    /// Its name in what is exported.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Impossible => "impossible",
            Self::Repeated => "repeated",
            Self::Missing => "missing",
            Self::Refused => "refused",
        }
    }
}

impl Piece<'_> {
    /// An attribute of the stamp in that row; `None`: the stamp has none, or the sink did not ask for it.
    pub fn attribute(&self, wanted: Wanted, row: usize) -> Option<i64> {
        self.attributes.get(&wanted)?.get(self.first + row)
    }

    /// When the stamp of a point in that row was taken, in ticks of the reference; `None`: there is no stamp, or
    /// nothing bounds it.
    pub fn instant(&self, point: usize, row: usize) -> Option<Span> {
        let raw = self.traces.points().get(point)?.get(row)?;
        let [estimate, lo, hi] = self.clocks.instant(point, raw)?;
        Some(Span { estimate, lo, hi })
    }

    /// Outcome of the stage with that index in that row, as the table counts it, and its duration if it has one.
    pub fn outcome(&self, stage: usize, row: usize) -> (Outcome, Option<Span>) {
        let Self { layout, traces, durations, .. } = self;
        let (of, span) = (&layout.stages()[stage], Span::of(&durations.stages()[stage], row));
        let stamped = |point: usize| traces.points()[point].get(row).is_some();
        let on_path = matches!(of.role, StageRole::Path | StageRole::EndToEnd);
        let outcome = match span {
            _ if traces.repeats(row, [of.from, of.to]) => Outcome::Repeated,
            Some(span) if on_path && span.hi < 0 && !layout.is_inferred() => Outcome::Impossible,
            Some(_) => Outcome::Measured,
            None if stamped(of.from) && stamped(of.to) => Outcome::Refused,
            None => Outcome::Missing,
        };
        (outcome, span)
    }
}

impl Part for () {
    fn add(&mut self, _: &Piece<'_>) -> Result<(), Error> {
        Ok(())
    }
}

impl Sink for () {
    type Part = ();

    fn part(&self) {}

    fn merge(&mut self, (): ()) -> Result<(), Error> {
        Ok(())
    }
}

impl<S: Sink> Sink for &mut S {
    type Part = S::Part;

    fn part(&self) -> Self::Part {
        S::part(self)
    }

    fn merge(&mut self, part: Self::Part) -> Result<(), Error> {
        S::merge(self, part)
    }

    fn wanted(&self) -> Vec<Wanted> {
        S::wanted(self)
    }
}

impl<A: Part, B: Part> Part for (A, B) {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        self.0.add(piece)?;
        self.1.add(piece)
    }

    fn end(&mut self) {
        self.0.end();
        self.1.end();
    }
}

impl<A: Sink, B: Sink> Sink for (A, B) {
    type Part = (A::Part, B::Part);

    fn part(&self) -> Self::Part {
        (self.0.part(), self.1.part())
    }

    fn merge(&mut self, part: Self::Part) -> Result<(), Error> {
        self.0.merge(part.0)?;
        self.1.merge(part.1)
    }

    fn wanted(&self) -> Vec<Wanted> {
        [self.0.wanted(), self.1.wanted()].concat()
    }
}

impl<P: Part> Part for Option<P> {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        self.as_mut().map_or(Ok(()), |part| part.add(piece))
    }

    fn end(&mut self) {
        self.iter_mut().for_each(Part::end);
    }
}

impl<S: Sink> Sink for Option<S> {
    type Part = Option<S::Part>;

    fn part(&self) -> Self::Part {
        self.as_ref().map(S::part)
    }

    fn merge(&mut self, part: Self::Part) -> Result<(), Error> {
        self.as_mut().zip(part).map_or(Ok(()), |(sink, part)| sink.merge(part))
    }

    fn wanted(&self) -> Vec<Wanted> {
        self.as_ref().map_or_else(Vec::new, Sink::wanted)
    }
}

/// A run whose traces can be scanned under one query.
pub struct Scan {
    pub(crate) inputs: Inputs,
    pub(crate) readers: Vec<KeyedReader>,
    /// The plot data of each clock map, for whoever asked for them.
    pub(crate) curves: Vec<ClockMapCurve>,
    /// Every channel that stamped.
    pub(crate) channels: Vec<Channel>,
    hertz: u64,
}

impl Scan {
    /// Reads the evidence of `run` and finds its traces.
    pub fn of(run: &Run, query: &Query) -> Result<Self, Error> {
        Self::with(run, query, None)
    }

    /// The same; `curves`: receives the plot data of each clock map, if given.
    pub(crate) fn with(run: &Run, query: &Query, curves: Option<&mut Vec<ClockMapCurve>>) -> Result<Self, Error> {
        let inputs = Inputs::of(run, query, curves)?;
        let readers = traces_of(run, &inputs.layout)?;
        let hertz = reference_node(run.manifest())?.counter.frequency.hertz;
        Ok(Self { inputs, readers, curves: Vec::new(), channels: run.channels()?.found, hertz })
    }

    /// The points, and the stages between them.
    pub fn layout(&self) -> &Layout {
        &self.inputs.layout
    }

    /// The clock of every point.
    pub fn clocks(&self) -> &Clocks {
        &self.inputs.clocks
    }

    /// Every node of the layout by its name, with the index of its counter among those of [`Self::clocks`].
    pub fn counter_of_node(&self) -> &[(String, usize)] {
        &self.inputs.of_node
    }

    /// What the evidence knows of each clock that is not the reference's.
    pub fn clock_maps(&self) -> &[ClockMapSummary] {
        &self.inputs.clock_maps
    }

    /// Nodes whose clocks nothing relates to the reference, a sentence each.
    pub fn unrelated(&self) -> &[String] {
        &self.inputs.unrelated
    }

    /// Ticks a second that the reference is declared to make.
    pub fn hertz(&self) -> u64 {
        self.hertz
    }

    /// Shows all traces to `sink`.
    pub fn over(&self, sink: &mut impl Sink) -> Result<(), Error> {
        self.over_with(processors(), sink)
    }

    /// The same on at most so many threads.
    pub fn over_with(&self, workers: usize, sink: &mut impl Sink) -> Result<(), Error> {
        over(&self.inputs, &self.readers, workers, sink)
    }

    /// The same on this thread, a part for each piece: for a sink that writes what it sees and need not hold a row
    /// group of it.
    pub fn stream(&self, sink: &mut impl Sink) -> Result<(), Error> {
        self.stream_with(1, sink)
    }

    /// The same on as many threads as can run at once, for a sink whose parts do not depend on those before them.
    pub fn stream_in_parallel(&self, sink: &mut impl Sink) -> Result<(), Error> {
        self.stream_with(processors(), sink)
    }

    fn stream_with(&self, workers: usize, sink: &mut impl Sink) -> Result<(), Error> {
        let wanted = sink.wanted();
        for (reader, group, number) in groups_of(&self.readers) {
            let group = Group::read(&self.inputs.layout, &self.readers[reader], (group, number), &wanted)?;
            for round in group.pieces().chunks(workers) {
                let work: Vec<_> = round.iter().map(|piece| (piece.clone(), sink.part())).collect();
                let parts = in_parallel(work.into_iter(), |(piece, mut part)| {
                    group.show(&self.inputs, piece, |piece| part.add(piece))?;
                    part.end();
                    Ok::<_, Error>(part)
                });
                for part in parts {
                    sink.merge(part?)?;
                }
            }
        }
        Ok(())
    }
}

/// Shows all traces of `readers` to `sink`.
pub(crate) fn over(
    inputs: &Inputs,
    readers: &[KeyedReader],
    workers: usize,
    sink: &mut impl Sink,
) -> Result<(), Error> {
    let groups = groups_of(readers);
    let again = |_| readers.iter().map(KeyedReader::again).collect::<Result<Vec<_>, _>>();
    let mut workers = (0..workers.clamp(1, groups.len().max(1))).map(again).collect::<Result<Vec<_>, _>>()?;
    let wanted = sink.wanted();
    for round in groups.chunks(workers.len()) {
        let work: Vec<_> = round.iter().zip(&mut workers).map(|(&at, readers)| (at, readers, sink.part())).collect();
        let parts = in_parallel(work.into_iter(), |((reader, group, number), readers, mut part)| {
            let group = Group::read(&inputs.layout, &readers[reader], (group, number), &wanted)?;
            for piece in group.pieces() {
                group.show(inputs, piece, |piece| part.add(piece))?;
            }
            part.end();
            Ok::<_, Error>(part)
        });
        for part in parts {
            sink.merge(part?)?;
        }
    }
    Ok(())
}

/// Every row group: its reader, its index there, and the number of its first trace.
fn groups_of(readers: &[KeyedReader]) -> Vec<(usize, usize, u64)> {
    let each = readers.iter().enumerate();
    let each = each.flat_map(|(at, reader)| (0..reader.groups()).map(move |group| (at, group, reader.rows_of(group))));
    let mut next = 0;
    let numbered = |(at, group, rows)| {
        next += rows;
        (at, group, next - rows)
    };
    each.map(numbered).collect()
}

/// The columns of a row group that are asked for.
fn attributes(
    layout: &Layout,
    reader: &KeyedReader,
    group: usize,
    wanted: &[Wanted],
) -> Result<BTreeMap<Wanted, Column>, Error> {
    let place = |point: usize| layout.points().get(point).map(|point| point.place.to_string());
    let named = wanted.iter().filter_map(|&wanted| Some((wanted, place(wanted.point)?)));
    named.map(|(wanted, place)| Ok((wanted, reader.read_attribute(group, &place, wanted.attribute)?))).collect()
}

/// A row group in memory.
struct Group {
    keyed: KeyedRows,
    attributes: BTreeMap<Wanted, Column>,
    marks: BTreeMap<usize, Marks>,
    /// Number of its first trace.
    number: u64,
}

impl Group {
    fn read(
        layout: &Layout,
        reader: &KeyedReader,
        (group, number): (usize, u64),
        wanted: &[Wanted],
    ) -> Result<Self, Error> {
        let (attributes, keyed) = (attributes(layout, reader, group, wanted)?, reader.read_group(group)?);
        let marks = marks(&keyed)?;
        Ok(Self { keyed, attributes, marks, number })
    }

    /// Its pieces; none ends between two traces of one id.
    fn pieces(&self) -> Vec<Range<usize>> {
        let end = |first: usize| {
            let end = self.keyed.len().min(first + PIECE_ROWS);
            end + self.keyed.occurrence[end..].iter().take_while(|&&occurrence| occurrence > 0).count()
        };
        let next = |first: usize| (first < self.keyed.len()).then(|| first..end(first));
        std::iter::successors(next(0), |piece| next(piece.end)).collect()
    }

    /// Shows the traces of one piece.
    fn show(
        &self,
        inputs: &Inputs,
        piece: Range<usize>,
        show: impl FnOnce(&Piece<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (Self { keyed, attributes, .. }, Inputs { layout, clocks, .. }) = (self, inputs);
        let (first, number) = (piece.start, self.number + piece.start as u64);
        let ticks = keyed.columns.iter().map(|column| column.slice(piece.clone()));
        let of_piece = self.marks.range(piece.clone()).map(|(row, marks)| (row - first, marks.clone()));
        let traces = traces(keyed, piece.clone(), ticks.collect())?.with_marks(of_piece).map_err(Error::work)?;
        let durations = Durations::of(layout, clocks, &traces).map_err(Error::work)?;
        show(&Piece { layout, clocks, traces: &traces, durations: &durations, number, attributes, first })
    }
}

/// The marks of traces whose ids passed some point more than once, by row.
fn marks(keyed: &KeyedRows) -> Result<BTreeMap<usize, Marks>, Error> {
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

/// How many threads can run at once.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// At most as many threads as can run at once, for work that takes memory; results in the order of the work.
pub(crate) fn in_turns<W: Send, R: Send>(work: Vec<W>, each: impl Fn(W) -> R + Sync) -> Vec<R> {
    let mut work = work.into_iter();
    let mut results = Vec::with_capacity(work.len());
    while work.len() > 0 {
        let some: Vec<W> = work.by_ref().take(processors()).collect();
        results.extend(in_parallel(some.into_iter(), &each));
    }
    results
}

/// One thread a piece of work; results in the order of the work.
pub(crate) fn in_parallel<W: Send, R: Send>(
    work: impl ExactSizeIterator<Item = W>,
    each: impl Fn(W) -> R + Sync,
) -> Vec<R> {
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
