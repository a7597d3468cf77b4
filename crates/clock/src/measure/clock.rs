//! Every clock of a host, by name.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use tickscope_host::posix_clock::PosixClock;
use tickscope_tick::{Clock as HostClock, Ordering};

/// A clock of the host, and the way in which it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// The counter that stamps are read from, in one of its orderings.
    Counter(Ordering),
    /// A clock of the C library: read in user space where the kernel allows it.
    Library(PosixClock),
    /// The same, forced through a system call.
    SystemCall(PosixClock),
    /// The counter behind a mutex, as a program keeps a clock that must not go backward.
    Mutex,
    /// A word in memory that a thread keeps setting to the counter.
    Ticker,
    /// The counter, asked of a thread over a Unix datagram socket.
    UnixSocket,
    /// The same over UDP on loopback.
    UdpSocket,
}

/// Unit of a clock's readings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Ticks of the host's counter.
    Ticks,
    /// Nanoseconds.
    Nanoseconds,
}

impl Clock {
    /// All of them, the cheap ones first.
    pub fn all() -> Vec<Self> {
        let counter = [Ordering::Plain, Ordering::Before, Ordering::After].map(Self::Counter);
        let shared = [Self::Ticker, Self::Mutex, Self::UnixSocket, Self::UdpSocket];
        let library = PosixClock::ALL.map(Self::Library);
        let system_call = PosixClock::ALL.map(Self::SystemCall);
        [&counter[..], &library, &system_call, &shared].concat()
    }

    /// Unit of its readings.
    pub fn unit(self) -> Unit {
        match self {
            Self::Library(_) | Self::SystemCall(_) => Unit::Nanoseconds,
            _ => Unit::Ticks,
        }
    }

    /// The clock of the kernel that it is.
    pub fn posix(self) -> Option<PosixClock> {
        match self {
            Self::Library(clock) | Self::SystemCall(clock) => Some(clock),
            _ => None,
        }
    }

    /// Why two threads' readings cannot be compared; `None` if they can.
    pub fn private(self) -> Option<&'static str> {
        self.posix().filter(|clock| clock.of_a_thread()).map(|_| "every thread has its own")
    }
}

impl FromStr for Clock {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let named = || Self::all().into_iter().map(|clock| format!("'{clock}'")).collect::<Vec<String>>().join(", ");
        let found = Self::all().into_iter().find(|clock| clock.to_string() == name);
        found.ok_or_else(|| format!("expected a clock's name, found '{name}'; name one of {}", named()))
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Counter(ordering) => format!("{} {ordering}", HostClock::STAMPED),
            Self::Library(clock) => clock.to_string(),
            Self::SystemCall(clock) => format!("{clock} syscall"),
            Self::Mutex => "mutex".into(),
            Self::Ticker => "ticker thread".into(),
            Self::UnixSocket => "unix socket".into(),
            Self::UdpSocket => "udp socket".into(),
        };
        f.pad(&name)
    }
}
