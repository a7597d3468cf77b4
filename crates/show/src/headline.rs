//! Headline of a report, in three sentences: what was measured, which stage is the slowest, and how certain that
//! is.

use tickscope_analysis::{Analysis, channel_counts};
use tickscope_trace::{Quantile, QuantileBounds, StageRole, StageRow, largest_share, slowest};

use crate::Report;
use crate::document::Words;
use crate::few_traces;
use crate::quantity::{Unit, count, counted};
use crate::stages::percent;
use crate::summary::{self, LEFT_OUT, may_be_left_out};

/// The headline, a sentence a line.
pub(crate) fn sentences(report: &Report<'_>) -> Vec<Words> {
    let unit = report.unit();
    let mut all: Vec<Words> = damage(report).into_iter().chain(stream(report)).collect();
    all.extend([measured(report, unit), slowest_stage(&report.analysis.rows, unit)]);
    all.extend(surety(report, unit));
    all.push(state(report));
    all.extend(preparation(report));
    all
}

/// That files of the run are not as they were written.
pub(crate) fn damage(report: &Report<'_>) -> Option<Words> {
    let found = summary::damage(&report.analysis.refused)?;
    let head = Words::default().stress("This run is damaged, so its figures are not to be believed:");
    Some(head.say(format!(" {found}.")))
}

/// What was done before the run could be shown: joined only now, by which layout.
pub(crate) fn preparation<'a>(report: &'a Report<'_>) -> impl Iterator<Item = Words> + 'a {
    report.analysis.preparation.notes.iter().map(|note| Words::from(sentence(note)))
}

/// How long a stream took, where channels keep its first stamp and its last.
fn stream(report: &Report<'_>) -> Option<Words> {
    let stream = report.analysis.stream.as_ref()?;
    let span = summary::span(stream, report.analysis.frequency.hertz)?;
    let (from, to) = stream.from.as_ref().zip(stream.to.as_ref())?;
    let words = Words::from("The stream took ").stress(span.replace(' ', "\u{a0}"));
    Some(words.say(format!(", from {} to {}.", from.point, to.point)))
}

/// Returns whether policies left traces out at an end of the whole.
fn is_of_some(analysis: &Analysis, whole: &StageRow) -> bool {
    let is_end = |point: &str| point == whole.from || point == whole.to;
    analysis.kept.policies.iter().any(|one| is_end(&one.point))
}

/// The answer, a sentence a line: how long a stream took, if there is one, and how long a trace took and where most of
/// that time went.
pub(crate) fn answer(report: &Report<'_>) -> Vec<Words> {
    let stream = stream(report);
    let trace = of_traces(report).or_else(|| stream.is_none().then(|| measured(report, report.unit())));
    stream.into_iter().chain(trace).collect()
}

fn of_traces(report: &Report<'_>) -> Option<Words> {
    let unit = report.unit();
    let rows = &report.analysis.rows;
    let row = rows.iter().find(|row| row.role == StageRole::EndToEnd)?;
    let (p50, p99) = (row.p50?, row.p99?);
    let of_some = is_of_some(report.analysis, row);
    let of_some = of_some.then(|| format!(", of {}: policies left others out", counted(row.count, "trace")));
    let words = Words::from(format!("From {} to {} it took ", row.from, row.to))
        .stress(format!("{}\u{a0}{}", unit.near(p50.estimate), unit.name()))
        .say(format!(
            " at the median{} and {}\u{a0}{} {}{}",
            between(p50, unit),
            unit.near(p99.estimate),
            unit.name(),
            far_end(row),
            of_some.unwrap_or_default()
        ));
    Some(where_the_time_goes(words, rows, unit).say("."))
}

/// What the 99th percentile is called: of few traces it is the longest.
fn far_end(row: &StageRow) -> String {
    let longest = few_traces::longest(Quantile::P99, row.count);
    longest.map_or_else(|| "at the 99th percentile".into(), |longest| format!("in the {longest}"))
}

/// Adds the stage that takes the largest share of the time, and the slowest one at the median: a stage with a long tail
/// takes most of the time, and may be short in most traces.
fn where_the_time_goes(words: Words, rows: &[StageRow], unit: Unit) -> Words {
    let largest = largest(rows);
    let slowest = slowest(rows);
    let words = match &largest {
        Some(most) if slowest.as_slice() != [most.0] => spent(words, rows, most),
        _ => words,
    };
    match slowest.as_slice() {
        [] => words,
        [only] => {
            let stage = &rows[*only];
            let median = stage.p50.map_or(String::new(), |p50| {
                let share = largest.filter(|(at, _)| at == only);
                let share = share.map_or(String::new(), |(_, share)| format!("; {share} of the whole time"));
                format!(" ({} {}{share})", unit.near(p50.estimate), unit.name())
            });
            words.say("; the slowest stage at the median is ").stress(arrow(stage)).say(median)
        }
        several => {
            let words = words.say("; which stage is the slowest at the median is ").stress("not resolved");
            match several {
                [one, other] => words.say(format!(": {} or {}", arrow(&rows[*one]), arrow(&rows[*other]))),
                all => words.say(format!(" between {} stages", all.len())),
            }
        }
    }
}

/// The one stage that takes the largest share of the time, and its share; `None`: it is not resolved.
fn largest(rows: &[StageRow]) -> Option<(usize, String)> {
    match largest_share(rows).as_slice() {
        [only] => Some((*only, percent(&rows[*only])?)),
        _ => None,
    }
}

