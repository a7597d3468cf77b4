//! Several nodes at once: brackets between any two of them narrow the clock maps of both, and tell who lies.
//!
//! Only a run with evidence between two nodes neither of which is the reference comes here; any other is left to
//! [`crate::clock_maps`] as it is.

use tickscope_bracket::{
    Bracket, ClockMap, ClosureError, Conflict, Domains, Model, PairEvidence, Ratio, ReadingWidths, Rho,
};
use tickscope_store::{Node, Pair, Run};
use tickscope_tick::{Label, Local, Source, Tick};

use crate::clock_maps::{Evidence, Messages, reading_ticks, reference_node, rho_of, shares_counter};
use crate::error::Error;
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
    /// The nodes that have a counter of their own; the reference first.
    nodes: Vec<Node>,
    /// Between any two, the first the domain.
    maps: Vec<(usize, usize, ClockMap)>,
    pub summaries: Vec<PairSummary>,
    /// The nodes without which the evidence is consistent, a finding each.
    pub culprits: Vec<(String, String)>,
    pub refused: Vec<tickscope_store::Error>,
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
/// More nodes than these cannot all contradict one by one.
const MOST_CULPRITS: usize = 3;

impl Web {
    /// What all pairs of nodes say together; nothing where no two nodes besides the reference have evidence.
    pub(crate) fn of(run: &Run, messages: &[Messages], query: &Query) -> Result<Self, Error> {
        let manifest = run.manifest();
        let reference = reference_node(manifest)?;
        let others = manifest.nodes.iter().filter(|node| !shares_counter(manifest, node, reference));
        let others = others.filter(|node| node.name != reference.name);
        let nodes: Vec<Node> = std::iter::once(reference).chain(others).cloned().collect();
        let mut web = Self { nodes, ..Self::default() };
        if web.nodes.len() < 3 {
            return Ok(Self::default());
        }
        let mut told = Vec::new();
        for local in 1..web.nodes.len() {
            for reference in 0..local {
                told.push(web.told(run, [local, reference], messages, query)?);
            }
        }
        if !told.iter().any(|told| told.pair.reference != 0 && told.pieces > 0) {
            return Ok(Self::default());
        }
        web.close(&told)?;
        Ok(web)
    }

    /// The evidence between two nodes, whichever of them asked.
    fn told(
        &mut self,
        run: &Run,
        [local, reference]: [usize; 2],
        messages: &[Messages],
        query: &Query,
    ) -> Result<Told, Error> {
        let manifest = run.manifest();
        let [domain, against] = [local, reference].map(|node| self.nodes[node].clone());
        let pair = Pair { reference: against.domain(), domain: domain.domain() };
        let (mut brackets, mut pieces) = (Vec::new(), 0);
        if manifest.evidence.probes && query.admit(Source::Probes) {
            for (pair, turns) in [(pair.clone(), false), (turned(&pair), true)] {
                let listing = run.brackets(&pair)?;
                // What is refused against the reference is told with its clock map.
                self.refused.extend(listing.refused.into_iter().filter(|_| reference != 0 || turns));
                let [local_ticks, reference_ticks] =
                    if turns { [&against, &domain] } else { [&domain, &against] }.map(reading_ticks);
                let found = Evidence::of_probes(&listing.found, ReadingWidths { local_ticks, reference_ticks })?;
                pieces += found.pieces;
                if turns {
                    brackets.extend(found.brackets.iter().flat_map(Bracket::turned).flatten());
                } else {
                    brackets.extend(found.brackets);
                }
            }
        }
        let (to, from) = (domain.name.as_str(), against.name.as_str());
        for found in messages.iter().filter_map(|messages| messages.between(from, to)) {
            pieces += found.pieces;
            brackets.extend(found.brackets);
        }
        let nominal = Ratio::new(against.counter.frequency.hertz, domain.counter.frequency.hertz);
        let rho = query.rho.map_or_else(|| rho_of(manifest, &pair), Ok)?;
        let at = || brackets.iter().map(|bracket| bracket.at.get());
        let (first, last) = (at().min().unwrap_or(0), at().max().unwrap_or(0));
        let middle = (i128::from(first) + (i128::from(last) - i128::from(first)) / 2) as i64;
        let model = Model::new(rho, nominal.map_err(Error::work)?, Tick::<Local>::new(middle));
        Ok(Told { pair: PairEvidence { local, reference, brackets, model }, pieces, first, last })
    }

