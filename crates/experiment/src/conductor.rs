//! The conductor: one experiment from start to end.
//!
//! Order: passes with and without measuring, where asked for; look at the hosts; network; the cost of a stamp;
//! collectors; clock monitors; probes (their opening bursts); commands; wait; commands' end; probes' closing bursts;
//! collectors take what is left; look again; join.
//!
//! Guarantees: whatever ends it early, what was measured is kept; two nodes that do not read one counter get
//! probes, whichever agents they live with.

mod control;
mod finish;
mod noise;
mod probes;
mod returns;
mod rivals;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tickscope_store::{Event, EventKind, Manifest, Overhead, Run, Writing};
use tickscope_tick::{Clock, Label, NodeName, counted, quoted};

use crate::Error;
use crate::agent::{Agent, Connection, Ended, News, Target, Task, TaskId, Unread};
use crate::declaration::manifest;
use crate::environment;
use crate::forecast::forecast;
use crate::interrupt;
use crate::leftovers;
use crate::node_role::{Helper, HelperKind, Service};
use crate::node_run::NodeRun;
use crate::notice::{self, Shown, show_progress};
use crate::object_store::ObjectStore;
use crate::overhead;
use crate::plan::{Plan, SOON};
use crate::preflight;
use crate::process::Forward;
use crate::record::RunRecord;
use crate::roles::Role;
use crate::run_file::RunText;
use crate::sites;
use crate::window::Keep;

/// What to run, and options that replace a run file's values.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// What to run.
    pub source: RunSource,
    /// Directory of the run; `None`: the run file's, or `runs/NAME-TIME`.
    pub out: Option<PathBuf>,
    /// Seconds to measure; `None`: the run file's.
    pub seconds: Option<f64>,
    /// The window of stamps to keep; `None`: the run file's.
    pub keep: Option<Keep>,
    /// First compare the numbers that the target reports in passes with and without measuring.
    pub overhead: bool,
    /// Nodes of this host go on for an hour when this process is killed, as those elsewhere do.
    pub detach: bool,
    /// What progress calls it, where it is one of several; what holds for all of them is said elsewhere.
    pub trial: Option<String>,
}

/// Where a plan is taken from.
#[derive(Clone, Debug)]
pub enum RunSource {
    /// A run file.
    File(RunText),
    /// One command, whose standard output goes on to ours or elsewhere.
    Command(Vec<String>, Forward),
}

impl RunSettings {
    /// The plan, and the run's directory.
    fn plan(&self) -> Result<(Plan, PathBuf), Error> {
        let mut plan = match &self.source {
            RunSource::File(file) => Plan::of(file)?,
            RunSource::Command(command, forward) => {
                let mut plan = Plan::of_command(command)?;
                plan.policies = environment::policies(environment::own).map_err(Error::input)?;
                plan.origin.forward = *forward;
                plan
            }
        };
        plan.origin.detach = self.detach;
        plan.origin.trial = self.trial.clone();
        plan.run.seconds = self.seconds.unwrap_or(plan.run.seconds);
        plan.run.keep = self.keep.or(plan.run.keep);
        let named = || Path::new("runs").join(format!("{}-{}", plan.run.name, crate::unix_ms() / 1000));
        let root = self.out.clone().or_else(|| plan.run.out.clone()).unwrap_or_else(named);
        let refused = match (&plan.storage, plan.run.keep, &self.trial) {
            (Some(_), Some(_), _) => Some("a run that keeps all of its stamps, found a window. Leave out keep"),
            (Some(_), _, Some(_)) => Some("a run file of one run, found one of many. Upload them once they have ended"),
            _ => None,
        };
        if let Some(why) = refused {
            return Err(Error::input(format!("[storage] expected {why}, or leave out [storage]")));
        }
        Ok((plan, root))
    }
}

/// Checks what would be run, without running it; says what it would do.
pub fn check(settings: &RunSettings) -> Result<String, Error> {
    let (plan, root) = settings.plan()?;
    let arrangement = preflight::check(&plan, &root)?;
    say_unused(&plan);
    preflight::describe(&plan, &root, arrangement)
}

