//! Statistics of samples of ticks: skewed, full of ties, and with a tail that is the question.
#![forbid(unsafe_code)]

mod confidence;
mod error;
mod medcouple;
mod outlier;
mod pairs;
mod quantile;
mod sample;
mod tail;

pub use confidence::{Confidence, QuantileInterval, Ranks};
pub use error::Error;
pub use medcouple::Medcouple;
pub use outlier::{Abstention, Basis, Removal, Rule, Threshold};
pub use quantile::Quantile;
pub use sample::{LIMIT_TICKS, Sample};
