//! Sections of known length: waits that do nothing, and what leaving one costs.

use std::hint::black_box;

use tickscope_counter as counter;
use tickscope_stats::Quantile;
use tickscope_tick::Frequency;

use super::clock::Clock;
use super::recording::{self, Recorded};
use crate::compensation::Length;

/// Waits of one length, or nothing at all.
#[derive(Clone, Copy)]
pub(super) struct Section {
    /// As asked.
    pub ns: u32,
    pub ticks: i64,
    /// By how much a wait is longer than the counter within it says: entering and leaving its loop, a mispredicted
    /// branch.
    pub overhead_ticks: i64,
    pub length: Length,
}

impl Section {
    pub const NOTHING: Self = Self { ns: 0, ticks: 0, overhead_ticks: 0, length: Length::Zero };

    /// Waits of that length.
    pub fn of(ns: u32, frequency: Frequency) -> Self {
        let ticks = (f64::from(ns) / frequency.nanoseconds(1.0)) as i64;
        Self { ns, ticks, overhead_ticks: overhead_ticks(ticks, frequency), length: Length::Long }
    }

    /// Those whose length is known by that clock: one of processor time stands still while the thread is away.
    pub fn known(&self, mut recorded: Vec<Recorded>, clock: Clock) -> Vec<Recorded> {
        if clock.posix().is_some_and(tickscope_host::posix_clock::PosixClock::of_cpu_time) {
            let longest = self.ticks + self.ticks / 10;
            recorded.retain(|trial| trial.waited <= longest);
        }
        recorded
    }
}

/// Measures that overhead in bulk: a chain of waits is timed by one pair of readings and compared with what each said
/// of itself, so that a counter that goes in steps of 10 ns blurs each by a sixteenth of one. What a wait costs beside
/// its length does not depend on that, so short ones do.
fn overhead_ticks(ticks: i64, frequency: Frequency) -> i64 {
    const CHAINED: i64 = 16;
    const CHAINS: usize = 31;
    const LONGEST_NS: f64 = 2_000.0;
    let ticks = ticks.min((LONGEST_NS / frequency.nanoseconds(1.0)) as i64);
    let chain = |link: &dyn Fn() -> i64| {
        let from = counter::before();
        let known: i64 = (0..CHAINED).map(|_| black_box(link())).sum();
        counter::after() - from - known
    };
    let median = |link: &dyn Fn() -> i64| {
        let mut excess: Vec<i64> = (0..CHAINS).map(|_| chain(link)).collect();
        Quantile::MEDIAN.of(&mut excess).expect("tried")
    };
    let beyond = median(&|| recording::wait(ticks)) - median(&|| 0);
    (beyond + CHAINED / 2).div_euclid(CHAINED)
}
