//! `tickscope run`: one experiment from start to end.
//!
//! Order: passes with and without measuring, where asked for; look at the host; network; the cost of a stamp; collectors;
//! clock monitors; probes (their opening burst); commands; wait; commands' end; probes' closing burst; collectors take
//! what is left; look again; join; table. Whatever ends it early, what was measured is kept.

mod declaration;
mod finish;

use std::collections::BTreeMap;
use std::fs;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tickscope_analysis::{CORES_PROVED, Query};
use tickscope_collect::{LogPoint, LogRead, import_log};
use tickscope_counter::NodeCounter;
use tickscope_host::host_clocks::{self, Snapshot, SnapshotWidths, Tolerance};
use tickscope_host::sharing::Sharing;
use tickscope_stamp::block::Policy;
use tickscope_store::{Assumption, Event, Manifest, Overhead, Pair, PolicyRule, Rho, Run, StampCost, write_events};
use tickscope_tick::{Clock, Domain, Injection, NodeName, Ordering, PointName, RealtimeInjection};

use crate::clock_monitor::ClockReport;
use crate::cost_account::{Beside, Spending};
use crate::experiment::{Cores, Experiment, Inject, Log, Node, Slew};
use crate::failure::Failure;
use crate::host::{Host, KnownMaps, clock_widths, reading_width};
use crate::interrupt;
use crate::network::Network;
use crate::options::RunOptions;
use crate::overhead;
use crate::probe::ProbeReport;
use crate::process::{Ended, Process};
use crate::report;
use crate::show;
use crate::stamp_cost;

