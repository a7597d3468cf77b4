//! How a domain's ticks become ticks of the reference: the questions a clock map answers, one by one and by the array.

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tickscope_bracket::Cone;
use tickscope_tick::{Local, Tick};

use crate::error::Refusal;

/// Two domains, related by all brackets between them.
#[pyclass(frozen, module = "tickscope._tickscope")]
pub(crate) struct ClockMap(pub(crate) tickscope_bracket::ClockMap);

/// Ticks as the bytes of 64-bit integers, native order: what Arrow takes without looking at each.
type Ticks<'py> = Bound<'py, PyBytes>;
/// `first_b, last_b, anchor_b, base_a, mult, shift, pad`, as the segment's fields.
type Segment = (i64, i64, i64, i64, i64, i32, i64);

#[pymethods]
impl ClockMap {
    /// First and last tick of the reference that `tick` may lie at.
    fn interval(&self, tick: i64) -> Result<(i64, i64), Refusal> {
        let interval = self.0.interval(Tick::new(tick))?;
        Ok((interval.lo().get(), interval.hi().get()))
    }

    /// An admissible tick within the interval.
    fn estimate(&self, tick: i64) -> Result<i64, Refusal> {
        Ok(self.0.estimate(Tick::new(tick))?.get())
    }

    /// Shortest and longest time from `start` to `end`, in ticks of the reference.
    fn span(&self, start: i64, end: i64) -> Result<(i64, i64), Refusal> {
        let span = self.0.span(Tick::new(start), Tick::new(end))?;
        Ok((span.lo().get(), span.hi().get()))
    }

    /// First and last tick of the domain that may be the reference's `tick`.
    fn inverse(&self, tick: i64) -> Result<(i64, i64), Refusal> {
        let interval = self.0.inverse(Tick::new(tick))?;
        Ok((interval.lo().get(), interval.hi().get()))
    }

    /// Both ends of the interval of each tick.
    fn intervals<'py>(&self, py: Python<'py>, ticks: PyBuffer<i64>) -> PyResult<[Ticks<'py>; 2]> {
        each(py, &ticks, |tick| {
            let interval = self.0.interval(tick)?;
            Ok([interval.lo().get(), interval.hi().get()])
        })
    }

    /// The estimate of each tick.
    fn estimates<'py>(&self, py: Python<'py>, ticks: PyBuffer<i64>) -> PyResult<[Ticks<'py>; 1]> {
        each(py, &ticks, |tick| Ok([self.0.estimate(tick)?.get()]))
    }

    /// Half the width of the interval of each tick, rounded up.
    fn half_widths<'py>(&self, py: Python<'py>, ticks: PyBuffer<i64>) -> PyResult<[Ticks<'py>; 1]> {
        let half_width = |tick| {
            let ticks = self.0.interval(tick)?.half_width();
            let message = || {
                Refusal::new(format!(
                    "expected a half-width of 63 bits, found {ticks} ticks. Ask nearer to the evidence"
                ))
            };
            Ok([i64::try_from(ticks).map_err(|_| message())?])
        };
        each(py, &ticks, half_width)
    }

    /// Straight pieces in 64-bit arithmetic from `first` to `last`.
    fn segments(&self, first: i64, last: i64) -> Result<Vec<Segment>, Refusal> {
        let segments = self.0.segments(Tick::new(first), Tick::new(last))?;
        Ok(segments.iter().map(|s| (s.first_b, s.last_b, s.anchor_b, s.base_a, s.mult, s.shift, s.pad)).collect())
    }

    /// The exact bounds where one of them bends: tick, lower and upper bound in units of `2 ** -FRACTION_BITS`.
    fn vertices(&self, first: i64, last: i64) -> Result<Vec<(i64, i128, i128)>, Refusal> {
        let vertices = self.0.vertices(Tick::new(first), Tick::new(last))?;
        Ok(vertices.into_iter().map(|vertex| (vertex.at.get(), vertex.lo, vertex.hi)).collect())
    }

    /// Slowest and fastest rate that the true map can have, in units of `2 ** -fraction_bits`.
    #[getter]
    fn slopes(&self) -> (i128, i128) {
        (self.0.cone().slowest(), self.0.cone().fastest())
    }

    #[classattr]
    const FRACTION_BITS: u32 = Cone::FRACTION_BITS;

    /// Under which rho, with its origin.
    #[getter]
    fn rho(&self) -> String {
        self.0.model().rho.to_string()
    }
}

/// Puts a question to each tick, while the interpreter runs other threads; one array an answer's part.
fn each<'py, const PARTS: usize>(
    py: Python<'py>,
    ticks: &PyBuffer<i64>,
    question: impl Fn(Tick<Local>) -> Result<[i64; PARTS], Refusal> + Send + Sync,
) -> PyResult<[Ticks<'py>; PARTS]> {
    let ticks = ticks.to_vec(py)?;
    let columns = py.detach(|| -> Result<[Vec<u8>; PARTS], Refusal> {
        let mut columns = std::array::from_fn(|_| Vec::with_capacity(ticks.len() * size_of::<i64>()));
        for tick in ticks {
            let answer = question(Tick::new(tick))?;
            columns.iter_mut().zip(answer).for_each(|(column, part)| column.extend(part.to_ne_bytes()));
        }
        Ok(columns)
    })?;
    Ok(columns.map(|column| PyBytes::new(py, &column)))
}
