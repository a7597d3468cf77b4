//! Statistics of samples of ticks: skewed, full of ties, and with a tail that is the question.
#![forbid(unsafe_code)]

mod autocorrelation;
mod comparison;
mod confidence;
mod error;
mod medcouple;
mod moments;
mod normal;
mod outlier;
mod pairs;
mod quantile;
mod sample;
mod tail;

pub use autocorrelation::autocorrelation;
pub use comparison::{Comparison, EXACT_RUNS, MannWhitney, ShiftInterval};
pub use confidence::{Confidence, QuantileInterval, Ranks};
pub use error::Error;
pub use medcouple::Medcouple;
pub use moments::{LMoments, Moments};
pub use outlier::{Abstention, Basis, Removal, Rule, Threshold};
pub use quantile::Quantile;
pub use sample::{LIMIT_TICKS, Sample};
