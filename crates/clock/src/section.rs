//! How long any section of code took, as an interval: guaranteed from above, from below only with evidence.
//!
//! The counter is read on both sides of a section, ordered so that no part of the section lies outside. So it took no longer
//! than from the one reading to the other, whatever else happened between: that is guaranteed. The readings themselves
//! take a part of that, at least as much as the cheapest reading ever seen; and, if nothing intervened, at most what
//! the readings of the pairs just before and after took. That nothing intervened is *evidence*, and only as good as it is:
//! the kernel's count of switches away from this thread did not change, and neither pair was dearer than readings are here.
//!
//! Assumes for the upper bound: the thread's processors share one counter (see `tick::sharing`). Deliberately absent: a
//! lower bound without evidence, and a lower bound against interrupts and hypervisors: neither is counted as a switch. A
//! section that held one is long, and the interval holds it: it did take that long. `tickscope_section.h` is the same for C and C++.
//!
//! ```
//! use tickscope_clock::section::Meter;
//! let meter = Meter::of_this_thread();
//! let (sum, took) = meter.measure(|| (0..1000_u64).sum::<u64>());
//! assert!(took.at_most.get() > 0 && sum == 499_500);
//! ```

use std::{fmt, io};

use tickscope_tick::{Interval, Local, Span, counter};

/// What readings of the counter cost here, found by reading it often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meter {
    /// The least from one reading to the next, ticks.
    pub least_ticks: i64,
    /// What a reading takes at most unless something intervenes: 99 of 100, ticks.
    pub most_ticks: i64,
}

/// A section that has begun.
#[derive(Debug)]
pub struct Begun {
    meter: Meter,
    switches: Option<Switches>,
    pair: i64,
    from: i64,
}

/// How long a section took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Took {
    /// No longer than this, whatever happened: guaranteed.
    pub at_most: Span<Local>,
    /// No longer than this, if no reading is cheaper than the cheapest seen; `None`: this one was.
    pub at_most_less_reading: Option<Span<Local>>,
    /// Between these, if readings cost what they do when nothing intervenes.
    pub between: Result<Interval<Span<Local>>, Unproven>,
}

/// Why there is no lower bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unproven {
    /// The kernel does not tell of switches.
    NotTold,
    /// The thread was switched away, so often.
    Switched {
        /// How often.
        times: i64,
    },
    /// A pair of readings beside the section took longer than readings do here, ticks.
    Disturbed {
        /// The dearer pair.
        pair_ticks: i64,
        /// What a reading takes at most unless something intervenes.
        most_ticks: i64,
    },
    /// The bounds contradict each other: a reading was dearer than it ever should be.
    Contradiction,
}

impl fmt::Display for Unproven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTold => write!(f, "the kernel does not tell of switches"),
            Self::Switched { times } => write!(f, "the thread was switched away {times} times"),
            Self::Disturbed { pair_ticks, most_ticks } => {
                write!(f, "readings beside the section took {pair_ticks} ticks, where {most_ticks} are the most here")
            }
            Self::Contradiction => write!(f, "the section took less than its readings ever did"),
        }
    }
}

/// How often the kernel switched away from the calling thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Switches(i64);

impl Meter {
    /// Reads the counter for about a millisecond.
    pub fn of_this_thread() -> Self {
        const READINGS: usize = 10_001;
        let mut costs: Vec<i64> = (0..READINGS).map(|_| pair()).collect();
        costs.sort_unstable();
        Self { least_ticks: costs[0], most_ticks: costs[READINGS * 99 / 100] }
    }

    /// Begins a section: what follows is in it.
    #[inline]
    pub fn begin(self) -> Begun {
        let switches = Switches::of_this_thread().ok();
        let pair = pair();
        // Before: the counter is read before anything that follows can take effect.
        Begun { meter: self, switches, pair, from: counter::before() }
    }

    /// How long `section` took, and what it returned.
    #[inline]
    pub fn measure<T>(self, section: impl FnOnce() -> T) -> (T, Took) {
        let begun = self.begin();
        let value = section();
        (value, begun.end())
    }
}

impl Begun {
    /// Ends the section: what precedes is in it.
    #[inline]
    pub fn end(self) -> Took {
        let meter = self.meter;
        meter.took(self.readings())
    }

    /// The same, for who knows better than the meter what the readings cost: a binding, whose calls cost more.
    #[inline]
    pub fn readings(self) -> Readings {
        // After: the counter is not read until everything that precedes was seen.
        let to = counter::after();
        let pair = pair().max(self.pair);
        let switches = Switches::of_this_thread().ok();
        let times = self.switches.zip(switches).map(|(before, after)| after.0 - before.0);
        Readings { ticks: to - self.from, pair, switches: times }
    }
}

