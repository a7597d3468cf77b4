//! Everything that is counted of a run's traces, in one sink.

use tickscope_store::KeyedReader;
use tickscope_trace::{Durations, Layout, Reconstruction, StageRole, StageTally, Traces, reconstruct, tally};

use crate::auxiliary_clocks::Widths;
use crate::error::Error;
use crate::inputs::Inputs;
use crate::passages::PassageSummary;
use crate::scan::{Part, Piece, Sink};
use crate::truth::Truth;

/// Counts over some traces.
#[derive(Clone)]
pub(crate) struct Counts {
    /// By stage.
    pub tallies: Vec<StageTally>,
    /// By point.
    pub published: Vec<Reconstruction>,
    /// By clock other than the counters.
    pub widths: Vec<Widths>,
    /// By point: index into `widths`.
    clock_of_point: Vec<Option<usize>>,
    pub truth: Option<Truth>,
    /// Ids that passed some point more than once.
    pub passages: PassageSummary,
    /// Traces whose path stages do not sum to the whole.
    pub sum_mismatches: u64,
    /// Ids that passed every point of some way.
    pub complete: u64,
}

impl Counts {
    pub(crate) fn none(inputs: &Inputs, readers: &[KeyedReader], truth: Option<Truth>) -> Self {
        Self {
            tallies: vec![StageTally::default(); inputs.layout.stages().len()],
            published: vec![Reconstruction::default(); inputs.layout.points().len()],
            widths: vec![Widths::default(); inputs.auxiliary_clocks.len()],
            clock_of_point: inputs.clock_of_point.clone(),
            truth,
            passages: PassageSummary::none(&inputs.layout, readers),
            sum_mismatches: 0,
            complete: 0,
        }
    }
}

impl Sink for Counts {
    type Part = Self;

    fn part(&self) -> Self {
        Self {
            tallies: vec![StageTally::default(); self.tallies.len()],
            published: vec![Reconstruction::default(); self.published.len()],
            widths: vec![Widths::default(); self.widths.len()],
            clock_of_point: self.clock_of_point.clone(),
            truth: self.truth.as_ref().map(Truth::uncounted),
            passages: self.passages.uncounted(),
            sum_mismatches: 0,
            complete: 0,
        }
    }

    fn merge(&mut self, later: Self) -> Result<(), Error> {
        self.tallies.iter_mut().zip(&later.tallies).for_each(|(all, more)| all.merge(more));
        self.published.iter_mut().zip(&later.published).for_each(|(all, more)| all.merge(*more));
        self.widths.iter_mut().zip(&later.widths).for_each(|(all, more)| all.merge(more));
        if let (Some(truth), Some(more)) = (&mut self.truth, &later.truth) {
            truth.known += more.known;
            truth.inside += more.inside;
        }
        self.passages.merge(&later.passages);
        self.sum_mismatches += later.sum_mismatches;
        self.complete += later.complete;
        Ok(())
    }
}

impl Part for Counts {
    fn add(&mut self, &Piece { layout, clocks, traces, durations, .. }: &Piece<'_>) -> Result<(), Error> {
        tally(layout, clocks, traces, durations, &mut self.tallies);
        if let Some(truth) = &mut self.truth {
            truth.compare(layout, traces, durations);
        }
        reconstruct(clocks, traces, durations, &mut self.published);
        for (point, clock) in self.clock_of_point.iter().enumerate() {
            if let (Some(clock), Some(stamps)) = (clock, durations.own(point)) {
                self.widths[*clock].add(stamps);
            }
        }
        self.passages.add(traces);
        self.sum_mismatches += mismatches(layout, traces, durations);
        let complete = layout.complete_rows(traces.points()).into_iter().zip(traces.occurrences());
        self.complete += complete.filter(|&(complete, &occurrence)| complete && occurrence == 0).count() as u64;
        Ok(())
    }
}

/// Traces whose path stages do not sum to the whole exactly: there are none, and the table says that it was looked at.
fn mismatches(layout: &Layout, traces: &Traces, durations: &Durations) -> u64 {
    let rows = 0..traces.len();
    let estimates = |stage: usize| durations.stages()[stage].estimate.parts(rows.clone());
    let wholes = layout.stages().iter().enumerate().filter(|(_, stage)| stage.role == StageRole::EndToEnd);
    let mut differs = vec![false; traces.len()];
    for (whole, stage) in wholes {
        let (mut rest, mut has_all) = (vec![0_i64; traces.len()], vec![true; traces.len()]);
        if let Some((estimates, _)) = estimates(whole) {
            rest.copy_from_slice(estimates);
        }
        for part in layout.route(stage) {
            let Some((estimates, valid)) = estimates(part) else {
                has_all.fill(false);
                break;
            };
            rest.iter_mut().zip(estimates).for_each(|(rest, &estimate)| *rest = rest.wrapping_sub(estimate));
            has_all.iter_mut().zip(valid).for_each(|(has_all, &valid)| *has_all &= valid);
        }
        let has_whole = |row: usize| durations.stages()[whole].estimate.get(row).is_some();
        let of_row = |row: usize| has_all[row] && (rest[row] != 0 || !has_whole(row));
        differs.iter_mut().enumerate().for_each(|(row, differs)| *differs |= of_row(row));
    }
    differs.into_iter().filter(|&differs| differs).count() as u64
}
