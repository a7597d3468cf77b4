//! Distances between two readings of one counter that are so short that the cone alone bounds them.
//!
//! Idea: what holds either end on the reference is open by far more than two slopes differ over a short distance, so
//! the difference of the ends bounds nothing that the slopes do not (`docs/proof.md`, "Durations"). Guarantees: the
//! interval that [`ClockMap::span_between`] has of the same two readings, or none.

use crate::{ClockMap, Cone, LIMIT_TICKS};

/// Spans that the slopes of a clock map bound.
#[derive(Clone, Copy, Debug)]
pub struct ShortSpans {
    /// In units of 2^-60 ticks of the reference a local tick.
    slowest: i64,
    fastest: i64,
    /// The longest distance in local ticks; negative: there is none.
    most: i64,
}

impl ClockMap {
    /// Those from readings of `width` local ticks each of which is placed on an interval of at least `narrowest` whole
    /// ticks of the reference ([`ClockMap::placed`]).
    pub fn short_spans(&self, narrowest: u64, width: i64) -> ShortSpans {
        let cone = self.cone();
        let [slowest, fastest] = [cone.slowest(), cone.fastest()].map(|slope| i64::try_from(slope).ok());
        let (Some(slowest), Some(fastest)) = (slowest, fastest) else {
            return ShortSpans { slowest: 0, fastest: 0, most: -1 }; // steep: 64 bits do not hold them
        };
        // Open at either end of the reading: what it is placed on, less two roundings and what the width adds.
        let rounded = 2_i128 << Cone::FRACTION_BITS;
        let open = (i128::from(narrowest) << Cone::FRACTION_BITS) - rounded - cone.reference_at_most(width.into());
        let most = open.checked_div_euclid(cone.width()).unwrap_or(if open < 0 { -1 } else { i128::MAX });
        ShortSpans { slowest, fastest, most: most.clamp(-1, LIMIT_TICKS.into()) as i64 }
    }
}

impl ShortSpans {
    /// Lower and upper end in ticks of the reference, rounded outward, of two readings that lie from `least` to `most`
    /// local ticks apart, where no such distance is too long.
    #[inline]
    pub fn span(&self, least: i64, most: i64) -> Option<[i64; 2]> {
        let lo = (i128::from(self.slowest) * i128::from(least)) >> Cone::FRACTION_BITS;
        let hi = -(-(i128::from(self.fastest) * i128::from(most)) >> Cone::FRACTION_BITS);
        (0 <= least && most <= self.most).then_some([lo as i64, hi as i64])
    }
}
