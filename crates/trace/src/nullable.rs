//! A column in which a row may be null.
//!
//! Any `i64` is a legal tick, so presence is kept apart from the value. Idea: most columns are null in every row or in
//! none, and either kind needs no word a row to say so: it is appended, sliced and read like plain memory.

use std::ops::Range;

/// Rows of `T` or null. While every row is null it holds nothing but their number, so a column that nobody uses is
/// free.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nullable<T> {
    rows: usize,
    /// One a row, of no meaning where the row is null; empty while all rows are null.
    values: Vec<T>,
    /// Which rows have a value; empty unless some have one and some have none.
    valid: Vec<bool>,
}

impl<T> Default for Nullable<T> {
    fn default() -> Self {
        Self { rows: 0, values: Vec::new(), valid: Vec::new() }
    }
}

impl<T> Nullable<T> {
    /// A column of `rows` nulls.
    pub fn nulls(rows: usize) -> Self {
        Self { rows, ..Self::default() }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns whether no row has a value.
    pub fn is_all_null(&self) -> bool {
        self.values.is_empty()
    }

    /// The value at `row`; `None` where it is null, or past the end.
    #[inline]
    pub fn at(&self, row: usize) -> Option<&T> {
        if self.valid.is_empty() || *self.valid.get(row)? { self.values.get(row) } else { None }
    }

    /// The value at `row`, copied; `None` where it is null, or past the end.
    #[inline]
    pub fn get(&self, row: usize) -> Option<T>
    where
        T: Copy,
    {
        self.at(row).copied()
    }

    /// Every row in order.
    pub fn iter(&self) -> impl Iterator<Item = Option<&T>> {
        (0..self.rows).map(|row| self.at(row))
    }

    /// The values that exist, in the order of their rows.
    pub fn present(&self) -> impl Iterator<Item = &T> {
        self.iter().flatten()
    }

    /// The rows of `range`, where some row of the column has a value: a value each, of no meaning where the row is
    /// null, and whether each has one; where the second is empty, each has.
    pub fn parts(&self, range: Range<usize>) -> Option<(&[T], &[bool])> {
        let (values, valid) = (self.values.get(range.clone())?, self.valid.get(range).unwrap_or_default());
        Some((values, if valid.contains(&false) { valid } else { &[] }))
    }

    /// Removes every row.
    pub fn clear(&mut self) {
        self.rows = 0;
        self.values.clear();
        self.valid.clear();
    }
}

impl<T: Clone + Default> Nullable<T> {
    /// Appends one row.
    #[inline]
    pub fn push(&mut self, row: Option<T>) {
        match row {
            None => self.push_nulls(1),
            Some(value) => {
                if self.values.len() < self.rows {
                    self.values.resize(self.rows, T::default());
                    self.valid.resize(self.rows, false);
                }
                if !self.valid.is_empty() {
                    self.valid.push(true);
                }
                self.values.push(value);
                self.rows += 1;
            }
        }
    }

    /// Appends `count` nulls.
    pub fn push_nulls(&mut self, count: usize) {
        if !self.values.is_empty() && count > 0 {
            self.valid.resize(self.rows, true);
            self.valid.resize(self.rows + count, false);
            self.values.resize(self.rows + count, T::default());
        }
        self.rows += count;
    }

    /// Appends every row of `other`.
    pub fn append(&mut self, mut other: Self) {
        if other.is_all_null() {
            return self.push_nulls(other.rows);
        }
        if self.is_empty() {
            return *self = other;
        }
        self.make_room_beside(&other.valid, other.rows);
        self.values.append(&mut other.values);
        self.rows += other.rows;
    }

    /// Appends a copy of every row of `other`, into the memory that is there.
    pub fn append_copy(&mut self, other: &Self) {
        if other.is_all_null() {
            return self.push_nulls(other.rows);
        }
        self.make_room_beside(&other.valid, other.rows);
        self.values.extend_from_slice(&other.values);
        self.rows += other.rows;
    }

    /// Appends rows of which `present` holds the values and `levels` says which have one: 1, as Parquet's definition
    /// levels do.
    pub fn append_present(&mut self, present: &mut Vec<T>, levels: &[i16]) {
        if present.is_empty() {
            return self.push_nulls(levels.len());
        }
        if present.len() == levels.len() {
            self.make_room_beside(&[], levels.len());
            self.values.append(present);
        } else {
            let valid: Vec<bool> = levels.iter().map(|&level| level == 1).collect();
            self.make_room_beside(&valid, levels.len());
            let mut present = present.drain(..);
            self.values
                .extend(valid.iter().map(|&valid| if valid { present.next() } else { None }.unwrap_or_default()));
        }
        self.rows += levels.len();
    }

    /// Appends rows as values and whether each exists; a missing one is the default.
    pub fn extend(&mut self, rows: impl Iterator<Item = (T, bool)> + Clone) {
        let filler = !self.is_all_null();
        self.values.resize(self.rows, T::default());
        self.valid.resize(self.rows, filler);
        self.values.extend(rows.clone().map(|(value, _)| value));
        self.valid.extend(rows.map(|(_, valid)| valid));
        self.rows = self.values.len();
        self.settle();
    }

    /// Appends as many rows as both slices have: a value each, the default where the row is null, and whether it has
    /// one.
    pub(crate) fn append_rows(&mut self, values: &[T], valid: &[bool]) {
        if !valid.contains(&true) {
            return self.push_nulls(valid.len());
        }
        self.make_room_beside(if valid.contains(&false) { valid } else { &[] }, valid.len());
        self.values.extend_from_slice(values);
        self.rows += values.len();
    }

