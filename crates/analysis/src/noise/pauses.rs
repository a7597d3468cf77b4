//! Pauses of JVMs that a run took in, for questions about the time between two stamps.
//!
//! Idea: a log of a JVM says of each pause an instant before its begin, one after its end, and how long before the one
//! and after the other all threads stood still; on the reference these are intervals, between two stamps' as any.
//! Assumes: a pause may delay whatever has a stamp of its node; a log holds all pauses of its JVM. Guarantees: a pause
//! is named only where some of it certainly lies between the two stamps; where it may or may not, or lines of the log
//! are missing or were refused, the answer is "not known".

use std::collections::{BTreeMap, BTreeSet};

use tickscope_store::{Channel, Event, EventKind, Run};
use tickscope_tick::{NodeName, Place, PointName};

use super::Verdict;
use super::cores::Took;
use crate::auxiliary_clocks::AuxiliaryClocks;
use crate::domains;
use crate::error::Error;
use crate::inputs::Inputs;
use crate::query::Query;
use crate::scan::Piece;
use crate::span::Span;

/// The pauses of every node, on the reference.
#[derive(Debug)]
pub(super) struct Pauses {
    /// By point of the layout: its node, if a JVM of it logged.
    of_point: Vec<Option<usize>>,
    nodes: Vec<NodePauses>,
    names: Vec<String>,
}

/// The pauses of one node's JVMs.
#[derive(Debug, Default)]
pub(crate) struct NodePauses {
    /// By begin.
    pauses: Vec<Pause>,
    /// By position there: the latest end up to it.
    latest: Vec<i64>,
    /// All pauses that its JVM told of.
    is_whole: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Pause {
    /// It lies within.
    within: [i64; 2],
    /// All threads stood still from the one to the other, at least; nothing is certain where the second is earlier.
    sure: [i64; 2],
    name: usize,
}

impl Pauses {
    /// `None`: the run has no log of a JVM at a node of the layout.
    pub(super) fn of(run: &Run, inputs: &Inputs, query: &Query) -> Result<Option<Self>, Error> {
        let (channels, events) = (run.channels()?.found, run.events()?.found);
        let (mut nodes, mut names) = (Vec::new(), Vec::new());
        let mut of_point = vec![None; inputs.layout.points().len()];
        for (node, operations) in logged(&channels) {
            let at = || (0..of_point.len()).filter(|at| inputs.layout.points()[*at].place.node == node);
            let Some(by) = at().find(|at| inputs.clock_of_point[*at].is_none()) else { continue };
            let places = operations.iter().map(|operation| ends_of(&node, operation)).collect::<Result<Vec<_>, _>>()?;
            domains::expect_one_domain_each(run, places.iter().flatten(), &channels)?;
            let clocks = AuxiliaryClocks::of(run, places.iter().flatten(), &channels, &events, query)?;
            let mut of = NodePauses::none_of(&node, &channels, &events);
            for (operation, ends) in operations.into_iter().zip(&places) {
                let on_reference = |at: i64| {
                    let (lo, hi) = clocks.counted(&ends[0], at, 0).ok()??;
                    Some([inputs.clocks.instant(by, lo)?[1], inputs.clocks.instant(by, hi)?[2]])
                };
                of.read(run, ends, names.len(), on_reference)?;
                names.push(operation);
            }
            of.order();
            at().collect::<Vec<_>>().into_iter().for_each(|at| of_point[at] = Some(nodes.len()));
            nodes.push(of);
        }
        Ok((!nodes.is_empty()).then_some(Self { of_point, nodes, names }))
    }

    pub(super) fn name(&self, name: usize) -> &str {
        &self.names[name]
    }

