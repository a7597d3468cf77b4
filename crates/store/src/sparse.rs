//! A column in which a row may be null.

/// Rows of `T` or null. While every row is null it holds nothing but their number, so a column that nobody uses is free.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sparse<T> {
    rows: usize,
    values: Vec<T>,
    /// One definition level a row, 1: a value, as Parquet wants it; empty while all rows are null.
    levels: Vec<i16>,
}

impl<T> Default for Sparse<T> {
    fn default() -> Self {
        Self { rows: 0, values: Vec::new(), levels: Vec::new() }
    }
}

impl<T> Sparse<T> {
    /// A column of `rows` nulls.
    pub fn nulls(rows: usize) -> Self {
        Self { rows, ..Self::default() }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Whether no row has a value.
    pub fn is_all_null(&self) -> bool {
        self.values.is_empty()
    }

    /// Appends one row.
    pub fn push(&mut self, row: Option<T>) {
        match row {
            None => self.push_nulls(1),
            Some(value) => {
                self.levels.resize(self.rows, 0);
                self.levels.push(1);
                self.values.push(value);
                self.rows += 1;
            }
        }
    }

    /// Appends `count` nulls.
    pub fn push_nulls(&mut self, count: usize) {
        self.rows += count;
        if !self.levels.is_empty() {
            self.levels.resize(self.rows, 0);
        }
    }

    /// Every row in order.
    pub fn iter(&self) -> impl Iterator<Item = Option<&T>> {
        let mut values = self.values.iter();
        (0..self.rows).map(move |row| match self.levels.get(row) {
            Some(1) => values.next(),
            _ => None,
        })
    }

    /// Appends every row of `other`.
    pub fn append(&mut self, mut other: Self) {
        if other.is_all_null() {
            return self.push_nulls(other.rows);
        }
        self.levels.resize(self.rows, 0);
        self.levels.append(&mut other.levels);
        self.values.append(&mut other.values);
        self.rows += other.rows;
    }

    /// Keeps the rows whose entry in `kept` is true.
    pub(crate) fn retain(&mut self, kept: &[bool])
    where
        T: Clone,
    {
        if self.is_all_null() {
            self.rows = kept.iter().filter(|&&kept| kept).count();
            return;
        }
        *self = self.iter().zip(kept).filter(|&(_, &kept)| kept).map(|(row, _)| row.cloned()).collect();
    }

    /// The rows of `range`.
    pub(crate) fn slice(&self, range: std::ops::Range<usize>) -> Self
    where
        T: Clone,
    {
        if self.is_all_null() {
            return Self::nulls(range.len());
        }
        self.iter().skip(range.start).take(range.len()).map(|row| row.cloned()).collect()
    }

    /// From Parquet's own form: the values that are there, and a level a row.
    pub(crate) fn from_levels(values: Vec<T>, levels: Vec<i16>) -> Self {
        let rows = levels.len();
        let levels = if values.is_empty() { Vec::new() } else { levels };
        Self { rows, values, levels }
    }

    /// Values present, and the levels; no levels: all rows are null.
    pub(crate) fn parts(&self) -> (&[T], &[i16]) {
        (&self.values, &self.levels)
    }
}

impl<T> FromIterator<Option<T>> for Sparse<T> {
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

    proptest! {
        #[test]
        fn property_a_sparse_column_is_the_rows_that_were_pushed(
            first: Vec<Option<i64>>, nulls in 0usize..5, second: Vec<Option<i64>>,
        ) {
            let mut column: Sparse<i64> = first.iter().copied().collect();
            column.push_nulls(nulls);
            column.append(second.iter().copied().collect());
            let mut expected = first;
            expected.extend(std::iter::repeat_n(None, nulls));
            expected.extend(second);
            prop_assert_eq!(column.iter().map(|row| row.copied()).collect::<Vec<_>>(), expected.clone());
            prop_assert_eq!(column.len(), expected.len());
        }
    }
}
