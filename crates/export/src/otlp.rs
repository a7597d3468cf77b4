//! Spans of OpenTelemetry: the protobuf of `opentelemetry/proto/trace/v1`, "TracesData", which is also the body of an
//! OTLP request.
//!
//! Idea: each node is a resource, each stage of each trace a span of the node that it begins on; the parent is the
//! span of the whole. A span encloses the estimates, as a slice for Perfetto does; the duration's interval, and the
//! raw ticks, are attributes. Of many traces a sample by id is taken, and every slow one.
//!
//! Guarantees: ends of intervals are outward; all spans of a trace are there or none; what is left out is counted.
//! Assumes: one offset takes the reference to the time of day, whose bound is an attribute of the resource.
//! Deliberately absent: sending; links between traces.

use std::io::Write;

use tickscope_analysis::{Analysis, Error, Outcome, Part, Piece, Scan, Sink, Span, TimeOfDay};
use tickscope_tick::{Decimal, Unit, counted};
use tickscope_trace::{Layout, StageRole, TraceKey};

use crate::about::{About, Exported, LeftOut, Tally};
use crate::message::Message;
use crate::output::Output;
use crate::tracks::{Drawn, Shape, Tracks};

mod field {
    pub const RESOURCE_SPANS: u32 = 1;
    pub const RESOURCE: u32 = 1;
    pub const SCOPE_SPANS: u32 = 2;
    pub const RESOURCE_ATTRIBUTE: u32 = 1;
    pub const SCOPE: u32 = 1;
    pub const SCOPE_NAME: u32 = 1;
    pub const SCOPE_VERSION: u32 = 2;
    pub const SPAN: u32 = 2;
    pub const TRACE_ID: u32 = 1;
    pub const SPAN_ID: u32 = 2;
    pub const PARENT_ID: u32 = 4;
    pub const NAME: u32 = 5;
    pub const KIND: u32 = 6;
    pub const KIND_INTERNAL: u64 = 1;
    pub const START: u32 = 7;
    pub const END: u32 = 8;
    pub const ATTRIBUTE: u32 = 9;
    pub const KEY: u32 = 1;
    pub const VALUE: u32 = 2;
    pub const STRING: u32 = 1;
    pub const BOOL: u32 = 2;
    pub const INT: u32 = 3;
    pub const ARRAY: u32 = 5;
    pub const ARRAY_VALUE: u32 = 1;
}

/// Which traces become spans.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// One trace of so many, by its id; 1: all.
    pub one_in: u64,
    /// By stage: the estimate from which on a trace is slow, and always there; `None`: the stage does not say.
    slow_ticks: Vec<Option<i64>>,
}

impl Sample {
    /// One trace of so many, and those whose whole takes as long as its 99th percentile, or longer.
    pub fn new(one_in: u64, analysis: &Analysis) -> Self {
        let whole = |row: &tickscope_trace::StageRow| row.p99.filter(|_| row.role == StageRole::EndToEnd);
        let slow = analysis.rows.iter().map(|row| whole(row).map(|p99| p99.estimate));
        Self { one_in: one_in.max(1), slow_ticks: slow.collect() }
    }

    fn is_slow(&self, piece: &Piece<'_>, row: usize) -> bool {
        let as_slow = |(stage, least): (usize, &Option<i64>)| {
            least.is_some_and(|least| piece.outcome(stage, row).1.is_some_and(|span| span.estimate >= least))
        };
        self.slow_ticks.iter().enumerate().any(as_slow)
    }

    fn takes(&self, id: i64) -> bool {
        mixed(id.cast_unsigned()).is_multiple_of(self.one_in)
    }
}

