//! An agent as it was last heard of, which its owner and the thread that has the pipe share.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use crate::agent::{Connection, News, TaskId};
use crate::node_plan::NodePlan;

/// State of the agent, as far as it is known here.
pub(super) struct State {
    pub connection: Connection,
    pub since: Instant,
    pub running: BTreeSet<TaskId>,
    pub answers: BTreeMap<TaskId, Vec<String>>,
    /// Until when somebody waits for answers.
    pub eager: Instant,
    pub news: Vec<News>,
    /// Nodes that it has prepared, each with the known map of its counter: for an agent that takes over.
    pub prepared: Vec<(NodePlan, Option<String>)>,
}

impl State {
    /// Takes in how the pipe stands, from now on.
    pub fn set(&mut self, connection: Connection) {
        self.connection = connection;
        self.since = Instant::now();
    }
}
