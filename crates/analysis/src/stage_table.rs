//! The table of stages: as text for people, as JSON for programs; the same figures in both.

use std::fmt::Write;

use serde_json::{Value, json};
use tickscope_store::{Assumption, Event, Manifest, Run};
use tickscope_tick::Frequency;
use tickscope_trace::{Answer, Common, QuantileBounds, Role, Sign, StageRow, slowest};

use crate::cost;
use crate::error::Error;
use crate::typesetting::{Side, beginning, columns, paragraph};
use crate::{Analysis, OwnClockSummary, PassageSummary, RelationSummary, SourceSummary, domain_of};

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
        "passages": passages_json(&analysis.passages),
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

fn passages_json(passages: &PassageSummary) -> Value {
    json!({"repeated": passages.repeated, "by_thread": passages.by_thread, "untold": passages.untold})
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

/// The table as text: figures in us, each rounded away from what it bounds.
pub fn text(run: &Run, analysis: &Analysis, events: &[Event]) -> String {
    let unit = Unit(analysis.frequency);
    let mut text = stage_lines(analysis, unit).join("\n");
    text.push_str("\n\n");
    let cost = run.manifest().cost.iter().flat_map(cost::lines);
    for line in remarks(analysis, unit).into_iter().chain(cost).chain(losses(analysis, events)) {
        let _ = writeln!(text, "{}", paragraph(&line)); // writing to a String cannot fail
    }
    let _ = writeln!(text, "\nassumptions");
    for (statement, origin) in assumptions(run.manifest(), analysis) {
        let _ = writeln!(text, "{}", paragraph(&format!("  - {statement} [{origin}]")));
    }
    text
}

/// Path and whole; then, each under a word of its own, what leaves the path and what is shown beside it.
fn stage_lines(analysis: &Analysis, unit: Unit) -> Vec<String> {
    use Side::{Left, LeftClose, Right};
    // Only stamps of clocks beside the counter have an error of their own.
    let has_own = analysis.rows.iter().any(|row| row.own != Common::default());
    let mut sides = vec![Left, Right, Right, LeftClose, Right, LeftClose, Left];
    sides.extend(has_own.then_some(Left));
    sides.extend([Right, Right]);
    let heads = ["stage", "count", "p50 us", "", "p99 us", "", "common"];
    let heads = heads.into_iter().chain(has_own.then_some("own")).chain(["rel 1ms", "rel run"]);
    let mut rows: Vec<Vec<String>> = vec![heads.map(String::from).collect()];
    let mut role = Role::Path;
    for (row, &relative) in analysis.rows.iter().zip(&analysis.relative_1ms_ticks) {
        if row.role != role {
            role = row.role;
            match role {
                Role::Branch => rows.extend([vec![], vec!["branches".into()]]),
                Role::Beside => rows.extend([vec![], vec!["beside".into()]]),
                Role::Path | Role::EndToEnd => {}
            }
        }
        let mut cells = vec![row.name.clone(), row.count.to_string()];
        cells.extend(unit.quantile(row.p50));
        cells.extend(unit.quantile(row.p99));
        cells.push(unit.either_side(row.common));
        cells.extend(has_own.then(|| unit.either_side(row.own)));
        cells.extend([unit.at_most(relative), unit.at_most(row.relative_ticks)]);
        rows.push(cells);
    }
    columns(&sides, &rows)
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
    lines.extend(unanswered(&analysis.rows));
    lines.extend(analysis.passages_line.clone());
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

/// What the bounds leave open, a line a question.
fn unanswered(rows: &[StageRow]) -> Vec<String> {
    let names = |is_open: &dyn Fn(&StageRow) -> bool| {
        rows.iter().filter(|row| is_open(row)).map(|row| row.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let questions = [
        (
            "longer than nothing, at the median (0 lies in its interval)",
            names(&|row| matches!(row.sign(), Some(Answer::NotResolved { .. }))),
        ),
        (
            "the spread from p50 to p99 (no larger than rel run)",
            names(&|row| matches!(row.spread(), Some(Answer::NotResolved { .. }))),
        ),
    ];
    let open = questions.into_iter().filter(|(_, stages)| !stages.is_empty());
    open.map(|(question, stages)| format!("{question}: not resolved for {stages}")).collect()
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
        0 if clock.points > 0 => format!("{}: none of its readings could be placed, {brackets} brackets", clock.domain),
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
        let text = beginning(&event.text, MOST_OF_AN_EVENT, " (whole with --json)");
        format!("event: {} {}{value}: {text}", event.node, event.what)
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
                         clock_gettime read one clock; a kernel stamp of sending precedes the packet, one of receiving follows it; the kernel tells \
                         within 10 ms that a clock was set";
        all.push((statement.into(), "the kernel's interface".into()));
    }
    all.extend(analysis.passages.assumptions());
    all.extend(analysis.sent_once.iter().map(|Assumption { statement, origin }| (statement.clone(), origin.clone())));
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

    /// A quantile and how far the true one may lie from what is shown.
    fn quantile(self, bounds: Option<QuantileBounds>) -> [String; 2] {
        let Some(QuantileBounds { estimate, lo, hi }) = bounds else { return ["-".into(), String::new()] };
        let hundredths = |ticks: i64| self.0.nanoseconds(ticks as f64) / HUNDREDTH_NS;
        let shown = hundredths(estimate).round();
        let (below, above) = (shown - hundredths(lo).floor(), hundredths(hi).ceil() - shown);
        [in_us(shown), within(below, above)]
    }

    /// How far something reaches to both sides.
    fn either_side(self, bound: Common) -> String {
        within(self.outward(bound.below_ticks), self.outward(bound.above_ticks))
    }

    /// A bound.
    fn at_most(self, ticks: u64) -> String {
        if ticks == 0 { "0".into() } else { in_us(self.outward(ticks)) }
    }

    fn outward(self, ticks: u64) -> f64 {
        (self.0.nanoseconds(ticks as f64) / HUNDREDTH_NS).ceil()
    }
}

/// What is shown of a microsecond.
const HUNDREDTH_NS: f64 = 10.0;
/// Characters of an event's text; a command's last line may be a page.
const MOST_OF_AN_EVENT: usize = 160;

fn in_us(hundredths: f64) -> String {
    format!("{:.2}", hundredths / 100.0)
}

/// One figure, the wider one, unless the other side is narrower by a third or more: then one for each.
fn within(below: f64, above: f64) -> String {
    let (narrow, wide) = (below.min(above), below.max(above));
    let alike = wide <= narrow * 1.5 + 2.0;
    match alike {
        _ if wide == 0.0 => "0".into(),
        true => format!("±{}", in_us(wide)),
        false => format!("-{} +{}", in_us(below), in_us(above)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UNIT: Unit = Unit(Frequency { hertz: 2_299_998_020, tolerance_ppm: 101 });

    /// What is read off `12.30 ±0.05` or `12.30 -0.05 +0.75`, in hundredths of a microsecond.
    fn read(shown: &[String; 2]) -> (i64, i64) {
        let hundredths = |text: &str| text.trim_start_matches('±').replace('.', "").parse::<i64>().unwrap();
        let estimate = hundredths(&shown[0]);
        match shown[1].split(' ').collect::<Vec<_>>().as_slice() {
            [both] => (estimate - hundredths(both), estimate + hundredths(both)),
            [below, above] => (estimate + hundredths(below), estimate + hundredths(above)),
            other => panic!("{other:?}"),
        }
    }

    proptest! {
        #[test]
        fn property_what_is_shown_of_a_quantile_holds_its_interval(
            estimate in -1_000_000_000i64..1_000_000_000, below in 0i64..100_000, above in 0i64..100_000,
        ) {
            let bounds = QuantileBounds { estimate, lo: estimate - below, hi: estimate + above };
            let (lo, hi) = read(&UNIT.quantile(Some(bounds)));
            // In ticks times hundredths, exact.
            let scaled = |ticks: i64| i128::from(ticks) * 100_000_000;
            let shown = |hundredths: i64| i128::from(hundredths) * i128::from(UNIT.0.hertz);
            prop_assert!(shown(lo) <= scaled(bounds.lo) && scaled(bounds.hi) <= shown(hi), "{lo} {hi}");
        }
    }

    #[test]
    fn a_bound_is_one_figure_unless_its_sides_differ() {
        let shown = [(0, 0), (2299, 2299), (2300, 2760), (0, 2300)]
            .map(|(below_ticks, above_ticks)| UNIT.either_side(Common { below_ticks, above_ticks }));
        assert_eq!(shown, ["0", "±1.00", "±1.21", "-0.00 +1.01"]);
        assert_eq!([0, 1].map(|ticks| UNIT.at_most(ticks)), ["0", "0.01"]);
    }
}
