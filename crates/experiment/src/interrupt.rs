//! Ctrl-C and SIGTERM as a flag: whatever was measured is kept. SIGUSR1 as another: what `keep` holds is stored.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Set once the user or the system asked this process to end.
pub static ENDED: AtomicBool = AtomicBool::new(false);

/// How often it was asked to.
static ASKED: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_signal(_: libc::c_int) {
    ENDED.store(true, Ordering::Relaxed);
    ASKED.fetch_add(1, Ordering::Relaxed);
}

/// Set by SIGUSR1 until somebody takes it.
static DUMP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_dump(_: libc::c_int) {
    DUMP.store(true, Ordering::Relaxed);
}

/// Makes SIGUSR1 ask for a dump instead of ending the process.
pub fn catch_dump() {
    // SAFETY: the handler only stores to an atomic.
    unsafe { libc::signal(libc::SIGUSR1, on_dump as *const () as libc::sighandler_t) };
}

/// Returns whether a dump was asked for since the last call.
pub fn take_dump() -> bool {
    DUMP.swap(false, Ordering::Relaxed)
}

/// Makes SIGINT and SIGTERM set [`ENDED`] instead of ending the process.
pub fn catch() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only stores to an atomic.
        unsafe { libc::signal(signal, on_signal as *const () as libc::sighandler_t) };
    }
}

/// Returns whether it is set.
pub fn ended() -> bool {
    ENDED.load(Ordering::Relaxed)
}

/// Set once the user of the run that this process serves asked that to end.
static HURRIED: AtomicBool = AtomicBool::new(false);

/// Takes in that the run which this process serves is to end.
pub fn hurry() {
    HURRIED.store(true, Ordering::Relaxed);
}

/// Returns whether nobody wants to wait for a start any more.
pub fn hurried() -> bool {
    ended() || HURRIED.load(Ordering::Relaxed)
}

/// Returns whether it was set again: nobody wants to wait for others any more.
pub fn insisted() -> bool {
    ASKED.load(Ordering::Relaxed) > 1
}
