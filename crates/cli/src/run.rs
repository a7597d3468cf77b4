//! `tickscope run`: one experiment from start to end.
//!
//! Order: passes with and without measuring, where asked for; look at the host; network; the cost of a stamp; collectors; probes (their opening burst); commands; wait; commands' end; probes'
//! closing burst; collectors take what is left; look again; join; table. Whatever ends it early, what was measured is kept.

use std::collections::BTreeMap;
use std::fs;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tickscope_analysis::{CORES_PROVED, Terms};
use tickscope_stamp::block::Policy;
use tickscope_store::{
    Assumption, Event, LogPoint, LogRead, Manifest, Name, Overhead, Pair, PolicyRule, Rho, Run, StampCost, import_log,
    join_run, write_events,
};
use tickscope_tick::host_clocks::{self, Snapshot, Tolerance};
use tickscope_tick::sharing::Sharing;
use tickscope_tick::{Counter, Domain, Injection, NodeCounter, Ordering, RealtimeInjection};

use crate::clock_watching::ClockReport;
use crate::experiment::{Cores, Experiment, Log, Node, Slew};
use crate::failure::Failure;
use crate::host::Host;
use crate::interrupt;
use crate::network::Network;
use crate::options::RunOptions;
use crate::overhead;
use crate::probing::ProbeReport;
use crate::report;
use crate::show;
use crate::spending::{Beside, Spending};
use crate::stamp_cost;
use crate::subject::{Ended, Process};

/// Memory that the join may hold.
pub const JOIN_BYTES: usize = 512 << 20;

/// Runs an experiment and prints its table.
pub fn run(options: &RunOptions) -> Result<(), Failure> {
    interrupt::catch();
    let mut experiment = Experiment::read(&options.file)?;
    if let Some(seconds) = options.seconds {
        if !(0.1..=1e6).contains(&seconds) {
            return Err(Failure::input(format!(
                "expected --seconds from 0.1 to 1000000, found {seconds}. Leave it out for the run file's"
            )));
        }
        experiment.seconds = seconds;
    }
    let root = options.out.clone().or_else(|| experiment.out.clone()).unwrap_or_else(|| default_root(&experiment.name));
    Run::expect_none(&root)?;
    let overhead = options.overhead.then(|| overhead::compare(&experiment, &root)).transpose()?;
    let mut session = Session::begin(&experiment, &root)?;
    let measured = session.measure(&experiment);
    let finished = session.finish(&experiment, overhead);
    if let (Err(why), Err(_)) = (&measured, &finished) {
        eprintln!("tickscope: {why}");
    }
    let run = finished?;
    if !options.json {
        eprintln!("run: {}", run.root().display());
    }
    // The table first: a command that failed leaves what was measured until then.
    let shown = show::print(&run, &Terms::default(), options.json, true);
    if let (Err(why), Err(_)) = (&shown, &measured) {
        eprintln!("tickscope: {why}");
    }
    let reported = if options.report { report::beside(&run) } else { Ok(()) };
    if !options.json {
        println!("\nthe run's files: {}", run.root().display());
        match options.report {
            true if reported.is_ok() => println!("report: {}", run.places().report().display()),
            _ => println!("report: tickscope report {}", run.root().display()),
        }
    }
    measured.and(shown).and(reported)?;
    if interrupt::ended() {
        Err(Failure::work("interrupted; what was measured until then is kept and shown above"))
    } else {
        Ok(())
    }
}

fn default_root(name: &str) -> PathBuf {
    Path::new("runs").join(format!("{name}-{}", unix_ms() / 1000))
}

/// From the file system's root on: a command may run elsewhere.
fn whole(root: &Path) -> PathBuf {
    std::path::absolute(root).unwrap_or_else(|_| root.into())
}

fn unix_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Whether a pass of the subject is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measuring {
    /// With all that a run does: stamps, collectors, probes, watches.
    All,
    /// With nothing of it: points are off.
    Nothing,
}

/// One pass of the subject, in a directory of its own; what each command said in its last line.
pub fn pass(
    experiment: &Experiment,
    root: &Path,
    measuring: Measuring,
) -> Result<Vec<(Name, Option<String>)>, Failure> {
    let mut session = Session { quiet: true, ..Session::begin(experiment, root)? };
    let outcome = match measuring {
        Measuring::All => session.measure(experiment),
        Measuring::Nothing => session.only_run(experiment),
    };
    let said = session.discard();
    outcome.map(|()| said)
}

