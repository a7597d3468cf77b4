//! How long it took from point to point, by how far apart the two ran: Cloudprofiler's figures 17 and 18.
//!
//! Its pairs are of actors, whichever node ran them: stages between points of the same names are one pair here, and
//! fall into groups by where the two stamps of each trace were taken. Guarantees: every duration of the table is in one
//! group of one pair; memory grows with pairs, not with traces; the same for any number of workers. Deliberately
//! absent: exact order statistics, which the table has for each stage.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Serialize;
use tickscope_store::Channel;
use tickscope_trace::{Attribute, Layout, StageRole};

use super::bins::{Bins, BoundedBins, LengthBin};
use super::boxes::Bounded;
use crate::error::Error;
use crate::scan::{Outcome, Part, Piece, Sink, Wanted};

/// How far apart the two stamps of a duration were taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distance {
    /// By one thread, and the trace did not leave its node in between.
    OneThread,
    /// By two threads of one process.
    OneProcess,
    /// By two processes of one node, or nobody knows by which.
    OneNode,
    /// On one node, which the trace left in between.
    Travelled,
    /// On two nodes.
    Remote,
}

/// Durations of one pair of points that were taken as far apart.
#[derive(Clone, Debug, Serialize)]
pub struct Transfer {
    /// The names of the points, without their nodes.
    pub pair: String,
    /// True of a pair from the start of a path to its end.
    pub is_whole: bool,
    /// How far apart.
    pub distance: Distance,
    /// How many durations.
    pub count: u64,
    /// The mean of the estimates, ticks.
    pub mean_ticks: f64,
    /// Shortest, quartiles and longest, to a 32nd.
    pub quartiles_ticks: [Bounded; 5],
    /// Estimates by length.
    pub shape: Vec<LengthBin>,
    /// The smallest, the quartiles and the largest error that the clocks leave open, either way, rounded up.
    pub error_ticks: [i64; 5],
    /// Errors by size.
    pub error_shape: Vec<LengthBin>,
}

/// What is gathered of one group.
#[derive(Clone, Default)]
struct Gathered {
    durations: BoundedBins,
    errors: Bins,
}

/// Sink of [`Transfer`].
#[derive(Clone)]
pub(crate) struct Transfers {
    plan: Arc<Plan>,
    groups: BTreeMap<(usize, Distance), Gathered>,
}

/// What is known before any trace is read.
struct Plan {
    /// Names, and whether it is a whole.
    pairs: Vec<(String, bool)>,
    /// By stage: which pair, and how it lies.
    stages: Vec<(usize, Way)>,
    /// By point.
    takers: Vec<Takers>,
}

/// How a stage lies in the layout.
enum Way {
    Remote,
    Travelled,
    /// Its trace left the node if it was stamped at one of these.
    Home(Vec<usize>),
}

/// Process and thread, each by a number within the run.
type Taker = [usize; 2];

/// Whoever stamps at a point.
#[derive(Default)]
struct Takers {
    by_channel: HashMap<i64, Taker>,
    /// The only channel's.
    only: Option<Taker>,
    /// Stamps name their channel.
    several: bool,
}

impl Transfers {
    /// None yet of a run with these channels.
    pub(crate) fn none(layout: &Layout, channels: &[Channel]) -> Self {
        let mut pairs: Vec<(String, bool)> = Vec::new();
        let stages = layout.stages().iter().map(|stage| {
            let [from, to] = [stage.from, stage.to].map(|point| &layout.points()[point].place.point);
            let pair = (format!("{from} > {to}"), stage.role == StageRole::EndToEnd);
            let at = pairs.iter().position(|known| *known == pair).unwrap_or(pairs.len());
            if at == pairs.len() {
                pairs.push(pair);
            }
            (at, Way::of(layout, [stage.from, stage.to]))
        });
        let stages = stages.collect();
        let takers = takers(layout, channels);
        Self { plan: Arc::new(Plan { pairs, stages, takers }), groups: BTreeMap::new() }
    }

    /// All groups that have a duration, pairs in the layout's order, wholes first.
    pub(crate) fn finish(self) -> Vec<Transfer> {
        let Self { plan, groups } = self;
        let mut all: Vec<Transfer> = groups
            .into_iter()
            .filter_map(|((pair, distance), Gathered { durations, errors })| {
                const QUARTILES: [u64; 5] = [0, 250_000, 500_000, 750_000, 1_000_000];
                let (name, is_whole) = plan.pairs[pair].clone();
                let quartiles = QUARTILES.map(|at| durations.quantile(at));
                let errors_at = QUARTILES.map(|at| errors.quantile(at).map(|bin| bin.to));
                Some(Transfer {
                    pair: name,
                    is_whole,
                    distance,
                    count: durations.estimates.values(),
                    mean_ticks: durations.estimates.mean()?,
                    quartiles_ticks: every(quartiles)?,
                    shape: durations.estimates.shape(),
                    error_ticks: every(errors_at)?,
                    error_shape: errors.shape(),
                })
            })
            .collect();
        all.sort_by_key(|transfer| !transfer.is_whole);
        all
    }
}

fn every<T>(all: [Option<T>; 5]) -> Option<[T; 5]> {
    all.into_iter().collect::<Option<Vec<T>>>()?.try_into().ok()
}

