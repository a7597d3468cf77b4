//! Reading the counter that stamps are taken from, in an order that makes the reading evidence.
//!
//! One file an architecture, with the same functions; `tickscope.h` has the same for C. Everything that reads the
//! counter does so here, so the known maps of tests ([`Injection`]) are applied below every reader.

use tickscope_tick::{BootId, DomainError, Injection, InjectionError, Ordering};

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::{after, before, fence, has_core, plain, unrolled, with_core};
#[cfg(target_arch = "x86_64")]
pub use x86_64::{after, before, fence, has_core, plain, unrolled, with_core, with_processor};

/// Readings of [`unrolled`]: between them lie the 10 000 differences of a trace of the OS-noise study.
pub const UNROLLED: usize = 10_001;
/// Bytes that a store of [`unrolled_writing`] takes.
const STORED_BYTES: usize = 8;

/// Fills `readings` as [`unrolled`] does, and after each writes into the next block of `memory`, which holds UNROLLED
/// blocks of `stride` bytes, and the last store.
///
/// # Panics
/// If it does not.
pub fn unrolled_writing(readings: &mut [i64; UNROLLED], memory: &mut [u8], stride: usize) {
    assert!(memory.len() >= UNROLLED * stride + STORED_BYTES, "{} blocks of {stride} bytes", memory.len());
    #[cfg(target_arch = "aarch64")]
    aarch64::unrolled_over(readings, memory.as_mut_ptr(), stride);
    #[cfg(target_arch = "x86_64")]
    x86_64::unrolled_over(readings, memory.as_mut_ptr(), stride);
}

/// Reads the true counter in the order given.
#[inline]
pub fn read(ordering: Ordering) -> i64 {
    match ordering {
        Ordering::Plain => plain(),
        Ordering::Before => before(),
        Ordering::After => after(),
    }
}

/// The id of the running kernel's boot.
pub fn boot_id() -> Result<BootId, DomainError> {
    const PATH: &str = "/proc/sys/kernel/random/boot_id";
    match std::fs::read_to_string(PATH) {
        Ok(text) => text.trim().parse(),
        Err(e) => Err(DomainError::new("a boot id in /proc/sys/kernel/random/boot_id", e.to_string())),
    }
}

/// The counter as this node reads it: true, or through an [`Injection`].
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeCounter {
    injection: Option<Injection>,
}

impl NodeCounter {
    /// A counter that reads through `injection`, or true.
    pub fn new(injection: Option<Injection>) -> Self {
        Self { injection }
    }

    /// The counter as it is.
    pub const fn true_counter() -> Self {
        Self { injection: None }
    }

    /// The counter this process was started to read.
    pub fn from_environment() -> Result<Self, InjectionError> {
        Injection::from_environment().map(Self::new)
    }

    /// The map put before the counter, if any.
    pub fn injection(&self) -> Option<Injection> {
        self.injection
    }

    /// Reads the counter in the order given.
    #[inline]
    pub fn read(&self, ordering: Ordering) -> i64 {
        let raw = read(ordering);
        match &self.injection {
            None => raw,
            Some(map) => map.apply(raw),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_never_steps_back_on_one_core_whatever_the_order() {
        let mut last = plain();
        for round in 0..100_000 {
            let now = read(Ordering::ALL[round % 3]);
            assert!(now >= last || round % 3 == 0, "{now} after {last}");
            last = now.max(last);
        }
    }

    #[test]
    fn an_unrolled_run_fills_every_place_in_order_and_writes_into_every_block() {
        let (mut readings, mut memory) = ([0; UNROLLED], vec![0; UNROLLED * 17 + STORED_BYTES]);
        let first = before();
        unrolled_writing(&mut readings, &mut memory, 17);
        assert!(first <= readings[0] && readings.is_sorted(), "{first}, {:?}", &readings[..4]);
        let blocks = memory.chunks(17).take(UNROLLED).map(|block| i64::from_ne_bytes(block[..8].try_into().unwrap()));
        assert!(blocks.eq(readings), "each block holds its reading");
        let last = before();
        unrolled(&mut readings);
        assert!(last <= readings[0] && readings.is_sorted() && readings[UNROLLED - 1] <= before());
    }

    #[test]
    fn an_injected_counter_reads_what_the_map_says() {
        let map: Injection = "0:1000000000000:0:0:2".parse().unwrap();
        let (low, read, high) = (before(), NodeCounter::new(Some(map)).read(Ordering::After), after());
        assert!(map.apply(low) <= read && read <= map.apply(high));
    }
}
