//! Figures that need no script: lines, dots and bars as SVG in the page's own colours.
//!
//! Every value is drawn where it is, or, beyond an axis, cut off by the figure's edge; nothing is moved. Each figure says in
//! words what it shows, for those who cannot see it.

use std::fmt::Write;

use tickscope_clock::advice::duration;

use crate::text::Text;

/// One of the page's colours, always beside a word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ink(usize);

impl Ink {
    /// The colour of the n-th kind, from 0; after three they come again, by then dashed.
    pub(crate) fn of(number: usize) -> Self {
        Self(number)
    }

    fn name(self) -> &'static str {
        ["accent", "second", "third"][self.0 % 3]
    }

    fn style(self) -> String {
        let dashes = if self.0 % 6 >= 3 { ";stroke-dasharray:5 3" } else { "" };
        format!("stroke:var(--{0});fill:var(--{0}){dashes}", self.name())
    }

    /// An entry of a legend.
    pub(crate) fn legend(self, words: &str) -> String {
        format!("<span><i class=\"line {}\"></i>{}</span>", self.name(), Text(words))
    }
}

/// What an axis measures, and from where to where.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    from: f64,
    to: f64,
    logarithmic: bool,
    labels: Vec<(f64, String)>,
}

impl Axis {
    /// By powers of ten, around all of `values` that are above 0, labelled by `label`.
    pub(crate) fn logarithmic(values: impl Iterator<Item = f64>, label: impl Fn(f64) -> String) -> Self {
        let positive = values.filter(|value| *value > 0.0 && value.is_finite());
        let (least, most) = positive.fold((f64::INFINITY, 0.0_f64), |(lo, hi), at| (lo.min(at), hi.max(at)));
        let (least, most) = if least > most { (1.0, 10.0) } else { (least, most) };
        let (first, last) =
            (least.log10().floor() as i32, (most.log10().ceil() as i32).max(least.log10().floor() as i32 + 1));
        // Where there are many powers, not every one has room for its label.
        let every = (last - first) as usize / 8 + 1;
        let labels = (first..=last).step_by(every).map(|power| 10_f64.powi(power)).map(|at| (at, label(at)));
        Self { from: 10_f64.powi(first), to: 10_f64.powi(last), logarithmic: true, labels: labels.collect() }
    }

    /// From 0 to above the greatest of `values`, labelled by `label`.
    pub(crate) fn from_0(values: impl Iterator<Item = f64>, label: impl Fn(f64) -> String) -> Self {
        const LABELS: f64 = 5.0;
        let most = values.filter(|value| value.is_finite()).fold(0.0_f64, f64::max);
        let most = if most > 0.0 { most } else { 1.0 };
        let power = 10_f64.powf((most / LABELS).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|step| most / step <= LABELS);
        let step = step.unwrap_or(most);
        let count = (most / step).ceil() as u32;
        let labels = (0..=count).map(|number| f64::from(number) * step).map(|at| (at, label(at)));
        Self { from: 0.0, to: step * f64::from(count), logarithmic: false, labels: labels.collect() }
    }

    /// Durations.
    pub(crate) fn of_durations(ns: impl Iterator<Item = f64>) -> Self {
        Self::logarithmic(ns, short)
    }

    /// From 0 at the axis' start to 1 at its end.
    fn share(&self, value: f64) -> f64 {
        if self.logarithmic {
            // What is no duration has no place on this axis: left of its start.
            return if value > 0.0 { (value / self.from).log10() / (self.to / self.from).log10() } else { -1.0 };
        }
        (value - self.from) / (self.to - self.from)
    }
}

/// A duration without a digit that says nothing.
pub(crate) fn short(ns: f64) -> String {
    if ns == 0.0 { "0".into() } else { duration(ns).replace(".0 ", " ") }
}

/// A figure being drawn, in pixels from its left upper corner.
pub(crate) struct Figure {
    width: f64,
    height: f64,
    margin: Margin,
    x: Axis,
    y: Option<Axis>,
    inside: String,
    around: String,
}

/// Room for labels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Margin {
    pub(crate) left: f64,
    pub(crate) bottom: f64,
}

const TOP: f64 = 6.0;
const RIGHT: f64 = 24.0;

impl Figure {
    /// Points on two axes.
    pub(crate) fn plane(x: Axis, y: Axis) -> Self {
        let mut figure = Self::empty(420.0, 240.0, Margin { left: 62.0, bottom: 24.0 }, x, Some(y));
        figure.lines();
        figure
    }

    /// Rows with names, each a few pixels high, beside one axis.
    pub(crate) fn rows(x: Axis, names: &[String], row_height: f64) -> Self {
        let margin = Margin { left: 190.0, bottom: 24.0 };
        let height = TOP + names.len() as f64 * row_height + margin.bottom;
        let mut figure = Self::empty(860.0, height, margin, x, None);
        figure.lines();
        for (number, name) in names.iter().enumerate() {
            let y = TOP + (number as f64 + 0.5) * row_height;
            figure.label(margin.left - 8.0, y + 4.0, "end", name);
        }
        figure
    }

    fn empty(width: f64, height: f64, margin: Margin, x: Axis, y: Option<Axis>) -> Self {
        Self { width, height, margin, x, y, inside: String::new(), around: String::new() }
    }

