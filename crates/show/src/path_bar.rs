//! The path as one bar: where the time goes, to scale.
//!
//! Idea: widths are means over the traces that have every stage of the path, because means of stages add up to the mean
//! of the whole, to the tick; medians do not. So the bar has parts of a hundred and no times: those around it are
//! medians, and would seem to contradict it. Below the bar whiskers say where a stage may truly end, and branches lie
//! where they leave the path. It is HTML with lengths in percent: it needs no script and has letters of one size at any
//! width. Guarantees: nothing is moved or shortened; what cannot be drawn is said.

use std::collections::BTreeMap;
use std::fmt::Write;

use tickscope_trace::{QuantileBounds, StageRole, StageRow, slowest};

use crate::Report;
use crate::headline::arrow;
use crate::quantity::Unit;
use crate::stages::percent;
use crate::text::Text;

/// Lanes that the whiskers of neighbours lie in, so that they stay apart.
const LANES: usize = 4;

/// A stage between its places on the bar, in ticks after the path's first point.
struct Piece<'a> {
    row: &'a StageRow,
    from: f64,
    mean: QuantileBounds,
}

/// From where to where the figure reaches, in ticks.
struct Scale {
    from: f64,
    to: f64,
}

impl Scale {
    fn of(pieces: &[&Piece<'_>]) -> Self {
        let ends = || pieces.iter().flat_map(|piece| [piece.from, piece.to(), piece.from + piece.mean.hi as f64]);
        Self { from: ends().fold(0.0, f64::min), to: ends().fold(0.0, f64::max) }
    }

    /// Percent of the figure's width.
    fn percent(&self, ticks: f64) -> f64 {
        100.0 * ticks / (self.to - self.from)
    }

    fn place(&self, ticks: f64) -> f64 {
        self.percent(ticks - self.from)
    }
}

impl Piece<'_> {
    fn to(&self) -> f64 {
        self.from + self.mean.estimate as f64
    }
}

/// The numbers of the path's stages on the bar and in the table, by row; from 1.
pub(crate) fn numbers(rows: &[StageRow]) -> BTreeMap<usize, usize> {
    let along = rows.iter().enumerate().filter(|(_, row)| row.role == StageRole::Path);
    along.enumerate().map(|(number, (row, _))| (row, number + 1)).collect()
}

/// The bar; nothing of a run without a trace from end to end.
pub(crate) fn bar(report: &Report<'_>) -> String {
    let rows = &report.analysis.rows;
    let Some(pieces) = pieces(rows) else { return String::new() };
    if let Some(piece) = pieces.iter().find(|piece| piece.row.role == StageRole::Path && piece.mean.estimate < 0) {
        return format!(
            "<p class=\"note\">No bar of the stages: the mean of {} is below 0, which no length can show; its bounds \
             are in the table.</p>\n",
            Text(arrow(piece.row))
        );
    }
    let (path, aside): (Vec<&Piece<'_>>, Vec<&Piece<'_>>) =
        pieces.iter().partition(|piece| piece.row.role == StageRole::Path);
    let scale = Scale::of(&path.iter().chain(&aside).copied().collect::<Vec<_>>());
    let whole = path.iter().map(|piece| piece.to()).fold(0.0, f64::max);
    if whole <= 0.0 {
        return String::new();
    }
    let unit = report.unit();
    let drawn = Drawn { rows, unit, scale, whole, slowest: slowest(rows), numbers: numbers(rows) };
    format!(
        "<figure class=\"path\" aria-label=\"The stages of the path to scale\">\n{}{}{}{}{}</figure>\n",
        drawn.segments(&path),
        drawn.whiskers(&path),
        drawn.axis(),
        aside.iter().map(|piece| drawn.branch(piece)).collect::<String>(),
        drawn.hint(),
    )
}

/// Every stage whose beginning has a place: the path's one after another, branches where they leave it.
fn pieces(rows: &[StageRow]) -> Option<Vec<Piece<'_>>> {
    let whole = rows.iter().find(|row| row.role == StageRole::EndToEnd)?;
    let mut places = BTreeMap::from([(whole.from.as_str(), 0.0)]);
    let mut pieces = Vec::new();
    for row in rows.iter().filter(|row| matches!(row.role, StageRole::Path | StageRole::Branch)) {
        let (Some(&from), Some(mean)) = (places.get(row.from.as_str()), mean(row)) else { continue };
        let piece = Piece { row, from, mean };
        if row.role == StageRole::Path {
            places.entry(&row.to).or_insert(piece.to());
        }
        pieces.push(piece);
    }
    Some(pieces)
}

/// The mean of a stage over the traces that have all of the path, of a branch over all that have it.
fn mean(row: &StageRow) -> Option<QuantileBounds> {
    let Some(share) = row.share.filter(|share| share.traces > 0) else { return row.mean };
    let [estimate, lo, hi] = [share.part.estimate, share.part.lo, share.part.hi];
    let traces = i128::from(share.traces);
    let whole = |ticks: i128| i64::try_from(ticks).ok();
    Some(QuantileBounds {
        estimate: whole((2 * estimate + traces).div_euclid(2 * traces))?,
        lo: whole(lo.div_euclid(traces))?,
        hi: whole(-(-hi).div_euclid(traces))?,
    })
}

/// What the parts of the figure share.
struct Drawn<'a> {
    rows: &'a [StageRow],
    unit: Unit,
    scale: Scale,
    /// The path's length, in ticks.
    whole: f64,
    slowest: Vec<usize>,
    numbers: BTreeMap<usize, usize>,
}

