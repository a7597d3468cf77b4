//! The end of a run: what still runs is ended, what is left is taken, traces are joined, the manifest is completed.
//!
//! Guarantees: a step that fails does not cut off those after it, as far as they can go without it; the first failure is
//! what the command ends with, the others are events.

use super::*;

impl Session {
    /// Ends what still runs, takes what is left, joins, writes the manifest.
    pub(super) fn finish(mut self, experiment: &Experiment, overhead: Option<Overhead>) -> Result<Run, Failure> {
        let mut failed = self.stop_probes().err();
        let watched = self.stop_monitors(experiment.slew);
        self.go_on(&mut failed, watched);
        let mut collected = true;
        for (node, process) in std::mem::take(&mut self.collectors) {
            let ended = process.end();
            if let Ok(ended) = &ended {
                self.spending.beside(&node, Beside::Collector, ended);
            }
            let why = match ended {
                Ok(Ended { status, .. }) if status.success() => continue,
                Ok(Ended { status, .. }) => {
                    format!("expected the collector to end well, found {status}; what it left lies in shared memory")
                }
                Err(killed) => killed.to_string(),
            };
            let again = self.collect_again(&node, &why);
            collected &= again.is_ok();
            self.go_on(&mut failed, again);
        }
        let coarse = self.import_logs(experiment);
        let looked = self.look_again();
        self.go_on(&mut failed, looked);
        self.write_events()?; // also where the join fails
        let joined = tickscope_analysis::join(&self.run, JOIN_BYTES)?;
        self.note_join(&joined);
        let mut manifest = self.run.manifest().clone();
        manifest.ended_unix_ms = Some(unix_ms());
        manifest.points = points(&self.run)?;
        for (node, point, ticks) in coarse {
            let known = manifest.points.iter_mut().find(|known| known.node == node && known.name == point);
            known.into_iter().for_each(|known| known.resolution_ticks = Some(ticks));
        }
        let spending = std::mem::take(&mut self.spending);
        manifest.cost = Some(spending.close(&self.run, self.stamp_cost, overhead)?);
        let unstamped = self.unstamped(&manifest)?;
        manifest.points.extend(unstamped);
        self.run.set_manifest(manifest)?;
        self.write_events()?;
        if collected {
            let _ = fs::remove_dir_all(&self.stamp_root); // whatever is left there is empty, or was reported
        }
        failed.map_or(Ok(self.run), Err)
    }

    /// Notes a step that failed; the first one is what the command ends with.
    fn go_on(&mut self, failed: &mut Option<Failure>, step: Result<(), Failure>) {
        if let Err(why) = step {
            self.note("run", "finish-failed", None, why.to_string());
            failed.get_or_insert(why);
        }
    }

    /// Points of the layout that nothing was stamped at: they are told, and their stages are shown as missing.
    fn unstamped(&mut self, manifest: &Manifest) -> Result<Vec<tickscope_store::Point>, Failure> {
        let known: Vec<String> = manifest.points.iter().map(|point| format!("{}.{}", point.node, point.name)).collect();
        let layout = self.run.layout()?;
        let mut unstamped = Vec::new();
        for point in layout.points().iter().filter(|point| !known.contains(&point.place.to_string())) {
            let text = format!(
                "expected stamps at {}, found none. Is the name right, and the point reached? Stamped were: {}",
                point.place,
                known.join(", ")
            );
            eprintln!("tickscope: {text}");
            self.note(point.place.node.as_str(), "point-unstamped", None, text);
            unstamped.push(tickscope_store::Point {
                node: point.place.node.clone(),
                name: point.place.point.clone(),
                ordering: Ordering::Plain,
                counter: None,
                resolution_ticks: None,
            });
        }
        Ok(unstamped)
    }

