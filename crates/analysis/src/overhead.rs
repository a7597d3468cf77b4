//! The overhead of measuring on the numbers that the target reports of itself: from pairs of passes, with an interval.
//!
//! Idea: each pair gives one difference. Whatever they are distributed like, their median lies between the r-th
//! smallest and the r-th largest of them unless fewer than r of the k fell on one side of it, which is a matter of k
//! coins (the interval that belongs to the sign test). Assumes: pairs do not influence each other. Guarantees: the
//! largest r whose chance of a miss is at most one in twenty; the true chance is reported, ties make it smaller.
//! Absent: any normal distribution.

use tickscope_store::{Compared, Passes};

/// With fewer no interval of this kind is 95 % sure: all five on one side happens once in sixteen.
pub const FEWEST_PAIRS: u32 = 6;
/// The chance that the interval may miss the median: one in so many.
const ONE_MISS_IN: f64 = 20.0;

/// A difference of what was measured to what was not.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Added {
    /// Median of the pairs' differences.
    pub median: f64,
    /// Where their true median lies, from here...
    pub lo: f64,
    /// ...to here,
    pub hi: f64,
    /// with at least this probability.
    pub confidence: f64,
    /// Median of the passes that were not measured.
    pub alone: f64,
}

/// Overhead of measuring; `None`: too few pairs for an interval.
pub fn added(compared: &Compared) -> Option<Added> {
    let mut differences: Vec<f64> = compared.pairs.iter().map(|Passes { measured, alone }| measured - alone).collect();
    let mut alone: Vec<f64> = compared.pairs.iter().map(|passes| passes.alone).collect();
    differences.sort_unstable_by(f64::total_cmp);
    alone.sort_unstable_by(f64::total_cmp);
    let (rank, confidence) = rank_of(differences.len())?;
    let (lo, hi) = (differences[rank - 1], differences[differences.len() - rank]);
    Some(Added { median: middle(&differences), lo, hi, confidence, alone: middle(&alone) })
}

/// The largest rank from either end, counting from 1, whose interval is sure enough, and how sure that is.
fn rank_of(pairs: usize) -> Option<(usize, f64)> {
    // The chance that at most so many of the coins show heads, doubled for both sides.
    let mut exactly = 0.5_f64.powi(i32::try_from(pairs).ok()?);
    let (mut miss, mut found) = (0.0, None);
    for rank in 1..=pairs / 2 {
        miss += 2.0 * exactly;
        if miss > 1.0 / ONE_MISS_IN {
            break;
        }
        found = Some((rank, 1.0 - miss));
        exactly *= (pairs - rank + 1) as f64 / rank as f64;
    }
    found
}

fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickscope_tick::NodeName;

    fn of(pairs: &[(f64, f64)]) -> Option<Added> {
        let pairs = pairs.iter().map(|&(measured, alone)| Passes { measured, alone }).collect();
        added(&Compared { node: NodeName::new("n").unwrap(), field: "x_ns".into(), pairs })
    }

    /// Ranks and confidences as tables of the sign test have them.
    #[test]
    fn ranks_are_those_of_the_sign_tests_tables() {
        assert_eq!(rank_of(FEWEST_PAIRS as usize - 1), None);
        for (pairs, rank, percent) in [(6, 1, 96.88), (8, 1, 99.22), (9, 2, 96.09), (10, 2, 97.85), (20, 6, 95.86)] {
            let (found, confidence) = rank_of(pairs).unwrap();
            assert_eq!((found, (confidence * 1e4).round() / 100.0), (rank, percent), "{pairs} pairs");
        }
    }

    #[test]
    fn one_wild_pair_of_ten_moves_neither_end() {
        let mut pairs: Vec<(f64, f64)> = (0..10).map(|at| (1000.0 + f64::from(at), 900.0)).collect();
        let before = of(&pairs).unwrap();
        assert_eq!((before.median, before.lo, before.hi, before.alone), (104.5, 101.0, 108.0, 900.0));
        pairs[9] = (1e9, 900.0);
        assert_eq!(of(&pairs).unwrap(), before);
    }

    /// Against chance itself: fair coins, counted one by one.
    #[test]
    fn an_interval_misses_the_median_as_seldom_as_it_says() {
        const PAIRS: u32 = 9;
        let misses = (0..1_u32 << PAIRS).filter(|coins| {
            let pairs: Vec<(f64, f64)> =
                (0..PAIRS).map(|at| if coins >> at & 1 == 1 { (1.0, 0.0) } else { (0.0, 1.0) }).collect();
            let added = of(&pairs).unwrap(); // the true median is 0: half of all differences lie on each side
            added.lo > 0.0 || added.hi < 0.0
        });
        let reported = 1.0 - of(&[(0.0, 1.0); PAIRS as usize]).unwrap().confidence;
        assert_eq!(misses.count() as f64 / f64::from(1_u32 << PAIRS), reported);
    }
}
