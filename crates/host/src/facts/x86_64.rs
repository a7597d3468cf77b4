//! Facts about the time-stamp counter of an x86-64 processor, by `cpuid`.

use std::arch::x86_64::{__cpuid_count, CpuidResult};

use super::Processor;

const HYPERVISOR_PRESENT_ECX: u32 = 1 << 31;
const INVARIANT_TSC_EDX: u32 = 1 << 8;
/// Leaf 0x8000_0021: `lfence` waits until everything before it has executed.
const LFENCE_SERIALISING_EAX: u32 = 1 << 2;

/// Asks the processor that this thread runs on.
pub(super) fn ask() -> Processor {
    let basic_leaf_last = leaf(0).eax;
    let extended_leaf_last = leaf(0x8000_0000).eax;
    let basic = |number: u32| (number <= basic_leaf_last).then(|| leaf(number));
    let virtualised = leaf(1).ecx & HYPERVISOR_PRESENT_ECX != 0;
    Processor {
        invariant: (extended_leaf_last >= 0x8000_0007).then(|| leaf(0x8000_0007).edx & INVARIANT_TSC_EDX != 0),
        fence_serialises: fence_serialises(
            &vendor(leaf(0)),
            (extended_leaf_last >= 0x8000_0021).then(|| leaf(0x8000_0021).eax),
        ),
        hypervisor: virtualised.then(|| hypervisor_vendor(leaf(0x4000_0000))),
        counter_hertz: basic(0x15).and_then(counter_hertz),
        base_megahertz: basic(0x16).map(|leaf| leaf.eax & 0xffff).filter(|&megahertz| megahertz != 0),
    }
}

fn leaf(number: u32) -> CpuidResult {
    // Newer compilers declare this safe on x86-64, older ones do not.
    #[allow(unused_unsafe)]
    // SAFETY: every x86-64 processor has cpuid, in every mode; it touches no memory.
    unsafe {
        __cpuid_count(number, 0)
    }
}

/// Leaf 0: twelve bytes of name in `ebx`, `edx`, `ecx`.
fn vendor(leaf: CpuidResult) -> String {
    let bytes: Vec<u8> = [leaf.ebx, leaf.edx, leaf.ecx].into_iter().flat_map(u32::to_le_bytes).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Intel's `lfence` always waits; AMD's where the processor says so, or where the kernel set it to, which it does not
/// tell.
fn fence_serialises(vendor: &str, extended_features: Option<u32>) -> Option<bool> {
    match vendor {
        "GenuineIntel" => Some(true),
        _ => extended_features.filter(|eax| eax & LFENCE_SERIALISING_EAX != 0).map(|_| true),
    }
}

/// Leaf 0x15: the counter runs at `ecx` (crystal, Hz) * `ebx` / `eax`; a zero means "not told".
fn counter_hertz(leaf: CpuidResult) -> Option<u64> {
    let reported = leaf.eax != 0 && leaf.ebx != 0 && leaf.ecx != 0;
    reported.then(|| u64::from(leaf.ecx) * u64::from(leaf.ebx) / u64::from(leaf.eax))
}

/// Leaf 0x4000_0000: twelve bytes of name in `ebx`, `ecx`, `edx`, padded with zeros.
fn hypervisor_vendor(leaf: CpuidResult) -> String {
    let bytes: Vec<u8> = [leaf.ebx, leaf.ecx, leaf.edx].into_iter().flat_map(u32::to_le_bytes).collect();
    String::from_utf8_lossy(&bytes).trim_matches(['\0', ' ']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers(eax: u32, ebx: u32, ecx: u32, edx: u32) -> CpuidResult {
        CpuidResult { eax, ebx, ecx, edx }
    }

    #[test]
    fn the_frequency_of_leaf_15_needs_all_three_numbers() {
        assert_eq!(counter_hertz(registers(2, 200, 25_000_000, 0)), Some(2_500_000_000));
        for untold in [registers(0, 200, 25_000_000, 0), registers(2, 0, 25_000_000, 0), registers(2, 200, 0, 0)] {
            assert_eq!(counter_hertz(untold), None);
        }
    }

    #[test]
    fn a_fence_of_another_maker_than_intel_is_trusted_on_its_processors_word_only() {
        assert_eq!(fence_serialises("GenuineIntel", None), Some(true));
        for (eax, known) in [(None, None), (Some(0), None), (Some(0b011), None), (Some(0b100), Some(true))] {
            assert_eq!(fence_serialises("AuthenticAMD", eax), known, "{eax:?}");
        }
        let amd = [*b"Auth", *b"enti", *b"cAMD"].map(u32::from_le_bytes);
        assert_eq!(vendor(registers(0, amd[0], amd[2], amd[1])), "AuthenticAMD");
    }

    #[test]
    fn the_vendor_of_a_hypervisor_loses_its_padding() {
        let kvm = [*b"KVMK", *b"VMKV", *b"M\0\0\0"].map(u32::from_le_bytes);
        assert_eq!(hypervisor_vendor(registers(0, kvm[0], kvm[1], kvm[2])), "KVMKVMKVM");
    }
}
