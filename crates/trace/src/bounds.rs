//! The two errors of a stage, and what they do to its quantiles.
//!
//! A clock error between two hosts is *common* to all their traces: it moves every value of a stage together. Against
//! each other two values are wrong by far less: true map and estimate both keep their slopes inside the clock map's
//! cone, so over a separation dt the error changes by at most the cone's width times dt (`docs/proof.md`,
//! "Common and relative error"). A question is put to the bound it needs: an absolute delay to both, a spread only to
//! the relative one.
//!
//! Each *end* of a stage that lies on a local clock brings its own term. For two ends on the same clock the terms are
//! added too, not counted once: error changes at the two ends need not cancel while dt is shorter than the duration.
//! The cap by the intervals then gives what is said of such stages, slopes' width times duration.
//!
//! Every stamp has a second error, its *reading error*: where on its node's counter it was read. A reading of the
//! counter leaves its width open, a reading of another clock that clock's interval. This error differs from packet to
//! packet, so it belongs to the relative bound, not to the common one: over a separation dt that of another clock
//! changes by at most that clock's cone times dt, and neither by more than the stamp's interval on the counter is wide.
//! It is capped by that width alone; the clock map's far larger error would be no cap for it.
//!
//! Guarantees: `|error of one trace - error of another| <= relative`, `q(lo) <= q(true) <= q(hi)`; rounded outward.
//! Deliberately absent: confidence in a quantile as an estimate of a population; that is statistics, not clocks.

use tickscope_bracket::Refused;
use tickscope_tick::Span;

use crate::share::{Share, add_shares};
use crate::{AxisError, Clocks, Column, Durations, Layout, Refusal, Stage, StageDurations, StageRole, Traces};

/// How far the values of a stage may be shifted together, in ticks of the reference: every true value lies in
/// `[estimate - below, estimate + above]`, apart from the reading errors of its two stamps ([`StageTally::own`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Common {
    /// How far the truth may lie below the estimate.
    pub below_ticks: u64,
    /// How far the truth may lie above the estimate.
    pub above_ticks: u64,
}

/// How far two traces are apart at each end of a stage, in ticks of that end's counter; where its stamps were read from
/// another clock, of their estimates on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Apart {
    /// Between their stamps at the stage's first point.
    pub from_ticks: u64,
    /// Between their stamps at the stage's second point.
    pub to_ticks: u64,
}

/// A trace whose duration is impossible or refused: evidence to look at, with both stamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Suspicion {
    /// The trace's kind.
    pub kind: i32,
    /// The trace's id.
    pub id: i64,
    /// Which passage of the id.
    pub occurrence: i32,
    /// The raw tick at the stage's first point, of that point's domain.
    pub from_tick: i64,
    /// The raw tick at the stage's second point, of that point's domain.
    pub to_tick: i64,
    /// The guaranteed interval `(lo, hi)` in ticks of the reference; `None`: there is none.
    pub interval: Option<(i64, i64)>,
    /// Why there is none.
    pub refusal: Option<Refusal>,
}

/// Errors of one stage over all its traces; grows trace by trace, in any order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StageTally {
    /// Traces with a duration.
    pub count: u64,
    /// Traces that lack one of the two stamps.
    pub missing: u64,
    /// Traces with both stamps but no interval.
    pub refused: u64,
    /// Why.
    pub refused_by: RefusedBy,
    /// Traces on the path whose *longest* admissible duration is negative: wrong stamps, ids, brackets or rho. Their
    /// values are kept as they are.
    pub impossible: u64,
    /// The same where the layout was inferred: their order is not the inferred one, which contradicts nothing.
    pub against_inferred: u64,
    /// The first few of both, with their stamps.
    pub suspicions: Vec<Suspicion>,
    /// The common bound.
    pub common: Common,
    /// Errors of each value besides the common one, differently from trace to trace, because of what the readings of
    /// its stamps leave open, of counters and of other clocks. Every true value lies in `[estimate - common.below -
    /// own.below, estimate + common.above + own.above]`.
    pub own: Common,
    /// Its part of the whole; `None` before any trace, and where it is no part of one.
    pub share: Option<Share>,
    /// Both together, as the widest interval has it.
    whole: Common,
    from: End,
    to: End,
}

/// Refused traces, by reason; where both stamps were refused, by that of the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RefusedBy {
    /// [`Refused::Outside`]
    pub outside: u64,
    /// [`Refused::InBreak`]
    pub in_break: u64,
    /// [`Refused::Ambiguous`]
    pub ambiguous: u64,
    /// [`Refused::Contradictory`]
    pub contradictory: u64,
    /// [`Refusal::NoInterval`]
    pub no_interval: u64,
    /// [`Refusal::Untold`]
    pub untold: u64,
    /// [`Refusal::Unrelated`]
    pub unrelated: u64,
}

