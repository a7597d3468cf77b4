//! Parquet, row by row: any column of whole numbers, decimals, texts or times, by its name.
//!
//! Assumes: a row fits in memory. Guarantees: a value that is none of these is refused with its row and its column.

use std::borrow::Cow;
use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::basic::{LogicalType, TimeUnit, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::types::Type;
use tickscope_store::guarded;

use crate::error::Error;
use crate::form::{Table, Unit, shortened_to};
use crate::parquet_pages::CheckedFile;
use crate::records::Record;

/// The rows of one file.
pub(crate) struct ParquetRows {
    rows: RowIter<'static>,
    file: PathBuf,
    wanted: Vec<String>,
    number: u64,
}

impl ParquetRows {
    /// The rows, and the names of their columns.
    pub fn of(input: File, table: &Table) -> Result<(Self, Vec<String>), Error> {
        let file = table.file.as_path();
        let damaged = |error: ParquetError| damaged(file, &error.to_string());
        let reader = held(file, || SerializedFileReader::new(input))?.map_err(damaged)?;
        let root = reader.metadata().file_metadata().schema();
        let fields = root.get_fields();
        for column in fields.iter().filter(|column| table.times_wanted().iter().any(|time| time == column.name())) {
            let known = if is_of_96_bits(column) {
                Err(format!(
                    "expected times of 64 bits in '{}', found INT96, whose unit a reader guesses. Write it again, as \
                     with use_deprecated_int96_timestamps=False",
                    column.name()
                ))
            } else {
                unit(column).map_or(Ok(()), |unit| table.clock.expect_unit(column.name(), unit))
            };
            known.map_err(|why| Error::input(file.display(), why))?;
        }
        let wanted = table.columns_wanted();
        // Others are never unpacked. Where one is missing, all are told.
        let chosen: Vec<_> = fields.iter().filter(|column| wanted.iter().any(|name| name == column.name())).collect();
        let chosen = if chosen.len() < wanted.len() { fields.iter().collect() } else { chosen };
        let names = chosen.iter().map(|field| field.name().to_owned()).collect();
        let schema = Type::group_type_builder(root.name()).with_fields(chosen.into_iter().cloned().collect()).build();
        let schema = schema.map_err(damaged)?;
        let rows = held(file, || RowIter::from_file_into(Box::new(CheckedFile(reader))).project(Some(schema)))?;
        let rows = rows.map_err(damaged)?;
        Ok((Self { rows, file: file.into(), wanted, number: 0 }, names))
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn next<'a>(&mut self) -> Result<Option<Record<'a>>, Error> {
        let rows = &mut self.rows;
        let row = match held(&self.file, || rows.next())? {
            None => return Ok(None),
            Some(row) => row.map_err(|error| damaged(&self.file, &error.to_string()))?,
        };
        self.number += 1;
        self.cells(&row).map(Some)
    }

    fn cells<'a>(&self, row: &Row) -> Result<Record<'a>, Error> {
        let columns = row.get_column_iter();
        let cell = |(name, value): (&String, &Field)| {
            let wrong = |why: String| Error::input(format_args!("{}: row {}", self.file.display(), self.number), why);
            if !is_exact(value) && self.wanted.contains(name) {
                return Err(wrong(format!(
                    "expected whole numbers below 2^53 in '{name}', where they are floating, found another. Cast it to \
                     integers, or times to a smaller unit, before it is written"
                )));
            }
            text(value).ok_or_else(|| {
                wrong(format!(
                    "expected numbers, texts or times in '{name}', found another type. Write it without that column"
                ))
            })
        };
        columns.map(cell).collect()
    }
}

fn is_of_96_bits(column: &Type) -> bool {
    column.is_primitive() && column.get_physical_type() == PhysicalType::INT96
}

/// Returns whether a value is no floating number, or a whole one beside which none could have been meant.
fn is_exact(value: &Field) -> bool {
    match value {
        Field::Float(number) => number.fract() == 0.0 && number.abs() < (1 << 24) as f32,
        Field::Double(number) => number.fract() == 0.0 && number.abs() < (1_u64 << 53) as f64,
        _ => true,
    }
}

/// The unit that a column says its times are in.
fn unit(column: &Type) -> Option<Unit> {
    match column.get_basic_info().logical_type_ref()? {
        LogicalType::Timestamp(time) => match time.unit {
            TimeUnit::MILLIS => Some(Unit::Ms),
            TimeUnit::MICROS => Some(Unit::Us),
            TimeUnit::NANOS => Some(Unit::Ns),
        },
        _ => None,
    }
}

/// A value as a table of text has it; `None`: it is of a type that none has.
fn text<'a>(value: &Field) -> Option<Cow<'a, str>> {
    Some(match value {
        Field::Null => Cow::Borrowed(""),
        Field::Byte(number) => number.to_string().into(),
        Field::Short(number) => number.to_string().into(),
        Field::Int(number) => number.to_string().into(),
        Field::Long(number) => number.to_string().into(),
        Field::UByte(number) => number.to_string().into(),
        Field::UShort(number) => number.to_string().into(),
        Field::UInt(number) => number.to_string().into(),
        Field::ULong(number) => number.to_string().into(),
        Field::TimestampMillis(number) | Field::TimestampMicros(number) => number.to_string().into(),
        Field::Float(number) => number.to_string().into(),
        Field::Double(number) => number.to_string().into(),
        Field::Str(text) => text.clone().into(),
        _ => return None,
    })
}

/// The library that reads Parquet panics on some damaged files.
fn held<T>(file: &Path, read: impl FnOnce() -> T) -> Result<T, Error> {
    guarded(read).map_err(|why| damaged(file, &why))
}

fn damaged(file: &Path, why: &str) -> Error {
    const MOST_TOLD: usize = 200;
    if let Some((_, codec)) = why.split_once("Disabled feature at compile time: ") {
        let found = format!(
            "expected Parquet that is compressed by Snappy, zstd, LZ4 or not at all, found {codec}. Write it again, as \
             with compression=\"zstd\" of pyarrow"
        );
        return Error::input(file.display(), found);
    }
    let why = shortened_to(why, MOST_TOLD);
    let found = format!("expected Parquet, found a file that cannot be read: {why}. Write it again");
    Error::input(file.display(), found)
}
