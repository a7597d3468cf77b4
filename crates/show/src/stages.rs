//! The table of stages, and the table that says in numbers what the box plots draw.

use std::fmt::Write;

use tickscope_analysis::figures::{Bounded, StageBox};
use tickscope_trace::{Answer, Common, QuantileBounds, Sign, StageRole, StageRow};

use crate::Report;
use crate::headline::arrow;
use crate::quantity::{Unit, count};
use crate::text::Text;

/// The rows of the table of stages.
pub(crate) fn rows(report: &Report<'_>) -> String {
    let (unit, mut html) = (report.unit(), String::new());
    for (row, &relative) in report.analysis.rows.iter().zip(&report.analysis.relative_1ms_ticks) {
        let own = match row.own == Common::default() {
            true => String::new(),
            false => format!("<span class=\"bounds\">own {}</span>", either_way(row.own, unit)),
        };
        let cells = [
            ("traces", count(row.count)),
            ("median", quantile(row.p50, unit)),
            ("99th percentile", quantile(row.p99, unit)),
            ("common", either_way(row.common, unit) + &own),
            ("relative, 1 ms", unit.up(relative)),
            ("relative, run", unit.up(row.relative_ticks)),
        ];
        // Writing to a String cannot fail.
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", name(row));
        for (label, cell) in cells {
            let _ = write!(html, "<td data-label=\"{label}\">{cell}</td>");
        }
        let _ = writeln!(html, "<td data-label=\"answers\" class=\"words\">{}</td></tr>", answers(row, unit));
    }
    html
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
fn name(row: &StageRow) -> String {
    if row.role == StageRole::EndToEnd {
        return format!("end to end <span class=\"aside\">{}</span>", Text(arrow(row)));
    }
    let aside = match row.role {
        StageRole::Branch => " <span class=\"aside\">branch</span>",
        StageRole::Extra => " <span class=\"aside\">extra</span>",
        StageRole::Path | StageRole::EndToEnd => "",
    };
    format!("{}{aside}", Text(arrow(row)))
}

fn quantile(bounds: Option<QuantileBounds>, unit: Unit) -> String {
    bounds.map_or("–".into(), |QuantileBounds { estimate, lo, hi }| bounded(Bounded { estimate, lo, hi }, unit))
}

fn bounded(Bounded { estimate, lo, hi }: Bounded, unit: Unit) -> String {
    format!("{} <span class=\"bounds\">{}</span>", unit.near(estimate), unit.interval(lo, hi))
}

/// Which questions the bounds can answer.
fn answers(row: &StageRow, unit: Unit) -> String {
    const OPEN: &str = "<span class=\"open\">not resolved</span>";
    let sign = match row.sign() {
        None => "no durations".into(),
        Some(Answer::Resolved(Sign::Positive)) => "longer than 0".into(),
        Some(Answer::Resolved(Sign::Zero)) => "exactly 0".into(),
        Some(Answer::Resolved(Sign::Negative)) => "shorter than 0".into(),
        Some(Answer::NotResolved { .. }) => format!("longer than 0? {OPEN}"),
    };
    let spread = match row.spread() {
        None => "no spread".into(),
        Some(Answer::Resolved(ticks)) => format!("spread {}", unit.near(ticks as i64)),
        Some(Answer::NotResolved { .. }) => format!("spread? {OPEN}"),
    };
    // One element: in a card it stands beside its label as a whole.
    format!("<span>{sign}<br>{spread}</span>")
}

/// The rows of the table of quantiles.
pub(crate) fn quantiles(report: &Report<'_>) -> String {
    let (unit, mut html) = (report.unit(), String::new());
    for (row, of) in report.analysis.rows.iter().zip(&report.figures.stages) {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", name(row));
        for (label, cell) in quantile_cells(of, unit) {
            let _ = write!(html, "<td data-label=\"{label}\">{cell}</td>");
        }
        html.push_str("</tr>\n");
    }
    html
}

fn quantile_cells(of: &StageBox, unit: Unit) -> Vec<(&'static str, String)> {
    let Some(found) = &of.quantiles else { return vec![("shortest", "–".into())] };
    let all = [
        ("shortest", found.least),
        ("quarter", found.q1),
        ("median", found.median),
        ("three quarters", found.q3),
        ("99 %", found.p99),
        ("99.9 %", found.p999),
        ("longest", found.most),
    ];
    let mut cells: Vec<_> = all.into_iter().map(|(label, value)| (label, bounded(value, unit))).collect();
    cells.push(("beyond the whiskers", count(found.outliers)));
    cells
}
