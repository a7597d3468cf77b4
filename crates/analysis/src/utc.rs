//! Time of day of a run: how far `CLOCK_REALTIME` of the reference's node was ahead of the reference's counter.
//!
//! Idea: each bracket of the clock monitor holds one reading of `CLOCK_REALTIME` between two of the counter, and so
//! bounds how far one was ahead of the other then; the interval over all of them holds each. Guarantees: at every
//! reading the truth lies inside, whatever set the clock. Deliberately absent: between readings a clock that is set
//! and set back may leave the interval; how far that clock was off UTC, which its node alone could say.

use tickscope_store::{Pair, Run};
use tickscope_tick::{Clock, Label, Unit};

use crate::counters::reference_node;
use crate::error::Error;

/// How far `CLOCK_REALTIME` was ahead of the reference's counter, where both are taken in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeOfDay {
    /// At least, nanoseconds.
    pub lo_ns: i64,
    /// At most, nanoseconds.
    pub hi_ns: i64,
    /// Readings that bound it; 0: the reference is that clock.
    pub readings: u64,
}

/// The time of day of a run; `None`: nothing in the run relates it to the reference.
pub fn time_of_day(run: &Run) -> Result<Option<TimeOfDay>, Error> {
    let (reference, node) = (run.manifest().reference.clone(), reference_node(run.manifest())?);
    if reference.clock == Clock::Realtime {
        return Ok(Some(TimeOfDay { lo_ns: 0, hi_ns: 0, readings: 0 }));
    }
    let domain = Label { node: reference.node.clone(), clock: Clock::Realtime };
    let brackets = run.brackets(&Pair { reference, domain })?;
    let width = node.counter.reading.as_ref().map_or(1, |reading| reading.width_ticks);
    let unit = Unit::nanoseconds(node.counter.frequency.hertz, 0);
    let mut found: Option<TimeOfDay> = None;
    for (before, at, after) in brackets.found.ordered() {
        let Some((before, after)) = before.zip(after) else { continue };
        // What was read is a whole nanosecond, the counter may stand beyond what it reads.
        let ends = (
            i128::from(at) - unit.up(i128::from(after) + i128::from(width)).digits(),
            i128::from(at) + 1 - unit.down(before).digits(),
        );
        let (Ok(lo), Ok(hi)) = (i64::try_from(ends.0), i64::try_from(ends.1)) else { continue };
        let (lo_ns, hi_ns) = found.map_or((lo, hi), |known| (known.lo_ns.min(lo), known.hi_ns.max(hi)));
        found = Some(TimeOfDay { lo_ns, hi_ns, readings: found.map_or(0, |known| known.readings) + 1 });
    }
    Ok(found)
}

impl TimeOfDay {
    /// The middle, rounded down.
    pub fn middle_ns(&self) -> i64 {
        self.lo_ns + (self.hi_ns - self.lo_ns) / 2
    }

    /// How far the truth may lie to either side of the middle.
    pub fn either_side_ns(&self) -> i64 {
        self.hi_ns - self.middle_ns()
    }
}
