//! The end of a run: what still runs is ended, what is left is taken, traces are joined, the manifest is completed.
//!
//! Guarantees: a step that fails does not cut off those after it, as far as they can go without it; the first failure
//! is what the command ends with, the others are events.

use std::collections::BTreeSet;

use tickscope_store::{Assumption, AssumptionKind, Cost, Overhead, RhoDeclaration, RhoKind};

use super::*;
use crate::agent::{Left, Unread, take_outputs};
use crate::logs::Log;
use crate::node_run::is_readable;
use crate::plan::Slew;
use crate::record::Coarse;
use crate::roles::clock_monitor::ClockReport;

/// How often a stamp directory is looked at again that something still holds: what a target started may take a moment
/// to end after it.
const LOOKS_AGAIN: u32 = 15;
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(200);

impl Conductor<'_> {
    /// Ends what still runs, takes what is left, joins, writes the manifest.
    pub fn finish(&mut self, overhead: Option<Overhead>) -> Result<Run, Error> {
        self.stop_noise();
        self.stop_returns();
        self.stop_rivals();
        let mut failed = self.stop_probes().err();
        let watched = self.stop_monitors();
        self.go_on(&mut failed, watched);
        for at in 0..self.nodes.len() {
            let taken = self.stop_collector(at);
            self.go_on(&mut failed, taken);
        }
        let left = self.clear();
        let noted = self.note_left(&left.what);
        self.go_on(&mut failed, noted);
        self.go_on(&mut failed, left.failed.values().next().map_or(Ok(()), |why| Err(why.clone())));
        let looked = self.look_again();
        self.go_on(&mut failed, looked);
        let over = self.end_sessions(&left);
        self.go_on(&mut failed, over);
        self.hear_news();
        let coarse = self.import_logs();
        let written = self.record.write_events(); // which the join reads
        self.go_on(&mut failed, written);
        let joined = self.record.join().map(|_| ());
        self.go_on(&mut failed, joined);
        let mut manifest = self.record.run.manifest().clone();
        manifest.ended_unix_ms = Some(crate::unix_ms());
        manifest.stamp_directories.retain(|node, _| {
            let at = self.nodes.iter().find(|known| known.name == *node);
            at.is_some_and(|node| left.is_of(node))
        });
        self.note_untaken(&manifest);
        let declared = self.record.declare_points(&mut manifest, &coarse);
        self.go_on(&mut failed, declared);
        let counted = self.cost(overhead).map(|cost| manifest.cost = Some(cost));
        self.go_on(&mut failed, counted);
        let completed = self.record.run.set_manifest(manifest);
        self.go_on(&mut failed, completed.map_err(Error::from));
        let written = self.record.write_events();
        self.go_on(&mut failed, written);
        // Storage shows a run as whole once its digests are there; tickscope finish sends them, and what is lacking.
        let waits = failed.is_some() && self.record.run.manifest().storage.is_some();
        let digested = if waits { Ok(()) } else { self.record.write_digests() };
        self.go_on(&mut failed, digested);
        failed.map_or_else(|| Ok(self.record.run.clone()), Err)
    }

    /// Removes the stamp directories, as far as nothing lies there; returns what stays.
    fn clear(&mut self) -> AllLeft {
        let mut left = self.clear_once();
        for _ in 0..LOOKS_AGAIN {
            let held: Vec<NodeName> = left.what.iter().filter(|left| left.held).map(|left| left.node.clone()).collect();
            if held.is_empty() {
                break;
            }
            std::thread::sleep(LOOK_AGAIN_AFTER);
            for at in 0..self.nodes.len() {
                let node = self.nodes[at].name.clone();
                if held.contains(&node) {
                    match self.agent(at).perform(&node, &Role::CollectOnce) {
                        Ok(later) => self.nodes[at].charge(Service::Collector, &later),
                        Err(why) => _ = left.failed.insert(self.nodes[at].agent, why),
                    }
                }
            }
            // What strangers put there is gone now, and was not told yet.
            left.what.retain(|left| left.foreign);
            let again = self.clear_once();
            left.what.extend(again.what);
            left.failed.extend(again.failed);
        }
        left
    }

    fn clear_once(&mut self) -> AllLeft {
        let mut left = AllLeft::default();
        for (number, (_, agent)) in self.agents.iter_mut().enumerate() {
            match agent.clear(Unread::Keep) {
                Ok(of_agent) => left.what.extend(of_agent),
                Err(why) => _ = left.failed.insert(number, why),
            }
        }
        left
    }

    fn note_left(&mut self, left: &[Left]) -> Result<(), Error> {
        for Left { node, directory, what, .. } in left.iter().filter(|left| left.foreign) {
            self.note(node.as_str(), EventKind::PoolLeftAlone, None, format!("in {directory}: {what}"));
        }
        let left: Vec<&Left> = left.iter().filter(|left| !left.foreign).collect();
        for left in &left {
            for (value, text) in left.notes() {
                self.note(left.node.as_str(), EventKind::StampsLeft, value, text);
            }
        }
        let Some(Left { directory, what, .. }) = left.first() else { return Ok(()) };
        let run = quoted(self.record.run.root().display());
        Err(Error::work(format!(
            "cannot take every stamp: {what} stays in {directory}. Once that has ended, tickscope finish {run} takes \
             the rest"
        )))
    }

    /// Tells of nodes that may hold stamps which are not in the run, where nothing told of them yet: nobody could look.
    fn note_untaken(&mut self, manifest: &Manifest) {
        let nodes: BTreeSet<&NodeName> = manifest.sessions.keys().chain(manifest.stamp_directories.keys()).collect();
        for node in nodes {
            let is_told = |event: &Event| event.what == EventKind::StampsLeft && event.node == node.as_str();
            if !self.record.events.iter().any(is_told) {
                let text = format!("what node {node} still held is not in the run; tickscope finish takes it");
                self.note(node.as_str(), EventKind::StampsLeft, None, text);
            }
        }
    }

    /// Fetches what agents elsewhere still hold, and ends the sessions of those that hold nothing more: an agent goes
    /// with all that it has.
    fn end_sessions(&mut self, left: &AllLeft) -> Result<(), Error> {
        let mut manifest = self.record.run.manifest().clone();
        let mut failed = None;
        for (number, (_, agent)) in self.agents.iter_mut().enumerate() {
            let mut fetched = agent.flush();
            let of_agent =
                |node: &NodeName| self.nodes.iter().any(|known| known.agent == number && known.name == *node);
            for (position, log) in self.plan.logs.iter().enumerate().filter(|(_, log)| of_agent(&log.node)) {
                let to = Log::copy(self.record.run.root(), position);
                let run = self.nodes.iter().find(|known| known.name == log.node).map(|known| known.run.clone());
                let path = log.path(&run.unwrap_or_default(), Path::new(""));
                let copied = agent.copy_log(&path.display().to_string(), &to);
                fetched = fetched.and(copied.map(drop));
            }
            for (node, of_plan) in self.nodes.iter().zip(&self.plan.nodes).filter(|(node, _)| node.agent == number) {
                match take_outputs(of_plan, &mut **agent, &node.run, self.record.run.root()) {
                    Ok(lacking) => self.record.events.extend(lacking),
                    Err(why) => fetched = fetched.and(Err(why)),
                }
            }
            let here = self.nodes.iter().filter(|node| node.agent == number);
            let mut elsewhere = here.filter(|node| manifest.sessions.contains_key(&node.name));
            if elsewhere.any(|node| node.uncollected || left.is_of(node)) {
                failed = failed.or(fetched.err()); // what it holds was told; its session waits for tickscope finish
                continue;
            }
            match fetched.and_then(|()| agent.bye()) {
                Ok(()) => {
                    let nodes = self.nodes.iter().filter(|node| node.agent == number);
                    nodes.for_each(|node| drop(manifest.sessions.remove(&node.name)));
                }
                Err(why) => failed = failed.or(Some(why)),
            }
        }
        self.record.run.set_manifest(manifest)?;
        failed.map_or(Ok(()), Err)
    }

    fn import_logs(&mut self) -> Vec<Coarse> {
        let Self { record, nodes, plan, .. } = self;
        let of_node = |node: &NodeName| nodes.iter().find(|known| known.name == *node);
        let run = |node: &NodeName| of_node(node).map_or_else(String::new, |node| node.run.clone());
        let root = record.run.root().to_path_buf();
        let file = |position: usize, log: &Log| {
            let copy = Log::copy(&root, position);
            if copy.exists() { copy } else { log.path(&run(&log.node), &plan.origin.folder) }
        };
        let coarse = record.import_logs(&plan.logs, file);
        for position in 0..plan.logs.len() {
            let _ = std::fs::remove_file(Log::copy(&root, position)); // mostly there is none
        }
        coarse
    }

    fn cost(&self, overhead: Option<Overhead>) -> Result<Cost, Error> {
        let channels = self.record.run.channels()?.found;
        let nodes = self.nodes.iter().map(|node| node.cost(&channels)).collect();
        Ok(Cost { stamp: self.nodes[self.plan.reference_at()].stamp_cost, nodes, overhead })
    }

    fn go_on(&mut self, failed: &mut Option<Error>, step: Result<(), Error>) {
        self.record.go_on(failed, step);
    }

    /// Ends a process; `Err` also where it died and was not started again yet.
    pub(super) fn stop_helper(&mut self, kind: HelperKind, helper: Helper) -> Result<Ended, Error> {
        let died = || Error::work(format!("the {} {} died", helper.role.title(), self.nodes[helper.at].name));
        let task = helper.task.ok_or_else(died)?;
        self.end(helper.at, kind.row().service, task)
    }

    /// Ends the clock monitors; the rate that each reports of its clocks becomes the bound that the run declares for
    /// them.
    fn stop_monitors(&mut self) -> Result<(), Error> {
        let mut manifest = self.record.run.manifest().clone();
        for at in 0..self.nodes.len() {
            let Some(helper) = self.nodes[at].helper(HelperKind::Monitor).take() else { continue };
            let report = self.stop_monitor(helper);
            if let Ok(report) = &report {
                self.note_sets(at, report);
            }
            let (ppb, kind, origin) = match (self.plan.clock.slew, report) {
                (Slew::Declared(bound), report) => {
                    self.hold_against(at, bound.ppb(), report);
                    (bound.ppb(), RhoKind::Declared, "declared".into())
                }
                (Slew::Auto, Ok(report)) => {
                    let origin = format!("watched: {}", report.slew_bound_origin);
                    (report.slew_bound_ppm.saturating_mul(1000), RhoKind::Watched, origin)
                }
                (Slew::Auto, Err(why)) => {
                    self.note_at(at, EventKind::ClockUnwatched, None, why.to_string());
                    continue; // the analysis then takes what a kernel slews by at most
                }
            };
            for clock in [Clock::Realtime, Clock::Monotonic] {
                let (reference, domain) = (self.counter(at), self.label(at, clock));
                let (origin, kind) = (origin.clone(), Some(kind));
                manifest.rho.push(RhoDeclaration { reference, domain, ppb: ppb.into(), origin, kind });
            }
        }
        Ok(self.record.run.set_manifest(manifest)?)
    }

    /// The report of a node's clock monitor. One that followed another cannot speak for all of the run.
    fn stop_monitor(&mut self, helper: Helper) -> Result<ClockReport, Error> {
        let failures = helper.failures;
        let report = self.stop_helper(HelperKind::Monitor, helper)?.report()?;
        match failures {
            0 => Ok(report),
            _ => Err(Error::work(format!(
                "the clock monitor was started again {}: it did not see all",
                counted(failures, "time")
            ))),
        }
    }

    /// Keeps a declared slew bound; a clock monitor that failed, or that asks for a wider bound, becomes an event.
    fn hold_against(&mut self, at: usize, declared_ppb: u32, report: Result<ClockReport, Error>) {
        match report {
            Err(why) => self.note_at(at, EventKind::ClockUnwatched, None, why.to_string()),
            Ok(report) if report.slew_bound_ppm.saturating_mul(1000) > declared_ppb => {
                let (wanted, why) = (report.slew_bound_ppm, &report.slew_bound_origin);
                let text = format!(
                    "expected clocks that run within the declared {} ppm, found that the clock monitor asks for \
                     {wanted} ppm: {why}. Declare that, or let clock.slew be auto",
                    f64::from(declared_ppb) / 1000.0
                );
                notice::say(&text);
                self.note_at(at, EventKind::ClockSlewDeclared, Some(wanted.into()), text);
            }
            Ok(_) => {}
        }
    }

    /// Where the kernel does not tell that its clock was set, a small step passes unseen.
    fn note_sets(&mut self, at: usize, report: &ClockReport) {
        if !report.sets_are_told {
            let text = "the kernel does not tell when its clock is set: steps that are narrower than two readings of \
                        the clocks leave open (some 0.3 us) pass unseen";
            self.note_at(at, EventKind::ClockSetsUntold, None, text.into());
        }
    }

    /// Ends a node's collector. One that was killed lost nothing: another takes over where it stood.
    fn stop_collector(&mut self, at: usize) -> Result<(), Error> {
        let Some(helper) = self.nodes[at].helper(HelperKind::Collector).take() else { return Ok(()) };
        let failures = helper.failures;
        let why = match self.stop_helper(HelperKind::Collector, helper) {
            Ok(ended) if ended.status().success() => {
                if failures == 0 {
                    self.nodes[at].keep_memory(&ended);
                }
                return Ok(());
            }
            Ok(ended) => {
                let status = ended.status();
                format!("the collector failed with {status}; what it had not stored is still in shared memory")
            }
            Err(killed) => killed.to_string(),
        };
        notice::say(format_args!("{why}; collecting again"));
        self.nodes[at].uncollected = true;
        self.note_at(at, EventKind::CollectorKilled, None, format!("{why}. Another took over where it stood"));
        let node = self.nodes[at].name.clone();
        let again = self.agent(at).perform(&node, &Role::CollectOnce)?;
        self.nodes[at].charge(Service::Collector, &again);
        if again.status().success() {
            self.nodes[at].uncollected = false;
            return Ok(());
        }
        Err(Error::work(format!(
            "cannot collect again for {node}: the collector ended with {}. What lies in {} is not stored; tickscope \
             finish {} takes it once that can be mended",
            again.status(),
            self.nodes[at].stamps,
            self.record.run.root().display()
        )))
    }

    /// The clocks and cores of the hosts, against how they were at the start.
    fn look_again(&mut self) -> Result<(), Error> {
        let mut manifest = self.record.run.manifest().clone();
        let mut failed = None;
        for number in 0..self.agents.len() {
            let (host, agent) = &mut self.agents[number];
            let (host, look) = (host.clone(), agent.look_again());
            let look = match look {
                Ok(look) => look,
                Err(why) => {
                    failed.get_or_insert(why);
                    continue;
                }
            };
            for (tick, until, text) in look.clock_changes {
                let (tick, until, what) = (Some(tick), Some(until), EventKind::Clock);
                self.record.events.push(Event { node: host.clone(), tick, until, what, text, ..Event::default() });
            }
            for finding in look.findings {
                self.note(&host, EventKind::Cores, None, finding);
            }
            let here = manifest.nodes.iter_mut().zip(&self.nodes).filter(|(_, node)| node.agent == number);
            for (facts, _) in here.filter(|(facts, _)| facts.injected.is_none()) {
                // A second look that saw no step takes nothing from what the first one measured.
                let (hertz, again) = (facts.counter.frequency.hertz, look.reading.clone());
                let again = again.filter(|reading| is_readable(reading, hertz));
                facts.counter.reading = again.or(facts.counter.reading.take());
            }
            let statement = format!("cores looked at again at the end: {}", look.sharing);
            let kind = Some(AssumptionKind::Checked);
            manifest.assumptions.push(Assumption { statement, origin: "checked at the end".into(), kind });
        }
        self.record.run.set_manifest(manifest)?;
        failed.map_or(Ok(()), Err)
    }
}

/// What stays in the stamp directories.
#[derive(Default)]
struct AllLeft {
    what: Vec<Left>,
    /// By number of an agent: why nobody knows of its nodes.
    failed: BTreeMap<usize, Error>,
}

impl AllLeft {
    /// Whether stamps of the node may still lie where it stamps.
    fn is_of(&self, node: &NodeRun) -> bool {
        let stays = self.what.iter().any(|left| left.node == node.name && !left.foreign);
        stays || self.failed.contains_key(&node.agent)
    }
}