/// Writes the spans of a sample of the traces. `place` names `out` in errors.
pub fn write_otlp(
    scan: &Scan,
    about: &About,
    sample: &Sample,
    time_of_day: Option<TimeOfDay>,
    out: impl Write,
    place: &str,
) -> Result<Exported, Error> {
    let layout = scan.layout();
    let tracks = Tracks::of(layout);
    let resources = tracks.nodes.iter().map(|node| resource(node, about, time_of_day)).collect();
    // A run that nothing relates to the time of day begins when an ordinary clock said so.
    let offset_ns = time_of_day.map_or(about.started_unix_ms.saturating_mul(1_000_000), |known| known.middle_ns());
    let unit = Unit::nanoseconds(scan.hertz(), 0);
    let run = u64::from_str_radix(&about.run, 16).unwrap_or(0);
    let fixed = Fixed { layout, tracks: &tracks, resources, sample, unit, offset_ns, run };
    let mut spans = Spans { output: Output { out, format: "spans", place }, fixed: &fixed, counts: Counts::of(layout) };
    scan.stream(&mut spans)?;
    let Spans { output, counts, .. } = spans;
    output.finish()?;
    Ok(counts.exported(&fixed, time_of_day))
}

/// What does not change while spans are written.
struct Fixed<'a> {
    layout: &'a Layout,
    tracks: &'a Tracks,
    /// By node.
    resources: Vec<Message>,
    sample: &'a Sample,
    unit: Unit,
    /// Added to nanoseconds of the reference.
    offset_ns: i64,
    run: u64,
}

/// The attributes of a node.
fn resource(node: &str, about: &About, time_of_day: Option<TimeOfDay>) -> Message {
    let mut all = Message::default();
    all.within(field::RESOURCE, |resource| {
        let mut text = |key: &str, value: &str| {
            attribute(resource, field::RESOURCE_ATTRIBUTE, key, |any| any.text(field::STRING, value))
        };
        text("service.name", node);
        text("tickscope.run", &about.run);
        text("tickscope.reference", &about.reference);
        let mut list = |key: &str, lines: &[String]| {
            attribute(resource, field::RESOURCE_ATTRIBUTE, key, |any| {
                any.within(field::ARRAY, |array| {
                    lines.iter().for_each(|line| array.within(field::ARRAY_VALUE, |any| any.text(field::STRING, line)));
                });
            });
        };
        list("tickscope.assumptions", &about.assumptions);
        list("tickscope.findings", &about.findings);
        if let Some(known) = time_of_day {
            let mut number = |key: &str, value: i64| {
                attribute(resource, field::RESOURCE_ATTRIBUTE, key, |any| any.signed(field::INT, value))
            };
            number("tickscope.time_of_day_ns_max_error", known.either_side_ns());
            number("tickscope.time_of_day_readings", i64::try_from(known.readings).unwrap_or(i64::MAX));
        }
    });
    all
}

fn attribute(of: &mut Message, field: u32, key: &str, value: impl FnOnce(&mut Message)) {
    of.within(field, |pair| {
        pair.text(field::KEY, key);
        pair.within(field::VALUE, value);
    });
}

/// Bits of a number, spread.
fn mixed(number: u64) -> u64 {
    let step = |bits: u64, shift: u32, factor: u64| (bits ^ bits >> shift).wrapping_mul(factor);
    let bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = step(step(bits, 30, 0xbf58_476d_1ce4_e5b9), 27, 0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// What was written so far.
struct Spans<'a, W> {
    output: Output<'a, W>,
    fixed: &'a Fixed<'a>,
    counts: Counts,
}

/// Whether the sample takes a trace, and whether that is since it is slow.
#[derive(Clone, Copy)]
struct Choice {
    is_taken: bool,
    is_slow: bool,
}

/// A span but for when it was.
struct SpanOf<'a> {
    name: &'a str,
    stage: usize,
    trace: TraceKey,
    /// The stage that it is a part of.
    parent: Option<usize>,
    is_slow: bool,
}

/// Spans of one part.
struct SpansPart<'a> {
    message: Message,
    fixed: &'a Fixed<'a>,
    counts: Counts,
}

/// What became of the traces.
#[derive(Clone)]
struct Counts {
    tally: Tally,
    /// By stage: durations that are no spans.
    negative: Vec<u64>,
    unplaced: Vec<u64>,
    unsampled: Vec<u64>,
    traces: u64,
    taken: u64,
    slow: u64,
}

impl Counts {
    fn of(layout: &Layout) -> Self {
        let none = vec![0; layout.stages().len()];
        let (negative, unplaced, unsampled) = (none.clone(), none.clone(), none);
        Self { tally: Tally::of(layout), negative, unplaced, unsampled, traces: 0, taken: 0, slow: 0 }
    }