/// What was read of a section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Readings {
    /// From the reading before to the reading after, ticks.
    pub ticks: i64,
    /// The dearer of the pairs of readings beside it, ticks.
    pub pair: i64,
    /// How often the thread was switched away meanwhile; `None`: the kernel does not tell.
    pub switches: Option<i64>,
}

impl Meter {
    /// What those readings say. A counter that reads n stands between n and n + 1, so a distance of readings is good to a
    /// tick either way.
    pub fn took(self, Readings { ticks, pair, switches }: Readings) -> Took {
        let at_most = ticks + 1;
        // Less the tick that the cheapest reading may have seemed too dear by.
        let less_reading = at_most - (self.least_ticks - 1);
        let at_most_less_reading = (less_reading >= 0).then(|| Span::new(less_reading));
        let between = match (switches, at_most_less_reading) {
            (None, _) => Err(Unproven::NotTold),
            (Some(times), _) if times != 0 => Err(Unproven::Switched { times }),
            _ if pair > self.most_ticks => Err(Unproven::Disturbed { pair_ticks: pair, most_ticks: self.most_ticks }),
            (_, None) => Err(Unproven::Contradiction),
            // Below 0 there is nothing to bound: no section takes less.
            (_, Some(hi)) => Interval::new(Span::new((ticks - 1 - (self.most_ticks + 1)).max(0)), hi)
                .map_err(|_| Unproven::Contradiction),
        };
        Took { at_most: Span::new(at_most), at_most_less_reading, between }
    }
}

/// From one reading to the next, ordered as around a section.
#[inline]
fn pair() -> i64 {
    let from = counter::before();
    counter::after() - from
}

impl Switches {
    fn of_this_thread() -> io::Result<Self> {
        // SAFETY: rusage is plain numbers, for which all zeros are a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes one rusage, and `usage` is one.
        if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(usage.ru_nvcsw + usage.ru_nivcsw))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const METER: Meter = Meter { least_ticks: 30, most_ticks: 50 };

    fn took(ticks: i64, pair: i64, switches: Option<i64>) -> Took {
        METER.took(Readings { ticks, pair, switches })
    }

    proptest! {
        #[test]
        fn property_a_section_lies_in_its_interval_wherever_it_begins_between_two_ticks(
            // In thousandths of a tick; costs as the meter has seen them, give or take the tick it sees by.
            begun in 0_i64..1_000, section in 0_i64..200_000, cost in 29_001_i64..50_999, part in 0_i64..=1_000,
        ) {
            let before = cost * part / 1_000;
            let ticks = (begun + before + section + (cost - before)) / 1_000 - begun / 1_000;
            let took = took(ticks, 40, Some(0));
            let between = took.between.unwrap();
            prop_assert!(between.lo().get() * 1_000 <= section && section <= between.hi().get() * 1_000);
            prop_assert!(section <= took.at_most.get() * 1_000);
        }
    }

    #[test]
    fn without_evidence_there_is_an_upper_bound_alone() {
        assert_eq!(took(1_000, 40, None).between, Err(Unproven::NotTold));
        assert_eq!(took(1_000, 40, Some(2)).between, Err(Unproven::Switched { times: 2 }));
        let disturbed = Unproven::Disturbed { pair_ticks: 51, most_ticks: 50 };
        assert_eq!(took(1_000, 51, Some(0)).between, Err(disturbed));
        for took in [took(1_000, 40, None), took(1_000, 51, Some(2))] {
            assert_eq!((took.at_most.get(), took.at_most_less_reading.map(Span::get)), (1_001, Some(972)));
        }
    }

    #[test]
    fn a_reading_cheaper_than_the_cheapest_seen_is_told_and_not_mended() {
        let took = took(20, 40, Some(0));
        assert_eq!((took.at_most.get(), took.at_most_less_reading), (21, None));
        assert_eq!(took.between, Err(Unproven::Contradiction));
    }

    #[test]
    fn a_sleep_is_a_switch() {
        let meter = Meter::of_this_thread();
        let ((), took) = meter.measure(|| std::thread::sleep(std::time::Duration::from_millis(2)));
        assert!(matches!(took.between, Err(Unproven::Switched { .. })), "{took:?}");
    }

    #[test]
    fn a_section_that_waits_for_the_counter_is_never_said_to_be_shorter() {
        let meter = Meter::of_this_thread();
        for _ in 0..1_000 {
            let (waited, took) = meter.measure(|| {
                let from = counter::after();
                while counter::before() - from < 2_000 {}
                2_000
            });
            assert!(took.at_most.get() >= waited, "{took:?}");
            assert!(
                took.between.is_ok_and(|between| between.hi().get() >= waited) || took.between.is_err(),
                "{took:?}"
            );
        }
    }
}
