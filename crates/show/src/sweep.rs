//! A sweep: a row a point of its parameters, what its trials lack, and one figure of all points.
//!
//! Guarantees: ends are rounded outward to the digit that is shown; a trial that is in no figure is named with its
//! reason. Deliberately absent: computing (`tickscope_analysis::sweep`).

mod figure;

pub use figure::sweep_figure;
use tickscope_analysis::{
    FEW_UPDATES, KeysLeftOut, NoAge, PrintedNumber, SweepFigure, SweepNumber, SweepPoint, SweepTable, SweepTrial,
};
use tickscope_store::{AgeFigure, Measure, PrintedField};
use tickscope_tick::Unit as Ticks;

use crate::age::left_out;
use crate::document::{self, Block};
use crate::quantity::{Unit, count, counted};
use crate::stage_table::Scale;

/// Trials in no figure that are named.
const MOST_NAMED: usize = 20;

/// A sweep's table, in a unit.
#[derive(Clone, Copy, Debug)]
pub struct SweepText<'a> {
    /// What its trials say.
    pub table: &'a SweepTable,
    /// `None`: the unit that fits.
    pub scale: Option<Scale>,
}

impl SweepText<'_> {
    /// As text for a terminal.
    pub fn text(&self) -> String {
        let mut blocks = vec![Block::paragraph(self.sentence()), Block::paragraph(""), self.table()];
        blocks.push(Block::paragraph(""));
        blocks.extend(self.remarks().into_iter().map(Block::paragraph));
        blocks.extend(self.without_figures().into_iter().map(Block::Alarm));
        document::text(&blocks)
    }

    fn sentence(&self) -> String {
        let SweepTable { name, points, trials, parameters, .. } = self.table;
        let made = trials.iter().filter(|trial| trial.is_counted()).count();
        format!(
            "{name}: {} of {}; {}, {made} of them in the figures.",
            counted(points.len(), "point"),
            parameters.join(" and "),
            counted(trials.len(), "trial")
        )
    }

    fn unit(&self) -> Unit {
        let hertz = self.table.hertz.unwrap_or(1);
        let all = || self.table.points.iter().flat_map(|point| &point.figures).flatten().map(|found| found.ticks);
        let shortest = all().filter(|&ticks| ticks > 0).min().unwrap_or(i64::MAX);
        let most = all().max().unwrap_or(0).min(shortest.saturating_mul(1000));
        Unit(self.scale.map_or_else(|| Ticks::for_durations_up_to(hertz, most), |scale| scale.unit(hertz)))
    }

    fn table(&self) -> Block {
        let SweepTable { parameters, measures, fields, points, .. } = self.table;
        let unit = self.unit();
        let of_keys: Vec<bool> = (0..measures.len()).map(|at| self.is_of_keys(at)).collect();
        let heads = heads(measures).into_iter().zip(&of_keys).flat_map(|(head, &is_of_keys)| {
            let keys = is_of_keys.then(|| "keys".to_owned());
            [format!("{head}, {}", unit.name())].into_iter().chain(keys)
        });
        let columns = parameters.iter().cloned().chain(["trials".into()]).chain(heads);
        let counts: &[&str] = if measures.is_empty() { &[] } else { &["traces", "lost"] };
        let columns = columns.chain(counts.iter().copied().map(String::from)).chain(fields.iter().map(field_name));
        let columns: Vec<String> = columns.collect();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        Block::table("Points", &columns, points.iter().map(|point| row(point, unit, &of_keys)))
    }

    /// Whether a measure is the mean over several keys.
    fn is_of_keys(&self, measure: usize) -> bool {
        let keys = |point: &SweepPoint| point.figures[measure].and_then(|found| found.keys_of);
        self.table.points.iter().filter_map(keys).any(|keys| keys > 1)
    }

    /// What the figures are, and what they rest on.
    fn remarks(&self) -> Vec<String> {
        let SweepTable { measures, fields, points, trials, .. } = self.table;
        let of = measured(measures);
        let mut remarks = vec![if of.is_empty() { of } else { format!("{of}.") }];
        let figures = || points.iter().flat_map(|point| &point.figures).flatten();
        remarks.push(intervals(figures().filter_map(|found| found.confidence_per_million).collect()));
        remarks.push(as_printed(fields));
        if let Some(few) = figures().filter_map(|found| found.keys_with_few).max().filter(|few| *few > 0) {
            remarks.push(format!(
                "In a trial up to {} had fewer than {FEW_UPDATES} updates: the ages of these are a matter of chance.",
                counted(few, "key")
            ));
        }
        remarks.extend(keys_left_out(self.table));
        if figures().any(|found| found.confidence_per_million.is_none()) {
            remarks.push(
                "The interval of a single repetition holds the clocks' error alone, not run-to-run variation. \
                 Set repetitions in [sweep]."
                    .into(),
            );
        }
        let dropped: u64 = trials.iter().map(|trial| trial.dropped).sum();
        if dropped > 0 {
            remarks.push(format!(
                "{} found no room, of {}: of them some traces count as lost.",
                counted(dropped, "stamp"),
                counted(trials.iter().filter(|trial| trial.dropped > 0).count(), "trial")
            ));
        }
        remarks.retain(|remark| !remark.is_empty());
        remarks
    }

    /// Trials in no figure, and what is wrong with others.
    fn without_figures(&self) -> Vec<String> {
        let all: Vec<&SweepTrial> = self.table.trials.iter().filter(|trial| trial.why.is_some()).collect();
        let mut lines: Vec<String> = all.iter().take(MOST_NAMED).map(|trial| self.without(trial)).collect();
        if let Some(more) = all.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
            lines.push(format!("And {}, which --json names.", counted(more, "more trial")));
        }
        lines
    }

    fn without(&self, trial: &SweepTrial) -> String {
        let values = self.table.parameters.iter().zip(&trial.values);
        let values: Vec<String> = values.map(|(name, value)| format!("{name} = {value}")).collect();
        let why = trial.why.as_deref().unwrap_or_default();
        let state = if trial.is_counted() { "in the figures" } else { trial.state };
        let folder = trial.folder.as_ref().map_or(String::new(), |folder| format!(" [{folder}]"));
        format!("Trial {} ({}): {state}: {why}{folder}", trial.number, values.join(", "))
    }
}