/// Errors at one end of a stage, over all counted traces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct End {
    /// Smallest and largest tick of the counter, as estimated.
    ticks: Option<(i64, i64)>,
    /// How far the counter may have stood from the estimates, in its own ticks.
    own: Common,
}

/// One end of one trace's stage: where on the counter, and how far the truth may lie from it.
#[derive(Clone, Copy)]
struct Place {
    tick: i64,
    own: Common,
}

/// How far rounding moves one estimate against another of the same clock: both are rounded down by less than 1.
const ROUNDING_TICKS: u64 = 1;

/// A time that shows a cone's slopes to twelve digits.
const LONG_TICKS: u64 = 1 << 40;

/// How many suspicions are kept with their stamps, of each stage; all are counted.
pub const SUSPICIONS_KEPT: usize = 16;

/// Adds `durations` of `traces` to the tallies of the layout's stages, one each, in order.
///
/// Further traces of an id that have the same two stamps repeat a duration and are left out.
pub fn tally(layout: &Layout, clocks: &Clocks, traces: &Traces, durations: &Durations, tallies: &mut [StageTally]) {
    add_shares(layout, traces, durations, tallies);
    let repeats = traces.has_repeats();
    for ((stage, columns), tally) in layout.stages().iter().zip(durations.stages()).zip(tallies) {
        let (Some(from), Some(to)) = (traces.points().get(stage.from), traces.points().get(stage.to)) else { continue };
        let mut read = Read::between(clocks, stage);
        let on_path = matches!(stage.role, StageRole::Path | StageRole::EndToEnd).then(|| layout.is_inferred());
        let measured = Measured::of(columns, [from, to]).filter(|_| !repeats);
        let added = read.as_mut().zip(measured).map(|(read, measured)| measured.add_to(read, on_path.is_some()));
        tally.count += added.as_ref().map_or(0, |added| added.iter().filter(|&&added| added).count() as u64);
        for (row, &occurrence) in traces.occurrences().iter().enumerate() {
            if added.as_ref().is_some_and(|added| added[row]) {
                continue;
            }
            if repeats && traces.repeats(row, [stage.from, stage.to]) {
                continue;
            }
            let Some((from_tick, to_tick)) = from.get(row).zip(to.get(row)) else {
                tally.missing += 1;
                continue;
            };
            let (kind, id) = (traces.kinds()[row], traces.ids()[row]);
            let stamps = Suspicion { kind, id, occurrence, from_tick, to_tick, interval: None, refusal: None };
            let Some(values) = columns.values(row) else {
                let refusal = match traces.together(layout, stage, row) {
                    _ if !clocks.relates(stage) => Refusal::Unrelated,
                    true => durations.refusal(stage, row),
                    false => Refusal::Untold,
                };
                tally.refuse(refusal, stamps);
                continue;
            };
            tally.add(on_path, stamps, values);
            match &mut read {
                Some(read) => read.add(values, [from_tick, to_tick]),
                None => {
                    let ends = [(stage.from, from_tick), (stage.to, to_tick)]
                        .map(|(point, raw)| durations.place(point, row, raw, clocks.width(point)));
                    tally.widen(values, ends, clocks.reading_error(stage, ends));
                }
            }
        }
        read.into_iter().for_each(|read| tally.widen_by(read));
    }
}

/// The columns of a stage, where each has some values.
struct Measured<'a> {
    /// Which rows have a duration, and so both stamps; empty: all.
    valid: &'a [bool],
    values: [&'a [i64]; 3],
    ticks: [&'a [i64]; 2],
}

impl<'a> Measured<'a> {
    fn of(stage: &'a StageDurations, ticks: [&'a Column; 2]) -> Option<Self> {
        let (valid, values) = stage.parts()?;
        let [from, to] = ticks.map(|column| column.parts(0..column.len()));
        let (from, to) = (from?.0, to?.0);
        let is_whole = [from.len(), to.len()] == [values[0].len(); 2];
        is_whole.then_some(Self { valid, values, ticks: [from, to] })
    }

    /// Adds the durations that nothing else is to be asked of; returns which. On the path that is none whose longest
    /// is negative.
    fn add_to(&self, read: &mut Read, on_path: bool) -> Vec<bool> {
        let [estimate, lo, hi] = self.values;
        let mut added = if self.valid.is_empty() { vec![true; estimate.len()] } else { self.valid.to_vec() };
        if on_path {
            added.iter_mut().zip(hi).for_each(|(added, &hi)| *added &= hi >= 0);
        }
        read.add_some(&added, [estimate, lo, hi], self.ticks);
        added
    }
}

