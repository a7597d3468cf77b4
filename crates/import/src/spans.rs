//! Spans of OpenTelemetry: OTLP's protobuf, "TracesData" or the body of an export request.
//!
//! A time's column is `NAME start` or `NAME end`, of the spans of that name; the id's column is `trace`, the last eight
//! bytes of the trace's id, or the name of an attribute that is a whole number, as those of kind and value are. Spans
//! of other names, and of other services than the one that is named, are counted. Each span is two stamps at most, in
//! the order of the file.
//!
//! A span that tickscope exported says how far its duration may be off. Readings are as wide as the widest of those
//! that are taken, so that no duration is told to be surer than it was.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;

use crate::error::Error;
use crate::form::{Table, Unit, shortened};
use crate::records::Record;

/// Bytes of a file at most: a message is held whole.
const MOST_BYTES: u64 = 1 << 30;
/// A span that may be off by more says nothing of its duration: a clock that moves so seldom measures nothing.
const MOST_WIDTH_NS: u64 = 1 << 40;
/// What the id's column is called.
const ID: &str = "trace";

/// The times of one file that are of the table's points.
pub(crate) struct Spans {
    stamped: std::vec::IntoIter<Stamped>,
    columns: usize,
    number: u64,
    others: u64,
    width_ns: u64,
}

/// A time of a span.
struct Stamped {
    /// Of the trace, or attributes: in the order in which the table wants them.
    keys: Vec<i64>,
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
    if table.clock.unit != Unit::Ns {
        return Err("expected times of spans in ns, found another unit. Leave `unit` out".into());
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
        let mut reading = Reading::of(table, &times);
        reading.traces(&bytes).map_err(|why| {
            let at = reading.spans;
            Error::input(format_args!("{}: span {at}", table.file.display()), why)
        })?;
        let Reading { stamped, others, width_ns, .. } = reading;
        if width_ns > MOST_WIDTH_NS {
            let found = format!(
                "expected spans with bounds of at most {MOST_WIDTH_NS} ns, found {width_ns}. Export a run whose nodes \
                 are related"
            );
            return Err(Error::input(table.file.display(), found));
        }
        Ok(Self { stamped: stamped.into_iter(), columns: times.len(), number: 0, others, width_ns })
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn others(&self) -> u64 {
        self.others
    }

    /// How wide a reading has to be for every duration to be as far off as its span says; 1: none says so.
    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    pub fn next<'a>(&mut self) -> Option<Record<'a>> {
        let Stamped { keys, column, ns, span } = self.stamped.next()?;
        self.number = span;
        let mut cells: Vec<Cow<'a, str>> = keys.iter().map(|key| key.to_string().into()).collect();
        cells.extend((0..self.columns).map(|_| Cow::Borrowed("")));
        cells[keys.len() + column] = ns.to_string().into();
        Some(cells)
    }
}

/// A file as far as it is read.
struct Reading<'a> {
    times: &'a [TimeOf],
    service: Option<&'a str>,
    /// Which of trace and attributes say what a span is of.
    keys: Vec<String>,
    /// Ids by their last eight bytes, where these are asked for.
    traces: HashMap<i64, [u8; 8]>,
    stamped: Vec<Stamped>,
    spans: u64,
    others: u64,
    width_ns: u64,
}

