//! The interface between the conductor and a machine that nodes live on.
//!
//! What is asked and answered is plain data that serializes: no process handle, no descriptor. So an agent may as well
//! sit at the far end of a pipe, where another copy of this program asks a [`crate::LocalAgent`]. The one path of the
//! conductor's own is where [`Agent::copy_log`] puts a log; it does not travel.
//!
//! Assumes: one conductor an agent at a time. Files of the run are in its directory once [`Agent::flush`] has
//! returned; an agent that shares that directory has nothing to fetch. Guarantees asked of an implementor: a role that
//! was started is ready; after [`Agent::bye`] no process of it is left. One that is dropped without it ends its
//! processes where it is next to the run; one elsewhere, or detached, goes on until its deadline, for a conductor that
//! takes over. Deliberately absent: the order of things; that is the conductor's.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tickscope_store::{Event, EventKind, Node, ReadingWidth};
use tickscope_tick::NodeName;

use crate::Error;
use crate::node_plan::NodePlan;
use crate::notice;
use crate::outputs;
use crate::process::Forward;
use crate::readiness::Readiness;
use crate::roles::Role;

/// A machine and the processes that a run has there.
pub trait Agent {
    /// The machine as it was found when the agent began.
    fn look(&mut self) -> Result<Look, Error>;

    /// Makes a place for a node: its address, its stamp directory, the known maps before its clocks.
    fn prepare(&mut self, node: &NodePlan) -> Result<PreparedNode, Error>;

    /// Takes in that the run has begun, with this manifest.
    fn begun(&mut self, _manifest: &str) -> Result<(), Error> {
        Ok(())
    }

    /// Starts a process of a prepared node; a role is ready when this returns, and a target that says when it is.
    fn start(&mut self, node: &NodeName, task: &Task) -> Result<TaskId, Error>;

    /// Returns whether the process goes on.
    fn is_running(&mut self, task: TaskId) -> Result<bool, Error>;

    /// Tells a role a line.
    fn tell(&mut self, task: TaskId, line: &str) -> Result<(), Error>;

    /// Tells a role a line without waiting until it was told: an agent that does not answer holds up nobody. Whether it
    /// came is told by what the role answers.
    fn post(&mut self, task: TaskId, line: &str) -> Result<(), Error> {
        self.tell(task, line)
    }

    /// Takes what a role answered since the last time, a line each.
    fn answers(&mut self, task: TaskId) -> Result<Vec<String>, Error>;

    /// Asks the process to end, and waits for it. `Err`: it had to be killed.
    fn end(&mut self, task: TaskId) -> Result<Ended, Error>;

    /// Plays a role that ends by itself: the cost of a stamp, or a collector that takes what another left.
    fn perform(&mut self, node: &NodeName, role: &Role) -> Result<Ended, Error>;

    /// The machine at the end of the run, held against [`Agent::look`].
    fn look_again(&mut self) -> Result<FinalCheck, Error>;

    /// Removes the stamp directories of its nodes; returns what stays in them.
    fn clear(&mut self, unread: Unread) -> Result<Vec<Left>, Error>;

    /// Fetches what it holds of the run's files.
    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Copies a log of its node to a file here; `false`: it lies here already, or there is none that can be read.
    fn copy_log(&mut self, _path: &str, _to: &Path) -> Result<bool, Error> {
        Ok(false)
    }

    /// Whether it can be asked now.
    fn connection(&self) -> Connection {
        Connection::Open
    }

    /// What became of it that the run has to tell, each once.
    fn news(&mut self) -> Vec<News> {
        Vec::new()
    }

    /// Takes in that the run needs nothing of it any more: all that it stored is in the run.
    fn bye(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// Takes a node's outputs into the run at `root`, whose directory is `there` for its agent; returns an event of each
/// that lacks.
pub(crate) fn take_outputs(
    node: &NodePlan,
    agent: &mut dyn Agent,
    there: &str,
    root: &Path,
) -> Result<Vec<Event>, Error> {
    let (name, mut lacking) = (&node.name, Vec::new());
    for output in &node.outputs {
        let place = outputs::folder(root, name).join(output);
        if !node.is_here() {
            tickscope_store::make_folders(&outputs::folder(root, name))?;
            let copied =
                agent.copy_log(&outputs::folder(Path::new(there), name).join(output).display().to_string(), &place)?;
            if !copied && std::fs::metadata(&place).is_ok_and(|found| found.len() == 0) {
                let _ = std::fs::remove_file(&place); // begun, and nothing came
            }
        }
        if !place.is_file() {
            let text = format!("expected the output {output} of node {name}, found none. Does its command write it?");
            notice::say(&text);
            let (node, what) = (name.to_string(), EventKind::NodeFileRefused);
            lacking.push(Event { node, what, text, ..Event::default() });
        }
    }
    Ok(lacking)
}

/// The way to an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Connection {
    /// It answers.
    Open,
    /// It is tried again.
    Broken,
    /// It is given up.
    Lost,
}

/// Something that became of an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct News {
    /// What.
    pub what: EventKind,
    /// Seconds, where it took some.
    pub value: Option<i64>,
    /// In words.
    pub text: String,
}

/// Number of a process among those of its agent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct TaskId(pub u32);

