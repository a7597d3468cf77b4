//! Samples of ticks and what is asked of them: crate `stats`, its exact fractions as pairs of integers.

use std::num::NonZeroU64;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use tickscope_stats::{Abstention, Basis, Comparison, Confidence, Quantile, Removal, Rule, Threshold};

use crate::error::Refusal;

/// Values in ascending order.
#[pyclass(frozen, module = "tickscope._tickscope")]
pub(crate) struct Sample(tickscope_stats::Sample);

/// `lo, hi, coverage`: an end is `None` where the sample is too small for it.
type Interval = (Option<i64>, Option<i64>, f64);
/// `upper, lower, basis, until, shape, expected of clean values`.
type Told = (i64, Option<i64>, &'static str, Option<i64>, Option<f64>, Option<f64>);
/// Count, of how many, excess in ticks.
type Removed = (usize, usize, i128);
/// A threshold, what it removes and both in words; or why there is none and the name of a rule that has one.
type Judged = (Option<(Told, Removed, String)>, Option<(String, Option<String>)>);

#[pymethods]
impl Sample {
    #[new]
    fn new(py: Python<'_>, ticks: PyBuffer<i64>) -> PyResult<Self> {
        let ticks = ticks.to_vec(py)?;
        Ok(Self(py.detach(|| tickscope_stats::Sample::new(&ticks)).map_err(Refusal::from)?))
    }

    #[getter]
    fn count(&self) -> usize {
        self.0.count()
    }

    #[getter]
    fn least(&self) -> i64 {
        self.0.least()
    }

    #[getter]
    fn most(&self) -> i64 {
        self.0.most()
    }

    fn quantile(&self, per_million: u32) -> Result<i64, Refusal> {
        Ok(self.0.quantile(Quantile::per_million(per_million)?))
    }

    fn interval(&self, per_million: u32, confidence_per_million: u32) -> Result<Interval, Refusal> {
        let confidence = Confidence::per_million(confidence_per_million)?;
        let interval = self.0.interval(Quantile::per_million(per_million)?, confidence);
        Ok((interval.lo, interval.hi, interval.coverage))
    }

    /// Numerator and denominator.
    fn medcouple(&self, py: Python<'_>) -> (i128, i128) {
        let medcouple = py.detach(|| self.0.medcouple());
        (medcouple.numerator(), medcouple.denominator())
    }

    /// Mean, variance, skewness, kurtosis.
    fn moments(&self) -> (f64, f64, Option<f64>, Option<f64>) {
        let moments = self.0.moments();
        (moments.mean, moments.variance, moments.skewness, moments.kurtosis)
    }

    /// Location, scale, skewness, kurtosis.
    fn l_moments(&self) -> (f64, Option<f64>, Option<f64>, Option<f64>) {
        let moments = self.0.l_moments();
        (moments.location, moments.scale, moments.skewness, moments.kurtosis)
    }

    /// The threshold of the rule of that name, or why it has none; the step of the counter, 0: find it.
    fn threshold(&self, rule: &str, step: u64) -> Result<Judged, Refusal> {
        let known = || Rule::NAMED.map(|(name, _)| name).join(", ");
        let rule = Rule::named(rule).ok_or_else(|| {
            Refusal::new(format!("expected the name of a rule, found '{rule}'; there are {}", known()))
        })?;
        Ok(judged(rule.threshold(&self.0, NonZeroU64::new(step))))
    }

    /// The same of the rule q + c (q - Q0).
    fn threshold_by_distance(&self, per_million: u32, factor_thousandths: u32) -> Result<Judged, Refusal> {
        let rule = Rule::Distance { quantile: Quantile::per_million(per_million)?, factor_thousandths };
        Ok(judged(rule.threshold(&self.0, None)))
    }

    /// What a threshold of this value takes away.
    fn removal(&self, upper: i64) -> Removed {
        removed(self.0.removal(upper))
    }
}

fn removed(removal: Removal) -> Removed {
    (removal.count, removal.of, removal.excess_ticks)
}

fn judged(threshold: Result<Threshold, Abstention>) -> Judged {
    let threshold = match threshold {
        Err(abstention) => {
            return (None, Some((abstention.to_string(), abstention.instead.map(|rule| rule.to_string()))));
        }
        Ok(threshold) => threshold,
    };
    let (name, until, shape, expected) = match threshold.basis {
        Basis::Formula => ("formula", None, None, None),
        Basis::Gap { until } => ("gap", Some(until), None, None),
        Basis::Tail { shape, expected } => ("tail", None, Some(shape), Some(expected)),
    };
    let told = (threshold.upper, threshold.lower, name, until, shape, expected);
    (Some((told, removed(threshold.removal), threshold.to_string())), None)
}

/// Shift; its interval; Cliff's delta; twice U, pairs, chance, whether that is exact.
type Compared = (f64, (Option<i64>, Option<i64>), f64, (u128, u128, f64, bool));

/// Runs of two kinds, one value a run.
#[pyfunction]
pub(crate) fn compare(
    py: Python<'_>,
    base: &Sample,
    other: &Sample,
    confidence_per_million: u32,
) -> Result<Compared, Refusal> {
    let confidence = Confidence::per_million(confidence_per_million)?;
    let comparison = Comparison::new(&base.0, &other.0)?;
    Ok(py.detach(|| {
        let interval = comparison.shift_interval(confidence);
        let test = comparison.mann_whitney();
        let test = (test.twice_u, test.pairs, test.chance, test.exact);
        (comparison.shift(), (interval.lo, interval.hi), comparison.cliffs_delta(), test)
    }))
}

/// Of a series in order of time.
#[pyfunction]
pub(crate) fn autocorrelation(py: Python<'_>, series: PyBuffer<i64>, lag: usize) -> PyResult<Option<f64>> {
    let series = series.to_vec(py)?;
    Ok(py.detach(|| tickscope_stats::autocorrelation(&series, lag)))
}
