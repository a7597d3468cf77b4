//! A trace for Perfetto (<https://ui.perfetto.dev>): each node a process, each stage of each trace a slice.
//!
//! Idea: two scans. The first finds when each slice begins and ends, and gives it a lane; the second writes it there.
//! A slice goes from the estimate of its beginning to that of its end on the reference, rounded outward to nanoseconds
//! so that it encloses them; its duration's interval, and the stage's common and relative bound, are annotations,
//! rounded outward as well, beside the raw ticks of both stamps. Arrows lead from a stage that ends on another node to
//! what follows there.
//!
//! Assumes: 28 bytes a slice fit in memory. Guarantees: slices of one lane never overlap; every stage of every trace is
//! drawn or counted: a duration below zero is an instant, named so. Deliberately absent: compression; clocks other than
//! the reference.

mod lanes;
mod packets;

use std::io::Write;
use std::{panic, thread};

use tickscope_analysis::{Error, Outcome, Part, Piece, Scan, Sink, Span};
use tickscope_tick::{Decimal, Unit, counted};
use tickscope_trace::{StageTally, TraceKey, tally};

use crate::message::Message;
use crate::output::Output;
use crate::rows::RowCounts;
use crate::tracks::{Drawn, Shape, Track, Tracks};
use lanes::{Lanes, Occupied};
use packets::{Event, StageBounds, event, head};

/// What a trace for Perfetto holds, and what it could not show.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PerfettoCounts {
    /// By stage of the layout.
    pub stages: Vec<StageCounts>,
    /// Lanes, over all stages.
    pub tracks: u64,
    /// Arrows between nodes.
    pub flows: u64,
    /// Arrows that would lead back in time, which Perfetto cannot draw.
    pub flows_left_out: u64,
    /// Added to all times so that the first is not below zero, in nanoseconds.
    pub shifted_ns: u64,
}

/// One stage.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct StageCounts {
    /// Its name.
    pub name: String,
    /// Traces by outcome, as the table counts them.
    pub outcomes: RowCounts,
    /// Drawn as slices.
    pub slices: u64,
    /// Drawn as instants: the estimate is below zero.
    pub negative: u64,
    /// Not drawn: there is a duration, and nothing places it on the reference.
    pub unplaced: u64,
}

impl PerfettoCounts {
    /// What is drawn, and what is not, a line each.
    pub fn lines(&self) -> Vec<String> {
        let slices: u64 = self.stages.iter().map(|stage| stage.slices).sum();
        let (slices, tracks, flows) =
            (counted(slices, "slice"), counted(self.tracks, "track"), counted(self.flows, "arrow"));
        let mut lines = vec![format!("{slices} on {tracks}, {flows} between nodes")];
        for stage in &self.stages {
            lines.extend(stage.holes().map(|holes| format!("{}: {holes}", stage.name)));
        }
        if self.flows_left_out > 0 {
            lines.push(format!("{} would lead back in time, and are not drawn", counted(self.flows_left_out, "arrow")));
        }
        if self.shifted_ns > 0 {
            lines.push(format!(
                "all times are {} ns later than on the reference, where some lie below 0",
                self.shifted_ns
            ));
        }
        lines
    }
}

impl StageCounts {
    /// What no slice shows.
    fn holes(&self) -> Option<String> {
        let of = |outcome: Outcome| self.outcomes[outcome as usize];
        let all = [
            (self.negative, "below 0 by their estimates, drawn as instants"),
            (self.unplaced, "with nothing that places them on the reference, not drawn"),
            (of(Outcome::Missing), "without both stamps"),
            (of(Outcome::Refused), "without an interval"),
            (of(Outcome::Repeated), "drawn once with the passage before them"),
        ];
        let some = all.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let holes = some.collect::<Vec<_>>().join("; ");
        (!holes.is_empty()).then_some(holes)
    }
}

