//! Pools that programs waited for: the traces that span the making of one.
//!
//! Idea: an event `pool-late` has the ticks around it and a channel of the pool. A trace spans it in a stage if that
//! pool has a stamp of the trace at an end of the stage or certainly within it, and the time between the stage's two
//! stamps and that between the ticks certainly overlap. Assumes: threads of other processes do not wait. Guarantees: a
//! trace that only may span it is not named; nothing is left out of the figures. Deliberately absent: what the stage
//! would have taken without it.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use tickscope_store::{Channel, Event, EventKind, Run};
use tickscope_tick::printable;
use tickscope_trace::{Attribute, Layout};

use crate::error::Error;
use crate::inputs::Inputs;
use crate::scan::{Outcome, Part, Piece, Sink, Wanted};
use crate::span::Span;

/// Traces of a stage that are named.
const MOST_NAMED: usize = 8;

/// A stage with traces that span the making of a pool.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LateStage {
    /// Its name.
    pub stage: String,
    /// How many of its durations span one.
    pub spanning: u64,
    /// The longest that one of those took, in ticks of the reference.
    pub longest_ticks: i64,
    /// The first of its traces, in the order of traces.
    pub traces: Vec<LateTrace>,
}

/// A trace that spans the making of a pool.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LateTrace {
    /// Class of its id.
    pub kind: i32,
    /// Its id.
    pub id: i64,
    /// What the id is a hash of, where it was kept.
    pub original: Option<String>,
    /// Which passage of the id.
    pub occurrence: i32,
}

/// A sink of all traces of a run with a pool that was made late.
#[derive(Debug)]
pub(crate) struct LatePools {
    known: Arc<Known>,
    stages: Vec<Spanning>,
}

/// What rows are asked about.
#[derive(Debug)]
struct Known {
    pools: Vec<LatePool>,
    /// By point of the layout.
    points: Vec<PointPools>,
}

/// The making of a pool, on the reference.
#[derive(Clone, Copy, Debug)]
struct LatePool {
    from: Span,
    until: Span,
}

/// By channel of a point: its pool, if that was made late.
#[derive(Clone, Debug, Default)]
struct PointPools {
    channels: usize,
    late: HashMap<i64, usize>,
}

/// What is gathered of one stage.
#[derive(Clone, Debug, Default)]
struct Spanning {
    count: u64,
    longest_ticks: i64,
    traces: Vec<LateTrace>,
}

impl LatePools {
    /// `None`: no pool of a program that stamped at points of the layout was made late.
    pub(crate) fn of(run: &Run, inputs: &Inputs) -> Result<Option<Self>, Error> {
        let events = run.events()?.found;
        let late: Vec<&Event> = events.iter().filter(|event| event.what == EventKind::PoolLate).collect();
        if late.is_empty() {
            return Ok(None);
        }
        let (channels, places) = (run.channels()?.found, inputs.layout.points());
        let at = |point: usize| channels.iter().filter(move |channel| channel.is_at(&places[point].place));
        let mut points: Vec<PointPools> =
            (0..places.len()).map(|point| PointPools { channels: at(point).count(), late: HashMap::new() }).collect();
        let mut pools = Vec::new();
        for event in late {
            let is_told = |channel: &&Channel| channel.node == *event.node && Some(channel.channel) == event.channel;
            let Some(told) = channels.iter().find(is_told) else { continue };
            let of_pool = |point: usize| at(point).filter(|channel| channel.pool == told.pool);
            let counted = |point: &usize| inputs.clock_of_point[*point].is_none() && of_pool(*point).next().is_some();
            let Some(by) = (0..places.len()).find(counted) else { continue };
            let instant = |tick: Option<i64>| {
                inputs.clocks.instant(by, tick?).map(|[estimate, lo, hi]| Span { estimate, lo, hi })
            };
            let Some((from, until)) = instant(event.tick).zip(instant(event.until)) else { continue };
            for (point, of) in points.iter_mut().enumerate() {
                of.late.extend(of_pool(point).map(|channel| (i64::from(channel.channel), pools.len())));
            }
            pools.push(LatePool { from, until });
        }
        let stages = vec![Spanning::default(); inputs.layout.stages().len()];
        Ok((!pools.is_empty()).then(|| Self { known: Arc::new(Known { pools, points }), stages }))
    }

    /// Stages with a trace that spans one, in the layout's order.
    pub(crate) fn finish(self, layout: &Layout, run: &Run) -> Result<Vec<LateStage>, Error> {
        let all = layout.stages().iter().zip(self.stages).filter(|(_, of)| of.count > 0);
        let mut all: Vec<LateStage> = all
            .map(|(stage, Spanning { count, longest_ticks, traces })| LateStage {
                stage: stage.name.clone(),
                spanning: count,
                longest_ticks,
                traces,
            })
            .collect();
        let ids: Vec<i64> = all.iter().flat_map(|stage| &stage.traces).map(|trace| trace.id).collect();
        let known = if ids.is_empty() { Default::default() } else { run.originals_of(&ids)? };
        for trace in all.iter_mut().flat_map(|stage| &mut stage.traces) {
            trace.original = known.get(&trace.id).map(|original| printable(&original.to_string()).into_owned());
        }
        Ok(all)
    }
}

