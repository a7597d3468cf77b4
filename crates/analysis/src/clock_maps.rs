//! How well every node's counter is known in ticks of the reference: evidence in, clock maps out.
//!
//! Evidence between two nodes comes from named sources: the probes' exchanges, application messages, kernel
//! time-stamps of those messages. Each can be left out; what each gives by itself is shown next to what all give
//! together. More evidence never widens an interval.

use std::collections::BTreeMap;

use tickscope_bracket::{Bracket, ClockMap, Cone, Error as BracketError, Model, Ratio, ReadingWidths, Rho};
use tickscope_store::{BracketColumns, Channel, Event, Manifest, Node, Pair, RhoKind, Run, SameBoot};
use tickscope_tick::{Label, Local, NodeName, Place, Source, Tick, fraction_down, fraction_up};
use tickscope_trace::{Clock, CounterPair, Layout};

use crate::assumptions::{Assumption, SendProof};
use crate::auxiliary_clocks::{AuxiliaryClocks, reason};
use crate::closure::{PairSummary, Web};
use crate::domains;
use crate::error::Error;
use crate::figures::ClockMapCurve;
use crate::messages::{MessagePair, Passages, own_send};
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
    pub(crate) refused: Vec<tickscope_store::Error>,
}

/// Evidence of one source about a pair of nodes.
pub(crate) struct Evidence {
    source: Source,
    /// Pieces of evidence: exchanges' halves, messages.
    pub(crate) pieces: usize,
    /// Brackets of the continuous counters behind the readings, a side each.
    pub(crate) brackets: Vec<Bracket>,
    /// Half the shortest round trip among them, the peer's turnaround taken off.
    half_round_trip_ticks: Option<i64>,
    unused: Vec<(&'static str, u64)>,
}

/// Why a bracket did not serve.
pub(crate) const UNORDERED: &str = "made of stamps that were not ordered before and after";
/// Why a message did not serve: a stamp that was lost may have been an earlier copy's.
const AFTER_A_LOSS: &str = "sent after a stamp was lost";
/// Why a message did not serve: 64 bits do not hold where the counter may have stood.
const AT_THE_END: &str = "stamps at the end of 64 bits";
/// The same, where the kernel stamps what the program sends.
const UNPROVEN: &str = "ids that the program's own stamps do not show to be sent exactly once";

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
    let reference = reference_node(manifest)?;
    let (channels, events) = (run.channels()?, run.events()?);
    // What cannot be read may tell of a lost stamp, or of a clock that was set: then no message is evidence.
    let whole = channels.refused.is_empty() && events.refused.is_empty();
    let (channels, events_refused, events) = (channels.found, events.refused, events.found);
    let pairs = message_pairs(manifest, &channels)?;
    let stamped = layout.points().iter().map(|point| &point.place);
    let sent = pairs.iter().filter(|_| whole).flat_map(|(pair, _)| [&pair.from, &pair.to]);
    let stamped = stamped.chain(sent);
    domains::expect_one_domain_each(run, stamped.clone(), &channels)?;
    let own = AuxiliaryClocks::of(run, stamped, &channels, &events, query)?;
    if let Some(refused) = events_refused.into_iter().next().filter(|_| !own.is_empty()) {
        return Err(refused.into());
    }
    let (mut messages, mut sent_once) = (Vec::new(), Vec::new());
    for (pair, source) in pairs {
        // A probe's nonce is drawn for one exchange: no second copy of it was ever sent.
        let own_send = if source == Source::Messages { own_send(&pair.from, layout, &channels) } else { None };
        let rests_on = (source == Source::Messages && whole).then(|| once(&pair, own_send.as_ref(), &own));
        let found = if whole {
            let width = |place: &Place| width_of(manifest, place.node.as_str());
            let widths = [width(&pair.from)?, width(&pair.to)?];
            Messages::of(run, pair, source, own_send.as_ref(), (&own, widths), (&channels, &events))?
        } else {
            Messages { pair, source, ticks: Vec::new(), unused: vec![("source, since not all files could be read", 1)] }
        };
        if query.admit(found.source) {
            messages.push(found);
            sent_once.extend(rests_on);
        }
    }
    let (clocks, of_node, clock_maps, refused) = (vec![Clock::Reference], Vec::new(), Vec::new(), Vec::new());
    let (one_counter, unrelated) = (Vec::new(), Vec::new());
    let mut web = Web::of(run, &messages, query)?;
    let culprits = web.culprits.iter().map(|(_, finding)| finding.clone()).collect();
    let (between, pairs) = (Vec::new(), web.summaries.clone());
    let mut related = Related {
        clocks,
        of_node,
        own,
        clock_maps,
        between,
        pairs,
        culprits,
        sent_once,
        one_counter,
        unrelated,
        refused,
    };
    related.refused.append(&mut web.refused);
    for node in &manifest.nodes {
        if layout.points().iter().any(|point| point.place.node == node.name) {
            related.add(run, [reference, node], (&messages, &web), query, curves.as_deref_mut())?;
        }
    }
    related.add_between(&web);
    Ok(related)
}