/// Keys that means leave out, by reason, of the trial that has the most of them; in the words of `show --age`.
fn keys_left_out(SweepTable { measures, trials, .. }: &SweepTable) -> Vec<String> {
    let of = |(at, why): (usize, NoAge)| {
        let all = trials.iter().flat_map(|trial| &trial.left_out).filter(|one| one.measure == at && one.why == why);
        let KeysLeftOut { key, keys, named, .. } = all.max_by_key(|one| one.keys)?;
        let (name, what) = (&heads(measures)[at], told(&measures[at]));
        Some(format!("{name} {what}: in a trial {}.", left_out(why, *key, named, *keys)))
    };
    let reasons = |at| [NoAge::Late, NoAge::NeverReceived].map(|why| (at, why));
    (0..measures.len()).flat_map(reasons).filter_map(of).collect()
}

/// What intervals of several repetitions are worth.
fn intervals(confidences: Vec<u32>) -> String {
    let (Some(least), Some(most)) = (confidences.iter().min(), confidences.iter().max()) else {
        return String::new();
    };
    let percent = |share: u32| format!("{}", f64::from(share / 1000) / 10.0);
    let worth = match least == most {
        true => percent(*least),
        false => format!("{} to {}", percent(*least), percent(*most)),
    };
    format!(
        "A figure is the median of a point's repetitions; between its brackets lies the median of all that could be \
         made, at {worth} % for each by itself: their spread and the clocks' bounds."
    )
}

