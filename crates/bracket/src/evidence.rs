//! Brackets made ready for arithmetic: checked, sorted, and measured from the first tick of either domain.

use tickscope_tick::{Local, Tick};

use crate::finding::{Error, Finding, NamedBracket, Side};
use crate::slope::Premise;
use crate::{Bracket, Model, Ratio, outlier};

/// Every tick must lie less than this far from the first of its domain: 2^57, 1.8 years at 2.5 GHz. Fixed-point slopes
/// are rounded by less than 2^-60, so over such a distance a bound is off by less than a quarter of a tick before it is
/// rounded to a whole one.
pub const LIMIT_TICKS: i64 = 1 << 57;

/// No local distance times the nominal rate may exceed this many ticks of the reference: 2^62, so that slopes times
/// distances, in units of 2^-60, and sums of a few of them stay within 128 bits. It shortens the reach of a local
/// domain only where the reference runs more than 32 times as fast.
const LIMIT_PRODUCT_TICKS: u128 = 1 << 62;

/// The first tick of either domain, from which differences are taken, and how far they may reach.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Frame {
    pub local: i64,
    pub reference: i64,
    /// Every local difference stays below this, either way.
    pub reach: i64,
}

/// A bracket in a frame: `at` from the first local tick and within reach of it, `before` and `after` less than
/// [`LIMIT_TICKS`] from the first of the reference.
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
        if let Some(inconsistency) = outlier::reversed(reversed(brackets).collect(), model.rho) {
            return Err(inconsistency.into());
        }
        let frame = Frame::of(brackets, reach(model.nominal))?;
        let anchor = frame.local_difference("anchor", None, model.anchor.get())?;
        let points = brackets.iter().enumerate().map(|(index, bracket)| frame.point(index, bracket));
        let mut points = points.collect::<Result<Vec<Point>, Error>>()?;
        points.sort_unstable_by_key(|point| (point.at, point.index));
        Ok(Self { frame, premise: Premise { rho: model.rho, prior, anchor }, points })
    }
}

fn reversed(brackets: &[Bracket]) -> impl Iterator<Item = NamedBracket> {
    let of = |(index, &bracket): (usize, &Bracket)| NamedBracket { index, bracket };
    let is_reversed = |w: &NamedBracket| matches!((w.bracket.before, w.bracket.after), (Some(b), Some(a)) if b > a);
    brackets.iter().enumerate().map(of).filter(is_reversed)
}

/// How far local ticks may lie from the first.
fn reach(nominal: Ratio) -> i64 {
    let product = LIMIT_PRODUCT_TICKS * nominal.denominator() / nominal.numerator();
    i64::try_from(product).map_or(LIMIT_TICKS, |ticks| ticks.min(LIMIT_TICKS))
}

impl Frame {
    fn of(brackets: &[Bracket], reach: i64) -> Result<Self, Error> {
        let missing = |side| Error::Missing { side, brackets: brackets.len() };
        let lower = brackets.iter().filter_map(|b| b.before).min().ok_or(missing(Side::Lower))?;
        let upper = brackets.iter().filter_map(|b| b.after).min().ok_or(missing(Side::Upper))?;
        let local = brackets.iter().map(|b| b.at).min().ok_or(missing(Side::Lower))?;
        Ok(Self { local: local.get(), reference: lower.min(upper).get(), reach })
    }

    fn point(&self, index: usize, bracket: &Bracket) -> Result<Point, Error> {
        let side = |what, count| difference(what, Some(index), count, self.reference, LIMIT_TICKS);
        Ok(Point {
            at: self.local_difference("at", Some(index), bracket.at.get())?,
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
    #[inline]
    pub fn local(&self, at: Tick<Local>) -> Result<i64, Finding> {
        near(at.get(), self.local, self.reach).ok_or_else(|| self.beyond(at.get()))
    }

    /// A question about a tick that lies, or has its answer, out of reach.
    pub fn beyond(&self, tick: i64) -> Finding {
        Finding::OutOfReach { tick, first: Tick::new(self.local), limit: self.reach }
    }

    fn local_difference(&self, what: &'static str, index: Option<usize>, found: i64) -> Result<i64, Error> {
        difference(what, index, found, self.local, self.reach)
    }
}

fn difference(what: &'static str, index: Option<usize>, found: i64, first: i64, limit: i64) -> Result<i64, Error> {
    near(found, first, limit).ok_or(Error::TooFar { what, index, found, first, limit })
}

/// `found - first`, where that is less than `limit` either way.
#[inline]
fn near(found: i64, first: i64, limit: i64) -> Option<i64> {
    found.checked_sub(first).filter(|difference| difference.unsigned_abs() < limit.unsigned_abs())
}
