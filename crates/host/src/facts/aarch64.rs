//! Facts about the virtual counter of an aarch64 processor. Written against the architecture's manual; untested on a
//! machine.

use std::arch::asm;

use super::Processor;

/// Asks the processor that this thread runs on. The architecture itself demands a constant rate in every power state.
pub(super) fn ask() -> Processor {
    let hertz: u64;
    // SAFETY: Linux lets user space read CNTFRQ_EL0; it touches no memory.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) hertz, options(nostack, preserves_flags)) };
    Processor {
        fence_serialises: Some(true), // `isb`: by the architecture
        invariant: Some(true),
        hypervisor: None,
        counter_hertz: (hertz != 0).then_some(hertz),
        base_megahertz: None,
    }
}
