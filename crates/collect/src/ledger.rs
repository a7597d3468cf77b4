//! The ledger: which blocks a node's segments hold already, and how many stamps each channel stored and lost.
//!
//! It is not a file of its own. It is read back from the footers of the segments, so it cannot disagree with them: a
//! block is stored when, and only when, a segment that names it has its final name.
//!
//! Assumes: one collector a node. Guarantees: a channel keeps its number over restarts of the collector, and a number
//! is on disk before the first stamp that mentions it.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use tickscope_store::Paths;
use tickscope_store::{Channel, ChannelState, read_channels, write_channels};
use tickscope_store::{ChannelCount, Origin, RemovedNote, Segment, next_segment, part_number};
use tickscope_store::{Error, Result};
use tickscope_store::{files_in, keyed_folders};
use tickscope_tick::NodeName;

/// A channel as shared memory names it: pool and number within the pool.
pub(crate) type Handle = (u64, u32);

/// What is stored of a block that was open.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Taken {
    /// Slots looked at, from the first.
    pub slots: u32,
    /// Those of them that were not committed, rising.
    pub uncommitted: Vec<u32>,
}

impl Taken {
    /// Whether the stamp of that slot is stored.
    pub(crate) fn holds(&self, slot: u32) -> bool {
        slot < self.slots && self.uncommitted.binary_search(&slot).is_err()
    }

    fn count(&self) -> u64 {
        u64::from(self.slots).saturating_sub(self.uncommitted.len() as u64)
    }
}

/// Blocks and channels of one node that are stored.
pub(crate) struct Ledger {
    node: NodeName,
    place: PathBuf,
    channels: BTreeMap<i32, Channel>,
    numbers: HashMap<Handle, i32>,
    /// First and last number of runs of stored blocks.
    stored: HashMap<Handle, Vec<(u32, u32)>>,
    /// What is stored of blocks that were open, by their numbers.
    parts: HashMap<Handle, BTreeMap<u32, Taken>>,
    /// Stamps that were stored once and are in no segment now.
    missing: u64,
    unwritten: bool,
    changed: bool,
}

impl Ledger {
    /// Reads what is stored of `node`; and the segments that could not be read.
    pub(crate) fn read(run: &Path, node: &NodeName) -> Result<(Self, Vec<Error>)> {
        let places = Paths::of(run);
        let mut ledger = Self::empty(node, places.channels(node.as_str()));
        let mut before = Vec::new();
        if ledger.place.exists() {
            before = read_channels(&ledger.place)?;
            before.iter().for_each(|channel| ledger.recall(channel.clone()));
        }
        let removed = RemovedNote::read(&places.removed(node.as_str()))?;
        ledger.recall_removed(&removed);
        let mut refused = Vec::new();
        for (point, folder) in keyed_folders(&places.node_stamps(node.as_str()), "point")? {
            let is_removed = |path: &PathBuf| part_number(path).is_some_and(|number| number < removed.below(&point));
            for path in files_in(&folder, "parquet")?.into_iter().filter(|path| !is_removed(path)) {
                match Segment::open(&path).and_then(|segment| segment.origin()) {
                    Ok(origin) => ledger.add(&origin),
                    Err(reason) => refused.push(reason),
                }
            }
        }
        ledger.missing = before.iter().map(|channel| ledger.missing_of(channel)).sum();
        // The file may be older than the last segment: a kill may have come between them.
        ledger.changed = !ledger.channels.is_empty();
        Ok((ledger, refused))
    }

    fn empty(node: &NodeName, place: PathBuf) -> Self {
        let (channels, numbers) = (BTreeMap::new(), HashMap::new());
        let (stored, parts, missing) = (HashMap::new(), HashMap::new(), 0);
        Self { node: node.clone(), place, channels, numbers, stored, parts, missing, unwritten: false, changed: false }
    }

    /// Stamps of a channel that the file knows of and no segment holds. (It may be older than the last segment.)
    fn missing_of(&self, before: &Channel) -> u64 {
        let now = self.channels.get(&before.channel).map_or(0, Channel::ever_stored);
        before.ever_stored().saturating_sub(now).max(0) as u64
    }

    /// Stamps that were stored once and were in no segment when this was read.
    pub(crate) fn missing(&self) -> u64 {
        self.missing
    }

    /// Every channel.
    pub(crate) fn channels(&self) -> impl Iterator<Item = &Channel> {
        self.channels.values()
    }

    /// The counts of stored stamps are not taken from the file: a kill may have come between a segment and it.
    fn recall(&mut self, channel: Channel) {
        self.numbers.insert((channel.pool, channel.serial), channel.channel);
        let kept = channel.kept.map(|_| 0);
        let counted = Channel { stored: 0, uncommitted: 0, removed: None, overwritten: None, kept, ..channel };
        self.channels.insert(counted.channel, counted);
    }

