//! How long any section of code took, as an interval: guaranteed from above, assumed from below.
//!
//! The counter is read on both sides of a section, ordered so that no part of the section lies outside, and each
//! reading is as wide as the counter's step makes it. So the section took less than from the one reading to the other,
//! and a width more, whatever else happened between: that is guaranteed. A lower end cannot be: no reading tells a
//! section from a delay between a reading and the section. So the lower end is of the section together with whatever
//! delayed it or the readings next to it (an interrupt, a hypervisor), and assumes that begin and end themselves cost
//! no more than [`Costs::most_ticks`]. It is given with evidence alone: the kernel's count of switches away from this
//! thread did not change, and neither pair of readings next to the section was dearer than readings are here.
//!
//! Assumes for the upper bound: the thread's processors share one counter (see `tick::sharing`) that moves in regular
//! steps, or in steps that take longer than a reading (see `tick::step`). Deliberately absent: the cost of reading
//! taken off the upper bound, since what a reading costs next to one section is no proof of what it costs next to
//! another; a lower end without its assumption. `tickscope_section.h` is the same for C and C++.
//!
//! ```
//! use tickscope_clock::section::Meter;
//! let meter = Meter::of_this_thread()?;
//! let (sum, took) = meter.measure(|| (0..1000_u64).sum::<u64>());
//! assert!(took.at_most.get() > 0 && sum == 499_500);
//! # Ok::<(), tickscope_tick::InjectionError>(())
//! ```

use std::sync::OnceLock;
use std::{fmt, io};

use tickscope_counter as counter;
use tickscope_counter::NodeCounter;
use tickscope_host::step::{CounterStep, Evidence};
use tickscope_tick::{InjectionError, Interval, Local, Span};

/// The counter that sections are measured by, and what beginning and ending one costs.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    counter: NodeCounter,
    /// Found by measuring empty sections.
    pub costs: Costs,
}

/// The width of readings and the cost of begin and end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// The counter stands in `[n, n + width_ticks)` when a reading says `n`.
    pub width_ticks: i64,
    /// Twice what 99 of 100 pairs of readings took: beyond it something disturbs.
    pub usual_ticks: i64,
    /// Begin and end take no more within their readings: assumed, see [`Costs::assumption`].
    pub most_ticks: i64,
}

/// A section that has begun.
#[derive(Debug)]
pub struct Begun {
    meter: Meter,
    switches: Option<Switches>,
    pair: i64,
    /// As the counter truly reads.
    from: i64,
}

/// How long a section took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Took {
    /// Less than this, whatever happened: guaranteed.
    pub at_most: Span<Local>,
    /// Between these, the upper end guaranteed, the lower one under [`Costs::assumption`].
    pub between: Result<Interval<Span<Local>>, Unproven>,
}

/// Reason for a missing lower end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unproven {
    /// The kernel does not tell of switches.
    NotTold,
    /// The thread was switched away, so often.
    Switched {
        /// How often.
        times: i64,
    },
    /// A pair of readings next to the section took longer than readings do here, ticks.
    Disturbed {
        /// The dearer pair.
        pair_ticks: i64,
        /// Upper limit for a pair where nothing disturbs.
        usual_ticks: i64,
    },
    /// The counter went backward from the one reading to the other, ticks.
    Contradiction {
        /// From reading to reading.
        ticks: i64,
    },
}

impl fmt::Display for Unproven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTold => write!(f, "the kernel does not tell of switches"),
            Self::Switched { times } => {
                write!(f, "the thread was switched away {}", tickscope_tick::counted(times, "time"))
            }
            Self::Disturbed { pair_ticks, usual_ticks } => {
                write!(f, "readings next to the section took {pair_ticks} ticks, where {usual_ticks} are usual")
            }
            Self::Contradiction { ticks } => {
                write!(f, "the counter went backward, from reading to reading by {ticks} ticks")
            }
        }
    }
}

/// How often the kernel switched away from the calling thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Switches(i64);

