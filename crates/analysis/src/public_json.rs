//! A run's table of stages as public JSON: what `show --json` prints, and the report and Python read.

use serde_json::{Value, json};
use tickscope_store::{Event, Run};
use tickscope_tick::Unit;
use tickscope_trace::{Answer, Common, QuantileBounds, Sign, StageRow, slowest};

use crate::assumptions::assumptions;
use crate::cost;
use crate::error::Error;
use crate::{Analysis, AuxiliaryClockSummary, ClockMapSummary, PassageSummary, SourceSummary};

/// Decimals of a nanosecond in JSON.
const JSON_DECIMALS: u32 = 3;
/// Decimals of a microsecond in words.
const TEXT_DECIMALS: u32 = 2;

/// The table as JSON. Ticks are exact; nanoseconds are ticks over the declared frequency, bounds rounded outward.
pub fn json(run: &Run, analysis: &Analysis, events: &[Event]) -> Result<Value, Error> {
    let unit = Unit::nanoseconds(analysis.frequency.hertz, JSON_DECIMALS);
    let manifest = run.manifest();
    let stages = analysis.rows.iter().zip(&analysis.relative_1ms_ticks);
    Ok(json!({
        "run": run.root().display().to_string(),
        "run_id": format!("{:016x}", manifest.run),
        "reference": manifest.reference,
        "frequency": {"hertz": analysis.frequency.hertz, "tolerance_ppm": analysis.frequency.tolerance_ppm},
        "stages": stages.map(|(row, &relative)| stage_json(row, relative, analysis.frequency.hertz)).collect::<Vec<_>>(),
        "slowest": slowest(&analysis.rows).into_iter().map(|row| analysis.rows[row].name.clone()).collect::<Vec<_>>(),
        "path_sums": {"mismatches": analysis.sum_mismatches},
        "passages": passages_json(&analysis.passages),
        "clock_maps": analysis.clock_maps.iter().map(|clock_map| clock_map_json(clock_map, unit)).collect::<Vec<_>>(),
        "own_clocks": analysis.auxiliary_clocks.iter().map(auxiliary_clock_json).collect::<Vec<_>>(),
        "unplaced": analysis.unplaced.iter().map(|(stage, why, count)| json!({"stage": stage, "reason": why, "count": count})).collect::<Vec<_>>(),
        "truth": analysis.truth.as_ref().map(|truth| json!({"known": truth.known, "inside": truth.inside})),
        "assumptions": assumptions(manifest, analysis).into_iter().map(|(statement, origin)| json!({"statement": statement, "origin": origin})).collect::<Vec<_>>(),
        "cost": manifest.cost.as_ref().map(cost::json),
        "findings": analysis.findings().collect::<Vec<_>>(),
        "events": events.iter().map(event_json).collect::<Vec<_>>(),
    }))
}

fn passages_json(passages: &PassageSummary) -> Value {
    json!({"repeated": passages.repeated, "by_thread": passages.by_thread, "untold": passages.untold})
}

fn event_json(event: &Event) -> Value {
    json!({
        "node": event.node, "channel": event.channel, "domain": event.domain, "tick": event.tick, "until": event.until,
        "what": event.what, "value": event.value, "text": event.text,
    })
}

fn stage_json(row: &StageRow, relative_1ms_ticks: u64, hertz: u64) -> Value {
    let unit = Unit::nanoseconds(hertz, JSON_DECIMALS);
    let quantile = |bounds: Option<QuantileBounds>| {
        bounds.map(|QuantileBounds { estimate, lo, hi }| {
            json!({"ticks": estimate, "lo_ticks": lo, "hi_ticks": hi,
                   "ns": unit.float_near(estimate), "lo_ns": unit.float_down(lo), "hi_ns": unit.float_up(hi)})
        })
    };
    let either_side = |Common { below_ticks, above_ticks }: Common| {
        json!({"below_ticks": below_ticks, "above_ticks": above_ticks,
               "below_ns": unit.float_up(below_ticks), "above_ns": unit.float_up(above_ticks)})
    };
    json!({
        "stage": row.name, "from": row.from, "to": row.to, "role": format!("{:?}", row.role),
        "count": row.count, "missing": row.missing, "refused": row.refused, "impossible": row.impossible,
        "p50": quantile(row.p50), "p99": quantile(row.p99),
        "common": either_side(row.common), "own": either_side(row.own),
        "relative": {"run_ticks": row.relative_ticks, "run_ns": unit.float_up(row.relative_ticks),
                     "one_ms_apart_ticks": relative_1ms_ticks, "one_ms_apart_ns": unit.float_up(relative_1ms_ticks)},
        "core_ticks": row.core_ticks,
        "sign": sign(row), "spread": spread(row, Unit::microseconds(hertz, TEXT_DECIMALS)),
    })
}

