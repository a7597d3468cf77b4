//! Traces and durations: tables with a key (kind, id, occurrence) and nullable columns named by the layout.
//!
//! A trace has one column a point, the raw tick, one for each attribute that stamps of a point have, and one for the
//! marks of an id that passed some point several times. A row of durations has three a stage: `STAGE`, `STAGE.lo`,
//! `STAGE.hi`.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread::{Builder, JoinHandle};

use tickscope_trace::{Attribute, LayoutText, Marks, Nullable, Traces};

use crate::codec::Encoding;
use crate::error::Result;
use crate::table::{Field, GROUP_ROWS, TableReader, TableWriter, WriteRows};

const KEY: [&str; 3] = ["kind", "id", "occurrence"];
const PASSAGES: &str = "passages";
/// Stands between a point and the attribute of its stamps that a column of traces holds; in no name of a point.
const ATTRIBUTE: char = '#';
const LAYOUT_KEY: &str = "tickscope.layout";
const STAMPS_KEY: &str = "tickscope.stamps";
const CONTRADICTIONS_KEY: &str = "tickscope.contradictions";

/// Rows with a key and named columns; all columns are equally long.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyedRows {
    /// Class of the id.
    pub kind: Vec<i32>,
    /// The id.
    pub id: Vec<i64>,
    /// Which passage of the id, from 0.
    pub occurrence: Vec<i32>,
    /// One column a name, in the order of the names.
    pub columns: Vec<Nullable<i64>>,
    /// Of traces: [`tickscope_trace::Marks`] as text, null where the id passed every point once at most. Rows that it
    /// lacks at its end are null.
    pub passages: Nullable<String>,
}

/// Writes a table of keyed rows piece by piece, in row groups of full size whatever the pieces were: one on a thread
/// of its own, where that may be started, while the next is gathered. What fails is told by a call after it.
pub struct KeyedWriter {
    pending: KeyedRows,
    /// `None` once it failed or was completed.
    last: Option<LastGroup>,
}

/// The row group before those rows that wait.
enum LastGroup {
    Written(Box<WrittenGroup>),
    OnItsWay(JoinHandle<Option<WrittenGroup>>),
}

struct WrittenGroup {
    writer: GroupWriter,
    /// Cleared rows, whose memory the next take over.
    spare: KeyedRows,
    result: Result<()>,
}

struct GroupWriter {
    table: TableWriter,
    /// True if there is a column for the marks of traces.
    passages: bool,
}

/// A table of keyed rows.
pub struct KeyedReader {
    table: TableReader,
    names: Vec<String>,
}

impl KeyedRows {
    /// No rows, of `columns` columns.
    pub fn empty(columns: usize) -> Self {
        Self { columns: vec![Nullable::default(); columns], ..Self::default() }
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.id.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.id.is_empty()
    }

    /// Appends all of `other`, which has as many columns.
    pub fn append(&mut self, mut other: Self) {
        self.passages.push_nulls(self.len() - self.passages.len());
        self.passages.append(other.passages);
        self.kind.append(&mut other.kind);
        self.id.append(&mut other.id);
        self.occurrence.append(&mut other.occurrence);
        self.columns.iter_mut().zip(other.columns).for_each(|(column, more)| column.append(more));
    }
}

impl KeyedRows {
    /// Appends traces of as many points, and attributes of these, as there are columns.
    fn append_traces(&mut self, traces: &Traces) {
        if traces.has_marks() {
            self.passages.push_nulls(self.len() - self.passages.len());
            (0..traces.len()).for_each(|row| self.passages.push(traces.marks(row).map(Marks::text)));
        }
        self.kind.extend_from_slice(traces.kinds());
        self.id.extend_from_slice(traces.ids());
        self.occurrence.extend_from_slice(traces.occurrences());
        let columns = traces.points().iter().chain(traces.attributes().map(|(.., column)| column));
        self.columns.iter_mut().zip(columns).for_each(|(column, more)| column.append_copy(more));
    }

    /// Removes every row, and keeps the memory.
    fn clear(&mut self) {
        self.kind.clear();
        self.id.clear();
        self.occurrence.clear();
        self.columns.iter_mut().for_each(Nullable::clear);
        self.passages.clear();
    }
}

impl KeyedWriter {
    /// Begins the table that is to appear at `place` with the columns `names`, and `keys` in its footer.
    pub fn begin(place: &Path, names: &[String], keys: &[(&str, String)]) -> Result<Self> {
        Self::begin_with(place, names, keys, None)
    }

