//! Row groups of a segment that are encoded while their stamps are gathered, and never lie in memory as columns.
//!
//! Idea: stamps are handed over in pieces that fit into a core's own cache, and each piece is packed before the next
//! one is read. So a stamp's way through memory is once, from where the program wrote it. Groups may be encoded on as
//! many threads as there are; a file is begun once all are there, for only then is it known which columns it lacks.
//!
//! Guarantees: the file is the one that [`crate::write_segment_encoded`] makes of the same groups. Deliberately absent:
//! a rule about how many stamps are a group; that is the caller's.

use std::path::Path;

use crate::codec::Encoding;
use crate::error::Result;
use crate::stamps::{Origin, StampColumns, footer_keys};
use crate::table::{Columns, PackedColumn, PackedGroup, TableWriter, Written, packed_columns};

/// Stamps of a row group that is being gathered.
pub struct StampPacker {
    columns: Vec<PackedColumn>,
    rows: usize,
}

/// A row group that is encoded.
pub struct StampGroup {
    group: PackedGroup,
}

impl Default for StampPacker {
    fn default() -> Self {
        Self { columns: packed_columns(StampColumns::FIELDS), rows: 0 }
    }
}

impl StampPacker {
    /// Appends all of `stamps`.
    pub fn push(&mut self, stamps: &StampColumns) {
        self.rows += stamps.len();
        for (column, packed) in stamps.each().into_iter().zip(&mut self.columns) {
            let is_packed = column.pack(0..stamps.len(), packed);
            debug_assert!(is_packed, "stamps are integers");
        }
    }

    /// The group, encoded as `how` says.
    pub fn finish(self, how: Encoding) -> Result<StampGroup> {
        let group = PackedGroup::of(self.columns, StampColumns::FIELDS, how)?;
        Ok(StampGroup { group })
    }
}

impl StampGroup {
    /// Number of stamps.
    pub fn len(&self) -> u64 {
        self.group.rows()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory that it takes until it is written.
    pub fn bytes(&self) -> u64 {
        self.group.bytes()
    }
}

/// Writes `groups` as the segment at `place`, with their origin in its footer. Returns what it took.
pub fn write_segment_groups(place: &Path, groups: &[StampGroup], origin: &Origin, how: Encoding) -> Result<Written> {
    let is_there = |at: usize| {
        let is_used = |group: &StampGroup| !group.group.is_all_null(at);
        !StampColumns::FIELDS[at].is_spared() || groups.iter().any(is_used)
    };
    let there: Vec<usize> = (0..StampColumns::FIELDS.len()).filter(|&at| is_there(at)).collect();
    let fields: Vec<_> = there.iter().map(|&at| StampColumns::FIELDS[at].clone()).collect();
    let mut table = TableWriter::begin_encoded(place, &fields, &footer_keys(origin), how)?;
    for group in groups.iter().filter(|group| !group.is_empty()) {
        table.packed_group(&group.group, &there)?;
    }
    table.finish()
}
