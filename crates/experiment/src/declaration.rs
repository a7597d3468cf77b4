//! The manifest of a run before it is measured: nodes, rho, assumptions; and the points that were stamped, afterwards.

use tickscope_bracket::RhoOrigin;
use tickscope_store::{Assumption, Manifest, Node, Point, Rho, Run};
use tickscope_tick::{Clock, Label, NodeName, PointName};

use tickscope_analysis::CORES_PROVED;

use crate::Error;
use crate::plan::{Cores, Plan};

/// The manifest of run number `run` of a plan, whose nodes are as their agents describe them.
pub(crate) fn manifest(plan: &Plan, run: u64, nodes: Vec<Node>, network: &str) -> Manifest {
    let label = |node: &Node| Label { node: node.name.clone(), clock: node.counter.counter }.to_string();
    let reference = label(&nodes[plan.reference_at()]);
    let others = nodes.iter().filter(|node| node.name != plan.clock.reference);
    let rho = others.map(|node| Rho {
        reference: reference.clone(),
        domain: label(node),
        ppb: plan.clock.rho.ppb().into(),
        origin: rho_origin(plan.clock.rho),
    });
    Manifest {
        schema: tickscope_store::SCHEMA,
        run,
        tickscope: env!("CARGO_PKG_VERSION").into(),
        started_unix_ms: crate::unix_ms(),
        ended_unix_ms: None,
        rho: rho.collect(),
        reference: reference.clone(),
        nodes,
        evidence: plan.evidence.clone(),
        same_boot: plan.clock.same_boot,
        points: Vec::new(),
        policies: plan.policies.clone(),
        layout: plan.layout.clone(),
        assumptions: assumptions(plan, network),
        cost: None,
    }
}

/// The preset's name, or the number: what the run's rho can be read from again.
fn rho_origin(rho: tickscope_bracket::Rho) -> String {
    match rho.origin() {
        RhoOrigin::Default => "default".into(),
        RhoOrigin::Preset(name) => name.into(),
        RhoOrigin::Number => rho.key(),
    }
}

fn assumptions(plan: &Plan, network: &str) -> Vec<Assumption> {
    let assume = |statement: &str, origin: &str| Assumption { statement: statement.into(), origin: origin.into() };
    let mut all = vec![
        assume(&format!("the nodes are {network}"), "the run file"),
        assume(
            "peers are honest, the path may be hostile: no datagram is authenticated yet",
            "the probe's protocol, version 1",
        ),
        assume("no live migration and no suspend during the run", "not observable from inside every guest"),
    ];
    if plan.clock.cores == Cores::Prove {
        all.push(assume(
            "stages carry what the check of the cores leaves open, those between nodes that of both",
            CORES_PROVED,
        ));
    }
    all
}

/// The points that were stamped, by the run's channels.
pub(crate) fn points(run: &Run) -> Result<Vec<Point>, Error> {
    let mut points: Vec<Point> = Vec::new();
    for channel in run.channels()?.found {
        let (node, name) = (NodeName::new(channel.node), PointName::new(channel.point));
        let (Ok(node), Ok(name), Ok(ordering)) = (node, name, channel.ordering.parse()) else { continue };
        if !points.iter().any(|known| known.node == node && known.name == name) {
            let counter = channel.domain.split('/').nth(1).map(String::from);
            let counter = counter.filter(|name| name != Clock::STAMPED.name());
            points.push(Point { node, name, ordering, counter, resolution_ticks: None });
        }
    }
    Ok(points)
}
