//! Counters of a run's nodes: what the run says of each, and whether its own stamps and brackets agree.
//!
//! Ticks of two domains that differ in boot, counter or epoch are not comparable. So all stamps of a node's counter
//! must be of the boot that `run.json` names and of one epoch; and where two nodes are taken to share a counter
//! because their boot ids are equal, the run's own brackets must not contradict it. Deliberately absent: any bound.

use std::collections::BTreeMap;

use tickscope_bracket::Bracket;
use tickscope_store::{Channel, Manifest, Node, Pair, Run, SameBoot};
use tickscope_tick::{Clock, Domain, Place};

use crate::assumption::Assumption;
use crate::error::Error;
use crate::evidence::core_ticks;

/// Refuses channels of `places` (node, point) whose stamps are of another boot than their node, or of two epochs.
pub(crate) fn expect_one_domain_each<'a>(
    run: &Run,
    places: impl IntoIterator<Item = &'a Place>,
    channels: &[Channel],
) -> Result<(), Error> {
    let mut found: BTreeMap<(String, Clock), Domain> = BTreeMap::new();
    // Nodes of one boot are taken to read one counter, unless the run says that they are strangers.
    let shared = run.manifest().same_boot == SameBoot::Detect;
    for place in places {
        let node = place.node.as_str();
        let Some(of_node) = run.manifest().nodes.iter().find(|known| known.name.as_str() == node) else { continue };
        for channel in channels.iter().filter(|channel| channel.is_at(place)) {
            let file = run.paths().channels(node);
            let named = |why: &dyn std::fmt::Display| format!("{}: channel {}: {why}", file.display(), channel.channel);
            let domain = channel.domain().map_err(|why| Error::work(named(&why)))?;
            let declared = Domain { boot: of_node.boot, ..domain };
            let of = if shared { of_node.boot.to_string() } else { node.into() };
            let first = *found.entry((of, domain.counter)).or_insert(declared);
            if domain != first {
                return Err(Error::finding(named(&format!(
                    "expected stamps of {place} in the domain {first}, as run.json and other channels of that counter \
                     have it, found {domain}. Ticks of two boots or epochs are not comparable: make a run of each, or \
                     leave the point out of the layout"
                ))));
            }
        }
    }
    Ok(())
}

/// The assumption that two nodes read one counter, once all evidence between them was held against it:
/// `brackets`, of `checked` exchanges and messages.
pub(crate) fn one_counter<'a>(
    manifest: &Manifest,
    pair: &Pair,
    nodes: [&Node; 2],
    brackets: impl Iterator<Item = &'a Bracket>,
    checked: usize,
) -> Result<Assumption, Error> {
    // Two cores of one host may differ by as much as their check leaves open; the brackets may hold that already.
    let left_open = |node: &&Node| node.counter.sharing.bound_ticks.filter(|_| core_ticks(manifest, node) == 0);
    let apart = nodes.iter().filter_map(left_open).max().unwrap_or(0);
    let (mut contradicting, mut worst) = (0u64, None);
    for bracket in brackets {
        let by = outside(bracket).saturating_sub(apart);
        contradicting += u64::from(by > 0);
        if worst.map_or(0, |(most, _)| most) < by {
            worst = Some((by, bracket));
        }
    }
    let Pair { reference, domain } = pair;
    let boot = nodes[1].boot;
    if let Some((by, bracket)) = worst {
        return Err(Error::finding(format!(
            "expected {domain} and {reference} to be one counter, since both nodes have the boot id {boot}, found \
             {contradicting} of {checked} brackets between them that contradict it, by up to {by} ticks: {bracket}. Machines \
             that were resumed from one snapshot have one boot id: set same_boot = \"ignore\", in run.json for this run"
        )));
    }
    Ok(Assumption::OneCounter { domain: domain.clone(), reference: reference.clone(), brackets: checked })
}

/// How many ticks a counter that both domains share lies outside a bracket.
fn outside(bracket: &Bracket) -> u64 {
    let late = bracket.before.map_or(0, |before| i128::from(before.get()) - i128::from(bracket.at.get()));
    let early = bracket.after.map_or(0, |after| i128::from(bracket.at.get()) - i128::from(after.get()));
    u64::try_from(late.max(early).max(0)).unwrap_or(u64::MAX)
}

/// Findings about counters that the run itself says are unfit to measure with.
pub(crate) fn unfit<'a>(nodes: impl Iterator<Item = &'a Node>) -> Vec<String> {
    let unfit = nodes.filter(|node| !node.counter.invariant);
    unfit
        .map(|node| {
            format!(
                "{}: expected a counter that runs at one rate in every power state, found one that does not (run.json: \
                 invariant is false), so no bound holds. Measure on a processor with an invariant counter",
                node.domain()
            )
        })
        .collect()
}

/// Assumptions that unusual counters need: trapped ones, and those that their kernel does not keep time by.
pub(crate) fn unusual(manifest: &Manifest) -> Vec<Assumption> {
    let mut all = Vec::new();
    for node in &manifest.nodes {
        let (domain, facts) = (node.domain(), &node.counter);
        if facts.trapped {
            all.push(Assumption::Trapped { domain: domain.clone() });
        }
        if !kernel_keeps_time_by(facts.counter, &facts.clocksource) {
            let (node, source) = (node.name.to_string(), facts.clocksource.clone());
            all.push(Assumption::ForeignClockSource { domain, node, source });
        }
    }
    all
}

fn kernel_keeps_time_by(counter: Clock, clocksource: &str) -> bool {
    match counter {
        Clock::Cntvct => clocksource == "arch_sys_counter",
        _ => clocksource == counter.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_counter_lies_outside_a_bracket_by_the_ticks_to_its_nearer_end() {
        let by = |before, at, after| outside(&Bracket::new(before, at, after));
        assert_eq!([by(Some(5), 5, Some(5)), by(Some(4), 5, None), by(None, 5, Some(9)), by(None, 5, None)], [0; 4]);
        assert_eq!([by(Some(8), 5, Some(9)), by(Some(1), 5, Some(3)), by(None, 5, Some(4))], [3, 2, 1]);
        assert_eq!(by(Some(i64::MAX), i64::MIN, None), u64::MAX, "the ends of 64 bits");
    }

    #[test]
    fn a_kernel_keeps_time_by_the_counter_that_it_names() {
        assert!(kernel_keeps_time_by(Clock::Tsc, "tsc") && kernel_keeps_time_by(Clock::Cntvct, "arch_sys_counter"));
        assert!(!kernel_keeps_time_by(Clock::Tsc, "hpet") && !kernel_keeps_time_by(Clock::Tsc, "kvm-clock"));
    }
}
