//! The staircase of an injected counter: which of its values it shows, for tests of counters that move in steps.
//!
//! The counter shows `floor(k * step)` plus, where it is uneven, up to `uneven` ticks that depend on `k` alone;
//! `step` is a fraction, so that 49/2 moves by 24 and 25 in turn. The same in `tickscope.h`.

use std::fmt;

use crate::simulated::scrambled;

/// Which values a counter shows; the default shows all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stairs {
    step_numerator: i64,
    step_denominator: i64,
    uneven: i64,
}

/// Limits that keep a counter recognisable, and products far from 128 bits.
const STEP_MOST: i64 = 1 << 31;

impl Default for Stairs {
    fn default() -> Self {
        Self { step_numerator: 1, step_denominator: 1, uneven: 0 }
    }
}

impl Stairs {
    /// Steps of `numerator / denominator` ticks, at least 1, each value moved ahead by up to `uneven` ticks, less
    /// than a step; `None`: these are no stairs.
    pub fn new(numerator: i64, denominator: i64, uneven: i64) -> Option<Self> {
        let sizes = (1..STEP_MOST).contains(&numerator) && (1..=numerator).contains(&denominator);
        let stairs = Self { step_numerator: numerator, step_denominator: denominator, uneven };
        (sizes && (0..numerator / denominator).contains(&uneven)).then_some(stairs)
    }

    /// Whether every value is shown.
    pub fn are_flat(&self) -> bool {
        *self == Self::default()
    }

    /// The value shown while the counter behind the stairs stands at `ticks`: the largest that is not above.
    pub fn shown(&self, ticks: i64) -> i64 {
        if self.are_flat() {
            return ticks;
        }
        let stair = self.stair_under(ticks);
        let value = self.value(stair);
        if value <= ticks { value } else { self.value(stair - 1) }
    }

    /// The value that is shown after `shown`.
    pub fn next(&self, shown: i64) -> i64 {
        let stair = self.stair_under(shown);
        [stair, stair + 1].map(|stair| self.value(stair)).into_iter().find(|&value| value > shown).unwrap_or(shown + 1)
    }

    /// The widest gap that these stairs can have, in ticks.
    pub fn widest_gap(&self) -> u64 {
        (self.step_numerator.unsigned_abs()).div_ceil(self.step_denominator.unsigned_abs()) + self.uneven.unsigned_abs()
    }

    /// The last stair whose value is not above `ticks` without its unevenness.
    fn stair_under(&self, ticks: i64) -> i128 {
        ((i128::from(ticks) + 1) * i128::from(self.step_denominator) - 1).div_euclid(self.step_numerator.into())
    }

    fn value(&self, stair: i128) -> i64 {
        let even = (stair * i128::from(self.step_numerator)).div_euclid(self.step_denominator.into()) as i64;
        let moved = if self.uneven == 0 { 0 } else { scrambled(stair as u64) % (self.uneven.unsigned_abs() + 1) };
        even.wrapping_add(moved as i64)
    }
}

impl fmt::Display for Stairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.step_numerator, self.step_denominator, self.uneven)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn steps_of_a_half_more_than_24_are_24_and_25_in_turn() {
        let stairs = Stairs::new(49, 2, 0).unwrap();
        assert_eq!([0, 23, 24, 48, 49, 73].map(|ticks| stairs.shown(ticks)), [0, 0, 24, 24, 49, 73]);
        assert_eq!([-1, -25, -26].map(|ticks| stairs.shown(ticks)), [-25, -25, -49]);
        assert_eq!(stairs.widest_gap(), 25);
    }

    #[test]
    fn what_is_no_stairs_is_refused() {
        for (numerator, denominator, uneven) in
            [(0, 1, 0), (1, 2, 0), (40, 1, 40), (40, 1, -1), (1 << 31, 1, 0), (5, 0, 0)]
        {
            assert_eq!(Stairs::new(numerator, denominator, uneven), None);
        }
    }

    proptest! {
        #[test]
        fn property_the_value_shown_is_the_last_one_reached(
            numerator in 1i64..5000, denominator in 1i64..100, uneven in 0i64..900, ticks in -(1i64 << 60)..1 << 60,
        ) {
            let Some(stairs) = Stairs::new(numerator, denominator, uneven) else { return Ok(()) };
            let (shown, next) = (stairs.shown(ticks), stairs.next(stairs.shown(ticks)));
            prop_assert!(shown <= ticks && ticks < next, "{shown} {ticks} {next}");
            prop_assert!(shown.abs_diff(next) <= stairs.widest_gap());
            prop_assert_eq!([shown, next].map(|value| stairs.shown(value)), [shown, next]);
        }
    }
}
