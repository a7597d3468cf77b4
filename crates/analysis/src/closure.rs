//! Several nodes at once: brackets between any two of them narrow the clock maps of both, and tell who lies.
//!
//! Only a run with evidence between two nodes neither of which is the reference comes here; any other is left to
//! [`crate::clock_maps`] as it is.

use std::collections::BTreeSet;

use tickscope_bracket::{
    Bracket, ClockMap, ClosureError, Conflict, Domains, Error as BracketError, Model, PairEvidence, Ratio, Rho,
};
use tickscope_store::Manifest;
use tickscope_tick::{Label, Local, Tick};

use crate::counters::Counters;
use crate::error::Error;
use crate::evidence::{AllEvidence, Evidence};
use crate::query::Query;

/// What all evidence together says about a pair of counters.
#[derive(Clone, Debug)]
pub struct PairSummary {
    /// The domain whose ticks are mapped, `node.counter`.
    pub domain: Label,
    /// The domain whose ticks they become.
    pub reference: Label,
    /// Under which rho.
    pub rho: Rho,
    /// How far the rate was taken to lie from the ratio of the declared frequencies, parts per million.
    pub prior_ppm: u32,
    /// True if that carries a slope.
    pub rests_on_prior: bool,
    /// How many pieces of evidence between the two.
    pub brackets: usize,
    /// Half the interval's width at the median by the pair's own brackets alone, in ticks of the reference.
    pub direct_half_width_ticks: Option<u64>,
    /// The same by all evidence.
    pub closed_half_width_ticks: Option<u64>,
    /// The ways that narrowed it, from the domain to the reference, those that narrowed it most often first.
    pub ways: Vec<Vec<Label>>,
}

/// All counters that evidence relates in pairs.
#[derive(Default)]
pub(crate) struct Web {
    /// Each counter's domain, the reference's first.
    domains: Vec<Label>,
    /// Between any two, the first the domain.
    maps: Vec<(usize, usize, ClockMap)>,
    pub summaries: Vec<PairSummary>,
    /// The counters without which the evidence is consistent, a finding each.
    pub culprits: Vec<(usize, String)>,
}

/// A pair's evidence, and where it came from.
struct Told {
    pair: PairEvidence,
    pieces: usize,
    first: i64,
    last: i64,
}

/// At how many ticks half-widths are taken.
const SAMPLES: i128 = 1000;

/// The clock map of each pair, and what is told of it.
type Maps = (Vec<(usize, usize, ClockMap)>, Vec<PairSummary>);

impl Web {
    /// What all pairs of counters say together; nothing where no two besides the reference have evidence.
    pub(crate) fn of(
        manifest: &Manifest,
        counters: &Counters,
        evidence: &AllEvidence,
        query: &Query,
    ) -> Result<Self, Error> {
        let domains = (0..counters.len()).map(|counter| counters.name(counter).domain()).collect();
        let mut web = Self { domains, ..Self::default() };
        let pairs = || (1..counters.len()).flat_map(|local| (0..local).map(move |reference| (local, reference)));
        let pieces = |pair: (usize, usize)| -> usize {
            evidence.between(pair.0, pair.1).iter().map(|evidence| evidence.pieces).sum()
        };
        if !pairs().any(|pair| pair.1 != 0 && pieces(pair) > 0) {
            return Ok(Self::default());
        }
        let mut chains = Chains::new(counters.len());
        for pair in pairs().filter(|&pair| pieces(pair) > 0) {
            let rho = counters.declared_rho(manifest, query, pair)?.unwrap_or_default();
            chains.add(pair, &Model::new(rho, counters.nominal(pair.0, pair.1)?, Tick::new(0)));
        }
        let mut told = Vec::new();
        for pair in pairs() {
            let declared = counters.declared_rho(manifest, query, pair)?;
            let nominal = counters.nominal(pair.0, pair.1)?;
            let premise = if pieces(pair) > 0 {
                Some((declared.unwrap_or_default(), Model::DEFAULT_PRIOR_PPM))
            } else {
                chains.between(pair, declared)
            };
            let Some((rho, prior_ppm)) = premise else { continue }; // nothing relates the two
            told.push(Told::of(pair, evidence.between(pair.0, pair.1), (rho, nominal, prior_ppm)));
        }
        web.close(&told)?;
        Ok(web)
    }

    /// The clock maps of all pairs, without the counter that contradicts all others.
    fn close(&mut self, told: &[Told]) -> Result<(), Error> {
        let all: Vec<&Told> = told.iter().collect();
        let conflict = match self.try_closed(&all) {
            Ok(closed) => return self.keep(closed),
            Err(ClosureError::Conflict(conflict)) => conflict,
            Err(unusable) => return Err(self.unusable(&unusable)),
        };
        let text = self.said(&conflict, &all);
        let Some(culprit) = conflict.culprit.filter(|&culprit| culprit != 0) else { return Err(Error::finding(text)) };
        self.culprits.push((culprit, text));
        let others = all.into_iter().filter(|told| ![told.pair.local, told.pair.reference].contains(&culprit));
        match self.try_closed(&others.collect::<Vec<_>>()) {
            Ok(closed) => self.keep(closed),
            Err(error) => Err(self.unusable(&error)),
        }
    }

