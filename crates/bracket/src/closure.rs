//! Several domains at once: what the clock maps of other pairs say about one (`docs/proof.md`, "Several domains").
//!
//! At one instant of a source domain, every clock map takes an interval of one domain to an interval of another, and
//! all of them are true at once. So each domain stands in the intersection over all chains of maps: the closure of a
//! difference-bound matrix. What chains say at some instants is kept as *derived brackets* beside a pair's own, and the
//! pair's [`ClockMap`] is made of both. So a closed clock map is asked as any other, holds for every set of true maps
//! that all models and brackets allow, and is never wider than the direct one: more brackets never widen an interval.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tickscope_tick::{Interval, Local, Reference, Tick};

use crate::{Bracket, ClockMap, Error, Finding, Model, Ratio};

mod instants;

/// Evidence of two of several domains: brackets of `local` against `reference`, and the model of that pair.
#[derive(Clone, Debug)]
pub struct PairEvidence {
    /// Index of the domain whose ticks are mapped.
    pub local: usize,
    /// Index of the domain whose ticks they become.
    pub reference: usize,
    /// May be empty, or bound one side only: then only the ways through other domains bound the other.
    pub brackets: Vec<Bracket>,
    /// The model of the map from `local` to `reference`.
    pub model: Model,
}

/// Several domains, and the clock map of each pair that has evidence.
#[derive(Clone, Debug)]
pub struct Domains {
    count: usize,
    pairs: Vec<Known>,
    /// By domain: the steps that lead away from it.
    steps: Vec<Vec<Step>>,
    /// At most so many instants of a reference are compared; `None`: as many as [`WORK`] allows.
    most_instants: Option<usize>,
}

#[derive(Clone, Debug)]
struct Known {
    evidence: PairEvidence,
    /// `None`: the brackets of this pair do not bound both sides.
    direct: Option<ClockMap>,
}

/// From one domain to another through a pair's clock map, or through its inverse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Step {
    pair: usize,
    to: usize,
    forward: bool,
}

/// A clock map that rests on the evidence of all pairs.
#[derive(Clone, Debug)]
pub struct Closed {
    /// The domain whose ticks are mapped.
    pub local: usize,
    /// The domain whose ticks they become.
    pub reference: usize,
    /// `None`: neither the pair's own brackets nor a way through others bounds both sides.
    pub clock_map: Option<ClockMap>,
    /// The first and the last tick of `local` that it has evidence at, others' included; `None`: it has none.
    pub ticks: Option<(Tick<Local>, Tick<Local>)>,
    /// The chains of domains, both ends included, that narrowed the direct interval at most instants, and at how many
    /// ends of it. Empty: nothing did.
    pub ways: Vec<(Vec<usize>, usize)>,
}

/// Evidence of several pairs that no set of clocks satisfies together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// The pairs that contradict each other, or themselves: `(local, reference)`.
    pub pairs: Vec<(usize, usize)>,
    /// The one domain without which the rest is consistent, if there is exactly one.
    pub culprit: Option<usize>,
    /// Those without each of which the rest is consistent; where the rest is so without none alone, all that contradict
    /// each other. One of them, or what is told of it, is wrong.
    pub suspects: Vec<usize>,
}

/// Why several domains have no clock maps.
#[derive(Clone, Debug)]
pub enum ClosureError {
    /// One pair's evidence or model cannot be used, whatever the others say.
    Unusable {
        /// `(local, reference)`.
        pair: (usize, usize),
        /// Why.
        error: Error,
    },
    /// The evidence contradicts itself.
    Conflict(Conflict),
}

/// Where a domain stands at an instant of the source, and the last step of the ways that say so.
#[derive(Clone, Copy, Debug)]
struct Stand {
    lo: i64,
    hi: i64,
    lo_by: Option<(usize, Step)>,
    hi_by: Option<(usize, Step)>,
}

/// Pairs that contradict each other: `(local, reference)`.
type Pairs = Vec<(usize, usize)>;

/// All domains at one instant.
type Stands = Vec<Option<Stand>>;

/// As many ways are named.
const WAYS: usize = 8;