impl Related {
    /// Adds a node's clock: the reference's own, shared with it, or through the clock map that the probes' brackets and
    /// `messages` give.
    fn add(
        &mut self,
        run: &Run,
        [reference, node]: [&Node; 2],
        (messages, web): (&[Messages], &Web),
        query: &Query,
        curves: Option<&mut Vec<ClockMapCurve>>,
    ) -> Result<(), Error> {
        let manifest = run.manifest();
        if node.name == reference.name {
            self.of_node.push((node.name.to_string(), 0));
            return Ok(());
        }
        let pair = Pair { reference: manifest.reference.clone(), domain: node.domain() };
        let nominal =
            Ratio::new(reference.counter.frequency.hertz, node.counter.frequency.hertz).map_err(Error::work)?;
        let mut sources = Vec::new();
        if manifest.evidence.probes && query.admit(Source::Probes) {
            let listing = run.brackets(&pair)?;
            self.refused.extend(listing.refused);
            let [local_ticks, reference_ticks] = [node, reference].map(reading_ticks);
            sources.push(Evidence::of_probes(&listing.found, ReadingWidths { local_ticks, reference_ticks })?);
        }
        sources.extend(messages.iter().filter_map(|found| found.between(reference.name.as_str(), node.name.as_str())));
        if shares_counter(manifest, node, reference) {
            self.one_counter.push(one_counter(&pair, [reference, node], &sources)?);
            self.of_node.push((node.name.to_string(), 0));
            return Ok(());
        }
        let rho = query.rho.map_or_else(|| rho_of(manifest, &pair), Ok)?;
        let closed = web.to_reference(node.name.as_str());
        let is_bare = sources.iter().all(|source| source.brackets.is_empty());
        let why = web.culprit(node.name.as_str()).map(|_| left_out(&pair));
        if let Some(why) = why.or_else(|| (is_bare && closed.is_none()).then(|| no_evidence(&pair))) {
            self.of_node.push((node.name.to_string(), self.clocks.len()));
            self.clocks.push(Clock::Unrelated(rate_alone(rho, nominal)?));
            self.unrelated.push(why);
            return Ok(());
        }
        let (clock_map, summary) = match closed {
            Some((clock_map, all)) => (clock_map.clone(), of_closed(&sources, &pair, (rho, nominal), clock_map, all)?),
            None => clock_map(&sources, &pair, rho, nominal)?,
        };
        if let Some(curves) = curves {
            let evidence = sources.iter().map(|source| (source.source.name(), source.brackets.as_slice()));
            curves.extend(ClockMapCurve::of(&pair, &evidence.collect::<Vec<_>>(), &clock_map));
        }
        self.of_node.push((node.name.to_string(), self.clocks.len()));
        self.clocks.push(Clock::Related(clock_map));
        self.clock_maps.push(summary);
        Ok(())
    }
}

impl Related {
    /// Adds the clock maps between two nodes of the layout, neither of which is the reference.
    fn add_between(&mut self, web: &Web) {
        let index = |node: &str| self.of_node.iter().find(|(name, _)| name == node).map(|&(_, at)| at);
        let found = web.between().filter_map(|(local, reference, clock_map)| {
            let (local, reference) = (index(local)?, index(reference)?);
            Some(CounterPair { local, reference, clock_map: clock_map.clone() })
        });
        self.between = found.collect();
    }
}

