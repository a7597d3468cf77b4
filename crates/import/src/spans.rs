//! Spans of OpenTelemetry: OTLP's protobuf, "TracesData" or the body of an export request.
//!
//! A time's column is `NAME start` or `NAME end`, of the spans of that name; the id's column is `trace`, the last eight
//! bytes of the trace's id. Spans of other names, and of other services than the one that is named, are counted.
//! Each span is two stamps at most, in the order of the file.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;

use crate::error::Error;
use crate::form::{Table, shortened};
use crate::records::Record;

/// Bytes of a file at most: a message is held whole.
const MOST_BYTES: u64 = 1 << 30;
/// What the id's column is called.
const ID: &str = "trace";

/// The times of one file that are of the table's points.
pub(crate) struct Spans {
    stamped: std::vec::IntoIter<Stamped>,
    keys: usize,
    columns: usize,
    number: u64,
    others: u64,
}

/// A time of a span.
struct Stamped {
    id: i64,
    /// Index of its column among the times.
    column: usize,
    ns: u64,
    /// Number of the span in the file.
    span: u64,
}

/// A column of times.
struct TimeOf {
    name: String,
    is_start: bool,
}

impl TimeOf {
    fn of(text: &str) -> Option<Self> {
        let (name, side) = text.rsplit_once(' ')?;
        let is_start = match side {
            "start" => true,
            "end" => false,
            _ => return None,
        };
        Some(Self { name: name.into(), is_start })
    }
}

/// Checks what a mapping says of the spans of a table.
pub(crate) fn check(table: &Table) -> Result<(), String> {
    if let Some(other) = table.keys().into_iter().find(|key| key != ID) {
        return Err(format!("expected {ID} as the id of spans, the only one they have, found '{other}'. Correct it"));
    }
    for time in table.times_wanted() {
        TimeOf::of(&time).ok_or_else(|| {
            format!("expected times of spans, \"NAME start\" or \"NAME end\", found '{time}'. Correct it")
        })?;
    }
    Ok(())
}

impl Spans {
    pub fn of(input: File, table: &Table) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        let unreadable = |error| Error::unreadable(&table.file, &error);
        input.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > MOST_BYTES {
            let found = format!("expected at most {MOST_BYTES} bytes of spans, found more. Split the file");
            return Err(Error::input(table.file.display(), found));
        }
        let times: Vec<TimeOf> = table.times_wanted().iter().filter_map(|time| TimeOf::of(time)).collect();
        let mut reading =
            Reading { times: &times, service: table.service.as_deref(), stamped: Vec::new(), spans: 0, others: 0 };
        reading.traces(&bytes).map_err(|why| {
            let at = reading.spans;
            Error::input(format_args!("{}: span {at}", table.file.display()), why)
        })?;
        let Reading { stamped, others, .. } = reading;
        let (keys, columns) = (table.keys().len(), times.len());
        Ok(Self { stamped: stamped.into_iter(), keys, columns, number: 0, others })
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn others(&self) -> u64 {
        self.others
    }

    pub fn next<'a>(&mut self) -> Option<Record<'a>> {
        let Stamped { id, column, ns, span } = self.stamped.next()?;
        self.number = span;
        let mut cells: Vec<Cow<'a, str>> = vec![id.to_string().into(); self.keys];
        cells.extend((0..self.columns).map(|_| Cow::Borrowed("")));
        cells[self.keys + column] = ns.to_string().into();
        Some(cells)
    }
}

/// A file as far as it is read.
struct Reading<'a> {
    times: &'a [TimeOf],
    service: Option<&'a str>,
    stamped: Vec<Stamped>,
    spans: u64,
    others: u64,
}

/// The value of a field.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

const CUT_OFF: &str = "expected a message of OTLP's protobuf, found one that ends within a field: the file was cut \
                       off, or is none. Export it again, as protobuf and uncompressed";

