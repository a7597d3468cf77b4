//! Machines that are related and stamp nothing: what each pair's evidence says of their two counters, over time.
//!
//! Idea: the evidence of every pair, told by itself and by way of all others, at the same instants of the run. Assumes:
//! what clock maps assume, which is printed. Guarantees: nothing that one pair lacks or contradicts takes another
//! pair's bound away; a pair that has none is told with the reason. Deliberately absent: durations.

use serde::Serialize;
use tickscope_analysis::{Assumption, AssumptionJson, Counters, Error, EventJson, FaultJson, Machines, Query, VERSION};
use tickscope_bracket::{Bracket, ClockMap};
use tickscope_store::{Event, Node, Run};
use tickscope_tick::{Label, NodeName, Tick};

use crate::node_rivals::{KnownBound, NodeRivals, RivalFiles};
use crate::round_trips::RoundTrips;

/// What the evidence of a run says of its machines' counters.
#[derive(Debug)]
pub struct Relations {
    /// The run's reference.
    pub reference: Label,
    /// The counters, the reference first, each with the nodes that read it.
    pub machines: Vec<MachineClock>,
    /// Every two counters.
    pub pairs: Vec<PairRelation>,
    /// Time from the run's first exchange to its last, ns; `None`: nothing relates the reference.
    pub length_ns: Option<i64>,
    /// The same pairs by other methods; those without a bound lack.
    pub rivals: Vec<NodeRivals>,
    /// What the bounds rest on.
    pub assumptions: Vec<Assumption>,
    /// What contradicts something.
    pub findings: Vec<String>,
    /// Files that could not be read.
    pub refused: Vec<tickscope_store::Error>,
}

/// What the evidence of a run says of its machines' clocks, where it has nothing else. Its version is
/// [`VERSION`].
#[derive(Debug, Serialize)]
pub struct RelationsJson<'a> {
    version: u32,
    run: String,
    run_id: String,
    reference: &'a Label,
    length_ns: Option<i64>,
    machines: &'a [MachineClock],
    pairs: &'a [PairRelation],
    rivals: &'a [NodeRivals],
    assumptions: Vec<AssumptionJson>,
    faults: Vec<FaultJson>,
    findings: &'a [String],
    events: Vec<EventJson<'a>>,
}

impl<'a> RelationsJson<'a> {
    /// What `relations` and `events` say of `run`; `faults`: of its files.
    pub fn of(run: &Run, relations: &'a Relations, events: &'a [Event], faults: Vec<FaultJson>) -> Self {
        let manifest = run.manifest();
        Self {
            version: VERSION,
            run: run.root().display().to_string(),
            run_id: format!("{:016x}", manifest.run),
            reference: &relations.reference,
            length_ns: relations.length_ns,
            machines: &relations.machines,
            pairs: &relations.pairs,
            rivals: &relations.rivals,
            assumptions: relations.assumptions.iter().map(AssumptionJson::of_clocks).collect(),
            faults,
            findings: &relations.findings,
            events: events.iter().map(EventJson::of).collect(),
        }
    }
}

/// A counter, and who reads it.
#[derive(Clone, Debug, Serialize)]
pub struct MachineClock {
    /// The counter, by the first of its nodes.
    pub counter: Label,
    /// All nodes that read it.
    pub nodes: Vec<NodeName>,
    /// The host's name.
    pub host: Option<String>,
    /// Its processor.
    pub processor: String,
}

/// Two counters.
#[derive(Clone, Debug, Serialize)]
pub struct PairRelation {
    /// The counter whose ticks are mapped.
    pub domain: Label,
    /// The counter whose ticks they become.
    pub reference: Label,
    /// How the pair stands.
    pub state: PairState,
    /// Why it does not stand well, in words.
    pub reason: Option<String>,
    /// Under which rho.
    pub rho: String,
    /// Pieces of evidence between the two: two an exchange.
    pub brackets: usize,
    /// From the run's first exchange to the last evidence of the pair, ns.
    pub last_ns: Option<i64>,
    /// How well the pair's own evidence knows it; `None`: it does not bound both sides.
    pub direct: Option<KnownBound>,
    /// How well all evidence knows it.
    pub closed: Option<KnownBound>,
    /// The ways that narrowed it, those that narrowed it most often first.
    pub ways: Vec<Vec<Label>>,
    /// The shortest round trips, in both directions.
    pub round_trips: Vec<RoundTrips>,
}

