//! Figures that need no script: lines, dots and bars as SVG in the page's own colours.
//!
//! Every value is drawn where it is, or, beyond an axis, cut off by the figure's edge; nothing is moved. Each figure
//! says in words what it shows, for those who cannot see it.

use std::cmp::Ordering;
use std::fmt::Write;

use tickscope_clock::advice::duration;

use crate::document::Block;
use crate::text::Text;

/// One of the page's colours, always beside a word.
#[derive(Clone, Copy, Debug)]
pub struct Ink(usize);

impl Ink {
    /// The colour of the n-th kind, from 0; after three they come again, by then dashed.
    pub fn of(number: usize) -> Self {
        Self(number)
    }

    /// Its name in the page's style.
    pub(crate) fn name(self) -> &'static str {
        ["accent", "second", "third"][self.0 % 3]
    }

    fn style(self) -> String {
        let dashes = if self.dashed() { ";stroke-dasharray:5 3" } else { "" };
        format!("stroke:var(--{0});fill:var(--{0}){dashes}", self.name())
    }

    fn dashed(self) -> bool {
        self.0 % 6 >= 3
    }

    /// The classes of its sample in a legend.
    pub fn sample(self) -> String {
        format!("line {}{}", self.name(), if self.dashed() { " dashed" } else { "" })
    }
}

/// What an axis measures, and from where to where.
#[derive(Clone, Debug)]
pub struct Axis {
    name: String,
    from: f64,
    to: f64,
    logarithmic: bool,
    labels: Vec<(f64, String)>,
}

impl Axis {
    /// By powers of ten, around all of `values` that are above 0, labelled by `label`.
    pub fn logarithmic(values: impl Iterator<Item = f64>, label: impl Fn(f64) -> String) -> Self {
        let positive = values.filter(|value| *value > 0.0 && value.is_finite());
        let (least, most) = positive.fold((f64::INFINITY, 0.0_f64), |(lo, hi), at| (lo.min(at), hi.max(at)));
        let (least, most) = if least > most { (1.0, 10.0) } else { (least, most) };
        let (first, last) =
            (least.log10().floor() as i32, (most.log10().ceil() as i32).max(least.log10().floor() as i32 + 1));
        // Where there are many powers, not every one has room for its label.
        let every = (last - first) as usize / 8 + 1;
        let labels = (first..=last).step_by(every).map(|power| 10_f64.powi(power)).map(|at| (at, label(at)));
        Self {
            name: String::new(),
            from: 10_f64.powi(first),
            to: 10_f64.powi(last),
            logarithmic: true,
            labels: labels.collect(),
        }
    }

    /// From 0 to above the greatest of `values`, labelled by `label`.
    pub fn from_0(values: impl Iterator<Item = f64>, label: impl Fn(f64) -> String) -> Self {
        let most = values.filter(|value| value.is_finite()).fold(0.0_f64, f64::max);
        Self::evenly([0.0, if most > 0.0 { most } else { 1.0 }], label)
    }

