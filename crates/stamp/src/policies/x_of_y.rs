//! `x of y`: stamps of the first x of any y consecutive ids.
//!
//! An id is kept if its remainder by y is below x, the Euclidean one, so that negative ids go in the same rhythm. Every
//! node and point keeps the same ids, so traces stay whole. A division costs 11 ns, and a stamp that is left out should
//! cost next to nothing: the quotient is taken by a reciprocal, which is at most 1 too small, and set right.
//!
//! Guarantees: exactly the Euclidean rule, for every id. Deliberately absent: a count of what is left out: ids tell.

/// The first x of any y consecutive ids.
#[derive(Clone, Copy, Debug)]
pub struct XOfY {
    y: u64,
    /// Floor of (2^64 - 1) / y.
    reciprocal: u64,
    /// Remainder of 2^63 by y.
    half: u64,
    x: u64,
}

/// Returns whether a policy may have that parameter: x in the high half, y in the low one.
pub(super) fn is_valid(parameter: u64) -> bool {
    let (x, y) = (parameter >> 32, parameter & 0xffff_ffff);
    0 < x && x < y
}

/// x and y as a parameter; `None`: they are no numbers, or all ids or none would be kept.
pub(super) fn parse(x: &str, y: &str) -> Option<u64> {
    let is_plain = [x, y].iter().all(|text| text.bytes().all(|digit| digit.is_ascii_digit()));
    let (x, y) = (x.parse::<u32>().ok()?, y.parse::<u32>().ok()?);
    Some(u64::from(x) << 32 | u64::from(y)).filter(|&both| is_plain && is_valid(both))
}

impl XOfY {
    /// The rule of a valid parameter.
    pub fn of(parameter: u64) -> Self {
        let (x, y) = (parameter >> 32, (parameter & 0xffff_ffff).max(1));
        Self { y, reciprocal: u64::MAX / y, half: (1 << 63) % y, x }
    }

    /// Returns whether stamps of that id are kept.
    #[inline(always)]
    pub fn keeps(&self, id: i64) -> bool {
        // Moved up by 2^63, ids are whole numbers from 0 in the same order.
        let moved = id as u64 ^ 1 << 63;
        let quotient = ((u128::from(moved) * u128::from(self.reciprocal)) >> 64) as u64;
        let rest = moved.wrapping_sub(quotient.wrapping_mul(self.y));
        let rest = if rest >= self.y { rest - self.y } else { rest };
        let remainder = if rest >= self.half { rest - self.half } else { rest + self.y - self.half };
        remainder < self.x
    }

    /// The first and the number of the ids from the first to the last that are kept, of the `n` ids from `id` on;
    /// `None`: none is. The last is within 64 bits.
    pub fn hull(&self, id: i64, n: i64) -> Option<(i64, i64)> {
        let (x, y, last) = (self.x as i64, self.y as i64, id + (n - 1));
        let before = |id: i64| id.rem_euclid(y);
        let skipped = if self.keeps(id) { 0 } else { y - before(id) };
        let dropped = if self.keeps(last) { 0 } else { before(last) - (x - 1) };
        let left = n.checked_sub(skipped)?.checked_sub(dropped)?;
        (left > 0).then(|| (id + skipped, left))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keeps(x: u32, y: u32, id: i64) -> bool {
        XOfY::of(u64::from(x) << 32 | u64::from(y)).keeps(id)
    }

    #[test]
    fn the_first_x_of_every_y_ids_are_kept_below_zero_too() {
        let kept: Vec<i64> = (-5..10).filter(|&id| keeps(2, 4, id)).collect();
        assert_eq!(kept, [-4, -3, 0, 1, 4, 5, 8, 9]);
    }

    proptest! {
        #[test]
        fn property_of_consecutive_ids_those_from_the_first_to_the_last_kept_are_taken(
            y in 2u32..40, part in 1u32..40, n in 1i64..150,
            id in prop_oneof![-100i64..100, i64::MAX - 300..i64::MAX - 200],
        ) {
            let x = 1 + part % (y - 1);
            let kept: Vec<i64> = (id..id + n).filter(|&id| keeps(x, y, id)).collect();
            let expected = kept.first().zip(kept.last()).map(|(first, last)| (*first, last - first + 1));
            prop_assert_eq!(XOfY::of(u64::from(x) << 32 | u64::from(y)).hull(id, n), expected);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn property_an_id_is_kept_if_its_euclidean_remainder_is_below_x(
            y in prop_oneof![2u32..=u32::MAX, 2u32..100, Just(u32::MAX), Just(1 << 31)],
            part in 1u32..=u32::MAX,
            id in prop_oneof![any::<i64>(), -1000i64..1000, Just(i64::MIN), Just(i64::MAX), Just(-1)],
            near in -3i64..=3,
        ) {
            let x = 1 + part % (y - 1);
            for id in [id, id.saturating_mul(i64::from(y)).saturating_add(near)] {
                prop_assert_eq!(keeps(x, y, id), id.rem_euclid(i64::from(y)) < i64::from(x));
            }
        }
    }
}
