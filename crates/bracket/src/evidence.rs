//! Brackets made ready for arithmetic: checked, sorted, and measured from the first tick of either domain.

use tickscope_tick::{Local, Tick};

use crate::finding::{Error, Finding, Side, Witness};
use crate::slope::Premise;
use crate::{Bracket, Model, suspect};

/// Every tick must lie less than this far from the first of its domain: 2^50, 5.2 days at 2.5 GHz (`brackets.md`,
/// "Arithmetic"). It keeps products of distances and slopes within 128 bits.
pub const LIMIT_TICKS: i64 = 1 << 50;

/// The first tick of either domain: what differences are taken from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Frame {
    pub local: i64,
    pub reference: i64,
}

/// A bracket in a frame: `at` in `[0, 2^50)` from the first local tick, `before` and `after` from the first of the
/// reference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub at: i64,
    pub before: Option<i64>,
    pub after: Option<i64>,
    pub index: usize,
}

/// All brackets in one frame, sorted by `at`, each with `before <= after`, each side present at least once.
pub(crate) struct Evidence {
    pub frame: Frame,
    pub premise: Premise,
    pub points: Vec<Point>,
}

impl Evidence {
    pub fn new(brackets: &[Bracket], model: &Model) -> Result<Self, Error> {
        let prior = model.prior()?;
        if let Some(inconsistency) = suspect::reversed(reversed(brackets).collect(), model.rho) {
            return Err(inconsistency.into());
        }
        let frame = Frame::of(brackets)?;
        let anchor = difference("anchor", None, model.anchor.get(), frame.local)?;
        let points = brackets.iter().enumerate().map(|(index, bracket)| frame.point(index, bracket));
        let mut points = points.collect::<Result<Vec<Point>, Error>>()?;
        points.sort_unstable_by_key(|point| (point.at, point.index));
        Ok(Self { frame, premise: Premise { rho: model.rho, prior, anchor }, points })
    }
}

fn reversed(brackets: &[Bracket]) -> impl Iterator<Item = Witness> {
    let of = |(index, &bracket): (usize, &Bracket)| Witness { index, bracket };
    let is_reversed = |w: &Witness| matches!((w.bracket.before, w.bracket.after), (Some(b), Some(a)) if b > a);
    brackets.iter().enumerate().map(of).filter(is_reversed)
}

impl Frame {
    fn of(brackets: &[Bracket]) -> Result<Self, Error> {
        let missing = |side| Error::Missing { side, brackets: brackets.len() };
        let lower = brackets.iter().filter_map(|b| b.before).min().ok_or(missing(Side::Lower))?;
        let upper = brackets.iter().filter_map(|b| b.after).min().ok_or(missing(Side::Upper))?;
        let local = brackets.iter().map(|b| b.at).min().ok_or(missing(Side::Lower))?;
        Ok(Self { local: local.get(), reference: lower.min(upper).get() })
    }

    fn point(&self, index: usize, bracket: &Bracket) -> Result<Point, Error> {
        let side = |what, count| difference(what, Some(index), count, self.reference);
        Ok(Point {
            at: difference("at", Some(index), bracket.at.get(), self.local)?,
            before: bracket.before.map(|tick| side("before", tick.get())).transpose()?,
            after: bracket.after.map(|tick| side("after", tick.get())).transpose()?,
            index,
        })
    }

    /// The raw tick that lies `ticks` from the first of the reference.
    pub fn reference(&self, ticks: i128) -> Option<i64> {
        i64::try_from(ticks + i128::from(self.reference)).ok()
    }

    /// A local tick in this frame; an answer about it is exact.
    pub fn local(&self, at: Tick<Local>) -> Result<i64, Finding> {
        let beyond = Finding::OutOfReach { tick: at.get(), first: Tick::new(self.local) };
        near(at.get(), self.local).ok_or(beyond)
    }
}

fn difference(what: &'static str, index: Option<usize>, found: i64, first: i64) -> Result<i64, Error> {
    near(found, first).ok_or(Error::TooFar { what, index, found, first })
}

/// `found - first`, where that is less than [`LIMIT_TICKS`] either way.
fn near(found: i64, first: i64) -> Option<i64> {
    found.checked_sub(first).filter(|difference| difference.unsigned_abs() < LIMIT_TICKS.unsigned_abs())
}
