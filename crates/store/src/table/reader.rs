//! Reading a table, one column of one row group at a time.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, Bytes, buf};
use parquet::column::reader::{get_column_reader, get_typed_column_reader};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::statistics::Statistics;
use tickscope_trace::Nullable;

use super::guard::guarded;
use super::{Field, GROUP_ROWS, SCHEMA_KEY, Value, seal};
use crate::SCHEMA;
use crate::error::{Error, Result};
use crate::whole_file::open_regular;

/// A table of this schema or an older one.
pub struct TableReader {
    file: File,
    path: PathBuf,
    size: u64,
    metadata: ParquetMetaData,
    /// The digest of each column chunk, 16 hexadecimal digits each; empty in files of earlier versions.
    chunks: String,
}

/// Rows decoded at a time. A file's own row count is not trusted with an allocation.
const BATCH: usize = 1 << 16;

/// Rows that a file may have however few its bytes are, and its row groups each besides: columns without noise take
/// next to none.
const ROWS: u64 = 1 << 24;
const ROWS_OF_A_GROUP: u64 = 2 * GROUP_ROWS as u64;

/// The same of tables that are read as a whole. Every measured row takes a byte and more.
const ROWS_IN_MEMORY: u64 = 1 << 20;

/// Hexadecimal digits of a chunk's digest.
const DIGEST: usize = 16;

