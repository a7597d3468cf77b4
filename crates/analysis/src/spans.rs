//! A run's durations trace by trace, for who groups them otherwise than by stage: by kind, or by what rode along.
//!
//! Idea: the table's own layout, clocks and arithmetic, kept in memory with the raw ticks. Assumes: a run that fits there, some
//! hundred bytes a trace. Guarantees: every interval is the one that the table is made of. Deliberately absent: figures.

use tickscope_store::Run;
use tickscope_trace::{Apart, Clocks, Durations, Layout, StageDurations, StageTally, Traces, tally};

use crate::Query;
use crate::analysis::{Prepared, traces_of};
use crate::error::Error;
use crate::scan::marks;

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

/// A duration in ticks of the reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Lies in the interval.
    pub estimate: i64,
    /// No admissible duration is shorter.
    pub lo: i64,
    /// No admissible duration is longer.
    pub hi: i64,
}

/// The durations of every trace of `run`; of an id that passed more than once, those of its first passage.
pub fn spans(run: &Run, query: &Query) -> Result<Spans, Error> {
    let Prepared { layout, clocks, .. } = Prepared::of(run, query, None)?;
    let mut tallies = vec![StageTally::default(); layout.stages().len()];
    let mut all = Vec::new();
    for reader in traces_of(run, &layout)? {
        let rows = reader.read_all()?;
        let marks = marks(&rows)?;
        let traces = Traces::new(rows.kind, rows.id, rows.occurrence, rows.columns)
            .and_then(|traces| traces.with_marks(marks))
            .map_err(Error::work)?;
        let durations = Durations::of(&layout, &clocks, &traces).map_err(Error::work)?;
        tally(&layout, &clocks, &traces, &durations, &mut tallies);
        let first = (0..traces.len()).filter(|&row| traces.occurrences()[row] == 0);
        all.extend(first.map(|row| Spanned {
            kind: traces.kinds()[row],
            id: traces.ids()[row],
            ticks: traces.points().iter().map(|point| point.get(row)).collect(),
            stages: durations.stages().iter().map(|stage| Span::of(stage, row)).collect(),
        }));
    }
    Ok(Spans { traces: all, layout, clocks, tallies })
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

    /// How far two durations of a stage may be wrong against each other, in ticks of the reference, for traces that far apart.
    pub fn relative_ticks(&self, stage: usize, apart: Apart) -> Option<u64> {
        Some(self.tallies.get(stage)?.relative(&self.layout, &self.clocks, stage, apart))
    }
}

impl Span {
    fn of(stage: &StageDurations, row: usize) -> Option<Self> {
        let [estimate, lo, hi] = stage.columns().map(|column| column.get(row));
        Some(Self { estimate: estimate?, lo: lo?, hi: hi? })
    }
}
