//! Reading the counter that stamps are taken from, in an order that makes the reading evidence.
//!
//! One file an architecture, with the same functions; `tickscope.h` has the same for C.

use std::fmt;
use std::str::FromStr;

use crate::{Injection, InjectionError};

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::{after, before, plain};
#[cfg(target_arch = "x86_64")]
pub use x86_64::{after, before, plain, with_processor};

/// What a reading of the counter is ordered against.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Ordering {
    /// Nothing: the processor may read a little early or late. For stages; never evidence.
    Plain = 0,
    /// The counter was read before anything that follows in the program could be seen by others.
    Before = 1,
    /// The counter was not read until everything that precedes in the program was seen.
    After = 2,
}

impl Ordering {
    /// Every ordering, in the order of its number in block headers.
    pub const ALL: [Ordering; 3] = [Ordering::Plain, Ordering::Before, Ordering::After];

    /// The name in files and options.
    pub fn name(self) -> &'static str {
        match self {
            Ordering::Plain => "plain",
            Ordering::Before => "before",
            Ordering::After => "after",
        }
    }

    /// The ordering with that number in block headers.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Reads the true counter in this order.
    #[inline]
    pub fn read(self) -> i64 {
        match self {
            Ordering::Plain => plain(),
            Ordering::Before => before(),
            Ordering::After => after(),
        }
    }
}

impl fmt::Display for Ordering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Ordering {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|ordering| ordering.name() == text);
        found.ok_or_else(|| format!("expected an ordering: plain, before or after; found '{text}'. Choose one of them"))
    }
}

/// The counter as this node reads it: true, or through an [`Injection`].
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeCounter {
    injection: Option<Injection>,
}

impl NodeCounter {
    /// A counter that reads through `injection`, or true.
    pub fn new(injection: Option<Injection>) -> Self {
        Self { injection }
    }

    /// The counter as it is.
    pub const fn true_counter() -> Self {
        Self { injection: None }
    }

    /// The counter this process was started to read.
    pub fn from_environment() -> Result<Self, InjectionError> {
        Injection::from_environment().map(Self::new)
    }

    /// What stands between the counter and its readers.
    pub fn injection(&self) -> Option<Injection> {
        self.injection
    }

    /// Reads the counter in the order given.
    #[inline]
    pub fn read(&self, ordering: Ordering) -> i64 {
        let raw = ordering.read();
        match &self.injection {
            None => raw,
            Some(map) => map.apply(raw),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_never_steps_back_on_one_core_whatever_the_order() {
        let mut last = plain();
        for round in 0..100_000 {
            let now = Ordering::ALL[round % 3].read();
            assert!(now >= last || round % 3 == 0, "{now} after {last}");
            last = now.max(last);
        }
    }

    #[test]
    fn an_injected_counter_reads_what_the_map_says() {
        let map: Injection = "0:1000000000000:0:0:2".parse().unwrap();
        let (low, read, high) = (before(), NodeCounter::new(Some(map)).read(Ordering::After), after());
        assert!(map.apply(low) <= read && read <= map.apply(high));
    }

    #[test]
    fn orderings_keep_their_names_and_numbers() {
        for ordering in Ordering::ALL {
            assert_eq!(ordering.name().parse(), Ok(ordering));
            assert_eq!(Ordering::from_number(ordering as u8), Some(ordering));
        }
        assert_eq!(Ordering::from_number(3), None);
    }
}
