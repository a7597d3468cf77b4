//! Detours by length, in memory that does not grow: bands, the longest with their ticks, and a fair sample.

use serde::{Deserialize, Serialize};

use crate::cause::{Causes, DetourCause};
use crate::detour::{Detour, DetourLimit};

/// Where bands begin, nanoseconds; the first holds everything from the threshold on.
const EDGES_NS: [u64; 24] = [
    0,
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    10_000_000_000,
];
/// Detours that are told one by one.
const MOST_LONGEST: usize = 20;
/// Differences that are kept for statistics.
pub const SAMPLE: usize = 1 << 15;

/// Detours of one core.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DetourTally {
    /// By how far their readings are apart, from short to long.
    pub bands: Vec<Band>,
    /// The longest, the longest first.
    pub longest: Vec<LongDetour>,
    /// Readings that ran backward.
    pub backward: Vec<Detour>,
    /// How many there are of these.
    pub backward_count: u64,
    #[serde(skip)]
    sample: Vec<(u64, i64)>,
    #[serde(skip)]
    causes: Causes,
}

/// A detour that is told by itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LongDetour {
    /// Its readings.
    #[serde(flatten)]
    pub detour: Detour,
    /// Its cause; `None`: no causes were recorded.
    pub cause: Option<DetourCause>,
}

/// Detours of some length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Band {
    /// Their readings are at least so far apart, nanoseconds.
    pub from_ns: u64,
    /// The same in ticks, rounded up.
    pub from_ticks: i64,
    /// How many.
    pub count: u64,
    /// Those of which, whatever the width of a reading, nothing lies in another band.
    pub certain: u64,
    /// What they took together, from and to.
    pub lost_ticks: [i64; 2],
}

impl DetourTally {
    /// None yet, of a counter with so many ticks a second.
    pub fn new(hertz: u64) -> Self {
        let band = |from_ns: u64| {
            let from_ticks = (u128::from(from_ns) * u128::from(hertz)).div_ceil(1_000_000_000) as i64;
            Band { from_ns, from_ticks, count: 0, certain: 0, lost_ticks: [0; 2] }
        };
        let bands = EDGES_NS.map(band).into();
        let (longest, backward, sample) = (Vec::new(), Vec::new(), Vec::new());
        Self { bands, longest, backward, backward_count: 0, sample, causes: Causes::default() }
    }

    /// Adds a detour of the window of that number, with its cause and how many of its ticks that explains, where causes
    /// are recorded.
    pub fn add(&mut self, detour: Detour, limit: DetourLimit, window: u64, cause: Option<(DetourCause, i64)>) {
        let difference = detour.difference();
        if difference < 0 {
            self.backward_count += 1;
            if self.backward.len() < MOST_LONGEST {
                self.backward.push(detour);
            }
            return;
        }
        let (at, width) = (self.band(difference), limit.width_ticks - 1);
        let is_certain = self.band(difference - width) == at && self.band(difference + width) == at;
        let (band, lost) = (&mut self.bands[at], limit.lost_ticks(difference));
        band.count += 1;
        band.certain += u64::from(is_certain);
        band.lost_ticks = [0, 1].map(|end| band.lost_ticks[end] + lost[end]);
        if let Some((cause, explained)) = &cause {
            self.causes.add(cause, *explained, detour, limit);
        }
        self.keep_longest(LongDetour { detour, cause: cause.map(|(cause, _)| cause) });
        let count = self.count();
        take_fairly(&mut self.sample, SAMPLE, count, (window, difference));
    }

    /// The band of such a difference.
    pub(crate) fn band(&self, ticks: i64) -> usize {
        self.bands.partition_point(|band| band.from_ticks <= ticks).saturating_sub(1)
    }

    fn keep_longest(&mut self, long: LongDetour) {
        let ticks = long.detour.difference();
        let at = self.longest.partition_point(|known| known.detour.difference() >= ticks);
        if at < MOST_LONGEST {
            self.longest.insert(at, long);
            self.longest.truncate(MOST_LONGEST);
        }
    }

