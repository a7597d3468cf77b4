//! A page of a column of integers, packed piece by piece, with what the footer says of it.
//!
//! Assumes: pieces come in the order of their rows. Guarantees: the bytes do not depend on how the rows were cut into
//! pieces.

use std::sync::Arc;

use parquet::errors::ParquetError;
use parquet::schema::types::{ColumnDescriptor, ColumnPath};

use super::chunk::Chunk;
use super::delta::Packer;
use super::levels::Levels;
use super::{Field, Value};
use crate::codec::Encoding;
use crate::error::{Error, Result};

/// Rows whose values are brought together at a time, in a core's own cache.
const PIECE: usize = 1 << 12;

/// One page.
#[derive(Default)]
pub struct PackedColumn {
    /// Which rows have a value, of a column that may be null.
    levels: Option<Levels>,
    numbers: Packer,
    rows: usize,
}

impl PackedColumn {
    /// A page without rows.
    pub(super) fn of(is_nullable: bool) -> Self {
        Self { levels: is_nullable.then(Levels::default), ..Self::default() }
    }

    /// Appends rows that all have a value.
    pub(super) fn push<V: Value>(&mut self, values: &[V]) {
        self.rows += values.len();
        if let Some(levels) = &mut self.levels {
            levels.push_alike(true, values.len());
        }
        V::pack(values, &mut self.numbers);
    }

    /// Appends rows without a value.
    pub(super) fn push_nulls(&mut self, count: usize) {
        self.rows += count;
        if let Some(levels) = &mut self.levels {
            levels.push_alike(false, count);
        }
    }

    /// Appends rows of which those have a value whose entry in `present` is true.
    pub(super) fn push_some<V: Value>(&mut self, values: &[V], present: &[bool]) {
        self.rows += present.len();
        if let Some(levels) = &mut self.levels {
            levels.push_each(present);
        }
        let mut found = Vec::with_capacity(PIECE);
        for (values, present) in values.chunks(PIECE).zip(present.chunks(PIECE)) {
            found.clear();
            found.extend_from_slice(values);
            let mut count = 0;
            for (value, &is_present) in values.iter().zip(present) {
                // Whatever it is, it is written: a branch that nobody can foretell costs more.
                found[count] = value.clone();
                count += usize::from(is_present);
            }
            V::pack(&found[..count], &mut self.numbers);
        }
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Number of rows without a value.
    pub(super) fn nulls(&self) -> usize {
        self.levels.as_ref().map_or(0, Levels::nulls)
    }

    /// The smallest and the largest value; `None`: there is none.
    pub(super) fn range(&self) -> Option<(i64, i64)> {
        self.numbers.range()
    }

    /// The page's bytes, not compressed.
    pub(super) fn finish(self) -> Vec<u8> {
        let mut page = Vec::new();
        if let Some(levels) = &self.levels {
            levels.finish(&mut page);
        }
        self.numbers.finish(&mut page);
        page
    }
}

/// A row group of packed columns, as it will lie in a file.
pub(crate) struct PackedGroup {
    chunks: Vec<Chunk>,
    rows: usize,
    all_null: Vec<bool>,
}

/// A page for each of `fields`.
pub(crate) fn packed_columns(fields: &[Field]) -> Vec<PackedColumn> {
    fields.iter().map(|field| PackedColumn::of(field.nullable)).collect()
}

impl PackedGroup {
    /// Columns of these fields, a page each.
    pub(crate) fn of(columns: Vec<PackedColumn>, fields: &[Field], how: Encoding) -> Result<Self> {
        let rows = columns.first().map_or(0, PackedColumn::rows);
        let all_null = columns.iter().map(|column| column.nulls() == rows).collect();
        let chunk = |(column, field): (PackedColumn, &Field)| {
            let path = ColumnPath::from(field.name.as_ref());
            let described = ColumnDescriptor::new(Arc::new(field.parquet_type()?), field.nullable.into(), 0, path);
            Chunk::of_pages(vec![column], &Arc::new(described), field.ranged, how.codec.compression())
        };
        let chunks: std::result::Result<Vec<_>, ParquetError> = columns.into_iter().zip(fields).map(chunk).collect();
        let chunks = chunks.map_err(|e| Error::io("stamps".as_ref(), "encode", std::io::Error::other(e)))?;
        Ok(Self { chunks, rows, all_null })
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.rows as u64
    }

    /// Size of its chunks.
    pub(crate) fn bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.bytes.len() as u64).sum()
    }

    /// Returns whether no row has a value in that column.
    pub(crate) fn is_all_null(&self, column: usize) -> bool {
        self.all_null[column]
    }

    /// The chunks of its columns.
    pub(super) fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }
}
