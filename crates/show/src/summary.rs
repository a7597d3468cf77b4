//! What a run's figures cannot do without: what contradicts them, how well the clocks are known, what was lost, and
//! what they rest on that nobody checked.
//!
//! Guarantees: a count is said to be 0 only of what was counted; what is left out is counted, with the option that
//! prints it. Deliberately absent: praise.

use std::collections::BTreeMap;

use tickscope_analysis::channel_counts::{self, CountReader};
use tickscope_analysis::{Analysis, Assumption, LateStage, PairSummary, Stream, StreamEnd, cost, unknown_loss};
use tickscope_rivals::{Acknowledged, NodeRivals};
use tickscope_store::{Channel, Event, EventKind, Policy};
use tickscope_tick::{Frequency, Unit, counted, printable};
use tickscope_trace::{StageRole, StageRow};

use crate::remarks::{reach, unanswered};
use crate::rivals::acknowledged;
use crate::stage_table::{Shown, View};
use crate::terminal::{Ink, Terminal};
use crate::typesetting::{beginning, paragraph};

/// Everything that contradicts the figures, before them.
pub(crate) fn findings(shown: &Shown<'_>, terminal: Terminal) -> Vec<String> {
    let Shown { analysis, events, .. } = *shown;
    let found = analysis.all_findings(events);
    if found.is_empty() {
        return found;
    }
    let word = |line: &str| if line.starts_with(' ') { "" } else { "finding: " };
    let lines = found.iter().map(|line| {
        let line = paragraph(&format!("{}{}", word(line), printable(line)), terminal.width());
        let lines: Vec<String> = line.lines().map(|line| terminal.inked(Ink::Red, line)).collect();
        lines.join("\n")
    });
    let mut lines: Vec<String> = lines.collect();
    lines.push(String::new());
    lines
}

/// How well the clocks are known, a line, and what the bounds leave unanswered.
pub(crate) fn known(shown: &Shown<'_>, unit: Unit) -> Vec<String> {
    let analysis = shown.analysis;
    let mut lines = vec![format!("clocks: {}", clocks(analysis, unit))];
    lines.extend(unanswered(&analysis.rows));
    lines.extend(analysis.passages_line.clone());
    lines.extend(covered(analysis));
    lines.extend(return_trips(shown.rivals));
    if let Some(overhead) = shown.run.manifest().cost.as_ref().filter(|cost| cost.overhead.is_some()) {
        lines.extend(cost::lines(overhead).into_iter().filter(|line| line.starts_with("overhead")));
    }
    lines
}

/// How far all figures alike may be off, where that is more than a clock in use is.
fn scale(analysis: &Analysis) -> Option<String> {
    let Frequency { hertz, tolerance_ppm } = analysis.frequency;
    (tolerance_ppm > 2 * Frequency::DEFAULT_TOLERANCE_PPM).then(|| {
        format!(
            "warning: every duration may be off by \u{b1}{tolerance_ppm} ppm of its length, all alike and on top of \
             the bounds shown: {} is declared to run at {hertz} Hz to no more than that",
            analysis.reference
        )
    })
}

/// What the figures cover: how far they may be scaled, the span of a stream, and what policies leave out of the points.
pub(crate) fn covered(analysis: &Analysis) -> Vec<String> {
    let stream = analysis.stream.iter().map(|stream| of_stream(stream, analysis.frequency.hertz));
    let warnings = analysis.kept.warnings.iter().chain(&analysis.kept.unused).map(|line| format!("warning: {line}"));
    let lines = analysis.kept.lines.iter().map(|line| format!("policy: {line}"));
    scale(analysis).into_iter().chain(stream).chain(warnings).chain(lines).collect()
}

/// What the published return trip says beside the figures, a line for each pair of nodes.
fn return_trips(rivals: &[NodeRivals]) -> Vec<String> {
    // Beyond these the page and the JSON have all.
    const MOST_PAIRS: usize = 3;
    let pairs = || rivals.iter().filter_map(|pair| Some((pair, pair.acknowledged.as_ref()?)));
    let line = |(pair, found): (&NodeRivals, &Acknowledged)| {
        format!("return trip, {} against {}: {}", pair.domain, pair.reference, acknowledged(found))
    };
    let more = pairs().count().saturating_sub(MOST_PAIRS);
    let more = (more > 0).then(|| format!("return trips of {}: tickscope report", counted(more, "more pair")));
    pairs().take(MOST_PAIRS).map(line).chain(more).collect()
}

