//! Everything that a run's figures rest on, each with where it comes from.
//!
//! A bound is a promise under these; a figure that rests on something unsaid promises more than anybody can keep.
//! Deliberately absent: the words of an assumption, which are `assumption.rs`.

use tickscope_bracket::{Rho, RhoOrigin};
use tickscope_store::{AssumptionKind, DeclaredFrequency, Manifest, Node, Sharing};
use tickscope_tick::{Label, Ordering, Source};

use crate::assumption::{Assumption, CounterPairs, Fact, SendProof};
use crate::closure::PairSummary;
use crate::{Analysis, domains};

impl Assumption {
    /// Everything that the figures rest on.
    pub fn all(manifest: &Manifest, analysis: &Analysis) -> Vec<Self> {
        let mut all = rates(manifest, analysis);
        all.extend(auxiliary_clocks(analysis));
        all.extend(readings(manifest, analysis));
        all.extend(orderings(manifest, analysis));
        all.extend(analysis.program_readings.iter().cloned().map(|told| Self::ProgramReading { told }));
        all.extend(analysis.passages.assumptions());
        let thinned = Some(analysis.kept.thinned.clone()).filter(|points| !points.is_empty());
        all.extend(thinned.map(|points| Self::PassedOnce { points }));
        all.extend(analysis.one_counter.iter().chain(&analysis.sent_once).cloned());
        all.extend(counters(manifest));
        all.extend(domains::unusual(manifest));
        all.extend(cores(manifest));
        all.push(Self::Quantiles);
        all.extend(seconds(manifest));
        all.extend(recorded(manifest));
        all
    }

    /// Everything that the relations of machines rest on that stamp nothing.
    pub(crate) fn of_machines(manifest: &Manifest, pairs: &[PairSummary], one_counter: Vec<Self>) -> Vec<Self> {
        let mut all = rates_of(pairs.iter().filter(|pair| pair.brackets > 0).map(of_pair));
        all.extend(together(manifest.nodes.iter().map(own_reading)));
        all.extend(one_counter);
        all.extend(counters(manifest));
        all.extend(domains::unusual(manifest));
        all.extend(cores(manifest));
        all.extend(seconds(manifest));
        all.extend(recorded(manifest));
        all
    }

    /// Returns whether it matters to this run: a figure or a bound would be another if it did not hold, and nobody
    /// measured, checked or declared it, nor does the processor or the kernel vouch for it.
    pub fn matters(&self, manifest: &Manifest, analysis: &Analysis) -> bool {
        match self {
            Self::Drift { rho, .. } => rho.origin() != RhoOrigin::Number,
            Self::Rate { carries, .. } => *carries,
            Self::Slew { domain, .. } => is_stamped(analysis, domain),
            Self::SlewRate { domain, carries, .. } => *carries && is_stamped(analysis, domain),
            Self::Of { fact, .. } => fact.matters(manifest, analysis),
            Self::OrderedStamps => serves(analysis, Source::Messages),
            Self::Passages { .. }
            | Self::PassageThreads { .. }
            | Self::PassedOnce { .. }
            | Self::JoiningStarts { .. } => true,
            Self::OneCounter { brackets, .. } => *brackets == 0,
            Self::SentOnce { proof, .. } => *proof == SendProof::Nothing,
            Self::Trapped { .. } | Self::ForeignClockSource { .. } => true,
            Self::CoresUncounted => manifest.nodes.iter().any(|node| node.counter.sharing.bound_ticks != Some(0)),
            Self::Quantiles => analysis.rows.iter().any(|row| row.missing + row.refused > 0),
            Self::KernelStamps | Self::ProgramReading { .. } | Self::PlainStamps { .. } | Self::Seconds { .. } => false,
            Self::Recorded { kind, .. } => match kind {
                Some(AssumptionKind::Peers) => probes_left_a_host(manifest, analysis),
                Some(AssumptionKind::NeverMoved) => manifest.nodes.iter().any(in_a_guest),
                Some(AssumptionKind::Network | AssumptionKind::Checked | AssumptionKind::CoresProved) => false,
                Some(AssumptionKind::Other) | None => true,
            },
        }
    }
}

impl Fact {
    /// See [`Assumption::matters`].
    fn matters(&self, manifest: &Manifest, analysis: &Analysis) -> bool {
        match self {
            Self::Reading(width) => width.is_none(),
            Self::OneRate { vouched } => !vouched,
            Self::Fence { vouched } => {
                let ordered = orderings(manifest, analysis).contains(&Assumption::OrderedStamps);
                *vouched != Some(true) && (ordered || !analysis.clock_maps.is_empty())
            }
            Self::LogResolution(_) | Self::Cores { .. } => false,
        }
    }
}

