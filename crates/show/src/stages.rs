//! The table of stages, and the table that says in numbers what the box plots draw.

use tickscope_analysis::figures::{Bounded, StageBox};
use tickscope_trace::{Answer, Common, Quantile, QuantileBounds, Sign, StageRole, StageRow};

use crate::Report;
use crate::document::{Block, Tone, Words};
use crate::few_traces;
use crate::headline::arrow;
use crate::path_bar;
use crate::quantity::{Unit, count};
use crate::stage_table::share_reach;

/// What the table's heads mean.
pub(crate) const MEANINGS: [(&str, &str); 9] = [
    ("traces", "how many have this stage"),
    (
        "share",
        "the stage's part of the time from end to end: of the sums over the traces that have every stage; after ±, how \
         many points of a hundred the true share may be off",
    ),
    (
        "median, 99 %, 99.9 %, longest",
        "half of the traces, 99 of 100, 999 of 1000, or all took no longer; of fewer than that, a quantile is the \
         longest, and says so. The interval is guaranteed to hold the true one, under the \
         assumptions",
    ),
    ("common", "how far all values of a stage may be shifted together, because the clocks are known no better"),
    ("reading", "what the readings of each trace leave open, from one trace to the next anew"),
    ("relative at 1\u{a0}ms", "how far two values, 1 ms apart, may be wrong against each other"),
    ("relative in the run", "the same of two values anywhere in the run"),
    (
        "answers",
        "what the bounds can tell: whether the stage took longer than nothing (> 0) at the median, and how far its \
         99th \
         percentile lies above its median; or that they cannot",
    ),
    ("beyond the whiskers", "values further than one and a half boxes from the box, in the box plots"),
];

/// The table of stages.
pub(crate) fn table(report: &Report<'_>) -> Block {
    const COLUMNS: [&str; 12] = [
        "stage",
        "traces",
        "share",
        "median",
        "99\u{a0}%",
        "99.9\u{a0}%",
        "longest",
        "common",
        "reading",
        "relative at 1\u{a0}ms",
        "relative in the run",
        "answers",
    ];
    let unit = report.unit();
    let numbers = path_bar::numbers(&report.analysis.rows);
    let rows = report.analysis.rows.iter().zip(&report.analysis.relative_1ms_ticks).enumerate();
    let rows = rows.map(|(at, (row, &relative))| {
        let of = |which, bounds| longest(which, row.count).unwrap_or_else(|| quantile(bounds, unit));
        vec![
            name(row, numbers.get(&at).copied()),
            count(row.count).into(),
            share(row).unwrap_or_else(|| "–".into()).into(),
            of(Quantile::MEDIAN, row.p50),
            of(Quantile::P99, row.p99),
            of(Quantile::P999, row.p999),
            quantile(row.max, unit),
            either_way(row.common, unit).into(),
            either_way(row.own, unit).into(),
            unit.up(relative).into(),
            unit.up(row.relative_ticks).into(),
            answers(row, unit),
        ]
    });
    Block::table_ending_in_words("Table of stages", &COLUMNS, rows).explained()
}

/// The share, and how far the true one may be from it where that is more than rounding.
fn share(row: &StageRow) -> Option<String> {
    let reach = row.share?.per_million().and_then(share_reach);
    Some(percent(row)? + &reach.map_or(String::new(), |points| format!(" ±{points}")))
}

/// The stage's share of the whole at the estimates; nothing of a stage that is no part of it.
pub(crate) fn percent(row: &StageRow) -> Option<String> {
    let [near, ..] = row.share.filter(|_| row.role == StageRole::Path)?.per_million()?;
    Some(match near {
        -500..=500 if near != 0 => "<\u{202f}0.1\u{a0}%".into(),
        -99_499..=99_499 => format!("{:.1}\u{a0}%", near as f64 / 1e4).replace('-', "\u{2212}"),
        _ => format!("{:.0}\u{a0}%", near as f64 / 1e4).replace('-', "\u{2212}"),
    })
}

