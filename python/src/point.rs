//! A named place in Python code where stamps are taken: one channel a thread, found without a lock or an allocation.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use pyo3::prelude::*;
use tickscope_stamp::{Channel, Extra, Fields, Ids};
use tickscope_tick::{Ordering, PointName};

use crate::error::Refusal;

/// What makes a point: its name, when its clock is read, what it carries.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Place {
    name: String,
    ordering: Ordering,
    fields: Fields,
}

/// A named place in code where stamps are taken; for all threads.
#[pyclass(frozen, module = "tickscope")]
pub(crate) struct Point {
    /// As in `PLACES`: index into every thread's `CHANNELS`.
    number: usize,
    place: Place,
}

/// All points of the process by number: asked for twice, a point is the same one.
static PLACES: LazyLock<Mutex<HashMap<Place, usize>>> = LazyLock::new(Mutex::default);

thread_local! {
    /// By point's number. Dropped, hence closed, when the thread ends.
    static CHANNELS: RefCell<Vec<Option<Channel>>> = const { RefCell::new(Vec::new()) };
}

/// What an id stands for: text, as its UTF-8, or bytes.
#[derive(FromPyObject)]
pub(crate) enum Original {
    Text(String),
    Bytes(Vec<u8>),
}

impl Original {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// The id of text or bytes: equal ones have the same, in every language.
#[pyfunction]
#[pyo3(signature = (original, /))]
#[allow(clippy::needless_pass_by_value, reason = "that is how arguments come")]
pub(crate) fn id_of(original: Original) -> i64 {
    tickscope_stamp::id_of(original.bytes())
}

/// The same, and the original is kept for the run: once for each, where the id is born.
#[pyfunction]
#[pyo3(signature = (original, /))]
#[allow(clippy::needless_pass_by_value, reason = "that is how arguments come")]
pub(crate) fn keep_id(original: Original) -> i64 {
    thread_local! {
        static IDS: Option<Ids> = Ids::open().ok();
    }
    let keep = |ids: &Option<Ids>| ids.as_ref().map(|ids| ids.keep(original.bytes()));
    IDS.try_with(keep).ok().flatten().unwrap_or_else(|| tickscope_stamp::id_of(original.bytes()))
}

/// The point `name`; its `ordering` says when the clock is read: `plain`, `before` a message leaves, `after` one was
/// seen. `wide` keeps kind, value and core too. Off, without an error, where TICKSCOPE_DIR is unset.
#[pyfunction]
#[pyo3(signature = (name, ordering = "plain", wide = false))]
pub(crate) fn point(name: String, ordering: &str, wide: bool) -> PyResult<Point> {
    let ordering = ordering.parse().map_err(|_| {
        Refusal::new(format!("expected an ordering of plain, before or after; found '{ordering}'. Choose one of them"))
    })?;
    let place = Place { name, ordering, fields: if wide { Fields::Wide } else { Fields::Slim } };
    let known = places().get(&place).copied();
    if let Some(number) = known {
        return Ok(Point { number, place });
    }
    if let Err(wrong) = PointName::new(place.name.as_str()) {
        return Err(Refusal::new(wrong.to_string()).into());
    }
    // This thread's channel first: a pool that cannot be made is told here and not by a stamp, and ends nothing.
    let channel = place.open();
    let number = {
        let mut places = places();
        let next = places.len();
        *places.entry(place.clone()).or_insert(next)
    };
    CHANNELS.with_borrow_mut(|channels| keep(channels, number, channel));
    Ok(Point { number, place })
}

#[pymethods]
impl Point {
    /// Stamps `id` now.
    #[pyo3(signature = (id, /))]
    fn stamp(&self, id: i64) {
        self.with(|channel| channel.stamp(id));
    }

    /// Stamps `id` with its kind and a value that rides along; both are kept where the point is wide.
    #[pyo3(signature = (id, kind, value, /))]
    fn stamp_with(&self, id: i64, kind: i32, value: i64) {
        self.with(|channel| channel.stamp_with(id, Extra { kind, value, ..Extra::default() }));
    }

    /// As `stamp`.
    #[pyo3(signature = (id, /))]
    fn __call__(&self, id: i64) {
        self.stamp(id);
    }

    #[getter]
    fn name(&self) -> &str {
        &self.place.name
    }

    #[getter]
    fn ordering(&self) -> &'static str {
        self.place.ordering.name()
    }

    #[getter]
    fn wide(&self) -> bool {
        self.place.fields == Fields::Wide
    }

    fn __repr__(&self) -> String {
        format!(
            "tickscope.point('{}', ordering='{}', wide={})",
            self.name(),
            self.ordering(),
            if self.wide() { "True" } else { "False" }
        )
    }
}

impl Point {
    #[inline]
    fn with(&self, stamp: impl Fn(&Channel)) {
        let known = CHANNELS.with_borrow(|channels| match channels.get(self.number) {
            Some(Some(channel)) => {
                stamp(channel);
                true
            }
            _ => false,
        });
        if !known {
            self.first_on_this_thread(stamp);
        }
    }

    #[cold]
    fn first_on_this_thread(&self, stamp: impl Fn(&Channel)) {
        let channel = self.place.open();
        stamp(&channel);
        CHANNELS.with_borrow_mut(|channels| keep(channels, self.number, channel));
    }
}

impl Place {
    /// A channel; one that is off, after a line on stderr, where none can be opened: what is measured must not fail by
    /// it. No warning of Python's: that may raise, or wait for a reader of stderr.
    fn open(&self) -> Channel {
        tickscope_stamp::open_kept(&self.name, self.ordering, self.fields)
    }
}

fn keep(channels: &mut Vec<Option<Channel>>, number: usize, channel: Channel) {
    if channels.len() <= number {
        channels.resize_with(number + 1, || None);
    }
    channels[number] = Some(channel);
}

fn places() -> std::sync::MutexGuard<'static, HashMap<Place, usize>> {
    PLACES.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