    /// The clock maps of all pairs, without the nodes that contradict the others.
    fn close(&mut self, told: &[Told]) -> Result<(), Error> {
        let mut left_out: Vec<usize> = Vec::new();
        loop {
            let kept = |told: &&Told| ![told.pair.local, told.pair.reference].iter().any(|end| left_out.contains(end));
            let kept: Vec<&Told> = told.iter().filter(kept).collect();
            match self.try_closed(&kept) {
                Ok((maps, summaries)) => {
                    (self.maps, self.summaries) = (maps, summaries);
                    return Ok(());
                }
                Err(ClosureError::Unusable { pair: (local, reference), error }) => {
                    let [domain, reference] = [local, reference].map(|node| self.nodes[node].domain());
                    return Err(Error::work(format!("{domain} against {reference}: {error}")));
                }
                Err(ClosureError::Conflict(conflict)) => {
                    let text = self.said(&conflict);
                    match conflict.culprit {
                        Some(culprit) if culprit != 0 && left_out.len() < MOST_CULPRITS => {
                            left_out.push(culprit);
                            self.culprits.push((self.nodes[culprit].name.to_string(), text));
                        }
                        _ => return Err(Error::finding(text)),
                    }
                }
            }
        }
    }

    #[allow(clippy::type_complexity, reason = "both halves go into fields of the same name")]
    fn try_closed(&self, told: &[&Told]) -> Result<(Vec<(usize, usize, ClockMap)>, Vec<PairSummary>), ClosureError> {
        let domains = Domains::new(self.nodes.len(), told.iter().map(|told| told.pair.clone()).collect())?;
        let (mut maps, mut summaries) = (Vec::new(), Vec::new());
        for reference in 0..self.nodes.len() {
            for closed in domains.toward(reference).map_err(ClosureError::Conflict)? {
                let (local, Some(clock_map)) = (closed.local, closed.clock_map) else { continue };
                let found = told.iter().find(|told| (told.pair.local, told.pair.reference) == (local, reference));
                let Some(told) = found else { continue };
                let ticks = told.ticks().or(closed.ticks.map(|(first, last)| (first.get(), last.get())));
                let ways = closed.ways.iter().map(|(way, _)| way.iter().map(|&at| self.nodes[at].domain()).collect());
                summaries.push(PairSummary {
                    domain: self.nodes[local].domain(),
                    reference: self.nodes[reference].domain(),
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

    fn said(&self, conflict: &Conflict) -> String {
        let name = |node: usize| self.nodes[node].domain().to_string();
        /// As many are named; they may be hundreds.
        const NAMED: usize = 4;
        let mut pairs: Vec<String> = conflict
            .pairs
            .iter()
            .map(|&(local, reference)| format!("{} and {}", name(local), name(reference)))
            .collect();
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
        format!("expected nodes whose evidence agrees, found a contradiction between {}: {what}", pairs.join(", "))
    }

    /// The clock map of a node's counter to the reference by all evidence.
    pub(crate) fn to_reference(&self, node: &str) -> Option<(&ClockMap, &PairSummary)> {
        let local = self.nodes.iter().position(|known| known.name.as_str() == node)?;
        let at = self.maps.iter().position(|&(from, to, _)| (from, to) == (local, 0))?;
        Some((&self.maps[at].2, &self.summaries[at]))
    }

    /// Why a node's relations are left out.
    pub(crate) fn culprit(&self, node: &str) -> Option<&str> {
        self.culprits.iter().find(|(name, _)| name == node).map(|(_, text)| text.as_str())
    }

    /// The clock maps between two nodes neither of which is the reference: domain, reference.
    pub(crate) fn between(&self) -> impl Iterator<Item = (&str, &str, &ClockMap)> {
        let maps = self.maps.iter().filter(|(local, reference, _)| *local != 0 && *reference != 0);
        let name = |node: usize| self.nodes[node].name.as_str();
        maps.map(move |(local, reference, clock_map)| (name(*local), name(*reference), clock_map))
    }
}

impl Told {
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

fn turned(pair: &Pair) -> Pair {
    Pair { reference: pair.domain.clone(), domain: pair.reference.clone() }
}
