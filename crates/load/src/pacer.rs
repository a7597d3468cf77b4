//! Sends what is due when it is due, and spins on the counter until then.
//!
//! It never sleeps, for a timer wakes some 50 us late, and never skips: what could not be sent in time is sent at once,
//! one release after another, each with the tick at which it was due.
//!
//! Where the target takes nothing for a while, as a full socket does, what is late for that is the target's doing. A
//! sender says how long it was [held up](Pacer::held_up): until it has caught up, so much of each lateness is no fault
//! of the generator, but counted apart. Everything else is, as a counter that was not read in time.

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
    /// Ticks that the target took nothing for since the schedule was last held.
    held_ticks: i64,
    lateness: Lateness,
}

impl<C: FnMut() -> i64> Pacer<C> {
    /// A pacer on `counter`, a function that reads it, as `tickscope_counter::before`; an event that is sent more than
    /// `late_ticks` after its due tick counts as late.
    pub fn new(due: DueTicks, counter: C, late_ticks: u64) -> Self {
        Self { due, counter, first: 0, held_ticks: 0, lateness: Lateness::new(late_ticks) }
    }

    /// Spins until the next release is due; `None`: all were sent.
    #[inline]
    pub fn wait(&mut self) -> Option<Release> {
        let due = self.due.peek()?;
        let mut now = (self.counter)();
        while now < due {
            self.held_ticks = 0; // it has caught up
            now = (self.counter)();
        }
        self.release(now)
    }

    /// The next release if it is due by now; for a loop that does other work meanwhile.
    #[inline]
    pub fn poll(&mut self) -> Option<Release> {
        let (due, now) = (self.due.peek()?, (self.counter)());
        if due <= now {
            return self.release(now);
        }
        self.held_ticks = 0; // it has caught up
        None
    }

    /// The tick at which the next is due; `None`: all were sent.
    pub fn due(&self) -> Option<i64> {
        self.due.peek()
    }

    /// Takes note that the target took nothing for so many ticks.
    pub fn held_up(&mut self, ticks: i64) {
        self.held_ticks = self.held_ticks.saturating_add(ticks);
    }

    /// How late events were until now.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// Ends the load: what is due by now and was not sent counts as unsent, or as held up.
    pub fn end(mut self) -> Lateness {
        let now = (self.counter)();
        while let Some(due) = self.due.peek().filter(|due| *due <= now) {
            self.due.next();
            self.lateness.miss_held(due, now, self.held_ticks, self.due.burst());
        }
        self.lateness
    }

    #[inline]
    fn release(&mut self, now: i64) -> Option<Release> {
        let events = self.due.burst();
        let release = Release { first: self.first, events, due: self.due.next()?, sent: now };
        self.lateness.record_held(release.due, now, self.held_ticks, events);
        self.first += i64::from(events);
        Some(release)
    }
}
