//! The figure of a sweep: the first parameter from left to right, a measure upwards, a line for each value of the
//! others.
//!
//! Guarantees: each point with a figure is drawn once, with its interval; what is left out is told. Deliberately
//! absent: anything between two points but a straight line.

use tickscope_analysis::{PrintedNumber, SweepFigure, SweepPoint, SweepTable};
use tickscope_store::ParameterValue;

use super::{as_printed, field_name, keys_left_out, measured, name, real};
use crate::drawn_figure::DrawnFigure;
use crate::plot::{Axis, Figure, Ink, power_of_ten};
use crate::quantity::counted;

/// Lines of a figure, each of an ink of its own.
const MOST_SERIES: usize = 6;
/// From this factor between the ends on, an axis goes by powers of ten.
const WIDE: f64 = 20.0;

/// The figure; `None`: no point has one.
pub fn sweep_figure(table: &SweepTable) -> Option<DrawnFigure> {
    let hertz = table.hertz?;
    let plot = Plot { table, hertz, series: series(table) };
    let measures = (0..table.measures.len()).filter_map(|measure| plot.of_measure(measure));
    let fields = (0..table.fields.len()).filter_map(|field| plot.of_field(field));
    let mut drawings: Vec<Figure> = measures.chain(fields).collect();
    if drawings.is_empty() {
        return None;
    }
    if table.parameters.len() > 1 {
        drawings.insert(0, Figure::legend(&plot.names()));
    }
    let title = format!("{}: over {}", table.name, table.parameters.first()?);
    Some(DrawnFigure::of("sweep", title, plot.caption(), drawings))
}

/// Values of all parameters but the first, in the order of the run file.
fn series(table: &SweepTable) -> Vec<&[ParameterValue]> {
    let mut series: Vec<&[ParameterValue]> = Vec::new();
    for point in &table.points {
        if !series.contains(&&point.values[1..]) {
            series.push(&point.values[1..]);
        }
    }
    series
}

struct Plot<'a> {
    table: &'a SweepTable,
    hertz: u64,
    series: Vec<&'a [ParameterValue]>,
}