    fn merge(&mut self, part: &Self) {
        self.tally.merge(&part.tally);
        let add = |all: &mut [u64], more: &[u64]| all.iter_mut().zip(more).for_each(|(all, more)| *all += more);
        add(&mut self.negative, &part.negative);
        add(&mut self.unplaced, &part.unplaced);
        add(&mut self.unsampled, &part.unsampled);
        self.traces += part.traces;
        self.taken += part.taken;
        self.slow += part.slow;
    }

    fn exported(&self, fixed: &Fixed<'_>, time_of_day: Option<TimeOfDay>) -> Exported {
        let mut left_out = self.tally.without_a_duration(fixed.layout);
        for (stage, of) in fixed.layout.stages().iter().enumerate() {
            let all = [
                (self.unsampled[stage], "of traces that the sample does not take"),
                (self.negative[stage], "below 0 by their estimates, which no span can be"),
                (self.unplaced[stage], "with nothing that places them on the reference"),
            ];
            let some = all.into_iter().filter(|(count, _)| *count > 0);
            left_out.extend(some.map(|(count, why)| LeftOut { stage: of.name.clone(), count, why }));
        }
        let (traces, slow) = (counted(self.traces, "trace"), self.slow);
        let sampled = format!("{} of {traces}, {slow} of them because they are slow", self.taken);
        let times = match time_of_day {
            Some(known) => format!(
                "times are CLOCK_REALTIME of the reference's node within {} ns, by {}",
                known.either_side_ns(),
                counted(known.readings, "reading")
            ),
            None => {
                "times have no bound: nothing relates the reference to the time of day, and the run's beginning is \
                     by an ordinary clock"
                    .into()
            }
        };
        Exported { outcomes: self.tally.outcomes(), left_out, notes: vec![sampled, times] }
    }
}

impl<'a, W: Write> Sink for Spans<'a, W> {
    type Part = SpansPart<'a>;

    fn part(&self) -> SpansPart<'a> {
        SpansPart { message: Message::default(), fixed: self.fixed, counts: Counts::of(self.fixed.layout) }
    }

    fn merge(&mut self, part: SpansPart<'a>) -> Result<(), Error> {
        self.counts.merge(&part.counts);
        self.output.put(&part.message.0)
    }
}

impl Part for SpansPart<'_> {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        let Fixed { tracks, sample, .. } = self.fixed;
        let mut of_node: Vec<Message> = tracks.nodes.iter().map(|_| Message::default()).collect();
        for row in 0..piece.traces.len() {
            let (in_sample, is_slow) = (sample.takes(piece.traces.ids()[row]), sample.is_slow(piece, row));
            self.counts.traces += 1;
            self.counts.taken += u64::from(in_sample || is_slow);
            self.counts.slow += u64::from(is_slow && !in_sample);
            self.trace(piece, row, Choice { is_taken: in_sample || is_slow, is_slow }, &mut of_node)?;
        }
        for (spans, resource) in of_node.iter().zip(&self.fixed.resources).filter(|(spans, _)| !spans.0.is_empty()) {
            self.message.within(field::RESOURCE_SPANS, |all| {
                all.0.extend(&resource.0);
                all.within(field::SCOPE_SPANS, |scope_spans| {
                    scope_spans.within(field::SCOPE, |scope| {
                        scope.text(field::SCOPE_NAME, "tickscope");
                        scope.text(field::SCOPE_VERSION, env!("CARGO_PKG_VERSION"));
                    });
                    scope_spans.0.extend(&spans.0);
                });
            });
        }
        Ok(())
    }
}

