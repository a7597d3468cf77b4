//! Several readers at once: what a reading costs against how many they are, how that is spread, and while they start
//! and stop.

use tickscope_clock::advice::duration;
use tickscope_clock::benchmark::{Benchmark, Cell, ClockResult, LoadResult};
use tickscope_clock::density::Density;
use tickscope_clock::measure::Ramp;

use super::rate;
use crate::document::{Block, Panel, Panels, panel};
use crate::plot::{Axis, Figure, Ink, short};

/// The clocks that are shown first: one that a program would read, one that its readers fight over.
pub(super) const FIRST: [&str; 3] = ["tsc after", "cntvct after", "mutex"];

/// Cost and usable resolution against the number of readers; first the clocks for which that is felt.
pub(super) fn crowds(benchmark: &Benchmark) -> Vec<Block> {
    if benchmark.plan.readers.len() < 2 {
        return vec![Block::note("Only one number of readers was asked for (--readers).")];
    }
    let mut panels = Panels { summary: "The other clocks", ..Panels::default() };
    for clock in &benchmark.clocks {
        let is_felt = grows(clock, |cell| Some(cell.cost.median_ns)) || grows(clock, |cell| cell.usable_ns);
        let cost = against_readers(clock, "median cost", |cell| Some(cell.cost.median_ns));
        let usable = against_readers(clock, "usable resolution", |cell| cell.usable_ns);
        let among = if is_felt { &mut panels.first } else { &mut panels.others };
        among.push(panel(&clock.clock, vec![cost, usable]));
    }
    let note = format!(
        "The median cost of a reading and the usable resolution against the readers at once, one line a load; first \
         the clocks of which either is at least twice as much with the most readers as with one. Readers beyond the \
         {} processors take turns: their curve is not that of as many processors.",
        benchmark.cpus.len()
    );
    let none = panels.first.is_empty().then(|| Block::note("There is no such clock."));
    [vec![Block::note(note), load_legend(benchmark)], none.into_iter().collect(), vec![Block::Panels(panels)]].concat()
}

pub(super) fn load_legend(benchmark: &Benchmark) -> Block {
    Block::legend(benchmark.plan.loads.iter().map(|&busy| benchmark.plan.load.phrase(busy)))
}

/// Whether it is at least twice as much with the most readers as with one, under any load.
fn grows(clock: &ClockResult, of: fn(&Cell) -> Option<f64>) -> bool {
    clock.loads.iter().any(|load| {
        let most = load.cells.last().and_then(of);
        of(load.alone()).zip(most).is_some_and(|(alone, most)| most >= 2.0 * alone)
    })
}

fn against_readers(clock: &ClockResult, what: &str, of: fn(&Cell) -> Option<f64>) -> Block {
    let cells = || clock.loads.iter().flat_map(|load| &load.cells);
    let readers = cells().map(|cell| cell.readers as f64);
    let x = Axis::from_0(readers, |at| if at.fract() == 0.0 { format!("{at}") } else { String::new() });
    let y = Axis::of_durations_by_spread(cells().filter_map(of)).named(what);
    let mut figure = Figure::plane(x.named("readers at once"), y);
    for (kind, load) in clock.loads.iter().enumerate() {
        let point = |cell: &Cell| Some([cell.readers as f64, of(cell)?]);
        figure.line(&load.cells.iter().filter_map(point).collect::<Vec<_>>(), Ink::of(kind));
    }
    figure.block(&format!("{what} of {} against the number of readers, one line a load.", clock.clock))
}

/// Figures 4 to 7 of the Cm* study: how the cost of a reading is spread, a curve for each number of readers.
pub(super) fn spreads(benchmark: &Benchmark) -> Vec<Block> {
    let mut panels = Panels { summary: "The other clocks", ..Panels::default() };
    for clock in &benchmark.clocks {
        let ends = [clock.loads.first(), clock.loads.last().filter(|_| clock.loads.len() > 1)];
        for load in ends.into_iter().flatten() {
            let title = format!("{}, {}", clock.clock, benchmark.plan.load.phrase(load.busy_processes));
            let among = if FIRST.contains(&clock.clock.as_str()) { &mut panels.first } else { &mut panels.others };
            among.push(panel(&title, by_readers(clock, load)));
        }
    }
    let note = "How what a reading costs is spread, a curve a number of readers, with its mean, its deviation and the \
                readings a second. All curves of a figure enclose the same area but for the readings beyond it; the \
                paper's two systems are two loads here, its routines clocks. Readers beyond the processors take \
                turns, which is not what as many processors do.";
    vec![Block::note(note), Block::Panels(panels)]
}

