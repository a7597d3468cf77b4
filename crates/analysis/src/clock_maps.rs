//! How well every node's counter is known in ticks of the reference: evidence in, clock maps out.
//!
//! Evidence between two nodes comes from named sources: the probes' exchanges, application messages, kernel
//! time-stamps of those messages. Each can be left out; what each gives by itself is shown next to what all give
//! together. More evidence never widens an interval.

use std::collections::{BTreeMap, BTreeSet};

use tickscope_bracket::{Bracket, ClockMap, Cone, Error as BracketError, ReadingWidths, Rho};
use tickscope_store::{Node, Pair, Run};
use tickscope_tick::{Label, Local, Place, Source, Tick, fraction_down, fraction_up};
use tickscope_trace::{Clock, CounterPair, Layout};

use crate::assumption::Assumption;
use crate::auxiliary_clocks::AuxiliaryClocks;
use crate::closure::{PairSummary, Web};
use crate::counters::{Counters, DeclaredRate};
use crate::declared_rho::rho_of;
use crate::domains;
use crate::error::Error;
use crate::evidence::{
    AllEvidence, Evidence, KernelStamped, Messages, count, message_pairs, once, reading_ticks, width_of,
};
use crate::figures::ClockMapCurve;
use crate::messages::{MessagePair, Told, own_send};
use crate::query::Query;

/// How well a node's counter is known in ticks of the reference.
#[derive(Debug)]
pub struct ClockMapSummary {
    /// The domain, `node.counter`.
    pub domain: Label,
    /// Under which rho.
    pub rho: Rho,
    /// How many pieces of evidence.
    pub brackets: usize,
    /// Half the interval's width at the median over the run, in ticks of the reference.
    pub half_width_ticks: Option<u64>,
    /// Half the shortest round trip of the probes, the peer's turnaround taken off.
    pub half_round_trip_ticks: Option<i64>,
    /// The same half-width under other rho, by preset.
    pub other_rho: Vec<(Rho, Option<u64>)>,
    /// Contribution of each source of evidence.
    pub sources: Vec<SourceSummary>,
    /// Slopes of the cone, reference ticks a local tick.
    pub slopes: (f64, f64),
    /// How far the rate was taken to lie from the ratio of the declared frequencies, parts per million.
    pub prior_ppm: u32,
    /// True if the evidence leaves the rate as open as that: then the prior carries a slope, and with it the bounds.
    pub rests_on_prior: bool,
}

/// The rate that durations within the nodes of a counter rest on which nothing relates to the reference.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RateAlone {
    /// The domain, `node.counter`.
    pub domain: Label,
    /// How far its rate wanders.
    pub rho: Rho,
    /// How far its rate may lie from the ratio of the declared frequencies, parts per million.
    pub prior_ppm: u32,
}

/// Contribution of one source of evidence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceSummary {
    /// Name of the [`Source`].
    pub name: &'static str,
    /// How many pieces of evidence.
    pub brackets: usize,
    /// The half-width that it gives alone; `None`: it does not bound both sides.
    pub alone_ticks: Option<u64>,
    /// The half-width that the others give without it; `None`: they do not bound both sides.
    pub without_ticks: Option<u64>,
    /// Counts of unused evidence, by reason.
    pub unused: Vec<(&'static str, u64)>,
}

/// Where every node's clock comes from.
pub(crate) struct Related {
    pub(crate) clocks: Vec<Clock>,
    pub(crate) of_node: Vec<(String, usize)>,
    pub(crate) own: AuxiliaryClocks,
    pub(crate) clock_maps: Vec<ClockMapSummary>,
    /// Clock maps between two nodes neither of which is the reference.
    pub(crate) between: Vec<CounterPair>,
    /// Every pair of counters, where several nodes narrow each other.
    pub(crate) pairs: Vec<PairSummary>,
    /// Nodes whose relations are left out since they contradict all others, a finding each.
    pub(crate) culprits: Vec<String>,
    /// Assumptions behind "each message was sent once".
    pub(crate) sent_once: Vec<Assumption>,
    /// Assumptions behind "these two nodes read one counter".
    pub(crate) one_counter: Vec<Assumption>,
    /// Nodes that nothing relates to the reference, a sentence each.
    pub(crate) unrelated: Vec<String>,
    /// Their counters, and what durations within them rest on.
    pub(crate) alone: Vec<RateAlone>,
    pub(crate) refused: Vec<tickscope_store::Error>,
}

