//! Tables of a run: Parquet files of signed integers and text, with tickscope's mark in the footer.
//!
//! A table is written in row groups, each handed over as whole columns, and appears under its name only when it is
//! complete. Reading asks for one column at a time; nothing is decoded that is not asked for.
//!
//! Assumes: columns of one row group are equally long. Guarantees: what is not ours, torn, or of a later version is
//! an error that names the file; a column of nulls costs some bytes a row group and no time. Deliberately absent:
//! Arrow's own description of the schema, page indexes, and statistics beyond those that prune row groups: with files
//! of ten seconds of one point, the footer is a fair part of the file.

mod chunk;
mod columns;
mod delta;
mod guard;
mod levels;
mod packed;
mod reader;
mod seal;
mod writer;

pub(crate) use columns::{Cell, CellColumn, Columns, columns};
pub use guard::guarded;
pub(crate) use packed::{PackedColumn, PackedGroup, packed_columns};
pub(crate) use reader::TableReader;
pub(crate) use seal::forget_run_id;
pub use writer::Written;
pub(crate) use writer::{TableWriter, WriteRows};

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use delta::Packer;
use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::schema::types::Type;
use tickscope_tick::{NodeName, PointName};

/// Footer key by which a file says that it is tickscope's, and of which schema.
pub(crate) const SCHEMA_KEY: &str = "tickscope.schema";

/// Rows a row group: large enough for its statistics to cost nothing, small enough that a chunk of ids prunes.
pub(crate) const GROUP_ROWS: usize = 1 << 20;

/// One column of a table.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    name: Cow<'static, str>,
    physical: Physical,
    nullable: bool,
    /// Each row group records the smallest and the largest value.
    ranged: bool,
    /// A file in which no row has a value leaves the column out.
    spared: bool,
    /// Few values, each in many rows: a dictionary holds them.
    repeating: bool,
}

impl Field {
    pub(crate) const fn of<C: Cell>(name: Cow<'static, str>) -> Self {
        let (physical, nullable) = (C::Column::PHYSICAL, C::Column::NULLABLE);
        Self { name, physical, nullable, ranged: false, spared: false, repeating: false }
    }

    /// The column with the traits that its declaration names: `ranged`, `spared`, `repeating`.
    pub(crate) const fn with(mut self, traits: &[&str]) -> Self {
        let mut at = 0;
        while at < traits.len() {
            match traits[at].as_bytes() {
                b"ranged" => self.ranged = true,
                b"spared" => self.spared = true,
                b"repeating" => self.repeating = true,
                _ => panic!("a column is ranged, spared or repeating"),
            }
            at += 1;
        }
        self
    }

    /// Returns whether a file in which no row has a value leaves the column out.
    pub(crate) fn is_spared(&self) -> bool {
        self.spared
    }

    fn is_text(&self) -> bool {
        matches!(self.physical, Physical::BYTE_ARRAY)
    }

    #[cfg(test)]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The type as the documents name it.
    #[cfg(test)]
    pub(crate) fn documented(&self) -> String {
        let name = if self.is_text() { "STRING".into() } else { self.physical.to_string() };
        name + if self.nullable { ", nullable" } else { "" }
    }

    fn parquet_type(&self) -> parquet::errors::Result<Type> {
        let repetition = if self.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let builder = Type::primitive_type_builder(&self.name, self.physical).with_repetition(repetition);
        if !self.is_text() {
            return builder.build();
        }
        builder.with_logical_type(Some(LogicalType::String)).with_converted_type(ConvertedType::UTF8).build()
    }
}

/// A value of a column, in memory and in Parquet.
pub trait Value: Sized + Clone + Sync {
    /// Parquet's type.
    type Parquet: DataType;
    /// The same as a value.
    const PHYSICAL: Physical;
    /// Parquet's own form of `values`; borrowed where it is the same.
    fn encode(values: &[Self]) -> Cow<'_, [<Self::Parquet as DataType>::T]>;
    /// Error: what was found that is no value, such as bytes that are no text.
    fn decode(values: Vec<<Self::Parquet as DataType>::T>) -> Result<Vec<Self>, String>;
    /// Whether [`Value::pack`] packs them; the Parquet crate encodes all others.
    const IS_PACKED: bool = false;
    /// Packs `values` behind those before.
    fn pack(_values: &[Self], _into: &mut Packer) {}
}

