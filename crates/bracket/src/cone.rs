//! How fast the true map can run: the slopes of the cone that every bracket opens as.

use std::fmt;

use ethnum::I256;

use crate::{Ratio, Rho};

/// The slowest and fastest slope of the true map, in reference ticks per local tick.
///
/// `[r_min * (1 - rho), r_max * (1 + rho)]`, where `[r_min, r_max]` are the exact ends of the slope programme
/// (`docs/proof.md`, "The slope programme").
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cone {
    r_min: Ratio,
    r_max: Ratio,
    slowest: i128,
    fastest: i128,
}

const BILLION: u128 = 1_000_000_000;

impl Cone {
    /// Fixed-point slopes and bounds count units of 2^-60. Slopes stay below 2^13 ([`Ratio::MOST`] and the limits of
    /// prior and rho), slopes times distances in reach below 2^63 ticks: their products below 2^123, and sums of a few
    /// of them fit `i128`. Over 2^57 ticks, rounding a slope costs an eighth of a tick.
    pub const FRACTION_BITS: u32 = 60;

    pub(crate) fn new(r_min: Ratio, r_max: Ratio, rho: Rho) -> Self {
        let rho = u128::from(rho.ppb());
        let slowest = fixed_floor(r_min, BILLION - rho);
        let fastest = fixed_ceil(r_max, BILLION + rho);
        Self { r_min, r_max, slowest, fastest }
    }

    /// The smallest `r0` that the prior and all brackets allow, exactly.
    pub fn r_min(&self) -> Ratio {
        self.r_min
    }

    /// The largest `r0` that the prior and all brackets allow, exactly.
    pub fn r_max(&self) -> Ratio {
        self.r_max
    }

    /// The slowest slope in units of 2^-60 reference ticks per local tick, rounded down.
    pub fn slowest(&self) -> i128 {
        self.slowest
    }

    /// The fastest slope in units of 2^-60 reference ticks per local tick, rounded up.
    pub fn fastest(&self) -> i128 {
        self.fastest
    }

    /// `fastest - slowest`: how much the error of a translated tick may change, in units of 2^-60 reference ticks per
    /// local tick.
    pub fn width(&self) -> i128 {
        self.fastest - self.slowest
    }

    /// The least that the reference runs while the local domain runs `distance`, in units of 2^-60; what 128 bits do
    /// not hold is beyond every difference of 64-bit ticks, and is left at their end.
    pub(crate) fn reference_at_least(&self, distance: i128) -> i128 {
        product(if distance < 0 { self.fastest } else { self.slowest }, distance)
    }

    /// The most that the reference runs meanwhile, in the same units.
    pub(crate) fn reference_at_most(&self, distance: i128) -> i128 {
        product(if distance < 0 { self.slowest } else { self.fastest }, distance)
    }

    /// The least that the local domain runs while the reference runs `ticks`, not negative and below 2^66; rounded
    /// down.
    pub(crate) fn local_at_least(&self, ticks: i128) -> i128 {
        (ticks << Self::FRACTION_BITS) / self.fastest
    }

    /// The most that it runs meanwhile, rounded up.
    pub(crate) fn local_at_most(&self, ticks: i128) -> i128 {
        -(-(ticks << Self::FRACTION_BITS)).div_euclid(self.slowest)
    }

    /// The most that the reference runs in so many local ticks, not negative, rounded up; `u64::MAX` where it is more.
    pub(crate) fn counted_in(&self, local_ticks: i64) -> u64 {
        let ticks = -(-self.reference_at_most(local_ticks.into()) >> Self::FRACTION_BITS);
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }
}

/// A slope times a distance, or the end of 128 bits beyond it. Slopes are below 2^73: most distances need no look.
#[inline]
fn product(slope: i128, distance: i128) -> i128 {
    if distance.unsigned_abs() < 1 << 53 { slope * distance } else { slope.saturating_mul(distance) }
}

/// `ratio * parts / 10^9` in units of 2^-60, rounded down. A ratio's parts are below 2^90 and `parts` below 2^31.
fn fixed_floor(ratio: Ratio, parts: u128) -> i128 {
    let (numerator, denominator) = fixed_fraction(ratio, parts);
    numerator.div_euclid(denominator).as_i128()
}

/// `ratio * parts / 10^9` in units of 2^-60, rounded up.
fn fixed_ceil(ratio: Ratio, parts: u128) -> i128 {
    let (numerator, denominator) = fixed_fraction(ratio, parts);
    -(-numerator).div_euclid(denominator).as_i128()
}

fn fixed_fraction(ratio: Ratio, parts: u128) -> (I256, I256) {
    let numerator = (I256::from(ratio.numerator()) * I256::from(parts)) << Cone::FRACTION_BITS;
    (numerator, I256::from(ratio.denominator()) * I256::from(BILLION))
}

impl fmt::Display for Cone {
    /// Slopes to 15 decimals, for people; rounded outward.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits: i128 = 1_000_000_000_000_000;
        let unit = 1i128 << Self::FRACTION_BITS;
        let scaled = |slope: i128| ((slope / unit) * digits, (slope % unit) * digits);
        let (whole, part) = scaled(self.slowest);
        let slow = whole + part / unit;
        let (whole, part) = scaled(self.fastest);
        let fast = whole + (part + unit - 1) / unit;
        let decimal = |value: i128| format!("{}.{:015}", value / digits, value % digits);
        write!(f, "[{}, {}] reference ticks per local tick", decimal(slow), decimal(fast))
    }
}
