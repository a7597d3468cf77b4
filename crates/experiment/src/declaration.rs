//! The manifest of a run before it is measured: nodes, rho, assumptions; and the points that were stamped, afterwards.

use tickscope_bracket::RhoOrigin;
use tickscope_store::{Assumption, AssumptionKind, DumpRule, Manifest, Node, Point, RhoDeclaration, RhoKind, Run};
use tickscope_tick::{Clock, NodeName};

use crate::Error;
use crate::plan::{Cores, DumpPlan, Plan};
use crate::revision::revision;
use crate::window::Keep;

/// The manifest of run number `run` of a plan, whose nodes are as their agents describe them.
pub(crate) fn manifest(plan: &Plan, run: u64, nodes: Vec<Node>, network: &str) -> Manifest {
    let reference = nodes[plan.reference_at()].domain();
    let mut manifest = Manifest {
        schema: tickscope_store::SCHEMA,
        run,
        tickscope: env!("CARGO_PKG_VERSION").into(),
        started_unix_ms: crate::unix_ms(),
        stamp_directories: std::collections::BTreeMap::new(),
        sessions: std::collections::BTreeMap::new(),
        run_file: plan.origin.text.clone(),
        run_file_directory: plan.origin.text.is_some().then(|| plan.origin.folder.clone()),
        revision: revision(&plan.origin.folder),
        ended_unix_ms: None,
        rho: Vec::new(),
        reference,
        nodes,
        evidence: plan.evidence.clone(),
        same_boot: plan.clock.same_boot,
        points: Vec::new(),
        policies: plan.policies.clone(),
        dumps: plan.dumps.iter().map(dump_rule).collect(),
        limits: plan.limits.rules(),
        layout: plan.layout.clone(),
        assumptions: assumptions(plan, network),
        seconds: Some(plan.run.seconds),
        began: crate::since_boot(),
        keep_ms: plan.run.keep.map(Keep::ms),
        storage: None,
        segments: plan.segments,
        cost: None,
    };
    manifest.rho = rho_of_pairs(plan, &manifest);
    manifest
}

fn dump_rule(DumpPlan { from, to, above }: &DumpPlan) -> DumpRule {
    DumpRule { from: from.clone(), to: to.clone(), above_ns: *above }
}

/// The rho of every node against the reference, and of every other pair of nodes that do not share a counter.
fn rho_of_pairs(plan: &Plan, manifest: &Manifest) -> Vec<RhoDeclaration> {
    let nodes = &manifest.nodes;
    let of = |reference: &Node, domain: &Node| {
        let rho = plan.clock.rho_of(&reference.name, &domain.name);
        let ((kind, origin), ppb) = (rho_origin(rho), rho.ppb().into());
        RhoDeclaration { reference: reference.domain(), domain: domain.domain(), ppb, origin, kind: Some(kind) }
    };
    let reference = &nodes[plan.reference_at()];
    let others = || nodes.iter().filter(|node| node.name != reference.name);
    let apart = |one: &Node, other: &Node| !tickscope_analysis::shares_counter(manifest, one, other);
    let pairs = others().enumerate().flat_map(|(at, one)| others().skip(at + 1).map(move |other| (one, other)));
    let pairs = pairs.filter(|(one, other)| apart(one, other));
    others().map(|node| of(reference, node)).chain(pairs.map(|(one, other)| of(one, other))).collect()
}

/// Where the rho came from, and in words: the preset's name, or the number.
fn rho_origin(rho: tickscope_bracket::Rho) -> (RhoKind, String) {
    match rho.origin() {
        RhoOrigin::Default => (RhoKind::Default, "default".into()),
        RhoOrigin::Preset(name) => (RhoKind::Preset, name.into()),
        RhoOrigin::Number | RhoOrigin::Follows => (RhoKind::Declared, rho.key()),
    }
}

fn assumptions(plan: &Plan, network: &str) -> Vec<Assumption> {
    let assume = |kind, statement: &str, origin: &str| {
        let (statement, origin) = (statement.into(), origin.into());
        Assumption { statement, origin, kind: Some(kind) }
    };
    let mut all = vec![
        assume(AssumptionKind::Network, &format!("the nodes are {network}"), "the run file"),
        assume(
            AssumptionKind::Peers,
            "nobody but the run's own nodes has the keys of their probes: every datagram carries a code under the key \
             of its two nodes, so a network can delay and lose them, which widens a bound, but not forge or replay \
             them. Messages that are evidence have no such code: their path is taken to be authentic",
            "the probe's protocol, version 2",
        ),
        assume(
            AssumptionKind::NeverMoved,
            "no live migration and no suspend during the run",
            "not observable from inside every guest",
        ),
    ];
    if plan.clock.cores == Cores::Prove {
        all.push(Assumption::cores_proved());
    }
    if plan.noise.is_some() {
        let statement = "of [noise]: the kernel tells every interrupt, softirq and page fault of a program, which \
                         nothing counts; it counts a switch and stamps it at most 50 000 ticks apart. Switches are \
                         compared with its count, and what is not compared is not known";
        all.push(Assumption { statement: statement.into(), origin: "not observable".into(), kind: None });
    }
    if !plan.evidence.common_host.is_empty() {
        let names: Vec<&str> = plan.evidence.common_host.iter().map(NodeName::as_str).collect();
        let statement = format!(
            "{} are guests of one host, whose CLOCK_REALTIME nobody sets back during the run",
            names.join(", ")
        );
        all.push(Assumption { statement, origin: "evidence.common_host of the run file".into(), kind: None });
    }
    all
}

/// The points that were stamped, by the run's channels.
pub(crate) fn points(run: &Run) -> Result<Vec<Point>, Error> {
    let mut points: Vec<Point> = Vec::new();
    for channel in run.channels()?.found {
        let Ok(ordering) = channel.ordering.parse() else { continue };
        if !points.iter().any(|known| known.node == channel.node && known.name == channel.point) {
            let counter = channel.domain().ok().map(|domain| domain.counter).filter(|&clock| clock != Clock::STAMPED);
            let (node, name) = (channel.node, channel.point);
            points.push(Point { node, name, ordering, counter, resolution_ticks: None });
        }
    }
    Ok(points)
}
