//! Notification by the kernel that `CLOCK_REALTIME` was set, by however little.
//!
//! A timer on that clock, far in the future and armed with `TFD_TIMER_CANCEL_ON_SET`, is cancelled by every set of the
//! clock: `read` gives `ECANCELED`, once. Comparing clocks cannot see a step below the width of its readings; this can.
//!
//! Guarantees: quiet while nobody sets the clock; slewing is no set. It also speaks after a suspend, which moves
//! REALTIME against MONOTONIC. Deliberately absent: how far the clock was set, and steps of an injected map, which the
//! kernel knows nothing of: both are for whoever compares snapshots.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::{Finding, Problem};

/// A timer that is cancelled when `CLOCK_REALTIME` is set.
#[derive(Debug)]
pub struct StepAlarm {
    timer: OwnedFd,
}

impl StepAlarm {
    /// Beyond any run, and within what the kernel can count: the year 2242.
    const NEVER_S: i64 = 1 << 33;

    /// Arms the timer.
    pub fn arm() -> Result<Self, Finding> {
        // SAFETY: no memory is passed.
        let timer = unsafe { libc::timerfd_create(libc::CLOCK_REALTIME, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
        if timer < 0 {
            return Err(unarmed(&io::Error::last_os_error()));
        }
        // SAFETY: the call above has just made this descriptor, and nobody else has it.
        let timer = unsafe { OwnedFd::from_raw_fd(timer) };
        let never = libc::timespec { tv_sec: Self::NEVER_S, tv_nsec: 0 };
        let once = libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value: never };
        let flags = libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET;
        // SAFETY: the kernel reads one itimerspec, and `once` is one; it writes none.
        if unsafe { libc::timerfd_settime(timer.as_raw_fd(), flags, &once, std::ptr::null_mut()) } != 0 {
            return Err(unarmed(&io::Error::last_os_error()));
        }
        Ok(Self { timer })
    }

    /// Waits until the clock is set, a signal comes or the time is over; whether the clock was set since last asked.
    pub fn wait(&self, most: Duration) -> Result<bool, Finding> {
        let mut ready = libc::pollfd { fd: self.timer.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // Rounded up: what is cut off would be spent asking again and again.
        let milliseconds = i32::try_from(most.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX);
        // SAFETY: one pollfd is passed, and the count says so. How it ends does not matter: the read below tells.
        unsafe { libc::poll(&mut ready, 1, milliseconds) };
        self.has_gone_off()
    }

    /// Whether the clock was set since last asked.
    pub fn has_gone_off(&self) -> Result<bool, Finding> {
        let mut expirations = [0u8; 8];
        // SAFETY: the kernel writes at most the eight bytes that are there.
        let read = unsafe { libc::read(self.timer.as_raw_fd(), expirations.as_mut_ptr().cast(), expirations.len()) };
        if read >= 0 {
            // It expired: only a clock that was set beyond NEVER_S can have done that.
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ECANCELED) => Ok(true),
            Some(libc::EAGAIN | libc::EINTR) => Ok(false),
            _ => Err(unarmed(&error)),
        }
    }
}

fn unarmed(error: &io::Error) -> Finding {
    Finding {
        about: "step alarm",
        problem: Problem::Failure {
            action: "watch CLOCK_REALTIME with a timer that every set of it cancels".into(),
            reason: error.to_string(),
        },
        remedy: "without it a step is seen only where it is wider than the readings; allow timerfd in the sandbox"
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_armed_alarm_is_quiet_while_nobody_sets_the_clock() {
        let alarm = StepAlarm::arm().unwrap();
        assert_eq!(alarm.has_gone_off(), Ok(false));
        assert_eq!(alarm.wait(Duration::from_millis(30)), Ok(false));
    }

    #[test]
    fn the_kernel_knows_the_timer_as_one_that_sets_cancel() {
        let alarm = StepAlarm::arm().unwrap();
        let told = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", alarm.timer.as_raw_fd())).unwrap();
        let field =
            |name: &str| told.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).unwrap().to_owned();
        assert_eq!(field("clockid:"), libc::CLOCK_REALTIME.to_string());
        let flags = i32::from_str_radix(&field("settime flags:"), 8).unwrap();
        assert_eq!(flags, libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET);
    }
}
