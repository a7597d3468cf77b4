//! The probes of a run: who has exchanges with whom, their keys, the bursts before and after, the low rate between.
//!
//! Bursts are quiescent: they come in the order of a round-robin tournament, no node is in two of them at once, and of
//! the nodes of one machine no more than its processors can serve. Meanwhile no other probe is under way.
//!
//! Guarantees: a key is drawn for each pair of nodes of a run and handed out through the pipes of their processes
//! alone; a node that does not answer delays the others by a limit, becomes an event, and ends nothing. Deliberately
//! absent: the exchanges themselves, which are the roles'.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tickscope_probe::PairKey;
use tickscope_probe::datagram::NodeId;
use tickscope_probe::driver::Schedule;
use tickscope_tick::BootId;

use super::*;
use crate::plan::ProbePair;
use crate::roles::probe::{Order, PeerSettings, ProbeReport, ProbeSettings, burst_of};

/// Time that an asker gets beyond its burst's limit before it is taken for dead.
const BEYOND: Duration = Duration::from_secs(2);
/// After so many bursts without an answer a node is not waited for again in this round of bursts.
const MOST_SILENT: usize = 2;
/// Exchanges of a burst; a machine that has more than so many bursts in turn gets shorter ones, down to the least.
const MOST_EXCHANGES: u32 = 200;
const LEAST_EXCHANGES: u32 = 50;
const MANY_BURSTS: u32 = 50;
/// All bursts of a machine together are cut to this, where each has the shortest at least: processors may be busy.
const ROUND: Duration = Duration::from_secs(20);
const SHORTEST: Duration = Duration::from_millis(50);
/// How often answers are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// When bursts are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Opening,
    Closing,
}

/// The bursts of all pairs while they go on.
struct Tournament {
    waiting: VecDeque<ProbePair>,
    under_way: Vec<(ProbePair, Instant)>,
    /// Whether each node was in a burst that was answered.
    heard: Vec<bool>,
    /// Bursts that were taken and came to nothing.
    failed: Vec<ProbePair>,
    /// Those, and those that were not taken.
    unanswered: Vec<ProbePair>,
    /// Machine of each node.
    machines: Vec<BootId>,
    /// Bursts that a machine can have under way.
    at_once: usize,
    /// Exchanges of a burst.
    exchanges: u32,
    /// Time that a burst may take.
    limit: Duration,
}

