//! Everything that a run's figures rest on, as sentences, each with where it comes from.
//!
//! A bound is a promise under these; a figure that rests on something unsaid promises more than anybody can keep. What
//! holds of several nodes or points alike is one sentence that names them. Deliberately absent: whether they are true. Where
//! the run itself contradicts one, that is a finding.

use std::collections::BTreeMap;

use tickscope_bracket::Epochs;
use tickscope_store::{Assumption, Manifest, Node, ReadingWidth};
use tickscope_tick::Ordering;

use crate::analysis::CORES_PROVED;
use crate::{Analysis, domain_of, domains};

/// A statement, and its origin.
type Said = (String, String);

/// Every assumption behind the figures, with its origin.
pub fn assumptions(manifest: &Manifest, analysis: &Analysis) -> Vec<(String, String)> {
    let mut all = rates(manifest, analysis);
    all.extend(auxiliary_clocks(analysis));
    all.extend(readings(manifest, analysis));
    all.extend(orderings(manifest, analysis));
    all.extend(analysis.passages.assumptions());
    let told = analysis.one_counter.iter().chain(&analysis.sent_once);
    all.extend(told.map(|Assumption { statement, origin }| (statement.clone(), origin.clone())));
    all.extend(counters(manifest));
    all.extend(domains::unusual(manifest));
    all.extend(cores(manifest));
    let counted = "quantiles are of the traces that have a duration; missing and refused ones may be the slow ones, and are \
                   counted";
    all.push((counted.into(), "how quantiles are made".into()));
    all.push(seconds(manifest, analysis));
    all.extend(manifest.assumptions.iter().map(|assumption| (assumption.statement.clone(), assumption.origin.clone())));
    all
}

/// Rho and prior of every pair of counters.
fn rates(manifest: &Manifest, analysis: &Analysis) -> Vec<Said> {
    let of_pair = analysis.clock_maps.iter().flat_map(|clock_map| {
        let pair = format!("the rate of {} against {}", clock_map.domain, manifest.reference);
        let prior = format!("{pair} lies within {} ppm of what their frequencies declare", clock_map.prior_ppm);
        [
            (format!("{pair} stays within rho of one value"), format!("rho {}", clock_map.rho)),
            (prior, prior_origin(clock_map.rests_on_prior)),
        ]
    });
    of_pair.collect()
}

fn prior_origin(carries: bool) -> String {
    if carries {
        "default prior; it carries a slope here, since the evidence is too short to bound the rate closer".into()
    } else {
        "default prior; the evidence bounds the rate closer".into()
    }
}

/// Slew, prior and stamps of the clocks other than the counters.
fn auxiliary_clocks(analysis: &Analysis) -> Vec<Said> {
    let mut all = Vec::new();
    for clock in &analysis.auxiliary_clocks {
        let (domain, counter, slew) = (&clock.domain, &clock.counter, f64::from(clock.slew.ppb()) / 1000.0);
        let statement = format!("{domain} runs within {slew} ppm of one rate against {counter}, between breaks");
        all.push((statement, clock.slew_origin.clone()));
        let prior = Epochs::KERNEL_PRIOR_PPM;
        let statement =
            format!("that rate of {domain} lies within {prior} ppm of what the frequency of {counter} declares");
        all.push((statement, prior_origin(clock.rests_on_prior)));
    }
    if !analysis.auxiliary_clocks.is_empty() {
        let statement = "the kernel's stamps and clock_gettime read one clock; a kernel stamp of sending precedes the packet \
                         (its driver takes it before it hands the packet on), one of receiving follows it; the kernel tells \
                         within 10 ms that a clock was set";
        all.push((statement.into(), "the kernel's interface".into()));
    }
    all
}

/// How wide the readings of every counter and clock are.
fn readings(manifest: &Manifest, analysis: &Analysis) -> Vec<Said> {
    let own = |node: &Node| {
        let prefix = format!("{}.", node.name);
        let used = analysis.auxiliary_clocks.iter().filter_map(|clock| clock.domain.strip_prefix(&prefix));
        used.map(|name| (format!("{prefix}{name}"), node.clocks.get(name).cloned())).collect::<Vec<_>>()
    };
    let of_node = |node: &Node| [vec![(domain_of(node), node.counter.reading.clone())], own(node)].concat();
    let all = manifest.nodes.iter().flat_map(of_node).map(|(domain, width)| (domain, width_said(width)));
    let coarse = manifest.points.iter().filter_map(|point| {
        let ticks = point.resolution_ticks?;
        let place = format!("{}.{}", point.node, point.name);
        Some((
            place,
            (
                format!("readings in its log may be off by {ticks} ticks of its clock either way"),
                "as the log gives them".into(),
            ),
        ))
    });
    together(all.chain(coarse))
}