/// What is known of a counter whose clock map rests on the evidence of several pairs; what each source of its own gives
/// is that of its own.
fn of_closed(
    sources: &[Evidence],
    pair: &Pair,
    (rho, nominal): (Rho, Ratio),
    closed: &ClockMap,
    all: &PairSummary,
) -> Result<ClockMapSummary, Error> {
    let cone = closed.cone();
    let own = clock_map(sources, pair, rho, nominal).ok().map(|(_, summary)| summary);
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
        Some(Clock::Unrelated(_)) => Err(Error::work(related.unrelated.join(". "))),
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
    let nominal = Ratio::new(reference.counter.frequency.hertz, node.counter.frequency.hertz).map_err(Error::work)?;
    let [local_ticks, reference_ticks] = [node, reference].map(reading_ticks);
    let evidence = Evidence::of_probes(&run.brackets(pair)?.found, ReadingWidths { local_ticks, reference_ticks })?;
    if evidence.brackets.is_empty() {
        return Ok(None);
    }
    clock_map(&[evidence], pair, rho_of(manifest, pair)?, nominal).map(|(_, summary)| summary.half_width_ticks)
}

/// The rho that the run declared between its nodes' counters.
pub fn run_rho(manifest: &Manifest) -> Result<Rho, Error> {
    let others = manifest.nodes.iter().map(Node::domain).filter(|domain| *domain != manifest.reference);
    let pair = |domain| Pair { reference: manifest.reference.clone(), domain };
    let declared = others.map(|domain| declared_for(manifest, &pair(domain))).find_map(Result::transpose);
    declared.unwrap_or(Ok((Rho::default(), String::new()))).map(|(rho, _)| rho)
}

/// The rho that holds for one pair of domains.
pub(crate) fn rho_of(manifest: &Manifest, pair: &Pair) -> Result<Rho, Error> {
    Ok(declared_for(manifest, pair)?.map_or(Rho::default(), |(rho, _)| rho))
}

/// The rho that the run declared for a pair of domains, in whichever order it names them, and where that came from.
pub(crate) fn declared_for(manifest: &Manifest, pair: &Pair) -> Result<Option<(Rho, String)>, Error> {
    let of = |reference: &Label, domain: &Label| {
        let declared_twice = manifest.rho.iter().filter(|rho| rho.reference == *reference && rho.domain == *domain);
        let found = declared_twice.max_by_key(|rho| rho.ppb); // the narrower one may be the wrong one
        found.map(|rho| Ok::<_, Error>((declared(rho)?, rho.origin.clone()))).transpose()
    };
    if let Some(found) = of(&pair.reference, &pair.domain)? {
        return Ok(Some(found));
    }
    let Some((reversed, origin)) = of(&pair.domain, &pair.reference)? else { return Ok(None) };
    let rho = of_the_inverse(reversed)?;
    Ok(Some((rho, format!("{origin}, declared for {} against {}", pair.reference, pair.domain))))
}

/// A rho that holds for the inverse of every map that `rho` holds for: the inverse of a rate within `1 ± rho` lies
/// within `1 ± rho / (1 - rho)`; rounded up.
fn of_the_inverse(rho: Rho) -> Result<Rho, Error> {
    const BILLION: u64 = 1_000_000_000;
    let ppb = u64::from(rho.ppb());
    let ppb = (ppb * BILLION).div_ceil(BILLION - ppb);
    Rho::declared_ppb(u32::try_from(ppb).map_err(Error::work)?).map_err(Error::work)
}

/// A preset keeps its name as long as the number next to it is the preset's.
pub(crate) fn declared(rho: &tickscope_store::Rho) -> Result<Rho, Error> {
    let named = match rho.kind() {
        RhoKind::Default => Some(Rho::default()),
        RhoKind::Preset => rho.origin.parse::<Rho>().ok(),
        _ => None,
    };
    match named {
        Some(named) if u64::from(named.ppb()) == rho.ppb => Ok(named),
        _ => {
            // More than 32 bits are more than any rho: refused with the same words.
            let ppb = u32::try_from(rho.ppb).ok().and_then(|ppb| Rho::declared_ppb(ppb).ok());
            ppb.ok_or_else(|| {
                let (domain, reference, most, found) = (&rho.domain, &rho.reference, Rho::MOST_PPB, rho.ppb);
                Error::work(format!(
                    "run.json: expected a rho of {domain} against {reference} of at most {most} ppb, found {found}. Restore the \
                     file, or mend its rho"
                ))
            })
        }
    }
}