/// How a pair stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PairState {
    /// Evidence of its own bounds both sides, to the end.
    Related,
    /// It had exchanges, and none any more long before the run's end.
    Gone,
    /// Packets arrived one way alone.
    OneWay,
    /// Nothing arrived.
    NoExchange,
    /// Its evidence contradicts other evidence, or cannot be used.
    Contradicted,
}

/// Instants at which bounds are asked for.
const INSTANTS: i128 = 200;
/// A pair is gone where it is silent for so much longer than twice its longest pause before when the bursts after the
/// run begin: those come in turn, and on a busy machine they take far longer than the bursts before the run did.
const SILENCE_NS: i64 = 3_000_000_000;
/// From so much on that it is told.
const DOUBT_NS: i64 = 500_000_000;
/// Pieces of evidence that a pair has after the run at most, and some of the run: the longest pause among its last so
/// many is the one before its closing burst, if it waited for that.
const CLOSING_PIECES: usize = 800;

/// What the evidence of a run says of every two of its machines.
pub fn relations(run: &Run, query: &Query) -> Result<Relations, Error> {
    let manifest = run.manifest();
    let machines = Machines::of(run, Counters::of(manifest)?, query)?;
    let assumptions = machines.assumptions()?;
    let mut files = RivalFiles::of(run)?;
    let time = Timeline::of(&machines);
    let (mut pairs, mut rivals) = (Vec::new(), Vec::new());
    for pair in machines.pairs() {
        let (told, compared) = Asked { machines: &machines, time: &time, pair }.told(&mut files)?;
        pairs.push(told);
        rivals.extend(compared);
    }
    let findings = machines.findings().into_iter().chain(outside(&pairs)).collect();
    let counters = machines.counters();
    let machine = |counter: usize| MachineClock::of(counters.nodes(counter));
    Ok(Relations {
        reference: manifest.reference.clone(),
        machines: (0..counters.count()).map(machine).collect(),
        pairs,
        length_ns: time.length_ns(),
        rivals,
        assumptions,
        findings,
        refused: machines.into_refused().into_iter().chain(files.unread).collect(),
    })
}

/// Where a truth that is known lies outside of a bound that is guaranteed.
fn outside(pairs: &[PairRelation]) -> Option<String> {
    let told = |bound: &Option<KnownBound>| bound.as_ref().and_then(|bound| bound.outside).unwrap_or(0) > 0;
    let of = pairs.iter().filter(|pair| told(&pair.closed));
    let names: Vec<String> = of.map(|pair| format!("{} against {}", pair.domain, pair.reference)).collect();
    let first = names.first()?;
    Some(format!(
        "expected intervals that hold the injected truth, found {} of {} pairs where some do not, such as {first}: \
         rho, or how far the rate may lie from what the frequencies declare, is too small for the map that was \
         injected, or evidence is false that no other contradicts",
        names.len(),
        pairs.len()
    ))
}

impl MachineClock {
    fn of(nodes: &[&Node]) -> Self {
        let first = nodes[0];
        Self {
            counter: first.domain(),
            nodes: nodes.iter().map(|node| node.name.clone()).collect(),
            host: first.host.clone(),
            processor: first.cpu_model.clone(),
        }
    }
}

/// The run's time by the reference: that of a tick of any counter that is related to it.
struct Timeline<'a> {
    /// By counter: its map to the reference.
    maps: Vec<Option<&'a ClockMap>>,
    hertz: i128,
    /// The first and the last evidence of the run, in ticks of the reference.
    ends: Option<(i64, i64)>,
    /// When the bursts after the run began, as far as pauses tell it: the pairs that wait for theirs pause since then.
    quiet: Option<i64>,
}

impl<'a> Timeline<'a> {
    fn of(machines: &'a Machines<'a>) -> Self {
        let hertz = i128::from(machines.counters().name(0).counter.frequency.hertz.max(1));
        let maps = (0..machines.counters().count()).map(|counter| machines.to_reference(counter)).collect();
        let mut time = Self { maps, hertz, ends: None, quiet: None };
        let ends = machines.pairs().filter_map(|pair| {
            let (first, last) = machines.ends(pair)?;
            time.on_reference(pair.0, first).zip(time.on_reference(pair.0, last))
        });
        time.ends = ends.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
        let paused = machines
            .pairs()
            .filter_map(|pair| time.on_reference(pair.0, closing_pause(&in_time(machines, pair, |_| true))?));
        time.quiet = paused.max();
        time
    }

