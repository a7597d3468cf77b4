//! Standard output; a reader that has seen enough is no error.

use std::io::{self, Write};

use serde::Serialize;

use crate::failure::Failure;

/// Prints text.
pub fn print(text: &[u8]) -> Result<(), Failure> {
    match io::stdout().write_all(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::work(error)),
        _ => Ok(()),
    }
}

/// Prints JSON for programs, indented.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print((serde_json::to_string_pretty(value).map_err(Failure::work)? + "\n").as_bytes())
}
