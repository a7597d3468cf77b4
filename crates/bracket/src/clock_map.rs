//! The clock map of two domains: for any local tick, the interval of the reference that must contain it.

use ethnum::I256;
use tickscope_tick::{Interval, Local, Reference, Span, Tick};

use crate::envelope::{Bounds, Envelope, ceil, floor};
use crate::evidence::{Evidence, Frame, LIMIT_TICKS};
use crate::{Bracket, Cone, Error, Finding, HalfWidths, Model, Placement, Segment, outlier, segment};

/// Map from local ticks to reference ticks, as far as all brackets together bound it. Immutable.
///
/// Build: O(n log n) in the number of brackets; a question: O(log n).
#[derive(Clone, Hash, Debug)]
pub struct ClockMap {
    model: Model,
    pub(crate) frame: Frame,
    pub(crate) envelope: Envelope,
}

/// Interval of the reference while the local clock stands within some ticks: looked up once, used for every span from
/// or to there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Held {
    /// In units of 2^-60 ticks from the frame's first reference tick, as [`Bounds`].
    lo: i128,
    hi: i128,
    /// Twice the middle of the bounds at the first local tick.
    doubled_middle: i128,
}

/// Exact bounds at a local tick, in units of 2^-60 reference ticks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Vertex {
    /// The local tick.
    pub at: Tick<Local>,
    /// No allowed map is below.
    pub lo: i128,
    /// No allowed map is above.
    pub hi: i128,
}

/// Where in a clock map the last question was. Answers do not depend on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Near(pub(crate) usize);

impl ClockMap {
    /// The clock map that `brackets`, in any order, allow under `model`.
    ///
    /// Errors: a side that no bracket bounds, ticks too far apart, or a contradiction, which names the outlier. A
    /// clock map that was made has an interval at every tick in reach.
    pub fn new(brackets: &[Bracket], model: &Model) -> Result<ClockMap, Error> {
        let evidence = Evidence::new(brackets, model)?;
        match Envelope::of(&evidence.points, evidence.premise) {
            Ok(envelope) => Ok(Self { model: *model, frame: evidence.frame, envelope }),
            Err(failure) => Err(outlier::report(brackets, &evidence, failure).into()),
        }
    }

    /// The same, but of a contradiction only what it is: looking for outliers costs many times the clock map itself.
    pub(crate) fn or_finding(brackets: &[Bracket], model: &Model) -> Result<Result<Self, Finding>, Error> {
        let evidence = Evidence::new(brackets, model)?;
        let envelope = Envelope::of(&evidence.points, evidence.premise);
        let clock_map = envelope.map(|envelope| Self { model: *model, frame: evidence.frame, envelope });
        Ok(clock_map.map_err(|failure| failure.finding(brackets, evidence.frame)))
    }

    /// Contains `f(at)` for every map `f` that the model and the brackets allow; rounded outward to whole ticks.
    #[inline]
    pub fn interval(&self, at: Tick<Local>) -> Result<Interval<Tick<Reference>>, Finding> {
        let Bounds { lo, hi } = self.bounds(at)?;
        let (lo, hi) = (self.reference(at, floor(lo))?, self.reference(at, ceil(hi))?);
        Interval::new(lo, hi).map_err(|_| Finding::Unrepresentable { tick: at.get() })
    }

    /// The middle of the exact bounds, rounded down: an admissible clock, so differences of estimates telescope.
    #[inline]
    pub fn estimate(&self, at: Tick<Local>) -> Result<Tick<Reference>, Finding> {
        self.reference(at, floor(self.bounds(at)?.doubled_middle() >> 1))
    }

    /// Contains `f(to) - f(from)` for every allowed `f`, and the difference of the estimates; negative where `to` is
    /// earlier than `from`.
    ///
    /// The distance times the cone's slopes, intersected with the difference of the bounds at the two ticks, all exact
    /// before it is rounded outward.
    pub fn span(&self, from: Tick<Local>, to: Tick<Local>) -> Result<Interval<Span<Reference>>, Finding> {
        let distance = i128::from(to.get()) - i128::from(from.get());
        let [start, end] = [from, to].map(|tick| self.hold(Interval::exactly(tick)));
        self.intersected([distance; 2], &start?, &end?).ok_or(Finding::Unrepresentable { tick: to.get() })
    }