    fn to_reference(&self, counter: usize) -> Option<&'a ClockMap> {
        self.maps.get(counter).copied().flatten()
    }

    fn on_reference(&self, counter: usize, tick: i64) -> Option<i64> {
        self.to_reference(counter)?.estimate(Tick::new(tick)).ok().map(Tick::get)
    }

    /// How two nodes stand whose packets passed both ways, by when those from the second and to it ended; `quiet`: when
    /// one direction fell silent for too short a time to say so.
    fn standing(
        &self,
        [domain, against]: [&NodeName; 2],
        ended: [Option<i64>; 2],
        quiet: Option<i64>,
    ) -> (PairState, Option<String>) {
        let since = |ns: i64| {
            let [since, whole] = [ns, self.length_ns().unwrap_or(0)].map(|ns| ns / 100_000_000);
            format!("since {}.{} s of {}.{} s", since / 10, since % 10, whole / 10, whole % 10)
        };
        let one_way = |from: &NodeName, to: &NodeName, at: i64| {
            let (since, rest) = (since(at), "from then on one direction alone bounds one side");
            (PairState::OneWay, Some(format!("packets of {from} reach {to}, none comes back {since}: {rest}")))
        };
        match ended {
            [None, None] => (
                PairState::Related,
                quiet.map(|at| {
                    let words = "either alternating bursts or a dead machine: the run ended too soon to decide";
                    format!("silent {}, {words}", since(at))
                }),
            ),
            [Some(there), Some(back)] => (PairState::Gone, Some(format!("silent {}", since(there.max(back))))),
            [Some(there), None] => one_way(domain, against, there),
            [None, Some(back)] => one_way(against, domain, back),
        }
    }

    fn length_ns(&self) -> Option<i64> {
        let (first, last) = self.ends?;
        Some(ns(i128::from(last) - i128::from(first), self.hertz))
    }

    /// Returns whether a direction that was last heard then, and paused so long at most before, ended with the run
    /// still going on.
    fn is_silent(&self, last_ns: i64, longest_pause_ns: i64, beyond_ns: i64) -> Option<bool> {
        let (first, last) = self.ends?;
        let quiet_ns = ns(i128::from(self.quiet.unwrap_or(last)) - i128::from(first), self.hertz);
        Some(is_gone(quiet_ns - last_ns, longest_pause_ns, beyond_ns))
    }

    /// Time since the run's first evidence, ns.
    fn since_ns(&self, counter: usize, tick: i64) -> Option<i64> {
        let (first, _) = self.ends?;
        Some(ns(i128::from(self.on_reference(counter, tick)?) - i128::from(first), self.hertz))
    }

    /// Ticks of a counter over the run, each with its time; of one that nothing relates to the reference over its own
    /// evidence alone.
    fn instants(&self, counter: usize, own: Option<(i64, i64)>, hertz: i128) -> Vec<(i64, i64)> {
        let along = |(first, last): (i64, i64), step: i128| {
            (i128::from(first) + (i128::from(last) - i128::from(first)) * step / INSTANTS) as i64
        };
        let steps = 0..=INSTANTS;
        match (self.ends, self.to_reference(counter), own) {
            (Some(ends), Some(map), _) => steps
                .filter_map(|step| {
                    let at = along(ends, step);
                    let local = map.inverse(Tick::new(at)).ok()?;
                    let local = local.lo().get().midpoint(local.hi().get());
                    Some((local, ns(i128::from(at) - i128::from(ends.0), self.hertz)))
                })
                .collect(),
            (_, _, Some(own)) => steps
                .map(|step| along(own, step))
                .map(|at| (at, ns(i128::from(at) - i128::from(own.0), hertz)))
                .collect(),
            _ => Vec::new(),
        }
    }
}

/// Ticks at a frequency in whole ns.
fn ns(ticks: i128, hertz: i128) -> i64 {
    i64::try_from(ticks * 1_000_000_000 / hertz).unwrap_or(i64::MAX)
}

/// Ticks of some of a pair's evidence, in order.
fn in_time(machines: &Machines<'_>, pair: (usize, usize), is_of: impl Fn(&Bracket) -> bool) -> Vec<i64> {
    let brackets = machines.brackets(pair).filter(|bracket| is_of(bracket));
    let mut at: Vec<i64> = brackets.map(|bracket| bracket.at.get()).collect();
    at.sort_unstable();
    at
}

