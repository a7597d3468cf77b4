//! Methods that subtract the cost of a reading from a measured section, tested on this host.
//!
//! A section is measured from one reading to the next, so what is measured is too long by about a reading. The Cm*
//! study (4.2) subtracts an estimate of that: one for all sections, or one from pairs of readings taken near this one.
//! The names are the paper's: `T_1` and `T_4` are pairs before and after, `T_m` is what was measured, `T_A` what is
//! left.
//!
//! **The test** ([`judge`]) measures sections whose length is known, nothing at first. What was fitted on one half of
//! the trials is judged on the other: the residual `T_A - truth`, and the improvement `k = Var(T_m) / Var(T_A)`, with
//! the k that the memory of the readings' cost predicts. No method can be proven right: it is right for the load it was
//! tested under. Each k is the median of what stretches of the judged half give, with what that lies between; once over
//! all trials, and once over those that nothing interrupted.
//!
//! **The choice** is made on the half that was fitted on, by its folds (`folds`): a method must leave less than doing
//! nothing in every one of them. A systematic error comes before the spread, because repeating a measurement averages
//! the one away and not the other: what drifts for certain is refused where another method does not. Among the rest the
//! simplest is taken, unless another leaves notably less. Method I also needs its condition, that it lowers the
//! variance, unless the constant was refused.
//!
//! **Memory** is of costs held at their 0.5 and 99.5 % quantiles, because one preemption outweighs all other variance.
//! Values are the clock's own units throughout; residuals are kept in halves of one, since `T_1 + T_4` is halved.
//!
//! Deliberately absent: a bound. All of this is an estimate; what is guaranteed about a section does not rest on it.

use std::fmt;

use serde::Serialize;
use tickscope_stats::{Confidence, Error, Quantile, Sample, autocorrelation};

use crate::density::{Bins, Density};
use crate::factor::{Factor, stretches};
use folds::{Crossed, Folds};

pub use detour::touched;

mod detour;
mod folds;

/// How the cost of reading is estimated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Not at all.
    #[default]
    None,
    /// The median of all pairs: what interruptions do not move.
    Constant,
    /// Their mean, as published: it holds the interruptions, which most sections are spared.
    LongTerm,
    /// Method I: the mean of the pair just before and the pair just after.
    #[serde(rename = "method-1")]
    NearestPairs,
    /// Method II: pairs near the start and near the end, sampled all the time by another thread.
    #[serde(rename = "method-2")]
    Sampler,
}

/// A section of known length, measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trial {
    /// From one reading to the next, just before the section.
    pub t_1: i64,
    /// From the reading before the section to the one after.
    pub t_m: i64,
    /// From one reading to the next, just after.
    pub t_4: i64,
    /// How long the section really was.
    pub truth: i64,
    /// The sampler's pairs near the start and near the end, where one ran.
    pub sampled: Option<[i64; 2]>,
    /// Whether something interrupted the section, by [`touched`].
    pub touched: bool,
}

/// How long the sections are, against how fast the load changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// Nothing: the readings before and after are neighbours.
    Zero,
    /// Longer than the load remembers: only the readings of a pair are neighbours.
    Long,
}

/// How much a reading's cost tells of the next one's, and of the one after that, clipped.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Memory {
    /// Correlation with the next.
    pub rho_1: f64,
    /// Correlation with the one after.
    pub rho_2: f64,
}

