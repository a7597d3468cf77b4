//! A pool under watch: which of its blocks may be taken.
//!
//! Assumes: `tickscope_stamp::pool` keeps every access within the mapping. Guarantees: what stands in the memory
//! decides only whether a block is taken and under which channel, never where is read; a block that makes no sense is
//! left as it is, with the reason. Deliberately absent: writing, except through the hand-over's own steps.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use tickscope_stamp::block::{
    BlockHeader, BlockState, ChannelEntry, EntryState, Policy, PoolState, SlimRecord, unpadded,
};
use tickscope_stamp::handover;
use tickscope_stamp::policy;
use tickscope_stamp::pool::{MappedBlock, Pool};
use tickscope_tick::{Clock, Domain, NodeName, Ordering, PointName};

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use crate::ledger::{Handle, Ledger, Taken};
use crate::steps::Steps;
use tickscope_store::{Channel, ChannelState, EventKind, StampColumns};

/// A pool, and what is already known of its blocks.
pub(crate) struct WatchedPool {
    pool: Pool,
    instance: u64,
    /// Domain of its ticks, but for channels of another counter.
    domain: Domain,
    leases: Option<u64>,
    held: bool,
    /// By block: it waits to be stored, or is left alone.
    settled: Vec<bool>,
    waiting: u32,
    names: HashSet<(u32, u32)>,
    damaged: BTreeMap<u32, &'static str>,
    /// Blocks whose state said that they hold nothing, and that are stored all the same.
    doubtful: BTreeMap<u32, &'static str>,
    /// Of each block, whether it takes memory; absent: all do.
    present: Option<Vec<bool>>,
    /// Where the entries of some channels were found.
    places: RefCell<HashMap<u32, usize>>,
    /// Oddities of the pool that were told.
    told: usize,
}

/// A block that is ready to be stored.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ReadyBlock {
    /// Pool and number of the channel within it.
    pub channel: Handle,
    /// The block's number within its channel.
    pub number: u32,
    /// Where in the pool it lies.
    pub index: u32,
    /// The channel's number within the node.
    pub node_channel: i32,
    /// Stamps that fit into it.
    pub capacity: u32,
    /// Point that it was stamped at.
    pub point: PointName,
}

/// Stamps that found no block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lost {
    /// Number of stamps.
    pub stamps: u64,
    /// Tick of the first.
    pub first: i64,
    /// Tick of the last.
    pub last: i64,
    /// Counter or clock of those ticks.
    pub counter: Clock,
}

/// Where a channel's stamps are taken, and of what.
struct Source {
    point: PointName,
    ordering: u8,
    domain: Domain,
}

/// Task for a block.
enum Finding {
    Nothing,
    Ready,
    /// As above, though its state says that it holds nothing.
    Doubtful(&'static str),
    /// A segment holds it already, or its zeroing was cut off.
    Stored,
    Damaged(&'static str),
}

/// Why a file is not collected.
pub(crate) enum Refused {
    /// It is no pool of this version, for that reason.
    Foreign(String),
    /// This process lacks descriptors or memory at the moment.
    Later,
}

impl WatchedPool {
    /// Maps the pool at `path`; the reason, if it cannot be collected.
    pub(crate) fn open(path: &Path) -> Result<Self, Refused> {
        let pool = Pool::open(path)
            .map_err(|e| if e.is_shortage() { Refused::Later } else { Refused::Foreign(e.to_string()) })?;
        Self::of(pool, path).map_err(Refused::Foreign)
    }

    fn of(pool: Pool, path: &Path) -> Result<Self, String> {
        let header = pool.header();
        let (instance, epoch, boot) = (header.instance, header.epoch, pool.boot_id());
        let name = format!("pool-{instance:016x}.ticks");
        if path.file_name().is_none_or(|found| found != name.as_str()) {
            return Err(format!(
                "{}: expected the name {name}, found another: it is a copy, which may be removed",
                path.display()
            ));
        }
        let counter = pool.counter().ok_or_else(|| {
            let known = Clock::ALL.map(|(_, name, _)| name).join(", ");
            format!(
                "{}: expected a counter of {known}, found number {}. Collect it with the tickscope that its program \
                 was built with",
                path.display(),
                header.counter
            )
        })?;
        let settled = vec![false; pool.block_count() as usize];
        let domain = Domain { boot, counter, epoch };
        let (names, places, present) = (HashSet::new(), RefCell::default(), pool.blocks_with_memory());
        let (damaged, doubtful) = (BTreeMap::new(), BTreeMap::new());
        let (leases, held, waiting, told) = (None, true, 0, 0);
        Ok(Self {
            pool,
            instance,
            domain,
            leases,
            held,
            settled,
            waiting,
            names,
            damaged,
            doubtful,
            present,
            places,
            told,
        })
    }

    /// Identity of the pool.
    pub(crate) fn instance(&self) -> u64 {
        self.instance
    }

    /// Shared memory that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.pool.bytes()
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        self.pool.path()
    }

    /// Process id and command, for people.
    pub(crate) fn process(&self) -> String {
        let header = self.pool.header();
        format!("process {} ({})", header.pid, unpadded(&header.command).as_ref().map_or("?", PointName::as_str))
    }

    /// Whether the pool's process lived at the last look.
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    /// Whether the program said that it was done.
    pub(crate) fn was_closed(&self) -> bool {
        self.pool.state() == Some(PoolState::Closed)
    }

    /// Share of its blocks that wait to be stored, in percent.
    pub(crate) fn waiting_percent(&self) -> u32 {
        (u64::from(self.waiting) * 100 / u64::from(self.pool.block_count())) as u32
    }

    /// Blocks that are left alone, with the reason.
    pub(crate) fn damaged(&self) -> &BTreeMap<u32, &'static str> {
        &self.damaged
    }

