//! Analysis of the OS-noise study, of a profile's traces: its Table 1, and a rule tuned as its authors tuned theirs.
//!
//! Idea: they tried thresholds `q + c (q - Q0)` over quantiles q and factors c, and looked at exemplars of different
//! skewness until one formula did for all. Exemplars are chosen by medcouple here, and what was the eyes' is a figure:
//! a difference above the detour limit is a detour, and a threshold is the better the more of them, and of nothing
//! else, it removes (F1). The exemplars are drawn, so that eyes can still judge. Guarantees: the rule is judged on all
//! other traces, too; no trace without detours is passed over: removing anything from it counts as 0. Deliberately
//! absent: the kernel's events as truth, which saved traces do not hold; what the limit does not tell from a pass is in
//! neither class.

use serde::{Deserialize, Serialize};
use tickscope_stats::{Quantile, Rule, Sample};

use crate::detour::DetourLimit;
use crate::profile::NoiseProfile;
use crate::shape::{Shape, Shapes};

/// Quantiles that are tried, parts per million.
const QUANTILES: [u32; 8] = [750_000, 800_000, 850_000, 900_000, 950_000, 975_000, 990_000, 999_000];
/// Factors that are tried, thousandths.
const FACTORS: [u32; 9] = [250, 500, 1_000, 1_500, 2_000, 3_000, 5_000, 10_000, 30_000];
/// Exemplars: the traces at these ranks of the medcouple.
const EXEMPLARS: [u32; 5] = [0, 250_000, 500_000, 750_000, 1_000_000];

/// The study's figures of a profile.
#[derive(Clone, Debug, Serialize)]
pub struct Study {
    /// Of all traces together: raw, and by each rule.
    pub all: Vec<Shape>,
    /// The same by core and use of memory.
    pub parts: Vec<StudyPart>,
    /// The rule that was tuned, or used again.
    pub tuned: TunedRule,
    /// This profile's exemplars under it, by medcouple.
    pub exemplars: Vec<Exemplar>,
}

/// One core, and one way to use memory there.
#[derive(Clone, Debug, Serialize)]
pub struct StudyPart {
    /// Its name.
    pub name: String,
    /// Raw, and by each rule.
    pub shapes: Vec<Shape>,
}

/// A rule `q + c (q - Q0)` with what it was tuned on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TunedRule {
    /// Version of the keys and of what they mean.
    pub version: u32,
    /// The quantile q, parts per million.
    pub quantile_per_million: u32,
    /// The factor c, thousandths.
    pub factor_thousandths: u32,
    /// Mean F1 on the exemplars, where it was tuned; 1: all detours, and nothing else.
    pub f1_exemplars: f64,
    /// Mean F1 on all traces of the profile that it was tuned on.
    pub f1_all: f64,
    /// The exemplars, by medcouple.
    pub exemplars: Vec<Exemplar>,
}

/// A trace that a rule was tuned on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Exemplar {
    /// The core, and how memory was used.
    pub name: String,
    /// Number of the trace among those kept of them.
    pub trace: usize,
    /// Its medcouple.
    pub medcouple: f64,
    /// F1 of the rule on it.
    pub f1: f64,
    /// What the rule removes lies above this; `None`: it has no threshold there.
    pub threshold_ticks: Option<i64>,
}

/// A trace, sorted, and what tells its detours.
struct Traced<'a> {
    name: String,
    trace: usize,
    sample: Sample,
    limit: &'a DetourLimit,
}

impl TunedRule {
    /// The rule, if its settings are such.
    pub fn rule(&self) -> Result<Rule, String> {
        if self.version != 1 {
            return Err(format!("version {}, and this tickscope reads 1", self.version));
        }
        let quantile = Quantile::per_million(self.quantile_per_million).map_err(|why| why.to_string())?;
        Ok(Rule::Distance { quantile, factor_thousandths: self.factor_thousandths })
    }
}

impl Traced<'_> {
    /// F1 of a rule's removals against the detours.
    fn f1(&self, rule: Rule) -> f64 {
        let detours = self.sample.above(self.limit.threshold_ticks);
        let removed = rule.threshold(&self.sample, None).map_or(0, |found| found.removal.count);
        // Both are the greatest values: the fewer of them are in both.
        match detours + removed {
            0 => 1.0,
            both => 2.0 * detours.min(removed) as f64 / both as f64,
        }
    }
}

/// The study's analysis; `used`: a rule that was tuned before. An error says what the profile lacks.
pub fn study(profile: &NoiseProfile, used: Option<TunedRule>) -> Result<Study, String> {
    let traces: Vec<Traced> = profile
        .cores
        .iter()
        .flat_map(|of| {
            let kept = of.traces.iter().enumerate();
            kept.filter_map(move |(trace, ticks)| {
                Some(Traced { name: of.name(), trace, sample: Sample::new(ticks).ok()?, limit: &of.limit })
            })
        })
        .collect();
    if traces.is_empty() {
        return Err("expected traces, found none. Save a profile of tickscope noise --detector fwq --out FILE".into());
    }
    let chosen = chosen(&traces);
    let tuned = used.unwrap_or_else(|| tuned(&traces, &chosen));
    let rule = tuned.rule()?;
    let exemplars = chosen.iter().map(|of| of.exemplar(rule)).collect();
    let mut all = Shapes::new(Some(rule));
    let part = |of: &crate::CoreProfile| {
        let mut shapes = Shapes::new(Some(rule));
        of.traces.iter().for_each(|ticks| shapes.add(ticks, of.limit.width_ticks));
        all.join(&shapes);
        StudyPart { name: of.name(), shapes: shapes.summary() }
    };
    let parts = profile.cores.iter().filter(|of| !of.traces.is_empty()).map(part).collect();
    Ok(Study { all: all.summary(), parts, tuned, exemplars })
}

