//! Latency by pair of points and by how far apart the two ran, as Cloudprofiler draws it (its figures 17 and 18), with
//! the error that the clocks leave open on the same axis.
//!
//! Guarantees: each row says how many durations it is of; what has no place on an axis by powers of ten is counted in
//! words. Deliberately absent: gathering (`tickscope_analysis::figures::Transfer`).

use std::collections::BTreeMap;

use tickscope_analysis::figures::{Distance, LengthBin, Transfer};

use crate::drawn_figure::DrawnFigure;
use crate::plot::{Axis, Figure, Ink, Room, Row, short};
use crate::quantity::count;

/// Rows that are drawn, at most.
const MOST_ROWS: usize = 24;
/// Pixels of a row that has a box and a distribution below it, and of one that has a distribution alone.
const BOTH: f64 = 42.0;
const RIDGE: f64 = 30.0;

/// Boxes with the distribution of the error, then the distribution of durations by distance; none without durations.
pub(crate) fn figures(all: &[Transfer], hertz: u64, room: Room) -> Vec<DrawnFigure> {
    if all.is_empty() { Vec::new() } else { vec![boxes(all, hertz, room), distances(all, hertz, room)] }
}

/// How far apart, in words.
fn words(distance: Distance) -> &'static str {
    match distance {
        Distance::OneThread => "one thread",
        Distance::OneProcess => "one process",
        Distance::OneNode => "one node",
        Distance::Travelled => "travelled",
        Distance::Remote => "remote",
    }
}

const MEANINGS: &str = "remote: the two points are on two nodes; travelled: both are on one node, which the trace left \
                        in between; one node, one process, one thread: the trace stayed on its node, and so near to \
                        each other its two stamps were taken, as far as the run tells";

fn ink(distance: Distance) -> Ink {
    Ink::of(match distance {
        Distance::OneThread | Distance::OneProcess | Distance::OneNode => 0,
        Distance::Travelled | Distance::Remote => 1,
    })
}

fn boxes(all: &[Transfer], hertz: u64, room: Room) -> DrawnFigure {
    let ns = |ticks: i64| ticks as f64 * 1e9 / hertz.max(1) as f64;
    let shown = &all[..all.len().min(MOST_ROWS)];
    let name = |of: &Transfer| {
        let whole = if of.is_whole { "end-to-end, " } else { "" };
        format!("{}, {whole}{}, n {}", of.pair, words(of.distance), count(of.count))
    };
    let names: Vec<String> = shown.iter().map(name).collect();
    let reach = |of: &Transfer| {
        let [first, .., last] = of.quartiles_ticks;
        [first.estimate, last.estimate, of.error_ticks[0], of.error_ticks[4]].map(ns)
    };
    let axis = Axis::of_durations(shown.iter().flat_map(reach)).named("duration and error");
    let mut figure = Figure::rows(axis, &names, BOTH, room);
    for (number, of) in shown.iter().enumerate() {
        let (row, ink) = (Row { number, shift: -9.0 }, ink(of.distance));
        let [first, q1, median, q3, last] = of.quartiles_ticks.map(|at| ns(at.estimate));
        figure.bar([first, last], 1.4, row, ink);
        [first, last].into_iter().for_each(|end| figure.notch(end, 7.0, row, ink));
        figure.bar([q1, q3], 11.0, row, ink);
        figure.notch(median, 11.0, row, Ink::of(1));
        figure.circles(&[of.mean_ticks * 1e9 / hertz.max(1) as f64], row, ink);
        let (points, most) = density(&of.error_shape, ns);
        figure.profile(&points, (most, 14.0), Row { number, shift: 10.0 }, Ink::of(2));
    }
    let most = shown.iter().filter(|of| of.distance == Distance::Remote).map(|of| of.error_ticks[4]).max();
    let most = most.map_or_else(String::new, |most| format!(" Remote, the largest error is {}.", short(ns(most))));
    let caption = format!(
        "Line from the shortest to the longest duration, quartiles, median, circle at the mean, of estimates to a \
         32nd; below it, on the same axis, how often the clocks leave how large an error open, either \
         way.{most} {MEANINGS}.\
         {}{}",
        of_nothing(all),
        more(all.len())
    );
    DrawnFigure::of("transfer", "From point to point, by how far apart they ran".into(), caption, vec![figure])
}

