//! How right a threshold was.

use tickscope_stats::Threshold;

use crate::families::Trace;

/// One trace under one rule; `None`: the rule abstained.
#[derive(Clone, Copy)]
pub struct Case(Option<Counts>);

#[derive(Clone, Copy, Default)]
struct Counts {
    hits: f64,
    false_alarms: f64,
    misses: f64,
    samples: f64,
}

/// Means over the cases that a rule accepted; not a number where it accepted none.
pub struct Tally {
    pub coverage: f64,
    pub precision: f64,
    pub recall: f64,
    pub f1: f64,
    pub accuracy: f64,
    pub false_positives: f64,
}

impl Case {
    pub fn of(trace: &Trace, threshold: Option<Threshold>) -> Self {
        Self(threshold.map(|threshold| {
            let mut counts = Counts { samples: trace.values.len() as f64, ..Counts::default() };
            for (&value, &detour) in trace.values.iter().zip(&trace.detour) {
                match (value > threshold.upper, detour) {
                    (true, true) => counts.hits += 1.0,
                    (true, false) => counts.false_alarms += 1.0,
                    (false, true) => counts.misses += 1.0,
                    (false, false) => {}
                }
            }
            counts
        }))
    }
}

impl Tally {
    pub fn of<'a>(cases: impl Iterator<Item = &'a Case>) -> Self {
        let cases: Vec<&Case> = cases.collect();
        let accepted: Vec<Counts> = cases.iter().filter_map(|case| case.0).collect();
        let mean = |of: fn(&Counts) -> f64| accepted.iter().map(of).sum::<f64>() / accepted.len() as f64;
        Self {
            coverage: accepted.len() as f64 / cases.len() as f64,
            precision: mean(|case| share(case.hits, case.hits + case.false_alarms)),
            recall: mean(|case| share(case.hits, case.hits + case.misses)),
            f1: mean(|case| share(2.0 * case.hits, 2.0 * case.hits + case.false_alarms + case.misses)),
            accuracy: mean(|case| 1.0 - (case.false_alarms + case.misses) / case.samples),
            false_positives: mean(|case| case.false_alarms / (case.samples - case.hits - case.misses)),
        }
    }
}

/// Nothing found where there was nothing to find is right.
fn share(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 1.0 } else { part / whole }
}
