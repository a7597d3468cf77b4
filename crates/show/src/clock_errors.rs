//! Figures of how well each method knows a clock, over the run: its interval as the method has it, its true error where
//! that is known, and the bounds of all nodes.
//!
//! Guarantees: each method has a figure of its own, and no two lines of one figure look alike; of a piece of time the
//! outermost ends and the greatest error are drawn. Deliberately absent: the table of the same ([`crate::rivals`]).

use tickscope_rivals::{NodeRivals, RivalMethod};

use crate::document::Block;
use crate::drawn_figure::DrawnFigure;
use crate::plot::{Axis, Figure, Ink, Room, Row, short};
use crate::rivals::{MOST_WITH_FIGURES, TimeUnit, chosen, us};

/// Lines of one figure, each of which looks different from the others.
const MOST_LINES: usize = 6;

/// A line: its name, and its time and height, ns.
type Line<'a> = (String, &'a [[i64; 2]]);

/// The figures of a run as files, and why one is missing.
pub fn clock_figures(all: &[NodeRivals]) -> (Vec<DrawnFigure>, Vec<String>) {
    if all.is_empty() {
        return (Vec::new(), vec!["no figure of clocks: the run relates no two counters by a clock map".into()]);
    }
    let shown: Vec<&NodeRivals> = chosen(all).into_iter().take(MOST_WITH_FIGURES).collect();
    let of_how_many = match all.len() - shown.len() {
        0 => String::new(),
        more => format!(" {MOST_WITH_FIGURES} pairs of {}.", more + MOST_WITH_FIGURES),
    };
    let intervals: Vec<Figure> = shown.iter().flat_map(|node| intervals(node, Room::Wide)).map(|(_, of)| of).collect();
    let errors: Vec<Figure> = shown.iter().flat_map(|node| errors(node, Room::Wide)).collect();
    let caption = format!("{INTERVALS}{of_how_many}");
    let mut figures = vec![DrawnFigure::of("clock-intervals", "Clock errors, by method".into(), caption, intervals)];
    let mut missing = Vec::new();
    match errors.is_empty() {
        true => missing.push("no true errors of clocks: the truth is known of nodes of one host alone".into()),
        false => {
            let caption = format!("{ERRORS}{of_how_many}");
            figures.push(DrawnFigure::of("clock-errors", "True errors of clocks".into(), caption, errors));
        }
    }
    let bounds = bounds(all, Room::Wide);
    let title = "Bounds of all nodes".into();
    figures.push(DrawnFigure::of("clock-bounds", title, BOUNDS.into(), bounds.into_iter().collect()));
    (figures, missing)
}

pub(crate) const INTERVALS: &str = "Each method's interval over time, signed, as the method has it: around 0; of a \
                                    program around the offset that it states; of T3 - T1 from 0 to the round trip of \
                                    the acknowledgement. Beyond the dashed line at 0 it claims an offset.";
const ERRORS: &str = "How far each method's value is from the truth, the greatest error of each piece of time; errors \
                      of 0 have no place among powers of ten.";
const BOUNDS: &str = "Half the width of our interval for every pair at exchanges of its own, one below the other; the \
                      same axis for all.";

/// A figure for each method of a node, with the method's name.
fn intervals(node: &NodeRivals, room: Room) -> Vec<(&str, Figure)> {
    let drawn = node.methods.iter().filter(|method| method.band.len() > 1);
    drawn.map(|method| (method.name.as_str(), interval(node, method, room))).collect()
}

fn interval(node: &NodeRivals, method: &RivalMethod, room: Room) -> Figure {
    let (time, x) = time_axis(method.band.iter().map(|at| at[0]));
    let ends = method.band.iter().flat_map(|at| [at[1], at[2], 0]);
    let name = match room {
        Room::Wide => format!("{}: {} against {}", method.name, node.domain, node.reference),
        Room::Narrow => String::new(), // it stands above the figure
    };
    let y = Axis::around(ends.map(|ns| ns as f64), short).named(&name);
    let mut figure = Figure::plane_in(room, x, y);
    let side = |end: usize| method.band.iter().map(|at| [time(at[0]), at[end] as f64]).collect::<Vec<_>>();
    figure.ribbon(&side(1), &side(2), Ink::of(0));
    let ends = [0, method.band.len() - 1].map(|at| [time(method.band[at][0]), 0.0]);
    figure.curve(&ends, Ink::of(4));
    figure
}

