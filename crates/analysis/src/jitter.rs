//! X-Lap's questions to a run (sections 3.3.2 to 3.3.4): how each stage varies, which stages are outliers where the
//! whole is one, and how each goes with the whole.
//!
//! Its rule as published: a value is an outlier above `Q75 + 1.5 IQR` of all traces, quartiles interpolated linearly;
//! of traces whose end-to-end is an outlier, a stage is a cause if its own value is an outlier of that stage. Several
//! causes and none are both possible, and both counted. Assumes: 8 bytes a stage and trace fit in memory. Guarantees:
//! quartiles, thresholds and causes are exact (in quarters and eighths of a tick), of the estimates; the same for any
//! number of workers. Deliberately absent: bounds (`rows` of an [`crate::Analysis`] has them): how much of a difference
//! the clocks leave open is said there.

use serde::Serialize;

use crate::path_columns::PathColumns;
use crate::scan::in_turns;

/// Points of a scatter plot, above and below the threshold, at most.
pub const MOST_POINTS: usize = 200;
/// Outliers of a box that are drawn, at most.
pub const MOST_OUTLIERS: usize = 100;
/// Traces that are ranked, at most: of a million Spearman's coefficient is known to 0.002.
const MOST_RANKED: usize = 1 << 20;

/// The stages of a run's path against its end-to-end. Ticks of the reference.
#[derive(Clone, Debug, Serialize)]
pub struct Jitter {
    /// Traces with every stage of the path and the whole.
    pub traces: usize,
    /// Traces that lack one of them: in none of these figures.
    pub left_out: u64,
    /// The whole is an outlier above it; `None`: no trace.
    pub threshold_ticks: Option<f64>,
    /// Traces above it.
    pub above: usize,
    /// Traces above it of which no stage is an outlier.
    pub uncaused: usize,
    /// Traces above it of which several stages are.
    pub several: usize,
    /// The stages of the path in its order, then the whole.
    pub stages: Vec<StageJitter>,
}

/// One stage.
#[derive(Clone, Debug, Serialize)]
pub struct StageJitter {
    /// Its name.
    pub name: String,
    /// True of the whole.
    pub is_whole: bool,
    /// It is an outlier above that.
    pub threshold_ticks: Option<f64>,
    /// Traces above the whole's threshold in which it is an outlier, too.
    pub caused: usize,
    /// Box of the traces up to the whole's threshold: the published split.
    pub below: Option<JitterBox>,
    /// Box of those above it.
    pub above: Option<JitterBox>,
    /// Box of all.
    pub all: Option<JitterBox>,
    /// Against the whole, of the traces up to its threshold.
    pub fit_below: Option<Fit>,
    /// Against the whole, of those above it.
    pub fit_above: Option<Fit>,
    /// Stage and whole of some traces up to the threshold, evenly from all.
    pub points_below: Vec<[i64; 2]>,
    /// The same above it.
    pub points_above: Vec<[i64; 2]>,
}

/// A box plot: quartiles interpolated linearly, whiskers at the last value within 1.5 IQR.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JitterBox {
    /// How many values.
    pub count: usize,
    /// First quartile, median and third quartile.
    pub quartiles_ticks: [f64; 3],
    /// The last values within 1.5 IQR of the quartiles.
    pub whiskers_ticks: [i64; 2],
    /// How many lie beyond.
    pub outliers: usize,
    /// Some of them, the least and the largest included.
    pub outliers_ticks: Vec<i64>,
}

/// A stage against the whole. `None`: one of them does not vary.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// How many traces.
    pub count: usize,
    /// Pearson's correlation.
    pub pearson: Option<f64>,
    /// Spearman's, of mean ranks.
    pub spearman: Option<f64>,
    /// Of how many traces that is, evenly from all.
    pub ranked: usize,
    /// Least squares: ticks of the whole for a tick of the stage.
    pub slope: Option<f64>,
    /// The whole where the stage takes no time, ticks.
    pub intercept_ticks: Option<f64>,
}

/// Eight times `Q75 + 1.5 IQR`, exactly.
#[derive(Clone, Copy)]
struct Fence(i128);

impl Fence {
    fn of(sorted: &[i64]) -> Option<Self> {
        Some(Self(5 * quartile(sorted, 3)? - 3 * quartile(sorted, 1)?))
    }

