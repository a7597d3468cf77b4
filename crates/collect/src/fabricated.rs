//! Pools made by hand, byte by byte from the descriptor, so that a test decides what a program had got to when it
//! ended.

use std::fs::{File, OpenOptions};
use std::mem::{offset_of, size_of};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tickscope_stamp::block::{
    BLOCK_MAGIC, BlockHeader, BlockState, ChannelEntry, EntryState, Fields, FullRecord, POOL_MAGIC, Policy, PoolHeader,
    PoolState, SlimRecord, Successor, UNIT_BYTES, VERSION, WhenFull, WideRecord, block_offset, capacity, first_unit,
    padded,
};
use tickscope_stamp::policies::Choice;
use tickscope_stamp::pool::lock_of_first_byte;

pub(crate) const BLOCK_BYTES: u32 = 4096;
/// Entries of such a pool, shared ones and all.
pub(crate) const ENTRY_COUNT: u32 = 256;
/// Where its blocks begin.
pub(crate) const BLOCK_OFFSET: u64 = block_offset(ENTRY_COUNT);
/// Slim records in such a block.
pub(crate) const SLOTS: u32 = capacity(BLOCK_BYTES, Fields::Slim);

/// A pool file; its program "lives" while this holds the lock.
pub(crate) struct Pool {
    pub(crate) path: PathBuf,
    pub(crate) instance: u64,
    file: File,
    holder: Option<File>,
}

/// One slot of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Committed { id: i64, tick: i64 },
    Reserved { id: i64 },
}

impl Pool {
    pub(crate) fn make(directory: &Path, instance: u64, blocks: u32) -> Self {
        let pool = Self::sparse(directory, instance, blocks);
        let length = pool.file.metadata().unwrap().len();
        // SAFETY: a valid descriptor.
        assert_eq!(unsafe { libc::posix_fallocate(pool.file.as_raw_fd(), 0, length as i64) }, 0);
        pool
    }

    /// One that takes memory only where something was written, as no program makes it.
    pub(crate) fn sparse(directory: &Path, instance: u64, blocks: u32) -> Self {
        let path = directory.join(format!("pool-{instance:016x}.ticks"));
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        file.set_len(BLOCK_OFFSET + u64::from(BLOCK_BYTES) * u64::from(blocks)).unwrap();
        let pool = Self { path, instance, file, holder: None };
        pool.put(offset_of!(PoolHeader, magic), &POOL_MAGIC.to_le_bytes());
        pool.put(offset_of!(PoolHeader, version), &VERSION.to_le_bytes());
        pool.put(offset_of!(PoolHeader, entry_offset), &(size_of::<PoolHeader>() as u32).to_le_bytes());
        pool.put(offset_of!(PoolHeader, entry_bytes), &(size_of::<ChannelEntry>() as u32).to_le_bytes());
        pool.put(offset_of!(PoolHeader, entry_count), &ENTRY_COUNT.to_le_bytes());
        pool.put(offset_of!(PoolHeader, block_offset), &BLOCK_OFFSET.to_le_bytes());
        pool.put(offset_of!(PoolHeader, block_bytes), &BLOCK_BYTES.to_le_bytes());
        pool.put(offset_of!(PoolHeader, block_count), &blocks.to_le_bytes());
        pool.put(offset_of!(PoolHeader, instance), &instance.to_le_bytes());
        pool.put(offset_of!(PoolHeader, counter), &[1]);
        pool.put(offset_of!(PoolHeader, pid), &4242i32.to_le_bytes());
        pool.put(offset_of!(PoolHeader, command), &padded(&"echo"));
        pool
    }

    /// A pool that a program of version 2 left: 324 full stamps in four full blocks; 2694 found no block.
    pub(crate) fn of_version_2(directory: &Path) -> Self {
        Self::golden(directory, 0x1a12_262f_e283_21b6)
    }

    /// A pool that a program of version 1 left when it was killed: 488 slim stamps in two full blocks, 5 wide ones,
    /// one of the realtime clock; 112 found no block.
    pub(crate) fn of_version_1(directory: &Path) -> Self {
        Self::golden(directory, 0x84d0_5be1_d33d_171d)
    }

    fn golden(directory: &Path, instance: u64) -> Self {
        let name = format!("pool-{instance:016x}.ticks");
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(&name);
        let path = directory.join(name);
        std::fs::copy(golden, &path).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        Self { path, instance, file, holder: None }
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        self.file.write_all_at(bytes, at as u64).unwrap();
    }