/// A clock for every node of the layout: the reference's own, shared with it, or through a clock map.
///
/// `curves`: if given, receives the plot data of each clock map.
pub(crate) fn relate(
    run: &Run,
    layout: &Layout,
    query: &Query,
    mut curves: Option<&mut Vec<ClockMapCurve>>,
) -> Result<Related, Error> {
    let manifest = run.manifest();
    let counters = Counters::of(manifest)?;
    let Gathered { own, sent_once, evidence, refused } = Gathered::of(run, &counters, Some(layout), query)?;
    let web = Web::of(manifest, &counters, &evidence, query, &pairs_of_stages(layout, &counters))?;
    let mut related = Related {
        clocks: vec![Clock::Reference],
        of_node: Vec::new(),
        own,
        clock_maps: Vec::new(),
        between: Vec::new(),
        pairs: web.summaries.clone(),
        culprits: web.culprits.iter().map(|(_, finding)| finding.clone()).collect(),
        sent_once,
        one_counter: evidence.one_counters(manifest, &counters, Some(layout))?,
        unrelated: Vec::new(),
        alone: Vec::new(),
        refused,
    };
    let asked = Asked { run, layout, query, counters: &counters, evidence: &evidence, web: &web };
    for counter in 0..counters.count() {
        if counters.nodes(counter).iter().any(|node| is_in(layout, node)) {
            related.add(counter, &asked, curves.as_deref_mut())?;
        }
    }
    related.add_between(&counters, &web);
    Ok(related)
}

/// Counters up to which the kernel's stamps of all pairs are evidence where clocks alone are asked for.
const MOST_STAMPED: usize = 12;

/// All that a run's files say of its counters.
pub(crate) struct Gathered {
    /// Clocks that stamps were read from, other than the counters.
    own: AuxiliaryClocks,
    /// Assumptions behind "each message was sent once".
    sent_once: Vec<Assumption>,
    pub(crate) evidence: AllEvidence,
    /// Files that could not be read.
    pub(crate) refused: Vec<tickscope_store::Error>,
}

impl Gathered {
    /// The evidence between any two counters. `layout`: the stamps whose clocks count, and which of them vouch for
    /// messages; `None`: nothing was stamped but the probes.
    pub(crate) fn of(run: &Run, counters: &Counters, layout: Option<&Layout>, query: &Query) -> Result<Self, Error> {
        let manifest = run.manifest();
        let (channels, events) = (run.channels()?, run.events()?);
        // What cannot be read may tell of a lost stamp, or of a clock that was set: then no message is evidence.
        let whole = channels.refused.is_empty() && events.refused.is_empty();
        let (channels, events_refused, events) = (channels.found, events.refused, events.found);
        // Every pair that is asked for is a scan over its nodes' stamps.
        let all = layout.is_none() && counters.count() <= MOST_STAMPED;
        let stamped = if all { KernelStamped::All } else { KernelStamped::OfReference };
        let pairs = message_pairs(manifest, &channels, stamped)?;
        let stamped = layout.into_iter().flat_map(|layout| layout.points().iter().map(|point| &point.place));
        let sent = pairs.iter().filter(|_| whole).flat_map(|(pair, _)| [&pair.from, &pair.to]);
        let stamped = stamped.chain(sent);
        domains::expect_one_domain_each(run, stamped.clone(), &channels)?;
        let own = AuxiliaryClocks::of(run, stamped, &channels, &events, query)?;
        if let Some(refused) = events_refused.into_iter().next().filter(|_| !own.is_empty()) {
            return Err(refused.into());
        }
        let collided = if whole { collided_ids(run, &pairs)? } else { Vec::new() };
        let (mut messages, mut sent_once) = (Vec::new(), Vec::new());
        for (pair, source) in pairs {
            // A probe's nonce is drawn for one exchange: no second copy of it was ever sent.
            let vouching = layout.filter(|_| source == Source::Messages);
            let own_send = vouching.and_then(|layout| own_send(&pair.from, layout, &channels));
            let rests_on = (source == Source::Messages && whole).then(|| once(&pair, own_send.as_ref(), &own));
            let found = if whole {
                let width = |place: &Place| width_of(manifest, place.node.as_str());
                let widths = [width(&pair.from)?, width(&pair.to)?];
                // What programs keep originals of are ids of their own, no nonces.
                let collided: &[i64] = if source == Source::Messages { &collided } else { &[] };
                let told = Told { channels: &channels, events: &events, collided };
                Messages::of(run, pair, source, own_send.as_ref(), &own, widths, told)?
            } else {
                let unused = vec![("source, since not all files could be read", 1)];
                Messages { pair, source, ticks: Vec::new(), unused }
            };
            if query.admit(found.source) {
                messages.push(found);
                sent_once.extend(rests_on);
            }
        }
        let mut refused = Vec::new();
        let evidence = AllEvidence::of(run, counters, &messages, query, &mut refused)?;
        Ok(Self { own, sent_once, evidence, refused })
    }
}

