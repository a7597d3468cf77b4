//! Timing models: whether a run keeps the limits of its stages, and which traces break them.
//!
//! Idea: a trace keeps a limit if the longest that its duration can be does, breaks it if the shortest that it can be
//! does not, and else is open; a limit is decided where no way to settle the open ones matters. A limit of `L` ns is
//! `L f / 10^9` ticks for a reference of `f` Hz, of which `f (1 ± tolerance)` is known: durations keep it up to the
//! least such number, rounded down, and break it above the largest, rounded down; ticks being whole, neither rounding
//! changes an answer. Of `at_least` the mirror image. Assumes: the bounds of the run. Guarantees: `holds` and
//! `violated` are true of the traces that have the stage, whatever the open ones are; memory does not grow with the
//! run; the same for any number of workers. Deliberately absent: exit codes; traces of which nothing was stored.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use tickscope_store::{LimitRule, Run};
use tickscope_tick::printable;
use tickscope_trace::{Layout, TraceKey};

use crate::error::Error;
use crate::kept::Kept;
use crate::scan::{Outcome, Part, Piece, Sink};
use crate::span::Span;

/// Traces beyond a limit that are named.
pub const MOST_WORST: usize = 10;

/// How the traces of a run stand to a limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limit {
    /// The limit.
    pub rule: LimitRule,
    /// The name of the stage; `None`: the layout has none that the rule names.
    pub stage: Option<String>,
    /// The same in ticks of the reference.
    pub ticks: LimitTicks,
    /// Traces that keep it.
    pub kept: u64,
    /// Traces that break it.
    pub broken: u64,
    /// Traces whose interval holds durations of both kinds.
    pub straddling: u64,
    /// Traces with both stamps of the stage, and no interval or one that cannot be.
    pub unknown: u64,
    /// Traces that lack a stamp of it.
    pub missing: u64,
    /// Traces that lack one where a policy leaves stamps out.
    pub left_out: u64,
    /// The traces that break it most, at most [`MOST_WORST`].
    pub worst: Vec<LimitBreaker>,
    /// The points of the stage whose policies leave stamps out, with these.
    pub thinned: Vec<String>,
    /// How far the interval of a straddling trace reaches from its estimate, at most.
    pub widest_ticks: u64,
    /// The half-width of intervals that would decide the limit, if estimates stay where they are; `None`: it is
    /// decided, or no width would do.
    pub resolving_ticks: Option<u64>,
}

/// A limit in ticks of the reference; `None`: there is none on that side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LimitTicks {
    /// Durations up to the first keep it, durations above the second break it.
    pub most: Option<[i128; 2]>,
    /// Durations from the second on keep it, durations below the first break it.
    pub least: Option<[i128; 2]>,
}

/// A trace that breaks a limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LimitBreaker {
    /// Class of its id.
    pub kind: i32,
    /// Its id.
    pub id: i64,
    /// What the id is a hash of, where it was kept.
    pub original: Option<String>,
    /// Which passage of the id.
    pub occurrence: i32,
    /// How long the stage took.
    pub span: Span,
    /// How many ticks beyond the limit it surely is.
    pub beyond_ticks: i128,
}

/// What can be said of a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitVerdict {
    /// Enough traces keep it, whatever the open ones are.
    Holds,
    /// Too many break it, whatever the open ones are.
    Violated,
    /// Neither.
    NotResolved(Undecided),
}

/// Why a limit is not resolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Undecided {
    /// The intervals of too many traces hold durations of both kinds, or there are none.
    Intervals,
    /// No trace has the stage.
    NoTrace,
    /// The layout has no such stage.
    NoStage,
    /// The run is damaged or contradicts itself: no bound is to be believed.
    Finding,
    /// It would hold, but the run lacks something of what was asked for.
    Lack,
}

