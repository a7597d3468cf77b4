//! The agent of this host: processes are children of this one, on loopback or in network namespaces.
//!
//! Guarantees: what it started ends with it, and its namespaces go after that; variables that this shell was given
//! reach no clock of a node.

use std::collections::BTreeMap;
use std::fs;
use std::io::IsTerminal;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tickscope_counter::NodeCounter;
use tickscope_host::host_clocks::{self, Snapshot, SnapshotWidths, Tolerance};
use tickscope_host::sharing::Sharing;
use tickscope_stamp::directory::{self, PoolKey};
use tickscope_store::Event;
use tickscope_tick::{Injection, NodeName, RealtimeInjection};

use crate::Error;
use crate::agent::{Agent, Ended, FinalCheck, Left, Look, PreparedNode, Target, Task, TaskId, Unread};
use crate::environment::LOGS;
use crate::host::{Host, KnownMaps, clock_widths, reading_width};
use crate::leftovers::{self, Claim};
use crate::network::{Arrangement, Home, Namespace, Network, network};
use crate::node_plan::{Inject, NodePlan};
use crate::notice;
use crate::outputs;
use crate::pipe::{AgentSettings, Inventory, first_task};
use crate::plan::{Link, THIS_PROGRAM};
use crate::preflight;
use crate::process::{Forward, Process};
use crate::readiness::Strangers;
use crate::roles::Role;

/// This host.
pub struct LocalAgent {
    // Dropped in this order: processes before the namespaces that they are in.
    processes: BTreeMap<TaskId, Process>,
    prepared: Vec<PreparedNode>,
    /// What each process that was started and not ended yet does.
    tasks: Vec<(TaskId, NodeName, Task)>,
    started: u32,
    /// No agent of this session came before it.
    is_first: bool,
    nodes: BTreeMap<NodeName, LocalNode>,
    /// Goes after the nodes whose links end there.
    _bridge: Option<Namespace>,
    host: Host,
    clocks_before: Snapshot,
    run: PathBuf,
    /// The folder that commands run in.
    folder: PathBuf,
    stamps: PathBuf,
    session: u64,
    // Dropped last: while it is there, nobody takes what is left of this run for an orphan.
    _claim: Claim,
}

/// A node that lives here.
struct LocalNode {
    home: Home,
    link: Option<Link>,
    counter: Option<Injection>,
    realtime: Option<RealtimeInjection>,
    /// The directory of its stamps, where it is not the run's.
    stamps: Option<PathBuf>,
}

/// Where an agent's processes write and run.
#[derive(Clone, Debug)]
pub struct LocalPlace {
    /// The run's directory, or a spool that is laid out like one.
    pub run: PathBuf,
    /// The folder that commands run in.
    pub folder: PathBuf,
}

impl LocalAgent {
    /// Looks at this host and sets up the network of its nodes.
    pub fn new(settings: &AgentSettings, place: LocalPlace) -> Result<Self, Error> {
        let LocalPlace { run: root, folder } = place;
        let run = settings.session;
        let host = Host::look()?;
        let clocks_before = Snapshot::of_this_host(&NodeCounter::true_counter()).map_err(Error::work)?;
        // From the file system's root on: a command may run elsewhere.
        let root = std::path::absolute(&root).unwrap_or(root);
        let claim = Claim::take_unless_told_to_end(run, &root)?;
        if settings.generation > 1 {
            leftovers::remove_namespaces(run)?; // of an agent that was killed; its processes have ended with it
        }
        let names: Vec<&str> = settings.nodes.iter().map(NodeName::as_str).collect();
        let Network { homes, bridge } = network(settings.network, settings.link, &names, run)?;
        let node = |(name, home): (&NodeName, Home)| {
            (name.clone(), LocalNode { home, link: settings.link, counter: None, realtime: None, stamps: None })
        };
        Ok(Self {
            processes: BTreeMap::new(),
            prepared: Vec::new(),
            tasks: Vec::new(),
            started: first_task(settings.generation).0,
            is_first: settings.generation == 1,
            nodes: settings.nodes.iter().zip(homes).map(node).collect(),
            _bridge: bridge,
            host,
            clocks_before,
            run: root,
            folder,
            stamps: leftovers::stamps_of(run),
            session: run,
            _claim: claim,
        })
    }

    fn node(&self, name: &NodeName) -> Result<&LocalNode, Error> {
        self.nodes.get(name).ok_or_else(|| stranger(name))
    }

