//! The table of stages: as text for people, as JSON for programs; the same figures in both.

use std::fmt::Write;

use serde_json::{Value, json};
use tickscope_store::{Event, Manifest, Run};
use tickscope_tick::Frequency;
use tickscope_trace::{Answer, Common, QuantileBounds, Role, Sign, StageRow, slowest};

use crate::cost;
use crate::error::Error;
use crate::{Analysis, OwnClockSummary, RelationSummary, SourceSummary, domain_of};

/// The table as JSON. Ticks are exact; nanoseconds are ticks over the declared frequency.
pub fn json(run: &Run, analysis: &Analysis, events: &[Event]) -> Result<Value, Error> {
    let unit = Unit(analysis.frequency);
    let manifest = run.manifest();
    let stages = analysis.rows.iter().zip(&analysis.relative_1ms_ticks);
    Ok(json!({
        "run": run.root().display().to_string(),
        "run_id": format!("{:016x}", manifest.run),
        "reference": manifest.reference,
        "frequency": {"hertz": analysis.frequency.hertz, "tolerance_ppm": analysis.frequency.tolerance_ppm},
        "stages": stages.map(|(row, &relative)| stage_json(row, relative, unit)).collect::<Vec<_>>(),
        "slowest": slowest(&analysis.rows).into_iter().map(|row| analysis.rows[row].name.clone()).collect::<Vec<_>>(),
        "path_sums": {"mismatches": analysis.sum_mismatches},
        "relations": analysis.relations.iter().map(|relation| relation_json(relation, unit)).collect::<Vec<_>>(),
        "own_clocks": analysis.own_clocks.iter().map(|clock| own_clock_json(clock, unit)).collect::<Vec<_>>(),
        "unplaced": analysis.unplaced.iter().map(|(stage, why, count)| json!({"stage": stage, "reason": why, "count": count})).collect::<Vec<_>>(),
        "truth": analysis.truth.as_ref().map(|truth| json!({"known": truth.known, "inside": truth.inside})),
        "assumptions": assumptions(manifest, analysis).into_iter().map(|(statement, origin)| json!({"statement": statement, "origin": origin})).collect::<Vec<_>>(),
        "cost": manifest.cost.as_ref().map(cost::json),
        "findings": analysis.suspicions,
        "events": events.iter().map(event_json).collect::<Vec<_>>(),
    }))
}

fn event_json(event: &Event) -> Value {
    json!({
        "node": event.node, "channel": event.channel, "domain": event.domain, "tick": event.tick, "until": event.until,
        "what": event.what, "value": event.value, "text": event.text,
    })
}

fn stage_json(row: &StageRow, relative_1ms_ticks: u64, unit: Unit) -> Value {
    let quantile = |bounds: Option<QuantileBounds>| {
        bounds.map(|QuantileBounds { estimate, lo, hi }| {
            json!({"ticks": estimate, "lo_ticks": lo, "hi_ticks": hi,
                   "ns": unit.ns(estimate), "lo_ns": unit.ns(lo), "hi_ns": unit.ns(hi)})
        })
    };
    json!({
        "stage": row.name, "from": row.from, "to": row.to, "role": format!("{:?}", row.role),
        "count": row.count, "missing": row.missing, "refused": row.refused, "impossible": row.impossible,
        "p50": quantile(row.p50), "p99": quantile(row.p99),
        "common": {"below_ticks": row.common.below_ticks, "above_ticks": row.common.above_ticks,
                   "below_ns": unit.ns(row.common.below_ticks as i64), "above_ns": unit.ns(row.common.above_ticks as i64)},
        "own": {"below_ticks": row.own.below_ticks, "above_ticks": row.own.above_ticks,
                "below_ns": unit.ns(row.own.below_ticks as i64), "above_ns": unit.ns(row.own.above_ticks as i64)},
        "relative": {"run_ticks": row.relative_ticks, "run_ns": unit.ns(row.relative_ticks as i64),
                     "one_ms_apart_ticks": relative_1ms_ticks, "one_ms_apart_ns": unit.ns(relative_1ms_ticks as i64)},
        "core_ticks": row.core_ticks,
        "sign": sign(row), "spread": spread(row, unit),
    })
}

