//! What was expected, what was found, and what mends it.

use std::fmt;

/// Something that PRRT refuses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    expected: String,
    found: String,
    remedy: String,
}

impl Error {
    pub(crate) fn new(expected: impl Into<String>, found: impl ToString, remedy: impl Into<String>) -> Self {
        Self { expected: expected.into(), found: found.to_string(), remedy: remedy.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, found {}. {}", self.expected, self.found, self.remedy)
    }
}

impl std::error::Error for Error {}
