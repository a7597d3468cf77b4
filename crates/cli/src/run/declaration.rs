//! What a run declares of itself before it is measured: nodes, known maps, rho, assumptions.

use super::*;

/// Known maps before nodes' `CLOCK_REALTIME`; their times count from now.
pub(super) fn realtime_injections(experiment: &Experiment) -> Result<BTreeMap<String, RealtimeInjection>, Failure> {
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
    let injected = experiment.nodes.iter().filter_map(|node| Some((node, node.inject_realtime.as_ref()?)));
    injected
        .map(|(node, inject)| {
            let map = inject.starting_at(now_ns).map_err(|e| Failure::input(format!("node '{}': {e}", node.name)))?;
            Ok((node.name.to_string(), map))
        })
        .collect()
}

pub(super) fn injection(node: &Node) -> Option<Injection> {
    let Inject { offset, drift_ppb, wander_ppb, wander_period, .. } = node.inject?;
    let stairs = node.inject?.stairs().ok()?; // the run file was checked
    Some(Injection {
        anchor: tickscope_counter::read(Ordering::Plain),
        offset,
        drift_ppb,
        wander_ppb,
        wander_period,
        stairs,
    })
}

pub(super) fn manifest(
    experiment: &Experiment,
    host: &Host,
    run: u64,
    (injections, realtime): (&BTreeMap<String, Injection>, &BTreeMap<String, RealtimeInjection>),
    network: &Network,
    root: &Path,
) -> Result<Manifest, Failure> {
    let nodes = experiment.nodes.iter().map(|node| {
        let name = node.name.as_str();
        let maps = KnownMaps { counter: injections.get(name), realtime: realtime.get(name) };
        host.node(node.name.clone(), experiment.fill(node, &network.addresses, &whole(root))?, maps)
    });
    let label = |node: &tickscope_tick::NodeName| format!("{node}.{}", host.facts.counter);
    let others = experiment.nodes.iter().filter(|node| node.name != experiment.reference);
    let rho = others.map(|node| Rho {
        reference: label(&experiment.reference),
        domain: label(&node.name),
        ppb: experiment.rho.ppb().into(),
        origin: rho_origin(experiment.rho),
    });
    let policy =
        |(glob, policy): &(String, Policy)| PolicyRule { channels: glob.clone(), policy: policy.name().into() };
    Ok(Manifest {
        schema: tickscope_store::SCHEMA,
        run,
        tickscope: env!("CARGO_PKG_VERSION").into(),
        started_unix_ms: unix_ms(),
        ended_unix_ms: None,
        nodes: nodes.collect::<Result<_, Failure>>()?,
        reference: label(&experiment.reference),
        rho: rho.collect(),
        evidence: experiment.evidence.clone(),
        same_boot: experiment.same_boot,
        points: Vec::new(),
        policies: experiment.policies.iter().map(policy).collect(),
        layout: experiment.layout.clone(),
        assumptions: assumptions(experiment, network),
        cost: None,
    })
}

/// The preset's name, or the number: what the run's rho can be read from again.
pub(super) fn rho_origin(rho: tickscope_bracket::Rho) -> String {
    use tickscope_bracket::RhoOrigin;
    match rho.origin() {
        RhoOrigin::Default => "default".into(),
        RhoOrigin::Preset(name) => name.into(),
        RhoOrigin::Number => rho.key(),
    }
}

pub(super) fn assumptions(experiment: &Experiment, network: &Network) -> Vec<Assumption> {
    let assume = |statement: &str, origin: &str| Assumption { statement: statement.into(), origin: origin.into() };
    let mut all = vec![
        assume(&format!("the nodes are {}", network.describe()), "the run file"),
        assume(
            "peers are honest, the path may be hostile: no datagram is authenticated yet",
            "the probe's protocol, version 1",
        ),
        assume("no live migration and no suspend during the run", "not observable from inside every guest"),
    ];
    if experiment.cores == Cores::Prove {
        all.push(assume(
            "stages carry what the check of the cores leaves open, those between nodes that of both",
            CORES_PROVED,
        ));
    }
    all
}

/// The points that were stamped, as the channels tell.
pub(super) fn points(run: &Run) -> Result<Vec<tickscope_store::Point>, Failure> {
    let mut points: Vec<tickscope_store::Point> = Vec::new();
    for channel in run.channels()?.found {
        let (node, name) = (NodeName::new(channel.node), PointName::new(channel.point));
        let (Ok(node), Ok(name), Ok(ordering)) = (node, name, channel.ordering.parse()) else { continue };
        if !points.iter().any(|known| known.node == node && known.name == name) {
            let counter = channel.domain.split('/').nth(1).map(String::from);
            let counter = counter.filter(|name| name != Clock::STAMPED.name());
            points.push(tickscope_store::Point { node, name, ordering, counter, resolution_ticks: None });
        }
    }
    Ok(points)
}