/// Runs an experiment on this host. The run, and why it was cut short, if it was; `Err`: there is no run to show.
pub fn run(settings: &RunSettings) -> Result<(Run, Result<(), Error>), Error> {
    interrupt::catch();
    interrupt::catch_dump();
    let (plan, root) = settings.plan()?;
    let alone = settings.trial.is_none();
    if alone {
        say_orphans();
    }
    preflight::check(&plan, &root)?;
    if alone {
        say_unused(&plan);
    }
    plan.storage.as_ref().map_or(Ok(()), |storage| storage.store(&root)?.expect_free(None))?;
    let mut claimed = preflight::Claimed::take(&root)?;
    let (mut conductor, overhead) = match begin_in(&mut claimed, settings, &plan, &root) {
        Ok(begun) => begun,
        Err(why) => {
            claimed.remove();
            return Err(why);
        }
    };
    let measured = conductor.measure();
    if let (Err(why), false) = (&measured, conductor.started) {
        conductor.discard();
        let some_stamped = conductor.some_started && plan.nodes.len() > 1;
        drop(conductor); // which writes into the directory
        claimed.remove();
        let then = "; what the commands that had started stamped is removed, since the run had not begun";
        return Err(if some_stamped { Error::work(format!("{why}{then}")) } else { why.clone() });
    }
    conductor.come_to_an_end(overhead, measured)
}

/// Begins a run in a directory that is claimed for it, after the comparison that was asked for.
fn begin_in<'a>(
    claimed: &mut preflight::Claimed,
    settings: &RunSettings,
    plan: &'a Plan,
    root: &Path,
) -> Result<(Conductor<'a>, Option<Overhead>), Error> {
    let overhead = settings.overhead.then(|| overhead::compare(plan, root)).transpose()?;
    let quiet = plan.origin.forward != Forward::Nowhere;
    let conductor = Conductor { quiet, ..Conductor::over_pipes(plan, claimed.run(), root)? };
    claimed.let_go();
    if settings.trial.is_none() && (!quiet || plan.run.keep.is_some()) {
        forecast(plan, root).lines().for_each(|line| show_progress(line, Shown::AsLine));
    }
    Ok((conductor, overhead))
}

/// Says what of the environment has no effect.
pub(crate) fn say_unused(plan: &Plan) {
    environment::unused(plan, environment::own).iter().for_each(notice::say);
}

/// Names what runs that no longer live have left, in a line.
pub(crate) fn say_orphans() {
    let orphans = leftovers::orphans();
    if let Some(first) = orphans.first() {
        let more = if orphans.len() > 1 { format!(", and {} more", orphans.len() - 1) } else { String::new() };
        notice::say(format_args!(
            "left by runs that no longer live: {}{more}; tickscope doctor lists it and says what helps",
            first.describe()
        ));
    }
}

/// Choice between a measured pass of the target and one without measuring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measuring {
    /// With all that a run does: stamps, collectors, probes, clock monitors.
    All,
    /// With nothing of it: points are off.
    Nothing,
}

/// One pass of the target, in a directory of its own: the last line that each command printed.
pub(crate) fn pass(plan: &Plan, root: &Path, measuring: Measuring) -> Result<Vec<(NodeName, Option<String>)>, Error> {
    let mut plan = plan.clone();
    plan.storage = None; // it is removed again
    let plan = &plan;
    let mut conductor = Conductor { quiet: true, ..Conductor::over_pipes(plan, random()?, root)? };
    let outcome = match measuring {
        Measuring::All => conductor.measure(),
        Measuring::Nothing => conductor.run_targets(measuring),
    };
    conductor.discard();
    outcome.map(|()| conductor.nodes.into_iter().map(|node| (node.name, node.last_line)).collect())
}

/// Time that a command that does not say when it is ready gets before the next is started: it must bind.
const START_PAUSE: Duration = Duration::from_millis(200);

/// A run while it goes on.
pub struct Conductor<'a> {
    plan: &'a Plan,
    agents: Vec<(String, Box<dyn Agent>)>,
    /// As in the plan and in the manifest.
    nodes: Vec<NodeRun>,
    record: RunRecord,
    network: String,
    quiet: bool,
    /// Every command was started: there is something to keep.
    started: bool,
    /// At least one was.
    some_started: bool,
    /// The probes ask at their low rate.
    probing: bool,
    /// What others ask while it goes on.
    live: control::Live,
    /// Dropped last: the run goes on while anything of it does.
    _writing: Writing,
}