fn clock_map_json(clock_map: &ClockMapSummary, unit: Unit) -> Value {
    let ns = |ticks: Option<u64>| ticks.map(|ticks| unit.float_up(ticks));
    let beside = clock_map.beside.iter();
    let beside = beside.map(|(rho, width)| json!({"rho": rho.to_string(), "half_width_ns": ns(*width)}));
    json!({
        "domain": clock_map.domain, "rho_ppm": f64::from(clock_map.rho.ppb()) / 1000.0, "rho": clock_map.rho.to_string(),
        "brackets": clock_map.brackets,
        "half_width_ticks": clock_map.half_width_ticks, "half_width_ns": ns(clock_map.half_width_ticks),
        "half_round_trip_min_ns": clock_map.half_round_trip_ticks.map(|ticks| unit.float_near(ticks)),
        "beside": beside.collect::<Vec<_>>(),
        "sources": clock_map.sources.iter().map(|source| source_json(source, unit)).collect::<Vec<_>>(),
        "slopes": [clock_map.slopes.0, clock_map.slopes.1],
    })
}

fn source_json(source: &SourceSummary, unit: Unit) -> Value {
    let ns = |ticks: Option<u64>| ticks.map(|ticks| unit.float_up(ticks));
    json!({
        "name": source.name, "brackets": source.brackets,
        "alone_ticks": source.alone_ticks, "alone_ns": ns(source.alone_ticks),
        "without_ticks": source.without_ticks, "without_ns": ns(source.without_ticks),
        "unused": unused_json(&source.unused),
    })
}

/// Evidence that did not serve, by reason.
fn unused_json(unused: &[(&str, u64)]) -> Value {
    unused.iter().map(|(reason, count)| json!({"reason": reason, "count": count})).collect()
}

fn auxiliary_clock_json(clock: &AuxiliaryClockSummary) -> Value {
    let unit = Unit::nanoseconds(clock.hertz, JSON_DECIMALS);
    let ns = |ticks: Option<u64>| ticks.map(|ticks| unit.float_up(ticks));
    let breaks = clock.breaks.iter().map(|found| {
        json!({"tick": found.span.0, "until": found.span.1, "declared": found.declared,
               "jump_ns": found.jump_ns.map(|(least, most)| json!([least, most]))})
    });
    json!({
        "domain": clock.domain, "counter": clock.counter, "slew": clock.slew.to_string(),
        "slew_ppm": ppm(clock), "slew_origin": clock.slew_origin,
        "brackets": clock.brackets, "unused": unused_json(&clock.unused), "epochs": clock.epochs, "breaks": breaks.collect::<Vec<_>>(),
        "contradictions": clock.contradictions,
        "readings": clock.readings, "half_width_ns": {"p50": ns(clock.half_width_ticks), "p99": ns(clock.half_width_p99_ticks)},
        "published": {"inside": clock.published_inside, "of": clock.readings,
                      "furthest_outside_ns": unit.float_up(clock.published_furthest_ticks)},
    })
}

fn ppm(clock: &AuxiliaryClockSummary) -> f64 {
    f64::from(clock.slew.ppb()) / 1000.0
}

fn sign(row: &StageRow) -> String {
    match row.sign() {
        None => "no durations".into(),
        Some(Answer::Resolved(Sign::Positive)) => "> 0".into(),
        Some(Answer::Resolved(Sign::Zero)) => "= 0".into(),
        Some(Answer::Resolved(Sign::Negative)) => "< 0".into(),
        Some(Answer::NotResolved { .. }) => "sign not resolved".into(),
    }
}

fn spread(row: &StageRow, unit: Unit) -> String {
    match row.spread() {
        None => "no spread".into(),
        Some(Answer::Resolved(ticks)) => format!("spread {} us", unit.near(ticks)),
        Some(Answer::NotResolved { .. }) => "spread not resolved".into(),
    }
}
