//! Gap, else tail: a threshold that adapts to the sample, and says where it can't.
//!
//! The idea: outliers are rare (at most 2 %) and mostly far away. Going up from there, each gap between neighbours is
//! tested: if all `k` values above came from the tail that the rest shows, how likely would all of them lie beyond the
//! gap? The first gap that is too unlikely separates outliers. Where there is none, a generalised Pareto distribution
//! fitted to the tail (peaks over threshold; Pickands 1975) says above which value less than half a sample was to be
//! expected.
//!
//! More than 2 % are not judged: noise that frequent and another mode of the work look alike. They are found by what
//! no single mode has, an empty stretch above the median with values again beyond it ([`Tail::frequent`]), because
//! from 10 % on they hold the 90 % quantile where the fit begins and would be taken for the body. Where they leave no
//! empty stretch, the upper half reaches out too far for a body ([`HEAVIEST_BODY`]).
//!
//! The fit uses quantiles up to 97.5 %, which rare outliers move little: with 1.5 % of them an exponential tail looks
//! like one of shape 0.5, still below what is refused. All distances are taken from the median, so the rule does not
//! depend on a constant offset; and no distance below the counter's own step is taken for a gap. Abstains where the
//! tail is so heavy that it reaches as far as detours do.

use std::num::NonZeroU64;

use crate::outlier::{Basis, Fence, Why};
use crate::{Quantile, Sample, step};

/// Above the last quantile of the fit there are ten values then.
const FEWEST: usize = 400;
/// Outliers are at most this part; what is more frequent is not judged.
const MOST_OUTLIERS: usize = 50;
/// The part of the values above the last quantile of the fit.
const BEYOND_FIT: usize = 40;

/// The threshold for this sample, or why there is none.
pub(crate) fn fence(sample: &Sample, step: Option<NonZeroU64>) -> Result<Fence, Why> {
    if sample.count() < FEWEST {
        return Err(Why::Few { needed: FEWEST, found: sample.count() });
    }
    let tail = Tail::new(sample, step);
    if let Some(above) = tail.frequent(sample) {
        return Err(too_many(sample, above));
    }
    let fence = match tail.first_gap(sample) {
        Some(gap) => tail_before(sample, gap, step)?,
        None => tail.fence(sample)?,
    };
    if sample.above(fence.upper) > sample.count() / MOST_OUTLIERS {
        return Err(too_many(sample, fence.upper));
    }
    Ok(fence)
}

/// The gap, unless what lies before it is no tail: outliers make a tail look heavier than it is, and hide the gap that
/// they begin at.
fn tail_before(sample: &Sample, (upper, until): (i64, i64), step: Option<NonZeroU64>) -> Result<Fence, Why> {
    let rest = Sample::of_sorted(&sample.values()[..sample.count() - sample.above(upper)]).expect("98 % or more");
    let left = Tail::new(&rest, step).fence(&rest)?;
    let is_outliers = rest.above(left.upper) >= MODE;
    Ok(if is_outliers { left } else { Fence { upper, lower: None, basis: Basis::Gap { until } } })
}

fn too_many(sample: &Sample, above: i64) -> Why {
    Why::Frequent { above, count: sample.above(above), of: sample.count() }
}

/// A generalised Pareto distribution of the excess over the 90 % quantile.
struct Tail {
    median: i64,
    start: Spread,
    /// xi.
    shape: f64,
    /// The same fitted to the upper half.
    body_shape: f64,
    /// sigma, in ticks.
    scale: f64,
    /// The step of the counter.
    step: i64,
}

/// The heaviest tail that a fence is given for.
const HEAVIEST: f64 = 0.7;
/// The heaviest upper half: where it falls to a quarter five times as far out as to a half.
const HEAVIEST_BODY: f64 = 2.0;
/// Margin by which a fitted shape may be too low: three standard deviations at 10 000 values, about.
const SHAPE_MARGIN: f64 = 0.3;
/// Chance of a gap this wide, natural logarithm: a few hundred gaps are tested.
const UNLIKELY: f64 = 12.0;
/// How many samples are expected above the fence.
const EXPECTED: f64 = 0.5;
/// So many values just beyond an empty stretch of the same width are another mode's: where the density falls, e^-8.
const MODE: usize = 8;
/// A stretch is compared with the next that is this part of the range below it: values that only few can take leave
/// small gaps.
const PART: i64 = 8;
/// And at least so many steps of the counter, lest one step more or less tell.
const STEPS: i64 = 4;
/// So many times the values of one stretch are another mode's in the next.
const DENSER: usize = 4;

