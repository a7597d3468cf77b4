//! How long a section of Python took, as an interval: crate `clock`'s, with what the interpreter's own calls cost.
//!
//! The interpreter enters and leaves a section by calls that lie within it, so an empty one takes longer than two
//! readings. What empty ones took, made by Python in the very same way, takes the place of what readings cost.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use tickscope_clock::section::{self, Begun, Readings, Took};
use tickscope_host::facts::CounterFacts;
use tickscope_stats::Sample;
use tickscope_tick::{Interval, Local, Span, Unit};

use crate::error::Refusal;

/// The counter, and what sections cost here.
#[pyclass(frozen, skip_from_py_object, module = "tickscope._tickscope")]
#[derive(Clone, Copy)]
pub(crate) struct Meter {
    meter: section::Meter,
    hertz: u64,
}

/// A section that is entered and left once, by one thread.
#[pyclass(frozen, module = "tickscope._tickscope")]
pub(crate) struct Section {
    meter: Meter,
    state: Mutex<State>,
}

enum State {
    New,
    Begun(Begun, ThreadId),
    Ended(Readings, Took),
}

#[pymethods]
impl Meter {
    /// Of this thread, some milliseconds.
    #[new]
    fn new(py: Python<'_>) -> Result<Self, Refusal> {
        let hertz = CounterFacts::of_this_host()?.frequency.hertz;
        Ok(Self { meter: py.detach(section::Meter::of_this_thread)?, hertz })
    }

    /// The same, knowing what sections took that were empty.
    fn knowing_empty(&self, py: Python<'_>, ticks: PyBuffer<i64>) -> PyResult<Self> {
        let ticks = Sample::new(&ticks.to_vec(py)?).map_err(Refusal::from)?;
        let mut knowing = *self;
        knowing.meter.costs = knowing.meter.costs.of_empty_sections(ticks.values().to_vec());
        Ok(knowing)
    }
}

#[pymethods]
impl Section {
    #[new]
    fn new(meter: &Meter) -> Self {
        Self { meter: *meter, state: Mutex::new(State::New) }
    }

    fn __enter__(this: PyRef<'_, Self>) -> Result<PyRef<'_, Self>, Refusal> {
        {
            let mut state = this.state();
            if !matches!(*state, State::New) {
                return Err(Refusal::new(
                    "expected a section that was not entered yet, found one that was; make another",
                ));
            }
            let begun = this.meter.meter.begin();
            *state = State::Begun(begun, thread::current().id());
        }
        Ok(this)
    }

    // Three arguments, not any number: a tuple for those would be made, and garbage collected, within the readings.
    fn __exit__(
        &self,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> Result<bool, Refusal> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, State::New) {
            State::Begun(begun, thread) if thread == thread::current().id() => {
                let readings = begun.readings();
                *state = State::Ended(readings, self.meter.meter.costs.took(readings));
                Ok(false)
            }
            State::Begun(..) => Err(Refusal::new(
                "expected a section left by the thread that entered it, found another; make one in each thread",
            )),
            other => {
                *state = other;
                Err(Refusal::new(
                    "expected a section that was entered, found one that was not; use it in a with statement",
                ))
            }
        }
    }

    /// From one reading of the counter to the other.
    #[getter]
    fn ticks(&self) -> Result<i64, Refusal> {
        self.ended(|readings, _| readings.ticks)
    }

    /// It took less.
    #[getter]
    fn at_most_ticks(&self) -> Result<i64, Refusal> {
        self.ended(|_, took| took.at_most.get())
    }

    /// Between these, as far as it `assumes`; `None`: see `why`.
    #[getter]
    fn between_ticks(&self) -> Result<Option<(i64, i64)>, Refusal> {
        self.ended(|_, took| took.between.ok().map(|between| (between.lo().get(), between.hi().get())))
    }

    /// What the lower end of `between_ticks` rests on.
    #[getter]
    fn assumes(&self) -> Result<Option<String>, Refusal> {
        self.ended(|_, took| took.between.ok().map(|_| self.meter.meter.costs.assumption()))
    }

    /// `at_most_ticks` in nanoseconds, rounded up.
    #[getter]
    fn at_most_ns(&self) -> Result<f64, Refusal> {
        self.ended(|_, took| self.unit().float_up(took.at_most.get()))
    }

    /// `between_ticks` in nanoseconds, outward.
    #[getter]
    fn between_ns(&self) -> Result<Option<(f64, f64)>, Refusal> {
        let unit = self.unit();
        let ns =
            |between: Interval<Span<Local>>| (unit.float_down(between.lo().get()), unit.float_up(between.hi().get()));
        self.ended(|_, took| took.between.ok().map(ns))
    }

    /// Why there is an upper bound alone.
    #[getter]
    fn why(&self) -> Result<Option<String>, Refusal> {
        self.ended(|_, took| took.between.err().map(|why| why.to_string()))
    }

    /// Ticks a second, declared.
    #[getter]
    fn hertz(&self) -> u64 {
        self.meter.hertz
    }
}

impl Section {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unit(&self) -> Unit {
        Unit::nanoseconds(self.meter.hertz, 3)
    }

    fn ended<T>(&self, answer: impl Fn(&Readings, &Took) -> T) -> Result<T, Refusal> {
        match &*self.state() {
            State::Ended(readings, took) => Ok(answer(readings, took)),
            _ => Err(Refusal::new(
                "expected a section that was left, found one that was not; ask after its with statement",
            )),
        }
    }
}
