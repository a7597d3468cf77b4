//! All evidence of a run about its counters: the probes' exchanges, messages, kernel time-stamps of both.
//!
//! Whichever node asked, evidence between two counters is told as of one against the other; nodes that read one counter
//! speak for it together. Deliberately absent: what follows from it ([`crate::clock_maps`]).

use std::collections::{BTreeMap, BTreeSet};

use tickscope_bracket::{Bracket, Ratio, ReadingWidths};
use tickscope_store::{BracketColumns, Channel, Manifest, Node, Pair, Run};
use tickscope_tick::{Clock, Label, NodeName, Place, Source};
use tickscope_trace::Layout;

use crate::assumption::{Assumption, SendProof};
use crate::auxiliary_clocks::{AuxiliaryClocks, reason};
use crate::common_host;
use crate::counters::{Counters, reference_node, shares_counter};
use crate::domains;
use crate::error::Error;
use crate::messages::{MessagePair, Passages, Told};
use crate::query::Query;

/// The evidence between every two counters, and between nodes that are taken to read one.
pub(crate) struct AllEvidence {
    /// By domain and reference, of which the domain stands later among the counters.
    between: BTreeMap<(usize, usize), Vec<Evidence>>,
    /// By counter: the evidence between two of its nodes, by their positions, the later one's first.
    within: BTreeMap<(usize, [usize; 2]), Vec<Evidence>>,
    /// Nodes that any evidence is of.
    nodes: BTreeSet<String>,
}

impl AllEvidence {
    pub(crate) fn of(
        run: &Run,
        counters: &Counters,
        messages: &[Messages],
        query: &Query,
        refused: &mut Vec<tickscope_store::Error>,
    ) -> Result<Self, Error> {
        let (between, within, nodes) = Default::default();
        let mut all = Self { between, within, nodes };
        let mut reading = Reading { run, messages, query, refused };
        for local in 0..counters.count() {
            let names = counters.nodes(local);
            for (position, node) in names.iter().enumerate().skip(1) {
                for (other, against) in names.iter().enumerate().take(position) {
                    all.within.insert((local, [position, other]), reading.of([node, against])?);
                }
            }
            for reference in 0..local {
                let mut found = Vec::new();
                for domain in names {
                    for against in counters.nodes(reference) {
                        let evidence = reading.of([domain, against])?;
                        if evidence.iter().any(|evidence| evidence.pieces > 0) {
                            all.nodes.extend([domain, against].map(|node| node.name.to_string()));
                        }
                        found.extend(evidence);
                    }
                }
                all.between.insert((local, reference), found);
            }
        }
        Ok(all)
    }

    /// Evidence of one counter against one that stands before it.
    pub(crate) fn between(&self, local: usize, reference: usize) -> &[Evidence] {
        self.between.get(&(local, reference)).map_or(&[], Vec::as_slice)
    }

    /// Pairs, and how many pieces of evidence they have.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = ((usize, usize), usize)> {
        self.between.iter().map(|(&pair, sources)| (pair, sources.iter().map(|source| source.pieces).sum()))
    }

    /// Returns whether the evidence of a pair has both a lower and an upper bound.
    pub(crate) fn bounds_both_sides(&self, pair: (usize, usize)) -> bool {
        self.sides(pair) == [true; 2]
    }

    /// Whether the evidence of a pair has a lower and an upper bound: packets of the reference, and of the domain.
    pub(crate) fn sides(&self, pair: (usize, usize)) -> [bool; 2] {
        let brackets = || self.between(pair.0, pair.1).iter().flat_map(|source| &source.brackets);
        [brackets().any(|bracket| bracket.before.is_some()), brackets().any(|bracket| bracket.after.is_some())]
    }

    /// A tick at which a counter stood.
    pub(crate) fn any_tick(&self, counter: usize) -> Option<i64> {
        self.between.iter().find_map(|(&(local, reference), evidence)| {
            let bracket = evidence.iter().find_map(|evidence| evidence.brackets.first())?;
            match counter {
                _ if counter == local => Some(bracket.at.get()),
                _ if counter == reference => bracket.before.or(bracket.after).map(|tick| tick.get()),
                _ => None,
            }
        })
    }

    /// That nodes read one counter, held against all evidence between them: of those that the layout, if
    /// there is one, or evidence names.
    pub(crate) fn one_counters(
        &self,
        manifest: &Manifest,
        counters: &Counters,
        layout: Option<&Layout>,
    ) -> Result<Vec<Assumption>, Error> {
        let mut all = Vec::new();
        let in_use = |node: &Node| {
            let in_layout =
                layout.is_none_or(|layout| layout.points().iter().any(|point| point.place.node == node.name));
            in_layout || self.nodes.contains(node.name.as_str())
        };
        for (&(counter, [position, other]), sources) in &self.within {
            let [first, node] = [other, position].map(|position| counters.nodes(counter)[position]);
            if !in_use(node) || other != 0 && !in_use(first) {
                continue;
            }
            let pair = Pair { reference: first.domain(), domain: node.domain() };
            let brackets = sources.iter().flat_map(|source| source.brackets.iter());
            let pieces = sources.iter().map(|source| source.pieces).sum();
            let checked = domains::one_counter(manifest, &pair, [first, node], brackets, pieces)?;
            all.extend((other == 0 || pieces > 0).then_some(checked));
        }
        Ok(all)
    }
}

