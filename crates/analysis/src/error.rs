//! Why a run could not be analysed.

use std::fmt;

/// A message that says what was expected, what was found, and what would help.
#[derive(Debug)]
pub struct Error {
    finding: bool,
    message: String,
}

impl Error {
    /// Something went wrong while working.
    pub fn work(message: impl fmt::Display) -> Self {
        Self { finding: false, message: message.to_string() }
    }

    /// The evidence contradicts itself or an assumption.
    pub(crate) fn finding(message: impl fmt::Display) -> Self {
        Self { finding: true, message: message.to_string() }
    }

    /// Whether the evidence contradicts itself or an assumption, rather than anything having failed.
    pub fn is_finding(&self) -> bool {
        self.finding
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
        Self::work(error)
    }
}
