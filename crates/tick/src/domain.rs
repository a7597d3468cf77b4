//! Which counter a tick was read from, and how fast that counter is declared to run.

use std::fmt;
use std::str::FromStr;

/// The kernel's name for one boot of one machine; two containers of one kernel have the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootId(pub [u8; 16]);

/// A kind of counter that a host has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Clock {
    /// x86: the time-stamp counter.
    Tsc,
    /// aarch64: the virtual counter, `CNTVCT_EL0`.
    Cntvct,
    /// `CLOCK_REALTIME`, in nanoseconds since the epoch of Unix.
    Realtime,
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    Monotonic,
    /// `CLOCK_MONOTONIC_RAW`, in nanoseconds.
    MonotonicRaw,
    /// The hardware clock of a network card (PHC), in nanoseconds.
    Phc,
}

/// The identity of a counter: ticks of two domains that differ in any part are not comparable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Domain {
    /// Which boot of which machine.
    pub boot: BootId,
    /// Which of its counters.
    pub counter: Clock,
    /// Counts the steps and resumes of that counter; 0 from boot on.
    pub epoch: u32,
}

/// How fast a counter is *declared* to run, and how far that may be off.
///
/// A calibration against a clock of the kernel is a declaration too: the kernel derives that clock from the
/// counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frequency {
    /// Ticks a second.
    pub hertz: u64,
    /// How far the true rate may be off, parts per million either way.
    pub tolerance_ppm: u32,
}

impl Frequency {
    /// What a crystal of ordinary machines is trusted to keep, when nothing better is known.
    pub const DEFAULT_TOLERANCE_PPM: u32 = 100;

    /// Nanoseconds that `ticks` take at the declared rate; for display only.
    pub fn nanoseconds(&self, ticks: f64) -> f64 {
        ticks * 1e9 / self.hertz as f64
    }
}

/// A domain, boot id or counter name that could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DomainError {
    expected: &'static str,
    found: String,
}

impl fmt::Display for DomainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, found '{}'. Was the file changed by hand?", self.expected, self.found)
    }
}

impl std::error::Error for DomainError {}

impl DomainError {
    /// What was expected of a domain's text, and what was found.
    pub fn new(expected: &'static str, found: String) -> Self {
        Self { expected, found }
    }
}

impl fmt::Display for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, byte) in self.0.iter().enumerate() {
            let dash = if matches!(position, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BootId({self})")
    }
}

impl FromStr for BootId {
    type Err = DomainError;

    fn from_str(text: &str) -> Result<Self, DomainError> {
        let wrong =
            || DomainError { expected: "a boot id: 32 hexadecimal digits, with or without dashes", found: text.into() };
        let digits: Vec<u8> = text.bytes().filter(|&b| b != b'-').collect();
        if digits.len() != 32 || !digits.is_ascii() {
            return Err(wrong());
        }
        let mut id = [0; 16];
        for (byte, pair) in id.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(Self(id))
    }
}

impl Clock {
    /// Every counter, with the name it has in files and the number it has in blocks.
    pub const ALL: [(Clock, &str, u8); 6] = [
        (Clock::Tsc, "tsc", 1),
        (Clock::Cntvct, "cntvct", 2),
        (Clock::Realtime, "realtime", 3),
        (Clock::Monotonic, "monotonic", 4),
        (Clock::MonotonicRaw, "monotonic-raw", 5),
        (Clock::Phc, "phc", 6),
    ];

    /// The counter that stamps read on this architecture.
    #[cfg(target_arch = "x86_64")]
    pub const STAMPED: Clock = Clock::Tsc;
    /// The counter that stamps read on this architecture.
    #[cfg(target_arch = "aarch64")]
    pub const STAMPED: Clock = Clock::Cntvct;

    /// The name in files and options.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The number in block headers.
    pub fn number(self) -> u8 {
        Self::ALL[self as usize].2
    }

    /// The counter with that number in block headers.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.iter().find(|(_, _, n)| *n == number).map(|&(counter, ..)| counter)
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Clock {
    type Err = DomainError;

    fn from_str(text: &str) -> Result<Self, DomainError> {
        let found = Self::ALL.iter().find(|(_, name, _)| *name == text);
        found.map(|&(counter, ..)| counter).ok_or_else(|| DomainError {
            expected: "a counter: tsc, cntvct, realtime, monotonic, monotonic-raw or phc",
            found: text.into(),
        })
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.boot, self.counter, self.epoch)
    }
}

impl FromStr for Domain {
    type Err = DomainError;

    fn from_str(text: &str) -> Result<Self, DomainError> {
        let wrong = || DomainError { expected: "a domain: boot-id/counter/epoch", found: text.into() };
        let mut parts = text.split('/');
        let (Some(boot), Some(counter), Some(epoch), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(wrong());
        };
        Ok(Self { boot: boot.parse()?, counter: counter.parse()?, epoch: epoch.parse().map_err(|_| wrong())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_survives_being_written_and_read() {
        let domain = Domain { boot: BootId([0xab; 16]), counter: Clock::Tsc, epoch: 3 };
        assert_eq!(domain.to_string().parse(), Ok(domain));
    }

    #[test]
    fn what_is_no_domain_is_refused() {
        for text in
            ["", "x/tsc/0", "abababab-abab-abab-abab-abababababab/tsc", "abababab-abab-abab-abab-abababababab/hpet/0"]
        {
            assert!(text.parse::<Domain>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_counter_has_its_own_name_and_number() {
        for (position, (counter, name, number)) in Clock::ALL.into_iter().enumerate() {
            assert_eq!(counter as usize, position);
            assert_eq!(name.parse(), Ok(counter));
            assert_eq!(Clock::from_number(number), Some(counter));
        }
    }
}
