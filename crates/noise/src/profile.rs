//! What a survey of a host's noise found, as it is printed and saved.
//!
//! Guarantees: durations are whole ticks of the counter, `hertz` of them a second; shares are rounded outward.

use serde::Serialize;
use tickscope_tick::{fraction_down, fraction_up};

use crate::cause::CauseSum;
use crate::detector::Detector;
use crate::detour::DetourLimit;
use crate::shape::Shape;
use crate::tally::DetourTally;

/// Noise of a host.
#[derive(Clone, Debug, Serialize)]
pub struct NoiseProfile {
    /// Version of the keys and of what they mean; within one keys are only added.
    pub version: u32,
    /// The detector.
    pub detector: Detector,
    /// Ticks a second, as declared.
    pub hertz: u64,
    /// How the counter moves.
    pub step: String,
    /// Length of a quantum of time, ticks; of that detector alone.
    pub quantum_ticks: Option<i64>,
    /// Cores, and on each the ways in which memory was used.
    pub cores: Vec<CoreProfile>,
    /// What could not be measured, and why.
    pub missing: Vec<String>,
}

/// Noise of one core.
#[derive(Clone, Debug, Serialize)]
pub struct CoreProfile {
    /// The core.
    pub core: usize,
    /// A store into the next block of so many bytes of fresh memory follows each reading; `None`: none does.
    pub memory_bytes: Option<u32>,
    /// What tells a detour from a pass.
    pub limit: DetourLimit,
    /// Whatever lasts longer was found.
    pub resolution_ticks: i64,
    /// Windows of time, or traces.
    pub windows: u64,
    /// Time in all of them.
    pub measured_ticks: i64,
    /// Detours.
    pub count: u64,
    /// What they took, from and to.
    pub lost_ticks: [i64; 2],
    /// The part of the time that is, from and to.
    pub lost_share: [f64; 2],
    /// The detours by length.
    pub detours: DetourTally,
    /// The detours by cause, each in one, what took most first; `None`: no causes were recorded.
    pub causes: Option<Vec<CauseSum>>,
    /// What the kernel counted of the detector's threads.
    pub counts: ThreadCounts,
    /// Time that the hypervisor says it kept the core, from and to, nanoseconds, from the first window to the last;
    /// `None`: it does not say. It does not count exits.
    pub stolen_ns: Option<[i64; 2]>,
    /// What the shapes are of.
    pub shapes_of: &'static str,
    /// Skewness, kurtosis and medcouple, raw and after each rule.
    pub shapes: Vec<Shape>,
    /// Work in quanta of time.
    pub work: Option<Work>,
}

/// What the kernel counted of the threads that detected, in their windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ThreadCounts {
    /// Times that another task was given the core.
    pub preempted: i64,
    /// Times that the thread waited.
    pub waited: i64,
    /// Page faults.
    pub faults: i64,
}

/// Work done in quanta of time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Work {
    /// Whole quanta.
    pub quanta: u64,
    /// Quanta without any work.
    pub idle: u64,
    /// Passes of the best quantum.
    pub most: i64,
    /// Passes of all.
    pub passes: i64,
    /// The part that all lost against the best one, from and to: a pass at either end of a quantum may be its
    /// neighbour's.
    pub lost_share: [f64; 2],
}

impl Work {
    /// Of quanta with so many passes each; `None` of none, or where none did any work.
    pub fn of(quanta: u64, idle: u64, most: i64, passes: i64) -> Option<Self> {
        let count = i128::from(quanta);
        let share = |passes: i128, most: i128| (count * most - passes, count * most);
        if quanta == 0 || most < 2 {
            return None;
        }
        let (least, greatest) = (
            share(i128::from(passes) + count, i128::from(most) - 1),
            share(i128::from(passes) - count, i128::from(most) + 1),
        );
        let lost_share = [fraction_down(least.0, least.1), fraction_up(greatest.0, greatest.1)];
        Some(Self { quanta, idle, most, passes, lost_share })
    }
}

/// The part that `lost` is of `measured`, which is a difference of two readings, outward.
pub fn share([lo, hi]: [i64; 2], measured: i64, width_ticks: i64) -> [f64; 2] {
    let [longest, shortest] = [measured + width_ticks - 1, measured - width_ticks + 1].map(|of| i128::from(of).max(1));
    [fraction_down(i128::from(lo), longest), fraction_up(i128::from(hi), shortest)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_outward_and_hold_what_a_pass_more_or_less_leaves_open() {
        let [lo, hi] = share([100, 300], 1_000, 4);
        assert!(lo <= 100.0 / 1003.0 && hi >= 300.0 / 997.0 && lo > 0.0997 && hi < 0.30091, "{lo} {hi}");
        let work = Work::of(10, 1, 100, 900).unwrap();
        let [lo, hi] = work.lost_share;
        assert!(lo <= 0.1 && 0.1 <= hi && lo > 0.07 && hi < 0.13, "{work:?}");
        assert_eq!((Work::of(0, 0, 9, 0), Work::of(3, 3, 0, 0)), (None, None));
    }
}
