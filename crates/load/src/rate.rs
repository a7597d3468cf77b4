//! How many events a second: a fraction of whole numbers, so that no rounding adds up.

use crate::Error;

/// The highest rate, events a second: some ten times what one core can send.
pub const MOST_A_SECOND: u64 = 1 << 32;
/// The longest time that so many events may be given for, seconds: 11 days, and with it the lowest rate.
pub const MOST_SECONDS: u64 = 1_000_000;

/// A rate of events, exact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventRate {
    events: u64,
    seconds: u64,
}

impl EventRate {
    /// So many events in so many seconds: 1 in 3 is no float.
    pub fn new(events: u64, seconds: u64) -> Result<Self, Error> {
        if seconds == 0 || seconds > MOST_SECONDS {
            let expected = format!("a rate of events in 1 to {MOST_SECONDS} seconds");
            return Err(Error::new(expected, format!("{seconds} seconds"), "Give events a second"));
        }
        if events == 0 || events > MOST_A_SECOND * seconds {
            return Err(refused(format!("{events} in {seconds} s")));
        }
        Ok(Self { events, seconds })
    }

    /// So many events a second, to the nearest millionth of one.
    pub fn per_second(hertz: f64) -> Result<Self, Error> {
        let millionths = (hertz * 1e6).round();
        if !(1.0..=(MOST_A_SECOND * MOST_SECONDS) as f64).contains(&millionths) {
            return Err(refused(hertz));
        }
        Self::new(millionths as u64, MOST_SECONDS)
    }

    /// Events in [`EventRate::seconds`].
    pub fn events(self) -> u64 {
        self.events
    }

    /// The time that the events are given for, seconds.
    pub fn seconds(self) -> u64 {
        self.seconds
    }
}

fn refused(found: impl ToString) -> Error {
    let expected = format!("a rate from 0.000001 to {MOST_A_SECOND} events a second");
    Error::new(expected, found, "Give events a second, as 1000 or 0.5")
}
