//! Gap, else tail: a threshold that adapts to the sample, and says where it can't.
//!
//! The idea: detours are rare (at most 2 %) and mostly far away. Going up from there, each gap between neighbours is
//! tested: if all `k` values above came from the tail that the rest shows, how likely would all of them lie beyond the gap?
//! The first gap that is too unlikely separates outliers. Where there is none, a generalised Pareto distribution fitted
//! to the tail (peaks over threshold; Pickands 1975) says above which value less than half a sample was to be expected.
//!
//! The fit uses quantiles up to 97.5 %, which the detours themselves move little: with 1.5 % of them an exponential tail looks
//! like one of shape 0.5, still below what is refused. All distances are taken from the median, so the rule does not
//! depend on a constant offset; and no distance below the counter's own step is taken for a gap. Abstains where the tail is
//! so heavy that it reaches as far as detours do.

use crate::outlier::{Abstention, Basis, Threshold};
use crate::{Quantile, Sample};

/// Above the last quantile of the fit there are ten values then.
const FEWEST: usize = 400;
/// Outliers are at most this share; what is more frequent is a mode of its own.
const MOST_OUTLIERS: usize = 50;

/// The threshold for this sample, or why there is none.
pub(crate) fn threshold(sample: &Sample) -> Result<Threshold, Abstention> {
    if sample.count() < FEWEST {
        return Err(Abstention::Few { needed: FEWEST, found: sample.count() });
    }
    let tail = Tail::new(sample);
    if let Some((upper, until)) = tail.first_gap(sample) {
        return Ok(Threshold { upper, lower: None, basis: Basis::Gap { until } });
    }
    tail.fence(sample)
}

/// A generalised Pareto distribution of the excess over the 90 % quantile.
struct Tail {
    median: i64,
    start: i64,
    /// xi.
    shape: f64,
    /// sigma, in ticks.
    scale: f64,
    /// The step of the counter: the smallest distance of two different values in the body.
    step: i64,
}

/// The heaviest tail that a fence is given for.
const HEAVIEST: f64 = 0.7;
/// What a fitted shape may be too low by: three standard deviations at 10 000 values, about.
const SHAPE_MARGIN: f64 = 0.3;
/// Chance of a gap this wide, natural logarithm: a few hundred gaps are tested.
const UNLIKELY: f64 = 12.0;
/// How many samples are expected above the fence.
const EXPECTED: f64 = 0.5;

impl Tail {
    fn new(sample: &Sample) -> Self {
        let quantile = |share: u32| sample.quantile(Quantile::per_million(share).expect("at most one million"));
        let (start, half, quarter) = (quantile(900_000), quantile(950_000), quantile(975_000));
        let step = step(&sample.values()[..sample.count() - sample.count() / MOST_OUTLIERS]);
        // Pickands' estimator: the ratio of two distances, over which the tail falls to half and to a quarter.
        let near = (half - start).max(step) as f64;
        let far = (quarter - start) as f64;
        let shape = (far / near - 1.0).max(1.0).log2();
        let scale = near * if shape < NEARLY_0 { 1.0 / 2f64.ln() } else { shape / (shape.exp2() - 1.0) };
        Self { median: sample.quantile(Quantile::MEDIAN), start, shape, scale, step }
    }

    /// The value below the first gap that this tail does not explain, and the one above it.
    fn first_gap(&self, sample: &Sample) -> Option<(i64, i64)> {
        let values = sample.values();
        let first = values.len() - values.len() / MOST_OUTLIERS;
        (first..values.len()).map(|at| (values[at - 1], values[at], values.len() - at)).find_map(
            |(below, above, count)| {
                // A value may stand for anything up to the next step of the counter.
                let reach = (below - self.median + self.step) as f64;
                let ratio = (above - self.median) as f64 / reach;
                let surprise = count as f64 * ratio.ln() / (self.shape + SHAPE_MARGIN);
                (surprise > UNLIKELY).then_some((below, above))
            },
        )
    }

    /// Above it, half a sample is expected.
    fn fence(&self, sample: &Sample) -> Result<Threshold, Abstention> {
        if self.shape > HEAVIEST {
            return Err(Abstention::HeavyTail(self.shape));
        }
        // Where ties leave nothing above the start, nothing more is expected there.
        let rarer = (sample.above(self.start) as f64 / EXPECTED).max(1.0);
        let growth = if self.shape < NEARLY_0 { rarer.ln() } else { (rarer.powf(self.shape) - 1.0) / self.shape };
        let reach = self.scale * growth;
        // Added as an integer: a constant offset must not cost digits.
        let reach = if reach < i64::MAX as f64 { Some(reach.floor() as i64) } else { None };
        let upper = reach.and_then(|reach| self.start.checked_add(reach)).ok_or(Abstention::OutOfRange)?;
        let removed = sample.above(upper);
        if removed > sample.count() / MOST_OUTLIERS {
            return Err(Abstention::AnotherMode(removed));
        }
        Ok(Threshold { upper, lower: None, basis: Basis::Tail { shape: self.shape } })
    }
}

/// Below this shape the formulas divide two numbers that both vanish; the limit is the exponential tail.
const NEARLY_0: f64 = 1e-6;

/// The smallest distance of two different values; one tick where all are equal.
fn step(sorted: &[i64]) -> i64 {
    sorted.windows(2).map(|pair| pair[1] - pair[0]).filter(|&distance| distance > 0).min().unwrap_or(1)
}
