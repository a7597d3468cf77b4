//! How values are spread: shares in bins of equal width, so that curves of several sets enclose the same area.

use serde::Serialize;
use tickscope_stats::{Quantile, Sample};

/// Bins at most.
const BINS_MAX: i64 = 60;
/// Bins reach so far beyond the middle 80 % of the values, of what these span; values farther out are counted, not
/// drawn.
const BEYOND: i64 = 2;

/// Bins of equal width, in whole units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bins {
    from: i64,
    width: i64,
    count: usize,
}

/// Values counted in bins.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Density {
    /// Where the first bin begins.
    pub from: f64,
    /// How wide each is.
    pub width: f64,
    /// Values in each.
    pub counts: Vec<usize>,
    /// Values below the first.
    pub below: usize,
    /// Values above the last.
    pub above: usize,
}

impl Bins {
    /// Around the middle 80 % of each of several sets, none narrower than `width_min`; `None` of no values.
    pub fn around(sets: &[&Sample], width_min: i64) -> Option<Self> {
        let at = |share| Quantile::per_million(share).expect("a share of a million");
        let (low, high) = (at(100_000), at(900_000));
        let reach = |set: &Sample| {
            let (low, high) = (set.quantile(low), set.quantile(high));
            let beyond = BEYOND * (high - low).max(width_min);
            (set.least().max(low - beyond), set.most().min(high + beyond))
        };
        let from = sets.iter().map(|set| reach(set).0).min()?;
        let to = sets.iter().map(|set| reach(set).1).max()?;
        let width = ((to - from) / BINS_MAX + 1).max(width_min).max(1);
        Some(Self { from, width, count: ((to - from) / width + 1) as usize })
    }

    /// Counts the values of `set` in each bin.
    pub fn density(self, set: &Sample) -> Density {
        let below = |limit: i64| set.values().partition_point(|&value| value < limit);
        let limit = |bin: usize| self.from + bin as i64 * self.width;
        let counts = (0..self.count).map(|bin| below(limit(bin + 1)) - below(limit(bin))).collect();
        Density {
            from: self.from as f64,
            width: self.width as f64,
            counts,
            below: below(self.from),
            above: set.count() - below(limit(self.count)),
        }
    }
}

impl Density {
    /// In another unit.
    pub fn scaled(self, by: f64) -> Self {
        Self { from: self.from * by, width: self.width * by, ..self }
    }

    /// All values, drawn or not.
    pub fn values(&self) -> usize {
        self.counts.iter().sum::<usize>() + self.below + self.above
    }

    /// The middle of each bin and the share of all values per unit: the area below is the share that lies in the bins.
    pub fn points(&self) -> Vec<[f64; 2]> {
        let all = self.values().max(1) as f64;
        let middle = |bin: usize| self.from + (bin as f64 + 0.5) * self.width;
        self.counts.iter().enumerate().map(|(bin, &count)| [middle(bin), count as f64 / all / self.width]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn property_every_value_is_counted_once_and_the_area_is_the_share_in_the_bins(
            values in prop::collection::vec(-5_000_i64..5_000, 1..400), width_min in 1_i64..40
        ) {
            let sample = Sample::new(&values).unwrap();
            let density = Bins::around(&[&sample], width_min).unwrap().density(&sample);
            prop_assert_eq!(density.values(), values.len());
            prop_assert!(density.width >= width_min as f64 && density.counts.len() <= 60);
            let area: f64 = density.points().iter().map(|[_, share]| share * density.width).sum();
            let drawn = (values.len() - density.below - density.above) as f64 / values.len() as f64;
            prop_assert!((area - drawn).abs() < 1e-9);
            for (bin, &count) in density.counts.iter().enumerate() {
                let from = density.from + bin as f64 * density.width;
                let within = values.iter().filter(|&&value| (from..from + density.width).contains(&(value as f64)));
                prop_assert_eq!(count, within.count());
            }
            prop_assert!(density.below * 10 <= values.len() && density.above * 10 <= values.len());
        }
    }
}
