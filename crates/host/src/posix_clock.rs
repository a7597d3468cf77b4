//! The clocks of `clock_gettime`, read as the C library does or through the system call that it avoids.
//!
//! The C library reads most of them in user space, from a page that the kernel keeps (the vDSO); the CPU-time clocks,
//! and all of them where the kernel's clocksource forbids it, are system calls anyway. Deliberately absent: the known
//! maps of a test, which [`crate::host_clocks`] applies. Here it is the clocks themselves that are looked at.

use std::fmt;
use std::io;

/// A clock of `clock_gettime`; its readings are nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PosixClock {
    id: libc::clockid_t,
    name: &'static str,
}

impl PosixClock {
    /// `CLOCK_MONOTONIC`.
    pub const MONOTONIC: Self = Self { id: libc::CLOCK_MONOTONIC, name: "monotonic" };

    /// Every clock of this process and host.
    pub const ALL: [Self; 9] = [
        Self { id: libc::CLOCK_REALTIME, name: "realtime" },
        Self::MONOTONIC,
        Self { id: libc::CLOCK_MONOTONIC_RAW, name: "monotonic-raw" },
        Self { id: libc::CLOCK_BOOTTIME, name: "boottime" },
        Self { id: libc::CLOCK_TAI, name: "tai" },
        Self { id: libc::CLOCK_REALTIME_COARSE, name: "realtime-coarse" },
        Self { id: libc::CLOCK_MONOTONIC_COARSE, name: "monotonic-coarse" },
        Self { id: libc::CLOCK_PROCESS_CPUTIME_ID, name: "process-cpu" },
        Self { id: libc::CLOCK_THREAD_CPUTIME_ID, name: "thread-cpu" },
    ];

    /// The name in tables and options.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Whether each thread has such a clock of its own, so that two threads' readings have nothing in common.
    pub fn of_a_thread(self) -> bool {
        self.id == libc::CLOCK_THREAD_CPUTIME_ID
    }

    /// Whether the clock stands still while the process does.
    pub fn of_cpu_time(self) -> bool {
        matches!(self.id, libc::CLOCK_THREAD_CPUTIME_ID | libc::CLOCK_PROCESS_CPUTIME_ID)
    }

    /// The resolution that the kernel declares, nanoseconds; an error where the kernel has no such clock.
    pub fn declared_resolution_ns(self) -> io::Result<i64> {
        let mut time = NONE;
        // SAFETY: the kernel writes one timespec, and `time` is one.
        ended(unsafe { libc::clock_getres(self.id, &mut time) }.into()).map(|()| nanoseconds(time))
    }

    /// Reads it as the C library does.
    #[inline]
    pub fn read(self) -> io::Result<i64> {
        let mut time = NONE;
        // SAFETY: as above.
        ended(unsafe { libc::clock_gettime(self.id, &mut time) }.into()).map(|()| nanoseconds(time))
    }

    /// Reads it by a system call.
    #[inline]
    pub fn read_by_system_call(self) -> io::Result<i64> {
        let mut time = NONE;
        // SAFETY: as above; the call takes the clock's number and the timespec's address.
        ended(unsafe { libc::syscall(libc::SYS_clock_gettime, self.id, &raw mut time) }).map(|()| nanoseconds(time))
    }
}

impl fmt::Display for PosixClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

const NONE: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 0 };

#[inline]
fn ended(status: libc::c_long) -> io::Result<()> {
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[inline]
fn nanoseconds(time: libc::timespec) -> i64 {
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_read_a_clock_read_the_same_clock() {
        for clock in PosixClock::ALL {
            let [first, second, third] =
                [clock.read(), clock.read_by_system_call(), clock.read()].map(|reading| reading.unwrap());
            // REALTIME and TAI may be set meanwhile; nobody does while tests run.
            assert!(first <= second && second <= third, "{clock}: {first}, {second}, {third}");
        }
    }

    #[test]
    fn a_clock_that_does_not_exist_is_an_error() {
        let none = PosixClock { id: 99, name: "none" };
        assert!(none.read().is_err() && none.read_by_system_call().is_err() && none.declared_resolution_ns().is_err());
    }
}
