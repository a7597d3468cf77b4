//! The agents of a plan: one for the nodes of this host, one for each node elsewhere; each at the end of a pipe.

use std::path::Path;
use std::thread;

use sha2::{Digest, Sha256};
use tickscope_store::Run;
use tickscope_tick::{NodeName, quoted};

use crate::Error;
use crate::agent::Agent;
use crate::node_plan::{Site, There};
use crate::object_store::{ObjectStore, RunPlace};
use crate::pipe::{AgentSettings, Connect, PipeAgent, session_goes_on};
use crate::plan::Plan;

/// How long nodes of this host go on that were detached.
const DETACHED_SECONDS: f64 = 3600.0;

/// Agents, and for each node of the plan the position of its own.
type Sites = (Vec<Box<dyn Agent>>, Vec<usize>);

/// An agent that is being reached.
type Beginning<'scope> = thread::ScopedJoinHandle<'scope, Result<PipeAgent, Error>>;

/// Reaches all of them at once; the first failure is the answer.
pub(crate) fn begin(plan: &Plan, run: u64, root: &Path) -> Result<Sites, Error> {
    let (here, folder) = (here(plan), &plan.origin.folder);
    let place =
        &RunPlace { root: root.into(), store: plan.storage.as_ref().map(|storage| storage.store(root)).transpose()? };
    let (mut wanted, mut lives): (Vec<(Connect, AgentSettings)>, Vec<usize>) = Default::default();
    if !here.is_empty() {
        wanted.push((connect_here(plan)?, settings_here(plan, run, root, here)));
    }
    for node in &plan.nodes {
        match node.site() {
            Site::Here => lives.push(0),
            Site::There(there) => {
                lives.push(wanted.len());
                wanted.push(elsewhere(run, &node.name, there, folder));
            }
        }
    }
    let reached: Vec<Result<PipeAgent, Error>> = thread::scope(|scope| {
        let begin =
            |(connect, settings)| scope.spawn(move || PipeAgent::begin(connect, settings, folder.clone(), place));
        let beginning: Vec<Beginning<'_>> = wanted.into_iter().map(begin).collect();
        let panicked = || Error::work("an agent could not be reached: the thread that tried panicked");
        beginning.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(panicked()))).collect()
    });
    let (mut agents, mut failed): (Vec<Box<dyn Agent>>, _) = (Vec::new(), None);
    for agent in reached {
        match agent {
            Ok(agent) => agents.push(Box::new(agent)),
            Err(why) => _ = failed.get_or_insert(why),
        }
    }
    match failed {
        None => Ok((agents, lives)),
        Some(why) => {
            // They would wait for a conductor until their deadlines.
            agents.iter_mut().for_each(|agent| _ = agent.bye());
            Err(why)
        }
    }
}

/// The way to the agent of this host's nodes: its child, or one that outlives this process.
fn connect_here(plan: &Plan) -> Result<Connect, Error> {
    if plan.origin.detach { connect_detached() } else { Ok(Connect::Here) }
}

fn connect_detached() -> Result<Connect, Error> {
    let program =
        std::env::current_exe().map_err(|e| Error::work(format!("cannot find this program: {e}. Mount /proc")))?;
    Ok(Connect::Through { prefix: vec!["env".into()], agent: Some(program.display().to_string()), folder: "".into() })
}

/// Reaches the agents of a run whose conductor was killed; where one is gone, another takes its place. A machine that
/// was started anew is refused: what it stamps now is of another counter.
pub(crate) fn rejoin(plan: &Plan, run: &Run) -> Result<(Vec<PipeAgent>, Vec<usize>), Error> {
    let (number, root, folder) = (run.manifest().run, run.root(), &plan.origin.folder);
    let root = std::path::absolute(root).unwrap_or_else(|_| root.into());
    let place = RunPlace { root: root.clone(), store: ObjectStore::of_run(run.manifest())? };
    let here = here(plan);
    let (mut agents, mut lives) = (Vec::new(), Vec::new());
    if !here.is_empty() {
        agents.push(rejoin_here(plan, number, &root)?);
    }
    for node in &plan.nodes {
        let Site::There(there) = node.site() else {
            lives.push(0);
            continue;
        };
        let (connect, settings) = elsewhere(number, &node.name, there, folder);
        lives.push(agents.len());
        let agent = PipeAgent::rejoin(connect, settings, folder.clone(), &place)?;
        expect_same_boot(run, &node.name, agent.boot())?;
        agents.push(agent);
    }
    Ok((agents, lives))
}

/// Reaches the agent of this host's nodes, which goes on where the run was detached; another takes its place if not.
pub(crate) fn rejoin_here(plan: &Plan, run: u64, root: &Path) -> Result<PipeAgent, Error> {
    let mut settings = settings_here(plan, run, root, here(plan));
    settings.deadline_seconds = DETACHED_SECONDS;
    let connect = if session_goes_on(run) { connect_detached()? } else { Connect::Here };
    let place = RunPlace { root: root.into(), store: None };
    PipeAgent::rejoin(connect, settings, plan.origin.folder.clone(), &place)
}

/// The nodes of this host.
fn here(plan: &Plan) -> Vec<NodeName> {
    plan.nodes.iter().filter(|node| node.is_here()).map(|node| node.name.clone()).collect()
}

fn expect_same_boot(run: &Run, name: &NodeName, boot: &str) -> Result<(), Error> {
    let known = run.manifest().nodes.iter().find(|node| node.name == *name);
    if known.is_none_or(|known| boot.parse() == Ok(known.boot)) {
        return Ok(());
    }
    Err(Error::work(format!(
        "cannot resume: the machine of node {name} was started anew since the run began, so its counter is another one \
         now. tickscope finish {} ends the others and completes the run with what was stored",
        quoted(run.root().display())
    )))
}

fn settings_here(plan: &Plan, run: u64, root: &Path, nodes: Vec<NodeName>) -> AgentSettings {
    AgentSettings {
        session: run,
        run: Some(root.into()),
        folder: Some(plan.origin.folder.clone()),
        nodes,
        network: plan.network_kind(),
        link: plan.network.link,
        deadline_seconds: if plan.origin.detach { DETACHED_SECONDS } else { 0.0 },
        spool_bytes: 0,
        to_storage: false,
        generation: 1,
    }
}

/// The way to a node elsewhere, and what its agent has to know.
pub(crate) fn elsewhere(run: u64, node: &NodeName, there: There<'_>, folder: &Path) -> (Connect, AgentSettings) {
    let There { connect, agent, deadline_seconds, spool_bytes, .. } = there;
    let settings = AgentSettings {
        session: session(run, node),
        run: None,
        folder: None,
        nodes: vec![node.clone()],
        network: crate::plan::NetworkKind::Host,
        link: None,
        deadline_seconds,
        spool_bytes,
        to_storage: false,
        generation: 1,
    };
    let (prefix, agent) = (connect.to_vec(), agent.map(Into::into));
    (Connect::Through { prefix, agent, folder: folder.into() }, settings)
}

/// Number of the session of a node elsewhere: several may be on one machine, each with what it has in shared memory.
fn session(run: u64, node: &NodeName) -> u64 {
    let digest = Sha256::digest(format!("{run:016x} {node}").as_bytes());
    digest.iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// The same, as folders have it in their names.
pub(crate) fn session_text(run: u64, node: &NodeName) -> String {
    format!("{:016x}", session(run, node))
}
