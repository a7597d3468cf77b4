//! What ends a command early, and with which exit code.

use std::fmt;

/// An error for the user.
#[derive(Debug)]
pub struct Failure {
    /// Exit code: 1 something went wrong, 2 the input was wrong, 3 the evidence contradicts itself.
    pub code: u8,
    message: String,
}

impl Failure {
    /// Something went wrong while working.
    pub fn work(message: impl fmt::Display) -> Self {
        Self { code: 1, message: message.to_string() }
    }

    /// The input is not what it should be.
    pub fn input(message: impl fmt::Display) -> Self {
        Self { code: 2, message: message.to_string() }
    }

    /// The evidence contradicts itself or an assumption: a finding.
    pub fn finding(message: impl fmt::Display) -> Self {
        Self { code: 3, message: message.to_string() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<tickscope_store::Error> for Failure {
    fn from(error: tickscope_store::Error) -> Self {
        Self::work(error)
    }
}

impl From<tickscope_analysis::Error> for Failure {
    fn from(error: tickscope_analysis::Error) -> Self {
        if error.is_finding() { Self::finding(error) } else { Self::work(error) }
    }
}
