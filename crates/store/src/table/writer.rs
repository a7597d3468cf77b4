//! Writing a table, one row group after another.
//!
//! Each column of a row group is encoded in memory, on whichever thread is free, and appended to the file in its turn:
//! so the bytes are the same however many threads there are, and a chunk's digest is taken while its bytes are at hand.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::Encoding as Packing;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnPath, Type};
use tickscope_trace::Nullable;

use super::chunk::{self, Chunk, Values};
use super::packed::{PackedColumn, PackedGroup};
use super::{Field, SCHEMA_KEY, Value, seal};
use crate::SCHEMA;
use crate::codec::Encoding;
use crate::error::{Error, Result};
use crate::whole_file::WholeFile;

/// A column in memory, of which some rows can be written.
pub trait WriteRows: Sync {
    /// Returns whether no row has a value.
    fn is_all_null(&self) -> bool {
        false
    }

    /// Packs `rows` behind those before; `false`: the Parquet crate encodes such a column.
    fn pack(&self, _rows: Range<usize>, _into: &mut PackedColumn) -> bool {
        false
    }

    /// Writes `rows` and closes the column.
    fn write(&self, rows: Range<usize>, column: SerializedColumnWriter<'_>) -> Outcome;
}

/// The result of writing with the Parquet crate.
pub type Outcome = std::result::Result<(), ParquetError>;

/// A table being written.
pub(crate) struct TableWriter {
    whole: WholeFile,
    writer: SerializedFileWriter<File>,
    place: PathBuf,
    how: Encoding,
    /// Digests of every chunk so far.
    digests: String,
    helpers_ns: u64,
}

/// What it took to write a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// Size of the file.
    pub bytes: u64,
    /// Processor time of threads other than the caller's.
    pub helpers_ns: u64,
}

impl TableWriter {
    /// Begins the table that is to appear at `place`, with `keys` in its footer; encodes it by default.
    #[cfg(test)]
    pub(crate) fn begin(place: &Path, fields: &[Field], keys: &[(&str, String)]) -> Result<Self> {
        Self::begin_encoded(place, fields, keys, Encoding::default())
    }

    /// Begins the table that is to appear at `place`, with `keys` in its footer.
    pub(crate) fn begin_encoded(
        place: &Path,
        fields: &[Field],
        keys: &[(&str, String)],
        how: Encoding,
    ) -> Result<Self> {
        let mut marked = vec![(SCHEMA_KEY, SCHEMA.to_string())];
        if let Some((root, inside)) = seal::belongs(place) {
            marked.push((seal::PLACE_KEY, inside));
            marked.extend(seal::run_id(&root).map(|id| (seal::RUN_KEY, id)));
        }
        marked.extend_from_slice(keys);
        Self::begin_unmarked(place, fields, &marked, how)
    }

    /// As [`TableWriter::begin_encoded`], without the schema's number: such a file is refused by readers.
    pub(super) fn begin_unmarked(
        place: &Path,
        fields: &[Field],
        keys: &[(&str, String)],
        how: Encoding,
    ) -> Result<Self> {
        let whole = WholeFile::begin(place)?;
        let file = whole.file().try_clone().map_err(|e| Error::io(place, "write", e))?;
        let types: std::result::Result<Vec<_>, _> = fields.iter().map(|f| f.parquet_type().map(Arc::new)).collect();
        let schema = types.and_then(|types| Type::group_type_builder("tickscope").with_fields(types).build());
        let properties = properties(fields, keys, how);
        let writer = schema
            .and_then(|schema| SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)))
            .map_err(|e| unwritten(place, e))?;
        Ok(Self { whole, writer, place: place.into(), how, digests: String::new(), helpers_ns: 0 })
    }

    /// Adds a footer key once its value is known.
    pub(crate) fn key(&mut self, key: &str, value: String) {
        self.writer.append_key_value_metadata(KeyValue::new(key.to_string(), value));
    }

    /// Adds `rows` of the columns as a row group; columns in the order of the table's fields.
    pub(crate) fn group(&mut self, columns: &[&dyn WriteRows], rows: Range<usize>) -> Result<()> {
        self.groups(columns, &[rows])
    }

    /// Adds a row group for each range of `rows`, as [`TableWriter::group`] would. As many as there are encoders are
    /// in memory at one time.
    pub(crate) fn groups(&mut self, columns: &[&dyn WriteRows], rows: &[Range<usize>]) -> Result<()> {
        for groups in rows.chunks(self.how.encoders.get()) {
            self.write_groups(columns, groups).map_err(|e| unwritten(&self.place, e))?;
        }
        Ok(())
    }

    fn write_groups(&mut self, columns: &[&dyn WriteRows], groups: &[Range<usize>]) -> Outcome {
        let described = self.writer.schema_descr().columns();
        if columns.len() != described.len() {
            let (found, expected) = (columns.len(), described.len());
            return Err(ParquetError::General(format!(
                "expected {expected} columns, found {found}. Give one for each field"
            )));
        }
        let of_group = |rows: &Range<usize>| {
            let rows = rows.clone();
            let columns = columns.iter().zip(described);
            columns.map(move |(&column, described)| Values { column, rows: rows.clone(), described: described.clone() })
        };
        let all: Vec<_> = groups.iter().flat_map(of_group).collect();
        let (chunks, helpers_ns) = chunk::encode(&all, self.writer.properties(), self.how.encoders);
        self.helpers_ns += helpers_ns;
        let mut chunks = chunks.into_iter();
        for _ in groups {
            let of_group: std::result::Result<Vec<_>, _> = chunks.by_ref().take(columns.len()).collect();
            self.append_group(of_group?.iter())?;
        }
        Ok(())
    }

    /// Adds a row group that is encoded, without the columns that are not named in `there`.
    pub(crate) fn packed_group(&mut self, group: &PackedGroup, there: &[usize]) -> Result<()> {
        let chunks = there.iter().map(|&at| &group.chunks()[at]);
        self.append_group(chunks).map_err(|e| unwritten(&self.place, e))
    }

    fn append_group<'a>(&mut self, chunks: impl Iterator<Item = &'a Chunk>) -> Outcome {
        let mut group = self.writer.next_row_group()?;
        for chunk in chunks {
            group.append_column(&chunk, chunk.closed.clone())?;
            self.digests += &chunk.digest;
        }
        group.close()?;
        Ok(())
    }

    /// Completes the table and gives it its name. Returns what it took.
    pub(crate) fn finish(mut self) -> Result<Written> {
        let bytes = self.finish_sealed().map_err(|e| unwritten(&self.place, e))?;
        self.whole.finish()?;
        Ok(Written { bytes, helpers_ns: self.helpers_ns })
    }

    fn finish_sealed(&mut self) -> std::result::Result<u64, ParquetError> {
        let digests = std::mem::take(&mut self.digests);
        self.key(seal::CHUNKS_KEY, digests);
        self.key(seal::SEAL_KEY, seal::UNSEALED.into());
        self.writer.finish()?;
        let bytes = self.writer.bytes_written() as u64;
        seal::seal(self.whole.file(), bytes)?;
        Ok(bytes)
    }
}