    /// Takes in what the window removed before.
    fn recall_removed(&mut self, note: &RemovedNote) {
        for removed in note.channels() {
            if let Some(channel) = self.channels.get_mut(&removed.channel) {
                channel.removed = Some(removed.stamps);
                channel.uncommitted = channel.uncommitted.saturating_add(removed.uncommitted);
                channel.overwritten = sum(channel.overwritten, removed.overwritten.unwrap_or(0));
                channel.kept = sum(channel.kept, removed.every.unwrap_or(0));
            }
        }
        self.hold(note.origin());
    }

    /// Counts what was stored as removed.
    pub(crate) fn remove(&mut self, counts: &[ChannelCount]) {
        for count in counts.iter().filter(|count| count.stored > 0) {
            if let Some(channel) = self.channels.get_mut(&count.channel) {
                channel.stored = channel.stored.saturating_sub_unsigned(count.stored);
                channel.removed = Some(channel.removed.unwrap_or(0).saturating_add_unsigned(count.stored));
                self.changed = true;
            }
        }
    }

    /// Whether a segment holds this block.
    pub(crate) fn holds(&self, channel: Handle, block: u32) -> bool {
        self.stored.get(&channel).is_some_and(|runs| runs.iter().any(|&(first, last)| first <= block && block <= last))
    }

    /// The last block of a channel before this one that a segment holds.
    pub(crate) fn last_before(&self, channel: Handle, block: u32) -> Option<u32> {
        let runs = self.stored.get(&channel)?;
        runs.iter().filter(|&&(first, _)| first < block).map(|&(_, last)| last.min(block - 1)).max()
    }

    /// What segments hold of a block that was open.
    pub(crate) fn taken(&self, channel: Handle, block: u32) -> Option<&Taken> {
        self.parts.get(&channel)?.get(&block)
    }

