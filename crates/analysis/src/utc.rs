//! Time of day of a run: how far `CLOCK_REALTIME` of the reference's node was ahead of the reference's counter.
//!
//! Idea: each bracket of the clock monitor holds one reading of `CLOCK_REALTIME` between two of the counter, and so
//! bounds how far one was ahead of the other then; the interval over all of them holds each. Guarantees: at every
//! reading the truth lies inside, whatever set the clock. Deliberately absent: between readings a clock that is set
//! and set back may leave the interval; how far that clock was off UTC, which its node alone could say.

use serde::Serialize;
use tickscope_store::{Node, Pair, Run};
use tickscope_tick::{Clock, Label, Unit};

use crate::analysis::Analysis;
use crate::counters::{Counters, reference_node};
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
    /// Ticks of the reference between which all readings lie; `None`: it is that clock.
    pub read_between: Option<(i64, i64)>,
}

/// When a run's first and last stamp on the reference were taken, by `CLOCK_REALTIME` of its node. Keys are added,
/// never removed or renamed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RunTimes {
    /// At least and at most, nanoseconds of Unix.
    pub first_stamp_unix_ns: [i64; 2],
    /// The same of the last one.
    pub last_stamp_unix_ns: [i64; 2],
    /// Readings of that clock that the intervals hold.
    pub readings: u64,
    /// Whether both stamps lie between the first and the last reading: beyond them nothing bounds that clock.
    pub between_readings: bool,
    /// What this rests on, in words.
    pub rests_on: String,
}

impl RunTimes {
    /// The times of a run; `None`: nothing relates that clock to the reference, or stamps were read from another clock
    /// than the reference and are known there as estimated only.
    pub fn of(run: &Run, analysis: &Analysis) -> Result<Option<Self>, Error> {
        let node = reference_node(run.manifest())?;
        let is_direct = analysis.auxiliary_clocks.iter().all(|clock| clock.readings == 0);
        let ends = analysis.end_ticks.get(node.name.as_str()).filter(|_| is_direct);
        let Some((known, &(first, last))) = time_of_day(run)?.zip(ends) else { return Ok(None) };
        let (unit, width) = (Unit::nanoseconds(analysis.frequency.hertz, 0), width_ticks(node));
        let time = |tick: i64| {
            let lo = i64::try_from(unit.down(tick).digits()).ok()?.checked_add(known.lo_ns)?;
            let hi = i64::try_from(unit.up(i128::from(tick) + width).digits()).ok()?.checked_add(known.hi_ns)?;
            Some([lo, hi])
        };
        let clock = format!("CLOCK_REALTIME of node {}, whose difference to UTC is not known", node.name);
        Ok(time(first).zip(time(last)).map(|(first_stamp_unix_ns, last_stamp_unix_ns)| Self {
            first_stamp_unix_ns,
            last_stamp_unix_ns,
            readings: known.readings,
            between_readings: known.read_between.is_none_or(|(begin, end)| begin <= first && last <= end),
            rests_on: match known.readings {
                0 => clock,
                readings => format!("{clock}, as {readings} readings between ticks of the reference found it"),
            },
        }))
    }
}

/// Ticks that the counter may stand beyond what it reads.
fn width_ticks(node: &Node) -> i128 {
    node.counter.reading.as_ref().map_or(1, |reading| reading.width_ticks).into()
}

/// The time of day of a run; `None`: nothing in the run relates it to the reference.
pub fn time_of_day(run: &Run) -> Result<Option<TimeOfDay>, Error> {
    let (reference, node) = (run.manifest().reference.clone(), reference_node(run.manifest())?);
    if reference.clock == Clock::Realtime {
        return Ok(Some(TimeOfDay { lo_ns: 0, hi_ns: 0, readings: 0, read_between: None }));
    }
    // Nodes of one counter are of one boot, which has one such clock.
    let counters = Counters::of(run.manifest())?;
    let unit = Unit::nanoseconds(node.counter.frequency.hertz, 0);
    let mut found: Option<TimeOfDay> = None;
    for node in counters.nodes(0) {
        let domain = Label { node: node.name.clone(), clock: Clock::Realtime };
        let brackets = run.brackets(&Pair { reference: node.domain(), domain })?;
        if !brackets.refused.is_empty() {
            return Ok(None); // readings that cannot be read might lie outside
        }
        let width = width_ticks(node);
        for (before, at, after) in brackets.found.ordered() {
            let Some((before, after)) = before.zip(after) else { continue };
            // What was read is a whole nanosecond, the counter may stand beyond what it reads.
            let ends = (
                i128::from(at) - unit.up(i128::from(after) + width).digits(),
                i128::from(at) + 1 - unit.down(before).digits(),
            );
            let (Ok(lo), Ok(hi)) = (i64::try_from(ends.0), i64::try_from(ends.1)) else { continue };
            let (lo_ns, hi_ns) = found.map_or((lo, hi), |known| (known.lo_ns.min(lo), known.hi_ns.max(hi)));
            let (begin, end) = found.and_then(|known| known.read_between).unwrap_or((before, after));
            let read_between = Some((begin.min(before), end.max(after)));
            let readings = found.map_or(0, |known| known.readings) + 1;
            found = Some(TimeOfDay { lo_ns, hi_ns, readings, read_between });
        }
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
