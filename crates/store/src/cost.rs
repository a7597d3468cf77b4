//! The cost of measuring to the target: counted by the run itself, kept in `run.json`.
//!
//! Processor times are the kernel's accounts of ended processes. Absent wherever a process could not be accounted for.

use serde::{Deserialize, Serialize};
use tickscope_tick::Ordering;

use tickscope_tick::NodeName;

/// The cost of one run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Cost {
    /// One stamp on this host; absent if it could not be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamp: Option<StampCost>,
    /// The cost of each node.
    #[serde(default)]
    pub nodes: Vec<NodeCost>,
    /// The target with and without being measured, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overhead: Option<Overhead>,
}

/// One stamp in a tight loop, the reading of the counter included, picoseconds: between other work it costs more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StampCost {
    /// Ordered against nothing.
    pub plain_ps: u64,
    /// Before what follows.
    pub before_ps: u64,
    /// After what went before.
    pub after_ps: u64,
}

/// The cost of one node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeCost {
    /// Its name.
    pub node: NodeName,
    /// How long its command ran, ns.
    pub ran_ns: u64,
    /// Stamps that its command took, those that found no block included.
    pub stamps: u64,
    /// Their part of the command's processor time, estimated: each at its [`StampCost`], ns.
    #[serde(default)]
    pub stamping_ns: Option<u64>,
    /// Processor time of the command, stamping included, ns.
    #[serde(default, alias = "subject_cpu_ns")]
    pub target_cpu_ns: Option<u64>,
    /// Processor time of the collector, ns.
    #[serde(default)]
    pub collector_cpu_ns: Option<u64>,
    /// Processor time of the probe's side here, ns.
    #[serde(default)]
    pub probe_cpu_ns: Option<u64>,
    /// Processor time of the clock monitor, ns.
    #[serde(default, alias = "watch_cpu_ns")]
    pub monitor_cpu_ns: Option<u64>,
    /// Shared memory of all pools there, the command's and the clock monitor's, the most at one time.
    #[serde(default)]
    pub shared_memory_bytes: Option<u64>,
}

/// Numbers that the target reports about itself, from pairs of passes: one with measuring, one without.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Overhead {
    /// How long a pass was.
    pub pass_seconds: f64,
    /// By node and field of its command's last line.
    pub fields: Vec<Compared>,
}

/// One number of one command's last line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Compared {
    /// Whose command.
    pub node: NodeName,
    /// Name in its last line.
    pub field: String,
    /// In the order of the passes; every second pair began with the pass that was not measured.
    pub pairs: Vec<Passes>,
}

/// The same number from two passes, one right after the other.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Passes {
    /// The number with measuring on: stamps, collector, probes, clock monitor.
    pub measured: f64,
    /// The number with measuring off: every point is off.
    pub alone: f64,
}

impl StampCost {
    /// Cost at a point with this ordering.
    pub fn of(&self, ordering: Ordering) -> u64 {
        match ordering {
            Ordering::Plain => self.plain_ps,
            Ordering::Before => self.before_ps,
            Ordering::After => self.after_ps,
        }
    }
}

impl NodeCost {
    /// The account of a node that has spent nothing.
    pub fn none(node: NodeName) -> Self {
        Self {
            node,
            ran_ns: 0,
            stamps: 0,
            stamping_ns: None,
            target_cpu_ns: None,
            collector_cpu_ns: None,
            probe_cpu_ns: None,
            monitor_cpu_ns: None,
            shared_memory_bytes: None,
        }
    }
}