/// Errors of some durations between readings of counters, which are as wide in each trace: only what differs is looked
/// at one by one.
struct Read {
    /// The reading errors at either end.
    ends: [Common; 2],
    /// The part of a duration's error that is due to them.
    own: Common,
    /// How far the widest interval reaches.
    whole: Common,
    /// The first and the last tick at either end; `None` without durations.
    ticks: Option<[(i64, i64); 2]>,
}

impl Read {
    /// `None` where a stamp was read from another clock.
    fn between(clocks: &Clocks, stage: &Stage) -> Option<Self> {
        let ends = [stage.from, stage.to];
        if ends.into_iter().any(|point| clocks.own(point).is_some()) {
            return None;
        }
        let ends = ends.map(|point| Common { below_ticks: 0, above_ticks: clocks.width(point) });
        let own = clocks.reading_error(stage, ends.map(|own| Place { tick: 0, own }));
        Some(Self { ends, own, whole: Common::default(), ticks: None })
    }

    fn add(&mut self, [estimate, lo, hi]: [i64; 3], [from, to]: [i64; 2]) {
        self.add_some(&[true], [&[estimate], &[lo], &[hi]], [&[from], &[to]]);
    }

    /// Adds the durations of some rows, each within its interval.
    fn add_some(&mut self, added: &[bool], [estimate, lo, hi]: [&[i64]; 3], [from, to]: [&[i64]; 2]) {
        let mut whole = self.whole;
        let none = [(i64::MAX, i64::MIN); 2];
        let [mut of_from, mut of_to] = none;
        let rows = added.iter().zip(estimate).zip(lo).zip(hi).zip(from).zip(to);
        for (((((&added, &estimate), &lo), &hi), &from), &to) in rows {
            if added {
                whole.below_ticks = whole.below_ticks.max(estimate.wrapping_sub(lo).cast_unsigned());
                whole.above_ticks = whole.above_ticks.max(hi.wrapping_sub(estimate).cast_unsigned());
                of_from = (of_from.0.min(from), of_from.1.max(from));
                of_to = (of_to.0.min(to), of_to.1.max(to));
            }
        }
        if [of_from, of_to] == none {
            return;
        }
        self.whole = whole;
        let ticks = self.ticks.get_or_insert([of_from, of_to]);
        for (all, some) in ticks.iter_mut().zip([of_from, of_to]) {
            *all = (all.0.min(some.0), all.1.max(some.1));
        }
    }
}

impl StageDurations {
    /// Estimate, lo and hi.
    pub fn columns(&self) -> [&Column; 3] {
        [&self.estimate, &self.lo, &self.hi]
    }

    /// Estimate, lo and hi of a row.
    pub(crate) fn values(&self, row: usize) -> Option<[i64; 3]> {
        Some([self.estimate.get(row)?, self.lo.get(row)?, self.hi.get(row)?])
    }
}

impl Durations {
    /// Where on its node's counter a stamp lies; from `raw` on for its width where it was read from that.
    fn place(&self, point: usize, row: usize, raw: i64, width: u64) -> Place {
        let found = self.own(point).and_then(|own| Some([own.estimate.get(row)?, own.lo.get(row)?, own.hi.get(row)?]));
        match found {
            None => Place { tick: raw, own: Common { below_ticks: 0, above_ticks: width } },
            Some([tick, lo, hi]) => {
                Place { tick, own: Common { below_ticks: tick.abs_diff(lo), above_ticks: hi.abs_diff(tick) } }
            }
        }
    }
}

impl StageTally {
    /// `on_path`: whether the path's order was inferred; `None` off the path.
    fn add(&mut self, on_path: Option<bool>, stamps: Suspicion, [_, lo, hi]: [i64; 3]) {
        self.count += 1;
        match on_path.filter(|_| hi < 0) {
            None => {}
            Some(true) => self.against_inferred += 1,
            Some(false) => {
                self.impossible += 1;
                self.keep(Suspicion { interval: Some((lo, hi)), ..stamps });
            }
        }
    }