    /// From below the least of `values` to above the greatest, labelled by `label`; half of it either way of a single
    /// value.
    pub fn around(values: impl Iterator<Item = f64>, label: impl Fn(f64) -> String) -> Self {
        let ends = values.filter(|value| value.is_finite());
        let (least, most) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), at| (lo.min(at), hi.max(at)));
        let ends = match least.total_cmp(&most) {
            Ordering::Less => [least, most],
            Ordering::Equal if least != 0.0 => [least - least.abs() / 2.0, least + least.abs() / 2.0],
            _ => [0.0, 1.0],
        };
        Self::evenly(ends, label)
    }

    /// A place for each name, from 0 on.
    pub fn of_names(names: &[String]) -> Self {
        let labels = names.iter().enumerate().map(|(at, name)| (at as f64, name.clone())).collect();
        Self { name: String::new(), from: -0.5, to: names.len() as f64 - 0.5, logarithmic: false, labels }
    }

    /// A place for each core from 0 to the last one.
    pub fn of_cores(last: usize) -> Self {
        let labels = (0..=last).map(|core| (core as f64, core.to_string())).collect();
        Self { name: String::new(), from: -0.5, to: last as f64 + 0.5, logarithmic: false, labels }
    }

    /// Around both ends, a label at every multiple of a round number.
    fn evenly([least, most]: [f64; 2], label: impl Fn(f64) -> String) -> Self {
        const LABELS: f64 = 5.0;
        let power = 10_f64.powf(((most - least) / LABELS).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
        let step = steps.into_iter().find(|step| (most - least) / step <= LABELS).unwrap_or(most - least);
        let (first, last) = ((least / step).floor() as i64, (most / step).ceil() as i64);
        let (from, to) = (first as f64 * step, last as f64 * step);
        let labels = (first..=last).map(|number| number as f64 * step).map(|at| (at, label(at)));
        let mut labels: Vec<(f64, String)> = labels.collect();
        if labels.windows(2).any(|two| two[0].1 == two[1].1) {
            // So near to each other that they read the same: by how far they lie from the first.
            labels.iter_mut().skip(1).for_each(|(at, text)| *text = format!("+{}", label(*at - from)));
        }
        Self { name: String::new(), from, to, logarithmic: false, labels }
    }

    /// What it measures, written beside it, and whether it goes by powers of ten.
    pub fn named(self, name: &str) -> Self {
        let name = if self.logarithmic { format!("{name}, log") } else { name.into() };
        Self { name, ..self }
    }

    /// Durations.
    pub fn of_durations(ns: impl Iterator<Item = f64>) -> Self {
        Self::logarithmic(ns, short)
    }

    /// Durations from 0, or, where one is so much longer that the others would lie on the axis, by powers of ten.
    pub fn of_durations_by_spread(ns: impl Iterator<Item = f64> + Clone) -> Self {
        const WIDE: f64 = 20.0;
        let (least, most) = ns.clone().fold((f64::INFINITY, 0.0_f64), |(lo, hi), at| (lo.min(at), hi.max(at)));
        // What is no duration has no place among powers of ten.
        if least > 0.0 && most > WIDE * least { Self::of_durations(ns) } else { Self::from_0(ns, short) }
    }

    /// Its ends.
    pub(crate) fn ends(&self) -> [f64; 2] {
        [self.from, self.to]
    }

    /// True if it goes by powers of ten.
    pub(crate) fn is_logarithmic(&self) -> bool {
        self.logarithmic
    }

    /// From 0 at the axis' start to 1 at its end.
    pub(crate) fn share(&self, value: f64) -> f64 {
        if self.logarithmic {
            // What is no duration has no place on this axis: left of its start.
            return if value > 0.0 { (value / self.from).log10() / (self.to / self.from).log10() } else { -1.0 };
        }
        (value - self.from) / (self.to - self.from)
    }
}

/// A duration without a digit that says nothing.
pub fn short(ns: f64) -> String {
    if ns == 0.0 { "0".into() } else { duration(ns).replace(".0 ", " ") }
}

/// A power of ten in a few letters, however far from 1.
pub fn power_of_ten(value: f64) -> String {
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let power = value.log10().round() as i32;
    let places = power.unsigned_abs();
    if (-3..=4).contains(&power) {
        return format!("{value:.*}", if power < 0 { places as usize } else { 0 });
    }
    let digits = places.to_string();
    let raised: String = digits.chars().filter_map(|digit| digit.to_digit(10)).map(|of| RAISED[of as usize]).collect();
    format!("10{}{raised}", if power < 0 { "⁻" } else { "" })
}

/// A figure being drawn, in pixels from its left upper corner.
pub struct Figure {
    width: f64,
    height: f64,
    margin: Margin,
    x: Axis,
    y: Option<Axis>,
    /// Height of a row, and the part of it that the name above the row takes, pixels.
    rows: [f64; 2],
    inside: String,
    around: String,
}

/// Room for labels.
#[derive(Clone, Copy, Debug)]
struct Margin {
    left: f64,
    top: f64,
    bottom: f64,
}

