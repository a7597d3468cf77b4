//! Headline of a report, in three sentences: what was measured, which stage is the slowest, and how certain that
//! is.

use tickscope_trace::{QuantileBounds, StageRole, StageRow, slowest};

use crate::Report;
use crate::document::Words;
use crate::quantity::{Unit, count, counted};
use crate::stages::percent;

/// The headline, a sentence a line.
pub(crate) fn sentences(report: &Report<'_>) -> Vec<Words> {
    let unit = report.unit();
    let mut all = vec![measured(report, unit), slowest_stage(&report.analysis.rows, unit)];
    all.extend(surety(report, unit));
    all.push(state(report));
    all.extend(preparation(report));
    all
}

/// What was done before the run could be shown: joined only now, by which layout.
pub(crate) fn preparation<'a>(report: &'a Report<'_>) -> impl Iterator<Item = Words> + 'a {
    report.analysis.preparation.notes.iter().map(|note| Words::from(sentence(note)))
}

/// The answer, in one sentence: how long it took, and which stage took most of it.
pub(crate) fn answer(report: &Report<'_>) -> Words {
    let unit = report.unit();
    let rows = &report.analysis.rows;
    let whole = rows.iter().find(|row| row.role == StageRole::EndToEnd);
    let Some((row, p50, p99)) = whole.and_then(|row| Some((row, row.p50?, row.p99?))) else {
        return measured(report, unit);
    };
    let words = Words::from(format!("From {} to {} it took ", row.from, row.to))
        .stress(format!("{}\u{a0}{}", unit.near(p50.estimate), unit.name()))
        .say(format!(
            " at the median{} and {}\u{a0}{} at the 99th percentile",
            between(p50, unit),
            unit.near(p99.estimate),
            unit.name()
        ));
    match slowest(rows).as_slice() {
        [] => words.say("."),
        [only] => {
            let stage = &rows[*only];
            let share = percent(stage).map_or(String::new(), |share| format!(", {share} of the whole"));
            let median =
                stage.p50.map_or(String::new(), |p50| format!(" ({} {}{share})", unit.near(p50.estimate), unit.name()));
            words.say("; the slowest stage is ").stress(arrow(stage)).say(median).say(".")
        }
        several => {
            let words = words.say("; which stage is the slowest is ").stress("not resolved");
            match several {
                [one, other] => words.say(format!(": {} or {}.", arrow(&rows[*one]), arrow(&rows[*other]))),
                all => words.say(format!(" between {} stages.", all.len())),
            }
        }
    }
}

/// How sure the figures are, and what went wrong.
pub(crate) fn certainty(report: &Report<'_>) -> Vec<Words> {
    let mut all = surety(report, report.unit());
    all.push(state(report));
    all
}

fn measured(report: &Report<'_>, unit: Unit) -> Words {
    let whole = report.analysis.rows.iter().find(|row| row.role == StageRole::EndToEnd);
    let Some((row, p50, p99)) = whole.and_then(|row| Some((row, row.p50?, row.p99?))) else {
        return Words::from("No trace passed the path from end to end: there is nothing to measure yet.");
    };
    let took = if row.count == 1 { " trace took " } else { " traces took " };
    Words::default()
        .say(count(row.count))
        .say(took)
        .stress(format!("{}\u{a0}{}", unit.near(p50.estimate), unit.name()))
        .say(format!(
            " from {} to {} at the median{}, and {} {} at the 99th percentile{}.",
            row.from,
            row.to,
            between(p50, unit),
            unit.near(p99.estimate),
            unit.name(),
            between(p99, unit)
        ))
}

/// Nothing where the bounds leave nothing open.
fn between(bounds: QuantileBounds, unit: Unit) -> String {
    if bounds.lo == bounds.hi { String::new() } else { format!(" {}", unit.interval(bounds.lo, bounds.hi)) }
}

