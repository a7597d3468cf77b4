//! Confidence interval of a quantile of one run: its values are correlated, so their order in time counts.
//!
//! Idea (batch means of the indicator, Law and Kelton, Simulation Modeling, 9.5.3): the share of values up to the
//! quantile is counted in contiguous blocks of the run. Correlation within a block moves its share, so the spread of
//! the blocks' shares says how far the share of the whole may be off, whatever the correlation; what is left between
//! neighbouring blocks widens it by `(1 + r)/(1 - r)` and leaves fewer degrees of freedom. Two of the values bound the
//! quantile then, as for independent ones; with ties the interval covers more.
//!
//! Assumes: the run is long against what its values have in common; one that drifts from end to end has blocks that
//! resemble their neighbours, and the interval is wide. Guarantees: never narrower than for independent values by the
//! normal distribution. Deliberately absent: what differs from run to run; a [`crate::Comparison`] of runs has it.

use crate::autocorrelation::autocorrelation;
use crate::quantile::MILLION;
use crate::student::upper_t;
use crate::{Confidence, Quantile};

/// Blocks of a run. So many leave a variance that is known to an eighth, and each is as long as can be.
pub const BLOCKS: usize = 32;
/// Fewer blocks say nothing of their spread.
pub const FEWEST_BLOCKS: usize = 8;
/// Values of a block, at least: below them the share in a block is coarser than what moves it.
pub const FEWEST_OF_A_BLOCK: usize = 10;
/// Correlation of neighbouring blocks beyond which the run is as good as one block.
const MOST_CORRELATED: f64 = 0.95;

/// Two ranks, from 1, that the quantile lies between with about the confidence asked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SeriesRanks {
    /// `None`: no value is low enough, measure longer.
    pub lo: Option<usize>,
    /// `None`: no value is high enough.
    pub hi: Option<usize>,
    /// Correlation of neighbouring blocks, from 0 to 0.95: above a half the run drifts, or is short against what its
    /// values have in common.
    pub block_correlation: f64,
}

impl Quantile {
    /// The ranks that this quantile lies between, of values in order of time. `None`: they are too few for
    /// [`FEWEST_BLOCKS`].
    pub fn series_ranks(self, series: &[i64], confidence: Confidence) -> Option<SeriesRanks> {
        let (count, blocks) = (series.len(), BLOCKS.min(series.len() / FEWEST_OF_A_BLOCK));
        if blocks < FEWEST_BLOCKS {
            return None;
        }
        let value = self.of(&mut series.to_vec())?;
        let share = f64::from(self.share()) / f64::from(MILLION);
        // Of equal values both shares count: the quantile is among them as long as one of the two is on its side.
        let (up_to, below) =
            (shares(series, blocks, |other| other <= value), shares(series, blocks, |other| other < value));
        let shares = if up_to.variance_of_mean() > below.variance_of_mean() { up_to } else { below };
        let independent = share * (1.0 - share) / count as f64;
        let error = shares.variance_of_mean().max(independent).sqrt();
        let half = upper_t(shares.freedom(), confidence.tail()) * error;
        let [lo, hi] = [(share - half) * count as f64, (share + half) * count as f64 + 1.0];
        let (lo, hi) = (lo.floor().max(0.0) as usize, hi.ceil().min(count as f64 + 1.0) as usize);
        let block_correlation = shares.correlation;
        Some(SeriesRanks { lo: (lo > 0).then_some(lo), hi: (hi <= count).then_some(hi), block_correlation })
    }
}

/// The shares of values in blocks.
fn shares(series: &[i64], blocks: usize, counts: impl Fn(i64) -> bool) -> Means {
    let end = |block: usize| block * series.len() / blocks;
    let share = |block: usize| {
        let values = &series[end(block)..end(block + 1)];
        let counted = values.iter().filter(|&&value| counts(value)).count();
        counted as f64 / values.len() as f64
    };
    Means::of(&(0..blocks).map(share).collect::<Vec<f64>>())
}

/// The mean of a figure of blocks that follow one another.
pub(crate) struct Means {
    blocks: f64,
    variance: f64,
    correlation: f64,
}

impl Means {
    /// Of figures from -1 to 1.
    pub(crate) fn of(figures: &[f64]) -> Self {
        let blocks = figures.len() as f64;
        let mean = figures.iter().sum::<f64>() / blocks;
        let variance = figures.iter().map(|figure| (figure - mean) * (figure - mean)).sum::<f64>() / (blocks - 1.0);
        let scaled: Vec<i64> = figures.iter().map(|figure| (figure * f64::from(MILLION)) as i64).collect();
        // What few blocks lose of it on average (Kendall 1954).
        let of_few = |found: f64| (found + 1.0 / blocks) / (1.0 - 3.0 / blocks);
        let correlation = autocorrelation(&scaled, 1).map_or(0.0, of_few).clamp(0.0, MOST_CORRELATED);
        Self { blocks, variance, correlation }
    }

    /// How many times the variance of their mean is that of independent ones.
    fn inflation(&self) -> f64 {
        (1.0 + self.correlation) / (1.0 - self.correlation)
    }

    pub(crate) fn variance_of_mean(&self) -> f64 {
        self.variance / self.blocks * self.inflation()
    }

    pub(crate) fn freedom(&self) -> f64 {
        (self.blocks / self.inflation() - 1.0).max(1.0)
    }
}