impl Domains {
    /// Domains `0..count` with what is known of their pairs. A pair may be given once, in either orientation.
    ///
    /// Errors: a pair's evidence that cannot be used; pairs that contradict themselves, with the one domain that all
    /// of them share.
    pub fn new(count: usize, pairs: Vec<PairEvidence>) -> Result<Self, ClosureError> {
        let (mut known, mut broken) = (Vec::with_capacity(pairs.len()), Vec::new());
        for evidence in pairs {
            let pair = (evidence.local, evidence.reference);
            match expected_pair(count, pair).and_then(|()| directly(&evidence.brackets, &evidence.model)) {
                Ok(Ok(direct)) => known.push(Known { evidence, direct }),
                Ok(Err(_)) => broken.push(pair),
                Err(error) => return Err(ClosureError::Unusable { pair, error }),
            }
        }
        let mut domains = Self { count, pairs: known, steps: vec![Vec::new(); count], most_instants: None };
        for (pair, Known { evidence, direct }) in domains.pairs.iter().enumerate() {
            let (local, reference) = (evidence.local, evidence.reference);
            if direct.is_some() {
                domains.steps[local].push(Step { pair, to: reference, forward: true });
                domains.steps[reference].push(Step { pair, to: local, forward: false });
            }
        }
        if broken.is_empty() { Ok(domains) } else { Err(ClosureError::Conflict(domains.blame(broken))) }
    }

    /// Compares the domains at no more than so many instants: more are never wrong, and narrower.
    pub fn with_instants(self, most: usize) -> Self {
        Self { most_instants: Some(most.max(2)), ..self }
    }

    /// The clock map of a pair's own brackets, in the orientation in which it was given.
    pub fn direct(&self, local: usize, reference: usize) -> Option<&ClockMap> {
        self.known(local, reference)?.direct.as_ref()
    }

    fn known(&self, local: usize, reference: usize) -> Option<&Known> {
        self.pairs.iter().find(|known| (known.evidence.local, known.evidence.reference) == (local, reference))
    }

    /// The clock maps to `reference` of every pair that was given against it, each as narrow as all evidence together
    /// makes it; sorted by domain.
    pub fn toward(&self, reference: usize) -> Result<Vec<Closed>, Conflict> {
        self.toward_without(reference, None).map_err(|pairs| self.blame(pairs))
    }

    /// The clock maps to each domain in turn, as [`Domains::toward`], on all processors.
    pub fn toward_each(&self) -> Result<Vec<Vec<Closed>>, Conflict> {
        self.over_sources(&|source| self.toward_without(source, None)).map_err(|pairs| self.blame(pairs))
    }

