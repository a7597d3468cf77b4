//! Counts: how many stamps channels under the policy `count` had in each period.
//!
//! A collector reads the totals of all such channels of a node together, once a period, between two readings of the
//! node's counter. So each total is one of an instant that the two bound, and those of one pass belong together.

use std::path::Path;

use crate::error::Result;
use crate::table::{Columns, columns};

columns! {
    /// One reading of a channel's total.
    #[derive(Default)]
    row CountRow,
    /// Readings as columns, one row a channel and period.
    pub columns CountColumns {
        /// Row of `channels`.
        channel: i32,
        /// The node's counter before the totals were read; the same for all channels that were read together.
        before: i64 [ranged],
        /// Stamps of the channel under `count` since it was opened.
        total: i64,
        /// The node's counter after.
        after: i64,
        /// Stamps since the channel's row before, or since it was opened.
        count: i64,
        /// Whole periods that the row covers; above 1: the reading came late; 0: it covers no known number of whole
        /// periods: an opening (`total` is 0, and `before` is `after`), the first reading, also of a collector that was
        /// started again, or the rest, read once the channel had ended.
        periods: i32,
        /// Length of a period, ns.
        period_ns: i64,
    }
}

impl CountColumns {
    /// Adds a reading.
    pub fn push(&mut self, row: CountRow) {
        self.push_row(row);
    }

    /// The readings in order.
    pub fn rows(self) -> impl Iterator<Item = CountRow> {
        self.into_rows()
    }
}

/// Writes `counts` as the file at `place`.
pub fn write_counts(place: &Path, counts: &CountColumns) -> Result<()> {
    counts.write(place, &[]).map(|_| ())
}

/// The counts in the file at `place`.
pub fn read_counts(place: &Path) -> Result<CountColumns> {
    CountColumns::read(place)
}
