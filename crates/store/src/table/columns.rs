//! A table declared once: from the declaration come its columns in memory, its row, writing, reading and documents.
//!
//! `columns!` takes the table's columns with the type of a cell (`Option`: nullable), `[ranged]` where row groups
//! record the smallest and the largest value, `[spared]` where a file without a value leaves the column out, and what
//! a cell means, which docs/run-format.md repeats word by word. A further column is one line. Where the declaration
//! names a row, the columns are gathered from rows and taken apart into them.

use std::path::Path;

use parquet::basic::Type as Physical;
use tickscope_trace::Nullable;

use super::{Field, GROUP_ROWS, TableReader, TableWriter, Value, WriteRows, Written};
use crate::codec::Encoding;
use crate::error::Result;

/// One row's value in one column.
pub trait Cell: Sized {
    /// Many of them.
    type Column: CellColumn<Cell = Self>;
}

/// One column in memory.
pub trait CellColumn: WriteRows + Default + Sized {
    /// One row's value.
    type Cell;
    /// True if a value may be null.
    const NULLABLE: bool;
    /// Parquet's type.
    const PHYSICAL: Physical;
    /// Number of rows.
    fn rows(&self) -> usize;
    /// Appends one row.
    fn add(&mut self, cell: Self::Cell);
    /// Appends every row of `more`.
    fn join(&mut self, more: Self);
    /// Keeps the rows whose entry in `kept` is true.
    fn keep(&mut self, kept: &[bool]);
    /// Removes every row, and keeps the memory.
    fn empty(&mut self);
    /// Appends nulls up to `rows`; a column that may not be null has as many.
    fn fill(&mut self, rows: usize);
    /// Reads one row group of a table.
    fn read(table: &TableReader, group: usize, name: &str) -> Result<Self>;
    /// Every row in order.
    fn cells(self) -> impl Iterator<Item = Self::Cell>;
}

impl<V: Value> Cell for V {
    type Column = Vec<V>;
}

impl<V: Value + Default> Cell for Option<V> {
    type Column = Nullable<V>;
}

impl<V: Value> CellColumn for Vec<V> {
    type Cell = V;
    const NULLABLE: bool = false;
    const PHYSICAL: Physical = V::PHYSICAL;
    fn rows(&self) -> usize {
        self.len()
    }
    fn add(&mut self, cell: V) {
        self.push(cell);
    }
    fn join(&mut self, mut more: Self) {
        if self.is_empty() { *self = more } else { self.append(&mut more) }
    }
    fn keep(&mut self, kept: &[bool]) {
        let mut kept = kept.iter();
        self.retain(|_| kept.next() == Some(&true));
    }
    fn empty(&mut self) {
        self.clear();
    }
    fn fill(&mut self, rows: usize) {
        debug_assert_eq!(self.len(), rows);
    }
    fn read(table: &TableReader, group: usize, name: &str) -> Result<Self> {
        table.column(group, name)
    }
    fn cells(self) -> impl Iterator<Item = V> {
        self.into_iter()
    }
}

impl<V: Value + Default> CellColumn for Nullable<V> {
    type Cell = Option<V>;
    const NULLABLE: bool = true;
    const PHYSICAL: Physical = V::PHYSICAL;
    fn rows(&self) -> usize {
        self.len()
    }
    fn add(&mut self, cell: Option<V>) {
        self.push(cell);
    }
    fn join(&mut self, more: Self) {
        self.append(more);
    }
    fn keep(&mut self, kept: &[bool]) {
        self.retain(kept);
    }
    fn empty(&mut self) {
        self.clear();
    }
    fn fill(&mut self, rows: usize) {
        self.push_nulls(rows - self.len());
    }
    fn read(table: &TableReader, group: usize, name: &str) -> Result<Self> {
        table.nullable(group, name)
    }
    fn cells(self) -> impl Iterator<Item = Option<V>> {
        (0..self.len()).map(move |row| self.at(row).cloned())
    }
}

