//! Segments: the files that stamps are kept in, `stamps/node=N/point=P/part-*.parquet`.
//!
//! A segment holds stamps of one point in the order of their blocks, and names those blocks in its footer: that is what
//! makes the hand-over from shared memory exactly-once. Ids are hardly sorted, but close: each row group's smallest and
//! largest id are enough to read a range of ids without touching most of the file.
//!
//! Assumes: one collector a node. Guarantees: every row that was appended, once, unchanged. Deliberately absent:
//! sorting, and any rule about what a repeated id means.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tickscope_trace::{Attribute, Nullable, SHORT_SPAN};

use crate::codec::Encoding;
use crate::error::{Error, Result};
use crate::removed::{RemovedNote, all_parts_in, note_of, open_unless_removed, parts_in};
use crate::table::{Columns, TableReader, Written, columns, from_hexadecimal};
use crate::whole_file::files_in;

const BLOCKS_KEY: &str = "tickscope.blocks";
const OPEN_KEY: &str = "tickscope.open";
const COUNTS_KEY: &str = "tickscope.counts";
const NEWEST_KEY: &str = "tickscope.newest";
const WRITTEN_KEY: &str = "tickscope.written";

columns! {
    /// Stamps of one point as columns, one row a stamp.
    pub columns StampColumns {
        /// The counter's reading; domain: the channel's.
        tick: i64 [ranged],
        /// The id of the stamped thing, equal at every point.
        id: i64 [ranged],
        /// Row of `channels`.
        channel: i32,
        /// Class of the id; part of a trace's key; null reads as 0.
        kind: Option<i32>,
        /// The core that the stamp was read on, where the channel records it.
        cpu: Option<i32>,
        /// A number that the program gave with the stamp.
        value: Option<i64>,
        /// The id that this one is part of, or was made from.
        parent: Option<i64> [spared],
        /// Transmissions of the id before this one.
        attempt: Option<i32> [spared],
        /// How many things the stamp stands for.
        batch: Option<i32> [spared],
        /// Consecutive ids, from `id` on, that the stamp stands for; null: one.
        ids: Option<i32> [spared],
    }
}

/// Blocks of one channel that a segment holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(from = "(String, u32, u32, u32)", into = "(String, u32, u32, u32)")]
pub struct BlockRange {
    /// Identity of the pool.
    pub pool: u64,
    /// The channel's number within its pool.
    pub serial: u32,
    /// First block.
    pub first: u32,
    /// Last block, included.
    pub last: u32,
}

/// The part of a block that is stored while its program still fills it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "(String, u32, u32, u32, Vec<u32>)", into = "(String, u32, u32, u32, Vec<u32>)")]
pub struct OpenBlock {
    /// Identity of the pool.
    pub pool: u64,
    /// The channel's number within its pool.
    pub serial: u32,
    /// The block's number within its channel.
    pub number: u32,
    /// Slots looked at, from the first: of these every committed stamp is stored, here or in an earlier segment.
    pub slots: u32,
    /// Slots among them that were not committed.
    pub uncommitted: Vec<u32>,
}

/// Counts that a segment adds to one channel's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<u64>", into = "Vec<u64>")]
pub struct ChannelCount {
    /// Channel.
    pub channel: i32,
    /// Stamps in this segment.
    pub stored: u64,
    /// Slots of its blocks that were reserved and never committed.
    pub uncommitted: u64,
    /// Stamps before its blocks that later ones took the place of.
    pub overwritten: u64,
    /// Of the stamps in this segment: those under the policy `every`.
    pub every: u64,
}

/// The newest stamp of a channel in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "(i32, i64)", into = "(i32, i64)")]
pub struct ChannelNewest {
    /// Channel.
    pub channel: i32,
    /// Its largest tick.
    pub tick: i64,
}