/// Returns whether a shown stage has stamps of that clock.
fn is_stamped(analysis: &Analysis, domain: &Label) -> bool {
    analysis.auxiliary_clocks.iter().any(|clock| clock.domain == *domain && clock.points > 0)
}

/// Returns whether some clock map rests on evidence of that source.
fn serves(analysis: &Analysis, source: Source) -> bool {
    let mut sources = analysis.clock_maps.iter().flat_map(|clock_map| &clock_map.sources);
    sources.any(|found| found.name == source.name() && found.brackets > 0)
}

/// Returns whether probes that serve crossed more than the kernel of one host.
fn probes_left_a_host(manifest: &Manifest, analysis: &Analysis) -> bool {
    let mut boots = manifest.nodes.iter().map(|node| node.boot);
    let first = boots.next();
    boots.any(|boot| Some(boot) != first)
        && [Source::Probes, Source::KernelProbes].iter().any(|&source| serves(analysis, source))
}

fn in_a_guest(node: &Node) -> bool {
    node.counter.hypervisor.as_ref().is_some_and(|name| !name.is_empty())
}

/// Every assumption behind the figures as text: statement, and origin.
pub fn assumptions(manifest: &Manifest, analysis: &Analysis) -> Vec<(String, String)> {
    Assumption::all(manifest, analysis).iter().map(|one| (one.statement(), one.origin().words)).collect()
}

/// One sentence on the assumptions that matter to this run ([`Assumption::matters`]).
pub fn what_matters(manifest: &Manifest, analysis: &Analysis) -> String {
    let all = Assumption::all(manifest, analysis);
    let matter: Vec<String> =
        all.iter().filter(|one| one.matters(manifest, analysis)).map(Assumption::in_brief).collect();
    match matter.len() {
        0 => "These figures rest on nothing that was not checked, measured, declared or vouched for.".into(),
        1 => format!("These figures rest on one unchecked assumption: {}.", matter[0]),
        several => format!("These figures rest on {several} unchecked assumptions: {}.", matter.join("; ")),
    }
}

/// Rho and prior of every pair of counters whose evidence any figure rests on, and the rho that somebody declared for a
/// pair without; what follows from other pairs' is no assumption.
fn rates(manifest: &Manifest, analysis: &Analysis) -> Vec<Assumption> {
    let several = |pair: (&Label, &Label)| analysis.pairs.iter().any(|told| pair == (&told.domain, &told.reference));
    let one_by_one = analysis.clock_maps.iter().filter(|told| !several((&told.domain, &manifest.reference)));
    let one_by_one = one_by_one.map(|told| {
        let ends = (told.domain.clone(), manifest.reference.clone());
        (ends, told.rho, told.prior_ppm, told.rests_on_prior)
    });
    // Within a node that nothing relates, durations rest on its declared frequency.
    let alone = analysis
        .alone
        .iter()
        .map(|one| ((one.domain.clone(), manifest.reference.clone()), one.rho, one.prior_ppm, true));
    let all = analysis.pairs.iter().filter(|pair| pair.rho.origin() != RhoOrigin::Follows || pair.brackets > 0);
    rates_of(one_by_one.chain(alone).chain(all.map(of_pair)))
}

/// A pair of counters, its rho, its prior in parts per million, and whether that carries a slope.
type RateOf = ((Label, Label), Rho, u32, bool);

fn of_pair(pair: &PairSummary) -> RateOf {
    ((pair.domain.clone(), pair.reference.clone()), pair.rho, pair.prior_ppm, pair.rests_on_prior)
}

/// Rho and prior of pairs, alike ones together.
fn rates_of(all: impl Iterator<Item = RateOf>) -> Vec<Assumption> {
    let (drifts, rates): (Vec<_>, Vec<_>) =
        all.map(|(ends, rho, ppm, carries)| ((ends.clone(), rho), (ends, (ppm, carries)))).unzip();
    let assumed = drifts.into_iter().filter(|(_, rho): &(_, Rho)| rho.origin() != RhoOrigin::Follows);
    let drifts = alike(assumed).map(|(rho, pairs)| Assumption::Drift { pairs: CounterPairs(pairs), rho });
    let rates =
        alike(rates).map(|((ppm, carries), pairs)| Assumption::Rate { pairs: CounterPairs(pairs), ppm, carries });
    drifts.chain(rates).collect()
}

/// Slew, prior and stamps of the clocks other than the counters.
fn auxiliary_clocks(analysis: &Analysis) -> Vec<Assumption> {
    let mut all = Vec::new();
    for clock in &analysis.auxiliary_clocks {
        let (domain, counter) = (clock.domain.clone(), clock.counter.clone());
        let (slew, origin) = (clock.slew, clock.slew_origin.clone());
        let (ppm, carries) = (clock.prior_ppm, clock.rests_on_prior);
        all.push(Assumption::Slew { domain: domain.clone(), counter: counter.clone(), slew, origin });
        all.push(Assumption::SlewRate { domain, counter, ppm, carries });
    }
    all.extend((!all.is_empty()).then_some(Assumption::KernelStamps));
    all
}