    /// Contains `f(v) - f(u)` for every allowed `f`, every `u` in `from` and every `v` in `to` that lie `distance`
    /// apart; and the difference of the estimates of two such ticks.
    ///
    /// `distance` may be narrower than the two intervals say: then the answer is, too. Unsound unless some pair is
    /// that far apart.
    pub fn span_within(
        &self,
        from: Interval<Tick<Local>>,
        to: Interval<Tick<Local>>,
        distance: Interval<Span<Local>>,
    ) -> Result<Interval<Span<Reference>>, Finding> {
        let unrepresentable = Finding::Unrepresentable { tick: to.hi().get() };
        self.span_between(&self.hold(from)?, &self.hold(to)?, distance).ok_or(unrepresentable)
    }

    /// The same of ends that are held already; `None` where 64 bits do not hold the answer.
    #[inline]
    pub fn span_between(
        &self,
        from: &Held,
        to: &Held,
        distance: Interval<Span<Local>>,
    ) -> Option<Interval<Span<Reference>>> {
        let distance = [distance.lo(), distance.hi()].map(|ticks| i128::from(ticks.get()));
        self.intersected(distance, from, to)
    }

    /// Where the reference stood while the local clock stood within `ticks`; one search.
    #[inline]
    pub fn hold(&self, ticks: Interval<Tick<Local>>) -> Result<Held, Finding> {
        self.hold_near(ticks, &mut Near::default())
    }

    /// The same without a search, where the ticks are near those that were asked for with the same `near` before.
    #[inline]
    pub fn hold_near(&self, ticks: Interval<Tick<Local>>, near: &mut Near) -> Result<Held, Finding> {
        let [first, last] = [self.frame.local(ticks.lo())?, self.frame.local(ticks.hi())?];
        let [first, last] = self.envelope.ends(first, last, &mut near.0);
        Ok(Held { lo: first.lo, hi: last.hi, doubled_middle: first.doubled_middle() })
    }

    /// Interval of the reference, rounded outward to whole ticks; and the estimate at the first local tick, rounded
    /// down.
    #[inline]
    pub fn placed(&self, held: &Held) -> Option<Placement> {
        let ticks = |count: i128| self.frame.reference(count).map(Tick::new);
        let interval = Interval::new(ticks(floor(held.lo))?, ticks(ceil(held.hi))?).ok()?;
        Some(Placement { estimate: ticks(floor(held.doubled_middle >> 1))?, interval })
    }

    /// The slopes times the distances, intersected with the difference of what holds the two ends; rounded outward.
    #[inline]
    fn intersected(&self, [least, most]: [i128; 2], from: &Held, to: &Held) -> Option<Interval<Span<Reference>>> {
        let cone = self.cone();
        let lo = cone.reference_at_least(least).max(to.lo - from.hi);
        let hi = cone.reference_at_most(most).min(to.hi - from.lo);
        let span = |ticks: i128| i64::try_from(ticks).ok().map(Span::new);
        Interval::new(span(floor(lo))?, span(ceil(hi))?).ok()
    }

    /// Where the reference stood when the local clock read `at`, a reading of that width.
    #[inline]
    pub(crate) fn reading(&self, at: Tick<Local>, width: i64) -> Result<Placement, Finding> {
        let held = self.hold(while_shown(at, width)?)?;
        self.placed(&held).ok_or(Finding::Unrepresentable { tick: at.get() })
    }