impl Tournament {
    /// The tournament of `pairs`, whose nodes are on these machines.
    fn new(pairs: Vec<ProbePair>, machines: Vec<BootId>) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let at_once = (processors / 2).max(1); // both ends of an exchange may be there
        let mut of_machine: BTreeMap<BootId, usize> = BTreeMap::new();
        for pair in &pairs {
            let machines: BTreeSet<BootId> = [pair.asker, pair.answerer].iter().map(|&at| machines[at]).collect();
            machines.into_iter().for_each(|machine| *of_machine.entry(machine).or_default() += 1);
        }
        let in_turn = of_machine.values().max().map_or(1, |bursts| bursts.div_ceil(at_once)) as u32;
        let exchanges = (MANY_BURSTS * MOST_EXCHANGES / in_turn).clamp(LEAST_EXCHANGES, MOST_EXCHANGES);
        let most = Schedule::default().burst_limit;
        let limit = (ROUND / in_turn).clamp(SHORTEST, most);
        let (waiting, heard) = (pairs.into(), vec![false; machines.len()]);
        let (under_way, failed, unanswered) = (Vec::new(), Vec::new(), Vec::new());
        Self { waiting, under_way, heard, failed, unanswered, machines, at_once, exchanges, limit }
    }

    /// The next pair whose nodes and machines are free.
    fn next(&mut self) -> Option<ProbePair> {
        let busy: BTreeSet<usize> = self.under_way.iter().flat_map(|(pair, _)| [pair.asker, pair.answerer]).collect();
        let of = |machine: &BootId| {
            let on = |pair: &ProbePair| [pair.asker, pair.answerer].iter().any(|&at| self.machines[at] == *machine);
            self.under_way.iter().filter(|(pair, _)| on(pair)).count()
        };
        let free = |at: usize| !busy.contains(&at) && of(&self.machines[at]) < self.at_once;
        let at = self.waiting.iter().position(|pair| free(pair.asker) && free(pair.answerer))?;
        self.waiting.remove(at)
    }

    /// Whether one of the two answers nobody. A burst that failed counts against a node only where the other one is
    /// heard by somebody: two nodes that are dead do not make those silent that were paired with both.
    fn is_silent(&self, pair: ProbePair) -> bool {
        let failed_with = |at: usize| {
            let other = |failed: &ProbePair| match (failed.asker == at, failed.answerer == at) {
                (true, _) => Some(failed.answerer),
                (_, true) => Some(failed.asker),
                _ => None,
            };
            self.failed.iter().filter_map(other).filter(|&other| self.heard[other]).count()
        };
        [pair.asker, pair.answerer].iter().any(|&at| !self.heard[at] && failed_with(at) >= MOST_SILENT)
    }

    fn note_answered(&mut self, pair: ProbePair) {
        (self.heard[pair.asker], self.heard[pair.answerer]) = (true, true);
    }

    /// A burst that was taken and came to nothing.
    fn note_failed(&mut self, pair: ProbePair) {
        self.failed.push(pair);
        self.note_unanswered(pair);
    }

    fn note_unanswered(&mut self, pair: ProbePair) {
        self.unanswered.push(pair);
    }

    /// The nodes that are in most of the pairs without an answer, each with those that it had none with; every such
    /// pair once.
    fn culprits(&self) -> Vec<(usize, Vec<usize>)> {
        let (mut left, mut culprits) = (self.unanswered.clone(), Vec::new());
        while !left.is_empty() {
            let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
            for pair in &left {
                // Of two that are in as many, the one that did not answer.
                *counts.entry(pair.answerer).or_default() += 2;
                *counts.entry(pair.asker).or_default() += 2;
            }
            let answers = |at: usize| u32::from(left.iter().any(|pair| pair.answerer == at));
            let Some(at) = counts.into_iter().max_by_key(|&(at, count)| count + answers(at)).map(|(at, _)| at) else {
                break;
            };
            let has = |pair: &ProbePair| pair.asker == at || pair.answerer == at;
            let other = |pair: &ProbePair| if pair.asker == at { pair.answerer } else { pair.asker };
            culprits.push((at, left.iter().filter(|pair| has(pair)).map(other).collect()));
            left.retain(|pair| !has(pair));
        }
        culprits
    }
}

