//! Acknowledgements: what was sent back for stamps at the end of a path while the run went on, and how long each took.
//!
//! The four ticks are those of an exchange: two readings of the end's counter around two of the start's. They are no
//! evidence for a clock map; the analysis compares what the published method makes of them with the run's own bounds.

use std::path::Path;

use crate::error::Result;
use crate::table::{Columns, columns};

columns! {
    /// One acknowledgement that was answered.
    #[derive(Default)]
    row ReturnRow,
    /// Answered acknowledgements of one node's stamps as columns, one row each.
    pub columns ReturnColumns {
        /// The id of the stamp.
        id: i64,
        /// The stamp's tick, of the node's counter.
        end: i64,
        /// Tick of the node's counter before the acknowledgement could leave: that much later than the stamp.
        sent: i64,
        /// Tick of the source's counter after it had arrived.
        received: i64,
        /// Tick of the source's counter before the answer could leave.
        answered: i64,
        /// Tick of the node's counter after the answer had arrived.
        returned: i64,
        /// The node that answered: where the path begins.
        source: String,
        /// The point of the stamp.
        point: String,
    }
}

impl ReturnColumns {
    /// Adds an acknowledgement.
    pub fn push(&mut self, row: ReturnRow) {
        self.push_row(row);
    }

    /// The acknowledgements in order.
    pub fn rows(self) -> impl Iterator<Item = ReturnRow> {
        self.into_rows()
    }
}

/// Writes `returns` as the file at `place`.
pub fn write_returns(place: &Path, returns: &ReturnColumns) -> Result<()> {
    returns.write(place, &[]).map(|_| ())
}

/// The acknowledgements in the file at `place`.
pub fn read_returns(place: &Path) -> Result<ReturnColumns> {
    ReturnColumns::read(place)
}
