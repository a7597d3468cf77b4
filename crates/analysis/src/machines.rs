//! The counters of a run's machines, and what all evidence says of any two of them, whatever was stamped.
//!
//! Idea: every pair's evidence, closed over all ways ([`crate::closure`]), for whoever asks for clocks rather than for
//! durations. Guarantees: nothing that one pair lacks or contradicts takes another pair's map away. Deliberately
//! absent: what is told of a pair.

use tickscope_bracket::{Bracket, ClockMap, Rho};
use tickscope_store::Run;
use tickscope_tick::{Label, Tick};

use crate::assumption::Assumption;
use crate::clock_maps::Gathered;
use crate::closure::{LeftPair, Web};
use crate::count_only::some_count;
use crate::counters::Counters;
use crate::error::Error;
use crate::evidence::{AllEvidence, Evidence};
use crate::inference::programs_points;
use crate::query::Query;

/// All counters of a run, by their positions, and the maps between any two. Of a pair the domain comes first.
pub struct Machines<'a> {
    run: &'a Run,
    query: &'a Query,
    counters: Counters<'a>,
    evidence: AllEvidence,
    web: Web,
    left: Vec<LeftPair>,
    refused: Vec<tickscope_store::Error>,
}

/// Returns whether a run has nothing but its machines' clocks: no layout asks for more, no command was run that could
/// have stamped, and nothing was stamped or counted.
pub fn only_related(run: &Run) -> Result<bool, Error> {
    let manifest = run.manifest();
    let bare = manifest.layout.is_empty() && manifest.nodes.iter().all(|node| node.command.is_empty());
    // A collection of one node has nothing to relate: it is for stamps.
    let has_clocks = manifest.run_file.is_some() || manifest.nodes.len() > 1;
    Ok(bare && has_clocks && programs_points(run)?.is_empty() && !some_count(run)?)
}

impl<'a> Machines<'a> {
    /// Reads the evidence of all pairs; `counters`: those of the run.
    pub fn of(run: &'a Run, counters: Counters<'a>, query: &'a Query) -> Result<Self, Error> {
        let Gathered { evidence, refused, .. } = Gathered::of(run, &counters, None, query)?;
        let (web, left) = Web::of_all(run.manifest(), &counters, &evidence, query)?;
        Ok(Self { run, query, counters, evidence, web, left, refused })
    }

    /// The counters, the reference first.
    pub fn counters(&self) -> &Counters<'a> {
        &self.counters
    }

    /// Every pair.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        self.evidence.pairs().map(|(pair, _)| pair)
    }

    /// Pieces of evidence between the two: two an exchange.
    pub fn pieces(&self, pair: (usize, usize)) -> usize {
        self.between(pair).iter().map(|source| source.pieces).sum()
    }

    /// The pair's own brackets.
    pub fn brackets(&self, pair: (usize, usize)) -> impl Iterator<Item = &Bracket> {
        self.between(pair).iter().flat_map(|source| source.brackets.iter())
    }

    /// The first and the last tick of the domain that the pair has evidence of.
    pub fn ends(&self, pair: (usize, usize)) -> Option<(i64, i64)> {
        let at = || self.brackets(pair).map(|bracket| bracket.at.get());
        at().min().zip(at().max())
    }

    /// Whether packets of the reference arrived, and packets of the domain.
    pub fn sides(&self, pair: (usize, usize)) -> [bool; 2] {
        self.evidence.sides(pair)
    }

    /// The clock map by all evidence.
    pub fn map(&self, pair: (usize, usize)) -> Option<&ClockMap> {
        self.web.map(pair)
    }

    /// The clock map of a counter to the reference by all evidence.
    pub fn to_reference(&self, counter: usize) -> Option<&ClockMap> {
        self.web.map((counter, 0))
    }

    /// The clock map of a pair's own evidence; `None`: it does not bound both sides, or contradicts itself.
    pub fn direct(&self, pair: (usize, usize)) -> Result<Option<ClockMap>, Error> {
        let rate = self.counters.rate(pair.0, pair.1)?;
        let Some((first, last)) = self.ends(pair) else { return Ok(None) };
        let brackets: Vec<Bracket> = self.brackets(pair).copied().collect();
        Ok(ClockMap::new(&brackets, &rate.model(self.rho(pair)?, Tick::new(first.midpoint(last)))).ok())
    }

    /// Under which rho a pair stands.
    pub fn rho(&self, pair: (usize, usize)) -> Result<Rho, Error> {
        let declared = self.counters.declared_rho(self.run.manifest(), self.query, pair)?.unwrap_or_default();
        Ok(self.web.summary(pair).map_or(declared, |summary| summary.rho))
    }

    /// The ways that narrowed it, those that narrowed it most often first.
    pub fn ways(&self, pair: (usize, usize)) -> Vec<Vec<Label>> {
        self.web.summary(pair).map(|summary| summary.ways.clone()).unwrap_or_default()
    }

    /// Why a pair's evidence is left out; `None`: it is not.
    pub fn left_out(&self, pair: (usize, usize)) -> Option<&str> {
        self.left.iter().find(|left| left.pair == pair).map(|left| left.reason.as_str())
    }

    /// What contradicts something, each once.
    pub fn findings(&self) -> Vec<String> {
        let mut findings: Vec<String> = self.left.iter().map(|left| left.reason.clone()).collect();
        findings.dedup();
        findings
    }

    /// What the maps rest on.
    pub fn assumptions(&self) -> Result<Vec<Assumption>, Error> {
        let manifest = self.run.manifest();
        let one_counter = self.evidence.one_counters(manifest, &self.counters, None)?;
        Ok(Assumption::of_machines(manifest, &self.web.summaries, one_counter))
    }

    /// Files of evidence that could not be read.
    pub fn into_refused(self) -> Vec<tickscope_store::Error> {
        self.refused
    }

    fn between(&self, (local, reference): (usize, usize)) -> &[Evidence] {
        self.evidence.between(local, reference)
    }
}
