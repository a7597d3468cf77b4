//! Skewness and kurtosis of traces, raw and after each rule for outliers: Table 1 of the OS-noise study.
//!
//! Idea: a rule that makes the skewness small may have deleted genuine samples, so what it removed stands beside, and
//! where it abstains its reason. The medcouple, which outliers do not move, shows what is left. Guarantees: a rule that
//! abstained from a trace counts there and nowhere else. Deliberately absent: choosing a rule by these figures.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use tickscope_stats::{Abstention, Medcouple, Quantile, Rule, Sample};

/// What the study published of 20 tablets: mean skewness and kurtosis, raw and with outliers removed by its rule.
pub const PUBLISHED: [[f64; 2]; 2] = [[25.35, 989.32], [0.34, 6.05]];

/// Shape of traces under one rule.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Shape {
    /// `raw`, or the name of a rule.
    pub rule: String,
    /// Traces that it has a threshold for.
    pub traces: u64,
    /// Traces that it abstained from.
    pub abstained: u64,
    /// Why, of the first of these.
    pub why: Option<String>,
    /// Values that it removed.
    pub removed: u64,
    /// Of how many.
    pub of: u64,
    /// Its lowest and its highest threshold, ticks.
    pub threshold_ticks: Option<[i64; 2]>,
    /// Mean skewness; `None`: of no trace, all values are equal.
    pub skewness: Option<f64>,
    /// Mean kurtosis, Pearson's.
    pub kurtosis: Option<f64>,
    /// Least, median and greatest medcouple.
    pub medcouple: Option<[f64; 3]>,
}

/// Shapes of traces that are taken one after another.
#[derive(Clone, Debug)]
pub struct Shapes {
    rules: Vec<UnderRule>,
}

#[derive(Clone, Debug)]
struct UnderRule {
    rule: Option<Rule>,
    /// Where the rule abstains, what its abstention advises stands.
    advised: bool,
    shape: Shape,
    moments: Vec<[f64; 2]>,
    medcouples: Vec<Medcouple>,
}

/// The default rule, with what its abstentions advise.
pub const ADVISED: &str = "as advised";
/// A rule that was tuned on traces.
pub const TUNED: &str = "tuned";

impl Shapes {
    /// Of no trace yet: raw, by every rule that has a name, and by one that was tuned.
    pub fn new(tuned: Option<Rule>) -> Self {
        let raw = [("raw", None)].into_iter();
        let tuned = tuned.map(|rule| (TUNED, Some(rule)));
        let rules = raw.chain(Rule::NAMED.map(|(name, rule)| (name, Some(rule)))).chain(tuned);
        let mut rules: Vec<UnderRule> = rules.map(|(name, rule)| UnderRule::new(name, rule)).collect();
        rules.insert(2, UnderRule { advised: true, ..UnderRule::new(ADVISED, Some(Rule::GapOrTail)) });
        Self { rules }
    }

    /// Adds a trace of a counter with readings of that width. A trace without values adds nothing.
    pub fn add(&mut self, values: &[i64], width_ticks: i64) {
        let Ok(sample) = Sample::new(values) else { return };
        let step = NonZeroU64::new(width_ticks.unsigned_abs());
        self.rules.iter_mut().for_each(|under| under.add(&sample, step));
    }

    /// Adds all traces of others by the same rules.
    pub fn join(&mut self, others: &Self) {
        for (own, other) in self.rules.iter_mut().zip(&others.rules) {
            let (of, more) = (&mut own.shape, &other.shape);
            of.traces += more.traces;
            of.abstained += more.abstained;
            of.removed += more.removed;
            of.of += more.of;
            of.why = of.why.take().or_else(|| more.why.clone());
            let both = |[a, b]: [i64; 2], [c, d]: [i64; 2]| [a.min(c), b.max(d)];
            of.threshold_ticks = match (of.threshold_ticks, more.threshold_ticks) {
                (Some(one), Some(other)) => Some(both(one, other)),
                (one, other) => one.or(other),
            };
            own.moments.extend(&other.moments);
            own.medcouples.extend(other.medcouples.iter().cloned());
        }
    }

    /// What they say together.
    pub fn summary(self) -> Vec<Shape> {
        self.rules.into_iter().map(UnderRule::summary).filter(|shape| shape.traces + shape.abstained > 0).collect()
    }
}