fn properties(fields: &[Field], keys: &[(&str, String)], how: Encoding) -> WriterProperties {
    let keys = keys.iter().map(|(key, value)| KeyValue::new(key.to_string(), value.clone())).collect();
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("tickscope ", env!("CARGO_PKG_VERSION")).into())
        .set_compression(how.codec.compression())
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_data_page_row_count_limit(usize::MAX)
        .set_write_batch_size(BATCH)
        .set_key_value_metadata(Some(keys));
    for field in fields {
        let path = ColumnPath::from(field.name.as_ref());
        if field.ranged {
            properties = properties.set_column_statistics_enabled(path.clone(), EnabledStatistics::Chunk);
        }
        if field.is_text() || field.repeating {
            properties = properties.set_column_dictionary_enabled(path.clone(), true);
        }
        if !field.is_text() {
            properties = properties.set_column_encoding(path, Packing::DELTA_BINARY_PACKED);
        }
    }
    properties.build()
}

/// Rows encoded at a time; also the size at which a page is looked at, so pages stay near their byte limit.
const BATCH: usize = 1 << 14;

impl<V: Value> WriteRows for Vec<V> {
    fn pack(&self, rows: Range<usize>, into: &mut PackedColumn) -> bool {
        if V::IS_PACKED {
            into.push(&self[rows]);
        }
        V::IS_PACKED
    }

    fn write(&self, rows: Range<usize>, mut column: SerializedColumnWriter<'_>) -> Outcome {
        write_batch::<V>(&mut column, &self[rows], None)?;
        column.close()
    }
}

impl<V: Value> WriteRows for Nullable<V> {
    fn is_all_null(&self) -> bool {
        Nullable::is_all_null(self)
    }

    fn pack(&self, rows: Range<usize>, into: &mut PackedColumn) -> bool {
        if V::IS_PACKED {
            match self.parts(rows.clone()) {
                None => into.push_nulls(rows.len()),
                Some((values, [])) => into.push(values),
                Some((values, present)) => into.push_some(values, present),
            }
        }
        V::IS_PACKED
    }

    fn write(&self, rows: Range<usize>, mut column: SerializedColumnWriter<'_>) -> Outcome {
        for start in rows.clone().step_by(BATCH) {
            let batch = start..rows.end.min(start + BATCH);
            match self.parts(batch.clone()) {
                None => write_batch::<V>(&mut column, &[], Some(&[0; BATCH][..batch.len()]))?,
                Some((values, [])) => write_batch::<V>(&mut column, values, Some(&[1; BATCH][..batch.len()]))?,
                Some((values, valid)) => {
                    let levels: Vec<i16> = valid.iter().map(|&valid| valid.into()).collect();
                    let present = values.iter().zip(valid).filter(|(_, valid)| **valid);
                    let present: Vec<V> = present.map(|(value, _)| value.clone()).collect();
                    write_batch::<V>(&mut column, &present, Some(&levels))?;
                }
            }
        }
        column.close()
    }
}

fn write_batch<V: Value>(column: &mut SerializedColumnWriter<'_>, values: &[V], levels: Option<&[i16]>) -> Outcome {
    column.typed::<V::Parquet>().write_batch(&V::encode(values), levels, None).map(|_| ())
}

fn unwritten(place: &Path, error: ParquetError) -> Error {
    let code = match &error {
        ParquetError::External(inner) => inner.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error),
        _ => None,
    };
    let error = code.map_or_else(|| std::io::Error::other(error), std::io::Error::from_raw_os_error);
    Error::io(place, "write", error)
}
