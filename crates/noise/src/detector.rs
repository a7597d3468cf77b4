//! The three detectors: loops that do nothing but read the counter, and note where a pass took too long.
//!
//! Idea: whoever has the core instead of the loop shows as two neighbouring readings that lie far apart. The selfish
//! detour notes such gaps alone, so that it can go on for hours; the fixed time quantum counts passes in each quantum
//! as well; the fixed work quantum is a fully unrolled run of readings of which every difference is kept, also with
//! memory written to in between. Assumes: room for what is noted has been touched before. Guarantees: a full memory
//! ends the loop at its last reading, and no gap goes by unseen. Deliberately absent: where readings come from, so that
//! tests know the truth.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::detour::{Detour, DetourLimit};

/// A way to find detours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Detector {
    /// Only gaps above the threshold.
    Selfish,
    /// Work done in each quantum of time.
    Ftq,
    /// Time that a fixed piece of work takes.
    Fwq,
}

impl Detector {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Selfish, Self::Ftq, Self::Fwq];

    /// Its name in options and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Selfish => "selfish",
            Self::Ftq => "ftq",
            Self::Fwq => "fwq",
        }
    }
}

impl fmt::Display for Detector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Selfish => "selfish detour",
            Self::Ftq => "fixed time quantum",
            Self::Fwq => "fixed work quantum",
        })
    }
}

impl FromStr for Detector {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|detector| detector.name() == name);
        known.ok_or_else(|| format!("expected selfish, ftq or fwq, found '{name}'. Leave it out for selfish"))
    }
}

/// Notes gaps until the counter passes `until`, or there is no room for another. The first and the last reading.
#[inline(always)]
pub fn selfish(mut read: impl FnMut() -> i64, until: i64, limit: DetourLimit, found: &mut Vec<Detour>) -> [i64; 2] {
    let first = read();
    let mut last = first;
    while last < until {
        let now = read();
        if limit.is_passed_by(now - last) && !note(found, last, now) {
            break;
        }
        last = now;
    }
    [first, last]
}

/// The same, and counts the passes of each whole quantum; a pass belongs to the quantum in which it ended.
#[inline(always)]
pub fn fixed_time(
    mut read: impl FnMut() -> i64,
    [until, quantum]: [i64; 2],
    limit: DetourLimit,
    found: &mut Vec<Detour>,
    passes: &mut Vec<i64>,
) -> [i64; 2] {
    let first = read();
    let (mut last, mut end, mut count) = (first, first + quantum, 0);
    while last < until {
        let now = read();
        if limit.is_passed_by(now - last) && !note(found, last, now) {
            break;
        }
        while now >= end {
            passes.push(std::mem::take(&mut count));
            end += quantum;
        }
        count += 1;
        last = now;
    }
    [first, last]
}

/// Every gap of a run of readings that is a detour.
pub fn fixed_work(readings: &[i64], limit: DetourLimit, found: &mut Vec<Detour>) -> [i64; 2] {
    let gaps = readings.windows(2).map(|pair| Detour { before: pair[0], after: pair[1] });
    found.extend(gaps.filter(|gap| limit.is_passed_by(gap.difference())));
    [readings.first(), readings.last()].map(|end| end.copied().unwrap_or(0))
}

/// Room that was made beforehand alone is used: more would have to come from the kernel.
#[cold]
fn note(found: &mut Vec<Detour>, before: i64, after: i64) -> bool {
    let has_room = found.len() < found.capacity();
    if has_room {
        found.push(Detour { before, after });
    }
    has_room
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes of 20 ticks, 1000 of them, with detours of so many ticks before some of the readings.
    fn series(detours: &[(usize, i64)]) -> Vec<i64> {
        let mut now = 1_000_000;
        let mut pass = |number: usize| {
            now += 20 + detours.iter().filter(|(at, _)| *at == number).map(|(_, ticks)| ticks).sum::<i64>();
            now
        };
        (0..1000).map(&mut pass).collect()
    }

    fn limit() -> DetourLimit {
        DetourLimit::of(&series(&[]), 4).unwrap()
    }

    type Run<'a> = dyn Fn(&mut dyn FnMut() -> i64, &mut Vec<Detour>) -> [i64; 2] + 'a;

    const DETOURS: [(usize, i64); 4] = [(1, 200), (300, 5_000), (301, 170), (999, 1_000_000)];

    #[test]
    fn every_detector_finds_each_detour_above_the_resolution_and_its_length_holds_the_truth() {
        let readings = series(&DETOURS);
        let truth: Vec<i64> = DETOURS.map(|(_, ticks)| ticks).into();
        let finds = |run: &Run| {
            let (mut found, mut at) = (Vec::with_capacity(9), readings.iter().copied());
            let ends = run(&mut || at.next().unwrap(), &mut found);
            assert_eq!(ends, [readings[0], readings[999]]);
            assert_eq!(found.len(), 3, "170 ticks and a pass are below the threshold of {}", limit().threshold_ticks);
            for (detour, truth) in found.iter().zip(truth.iter().filter(|&&ticks| ticks != 170)) {
                let [lo, hi] = limit().lost_ticks(detour.difference());
                assert!((lo..=hi).contains(truth), "{detour:?}: {lo}..{hi}, truth {truth}");
            }
        };
        let until = readings[999];
        finds(&|read, found| selfish(read, until, limit(), found));
        finds(&|read, found| fixed_time(read, [until, 100], limit(), found, &mut Vec::new()));
        finds(&|_, found| fixed_work(&readings, limit(), found));
    }

    #[test]
    fn a_full_memory_ends_the_loop_before_the_gap_that_finds_no_room() {
        let readings = series(&DETOURS);
        let (mut found, mut at) = (Vec::with_capacity(1), readings.iter().copied());
        let ends = selfish(|| at.next().unwrap(), i64::MAX, limit(), &mut found);
        assert_eq!((ends, found.len(), found.capacity()), ([readings[0], readings[299]], 1, 1));
    }

    #[test]
    fn passes_are_counted_in_their_quantum_and_a_quantum_that_a_detour_swallows_has_none() {
        let readings = series(&[(500, 1_000)]);
        let (mut found, mut passes, mut at) = (Vec::with_capacity(1), Vec::new(), readings.iter().copied());
        fixed_time(|| at.next().unwrap(), [readings[999], 200], limit(), &mut found, &mut passes);
        assert_eq!(passes[..3], [9, 10, 10], "the first quantum begins at a reading");
        assert_eq!(passes.iter().filter(|&&count| count == 0).count(), 5);
        assert_eq!(passes.iter().sum::<i64>(), 999 - 10, "but for the quantum that was not whole: {passes:?}");
    }

    #[test]
    fn a_counter_that_runs_backward_is_noted_with_both_readings() {
        let (mut found, mut at) = (Vec::with_capacity(2), [10, 30, 20, 40].into_iter());
        selfish(|| at.next().unwrap(), 40, limit(), &mut found);
        assert_eq!(found, [Detour { before: 30, after: 20 }]);
    }
}
