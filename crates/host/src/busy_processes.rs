//! Processes that only burn time, or do what they are told: the load under which clocks are read.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Busy processes, ended when this is dropped; and by the kernel when this process ends in any other way.
#[derive(Debug)]
pub struct BusyProcesses(Vec<libc::pid_t>);

impl BusyProcesses {
    /// Starts `count` of them, free to run on any processor that this thread may run on.
    pub fn start(count: u32) -> io::Result<Self> {
        let mut started = Self(Vec::new());
        for _ in 0..count {
            started.add(std::hint::spin_loop)?;
        }
        Ok(started)
    }

    /// Starts one more, which does `work` instead of burning time, over and over until it is ended. It is a copy of
    /// one thread of a process that may have more: `work` may make system calls on what was made before, compute, and
    /// nothing else.
    pub fn add(&mut self, work: impl FnMut()) -> io::Result<()> {
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
            // SAFETY: kill and waitpid take numbers and a null pointer; the child was forked here and not waited for
            // yet.
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
        let busy = BusyProcesses::start(2).unwrap();
        let processes = busy.0.clone();
        // SAFETY: signal 0 only asks whether the process is there.
        let there = |process: libc::pid_t| unsafe { libc::kill(process, 0) } == 0;
        assert!(processes.iter().all(|&process| there(process)));
        drop(busy);
        assert!(!processes.iter().any(|&process| there(process)));
    }
}