fn relation_json(relation: &RelationSummary, unit: Unit) -> Value {
    let beside = relation
        .beside
        .iter()
        .map(|(rho, width)| json!({"rho": rho.to_string(), "half_width_ns": width.map(|ticks| unit.ns(ticks as i64))}));
    json!({
        "domain": relation.domain, "rho_ppm": f64::from(relation.rho.ppb()) / 1000.0, "rho": relation.rho.to_string(),
        "brackets": relation.brackets,
        "half_width_ticks": relation.half_width_ticks, "half_width_ns": relation.half_width_ticks.map(|ticks| unit.ns(ticks as i64)),
        "half_round_trip_min_ns": relation.half_round_trip_ticks.map(|ticks| unit.ns(ticks)),
        "beside": beside.collect::<Vec<_>>(),
        "sources": relation.sources.iter().map(|source| source_json(source, unit)).collect::<Vec<_>>(),
        "slopes": [relation.slopes.0, relation.slopes.1],
    })
}

fn source_json(source: &SourceSummary, unit: Unit) -> Value {
    let ns = |ticks: Option<u64>| ticks.map(|ticks| unit.ns(ticks as i64));
    json!({
        "name": source.name, "brackets": source.brackets,
        "alone_ticks": source.alone_ticks, "alone_ns": ns(source.alone_ticks),
        "without_ticks": source.without_ticks, "without_ns": ns(source.without_ticks),
        "unused": source.unused.iter().map(|(reason, count)| json!({"reason": reason, "count": count})).collect::<Vec<_>>(),
    })
}

/// The table as text.
pub fn text(run: &Run, analysis: &Analysis, events: &[Event]) -> String {
    let unit = Unit(analysis.frequency);
    let mut text = String::new();
    let width = analysis.rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max(12);
    let either =
        |bound: Common| format!("-{} +{}", unit.us(bound.below_ticks as i64), unit.us(bound.above_ticks as i64));
    // Only stamps of clocks beside the counter have an error of their own.
    let has_own = analysis.rows.iter().any(|row| row.own != Common::default());
    let own = |text: String| if has_own { format!("  {text:>13}") } else { String::new() };
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{:width$}  {:>8}  {:>26}  {:>26}  {:>17}{}  {:>8}  {:>8}  answers",
        "stage",
        "count",
        "p50 us [lo, hi]",
        "p99 us [lo, hi]",
        "common us",
        own("own us".into()),
        "rel 1ms",
        "rel run"
    );
    for (row, &relative) in analysis.rows.iter().zip(&analysis.relative_1ms_ticks) {
        let _ = writeln!(
            text,
            "{:width$}  {:>8}  {:>26}  {:>26}  {:>17}{}  {:>8}  {:>8}  {}; {}",
            row.name,
            row.count,
            unit.quantile(row.p50),
            unit.quantile(row.p99),
            either(row.common),
            own(either(row.own)),
            unit.us(relative as i64),
            unit.us(row.relative_ticks as i64),
            sign(row),
            spread(row, unit),
        );
    }
    text.push('\n');
    let cost = run.manifest().cost.iter().flat_map(cost::lines);
    for line in remarks(analysis, unit).into_iter().chain(cost).chain(losses(analysis, events)) {
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(text, "\nassumptions");
    for (statement, origin) in assumptions(run.manifest(), analysis) {
        let _ = writeln!(text, "  - {statement} [{origin}]");
    }
    text
}

fn remarks(analysis: &Analysis, unit: Unit) -> Vec<String> {
    let mut lines = Vec::new();
    match slowest(&analysis.rows).as_slice() {
        [] => lines.push("slowest stage at the median: no stage of the path has a duration".into()),
        [only] => lines.push(format!("slowest stage at the median: {}", analysis.rows[*only].name)),
        several => {
            let names: Vec<_> = several.iter().map(|&row| analysis.rows[row].name.as_str()).collect();
            lines.push(format!("slowest stage at the median: not resolved between {}", names.join(" and ")));
        }
    }
    let sums = if analysis.sum_mismatches == 0 {
        "exactly, in every trace".into()
    } else {
        format!("NOT, in {} traces", analysis.sum_mismatches)
    };
    lines.push(format!("path stages sum to end-to-end: {sums}"));
    let negative = |row: &&StageRow| row.role == Role::Beside && row.p50.is_some_and(|median| median.hi < 0);
    lines.extend(analysis.rows.iter().filter(negative).map(|row| {
        format!(
            "beside: {} is negative because {} comes first: the two lie on different branches, so no time is spent between them",
            row.name, row.to
        )
    }));
    for relation in &analysis.relations {
        lines.push(relation_line(relation, unit));
        lines.extend(relation.sources.iter().map(|source| source_line(source, unit)));
    }
    lines.extend(analysis.own_clocks.iter().flat_map(|clock| own_clock_lines(clock, unit)));
    if let Some(truth) = &analysis.truth {
        let (inside, known) = (truth.inside, truth.known);
        lines.push(format!(
            "known truth (the nodes read one counter): {inside} of {known} true durations lie in their intervals"
        ));
    }
    lines.extend(analysis.suspicions.iter().map(|finding| format!("finding: {finding}")));
    lines
}