    fn stamps_of(&self, node: &NodeName) -> PathBuf {
        self.foreign(node).map_or_else(|| self.stamps.join(node.as_str()), Path::to_path_buf)
    }

    /// The directory of its stamps, where something else made it and goes on with it after the run.
    fn foreign(&self, node: &NodeName) -> Option<&Path> {
        self.nodes.get(node)?.stamps.as_deref()
    }

    /// This same program in a role, and the settings that it reads: they may hold a key, which no argument may.
    fn role(&self, node: &NodeName, role: &Role) -> Result<(Command, String), Error> {
        let mut command = crate::process::this_program()?;
        let (name, settings) = role.words();
        command.args(["role", &name, "--node", node.as_str(), "--run"]).arg(&self.run);
        Ok((command, settings))
    }

    fn process(&self, node: &NodeName, task: &Task) -> Result<Process, Error> {
        let (what, (mut command, settings)) = match task {
            Task::Role(role) => (role.title(), self.role(node, role)?),
            Task::Target(Target { command: words, environment, .. }) => {
                let (program, words) = words.split_first().ok_or_else(|| no_command(node))?;
                let mut command = match program.as_str() {
                    THIS_PROGRAM => crate::process::this_program()?,
                    program => Command::new(program),
                };
                outputs::make_folder_if_named(&self.run, node, words)?;
                command.args(words).envs(environment).current_dir(&self.folder);
                ("command of", (command, String::new()))
            }
        };
        let LocalNode { home, counter, realtime, .. } = self.node(node)?;
        home.enter(&mut command)?;
        // Known maps before a node's clocks, in tests; what this shell was given is no part of the run.
        command.env_remove(Injection::VARIABLE).env_remove(RealtimeInjection::VARIABLE);
        if let Some(map) = counter {
            command.env(Injection::VARIABLE, map.to_string());
        }
        if let Some(map) = realtime {
            command.env(RealtimeInjection::VARIABLE, map.to_string());
        }
        command.env("TICKSCOPE_NODE", node.as_str()).env(leftovers::RUN_VARIABLE, format!("{:016x}", self.session));
        match task {
            Task::Target(Target { measured: false, .. }) => command.env_remove("TICKSCOPE_DIR"),
            _ => command.env("TICKSCOPE_DIR", self.stamps_of(node)),
        };
        if let Task::Target(Target { environment, measured: true, .. }) = task
            && !environment.contains_key(LOGS)
        {
            command.env(LOGS, self.make_logs(node)?);
        }
        // Which the collector reads in the directory: of the run's programs alone does it take stamps.
        let key = directory::key_of(&self.stamps_of(node)).ok().flatten();
        command.env_remove(PoolKey::VARIABLE).envs(key.map(|key| (PoolKey::VARIABLE, key.to_string())));
        let what = format!("{what} {node}");
        let Task::Target(Target { readiness, forward, .. }) = task else {
            return Process::start(&what, &mut command, &settings);
        };
        command.stdin(input(*forward));
        let ready_text = readiness.as_ref().and_then(|readiness| readiness.ready.text());
        Process::start_printing(&what, &mut command, *forward, ready_text)
    }

