//! Readings of one counter on the reference, one after the other.
//!
//! Idea: most of them lie in the stretch of the envelope in which the one before lay, where each bound is a straight
//! line: two products instead of a search. Guarantees: the values that [`ClockMap::placed`] has of each by itself.

use tickscope_tick::{Interval, Tick};

use crate::Cone;
use crate::clock_map::{ClockMap, Near};

/// Places readings of a counter that may stand `width` ticks beyond what it reads.
#[derive(Debug)]
pub struct Placer<'a> {
    clock_map: &'a ClockMap,
    width: i64,
    near: Near,
    stretch: Option<Straight>,
}

/// Readings whose lower bound, and whose upper one while they stand beyond themselves, are straight.
#[derive(Clone, Copy, Debug)]
struct Straight {
    first: i64,
    last: i64,
    /// Where the two lines are counted from.
    from: i64,
    /// The bounds there, in units of 2^-60 ticks of the reference.
    lo: i128,
    hi: i128,
    slope_lo: i64,
    slope_hi: i64,
    /// What the upper bound grows by over the width.
    hi_beyond: i128,
}

impl<'a> Placer<'a> {
    /// Of the readings of the clock map's counter, each of that width, not negative.
    pub fn new(clock_map: &'a ClockMap, width: i64) -> Self {
        Self { clock_map, width, near: Near::default(), stretch: None }
    }

    /// Estimate, lower and upper end on the reference; `None` where nothing bounds the reading.
    #[inline]
    pub fn place(&mut self, raw: i64) -> Option<[i64; 3]> {
        match &self.stretch {
            Some(stretch) if stretch.first <= raw && raw <= stretch.last => stretch.place(raw),
            _ => self.search(raw),
        }
    }

    #[inline(never)]
    fn search(&mut self, raw: i64) -> Option<[i64; 3]> {
        let ticks = Interval::new(Tick::new(raw), Tick::new(raw.checked_add(self.width)?)).ok()?;
        let before = self.near;
        let held = self.clock_map.hold_near(ticks, &mut self.near).ok()?;
        // A stretch costs more than a search: it is worth it where one reading follows the other.
        if before == self.near {
            self.stretch = self.clock_map.straight(raw, self.width, self.near);
        }
        let placed = self.clock_map.placed(&held)?;
        Some([placed.estimate, placed.interval.lo(), placed.interval.hi()].map(Tick::get))
    }
}

impl Straight {
    #[inline]
    fn place(&self, raw: i64) -> Option<[i64; 3]> {
        let distance = i128::from(raw - self.from);
        let lo = self.lo + i128::from(self.slope_lo) * distance;
        let hi = self.hi + i128::from(self.slope_hi) * distance;
        let ticks = |fixed: i128| i64::try_from(fixed).ok();
        let estimate = (lo + hi) >> (Cone::FRACTION_BITS + 1);
        let last = -(-(hi + self.hi_beyond) >> Cone::FRACTION_BITS);
        Some([ticks(estimate)?, ticks(lo >> Cone::FRACTION_BITS)?, ticks(last)?])
    }
}