    /// Adds what is known of further traces.
    pub fn merge(&mut self, later: &Self) {
        self.count += later.count;
        self.missing += later.missing;
        self.refused += later.refused;
        self.refused_by.merge(later.refused_by);
        self.impossible += later.impossible;
        self.against_inferred += later.against_inferred;
        later.suspicions.iter().for_each(|&stamps| self.keep(stamps));
        self.common = self.common.widest(later.common);
        self.own = self.own.widest(later.own);
        Share::merge_into(&mut self.share, later.share);
        self.whole = self.whole.widest(later.whole);
        self.from.merge(later.from);
        self.to.merge(later.to);
    }

    fn refuse(&mut self, refusal: Refusal, stamps: Suspicion) {
        self.refused += 1;
        self.refused_by.count(refusal);
        self.keep(Suspicion { refusal: Some(refusal), ..stamps });
    }

    /// Adds how far one duration may be wrong; `own`: the part of that due to the reading errors of its stamps.
    fn widen(&mut self, [estimate, lo, hi]: [i64; 3], [from, to]: [Place; 2], own: Common) {
        let whole = Common { below_ticks: lo.abs_diff(estimate), above_ticks: hi.abs_diff(estimate) };
        self.whole = self.whole.widest(whole);
        // An interval can be narrower than its own parts: two stamps of one clock are near each other wherever both
        // are.
        self.own = self.own.widest(whole.least(own));
        self.common = self.common.widest(whole.beyond(own));
        self.from.stretch(from);
        self.to.stretch(to);
    }

    /// The same of many durations: the widest of each part is that part of the widest.
    fn widen_by(&mut self, Read { ends, own, whole, ticks }: Read) {
        let Some(ticks) = ticks else { return };
        self.whole = self.whole.widest(whole);
        self.own = self.own.widest(whole.least(own));
        self.common = self.common.widest(whole.beyond(own));
        for (tick, own) in [(ticks[0].0, ends[0]), (ticks[0].1, ends[0])] {
            self.from.stretch(Place { tick, own });
        }
        for (tick, own) in [(ticks[1].0, ends[1]), (ticks[1].1, ends[1])] {
            self.to.stretch(Place { tick, own });
        }
    }

    fn keep(&mut self, stamps: Suspicion) {
        if self.suspicions.len() < SUSPICIONS_KEPT {
            self.suspicions.push(stamps);
        }
    }

    /// How far two of this stage's durations may be wrong against each other, in ticks of the reference, for traces
    /// that far apart; `stage` is the layout's index of it. No more than the intervals allow: one at its lowest, one at
    /// its highest.
    pub fn relative(&self, layout: &Layout, clocks: &Clocks, stage: usize, apart: Apart) -> u64 {
        let cap = self.whole.below_ticks.saturating_add(self.whole.above_ticks);
        let Some(stage) = layout.stages().get(stage) else { return cap };
        let from = clocks.drifted(stage.from, apart.from_ticks, self.from.own);
        let to = clocks.drifted(stage.to, apart.to_ticks, self.to.own);
        from.saturating_add(to).min(cap)
    }

    /// The same for any two traces of the run.
    pub fn relative_over_run(&self, layout: &Layout, clocks: &Clocks, stage: usize) -> u64 {
        self.relative(layout, clocks, stage, self.span())
    }

    /// The first and the last counted stamp at each of the stage's two points, on the counters of their nodes as
    /// estimated.
    pub fn end_ticks(&self) -> [Option<(i64, i64)>; 2] {
        [self.from, self.to].map(|end| end.ticks)
    }

    /// How far the first and the last counted trace are apart.
    pub fn span(&self) -> Apart {
        let length = |end: End| end.ticks.map_or(0, |(first, last)| last.abs_diff(first));
        Apart { from_ticks: length(self.from), to_ticks: length(self.to) }
    }
}

impl RefusedBy {
    fn count(&mut self, refusal: Refusal) {
        *match refusal {
            Refusal::AuxiliaryClock(Refused::Outside) => &mut self.outside,
            Refusal::AuxiliaryClock(Refused::InBreak) => &mut self.in_break,
            Refusal::AuxiliaryClock(Refused::Ambiguous) => &mut self.ambiguous,
            Refusal::AuxiliaryClock(Refused::Contradictory) => &mut self.contradictory,
            Refusal::NoInterval => &mut self.no_interval,
            Refusal::Untold => &mut self.untold,
            Refusal::Unrelated => &mut self.unrelated,
        } += 1;
    }

    fn merge(&mut self, later: Self) {
        self.outside += later.outside;
        self.in_break += later.in_break;
        self.ambiguous += later.ambiguous;
        self.contradictory += later.contradictory;
        self.no_interval += later.no_interval;
        self.untold += later.untold;
        self.unrelated += later.unrelated;
    }
}