/// Writes all traces of `scan`. `place` names `out` in errors.
pub fn write_perfetto(scan: &Scan, out: impl Write, place: &str) -> Result<PerfettoCounts, Error> {
    let tracks = Tracks::of(scan.layout());
    let unit = Unit::nanoseconds(scan.hertz(), 0);
    let mut extents = Extents::none(&tracks, unit);
    scan.over(&mut extents)?;
    let origin_ns = extents.slices.iter().flatten().map(Occupied::begin_ns).min().map_or(0, |first| first.min(0));
    let bounds = extents.bounds(scan)?;
    let traces = extents.traces as usize;
    let lanes: Vec<Lanes> = thread::scope(|scope| {
        let of = |slices| scope.spawn(move || Lanes::of(slices, traces));
        let threads: Vec<_> = extents.slices.into_iter().map(of).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|why| panic::resume_unwind(why))).collect()
    });
    let lane_counts: Vec<u32> = lanes.iter().map(|lanes| lanes.count).collect();
    let output = Output { out, format: "trace", place };
    let fixed = Fixed { tracks: &tracks, lanes, bounds, unit, origin_ns };
    let mut writing = Writing { output, fixed: &fixed, flows: 0, flows_left_out: 0 };
    writing.output.put(&head(&tracks, &lane_counts))?;
    scan.stream_in_parallel(&mut writing)?;
    let Writing { output, flows, flows_left_out, .. } = writing;
    output.finish()?;
    let tracks = lane_counts.into_iter().map(u64::from).sum();
    Ok(PerfettoCounts { stages: extents.stages, tracks, flows, flows_left_out, shifted_ns: origin_ns.unsigned_abs() })
}

/// When slices begin and end, by track, in the order of the traces.
struct Extents<'a> {
    tracks: &'a Tracks,
    unit: Unit,
    slices: Vec<Vec<Occupied>>,
    /// Traces seen.
    traces: u64,
    stages: Vec<StageCounts>,
    tallies: Vec<StageTally>,
}

impl<'a> Extents<'a> {
    fn none(tracks: &'a Tracks, unit: Unit) -> Self {
        let stages = tracks.all.iter().filter(|track| !track.is_arrival);
        let named = stages.map(|track| StageCounts { name: track.name.clone(), ..StageCounts::default() });
        let stages: Vec<_> = named.collect();
        let tallies = vec![StageTally::default(); stages.len()];
        Self { tracks, unit, slices: vec![Vec::new(); tracks.all.len()], traces: 0, stages, tallies }
    }

    /// The bounds of each stage.
    fn bounds(&self, scan: &Scan) -> Result<Vec<StageBounds>, Error> {
        let ns = |ticks: u64| nanoseconds(self.unit.up(ticks).digits());
        let of = |(stage, tally): (usize, &StageTally)| {
            Ok(StageBounds {
                common_below_ns: ns(tally.common.below_ticks)?,
                common_above_ns: ns(tally.common.above_ticks)?,
                relative_ns: ns(tally.relative_over_run(scan.layout(), scan.clocks(), stage))?,
            })
        };
        self.tallies.iter().enumerate().map(of).collect()
    }
}

impl<'a> Sink for Extents<'a> {
    type Part = Self;

    fn part(&self) -> Self {
        Self::none(self.tracks, self.unit)
    }

    fn merge(&mut self, part: Self) -> Result<(), Error> {
        self.traces += part.traces;
        self.slices.iter_mut().zip(part.slices).for_each(|(all, mut more)| all.append(&mut more));
        for (all, more) in self.stages.iter_mut().zip(part.stages) {
            all.outcomes.iter_mut().zip(more.outcomes).for_each(|(all, more)| *all += more);
            all.slices += more.slices;
            all.negative += more.negative;
            all.unplaced += more.unplaced;
        }
        self.tallies.iter_mut().zip(&part.tallies).for_each(|(all, more)| all.merge(more));
        Ok(())
    }
}

impl Part for Extents<'_> {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        tally(piece.layout, piece.clocks, piece.traces, piece.durations, &mut self.tallies);
        self.traces += piece.traces.len() as u64;
        for row in 0..piece.traces.len() {
            let trace = u32::try_from(piece.number + row as u64)
                .map_err(|_| Error::work("expected at most 4294967296 traces, found more. Export a part of the run"))?;
            for (track, slices) in self.tracks.all.iter().zip(&mut self.slices) {
                let drawn = drawn(track, piece, row, self.unit)?;
                if let Drawn::Shape(shape) = &drawn {
                    slices.push(Occupied::new(shape.begin_ns, shape.end_ns, trace));
                }
                if !track.is_arrival {
                    let counts = &mut self.stages[track.stage];
                    counts.outcomes[piece.outcome(track.stage, row).0 as usize] += 1;
                    match drawn {
                        Drawn::Shape(shape) if shape.is_negative => counts.negative += 1,
                        Drawn::Shape(_) => counts.slices += 1,
                        Drawn::Unplaced => counts.unplaced += 1,
                        Drawn::No => {}
                    }
                }
            }
        }
        Ok(())
    }
}

fn drawn(track: &Track, piece: &Piece<'_>, row: usize, unit: Unit) -> Result<Drawn, Error> {
    track.drawn(piece, row, unit).map_err(beyond)
}