    /// The same for a table of traces.
    pub fn begin_traces(place: &Path, names: &[String], keys: &[(&str, String)]) -> Result<Self> {
        Self::begin_with(place, names, keys, Some(Field::of::<Option<String>>(PASSAGES.into())))
    }

    fn begin_with(place: &Path, names: &[String], keys: &[(&str, String)], last: Option<Field>) -> Result<Self> {
        let passages = last.is_some();
        let mut fields = vec![
            Field::of::<i32>(KEY[0].into()),
            Field::of::<i64>(KEY[1].into()).with(&["ranged"]),
            Field::of::<i32>(KEY[2].into()),
        ];
        fields.extend(names.iter().map(|name| column(name)));
        fields.extend(last);
        let table = TableWriter::begin_encoded(place, &fields, keys, Encoding::on_all_processors())?;
        let writer = GroupWriter { table, passages };
        let written = WrittenGroup { writer, spare: KeyedRows::empty(names.len()), result: Ok(()) };
        Ok(Self { pending: KeyedRows::empty(names.len()), last: Some(LastGroup::Written(written.into())) })
    }

    /// Adds rows.
    pub fn write(&mut self, rows: KeyedRows) -> Result<()> {
        self.pending.append(rows);
        if self.pending.len() >= GROUP_ROWS { self.write_pending() } else { Ok(()) }
    }

    /// Adds traces, each column of which is copied once.
    pub fn write_traces(&mut self, traces: &Traces) -> Result<()> {
        self.pending.append_traces(traces);
        if self.pending.len() >= GROUP_ROWS { self.write_pending() } else { Ok(()) }
    }

    /// Completes the table and gives it its name. Returns its size in bytes.
    pub fn finish(self) -> Result<u64> {
        self.finish_with(&[])
    }

    /// The same, with footer keys whose values are known now.
    pub(crate) fn finish_with(mut self, keys: &[(&str, String)]) -> Result<u64> {
        let mut writer = self.settled()?.writer;
        writer.write(&mut self.pending)?;
        keys.iter().for_each(|(key, value)| writer.table.key(key, value.clone()));
        Ok(writer.table.finish()?.bytes)
    }

    /// Has the rows that wait written, once those before them are.
    fn write_pending(&mut self) -> Result<()> {
        let WrittenGroup { writer, spare, .. } = *self.settled()?;
        let group = (writer, std::mem::replace(&mut self.pending, spare));
        let (give, given) = channel();
        let written = move || given.recv().ok().map(|(writer, rows)| WrittenGroup::of(writer, rows));
        let started = Builder::new().name("writer".into()).spawn(written);
        let here = match &started {
            Ok(_) => give.send(group).err().map(|unsent| unsent.0),
            Err(_) => Some(group), // no more threads may be started
        };
        self.last = match here {
            Some((writer, rows)) => Some(LastGroup::Written(WrittenGroup::of(writer, rows).into())),
            None => started.ok().map(LastGroup::OnItsWay),
        };
        Ok(())
    }

    /// The row group before, once it is written.
    fn settled(&mut self) -> Result<Box<WrittenGroup>> {
        let mut written = match self.last.take().expect("a table that failed is given no rows") {
            LastGroup::Written(written) => written,
            LastGroup::OnItsWay(thread) => match thread.join() {
                Ok(written) => written.expect("a group was given").into(),
                Err(panic) => resume_unwind(panic),
            },
        };
        std::mem::replace(&mut written.result, Ok(())).map(|()| written)
    }
}

impl Drop for KeyedWriter {
    fn drop(&mut self) {
        if let Some(LastGroup::OnItsWay(thread)) = self.last.take() {
            let _ = thread.join(); // so that nobody writes to it once it is gone
        }
    }
}

impl WrittenGroup {
    fn of(mut writer: GroupWriter, mut rows: KeyedRows) -> Self {
        let result = writer.write(&mut rows);
        rows.clear();
        Self { writer, spare: rows, result }
    }
}

impl GroupWriter {
    /// Adds rows, all of them as one row group.
    fn write(&mut self, rows: &mut KeyedRows) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        rows.passages.push_nulls(rows.id.len() - rows.passages.len());
        let mut columns: Vec<&dyn WriteRows> = vec![&rows.kind, &rows.id, &rows.occurrence];
        columns.extend(rows.columns.iter().map(|column| column as &dyn WriteRows));
        if self.passages {
            columns.push(&rows.passages);
        }
        self.table.group(&columns, 0..rows.len())
    }
}

