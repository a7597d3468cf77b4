//! The traces that a page draws one by one: the worst, one that is typical, and some that never arrived.
//!
//! While millions are scanned, a heap keeps the slowest, and another those whose keys, mixed, are the smallest
//! numbers: a sample of all that passed. So memory is fixed, parts can be merged, and the choice is the same every
//! time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Serialize;
use tickscope_store::Run;
use tickscope_tick::printable;
use tickscope_trace::{Clocks, Column, Durations, Layout, Marks, StageDurations, StageRole, Traces};

use super::boxes::StageBox;
use crate::error::Error;

/// How many of the slowest are kept.
pub const MOST_WORST: usize = 1000;
/// How many that lack a point of the path are kept, the first ones.
const MOST_INCOMPLETE: usize = 100;
/// Among how many, taken from all at random, the typical one is looked for.
const SAMPLE: usize = 1024;

/// Traces to be drawn.
#[derive(Debug, Default, Serialize)]
pub struct KeptTraces {
    /// Traces with both ends of the path.
    pub measured: u64,
    /// Traces that lack a point of the path.
    pub lacking: u64,
    /// The one that took nearest to the median, of a sample of those with every point of the path.
    pub typical: Option<DrawnTrace>,
    /// Those that took longest from end to end, longest first.
    pub worst: Vec<DrawnTrace>,
    /// The first that lack a point of the path.
    pub incomplete: Vec<DrawnTrace>,
}

impl KeptTraces {
    /// Names what the ids are hashes of, where `run` kept it.
    pub(crate) fn name_originals(&mut self, run: &Run) -> Result<(), Error> {
        let mut all: Vec<&mut DrawnTrace> =
            self.typical.iter_mut().chain(&mut self.worst).chain(&mut self.incomplete).collect();
        let ids: Vec<i64> = all.iter().map(|trace| trace.id).collect();
        let known = run.originals_of(&ids)?;
        all.iter_mut().for_each(|trace| {
            trace.original = known.get(&trace.id).map(|original| printable(&original.to_string()).into_owned())
        });
        Ok(())
    }
}

/// An estimate in ticks of the reference, and how far below and above it the truth can lie. In JSON an array.
pub type Drawn = (i64, u64, u64);

/// One trace.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DrawnTrace {
    /// Class of the id.
    pub kind: i32,
    /// The id.
    pub id: i64,
    /// What the id is a hash of, where it was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original: Option<String>,
    /// Which passage of the id.
    pub occurrence: i32,
    /// When it began, in ticks of the reference after the first whole trace did; `None`: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begins_ticks: Option<i64>,
    /// By point: how long after the path's first point.
    pub since_first: Vec<Option<Drawn>>,
    /// By stage: how long it took.
    pub stages: Vec<Option<Drawn>>,
    /// The stage that made it slower than the median; `None` where no stage of the path is.
    pub cause: Option<Cause>,
}

/// The stage of the path that exceeds its own median most.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Cause {
    /// Index of the stage.
    pub stage: usize,
    /// By how many ticks.
    pub excess_ticks: i64,
    /// True if it is more than any other stage's, for all that the relative bounds allow.
    pub resolved: bool,
}

/// A trace as it was read.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Kept {
    end_to_end: i64,
    /// So that of equally slow ones the earlier id is the slower one.
    id: Reverse<i64>,
    kind: i32,
    occurrence: i32,
    ticks: Vec<Option<i64>>,
    /// [`Marks`] as text, which has an order.
    marks: Option<String>,
}

/// Keeps some traces while all are scanned.
#[derive(Clone, Debug, Default)]
pub(super) struct Keeper {
    measured: u64,
    lacking: u64,
    worst: BinaryHeap<Reverse<Kept>>,
    incomplete: Vec<Kept>,
    /// By the mixed key.
    sample: BinaryHeap<(u64, Kept)>,
}

