//! How often the whole path took how long, and how often it can have, for all that the clocks allow.
//!
//! A true duration lies in its interval, so the traces that truly took at most `b` are no fewer than those whose
//! upper end is at most `b`, and no more than those whose lower end is. A bin's count is the difference of two such
//! numbers, and so has a least and a most. That holds for each bin alone; all bins together always hold all traces.

use serde::Serialize;

/// Counts of durations in bins, each with the least and the most that it can truly hold.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Histogram {
    /// Edges in ticks, strictly ascending, one more than bins: a bin holds what is longer than its left edge and no
    /// longer than its right one.
    pub edges: Vec<i64>,
    /// Estimates in each bin.
    pub count: Vec<usize>,
    /// No fewer true durations lie in it.
    pub least: Vec<usize>,
    /// No more true durations lie in it.
    pub most: Vec<usize>,
    /// Estimates, least and most that are longer than the last edge.
    pub beyond: [usize; 3],
    /// True if the edges grow by a factor rather than by a step.
    pub logarithmic: bool,
}

/// As many as a page shows side by side without them becoming a line.
const BINS: usize = 80;
/// A step would squeeze what spans more than this factor into a few bins.
const MOST_LINEAR_FACTOR: i64 = 16;

impl Histogram {
    /// The histogram of sorted estimates, lower and upper ends; `None` without any.
    pub fn of([estimates, lo, hi]: [&[i64]; 3]) -> Option<Self> {
        let first = *lo.first()?;
        // A far outlier would leave all others in a few bins; it is counted beyond the last edge instead.
        let end = hi[hi.len() - 1 - hi.len() / 1000];
        let logarithmic = first > 0 && end / first > MOST_LINEAR_FACTOR;
        let edges = if logarithmic { factors(first, end) } else { steps(first, end) };
        let up_to = |values: &[i64], edge: i64| values.partition_point(|&value| value <= edge);
        let all = estimates.len();
        let mut histogram = Self { edges, count: vec![], least: vec![], most: vec![], beyond: [0; 3], logarithmic };
        for bin in histogram.edges.windows(2) {
            let (left, right) = (bin[0], bin[1]);
            histogram.count.push(up_to(estimates, right) - up_to(estimates, left));
            histogram.least.push(up_to(hi, right).saturating_sub(up_to(lo, left)));
            histogram.most.push(up_to(lo, right) - up_to(hi, left));
        }
        let end = *histogram.edges.last()?;
        histogram.beyond = [all - up_to(estimates, end), all - up_to(lo, end), all - up_to(hi, end)];
        Some(histogram)
    }
}

/// Edges from before `first` to `last` by equal steps; the last may lie beyond.
fn steps(first: i64, last: i64) -> Vec<i64> {
    let (before, last) = (i128::from(first) - 1, i128::from(last));
    let step = ((last - before) as u128).div_ceil(BINS as u128).max(1) as i128;
    ascending((0..=BINS).map(|edge| before + step * edge as i128), last)
}

/// Edges from before `first` to `last` by an equal factor, as far as whole ticks allow.
fn factors(first: i64, last: i64) -> Vec<i64> {
    let (low, high) = ((first as f64).ln(), (last as f64).ln());
    let edge = |edge: usize| (low + (high - low) * edge as f64 / BINS as f64).exp() as i128;
    let inner = (1..BINS).map(edge).filter(|&edge| edge >= i128::from(first) && edge < i128::from(last));
    let ends = (i128::from(first) - 1, i128::from(last));
    ascending(std::iter::once(ends.0).chain(inner).chain(std::iter::once(ends.1)), ends.1)
}

/// Strictly ascending 64-bit edges, no further than the first that reaches `last`.
fn ascending(edges: impl Iterator<Item = i128>, last: i128) -> Vec<i64> {
    let mut kept: Vec<i64> = Vec::with_capacity(BINS + 1);
    for edge in edges {
        // Ends of 64 bits are reached only by values that are no durations; a bin less is no false count.
        let Ok(edge) = i64::try_from(edge) else { continue };
        if kept.last().is_none_or(|&before| before < edge) {
            kept.push(edge);
        }
        if i128::from(edge) >= last {
            break;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sorted(mut values: Vec<i64>) -> Vec<i64> {
        values.sort_unstable();
        values
    }

    #[test]
    fn exact_durations_leave_nothing_open() {
        let values: Vec<i64> = (1..=999).collect();
        let histogram = Histogram::of([&values; 3]).unwrap();
        assert_eq!((histogram.count.iter().sum::<usize>(), histogram.beyond), (999, [0; 3]));
        assert_eq!((&histogram.count, &histogram.count), (&histogram.least, &histogram.most));
        assert!(histogram.logarithmic && Histogram::of([&[], &[], &[]]).is_none());
    }

    #[test]
    fn what_may_be_negative_is_shown_by_steps() {
        let histogram = Histogram::of([&[5, 60], &[-1, 54], &[11, 66]]).unwrap();
        assert!(!histogram.logarithmic);
        assert_eq!(histogram.edges[0], -2);
        assert_eq!(histogram.count.iter().sum::<usize>(), 2);
    }

    #[test]
    fn a_far_outlier_is_counted_beyond_the_last_edge() {
        let values: Vec<i64> = (0..10_000).map(|n| n % 100).chain([1_000_000]).collect();
        let values = sorted(values);
        let histogram = Histogram::of([&values; 3]).unwrap();
        assert_eq!(histogram.beyond, [1; 3]);
        assert!(*histogram.edges.last().unwrap() < 200);
    }

    proptest! {
        #[test]
        fn property_a_true_count_lies_between_least_and_most(
            traces in prop::collection::vec((-50i64..5_000, 0i64..400, 0i64..400, 0.0f64..=1.0), 1..200),
            lifted in prop::bool::ANY,
        ) {
            let lift = if lifted { 500 } else { 0 };
            let interval = |&(estimate, below, above, _): &(i64, i64, i64, f64)| {
                [estimate + lift, estimate + lift - below, estimate + lift + above]
            };
            let truth = |trace: &(i64, i64, i64, f64)| {
                let [_, lo, hi] = interval(trace);
                lo + ((hi - lo) as f64 * trace.3) as i64
            };
            let column = |end: usize| sorted(traces.iter().map(|trace| interval(trace)[end]).collect());
            let (estimates, lo, hi) = (column(0), column(1), column(2));
            let truths: Vec<i64> = traces.iter().map(truth).collect();
            let histogram = Histogram::of([&estimates, &lo, &hi]).unwrap();
            for (bin, edges) in histogram.edges.windows(2).enumerate() {
                let true_count = truths.iter().filter(|&&t| t > edges[0] && t <= edges[1]).count();
                prop_assert!(histogram.least[bin] <= true_count && true_count <= histogram.most[bin]);
                let count = histogram.count[bin];
                prop_assert!(histogram.least[bin] <= count && count <= histogram.most[bin]);
            }
            let end = *histogram.edges.last().unwrap();
            let beyond = truths.iter().filter(|&&t| t > end).count();
            prop_assert!(histogram.beyond[1] <= beyond && beyond <= histogram.beyond[2]);
            prop_assert_eq!(histogram.count.iter().sum::<usize>() + histogram.beyond[0], traces.len());
        }
    }
}
