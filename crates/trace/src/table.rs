//! The stages of a run in one table, and which questions their bounds can answer.
//!
//! "Not resolved" is said of a question, never of a number: an offset of 8 us hides whether a stage of 5 us is longer
//! than nothing, and does not blur whether its 99th percentile is far from its median. So each answer is held against
//! the bound it needs.
//!
//! All figures are ticks of the reference. Deliberately absent: seconds and formatting.

use crate::{Clocks, Common, Layout, Quantile, QuantileBounds, RefusedBy, Share, StageRole, StageTally, StageValues};

/// One stage of a run; every figure in ticks of the reference.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StageRow {
    /// `node.point>node.point`, or `end-to-end`.
    pub name: String,
    /// `node.point` it starts at.
    pub from: String,
    /// `node.point` it ends at.
    pub to: String,
    /// Role in the layout.
    pub role: StageRole,
    /// Traces with a duration.
    pub count: u64,
    /// Traces that lack one of the two stamps.
    pub missing: u64,
    /// Traces with both stamps but no interval.
    pub refused: u64,
    /// Why.
    pub refused_by: RefusedBy,
    /// Traces on the path that took less than no time.
    pub impossible: u64,
    /// The same where the layout was inferred: against its order, which contradicts nothing.
    pub against_inferred: u64,
    /// The median; `None` without durations.
    pub p50: Option<QuantileBounds>,
    /// The 99th percentile.
    pub p99: Option<QuantileBounds>,
    /// The 99.9th.
    pub p999: Option<QuantileBounds>,
    /// The longest: exact, within its bounds.
    pub max: Option<QuantileBounds>,
    /// Further ones that were asked for, in that order; empty without durations.
    pub quantiles: Vec<QuantileBounds>,
    /// The mean.
    pub mean: Option<QuantileBounds>,
    /// Its part of the end-to-end time; `None` where it is no part of a whole.
    pub share: Option<Share>,
    /// How far all values may be shifted together.
    pub common: Common,
    /// Errors of each value besides the common one, from trace to trace: the reading errors of its stamps.
    pub own: Common,
    /// How far any two values of the run may be wrong against each other.
    pub relative_ticks: u64,
    /// Ticks that each interval was widened by, because the stamps came from different cores; part of the bounds.
    pub core_ticks: u64,
}

/// Answer to a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer<T> {
    /// This, whatever the clocks did within their bounds.
    Resolved(T),
    /// Nothing: the error that is in the way is not small enough.
    NotResolved {
        /// The bound, in ticks.
        bound_ticks: u64,
        /// Limit that the bound has to stay below, in ticks.
        needed_ticks: u64,
    },
}

/// Which side of zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sign {
    /// Longer than nothing.
    Positive,
    /// Nothing, exactly.
    Zero,
    /// The second point comes first.
    Negative,
}

impl StageRow {
    /// The row of the stage with that index in `layout`; `None` if there is no such stage.
    pub fn new(
        layout: &Layout,
        clocks: &Clocks,
        stage: usize,
        tally: &StageTally,
        mut values: StageValues,
    ) -> Option<Self> {
        let of = layout.stages().get(stage)?;
        let name = |point: usize| layout.points().get(point).map(|point| point.place.to_string());
        let shown = [Quantile::MEDIAN, Quantile::P99, Quantile::P999, Quantile::MAXIMUM];
        let [p50, p99, p999, max] = <[_; 4]>::try_from(values.quantiles(&shown)).map_or([None; 4], |of| of.map(Some));
        Some(Self {
            name: of.name.clone(),
            from: name(of.from)?,
            to: name(of.to)?,
            role: of.role,
            count: tally.count,
            missing: tally.missing,
            refused: tally.refused,
            refused_by: tally.refused_by,
            impossible: tally.impossible,
            against_inferred: tally.against_inferred,
            p50,
            p99,
            p999,
            max,
            quantiles: Vec::new(),
            mean: values.mean(),
            share: tally.share,
            common: tally.common,
            own: tally.own,
            relative_ticks: tally.relative_over_run(layout, clocks, stage),
            core_ticks: clocks.core_ticks(of),
        })
    }

    /// Is it longer than nothing, at the median? Needs the common bound: as far as it reaches there.
    pub fn sign(&self) -> Option<Answer<Sign>> {
        let QuantileBounds { estimate, lo, hi } = self.p50?;
        Some(match (lo, hi) {
            (1.., _) => Answer::Resolved(Sign::Positive),
            (_, ..=-1) => Answer::Resolved(Sign::Negative),
            (0, 0) => Answer::Resolved(Sign::Zero),
            _ => {
                let bound_ticks = match estimate {
                    1.. => lo.abs_diff(estimate),
                    0 => lo.unsigned_abs().max(hi.unsigned_abs()),
                    _ => hi.abs_diff(estimate),
                };
                Answer::NotResolved { bound_ticks, needed_ticks: estimate.unsigned_abs() }
            }
        })
    }

    /// Is the spread from the median to the 99th percentile real? Resolved: how wide it is, estimated. Needs the
    /// relative bound only: what moves all values moves both quantiles, and errors that differ by at most R move
    /// their distance by at most R.
    pub fn spread(&self) -> Option<Answer<u64>> {
        let needed_ticks = self.p99?.estimate.abs_diff(self.p50?.estimate);
        let bound_ticks = self.relative_ticks;
        let resolved = needed_ticks > bound_ticks;
        Some(if resolved { Answer::Resolved(needed_ticks) } else { Answer::NotResolved { bound_ticks, needed_ticks } })
    }
}

/// Which stage of the path is the slowest at the median: indices into `rows` of those that may be, slowest estimate
/// first. One: resolved. Several: their intervals overlap. None: no stage of the path has a duration.
pub fn slowest(rows: &[StageRow]) -> Vec<usize> {
    let medians = || {
        let path = rows.iter().enumerate().filter(|(_, row)| row.role == StageRole::Path);
        path.filter_map(|(index, row)| Some((index, row.p50?)))
    };
    let Some(floor) = medians().map(|(_, median)| median.lo).max() else { return Vec::new() };
    let mut may_be: Vec<_> = medians().filter(|(_, median)| median.hi >= floor).collect();
    may_be.sort_by_key(|&(index, median)| (std::cmp::Reverse(median.estimate), index));
    may_be.into_iter().map(|(index, _)| index).collect()
}

/// Which stage takes the largest share of the time of the first whole: indices into `rows` of those that may, largest
/// estimate first. One: resolved. It need not be the slowest at the median: a tail adds to a sum, and to no median.
pub fn largest_share(rows: &[StageRow]) -> Vec<usize> {
    let Some(whole) = rows.iter().position(|row| row.role == StageRole::EndToEnd) else { return Vec::new() };
    let parts = || {
        let path = rows.iter().enumerate().filter(|(_, row)| row.role == StageRole::Path);
        path.filter_map(|(index, row)| Some((index, row.share.filter(|share| share.whole == whole)?.part)))
    };
    let Some(floor) = parts().map(|(_, part)| part.lo).max() else { return Vec::new() };
    let mut may_be: Vec<_> = parts().filter(|(_, part)| part.hi >= floor).collect();
    may_be.sort_by_key(|&(index, part)| (std::cmp::Reverse(part.estimate), index));
    may_be.into_iter().map(|(index, _)| index).collect()
}