/// A run while it goes on.
struct Session {
    run: Run,
    host: Host,
    clocks_before: Snapshot,
    network: Network,
    stamp_root: PathBuf,
    injections: BTreeMap<String, Injection>,
    realtime_injections: BTreeMap<String, RealtimeInjection>,
    collectors: Vec<(String, Process)>,
    servers: Vec<(String, Process)>,
    clients: Vec<(String, Process)>,
    watches: Vec<(String, Process)>,
    events: Vec<Event>,
    spending: Spending,
    stamp_cost: Option<StampCost>,
    said: Vec<(Name, Option<String>)>,
    quiet: bool,
}

/// A node's command while it runs.
struct Subject {
    node: Name,
    ends_run: bool,
    process: Process,
}

impl Session {
    fn begin(experiment: &Experiment, root: &Path) -> Result<Self, Failure> {
        let host = Host::look()?;
        let clocks_before = Snapshot::of_this_host(&NodeCounter::true_counter()).map_err(Failure::work)?;
        let id = random()?;
        let injections =
            experiment.nodes.iter().filter_map(|node| Some((node.name.to_string(), injection(node)?))).collect();
        let network = Network::set_up(experiment, id)?;
        let run = Run::create(root, manifest(experiment, &host, id, &injections, &network, root)?)?;
        let stamp_root = Path::new("/dev/shm").join(format!("tickscope-{id:016x}"));
        let mut session = Self {
            run,
            host,
            clocks_before,
            network,
            stamp_root,
            injections,
            realtime_injections: realtime_injections(experiment)?,
            collectors: Vec::new(),
            servers: Vec::new(),
            clients: Vec::new(),
            watches: Vec::new(),
            events: Vec::new(),
            spending: Spending::of(experiment.nodes.iter().map(|node| &node.name)),
            stamp_cost: None,
            said: Vec::new(),
            quiet: false,
        };
        session.note_facts();
        Ok(session)
    }

    /// What the host's counter lacks is an event of the run, not only a line on a screen.
    fn note_facts(&mut self) {
        let findings = self.host.facts.findings().into_iter().chain(self.host.sharing.findings()).collect::<Vec<_>>();
        for finding in findings {
            eprintln!("tickscope: {finding}");
            self.note("host", "counter", None, finding.to_string());
        }
    }

    fn note(&mut self, node: &str, what: &str, value: Option<i64>, text: String) {
        self.events.push(Event { node: node.into(), what: what.into(), value, text, ..Event::default() });
    }

    fn measure(&mut self, experiment: &Experiment) -> Result<(), Failure> {
        self.time_a_stamp()?;
        for node in &experiment.nodes {
            let directory = self.stamp_directory(node.name.as_str());
            fs::create_dir_all(&directory).map_err(|e| {
                Failure::work(format!("expected to make {}, found: {e}. Mount a tmpfs there", directory.display()))
            })?;
            let collector = self.collector(node)?;
            self.collectors.push((node.name.to_string(), collector));
            self.start_watch(node)?;
        }
        if experiment.evidence.probes {
            self.start_probes(experiment)?;
        }
        let subjects = self.start_commands(experiment, Measuring::All)?;
        let outcome = self.wait(experiment, subjects);
        let stopped = self.stop_probes();
        outcome.and(stopped)
    }

    /// The commands, and nothing beside them.
    fn only_run(&mut self, experiment: &Experiment) -> Result<(), Failure> {
        let subjects = self.start_commands(experiment, Measuring::Nothing)?;
        self.wait(experiment, subjects)
    }

    /// Ends what measures and drops what it took; what the commands said stays.
    fn discard(mut self) -> Vec<(Name, Option<String>)> {
        for (_, process) in std::mem::take(&mut self.watches).into_iter().chain(std::mem::take(&mut self.collectors)) {
            let _ = process.end(); // its report is of no use any more
        }
        let _ = fs::remove_dir_all(&self.stamp_root); // absent where nothing was measured
        self.said
    }