fn slowest_stage(rows: &[StageRow], unit: Unit) -> Words {
    let named = |row: &StageRow| {
        let median = row.p50.map_or(String::new(), |p50| {
            let surely = if p50.lo == p50.hi {
                ", to the tick".into()
            } else {
                format!(", surely in {}", unit.interval(p50.lo, p50.hi))
            };
            format!(" ({} {}{surely})", unit.near(p50.estimate), unit.name())
        });
        (arrow(row), median)
    };
    match slowest(rows).as_slice() {
        [] => Words::from("No stage of the path has a duration."),
        [only] => {
            let (name, median) = named(&rows[*only]);
            Words::from("The slowest stage at the median is ").stress(name).say(median).say(".")
        }
        several => {
            let mut sentence =
                Words::from("Which stage is the slowest at the median is ").stress("not resolved").say(" between ");
            // More names than that say less.
            const MOST_NAMED: usize = 3;
            let named_ones = if several.len() > MOST_NAMED { MOST_NAMED - 1 } else { several.len() };
            for (at, &row) in several[..named_ones].iter().enumerate() {
                let (name, median) = named(&rows[row]);
                let link = [", ", " and "][usize::from(at + 1 == several.len())];
                sentence = if at > 0 { sentence.say(link) } else { sentence };
                sentence = sentence.stress(name).say(median);
            }
            if named_ones < several.len() {
                sentence = sentence.say(format!(" and {} more stages", several.len() - named_ones));
            }
            sentence.say(": what is known of the clocks does not tell them apart.")
        }
    }
}

/// `client.send → server.received`.
pub(crate) fn arrow(row: &StageRow) -> String {
    format!("{} → {}", row.from, row.to)
}

fn surety(report: &Report<'_>, unit: Unit) -> Vec<Words> {
    let clock_maps = &report.analysis.clock_maps;
    let unrelated = &report.analysis.unrelated;
    let mut all: Vec<Words> = unrelated.iter().map(|text| Words::from(sentence(text))).collect();
    if clock_maps.is_empty() && unrelated.is_empty() {
        all.push(Words::from(
            "All points read one counter, so only what the readings of each packet leave open is not known.",
        ));
    }
    // Beyond a few, the section on the clocks says it better.
    const MOST_NAMED: usize = 3;
    for clock_map in clock_maps.iter().take(MOST_NAMED) {
        let known = unit.reach(clock_map.half_width_ticks, "an unknown width");
        let sure = format!(
            " at the median instant: a guarantee, as long as its rate stays within rho ({}).",
            clock_map.rho.to_string().replacen(" ppm", "\u{a0}ppm", 1)
        );
        all.push(Words::from(format!("{} is known to ", clock_map.domain)).stress(known).say(sure));
    }
    if clock_maps.len() > MOST_NAMED {
        all.push(Words::from(format!("{} more clocks are described below.", clock_maps.len() - MOST_NAMED)));
    }
    if let Some(truth) = &report.analysis.truth {
        let (inside, known) = (count(truth.inside), count(truth.known));
        let all_in = truth.inside == truth.known;
        let held = if all_in { format!("all {known}") } else { format!("{inside} of {known}") };
        all.push(Words::from("The truth is known here: ").stress(held).say(" true durations lie in their intervals."));
    }
    all
}

/// A note with a capital letter and a full stop.
fn sentence(note: &str) -> String {
    let mut letters = note.chars();
    let first = letters.next().map_or(String::new(), |first| first.to_uppercase().to_string());
    format!("{first}{}.", letters.as_str().trim_end_matches('.'))
}

/// What went wrong, or that nothing did.
fn state(report: &Report<'_>) -> Words {
    let mut wrong = Vec::new();
    let lost: i64 = report.channels.iter().map(|channel| channel.dropped + channel.refused + channel.uncommitted).sum();
    let lacking = report.figures.traces.lacking;
    let impossible: u64 = report.analysis.impossible();
    if lost > 0 {
        wrong.push(format!("{} lost", counted(lost, "stamp")));
    }
    if lacking > 0 {
        let verb = if lacking == 1 { "lacks" } else { "lack" };
        wrong.push(format!("{} {verb} a point of the path", counted(lacking, "trace")));
    }
    if impossible > 0 {
        wrong.push(counted(impossible, "impossible duration"));
    }
    if report.analysis.sum_mismatches > 0 {
        wrong.push(format!("{} not the sum of its stages", counted(report.analysis.sum_mismatches, "trace")));
    }
    if !report.refused.is_empty() {
        wrong.push(format!("{} could not be read", counted(report.refused.len(), "file")));
    }
    wrong.extend(report.analysis.lack());
    if wrong.is_empty() {
        return match report.figures.traces.measured {
            0 => Words::from("No trace was measured, so nothing can be said of what was lost."),
            _ if report.channels.is_empty() => {
                Words::from("Nothing contradicts itself; losses of stamps were not counted.")
            }
            _ => Words::from("Nothing was lost, and nothing contradicts itself."),
        };
    }
    Words::default().stress("Mind").say(format!(": {}.", wrong.join("; ")))
}