impl SpansPart<'_> {
    /// The spans of one trace, where it is taken.
    fn trace(
        &mut self,
        piece: &Piece<'_>,
        row: usize,
        Choice { is_taken, is_slow }: Choice,
        of_node: &mut [Message],
    ) -> Result<(), Error> {
        let Fixed { tracks, unit, .. } = self.fixed;
        let mut shapes = Vec::new();
        for track in tracks.all.iter().filter(|track| !track.is_arrival) {
            let (outcome, stage) = (piece.outcome(track.stage, row).0, track.stage);
            self.counts.tally.note(stage, outcome);
            let has_one = matches!(outcome, Outcome::Measured | Outcome::Impossible);
            if !is_taken {
                self.counts.unsampled[stage] += u64::from(has_one);
                continue;
            }
            match track.drawn(piece, row, *unit).map_err(beyond)? {
                Drawn::Shape(shape) if shape.is_negative => self.counts.negative[stage] += 1,
                Drawn::Shape(shape) => shapes.push((track, shape)),
                Drawn::Unplaced => self.counts.unplaced[stage] += 1,
                Drawn::No => {}
            }
        }
        let role = |stage: usize| self.fixed.layout.stages()[stage].role;
        let parent = shapes.iter().map(|(track, _)| track.stage).find(|&stage| role(stage) == StageRole::EndToEnd);
        let traces = piece.traces;
        let trace = traces.key(row);
        for (track, shape) in &shapes {
            let parent = parent.filter(|&parent| parent != track.stage);
            let about = SpanOf { name: &track.name, stage: track.stage, trace, parent, is_slow };
            self.span(&mut of_node[track.node], &about, shape)?;
        }
        Ok(())
    }

    fn span(&self, spans: &mut Message, about: &SpanOf<'_>, shape: &Shape) -> Result<(), Error> {
        let &SpanOf { name, stage, trace, parent, is_slow } = about;
        let Fixed { unit, offset_ns, run, .. } = *self.fixed;
        let at = |ns: i64| {
            let at = i128::from(ns) + i128::from(offset_ns);
            u64::try_from(at).map_err(|_| beyond(at))
        };
        let (begin, end) = (at(shape.begin_ns)?, at(shape.end_ns)?);
        let Span { estimate, lo, hi } = shape.span;
        let [estimate, lo, hi] = [unit.near(estimate), unit.down(lo), unit.up(hi)].map(Decimal::digits);
        let [estimate, lo, hi] = [estimate, lo, hi].map(|ns| i64::try_from(ns).map_err(|_| beyond(ns)));
        let numbers = [("tickscope.estimate_ns", estimate?), ("tickscope.lo_ns", lo?), ("tickscope.hi_ns", hi?)];
        let TraceKey { kind, id, occurrence } = trace;
        let keys = [("tickscope.id", id), ("tickscope.kind", kind.into()), ("tickscope.occurrence", occurrence.into())];
        let ticks = [("tickscope.from_tick", shape.ticks[0]), ("tickscope.to_tick", shape.ticks[1])];
        spans.within(field::SPAN, |span| {
            span.bytes(field::TRACE_ID, &trace_id(run, trace));
            span.bytes(field::SPAN_ID, &span_id(stage));
            if let Some(parent) = parent {
                span.bytes(field::PARENT_ID, &span_id(parent));
            }
            span.text(field::NAME, name);
            span.number(field::KIND, field::KIND_INTERNAL);
            span.fixed(field::START, begin);
            span.fixed(field::END, end);
            for (key, value) in numbers.into_iter().chain(keys).chain(ticks) {
                attribute(span, field::ATTRIBUTE, key, |any| any.signed(field::INT, value));
            }
            if is_slow {
                attribute(span, field::ATTRIBUTE, "tickscope.slow", |any| any.number(field::BOOL, 1));
            }
        });
        Ok(())
    }
}

/// Sixteen bytes that no other trace of any run is likely to have: the second half is the id.
fn trace_id(run: u64, TraceKey { kind, id, occurrence }: TraceKey) -> [u8; 16] {
    let key = u64::from(kind.cast_unsigned()) << u32::BITS | u64::from(occurrence.cast_unsigned());
    let first = mixed(run ^ mixed(key)).max(1); // not all may be 0
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&first.to_be_bytes());
    bytes[8..].copy_from_slice(&id.to_be_bytes());
    bytes
}

/// Unlike those of all other stages of the trace, and not 0.
fn span_id(stage: usize) -> [u8; 8] {
    (stage as u64 + 1).to_be_bytes()
}

fn beyond(ns: i128) -> Error {
    Error::work(format!(
        "expected times of 64 bits in nanoseconds since 1970, found {ns}: a stamp or the reference's frequency is \
         wrong. Look at the run with tickscope show"
    ))
}