/// Where a segment's stamps came from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Origin {
    /// The blocks it holds; none for a segment that was made from something else than blocks.
    pub blocks: Vec<BlockRange>,
    /// Blocks that it, with the segments before it, holds a part of.
    pub open: Vec<OpenBlock>,
    /// Counts that it adds to each channel's.
    pub counts: Vec<ChannelCount>,
    /// In a run that keeps a window: the newest stamp of each channel.
    pub newest: Vec<ChannelNewest>,
    /// In a run that keeps a window: when it was written, ns since the boot of the machine that wrote it. No stamp in
    /// it is younger.
    pub written: Option<u64>,
}

impl Origin {
    /// The same of a segment that is written now, with the newest stamp of each channel.
    pub fn aged(mut self, newest: &BTreeMap<i32, i64>, written: u64) -> Self {
        let newest = newest.iter();
        self.newest = newest.map(|(&channel, &tick)| ChannelNewest { channel, tick }).collect();
        self.written = Some(written);
        self
    }

    /// Whether segments of both hold the same of the same blocks.
    pub fn holds_as(&self, other: &Self) -> bool {
        (&self.blocks, &self.open, &self.counts) == (&other.blocks, &other.open, &other.counts)
    }

    /// Takes in which blocks a segment holds that follows those that this tells of.
    pub(crate) fn follow(&mut self, later: &Self) {
        for range in &later.blocks {
            let of_channel = |known: &&mut BlockRange| (known.pool, known.serial) == (range.pool, range.serial);
            match self.blocks.iter_mut().rev().find(of_channel) {
                Some(known) if known.last.checked_add(1) == Some(range.first) => known.last = range.last,
                _ => self.blocks.push(*range),
            }
            let whole = range.first..=range.last;
            self.open
                .retain(|open| (open.pool, open.serial) != (range.pool, range.serial) || !whole.contains(&open.number));
        }
        for open in &later.open {
            self.open.retain(|known| (known.pool, known.serial, known.number) != (open.pool, open.serial, open.number));
            self.open.push(open.clone());
        }
    }

    /// Adds a block, in the order of its channel.
    pub fn add(&mut self, (pool, serial): (u64, u32), number: u32) {
        match self.blocks.last_mut() {
            Some(last) if (last.pool, last.serial, last.last.checked_add(1)) == (pool, serial, Some(number)) => {
                last.last = number;
            }
            _ => self.blocks.push(BlockRange { pool, serial, first: number, last: number }),
        }
    }
}

/// A segment's place and what its footer says, without its stamps.
pub struct Segment {
    table: TableReader,
}

/// All segments of one point.
pub struct PointStamps {
    segments: Vec<Segment>,
    refused: Vec<Error>,
    removed: RemovedNote,
    below: u64,
}

impl StampColumns {
    /// Takes in the largest tick of each channel.
    pub fn add_newest(&self, newest: &mut BTreeMap<i32, i64>) {
        for (&channel, &tick) in self.channel.iter().zip(&self.tick) {
            newest.entry(channel).and_modify(|known| *known = tick.max(*known)).or_insert(tick);
        }
    }

    /// Stamps of tick, id and channel alone.
    pub fn slim(tick: Vec<i64>, id: Vec<i64>, channel: Vec<i32>) -> Self {
        let mut stamps = Self { tick, id, channel, ..Self::default() };
        stamps.fill_with_nulls();
        stamps
    }

    /// Makes room for `more` stamps.
    pub fn reserve(&mut self, more: usize) {
        self.tick.reserve(more);
        self.id.reserve(more);
        self.channel.reserve(more);
    }

    /// Keeps only the rows whose ids are in `ids`.
    pub fn retain_ids(&mut self, ids: &RangeInclusive<i64>) {
        let kept: Vec<bool> = self.id.iter().map(|id| ids.contains(id)).collect();
        if kept.iter().all(|&kept| kept) {
            return;
        }
        self.retain(&kept);
    }
}

/// Stamps a row group: what is encoded at one time, and by one thread; still large enough for its statistics to cost
/// nothing.
pub const GROUP_STAMPS: usize = 1 << 17;

