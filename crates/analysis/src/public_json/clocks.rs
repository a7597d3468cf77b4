//! What is known of clocks, as public JSON: the counters, every pair of them, and clocks that somebody may set.

use serde::Serialize;
use tickscope_tick::{Label, Unit};

use super::DECIMALS;
use crate::{AuxiliaryClockSummary, BreakSummary, ClockMapSummary, PairSummary, SourceSummary};

#[derive(Debug, Serialize)]
pub(super) struct ClockMapJson<'a> {
    /// The counter, `node.counter`.
    domain: &'a Label,
    /// How far its rate may stray, parts per million.
    rho_ppm: f64,
    /// The same in words, with where it comes from.
    rho: String,
    /// Pieces of evidence: two an exchange.
    brackets: usize,
    /// Half the interval's width at the median.
    half_width_ticks: Option<u64>,
    /// The same in nanoseconds.
    half_width_ns: Option<f64>,
    /// Half the shortest round trip of the probes, the peer's turnaround taken off.
    half_round_trip_min_ns: Option<f64>,
    /// What the width would be under other presets.
    other_rho: Vec<OtherRhoJson>,
    /// What each source of evidence gives.
    sources: Vec<SourceJson<'a>>,
    /// Slopes of the cone, reference ticks a local tick.
    slopes: [f64; 2],
}

/// Two counters, and what the evidence of all pairs makes of them; half-widths in ticks of `reference`.
#[derive(Debug, Serialize)]
pub(super) struct PairJson<'a> {
    /// The counter whose ticks are mapped.
    domain: &'a Label,
    /// The counter whose ticks they become; half-widths are in these.
    reference: &'a Label,
    /// How far their rate may stray, in words.
    rho: String,
    /// Pieces of evidence between the two.
    brackets: usize,
    /// Half the interval's width at the median by the pair's own evidence.
    direct_half_width_ticks: Option<u64>,
    /// The same by all evidence.
    closed_half_width_ticks: Option<u64>,
    /// The ways that narrowed it, those that narrowed it most often first.
    ways: &'a [Vec<Label>],
}

#[derive(Debug, Serialize)]
struct OtherRhoJson {
    /// The preset.
    rho: String,
    /// Half the interval's width under it.
    half_width_ns: Option<f64>,
}

#[derive(Debug, Serialize)]
struct SourceJson<'a> {
    /// Its name, as `--evidence` takes it.
    name: &'a str,
    /// Pieces of evidence.
    brackets: usize,
    /// Half the width by it alone.
    alone_ticks: Option<u64>,
    /// The same in nanoseconds.
    alone_ns: Option<f64>,
    /// Half the width without it.
    without_ticks: Option<u64>,
    /// The same in nanoseconds.
    without_ns: Option<f64>,
    /// Evidence that did not serve.
    unused: Vec<UnusedJson<'a>>,
}

/// Evidence that did not serve.
#[derive(Debug, Serialize)]
struct UnusedJson<'a> {
    /// Why.
    reason: &'a str,
    /// How much of it.
    count: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct AuxiliaryClockJson<'a> {
    /// The clock, `node.clock`.
    domain: &'a Label,
    /// The counter of its node.
    counter: &'a Label,
    /// How far its rate may stray, in words.
    slew: String,
    /// The same in parts per million.
    slew_ppm: f64,
    /// Where that comes from.
    slew_origin: &'a str,
    /// Pieces of evidence.
    brackets: usize,
    /// Evidence that did not serve.
    unused: Vec<UnusedJson<'a>>,
    /// Stretches between breaks.
    epochs: usize,
    /// Where it was set or slewed.
    breaks: Vec<BreakJson>,
    /// Epochs whose brackets contradict each other, a sentence each.
    contradictions: &'a [String],
    /// Stamps of it at the layout's points that have an interval.
    readings: u64,
    /// Half the width of their intervals.
    half_width_ns: HalfWidthJson,
    /// Readings held against one line between the run's ends, where X-Lap draws one a packet.
    published: PublishedJson,
}

#[derive(Debug, Serialize)]
struct BreakJson {
    /// First tick of the node's counter.
    tick: i64,
    /// The last one.
    until: i64,
    /// True if the clock monitor reported it; else the brackets show it.
    declared: bool,
    /// By how much it jumped, at least and at most.
    jump_ns: Option<(i64, i64)>,
}

