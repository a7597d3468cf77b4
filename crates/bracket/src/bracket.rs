//! The one kind of evidence: an event of the local domain between two ticks of the reference.

use std::fmt;

use tickscope_tick::{Local, Reference, Tick};

use crate::{Error, ReadingWidths};

/// An event that the local domain stamped `at` happened no earlier than `before` and no later than `after`.
///
/// Either side may be absent: a message from the reference to the local domain has only `before`, a message back only
/// `after`. Ticks are raw readings in files; [`Bracket::behind_readings`] makes evidence of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bracket {
    /// The event did not happen before this tick of the reference; `None`: nothing is known.
    pub before: Option<Tick<Reference>>,
    /// Reading of the local domain's counter at the event.
    pub at: Tick<Local>,
    /// The event did not happen after this tick of the reference; `None`: nothing is known.
    pub after: Option<Tick<Reference>>,
}

impl Bracket {
    /// A bracket of raw counts: `before` and `after` in ticks of the reference, `at` in ticks of the local domain.
    pub fn new(before: Option<i64>, at: i64, after: Option<i64>) -> Self {
        Self { before: before.map(Tick::new), at: Tick::new(at), after: after.map(Tick::new) }
    }

    /// Brackets of the continuous clocks behind raw readings, a side each. While the local clock read `at` it
    /// stood below `at + width`, and while the reference read `after` it stood below `after + width`; so
    /// `f(at + width) >= before` and `f(at) <= after + width`. An error where 64 bits do not hold such a sum; `index`
    /// names the bracket in it.
    pub fn behind_readings(&self, widths: ReadingWidths, index: usize) -> Result<[Option<Bracket>; 2], Error> {
        let [local, reference] = widths.checked()?;
        let at = self.at.get();
        let beyond = |what, found: i64| Error::TooFar { what, index: Some(index), found, first: 0, limit: i64::MAX };
        let lower = self.before.map(|before| {
            let left = at.checked_add(local).ok_or(beyond("at", at))?;
            Ok::<_, Error>(Self { before: Some(before), at: Tick::new(left), after: None })
        });
        let upper = self.after.map(|after| {
            let left = after.get().checked_add(reference).ok_or(beyond("after", after.get()))?;
            Ok::<_, Error>(Self { before: None, at: self.at, after: Some(Tick::new(left)) })
        });
        Ok([lower.transpose()?, upper.transpose()?])
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tickscope_tick::Stairs;

    #[test]
    fn a_sum_that_64_bits_do_not_hold_is_an_error_not_another_tick() {
        let widths = ReadingWidths { local_ticks: 26, reference_ticks: 4 };
        for (bracket, fits) in [
            (Bracket::new(Some(5), i64::MAX - 26, Some(i64::MAX - 4)), true),
            (Bracket::new(Some(i64::MIN), i64::MAX - 25, Some(9)), false),
            (Bracket::new(None, i64::MIN, Some(i64::MAX - 3)), false),
        ] {
            assert_eq!(bracket.behind_readings(widths, 3).is_ok(), fits, "{bracket}");
        }
    }

    proptest! {
        /// Two clocks that stand `offset` apart and show only the values of their stairs; the message takes no time at
        /// all, so that nothing but the widths makes the evidence true.
        #[test]
        fn property_what_readings_say_holds_where_messages_take_no_time_and_no_less_would(
            steps in prop::collection::vec(1i64..60, 2), offset in -5000i64..5000, sent in 0i64..100_000,
        ) {
            let stairs = [steps[0], steps[1]].map(|step| Stairs::new(step, 1, 0).unwrap());
            let widths = ReadingWidths { local_ticks: steps[0] as u64, reference_ticks: steps[1] as u64 };
            let raw = |at: i64| {
                let reference = stairs[1].shown(at + offset);
                Bracket::new(Some(reference), stairs[0].shown(at), Some(reference))
            };
            let truth = |local: i64| local + offset;
            let [lower, upper] = raw(sent).behind_readings(widths, 0).unwrap().map(Option::unwrap);
            prop_assert!(truth(lower.at.get()) >= lower.before.unwrap().get());
            prop_assert!(truth(upper.at.get()) <= upper.after.unwrap().get());
            // Over a whole period of both, each side is reached to a tick.
            let all = (0..steps[0] * steps[1]).map(raw);
            let sides = all.map(|bracket| bracket.behind_readings(widths, 0).unwrap().map(Option::unwrap));
            let room = sides.map(|[lower, upper]| {
                [truth(lower.at.get()) - lower.before.unwrap().get(), upper.after.unwrap().get() - truth(upper.at.get())]
            });
            let least = room.reduce(|a, b| [a[0].min(b[0]), a[1].min(b[1])]).unwrap();
            // They meet in all but those phases that their common divisor keeps apart.
            let divisor = (1..=steps[0]).filter(|by| steps.iter().all(|step| step % by == 0)).max().unwrap();
            prop_assert!(least.iter().all(|room| (1..=divisor).contains(room)), "{least:?}");
        }
    }
}
