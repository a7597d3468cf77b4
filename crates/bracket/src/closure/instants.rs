//! At which instants several domains are compared.
//!
//! A bound of a clock map bends outward at its evidence alone. So two chains of clock maps between the same two domains
//! differ most at a tick of evidence of one of them, and evidence that contradicts itself anywhere does so there. All
//! such ticks are compared where that many comparisons can be paid for; otherwise an even choice of them, and at all of
//! them the ways through one other domain.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tickscope_tick::{Reference, Tick};

use super::{Domains, Known, Step};

/// The instants of one domain.
pub(super) struct Instants {
    pub ticks: Vec<i64>,
    /// How many instants with evidence are not among them.
    pub left_out: usize,
}

/// As many steps of chains are taken for one source, or those of [`FEWEST`] instants: a second or so.
const WORK: usize = 1 << 22;
/// Where each step is left more often than once, as it is in a net of good and bad ways.
const PASSES: usize = 2;
const FEWEST: usize = 1024;

/// Pairs of a contradiction.
type Contradiction = Vec<(usize, usize)>;

impl Domains {
    /// All instants of `source` at which any pair has evidence, or an even choice of them: in each part of the run that
    /// of the narrowest evidence.
    pub(super) fn instants_of(&self, source: usize, without: Option<usize>) -> Instants {
        let routes = self.routes_to(source, without);
        let known = self.pairs.iter().filter(|known| known.is_apart_from(without));
        let mut found: Vec<(i64, u64)> = known.flat_map(|known| self.evidence_of(known, source, &routes)).collect();
        found.sort_unstable();
        found.dedup_by_key(|(tick, _)| *tick);
        let steps: usize = self.steps.iter().map(Vec::len).sum();
        let paid_for = (WORK / (PASSES * steps).max(1)).max(FEWEST);
        let most = self.most_instants.unwrap_or(paid_for);
        if found.len() <= most {
            return Instants { ticks: found.into_iter().map(|(tick, _)| tick).collect(), left_out: 0 };
        }
        let all = found.len();
        let ticks = chosen(&found, most);
        Instants { left_out: all - ticks.len(), ticks }
    }

    /// Compares, at every instant at which a pair of `source` has evidence, that pair's own interval with those of all
    /// ways through one other domain: what a choice of the instants could pass over.
    pub(super) fn compare_thirds(&self, source: usize, without: Option<usize>) -> Result<(), Contradiction> {
        let onward: Vec<BTreeMap<usize, Step>> =
            self.steps.iter().map(|steps| steps.iter().map(|step| (step.to, *step)).collect()).collect();
        // From the side that its evidence is exact on: each pair is looked at once.
        for first in self.steps[source].iter().filter(|step| step.forward && Some(step.to) != without) {
            for tick in self.pairs[first.pair].exact_ticks(source) {
                let Some((mut lo, mut hi)) = self.taken((tick, tick), *first) else { continue };
                let (mut lo_by, mut hi_by) = ([first.pair; 2], [first.pair; 2]);
                for through in self.steps[source].iter().filter(|step| Some(step.to) != without) {
                    let Some(last) = onward[through.to].get(&first.to) else { continue };
                    let Some(there) = self.taken((tick, tick), *through) else { continue };
                    let Some((other_lo, other_hi)) = self.taken(there, *last) else { continue };
                    if other_lo > hi || other_hi < lo {
                        let by = if other_lo > hi { hi_by } else { lo_by };
                        let pairs = [through.pair, last.pair].into_iter().chain(by).map(|pair| self.pair_of(pair));
                        return Err(pairs.collect::<BTreeSet<_>>().into_iter().collect());
                    }
                    let by = [through.pair, last.pair];
                    (lo, lo_by) = if other_lo > lo { (other_lo, by) } else { (lo, lo_by) };
                    (hi, hi_by) = if other_hi < hi { (other_hi, by) } else { (hi, hi_by) };
                }
            }
        }
        Ok(())
    }