/// How long a stream took; `None`: nothing is known of it.
pub(crate) fn span(stream: &Stream, hertz: u64) -> Option<String> {
    let unit = Unit::seconds(hertz, 7);
    match (stream.ticks, stream.lo_ticks, stream.hi_ticks) {
        (Some(ticks), Some(lo), Some(hi)) => {
            // To either side of what is shown, not of what was rounded.
            let (shown, [below, above]) = unit.around(ticks, [lo, hi]);
            Some(format!("{shown} {} [\u{b1}{}]", unit.name(), below.max(above)))
        }
        (_, Some(lo), _) => Some(format!("at least {} {}", unit.down(lo), unit.name())),
        (_, None, Some(hi)) => Some(format!("at most {} {}", unit.up(hi), unit.name())),
        _ => None,
    }
}

/// The span of a stream, in a line.
fn of_stream(stream: &Stream, hertz: u64) -> String {
    // Beyond these the first ones say enough.
    const MOST_NAMED: usize = 5;
    let span = span(stream, hertz).unwrap_or_else(|| "its length is not known".into());
    let end = |end: &StreamEnd| format!("{} on thread {}", end.point, end.thread);
    let ends = stream.from.as_ref().zip(stream.to.as_ref());
    let ends = ends.map_or(String::new(), |(from, to)| format!(", from {} to {}", end(from), end(to)));
    let seen = match stream.sinks {
        0 => String::new(),
        sinks => format!("; {} of {sinks} sinks saw the marker", stream.sinks_ended),
    };
    let named: Vec<&str> = stream.unbounded.iter().take(MOST_NAMED).map(String::as_str).collect();
    let more = match stream.unbounded.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let longer =
        if named.is_empty() { String::new() } else { format!("; it may be longer: {}{more}", named.join("; ")) };
    format!("stream: {span}{ends}{seen}{longer}")
}

fn clocks(analysis: &Analysis, unit: Unit) -> String {
    // Beyond these the widest says enough.
    const MOST_NAMED: usize = 3;
    let maps = &analysis.clock_maps;
    let mut said: Vec<String> = Vec::new();
    said.extend(analysis.unrelated.iter().cloned());
    if maps.is_empty() && analysis.unrelated.is_empty() {
        said.push("all points read one counter; durations are known to the width of its readings".into());
    }
    if maps.len() > MOST_NAMED {
        let widest = maps.iter().max_by_key(|map| map.half_width_ticks.unwrap_or(u64::MAX));
        let width = widest.map_or(String::new(), |map| {
            format!(": each to {} (median) or better", reach(map.half_width_ticks, unit, "an unknown width"))
        });
        said.push(format!("{} counters against {}{width}", maps.len(), analysis.reference));
    } else {
        said.extend(maps.iter().map(|map| {
            let width = reach(map.half_width_ticks, unit, "an unknown width");
            let (brackets, rho) = (counted(map.brackets as u64, "bracket"), map.rho);
            format!("{}: known to {width} (median) from {brackets}, at rho {rho}", map.domain)
        }));
    }
    said.extend(narrowed(analysis));
    let stamped = analysis.auxiliary_clocks.iter().filter(|clock| clock.points > 0);
    said.extend(stamped.map(|clock| {
        let unit = Unit::nanoseconds(clock.hertz, 0);
        let readings = counted(clock.readings, "reading");
        format!("{}: {readings} known to {} (median)", clock.domain, reach(clock.half_width_ticks, unit, "nothing"))
    }));
    if let Some(truth) = analysis.truth.as_ref().filter(|truth| truth.is_checked()) {
        let (inside, known) = (truth.inside, truth.known);
        said.push(format!(
            "checked against the truth, one counter: {inside} of {known} durations lie in their intervals"
        ));
    }
    said.join("; ")
}

