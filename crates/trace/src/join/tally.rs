//! What the join met on its way: nothing is lost, repeated or reordered in silence.

use std::collections::HashMap;

use super::batches::Gathered;
use crate::{Layout, Rule, Traces};

/// What was counted at one point.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PointCounts {
    /// Stamps read.
    pub stamps: u64,
    /// Different keys (kind, id) among them.
    pub ids: u64,
    /// Keys that some other point saw and this one did not.
    pub missing: u64,
    /// Stamps beyond the first of their key.
    pub duplicates: u64,
    /// What was done with those.
    pub rule: Rule,
    /// Keys whose tick is earlier than that of the next smaller id of their kind here: they overtook it.
    pub out_of_order: u64,
}

/// What was counted in the whole join.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JoinCounts {
    /// By point, in the layout's order.
    pub points: Vec<PointCounts>,
    /// Different keys (kind, id).
    pub ids: u64,
    /// Traces: keys, and further occurrences of them.
    pub traces: u64,
    /// Keys that every point of the path saw.
    pub complete: u64,
    /// Keys that the path saw, then did not see, then saw again.
    pub holes: u64,
    /// Keys that passed points of rule `all` unequally often. The n-th passage here was matched with the n-th there:
    /// if one in the middle was lost, those after it are matched wrongly.
    pub uneven: u64,
}

/// The counts, growing.
pub struct Tally {
    counts: JoinCounts,
    path: usize,
    /// By point: the latest tick of each kind, in the order of ids.
    latest: Vec<Latest>,
}

/// The tick of the id before, by kind. Ids of one kind come in runs, so the kind at hand is kept beside the table.
#[derive(Clone, Default)]
struct Latest {
    kind: i32,
    tick: Option<i64>,
    others: HashMap<i32, Option<i64>>,
}

impl Tally {
    pub fn new(layout: &Layout) -> Self {
        let counts = |rule| PointCounts { rule, ..PointCounts::default() };
        let points: Vec<_> = layout.points().iter().map(|point| counts(point.rule)).collect();
        let latest = vec![Latest::default(); points.len()];
        Self { counts: JoinCounts { points, ..JoinCounts::default() }, path: layout.path().len(), latest }
    }

    /// Counts what only the stamps tell.
    pub fn add_stamps(&mut self, gathered: &Gathered) {
        for (counts, (stamps, duplicates)) in self.counts.points.iter_mut().zip(gathered.stamps()) {
            counts.stamps += stamps;
            counts.duplicates += duplicates;
        }
        self.counts.uneven += gathered.uneven();
    }

    /// Counts what the traces tell; to be called in the order that traces leave.
    pub fn add_traces(&mut self, traces: &Traces) {
        self.counts.traces += traces.len() as u64;
        self.counts.ids += traces.occurrences().iter().filter(|&&occurrence| occurrence == 0).count() as u64;
        for point in 0..self.counts.points.len() {
            self.add_point(point, traces);
        }
        self.add_path(traces);
    }

    fn add_point(&mut self, point: usize, traces: &Traces) {
        let (counts, latest) = (&mut self.counts.points[point], &mut self.latest[point]);
        let column = &traces.points()[point];
        for (row, (&kind, &occurrence)) in traces.kinds().iter().zip(traces.occurrences()).enumerate() {
            let (0, Some(tick)) = (occurrence, column.get(row)) else { continue };
            counts.ids += 1;
            counts.out_of_order += u64::from(latest.replace(kind, tick).is_some_and(|before| tick < before));
        }
    }

    fn add_path(&mut self, traces: &Traces) {
        let path = &traces.points()[..self.path];
        for (row, _) in traces.occurrences().iter().enumerate().filter(|&(_, &occurrence)| occurrence == 0) {
            let seen = |point: usize| path[point].valid()[row];
            let Some(first) = (0..path.len()).find(|&point| seen(point)) else { continue };
            let last = (0..path.len()).rfind(|&point| seen(point)).unwrap_or(first);
            let whole = (first..=last).all(seen);
            self.counts.holes += u64::from(!whole);
            self.counts.complete += u64::from(whole && last - first + 1 == path.len());
        }
    }

    pub fn counts(mut self) -> JoinCounts {
        for point in &mut self.counts.points {
            point.missing = self.counts.ids - point.ids;
        }
        self.counts
    }
}

impl Latest {
    fn replace(&mut self, kind: i32, tick: i64) -> Option<i64> {
        if kind != self.kind {
            self.others.insert(self.kind, self.tick);
            self.tick = self.others.get(&kind).copied().flatten();
            self.kind = kind;
        }
        self.tick.replace(tick)
    }
}
