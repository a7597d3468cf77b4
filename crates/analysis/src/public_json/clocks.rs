//! What is known of clocks, as public JSON: the counters, every pair of them, and clocks that somebody may set.

use serde::Serialize;
use tickscope_tick::{Label, Unit};

use super::DECIMALS;
use crate::{AuxiliaryClockSummary, BreakSummary, ClockMapSummary, PairSummary, SourceSummary};

#[derive(Debug, Serialize)]
pub(super) struct ClockMapJson<'a> {
    domain: &'a Label,
    rho_ppm: f64,
    rho: String,
    brackets: usize,
    half_width_ticks: Option<u64>,
    half_width_ns: Option<f64>,
    half_round_trip_min_ns: Option<f64>,
    other_rho: Vec<OtherRhoJson>,
    sources: Vec<SourceJson<'a>>,
    slopes: [f64; 2],
}

/// Two counters, and what the evidence of all pairs makes of them; half-widths in ticks of `reference`.
#[derive(Debug, Serialize)]
pub(super) struct PairJson<'a> {
    domain: &'a Label,
    reference: &'a Label,
    rho: String,
    brackets: usize,
    direct_half_width_ticks: Option<u64>,
    closed_half_width_ticks: Option<u64>,
    ways: &'a [Vec<Label>],
}

#[derive(Debug, Serialize)]
struct OtherRhoJson {
    rho: String,
    half_width_ns: Option<f64>,
}

#[derive(Debug, Serialize)]
struct SourceJson<'a> {
    name: &'a str,
    brackets: usize,
    alone_ticks: Option<u64>,
    alone_ns: Option<f64>,
    without_ticks: Option<u64>,
    without_ns: Option<f64>,
    unused: Vec<UnusedJson<'a>>,
}

/// Evidence that did not serve.
#[derive(Debug, Serialize)]
struct UnusedJson<'a> {
    reason: &'a str,
    count: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct AuxiliaryClockJson<'a> {
    domain: &'a Label,
    counter: &'a Label,
    slew: String,
    slew_ppm: f64,
    slew_origin: &'a str,
    brackets: usize,
    unused: Vec<UnusedJson<'a>>,
    epochs: usize,
    breaks: Vec<BreakJson>,
    contradictions: &'a [String],
    readings: u64,
    half_width_ns: HalfWidthJson,
    published: PublishedJson,
}

#[derive(Debug, Serialize)]
struct BreakJson {
    tick: i64,
    until: i64,
    declared: bool,
    jump_ns: Option<(i64, i64)>,
}

#[derive(Debug, Serialize)]
struct HalfWidthJson {
    p50: Option<f64>,
    p99: Option<f64>,
}

/// One line between the run's ends, where X-Lap draws one a packet.
#[derive(Debug, Serialize)]
struct PublishedJson {
    inside: u64,
    of: u64,
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