fn by_readers(clock: &ClockResult, load: &LoadResult) -> Vec<Block> {
    let name = |cell: &Cell| {
        let turns = if cell.takes_turns { " taking turns" } else { "" };
        let [mean, deviation] = [cell.cost.mean_ns, cell.cost.deviation_ns].map(duration);
        format!(
            "{} at once{turns}: mean {mean}, deviation {deviation}, {} reads/s each",
            cell.readers,
            rate(cell.reads_per_s)
        )
    };
    let curves: Vec<(String, &Density)> =
        load.cells.iter().filter_map(|cell| Some((name(cell), cell.cost.density.as_ref()?))).collect();
    let words = format!("How the cost of a reading of {} is spread, one curve a number of readers.", clock.clock);
    densities(&curves, "cost of a reading", &words)
}

/// Curves that enclose the same area; where one reaches ten times as far as another begins, by powers of ten, as
/// densities of the logarithm, so that their areas stay the same.
pub(super) fn densities(curves: &[(String, &Density)], axis: &str, words: &str) -> Vec<Block> {
    const WIDE: f64 = 10.0;
    let mut points: Vec<Vec<[f64; 2]>> = curves.iter().map(|(_, density)| density.points()).collect();
    // A bin that holds 0 has no place among powers of ten, wherever its middle is.
    let above_0 = curves.iter().all(|(_, density)| density.from > 0.0);
    let at = points.iter().flatten().map(|at| at[0]);
    let (least, most) = at.fold((f64::INFINITY, 0.0_f64), |(lo, hi), at| (lo.min(at), hi.max(at)));
    let wide = above_0 && most > WIDE * least;
    if wide {
        points.iter_mut().flatten().for_each(|[at, share]| *share *= *at * std::f64::consts::LN_10);
    }
    for (points, (_, density)) in points.iter_mut().zip(curves) {
        close(points, density);
    }
    let at = || points.iter().flatten().map(|at| at[0]);
    let x = if wide { Axis::of_durations(at()) } else { Axis::around(at(), short) };
    let shares = points.iter().flatten().map(|at| at[1]);
    let mut figure = Figure::plane(x.named(axis), Axis::from_0(shares, |_| String::new()).named("density"));
    for (number, points) in points.iter().enumerate() {
        figure.curve(points, Ink::of(number));
    }
    vec![Block::legend(curves.iter().map(|(name, _)| name.clone())), figure.block(words)]
}

/// Leads a curve down to 0 where its first bin begins and where its last one ends.
fn close(points: &mut Vec<[f64; 2]>, density: &Density) {
    points.insert(0, [density.from, 0.0]);
    points.push([density.from + density.counts.len() as f64 * density.width, 0.0]);
}

/// A figure for every clock, load and number of readers; first those with the most readers where the others are felt.
pub(super) fn ramps(benchmark: &Benchmark) -> Vec<Block> {
    let mut panels = Panels { summary: "Every other clock, load and number of readers", ..Panels::default() };
    for clock in &benchmark.clocks {
        for load in &clock.loads {
            for cell in load.cells.iter().filter(|cell| cell.readers > 1) {
                let title = format!(
                    "{}, {} readers, {}",
                    clock.clock,
                    cell.readers,
                    benchmark.plan.load.phrase(load.busy_processes)
                );
                let most = load.cells.last().is_some_and(|last| last.readers == cell.readers);
                let among = if most && cell.ramp.felt() { &mut panels.first } else { &mut panels.others };
                let bars = Some(bars(benchmark, &cell.ramp));
                among.push(Panel { bars, ..panel(&title, vec![ramp(benchmark, clock, &cell.ramp)]) });
            }
        }
    }
    if panels.first.is_empty() && panels.others.is_empty() {
        return vec![Block::note("Only one reader was asked for (--readers), so nobody started or stopped.")];
    }
    let slices = benchmark.clocks.iter().flat_map(|clock| &clock.loads).map(|load| load.alone().ramp.slices.len());
    let note = format!(
        "One reader goes on all the time; others start one after another and later stop one after another. The median \
         cost of its readings in each of {} slices of that time, first for the clocks whose cost at least doubles in \
         between. A line with a gap: no reading ended there.",
        slices.max().unwrap_or(0)
    );
    let keys = Block::keys(&[
        ("line", "median cost"),
        ("line muted", "another reader starts"),
        ("line muted dashed", "it stops"),
    ]);
    let none = panels.first.is_empty();
    let none = none.then(|| Block::note("With the most readers at once no clock's median cost doubled."));
    let words = (!panels.first.is_empty()).then(|| {
        Block::paragraph(
            "The cost of a reading while other readers start, all read, and stop again, lowest to highest bar:",
        )
    });
    [vec![Block::note(note), keys], none.into_iter().chain(words).collect(), vec![Block::Panels(panels)]].concat()
}

