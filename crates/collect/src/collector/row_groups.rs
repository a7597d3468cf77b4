//! Row groups: the stamps of a point's blocks, read and encoded in one go, on as many threads as there are encoders.
//!
//! Idea: a group of blocks becomes a row group. Whichever thread has it reads some blocks, packs their stamps while
//! they are in its cache, and goes on; so memory is filled by packed stamps alone. The collector's thread takes part,
//! and goes on once all groups are there: nothing of the hand-over happens meanwhile.
//!
//! Assumes: blocks in the order in which their stamps are to be stored. Guarantees: row groups in that order, whichever
//! thread made each; a group's stamps are those of its blocks, each once. Deliberately absent: anything that changes a
//! block or what is known of it.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Settings, Watched};
use crate::ledger::{Ledger, Taken};
use crate::watched_pool::ReadyBlock;
use tickscope_store::{ChannelCount, GROUP_STAMPS, Result, StampColumns, StampGroup, StampPacker, on_threads};

/// Stamps that are read before they are packed: with what packs them they fit into a core's own cache.
const PIECE_STAMPS: usize = 1 << 13;

/// A block to be read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Task<'a> {
    pub(super) block: &'a ReadyBlock,
    /// Its program still fills it.
    pub(super) is_open: bool,
}

/// The stamps of some blocks.
pub(super) struct Gathered {
    pub(super) group: StampGroup,
    /// What was found in each block, in order; `None`: it is no longer that block.
    pub(super) found: Vec<Option<Found>>,
    /// In a run that keeps a window: the newest tick of each channel.
    pub(super) newest: BTreeMap<i32, i64>,
}

/// What was found in a block.
pub(super) struct Found {
    pub(super) counts: Vec<ChannelCount>,
    /// What of it is stored with this, if it is open.
    pub(super) open: Option<Taken>,
}

/// Where blocks are read from, and how their stamps are encoded.
pub(super) struct Source<'a> {
    pub(super) pools: &'a BTreeMap<u64, Watched>,
    pub(super) ledger: &'a Ledger,
    pub(super) settings: &'a Settings,
}

impl Source<'_> {
    /// The stamps of `tasks`, a row group each `GROUP_STAMPS`, and the processor time of threads other than the
    /// caller's.
    pub(super) fn gather(&self, tasks: &[Task<'_>]) -> (Vec<Result<Gathered>>, u64) {
        let groups = groups(tasks);
        let encoders = self.settings.encoding.encoders;
        on_threads(groups.len(), encoders, |at| self.gather_group(&tasks[groups[at].clone()]))
    }

    fn gather_group(&self, tasks: &[Task<'_>]) -> Result<Gathered> {
        let (mut packer, mut piece) = (StampPacker::default(), StampColumns::default());
        let (mut found, mut newest) = (Vec::with_capacity(tasks.len()), BTreeMap::new());
        for (at, task) in tasks.iter().enumerate() {
            found.push(self.read(task, &mut piece));
            if piece.len() >= PIECE_STAMPS || at + 1 == tasks.len() {
                if self.settings.keep.is_some() {
                    piece.add_newest(&mut newest);
                }
                packer.push(&piece);
                piece.clear();
            }
        }
        Ok(Gathered { group: packer.finish(self.settings.encoding)?, found, newest })
    }

    /// Appends a block to `piece`.
    pub(super) fn read(&self, task: &Task<'_>, piece: &mut StampColumns) -> Option<Found> {
        let &Task { block, is_open } = task;
        let pool = &self.pools.get(&block.channel.0)?.pool;
        let before = self.ledger.taken(block.channel, block.number);
        if !is_open {
            return Some(Found { counts: pool.read(block, before, piece), open: None });
        }
        let (counts, now) = pool.read_open(block, before, piece)?;
        Some(Found { counts, open: Some(now) })
    }
}

/// Ranges of tasks that are a row group each.
fn groups(tasks: &[Task<'_>]) -> Vec<Range<usize>> {
    let (mut groups, mut stamps): (Vec<Range<usize>>, usize) = (Vec::new(), 0);
    for (at, task) in tasks.iter().enumerate() {
        stamps += task.block.capacity as usize;
        match groups.last_mut() {
            Some(group) if stamps <= GROUP_STAMPS => group.end = at + 1,
            _ => {
                groups.push(at..at + 1);
                stamps = task.block.capacity as usize;
            }
        }
    }
    groups
}
