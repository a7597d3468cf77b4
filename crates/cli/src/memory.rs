//! How the allocator treats memory that is freed.
//!
//! A command that reads a run frees the columns of one row group and asks for as much for the next. The C library of
//! GNU gives such blocks back to the kernel each time, which then clears every page again: a tenth of the processor
//! time of a table. Deliberately absent: any other library's allocator, and programs that only use our crates.

/// Keeps freed memory for what is allocated next, up to some hundred MB.
pub fn reuse_freed() {
    #[cfg(target_env = "gnu")]
    {
        const MIB: libc::c_int = 1 << 20;
        let options =
            [(libc::M_MMAP_THRESHOLD, 32 * MIB), (libc::M_TRIM_THRESHOLD, 256 * MIB), (libc::M_TOP_PAD, 16 * MIB)];
        for (option, bytes) in options {
            // SAFETY: it takes two numbers and changes how the allocator works from here on, not what it handed out.
            // A library that does not know the option leaves it as it was.
            unsafe { libc::mallopt(option, bytes) };
        }
    }
}