    /// Pauses of the nodes of two points that certainly lie between their stamps in that row.
    pub(super) fn verdict(&self, piece: &Piece<'_>, [from, to]: [usize; 2], row: usize) -> Verdict {
        let [begun, ended] = [piece.instant(from, row)?, piece.instant(to, row)?];
        let nodes: BTreeSet<usize> = [from, to].into_iter().filter_map(|point| self.of_point[point]).collect();
        let (mut found, mut is_known) = (BTreeMap::<_, Took>::new(), true);
        for node in nodes {
            is_known &= self.nodes[node].between(begun, ended, |name, took| {
                let all: &mut Took = found.entry((node, name)).or_default();
                all.add(took);
            });
        }
        // One that certainly lies between them is enough, whatever else may.
        (is_known || !found.is_empty()).then_some(found)
    }
}

/// Operations that JVMs of each node logged.
fn logged(channels: &[Channel]) -> BTreeMap<NodeName, BTreeSet<String>> {
    let mut logged: BTreeMap<NodeName, BTreeSet<String>> = BTreeMap::new();
    for channel in channels.iter().filter(|channel| channel.policy == Channel::LOG_POLICY) {
        let name = channel.point.as_str().strip_prefix("jvm.").and_then(|name| name.strip_suffix(".begin"));
        if let Some(name) = name {
            logged.entry(channel.node.clone()).or_default().insert(name.into());
        }
    }
    logged
}

/// The pauses of each node's JVMs on that node's own counter.
pub(crate) fn on_counters(run: &Run) -> Result<BTreeMap<NodeName, NodePauses>, Error> {
    let (channels, events) = (run.channels()?.found, run.events()?.found);
    let mut nodes = BTreeMap::new();
    for (node, operations) in logged(&channels) {
        let places = operations.iter().map(|operation| ends_of(&node, operation)).collect::<Result<Vec<_>, _>>()?;
        domains::expect_one_domain_each(run, places.iter().flatten(), &channels)?;
        let clocks = AuxiliaryClocks::of(run, places.iter().flatten(), &channels, &events, &Query::default())?;
        let mut of = NodePauses::none_of(&node, &channels, &events);
        for (name, ends) in places.iter().enumerate() {
            of.read(run, ends, name, |at| clocks.counted(&ends[0], at, 0).ok()?.map(|(lo, hi)| [lo, hi]))?;
        }
        of.order();
        nodes.insert(node, of);
    }
    Ok(nodes)
}

/// The points of an operation's begins and ends.
fn ends_of(node: &NodeName, operation: &str) -> Result<[Place; 2], Error> {
    let place = |end: &str| -> Result<Place, Error> {
        let point = PointName::new(format!("jvm.{operation}.{end}")).map_err(Error::work)?;
        Ok(Place { node: node.clone(), point })
    };
    Ok([place("begin")?, place("end")?])
}

impl NodePauses {
    fn none_of(node: &NodeName, channels: &[Channel], events: &[Event]) -> Self {
        let refused = |channel: &Channel| channel.node == *node && channel.refused > 0;
        let lacks = |event: &Event| event.what == EventKind::LogGaps && *node == *event.node;
        Self { is_whole: !channels.iter().any(refused) && !events.iter().any(lacks), ..Self::default() }
    }

    /// Ticks in which at least one JVM paused between two readings of the counter, at least and at most, where each
    /// reading is of an instant between two ticks; `None`: there may be pauses that no log has.
    pub(crate) fn took(&self, since: (i64, i64), until: (i64, i64)) -> Option<[i64; 2]> {
        let found = || self.overlapping([since.0, until.1]);
        let least = found().map(|&Pause { sure, .. }| [sure[0].max(since.1), sure[1].min(until.0)]);
        let most = found().map(|&Pause { within, .. }| [within[0].max(since.0), within[1].min(until.1)]);
        self.is_whole.then(|| [covered(least), covered(most)])
    }

    /// Takes in the pauses for one operation; `on_reference`: least and most of an instant of the JVM's clock.
    fn read(
        &mut self,
        run: &Run,
        [first, last]: &[Place; 2],
        name: usize,
        on_reference: impl Fn(i64) -> Option<[i64; 2]>,
    ) -> Result<(), Error> {
        let [begins, ends] = [run.stamps(first)?.read_all()?, run.stamps(last)?.read_all()?];
        let rows = ends.channel.iter().zip(&ends.id).zip(&ends.tick).zip(ends.value.iter());
        // Channels of one log follow each other: begin, end.
        let ends: BTreeMap<(i32, i64), (i64, Option<&i64>)> =
            rows.map(|(((channel, id), tick), still)| ((channel - 1, *id), (*tick, still))).collect();
        let rows = begins.channel.iter().zip(&begins.id).zip(&begins.tick).zip(begins.value.iter());
        for (((channel, id), begin), still_until_end) in rows {
            let pause = ends.get(&(*channel, *id)).and_then(|&(end, still_from_begin)| {
                let [begun, ended] = [on_reference(*begin)?, on_reference(end)?];
                let [still, let_go] = [end.checked_sub(*still_until_end?)?, begin.checked_add(*still_from_begin?)?];
                let sure = [on_reference(still)?[1], on_reference(let_go)?[0]];
                Some(Pause { within: [begun[0], ended[1]], sure, name })
            });
            self.is_whole &= pause.is_some();
            self.pauses.extend(pause);
        }
        Ok(())
    }

    fn order(&mut self) {
        self.pauses.sort_unstable();
        for pause in &self.pauses {
            self.latest.push(pause.within[1].max(self.latest.last().copied().unwrap_or(i64::MIN)));
        }
    }

    /// Hands to `sink` the pauses that certainly lie between two stamps; whether there is no other that may.
    fn between(&self, begun: Span, ended: Span, mut sink: impl FnMut(usize, Took)) -> bool {
        let mut is_known = self.is_whole;
        for Pause { within, sure, name } in self.overlapping([begun.lo, ended.hi]) {
            let least = [sure[0].max(begun.hi), sure[1].min(ended.lo)];
            if sure[0] > sure[1] || least[0] > least[1] {
                is_known = false;
                continue;
            }
            let most = within[1].min(ended.hi) - within[0].max(begun.lo);
            sink(*name, Took { ticks: most, held_up: least[1] - least[0] });
        }
        is_known
    }

