//! Runs out of other programs' files: tables of text, Parquet or Arrow with an id and times in each row, events of the
//! kernel's tracers as text, captured packets, spans.
//!
//! Idea: a description says which column is what, and which clock was read where; each row becomes stamps of an
//! ordinary run, raw ticks and all. Descriptions are a mapping in TOML, for any table, also Cloudprofiler's
//! logs, and X-Lap's `xlap.yml` with its pair of tables.
//!
//! Assumes: files do not change while they are read. Guarantees: all of the files or none becomes a run; what is wrong
//! is told with its file, its line and what helps, and nothing is guessed; memory does not grow with the files, but for
//! spans; a clock that nothing relates to another stays unrelated, so that every table says what has no guarantee.
//! Deliberately absent: brackets that the files do not prove; figures.
#![forbid(unsafe_code)]

mod arrow_rows;
mod cells;
mod description;
mod error;
mod events;
mod flat_table;
mod form;
mod lines;
mod packets;
mod parquet_pages;
mod parquet_rows;
mod records;
mod rows;
mod run;
mod spans;
mod xlap;

use std::path::{Path, PathBuf};

pub use error::Error;
pub use run::{FileRead, Imported};

/// Reads what `description` names into a new run at `out`: a mapping in TOML, or X-Lap's `xlap.yml`.
pub fn import(description: &Path, out: &Path) -> Result<Imported, Error> {
    let text = error::read_text(description)?;
    let folder = description.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    let plan = match description.extension().and_then(|extension| extension.to_str()) {
        Some("yml" | "yaml") => xlap::plan(&text, &folder, description)?,
        _ => description::plan(&text, &folder, description)?,
    };
    run::write(&plan, out)
}