impl Value for i64 {
    type Parquet = Int64Type;
    const PHYSICAL: Physical = Physical::INT64;
    fn encode(values: &[Self]) -> Cow<'_, [i64]> {
        values.into()
    }
    fn decode(values: Vec<i64>) -> Result<Vec<Self>, String> {
        Ok(values)
    }
    const IS_PACKED: bool = true;
    fn pack(values: &[Self], into: &mut Packer) {
        into.push(values);
    }
}

impl Value for i32 {
    type Parquet = Int32Type;
    const PHYSICAL: Physical = Physical::INT32;
    fn encode(values: &[Self]) -> Cow<'_, [i32]> {
        values.into()
    }
    fn decode(values: Vec<i32>) -> Result<Vec<Self>, String> {
        Ok(values)
    }
    const IS_PACKED: bool = true;
    fn pack(values: &[Self], into: &mut Packer) {
        into.push(values);
    }
}

/// A number below 2^31 that is never negative.
impl Value for u32 {
    type Parquet = Int32Type;
    const PHYSICAL: Physical = Physical::INT32;
    fn encode(values: &[Self]) -> Cow<'_, [i32]> {
        values.iter().map(|&number| number as i32).collect()
    }
    fn decode(values: Vec<i32>) -> Result<Vec<Self>, String> {
        Ok(values.into_iter().map(|number| number as u32).collect())
    }
}

/// An identity, as 16 hexadecimal digits: Spark has no unsigned integers. What is no such number is none of ours: 0.
impl Value for u64 {
    type Parquet = ByteArrayType;
    const PHYSICAL: Physical = Physical::BYTE_ARRAY;
    fn encode(values: &[Self]) -> Cow<'_, [ByteArray]> {
        values.iter().map(|identity| ByteArray::from(format!("{identity:016x}").into_bytes())).collect()
    }
    fn decode(values: Vec<ByteArray>) -> Result<Vec<Self>, String> {
        Ok(values.iter().map(|bytes| from_hexadecimal(bytes.as_utf8().unwrap_or_default())).collect())
    }
}

/// The number of these digits, 0 if they are none.
pub(crate) fn from_hexadecimal(digits: &str) -> u64 {
    u64::from_str_radix(digits, 16).unwrap_or(0)
}

/// A value by the name that it is printed by and read from.
macro_rules! named_values {
    ($($type:ty),*) => {$(
        impl $crate::table::Value for $type {
            type Parquet = parquet::data_type::ByteArrayType;
            const PHYSICAL: parquet::basic::Type = parquet::basic::Type::BYTE_ARRAY;
            fn encode(values: &[Self]) -> std::borrow::Cow<'_, [parquet::data_type::ByteArray]> {
                $crate::table::encode_named(values)
            }
            fn decode(values: Vec<parquet::data_type::ByteArray>) -> std::result::Result<Vec<Self>, String> {
                $crate::table::decode_named(&values)
            }
        }
    )*};
}
pub(crate) use named_values;
named_values!(String, NodeName, PointName);

pub(crate) fn encode_named<V: Display>(values: &[V]) -> Cow<'_, [ByteArray]> {
    values.iter().map(|value| ByteArray::from(value.to_string().into_bytes())).collect()
}

