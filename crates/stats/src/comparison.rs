//! Two sets of runs compared: by how much, how surely, and could it be chance?
//!
//! One value a run: its median, its 99 % quantile. Samples *within* a run are correlated, and share what that run had
//! of placement and load; put to these questions one by one they find a difference between two equal programs in 73 to
//! 98 of 100 cases. So say how a run is summed up, interleave the runs of both sides, and give the values of the runs
//! here.
//!
//! Assumes: runs are independent, and the two sides differ by a shift if at all. Guarantees: shift and delta are exact;
//! the chance is exact up to [`EXACT_RUNS`] runs together, ties included.

use crate::normal::upper_tail;
use crate::pairs::{Pairs, select, successor};
use crate::sample::LIMIT_TICKS;
use crate::{Confidence, Error, Sample};

/// Up to as many runs on both sides together the chance is counted out, above them it is that of the normal
/// distribution.
pub const EXACT_RUNS: usize = 60;

/// Runs of two kinds; one value a run.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'a> {
    base: &'a Sample,
    other: &'a Sample,
}

/// Confidence interval of the shift, in ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShiftInterval {
    /// `None`: too few runs for a lower end.
    pub lo: Option<i64>,
    /// `None`: too few runs for an upper end.
    pub hi: Option<i64>,
}

/// Test whether two kinds of runs could be one and the same (Mann and Whitney 1947).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MannWhitney {
    /// Twice U: two for each pair of runs of which the other kind's value is greater, one for each equal pair.
    pub twice_u: u128,
    /// Pairs of a run of the one kind and one of the other.
    pub pairs: u128,
    /// The chance of a U as far or farther from its expectation, on either side, if the kinds were one.
    pub chance: f64,
    /// Whether the chance was counted out. Else: normal, its variance corrected for ties, with continuity correction.
    pub exact: bool,
}

impl<'a> Comparison<'a> {
    /// Tests the `other` runs against the `base`; refused where their values are as far apart as those of one sample
    /// may not be.
    pub fn new(base: &'a Sample, other: &'a Sample) -> Result<Self, Error> {
        let (least, most) = (base.least().min(other.least()), base.most().max(other.most()));
        if most.abs_diff(least) < LIMIT_TICKS { Ok(Self { base, other }) } else { Err(Error::Apart(least, most)) }
    }

    /// How much greater the other runs' values are: the median of all differences of pairs, in ticks (Hodges and
    /// Lehmann 1963). In O(n log n) with the sorting of the samples.
    pub fn shift(&self) -> f64 {
        let pairs = self.pairs();
        let low = select(self, pairs.div_ceil(2));
        let high = if pairs.is_multiple_of(2) { successor(self, low, pairs / 2) } else { low };
        (i128::from(low) + i128::from(high)) as f64 / 2.0
    }

    /// Confidence interval of that shift: the differences at the ranks that Mann and Whitney's U leaves out with half
    /// of the rest of the confidence on each side (Lehmann, Nonparametrics, 2.6). With ties it covers more.
    pub fn shift_interval(&self, confidence: Confidence) -> ShiftInterval {
        let rank = self.lowest_rank(confidence.tail());
        let at = |rank: u128| select(self, rank);
        ShiftInterval { lo: (rank > 0).then(|| at(rank)), hi: (rank > 0).then(|| at(self.pairs() + 1 - rank)) }
    }

    /// The share of pairs in which the other run's value is greater, less the share in which it is smaller: from -1 to
    /// 1 (Cliff 1993).
    pub fn cliffs_delta(&self) -> f64 {
        let (twice_u, pairs) = (self.twice_u() as i128, self.pairs() as i128);
        (twice_u - pairs) as f64 / pairs as f64
    }

    /// The test of Mann and Whitney, that is Wilcoxon's rank sum.
    pub fn mann_whitney(&self) -> MannWhitney {
        let exact = self.base.count() + self.other.count() <= EXACT_RUNS;
        let twice_u = self.twice_u();
        let far = twice_u.abs_diff(self.pairs());
        let chance = if exact { self.counted_chance(far) } else { self.normal_chance(far) };
        MannWhitney { twice_u, pairs: self.pairs(), chance, exact }
    }

    fn pairs(&self) -> u128 {
        self.base.count() as u128 * self.other.count() as u128
    }

    fn twice_u(&self) -> u128 {
        let below = |value: i64| self.base.values().partition_point(|&base| base < value);
        let up_to = |value: i64| self.base.count() - self.base.above(value);
        self.other.values().iter().map(|&value| (below(value) + up_to(value)) as u128).sum()
    }

    /// How many runs of both kinds share each value.
    fn ties(&self) -> Vec<usize> {
        let mut pooled = [self.base.values(), self.other.values()].concat();
        pooled.sort_unstable();
        pooled.chunk_by(|a, b| a == b).map(<[i64]>::len).collect()
    }

