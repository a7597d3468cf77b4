//! The cost of measuring to the target, as lines for people and as JSON.

use serde::Serialize;
use tickscope_store::{Compared, Cost, NodeCost, Overhead, StampCost};
use tickscope_tick::counted;

use crate::overhead::{Added, added};

const NS_A_SECOND: f64 = 1e9;

/// One line a node, one for all, and one for each number that the target reports of itself.
pub fn lines(cost: &Cost) -> Vec<String> {
    let mut lines: Vec<String> = cost.nodes.iter().map(node_line).collect();
    if let Some(stamp) = cost.stamp {
        let ns = |ps: u64| format!("{:.1}", ps as f64 / 1000.0);
        lines.push(format!(
            "cost: a stamp here takes {} ns plain, {} before, {} after, in a tight loop: between other work it is more; in all {} stamps, {:.0} a second",
            ns(stamp.plain_ps),
            ns(stamp.before_ps),
            ns(stamp.after_ps),
            stamps(cost),
            stamps_a_second(cost),
        ));
    }
    lines.extend(cost.overhead.iter().flat_map(overhead_lines));
    lines
}

fn node_line(node: &NodeCost) -> String {
    let seconds = |ns: Option<u64>| ns.map_or("unknown".into(), |ns| format!("{:.2} s", ns as f64 / NS_A_SECOND));
    let share = share(node).map_or("an unknown share".into(), |share| format!("about {:.3} %", share * 100.0));
    let memory = node.shared_memory_bytes;
    format!(
        "cost on {}: {}, {:.0} a second, {share} of its command's {} of processor time; beside it: collector {}, probe {}, \
         watch {}; shared memory {}",
        node.node,
        counted(node.stamps, "stamp"),
        rate(node),
        seconds(node.target_cpu_ns),
        seconds(node.collector_cpu_ns),
        node.probe_cpu_ns.map_or("none".into(), |ns| seconds(Some(ns))),
        seconds(node.monitor_cpu_ns),
        memory.map_or("unknown".into(), |bytes| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))),
    )
}

fn overhead_lines(overhead: &Overhead) -> Vec<String> {
    overhead.fields.iter().map(|compared| overhead_line(compared, overhead.pass_seconds)).collect()
}

fn overhead_line(compared: &Compared, pass_seconds: f64) -> String {
    let (name, unit, scale) = unit_of(&compared.field);
    let (node, pairs) = (&compared.node, compared.pairs.len());
    let Some(Added { median, lo, hi, confidence, alone }) = added(compared) else {
        return format!("overhead: {pairs} pairs of passes are too few for what measuring added to {name} of {node}");
    };
    let shown = |value: f64| format!("{:.2}", value / scale);
    // An interval of chance is shown outward too.
    let outward = |value: f64, to: fn(f64) -> f64| format!("{:.2}", to(value / (scale / 100.0)) / 100.0);
    format!(
        "overhead: measuring added {} [{}, {}]{unit} to {name} of {node}, which is {}{unit} alone ({:.0} %, {pairs} pairs of \
         passes of {pass_seconds} s){}",
        shown(median),
        outward(lo, f64::floor),
        outward(hi, f64::ceil),
        shown(alone),
        // Rounded down: it is "at least".
        (confidence * 100.0).floor(),
        if lo <= 0.0 && hi >= 0.0 { "; whether it added anything is not resolved" } else { "" },
    )
}

/// A field's name without its unit, the unit shown, and how many of the field's make one of those.
fn unit_of(field: &str) -> (&str, &'static str, f64) {
    field.strip_suffix("_ns").map_or((field, "", 1.0), |name| (name, " us", 1000.0))
}