pub(crate) fn decode_named<V: FromStr<Err: Display>>(values: &[ByteArray]) -> Result<Vec<V>, String> {
    let name = |bytes: &ByteArray| match bytes.as_utf8() {
        Ok(text) => text.parse().map_err(|e: V::Err| e.to_string()),
        Err(_) => Err("bytes that are no UTF-8".into()),
    };
    values.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SCHEMA;
    use crate::codec::{Codec, Encoding};
    use crate::scratch::Scratch;
    use proptest::prelude::*;
    use tickscope_trace::Nullable;

    fn fields() -> Vec<Field> {
        vec![
            Field::of::<i64>("a".into()).with(&["ranged"]),
            Field::of::<Option<i32>>("b".into()),
            Field::of::<String>("c".into()),
            Field::of::<Option<String>>("d".into()),
            Field::of::<Option<i64>>("e".into()),
        ]
    }

    type Row = (i64, Option<i32>, String, Option<String>);

    fn write(path: &std::path::Path, groups: &[Vec<Row>]) {
        let mut table = TableWriter::begin(path, &fields(), &[("k", "v".into())]).unwrap();
        for rows in groups {
            let a: Vec<i64> = rows.iter().map(|row| row.0).collect();
            let b: Nullable<i32> = rows.iter().map(|row| row.1).collect();
            let c: Vec<String> = rows.iter().map(|row| row.2.clone()).collect();
            let d: Nullable<String> = rows.iter().map(|row| row.3.clone()).collect();
            let e = Nullable::<i64>::nulls(rows.len());
            table.group(&[&a, &b, &c, &d, &e], 0..rows.len()).unwrap();
        }
        table.finish().unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn property_a_table_reads_back_as_it_was_written(
            groups in prop::collection::vec(prop::collection::vec(any::<Row>(), 1..50), 0..4),
        ) {
            let scratch = Scratch::new();
            let path = scratch.path().join("t.parquet");
            write(&path, &groups);
            let table = TableReader::open(&path).unwrap();
            prop_assert_eq!(table.key("k"), Some("v"));
            prop_assert_eq!(table.groups(), groups.len());
            for (group, rows) in groups.iter().enumerate() {
                let a: Vec<i64> = rows.iter().map(|row| row.0).collect();
                prop_assert_eq!(table.range(group, "a"), Some((*a.iter().min().unwrap(), *a.iter().max().unwrap())));
                prop_assert_eq!(table.column::<i64>(group, "a").unwrap(), a);
                let b = table.nullable::<i32>(group, "b").unwrap();
                prop_assert_eq!(b, rows.iter().map(|row| row.1).collect());
                let c: Vec<String> = rows.iter().map(|row| row.2.clone()).collect();
                prop_assert_eq!(table.column::<String>(group, "c").unwrap(), c);
                let d = table.nullable::<String>(group, "d").unwrap();
                prop_assert_eq!(d, rows.iter().map(|row| row.3.clone()).collect());
                prop_assert_eq!(table.nullable::<i64>(group, "e").unwrap(), Nullable::nulls(rows.len()));
            }
        }
    }

    /// Integers as programs make them: near each other, far apart, all alike, or any.
    fn integers() -> impl Strategy<Value = Vec<i64>> {
        let steps = |step| prop::collection::vec(step, 0..1100);
        let run = |(first, steps): (i64, Vec<i64>)| {
            steps.into_iter().scan(first, |now: &mut i64, step| {
                *now = now.wrapping_add(step);
                Some(*now)
            })
        };
        prop_oneof![
            (any::<i64>(), steps((0i64..300).boxed())).prop_map(move |of| run(of).collect()),
            (any::<i64>(), (0u32..64).prop_flat_map(move |bits| steps((0..=(i64::MAX >> (63 - bits))).boxed())))
                .prop_map(move |of| run(of).collect()),
            (any::<i64>(), 0usize..1100).prop_map(|(value, rows)| vec![value; rows]),
            prop::collection::vec(any::<i64>(), 0..600),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn property_integers_of_any_width_are_read_back_by_the_parquet_crate(wide in integers()) {
            let scratch = Scratch::new();
            let path = scratch.path().join("t.parquet");
            let narrow: Vec<i32> = wide.iter().map(|&value| value as i32).collect();
            let fields = [Field::of::<i64>("a".into()), Field::of::<i32>("b".into())];
            let fields = fields.map(|field| field.with(&["ranged"]));
            for codec in Codec::ALL {
                let how = Encoding { codec, ..Encoding::default() };
                let mut table = TableWriter::begin_encoded(&path, &fields, &[], how).unwrap();
                table.group(&[&wide, &narrow], 0..wide.len()).unwrap();
                table.finish().unwrap();
                let table = TableReader::open(&path).unwrap();
                prop_assert_eq!(&table.column::<i64>(0, "a").unwrap(), &wide);
                prop_assert_eq!(&table.column::<i32>(0, "b").unwrap(), &narrow);
                let range = wide.iter().min().zip(wide.iter().max());
                prop_assert_eq!(table.range(0, "a"), range.map(|(&least, &most)| (least, most)));
            }
        }
    }

    /// Rows that are null or not, in runs of any length.
    fn nullables() -> impl Strategy<Value = Vec<Option<i64>>> {
        let run = (any::<bool>(), prop_oneof![1usize..4, 1usize..80, 200usize..700]);
        let run = (run, any::<i64>()).prop_map(|((is_present, rows), value)| {
            let value = move |row| is_present.then(|| value.wrapping_mul(row as i64));
            (0..rows).map(value).collect::<Vec<_>>()
        });
        prop::collection::vec(run, 0..12).prop_map(|runs| runs.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn property_nulls_are_read_back_wherever_they_are(rows in nullables(), cut in 0usize..3000) {
            let scratch = Scratch::new();
            let path = scratch.path().join("t.parquet");
            let wide: Nullable<i64> = rows.iter().copied().collect();
            let narrow: Nullable<i32> = rows.iter().map(|row| row.map(|value| value as i32)).collect();
            let fields = [Field::of::<Option<i64>>("a".into()), Field::of::<Option<i32>>("b".into())];
            let fields = fields.map(|field| field.with(&["ranged"]));
            let mut table = TableWriter::begin(&path, &fields, &[]).unwrap();
            let cut = cut.min(rows.len());
            table.groups(&[&wide, &narrow], &[0..cut, cut..rows.len()]).unwrap();
            table.finish().unwrap();
            let table = TableReader::open(&path).unwrap();
            for (group, range) in [0..cut, cut..rows.len()].into_iter().enumerate() {
                prop_assert_eq!(&table.nullable::<i64>(group, "a").unwrap(), &wide.slice(range.clone()));
                prop_assert_eq!(&table.nullable::<i32>(group, "b").unwrap(), &narrow.slice(range.clone()));
                let present = rows[range].iter().flatten();
                let expected = present.clone().min().zip(present.max()).map(|(&least, &most)| (least, most));
                prop_assert_eq!(table.range(group, "a"), expected);
            }
        }
    }

    #[test]
    fn a_torn_file_is_refused_wherever_it_is_cut() {
        let scratch = Scratch::new();
        let path = scratch.path().join("t.parquet");
        write(&path, &[vec![(1, None, "x".into(), None); 100]]);
        let whole = std::fs::read(&path).unwrap();
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let error = TableReader::open(&path).err().expect("a torn file");
            assert!(error.to_string().contains("t.parquet") && !error.is_newer(), "{error}");
        }
    }

    /// Every cell that can be read, as text; what cannot is an error.
    fn cells(path: &std::path::Path) -> crate::error::Result<Vec<String>> {
        let table = TableReader::open(path)?;
        let mut all = vec![format!("{:?} {:?}", table.names(), table.key("k"))];
        for group in 0..table.groups() {
            all.push(format!("{:?} {:?}", table.column::<i64>(group, "a")?, table.range(group, "a")));
            all.push(format!("{:?}", table.nullable::<i32>(group, "b")?));
            all.push(format!("{:?}", table.column::<String>(group, "c")?));
            all.push(format!("{:?}", table.nullable::<String>(group, "d")?));
        }
        Ok(all)
    }

    #[test]
    fn every_flipped_bit_of_a_table_is_an_error_that_names_the_file_or_changes_nothing_that_is_read() {
        let scratch = Scratch::new();
        let path = scratch.path().join("t.parquet");
        let row = |at: i64| (at * 7, Some(at as i32), format!("text {}", at % 3), (at % 2 == 0).then(|| "d".into()));
        write(&path, &[(0..40).map(row).collect()]);
        let (whole, before) = (std::fs::read(&path).unwrap(), cells(&path).unwrap());
        let (mut refused, bits) = (0, whole.len() * 8);
        for bit in 0..bits {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &damaged).unwrap();
            match cells(&path) {
                Ok(now) => assert_eq!(now, before, "bit {bit}"),
                Err(error) => {
                    assert!(error.to_string().contains("t.parquet"), "{error}");
                    refused += 1;
                }
            }
        }
        // What may change: the magic number at the front, the seal's own name, and the column that is not read.
        assert!(refused > bits * 9 / 10, "{refused} of {bits}");
    }

    #[test]
    fn a_footer_with_more_rows_than_its_bytes_can_hold_is_refused_before_they_are_read() {
        let scratch = Scratch::new();
        let path = scratch.path().join("t.parquet");
        let fields = [Field::of::<Option<i64>>("e".into())];
        let mut table = TableWriter::begin(&path, &fields, &[]).unwrap();
        let rows = GROUP_ROWS + 1;
        let nulls = Nullable::<i64>::nulls(rows);
        for _ in 0..17 {
            table.group(&[&nulls], 0..rows).unwrap();
        }
        table.finish().unwrap();
        assert!(TableReader::open(&path).is_ok(), "it is read a row group at a time");
        let error = TableReader::open_small(&path, &fields).err().unwrap().to_string();
        assert!(error.contains("rows in") && error.contains(&(17 * rows).to_string()), "{error}");
    }

    #[test]
    fn a_file_of_another_place_or_run_is_refused_and_says_where_it_belongs() {
        let scratch = Scratch::new();
        let root = |run: &str| {
            let root = scratch.path().join(run);
            std::fs::create_dir_all(&root).unwrap();
            std::fs::write(root.join("run.json"), format!("{{\"run\": \"{run}\"}}")).unwrap();
            root
        };
        let (one, other) = (root("000000000000000a"), root("000000000000000b"));
        let stamps =
            |root: &std::path::Path, point: &str| root.join(format!("stamps/node=n/point={point}/part-0.parquet"));
        for root in [&one, &other] {
            for point in ["a", "b"] {
                write(&stamps(root, point), &[vec![(1, None, "x".into(), None)]]);
            }
        }
        assert!(TableReader::open(&stamps(&one, "a")).is_ok());
        let said = |from: &std::path::Path| {
            std::fs::copy(from, stamps(&one, "a")).unwrap();
            TableReader::open(&stamps(&one, "a")).err().unwrap().to_string()
        };
        let error = said(&stamps(&one, "b"));
        assert!(
            error.contains("expected a file of stamps/node=n/point=a/part-0.parquet, found one of stamps/"),
            "{error}"
        );
        let error = said(&stamps(&other, "a"));
        assert!(
            error.contains("expected a file of run 000000000000000a, found one of run 000000000000000b"),
            "{error}"
        );
    }

    #[test]
    fn a_later_schema_and_a_file_of_others_are_told_apart() {
        let scratch = Scratch::new();
        let path = scratch.path().join("t.parquet");
        let later = [(SCHEMA_KEY, (SCHEMA + 1).to_string())];
        TableWriter::begin_unmarked(&path, &fields(), &later, Encoding::default()).unwrap().finish().unwrap();
        let error = TableReader::open(&path).err().unwrap();
        assert!(error.is_newer() && error.to_string().contains("found 3"), "{error}");
        TableWriter::begin_unmarked(&path, &fields(), &[], Encoding::default()).unwrap().finish().unwrap();
        let error = TableReader::open(&path).err().unwrap();
        assert!(error.is_foreign() && error.to_string().contains(SCHEMA_KEY), "{error}");
    }

    #[test]
    fn a_column_that_nobody_knows_is_refused_by_name_and_one_that_is_missing_reads_as_null() {
        let scratch = Scratch::new();
        let path = scratch.path().join("t.parquet");
        write(&path, &[vec![(1, None, "x".into(), None)]]);
        let error = TableReader::open_as(&path, &fields()[..4]).err().unwrap();
        let said =
            "t.parquet: expected columns a, b, c, d, found a column 'e'; remove that column, or read the run with";
        assert!(error.to_string().contains(said) && !error.is_newer(), "{error}");
        let mut more = fields();
        more.push(Field::of::<Option<i64>>("f".into()));
        let table = TableReader::open_as(&path, &more).unwrap();
        assert_eq!(table.nullable::<i64>(0, "f").unwrap(), Nullable::nulls(1));
    }

    #[test]
    fn a_column_of_another_type_is_named_in_the_error() {
        let scratch = Scratch::new();
        let path = scratch.path().join("t.parquet");
        write(&path, &[vec![(1, None, "x".into(), None)]]);
        let table = TableReader::open(&path).unwrap();
        let error = table.column::<i64>(0, "c").unwrap_err().to_string();
        assert!(error.contains("column 'c' of INT64") && error.contains("BYTE_ARRAY"), "{error}");
        assert!(table.column::<i64>(0, "e").is_err(), "a null is no value");
        assert!(table.column::<i64>(0, "absent").is_err());
        assert_eq!(table.nullable::<i64>(0, "absent").unwrap(), Nullable::nulls(1));
    }
}