/// Ids that two originals have, sorted, where a program's own messages are evidence.
fn collided_ids(run: &Run, pairs: &[(MessagePair, Source)]) -> Result<Vec<i64>, Error> {
    if pairs.iter().all(|(_, source)| *source != Source::Messages) {
        return Ok(Vec::new());
    }
    Ok(run.collisions()?.into_iter().map(|collision| collision.id).collect())
}

/// Every counter of the layout with the reference, and those that a stage lies between; the domain first.
fn pairs_of_stages(layout: &Layout, counters: &Counters) -> BTreeSet<(usize, usize)> {
    let of = |point: usize| {
        let node = &layout.points()[point].place.node;
        (0..counters.count()).find(|&counter| counters.nodes(counter).iter().any(|known| known.name == *node))
    };
    let of_points: Vec<Option<usize>> = (0..layout.points().len()).map(of).collect();
    let stages = layout.stages().iter().filter_map(|stage| of_points[stage.from].zip(of_points[stage.to]));
    let to_reference = of_points.iter().flatten().map(|&counter| (counter, 0));
    let all = stages.chain(to_reference).map(|(one, other)| (one.max(other), one.min(other)));
    all.filter(|(one, other)| one != other).collect()
}

fn is_in(layout: &Layout, node: &Node) -> bool {
    layout.points().iter().any(|point| point.place.node == node.name)
}

/// How a counter's rate may lie: around which value, and how far it strays.
#[derive(Clone, Copy)]
struct Drift {
    rho: Rho,
    rate: DeclaredRate,
}

/// What a node's clock is made of.
struct Asked<'a> {
    run: &'a Run,
    layout: &'a Layout,
    query: &'a Query,
    counters: &'a Counters<'a>,
    evidence: &'a AllEvidence,
    web: &'a Web,
}

impl Related {
    /// Adds the clock of a counter's nodes: the reference's own, or through the clock map that the evidence gives.
    fn add(&mut self, counter: usize, asked: &Asked, curves: Option<&mut Vec<ClockMapCurve>>) -> Result<(), Error> {
        let Asked { counters, query, web, .. } = *asked;
        let nodes = counters.nodes(counter).iter();
        let clock = if counter == 0 { 0 } else { self.clocks.len() };
        self.of_node.extend(nodes.map(|node| (node.name.to_string(), clock)));
        if counter == 0 {
            return Ok(());
        }
        let (pair, rate) = (counters.pair(counter, 0), counters.rate(counter, 0)?);
        let sources = asked.evidence.between(counter, 0);
        let declared = counters.declared_rho(asked.run.manifest(), query, (counter, 0))?;
        let rho = match sources.iter().any(|source| source.pieces > 0) {
            true => declared.unwrap_or_default(),
            false => counters.rho_alone(asked.run.manifest(), counter, declared.unwrap_or_default())?,
        };
        let drift = Drift { rho, rate };
        if web.is_culprit(counter) {
            return self.refute(counter, asked, drift);
        }
        let found = match web.to_reference(counter) {
            Some((clock_map, all)) => Ok((clock_map.clone(), of_closed(sources, &pair, drift, clock_map, all)?)),
            None => clock_map(sources, &pair, rho, rate),
        };
        let (clock_map, summary) = match found {
            Ok(found) => found,
            Err(Unmapped::Lack(lack)) => {
                let rho = counters.rho_alone(asked.run.manifest(), counter, rho)?;
                self.clocks.push(Clock::Unrelated(asked.rate_alone(counter, Drift { rho, rate }, &self.own)?));
                self.unrelated.push(lack);
                self.alone.push(RateAlone { domain: pair.domain, rho, prior_ppm: rate.prior_ppm });
                return Ok(());
            }
            // Of two counters only, either may be the wrong one: then there are no figures.
            Err(Unmapped::Contradiction(finding)) if counters.count() == 2 => return Err(Error::finding(finding)),
            Err(Unmapped::Contradiction(finding)) => {
                self.culprits.push(finding);
                return self.refute(counter, asked, drift);
            }
        };
        if let Some(curves) = curves {
            let evidence = sources.iter().map(|source| (source.source.name(), source.brackets.as_slice()));
            curves.extend(ClockMapCurve::of(&pair, &evidence.collect::<Vec<_>>(), &clock_map));
        }
        self.clocks.push(Clock::Related(clock_map));
        self.clock_maps.push(summary);
        Ok(())
    }

