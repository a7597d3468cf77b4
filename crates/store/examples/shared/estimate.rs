//! How many bits a column of stamps holds information for.
//!
//! The estimator: of a column's first and second differences (in the order stored), the entropy of a piecewise uniform
//! density over log-linear classes, 8 an octave and sign: H(class) plus the mean of log2(width of class); the smaller
//! of the two. It knows no model beyond that (no dependence between neighbours or between points), so a cleverer code
//! could go lower; one that treats differences as independent cannot, but for what the classes smooth over.

use std::collections::HashMap;

/// Classes an octave, as bits.
const FINENESS: u32 = 3;

/// Bits a row that a column's differences hold.
pub fn bits(column: &[i64]) -> f64 {
    let first = differences(column);
    entropy(&first).min(entropy(&differences(&first)))
}

fn differences(column: &[i64]) -> Vec<i64> {
    column.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect()
}

/// Differences are taken from their median, which is told once: a constant step costs nothing.
fn entropy(values: &[i64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let median = sorted[sorted.len() / 2];
    let mut classes: HashMap<(bool, u64), (u64, u32)> = HashMap::new();
    for value in values {
        let distance = value.abs_diff(median);
        let width_bits = distance.checked_ilog2().unwrap_or(0).saturating_sub(FINENESS);
        let class = (value < &median, distance >> width_bits << width_bits);
        classes.entry(class).or_insert((0, width_bits)).0 += 1;
    }
    let count = values.len() as f64;
    let share = |of: u64| of as f64 / count;
    classes.values().map(|&(of, width_bits)| share(of) * (f64::from(width_bits) - share(of).log2())).sum()
}
