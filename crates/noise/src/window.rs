//! Sums of a survey's windows, one after the other: what chance leaves open is read off how they differ.
//!
//! Guarantees: memory is bounded, however long is measured: of too many sums two neighbours each become one; all of
//! them add up to the whole.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cause::{CauseClass, DetourCause};
use crate::detour::{Detour, DetourLimit};
use crate::tally::DetourTally;

/// Sums that are kept at most; there are at least half as many of a long survey.
pub const MOST_SUMS: usize = 512;

/// One window, or several that follow one another.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct WindowSum {
    /// Time that was measured.
    pub measured_ticks: i64,
    /// What detours took, from and to.
    pub lost_ticks: [i64; 2],
    /// How many detours, by the bands of the core.
    pub bands: Vec<u64>,
    /// Detours by class of cause, where causes were recorded.
    pub classes: BTreeMap<CauseClass, ClassSum>,
    /// How far readings of detours are apart, of those that are in the core's fair sample.
    pub lengths_ticks: Vec<i64>,
}

/// Detours of one class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ClassSum {
    /// How many.
    pub count: u64,
    /// What they took, from and to.
    pub lost_ticks: [i64; 2],
}

/// Windows of a core.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    sums: Vec<WindowSum>,
    /// Windows in a sum, and in the last one.
    each: u64,
    in_last: u64,
    pushed: u64,
}

impl Default for Windows {
    fn default() -> Self {
        Self { sums: Vec::new(), each: 1, in_last: 1, pushed: 0 }
    }
}

impl WindowSum {
    /// A window in so many parts, without detours.
    pub(crate) fn parts([first, last]: [i64; 2], parts: usize, tally: &DetourTally) -> Vec<Self> {
        let edge = |part: usize| (i128::from(last - first) * part as i128 / parts as i128) as i64;
        (0..parts).map(|part| Self::of(edge(part + 1) - edge(part), tally)).collect()
    }

    /// The part that an instant lies in; a detour is in that in which it began.
    pub(crate) fn part_of(tick: i64, [first, last]: [i64; 2], parts: usize) -> usize {
        let (into, whole) = (i128::from(tick - first).max(0), i128::from(last - first).max(1));
        ((into * parts as i128 / whole) as usize).min(parts - 1)
    }

    /// A window without detours.
    pub(crate) fn of(measured_ticks: i64, tally: &DetourTally) -> Self {
        Self { measured_ticks, bands: vec![0; tally.bands.len()], ..Self::default() }
    }

    /// Adds a detour; a counter that ran backward is none.
    pub(crate) fn add(&mut self, detour: Detour, limit: DetourLimit, cause: Option<&DetourCause>, tally: &DetourTally) {
        if detour.difference() < 0 {
            return;
        }
        let lost = limit.lost_ticks(detour.difference());
        self.lost_ticks = both(self.lost_ticks, lost);
        self.bands[tally.band(detour.difference())] += 1;
        if let Some(cause) = cause {
            let class = self.classes.entry(cause.class).or_default();
            *class = ClassSum { count: class.count + 1, lost_ticks: both(class.lost_ticks, lost) };
        }
    }

    fn join(&mut self, other: &Self) {
        self.measured_ticks += other.measured_ticks;
        self.lost_ticks = both(self.lost_ticks, other.lost_ticks);
        self.bands.iter_mut().zip(&other.bands).for_each(|(own, more)| *own += more);
        for (class, more) in &other.classes {
            let own = self.classes.entry(*class).or_default();
            *own = ClassSum { count: own.count + more.count, lost_ticks: both(own.lost_ticks, more.lost_ticks) };
        }
    }
}

fn both(one: [i64; 2], other: [i64; 2]) -> [i64; 2] {
    [0, 1].map(|end| one[end] + other[end])
}

impl Windows {
    /// Number of the next one.
    pub(crate) fn next(&self) -> u64 {
        self.pushed
    }

    pub(crate) fn push(&mut self, window: WindowSum) {
        self.pushed += 1;
        if self.in_last < self.each {
            self.in_last += 1;
            return self.sums.last_mut().expect("its first window was pushed").join(&window);
        }
        if self.sums.len() == MOST_SUMS {
            let pair = |pair: &[WindowSum]| {
                let mut sum = pair[0].clone();
                pair[1..].iter().for_each(|other| sum.join(other));
                sum
            };
            self.sums = self.sums.chunks(2).map(pair).collect();
            self.each *= 2;
        }
        self.sums.push(window);
        self.in_last = 1;
    }

    /// All of them, with the lengths of detours that are known by the number of their window.
    pub(crate) fn with_lengths(mut self, lengths: &[(u64, i64)]) -> Vec<WindowSum> {
        for &(window, ticks) in lengths {
            if let Some(sum) = self.sums.get_mut((window / self.each) as usize) {
                sum.lengths_ticks.push(ticks);
            }
        }
        self.sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_window_add_up_and_each_instant_lies_in_one() {
        let (tally, ends) = (DetourTally::new(1_000_000_000), [1_000, 2_003]);
        let parts: Vec<i64> = WindowSum::parts(ends, 4, &tally).iter().map(|part| part.measured_ticks).collect();
        assert_eq!(
            (parts.iter().sum::<i64>(), parts.iter().max(), parts.iter().min()),
            (1_003, Some(&251), Some(&250))
        );
        let of = |tick| WindowSum::part_of(tick, ends, 4);
        assert_eq!([1_000, 1_250, 1_251, 1_753, 2_003].map(of), [0, 0, 1, 3, 3]);
    }

    #[test]
    fn however_many_windows_there_are_few_sums_are_kept_in_order_and_they_add_up() {
        let tally = DetourTally::new(1_000_000_000);
        let limit = DetourLimit { pass_ticks: 20, width_ticks: 1, threshold_ticks: 180 };
        let mut windows = Windows::default();
        let all = 5 * MOST_SUMS as u64 + 3;
        for number in 0..all {
            let mut window = WindowSum::of(number as i64, &tally);
            window.add(Detour { before: 0, after: 1_000 }, limit, None, &tally);
            window.add(Detour { before: 5, after: 4 }, limit, None, &tally);
            windows.push(window);
        }
        let sums = windows.with_lengths(&[(0, 1), (all - 1, 2)]);
        assert!((MOST_SUMS / 2..=MOST_SUMS).contains(&sums.len()), "{}", sums.len());
        assert!(sums.is_sorted_by_key(|sum| sum.measured_ticks / sum.bands[4] as i64));
        assert_eq!(sums.iter().map(|sum| sum.measured_ticks as u64).sum::<u64>(), all * (all - 1) / 2);
        assert_eq!(sums.iter().map(|sum| sum.bands[4]).sum::<u64>(), all, "from 1 µs on");
        assert_eq!(sums.iter().map(|sum| sum.lost_ticks[0]).sum::<i64>(), all as i64 * 820);
        assert_eq!((&sums[0].lengths_ticks[..], &sums.last().unwrap().lengths_ticks[..]), (&[1][..], &[2][..]));
    }
}
