//! Ctrl-C and SIGTERM as a flag: whatever was measured is kept.

use std::sync::atomic::AtomicBool;

/// Set once the user or the system asked this process to end.
pub static ENDED: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: libc::c_int) {
    ENDED.store(true, std::sync::atomic::Ordering::Relaxed);
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
    ENDED.load(std::sync::atomic::Ordering::Relaxed)
}
