//! Ratio of two sums over stretches of time, such as lost by measured time, and how far chance leaves it open.
//!
//! Idea (Cochran, Sampling Techniques, 6.8): what the first sum of a block has beyond the ratio's part of its second is
//! the block's residual; the spread of the blocks' residuals is that of the ratio. Correlation and degrees of freedom
//! are those of [`crate::series`]; where few blocks hold most of the residuals, the degrees are those of so many.
//! Assumes: blocks in order of time. Guarantees: fewer than [`FEWEST_BLOCKS`] have no interval. Deliberately absent:
//! what differs from run to run.

use crate::bootstrap::stretches;
use crate::series::{BLOCKS, FEWEST_BLOCKS, Means};
use crate::student::upper_t;
use crate::{Confidence, Quantile, Sample};

/// A ratio of sums, and how far off it may be to either side.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BlockRatio {
    /// Of all blocks together.
    pub ratio: f64,
    /// `None`: too few blocks, or nothing below the line.
    pub half: Option<f64>,
}

impl BlockRatio {
    /// Of blocks with `[first, second]` each; `None` where the second ones add up to nothing.
    pub fn of(parts: &[[f64; 2]], confidence: Confidence) -> Option<Self> {
        let sum = |parts: &[[f64; 2]]| parts.iter().fold([0.0; 2], |sum, part| [0, 1].map(|at| sum[at] + part[at]));
        let [first, second] = sum(parts);
        let ratio = Some(first / second).filter(|_| second > 0.0)?;
        let blocks = BLOCKS.min(parts.len());
        if blocks < FEWEST_BLOCKS {
            return Some(Self { ratio, half: None });
        }
        let end = |block: usize| block * parts.len() / blocks;
        let joined = (0..blocks).map(|block| sum(&parts[end(block)..end(block + 1)]));
        let mean = second / blocks as f64;
        let residuals: Vec<f64> = joined.map(|[first, second]| (first - ratio * second) / mean).collect();
        let largest = residuals.iter().fold(0.0_f64, |most, residual| most.max(residual.abs()));
        if largest == 0.0 {
            return Some(Self { ratio, half: Some(0.0) });
        }
        let means = Means::of(&residuals.iter().map(|residual| residual / largest).collect::<Vec<_>>());
        let held: Vec<f64> = residuals.iter().map(|residual| residual.abs()).collect();
        let freedom = means.freedom().min(stretches(&held) - 1.0).max(1.0);
        let half = upper_t(freedom, confidence.tail()) * means.variance_of_mean().sqrt() * largest;
        Some(Self { ratio, half: Some(half) })
    }
}

impl Sample {
    /// A quantile of values that were taken in blocks, and what it lies between: the share of the values up to it is
    /// a ratio (Woodruff 1952). The blocks hold the sample's values, each in any order.
    pub fn quantile_of_blocks(
        &self,
        quantile: Quantile,
        blocks: &[&[i64]],
        confidence: Confidence,
    ) -> [Option<i64>; 3] {
        let value = self.quantile(quantile);
        let half = [|a: i64, b: i64| a <= b, |a: i64, b: i64| a < b].map(|counts| {
            let part = |block: &&[i64]| {
                let up_to = block.iter().filter(|&&other| counts(other, value)).count();
                [up_to as f64, block.len() as f64]
            };
            BlockRatio::of(&blocks.iter().map(part).collect::<Vec<_>>(), confidence).and_then(|of| of.half)
        });
        let share = f64::from(quantile.share()) / 1e6;
        // Never narrower than for independent values by the normal distribution, as a series' ranks.
        let least = upper_t(1e3, confidence.tail()) * (share * (1.0 - share) / self.count() as f64).sqrt();
        let Some(half) = half[0].zip(half[1]).map(|(a, b)| a.max(b).max(least)) else {
            return [Some(value), None, None];
        };
        let count = self.count() as f64;
        let at = |rank: f64| (1.0..=count).contains(&rank).then(|| self.values()[rank as usize - 1]);
        [Some(value), at(((share - half) * count).floor()), at(((share + half) * count).ceil() + 1.0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_of_equal_blocks_is_exact_and_few_blocks_have_no_interval() {
        let of = |parts: &[[f64; 2]]| BlockRatio::of(parts, Confidence::P95);
        assert_eq!(of(&[[2.0, 8.0]; 9]), Some(BlockRatio { ratio: 0.25, half: Some(0.0) }));
        assert_eq!(of(&[[2.0, 8.0]; 7]), Some(BlockRatio { ratio: 0.25, half: None }));
        assert_eq!((of(&[]), of(&[[0.0, 0.0]; 9])), (None, None));
    }

    #[test]
    fn the_interval_is_that_of_a_mean_where_all_blocks_are_as_long_and_one_block_alone_proves_nothing() {
        // Nine times 0 and nine times 1, one after the other: the mean of 18 with a standard deviation of 0.5145.
        let parts: Vec<[f64; 2]> = (0..18).map(|at| [f64::from(at * 5 % 18 / 9), 1.0]).collect();
        let of = BlockRatio::of(&parts, Confidence::P95).unwrap();
        let exact = 2.110 * 0.5145 / 18_f64.sqrt();
        assert!((of.half.unwrap() / exact - 1.0).abs() < 0.01, "{of:?}, {exact}");
        let mut parts = [[0.0, 1.0]; 30];
        parts[11] = [1.0, 1.0];
        let of = BlockRatio::of(&parts, Confidence::P99).unwrap();
        assert!(of.half.unwrap() > 4.0 * of.ratio, "{of:?}");
    }

    #[test]
    fn a_quantile_of_blocks_that_differ_is_less_sure_than_of_blocks_that_are_alike() {
        let alike: Vec<Vec<i64>> = (0..20).map(|_| (0..100).collect()).collect();
        let differ: Vec<Vec<i64>> =
            (0..20).map(|block| (0..100).map(|at| at / 4 + block * 7 % 20 * 4).collect()).collect();
        let ends = |blocks: &[Vec<i64>]| {
            let sample = Sample::new(&blocks.concat()).unwrap();
            let blocks: Vec<&[i64]> = blocks.iter().map(Vec::as_slice).collect();
            sample.quantile_of_blocks(Quantile::MEDIAN, &blocks, Confidence::P95).map(Option::unwrap)
        };
        let ([at, lo, hi], [_, low, high]) = (ends(&alike), ends(&differ));
        assert!(lo < at && at < hi && hi - lo < 8, "{lo} {at} {hi}");
        assert!(high - low > 2 * (hi - lo), "{low} {high}");
    }
}