impl Tail {
    fn new(sample: &Sample, step: Option<NonZeroU64>) -> Self {
        let step = step.map_or_else(|| step::found(sample.values()), step::given);
        let spread = |shares: [u32; 3]| shares.map(|share| Spread::of(sample, share, step));
        let tail = spread([900_000, 950_000, 975_000]);
        let (shape, near) = pickands(&tail, step);
        let (body_shape, _) = pickands(&spread([500_000, 750_000, 875_000]), step);
        let scale = near * if shape < NEARLY_0 { 1.0 / 2f64.ln() } else { shape / (shape.exp2() - 1.0) };
        let [start, ..] = tail;
        Self { median: sample.quantile(Quantile::MEDIAN), start, shape, body_shape, scale, step }
    }

    /// Above this value lie more than outliers can be, and what lies between them and the others is empty or nearly so.
    fn frequent(&self, sample: &Sample) -> Option<i64> {
        let values = sample.values();
        let most = values.len() - values.len() / MOST_OUTLIERS;
        let upto = |value: i64| values.partition_point(|&other| other <= value);
        (values.len().div_ceil(2)..most).filter(|&at| values[at] > values[at - 1]).find_map(|at| {
            let (below, above) = (values[at - 1], values[at]);
            // Values may stand for anything up to the next step, and one step may have been missed.
            let empty = above - below - self.step;
            let part = (below - sample.least()) / PART;
            let last_of_mode = values.get(at + MODE - 1);
            if empty >= part.max(self.step) && last_of_mode.is_some_and(|&last| last - above <= empty) {
                return Some(below);
            }
            let width = part.max(self.step.saturating_mul(STEPS));
            let [near, far] = [1, 2].map(|times| upto(below.saturating_add(width.saturating_mul(times))));
            (near < most && far - near > DENSER * (near - at) + MODE).then(|| below + width)
        })
    }

    /// The value below the first gap that this tail does not explain, and the one above it.
    fn first_gap(&self, sample: &Sample) -> Option<(i64, i64)> {
        let values = sample.values();
        let first = values.len() - values.len() / BEYOND_FIT;
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

    /// Fence of the tail itself, where it has enough values.
    fn fence(&self, sample: &Sample) -> Result<Fence, Why> {
        if self.shape > HEAVIEST {
            return Err(Why::HeavyTail(self.shape));
        }
        if self.body_shape > HEAVIEST_BODY {
            return Err(Why::HeavyTail(self.body_shape));
        }
        let upper = self.limit(sample, self.shape).ok_or(Why::OutOfRange)?;
        Ok(Fence { upper, lower: None, basis: Basis::Tail { shape: self.shape, expected: EXPECTED } })
    }

    /// Above it, half a sample is expected of a tail of this shape.
    fn limit(&self, sample: &Sample, shape: f64) -> Option<i64> {
        // Where ties leave nothing above the start, nothing more is expected there.
        let rarer = (sample.above(self.start.value) as f64 / EXPECTED).max(1.0);
        let growth = if shape < NEARLY_0 { rarer.ln() } else { (rarer.powf(shape) - 1.0) / shape };
        // Values equal to the start lie on both sides of where it would be, and are no more outliers than it is.
        let reach = (self.start.within + self.scale * growth).max(0.0);
        // Added as an integer: a constant offset must not cost digits.
        if reach < i64::MAX as f64 { self.start.value.checked_add(reach.floor() as i64) } else { None }
    }
}

/// Below this shape the formulas divide two numbers that both vanish; the limit is the exponential tail.
const NEARLY_0: f64 = 1e-6;

/// A quantile, and where within the counter's step it would be if equal values were spread over it: a coarse counter's
/// quantiles are a few steps apart, whose ratios say nothing of the shape.
struct Spread {
    value: i64,
    /// From minus half a step to half a step.
    within: f64,
}

impl Spread {
    fn of(sample: &Sample, share: u32, step: i64) -> Self {
        let quantile = Quantile::per_million(share).expect("at most one million");
        let value = sample.quantile(quantile);
        let rank = quantile.rank(sample.count()).expect("a sample holds at least one value");
        let first = sample.values().partition_point(|&other| other < value);
        let equal = sample.count() - sample.above(value) - first;
        Self { value, within: step as f64 * ((rank - first) as f64 / equal as f64 - 0.5) }
    }

    fn to(&self, farther: &Self) -> f64 {
        (farther.value - self.value) as f64 + farther.within - self.within
    }
}

/// Pickands' estimator of the shape: the ratio of two distances, over which the tail falls to half and to a quarter.
/// And the nearer of them.
fn pickands([start, half, quarter]: &[Spread; 3], step: i64) -> (f64, f64) {
    let near = start.to(half).max(step as f64);
    ((start.to(quarter) / near - 1.0).max(1.0).log2(), near)
}