    fn counted_chance(&self, far: u128) -> f64 {
        let ways = ways(&self.ties(), self.other.count());
        let all: f64 = ways.iter().sum();
        let as_far = ways.iter().enumerate().filter(|&(twice_u, _)| (twice_u as u128).abs_diff(self.pairs()) >= far);
        as_far.map(|(_, ways)| ways).sum::<f64>() / all
    }

    fn normal_chance(&self, far: u128) -> f64 {
        let deviation = self.deviation(&self.ties());
        if deviation == 0.0 {
            return 1.0;
        }
        // Half of the doubled distance, less the half that U can't take.
        let z = (far as f64 / 2.0 - 0.5).max(0.0) / deviation;
        2.0 * upper_tail(z)
    }

    /// Standard deviation of U, if the kinds were one (Lehmann, 1.3, equation 1.35).
    fn deviation(&self, ties: &[usize]) -> f64 {
        let runs = (self.base.count() + self.other.count()) as f64;
        let tied: f64 = ties.iter().map(|&count| count as f64).map(|count| count * (count * count - 1.0)).sum();
        let pairs = self.pairs() as f64;
        (pairs / 12.0 * (runs + 1.0 - tied / (runs * (runs - 1.0)))).max(0.0).sqrt()
    }

    /// The highest rank below which U falls with at most this chance; 0: none.
    fn lowest_rank(&self, tail: f64) -> u128 {
        let runs = self.base.count() + self.other.count();
        if runs > EXACT_RUNS {
            let deviation = self.deviation(&[]);
            let chance =
                |rank: u128| upper_tail(((self.pairs() as f64 + 1.0) / 2.0 - rank as f64).max(0.0) / deviation);
            let (mut rank, mut beyond) = (0, self.pairs().div_ceil(2));
            while beyond - rank > 1 {
                let middle = u128::midpoint(rank, beyond);
                if chance(middle) <= tail { rank = middle } else { beyond = middle }
            }
            return rank;
        }
        // Without ties U is whole: every second of the doubled ones.
        let ways = ways(&vec![1; runs], self.other.count());
        let all: f64 = ways.iter().sum();
        let mut sum = 0.0;
        let fits = ways.iter().step_by(2).take_while(|&ways| {
            sum += ways;
            sum <= tail * all
        });
        fits.count() as u128
    }
}

impl Confidence {
    /// Returns whether so many runs of both kinds can have an interval of this confidence, however far apart they lie:
    /// of all ways to deal them to the two kinds one has to be rare enough.
    pub fn is_met_by_runs(self, base: usize, other: usize) -> bool {
        let fewer = base.min(other);
        let ways: f64 = (0..fewer).map(|k| (base + other - k) as f64 / (k + 1) as f64).product();
        fewer > 0 && ways.recip() <= self.tail()
    }
}

/// Differences, other less base: they grow along the other runs, and down the base runs.
impl Pairs for Comparison<'_> {
    type Value = i64;

    fn rows(&self) -> usize {
        self.other.count()
    }

    fn columns(&self) -> usize {
        self.base.count()
    }

    fn value(&self, row: usize, column: usize) -> i64 {
        self.other.values()[row] - self.base.values()[self.base.count() - 1 - column]
    }

    fn less(a: &i64, b: &i64) -> bool {
        a < b
    }
}

/// In how many ways `chosen` of the runs can be the other kind so that twice U is 0, 1, 2, ...: one group of equal
/// values after the other, lowest first. A run of the other kind is counted twice for each run of the base kind below
/// it, once for each equal one.
fn ways(ties: &[usize], chosen: usize) -> Vec<f64> {
    let runs: usize = ties.iter().sum();
    let most = 2 * chosen * (runs - chosen);
    // By how many are chosen so far, then by twice U.
    let mut ways = vec![vec![0.0; most + 1]; chosen + 1];
    ways[0][0] = 1.0;
    let mut before = 0;
    for &tied in ties {
        let mut next = vec![vec![0.0; most + 1]; chosen + 1];
        for (taken, by_u) in ways.iter().enumerate().filter(|&(taken, _)| taken <= before) {
            let base_below = before - taken;
            for take in 0..=tied.min(chosen - taken) {
                let gain = take * (2 * base_below + tied - take);
                let choices = choices(tied, take);
                for (twice_u, &ways) in by_u.iter().enumerate().filter(|&(_, &ways)| ways > 0.0) {
                    if let Some(next) = next[taken + take].get_mut(twice_u + gain) {
                        *next += ways * choices;
                    }
                }
            }
        }
        ways = next;
        before += tied;
    }
    ways.swap_remove(chosen)
}

/// Binomial coefficient.
fn choices(of: usize, take: usize) -> f64 {
    (0..take).map(|k| (of - k) as f64 / (k + 1) as f64).product()
}