impl TableReader {
    /// Opens the table at `path`; refuses what is torn, foreign, of a later schema, or belongs elsewhere.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = open_regular(path).map_err(|e| Error::io(path, "open", e))?;
        let size = file.metadata().map_err(|e| Error::io(path, "open", e))?.len();
        let torn = |found: String| Error::corrupt(path, "a complete Parquet file", found);
        let footer = footer(&file, size).map_err(torn)?;
        let sealed = seal::is_intact(&footer);
        if sealed == Some(false) {
            return Err(Error::corrupt(path, "a footer with its own digest", "another: it was changed"));
        }
        let metadata = guarded(|| ParquetMetaDataReader::decode_metadata(&footer)).map_err(torn)?;
        let metadata = metadata.map_err(|e| torn(e.to_string()))?;
        let mut table = Self { file, path: path.into(), size, metadata, chunks: String::new() };
        table.refuse_others()?;
        table.refuse_columns_outside_the_file()?;
        let of_groups = ROWS_OF_A_GROUP * table.groups() as u64;
        table.refuse_more_rows_than(ROWS.saturating_add(2 * size).saturating_add(of_groups))?;
        table.take_digests(sealed.is_some())?;
        table.refuse_strays()?;
        Ok(table)
    }

    /// As [`TableReader::open_as`], for a table that is read as a whole.
    pub(crate) fn open_small(path: &Path, fields: &[Field]) -> Result<Self> {
        let table = Self::open_as(path, fields)?;
        table.refuse_more_rows_than(ROWS_IN_MEMORY.saturating_add(table.size))?;
        Ok(table)
    }

    /// A footer says how many rows there are; whoever believes it runs out of memory before the rows run out.
    fn refuse_more_rows_than(&self, limit: u64) -> Result<()> {
        let rows = (0..self.groups()).fold(0, |sum: u64, group| sum.saturating_add(self.rows(group)));
        if rows <= limit {
            return Ok(());
        }
        let expected = format!("at most {limit} rows in {} bytes", self.size);
        Err(Error::corrupt(&self.path, expected, rows))
    }

    /// Where a file is sealed, its chunks have digests; a file that has other marks of ours has lost its seal.
    fn take_digests(&mut self, sealed: bool) -> Result<()> {
        let marked = [seal::CHUNKS_KEY, seal::PLACE_KEY].iter().any(|key| self.key(key).is_some());
        if !sealed && !marked {
            return Ok(());
        }
        let chunks = self.key(seal::CHUNKS_KEY).unwrap_or_default();
        let columns: usize = self.metadata.row_groups().iter().map(|group| group.columns().len()).sum();
        if !sealed || chunks.len() != columns * DIGEST || !chunks.is_ascii() {
            let expected = format!("a seal, and the digests of {columns} column chunks");
            return Err(Error::corrupt(&self.path, expected, "a footer without"));
        }
        self.chunks = chunks.into();
        Ok(())
    }

    /// Refuses a file that belongs to another run, or elsewhere in this one.
    fn refuse_strays(&self) -> Result<()> {
        let Some((root, here)) = seal::belongs(&self.path) else { return Ok(()) };
        if let Some(place) = self.key(seal::PLACE_KEY).filter(|place| *place != here) {
            return Err(Error::stray(&self.path, &here, place));
        }
        let (Some(of), Some(run)) = (self.key(seal::RUN_KEY), seal::run_id(&root)) else { return Ok(()) };
        if of == run {
            return Ok(());
        }
        Err(Error::stray(&self.path, &format!("run {run}"), &format!("run {of}")))
    }

    /// As [`TableReader::open`]; refuses also a column that is none of `fields`: nobody knows what it says of the
    /// others.
    pub(crate) fn open_as(path: &Path, fields: &[Field]) -> Result<Self> {
        let table = Self::open(path)?;
        match table.names().iter().find(|name| fields.iter().all(|field| field.name != **name)) {
            None => Ok(table),
            Some(unknown) => {
                let known: Vec<_> = fields.iter().map(|field| field.name.as_ref()).collect();
                Err(Error::unknown_column(path, &known.join(", "), unknown))
            }
        }
    }

    /// The Parquet crate asserts on such a footer where it should return an error.
    fn refuse_columns_outside_the_file(&self) -> Result<()> {
        let size = self.size;
        let columns = self.metadata.row_groups().iter().flat_map(|group| group.columns());
        for column in columns {
            let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
            let end = start.checked_add(column.compressed_size());
            if start < 0 || column.compressed_size() < 0 || end.is_none_or(|end| end as u64 > size) {
                let found = format!("one of {} bytes from byte {start}", column.compressed_size());
                return Err(Error::corrupt(&self.path, format!("columns within its {size} bytes"), found));
            }
        }
        Ok(())
    }

    fn refuse_others(&self) -> Result<()> {
        let expected = format!("a footer with {SCHEMA_KEY}");
        let found = self.key(SCHEMA_KEY).ok_or_else(|| Error::foreign(&self.path, &expected, "none"))?;
        match found.parse::<u32>() {
            Ok(1..=SCHEMA) => Ok(()),
            Ok(later) if later > SCHEMA => Err(Error::newer(&self.path, SCHEMA_KEY, SCHEMA, later)),
            _ => Err(Error::foreign(&self.path, expected, format!("'{found}'"))),
        }
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The value of a footer key.
    pub(crate) fn key(&self, key: &str) -> Option<&str> {
        let keys = self.metadata.file_metadata().key_value_metadata()?;
        keys.iter().find(|pair| pair.key == key)?.value.as_deref()
    }

    /// How many row groups.
    pub(crate) fn groups(&self) -> usize {
        self.metadata.num_row_groups()
    }

    /// How many rows a row group has.
    pub(crate) fn rows(&self, group: usize) -> u64 {
        self.metadata.row_group(group).num_rows().max(0) as u64
    }

    /// Smallest and largest value of a column in a row group, where the file records them.
    pub(crate) fn range(&self, group: usize, name: &str) -> Option<(i64, i64)> {
        let column = self.index(name)?;
        match self.metadata.row_group(group).column(column).statistics()? {
            Statistics::Int64(range) => Some((*range.min_opt()?, *range.max_opt()?)),
            _ => None,
        }
    }

    /// What the columns of its first row group are compressed by.
    #[cfg(test)]
    pub(crate) fn compressions(&self) -> Vec<parquet::basic::Compression> {
        self.metadata.row_group(0).columns().iter().map(|column| column.compression()).collect()
    }

    /// Names of the columns, in the file's order.
    pub(crate) fn names(&self) -> Vec<String> {
        let schema = self.metadata.file_metadata().schema_descr();
        schema.columns().iter().map(|column| column.name().to_string()).collect()
    }

    /// A column without nulls.
    pub(crate) fn column<V: Value>(&self, group: usize, name: &str) -> Result<Vec<V>> {
        let index = self.index(name).ok_or_else(|| self.unlike::<V>(name, "no such column"))?;
        let all = self.decode::<V>(group, index, name, |_, levels| match levels.contains(&0) {
            true => Err(self.unlike::<V>(name, "a null in it")),
            false => Ok(()),
        })?;
        V::decode(all).map_err(|found| self.unlike::<V>(name, &found))
    }

    /// A column that may have nulls; one that the file lacks is all null.
    pub(crate) fn nullable<V: Value + Default>(&self, group: usize, name: &str) -> Result<Nullable<V>> {
        let Some(index) = self.index(name) else {
            return Ok(Nullable::nulls(self.rows(group) as usize));
        };
        let (mut all, required) = (Nullable::default(), self.max_level(index) == 0);
        self.decode::<V>(group, index, name, |values, levels| {
            let mut values = V::decode(std::mem::take(values)).map_err(|found| self.unlike::<V>(name, &found))?;
            if required {
                levels.resize(values.len(), 1);
            }
            all.append_present(&mut values, levels);
            Ok(())
        })?;
        Ok(all)
    }

    fn index(&self, name: &str) -> Option<usize> {
        let schema = self.metadata.file_metadata().schema_descr();
        schema.columns().iter().position(|column| column.name() == name && column.path().parts().len() == 1)
    }

    fn max_level(&self, index: usize) -> i16 {
        self.metadata.file_metadata().schema_descr().column(index).max_def_level()
    }

    /// Hands a column to `take` piece by piece: the values that are there, and a definition level a row where the
    /// column is nullable. Values that it leaves stand before the next piece's; returns what is left in the end.
    fn decode<V: Value>(
        &self,
        group: usize,
        index: usize,
        name: &str,
        mut take: impl FnMut(&mut Vec<<V::Parquet as DataType>::T>, &mut Vec<i16>) -> Result<()>,
    ) -> Result<Vec<<V::Parquet as DataType>::T>> {
        let column = self.metadata.file_metadata().schema_descr().column(index);
        if column.physical_type() != V::PHYSICAL || column.max_rep_level() > 0 {
            return Err(self.unlike::<V>(name, &format!("{}", column.physical_type())));
        }
        let chunk = Arc::new(self.chunk(group, index)?);
        let decoded = guarded(|| {
            let damaged = |e: ParquetError| self.unlike::<V>(name, &e.to_string());
            let meta = self.metadata.row_group(group).column(index);
            let pages = SerializedPageReader::new(chunk, meta, self.rows(group) as usize, None).map_err(damaged)?;
            let mut reader = get_typed_column_reader::<V::Parquet>(get_column_reader(column, Box::new(pages)));
            let (mut values, mut levels, mut rows) = (Vec::new(), Vec::new(), 0);
            loop {
                levels.clear();
                let (read, _, _) = reader.read_records(BATCH, Some(&mut levels), None, &mut values).map_err(damaged)?;
                rows += read as u64;
                if read == 0 || rows > self.rows(group) {
                    return Ok((values, rows));
                }
                take(&mut values, &mut levels)?;
            }
        });
        let (values, rows) = decoded.map_err(|found| self.unlike::<V>(name, &found))??;
        if rows == self.rows(group) {
            return Ok(values);
        }
        Err(self.unlike::<V>(name, &format!("{rows} rows where the file says {}", self.rows(group))))
    }

    /// The bytes of a column chunk, held against their digest where the file has one.
    fn chunk(&self, group: usize, index: usize) -> Result<Chunk> {
        let (start, length) = self.metadata.row_group(group).column(index).byte_range();
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, start).map_err(|e| Error::io(&self.path, "read", e))?;
        if !self.chunks.is_empty() {
            let before: usize = self.metadata.row_groups()[..group].iter().map(|group| group.columns().len()).sum();
            let at = (before + index) * DIGEST;
            let (expected, found) = (&self.chunks[at..at + DIGEST], seal::chunk_digest(&bytes));
            if expected != found {
                let name = self.metadata.row_group(group).column(index).column_descr().name();
                let expected = format!("column '{name}' with digest {expected}");
                return Err(Error::corrupt(&self.path, expected, format!("{found}: it was changed")));
            }
        }
        Ok(Chunk { start, bytes: bytes.into() })
    }

    /// Holds every byte of every column against its digest, without decoding it where it has one.
    pub(crate) fn verify(&self) -> Result<()> {
        if self.chunks.is_empty() {
            return self.decode_all();
        }
        for group in 0..self.groups() {
            (0..self.metadata.row_group(group).columns().len()).try_for_each(|at| self.chunk(group, at).map(|_| ()))?;
        }
        Ok(())
    }

    /// Decodes every value of every column.
    pub(crate) fn decode_all(&self) -> Result<()> {
        for group in 0..self.groups() {
            for column in self.metadata.row_group(group).columns() {
                let name = column.column_descr().name();
                match column.column_type() {
                    i64::PHYSICAL => self.nullable::<i64>(group, name).map(|_| ())?,
                    i32::PHYSICAL => self.nullable::<i32>(group, name).map(|_| ())?,
                    _ => self.nullable::<String>(group, name).map(|_| ())?,
                }
            }
        }
        Ok(())
    }

    fn unlike<V: Value>(&self, name: &str, found: &str) -> Error {
        Error::corrupt(&self.path, format!("column '{name}' of {}", V::PHYSICAL), found)
    }
}

