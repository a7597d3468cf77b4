//! Processors that a thread may run on, and pinning the calling thread to one.

use std::io;

use crate::{Finding, Problem};

/// Processors that a mask of this module can name; Linux is built for at most 8192.
const CPUS_MAX: usize = 8192;
const BITS: usize = u64::BITS as usize;

type Mask = [u64; CPUS_MAX / BITS];

/// The processors that the calling thread may run on, in ascending order.
pub fn allowed_cpus() -> Result<Vec<usize>, Finding> {
    let mut mask: Mask = [0; CPUS_MAX / BITS];
    // SAFETY: the kernel writes at most size_of::<Mask>() bytes into `mask`, which lives here and is that large; a
    // cpu_set_t is such an array of bits, of any length.
    let result = unsafe { libc::sched_getaffinity(0, size_of::<Mask>(), (&raw mut mask).cast()) };
    if result != 0 {
        return Err(Finding {
            about: "processors",
            problem: Problem::Failure {
                action: "list the allowed processors".into(),
                reason: io::Error::last_os_error().to_string(),
            },
            remedy: "allow sched_getaffinity in the sandbox".into(),
        });
    }
    Ok((0..CPUS_MAX).filter(|cpu| mask[cpu / BITS] >> (cpu % BITS) & 1 == 1).collect())
}

/// Pins the calling thread to `cpu`, and makes sure that it now runs there.
pub fn pin(cpu: usize) -> io::Result<()> {
    let mut mask: Mask = [0; CPUS_MAX / BITS];
    let word = mask.get_mut(cpu / BITS).ok_or(io::ErrorKind::InvalidInput)?;
    *word = 1 << (cpu % BITS);
    // SAFETY: the kernel reads size_of::<Mask>() bytes of `mask`, which lives here and is that large.
    if unsafe { libc::sched_setaffinity(0, size_of::<Mask>(), (&raw const mask).cast()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: takes no arguments and touches no memory of ours.
    let runs_on = unsafe { libc::sched_getcpu() };
    // Some sandboxes accept the call and ignore it; stamps of such a thread prove nothing about one processor.
    if usize::try_from(runs_on) == Ok(cpu) {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "cannot pin to cpu {cpu}: the thread still runs on cpu {runs_on}. This system ignores pinning: use another"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_is_allowed_that_cpu_only() {
        let cpu = *allowed_cpus().unwrap().last().unwrap();
        let seen = std::thread::spawn(move || pin(cpu).map(|()| allowed_cpus().unwrap())).join().unwrap();
        if let Ok(seen) = seen {
            assert_eq!(seen, [cpu]);
        }
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_refused() {
        for cpu in [CPUS_MAX - 1, CPUS_MAX, usize::MAX] {
            assert!(std::thread::spawn(move || pin(cpu)).join().unwrap().is_err());
        }
    }
}
