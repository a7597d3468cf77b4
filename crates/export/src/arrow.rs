//! A file of Arrow (<https://arrow.apache.org/docs/format/Columnar.html>, "IPC file format"): a row for every trace and
//! stage, as the CSV has it.
//!
//! Idea: a batch a piece of traces; names of stages and of outcomes are dictionaries ahead of them; what the run's
//! figures rest on is metadata of the schema. Guarantees: as the CSV's; ends in nanoseconds are outward as doubles.
//! Deliberately absent: compression; a column for each stage, which [`tickscope_analysis::durations`] gives.

mod flat;

use std::io::Write;

use tickscope_analysis::{Error, Outcome, Part, Piece, Scan, Sink, Span};
use tickscope_tick::Unit;
use tickscope_trace::TraceKey;

use crate::about::{About, Exported, Tally};
use crate::output::Output;
use flat::{At, Flat, Value};

/// Decimals of a nanosecond.
const DECIMALS: u32 = 3;
const MAGIC: &[u8; 8] = b"ARROW1\0\0";
const ALIGNED: usize = 8;
const GOES_ON: [u8; 4] = [0xff; 4];
/// "MetadataVersion.V5".
const VERSION: Value = Value::Short(4);

/// Members of the unions "MessageHeader" and "Type".
mod union {
    pub const SCHEMA: u8 = 1;
    pub const DICTIONARY: u8 = 2;
    pub const RECORDS: u8 = 3;
    pub const INT: u8 = 2;
    pub const FLOAT: u8 = 3;
    pub const TEXT: u8 = 5;
    /// "Precision.DOUBLE".
    pub const DOUBLE: i16 = 2;
}

/// A column, by what its values are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Int32,
    Int64,
    Double,
    /// Numbers into the dictionary of that number.
    Name(i64),
}

const COLUMNS: [(&str, Kind, bool); 11] = [
    ("kind", Kind::Int32, false),
    ("id", Kind::Int64, false),
    ("occurrence", Kind::Int32, false),
    ("stage", Kind::Name(0), false),
    ("outcome", Kind::Name(1), false),
    ("estimate_ticks", Kind::Int64, true),
    ("lo_ticks", Kind::Int64, true),
    ("hi_ticks", Kind::Int64, true),
    ("estimate_ns", Kind::Double, true),
    ("lo_ns", Kind::Double, true),
    ("hi_ns", Kind::Double, true),
];

/// Writes the durations of all traces of `scan`. `place` names `out` in errors.
pub fn write_arrow(scan: &Scan, about: &About, out: impl Write, place: &str) -> Result<Exported, Error> {
    let unit = Unit::nanoseconds(scan.hertz(), DECIMALS);
    let output = Output { out, format: "Arrow file", place };
    let mut file = File { output, bytes: 0, dictionaries: Vec::new(), batches: Vec::new() };
    file.put(MAGIC)?;
    let mut flat = Flat::default();
    let schema = schema(&mut flat, about);
    file.message(flat, (union::SCHEMA, schema), &[])?;
    let stages = scan.layout().stages().iter().map(|stage| stage.name.as_str()).collect::<Vec<_>>();
    for (number, names) in (0..).zip([stages, Outcome::ALL.map(Outcome::name).to_vec()]) {
        file.dictionary(number, &names)?;
    }
    let mut rows = Rows { file, unit, tally: Tally::of(scan.layout()) };
    scan.stream(&mut rows)?;
    let Rows { file, tally, .. } = rows;
    file.finish(about)?;
    Ok(Exported { outcomes: tally.outcomes(), left_out: Vec::new(), notes: Vec::new() })
}

/// The columns, and what the run's figures rest on.
fn schema(flat: &mut Flat, about: &About) -> At {
    let fields: Vec<At> = COLUMNS.map(|column| field(flat, column)).to_vec();
    let fields = flat.vector(&fields);
    let hertz = about.hertz.to_string();
    let all = [
        ("tickscope.run", about.run.clone()),
        ("tickscope.reference", about.reference.clone()),
        ("tickscope.hertz", hertz),
        ("tickscope.assumptions", about.assumptions.join("\n")),
        ("tickscope.findings", about.findings.join("\n")),
    ];
    let pairs: Vec<At> = all
        .iter()
        .map(|(key, value)| {
            let (key, value) = (flat.text(key), flat.text(value));
            flat.table(&[(0, Value::To(key)), (1, Value::To(value))])
        })
        .collect();
    let metadata = flat.vector(&pairs);
    flat.table(&[(1, Value::To(fields)), (2, Value::To(metadata))])
}