/// How wide the place of a figure of rows is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// Names stand left of their rows.
    Wide,
    /// Names stand above their rows.
    Narrow,
}

const RIGHT: f64 = 24.0;
const NAME_HEIGHT: f64 = 16.0;
/// From an axis down to the feet of its labels: clear of the lowest label beside the other axis.
const LABEL_BELOW: f64 = 19.0;
/// Width reserved for each letter of a label, pixels; a little more than the average letter takes.
const LETTER: f64 = 7.0;

impl Figure {
    /// Points on two axes; about as wide as it is shown, so that its letters are as large as they are meant to be.
    pub fn plane(x: Axis, y: Axis) -> Self {
        let margin = Margin { left: 62.0, top: 24.0, bottom: 27.0 + NAME_HEIGHT };
        let mut figure = Self::empty(340.0, 223.0, margin, x, Some(y));
        figure.lines();
        figure
    }

    /// The same as wide as a page, or as a narrow one.
    pub fn plane_in(room: Room, x: Axis, y: Axis) -> Self {
        if room == Room::Narrow {
            return Self::plane(x, y);
        }
        let margin = Margin { left: 72.0, top: 24.0, bottom: 27.0 + NAME_HEIGHT };
        let mut figure = Self::empty(860.0, 203.0, margin, x, Some(y));
        figure.lines();
        figure
    }

