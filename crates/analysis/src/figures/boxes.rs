//! Box plots of stages, from exact order statistics, each with its bounds.

use serde::Serialize;
use tickscope_trace::{Quantile, Stage, StageRole, StageValues};

/// An order statistic of the estimates, and what the true one lies between.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Bounded {
    /// The figure of the estimates.
    pub estimate: i64,
    /// The figure of the lower ends: the true one is not below.
    pub lo: i64,
    /// The figure of the upper ends: the true one is not above.
    pub hi: i64,
}

/// One stage as a box (X-Lap, section 3.3.2).
#[derive(Clone, Debug, Serialize)]
pub struct StageBox {
    /// The stage's name.
    pub stage: String,
    /// Role in its layout: `path`, `end-to-end`, `branch`, ...
    pub role: String,
    /// Index of the point it starts at.
    pub from: usize,
    /// Index of the point it ends at.
    pub to: usize,
    /// How many durations.
    pub count: usize,
    /// Smallest, quartiles and the tail; `None` without durations.
    pub quantiles: Option<Quantiles>,
}

/// The order statistics of a box.
#[derive(Clone, Debug, Serialize)]
pub struct Quantiles {
    /// The shortest.
    pub least: Bounded,
    /// A quarter is not longer.
    pub q1: Bounded,
    /// Half is not longer.
    pub median: Bounded,
    /// Three quarters are not longer.
    pub q3: Bounded,
    /// 99 of 100 are not longer.
    pub p99: Bounded,
    /// 999 of 1000 are not longer.
    pub p999: Bounded,
    /// The longest.
    pub most: Bounded,
    /// The first and the last estimate within 1.5 times the distance of the quartiles from them.
    pub whiskers: (i64, i64),
    /// How many estimates lie beyond the whiskers.
    pub outliers: usize,
}

impl StageBox {
    /// The box of `stage`, whose values are `values`.
    pub fn of(stage: &Stage, values: &mut StageValues) -> Self {
        let [estimates, lo, hi] = values.sorted();
        let at = |millionths: u32| {
            let rank = Quantile::per_million(millionths).ok()?.rank(estimates.len())? - 1;
            Some(Bounded { estimate: estimates[rank], lo: lo[rank], hi: hi[rank] })
        };
        let least = estimates.first().map(|&estimate| Bounded { estimate, lo: lo[0], hi: hi[0] });
        let quantiles = || {
            let (q1, q3) = (at(250_000)?, at(750_000)?);
            let (first, last) = within_fences(estimates, q1.estimate, q3.estimate);
            Some(Quantiles {
                least: least?,
                q1,
                median: at(500_000)?,
                q3,
                p99: at(990_000)?,
                p999: at(999_000)?,
                most: at(1_000_000)?,
                whiskers: (estimates[first], estimates[last]),
                outliers: first + estimates.len() - 1 - last,
            })
        };
        Self {
            stage: stage.name.clone(),
            role: role_name(stage.role),
            from: stage.from,
            to: stage.to,
            count: estimates.len(),
            quantiles: quantiles(),
        }
    }
}

/// `Path` as `path`, `EndToEnd` as `end-to-end`.
fn role_name(role: StageRole) -> String {
    let mut name = String::new();
    for letter in format!("{role:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

/// Ranks of the first and the last value that is no outlier (Tukey's fences); `sorted` holds `q1` and `q3`.
fn within_fences(sorted: &[i64], q1: i64, q3: i64) -> (usize, usize) {
    // Doubled, so that half of the distance is no fraction; in 128 bits, since any tick is legal.
    let (q1, q3) = (2 * i128::from(q1), 2 * i128::from(q3));
    let reach = 3 * (q3 - q1) / 2;
    let first = sorted.partition_point(|&value| 2 * i128::from(value) < q1 - reach);
    let end = sorted.partition_point(|&value| 2 * i128::from(value) <= q3 + reach);
    (first, end - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickscope_trace::LayoutText;

    fn boxed(values: impl IntoIterator<Item = [i64; 3]>) -> StageBox {
        let path = ["a.x", "b.y"].map(String::from).to_vec();
        let layout = LayoutText { path, ..LayoutText::default() }.parse(None).unwrap();
        let mut all = StageValues::default();
        values.into_iter().for_each(|value| all.push(value));
        StageBox::of(&layout.stages()[0], &mut all)
    }

    #[test]
    fn every_quantile_carries_the_same_rank_of_either_end() {
        let quantiles = boxed((1..=1000).rev().map(|n| [n, n - 7, n + 9])).quantiles.unwrap();
        assert_eq!(quantiles.median, Bounded { estimate: 500, lo: 493, hi: 509 });
        assert_eq!(quantiles.p99, Bounded { estimate: 990, lo: 983, hi: 999 });
        assert_eq!(quantiles.p999, Bounded { estimate: 999, lo: 992, hi: 1008 });
        assert_eq!((quantiles.least.lo, quantiles.most.hi), (-6, 1009));
    }

    #[test]
    fn a_whisker_ends_at_the_last_value_within_one_and_a_half_boxes() {
        // Quartiles 2 and 6: fences at -4 and 12.
        let at_the_fence = boxed([-4, 2, 2, 4, 5, 6, 6, 12].map(|n| [n; 3])).quantiles.unwrap();
        assert_eq!((at_the_fence.whiskers, at_the_fence.outliers), ((-4, 12), 0));
        let past_it = boxed([-5, 2, 2, 4, 5, 6, 6, 13].map(|n| [n; 3])).quantiles.unwrap();
        assert_eq!((past_it.whiskers, past_it.outliers), ((2, 6), 2));
        let extremes = boxed([[i64::MIN; 3], [i64::MAX; 3]]).quantiles.unwrap();
        assert_eq!(extremes.outliers, 0);
    }

    #[test]
    fn a_stage_without_durations_has_no_box() {
        let none = boxed([]);
        assert_eq!((none.count, none.role.as_str()), (0, "path"));
        assert!(none.quantiles.is_none());
        assert_eq!(role_name(StageRole::EndToEnd), "end-to-end");
    }
}