    /// Blocks that were taken against what their state says, with what it said.
    pub(crate) fn doubtful(&self) -> &BTreeMap<u32, &'static str> {
        &self.doubtful
    }

    /// Whether the file was cut shorter while it was watched.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.pool.is_cut_off()
    }

    /// Whether something is wrong with it that was not told yet; from now on it counts as told.
    pub(crate) fn has_news(&mut self) -> bool {
        let known = self.damaged.len() + self.doubtful.len() + usize::from(self.is_cut_off());
        std::mem::replace(&mut self.told, known) < known
    }

    /// Says that what is wrong with it could not be told.
    pub(crate) fn tell_again(&mut self) {
        self.told = 0;
    }

    /// Whether a descriptor of its file is open.
    pub(crate) fn is_open(&self) -> bool {
        self.pool.is_open()
    }

    /// Closes its file.
    pub(crate) fn close(&mut self) {
        self.pool.close();
    }

    /// Whether a look would find anything that the last one did not, as far as the program says so. Blocks that were
    /// filled or released since, without a new one being leased, show up only in a look.
    pub(crate) fn stirred(&mut self) -> bool {
        let leases = self.pool.header().leases.load(Acquire);
        let held = self.lives();
        self.leases.replace(leases) != Some(leases) || !held
    }

    /// An error counts as alive: a pool is never taken apart on a doubt.
    pub(crate) fn lives(&self) -> bool {
        self.pool.is_held().unwrap_or(true) || self.is_mapped_by_its_process()
    }

    /// A program that closed all its descriptors lost the lock, not its life. (Not visible from another pid namespace.)
    fn is_mapped_by_its_process(&self) -> bool {
        std::fs::read_to_string(format!("/proc/{}/maps", self.pool.header().pid))
            .is_ok_and(|maps| maps.contains(&format!("pool-{:016x}.ticks", self.instance)))
    }

    /// Looks at every block: zeroes those that are stored already, and returns those that became ready.
    ///
    /// A channel may fill a block that was passed already and then one further on, before that is reached. So
    /// whatever precedes a block that was found ready is looked at once more: a thread takes its next block only when
    /// the last is complete. (But for one that a signal handler overtook: that comes when it is.)
    pub(crate) fn look(&mut self, ledger: &mut Ledger, steps: &mut Steps) -> tickscope_store::Result<Vec<ReadyBlock>> {
        // Asked before the blocks are read: whatever a dead process wrote is there by then.
        self.held = self.lives();
        if !self.held {
            self.pool.close();
        }
        if self.present.is_some() {
            self.present = self.pool.blocks_with_memory();
        }
        self.refresh_channels(ledger);
        let mut ready = Vec::new();
        for index in 0..self.pool.block_count() {
            if !self.is_to_be_examined(index) {
                continue;
            }
            match self.examine(index, ledger) {
                Finding::Nothing => {}
                Finding::Doubtful(why) => {
                    self.doubtful.insert(index, why);
                    ready.extend(self.claim(index, ledger));
                }
                Finding::Stored => self.free(index, steps)?,
                Finding::Ready => ready.extend(self.claim(index, ledger)),
                Finding::Damaged(why) => self.leave_alone(index, why),
            }
        }
        steps.reached("every block was looked at")?;
        self.catch_up(ledger, &mut ready);
        Ok(ready)
    }

    /// Adds the blocks before those that are ready, each channel's.
    fn catch_up(&mut self, ledger: &mut Ledger, ready: &mut Vec<ReadyBlock>) {
        let mut latest: BTreeMap<u32, u32> = BTreeMap::new();
        for block in ready.iter() {
            let number = latest.entry(block.channel.1).or_default();
            *number = block.number.max(*number);
        }
        for index in 0..self.pool.block_count() {
            if !self.is_to_be_examined(index) {
                continue;
            }
            let block = self.pool.block(index);
            let (serial, number) = (block.header().serial, block.header().number);
            let precedes = latest.get(&serial).is_some_and(|&last| number < last);
            if precedes && matches!(self.examine(index, ledger), Finding::Ready) {
                ready.extend(self.claim(index, ledger));
            }
        }
    }

    fn is_to_be_examined(&self, index: u32) -> bool {
        self.is_present(index) && !self.settled[index as usize]
    }

    /// The pool itself.
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The blocks that take memory.
    pub(crate) fn present_blocks(&self) -> impl Iterator<Item = u32> {
        (0..self.pool.block_count()).filter(|&index| self.is_present(index))
    }

    fn is_present(&self, index: u32) -> bool {
        self.present.as_ref().is_none_or(|present| present[index as usize])
    }

    fn examine(&self, index: u32, ledger: &Ledger) -> Finding {
        let block = self.pool.block(index);
        match handover::state(&block) {
            None => Finding::Damaged("a state of no version"),
            // Of a living program it may be taken at any moment.
            Some(BlockState::Free) if self.held || !self.is_whole(&block) => Finding::Nothing,
            Some(BlockState::Free) => self.examine_doubtful(&block, "it is free", ledger),
            Some(BlockState::Zeroing) if !self.is_whole(&block) => Finding::Stored,
            Some(BlockState::Zeroing) => self.examine_doubtful(&block, "it is stored", ledger),
            Some(state) => self.examine_taken(&block, state, ledger),
        }
    }

    /// Whether a block still has its header, whatever its state: zeroing begins with the magic.
    fn is_whole(&self, block: &MappedBlock<'_>) -> bool {
        block.is_described() && block.header().instance == self.instance
    }

    /// A block with all that it held, whose state says that nothing of it is to be stored.
    fn examine_doubtful(&self, block: &MappedBlock<'_>, said: &'static str, ledger: &Ledger) -> Finding {
        let header = block.header();
        let taken = ledger.taken((self.instance, header.serial), header.number);
        let is_stored = taken.is_some_and(|taken| handover::committed(block).all(|slot| taken.holds(slot)));
        match self.examine_taken(block, BlockState::Released, ledger) {
            Finding::Ready if is_stored => Finding::Stored,
            Finding::Ready => Finding::Doubtful(said),
            other => other,
        }
    }

    fn examine_taken(&self, block: &MappedBlock<'_>, state: BlockState, ledger: &Ledger) -> Finding {
        let header = block.header();
        if header.magic.load(Acquire) == 0 {
            return Finding::Nothing;
        }
        if !block.is_described() {
            return Finding::Damaged("a header of no version");
        }
        if header.instance != self.instance {
            return Finding::Damaged("a block of another pool");
        }
        let done = state == BlockState::Released || !self.held || handover::is_complete(block);
        if !done {
            // Also a block that a signal handler overtook in leasing: its program is about to give it back.
            return Finding::Nothing;
        }
        if ledger.holds((self.instance, header.serial), header.number) {
            return Finding::Stored;
        }
        if unpadded(&header.point).is_none() || Ordering::from_number(header.ordering).is_none() {
            return Finding::Damaged("a point of no valid name or ordering");
        }
        if self.domain_of(header.counter).is_none() {
            return Finding::Damaged("ticks of a counter of no version");
        }
        if self.names.contains(&(header.serial, header.number)) {
            return Finding::Damaged("the number of another block of its channel");
        }
        if !self.is_of_its_channel(header) {
            return Finding::Damaged("stamps of another point, ordering or clock than its channel");
        }
        Finding::Ready
    }

    /// Whether a block says of itself what its channel's entry says. A channel has its entry for as long as it has
    /// blocks; one that was opened since the entries were looked at is looked for.
    fn is_of_its_channel(&self, header: &BlockHeader) -> bool {
        let entries = self.pool.entries();
        let is_it = |entry: &&ChannelEntry| {
            let used = [EntryState::Open as u32, EntryState::Closed as u32].contains(&entry.state.load(Acquire));
            used && entry.serial.load(Relaxed) == header.serial
        };
        let mut places = self.places.borrow_mut();
        let known = places.get(&header.serial).copied().filter(|&place| is_it(&&entries[place]));
        let place = known.or_else(|| entries.iter().position(|entry| is_it(&entry)));
        place.is_none_or(|place| {
            places.insert(header.serial, place);
            let entry = &entries[place];
            entry.point == header.point
                && entry.ordering == header.ordering
                && self.domain_of(entry.counter) == self.domain_of(header.counter)
        })
    }

    /// Blocks of a living program that are not ready: some of their stamps may be committed.
    pub(crate) fn open_blocks(&self, ledger: &mut Ledger) -> Vec<ReadyBlock> {
        let open = |index: &u32| self.is_to_be_examined(*index) && self.is_in_use(*index, ledger);
        let open: Vec<u32> = (0..self.pool.block_count()).filter(open).collect();
        open.into_iter().filter_map(|index| self.describe(index, ledger)).collect()
    }

    fn is_in_use(&self, index: u32, ledger: &Ledger) -> bool {
        let block = self.pool.block(index);
        let state = handover::state(&block);
        matches!(state, Some(BlockState::Leased | BlockState::Released))
            && self.is_whole(&block)
            && matches!(self.examine_taken(&block, BlockState::Released, ledger), Finding::Ready)
    }

    fn claim(&mut self, index: u32, ledger: &mut Ledger) -> Option<ReadyBlock> {
        let ready = self.describe(index, ledger)?;
        self.settled[index as usize] = true;
        self.waiting += 1;
        self.names.insert((ready.channel.1, ready.number));
        Some(ready)
    }

    fn describe(&self, index: u32, ledger: &mut Ledger) -> Option<ReadyBlock> {
        let block = self.pool.block(index);
        let header = block.header();
        let (serial, number) = (header.serial, header.number);
        let channel = (self.instance, serial);
        let point = unpadded(&header.point)?;
        let domain = self.domain_of(header.counter)?;
        let source = Source { point: point.clone(), ordering: header.ordering, domain };
        let describe = |number, node| self.channel((number, node), serial, header.thread, source);
        let node_channel = ledger.number(channel, describe);
        let capacity = handover::Block::capacity(&block);
        Some(ReadyBlock { channel, number, index, node_channel, capacity, point })
    }

    fn leave_alone(&mut self, index: u32, why: &'static str) {
        self.settled[index as usize] = true;
        self.damaged.insert(index, why);
    }

    /// Copies what is committed in a ready block and not stored yet. Returns how many stamps, and how many slots were
    /// never committed.
    pub(crate) fn read(&self, block: &ReadyBlock, taken: Option<&Taken>, into: &mut StampColumns) -> (u64, u64) {
        let mapped = self.pool.block(block.index);
        let before = into.len();
        let records = if taken.is_none() { mapped.slim_records() } else { None };
        let whole = records.is_some_and(|records| read_whole(records, into));
        let uncommitted = if whole { 0 } else { read_slots(&mapped, taken, into).holes.uncommitted() };
        let rows = into.len();
        into.channel.resize(rows, block.node_channel);
        into.fill_with_nulls();
        ((rows - before) as u64, uncommitted)
    }

    /// Copies what is committed so far in an open block and not stored yet. Returns how many stamps, and what of the
    /// block is stored with them; `None`: there is none, or the block is no longer that one.
    pub(crate) fn read_open(
        &self,
        block: &ReadyBlock,
        taken: Option<&Taken>,
        into: &mut StampColumns,
    ) -> Option<(u64, Taken)> {
        let mapped = self.pool.block(block.index);
        let mut found = StampColumns::default();
        let slots = read_slots(&mapped, taken, &mut found);
        // Its program gives a block back only while it holds no stamp: the same now is the same meanwhile.
        fence(Acquire);
        let header = mapped.header();
        let same = self.is_whole(&mapped) && (header.serial, header.number) == (block.channel.1, block.number);
        let stamps = found.len();
        if stamps == 0 || !same {
            return None;
        }
        found.channel.resize(stamps, block.node_channel);
        found.fill_with_nulls();
        into.append(found);
        Some((stamps as u64, slots.into_taken()))
    }

    /// Stamps that were dropped just before a ready block.
    pub(crate) fn lost_before(&self, block: &ReadyBlock) -> Option<Lost> {
        let mapped = self.pool.block(block.index);
        let header = mapped.header();
        let counter = self.domain_of(header.counter)?.counter;
        let lost = Lost { stamps: header.lost, first: header.lost_first, last: header.lost_last, counter };
        (lost.stamps > 0).then_some(lost)
    }

    /// Zeroes and frees a block that is stored.
    pub(crate) fn free(&mut self, index: u32, steps: &mut Steps) -> tickscope_store::Result<()> {
        let block = self.pool.block(index);
        let name = (block.header().serial, block.header().number);
        handover::begin_zeroing(&block);
        steps.reached("a block is marked")?;
        handover::finish_zeroing(&block);
        if std::mem::replace(&mut self.settled[index as usize], false) {
            self.waiting -= 1;
            self.names.remove(&name);
        }
        steps.reached("a block is free")
    }

    /// Gives numbers to new channels and takes over the counts of all.
    fn refresh_channels(&self, ledger: &mut Ledger) {
        for (entry, state) in self.entries() {
            let point = unpadded(&entry.point);
            let (Some(point), Some(domain)) = (point, self.domain_of(entry.counter)) else { continue };
            let serial = entry.serial.load(Relaxed);
            let thread = entry.thread.load(Relaxed);
            let source = Source { point, ordering: entry.ordering, domain };
            let describe = |number, node| self.channel((number, node), serial, thread, source);
            let number = ledger.number((self.instance, serial), describe);
            entry.number.store(number, Relaxed);
            ledger.update((self.instance, serial), |channel| {
                channel.dropped = count(entry.dropped.load(Relaxed));
                channel.refused = count(entry.refused.load(Relaxed));
                let setting = policy::read(&entry.policy, &entry.parameters);
                let known = Policy::from_number(setting.policy);
                channel.policy = known.map_or("unknown", Policy::name).into();
                channel.parameter = known.is_none().then_some(setting.parameter as i64); // those known here take none
                channel.state = self.channel_state(state);
            });
        }
    }

    fn channel_state(&self, entry: EntryState) -> ChannelState {
        match entry {
            EntryState::Closed => ChannelState::Closed,
            _ if self.held => ChannelState::Open,
            _ if self.was_closed() => ChannelState::Closed,
            _ => ChannelState::Recovered,
        }
    }

    /// Entries that describe a channel.
    fn entries(&self) -> impl Iterator<Item = (&ChannelEntry, EntryState)> {
        self.pool.entries().iter().filter_map(|entry| {
            // Acquire: what the program wrote before it opened or closed the channel is seen.
            let state = entry.state.load(Acquire);
            let known = [EntryState::Open, EntryState::Closed].into_iter().find(|&known| known as u32 == state);
            known.map(|state| (entry, state))
        })
    }

    /// Channels that lost stamps which no later block tells of, with the serial of each.
    pub(crate) fn lost_at_the_end(&self) -> Vec<(u32, Lost)> {
        let ended = self.entries().filter(|&(_, state)| !self.held || state == EntryState::Closed);
        let lost = ended.filter_map(|(entry, _)| {
            let (first, last) = (entry.lost_first.load(Relaxed), entry.lost_last.load(Relaxed));
            let counter = self.domain_of(entry.counter)?.counter;
            Some((entry.serial.load(Relaxed), Lost { stamps: entry.lost.load(Relaxed), first, last, counter }))
        });
        lost.filter(|(_, lost)| lost.stamps > 0).collect()
    }

    /// Closed channels none of whose blocks is left in the pool. Call after a look whose ready blocks are all stored.
    pub(crate) fn finished_channels(&self) -> Vec<u32> {
        let closed = self.entries().filter(|&(_, state)| state == EntryState::Closed);
        let mut finished: Vec<u32> = closed.map(|(entry, _)| entry.serial.load(Relaxed)).collect();
        if !finished.is_empty() {
            for index in self.present_blocks() {
                let block = self.pool.block(index);
                let taken = handover::state(&block) != Some(BlockState::Free);
                finished.retain(|&serial| !taken || block.header().serial != serial);
            }
        }
        finished
    }

    /// Lets the program use the entry of a finished channel again.
    pub(crate) fn free_entry(&self, serial: u32) {
        for (entry, state) in self.entries() {
            if state == EntryState::Closed && entry.serial.load(Relaxed) == serial {
                // Release: the program that takes it next sees nothing of ours after this.
                entry.state.store(EntryState::Free as u32, Release);
            }
        }
    }

    /// Whether so many channels are closed and not yet written down that the program may soon find no free entry.
    pub(crate) fn is_crowded(&self) -> bool {
        let closed = self.entries().filter(|&(_, state)| state == EntryState::Closed).count();
        closed * 2 > self.pool.entries().len()
    }

    /// Stamps that belong to no channel, as a word and how many.
    pub(crate) fn homeless(&self) -> Vec<(EventKind, u64)> {
        let header = self.pool.header();
        let all = [
            (EventKind::StampsWithoutChannel, header.without_channel.load(Relaxed)),
            (EventKind::StampsAfterClose, header.after_close.load(Relaxed)),
            (EventKind::ChannelsRefused, header.channels_refused.load(Relaxed)),
        ];
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    /// The domain of a channel's ticks, by the number of its counter, where 0 is the pool's; `None`: of no version.
    fn domain_of(&self, counter: u8) -> Option<Domain> {
        let counter = if counter == 0 { Some(self.domain.counter) } else { Clock::from_number(counter) };
        counter.map(|counter| Domain { counter, ..self.domain })
    }

    fn channel(&self, (number, node): (i32, NodeName), serial: u32, thread: i32, source: Source) -> Channel {
        let Source { point, ordering, domain } = source;
        let header = self.pool.header();
        Channel {
            channel: number,
            node,
            pid: header.pid,
            process_start: header.process_start,
            pool: self.instance,
            serial,
            thread,
            point,
            ordering: Ordering::from_number(ordering).map_or("unknown", Ordering::name).into(),
            domain: domain.to_string(),
            policy: Policy::Buffered.name().into(),
            parameter: None,
            stored: 0,
            dropped: 0,
            refused: 0,
            uncommitted: 0,
            state: ChannelState::Open,
        }
    }
}

