//! Why a load could not be sent.

use std::fmt;

/// Whose fault an [`Error`] is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// Of what was asked for.
    Input,
    /// Of the network, the target or this host.
    Work,
}

/// A load that cannot be sent as it was asked for, or not to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    kind: ErrorKind,
    why: String,
}

impl Error {
    pub(crate) fn input(why: impl ToString) -> Self {
        Self { kind: ErrorKind::Input, why: why.to_string() }
    }

    pub(crate) fn work(why: impl ToString) -> Self {
        Self { kind: ErrorKind::Work, why: why.to_string() }
    }

    /// Whose fault it is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Error {}
