//! A detour: two neighbouring readings between which more passed than a pass of the loop takes.
//!
//! Idea: a pass costs what readings in a row cost in the quickest stretch of a trace. Nine times that, and a step of
//! the counter, is the threshold: nine as in the selfish-detour benchmark (Beckman and others 2006), so that rates can
//! be held against others'. Guarantees: with a width `w` two readings that differ by `d` are more than `d - w` and less
//! than `d + w` apart; the pass itself took no more than the threshold, by which it is no detour, and no less than
//! nothing; so what was lost is bounded on both sides.

use serde::{Deserialize, Serialize};

/// Passes that a detour outlasts.
const PASSES: i64 = 9;
/// Readings of a stretch: as many as an interruption seldom hits, and a coarse step is small against.
const STRETCH: usize = 64;

/// Two neighbouring readings of one core, ticks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Detour {
    /// The last reading before it.
    pub before: i64,
    /// The first after it.
    pub after: i64,
}

impl Detour {
    /// How far the readings are apart; negative: the counter ran backward.
    pub fn difference(self) -> i64 {
        self.after - self.before
    }
}

/// What tells a detour from a pass of the loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DetourLimit {
    /// Cost of a pass in the quickest stretch, rounded up.
    pub pass_ticks: i64,
    /// How wide a reading is.
    pub width_ticks: i64,
    /// Readings further apart than this enclose a detour.
    pub threshold_ticks: i64,
}

impl DetourLimit {
    /// The limit for passes that cost what these readings in a row do. `None`: too few, or they do not ascend.
    pub fn of(readings: &[i64], width_ticks: u64) -> Option<Self> {
        let width_ticks = i64::try_from(width_ticks).ok().filter(|&width| width > 0)?;
        let stretches = readings.windows(STRETCH + 1).step_by(STRETCH);
        let least = stretches.map(|stretch| stretch[STRETCH] - stretch[0]).filter(|&ticks| ticks >= 0).min()?;
        let pass_ticks = (least + width_ticks - 1).div_euclid(STRETCH as i64) + 1;
        Some(Self { pass_ticks, width_ticks, threshold_ticks: PASSES * pass_ticks + width_ticks - 1 })
    }

    /// Whatever lasts longer shows, wherever in the counter's step it begins.
    pub fn resolution_ticks(self) -> i64 {
        self.threshold_ticks + self.width_ticks - 1
    }

    /// Whether two readings so far apart enclose a detour, or run backward.
    #[inline(always)]
    pub fn is_passed_by(self, difference: i64) -> bool {
        difference as u64 > self.threshold_ticks as u64
    }

    /// What a detour took from the loop, from and to.
    pub fn lost_ticks(self, difference: i64) -> [i64; 2] {
        let width = self.width_ticks - 1;
        // Time that passed is no less than nothing: this bounds, and hides no reading.
        [(difference - width - self.threshold_ticks).max(0), difference + width]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_threshold_is_nine_passes_and_a_step_whatever_interrupts_the_readings() {
        let mut readings: Vec<i64> = (0..1000).map(|pass| pass * 20).collect();
        let limit = DetourLimit::of(&readings, 4).unwrap();
        assert_eq!((limit.pass_ticks, limit.threshold_ticks, limit.resolution_ticks()), (21, 192, 195));
        readings.iter_mut().skip(300).for_each(|reading| *reading += 5_000_000);
        assert_eq!(DetourLimit::of(&readings, 4), Some(limit));
        assert_eq!((limit.is_passed_by(192), limit.is_passed_by(193), limit.is_passed_by(-1)), (false, true, true));
        assert_eq!((DetourLimit::of(&readings[..STRETCH], 4), DetourLimit::of(&readings, 0)), (None, None));
        assert_eq!(DetourLimit::of(&[5, 4].repeat(999), 4), Some(DetourLimit::of(&[5; 999], 4).unwrap()));
    }

    #[test]
    fn a_counter_whose_step_outlasts_a_pass_has_the_cost_of_its_mean() {
        let readings: Vec<i64> = (0..10_001).map(|pass| pass * 7 / 25 * 25).collect();
        let limit = DetourLimit::of(&readings, 25).unwrap();
        assert_eq!(limit.pass_ticks, 8);
    }

    proptest! {
        #[test]
        fn property_what_was_lost_lies_in_its_interval_and_what_lasts_longer_than_the_resolution_shows(
            step in 1..60_i64, pass in 1..90_i64, phase in 0..10_000_i64, lost in 0..100_000_i64,
        ) {
            let shown = |true_ticks: i64| true_ticks.div_euclid(step) * step;
            let quiet: Vec<i64> = (0..1000).map(|count| shown(phase + count * pass)).collect();
            let limit = DetourLimit::of(&quiet, step as u64).unwrap();
            prop_assert!(quiet.windows(2).all(|pair| !limit.is_passed_by(pair[1] - pair[0])), "no pass is a detour");
            let difference = shown(phase + pass + lost) - shown(phase);
            let [lo, hi] = limit.lost_ticks(difference);
            prop_assert!(lo <= lost && lost <= hi, "{lo}..{hi}");
            prop_assert!(limit.is_passed_by(difference) || pass + lost <= limit.resolution_ticks());
        }
    }
}