impl ClockMap {
    /// The straight stretch around a reading in reach; `None` where its slopes are steep, or where it bends within the
    /// width of that very reading.
    fn straight(&self, raw: i64, width: i64, near: Near) -> Option<Straight> {
        let (frame, envelope) = (self.frame, &self.envelope);
        let y = frame.local(Tick::new(raw)).ok()?;
        let stretch = envelope.stretch(y, near.0);
        let [first, last] = [stretch.first.max(1 - frame.reach), stretch.last.min(frame.reach - 1).checked_sub(width)?];
        let [slope_lo, slope_hi] = stretch.slopes.map(|slope| i64::try_from(slope).ok());
        let (slope_lo, slope_hi) = (slope_lo?, slope_hi?);
        let bounds = envelope.at(y);
        let origin = i128::from(frame.reference) << Cone::FRACTION_BITS;
        let raw_of = |y: i64| frame.local.saturating_add(y).min(i64::MAX - width);
        (y <= last).then_some(Straight {
            first: raw_of(first),
            last: raw_of(last),
            from: raw,
            lo: origin + bounds.lo,
            hi: origin + bounds.hi,
            slope_lo,
            slope_hi,
            hi_beyond: i128::from(slope_hi) * i128::from(width),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bracket, Model, Ratio, Rho};
    use proptest::prelude::*;
    use tickscope_tick::Span;

    /// Evidence every 1000 ticks or so, the reference `rate` times as fast in thousandths; the domains begin anywhere.
    fn clock_map(delays: &[(i64, i64)], [rate, local, reference]: [i64; 3], rho_ppb: u32) -> Option<ClockMap> {
        let bracket = |(number, &(before, after)): (usize, &(i64, i64))| {
            let at = reference + number as i64 * rate;
            Bracket::new(Some(at - before), local + number as i64 * 1_000, Some(at + after))
        };
        let brackets: Vec<_> = delays.iter().enumerate().map(bracket).collect();
        let nominal = Ratio::new(rate.unsigned_abs(), 1_000).unwrap();
        let model = Model::new(Rho::declared_ppb(rho_ppb).unwrap(), nominal, Tick::new(local));
        ClockMap::new(&brackets, &model).ok()
    }

    fn ends() -> impl Strategy<Value = [i64; 3]> {
        let rate = prop_oneof![Just(1_000_i64), Just(1_500), Just(417), Just(7_999), Just(8_001), Just(104_000)];
        let end = || prop_oneof![Just(0_i64), Just(i64::MIN + 1_000_000), Just(i64::MAX - 100_000_000), Just(-70_000)];
        (rate, end(), end()).prop_map(|(rate, local, reference)| [rate, local, reference])
    }

    fn step() -> impl Strategy<Value = i64> {
        prop_oneof![4 => 0_i64..40, 2 => 0_i64..700, 1 => -9_000_i64..9_000]
    }

    proptest! {
        #[test]
        fn property_readings_one_after_the_other_are_placed_as_each_by_itself(
            delays in prop::collection::vec((1_i64..900, 1_i64..900), 2..20),
            ends in ends(),
            rho_ppb in prop_oneof![Just(0_u32), Just(50_000), Just(3_000_000)],
            width in prop_oneof![Just(0_i64), Just(1), Just(26), Just(5_000)],
            steps in prop::collection::vec(step(), 1..300),
        ) {
            let Some(clock_map) = clock_map(&delays, ends, rho_ppb) else { return Ok(()) };
            let mut placer = Placer::new(&clock_map, width);
            let mut raw = ends[1].saturating_sub(2_000);
            for step in steps {
                raw = raw.saturating_add(step);
                let ticks = raw.checked_add(width).and_then(|last| Interval::new(Tick::new(raw), Tick::new(last)).ok());
                let placed = ticks.and_then(|ticks| clock_map.placed(&clock_map.hold(ticks).ok()?));
                let expected = placed.map(|at| [at.estimate, at.interval.lo(), at.interval.hi()].map(Tick::get));
                prop_assert_eq!(placer.place(raw), expected, "at {}", raw);
            }
        }

        #[test]
        fn property_a_short_span_is_the_one_that_both_ends_leave(
            delays in prop::collection::vec((1_i64..900, 1_i64..900), 2..20),
            ends in ends(),
            rho_ppb in prop_oneof![Just(0_u32), Just(50_000), Just(3_000_000)],
            [width, width_to] in [0_i64..30, 0_i64..30],
            begin in -2_000_i64..25_000,
            apart in prop_oneof![-50_i64..2_000, -50_i64..200_000],
        ) {
            let Some(clock_map) = clock_map(&delays, ends, rho_ppb) else { return Ok(()) };
            let hold = |at: i64, width: i64| {
                let at = ends[1].checked_add(at)?;
                let ticks = Interval::new(Tick::new(at), Tick::new(at.checked_add(width)?)).ok()?;
                clock_map.hold(ticks).ok()
            };
            let (Some(from), Some(to)) = (hold(begin, width), hold(begin + apart, width_to)) else { return Ok(()) };
            let Some(placed) = clock_map.placed(&from) else { return Ok(()) };
            let narrowest = placed.interval.hi().get().abs_diff(placed.interval.lo().get());
            let [least, most] = [apart - width, apart + width_to];
            let distance = Interval::new(Span::new(least), Span::new(most)).unwrap();
            let exact = clock_map.span_between(&from, &to, distance);
            if let Some(found) = clock_map.short_spans(narrowest, width).span(least, most) {
                prop_assert_eq!(Some(found), exact.map(|span| [span.lo().get(), span.hi().get()]));
            }
        }
    }

    #[test]
    fn a_span_of_microseconds_is_short_where_the_bounds_are_wide() {
        let clock_map = clock_map(&[(500, 500); 20], [1_000, 0, 0], 50_000).unwrap();
        let short = clock_map.short_spans(900, 26);
        assert!(short.span(10_000 - 26, 10_026).is_some() && short.span(-1, 30).is_none());
        assert!(short.span(0, LONG).is_none() && clock_map.short_spans(27, 26).span(0, 26).is_none());
        const LONG: i64 = 1 << 40;
    }
}