/// Writes `stamps` as the segment at `place`, with their origin in its footer. Returns its size in bytes.
pub fn write_segment(place: &Path, stamps: &StampColumns, origin: &Origin) -> Result<u64> {
    Ok(write_segment_encoded(place, stamps, origin, Encoding::default())?.bytes)
}

/// As [`write_segment`], encoded as `how` says. Returns what it took.
pub fn write_segment_encoded(place: &Path, stamps: &StampColumns, origin: &Origin, how: Encoding) -> Result<Written> {
    stamps.write_encoded(place, &footer_keys(origin), how, GROUP_STAMPS)
}

/// What the footer of a segment says of its origin.
pub(crate) fn footer_keys(origin: &Origin) -> Vec<(&'static str, String)> {
    let mut keys = vec![(BLOCKS_KEY, json(&origin.blocks)), (COUNTS_KEY, json(&origin.counts))];
    if !origin.open.is_empty() {
        keys.push((OPEN_KEY, json(&origin.open)));
    }
    if let Some(written) = origin.written {
        keys.extend([(NEWEST_KEY, json(&origin.newest)), (WRITTEN_KEY, written.to_string())]);
    }
    keys
}

pub(crate) fn json(list: &impl Serialize) -> String {
    serde_json::to_string(list).expect("a list of numbers and text is JSON")
}

/// `part-0000000N.parquet` in `folder`, N beyond every number that is or was there: a segment never replaces another.
pub fn next_segment(folder: &Path) -> Result<PathBuf> {
    let last = files_in(folder, "parquet")?.iter().filter_map(|path| part_number(path)).max();
    let removed = match note_of(folder) {
        Some((place, point)) => RemovedNote::read(&place)?.below(point),
        None => 0,
    };
    Ok(folder.join(format!("part-{:08}.parquet", last.map_or(0, |last| last + 1).max(removed))))
}

/// The N of `part-N.parquet`.
pub fn part_number(path: &Path) -> Option<u64> {
    path.file_stem()?.to_str()?.strip_prefix("part-")?.parse().ok()
}

