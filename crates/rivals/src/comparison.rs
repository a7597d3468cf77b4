//! A run's analysis with what other methods say of the same clocks, in one scan of its traces.
//!
//! Idea: the exchanges and the programs that were asked are compared before the scan; return trips are a sink of it.
//! Guarantees: the analysis is the one that nobody compared. Deliberately absent: what a method says.

use tickscope_analysis::figures::Figures;
use tickscope_analysis::{
    Analysis, Counters, Error, Machines, Query, Scan, Sink, analyse_beside, analyse_with_figures_beside,
};
use tickscope_store::{Manifest, Node, Run};
use tickscope_trace::{Clock, CounterPair, Layout};

use crate::acknowledgements::Acknowledgements;
use crate::node_rivals::{NodeRivals, RivalFiles};
use crate::return_trips::ReturnTrips;

/// Pairs of nodes other than the reference that are compared, at most: there may be tens of thousands.
const MOST_PAIRS: usize = 500;

/// As [`analyse`](tickscope_analysis::analyse), with the other methods: each node that is related to the reference,
/// then pairs of other nodes, those without a point of the layout last.
pub fn analyse_and_compare(run: &Run, query: &Query, write: bool) -> Result<(Analysis, Vec<NodeRivals>), Error> {
    let (mut analysis, rivals) = analyse_beside(run, query, write, |scan| Rivals::of(run, query, scan))?;
    let compared = rivals.finish(run.manifest(), &mut analysis);
    Ok((analysis, compared))
}

/// The same, and what a page draws; `also`: looks at the scan before.
pub fn draw_and_compare(
    run: &Run,
    query: &Query,
    also: impl FnOnce(&Scan) -> Result<(), Error>,
) -> Result<(Analysis, Figures, Vec<NodeRivals>), Error> {
    let ask = |scan: &Scan| {
        also(scan)?;
        Rivals::of(run, query, scan)
    };
    let (mut analysis, figures, rivals) = analyse_with_figures_beside(run, query, false, ask)?;
    let compared = rivals.finish(run.manifest(), &mut analysis);
    Ok((analysis, figures, compared))
}

/// Returns whether stamps of a run were acknowledged, which its table tells a line of.
pub fn has_acknowledgements(run: &Run) -> bool {
    run.manifest().nodes.iter().any(|node| run.paths().returns(node.name.as_str()).is_dir())
}

/// What the evidence and the run's files say, and the sinks for what its traces say.
struct Rivals {
    layout: Layout,
    found: Vec<NodeRivals>,
    trips: Option<ReturnTrips>,
    acknowledged: Option<Acknowledgements>,
    /// Files that could not be read.
    unread: Vec<tickscope_store::Error>,
}

impl Rivals {
    fn of(run: &Run, query: &Query, scan: &Scan) -> Result<Self, Error> {
        let (found, mut unread) = compare(run, query, scan)?;
        let layout = scan.layout().clone();
        let trips = (!found.is_empty()).then(|| ReturnTrips::of(&layout)).flatten();
        let (acknowledged, refused) = Acknowledgements::of(run, &layout)?;
        unread.extend(refused);
        Ok(Self { layout, found, trips, acknowledged, unread })
    }

    /// With what return trips between the nodes say.
    fn finish(self, manifest: &Manifest, analysis: &mut Analysis) -> Vec<NodeRivals> {
        let Self { layout, mut found, trips, acknowledged, unread } = self;
        for node in &mut found {
            node.add_return_trip(&layout, trips.as_ref(), manifest);
            acknowledged.iter().for_each(|acknowledged| node.add_acknowledged(&layout, acknowledged, manifest));
        }
        analysis.refused.extend(unread);
        found
    }
}

impl Sink for Rivals {
    type Part = (Option<ReturnTrips>, Option<Acknowledgements>);

    fn part(&self) -> Self::Part {
        (self.trips.part(), self.acknowledged.part())
    }

    fn merge(&mut self, (trips, acknowledged): Self::Part) -> Result<(), Error> {
        self.trips.merge(trips)?;
        self.acknowledged.merge(acknowledged)
    }
}

/// What was found, and files that could not be read.
type Found = (Vec<NodeRivals>, Vec<tickscope_store::Error>);

/// Compares the methods by exchanges and by what programs said.
fn compare(run: &Run, query: &Query, scan: &Scan) -> Result<Found, Error> {
    let (manifest, of_node) = (run.manifest(), scan.counter_of_node());
    let mut files = RivalFiles::of(run)?;
    let mut found = Vec::new();
    let related = |counter: usize| match scan.clocks().counters().get(counter) {
        Some(Clock::Related(map)) => Some(map),
        _ => None,
    };
    for (name, counter) in of_node {
        let Some(node) = manifest.nodes.iter().find(|node| node.name == **name) else { continue };
        let Some(map) = related(*counter) else { continue };
        found.extend(files.against_reference(node, map)?);
    }
    let named = |counter: usize| {
        let (name, _) = of_node.iter().find(|&&(_, of)| of == counter)?;
        manifest.nodes.iter().find(|node| node.name == **name)
    };
    for CounterPair { local, reference, clock_map } in scan.clocks().pairs().iter().take(MOST_PAIRS) {
        let (Some(node), Some(with)) = (named(*local), named(*reference)) else { continue };
        found.extend(files.between([node, with], clock_map, [related(*local), related(*reference)])?);
    }
    let in_layout = |node: &Node| of_node.iter().any(|(name, _)| node.name == **name);
    let most = MOST_PAIRS.saturating_sub(found.len());
    found.extend(beyond_layout(run, query, &mut files, in_layout, most)?);
    Ok((found, files.unread))
}

/// The same of counters whose nodes have no point in the layout, by the probes' evidence.
fn beyond_layout(
    run: &Run,
    query: &Query,
    files: &mut RivalFiles<'_>,
    in_layout: impl Fn(&Node) -> bool,
    most: usize,
) -> Result<Vec<NodeRivals>, Error> {
    let counters = Counters::of(run.manifest())?;
    let is_new = |counters: &Counters<'_>, counter: usize| {
        counter != 0 && !counters.nodes(counter).iter().any(|node| in_layout(node))
    };
    if !(0..counters.count()).any(|counter| is_new(&counters, counter)) {
        return Ok(Vec::new());
    }
    let machines = Machines::of(run, counters, query)?;
    let counters = machines.counters();
    let mut found = Vec::new();
    let pairs = machines.pairs().filter(|&(local, with)| is_new(counters, local) || is_new(counters, with));
    for (local, with) in pairs.take(most) {
        let Some(map) = machines.map((local, with)) else { continue };
        let nodes = [local, with].map(|counter| counters.name(counter));
        found.extend(match with {
            0 => files.against_reference(nodes[0], map)?,
            _ => files.between(nodes, map, [local, with].map(|counter| machines.to_reference(counter)))?,
        });
    }
    Ok(found)
}
