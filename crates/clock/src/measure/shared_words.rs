//! Memory that processes share: counts, and words of the paper's machine, which had 16 bits.

use std::io;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};

/// One page of words, shared with the processes that are forked while it is there.
pub struct SharedPage<T>(*mut T);

/// A page of words of 16 bits.
pub type SharedWords = SharedPage<AtomicU16>;

const BYTES: usize = 4096;

/// What a page may hold.
///
/// # Safety
/// Atomic, valid as zeros, and no larger than a page.
pub unsafe trait Word {}

// SAFETY: an atomic integer is.
unsafe impl Word for AtomicU16 {}
// SAFETY: as above.
unsafe impl Word for AtomicU64 {}

// SAFETY: what the pointer leads to is atomic, and stays mapped as long as this lives.
unsafe impl<T: Word> Sync for SharedPage<T> {}
// SAFETY: as above; any thread may unmap it.
unsafe impl<T: Word> Send for SharedPage<T> {}

impl<T: Word> SharedPage<T> {
    /// Words of 0.
    pub fn new() -> io::Result<Self> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: asks for new memory anywhere, which overlaps nothing.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, access, kind, -1, 0) };
        if page == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self(page.cast())) }
    }

    /// All of them.
    pub fn all(&self) -> &[T] {
        // SAFETY: `new` mapped so many, zeroed and aligned to a page; they are unmapped by `drop` alone.
        unsafe { std::slice::from_raw_parts(self.0, BYTES / size_of::<T>()) }
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

impl<T> Drop for SharedPage<T> {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with that length, and no reference to it outlives this.
        unsafe { libc::munmap(self.0.cast(), BYTES) };
    }
}