impl Conductor<'_> {
    /// Starts the probes of all nodes that need them, takes the opening bursts and begins the low rate.
    pub(super) fn start_probes(&mut self) -> Result<(), Error> {
        let pairs = self.probe_pairs();
        let mut peers: BTreeMap<usize, Vec<PeerSettings>> = BTreeMap::new();
        for &ProbePair { asker, answerer } in &pairs {
            let key = draw_key()?;
            peers.entry(asker).or_default().push(self.peer(answerer, key.clone(), true));
            peers.entry(answerer).or_default().push(self.peer(asker, key, false));
        }
        for (at, peers) in peers {
            let settings = ProbeSettings {
                run: self.record.run.manifest().run,
                id: at as u32,
                listen: self.probe_address(at),
                counter: self.counter(at),
                hertz: self.plan.clock.probes_hz,
                share: self.plan.clock.probe_share,
                kernel_every: self.plan.kernel_every(),
                peers,
            };
            self.start_helper(HelperKind::Probe, at, at, Role::Probe(settings))?;
        }
        self.take_bursts(Phase::Opening, pairs);
        self.probing = true;
        for at in 0..self.nodes.len() {
            self.tell_probe(at, Order::Steady);
        }
        Ok(())
    }

    /// The pairs of nodes that do not share a counter, in the order of their bursts.
    fn probe_pairs(&self) -> Vec<ProbePair> {
        let manifest = self.record.run.manifest();
        let node = |at: usize| &manifest.nodes[at];
        let apart =
            |pair: &ProbePair| !tickscope_analysis::shares_counter(manifest, node(pair.asker), node(pair.answerer));
        self.plan.probe_pairs().filter(apart).collect()
    }

    fn probe_address(&self, at: usize) -> (String, u16) {
        let own = self.plan.nodes[at].probe_address.clone();
        (own.unwrap_or_else(|| self.nodes[at].address.clone()), self.plan.clock.probe_port)
    }

    fn peer(&self, at: usize, key: PairKey, asked: bool) -> PeerSettings {
        PeerSettings { id: at as u32, counter: self.counter(at), address: self.probe_address(at), key, asked }
    }

    /// The process of that node's probe; `None`: there is none now.
    fn probe_task(&mut self, at: usize) -> Option<TaskId> {
        self.nodes[at].helper(HelperKind::Probe).as_ref().and_then(|helper| helper.task)
    }

    /// Returns whether the node's probe could be told.
    pub(super) fn tell_probe(&mut self, at: usize, order: Order) -> bool {
        let Some(task) = self.probe_task(at) else { return false };
        self.agent(at).tell(task, &order.line()).is_ok() // one that died is started again
    }

    /// Takes a burst of every pair whose probes are there. Pairs without an answer become events of a node.
    fn take_bursts(&mut self, phase: Phase, pairs: Vec<ProbePair>) {
        let machines = self.record.run.manifest().nodes.iter().map(|node| node.boot).collect();
        let mut tournament = Tournament::new(pairs, machines);
        while !(tournament.waiting.is_empty() && tournament.under_way.is_empty()) {
            if phase == Phase::Opening && interrupt::ended() {
                return;
            }
            while let Some(pair) = tournament.next() {
                self.begin_burst(&mut tournament, pair);
            }
            if !self.take_answers(&mut tournament) {
                std::thread::sleep(LOOK_EVERY);
            }
        }
        for (at, others) in tournament.culprits() {
            self.note_silent(phase, at, &others);
        }
    }

    fn begin_burst(&mut self, tournament: &mut Tournament, pair: ProbePair) {
        let ProbePair { asker, answerer } = pair;
        if self.probe_task(answerer).is_none() || tournament.is_silent(pair) {
            return tournament.note_unanswered(pair);
        }
        let limit_ms = tournament.limit.as_millis() as u32;
        match self.tell_probe(asker, Order::Burst(NodeId(answerer as u32), tournament.exchanges, limit_ms)) {
            true => tournament.under_way.push((pair, Instant::now() + tournament.limit + BEYOND)),
            false => tournament.note_failed(pair),
        }
    }

    /// Takes what the askers answered; returns whether a burst came to its end.
    fn take_answers(&mut self, tournament: &mut Tournament) -> bool {
        let under_way = std::mem::take(&mut tournament.under_way);
        let before = under_way.len();
        for (pair, until) in under_way {
            let task = self.probe_task(pair.asker);
            let answers = task.and_then(|task| self.agent(pair.asker).answers(task).ok()).unwrap_or_default();
            let of = |answer: &String| burst_of(answer).filter(|(node, _)| node.0 as usize == pair.answerer);
            match answers.iter().find_map(of) {
                Some((_, burst)) if burst.answered > 0 => tournament.note_answered(pair),
                Some(_) => tournament.note_failed(pair),
                None if Instant::now() < until => tournament.under_way.push((pair, until)),
                None => tournament.note_failed(pair),
            }
        }
        tournament.under_way.len() < before
    }

    fn note_silent(&mut self, phase: Phase, at: usize, others: &[usize]) {
        /// Names that the sentence lists.
        const NAMED: usize = 5;
        let names: Vec<&str> = others.iter().take(NAMED).map(|&other| self.nodes[other].name.as_str()).collect();
        let more = if others.len() > NAMED { format!(" and {} more", others.len() - NAMED) } else { String::new() };
        let when = if phase == Phase::Opening { "before" } else { "after" };
        let text = format!(
            "its probe exchanged nothing {when} the run with {}{more}. Check that its probe's UDP port is reachable. \
             Other evidence still relates their clocks",
            names.join(", ")
        );
        notice::say(format_args!("{}: {text}", self.nodes[at].name));
        self.note_at(at, EventKind::ProbesUnanswered, Some(others.len() as i64), text);
    }

    /// Ends the low rate, takes the closing bursts and ends the probes.
    pub(super) fn stop_probes(&mut self) -> Result<(), Error> {
        let tasks: Vec<usize> = (0..self.nodes.len()).filter(|&at| self.probe_task(at).is_some()).collect();
        if !tasks.is_empty() {
            self.probing = false;
            let told: Vec<usize> = tasks.into_iter().filter(|&at| self.tell_probe(at, Order::Quiet)).collect();
            self.await_quiet(told);
            self.take_bursts(Phase::Closing, self.probe_pairs());
        }
        let mut failed = None;
        for at in 0..self.nodes.len() {
            let Some(helper) = self.nodes[at].helper(HelperKind::Probe).take() else { continue };
            // One that fails must not take the last brackets of the others with it.
            match self.stop_helper(HelperKind::Probe, helper).and_then(|ended| ended.report()) {
                Ok(report) => self.note_probe(at, &report),
                Err(why) => failed = failed.or(Some(why)),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Waits until these probes ask nobody any more, or took too long to say so.
    fn await_quiet(&mut self, mut told: Vec<usize>) {
        let until = Instant::now() + BEYOND;
        while !told.is_empty() && Instant::now() < until {
            told.retain(|&at| {
                let task = self.probe_task(at);
                let answers = task.map(|task| self.agent(at).answers(task));
                !answers.is_none_or(|answers| answers.is_ok_and(|answers| answers.iter().any(|line| line == "quiet")))
            });
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn note_probe(&mut self, at: usize, report: &ProbeReport) {
        for (reason, count) in &report.refused {
            let text = format!("the probe refused datagrams: {reason}. They are no evidence; nothing is lost by them");
            self.note_at(at, EventKind::DatagramsRefused, Some(*count as i64), text);
        }
        for stamps in &report.impossible {
            self.note_at(at, EventKind::ImpossibleExchange, None, stamps.clone());
        }
        if let Some((text, missing)) = &report.kernel {
            self.note_at(at, EventKind::KernelStamps, Some(*missing as i64), format!("the probe: {text}"));
        }
        if let Some(hertz) = report.paced_hertz {
            let text = format!(
                "{hertz:.1} exchanges a second with each node at the end, not the {} that clock.probes_hz wishes: more \
                 would have taken more than clock.probe_share of a core",
                self.plan.clock.probes_hz
            );
            self.note_at(at, EventKind::ProbesPaced, Some(hertz as i64), text);
        }
        for (what, count, text) in [
            (EventKind::ProbesLost, report.lost, "requests without a reply; the bound is a little wider"),
            (EventKind::ProbesUndelivered, report.undelivered, "datagrams that the network did not take"),
        ] {
            if count > 0 {
                self.note_at(at, what, Some(count as i64), text.into());
            }
        }
    }
}

/// A key that nobody can guess.
pub(super) fn draw_key() -> Result<PairKey, Error> {
    let mut bytes = [0; PairKey::LENGTH];
    tickscope_stamp::entropy::fill(&mut bytes).map_err(no_entropy)?;
    Ok(PairKey::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(nodes: usize) -> Vec<ProbePair> {
        (0..nodes).flat_map(|asker| (0..asker).map(move |answerer| ProbePair { asker, answerer })).collect()
    }

    /// Takes all bursts, the oldest under way ending first; the most that were under way at once.
    fn taken(mut tournament: Tournament) -> usize {
        let (until, mut most) = (Instant::now(), 0);
        while !(tournament.waiting.is_empty() && tournament.under_way.is_empty()) {
            while let Some(pair) = tournament.next() {
                tournament.under_way.push((pair, until));
            }
            let busy: Vec<usize> =
                tournament.under_way.iter().flat_map(|(pair, _)| [pair.asker, pair.answerer]).collect();
            let nodes: BTreeSet<usize> = busy.iter().copied().collect();
            assert_eq!(nodes.len(), busy.len(), "{busy:?}");
            let of = |machine: BootId| busy.iter().filter(|&&at| tournament.machines[at] == machine).count();
            assert!(tournament.machines.iter().all(|&machine| of(machine) <= 2 * tournament.at_once));
            most = most.max(tournament.under_way.len());
            tournament.under_way.remove(0);
        }
        most
    }

    #[test]
    fn no_node_is_in_two_bursts_at_once_and_no_machine_has_more_than_it_can_serve() {
        let own: Vec<BootId> = (0..8).map(|machine| BootId([machine; 16])).collect();
        assert_eq!(taken(Tournament { at_once: 3, ..Tournament::new(all(8), own) }), 4, "every node is in one");
        let shared = |at_once| Tournament { at_once, ..Tournament::new(all(8), vec![BootId([1; 16]); 8]) };
        assert_eq!((taken(shared(1)), taken(shared(2)), taken(shared(9))), (1, 2, 4));
    }

    #[test]
    fn bursts_that_must_wait_for_each_other_get_shorter_down_to_a_least() {
        let exchanges = |nodes: usize| {
            let tournament = Tournament::new(all(nodes), vec![BootId([1; 16]); nodes]);
            (tournament.exchanges, tournament.waiting.len().div_ceil(tournament.at_once), tournament.limit)
        };
        let limits = (Schedule::default().burst_limit, SHORTEST);
        assert_eq!((exchanges(2).0, exchanges(2).2), (MOST_EXCHANGES, limits.0));
        assert_eq!((exchanges(1000).0, exchanges(1000).2), (LEAST_EXCHANGES, limits.1));
        let (found, in_turn, _) = exchanges(20);
        assert!((LEAST_EXCHANGES..=MOST_EXCHANGES).contains(&found) && found as usize * in_turn <= 10_000);
    }

    #[test]
    fn of_pairs_without_an_answer_the_node_that_is_in_most_is_named() {
        let mut tournament = Tournament::new(all(5), vec![BootId([1; 16]); 5]);
        let silent = |pair: &ProbePair| pair.asker == 3 || pair.answerer == 3;
        all(5).into_iter().filter(|pair| !silent(pair)).for_each(|pair| tournament.note_answered(pair));
        all(5).into_iter().filter(silent).for_each(|pair| tournament.note_failed(pair));
        assert_eq!(tournament.culprits(), [(3, vec![0, 1, 2, 4])]);
        assert!(tournament.is_silent(ProbePair { asker: 4, answerer: 3 }), "it is not waited for again");
        assert!(!tournament.is_silent(ProbePair { asker: 4, answerer: 0 }));
        let mut tournament = Tournament::new(all(2), vec![BootId([1; 16]); 2]);
        tournament.note_failed(ProbePair { asker: 1, answerer: 0 });
        assert_eq!(tournament.culprits(), [(0, vec![1])], "of two, the one that did not answer");
    }

    #[test]
    fn dead_nodes_take_no_burst_from_those_that_live_and_are_named_alone() {
        for (nodes, dead) in [(6, vec![4, 5]), (6, vec![0, 1]), (8, vec![1, 3, 6]), (5, vec![2, 3, 4]), (4, vec![])] {
            let mut tournament = Tournament::new(all(nodes), vec![BootId([1; 16]); nodes]);
            let lives = |pair: &ProbePair| !dead.contains(&pair.asker) && !dead.contains(&pair.answerer);
            let (mut skipped, mut waited) = (Vec::new(), 0);
            while let Some(pair) = tournament.next() {
                if tournament.is_silent(pair) {
                    skipped.push(pair);
                    tournament.note_unanswered(pair);
                } else if lives(&pair) {
                    tournament.note_answered(pair);
                } else {
                    waited += 1;
                    tournament.note_failed(pair);
                }
            }
            assert!(!skipped.iter().any(lives), "{dead:?} of {nodes}: {skipped:?}");
            let mut named: Vec<usize> = tournament.culprits().into_iter().map(|(at, _)| at).collect();
            named.sort_unstable();
            assert_eq!(named, dead, "of {nodes}");
            assert!(waited <= dead.len() * (MOST_SILENT + dead.len() + 1), "{waited} waited for");
        }
    }
}
