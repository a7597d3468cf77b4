//! Sends what is due when it is due, and spins on the counter until then.
//!
//! It never sleeps, for a timer wakes some 50 us late, and never skips: what could not be sent in time is sent at once,
//! one release after another, each with the tick at which it was due.

use crate::{DueTicks, Lateness};

/// Events to be sent now: `first` and those that follow it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Release {
    /// The id of the first; ids count from 0 over the whole load.
    pub first: i64,
    /// How many there are; one stamp is for all.
    pub events: u32,
    /// The tick that a latency counts from.
    pub due: i64,
    /// The tick at which they were released.
    pub sent: i64,
}

/// A schedule with the counter that it is held on.
pub struct Pacer<C> {
    due: DueTicks,
    counter: C,
    first: i64,
    lateness: Lateness,
}

impl<C: FnMut() -> i64> Pacer<C> {
    /// A pacer on `counter`, a function that reads it, as `tickscope_counter::before`; an event that is sent more than
    /// `late_ticks` after its due tick counts as late.
    pub fn new(due: DueTicks, counter: C, late_ticks: u64) -> Self {
        Self { due, counter, first: 0, lateness: Lateness::new(late_ticks) }
    }

    /// Spins until the next release is due; `None`: all were sent.
    #[inline]
    pub fn wait(&mut self) -> Option<Release> {
        let due = self.due.peek()?;
        let mut now = (self.counter)();
        while now < due {
            now = (self.counter)();
        }
        self.release(now)
    }

    /// The next release if it is due by now; for a loop that does other work meanwhile.
    #[inline]
    pub fn poll(&mut self) -> Option<Release> {
        let (due, now) = (self.due.peek()?, (self.counter)());
        if due <= now { self.release(now) } else { None }
    }

    /// How late events were until now.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// Ends the load: what is due by now and was not sent counts as unsent.
    pub fn end(mut self) -> Lateness {
        let now = (self.counter)();
        while self.due.peek().is_some_and(|due| due <= now) {
            self.due.next();
            self.lateness.miss(self.due.burst());
        }
        self.lateness
    }

    #[inline]
    fn release(&mut self, now: i64) -> Option<Release> {
        let events = self.due.burst();
        let release = Release { first: self.first, events, due: self.due.next()?, sent: now };
        self.lateness.record(release.due, now, events);
        self.first += i64::from(events);
        Some(release)
    }
}
