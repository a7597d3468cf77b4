//! Processes that only burn time: the load under which clocks are read, steady or in pulses.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tickscope_tick::{Frequency, counter};

/// Busy processes, ended when this is dropped; and by the kernel when this process ends in any other way.
#[derive(Debug)]
pub struct BusyProcesses(Vec<libc::pid_t>);

impl BusyProcesses {
    /// Starts `count` of them, free to run on any processor that this thread may run on.
    pub fn start(count: u32) -> io::Result<Self> {
        Self::each(count, std::hint::spin_loop)
    }

    /// The same, each busy for `pulse_ns` by turns with asleep for as long.
    pub fn pulsing(count: u32, pulse_ns: u32, frequency: Frequency) -> io::Result<Self> {
        let ticks = (f64::from(pulse_ns) / frequency.nanoseconds(1.0)) as i64;
        let (tv_sec, tv_nsec) = (pulse_ns / 1_000_000_000, pulse_ns % 1_000_000_000);
        let pause = libc::timespec { tv_sec: tv_sec.into(), tv_nsec: tv_nsec.into() };
        Self::each(count, move || {
            let until = counter::plain() + ticks;
            while counter::plain() < until {
                std::hint::spin_loop();
            }
            // SAFETY: the kernel reads `pause`; a null pointer asks for nothing back.
            unsafe { libc::nanosleep(&pause, std::ptr::null_mut()) };
        })
    }

    fn each(count: u32, work: impl Fn()) -> io::Result<Self> {
        let mut started = Self(Vec::new());
        for _ in 0..count {
            started.0.push(forked(&work)?);
        }
        Ok(started)
    }

    /// Starts one more, which does `work` instead of burning time, over and over until it is ended. It is a copy of one thread of a
    /// process that may have more: `work` may make system calls on what was made before, compute, and nothing else.
    pub(super) fn add(&mut self, work: impl FnMut()) -> io::Result<()> {
        self.0.push(forked(work)?);
        Ok(())
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl Drop for BusyProcesses {
    fn drop(&mut self) {
        for &process in &self.0 {
            // SAFETY: kill and waitpid take numbers and a null pointer; the child was forked here and not waited for yet.
            unsafe {
                libc::kill(process, libc::SIGKILL);
                libc::waitpid(process, std::ptr::null_mut(), 0);
            }
        }
    }
}

/// A child that does `work` for ever: nothing but system calls and arithmetic.
fn forked(mut work: impl FnMut()) -> io::Result<libc::pid_t> {
    // SAFETY: takes no arguments.
    let parent = unsafe { libc::getpid() };
    // SAFETY: the child of a process with threads may only make async-signal-safe calls: it makes system calls and does
    // `work`, which promises as much.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: as above.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                // The parent may have ended before the kernel was asked to tell.
                if libc::getppid() != parent {
                    libc::_exit(0);
                }
            }
            // A panic must not unwind into what the parent was doing.
            let _ = catch_unwind(AssertUnwindSafe(|| {
                loop {
                    work();
                }
            }));
            // SAFETY: ends this process, and nothing of the parent's.
            unsafe { libc::_exit(1) }
        }
        process => Ok(process),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_processes_run_until_they_are_dropped() {
        let frequency = Frequency { hertz: 1_000_000_000, tolerance_ppm: 0 };
        for busy in [BusyProcesses::start(2).unwrap(), BusyProcesses::pulsing(2, 1_000_000, frequency).unwrap()] {
            they_run_until_dropped(busy);
        }
    }

    fn they_run_until_dropped(busy: BusyProcesses) {
        let processes = busy.0.clone();
        // SAFETY: signal 0 only asks whether the process is there.
        let there = |process: libc::pid_t| unsafe { libc::kill(process, 0) } == 0;
        assert!(processes.iter().all(|&process| there(process)));
        drop(busy);
        assert!(!processes.iter().any(|&process| there(process)));
    }
}
