//! What conductor and agent say to each other: one question at a time, each with its answer.
//!
//! The agent begins with [`Hello`]. Then each frame to it is [`Asked`], and each is answered by a frame, [`Answered`].
//! Questions are numbered: one whose answer was lost with its pipe is asked again under its number, and answered from
//! memory instead of done twice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickscope_store::Parcel;
use tickscope_tick::NodeName;

use super::uploads::Uploaded;
use crate::Error;
use crate::agent::{Ended, FinalCheck, Left, Look, PreparedNode, Task, TaskId, Unread};
use crate::node_plan::NodePlan;
use crate::object_store::RunPlace;
use crate::plan::{Link, NetworkKind};
use crate::roles::Role;

/// Bytes of a piece of a file.
pub const PIECE_BYTES: usize = 4 << 20;

/// Version of all of this; both ends must have the same.
pub const PROTOCOL: u32 = 6;

/// How often an agent says that it lives.
pub const BEAT_EVERY: Duration = Duration::from_secs(1);

/// A frame from an agent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromAgent {
    /// Once, before any answer.
    Hello(Hello),
    /// It lives.
    Beat,
    /// An answer.
    Answered(Answered),
}

/// The first frame of every connection, from the agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`] of the agent.
    pub protocol: u32,
    /// Its version of tickscope.
    pub tickscope: String,
    /// Boot of its machine; empty: unknown.
    pub boot: String,
    /// Number of this agent's process among those that served the session: 0 before it was told to begin.
    pub generation: u32,
    /// Whether its session's folder was of a run before: one that took over knows what the agent before it had seen.
    /// Absent of an older agent, which did not say.
    #[serde(default = "yes")]
    pub has_run: bool,
}

fn yes() -> bool {
    true
}

/// What an agent has to know before anything else.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AgentSettings {
    /// Number of the session: of the run, and for an agent at the end of a pipe of the node too. Its folder in shared
    /// memory and its namespaces carry it.
    pub session: u64,
    /// The run's directory, if it lies on the agent's machine; absent: files go to a spool, and are fetched from there.
    pub run: Option<PathBuf>,
    /// The folder that commands run in; absent: the session's own.
    pub folder: Option<PathBuf>,
    /// The nodes that live with it.
    pub nodes: Vec<NodeName>,
    /// How they are joined.
    pub network: NetworkKind,
    /// What their ways to each other take; absent: all that the kernel moves.
    #[serde(default)]
    pub link: Option<Link>,
    /// Seconds for which it goes on without a conductor.
    pub deadline_seconds: f64,
    /// Bytes that wait in its spool at most.
    pub spool_bytes: u64,
    /// Segments of its programs go to object storage, each once, when it is whole.
    #[serde(default)]
    pub to_storage: bool,
    /// 1 at the start of a run, and one more for each agent that takes over from one that died.
    pub generation: u32,
}

impl AgentSettings {
    /// The same for a run there, of which nodes elsewhere put their segments to storage where it has some.
    pub fn of(self, run: &RunPlace) -> Self {
        Self { to_storage: run.store.is_some() && self.run.is_none(), ..self }
    }
}

/// A question, and its number.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Asked {
    /// One more than that of the question before.
    pub number: u64,
    /// The question.
    pub question: Question,
}

/// An answer, and the number of its question.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Answered {
    /// Number of the question.
    pub number: u64,
    /// The answer; `Err`: what failed, in words.
    pub answer: Result<AgentAnswer, Error>,
}

/// What a conductor asks for: mostly a method of [`crate::Agent`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// Sets up the session.
    Begin(AgentSettings),
    /// [`crate::Agent::look`].
    Look,
    /// [`crate::Agent::prepare`]; with the known map of its counter that an agent before it had.
    Prepare(Box<NodePlan>, Option<String>),
    /// The run's manifest, `run.json`, for the spool.
    Manifest(String),
    /// A piece of a file of the session's folder: its name, whether it can be executed, and where the piece begins; the
    /// piece is the frame's bytes.
    Put {
        /// A name, and no path.
        name: String,
        /// True if the user may execute it.
        executable: bool,
        /// Where the piece begins.
        offset: u64,
    },
    /// [`crate::Agent::start`].
    Start(NodeName, Box<Task>),
    /// Processes that go on, what they answered, what was said meanwhile.
    Poll,
    /// [`crate::Agent::tell`].
    Tell(TaskId, String),
    /// [`crate::Agent::end`].
    End(TaskId),
    /// [`crate::Agent::perform`].
    Perform(NodeName, Role),
    /// [`crate::Agent::look_again`].
    LookAgain,
    /// [`crate::Agent::clear`].
    Clear(Unread),
    /// What it has prepared and started, for a conductor that takes over.
    Inventory,
    /// Ends all processes, commands first, and takes what lies in shared memory.
    EndAll,
    /// Files of the spool that are new: at most so many; and whether also those that grow, each time.
    Pending(u32, bool),
    /// Bytes of a file from there on; they are the answer's.
    Piece(Parcel, u64),
    /// Segments of the spool that are to go to object storage, each with URLs to put it and to ask for it.
    Upload(Vec<(Parcel, [String; 2])>),
    /// Bytes of a log from there on, at most a piece; they are the answer's. Paths start from the node's folder.
    Log(String, u64),
    /// The run has stored these.
    Stored(Vec<Parcel>),
    /// The run does not take these, and has told so.
    Refused(Vec<Parcel>),
    /// The user wants the run to end: what waits for a command to be ready waits no more. Has no answer, and comes
    /// while another question is worked on.
    Hurry,
    /// The session is over: everything ends, and its folder goes unless it holds files that the run does not take.
    Bye,
}

/// What an agent answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentAnswer {
    /// Done.
    Done,
    /// To [`Question::Look`].
    Look(Look),
    /// To [`Question::Prepare`].
    Prepared(Box<PreparedNode>),
    /// To [`Question::Start`].
    Started(TaskId),
    /// To [`Question::Poll`].
    Polled(Polled),
    /// To [`Question::End`] and [`Question::Perform`].
    Ended(Ended),
    /// To [`Question::LookAgain`].
    LookedAgain(FinalCheck),
    /// To [`Question::Clear`].
    Cleared(Vec<Left>),
    /// To [`Question::Inventory`].
    Inventory(Inventory),
    /// To [`Question::Pending`].
    Pending(Vec<Parcel>),
    /// To [`Question::Upload`]: those that are not on their way any more.
    Uploaded(Vec<Uploaded>),
    /// To [`Question::Log`]: there is none that can be read, and why.
    Unread(String),
}

/// What an agent has prepared and started.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Inventory {
    /// The machine, as it was found first.
    pub look: Option<Look>,
    /// Its nodes.
    pub nodes: Vec<PreparedNode>,
    /// What it started and did not end.
    pub tasks: Vec<(TaskId, NodeName, Task)>,
    /// Pools that lie in the stamp directories of its nodes, by instance.
    #[serde(default)]
    pub pools: BTreeSet<u64>,
}

/// The state of an agent's processes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Polled {
    /// Those that go on.
    pub running: Vec<TaskId>,
    /// What they answered, in order.
    pub answers: BTreeMap<TaskId, Vec<String>>,
    /// What processes of the agent's machine wrote to standard error.
    pub said: Vec<String>,
}