/// Hands each field of a message to `take`.
fn fields<'a>(mut bytes: &'a [u8], mut take: impl FnMut(u64, Value<'a>) -> Result<(), String>) -> Result<(), String> {
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut bytes)?),
            1 => Value::Number(u64::from_le_bytes(taken(&mut bytes, 8)?.try_into().expect("eight bytes"))),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).map_err(|_| CUT_OFF)?;
                Value::Bytes(taken(&mut bytes, length)?)
            }
            5 => Value::Number(u32::from_le_bytes(taken(&mut bytes, 4)?.try_into().expect("four bytes")).into()),
            _ => return Err(CUT_OFF.into()),
        };
        take(tag >> 3, value)?;
    }
    Ok(())
}

fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = taken(bytes, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(CUT_OFF.into())
}

fn taken<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], String> {
    let (found, rest) = bytes.split_at_checked(length).ok_or(CUT_OFF)?;
    *bytes = rest;
    Ok(found)
}

impl Reading<'_> {
    fn traces(&mut self, bytes: &[u8]) -> Result<(), String> {
        fields(bytes, |field, value| match (field, value) {
            (1, Value::Bytes(resource)) => self.resource(resource),
            _ => Ok(()),
        })
    }

    fn resource(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut service = None;
        fields(bytes, |field, value| match (field, value) {
            (1, Value::Bytes(resource)) => fields(resource, |field, value| match (field, value) {
                (1, Value::Bytes(pair)) => {
                    let (key, text) = attribute(pair)?;
                    if key == b"service.name" {
                        service = Some(text.to_vec());
                    }
                    Ok(())
                }
                _ => Ok(()),
            }),
            _ => Ok(()),
        })?;
        let is_other = self.service.is_some_and(|wanted| service.as_deref() != Some(wanted.as_bytes()));
        fields(bytes, |field, value| match (field, value) {
            (2, Value::Bytes(scope)) => fields(scope, |field, value| match (field, value) {
                (2, Value::Bytes(span)) => self.span(span, is_other),
                _ => Ok(()),
            }),
            _ => Ok(()),
        })
    }

    fn span(&mut self, bytes: &[u8], is_other: bool) -> Result<(), String> {
        self.spans += 1;
        let (mut trace, mut name, mut ends) = (&[][..], &[][..], [None; 2]);
        fields(bytes, |field, value| {
            match (field, value) {
                (1, Value::Bytes(id)) => trace = id,
                (5, Value::Bytes(text)) => name = text,
                (7, Value::Number(ns)) => ends[0] = Some(ns),
                (8, Value::Number(ns)) => ends[1] = Some(ns),
                _ => {}
            }
            Ok(())
        })?;
        let wanted = |time: &&TimeOf| time.name.as_bytes() == name && !is_other;
        if !self.times.iter().any(|time| wanted(&time)) {
            self.others += 1;
            return Ok(());
        }
        let id = trace
            .last_chunk::<8>()
            .filter(|_| trace.len() == 16)
            .ok_or_else(|| format!("expected a trace's id of 16 bytes, found {}. Export it again", trace.len()))?;
        let id = i64::from_be_bytes(*id);
        for (column, time) in self.times.iter().enumerate().filter(|(_, time)| wanted(time)) {
            let ns = ends[usize::from(!time.is_start)].ok_or_else(|| {
                let (side, name) = (if time.is_start { "start" } else { "end" }, shortened(&time.name));
                format!("expected the {side} of the span '{name}', found none. Export it again once it has ended")
            })?;
            self.stamped.push(Stamped { id, column, ns, span: self.spans });
        }
        Ok(())
    }
}

/// The key of an attribute, and its value where that is a text.
fn attribute(bytes: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let (mut key, mut text) = (&[][..], &[][..]);
    let mut within = &[][..];
    fields(bytes, |field, value| {
        match (field, value) {
            (1, Value::Bytes(found)) => key = found,
            (2, Value::Bytes(found)) => within = found,
            _ => {}
        }
        Ok(())
    })?;
    fields(within, |field, value| {
        if let (1, Value::Bytes(found)) = (field, value) {
            text = found;
        }
        Ok(())
    })?;
    Ok((key, text))
}
