//! Acknowledged return trips: what the published method makes of them, beside the guaranteed interval of the same
//! duration.
//!
//! Idea: a stamp where a path ends was acknowledged to the node where it begins, with four ticks of an exchange. The
//! published one-way duration is the time until the acknowledgement arrived, less the time that it left late, less half
//! its round trip; each difference is of one counter, in seconds of its declared frequency, and no clock map is used.
//!
//! Assumes: nothing about the rows: one belongs to a trace by the id and the stamp's own tick. Guarantees: comparisons
//! are of exact rationals; an acknowledgement without its trace, and a stamp that was acknowledged twice, are counted
//! and not compared; what is gathered does not depend on the number of workers. Deliberately absent: whether the link
//! was busy; the round trips say it.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use tickscope_analysis::{Error, Part, Piece, Sink, Truth};
use tickscope_store::{Manifest, Node, ReturnRow, Run};
use tickscope_tick::NodeName;
use tickscope_trace::{Layout, StageRole};

/// What was found of a node's acknowledgements.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Acknowledged {
    /// Durations that have a published value and a guaranteed interval.
    pub compared: usize,
    /// Values of the method `return trip, less half of it` among them that lie outside the guaranteed interval.
    pub outside_guaranteed: usize,
    /// Time between a stamp and its acknowledgement's leaving: median and most.
    pub late_ns: [i64; 2],
    /// Round trips on the way: least, median and most.
    pub round_trip_ns: [i64; 3],
    /// Acknowledgements whose stamp is in no trace that has a stamp at the start.
    pub unmatched: usize,
    /// Stamps that were acknowledged more than once.
    pub repeated: usize,
}

/// The four ticks of an acknowledgement: sent, received, answered, returned.
type Four = [i64; 4];
/// By id and tick of the stamp; `None`: several.
type ByStamp = HashMap<(i64, i64), Option<Four>>;

/// Sink of the traces whose end was acknowledged to where they began.
#[derive(Clone, Debug)]
pub(crate) struct Acknowledgements {
    stages: Arc<Vec<Stage>>,
    found: Vec<Found>,
}

/// A stage from a start to an end on another node, and what was acknowledged of its ends.
#[derive(Debug)]
struct Stage {
    at: usize,
    points: [usize; 2],
    by_stamp: ByStamp,
}

/// One trace with its acknowledgement.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Position of its stage.
    of: usize,
    start: i64,
    end: i64,
    four: Four,
    /// The guaranteed interval of the duration, in ticks of the reference.
    guaranteed: Option<[i64; 2]>,
}

impl Acknowledgements {
    /// Beside it, files that could not be read. `None`: nothing was acknowledged.
    pub(crate) fn of(run: &Run, layout: &Layout) -> Result<(Option<Self>, Vec<tickscope_store::Error>), Error> {
        let (mut stages, mut unread) = (Vec::new(), Vec::new());
        for (at, stage) in layout.stages().iter().enumerate() {
            let points = [stage.from, stage.to];
            let [start, end] = points.map(|point| &layout.points()[point].place);
            if stage.role != StageRole::EndToEnd || start.node == end.node {
                continue;
            }
            let listing = run.returns(end.node.as_str())?;
            unread.extend(listing.refused);
            let mut by_stamp = ByStamp::new();
            for ReturnRow { id, end: tick, sent, received, answered, returned, source, point } in listing.found.rows() {
                if start.node == *source && end.point == *point {
                    let four = Some([sent, received, answered, returned]);
                    by_stamp.entry((id, tick)).and_modify(|known| *known = None).or_insert(four);
                }
            }
            if !by_stamp.is_empty() {
                stages.push(Stage { at, points, by_stamp });
            }
        }
        let all = (!stages.is_empty()).then(|| Self { stages: Arc::new(stages), found: Vec::new() });
        Ok((all, unread))
    }

    /// Whether the acknowledged ids start on that node.
    pub(crate) fn begin_at(&self, layout: &Layout, node: &NodeName) -> bool {
        self.stages.iter().any(|stage| layout.points()[stage.points[0]].place.node == *node)
    }

    /// What was found between two nodes, whichever of them acknowledged, with a sample of each value.
    pub(crate) fn between(
        &self,
        layout: &Layout,
        manifest: &Manifest,
        ends: [&NodeName; 2],
    ) -> Option<(Acknowledged, Vec<Value>)> {
        let node = |name: &NodeName| manifest.nodes.iter().find(|node| node.name == *name);
        let reference = node(&manifest.reference.node)?;
        let truth = Truth::of(manifest);
        let (mut values, mut all, mut repeated) = (Vec::new(), 0, 0);
        for (of, stage) in self.stages.iter().enumerate() {
            let names = stage.points.map(|point| &layout.points()[point].place.node);
            let [Some(start), Some(end)] = names.map(node) else { continue };
            if !names.iter().all(|name| ends.contains(name)) {
                continue;
            }
            all += stage.by_stamp.len();
            repeated += stage.by_stamp.values().filter(|four| four.is_none()).count();
            let published = Published { nodes: [start, end, reference], truth: truth.as_ref() };
            let found = self.found.iter().filter(|found| found.of == of);
            values.extend(found.filter_map(|found| published.value(found)));
        }
        let unmatched = all.saturating_sub(repeated).saturating_sub(values.len());
        Some((summary(&values, unmatched, repeated)?, values))
    }
}

