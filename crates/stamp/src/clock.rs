//! The counter and the kernel's clocks as this node reads them.
//!
//! Assumes: a clock is read through the vDSO, so a stamp of it makes no system call. Guarantees: what was injected
//! into a clock stands before every reading of it. Deliberately absent: a network card's clock, which only
//! `tickscope.h` reads.

use tickscope_counter as counter;
use tickscope_counter::NodeCounter;
use tickscope_tick::{Clock, RealtimeInjection};

use crate::environment::Environment;
use crate::process;

/// Maps put before the clocks.
#[derive(Debug)]
pub(crate) struct Clocks {
    pub counter: NodeCounter,
    realtime: Option<RealtimeInjection>,
}

/// A clock's reading between two of the counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Between {
    pub before: i64,
    pub clock_ns: i64,
    pub after: i64,
}

/// Readings of which a bracket keeps the narrowest: one interruption costs nothing.
const TRIES: usize = 8;

/// Reads a clock as stamps do, in nanoseconds, once a channel was opened; `None`: it is the counter, or can't be read.
pub fn clock_now(clock: Clock) -> Option<i64> {
    now(clock, process::clocks())
}

impl Clocks {
    /// Clocks as they are.
    pub const fn true_clocks() -> Self {
        Self { counter: NodeCounter::true_counter(), realtime: None }
    }

    /// Clocks as a process of that environment reads them.
    pub fn of(environment: &Environment) -> Self {
        Self { counter: NodeCounter::new(environment.injection), realtime: environment.realtime.clone() }
    }

    /// Whether any clock has a map put before it.
    pub fn are_injected(&self) -> bool {
        self.counter.injection().is_some() || self.realtime.is_some()
    }

    fn as_read(&self, clock: Clock, raw_ns: i64) -> i64 {
        match &self.realtime {
            Some(map) if clock == Clock::Realtime => map.apply(raw_ns),
            _ => raw_ns,
        }
    }
}

/// Reads a clock, after all that precedes and before all that follows.
pub(crate) fn now(clock: Clock, clocks: &Clocks) -> Option<i64> {
    let number = number_of(clock)?;
    let _ = counter::after(); // what precedes was seen
    let raw_ns = nanoseconds(number)?;
    let _ = counter::before(); // read before anything that follows
    Some(clocks.as_read(clock, raw_ns))
}

/// The narrowest of some readings of a clock between two of the counter, as this node reads both.
pub(crate) fn read_between(clock: Clock, clocks: &Clocks) -> Option<Between> {
    let number = number_of(clock)?;
    let once = || {
        let before = counter::before();
        let clock_ns = nanoseconds(number)?;
        Some(Between { before, clock_ns, after: counter::after() })
    };
    let mut best = once()?;
    for _ in 1..TRIES {
        let next = once()?;
        if next.after - next.before < best.after - best.before {
            best = next;
        }
    }
    let counter = |raw| clocks.counter.injection().map_or(raw, |map| map.apply(raw));
    Some(Between {
        before: counter(best.before),
        clock_ns: clocks.as_read(clock, best.clock_ns),
        after: counter(best.after),
    })
}

/// The kernel's number of a clock that it keeps for every process.
fn number_of(clock: Clock) -> Option<libc::clockid_t> {
    match clock {
        Clock::Realtime => Some(libc::CLOCK_REALTIME),
        Clock::Monotonic => Some(libc::CLOCK_MONOTONIC),
        Clock::MonotonicRaw => Some(libc::CLOCK_MONOTONIC_RAW),
        Clock::Tsc | Clock::Cntvct | Clock::Phc => None,
    }
}

fn nanoseconds(number: libc::clockid_t) -> Option<i64> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a timespec that outlives the call.
    let read = unsafe { libc::clock_gettime(number, &mut now) } == 0;
    read.then(|| now.tv_sec * 1_000_000_000 + now.tv_nsec)
}
