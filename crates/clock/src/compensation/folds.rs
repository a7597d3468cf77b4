//! The half that is fitted on, in stretches of time: how far what was fitted on one carries to the others.
//!
//! A constant is fitted on each fold and judged on every other one; methods that fit nothing are judged on each. So
//! what a method is chosen by is never what it was fitted on, and a cost that changes from one stretch of time to the
//! next shows.
//!
//! **Drift** is what is certain of a method's systematic error: by how much the median that it leaves in some fold is
//! off 0 at least, with 99 % for the median and for what was fitted. Few trials make nothing certain. Assumes for that
//! figure that trials are independent; those of a cost that changes slowly are not, and drift is what such a cost
//! shows.

use tickscope_stats::{Confidence, Error, Quantile, Sample};

use super::{Fit, Method, Trial};

/// So many: a load that comes and goes shows between some two of them, and each still holds an eighth of all trials.
const FOLDS: usize = 4;

/// Stretches of trials, each with what is known of the cost from it.
pub(super) struct Folds<'a>(Vec<(Fit, &'a [Trial])>);

/// Residual errors of a method in folds that it was not fitted on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossed {
    /// Mean of its absolute residual in the better 19 of 20 trials, over all folds.
    pub error: f64,
    /// Certain part of its systematic error, in the fold where that is most.
    pub drift: f64,
    /// Whether the method left less than doing nothing in every fold, and that is more than chance.
    pub gains: bool,
}

impl<'a> Folds<'a> {
    pub(super) fn of(trials: &'a [Trial]) -> Result<Self, Error> {
        let fold = |trials| Ok((Fit::of(trials)?, trials));
        Ok(Self(trials.chunks(trials.len().div_ceil(FOLDS).max(1)).map(fold).collect::<Result<_, Error>>()?))
    }

    /// `None`: no sampler ran.
    pub(super) fn crossed(&self, method: Method) -> Option<Crossed> {
        let crossings = self.crossings(method);
        let (mut errors, mut drift, mut gains) = (0.0, 0.0_f64, self.gains(method)?);
        for &(fit, trials) in &crossings {
            let ([with, _], [without, _]) = (fit.errors(method, trials)?, fit.errors(Method::None, trials)?);
            (errors, gains) = (errors + with, gains && with < without);
            drift = drift.max(drift_in(fit, method, trials)?);
        }
        Some(Crossed { error: errors / crossings.len() as f64, drift, gains })
    }

    /// Each fit with the trials that it is judged on.
    fn crossings(&self, method: Method) -> Vec<(&Fit, &'a [Trial])> {
        let fits = matches!(method, Method::Constant | Method::LongTerm) && self.0.len() > 1;
        let mut crossings = Vec::new();
        for (at, (fit, _)) in self.0.iter().enumerate() {
            let judged = self.0.iter().enumerate().filter(|&(on, _)| (on == at) != fits);
            crossings.extend(judged.map(|(_, &(_, trials))| (fit, trials)));
        }
        crossings
    }

    /// Whether the median trial, each judged by the fit of the fold after its own, is nearer the truth than without:
    /// with 99 %.
    fn gains(&self, method: Method) -> Option<bool> {
        let mut gained = Vec::new();
        for (at, &(_, trials)) in self.0.iter().enumerate() {
            let (fit, _) = &self.0[(at + 1) % self.0.len()];
            for trial in trials {
                let off = |method| Some(fit.residual_halves(method, trial)?.abs());
                gained.push(off(Method::None)? - off(method)?);
            }
        }
        let interval = Sample::new(&gained).ok()?.interval(Quantile::MEDIAN, Confidence::P99);
        Some(interval.lo.is_some_and(|lo| lo > 0))
    }
}

/// By how much the median residual is off 0 at least; 0 of few trials.
fn drift_in(fit: &Fit, method: Method, trials: &[Trial]) -> Option<f64> {
    let residuals = fit.residuals(method, trials.iter().copied())?;
    let interval = Sample::new(&residuals).ok()?.interval(Quantile::MEDIAN, Confidence::P99);
    // The constant is itself known from a sample only.
    let fitted = if method == Method::Constant { fit.median_between } else { Some([fit.median; 2]) };
    let (Some(lo), Some(hi), Some([least, most])) = (interval.lo, interval.hi, fitted) else { return Some(0.0) };
    let (lo, hi) = (lo - 2 * (most - fit.median), hi + 2 * (fit.median - least));
    Some(lo.max(-hi).max(0) as f64 / 2.0)
}
