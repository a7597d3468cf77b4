//! Why a run could not be made or analysed, and the exit code that says so.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

/// A message for the user: what failed or was not as expected, and what would help.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Error {
    kind: Kind,
    message: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Kind {
    Work,
    Input,
    Finding,
    Violated,
    Unresolved,
}

impl Error {
    /// Something went wrong while working.
    pub fn work(message: impl Display) -> Self {
        Self { kind: Kind::Work, message: message.to_string() }
    }

    /// The input is not what it should be.
    pub fn input(message: impl Display) -> Self {
        Self { kind: Kind::Input, message: message.to_string() }
    }

    /// The evidence contradicts itself or an assumption.
    pub fn finding(message: impl Display) -> Self {
        Self { kind: Kind::Finding, message: message.to_string() }
    }

    /// A limit is not kept, or the figures are what whoever asked said is to end the command so.
    pub fn violated(message: impl Display) -> Self {
        Self { kind: Kind::Violated, message: message.to_string() }
    }

    /// Nobody can tell whether a limit is kept.
    pub fn unresolved(message: impl Display) -> Self {
        Self { kind: Kind::Unresolved, message: message.to_string() }
    }

    /// What ended with that exit code elsewhere.
    pub fn of_code(code: u8, message: impl Display) -> Self {
        let kinds = [Kind::Work, Kind::Input, Kind::Finding, Kind::Violated, Kind::Unresolved];
        let kind = kinds.into_iter().find(|kind| *kind as u8 + 1 == code).unwrap_or(Kind::Work);
        Self { kind, message: message.to_string() }
    }

    /// The same, said of one of several runs.
    pub fn of_run(self, run: impl Display) -> Self {
        Self { message: format!("{run}: {}", self.message), ..self }
    }

    /// Returns whether the evidence contradicts itself or an assumption, rather than anything having failed.
    pub fn is_finding(&self) -> bool {
        self.kind == Kind::Finding
    }

    /// Returns whether something went wrong while working, and neither input nor evidence is at fault.
    pub fn is_work(&self) -> bool {
        self.kind == Kind::Work
    }

    /// Exit code of a command that ends with it: 1 work, 2 input, 3 finding, 4 violated, 5 unresolved.
    pub fn code(&self) -> u8 {
        self.kind as u8 + 1
    }
}

impl Display for Error {
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
