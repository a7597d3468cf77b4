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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bracket, Model, Ratio, Rho};
    use tickscope_tick::{Interval, Span, Tick};

    /// Evidence of 100 ticks each 20 000, of a counter that runs as fast or as slow as the cone allows: nothing else
    /// lets the ends of a span bound it better than the slopes at so short a distance.
    fn at_an_edge(ppm: i64) -> ClockMap {
        let bracket = |number: i64| {
            let at = number * 20_000;
            let reference = at + at * ppm / 1_000_000;
            Bracket::new(Some(reference - 50), at, Some(reference + 50))
        };
        let model = Model::new(Rho::declared_ppb(3_000_000).unwrap(), Ratio::new(1, 1).unwrap(), Tick::new(0));
        ClockMap::new(&(0..7).map(bracket).collect::<Vec<_>>(), &model).unwrap()
    }

    #[test]
    fn a_span_is_short_only_while_its_ends_bound_it_no_better_than_the_slopes() {
        let readings = [0, 29].into_iter().flat_map(|width| [39_971, 40_000].map(|at| (at, width)));
        for (ppm, (at, width)) in readings.flat_map(|reading| [-2_990, 2_990].map(|ppm| (ppm, reading))) {
            let clock_map = at_an_edge(ppm);
            let hold = |at: i64| clock_map.hold(Interval::new(Tick::new(at), Tick::new(at + width)).unwrap()).unwrap();
            let from = hold(at);
            let placed = clock_map.placed(&from).unwrap().interval;
            let short = clock_map.short_spans(placed.hi().get().abs_diff(placed.lo().get()), width);
            let (mut bounded, mut differ) = (0, 0);
            for apart in (width..60_000).step_by(10) {
                let [least, most] = [apart - width, apart + width];
                let distance = Interval::new(Span::new(least), Span::new(most)).unwrap();
                let exact = clock_map.span_between(&from, &hold(at + apart), distance).unwrap();
                let exact = [exact.lo().get(), exact.hi().get()];
                let every = ShortSpans { most: i64::MAX, ..short };
                differ += usize::from(every.span(least, most) != Some(exact));
                if let Some(found) = short.span(least, most) {
                    bounded += 1;
                    assert_eq!(found, exact, "{least} to {most} from {at}, as wide as {width}, at {ppm} ppm");
                }
            }
            assert!(bounded > 1_000 && differ > 1_000, "{bounded} short ones, {differ} that are not");
        }
    }
}
