//! Several nodes at once: brackets between any two of them narrow the clock maps of both, and tell who lies.
//!
//! Only a run with evidence between two nodes neither of which is the reference comes here; any other is left to
//! [`crate::clock_maps`] as it is.

use std::collections::BTreeSet;

use tickscope_bracket::{
    Bracket, ClockMap, ClosureError, Conflict, Domains, Error as BracketError, Model, PairEvidence, Rho,
};
use tickscope_store::Manifest;
use tickscope_tick::{Label, Local, Tick};

use crate::counters::{Counters, DeclaredRate};
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
    /// What all pairs of counters say together; nothing where no two besides the reference have evidence. `wanted`:
    /// pairs that are asked for, also without evidence of their own.
    pub(crate) fn of(
        manifest: &Manifest,
        counters: &Counters,
        evidence: &AllEvidence,
        query: &Query,
        wanted: &BTreeSet<(usize, usize)>,
    ) -> Result<Self, Error> {
        let domains = (0..counters.count()).map(|counter| counters.name(counter).domain()).collect();
        let mut web = Self { domains, ..Self::default() };
        if !evidence.pairs().any(|(pair, pieces)| pair.1 != 0 && pieces > 0) {
            return Ok(Self::default());
        }
        web.close(&Telling { manifest, counters, evidence, query, wanted })?;
        Ok(web)
    }

    /// The same, also of two counters alone, of all pairs, and as far as the evidence agrees: what contradicts other
    /// evidence is left out, until nothing does, and told by pair.
    pub(crate) fn of_all(
        manifest: &Manifest,
        counters: &Counters,
        evidence: &AllEvidence,
        query: &Query,
    ) -> Result<(Self, Vec<LeftPair>), Error> {
        let domains = (0..counters.count()).map(|counter| counters.name(counter).domain()).collect();
        let mut web = Self { domains, ..Self::default() };
        let wanted = evidence.pairs().map(|(pair, _)| pair).collect();
        let telling = Telling { manifest, counters, evidence, query, wanted: &wanted };
        let (mut out, mut left) = (LeftOut::default(), Vec::new());
        loop {
            let all = telling.told(&out)?;
            match web.try_closed(&all) {
                Ok(closed) => {
                    web.keep(closed)?;
                    return Ok((web, left));
                }
                Err(error) => left.extend(web.leave_out(&error, &all, &mut out)),
            }
        }
    }

    /// Leaves out the counter that alone contradicts the others, or else all of which any may be wrong: what is told of
    /// such a one where nothing contradicts it may be as wrong. Or the pair that cannot be used; what is left out.
    fn leave_out(&mut self, error: &ClosureError, told: &[Told], out: &mut LeftOut) -> Vec<LeftPair> {
        let (pairs, reason) = match error {
            ClosureError::Unusable { pair, .. } => (vec![*pair], self.unusable(error).to_string()),
            ClosureError::Conflict(conflict) => {
                let mut reason = self.said(conflict, told);
                match conflict.culprit {
                    Some(culprit) => self.culprits.push((culprit, reason.clone())),
                    None => reason += &self.all_out(&conflict.suspects),
                }
                out.counters.extend(&conflict.suspects);
                let of = told.iter().map(|told| (told.pair.local, told.pair.reference));
                let is_suspect = |counter: usize| conflict.suspects.contains(&counter);
                (of.filter(|pair| is_suspect(pair.0) || is_suspect(pair.1)).collect(), reason)
            }
        };
        out.pairs.extend(&pairs);
        pairs.into_iter().map(|pair| LeftPair { pair, reason: reason.clone() }).collect()
    }

    /// Says that all relations of some counters are left out.
    fn all_out(&self, suspects: &[usize]) -> String {
        let names: Vec<String> = suspects.iter().map(|&counter| self.domains[counter].to_string()).collect();
        format!(". Each of {} may be the wrong one: all their relations are left out", names.join(", "))
    }

    /// The clock maps of all pairs, without the counter that contradicts all others.
    fn close(&mut self, telling: &Telling) -> Result<(), Error> {
        let all = telling.told(&LeftOut::default())?;
        let conflict = match self.try_closed(&all) {
            Ok(closed) => return self.keep(closed),
            Err(ClosureError::Conflict(conflict)) => conflict,
            Err(unusable) => return Err(self.unusable(&unusable)),
        };
        let text = self.said(&conflict, &all);
        let Some(culprit) = conflict.culprit.filter(|&culprit| culprit != 0) else { return Err(Error::finding(text)) };
        self.culprits.push((culprit, text));
        // What followed from the culprit's pairs goes with them.
        let out = LeftOut { counters: BTreeSet::from([culprit]), ..LeftOut::default() };
        match self.try_closed(&telling.told(&out)?) {
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

    fn try_closed(&self, told: &[Told]) -> Result<Maps, ClosureError> {
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

    fn said(&self, conflict: &Conflict, told: &[Told]) -> String {
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
                "without {0} all others agree with each other, which does not prove that {0} is wrong: its clock, its \
                 stamps or its rho may be, or those of the nodes it contradicts; its relations are left out",
                name(culprit)
            ),
            None => "they do not show which node is wrong. Check their clocks, or declare a larger rho".into(),
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

    /// The clock map of two counters by all evidence: the domain, the reference.
    pub(crate) fn map(&self, pair: (usize, usize)) -> Option<&ClockMap> {
        self.maps.iter().find(|&&(local, reference, _)| (local, reference) == pair).map(|(_, _, clock_map)| clock_map)
    }

    /// What is told of it.
    pub(crate) fn summary(&self, pair: (usize, usize)) -> Option<&PairSummary> {
        let at = self.maps.iter().position(|&(local, reference, _)| (local, reference) == pair)?;
        self.summaries.get(at)
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

/// A pair whose evidence contradicts other evidence, or cannot be used.
pub(crate) struct LeftPair {
    /// The domain and the reference.
    pub pair: (usize, usize),
    /// Why.
    pub reason: String,
}

/// What is told as if it were not there.
#[derive(Default)]
struct LeftOut {
    /// Counters with all their pairs.
    counters: BTreeSet<usize>,
    /// Evidence of pairs.
    pairs: BTreeSet<(usize, usize)>,
}

impl LeftOut {
    fn has_counter_of(&self, pair: (usize, usize)) -> bool {
        [pair.0, pair.1].iter().any(|counter| self.counters.contains(counter))
    }

    fn has_evidence_of(&self, pair: (usize, usize)) -> bool {
        self.has_counter_of(pair) || self.pairs.contains(&pair)
    }
}

/// What pairs are told with.
struct Telling<'a> {
    manifest: &'a Manifest,
    counters: &'a Counters<'a>,
    evidence: &'a AllEvidence,
    query: &'a Query,
    wanted: &'a BTreeSet<(usize, usize)>,
}

impl Telling<'_> {
    /// All pairs with evidence and those that are wanted, as if what is left `out` were not there. What holds of a
    /// pair's rate is the least of what is declared for it and what follows from chains of pairs that have clock maps
    /// themselves, for these are printed.
    fn told(&self, out: &LeftOut) -> Result<Vec<Told>, Error> {
        let Self { manifest, counters, evidence, query, wanted } = *self;
        let is_left = |pair: &(usize, usize)| !out.has_counter_of(*pair);
        let is_told = |pair: &(usize, usize)| !out.has_evidence_of(*pair);
        let mut chains = Chains::new(counters.count());
        for (pair, _) in evidence.pairs().filter(|(pair, _)| is_told(pair) && evidence.bounds_both_sides(*pair)) {
            let rho = counters.declared_rho(manifest, query, pair)?.unwrap_or_default();
            chains.add(pair, &counters.rate(pair.0, pair.1)?.model(rho, Tick::new(0)));
        }
        let with_evidence =
            evidence.pairs().filter(|(pair, pieces)| *pieces > 0 && is_told(pair)).map(|(pair, _)| pair);
        let all: BTreeSet<(usize, usize)> = with_evidence.chain(wanted.iter().copied()).filter(is_left).collect();
        let mut told = Vec::new();
        for pair in all {
            let declared = counters.declared_rho(manifest, query, pair)?;
            let sources = if is_told(&pair) { evidence.between(pair.0, pair.1) } else { &[] };
            let has_evidence = sources.iter().any(|source| source.pieces > 0);
            // What a query asks for takes the place of what was declared. Where nothing was, its chains say what holds:
            // a larger rho of each of them never narrows.
            let is_declared = counters.declared_rho(manifest, &Query::default(), pair)?.is_some();
            let own = (is_declared || has_evidence).then(|| declared.unwrap_or_default());
            let Some((rho, prior_ppm)) = chains.least(pair, own) else { continue }; // nothing relates the two
            let declared = counters.rate(pair.0, pair.1)?;
            let rate = if has_evidence { declared } else { declared.with_prior(prior_ppm) };
            told.push(Told::of(pair, sources, rho, rate));
        }
        Ok(told)
    }
}

/// What pairs with evidence assume of their rates, for pairs without: what others say about such a pair must rest on
/// nothing that is not said of theirs.
struct Chains {
    /// By counter: the counters that evidence relates it to, and what is assumed of that pair.
    links: Vec<Vec<(usize, Premise)>>,
}

/// Bounds on a pair's rate: how far it wanders, and how far it may lie from what the frequencies declare.
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

    /// The lesser of what somebody declared for two counters, `own`, and what follows from the chain between them that
    /// wanders least. `None`: neither, as where a chain wanders beyond all bounds.
    fn least(&self, (local, reference): (usize, usize), own: Option<Rho>) -> Option<Premise> {
        let follows = self.along(local)[reference];
        match (own, follows) {
            (Some(own), Some((rho, prior_ppm))) if own.ppb() <= rho.ppb() => Some((own, prior_ppm)),
            (Some(own), None) => Some((own, Model::MOST_PRIOR_PPM)),
            (_, follows) => follows,
        }
    }

    /// What follows for a counter against each other, by the chain that wanders least.
    fn along(&self, from: usize) -> Vec<Option<Premise>> {
        let mut reached: Vec<Option<Premise>> = vec![None; self.links.len()];
        let mut done = vec![false; self.links.len()];
        let mut waiting = BTreeSet::from([(0, 0, from)]);
        while let Some((_, _, counter)) = waiting.pop_first() {
            if std::mem::replace(&mut done[counter], true) {
                continue;
            }
            let so_far = reached[counter];
            for &(to, next) in self.links[counter].iter().filter(|(to, _)| *to != from) {
                let Some(premise) = so_far.map_or(Some(next), |so_far| both(so_far, next)) else { continue };
                let is_less = |known: Premise| (premise.0.ppb(), premise.1) < (known.0.ppb(), known.1);
                if reached[to].is_none_or(is_less) {
                    reached[to] = Some(premise);
                    waiting.insert((premise.0.ppb(), premise.1, to));
                }
            }
        }
        reached
    }
}

/// The premise of a chain of two pairs, rounded up.
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
    fn of((local, reference): (usize, usize), sources: &[Evidence], rho: Rho, rate: DeclaredRate) -> Self {
        let brackets: Vec<Bracket> = sources.iter().flat_map(|source| source.brackets.iter().copied()).collect();
        let pieces = sources.iter().map(|source| source.pieces).sum();
        let at = || brackets.iter().map(|bracket| bracket.at.get());
        let (first, last) = (at().min().unwrap_or(0), at().max().unwrap_or(0));
        let middle = Tick::<Local>::new(first.midpoint(last));
        let model = rate.model(rho, middle);
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
