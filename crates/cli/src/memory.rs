//! How the allocator treats memory that is freed.
//!
//! A command that reads a run frees the columns of one row group and asks for as much for the next. The C library of
//! GNU gives such blocks back to the kernel each time, which then clears every page again: a tenth of the processor
//! time of a table. What is asked for the first time it clears, too; of a join, which holds some hundred MB, that
//! was a third of the processor time in pages of 4 KB. So pages of 2 MB are asked for, where the kernel has them.
//! Deliberately absent: any other library's allocator, and programs that only use our crates.

/// Keeps freed memory for what is allocated next, up to some hundred MB.
pub fn reuse_freed() {
    #[cfg(target_env = "gnu")]
    {
        let options = [
            (libc::M_MMAP_THRESHOLD, LARGEST),
            (libc::M_TRIM_THRESHOLD, 2 * BLOCKS as libc::c_int * LARGEST),
            (libc::M_TOP_PAD, 16 << 20),
        ];
        for (option, bytes) in options {
            // SAFETY: it takes two numbers and changes how the allocator works from here on, not what it handed out.
            // A library that does not know the option leaves it as it was.
            unsafe { libc::mallopt(option, bytes) };
        }
        ask_for_large_pages();
    }
}

/// The largest block that comes from the heap: the most that the library takes.
#[cfg(target_env = "gnu")]
const LARGEST: libc::c_int = 32 << 20;

/// Largest blocks for which the kernel is asked for large pages: what a join holds.
#[cfg(target_env = "gnu")]
const BLOCKS: usize = 16;

/// Says of the addresses that the heap takes first that large pages are wanted there. None is taken before it is used.
#[cfg(target_env = "gnu")]
fn ask_for_large_pages() {
    const PAGE: usize = 4096;
    let bytes = LARGEST as usize - PAGE;
    // SAFETY: blocks that nobody reads or writes, advice about their addresses that changes no content, and an end of
    // each block that was handed out.
    unsafe {
        let blocks: Vec<*mut libc::c_void> = (0..BLOCKS).map(|_| libc::malloc(bytes)).collect();
        for &block in blocks.iter().filter(|block| !block.is_null()) {
            let first = block as usize / PAGE * PAGE;
            libc::madvise(first as *mut libc::c_void, bytes + PAGE, libc::MADV_HUGEPAGE);
        }
        blocks.into_iter().for_each(|block| libc::free(block));
    }
}
