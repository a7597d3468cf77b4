//! One node of a run while it goes on: its processes, and what they cost.

use std::collections::HashSet;
use std::time::Instant;

use serde::Deserialize;
use tickscope_store::{Channel, NodeCost, StampCost};
use tickscope_tick::{NodeName, Ordering, printable};

use crate::Error;
use crate::agent::{Ended, PreparedNode, TaskId};
use crate::plan::NodePlan;
use crate::roles::Role;

/// All that belongs to one node.
#[derive(Debug)]
pub(crate) struct NodeRun {
    pub name: NodeName,
    /// Position of the agent that it lives with.
    pub agent: usize,
    pub address: String,
    /// The run's directory, as commands there have it.
    pub run: String,
    /// Directory of its stamps there, until they are collected.
    pub stamps: String,
    helpers: [Option<Helper>; HelperKind::ALL.len()],
    pub target: Option<TaskId>,
    /// The last line that the target printed.
    pub last_line: Option<String>,
    pub stamp_cost: Option<StampCost>,
    cost: NodeCost,
    /// PIDs of tickscope's own processes; their stamps are not charged to the target.
    own: HashSet<u32>,
    /// Whether its collector failed, so that stamps lie where it stamps.
    pub uncollected: bool,
}

/// A process of tickscope that a node has while the run goes on.
#[derive(Clone, Debug)]
pub(crate) struct Helper {
    pub role: Role,
    /// Position of the node that it runs on.
    pub at: usize,
    /// `None`: it died, and is to be started again.
    pub task: Option<TaskId>,
    /// How often it died or could not be started.
    pub failures: u32,
    /// When it may be started again.
    pub due: Instant,
}

impl Helper {
    /// One that runs already.
    pub fn running(role: Role, at: usize, task: TaskId) -> Self {
        Self { role, at, task: Some(task), failures: 0, due: Instant::now() }
    }
}

/// The processes of tickscope that a node has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HelperKind {
    Collector,
    Monitor,
    Probe,
    /// The clock that rivals follow; only on the reference.
    RivalServer,
    /// The rivals that are asked about the node's clock.
    RivalClient,
}

impl HelperKind {
    pub const ALL: [Self; 5] = [Self::Collector, Self::Monitor, Self::Probe, Self::RivalServer, Self::RivalClient];

    pub fn service(self) -> Service {
        match self {
            Self::Collector => Service::Collector,
            Self::Monitor => Service::ClockMonitor,
            Self::Probe => Service::Probe,
            Self::RivalServer | Self::RivalClient => Service::Rival,
        }
    }
}

/// The part of a run that a process of tickscope serves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Service {
    Collector,
    Probe,
    ClockMonitor,
    /// No cost of measuring: it is asked for only to be compared with.
    Rival,
}

/// Field of a collector's report.
#[derive(Deserialize)]
struct Collected {
    pool_bytes: u64,
}

impl NodeRun {
    pub fn new(name: NodeName, agent: usize, prepared: &PreparedNode) -> Self {
        Self {
            cost: NodeCost::none(name.clone()),
            name,
            agent,
            address: prepared.address.clone(),
            run: prepared.run.clone(),
            stamps: prepared.stamps.clone(),
            helpers: Default::default(),
            target: None,
            last_line: None,
            stamp_cost: None,
            own: HashSet::new(),
            uncollected: false,
        }
    }

    /// The same of a node of the run file, whose word of the address is the one that counts. An agent's is put into
    /// other nodes' commands, so it may be nothing but an address.
    pub fn of_plan(plan: &NodePlan, agent: usize, prepared: &PreparedNode) -> Result<Self, Error> {
        let node = Self::new(plan.name.clone(), agent, prepared);
        match (&plan.address, prepared.address.parse::<std::net::IpAddr>()) {
            (Some(address), _) => Ok(Self { address: address.clone(), ..node }),
            (None, Ok(address)) => Ok(Self { address: address.to_string(), ..node }),
            (None, Err(_)) => Err(Error::work(format!(
                "node {}: expected an address of its machine, found '{}'. Give it one in the run file: address = \
                 \"10.0.0.2\" for example",
                plan.name,
                printable(&prepared.address)
            ))),
        }
    }

    pub fn helper(&mut self, kind: HelperKind) -> &mut Option<Helper> {
        &mut self.helpers[kind as usize]
    }

    /// Charges the node's target.
    pub fn charge_target(&mut self, ended: &Ended) {
        self.cost.ran_ns = ended.ran_ns;
        self.cost.target_cpu_ns = ended.cpu_ns;
    }

    /// Charges a process of tickscope; several of one kind add up.
    pub fn charge(&mut self, service: Service, ended: &Ended) {
        self.own.insert(ended.pid);
        let total = match service {
            Service::Collector => &mut self.cost.collector_cpu_ns,
            Service::Probe => &mut self.cost.probe_cpu_ns,
            Service::ClockMonitor => &mut self.cost.monitor_cpu_ns,
            Service::Rival => return,
        };
        *total = ended.cpu_ns.map(|ns| ns + total.unwrap_or(0)).or(*total);
    }

    /// Keeps how much shared memory the node's collector saw. One that was killed saw only a part, and so did the one
    /// that followed it: then the amount stays unknown.
    pub fn keep_memory(&mut self, collector: &Ended) {
        self.cost.shared_memory_bytes = collector.report().ok().map(|Collected { pool_bytes }| pool_bytes);
    }

    /// The node's account, with the stamps that the run's channels count.
    pub fn cost(&self, channels: &[Channel]) -> NodeCost {
        let (mut stamps, mut stamping_ps) = (0, 0_u64);
        let of_target =
            |channel: &&Channel| channel.node == self.name.as_str() && !self.own.contains(&channel.pid.unsigned_abs());
        for channel in channels.iter().filter(of_target) {
            // Stamps that found no block took the counter's reading, too.
            let taken = channel.ever_stored().unsigned_abs() + channel.dropped.unsigned_abs();
            let ordering = channel.ordering.parse().unwrap_or(Ordering::After); // a later version's: the dearest
            stamps += taken;
            stamping_ps += taken.saturating_mul(self.stamp_cost.map_or(0, |cost| cost.of(ordering)));
        }
        NodeCost { stamps, stamping_ns: self.stamp_cost.map(|_| stamping_ps / 1000), ..self.cost.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    #[test]
    fn what_a_node_elsewhere_says_is_its_address_is_one_and_the_run_files_word_is_taken_first() {
        let plan = |address: &str| {
            let node = format!("[[node]]\nname = \"n\"\nends_run = true\ncommand = [\"true\"]\n{address}\n");
            Plan::parse(&format!("run = {{ name = \"t\", seconds = 1 }}\nclock.reference = \"n\"\n{node}")).unwrap()
        };
        let of = |address: &str, said: &str| {
            let facts = crate::host::Host::look().unwrap().node("n".parse().unwrap(), Default::default()).unwrap();
            let prepared = PreparedNode { address: said.into(), run: "/r".into(), stamps: "/s".into(), facts };
            NodeRun::of_plan(&plan(address).nodes[0], 0, &prepared).map(|node| node.address)
        };
        assert_eq!(of("", "10.0.0.2").unwrap(), "10.0.0.2");
        assert_eq!(of("address = \"host2\"", "10.0.0.2; touch /tmp/x").unwrap(), "host2");
        for said in ["127.0.0.1;touch /tmp/x;#", "host2", "", "$(id)", "10.0.0.2 -x"] {
            let refused = of("", said).unwrap_err().to_string();
            assert!(refused.contains("expected an address of its machine") && refused.contains(said), "{refused}");
        }
    }
}