    /// Rows with names, each a few pixels high, beside one axis.
    pub fn rows(x: Axis, names: &[String], row_height: f64, room: Room) -> Self {
        let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0) as f64 * LETTER;
        let (width, left, above) = match room {
            Room::Wide => (860.0, (longest + 12.0).clamp(190.0, 400.0), 0.0),
            Room::Narrow => (340.0, 24.0, NAME_HEIGHT),
        };
        let letters = if room == Room::Wide { left - 12.0 } else { width } / LETTER;
        let margin = Margin { left, top: 6.0, bottom: 27.0 + NAME_HEIGHT };
        let pitch = row_height + above;
        let height = margin.top + names.len() as f64 * pitch + margin.bottom;
        let mut figure = Self { rows: [pitch, above], ..Self::empty(width, height, margin, x, None) };
        figure.lines();
        for (number, name) in names.iter().enumerate() {
            let name = &shortened(name, letters as usize);
            let top = margin.top + number as f64 * pitch;
            match room {
                Room::Wide => figure.label(left - 8.0, top + row_height / 2.0 + 4.0, "end", name),
                Room::Narrow => figure.label(0.0, top + above - 2.0, "start", name),
            }
        }
        figure
    }

    /// A sample of each ink beside what it stands for.
    pub fn legend(names: &[String]) -> Self {
        const PITCH: f64 = 18.0;
        const SAMPLE: f64 = 26.0;
        let margin = Margin { left: 62.0, top: 0.0, bottom: 0.0 };
        let axis = Axis::of_names(&[]);
        let mut figure = Self::empty(860.0, names.len() as f64 * PITCH, margin, axis, None);
        for (number, name) in names.iter().enumerate() {
            let (x, y, ink) = (margin.left, (number as f64 + 0.5) * PITCH, Ink::of(number).style());
            let _ = write!(
                figure.inside,
                "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" style=\"{ink}\" stroke-width=\"2\"/>",
                x + SAMPLE
            );
            figure.label(x + SAMPLE + 8.0, y + 4.0, "start", name);
        }
        figure
    }

    fn empty(width: f64, height: f64, margin: Margin, x: Axis, y: Option<Axis>) -> Self {
        Self { width, height, margin, x, y, rows: [0.0; 2], inside: String::new(), around: String::new() }
    }

    fn lines(&mut self) {
        let (left, bottom, right) = (self.margin.left, self.height - self.margin.bottom, self.width - RIGHT);
        let every = self.every();
        for (number, (at, label)) in self.x.labels.clone().into_iter().enumerate() {
            let x = self.place_x(at);
            self.rule([x, self.margin.top], [x, bottom]);
            if number % every == 0 {
                self.label(x, bottom + LABEL_BELOW, "middle", &label);
            }
        }
        let labels = self.y.as_ref().map(|axis| axis.labels.clone()).unwrap_or_default();
        for (at, label) in labels {
            let y = self.place_y(at);
            self.rule([left, y], [right, y]);
            self.label(left - 6.0, y + 4.0, "end", &label);
        }
        let name = self.x.name.clone();
        self.label(f64::midpoint(left, right), bottom + LABEL_BELOW + NAME_HEIGHT, "middle", &name);
        let name = self.y.as_ref().map(|axis| axis.name.clone()).unwrap_or_default();
        self.label(0.0, 12.0, "start", &name);
    }

    /// Which labels of the horizontal axis are drawn so that they do not overlap: every n-th.
    fn every(&self) -> usize {
        let pixels = |label: &(f64, String)| (label.1.chars().count() + 1) as f64 * LETTER;
        let needed = self.x.labels.iter().map(pixels).fold(0.0, f64::max);
        let apart = self.x.labels.windows(2).map(|pair| self.place_x(pair[1].0) - self.place_x(pair[0].0));
        let apart = apart.fold(f64::INFINITY, f64::min);
        (needed / apart).ceil().max(1.0) as usize
    }

    /// Where on the figure a value of the horizontal axis lies.
    fn place_x(&self, value: f64) -> f64 {
        self.margin.left + self.x.share(value) * (self.width - RIGHT - self.margin.left)
    }

    fn place_y(&self, value: f64) -> f64 {
        let bottom = self.height - self.margin.bottom;
        bottom - self.y.as_ref().map_or(0.0, |axis| axis.share(value)) * (bottom - self.margin.top)
    }

    fn rule(&mut self, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) {
        // Writing to a String cannot fail.
        let _ = write!(
            self.around,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" style=\"stroke:var(--rule)\"/>"
        );
    }

    fn label(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        let _ = write!(
            self.around,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" \
             style=\"fill:var(--muted);font-size:12px\">{}</text>",
            Text(text)
        );
    }

    /// A bar on a row from one value to another, and a dot at a third; `shift` pixels below the row's middle.
    pub fn range(&mut self, ends: [f64; 2], dot: f64, row: Row, ink: Ink) {
        let y = self.middle(row);
        let [x1, x2, at] = [ends[0], ends[1], dot].map(|value| self.place_x(value));
        let _ = write!(
            self.inside,
            "<g style=\"{}\"><line x1=\"{x1:.1}\" y1=\"{y:.1}\" x2=\"{x2:.1}\" y2=\"{y:.1}\" \
             stroke-width=\"2\"/><circle cx=\"{at:.1}\" cy=\"{y:.1}\" r=\"3.2\"/></g>",
            ink.style()
        );
    }

    /// A filled bar on a row from one value to another, so many pixels high.
    pub fn bar(&mut self, ends: [f64; 2], pixels: f64, row: Row, ink: Ink) {
        let y = self.middle(row) - pixels / 2.0;
        let [x1, x2] = ends.map(|value| self.place_x(value));
        let _ = write!(
            self.inside,
            "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{pixels:.1}\" fill-opacity=\"0.55\" \
             style=\"{}\"/>",
            x1.min(x2),
            (x2 - x1).abs(),
            ink.style()
        );
    }

    /// A short upright on a row, so many pixels high.
    pub fn notch(&mut self, x: f64, pixels: f64, row: Row, ink: Ink) {
        let (x, y) = (self.place_x(x), self.middle(row));
        let _ = write!(
            self.inside,
            "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\" style=\"{}\" stroke-width=\"2\"/>",
            y - pixels / 2.0,
            y + pixels / 2.0,
            ink.style()
        );
    }

    /// Circles on a row.
    pub fn circles(&mut self, values: &[f64], row: Row, ink: Ink) {
        let y = self.middle(row);
        let at = |value: &f64| format!("<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"2\"/>", self.place_x(*value));
        let all: String = values.iter().map(at).collect();
        let _ = write!(self.inside, "<g style=\"{};fill:none\">{all}</g>", ink.style());
    }

    /// Dots at points.
    pub fn dots(&mut self, points: &[[f64; 2]], ink: Ink) {
        let at = |&[x, y]: &[f64; 2]| {
            format!("<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"1.8\"/>", self.place_x(x), self.place_y(y))
        };
        let all: String = points.iter().map(at).collect();
        let _ = write!(self.inside, "<g style=\"{}\" fill-opacity=\"0.6\" stroke=\"none\">{all}</g>", ink.style());
    }

    /// A few words at the end of a row.
    pub fn words(&mut self, x: f64, row: Row, text: &str) {
        let (x, y) = (self.place_x(x) + 6.0, self.middle(row) + 4.0);
        self.label(x, y, "start", text);
    }

    fn middle(&self, row: Row) -> f64 {
        let [pitch, above] = self.rows;
        self.margin.top + row.number as f64 * pitch + f64::midpoint(pitch, above) + row.shift
    }

    /// An upright through the whole figure where something happens, dashed where it ends.
    pub fn mark(&mut self, x: f64, end: bool) {
        let (x, bottom, top) = (self.place_x(x), self.height - self.margin.bottom, self.margin.top);
        let dashes = if end { ";stroke-dasharray:2 3" } else { "" };
        let _ = write!(
            self.inside,
            "<line class=\"mark\" x1=\"{x:.1}\" y1=\"{top:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" \
             style=\"stroke:var(--muted){dashes}\" stroke-width=\"1.3\"/>"
        );
    }

    /// Everything from one value to another of the upright axis, behind what is drawn afterwards.
    pub fn band(&mut self, ends: [f64; 2]) {
        let [y1, y2] = ends.map(|end| self.place_y(end));
        let (left, width) = (self.margin.left, self.width - RIGHT - self.margin.left);
        let _ = write!(
            self.inside,
            "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\" style=\"fill:var(--soft)\"/>",
            y1.min(y2),
            (y1 - y2).abs()
        );
    }

    /// What lies between two lines, behind what is drawn afterwards.
    pub fn between(&mut self, lower: &[[f64; 2]], upper: &[[f64; 2]]) {
        let at = |&[x, y]: &[f64; 2]| format!("{:.1},{:.1}", self.place_x(x), self.place_y(y));
        let path: Vec<String> = lower.iter().chain(upper.iter().rev()).map(at).collect();
        let _ = write!(self.inside, "<polygon points=\"{}\" style=\"fill:var(--soft)\"/>", path.join(" "));
    }

    /// What lies between two lines, with its edge.
    pub fn ribbon(&mut self, lower: &[[f64; 2]], upper: &[[f64; 2]], ink: Ink) {
        let at = |&[x, y]: &[f64; 2]| format!("{:.1},{:.1}", self.place_x(x), self.place_y(y));
        let path: Vec<String> = lower.iter().chain(upper.iter().rev()).map(at).collect();
        let _ = write!(
            self.inside,
            "<polygon points=\"{}\" fill-opacity=\"0.25\" style=\"{}\"/>",
            path.join(" "),
            ink.style()
        );
    }

    /// Heights on a row, up from its foot: the highest of `points` is so many pixels high if it is `most`.
    pub fn profile(&mut self, points: &[[f64; 2]], (most, pixels): (f64, f64), row: Row, ink: Ink) {
        let foot = self.middle(row) + pixels / 2.0;
        let at = |&[x, y]: &[f64; 2]| format!("{:.1},{:.1}", self.place_x(x), foot - y / most * pixels);
        let ends = [points.first(), points.last()].map(|end| end.map(|end| self.place_x(end[0])));
        let [Some(first), Some(last)] = ends else { return };
        let path: Vec<String> = points.iter().map(at).collect();
        let _ = write!(
            self.inside,
            "<polygon points=\"{first:.1},{foot:.1} {} {last:.1},{foot:.1}\" fill-opacity=\"0.55\" style=\"{}\"/>",
            path.join(" "),
            ink.style()
        );
    }

    /// A line through points, a dot at each.
    pub fn line(&mut self, points: &[[f64; 2]], ink: Ink) {
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

    /// A line through points that are too many for dots.
    pub fn curve(&mut self, points: &[[f64; 2]], ink: Ink) {
        let at = |&[x, y]: &[f64; 2]| format!("{:.1},{:.1}", self.place_x(x), self.place_y(y));
        let path: Vec<String> = points.iter().map(at).collect();
        let _ = write!(
            self.inside,
            "<g style=\"{}\"><polyline points=\"{}\" style=\"fill:none\" stroke-width=\"1.4\"/></g>",
            ink.style(),
            path.join(" ")
        );
    }

    /// An upright bar, so many pixels wide.
    pub fn upright(&mut self, x: f64, ends: [f64; 2], pixels: f64, ink: Ink) {
        let (x, [y1, y2]) = (self.place_x(x), ends.map(|end| self.place_y(end)));
        let _ = write!(
            self.inside,
            "<line x1=\"{x:.1}\" y1=\"{y1:.1}\" x2=\"{x:.1}\" y2=\"{y2:.1}\" style=\"{}\" stroke-width=\"{pixels}\"/>",
            ink.style()
        );
    }

    /// Pixels from left to right, and from top to bottom.
    pub(crate) fn size(&self) -> [f64; 2] {
        [self.width, self.height]
    }

    /// The figure in a document; `words` say what it shows.
    pub fn block(self, words: &str) -> Block {
        Block::Figure(self.svg(words))
    }

    /// The figure; `words` say what it shows.
    pub(crate) fn svg(self, words: &str) -> String {
        let Self { width, height, margin, inside, around, .. } = self;
        let (inner_width, inner_height) = (width - margin.left + 4.0, height - margin.bottom);
        format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\" \
             style=\"max-width:{width}px;width:100%\">{around}<svg x=\"{}\" y=\"0\" width=\"{inner_width}\" \
             height=\"{inner_height}\" viewBox=\"{} 0 {inner_width} {inner_height}\">{inside}</svg></svg>",
            Text(words),
            margin.left - 4.0,
            margin.left - 4.0
        )
    }
}

