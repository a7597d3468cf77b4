//! Counts of the join: nothing is lost, repeated or reordered in silence.

use std::collections::HashMap;

use super::LinkCounts;
use super::attempts::AttemptContradiction;
use super::batches::Gathered;
use crate::{Layout, Rule, Traces};

/// Counts at one point.
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
    /// Treatment of those keys.
    pub rule: Rule,
    /// Ids of stamps that stand for many, which no other stamp has, and that have no trace: the stamps stand for too
    /// many ([`crate::MOST_SPANNED`]).
    pub unexpanded: u64,
    /// Keys whose tick is earlier than that of the next smaller id of their kind here: they overtook it.
    pub out_of_order: u64,
}

/// Counts of the whole join.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JoinCounts {
    /// By point, in the layout's order.
    pub points: Vec<PointCounts>,
    /// Different keys (kind, id).
    pub ids: u64,
    /// Traces: keys, and further occurrences of them.
    pub traces: u64,
    /// Keys that came from some start of the layout to some end with no point of that route missing
    /// ([`Layout::is_complete`]).
    pub complete: u64,
    /// Keys that passed two points, one of which leads to the other, and miss a point on every route between them.
    pub holes: u64,
    /// Keys that passed some point several times.
    pub repeated: u64,
    /// Repeated keys with stamps that can be assigned to those before them in more than one way, or in none.
    pub untold: u64,
    /// Keys whose id two things have ([`crate::StampSource::ambiguous_ids`]): no durations are made of them.
    pub ambiguous: u64,
    /// Keys with an attempt whose stamps stand in the wrong order; no durations are made of them between these points.
    pub contradicted: u64,
    /// Kind and id of the first of them, with both stamps.
    pub contradiction: Option<(i32, i64, AttemptContradiction)>,
    /// By edge that leads to other ids, in the order of [`Layout::links`]: outcomes of the keys that it leads on from.
    pub links: Vec<LinkCounts>,
}

/// The counts, growing.
pub struct Tally<'a> {
    counts: JoinCounts,
    layout: &'a Layout,
    /// By point: the latest tick of each kind, in the order of ids.
    latest: Vec<Latest>,
}

/// The tick of the id before, by kind. Ids of one kind come in runs, so the kind at hand is kept outside the table.
#[derive(Clone, Default)]
struct Latest {
    kind: i32,
    tick: Option<i64>,
    others: HashMap<i32, Option<i64>>,
}

impl<'a> Tally<'a> {
    pub fn new(layout: &'a Layout) -> Self {
        let counts = |rule| PointCounts { rule, ..PointCounts::default() };
        let points: Vec<_> = layout.points().iter().map(|point| counts(point.rule)).collect();
        let latest = vec![Latest::default(); points.len()];
        let links = vec![LinkCounts::default(); layout.links().len()];
        Self { counts: JoinCounts { points, links, ..JoinCounts::default() }, layout, latest }
    }

    /// Counts what only the stamps tell.
    pub fn add_stamps(&mut self, gathered: &Gathered) {
        for (counts, (stamps, duplicates)) in self.counts.points.iter_mut().zip(gathered.stamps()) {
            counts.stamps += stamps;
            counts.duplicates += duplicates;
        }
    }

    /// Counts the stamps of a point beyond a range edge, of which traces show those that a row belongs to.
    pub fn add_stamps_beyond(&mut self, point: usize, stamps: u64) {
        self.counts.points[point].stamps += stamps;
    }

    /// Outcomes of keys at edges that lead to other ids, for the caller to add to.
    pub fn links(&mut self) -> &mut [LinkCounts] {
        &mut self.counts.links
    }

    /// Counts ids of a point's long spans that have no trace.
    pub fn add_unexpanded(&mut self, point: usize, ids: u64) {
        self.counts.points[point].unexpanded += ids;
    }

    /// Counts keys that two things have.
    pub fn add_ambiguous(&mut self, keys: u64) {
        self.counts.ambiguous += keys;
    }

    /// Counts keys whose stamps contradict what they say of their attempts.
    pub fn add_contradictions(&mut self, gathered: &Gathered) {
        gathered.each_contradiction(&mut |kind, id, found| {
            self.counts.contradicted += 1;
            self.counts.contradiction.get_or_insert((kind, id, found));
        });
    }