    fn is_below(self, value: i64) -> bool {
        8 * i128::from(value) > self.0
    }

    fn ticks(self) -> f64 {
        self.0 as f64 / 8.0
    }
}

/// Four times the quartile of that number, interpolated linearly between two values.
fn quartile(sorted: &[i64], number: usize) -> Option<i128> {
    let place = sorted.len().checked_sub(1)? * number;
    let at = |rank: usize| i128::from(sorted[rank.min(sorted.len() - 1)]);
    let (rank, quarters) = (place / 4, (place % 4) as i128);
    Some(4 * at(rank) + quarters * (at(rank + 1) - at(rank)))
}

impl Jitter {
    /// The same with at most so many points and outliers of each stage, for a page that has no room for more.
    pub fn with_fewer(&self, points: usize, outliers: usize) -> Self {
        let mut fewer = self.clone();
        for stage in &mut fewer.stages {
            for all in [&mut stage.points_below, &mut stage.points_above] {
                *all = evenly(all.len(), points).map(|at| all[at]).collect();
            }
            for all in [&mut stage.below, &mut stage.above, &mut stage.all].into_iter().flatten() {
                let drawn = &all.outliers_ticks;
                all.outliers_ticks = evenly(drawn.len(), outliers).map(|at| drawn[at]).collect();
            }
        }
        fewer
    }

    /// Jitter of all whole traces.
    pub(crate) fn of(columns: &PathColumns, names: &[String]) -> Self {
        let (values, whole) = (columns.values(), columns.whole());
        let all = in_turns(values.iter().collect(), |column: &Vec<i64>| {
            let sorted = sorted(column.iter().copied());
            (Fence::of(&sorted), JitterBox::of(&sorted))
        });
        let (fences, boxes): (Vec<Option<Fence>>, Vec<_>) = all.into_iter().unzip();
        let threshold = fences.last().copied().flatten();
        let is_above = |row: usize| threshold.is_some_and(|threshold| threshold.is_below(whole[row]));
        let (above, below): (Vec<usize>, Vec<usize>) = (0..whole.len()).partition(|&row| is_above(row));
        let parts = values.len().saturating_sub(1);
        let is_cause = |stage: usize, row: usize| fences[stage].is_some_and(|fence| fence.is_below(values[stage][row]));
        let causes = |row: &usize| (0..parts).filter(|&stage| is_cause(stage, *row)).count();
        let ranked = [&below, &above].map(|rows| Ranked::of(rows, whole));
        let stages = in_turns(boxes.into_iter().enumerate().collect(), |(at, all)| {
            let (column, is_whole) = (&values[at][..], at == parts);
            let of = |rows: &[usize]| JitterBox::of(&sorted(rows.iter().map(|&row| column[row])));
            StageJitter {
                name: names[at].clone(),
                is_whole,
                threshold_ticks: fences[at].map(Fence::ticks),
                caused: if is_whole { 0 } else { above.iter().filter(|&&row| is_cause(at, row)).count() },
                below: of(&below),
                above: of(&above),
                all,
                fit_below: Fit::of(column, whole, &below, &ranked[0]),
                fit_above: Fit::of(column, whole, &above, &ranked[1]),
                points_below: some(&below, column, whole),
                points_above: some(&above, column, whole),
            }
        });
        Self {
            traces: whole.len(),
            left_out: columns.left_out(),
            threshold_ticks: threshold.map(Fence::ticks),
            above: above.len(),
            uncaused: above.iter().filter(|row| causes(row) == 0).count(),
            several: above.iter().filter(|row| causes(row) > 1).count(),
            stages,
        }
    }
}

fn sorted(values: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut values: Vec<i64> = values.collect();
    values.sort_unstable();
    values
}

/// Evenly from all of these rows.
fn some(rows: &[usize], column: &[i64], whole: &[i64]) -> Vec<[i64; 2]> {
    evenly(rows.len(), MOST_POINTS).map(|at| [column[rows[at]], whole[rows[at]]]).collect()
}

/// Positions of at most `most` of `count`, the first and the last among them.
pub(crate) fn evenly(count: usize, most: usize) -> impl Iterator<Item = usize> {
    let shown = count.min(most);
    (0..shown).map(move |number| if shown < 2 { 0 } else { number * (count - 1) / (shown - 1) })
}

