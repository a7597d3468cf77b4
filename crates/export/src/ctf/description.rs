//! The description of a trace, in the format's own language (TSDL): clocks, streams, events and their fields.

use std::fmt::Write;

use tickscope_analysis::TimeOfDay;
use tickscope_tick::{Label, Unit, counted};
use tickscope_trace::Layout;

use super::{Clocks, Event, NS_PER_S, uuid};
use crate::about::About;

/// A clock as a reader of the trace takes it to the time of day.
pub(super) struct ClockClass {
    clock: Label,
    hertz: u64,
    /// When it read what stands as 0, in nanoseconds since 1970.
    offset_ns: i128,
    /// How far it may be wrong at any stamp against the reference, in its own cycles; `None`: nothing relates it.
    precision: Option<u64>,
    events: usize,
}

impl ClockClass {
    /// The class of a clock whose events are these, in order; `base` stands as 0 in its stream, `offset_ns` takes
    /// nanoseconds of the reference to the time of day.
    pub fn of(clock: &Label, hertz: u64, (base, offset_ns): (i64, i64), events: &[Event]) -> Self {
        let unit = Unit::nanoseconds(hertz, 0);
        let since = |event: &Event| i128::from(event.tick) - i128::from(base);
        let placed = || events.iter().filter_map(|event| Some((since(event), event.instant?)));
        let zero = placed().next().map_or(0, |(ticks, [estimate, ..])| estimate - unit.near(ticks).digits());
        // A reader gives cycles as nanoseconds, rounded in whichever way.
        let off = |(ticks, [_, lo, hi]): (i128, [i128; 3])| {
            (hi - zero - unit.down(ticks).digits()).max(zero + unit.up(ticks).digits() - lo)
        };
        let precision = placed().map(off).max().map(|ns| {
            let cycles = (ns.max(0) + 1) * i128::from(hertz);
            let cycles = cycles.unsigned_abs().div_ceil(u128::from(NS_PER_S));
            u64::try_from(cycles).map_or(u64::MAX, |cycles| cycles.saturating_add(1)) // the offset is whole cycles
        });
        Self { clock: clock.clone(), hertz, offset_ns: zero + i128::from(offset_ns), precision, events: events.len() }
    }

    /// How well it is known, in words.
    pub fn sentence(&self) -> String {
        let (clock, events) = (&self.clock, counted(self.events, "event"));
        match self.precision {
            Some(cycles) => {
                let ns = Unit::nanoseconds(self.hertz, 0).up(cycles);
                format!("{clock}: {events}, at most {ns} ns off the reference at any stamp")
            }
            None => format!("{clock}: {events}, which nothing places on the reference"),
        }
    }

    fn name(&self) -> String {
        format!("clock_{}", self.clock).replace(|letter: char| !letter.is_ascii_alphanumeric(), "_")
    }

    fn describe(&self, number: usize, text: &mut String) {
        let seconds = self.offset_ns.div_euclid(i128::from(NS_PER_S));
        let rest = self.offset_ns.rem_euclid(i128::from(NS_PER_S)) * i128::from(self.hertz) / i128::from(NS_PER_S);
        let name = format!("{}_{number}", self.name());
        let lines = [
            format!("name = {name};"),
            format!("description = \"{}\";", quoted(&self.sentence())),
            format!("freq = {};", self.hertz),
            format!("precision = {};", self.precision.unwrap_or(0)),
            format!("offset_s = {seconds};"),
            format!("offset = {rest};"),
            "absolute = TRUE;".into(),
        ];
        block(text, "clock", &lines);
        let form = format!("size = 64; align = 8; signed = false; map = clock.{name}.value;");
        let _ = writeln!(text, "typealias integer {{ {form} }} := time_{number}_t;\n");
    }
}

const TYPES: &str = "typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 32; align = 8; signed = true; } := int32_t;
typealias integer { size = 64; align = 8; signed = true; } := int64_t;

";
const KEYS: &str = "int64_t id; int32_t kind; int32_t occurrence;";
const DURATION: &str = " int64_t estimate_ns; int64_t lo_ns; int64_t hi_ns;";

/// The text of the description.
pub(super) fn describe(
    about: &About,
    layout: &Layout,
    clocks: &Clocks,
    classes: &[ClockClass],
    time_of_day: Option<TimeOfDay>,
) -> String {
    let mut text = format!("/* CTF 1.8 */\n\n{TYPES}");
    let uuid: Vec<String> = uuid(about).iter().map(|byte| format!("{byte:02x}")).collect();
    let uuid = [&uuid[..4], &uuid[4..6], &uuid[6..8], &uuid[8..10], &uuid[10..]].map(|part| part.concat()).join("-");
    let lines = [
        "major = 1;".into(),
        "minor = 8;".into(),
        format!("uuid = \"{uuid}\";"),
        "byte_order = le;".into(),
        "packet.header := struct { uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; };".into(),
    ];
    block(&mut text, "trace", &lines);
    environment(about, time_of_day, &mut text);
    for (number, class) in classes.iter().enumerate() {
        class.describe(number, &mut text);
        let time = format!("time_{number}_t");
        let context =
            format!("{time} timestamp_begin; {time} timestamp_end; uint64_t content_size; uint64_t packet_size;");
        let lines = [
            format!("id = {number};"),
            format!("packet.context := struct {{ {context} }};"),
            format!("event.header := struct {{ uint16_t id; {time} timestamp; }};"),
        ];
        block(&mut text, "stream", &lines);
    }
    let mut event = |id: usize, point: usize, name: &str, fields: &str| {
        let lines = [
            format!("id = {id};"),
            format!("name = \"{}\";", quoted(name)),
            format!("stream_id = {};", clocks.of_point[point]),
            format!("fields := struct {{ {KEYS}{fields} }};"),
        ];
        block(&mut text, "event", &lines);
    };
    for (number, point) in layout.points().iter().enumerate() {
        event(number, number, &point.place.to_string(), "");
    }
    for (number, stage) in layout.stages().iter().enumerate() {
        event(layout.points().len() + number, stage.to, &stage.name, DURATION);
    }
    text
}

/// What the figures rest on.
fn environment(about: &About, time_of_day: Option<TimeOfDay>, text: &mut String) {
    let time = match time_of_day {
        Some(known) => format!("CLOCK_REALTIME of the reference's node within {} ns", known.either_side_ns()),
        None => "without a bound: by the run's beginning, of an ordinary clock".into(),
    };
    let fixed = [("tickscope_run", &about.run), ("tickscope_reference", &about.reference), ("time_of_day", &time)];
    let mut lines = fixed.map(|(name, value)| format!("{name} = \"{}\";", quoted(value))).to_vec();
    for (what, all) in [("assumption", &about.assumptions), ("finding", &about.findings)] {
        lines.extend((1..).zip(all).map(|(number, line)| format!("{what}_{number} = \"{}\";", quoted(line))));
    }
    block(text, "env", &lines);
}

/// A named block, a line each.
fn block(text: &mut String, name: &str, lines: &[String]) {
    let _ = writeln!(text, "{name} {{\n    {}\n}};\n", lines.join("\n    "));
}

/// The inside of a literal.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ")
}
