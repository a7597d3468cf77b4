//! Which part of the end-to-end time a stage takes.
//!
//! Sums over the same traces, of estimates that telescope: so the sums of the stages along a route are that of the
//! whole, to the tick, and shares add up to 1. Quantiles do not: a median of a whole is no sum of medians.
//!
//! Deliberately absent: traces that lack a stage of the route, and the shares of branches and extra stages, which are
//! no parts of a whole.

use crate::{Durations, Layout, StageDurations, StageRole, StageTally, Traces};

/// Sums of one stage and of the whole that it is a part of, over the traces that have all stages of the route.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Share {
    /// Index of the whole in [`Layout::stages`]: the first whose route passes the stage.
    pub whole: usize,
    /// Whether the stage is all of it: the whole itself, or the only stage of its route.
    pub is_whole: bool,
    /// How many traces.
    pub traces: u64,
    /// The stage: sums of its estimates, lower ends and upper ends.
    pub part: Sums,
    /// The whole's.
    pub of: Sums,
}

/// Sums over traces, in ticks of the reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sums {
    /// Sum of the estimates.
    pub estimate: i128,
    /// Sum of the lower ends; the true sum is not below.
    pub lo: i128,
    /// Sum of the upper ends; the true sum is not above.
    pub hi: i128,
}

const MILLION: i128 = 1_000_000;

/// Which stages are parts of which whole.
#[derive(Clone, Debug)]
pub struct SharePlan {
    wholes: Vec<Whole>,
}

#[derive(Clone, Debug)]
struct Whole {
    stage: usize,
    route: Vec<usize>,
    /// Those of the route that are no part of a whole before, and the whole itself.
    parts: Vec<usize>,
}

impl SharePlan {
    /// That of a layout.
    pub fn of(layout: &Layout) -> Self {
        let mut taken = vec![false; layout.stages().len()];
        let wholes = layout.stages().iter().enumerate().filter(|(_, stage)| stage.role == StageRole::EndToEnd);
        let wholes = wholes.map(|(whole, stage)| {
            let route = layout.route(stage);
            let parts: Vec<usize> = route.iter().copied().chain([whole]).filter(|&part| !taken[part]).collect();
            parts.iter().for_each(|&part| taken[part] = true);
            Whole { stage: whole, route, parts }
        });
        Self { wholes: wholes.collect() }
    }

    /// Adds a trace to `shares`, by stage; `values`: estimate, lower and upper end of a stage, a whole's only where it
    /// counts.
    pub fn add(&self, values: impl Fn(usize) -> Option<[i64; 3]>, shares: &mut [Option<Share>]) {
        for Whole { stage, route, parts } in &self.wholes {
            let Some(of) = values(*stage) else { continue };
            if route.iter().any(|&part| values(part).is_none()) {
                continue;
            }
            for &part in parts {
                let is_whole = part == *stage || route.len() == 1;
                let share = shares[part].get_or_insert(Share { whole: *stage, is_whole, ..Share::default() });
                values(part).into_iter().for_each(|values| share.add(values, of));
            }
        }
    }
}

/// Adds `durations` of `traces` to the shares of the layout's stages.
pub(crate) fn add_shares(layout: &Layout, traces: &Traces, durations: &Durations, tallies: &mut [StageTally]) {
    let repeats = traces.has_repeats();
    for Whole { stage: whole, route, parts } in SharePlan::of(layout).wholes {
        let of = &layout.stages()[whole];
        let mut counts = vec![true; traces.len()];
        route.iter().chain([&whole]).for_each(|&part| durations.stages()[part].keep_measured(&mut counts));
        if repeats {
            let is_new = |row: usize| !traces.repeats(row, [of.from, of.to]);
            counts.iter_mut().enumerate().for_each(|(row, counts)| *counts &= is_new(row));
        }
        let rows = counts.iter().filter(|&&counts| counts).count() as u64;
        if rows == 0 {
            continue;
        }
        let counts: Vec<u64> = counts.into_iter().map(|counts| if counts { u64::MAX } else { 0 }).collect();
        let sums = |stage: usize| Sums::of(&durations.stages()[stage], &counts);
        let of = sums(whole);
        for part in parts {
            let is_whole = part == whole || route.len() == 1;
            let share = Share { whole, is_whole, traces: rows, part: sums(part), of };
            tallies.get_mut(part).into_iter().for_each(|tally| Share::merge_into(&mut tally.share, Some(share)));
        }
    }
}

impl StageDurations {
    /// Takes the rows that have no duration out of `rows`.
    fn keep_measured(&self, rows: &mut [bool]) {
        if let Some((valid, _)) = self.parts() {
            return rows.iter_mut().zip(valid).for_each(|(row, &valid)| *row &= valid);
        }
        let has_all = |row: usize| self.values(row).is_some();
        rows.iter_mut().enumerate().for_each(|(row, counts)| *counts &= has_all(row));
    }
}

