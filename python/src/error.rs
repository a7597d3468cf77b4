//! Every error that leaves Rust for Python: one class for what went wrong, one below it for evidence that contradicts
//! itself.

use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::PyException;

create_exception!(
    tickscope,
    TickscopeError,
    PyException,
    "Something is not as it should be: the message says what was expected, what was found, and what would help."
);
create_exception!(tickscope, Finding, TickscopeError, "The evidence contradicts itself or an assumption.");

/// An error on its way to Python, its message as Rust wrote it.
#[derive(Debug)]
pub(crate) struct Refusal {
    finding: bool,
    message: String,
}

impl Refusal {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { finding: false, message: message.into() }
    }
}

impl From<Refusal> for PyErr {
    fn from(refusal: Refusal) -> Self {
        if refusal.finding { Finding::new_err(refusal.message) } else { TickscopeError::new_err(refusal.message) }
    }
}

impl From<tickscope_analysis::Error> for Refusal {
    fn from(error: tickscope_analysis::Error) -> Self {
        Self { finding: error.is_finding(), message: error.to_string() }
    }
}

impl From<tickscope_tick::NameError> for Refusal {
    fn from(error: tickscope_tick::NameError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<tickscope_store::Error> for Refusal {
    fn from(error: tickscope_store::Error) -> Self {
        Self::new(error.to_string())
    }
}

/// A question without an answer, such as a tick out of reach: the evidence may be sound.
impl From<tickscope_bracket::Finding> for Refusal {
    fn from(finding: tickscope_bracket::Finding) -> Self {
        Self::new(finding.to_string())
    }
}

impl From<tickscope_bracket::Error> for Refusal {
    fn from(error: tickscope_bracket::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<tickscope_stamp::OpenError> for Refusal {
    fn from(error: tickscope_stamp::OpenError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<tickscope_stats::Error> for Refusal {
    fn from(error: tickscope_stats::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<tickscope_host::Finding> for Refusal {
    fn from(finding: tickscope_host::Finding) -> Self {
        Self::new(finding.to_string())
    }
}

impl From<tickscope_tick::InjectionError> for Refusal {
    fn from(error: tickscope_tick::InjectionError) -> Self {
        Self::new(error.to_string())
    }
}
