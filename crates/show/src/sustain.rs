//! The highest rate that a system sustains: the interval of all searches, each search, each trial with its verdict.
//!
//! Guarantees: an end that is missing has its reason. Deliberately absent: computing, of which rate and what verdict.

use tickscope_analysis::{MeanDelay, SustainSearch, SustainTrial, SustainVerdict, Sustained};
use tickscope_store::ParameterValue;

use crate::document::{self, Block};
use crate::drawn_figure::DrawnFigure;
use crate::plot::{Axis, Figure, Ink};
use crate::quantity::{count, counted};

/// As text for a terminal.
pub fn sustained_text(found: &Sustained) -> String {
    let mut blocks = vec![Block::paragraph(sentence(found))];
    blocks.extend(found.why.iter().cloned().map(Block::Alarm));
    let columns = ["search", "sustained", "not sustained", "throughput", "trials"];
    blocks.extend([Block::paragraph(""), Block::table("Searches", &columns, found.searches.iter().map(search))]);
    let columns = [
        "trial",
        "search",
        found.parameter.as_str(),
        "verdict",
        "offered",
        "lost",
        "backlog %",
        "blocked %",
        "lag ms/s",
    ];
    blocks.extend([Block::paragraph(""), Block::table("Trials", &columns, found.trials.iter().map(trial))]);
    blocks.push(Block::paragraph(""));
    blocks.push(Block::paragraph(
        "The interval holds that of each search: between the highest rate that it judged sustained and the lowest that \
         it judged not; throughput is what came through of the former. Growth of the backlog, in parts of what was \
         offered, counts as loss; lag is what delays grew by; both at least, by the clocks' bounds. \
         Blocked is the share of its time in which a sender's socket took nothing. A trial that is \
         invalid counts for neither side.",
    ));
    let said = found.trials.iter().filter(|trial| trial.offered.is_none());
    blocks.extend(said.map(|trial| Block::Alarm(format!("Trial {}: {}", trial.number, trial.why))));
    document::text(&blocks)
}

/// The delay over the time of a trial, of those at both ends of the interval; `None`: none of them has one.
pub fn sustain_figure(found: &Sustained) -> Option<DrawnFigure> {
    let at = |rate: &Option<ParameterValue>, sustained: bool| {
        let is_told = move |trial: &&SustainTrial| {
            let is_valid = trial.verdict != SustainVerdict::Invalid;
            is_valid && (trial.verdict == SustainVerdict::Sustained) == sustained && !trial.delays.is_empty()
        };
        let of_rate = found.trials.iter().filter(move |trial| Some(&trial.rate) == rate.as_ref()).filter(is_told);
        of_rate.collect::<Vec<_>>()
    };
    let ends = [("sustained", &found.lower, true), ("not sustained", &found.upper, false)];
    let series: Vec<(String, Vec<&SustainTrial>)> = ends
        .into_iter()
        .filter_map(|(word, rate, sustained)| {
            Some((format!("{} = {}, {word}", found.parameter, rate.as_ref()?), at(rate, sustained)))
        })
        .filter(|(_, trials)| !trials.is_empty())
        .collect();
    let delays = || series.iter().flat_map(|(_, trials)| trials).flat_map(|trial| &trial.delays);
    if series.is_empty() {
        return None;
    }
    let seconds = Axis::from_0(delays().map(|piece| piece.at_s), |at| format!("{at}")).named("seconds");
    let ends = delays().flat_map(|piece| [piece.lo_ns, piece.hi_ns]).collect::<Vec<_>>();
    let mut plane = Figure::plane(seconds, Axis::of_durations_by_spread(ends.into_iter()).named("mean delay"));
    for (number, (_, trials)) in series.iter().enumerate() {
        for trial in trials {
            for MeanDelay { at_s, lo_ns, hi_ns, .. } in &trial.delays {
                plane.upright(*at_s, [*lo_ns, *hi_ns], 1.4, Ink::of(number));
            }
            let middle = trial.delays.iter().map(|piece| [piece.at_s, (piece.lo_ns + piece.hi_ns) / 2.0]);
            plane.curve(&middle.collect::<Vec<_>>(), Ink::of(number));
        }
    }
    let names: Vec<String> = series.iter().map(|(name, _)| name.clone()).collect();
    let drawn = series.iter().map(|(_, trials)| trials.len()).sum::<usize>();
    let caption = format!(
        "A line a trial, {} of all {}: the mean delay of the traces that began at that time; uprights: what the clocks \
         leave open. A line that rises by a millisecond in a second is a lag of 1 ms/s.",
        drawn,
        found.trials.len()
    );
    Some(DrawnFigure::of(
        "sustain",
        format!("{}: delay over time", found.name),
        caption,
        vec![Figure::legend(&names), plane],
    ))
}

