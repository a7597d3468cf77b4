//! What a machine needs that has a part of a run alone: digests as in `digests.json`, which points are evidence, and
//! bounds of shares as the core rounds them.

use std::hash::Hasher;

use pyo3::prelude::*;
use tickscope_store::Digest;
use tickscope_tick::{fraction_down, fraction_up, own_points};

/// XXH3 of 128 bits as `digests.json` has it, of bytes that come in pieces.
#[pyclass(name = "Digest", module = "tickscope._tickscope")]
#[derive(Default)]
pub(crate) struct PyDigest(Digest);

#[pymethods]
impl PyDigest {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Adds bytes.
    #[pyo3(signature = (bytes, /))]
    fn update(&mut self, py: Python<'_>, bytes: &[u8]) {
        py.detach(|| self.0.write(bytes));
    }

    /// The digest of all bytes until now, 32 hexadecimal digits.
    fn hexdigest(&self) -> String {
        format!("{:032x}", self.0.finish_128())
    }
}

/// The same of bytes that are there.
#[pyfunction]
#[pyo3(signature = (bytes, /))]
pub(crate) fn digest(py: Python<'_>, bytes: &[u8]) -> String {
    let mut digest = PyDigest::default();
    digest.update(py, bytes);
    digest.hexdigest()
}

/// True of the points that tickscope itself stamps, whose stamps the core reads as evidence.
#[pyfunction]
#[pyo3(signature = (name, /))]
pub(crate) fn is_own_point(name: &str) -> bool {
    own_points::are(name)
}

/// A share that bounds from below, with digits as `tickscope show --json` has them.
#[pyfunction(name = "fraction_down")]
#[pyo3(signature = (numerator, denominator, /))]
pub(crate) fn share_down(numerator: i64, denominator: i64) -> f64 {
    fraction_down(numerator.into(), denominator.into())
}

/// A share that bounds from above.
#[pyfunction(name = "fraction_up")]
#[pyo3(signature = (numerator, denominator, /))]
pub(crate) fn share_up(numerator: i64, denominator: i64) -> f64 {
    fraction_up(numerator.into(), denominator.into())
}