impl Meter {
    /// Measures empty sections for some milliseconds, by the counter that this process was started to read.
    pub fn of_this_thread() -> Result<Self, InjectionError> {
        static STEP: OnceLock<CounterStep> = OnceLock::new();
        let counter = NodeCounter::from_environment()?;
        Ok(Self::of_step(counter, STEP.get_or_init(|| step_of(counter))))
    }

    /// The same by another counter.
    pub fn of_counter(counter: NodeCounter) -> Self {
        Self::of_step(counter, &step_of(counter))
    }

    fn of_step(counter: NodeCounter, step: &CounterStep) -> Self {
        const SECTIONS: usize = 4096;
        // A counter that stands still bounds nothing.
        let width = if step.evidence == Evidence::Still { 1 << 60 } else { step.width_ticks };
        let width_ticks = i64::try_from(width).unwrap_or(1 << 60);
        let meter = Self { counter, costs: Costs { width_ticks, usual_ticks: 0, most_ticks: 0 } };
        // Begun and ended by the code that begins and ends sections anywhere.
        let readings: Vec<Readings> = (0..SECTIONS).map(|_| meter.begin().readings()).collect();
        let usual_ticks = ninety_nine_of_a_hundred(readings.iter().map(|readings| readings.pair).collect());
        let costs = Costs { usual_ticks: SLOWER_LATER * usual_ticks, ..meter.costs };
        Self { counter, costs: costs.of_empty_sections(readings.iter().map(|readings| readings.ticks).collect()) }
    }

    /// Begins a section: what follows is in it.
    #[inline(always)]
    pub fn begin(self) -> Begun {
        let switches = Switches::of_this_thread().ok();
        let pair = self.pair();
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

    /// From one reading to the next, ordered as around a section.
    #[inline(always)]
    fn pair(self) -> i64 {
        let from = counter::before();
        self.between(from, counter::after())
    }

    fn between(self, from: i64, to: i64) -> i64 {
        let read = |raw| self.counter.injection().map_or(raw, |map| map.apply(raw));
        read(to) - read(from)
    }
}

fn step_of(counter: NodeCounter) -> CounterStep {
    CounterStep::of_counter(counter)
}

impl Begun {
    /// Ends the section: what precedes is in it.
    #[inline(always)]
    pub fn end(self) -> Took {
        let costs = self.meter.costs;
        costs.took(self.readings())
    }

    /// Like `end`, but returns the raw readings, for a caller that knows their cost; used by language bindings.
    #[inline(always)]
    pub fn readings(self) -> Readings {
        // After: the counter is not read until everything that precedes was seen.
        let to = counter::after();
        let pair = self.meter.pair().max(self.pair);
        let switches = Switches::of_this_thread().ok();
        let times = self.switches.zip(switches).map(|(before, after)| after.0 - before.0);
        Readings { ticks: self.meter.between(self.from, to), pair, switches: times }
    }
}

/// Readings of one section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Readings {
    /// From the reading before to the reading after, ticks.
    pub ticks: i64,
    /// The dearer of the pairs of readings next to it, ticks.
    pub pair: i64,
    /// How often the thread was switched away meanwhile; `None`: the kernel does not tell.
    pub switches: Option<i64>,
}

/// Elsewhere begin and end are aligned otherwise, have to be fetched, or share their core: seen to cost up to 3 times
/// what they do in 99 of 100 empty sections. Beyond that lie delays.
const DEARER_ELSEWHERE: i64 = 4;
/// A processor may be clocked down by as much before a pair of readings tells.
const SLOWER_LATER: i64 = 2;

impl Costs {
    /// The same where empty sections took these ticks from reading to reading; at least one.
    pub fn of_empty_sections(self, ticks: Vec<i64>) -> Self {
        let most_ticks = DEARER_ELSEWHERE * ninety_nine_of_a_hundred(ticks) + self.width_ticks;
        Self { most_ticks, ..self }
    }

    /// The assumption of every lower end, a sentence: print it with one.
    pub fn assumption(self) -> String {
        format!(
            "begin and end take no more than {} ticks here, {DEARER_ELSEWHERE} times what 99 of 100 empty sections \
             took; a delay between a reading and the section counts as the section's",
            self.most_ticks
        )
    }