impl<'a> Conductor<'a> {
    /// Begins a run in `root`: an agent for the nodes of this host, and one for each node elsewhere.
    fn over_pipes(plan: &'a Plan, id: u64, root: &Path) -> Result<Self, Error> {
        let absolute = std::path::absolute(root).unwrap_or_else(|_| root.into());
        let (agents, lives) = sites::begin(plan, id, &absolute)?;
        Self::begin(plan, id, root, agents, &lives)
    }

    /// Begins run number `id` in `root`. `lives`: for each node of the plan, the position of its agent.
    pub fn begin(
        plan: &'a Plan,
        id: u64,
        root: &Path,
        agents: Vec<Box<dyn Agent>>,
        lives: &[usize],
    ) -> Result<Self, Error> {
        let (mut known, mut findings, mut networks) = (Vec::new(), Vec::new(), Vec::new());
        for (number, mut agent) in agents.into_iter().enumerate() {
            let mut look = agent.look()?;
            // What happens on another machine is told of the node that lives there.
            let elsewhere = plan.nodes.iter().zip(lives).find(|(node, at)| **at == number && !node.is_here());
            if let Some((node, _)) = elsewhere {
                look.name = node.name.to_string();
            }
            findings.extend(look.findings.into_iter().map(|finding| (look.name.clone(), finding)));
            networks.push(look.network);
            known.push((look.name, agent));
        }
        networks.dedup();
        let network = networks.join(" and ");
        let (mut nodes, mut facts) = (Vec::new(), Vec::new());
        for (node, &agent) in plan.nodes.iter().zip(lives) {
            // The agent asks for room for the pools, which [run] may have sized.
            let mut as_started = node.clone();
            as_started.environment = environment::of_target(plan, node);
            let prepared = known[agent].1.prepare(&as_started)?;
            nodes.push(NodeRun::of_plan(node, agent, &prepared)?);
            facts.push(prepared.facts);
        }
        for ((facts, node), of_plan) in facts.iter_mut().zip(&nodes).zip(&plan.nodes) {
            facts.command = plan.fill(of_plan, &addresses(&nodes), &node.run)?;
        }
        let mut manifest = manifest(plan, id, facts, &network);
        manifest.storage = plan.storage.as_ref().map(|storage| storage.address(root));
        for (node, of_plan) in nodes.iter().zip(&plan.nodes) {
            match of_plan.is_here() {
                true => manifest.stamp_directories.insert(node.name.clone(), PathBuf::from(&node.stamps)).map(drop),
                false => manifest.sessions.insert(node.name.clone(), sites::session_text(id, &node.name)).map(drop),
            };
        }
        let (run, writing) = Run::begin(root, manifest)?;
        ObjectStore::of_run(run.manifest())?.map_or(Ok(()), |store| store.begin(root))?;
        let text = run.manifest().text();
        for (_, agent) in &mut known {
            agent.begun(&text)?;
        }
        let record = RunRecord { run, events: Vec::new() };
        let mut conductor = Self {
            plan,
            agents: known,
            nodes,
            record,
            network,
            quiet: false,
            started: false,
            some_started: false,
            probing: false,
            live: Default::default(),
            _writing: writing,
        };
        // What a host's counter lacks is an event of the run, not only a line on a screen.
        for (host, finding) in findings {
            notice::say(&finding);
            conductor.note(&host, EventKind::Counter, None, finding);
        }
        conductor.record.write_events()?; // whoever kills this process leaves them
        Ok(conductor)
    }

    /// A conductor of a run that was begun before.
    pub(crate) fn over(
        plan: &'a Plan,
        agents: Vec<(String, Box<dyn Agent>)>,
        nodes: Vec<NodeRun>,
        record: RunRecord,
        (network, writing): (String, Writing),
    ) -> Self {
        let (quiet, live) = (false, Default::default());
        let (started, some_started, probing) = (true, true, true);
        Self { plan, agents, nodes, record, network, quiet, started, some_started, probing, live, _writing: writing }
    }

    /// Position of the node of that name.
    pub(crate) fn position(&self, node: &NodeName) -> Option<usize> {
        self.nodes.iter().position(|known| known.name == *node)
    }

