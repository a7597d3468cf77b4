//! A run's durations in other programs' formats.
//!
//! Idea: one [`tickscope_analysis::Sink`] is shown all traces by [`tickscope_analysis::Scan::stream`]; a format is a
//! file that says how a row is written. Guarantees: every stage of every trace is a row, also where it has no
//! duration; bounds in nanoseconds are rounded outward; memory does not grow with the run. Deliberately absent:
//! statistics, options, files.
#![forbid(unsafe_code)]

mod csv;
mod rows;

pub use csv::CSV;
pub use rows::{Format, RowCounts, write};
