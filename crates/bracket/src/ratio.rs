//! An exact positive rate: reference ticks per local tick, as a fraction in lowest terms.

use std::cmp::Ordering;
use std::fmt;

use ethnum::U256;

use crate::Error;

/// A positive fraction in lowest terms, in reference ticks per local tick.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ratio {
    numerator: u128,
    denominator: u128,
}

impl Ratio {
    /// The largest rate that can be declared, and the inverse of the smallest: 2^12, so that fixed-point slopes fit 73
    /// bits.
    pub const MOST: u64 = 1 << 12;

    /// Numerator and denominator of a declared ratio must stay below this after reduction: 2^50, more than a counter's
    /// frequency in microhertz.
    pub const PART_LIMIT: u64 = 1 << 50;

    /// `numerator / denominator` reference ticks per local tick, such as the two counters' frequencies in hertz.
    ///
    /// Refused: zero, parts of 2^50 and more, and rates outside `[2^-12, 2^12]`.
    pub fn new(numerator: u64, denominator: u64) -> Result<Self, Error> {
        let wrong = || Error::Declaration {
            what: "nominal ratio",
            expected: "reference ticks per local tick between 1/4096 and 4096, in lowest terms with both parts below \
                       2^50",
            found: format!("{numerator}/{denominator}"),
        };
        if numerator == 0 || denominator == 0 {
            return Err(wrong());
        }
        let Self { numerator: n, denominator: d } = Self::lowest(numerator.into(), denominator.into());
        let (most, limit) = (u128::from(Self::MOST), u128::from(Self::PART_LIMIT));
        let fits = n < limit && d < limit && n <= d * most && d <= n * most;
        if fits { Ok(Self { numerator: n, denominator: d }) } else { Err(wrong()) }
    }

    /// The numerator in lowest terms.
    pub fn numerator(self) -> u128 {
        self.numerator
    }

    /// The denominator in lowest terms.
    pub fn denominator(self) -> u128 {
        self.denominator
    }

    /// Reduces a fraction of two positive numbers.
    pub(crate) fn lowest(numerator: u128, denominator: u128) -> Self {
        let common = greatest_common_divisor(numerator, denominator);
        Self { numerator: numerator / common, denominator: denominator / common }
    }

    /// This ratio times a positive fraction of small parts.
    pub(crate) fn times(self, numerator: u128, denominator: u128) -> Self {
        Self::lowest(self.numerator * numerator, self.denominator * denominator)
    }
}

/// Both positive: at least 1.
fn greatest_common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ratio {
    fn cmp(&self, other: &Self) -> Ordering {
        let cross = |a: u128, b: u128| U256::from(a) * U256::from(b);
        cross(self.numerator, other.denominator).cmp(&cross(other.numerator, self.denominator))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.numerator, self.denominator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_kept_in_lowest_terms_and_ordered_by_value() {
        let ratio = Ratio::new(2_499_998, 2_100_000).unwrap();
        assert_eq!((ratio.numerator(), ratio.denominator()), (1_249_999, 1_050_000));
        assert!(Ratio::new(2, 5).unwrap() < Ratio::new(5, 2).unwrap());
    }

    #[test]
    fn a_ratio_is_accepted_up_to_its_limits_and_refused_past_them() {
        assert!(Ratio::new(4096, 1).is_ok() && Ratio::new(1, 4096).is_ok());
        assert!(Ratio::new(4097, 1).is_err() && Ratio::new(1, 4097).is_err());
        let limit = Ratio::PART_LIMIT;
        assert!(Ratio::new(limit - 1, limit - 2).is_ok() && Ratio::new(limit - 1, limit).is_err());
        assert!(Ratio::new(0, 1).is_err() && Ratio::new(1, 0).is_err() && Ratio::new(0, 0).is_err());
        assert!(Ratio::new(4 * limit, 2 * limit).is_ok(), "what counts is the reduced fraction");
    }
}
