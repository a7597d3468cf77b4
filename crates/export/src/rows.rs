//! Formats of text with a row for every trace and stage, in the order of the traces.

use std::io::{self, Write};

use tickscope_analysis::{Error, Outcome, Part, Piece, Scan, Sink, Span};
use tickscope_tick::{Decimal, Unit};
use tickscope_trace::TraceKey;

use crate::output::Output;

/// Decimals of a nanosecond.
const DECIMALS: u32 = 3;

/// Rows written, by `Outcome as usize`.
pub type RowCounts = [u64; Outcome::ALL.len()];

/// A format, by what stands ahead of the rows and how one is written.
#[derive(Debug)]
pub struct Format {
    pub(crate) name: &'static str,
    pub(crate) head: &'static str,
    /// Writes one row with its end of line.
    pub(crate) row: fn(&mut Vec<u8>, &Row<'_>) -> io::Result<()>,
}

/// One stage of one trace.
pub(crate) struct Row<'a> {
    pub trace: TraceKey,
    pub stage: &'a str,
    pub outcome: Outcome,
    /// The duration in ticks of the reference, and its estimate, lower and upper end in nanoseconds, rounded outward.
    pub duration: Option<(Span, [Decimal; 3])>,
}

/// Writes the durations of all traces of `scan` in that format. `place` names `out` in errors.
pub fn write(scan: &Scan, out: impl Write, format: &'static Format, place: &str) -> Result<RowCounts, Error> {
    let part = RowsPart {
        text: Vec::new(),
        format,
        unit: Unit::nanoseconds(scan.hertz(), DECIMALS),
        counts: Default::default(),
    };
    let mut rows = Rows { output: Output { out, format: format.name, place }, all: part };
    rows.output.put(format.head.as_bytes())?;
    scan.stream(&mut rows)?;
    rows.output.finish()?;
    Ok(rows.all.counts)
}

struct Rows<'a, W> {
    output: Output<'a, W>,
    /// The counts of all parts that were written.
    all: RowsPart,
}

/// Rows of one part, to be written in order.
struct RowsPart {
    text: Vec<u8>,
    format: &'static Format,
    unit: Unit,
    counts: RowCounts,
}

impl<W: Write> Sink for Rows<'_, W> {
    type Part = RowsPart;

    fn part(&self) -> RowsPart {
        RowsPart { text: Vec::new(), counts: Default::default(), ..self.all }
    }

    fn merge(&mut self, part: RowsPart) -> Result<(), Error> {
        self.all.counts.iter_mut().zip(part.counts).for_each(|(all, more)| *all += more);
        self.output.put(&part.text)
    }
}

impl Part for RowsPart {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        let (traces, unit) = (piece.traces, self.unit);
        for row in 0..traces.len() {
            let trace = traces.key(row);
            for (at, stage) in piece.layout.stages().iter().enumerate() {
                let (outcome, span) = piece.outcome(at, row);
                self.counts[outcome as usize] += 1;
                let ns = |span: Span| [unit.near(span.estimate), unit.down(span.lo), unit.up(span.hi)];
                let row = Row { trace, stage: &stage.name, outcome, duration: span.map(|span| (span, ns(span))) };
                (self.format.row)(&mut self.text, &row).map_err(Error::work)?;
            }
        }
        Ok(())
    }
}
