//! Tasks of one call spread over threads, which end with it.
//!
//! Guarantees: results are in the order of the tasks, whichever thread did each; where no more threads may be started,
//! those that are there do it all. Deliberately absent: threads that outlive a call: to start one takes a hundredth of
//! what its share takes.

use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use crate::codec::thread_cpu_ns;

/// The name of each thread that a call starts.
const HELPER: &str = "helper";

/// Does each of so many tasks, on at most so many threads, the caller's included. Returns their results, and the
/// processor time of threads other than the caller's.
pub fn on_threads<R: Send>(tasks: usize, threads: NonZeroUsize, task: impl Fn(usize) -> R + Sync) -> (Vec<R>, u64) {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Relaxed);
            if at >= tasks {
                return done;
            }
            done.push((at, task(at)));
        }
    };
    let help = || (work(), thread_cpu_ns());
    let (mut done, mut helpers_ns) = (Vec::with_capacity(tasks), 0);
    thread::scope(|scope| {
        let start = |_| thread::Builder::new().name(HELPER.into()).spawn_scoped(scope, help).ok();
        let helpers: Vec<_> = (1..threads.get().min(tasks)).map_while(start).collect();
        done.extend(work());
        for helper in helpers {
            let (more, took_ns) = helper.join().unwrap_or_else(|panic| resume_unwind(panic));
            done.extend(more);
            helpers_ns += took_ns;
        }
    });
    done.sort_by_key(|(at, _)| *at);
    (done.into_iter().map(|(_, result)| result).collect(), helpers_ns)
}