fn row(point: &SweepPoint, unit: Unit, of_keys: &[bool]) -> Vec<String> {
    let mut cells: Vec<String> = point.values.iter().map(ToString::to_string).collect();
    cells.push(match point.repetitions == point.of {
        true => point.of.to_string(),
        false => format!("{} of {}", point.repetitions, point.of),
    });
    for (found, &is_of_keys) in point.figures.iter().zip(of_keys) {
        cells.push(found.map_or("–".into(), |found| interval(&found, unit)));
        cells.extend(is_of_keys.then(|| found.map_or("–".into(), |found| keys(&found))));
    }
    let first = point.figures.iter().flatten().next();
    let of = |number: fn(&SweepFigure) -> u64| first.map_or("–".into(), |found| count(number(found)));
    if !point.figures.is_empty() {
        cells.extend([of(|found| found.count), of(|found| found.lost)]);
    }
    cells.extend(point.numbers.iter().map(|found| found.map_or("–".into(), spread)));
    cells
}

/// `417 of 1000`: keys that a mean is of, of those that it should be of.
fn keys(found: &SweepFigure) -> String {
    match (found.keys, found.keys_of) {
        (Some(keys), Some(of)) if keys < of => format!("{keys} of {of}"),
        (Some(keys), _) => keys.to_string(),
        _ => "–".into(),
    }
}

/// `0.0123 [0.0119, 0.013]`; of one repetition the number alone.
fn spread(SweepNumber { value, lo, hi, repetitions, .. }: SweepNumber) -> String {
    let [value, lo, hi] = [value, lo, hi].map(digits);
    if repetitions == 1 { value } else { format!("{value} [{lo},\u{a0}{hi}]") }
}

/// A whole number as it is, another one in five digits.
fn digits(value: PrintedNumber) -> String {
    match value {
        PrintedNumber::Whole(number) => number.to_string(),
        PrintedNumber::Real(number) => real(number),
    }
}

fn real(value: f64) -> String {
    const MOST_WHOLE: f64 = 1e15;
    const FROM_0: i32 = -6;
    let power = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    if value.abs() < MOST_WHOLE && value.fract() == 0.0 {
        return format!("{value:.0}");
    }
    if !(FROM_0..15).contains(&power) {
        return format!("{value:.4e}");
    }
    let text = format!("{value:.*}", (4 - power).max(0) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// `drops.data of node, packets`.
fn field_name(field: &PrintedField) -> String {
    field.unit.as_ref().map_or_else(|| field.to_string(), |unit| format!("{field}, {unit}"))
}

/// A sentence that says whose figures those are that programs printed; empty: there are none.
fn as_printed(fields: &[PrintedField]) -> String {
    let names: Vec<String> = fields.iter().map(ToString::to_string).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(
            "{}: as the program printed it, which tickscope does not bound; its interval is the spread of repetitions \
             alone.",
            names.join("; ")
        ),
    }
}

/// `12.34 [12.10, 13.02]`.
fn interval(found: &SweepFigure, unit: Unit) -> String {
    let end = |end: Option<String>| end.unwrap_or_else(|| "?".into());
    let [lo, hi] = [found.lo_ticks.map(|lo| unit.down(lo)), found.hi_ticks.map(|hi| unit.up(hi))].map(end);
    format!("{} [{lo},\u{a0}{hi}]", unit.near(found.ticks))
}

/// Short names of measures: `p99`, `average age`; numbered where two would be called the same.
fn heads(measures: &[Measure]) -> Vec<String> {
    let head = |measure: &Measure| match measure {
        Measure::Stage { quantile, .. } => format!("p{}", f64::from(Measure::quantile_per_million(*quantile)) / 1e4),
        Measure::Age { of, key: None, .. } => age(*of).into(),
        Measure::Age { of, key: Some(key), .. } => format!("{} of key {key}", age(*of)),
    };
    let bare: Vec<String> = measures.iter().map(head).collect();
    let numbered = |(at, head): (usize, &String)| match bare.iter().filter(|other| *other == head).count() {
        1 => head.clone(),
        _ => format!("{head} ({})", 1 + bare[..at].iter().filter(|other| *other == head).count()),
    };
    bare.iter().enumerate().map(numbered).collect()
}

/// The name of one measure where it stands by itself: `p99`, and what it is of where another is called the same.
fn name(measures: &[Measure], at: usize) -> String {
    let heads = heads(measures);
    match heads[at].split_once(" (") {
        Some((head, _)) => format!("{head} {}", told(&measures[at])),
        None => heads[at].clone(),
    }
}

fn age(of: AgeFigure) -> &'static str {
    match of {
        AgeFigure::Average => "average age",
        AgeFigure::Peak => "peak age",
        AgeFigure::WithoutDelay => "age without delay",
        AgeFigure::Excess => "excess age",
    }
}

