//! A trace in the Common Trace Format 1.8 (<https://diamon.org/ctf>), which babeltrace and Trace Compass read: a folder
//! with a description and a stream for each clock of each node.
//!
//! Idea: each clock is a clock class of its own, so that every stamp stands there as it was read; a class leads to the
//! time of day by one offset, and its `precision` is how far that may be wrong at any stamp of the stream against the
//! reference. Each stamp is an event of its point; each duration an event where its stage ends, with its interval.
//!
//! Assumes: 64 bytes a stamp and a duration fit in memory, since a stream is in the order of time. Guarantees: ends of
//! intervals are outward; what has no place in a stream is counted. Deliberately absent: packets, of which each stream
//! has one.

mod description;

use std::path::Path;

use tickscope_analysis::{Error, Outcome, Part, Piece, Scan, Sink, Span, TimeOfDay};
use tickscope_store::{Run, WholeFile};
use tickscope_tick::{Decimal, Label, Unit};
use tickscope_trace::{Layout, TraceKey};

use crate::about::{About, Exported, LeftOut, Tally};
use crate::output::Output;
use description::{ClockClass, describe};

const MAGIC: u32 = 0xc1fc_1fc1;
const NS_PER_S: u64 = 1_000_000_000;
const BITS: u64 = 8;

/// Writes a description and the streams of all clocks into `folder`, which is there and empty.
pub fn write_ctf(
    run: &Run,
    scan: &Scan,
    about: &About,
    time_of_day: Option<TimeOfDay>,
    folder: &Path,
) -> Result<Exported, Error> {
    let clocks = Clocks::of(run, scan.layout());
    let unit = Unit::nanoseconds(scan.hertz(), 0);
    let mut events = Events::none(&clocks, scan.layout(), unit);
    scan.stream(&mut events)?;
    let Counts { tally, unread } = events.counts;
    let offset_ns = time_of_day.map_or(about.started_unix_ms.saturating_mul(1_000_000), |known| known.middle_ns());
    let mut classes = Vec::new();
    for ((clock, hertz), mut stream) in clocks.all.iter().zip(events.streams) {
        stream.sort_by_key(|event| (event.tick, event.class));
        let base = stream.first().map_or(0, |event| event.tick.min(0));
        classes.push(ClockClass::of(clock, *hertz, (base, offset_ns), &stream));
        let number = classes.len() - 1;
        if !stream.is_empty() {
            write_stream(&folder.join(format!("stream-{clock}")), about, number as u32, (&stream, base))?;
        }
    }
    let text = describe(about, scan.layout(), &clocks, &classes, time_of_day);
    write_whole(&folder.join("metadata"), "description", text.as_bytes())?;
    let mut left_out = tally.without_a_duration(scan.layout());
    let unread = scan.layout().stages().iter().zip(unread).filter(|(_, count)| *count > 0);
    left_out.extend(unread.map(|(stage, count)| LeftOut {
        stage: stage.name.clone(),
        count,
        why: "longer than 64 bits of nanoseconds hold",
    }));
    let notes = classes.iter().map(ClockClass::sentence).collect();
    Ok(Exported { outcomes: tally.outcomes(), left_out, notes })
}

/// The clocks that points were stamped with.
struct Clocks {
    /// Each with its ticks a second.
    all: Vec<(Label, u64)>,
    /// By point: index of its clock.
    of_point: Vec<usize>,
}

impl Clocks {
    fn of(run: &Run, layout: &Layout) -> Self {
        let manifest = run.manifest();
        let mut all: Vec<(Label, u64)> = Vec::new();
        let of_point = layout.points().iter().map(|point| {
            let place = &point.place;
            let known = manifest.points.iter().find(|known| known.node == place.node && known.name == place.point);
            let node = manifest.nodes.iter().find(|node| node.name == place.node);
            let (counter, hertz) = node.map_or((manifest.reference.clock, NS_PER_S), |node| {
                (node.counter.counter, node.counter.frequency.hertz)
            });
            let own = known.and_then(|known| known.counter).filter(|&own| own != counter);
            let label = Label { node: place.node.clone(), clock: own.unwrap_or(counter) };
            let hertz = own.map_or(hertz, |_| NS_PER_S);
            all.iter().position(|(known, _)| *known == label).unwrap_or_else(|| {
                all.push((label, hertz));
                all.len() - 1
            })
        });
        let of_point = of_point.collect();
        Self { all, of_point }
    }
}

/// A stamp, or the end of a duration.
struct Event {
    /// As it was read.
    tick: i64,
    /// Index of its point; of a duration that of its stage after all points.
    class: u16,
    trace: TraceKey,
    /// Estimate, lower and upper end of a duration in nanoseconds.
    duration: Option<[i64; 3]>,
    /// When the stamp was taken by the reference, in its nanoseconds: estimate, lower and upper end.
    instant: Option<[i128; 3]>,
}