/// Residual errors of a method on the half of the trials that it was not fitted on, in the clock's units.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Outcome {
    /// The method.
    pub method: Method,
    /// Value subtracted: the same from all sections, or the median of all.
    pub subtracts: f64,
    /// Median of `T_A - truth`; positive: the section seems too long.
    pub residual_median: f64,
    /// 95 % confidence interval of that median, if trials are independent, which neighbours are not quite; `None`: too
    /// few of them.
    pub residual_interval: Option<[f64; 2]>,
    /// Its mean, interruptions and all.
    pub residual_mean: f64,
    /// Mean of its absolute value in the better 19 of 20 trials.
    pub error: f64,
    /// Its absolute value is no more in 19 of 20 trials.
    pub error_p95: f64,
    /// `error` on the half that it was fitted on, each fold judged by what was fitted on the others: what a method is
    /// chosen by.
    pub error_fitted: f64,
    /// Certain part of its systematic error there, in the fold where that is most.
    pub drift_fitted: f64,
    /// Whether the method left less than doing nothing in every fold there, and that is more than chance.
    pub gains_fitted: bool,
    /// Improvement of the variance in stretches of time; `None` where `T_A` or `T_m` does not vary.
    pub k: Option<Factor>,
    /// The same without the trials that something interrupted.
    pub k_untouched: Option<Factor>,
    /// How `T_m - truth` was spread, in the same trials ...
    pub before: Option<Density>,
    /// ... and what was left of it.
    pub after: Option<Density>,
}

/// Result of the test.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// Residual errors of each method that could be tried; doing nothing is the first.
    pub outcomes: Vec<Outcome>,
    /// The method to use here.
    pub chosen: Method,
    /// The memory of the reading's cost, on the half that the method was fitted on; `None` where the cost did not vary.
    pub memory: Option<Memory>,
    /// Its correlation with the next in stretches of time.
    pub rho_1: Option<Factor>,
    /// The k of Method I that the memory in each stretch predicts.
    pub k_stretches: Option<Factor>,
    /// Trials of the judged half that something interrupted.
    pub touched: usize,
    /// How long the sections were.
    pub length: Length,
}

impl Method {
    /// All of them, the simpler first.
    pub const ALL: [Self; 5] = [Self::None, Self::Constant, Self::LongTerm, Self::NearestPairs, Self::Sampler];
}

impl Memory {
    /// Memory of costs in order of time, clipped.
    pub fn of(costs: &[i64]) -> Option<Self> {
        Some(Self { rho_1: Self::at(costs, 1)?, rho_2: Self::at(costs, 2)? })
    }

    /// The correlation of costs in order of time with those `lag` later, clipped.
    pub fn at(costs: &[i64], lag: usize) -> Option<f64> {
        let clip = Clip::of(costs).ok()?;
        let clipped: Vec<i64> = costs.iter().map(|&cost| clip.hold(cost)).collect();
        autocorrelation(&clipped, lag)
    }

    /// The k of Method I: of equation 5 for sections of no length, of equation 4 with each section longer than the
    /// memory.
    ///
    /// ```
    /// use tickscope_clock::compensation::{Length, Memory};
    /// let none = Memory { rho_1: 0.0, rho_2: 0.0 };
    /// assert_eq!(none.predicted_k(Length::Zero), 2.0 / 3.0);
    /// assert_eq!(none.predicted_k(Length::Long), 0.5);
    /// ```
    pub fn predicted_k(self, length: Length) -> f64 {
        let left = match length {
            Length::Zero => 1.5 + self.rho_2 / 2.0 - 2.0 * self.rho_1,
            Length::Long => 2.0 * (1.0 - self.rho_1),
        };
        // A correlation estimated from few values may be impossible by a little: then nothing at all would be left.
        if left > 0.0 { 1.0 / left } else { f64::INFINITY }
    }
}

/// Fits every method on one half of the trials and judges it on the other; `costs` are readings' costs in order of
/// time, from the time of the half that is fitted on.
pub fn judge(halves: Halves<'_>, costs: &[i64], length: Length) -> Result<Verdict, Error> {
    let fit = Fit::of(halves.fitted_on)?;
    let folds = Folds::of(halves.fitted_on)?;
    let mut outcomes = Vec::new();
    for method in Method::ALL {
        if let Some(crossed) = folds.crossed(method) {
            outcomes.extend(fit.outcome(method, crossed, halves.judged_on)?);
        }
    }
    let memories: Vec<Option<Memory>> = stretches(costs).map(Memory::of).collect();
    let each = |of: &dyn Fn(Memory) -> f64| Factor::of(memories.iter().map(|memory| memory.map(of)));
    let verdict = Verdict {
        outcomes,
        chosen: Method::None,
        memory: Memory::of(costs),
        rho_1: each(&|memory| memory.rho_1),
        k_stretches: each(&|memory| memory.predicted_k(length)),
        touched: halves.judged_on.iter().filter(|trial| trial.touched).count(),
        length,
    };
    Ok(Verdict { chosen: verdict.best().method, ..verdict })
}