    /// Counts what the traces tell; to be called in the order that traces leave.
    pub fn add_traces(&mut self, traces: &Traces) {
        self.counts.traces += traces.len() as u64;
        if let Some(kind) = plain_kind(traces) {
            return self.add_plain(kind, traces);
        }
        for row in traces.first_rows() {
            self.counts.ids += 1;
            let Some(marks) = traces.marks(row) else { continue };
            self.counts.repeated += 1;
            self.counts.untold += u64::from(marks.points().iter().any(|mark| mark.is_untold()));
        }
        for point in 0..self.counts.points.len() {
            self.add_point(point, traces);
        }
        self.add_routes(traces);
    }

    /// The same of traces of one kind that have neither marks nor further occurrences, column by column: as nearly all
    /// are.
    fn add_plain(&mut self, kind: i32, traces: &Traces) {
        let rows = traces.len();
        self.counts.ids += rows as u64;
        let columns = traces.points().iter().map(|column| column.parts(0..rows));
        for ((counts, latest), parts) in self.counts.points.iter_mut().zip(&mut self.latest).zip(columns.clone()) {
            let Some((values, valid)) = parts else { continue };
            latest.turn_to(kind);
            for (at, values) in values.chunks(TOGETHER).enumerate() {
                let valid = valid.chunks(TOGETHER).nth(at).unwrap_or_default();
                counts.add(latest, values, valid);
            }
        }
        let mut on_trunk = vec![true; rows];
        for parts in columns.take(self.layout.trunk().len()) {
            match parts {
                None => on_trunk.fill(false),
                Some((_, valid)) => on_trunk.iter_mut().zip(valid).for_each(|(all, &is_seen)| *all &= is_seen),
            }
        }
        on_trunk.iter().enumerate().for_each(|(row, &all)| self.add_route(all, row, traces));
    }

    fn add_point(&mut self, point: usize, traces: &Traces) {
        let (counts, latest) = (&mut self.counts.points[point], &mut self.latest[point]);
        let column = &traces.points()[point];
        for row in traces.first_rows() {
            counts.ids += u64::from(traces.is_seen(point, row));
            let Some(tick) = column.get(row) else { continue };
            let before = latest.replace(traces.kinds()[row], tick);
            counts.out_of_order += u64::from(before.is_some_and(|before| tick < before));
        }
    }

    fn add_routes(&mut self, traces: &Traces) {
        let trunk = self.layout.trunk().len();
        for row in traces.first_rows() {
            self.add_route((0..trunk).all(|point| traces.is_seen(point, row)), row, traces);
        }
    }

    /// Counts a row; `on_trunk`: all points that edges join saw it.
    #[inline]
    fn add_route(&mut self, on_trunk: bool, row: usize, traces: &Traces) {
        if on_trunk {
            self.counts.complete += 1;
        } else {
            let seen = |point: usize| traces.is_seen(point, row);
            self.counts.complete += u64::from(self.layout.is_complete(seen));
            self.counts.holes += u64::from(self.layout.has_hole(seen));
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
        self.turn_to(kind);
        self.tick.replace(tick)
    }

    #[inline]
    fn turn_to(&mut self, kind: i32) {
        if kind != self.kind {
            self.others.insert(self.kind, self.tick);
            self.tick = self.others.get(&kind).copied().flatten();
            self.kind = kind;
        }
    }
}

/// Rows of which all are mostly seen, so that they can be compared without asking whether each is.
const TOGETHER: usize = 16;

impl PointCounts {
    /// Counts rows of one kind, of which those are seen that are `valid`; none: all.
    #[inline]
    fn add(&mut self, latest: &mut Latest, values: &[i64], valid: &[bool]) {
        let (&[first, ..], &[.., last]) = (values, values) else { return };
        if valid.contains(&false) {
            for (&tick, _) in values.iter().zip(valid).filter(|(_, valid)| **valid) {
                self.ids += 1;
                self.out_of_order += u64::from(latest.tick.replace(tick).is_some_and(|before| tick < before));
            }
            return;
        }
        self.ids += values.len() as u64;
        let falls = values.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64;
        self.out_of_order += falls + u64::from(latest.tick.replace(last).is_some_and(|before| first < before));
    }
}

/// The kind of traces of one kind, of which each is the first of its key and passed every point once at most.
fn plain_kind(traces: &Traces) -> Option<i32> {
    let &first = traces.kinds().first()?;
    let is_plain = !traces.has_marks() && !traces.has_repeats() && traces.kinds().iter().all(|&kind| kind == first);
    is_plain.then_some(first)
}