    /// How many detours.
    pub fn count(&self) -> u64 {
        self.bands.iter().map(|band| band.count).sum()
    }

    /// Detours whose readings are at least so far apart.
    pub fn at_least(&self, from_ns: u64) -> u64 {
        self.bands.iter().filter(|band| band.from_ns >= from_ns).map(|band| band.count).sum()
    }

    /// What all took together, from and to.
    pub fn lost_ticks(&self) -> [i64; 2] {
        [0, 1].map(|end| self.bands.iter().map(|band| band.lost_ticks[end]).sum())
    }

    /// The detours by cause.
    pub fn causes(&self) -> Causes {
        self.causes.clone()
    }

    /// How far the readings of detours are apart, with the numbers of their windows: of all, or of as many as are
    /// kept, each with the same chance.
    pub fn sample(&self) -> &[(u64, i64)] {
        &self.sample
    }
}

/// Keeps each of `count` values, of which this is the last, with the same chance, at most so many (Vitter's algorithm
/// R). The chances follow from the count alone: the same series leaves the same sample.
pub fn take_fairly<T>(sample: &mut Vec<T>, most: usize, count: u64, value: T) {
    if sample.len() < most {
        sample.push(value);
        return;
    }
    // SplitMix64 of the count.
    let mut mixed = count.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    let place = ((u128::from(mixed ^ mixed >> 31) * u128::from(count)) >> 64) as usize;
    if let Some(kept) = sample.get_mut(place) {
        *kept = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: DetourLimit = DetourLimit { pass_ticks: 20, width_ticks: 4, threshold_ticks: 183 };

    #[test]
    fn each_detour_is_in_one_band_and_all_that_is_lost_adds_up() {
        let mut tally = DetourTally::new(2_000_000_000);
        let lengths = [184, 199, 200, 2_000, 2_003, 3_000, 90_000_000_000];
        for (at, ticks) in lengths.into_iter().enumerate() {
            tally.add(Detour { before: at as i64, after: at as i64 + ticks }, LIMIT, 0, None);
        }
        let counts: Vec<_> = tally.bands.iter().filter(|band| band.count > 0).collect();
        let found: Vec<_> = counts.iter().map(|band| (band.from_ns, band.count, band.certain)).collect();
        assert_eq!(found, [(0, 2, 1), (100, 1, 0), (1_000, 3, 2), (10_000_000_000, 1, 1)]);
        assert_eq!((tally.count(), tally.at_least(1_000)), (7, 4));
        let [lo, hi]: [i64; 2] = tally.lost_ticks();
        assert_eq!([lo, hi], [0, 1].map(|end| lengths.iter().map(|&ticks| LIMIT.lost_ticks(ticks)[end]).sum()));
        assert_eq!(tally.longest[0].detour, Detour { before: 6, after: 90_000_000_006 });
        assert!(tally.longest.is_sorted_by_key(|long| -long.detour.difference()));
    }

    #[test]
    fn memory_is_bounded_and_what_is_kept_is_spread_over_all_there_was() {
        let mut tally = DetourTally::new(1_000_000_000);
        let many = 8 * SAMPLE as i64;
        (0..many).for_each(|at| tally.add(Detour { before: 0, after: 200 + at }, LIMIT, 0, None));
        assert_eq!((tally.sample().len(), tally.longest.len(), tally.count()), (SAMPLE, MOST_LONGEST, many as u64));
        let early = tally.sample().iter().filter(|(_, difference)| *difference < 200 + many / 2).count();
        assert!((SAMPLE * 9 / 20..SAMPLE * 11 / 20).contains(&early), "{early} of the first half");
    }

    #[test]
    fn readings_that_run_backward_are_kept_with_both_stamps_and_are_no_detours() {
        let mut tally = DetourTally::new(1_000_000_000);
        tally.add(Detour { before: 9, after: 4 }, LIMIT, 0, None);
        assert_eq!((tally.count(), tally.backward_count), (0, 1));
        assert_eq!(tally.backward, [Detour { before: 9, after: 4 }]);
    }
}
