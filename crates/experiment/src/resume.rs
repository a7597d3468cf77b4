//! A run whose conductor was killed, taken up again: its nodes went on meanwhile.
//!
//! Who is there and what it does is asked of the agents, which know all that they were told; what the run is stands in
//! its `run.json`. A node whose agent is gone has no command any more: what it stamped is taken, and the run ends once
//! those have ended that are to end it.
//!
//! Guarantees: nothing is started twice. Deliberately absent: starting commands again.

use std::path::Path;

use tickscope_store::{Event, Paths, Run, RunState, read_events};
use tickscope_tick::quoted;

use crate::agent::{Agent, Task};
use crate::conductor::Conductor;
use crate::finish::alone;
use crate::node_role::{Helper, HelperKind};
use crate::node_run::NodeRun;
use crate::pipe::Inventory;
use crate::plan::{Plan, PlanOrigin};
use crate::record::RunRecord;
use crate::window::Keep;
use crate::{Error, interrupt, sites};

/// Goes on with the run in `root`. The run, and why it was cut short, if it was.
pub fn resume(root: &Path) -> Result<(Run, Result<(), Error>), Error> {
    interrupt::catch();
    interrupt::catch_dump();
    let run = Run::open(root)?;
    let _alone = alone(&run, "resume")?;
    expect_cut_off(&run)?;
    let plan = plan_of(&run)?;
    let mut conductor = Conductor::resume(&plan, run)?;
    let measured = conductor.go_on_measuring();
    conductor.come_to_an_end(None, measured)
}

/// Refuses a run that goes on, or that has come to its end.
fn expect_cut_off(run: &Run) -> Result<(), Error> {
    let (shown, place) = (run.root().display(), quoted(run.root().display()));
    match run.state()? {
        RunState::CutOff => Ok(()),
        RunState::GoingOn => Err(Error::work(format!("cannot resume {shown}: it goes on"))),
        RunState::Ended => Err(Error::work(format!(
            "cannot resume {shown}: it has ended. tickscope finish {place} takes what it may have left, tickscope show \
             {place} prints it"
        ))),
    }
}

/// The plan that a run was begun by.
pub(crate) fn plan_of(run: &Run) -> Result<Plan, Error> {
    let manifest = run.manifest();
    let place = quoted(run.root().display());
    let text = manifest.run_file.clone().ok_or_else(|| {
        Error::work(format!(
            "cannot resume {place}: it was begun without a run file, so its command ended with it. tickscope finish \
             {place} takes what it left"
        ))
    })?;
    let mut plan = Plan::parse(&text).map_err(|why| Error::work(format!("run.json: its run file: {why}")))?;
    let folder = manifest.run_file_directory.clone().unwrap_or_default();
    plan.origin = PlanOrigin { folder, text: Some(text), ..PlanOrigin::default() };
    // What was given with the command takes the place of what the run file says.
    plan.run.seconds = manifest.seconds.unwrap_or(plan.run.seconds);
    plan.run.keep = manifest.keep_ms.and_then(Keep::of_ms).or(plan.run.keep);
    Ok(plan)
}

impl<'a> Conductor<'a> {
    /// A conductor of a run that another one began.
    fn resume(plan: &'a Plan, run: Run) -> Result<Self, Error> {
        let writing = run.write()?;
        let (rejoined, lives) = sites::rejoin(plan, &run)?;
        let place = Paths::of(run.root()).events().join("run.parquet");
        let events = if place.exists() { read_events(&place)? } else { Vec::new() };
        let text = run.manifest().text();
        let (mut agents, mut inventories) = (Vec::new(), Vec::new());
        for mut agent in rejoined {
            agent.begun(&text)?;
            inventories.push(agent.inventory()?);
            agents.push(agent);
        }
        if inventories.iter().all(|found| found.nodes.is_empty()) {
            let place = quoted(run.root().display());
            return Err(Error::work(format!(
                "cannot resume {place}: nothing of it went on when tickscope run was killed, so nothing more can be \
                 measured. tickscope finish {place} takes what it left"
            )));
        }
        let mut nodes = Vec::new();
        for ((of_plan, facts), &at) in plan.nodes.iter().zip(&run.manifest().nodes).zip(&lives) {
            let known = inventories[at].nodes.iter().find(|known| known.facts.name == of_plan.name).cloned();
            let prepared = match known {
                Some(prepared) => {
                    agents[at].recall(of_plan, prepared.facts.injected.clone());
                    prepared
                }
                None => agents[at].prepare_as(of_plan, facts.injected.clone())?,
            };
            nodes.push(NodeRun::of_plan(of_plan, at, &prepared)?);
        }
        let known = agents.into_iter().enumerate().map(|(number, agent)| {
            let first = plan.nodes.iter().zip(&lives).find(|(_, at)| **at == number);
            let elsewhere = first.filter(|(node, _)| !node.is_here());
            let name = elsewhere.map_or_else(|| Event::HOST.to_owned(), |(node, _)| node.name.to_string());
            (name, Box::new(agent) as Box<dyn Agent>)
        });
        let known = known.collect();
        let network =
            inventories.iter().filter_map(|found| found.look.as_ref()).map(|look| look.network.clone()).next();
        let mut conductor =
            Self::over(plan, known, nodes, RunRecord { run, events }, (network.unwrap_or_default(), writing));
        conductor.take_over(inventories)?;
        Ok(conductor)
    }

    /// Takes over what the agents have started.
    fn take_over(&mut self, inventories: Vec<Inventory>) -> Result<(), Error> {
        let mut lives = 0;
        for (task, node, what) in inventories.into_iter().flat_map(|found| found.tasks) {
            let Some(at) = self.position(&node) else { continue };
            match what {
                Task::Target(_) => {
                    lives += 1;
                    self.take_target(at, task);
                }
                Task::Role(role) => {
                    let Some(kind) = HelperKind::resumed(&role) else { continue };
                    self.take_helper(kind, at, Helper::running(role, at, task));
                }
            }
        }
        let text = format!("the run's conductor was killed, and another took over; {lives} commands were going on");
        crate::notice::say(&text);
        self.note_resumed(text)?;
        self.start_missing_collectors()
    }
}