impl Share {
    fn add(&mut self, part: [i64; 3], of: [i64; 3]) {
        self.traces += 1;
        self.part.add(part);
        self.of.add(of);
    }

    /// Adds what is known of further traces.
    pub fn merge_into(all: &mut Option<Self>, later: Option<Self>) {
        let Some(later) = later else { return };
        let all = all.get_or_insert(Self { whole: later.whole, is_whole: later.is_whole, ..Self::default() });
        all.traces += later.traces;
        all.part.merge(later.part);
        all.of.merge(later.of);
    }

    /// The share in parts per million: its estimate, and what the true one lies between, rounded outward. `None` where
    /// the whole may have taken no time: nothing bounds a part of nothing. The part that is the whole is all of it.
    pub fn per_million(&self) -> Option<[i64; 3]> {
        let (part, of) = (self.part, self.of);
        if self.is_whole {
            return Some([MILLION as i64; 3]); // whatever the bounds of both are
        }
        if of.lo <= 0 {
            return None;
        }
        // A negative end is the further from 0 the smaller the whole.
        let lo = (part.lo * MILLION).div_euclid(if part.lo < 0 { of.lo } else { of.hi });
        let hi = -(-part.hi * MILLION).div_euclid(if part.hi < 0 { of.hi } else { of.lo });
        let near = (2 * part.estimate * MILLION + of.estimate).div_euclid(2 * of.estimate);
        let [near, lo, hi] = [near, lo, hi].map(i64::try_from);
        Some([near.ok()?, lo.ok()?, hi.ok()?])
    }
}

impl Sums {
    /// Those of the rows that count, all bits of one set, all of which have a duration.
    fn of(stage: &StageDurations, counts: &[u64]) -> Self {
        let [estimate, lo, hi] = stage.columns().map(|column| {
            let values = column.parts(0..column.len()).map_or(&[][..], |(values, _)| values);
            sum_of(values, counts)
        });
        Self { estimate, lo, hi }
    }

    fn add(&mut self, [estimate, lo, hi]: [i64; 3]) {
        self.merge(Self { estimate: estimate.into(), lo: lo.into(), hi: hi.into() });
    }

    fn merge(&mut self, later: Self) {
        self.estimate += later.estimate;
        self.lo += later.lo;
        self.hi += later.hi;
    }
}

/// The sum of fewer than 2^31 numbers that count, all bits of one set. By halves, whose sums stay within 64 bits, and
/// without signs, so that two or more are added at once.
fn sum_of(values: &[i64], counts: &[u64]) -> i128 {
    const HALF: u32 = 32;
    const SHIFT: u64 = 1 << 63;
    let (mut upper, mut lower, mut counted) = (0, 0, 0);
    for (&value, &counts) in values.iter().zip(counts) {
        let shifted = (value.cast_unsigned() ^ SHIFT) & counts;
        upper += shifted >> HALF;
        lower += shifted & (u64::MAX >> HALF);
        counted += counts & 1;
    }
    (i128::from(upper) << HALF) + i128::from(lower) - i128::from(counted) * i128::from(SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(part: [i128; 3], of: [i128; 3]) -> Option<[i64; 3]> {
        let sums = |[lo, estimate, hi]: [i128; 3]| Sums { estimate, lo, hi };
        Share { whole: 0, is_whole: false, traces: 1, part: sums(part), of: sums(of) }.per_million()
    }

    #[test]
    fn a_sum_by_halves_is_that_of_the_numbers_that_count() {
        let values = [i64::MIN, -1, 0, 1, i64::MAX, i64::MIN, 1 << 32, -(1 << 32) - 5, i64::MAX, i64::MAX, 7];
        for chosen in 0_u32..1 << values.len() {
            let counts = |row: usize| chosen & 1 << row != 0;
            let words: Vec<u64> = (0..values.len()).map(|row| if counts(row) { u64::MAX } else { 0 }).collect();
            let some = values.iter().enumerate().filter(|&(row, _)| counts(row));
            assert_eq!(sum_of(&values, &words), some.map(|(_, &value)| i128::from(value)).sum::<i128>());
        }
    }

    #[test]
    fn the_only_stage_of_a_route_is_all_of_it_whatever_the_bounds() {
        let sums = Sums { estimate: 5, lo: -40, hi: 50 };
        let share = Share { whole: 1, is_whole: true, traces: 1, part: sums, of: sums };
        assert_eq!(share.per_million(), Some([1_000_000; 3]));
    }

    #[test]
    fn a_share_is_rounded_outward_and_bounded_by_the_whole_at_its_other_end() {
        assert_eq!(share([1, 1, 1], [3, 3, 3]), Some([333_333, 333_333, 333_334]));
        assert_eq!(share([1, 2, 3], [4, 5, 6]), Some([400_000, 166_666, 750_000]));
        assert_eq!(share([-2, 1, -1], [4, 5, 8]).map(|[_, lo, hi]| (lo, hi)), Some((-500_000, -125_000)));
        assert_eq!(share([1, 2, 3], [0, 5, 6]), None);
    }
}