pub(crate) fn reference_node(manifest: &Manifest) -> Result<&Node, Error> {
    let found = manifest.nodes.iter().find(|node| node.domain() == manifest.reference);
    found.ok_or_else(|| {
        Error::work(format!(
            "run.json: expected a node with the domain {}, found none. Restore it as it was written",
            manifest.reference
        ))
    })
}

/// Returns whether two nodes are taken to read one counter.
pub fn shares_counter(manifest: &Manifest, node: &Node, reference: &Node) -> bool {
    let one_counter = node.boot == reference.boot && node.counter.counter == reference.counter.counter;
    manifest.same_boot == SameBoot::Detect && one_counter && node.injected.is_none() && reference.injected.is_none()
}

/// Messages of one pair of points, in ticks of both nodes' counters.
pub(crate) struct Messages {
    pair: MessagePair,
    source: Source,
    /// First tick at which the message can have been sent, last at which it was received.
    ticks: Vec<(i64, i64)>,
    unused: Vec<(&'static str, u64)>,
}

/// The assumption that the messages of a pair were sent once.
fn once(pair: &MessagePair, own_send: Option<&Place>, clocks: &AuxiliaryClocks) -> Assumption {
    let proof = match own_send {
        Some(send) => SendProof::OwnStamp(send.clone()),
        None if clocks.at(&pair.from).is_some() => SendProof::Nothing,
        None => SendProof::Stamps,
    };
    Assumption::SentOnce { pair: pair.clone(), proof }
}

/// The messages that the run declares as evidence, where the query asks for them, and the kernel's stamps of the
/// probes.
fn message_pairs(manifest: &Manifest, channels: &[Channel]) -> Result<Vec<(MessagePair, Source)>, Error> {
    let mut pairs = Vec::new();
    for text in &manifest.evidence.messages {
        pairs.push((text.parse::<MessagePair>().map_err(Error::work)?, Source::Messages));
    }
    if manifest.evidence.kernel_probes {
        let nodes: Vec<NodeName> = manifest.nodes.iter().map(|node| node.name.clone()).collect();
        let between = MessagePair::of_kernel_probes(&nodes, channels);
        // Those of other pairs tell nothing of the reference.
        let reference = &reference_node(manifest)?.name;
        let told = |pair: &MessagePair| [&pair.from.node, &pair.to.node].contains(&reference);
        pairs.extend(between.into_iter().filter(told).map(|pair| (pair, Source::KernelProbes)));
    }
    Ok(pairs)
}

impl Messages {
    fn of(
        run: &Run,
        pair: MessagePair,
        source: Source,
        own_send: Option<&Place>,
        (clocks, widths): (&AuxiliaryClocks, [i64; 2]),
        (channels, events): (&[Channel], &[Event]),
    ) -> Result<Self, Error> {
        let passages = Passages::of(run, &pair, own_send, channels, events)?;
        let [from, to] = [&pair.from, &pair.to].map(|place| clocks.at(place));
        let source =
            if source == Source::Messages && from.is_some() && to.is_some() { Source::KernelMessages } else { source };
        let mut unused = vec![
            ("ids stamped more than once", passages.repeated),
            (AFTER_A_LOSS, passages.after_a_loss),
            (UNPROVEN, passages.unproven),
            ("one stamp only", passages.one_ended),
        ];
        let mut ticks = Vec::with_capacity(passages.ticks.len());
        let counted = |place: &Place, stamp, width| clocks.counted(place, stamp, width);
        for &(sent, received) in &passages.ticks {
            match (counted(&pair.from, sent, widths[0]), counted(&pair.to, received, widths[1])) {
                // An earlier copy's own stamp may have been lost only before the kernel stamped this one.
                (Ok(Some((_, sent))), Ok(_)) if passages.sends_until.is_some_and(|until| sent >= until) => {
                    count(&mut unused, AFTER_A_LOSS, 1);
                }
                (Ok(Some((first, _))), Ok(Some((_, last)))) => ticks.push((first, last)),
                (Ok(_), Ok(_)) => count(&mut unused, AT_THE_END, 1),
                (Err(refused), _) | (_, Err(refused)) => count(&mut unused, reason(refused), 1),
            }
        }
        unused.retain(|&(_, count)| count > 0);
        Ok(Self { pair, source, ticks, unused })
    }