    /// The folder of the logs of channels under `all`: also a channel that is switched to it later needs one.
    fn make_logs(&self, node: &NodeName) -> Result<PathBuf, Error> {
        let logs = self.run.join(format!("logs/node={node}"));
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&logs);
        made.map_err(|e| Error::work(format!("cannot make {}: {e}. Make room, or check its rights", logs.display())))?;
        Ok(logs)
    }

    /// Makes the stamp directory of a node, unless something else makes it.
    fn make_stamps(&self, node: &NodeName) -> Result<(), Error> {
        self.foreign(node).map_or_else(|| make(&self.stamps_of(node)), |_| Ok(()))
    }

    /// The cost of a stamp, with a pool that is of no run.
    fn stamp_cost(&self, node: &NodeName) -> Result<Ended, Error> {
        let directory = self.stamps.with_extension("cost");
        make(&directory)?;
        let (mut command, settings) = self.role(node, &Role::StampCost)?;
        command.env("TICKSCOPE_DIR", &directory);
        for variable in ["POLICY", "POOL_BYTES", "BLOCK_BYTES", "WHEN_FULL", "INJECT", "INJECT_REALTIME"] {
            command.env_remove(format!("TICKSCOPE_{variable}"));
        }
        let what = format!("{} {node}", Role::StampCost.title());
        let ended = Process::start(&what, &mut command, &settings).map(Process::complete);
        let _ = fs::remove_dir_all(directory); // whatever is left there is of no run
        ended
    }

    /// [`Agent::prepare`] with the known map of its counter that an agent before this one had.
    pub fn prepare_as(&mut self, plan: &NodePlan, counter: Option<&str>) -> Result<PreparedNode, Error> {
        let name = &plan.name;
        let Some(node) = self.nodes.get_mut(name) else { return Err(stranger(name)) };
        preflight::expect_stamps(plan)?;
        if self.is_first {
            preflight::expect_pool_room(plan)?; // one that takes over finds pools that fill it
        }
        node.stamps.clone_from(&plan.stamps);
        let anchored = |inject: Inject| inject.anchored(tickscope_counter::read(tickscope_tick::Ordering::Plain));
        node.counter = match counter {
            Some(map) => Some(map.parse().map_err(Error::work)?),
            None => plan.inject.and_then(anchored),
        };
        let now_ns = crate::unix_ns() as i64;
        let realtime = plan.inject_realtime.as_ref().map(|inject| inject.starting_at(now_ns)).transpose();
        node.realtime = realtime.map_err(|e| Error::input(format!("node '{name}': {e}")))?;
        let maps = KnownMaps { counter: node.counter.as_ref(), realtime: node.realtime.as_ref() };
        let facts = self.host.node(name.clone(), maps)?;
        node.home.address = plan.address.clone().unwrap_or_else(|| node.home.address.clone());
        let (address, run) = (node.home.address.clone(), self.run.display().to_string());
        let prepared = PreparedNode { address, run, stamps: self.stamps_of(name).display().to_string(), facts };
        self.prepared.push(prepared.clone());
        Ok(prepared)
    }

    /// What it has started and not ended.
    pub fn tasks(&self) -> Vec<(TaskId, NodeName, Task)> {
        self.tasks.clone()
    }

    /// What it has prepared and started.
    pub fn inventory(&mut self) -> Result<Inventory, Error> {
        let pools = self.nodes.keys().flat_map(|node| leftovers::pools_in(&self.stamps_of(node))).collect();
        Ok(Inventory { look: Some(self.look()?), nodes: self.prepared.clone(), tasks: self.tasks(), pools })
    }

    /// Ends everything, commands first, and takes what lies in shared memory.
    pub fn end_all(&mut self) {
        let is_target = |task: &Task| matches!(task, Task::Target(_));
        let mut tasks = self.tasks();
        tasks.sort_by_key(|(_, _, task)| !is_target(task));
        for (task, _, _) in tasks {
            if let Err(why) = self.end(task) {
                notice::say(why);
            }
        }
        for node in self.nodes.keys().cloned().collect::<Vec<_>>() {
            // Where one that was killed left no directory, its collector says what was in it.
            let is_gone_with_agent = !self.is_first && self.foreign(&node).is_none();
            if (is_gone_with_agent || self.stamps_of(&node).is_dir())
                && let Err(why) = self.perform(&node, &Role::CollectOnce)
            {
                notice::say(why);
            }
        }
    }

    fn known(&mut self, task: TaskId) -> Result<Process, Error> {
        self.tasks.retain(|(known, _, _)| *known != task);
        self.processes.remove(&task).ok_or_else(|| Error::work("ended with its agent"))
    }
}

/// A command whose output goes on to ours gets our input as well; not a terminal, which would stop a process of another
/// group that reads it.
fn input(forward: Forward) -> Stdio {
    if forward == Forward::Nowhere || std::io::stdin().is_terminal() { Stdio::null() } else { Stdio::inherit() }
}

/// What only a conductor that does not keep to the protocol meets.
fn stranger(node: &NodeName) -> Error {
    Error::work(format!("expected a node that lives with this agent, found '{node}'. Name one of the session's nodes"))
}

fn no_command(node: &NodeName) -> Error {
    Error::work(format!("node '{node}': expected a command to start, found no words. Give it at least one"))
}

fn make(directory: &Path) -> Result<(), Error> {
    directory::make(directory)
        .map(drop)
        .map_err(|e| Error::work(format!("cannot make {}: {e}. Mount a tmpfs there", directory.display())))
}