impl Verdict {
    /// Adds Method II, as it did in a test with a sampler. It is used where it was the best there, and left less than
    /// the best does without a sampler: the two tests had not the same moments.
    pub fn with_sampler(mut self, sampled: &Self) -> Self {
        self.outcomes.extend(sampled.outcomes.iter().filter(|outcome| outcome.method == Method::Sampler).cloned());
        if sampled.chosen == Method::Sampler && self.best().method == Method::Sampler {
            self.chosen = Method::Sampler;
        }
        self
    }

    /// The same with one unit of the clock as `ns` nanoseconds.
    pub fn in_nanoseconds(mut self, ns: f64) -> Self {
        for outcome in &mut self.outcomes {
            let Outcome { subtracts, residual_median, residual_mean, error, error_p95, .. } = outcome;
            let values = [subtracts, residual_median, residual_mean, error, error_p95];
            let fitted = [&mut outcome.error_fitted, &mut outcome.drift_fitted];
            let between = outcome.residual_interval.iter_mut().flatten();
            values.into_iter().chain(fitted).chain(between).for_each(|value| *value *= ns);
            for density in [&mut outcome.before, &mut outcome.after] {
                *density = density.take().map(|density| density.scaled(ns));
            }
        }
        self
    }

    /// Residual errors of that method; `None`: it could not be tried.
    pub fn outcome(&self, method: Method) -> Option<&Outcome> {
        self.outcomes.iter().find(|outcome| outcome.method == method)
    }

    /// The k of Method I that the memory of the reading's cost predicts.
    pub fn k_predicted(&self) -> Option<f64> {
        self.memory.map(|memory| memory.predicted_k(self.length))
    }

    /// Whether the chosen method left no more than doing nothing, on the half that it was not chosen on.
    pub fn no_worse_than_none(&self) -> bool {
        let error = |method| self.outcome(method).map_or(f64::INFINITY, |outcome| outcome.error);
        error(self.chosen) <= error(Method::None)
    }

    /// Reason for the chosen method, errors in `unit`.
    pub fn why(&self, unit: &str) -> String {
        let error = |method| self.outcome(method).map_or(f64::NAN, |outcome| outcome.error_fitted);
        let (with, without) = (error(self.chosen), error(Method::None));
        let chosen = match self.chosen {
            Method::None => format!(
                "nothing subtracted leaves {without:.1} {unit}, and no method leaves notably less in every stretch of \
                 the trials"
            ),
            method => format!("{method} leaves {with:.1} {unit} where nothing subtracted leaves {without:.1}"),
        };
        [Some(chosen), self.drifted(unit), Some(self.condition())].into_iter().flatten().collect::<Vec<_>>().join("; ")
    }

    /// Where the simple constant was passed over for what it left.
    fn drifted(&self, unit: &str) -> Option<String> {
        let (chosen, constant) = (self.outcome(self.chosen)?, self.outcome(Method::Constant)?);
        (self.chosen != Method::None && constant.drift_fitted > chosen.drift_fitted).then(|| {
            format!(
                "a constant fitted in one stretch of the trials is off by {:.1} {unit} and more in another",
                constant.drift_fitted
            )
        })
    }

