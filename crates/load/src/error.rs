//! What was expected of a load, what was found, and what mends it.

use std::fmt;

/// A load that cannot be planned or sent as it was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    expected: String,
    found: String,
    remedy: &'static str,
}

impl Error {
    pub(crate) fn new(expected: impl Into<String>, found: impl ToString, remedy: &'static str) -> Self {
        Self { expected: expected.into(), found: found.to_string(), remedy }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, found {}. {}", self.expected, self.found, self.remedy)
    }
}

impl std::error::Error for Error {}
