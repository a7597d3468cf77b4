//! How much a value tells of the one after it: why samples of a run are not as many as they look.

use crate::moments::deviations;

/// The autocorrelation of a series in order of time, `lag` values apart: `sum (x[t] - m)(x[t + lag] - m) / sum (x[t] -
/// m)^2` (Box and Jenkins 1976, 2.1.5; R's `acf`). One mean and one variance for all lags, so that it stays within -1
/// and 1.
///
/// `None` where no two values are that far apart, or all are equal.
///
/// ```
/// assert_eq!(tickscope_stats::autocorrelation(&[1, 3, 1, 3, 1, 3], 1), Some(-5.0 / 6.0));
/// ```
pub fn autocorrelation(series: &[i64], lag: usize) -> Option<f64> {
    let deviations: Vec<f64> = deviations(series).collect();
    let variance: f64 = deviations.iter().map(|d| d * d).sum();
    let products = deviations.iter().zip(deviations.get(lag..)?).map(|(a, b)| a * b);
    (lag < series.len() && variance > 0.0).then(|| products.sum::<f64>() / variance)
}
