//! What becomes of a reader of a mapped file that its owner cuts short: it reads zeros there and is told, instead of
//! being ended by SIGBUS.
//!
//! Files on tmpfs cannot be kept from being truncated, so the handler of SIGBUS puts memory of this process, all zero,
//! in place of what is gone, and the failed access is done again. Assumes: nobody else installs a handler of SIGBUS
//! later. Guarantees: a fault within a guarded mapping never ends the process; any other fault does what it did before.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// A guarded range; never freed, for the handler may be looking at it, but used again.
#[derive(Debug)]
struct Range {
    /// 0: not in use.
    base: AtomicUsize,
    length: AtomicUsize,
    hit: AtomicBool,
    next: AtomicPtr<Range>,
}

static RANGES: AtomicPtr<Range> = AtomicPtr::new(std::ptr::null_mut());
/// Base of a range that is being filled in.
const TAKEN: usize = 1;

/// A mapping that may be cut short, for as long as this lives; drop it before the range is unmapped.
#[derive(Debug)]
pub(crate) struct Guard {
    range: &'static Range,
}

impl Guard {
    pub(crate) fn over(base: usize, length: usize) -> Self {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(install);
        let free = |range: &&Range| range.base.compare_exchange(0, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok();
        let range = ranges().find(free).unwrap_or_else(add);
        range.length.store(length, Ordering::Relaxed);
        range.hit.store(false, Ordering::Relaxed);
        range.base.store(base, Ordering::Release);
        Self { range }
    }

    /// Returns whether something of it was gone when it was read or written.
    pub(crate) fn was_hit(&self) -> bool {
        self.range.hit.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.range.base.store(0, Ordering::Release);
    }
}

fn ranges() -> impl Iterator<Item = &'static Range> {
    let range = |at: &AtomicPtr<Range>| {
        // SAFETY: null, or a range that was leaked on purpose.
        unsafe { at.load(Ordering::Acquire).as_ref() }
    };
    std::iter::successors(range(&RANGES), move |one| range(&one.next))
}

fn add() -> &'static Range {
    let (base, length, hit) = (AtomicUsize::new(TAKEN), AtomicUsize::new(0), AtomicBool::new(false));
    let new: &'static mut Range = Box::leak(Box::new(Range { base, length, hit, next: AtomicPtr::default() }));
    let place: *mut Range = new;
    let mut first = RANGES.load(Ordering::Acquire);
    loop {
        // SAFETY: `place` was leaked just above, and lives for ever.
        let new: &'static Range = unsafe { &*place };
        new.next.store(first, Ordering::Relaxed);
        match RANGES.compare_exchange(first, place, Ordering::Release, Ordering::Acquire) {
            Ok(_) => return new,
            Err(other) => first = other,
        }
    }
}

fn install() {
    // SAFETY: all zeros is a valid sigaction; the handler calls nothing that a signal handler must not.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_bus_error as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
    }
}

extern "C" fn on_bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid siginfo with an address for this signal.
    let address = unsafe { (*info).si_addr() } as usize;
    for range in ranges() {
        let (base, length) = (range.base.load(Ordering::Acquire), range.length.load(Ordering::Relaxed));
        if base > TAKEN && (base..base + length).contains(&address) && fill(address, base + length) {
            range.hit.store(true, Ordering::Release);
            return;
        }
    }
    // SAFETY: the default action ends the process when the access is done again.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Puts zeros from the page of `address` to `end`; returns whether it could.
fn fill(address: usize, end: usize) -> bool {
    // SAFETY: a system call without side effects.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let start = address / page * page;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the range lies within a mapping that its owner guards, whose file has nothing there any more.
    let map = unsafe { libc::mmap(start as *mut _, end - start, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    map != libc::MAP_FAILED
}
