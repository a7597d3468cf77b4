//! The standard normal distribution's upper tail.

use std::f64::consts::TAU;

/// The chance of a value above `z`, for z of at least 0; relative error below 1e-12.
pub(crate) fn upper_tail(z: f64) -> f64 {
    let density = (-z * z / 2.0).exp() / TAU.sqrt();
    if z < SERIES_UNTIL { 0.5 - density * series(z) } else { density / fraction(z) }
}

/// The series loses digits where the tail is small, the continued fraction converges slowly where it is large.
const SERIES_UNTIL: f64 = 2.0;

/// `z + z^3/3 + z^5/(3 5) + ...` (Abramowitz and Stegun 26.2.11).
fn series(z: f64) -> f64 {
    let (mut term, mut sum, mut odd) = (z, z, 1.0);
    while term > sum * f64::EPSILON {
        odd += 2.0;
        term *= z * z / odd;
        sum += term;
    }
    sum
}

/// `z + 1/(z + 2/(z + 3/(z + ...)))` (26.2.14), from the inside.
fn fraction(z: f64) -> f64 {
    (1..=DEPTH).rev().fold(z, |inner, k| z + f64::from(k) / inner)
}

/// Enough for 1e-13 from `SERIES_UNTIL` on.
const DEPTH: u32 = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_tail_is_rs_pnorm() {
        // pnorm(z, lower.tail = FALSE), R 4.2.2.
        for (z, expected) in [
            (0.0, 0.5),
            (0.001, 0.49960105778608893),
            (0.1, 0.460172162722971),
            (0.5, 0.30853753872598694),
            (1.0, 0.15865525393145705),
            (1.5, 0.06680720126885807),
            (1.9999, 0.022755531584767175),
            (2.0, 0.022750131948179212),
            (2.0001, 0.022744733391410556),
            (2.5, 0.006209665325776135),
            (3.0, 0.0013498980316300946),
            (4.0, 3.1671241833119924e-05),
            (5.5, 1.898956246588772e-08),
            (8.0, 6.220960574271785e-16),
            (12.0, 1.776482112077679e-33),
            (20.0, 2.7536241186062337e-89),
        ] {
            let found = upper_tail(z);
            assert!((found / expected - 1.0).abs() < 1e-12, "at {z}: expected {expected:e}, found {found:e}");
        }
    }
}
