//! What can be said of a change, and what would have to be known where nothing can.

use serde::Serialize;
use tickscope_stats::{Confidence, FEWEST_BLOCKS, FEWEST_OF_A_BLOCK};

use super::Shift;
use super::run_figures::RunFigure;

/// Where nobody names a tolerance, an interval around no change that is wider than a twentieth of the figure says
/// nothing: a change of 5 % is what comparisons are made for.
const TELLING_PART: u64 = 20;

/// A change of at most this is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeTolerance {
    /// A share of the figure before, parts per million.
    PerMillion(u32),
    /// A duration.
    Picoseconds(u64),
}

/// What is said of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum ChangeVerdict {
    /// The interval excludes none, and is not within the tolerance.
    Changed,
    /// The interval is within the tolerance.
    NotChanged {
        /// The larger end of the interval.
        by_more_than_ticks: u64,
    },
    /// Neither.
    NotResolved {
        /// What is in the way.
        limited_by: LimitedBy,
        /// What it takes, in the unit of what is in the way.
        needs: Option<u64>,
    },
}

/// What is in the way of a verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitedBy {
    /// The clocks' bounds; it needs them to take no more than so many ticks.
    Clocks,
    /// The spread; it needs about so many times the traces, or the runs.
    Statistics,
    /// Each by itself.
    Both,
    /// Too few traces; it needs so many.
    Traces,
    /// Too few windows of time; it needs so many.
    Windows,
    /// Too few runs for the confidence over all figures; it needs so many of each side.
    Runs,
    /// A run has no trace with the stage.
    Missing,
}

impl LimitedBy {
    /// The sides have too little of something for any interval, and need so much.
    pub(super) fn of_few(sides: &[Vec<RunFigure>; 2], confidence: Confidence) -> Option<(Self, u64)> {
        if let [[before], [after]] = sides.each_ref().map(Vec::as_slice) {
            let fewest = (FEWEST_BLOCKS * FEWEST_OF_A_BLOCK) as u64;
            return (before.count.min(after.count) < fewest).then_some((Self::Traces, fewest));
        }
        let [before, after] = sides.each_ref().map(Vec::len);
        let enough = enough_runs(confidence)?;
        (!confidence.is_met_by_runs(before, after)).then_some((Self::Runs, enough))
    }
}

/// The fewest runs of each side that have an interval with that confidence.
pub(super) fn enough_runs(confidence: Confidence) -> Option<u64> {
    (2..).find(|&runs| confidence.is_met_by_runs(runs, runs)).map(|runs| runs as u64)
}

impl ChangeVerdict {
    /// Of a change of what was `before` ticks; `tolerance`: with how many ticks a second has. `few`: why there is no
    /// interval.
    pub fn of(
        shift: &Shift,
        before: i64,
        tolerance: Option<(ChangeTolerance, u64)>,
        few: Option<(LimitedBy, u64)>,
    ) -> Self {
        if let Some((limited_by, needs)) = few {
            return Self::NotResolved { limited_by, needs: Some(needs) };
        }
        let judge = Judge::of(before, tolerance);
        let whole = shift.lo_ticks.zip(shift.hi_ticks);
        whole.and_then(|ends| judge.verdict(ends)).unwrap_or_else(|| judge.why(shift))
    }
}

/// What counts as a change here.
struct Judge {
    allowed: u64,
    is_declared: bool,
}

impl Judge {
    fn of(before: i64, tolerance: Option<(ChangeTolerance, u64)>) -> Self {
        let before = before.unsigned_abs();
        let scaled = |value: u64, by: u64, of: u128| (u128::from(value) * u128::from(by) / of) as u64;
        let allowed = match tolerance {
            None => before / TELLING_PART,
            Some((ChangeTolerance::PerMillion(share), _)) => scaled(before, share.into(), 1_000_000),
            Some((ChangeTolerance::Picoseconds(ps), hertz)) => scaled(ps, hertz, 1_000_000_000_000),
        };
        Self { allowed, is_declared: tolerance.is_some() }
    }

    fn verdict(&self, (lo, hi): (i64, i64)) -> Option<ChangeVerdict> {
        let most = lo.unsigned_abs().max(hi.unsigned_abs());
        let is_within = most <= self.allowed;
        match lo > 0 || hi < 0 {
            true if !(is_within && self.is_declared) => Some(ChangeVerdict::Changed),
            _ => is_within.then_some(ChangeVerdict::NotChanged { by_more_than_ticks: most }),
        }
    }

    /// What is in the way: what the verdict would be there without.
    fn why(&self, shift: &Shift) -> ChangeVerdict {
        let clocks = shift.clocks_below_ticks.max(shift.clocks_above_ticks);
        let statistics = shift.statistics_lo_ticks.zip(shift.statistics_hi_ticks);
        let by_clocks_alone = {
            let lo = shift.ticks.saturating_sub_unsigned(shift.clocks_below_ticks);
            self.verdict((lo, shift.ticks.saturating_add_unsigned(shift.clocks_above_ticks)))
        };
        let spread = statistics.map(|(lo, hi)| lo.abs_diff(shift.ticks).max(hi.abs_diff(shift.ticks)));
        // What the other part may take for either verdict, once this one has taken its own.
        let left = |taken: u64| {
            let size = shift.ticks.unsigned_abs();
            let changed = size.saturating_sub(taken).saturating_sub(1);
            changed.max(self.allowed.saturating_sub(size).saturating_sub(taken))
        };
        let of_clocks =
            |spread: u64| ChangeVerdict::NotResolved { limited_by: LimitedBy::Clocks, needs: Some(left(spread)) };
        let of_statistics = |spread: Option<u64>| {
            let times = spread.zip(Some(left(clocks)).filter(|&left| left > 0));
            let needs = times.map(|(spread, left)| (spread as f64 / left as f64).powi(2).ceil() as u64);
            ChangeVerdict::NotResolved { limited_by: LimitedBy::Statistics, needs }
        };
        match (statistics.and_then(|ends| self.verdict(ends)), by_clocks_alone, spread) {
            (None, None, _) => ChangeVerdict::NotResolved { limited_by: LimitedBy::Both, needs: None },
            (Some(_), None, Some(spread)) => of_clocks(spread),
            (Some(_), Some(_), Some(spread)) if clocks > spread => of_clocks(spread),
            (_, _, spread) => of_statistics(spread),
        }
    }
}