fn nanoseconds(ns: i128) -> Result<i64, Error> {
    i64::try_from(ns).map_err(|_| beyond(ns))
}

fn beyond(ns: i128) -> Error {
    Error::work(format!(
        "expected times of 64 bits in nanoseconds, found {ns}: a stamp or the reference's frequency is wrong. Look at \
         the run with tickscope show"
    ))
}

/// The trace as far as it is written.
struct Writing<'a, W> {
    output: Output<'a, W>,
    fixed: &'a Fixed<'a>,
    flows: u64,
    flows_left_out: u64,
}

/// What does not change while it is written.
struct Fixed<'a> {
    tracks: &'a Tracks,
    lanes: Vec<Lanes>,
    /// By stage.
    bounds: Vec<StageBounds>,
    unit: Unit,
    origin_ns: i64,
}

/// Packets of one part.
struct Packets<'a> {
    message: Message,
    fixed: &'a Fixed<'a>,
    flows: u64,
    flows_left_out: u64,
}

/// One trace: its number in the run, and its name.
#[derive(Clone, Copy)]
struct Trace {
    number: u64,
    key: TraceKey,
}

impl<'a, W: Write> Sink for Writing<'a, W> {
    type Part = Packets<'a>;

    fn part(&self) -> Packets<'a> {
        Packets { message: Message::default(), fixed: self.fixed, flows: 0, flows_left_out: 0 }
    }

    fn merge(&mut self, part: Packets<'a>) -> Result<(), Error> {
        self.flows += part.flows;
        self.flows_left_out += part.flows_left_out;
        self.output.put(&part.message.0)
    }
}

impl Part for Packets<'_> {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        let Fixed { tracks, unit, .. } = self.fixed;
        let mut shapes = vec![None; tracks.all.len()];
        let mut flows = vec![(Vec::new(), Vec::new()); tracks.all.len()];
        for row in 0..piece.traces.len() {
            for (track, shape) in tracks.all.iter().zip(&mut shapes) {
                *shape = match drawn(track, piece, row, *unit)? {
                    Drawn::Shape(shape) => Some(shape),
                    Drawn::No | Drawn::Unplaced => None,
                };
            }
            let trace = Trace { number: piece.number + row as u64, key: piece.traces.key(row) };
            self.find_flows(trace.number, &shapes, &mut flows);
            for (track, (shape, (begin, end))) in shapes.iter().zip(&flows).enumerate() {
                if let Some(shape) = shape {
                    self.draw(track, shape, trace, (begin, end))?;
                }
            }
        }
        Ok(())
    }
}

impl Packets<'_> {
    /// The arrows that begin and end at each track's event of one trace.
    fn find_flows(&mut self, trace: u64, shapes: &[Option<Shape>], flows: &mut [(Vec<u64>, Vec<u64>)]) {
        for (begin, end) in &mut *flows {
            begin.clear();
            end.clear();
        }
        let hops = &self.fixed.tracks.hops;
        for (number, &(from, to)) in (1..).zip(hops) {
            let Some((before, after)) = shapes[from].zip(shapes[to]) else { continue };
            // Events of one nanosecond are read in the order of their tracks.
            if before.is_negative || (after.begin_ns, to) < (before.begin_ns, from) {
                self.flows_left_out += 1;
                continue;
            }
            let flow = trace * hops.len() as u64 + number;
            flows[from].0.push(flow);
            flows[to].1.push(flow);
            self.flows += 1;
        }
    }

    fn draw(
        &mut self,
        track: usize,
        shape: &Shape,
        Trace { number, key: trace }: Trace,
        flows: (&[u64], &[u64]),
    ) -> Result<(), Error> {
        let Fixed { tracks, lanes, bounds, unit, origin_ns } = self.fixed;
        let of = &tracks.all[track];
        let lane = lanes[track].lane(number as usize);
        let Span { estimate, lo, hi } = shape.span;
        let [estimate, lo, hi] = [unit.near(estimate), unit.down(lo), unit.up(hi)].map(Decimal::digits);
        let duration_ns = [nanoseconds(estimate)?, nanoseconds(lo)?, nanoseconds(hi)?];
        let (is_arrival, bounds, origin_ns) = (of.is_arrival, bounds[of.stage], *origin_ns);
        let place = (track, lane);
        event(&mut self.message, &Event { shape, place, is_arrival, trace, duration_ns, bounds, flows, origin_ns });
        Ok(())
    }
}
