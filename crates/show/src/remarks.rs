//! Everything else that is known of a run's figures, in lines below the wide table.

use std::fmt::Write;

use tickscope_analysis::{Analysis, AuxiliaryClockSummary, ClockMapSummary, SourceSummary};
use tickscope_tick::{Unit, counted};
use tickscope_trace::{Answer, StageRole, StageRow, slowest};

/// What the table leaves to say.
pub(crate) fn remarks(analysis: &Analysis, unit: Unit) -> Vec<String> {
    let mut lines = Vec::new();
    match slowest(&analysis.rows).as_slice() {
        // Of what contradicts itself nothing is the slowest.
        _ if analysis.findings().next().is_some() => {}
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
        (0, 0) => "no trace has all of them".into(),
        (0, _) => "exactly, in every trace that has all of them".into(),
        (mismatches, _) => format!("NOT, in {}", counted(mismatches, "trace")),
    };
    lines.push(format!("path stages sum to end-to-end: {sums}"));
    let negative = |row: &&StageRow| row.role == StageRole::Extra && row.p50.is_some_and(|median| median.hi < 0);
    lines.extend(analysis.rows.iter().filter(negative).map(|row| {
        format!(
            "extra: {} is negative because {} comes first: the two lie on different branches, so no time is spent \
             between them",
            row.name, row.to
        )
    }));
    for clock_map in &analysis.clock_maps {
        lines.push(clock_map_line(clock_map, unit));
        lines.extend(clock_map.sources.iter().map(|source| source_line(source, unit)));
    }
    lines.extend(analysis.auxiliary_clocks.iter().flat_map(auxiliary_clock_lines));
    if let Some(truth) = analysis.truth.as_ref().filter(|truth| truth.is_checked()) {
        let (inside, known) = (truth.inside, truth.known);
        lines.push(format!(
            "known truth (the nodes read one counter): {inside} of {known} true durations lie in their intervals"
        ));
    }
    lines
}

/// What the bounds leave open, a line a question.
pub(crate) fn unanswered(rows: &[StageRow]) -> Vec<String> {
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
        "{}: known to {} (median) from {}, at rho {}",
        clock_map.domain,
        reach(clock_map.half_width_ticks, unit, "an unknown width"),
        counted(clock_map.brackets, "bracket"),
        clock_map.rho
    );
    for (rho, width) in &clock_map.other_rho {
        let _ = write!(line, "; {} at {rho}", reach(*width, unit, "contradicted"));
    }
    if let Some(half) = clock_map.half_round_trip_ticks {
        let _ = write!(line, "; half the shortest round trip: {} {}", unit.near(half), unit.name());
    }
    line
}

/// How well a clock beside the counter is known, where it was set, and what the published method makes of its readings.
fn auxiliary_clock_lines(clock: &AuxiliaryClockSummary) -> Vec<String> {
    let unit = Unit::nanoseconds(clock.hertz, 0);
    let ns = |ticks: Option<u64>| ticks.map_or("unknown".into(), |ticks| format!("{} ns", unit.up(ticks)));
    let (slew, brackets) = (ppm(clock), counted(clock.brackets, "bracket"));
    let mut lines = vec![match clock.readings {
        0 if clock.points > 0 => format!("{}: none of its readings could be placed, {brackets}", clock.domain),
        0 => format!("{}: {brackets}, slew at most {slew} ppm; for evidence only", clock.domain),
        readings => format!(
            "{}: {} known to ±{} (median), ±{} (p99) from {brackets}, slew at most \
             {slew} ppm",
            clock.domain,
            counted(readings, "reading"),
            ns(clock.half_width_ticks),
            ns(clock.half_width_p99_ticks),
        ),
    }];
    lines.extend(
        clock.unused.iter().map(|(reason, count)| format!("  not used: {}, {reason}", counted(count, "bracket"))),
    );
    let outside = clock.readings - clock.published_inside;
    if clock.readings > 0 {
        lines.push(format!(
            "  by one line between the run's ends (X-Lap: one a packet): {outside} of {} outside, by {} ns at most",
            counted(clock.readings, "reading"),
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
pub(crate) fn reach(ticks: Option<u64>, unit: Unit, unknown: &str) -> String {
    ticks.map_or_else(|| unknown.into(), |ticks| format!("±{} {}", unit.up(ticks), unit.name()))
}

/// What one source of evidence does to the width.
fn source_line(source: &SourceSummary, unit: Unit) -> String {
    let alone = reach(source.alone_ticks, unit, "unbounded");
    let mut line = format!("  evidence {}: {}, alone {alone}", source.name, counted(source.brackets, "bracket"));
    if let Some(without) = source.without_ticks {
        let _ = write!(line, ", all others ±{} {}", unit.up(without), unit.name());
    }
    for (reason, count) in &source.unused {
        let _ = write!(line, "; not used: {count} {reason}");
    }
    line
}