impl End {
    fn stretch(&mut self, place: Place) {
        let (first, last) = self.ticks.unwrap_or((place.tick, place.tick));
        self.ticks = Some((first.min(place.tick), last.max(place.tick)));
        self.own = self.own.widest(place.own);
    }

    fn merge(&mut self, later: Self) {
        for tick in later.ticks.into_iter().flat_map(|(first, last)| [first, last]) {
            self.stretch(Place { tick, own: later.own });
        }
    }
}

impl Common {
    fn each(self, other: Self, pick: impl Fn(u64, u64) -> u64) -> Self {
        let below_ticks = pick(self.below_ticks, other.below_ticks);
        Self { below_ticks, above_ticks: pick(self.above_ticks, other.above_ticks) }
    }

    /// The further of the two, either way.
    pub fn widest(self, other: Self) -> Self {
        self.each(other, u64::max)
    }

    fn least(self, other: Self) -> Self {
        self.each(other, u64::min)
    }

    /// The rest of it beyond the other; nothing where the other reaches further.
    fn beyond(self, other: Self) -> Self {
        self.each(other, u64::saturating_sub)
    }

    fn width(self) -> u64 {
        self.below_ticks.saturating_add(self.above_ticks)
    }
}

impl Clocks {
    /// How far the error of a translated tick of `point` may change between two stamps that are `ticks` of its counter
    /// apart; `own`: how far their places on it may be off. Rounding included.
    fn drifted(&self, point: usize, ticks: u64, own: Common) -> u64 {
        // Two stamps of a clock that a log rounded are each off by themselves: nothing but their intervals caps that.
        let one_clock = self.own(point).filter(|_| self.coarse(point) == 0);
        let own_ticks = one_clock.map_or(u64::MAX, |clock| clock.relative_bound(span(ticks))).min(own.width());
        let Some(clock_map) = self.clock_map(point) else { return own_ticks };
        // The same distance on the counter is another one on the reference, as the rate changes.
        let own_ticks = clock_map.most_ticks(own_ticks).saturating_add(clock_map.relative_bound(span(own.width())));
        clock_map.relative_bound(span(ticks)).saturating_add(ROUNDING_TICKS).saturating_add(own_ticks)
    }

    /// How far a stamp of a point may be from where it is taken to lie on the counter of its node; `None`: nothing
    /// bounds it.
    pub fn reading_reach(&self, point: usize, raw: i64) -> Option<Common> {
        if self.own(point).is_none() {
            return Some(Common { below_ticks: 0, above_ticks: self.width(point) });
        }
        let (placed, estimate) = self.place(point, raw).ok().map(|placed| (placed.counter, placed.counter_estimate))?;
        let below_ticks = estimate.get().abs_diff(placed.lo().get());
        Some(Common { below_ticks, above_ticks: placed.hi().get().abs_diff(estimate.get()) })
    }

    /// How far stamps of a point may be wrong, in ticks of the reference: each by itself, and time that passes after
    /// one; `reach`: the widest [`Clocks::reading_reach`] among them.
    pub fn axis_error(&self, point: usize, reach: Common) -> AxisError {
        let width = reach.width();
        let Some(clock_map) = self.clock_map(point) else {
            return AxisError { reading: width, fixed: width, slope: [0, 1] };
        };
        let reading = clock_map.most_ticks(width).saturating_add(clock_map.relative_bound(span(width)));
        let error = clock_map.relative_bound(span(LONG_TICKS)).saturating_add(ROUNDING_TICKS);
        let least = clock_map.most_ticks(LONG_TICKS).saturating_sub(error).max(1);
        AxisError { reading, fixed: reading.saturating_add(ROUNDING_TICKS), slope: [error, least] }
    }

    /// The part of one duration's error that is due to the reading errors of its stamps, in ticks of the reference.
    fn reading_error(&self, stage: &Stage, [from, to]: [Place; 2]) -> Common {
        let reference =
            |point: usize, ticks: u64| self.clock_map(point).map_or(ticks, |clock_map| clock_map.most_ticks(ticks));
        let sum = |late: u64, early: u64| reference(stage.to, late).saturating_add(reference(stage.from, early));
        Common {
            below_ticks: sum(to.own.below_ticks, from.own.above_ticks),
            above_ticks: sum(to.own.above_ticks, from.own.below_ticks),
        }
    }
}

fn span<D>(ticks: u64) -> Span<D> {
    Span::new(i64::try_from(ticks).unwrap_or(i64::MAX))
}

impl Apart {
    /// The same distance at both ends.
    pub fn by(ticks: u64) -> Self {
        Self { from_ticks: ticks, to_ticks: ticks }
    }
}