impl Way {
    fn of(layout: &Layout, [from, to]: [usize; 2]) -> Self {
        let node = |point: usize| &layout.points()[point].place.node;
        if node(from) != node(to) {
            return Self::Remote;
        }
        let reached = |start: usize, back: bool, within: &dyn Fn(usize) -> bool| {
            let (mut seen, mut open) = (vec![start], vec![start]);
            while let Some(at) = open.pop() {
                let ends =
                    layout.edges().iter().map(|edge| if back { [edge.to, edge.from] } else { [edge.from, edge.to] });
                for [_, next] in ends.filter(|[here, _]| *here == at) {
                    if within(next) && !seen.contains(&next) {
                        seen.push(next);
                        open.push(next);
                    }
                }
            }
            seen
        };
        let (after, before) = (reached(from, false, &|_| true), reached(to, true, &|_| true));
        let elsewhere: Vec<usize> =
            after.into_iter().filter(|point| before.contains(point) && node(*point) != node(from)).collect();
        let stays = elsewhere.is_empty() || reached(from, false, &|point| node(point) == node(from)).contains(&to);
        if stays { Self::Home(elsewhere) } else { Self::Travelled }
    }
}

/// Who took the stamps of each point. A log names no thread.
fn takers(layout: &Layout, channels: &[Channel]) -> Vec<Takers> {
    let mut numbers: [HashMap<_, usize>; 2] = Default::default();
    let mut number = |which: usize, key: (String, u64, i32, i64, i32)| {
        let next = numbers[which].len();
        *numbers[which].entry(key).or_insert(next)
    };
    let of_point = |point: &tickscope_trace::Point| {
        let here: Vec<&Channel> = channels.iter().filter(|channel| channel.is_at(&point.place)).collect();
        let mut found = Takers { several: here.len() > 1, ..Takers::default() };
        for channel in here.iter().filter(|channel| channel.thread != 0) {
            let process = |thread| (channel.node.to_string(), channel.pool, channel.pid, channel.process_start, thread);
            let taker = [number(0, process(0)), number(1, process(channel.thread))];
            found.by_channel.insert(channel.channel.into(), taker);
            found.only = (!found.several).then_some(taker);
        }
        found
    };
    layout.points().iter().map(of_point).collect()
}

impl Plan {
    fn taker(&self, piece: &Piece<'_>, point: usize, row: usize) -> Option<Taker> {
        let takers = self.takers.get(point)?;
        if !takers.several {
            return takers.only;
        }
        let channel = piece.attribute(Wanted { point, attribute: Attribute::Channel }, row)?;
        takers.by_channel.get(&channel).copied()
    }

    fn distance(&self, piece: &Piece<'_>, stage: usize, row: usize) -> Distance {
        let elsewhere = match &self.stages[stage].1 {
            Way::Remote => return Distance::Remote,
            Way::Travelled => return Distance::Travelled,
            Way::Home(elsewhere) => elsewhere,
        };
        if elsewhere.iter().any(|&point| piece.traces.points()[point].get(row).is_some()) {
            return Distance::Travelled;
        }
        let of = &piece.layout.stages()[stage];
        match (self.taker(piece, of.from, row), self.taker(piece, of.to, row)) {
            (Some(from), Some(to)) if from[1] == to[1] => Distance::OneThread,
            (Some(from), Some(to)) if from[0] == to[0] => Distance::OneProcess,
            _ => Distance::OneNode,
        }
    }
}

impl Sink for Transfers {
    type Part = Self;

    fn part(&self) -> Self {
        Self { plan: Arc::clone(&self.plan), groups: BTreeMap::new() }
    }

    fn merge(&mut self, later: Self) -> Result<(), Error> {
        for (key, Gathered { durations, errors }) in later.groups {
            let group = self.groups.entry(key).or_default();
            group.durations.merge(&durations);
            group.errors.merge(&errors);
        }
        Ok(())
    }

    fn wanted(&self) -> Vec<Wanted> {
        let points = self.plan.takers.iter().enumerate().filter(|(_, takers)| takers.several);
        points.map(|(point, _)| Wanted { point, attribute: Attribute::Channel }).collect()
    }
}

impl Part for Transfers {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        let plan = Arc::clone(&self.plan);
        for (stage, (pair, _)) in plan.stages.iter().enumerate() {
            for row in 0..piece.traces.len() {
                let (Outcome::Measured | Outcome::Impossible, Some(span)) = piece.outcome(stage, row) else { continue };
                let group = self.groups.entry((*pair, plan.distance(piece, stage, row))).or_default();
                group.durations.add([span.estimate, span.lo, span.hi]);
                let error = (span.hi.abs_diff(span.estimate)).max(span.estimate.abs_diff(span.lo));
                group.errors.add(i64::try_from(error).unwrap_or(i64::MAX));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickscope_trace::LayoutText;

    fn way(edges: &[&str], stage: &str) -> (Vec<String>, bool) {
        let extra = if edges.contains(&stage) { Vec::new() } else { vec![stage.to_string()] };
        let edges = edges.iter().map(ToString::to_string).collect();
        let layout = LayoutText { edges, extra, ..LayoutText::default() }.parse(None).unwrap();
        let stage = &layout.stages()[layout.stage_named(stage).unwrap()];
        let place = |point: usize| layout.points()[point].place.to_string();
        match Way::of(&layout, [stage.from, stage.to]) {
            Way::Remote => panic!("one node"),
            Way::Travelled => (Vec::new(), true),
            Way::Home(elsewhere) => (elsewhere.into_iter().map(place).collect(), false),
        }
    }

    #[test]
    fn a_trace_left_the_node_where_every_way_does_or_where_it_was_stamped_elsewhere() {
        assert_eq!(way(&["a.s > a.m", "a.m > a.t"], "a.s > a.t"), (vec![], false));
        assert_eq!(way(&["a.s > b.m", "b.m > a.t"], "a.s > a.t"), (vec![], true));
        let either = ["a.s > b.m", "b.m > a.t", "a.s > a.m", "a.m > a.t", "a.t > b.n"];
        assert_eq!(way(&either, "a.s > a.t"), (vec!["b.m".to_string()], false));
        assert_eq!(way(&either, "a.s > a.m"), (vec![], false));
    }
}