/// `None`: there is nothing to be said.
fn summary(values: &[Value], unmatched: usize, repeated: usize) -> Option<Acknowledged> {
    let sorted = |of: fn(&Value) -> i64| {
        let mut all: Vec<i64> = values.iter().map(of).collect();
        all.sort_unstable();
        all
    };
    let (late, trips) = (sorted(|value| value.late_ns), sorted(|value| value.round_trip_ns));
    let known: Vec<bool> = values.iter().filter_map(|value| value.outside_guaranteed).collect();
    Some(Acknowledged {
        compared: known.len(),
        outside_guaranteed: known.iter().filter(|outside| **outside).count(),
        late_ns: [late.get(late.len() / 2).copied()?, *late.last()?],
        round_trip_ns: [*trips.first()?, trips[trips.len() / 2], *trips.last()?],
        unmatched,
        repeated,
    })
}

/// What the published method says of one duration.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Value {
    /// Raw ticks of the start and of the end.
    pub ticks: [i64; 2],
    /// Time that the acknowledgement left late.
    pub late_ns: i64,
    /// Its round trip on the way, half of which is the published error.
    pub round_trip_ns: i64,
    /// How far it is off; `None`: the truth is not known.
    pub error_ns: Option<i64>,
    /// Whether the truth lies outside its own interval.
    pub outside: Option<bool>,
    /// Whether it lies outside the guaranteed interval; `None`: there is none.
    pub outside_guaranteed: Option<bool>,
    /// The published method: the time until the acknowledgement arrived, T3 - T1, less the time that it left late, with
    /// its round trip as the bound.
    pub until_return: UntilReturn,
}

/// How the time until an acknowledgement's arrival compares with the duration; `None`: the truth is not known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct UntilReturn {
    /// How much longer it is.
    pub error_ns: Option<i64>,
    /// Whether that is more than the round trip, or less than 0.
    pub outside: Option<bool>,
}

/// The nodes of the start, of the end and of the reference.
struct Published<'a> {
    nodes: [&'a Node; 3],
    truth: Option<&'a Truth>,
}

impl Published<'_> {
    /// `None`: numbers that no counter gives.
    fn value(&self, found: &Found) -> Option<Value> {
        let [start_hz, end_hz, hertz] = self.nodes.map(|node| i128::from(node.counter.frequency.hertz.max(1)));
        let Found { start, end, four: [sent, received, answered, returned], guaranteed, .. } = *found;
        let apart = |from: i64, to: i64| i128::from(to) - i128::from(from);
        // In ticks of the reference times `scale`, doubled: what the start's counter says, less what the end's says.
        let scale = start_hz * end_hz;
        let on_reference = |of_start: i128, of_end: i128| {
            let of_start = of_start.checked_mul(end_hz)?;
            of_start.checked_sub(of_end.checked_mul(start_hz)?)?.checked_mul(hertz)
        };
        let turn = apart(received, answered);
        let there = 2 * apart(start, received) + turn;
        let late = apart(end, sent);
        let value = on_reference(there, 2 * late + apart(sent, returned))?;
        let trip = on_reference(-turn, -apart(sent, returned))?;
        let (floor, ceil) = (|number: i128| number.div_euclid(scale), |number: i128| -(-number).div_euclid(scale));
        let ns = |ticks: i128, hertz: i128| i64::try_from(-(-ticks * 1_000_000_000).div_euclid(hertz)).ok();
        let outside = |[lo, hi]: [i128; 2]| floor(value) < 2 * lo || ceil(value) > 2 * hi;
        let truth = self.true_ticks(start, end);
        let off = |[first, last]: [i128; 2]| {
            let off = [2 * last - floor(value), ceil(value) - 2 * first];
            (off[0].abs().max(off[1].abs()) + 1) / 2
        };
        let misses = |[first, last]: [i128; 2]| 2 * last < floor(value - trip) || 2 * first > ceil(value + trip);
        // As published the acknowledgement leaves at once.
        let whole = on_reference(apart(start, received), late)?;
        let longer = |[first, last]: [i128; 2]| (last - floor(whole)).abs().max((ceil(whole) - first).abs());
        let beyond = |[first, last]: [i128; 2]| last < floor(whole - trip) || first > ceil(whole);
        Some(Value {
            until_return: UntilReturn {
                error_ns: truth.and_then(|truth| ns(longer(truth), hertz)),
                outside: truth.map(beyond),
            },
            ticks: [start, end],
            late_ns: ns(late, end_hz)?,
            round_trip_ns: ns(ceil(trip), hertz)?,
            error_ns: truth.and_then(|truth| ns(off(truth), hertz)),
            outside: truth.map(misses),
            outside_guaranteed: guaranteed.map(|ends| outside(ends.map(i128::from))),
        })
    }

    /// The least and the most that the duration truly was, in ticks of the reference.
    fn true_ticks(&self, start: i64, end: i64) -> Option<[i128; 2]> {
        let [from, to, _] = self.nodes;
        let truth = self.truth?;
        let from = truth.on_reference(from.name.as_str(), start)?;
        let to = truth.on_reference(to.name.as_str(), end)?;
        Some([i128::from(to.0) - i128::from(from.1), i128::from(to.1) - i128::from(from.0)])
    }
}

