//! `tickscope import`: other programs' files into a run.

use std::path::{Path, PathBuf};

use serde::Serialize;
use tickscope_import::{FileRead, Imported};

use crate::failure::Failure;
use crate::options::ImportOptions;
use crate::output::{line, note, print_json};

/// What was imported. Within a version keys are added, never removed or renamed.
#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    run: &'a Path,
    files: Vec<FileJson<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct FileJson<'a> {
    file: &'a Path,
    node: String,
    rows: u64,
    stamps: u64,
    others: u64,
    not_taken: u64,
    backward: u64,
    first_backward_line: Option<u64>,
}

/// Makes a run of the files, or none.
pub fn import(options: &ImportOptions) -> Result<(), Failure> {
    let description = options.description.as_path();
    let named = || Path::new("runs").join(description.file_stem().unwrap_or(description.as_os_str()));
    let run: PathBuf = options.out.clone().unwrap_or_else(named);
    let Imported { files, notes } =
        tickscope_import::import(description, &run).map_err(|error| match error.is_input() {
            true => Failure::input(error),
            false => Failure::work(error),
        })?;
    if options.json {
        let files = files.iter().map(FileJson::of).collect();
        return print_json(&Report { version: 1, run: &run, files, notes: &notes });
    }
    files.iter().map(FileRead::sentence).try_for_each(line)?;
    notes.iter().for_each(note);
    line(format_args!("the run: tickscope show {}", run.display()))
}

impl<'a> FileJson<'a> {
    fn of(read: &'a FileRead) -> Self {
        Self {
            file: &read.file,
            node: read.node.to_string(),
            rows: read.rows,
            stamps: read.stamps,
            others: read.others,
            not_taken: read.not_taken,
            backward: read.backward,
            first_backward_line: read.first_backward,
        }
    }
}
