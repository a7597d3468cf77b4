//! The records of a file, each as cells under one line of names: what a table of text, a log of events, a capture of
//! packets, spans, Parquet and Arrow have in common.
//!
//! Guarantees: memory does not grow with the file, but for spans, whose format wants a whole message; what is wrong is
//! told with its line or its number.

use std::borrow::Cow;
use std::fs::File;

use crate::arrow_rows::ArrowRows;
use crate::cells::{Separator, cells};
use crate::error::Error;
use crate::events::Events;
use crate::form::{Table, Times, shortened};
use crate::lines::Lines;
use crate::packets::{self, Packets};
use crate::parquet_rows::ParquetRows;
use crate::spans::{self, Spans};

/// How a file is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// A line a record, cells between separators.
    Cells(Separator),
    /// `perf script` or ftrace's text: a line an event.
    Events,
    /// pcap: a packet a record.
    Packets,
    /// OTLP's protobuf: a span a record.
    Spans,
    /// Parquet.
    Parquet,
    /// Arrow's IPC.
    Arrow,
}

impl Form {
    /// Checks what a mapping says of a table of that form.
    pub fn check(self, table: &Table) -> Result<(), String> {
        let is_sparse = matches!(self, Self::Events | Self::Packets | Self::Spans);
        if is_sparse && matches!(table.times, Times::Named { .. }) {
            return Err("expected points, a table of events, ports or spans by point, found point_column, which only \
                        tables have. Name each point"
                .into());
        }
        match self {
            Self::Packets => packets::check(table),
            Self::Spans => spans::check(table),
            _ => Ok(()),
        }
    }
}

/// The records of one file.
pub(crate) enum Records {
    Cells { lines: Lines<File>, separator: Separator, columns: usize },
    Events(Events<File>),
    Packets(Packets<File>),
    Spans(Spans),
    Parquet(ParquetRows),
    Arrow(ArrowRows),
}

/// One record.
pub(crate) type Record<'a> = Vec<Cow<'a, str>>;

impl Records {
    /// The records of a table, and the names of their cells.
    pub fn of(table: &Table, input: File) -> Result<(Self, Vec<String>), Error> {
        let wanted = || table.columns_wanted();
        Ok(match table.form {
            Form::Cells(separator) => {
                let mut lines = Lines::of(input, &table.file);
                let names = header(table, separator, &mut lines)?;
                (Self::Cells { lines, separator, columns: names.len() }, names)
            }
            Form::Events => (Self::Events(Events::of(input, table)), wanted()),
            Form::Packets => (Self::Packets(Packets::of(input, table)?), wanted()),
            Form::Spans => (Self::Spans(Spans::of(input, table)?), wanted()),
            Form::Parquet => {
                let (rows, names) = ParquetRows::of(input, table)?;
                (Self::Parquet(rows), names)
            }
            Form::Arrow => {
                let (rows, names) = ArrowRows::of(input, table)?;
                (Self::Arrow(rows), names)
            }
        })
    }

    /// The next record; what is wrong with it is told with its place.
    pub fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        match self {
            Self::Cells { lines, separator, columns } => {
                let (separator, columns) = (*separator, *columns);
                let Some(line) = lines.next()? else { return Ok(None) };
                // Borrowed cells would keep the lines from saying where they are.
                let line = line.to_owned();
                let found = cells(&line, separator).map_err(|why| lines.wrong(why))?;
                if found.len() != columns {
                    return Err(lines.wrong(format_args!(
                        "expected {columns} cells, found {}: '{}'. Complete the line if the file was cut off, or \
                         correct `separator`",
                        found.len(),
                        shortened(&line)
                    )));
                }
                Ok(Some(found.into_iter().map(|cell| Cow::Owned(cell.into_owned())).collect()))
            }
            Self::Events(events) => events.next(),
            Self::Packets(packets) => packets.next(),
            Self::Spans(spans) => Ok(spans.next()),
            Self::Parquet(rows) => rows.next(),
            Self::Arrow(rows) => rows.next(),
        }
    }

    /// The place of the record that was read last, from 1.
    pub fn number(&self) -> u64 {
        match self {
            Self::Cells { lines, .. } => lines.number(),
            Self::Events(events) => events.number(),
            Self::Packets(packets) => packets.number(),
            Self::Spans(spans) => spans.number(),
            Self::Parquet(rows) => rows.number(),
            Self::Arrow(rows) => rows.number(),
        }
    }

    /// An error of the record that was read last.
    pub fn wrong(&self, table: &Table, message: impl std::fmt::Display) -> Error {
        Error::input(format_args!("{}:{}", table.file.display(), self.number()), message)
    }

    /// How wide the file says that a reading is, in ticks of the table's clock.
    pub fn width_ticks(&self) -> u64 {
        match self {
            Self::Spans(spans) => spans.width_ns(),
            _ => 1,
        }
    }

    /// Records of the file that are none of the table's, such as events that it does not name.
    pub fn others(&self) -> u64 {
        match self {
            Self::Events(events) => events.others(),
            Self::Packets(packets) => packets.others(),
            Self::Spans(spans) => spans.others(),
            Self::Cells { .. } | Self::Parquet(_) | Self::Arrow(_) => 0,
        }
    }
}

/// The names of the columns of a table of text.
pub(crate) fn header(table: &Table, separator: Separator, lines: &mut Lines<File>) -> Result<Vec<String>, Error> {
    if let Some(columns) = &table.columns {
        return Ok(columns.clone());
    }
    let found = lines
        .next()?
        .map(|line| cells(line, separator).map(|cells| cells.into_iter().map(String::from).collect::<Vec<_>>()));
    match found {
        Some(names) => names.map_err(|why| lines.wrong(why)),
        None => Err(Error::input(
            table.file.display(),
            "expected a line of columns' names, found an empty file. Name another",
        )),
    }
}
