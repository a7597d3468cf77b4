//! A run's durations in other programs' formats.
//!
//! Idea: one [`tickscope_analysis::Sink`] is shown all traces by [`tickscope_analysis::Scan::stream`]; a format of rows
//! is a file that says how a row is written, any other is a sink of its own. Guarantees: every stage of every trace is
//! written or counted, also where it has no duration; bounds in nanoseconds are rounded outward; memory does not grow
//! with the run, unless a format says so. Deliberately absent: statistics, options, files.
#![forbid(unsafe_code)]

mod about;
mod arrow;
mod csv;
mod ctf;
mod folded;
mod hdr;
mod message;
mod openmetrics;
mod otlp;
mod output;
mod perfetto;
mod rows;
mod tracks;

pub use about::{About, Exported, LeftOut};
pub use arrow::write_arrow;
pub use csv::CSV;
pub use ctf::write_ctf;
pub use folded::write_folded;
pub use hdr::write_hdr;
pub use openmetrics::write_openmetrics;
pub use otlp::{Sample, write_otlp};
pub use perfetto::{PerfettoCounts, StageCounts, write_perfetto};
pub use rows::{Format, RowCounts, write};