impl Keeper {
    pub(super) fn add(&mut self, layout: &Layout, traces: &Traces, durations: &Durations) {
        let stages = layout.stages().iter().zip(durations.stages());
        let Some((whole, column)) = stages.into_iter().find(|(stage, _)| stage.role == StageRole::EndToEnd) else {
            return;
        };
        for row in (0..traces.len()).filter(|&row| !traces.repeats(row, [whole.from, whole.to])) {
            let complete = layout.is_complete(|point| traces.points()[point].get(row).is_some());
            if !complete {
                self.lacking += 1;
                if self.incomplete.len() < MOST_INCOMPLETE {
                    self.incomplete.push(Kept::read(traces, row, 0));
                }
            }
            if let Some(end_to_end) = column.estimate.get(row) {
                self.measured += 1;
                self.consider(traces, row, end_to_end, complete);
            }
        }
    }

    fn consider(&mut self, traces: &Traces, row: usize, end_to_end: i64, complete: bool) {
        // Almost none is kept of many: what it takes to see that has to be little.
        let slow = self.worst.len() < MOST_WORST
            || self.worst.peek().is_some_and(|Reverse(least)| end_to_end >= least.end_to_end);
        let mixed = mixed(traces.ids()[row], traces.kinds()[row], traces.occurrences()[row]);
        let drawn =
            complete && (self.sample.len() < SAMPLE || self.sample.peek().is_some_and(|&(most, _)| mixed <= most));
        if slow {
            self.keep_slow(Kept::read(traces, row, end_to_end));
        }
        if drawn {
            self.keep_drawn((mixed, Kept::read(traces, row, end_to_end)));
        }
    }

    fn keep_slow(&mut self, kept: Kept) {
        self.worst.push(Reverse(kept));
        if self.worst.len() > MOST_WORST {
            self.worst.pop();
        }
    }

    fn keep_drawn(&mut self, kept: (u64, Kept)) {
        self.sample.push(kept);
        if self.sample.len() > SAMPLE {
            self.sample.pop();
        }
    }

    /// Adds what was kept of later traces.
    pub(super) fn merge(&mut self, later: Self) {
        self.measured += later.measured;
        self.lacking += later.lacking;
        later.worst.into_iter().for_each(|Reverse(kept)| self.keep_slow(kept));
        later.sample.into_iter().for_each(|kept| self.keep_drawn(kept));
        let room = MOST_INCOMPLETE - self.incomplete.len();
        self.incomplete.extend(later.incomplete.into_iter().take(room));
    }

    /// The traces kept, with their durations; `begins`: when a trace began, by its ticks at all points.
    pub(super) fn finish(
        self,
        layout: &Layout,
        clocks: &Clocks,
        boxes: &[StageBox],
        relative_ticks: &[u64],
        begins: impl Fn(&[Option<i64>]) -> Option<i64>,
    ) -> Result<KeptTraces, Error> {
        let draw = |kept: Vec<Kept>| drawn(layout, clocks, boxes, relative_ticks, kept, &begins);
        let whole = layout.stages().iter().position(|stage| stage.role == StageRole::EndToEnd);
        let median = whole.and_then(|whole| boxes[whole].quantiles.as_ref()).map(|found| found.median.estimate);
        let typical = median.and_then(|median| {
            let sample = self.sample.into_iter().map(|(_, kept)| kept);
            sample.min_by_key(|kept| (kept.end_to_end.abs_diff(median), Reverse(kept.id), kept.kind, kept.occurrence))
        });
        let worst = self.worst.into_sorted_vec().into_iter().map(|Reverse(kept)| kept).collect();
        Ok(KeptTraces {
            measured: self.measured,
            lacking: self.lacking,
            typical: draw(typical.into_iter().collect())?.pop(),
            worst: draw(worst)?,
            incomplete: draw(self.incomplete)?,
        })
    }
}

impl Kept {
    fn read(traces: &Traces, row: usize, end_to_end: i64) -> Self {
        Self {
            end_to_end,
            id: Reverse(traces.ids()[row]),
            kind: traces.kinds()[row],
            occurrence: traces.occurrences()[row],
            ticks: traces.points().iter().map(|point| point.get(row)).collect(),
            marks: traces.marks(row).map(Marks::text),
        }
    }
}

