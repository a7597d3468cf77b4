//! Why files did not become a run.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// A message for the user: where, what was expected, what was found, what helps.
#[derive(Debug)]
pub struct Error {
    message: String,
    is_input: bool,
}

impl Error {
    /// The files, or what describes them, are not as they must be.
    pub(crate) fn input(place: impl fmt::Display, message: impl fmt::Display) -> Self {
        Self { message: format!("{place}: {message}"), is_input: true }
    }

    /// A file cannot be read.
    pub(crate) fn unreadable(file: &Path, error: &io::Error) -> Self {
        let remedy = match error.kind() {
            io::ErrorKind::NotFound => "correct its name; paths start at the description's folder",
            io::ErrorKind::PermissionDenied => "check its rights",
            _ => "check what it is",
        };
        Self { message: format!("cannot read {}: {error}; {remedy}", file.display()), is_input: true }
    }

    /// Returns whether the input is at fault, and nothing else.
    pub fn is_input(&self) -> bool {
        self.is_input
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<tickscope_store::Error> for Error {
    fn from(error: tickscope_store::Error) -> Self {
        Self { message: error.to_string(), is_input: false }
    }
}

/// Bytes of a description.
const MOST_BYTES: u64 = 1 << 20;

/// The text of a description.
pub(crate) fn read_text(file: &Path) -> Result<String, Error> {
    let mut bytes = Vec::new();
    open(file)?.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|error| Error::unreadable(file, &error))?;
    if bytes.len() as u64 > MOST_BYTES {
        let found = format!("expected a description of at most {MOST_BYTES} bytes, found more. Name the .toml or .yml");
        return Err(Error::input(file.display(), found));
    }
    String::from_utf8(bytes)
        .map_err(|_| Error::input(file.display(), "expected a description in UTF-8, found other bytes. Convert it"))
}

/// A description or a table, which must have an end.
pub(crate) fn open(file: &Path) -> Result<File, Error> {
    let unreadable = |error| Error::unreadable(file, &error);
    if fs::metadata(file).map_err(unreadable)?.is_file() {
        return File::open(file).map_err(unreadable);
    }
    Err(unreadable(io::Error::other("it is no regular file, and may have no end")))
}
