//! Outlier brackets: from a contradiction to the brackets that may have caused it (`docs/proof.md`, "Outlier
//! brackets").
//!
//! A contradictory subset of the brackets contains every single culprit that could explain it, and the programme and
//! the envelope hand over such subsets of at most six brackets. Each is left out in turn: where the rest then agrees,
//! it is an outlier, and outliers are ranked by how many brackets of that rest contradict them. Where no single one
//! explains the contradiction, the most contradicted is set aside and the search goes on among the rest, until none
//! stands out: then no few wrong brackets explain it, and rho or a clock step may.

use std::cmp::Reverse;

use crate::contradiction::Contradiction;
use crate::envelope::Envelope;
use crate::evidence::{Evidence, Point};
use crate::finding::{Finding, Inconsistency, NamedBracket, OutlierBracket};
use crate::slope::Premise;
use crate::{Bracket, Cone, Rho};

/// Brackets set aside before the search for culprits ends without a result: more than that are no longer a few.
const MOST_SET_ASIDE: usize = 8;

/// The report on evidence that contradicts itself.
pub(crate) fn report(brackets: &[Bracket], evidence: &Evidence, contradiction: Contradiction) -> Inconsistency {
    let finding = contradiction.finding(brackets, evidence.frame);
    let trial = Trial { brackets, premise: evidence.premise, rest: evidence.points.clone() };
    let Culprits { outliers, outliers_together, resolved } = trial.culprits(contradiction);
    let smallest_rho_ppb = smallest_rho(evidence);
    Inconsistency { finding, outliers, outliers_together, resolved, rho: evidence.premise.rho, smallest_rho_ppb }
}

/// The report on brackets that are wrong by themselves, whatever the others say; `None` without any.
pub(crate) fn reversed(reversed: Vec<NamedBracket>, rho: Rho) -> Option<Inconsistency> {
    let finding = Finding::Reversed(*reversed.first()?);
    let outliers_together = reversed.len() > 1;
    let outliers = reversed.into_iter().map(|named| OutlierBracket { named, contradictions: 0 }).collect();
    Some(Inconsistency { finding, outliers, outliers_together, resolved: false, rho, smallest_rho_ppb: None })
}

struct Culprits {
    outliers: Vec<OutlierBracket>,
    outliers_together: bool,
    resolved: bool,
}

/// The brackets not yet set aside.
struct Trial<'a> {
    brackets: &'a [Bracket],
    premise: Premise,
    rest: Vec<Point>,
}

impl Trial<'_> {
    fn culprits(mut self, mut contradiction: Contradiction) -> Culprits {
        let mut set_aside: Vec<OutlierBracket> = Vec::new();
        while set_aside.len() < MOST_SET_ASIDE {
            let single = self.resolving(&contradiction);
            if !single.is_empty() {
                return Culprits::resolved(set_aside, single);
            }
            let worst = self.most_contradicted(&contradiction).filter(|worst| worst.contradictions > 0);
            let Some(worst) = worst else { break };
            self.rest = self.without(worst.named.index);
            set_aside.push(worst);
            let Err(next) = Envelope::of(&self.rest, self.premise) else { break };
            contradiction = next;
        }
        Culprits { outliers: set_aside, outliers_together: true, resolved: false }
    }

    fn without(&self, index: usize) -> Vec<Point> {
        self.rest.iter().filter(|point| point.index != index).copied().collect()
    }

    /// The brackets without any one of which the rest agrees, the most contradicted first.
    fn resolving(&self, contradiction: &Contradiction) -> Vec<OutlierBracket> {
        let cone = |index: usize| Envelope::of(&self.without(index), self.premise).ok().map(|envelope| envelope.cone());
        let tried = |&index: &usize| Some(self.outlier(index, cone(index)?));
        let mut outliers: Vec<OutlierBracket> = contradiction.culprits.iter().filter_map(tried).collect();
        outliers.sort_by_key(|outlier| (Reverse(outlier.contradictions), outlier.named.index));
        outliers
    }

    /// The culprit that contradicts most others, under the widest cone that the prior allows.
    fn most_contradicted(&self, contradiction: &Contradiction) -> Option<OutlierBracket> {
        let (low, high) = self.premise.prior;
        let cone = Cone::new(low, high, self.premise.rho);
        let outliers = contradiction.culprits.iter().map(|&index| self.outlier(index, cone));
        outliers.max_by_key(|outlier| (outlier.contradictions, Reverse(outlier.named.index)))
    }

    fn outlier(&self, index: usize, cone: Cone) -> OutlierBracket {
        let culprit = self.rest.iter().find(|point| point.index == index);
        let against = |culprit: &Point| self.rest.iter().filter(|other| contradict(culprit, other, cone)).count();
        let named = NamedBracket { index, bracket: self.brackets[index] };
        OutlierBracket { named, contradictions: culprit.map_or(0, against) }
    }
}

impl Culprits {
    /// `single` alone, or the best of it together with those set aside before.
    fn resolved(mut set_aside: Vec<OutlierBracket>, single: Vec<OutlierBracket>) -> Self {
        if set_aside.is_empty() {
            return Self { outliers: single, outliers_together: false, resolved: true };
        }
        set_aside.extend(single.first());
        Self { outliers: set_aside, outliers_together: true, resolved: true }
    }
}

/// Returns whether two brackets cannot both be true under this cone.
fn contradict(a: &Point, b: &Point, cone: Cone) -> bool {
    too_early(a, b, cone) || too_early(b, a, cone)
}

/// Returns whether `a` puts the map above what `b` allows.
fn too_early(a: &Point, b: &Point, cone: Cone) -> bool {
    let (Some(before), Some(after)) = (a.before, b.after) else {
        return false;
    };
    let distance = i128::from(b.at) - i128::from(a.at);
    let slope = if distance >= 0 { cone.slowest() } else { cone.fastest() };
    slope * distance > i128::from(after - before) << Cone::FRACTION_BITS
}

/// The smallest rho under which nothing contradicts: a larger rho only ever allows more, so halving finds it.
fn smallest_rho(evidence: &Evidence) -> Option<u32> {
    let fits = |ppb: u32| {
        let rho = Rho::declared_ppb(ppb).ok();
        rho.is_some_and(|rho| Envelope::of(&evidence.points, Premise { rho, ..evidence.premise }).is_ok())
    };
    let (mut contradictory, mut fitting) = (evidence.premise.rho.ppb(), Rho::MOST_PPB);
    if !fits(fitting) {
        return None;
    }
    while fitting - contradictory > 1 {
        let middle = contradictory + (fitting - contradictory) / 2;
        if fits(middle) { fitting = middle } else { contradictory = middle }
    }
    Some(fitting)
}
