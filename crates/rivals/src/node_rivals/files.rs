//! What a run's files hold for comparisons: exchanges, and what programs said.
//!
//! Guarantees: a pair is compared with the same exchanges, whoever asks. Deliberately absent: the comparing.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use tickscope_analysis::{Error, Truth, reference_node};
use tickscope_bracket::ClockMap;
use tickscope_store::{Node, RivalSample, Run};

use super::published::AgainstReference;
use super::{
    Bursts, Comparing, NodeRivals, RivalBound, RivalMethod, RivalWidth, Sample, TwoPoint, asked_by_either, exchanges,
    pair_of,
};

/// What a run's files hold for comparisons.
pub(crate) struct RivalFiles<'a> {
    run: &'a Run,
    reference: &'a Node,
    truth: Option<Truth>,
    /// What programs said of the reference.
    of_reference: Vec<RivalSample>,
    /// What programs said of each node that was asked about, by its name.
    said: BTreeMap<String, Vec<RivalSample>>,
    /// The two exchanges of each node with the reference that Min-RTT chooses, by the node's name.
    points: BTreeMap<String, Option<TwoPoint>>,
    /// Files that could not be read.
    pub(crate) unread: Vec<tickscope_store::Error>,
}

impl<'a> RivalFiles<'a> {
    pub(crate) fn of(run: &'a Run) -> Result<Self, Error> {
        let (reference, truth) = (reference_node(run.manifest())?, Truth::of(run.manifest()));
        let mut files = Self {
            run,
            reference,
            truth,
            of_reference: Vec::new(),
            said: BTreeMap::new(),
            points: BTreeMap::new(),
            unread: Vec::new(),
        };
        files.of_reference = files.samples(reference)?;
        Ok(files)
    }

    fn samples(&mut self, node: &Node) -> Result<Vec<RivalSample>, Error> {
        if let Some(known) = self.said.get(node.name.as_str()) {
            return Ok(known.clone());
        }
        let listing = self.run.rivals(node.name.as_str())?;
        self.unread.extend(listing.refused);
        let samples: Vec<RivalSample> = listing.found.samples().collect();
        self.said.insert(node.name.to_string(), samples.clone());
        Ok(samples)
    }

    /// A node against the reference, programs that were asked included.
    pub(crate) fn against_reference(&mut self, node: &Node, map: &ClockMap) -> Result<Option<NodeRivals>, Error> {
        let (samples, nodes) = (self.samples(node)?, [node, self.reference]);
        let all = exchanges(&self.run.brackets(&pair_of(nodes))?.found); // what was refused is told elsewhere
        let bursts = Bursts::of(&all);
        let points = bursts.as_ref().and_then(TwoPoint::of);
        self.points.insert(node.name.to_string(), points);
        let comparing = self.comparing(nodes, map);
        let found = comparing.all(&all, bursts, samples, &self.of_reference);
        let published = points.map(|points| comparing.of_reference(&points));
        Ok(found.map(|found| NodeRivals { published, ..found }))
    }

    /// A node against another that is not the reference; `to_reference`: the maps of both.
    pub(crate) fn between(
        &mut self,
        nodes: [&Node; 2],
        map: &ClockMap,
        to_reference: [Option<&ClockMap>; 2],
    ) -> Result<Option<NodeRivals>, Error> {
        let (all, bursts) = asked_by_either(self.run, nodes)?;
        let points = [self.points_of(nodes[0])?, self.points_of(nodes[1])?];
        let own = bursts.as_ref().and_then(TwoPoint::of);
        // Each says how far its clock is from one and the same; of one alone nothing follows for the two.
        let [mut of_both, of_other] = [self.samples(nodes[0])?, self.samples(nodes[1])?];
        let key = |sample: &RivalSample| (sample.program.clone(), sample.variant.clone());
        let known: BTreeSet<_> = of_other.iter().map(key).collect();
        of_both.retain(|sample| known.contains(&key(sample)));
        let comparing = self.comparing(nodes, map);
        let found = comparing.all(&all, bursts, of_both, &of_other);
        let end = |at: usize| Some(AgainstReference { node: nodes[at], points: points[at]?, map: to_reference[at]? });
        let ends = end(0).zip(end(1)).map(|(node, from)| [node, from]);
        let published = own.zip(ends).map(|(own, ends)| comparing.of_others(&own, ends, self.reference));
        Ok(found.map(|found| NodeRivals { published, ..found }))
    }

    /// The two exchanges of a node with the reference.
    fn points_of(&mut self, node: &Node) -> Result<Option<TwoPoint>, Error> {
        if let Some(known) = self.points.get(node.name.as_str()) {
            return Ok(*known);
        }
        let points = asked_by_either(self.run, [node, self.reference])?.1.as_ref().and_then(TwoPoint::of);
        self.points.insert(node.name.to_string(), points);
        Ok(points)
    }

    /// How well a map knows a node's counter at some of its ticks, each with the time that it stands for, ns.
    pub(crate) fn known(&self, nodes: [&Node; 2], map: &ClockMap, at: &[(i64, i64)]) -> Option<KnownBound> {
        let comparing = self.comparing(nodes, map);
        let sample = |&(at, at_ns): &(i64, i64)| Some(Sample { at_ns, ..comparing.ours(at, at)? });
        let samples = at.iter().filter_map(sample).collect();
        let RivalMethod { half_width, error_ns, outside, curve, .. } =
            RivalMethod::of(String::new(), RivalBound::Guaranteed, samples);
        Some(KnownBound { half_width: half_width?, error_ns, outside, curve })
    }

    fn comparing<'b>(&'b self, nodes: [&'b Node; 2], map: &'b ClockMap) -> Comparing<'b> {
        Comparing { manifest: self.run.manifest(), nodes, map, truth: self.truth.as_ref() }
    }
}

/// How well one counter is known by another over a run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct KnownBound {
    /// Half the interval's width.
    pub half_width: RivalWidth,
    /// How far the estimate was off at the median and at most, ns; `None`: the truth is not known.
    pub error_ns: Option<[i64; 2]>,
    /// Instants at which the truth lies outside of the interval; `None`: not known.
    pub outside: Option<usize>,
    /// Time since the run's first exchange and half-width, ns.
    pub curve: Vec<[i64; 2]>,
}