    fn lines(&mut self) {
        let (left, bottom) = (self.margin.left, self.height - self.margin.bottom);
        for (at, label) in self.x.labels.clone() {
            let x = self.place_x(at);
            self.rule([x, TOP], [x, bottom]);
            self.label(x, bottom + 16.0, "middle", &label);
        }
        let labels = self.y.as_ref().map(|axis| axis.labels.clone()).unwrap_or_default();
        for (at, label) in labels {
            let y = self.place_y(at);
            self.rule([left, y], [self.width - RIGHT, y]);
            self.label(left - 6.0, y + 4.0, "end", &label);
        }
    }

    /// Where on the figure a value of the horizontal axis lies.
    fn place_x(&self, value: f64) -> f64 {
        self.margin.left + self.x.share(value) * (self.width - RIGHT - self.margin.left)
    }

    fn place_y(&self, value: f64) -> f64 {
        let bottom = self.height - self.margin.bottom;
        bottom - self.y.as_ref().map_or(0.0, |axis| axis.share(value)) * (bottom - TOP)
    }

    fn rule(&mut self, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) {
        // Writing to a String cannot fail.
        let _ = write!(
            self.around,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" style=\"stroke:var(--rule)\"/>"
        );
    }

    fn label(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        let _ = write!(
            self.around,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" style=\"fill:var(--muted);font-size:12px\">{}</text>",
            Text(text)
        );
    }

    /// A bar on a row from one value to another, and a dot at a third; `shift` pixels below the row's middle.
    pub(crate) fn range(&mut self, ends: [f64; 2], dot: f64, row: Row, ink: Ink) {
        let y = TOP + (row.number as f64 + 0.5) * row.height + row.shift;
        let [x1, x2, at] = [ends[0], ends[1], dot].map(|value| self.place_x(value));
        let _ = write!(
            self.inside,
            "<g style=\"{}\"><line x1=\"{x1:.1}\" y1=\"{y:.1}\" x2=\"{x2:.1}\" y2=\"{y:.1}\" stroke-width=\"2\"/><circle cx=\"{at:.1}\" cy=\"{y:.1}\" r=\"3.2\"/></g>",
            ink.style()
        );
    }

    /// A line through points, a dot at each.
    pub(crate) fn line(&mut self, points: &[[f64; 2]], ink: Ink) {
        let at: Vec<[f64; 2]> = points.iter().map(|&[x, y]| [self.place_x(x), self.place_y(y)]).collect();
        let path: Vec<String> = at.iter().map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
        let dots: String = at.iter().map(|[x, y]| format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.8\"/>")).collect();
        let _ = write!(
            self.inside,
            "<g style=\"{}\"><polyline points=\"{}\" style=\"fill:none\" stroke-width=\"1.8\"/>{dots}</g>",
            ink.style(),
            path.join(" ")
        );
    }

    /// An upright bar, so many pixels wide.
    pub(crate) fn upright(&mut self, x: f64, ends: [f64; 2], pixels: f64, ink: Ink) {
        let (x, [y1, y2]) = (self.place_x(x), ends.map(|end| self.place_y(end)));
        let _ = write!(
            self.inside,
            "<line x1=\"{x:.1}\" y1=\"{y1:.1}\" x2=\"{x:.1}\" y2=\"{y2:.1}\" style=\"{}\" stroke-width=\"{pixels}\"/>",
            ink.style()
        );
    }

    /// The figure; `words` say what it shows.
    pub(crate) fn svg(self, words: &str) -> String {
        let Self { width, height, margin, inside, around, .. } = self;
        let (inner_width, inner_height) = (width - margin.left + 4.0, height - margin.bottom);
        format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\" style=\"max-width:{width}px;width:100%\">{around}\
             <svg x=\"{}\" y=\"0\" width=\"{inner_width}\" height=\"{inner_height}\" viewBox=\"{} 0 {inner_width} {inner_height}\">{inside}</svg></svg>",
            Text(words),
            margin.left - 4.0,
            margin.left - 4.0
        )
    }
}

/// Where a range is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) number: usize,
    pub(crate) height: f64,
    /// Pixels below its middle.
    pub(crate) shift: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_holds_all_its_values_between_powers_of_ten() {
        let axis = Axis::of_durations([30.0, 4_000.0, 0.0].into_iter());
        assert_eq!((axis.from, axis.to), (10.0, 10_000.0));
        assert!((axis.share(100.0) - 1.0 / 3.0).abs() < 1e-9 && axis.share(0.0) < 0.0);
        let labels: Vec<&str> = axis.labels.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(labels, ["10 ns", "100 ns", "1 us", "10 us"]);
    }

    #[test]
    fn an_axis_from_0_ends_at_a_round_step_above_its_values() {
        let axis = Axis::from_0([37.0, 12.0].into_iter(), |at| format!("{at:.0}"));
        assert_eq!((axis.from, axis.to, axis.share(20.0)), (0.0, 40.0, 0.5));
        assert_eq!(Axis::from_0(std::iter::empty(), |_| String::new()).to, 1.0);
    }

    #[test]
    fn a_value_is_drawn_where_it_is_also_beyond_the_axis() {
        let axis = |most: f64| Axis::from_0([most].into_iter(), |at| at.to_string());
        let mut figure = Figure::plane(axis(200.0), axis(100.0));
        let half = [figure.place_x(100.0), figure.place_y(50.0)];
        assert_eq!(half, [(62.0 + 420.0 - RIGHT) / 2.0, (TOP + 240.0 - 24.0) / 2.0]);
        figure.line(&[[100.0, 50.0], [200.0, 150.0]], Ink::of(0));
        assert!(figure.place_y(150.0) < 0.0 && figure.svg("a & b").contains("a &amp; b"));
    }
}