    /// Keeps the rows whose entry in `kept` is true.
    pub fn retain(&mut self, kept: &[bool]) {
        retain(&mut self.values, kept);
        retain(&mut self.valid, kept);
        self.rows = kept.iter().filter(|&&kept| kept).count();
        self.settle();
    }

    /// A value each, the default where the row is null, and whether each row has one.
    pub(crate) fn of_rows(values: Vec<T>, valid: Vec<bool>) -> Self {
        let mut column = Self { rows: values.len(), values, valid };
        column.settle();
        column
    }

    /// The rows of `range`, which lies within the column.
    pub fn slice(&self, range: Range<usize>) -> Self {
        let part = |range: Range<usize>| self.values.get(range).unwrap_or_default().to_vec();
        let valid = self.valid.get(range.clone()).unwrap_or_default().to_vec();
        let mut slice = Self { rows: range.len(), values: part(range), valid };
        slice.settle();
        slice
    }

    /// Prepares for `rows` rows whose values are appended next, and whose validity is `valid`, empty: all.
    fn make_room_beside(&mut self, valid: &[bool], rows: usize) {
        if self.values.len() < self.rows {
            self.values.resize(self.rows, T::default());
            self.valid.resize(self.rows, false);
        }
        if self.valid.is_empty() && !valid.is_empty() {
            self.valid.resize(self.rows, true);
        }
        if valid.is_empty() && !self.valid.is_empty() {
            self.valid.resize(self.rows + rows, true);
        }
        self.valid.extend_from_slice(valid);
    }

    /// Drops what says nothing: validity where all rows are alike, values where none has one.
    fn settle(&mut self) {
        if !self.valid.contains(&true) && !self.valid.is_empty() {
            self.values.clear();
        }
        if self.values.is_empty() || !self.valid.contains(&false) {
            self.valid.clear();
        }
    }
}

/// Keeps the entries of `column` whose entry in `kept` is true.
fn retain<T>(column: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    column.retain(|_| kept.next() == Some(&true));
}

impl<T> From<Vec<T>> for Nullable<T> {
    /// A column in which every row has a value.
    fn from(values: Vec<T>) -> Self {
        Self { rows: values.len(), values, valid: Vec::new() }
    }
}

impl<T: Clone + Default> FromIterator<Option<T>> for Nullable<T> {
    fn from_iter<I: IntoIterator<Item = Option<T>>>(rows: I) -> Self {
        let mut column = Self::default();
        rows.into_iter().for_each(|row| column.push(row));
        column
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Rows that are all null, all present or mixed.
    fn rows() -> impl Strategy<Value = Vec<Option<i64>>> {
        prop_oneof![
            prop::collection::vec(Just(None), 0..6),
            prop::collection::vec(any::<i64>().prop_map(Some), 0..6),
            prop::collection::vec(any::<Option<i64>>(), 0..6),
        ]
    }

    fn column(rows: &[Option<i64>]) -> Nullable<i64> {
        rows.iter().copied().collect()
    }

    fn read(column: &Nullable<i64>) -> Vec<Option<i64>> {
        (0..column.len()).map(|row| column.get(row)).collect()
    }

    proptest! {
        #[test]
        fn property_a_column_is_its_rows_however_they_were_appended(first in rows(), nulls in 0usize..3, second in rows()) {
            let mut expected = first.clone();
            expected.extend(std::iter::repeat_n(None, nulls));
            expected.extend(&second);
            let begun = || {
                let mut column = column(&first);
                column.push_nulls(nulls);
                column
            };
            let mut appended = begun();
            appended.append(column(&second));
            let mut extended = begun();
            extended.extend(second.iter().map(|row| (row.unwrap_or_default(), row.is_some())));
            let mut spread = begun();
            let levels: Vec<i16> = second.iter().map(|row| row.is_some().into()).collect();
            spread.append_present(&mut second.iter().flatten().copied().collect(), &levels);
            let mut copied = begun();
            copied.append_copy(&column(&second));
            let mut sliced = begun();
            let (values, valid): (Vec<_>, Vec<_>) =
                second.iter().map(|row| (row.unwrap_or_default(), row.is_some())).unzip();
            sliced.append_rows(&values, &valid);
            for found in [appended, extended, spread, copied, sliced] {
                prop_assert_eq!(read(&found), expected.clone());
                prop_assert_eq!(&found, &column(&expected), "one form, whatever it came from");
                prop_assert_eq!(found.is_all_null(), expected.iter().all(Option::is_none));
                prop_assert!(found.iter().map(|row| row.copied()).eq(expected.iter().copied()));
            }
        }

        #[test]
        fn property_a_slice_and_what_is_retained_are_those_rows(rows in rows(), start in 0usize..6, kept: [bool; 6]) {
            let start = start.min(rows.len());
            prop_assert_eq!(column(&rows).slice(start..rows.len()), column(&rows[start..]));
            let mut retained = column(&rows);
            retained.retain(&kept[..rows.len()]);
            let expected: Vec<_> = rows.iter().zip(kept).filter(|&(_, kept)| kept).map(|(&row, _)| row).collect();
            prop_assert_eq!(retained, column(&expected));
            let whole = column(&rows);
            let found = whole.parts(start..rows.len()).map(|(values, valid)| {
                let is_valid = |at: usize| valid.is_empty() || valid[at];
                values.iter().enumerate().map(|(at, &value)| is_valid(at).then_some(value)).collect::<Vec<_>>()
            });
            prop_assert_eq!(found.unwrap_or(vec![None; rows.len() - start]), &rows[start..]);
        }
    }
}