/// Which pairs of counters the evidence of other pairs narrowed most.
fn narrowed(analysis: &Analysis) -> Option<String> {
    let all = analysis.pairs.iter().filter(|pair| pair.is_narrowed());
    let count = all.clone().count();
    let gain = |pair: &&PairSummary| {
        pair.direct_half_width_ticks
            .map_or(u64::MAX, |direct| direct.saturating_sub(pair.closed_half_width_ticks.unwrap_or(direct)))
    };
    let most = all.max_by_key(gain)?;
    let ticks = |width: Option<u64>| width.map_or("nothing".into(), |width| format!("\u{b1}{width} ticks"));
    let way: Vec<String> = most.ways.first().into_iter().flatten().map(|at| at.node.to_string()).collect();
    Some(format!(
        "other nodes' evidence narrowed {} of counters: {} against {} from {} to {} through {}",
        counted(count as u64, "pair"),
        most.domain,
        most.reference,
        ticks(most.direct_half_width_ticks),
        ticks(most.closed_half_width_ticks),
        way.join(", ")
    ))
}

/// Stages with traces that span the making of a program's pool, a line each.
pub(crate) fn late_pools(analysis: &Analysis) -> Vec<String> {
    let line = |LateStage { stage, spanning, longest_ticks, traces }: &LateStage| {
        let unit = Unit::for_durations_up_to(analysis.frequency.hertz, *longest_ticks);
        let named = traces.iter().map(|trace| trace.original.clone().unwrap_or_else(|| trace.id.to_string()));
        let more = if *spanning > traces.len() as u64 { ", ..." } else { "" };
        format!(
            "pool made late: {} of {stage} {} the time in which a program waited for it, up to {} {}: id {}{more}",
            counted(*spanning, "trace"),
            if *spanning == 1 { "spans" } else { "span" },
            unit.up(*longest_ticks),
            unit.name(),
            named.collect::<Vec<_>>().join(", ")
        )
    };
    analysis.late_pools.iter().map(line).collect()
}

/// What was lost: counts of what was counted.
pub(crate) fn losses(shown: &Shown<'_>) -> Vec<String> {
    let Shown { analysis, channels, .. } = *shown;
    let sum = |of: CountReader| channel_counts::sum(channels, of);
    let (stored, dropped) = (sum(|channel| channel.stored), sum(|channel| channel.dropped));
    let (refused, uncommitted) = (sum(|channel| channel.refused), sum(|channel| channel.uncommitted));
    let overwritten = sum(|channel| channel.overwritten.unwrap_or(0));
    let uncounted = channel_counts::of_no_channel(shown.events);
    let parts = [
        (dropped, "found no free memory"),
        (overwritten, "were overwritten by later ones"),
        (refused, "were refused"),
        (uncommitted, "were cut off by the end of their program"),
        (uncounted, "could not be taken (see events)"),
    ];
    let lost: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, why)| format!("{count} {why}")).collect();
    let removed = sum(|channel| channel.removed.unwrap_or(0));
    let all: i128 = [stored, removed, dropped, overwritten, refused, uncommitted, uncounted].into_iter().sum();
    let miscounted = channel_counts::impossible(channels);
    let stamps = match (channels.len(), lost.is_empty()) {
        (0, _) => "unknown: the run has no counts of stamps".into(),
        _ if miscounted > 0 => format!("unknown: {} counted what cannot be", counted(miscounted, "channel")),
        _ if analysis.unknown_loss(shown.events).is_some() => {
            let known = lost.iter().map(|lost| format!("; {lost}")).collect::<String>();
            let is_gone = shown.events.iter().any(|event| event.what == EventKind::MemoryLost);
            let why = match (is_gone, unknown_loss(shown.events).is_some()) {
                (true, _) => "memory is gone (see events)",
                (false, true) => "not all are taken yet (see events)",
                (false, false) => "the run was cut off (tickscope finish)",
            };
            format!("unknown: {why}; {} counted so far{known}", counted(all, "stamp"))
        }
        (_, true) => format!("0 of {} that programs counted", counted(all, "stamp")),
        (_, false) => format!("of {}: {}", counted(all, "stamp"), lost.join(", ")),
    };
    let mut said = vec![stamps, incomplete(analysis)];
    // No loss, but they are not there.
    said.extend((removed > 0).then(|| format!("{} older than the window removed", counted(removed, "stamp"))));
    said.extend(damage(&analysis.refused));
    let mut lines = vec![format!("lost: {}", said.join("; "))];
    lines.extend(refused_stamps(channels));
    let unplaced = analysis.unplaced.iter();
    lines.extend(
        unplaced.map(|(stage, why, count)| format!("refused: {} of {stage}: {why}", counted(*count, "duration"))),
    );
    lines
}