    fn keep(&mut self, (maps, summaries): Maps) -> Result<(), Error> {
        (self.maps, self.summaries) = (maps, summaries);
        Ok(())
    }

    fn unusable(&self, error: &ClosureError) -> Error {
        match error {
            ClosureError::Unusable { pair: (local, reference), error } => {
                let [domain, reference] = [local, reference].map(|&counter| &self.domains[counter]);
                Error::work(format!("{domain} against {reference}: {error}"))
            }
            ClosureError::Conflict(conflict) => Error::finding(self.said(conflict, &[])),
        }
    }

    fn try_closed(&self, told: &[&Told]) -> Result<Maps, ClosureError> {
        let domains = Domains::new(self.domains.len(), told.iter().map(|told| told.pair.clone()).collect())?;
        let (mut maps, mut summaries) = (Vec::new(), Vec::new());
        for (reference, toward) in domains.toward_each().map_err(ClosureError::Conflict)?.into_iter().enumerate() {
            for closed in toward {
                let (local, Some(clock_map)) = (closed.local, closed.clock_map) else { continue };
                let found = told.iter().find(|told| (told.pair.local, told.pair.reference) == (local, reference));
                let Some(told) = found else { continue };
                let ticks = told.ticks().or(closed.ticks.map(|(first, last)| (first.get(), last.get())));
                let ways = closed.ways.iter().map(|(way, _)| way.iter().map(|&at| self.domains[at].clone()).collect());
                summaries.push(PairSummary {
                    domain: self.domains[local].clone(),
                    reference: self.domains[reference].clone(),
                    rho: told.pair.model.rho,
                    prior_ppm: told.pair.model.prior_ppm,
                    rests_on_prior: clock_map.rests_on_prior(),
                    brackets: told.pieces,
                    direct_half_width_ticks: domains.direct(local, reference).and_then(|map| half_width(map, ticks?)),
                    closed_half_width_ticks: ticks.and_then(|ticks| half_width(&clock_map, ticks)),
                    ways: ways.collect(),
                });
                maps.push((local, reference, clock_map));
            }
        }
        Ok((maps, summaries))
    }

    fn said(&self, conflict: &Conflict, told: &[&Told]) -> String {
        let name = |counter: usize| &self.domains[counter];
        /// As many are named; they may be hundreds.
        const NAMED: usize = 4;
        let named = |&(local, reference): &(usize, usize)| format!("{} and {}", name(local), name(reference));
        let mut pairs: Vec<String> = conflict.pairs.iter().map(named).collect();
        if pairs.len() > NAMED + 1 {
            let others = pairs.split_off(NAMED).len();
            pairs.push(format!("and {others} more pairs"));
        }
        let what = match conflict.culprit {
            Some(culprit) => format!(
                "without {} all others agree, so its clock or its stamps are wrong, or its rho is too small; its \
                 relations are left out",
                name(culprit)
            ),
            None => "which node is wrong cannot be told from them. Check their clocks, or declare a larger rho".into(),
        };
        let by_itself = told.iter().filter(|told| conflict.pairs.contains(&(told.pair.local, told.pair.reference)));
        let by_itself = by_itself.filter_map(|told| {
            let refused = refused(&told.pair)?;
            Some(format!(". {} against {}: {refused}", name(told.pair.local), name(told.pair.reference)))
        });
        let by_itself = by_itself.take(1).collect::<String>();
        let pairs = pairs.join(", ");
        format!("expected nodes whose evidence agrees, found a contradiction between {pairs}: {what}{by_itself}")
    }

    /// The clock map of a counter to the reference by all evidence.
    pub(crate) fn to_reference(&self, counter: usize) -> Option<(&ClockMap, &PairSummary)> {
        let at = self.maps.iter().position(|&(from, to, _)| (from, to) == (counter, 0))?;
        Some((&self.maps[at].2, &self.summaries[at]))
    }

    /// Returns whether a counter's relations are left out, since it contradicts all others.
    pub(crate) fn is_culprit(&self, counter: usize) -> bool {
        self.culprits.iter().any(|&(culprit, _)| culprit == counter)
    }

    /// The clock maps between two counters neither of which is the reference: domain, reference.
    pub(crate) fn between(&self) -> impl Iterator<Item = (usize, usize, &ClockMap)> {
        let maps = self.maps.iter().filter(|(local, reference, _)| *local != 0 && *reference != 0);
        maps.map(|(local, reference, clock_map)| (*local, *reference, clock_map))
    }
}