impl Known {
    /// Pools that were made late and that have a stamp of that row, each with the point.
    fn of_row(&self, piece: &Piece<'_>, row: usize) -> Vec<(usize, usize)> {
        let of_point = |(point, of): (usize, &PointPools)| {
            piece.traces.points()[point].get(row)?;
            let pool = match piece.attribute(Wanted { point, attribute: Attribute::Channel }, row) {
                Some(channel) => of.late.get(&channel).copied(),
                // One channel stamped all of the point, or nobody knows which of them.
                None => of.late.values().next().copied().filter(|_| of.channels == 1),
            };
            Some((pool?, point))
        };
        self.points.iter().enumerate().filter_map(of_point).collect()
    }
}

impl LatePool {
    fn overlaps(&self, begun: Span, ended: Span) -> bool {
        begun.hi < self.until.lo && ended.lo > self.from.hi
    }
}

impl Spanning {
    fn append(&mut self, more: Self) {
        self.count += more.count;
        self.longest_ticks = self.longest_ticks.max(more.longest_ticks);
        self.traces.extend(more.traces);
        self.traces.truncate(MOST_NAMED);
    }
}

/// What is gathered of one row group.
pub(crate) struct LatePart {
    known: Arc<Known>,
    stages: Vec<Spanning>,
}

impl Sink for LatePools {
    type Part = LatePart;

    fn part(&self) -> LatePart {
        LatePart { known: self.known.clone(), stages: vec![Spanning::default(); self.stages.len()] }
    }

    fn merge(&mut self, part: LatePart) -> Result<(), Error> {
        self.stages.iter_mut().zip(part.stages).for_each(|(all, more)| all.append(more));
        Ok(())
    }

    fn wanted(&self) -> Vec<Wanted> {
        let several = self.known.points.iter().enumerate().filter(|(_, of)| of.channels > 1 && !of.late.is_empty());
        several.map(|(point, _)| Wanted { point, attribute: Attribute::Channel }).collect()
    }
}

impl Part for LatePart {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        let Self { known, stages } = self;
        for row in 0..piece.traces.len() {
            let pools = known.of_row(piece, row);
            if pools.is_empty() {
                continue;
            }
            for (at, stage) in piece.layout.stages().iter().enumerate() {
                let (Outcome::Measured | Outcome::Impossible, Some(_)) = piece.outcome(at, row) else { continue };
                let ends = [stage.from, stage.to].map(|point| piece.instant(point, row));
                let [Some(begun), Some(ended)] = ends else { continue };
                let takes_part = |point| {
                    let within = |at: Span| begun.hi <= at.lo && at.hi <= ended.lo;
                    point == stage.from || point == stage.to || piece.instant(point, row).is_some_and(within)
                };
                let of_stage = pools.iter().filter(|(_, point)| takes_part(*point));
                let spanned = of_stage.map(|(pool, _)| known.pools[*pool]).filter(|pool| pool.overlaps(begun, ended));
                let Some(longest_ticks) = spanned.map(|pool| pool.until.hi - pool.from.lo).max() else { continue };
                let (kind, id) = (piece.traces.kinds()[row], piece.traces.ids()[row]);
                let occurrence = piece.traces.occurrences()[row];
                let traces = vec![LateTrace { kind, id, original: None, occurrence }];
                stages[at].append(Spanning { count: 1, longest_ticks, traces });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_spans_a_pool_only_where_the_two_certainly_overlap() {
        let at = |lo, hi| Span { estimate: lo, lo, hi };
        let pool = LatePool { from: at(100, 110), until: at(200, 210) };
        for (begun, ended, expected) in [
            (at(50, 60), at(300, 310), true),
            (at(150, 160), at(170, 180), true),
            (at(50, 60), at(111, 120), true),
            (at(50, 60), at(110, 120), false),
            (at(190, 199), at(300, 310), true),
            (at(195, 200), at(300, 310), false),
            (at(210, 220), at(300, 310), false),
        ] {
            assert_eq!(pool.overlaps(begun, ended), expected, "{begun:?} {ended:?}");
        }
    }

    #[test]
    fn of_many_traces_the_first_are_named_and_all_are_counted() {
        let trace = |id| LateTrace { kind: 0, id, original: None, occurrence: 0 };
        let mut all = Spanning::default();
        for id in 0..20 {
            all.append(Spanning { count: 1, longest_ticks: 100 - id, traces: vec![trace(id)] });
        }
        let named: Vec<i64> = all.traces.iter().map(|trace| trace.id).collect();
        assert_eq!((all.count, all.longest_ticks, named), (20, 100, (0..8).collect()));
    }
}
