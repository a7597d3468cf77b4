//! An agent without processes, for tests of the conductor: it does what its test says, and keeps what it was asked.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::json;
use tickscope_store::{Event, Node};
use tickscope_tick::NodeName;

use crate::Error;
use crate::agent::{Agent, Ended, FinalCheck, Left, Look, PreparedNode, Task, TaskId, Unread};
use crate::node_plan::NodePlan;
use crate::roles::Role;

/// Requests to the agent, in order: `start collect a`, `end collect a`, ...
pub type Asked = Rc<RefCell<Vec<String>>>;

/// A machine of its own boot.
pub struct SimulatedAgent {
    /// Described by its facts; the name of each node that lives here takes the place of theirs.
    pub machine: Node,
    pub asked: Asked,
    /// A process whose name begins so never becomes ready; `look again`: that fails.
    pub never_ready: Option<&'static str>,
    /// A process whose name begins so is killed before it is asked to end.
    pub dies: Option<&'static str>,
    /// What stays in its nodes' stamp directories.
    pub left: Vec<Left>,
    /// Tasks that were started, by number.
    pub started: Vec<Option<String>>,
    /// Answers that were not taken yet.
    pub answers: Vec<(TaskId, String)>,
    /// No exchange with the node of that number comes about.
    pub silent: Option<u32>,
}

impl SimulatedAgent {
    pub fn new(machine: Node, asked: &Asked) -> Self {
        Self {
            machine,
            asked: Rc::clone(asked),
            never_ready: None,
            dies: None,
            left: Vec::new(),
            started: Vec::new(),
            answers: Vec::new(),
            silent: None,
        }
    }

    fn ask(&self, what: &str) {
        self.asked.borrow_mut().push(what.into());
    }

    /// Tasks that still run.
    pub fn running(&self) -> Vec<&str> {
        self.started.iter().flatten().map(String::as_str).collect()
    }

    fn ended(&self, what: &str, wait_status: i32) -> Ended {
        let report = match what.split(' ').next() {
            Some("stamp-cost") => json!({ "plain_ps": 1000, "before_ps": 2000, "after_ps": 3000 }),
            Some("collect") => json!({ "pool_bytes": 1 }),
            Some("clock-monitor") => json!(crate::roles::clock_monitor::ClockReport::default()),
            _ => json!(crate::roles::probe::ProbeReport::default()),
        };
        let (what, last) = (what.into(), Some(report.to_string()));
        Ended { what, pid: 1, last, wait_status, asked: true, ran_ns: 1, cpu_ns: Some(1) }
    }
}

fn name(task: &Task) -> String {
    match task {
        Task::Role(role) => role.words().0,
        Task::Target(_) => "target".into(),
    }
}

impl Agent for SimulatedAgent {
    fn look(&mut self) -> Result<Look, Error> {
        Ok(Look { name: Event::HOST.into(), network: "simulated".into(), findings: Vec::new() })
    }

    fn prepare(&mut self, node: &NodePlan) -> Result<PreparedNode, Error> {
        let facts = Node { name: node.name.clone(), ..self.machine.clone() };
        Ok(PreparedNode { address: "192.0.2.1".into(), run: "/there".into(), stamps: "/stamps".into(), facts })
    }

    fn start(&mut self, node: &NodeName, task: &Task) -> Result<TaskId, Error> {
        let what = format!("{} {node}", name(task));
        self.ask(&format!("start {what}"));
        if self.never_ready.is_some_and(|name| what.starts_with(name)) {
            return Err(Error::work(format!("{what}: expected it to become ready, found its end. This is a test")));
        }
        // As data, so that an agent at the far end of a pipe would be asked for the same.
        assert_eq!(serde_json::from_value::<Task>(json!(task)).unwrap(), *task);
        self.started.push(Some(what));
        Ok(TaskId(self.started.len() as u32 - 1))
    }

    fn is_running(&mut self, _: TaskId) -> Result<bool, Error> {
        Ok(false)
    }

    fn tell(&mut self, task: TaskId, line: &str) -> Result<(), Error> {
        self.ask(&format!("tell {} {line}", self.started[task.0 as usize].as_ref().expect("it was started")));
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["burst", node, count, _] => {
                let answered = if self.silent.is_some_and(|silent| silent.to_string() == node) { "0" } else { count };
                self.answers.push((task, format!("burst {node} {count} {answered}")));
            }
            _ => self.answers.push((task, line.into())),
        }
        Ok(())
    }

    fn answers(&mut self, task: TaskId) -> Result<Vec<String>, Error> {
        let of_task = self.answers.extract_if(.., |(of, _)| *of == task);
        Ok(of_task.map(|(_, answer)| answer).collect())
    }

    fn end(&mut self, task: TaskId) -> Result<Ended, Error> {
        let what = self.started[task.0 as usize].take().expect("nothing is ended twice");
        self.ask(&format!("end {what}"));
        let dead = self.dies.is_some_and(|name| what.starts_with(name));
        Ok(self.ended(&what, if dead { libc::SIGKILL } else { 0 }))
    }

    fn perform(&mut self, node: &NodeName, role: &Role) -> Result<Ended, Error> {
        let what = format!("{} {node}", role.words().0);
        self.ask(&format!("perform {what}"));
        Ok(self.ended(&what, 0))
    }

    fn look_again(&mut self) -> Result<FinalCheck, Error> {
        self.ask("look again");
        if self.never_ready == Some("look again") {
            return Err(Error::work("look again: it fails in this test"));
        }
        Ok(FinalCheck::default())
    }

    fn clear(&mut self, _: Unread) -> Result<Vec<Left>, Error> {
        assert_eq!(self.running(), [""; 0], "stamps are cleared away once nothing writes them");
        self.ask("clear");
        Ok(self.left.clone())
    }
}
