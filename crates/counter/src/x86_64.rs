//! The time-stamp counter of x86-64.
//!
//! `rdtsc` is ordered against nothing. Measured without a fence: up to 1 700 causality violations in 4.2 million
//! readings that followed a load of a line another core had written, by up to 6.5 us; with the fence, none.

use std::arch::asm;

use crate::UNROLLED;

/// Reads the counter in no particular order.
#[inline(always)]
pub fn plain() -> i64 {
    let (low, high): (u32, u32);
    // SAFETY: rdtsc touches no memory; user space may execute it unless CR4.TSD is set, which Linux does only for a
    // process that asked for it by prctl(PR_SET_TSC).
    unsafe { asm!("rdtsc", out("eax") low, out("edx") high, options(nostack, preserves_flags)) };
    join(low, high)
}

/// Reads the counter before anything that follows can take effect.
#[inline(always)]
pub fn before() -> i64 {
    let (low, high): (u32, u32);
    // The lfence keeps every later instruction, a store to a shared line and a system call alike, from starting until
    // the counter has been read.
    // SAFETY: as in `plain`; lfence has no operands.
    unsafe { asm!("rdtsc", "lfence", out("eax") low, out("edx") high, options(nostack, preserves_flags)) };
    join(low, high)
}

/// Reads the counter after everything that precedes has been seen.
#[inline(always)]
pub fn after() -> i64 {
    let (low, high): (u32, u32);
    // The lfence keeps the reading from starting until every earlier load has its value.
    // SAFETY: as in `plain`; lfence has no operands.
    unsafe { asm!("lfence", "rdtsc", out("eax") low, out("edx") high, options(nostack, preserves_flags)) };
    join(low, high)
}

/// Reads the counter and the processor's number by one instruction, which waits for all that precedes; the number is
/// dropped. It is timed with the others (the Cloudprofiler study, 6.2).
#[inline(always)]
pub fn with_processor() -> i64 {
    with_core().0
}

/// Reads the counter and the number of the core that it was read on by one instruction, which waits until every earlier
/// load has its value. For processors of which [`has_core`] says that they have it.
#[inline(always)]
pub fn with_core() -> (i64, i32) {
    /// Linux keeps the core here, and the node of memory above it.
    const CORE: u32 = 0xfff;
    let (low, high, auxiliary): (u32, u32, u32);
    // SAFETY: as in `plain`; rdtscp writes ecx besides, which is named.
    unsafe { asm!("rdtscp", out("eax") low, out("edx") high, out("ecx") auxiliary, options(nostack, preserves_flags)) };
    (join(low, high), (auxiliary & CORE) as i32)
}

/// Whether this processor has the instruction of [`with_core`].
pub fn has_core() -> bool {
    const EXTENDED_FEATURES: u32 = 0x8000_0001;
    const RDTSCP: u32 = 1 << 27;
    let has = |leaf: u32| {
        #[allow(unused_unsafe, reason = "newer compilers know that every x86-64 has cpuid")]
        // SAFETY: every x86-64 processor has cpuid.
        unsafe {
            std::arch::x86_64::__cpuid(leaf)
        }
    };
    has(0x8000_0000).eax >= EXTENDED_FEATURES && has(EXTENDED_FEATURES).edx & RDTSCP != 0
}

/// Keeps a reading where it stands: nothing later starts, and every earlier load has its value.
#[inline(always)]
pub fn fence() {
    // SAFETY: lfence has no operands.
    unsafe { asm!("lfence", options(nostack, preserves_flags)) };
}

#[inline(always)]
fn join(low: u32, high: u32) -> i64 {
    (u64::from(high) << 32 | u64::from(low)) as i64
}

/// Fills `readings` by as many readings in a row without a loop around them: nothing but the reading and its store.
pub fn unrolled(readings: &mut [i64; UNROLLED]) {
    // SAFETY: rdtsc as in `plain`; each of the UNROLLED stores goes to the next of as many places, which are borrowed.
    unsafe {
        asm!(
            ".rept {count}",
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            "mov qword ptr [{to}], rax",
            "add {to}, 8",
            ".endr",
            count = const UNROLLED,
            to = inout(reg) readings.as_mut_ptr() => _,
            out("rax") _,
            out("rdx") _,
            options(nostack)
        );
    }
}

/// The same, and after each reading a store into the next block of `memory`, as long as `stride`.
pub(crate) fn unrolled_over(readings: &mut [i64; UNROLLED], memory: *mut u8, stride: usize) {
    // SAFETY: as in `unrolled`; the caller, who checked lengths, owns UNROLLED blocks of `stride` bytes and 8 more.
    unsafe {
        asm!(
            ".rept {count}",
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            "mov qword ptr [{to}], rax",
            "add {to}, 8",
            "mov qword ptr [{block}], rax",
            "add {block}, {stride}",
            ".endr",
            count = const UNROLLED,
            to = inout(reg) readings.as_mut_ptr() => _,
            block = inout(reg) memory => _,
            stride = in(reg) stride,
            out("rax") _,
            out("rdx") _,
            options(nostack)
        );
    }
}