impl Plot<'_> {
    fn names(&self) -> Vec<String> {
        let name = |values: &&[ParameterValue]| {
            let pairs = self.table.parameters[1..].iter().zip(*values);
            pairs.map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ")
        };
        self.series.iter().take(MOST_SERIES).map(name).collect()
    }

    fn ns(&self, ticks: i64) -> f64 {
        ticks as f64 * 1e9 / self.hertz.max(1) as f64
    }

    /// One measure; `None`: no point has it.
    fn of_measure(&self, measure: usize) -> Option<Figure> {
        let axis = |all: Vec<f64>| Axis::of_durations_by_spread(all.into_iter());
        let ends = |point: &SweepPoint| point.figures[measure].map(|found| self.ends(&found));
        self.plane(&name(&self.table.measures, measure), axis, ends)
    }

    /// One number of programs; `None`: no point has it.
    fn of_field(&self, field: usize) -> Option<Figure> {
        let ends = |point: &SweepPoint| {
            point.numbers[field].map(|found| [found.lo, found.value, found.hi].map(PrintedNumber::near))
        };
        self.plane(&field_name(&self.table.fields[field]), of_numbers, ends)
    }

    /// A panel of what `ends` finds of points: lower end, figure, upper end.
    fn plane(
        &self,
        name: &str,
        axis: impl Fn(Vec<f64>) -> Axis,
        ends: impl Fn(&SweepPoint) -> Option<[f64; 3]>,
    ) -> Option<Figure> {
        let shown = &self.series[..self.series.len().min(MOST_SERIES)];
        let is_shown = |point: &&SweepPoint| shown.contains(&&point.values[1..]);
        let all: Vec<f64> = self.table.points.iter().filter(is_shown).filter_map(&ends).flatten().collect();
        if all.is_empty() {
            return None;
        }
        let y = axis(all).named(name);
        let (x, is_number) = self.axis();
        let mut figure = Figure::plane(x, y);
        for (number, values) in shown.iter().enumerate() {
            let ink = Ink::of(number);
            let of_series = self.table.points.iter().filter(|point| point.values[1..] == **values);
            let found = of_series.filter_map(|point| Some((self.place(&point.values[0])?, ends(point)?)));
            let mut found: Vec<(f64, [f64; 3])> = found.collect();
            found.sort_by(|(one, _), (other, _)| one.total_cmp(other));
            for (x, [lo, _, hi]) in &found {
                figure.upright(*x, [*lo, *hi], 1.4, ink);
            }
            let points: Vec<[f64; 2]> = found.iter().map(|(x, [_, middle, _])| [*x, *middle]).collect();
            match is_number {
                true => figure.line(&points, ink),
                false => points.iter().for_each(|point| figure.line(&[*point], ink)),
            }
        }
        Some(figure)
    }

    /// The lower end, the figure and the upper end; an end that nothing bounds is the figure.
    fn ends(&self, found: &SweepFigure) -> [f64; 3] {
        [found.lo_ticks, Some(found.ticks), found.hi_ticks].map(|end| self.ns(end.unwrap_or(found.ticks)))
    }

    /// Values of the first parameter, once each.
    fn firsts(&self) -> Vec<&ParameterValue> {
        let mut firsts: Vec<&ParameterValue> = Vec::new();
        for point in &self.table.points {
            if !firsts.contains(&&point.values[0]) {
                firsts.push(&point.values[0]);
            }
        }
        firsts
    }

    /// From left to right, and whether that is a scale.
    fn axis(&self) -> (Axis, bool) {
        let (firsts, name) = (self.firsts(), &self.table.parameters[0]);
        let numbers: Option<Vec<f64>> = firsts.iter().map(|value| value.number()).collect();
        let Some(numbers) = numbers.filter(|numbers| numbers.len() > 1) else {
            let names: Vec<String> = firsts.iter().map(ToString::to_string).collect();
            return (Axis::of_names(&names).named(name), false);
        };
        let (least, most) = numbers.iter().fold((f64::INFINITY, 0.0_f64), |(lo, hi), &at| (lo.min(at), hi.max(at)));
        let axis = match least > 0.0 && most >= WIDE * least {
            true => Axis::logarithmic(numbers.into_iter(), power_of_ten),
            false => Axis::around(numbers.into_iter(), |at| format!("{at}")),
        };
        (axis.named(name), true)
    }

    /// Where a value of the first parameter lies on its axis.
    fn place(&self, value: &ParameterValue) -> Option<f64> {
        let firsts = self.firsts();
        match firsts.len() > 1 && firsts.iter().all(|value| value.number().is_some()) {
            true => value.number(),
            false => firsts.iter().position(|known| *known == value).map(|at| at as f64),
        }
    }

    fn caption(&self) -> String {
        let SweepTable { measures, fields, points, trials, .. } = self.table;
        let made = trials.iter().filter(|trial| trial.is_counted()).count();
        let is_without = |point: &&SweepPoint| {
            point.figures.iter().any(Option::is_none) || point.numbers.iter().any(Option::is_none)
        };
        let without = points.iter().filter(is_without).count();
        let without = match without {
            0 => String::new(),
            some => format!(" {} without a figure.", counted(some, "point")),
        };
        let more = match self.series.len() {
            ..=MOST_SERIES => String::new(),
            all => format!(" The first {MOST_SERIES} lines of {all} are drawn."),
        };
        let open = points.iter().flat_map(|point| &point.figures).flatten();
        let open = open.filter(|found| found.lo_ticks.is_none() || found.hi_ticks.is_none()).count();
        let open = match open {
            0 => String::new(),
            some => format!(" {} without an end that is drawn at the median.", counted(some, "interval")),
        };
        let of = [measured(measures), as_printed(fields)];
        let of: Vec<&str> = of.iter().filter(|text| !text.is_empty()).map(|text| text.trim_end_matches('.')).collect();
        format!(
            "{}. Dots: the median of a point's repetitions; uprights: the interval of the median of all that could be \
             made, with the clocks' bounds; lines lead the eye. {made} of {} are in it.{without}{open}{more}{}",
            of.join(". "),
            counted(trials.len(), "trial"),
            keys_left_out(self.table).into_iter().map(|remark| format!(" {remark}")).collect::<String>()
        )
    }
}