    /// What is stored of every block that was open.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (Handle, u32, &Taken)> {
        self.parts.iter().flat_map(|(&channel, parts)| parts.iter().map(move |(&number, part)| (channel, number, part)))
    }

    /// Takes what another run stored of a block as stored. Returns of how many stamps that was not known.
    pub(crate) fn take_over(&mut self, channel: Handle, block: u32, taken: &Taken, is_whole: bool) -> u64 {
        if self.holds(channel, block) {
            return 0;
        }
        let part = self.parts.entry(channel).or_default().entry(block).or_default();
        let before = part.count();
        let (slots, known) = (part.slots.max(taken.slots), std::mem::take(part));
        let is_missing = |slot: &u32| !known.holds(*slot) && !taken.holds(*slot);
        *part = Taken { slots, uncommitted: (0..slots).filter(is_missing).collect() };
        let more = part.count().saturating_sub(before);
        if is_whole {
            self.drop_part(channel, block);
            self.stored.entry(channel).or_default().push((block, block));
        }
        more
    }

    /// Forgets the parts of a pool's blocks that are there no longer: their program has overwritten them.
    pub(crate) fn keep_parts(&mut self, pool: u64, is_there: impl Fn(u32, u32) -> bool) {
        for ((_, serial), parts) in self.parts.iter_mut().filter(|((of, _), _)| *of == pool) {
            parts.retain(|&number, _| is_there(*serial, number));
        }
        self.parts.retain(|_, parts| !parts.is_empty());
    }

    /// Returns whether a part of a block of a pool is stored.
    pub(crate) fn has_parts(&self, pool: u64) -> bool {
        self.parts.iter().any(|((of, _), parts)| *of == pool && !parts.is_empty())
    }

    /// Forgets what is stored of a block that is freed.
    pub(crate) fn drop_part(&mut self, channel: Handle, block: u32) {
        if let Some(parts) = self.parts.get_mut(&channel) {
            parts.remove(&block);
            if parts.is_empty() {
                self.parts.remove(&channel);
            }
        }
    }

    /// The number of a channel, a new one if it has none.
    pub(crate) fn number(&mut self, handle: Handle, describe: impl FnOnce(i32, NodeName) -> Channel) -> i32 {
        if let Some(&number) = self.numbers.get(&handle) {
            return number;
        }
        let number = self.channels.last_key_value().map_or(1, |(last, _)| last + 1);
        self.channels.insert(number, describe(number, self.node.clone()));
        self.numbers.insert(handle, number);
        (self.unwritten, self.changed) = (true, true);
        number
    }

    /// The number of a channel that has one.
    pub(crate) fn known_number(&self, handle: Handle) -> Option<i32> {
        self.numbers.get(&handle).copied()
    }

    /// Whether a channel is known to be closed.
    pub(crate) fn is_closed(&self, handle: Handle) -> bool {
        let channel = self.known_number(handle).and_then(|number| self.channels.get(&number));
        channel.is_some_and(|channel| channel.state == ChannelState::Closed)
    }

    /// Changes what is known of a channel that has a number.
    pub(crate) fn update(&mut self, handle: Handle, change: impl FnOnce(&mut Channel)) {
        let Some(channel) = self.numbers.get(&handle).and_then(|number| self.channels.get_mut(number)) else { return };
        let before = channel.clone();
        change(channel);
        self.changed |= *channel != before;
    }

    /// Channels of a pool.
    pub(crate) fn of_pool(&self, pool: u64) -> impl Iterator<Item = &Channel> {
        self.channels.values().filter(move |channel| channel.pool == pool)
    }

    /// Notes a segment that has its name and keeps it.
    pub(crate) fn add(&mut self, origin: &Origin) {
        self.count(&origin.counts);
        self.hold(origin);
    }

    /// Notes which blocks a segment holds that keeps its name.
    pub(crate) fn hold(&mut self, origin: &Origin) {
        for block in &origin.blocks {
            let handle = (block.pool, block.serial);
            let runs = self.stored.entry(handle).or_default();
            match runs.last_mut() {
                Some(run) if run.1.checked_add(1) == Some(block.first) => run.1 = block.last,
                _ => runs.push((block.first, block.last)),
            }
            if let Some(parts) = self.parts.get_mut(&handle) {
                parts.retain(|number, _| !(block.first..=block.last).contains(number));
            }
        }
        for open in &origin.open {
            let taken = Taken { slots: open.slots, uncommitted: open.uncommitted.clone() };
            self.parts.entry((open.pool, open.serial)).or_default().insert(open.number, taken);
        }
    }

    /// Adds to the channels' counts.
    pub(crate) fn count(&mut self, counts: &[ChannelCount]) {
        for count in counts {
            if let Some(channel) = self.channels.get_mut(&count.channel) {
                channel.stored = channel.stored.saturating_add_unsigned(count.stored);
                channel.uncommitted = channel.uncommitted.saturating_add_unsigned(count.uncommitted);
                channel.overwritten = sum(channel.overwritten, count.overwritten.min(i64::MAX as u64) as i64);
                channel.kept = sum(channel.kept, count.every.min(i64::MAX as u64) as i64);
            }
        }
        self.changed = true;
    }

    /// Takes back what a segment added that is replaced.
    pub(crate) fn uncount(&mut self, counts: &[ChannelCount]) {
        for count in counts {
            if let Some(channel) = self.channels.get_mut(&count.channel) {
                channel.stored = channel.stored.saturating_sub_unsigned(count.stored);
                channel.uncommitted = channel.uncommitted.saturating_sub_unsigned(count.uncommitted);
                channel.overwritten = sum(channel.overwritten, -(count.overwritten.min(i64::MAX as u64) as i64));
                channel.kept = sum(channel.kept, -(count.every.min(i64::MAX as u64) as i64));
            }
        }
    }

    /// Forgets the blocks of a pool that is gone.
    pub(crate) fn forget(&mut self, pool: u64) {
        self.stored.retain(|&(of, _), _| of != pool);
        self.parts.retain(|&(of, _), _| of != pool);
    }

    /// Writes the channels if some have a number that is not on disk yet.
    pub(crate) fn write_numbers(&mut self) -> Result<()> {
        if self.unwritten { self.write() } else { Ok(()) }
    }

    /// Writes the channels if anything about them changed.
    pub(crate) fn write(&mut self) -> Result<()> {
        if self.changed {
            let channels: Vec<_> = self.channels.values().cloned().collect();
            write_channels(&self.place, &channels)?;
            (self.unwritten, self.changed) = (false, false);
        }
        Ok(())
    }
}

/// A count that most channels lack, and more of it.
fn sum(known: Option<i64>, more: i64) -> Option<i64> {
    if more == 0 { known } else { Some(known.unwrap_or(0).saturating_add(more)) }
}

/// The place of the next segment in each folder, asked from the file system once.
#[derive(Default)]
pub(crate) struct Parts {
    next: HashMap<PathBuf, PathBuf>,
}

impl Parts {
    /// Where the next segment of `folder` goes; the same until [`Parts::taken`].
    pub(crate) fn next(&mut self, folder: &Path) -> Result<PathBuf> {
        if let Some(place) = self.next.get(folder) {
            return Ok(place.clone());
        }
        let place = next_segment(folder)?;
        self.next.insert(folder.into(), place.clone());
        Ok(place)
    }

    /// Says that the next segment of `folder` has its name.
    pub(crate) fn taken(&mut self, folder: &Path) {
        self.next.remove(folder);
    }
}
