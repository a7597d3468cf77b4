//! How right a threshold was.

use crate::families::Trace;

/// One trace under one rule. A rule that abstained removes nothing.
#[derive(Clone, Copy)]
pub struct Case {
    accepted: bool,
    counts: Counts,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    hits: f64,
    false_alarms: f64,
    misses: f64,
    samples: f64,
}

/// Means over the cases that a rule accepted; not a number where it accepted none.
pub struct Tally {
    /// The share of cases that it accepted.
    pub coverage: f64,
    /// F1 over all cases, those included in which it removed nothing.
    pub f1_of_all: f64,
    pub precision: f64,
    pub recall: f64,
    pub f1: f64,
    pub accuracy: f64,
    pub false_positives: f64,
    /// The share of clean traces that something was taken from.
    pub touched: f64,
    /// The share of all traces with detours in which it answered and left half of them or more: wrong in silence.
    pub silent: f64,
}

impl Case {
    /// Above `upper` the rule takes values away.
    pub fn of(trace: &Trace, upper: Option<i64>) -> Self {
        let mut counts = Counts { samples: trace.values.len() as f64, ..Counts::default() };
        for (&value, &detour) in trace.values.iter().zip(&trace.detour) {
            match (upper.is_some_and(|upper| value > upper), detour) {
                (true, true) => counts.hits += 1.0,
                (true, false) => counts.false_alarms += 1.0,
                (false, true) => counts.misses += 1.0,
                (false, false) => {}
            }
        }
        Self { accepted: upper.is_some(), counts }
    }
}

impl Tally {
    pub fn of<'a>(cases: impl Iterator<Item = &'a Case>) -> Self {
        let cases: Vec<&Case> = cases.collect();
        let accepted: Vec<Counts> = cases.iter().filter(|case| case.accepted).map(|case| case.counts).collect();
        let mean = |of: fn(&Counts) -> f64| accepted.iter().map(of).sum::<f64>() / accepted.len() as f64;
        Self {
            coverage: accepted.len() as f64 / cases.len() as f64,
            f1_of_all: cases.iter().map(|case| case.counts.f1()).sum::<f64>() / cases.len() as f64,
            precision: mean(|case| share(case.hits, case.hits + case.false_alarms)),
            recall: mean(|case| share(case.hits, case.hits + case.misses)),
            f1: mean(Counts::f1),
            accuracy: mean(|case| 1.0 - (case.false_alarms + case.misses) / case.samples),
            false_positives: mean(|case| case.false_alarms / (case.samples - case.hits - case.misses)),
            touched: mean(|case| f64::from(case.false_alarms > 0.0)),
            silent: accepted.iter().filter(|case| case.misses > 0.0 && case.misses >= case.hits).count() as f64
                / cases.len() as f64,
        }
    }
}

impl Counts {
    fn f1(&self) -> f64 {
        share(2.0 * self.hits, 2.0 * self.hits + self.false_alarms + self.misses)
    }
}

/// Nothing found where there was nothing to find is right.
fn share(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 1.0 } else { part / whole }
}