fn ramp(benchmark: &Benchmark, clock: &ClockResult, ramp: &Ramp) -> Block {
    let ns = |ticks: f64| ticks * 1e9 / benchmark.counter.hertz as f64;
    let all_ns = ns(ramp.ticks as f64);
    let costs = ramp.slices.iter().filter_map(|slice| slice.cost_ticks).map(|ticks| ns(ticks as f64));
    let x = Axis::from_0([all_ns].into_iter(), short).named("time");
    let y = Axis::of_durations_by_spread(costs).named("median cost of a reading");
    let mut figure = Figure::plane(x, y);
    for (at, end) in ramp.started.iter().map(|at| (at, false)).chain(ramp.stopped.iter().map(|at| (at, true))) {
        figure.mark(at * all_ns, end);
    }
    let middle = |number: usize| (number as f64 + 0.5) / ramp.slices.len() as f64 * all_ns;
    let points = ramp.slices.iter().enumerate();
    let points = points.map(|(number, slice)| Some([middle(number), ns(slice.cost_ticks? as f64)]));
    for stretch in points.collect::<Vec<_>>().split(Option::is_none) {
        let stretch: Vec<[f64; 2]> = stretch.iter().copied().flatten().collect();
        figure.line(&stretch, Ink::of(0));
    }
    let (name, others) = (&clock.clock, ramp.started.len());
    figure.block(&format!("Median cost of a reading of {name} against time; {others} other readers start, then stop."))
}

/// A ramp in letters; blank where no reading ended.
fn bars(benchmark: &Benchmark, ramp: &Ramp) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let costs = || ramp.slices.iter().filter_map(|slice| slice.cost_ticks);
    let (least, most) = (costs().min().unwrap_or(0), costs().max().unwrap_or(0));
    let bar = |cost: i64| BARS[((cost - least) * (BARS.len() as i64 - 1) / (most - least).max(1)) as usize];
    let bars: String = ramp.slices.iter().map(|slice| slice.cost_ticks.map_or(' ', bar)).collect();
    let [least, most] = [least, most].map(|ticks| duration(ticks as f64 * 1e9 / benchmark.counter.hertz as f64));
    format!("{least} to {most} |{bars}|")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn density(from: f64, counts: Vec<usize>) -> Density {
        Density { from, width: 1.0, counts, below: 0, above: 0 }
    }

    fn drawn(densities: &[Density]) -> (bool, Vec<Vec<[f64; 2]>>) {
        let curves: Vec<_> = densities.iter().map(|density| (String::from("curve"), density)).collect();
        let blocks = super::densities(&curves, "measured", "words");
        let Some(Block::Figure(svg)) = blocks.last() else { panic!("no figure") };
        let points = |text: &str| {
            let pairs = text.split('"').next().unwrap().split(' ');
            pairs.map(|pair| pair.split_once(',').map(|(x, y)| [x, y].map(|at| at.parse().unwrap())).unwrap()).collect()
        };
        (svg.contains(">measured, log<"), svg.split("<polyline points=\"").skip(1).map(points).collect())
    }

    #[test]
    fn results_of_0_are_on_a_linear_axis_and_both_ends_of_a_curve_reach_its_foot() {
        let (wide, curves) = drawn(&[density(0.0, [vec![9], vec![1; 20]].concat()), density(5.0, vec![4, 9])]);
        assert!(!wide, "the bin from 0 to 1 holds 0");
        let foot = |points: &[[f64; 2]]| points.iter().map(|at| at[1]).fold(f64::MIN, f64::max);
        for points in &curves {
            assert_eq!([points[0][1], points[points.len() - 1][1]], [foot(points); 2], "{points:?}");
        }
        assert_eq!(foot(&curves[0]), foot(&curves[1]));
        let (wide, curves) = drawn(&[density(1.0, vec![3; 40])]);
        assert!(wide && curves[0].len() == 42, "{curves:?}");
    }
}