    fn overlapping(&self, [lo, hi]: [i64; 2]) -> impl Iterator<Item = &Pause> {
        let until = self.pauses.partition_point(|pause| pause.within[0] <= hi);
        let from = self.latest[..until].partition_point(|latest| *latest < lo);
        self.pauses[from..until].iter().filter(move |pause| pause.within[1] >= lo)
    }
}

/// Ticks from the first to the second of each, counted once where several overlap; none of one that ends first.
fn covered(spans: impl Iterator<Item = [i64; 2]>) -> i64 {
    let mut spans: Vec<_> = spans.collect();
    spans.sort_unstable();
    let (mut ticks, mut reached) = (0_i64, i64::MIN);
    for [from, until] in spans {
        ticks = ticks.saturating_add(until.saturating_sub(from.max(reached)).max(0));
        reached = reached.max(until);
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and ticks of pauses that certainly lie between two stamps, most and least; whether there are no others.
    fn between(pauses: &[([i64; 2], [i64; 2])], begun: [i64; 2], ended: [i64; 2]) -> (Vec<(usize, i64, i64)>, bool) {
        let pauses = pauses.iter().enumerate().map(|(name, &(within, sure))| Pause { within, sure, name });
        let mut node = NodePauses { pauses: pauses.collect(), latest: Vec::new(), is_whole: true };
        node.order();
        let span = |[lo, hi]: [i64; 2]| Span { estimate: lo, lo, hi };
        let mut found = Vec::new();
        let is_known =
            node.between(span(begun), span(ended), |name, took| found.push((name, took.ticks, took.held_up)));
        (found, is_known)
    }

    #[test]
    fn a_pause_is_told_only_where_it_certainly_lies_between_the_stamps() {
        let pause = ([100, 200], [110, 190]);
        for (begun, ended, expected) in [
            ([40, 50], [300, 310], (vec![(0, 100, 80)], true)),
            ([40, 50], [60, 70], (vec![], true)),
            ([210, 220], [300, 310], (vec![], true)),
            ([40, 50], [120, 130], (vec![(0, 30, 10)], true)),
            ([40, 50], [90, 105], (vec![], false)),
            ([40, 50], [105, 115], (vec![], false)),
            ([180, 195], [300, 310], (vec![], false)),
            ([180, 190], [300, 310], (vec![(0, 20, 0)], true)),
        ] {
            assert_eq!(between(&[pause], begun, ended), expected, "{begun:?} {ended:?}");
        }
        assert_eq!(
            between(&[([100, 200], [160, 140])], [40, 50], [300, 310]),
            (vec![], false),
            "shorter than its bounds"
        );
    }

    #[test]
    fn what_pauses_took_between_two_readings_is_bounded_by_what_surely_and_what_maybe_lies_there() {
        let pauses = [([100, 200], [110, 190]), ([300, 420], [310, 410])];
        let pauses = pauses.iter().map(|&(within, sure)| Pause { within, sure, name: 0 });
        let mut node = NodePauses { pauses: pauses.collect(), latest: Vec::new(), is_whole: true };
        node.order();
        for (since, until, expected) in [
            ((0, 10), (500, 510), [180, 220]),
            ((0, 10), (90, 99), [0, 0]),
            ((0, 10), (90, 105), [0, 5]),
            ((140, 150), (160, 170), [10, 30]),
            ((140, 150), (350, 360), [80, 120]),
            ((195, 198), (300, 301), [0, 6]),
        ] {
            assert_eq!(node.took(since, until), Some(expected), "{since:?} {until:?}");
        }
        node.is_whole = false;
        assert_eq!(node.took((0, 10), (500, 510)), None, "lines of the log were refused");
    }

    #[test]
    fn the_time_in_which_several_jvms_of_a_node_paused_counts_once() {
        // The second lies within the first; the third begins within the first and ends later.
        let pauses = [([100, 200], [110, 190]), ([120, 140], [125, 135]), ([150, 300], [160, 290])];
        let pauses = pauses.iter().map(|&(within, sure)| Pause { within, sure, name: 0 });
        let mut node = NodePauses { pauses: pauses.collect(), latest: Vec::new(), is_whole: true };
        node.order();
        assert_eq!(node.took((0, 0), (1000, 1000)), Some([180, 200]));
        assert_eq!(node.took((155, 155), (170, 170)), Some([15, 15]), "never longer than the period");
    }

    #[test]
    fn a_long_pause_before_short_ones_is_found_beyond_them() {
        let pauses = [([0, 900], [10, 890]), ([100, 120], [105, 115]), ([200, 220], [205, 215])];
        assert_eq!(between(&pauses, [400, 401], [500, 501]), (vec![(0, 101, 99)], true));
    }
}