    /// As evidence between the reference and `node`; `None` if they are of other nodes. The ticks are already of the
    /// continuous counters.
    pub(crate) fn between(&self, reference: &str, node: &str) -> Option<Evidence> {
        let ends = (self.pair.from.node.as_str(), self.pair.to.node.as_str());
        let bracket = |&(from, to): &(i64, i64)| {
            if ends.0 == reference { Bracket::new(Some(from), to, None) } else { Bracket::new(None, from, Some(to)) }
        };
        let ours = ends == (reference, node) || ends == (node, reference);
        ours.then(|| Evidence {
            source: self.source,
            pieces: self.ticks.len(),
            brackets: self.ticks.iter().map(bracket).collect(),
            half_round_trip_ticks: None,
            unused: self.unused.clone(),
        })
    }
}

impl Evidence {
    /// The probes' exchanges, raw readings.
    pub(crate) fn of_probes(columns: &BracketColumns, widths: ReadingWidths) -> Result<Self, Error> {
        let raw: Vec<Bracket> = columns.ordered().map(|(before, at, after)| Bracket::new(before, at, after)).collect();
        let sides = raw.iter().enumerate().map(|(index, bracket)| bracket.behind_readings(widths, index));
        let sides = sides.collect::<Result<Vec<_>, _>>().map_err(Error::work)?;
        let mut unused = vec![(UNORDERED, (columns.len() - raw.len()) as u64)];
        unused.retain(|&(_, count)| count > 0);
        Ok(Self {
            source: Source::Probes,
            pieces: raw.len(),
            brackets: sides.into_iter().flatten().flatten().collect(),
            half_round_trip_ticks: half_round_trip(&raw),
            unused,
        })
    }
}

/// How far a node's counter may stand beyond what it reads, in its ticks; a single one where the run does not say.
pub(crate) fn reading_ticks(node: &Node) -> u64 {
    node.counter.reading.as_ref().map_or(1, |reading| reading.width_ticks)
}

/// The same by the node's name, for sums.
fn width_of(manifest: &Manifest, node: &str) -> Result<i64, Error> {
    let known = manifest.nodes.iter().find(|known| known.name.as_str() == node);
    let ticks = known.map_or(1, reading_ticks);
    i64::try_from(ticks).ok().filter(|ticks| (1..=ReadingWidths::MOST_TICKS as i64).contains(ticks)).ok_or_else(|| {
        Error::work(format!(
            "run.json: expected a reading width of 1 to 2^40 ticks of {node}'s counter, found {ticks}. Restore it as it was"
        ))
    })
}

fn count(unused: &mut Vec<(&'static str, u64)>, reason: &'static str, more: u64) {
    match unused.iter_mut().find(|(known, _)| *known == reason) {
        Some((_, count)) => *count += more,
        None => unused.push((reason, more)),
    }
}

/// That two nodes read one counter, held against all evidence between them.
fn one_counter(pair: &Pair, nodes: [&Node; 2], sources: &[Evidence]) -> Result<Assumption, Error> {
    let brackets = sources.iter().flat_map(|source| source.brackets.iter());
    domains::one_counter(pair, nodes, brackets, sources.iter().map(|source| source.pieces).sum())
}

fn left_out(Pair { reference, domain }: &Pair) -> String {
    format!(
        "expected evidence of {domain} that agrees with that of the other nodes, found the opposite: stages between \
         {} and others, such as {}, are refused. See the finding, mend that node's clock, and run again",
        domain.node, reference.node
    )
}

fn no_evidence(Pair { reference, domain }: &Pair) -> String {
    format!(
        "expected brackets of {domain} against {reference}, found none: stages between {} and {} are refused, and \
         those within {} known to {} ppm of their length only. Was the probe's port reachable? Were the files refused, \
         or the sources left out? Programs collected on several machines need probes between them (tickscope run), or \
         messages that the run declares as evidence",
        domain.node,
        reference.node,
        domain.node,
        Model::DEFAULT_PRIOR_PPM
    )
}

/// A clock map that holds of a counter up to an unknown shift: its zero is the reference's.
fn rate_alone(rho: Rho, nominal: Ratio) -> Result<ClockMap, Error> {
    let anchor = Tick::<Local>::new(0);
    let zero = Bracket::new(Some(0), 0, Some(0));
    ClockMap::new(&[zero], &Model::new(rho, nominal, anchor)).map_err(Error::work)
}

fn clock_map(
    sources: &[Evidence],
    pair: &Pair,
    rho: Rho,
    nominal: Ratio,
) -> Result<(ClockMap, ClockMapSummary), Error> {
    let brackets: Vec<Bracket> = sources.iter().flat_map(|source| source.brackets.iter().copied()).collect();
    let at = || brackets.iter().map(|bracket| i128::from(bracket.at.get()));
    let (Some(first), Some(last)) = (at().min(), at().max()) else {
        return Err(Error::work(no_evidence(pair)));
    };
    let along = |share: i128, of: i128| Tick::<Local>::new((first + (last - first) * share / of) as i64);
    let anchor = along(1, 2);
    let built = |brackets: &[Bracket], rho| ClockMap::new(brackets, &Model::new(rho, nominal, anchor));
    let clock_map = built(&brackets, rho).map_err(|error| {
        let wider = Model { prior_ppm: WIDER_PRIOR_PPM, ..Model::new(rho, nominal, anchor) };
        refuse(pair, &error, ClockMap::new(&brackets, &wider).is_ok())
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

/// Half the shortest round trip, the peer's turnaround taken off: request and reply brackets stand in pairs.
fn half_round_trip(brackets: &[Bracket]) -> Option<i64> {
    let pairs = brackets.windows(2).filter_map(|pair| {
        let (t1, t4) = (pair[0].before?.get(), pair[1].after?.get());
        t4.checked_sub(t1)?.checked_sub(pair[1].at.get().checked_sub(pair[0].at.get())?)
    });
    pairs.min().map(|shortest| shortest / 2)
}

/// A rate further from the declared ratio than this is no miscalibration.
const WIDER_PRIOR_PPM: u32 = 20_000;

/// `wider_fits`: under the same rho the evidence fits a rate further from what the frequencies declare.
fn refuse(pair: &Pair, error: &BracketError, wider_fits: bool) -> Error {
    let Pair { reference, domain } = pair;
    let BracketError::Inconsistent(_) = error else {
        return Error::work(format!("{domain} against {reference}: {error}"));
    };
    let prior = if wider_fits {
        format!(
            " All of it fits this rho at a rate more than {} ppm off the ratio of the declared frequencies: that prior is \
             contradicted, not rho. Correct the nodes' counter.frequency.hertz in run.json.",
            Model::DEFAULT_PRIOR_PPM
        )
    } else {
        String::new()
    };
    Error::finding(format!("{domain} against {reference}: {error}{prior}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickscope_store::BracketSource;

    #[test]
    fn brackets_of_plain_stamps_are_counted_and_not_used() {
        let mut columns = BracketColumns::default();
        for (at, ordering) in (0..).zip(["before/after", "plain/plain", "before/after", "plain/after", "before/after"])
        {
            columns.push(Some(100 * at), 100 * at, None, BracketSource::ProbeRequest, ordering);
        }
        let widths = ReadingWidths { local_ticks: 26, reference_ticks: 4 };
        let Evidence { pieces, brackets, unused, .. } = Evidence::of_probes(&columns, widths).unwrap();
        assert_eq!((pieces, brackets.len()), (3, 3));
        assert_eq!(brackets[1], Bracket::new(Some(200), 200 + 26, None));
        assert_eq!(unused, [(UNORDERED, 2)]);
    }

    #[test]
    fn half_the_shortest_round_trip_is_asked_of_any_ticks() {
        let pair = |t1, at, t4| [Bracket::new(Some(t1), at, None), Bracket::new(None, at, Some(t4))];
        assert_eq!(half_round_trip(&pair(0, 7, 90)), Some(45));
        assert_eq!(half_round_trip(&pair(i64::MIN, 7, i64::MAX)), None);
    }
}
