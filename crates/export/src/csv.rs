//! Comma-separated values. Stage names need no quoting: they consist of letters, digits and `_ - . > :` and space.

use std::io::{self, Write};

use tickscope_analysis::Span;
use tickscope_trace::TraceKey;

use crate::rows::{Format, Row};

/// Comma-separated values below a line of names.
pub const CSV: Format = Format {
    name: "CSV",
    head: "kind,id,occurrence,stage,outcome,estimate_ticks,lo_ticks,hi_ticks,estimate_ns,lo_ns,hi_ns\n",
    row,
};

fn row(text: &mut Vec<u8>, row: &Row<'_>) -> io::Result<()> {
    let TraceKey { kind, id, occurrence } = row.trace;
    write!(text, "{kind},{id},{occurrence},{},{},", row.stage, row.outcome.name())?;
    match &row.duration {
        Some((Span { estimate, lo, hi }, ns)) => {
            writeln!(text, "{estimate},{lo},{hi},{},{},{}", ns[0], ns[1], ns[2])
        }
        None => writeln!(text, ",,,,,"),
    }
}