use declaration::{injection, manifest, points, realtime_injections};

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
    let shown = show::print(&run, &Query::default(), options.json, true);
    if let (Err(why), Err(_)) = (&shown, &measured) {
        eprintln!("tickscope: {why}");
    }
    let reported = if options.report { report::beside(&run) } else { Ok(()) };
    if !options.json {
        println!("\nthe run's files: {}", run.root().display());
        match options.report {
            true if reported.is_ok() => println!("report: {}", run.paths().report().display()),
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

/// Whether a pass of the target is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measuring {
    /// With all that a run does: stamps, collectors, probes, clock monitors.
    All,
    /// With nothing of it: points are off.
    Nothing,
}

/// One pass of the target, in a directory of its own; what each command said in its last line.
pub fn pass(
    experiment: &Experiment,
    root: &Path,
    measuring: Measuring,
) -> Result<Vec<(NodeName, Option<String>)>, Failure> {
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
    monitors: Vec<(String, Process)>,
    events: Vec<Event>,
    spending: Spending,
    stamp_cost: Option<StampCost>,
    said: Vec<(NodeName, Option<String>)>,
    quiet: bool,
}

/// A node's command while it runs.
struct Target {
    node: NodeName,
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
        let realtime_injections = realtime_injections(experiment)?;
        let declared = manifest(experiment, &host, id, (&injections, &realtime_injections), &network, root)?;
        let run = Run::create(root, declared)?;
        let stamp_root = Path::new("/dev/shm").join(format!("tickscope-{id:016x}"));
        let mut session = Self {
            run,
            host,
            clocks_before,
            network,
            stamp_root,
            injections,
            realtime_injections,
            collectors: Vec::new(),
            servers: Vec::new(),
            clients: Vec::new(),
            monitors: Vec::new(),
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
            self.start_monitor(node)?;
        }
        if experiment.evidence.probes {
            self.start_probes(experiment)?;
        }
        let targets = self.start_commands(experiment, Measuring::All)?;
        let outcome = self.wait(experiment, targets);
        let stopped = self.stop_probes();
        outcome.and(stopped)
    }

    /// The commands, and nothing beside them.
    fn only_run(&mut self, experiment: &Experiment) -> Result<(), Failure> {
        let targets = self.start_commands(experiment, Measuring::Nothing)?;
        self.wait(experiment, targets)
    }

    /// Ends what measures and drops what it took; what the commands said stays.
    fn discard(mut self) -> Vec<(NodeName, Option<String>)> {
        for (_, process) in std::mem::take(&mut self.monitors).into_iter().chain(std::mem::take(&mut self.collectors)) {
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
            ask.arg(self.run.paths().brackets(&pair));
            let client = self.start_in(reference, "probe", &mut ask)?;
            self.clients.push((name.into(), client));
        }
        Ok(())
    }

    /// Watches the node's other clocks from before the first stamp until after the last.
    fn start_monitor(&mut self, node: &Node) -> Result<(), Failure> {
        let name = node.name.as_str();
        let mut monitor = self.own()?;
        monitor.args(["clock-monitor", "--node", name, "--run"]).arg(whole(self.run.root()));
        let process = self.start_in(name, "clock monitor", &mut monitor)?;
        self.monitors.push((name.into(), process));
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

    fn start_commands(&self, experiment: &Experiment, measuring: Measuring) -> Result<Vec<Target>, Failure> {
        let policies: Vec<String> =
            experiment.policies.iter().map(|(glob, policy)| format!("{glob}={}", policy.name())).collect();
        let mut targets = Vec::new();
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
            targets.push(Target { node: node.name.clone(), ends_run: node.ends_run, process });
            // A service listed before its client gets the time to bind.
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(targets)
    }

    /// Waits for the commands that end the run, then ends the others.
    fn wait(&mut self, experiment: &Experiment, mut targets: Vec<Target>) -> Result<(), Failure> {
        let (started, mut shown) = (Instant::now(), Instant::now() - Duration::from_secs(60));
        let terminal = std::io::stderr().is_terminal();
        let goes_on = |target: &mut Target| target.ends_run && target.process.ended().is_none();
        while !interrupt::ended() && targets.iter_mut().any(goes_on) {
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
        for Target { node, mut process, .. } in targets.into_iter().rev() {
            let what = format!("{process:?}").split('"').nth(1).unwrap_or("command").to_owned();
            let goes_on = process.ended().is_none();
            let ended = process.end()?;
            self.spending.target(&node, &ended);
            if let Some(line) = &ended.last {
                self.note("run", "target", None, format!("{what} said: {line}"));
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
            self.note("run", "target-failed", None, why.clone());
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

    /// Ends the clock monitors; what each says of its clocks' rate becomes the bound that the run declares for them.
    fn stop_monitors(&mut self, slew: Slew) -> Result<(), Failure> {
        let mut manifest = self.run.manifest().clone();
        for (node, process) in std::mem::take(&mut self.monitors) {
            let report = process.end().and_then(|ended| {
                self.spending.beside(&node, Beside::ClockMonitor, &ended);
                clock_report(&node, ended.last)
            });
            let (ppb, origin) = match (slew, report) {
                (Slew::Declared(bound), report) => {
                    self.hold_against(&node, bound.ppb(), report);
                    (bound.ppb(), "declared".into())
                }
                (Slew::Auto, Ok(report)) => {
                    self.note_sets(&node, &report);
                    (report.slew_bound_ppm.saturating_mul(1000), format!("watched: {}", report.slew_bound_origin))
                }
                (Slew::Auto, Err(why)) => {
                    self.note(&node, "clock-unwatched", None, why.to_string());
                    continue; // the analysis then takes what a kernel slews by at most
                }
            };
            for clock in [Clock::Realtime, Clock::Monotonic] {
                let (reference, domain) = (self.domain(&node), format!("{node}.{clock}"));
                manifest.rho.push(Rho { reference, domain, ppb: ppb.into(), origin: origin.clone() });
            }
        }
        Ok(self.run.set_manifest(manifest)?)
    }

    /// A declared slew bound stands; that nobody watched, or that the clock monitor asks for more, is told.
    fn hold_against(&mut self, node: &str, declared_ppb: u32, report: Result<ClockReport, Failure>) {
        match report {
            Err(why) => self.note(node, "clock-unwatched", None, why.to_string()),
            Ok(report) => {
                self.note_sets(node, &report);
                if report.slew_bound_ppm.saturating_mul(1000) > declared_ppb {
                    let (wanted, why) = (report.slew_bound_ppm, &report.slew_bound_origin);
                    let text = format!(
                        "expected clocks that run within the declared {} ppm, found that the clock monitor asks for {wanted} ppm: \
                         {why}. Declare that, or let clock.slew be auto",
                        f64::from(declared_ppb) / 1000.0
                    );
                    eprintln!("tickscope: {text}");
                    self.note(node, "clock-slew-declared", Some(wanted.into()), text);
                }
            }
        }
    }

    /// Where the kernel does not tell that its clock was set, a small step passes unseen.
    fn note_sets(&mut self, node: &str, report: &ClockReport) {
        if !report.sets_are_told {
            let text =
                "the kernel does not tell when its clock is set: steps that are narrower than two readings of the \
                        clocks leave open (some 0.3 us) pass unseen"
                    .to_owned();
            self.note(node, "clock-sets-untold", None, text);
        }
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
