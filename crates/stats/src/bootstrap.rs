//! Resampling of a series by blocks: what neighbours in time have in common stays together.
//!
//! Single values of a run are not independent: a detour slows all that pass in it. Blocks of the series that follow
//! one another are drawn with replacement instead (Künsch 1989, blocks that do not overlap), so an interval holds what
//! a block holds. Assumes: the series is in order of time, and what lies further apart than a block is independent.
//! Guarantees: the same count gives the same draws, on every machine. Deliberately absent: any statistic; it is made of
//! sums of blocks, weighted by how often each was drawn.

use crate::autocorrelation;
use crate::student::upper_t;

/// Fewest and most blocks of a series.
const BLOCKS: [usize; 2] = [8, 512];

/// Blocks whose sums go together are made longer, down to so many.
const FEWEST_LONG: usize = 20;

/// Blocks of one length, the last one shorter, and draws of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocks {
    /// Values in a block.
    pub length: usize,
    /// How many blocks there are.
    pub count: usize,
}

impl Blocks {
    /// Of a series of so many values: about as many blocks as a block has values, within limits.
    pub fn of(values: usize) -> Self {
        let wanted = values.isqrt().clamp(BLOCKS[0], BLOCKS[1]);
        let length = values.div_ceil(wanted).max(1);
        Self { length, count: values.div_ceil(length) }
    }

    /// Blocks so long that what `of` a value is summed up by one says little of the sum of the next: a detour that
    /// begins in one block and ends in the next would be counted as two.
    pub fn apart(values: usize, of: impl Fn(usize) -> i64) -> Self {
        let mut blocks = Self::of(values);
        while blocks.count >= 2 * FEWEST_LONG {
            let mut sums = vec![0_i64; blocks.count];
            (0..values).for_each(|at| sums[blocks.block(at)] = sums[blocks.block(at)].saturating_add(of(at)));
            sums.truncate(values / blocks.length); // of whole blocks
            let chance = 1.0 / (sums.len() as f64).sqrt();
            if autocorrelation(&sums, 1).is_none_or(|found| found <= chance.max(0.1)) {
                break;
            }
            let length = 2 * blocks.length;
            blocks = Self { length, count: values.div_ceil(length) };
        }
        blocks
    }

    /// The block that a value lies in.
    pub fn block(&self, position: usize) -> usize {
        position / self.length
    }

    /// Shows `each` how often every block was drawn, draw by draw.
    pub fn draws(&self, draws: usize, mut each: impl FnMut(&[f64])) {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ self.count as u64;
        let mut drawn = vec![0.0; self.count];
        for _ in 0..draws {
            drawn.fill(0.0);
            for _ in 0..self.count {
                drawn[below(&mut state, self.count)] += 1.0;
            }
            each(&drawn);
        }
    }
}

/// How many independent stretches of a series stand behind a figure, by how much of it each block holds: the size that
/// a sample of equal weights would have (Kish 1965). Nothing: infinitely many.
pub fn stretches(held: &[f64]) -> f64 {
    let power = |of: i32| held.iter().map(|weight| weight.powi(of)).sum::<f64>();
    let (sum, squares) = (power(1), power(2));
    if squares > 0.0 { sum * sum / squares } else { f64::INFINITY }
}

/// How much wider 95 of 100 draws of so many independent stretches are to be taken, since few say little of their own
/// spread: Student's t by the normal distribution's.
pub fn widening(stretches: f64) -> f64 {
    const OF_MANY: f64 = 1.959_964;
    if stretches.is_finite() { (upper_t((stretches - 1.0).max(1.0), 0.025) / OF_MANY).max(1.0) } else { 1.0 }
}

/// A number below `count`, each about as likely: the next of SplitMix64 (Steele et al. 2014), scaled.
fn below(state: &mut u64, count: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((u128::from(mixed ^ (mixed >> 31)) * count as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_one_block() {
        for values in [1, 2, 7, 8, 63, 64, 65, 1_000, 262_143, 10_000_000] {
            let blocks = Blocks::of(values);
            assert_eq!(blocks.block(values - 1) + 1, blocks.count, "{values}: {blocks:?}");
            assert!(blocks.count <= BLOCKS[1], "{values}: {blocks:?}");
        }
        assert_eq!(Blocks::of(0).count, 0);
        assert_eq!(Blocks::of(10_000), Blocks { length: 100, count: 100 });
    }

    #[test]
    fn blocks_are_longer_than_what_goes_together() {
        let mixed = |at: usize| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        assert_eq!(Blocks::apart(10_000, |at| i64::from(at % 100 == 0)), Blocks::of(10_000));
        // Detours of 300 values, that begin anywhere.
        let held = |at: usize| i64::from(mixed(at / 300) % 8 == 0);
        let blocks = Blocks::apart(40_000, held);
        assert!(blocks.length > 300 && blocks.count >= FEWEST_LONG, "{blocks:?}");
        assert_eq!(Blocks::apart(0, |_| 0).count, 0);
    }

    #[test]
    fn few_blocks_that_differ_are_few_stretches_and_widen_what_they_say() {
        assert_eq!(
            [&[0.0, 0.0, 3.0][..], &[3.0; 9], &[2.0, 1.0, 1.0], &[]].map(stretches),
            [1.0, 9.0, 16.0 / 6.0, f64::INFINITY]
        );
        // The printed tables: 12.706, 2.228 and 2.042 by 1.960.
        for (stretches, wider) in [(2.0, 6.483), (11.0, 1.137), (31.0, 1.042), (f64::INFINITY, 1.0), (0.2, 6.483)] {
            assert!((widening(stretches) - wider).abs() < 2e-3, "{stretches}: {}", widening(stretches));
        }
    }

    #[test]
    fn draws_are_of_all_blocks_and_the_same_again() {
        let blocks = Blocks { length: 5, count: 10 };
        let drawn = || {
            let mut all = Vec::new();
            blocks.draws(400, |drawn| all.push(drawn.to_vec()));
            all
        };
        let all = drawn();
        assert!(all.iter().all(|drawn| drawn.iter().sum::<f64>() == 10.0));
        assert_eq!(all, drawn());
        let variance = |block: usize| all.iter().map(|drawn| (drawn[block] - 1.0).powi(2)).sum::<f64>() / 400.0;
        let mean = |block: usize| all.iter().map(|drawn| drawn[block]).sum::<f64>() / 400.0;
        for block in 0..10 {
            assert!((mean(block) - 1.0).abs() < 0.25 && (variance(block) - 0.9).abs() < 0.3, "block {block}");
        }
        assert_ne!(all[0], all[1]);
    }
}