/// Faults of a run's files, counted by what is wrong with them; `None`: there are none.
pub(crate) fn damage(faults: &[tickscope_store::Error]) -> Option<String> {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    faults.iter().for_each(|fault| *kinds.entry(fault.word()).or_default() += 1);
    let words: Vec<String> = kinds.iter().map(|(word, count)| format!("{} {word}", counted(*count, "file"))).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// Stamps that were refused, a line a point; under `own` with the reason.
fn refused_stamps(channels: &[Channel]) -> Vec<String> {
    let mut points: BTreeMap<String, (i128, bool)> = BTreeMap::new();
    for channel in channels.iter().filter(|channel| channel.refused > 0 && channel.policy != Channel::LOG_POLICY) {
        let (refused, is_own) = points.entry(format!("{}.{}", channel.node, channel.point)).or_default();
        *refused += i128::from(channel.refused);
        *is_own |= channel.policy == Policy::Own.name();
    }
    let line = |(point, (refused, is_own)): (String, (i128, bool))| {
        let why = match is_own {
            true => "under own each is, until a function is named: tickscope_choose, Channel::choose",
            false => "of tick 0, of a clock that could not be read, or under a policy of a later version",
        };
        format!("refused: {} of {point}: {why}", counted(refused, "stamp"))
    };
    points.into_iter().map(line).collect()
}

/// Words for stamps that are not there at points whose policies leave stamps out.
pub(crate) const LEFT_OUT: &str = "where policies leave some out: left out or lost is not known";

/// Returns whether a policy at an end of the stage may have left out what its traces lack there.
pub(crate) fn may_be_left_out(analysis: &Analysis, row: &StageRow) -> bool {
    [&row.from, &row.to].iter().any(|point| analysis.kept.may_excuse(point))
}

/// Ids that lack something, by stage.
fn incomplete(analysis: &Analysis) -> String {
    // Beyond these the first ones say enough.
    const MOST_NAMED: usize = 3;
    // Left out by policy is not missing.
    let kept = |row: &&StageRow| !may_be_left_out(analysis, row);
    let whole = analysis.rows.iter().filter(|row| row.missing > 0 && row.role != StageRole::EndToEnd);
    let missing = || whole.clone().filter(kept);
    if missing().next().is_none() {
        if let Some(most) = whole.clone().map(|row| row.missing).max() {
            return format!(
                "{} {} a stamp {LEFT_OUT}",
                counted(most, "trace"),
                if most == 1 { "lacks" } else { "lack" }
            );
        }
        return match analysis.rows.iter().map(|row| row.count).max().unwrap_or(0) {
            0 => "no stage has a duration".into(),
            _ => "every trace has all its stamps".into(),
        };
    }
    let lack = |count: u64| if count == 1 { "lacks" } else { "lack" };
    let named = missing()
        .take(MOST_NAMED)
        .map(|row| format!("{} {} a stamp of {}", counted(row.missing, "trace"), lack(row.missing), row.name));
    let more = missing().count().saturating_sub(MOST_NAMED);
    let more = (more > 0).then(|| format!("some of {} too", counted(more as u64, "other stage")));
    named.chain(more).collect::<Vec<_>>().join(", ")
}

/// Assumptions that matter here, and how many others there are.
pub(crate) fn assumed(shown: &Shown<'_>, terminal: Terminal) -> Vec<String> {
    let (manifest, analysis) = (shown.run.manifest(), shown.analysis);
    let all = Assumption::all(manifest, analysis);
    let (matter, others): (Vec<_>, Vec<_>) = all.iter().partition(|one| one.matters(manifest, analysis));
    let more = format!("{} more: --assumptions", others.len());
    if matter.is_empty() {
        return vec![format!("assumptions: all checked, measured, declared or vouched for; {more}")];
    }
    let lines = matter.iter().map(|one| {
        // By itself it would not say which check.
        let alone = matches!(one, Assumption::CoresUncounted);
        let (statement, origin) = (if alone { one.in_brief() } else { one.statement() }, one.origin().words);
        paragraph(&format!("  - {} [{}]", printable(&statement), printable(&origin)), terminal.width())
    });
    let head = terminal.inked(Ink::Bold, "assumed, and checked by nobody");
    std::iter::once(head).chain(lines).chain([format!("  {more}")]).collect()
}

/// Characters of an event's text; a command's last line may be a page.
const MOST_OF_AN_EVENT: usize = 160;
/// Events that are shown unasked.
const MOST_EVENTS: usize = 5;

/// Events that matter here, or all.
pub(crate) fn events(shown: &Shown<'_>, view: &View) -> Vec<String> {
    let all = shown.events;
    let terminal = view.terminal;
    if view.events {
        let lines = all.iter().map(|event| {
            let line = format!("  {:>12}  {}", when(shown, event), whole(event));
            paragraph(&line, terminal.width())
        });
        let head = terminal.inked(Ink::Bold, "events, seconds since the first trace");
        let none = all.is_empty().then(|| "  none was noted".to_string());
        return ["".into(), head].into_iter().chain(lines).chain(none).collect();
    }
    let notable = || all.iter().filter(|event| event.what.is_notable());
    let lines = notable().take(MOST_EVENTS).map(|event| {
        let text = beginning(&printable(&event.text), MOST_OF_AN_EVENT, " (whole with --events)");
        let line = paragraph(
            &format!("event: {} {}{}: {text}", printable(&event.node), event.what, value(event)),
            terminal.width(),
        );
        terminal.inked(Ink::Yellow, &line)
    });
    let left = all.len() - notable().count().min(MOST_EVENTS);
    let more = (left > 0)
        .then(|| format!("{} {}: --events", left, if notable().next().is_some() { "more" } else { "ordinary" }));
    let more = more.map(|more| if notable().next().is_some() { more } else { format!("events: {more}") });
    lines.chain(more).collect()
}

fn whole(event: &Event) -> String {
    format!("{} {}{}: {}", printable(&event.node), event.what, value(event), printable(&event.text))
}

fn value(event: &Event) -> String {
    event.value.map_or(String::new(), |value| format!(" ({value})"))
}

/// Seconds between the first trace on the node's counter and the event; `-` where it has no tick.
fn when(shown: &Shown<'_>, event: &Event) -> String {
    let manifest = shown.run.manifest();
    let counter = |node: &&tickscope_store::Node| {
        event
            .domain
            .as_ref()
            .is_none_or(|domain| node.domain().to_string() == *domain || node.name.as_str() == event.node)
    };
    let node = manifest.nodes.iter().find(|node| node.name.as_str() == event.node && counter(node));
    let since = node.and_then(|node| {
        let (first, _) = shown.analysis.end_ticks.get(node.name.as_str())?;
        Some((event.tick?.checked_sub(*first)?, node.counter.frequency.hertz))
    });
    since.map_or("-".into(), |(ticks, hertz)| format!("{} s", Unit::seconds(hertz, 3).near(ticks)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(point: &str, policy: &str, refused: i64) -> Channel {
        Channel {
            channel: 0,
            node: "app".parse().unwrap(),
            pid: 1,
            process_start: 0,
            pool: 1,
            serial: 0,
            thread: 1,
            point: point.parse().unwrap(),
            ordering: "plain".into(),
            domain: "x/tsc/0".into(),
            policy: policy.into(),
            parameter: None,
            stored: 3,
            dropped: 0,
            refused,
            uncommitted: 0,
            state: Default::default(),
            removed: None,
            seen: None,
            counted: None,
            overwritten: None,
            kept: None,
        }
    }

    #[test]
    fn refused_stamps_are_told_by_point_and_under_own_with_the_reason() {
        let channels = [
            channel("done", "own", 68_000),
            channel("done", "own", 400),
            channel("sent", "buffered", 1),
            channel("got", "own", 0),
            channel("log", Channel::LOG_POLICY, 7),
        ];
        let lines = refused_stamps(&channels);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("refused: 68400 stamps of app.done: under own") && lines[0].contains("choose"));
        assert!(lines[1].starts_with("refused: 1 stamp of app.sent: of tick 0"), "{lines:?}");
    }
}
