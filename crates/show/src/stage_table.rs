//! The table of stages as text for people; the figures are those of the public JSON.

use std::fmt::Write;

use tickscope_analysis::{Analysis, AuxiliaryClockSummary, ClockMapSummary, SourceSummary, assumptions, cost};
use tickscope_store::{Event, Run};
use tickscope_tick::{Decimal, Unit};
use tickscope_trace::{Answer, Common, QuantileBounds, StageRole, StageRow, slowest};

use crate::preparation;
use crate::typesetting::{Side, beginning, columns, paragraph};

/// Decimals of a microsecond in the text.
const TEXT_DECIMALS: u32 = 2;

/// The table as text: figures in us, each rounded away from what it bounds.
pub fn text(run: &Run, analysis: &Analysis, events: &[Event]) -> String {
    let unit = Unit::microseconds(analysis.frequency.hertz, TEXT_DECIMALS);
    let mut text = stage_lines(analysis, unit).join("\n");
    text.push_str("\n\n");
    text.push_str(&preparation::text(analysis));
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

/// Path and whole; then, each under a word of its own, what leaves the path and the extra stages.
fn stage_lines(analysis: &Analysis, unit: Unit) -> Vec<String> {
    use Side::{Left, LeftClose, Right};
    let has_own = analysis.rows.iter().any(|row| row.own != Common::default());
    let mut sides = vec![Left, Right, Right, LeftClose, Right, LeftClose, Left];
    sides.extend(has_own.then_some(Left));
    sides.extend([Right, Right]);
    let heads = ["stage", "count", "p50 us", "", "p99 us", "", "common"];
    let heads = heads.into_iter().chain(has_own.then_some("reading")).chain(["rel 1ms", "rel run"]);
    let mut rows: Vec<Vec<String>> = vec![heads.map(String::from).collect()];
    let mut role = StageRole::Path;
    for (row, &relative) in analysis.rows.iter().zip(&analysis.relative_1ms_ticks) {
        if row.role != role {
            role = row.role;
            match role {
                StageRole::Branch => rows.extend([vec![], vec!["branches".into()]]),
                StageRole::Extra => rows.extend([vec![], vec!["extra".into()]]),
                StageRole::Path | StageRole::EndToEnd => {}
            }
        }
        let mut cells = vec![row.name.clone(), row.count.to_string()];
        cells.extend(quantile(row.p50, unit));
        cells.extend(quantile(row.p99, unit));
        cells.push(either_side(row.common, unit));
        cells.extend(has_own.then(|| either_side(row.own, unit)));
        cells.extend([at_most(relative, unit), at_most(row.relative_ticks, unit)]);
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
    let sums = match (analysis.sum_mismatches, analysis.complete) {
        (0, 0) => "not looked at, since no trace passed all points of a way".into(),
        (0, _) => "exactly, in every trace".into(),
        (mismatches, _) => format!("NOT, in {mismatches} traces"),
    };
    lines.push(format!("path stages sum to end-to-end: {sums}"));
    let negative = |row: &&StageRow| row.role == StageRole::Extra && row.p50.is_some_and(|median| median.hi < 0);
    lines.extend(analysis.rows.iter().filter(negative).map(|row| {
        format!(
            "extra: {} is negative because {} comes first: the two lie on different branches, so no time is spent between them",
            row.name, row.to
        )
    }));
    for clock_map in &analysis.clock_maps {
        lines.push(clock_map_line(clock_map, unit));
        lines.extend(clock_map.sources.iter().map(|source| source_line(source, unit)));
    }
    lines.extend(analysis.auxiliary_clocks.iter().flat_map(auxiliary_clock_lines));
    if let Some(truth) = &analysis.truth {
        let (inside, known) = (truth.inside, truth.known);
        lines.push(format!(
            "known truth (the nodes read one counter): {inside} of {known} true durations lie in their intervals"
        ));
    }
    lines.extend(analysis.findings().map(|finding| format!("finding: {finding}")));
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

fn clock_map_line(clock_map: &ClockMapSummary, unit: Unit) -> String {
    let mut line = format!(
        "{}: known to {} (median) from {} brackets, at rho {}",
        clock_map.domain,
        reach(clock_map.half_width_ticks, unit, "an unknown width"),
        clock_map.brackets,
        clock_map.rho
    );
    for (rho, width) in &clock_map.other_rho {
        let _ = write!(line, "; {} at {rho}", reach(*width, unit, "contradicted"));
    }
    if let Some(half) = clock_map.half_round_trip_ticks {
        let _ = write!(line, "; half the shortest round trip: {} us", unit.near(half));
    }
    line
}

/// How well a clock beside the counter is known, where it was set, and what the published method makes of its readings.
fn auxiliary_clock_lines(clock: &AuxiliaryClockSummary) -> Vec<String> {
    let unit = Unit::nanoseconds(clock.hertz, 0);
    let ns = |ticks: Option<u64>| ticks.map_or("unknown".into(), |ticks| format!("{} ns", unit.up(ticks)));
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
    lines.extend(clock.unused.iter().map(|(reason, count)| format!("  not used: {count} brackets, {reason}")));
    let outside = clock.readings - clock.published_inside;
    if clock.readings > 0 {
        lines.push(format!(
            "  published (X-Lap: the line between the run's ends): {outside} of {} readings outside, by {} ns at most",
            clock.readings,
            unit.up(clock.published_furthest_ticks)
        ));
    }
    lines.extend(clock.breaks.iter().map(|found| {
        let jump = found.jump_ns.map_or(String::new(), |(least, most)| format!(", it jumped by {least} to {most} ns"));
        let who = if found.declared { "the clock monitor saw" } else { "the brackets show" };
        format!("  not trusted between ticks {} and {}: {who} a break{jump}", found.span.0, found.span.1)
    }));
    lines.extend(clock.contradictions.iter().map(|why| format!("  an epoch contradicts itself: {why}")));
    lines
}

fn ppm(clock: &AuxiliaryClockSummary) -> f64 {
    f64::from(clock.slew.ppb()) / 1000.0
}

/// How far something reaches to both sides, in words.
fn reach(ticks: Option<u64>, unit: Unit, unknown: &str) -> String {
    ticks.map_or_else(|| unknown.into(), |ticks| format!("±{} us", unit.up(ticks)))
}

/// What one source of evidence does to the width.
fn source_line(source: &SourceSummary, unit: Unit) -> String {
    let alone = reach(source.alone_ticks, unit, "unbounded");
    let mut line = format!("  evidence {}: {} brackets, alone {alone}", source.name, source.brackets);
    if let Some(without) = source.without_ticks {
        let _ = write!(line, ", all others ±{} us", unit.up(without));
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

/// A quantile and how far the true one may lie from what is shown.
fn quantile(bounds: Option<QuantileBounds>, unit: Unit) -> [String; 2] {
    let Some(QuantileBounds { estimate, lo, hi }) = bounds else { return ["-".into(), String::new()] };
    let (shown, reach) = unit.around(estimate, [lo, hi]);
    [shown.to_string(), within(reach)]
}

/// How far something reaches to both sides.
fn either_side(bound: Common, unit: Unit) -> String {
    within([unit.up(bound.below_ticks), unit.up(bound.above_ticks)])
}

/// A bound.
fn at_most(ticks: u64, unit: Unit) -> String {
    if ticks == 0 { "0".into() } else { unit.up(ticks).to_string() }
}

/// Characters of an event's text; a command's last line may be a page.
const MOST_OF_AN_EVENT: usize = 160;

/// One figure, the wider one, unless the other side is narrower by a third or more: then one for each.
fn within([below, above]: [Decimal; 2]) -> String {
    let (narrow, wide) = (below.min(above), below.max(above));
    let alike = 2 * wide.digits() <= 3 * narrow.digits() + 4;
    match alike {
        _ if wide.digits() == 0 => "0".into(),
        true => format!("±{wide}"),
        false => format!("-{below} +{above}"),
    }
}

#[cfg(test)]
mod tests {
    use num_bigint::BigInt;
    use num_rational::BigRational;
    use proptest::prelude::*;

    use super::*;
    use crate::any_analysis::{HERTZ, any_analysis, exact, read};

    /// Where a table is made of a run's manifest too.
    const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/tests/golden/v1");

    /// What is read off `±0.05`, `-0.05 +0.75` or `0`: below and above.
    fn reach<'a>(words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> [BigRational; 2] {
        let first = words.next().unwrap();
        match (first.strip_prefix('±'), first.strip_prefix('-')) {
            (Some(both), _) => [read(both), read(both)],
            (_, Some(below)) => [read(below), read(words.next().unwrap().strip_prefix('+').unwrap())],
            _ => [read(first), read(first)],
        }
    }

    /// The amount after `±` in what follows `words` in a line.
    fn after(line: &str, words: &str) -> BigRational {
        let rest = &line[line.find(words).unwrap_or_else(|| panic!("'{words}' in '{line}'")) + words.len()..];
        read(rest.trim_start_matches([' ', '±']).split([' ', ';']).next().unwrap())
    }

    proptest! {
        #[test]
        fn property_no_bound_in_the_text_lies_inside_the_exact_one(analysis in any_analysis()) {
            let run = Run::open(GOLDEN.as_ref()).unwrap();
            let text = text(&run, &analysis, &[]);
            let hertz = analysis.frequency.hertz;
            let us = |ticks: BigInt| exact(ticks, hertz, 1_000_000);
            let row = &analysis.rows[0];
            let line = text.lines().find(|line| line.starts_with("a.x>b.y ")).unwrap();
            let mut words = line.split_whitespace().skip(2).peekable();
            for QuantileBounds { lo, hi, .. } in [row.p50, row.p99].into_iter().flatten() {
                let shown = read(words.next().unwrap());
                let [below, above] = reach(&mut words);
                prop_assert!(&shown - below <= us(lo.into()) && shown + above >= us(hi.into()), "{line}");
            }
            let has_own = row.own != Common::default();
            for bound in [Some(row.common), has_own.then_some(row.own)].into_iter().flatten() {
                let [below, above] = reach(&mut words);
                prop_assert!(below >= us(bound.below_ticks.into()) && above >= us(bound.above_ticks.into()), "{line}");
            }
            for ticks in [analysis.relative_1ms_ticks[0], row.relative_ticks] {
                prop_assert!(read(words.next().unwrap()) >= us(ticks.into()), "{line}");
            }
        }

        #[test]
        fn property_no_bound_below_the_table_lies_inside_the_exact_one(analysis in any_analysis()) {
            let unit = Unit::microseconds(analysis.frequency.hertz, TEXT_DECIMALS);
            let lines = remarks(&analysis, unit);
            let line = |start: &str| lines.iter().find(|line| line.trim_start().starts_with(start)).unwrap().as_str();
            let us = |ticks: Option<u64>| exact(ticks.unwrap(), analysis.frequency.hertz, 1_000_000);
            let (clock_map, clock) = (&analysis.clock_maps[0], &analysis.auxiliary_clocks[0]);
            prop_assert!(after(line("b.tsc:"), "known to") >= us(clock_map.half_width_ticks));
            prop_assert!(after(line("b.tsc:"), ";") >= us(clock_map.other_rho[0].1));
            prop_assert!(after(line("evidence"), "alone") >= us(clock_map.sources[0].alone_ticks));
            prop_assert!(after(line("evidence"), "all others") >= us(clock_map.sources[0].without_ticks));
            let ns = |ticks: u64| exact(ticks, clock.hertz, 1_000_000_000);
            prop_assert!(after(line("b.realtime:"), "known to") >= ns(clock.half_width_ticks.unwrap()));
            prop_assert!(after(line("b.realtime:"), "(median),") >= ns(clock.half_width_p99_ticks.unwrap()));
            prop_assert!(after(line("published"), "outside, by") >= ns(clock.published_furthest_ticks));
        }
    }

    #[test]
    fn a_bound_is_one_figure_unless_its_sides_differ() {
        let unit = Unit::microseconds(HERTZ, TEXT_DECIMALS);
        let shown = [(0, 0), (2299, 2299), (2300, 2760), (0, 2300)]
            .map(|(below_ticks, above_ticks)| either_side(Common { below_ticks, above_ticks }, unit));
        assert_eq!(shown, ["0", "±1.00", "±1.21", "-0.00 +1.01"]);
        assert_eq!([0, 1].map(|ticks| at_most(ticks, unit)), ["0", "0.01"]);
    }
}
