//! Rows of a block: what is committed there and not stored yet, copied into columns.
//!
//! Assumes: the block is taken, or whoever reads looks at the chain of its channels again behind the reading.
//! Guarantees: a record is copied whole, under the channel whose it is. Deliberately absent: which blocks are read.

use super::*;

impl WatchedPool {
    /// Copies what is committed in a ready block and not stored yet. Returns for each of its channels how many stamps,
    /// and how many slots were never committed.
    pub(crate) fn read(&self, block: &ReadyBlock, taken: Option<&Taken>, into: &mut StampColumns) -> Vec<ChannelCount> {
        let mapped = self.pool.block(block.index);
        if let Some(rule) = kept::first_last(&mapped) {
            return kept::read_first_and_last(&mapped, rule, block.node_channel, taken, into);
        }
        let mut counts = Vec::with_capacity(block.tenants.len());
        for &Tenant { node_channel, slots: (first, end) } in &block.tenants {
            let before = into.len();
            let records = if taken.is_none() { mapped.slim_records() } else { None };
            let records = records.and_then(|records| records.get(first as usize..end as usize));
            let whole = records.is_some_and(|records| read_whole(records, into));
            let uncommitted = if whole { 0 } else { read_slots(&mapped, first..end, taken, into).uncommitted() };
            let rows = into.len();
            into.channel.resize(rows, node_channel);
            counts.push(ChannelCount { uncommitted, ..counted(&mapped, node_channel, rows - before) });
        }
        into.fill_with_nulls();
        counts
    }

    /// Copies what is committed so far in an open block and not stored yet. Returns for each of its channels how many
    /// stamps, and what of the block is stored with them; `None`: there is none, or the block is no longer that one.
    ///
    /// Its program may describe a successor meanwhile, where a record of the last channel was looked for. It links the
    /// description first, so a second look at the chain tells: then the records before it are read anew.
    pub(crate) fn read_open(
        &self,
        block: &ReadyBlock,
        taken: Option<&Taken>,
        into: &mut StampColumns,
    ) -> Option<(Vec<ChannelCount>, Taken)> {
        let mapped = self.pool.block(block.index);
        let mut tenants = block.tenants.clone();
        for _ in 0..MOST_LOOKS {
            let mut found = StampColumns::default();
            let (counts, now) = read_tenants(&mapped, &tenants, taken, &mut found);
            // Its program gives a block back only while it holds no stamp: the same now is the same meanwhile.
            fence(Acquire);
            let header = mapped.header();
            let same = self.is_whole(&mapped) && (header.serial, header.number) == (block.channel.1, block.number);
            let ends: Vec<u32> = mapped.tenancies().ok()?.into_iter().map(|tenancy| tenancy.slots.end).collect();
            if found.is_empty() || !same || ends.len() < tenants.len() {
                return None;
            }
            if tenants.iter().zip(&ends).all(|(tenant, &end)| tenant.slots.1 == end) {
                found.fill_with_nulls();
                into.append(found);
                return Some((counts, now));
            }
            tenants.iter_mut().zip(ends).for_each(|(tenant, end)| tenant.slots.1 = end);
        }
        None
    }
}

/// Copies records that are all committed; `false`: some are not, and nothing was copied.
fn read_whole(records: &[SlimRecord], into: &mut StampColumns) -> bool {
    let before = into.len();
    let mut whole = true;
    into.tick.extend(records.iter().map(|record| {
        let tick = record.tick.load(Acquire); // an id is read after its tick was seen
        whole &= tick != 0;
        tick
    }));
    if !whole {
        into.tick.truncate(before);
        return false;
    }
    into.id.extend(records.iter().map(|record| record.id.load(Relaxed)));
    true
}

/// Copies the records of these slots that are committed and not stored yet, one by one.
fn read_slots(
    mapped: &MappedBlock<'_>,
    range: std::ops::Range<u32>,
    taken: Option<&Taken>,
    into: &mut StampColumns,
) -> Holes {
    let mut holes = Holes::default();
    for slot in range {
        let Some(record) = mapped.record(slot) else {
            holes.open(handover::Block::id(mapped, slot).load(Relaxed));
            continue;
        };
        holes.close();
        if taken.is_none_or(|taken| !taken.holds(slot)) {
            push(record, into);
        }
    }
    holes
}

/// Appends a record, but for its channel.
pub(super) fn push(record: Record, into: &mut StampColumns) {
    into.tick.push(record.tick);
    into.id.push(record.id);
    if let Some(rider) = record.rider {
        into.kind.push(Some(rider.kind));
        into.cpu.push(rider.cpu);
        into.value.push(Some(rider.value));
        if let Some(origin) = rider.origin {
            into.parent.push(origin.parent);
            into.attempt.push(origin.attempt);
            into.batch.push(origin.batch);
            into.ids.push(origin.ids);
        }
    }
}

/// Copies the records of a block that is still being filled, each under its channel: no record without those that its
/// thread committed before it.
fn read_tenants(
    mapped: &MappedBlock<'_>,
    tenants: &[Tenant],
    taken: Option<&Taken>,
    into: &mut StampColumns,
) -> (Vec<ChannelCount>, Taken) {
    let committed: Vec<(u32, Record)> =
        handover::committed(mapped).filter_map(|slot| Some((slot, mapped.record(slot)?))).collect();
    let (mut all, mut counts) = (Taken::default(), Vec::with_capacity(tenants.len()));
    for &Tenant { node_channel, slots: (first, end) } in tenants {
        let before = into.len();
        let (from, to) = (committed.partition_point(|of| of.0 < first), committed.partition_point(|of| of.0 < end));
        let own = committed.get(from..to).unwrap_or_default();
        let new = own.iter().filter(|(slot, _)| taken.is_none_or(|taken| !taken.holds(*slot)));
        new.for_each(|&(_, record)| push(record, into));
        let is_hole = |slot: &u32| own.binary_search_by_key(slot, |of| of.0).is_err();
        all.uncommitted.extend((first..end).filter(is_hole));
        all.slots = own.last().map_or(all.slots, |last| last.0 + 1);
        let rows = into.len();
        into.channel.resize(rows, node_channel);
        counts.push(counted(mapped, node_channel, rows - before));
    }
    all.uncommitted.retain(|&slot| slot < all.slots);
    (counts, all)
}

/// So many stamps of a channel in a block, as its policy counts them.
fn counted(mapped: &MappedBlock<'_>, channel: i32, stored: usize) -> ChannelCount {
    let stored = stored as u64;
    let is_every = mapped.choice().is_some_and(|choice| choice.policy() == Policy::Every);
    ChannelCount { channel, stored, every: if is_every { stored } else { 0 }, ..ChannelCount::default() }
}

/// Slots without a tick: those before the last committed one were reserved and never committed, and so was one behind
/// it that already carries an id. An unfinished slot behind all others with id 0 looks like one that was never
/// reserved.
#[derive(Default)]
struct Holes {
    certain: u64,
    open: u64,
    marked: u64,
}

impl Holes {
    fn open(&mut self, id: i64) {
        self.open += 1;
        self.marked += u64::from(id != 0);
    }

    fn close(&mut self) {
        self.certain += self.open;
        (self.open, self.marked) = (0, 0);
    }

    fn uncommitted(&self) -> u64 {
        self.certain + self.marked
    }
}