    /// Does the same for every domain; of several that fail, the first one's answer.
    fn over_sources<T: Send>(&self, work: &(impl Fn(usize) -> Result<T, Pairs> + Sync)) -> Result<Vec<T>, Pairs> {
        let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(self.count));
        let done = Mutex::new(BTreeMap::new());
        let worker = || {
            loop {
                let source = next.fetch_add(1, Ordering::Relaxed);
                if source >= failed.load(Ordering::Relaxed) {
                    return;
                }
                let outcome = work(source);
                if outcome.is_err() {
                    failed.fetch_min(source, Ordering::Relaxed);
                }
                done.lock().unwrap_or_else(PoisonError::into_inner).insert(source, outcome);
            }
        };
        let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(self.count);
        std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(worker))));
        done.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
    }

    /// The same, of a contradiction only its pairs; as if one domain were not there.
    fn toward_without(&self, reference: usize, without: Option<usize>) -> Result<Vec<Closed>, Vec<(usize, usize)>> {
        let mut derived: BTreeMap<usize, Derived> = BTreeMap::new();
        let instants = self.instants_of(reference, without);
        if instants.left_out > 0 {
            self.compare_thirds(reference, without)?;
        }
        for tick in instants.ticks {
            let stands = self.at(reference, tick, without)?;
            for known in self.pairs.iter().filter(|known| known.evidence.reference == reference) {
                let local = known.evidence.local;
                if let Some(stand) = &stands[local] {
                    derived.entry(local).or_default().add(self, (reference, tick), stand, &stands);
                }
            }
        }
        let against = self.pairs.iter().filter(|known| known.evidence.reference == reference);
        let mut against: Vec<&Known> = against.filter(|known| Some(known.evidence.local) != without).collect();
        against.sort_by_key(|known| known.evidence.local);
        against
            .into_iter()
            .map(|known| known.closed(derived.remove(&known.evidence.local).unwrap_or_default()))
            .collect()
    }

    /// Where every domain stands when `source` stands at `tick`, through all chains; the pairs of a contradiction.
    ///
    /// Passes as of Bellman and Ford. Where the evidence is consistent, a chain that comes twice through one domain
    /// says no more than the same chain without the loop, so no domain is left more often than there are domains.
    fn at(&self, source: usize, tick: i64, without: Option<usize>) -> Result<Stands, Vec<(usize, usize)>> {
        let mut stands: Stands = vec![None; self.count];
        stands[source] = Some(Stand { lo: tick, hi: tick, lo_by: None, hi_by: None });
        let (mut waiting, mut left) = (VecDeque::from([source]), vec![0usize; self.count]);
        let mut waits = vec![false; self.count];
        while let Some(domain) = waiting.pop_front() {
            (left[domain], waits[domain]) = (left[domain] + 1, false);
            let Some(stand) = stands[domain] else { continue };
            if left[domain] > self.count {
                return Err(self.pairs_behind(&stands, domain));
            }
            for &step in self.steps[domain].iter().filter(|step| Some(step.to) != without) {
                let Some((lo, hi)) = self.taken((stand.lo, stand.hi), step) else { continue };
                let before = stands[step.to];
                let after = narrowed(before, (lo, hi), (domain, step));
                stands[step.to] = Some(after);
                if after.lo > after.hi {
                    return Err(self.pairs_behind(&stands, step.to));
                }
                let changed = before.is_none_or(|before| (before.lo, before.hi) != (after.lo, after.hi));
                if changed && !std::mem::replace(&mut waits[step.to], true) {
                    waiting.push_back(step.to);
                }
            }
        }
        Ok(stands)
    }

    /// An interval of one domain, taken a step; `None` where it is out of the clock map's reach.
    fn taken(&self, (lo, hi): (i64, i64), step: Step) -> Option<(i64, i64)> {
        let clock_map = self.pairs[step.pair].direct.as_ref()?;
        if step.forward {
            let held = clock_map.hold(Interval::new(Tick::new(lo), Tick::new(hi)).ok()?).ok()?;
            let interval = clock_map.placed(&held)?.interval;
            Some((interval.lo().get(), interval.hi().get()))
        } else {
            let [first, last] = [lo, hi].map(|tick| clock_map.inverse(Tick::<Reference>::new(tick)));
            Some((first.ok()?.lo().get(), last.ok()?.hi().get()))
        }
    }

    /// The pairs on both ways to a domain.
    fn pairs_behind(&self, stands: &Stands, domain: usize) -> Vec<(usize, usize)> {
        let steps = [true, false].into_iter().flat_map(|lower| self.steps_behind(stands, domain, lower));
        let pairs = steps.map(|(_, step)| self.pair_of(step.pair));
        pairs.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn pair_of(&self, pair: usize) -> (usize, usize) {
        let evidence = &self.pairs[pair].evidence;
        (evidence.local, evidence.reference)
    }

    /// The steps of the way that set one end of a domain's interval, the last first.
    fn steps_behind(&self, stands: &Stands, domain: usize, lower: bool) -> Vec<(usize, Step)> {
        let (mut steps, mut at) = (Vec::new(), domain);
        while let Some(stand) = stands[at] {
            let Some((from, step)) = (if lower { stand.lo_by } else { stand.hi_by }) else { break };
            steps.push((from, step));
            at = from;
            if steps.len() > self.count {
                break; // a loop, in evidence that contradicts itself
            }
        }
        steps
    }

    /// Names the culprit of a contradiction: the one domain without which nothing contradicts itself.
    fn blame(&self, pairs: Vec<(usize, usize)>) -> Conflict {
        let broken: Vec<_> = pairs.iter().filter(|pair| self.known(pair.0, pair.1).is_none()).copied().collect();
        let in_all = |domain: &usize| broken.iter().all(|pair| pair.0 == *domain || pair.1 == *domain);
        let named: BTreeSet<usize> = pairs.iter().flat_map(|&(local, reference)| [local, reference]).collect();
        let culprits = named.iter().copied().filter(in_all).filter(|&domain| self.is_consistent_without(domain));
        let culprits: Vec<usize> = culprits.collect();
        let culprit = culprits.first().copied().filter(|_| culprits.len() == 1);
        let suspects = if culprits.is_empty() { named.into_iter().collect() } else { culprits };
        Conflict { pairs, culprit, suspects }
    }

    fn is_consistent_without(&self, domain: usize) -> bool {
        let is_other = |source: usize| source != domain;
        let check =
            |source| if is_other(source) { self.toward_without(source, Some(domain)).map(drop) } else { Ok(()) };
        self.over_sources(&check).is_ok()
    }
}

