//! Whether a trace of all cores shows every switch of them, by the kernel's own count of switches.
//!
//! Idea: the count is read from time to time, and each reading is an interval of ticks. Where no switch of the trace
//! may lie in that interval, the trace says exactly how many of its switches the reading has counted, and two such
//! readings say how many were in between. Assumes: a switch is counted and stamped within [`APART`] ticks of each
//! other.
//! Guarantees: a stretch is called complete only if both counts agree exactly; a switch that was left out twice, from
//! nobody to a task and back, shows as a count that is too high. Deliberately absent: which switches were left out.

use std::fs;

use tickscope_counter::NodeCounter;
use tickscope_tick::Ordering;

/// Ticks between the count and the stamp of one switch, at most: 10 us of a counter of 5 GHz.
pub const APART: i64 = 50_000;

/// A reading of the kernel's count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CountReading {
    /// Ticks before and after.
    pub ticks: [i64; 2],
    /// Switches of all cores since boot.
    pub switches: u64,
}

/// Verdict of two readings about a stretch of the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stretch {
    /// The trace shows every switch between these ticks.
    Complete([i64; 2]),
    /// The trace left out that many switches somewhere between these ticks.
    Incomplete([i64; 2], u64),
    /// Nothing is known between these ticks: a switch that the trace shows late may lie on either side of the first
    /// reading, or the trace shows more switches than the kernel counted.
    Unclear([i64; 2]),
    /// The first reading of which it is known what it has counted: what follows is compared with it.
    Begun,
    /// A switch of the trace may lie within the reading.
    Open,
}

impl CountReading {
    /// Reads the kernel's count; in words why it cannot be read.
    pub fn take(counter: &NodeCounter) -> Result<Self, String> {
        const PLACE: &str = "/proc/stat";
        let from = counter.read(Ordering::Before);
        let text = fs::read_to_string(PLACE).map_err(|e| format!("cannot read {PLACE}: {e}"))?;
        let ticks = [from, counter.read(Ordering::After)];
        let count = text.lines().find_map(|line| line.strip_prefix("ctxt "));
        let switches = count.and_then(|count| count.trim().parse().ok());
        switches.map(|switches| Self { ticks, switches }).ok_or_else(|| {
            format!("expected a line `ctxt` in {PLACE}, found none: this kernel does not count switches, another may")
        })
    }

    /// The tick up to which the trace has to be read before it is compared.
    pub fn settles_at(self) -> i64 {
        self.ticks[1] + APART
    }
}

/// A trace of all cores beside readings of the count.
#[derive(Debug, Default)]
pub struct SwitchCount {
    /// The last reading of which it is known what it has counted.
    base: Option<CountReading>,
    /// First and last tick at which each switch since then may have been, of those that a reading may not have counted.
    shown: Vec<[i64; 2]>,
    /// Switches since then that every reading to come has counted.
    settled: u64,
    /// One of these may have been counted by the base as well.
    is_unclear: bool,
}

impl SwitchCount {
    /// Takes a switch that the trace shows.
    pub fn show(&mut self, ticks: [i64; 2]) {
        // It was not there yet when the base was compared.
        self.is_unclear |= self.base.is_some_and(|base| ticks[0] <= base.settles_at());
        self.shown.push(ticks);
    }

    /// Takes a reading, later than those before; every switch of up to [`CountReading::settles_at`] has been shown.
    pub fn compare(&mut self, reading: CountReading) -> Stretch {
        let [from, until] = [reading.ticks[0] - APART, reading.settles_at()];
        let before = self.shown.len();
        self.shown.retain(|[_, last]| *last >= from);
        self.settled += (before - self.shown.len()) as u64;
        if self.shown.iter().any(|[first, _]| *first <= until) {
            return Stretch::Open;
        }
        let (shown, is_unclear) = (std::mem::take(&mut self.settled), std::mem::take(&mut self.is_unclear));
        let Some(base) = self.base.replace(reading) else { return Stretch::Begun };
        let between = [base.ticks[0], reading.ticks[1]];
        match reading.switches.checked_sub(base.switches).and_then(|counted| counted.checked_sub(shown)) {
            Some(0) if !is_unclear => Stretch::Complete(between),
            Some(left_out) if !is_unclear => Stretch::Incomplete(between, left_out),
            _ => Stretch::Unclear(between),
        }
    }