    /// Takes over a command that goes on.
    pub(crate) fn take_target(&mut self, at: usize, task: TaskId) {
        self.nodes[at].target = Some(task);
    }

    /// Takes over a process of tickscope that goes on.
    pub(crate) fn take_helper(&mut self, kind: HelperKind, at: usize, helper: Helper) {
        *self.nodes[at].helper(kind) = Some(helper);
    }

    /// Notes that another conductor took over.
    pub(crate) fn note_resumed(&mut self, text: String) -> Result<(), Error> {
        self.note(Event::RUN, EventKind::Resumed, None, text);
        self.record.write_events()
    }

    /// Starts a collector where none goes on: what was stamped lies in shared memory.
    pub(crate) fn start_missing_collectors(&mut self) -> Result<(), Error> {
        for at in 0..self.nodes.len() {
            if self.nodes[at].helper(HelperKind::Collector).is_none() {
                self.start_helper(HelperKind::Collector, at, at, Role::Collect)?;
            }
        }
        Ok(())
    }

    /// Measures on until the commands that end the run have ended.
    pub(crate) fn go_on_measuring(&mut self) -> Result<(), Error> {
        let waited = self.wait(since(self.record.run.manifest()));
        let outcome = waited.and(self.end_targets());
        let stopped = self.stop_probes();
        outcome.and(stopped)
    }

    /// The run's end, whatever became of measuring: the run, and why it was cut short, if it was.
    pub(crate) fn come_to_an_end(
        &mut self,
        overhead: Option<Overhead>,
        measured: Result<(), Error>,
    ) -> Result<(Run, Result<(), Error>), Error> {
        match (self.finish(overhead), measured) {
            (Ok(run), measured) => Ok((run, measured)),
            (Err(why), measured) => {
                if let Err(first) = measured {
                    notice::say(first);
                }
                // What was stored can be shown all the same.
                let run = self.record.run.clone();
                let hint =
                    format!("{why}. What was measured is kept: tickscope finish {}", quoted(run.root().display()));
                let said = why.to_string().contains("tickscope finish");
                Ok((run, Err(if said { why } else { Error::work(hint) })))
            }
        }
    }

    fn note(&mut self, node: &str, what: EventKind, value: Option<i64>, text: String) {
        self.record.note(node, what, value, text);
    }

    /// An event of the node at that position.
    fn note_at(&mut self, at: usize, what: EventKind, value: Option<i64>, text: String) {
        let node = self.nodes[at].name.clone();
        self.note(node.as_str(), what, value, text);
    }

    fn agent(&mut self, at: usize) -> &mut dyn Agent {
        &mut *self.agents[self.nodes[at].agent].1
    }

    fn start(&mut self, at: usize, task: &Task) -> Result<TaskId, Error> {
        let node = self.nodes[at].name.clone();
        self.agent(at).start(&node, task)
    }

    fn start_role(&mut self, at: usize, role: Role) -> Result<TaskId, Error> {
        self.start(at, &Task::Role(role))
    }

    /// Ends a process of that node and charges the node for it.
    fn end(&mut self, at: usize, service: Service, task: TaskId) -> Result<Ended, Error> {
        let ended = self.agent(at).end(task)?;
        self.nodes[at].charge(service, &ended);
        Ok(ended)
    }

    /// Measures until the commands that end the run have ended.
    pub fn measure(&mut self) -> Result<(), Error> {
        self.time_stamps();
        for at in 0..self.nodes.len() {
            self.start_helper(HelperKind::Collector, at, at, Role::Collect)?;
            self.start_helper(HelperKind::Monitor, at, at, Role::ClockMonitor)?;
        }
        if self.plan.evidence.probes {
            self.start_probes()?;
        }
        self.start_rivals()?;
        self.start_returns()?;
        self.start_noise()?;
        let outcome = self.run_targets(Measuring::All);
        self.stop_noise();
        self.stop_returns();
        self.stop_rivals(); // before the closing burst, which they would disturb
        let stopped = self.stop_probes();
        outcome.and(stopped)
    }