    /// While nothing of the run disturbs it. The run goes on without that figure.
    fn time_a_stamp(&mut self) -> Result<(), Failure> {
        match stamp_cost::ask(self.own()?, &self.stamp_root.with_extension("cost")) {
            Ok(cost) => self.stamp_cost = Some(cost),
            Err(why) => self.note("host", "stamp-untimed", None, why.to_string()),
        }
        Ok(())
    }

    fn stamp_directory(&self, node: &str) -> PathBuf {
        self.stamp_root.join(node)
    }

    /// This same program, with another command.
    fn own(&self) -> Result<Command, Failure> {
        std::env::current_exe().map(Command::new).map_err(|e| {
            Failure::work(format!(
                "expected to find this program again, found: {e}. Mount /proc, and leave the program where it is"
            ))
        })
    }

    fn collector(&self, node: &Node) -> Result<Process, Failure> {
        let mut command = self.own()?;
        command.arg("collect").arg(self.stamp_directory(node.name.as_str())).arg("--run").arg(self.run.root());
        command.args(["--follow", "--json", "--node", node.name.as_str()]);
        let mut process = Process::start(&format!("collector of {}", node.name), &mut command)?;
        process.ready()?;
        Ok(process)
    }

    fn start_probes(&mut self, experiment: &Experiment) -> Result<(), Failure> {
        let reference = experiment.reference.as_str();
        let others = experiment.nodes.iter().enumerate().filter(|(_, node)| node.name != experiment.reference);
        for (position, node) in others {
            if self.shares_counter(node.name.as_str()) {
                continue;
            }
            let name = node.name.as_str();
            let listen = self.address(name, experiment.probe_port)?;
            let mut serve = self.own()?;
            serve.arg("probe-serve").args([
                "--listen",
                &listen,
                "--run-id",
                &self.id(),
                "--node-id",
                &position.to_string(),
                "--kernel-every",
                &experiment.kernel_every().to_string(),
            ]);
            let server = self.start_in(name, "probe's server", &mut serve)?;
            self.servers.push((name.into(), server));
            let bind = self.address(reference, 0)?;
            let pair = Pair { reference: self.run.manifest().reference.clone(), domain: self.domain(name) };
            let mut ask = self.own()?;
            ask.arg("probe-ask").args([
                "--bind",
                &bind,
                "--peer",
                &listen,
                "--run-id",
                &self.id(),
                "--node-id",
                "1000",
            ]);
            ask.args(["--peer-id", &position.to_string(), "--hertz", &experiment.probes_hz.to_string()]);
            ask.args(["--kernel-every", &experiment.kernel_every().to_string(), "--brackets"]);
            ask.arg(self.run.places().brackets(&pair));
            let client = self.start_in(reference, "probe", &mut ask)?;
            self.clients.push((name.into(), client));
        }
        Ok(())
    }

    /// Watches the node's other clocks from before the first stamp until after the last.
    fn start_watch(&mut self, node: &Node) -> Result<(), Failure> {
        let name = node.name.as_str();
        let mut watch = self.own()?;
        watch.args(["clock-watch", "--node", name, "--run"]).arg(whole(self.run.root()));
        let process = self.start_in(name, "watch over the clocks", &mut watch)?;
        self.watches.push((name.into(), process));
        Ok(())
    }

    fn start_in(&self, node: &str, what: &str, command: &mut Command) -> Result<Process, Failure> {
        self.network.enter(node, command)?;
        self.inject(node, command);
        command.env("TICKSCOPE_DIR", self.stamp_directory(node)).env("TICKSCOPE_NODE", node);
        let mut process = Process::start(&format!("{what} on {node}"), command)?;
        process.ready()?;
        Ok(process)
    }

    /// The known maps before a node's clocks, in tests; what this shell was given is no part of the run.
    fn inject(&self, node: &str, command: &mut Command) {
        command.env_remove(Injection::VARIABLE).env_remove(RealtimeInjection::VARIABLE);
        if let Some(map) = self.injections.get(node) {
            command.env(Injection::VARIABLE, map.to_string());
        }
        if let Some(map) = self.realtime_injections.get(node) {
            command.env(RealtimeInjection::VARIABLE, map.to_string());
        }
    }

