//! A policy of one's own: stamps are kept while a point is passed slowly. As `fir.c` says, in Rust.

use std::cell::Cell;

use tickscope_stamp::{Channel, Fields, OpenError, Ordering};

const WEIGHTS: [i64; 4] = [1, 3, 3, 1];
const STAMPS: i64 = 10_000;
const USUAL: i64 = 1000;
const SLOW: i64 = 10_000;

/// Returns a filter that is asked with each stamp's tick: whether it comes slowly.
fn is_slow(limit: i64) -> impl Fn(i64, i64) -> bool {
    // Cells, since a signal handler may stamp while it is being asked: it then takes part in the same sums.
    let intervals: [Cell<i64>; 4] = Default::default();
    let (last, count) = (Cell::new(0), Cell::new(0_usize));
    move |_id, tick| {
        let at = count.get();
        intervals[at % WEIGHTS.len()].set(tick - last.replace(tick));
        count.set(at + 1);
        let tap = |tap: usize| intervals[(at + WEIGHTS.len() - tap) % WEIGHTS.len()].get();
        let sum: i64 = WEIGHTS.iter().enumerate().map(|(number, weight)| weight.saturating_mul(tap(number))).sum();
        at >= WEIGHTS.len() && sum > limit // the first interval has no beginning
    }
}

/// Stamps a stream that is slow now and then, with ticks that are made up.
pub fn main() -> Result<(), OpenError> {
    let passed = Channel::open("passed", Ordering::Plain, Fields::Slim)?;
    passed.choose(is_slow(8 * 4 * USUAL)); // weights sum to 8: four times the usual interval
    let mut tick = 1_000_000;
    for id in 0..STAMPS {
        tick += if (500..516).contains(&(id % 1000)) { SLOW } else { USUAL };
        passed.record(id, tick);
    }
    Ok(())
}
