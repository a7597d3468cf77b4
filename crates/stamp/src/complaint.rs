//! What the library says on stderr: never at the cost of the program that it measures.
//!
//! Guarantees: nothing is written but to the file that stderr was when this code was loaded (another may have got the
//! number 2 since, and be a file of the program's data); nothing where that would have to wait; and no signal comes of
//! it: neither of a reader that is gone, nor of `ulimit -f`, nor of a terminal whose foreground is another's.
//! Assumes: nobody else fills a pipe between the look at it and the write.

use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::descriptor::OpenFile;

static STDERR_DEVICE: AtomicU64 = AtomicU64::new(0);
static STDERR_INODE: AtomicU64 = AtomicU64::new(0);

/// Notes which file stderr is; called before the program can change it.
pub(crate) fn remember_stderr() {
    let stderr = OpenFile::of(libc::STDERR_FILENO);
    STDERR_DEVICE.store(stderr.device, Ordering::Relaxed);
    STDERR_INODE.store(stderr.inode, Ordering::Relaxed);
}

/// Writes a line to stderr, or nothing.
pub(crate) fn say(line: &str) {
    let (device, inode) = (STDERR_DEVICE.load(Ordering::Relaxed), STDERR_INODE.load(Ordering::Relaxed));
    if !(OpenFile { device, inode }.is_at(libc::STDERR_FILENO)) {
        return;
    }
    // SAFETY: sets that outlive the calls; they change no more than this thread's mask and errno, and both back.
    unsafe {
        let errno = *libc::__errno_location();
        let (mut mask, mut pending) = (mem::zeroed(), mem::zeroed());
        let ours = set_of(&[libc::SIGPIPE, libc::SIGXFSZ, libc::SIGTTOU]);
        libc::pthread_sigmask(libc::SIG_BLOCK, &ours, &mut mask);
        libc::sigpending(&mut pending);
        let raised = write(line.as_bytes());
        // One that was pending before is the program's.
        if let Some(raised) = raised.filter(|&raised| libc::sigismember(&pending, raised) == 0) {
            let (only, at_once) = (set_of(&[raised]), libc::timespec { tv_sec: 0, tv_nsec: 0 });
            while libc::sigtimedwait(&only, ptr::null_mut(), &at_once) < 0 && *libc::__errno_location() == libc::EINTR {
            }
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &mask, ptr::null_mut());
        *libc::__errno_location() = errno;
    }
}

/// The signal that a write which failed has raised, if any.
fn write(line: &[u8]) -> Option<i32> {
    let mut out = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one pollfd, and as many bytes as the slice has.
    let written = unsafe {
        let takes = libc::poll(&mut out, 1, 0) == 1 && out.revents == libc::POLLOUT;
        let bytes = line.len().min(libc::PIPE_BUF); // more may have to wait
        if takes { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), bytes) } else { 0 }
    };
    match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::EPIPE) if written < 0 => Some(libc::SIGPIPE),
        Some(libc::EFBIG) if written < 0 => Some(libc::SIGXFSZ),
        _ => None,
    }
}

fn set_of(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: a set that outlives the calls.
    unsafe {
        let mut set = mem::zeroed();
        libc::sigemptyset(&mut set);
        for &signal in signals {
            libc::sigaddset(&mut set, signal);
        }
        set
    }
}