impl LimitVerdict {
    /// Why it is not resolved; `None`: it is.
    pub fn unresolved(self) -> Option<Undecided> {
        match self {
            Self::NotResolved(why) => Some(why),
            Self::Holds | Self::Violated => None,
        }
    }

    /// Its name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Violated => "violated",
            Self::NotResolved(_) => "not-resolved",
        }
    }
}

impl Undecided {
    /// Its name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Intervals => "intervals",
            Self::NoTrace => "no-trace",
            Self::NoStage => "no-stage",
            Self::Finding => "finding",
            Self::Lack => "lack",
        }
    }
}

impl LimitTicks {
    fn of(rule: &LimitRule, hertz: u64, tolerance_ppm: u32) -> Self {
        const NS_AND_PPM: i128 = 1_000_000_000 * 1_000_000;
        let fast = 1_000_000 + i128::from(tolerance_ppm);
        let slow = (1_000_000 - i128::from(tolerance_ppm)).max(0);
        // What saturates is beyond every duration of 64 bits, all the same.
        let ticks = |ns: u64, rate: i128| i128::from(ns).saturating_mul(hertz.max(1).into()).saturating_mul(rate);
        let down = |ns, rate| ticks(ns, rate).div_euclid(NS_AND_PPM);
        let up = |ns, rate| -(-ticks(ns, rate)).div_euclid(NS_AND_PPM);
        Self {
            most: rule.at_most_ns.map(|ns| [down(ns, slow), down(ns, fast)]),
            least: rule.at_least_ns.map(|ns| [up(ns, slow), up(ns, fast)]),
        }
    }

    /// How far within the limit a duration is; negative: it may break it.
    fn room(&self, ticks: i64) -> i128 {
        let ticks = i128::from(ticks);
        let most = self.most.map_or(i128::MAX, |[keeps, _]| keeps - ticks);
        most.min(self.least.map_or(i128::MAX, |[_, keeps]| ticks - keeps))
    }

    /// How far beyond the limit a duration is; 0 or less: it may keep it.
    fn beyond(&self, ticks: i64) -> i128 {
        let ticks = i128::from(ticks);
        let most = self.most.map_or(i128::MIN, |[_, breaks]| ticks - breaks);
        most.max(self.least.map_or(i128::MIN, |[breaks, _]| breaks - ticks))
    }

    /// How far beyond the limit every duration of an interval is, at least; 0 or less: one may keep it. Where all are
    /// beyond an end, it is the same one.
    fn all_beyond(&self, span: Span) -> i128 {
        let most = self.most.map_or(i128::MIN, |[_, breaks]| i128::from(span.lo) - breaks);
        most.max(self.least.map_or(i128::MIN, |[breaks, _]| breaks - i128::from(span.hi)))
    }
}

/// Counts of how many half-widths are that large, to a sixteenth: at most a thousand of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct HalfWidths(BTreeMap<u64, u64>);

impl HalfWidths {
    fn add(&mut self, half_width: u64) {
        let dropped = 59_u32.saturating_sub(half_width.leading_zeros());
        *self.0.entry(half_width >> dropped << dropped).or_default() += 1;
    }

    fn append(&mut self, other: Self) {
        other.0.into_iter().for_each(|(half_width, count)| *self.0.entry(half_width).or_default() += count);
    }

    fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// The one that so many are not below, or a little less.
    fn largest(&self, number: u64) -> Option<u64> {
        let mut left = number.max(1);
        self.0.iter().rev().find_map(|(&half_width, &count)| {
            left = left.saturating_sub(count);
            (left == 0).then_some(half_width)
        })
    }
}

/// The traces of one limit.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Tally {
    stage: Option<usize>,
    ticks: LimitTicks,
    kept: u64,
    broken: u64,
    straddling: u64,
    unknown: u64,
    /// Traces that lack the first stamp of the stage, the second, both.
    lacking: [u64; 3],
    worst: Vec<LimitBreaker>,
    widest_ticks: u64,
    /// Of straddling traces: the widest half-width at which the estimate's interval would keep the limit, or break it.
    keeping: HalfWidths,
    breaking: HalfWidths,
}