    fn shares_counter(&self, node: &str) -> bool {
        // All nodes of a local run are of one boot.
        let injected = |name: &str| self.injections.contains_key(name);
        let reference = self.reference();
        let detect = self.run.manifest().same_boot == tickscope_store::SameBoot::Detect;
        detect && !injected(node) && !injected(&reference)
    }

    /// The node that durations are expressed by.
    fn reference(&self) -> String {
        self.run.manifest().reference.split('.').next().unwrap_or_default().into()
    }

    fn id(&self) -> String {
        format!("{:016x}", self.run.manifest().run)
    }

    fn domain(&self, node: &str) -> String {
        format!("{node}.{}", self.host.facts.counter)
    }

    fn address(&self, node: &str, port: u16) -> Result<String, Failure> {
        let address = &self.network.addresses[node];
        let parsed: std::net::IpAddr = address.parse().map_err(Failure::work)?;
        Ok(SocketAddr::new(parsed, port).to_string())
    }

    fn start_commands(&self, experiment: &Experiment, measuring: Measuring) -> Result<Vec<Subject>, Failure> {
        let policies: Vec<String> =
            experiment.policies.iter().map(|(glob, policy)| format!("{glob}={}", policy.name())).collect();
        let mut subjects = Vec::new();
        for node in &experiment.nodes {
            let words = experiment.fill(node, &self.network.addresses, &whole(self.run.root()))?;
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).envs(&node.environment).env("TICKSCOPE_POLICY", policies.join(","));
            command.env("TICKSCOPE_NODE", node.name.as_str());
            match measuring {
                Measuring::All => command.env("TICKSCOPE_DIR", self.stamp_directory(node.name.as_str())),
                Measuring::Nothing => command.env_remove("TICKSCOPE_DIR"),
            };
            if let Some(bytes) = experiment.pool_bytes {
                command.env("TICKSCOPE_POOL_BYTES", bytes.to_string());
            }
            self.inject(node.name.as_str(), &mut command);
            self.network.enter(node.name.as_str(), &mut command)?;
            let process = Process::start(&format!("command of {}", node.name), &mut command)?;
            subjects.push(Subject { node: node.name.clone(), ends_run: node.ends_run, process });
            // A service listed before its client gets the time to bind.
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(subjects)
    }

