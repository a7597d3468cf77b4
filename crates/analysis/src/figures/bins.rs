//! Durations counted in bins that grow by a factor: quantiles and shapes of any number of them in little memory.
//!
//! Idea: each power of two is cut into 32 bins of one length; what is below 64 has a bin of its own. Guarantees: the
//! value of a rank lies between the ends of the bin that it is told as; the order in which values come, and how they
//! were spread over parts, changes nothing. Deliberately absent: single values.

use serde::Serialize;

use super::boxes::Bounded;

/// Bits of a value below its highest that tell bins apart.
const BITS: u32 = 5;
/// Bins of a shape are so many of these together.
const TOGETHER: usize = 4;

/// Counts by bin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bins {
    /// Values below 0, by how far.
    below: Counts,
    from_0: Counts,
    values: u64,
    sum: i128,
}

/// Counts of slots from the first that has any on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counts {
    first: usize,
    counts: Vec<u64>,
}

impl Counts {
    fn add(&mut self, slot: usize, more: u64) {
        if self.counts.is_empty() {
            self.first = slot;
        }
        if slot < self.first {
            self.counts.splice(0..0, std::iter::repeat_n(0, self.first - slot));
            self.first = slot;
        }
        let at = slot - self.first;
        self.counts.resize(self.counts.len().max(at + 1), 0);
        self.counts[at] += more;
    }

    fn present(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> {
        let slots = self.counts.iter().enumerate();
        slots.filter(|(_, count)| **count > 0).map(|(at, &count)| (self.first + at, count))
    }
}

/// A stretch of values, both ends in it, and how many lie there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LengthBin {
    /// The shortest, ticks.
    pub from: i64,
    /// The longest, ticks.
    pub to: i64,
    /// How many.
    pub count: u64,
}

impl Bins {
    pub(crate) fn add(&mut self, value: i64) {
        let (side, far) = if value < 0 { (&mut self.below, !value) } else { (&mut self.from_0, value) };
        side.add(slot(far as u64), 1);
        self.values += 1;
        self.sum += i128::from(value);
    }

    pub(crate) fn merge(&mut self, later: &Self) {
        later.below.present().for_each(|(slot, count)| self.below.add(slot, count));
        later.from_0.present().for_each(|(slot, count)| self.from_0.add(slot, count));
        self.values += later.values;
        self.sum += later.sum;
    }

    pub(crate) fn values(&self) -> u64 {
        self.values
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        (self.values > 0).then(|| self.sum as f64 / self.values as f64)
    }

    /// Bins with values, the shortest first.
    fn ascending(&self) -> impl Iterator<Item = LengthBin> {
        let below = self.below.present().rev().map(|(slot, count)| {
            let [near, far] = ends(slot);
            LengthBin { from: !far, to: !near, count }
        });
        let from_0 = self.from_0.present().map(|(slot, count)| {
            let [from, to] = ends(slot);
            LengthBin { from, to, count }
        });
        below.chain(from_0)
    }

    /// The bin of the value of which so many of a million are no longer (nearest rank).
    pub(crate) fn quantile(&self, per_million: u64) -> Option<LengthBin> {
        let rank = (u128::from(self.values) * u128::from(per_million)).div_ceil(1_000_000).max(1) as u64;
        let mut seen = 0;
        self.ascending().find(|bin| {
            seen += bin.count;
            seen >= rank
        })
    }

    /// How many, in coarser bins; those without any are left out.
    pub(crate) fn shape(&self) -> Vec<LengthBin> {
        let mut shape: Vec<LengthBin> = Vec::new();
        for bin in self.ascending() {
            match shape.last_mut().filter(|wide| bin.to <= wide.to) {
                Some(wide) => wide.count += bin.count,
                None => shape.push(coarse(bin)),
            }
        }
        shape
    }
}