/// Short names of measures, and what each is of: `p50, p99 of end-to-end`.
fn measured(measures: &[Measure]) -> String {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for (head, of) in heads(measures).into_iter().zip(measures.iter().map(told)) {
        match all.last_mut().filter(|(last, _)| *last == of) {
            Some((_, heads)) => heads.push(head),
            None => all.push((of, vec![head])),
        }
    }
    let all = all.into_iter().map(|(of, heads)| format!("{} {of}", heads.join(", ")));
    all.collect::<Vec<_>>().join("; ")
}

/// What a measure is of.
fn told(measure: &Measure) -> String {
    match measure {
        Measure::Stage { stage, .. } => format!("of {stage}"),
        Measure::Age { age: [from, to], .. } => format!("of what {to} knows of {from}"),
    }
}

#[cfg(test)]
mod tests {
    use tickscope_analysis::AgeKey;
    use tickscope_store::ParameterValue;

    use super::*;

    fn figure(ticks: i64) -> SweepFigure {
        SweepFigure {
            ticks,
            lo_ticks: Some(ticks - 1_001),
            hi_ticks: Some(ticks + 1_001),
            spread_lo_ticks: ticks,
            spread_hi_ticks: ticks,
            confidence_per_million: Some(750_000),
            repetitions: 3,
            count: 900,
            lost: 7,
            keys_with_few: Some(4),
            keys: None,
            keys_of: None,
        }
    }

    fn number(value: f64) -> SweepNumber {
        let [value, lo, hi] = [value, value / 2.0, value * 2.0].map(PrintedNumber::Real);
        SweepNumber { value, lo, hi, confidence_per_million: Some(750_000), repetitions: 3 }
    }

    /// Three rates by two ways of waiting, at a tick a nanosecond; one point has no figure.
    pub(super) fn table(rates: [ParameterValue; 3]) -> SweepTable {
        let waits = ["epoll", "<busy>"].map(|wait| ParameterValue::Text(wait.into()));
        let values = rates.iter().flat_map(|rate| waits.iter().map(|wait| vec![rate.clone(), wait.clone()]));
        let points = (1..).zip(values).map(|(at, values)| SweepPoint {
            values,
            repetitions: if at == 6 { 0 } else { 3 },
            of: 3,
            figures: vec![(at != 6).then(|| figure(at * 10_000))],
            numbers: vec![(at != 5).then(|| number(at as f64 * 0.0013))],
        });
        let trial = SweepTrial {
            number: 9,
            repetition: 1,
            values: vec![rates[2].clone(), waits[1].clone()],
            folder: Some("trial-0009".into()),
            state: "failed",
            why: Some("it ended with 7".into()),
            code: 1,
            dropped: 0,
            figures: vec![None],
            left_out: Vec::new(),
            numbers: vec![None],
        };
        SweepTable {
            name: "t".into(),
            hertz: Some(1_000_000_000),
            parameters: ["rate", "wait"].map(String::from).into(),
            measures: vec![Measure::Stage { stage: "end-to-end".into(), quantile: 0.999 }],
            fields: vec![PrintedField { field: "drops".into(), node: None, unit: Some("of <data>".into()) }],
            points: points.collect(),
            trials: vec![trial],
        }
    }

    pub(super) fn rates() -> [ParameterValue; 3] {
        [1_000, 2_000, 4_000].map(ParameterValue::Integer)
    }

