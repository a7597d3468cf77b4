//! Arrow's IPC (<https://arrow.apache.org/docs/format/Columnar.html>), a file or a stream, row by row: whole numbers,
//! times and texts, by the names of their columns.
//!
//! Idea: a batch is read through one window for each buffer that is wanted, so that memory does not grow with it.
//! Guarantees: nothing is read from beyond its buffer; what is compressed, or of another type, is refused with what
//! helps, and so is a file that was cut off, since all writers mark the end. Deliberately absent: dictionaries, nested
//! columns.

use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::error::Error;
use crate::flat_table::FlatTable;
use crate::form::{Table, Unit, shortened};
use crate::lines;
use crate::records::Record;

const MAGIC: &[u8] = b"ARROW1";
/// Ahead of every message.
const GOES_ON: [u8; 4] = [0xff; 4];
/// Bytes of a message ahead of its columns, of a window, and of a column's name.
const MOST_HEAD: usize = 1 << 24;
const WINDOW: usize = 1 << 16;
const MOST_NAME: usize = 1024;
const MOST_COLUMNS: usize = 1 << 16;
const DAMAGED: &str = "expected Arrow's IPC, found a part of it that cannot be: the file is damaged. Write it again";
const CUT_OFF: &str = "expected the mark of Arrow's end, found none: the file was cut off. Write it again";

type Result<T> = std::result::Result<T, String>;

/// The rows of one file.
pub(crate) struct ArrowRows {
    input: File,
    file: PathBuf,
    /// Where the next message begins, and the file ends.
    next: u64,
    end: u64,
    columns: Vec<Column>,
    /// The batch that is read: its columns, `None` where they are not wanted; its rows, and the next of them.
    batch: Vec<Option<Cells>>,
    rows: u64,
    row: u64,
    number: u64,
}

struct Column {
    name: String,
    kind: Kind,
    is_wanted: bool,
}

/// What a column's buffers hold.
#[derive(Clone, Copy)]
enum Kind {
    /// Numbers of so many bytes.
    Whole { bytes: usize, is_signed: bool },
    /// Texts; each ends where a number of so many bytes says.
    Texts { bytes: usize },
    /// What no id, time or name is.
    Other { buffers: usize },
}

/// A column of a batch.
struct Cells {
    kind: Kind,
    valid: Option<Window>,
    /// Numbers, or ends of texts.
    numbers: Window,
    texts: Window,
}

/// A buffer of the file, a part of which is in memory.
#[derive(Default)]
struct Window {
    begin: u64,
    end: u64,
    at: u64,
    held: Vec<u8>,
}

/// A message: its kind, its table, and where its columns' bytes begin and end.
type Message = (u8, Vec<u8>, [u64; 2]);