/// When the longest pause among the last pieces of evidence began.
fn closing_pause(at: &[i64]) -> Option<i64> {
    let last = &at[at.len().saturating_sub(CLOSING_PIECES)..];
    let pause = |two: &&[i64]| i128::from(two[1]) - i128::from(two[0]);
    last.windows(2).max_by_key(pause).map(|two| two[0])
}

/// A pair, and what it is told with.
struct Asked<'a> {
    machines: &'a Machines<'a>,
    time: &'a Timeline<'a>,
    pair: (usize, usize),
}

impl Asked<'_> {
    /// The pair, and what other methods say of it.
    fn told(&self, files: &mut RivalFiles<'_>) -> Result<(PairRelation, Option<NodeRivals>), Error> {
        let Self { machines, time, pair } = *self;
        let (local, reference) = pair;
        let nodes = [local, reference].map(|counter| machines.counters().name(counter));
        let (closed, direct) = (machines.map(pair), machines.direct(pair)?);
        let (state, reason) = self.state();
        let own = machines.ends(pair);
        let at = time.instants(local, own, i128::from(nodes[0].counter.frequency.hertz.max(1)));
        let known = |map: Option<&ClockMap>| map.and_then(|map| files.known(nodes, map, &at));
        let (direct_known, closed_known) = (known(direct.as_ref()), known(closed));
        let compared = match (closed.or(direct.as_ref()), reference) {
            (Some(map), 0) => files.against_reference(nodes[0], map)?,
            (Some(map), _) => {
                let to_reference = [local, reference].map(|counter| machines.to_reference(counter));
                files.between(nodes, map, to_reference)?
            }
            (None, _) => None,
        };
        let ended = [PairState::Gone, PairState::OneWay].contains(&state);
        let round_trips = compared.as_ref().map(|compared| compared.round_trips.clone()).unwrap_or_default();
        let round_trips = round_trips.into_iter().map(|trips| if ended { trips.without_end() } else { trips });
        let told = PairRelation {
            domain: nodes[0].domain(),
            reference: nodes[1].domain(),
            state,
            reason,
            rho: machines.rho(pair)?.to_string(),
            brackets: machines.pieces(pair),
            last_ns: own.and_then(|(_, last)| time.since_ns(local, last)),
            direct: direct_known,
            closed: closed_known,
            ways: machines.ways(pair),
            round_trips: round_trips.collect(),
        };
        // Other methods take exchanges after the run, of which there were none.
        Ok((told, compared.filter(|_| !ended)))
    }

    fn state(&self) -> (PairState, Option<String>) {
        let Self { machines, pair, .. } = *self;
        let [domain, against] = [pair.0, pair.1].map(|counter| &machines.counters().name(counter).name);
        match (machines.sides(pair), machines.left_out(pair)) {
            // Also of a machine whose other pairs are contradicted.
            ([false, false], _) => (
                PairState::NoExchange,
                Some(format!("nothing arrived between {domain} and {against}: is UDP let through both ways?")),
            ),
            (_, Some(reason)) => (PairState::Contradicted, Some(reason.into())),
            // A bracket's earlier side is of a packet that the reference sent.
            ([true, false], None) => (PairState::OneWay, Some(one_way(against, domain))),
            ([false, true], None) => (PairState::OneWay, Some(one_way(domain, against))),
            ([true, true], None) => {
                let sides: [fn(&Bracket) -> bool; 2] =
                    [|bracket| bracket.before.is_some(), |bracket| bracket.after.is_some()];
                let ended = sides.map(|is_of| self.silent_since(is_of, SILENCE_NS));
                let quiet = sides.iter().filter_map(|is_of| self.silent_since(*is_of, DOUBT_NS)).min();
                self.time.standing([domain, against], ended, quiet)
            }
        }
    }

    /// When the last packet of one direction came, since the run's first evidence, if none came after it for much
    /// longer than ever before while the run went on.
    fn silent_since(&self, is_of: fn(&Bracket) -> bool, beyond_ns: i64) -> Option<i64> {
        let (local, _) = self.pair;
        let at = in_time(self.machines, self.pair, is_of);
        let hertz = i128::from(self.machines.counters().name(local).counter.frequency.hertz.max(1));
        let pauses = at.windows(2).map(|two| i128::from(two[1]) - i128::from(two[0]));
        let longest_ns = ns(pauses.max().unwrap_or(0), hertz);
        let last_ns = self.time.since_ns(local, *at.last()?)?;
        self.time.is_silent(last_ns, longest_ns, beyond_ns)?.then_some(last_ns)
    }
}