impl Known {
    fn closed(&self, derived: Derived) -> Result<Closed, Vec<(usize, usize)>> {
        let PairEvidence { local, reference, ref brackets, ref model } = self.evidence;
        let mut ways: Vec<(Vec<usize>, usize)> = derived.ways.into_iter().collect();
        ways.sort_by_key(|(way, count)| (std::cmp::Reverse(*count), way.len()));
        ways.truncate(WAYS);
        let direct = |ways| {
            let (clock_map, ticks) = (self.direct.clone(), span(brackets));
            Ok(Closed { local, reference, clock_map, ticks, ways })
        };
        if derived.brackets.is_empty() {
            return direct(ways);
        }
        let all = [brackets.as_slice(), &derived.brackets].concat();
        let ticks = span(&all);
        // The anchor of a pair without evidence may be anywhere; one far from what others say would make slopes wide.
        let model = match ticks.filter(|_| brackets.is_empty()) {
            Some((first, last)) => Model { anchor: middle(first, last), ..*model },
            None => *model,
        };
        match directly(&all, &model) {
            Ok(Ok(clock_map)) => Ok(Closed { local, reference, clock_map, ticks, ways }),
            Ok(Err(_)) => {
                let pairs = derived.pairs.into_iter().chain([(local, reference)]);
                Err(pairs.collect::<BTreeSet<_>>().into_iter().collect())
            }
            // Derived brackets that are too far apart for one frame: the direct map is right without them.
            Err(_) => direct(Vec::new()),
        }
    }
}

/// What other pairs say about one.
#[derive(Default)]
struct Derived {
    brackets: Vec<Bracket>,
    ways: BTreeMap<Vec<usize>, usize>,
    pairs: BTreeSet<(usize, usize)>,
}

impl Derived {
    /// Adds what the ways to a domain say: when the reference stood at `tick`, the domain stood in `stand`.
    fn add(&mut self, domains: &Domains, (reference, tick): (usize, i64), stand: &Stand, stands: &Stands) {
        for (lower, by, end) in [(true, stand.lo_by, stand.lo), (false, stand.hi_by, stand.hi)] {
            let Some((from, step)) = by.filter(|&(from, _)| from != reference) else { continue };
            let steps = domains.steps_behind(stands, from, lower);
            let way = [step.to, from].into_iter().chain(steps.iter().map(|&(from, _)| from)).collect();
            *self.ways.entry(way).or_default() += 1;
            self.pairs.extend(steps.iter().map(|(_, step)| *step).chain([step]).map(|step| domains.pair_of(step.pair)));
            self.brackets.push(if lower {
                Bracket::new(None, end, Some(tick))
            } else {
                Bracket::new(Some(tick), end, None)
            });
        }
    }
}

/// The first and the last tick of brackets.
fn span(brackets: &[Bracket]) -> Option<(Tick<Local>, Tick<Local>)> {
    let at = || brackets.iter().map(|bracket| bracket.at);
    Some((at().min()?, at().max()?))
}

fn middle(first: Tick<Local>, last: Tick<Local>) -> Tick<Local> {
    let (first, last) = (i128::from(first.get()), i128::from(last.get()));
    Tick::new((first + (last - first) / 2) as i64)
}

