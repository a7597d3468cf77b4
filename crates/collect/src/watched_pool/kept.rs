//! Blocks whose policy does not leave them to whoever comes first: those of `keep`, which wait until somebody asks, and
//! those of `first-last`, of which two stamps count.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::*;
use tickscope_stamp::policies::first_last::{self, FirstLast};
use tickscope_stamp::policies::keep;
use tickscope_stamp::policy::matches;

/// Blocks of `keep` that wait.
#[derive(Default)]
pub(super) struct Kept {
    /// Since when each was seen to be full; by place, with its channel and number.
    full: HashMap<u32, ((u32, u32), Instant)>,
    /// Those of points that match it are stored, not kept back.
    asked: Option<String>,
    /// Times that the program has asked.
    dumps: u64,
}

impl WatchedPool {
    /// Keeps blocks of `keep` back from now on, but those of points that match `asked`.
    pub(crate) fn keep_back(&mut self, asked: Option<&str>) {
        self.kept.asked = asked.map(str::to_owned);
    }

    /// Returns whether the program has asked for what it keeps since the last call.
    pub(crate) fn is_asked_for(&mut self) -> bool {
        if self.pool.version() < 4 {
            return false;
        }
        let dumps = self.pool.header().dumps.load(Acquire);
        std::mem::replace(&mut self.kept.dumps, dumps) != dumps
    }

    pub(super) fn is_kept_back(&self, block: &MappedBlock<'_>) -> bool {
        let is_asked_for = |glob: &String| {
            let point = unpadded(&block.header().point);
            point.is_none_or(|point| matches(glob, point.as_str()))
        };
        self.held && window_of(block).is_some() && !self.kept.asked.as_ref().is_some_and(is_asked_for)
    }

    /// Frees full blocks of `keep` that are older than their window: they were seen full longer ago than that, so all
    /// their stamps are.
    pub(crate) fn free_kept(
        &mut self,
        now: Instant,
        ledger: &mut Ledger,
        steps: &mut Steps,
    ) -> tickscope_store::Result<()> {
        let waiting: Vec<u32> = self.present_blocks().filter(|&index| self.is_to_be_examined(index)).collect();
        for index in waiting {
            let block = self.pool.block(index);
            let state = handover::state(&block);
            let Some(window) = window_of(&block).filter(|_| self.held && self.is_whole(&block)) else { continue };
            let name = (block.header().serial, block.header().number);
            let known = self.kept.full.get(&index).filter(|(known, _)| *known == name).map(|&(_, since)| since);
            // Looked through once: it is as long as all its stamps.
            if known.is_none() && !state.is_some_and(|state| self.is_done(&block, state)) {
                continue;
            }
            let since = known.unwrap_or(now);
            self.kept.full.insert(index, (name, since));
            if now.saturating_duration_since(since) >= window && self.is_taken(&block) {
                self.free(index, steps)?;
                self.kept.full.remove(&index);
                ledger.drop_part((self.instance, name.0), name.1);
            }
        }
        Ok(())
    }
}

/// The window of a block under `keep`.
fn window_of(block: &MappedBlock<'_>) -> Option<Duration> {
    if !block.is_described() {
        return None;
    }
    let choice = block.choice().filter(|choice| choice.policy() == Policy::Keep)?;
    Some(Duration::from_nanos(keep::window_ns(choice.parameter())))
}

/// The rule of a block under `first-last`.
pub(super) fn first_last(block: &MappedBlock<'_>) -> Option<FirstLast> {
    let choice = block.choice().filter(|choice| choice.policy() == Policy::FirstLast)?;
    Some(FirstLast::of(choice.parameter()))
}

/// The first stamp of a block and the last, by what its policy says.
pub(super) fn first_and_last(block: &MappedBlock<'_>, rule: FirstLast) -> Option<(Record, Option<Record>)> {
    let found: Vec<Record> = (0..handover::Block::capacity(block)).filter_map(|slot| block.record(slot)).collect();
    first_last::first_and_last(&found, rule.marker(), |record| (record.tick, record.id))
}

/// Copies the first stamp and the last, unless they are stored.
pub(super) fn read_first_and_last(
    block: &MappedBlock<'_>,
    rule: FirstLast,
    node_channel: i32,
    taken: Option<&Taken>,
    into: &mut StampColumns,
) -> Vec<ChannelCount> {
    let before = into.len();
    if let (Some((first, last)), None) = (first_and_last(block, rule), taken) {
        std::iter::once(first).chain(last).for_each(|record| rows::push(record, into));
    }
    let rows = into.len();
    into.channel.resize(rows, node_channel);
    into.fill_with_nulls();
    let stored = (rows - before) as u64;
    vec![ChannelCount { channel: node_channel, stored, ..ChannelCount::default() }]
}

impl WatchedPool {
    /// The marker that a channel of `first-last` ended without, if a ready block is its last.
    pub(crate) fn unseen_marker(&self, block: &ReadyBlock) -> Option<i64> {
        let mapped = self.pool.block(block.index);
        let rule = first_last(&mapped)?;
        let serial = block.channel.1;
        // Where the channel went on under another policy, or has later blocks, its stream did not end here.
        let later = block.number.checked_add(1).map_or(0, |next| self.blocks_among(serial, &(next..u32::MAX)));
        if later > 0 || self.choice_of(serial).is_some_and(|choice| Some(choice) != mapped.choice()) {
            return None;
        }
        let (first, last) = first_and_last(&mapped, rule)?;
        rule.marker().filter(|&marker| last.unwrap_or(first).id != marker)
    }
}

impl WatchedPool {
    /// Calls `with` for each block of `keep` that is a point's: with its place, its name, and what reads its records
    /// from a slot on, up to the first that is not committed; none where the block is another one by then.
    pub(crate) fn kept_at(
        &self,
        point: &PointName,
        mut with: impl FnMut(u32, (u32, u32), &dyn Fn(u32) -> Vec<(i64, i64)>),
    ) {
        for index in self.present_blocks() {
            let block = self.pool.block(index);
            if !self.is_to_be_examined(index) || window_of(&block).is_none() {
                continue;
            }
            let name = block.name();
            // Behind the first channel's records lie descriptions of others, which are none.
            let slots = || block.tenancies().ok().map(|tenancies| tenancies[0].slots.clone());
            let is_it = || {
                // Its program may be overwriting it: what was read before this counts if the block is the same still.
                fence(Acquire);
                self.is_whole(&block) && block.name() == name && unpadded(&block.header().point).as_ref() == Some(point)
            };
            let Some(within) = slots().filter(|_| is_it()) else { continue };
            let read = |from: u32| {
                let records = (from..within.end).map_while(|slot| block.record(slot));
                let found: Vec<_> = records.map(|record| (record.id, record.tick)).collect();
                // A successor that came meanwhile ends the records earlier.
                if is_it() && slots().as_ref() == Some(&within) { found } else { Vec::new() }
            };
            with(index, name, &read);
        }
    }
}
