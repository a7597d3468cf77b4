//! Errors of this crate, in one shape: expected, found, remedy.

use std::fmt;

use tickscope_tick::NameError;

/// Something that could not be understood or does not fit together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    expected: String,
    found: String,
    remedy: String,
}

impl Error {
    pub(crate) fn new(expected: impl Into<String>, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { expected: expected.into(), found: found.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { expected, found, remedy } = self;
        write!(f, "expected {expected}, found {found}; {remedy}")
    }
}

impl std::error::Error for Error {}

impl From<NameError> for Error {
    fn from(error: NameError) -> Self {
        Self::new(error.expected, format!("'{}'", error.found), error.remedy)
    }
}