    /// The step toward `source` from each domain, on a way of the fewest steps.
    fn routes_to(&self, source: usize, without: Option<usize>) -> Vec<Option<Step>> {
        let mut routes: Vec<Option<Step>> = vec![None; self.count];
        let mut waiting = VecDeque::from([source]);
        while let Some(domain) = waiting.pop_front() {
            for &step in self.steps[domain].iter().filter(|step| Some(step.to) != without) {
                if step.to != source && routes[step.to].is_none() {
                    routes[step.to] = Some(Step { to: domain, forward: !step.forward, ..step });
                    waiting.push_back(step.to);
                }
            }
        }
        routes
    }

    /// The instants of `source` at which a pair has evidence, and how wide its interval is there. Of pairs of `source`
    /// they are exact, of others as near as their interval's middle.
    fn evidence_of(&self, known: &Known, source: usize, routes: &[Option<Step>]) -> Vec<(i64, u64)> {
        let (local, reference) = (known.evidence.local, known.evidence.reference);
        let Some(direct) = &known.direct else {
            // Such evidence bounds one side alone, and may contradict the ways through others all the same.
            let is_own = [local, reference].contains(&source);
            return if is_own { known.exact_ticks(source).map(|tick| (tick, u64::MAX)).collect() } else { Vec::new() };
        };
        if [local, reference].contains(&source) {
            let width = |tick: i64| {
                if local == source {
                    direct.interval(Tick::new(tick)).map_or(0, |interval| interval.width())
                } else {
                    direct.inverse(Tick::<Reference>::new(tick)).map_or(0, |interval| interval.width())
                }
            };
            return known.exact_ticks(source).map(|tick| (tick, width(tick))).collect();
        }
        let at_source = |tick: i64| {
            let (mut at, mut domain) = (tick, local);
            while domain != source {
                let step = routes[domain]?;
                let (lo, hi) = self.taken((at, at), step)?;
                (at, domain) = (lo.midpoint(hi), step.to);
            }
            Some(at)
        };
        let found = direct.evidence_ticks().filter_map(|tick| {
            let width = direct.interval(tick).ok()?.width();
            Some((at_source(tick.get())?, width))
        });
        found.collect()
    }
}

impl Known {
    fn is_apart_from(&self, without: Option<usize>) -> bool {
        without.is_none_or(|without| ![self.evidence.local, self.evidence.reference].contains(&without))
    }

    /// The ticks of one of its own domains at which one of its bounds bends outward.
    fn exact_ticks(&self, source: usize) -> impl Iterator<Item = i64> {
        let is_local = self.evidence.local == source;
        let open =
            self.evidence.brackets.iter().filter(|_| self.direct.is_none()).flat_map(move |bracket| match is_local {
                true => [Some(bracket.at.get()), None],
                false => [bracket.before, bracket.after].map(|tick| tick.map(Tick::get)),
            });
        let ticks = self.direct.iter().flat_map(move |direct| {
            direct.evidence_ticks().flat_map(move |tick| {
                if is_local {
                    return [Some(tick.get()), None];
                }
                let Ok(interval) = direct.interval(tick) else { return [None; 2] };
                [Some(interval.lo().get()), Some(interval.hi().get())]
            })
        });
        ticks.chain(open).flatten()
    }
}

/// Some of all instants: evenly over them, and in each part that of the narrowest evidence.
fn chosen(found: &[(i64, u64)], most: usize) -> Vec<i64> {
    let (first, last) = (i128::from(found[0].0), i128::from(found[found.len() - 1].0));
    let parts = (most / 2).max(1) as i128;
    let length = last - first;
    let part_of = |tick: i64| (i128::from(tick) - first) * parts / (length + 1);
    let mut ticks: Vec<i64> = (0..=parts).map(|part| (first + length * part / parts) as i64).collect();
    for part in found.chunk_by(|a, b| part_of(a.0) == part_of(b.0)) {
        ticks.extend(part.iter().min_by_key(|(_, width)| *width).map(|(tick, _)| tick));
    }
    ticks.sort_unstable();
    ticks.dedup();
    ticks
}