#[derive(Debug, Serialize)]
struct HalfWidthJson {
    /// At the median.
    p50: Option<f64>,
    /// At the 99th percentile.
    p99: Option<f64>,
}

/// One line between the run's ends, where X-Lap draws one a packet.
#[derive(Debug, Serialize)]
struct PublishedJson {
    /// Readings inside of it.
    inside: u64,
    /// All readings.
    of: u64,
    /// How far the furthest lies outside.
    furthest_outside_ns: f64,
}

impl<'a> ClockMapJson<'a> {
    pub(super) fn of(clock_map: &'a ClockMapSummary, unit: Unit) -> Self {
        let other_rho = clock_map.other_rho.iter();
        let other_rho =
            other_rho.map(|(rho, width)| OtherRhoJson { rho: rho.to_string(), half_width_ns: ns(*width, unit) });
        Self {
            domain: &clock_map.domain,
            rho_ppm: f64::from(clock_map.rho.ppb()) / 1000.0,
            rho: clock_map.rho.to_string(),
            brackets: clock_map.brackets,
            half_width_ticks: clock_map.half_width_ticks,
            half_width_ns: ns(clock_map.half_width_ticks, unit),
            half_round_trip_min_ns: clock_map.half_round_trip_ticks.map(|ticks| unit.float_near(ticks)),
            other_rho: other_rho.collect(),
            sources: clock_map.sources.iter().map(|source| SourceJson::of(source, unit)).collect(),
            slopes: clock_map.slopes.into(),
        }
    }
}

impl<'a> PairJson<'a> {
    pub(super) fn of(pair: &'a PairSummary) -> Self {
        Self {
            domain: &pair.domain,
            reference: &pair.reference,
            rho: pair.rho.to_string(),
            brackets: pair.brackets,
            direct_half_width_ticks: pair.direct_half_width_ticks,
            closed_half_width_ticks: pair.closed_half_width_ticks,
            ways: &pair.ways,
        }
    }
}

impl<'a> SourceJson<'a> {
    fn of(source: &'a SourceSummary, unit: Unit) -> Self {
        Self {
            name: source.name,
            brackets: source.brackets,
            alone_ticks: source.alone_ticks,
            alone_ns: ns(source.alone_ticks, unit),
            without_ticks: source.without_ticks,
            without_ns: ns(source.without_ticks, unit),
            unused: unused(&source.unused),
        }
    }
}

impl<'a> AuxiliaryClockJson<'a> {
    pub(super) fn of(clock: &'a AuxiliaryClockSummary) -> Self {
        let unit = Unit::nanoseconds(clock.hertz, DECIMALS);
        let breaks = clock.breaks.iter();
        Self {
            domain: &clock.domain,
            counter: &clock.counter,
            slew: clock.slew.to_string(),
            slew_ppm: f64::from(clock.slew.ppb()) / 1000.0,
            slew_origin: &clock.slew_origin,
            brackets: clock.brackets,
            unused: unused(&clock.unused),
            epochs: clock.epochs,
            breaks: breaks
                .map(|&BreakSummary { span: (tick, until), declared, jump_ns }| BreakJson {
                    tick,
                    until,
                    declared,
                    jump_ns,
                })
                .collect(),
            contradictions: &clock.contradictions,
            readings: clock.readings,
            half_width_ns: HalfWidthJson {
                p50: ns(clock.half_width_ticks, unit),
                p99: ns(clock.half_width_p99_ticks, unit),
            },
            published: PublishedJson {
                inside: clock.published_inside,
                of: clock.readings,
                furthest_outside_ns: unit.float_up(clock.published_furthest_ticks),
            },
        }
    }
}

/// An amount to either side.
fn ns(ticks: Option<u64>, unit: Unit) -> Option<f64> {
    ticks.map(|ticks| unit.float_up(ticks))
}

fn unused<'a>(unused: &'a [(&'static str, u64)]) -> Vec<UnusedJson<'a>> {
    unused.iter().map(|&(reason, count)| UnusedJson { reason, count }).collect()
}