impl Event {
    fn put(&self, bytes: &mut Vec<u8>, base: i64) {
        bytes.extend(self.class.to_le_bytes());
        bytes.extend(self.tick.abs_diff(base).to_le_bytes());
        let TraceKey { kind, id, occurrence } = self.trace;
        bytes.extend(id.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(occurrence.to_le_bytes());
        self.duration.iter().flatten().for_each(|ns| bytes.extend(ns.to_le_bytes()));
    }
}

fn write_stream(place: &Path, about: &About, number: u32, (events, base): (&[Event], i64)) -> Result<(), Error> {
    let mut bytes = MAGIC.to_le_bytes().to_vec();
    bytes.extend(uuid(about));
    bytes.extend(number.to_le_bytes());
    let at = |event: Option<&Event>| event.map_or(0, |event| event.tick.abs_diff(base));
    bytes.extend(at(events.first()).to_le_bytes());
    bytes.extend(at(events.last()).to_le_bytes());
    let sizes = bytes.len();
    bytes.extend([0; 16]);
    events.iter().for_each(|event| event.put(&mut bytes, base));
    let bits = (bytes.len() as u64 * BITS).to_le_bytes();
    bytes[sizes..sizes + 8].copy_from_slice(&bits);
    bytes[sizes + 8..sizes + 16].copy_from_slice(&bits);
    write_whole(place, "stream", &bytes)
}

fn write_whole(place: &Path, format: &'static str, bytes: &[u8]) -> Result<(), Error> {
    let whole = WholeFile::begin(place)?;
    let shown = place.display().to_string();
    let mut output = Output { out: whole.file(), format, place: &shown };
    output.put(bytes)?;
    output.finish()?;
    Ok(whole.finish()?)
}

/// The run's identity, twice.
fn uuid(about: &About) -> [u8; 16] {
    let run = u64::from_str_radix(&about.run, 16).unwrap_or(0);
    (u128::from(run) << u64::BITS | u128::from(run)).to_be_bytes()
}

/// Events by clock.
struct Events<'a> {
    clocks: &'a Clocks,
    unit: Unit,
    streams: Vec<Vec<Event>>,
    counts: Counts,
}

struct Counts {
    tally: Tally,
    /// By stage: durations beyond 64 bits.
    unread: Vec<u64>,
}

impl<'a> Events<'a> {
    fn none(clocks: &'a Clocks, layout: &Layout, unit: Unit) -> Self {
        let counts = Counts { tally: Tally::of(layout), unread: vec![0; layout.stages().len()] };
        Self { clocks, unit, streams: clocks.all.iter().map(|_| Vec::new()).collect(), counts }
    }
}

impl<'a> Sink for Events<'a> {
    type Part = Self;

    fn part(&self) -> Self {
        let stages = self.counts.unread.len();
        let counts = Counts { tally: Tally { stages: vec![Default::default(); stages] }, unread: vec![0; stages] };
        Self { streams: self.clocks.all.iter().map(|_| Vec::new()).collect(), counts, ..*self }
    }

    fn merge(&mut self, part: Self) -> Result<(), Error> {
        self.streams.iter_mut().zip(part.streams).for_each(|(all, more)| all.extend(more));
        self.counts.tally.merge(&part.counts.tally);
        self.counts.unread.iter_mut().zip(part.counts.unread).for_each(|(all, more)| *all += more);
        Ok(())
    }
}

impl Part for Events<'_> {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        for row in 0..piece.traces.len() {
            let trace = piece.traces.key(row);
            self.stamps(piece, row, trace);
            self.durations(piece, row, trace);
        }
        Ok(())
    }
}

impl Events<'_> {
    fn stamps(&mut self, piece: &Piece<'_>, row: usize, trace: TraceKey) {
        for point in 0..piece.layout.points().len() {
            let Some(tick) = piece.traces.points()[point].get(row) else { continue };
            if piece.traces.repeats(row, [point, point]) {
                continue;
            }
            let ns = |Span { estimate, lo, hi }: Span| {
                [self.unit.near(estimate), self.unit.down(lo), self.unit.up(hi)].map(Decimal::digits)
            };
            let instant = piece.instant(point, row).map(ns);
            let event = Event { tick, class: point as u16, trace, duration: None, instant };
            self.streams[self.clocks.of_point[point]].push(event);
        }
    }

    fn durations(&mut self, piece: &Piece<'_>, row: usize, trace: TraceKey) {
        let points = piece.layout.points().len();
        for (stage, of) in piece.layout.stages().iter().enumerate() {
            let (outcome, span) = piece.outcome(stage, row);
            self.counts.tally.note(stage, outcome);
            let (Outcome::Measured | Outcome::Impossible, Some(span)) = (outcome, span) else { continue };
            let Span { estimate, lo, hi } = span;
            let ns = [self.unit.near(estimate), self.unit.down(lo), self.unit.up(hi)].map(Decimal::digits);
            let [Ok(estimate), Ok(lo), Ok(hi)] = ns.map(i64::try_from) else {
                self.counts.unread[stage] += 1;
                continue;
            };
            let Some(tick) = piece.traces.points()[of.to].get(row) else { continue };
            let (class, duration) = ((points + stage) as u16, Some([estimate, lo, hi]));
            let event = Event { tick, class, trace, duration, instant: None };
            self.streams[self.clocks.of_point[of.to]].push(event);
        }
    }
}