/// Cost as public JSON: the counts as they are, and what follows from them.
#[derive(Debug, Serialize)]
pub(crate) struct CostJson<'a> {
    /// What a stamp costs in each ordering, picoseconds; `null`: not measured.
    stamp_ps: Option<StampJson>,
    /// Stamps of all nodes.
    stamps: u64,
    /// Stamps a second of all nodes.
    stamps_a_second: f64,
    /// The cost of each node.
    nodes: Vec<NodeJson<'a>>,
    /// How numbers of the programs changed by measuring (`run --overhead`); `null`: not asked.
    overhead: Option<OverheadJson<'a>>,
}

#[derive(Debug, Serialize)]
struct StampJson {
    /// Plain.
    plain: u64,
    /// Before all that follows.
    before: u64,
    /// After all that came before.
    after: u64,
}

#[derive(Debug, Serialize)]
struct NodeJson<'a> {
    #[serde(flatten)]
    counted: &'a NodeCost,
    /// Stamps a second.
    stamps_a_second: f64,
    /// Share of a core that its stamps took.
    stamping_share: Option<f64>,
}

#[derive(Debug, Serialize)]
struct OverheadJson<'a> {
    /// Seconds of a pass.
    pass_seconds: f64,
    /// Numbers that programs printed.
    fields: Vec<ComparedJson<'a>>,
}

#[derive(Debug, Serialize)]
struct ComparedJson<'a> {
    /// The node.
    node: &'a str,
    /// The number's name.
    field: &'a str,
    /// Pairs of passes.
    pairs: usize,
    /// What measuring added.
    added: Option<AddedJson>,
    /// The number without measuring.
    alone: Option<f64>,
    /// Each pair: with and without.
    passes: Vec<[f64; 2]>,
}

#[derive(Debug, Serialize)]
struct AddedJson {
    /// At the median of the pairs.
    median: f64,
    /// It is no less.
    lo: f64,
    /// It is no more.
    hi: f64,
    /// The true median lies from `lo` to `hi` with at least this probability.
    confidence: f64,
}

impl<'a> CostJson<'a> {
    pub(crate) fn of(cost: &'a Cost) -> Self {
        let stamp =
            |stamp: StampCost| StampJson { plain: stamp.plain_ps, before: stamp.before_ps, after: stamp.after_ps };
        let node = |node| NodeJson { counted: node, stamps_a_second: rate(node), stamping_share: share(node) };
        let overhead = |overhead: &'a Overhead| OverheadJson {
            pass_seconds: overhead.pass_seconds,
            fields: overhead.fields.iter().map(ComparedJson::of).collect(),
        };
        Self {
            stamp_ps: cost.stamp.map(stamp),
            stamps: stamps(cost),
            stamps_a_second: stamps_a_second(cost),
            nodes: cost.nodes.iter().map(node).collect(),
            overhead: cost.overhead.as_ref().map(overhead),
        }
    }
}

impl<'a> ComparedJson<'a> {
    fn of(compared: &'a Compared) -> Self {
        let added = added(compared);
        Self {
            node: compared.node.as_str(),
            field: &compared.field,
            pairs: compared.pairs.len(),
            alone: added.map(|added| added.alone),
            added: added.map(|Added { median, lo, hi, confidence, .. }| AddedJson { median, lo, hi, confidence }),
            passes: compared.pairs.iter().map(|pair| [pair.measured, pair.alone]).collect(),
        }
    }
}

fn stamps(cost: &Cost) -> u64 {
    cost.nodes.iter().map(|node| node.stamps).sum()
}

fn stamps_a_second(cost: &Cost) -> f64 {
    cost.nodes.iter().map(rate).sum()
}

fn rate(node: &NodeCost) -> f64 {
    if node.ran_ns == 0 { 0.0 } else { node.stamps as f64 / (node.ran_ns as f64 / NS_A_SECOND) }
}

/// The stamps' share of the command's processor time; `None`: one of them is unknown.
fn share(node: &NodeCost) -> Option<f64> {
    let (stamping, cpu) = (node.stamping_ns?, node.target_cpu_ns.filter(|&ns| ns > 0)?);
    Some(stamping as f64 / cpu as f64)
}
