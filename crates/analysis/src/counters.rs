//! The counters of a run: nodes that read one counter stand together, and what one of them says holds of all.

use tickscope_bracket::{Model, Ratio, Rho};
use tickscope_store::{DeclaredFrequency, Manifest, Node, Pair, SameBoot};
use tickscope_tick::{Label, Local, Tick};

use crate::declared_rho::{declared_for, is_default};
use crate::error::Error;
use crate::query::Query;

/// The rate between two counters, as their frequencies declare it.
#[derive(Clone, Copy)]
pub(crate) struct DeclaredRate {
    /// Ticks of the reference that pass in one of the other.
    nominal: Ratio,
    /// How far the rate may lie from that: the default, or what the two tolerances allow where that is more.
    pub prior_ppm: u32,
}

impl DeclaredRate {
    pub(crate) fn of(local: &DeclaredFrequency, reference: &DeclaredFrequency) -> Result<Self, Error> {
        const MILLION: u64 = 1_000_000;
        let nominal = Ratio::new(reference.hertz, local.hertz).map_err(Error::work)?;
        // (1 + one)/(1 - other) - 1: the reference as fast as it may be, the other as slow.
        let both = (u64::from(local.tolerance_ppm) + u64::from(reference.tolerance_ppm)) * MILLION;
        let rest = MILLION.saturating_sub(local.tolerance_ppm.into()).max(1);
        let allowed = u32::try_from(both.div_ceil(rest)).unwrap_or(u32::MAX);
        Ok(Self { nominal, prior_ppm: allowed.max(Model::DEFAULT_PRIOR_PPM) })
    }

    /// The same ratio, with that prior.
    pub(crate) fn with_prior(self, prior_ppm: u32) -> Self {
        Self { prior_ppm, ..self }
    }

    pub(crate) fn model(self, rho: Rho, anchor: Tick<Local>) -> Model {
        Model { prior_ppm: self.prior_ppm, ..Model::new(rho, self.nominal, anchor) }
    }
}

/// The counters, the reference first, each with the nodes that read it in the manifest's order.
#[derive(Clone, Debug)]
pub struct Counters<'a>(Vec<Vec<&'a Node>>);

impl<'a> Counters<'a> {
    /// Those of a run.
    pub fn of(manifest: &'a Manifest) -> Result<Self, Error> {
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

    /// How many there are; never none.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The nodes that read a counter; never none.
    pub fn nodes(&self, counter: usize) -> &[&'a Node] {
        &self.0[counter]
    }

    /// The node by which a counter is named.
    pub fn name(&self, counter: usize) -> &'a Node {
        self.0[counter][0]
    }

    /// Two counters by their names.
    pub(crate) fn pair(&self, local: usize, reference: usize) -> Pair {
        Pair { reference: self.name(reference).domain(), domain: self.name(local).domain() }
    }

    /// How fast one counter runs against another, as their frequencies declare it.
    pub(crate) fn rate(&self, local: usize, reference: usize) -> Result<DeclaredRate, Error> {
        let [local, reference] = [local, reference].map(|counter| &self.name(counter).counter.frequency);
        DeclaredRate::of(local, reference)
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

    /// The rho of a counter that nothing relates to the reference: `rho`, or the largest that somebody declared for it
    /// against any other, where that is more. It may wander no less against this one.
    pub(crate) fn rho_alone(&self, manifest: &Manifest, counter: usize, rho: Rho) -> Result<Rho, Error> {
        let is_of = |label: &Label| self.nodes(counter).iter().any(|node| node.domain() == *label);
        let mut most = rho;
        for one in manifest.rho.iter().filter(|one| is_of(&one.domain) || is_of(&one.reference)) {
            let pair = Pair { reference: one.reference.clone(), domain: one.domain.clone() };
            let declared = declared_for(manifest, &pair)?.map(|(rho, _)| rho);
            most = declared.filter(|rho| rho.ppb() > most.ppb()).unwrap_or(most);
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

/// The node whose counter is the run's reference.
pub fn reference_node(manifest: &Manifest) -> Result<&Node, Error> {
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