    /// The duration that those readings prove.
    pub fn took(self, Readings { ticks, pair, switches }: Readings) -> Took {
        let at_most = ticks + self.width_ticks;
        // Below 0 there is nothing to bound: no section takes less.
        let lo = (ticks - self.width_ticks - self.most_ticks).max(0);
        let between = match switches {
            _ if at_most <= 0 => Err(Unproven::Contradiction { ticks }),
            None => Err(Unproven::NotTold),
            Some(times) if times != 0 => Err(Unproven::Switched { times }),
            _ if pair > self.usual_ticks => {
                Err(Unproven::Disturbed { pair_ticks: pair, usual_ticks: self.usual_ticks })
            }
            Some(_) => Interval::new(Span::new(lo), Span::new(at_most)).map_err(|_| Unproven::Contradiction { ticks }),
        };
        Took { at_most: Span::new(at_most), between }
    }
}

/// The 99 % quantile.
fn ninety_nine_of_a_hundred(mut ticks: Vec<i64>) -> i64 {
    ticks.sort_unstable();
    ticks[ticks.len() * 99 / 100]
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

    const COSTS: Costs = Costs { width_ticks: 26, usual_ticks: 50, most_ticks: 90 };

    fn took(ticks: i64, pair: i64, switches: Option<i64>) -> Took {
        COSTS.took(Readings { ticks, pair, switches })
    }

    proptest! {
        #[test]
        fn property_a_section_lies_in_its_interval_wherever_it_begins_between_two_steps(
            // In thousandths of a tick; begin and end cost up to what is assumed.
            step in 1_000_i64..90_000, begun in 0_i64..1 << 40, section in 0_i64..200_000, cost in 0_i64..=90_000,
            part in 0_i64..=1_000,
        ) {
            let shown = |instant: i64| instant / step * step / 1_000;
            let width_ticks = if step % 1_000 == 0 { step / 1_000 } else { step / 1_000 + 2 };
            let before = cost * part / 1_000;
            let ticks = shown(begun + before + section + (cost - before)) - shown(begun);
            let took = Costs { width_ticks, ..COSTS }.took(Readings { ticks, pair: 40, switches: Some(0) });
            let between = took.between.unwrap();
            prop_assert!(between.lo().get() * 1_000 <= section && section < between.hi().get() * 1_000);
            prop_assert!(section < took.at_most.get() * 1_000);
        }
    }

    #[test]
    fn without_evidence_there_is_an_upper_bound_alone() {
        assert_eq!(took(1_000, 40, None).between, Err(Unproven::NotTold));
        assert_eq!(took(1_000, 40, Some(2)).between, Err(Unproven::Switched { times: 2 }));
        let disturbed = Unproven::Disturbed { pair_ticks: 51, usual_ticks: 50 };
        assert_eq!(took(1_000, 51, Some(0)).between, Err(disturbed));
        for took in [took(1_000, 40, None), took(1_000, 51, Some(2))] {
            assert_eq!(took.at_most.get(), 1_026);
        }
    }

    #[test]
    fn a_counter_that_goes_backward_is_told_and_not_mended() {
        assert!(took(-25, 40, Some(0)).between.is_ok(), "readings in either order within a width");
        assert_eq!(took(-26, 40, Some(0)).between, Err(Unproven::Contradiction { ticks: -26 }));
    }

    #[test]
    fn the_assumption_names_its_figure() {
        assert!(COSTS.assumption().contains("no more than 90 ticks"));
        let costs = COSTS.of_empty_sections((1..=100).rev().collect());
        assert_eq!(costs, Costs { most_ticks: 4 * 100 + 26, ..COSTS });
    }

    #[test]
    fn a_sleep_is_a_switch() {
        let meter = Meter::of_this_thread().unwrap();
        let ((), took) = meter.measure(|| std::thread::sleep(std::time::Duration::from_millis(2)));
        assert!(matches!(took.between, Err(Unproven::Switched { .. })), "{took:?}");
    }
}