    /// Something of the trace was lost: what comes is compared from the next reading on.
    pub fn restart(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reading(tick: i64, switches: u64) -> CountReading {
        CountReading { ticks: [tick, tick + 100], switches }
    }

    #[test]
    fn a_reading_within_which_a_switch_may_lie_says_nothing_and_the_next_one_counts_it() {
        let mut count = SwitchCount::default();
        assert_eq!(count.compare(reading(0, 50)), Stretch::Begun);
        let near = [1_000_000 - APART, 1_000_000 - APART];
        count.show(near);
        assert_eq!(count.compare(reading(1_000_000, 51)), Stretch::Open);
        count.show([1_000_100 + APART, 1_300_000]);
        assert_eq!(count.compare(reading(1_000_000, 51)), Stretch::Open);
        assert_eq!(count.compare(reading(2_000_000, 52)), Stretch::Complete([0, 2_000_100]));
        count.show([2_500_000, 2_500_000]);
        count.show([3_500_000, 3_500_000]);
        assert_eq!(count.compare(reading(3_000_000, 55)), Stretch::Incomplete([2_000_000, 3_000_100], 2));
        assert_eq!(count.compare(reading(4_000_000, 55)), Stretch::Unclear([3_000_000, 4_000_100]));
        count.restart();
        assert_eq!(count.compare(reading(5_000_000, 90)), Stretch::Begun);
    }

    #[test]
    fn a_switch_that_shows_late_may_have_been_counted_before_so_that_its_stretch_is_not_clear() {
        let mut count = SwitchCount::default();
        count.compare(reading(0, 50));
        assert_eq!(count.compare(reading(1_000_000, 51)), Stretch::Incomplete([0, 1_000_100], 1));
        count.show([500_000, 1_500_000]); // that one, or one since
        assert_eq!(count.compare(reading(2_000_000, 52)), Stretch::Unclear([1_000_000, 2_000_100]));
        assert_eq!(count.compare(reading(3_000_000, 52)), Stretch::Complete([2_000_000, 3_000_100]));
    }

    #[test]
    fn what_is_kept_does_not_grow_while_no_reading_can_be_compared_and_is_counted_all_the_same() {
        let mut count = SwitchCount::default();
        assert_eq!(count.compare(reading(0, 0)), Stretch::Begun);
        for at in 1..=1000 {
            let tick = at * 100_000;
            count.show([tick; 2]);
            assert_eq!(count.compare(reading(tick, at as u64)), Stretch::Open);
            assert_eq!((count.shown.len(), count.settled), (1, at as u64 - 1));
        }
        assert_eq!(count.compare(reading(200_000_000, 1000)), Stretch::Complete([0, 200_000_100]));
    }

    #[test]
    fn the_kernels_count_is_read_and_grows() {
        let counter = NodeCounter::true_counter();
        let one = CountReading::take(&counter).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(2)); // this thread gives its core away
        let other = CountReading::take(&counter).unwrap();
        assert!(one.ticks[1] < other.ticks[0] && one.switches < other.switches, "{one:?} {other:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        /// The truth: switches that are counted and stamped up to [`APART`] of each other, some of them left out of
        /// the trace, or told late with a span in which they were.
        #[test]
        fn property_a_stretch_is_complete_only_where_no_switch_was_left_out(
            switches in prop::collection::vec((0..40_000_000_i64, 0..8_u8, -APART..=APART, 0..200_000_i64), 0..60),
            readings in prop::collection::vec((0..40_000_000_i64, 0..90_000_i64), 2..20),
        ) {
            let mut readings = readings;
            readings.sort_unstable();
            readings.dedup_by(|next, before| next.0 <= before.0 + before.1);
            let (mut count, mut told) = (SwitchCount::default(), vec![false; switches.len()]);
            for &(tick, lasts) in &readings {
                let counted = switches.iter().filter(|(at, ..)| *at <= tick + lasts / 2).count() as u64;
                let reading = CountReading { ticks: [tick, tick + lasts], switches: counted };
                for (at, &(counted_at, kind, apart, span)) in switches.iter().enumerate() {
                    let stamp = counted_at + apart;
                    let [first, last] = if kind == 1 { [stamp - span, stamp + span] } else { [stamp; 2] };
                    if kind > 0 && !told[at] && last <= reading.settles_at() {
                        told[at] = true;
                        count.show([first, last]);
                    }
                }
                // What shows later is left out as yet.
                let left_out = |[from, until]: [i64; 2]| {
                    let between = |at: i64| from < at && at <= until;
                    switches.iter().zip(&told).filter(|((at, ..), told)| !**told && between(*at)).count() as u64
                };
                match count.compare(reading) {
                    Stretch::Complete([from, until]) => prop_assert_eq!(left_out([from + 90_000, until - 90_000]), 0),
                    Stretch::Incomplete(between, found) => prop_assert!(found <= left_out(between)),
                    Stretch::Unclear(_) | Stretch::Begun | Stretch::Open => {}
                }
            }
        }
    }
}
