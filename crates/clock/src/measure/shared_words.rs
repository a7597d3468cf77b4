//! Memory that processes share, in words of the paper's machine: 16 bits.

use std::io;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// One page of words, shared with the processes that are forked while it is there.
pub struct SharedWords(*mut AtomicU16);

/// Words of a page.
const WORDS: usize = 2048;
const BYTES: usize = WORDS * size_of::<AtomicU16>();

// SAFETY: what the pointer leads to is atomic, and stays mapped as long as this lives.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Words of 0.
    pub fn new() -> io::Result<Self> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: asks for new memory anywhere, which overlaps nothing.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, access, kind, -1, 0) };
        if page == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self(page.cast())) }
    }

    /// All of them.
    pub fn all(&self) -> &[AtomicU16] {
        // SAFETY: `new` mapped so many, zeroed and aligned to a page; they are unmapped by `drop` alone.
        unsafe { std::slice::from_raw_parts(self.0, WORDS) }
    }
}

/// Writes `first`, `first + 1`, ..., one store a word.
pub fn write(words: &[AtomicU16], first: u16) {
    for (offset, word) in words.iter().enumerate() {
        word.store(first.wrapping_add(offset as u16), Relaxed);
    }
}

/// Reads each of them, one load a word, and adds them up.
pub fn sum(words: &[AtomicU16]) -> u16 {
    words.iter().fold(0, |sum, word| sum.wrapping_add(word.load(Relaxed)))
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with that length, and no reference to it outlives this.
        unsafe { libc::munmap(self.0.cast(), BYTES) };
    }
}