/// A span as far as it is read.
#[derive(Default)]
struct Span<'a> {
    trace: &'a [u8],
    name: &'a [u8],
    ends: [Option<u64>; 2],
    /// Its attributes that are whole numbers.
    numbers: Vec<(&'a [u8], i64)>,
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

impl<'t> Reading<'t> {
    fn of(table: &'t Table, times: &'t [TimeOf]) -> Self {
        Self {
            times,
            service: table.service.as_deref(),
            keys: table.keys(),
            traces: HashMap::new(),
            stamped: Vec::new(),
            spans: 0,
            others: 0,
            width_ns: 1,
        }
    }

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
                    if let (b"service.name", Any::Text(text)) = (key, text) {
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
        let span = Span::of(bytes)?;
        let wanted = |time: &&TimeOf| time.name.as_bytes() == span.name && !is_other;
        if !self.times.iter().any(|time| wanted(&time)) {
            self.others += 1;
            return Ok(());
        }
        let keys = self.keys.iter().map(|key| match key.as_str() {
            ID => trace(&mut self.traces, span.trace),
            key => span.number(key).ok_or_else(|| {
                let key = shortened(key);
                format!("expected an attribute '{key}', a whole number, found none. Name another, or {ID} as the id")
            }),
        });
        let keys: Vec<i64> = keys.collect::<Result<_, String>>()?;
        for (column, time) in self.times.iter().enumerate().filter(|(_, time)| wanted(time)) {
            let ns = span.ends[usize::from(!time.is_start)].ok_or_else(|| {
                let (side, name) = (if time.is_start { "start" } else { "end" }, shortened(&time.name));
                format!("expected the {side} of the span '{name}', found none. Export it again once it has ended")
            })?;
            self.stamped.push(Stamped { keys: keys.clone(), column, ns, span: self.spans });
        }
        self.width_ns = self.width_ns.max(span.width_ns()?);
        Ok(())
    }
}

/// The last eight bytes of a trace's id, which no other of these traces may have.
fn trace(traces: &mut HashMap<i64, [u8; 8]>, id: &[u8]) -> Result<i64, String> {
    let id: [u8; 16] =
        id.try_into().map_err(|_| format!("expected a trace's id of 16 bytes, found {}. Export it again", id.len()))?;
    let (first, last) = id.split_first_chunk::<8>().expect("sixteen bytes");
    let (first, last) = (*first, last.try_into().expect("eight bytes"));
    let last = i64::from_be_bytes(last);
    if *traces.entry(last).or_insert(first) == first {
        return Ok(last);
    }
    Err(format!(
        "expected traces whose ids differ in their last eight bytes, found two with {last:016x}. Name attributes that \
         tell them apart: of what tickscope exported, id = \"tickscope.id\" and kind = \"tickscope.kind\""
    ))
}

impl<'a> Span<'a> {
    fn of(bytes: &'a [u8]) -> Result<Self, String> {
        let mut span = Self::default();
        fields(bytes, |field, value| {
            match (field, value) {
                (1, Value::Bytes(id)) => span.trace = id,
                (5, Value::Bytes(text)) => span.name = text,
                (7, Value::Number(ns)) => span.ends[0] = Some(ns),
                (8, Value::Number(ns)) => span.ends[1] = Some(ns),
                (9, Value::Bytes(pair)) => {
                    if let (key, Any::Number(number)) = attribute(pair)? {
                        span.numbers.push((key, number));
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(span)
    }

    fn number(&self, key: &str) -> Option<i64> {
        self.numbers.iter().find(|(known, _)| *known == key.as_bytes()).map(|(_, number)| *number)
    }

    /// How wide its ends have to be to hold the interval that it says its duration lies in. Its start was rounded down
    /// and its end up, as the readings of other spans' ends may have been that a duration is taken between. 1: it
    /// says no interval.
    fn width_ns(&self) -> Result<u64, String> {
        const BOTH_ROUNDED: i128 = 2;
        let [lo, hi] = ["tickscope.lo_ns", "tickscope.hi_ns"].map(|key| self.number(key).map(i128::from));
        let width = match (self.ends, lo, hi) {
            (_, None, None) => Some(1),
            ([Some(start), Some(end)], Some(lo), Some(hi)) => {
                let duration = i128::from(end) - i128::from(start);
                u64::try_from(BOTH_ROUNDED.max(hi - duration).max(duration - lo)).ok()
            }
            _ => None,
        };
        width.ok_or_else(|| {
            let name = shortened(&String::from_utf8_lossy(self.name));
            format!(
                "expected the span '{name}' with both ends, tickscope.lo_ns and tickscope.hi_ns, each within 2^64 ns \
                 of its duration, or with neither of the two, found another. Export it again"
            )
        })
    }
}

/// The value of an attribute.
enum Any<'a> {
    Text(&'a [u8]),
    Number(i64),
    Other,
}

/// The key of an attribute, and its value.
fn attribute(bytes: &[u8]) -> Result<(&[u8], Any<'_>), String> {
    let (mut key, mut within, mut found_value) = (&[][..], &[][..], Any::Other);
    fields(bytes, |field, value| {
        match (field, value) {
            (1, Value::Bytes(found)) => key = found,
            (2, Value::Bytes(found)) => within = found,
            _ => {}
        }
        Ok(())
    })?;
    fields(within, |field, value| {
        match (field, value) {
            (1, Value::Bytes(found)) => found_value = Any::Text(found),
            (3, Value::Number(found)) => found_value = Any::Number(found.cast_signed()),
            _ => {}
        }
        Ok(())
    })?;
    Ok((key, found_value))
}