impl Tally {
    fn none(stage: Option<usize>, ticks: LimitTicks) -> Self {
        Self {
            stage,
            ticks,
            kept: 0,
            broken: 0,
            straddling: 0,
            unknown: 0,
            lacking: [0; 3],
            worst: Vec::new(),
            widest_ticks: 0,
            keeping: HalfWidths::default(),
            breaking: HalfWidths::default(),
        }
    }

    fn add(&mut self, piece: &Piece<'_>, stage: usize, row: usize) {
        match piece.outcome(stage, row) {
            (Outcome::Repeated, _) => {}
            (Outcome::Missing, _) => {
                let of = &piece.layout.stages()[stage];
                let lacks = |point: usize| piece.traces.points()[point].get(row).is_none();
                self.lacking[if !lacks(of.to) { 0 } else { 1 + usize::from(lacks(of.from)) }] += 1;
            }
            (Outcome::Measured, Some(span)) => {
                self.add_span(piece.traces.key(row), span);
            }
            _ => self.unknown += 1,
        }
    }

    fn add_span(&mut self, TraceKey { kind, id, occurrence }: TraceKey, span: Span) {
        let beyond_ticks = self.ticks.all_beyond(span);
        if beyond_ticks > 0 {
            self.broken += 1;
            self.insert(LimitBreaker { kind, id, original: None, occurrence, span, beyond_ticks });
        } else if self.ticks.room(span.lo).min(self.ticks.room(span.hi)) >= 0 {
            self.kept += 1;
        } else {
            self.straddling += 1;
            let Span { estimate, lo, hi } = span;
            self.widest_ticks = self.widest_ticks.max(hi.abs_diff(estimate)).max(estimate.abs_diff(lo));
            let half_width = |ticks: i128| u64::try_from(ticks).ok();
            // An end on the limit keeps it; one tick further it breaks it.
            half_width(self.ticks.room(estimate)).into_iter().for_each(|width| self.keeping.add(width));
            half_width(self.ticks.beyond(estimate) - 1).into_iter().for_each(|width| self.breaking.add(width));
        }
    }

    /// Those that are furthest beyond the limit, in one order whoever saw them first.
    fn insert(&mut self, found: LimitBreaker) {
        let rank = |one: &LimitBreaker| (Reverse(one.beyond_ticks), one.kind, one.id, one.occurrence);
        let at = self.worst.partition_point(|known| rank(known) < rank(&found));
        if at < MOST_WORST {
            self.worst.insert(at, found);
            self.worst.truncate(MOST_WORST);
        }
    }

    fn append(&mut self, later: Self) {
        self.kept += later.kept;
        self.broken += later.broken;
        self.straddling += later.straddling;
        self.unknown += later.unknown;
        self.lacking.iter_mut().zip(later.lacking).for_each(|(all, more)| *all += more);
        later.worst.into_iter().for_each(|found| self.insert(found));
        self.widest_ticks = self.widest_ticks.max(later.widest_ticks);
        self.keeping.append(later.keeping);
        self.breaking.append(later.breaking);
    }

