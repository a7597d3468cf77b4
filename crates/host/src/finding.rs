//! A sentence about this machine or this run that a reader of the results must know.

use std::fmt;

/// A value that endangers the guarantee or an action that failed, and its remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Subject, a noun: "counter", "clocksource".
    pub about: &'static str,
    /// The value or the failure.
    pub problem: Problem,
    /// Action for the user, or tickscope's own.
    pub remedy: String,
}

/// A value other than the guarantee needs, or an action that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Problem {
    /// A value.
    Value {
        /// The value that the guarantee needs.
        expected: String,
        /// The value on this host.
        found: String,
    },
    /// An action.
    Failure {
        /// The action, a verb and its object: "read the clock".
        action: String,
        /// The reason, mostly the system's error.
        reason: String,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value { expected, found } => write!(f, "expected {expected}, found {found}"),
            Self::Failure { action, reason } => write!(f, "cannot {action}: {reason}"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { about, problem, remedy } = self;
        match problem {
            Problem::Value { .. } => write!(f, "{about}: {problem}; {remedy}"),
            Problem::Failure { .. } => write!(f, "{problem}; {remedy}"),
        }
    }
}

impl std::error::Error for Finding {}