impl Agent for LocalAgent {
    fn look(&mut self) -> Result<Look, Error> {
        let findings = self.host.facts.findings().into_iter().chain(self.host.sharing.findings());
        let node = self.nodes.values().next();
        let arrangement = node.map_or(Arrangement::Loopback, |node| node.home.arrangement);
        let link = node.and_then(|node| node.link);
        Ok(Look {
            name: Event::HOST.into(),
            network: arrangement.told(link),
            findings: findings.map(|finding| finding.to_string()).collect(),
        })
    }

    fn prepare(&mut self, plan: &NodePlan) -> Result<PreparedNode, Error> {
        self.prepare_as(plan, None)
    }

    fn start(&mut self, node: &NodeName, task: &Task) -> Result<TaskId, Error> {
        self.node(node)?; // nothing is made for a stranger
        if *task == Task::Role(Role::Collect) {
            self.make_stamps(node)?;
        }
        let home = &self.node(node)?.home;
        let strangers = match task {
            // A namespace is the run's: nobody else listens there.
            Task::Target(Target { readiness: Some(readiness), .. }) if !home.is_apart() => {
                readiness.strangers(&home.address)
            }
            _ => Strangers::default(),
        };
        let mut process = self.process(node, task)?;
        match task {
            Task::Role(_) => process.ready()?,
            Task::Target(Target { readiness: Some(readiness), .. }) => {
                readiness.wait(&mut process, &self.node(node)?.home.address, &strangers)?;
            }
            Task::Target(_) => {}
        }
        let id = TaskId(self.started);
        self.started += 1;
        self.processes.insert(id, process);
        self.tasks.push((id, node.clone(), task.clone()));
        Ok(id)
    }

    fn is_running(&mut self, task: TaskId) -> Result<bool, Error> {
        Ok(self.processes.get_mut(&task).is_some_and(|process| process.ended().is_none()))
    }

    fn tell(&mut self, task: TaskId, line: &str) -> Result<(), Error> {
        let process = self.processes.get_mut(&task);
        process.ok_or_else(|| Error::work("ended with its agent"))?.tell(line)
    }

    fn answers(&mut self, task: TaskId) -> Result<Vec<String>, Error> {
        Ok(self.processes.get(&task).map(|process| process.lines().answers()).unwrap_or_default())
    }

    fn end(&mut self, task: TaskId) -> Result<Ended, Error> {
        self.known(task)?.end()
    }

    fn perform(&mut self, node: &NodeName, role: &Role) -> Result<Ended, Error> {
        self.node(node)?;
        match role {
            Role::StampCost => self.stamp_cost(node),
            Role::CollectOnce => {
                self.make_stamps(node)?; // with a container that was started anew it went, and that is told
                Ok(self.process(node, &Task::Role(Role::CollectOnce))?.complete())
            }
            role => Ok(self.process(node, &Task::Role(role.clone()))?.complete()),
        }
    }

    fn look_again(&mut self) -> Result<FinalCheck, Error> {
        let after = Snapshot::of_this_host(&NodeCounter::true_counter()).map_err(Error::work)?;
        let widths = SnapshotWidths { counter_ticks: self.host.step.width_ticks, ..clock_widths(None) };
        let tolerance = Tolerance { widths, ..Tolerance::of(self.host.facts.frequency) };
        let changes = host_clocks::between(self.clocks_before, after, &tolerance);
        let sharing = Sharing::of_this_host().map_err(Error::work)?;
        self.host.look_at_step_again();
        Ok(FinalCheck {
            clock_changes: changes
                .iter()
                .map(|change| (change.earlier.before, change.later.after, change.to_string()))
                .collect(),
            findings: sharing.findings().iter().map(ToString::to_string).collect(),
            sharing: sharing.to_string(),
            reading: reading_width(&self.host.step),
        })
    }

    fn clear(&mut self, unread: Unread) -> Result<Vec<Left>, Error> {
        let logs = self.run.join("logs");
        for node in self.nodes.keys() {
            let _ = fs::remove_dir(logs.join(format!("node={node}"))); // with a log in it, it stays
        }
        let _ = fs::remove_dir(logs);
        let own = |(name, node): (&NodeName, &LocalNode)| node.stamps.is_none().then(|| name.clone());
        let nodes: Vec<NodeName> = self.nodes.iter().filter_map(own).collect();
        if unread == Unread::Remove {
            nodes.iter().map(|node| self.stamps_of(node)).for_each(|place| {
                let _ = fs::remove_dir_all(place); // it may not have been made
            });
        }
        let mut left = Vec::new();
        for node in nodes {
            left.extend(leftovers::clear(&node, &self.stamps_of(&node))?);
        }
        Ok(left)
    }
}
