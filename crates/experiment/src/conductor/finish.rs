//! The end of a run: what still runs is ended, what is left is taken, traces are joined, the manifest is completed.
//!
//! Guarantees: a step that fails does not cut off those after it, as far as they can go without it; the first failure
//! is what the command ends with, the others are events.

use std::path::PathBuf;

use tickscope_collect::{LogPoint, LogRead, import_log};
use tickscope_store::{
    Assumption, AssumptionKind, Cost, Joined, Manifest, Overhead, Point, Rho, RhoKind, write_events,
};
use tickscope_tick::{Domain, Ordering, PointName};

use super::*;
use crate::declaration::points;
use crate::plan::{Log, Slew};
use crate::roles::clock_monitor::ClockReport;
use crate::roles::probe::ProbeReport;

/// Memory that the join may hold.
const JOIN_BYTES: usize = 512 << 20;

impl Conductor<'_> {
    /// Ends what still runs, takes what is left, joins, writes the manifest.
    pub fn finish(&mut self, overhead: Option<Overhead>) -> Result<Run, Error> {
        let mut failed = self.stop_probes().err();
        let watched = self.stop_monitors();
        self.go_on(&mut failed, watched);
        let mut collected = true;
        for at in 0..self.nodes.len() {
            let taken = self.stop_collector(at);
            collected &= taken.is_ok();
            self.go_on(&mut failed, taken);
        }
        let coarse = self.import_logs();
        let looked = self.look_again();
        self.go_on(&mut failed, looked);
        self.go_on(&mut failed, self.write_events()); // which the join reads
        let joined = tickscope_analysis::join(&self.run, JOIN_BYTES).map(|joined| self.note_join(&joined));
        self.go_on(&mut failed, joined);
        let mut manifest = self.run.manifest().clone();
        manifest.ended_unix_ms = Some(crate::unix_ms());
        let declared = self.declare_points(&mut manifest, &coarse);
        self.go_on(&mut failed, declared);
        let counted = self.cost(overhead).map(|cost| manifest.cost = Some(cost));
        self.go_on(&mut failed, counted);
        let completed = self.run.set_manifest(manifest);
        self.go_on(&mut failed, completed.map_err(Error::from));
        self.go_on(&mut failed, self.write_events());
        self.go_on(&mut failed, self.run.write_digests().map_err(Error::from));
        if collected {
            self.agents.iter_mut().for_each(|(_, agent)| agent.clear());
        }
        failed.map_or_else(|| Ok(self.run.clone()), Err)
    }

    /// The points that were stamped, with the resolution of those that a log gave, and those of the layout that were
    /// not.
    fn declare_points(&mut self, manifest: &mut Manifest, coarse: &[(NodeName, PointName, u64)]) -> Result<(), Error> {
        manifest.points = points(&self.run)?;
        for (node, point, ticks) in coarse {
            let known = manifest.points.iter_mut().find(|known| known.node == *node && known.name == *point);
            known.into_iter().for_each(|known| known.resolution_ticks = Some(*ticks));
        }
        let unstamped = self.unstamped(manifest)?;
        manifest.points.extend(unstamped);
        Ok(())
    }

    fn cost(&self, overhead: Option<Overhead>) -> Result<Cost, Error> {
        let channels = self.run.channels()?.found;
        let nodes = self.nodes.iter().map(|node| node.cost(&channels)).collect();
        Ok(Cost { stamp: self.nodes[self.plan.reference_at()].stamp_cost, nodes, overhead })
    }

    /// Notes a step that failed; the first one is what the command ends with.
    fn go_on(&mut self, failed: &mut Option<Error>, step: Result<(), Error>) {
        if let Err(why) = step {
            self.note(Event::RUN, EventKind::FinishFailed, None, why.to_string());
            failed.get_or_insert(why);
        }
    }

    pub(super) fn stop_probes(&mut self) -> Result<(), Error> {
        let reference = self.plan.reference_at();
        let take = |node: &mut NodeRun, asks| if asks { node.probe_client.take() } else { node.probe_server.take() };
        let mut failed = None;
        for (asks, side) in [(true, "asking"), (false, "answering")] {
            for at in 0..self.nodes.len() {
                let Some(task) = take(&mut self.nodes[at], asks) else { continue };
                // One that fails must not take the closing bursts and the last brackets of the others with it.
                let ended = self.end(if asks { reference } else { at }, Service::Probe, task);
                match ended.and_then(|ended| ended.report()) {
                    Ok(report) => self.note_probe(at, side, &report),
                    Err(why) => failed = failed.or(Some(why)),
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn note_probe(&mut self, at: usize, side: &str, report: &ProbeReport) {
        for (reason, count) in &report.refused {
            let text = format!(
                "the probe ({side}) refused datagrams: {reason}. They are no evidence; nothing is lost by them"
            );
            self.note_at(at, EventKind::DatagramsRefused, Some(*count as i64), text);
        }
        for stamps in &report.impossible {
            self.note_at(at, EventKind::ImpossibleExchange, None, stamps.clone());
        }
        if let Some((text, missing)) = &report.kernel {
            self.note_at(at, EventKind::KernelStamps, Some(*missing as i64), format!("the probe ({side}): {text}"));
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

    /// Ends the clock monitors; the rate that each reports of its clocks becomes the bound that the run declares for
    /// them.
    fn stop_monitors(&mut self) -> Result<(), Error> {
        let mut manifest = self.run.manifest().clone();
        for at in 0..self.nodes.len() {
            let Some(task) = self.nodes[at].monitor.take() else { continue };
            let report = self.end(at, Service::ClockMonitor, task).and_then(|ended| ended.report::<ClockReport>());
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
                manifest.rho.push(Rho { reference, domain, ppb: ppb.into(), origin, kind });
            }
        }
        Ok(self.run.set_manifest(manifest)?)
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
                eprintln!("tickscope: {text}");
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
        let Some(task) = self.nodes[at].collector.take() else { return Ok(()) };
        let why = match self.end(at, Service::Collector, task) {
            Ok(ended) if ended.status().success() => {
                self.nodes[at].keep_memory(&ended);
                return Ok(());
            }
            Ok(ended) => {
                let status = ended.status();
                format!("the collector failed with {status}; what it had not stored is still in shared memory")
            }
            Err(killed) => killed.to_string(),
        };
        eprintln!("tickscope: {why}; collecting again");
        self.note_at(at, EventKind::CollectorKilled, None, format!("{why}. Another took over where it stood"));
        let node = self.nodes[at].name.clone();
        let again = self.agent(at).perform(&node, &Role::CollectOnce)?;
        self.nodes[at].charge(Service::Collector, &again);
        if again.status().success() {
            return Ok(());
        }
        Err(Error::work(format!(
            "cannot collect again for {node}: the collector ended with {}. Its stamps still lie in {}; run tickscope \
             collect on it",
            again.status(),
            self.nodes[at].stamps
        )))
    }

    /// Points of the layout that nothing was stamped at: each is an event, and its stages are shown as missing.
    fn unstamped(&mut self, manifest: &Manifest) -> Result<Vec<Point>, Error> {
        let known: Vec<String> = manifest.points.iter().map(|point| point.place().to_string()).collect();
        let layout = self.run.layout()?;
        let mut unstamped = Vec::new();
        for point in layout.points().iter().filter(|point| !known.contains(&point.place.to_string())) {
            let text = format!(
                "expected stamps at {}, found none. Is the name right, and the point reached? Stamped were: {}",
                point.place,
                known.join(", ")
            );
            eprintln!("tickscope: {text}");
            let (node, name) = (point.place.node.clone(), point.place.point.clone());
            self.note(node.as_str(), EventKind::PointUnstamped, None, text);
            unstamped.push(Point { node, name, ordering: Ordering::Plain, counter: None, resolution_ticks: None });
        }
        Ok(unstamped)
    }

    /// Logs of programs that read another clock. One that cannot be read becomes an event; the others are imported.
    /// Returns how coarsely each of them gives its readings, where that is more than a tick of its clock.
    fn import_logs(&mut self) -> Vec<(NodeName, PointName, u64)> {
        let mut coarse = Vec::new();
        let plan = self.plan;
        for Log { node, point, file, clock, ordering } in &plan.logs {
            let Some(at) = self.nodes.iter().position(|known| known.name == *node) else { continue };
            let file = PathBuf::from(file.replace("{run}", &self.nodes[at].run));
            let domain = Domain { boot: self.run.manifest().nodes[at].boot, counter: *clock, epoch: 0 };
            let place = LogPoint { node: node.clone(), point: point.clone(), domain, ordering: *ordering };
            let read = import_log(&self.run, &place, &file);
            if let Some(resolution_ns) = read.as_ref().ok().map(|read| read.resolution_ns).filter(|&ns| ns > 1) {
                coarse.push((node.clone(), point.clone(), resolution_ns.unsigned_abs()));
            }
            let (what, value, text) = match read {
                Ok(LogRead { stamps, refused: 0, .. }) => {
                    (EventKind::Log, stamps, format!("{stamps} readings of {} as {node}.{point}", file.display()))
                }
                Ok(LogRead { refused, first_refused, .. }) => {
                    let (line, text) = first_refused.unwrap_or_default();
                    let place = format!("{}:{line}", file.display());
                    (
                        EventKind::LogRefused,
                        refused,
                        format!("{place}: expected id,ns, found '{text}'. Mend what writes it"),
                    )
                }
                Err(why) => (EventKind::LogRefused, 0, why.to_string()),
            };
            if what == EventKind::LogRefused {
                eprintln!("tickscope: {text}");
            }
            self.note_at(at, what, Some(value as i64), text);
        }
        coarse
    }

    fn write_events(&self) -> Result<(), Error> {
        if self.events.is_empty() {
            return Ok(());
        }
        Ok(write_events(&self.run.paths().events().join("run.parquet"), &self.events)?)
    }

    /// The clocks and cores of the hosts, against how they were at the start.
    fn look_again(&mut self) -> Result<(), Error> {
        let mut manifest = self.run.manifest().clone();
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
                self.events.push(Event { node: host.clone(), tick, until, what, text, ..Event::default() });
            }
            for finding in look.findings {
                self.note(&host, EventKind::Cores, None, finding);
            }
            let here = manifest.nodes.iter_mut().zip(&self.nodes).filter(|(_, node)| node.agent == number);
            for (facts, _) in here.filter(|(facts, _)| facts.injected.is_none()) {
                // A second look that saw no step takes nothing from what the first one measured.
                facts.counter.reading = look.reading.clone().or(facts.counter.reading.take());
            }
            let statement = format!("cores looked at again at the end: {}", look.sharing);
            let kind = Some(AssumptionKind::Checked);
            manifest.assumptions.push(Assumption { statement, origin: "checked at the end".into(), kind });
        }
        self.run.set_manifest(manifest)?;
        failed.map_or(Ok(()), Err)
    }

    fn note_join(&mut self, joined: &Joined) {
        for refused in &joined.refused {
            self.note(Event::RUN, EventKind::FileRefused, None, refused.to_string());
        }
        if joined.counts.untold > 0 {
            let text = format!(
                "ids whose passages nothing tells apart, of {} that passed a point more than once",
                joined.counts.repeated
            );
            self.note(Event::RUN, EventKind::PassagesUntold, Some(joined.counts.untold as i64), text);
        }
        let layout = self.run.layout().ok();
        let points = layout.iter().flat_map(|layout| layout.points());
        let places: Vec<_> = points.map(|point| point.place.clone()).collect();
        for (place, counts) in places.iter().zip(&joined.counts.points) {
            let ids = joined.counts.ids;
            for (what, count, text) in [
                (EventKind::IdsMissing, counts.missing, format!("at {place}, of {ids} ids")),
                (
                    EventKind::IdsRepeated,
                    counts.duplicates,
                    format!("stamps at {place} of ids that were there before; {ids} ids"),
                ),
                (EventKind::IdsOutOfOrder, counts.out_of_order, format!("at {place}, of {ids} ids")),
            ] {
                if count > 0 {
                    self.note(place.node.as_str(), what, Some(count as i64), text);
                }
            }
        }
    }
}