    /// The simplest of those admitted, unless another one leaves less by a tenth and by one unit: by chance alone one
    /// of five always leaves a little less.
    fn best(&self) -> Outcome {
        // Units that a method may be off for certain: readings are cut off to whole ones. A constant less, in halves of
        // one: if it is off by a unit from one stretch to another it will be by more, as time goes on.
        let tolerated = |method| if method == Method::Constant { 0.5 } else { 1.0 };
        let gains = |outcome: &&Outcome| outcome.method == Method::None || outcome.gains_fitted;
        let gaining = || self.outcomes.iter().filter(gains);
        // The mean is known less well than the median of the same pairs, and carries no further.
        let of_its_own = gaining().filter(|outcome| outcome.method != Method::LongTerm);
        let least = of_its_own.map(|outcome| outcome.drift_fitted).fold(f64::INFINITY, f64::min);
        let steady = |outcome: &&Outcome| outcome.drift_fitted <= least.max(tolerated(outcome.method));
        let constant_will_do = gaining().filter(steady).any(|outcome| outcome.method == Method::Constant);
        let pairs_will_do = self.pairs_promise() || !constant_will_do;
        let admitted = gaining().filter(steady).filter(|outcome| match outcome.method {
            Method::LongTerm => constant_will_do,
            Method::NearestPairs => pairs_will_do,
            _ => true,
        });
        let less =
            |next: &Outcome, best: &Outcome| next.error_fitted < (0.9 * best.error_fitted).min(best.error_fitted - 1.0);
        let best = admitted.cloned().reduce(|best, next| if less(&next, &best) { next } else { best });
        best.expect("the steadiest is admitted")
    }

    /// The condition of Method I: it lowers the variance.
    fn pairs_promise(&self) -> bool {
        self.k_predicted().is_some_and(|k| k > 1.0)
    }

    fn condition(&self) -> String {
        let Some(Memory { rho_1, rho_2 }) = self.memory else {
            return "the cost of a reading does not vary".into();
        };
        let needed = match self.length {
            Length::Zero => (1.0 + rho_2) / 4.0,
            Length::Long => 0.5,
        };
        let holds = if self.pairs_promise() { "holds" } else { "does not hold" };
        format!("Method I needs rho_1 > {needed:.2}, found {rho_1:.2}: {holds}")
    }
}

/// The two halves of a test's trials.
#[derive(Clone, Copy, Debug)]
pub struct Halves<'a> {
    /// Trials that constants are fitted on and the method is chosen on.
    pub fitted_on: &'a [Trial],
    /// Trials that the method is judged on.
    pub judged_on: &'a [Trial],
}

impl<'a> Halves<'a> {
    /// The earlier and the later half.
    pub fn of(trials: &'a [Trial]) -> Self {
        let (fitted_on, judged_on) = trials.split_at(trials.len() / 2);
        Self { fitted_on, judged_on }
    }
}

/// Bounds that costs are held at before their memory is taken.
#[derive(Clone, Copy, Debug)]
struct Clip {
    lo: i64,
    hi: i64,
}

impl Clip {
    fn of(values: &[i64]) -> Result<Self, Error> {
        const CUT_PER_MILLION: u32 = 5_000;
        let sample = Sample::new(values)?;
        let at = |share| Quantile::per_million(share).map(|quantile| sample.quantile(quantile));
        Ok(Self { lo: at(CUT_PER_MILLION)?, hi: at(1_000_000 - CUT_PER_MILLION)? })
    }

    fn hold(self, value: i64) -> i64 {
        value.max(self.lo).min(self.hi)
    }
}

/// Cost of a reading, fitted on one half.
struct Fit {
    median: i64,
    /// 99 % confidence interval of the median; `None`: too few pairs.
    median_between: Option<[i64; 2]>,
    mean: f64,
}

impl Fit {
    fn of(trials: &[Trial]) -> Result<Self, Error> {
        let pairs: Vec<i64> = trials.iter().flat_map(|trial| [trial.t_1, trial.t_4]).collect();
        let sample = Sample::new(&pairs)?;
        let between = sample.interval(Quantile::MEDIAN, Confidence::P99);
        Ok(Self {
            median: sample.quantile(Quantile::MEDIAN),
            median_between: between.lo.zip(between.hi).map(|(lo, hi)| [lo, hi]),
            mean: sample.moments().mean,
        })
    }