/// How wide the readings of every counter and clock are.
fn readings(manifest: &Manifest, analysis: &Analysis) -> Vec<Assumption> {
    let of_node = |node: &'_ Node| {
        let used =
            analysis.auxiliary_clocks.iter().map(|clock| &clock.domain).filter(|domain| domain.node == node.name);
        let used = used.map(|domain| (domain.clone(), node.clocks.get(domain.clock.name()).cloned()));
        used.map(|(domain, width)| (domain.to_string(), Fact::Reading(width))).collect::<Vec<_>>()
    };
    let widths = manifest.nodes.iter().flat_map(|node| std::iter::once(own_reading(node)).chain(of_node(node)));
    let coarse = manifest
        .points
        .iter()
        .filter_map(|point| Some((point.place().to_string(), Fact::LogResolution(point.resolution_ticks?))));
    together(widths.chain(coarse))
}

/// How wide a reading of a node's counter is.
fn own_reading(node: &Node) -> (String, Fact) {
    (node.domain().to_string(), Fact::Reading(node.counter.reading.clone()))
}

/// The assumptions that `run.json` records in words.
fn recorded(manifest: &Manifest) -> impl Iterator<Item = Assumption> {
    manifest.assumptions.iter().map(|recorded| {
        let (statement, origin) = (recorded.statement.clone(), recorded.origin.clone());
        Assumption::Recorded { statement, origin, kind: recorded.kind() }
    })
}

/// Which side of the program's acts the stamps are on.
fn orderings(manifest: &Manifest, analysis: &Analysis) -> Vec<Assumption> {
    let of_layout = |name: &String| analysis.rows.iter().any(|row| row.from == *name || row.to == *name);
    let points = manifest.points.iter().map(|point| (point.place().to_string(), point.ordering));
    let (plain, ordered): (Vec<_>, Vec<_>) =
        points.filter(|(name, _)| of_layout(name)).partition(|&(_, ordering)| ordering == Ordering::Plain);
    let mut all = Vec::new();
    if !ordered.is_empty() {
        all.push(Assumption::OrderedStamps);
    }
    if !plain.is_empty() {
        all.push(Assumption::PlainStamps { points: plain.into_iter().map(|(name, _)| name).collect() });
    }
    all
}

/// Rate and fence of every counter: both make it fit to measure with.
fn counters(manifest: &Manifest) -> Vec<Assumption> {
    let fence = |node: &Node| Fact::Fence { vouched: node.counter.fence_serialises };
    let rate = |node: &Node| Fact::OneRate { vouched: node.counter.invariant };
    let all =
        manifest.nodes.iter().flat_map(|node| [rate(node), fence(node)].map(|fact| (node.domain().to_string(), fact)));
    together(all)
}

/// How far the cores of a node are known to read one counter, and where that is part of a figure.
fn cores(manifest: &Manifest) -> Vec<Assumption> {
    let checked = |node: &Node| {
        let checked = &node.counter.sharing.checked;
        Fact::Cores { checked: checked.clone(), imported: checked == Sharing::IMPORTED }
    };
    let mut all = together(manifest.nodes.iter().map(|node| (node.name.to_string(), checked(node))));
    all.extend((!manifest.cores_proved()).then_some(Assumption::CoresUncounted));
    all
}

/// How fast the reference is taken to run.
fn seconds(manifest: &Manifest) -> Option<Assumption> {
    let node = manifest.nodes.iter().find(|node| node.domain() == manifest.reference)?;
    let DeclaredFrequency { hertz, tolerance_ppm, origin } = node.counter.frequency.clone();
    Some(Assumption::Seconds { reference: manifest.reference.clone(), hertz, tolerance_ppm, origin })
}

/// One assumption for all of which the same fact holds, in the order in which it is first named.
fn together(all: impl Iterator<Item = (String, Fact)>) -> Vec<Assumption> {
    alike(all).map(|(fact, names)| Assumption::Of { names, fact }).collect()
}

/// Each fact once, with all of which it holds, in the order in which it is first named.
fn alike<T, F: PartialEq>(all: impl IntoIterator<Item = (T, F)>) -> impl Iterator<Item = (F, Vec<T>)> {
    let mut order: Vec<(F, Vec<T>)> = Vec::new();
    for (name, fact) in all {
        match order.iter_mut().find(|(known, _)| *known == fact) {
            Some((_, names)) => names.push(name),
            None => order.push((fact, vec![name])),
        }
    }
    order.into_iter()
}
