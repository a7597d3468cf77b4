//! Confidence interval of a population's quantile, given a sample: no assumption about its shape.
//!
//! Of `n` independent values the number at or below the true quantile of share `p` is binomial `(n, p)`, whatever the
//! distribution; with ties the interval only covers more. So two of the values themselves bound it, their ranks
//! read off the binomial distribution (David and Nagaraja, Order Statistics, 7.1). Each tail gets half of what the
//! confidence leaves.
//!
//! Assumes: independent values of one distribution. Samples within a run are not: they are correlated, and the interval
//! is then far too narrow (measured: 95 % covered 3 to 52 %). Ask it of one value a run, or say so next to it.
//! Guarantees: covers at least the confidence; where a tail is within 1e-9 of its half, rounding may cost one rank
//! outward.

use crate::quantile::MILLION;
use crate::{Error, Quantile, Sample};

/// A chance of being right, in parts per million; neither 0 nor 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Confidence(u32);

/// Two ranks, from 1, that the quantile lies between with at least the confidence asked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ranks {
    /// `None`: no value is low enough, take more of them.
    pub lo: Option<usize>,
    /// `None`: no value is high enough.
    pub hi: Option<usize>,
    /// The chance that the interval holds the quantile of a continuous distribution; not below the confidence.
    pub coverage: f64,
}

/// Two values that the quantile of the population lies between.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QuantileInterval {
    /// `None`: the sample is too small for a lower end.
    pub lo: Option<i64>,
    /// `None`: the sample is too small for an upper end.
    pub hi: Option<i64>,
    /// The chance that the interval holds the quantile of a continuous distribution; not below the confidence.
    pub coverage: f64,
}

impl Confidence {
    /// 95 %.
    pub const P95: Self = Self(950_000);
    /// 99 %.
    pub const P99: Self = Self(990_000);

    /// From 1 to 999 999 millionths.
    pub fn per_million(share: u32) -> Result<Self, Error> {
        if (1..MILLION).contains(&share) { Ok(Self(share)) } else { Err(Error::Confidence(share)) }
    }

    /// Probability left to one tail, a little less than half of the rest: the sums that it is compared with are
    /// rounded.
    pub fn tail(self) -> f64 {
        f64::from(MILLION - self.0) / f64::from(2 * MILLION) * (1.0 - ROUNDING)
    }
}

impl Quantile {
    /// The ranks that this quantile lies between in `count` values.
    pub fn ranks(self, count: usize, confidence: Confidence) -> Ranks {
        let (first, chances) = binomial(count, f64::from(self.share()) / f64::from(MILLION));
        let (below, low) = tail(chances.iter(), confidence.tail());
        let (above, high) = tail(chances.iter().rev(), confidence.tail());
        let (lo, hi) = (first + below, first + chances.len() - above);
        Ranks { lo: (lo > 0).then_some(lo), hi: (hi <= count).then_some(hi), coverage: 1.0 - low - high }
    }
}

impl Sample {
    /// Confidence interval of the population's quantile.
    pub fn interval(&self, quantile: Quantile, confidence: Confidence) -> QuantileInterval {
        let Ranks { lo, hi, coverage } = quantile.ranks(self.count(), confidence);
        let value = |rank: usize| self.values()[rank - 1];
        QuantileInterval { lo: lo.map(value), hi: hi.map(value), coverage }
    }
}

/// Relative; more than the rounding of sums over a binomial distribution adds up to.
const ROUNDING: f64 = 1e-9;
/// Relative to the most likely count: beyond this the chances add up to nothing.
const NEGLIGIBLE: f64 = 1e-30;

/// The chances of `first`, `first + 1`, ... successes among `count` trials, where they are not negligible. Found from
/// the most likely one by the ratio of neighbours: no factorial is needed, as all add up to 1.
fn binomial(count: usize, chance: f64) -> (usize, Vec<f64>) {
    let odds = chance / (1.0 - chance);
    let mode = (((count + 1) as f64 * chance) as usize).min(count);
    let more = |k: usize| (count - k) as f64 / (k + 1) as f64 * odds;
    let down = (0..mode).rev().scan(1.0, |at, k| Some(kept(at, *at / more(k)))).map_while(|chance| chance);
    let mut chances: Vec<f64> = down.collect();
    let first = mode - chances.len();
    chances.reverse();
    chances.push(1.0);
    chances.extend((mode..count).scan(1.0, |at, k| Some(kept(at, *at * more(k)))).map_while(|chance| chance));
    let all: f64 = chances.iter().sum();
    chances.iter_mut().for_each(|chance| *chance /= all);
    (first, chances)
}

/// The next chance, unless it is negligible.
fn kept(at: &mut f64, next: f64) -> Option<f64> {
    *at = next;
    (next > NEGLIGIBLE).then_some(next)
}

/// Number of chances from this side add up to no more than `most`, and what they add up to.
fn tail<'a>(chances: impl Iterator<Item = &'a f64>, most: f64) -> (usize, f64) {
    let (mut taken, mut sum) = (0, 0.0);
    for chance in chances {
        if sum + chance > most {
            break;
        }
        (taken, sum) = (taken + 1, sum + chance);
    }
    (taken, sum)
}