fn field(flat: &mut Flat, (name, kind, is_nullable): (&str, Kind, bool)) -> At {
    let int = |flat: &mut Flat, bits: i32| flat.table(&[(0, Value::Int(bits)), (1, Value::Byte(1))]);
    let (form, of, dictionary) = match kind {
        Kind::Int32 => (union::INT, int(flat, 32), None),
        Kind::Int64 => (union::INT, int(flat, 64), None),
        Kind::Double => (union::FLOAT, flat.table(&[(0, Value::Short(union::DOUBLE))]), None),
        Kind::Name(number) => {
            let index = int(flat, 32);
            let dictionary = flat.table(&[(0, Value::Long(number)), (1, Value::To(index))]);
            (union::TEXT, flat.table(&[]), Some(dictionary))
        }
    };
    let (name, children) = (flat.text(name), flat.vector(&[]));
    let mut fields = vec![
        (0, Value::To(name)),
        (1, Value::Byte(is_nullable.into())),
        (2, Value::Byte(form)),
        (3, Value::To(of)),
        (5, Value::To(children)),
    ];
    fields.extend(dictionary.map(|dictionary| (4, Value::To(dictionary))));
    flat.table(&fields)
}

/// The body of a batch as it grows: buffers, each from a multiple of eight on.
#[derive(Default)]
struct Body {
    bytes: Vec<u8>,
    /// Beginning and length of each.
    buffers: Vec<[i64; 2]>,
    /// Length and number of nulls of each column.
    columns: Vec<[i64; 2]>,
}

impl Body {
    fn buffer(&mut self, bytes: &[u8]) {
        self.buffers.push([self.bytes.len() as i64, bytes.len() as i64]);
        self.bytes.extend(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNED), 0);
    }

    /// A column of numbers; `valid`: a bit each, and how many are null.
    fn column<const N: usize>(&mut self, values: impl Iterator<Item = [u8; N]>, valid: Option<(&[u8], usize)>) {
        let bytes: Vec<u8> = values.flatten().collect();
        self.columns.push([(bytes.len() / N) as i64, valid.map_or(0, |(_, nulls)| nulls as i64)]);
        self.buffer(valid.map_or(&[], |(bits, _)| bits));
        self.buffer(&bytes);
    }

    /// "RecordBatch".
    fn batch(&self, flat: &mut Flat, rows: usize) -> At {
        let (columns, buffers) = (flat.structs(&self.columns), flat.structs(&self.buffers));
        flat.table(&[(0, Value::Long(rows as i64)), (1, Value::To(columns)), (2, Value::To(buffers))])
    }
}

/// A file as far as it is written.
struct File<'a, W> {
    output: Output<'a, W>,
    bytes: usize,
    /// Beginning, length of the metadata, length of the body, of each.
    dictionaries: Vec<[i64; 3]>,
    batches: Vec<[i64; 3]>,
}

impl<W: Write> File<'_, W> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.bytes += bytes.len();
        self.output.put(bytes)
    }

    /// Writes a message and its body; gives where it lies.
    fn message(&mut self, mut flat: Flat, (form, header): (u8, At), body: &[u8]) -> Result<[i64; 3], Error> {
        let length = body.len() as i64;
        let root =
            flat.table(&[(0, VERSION), (1, Value::Byte(form)), (2, Value::To(header)), (3, Value::Long(length))]);
        let metadata = flat.finish(root);
        let at = self.bytes as i64;
        self.put(&GOES_ON)?;
        self.put(&(metadata.len() as i32).to_le_bytes())?;
        self.put(&metadata)?;
        self.put(body)?;
        Ok([at, (GOES_ON.len() + 4 + metadata.len()) as i64, length])
    }

    fn dictionary(&mut self, number: i64, names: &[&str]) -> Result<(), Error> {
        let mut body = Body::default();
        let mut ends = vec![0_i32];
        names.iter().for_each(|name| ends.push(ends[ends.len() - 1] + name.len() as i32));
        body.columns.push([names.len() as i64, 0]);
        body.buffer(&[]);
        body.buffer(&ends.iter().flat_map(|end| end.to_le_bytes()).collect::<Vec<_>>());
        body.buffer(names.concat().as_bytes());
        let mut flat = Flat::default();
        let batch = body.batch(&mut flat, names.len());
        let header = flat.table(&[(0, Value::Long(number)), (1, Value::To(batch))]);
        let block = self.message(flat, (union::DICTIONARY, header), &body.bytes)?;
        self.dictionaries.push(block);
        Ok(())
    }

    fn finish(mut self, about: &About) -> Result<(), Error> {
        self.put(&GOES_ON)?;
        self.put(&0_i32.to_le_bytes())?;
        let mut flat = Flat::default();
        let schema = schema(&mut flat, about);
        let (dictionaries, batches) = (flat.structs(&self.dictionaries), flat.structs(&self.batches));
        let all = [(0, VERSION), (1, Value::To(schema)), (2, Value::To(dictionaries)), (3, Value::To(batches))];
        let root = flat.table(&all);
        let footer = flat.finish(root);
        self.put(&footer)?;
        self.put(&(footer.len() as i32).to_le_bytes())?;
        self.put(&MAGIC[..6])?;
        self.output.finish()
    }
}

