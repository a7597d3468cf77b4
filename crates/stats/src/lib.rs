//! Statistics of samples of ticks: skewed, full of ties, and with a tail that is the question.
#![forbid(unsafe_code)]

mod confidence;
mod error;
mod medcouple;
mod pairs;
mod quantile;
mod sample;

pub use confidence::{Confidence, QuantileInterval, Ranks};
pub use error::Error;
pub use medcouple::Medcouple;
pub use quantile::Quantile;
pub use sample::{LIMIT_TICKS, Sample};
