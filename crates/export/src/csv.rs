//! Comma-separated values: a row for every trace and stage.

use std::io::Write;

use tickscope_analysis::{Error, Outcome, Part, Piece, Scan, Sink, Span};
use tickscope_tick::Unit;

/// Decimals of a nanosecond.
const DECIMALS: u32 = 3;
const HEAD: &str = "kind,id,occurrence,stage,outcome,estimate_ticks,lo_ticks,hi_ticks,estimate_ns,lo_ns,hi_ns";

/// Writes rows to `W`, in the order of the traces; names of stages have no comma, nor anything else to quote.
pub struct Csv<W> {
    out: W,
    unit: Unit,
    /// Rows written, by outcome, in the order of [`Outcome::ALL`].
    pub rows: [u64; Outcome::ALL.len()],
}

/// Rows of one part, to be written in order.
pub struct CsvRows {
    text: Vec<u8>,
    unit: Unit,
    rows: [u64; Outcome::ALL.len()],
}

impl<W: Write> Csv<W> {
    /// Writes the durations of all traces of `scan`, below a line of names.
    pub fn write(scan: &Scan, mut out: W) -> Result<Self, Error> {
        writeln!(out, "{HEAD}").map_err(cannot_write)?;
        let mut csv = Self { out, unit: Unit::nanoseconds(scan.hertz(), DECIMALS), rows: Default::default() };
        scan.stream(&mut csv)?;
        csv.out.flush().map_err(cannot_write)?;
        Ok(csv)
    }
}

impl<W: Write> Sink for Csv<W> {
    type Part = CsvRows;

    fn part(&self) -> CsvRows {
        CsvRows { text: Vec::new(), unit: self.unit, rows: Default::default() }
    }

    fn merge(&mut self, part: CsvRows) -> Result<(), Error> {
        self.rows.iter_mut().zip(part.rows).for_each(|(all, more)| *all += more);
        self.out.write_all(&part.text).map_err(cannot_write)
    }
}

impl Part for CsvRows {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        let (traces, unit) = (piece.traces, self.unit);
        for row in 0..traces.len() {
            for (at, stage) in piece.layout.stages().iter().enumerate() {
                let (outcome, span) = piece.outcome(at, row);
                self.rows[outcome as usize] += 1;
                let (kind, id, occurrence) = (traces.kinds()[row], traces.ids()[row], traces.occurrences()[row]);
                write!(self.text, "{kind},{id},{occurrence},{},{},", stage.name, outcome.name())
                    .and_then(|()| match span {
                        Some(Span { estimate, lo, hi }) => {
                            let ns = (unit.near(estimate), unit.down(lo), unit.up(hi));
                            writeln!(self.text, "{estimate},{lo},{hi},{},{},{}", ns.0, ns.1, ns.2)
                        }
                        None => writeln!(self.text, ",,,,,"),
                    })
                    .map_err(cannot_write)?;
            }
        }
        Ok(())
    }
}

fn cannot_write(error: std::io::Error) -> Error {
    Error::work(format!("cannot write the CSV: {error}"))
}
