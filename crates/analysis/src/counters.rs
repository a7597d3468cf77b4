//! The counters of a run: nodes that read one counter stand together, and what one of them says holds of all.

use tickscope_bracket::{Ratio, Rho};
use tickscope_store::{Manifest, Node, Pair, SameBoot};

use crate::declared_rho::{declared_for, is_default};
use crate::error::Error;
use crate::query::Query;

/// The counters, the reference first, each with the nodes that read it in the manifest's order.
pub(crate) struct Counters<'a>(Vec<Vec<&'a Node>>);

impl<'a> Counters<'a> {
    pub(crate) fn of(manifest: &'a Manifest) -> Result<Self, Error> {
        let reference = reference_node(manifest)?;
        let mut counters = vec![vec![reference]];
        for node in manifest.nodes.iter().filter(|node| node.name != reference.name) {
            match counters.iter_mut().find(|nodes| shares_counter(manifest, node, nodes[0])) {
                Some(nodes) => {
                    expect_one_frequency(nodes[0], node)?;
                    nodes.push(node);
                }
                None => counters.push(vec![node]),
            }
        }
        Ok(Self(counters))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The nodes that read a counter; never none.
    pub(crate) fn nodes(&self, counter: usize) -> &[&'a Node] {
        &self.0[counter]
    }

    /// The node by which a counter is named.
    pub(crate) fn name(&self, counter: usize) -> &'a Node {
        self.0[counter][0]
    }

    /// Two counters by their names.
    pub(crate) fn pair(&self, local: usize, reference: usize) -> Pair {
        Pair { reference: self.name(reference).domain(), domain: self.name(local).domain() }
    }

    /// Ticks of one counter that pass in one of another, as their frequencies declare it.
    pub(crate) fn nominal(&self, local: usize, reference: usize) -> Result<Ratio, Error> {
        let [local, reference] = [local, reference].map(|counter| self.name(counter).counter.frequency.hertz);
        Ratio::new(reference, local).map_err(Error::work)
    }

    /// The rho that the query asks for or the run declares for two counters, the largest where it declares several;
    /// `None`: neither does.
    pub(crate) fn declared_rho(
        &self,
        manifest: &Manifest,
        query: &Query,
        (local, reference): (usize, usize),
    ) -> Result<Option<Rho>, Error> {
        if query.rho.is_some() {
            return Ok(query.rho);
        }
        let mut most: Option<Rho> = None;
        for domain in self.nodes(local) {
            for against in self.nodes(reference) {
                let pair = Pair { reference: against.domain(), domain: domain.domain() };
                let Some((rho, _)) = declared_for(manifest, &pair)?.filter(|(rho, _)| !is_default(*rho)) else {
                    continue;
                };
                most = Some(most.filter(|most| most.ppb() >= rho.ppb()).unwrap_or(rho));
            }
        }
        Ok(most)
    }
}

/// Refuses two nodes of one counter that declare frequencies further apart than either says that it may be off.
fn expect_one_frequency(known: &Node, node: &Node) -> Result<(), Error> {
    let [first, second] = [known, node].map(|node| &node.counter.frequency);
    let tolerance = u128::from(first.tolerance_ppm) + u128::from(second.tolerance_ppm);
    let apart = u128::from(first.hertz.abs_diff(second.hertz)) * 1_000_000;
    if apart <= tolerance * u128::from(first.hertz.max(second.hertz)) {
        return Ok(());
    }
    Err(Error::finding(format!(
        "expected one frequency of the counter that {} and {} read, since both have the boot id {}, found {} Hz and {} \
         Hz, further apart than the {tolerance} ppm that they declare. Restore run.json as it was; if these are two \
         machines, set same_boot = \"ignore\" there",
        known.name, node.name, node.boot, first.hertz, second.hertz
    )))
}

pub(crate) fn reference_node(manifest: &Manifest) -> Result<&Node, Error> {
    let found = manifest.nodes.iter().find(|node| node.domain() == manifest.reference);
    found.ok_or_else(|| {
        Error::work(format!(
            "run.json: expected a node with the domain {}, found none. Restore it as it was written",
            manifest.reference
        ))
    })
}

/// Returns whether two nodes are taken to read one counter.
pub fn shares_counter(manifest: &Manifest, node: &Node, reference: &Node) -> bool {
    let one_counter = node.boot == reference.boot && node.counter.counter == reference.counter.counter;
    manifest.same_boot == SameBoot::Detect && one_counter && node.injected.is_none() && reference.injected.is_none()
}
