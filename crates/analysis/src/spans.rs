//! A run's durations trace by trace, for who groups them otherwise than by stage: by kind, or by what rode along.
//!
//! Idea: the table's own layout, clocks and arithmetic, kept in memory with the raw ticks. Assumes: a run that fits
//! there, some hundred bytes a trace. Guarantees: every interval is the one that the table is made of. Deliberately
//! absent: figures.

use tickscope_store::Run;
use tickscope_trace::{Apart, Clocks, Layout, StageTally, tally};

use crate::Query;
use crate::error::Error;
use crate::inputs::Inputs;
use crate::scan::{Part, Piece, Scan, Sink};
use crate::span::Span;

/// All traces of a run.
pub struct Spans {
    /// In the order of the run's files.
    pub traces: Vec<Spanned>,
    layout: Layout,
    clocks: Clocks,
    tallies: Vec<StageTally>,
}

/// One trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spanned {
    /// Class of its id.
    pub kind: i32,
    /// Its id.
    pub id: i64,
    /// By point of the layout: the raw tick; `None`: not stamped there.
    pub ticks: Vec<Option<i64>>,
    /// By stage of the layout: its duration; `None`: an end is missing, or was refused.
    pub stages: Vec<Option<Span>>,
}

/// The durations of every trace of `run`; of an id that passed more than once, those of its first passage.
pub fn spans(run: &Run, query: &Query) -> Result<Spans, Error> {
    let scan = Scan::of(run, query)?;
    let mut all = Gathered { traces: Vec::new(), tallies: vec![StageTally::default(); scan.layout().stages().len()] };
    scan.over(&mut all)?;
    let Inputs { layout, clocks, .. } = scan.inputs;
    Ok(Spans { traces: all.traces, layout, clocks, tallies: all.tallies })
}

/// Traces in memory, and what is known of their stages.
struct Gathered {
    traces: Vec<Spanned>,
    tallies: Vec<StageTally>,
}

impl Sink for Gathered {
    type Part = Self;

    fn part(&self) -> Self {
        Self { traces: Vec::new(), tallies: vec![StageTally::default(); self.tallies.len()] }
    }

    fn merge(&mut self, later: Self) -> Result<(), Error> {
        self.traces.extend(later.traces);
        self.tallies.iter_mut().zip(&later.tallies).for_each(|(all, more)| all.merge(more));
        Ok(())
    }
}

impl Part for Gathered {
    fn add(&mut self, &Piece { layout, clocks, traces, durations, .. }: &Piece<'_>) -> Result<(), Error> {
        tally(layout, clocks, traces, durations, &mut self.tallies);
        let first = (0..traces.len()).filter(|&row| traces.occurrences()[row] == 0);
        self.traces.extend(first.map(|row| Spanned {
            kind: traces.kinds()[row],
            id: traces.ids()[row],
            ticks: traces.points().iter().map(|point| point.get(row)).collect(),
            stages: durations.stages().iter().map(|stage| Span::of(stage, row)).collect(),
        }));
        Ok(())
    }
}

impl Spans {
    /// Index of a stage of that name.
    pub fn stage(&self, name: &str) -> Option<usize> {
        self.layout.stages().iter().position(|stage| stage.name == name)
    }

    /// Index of a point of that full name.
    pub fn point(&self, name: &str) -> Option<usize> {
        self.layout.points().iter().position(|point| point.place.to_string() == name)
    }

    /// How far two durations of a stage may be wrong against each other, in ticks of the reference, for traces that
    /// far apart.
    pub fn relative_ticks(&self, stage: usize, apart: Apart) -> Option<u64> {
        Some(self.tallies.get(stage)?.relative(&self.layout, &self.clocks, stage, apart))
    }
}