fn either_way(Common { below_ticks, above_ticks }: Common, unit: Unit) -> String {
    let (below, above) = (unit.up(below_ticks), unit.up(above_ticks));
    match (below_ticks, above_ticks) {
        (0, 0) => "0".into(),
        _ if below == above => format!("±{above}"),
        _ => format!("−{below} +{above}"),
    }
}

/// The stage's name, with its number on the bar, and what it is where it is no part of the path.
fn name(row: &StageRow, number: Option<usize>) -> Words {
    let numbered =
        || number.map_or_else(Words::default, |n| Words::default().set(Tone::Number, n.to_string()).say(" "));
    match row.role {
        StageRole::EndToEnd => Words::from("end to end ").set(Tone::Aside, arrow(row)),
        StageRole::Branch => Words::from(arrow(row)).say(" ").set(Tone::Aside, "branch"),
        StageRole::Extra => Words::from(arrow(row)).say(" ").set(Tone::Aside, "extra"),
        StageRole::Path => numbered().say(arrow(row)),
    }
}

fn quantile(bounds: Option<QuantileBounds>, unit: Unit) -> Words {
    bounds.map_or("–".into(), |QuantileBounds { estimate, lo, hi }| bounded(Bounded { estimate, lo, hi }, unit))
}

/// Instead of a quantile of so few traces that it is the longest: what it is.
fn longest(quantile: Quantile, count: u64) -> Option<Words> {
    few_traces::longest(quantile, count).map(|words| Words::default().set(Tone::Aside, words))
}

fn bounded(Bounded { estimate, lo, hi }: Bounded, unit: Unit) -> Words {
    Words::from(unit.near(estimate)).say(" ").set(Tone::Bounds, unit.interval(lo, hi))
}

/// Which questions the bounds can answer.
fn answers(row: &StageRow, unit: Unit) -> Words {
    const OPEN: &str = "not resolved";
    let sign = match row.sign() {
        None => "no durations".into(),
        Some(Answer::Resolved(Sign::Positive)) => "> 0".into(),
        Some(Answer::Resolved(Sign::Zero)) => "exactly 0".into(),
        Some(Answer::Resolved(Sign::Negative)) => "< 0".into(),
        Some(Answer::NotResolved { .. }) => Words::from("> 0? ").set(Tone::Open, OPEN),
    };
    match row.spread() {
        None => sign.say(", no spread"),
        Some(Answer::Resolved(ticks)) => sign.say(format!(", spread {}", unit.near(ticks as i64))),
        Some(Answer::NotResolved { .. }) => sign.say(", spread? ").set(Tone::Open, OPEN),
    }
}

/// The table of quantiles.
pub(crate) fn quantiles(report: &Report<'_>) -> Block {
    const COLUMNS: [&str; 9] = [
        "stage",
        "shortest",
        "quarter",
        "median",
        "three quarters",
        "99 %",
        "99.9 %",
        "longest",
        "beyond the whiskers",
    ];
    let unit = report.unit();
    let rows = report.analysis.rows.iter().zip(&report.figures.stages);
    let rows = rows.map(|(row, of)| [vec![name(row, None)], quantile_cells(of, unit)].concat());
    Block::table("Quantiles of each stage", &COLUMNS, rows)
}

fn quantile_cells(of: &StageBox, unit: Unit) -> Vec<Words> {
    let Some(found) = &of.quantiles else { return vec!["–".into()] };
    let inner = [
        (Quantile::Q1, found.q1),
        (Quantile::MEDIAN, found.median),
        (Quantile::Q3, found.q3),
        (Quantile::P99, found.p99),
        (Quantile::P999, found.p999),
    ];
    let inner = inner.map(|(which, value)| longest(which, of.count as u64).unwrap_or_else(|| bounded(value, unit)));
    let [least, most] = [found.least, found.most].map(|value| bounded(value, unit));
    [least].into_iter().chain(inner).chain([most, count(found.outliers).into()]).collect()
}
