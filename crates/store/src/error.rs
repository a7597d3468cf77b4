//! What went wrong with a run's files, said so that the reader knows what to do next.

use std::fmt;
use std::path::{Path, PathBuf};

/// A file or directory that could not be used: what was expected of it, what was found, what would help.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    place: PathBuf,
    expected: String,
    found: String,
    remedy: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Io,
    Foreign,
    Newer,
    Corrupt,
    Busy,
}

/// What a function of this crate returns.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Whether the file was written by a later version of tickscope than this one reads.
    pub fn is_newer(&self) -> bool {
        self.kind == Kind::Newer
    }

    /// Whether the file was written by something else than tickscope.
    pub fn is_foreign(&self) -> bool {
        self.kind == Kind::Foreign
    }

    /// Whether someone else holds what was asked for.
    pub fn is_busy(&self) -> bool {
        self.kind == Kind::Busy
    }

    /// The file or directory concerned.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// The system refused.
    pub fn io(place: &Path, expected: impl Into<String>, error: std::io::Error) -> Self {
        let remedy = match error.kind() {
            std::io::ErrorKind::NotFound => "check the path",
            std::io::ErrorKind::PermissionDenied => "check the rights of the directory, or run as its owner",
            std::io::ErrorKind::StorageFull => "free some space; nothing that was already stored is lost",
            _ => "check the file system and try again",
        };
        Self { kind: Kind::Io, place: place.into(), expected: expected.into(), found: error.to_string(), remedy }
    }

    /// Not written by tickscope.
    pub fn foreign(place: &Path, expected: impl Into<String>, found: impl Into<String>) -> Self {
        let remedy = "it was not written by tickscope: move it out of the run";
        Self { kind: Kind::Foreign, place: place.into(), expected: expected.into(), found: found.into(), remedy }
    }

    /// Written by a later tickscope.
    pub fn newer(place: &Path, what: &str, known: u32, found: impl fmt::Display) -> Self {
        let expected = format!("{what} {known} or older");
        let remedy = "read it with the tickscope that wrote it, or a later one";
        Self { kind: Kind::Newer, place: place.into(), expected, found: found.to_string(), remedy }
    }

    /// Torn, damaged or changed.
    pub fn corrupt(place: &Path, expected: impl Into<String>, found: impl Into<String>) -> Self {
        let remedy = "remove it or restore it from a copy; the other files of the run are not affected";
        Self { kind: Kind::Corrupt, place: place.into(), expected: expected.into(), found: found.into(), remedy }
    }

    /// A table with a column that this version knows nothing of.
    pub(crate) fn unknown_column(place: &Path, known: &str, found: &str) -> Self {
        let (expected, found) = (format!("columns {known}"), format!("a column '{found}'"));
        let remedy = "remove that column, or read the run with the tickscope that wrote it";
        Self { kind: Kind::Corrupt, place: place.into(), expected, found, remedy }
    }

    /// Held by someone else.
    pub fn busy(place: &Path, expected: impl Into<String>, found: impl Into<String>) -> Self {
        let remedy = "stop the other one, or give each its own directory";
        Self { kind: Kind::Busy, place: place.into(), expected: expected.into(), found: found.into(), remedy }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, expected, found, remedy, .. } = self;
        write!(f, "{}: expected {expected}, found {found}; {remedy}", place.display())
    }
}

impl std::error::Error for Error {}
