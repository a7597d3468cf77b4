//! What a program says of its readings: untrusted text of its pool's header.

use super::WatchedPool;

/// What stamps of a program are read from, as it says itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Claim {
    /// Which counter or clock, by what, and how that was checked.
    pub text: String,
    /// Picoseconds of a plain reading at the program's start; `None`: it does not say, or no number that can be.
    pub ps: Option<i64>,
}

impl WatchedPool {
    /// `None`: it says nothing, as programs in C and Rust, whose readings are those of this collector.
    pub(crate) fn claim_of_program(&self) -> Option<Claim> {
        let header = self.pool.header();
        let told = header.reading.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = String::from_utf8_lossy(told).trim().to_owned();
        let ps = Some(header.reading_ps).filter(|ps| *ps > 0);
        (self.pool.version() >= 4 && !text.is_empty()).then_some(Claim { text, ps })
    }
}