/// Distributions of all pairs together, by distance; those of wholes apart.
fn distances(all: &[Transfer], hertz: u64, room: Room) -> DrawnFigure {
    let ns = |ticks: i64| ticks as f64 * 1e9 / hertz.max(1) as f64;
    let mut groups: BTreeMap<(bool, Distance), BTreeMap<(i64, i64), u64>> = BTreeMap::new();
    for of in all {
        let group = groups.entry((!of.is_whole, of.distance)).or_default();
        of.shape.iter().for_each(|bin| *group.entry((bin.from, bin.to)).or_default() += bin.count);
    }
    let shapes = groups.into_iter().map(|((is_part, distance), bins)| {
        let bins = bins.into_iter().map(|((from, to), count)| LengthBin { from, to, count });
        (is_part, distance, bins.collect::<Vec<LengthBin>>())
    });
    let shapes: Vec<_> = shapes.collect();
    let names = shapes.iter().map(|(is_part, distance, bins)| {
        let of = bins.iter().map(|bin| bin.count).sum::<u64>();
        format!("{}, {}, n {}", if *is_part { "stages" } else { "end-to-end" }, words(*distance), count(of))
    });
    let names: Vec<String> = names.collect();
    let ends = shapes.iter().flat_map(|(_, _, bins)| [bins.first(), bins.last()]).flatten();
    let axis = Axis::of_durations(ends.flat_map(|bin| [bin.from.max(1), bin.to].map(ns))).named("duration");
    let mut figure = Figure::rows(axis, &names, RIDGE, room);
    for (number, (_, distance, bins)) in shapes.iter().enumerate() {
        let (points, most) = density(bins, ns);
        figure.profile(&points, (most, RIDGE - 4.0), Row { number, shift: 0.0 }, ink(*distance));
    }
    let caption = format!(
        "Share of the durations for each factor of two, each row up to its own highest; by estimates. {MEANINGS}.{}",
        of_nothing(all)
    );
    DrawnFigure::of("distances", "Durations by how far apart the points ran".into(), caption, vec![figure])
}

/// The outline of counts on an axis by powers of ten, its height the count for each factor, and the highest.
pub(crate) fn density(shape: &[LengthBin], ns: impl Fn(i64) -> f64) -> (Vec<[f64; 2]>, f64) {
    let (mut outline, mut most): (Vec<[f64; 2]>, f64) = (Vec::new(), 0.0);
    let mut before = None;
    for bin in shape.iter().filter(|bin| bin.to > 0) {
        let (from, to) = (bin.from.max(1), bin.to.saturating_add(1));
        let height = bin.count as f64 / (to as f64 / from as f64).log2();
        if before != Some(from) {
            outline.extend(before.map(|end| [ns(end), 0.0]));
            outline.push([ns(from), 0.0]);
        }
        outline.extend([[ns(from), height], [ns(to), height]]);
        (before, most) = (Some(to), most.max(height));
    }
    (outline, if most > 0.0 { most } else { 1.0 })
}

/// Durations that have no place among powers of ten.
fn of_nothing(all: &[Transfer]) -> String {
    let bins = all.iter().flat_map(|of| &of.shape);
    match bins.filter(|bin| bin.to <= 0).map(|bin| bin.count).sum::<u64>() {
        0 => String::new(),
        some => {
            format!(" {} estimated as nothing or less, left of the axis.", crate::quantity::counted(some, "duration"))
        }
    }
}

fn more(rows: usize) -> String {
    if rows > MOST_ROWS { format!(" The first {MOST_ROWS} rows of {rows} are drawn.") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickscope_analysis::figures::Bounded;

    fn transfer(pair: &str, distance: Distance, from: i64) -> Transfer {
        let at = |estimate: i64| Bounded { estimate, lo: estimate, hi: estimate };
        Transfer {
            pair: pair.into(),
            is_whole: false,
            distance,
            count: 12,
            mean_ticks: from as f64,
            quartiles_ticks: [0, 1, 2, 3, 4].map(|more| at(from + more)),
            shape: vec![LengthBin { from: -1, to: -1, count: 2 }, LengthBin { from, to: from + 3, count: 10 }],
            error_ticks: [7, 7, 8, 8, 9_000],
            error_shape: vec![LengthBin { from: 7, to: 8, count: 12 }],
        }
    }

    #[test]
    fn each_row_has_its_distance_its_number_and_its_error_and_what_is_not_drawn_is_told() {
        let all = [transfer("s > r", Distance::Remote, 5_000), transfer("r > t<", Distance::OneThread, 400)];
        for room in [Room::Wide, Room::Narrow] {
            let [boxes, distances] = figures(&all, 1_000_000_000, room).try_into().unwrap_or_else(|_| panic!("two"));
            let svg = boxes.svg();
            assert!(svg.contains("s &gt; r, remote, n 12") && svg.contains("r &gt; t&lt;, one thread, n 12"), "{svg}");
            for words in ["the largest error is 9 us", "4\u{a0}durations estimated as nothing or less"] {
                assert!(boxes.caption.contains(words), "{}", boxes.caption);
            }
            assert!(distances.svg().contains("stages, remote, n 12"), "{}", distances.svg());
        }
        assert!(figures(&[], 1_000_000_000, Room::Wide).is_empty());
        let many = vec![all[0].clone(); 30];
        assert!(figures(&many, 1, Room::Wide)[0].caption.contains("The first 24 rows of 30 are drawn."));
    }

    #[test]
    fn an_outline_is_as_high_as_its_count_for_a_factor_and_falls_to_nothing_in_a_gap() {
        let bins = [(0, 3, 4), (4, 7, 6), (16, 31, 5)].map(|(from, to, count)| LengthBin { from, to, count });
        let (outline, most) = density(&bins, |ticks| ticks as f64);
        let expected = [[1., 0.], [1., 2.], [4., 2.], [4., 6.], [8., 6.], [8., 0.], [16., 0.], [16., 5.], [32., 5.]];
        assert_eq!((outline, most), (expected.to_vec(), 6.0));
    }
}
