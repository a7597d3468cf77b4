//! How the durations of a run change while it goes on: windows of equal length, and a trend over all of it.
//!
//! Idea: percentiles of each window show what a figure of the whole run hides: a start that is slow, a pause, a queue
//! that grows. The trend is the line of least squares, as a change from the run's start to its end. Assumes: traces
//! further apart than a block of them are independent. Guarantees: every whole trace lies in one window; a window
//! without traces is there, empty; the trend's interval holds chance, and the clocks by the relative bound alone.
//! Deliberately absent: any trend but a straight one.

use serde::Serialize;
use tickscope_stats::{Blocks, Quantile, stretches, widening};

use crate::path_columns::PathColumns;

/// Windows of a run.
const WINDOWS: usize = 120;
/// Draws of blocks.
const DRAWS: usize = 2000;
/// Fewest traces of which a trend is told.
const FEWEST: usize = 100;

/// The whole of a run's traces over time. Ticks of the reference.
#[derive(Clone, Debug, Serialize)]
pub struct OverTime {
    /// How long a window is.
    pub window_ticks: u64,
    /// From the first trace's beginning to the last one's.
    pub windows: Vec<TimeWindow>,
    /// How much longer the whole took at the end than at the start; `None`: too few traces, or all began at once.
    pub trend: Option<Trend>,
}

/// The traces that began in one window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct TimeWindow {
    /// When it begins, after the first trace did.
    pub begins_ticks: u64,
    /// How many traces began in it.
    pub traces: usize,
    /// Median, 99th percentile and longest of the whole; `None`: no trace.
    pub whole_ticks: Option<[i64; 3]>,
}

/// A change over the run.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Trend {
    /// By the line of least squares.
    pub change_ticks: f64,
    /// What chance leaves open: 95 of 100 draws, wider the fewer blocks differ.
    pub interval_ticks: [f64; 2],
    /// Stretches of time that its spread comes from, if all were equally strong.
    pub stretches: f64,
    /// How far the clocks leave it open beyond that, either way.
    pub bound_ticks: u64,
    /// True if it is no less and no more than nothing, whatever clocks and chance did.
    pub resolved: bool,
}

impl OverTime {
    /// Of all whole traces, in order of time; `instant`: when a raw tick at the first point was, in ticks of the
    /// reference; `bound_ticks`: how far two durations of the whole may be wrong against each other. `None`: there are
    /// none, or nothing says when they began.
    pub(crate) fn of(columns: &PathColumns, instant: impl Fn(i64) -> Option<i64>, bound_ticks: u64) -> Option<Self> {
        let begun = columns.begun().iter().map(|&raw| instant(raw)).collect::<Option<Vec<i64>>>()?;
        let (begun, whole) = (&begun[..], columns.whole());
        let (first, last) = (*begun.iter().min()?, *begun.iter().max()?);
        let window_ticks = last.abs_diff(first) / WINDOWS as u64 + 1;
        let mut values = vec![Vec::new(); (last.abs_diff(first) / window_ticks) as usize + 1];
        for (begun, whole) in begun.iter().zip(whole) {
            values[(begun.abs_diff(first) / window_ticks) as usize].push(*whole);
        }
        let windows = values.into_iter().enumerate().map(|(number, mut values)| {
            let mut at = |quantile: Quantile| quantile.of(&mut values);
            let whole_ticks = at(Quantile::MEDIAN).zip(at(Quantile::P99)).zip(at(Quantile::MAXIMUM));
            TimeWindow {
                begins_ticks: number as u64 * window_ticks,
                traces: values.len(),
                whole_ticks: whole_ticks.map(|((median, p99), longest)| [median, p99, longest]),
            }
        });
        let windows = windows.collect();
        Some(Self { window_ticks, windows, trend: Trend::of(begun, whole, [first, last], bound_ticks) })
    }
}

/// Count, sums, squares and products of pairs.
#[derive(Clone, Copy, Default)]
struct Sums([f64; 5]);

impl Sums {
    fn add(&mut self, of: Self, times: f64) {
        self.0.iter_mut().zip(of.0).for_each(|(sum, more)| *sum += times * more);
    }

    /// How far a block pulls the slope of all: the sum over its pairs of what the line leaves, times how far each lies
    /// from the middle.
    fn pull(&self, block: &Self) -> f64 {
        let [_, x, y, ..] = self.0.map(|sum| sum / self.0[0].max(1.0));
        let [of_block, own_x, own_y, xx, xy] = block.0;
        let slope = self.slope().unwrap_or(0.0);
        (xy - y * own_x - x * own_y + of_block * x * y) - slope * (xx - 2.0 * x * own_x + of_block * x * x)
    }

    fn slope(&self) -> Option<f64> {
        let Self([count, x, y, xx, xy]) = *self;
        let spread = count * xx - x * x;
        (spread > 0.0).then(|| (count * xy - x * y) / spread)
    }
}