/// The largest count that a file can hold, if need be: shared memory may say anything.
pub(crate) fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Copies records that are all committed; `false`: some are not, and nothing was copied.
fn read_whole(records: &[SlimRecord], into: &mut StampColumns) -> bool {
    let before = into.len();
    // Acquire: an id is read after its tick was seen.
    into.tick.extend(records.iter().map(|record| record.tick.load(Acquire)));
    if into.tick[before..].contains(&0) {
        into.tick.truncate(before);
        return false;
    }
    into.id.extend(records.iter().map(|record| record.id.load(Relaxed)));
    true
}

/// Copies the records that are committed and not stored yet, one by one.
fn read_slots(mapped: &MappedBlock<'_>, taken: Option<&Taken>, into: &mut StampColumns) -> Slots {
    let mut slots = Slots::default();
    for slot in 0..handover::Block::capacity(mapped) {
        let Some(record) = mapped.record(slot) else {
            slots.uncommitted.push(slot);
            slots.holes.open(handover::Block::id(mapped, slot).load(Relaxed));
            continue;
        };
        slots.holes.close();
        slots.end = slot + 1;
        if taken.is_some_and(|taken| taken.holds(slot)) {
            continue;
        }
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
            }
        }
    }
    slots
}

/// What was found in the slots of a block.
#[derive(Default)]
struct Slots {
    holes: Holes,
    uncommitted: Vec<u32>,
    /// Behind the last committed one.
    end: u32,
}

impl Slots {
    fn into_taken(self) -> Taken {
        let Self { mut uncommitted, end, .. } = self;
        uncommitted.retain(|&slot| slot < end);
        Taken { slots: end, uncommitted }
    }
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
