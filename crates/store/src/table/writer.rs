//! Writing a table, one row group after another.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnPath, Type};
use tickscope_trace::Nullable;

use super::{Field, SCHEMA_KEY, Value, seal};
use crate::SCHEMA;
use crate::error::{Error, Result};
use crate::whole_file::WholeFile;

/// A column in memory, of which some rows can be written.
pub trait WriteRows {
    /// Returns whether no row has a value.
    fn is_all_null(&self) -> bool {
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
}

impl TableWriter {
    /// Begins the table that is to appear at `place`, with `keys` in its footer.
    pub(crate) fn begin(place: &Path, fields: &[Field], keys: &[(&str, String)]) -> Result<Self> {
        let mut marked = vec![(SCHEMA_KEY, SCHEMA.to_string())];
        if let Some((root, inside)) = seal::belongs(place) {
            marked.push((seal::PLACE_KEY, inside));
            marked.extend(seal::run_id(&root).map(|id| (seal::RUN_KEY, id)));
        }
        marked.extend_from_slice(keys);
        Self::begin_unmarked(place, fields, &marked)
    }

    /// As [`TableWriter::begin`], without the schema's number: such a file is refused by readers.
    pub(super) fn begin_unmarked(place: &Path, fields: &[Field], keys: &[(&str, String)]) -> Result<Self> {
        let whole = WholeFile::begin(place)?;
        let file = whole.file().try_clone().map_err(|e| Error::io(place, "write", e))?;
        let types: std::result::Result<Vec<_>, _> = fields.iter().map(|f| f.parquet_type().map(Arc::new)).collect();
        let schema = types.and_then(|types| Type::group_type_builder("tickscope").with_fields(types).build());
        let writer = schema
            .and_then(|schema| SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties(fields, keys))))
            .map_err(|e| unwritten(place, e))?;
        Ok(Self { whole, writer, place: place.into() })
    }

    /// Adds a footer key once its value is known.
    pub(crate) fn key(&mut self, key: &str, value: String) {
        self.writer.append_key_value_metadata(KeyValue::new(key.to_string(), value));
    }

    /// Adds `rows` of the columns as a row group; columns in the order of the table's fields.
    pub(crate) fn group(&mut self, columns: &[&dyn WriteRows], rows: Range<usize>) -> Result<()> {
        write_group(&mut self.writer, columns, rows).map_err(|e| unwritten(&self.place, e))
    }

    /// Completes the table and gives it its name. Returns its size in bytes.
    pub(crate) fn finish(mut self) -> Result<u64> {
        let bytes = self.finish_sealed().map_err(|e| unwritten(&self.place, e))?;
        self.whole.finish()?;
        Ok(bytes)
    }

    fn finish_sealed(&mut self) -> std::result::Result<u64, ParquetError> {
        self.writer.flush()?;
        let chunks = seal::chunk_digests(self.whole.file(), self.writer.flushed_row_groups())?;
        self.key(seal::CHUNKS_KEY, chunks);
        self.key(seal::SEAL_KEY, seal::UNSEALED.into());
        self.writer.finish()?;
        let bytes = self.writer.bytes_written() as u64;
        seal::seal(self.whole.file(), bytes)?;
        Ok(bytes)
    }
}

fn properties(fields: &[Field], keys: &[(&str, String)]) -> WriterProperties {
    let keys = keys.iter().map(|(key, value)| KeyValue::new(key.to_string(), value.clone())).collect();
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("tickscope ", env!("CARGO_PKG_VERSION")).into())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
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
            properties = properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    properties.build()
}

/// Rows encoded at a time; also the size at which a page is looked at, so pages stay near their byte limit.
const BATCH: usize = 1 << 14;

fn write_group(writer: &mut SerializedFileWriter<File>, columns: &[&dyn WriteRows], rows: Range<usize>) -> Outcome {
    let mut group = writer.next_row_group()?;
    let mut columns = columns.iter();
    while let Some(column) = group.next_column()? {
        let values = columns.next().ok_or_else(|| ParquetError::General("a column has no values".into()))?;
        values.write(rows.clone(), column)?;
    }
    group.close().map(|_| ())
}

impl<V: Value> WriteRows for Vec<V> {
    fn write(&self, rows: Range<usize>, mut column: SerializedColumnWriter<'_>) -> Outcome {
        write_batch::<V>(&mut column, &self[rows], None)?;
        column.close()
    }
}

impl<V: Value> WriteRows for Nullable<V> {
    fn is_all_null(&self) -> bool {
        Nullable::is_all_null(self)
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