    /// Adds the clock of a counter whose evidence contradicts itself or that of all others.
    fn refute(&mut self, counter: usize, asked: &Asked, drift: Drift) -> Result<(), Error> {
        self.clocks.push(Clock::Refuted(asked.rate_alone(counter, drift, &self.own)?));
        self.unrelated.push(left_out(&asked.counters.pair(counter, 0)));
        Ok(())
    }

    /// Adds the clock maps between two counters of the layout, neither of which is the reference.
    fn add_between(&mut self, counters: &Counters, web: &Web) {
        let index = |counter: usize| {
            let name = counters.name(counter).name.as_str();
            self.of_node.iter().find(|(node, _)| node == name).map(|&(_, clock)| clock)
        };
        let found = web.between().filter_map(|(local, reference, clock_map)| {
            let (local, reference) = (index(local)?, index(reference)?);
            Some(CounterPair { local, reference, clock_map: clock_map.clone() })
        });
        self.between = found.collect();
    }
}

impl Asked<'_> {
    /// A clock map that holds of a counter up to an unknown shift: its zero is the reference's.
    fn rate_alone(&self, counter: usize, Drift { rho, rate }: Drift, own: &AuxiliaryClocks) -> Result<ClockMap, Error> {
        let anchor = self.any_tick(counter, own)?;
        let zero = Bracket::new(Some(0), anchor, Some(0));
        ClockMap::new(&[zero], &rate.model(rho, Tick::new(anchor))).map_err(Error::work)
    }

    /// A tick at which a counter stood during the run: of its evidence, or of a stamp; 0 where it has neither.
    fn any_tick(&self, counter: usize, own: &AuxiliaryClocks) -> Result<i64, Error> {
        if let Some(tick) = self.evidence.any_tick(counter) {
            return Ok(tick);
        }
        let nodes = self.counters.nodes(counter);
        let places = self.layout.points().iter().map(|point| &point.place);
        let places = places.filter(|place| nodes.iter().any(|node| node.name == place.node));
        for place in places.filter(|place| own.at(place).is_none()) {
            let stamps = self.run.stamps(place)?;
            let Some(segment) = stamps.segments().iter().find(|segment| !segment.is_empty()) else { continue };
            if let Some(&tick) = segment.read_group(0)?.tick.first() {
                return Ok(tick);
            }
        }
        Ok(0)
    }
}

/// Clock maps of a counter whose clock map rests on the evidence of several pairs; what each source of its own gives
/// is that of its own.
fn of_closed(
    sources: &[Evidence],
    pair: &Pair,
    Drift { rho, rate }: Drift,
    closed: &ClockMap,
    all: &PairSummary,
) -> Result<ClockMapSummary, Error> {
    let own = clock_map(sources, pair, rho, rate).ok().map(|(_, summary)| summary);
    let (rho, cone) = (all.rho, closed.cone());
    let (other_rho, own_sources) = own.map_or_else(Default::default, |own| (own.other_rho, own.sources));
    Ok(ClockMapSummary {
        domain: pair.domain.clone(),
        rho,
        brackets: sources.iter().map(|source| source.pieces).sum(),
        half_width_ticks: all.closed_half_width_ticks,
        half_round_trip_ticks: sources.iter().find_map(|source| source.half_round_trip_ticks),
        other_rho,
        sources: own_sources,
        slopes: (fraction_down(cone.slowest(), ONE), fraction_up(cone.fastest(), ONE)),
        prior_ppm: closed.model().prior_ppm,
        rests_on_prior: closed.rests_on_prior(),
    })
}

