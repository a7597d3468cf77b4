//! Memory that no program has touched yet: each of its pages faults at its first use.

use std::io;
use std::ptr::NonNull;

/// Pages of its own, given back when it is dropped.
pub(crate) struct FreshMemory {
    start: NonNull<u8>,
    bytes: usize,
}

impl FreshMemory {
    /// So many bytes, at least one.
    pub(crate) fn of(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.max(1);
        let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: the kernel chooses a place where nothing is mapped.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, rights, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("the kernel mapped page 0"))?;
        Ok(Self { start, bytes })
    }

    /// All of it.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `bytes` bytes are mapped there, zeroed by the kernel, and this value's alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for FreshMemory {
    fn drop(&mut self) {
        // SAFETY: it was mapped in `of` with that length, and no reference to it outlives the value.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