fn relation_line(relation: &RelationSummary, unit: Unit) -> String {
    let mut line = format!(
        "{}: known to {} (median) from {} brackets, at rho {}",
        relation.domain,
        relation.half_width_ticks.map_or("an unknown width".into(), |ticks| format!("±{} us", unit.us(ticks as i64))),
        relation.brackets,
        relation.rho
    );
    for (rho, width) in &relation.beside {
        let width = width.map_or("contradicted".into(), |ticks| format!("±{} us", unit.us(ticks as i64)));
        let _ = write!(line, "; {width} at {rho}");
    }
    if let Some(half) = relation.half_round_trip_ticks {
        let _ = write!(line, "; half the shortest round trip: {} us", unit.us(half));
    }
    line
}

fn own_clock_json(clock: &OwnClockSummary, unit: Unit) -> Value {
    let ns = |ticks: Option<u64>| ticks.map(|ticks| unit.ns(ticks as i64));
    let breaks = clock.breaks.iter().map(|found| {
        json!({"tick": found.span.0, "until": found.span.1, "declared": found.declared,
               "jump_ns": found.jump_ns.map(|(least, most)| json!([least, most]))})
    });
    json!({
        "domain": clock.domain, "counter": clock.counter, "slew": clock.slew.to_string(),
        "slew_ppm": ppm(clock), "slew_origin": clock.slew_origin,
        "brackets": clock.brackets, "epochs": clock.epochs, "breaks": breaks.collect::<Vec<_>>(),
        "contradictions": clock.contradictions,
        "readings": clock.readings, "half_width_ns": {"p50": ns(clock.half_width_ticks), "p99": ns(clock.half_width_p99_ticks)},
        "published": {"inside": clock.published_inside, "of": clock.readings,
                      "furthest_outside_ns": unit.ns(clock.published_furthest_ticks as i64)},
    })
}

/// How well a clock beside the counter is known, where it was set, and what the published method makes of its readings.
fn own_clock_lines(clock: &OwnClockSummary, unit: Unit) -> Vec<String> {
    let ns = |ticks: Option<u64>| ticks.map_or("unknown".into(), |ticks| format!("{:.0} ns", unit.ns(ticks as i64)));
    let (slew, brackets) = (ppm(clock), clock.brackets);
    let mut lines = vec![match clock.readings {
        0 => format!("{}: {brackets} brackets, slew at most {slew} ppm; for evidence only", clock.domain),
        readings => format!(
            "{}: {readings} readings known to ±{} (median), ±{} (p99) from {brackets} brackets, slew at most {slew} ppm",
            clock.domain,
            ns(clock.half_width_ticks),
            ns(clock.half_width_p99_ticks),
        ),
    }];
    let outside = clock.readings - clock.published_inside;
    if clock.readings > 0 {
        lines.push(format!(
            "  published (X-Lap: the line between the run's ends): {outside} of {} readings outside, by {:.0} ns at most",
            clock.readings,
            unit.ns(clock.published_furthest_ticks as i64)
        ));
    }
    lines.extend(clock.breaks.iter().map(|found| {
        let jump = found.jump_ns.map_or(String::new(), |(least, most)| format!(", it jumped by {least} to {most} ns"));
        let who = if found.declared { "the watch saw" } else { "the brackets show" };
        format!("  not trusted between ticks {} and {}: {who} a break{jump}", found.span.0, found.span.1)
    }));
    lines.extend(clock.contradictions.iter().map(|why| format!("  an epoch contradicts itself: {why}")));
    lines
}