    #[test]
    fn a_row_has_its_point_its_interval_rounded_outward_and_what_was_lost() {
        let text = SweepText { table: &table(rates()), scale: Some(Scale::Microseconds) }.text();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let row =
            |first: [&str; 2]| rows.iter().find(|row| row.starts_with(&first)).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(row(["1000", "epoll"])[2..7], ["3", "10.00", "[8.99,", "11.01]", "900"], "{text}");
        assert_eq!(row(["1000", "epoll"])[7..], ["7", "0.0013", "[0.00065,", "0.0026]"], "{text}");
        assert_eq!(row(["4000", "<busy>"])[2..8], ["0", "of", "3", "–", "–", "–"], "{text}");
        assert_eq!(row(["4000", "epoll"]).last(), Some(&"–"), "{text}");
        for words in [
            "p99.9 of end-to-end",
            "at 75 %",
            "Trial 9 (rate = 4000, wait = <busy>): failed: it ended with 7",
            "drops, of <data>",
            "drops: as the program printed it, which tickscope does not bound",
            "up to 4 keys had fewer than 30 updates",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn a_mean_over_keys_says_of_how_many_it_is_and_which_it_leaves_out() {
        let mut table = table(rates());
        table.measures = vec![Measure::Age {
            age: ["a.x".parse().unwrap(), "b.y".parse().unwrap()],
            of: AgeFigure::Average,
            key: None,
        }];
        for (at, point) in table.points.iter_mut().enumerate() {
            let found = &mut point.figures[0];
            *found = found.map(|found| SweepFigure {
                keys: Some(if at == 0 { 417 } else { 1000 }),
                keys_of: Some(1000),
                ..found
            });
        }
        let late = |keys: usize| KeysLeftOut {
            measure: 0,
            why: NoAge::Late,
            key: AgeKey::Value,
            keys,
            named: [3, 7, 8, 9, 10].map(Some).into(),
        };
        table.trials[0].left_out = vec![late(20), late(583)];
        let text = SweepText { table: &table, scale: Some(Scale::Microseconds) }.text();
        let words: Vec<&str> = text.split_whitespace().collect();
        let words = words.join(" ");
        for said in [
            "average age, µs keys traces lost",
            "1000 epoll 3 10.00 [8.99, 11.01] 417 of 1000 900",
            "1000 <busy> 3 20.00 [18.99, 21.01] 1000 900",
            "average age of what b.y knows of a.x: in a trial 583 keys first received in the second half, in no \
             figure: \
             3, 7, 8, 9, 10 and 578 more.",
        ] {
            assert!(words.contains(said), "{said}: {text}");
        }
        let page = sweep_figure(&table).unwrap().caption.replace('\u{a0}', " ");
        assert!(page.contains("in a trial 583 keys first received in the second half"), "{page}");
    }

    #[test]
    fn a_number_of_a_program_is_whole_or_has_five_digits() {
        let exact = digits(PrintedNumber::Whole(9_007_199_254_740_993));
        assert_eq!(exact, "9007199254740993");
        let shown = [0.0, 1_100_000.0, -3.5, 0.051234567, 12_345.678, 1e-9, 3e20].map(real);
        assert_eq!(shown, ["0", "1100000", "-3.5", "0.051235", "12346", "1.0000e-9", "3.0000e20"]);
        let alone = SweepNumber { repetitions: 1, confidence_per_million: None, ..number(2.5) };
        assert_eq!(spread(alone), "2.5");
    }

    #[test]
    fn measures_of_one_kind_are_numbered_and_those_of_one_stage_told_together() {
        let stage = |stage: &str, quantile| Measure::Stage { stage: stage.into(), quantile };
        let all = [stage("a", 0.5), stage("a", 0.99), stage("b", 0.99)];
        assert_eq!(heads(&all), ["p50", "p99 (1)", "p99 (2)"]);
        assert_eq!(measured(&all), "p50, p99 (1) of a; p99 (2) of b");
        assert_eq!([0, 1, 2].map(|at| name(&all, at)), ["p50", "p99 of a", "p99 of b"]);
    }
}