    fn limit(self, rule: LimitRule, layout: &Layout, kept: &Kept) -> Limit {
        let stage = self.stage.map(|stage| &layout.stages()[stage]);
        let place = |point: usize| layout.points()[point].place.to_string();
        let ends: Vec<String> = stage.iter().flat_map(|stage| [stage.from, stage.to]).map(place).collect();
        let excused: Vec<bool> = ends.iter().map(|point| kept.may_excuse(point)).collect();
        let [from, to] = [0, 1].map(|end| excused.get(end).is_some_and(|&excused| excused));
        let lacking: u64 = self.lacking.iter().sum();
        let left_out = self
            .lacking
            .iter()
            .zip([from, to, from && to])
            .filter(|(_, excused)| *excused)
            .map(|(count, _)| count)
            .sum();
        let thinned = kept.policies.iter().filter(|one| one.leaves_out && ends.contains(&one.point));
        let mut limit = Limit {
            rule,
            stage: stage.map(|stage| stage.name.clone()),
            ticks: self.ticks,
            kept: self.kept,
            broken: self.broken,
            straddling: self.straddling,
            unknown: self.unknown,
            missing: lacking - left_out,
            left_out,
            worst: self.worst,
            thinned: thinned.map(|one| format!("{} ({})", one.point, one.policy)).collect(),
            widest_ticks: self.widest_ticks,
            resolving_ticks: None,
        };
        limit.resolving_ticks = limit.resolving(&self.keeping, &self.breaking);
        limit
    }
}

impl Limit {
    /// Traces that have the stage.
    pub fn measured(&self) -> u64 {
        self.kept + self.broken + self.straddling + self.unknown
    }

    /// Traces that may break it while the share is kept.
    fn may_break(&self) -> u64 {
        let parts = u128::from(LimitRule::ALL_PPB.saturating_sub(self.rule.share_ppb)) * u128::from(self.measured());
        (parts / u128::from(LimitRule::ALL_PPB)) as u64
    }

    /// What its traces alone say.
    pub(crate) fn by_traces(&self) -> LimitVerdict {
        let may_break = self.may_break();
        match self.measured() {
            _ if self.stage.is_none() => LimitVerdict::NotResolved(Undecided::NoStage),
            0 => LimitVerdict::NotResolved(Undecided::NoTrace),
            measured if measured - self.kept <= may_break => LimitVerdict::Holds,
            _ if self.broken > may_break => LimitVerdict::Violated,
            _ => LimitVerdict::NotResolved(Undecided::Intervals),
        }
    }

    /// The half-width at which enough of the straddling traces would keep the limit, or break it.
    fn resolving(&self, keeping: &HalfWidths, breaking: &HalfWidths) -> Option<u64> {
        let (may_break, must_keep) = (self.may_break(), self.measured() - self.may_break());
        match self.by_traces() {
            LimitVerdict::NotResolved(Undecided::Intervals) if self.broken + breaking.count() > may_break => {
                breaking.largest(may_break + 1 - self.broken)
            }
            LimitVerdict::NotResolved(Undecided::Intervals) if self.kept + keeping.count() >= must_keep => {
                keeping.largest(must_keep - self.kept)
            }
            _ => None,
        }
    }

    /// How it is named in a sentence.
    pub fn title(&self) -> String {
        let stage = self.stage.as_ref().unwrap_or(&self.rule.stage);
        let title = self.rule.name.as_ref().map_or_else(|| stage.clone(), |name| format!("{name} ({stage})"));
        printable(&title).into_owned()
    }
}

/// The limits of a run: a sink.
#[derive(Clone, Debug)]
pub(crate) struct Limits(Vec<Tally>);

impl Limits {
    /// Nothing seen yet of these limits; `None`: there are none.
    pub fn of(rules: &[LimitRule], layout: &Layout, hertz: u64, tolerance_ppm: u32) -> Option<Self> {
        let tally = |rule: &LimitRule| {
            Tally::none(layout.stage_named(&rule.stage).ok(), LimitTicks::of(rule, hertz, tolerance_ppm))
        };
        (!rules.is_empty()).then(|| Self(rules.iter().map(tally).collect()))
    }

    /// What was found, with the originals of hashed ids.
    pub fn finish(self, rules: &[LimitRule], layout: &Layout, kept: &Kept, run: &Run) -> Result<Vec<Limit>, Error> {
        let all = self.0.into_iter().zip(rules);
        let mut all: Vec<Limit> = all.map(|(tally, rule)| tally.limit(rule.clone(), layout, kept)).collect();
        let ids: Vec<i64> = all.iter().flat_map(|limit| &limit.worst).map(|trace| trace.id).collect();
        let known = if ids.is_empty() { Default::default() } else { run.originals_of(&ids)? };
        for trace in all.iter_mut().flat_map(|limit| &mut limit.worst) {
            trace.original = known.get(&trace.id).map(|original| printable(&original.to_string()).into_owned());
        }
        Ok(all)
    }
}