/// The bytes of a file's footer, without its length and the magic number behind it.
fn footer(file: &File, size: u64) -> std::result::Result<Vec<u8>, String> {
    let mut end = [0; 8];
    let start = size.checked_sub(8).ok_or_else(|| format!("{size} bytes"))?;
    file.read_exact_at(&mut end, start).map_err(|e| e.to_string())?;
    let (length, magic) = end.split_at(4);
    if magic != b"PAR1" {
        return Err("no magic number at its end".into());
    }
    let length = u32::from_le_bytes(length.try_into().unwrap_or_default());
    let start = start.checked_sub(length.into()).ok_or_else(|| format!("a footer of {length} of {size} bytes"))?;
    let mut footer = vec![0; length as usize];
    file.read_exact_at(&mut footer, start).map_err(|e| e.to_string())?;
    Ok(footer)
}

/// A column chunk in memory, at its place in the file.
struct Chunk {
    start: u64,
    bytes: Bytes,
}

impl Length for Chunk {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for Chunk {
    type T = buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        let rest = self.len().saturating_sub(start) as usize;
        self.get_bytes(start, rest).map(Buf::reader)
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let from = start.checked_sub(self.start).map(|from| from as usize);
        let range = from.and_then(|from| Some(from..from.checked_add(length)?));
        let range = range.filter(|range| range.end <= self.bytes.len());
        range
            .map(|range| self.bytes.slice(range))
            .ok_or_else(|| ParquetError::EOF("a page ends beyond its column".into()))
    }
}