/// The columns of a declared table.
pub(crate) trait Columns: Default {
    /// The columns in the order of the file.
    const FIELDS: &'static [Field];
    /// The meaning of each column's cells.
    #[cfg(test)]
    const MEANINGS: &'static [&'static str];
    /// Number of rows: of the first column, as of every one that is complete.
    fn rows(&self) -> usize;
    /// The columns in the order of the file.
    fn each(&self) -> Vec<&dyn WriteRows>;
    /// Appends every row of `more`.
    fn join(&mut self, more: Self);
    /// Reads one row group.
    fn read_group(table: &TableReader, group: usize) -> Result<Self>;

    /// Writes the table that is to appear at `place`, with `keys` in its footer. Returns its size in bytes.
    fn write(&self, place: &Path, keys: &[(&str, String)]) -> Result<u64> {
        Ok(self.write_encoded(place, keys, Encoding::default(), GROUP_ROWS)?.bytes)
    }

    /// As [`Columns::write`], encoded as `how` says, in row groups of so many rows.
    fn write_encoded(
        &self,
        place: &Path,
        keys: &[(&str, String)],
        how: Encoding,
        group_rows: usize,
    ) -> Result<Written> {
        let columns = Self::FIELDS.iter().zip(self.each());
        let (fields, columns): (Vec<Field>, Vec<_>) = columns
            .filter(|(field, column)| !(field.spared && column.is_all_null()))
            .map(|(field, column)| (field.clone(), column))
            .unzip();
        let mut table = TableWriter::begin_encoded(place, &fields, keys, how)?;
        let group = |start: usize| start..self.rows().min(start + group_rows);
        let groups: Vec<_> = (0..self.rows()).step_by(group_rows).map(group).collect();
        table.groups(&columns, &groups)?;
        table.finish()
    }

    /// Reads the table at `place`.
    fn read(place: &Path) -> Result<Self> {
        let table = TableReader::open_small(place, Self::FIELDS)?;
        let mut all = Self::default();
        for group in 0..table.groups() {
            all.join(Self::read_group(&table, group)?);
        }
        Ok(all)
    }
}

/// Declares a table (see the head of this file).
macro_rules! columns {
    (
        $(#[$attribute:meta])*
        $visible:vis columns $name:ident {
            $($(#[doc = $meaning:literal])+ $field:ident: $cell:ty $([$trait:ident])?,)+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        $visible struct $name {
            $($(#[doc = $meaning])+ pub $field: <$cell as $crate::table::Cell>::Column,)+
        }

        impl $crate::table::Columns for $name {
            const FIELDS: &'static [$crate::table::Field] = &[$(
                $crate::table::Field::of::<$cell>(std::borrow::Cow::Borrowed(stringify!($field)))
                    .with(&[$(stringify!($trait))?]),
            )+];
            #[cfg(test)]
            const MEANINGS: &'static [&'static str] = &[$(concat!($($meaning),+)),+];
            fn rows(&self) -> usize {
                [$($crate::table::CellColumn::rows(&self.$field)),+][0]
            }
            fn each(&self) -> Vec<&dyn $crate::table::WriteRows> {
                vec![$(&self.$field),+]
            }
            fn join(&mut self, more: Self) {
                $($crate::table::CellColumn::join(&mut self.$field, more.$field);)+
            }
            fn read_group(table: &$crate::table::TableReader, group: usize) -> $crate::error::Result<Self> {
                Ok(Self { $($field: $crate::table::CellColumn::read(table, group, stringify!($field))?,)+ })
            }
        }

        #[allow(dead_code)] // what one table needs, another need not
        impl $name {
            /// Number of rows: of the first column, as of every one that is complete.
            pub fn len(&self) -> usize {
                $crate::table::Columns::rows(self)
            }

            /// Returns whether there is no row.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Appends all of `other`.
            pub fn append(&mut self, other: Self) {
                $crate::table::Columns::join(self, other);
            }

            /// Makes every nullable column as long as the first.
            pub fn fill_with_nulls(&mut self) {
                let rows = self.len();
                $($crate::table::CellColumn::fill(&mut self.$field, rows);)+
            }

            /// Removes every row, and keeps the memory.
            pub fn clear(&mut self) {
                $($crate::table::CellColumn::empty(&mut self.$field);)+
            }

            /// Keeps the rows whose entry in `kept` is true.
            pub fn retain(&mut self, kept: &[bool]) {
                $($crate::table::CellColumn::keep(&mut self.$field, kept);)+
            }
        }
    };
    (
        $(#[$row_attribute:meta])*
        row $row:ident,
        $(#[$attribute:meta])*
        $visible:vis columns $name:ident {
            $($(#[doc = $meaning:literal])+ $field:ident: $cell:ty $([$trait:ident])?,)+
        }
    ) => {
        $crate::table::columns! {
            $(#[$attribute])*
            $visible columns $name {
                $($(#[doc = $meaning])+ $field: $cell $([$trait])?,)+
            }
        }

        $(#[$row_attribute])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct $row {
            $($(#[doc = $meaning])+ pub $field: $cell,)+
        }

        #[allow(dead_code)] // what one table needs, another need not
        impl $name {
            /// Appends one row.
            pub fn push_row(&mut self, row: $row) {
                $($crate::table::CellColumn::add(&mut self.$field, row.$field);)+
            }

            /// Every row in order.
            pub fn into_rows(self) -> impl Iterator<Item = $row> {
                $(let mut $field = $crate::table::CellColumn::cells(self.$field);)+
                std::iter::from_fn(move || Some($row { $($field: $field.next()?,)+ }))
            }
        }

        impl FromIterator<$row> for $name {
            fn from_iter<I: IntoIterator<Item = $row>>(rows: I) -> Self {
                let mut columns = Self::default();
                rows.into_iter().for_each(|row| columns.push_row(row));
                columns
            }
        }
    };
}
pub(crate) use columns;