/// How evidence of two nodes is read.
struct Reading<'a> {
    run: &'a Run,
    messages: &'a [Messages],
    query: &'a Query,
    refused: &'a mut Vec<tickscope_store::Error>,
}

impl Reading<'_> {
    /// All evidence between two nodes, as of the first against the second.
    fn of(&mut self, [domain, against]: [&Node; 2]) -> Result<Vec<Evidence>, Error> {
        let mut found = Vec::new();
        if self.run.manifest().evidence.probes && self.query.admit(Source::Probes) {
            let asked = self.probes([domain, against])?;
            let turned = self.probes([against, domain])?;
            let nominal = Ratio::new(against.counter.frequency.hertz, domain.counter.frequency.hertz);
            found.push(match turned.pieces {
                0 => asked,
                _ => asked.with(turned.turned(nominal.map_err(Error::work)?)),
            });
        }
        if self.query.admit(Source::CommonHost) && common_host::is_declared(self.run.manifest(), [domain, against]) {
            found.push(self.common_host([domain, against])?);
        }
        let (to, from) = (domain.name.as_str(), against.name.as_str());
        found.extend(self.messages.iter().filter_map(|messages| messages.between(from, to)));
        Ok(found)
    }

    /// The exchanges that the second of two nodes asked.
    fn probes(&mut self, [domain, against]: [&Node; 2]) -> Result<Evidence, Error> {
        let manifest = self.run.manifest();
        let listing = self.run.brackets(&Pair { reference: against.domain(), domain: domain.domain() })?;
        self.refused.extend(listing.refused);
        Evidence::of_probes(&listing.found, widths(manifest, [domain, against]))
    }

    /// What the clock of two nodes' common host tells, which both have read.
    fn common_host(&mut self, [domain, against]: [&Node; 2]) -> Result<Evidence, Error> {
        let mut readings = |node: &Node| {
            let clock = Label { node: node.name.clone(), clock: Clock::Phc };
            let listing = self.run.brackets(&Pair { reference: node.domain(), domain: clock })?;
            self.refused.extend(listing.refused);
            Ok::<_, Error>(listing.found)
        };
        let (local, reference) = (readings(domain)?, readings(against)?);
        let widths = widths(self.run.manifest(), [domain, against]);
        let found = match common_host::brackets(&local, &reference) {
            Some(columns) => Evidence::of_probes(&columns, widths)?,
            None => {
                Evidence { unused: vec![(SET_BACK, 1)], ..Evidence::of_probes(&BracketColumns::default(), widths)? }
            }
        };
        Ok(Evidence { source: Source::CommonHost, half_round_trip_ticks: None, ..found })
    }
}

fn widths(manifest: &Manifest, nodes: [&Node; 2]) -> ReadingWidths {
    let [local_ticks, reference_ticks] = nodes.map(|node| reading_ticks(manifest, node));
    ReadingWidths { local_ticks, reference_ticks }
}