impl Part for Limits {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        for tally in &mut self.0 {
            let Some(stage) = tally.stage else { continue };
            (0..piece.traces.len()).for_each(|row| tally.add(piece, stage, row));
        }
        Ok(())
    }
}

impl Sink for Limits {
    type Part = Self;

    fn part(&self) -> Self {
        Self(self.0.iter().map(|tally| Tally::none(tally.stage, tally.ticks)).collect())
    }

    fn merge(&mut self, part: Self) -> Result<(), Error> {
        self.0.iter_mut().zip(part.0).for_each(|(all, later)| all.append(later));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use num_bigint::BigInt;
    use num_rational::BigRational;
    use proptest::prelude::*;
    use tickscope_trace::LayoutText;

    use super::*;

    fn rule(at_least_ns: Option<u64>, at_most_ns: Option<u64>, share_ppb: u32) -> LimitRule {
        LimitRule { name: None, stage: "a.s > b.e".into(), at_most_ns, at_least_ns, share_ppb }
    }

    fn span([lo, estimate, hi]: [i64; 3]) -> Span {
        Span { estimate, lo, hi }
    }

    fn layout() -> Layout {
        LayoutText { path: vec!["a.s".into(), "b.e".into()], ..LayoutText::default() }.parse(None).unwrap()
    }

    /// The limit after these spans, seen as two parts; ids are their positions.
    fn seen(rule: &LimitRule, (hertz, tolerance_ppm): (u64, u32), spans: &[Span]) -> Limit {
        let none = || Tally::none(Some(0), LimitTicks::of(rule, hertz, tolerance_ppm));
        let (mut all, mut later) = (none(), none());
        for (at, &span) in spans.iter().enumerate() {
            let part = if at < spans.len() / 2 { &mut all } else { &mut later };
            part.add_span(TraceKey { kind: 0, id: at as i64, occurrence: 0 }, span);
        }
        all.append(later);
        all.limit(rule.clone(), &layout(), &Kept::default())
    }

    fn counts(limit: &Limit) -> [u64; 3] {
        [limit.kept, limit.broken, limit.straddling]
    }

    #[test]
    fn an_interval_that_ends_on_the_limit_keeps_it_and_one_tick_further_it_is_open() {
        let most = rule(None, Some(100), LimitRule::ALL_PPB);
        let spans = [[90, 95, 100], [90, 95, 101], [100, 105, 110], [101, 105, 110]].map(span);
        assert_eq!(counts(&seen(&most, (1_000_000_000, 0), &spans)), [1, 1, 2]);
        // A hundredth off its rate, 100 ns may be 99 ticks or 101.
        assert_eq!(seen(&most, (1_000_000_000, 10_000), &[]).ticks.most, Some([99, 101]));
        let spans = [[90, 95, 99], [90, 95, 100], [101, 105, 110], [102, 105, 110]].map(span);
        assert_eq!(counts(&seen(&most, (1_000_000_000, 10_000), &spans)), [1, 1, 2]);
        let least = rule(Some(100), None, LimitRule::ALL_PPB);
        let spans = [[101, 105, 110], [100, 105, 110], [90, 95, 99], [90, 95, 98]].map(span);
        assert_eq!(counts(&seen(&least, (1_000_000_000, 10_000), &spans)), [1, 1, 2]);
        let both = rule(Some(100), Some(200), LimitRule::ALL_PPB);
        let spans = [[100, 150, 200], [50, 60, 99], [201, 210, 220], [50, 150, 250]].map(span);
        assert_eq!(counts(&seen(&both, (1_000_000_000, 0), &spans)), [1, 2, 1]);
    }

    #[test]
    fn a_share_is_kept_or_not_whatever_the_open_traces_are() {
        let verdict = |kept: usize, broken: usize, open: usize, share_ppb| {
            let of = |count, ends| std::iter::repeat_n(span(ends), count);
            let spans: Vec<Span> =
                of(kept, [1, 1, 1]).chain(of(broken, [999; 3])).chain(of(open, [99, 100, 101])).collect();
            seen(&rule(None, Some(100), share_ppb), (1_000_000_000, 0), &spans).by_traces()
        };
        let open = LimitVerdict::NotResolved(Undecided::Intervals);
        assert_eq!(verdict(10, 0, 0, LimitRule::ALL_PPB), LimitVerdict::Holds);
        assert_eq!(verdict(10, 0, 1, LimitRule::ALL_PPB), open);
        assert_eq!(verdict(10, 1, 1, LimitRule::ALL_PPB), LimitVerdict::Violated);
        assert_eq!(verdict(90, 5, 5, 900_000_000), LimitVerdict::Holds);
        assert_eq!(verdict(90, 5, 5, 900_000_001), open);
        assert_eq!(verdict(90, 10, 0, 900_000_001), LimitVerdict::Violated);
        assert_eq!(verdict(0, 10, 0, 1), LimitVerdict::Violated);
        assert_eq!(verdict(0, 0, 0, 1), LimitVerdict::NotResolved(Undecided::NoTrace));
    }

    #[test]
    fn the_furthest_beyond_are_named_in_one_order_and_no_more_than_ten() {
        let spans: Vec<Span> = (0..40).map(|at| span([101 + at % 20, 300, 300 + at])).collect();
        let worst = seen(&rule(None, Some(100), LimitRule::ALL_PPB), (1_000_000_000, 0), &spans).worst;
        let named: Vec<(i64, i128)> = worst.iter().map(|trace| (trace.id, trace.beyond_ticks)).collect();
        let expected = [19, 39, 18, 38, 17, 37, 16, 36, 15, 35].map(|id| (id, i128::from(1 + id % 20)));
        assert_eq!(named, expected);
    }

    #[test]
    fn a_limit_of_any_file_overflows_nothing() {
        let spans = [[i64::MIN, 0, i64::MAX], [i64::MIN; 3], [i64::MAX; 3]].map(span);
        for ns in [0, 1, u64::MAX] {
            for (hertz, tolerance) in [(0, 0), (1, u32::MAX), (u64::MAX, 0), (u64::MAX, u32::MAX)] {
                for (least, most) in [(None, None), (Some(ns), None), (None, Some(ns)), (Some(ns), Some(ns))] {
                    for share in [0, 1, LimitRule::ALL_PPB, u32::MAX] {
                        let limit = seen(&rule(least, most, share), (hertz, tolerance), &spans);
                        assert_eq!(limit.measured(), 3);
                    }
                }
            }
        }
    }

    prop_compose! {
        fn any_span()(estimate in -50..400_i64, below in 0..60_i64, above in 0..60_i64) -> Span {
            Span { estimate, lo: estimate - below, hi: estimate + above }
        }
    }

    fn ratio(part: impl Into<BigInt>, of: impl Into<BigInt>) -> BigRational {
        BigRational::new(part.into(), of.into())
    }

    /// True: every duration of the span keeps the rule at every rate; false: none does at any.
    fn naive(rule: &LimitRule, (hertz, ppm): (u64, u32), span: Span) -> Option<bool> {
        let seconds = |ns: u64| ratio(ns, 1_000_000_000);
        let rates = [1_000_000 - ppm, 1_000_000 + ppm].map(|parts| ratio(parts, 1_000_000) * BigInt::from(hertz));
        let ends = [span.lo, span.hi].map(|ticks| rates.clone().map(|rate| ratio(ticks, 1) / rate));
        let all = |holds: &dyn Fn(&BigRational) -> bool| ends.as_flattened().iter().all(holds);
        let long = rule.at_most_ns.is_some_and(|ns| all(&|time| *time > seconds(ns)));
        let short = rule.at_least_ns.is_some_and(|ns| all(&|time| *time < seconds(ns)));
        let keeps = all(&|time| {
            rule.at_most_ns.is_none_or(|ns| *time <= seconds(ns))
                && rule.at_least_ns.is_none_or(|ns| *time >= seconds(ns))
        });
        if keeps { Some(true) } else { (long || short).then_some(false) }
    }

    proptest! {
        #[test]
        fn property_verdicts_are_those_of_exact_fractions(
            spans in prop::collection::vec(any_span(), 0..40),
            hertz in prop_oneof![Just(1_000_000_000), 300_000_000..3_000_000_000_u64],
            ppm in prop_oneof![Just(0), 0..20_000_u32],
            (least, most) in (prop::option::of(1..200_u64), prop::option::of(1..400_u64)),
            share in prop_oneof![Just(LimitRule::ALL_PPB), 1..=LimitRule::ALL_PPB],
        ) {
            let rule = rule(least, most, share);
            let limit = seen(&rule, (hertz, ppm), &spans);
            let all: Vec<Option<bool>> = spans.iter().map(|&span| naive(&rule, (hertz, ppm), span)).collect();
            let number = |of| all.iter().filter(|found| **found == of).count() as u64;
            prop_assert_eq!(counts(&limit), [number(Some(true)), number(Some(false)), number(None)]);
            prop_assume!(!spans.is_empty());
            let kept_by = |kept: u64| ratio(kept, spans.len()) >= ratio(share, LimitRule::ALL_PPB);
            let expected = match (kept_by(number(Some(true))), kept_by(number(Some(true)) + number(None))) {
                (true, _) => LimitVerdict::Holds,
                (_, false) => LimitVerdict::Violated,
                _ => LimitVerdict::NotResolved(Undecided::Intervals),
            };
            prop_assert_eq!(limit.by_traces(), expected);
        }

        /// With open intervals that wide it is decided; wider by more than a sixteenth it is not.
        #[test]
        fn property_the_half_width_that_is_named_resolves_and_a_wider_one_does_not(
            spans in prop::collection::vec(any_span(), 1..40),
            scale in prop_oneof![Just(1), Just(1000)],
            (least, most) in (prop::option::of(1..100_u64), prop::option::of(100..400_u64)),
            share in prop_oneof![Just(LimitRule::ALL_PPB), 1..=LimitRule::ALL_PPB],
        ) {
            let rule = rule(least.map(|ns| ns * scale), most.map(|ns| ns * scale), share);
            let by = scale as i64;
            let scaled = |Span { estimate, lo, hi }| Span { estimate: estimate * by, lo: lo * by, hi: hi * by };
            let spans: Vec<Span> = spans.into_iter().map(scaled).collect();
            let clock = (1_000_000_000, 0);
            let open = |limit: &Limit| limit.by_traces() == LimitVerdict::NotResolved(Undecided::Intervals);
            let with = |half_width: i64| {
                let narrow = |&span: &Span| match naive(&rule, clock, span) {
                    Some(_) => span,
                    None => {
                        let Span { estimate, .. } = span;
                        Span { estimate, lo: estimate - half_width, hi: estimate + half_width }
                    }
                };
                seen(&rule, clock, &spans.iter().map(narrow).collect::<Vec<_>>())
            };
            let limit = seen(&rule, clock, &spans);
            match limit.resolving_ticks {
                Some(ticks) => {
                    prop_assert!(open(&limit) && !open(&with(ticks as i64)));
                    prop_assert!(open(&with((ticks + ticks / 16 + 1) as i64)));
                }
                None => prop_assert!(!open(&limit), "without a tolerance some width always does: {limit:?}"),
            }
        }
    }
}
