//! The two errors of a stage, and what they do to its quantiles.
//!
//! A clock error between two hosts is *common* to all their traces: it moves every value of a stage together. Against
//! each other two values are wrong by far less: true map and estimate both keep their slopes inside the relation's
//! cone, so over a separation dt the error changes by at most the cone's width times dt (`brackets.md`, "Two errors,
//! not one"). A question is put to the bound it needs: an absolute delay to both, a spread only to the relative one.
//!
//! Each *end* of a stage that lies on a local clock brings its own term. For two ends on the same clock the terms are
//! added too, not counted once: error changes at the two ends need not cancel while dt is shorter than the duration.
//! The cap by the intervals then gives what is said of such stages, slopes' width times duration.
//!
//! Guarantees: `|error of one trace - error of another| <= relative`, `q(lo) <= q(true) <= q(hi)`; rounded outward.
//! Deliberately absent: confidence in a quantile as an estimate of a population; that is statistics, not clocks.

use tickscope_stats::Quantile;
use tickscope_tick::Span;

use crate::{Clocks, Durations, Layout, Role, StageDurations, Traces};

/// How far all values of a stage may be shifted together: every true value lies in
/// `[estimate - below, estimate + above]`, in ticks of the reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Common {
    /// How far the truth may lie below the estimate.
    pub below_ticks: u64,
    /// How far the truth may lie above the estimate.
    pub above_ticks: u64,
}

/// How far two traces are apart at each end of a stage, in ticks of that end's own domain.
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
}

/// What is known of one stage over all its traces; grows trace by trace, in any order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StageTally {
    /// Traces with a duration.
    pub count: u64,
    /// Traces that lack one of the two stamps.
    pub missing: u64,
    /// Traces with both stamps but no interval: a tick is out of its relation's reach, the evidence contradicts itself,
    /// or 64 bits do not hold the duration.
    pub refused: u64,
    /// Traces on the path whose *longest* admissible duration is negative: wrong stamps, ids, brackets or rho. Their
    /// values are kept as they are.
    pub impossible: u64,
    /// The first few of both, with their stamps.
    pub suspicions: Vec<Suspicion>,
    /// The common bound.
    pub common: Common,
    /// Smallest and largest raw tick at each end of the counted traces.
    from: Option<(i64, i64)>,
    to: Option<(i64, i64)>,
}

/// A quantile of the estimates, and what the true one lies between, in ticks of the reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuantileBounds {
    /// The quantile of the estimates.
    pub estimate: i64,
    /// The quantile of the lower ends; the true quantile is not below.
    pub lo: i64,
    /// The quantile of the upper ends; the true quantile is not above.
    pub hi: i64,
}

/// All values of one stage, of the traces that have one; 24 bytes a trace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StageValues {
    estimate: Vec<i64>,
    lo: Vec<i64>,
    hi: Vec<i64>,
}

/// How far rounding moves one estimate against another of the same clock: both are rounded down by less than 1.
const ROUNDING_TICKS: u64 = 1;

/// How many suspicions are kept with their stamps, of each stage; all are counted.
pub const SUSPICIONS_KEPT: usize = 16;

/// Adds `durations` of `traces` to the tallies of the layout's stages, one each, in order.
///
/// A stage without an end of rule `all` has one duration an id: further occurrences repeat it and are left out.
pub fn tally(layout: &Layout, traces: &Traces, durations: &Durations, tallies: &mut [StageTally]) {
    for ((stage, columns), tally) in layout.stages().iter().zip(durations.stages()).zip(tallies) {
        let (Some(from), Some(to)) = (traces.points().get(stage.from), traces.points().get(stage.to)) else { continue };
        let once = layout.once_an_id(stage);
        for (row, &occurrence) in traces.occurrences().iter().enumerate() {
            if once && occurrence > 0 {
                continue;
            }
            let Some((from_tick, to_tick)) = from.get(row).zip(to.get(row)) else {
                tally.missing += 1;
                continue;
            };
            let (kind, id) = (traces.kinds()[row], traces.ids()[row]);
            let stamps = Suspicion { kind, id, occurrence, from_tick, to_tick, interval: None };
            tally.add(stage.role, stamps, columns.values(row));
        }
    }
}

impl StageDurations {
    /// Estimate, lo and hi of a row.
    fn values(&self, row: usize) -> Option<[i64; 3]> {
        Some([self.estimate.get(row)?, self.lo.get(row)?, self.hi.get(row)?])
    }
}

