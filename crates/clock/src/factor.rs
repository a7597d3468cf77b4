//! A factor, such as the improvement k, with what it lies between: found anew in each stretch of a measurement.
//!
//! One factor of all values says nothing of how far it can be relied on, and the usual formulas assume independent
//! values, which readings in a row are not. So a measurement is cut into stretches of time, each gives a factor of its
//! own, and the order of those bounds the median of what any stretch gives (`tickscope_stats::confidence`): no shape is
//! assumed, and one preemption spoils one stretch. Assumes that stretches are longer than what a load remembers.

use std::fmt;

use serde::Serialize;
use tickscope_stats::{Confidence, Quantile};

/// Stretches that the trials of one test are cut into: of 12, the 3rd and the 10th bound the median with 96 %.
pub const STRETCHES: usize = 12;
/// Trials that a stretch holds at least: a variance of fewer is no figure.
const TRIALS_MIN: usize = 8;

/// The factors of several stretches.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Factor {
    /// Their median.
    pub median: f64,
    /// 95 % confidence interval of the median of all such stretches; `None`: too few of them.
    pub between: Option<[f64; 2]>,
    /// Number of stretches.
    pub stretches: usize,
}

/// On which side of a limit a factor is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// All that it may be is above.
    Above,
    /// All that it may be is below.
    Below,
    /// The limit lies within, or there were too few stretches.
    Open,
}

impl Factor {
    /// Factor of stretches in any order; those in which nothing varied have none. `None`: no stretch has one, or the
    /// median is infinite.
    pub fn of(stretches: impl Iterator<Item = Option<f64>>) -> Option<Self> {
        let mut values: Vec<f64> = stretches.flatten().filter(|value| !value.is_nan()).collect();
        values.sort_by(f64::total_cmp);
        let median = values[Quantile::MEDIAN.rank(values.len())? - 1];
        let ranks = Quantile::MEDIAN.ranks(values.len(), Confidence::P95);
        let between = ranks.lo.zip(ranks.hi).map(|(lo, hi)| [values[lo - 1], values[hi - 1]]);
        median.is_finite().then_some(Self { median, between, stretches: values.len() })
    }

    /// On which side of that limit it is.
    pub fn side(&self, limit: f64) -> Side {
        match self.between {
            Some([lo, _]) if lo > limit => Side::Above,
            Some([_, hi]) if hi < limit => Side::Below,
            _ => Side::Open,
        }
    }
}

/// With what it lies between, in brackets.
impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Few letters, however large: columns hold them.
        let number = |k: f64| match k.abs() {
            size if size >= 1e3 && k.is_finite() => format!("{k:.0e}"),
            size if size >= 100.0 => format!("{k:.0}"),
            size if size >= 10.0 => format!("{k:.1}"),
            _ => format!("{k:.2}"),
        };
        let median = number(self.median);
        f.pad(&match self.between {
            Some([lo, hi]) => format!("{median} [{} {}]", number(lo), number(hi)),
            None => format!("{median} [?]"),
        })
    }
}

/// Trials in order of time, in stretches of equal length; fewer than [`STRETCHES`] where there are few trials.
pub fn stretches<T>(trials: &[T]) -> impl Iterator<Item = &[T]> {
    trials.chunks_exact((trials.len() / STRETCHES).max(TRIALS_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_lies_between_the_third_and_the_tenth_of_twelve_and_is_the_sixth() {
        let twelve = || (1..=12).rev().map(|value| Some(f64::from(value)));
        let factor = Factor::of(twelve().chain([None])).unwrap();
        assert_eq!((factor.median, factor.between, factor.stretches), (6.0, Some([3.0, 10.0]), 12));
        assert_eq!(
            [2.9, 3.0, 10.0, 10.1].map(|limit| factor.side(limit)),
            [Side::Above, Side::Open, Side::Open, Side::Below]
        );
        let five = Factor::of(twelve().take(5)).unwrap();
        assert_eq!((five.between, five.side(0.0)), (None, Side::Open), "5 values leave out more than 5 %");
        assert_eq!([factor.to_string(), five.to_string()], ["6.00 [3.00 10.0]", "10.0 [?]"]);
        assert_eq!(Factor::of([None, Some(f64::NAN)].into_iter()), None);
        assert_eq!(Factor::of([Some(f64::INFINITY)].into_iter()), None);
    }

    #[test]
    fn stretches_hold_all_but_a_few_trials_and_never_too_few_for_a_variance() {
        let lengths = |count: usize| stretches(&vec![0; count]).map(<[i32]>::len).collect::<Vec<usize>>();
        assert_eq!(lengths(1_205), [100; 12]);
        assert_eq!(lengths(40), [8; 5]);
        assert!(lengths(7).is_empty());
    }
}
