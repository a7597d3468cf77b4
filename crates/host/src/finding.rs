//! A sentence about this machine or this run that a reader of the results must know.

use std::fmt;

/// Something was expected, something else was found, and this is what would mend it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What it is about, a noun: "counter", "clocksource".
    pub about: &'static str,
    /// What the guarantee needs.
    pub expected: String,
    /// What is there instead, with values.
    pub found: String,
    /// What the user can do, or what tickscope will do because of it.
    pub remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { about, expected, found, remedy } = self;
        write!(f, "{about}: expected {expected}; found {found}; {remedy}")
    }
}

impl std::error::Error for Finding {}
