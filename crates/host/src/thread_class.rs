//! Name and scheduling class of the calling thread, and of those that it starts: how it stands among others.

/// Names it in the kernel's lists, such as the record of who had a core: `tickscope-` and `what`, of which the kernel
/// keeps 15 bytes. A program that was started as `/proc/self/exe` is called `exe` there.
pub fn be_called(what: &str) {
    let name = format!("tickscope-{what}\0");
    // SAFETY: the kernel reads up to the 0, and 16 bytes at most; the place outlives the call.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// From now on it takes no core from a thread that works on it when it wakes up: whoever is measured goes on, and it
/// gets its share at the next tick. No right is needed. A class that somebody gave it, as `chrt` does, is kept.
pub fn let_others_go_first() {
    let of_batch = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads the parameter, which outlives the call; 0 is the calling thread. Where a sandbox refuses
    // it, all goes on as before.
    unsafe {
        if libc::sched_getscheduler(0) == libc::SCHED_OTHER {
            libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const of_batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_and_those_that_it_starts_have_that_name_and_that_class() {
        let seen = std::thread::spawn(|| {
            be_called("a-role-of-a-long-name");
            let_others_go_first();
            let started = std::thread::spawn(|| {
                let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
                // SAFETY: 0 is the calling thread.
                (name, unsafe { libc::sched_getscheduler(0) })
            });
            started.join().unwrap()
        });
        assert_eq!(seen.join().unwrap(), ("tickscope-a-rol\n".to_owned(), libc::SCHED_BATCH));
    }

    #[test]
    fn a_class_that_somebody_gave_a_thread_is_kept() {
        let kept = std::thread::spawn(|| {
            let idle = libc::sched_param { sched_priority: 0 };
            // SAFETY: the kernel reads the parameter, which outlives the call; 0 is the calling thread.
            assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const idle) }, 0);
            let_others_go_first();
            // SAFETY: as above.
            unsafe { libc::sched_getscheduler(0) }
        });
        assert_eq!(kept.join().unwrap(), libc::SCHED_IDLE);
    }
}
