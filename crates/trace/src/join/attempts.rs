//! The attempts of one id: what its stamps say of them decides alone, or nothing does.
//!
//! An attempt that says its number is that attempt whatever the clocks say. So where the stamps of two points say their
//! attempts, time and thread are not asked any more: they can only repeat what is said, or contradict it. What does not
//! fit is refused; an attempt that was certainly stamped at the second point before it was at the first cannot be, and
//! is handed on with both stamps.

use super::passages::{Id, StampAt, Threaded, by_key};

/// Stamps of one attempt that cannot be: that of the second point was read before that of the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttemptContradiction {
    /// The attempt that both say.
    pub attempt: i32,
    /// Its first stamp at the first point.
    pub from: StampAt,
    /// Its stamp at the second.
    pub to: StampAt,
}

/// What stamps of an id at two neighbouring points say of its attempts.
pub(super) enum ByAttempt {
    /// Some say none; or those at the first point, which lacks none, all say the same.
    Unsaid,
    /// By stamp there: the one here of its own attempt.
    Told(Vec<Option<usize>>),
    /// What they say pairs nothing.
    Untold(Option<AttemptContradiction>),
}

impl Id<'_> {
    /// Pairs the stamps `here` with those at the point `before` by the attempts that all of them say.
    pub(super) fn by_attempt(&self, before: usize, here: &[Threaded]) -> ByAttempt {
        let there = self.stamps[before];
        let tells = !self.shows_all(before) || there.iter().any(|stamp| stamp.attempt != there[0].attempt);
        if !tells || there.iter().chain(here).any(|stamp| stamp.attempt.is_none()) {
            return ByAttempt::Unsaid;
        }
        match self.within(there, here, attempt) {
            Some(matched) => ByAttempt::Told(matched),
            None => ByAttempt::Untold(self.contradiction(there, here)),
        }
    }

    /// The first stamp here that can only have been read before every one there of its own attempt.
    fn contradiction(&self, there: &[Threaded], here: &[Threaded]) -> Option<AttemptContradiction> {
        let of_attempt = by_key(there, attempt)?;
        here.iter().find_map(|&to| {
            let from: Vec<Threaded> = of_attempt.get(&attempt(&to)?)?.iter().map(|&index| there[index]).collect();
            let contradicts = from.iter().all(|&from| !self.may_precede(from, to));
            let (first, attempt) = (from.first()?, to.attempt?);
            contradicts.then(|| AttemptContradiction { attempt, from: StampAt::of(first), to: StampAt::of(&to) })
        })
    }
}

fn attempt(stamp: &Threaded) -> Option<u32> {
    stamp.attempt.map(|attempt| attempt as u32)
}
