//! A pool under watch: which of its blocks may be taken.
//!
//! Assumes: `tickscope_stamp::pool` keeps every access within the mapping. Guarantees: what stands in the memory
//! decides only whether a block is taken and under which channel, never where is read; a block that makes no sense is
//! left as it is, with the reason. Deliberately absent: writing, except through the hand-over's own steps.

pub(crate) mod claim;
mod in_use;
mod kept;
mod live;
mod rows;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use tickscope_stamp::block::{
    BlockHeader, BlockState, ChannelEntry, EntryState, Policy, PoolState, SlimRecord, WhenFull, unpadded,
};
use tickscope_stamp::directory::{Trust, pool_file};
use tickscope_stamp::handover;
use tickscope_stamp::policies::Choice;
use tickscope_stamp::policy;
use tickscope_stamp::pool::{MappedBlock, Pool, Record, Tenancy};
use tickscope_tick::{Clock, Domain, NodeName, Ordering, PointName};

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use crate::ledger::{Handle, Ledger, Taken};
use crate::sampler::{LastTotal, opened};
use crate::steps::Steps;
pub(crate) use live::{Due, Outcome};
use tickscope_store::{Channel, ChannelCount, ChannelState, EventKind, StampColumns};

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
    /// Serials of the channels that had an entry at the last look.
    open: HashSet<u32>,
    damaged: BTreeMap<u32, &'static str>,
    /// Blocks whose state said that they hold nothing, and that are stored all the same.
    doubtful: BTreeMap<u32, &'static str>,
    /// Whether each block takes memory; absent: all do.
    present: Option<Vec<bool>>,
    /// The same of each entry.
    present_entries: Option<Vec<bool>>,
    /// Where the entries of channels were found at the last look.
    places: HashMap<u32, usize>,
    /// Channels that the program had opened before that look.
    channels: u32,
    /// Oddities of the pool that were told.
    told: usize,
    /// Channels that live rules were applied to.
    opened: Option<live::Opened>,
    kept: kept::Kept,
    /// Blocks that its program was overwriting, or may have been, when it was killed.
    overwriting: HashSet<u32>,
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
    /// Channels whose records it holds, in order; the first is the one above.
    pub tenants: Vec<Tenant>,
}

/// One channel's share of a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Tenant {
    /// The channel's number within the node.
    pub node_channel: i32,
    /// The first of its slots, and the one after the last.
    pub slots: (u32, u32),
}

/// Stamps that found no block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lost {
    /// Number of stamps.
    pub stamps: u64,
    /// Tick of the first, or one before it; `None`: it is not known.
    pub first: Option<i64>,
    /// Tick of the last, or one behind it.
    pub last: i64,
    /// Counter or clock of those ticks.
    pub counter: Clock,
}

/// Where a channel's stamps are taken, and of what.
#[derive(Clone)]
struct Source {
    point: PointName,
    ordering: u8,
    domain: Domain,
    /// Its policy as far as a block says it; `None`: of a later version.
    choice: Option<Choice>,
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

/// Looks at an open block while its program keeps changing its chain of successors.
const MOST_LOOKS: u32 = 4;

impl WatchedPool {
    /// Maps the pool at `path`; the reason, if it cannot be collected.
    pub(crate) fn open(path: &Path, trust: &Trust) -> Result<Self, Refused> {
        let pool = Pool::open_trusted(path, trust)
            .map_err(|e| if e.is_shortage() { Refused::Later } else { Refused::Foreign(e.to_string()) })?;
        Self::of(pool, path).map_err(Refused::Foreign)
    }

