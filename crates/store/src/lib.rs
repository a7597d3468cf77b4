//! The run directory: every file of a run is written and read here (`docs/run-format.md`).
//!
//! A run is a directory of ordinary files that any Parquet reader can use while it is still being written.
//!
//! Assumes: one writer for each file. Guarantees: a file appears under its name complete or not at all; what is foreign,
//! torn or of a later version is refused by name and the rest of the run stays readable. Deliberately absent: any
//! computation. Stamps go in as they were taken and come out the same.

mod error;
mod sparse;
mod table;
mod whole_file;

#[cfg(test)]
mod scratch;

pub use error::{Error, Result};
pub use sparse::Sparse;

/// The version of the run directory that this crate writes, and the latest that it reads.
pub const SCHEMA: u32 = 1;
