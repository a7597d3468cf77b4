//! What is done when this code is loaded: before `main`, or when a library that it is part of is loaded later.
//!
//! A pool takes milliseconds to make, which the first stamp must not: so it is made here where `TICKSCOPE_DIR` is set.
//! It has no name before the first opening: a collector sees nothing of a process that opens nothing, and nothing is
//! left of it. Where it cannot be made or named, or the process is another user's by then, the first opening makes
//! one, and says why it could not.
//! Deliberately absent: a pool of a forked child's; it is made at the child's first opening or stamp.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::{complaint, process};

static MAKES_POOL: AtomicBool = AtomicBool::new(true);

#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;

extern "C" fn loaded() {
    complaint::remember_stderr();
    if MAKES_POOL.load(Ordering::Relaxed) {
        process::start_early();
    }
}

/// Leaves the pool to the first opening: for a program that reads stamp directories, and rarely stamps. It is called
/// from a section `.init_array.NUMBER`, which comes before this library's own.
pub extern "C" fn no_pool_at_load() {
    MAKES_POOL.store(false, Ordering::Relaxed);
}