impl Drawn<'_> {
    fn at(&self, row: &StageRow) -> usize {
        self.rows.iter().position(|known| std::ptr::eq(known, row)).unwrap_or(usize::MAX)
    }

    fn segments(&self, path: &[&Piece<'_>]) -> String {
        let before = self.scale.place(0.0);
        let mut html = format!("<div class=\"segments\" style=\"padding-left:{before:.3}%\">");
        for piece in path {
            let (row, at) = (piece.row, self.at(piece.row));
            let kind = match (self.slowest.contains(&at), self.slowest.len()) {
                (true, 1) => " slowest",
                (true, _) => " perhaps",
                _ => "",
            };
            let share = percent(row).unwrap_or_default();
            // Writing to a String cannot fail.
            let _ = write!(
                html,
                "<span class=\"segment{kind}\" tabindex=\"0\" role=\"img\" aria-label=\"{label}\" \
                 style=\"width:{width:.3}%\"><span class=\"inside\"><b class=\"number\">{number}</b> <span \
                 class=\"name\">{name}</span> <span class=\"figures\"><b>{share}</b></span></span><span class=\"told\" \
                 aria-hidden=\"true\">{label}</span></span>",
                label = Text(self.words(piece)),
                width = self.scale.percent(piece.mean.estimate as f64),
                number = self.numbers.get(&at).copied().unwrap_or_default(),
                name = Text(arrow(row)),
            );
        }
        html + "</div>\n"
    }

    /// All figures of a piece, for the pointer, the keyboard and the ear.
    fn words(&self, piece: &Piece<'_>) -> String {
        let (row, unit) = (piece.row, self.unit);
        let bounded = |of: Option<QuantileBounds>| {
            of.map_or_else(|| "–".into(), |of| format!("{} {}", unit.near(of.estimate), unit.interval(of.lo, of.hi)))
        };
        let number = self.numbers.get(&self.at(row)).map_or(String::new(), |number| format!("{number} "));
        let share = percent(row).map_or(String::new(), |share| format!(", {share} of the path"));
        format!(
            "{number}{}: median {}, 99 % {}, mean {} {}{share}",
            arrow(row),
            bounded(row.p50),
            bounded(row.p99),
            bounded(Some(piece.mean)),
            unit.name()
        )
    }

    fn whiskers(&self, path: &[&Piece<'_>]) -> String {
        let lanes = path.len().min(LANES);
        let mut html = format!("<div class=\"whiskers\" aria-hidden=\"true\" style=\"height:{}px\">", 7 * lanes + 3);
        for (number, piece) in path.iter().enumerate() {
            let [lo, hi] = [piece.mean.lo, piece.mean.hi].map(|end| self.scale.place(piece.from + end as f64));
            let top = 3 + 7 * (number % lanes);
            let _ = write!(html, "<i style=\"left:{lo:.3}%;width:{:.3}%;top:{top}px\"></i>", hi - lo);
        }
        html + "</div>\n"
    }

    fn axis(&self) -> String {
        // As far as the axis goes, in percent of the path.
        let reach = 100.0 * self.scale.to / self.whole;
        let power = 10_f64.powf((reach / 6.0).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|step| reach / step <= 6.0);
        let step = step.unwrap_or(reach);
        let mut html = String::from("<div class=\"axis\" aria-hidden=\"true\">");
        let labels = (reach / step) as usize;
        for number in 0..=labels {
            let value = number as f64 * step;
            let place = self.scale.place(value / 100.0 * self.whole);
            // Where the page is narrow, every other label stands, and one near the end to the left of its line.
            let crowded = labels > 3 && (labels - number) % 2 == 1;
            let side = match (place > 96.0, place > 84.0, crowded) {
                (true, ..) => "last",
                (_, true, false) => "late",
                (.., true) => "odd",
                _ => "even",
            };
            let _ = write!(html, "<span class=\"{side}\" style=\"left:{place:.3}%\">{value:.0}\u{a0}%</span>");
        }
        html + "</div>\n"
    }

    fn branch(&self, piece: &Piece<'_>) -> String {
        let [from, to] = [piece.from, piece.to()].map(|end| self.scale.place(end));
        let (left, right) = (from.min(to), from.max(to));
        let label = Text(self.words(piece)).to_string();
        // Beside the line, where there is more room.
        let side =
            if 100.0 - right >= left { format!("left:{right:.3}%") } else { format!("right:{:.3}%", 100.0 - left) };
        format!(
            "<div class=\"branch\" tabindex=\"0\" role=\"img\" aria-label=\"{label}\"><i \
             style=\"left:{left:.3}%;width:{:.3}%\"></i><span class=\"name\" style=\"{side}\">{}</span><span \
             class=\"told\" aria-hidden=\"true\">{label}</span></div>\n",
            right - left,
            Text(arrow(piece.row)),
        )
    }

    fn hint(&self) -> String {
        let slowest = match self.slowest.len() {
            0 => "",
            1 => "Filled: the slowest stage at the median. ",
            _ => "Framed: each of these may be the slowest at the median. ",
        };
        format!(
            "<figcaption class=\"hint\">{slowest}A stage is as wide as its share of the time from end to end, of all \
             traces together: of their means, not of their medians. Whiskers: where it may truly end; dashed: \
             branches. Point at a stage, tap it or press Tab for all its figures.</figcaption>\n"
        )
    }
}
