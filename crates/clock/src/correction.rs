//! How to time one section by a clock under one load: what to subtract, by which method, and how well the rest is
//! known.
//!
//! A correction is put together from tests on sections of known length. Three figures say how well one timing is known,
//! and the worst of them is taken: what two durations must differ by to be told apart, and how far off sections of no
//! length and of the plan's length came out in 19 of 20 trials, on the half that nothing was fitted on.
//!
//! Guarantees: a method that left more than nothing subtracted, on average or at the median, in either of the tests, is
//! recommended by no correction: nothing is subtracted then, and the correction names what was refused. Deliberately
//! absent: a bound.

use serde::Serialize;

use crate::benchmark::{LoadResult, SectionTest};
use crate::compensation::{Method, Outcome};

/// Read the clock at the start and at the end of a section, and subtract.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Correction {
    /// Method that finds the value to subtract.
    pub method: Method,
    /// Value to subtract: one for all sections, or the typical one of a method that finds another for each.
    pub subtract_ns: f64,
    /// One timing is off by no more in 19 of 20; `None`: the clock was never seen to step, or stood still through whole
    /// sections though its steps are shorter: then nothing is known of how far off it can be.
    pub good_to_ns: Option<f64>,
    /// The shortest section that one timing measures to the percentage asked for.
    pub from_ns: Option<f64>,
    /// The method that was chosen on one half of the trials and left more than nothing subtracted on the other; `None`:
    /// the one that was chosen is the one to use.
    pub refused: Option<Method>,
}

impl LoadResult {
    /// The correction for sections that are to be measured to `percent`.
    pub fn correction(&self, percent: f64) -> Correction {
        let tests = || [&self.zero, &self.section].into_iter();
        let refused = Some(self.zero.chosen).filter(|&method| self.harmed_by(method));
        let method = if refused.is_some() { Method::None } else { self.zero.chosen };
        let off = tests().filter_map(|test| test.outcome(method)).map(|outcome| outcome.error_p95);
        let usable_ns = self.alone().usable_ns.filter(|&usable| !self.section.missed(method, usable));
        let good_to_ns = usable_ns.map(|usable| off.fold(usable, f64::max));
        Correction {
            method,
            subtract_ns: self.zero.outcome(method).map_or(0.0, |outcome| outcome.subtracts),
            good_to_ns,
            from_ns: good_to_ns.map(|good_to| good_to * 100.0 / percent),
            refused,
        }
    }

    /// Whether that method left more than nothing subtracted, in sections of either length.
    pub fn harmed_by(&self, method: Method) -> bool {
        [&self.zero, &self.section].into_iter().any(|test| test.harmed_by(method))
    }
}

impl SectionTest {
    /// Whether that method left more than nothing subtracted, on average or at the median.
    pub fn harmed_by(&self, method: Method) -> bool {
        let left = |method| self.outcome(method).map(|of: &Outcome| [of.error, of.residual_median.abs()]);
        let worse = |(with, without): ([f64; 2], [f64; 2])| with[0] > without[0] || with[1] > without[1];
        left(method).zip(left(Method::None)).is_some_and(worse)
    }

    /// Whether the clock stood still through most of the sections, though it was seen to tell such lengths apart.
    fn missed(&self, method: Method, usable_ns: f64) -> bool {
        const MOST: f64 = 0.9;
        let length = f64::from(self.section_ns);
        let off = self.outcome(method).map_or(0.0, |outcome| outcome.residual_median);
        length > 0.0 && usable_ns < length && off < -MOST * length
    }
}

impl Correction {
    /// Number of times that a section must be run between the two readings, and the result divided by that, to be
    /// measured to `percent`; 1: one timing will do. `None`: the clock was never seen to step.
    pub fn repeats(&self, section_ns: f64) -> Option<u64> {
        self.from_ns.map(|from| (from / section_ns).ceil() as u64)
    }
}