/// From 0, unless some are negative, or by powers of ten where they differ so much.
fn of_numbers(all: Vec<f64>) -> Axis {
    let (least, most) = all.iter().fold((f64::INFINITY, 0.0_f64), |(lo, hi), &at| (lo.min(at), hi.max(at)));
    match least {
        ..0.0 => Axis::around(all.into_iter(), real),
        _ if least > 0.0 && most >= WIDE * least => Axis::logarithmic(all.into_iter(), power_of_ten),
        _ => Axis::from_0(all.into_iter(), real),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{rates, table};
    use super::*;

    fn drawn(table: &SweepTable) -> String {
        let figure = sweep_figure(table).unwrap();
        assert!(figure.pdf().unwrap().starts_with(b"%PDF-"));
        figure.svg()
    }

    fn circles(svg: &str) -> Vec<[&str; 2]> {
        let value = |text: &'_ str| text.split('"').next().map(str::len).unwrap();
        let of = |circle| {
            let (x, rest): (&str, &str) = str::split_once(circle, "\" cy=\"").unwrap();
            [x, &rest[..value(rest)]]
        };
        svg.split("<circle cx=\"").skip(1).map(of).collect()
    }

    #[test]
    fn each_point_with_a_figure_is_drawn_once_with_its_interval_and_a_line_a_series() {
        let svg = drawn(&table(rates()));
        let mut points = circles(&svg);
        points.sort_unstable();
        points.dedup();
        assert_eq!((circles(&svg).len(), points.len()), (10, 10), "five of six points have each figure: {svg}");
        assert_eq!(svg.matches("stroke-width=\"1.4\"").count(), 10, "an upright each");
        assert_eq!(svg.matches("<polyline").count(), 4);
        assert!(svg.contains("drops, of &lt;data&gt;") && svg.contains("tickscope does not bound"), "{svg}");
        assert!(svg.contains("wait = &lt;busy&gt;") && svg.contains("2\u{a0}points without a figure"), "{svg}");
    }

    #[test]
    fn values_that_are_no_numbers_have_a_place_each_and_no_line_between_them() {
        let names = ["a", "b", "c"].map(|name| ParameterValue::Text(name.into()));
        let svg = drawn(&table(names));
        assert_eq!((circles(&svg).len(), svg.matches("<polyline").count()), (10, 10));
        let mut columns: Vec<&str> = circles(&svg).iter().map(|[x, _]| *x).collect();
        columns.sort_unstable();
        columns.dedup();
        assert!(columns.len() == 3 && svg.contains(">b<"), "{svg}");
    }

    #[test]
    fn more_lines_than_there_are_inks_are_told_and_a_sweep_of_nothing_has_no_figure() {
        let mut many = table(rates());
        for (at, point) in many.points.iter_mut().enumerate() {
            (point.values[1], point.figures) = (ParameterValue::Integer(at as i64), many_figures());
            point.numbers = vec![None];
        }
        let values = [1, 9].map(ParameterValue::Integer).into();
        many.points.push(SweepPoint { values, ..many.points[0].clone() });
        assert_eq!(circles(&drawn(&many)).len(), MOST_SERIES);
        assert!(drawn(&many).contains("first 6 lines of 7"));
        many.hertz = None;
        assert!(sweep_figure(&many).is_none());
    }

    fn many_figures() -> Vec<Option<SweepFigure>> {
        table(rates()).points[0].figures.clone()
    }
}
