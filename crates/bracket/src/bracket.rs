//! The one kind of evidence: an event of the local domain between two ticks of the reference.

use std::fmt;

use tickscope_tick::{Local, Reference, Tick};

/// An event that the local domain stamped `at` happened no earlier than `before` and no later than `after`.
///
/// Either side may be absent: a message from the reference to the local domain has only `before`, a message back only
/// `after`. All ticks are raw readings.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bracket {
    /// The event did not happen before this tick of the reference; `None`: nothing is known.
    pub before: Option<Tick<Reference>>,
    /// What the local domain's counter read at the event.
    pub at: Tick<Local>,
    /// The event did not happen after this tick of the reference; `None`: nothing is known.
    pub after: Option<Tick<Reference>>,
}

impl Bracket {
    /// A bracket of raw counts: `before` and `after` in ticks of the reference, `at` in ticks of the local domain.
    pub fn new(before: Option<i64>, at: i64, after: Option<i64>) -> Self {
        Self { before: before.map(Tick::new), at: Tick::new(at), after: after.map(Tick::new) }
    }
}

impl fmt::Display for Bracket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        open_end(f, self.before)?;
        write!(f, ", {}, ", self.at)?;
        open_end(f, self.after)?;
        f.write_str(")")
    }
}

fn open_end(f: &mut fmt::Formatter<'_>, end: Option<Tick<Reference>>) -> fmt::Result {
    match end {
        Some(tick) => write!(f, "{tick}"),
        None => f.write_str("open"),
    }
}