    /// Logs of programs that read another clock. One that cannot be read is told and hides nothing else.
    /// Returns how coarsely each of them gives its readings, where that is more than a tick of its clock.
    fn import_logs(&mut self, experiment: &Experiment) -> Vec<(NodeName, PointName, u64)> {
        let mut coarse = Vec::new();
        let run = whole(self.run.root());
        for Log { node, point, file, clock, ordering } in &experiment.logs {
            let file = PathBuf::from(file.replace("{run}", &run.display().to_string()));
            let boot = self.run.manifest().nodes.iter().find(|known| known.name == *node).map(|known| known.boot);
            let Some(boot) = boot else { continue }; // the run file was checked
            let domain = Domain { boot, counter: *clock, epoch: 0 };
            let place = LogPoint { node: node.clone(), point: point.clone(), domain, ordering: *ordering };
            let read = import_log(&self.run, &place, &file);
            if let Some(resolution_ns) = read.as_ref().ok().map(|read| read.resolution_ns).filter(|&ns| ns > 1) {
                coarse.push((node.clone(), point.clone(), resolution_ns.unsigned_abs()));
            }
            let (what, value, text) = match read {
                Ok(LogRead { stamps, refused: 0, .. }) => {
                    ("log", stamps, format!("{stamps} readings of {} as {node}.{point}", file.display()))
                }
                Ok(LogRead { refused, first_refused, .. }) => {
                    let (line, text) = first_refused.unwrap_or_default();
                    let place = format!("{}:{line}", file.display());
                    ("log-refused", refused, format!("{place}: expected id,ns, found '{text}'. Mend what writes it"))
                }
                Err(why) => ("log-refused", 0, why.to_string()),
            };
            if what == "log-refused" {
                eprintln!("tickscope: {text}");
            }
            self.note(node.as_str(), what, Some(value as i64), text);
        }
        coarse
    }

    fn write_events(&self) -> Result<(), Failure> {
        if self.events.is_empty() {
            return Ok(());
        }
        Ok(write_events(&self.run.paths().events().join("run.parquet"), &self.events)?)
    }

    /// A collector that was killed lost nothing: another takes over where it stood.
    fn collect_again(&mut self, node: &str, why: &str) -> Result<(), Failure> {
        eprintln!("tickscope: {why}; collecting again");
        self.note(node, "collector-killed", None, format!("{why}. Another took over where it stood"));
        let mut again = self.own()?;
        again
            .arg("collect")
            .arg(self.stamp_directory(node))
            .arg("--run")
            .arg(self.run.root())
            .args(["--node", node, "--json"]);
        let status = again.stdout(std::process::Stdio::null()).status().map_err(Failure::work)?;
        if status.success() {
            Ok(())
        } else {
            Err(Failure::work(format!(
                "expected to collect again for {node}, found {status}. Its stamps still lie in {}; run tickscope collect on it",
                self.stamp_directory(node).display()
            )))
        }
    }

    /// The host's clocks and cores, against how they were at the start.
    fn look_again(&mut self) -> Result<(), Failure> {
        let after = Snapshot::of_this_host(&NodeCounter::true_counter()).map_err(Failure::work)?;
        let widths = SnapshotWidths { counter_ticks: self.host.step.width_ticks, ..clock_widths(None) };
        let tolerance = Tolerance { widths, ..Tolerance::of(self.host.facts.frequency) };
        for event in host_clocks::between(self.clocks_before, after, &tolerance) {
            self.events.push(Event {
                node: "host".into(),
                tick: Some(event.earlier.before),
                until: Some(event.later.after),
                what: "clock".into(),
                text: event.to_string(),
                ..Event::default()
            });
        }
        let sharing = Sharing::of_this_host().map_err(Failure::work)?;
        for finding in sharing.findings() {
            self.note("host", "cores", None, finding.to_string());
        }
        self.host.look_at_step_again();
        let width = reading_width(&self.host.step);
        let mut manifest = self.run.manifest().clone();
        for node in manifest.nodes.iter_mut().filter(|node| node.injected.is_none()) {
            node.counter.reading = width.clone();
        }
        let statement = format!("cores looked at again at the end: {sharing}");
        manifest.assumptions.push(Assumption { statement, origin: "checked at the end".into() });
        Ok(self.run.set_manifest(manifest)?)
    }

    fn note_join(&mut self, joined: &tickscope_store::Joined) {
        for refused in &joined.refused {
            self.note("run", "file-refused", None, refused.to_string());
        }
        if joined.counts.untold > 0 {
            let text = format!(
                "ids whose passages nothing tells apart, of {} that passed a point more than once",
                joined.counts.repeated
            );
            self.note("run", "passages-untold", Some(joined.counts.untold as i64), text);
        }
        let layout = self.run.layout().ok();
        let names: Vec<(String, String)> = layout
            .iter()
            .flat_map(|layout| layout.points())
            .map(|point| (point.place.node.to_string(), point.place.to_string()))
            .collect();
        for ((node, name), counts) in names.iter().zip(&joined.counts.points) {
            for (what, count) in [
                ("ids-missing", counts.missing),
                ("ids-repeated", counts.duplicates),
                ("ids-out-of-order", counts.out_of_order),
            ] {
                if count > 0 {
                    let ids = joined.counts.ids;
                    let text = match what {
                        "ids-repeated" => format!("stamps at {name} of ids that were there before; {ids} ids"),
                        _ => format!("at {name}, of {ids} ids"),
                    };
                    self.note(node, what, Some(count as i64), text);
                }
            }
        }
    }
}
