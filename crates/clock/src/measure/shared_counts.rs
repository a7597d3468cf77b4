//! Counts in memory that processes share.

use std::io;
use std::sync::atomic::AtomicU64;

/// A page of counts from 0, shared with the processes that are forked while it is there.
pub struct SharedCounts(*mut AtomicU64);

const BYTES: usize = 4096;

// SAFETY: what the pointer leads to is atomic, and stays mapped as long as this lives.
unsafe impl Sync for SharedCounts {}
// SAFETY: as above; any thread may unmap it.
unsafe impl Send for SharedCounts {}

impl SharedCounts {
    /// All of them 0.
    pub fn new() -> io::Result<Self> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: asks for new memory anywhere, which overlaps nothing.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, access, kind, -1, 0) };
        if page == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self(page.cast())) }
    }

    /// All of them.
    pub fn all(&self) -> &[AtomicU64] {
        // SAFETY: `new` mapped so many, zeroed and aligned to a page; they are unmapped by `drop` alone.
        unsafe { std::slice::from_raw_parts(self.0, BYTES / size_of::<AtomicU64>()) }
    }
}

impl Drop for SharedCounts {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with that length, and no reference to it outlives this.
        unsafe { libc::munmap(self.0.cast(), BYTES) };
    }
}