impl Segment {
    /// Opens the segment at `path`; refuses what is torn, foreign or of a later schema.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { table: TableReader::open_as(path, StampColumns::FIELDS)? })
    }

    /// Where its stamps came from.
    pub fn origin(&self) -> Result<Origin> {
        let (blocks, open, counts) = (self.list(BLOCKS_KEY)?, self.list(OPEN_KEY)?, self.list(COUNTS_KEY)?);
        let written = self.table.key(WRITTEN_KEY).and_then(|text| text.parse().ok());
        Ok(Origin { blocks, open, counts, newest: self.list(NEWEST_KEY)?, written })
    }

    /// The channels that its footer counts stamps of; none where the footer says nothing that is understood.
    pub(crate) fn counted_channels(&self) -> impl Iterator<Item = i32> {
        let counts: Vec<ChannelCount> = self.list(COUNTS_KEY).unwrap_or_default();
        counts.into_iter().filter(|count| count.stored > 0).map(|count| count.channel)
    }

    fn list<T: DeserializeOwned>(&self, key: &str) -> Result<Vec<T>> {
        let Some(list) = self.table.key(key) else { return Ok(Vec::new()) };
        serde_json::from_str(list).map_err(|e| Error::corrupt(self.path(), format!("a list in {key}"), e.to_string()))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.table.path()
    }

    /// How many stamps.
    pub fn len(&self) -> u64 {
        (0..self.table.groups()).map(|group| self.table.rows(group)).sum()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// By row group: smallest id, largest id, number of stamps. A row group without statistics may hold any id.
    pub fn extents(&self) -> Vec<(i64, i64, u64)> {
        let extent = |group| {
            let (first, last) = self.table.range(group, "id").unwrap_or((i64::MIN, i64::MAX));
            (first, last, self.table.rows(group))
        };
        (0..self.table.groups()).map(extent).collect()
    }

    /// The stamps of one row group.
    pub fn read_group(&self, group: usize) -> Result<StampColumns> {
        Columns::read_group(&self.table, group)
    }

    /// Decodes every value.
    pub(crate) fn decode_all(&self) -> Result<()> {
        self.table.decode_all()
    }

    /// Ids, ticks and kinds of one row group, for a join.
    pub(crate) fn read_keys(&self, group: usize) -> Result<(Vec<i64>, Vec<i64>, Nullable<i32>)> {
        let table = &self.table;
        Ok((table.column(group, "id")?, table.column(group, "tick")?, table.nullable(group, "kind")?))
    }

    /// Returns whether it has a column of that name.
    pub(crate) fn has_column(&self, name: &str) -> bool {
        self.table.names().iter().any(|known| known == name)
    }

    /// By stamp of one row group, the last id that it stands for; `None`: each stands for its own alone. Numbers of ids
    /// that make no sense, as another program may write, count as one.
    pub(crate) fn read_lasts(&self, group: usize, ids: &[i64]) -> Result<Option<Vec<i64>>> {
        let numbers = self.table.nullable::<i32>(group, "ids")?;
        if numbers.is_all_null() {
            return Ok(None);
        }
        let last = |(number, &id): (Option<&i32>, &i64)| {
            let number = number.copied().filter(|&number| number > 0).unwrap_or(1);
            id.checked_add(i64::from(number) - 1).unwrap_or(id)
        };
        Ok(Some(numbers.iter().zip(ids).map(last).collect()))
    }

    /// Returns whether some stamp stands for ids beside its own.
    fn has_spans(&self) -> Result<bool> {
        let has = |group| Ok(!self.table.nullable::<i32>(group, "ids")?.is_all_null());
        (0..self.table.groups()).map(has).find(|has| !matches!(has, Ok(false))).unwrap_or(Ok(false))
    }

    /// The ids that those of one row group's stamps are part of.
    pub(crate) fn read_parents(&self, group: usize) -> Result<Vec<Option<i64>>> {
        Ok(self.table.nullable::<i64>(group, "parent")?.iter().map(|parent| parent.copied()).collect())
    }

    /// Which attempt of its id each of one row group's stamps was of.
    pub(crate) fn read_attempts(&self, group: usize) -> Result<Vec<Option<i32>>> {
        Ok(self.table.nullable::<i32>(group, "attempt")?.iter().map(|attempt| attempt.copied()).collect())
    }

    /// An attribute of one row group's stamps.
    pub(crate) fn read_attribute(&self, group: usize, attribute: Attribute) -> Result<Vec<Option<i64>>> {
        let name = attribute.name();
        Ok(match attribute {
            Attribute::Cpu => {
                self.table.nullable::<i32>(group, name)?.iter().map(|cpu| cpu.map(|&cpu| cpu.into())).collect()
            }
            Attribute::Value => self.table.nullable(group, name)?.iter().map(|value| value.copied()).collect(),
            Attribute::Channel => {
                self.table.column::<i32>(group, name)?.into_iter().map(|channel| Some(channel.into())).collect()
            }
        })
    }

    /// Returns whether some stamp has an attribute.
    pub(crate) fn has_attribute(&self, attribute: Attribute) -> Result<bool> {
        let name = attribute.name();
        let has = |group| match attribute {
            Attribute::Cpu => Ok(!self.table.nullable::<i32>(group, name)?.is_all_null()),
            Attribute::Value => Ok(!self.table.nullable::<i64>(group, name)?.is_all_null()),
            Attribute::Channel => Ok(true),
        };
        (0..self.table.groups()).map(has).find(|has| !matches!(has, Ok(false))).unwrap_or(Ok(false))
    }

    /// The channels of one row group's stamps.
    pub(crate) fn read_channels(&self, group: usize) -> Result<Vec<i32>> {
        self.table.column(group, "channel")
    }
}