/// All rows.
struct Rows<'a, W> {
    file: File<'a, W>,
    unit: Unit,
    tally: Tally,
}

/// Rows of one piece, column by column.
struct RowsPart {
    unit: Unit,
    tally: Tally,
    traces: Vec<TraceKey>,
    stages: Vec<(i32, i32)>,
    spans: Vec<Option<Span>>,
}

impl<W: Write> Sink for Rows<'_, W> {
    type Part = RowsPart;

    fn part(&self) -> RowsPart {
        let tally = Tally { stages: vec![Default::default(); self.tally.stages.len()] };
        RowsPart { unit: self.unit, tally, traces: Vec::new(), stages: Vec::new(), spans: Vec::new() }
    }

    fn merge(&mut self, part: RowsPart) -> Result<(), Error> {
        self.tally.merge(&part.tally);
        let body = part.body();
        let mut flat = Flat::default();
        let batch = body.batch(&mut flat, part.spans.len());
        let block = self.file.message(flat, (union::RECORDS, batch), &body.bytes)?;
        self.file.batches.push(block);
        Ok(())
    }
}

impl Part for RowsPart {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        for row in 0..piece.traces.len() {
            let trace = piece.traces.key(row);
            for stage in 0..self.tally.stages.len() {
                let (outcome, span) = piece.outcome(stage, row);
                self.tally.note(stage, outcome);
                self.traces.push(trace);
                self.stages.push((stage as i32, outcome as i32));
                self.spans.push(span);
            }
        }
        Ok(())
    }
}

impl RowsPart {
    fn body(&self) -> Body {
        let mut body = Body::default();
        let Self { unit, traces, stages, spans, .. } = self;
        body.column(traces.iter().map(|trace| trace.kind.to_le_bytes()), None);
        body.column(traces.iter().map(|trace| trace.id.to_le_bytes()), None);
        body.column(traces.iter().map(|trace| trace.occurrence.to_le_bytes()), None);
        body.column(stages.iter().map(|(stage, _)| stage.to_le_bytes()), None);
        body.column(stages.iter().map(|(_, outcome)| outcome.to_le_bytes()), None);
        let mut bits = vec![0_u8; spans.len().div_ceil(8)];
        spans
            .iter()
            .enumerate()
            .filter(|(_, span)| span.is_some())
            .for_each(|(row, _)| bits[row / 8] |= 1 << (row % 8));
        let valid = Some((&bits[..], spans.iter().filter(|span| span.is_none()).count()));
        let ends: [fn(&Span) -> i64; 3] = [|span| span.estimate, |span| span.lo, |span| span.hi];
        for end in ends {
            body.column(spans.iter().map(|span| span.as_ref().map_or(0, end).to_le_bytes()), valid);
        }
        let ns: [fn(Unit, &Span) -> f64; 3] = [
            |unit, span| unit.float_near(span.estimate),
            |unit, span| unit.float_down(span.lo),
            |unit, span| unit.float_up(span.hi),
        ];
        for end in ns {
            body.column(
                spans.iter().map(|span| span.as_ref().map_or(0.0, |span| end(*unit, span)).to_le_bytes()),
                valid,
            );
        }
        body
    }
}