    /// Times stamps while nothing of the run disturbs it. The run goes on without that figure.
    fn time_stamps(&mut self) {
        for number in 0..self.agents.len() {
            let Some(first) = self.nodes.iter().find(|node| node.agent == number) else { continue };
            let node = first.name.clone();
            let (host, agent) = &mut self.agents[number];
            match agent.perform(&node, &Role::StampCost).and_then(|ended| ended.report()) {
                Ok(cost) => {
                    let here = self.nodes.iter_mut().filter(|node| node.agent == number);
                    here.for_each(|node| node.stamp_cost = Some(cost));
                }
                Err(why) => {
                    let host = host.clone();
                    self.note(&host, EventKind::StampUntimed, None, why.to_string());
                }
            }
        }
    }

    fn counter(&self, at: usize) -> Label {
        self.record.run.manifest().nodes[at].domain()
    }

    fn label(&self, at: usize, clock: Clock) -> Label {
        Label { node: self.nodes[at].name.clone(), clock }
    }

    /// Starts the commands, waits for those that end the run, and ends the others.
    fn run_targets(&mut self, measuring: Measuring) -> Result<(), Error> {
        let waited = self.start_targets(measuring).and_then(|()| self.wait(Duration::ZERO));
        let ended = self.end_targets();
        waited.and(ended)
    }

    fn start_targets(&mut self, measuring: Measuring) -> Result<(), Error> {
        let soon = self.soon().to_string();
        for (at, of_plan) in self.plan.nodes.iter().enumerate() {
            if interrupt::ended() {
                break;
            }
            if of_plan.command.is_empty() {
                continue; // something else starts its programs
            }
            let environment = environment::of_target(self.plan, of_plan);
            let command = self.record.run.manifest().nodes[at].command.iter();
            let command = command.map(|word| word.replace(SOON, &soon)).collect();
            let (readiness, forward) = (self.plan.readiness(at), self.plan.origin.forward);
            let tells = readiness.is_some();
            let target = Target { command, environment, measured: measuring == Measuring::All, readiness, forward };
            self.nodes[at].target = Some(self.start(at, &Task::Target(target))?);
            self.some_started = true;
            if !tells {
                std::thread::sleep(START_PAUSE);
            }
        }
        self.started = true;
        Ok(())
    }

    /// The second since 1970 by which all commands should have been started.
    fn soon(&self) -> i64 {
        /// What starting one takes at most, as a rule, and all of them together besides.
        const EACH: i64 = 1;
        const ALL: i64 = 3;
        crate::unix_ms() / 1000 + ALL + EACH * self.nodes.len() as i64
    }

    /// Waits for the commands that end the run, or for its end by time, of which `spent` is over.
    fn wait(&mut self, spent: Duration) -> Result<(), Error> {
        self.open_control();
        let waited = self.wait_for_targets(spent);
        self.close_control();
        waited
    }

    fn wait_for_targets(&mut self, spent: Duration) -> Result<(), Error> {
        let (started, mut shown) = (Instant::now(), None::<Instant>);
        let terminal = std::io::stderr().is_terminal();
        let every = Duration::from_secs(if terminal { 1 } else { 10 });
        while !interrupt::ended() && (self.awaits_a_target()? || self.awaits_its_time(spent + started.elapsed())) {
            if !self.quiet && shown.is_none_or(|shown| shown.elapsed() >= every) {
                shown = Some(Instant::now());
                self.show_progress(started.elapsed(), terminal);
            }
            self.hear_news();
            self.serve_control();
            self.revive()?;
            std::thread::sleep(Duration::from_millis(20));
        }
        if terminal && !self.quiet {
            notice::end_progress();
        }
        Ok(())
    }

    /// Takes down what became of the agents.
    fn hear_news(&mut self) {
        for number in 0..self.agents.len() {
            for News { what, value, text } in self.agents[number].1.news() {
                let name = self.agents[number].0.clone();
                self.note(&name, what, value, text);
            }
        }
    }

