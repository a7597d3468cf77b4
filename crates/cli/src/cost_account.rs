//! What a run spends on measuring, as its own processes end.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use tickscope_store::{Cost, NodeCost, Overhead, Run, StampCost};
use tickscope_tick::{NodeName, Ordering};

use crate::failure::Failure;
use crate::process::Ended;

/// The accounts of a run that goes on.
#[derive(Debug, Default)]
pub struct Spending {
    nodes: BTreeMap<String, NodeCost>,
    /// Processes beside the targets: their stamps are none of a target's.
    beside: HashSet<u32>,
}

/// A process beside the target.
#[derive(Clone, Copy, Debug)]
pub enum Beside {
    Collector,
    Probe,
    ClockMonitor,
}

/// What is read of a collector's report.
#[derive(Deserialize)]
struct Collected {
    pool_bytes: u64,
}

impl Spending {
    /// Nothing spent on these nodes yet.
    pub fn of<'a>(nodes: impl Iterator<Item = &'a NodeName>) -> Self {
        Self { nodes: nodes.map(|node| (node.to_string(), NodeCost::none(node.clone()))).collect(), ..Self::default() }
    }

    /// The node's command ended.
    pub fn target(&mut self, node: &NodeName, ended: &Ended) {
        let Some(cost) = self.nodes.get_mut(node.as_str()) else { return };
        cost.ran_ns = ended.ran.as_nanos() as u64;
        cost.target_cpu_ns = ended.cpu_ns;
    }

    /// A process beside it ended; several of one kind add up.
    pub fn beside(&mut self, node: &str, kind: Beside, ended: &Ended) {
        self.beside.insert(ended.pid);
        let Some(cost) = self.nodes.get_mut(node) else { return };
        let total = match kind {
            Beside::Collector => &mut cost.collector_cpu_ns,
            Beside::Probe => &mut cost.probe_cpu_ns,
            Beside::ClockMonitor => &mut cost.monitor_cpu_ns,
        };
        *total = ended.cpu_ns.map(|ns| ns + total.unwrap_or(0)).or(*total);
        if let (Beside::Collector, Some(line)) = (kind, &ended.last) {
            // A killed collector reports nothing: its memory stays unknown.
            cost.shared_memory_bytes = serde_json::from_str(line).ok().map(|Collected { pool_bytes }| pool_bytes);
        }
    }

    /// The accounts, with the stamps that the run's channels tell of.
    pub fn close(self, run: &Run, stamp: Option<StampCost>, overhead: Option<Overhead>) -> Result<Cost, Failure> {
        let Self { mut nodes, beside } = self;
        let mut channels = run.channels()?.found;
        channels.retain(|channel| !beside.contains(&channel.pid.unsigned_abs()));
        for cost in nodes.values_mut() {
            let mut stamping_ps = 0_u64;
            for channel in channels.iter().filter(|channel| channel.node == cost.node.as_str()) {
                // Stamps that found no block took the counter's reading, too.
                let stamps = channel.stored.unsigned_abs() + channel.dropped.unsigned_abs();
                let ordering = channel.ordering.parse().unwrap_or(Ordering::After); // a later version's: the dearest
                cost.stamps += stamps;
                stamping_ps += stamps.saturating_mul(stamp.map_or(0, |stamp| stamp.of(ordering)));
            }
            cost.stamping_ns = stamp.map(|_| stamping_ps / 1000);
        }
        Ok(Cost { stamp, nodes: nodes.into_values().collect(), overhead })
    }
}
