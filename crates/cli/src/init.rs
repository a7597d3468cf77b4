//! `tickscope init`: a run file to start from.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;

use crate::failure::Failure;
use crate::options::InitOptions;
use crate::output;

/// Writes a run file; asks nothing.
pub fn init(options: &InitOptions) -> Result<(), Failure> {
    let InitOptions { file, command, force } = options;
    let text = tickscope_experiment::run_file_to_start_from(command);
    if file == Path::new("-") {
        return output::print(text.as_bytes());
    }
    let place = file.display();
    let mut open = OpenOptions::new();
    let open = if *force { open.create(true).truncate(true) } else { open.create_new(true) };
    let written = open.write(true).open(file).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|e| match e.kind() {
        ErrorKind::AlreadyExists => {
            Failure::input(format!("expected no file {place}, found one. Name another, or replace it with --force"))
        }
        ErrorKind::NotFound => {
            Failure::input(format!("expected a directory for {place}, found none. Make it, or name another file"))
        }
        _ => Failure::work(format!("cannot write {place}: {e}. Name another file")),
    })?;
    let next = if command.is_empty() { "set its commands, then " } else { "" };
    output::print(format!("{place} is written; {next}check it: tickscope run {place} --check\n").as_bytes())
}