/// The clock map through which ticks of `domain` (`node.counter`) become ticks of the run's reference.
pub fn clock_map_of(run: &Run, domain: &str, query: &Query) -> Result<ClockMap, Error> {
    let layout = run.layout()?;
    let related = relate(run, &layout, query, None)?;
    let node = run.manifest().nodes.iter().find(|node| node.domain().to_string() == domain);
    let index = |node: &Node| related.of_node.iter().find(|(name, _)| *name == node.name.as_str()).map(|&(_, at)| at);
    match node.and_then(index).map(|index| &related.clocks[index]) {
        Some(Clock::Related(clock_map)) => Ok(clock_map.clone()),
        Some(Clock::Unrelated(_) | Clock::Refuted(_)) => Err(Error::work(related.unrelated.join(". "))),
        _ => {
            let known: Vec<_> = related.clock_maps.iter().map(|summary| summary.domain.to_string()).collect();
            let known = if known.is_empty() { "no other domain".into() } else { known.join(", ") };
            let reference = &run.manifest().reference;
            Err(Error::work(format!(
                "expected a domain that is related to {reference}: {known}; found '{domain}'. Nodes that share one counter \
                 need no clock map"
            )))
        }
    }
}

/// Half the interval's width at the median, in ticks of `pair.reference`, that the probes of two nodes give so far;
/// `None`: they do not bound both sides yet.
pub fn probed_half_width(run: &Run, pair: &Pair) -> Result<Option<u64>, Error> {
    let manifest = run.manifest();
    let of = |label: &Label| manifest.nodes.iter().find(|node| node.domain() == *label);
    let (Some(reference), Some(node)) = (of(&pair.reference), of(&pair.domain)) else { return Ok(None) };
    let rate = DeclaredRate::of(&node.counter.frequency, &reference.counter.frequency)?;
    let [local_ticks, reference_ticks] = [node, reference].map(|node| reading_ticks(manifest, node));
    let evidence = Evidence::of_probes(&run.brackets(pair)?.found, ReadingWidths { local_ticks, reference_ticks })?;
    if evidence.brackets.is_empty() {
        return Ok(None);
    }
    match clock_map(&[evidence], pair, rho_of(manifest, pair)?, rate) {
        Ok((_, summary)) => Ok(summary.half_width_ticks),
        Err(Unmapped::Lack(_)) => Ok(None),
        Err(Unmapped::Contradiction(finding)) => Err(Error::finding(finding)),
    }
}

fn left_out(Pair { reference, domain }: &Pair) -> String {
    format!(
        "expected evidence of {domain} that agrees with all other, found a contradiction: stages within {}, and between \
         it and others, such as {}, are refused. See the finding, mend that node's clock, and run again",
        domain.node, reference.node
    )
}

fn no_evidence(Pair { reference, domain }: &Pair, rho: Rho, prior_ppm: u32) -> String {
    format!(
        "expected brackets of {domain} against {reference}, found none: stages between {} and {} are refused, and \
         those within {} known only by its declared frequency, to {prior_ppm} ppm of their length and a rho of {rho}. Was the probe's port reachable? Were the files refused, \
         or the sources left out? Programs collected on several machines need probes between them (tickscope run), or \
         messages that the run declares as evidence",
        domain.node, reference.node, domain.node,
    )
}

/// Why a counter has no clock map.
#[derive(Debug)]
enum Unmapped {
    /// Evidence is missing, or cannot be used: nothing is wrong with the counter.
    Lack(String),
    /// The evidence contradicts itself.
    Contradiction(String),
}