impl KeyedReader {
    /// Opens the table at `path`.
    pub fn open(path: &Path) -> Result<Self> {
        let table = TableReader::open(path)?;
        let is_column = |name: &String| !KEY.contains(&name.as_str()) && name != PASSAGES && !name.contains(ATTRIBUTE);
        let names = table.names().into_iter().filter(is_column).collect();
        Ok(Self { table, names })
    }

    /// Returns whether traces were joined by this layout; true of files that do not say.
    pub fn is_joined_by(&self, layout: &LayoutText) -> bool {
        let told = self.table.key(LAYOUT_KEY).map(serde_json::from_str::<LayoutText>);
        told.is_none_or(|told| told.is_ok_and(|told| told == *layout))
    }

    /// A reader of the same table for another thread.
    pub fn again(&self) -> Result<Self> {
        Self::open(self.table.path())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.table.path()
    }

    /// The file's name, without its folder.
    pub fn file_name(&self) -> String {
        self.table.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// How many rows in all.
    pub fn rows(&self) -> u64 {
        (0..self.groups()).map(|group| self.table.rows(group)).sum()
    }

    /// How large the file is; 0 where it has gone.
    pub fn bytes(&self) -> u64 {
        self.table.path().metadata().map_or(0, |metadata| metadata.len())
    }

    /// Returns whether it tells the passages of an id apart; tables of traces before did not.
    pub fn has_passages(&self) -> bool {
        self.table.names().iter().any(|name| name == PASSAGES)
    }

    /// Names of the columns beside the key.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns whether traces have a column for an attribute of the stamps of a point.
    pub fn has_attribute(&self, place: &str, attribute: Attribute) -> bool {
        self.table.names().contains(&attribute_column(place, attribute))
    }

    /// An attribute of the stamps of a point, of one row group of traces; all null where none has it.
    pub fn read_attribute(&self, group: usize, place: &str, attribute: Attribute) -> Result<Nullable<i64>> {
        self.table.nullable(group, &attribute_column(place, attribute))
    }

    /// The value of a footer key.
    pub fn key(&self, key: &str) -> Option<&str> {
        self.table.key(key)
    }

    /// The layout that traces were joined by; `None` where the file does not say one that is understood.
    pub fn layout(&self) -> Option<LayoutText> {
        serde_json::from_str(self.key(LAYOUT_KEY)?).ok()
    }

    /// From how many stamps traces were joined; `None` where the file does not say.
    pub fn joined_stamps(&self) -> Option<u64> {
        self.key(STAMPS_KEY)?.parse().ok()
    }

    /// Sentences on what their join found that contradicts their durations or an assumption.
    pub fn contradictions(&self) -> Vec<String> {
        self.key(CONTRADICTIONS_KEY).and_then(|told| serde_json::from_str(told).ok()).unwrap_or_default()
    }

    /// How many row groups.
    pub fn groups(&self) -> usize {
        self.table.groups()
    }

    /// How many rows one row group has.
    pub fn rows_of(&self, group: usize) -> u64 {
        self.table.rows(group)
    }

    /// The rows of one row group.
    pub fn read_group(&self, group: usize) -> Result<KeyedRows> {
        let table = &self.table;
        let columns: Result<Vec<_>> = self.names.iter().map(|name| table.nullable(group, name)).collect();
        Ok(KeyedRows {
            kind: table.column(group, KEY[0])?,
            id: table.column(group, KEY[1])?,
            occurrence: table.column(group, KEY[2])?,
            columns: columns?,
            passages: table.nullable(group, PASSAGES)?,
        })
    }

    /// All rows.
    pub fn read_all(&self) -> Result<KeyedRows> {
        let mut all = KeyedRows::empty(self.names.len());
        for group in 0..self.groups() {
            all.append(self.read_group(group)?);
        }
        Ok(all)
    }
}

/// `rho=50ppm` for 50 000 parts per billion; `rho=0.2ppm` for 200.
pub fn rho_folder(durations: &Path, rho_ppb: u64) -> PathBuf {
    durations.join(format!("rho={}ppm", ppm(rho_ppb)))
}

fn ppm(ppb: u64) -> String {
    let (whole, rest) = (ppb / 1000, ppb % 1000);
    if rest == 0 { whole.to_string() } else { format!("{whole}.{rest:03}").trim_end_matches('0').into() }
}

/// The column of traces that holds an attribute of a point's stamps.
pub(crate) fn attribute_column(place: &str, attribute: Attribute) -> String {
    format!("{place}{ATTRIBUTE}{}", attribute.name())
}

/// A column of ticks, of durations or of an attribute. Channels are few and each comes again: a dictionary holds them.
fn column(name: &str) -> Field {
    let field = Field::of::<Option<i64>>(name.to_string().into());
    let attribute = name.split_once(ATTRIBUTE).map(|(_, attribute)| attribute);
    if attribute == Some(Attribute::Channel.name()) { field.with(&["repeating"]) } else { field }
}

/// Footer key of traces: the layout they were joined by, as in `run.json`.
pub(crate) fn layout_key(layout: &LayoutText) -> (&'static str, String) {
    (LAYOUT_KEY, serde_json::to_string(layout).expect("a layout of text is JSON"))
}

/// Footer key of traces: from how many stamps they were joined.
pub(crate) fn stamps_key(stamps: u64) -> (&'static str, String) {
    (STAMPS_KEY, stamps.to_string())
}

/// The same of what a join found that contradicts what it made.
pub(crate) fn contradictions_key(found: &[String]) -> (&'static str, String) {
    (CONTRADICTIONS_KEY, serde_json::to_string(found).expect("text is JSON"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn pieces_of_any_size_become_one_table() {
        let scratch = Scratch::new();
        let place = scratch.path().join("part-0.parquet");
        let names = ["client.send".to_string(), "server.receive".into()];
        let mut writer = KeyedWriter::begin(&place, &names, &[("said", "x".into())]).unwrap();
        for id in 0..10 {
            let columns =
                vec![[Some(id * 7)].into_iter().collect(), [(id % 2 == 0).then_some(id)].into_iter().collect()];
            writer
                .write(KeyedRows { kind: vec![0], id: vec![id], occurrence: vec![0], columns, ..KeyedRows::default() })
                .unwrap();
        }
        writer.finish().unwrap();
        let reader = KeyedReader::open(&place).unwrap();
        assert_eq!((reader.names(), reader.groups(), reader.key("said")), (&names[..], 1, Some("x")));
        let rows = reader.read_all().unwrap();
        assert_eq!(rows.id, (0..10).collect::<Vec<_>>());
        let second: Vec<_> = rows.columns[1].iter().map(|tick| tick.copied()).collect();
        assert_eq!(second[..3], [Some(0), None, Some(2)]);
    }

    /// So many rows from `first` on, with so many columns.
    fn rows(first: i64, count: usize, columns: usize) -> KeyedRows {
        let id: Vec<i64> = (first..).take(count).collect();
        let column: Nullable<i64> = id.iter().map(|id| Some(id * 3)).collect();
        let (kind, occurrence) = (vec![0; count], vec![0; count]);
        KeyedRows { kind, id, occurrence, columns: vec![column; columns], ..KeyedRows::default() }
    }

    #[test]
    fn row_groups_that_are_written_while_others_are_gathered_hold_each_row_once_and_in_order() {
        let scratch = Scratch::new();
        let place = scratch.path().join("part-0.parquet");
        let mut writer = KeyedWriter::begin(&place, &["a.b".into()], &[]).unwrap();
        let (piece, pieces) = (GROUP_ROWS / 2 + 7, 9);
        for number in 0..pieces {
            writer.write(rows((number * piece) as i64, piece, 1)).unwrap();
        }
        writer.finish().unwrap();
        let reader = KeyedReader::open(&place).unwrap();
        assert_eq!((reader.groups(), reader.rows()), (5, (pieces * piece) as u64));
        let mut next = 0;
        for group in 0..reader.groups() {
            let found = reader.read_group(group).unwrap();
            let (count, expected) = (found.len() as i64, rows(next, found.len(), 1));
            assert!((found.id, found.columns) == (expected.id, expected.columns), "row group {group}");
            next += count;
        }
    }

    #[test]
    fn a_row_group_that_cannot_be_written_is_told_by_the_next_and_leaves_no_table() {
        let scratch = Scratch::new();
        let place = scratch.path().join("part-0.parquet");
        let mut writer = KeyedWriter::begin(&place, &["a.b".into()], &[]).unwrap();
        writer.pending = KeyedRows::empty(2);
        writer.write(rows(0, GROUP_ROWS, 2)).unwrap();
        let why = writer.finish().unwrap_err().to_string();
        assert!(why.contains("expected 4 columns, found 5"), "{why}");
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_folder_of_a_rho_says_it_in_ppm() {
        let names = [(50_000, "rho=50ppm"), (200, "rho=0.2ppm"), (1, "rho=0.001ppm")];
        for (ppb, name) in names {
            assert_eq!(rho_folder(Path::new(""), ppb), Path::new(name));
        }
    }
}
