//! A run's durations in other programs' formats.
//!
//! Idea: each format is a file with one [`tickscope_analysis::Sink`], shown all traces by
//! [`tickscope_analysis::Scan::stream`]. Guarantees: every stage of every trace is a row, also where it has no
//! duration; bounds in nanoseconds are rounded outward; memory does not grow with the run. Deliberately absent:
//! statistics, options, files.
#![forbid(unsafe_code)]

mod csv;

pub use csv::Csv;
