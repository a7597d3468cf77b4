//! Reading a table, one column of one row group at a time.

use std::cell::Cell;
use std::fs::File;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::statistics::Statistics;
use tickscope_trace::Nullable;

use super::{Field, SCHEMA_KEY, Value};
use crate::SCHEMA;
use crate::error::{Error, Result};

/// A table of this schema or an older one.
pub struct TableReader {
    reader: SerializedFileReader<File>,
    path: PathBuf,
    /// Reading moves the file's one position: two threads need two readers.
    one_thread: PhantomData<Cell<()>>,
}

/// Rows decoded at a time. A file's own row count is not trusted with an allocation.
const BATCH: usize = 1 << 16;

impl TableReader {
    /// Opens the table at `path`; refuses what is torn, foreign or of a later schema.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| Error::io(path, "open", e))?;
        let torn = |e: ParquetError| Error::corrupt(path, "a complete Parquet file", e.to_string());
        let table =
            Self { reader: SerializedFileReader::new(file).map_err(torn)?, path: path.into(), one_thread: PhantomData };
        table.refuse_others()?;
        table.refuse_columns_outside_the_file()?;
        Ok(table)
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
        let size = std::fs::metadata(&self.path).map_err(|e| Error::io(&self.path, "open", e))?.len();
        let columns = self.reader.metadata().row_groups().iter().flat_map(|group| group.columns());
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
        let keys = self.reader.metadata().file_metadata().key_value_metadata()?;
        keys.iter().find(|pair| pair.key == key)?.value.as_deref()
    }

    /// How many row groups.
    pub(crate) fn groups(&self) -> usize {
        self.reader.num_row_groups()
    }

    /// How many rows a row group has.
    pub(crate) fn rows(&self, group: usize) -> u64 {
        self.reader.metadata().row_group(group).num_rows().max(0) as u64
    }

    /// Smallest and largest value of a column in a row group, where the file records them.
    pub(crate) fn range(&self, group: usize, name: &str) -> Option<(i64, i64)> {
        let column = self.index(name)?;
        match self.reader.metadata().row_group(group).column(column).statistics()? {
            Statistics::Int64(range) => Some((*range.min_opt()?, *range.max_opt()?)),
            _ => None,
        }
    }

    /// Names of the columns, in the file's order.
    pub(crate) fn names(&self) -> Vec<String> {
        let schema = self.reader.metadata().file_metadata().schema_descr();
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
        let schema = self.reader.metadata().file_metadata().schema_descr();
        schema.columns().iter().position(|column| column.name() == name && column.path().parts().len() == 1)
    }

    fn max_level(&self, index: usize) -> i16 {
        self.reader.metadata().file_metadata().schema_descr().column(index).max_def_level()
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
        let column = self.reader.metadata().file_metadata().schema_descr().column(index);
        if column.physical_type() != V::PHYSICAL || column.max_rep_level() > 0 {
            return Err(self.unlike::<V>(name, &format!("{}", column.physical_type())));
        }
        let damaged = |e: ParquetError| self.unlike::<V>(name, &e.to_string());
        let group_reader = self.reader.get_row_group(group).map_err(damaged)?;
        let mut reader = get_typed_column_reader::<V::Parquet>(group_reader.get_column_reader(index).map_err(damaged)?);
        let (mut values, mut levels, mut rows) = (Vec::new(), Vec::new(), 0);
        loop {
            levels.clear();
            let (read, _, _) = reader.read_records(BATCH, Some(&mut levels), None, &mut values).map_err(damaged)?;
            rows += read as u64;
            if read == 0 {
                break;
            }
            take(&mut values, &mut levels)?;
        }
        if rows == self.rows(group) {
            return Ok(values);
        }
        Err(self.unlike::<V>(name, &format!("{rows} rows where the file says {}", self.rows(group))))
    }

    fn unlike<V: Value>(&self, name: &str, found: &str) -> Error {
        Error::corrupt(&self.path, format!("column '{name}' of {}", V::PHYSICAL), found)
    }
}