fn mean(figures: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = figures.fold((0, 0.0), |(count, sum), figure| (count + 1, sum + figure));
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}

/// A trace with its medcouple.
struct Chosen<'a>(f64, &'a Traced<'a>);

impl Chosen<'_> {
    fn exemplar(&self, rule: Rule) -> Exemplar {
        let Self(medcouple, traced) = self;
        Exemplar {
            name: traced.name.clone(),
            trace: traced.trace,
            medcouple: *medcouple,
            f1: traced.f1(rule),
            threshold_ticks: rule.threshold(&traced.sample, None).ok().map(|found| found.upper),
        }
    }
}

/// The exemplars.
fn chosen<'a>(traces: &'a [Traced]) -> Vec<Chosen<'a>> {
    let mut order: Vec<(f64, usize)> = traces.iter().map(|traced| traced.sample.medcouple().value()).zip(0..).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |share: u32| (u64::from(share) * (order.len() as u64 - 1) / 1_000_000) as usize;
    let mut chosen: Vec<usize> = EXEMPLARS.map(at).into();
    chosen.dedup();
    chosen.into_iter().map(|rank| Chosen(order[rank].0, &traces[order[rank].1])).collect()
}

/// The best rule of the grid on exemplars; of several as good the one that is best on all traces.
fn tuned(traces: &[Traced], chosen: &[Chosen]) -> TunedRule {
    let grid = QUANTILES.iter().flat_map(|&quantile| FACTORS.map(|factor| (quantile, factor)));
    let judged = |(quantile_per_million, factor_thousandths): (u32, u32)| {
        let quantile = Quantile::per_million(quantile_per_million).expect("it is below a million");
        let rule = Rule::Distance { quantile, factor_thousandths };
        let exemplars: Vec<Exemplar> = chosen.iter().map(|of| of.exemplar(rule)).collect();
        TunedRule {
            version: 1,
            quantile_per_million,
            factor_thousandths,
            f1_exemplars: mean(exemplars.iter().map(|of| of.f1)),
            f1_all: mean(traces.iter().map(|traced| traced.f1(rule))),
            exemplars,
        }
    };
    let better =
        |a: &TunedRule, b: &TunedRule| a.f1_exemplars.total_cmp(&b.f1_exemplars).then(a.f1_all.total_cmp(&b.f1_all));
    grid.map(judged).max_by(better).expect("the grid has rules")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::profile;

    /// Traces whose work spreads by `spread` ticks above 20, with detours of thousands.
    fn traced(spread: &[i64]) -> NoiseProfile {
        let mut of = profile(&[vec![500]], None);
        let value = |spread: i64, at: i64| if at % 97 == 5 { 3_000 + at } else { 20 + at * 7 % spread };
        of.cores[0].traces = spread.iter().map(|&spread| (0..1_000).map(|at| value(spread, at)).collect()).collect();
        of.cores[0].limit.threshold_ticks = 200;
        of
    }

    #[test]
    fn the_tuned_rule_removes_every_detour_and_nothing_else_and_is_used_again_as_it_is() {
        let found = study(&traced(&[10, 30, 60, 100]), None).unwrap();
        let tuned = &found.tuned;
        assert_eq!((tuned.f1_exemplars, tuned.f1_all, tuned.exemplars.len()), (1.0, 1.0, 4), "{tuned:?}");
        let of = |name: &str| found.all.iter().find(|shape| shape.rule == name).unwrap();
        assert_eq!((of("tuned").removed, of("tuned").traces, of("raw").removed), (44, 4, 0));
        assert!(of("raw").skewness > Some(5.0) && of("tuned").skewness < Some(0.5), "{found:?}");
        let kept = TunedRule { quantile_per_million: 500_000, factor_thousandths: 1, ..tuned.clone() };
        let again = study(&traced(&[10]), Some(kept.clone())).unwrap();
        assert_eq!(again.tuned, kept);
        assert!(again.all.iter().any(|shape| shape.rule == "tuned" && shape.removed > 300), "{again:?}");
    }

    #[test]
    fn traces_without_detours_count_against_a_rule_that_removes_something() {
        let quiet = traced(&[10]);
        let traced = Traced {
            name: String::new(),
            trace: 0,
            sample: Sample::new(&[20, 20, 20, 22, 40]).unwrap(),
            limit: &quiet.cores[0].limit,
        };
        let of = |factor_thousandths| traced.f1(Rule::Distance { quantile: Quantile::Q3, factor_thousandths });
        assert_eq!((of(1_000), of(30_000)), (0.0, 1.0));
    }

    #[test]
    fn a_profile_without_traces_and_a_rule_of_another_version_are_refused() {
        assert!(study(&profile(&[vec![500]], None), None).unwrap_err().contains("--detector fwq --out FILE"));
        let mut rule = study(&traced(&[10]), None).unwrap().tuned;
        rule.version = 2;
        assert!(rule.rule().unwrap_err().contains("version 2"));
    }
}
