//! One node of a run while it goes on: its processes, and what they cost.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use serde::Deserialize;
use tickscope_store::{Channel, Node, NodeCost, ReadingWidth, StampCost};
use tickscope_tick::{NodeName, Ordering, printable};

use crate::Error;
use crate::agent::{Ended, PreparedNode, TaskId};
use crate::host::STAMPED_CLOCKS;
use crate::node_plan::NodePlan;
use crate::node_role::{Helper, HelperKind, Service};

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
        expect_facts(plan, &prepared.facts)?;
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
            // Stamps that were lost took the counter's reading, too.
            let taken = channel.ever_stored().unsigned_abs() + channel.ever_lost().unsigned_abs();
            let ordering = channel.ordering.parse().unwrap_or(Ordering::After); // a later version's: the dearest
            stamps += taken;
            stamping_ps += taken.saturating_mul(self.stamp_cost.map_or(0, |cost| cost.of(ordering)));
        }
        NodeCost { stamps, stamping_ns: self.stamp_cost.map(|_| stamping_ps / 1000), ..self.cost.clone() }
    }
}

/// Rates of counters that machines have, Hz: from a timer of a small board to well above any processor's.
const COUNTER_HERTZ: RangeInclusive<u64> = 100_000..=100_000_000_000;

/// Refuses a description that no machine gives: one such node would deny the table of all.
fn expect_facts(plan: &NodePlan, facts: &Node) -> Result<(), Error> {
    let wrong = |expected: &str, found: &str| {
        let name = &plan.name;
        Err(Error::work(format!(
            "node {name}: expected {expected}, found {}. Its agent describes a machine that does not exist: take the \
             node out of the run file, or see what answers there as tickscope",
            printable(found)
        )))
    };
    let hertz = facts.counter.frequency.hertz;
    if facts.name != plan.name {
        return wrong("its own name in its description", facts.name.as_str());
    }
    if !COUNTER_HERTZ.contains(&hertz) {
        return wrong("a counter of 100 kHz to 100 GHz", &format!("one of {hertz} Hz"));
    }
    if facts.counter.frequency.tolerance_ppm > MOST_TOLERANCE_PPM {
        let found = format!("{} ppm", facts.counter.frequency.tolerance_ppm);
        return wrong("a rate known to a part in ten", &found);
    }
    if facts.counter.reading.as_ref().is_some_and(|reading| !is_readable(reading, hertz)) {
        return wrong("a counter that moves once a second at least", "one that moves more seldom");
    }
    if let Some((clock, _)) = facts
        .clocks
        .iter()
        .find(|(clock, width)| !STAMPED_CLOCKS.contains(&clock.as_str()) || !is_readable(width, 1_000_000_000))
    {
        return wrong("clocks of the kernel that move once a second at least", clock);
    }
    Ok(())
}

/// How far off a declared rate may be said to be, parts per million.
const MOST_TOLERANCE_PPM: u32 = 100_000;

/// Whether a clock of that rate moves once a second at least.
pub(crate) fn is_readable(reading: &ReadingWidth, hertz: u64) -> bool {
    (1..=hertz).contains(&reading.width_ticks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    #[test]
    fn a_description_that_no_machine_gives_is_refused_and_names_the_node() {
        let text = "run = { name = \"t\", seconds = 1 }\nclock.reference = \"n\"\n[[node]]\nname = \"n\"\n\
                    ends_run = true\ncommand = [\"true\"]\n";
        let plan = Plan::parse(text).unwrap();
        let good = crate::host::Host::look().unwrap().node("n".parse().unwrap(), Default::default()).unwrap();
        let said = |change: &dyn Fn(&mut Node)| {
            let mut facts = good.clone();
            change(&mut facts);
            expect_facts(&plan.nodes[0], &facts).map_err(|why| why.to_string())
        };
        assert_eq!(said(&|_| {}), Ok(()));
        for hertz in [100_000, 1_000_000, 24_000_000, 5_000_000_000, 100_000_000_000] {
            assert_eq!(said(&|facts| facts.counter.frequency.hertz = hertz), Ok(()));
        }
        for hertz in [0, 1, 99_999, 100_000_000_001, 1 << 63, u64::MAX] {
            let why = said(&|facts| facts.counter.frequency.hertz = hertz).unwrap_err();
            assert!(why.starts_with("node n: expected a counter of") && why.contains(&format!("{hertz} Hz")), "{why}");
        }
        let width = |width_ticks| ReadingWidth { width_ticks, seen: String::new() };
        for wrong in [
            &(|facts: &mut Node| facts.name = "m".parse().unwrap()) as &dyn Fn(&mut Node),
            &|facts| facts.counter.frequency.tolerance_ppm = u32::MAX,
            &|facts| facts.counter.reading = Some(width(u64::MAX)),
            &|facts| facts.counter.reading = Some(width(0)),
            &|facts| drop(facts.clocks.insert("realtime".into(), width(1 << 62))),
            &|facts| drop(facts.clocks.insert("../x".into(), width(1))),
        ] {
            let why = said(wrong).unwrap_err();
            assert!(why.starts_with("node n: expected ") && why.contains("take the node out"), "{why}");
        }
    }

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