impl Sink for Acknowledgements {
    type Part = Self;

    fn part(&self) -> Self {
        Self { stages: Arc::clone(&self.stages), found: Vec::new() }
    }

    fn merge(&mut self, later: Self) -> Result<(), Error> {
        self.found.extend(later.found);
        Ok(())
    }
}

impl Part for Acknowledgements {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        let Self { stages, found } = self;
        for (of, stage) in stages.iter().enumerate() {
            let [from, to] = stage.points;
            if [from, to].iter().any(|&point| piece.durations.own(point).is_some()) {
                continue; // stamps of another clock are no ticks of the counter
            }
            for (row, &id) in piece.traces.ids().iter().enumerate() {
                let [start, end] = [from, to].map(|point| piece.traces.points()[point].get(row));
                let (Some(start), Some(end)) = (start, end) else { continue };
                let Some(&Some(four)) = stage.by_stamp.get(&(id, end)) else { continue };
                if piece.traces.repeats(row, [from, to]) {
                    continue;
                }
                let columns = &piece.durations.stages()[stage.at];
                let guaranteed = columns.lo.get(row).zip(columns.hi.get(row)).map(|(lo, hi)| [lo, hi]);
                found.push(Found { of, start, end, four, guaranteed });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A run of two nodes that truly read one counter, the end's of which is ahead by so many ticks.
    fn manifest(ahead: i64) -> Manifest {
        let mut manifest = crate::sample::manifest();
        manifest.same_boot = tickscope_store::SameBoot::Ignore;
        let (boot, counter) = (manifest.nodes[0].boot, manifest.nodes[0].counter.clone());
        for node in &mut manifest.nodes {
            node.boot = boot;
            node.counter.frequency = counter.frequency.clone();
            node.injected = None;
        }
        manifest.nodes[1].injected = Some(format!("0:{ahead}:0:0:2"));
        manifest
    }

    fn published(found: Found, manifest: &Manifest) -> Value {
        let [start, end] = [&manifest.nodes[0], &manifest.nodes[1]];
        let reference = manifest.nodes.iter().find(|node| node.name == manifest.reference.node).unwrap();
        let truth = Truth::of(manifest);
        Published { nodes: [start, end, reference], truth: truth.as_ref() }.value(&found).unwrap()
    }

    proptest! {
        #[test]
        fn property_the_published_value_is_off_by_half_of_what_the_ways_differ_and_no_lateness_or_offset_counts(
            start in 0_i64..1_000_000,
            one_way in 0_i64..1_000_000,
            late in 0_i64..1_000_000,
            ways in [0_i64..1_000_000, 0_i64..1_000_000],
            turn in 0_i64..1_000_000,
            ahead in -1_000_000_000_i64..1_000_000_000,
            slack in 0_i64..1_000_000,
        ) {
            let manifest = manifest(ahead);
            let hertz = manifest.nodes[0].counter.frequency.hertz;
            let ns = |ticks: i64| -(-i128::from(ticks) * 1_000_000_000).div_euclid(hertz.into()) as i64;
            let end = start + one_way;
            let sent = end + late;
            let (received, answered) = (sent + ways[0], sent + ways[0] + turn);
            let returned = answered + ways[1];
            let four = [sent + ahead, received, answered, returned + ahead];
            let guaranteed = Some([one_way - slack, one_way + slack]);
            let value = published(Found { of: 0, start, end: end + ahead, four, guaranteed }, &manifest);
            // Published: the way there counts as half of both.
            let off = (ways[0] - ways[1]).abs();
            prop_assert_eq!(value.late_ns, ns(late));
            prop_assert_eq!(value.round_trip_ns, ns(ways[0] + ways[1]));
            prop_assert_eq!(value.error_ns, Some(ns((off + 1) / 2)));
            prop_assert_eq!(value.outside, Some(false));
            prop_assert_eq!(value.outside_guaranteed, Some(off > 2 * slack));
            // T3 - T1 is longer by the way back.
            prop_assert_eq!(value.until_return.error_ns, Some(ns(ways[0])));
            prop_assert_eq!(value.until_return.outside, Some(false));
        }
    }
}
