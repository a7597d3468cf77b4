//! Brackets: the evidence about a pair of clocks, kept whole so that a bound can be asked again under another rho.

use std::path::Path;

use crate::error::{Error, Result};
use crate::table::{Columns, columns};
use crate::words::words;

columns! {
    /// One bracket.
    row BracketRow,
    /// Brackets of one pair of domains as columns, one row a bracket.
    pub columns BracketColumns {
        /// Tick of the reference; null: that side is open.
        before: Option<i64>,
        /// Tick of the domain.
        at: i64,
        /// Tick of the reference; null: that side is open.
        after: Option<i64>,
        /// Where it comes from: `probe-request`, `probe-reply`, `shared-host`, `watch`, ...
        source: BracketSource,
        /// The orderings of the stamps it was made of, `before/after`; evidence from a `plain` stamp is never
        /// written, and where another program wrote it, counted and not used.
        ordering: String,
        /// Number of the exchange within its probe, which both of its brackets carry; null: of no exchange, or of
        /// schema 1.
        exchange: Option<i64>,
    }
}

words! {
    /// Where a bracket comes from.
    pub enum BracketSource {
        /// The request of a probe's exchange.
        ProbeRequest = "probe-request",
        /// The reply of a probe's exchange.
        ProbeReply = "probe-reply",
        /// Two readings on one host.
        SharedHost = "shared-host",
        /// The clock monitor.
        Watch = "watch",
    }
}

impl BracketColumns {
    /// Adds a bracket that belongs to no exchange.
    pub fn push(&mut self, before: Option<i64>, at: i64, after: Option<i64>, source: BracketSource, ordering: &str) {
        self.push_row(BracketRow { before, at, after, source, ordering: ordering.into(), exchange: None });
    }

    /// Adds both brackets of exchange `number` of a probe: the reference sent at `t1`, the domain received at `t2` and
    /// answered at `t3`, the reference received that at `t4`.
    pub fn push_exchange(&mut self, number: i64, [t1, t2, t3, t4]: [i64; 4], ordering: &str) {
        let exchange = Some(number);
        let request = (Some(t1), t2, None, BracketSource::ProbeRequest);
        let reply = (None, t3, Some(t4), BracketSource::ProbeReply);
        for (before, at, after, source) in [request, reply] {
            self.push_row(BracketRow { before, at, after, source, ordering: ordering.into(), exchange });
        }
    }

    /// `(before, at, after)` of every bracket that proves something: whose stamps were ordered `before` and `after`.
    pub fn ordered(&self) -> impl Iterator<Item = (Option<i64>, i64, Option<i64>)> {
        let ends = self.before.iter().zip(self.after.iter());
        let rows = self.at.iter().zip(ends).zip(&self.ordering);
        let rows = rows.filter(|(_, ordering)| is_ordered(ordering));
        rows.map(|((&at, (before, after)), _)| (before.copied(), at, after.copied()))
    }
}

/// Writes `brackets` as the file at `place`. Evidence from a `plain` stamp is refused: it proves nothing.
pub fn write_brackets(place: &Path, brackets: &BracketColumns) -> Result<()> {
    if let Some(plain) = brackets.ordering.iter().find(|ordering| !is_ordered(ordering)) {
        return Err(Error::corrupt(place, "brackets from stamps with ordering before and after", format!("'{plain}'")));
    }
    brackets.write(place, &[]).map(|_| ())
}

/// Returns whether the stamp on the sending side was read before the message could leave, and the other after it was
/// seen.
fn is_ordered(ordering: &str) -> bool {
    ordering == "before/after"
}

/// The brackets in the file at `place`, those that prove nothing among them: see [`BracketColumns::ordered`].
pub fn read_brackets(place: &Path) -> Result<BracketColumns> {
    BracketColumns::read(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn evidence_from_a_plain_stamp_is_never_written() {
        let scratch = Scratch::new();
        let mut brackets = BracketColumns::default();
        brackets.push(Some(1), 2, None, BracketSource::ProbeRequest, "plain/after");
        let place = scratch.path().join("x.parquet");
        assert!(write_brackets(&place, &brackets).unwrap_err().to_string().contains("plain/after"));
        assert!(!place.exists());
    }

    #[test]
    fn both_brackets_of_an_exchange_carry_its_number() {
        let scratch = Scratch::new();
        let mut brackets = BracketColumns::default();
        brackets.push_exchange(7, [1, 20, 30, 4], "before/after");
        brackets.push(Some(1), 2, Some(3), BracketSource::Other("of-a-stranger".into()), "before/after");
        let place = scratch.path().join("x.parquet");
        write_brackets(&place, &brackets).unwrap();
        let read = read_brackets(&place).unwrap();
        assert_eq!(read, brackets);
        assert_eq!(read.exchange, [Some(7), Some(7), None].into_iter().collect());
        assert_eq!(read.source, ["probe-request", "probe-reply", "of-a-stranger"]);
        assert_eq!(read.ordered().collect::<Vec<_>>()[..2], [(Some(1), 20, None), (None, 30, Some(4))]);
    }

    #[test]
    fn a_bracket_that_another_program_wrote_proves_something_only_if_its_stamps_were_ordered() {
        let mut brackets = BracketColumns::default();
        for (at, ordering) in
            (0..).zip(["before/after", "plain/plain", "plain/after", "before/plain", "", "after", "after/before"])
        {
            brackets.push(Some(at - 1), at, (at > 2).then_some(at + 1), BracketSource::Watch, ordering);
        }
        assert_eq!(brackets.ordered().collect::<Vec<_>>(), [(Some(-1), 0, None)]);
    }
}
