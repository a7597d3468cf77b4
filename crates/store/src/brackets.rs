//! Brackets: the evidence about a pair of clocks, kept whole so that a bound can be asked again under another rho.

use std::path::Path;

use crate::Sparse;
use crate::error::{Error, Result};
use crate::table::{Field, GROUP_ROWS, TableReader, TableWriter, Values};

/// Brackets of one pair of domains as columns, one row a bracket. All columns are equally long.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BracketColumns {
    /// Tick of the reference; null: open.
    pub before: Sparse<i64>,
    /// Tick of the domain.
    pub at: Vec<i64>,
    /// Tick of the reference; null: open.
    pub after: Sparse<i64>,
    /// `probe-request`, `probe-reply`, `shared-host`, ...
    pub source: Vec<String>,
    /// Orderings of the stamps it was made of, `before/after`.
    pub ordering: Vec<String>,
}

impl BracketColumns {
    /// How many brackets.
    pub fn len(&self) -> usize {
        self.at.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    /// Adds a bracket.
    pub fn push(&mut self, before: Option<i64>, at: i64, after: Option<i64>, source: &str, ordering: &str) {
        self.before.push(before);
        self.at.push(at);
        self.after.push(after);
        self.source.push(source.into());
        self.ordering.push(ordering.into());
    }

    /// `(before, at, after)` of every bracket that proves something: whose stamps were ordered `before` and `after`.
    pub fn ordered(&self) -> impl Iterator<Item = (Option<i64>, i64, Option<i64>)> {
        let ends = self.before.iter().zip(self.after.iter());
        let rows = self.at.iter().zip(ends).zip(&self.ordering);
        let rows = rows.filter(|(_, ordering)| is_ordered(ordering));
        rows.map(|((&at, (before, after)), _)| (before.copied(), at, after.copied()))
    }

    /// Appends all of `other`.
    pub fn append(&mut self, mut other: Self) {
        self.before.append(other.before);
        self.at.append(&mut other.at);
        self.after.append(other.after);
        self.source.append(&mut other.source);
        self.ordering.append(&mut other.ordering);
    }
}

/// Writes `brackets` as the file at `place`. Evidence from a `plain` stamp is refused: it proves nothing.
pub fn write_brackets(place: &Path, brackets: &BracketColumns) -> Result<()> {
    if let Some(plain) = brackets.ordering.iter().find(|ordering| !is_ordered(ordering)) {
        return Err(Error::corrupt(place, "brackets from stamps with ordering before and after", format!("'{plain}'")));
    }
    let fields = [
        Field::long("before").nullable(),
        Field::long("at"),
        Field::long("after").nullable(),
        Field::text("source"),
        Field::text("ordering"),
    ];
    let mut table = TableWriter::begin(place, &fields, &[])?;
    for start in (0..brackets.len()).step_by(GROUP_ROWS) {
        let rows = start..brackets.len().min(start + GROUP_ROWS);
        table.group(&[
            Values::LongOrNull(&brackets.before.slice(rows.clone())),
            Values::Long(&brackets.at[rows.clone()]),
            Values::LongOrNull(&brackets.after.slice(rows.clone())),
            Values::Text(&brackets.source[rows.clone()]),
            Values::Text(&brackets.ordering[rows]),
        ])?;
    }
    table.finish().map(|_| ())
}

/// Whether the stamp on the sending side was read before the message could leave, and the other after it was seen.
fn is_ordered(ordering: &str) -> bool {
    ordering == "before/after"
}

/// The brackets in the file at `place`, those that prove nothing among them: see [`BracketColumns::ordered`].
pub fn read_brackets(place: &Path) -> Result<BracketColumns> {
    let table = TableReader::open(place)?;
    Ok(BracketColumns {
        before: table.whole_sparse("before")?,
        at: table.whole_column("at")?,
        after: table.whole_sparse("after")?,
        source: table.whole_column("source")?,
        ordering: table.whole_column("ordering")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn evidence_from_a_plain_stamp_is_never_written() {
        let scratch = Scratch::new();
        let mut brackets = BracketColumns::default();
        brackets.push(Some(1), 2, None, "probe-request", "plain/after");
        let place = scratch.path().join("x.parquet");
        assert!(write_brackets(&place, &brackets).unwrap_err().to_string().contains("plain/after"));
        assert!(!place.exists());
    }

    #[test]
    fn a_bracket_that_another_program_wrote_proves_something_only_if_its_stamps_were_ordered() {
        let mut brackets = BracketColumns::default();
        for (at, ordering) in
            (0..).zip(["before/after", "plain/plain", "plain/after", "before/plain", "", "after", "after/before"])
        {
            brackets.push(Some(at - 1), at, (at > 2).then_some(at + 1), "foreign", ordering);
        }
        assert_eq!(brackets.ordered().collect::<Vec<_>>(), [(Some(-1), 0, None)]);
    }
}