fn width_said(width: Option<ReadingWidth>) -> Said {
    match width {
        Some(ReadingWidth { width_ticks, seen }) => {
            let statement = format!("a reading leaves {width_ticks} ticks open ({seen})");
            (statement, "measured; steps are taken to be regular where a reading takes longer than one".into())
        }
        None => ("moves by single ticks".into(), "assumed: the run did not measure it".into()),
    }
}

/// Which side of the program's acts the stamps are on.
fn orderings(manifest: &Manifest, analysis: &Analysis) -> Vec<Said> {
    let of_layout = |name: &String| analysis.rows.iter().any(|row| row.from == *name || row.to == *name);
    let points = manifest.points.iter().map(|point| (format!("{}.{}", point.node, point.name), point.ordering));
    let (plain, ordered): (Vec<_>, Vec<_>) =
        points.filter(|(name, _)| of_layout(name)).partition(|&(_, ordering)| ordering == Ordering::Plain);
    let mut all = Vec::new();
    if !ordered.is_empty() {
        let statement = "stamps stand on the side of the call that their point's ordering says";
        all.push((statement.into(), "the programs' authors".into()));
    }
    if !plain.is_empty() {
        let names: Vec<String> = plain.into_iter().map(|(name, _)| name).collect();
        let statement = format!(
            "stages from or to {} are from reading to reading: a plain stamp may be read earlier or later than its line of code",
            names.join(", ")
        );
        all.push((statement, "the points' orderings".into()));
    }
    all
}

/// Rate and fence of every counter: both make it fit to measure with.
fn counters(manifest: &Manifest) -> Vec<Said> {
    let fence = |node: &Node| {
        let origin = match node.counter.fence_serialises {
            Some(true) => "the processor says so",
            Some(false) => "the processor says that it does not",
            None => "assumed: the processor does not say; Linux sets it so on AMD",
        };
        ("the fence of ordered stamps waits for what precedes it".into(), origin.into())
    };
    let rate = |node: &Node| {
        let origin =
            if node.counter.invariant { "the kernel or the processor says so" } else { "NOT: see the finding" };
        ("runs at one rate in every power state".into(), origin.into())
    };
    let all = manifest.nodes.iter().flat_map(|node| [(domain_of(node), rate(node)), (domain_of(node), fence(node))]);
    together(all)
}

/// How far the cores of a node are known to read one counter, and where that is part of a figure.
fn cores(manifest: &Manifest) -> Vec<Said> {
    let checked = manifest.nodes.iter().map(|node| {
        let statement = format!("cores read one counter: {}", node.counter.sharing.checked);
        (node.name.to_string(), (statement, "checked at the start".into()))
    });
    let mut all = together(checked);
    if !manifest.assumptions.iter().any(|assumption| assumption.origin == CORES_PROVED) {
        let statement = "what that check leaves open is in no figure";
        all.push((statement.into(), "default; cores = \"prove\" in the run file adds it".into()));
    }
    all
}

/// How fast the reference is taken to run.
fn seconds(manifest: &Manifest, analysis: &Analysis) -> Said {
    let reference = manifest.nodes.iter().find(|node| domain_of(node) == manifest.reference);
    let origin = reference.map_or(String::new(), |node| node.counter.frequency.origin.clone());
    let statement = format!(
        "seconds: {} runs at {} Hz ±{} ppm, an error common to all figures",
        manifest.reference, analysis.frequency.hertz, analysis.frequency.tolerance_ppm
    );
    (statement, format!("declared: {origin}"))
}

/// One sentence for all of whom the same is said, in the order in which it is first said.
fn together(all: impl Iterator<Item = (String, Said)>) -> Vec<Said> {
    let mut order: Vec<Said> = Vec::new();
    let mut of: BTreeMap<Said, Vec<String>> = BTreeMap::new();
    for (who, said) in all {
        let named = of.entry(said.clone()).or_default();
        if named.is_empty() {
            order.push(said);
        }
        named.push(who);
    }
    order.into_iter().map(|said| (format!("{}: {}", of[&said].join(", "), said.0), said.1)).collect()
}