impl ArrowRows {
    /// The rows, and the names of their columns.
    pub fn of(input: File, table: &Table) -> std::result::Result<(Self, Vec<String>), Error> {
        let end = input.metadata().map_err(|error| Error::unreadable(&table.file, &error))?.len();
        let (file, columns, batch) = (table.file.clone(), Vec::new(), Vec::new());
        let mut rows = Self { input, file, next: 0, end, columns, batch, rows: 0, row: 0, number: 0 };
        rows.begin(table).map_err(|why| Error::input(table.file.display(), why))?;
        let names = rows.columns.iter().map(|column| column.name.clone()).collect();
        Ok((rows, names))
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn next<'a>(&mut self) -> std::result::Result<Option<Record<'a>>, Error> {
        self.cells().map_err(|why| Error::input(format_args!("{}: row {}", self.file.display(), self.number), why))
    }

    fn cells<'a>(&mut self) -> Result<Option<Record<'a>>> {
        while self.row == self.rows {
            match self.message()? {
                None => return Ok(None),
                Some((2, ..)) => {} // a dictionary
                Some((3, head, body)) => self.take(&head, body)?,
                Some(_) => return Err(DAMAGED.into()),
            }
        }
        (self.row, self.number) = (self.row + 1, self.number + 1);
        let (input, row) = (&self.input, self.row - 1);
        let text = |cells: &mut Option<Cells>| {
            let text = cells.as_mut().map_or(Ok(None), |cells| cells.text(input, row))?;
            Ok(Cow::Owned(text.unwrap_or_default()))
        };
        self.batch.iter_mut().map(text).collect::<Result<_>>().map(Some)
    }

    /// Reads what lies ahead of the first batch.
    fn begin(&mut self, table: &Table) -> Result<()> {
        let head = self.bytes(0, 8)?;
        if head.starts_with(MAGIC) {
            let last = self.bytes(self.end - MAGIC.len() as u64, MAGIC.len())?;
            (last == MAGIC).then_some(()).ok_or(CUT_OFF)?;
            self.next = 8;
        } else if !head.starts_with(&GOES_ON) {
            let remedy = "Write it with pyarrow.ipc.new_file, or correct `format`";
            return Err(format!("expected Arrow's IPC, a file or a stream, found other bytes. {remedy}"));
        }
        let (_, schema, _) = self.message()?.filter(|(kind, ..)| *kind == 1).ok_or(DAMAGED)?;
        self.columns = columns(&schema, table).ok_or(DAMAGED)??;
        Ok(())
    }

    fn bytes(&self, at: u64, bytes: usize) -> Result<Vec<u8>> {
        let mut held = vec![0; bytes];
        self.input.read_exact_at(&mut held, at).map_err(|_| CUT_OFF)?;
        Ok(held)
    }

    /// The next message; `None`: the end.
    fn message(&mut self) -> Result<Option<Message>> {
        let head = self.bytes(self.next, 8)?;
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        if !head.starts_with(&GOES_ON) || length > MOST_HEAD {
            return Err(DAMAGED.into());
        }
        if length == 0 {
            return Ok(None);
        }
        let (head, begin) = (self.bytes(self.next + 8, length)?, self.next + 8 + length as u64);
        let about = FlatTable::root(&head).and_then(|table| Some((table.byte(1, 0)?, table.long(3)?)));
        let (kind, bytes) = about.ok_or(DAMAGED)?;
        self.next = begin.checked_add(bytes).filter(|&end| end <= self.end).ok_or(CUT_OFF)?;
        Ok(Some((kind, head, [begin, self.next])))
    }

    /// Takes a batch, whose rows come next.
    fn take(&mut self, head: &[u8], body: [u64; 2]) -> Result<()> {
        let table = FlatTable::root(head).and_then(|table| table.table(2)?).ok_or(DAMAGED)?;
        if table.table(3).ok_or(DAMAGED)?.is_some() {
            let remedy =
                "Write it with compression=None of pyarrow.ipc.IpcWriteOptions, \"uncompressed\" of write_feather";
            return Err(format!("expected columns without compression, found a batch with. {remedy}"));
        }
        (self.rows, self.batch) = self.batch(table, body).ok_or(DAMAGED)?;
        self.row = 0;
        Ok(())
    }

    fn batch(&self, table: FlatTable<'_>, [begin, end]: [u64; 2]) -> Option<(u64, Vec<Option<Cells>>)> {
        let rows = table.long(0)?;
        let (mut nodes, mut buffers) = (table.pairs(1)?, table.pairs(2)?);
        let mut batch = Vec::with_capacity(self.columns.len());
        for &Column { kind, is_wanted, .. } in &self.columns {
            let [length, nulls] = nodes.next()?;
            let mut windows: [Window; 3] = Default::default();
            let buffers_of_it = match kind {
                Kind::Whole { .. } => 2,
                Kind::Texts { .. } => 3,
                Kind::Other { buffers } => buffers,
            };
            for window in windows.iter_mut().take(buffers_of_it) {
                let [offset, bytes] = buffers.next()?;
                window.begin = begin.checked_add(offset)?;
                window.end = window.begin.checked_add(bytes).filter(|&to| to <= end)?;
            }
            let [valid, numbers, texts] = windows;
            let valid = (valid.begin < valid.end).then_some(valid);
            let is_whole = match kind {
                Kind::Whole { bytes, .. } => numbers.holds(rows, bytes),
                Kind::Texts { bytes } => rows == 0 || numbers.holds(rows.checked_add(1)?, bytes),
                Kind::Other { .. } => true,
            };
            let are_known = valid.as_ref().map_or(nulls == 0, |valid| valid.holds(rows.div_ceil(8), 1));
            (length == rows && is_whole && (are_known || !is_wanted)).then_some(())?;
            batch.push(is_wanted.then_some(Cells { kind, valid, numbers, texts }));
        }
        (nodes.next().is_none() && buffers.next().is_none()).then_some((rows, batch))
    }
}

/// The columns of a schema; `None`: it is damaged; `Err`: what no table of stamps has.
fn columns(head: &[u8], table: &Table) -> Option<Result<Vec<Column>>> {
    let schema = FlatTable::root(head)?.table(2)??;
    if schema.byte(0, 0)? != 0 {
        let found = "expected numbers in little-endian order, found big-endian. Write it on another machine";
        return Some(Err(found.into()));
    }
    let (wanted, times) = (table.columns_wanted(), table.times_wanted());
    let mut columns = Vec::new();
    for field in schema.tables(1)?.take(MOST_COLUMNS) {
        let field = field?;
        let name = field.text(0).filter(|name| name.len() <= MOST_NAME)?.to_owned();
        let (is_wanted, is_time) = (wanted.contains(&name), times.contains(&name));
        let (kind, unit) = kind(field)?;
        let is_read = !matches!(kind, Some(Kind::Other { .. }) | None) && (unit.is_none() || is_time);
        let Some(kind) = kind.filter(|_| is_read || !is_wanted) else {
            return Some(Err(format!(
                "expected whole numbers, times or texts in '{}', found another type. Cast it, as a dictionary to its \
                 values, or leave nested columns out: table.select",
                shortened(&name)
            )));
        };
        if let Some(Err(why)) = unit.filter(|_| is_wanted).map(|unit| table.clock.expect_unit(&name, unit)) {
            return Some(Err(why));
        }
        columns.push(Column { name, kind, is_wanted });
    }
    Some(Ok(columns))
}

/// What a field's buffers hold, and the unit that it says, by the union "Type"; `Some((None, _))`: other columns.
fn kind(field: FlatTable<'_>) -> Option<(Option<Kind>, Option<Unit>)> {
    let of = field.table(3)?;
    let unit = |default| [Unit::S, Unit::Ms, Unit::Us, Unit::Ns].get(of?.byte(0, default)? as usize).copied();
    let time = Kind::Whole { bytes: 8, is_signed: true };
    let kind = match field.byte(2, 0)? {
        _ if field.table(4)?.is_some() => Kind::Other { buffers: 2 }, // numbers into a dictionary
        1 => Kind::Other { buffers: 0 },
        2 => {
            let bytes = usize::from(of?.byte(0, 0)? / 8);
            matches!(bytes, 1 | 2 | 4 | 8).then_some(Kind::Whole { bytes, is_signed: of?.byte(1, 0)? != 0 })?
        }
        5 => Kind::Texts { bytes: 4 },
        20 => Kind::Texts { bytes: 8 },
        10 => return Some((Some(time), Some(unit(0)?))),
        18 => return Some((Some(time), Some(unit(1)?))),
        3 | 6..=9 | 11 | 15 => Kind::Other { buffers: 2 }, // of a fixed width
        4 | 19 => Kind::Other { buffers: 3 },              // bytes
        _ => return Some((None, None)),
    };
    Some((Some(kind), None))
}

impl Cells {
    /// The value in a row as a table of text has it; `None`: null.
    fn text(&mut self, input: &File, row: u64) -> Result<Option<String>> {
        if let Some(valid) = &mut self.valid
            && (valid.read(input, row / 8, 1)?[0] >> (row % 8)) & 1 == 0
        {
            return Ok(None);
        }
        let mut number = |row: u64, bytes: usize| {
            let mut wide = [0; 16];
            wide[..bytes].copy_from_slice(self.numbers.read(input, row * bytes as u64, bytes)?);
            Ok::<_, String>(i128::from_le_bytes(wide))
        };
        Ok(Some(match self.kind {
            Kind::Whole { bytes, is_signed } => {
                let (found, beyond) = (number(row, bytes)?, 128 - 8 * bytes as u32);
                if is_signed { found << beyond >> beyond } else { found }.to_string()
            }
            Kind::Texts { bytes } => {
                let (begin, end) = (number(row, bytes)?, number(row + 1, bytes)?);
                if !(begin..=i128::from(self.texts.end - self.texts.begin)).contains(&end) {
                    return Err(DAMAGED.into());
                }
                let length = usize::try_from(end - begin).ok().filter(|&length| length as u64 <= lines::MOST_BYTES);
                let length = length.ok_or("expected texts of at most 65536 bytes, found a longer one. Shorten it")?;
                let text = std::str::from_utf8(self.texts.read(input, begin as u64, length)?);
                text.map_err(|_| "expected a text in UTF-8, found other bytes. Convert it")?.into()
            }
            Kind::Other { .. } => return Ok(None), // refused where it is wanted
        }))
    }
}

impl Window {
    /// Returns whether it has room for so many values of so many bytes.
    fn holds(&self, values: u64, bytes: usize) -> bool {
        values.checked_mul(bytes as u64).is_some_and(|bytes| bytes <= self.end - self.begin)
    }

    /// Bytes of the buffer, which has them.
    fn read(&mut self, input: &File, from: u64, bytes: usize) -> Result<&[u8]> {
        let at = self.begin + from;
        if at < self.at || at + bytes as u64 > self.at + self.held.len() as u64 {
            let left = usize::try_from(self.end - at).unwrap_or(usize::MAX);
            self.held.resize(bytes.max(WINDOW).min(left), 0);
            self.at = at;
            input.read_exact_at(&mut self.held, at).map_err(|_| CUT_OFF)?;
        }
        let first = (at - self.at) as usize;
        Ok(&self.held[first..first + bytes])
    }
}
