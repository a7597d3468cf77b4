//! What the window of a run took away: `removed/node=N.parquet`, one file a node.
//!
//! A run that keeps a window of its stamps (`--keep`) loses whole segments, the oldest of a point first. What is lost is
//! noted here before any file is unlinked, so at every instant a stamp is in a segment, or here, and never in both: the
//! note says below which number the parts of a point are gone, and whoever reads passes over those that still lie there.
//! The note holds all that the footers of those parts said and that is still needed: how many stamps of which channel,
//! up to which tick, and which blocks, so that a collector that is started again stores none of them anew.
//!
//! Assumes: one writer a node, its collector. Guarantees: the sums of a note and of the parts that it does not cover are
//! those of all parts that there were. Deliberately absent: which parts are old enough; that is the collector's.

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
        let table = match TableReader::open_small(place, RemovedColumns::FIELDS) {
            Err(_) if is_gone(place) => return Ok(Self::default()),
            other => other?,
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
            let none =
                || Removed { channel: count.channel, point: point.clone(), stamps: 0, uncommitted: 0, until: i64::MIN };
            let row = self.channels.entry(count.channel).or_insert_with(none);
            row.stamps = row.stamps.saturating_add_unsigned(count.stored);
            row.uncommitted = row.uncommitted.saturating_add_unsigned(count.uncommitted);
            row.until = row.until.max(newest.map_or(i64::MIN, |newest| newest.tick));
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

/// The note that covers a point's folder, `stamps/node=N/point=P` of a run, and the point; `None`: it is no such folder.
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
