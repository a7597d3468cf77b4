//! The extension module of the Python package: a run, a clock map, a point, a sample, a section.
//!
//! Idea: Rust reads, computes and stamps; this converts arguments and results and maps errors ([`error`]), and Python
//! above it builds tables. Assumes one interpreter a process. Guarantees: the interpreter runs other threads while
//! files are read; a stamp neither allocates nor lets them run. Deliberately absent: arithmetic on ticks.

mod clock_map;
mod digest;
mod error;
mod point;
mod run;
mod section;
mod stats;

use pyo3::prelude::*;

/// What `tickscope` is built on; use that instead.
#[pymodule]
mod _tickscope {
    #[pymodule_export]
    use super::clock_map::ClockMap;
    #[pymodule_export]
    use super::digest::{PyDigest, digest, is_own_point, share_down, share_up};
    #[pymodule_export]
    use super::error::{Finding, TickscopeError};
    #[pymodule_export]
    use super::point::{Point, id_of, keep_id, point};
    #[pymodule_export]
    use super::run::Run;
    #[pymodule_export]
    use super::section::{Meter, Section};
    #[pymodule_export]
    use super::stats::{Sample, autocorrelation, compare};

    /// The version of the crates inside.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