/// A name of at most so many letters: its beginning and its end.
pub(crate) fn shortened(name: &str, most: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= most {
        return name.into();
    }
    let (first, last) = (most.saturating_sub(1).div_ceil(2), most.saturating_sub(1) / 2);
    letters[..first].iter().chain(&['\u{2026}']).chain(&letters[letters.len() - last..]).collect()
}

/// Where a range is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Which row.
    pub number: usize,
    /// Pixels below its middle.
    pub shift: f64,
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
    fn an_axis_around_values_holds_them_all_between_round_steps_below_0_too() {
        let axis = Axis::around([-13.0, 42.0].into_iter(), |at| format!("{at:.0}"));
        let labels: Vec<&str> = axis.labels.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!((axis.from, axis.to, labels), (-20.0, 60.0, vec!["-20", "0", "20", "40", "60"]));
        assert_eq!(Axis::around([0.0, 0.0].into_iter(), |_| String::new()).to, 1.0);
    }

    #[test]
    fn an_axis_of_one_value_has_it_in_its_middle_and_labels_that_read_alike_say_how_far_they_are_from_the_first() {
        let axis = Axis::around([3_000.0, 3_000.0].into_iter(), short);
        assert!(axis.from < 3_000.0 && (axis.share(3_000.0) - 0.5).abs() < 0.1, "{axis:?}");
        let axis = Axis::around([2_300.0, 2_310.0].into_iter(), short);
        let labels: Vec<&str> = axis.labels.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(labels, ["2.3 us", "+2 ns", "+4 ns", "+6 ns", "+8 ns", "+10 ns"]);
    }

    #[test]
    fn a_value_is_drawn_where_it_is_also_beyond_the_axis() {
        let axis = |most: f64| Axis::from_0([most].into_iter(), |at| at.to_string());
        let mut figure = Figure::plane(axis(200.0), axis(100.0));
        let half = [figure.place_x(100.0), figure.place_y(50.0)];
        assert_eq!(half, [(62.0 + 340.0 - RIGHT) / 2.0, (24.0 + 223.0 - 27.0 - NAME_HEIGHT) / 2.0]);
        figure.line(&[[100.0, 50.0], [200.0, 150.0]], Ink::of(0));
        assert!(figure.place_y(150.0) < 0.0 && figure.svg("a & b").contains("a &amp; b"));
    }

    #[test]
    fn a_power_of_ten_has_few_letters_however_far_from_1_it_is() {
        let labels = [1e-12, 1e-8 * 100.0, 1e-5 * 100.0, 1.0, 10_000.0, 1e5, 1e10].map(power_of_ten);
        assert_eq!(labels, ["10⁻¹²", "10⁻⁶", "0.001", "1", "10000", "10⁵", "10¹⁰"]);
    }

    #[test]
    fn labels_that_have_no_room_are_left_out_evenly() {
        let figure = |powers: i32| {
            let ends = [1.0, 10_f64.powi(powers)];
            Figure::plane(Axis::of_durations(ends.into_iter()), Axis::from_0([1.0].into_iter(), short))
        };
        assert_eq!((figure(3).every(), figure(7).every()), (1, 2));
        let drawn = figure(7).svg("");
        assert!(drawn.contains(">10 us<") && !drawn.contains(">1 us<") && drawn.contains(">1 ms<"), "{drawn}");
    }

    #[test]
    fn a_long_name_takes_the_room_it_needs_and_a_longer_one_is_shortened_in_its_middle() {
        let axis = || Axis::of_durations([1.0, 100.0].into_iter());
        let name = "server.received>server.acknowledged".to_string();
        let figure = Figure::rows(axis(), std::slice::from_ref(&name), 20.0, Room::Wide);
        assert!(figure.margin.left > 250.0 && figure.svg("").contains("server.received&gt;server.acknowledged"));
        let name = "a".repeat(60) + &"b".repeat(60);
        let figure = Figure::rows(axis(), std::slice::from_ref(&name), 20.0, Room::Wide);
        let drawn = (figure.margin.left, figure.svg(""));
        assert!(drawn.0 == 400.0 && drawn.1.contains("aaa\u{2026}bbb") && !drawn.1.contains(&"a".repeat(30)));
        assert_eq!((shortened("abcdef", 6), shortened("abcdef", 4)), ("abcdef".into(), "ab\u{2026}f".into()));
    }

    #[test]
    fn durations_far_apart_are_drawn_by_powers_of_ten() {
        let axis = |most: f64| Axis::of_durations_by_spread([30.0, most].into_iter());
        assert!(!axis(600.0).logarithmic && axis(601.0).logarithmic);
        assert!(!Axis::of_durations_by_spread([-30.0, 30.0, 601.0].into_iter()).logarithmic);
    }

    #[test]
    fn a_row_has_its_name_beside_it_or_above_it_and_its_bar_never_on_the_name() {
        let names = ["one".to_string(), "two".to_string()];
        let drawn = |room| {
            let mut figure = Figure::rows(Axis::of_durations([1.0, 100.0].into_iter()), &names, 20.0, room);
            figure.range([1.0, 10.0], 10.0, Row { number: 1, shift: 0.0 }, Ink::of(0));
            figure.svg("")
        };
        let (wide, narrow) = (drawn(Room::Wide), drawn(Room::Narrow));
        assert!(wide.contains("cy=\"36.0\"") && wide.contains("y=\"40.0\" text-anchor=\"end\""), "{wide}");
        assert!(narrow.contains("cy=\"68.0\"") && narrow.contains("y=\"56.0\" text-anchor=\"start\""), "{narrow}");
    }
}
