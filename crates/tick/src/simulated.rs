//! A clock whose every reading is known beforehand: the truth that simulations compare with.
//!
//! It maps a true time, in whole units of the caller's choice, to a tick: a rate, an offset, slews and steps at given
//! true times, and the wander of an [`Injection`] on top. All of it is exact in integers.
//!
//! Guarantees: the same description gives the same readings, in any order of asking; the clock never steps back but at
//! a backward step. Deliberately absent: a model of real oscillators; wander is what the injection says.

use crate::Injection;

/// A clock set from one true time on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The first true time at which the step shows.
    pub at: i64,
    /// Ticks added; negative: the clock is set back.
    pub ticks: i64,
}

/// A clock made to run faster or slower for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slew {
    /// First true time of the slew.
    pub from: i64,
    /// End of the slew, not included.
    pub until: i64,
    /// Relative rate added, parts per 10^9. All slews in force at one time must stay above -10^9 together.
    pub rate_ppb: i64,
}

/// A clock that a simulation reads. Start from [`SimulatedClock::default`], which reads the true time itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SimulatedClock {
    /// Ticks per `rate_denominator` units of true time; positive.
    pub rate_numerator: i64,
    /// Units of true time that `rate_numerator` ticks take; positive.
    pub rate_denominator: i64,
    /// Ticks at true time 0.
    pub offset: i64,
    /// Applied to the result of rate, offset and slews.
    pub wander: Option<Injection>,
    /// In any order; each is applied last, in ticks.
    pub steps: Vec<Step>,
    /// In any order; overlapping ones add.
    pub slews: Vec<Slew>,
    /// A reading is that of some true time less than this many units away; 0 or 1: of the true time asked for.
    pub jitter: i64,
    /// Decides the jitter.
    pub seed: u64,
}

impl Default for SimulatedClock {
    fn default() -> Self {
        Self {
            rate_numerator: 1,
            rate_denominator: 1,
            offset: 0,
            wander: None,
            steps: Vec::new(),
            slews: Vec::new(),
            jitter: 0,
            seed: 0,
        }
    }
}

impl SimulatedClock {
    /// What the clock reads at `true_time`.
    pub fn read(&self, true_time: i64) -> i64 {
        self.exact(self.jittered(true_time))
    }

    /// What the clock would read at `true_time` without jitter: the true map.
    pub fn exact(&self, true_time: i64) -> i64 {
        let smooth = self.smooth(true_time);
        let wandered = self.wander.map_or(smooth, |map| map.apply(smooth));
        let stepped = self.steps.iter().filter(|step| step.at <= true_time);
        wandered + stepped.map(|step| step.ticks).sum::<i64>()
    }

    /// Rate, offset and slews, rounded down once so that the sum never steps back.
    fn smooth(&self, true_time: i64) -> i64 {
        const BILLION: i128 = 1_000_000_000;
        let slewed = self.slews.iter().map(|slew| i128::from(slew.elapsed(true_time)) * i128::from(slew.rate_ppb));
        let scaled = (i128::from(true_time) * BILLION + slewed.sum::<i128>()) * i128::from(self.rate_numerator);
        let ticks = scaled.div_euclid(BILLION * i128::from(self.rate_denominator));
        (ticks + i128::from(self.offset)) as i64
    }

    /// Some moment of the cell of length `jitter` that `true_time` lies in, the same for the whole cell: a jitter that
    /// keeps the order of readings.
    fn jittered(&self, true_time: i64) -> i64 {
        if self.jitter <= 1 {
            return true_time;
        }
        let cell = true_time.div_euclid(self.jitter);
        cell * self.jitter + (scrambled(self.seed ^ cell as u64) % self.jitter as u64) as i64
    }
}

impl Slew {
    /// Units of true time that the slew has been in force for.
    pub(crate) fn elapsed(&self, true_time: i64) -> i64 {
        if true_time <= self.from { 0 } else { true_time.min(self.until) - self.from }
    }
}

/// The output function of splitmix64 (Steele, Lea, Flood 2014): every bit of the input moves every bit of the output.
pub(crate) fn scrambled(input: u64) -> u64 {
    let z = input.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stairs;
    use proptest::prelude::*;

    fn clocks() -> impl Strategy<Value = SimulatedClock> {
        let rate = (1i64..100, 1i64..100);
        let slew = (-1i64 << 40..1 << 40, 0i64..1 << 30, -100_000_000i64..100_000_000)
            .prop_map(|(from, length, rate_ppb)| Slew { from, until: from + length, rate_ppb });
        let wander =
            prop::option::of((-50_000i64..50_000, 0i64..50_000).prop_map(|(drift_ppb, wander_ppb)| Injection {
                anchor: 3,
                offset: 1_000,
                drift_ppb,
                wander_ppb,
                wander_period: 1 << 30,
                stairs: Stairs::default(),
            }));
        (rate, -1i64 << 40..1 << 40, wander, prop::collection::vec(slew, 0..4), 0i64..5000, any::<u64>()).prop_map(
            |((rate_numerator, rate_denominator), offset, wander, slews, jitter, seed)| SimulatedClock {
                rate_numerator,
                rate_denominator,
                offset,
                wander,
                slews,
                jitter,
                seed,
                ..SimulatedClock::default()
            },
        )
    }

    #[test]
    fn a_step_shows_from_its_true_time_on() {
        let clock = SimulatedClock { steps: vec![Step { at: 10, ticks: -7 }], ..SimulatedClock::default() };
        assert_eq!([9, 10, 11].map(|t| clock.read(t)), [9, 3, 4]);
    }

    #[test]
    fn a_slew_adds_its_rate_while_it_lasts_and_keeps_what_it_gained() {
        let slews = vec![Slew { from: 1000, until: 3000, rate_ppb: 500_000_000 }];
        let clock = SimulatedClock { slews, ..SimulatedClock::default() };
        assert_eq!([0, 1000, 2000, 3000, 4000].map(|t| clock.read(t)), [0, 1000, 2500, 4000, 5000]);
    }

    #[test]
    fn a_jitter_really_moves_readings_and_the_seed_decides_how() {
        let clock = |seed| SimulatedClock { jitter: 100, seed, ..SimulatedClock::default() };
        let readings = |seed| (0..50).map(|k| clock(seed).read(k * 100)).collect::<Vec<_>>();
        assert_ne!(readings(1), readings(2));
        assert_eq!(readings(1), readings(1));
        assert!(readings(1).iter().zip(0..).any(|(&read, k)| read != k * 100));
    }

    proptest! {
        #[test]
        fn property_a_clock_without_steps_never_steps_back(clock in clocks(), t in -1i64 << 40..1 << 40, dt in 0i64..1 << 20) {
            prop_assert!(clock.read(t) <= clock.read(t + dt));
        }

        #[test]
        fn property_a_reading_is_that_of_a_moment_within_the_jitter(clock in clocks(), t in -1i64 << 40..1 << 40) {
            let reach = (clock.jitter - 1).max(0);
            let read = clock.read(t);
            prop_assert!(clock.exact(t - reach) <= read && read <= clock.exact(t + reach));
        }

        #[test]
        fn property_a_plain_rate_is_kept_to_one_tick(numerator in 1i64..1000, denominator in 1i64..1000, t in 0i64..1 << 40) {
            let clock = SimulatedClock { rate_numerator: numerator, rate_denominator: denominator, ..Default::default() };
            let ideal = i128::from(t) * i128::from(numerator);
            let read = i128::from(clock.read(t)) * i128::from(denominator);
            prop_assert!(read <= ideal && ideal < read + i128::from(denominator));
        }
    }
}