fn clock_map(
    sources: &[Evidence],
    pair: &Pair,
    rho: Rho,
    rate: DeclaredRate,
) -> Result<(ClockMap, ClockMapSummary), Unmapped> {
    let brackets: Vec<Bracket> = sources.iter().flat_map(|source| source.brackets.iter().copied()).collect();
    let at = || brackets.iter().map(|bracket| i128::from(bracket.at.get()));
    let (Some(first), Some(last)) = (at().min(), at().max()) else {
        return Err(Unmapped::Lack(no_evidence(pair, rho, rate.prior_ppm)));
    };
    let along = |share: i128, of: i128| Tick::<Local>::new((first + (last - first) * share / of) as i64);
    let anchor = along(1, 2);
    let built = |brackets: &[Bracket], rho| ClockMap::new(brackets, &rate.model(rho, anchor));
    let clock_map = built(&brackets, rho).map_err(|error| {
        let wider = rate.with_prior(rate.prior_ppm.max(WIDER_PRIOR_PPM));
        let fits = ClockMap::new(&brackets, &wider.model(rho, anchor)).is_ok();
        refuse(pair, &error, fits.then_some(rate.prior_ppm))
    })?;
    let half_width = |clock_map: &ClockMap| {
        const SAMPLES: i128 = 1000;
        clock_map.half_widths((0..=SAMPLES).map(|step| along(step, SAMPLES))).ok().and_then(|widths| widths.median())
    };
    let width_of = |brackets: &[Bracket], rho| built(brackets, rho).ok().as_ref().and_then(half_width);
    let other_rho = ["unknown", "server-room"].into_iter().filter_map(|preset| preset.parse::<Rho>().ok());
    let other_rho = other_rho.filter(|other| other.ppb() != rho.ppb());
    let other_rho = other_rho.map(|other| (other, width_of(&brackets, other))).collect();
    let cone = clock_map.cone();
    let summary = ClockMapSummary {
        domain: pair.domain.clone(),
        rho,
        brackets: sources.iter().map(|source| source.pieces).sum(),
        half_width_ticks: half_width(&clock_map),
        half_round_trip_ticks: sources.iter().find_map(|source| source.half_round_trip_ticks),
        other_rho,
        sources: by_source(sources, |brackets| width_of(brackets, rho)),
        slopes: (fraction_down(cone.slowest(), ONE), fraction_up(cone.fastest(), ONE)),
        prior_ppm: clock_map.model().prior_ppm,
        rests_on_prior: clock_map.rests_on_prior(),
    };
    Ok((clock_map, summary))
}

/// Contribution of each source: the bound it gives alone, and the bound without it.
fn by_source(sources: &[Evidence], half_width: impl Fn(&[Bracket]) -> Option<u64>) -> Vec<SourceSummary> {
    let mut names: BTreeMap<Source, SourceSummary> = BTreeMap::new();
    for source in sources {
        let summary = names.entry(source.source).or_insert_with(|| SourceSummary {
            name: source.source.name(),
            brackets: 0,
            alone_ticks: None,
            without_ticks: None,
            unused: Vec::new(),
        });
        summary.brackets += source.pieces;
        for &(reason, more) in &source.unused {
            count(&mut summary.unused, reason, more);
        }
    }
    let only = |chosen: &dyn Fn(Source) -> bool| {
        let chosen = sources.iter().filter(|source| chosen(source.source));
        half_width(&chosen.flat_map(|source| source.brackets.iter().copied()).collect::<Vec<_>>())
    };
    let several = names.len() > 1;
    for (&name, summary) in &mut names {
        summary.alone_ticks = only(&|other| other == name);
        summary.without_ticks = several.then(|| only(&|other| other != name)).flatten();
    }
    let mut summaries: Vec<_> = names.into_values().collect();
    summaries.sort_unstable_by_key(|summary| summary.name);
    summaries
}

/// A slope of 1.
const ONE: i128 = 1 << Cone::FRACTION_BITS;

/// A rate further from the declared ratio than this is no miscalibration.
const WIDER_PRIOR_PPM: u32 = 20_000;

/// `contradicted_ppm`: the prior, where the evidence fits the same rho at a rate further from what the frequencies
/// declare.
fn refuse(pair: &Pair, error: &BracketError, contradicted_ppm: Option<u32>) -> Unmapped {
    let Pair { reference, domain } = pair;
    let BracketError::Inconsistent(_) = error else {
        let (one, other) = (&domain.node, &reference.node);
        return Unmapped::Lack(format!(
            "{domain} against {reference}: {error}. Until then stages between {one} and {other} are refused"
        ));
    };
    let prior = contradicted_ppm.map(|prior_ppm| {
        format!(
            " All of it fits this rho at a rate more than {prior_ppm} ppm off the ratio of the declared frequencies: that prior is \
             contradicted, not rho. Correct the nodes' counter.frequency.hertz in run.json."
        )
    });
    let prior = prior.unwrap_or_default();
    Unmapped::Contradiction(format!("{domain} against {reference}: {error}{prior}"))
}
