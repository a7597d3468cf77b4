//! What `tickscope clock` found, as documents: advice first, then tables and figures.
//!
//! Deliberately absent: computing; every figure is drawn from what was measured.

mod benchmark;
mod cm_star;
mod granularity;
mod readers;
mod two_words;

use tickscope_clock::factor::Factor;

pub use benchmark::benchmark_document;
pub use granularity::sweep_document;
pub use two_words::two_words_document;

/// A factor with what it lies between.
pub fn between(factor: Option<Factor>) -> String {
    factor.map_or_else(|| "–".into(), |factor| factor.to_string())
}

/// So many a second, in a few letters.
pub fn rate(per_s: f64) -> String {
    match per_s {
        per_s if per_s >= 99.95e6 => format!("{:.0} M", per_s / 1e6),
        per_s if per_s >= 1e6 => format!("{:.1} M", per_s / 1e6),
        per_s if per_s >= 1e3 => format!("{:.1} k", per_s / 1e3),
        per_s => format!("{per_s:.0}"),
    }
}
