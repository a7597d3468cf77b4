//! Folded stacks, a line a stack with its weight, which programs that draw flame graphs read.
//!
//! Idea: a frame for the whole, one for each node, one for each stage on the path. Its own weight is the total of all
//! lower ends in whole nanoseconds, rounded down; a frame on top of it weighs what is left up to the total of all
//! upper ends, rounded up. So a frame without the one on top is how long its stage took at least, and with it at most.
//!
//! Guarantees: both totals are outward; a stage whose total may be below zero is left out and counted, since no frame
//! has a weight below zero. Deliberately absent: stages off the path, which overlap it; single traces.

use std::io::Write;

use tickscope_analysis::{Error, Outcome, Part, Piece, Scan, Sink};
use tickscope_tick::Unit;
use tickscope_trace::{Layout, StageRole};

use crate::about::{Exported, LeftOut, Tally};
use crate::output::Output;

/// The frame that holds what the bounds of a stage leave open.
const OPEN: &str = "within the bounds";

/// Writes the totals of all path stages. `place` names `out` in errors.
pub fn write_folded(scan: &Scan, out: impl Write, place: &str) -> Result<Exported, Error> {
    let mut totals = Totals::none(scan.layout());
    scan.over(&mut totals)?;
    let unit = Unit::nanoseconds(scan.hertz(), 0);
    let mut left_out = totals.tally.without_a_duration(scan.layout());
    let mut output = Output { out, format: "stacks", place };
    for (stage, of) in scan.layout().stages().iter().enumerate() {
        let Total { lo, hi, count } = totals.stages[stage];
        let impossible = totals.tally.stages[stage][Outcome::Impossible as usize];
        let mut leave_out = |count, why| left_out.push(LeftOut { stage: of.name.clone(), count, why });
        match () {
            () if of.role != StageRole::Path => leave_out(count + impossible, "not on the path, which they overlap"),
            () if lo < 0 => leave_out(count, "their total may be below 0, which no frame can show"),
            () if count > 0 => {
                let node = &scan.layout().points()[of.from].place.node;
                let (lo, hi) = (unit.down(lo).digits(), unit.up(hi).digits());
                let stack = format!("{};{node};{}", tickscope_trace::END_TO_END, of.name);
                output.put(format!("{stack} {lo}\n{stack};{OPEN} {}\n", hi - lo).as_bytes())?;
            }
            () => {}
        }
        if impossible > 0 && of.role == StageRole::Path {
            leave_out(impossible, "impossible: below 0 as a whole");
        }
    }
    output.finish()?;
    left_out.retain(|left_out| left_out.count > 0);
    Ok(Exported { outcomes: totals.tally.outcomes(), left_out, notes: Vec::new() })
}

/// The totals of all stages.
struct Totals {
    stages: Vec<Total>,
    tally: Tally,
}

/// Sums over the traces that measured a stage, in ticks.
#[derive(Clone, Copy, Default)]
struct Total {
    lo: i128,
    hi: i128,
    count: u64,
}

impl Totals {
    fn none(layout: &Layout) -> Self {
        Self { stages: vec![Total::default(); layout.stages().len()], tally: Tally::of(layout) }
    }
}

impl Sink for Totals {
    type Part = Self;

    fn part(&self) -> Self {
        let tally = Tally { stages: vec![Default::default(); self.stages.len()] };
        Self { stages: vec![Total::default(); self.stages.len()], tally }
    }

    fn merge(&mut self, part: Self) -> Result<(), Error> {
        for (all, more) in self.stages.iter_mut().zip(part.stages) {
            all.lo += more.lo;
            all.hi += more.hi;
            all.count += more.count;
        }
        self.tally.merge(&part.tally);
        Ok(())
    }
}

impl Part for Totals {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        for row in 0..piece.traces.len() {
            for (stage, total) in self.stages.iter_mut().enumerate() {
                let (outcome, span) = piece.outcome(stage, row);
                self.tally.note(stage, outcome);
                if let (Outcome::Measured, Some(span)) = (outcome, span) {
                    total.lo += i128::from(span.lo);
                    total.hi += i128::from(span.hi);
                    total.count += 1;
                }
            }
        }
        Ok(())
    }
}