    /// Overwrites bytes anywhere, as a broken program might.
    pub(crate) fn damage(&self, at: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, at).unwrap();
    }

    /// Holds the lock, as a living program does.
    pub(crate) fn live(mut self) -> Self {
        let file = OpenOptions::new().read(true).write(true).open(&self.path).unwrap();
        let lock = lock_of_first_byte();
        // SAFETY: a valid descriptor and a flock that outlives the call.
        assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) }, 0);
        self.holder = Some(file);
        self
    }

    /// Lets go of the lock, as a killed program does.
    pub(crate) fn kill(&mut self) {
        self.holder = None;
    }

    pub(crate) fn name_node(&self, node: &str) {
        self.put(offset_of!(PoolHeader, node), &padded(&node));
    }

    pub(crate) fn set_state(&self, state: PoolState) {
        self.put(offset_of!(PoolHeader, state), &(state as u32).to_le_bytes());
    }

    fn entry(serial: u32) -> usize {
        size_of::<PoolHeader>() + serial as usize * size_of::<ChannelEntry>()
    }

    /// Opens channel `serial` in the entry of the same number.
    pub(crate) fn open_channel(&self, serial: u32, point: &str, shape: u8) {
        let entry = Self::entry(serial);
        self.put(entry + offset_of!(ChannelEntry, policy), &(Policy::Buffered as u64).to_le_bytes());
        self.put(entry + offset_of!(ChannelEntry, serial), &serial.to_le_bytes());
        self.put(entry + offset_of!(ChannelEntry, thread), &77i32.to_le_bytes());
        self.put(entry + offset_of!(ChannelEntry, ordering), &[2]);
        self.put(entry + offset_of!(ChannelEntry, shape), &[shape]);
        self.put(entry + offset_of!(ChannelEntry, point), &padded(&point));
        self.set_entry(serial, EntryState::Open);
    }

    /// Says when channel `serial` was opened.
    pub(crate) fn set_opened(&self, serial: u32, tick: i64) {
        self.put(Self::entry(serial) + offset_of!(ChannelEntry, opened_tick), &tick.to_le_bytes());
    }

    /// Says that a channel of that number and point has the entry of another.
    pub(crate) fn open_in(&self, place: u32, serial: u32, point: &str) {
        let entry = Self::entry(place);
        self.put(entry + offset_of!(ChannelEntry, serial), &serial.to_le_bytes());
        self.put(entry + offset_of!(ChannelEntry, point), &padded(&point));
    }

    /// Says how many channels were opened.
    pub(crate) fn count_channels(&self, opened: u32) {
        self.put(offset_of!(PoolHeader, channels), &opened.to_le_bytes());
    }

    /// Gives a channel a policy of that number.
    pub(crate) fn set_policy(&self, serial: u32, policy: u32, epoch: u32, parameter: u64) {
        let entry = Self::entry(serial);
        let place = entry + offset_of!(ChannelEntry, parameters) + epoch as usize % 2 * 8;
        self.put(place, &parameter.to_le_bytes());
        self.put(entry + offset_of!(ChannelEntry, policy), &policy.to_le_bytes());
        self.put(entry + offset_of!(ChannelEntry, policy) + 4, &epoch.to_le_bytes());
    }

    /// Says that a channel's ticks, and those of a block of it, are of that counter.
    pub(crate) fn set_counter(&self, serial: u32, block: Option<u32>, counter: u8) {
        self.put(Self::entry(serial) + offset_of!(ChannelEntry, counter), &[counter]);
        if let Some(index) = block {
            self.put(Self::block(index) + offset_of!(BlockHeader, counter), &[counter]);
        }
    }

    pub(crate) fn set_entry(&self, serial: u32, state: EntryState) {
        self.put(Self::entry(serial) + offset_of!(ChannelEntry, state), &(state as u32).to_le_bytes());
    }

    pub(crate) fn entry_state(&self, serial: u32) -> u32 {
        self.word(Self::entry(serial) as u64 + offset_of!(ChannelEntry, state) as u64)
    }

    /// Says that a channel dropped stamps: in all, and since its last block.
    pub(crate) fn drop_stamps(&self, serial: u32, dropped: u64, lost: u64) {
        let entry = Self::entry(serial);
        self.put(entry + offset_of!(ChannelEntry, dropped), &dropped.to_le_bytes());
        self.put(entry + offset_of!(ChannelEntry, lost), &lost.to_le_bytes());
        self.put(entry + offset_of!(ChannelEntry, lost_first), &11i64.to_le_bytes());
        self.put(entry + offset_of!(ChannelEntry, lost_last), &22i64.to_le_bytes());
    }

    fn block(index: u32) -> usize {
        BLOCK_OFFSET as usize + index as usize * BLOCK_BYTES as usize
    }

    /// Links a block to a description of a successor at that unit, whose last word is `whole`.
    pub(crate) fn succeed(&self, index: u32, unit: u32, whole: u64) {
        self.put(Self::block(index) + offset_of!(BlockHeader, successor), &unit.to_le_bytes());
        let place = Self::block(index) + unit as usize * UNIT_BYTES;
        self.put(place + offset_of!(Successor, serial), &9u32.to_le_bytes());
        self.put(place + offset_of!(Successor, whole), &whole.to_le_bytes());
        self.put(place + offset_of!(Successor, one), &1i64.to_le_bytes());
    }

    /// Fills block `index` of a channel's slim records.
    pub(crate) fn fill(&self, index: u32, (serial, number): (u32, u32), point: &str, slots: &[Slot]) {
        let block = Self::block(index);
        let records = block + size_of::<BlockHeader>();
        for (slot, content) in slots.iter().enumerate() {
            let record = records + slot * UNIT_BYTES;
            let (id, tick) = match *content {
                Slot::Committed { id, tick } => (id, tick),
                Slot::Reserved { id } => (id, 0),
            };
            self.put(record + offset_of!(SlimRecord, id), &id.to_le_bytes());
            self.put(record + offset_of!(SlimRecord, tick), &tick.to_le_bytes());
        }
        self.describe(index, (serial, number), point, 1);
    }

    /// Fills block `index` with wide records of `(id, tick, value, kind, cpu)`.
    pub(crate) fn fill_wide(&self, index: u32, serial: u32, point: &str, records: &[(i64, i64, i64, i32, i32)]) {
        for (slot, &(id, tick, value, kind, cpu)) in records.iter().enumerate() {
            let record = Self::block(index) + size_of::<BlockHeader>() + slot * 2 * UNIT_BYTES;
            self.put(record + offset_of!(WideRecord, id), &id.to_le_bytes());
            self.put(record + offset_of!(WideRecord, tick), &tick.to_le_bytes());
            self.put(record + offset_of!(WideRecord, value), &value.to_le_bytes());
            self.put(record + offset_of!(WideRecord, kind), &kind.to_le_bytes());
            self.put(record + offset_of!(WideRecord, cpu), &cpu.to_le_bytes());
        }
        self.describe(index, (serial, 0), point, 2);
    }

    /// Fills block `index` with full records of `(id, tick, parent, attempt, batch)`.
    pub(crate) fn fill_full(&self, index: u32, serial: u32, point: &str, records: &[(i64, i64, i64, i32, i32)]) {
        let first = Self::block(index) + first_unit(BLOCK_BYTES, Fields::Full) as usize * UNIT_BYTES;
        for (slot, &(id, tick, parent, attempt, batch)) in records.iter().enumerate() {
            let record = first + slot * 3 * UNIT_BYTES;
            self.put(record + offset_of!(WideRecord, id), &id.to_le_bytes());
            self.put(record + offset_of!(WideRecord, tick), &tick.to_le_bytes());
            self.put(record + offset_of!(FullRecord, parent), &parent.to_le_bytes());
            self.put(record + offset_of!(FullRecord, attempt), &attempt.to_le_bytes());
            self.put(record + offset_of!(FullRecord, batch), &batch.to_le_bytes());
        }
        self.describe(index, (serial, 0), point, 3);
    }

    fn describe(&self, index: u32, (serial, number): (u32, u32), point: &str, shape: u8) {
        let block = Self::block(index);
        self.put(block + offset_of!(BlockHeader, version), &(VERSION as u16).to_le_bytes());
        self.put(block + offset_of!(BlockHeader, serial), &serial.to_le_bytes());
        self.put(block + offset_of!(BlockHeader, number), &number.to_le_bytes());
        self.put(block + offset_of!(BlockHeader, instance), &self.instance.to_le_bytes());
        self.put(block + offset_of!(BlockHeader, thread), &77i32.to_le_bytes());
        self.put(block + offset_of!(BlockHeader, ordering), &[2]);
        self.put(block + offset_of!(BlockHeader, shape), &[shape]);
        self.put(block + offset_of!(BlockHeader, point), &padded(&point));
        self.put(block + offset_of!(BlockHeader, magic), &BLOCK_MAGIC.to_le_bytes());
        self.set_block(index, BlockState::Leased);
    }

    pub(crate) fn set_block(&self, index: u32, state: BlockState) {
        self.put(Self::block(index) + offset_of!(BlockHeader, state), &(state as u32).to_le_bytes());
    }

    /// Says that a block's records are under a policy.
    pub(crate) fn under(&self, index: u32, policy: &str) {
        let (choice, block): (Choice, usize) = (policy.parse().unwrap(), Self::block(index));
        self.put(block + offset_of!(BlockHeader, policy), &(choice.policy() as u32).to_le_bytes());
        self.put(block + offset_of!(BlockHeader, parameter), &choice.parameter().to_le_bytes());
    }

    /// Says that a block's policy began with the block of that number.
    pub(crate) fn since(&self, index: u32, first: u32) {
        self.put(Self::block(index) + offset_of!(BlockHeader, first_of_policy), &first.to_le_bytes());
    }

    /// Says that a block's records end at that unit.
    pub(crate) fn end(&self, index: u32, unit: u32) {
        self.put(Self::block(index) + offset_of!(BlockHeader, end), &unit.to_le_bytes());
    }

    /// Gives a channel a policy.
    pub(crate) fn choose(&self, serial: u32, policy: &str) {
        let choice: Choice = policy.parse().unwrap();
        self.set_policy(serial, choice.policy() as u32, 0, choice.parameter());
    }

    /// Says how many stamps a channel has counted.
    pub(crate) fn count(&self, serial: u32, counted: u64) {
        self.put(Self::entry(serial) + offset_of!(ChannelEntry, counted), &counted.to_le_bytes());
    }

    /// Says how many stamps of a channel were kept or not under `every`.
    pub(crate) fn see(&self, serial: u32, seen: u64) {
        self.put(Self::entry(serial) + offset_of!(ChannelEntry, seen), &seen.to_le_bytes());
    }

    /// Says what the program does where no block is free.
    pub(crate) fn set_when_full(&self, when_full: WhenFull) {
        self.put(offset_of!(PoolHeader, when_full), &[when_full as u8]);
    }

    /// Says how often the program has asked for a dump.
    pub(crate) fn ask(&self, dumps: u64) {
        self.put(offset_of!(PoolHeader, dumps), &dumps.to_le_bytes());
    }

    /// Says that stamps were dropped between a block and the one before.
    pub(crate) fn lose_before(&self, index: u32, lost: u64, first: i64, last: i64) {
        let block = Self::block(index);
        self.put(block + offset_of!(BlockHeader, lost), &lost.to_le_bytes());
        self.put(block + offset_of!(BlockHeader, lost_first), &first.to_le_bytes());
        self.put(block + offset_of!(BlockHeader, lost_last), &last.to_le_bytes());
    }

    pub(crate) fn block_state(&self, index: u32) -> u32 {
        self.word((Self::block(index) + offset_of!(BlockHeader, state)) as u64)
    }

    /// Whether a block is free and holds no trace of a stamp.
    pub(crate) fn is_zeroed(&self, index: u32) -> bool {
        let mut bytes = [1; BLOCK_BYTES as usize];
        self.file.read_exact_at(&mut bytes, Self::block(index) as u64).unwrap();
        let version = offset_of!(BlockHeader, version)..offset_of!(BlockHeader, state);
        // The version may stand: every lease writes it anew.
        bytes[version].fill(0);
        bytes.iter().all(|&byte| byte == 0)
    }

    fn word(&self, at: u64) -> u32 {
        let mut bytes = [0; 4];
        self.file.read_exact_at(&mut bytes, at).unwrap();
        u32::from_le_bytes(bytes)
    }
}

/// A block full of stamps with ids from `first`.
pub(crate) fn full(first: i64) -> Vec<Slot> {
    (first..first + i64::from(SLOTS)).map(|id| Slot::Committed { id, tick: id * 10 + 1 }).collect()
}