fn one_way(from: &NodeName, to: &NodeName) -> String {
    format!("packets of {from} reach {to}, none comes back: one direction alone bounds one side")
}

fn is_gone(silent_ns: i64, longest_pause_ns: i64, beyond_ns: i64) -> bool {
    silent_ns > longest_pause_ns.saturating_mul(2).saturating_add(beyond_ns)
}

impl PairRelation {
    /// Returns whether evidence of other pairs makes its bound narrower at the median, or gives it one.
    pub fn is_narrowed(&self) -> bool {
        match (&self.direct, &self.closed) {
            (Some(direct), Some(closed)) => closed.half_width.median_ns < direct.half_width.median_ns,
            (None, closed) => closed.is_some(),
            (Some(_), None) => false,
        }
    }

    /// The bound that holds: by all evidence.
    pub fn best(&self) -> Option<&KnownBound> {
        self.closed.as_ref()
    }
}

impl PairState {
    /// It in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Related => "related",
            Self::Gone => "gone",
            Self::OneWay => "one way only",
            Self::NoExchange => "no exchange",
            Self::Contradicted => "contradicted",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_gone_that_is_silent_for_longer_than_bursts_in_turn_explain() {
        assert!(!is_gone(3_000_000_000, 0, SILENCE_NS) && is_gone(3_000_000_001, 0, SILENCE_NS));
        assert!(
            !is_gone(43_000_000_000, 20_000_000_000, SILENCE_NS) && is_gone(43_000_000_001, 20_000_000_000, SILENCE_NS)
        );
    }

    #[test]
    fn bursts_after_the_run_that_take_far_longer_than_those_before_it_make_no_pair_gone() {
        const S: i64 = 1_000_000_000;
        // A burst in the first second, 100 exchanges a second from 2 s to 8 s, and a burst at 100 s, or one at 9 s.
        let steady = || (0..600).map(|step| 2 * S + step * S / 100);
        let burst = |from: i64| (0..60).map(move |step| from * S + step * S / 10_000);
        let late: Vec<i64> = burst(0).chain(steady()).chain(burst(100)).collect();
        let early: Vec<i64> = burst(1).chain(steady()).chain(burst(9)).collect();
        let long: Vec<i64> = burst(0).chain((0..2000).map(|step| 5 * S + step * S / 100)).chain(burst(30)).collect();
        let pauses = [&late, &early, &long].map(|at| closing_pause(at));
        assert_eq!(pauses, [Some(8 * S - S / 100), Some(8 * S - S / 100), Some(25 * S - S / 100)]);
        assert_eq!([closing_pause(&[]), closing_pause(&[1])], [None; 2]);
        let time = Timeline { maps: Vec::new(), hertz: S.into(), ends: Some((0, 100 * S)), quiet: pauses[0] };
        // It had its burst after the run at 9 s; and one that went at 3 s.
        assert_eq!(
            (time.is_silent(9 * S, S, SILENCE_NS), time.is_silent(3 * S, S / 2, SILENCE_NS)),
            (Some(false), Some(true))
        );
        assert_eq!(time.is_silent(3 * S, S, SILENCE_NS), Some(false), "5 s, no longer than twice its pause and 3 s");
    }

    #[test]
    fn a_pair_of_which_one_direction_ends_passes_packets_one_way_from_then_on() {
        let time = Timeline { maps: Vec::new(), hertz: 1_000_000_000, ends: Some((0, 9_000_000_000)), quiet: None };
        let [a, b] = ["a", "b"].map(|name| NodeName::new(name).unwrap());
        let standing = |ended| time.standing([&a, &b], ended, None);
        assert_eq!(standing([None, None]), (PairState::Related, None));
        let (state, reason) = time.standing([&a, &b], [None, None], Some(2_500_000_000));
        assert!(state == PairState::Related && reason.unwrap().starts_with("silent since 2.5 s of 9.0 s"));
        let gone = Some("silent since 2.5 s of 9.0 s".to_string());
        assert_eq!(standing([Some(2_300_000_000), Some(2_500_000_000)]), (PairState::Gone, gone));
        // Those of b, the second, no longer arrive; and those of a.
        for (ended, words) in [([Some(1), None], "of a reach b"), ([None, Some(1)], "of b reach a")] {
            let (state, reason) = standing(ended);
            assert!(state == PairState::OneWay && reason.unwrap().contains(words), "{words}");
        }
    }
}