impl JitterBox {
    fn of(sorted: &[i64]) -> Option<Self> {
        let [q1, median, q3] = [quartile(sorted, 1)?, quartile(sorted, 2)?, quartile(sorted, 3)?];
        let reach = 3 * (q3 - q1); // of eighths
        let first = sorted.partition_point(|&value| 8 * i128::from(value) < 2 * q1 - reach);
        let end = sorted.partition_point(|&value| 8 * i128::from(value) <= 2 * q3 + reach);
        let outliers: Vec<i64> = sorted[..first].iter().chain(&sorted[end..]).copied().collect();
        Some(Self {
            count: sorted.len(),
            quartiles_ticks: [q1, median, q3].map(|quarters| quarters as f64 / 4.0),
            whiskers_ticks: [sorted[first], sorted[end - 1]],
            outliers: outliers.len(),
            outliers_ticks: evenly(outliers.len(), MOST_OUTLIERS).map(|at| outliers[at]).collect(),
        })
    }
}

/// Some rows, evenly from all where they are many, and the ranks of the whole among them.
struct Ranked {
    rows: Vec<usize>,
    whole: Vec<f64>,
}

impl Ranked {
    fn of(rows: &[usize], whole: &[i64]) -> Self {
        let rows: Vec<usize> = evenly(rows.len(), MOST_RANKED).map(|at| rows[at]).collect();
        let whole = ranks(&rows.iter().map(|&row| whole[row]).collect::<Vec<_>>());
        Self { rows, whole }
    }
}

impl Fit {
    fn of(column: &[i64], whole: &[i64], rows: &[usize], ranked: &Ranked) -> Option<Self> {
        if rows.is_empty() {
            return None;
        }
        let moments = Moments::of(rows.len(), || rows.iter().map(|&row| [column[row] as f64, whole[row] as f64]));
        let stage = ranks(&ranked.rows.iter().map(|&row| column[row]).collect::<Vec<_>>());
        let pairs = || stage.iter().zip(&ranked.whole).map(|(&stage, &whole)| [stage, whole]);
        Some(Self {
            count: rows.len(),
            pearson: moments.correlation(),
            spearman: Moments::of(stage.len(), pairs).correlation(),
            ranked: stage.len(),
            slope: moments.slope(),
            intercept_ticks: moments.slope().map(|slope| moments.means[1] - slope * moments.means[0]),
        })
    }
}

/// Means, and sums of squares and products about them.
pub(crate) struct Moments {
    means: [f64; 2],
    squares: [f64; 2],
    products: f64,
}

impl Moments {
    pub(crate) fn of<P: Iterator<Item = [f64; 2]>>(count: usize, pairs: impl Fn() -> P) -> Self {
        let sum = pairs().fold([0.0; 2], |sum, pair| [sum[0] + pair[0], sum[1] + pair[1]]);
        let means = sum.map(|sum| sum / count as f64);
        let apart = pairs().map(|[x, y]| [x - means[0], y - means[1]]);
        let sums = apart.fold([0.0; 3], |[xx, yy, xy], [x, y]| [xx + x * x, yy + y * y, xy + x * y]);
        Self { means, squares: [sums[0], sums[1]], products: sums[2] }
    }

    pub(crate) fn correlation(&self) -> Option<f64> {
        let [x, y] = self.squares;
        (x > 0.0 && y > 0.0).then(|| (self.products / (x * y).sqrt()).clamp(-1.0, 1.0))
    }

    fn slope(&self) -> Option<f64> {
        (self.squares[0] > 0.0).then(|| self.products / self.squares[0])
    }
}

