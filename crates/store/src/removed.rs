//! What the window of a run took away: `removed/node=N.parquet`, one file a node.
//!
//! A run that keeps a window of its stamps (`--keep`) loses whole segments, the oldest of a point first. What goes is
//! noted here before any file is unlinked, so at every instant a stamp is in a segment, or here, and never in both: the
//! note says below which number the parts of a point are gone, and whoever reads passes over those that lie there yet.
//! The note holds all that the footers of those parts said and that is still needed: how many stamps of which channel,
//! up to which tick, and which blocks, so that a collector that is started again stores none of them anew.
//!
//! Assumes: one writer a node, its collector. Guarantees: the sums of a note and of the parts that it does not cover
//! are those of all parts that there were. Deliberately absent: which parts are old enough; that is the collector's.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tickscope_tick::PointName;

use crate::error::{Error, Result};
use crate::run::Paths;
use crate::stamps::{BlockRange, OpenBlock, Origin, Segment, json, part_number};
use crate::table::{Columns, TableReader, columns};
use crate::whole_file::{files_in, keyed_folders};

const BLOCKS_KEY: &str = "tickscope.blocks";
const OPEN_KEY: &str = "tickscope.open";
const BELOW_KEY: &str = "tickscope.below";

columns! {
    /// One row of `removed/node=N.parquet`.
    row Removed,
    /// Removed stamps as columns.
    pub(crate) columns RemovedColumns {
        /// Row of `channels`.
        channel: i32,
        /// The point.
        point: PointName,
        /// Stamps that were removed.
        stamps: i64,
        /// Slots of their blocks that were reserved and never committed.
        uncommitted: i64,
        /// Tick of the newest of them; domain: the channel's.
        until: i64,
        /// Stamps before their blocks that later ones took the place of; null: none.
        overwritten: Option<i64> [spared],
        /// Of the stamps that were removed: those under `every`; null: none.
        every: Option<i64> [spared],
    }
}

impl Removed {
    fn nothing(channel: i32, point: &PointName) -> Self {
        let (point, until) = (point.clone(), i64::MIN);
        Self { channel, point, stamps: 0, uncommitted: 0, until, overwritten: None, every: None }
    }
}

/// The note of a node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RemovedNote {
    channels: BTreeMap<i32, Removed>,
    /// By point: parts with a smaller number are gone.
    below: BTreeMap<PointName, u64>,
    origin: Origin,
}

impl RemovedNote {
    /// The note at `place`; where no file is, nothing was removed.
    pub fn read(place: &Path) -> Result<Self> {
        let open = || TableReader::open_small(place, RemovedColumns::FIELDS);
        let table = match open() {
            Err(_) if is_gone(place) => return Ok(Self::default()),
            Err(_) => open()?, // the first note may have been written between the two looks
            Ok(table) => table,
        };
        let list = |key| table.key(key).unwrap_or("[]");
        let wrong = |key: &str, e: serde_json::Error| Error::corrupt(place, format!("a list in {key}"), e.to_string());
        let below: Vec<(PointName, u64)> = serde_json::from_str(list(BELOW_KEY)).map_err(|e| wrong(BELOW_KEY, e))?;
        let blocks: Vec<BlockRange> = serde_json::from_str(list(BLOCKS_KEY)).map_err(|e| wrong(BLOCKS_KEY, e))?;
        let open: Vec<OpenBlock> = serde_json::from_str(list(OPEN_KEY)).map_err(|e| wrong(OPEN_KEY, e))?;
        let mut rows = RemovedColumns::default();
        for group in 0..table.groups() {
            rows.append(RemovedColumns::read_group(&table, group)?);
        }
        let channels = rows.into_rows().map(|row| (row.channel, row)).collect();
        let origin = Origin { blocks, open, ..Origin::default() };
        Ok(Self { channels, below: below.into_iter().collect(), origin })
    }

    /// Replaces the note at `place`.
    pub fn write(&self, place: &Path) -> Result<()> {
        let below: Vec<_> = self.below.iter().collect();
        let keys =
            [(BELOW_KEY, json(&below)), (BLOCKS_KEY, json(&self.origin.blocks)), (OPEN_KEY, json(&self.origin.open))];
        self.channels.values().cloned().collect::<RemovedColumns>().write(place, &keys).map(|_| ())
    }

    /// The first number of a point's parts that are not gone.
    pub fn below(&self, point: &str) -> u64 {
        self.below.get(point).copied().unwrap_or(0)
    }

    /// What was removed, by channel.
    pub fn channels(&self) -> impl Iterator<Item = &Removed> {
        self.channels.values()
    }