/// A process to start.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Task {
    /// One of tickscope's own.
    Role(Role),
    /// The measured program.
    Target(Target),
}

/// The command of a node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Target {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables that it gets besides the agent's own.
    pub environment: BTreeMap<String, String>,
    /// True if `TICKSCOPE_DIR` is set for it; if not, its points are off.
    pub measured: bool,
    /// What is waited for before the start is over.
    pub readiness: Option<Readiness>,
    /// Where its standard output goes on to.
    pub forward: Forward,
}

/// Facts about a machine, gathered before measuring.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Look {
    /// The name that events of the machine have.
    pub name: String,
    /// The network that its nodes are on, in words.
    pub network: String,
    /// Shortcomings of its counter, in words.
    pub findings: Vec<String>,
}

/// Address, directories and facts of a node, once its agent has set it up.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PreparedNode {
    /// Address that other nodes reach it by.
    pub address: String,
    /// The run's directory there: what `{run}` stands for in commands.
    pub run: String,
    /// Directory of its stamps there, until they are collected.
    pub stamps: String,
    /// The node in the words of `run.json`, its command left empty.
    pub facts: Node,
}

/// Changes of a machine between the start and the end of a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct FinalCheck {
    /// Changes of its clocks: first and last tick of its counter, and a sentence.
    pub clock_changes: Vec<(i64, i64, String)>,
    /// Findings of the new check of its cores, in words.
    pub findings: Vec<String>,
    /// The outcome of that check, in words.
    pub sharing: String,
    /// How wide readings of its counter are, the wider of both looks; absent: it did not move.
    pub reading: Option<ReadingWidth>,
}

/// Treatment of stamps that nobody has taken, when a stamp directory is cleared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Unread {
    /// They stay, and so does their directory.
    Keep,
    /// They go: nobody wants them.
    Remove,
}

/// Something that stays in a node's stamp directory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Left {
    /// The node.
    pub node: NodeName,
    /// Its stamp directory.
    pub directory: String,
    /// The first thing that stays there, in words.
    pub what: String,
    /// True if a living process holds it: it can be taken once that has ended.
    pub held: bool,
    /// True if other users put it there, who are strangers to the run: it is told, and no stamp is missing.
    #[serde(default)]
    pub foreign: bool,
    /// Pools that no living process holds and that were not taken.
    #[serde(default)]
    pub untaken: Vec<UntakenPool>,
}

impl Left {
    /// Events of stamps that stay: value and text. A pool that no living process holds has its own, whose value is its
    /// instance: where it is gone later, what it held is lost.
    pub(crate) fn notes(&self) -> Vec<(Option<i64>, String)> {
        let Self { directory, what, held, untaken, .. } = self;
        let later = format!("{what} stays in {directory}; tickscope finish takes the rest later");
        let first = (*held || untaken.is_empty()).then_some((None, later));
        let of_pool = |UntakenPool { instance, what }: &UntakenPool| {
            let text = format!("{what} stays in {directory}: its stamps are not in the run");
            (Some(instance.cast_signed()), text)
        };
        first.into_iter().chain(untaken.iter().map(of_pool)).collect()
    }
}

/// A pool that no living process holds, with stamps that nobody could take.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UntakenPool {
    /// The number in its file's name, by which channels know it.
    pub instance: u64,
    /// Its file's name and why it stays, in words.
    pub what: String,
}

/// How a process ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ended {
    /// The process, in words.
    pub what: String,
    /// Its process id, as its channels have it.
    pub pid: u32,
    /// The last line that it printed.
    pub last: Option<String>,
    /// Its exit code or signal, as `wait` gives them.
    pub wait_status: i32,
    /// True if it was still running when it was asked to end.
    pub asked: bool,
    /// From its start until its end was seen.
    pub ran_ns: u64,
    /// Processor time that it took, with the children it waited for; absent: the kernel did not say.
    pub cpu_ns: Option<u64>,
}

/// Where to look for the reason why a process ended, which may have given none.
pub(crate) const SAID: &str = "See its stderr above, if it wrote any";

/// Added to a signal's number, it is the exit code of a program that caught the signal and ended by it.
const TOLD_BY_CODE: i32 = 128;

impl Ended {
    /// Its exit code, or the signal.
    pub fn status(&self) -> ExitStatus {
        ExitStatus::from_raw(self.wait_status)
    }

    /// Returns whether it ended as it should. A service without a handler ends by the signal that it was sent; shells
    /// and virtual machines tell of that signal by an exit code of 128 more.
    pub fn is_well(&self) -> bool {
        let of_signal =
            |signal| self.status().signal() == Some(signal) || self.status().code() == Some(TOLD_BY_CODE + signal);
        self.status().success() || self.asked && [libc::SIGTERM, libc::SIGINT].into_iter().any(of_signal)
    }

    /// The report that a role prints as its last line.
    pub fn report<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let report = self.last.as_deref().and_then(|line| serde_json::from_str(line).ok());
        report.ok_or_else(|| {
            let (what, found) = (&self.what, self.last.as_deref().unwrap_or("nothing"));
            let status = self.status();
            Error::work(format!("{what}: it ended with {status} without a report (its last line: {found}). {SAID}"))
        })
    }
}