/// A number that looks random, the same for the same trace (the finaliser of SplitMix64).
fn mixed(id: i64, kind: i32, occurrence: i32) -> u64 {
    let key = (id as u64) ^ (kind as u64).rotate_left(32) ^ (occurrence as u64).rotate_left(48);
    let step = |z: u64, shift: u32, factor: u64| (z ^ (z >> shift)).wrapping_mul(factor);
    let z = step(step(key.wrapping_add(0x9e37_79b9_7f4a_7c15), 30, 0xbf58_476d_1ce4_e5b9), 27, 0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn drawn(
    layout: &Layout,
    clocks: &Clocks,
    boxes: &[StageBox],
    relative_ticks: &[u64],
    kept: Vec<Kept>,
    begins: impl Fn(&[Option<i64>]) -> Option<i64>,
) -> Result<Vec<DrawnTrace>, Error> {
    let column = |point: usize| kept.iter().map(|kept| kept.ticks[point]).collect::<Column>();
    let traces = Traces::new(
        kept.iter().map(|kept| kept.kind).collect(),
        kept.iter().map(|kept| kept.id.0).collect(),
        kept.iter().map(|kept| kept.occurrence).collect(),
        (0..layout.points().len()).map(column).collect(),
    );
    let marks = kept.iter().enumerate();
    let marks = marks.filter_map(|(row, kept)| Some((row, Marks::parse(kept.marks.as_deref()?)?)));
    let traces = traces.and_then(|traces| traces.with_marks(marks)).map_err(Error::work)?;
    let since_first = Durations::since_first(layout, clocks, &traces).map_err(Error::work)?;
    let durations = Durations::of(layout, clocks, &traces).map_err(Error::work)?;
    let draw = |(row, kept): (usize, Kept)| {
        let stages: Vec<_> = durations.stages().iter().map(|stage| place(stage, row)).collect();
        DrawnTrace {
            kind: kept.kind,
            id: kept.id.0,
            original: None,
            begins_ticks: begins(&kept.ticks),
            occurrence: kept.occurrence,
            since_first: since_first.stages().iter().map(|point| place(point, row)).collect(),
            cause: cause(layout, boxes, relative_ticks, &stages),
            stages,
        }
    };
    Ok(kept.into_iter().enumerate().map(draw).collect())
}

fn place(durations: &StageDurations, row: usize) -> Option<Drawn> {
    let estimate = durations.estimate.get(row)?;
    // The estimate lies in the interval: both distances are none below 0.
    Some((estimate, estimate.abs_diff(durations.lo.get(row)?), durations.hi.get(row)?.abs_diff(estimate)))
}

/// Common errors of a stage shift its median too, so an excess is wrong by the relative bound at most.
fn cause(layout: &Layout, boxes: &[StageBox], relative: &[u64], stages: &[Option<Drawn>]) -> Option<Cause> {
    let path = layout.stages().iter().enumerate().filter(|(_, stage)| stage.role == StageRole::Path);
    let excess = path.filter_map(|(stage, _)| {
        let median = boxes[stage].quantiles.as_ref()?.median.estimate;
        Some((stage, stages[stage]?.0.saturating_sub(median)))
    });
    let excess: Vec<(usize, i64)> = excess.collect();
    let &(stage, excess_ticks) = excess.iter().max_by_key(|&&(stage, excess)| (excess, Reverse(stage)))?;
    if excess_ticks <= 0 {
        return None;
    }
    let least = i128::from(excess_ticks) - i128::from(relative[stage]);
    let others = excess.iter().filter(|&&(other, _)| other != stage);
    let resolved = least > 0
        && others.map(|&(other, excess)| i128::from(excess) + i128::from(relative[other])).all(|most| most < least);
    Some(Cause { stage, excess_ticks, resolved })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickscope_trace::{Clock, LayoutText, StageValues};

    fn layout() -> Layout {
        let path = ["a.x", "a.y", "a.z"].map(String::from).to_vec();
        LayoutText { path, ..LayoutText::default() }.parse(None).unwrap()
    }

    fn kept(ticks: &[[Option<i64>; 3]], relative: [u64; 3]) -> KeptTraces {
        kept_in_parts_of(1000, ticks, relative)
    }

    /// Traces kept of those with these ticks, in parts that are merged.
    fn kept_in_parts_of(rows: usize, ticks: &[[Option<i64>; 3]], relative: [u64; 3]) -> KeptTraces {
        let layout = layout();
        let clocks = Clocks::new(&layout, vec![Clock::Reference], &[("a".into(), 0)]).unwrap();
        let (mut all, mut values) = (Keeper::default(), vec![StageValues::default(); 3]);
        for (piece, ticks) in ticks.chunks(rows).enumerate() {
            let ids = (0..ticks.len()).map(|row| (piece * rows + row) as i64).collect();
            let points = (0..3).map(|point| ticks.iter().map(|ticks| ticks[point]).collect()).collect();
            let traces = Traces::new(vec![0; ticks.len()], ids, vec![0; ticks.len()], points).unwrap();
            let durations = Durations::of(&layout, &clocks, &traces).unwrap();
            let mut keeper = Keeper::default();
            keeper.add(&layout, &traces, &durations);
            all.merge(keeper);
            (0..3).for_each(|stage| values[stage].add(&layout, &traces, &durations, stage));
        }
        let boxes: Vec<_> =
            layout.stages().iter().zip(&mut values).map(|(stage, values)| StageBox::of(stage, values)).collect();
        all.finish(&layout, &clocks, &boxes, &relative, |ticks| ticks[0]).unwrap()
    }

    fn ids(traces: &[DrawnTrace]) -> Vec<i64> {
        traces.iter().map(|trace| trace.id).collect()
    }

    #[test]
    fn the_slowest_are_kept_in_their_order_whenever_they_come() {
        let took = |n: i64| (n * 7_919) % 5_000;
        let ticks: Vec<_> = (0..5_000).map(|n| [Some(0), Some(1), Some(took(n))]).collect();
        let kept = kept(&ticks, [0; 3]);
        let mut expected: Vec<i64> = (0..5_000).collect();
        expected.sort_by_key(|&n| Reverse(took(n)));
        assert_eq!(ids(&kept.worst), expected[..MOST_WORST]);
        assert_eq!((kept.measured, kept.lacking), (5_000, 0));
        let typical = kept.typical.unwrap().stages[2].unwrap().0;
        assert!((2_450..2_550).contains(&typical), "{typical}");
    }

    #[test]
    fn however_the_traces_are_parted_the_same_are_kept() {
        let hole = |n: i64| (n % 13 > 0).then_some(n % 50);
        let ticks: Vec<_> = (0..7_000).map(|n| [Some(0), hole(n), Some((n * 31) % 600)]).collect();
        let in_parts_of = |rows| format!("{:?}", kept_in_parts_of(rows, &ticks, [1; 3]));
        assert_eq!(in_parts_of(7_000), in_parts_of(900));
        assert_eq!(in_parts_of(7_000), in_parts_of(64));
    }

    #[test]
    fn of_equally_slow_ones_the_first_are_kept() {
        let kept = kept(&vec![[Some(0), Some(1), Some(2)]; 3_000], [0; 3]);
        assert_eq!(ids(&kept.worst), (0..MOST_WORST as i64).collect::<Vec<_>>());
    }

    #[test]
    fn a_trace_with_a_hole_is_shown_among_the_incomplete_and_ranked_where_it_can_be() {
        let ticks = [[Some(0), None, Some(9)], [Some(0), Some(1), None], [Some(0), Some(1), Some(2)]];
        let kept = kept(&ticks, [0; 3]);
        assert_eq!((kept.measured, kept.lacking), (2, 2));
        assert_eq!((ids(&kept.worst), ids(&kept.incomplete)), (vec![0, 2], vec![0, 1]));
        assert_eq!(kept.worst[0].since_first, [Some((0, 0, 0)), None, Some((9, 1, 1))]);
        assert_eq!(kept.typical.map(|trace| trace.id), Some(2), "a trace with a hole is no typical one");
    }

    #[test]
    fn a_cause_is_resolved_only_beyond_both_relative_bounds() {
        let usual = [Some(0), Some(100), Some(200)];
        let slow = [Some(0), Some(150), Some(270)];
        let all: Vec<_> = [usual; 10].into_iter().chain([slow]).collect();
        let cause = |relative| kept(&all, relative).worst[0].cause.unwrap();
        let stage = Cause { stage: 0, excess_ticks: 50, resolved: true };
        assert_eq!(cause([14, 15, 0]), stage, "50 - 14 is more than 20 + 15");
        assert_eq!(cause([15, 15, 0]), Cause { resolved: false, ..stage });
        assert_eq!(kept(&[usual; 10], [0; 3]).worst[0].cause, None);
    }
}
