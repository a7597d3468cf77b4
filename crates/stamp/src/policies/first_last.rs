//! `first-last`: the first stamp of a channel and the last; with a marker, the last is the first of that id.
//!
//! The idea: a block holds the first stamp in its first slot, and the last one in two slots that are written in turn,
//! so that a kill at any instruction leaves one of them whole. A signal handler that interrupts a stamp has two slots
//! of its own, and so on, [`LEVELS`] deep. The end of a stream is a marker ("poison pill") that its source sends
//! through: each channel ends at its own first one, and nothing is kept after it.
//!
//! Guarantees: [`first_and_last`] returns stamps that were stamped, whole. Deliberately absent: the span of a stream
//! over all its channels, which the analysis takes.

use crate::primitive::{AtomicI64, Ordering};

/// Parameter of the policy without a marker. So -2^63 is no marker.
pub const NO_MARKER: u64 = 1 << 63;

/// Handlers within one another that have slots of their own.
pub const LEVELS: u32 = 16;

/// The first stamp and the last.
#[derive(Clone, Copy, Debug)]
pub struct FirstLast {
    marker: Option<i64>,
}

/// The marker as a parameter; `None`: it is no id that can be one.
pub(super) fn parse(marker: &str) -> Option<u64> {
    let digits = marker.strip_prefix('-').unwrap_or(marker);
    let is_plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    marker.parse::<i64>().ok().map(|marker| marker as u64).filter(|&marker| is_plain && marker != NO_MARKER)
}

impl FirstLast {
    /// The rule of a parameter.
    pub fn of(parameter: u64) -> Self {
        Self { marker: (parameter != NO_MARKER).then_some(parameter as i64) }
    }

    /// The marker.
    pub fn marker(&self) -> Option<i64> {
        self.marker
    }

    /// Returns whether a stamp of that id ends the channel.
    pub fn ends(&self, id: i64) -> bool {
        self.marker == Some(id)
    }

    /// Slots of a block that may hold stamps under this policy.
    pub const SLOTS: u32 = 1 + 2 * LEVELS;

    /// The slot that a stamp goes to, at that depth of handlers. `tick`: gives the tick of a slot, 0: it holds none.
    pub fn slot<'a>(&self, level: u32, tick: impl Fn(u32) -> &'a AtomicI64) -> u32 {
        let tick_of = |slot| tick(slot).load(Ordering::Relaxed);
        if level == 0 && tick_of(0) == 0 {
            return 0;
        }
        let pair = 1 + 2 * level;
        if tick_of(pair) <= tick_of(pair + 1) { pair } else { pair + 1 }
    }
}

/// The first stamp and the last of those found in a block, each with its tick and id; the last is the first of the
/// marker, where there is one. `None` for the last: there is one stamp alone.
pub fn first_and_last<S: Clone>(
    found: &[S],
    marker: Option<i64>,
    of: impl Fn(&S) -> (i64, i64),
) -> Option<(S, Option<S>)> {
    let tick = |stamp: &&S| of(stamp).0;
    let first = found.iter().min_by_key(tick)?;
    let pill = found.iter().filter(|stamp| marker == Some(of(stamp).1)).min_by_key(tick);
    let last = pill.or_else(|| found.iter().max_by_key(tick))?;
    let is_one = std::ptr::eq(first, last);
    Some((first.clone(), (!is_one).then(|| last.clone())))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn stamps_take_turns_and_never_the_slot_of_the_newest() {
        let ticks: Vec<AtomicI64> = (0..FirstLast::SLOTS).map(|_| AtomicI64::new(0)).collect();
        let rule = FirstLast::of(NO_MARKER);
        let mut slots = Vec::new();
        for tick in 1..=5 {
            let slot = rule.slot(0, |slot| &ticks[slot as usize]);
            ticks[slot as usize].store(tick, Ordering::Relaxed);
            slots.push(slot);
        }
        assert_eq!(slots, [0, 1, 2, 1, 2]);
        assert_eq!(rule.slot(3, |slot| &ticks[slot as usize]), 7);
    }

    #[test]
    fn the_last_is_the_first_marker_or_the_latest() {
        let found = [(5, 1), (90, -1), (70, 8), (80, -1)];
        assert_eq!(first_and_last(&found, None, |&stamp| stamp), Some(((5, 1), Some((90, -1)))));
        assert_eq!(first_and_last(&found, Some(-1), |&stamp| stamp), Some(((5, 1), Some((80, -1)))));
        assert_eq!(first_and_last(&found, Some(4), |&stamp| stamp), Some(((5, 1), Some((90, -1)))));
        assert_eq!(first_and_last(&found[..1], None, |&stamp| stamp), Some(((5, 1), None)));
        assert_eq!(first_and_last(&[], None, |&stamp: &(i64, i64)| stamp), None);
    }
}