/// The rank of each value, from 1; equal ones share their mean.
pub(crate) fn ranks(values: &[i64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by_key(|&at| values[at]);
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    for equal in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let mean = before as f64 + (equal.len() as f64 + 1.0) / 2.0;
        equal.iter().for_each(|&at| ranks[at] = mean);
        before += equal.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["a>b", "b>c", "end-to-end"].map(String::from).into()
    }

    /// By hand: quartiles 1.75, 2.5 and 3.25 of 1, 2, 3, 4, and a fence at 5.5.
    #[test]
    fn quartiles_are_interpolated_and_whiskers_end_at_values() {
        let found = JitterBox::of(&[1, 2, 3, 4]).unwrap();
        assert_eq!((found.quartiles_ticks, found.whiskers_ticks, found.outliers), ([1.75, 2.5, 3.25], [1, 4], 0));
        let found = JitterBox::of(&[-100, 1, 2, 3, 4, 100]).unwrap();
        assert_eq!((found.quartiles_ticks, found.whiskers_ticks), ([1.25, 2.5, 3.75], [1, 4]));
        assert_eq!((found.outliers, found.outliers_ticks), (2, vec![-100, 100]));
        assert_eq!(JitterBox::of(&[7]).unwrap().quartiles_ticks, [7.0; 3]);
        assert_eq!(JitterBox::of(&[]), None);
    }

    #[test]
    fn a_stage_is_a_cause_where_it_and_the_whole_are_outliers() {
        let usual = |n: i64| (10 + n % 3, 20 + n % 2);
        let mut rows: Vec<(i64, i64)> = (0..100).map(usual).collect();
        rows.extend([(500, 20), (11, 900), (600, 600)]);
        // 35 is above 33.5, 13 not above 15, 22 not above 22.5; neither; 16 is above 15, but 31 is not above 33.5.
        rows.extend([(13, 22), (12, 20), (16, 15)]);
        let mut columns = vec![Vec::new(); 3];
        for (a, b) in rows {
            [a, b, a + b].into_iter().zip(&mut columns).for_each(|(value, column)| column.push(value));
        }
        columns[2][104] = 5_000; // the whole is slow, and no stage of it
        let found = Jitter::of(&PathColumns::made(columns, 3), &names());
        assert_eq!((found.traces, found.left_out, found.above, found.uncaused, found.several), (106, 3, 5, 2, 1));
        assert_eq!(found.stages.iter().map(|stage| stage.caused).collect::<Vec<_>>(), [2, 2, 0]);
        assert_eq!(found.stages[0].below.as_ref().unwrap().count, 101);
        let thresholds: Vec<_> = found.stages.iter().map(|stage| stage.threshold_ticks).collect();
        assert_eq!(thresholds, [Some(15.0), Some(22.5), Some(33.5)]);
        assert_eq!((found.stages[2].is_whole, found.stages[0].points_above.len()), (true, 5));
    }

    fn fit(column: &[i64], whole: &[i64], rows: &[usize]) -> Option<Fit> {
        Fit::of(column, whole, rows, &Ranked::of(rows, whole))
    }

    #[test]
    fn correlations_are_those_of_a_textbook() {
        let x = [1, 2, 3, 4, 5];
        let found = fit(&x, &[2, 4, 6, 8, 10], &[0, 1, 2, 3, 4]).unwrap();
        assert_eq!(
            (found.pearson, found.spearman, found.slope, found.intercept_ticks),
            (Some(1.0), Some(1.0), Some(2.0), Some(0.0))
        );
        // Ranks 1, 2.5, 2.5, 4, 5 against 5, 4, 2.5, 2.5, 1: -8.75 of squares 9.5 and 9.5.
        let found = fit(&[1, 2, 2, 4, 5], &[9, 7, 3, 3, 1], &[0, 1, 2, 3, 4]).unwrap();
        assert!((found.spearman.unwrap() + 8.75 / 9.5).abs() < 1e-12, "{found:?}");
        let still = fit(&[3; 5], &x, &[0, 1, 2, 3, 4]).unwrap();
        assert_eq!((still.pearson, still.spearman, still.slope, still.count), (None, None, None, 5));
        assert_eq!(fit(&x, &x, &[]), None);
    }

    #[test]
    fn nothing_measured_is_no_figure_and_one_trace_is_one() {
        let none = Jitter::of(&PathColumns::made(vec![vec![]; 3], 9), &names());
        assert_eq!((none.traces, none.threshold_ticks, none.stages[0].all.is_none()), (0, None, true));
        let one = Jitter::of(&PathColumns::made(vec![vec![1], vec![2], vec![3]], 0), &names());
        assert_eq!((one.traces, one.above, one.threshold_ticks), (1, 0, Some(3.0)));
    }
}
