//! Refusals of this crate: expected, found, remedy.

use std::fmt;

use crate::sample::LIMIT_TICKS;

/// A sample or a setting that nothing can be said of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// No values.
    Empty,
    /// Values further apart than [`LIMIT_TICKS`]: the smallest and the largest.
    Apart(i64, i64),
    /// A share above 1, in parts per million.
    Share(u32),
    /// A confidence of 0, of 1 or above, in parts per million.
    Confidence(u32),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "expected at least one value, found none; measure longer"),
            Self::Apart(least, most) => write!(
                f,
                "expected values less than {LIMIT_TICKS} ticks apart, found {least} and {most}; give durations, not \
                 the ticks of unrelated counters"
            ),
            Self::Share(share) => {
                write!(f, "expected a share of at most 1000000 millionths, found {share}; 0.99 is 990000")
            }
            Self::Confidence(share) => {
                write!(f, "expected a confidence of 1 to 999999 millionths, found {share}; 95 % is 950000")
            }
        }
    }
}

impl std::error::Error for Error {}