fn sentence(found: &Sustained) -> String {
    let interval = match (&found.lower, &found.upper) {
        (Some(lower), Some(upper)) => format!("between {lower} and {upper}"),
        (Some(lower), None) => format!("{lower} or more"),
        (None, Some(upper)) => format!("less than {upper}"),
        (None, None) => "not told".into(),
    };
    format!(
        "{}: the highest {} that is sustained is {interval}, by {} ({}, {}).",
        found.name,
        found.parameter,
        found.method,
        match found.searches.len() {
            1 => "one search".into(),
            several => format!("{several} searches"),
        },
        counted(found.trials.len(), "trial")
    )
}

fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "–".into())
}

fn search(found: &SustainSearch) -> Vec<String> {
    let of = |rate: &Option<ParameterValue>| or_dash(rate.as_ref().map(ToString::to_string));
    let throughput = or_dash(found.throughput.map(|throughput| format!("{throughput:.1}")));
    vec![found.search.to_string(), of(&found.lower), of(&found.upper), throughput, found.trials.to_string()]
}

fn trial(found: &SustainTrial) -> Vec<String> {
    let share = |ppm: Option<i64>, of: f64| or_dash(ppm.map(|ppm| format!("{:.2}", ppm as f64 / of)));
    vec![
        found.number.to_string(),
        found.search.to_string(),
        found.rate.to_string(),
        found.verdict.word().into(),
        or_dash(found.offered.map(count)),
        or_dash(found.lost.map(count)),
        share(found.backlog_ppm, 1e4),
        share(found.blocked_ppm.map(i64::from), 1e4),
        share(found.lag_ppm, 1e3),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lower: Option<i64>, upper: Option<i64>, why: Option<&str>) -> Sustained {
        let [lower, upper] = [lower, upper].map(|rate| rate.map(ParameterValue::Integer));
        let why = why.map(String::from);
        let search = SustainSearch {
            search: 1,
            lower: lower.clone(),
            upper: upper.clone(),
            throughput: Some(2_999.96),
            why: why.clone(),
            trials: 2,
        };
        let trial = |number, verdict, offered: Option<u64>| SustainTrial {
            number,
            search: 1,
            rate: ParameterValue::Integer(4_000),
            folder: None,
            verdict,
            why: "schedule: late".into(),
            offered,
            lost: offered,
            backlog_ppm: offered.map(|_| 12_345),
            lag_ppm: offered.map(|_| 1_500),
            blocked_ppm: offered.map(|_| 600),
            delays: (0..4)
                .map(|at| MeanDelay { at_s: f64::from(at), count: 1, lo_ns: 1e6 * f64::from(at + 1), hi_ns: 5e6 })
                .collect(),
        };
        Sustained {
            name: "t".into(),
            parameter: "rate".into(),
            method: "bisection",
            lower,
            upper,
            why,
            searches: vec![search],
            trials: vec![trial(1, SustainVerdict::Backlog, Some(800)), trial(2, SustainVerdict::Invalid, None)],
        }
    }

    #[test]
    fn an_interval_its_searches_and_its_trials_are_told() {
        let text = sustained_text(&found(Some(3_000), Some(4_000), None));
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(text.contains("the highest rate that is sustained is between 3000 and 4000, by bisection"), "{text}");
        let row = |words: &[&str]| assert!(rows.iter().any(|row| row.as_slice() == words), "{words:?}: {text}");
        row(&["1", "3000", "4000", "3000.0", "2"]);
        row(&["1", "1", "4000", "backlog", "800", "800", "1.23", "0.06", "1.50"]);
        row(&["2", "1", "4000", "invalid", "–", "–", "–", "–", "–"]);
        assert!(text.contains("Trial 2: schedule: late"), "{text}");
    }

    #[test]
    fn the_trials_at_both_ends_are_drawn_over_time_and_no_other() {
        let mut found = found(Some(3_000), Some(4_000), None);
        let sustained = SustainTrial {
            rate: ParameterValue::Integer(3_000),
            verdict: SustainVerdict::Sustained,
            ..found.trials[0].clone()
        };
        let other = SustainTrial { rate: ParameterValue::Integer(2_000), ..sustained.clone() };
        found.trials.extend([sustained, other]);
        let figure = sustain_figure(&found).unwrap();
        let svg = figure.svg();
        assert_eq!(svg.matches("<polyline").count(), 2, "{svg}");
        assert_eq!(svg.matches("stroke-width=\"1.4\"").count(), 2 + 8, "two curves, four uprights each: {svg}");
        assert!(svg.contains("rate = 3000, sustained") && svg.contains("rate = 4000, not sustained"), "{svg}");
        assert!(figure.caption.contains("2 of all 4") && figure.pdf().unwrap().starts_with(b"%PDF-"));
        found.trials.iter_mut().for_each(|trial| trial.delays.clear());
        assert!(sustain_figure(&found).is_none());
    }

    #[test]
    fn an_end_that_is_missing_has_its_reason() {
        for (lower, upper, said) in
            [(Some(3), None, "is 3 or more"), (None, Some(4), "is less than 4"), (None, None, "is not told")]
        {
            let text = sustained_text(&found(lower, upper, Some("cannot tell: late")));
            assert!(text.contains(said) && text.contains("cannot tell: late"), "{text}");
        }
    }
}
