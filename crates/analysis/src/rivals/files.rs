//! What a run's files hold for comparisons: exchanges, and what programs said.
//!
//! Guarantees: a pair is compared with the same exchanges, whoever asks. Deliberately absent: the comparing.

use serde::Serialize;
use tickscope_bracket::ClockMap;
use tickscope_store::{Node, RivalSample, Run};

use super::{
    Bursts, Comparing, NodeRivals, RivalBound, RivalMethod, RivalWidth, Sample, asked_by_either, exchanges, pair_of,
};
use crate::counters::reference_node;
use crate::error::Error;
use crate::truth::Truth;

/// What a run's files hold for comparisons.
pub(crate) struct RivalFiles<'a> {
    run: &'a Run,
    reference: &'a Node,
    truth: Option<Truth>,
    /// What programs said of the reference.
    of_reference: Vec<RivalSample>,
    /// Files that could not be read.
    pub(crate) unread: Vec<tickscope_store::Error>,
}

impl<'a> RivalFiles<'a> {
    pub(crate) fn of(run: &'a Run) -> Result<Self, Error> {
        let (reference, truth) = (reference_node(run.manifest())?, Truth::of(run.manifest()));
        let mut files = Self { run, reference, truth, of_reference: Vec::new(), unread: Vec::new() };
        files.of_reference = files.samples(reference)?;
        Ok(files)
    }

    fn samples(&mut self, node: &Node) -> Result<Vec<RivalSample>, Error> {
        let listing = self.run.rivals(node.name.as_str())?;
        self.unread.extend(listing.refused);
        Ok(listing.found.samples().collect())
    }

    /// A node against the reference, programs that were asked included.
    pub(crate) fn against_reference(&mut self, node: &Node, map: &ClockMap) -> Result<Option<NodeRivals>, Error> {
        let (samples, nodes) = (self.samples(node)?, [node, self.reference]);
        let all = exchanges(&self.run.brackets(&pair_of(nodes))?.found); // what was refused is told elsewhere
        Ok(self.comparing(nodes, map).all(&all, Bursts::of(&all), samples, &self.of_reference))
    }

    /// A node against another that is not the reference.
    pub(crate) fn between(&self, nodes: [&Node; 2], map: &ClockMap) -> Result<Option<NodeRivals>, Error> {
        let (all, bursts) = asked_by_either(self.run, nodes)?;
        Ok(self.comparing(nodes, map).all(&all, bursts, Vec::new(), &[]))
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
