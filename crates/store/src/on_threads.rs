//! Tasks of one call spread over threads, which end with it.
//!
//! Guarantees: results are in the order of the tasks, whichever thread did each; where no more threads may be started,
//! those that are there do it all; a task that panics does so at the caller's. Deliberately absent: threads that
//! outlive a call: to start one takes a hundredth of what its share takes.

use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
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

/// Does each of so many tasks on so many other threads, `ahead` of them at most before `take` has had their results,
/// which it gets in order on the caller's thread meanwhile. What it refuses ends it.
pub fn in_order<R: Send, E>(
    tasks: usize,
    threads: NonZeroUsize,
    ahead: NonZeroUsize,
    task: impl Fn(usize) -> R + Sync,
    mut take: impl FnMut(usize, R) -> Result<(), E>,
) -> Result<(), E> {
    let threads = threads.get().min(ahead.get()).min(tasks);
    let task = &task;
    thread::scope(|scope| {
        // Each thread does every so many-th task, and has one in hand besides those that wait.
        let start = |first: usize| {
            let (done, results) = sync_channel(ahead.get() / threads - 1);
            let work = move || (first..tasks).step_by(threads).try_for_each(|at| done.send(task(at)));
            let helper = thread::Builder::new().name(HELPER.into()).spawn_scoped(scope, work).ok()?;
            Some((helper, results))
        };
        let mut helpers: Vec<_> = (0..threads).map(start).collect();
        for at in 0..tasks {
            let helper = &mut helpers[at % threads];
            let result = match helper.as_ref().map(|(_, results)| results.recv()) {
                None => task(at),
                Some(Ok(result)) => result,
                Some(Err(_)) => match helper.take().map(|(helper, _)| helper.join()) {
                    Some(Err(panic)) => resume_unwind(panic),
                    _ => unreachable!("a helper ends before its last task only by a panic"),
                },
            };
            take(at, result)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::in_order;

    fn some(count: usize) -> NonZeroUsize {
        NonZeroUsize::new(count).unwrap()
    }

    #[test]
    fn each_result_is_taken_once_and_in_order_and_few_wait() {
        for (tasks, threads, ahead) in [(0, 2, 8), (1, 2, 8), (3, 8, 8), (100, 1, 1), (100, 2, 8), (100, 3, 8)] {
            let (begun, mut taken) = (AtomicUsize::new(0), Vec::new());
            let task = |at: usize| {
                begun.fetch_add(1, SeqCst);
                at * 2
            };
            in_order::<_, ()>(tasks, some(threads), some(ahead), task, |at, result| {
                assert!(begun.load(SeqCst) <= at + 1 + ahead, "{tasks} tasks, {threads} threads, {ahead} ahead");
                taken.push((at, result));
                Ok(())
            })
            .unwrap();
            assert_eq!(taken, (0..tasks).map(|at| (at, at * 2)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_result_that_is_refused_ends_it() {
        let taken = in_order(1_000_000, some(2), some(8), |at| at, |at, _| if at == 5 { Err(at) } else { Ok(()) });
        assert_eq!(taken, Err(5));
    }

    #[test]
    fn a_task_that_panics_does_so_at_the_callers() {
        let task = |at: usize| assert_ne!(at, 7, "the eighth");
        let mut taken = Vec::new();
        let take = |at, ()| {
            taken.push(at);
            Ok::<_, ()>(())
        };
        let panic = catch_unwind(AssertUnwindSafe(|| in_order(20, some(2), some(4), task, take))).unwrap_err();
        assert!(panic.downcast_ref::<String>().is_some_and(|why| why.contains("the eighth")));
        assert_eq!(taken, [0, 1, 2, 3, 4, 5, 6]);
    }
}
