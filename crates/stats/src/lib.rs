//! Statistics of samples of ticks: skewed, full of ties, and with a tail that is the question.
//!
//! A [`Sample`] holds values in ascending order and answers what a distribution can be asked: its quantiles, of one
//! definition ([`Quantile`]), and what those of the population lie between ([`Confidence`]); its [`Medcouple`], exact
//! on ties; its [`Moments`] and [`LMoments`]. A [`Rule`] gives a [`Threshold`] for outliers, or says why it has none. A
//! [`Comparison`] sets runs against runs; [`autocorrelation`] says why samples within a run are not runs, and
//! [`Blocks`] resamples one run by stretches of time.
//!
//! Assumes: values are durations or other differences of ticks, less than 2^62 apart. Guarantees: quantiles, medcouple,
//! shift and the fences of formulas are exact; nothing depends on the order of values but [`autocorrelation`] and
//! [`Blocks`]; no input panics; the same input gives the same figures. Deliberately absent: clocks, files, guaranteed
//! bounds: those are intervals of ticks, in `bracket` and `trace`; what is here is confidence.
//!
//! ```
//! use tickscope_stats::{Confidence, Quantile, Rule, Sample};
//! let ticks: Vec<i64> = (0..1000).map(|k| if k % 250 == 0 { 9_000 + k } else { 18 + k % 3 * 2 }).collect();
//! let sample = Sample::new(&ticks)?;
//! let p99 = sample.interval(Quantile::P99, Confidence::P95);
//! assert_eq!((sample.quantile(Quantile::P99), p99.lo, p99.hi), (22, Some(22), Some(9_000)));
//! let threshold = Rule::GapOrTail.threshold(&sample, None).unwrap();
//! assert_eq!((threshold.upper, threshold.removal.count), (22, 4));
//! # Ok::<(), tickscope_stats::Error>(())
//! ```
#![forbid(unsafe_code)]

mod autocorrelation;
mod bootstrap;
mod comparison;
mod confidence;
mod error;
mod medcouple;
mod moments;
mod normal;
mod outlier;
mod pairs;
mod quantile;
mod ratio;
mod sample;
mod series;
mod step;
mod student;
mod tail;

pub use autocorrelation::autocorrelation;
pub use bootstrap::{Blocks, stretches, widening};
pub use comparison::{Comparison, EXACT_RUNS, MannWhitney, ShiftInterval};
pub use confidence::{Confidence, QuantileInterval, Ranks};
pub use error::Error;
pub use medcouple::Medcouple;
pub use moments::{LMoments, Moments};
pub use outlier::{Abstention, Basis, Removal, Rule, Threshold, Why};
pub use quantile::Quantile;
pub use ratio::BlockRatio;
pub use sample::{LIMIT_TICKS, Sample};
pub use series::{BLOCKS, FEWEST_BLOCKS, FEWEST_OF_A_BLOCK, SeriesRanks};