impl StageTally {
    fn add(&mut self, role: Role, stamps: Suspicion, values: Option<[i64; 3]>) {
        let Some([estimate, lo, hi]) = values else {
            self.refused += 1;
            return self.suspect(stamps);
        };
        self.count += 1;
        self.common.below_ticks = self.common.below_ticks.max(lo.abs_diff(estimate));
        self.common.above_ticks = self.common.above_ticks.max(hi.abs_diff(estimate));
        stretch(&mut self.from, stamps.from_tick);
        stretch(&mut self.to, stamps.to_tick);
        if hi < 0 && role != Role::Branch {
            self.impossible += 1;
            self.suspect(Suspicion { interval: Some((lo, hi)), ..stamps });
        }
    }

    fn suspect(&mut self, stamps: Suspicion) {
        if self.suspicions.len() < SUSPICIONS_KEPT {
            self.suspicions.push(stamps);
        }
    }

    /// How far two of this stage's durations may be wrong against each other, in ticks of the reference, for traces
    /// that far apart; `stage` is the layout's index of it. No more than the intervals allow: one at its lowest, one at
    /// its highest.
    pub fn relative(&self, layout: &Layout, clocks: &Clocks, stage: usize, apart: Apart) -> u64 {
        let cap = self.common.below_ticks.saturating_add(self.common.above_ticks);
        let Some(stage) = layout.stages().get(stage) else { return cap };
        let ends = [(stage.from, apart.from_ticks), (stage.to, apart.to_ticks)];
        let drifted = ends.map(|(point, ticks)| clocks.drifted(point, ticks)).into_iter().fold(0, u64::saturating_add);
        let cores = clocks.core_ticks(stage).saturating_mul(2);
        drifted.saturating_add(cores).min(cap)
    }

    /// The same for any two traces of the run.
    pub fn relative_over_run(&self, layout: &Layout, clocks: &Clocks, stage: usize) -> u64 {
        self.relative(layout, clocks, stage, self.span())
    }

    /// How far the first and the last counted trace are apart.
    pub fn span(&self) -> Apart {
        let length = |range: Option<(i64, i64)>| range.map_or(0, |(first, last)| last.abs_diff(first));
        Apart { from_ticks: length(self.from), to_ticks: length(self.to) }
    }
}

impl Clocks {
    /// How far the error of a translated tick of `point` may change over `ticks` of its domain, rounding included.
    fn drifted(&self, point: usize, ticks: u64) -> u64 {
        let Some(relation) = self.relation(point) else { return 0 };
        let apart = Span::new(i64::try_from(ticks).unwrap_or(i64::MAX));
        relation.relative_bound(apart).saturating_add(ROUNDING_TICKS)
    }
}

impl Apart {
    /// The same distance at both ends.
    pub fn by(ticks: u64) -> Self {
        Self { from_ticks: ticks, to_ticks: ticks }
    }
}

impl StageValues {
    /// Adds the values of a stage of `traces`: `stage` is its index in the layout. Repeated ones are left out as in
    /// [`tally`].
    pub fn add(&mut self, layout: &Layout, traces: &Traces, durations: &Durations, stage: usize) {
        let (Some(of), Some(columns)) = (layout.stages().get(stage), durations.stages().get(stage)) else { return };
        let once = layout.once_an_id(of);
        for (row, _) in traces.occurrences().iter().enumerate().filter(|&(_, &occurrence)| !once || occurrence == 0) {
            if let Some(values) = columns.values(row) {
                self.push(values);
            }
        }
    }

    /// Adds one duration: estimate, lo, hi, in ticks of the reference.
    pub fn push(&mut self, [estimate, lo, hi]: [i64; 3]) {
        self.estimate.push(estimate);
        self.lo.push(lo);
        self.hi.push(hi);
    }

    /// The quantile with its bounds; `None` without values. Reorders the values, each column for itself: an order
    /// statistic does not ask which lower end belonged to which estimate.
    pub fn quantile(&mut self, quantile: Quantile) -> Option<QuantileBounds> {
        let estimate = quantile.of(&mut self.estimate)?;
        Some(QuantileBounds { estimate, lo: quantile.of(&mut self.lo)?, hi: quantile.of(&mut self.hi)? })
    }
}

fn stretch(range: &mut Option<(i64, i64)>, tick: i64) {
    let (first, last) = range.unwrap_or((tick, tick));
    *range = Some((first.min(tick), last.max(tick)));
}