    /// How much the error of a translated tick may change over a distance: cone width times `apart`, in reference
    /// ticks, rounded up; `u64::MAX` where it is more than that. Not capped: the caller caps it by the intervals.
    ///
    /// It bounds the exact middle; the estimate is that, rounded down, so two of them can differ by one tick more.
    pub fn relative_bound(&self, apart: Span<Local>) -> u64 {
        let fixed = I256::from(self.cone().width()) * I256::from(apart.get().unsigned_abs());
        let ticks = -(-fixed >> Cone::FRACTION_BITS);
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// The most that the reference runs while the local domain runs `ticks`, rounded up; `u64::MAX` where it is more.
    pub fn most_ticks(&self, ticks: u64) -> u64 {
        u64::try_from(ceil(self.cone().reference_at_most(ticks.into()))).unwrap_or(u64::MAX)
    }

    /// The local ticks of the brackets that bound any other tick closer than all others do, in order.
    pub(crate) fn evidence_ticks(&self) -> impl Iterator<Item = Tick<Local>> {
        let frame = self.frame.local;
        self.envelope.evidence().filter_map(move |at| at.checked_add(frame).map(Tick::new))
    }

    /// The slopes that the true map can have.
    pub fn cone(&self) -> Cone {
        self.envelope.cone()
    }

    /// Returns whether the evidence leaves the rate as open as the prior does, on either side: then the prior carries a
    /// slope.
    pub fn rests_on_prior(&self) -> bool {
        let Ok((slow, fast)) = self.model.prior() else { return true };
        let (prior, found) = (Cone::new(slow, fast, self.model.rho), self.cone());
        found.slowest() == prior.slowest() || found.fastest() == prior.fastest()
    }

    /// The assumptions it was built under.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Contains every local tick that an allowed map takes to exactly `at`; rounded outward.
    ///
    /// Both bounds grow strictly, so the earliest such tick is where the upper bound reaches `at`, the latest where the
    /// lower one does.
    pub fn inverse(&self, at: Tick<Reference>) -> Result<Interval<Tick<Local>>, Finding> {
        let (beyond, reach) = (self.frame.beyond(at.get()), self.frame.reach);
        let target = (i128::from(at.get()) - i128::from(self.frame.reference)) << Cone::FRACTION_BITS;
        let within = |y: i128| i64::try_from(y.max(1 - i128::from(reach))).ok().filter(|&y| y < reach).ok_or(beyond);
        let past = within(self.envelope.first_above(target))?;
        let last = within(self.envelope.first_reaching(target))?;
        let first = Some(past - 1).filter(|&y| y > -reach).ok_or(beyond)?;
        let local = |y: i64| y.checked_add(self.frame.local).map(Tick::new).ok_or(beyond);
        Interval::new(local(first)?, local(last)?).map_err(|_| beyond)
    }

    /// The clock map from `from` to `to`, both included, for engines with 64-bit integers.
    ///
    /// Every segment's pad is within the larger of 2 ticks and 2 % of the largest half-width over it. A segment ends
    /// where 64 bits run out (about 2^30 ticks at a rate of 1 where the interval is only ticks wide, more where it is
    /// wider) or where the middle bends by more than that slack; it bends by at most the cone's width times a quarter
    /// of the length, so evidence every `d` ticks needs few segments for each `d`, and usually one for many.
    pub fn segments(&self, from: Tick<Local>, to: Tick<Local>) -> Result<Vec<Segment>, Finding> {
        let (first, last) = (self.frame.local(from)?, self.frame.local(to)?);
        segment::cover(&self.envelope, self.frame, first, last)
    }

    /// The exact bounds at `from`, at `to`, and at each tick between next to which one of them bends: between two
    /// neighbours both are straight. For engines that compute by table; none where `to < from`.
    pub fn vertices(&self, from: Tick<Local>, to: Tick<Local>) -> Result<Vec<Vertex>, Finding> {
        let (first, last) = (self.frame.local(from)?, self.frame.local(to)?);
        let bends = if first <= last { self.envelope.bends(first, last) } else { Vec::new() };
        let origin = i128::from(self.frame.reference) << Cone::FRACTION_BITS;
        let vertex = |y: i64| {
            let Bounds { lo, hi } = self.envelope.at(y);
            Vertex { at: Tick::new(self.frame.local + y), lo: origin + lo, hi: origin + hi }
        };
        Ok(bends.into_iter().map(vertex).collect())
    }

    /// Half the intervals' widths at these ticks, in reference ticks.
    pub fn half_widths(&self, at: impl IntoIterator<Item = Tick<Local>>) -> Result<HalfWidths, Finding> {
        let half_width = |tick| self.interval(tick).map(Interval::half_width);
        at.into_iter().map(half_width).collect::<Result<Vec<u64>, Finding>>().map(HalfWidths::new)
    }

    #[inline]
    fn bounds(&self, at: Tick<Local>) -> Result<Bounds, Finding> {
        Ok(self.envelope.at(self.frame.local(at)?))
    }

    #[inline]
    fn reference(&self, at: Tick<Local>, ticks: i128) -> Result<Tick<Reference>, Finding> {
        self.frame.reference(ticks).map(Tick::new).ok_or(Finding::Unrepresentable { tick: at.get() })
    }
}

/// Where the clock stands while it shows `at`.
fn while_shown(at: Tick<Local>, width: i64) -> Result<Interval<Tick<Local>>, Finding> {
    let beyond = Finding::OutOfReach { tick: at.get(), first: at, limit: LIMIT_TICKS };
    let last = at.get().checked_add(width).ok_or(beyond)?;
    Interval::new(at, Tick::new(last)).map_err(|_| beyond)
}