    fn of(pool: Pool, path: &Path) -> Result<Self, String> {
        let header = pool.header();
        let (instance, epoch, boot) = (header.instance, header.epoch, pool.boot_id());
        let name = pool_file(instance);
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
        let (names, open, places, present) =
            (HashSet::new(), HashSet::new(), HashMap::new(), pool.blocks_with_memory());
        let (damaged, doubtful, present_entries) = (BTreeMap::new(), BTreeMap::new(), pool.entries_with_memory());
        let (leases, held, waiting, told, channels) = (None, true, 0, 0, 0);
        Ok(Self {
            pool,
            instance,
            domain,
            leases,
            held,
            settled,
            waiting,
            names,
            open,
            damaged,
            doubtful,
            present,
            present_entries,
            places,
            channels,
            told,
            opened: None,
            kept: kept::Kept::default(),
            overwriting: HashSet::new(),
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

    /// The node that its program was told it belongs to.
    pub(crate) fn node(&self) -> Option<NodeName> {
        unpadded(&self.pool.header().node).and_then(|name| NodeName::new(name.as_str()).ok())
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
        // As a file that got its name after it was mapped, or one that was renamed, is called there.
        let (later, earlier) = (format!("/#{} (", self.pool.inode()), pool_file(self.instance));
        std::fs::read_to_string(format!("/proc/{}/maps", self.pool.header().pid))
            .is_ok_and(|maps| maps.contains(&later) || maps.contains(&earlier))
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
            self.present_entries = self.pool.entries_with_memory();
        }
        self.refresh_channels(ledger);
        let mut ready = Vec::new();
        for index in 0..self.pool.block_count() {
            if !self.is_to_be_examined(index) {
                continue;
            }
            if self.is_cut_off_in_overwriting(index) {
                self.overwriting.insert(index);
            }
            match self.examine_still(index, ledger) {
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
        self.catch_up(ledger, steps, &mut ready)?;
        Ok(ready)
    }

    /// Adds the blocks before those that are ready, each channel's.
    fn catch_up(
        &mut self,
        ledger: &mut Ledger,
        steps: &mut Steps,
        ready: &mut Vec<ReadyBlock>,
    ) -> tickscope_store::Result<()> {
        let mut latest: BTreeMap<u32, u32> = BTreeMap::new();
        for block in ready.iter() {
            let number = latest.entry(block.channel.1).or_default();
            *number = block.number.max(*number);
        }
        for index in 0..self.pool.block_count() {
            if !self.is_to_be_examined(index) {
                continue;
            }
            // Asked again of what is ready: a block that was free may have been taken and filled in between.
            let precedes = || {
                let block = self.pool.block(index);
                latest.get(&block.header().serial).is_some_and(|&last| block.header().number < last)
            };
            if !precedes() {
                continue;
            }
            steps.reached("a block that precedes a ready one was found")?;
            if matches!(self.examine(index, ledger), Finding::Ready) && precedes() {
                ready.extend(self.claim(index, ledger));
            }
        }
        Ok(())
    }

    /// Whether a program that overwrites was killed between giving up a block's stamps and describing what came next.
    fn is_cut_off_in_overwriting(&self, index: u32) -> bool {
        if self.held || self.pool.header().when_full != WhenFull::Overwrite as u8 {
            return false;
        }
        let block = self.pool.block(index);
        match handover::state(&block) {
            Some(BlockState::Overwritten) => true,
            Some(BlockState::Leased) => block.header().magic.load(Acquire) == 0,
            _ => false,
        }
    }

    /// How many blocks its program may have been overwriting when it was killed: what the channels of these overwrote
    /// behind their last block that is there, no number of a block tells.
    pub(crate) fn overwriting(&self) -> usize {
        self.overwriting.len()
    }

    /// The same as [`Self::examine`], but nothing that a block only seemed to say while its program overwrote it:
    /// before it is zeroed or left alone it is taken from its program, and looked at once more.
    fn examine_still(&self, index: u32, ledger: &Ledger) -> Finding {
        let found = self.examine(index, ledger);
        let block = self.pool.block(index);
        let from = handover::state(&block);
        let may_change = self.held && self.pool.version() >= 4;
        let Some(from @ (BlockState::Leased | BlockState::Released | BlockState::Overwritten)) = from else {
            return found;
        };
        if !may_change || !matches!(found, Finding::Stored | Finding::Damaged(_)) {
            return found;
        }
        if from == BlockState::Overwritten {
            return Finding::Nothing; // it is a new block in a moment
        }
        let mut again = Finding::Nothing;
        handover::take_if(&block, from, || {
            again = self.examine_taken(&block, from, ledger);
            matches!(again, Finding::Stored | Finding::Damaged(_))
        });
        match again {
            Finding::Stored | Finding::Damaged(_) => again,
            _ => Finding::Nothing,
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
            // Its stamps are given up; of a living program it is a new block in a moment.
            Some(BlockState::Overwritten) if self.held => Finding::Nothing,
            Some(BlockState::Overwritten) => Finding::Stored,
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
        let records = block.tenancies().unwrap_or_default().into_iter().flat_map(|tenancy| tenancy.slots);
        let mut committed = records.filter(|&slot| block.record(slot).is_some());
        let is_stored = taken.is_some_and(|taken| committed.all(|slot| taken.holds(slot)));
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
        if self.is_kept_back(block) {
            return Finding::Nothing;
        }
        if !self.is_done(block, state) {
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
        match block.tenancies() {
            Err(why) => Finding::Damaged(why),
            Ok(tenancies) if !tenancies.iter().all(|tenancy| self.is_of_its_channel(header, tenancy.serial)) => {
                Finding::Damaged("stamps of another point, ordering or clock than its channel")
            }
            Ok(_) => Finding::Ready,
        }
    }

    /// Whether a block says of itself what the entry of a channel that stamped into it says. A channel without an entry
    /// is closed and lost nothing; one that was opened since the entries were looked at is looked for.
    fn is_of_its_channel(&self, header: &BlockHeader, serial: u32) -> bool {
        let is_it = |entry: &&ChannelEntry| {
            let used = [EntryState::Open as u32, EntryState::Closed as u32].contains(&entry.state.load(Acquire));
            used && entry.serial.load(Relaxed) == serial
        };
        let known = self.places.get(&serial).map(|&place| &self.pool.entries()[place]).filter(is_it);
        let entry = if serial < self.channels {
            known
        } else {
            known.or_else(|| self.entries_with_memory().map(|(_, entry)| entry).find(is_it))
        };
        entry.is_none_or(|entry| {
            let said = (entry.point, entry.ordering, self.domain_of(entry.counter));
            // Its program may have closed the channel meanwhile, and opened another there.
            fence(Acquire);
            !is_it(&entry) || said == (header.point, header.ordering, self.domain_of(header.counter))
        })
    }

    fn claim(&mut self, index: u32, ledger: &mut Ledger) -> Option<ReadyBlock> {
        if !self.is_taken(&self.pool.block(index)) {
            return None;
        }
        // Only now: until then its program may have put another tenant into it.
        let ready = self.describe(index, ledger)?;
        self.settled[index as usize] = true;
        self.waiting += 1;
        self.names.insert((ready.channel.1, ready.number));
        Some(ready)
    }

    /// Takes a block that was found ready; `false`: its program goes on in it since.
    pub(crate) fn is_taken(&self, block: &MappedBlock<'_>) -> bool {
        match handover::state(block) {
            Some(BlockState::Released) if self.pool.version() >= 3 => handover::take(block, BlockState::Released),
            // Its program may be about to overwrite it.
            Some(BlockState::Leased) if self.pool.version() >= 4 => {
                handover::take_done(block, || self.is_done(block, BlockState::Leased))
            }
            // No program writes a block whose state says so, whoever wrote it.
            Some(BlockState::Zeroing) => true,
            Some(state) => self.is_done(block, state),
            None => false,
        }
    }

    fn describe(&self, index: u32, ledger: &mut Ledger) -> Option<ReadyBlock> {
        let block = self.pool.block(index);
        let header = block.header();
        let (serial, number) = (header.serial, header.number);
        let channel = (self.instance, serial);
        let point = unpadded(&header.point)?;
        let domain = self.domain_of(header.counter)?;
        let source = Source { point: point.clone(), ordering: header.ordering, domain, choice: block.choice() };
        let tenants: Vec<Tenant> =
            block.tenancies().ok()?.into_iter().map(|tenancy| self.tenant(tenancy, &source, ledger)).collect();
        let node_channel = tenants.first()?.node_channel;
        let capacity = handover::Block::capacity(&block);
        Some(ReadyBlock { channel, number, index, node_channel, capacity, point, tenants })
    }

    /// Whether nobody writes a leased block any more.
    fn is_done(&self, block: &MappedBlock<'_>, state: BlockState) -> bool {
        let left = matches!(state, BlockState::Released | BlockState::Taken);
        // One under `first-last` is written anew with every stamp, until its program says that it is not.
        let is_full =
            || if kept::first_last(block).is_some() { block.is_ended() } else { handover::is_complete(block) };
        left || !self.held || is_full()
    }

    /// A channel of a block, with its number. One that has no entry is closed: it lost nothing, so its block says all.
    fn tenant(&self, Tenancy { slots, serial, thread }: Tenancy, source: &Source, ledger: &mut Ledger) -> Tenant {
        let describe = |number, node| {
            let state = if self.open.contains(&serial) { ChannelState::Open } else { ChannelState::Closed };
            Channel { state, ..self.channel((number, node), serial, thread, source.clone()) }
        };
        let node_channel = ledger.number((self.instance, serial), describe);
        Tenant { node_channel, slots: (slots.start, slots.end) }
    }

    fn leave_alone(&mut self, index: u32, why: &'static str) {
        self.settled[index as usize] = true;
        self.damaged.insert(index, why);
    }

    /// Whether its program overwrites the oldest of its stamps where no block is free, and a block counts as lost then.
    pub(crate) fn overwrites(&self, block: &ReadyBlock) -> bool {
        let choice = self.pool.block(block.index).choice();
        self.pool.header().when_full == WhenFull::Overwrite as u8
            && choice.is_none_or(|choice| choice.policy() != Policy::Keep)
    }

    /// The number of a channel's first block under the policy that a ready block is under: blocks before it were
    /// another policy's.
    pub(crate) fn first_of_policy(&self, block: &ReadyBlock) -> u32 {
        let first = self.pool.block(block.index).header().first_of_policy;
        if self.pool.version() >= 4 { first.min(block.number) } else { 0 }
    }

    /// Forgets what is stored of blocks that are there no longer.
    pub(crate) fn forget_parts(&self, ledger: &mut Ledger) {
        if !ledger.has_parts(self.instance) {
            return;
        }
        let blocks = self.present_blocks().map(|index| self.pool.block(index));
        // One that is being written anew is none of those that a part is stored of.
        let names = blocks.filter(|block| self.is_whole(block)).map(|block| block.name());
        let there: HashSet<(u32, u32)> = names.collect();
        ledger.keep_parts(self.instance, |serial, number| there.contains(&(serial, number)));
    }

    /// How many blocks of a channel lie in the pool of those numbers, but for those that are being overwritten.
    pub(crate) fn blocks_among(&self, serial: u32, numbers: &std::ops::Range<u32>) -> u64 {
        if numbers.is_empty() {
            return 0;
        }
        let of_channel = |block: &MappedBlock<'_>| {
            let header = block.header();
            let is_it = self.is_whole(block) && header.serial == serial && numbers.contains(&header.number);
            fence(Acquire); // the header was read before its program gave it up
            is_it && handover::state(block) != Some(BlockState::Overwritten)
        };
        self.present_blocks().map(|index| self.pool.block(index)).filter(of_channel).count() as u64
    }

    /// Ticks of the first stamp of a ready block and of the last.
    pub(crate) fn ends_of(&self, block: &ReadyBlock) -> Option<(i64, i64)> {
        let mapped = self.pool.block(block.index);
        let ticks = (0..block.capacity).filter_map(|slot| mapped.record(slot).map(|record| record.tick));
        ticks.fold(None, |ends, tick| Some(ends.map_or((tick, tick), |(first, _)| (first, tick))))
    }

    /// The counter of a ready block's ticks.
    pub(crate) fn counter_of(&self, block: &ReadyBlock) -> Option<Clock> {
        self.domain_of(self.pool.block(block.index).header().counter).map(|domain| domain.counter)
    }

    /// Stamps that were dropped just before a ready block.
    pub(crate) fn lost_before(&self, block: &ReadyBlock) -> Option<Lost> {
        let mapped = self.pool.block(block.index);
        let header = mapped.header();
        let counter = self.domain_of(header.counter)?.counter;
        let lost = Lost { stamps: header.lost, first: Some(header.lost_first), last: header.lost_last, counter };
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

    /// Remembers which channels were open when a collector before this one ended: their entries may be gone since.
    pub(crate) fn recall(&mut self, ledger: &Ledger) {
        let open = ledger.of_pool(self.instance).filter(|channel| channel.state == ChannelState::Open);
        self.open = open.map(|channel| channel.serial).collect();
    }

    /// Gives numbers to new channels and takes over the counts of all.
    pub(crate) fn refresh_channels(&mut self, ledger: &mut Ledger) {
        let mut open = HashSet::new();
        self.note_places();
        for (entry, state) in self.entries() {
            let point = unpadded(&entry.point);
            let (Some(point), Some(domain)) = (point, self.domain_of(entry.counter)) else { continue };
            let serial = entry.serial.load(Relaxed);
            let thread = entry.thread.load(Relaxed);
            // Its policy is told below.
            let choice = Some(Choice::BUFFERED);
            let source = Source { point, ordering: entry.ordering, domain, choice };
            if !still_describes(entry, serial, state) {
                continue; // its program closed it, and perhaps opened another there
            }
            open.insert(serial);
            let describe = |number, node| self.channel((number, node), serial, thread, source);
            let number = ledger.number((self.instance, serial), describe);
            entry.number.store(number, Relaxed);
            ledger.update((self.instance, serial), |channel| {
                channel.dropped = count(entry.dropped.load(Relaxed));
                channel.refused = count(entry.refused.load(Relaxed));
                let setting = policy::read(&entry.policy, &entry.parameters);
                let known = Choice::of(setting.policy, setting.parameter);
                channel.policy = match known.map(Choice::policy) {
                    Some(policy) if policy.keeps_all() && setting.epoch > 0 => Channel::SWITCHED_POLICY,
                    known => known.map_or("unknown", Policy::name),
                }
                .into();
                let is_plain = known.is_some_and(Choice::is_plain);
                channel.parameter = (!is_plain).then_some(setting.parameter as i64);
                channel.seen = some_count(entry.seen.load(Relaxed));
                channel.kept = channel.kept.or(channel.seen.map(|_| 0));
                channel.counted = some_count(entry.counted.load(Relaxed));
                channel.state = self.channel_state(state);
            });
        }
        // A program frees the entry of a channel that it closes, if that has lost nothing.
        for serial in self.open.difference(&open) {
            ledger.update((self.instance, *serial), |channel| channel.state = ChannelState::Closed);
        }
        self.open = open;
    }

    fn note_places(&mut self) {
        // Acquire: the entries of these channels are seen.
        self.channels = self.pool.header().channels.load(Acquire);
        let used = [EntryState::Open as u32, EntryState::Closed as u32];
        let used = self.entries_with_memory().filter(|(_, entry)| used.contains(&entry.state.load(Acquire)));
        self.places = used.map(|(place, entry)| (entry.serial.load(Relaxed), place)).collect();
    }

    fn channel_state(&self, entry: EntryState) -> ChannelState {
        match entry {
            EntryState::Closed => ChannelState::Closed,
            _ if self.held => ChannelState::Open,
            _ if self.was_closed() => ChannelState::Closed,
            _ => ChannelState::Recovered,
        }
    }

    /// Every entry that takes memory, with its place.
    fn entries_with_memory(&self) -> impl Iterator<Item = (usize, &ChannelEntry)> {
        let present = self.present_entries.as_ref();
        let entries = self.pool.entries().iter().enumerate();
        entries.filter(move |&(place, _)| present.is_none_or(|present| present[place]))
    }

    /// Entries that describe a channel.
    fn entries(&self) -> impl Iterator<Item = (&ChannelEntry, EntryState)> {
        self.entries_with_memory().filter_map(|(_, entry)| {
            // Acquire: what the program wrote before it opened or closed the channel is seen.
            let state = entry.state.load(Acquire);
            let states = [EntryState::Open, EntryState::Closed, EntryState::Shared];
            let known = states.into_iter().find(|&known| known as u32 == state);
            known.map(|state| (entry, state))
        })
    }

    /// Channels that lost stamps which no later block tells of, with the serial of each.
    pub(crate) fn lost_at_the_end(&self) -> Vec<(u32, Lost)> {
        let ended = self.entries().filter(|&(_, state)| !self.held || state == EntryState::Closed);
        let lost = ended.filter_map(|(entry, _)| {
            let (first, last) = (entry.lost_first.load(Relaxed), entry.lost_last.load(Relaxed));
            let counter = self.domain_of(entry.counter)?.counter;
            Some((
                entry.serial.load(Relaxed),
                Lost { stamps: entry.lost.load(Relaxed), first: Some(first), last, counter },
            ))
        });
        lost.filter(|(_, lost)| lost.stamps > 0).collect()
    }

    /// Closed channels none of whose blocks is left in the pool. Call after a look whose ready blocks are all stored.
    pub(crate) fn finished_channels(&self) -> Vec<u32> {
        let closed = self.entries().filter(|&(_, state)| state == EntryState::Closed);
        let mut finished: Vec<u32> = closed.map(|(entry, _)| entry.serial.load(Relaxed)).collect();
        if !finished.is_empty() {
            let blocks = self.present_blocks().map(|index| self.pool.block(index));
            let taken = blocks.filter(|block| handover::state(block) != Some(BlockState::Free));
            let serials = |block: MappedBlock<'_>| {
                let successors = block.tenancies().unwrap_or_default().into_iter().map(|tenancy| tenancy.serial);
                std::iter::once(block.header().serial).chain(successors)
            };
            let used: HashSet<u32> = taken.flat_map(serials).collect();
            finished.retain(|serial| !used.contains(serial));
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

    /// Stamps under `all` that no log has.
    pub(crate) fn unwritten(&self) -> u64 {
        if self.pool.version() >= 4 { self.pool.header().unwritten.load(Relaxed) } else { 0 }
    }

    /// The counter that its program reads.
    pub(crate) fn counter(&self) -> Clock {
        self.domain.counter
    }

    /// Ticks before and after the making of a pool that its program waited for.
    pub(crate) fn lateness(&self) -> Option<[i64; 2]> {
        let until = self.pool.header().late_until.load(Acquire);
        let from = self.pool.header().late_from.load(Relaxed);
        // In older versions the bytes are zero; a broken program may write anything.
        (from != 0 && until != 0 && from <= until).then_some([from, until])
    }

    /// Totals of channels that only counted.
    pub(crate) fn totals(&self) -> Vec<LastTotal> {
        let of = |(entry, _): (&ChannelEntry, EntryState)| {
            let setting = policy::read(&entry.policy, &entry.parameters);
            let period_ns = if setting.policy == Policy::Count as u32 { setting.parameter } else { 0 };
            let (serial, total) = (entry.serial.load(Relaxed), entry.counted.load(Relaxed));
            LastTotal { serial, total, period_ns, opened: opened(entry) }
        };
        self.entries().map(of).filter(|one| one.total > 0).collect()
    }

    /// Returns whether a channel only counts, or did.
    pub(crate) fn counts(&self) -> bool {
        let counts = |(entry, _): (&ChannelEntry, EntryState)| {
            entry.counted.load(Relaxed) > 0 || entry.policy.load(Relaxed) as u32 == Policy::Count as u32
        };
        self.entries().any(counts)
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
        let Source { point, ordering, domain, choice } = source;
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
            policy: choice.map_or("unknown", |choice| choice.policy().name()).into(),
            parameter: choice.filter(|choice| !choice.is_plain()).map(|choice| choice.parameter() as i64),
            stored: 0,
            dropped: 0,
            refused: 0,
            uncommitted: 0,
            state: ChannelState::Open,
            removed: None,
            seen: None,
            kept: None,
            counted: None,
            overwritten: None,
        }
    }
}

/// Whether an entry is still that of the channel which was just read there.
fn still_describes(entry: &ChannelEntry, serial: u32, state: EntryState) -> bool {
    std::sync::atomic::fence(Acquire);
    let now = entry.state.load(Relaxed);
    let closed_since = state == EntryState::Open && now == EntryState::Closed as u32;
    entry.serial.load(Relaxed) == serial && (now == state as u32 || closed_since)
}

/// The largest count that a file can hold, if need be: shared memory may say anything.
pub(crate) fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A count that most channels lack.
fn some_count(number: u64) -> Option<i64> {
    (number > 0).then(|| count(number))
}