impl Trend {
    fn of(begun: &[i64], whole: &[i64], [first, last]: [i64; 2], bound_ticks: u64) -> Option<Self> {
        if whole.len() < FEWEST || first == last {
            return None;
        }
        let blocks = Blocks::apart(whole.len(), |row| whole[row]);
        let middle = whole.iter().map(|&ticks| ticks as f64).sum::<f64>() / whole.len() as f64;
        // From -1/2 to 1/2 over the run, so that a slope is the change, and sums stay small.
        let at = |begun: i64| begun.abs_diff(first) as f64 / last.abs_diff(first) as f64 - 0.5;
        let mut of_block = vec![Sums::default(); blocks.count];
        for (row, (begun, &whole)) in begun.iter().zip(whole).enumerate() {
            let at = at(*begun);
            let apart = whole as f64 - middle;
            of_block[blocks.block(row)].add(Sums([1.0, at, apart, at * at, at * apart]), 1.0);
        }
        let sum = |drawn: &[f64]| {
            let mut sum = Sums::default();
            of_block.iter().zip(drawn).for_each(|(block, &times)| sum.add(*block, times));
            sum.slope()
        };
        let mut all = Sums::default();
        of_block.iter().for_each(|block| all.add(*block, 1.0));
        let change_ticks = all.slope()?;
        let mut drawn = Vec::with_capacity(DRAWS);
        blocks.draws(DRAWS, |times| drawn.extend(sum(times)));
        drawn.sort_unstable_by(f64::total_cmp);
        let outside = drawn.len() / 40;
        let stretches = stretches(&of_block.iter().map(|block| all.pull(block).powi(2)).collect::<Vec<f64>>());
        let outward = |end: f64| change_ticks + widening(stretches) * (end - change_ticks);
        let interval_ticks = [*drawn.get(outside)?, drawn[drawn.len() - 1 - outside]].map(outward);
        // If no two of the durations are wrong against each other by more than R, each is off by R / 2 at most from
        // what all have in common, and the slope by that for each, as far as the trace lies from the middle of all.
        let [count, x, _, xx, _] = all.0;
        let away = begun.iter().map(|&begun| (at(begun) - x / count).abs()).sum::<f64>();
        let bound = (bound_ticks as f64 / 2.0 * away / (xx - x * x / count)).ceil();
        let bound_ticks = bound as u64;
        let resolved = interval_ticks[0] - bound > 0.0 || interval_ticks[1] + bound < 0.0;
        Some(Self { change_ticks, interval_ticks, stretches, bound_ticks, resolved })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trace each 1000 ticks, that takes 5000 and some, and `more` at the end of the run.
    fn growing(traces: i64, more: i64) -> PathColumns {
        let took = |row: i64| 5_000 + (row * 7_919 % 211) + row * more / traces.max(1);
        PathColumns::made(vec![(0..traces).map(took).collect()], 0)
            .begun_at((0..traces).map(|row| row * 1_000).collect())
    }

    fn over_time(columns: &PathColumns, bound_ticks: u64) -> Option<OverTime> {
        OverTime::of(columns, Some, bound_ticks)
    }

    /// Durations that are all the same, told too short in the first half of the traces and too long in the second: the
    /// worst that clocks can do to a slope, which is half as much again as they do to a difference.
    #[test]
    fn the_clocks_cannot_make_a_trend_that_is_told() {
        for crowded in [1, 30] {
            let begun: Vec<i64> =
                (0..4_000).map(|row| if row % 100 == 0 { row * 1_000 } else { row * 1_000 / crowded }).collect();
            let mut sorted = begun.clone();
            sorted.sort_unstable();
            let mean = sorted.iter().sum::<i64>() / 4_000;
            let told = sorted.iter().map(|&begun| if begun < mean { 5_000 } else { 6_000 }).collect();
            let found = over_time(&PathColumns::made(vec![told], 0).begun_at(sorted), 1_000).unwrap().trend.unwrap();
            assert!(!found.resolved && found.bound_ticks as f64 >= found.change_ticks - 1.0, "{found:?}");
            assert!(found.bound_ticks > 1_400, "{found:?}");
        }
    }

    #[test]
    fn every_trace_lies_in_one_window_and_empty_ones_are_there() {
        let found = over_time(&growing(12_345, 0), 0).unwrap();
        assert_eq!(found.windows.iter().map(|window| window.traces).sum::<usize>(), 12_345);
        assert!(found.windows.len() <= WINDOWS && found.windows[1].begins_ticks == found.window_ticks);
        let apart = PathColumns::made(vec![vec![7, 9, 8]], 0).begun_at(vec![i64::MIN, i64::MAX, i64::MAX]);
        let found = over_time(&apart, 0).unwrap();
        assert_eq!(found.windows.first().unwrap().whole_ticks, Some([7, 7, 7]));
        assert_eq!(found.windows.last().unwrap().whole_ticks, Some([8, 9, 9]));
        assert_eq!((found.windows[60].traces, found.windows[60].whole_ticks, found.trend), (0, None, None));
        assert!(over_time(&PathColumns::made(vec![vec![]], 3), 0).is_none());
    }

    #[test]
    fn a_trend_that_one_stretch_makes_is_not_resolved() {
        let held = |row: i64| 5_000 + (row * 7_919 % 211) + if (8_500..9_000).contains(&row) { 20_000 } else { 0 };
        let columns = PathColumns::made(vec![(0..10_000).map(held).collect()], 0)
            .begun_at((0..10_000).map(|row| row * 1_000).collect());
        let found = over_time(&columns, 0).unwrap().trend.unwrap();
        assert!(!found.resolved && found.stretches < 5.0 && found.change_ticks > 1_000.0, "{found:?}");
    }

    #[test]
    fn a_trend_is_resolved_beyond_clocks_and_chance_alone() {
        let trend = |more, bound| over_time(&growing(10_000, more), bound).unwrap().trend.unwrap();
        let Trend { change_ticks, interval_ticks: [lo, hi], resolved, .. } = trend(300, 0);
        assert!(resolved && (change_ticks - 300.0).abs() < 5.0 && lo < 300.0 && 300.0 < hi, "{change_ticks} {lo} {hi}");
        assert!(!trend(300, 300).resolved && trend(-300, 150).resolved && !trend(0, 0).resolved);
        assert!(over_time(&growing(99, 300), 0).unwrap().trend.is_none());
    }
}