impl UnderRule {
    fn new(name: &str, rule: Option<Rule>) -> Self {
        let shape = Shape {
            rule: name.into(),
            traces: 0,
            abstained: 0,
            why: None,
            removed: 0,
            of: 0,
            threshold_ticks: None,
            skewness: None,
            kurtosis: None,
            medcouple: None,
        };
        Self { rule, advised: false, shape, moments: Vec::new(), medcouples: Vec::new() }
    }

    fn add(&mut self, sample: &Sample, step: Option<NonZeroU64>) {
        let Some(rule) = self.rule else { return self.describe(sample, sample.count()) };
        let threshold = rule.threshold(sample, step);
        let advised = |why: Abstention| why.advised(sample, step).filter(|_| self.advised).ok_or(why);
        match threshold.or_else(advised) {
            Err(abstention) => {
                self.shape.abstained += 1;
                self.shape.why.get_or_insert_with(|| abstention.to_string());
            }
            Ok(threshold) => {
                let [lo, hi] = self.shape.threshold_ticks.unwrap_or([threshold.upper; 2]);
                self.shape.threshold_ticks = Some([lo.min(threshold.upper), hi.max(threshold.upper)]);
                if let Some(rest) = sample.without(&threshold) {
                    self.describe(&rest, sample.count());
                }
            }
        }
    }

    fn describe(&mut self, rest: &Sample, of: usize) {
        self.shape.traces += 1;
        self.shape.of += of as u64;
        self.shape.removed += (of - rest.count()) as u64;
        let moments = rest.moments();
        self.moments.extend(moments.skewness.zip(moments.kurtosis).map(<[f64; 2]>::from));
        self.medcouples.push(rest.medcouple());
    }

    fn summary(self) -> Shape {
        let Self { shape, moments, mut medcouples, .. } = self;
        let mean = |which: usize| {
            let sum: f64 = moments.iter().map(|moments| moments[which]).sum();
            (!moments.is_empty()).then(|| sum / moments.len() as f64)
        };
        medcouples.sort_by(|a, b| a.value().total_cmp(&b.value()));
        let at = |rank: usize| medcouples[rank - 1].value();
        let medcouple = Quantile::MEDIAN.rank(medcouples.len()).map(|median| [at(1), at(median), at(medcouples.len())]);
        Shape { skewness: mean(0), kurtosis: mean(1), medcouple, ..shape }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named<'a>(shapes: &'a [Shape], rule: &str) -> &'a Shape {
        shapes.iter().find(|shape| shape.rule == rule).unwrap()
    }

    #[test]
    fn each_rule_stands_with_what_it_removed_and_the_raw_figures_beside_it() {
        let mut shapes = Shapes::new(None);
        for trace in 0..3_i64 {
            let value = |at: i64| if at % 500 == 7 { 90_000 + at } else { 18 + 2 * ((at * 7 + trace) % 11) };
            shapes.add(&(0..10_000).map(value).collect::<Vec<_>>(), 4);
        }
        let shapes = shapes.summary();
        let names: Vec<_> = shapes.iter().map(|shape| shape.rule.as_str()).collect();
        assert_eq!(names, ["raw", "gap-or-tail", "as advised", "ipad", "tukey", "one-sided", "adjusted"]);
        let (raw, ipad) = (named(&shapes, "raw"), named(&shapes, "ipad"));
        assert_eq!((raw.traces, raw.removed, raw.of, raw.threshold_ticks), (3, 0, 30_000, None));
        assert_eq!((ipad.traces, ipad.removed, ipad.threshold_ticks), (3, 60, Some([98, 98])));
        assert!(raw.skewness > Some(20.0) && ipad.skewness.unwrap().abs() < 0.1, "{raw:?}, {ipad:?}");
    }

    #[test]
    fn a_rule_that_abstains_says_why_and_is_in_no_mean() {
        let mut shapes = Shapes::new(None);
        shapes.add(&[20, 22, 20, 9_000], 4);
        shapes.add(&[], 4);
        let shapes = shapes.summary();
        let gap = named(&shapes, "gap-or-tail");
        assert_eq!((gap.traces, gap.abstained, gap.of, gap.skewness), (0, 1, 0, None));
        assert!(gap.why.as_ref().unwrap().contains("at least 400 values"), "{gap:?}");
        assert_eq!(named(&shapes, "raw").traces, 1);
        let advised = named(&shapes, "as advised");
        assert_eq!((advised.traces, advised.abstained, advised.removed), (1, 0, 1), "by the one-sided rule");
    }
}