impl PointStamps {
    /// The segments in `folder`, in the order they were written; those that cannot be read are listed as refused, those
    /// that the run's window removed are not. What the window removes meanwhile is either here or in the note of that.
    pub fn open(folder: &Path) -> Result<Self> {
        loop {
            let opened = Self::open_once(folder)?;
            let now = note_of(folder).map_or(Ok(0), |(place, point)| below_of(&place, point))?;
            if now == opened.below {
                return Ok(opened);
            }
        }
    }

    fn open_once(folder: &Path) -> Result<Self> {
        let (mut segments, mut refused) = (Vec::new(), Vec::new());
        let (removed, parts) = match parts_in(folder) {
            Ok(found) => found,
            Err(why) => (RemovedNote::default(), all_parts_in(folder, why, &mut refused)?),
        };
        let point = note_of(folder).map(|(_, point)| point);
        let below = point.map_or(0, |point| removed.below(point));
        more_descriptors(parts.len());
        for path in parts {
            match open_unless_removed(&path) {
                Some(Ok(segment)) => segments.push(segment),
                Some(Err(reason)) => refused.push(reason),
                None => {} // so the note is a later one now
            }
        }
        Ok(Self { segments, refused, removed, below })
    }

    /// The number below which the point's parts were removed by the run's window.
    pub fn removed_below(&self) -> u64 {
        self.below
    }

    /// Stamps of a channel that the run's window had removed when these segments were opened.
    pub(crate) fn removed_of(&self, channel: i32) -> u64 {
        let of_channel = self.removed.channels().find(|removed| removed.channel == channel);
        of_channel.map_or(0, |removed| removed.stamps.max(0) as u64)
    }

    /// The channels that the note of removed stamps tells of.
    pub(crate) fn removed_at(&self, point: &str) -> impl Iterator<Item = i32> {
        self.removed.channels().filter(move |removed| removed.point.as_str() == point).map(|removed| removed.channel)
    }

    /// The files that were not read, and why.
    pub fn refused(&self) -> &[Error] {
        &self.refused
    }

    pub(crate) fn into_refused(self) -> Vec<Error> {
        self.refused
    }

    /// The segments that can be read.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// How many stamps.
    pub fn len(&self) -> u64 {
        self.segments.iter().map(Segment::len).sum()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Row groups that may hold an id of `ids`, as segment and row group; no others need be read.
    pub fn groups_with(&self, ids: RangeInclusive<i64>) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        for (position, segment) in self.segments.iter().enumerate() {
            for (group, (first, last, _)) in segment.extents().into_iter().enumerate() {
                if first <= *ids.end() && *ids.start() <= last {
                    found.push((position, group));
                }
            }
        }
        found
    }

    /// Hands the stamps whose ids are in `ids` to `sink`, a row group at a time.
    pub fn read(&self, ids: RangeInclusive<i64>, mut sink: impl FnMut(StampColumns)) -> Result<()> {
        for (segment, group) in self.groups_with(ids.clone()) {
            let mut stamps = self.segments[segment].read_group(group)?;
            stamps.retain_ids(&ids);
            sink(stamps);
        }
        Ok(())
    }

    /// Hands ids, ticks and kinds (null reads as 0) of all stamps to `sink`, a row group at a time; of a stamp of many
    /// ids those up to [`SHORT_SPAN`], each as a stamp.
    pub fn read_keys(&self, mut sink: impl FnMut(&[i64], &[i64], &Nullable<i32>)) -> Result<()> {
        for (segment, group) in self.groups_with(i64::MIN..=i64::MAX) {
            let segment = &self.segments[segment];
            let (ids, ticks, kinds) = segment.read_keys(group)?;
            let Some(lasts) = segment.read_lasts(group, &ids)? else {
                sink(&ids, &ticks, &kinds);
                continue;
            };
            let each = ids
                .iter()
                .zip(&lasts)
                .enumerate()
                .flat_map(|(row, (&id, &last))| (id..=last).take(SHORT_SPAN as usize).map(move |id| (row, id)));
            let (rows, ids): (Vec<usize>, Vec<i64>) = each.unzip();
            let kinds = rows.iter().map(|&row| kinds.get(row)).collect();
            sink(&ids, &rows.iter().map(|&row| ticks[row]).collect::<Vec<_>>(), &kinds);
        }
        Ok(())
    }