    /// Returns whether a command that ends the run goes on.
    fn awaits_a_target(&mut self) -> Result<bool, Error> {
        for (at, of_plan) in self.plan.nodes.iter().enumerate() {
            if let (true, Some(task)) = (of_plan.ends_run, self.nodes[at].target)
                && self.agent(at).is_running(task)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether a run that no command ends has time left.
    fn awaits_its_time(&self, spent: Duration) -> bool {
        self.plan.ends_by_time() && spent.as_secs_f64() < self.plan.run.seconds
    }

    /// Ends the commands that were started. Clients first: a service that ends before its client would lose what is
    /// under way.
    fn end_targets(&mut self) -> Result<(), Error> {
        let (mut failed, mut of_agent) = (Vec::new(), None);
        for at in (0..self.nodes.len()).rev() {
            let Some(task) = self.nodes[at].target.take() else { continue };
            let ended = match self.agent(at).end(task) {
                Ok(ended) => ended,
                Err(why) => {
                    of_agent.get_or_insert(why);
                    continue;
                }
            };
            self.nodes[at].charge_target(&ended);
            let what = &ended.what;
            if let Some(line) = &ended.last {
                self.note(Event::RUN, EventKind::Target, None, format!("{what} printed: {line}"));
            }
            if !ended.is_well() && !interrupt::ended() {
                let last =
                    ended.last.as_ref().map_or("it printed nothing".into(), |line| format!("it printed '{line}'"));
                let why = format!("{what} failed with {}: {last}", ended.status());
                self.note(Event::RUN, EventKind::TargetFailed, None, format!("{why}. {}", crate::agent::SAID));
                failed.push(why);
            } else if !ended.asked && !self.plan.nodes[at].ends_run && !interrupt::ended() {
                let ran_ms = ended.ran_ns / 1_000_000;
                let text = format!("{what} ended by itself after {ran_ms} ms, before it was asked to");
                self.note(Event::RUN, EventKind::TargetEnded, i64::try_from(ran_ms).ok(), text);
            }
            self.nodes[at].last_line = ended.last;
        }
        match of_agent {
            Some(why) => Err(why),
            None if failed.is_empty() => Ok(()),
            // A client fails because its service did, more often than the other way: services are named first.
            None => {
                failed.reverse();
                Err(Error::work(format!("{}. {}", failed.join("; "), crate::agent::SAID)))
            }
        }
    }

    fn show_progress(&self, elapsed: Duration, terminal: bool) {
        let place = if terminal { Shown::OnTerminal { last: false } } else { Shown::AsLine };
        let (done, all, rho) = (elapsed.as_secs(), self.plan.run.seconds, self.plan.clock.rho);
        let trial = self.plan.origin.trial.as_ref().map_or(String::new(), |trial| format!("{trial}: "));
        show_progress(&format!("{trial}measuring {done:>4} of {all} s on {}, rho {rho}", self.network), place);
    }

    /// Ends collectors and clock monitors and removes what they stored; the last lines of the commands stay.
    fn discard(&mut self) {
        for at in 0..self.nodes.len() {
            for kind in HelperKind::ALL {
                let helper = self.nodes[at].helper(kind).take();
                if let Some(Helper { at, task: Some(task), .. }) = helper {
                    let _ = self.agent(at).end(task); // its report is of no use any more
                }
            }
        }
        for (_, agent) in &mut self.agents {
            let _ = agent.clear(Unread::Remove); // what stays is named by `doctor`
            let _ = agent.bye(); // one that cannot be told ends at its deadline
        }
    }
}

/// How long ago a run began. A clock that was set matters only where this machine was started anew since.
fn since(run: &Manifest) -> Duration {
    let by_label = || u64::try_from(crate::unix_ms().saturating_sub(run.started_unix_ms)).unwrap_or(0);
    let of_one_boot = run.began.zip(crate::since_boot()).filter(|(began, now)| began.boot == now.boot);
    Duration::from_millis(of_one_boot.map_or_else(by_label, |(began, now)| now.ms.saturating_sub(began.ms)))
}

/// Addresses of the nodes, by name.
fn addresses(nodes: &[NodeRun]) -> BTreeMap<NodeName, String> {
    nodes.iter().map(|node| (node.name.clone(), node.address.clone())).collect()
}

/// A number that nobody can predict.
pub(crate) fn random() -> Result<u64, Error> {
    tickscope_stamp::entropy::number().map_err(no_entropy)
}

fn no_entropy(why: std::io::Error) -> Error {
    Error::work(format!("cannot draw random bytes from the kernel: {why}. Allow the system call getrandom"))
}