fn ppm(clock: &OwnClockSummary) -> f64 {
    f64::from(clock.slew.ppb()) / 1000.0
}

/// What one source of evidence does to the width.
fn source_line(source: &SourceSummary, unit: Unit) -> String {
    let width = |ticks: Option<u64>| ticks.map_or("unbounded".into(), |ticks| format!("±{} us", unit.us(ticks as i64)));
    let mut line =
        format!("  evidence {}: {} brackets, alone {}", source.name, source.brackets, width(source.alone_ticks));
    if let Some(without) = source.without_ticks {
        let _ = write!(line, ", all others ±{} us", unit.us(without as i64));
    }
    for (reason, count) in &source.unused {
        let _ = write!(line, "; not used: {count} {reason}");
    }
    line
}

fn losses(analysis: &Analysis, events: &[Event]) -> Vec<String> {
    let missing = analysis.rows.iter().filter(|row| row.missing > 0);
    let mut lines: Vec<String> =
        missing.map(|row| format!("missing: {} traces lack a stamp of {}", row.missing, row.name)).collect();
    let unplaced = analysis.unplaced.iter();
    lines.extend(unplaced.map(|(stage, why, count)| format!("refused: {count} durations of {stage}: {why}")));
    lines.extend(events.iter().map(|event| {
        let value = event.value.map_or(String::new(), |value| format!(" ({value})"));
        format!("event: {} {}{value}: {}", event.node, event.what, event.text)
    }));
    lines
}

/// Every assumption behind the figures, with its origin.
pub fn assumptions(manifest: &Manifest, analysis: &Analysis) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for relation in &analysis.relations {
        let pair = format!("the rate of {} against {}", relation.domain, manifest.reference);
        all.push((format!("{pair} stays within rho of one value"), format!("rho {}", relation.rho)));
    }
    for clock in &analysis.own_clocks {
        let (domain, counter, slew) = (&clock.domain, &clock.counter, ppm(clock));
        let statement = format!("{domain} runs within {slew} ppm of one rate against {counter}, between breaks");
        all.push((statement, clock.slew_origin.clone()));
    }
    if !analysis.own_clocks.is_empty() {
        let statement = "a stamp of another clock stands for the whole nanosecond that it names; the kernel's stamps and \
                         clock_gettime read one clock; a kernel stamp of sending precedes the packet, one of receiving follows it";
        all.push((statement.into(), "the kernel's interface".into()));
    }
    for pair in &manifest.evidence.messages {
        all.push((format!("every id passes {pair} once; ids stamped twice are left out"), "the run file".into()));
    }
    for node in &manifest.nodes {
        all.push((format!("cores of {}: {}", node.name, node.counter.sharing.checked), "checked at the start".into()));
    }
    let Frequency { hertz, tolerance_ppm } = analysis.frequency;
    let origin = manifest.nodes.iter().find(|node| domain_of(node) == manifest.reference);
    let origin = origin.map_or(String::new(), |node| node.counter.frequency.origin.clone());
    let seconds = format!(
        "seconds: {} runs at {hertz} Hz ±{tolerance_ppm} ppm, an error common to all figures",
        manifest.reference
    );
    all.push((seconds, format!("declared: {origin}")));
    all.extend(manifest.assumptions.iter().map(|assumption| (assumption.statement.clone(), assumption.origin.clone())));
    all
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
        Some(Answer::Resolved(ticks)) => format!("spread {} us", unit.us(ticks as i64)),
        Some(Answer::NotResolved { .. }) => "spread not resolved".into(),
    }
}

/// Ticks as seconds, for display only.
#[derive(Clone, Copy)]
struct Unit(Frequency);

impl Unit {
    fn ns(self, ticks: i64) -> f64 {
        // A tenth of a nanosecond is finer than any tick.
        (self.0.nanoseconds(ticks as f64) * 10.0).round() / 10.0
    }

    fn us(self, ticks: i64) -> String {
        format!("{:.2}", self.0.nanoseconds(ticks as f64) / 1000.0)
    }

    fn quantile(self, bounds: Option<QuantileBounds>) -> String {
        bounds.map_or("-".into(), |QuantileBounds { estimate, lo, hi }| {
            format!("{} [{}, {}]", self.us(estimate), self.us(lo), self.us(hi))
        })
    }
}