/// The wider bin that it lies in, with its count.
fn coarse(LengthBin { from, to, count }: LengthBin) -> LengthBin {
    let far = if from < 0 { !to } else { from };
    let first = slot(far as u64) / TOGETHER * TOGETHER;
    let (near, far) = (ends(first)[0], ends(first + TOGETHER - 1)[1]);
    if from < 0 { LengthBin { from: !far, to: !near, count } } else { LengthBin { from: near, to: far, count } }
}

fn slot(far: u64) -> usize {
    let shift = (u64::BITS - far.leading_zeros()).saturating_sub(BITS + 1);
    ((shift as usize) << BITS) + (far >> shift) as usize
}

fn ends(slot: usize) -> [i64; 2] {
    let shift = (slot >> BITS).saturating_sub(1) as u32;
    let least = ((slot - ((shift as usize) << BITS)) as u64) << shift;
    [least, least | ((1 << shift) - 1)].map(|end| end as i64)
}

/// Estimates, lower and upper ends of the same durations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BoundedBins {
    pub(crate) estimates: Bins,
    lo: Bins,
    hi: Bins,
}

impl BoundedBins {
    pub(crate) fn add(&mut self, [estimate, lo, hi]: [i64; 3]) {
        self.estimates.add(estimate);
        self.lo.add(lo);
        self.hi.add(hi);
    }

    pub(crate) fn merge(&mut self, later: &Self) {
        self.estimates.merge(&later.estimates);
        self.lo.merge(&later.lo);
        self.hi.merge(&later.hi);
    }

    /// A quantile: the middle of the estimate's bin, and ends between which the true one lies.
    pub(crate) fn quantile(&self, per_million: u64) -> Option<Bounded> {
        let LengthBin { from, to, .. } = self.estimates.quantile(per_million)?;
        let (lo, hi) = (self.lo.quantile(per_million)?.from, self.hi.quantile(per_million)?.to);
        Some(Bounded { estimate: from.midpoint(to), lo, hi })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_value_lies_in_its_slot_and_slots_follow_one_another() {
        for value in [0, 1, 63, 64, 65, 127, 128, 4_095, 4_096, u64::from(u32::MAX), i64::MAX as u64] {
            let [least, most] = ends(slot(value));
            assert!(least as u64 <= value && value <= most as u64, "{value}: {least} to {most}");
            assert!((most - least) as u64 <= value / 32, "{value}: {least} to {most}");
        }
        for slot in 0..1_500 {
            assert_eq!(ends(slot)[1] + 1, ends(slot + 1)[0]);
        }
    }

    proptest! {
        #[test]
        fn property_a_quantile_of_bins_holds_the_true_one_whatever_part_a_value_was_in(
            values in prop::collection::vec((-3_000i64..1_000_000, 0i64..900, 0i64..900), 1..200),
            per_million in 1u64..=1_000_000,
            cut in 0usize..200,
        ) {
            let cut = cut.min(values.len());
            let mut parts = [BoundedBins::default(), BoundedBins::default()];
            for (row, (estimate, below, above)) in values.iter().enumerate() {
                parts[usize::from(row >= cut)].add([*estimate, estimate - below, estimate + above]);
            }
            let [mut all, later] = parts;
            all.merge(&later);
            let rank = (values.len() as u64 * per_million).div_ceil(1_000_000).max(1) as usize - 1;
            let at = |end: &dyn Fn(&(i64, i64, i64)) -> i64| {
                let mut ends: Vec<i64> = values.iter().map(end).collect();
                ends.sort_unstable();
                ends[rank]
            };
            let found = all.quantile(per_million).unwrap();
            let bin = all.estimates.quantile(per_million).unwrap();
            let truth = at(&|value| value.0);
            prop_assert!(bin.from <= truth && truth <= bin.to);
            prop_assert!(found.lo <= at(&|value| value.0 - value.1) && at(&|value| value.0 + value.2) <= found.hi);
            let shape = all.estimates.shape();
            prop_assert_eq!(shape.iter().map(|bin| bin.count).sum::<u64>(), values.len() as u64);
            prop_assert!(shape.windows(2).all(|two| two[0].to < two[1].from));
        }
    }
}