/// The true errors of a node's methods.
fn errors(node: &NodeRivals, room: Room) -> Vec<Figure> {
    let title = format!("true error, {} against {}", node.domain, node.reference);
    lines_of(&error_lines(node), &title, room)
}

/// The true errors of a node that can be drawn; methods whose errors are the same are one line, which bears their
/// names.
fn error_lines(node: &NodeRivals) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for RivalMethod { name, errors, .. } in &node.methods {
        if errors.iter().filter(|at| at[1] > 0).count() < 2 {
            continue;
        }
        match lines.iter_mut().find(|(_, points)| *points == errors.as_slice()) {
            Some((names, _)) => *names = format!("{names}; {name}"),
            None => lines.push((name.clone(), errors)),
        }
    }
    lines
}

/// Lines on axes of their own, some a figure, under the names of their inks.
fn lines_of(lines: &[Line<'_>], title: &str, room: Room) -> Vec<Figure> {
    let figure = |lines: &[Line<'_>]| {
        let points = || lines.iter().flat_map(|(_, points)| points.iter());
        let (time, x) = time_axis(points().map(|at| at[0]));
        let mut figure = Figure::plane_in(room, x, Axis::of_durations(points().map(|at| at[1] as f64)).named(title));
        for (number, (_, points)) in lines.iter().enumerate() {
            let above_0 = points.iter().filter(|at| at[1] > 0); // what is 0 has no place among powers of ten
            let points: Vec<[f64; 2]> = above_0.map(|&[at, ns]| [time(at), ns as f64]).collect();
            figure.curve(&points, Ink::of(number));
        }
        figure
    };
    let names = |lines: &[Line<'_>]| lines.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let both = |some: &[Line<'_>]| [figure(some), Figure::legend(&names(some))];
    lines.chunks(MOST_LINES).flat_map(both).collect()
}

/// Our bounds of every pair, each pair a band of its own height.
fn bounds(all: &[NodeRivals], room: Room) -> Option<Figure> {
    let ours: Vec<(String, &RivalMethod)> = all
        .iter()
        .filter_map(|node| Some((format!("{} against {}", node.domain, node.reference), node.methods.first()?)))
        .filter(|(_, method)| method.curve.len() > 1)
        .collect();
    let most = ours.iter().flat_map(|(_, method)| method.curve.iter()).map(|at| at[1]).max()?;
    let (time, x) = time_axis(ours.iter().flat_map(|(_, method)| method.curve.iter().map(|at| at[0])));
    let names: Vec<String> = ours.iter().map(|(name, of)| format!("{name}: {}", widest(of))).collect();
    let mut figure = Figure::rows(x, &names, ROW, room);
    for (row, (_, method)) in ours.iter().enumerate() {
        let points = peaks(&method.curve, COLUMNS).map(|[at, ns]| [time(at), ns as f64]);
        let (points, row) = (points.collect::<Vec<_>>(), Row { number: row, shift: 0.0 });
        figure.profile(&points, (most as f64, ROW - 2.0), row, Ink::of(0));
    }
    Some(figure)
}

/// Pixels of a row.
const ROW: f64 = 22.0;
/// Points of a row.
const COLUMNS: usize = 67;

/// The highest of each piece of a curve, so many pieces at most.
pub(crate) fn peaks(points: &[[i64; 2]], most: usize) -> impl Iterator<Item = [i64; 2]> {
    let pieces = points.chunks(points.len().div_ceil(most).max(1));
    pieces.filter_map(|piece| piece.iter().copied().max_by_key(|at| at[1]))
}

/// Of what is drawn, rounded up.
fn widest(method: &RivalMethod) -> String {
    let most = method.curve.iter().map(|at| at[1]).max();
    most.map_or_else(String::new, |ns| format!("at most ±{} there", us(ns)))
}

/// The place of a time on an axis that has room for all, and the axis.
fn time_axis(ns: impl Iterator<Item = i64>) -> (impl Fn(i64) -> f64, Axis) {
    let (first, last) = ns.fold((0, 1), |(first, last), at| (first.min(at), last.max(at)));
    let TimeUnit { name, seconds } = TimeUnit::of(last);
    let time = move |ns: i64| ns as f64 / 1e9 / seconds;
    let axis = Axis::around([time(first), time(last)].into_iter(), |at| format!("{at} {name}"));
    (time, axis.named("since the first exchange"))
}

/// The figures of a node on a page.
pub(crate) fn of_node(node: &NodeRivals) -> Vec<Block> {
    let [wide, narrow] = [Room::Wide, Room::Narrow].map(|room| intervals(node, room));
    let both = wide.into_iter().zip(narrow).flat_map(|((name, wide), (_, narrow))| {
        let words = format!("The interval of {name} over the run, {} against {}.", node.domain, node.reference);
        [Block::heading(name), Block::WideOrNarrow([wide, narrow].map(|figure| figure.svg(&words)))]
    });
    let mut blocks: Vec<Block> = both.collect();
    let [wide, narrow] = [Room::Wide, Room::Narrow].map(|room| errors(node, room));
    let words = format!("True errors over the run, {} against {}.", node.domain, node.reference);
    let names: Vec<String> = error_lines(node).into_iter().map(|(name, _)| name).collect();
    let drawn = wide.into_iter().step_by(2).zip(narrow.into_iter().step_by(2));
    for ((wide, narrow), names) in drawn.zip(names.chunks(MOST_LINES)) {
        blocks.push(Block::heading("True error"));
        blocks.push(Block::WideOrNarrow([wide, narrow].map(|figure| figure.svg(&words))));
        blocks.push(Block::legend(names.iter().cloned()));
    }
    blocks
}

/// The bounds of all nodes on a page; nothing of one pair, which has a figure of its own.
pub(crate) fn of_all(all: &[NodeRivals]) -> Vec<Block> {
    let both = [Room::Wide, Room::Narrow].map(|room| bounds(all, room));
    let [Some(wide), Some(narrow)] = both else { return Vec::new() };
    if all.len() < 2 {
        return Vec::new();
    }
    let words = "Our bounds of all pairs over the run.";
    let figure = Block::WideOrNarrow([wide, narrow].map(|figure| figure.svg(words)));
    vec![Block::heading("Bounds of all pairs over time"), Block::note(BOUNDS), figure]
}

/// Two nodes without a method.
#[cfg(test)]
pub(crate) fn no_rivals() -> NodeRivals {
    NodeRivals {
        domain: "b.tsc".parse().unwrap(),
        reference: "a.tsc".parse().unwrap(),
        methods: Vec::new(),
        round_trips_ns: [None; 3],
        round_trips: Vec::new(),
        hertz: None,
        declared_hertz: 1_000_000_000,
        declared_tolerance_ppm: 0,
        declared_by: "made up".into(),
        published: None,
        acknowledged: None,
        refused: Vec::new(),
        curves_from: 0,
        fastest: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickscope_rivals::{RivalBound, RivalWidth};

    fn method(name: &str, half: i64) -> RivalMethod {
        let at = |step: i64| step * 1_000_000_000;
        RivalMethod {
            name: name.into(),
            bound: RivalBound::Guaranteed,
            samples: 3,
            not_yet: 0,
            half_width: Some(RivalWidth { least_ns: Some(half), median_ns: half, most_ns: half }),
            error_ns: Some([1, 1]),
            outside: Some(0),
            curve: (0..3).map(|step| [at(step), half]).collect(),
            band: (0..3).map(|step| [at(step), -half, half]).collect(),
            errors: (0..3).map(|step| [at(step), half / 2]).collect(),
        }
    }

    fn node(domain: &str, methods: usize) -> NodeRivals {
        NodeRivals {
            domain: domain.parse().unwrap(),
            methods: (1..=methods).map(|number| method(&format!("method {number}"), 1000 * number as i64)).collect(),
            ..no_rivals()
        }
    }

    #[test]
    fn every_method_has_a_figure_and_no_two_lines_of_one_figure_look_alike() {
        let node = node("b.tsc", 7);
        assert_eq!(intervals(&node, Room::Wide).len(), 7);
        let figures = errors(&node, Room::Wide);
        assert_eq!(figures.len(), 4, "six lines and one, a legend each");
        for figure in figures.into_iter().step_by(2) {
            let svg = figure.svg("lines");
            let of = |line: &str| line.split("\"><polyline").next().map(str::to_owned);
            let mut styles: Vec<String> = svg.split("<g style=\"").skip(1).filter_map(of).collect();
            let lines = styles.len();
            styles.sort_unstable();
            styles.dedup();
            assert!(lines > 0 && styles.len() == lines, "{styles:?}");
        }
    }

    #[test]
    fn the_highest_of_each_piece_of_a_curve_is_drawn_and_its_most_is_rounded_up() {
        let curve: Vec<[i64; 2]> = (0..7).map(|at| [at, if at == 4 { 1_938_001 } else { 10 - at }]).collect();
        let drawn: Vec<[i64; 2]> = peaks(&curve, 3).collect();
        assert_eq!(drawn, [[0, 10], [4, 1_938_001], [6, 4]]);
        let method = RivalMethod { curve, ..method("a", 1000) };
        assert_eq!(widest(&method), "at most ±1938.001 µs there");
        let named = RivalMethod { curve: vec![[0, 1_938_001], [1, 1]], ..method };
        assert!(widest(&named).contains("1938.001"));
    }

    #[test]
    fn methods_of_the_same_errors_are_one_line_under_both_names_and_one_without_errors_is_none() {
        let unknown = RivalMethod { errors: Vec::new(), ..method("c", 3000) };
        let methods = vec![method("a", 1000), method("b", 2000), method("b with rho", 2000), unknown];
        let node = NodeRivals { methods, ..self::node("b.tsc", 0) };
        let names: Vec<String> = error_lines(&node).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "b; b with rho"]);
        let legends = of_node(&node).into_iter().filter_map(|block| match block {
            Block::Legend(keys) => Some(keys.into_iter().map(|key| key.words).collect::<Vec<_>>()),
            _ => None,
        });
        assert_eq!(legends.collect::<Vec<_>>(), [names]);
    }

    #[test]
    fn a_signed_interval_lies_on_both_sides_of_0_and_a_bound_has_its_height_in_the_row() {
        let node = node("b.tsc", 1);
        let (_, figure) = intervals(&node, Room::Wide).remove(0);
        let svg = figure.svg("interval");
        let points = |svg: &str, element: &str| {
            let text =
                svg.split_once(&format!("<{element} points=\"")).unwrap().1.split('"').next().unwrap().to_owned();
            let at = |pair: &str| pair.split_once(',').map(|(_, y)| y.parse::<f64>().unwrap());
            text.split(' ').filter_map(at).collect::<Vec<f64>>()
        };
        let (band, zero) = (points(&svg, "polygon"), points(&svg, "polyline"));
        let (least, most) = band.iter().fold((f64::MAX, f64::MIN), |(lo, hi), &y| (lo.min(y), hi.max(y)));
        assert!((f64::midpoint(least, most) - zero[0]).abs() < 0.11 && most - least > 50.0, "{band:?} {zero:?}");
        // Two pairs, the second half as wide: half as high on the same axis.
        let all = [node, NodeRivals { methods: vec![method("ours", 500)], ..self::node("c.tsc", 0) }];
        let svg = bounds(&all, Room::Wide).unwrap().svg("bounds");
        let heights: Vec<f64> = svg
            .split("<polygon points=\"")
            .skip(1)
            .map(|of| {
                let ys = points(&format!("<polygon points=\"{of}"), "polygon");
                ys.iter().fold(f64::MIN, |most, &y| most.max(y)) - ys.iter().fold(f64::MAX, |least, &y| least.min(y))
            })
            .collect();
        assert!(heights.len() == 2 && (heights[0] - 2.0 * heights[1]).abs() < 0.21, "{heights:?}");
    }

    #[test]
    fn a_run_without_clock_maps_has_the_reason_and_no_figure() {
        let (figures, missing) = clock_figures(&[]);
        assert!(figures.is_empty() && missing[0].contains("relates no two counters"));
        let (figures, missing) = clock_figures(&[node("b.tsc", 2)]);
        let names: Vec<&str> = figures.iter().map(|figure| figure.name).collect();
        assert_eq!((names, missing), (vec!["clock-intervals", "clock-errors", "clock-bounds"], Vec::new()));
        figures.iter().for_each(|figure| drop(figure.pdf().unwrap()));
    }
}
