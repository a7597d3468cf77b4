//! What is done when this code is loaded: before `main`, or when a library that it is part of is loaded later.
//!
//! A pool takes milliseconds to make, which the first stamp must not: so it is made here where `TICKSCOPE_DIR` names a
//! directory. Where it cannot be made, the first opening tries again, and says why it could not.
//! Deliberately absent: a pool of a forked child's; it is made at the child's first opening or stamp.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{complaint, process};

static MAKES_POOL: AtomicBool = AtomicBool::new(true);

#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;

extern "C" fn loaded() {
    complaint::remember_stderr();
    let directory = std::env::var_os("TICKSCOPE_DIR").and_then(|directory| CString::new(directory.as_bytes()).ok());
    let is_usable = directory.is_some_and(|directory| {
        // SAFETY: a text that outlives the call.
        unsafe { libc::faccessat(libc::AT_FDCWD, directory.as_ptr(), libc::W_OK | libc::X_OK, libc::AT_EACCESS) == 0 }
    });
    if is_usable && MAKES_POOL.load(Ordering::Relaxed) {
        process::start_early();
    }
}

/// Leaves the pool to the first opening: for a program that reads stamp directories, and rarely stamps. It is called
/// from a section `.init_array.NUMBER`, which comes before this library's own.
pub extern "C" fn no_pool_at_load() {
    MAKES_POOL.store(false, Ordering::Relaxed);
}