    /// The blocks that the removed parts held.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Takes a part of `point` down as removed. Parts are removed in the order of their numbers.
    pub fn add(&mut self, point: &PointName, number: u64, origin: &Origin) {
        for count in &origin.counts {
            let newest = origin.newest.iter().find(|newest| newest.channel == count.channel);
            let row = self.channels.entry(count.channel).or_insert_with(|| Removed::nothing(count.channel, point));
            row.stamps = row.stamps.saturating_add_unsigned(count.stored);
            row.uncommitted = row.uncommitted.saturating_add_unsigned(count.uncommitted);
            row.until = row.until.max(newest.map_or(i64::MIN, |newest| newest.tick));
            row.overwritten = more(row.overwritten, count.overwritten);
            row.every = more(row.every, count.every);
        }
        self.origin.follow(origin);
        self.below.insert(point.clone(), number + 1);
    }

    /// Forgets the blocks of pools that are gone: nobody can store them again.
    pub fn forget_pools(&mut self, is_there: impl Fn(u64) -> bool) {
        self.origin.blocks.retain(|range| is_there(range.pool));
        self.origin.open.retain(|open| is_there(open.pool));
    }
}

/// A count that most rows lack, and more of it.
fn more(known: Option<i64>, more: u64) -> Option<i64> {
    if more == 0 { known } else { Some(known.unwrap_or(0).saturating_add_unsigned(more)) }
}

/// The note that covers a point's folder, `stamps/node=N/point=P` of a run, and the point; `None`: no such folder.
pub(crate) fn note_of(folder: &Path) -> Option<(PathBuf, &str)> {
    let value = |of: &Path| of.file_name()?.to_str()?.strip_prefix("node=").map(str::to_owned);
    let (point, node) = (folder.file_name()?.to_str()?.strip_prefix("point=")?, folder.parent()?);
    let stamps = node.parent().filter(|stamps| stamps.file_name().is_some_and(|name| name == "stamps"))?;
    Some((Paths::of(stamps.parent()?).removed(&value(node)?), point))
}

/// What files are there, where the note cannot be read: they can be read all the same, and it is told.
pub(crate) fn all_parts_in(folder: &Path, why: Error, refused: &mut Vec<Error>) -> Result<Vec<PathBuf>> {
    refused.push(why);
    files_in(folder, "parquet")
}

/// The note of a point's folder and its parts, but for those that the note covers; in the order of their numbers.
pub(crate) fn parts_in(folder: &Path) -> Result<(RemovedNote, Vec<PathBuf>)> {
    let Some((place, point)) = note_of(folder) else {
        return Ok((RemovedNote::default(), files_in(folder, "parquet")?));
    };
    let note = RemovedNote::read(&place)?;
    let below = note.below(point);
    let mut parts = files_in(folder, "parquet")?;
    parts.retain(|path| part_number(path).is_none_or(|number| number >= below));
    Ok((note, parts))
}

/// Returns whether a segment was removed by the window.
pub(crate) fn is_removed(segment: &Path) -> bool {
    let of = |folder| {
        let (place, point) = note_of(folder)?;
        let below = RemovedNote::read(&place).ok()?.below(point);
        Some(part_number(segment)? < below)
    };
    segment.parent().and_then(of).unwrap_or(false)
}

/// Unlinks the parts of a node that its note covers and that lie in the run at `root` still. Returns how many.
pub fn sweep_removed(root: &Path, node: &str) -> Result<u64> {
    let paths = Paths::of(root);
    let note = RemovedNote::read(&paths.removed(node))?;
    let mut swept = 0;
    if note.below.is_empty() {
        return Ok(swept);
    }
    for (point, folder) in keyed_folders(&paths.node_stamps(node), "point")? {
        let below = note.below(&point);
        for path in files_in(&folder, "parquet")? {
            if part_number(&path).is_some_and(|number| number < below) {
                unlink(&path)?;
                swept += 1;
            }
        }
    }
    Ok(swept)
}

/// Removes a segment that its note covers.
pub fn unlink(segment: &Path) -> Result<()> {
    match fs::remove_file(segment) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io(segment, "remove", e)),
        _ => Ok(()),
    }
}

/// Opens a segment; `None`: the window removed it since its folder was listed.
pub(crate) fn open_unless_removed(path: &Path) -> Option<Result<Segment>> {
    match Segment::open(path) {
        Err(_) if is_gone(path) && is_removed(path) => None,
        other => Some(other),
    }
}

