//! The one definition of a quantile in this tree: the smallest value that its share of the values does not exceed.
//!
//! Inverse of the empirical distribution function, type 1 of Hyndman and Fan (1996): rank `ceil(share x count)`. It is
//! one of the values themselves, so a quantile of ticks is a tick that occurred; no interpolation, no float.

use crate::Error;

/// A share of the values, in parts per million: exact, where `0.07 * 100` in floating point is more than 7.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Quantile(u32);

impl Quantile {
    /// All of the values: the largest of them.
    pub const MAXIMUM: Self = Self(MILLION);
    /// The lower quartile.
    pub const Q1: Self = Self(250_000);
    /// The median.
    pub const MEDIAN: Self = Self(500_000);
    /// The upper quartile.
    pub const Q3: Self = Self(750_000);
    /// 95 of 100.
    pub const P95: Self = Self(950_000);
    /// 99 of 100.
    pub const P99: Self = Self(990_000);
    /// 999 of 1000.
    pub const P999: Self = Self(999_000);

    /// A share of at most one million millionths.
    pub fn per_million(share: u32) -> Result<Self, Error> {
        if share <= MILLION { Ok(Self(share)) } else { Err(Error::Share(share)) }
    }

    /// The share in parts per million.
    pub fn share(self) -> u32 {
        self.0
    }

    /// Which of `count` values in ascending order it is, from 1: `ceil(share * count)`, at least 1. `None` of none.
    pub fn rank(self, count: usize) -> Option<usize> {
        let rank = (count as u128 * u128::from(self.0)).div_ceil(u128::from(MILLION)) as usize;
        (count > 0).then_some(rank.max(1))
    }

    /// Whether of so few values it is the largest, though it is not asked for as that: a name such as p99.9 says more
    /// of them then than is known.
    pub fn is_largest_of(self, count: u64) -> bool {
        let rank = usize::try_from(count).ok().and_then(|count| self.rank(count));
        self < Self::MAXIMUM && rank.is_some_and(|rank| rank as u64 == count)
    }

    /// That value itself; reorders `values`.
    pub fn of(self, values: &mut [i64]) -> Option<i64> {
        let rank = self.rank(values.len())?;
        Some(*values.select_nth_unstable(rank - 1).1)
    }
}

/// Parts of a whole.
pub(crate) const MILLION: u32 = 1_000_000;
