//! The virtual counter of aarch64. Written against the architecture's manual; tested in an emulator alone.
//!
//! `CNTVCT_EL0` may be read speculatively, early or late; `isb` orders it. A tick is long here, 16 to 42 ns on common
//! machines, and belongs to every bound.

use std::arch::asm;

use crate::UNROLLED;

/// Reads the counter in no particular order.
#[inline(always)]
pub fn plain() -> i64 {
    let ticks: i64;
    // SAFETY: Linux lets user space read CNTVCT_EL0; it touches no memory.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags)) };
    ticks
}

/// Reads the counter before anything that follows can take effect.
#[inline(always)]
pub fn before() -> i64 {
    let ticks: i64;
    // The isb keeps every later instruction from starting until the counter has been read.
    // SAFETY: as in `plain`; isb has no operands.
    unsafe { asm!("mrs {}, cntvct_el0", "isb", out(reg) ticks, options(nostack, preserves_flags)) };
    ticks
}

/// Reads the counter after everything that precedes has been seen.
#[inline(always)]
pub fn after() -> i64 {
    let ticks: i64;
    // The dsb waits for earlier loads to complete, the isb keeps the reading from starting before that.
    // SAFETY: as in `plain`; dsb and isb have no operands that could be wrong.
    unsafe { asm!("dsb ld", "isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags)) };
    ticks
}

/// Reads the counter; the core is not known, for no instruction here reads both: [`has_core`].
#[inline(always)]
pub fn with_core() -> (i64, i32) {
    (plain(), -1)
}

/// Whether one instruction reads the counter and the core.
pub fn has_core() -> bool {
    false
}

/// Keeps a reading where it stands: nothing later starts, and every earlier load has its value.
#[inline(always)]
pub fn fence() {
    // SAFETY: dsb and isb have no operands that could be wrong.
    unsafe { asm!("dsb ld", "isb", options(nostack, preserves_flags)) };
}

/// Fills `readings` by as many readings in a row without a loop around them: nothing but the reading and its store.
pub fn unrolled(readings: &mut [i64; UNROLLED]) {
    // SAFETY: as in `plain`; each of the UNROLLED stores goes to the next of as many places, which are borrowed.
    unsafe {
        asm!(
            ".rept {count}",
            "mrs {ticks}, cntvct_el0",
            "str {ticks}, [{to}], #8",
            ".endr",
            count = const UNROLLED,
            ticks = out(reg) _,
            to = inout(reg) readings.as_mut_ptr() => _,
            options(nostack, preserves_flags)
        );
    }
}

/// The same, and after each reading a store into the next block of `memory`, as long as `stride`.
pub(crate) fn unrolled_over(readings: &mut [i64; UNROLLED], memory: *mut u8, stride: usize) {
    // SAFETY: as in `unrolled`; the caller, who checked lengths, owns UNROLLED blocks of `stride` bytes and 8 more.
    unsafe {
        asm!(
            ".rept {count}",
            "mrs {ticks}, cntvct_el0",
            "str {ticks}, [{to}], #8",
            "str {ticks}, [{block}]",
            "add {block}, {block}, {stride}",
            ".endr",
            count = const UNROLLED,
            ticks = out(reg) _,
            to = inout(reg) readings.as_mut_ptr() => _,
            block = inout(reg) memory => _,
            stride = in(reg) stride,
            options(nostack, preserves_flags)
        );
    }
}
