//! A run's durations in other programs' formats.
//!
//! Idea: one [`tickscope_analysis::Sink`] is shown all traces by [`tickscope_analysis::Scan::stream`]; a format of rows
//! is a file that says how a row is written, any other is a sink of its own. Guarantees: every stage of every trace is
//! written or counted, also where it has no duration; bounds in nanoseconds are rounded outward; memory does not grow
//! with the run, unless a format says so. Deliberately absent: statistics, options, files.
#![forbid(unsafe_code)]

mod csv;
mod output;
mod perfetto;
mod rows;

pub use csv::CSV;
pub use perfetto::{PerfettoCounts, StageCounts, write_perfetto};
pub use rows::{Format, RowCounts, write};
