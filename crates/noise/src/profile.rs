//! What a survey of a host's noise found, as it is printed and saved.
//!
//! Guarantees: durations are whole ticks of the counter, `hertz` of them a second; shares are rounded outward.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tickscope_tick::{fraction_down, fraction_up};

use crate::advice::MachineSetting;
use crate::cause::CauseSum;
use crate::detector::Detector;
use crate::detour::{Detour, DetourLimit};
use crate::shape::Shape;
use crate::tally::DetourTally;
use crate::window::WindowSum;

/// Noise of a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    /// The machine; of a profile that an earlier version wrote nothing is known of it.
    #[serde(default)]
    pub machine: Machine,
}

/// What a profile is of.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Its boot.
    pub boot: Option<String>,
    /// Release of its kernel.
    pub kernel: Option<String>,
    /// Its processor's name.
    pub processor: Option<String>,
    /// Its hypervisor's name; empty: none.
    pub hypervisor: Option<String>,
    /// When it was begun, milliseconds since 1970 by the machine's clock.
    pub began_unix_ms: u64,
    /// First reading of its counter in a window; `None`: no window was measured, or an earlier version wrote it.
    #[serde(default)]
    pub began_tick: Option<i64>,
    /// Real-time priority of the detectors; 0: none.
    pub real_time_priority: i32,
    /// Settings that make noise, as they were.
    #[serde(default)]
    pub settings: Vec<MachineSetting>,
}

/// Noise of one core.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    pub shapes_of: String,
    /// Skewness, kurtosis and medcouple, raw and after each rule.
    pub shapes: Vec<Shape>,
    /// Work in quanta of time.
    pub work: Option<Work>,
    /// Sums of windows in their order, for comparisons; some windows long each, where there were many.
    #[serde(default)]
    pub sums: Vec<WindowSum>,
    /// Fixed work: traces, every difference in its order, each trace with the same chance; in saved profiles alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<Vec<i64>>,
}

/// Version of profiles.
pub const VERSION: u32 = 1;
/// Longest time in ticks, and most of anything, in a profile that is read.
const MOST: i64 = 1 << 56;

impl NoiseProfile {
    /// Refuses a profile from a file that no survey wrote, so that figures of it can be computed.
    pub fn check(&self) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!("version {}, and this tickscope reads {VERSION}", self.version));
        }
        let is_rate = (1..=1_000_000_000_000).contains(&self.hertz);
        is_rate.then_some(()).ok_or_else(|| format!("a counter of {} Hz", self.hertz))?;
        let mut names = BTreeSet::new();
        if let Some(twice) = self.cores.iter().map(CoreProfile::name).find(|name| !names.insert(name.clone())) {
            return Err(format!("{twice} twice"));
        }
        self.cores.iter().try_for_each(|of| of.check().map_err(|why| format!("{why} of {}", of.name())))
    }
}

impl CoreProfile {
    fn check(&self) -> Result<(), &'static str> {
        let fits = |ticks: i64| (0..=MOST).contains(&ticks);
        let is_interval = |[lo, hi]: [i64; 2]| fits(lo) && fits(hi) && lo <= hi;
        let DetourLimit { pass_ticks, width_ticks, threshold_ticks } = self.limit;
        let is_limit = fits(pass_ticks) && fits(threshold_ticks) && fits(width_ticks) && width_ticks > 0;
        let DetourTally { bands, backward, backward_count, .. } = &self.detours;
        let is_sum = |sum: &WindowSum| {
            let is_within = fits(sum.measured_ticks) && is_interval(sum.lost_ticks);
            let counts = sum.bands.len() == bands.len() && sum.bands.iter().all(|&count| count <= MOST as u64);
            is_within && counts && sum.lengths_ticks.iter().all(|&ticks| fits(ticks))
        };
        let whole = |of: fn(&WindowSum) -> i128| self.sums.iter().map(of).sum::<i128>();
        let ticks = whole(|sum| sum.measured_ticks.into());
        let count = whole(|sum| sum.bands.iter().map(|&count| i128::from(count)).sum());
        let add_up = |causes: &Vec<CauseSum>| {
            let lost = |end: usize| causes.iter().map(|sum| i128::from(sum.lost_ticks[end])).sum::<i128>();
            let count = causes.iter().map(|sum| u128::from(sum.count)).sum::<u128>();
            count == u128::from(self.count) && [0, 1].map(lost) == self.lost_ticks.map(i128::from)
        };
        let is_detour = |Detour { before, after }: &Detour| {
            after.checked_sub(*before).is_some_and(|ticks| ticks.unsigned_abs() <= MOST as u64)
        };
        // What readings leave open may take the upper end of a short survey above all of its time.
        let is_share = |[lo, hi]: [f64; 2]| 0.0 <= lo && lo <= hi && hi <= 2.0;
        let tests = [
            (is_limit, "no such limit"),
            (is_share(self.lost_share) && self.work.is_none_or(|work| is_share(work.lost_share)), "no such shares"),
            (self.detours.longest.iter().map(|long| &long.detour).chain(backward).all(is_detour), "no such detours"),
            (fits(self.measured_ticks) && is_interval(self.lost_ticks), "no such times"),
            (bands.is_sorted_by_key(|band| band.from_ns), "bands out of order"),
            (bands.iter().all(|band| band.count <= MOST as u64 && is_interval(band.lost_ticks)), "no such bands"),
            ((*backward_count == 0) == backward.is_empty(), "readings backward that are not counted"),
            (self.sums.iter().all(is_sum), "no such windows"),
            (
                self.sums.is_empty() || [ticks, count] == [self.measured_ticks.into(), self.count.into()],
                "windows that do not add up",
            ),
            (self.causes.as_ref().is_none_or(add_up), "causes that do not add up"),
            (self.traces.iter().flatten().all(|ticks| ticks.unsigned_abs() <= MOST as u64), "no such traces"),
        ];
        tests.into_iter().find(|(is_good, _)| !is_good).map_or(Ok(()), |(_, why)| Err(why))
    }

    /// The core, and how memory was used there.
    pub fn name(&self) -> String {
        match self.memory_bytes {
            None => format!("core {}", self.core),
            Some(bytes) => format!("core {}, blocks of {bytes} bytes", self.core),
        }
    }
}

/// What the kernel counted of the threads that detected, in their windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ThreadCounts {
    /// Times that another task was given the core.
    pub preempted: i64,
    /// Times that the thread waited.
    pub waited: i64,
    /// Page faults.
    pub faults: i64,
}

/// Work done in quanta of time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
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