    /// Returns whether some stamp stands for ids beside its own.
    pub fn has_spans(&self) -> Result<bool> {
        self.segments.iter().map(Segment::has_spans).find(|has| !matches!(has, Ok(false))).unwrap_or(Ok(false))
    }

    /// Every stamp, in the order stored.
    pub fn read_all(&self) -> Result<StampColumns> {
        let mut all = StampColumns::default();
        self.read(i64::MIN..=i64::MAX, |part| all.append(part))?;
        Ok(all)
    }
}

/// As [`RemovedNote::below`]; a note that cannot be read is told elsewhere.
fn below_of(note: &Path, point: &str) -> Result<u64> {
    Ok(RemovedNote::read(note).map_or(0, |note| note.below(point)))
}

/// Lets this process have as many files open as it may: every segment of a long run is one.
fn more_descriptors(files: usize) {
    const FEW: usize = 200;
    if files <= FEW {
        return;
    }
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid resource, and an rlimit that outlives both calls.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 && limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

impl From<(String, u32, u32, u32)> for BlockRange {
    /// A pool that is no hexadecimal number is no pool of ours: it matches none, as 0 matches none.
    fn from((pool, serial, first, last): (String, u32, u32, u32)) -> Self {
        Self { pool: from_hexadecimal(&pool), serial, first, last }
    }
}

impl From<BlockRange> for (String, u32, u32, u32) {
    fn from(range: BlockRange) -> Self {
        (format!("{:016x}", range.pool), range.serial, range.first, range.last)
    }
}

impl From<(String, u32, u32, u32, Vec<u32>)> for OpenBlock {
    fn from((pool, serial, number, slots, uncommitted): (String, u32, u32, u32, Vec<u32>)) -> Self {
        Self { pool: from_hexadecimal(&pool), serial, number, slots, uncommitted }
    }
}

impl From<OpenBlock> for (String, u32, u32, u32, Vec<u32>) {
    fn from(block: OpenBlock) -> Self {
        (format!("{:016x}", block.pool), block.serial, block.number, block.slots, block.uncommitted)
    }
}

impl From<(i32, i64)> for ChannelNewest {
    fn from((channel, tick): (i32, i64)) -> Self {
        Self { channel, tick }
    }
}

impl From<ChannelNewest> for (i32, i64) {
    fn from(newest: ChannelNewest) -> Self {
        (newest.channel, newest.tick)
    }
}

impl TryFrom<Vec<u64>> for ChannelCount {
    type Error = String;

    fn try_from(list: Vec<u64>) -> std::result::Result<Self, String> {
        let (channel, stored, uncommitted, overwritten, every) = match list[..] {
            [channel, stored, uncommitted] => (channel, stored, uncommitted, 0, 0),
            [channel, stored, uncommitted, overwritten, every] => (channel, stored, uncommitted, overwritten, every),
            _ => return Err(format!("it has {} numbers for a channel", list.len())),
        };
        let channel = i32::try_from(channel).map_err(|_| format!("it has {channel} for a channel's number"))?;
        Ok(Self { channel, stored, uncommitted, overwritten, every })
    }
}

impl From<ChannelCount> for Vec<u64> {
    fn from(ChannelCount { channel, stored, uncommitted, overwritten, every }: ChannelCount) -> Self {
        let mut list = vec![channel as u64, stored, uncommitted];
        if (overwritten, every) != (0, 0) {
            list.extend([overwritten, every]);
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Codec;
    use crate::scratch::Scratch;
    use parquet::basic::Compression;
    use proptest::prelude::*;

    fn stamps(ids: impl Iterator<Item = i64>) -> StampColumns {
        let id: Vec<i64> = ids.collect();
        let tick = id.iter().map(|id| id * 2500 + 7).collect();
        let value = id.iter().map(|&id| (id % 3 == 0).then_some(-id)).collect();
        let channel = vec![3; id.len()];
        StampColumns { value, ..StampColumns::slim(tick, id, channel) }
    }

    #[test]
    fn a_column_that_no_stamp_uses_is_not_in_the_file_and_one_that_some_use_is_kept() {
        let scratch = Scratch::new();
        let plain = stamps(0..5);
        let parts = StampColumns {
            parent: [None, Some(0), Some(i64::MIN), None, None].into_iter().collect(),
            attempt: [Some(0), Some(1), None, None, Some(2)].into_iter().collect(),
            batch: [Some(3), None, None, None, Some(64)].into_iter().collect(),
            ..plain.clone()
        };
        let names = |stamps: &StampColumns| {
            let place = next_segment(scratch.path()).unwrap();
            write_segment(&place, stamps, &Origin::default()).unwrap();
            let segment = Segment::open(&place).unwrap();
            assert!(segment.read_group(0).unwrap() == *stamps);
            segment.table.names()
        };
        assert_eq!(names(&plain), ["tick", "id", "channel", "kind", "cpu", "value"]);
        assert_eq!(names(&parts)[6..], ["parent", "attempt", "batch"]);
        let mut some = PointStamps::open(scratch.path()).unwrap().read_all().unwrap();
        some.retain_ids(&(1..=2));
        assert_eq!(some.parent.iter().collect::<Vec<_>>(), [None, None, Some(&0), Some(&i64::MIN)]);
        assert_eq!(some.batch.len(), 4);
    }

    #[test]
    fn a_segment_names_its_blocks() {
        let scratch = Scratch::new();
        let place = next_segment(scratch.path()).unwrap();
        let blocks = vec![BlockRange { pool: 0xfeed_0000_0000_0001, serial: 2, first: 0, last: 17 }];
        let open = vec![OpenBlock { pool: 7, serial: 2, number: 18, slots: 4, uncommitted: vec![1] }];
        let counts = vec![ChannelCount { channel: 3, stored: 5, uncommitted: 1, ..ChannelCount::default() }];
        let newest = vec![ChannelNewest { channel: 3, tick: -7 }];
        let origin = Origin { blocks, open, counts, newest, written: Some(u64::MAX) };
        write_segment(&place, &stamps(0..5), &origin).unwrap();
        assert_eq!(Segment::open(&place).unwrap().origin().unwrap(), origin);
        assert!(place.ends_with("part-00000000.parquet"));
        assert!(next_segment(scratch.path()).unwrap().ends_with("part-00000001.parquet"));
    }

    #[test]
    fn reading_a_range_of_ids_leaves_other_row_groups_alone() {
        let scratch = Scratch::new();
        for start in [0, 1000, 2000] {
            let place = next_segment(scratch.path()).unwrap();
            write_segment(&place, &stamps(start..start + 1000), &Origin::default()).unwrap();
        }
        let point = PointStamps::open(scratch.path()).unwrap();
        assert_eq!(point.groups_with(999..=1000), [(0, 0), (1, 0)]);
        assert_eq!(point.groups_with(3000..=9000), []);
        let mut ids = Vec::new();
        point.read(998..=1001, |part| ids.extend(part.id)).unwrap();
        assert_eq!(ids, [998, 999, 1000, 1001]);
    }

    #[test]
    fn more_stamps_than_a_row_group_holds_are_all_there() {
        let scratch = Scratch::new();
        let all = stamps(0..GROUP_STAMPS as i64 + 10);
        write_segment(&next_segment(scratch.path()).unwrap(), &all, &Origin::default()).unwrap();
        let point = PointStamps::open(scratch.path()).unwrap();
        assert_eq!(point.segments()[0].extents().len(), 2);
        assert!(point.read_all().unwrap() == all);
    }

    /// Stamps of more than one row group, with ids that no codec shrinks.
    fn many() -> StampColumns {
        let scattered = |id: u64| {
            let mixed = (id + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
            ((mixed ^ (mixed >> 29)) >> 44) as i64
        };
        stamps((0..GROUP_STAMPS as u64 * 2 + 1000).map(scattered))
    }

    fn encoded(stamps: &StampColumns, codec: Codec, encoders: usize) -> (Vec<u8>, Vec<Compression>) {
        let scratch = Scratch::new();
        let place = next_segment(scratch.path()).unwrap();
        let how = Encoding { codec, encoders: encoders.try_into().unwrap() };
        let written = write_segment_encoded(&place, stamps, &Origin::default(), how).unwrap();
        assert!(PointStamps::open(scratch.path()).unwrap().read_all().unwrap() == *stamps);
        assert_eq!(written.bytes, place.metadata().unwrap().len());
        assert_eq!(written.helpers_ns > 0, encoders > 1, "their time is counted");
        (std::fs::read(&place).unwrap(), Segment::open(&place).unwrap().table.compressions())
    }

    #[test]
    fn a_segments_bytes_are_the_same_however_many_threads_encode_it() {
        let stamps = many();
        let (alone, _) = encoded(&stamps, Codec::Zstd, 1);
        for encoders in [2, 3, 16] {
            assert!(encoded(&stamps, Codec::Zstd, encoders).0 == alone, "{encoders} threads");
        }
    }

    #[test]
    fn each_codec_is_what_the_columns_are_compressed_by_unless_it_saves_nothing() {
        let stamps = many();
        let [tick, id, channel] = [0, 1, 2];
        for (codec, of_channel) in [
            (Codec::None, Compression::UNCOMPRESSED),
            (Codec::Zstd, Codec::Zstd.compression()),
            (Codec::Lz4, Compression::LZ4_RAW),
        ] {
            let (_, columns) = encoded(&stamps, codec, 2);
            assert_eq!(columns[channel], of_channel, "{codec:?}");
            assert_eq!([columns[tick], columns[id]], [Compression::UNCOMPRESSED; 2], "{codec:?}");
        }
    }

    #[test]
    fn a_torn_segment_is_named_and_the_others_are_read() {
        let scratch = Scratch::new();
        write_segment(&next_segment(scratch.path()).unwrap(), &stamps(0..5), &Origin::default()).unwrap();
        let torn = next_segment(scratch.path()).unwrap();
        std::fs::write(&torn, b"PAR1 and no more").unwrap();
        let point = PointStamps::open(scratch.path()).unwrap();
        assert_eq!((point.len(), point.refused().len()), (5, 1));
        assert_eq!(point.refused()[0].place(), torn);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn property_a_range_of_ids_reads_exactly_its_stamps(
            parts in prop::collection::vec(prop::collection::vec(0i64..200, 1..40), 1..4), first in 0i64..200, width in 0i64..50,
        ) {
            let scratch = Scratch::new();
            for ids in &parts {
                let place = next_segment(scratch.path()).unwrap();
                write_segment(&place, &stamps(ids.iter().copied()), &Origin::default()).unwrap();
            }
            let range = first..=first + width;
            let mut found = Vec::new();
            PointStamps::open(scratch.path()).unwrap().read(range.clone(), |part| {
                found.extend(part.id.iter().copied().zip(part.value.iter().map(|value| value.copied())));
            }).unwrap();
            let wanted = parts.iter().flatten().filter(|id| range.contains(id));
            let expected: Vec<_> = wanted.map(|&id| (id, (id % 3 == 0).then_some(-id))).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