fn is_gone(place: &Path) -> bool {
    fs::symlink_metadata(place).is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use crate::stamps::{ChannelCount, PointStamps, StampColumns, next_segment, write_segment};
    use proptest::prelude::*;

    fn point() -> PointName {
        PointName::new("p").unwrap()
    }

    /// Writes a part of `rows` stamps from `first` on, and returns what its footer says.
    fn part(folder: &Path, first: i64, rows: i64, number: u32) -> Origin {
        let ids: Vec<i64> = (first..first + rows).collect();
        let stamps = StampColumns::slim(ids.iter().map(|id| id * 10).collect(), ids, vec![1; rows as usize]);
        let mut origin = Origin::default();
        origin.add((7, 1), number);
        origin.counts =
            vec![ChannelCount { channel: 1, stored: rows as u64, uncommitted: 1, ..ChannelCount::default() }];
        let mut newest = BTreeMap::new();
        stamps.add_newest(&mut newest);
        let origin = origin.aged(&newest, 5);
        write_segment(&next_segment(folder).unwrap(), &stamps, &origin).unwrap();
        origin
    }

    #[test]
    fn a_note_reads_back_and_where_none_is_nothing_was_removed() {
        let scratch = Scratch::new();
        let place = Paths::of(scratch.path()).removed("n");
        assert_eq!(RemovedNote::read(&place).unwrap(), RemovedNote::default());
        let mut note = RemovedNote::default();
        let open = OpenBlock { pool: 9, serial: 2, number: 4, slots: 8, uncommitted: vec![3] };
        for (number, block) in [(0, 3), (1, 4), (2, 9)] {
            let mut origin = Origin { open: vec![open.clone()], ..Origin::default() };
            origin.add((7, 1), block);
            origin.counts = vec![ChannelCount { channel: 1, stored: 10, uncommitted: 1, ..ChannelCount::default() }];
            note.add(&point(), number, &origin);
        }
        note.write(&place).unwrap();
        let read = RemovedNote::read(&place).unwrap();
        assert_eq!(read, note);
        assert_eq!((read.below("p"), read.below("q")), (3, 0));
        let blocks: Vec<_> = read.origin().blocks.iter().map(|range| (range.first, range.last)).collect();
        assert_eq!((blocks, read.origin().open.len()), (vec![(3, 4), (9, 9)], 1), "what follows is one range");
        let removed = read.channels().next().unwrap();
        assert_eq!((removed.stamps, removed.uncommitted), (30, 3));
        note.forget_pools(|pool| pool == 7);
        assert_eq!((note.origin().blocks.len(), note.origin().open.len()), (2, 0));
        std::fs::write(&place, "torn").unwrap();
        assert!(RemovedNote::read(&place).is_err());
    }

    #[test]
    fn a_note_that_cannot_be_read_is_told_and_hides_no_segment() {
        let scratch = Scratch::new();
        let folder = scratch.path().join("stamps/node=n/point=p");
        part(&folder, 0, 5, 0);
        let place = Paths::of(scratch.path()).removed("n");
        crate::make_folders(place.parent().unwrap()).unwrap();
        std::fs::write(&place, "torn").unwrap();
        let opened = PointStamps::open(&folder).unwrap();
        assert_eq!((opened.len(), opened.refused().len()), (5, 1));
        assert_eq!(opened.refused()[0].place(), place);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]

        /// Between the note and the last unlink, and after it, what is read and what is noted are all that there was.
        #[test]
        fn property_stored_and_removed_are_all_stamps_at_each_step_of_a_removal(
            rows in prop::collection::vec(1i64..20, 1..6), gone in 0usize..6, unlinked in 0usize..6,
        ) {
            let scratch = Scratch::new();
            let folder = scratch.path().join("stamps/node=n/point=p");
            let (mut note, mut first) = (RemovedNote::default(), 0);
            for (number, &rows) in rows.iter().enumerate() {
                let origin = part(&folder, first, rows, number as u32);
                if number < gone {
                    note.add(&point(), number as u64, &origin);
                }
                first += rows;
            }
            note.write(&Paths::of(scratch.path()).removed("n")).unwrap();
            for number in 0..unlinked.min(gone).min(rows.len()) {
                unlink(&folder.join(format!("part-{number:08}.parquet"))).unwrap();
            }
            let sums = || {
                let opened = PointStamps::open(&folder).unwrap();
                assert!(opened.refused().is_empty());
                (opened.len(), opened.removed_of(1))
            };
            let (stored, removed) = sums();
            prop_assert_eq!((stored + removed) as i64, rows.iter().sum::<i64>());
            let until = note.channels().next().map(|of| of.until);
            prop_assert_eq!(until, (removed > 0).then(|| (removed as i64 - 1) * 10));
            sweep_removed(scratch.path(), "n").unwrap();
            prop_assert_eq!(sums(), (stored, removed));
            prop_assert_eq!(files_in(&folder, "parquet").unwrap().len(), rows.len() - gone.min(rows.len()));
            let next = next_segment(&folder).unwrap();
            prop_assert_eq!(part_number(&next), Some(rows.len() as u64), "no number twice, also where all are gone");
        }
    }
}