fn spent(words: Words, rows: &[StageRow], (stage, share): &(usize, String)) -> Words {
    let words = words.say("; the largest part of the time goes into ").stress(arrow(&rows[*stage]));
    words.say(format!(" ({share} of the whole)"))
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
        return match report.analysis.counting.as_slice() {
            [] => "No trace passed the path from end to end: there is nothing to measure yet.".into(),
            counting => format!("No trace passed the path from end to end, since {}.", counting.join("; ")).into(),
        };
    };
    let took = if row.count == 1 { " trace took " } else { " traces took " };
    Words::default()
        .say(count(row.count))
        .say(took)
        .stress(format!("{}\u{a0}{}", unit.near(p50.estimate), unit.name()))
        .say(format!(
            " from {} to {} at the median{}, and {} {} {}{}{}.",
            row.from,
            row.to,
            between(p50, unit),
            unit.near(p99.estimate),
            unit.name(),
            far_end(row),
            between(p99, unit),
            if is_of_some(report.analysis, row) { ": policies left other traces out" } else { "" }
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
            let words = Words::from("The slowest stage at the median is ").stress(name).say(median);
            let words = match largest(rows).filter(|(most, _)| most != only) {
                Some(most) => spent(words, rows, &most),
                None => words,
            };
            words.say(".")
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
            sentence.say(": the clocks' bounds cannot separate them.")
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
        all.push(Words::from("All points read one counter, so the only uncertainty is the reading error."));
    }
    let holds = report.analysis.contradiction(report.events).is_none() && report.analysis.refused.is_empty();
    // Beyond a few, the section on the clocks says it better.
    const MOST_NAMED: usize = 3;
    for clock_map in clock_maps.iter().take(MOST_NAMED) {
        let known = unit.reach(clock_map.half_width_ticks, "an unknown width");
        let rho = clock_map.rho.to_string().replacen(" ppm", "\u{a0}ppm", 1);
        let sure = match holds {
            true => format!(" at the median instant: a guarantee, as long as its rate stays within rho ({rho})."),
            false => format!(" at the median instant, by rho ({rho}): no guarantee, see the finding above."),
        };
        all.push(Words::from(format!("{} is known to ", clock_map.domain)).stress(known).say(sure));
    }
    if clock_maps.len() > MOST_NAMED {
        all.push(Words::from(format!("{} more clocks are described below.", clock_maps.len() - MOST_NAMED)));
    }
    if let Some(truth) = report.analysis.truth.as_ref().filter(|truth| truth.is_checked()) {
        let (inside, known) = (count(truth.inside), count(truth.known));
        let all_in = truth.inside == truth.known;
        let held = if all_in { format!("all {known}") } else { format!("{inside} of {known}") };
        all.push(Words::from("The truth is known here: ").stress(held).say(" true durations lie in their intervals."));
    }
    all
}

/// A note with a capital letter and a full stop.
pub(crate) fn sentence(note: &str) -> String {
    let mut letters = note.chars();
    let first = letters.next().map_or(String::new(), |first| first.to_uppercase().to_string());
    format!("{first}{}.", letters.as_str().trim_end_matches('.'))
}

/// What went wrong, or that nothing did.
fn state(report: &Report<'_>) -> Words {
    let mut wrong = Vec::new();
    let (lost, miscounted) = (channel_counts::lost(report.channels), channel_counts::impossible(report.channels));
    let lacking = report.figures.traces.lacking;
    let impossible: u64 = report.analysis.impossible();
    if miscounted > 0 {
        wrong.push(format!("what was lost is not known, {} counted what cannot be", counted(miscounted, "channel")));
    } else if lost > 0 {
        wrong.push(format!("{} lost", counted(lost, "stamp")));
    }
    if lacking > 0 {
        let verb = if lacking == 1 { "lacks" } else { "lack" };
        let left_out = if all_left_out(report.analysis) { format!(" {LEFT_OUT}") } else { String::new() };
        wrong.push(format!("{} {verb} a point of the path{left_out}", counted(lacking, "trace")));
    }
    if impossible > 0 {
        wrong.push(counted(impossible, "impossible duration"));
    }
    if report.analysis.sum_mismatches > 0 {
        wrong.push(format!("{} not the sum of its stages", counted(report.analysis.sum_mismatches, "trace")));
    }
    wrong.extend(summary::damage(&report.analysis.refused));
    wrong.extend(report.analysis.open_stream().map(|_| "the end of a stream was not seen".into()));
    wrong.extend(report.analysis.lack());
    wrong.extend(report.analysis.unknown_loss(report.events));
    if impossible == 0 && report.analysis.contradiction(report.events).is_some() {
        wrong.push("the run contradicts itself or an assumption, and no bound holds until that is explained".into());
    }
    if wrong.is_empty() {
        return match report.figures.traces.measured {
            0 => Words::from("No trace was measured, so what was lost is not known."),
            _ if report.channels.is_empty() => {
                Words::from("Nothing contradicts itself; losses of stamps were not counted.")
            }
            _ => Words::from("Nothing was lost, and nothing contradicts itself."),
        };
    }
    Words::default().stress("Mind").say(format!(": {}.", wrong.join("; ")))
}

/// Returns whether whatever traces lack on the path may have been left out by a policy.
fn all_left_out(analysis: &Analysis) -> bool {
    let mut lacking = analysis.rows.iter().filter(|row| row.missing > 0 && row.role == StageRole::Path);
    lacking.all(|row| may_be_left_out(analysis, row))
}