/// What pairs with evidence assume of their rates, for pairs without: what others say about such a pair must rest on
/// nothing that is not said of theirs.
struct Chains {
    /// By counter: the counters that evidence relates it to, and what is assumed of that pair.
    links: Vec<Vec<(usize, Premise)>>,
}

/// Of a pair's rate: how far it wanders, and how far it may lie from what the frequencies declare.
type Premise = (Rho, u32);

impl Chains {
    fn new(counters: usize) -> Self {
        Self { links: vec![Vec::new(); counters] }
    }

    fn add(&mut self, (local, reference): (usize, usize), model: &Model) {
        let premise = (model.rho, model.prior_ppm_either_way());
        self.links[local].push((reference, premise));
        self.links[reference].push((local, premise));
    }

    /// What follows for two counters from the chain between them that wanders least; `declared`: a rho that somebody
    /// declared for them. `None`: no chain, or one that wanders beyond all bounds.
    fn between(&self, (local, reference): (usize, usize), declared: Option<Rho>) -> Option<Premise> {
        let mut least: Vec<Option<Premise>> = vec![None; self.links.len()];
        let mut waiting = BTreeSet::from([(0, 0, local)]);
        let mut reached: Vec<Option<Premise>> = vec![None; self.links.len()];
        while let Some((_, _, counter)) = waiting.pop_first() {
            if least[counter].is_some() || (reached[counter].is_none() && counter != local) {
                continue;
            }
            let so_far = reached[counter];
            least[counter] = Some(so_far.unwrap_or((Rho::default(), 0)));
            for &(to, next) in self.links[counter].iter().filter(|(to, _)| least[*to].is_none()) {
                let Some(premise) = so_far.map_or(Some(next), |so_far| both(so_far, next)) else { continue };
                let is_less = |known: Premise| (premise.0.ppb(), premise.1) < (known.0.ppb(), known.1);
                if reached[to].is_none_or(is_less) {
                    reached[to] = Some(premise);
                    waiting.insert((premise.0.ppb(), premise.1, to));
                }
            }
        }
        let (rho, prior_ppm) = reached[reference]?;
        let declared = declared.filter(|declared| declared.ppb() < rho.ppb());
        Some((declared.unwrap_or(rho), prior_ppm))
    }
}

/// Of a chain of two pairs, rounded up.
fn both((rho, prior_ppm): Premise, next: Premise) -> Option<Premise> {
    const MILLION: u64 = 1_000_000;
    let (one, other) = (u64::from(prior_ppm), u64::from(next.1));
    let prior_ppm = one + other + (one * other).div_ceil(MILLION);
    let prior_ppm = u32::try_from(prior_ppm).ok().filter(|&ppm| ppm <= Model::MOST_PRIOR_PPM)?;
    Some((rho.then(next.0).ok()?, prior_ppm))
}

/// Why a pair's evidence has no clock map by itself.
fn refused(pair: &PairEvidence) -> Option<String> {
    if pair.brackets.is_empty() {
        return None;
    }
    match ClockMap::new(&pair.brackets, &pair.model).err()? {
        error @ BracketError::Inconsistent(_) => Some(error.to_string()),
        _ => None,
    }
}

impl Told {
    fn of(
        (local, reference): (usize, usize),
        sources: &[Evidence],
        (rho, nominal, prior_ppm): (Rho, Ratio, u32),
    ) -> Self {
        let brackets: Vec<Bracket> = sources.iter().flat_map(|source| source.brackets.iter().copied()).collect();
        let pieces = sources.iter().map(|source| source.pieces).sum();
        let at = || brackets.iter().map(|bracket| bracket.at.get());
        let (first, last) = (at().min().unwrap_or(0), at().max().unwrap_or(0));
        let middle = Tick::<Local>::new(first.midpoint(last));
        let model = Model { prior_ppm, ..Model::new(rho, nominal, middle) };
        Told { pair: PairEvidence { local, reference, brackets, model }, pieces, first, last }
    }

    /// The first and the last tick of its own brackets.
    fn ticks(&self) -> Option<(i64, i64)> {
        (!self.pair.brackets.is_empty()).then_some((self.first, self.last))
    }
}

/// At the median between two ticks of the domain.
fn half_width(clock_map: &ClockMap, (first, last): (i64, i64)) -> Option<u64> {
    let (first, last) = (i128::from(first), i128::from(last));
    let along = |step: i128| Tick::<Local>::new((first + (last - first) * step / SAMPLES) as i64);
    clock_map.half_widths((0..=SAMPLES).map(along)).ok()?.median()
}

impl PairSummary {
    /// Returns whether evidence of other pairs made it narrower.
    pub fn is_narrowed(&self) -> bool {
        match (self.direct_half_width_ticks, self.closed_half_width_ticks) {
            (Some(direct), Some(closed)) => closed < direct,
            (direct, closed) => direct.is_none() && closed.is_some(),
        }
    }
}