/// A pair's clock map, nothing where its brackets do not bound both sides, or what contradicts itself in it.
fn directly(brackets: &[Bracket], model: &Model) -> Result<Result<Option<ClockMap>, Finding>, Error> {
    match ClockMap::or_finding(brackets, model) {
        Ok(Ok(clock_map)) => Ok(Ok(Some(clock_map))),
        Ok(Err(finding)) => Ok(Err(finding)),
        Err(Error::Missing { .. }) => Ok(Ok(None)),
        Err(Error::Inconsistent(inconsistency)) => Ok(Err(inconsistency.finding)),
        Err(error) => Err(error),
    }
}

fn expected_pair(count: usize, (local, reference): (usize, usize)) -> Result<(), Error> {
    if local != reference && local < count && reference < count {
        return Ok(());
    }
    Err(Error::Declaration {
        what: "pair of domains",
        expected: "two different domains of those counted",
        found: format!("{local} and {reference} of {count}"),
    })
}

fn narrowed(before: Option<Stand>, (lo, hi): (i64, i64), by: (usize, Step)) -> Stand {
    let Some(mut stand) = before else { return Stand { lo, hi, lo_by: Some(by), hi_by: Some(by) } };
    if lo > stand.lo {
        (stand.lo, stand.lo_by) = (lo, Some(by));
    }
    if hi < stand.hi {
        (stand.hi, stand.hi_by) = (hi, Some(by));
    }
    stand
}

impl Bracket {
    /// The same evidence about the inverse map: `f(at) >= before` says that the inverse at `before` is at most `at`,
    /// and mirrored.
    pub fn turned(&self) -> [Option<Bracket>; 2] {
        let at = self.at.get();
        let upper = self.before.map(|before| Bracket::new(None, before.get(), Some(at)));
        let lower = self.after.map(|after| Bracket::new(Some(at), after.get(), None));
        [upper, lower]
    }
}

impl Model {
    /// The model of the inverse map, anchored at a tick of the domain that was the reference.
    pub fn turned(&self, anchor: Tick<Local>) -> Result<Model, Error> {
        let widths =
            crate::ReadingWidths { local_ticks: self.widths.reference_ticks, reference_ticks: self.widths.local_ticks };
        let nominal = self.nominal.inverse();
        let turned = Model { nominal, prior_ppm: self.prior_ppm_either_way(), anchor, widths, ..*self };
        turned.prior().map(|_| turned)
    }

    /// A prior that holds for this map's rate and for that of its inverse.
    ///
    /// Rates within `r0 * (1 ± rho)` have inverses within `(1 ± rho) / (r0 * (1 - rho^2))`: the same rho about another
    /// constant. The prior is widened by what that constant lies off the inverse of the nominal rate, rounded up.
    pub fn prior_ppm_either_way(&self) -> u32 {
        let (million, billion) = (1_000_000u128, 1_000_000_000u128);
        let (prior, rho) = (u128::from(self.prior_ppm), u128::from(self.rho.ppb()));
        let least = (million - prior.min(million / 2)) * (billion * billion - rho * rho);
        ((million * million * billion * billion).div_ceil(least) - million) as u32
    }
}

impl Ratio {
    /// Local ticks per reference tick.
    pub fn inverse(self) -> Ratio {
        Self::lowest(self.denominator(), self.numerator())
    }
}

impl fmt::Display for ClosureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClosureError::Unusable { pair: (local, reference), error } => {
                write!(f, "domain {local} against {reference}: {error}")
            }
            ClosureError::Conflict(conflict) => conflict.fmt(f),
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected pairs of domains that agree, found a contradiction between ")?;
        for (position, (local, reference)) in self.pairs.iter().enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            write!(f, "{comma}{local} against {reference}")?;
        }
        match self.culprit {
            Some(culprit) => write!(f, "; without domain {culprit} all others agree"),
            None => f.write_str("; which domain is wrong cannot be told"),
        }
    }
}

impl std::error::Error for ClosureError {}
impl std::error::Error for Conflict {}
