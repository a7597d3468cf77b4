//! The table of stages, and the table that says in numbers what the box plots draw.

use tickscope_analysis::figures::{Bounded, StageBox};
use tickscope_trace::{Answer, Common, QuantileBounds, Sign, StageRole, StageRow};

use crate::Report;
use crate::document::{Block, Tone, Words};
use crate::headline::arrow;
use crate::quantity::{Unit, count};

/// The table of stages.
pub(crate) fn table(report: &Report<'_>) -> Block {
    const COLUMNS: [&str; 8] =
        ["stage", "traces", "median", "99th percentile", "common", "relative, 1\u{a0}ms", "relative, run", "answers"];
    let unit = report.unit();
    let rows = report.analysis.rows.iter().zip(&report.analysis.relative_1ms_ticks).map(|(row, &relative)| {
        let common = Words::from(either_way(row.common, unit));
        let common = match row.own == Common::default() {
            true => common,
            false => common.set(Tone::Bounds, format!("reading {}", either_way(row.own, unit))),
        };
        vec![
            name(row),
            count(row.count).into(),
            quantile(row.p50, unit),
            quantile(row.p99, unit),
            common,
            unit.up(relative).into(),
            unit.up(row.relative_ticks).into(),
            answers(row, unit),
        ]
    });
    Block::table_ending_in_words("Table of stages", &COLUMNS, rows)
}

fn either_way(Common { below_ticks, above_ticks }: Common, unit: Unit) -> String {
    let (below, above) = (unit.up(below_ticks), unit.up(above_ticks));
    match (below_ticks, above_ticks) {
        (0, 0) => "0".into(),
        _ if below == above => format!("±{above}"),
        _ => format!("−{below} +{above}"),
    }
}

/// The stage's name, and what it is beside the path.
fn name(row: &StageRow) -> Words {
    match row.role {
        StageRole::EndToEnd => Words::from("end to end ").set(Tone::Aside, arrow(row)),
        StageRole::Branch => Words::from(arrow(row)).say(" ").set(Tone::Aside, "branch"),
        StageRole::Extra => Words::from(arrow(row)).say(" ").set(Tone::Aside, "extra"),
        StageRole::Path => arrow(row).into(),
    }
}

fn quantile(bounds: Option<QuantileBounds>, unit: Unit) -> Words {
    bounds.map_or("–".into(), |QuantileBounds { estimate, lo, hi }| bounded(Bounded { estimate, lo, hi }, unit))
}

fn bounded(Bounded { estimate, lo, hi }: Bounded, unit: Unit) -> Words {
    Words::from(unit.near(estimate)).say(" ").set(Tone::Bounds, unit.interval(lo, hi))
}

/// Which questions the bounds can answer.
fn answers(row: &StageRow, unit: Unit) -> Words {
    const OPEN: &str = "not resolved";
    let sign = match row.sign() {
        None => "no durations".into(),
        Some(Answer::Resolved(Sign::Positive)) => "longer than 0".into(),
        Some(Answer::Resolved(Sign::Zero)) => "exactly 0".into(),
        Some(Answer::Resolved(Sign::Negative)) => "shorter than 0".into(),
        Some(Answer::NotResolved { .. }) => Words::from("longer than 0? ").set(Tone::Open, OPEN),
    };
    sign.line(match row.spread() {
        None => "no spread".into(),
        Some(Answer::Resolved(ticks)) => format!("spread {}", unit.near(ticks as i64)).into(),
        Some(Answer::NotResolved { .. }) => Words::from("spread? ").set(Tone::Open, OPEN),
    })
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
    let rows = rows.map(|(row, of)| [vec![name(row)], quantile_cells(of, unit)].concat());
    Block::table("Quantiles of each stage", &COLUMNS, rows)
}

fn quantile_cells(of: &StageBox, unit: Unit) -> Vec<Words> {
    let Some(found) = &of.quantiles else { return vec!["–".into()] };
    let all = [found.least, found.q1, found.median, found.q3, found.p99, found.p999, found.most];
    all.map(|value| bounded(value, unit)).into_iter().chain([count(found.outliers).into()]).collect()
}