    /// Waits for the commands that end the run, then ends the others.
    fn wait(&mut self, experiment: &Experiment, mut subjects: Vec<Subject>) -> Result<(), Failure> {
        let (started, mut shown) = (Instant::now(), Instant::now() - Duration::from_secs(60));
        let terminal = std::io::stderr().is_terminal();
        let goes_on = |subject: &mut Subject| subject.ends_run && subject.process.ended().is_none();
        while !interrupt::ended() && subjects.iter_mut().any(goes_on) {
            if !self.quiet && shown.elapsed() >= Duration::from_secs(if terminal { 1 } else { 10 }) {
                shown = Instant::now();
                self.show_progress(experiment, started.elapsed(), terminal);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        if terminal && !self.quiet {
            eprintln!();
        }
        let mut failed = None;
        // Clients first: a service that ends before its client would lose what is under way.
        for Subject { node, mut process, .. } in subjects.into_iter().rev() {
            let what = format!("{process:?}").split('"').nth(1).unwrap_or("command").to_owned();
            let goes_on = process.ended().is_none();
            let ended = process.end()?;
            self.spending.subject(&node, &ended);
            if let Some(line) = &ended.last {
                self.note("run", "subject", None, format!("{what} said: {line}"));
            }
            let status = ended.status;
            self.said.push((node, ended.last));
            // A service without a handler ends by the signal that it was just sent: that is its ordinary end.
            let well = status.success() || goes_on && status.signal() == Some(libc::SIGTERM);
            if !well && !interrupt::ended() {
                failed.get_or_insert(format!("{what}: expected it to end well, found {status}. See its message above"));
            }
        }
        failed.map_or(Ok(()), |why| {
            self.note("run", "subject-failed", None, why.clone());
            Err(Failure::work(why))
        })
    }

    fn show_progress(&self, experiment: &Experiment, elapsed: Duration, terminal: bool) {
        let (end, back) = if terminal { ("", "\r") } else { ("\n", "") };
        let (done, all) = (elapsed.as_secs(), experiment.seconds);
        eprint!("{back}measuring {done:>4} of {all} s on {}, rho {}{end}", self.network.describe(), experiment.rho);
        let _ = std::io::stderr().flush();
    }

    fn stop_probes(&mut self) -> Result<(), Failure> {
        let (clients, servers) = (std::mem::take(&mut self.clients), std::mem::take(&mut self.servers));
        let mut failed = None;
        for (side, processes) in [("asking", clients), ("answering", servers)] {
            for (node, process) in processes {
                // One that fails must not take the closing bursts and the last brackets of the others with it.
                let reported = process.end().and_then(|ended| {
                    // The asking side runs beside the reference's command.
                    let at = if side == "asking" { self.reference() } else { node.clone() };
                    self.spending.beside(&at, Beside::Probe, &ended);
                    probe_report(&node, side, ended.last)
                });
                match reported {
                    Ok(report) => self.note_probe(&node, side, &report),
                    Err(why) => failed = failed.or(Some(why)),
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Ends the watches; what each says of its clocks' rate becomes the bound that the run declares for them.
    fn stop_watches(&mut self, slew: Slew) -> Result<(), Failure> {
        let mut manifest = self.run.manifest().clone();
        for (node, process) in std::mem::take(&mut self.watches) {
            let report = process.end().and_then(|ended| {
                self.spending.beside(&node, Beside::Watch, &ended);
                clock_report(&node, ended.last)
            });
            let (ppb, origin) = match (slew, report) {
                (Slew::Declared(bound), _) => (bound.ppb(), "declared".into()),
                (Slew::Auto, Ok(report)) => {
                    (report.slew_bound_ppm.saturating_mul(1000), format!("watched: {}", report.slew_bound_origin))
                }
                (Slew::Auto, Err(why)) => {
                    self.note(&node, "clock-unwatched", None, why.to_string());
                    continue; // the analysis then takes what a kernel slews by at most
                }
            };
            for clock in [Counter::Realtime, Counter::Monotonic] {
                let (reference, domain) = (self.domain(&node), format!("{node}.{clock}"));
                manifest.rho.push(Rho { reference, domain, ppb: ppb.into(), origin: origin.clone() });
            }
        }
        Ok(self.run.set_manifest(manifest)?)
    }

    fn note_probe(&mut self, node: &str, side: &str, report: &ProbeReport) {
        for (reason, count) in &report.refused {
            let text = format!(
                "the probe ({side}) refused datagrams: {reason}. They are no evidence; nothing is lost by them"
            );
            self.note(node, "datagrams-refused", Some(*count as i64), text);
        }
        for stamps in &report.impossible {
            self.note(node, "impossible-exchange", None, stamps.clone());
        }
        if let Some((text, missing)) = &report.kernel {
            self.note(node, "kernel-stamps", Some(*missing as i64), format!("the probe ({side}): {text}"));
        }
        if report.lost > 0 {
            self.note(
                node,
                "probes-lost",
                Some(report.lost as i64),
                "requests without a reply; the bound is a little wider".into(),
            );
        }
        if report.undelivered > 0 {
            self.note(
                node,
                "probes-undelivered",
                Some(report.undelivered as i64),
                "datagrams that the network did not take".into(),
            );
        }
    }

    /// Ends what still runs, takes what is left, joins, writes the manifest.
    fn finish(mut self, experiment: &Experiment, overhead: Option<Overhead>) -> Result<Run, Failure> {
        let failed = self.stop_probes().err();
        self.stop_watches(experiment.slew)?;
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
            self.collect_again(&node, &why)?;
        }
        self.import_logs(experiment);
        self.look_again()?;
        self.write_events()?; // also where the join fails
        let joined = join_run(&self.run, &self.run.manifest().layout.clone(), JOIN_BYTES)?;
        self.note_join(&joined);
        let mut manifest = self.run.manifest().clone();
        manifest.ended_unix_ms = Some(unix_ms());
        manifest.points = points(&self.run)?;
        let spending = std::mem::take(&mut self.spending);
        manifest.cost = Some(spending.close(&self.run, self.stamp_cost, overhead)?);
        let unstamped = self.unstamped(&manifest)?;
        manifest.points.extend(unstamped);
        self.run.set_manifest(manifest)?;
        self.write_events()?;
        let _ = fs::remove_dir_all(&self.stamp_root); // whatever is left there is empty, or was reported
        failed.map_or(Ok(self.run), Err)
    }

    /// Points of the layout that nothing was stamped at: they are told, and their stages are shown as missing.
    fn unstamped(&mut self, manifest: &Manifest) -> Result<Vec<tickscope_store::Point>, Failure> {
        let known: Vec<String> = manifest.points.iter().map(|point| format!("{}.{}", point.node, point.name)).collect();
        let layout = manifest.layout.parse(&self.run)?;
        let mut unstamped = Vec::new();
        for point in layout.points().iter().filter(|point| !known.contains(&point.full_name())) {
            let (Some(node), Some(name)) = (Name::new(&point.node), Name::new(&point.name)) else { continue };
            let text = format!(
                "expected stamps at {}, found none. Is the name right, and the point reached? Stamped were: {}",
                point.full_name(),
                known.join(", ")
            );
            eprintln!("tickscope: {text}");
            self.note(&point.node, "point-unstamped", None, text);
            unstamped.push(tickscope_store::Point { node, name, ordering: Ordering::Plain });
        }
        Ok(unstamped)
    }

    /// Logs of programs that read another clock. One that cannot be read is told and hides nothing else.
    fn import_logs(&mut self, experiment: &Experiment) {
        let run = whole(self.run.root());
        for Log { node, point, file, clock, ordering } in &experiment.logs {
            let file = PathBuf::from(file.replace("{run}", &run.display().to_string()));
            let boot = self.run.manifest().nodes.iter().find(|known| known.name == *node).map(|known| known.boot);
            let Some(boot) = boot else { continue }; // the run file was checked
            let domain = Domain { boot, counter: *clock, epoch: 0 };
            let place = LogPoint { node: node.clone(), point: point.clone(), domain, ordering: *ordering };
            let (what, value, text) = match import_log(&self.run, &place, &file) {
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
    }

    fn write_events(&self) -> Result<(), Failure> {
        if self.events.is_empty() {
            return Ok(());
        }
        Ok(write_events(&self.run.places().events().join("run.parquet"), &self.events)?)
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
        let tolerance = Tolerance::of(self.host.facts.frequency);
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
        let mut manifest = self.run.manifest().clone();
        let statement = format!("cores looked at again at the end: {sharing}");
        manifest.assumptions.push(Assumption { statement, origin: "checked at the end".into() });
        Ok(self.run.set_manifest(manifest)?)
    }

    fn note_join(&mut self, joined: &tickscope_store::Joined) {
        for refused in &joined.refused {
            self.note("run", "file-refused", None, refused.to_string());
        }
        let layout = self.run.manifest().layout.parse(&self.run).ok();
        let names: Vec<(String, String)> = layout
            .iter()
            .flat_map(|layout| layout.points())
            .map(|point| (point.node.clone(), point.full_name()))
            .collect();
        for ((node, name), counts) in names.iter().zip(&joined.counts.points) {
            for (what, count) in [
                ("ids-missing", counts.missing),
                ("ids-repeated", counts.duplicates),
                ("ids-out-of-order", counts.out_of_order),
            ] {
                if count > 0 {
                    self.note(node, what, Some(count as i64), format!("at {name}, of {} ids", joined.counts.ids));
                }
            }
        }
    }
}

fn probe_report(node: &str, side: &str, last: Option<String>) -> Result<ProbeReport, Failure> {
    let report = last.as_deref().and_then(|line| serde_json::from_str(line).ok());
    report.ok_or_else(|| {
        let found = last.unwrap_or_else(|| "nothing".into());
        Failure::work(format!("probe {side} for {node}: expected its report, found {found}. See its message above"))
    })
}

fn clock_report(node: &str, last: Option<String>) -> Result<ClockReport, Failure> {
    let report = last.as_deref().and_then(|line| serde_json::from_str(line).ok());
    report.ok_or_else(|| {
        let found = last.unwrap_or_else(|| "nothing".into());
        Failure::work(format!("watch over {node}'s clocks: expected its report, found {found}. See its message above"))
    })
}

fn random() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    let read = fs::File::open("/dev/urandom").and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes));
    read.map_err(|e| Failure::work(format!("expected random bytes of /dev/urandom, found: {e}. Mount /dev")))?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Known maps before nodes' `CLOCK_REALTIME`; their times count from now.
fn realtime_injections(experiment: &Experiment) -> Result<BTreeMap<String, RealtimeInjection>, Failure> {
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
    let injected = experiment.nodes.iter().filter_map(|node| Some((node, node.inject_realtime.as_ref()?)));
    injected
        .map(|(node, inject)| {
            let map = inject.starting_at(now_ns).map_err(|e| Failure::input(format!("node '{}': {e}", node.name)))?;
            Ok((node.name.to_string(), map))
        })
        .collect()
}

fn injection(node: &Node) -> Option<Injection> {
    let inject = node.inject?;
    let anchor = Ordering::Plain.read();
    let (offset, drift_ppb) = (inject.offset, inject.drift_ppb);
    Some(Injection { anchor, offset, drift_ppb, wander_ppb: inject.wander_ppb, wander_period: inject.wander_period })
}

fn manifest(
    experiment: &Experiment,
    host: &Host,
    run: u64,
    injections: &BTreeMap<String, Injection>,
    network: &Network,
    root: &Path,
) -> Result<Manifest, Failure> {
    let nodes = experiment.nodes.iter().map(|node| {
        let described = host.node(node.name.clone(), experiment.fill(node, &network.addresses, &whole(root))?)?;
        let injected = injections.get(node.name.as_str()).map(ToString::to_string);
        Ok(tickscope_store::Node { injected, ..described })
    });
    let label = |node: &tickscope_store::Name| format!("{node}.{}", host.facts.counter);
    let others = experiment.nodes.iter().filter(|node| node.name != experiment.reference);
    let rho = others.map(|node| Rho {
        reference: label(&experiment.reference),
        domain: label(&node.name),
        ppb: experiment.rho.ppb().into(),
        origin: rho_origin(experiment.rho),
    });
    let policy =
        |(glob, policy): &(String, Policy)| PolicyRule { channels: glob.clone(), policy: policy.name().into() };
    Ok(Manifest {
        schema: tickscope_store::SCHEMA,
        run,
        tickscope: env!("CARGO_PKG_VERSION").into(),
        started_unix_ms: unix_ms(),
        ended_unix_ms: None,
        nodes: nodes.collect::<Result<_, Failure>>()?,
        reference: label(&experiment.reference),
        rho: rho.collect(),
        evidence: experiment.evidence.clone(),
        same_boot: experiment.same_boot,
        points: Vec::new(),
        policies: experiment.policies.iter().map(policy).collect(),
        layout: experiment.layout.clone(),
        assumptions: assumptions(experiment, network),
        cost: None,
    })
}

/// The preset's name, or the number: what the run's rho can be read from again.
fn rho_origin(rho: tickscope_bracket::Rho) -> String {
    use tickscope_bracket::RhoOrigin;
    match rho.origin() {
        RhoOrigin::Default => "default".into(),
        RhoOrigin::Preset(name) => name.into(),
        RhoOrigin::Number => rho.key(),
    }
}

fn assumptions(experiment: &Experiment, network: &Network) -> Vec<Assumption> {
    let assume = |statement: &str, origin: &str| Assumption { statement: statement.into(), origin: origin.into() };
    let mut all = vec![
        assume(&format!("the nodes are {}", network.describe()), "the run file"),
        assume(
            "peers are honest, the path may be hostile: no datagram is authenticated yet",
            "the probe's protocol, version 1",
        ),
        assume("no live migration and no suspend during the run", "not observable from inside every guest"),
    ];
    if experiment.cores == Cores::Prove {
        all.push(assume(
            "stages within a node carry what the check of its cores leaves open; those between nodes do not",
            CORES_PROVED,
        ));
    }
    all
}

/// The points that were stamped, as the channels tell.
fn points(run: &Run) -> Result<Vec<tickscope_store::Point>, Failure> {
    let mut points: Vec<tickscope_store::Point> = Vec::new();
    for channel in run.channels()?.found {
        let (node, name) = (tickscope_store::Name::new(channel.node), tickscope_store::Name::new(channel.point));
        let (Some(node), Some(name), Ok(ordering)) = (node, name, channel.ordering.parse()) else { continue };
        if !points.iter().any(|known| known.node == node && known.name == name) {
            points.push(tickscope_store::Point { node, name, ordering });
        }
    }
    Ok(points)
}