/// Evidence of one source about a pair of nodes.
pub(crate) struct Evidence {
    pub(crate) source: Source,
    /// Pieces of evidence: exchanges' halves, messages.
    pub(crate) pieces: usize,
    /// Brackets of the continuous counters behind the readings, a side each.
    pub(crate) brackets: Vec<Bracket>,
    /// Half the shortest round trip among them, the peer's turnaround taken off.
    pub(crate) half_round_trip_ticks: Option<i64>,
    pub(crate) unused: Vec<(&'static str, u64)>,
}

/// Why a bracket did not serve.
pub(crate) const UNORDERED: &str = "made of stamps that were not ordered before and after";
/// Why a message did not serve: a stamp that was lost may have been an earlier copy's.
const AFTER_A_LOSS: &str = "sent after a stamp was lost";
/// Why a message did not serve: 64 bits do not hold where the counter may have stood.
const AT_THE_END: &str = "stamps at the end of 64 bits";
/// Why a message that the kernel stamped did not serve.
const UNPROVEN: &str = "ids that the program's own stamps do not show to be sent exactly once";
/// Why a common host did not serve.
const SET_BACK: &str = "source, since the host's clock was set back";
/// Why a message did not serve: the one that was sent may not be the one that was received.
const COLLIDED: &str = "ids that two originals have";

/// Messages of one pair of points, in ticks of both nodes' counters.
pub(crate) struct Messages {
    pub(crate) pair: MessagePair,
    pub(crate) source: Source,
    /// First tick at which the message can have been sent, last at which it was received.
    pub(crate) ticks: Vec<(i64, i64)>,
    pub(crate) unused: Vec<(&'static str, u64)>,
}

/// The assumption that the messages of a pair were sent once.
pub(crate) fn once(pair: &MessagePair, own_send: Option<&Place>, clocks: &AuxiliaryClocks) -> Assumption {
    let proof = match own_send {
        Some(send) => SendProof::OwnStamp(send.clone()),
        None if clocks.at(&pair.from).is_some() => SendProof::Nothing,
        None => SendProof::Stamps,
    };
    Assumption::SentOnce { pair: pair.clone(), proof }
}

/// Which of the probes that the kernel stamped are evidence.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum KernelStamped {
    /// Those between the reference's counter and another: those of other pairs tell little of it.
    OfReference,
    /// All of them.
    All,
}

/// The messages that the run declares as evidence, where the query asks for them, and the kernel's stamps of the
/// probes.
pub(crate) fn message_pairs(
    manifest: &Manifest,
    channels: &[Channel],
    stamped: KernelStamped,
) -> Result<Vec<(MessagePair, Source)>, Error> {
    let mut pairs = Vec::new();
    for text in &manifest.evidence.messages {
        pairs.push((text.parse::<MessagePair>().map_err(Error::work)?, Source::Messages));
    }
    if manifest.evidence.kernel_probes {
        let nodes: Vec<NodeName> = manifest.nodes.iter().map(|node| node.name.clone()).collect();
        let between = MessagePair::of_kernel_probes(&nodes, channels);
        let reference = reference_node(manifest)?;
        let shares = |node: &&Node| node.name == reference.name || shares_counter(manifest, node, reference);
        let sharing: Vec<&NodeName> = manifest.nodes.iter().filter(shares).map(|node| &node.name).collect();
        let told = |pair: &MessagePair| {
            let [from, to] = [&pair.from.node, &pair.to.node].map(|node| sharing.contains(&node));
            stamped == KernelStamped::All || from != to
        };
        pairs.extend(between.into_iter().filter(told).map(|pair| (pair, Source::KernelProbes)));
    }
    Ok(pairs)
}

impl Messages {
    pub(crate) fn of(
        run: &Run,
        pair: MessagePair,
        source: Source,
        own_send: Option<&Place>,
        clocks: &AuxiliaryClocks,
        widths: [i64; 2],
        told: Told<'_>,
    ) -> Result<Self, Error> {
        let passages = Passages::of(run, &pair, own_send, told)?;
        let [from, to] = [&pair.from, &pair.to].map(|place| clocks.at(place));
        let source =
            if source == Source::Messages && from.is_some() && to.is_some() { Source::KernelMessages } else { source };
        let mut unused = vec![
            ("ids stamped more than once", passages.repeated),
            (AFTER_A_LOSS, passages.after_a_loss),
            (UNPROVEN, passages.unproven),
            (COLLIDED, passages.collided),
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
    /// With further evidence of the same source.
    fn with(mut self, more: Self) -> Self {
        self.pieces += more.pieces;
        self.brackets.extend(more.brackets);
        let both = [self.half_round_trip_ticks, more.half_round_trip_ticks];
        self.half_round_trip_ticks = both.into_iter().flatten().min();
        for (reason, many) in more.unused {
            count(&mut self.unused, reason, many);
        }
        self
    }

    /// The same evidence as of the other counter. `nominal`: its ticks in one of this one's reference.
    fn turned(self, nominal: Ratio) -> Self {
        let half_round_trip = self.half_round_trip_ticks.map(|ticks| {
            let scaled = i128::from(ticks) * nominal.numerator() as i128 / nominal.denominator() as i128;
            i64::try_from(scaled).unwrap_or(i64::MAX)
        });
        let brackets = self.brackets.iter().flat_map(Bracket::turned).flatten().collect();
        Self { brackets, half_round_trip_ticks: half_round_trip, ..self }
    }

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
///
/// Where the run proves its cores, the node's counter is the one that is ahead at every moment: a reading on another
/// core is behind it by up to what their check leaves open.
pub fn reading_ticks(manifest: &Manifest, node: &Node) -> u64 {
    let width = node.counter.reading.as_ref().map_or(1, |reading| reading.width_ticks);
    width.saturating_add(core_ticks(manifest, node))
}

/// What the check of a node's cores leaves open, in its ticks, where the run adds it to its figures; else 0. The
/// largest of the nodes of one boot, which may have checked other cores of it.
pub(crate) fn core_ticks(manifest: &Manifest, node: &Node) -> u64 {
    let of_host = manifest.nodes.iter().filter(|other| other.boot == node.boot && manifest.cores_proved());
    of_host.filter_map(|other| other.counter.sharing.bound_ticks).max().unwrap_or(0)
}

/// At most as many ticks of the reference as `ticks` of another counter last: a percent is more than rates may be off.
pub(crate) fn on_reference(ticks: u64, hertz: u64, reference_hertz: u64) -> u64 {
    let scaled = u128::from(ticks) * u128::from(reference_hertz) * 101;
    u64::try_from(scaled.div_ceil(u128::from(hertz.max(1)) * 100)).unwrap_or(u64::MAX)
}

/// The same by the node's name, for sums.
pub(crate) fn width_of(manifest: &Manifest, node: &str) -> Result<i64, Error> {
    let known = manifest.nodes.iter().find(|known| known.name.as_str() == node);
    let ticks = known.map_or(1, |node| reading_ticks(manifest, node));
    i64::try_from(ticks).ok().filter(|ticks| (1..=ReadingWidths::MOST_TICKS as i64).contains(ticks)).ok_or_else(|| {
        Error::work(format!(
            "run.json: expected a reading width of 1 to 2^40 ticks of {node}'s counter, found {ticks}. \
             Restore it as it was"
        ))
    })
}

pub(crate) fn count(unused: &mut Vec<(&'static str, u64)>, reason: &'static str, more: u64) {
    match unused.iter_mut().find(|(known, _)| *known == reason) {
        Some((_, count)) => *count += more,
        None => unused.push((reason, more)),
    }
}

/// Half the shortest round trip, the peer's turnaround taken off: request and reply brackets stand in pairs.
fn half_round_trip(brackets: &[Bracket]) -> Option<i64> {
    let pairs = brackets.windows(2).filter_map(|pair| {
        let (t1, t4) = (pair[0].before?.get(), pair[1].after?.get());
        t4.checked_sub(t1)?.checked_sub(pair[1].at.get().checked_sub(pair[0].at.get())?)
    });
    pairs.min().map(|shortest| shortest / 2)
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