    /// Twice what is subtracted; `None`: no sampler ran.
    fn cost_halves(&self, method: Method, trial: &Trial) -> Option<i64> {
        Some(match method {
            Method::None => 0,
            Method::Constant => 2 * self.median,
            Method::LongTerm => (2.0 * self.mean).round() as i64,
            Method::NearestPairs => trial.t_1 + trial.t_4,
            Method::Sampler => trial.sampled?.iter().sum(),
        })
    }

    /// `2 (T_A - truth)`; `None`: no sampler ran.
    fn residual_halves(&self, method: Method, trial: &Trial) -> Option<i64> {
        Some(2 * (trial.t_m - trial.truth) - self.cost_halves(method, trial)?)
    }

    fn residuals(&self, method: Method, trials: impl Iterator<Item = Trial>) -> Option<Vec<i64>> {
        trials.map(|trial| self.residual_halves(method, &trial)).collect()
    }

    /// In the better 19 of 20, on average and at most: what interrupts the others is not the clock's, and no method can
    /// know of it.
    fn errors(&self, method: Method, trials: &[Trial]) -> Option<[f64; 2]> {
        let mut off = self.residuals(method, trials.iter().copied())?;
        off.iter_mut().for_each(|halves| *halves = halves.abs());
        let count = Quantile::P95.rank(off.len())?;
        let most = *off.select_nth_unstable(count - 1).1;
        let sum: f64 = off[..count].iter().map(|&halves| halves as f64).sum();
        Some([sum / 2.0 / count as f64, most as f64 / 2.0])
    }

    fn outcome(&self, method: Method, crossed: Crossed, judged_on: &[Trial]) -> Result<Option<Outcome>, Error> {
        let Some([error, error_p95]) = self.errors(method, judged_on) else { return Ok(None) };
        let Some(residuals) = self.residuals(method, judged_on.iter().copied()) else { return Ok(None) };
        let Some(costs) = judged_on.iter().map(|trial| self.cost_halves(method, trial)).collect::<Option<Vec<i64>>>()
        else {
            return Ok(None);
        };
        let residuals = Sample::new(&residuals)?;
        let between = residuals.interval(Quantile::MEDIAN, Confidence::P95);
        let uncorrected = judged_on.iter().map(|trial| 2 * (trial.t_m - trial.truth)).collect::<Vec<i64>>();
        let uncorrected = Sample::new(&uncorrected)?;
        let bins = Bins::around(&[&uncorrected, &residuals], 2);
        let density = |of: &Sample| bins.map(|bins| bins.density(of).scaled(0.5));
        Ok(Some(Outcome {
            method,
            subtracts: Sample::new(&costs)?.quantile(Quantile::MEDIAN) as f64 / 2.0,
            residual_median: residuals.quantile(Quantile::MEDIAN) as f64 / 2.0,
            residual_interval: between.lo.zip(between.hi).map(|(lo, hi)| [lo as f64 / 2.0, hi as f64 / 2.0]),
            residual_mean: residuals.moments().mean / 2.0,
            error,
            error_p95,
            error_fitted: crossed.error,
            drift_fitted: crossed.drift,
            gains_fitted: crossed.gains,
            k: self.factor(method, judged_on, |_| true),
            k_untouched: self.factor(method, judged_on, |trial| !trial.touched),
            before: density(&uncorrected),
            after: density(&residuals),
        }))
    }

    /// The improvement by stretches of those trials that are `counts`.
    fn factor(&self, method: Method, trials: &[Trial], counts: impl Fn(&Trial) -> bool) -> Option<Factor> {
        let of = |stretch: &[Trial]| self.improvement(method, stretch.iter().filter(|trial| counts(trial)).copied());
        Factor::of(stretches(trials).map(of))
    }

    fn improvement(&self, method: Method, trials: impl Iterator<Item = Trial> + Clone) -> Option<f64> {
        let variance = |method| Some(Sample::new(&self.residuals(method, trials.clone())?).ok()?.moments().variance);
        let (before, after) = (variance(Method::None)?, variance(method)?);
        (before > 0.0).then(|| before / after)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Constant => "constant",
            Self::LongTerm => "long-term",
            Self::NearestPairs => "method-1",
            Self::Sampler => "method-2",
        })
    }
}
