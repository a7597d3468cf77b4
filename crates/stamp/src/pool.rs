//! A pool as its collector sees it: mapped, checked once, and never trusted beyond that.
//!
//! The other side writes this memory, and may be broken: everything that is used as an index or a size is copied out
//! of the header when the pool is opened, and checked; what changes later is read as numbers that can be wrong but
//! not unsafe.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::{fmt, io, mem};

use tickscope_tick::{BootId, Clock};

use crate::block::{
    self, BLOCK_BYTES, BLOCK_MAGIC, BlockHeader, ChannelEntry, ENTRIES_BEFORE_3, FIRST_WITH_IDS, Fields, FullRecord,
    POOL_MAGIC, PoolHeader, PoolState, READ_VERSIONS, SUCCESSOR_MAGIC, SlimRecord, Successor, UNIT_BYTES, VERSION,
    WideRecord,
};
use crate::cut_off::Guard;
use crate::directory::Trust;
use crate::handover::Block;
use crate::policies::Choice;
use crate::primitive::{AtomicI64, AtomicU32};

/// A mapped pool file.
#[derive(Debug)]
pub struct Pool {
    path: PathBuf,
    /// Absent once it was closed: a process has few descriptors, and a mapping needs none.
    file: Option<File>,
    guard: Option<Guard>,
    sparse: bool,
    inode: u64,
    base: NonNull<u8>,
    length: usize,
    shape: Shape,
}

/// What stood in the header when the pool was opened. Only this is used for places and sizes: the program may write
/// anything there at any time.
#[derive(Clone, Copy, Debug)]
struct Shape {
    version: u32,
    entry_count: u32,
    block_offset: u64,
    block_bytes: u32,
    block_count: u32,
}

/// Why a file is not a pool that this version can collect.
#[derive(Debug)]
pub struct PoolError {
    path: PathBuf,
    expected: String,
    found: String,
    remedy: &'static str,
    code: Option<i32>,
}

impl PoolError {
    /// Returns whether this process ran out of descriptors or address space, which says nothing of the file.
    pub fn is_shortage(&self) -> bool {
        matches!(self.code, Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
    }
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, expected, found, remedy, .. } = self;
        write!(f, "{}: expected {expected}, found {found}. {remedy}", path.display())
    }
}

impl std::error::Error for PoolError {}

// SAFETY: all access to the mapping is through atomics or by copying bytes out; the mapping lives as long as the value.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// Maps a pool file of anybody's, for reading and for freeing blocks.
    pub fn open(path: &Path) -> Result<Self, PoolError> {
        Self::open_of(path, None)
    }

    /// Maps a pool file whose owner and rights are as `trust` demands, and locks its byte 1: by that its program knows
    /// that a collector lives.
    pub fn open_trusted(path: &Path, trust: &Trust) -> Result<Self, PoolError> {
        let pool = Self::open_of(path, Some(trust))?;
        let mut lock = lock_of_first_byte();
        lock.l_start = 1;
        if let Some(file) = &pool.file {
            // SAFETY: a valid descriptor and a flock that outlives the call. Where it fails, the program asks the
            // directory's lock.
            unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) };
        }
        Ok(pool)
    }

    fn open_of(path: &Path, trust: Option<&Trust>) -> Result<Self, PoolError> {
        let wrong = |expected: String, found: String, remedy| PoolError {
            path: path.into(),
            expected,
            found,
            remedy,
            code: None,
        };
        let unreadable = |e: io::Error| PoolError {
            code: e.raw_os_error(),
            ..wrong("a readable and writable pool file".into(), e.to_string(), "Check its rights.")
        };
        let file = open_file(path).map_err(unreadable)?;
        let facts = file.metadata().map_err(unreadable)?;
        if !facts.is_file() {
            return Err(wrong("an ordinary file".into(), "none".into(), "It is no pool; it is left alone."));
        }
        let length = facts.len() as usize;
        if length < mem::size_of::<PoolHeader>() {
            let expected = format!("at least {} bytes", mem::size_of::<PoolHeader>());
            return Err(wrong(expected, format!("{length}"), "It is no pool, or was cut off; it is left alone."));
        }
        // SAFETY: a new shared mapping of a file that is at least `length` long; nobody else holds this range.
        let map = unsafe {
            let both = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), length, both, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        let base = NonNull::new(map.cast()).filter(|_| map != libc::MAP_FAILED);
        let base = base.ok_or_else(|| unreadable(io::Error::last_os_error()))?;
        let guard = Some(Guard::over(base.as_ptr() as usize, length));
        let (place, sparse, inode) = (path.into(), facts.blocks().saturating_mul(512) < facts.len(), facts.ino());
        let shape = Shape { version: 0, entry_count: 0, block_offset: 0, block_bytes: 0, block_count: 0 };
        let mut pool = Self { path: place, file: Some(file), guard, sparse, inode, base, length, shape };
        pool.check()?;
        if let Some(trust) = trust {
            let refused = |(expected, found)| wrong(expected, found, UNTRUSTED);
            trust.check(&facts, &pool.header().key).map_err(refused)?;
        }
        Ok(pool)
    }

    fn check(&mut self) -> Result<(), PoolError> {
        let wrong = |expected: String, found: String, remedy| PoolError {
            path: self.path.clone(),
            expected,
            found,
            remedy,
            code: None,
        };
        const FOREIGN: &str = "It is not tickscope's, or was damaged; it is left alone.";
        // Read once: what is checked is what is used, whatever the program writes there meanwhile.
        // SAFETY: the mapping is longer than a header, of which every bit pattern is valid.
        let header = unsafe { self.base.cast::<PoolHeader>().as_ptr().read_volatile() };
        let magic = header.magic.load(Ordering::Acquire);
        if magic != POOL_MAGIC {
            return Err(wrong(format!("magic {POOL_MAGIC:#x}"), format!("{magic:#x}"), FOREIGN));
        }
        let version = header.version;
        if !READ_VERSIONS.contains(&version) {
            let remedy = "Collect it with the tickscope that the program was built with; it is left alone.";
            return Err(wrong(format!("version 1 to {VERSION}"), format!("{version}"), remedy));
        }
        let (block_bytes, block_count) = (header.block_bytes, header.block_count);
        let layout = (header.entry_offset, header.entry_bytes, header.entry_count, header.block_offset);
        let entry_count = if version < 3 { ENTRIES_BEFORE_3 } else { header.entry_count };
        let block_offset = block::block_offset(entry_count);
        let expected =
            (mem::size_of::<PoolHeader>() as u32, mem::size_of::<ChannelEntry>() as u32, entry_count, block_offset);
        if layout != expected || !BLOCK_BYTES.contains(&block_bytes) || !block_bytes.is_power_of_two() {
            return Err(wrong(
                format!("entries and blocks at {expected:?}"),
                format!("{layout:?}, {block_bytes}"),
                FOREIGN,
            ));
        }
        let bytes = block_offset + u64::from(block_bytes) * u64::from(block_count);
        if block_count == 0 || block_count > MOST_BLOCKS || bytes > self.length as u64 {
            return Err(wrong(format!("{bytes} bytes for {block_count} blocks"), format!("{}", self.length), FOREIGN));
        }
        self.shape = Shape { version, entry_count, block_offset, block_bytes, block_count };
        Ok(())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The pool's header.
    pub fn header(&self) -> &PoolHeader {
        // SAFETY: the mapping is at least a header long and page-aligned; fields that change are atomic.
        unsafe { self.base.cast::<PoolHeader>().as_ref() }
    }

    /// Boot of the kernel that it was made under.
    pub fn boot_id(&self) -> BootId {
        BootId(self.header().boot_id)
    }

    /// The stamped counter; `None`: of a later version.
    pub fn counter(&self) -> Option<Clock> {
        Clock::from_number(self.header().counter)
    }

    /// The channel entries, free ones too.
    pub fn entries(&self) -> &[ChannelEntry] {
        // SAFETY: `check` found the entries at this place and the file long enough; fields that change are atomic.
        unsafe {
            let first = self.base.as_ptr().add(mem::size_of::<PoolHeader>()).cast();
            std::slice::from_raw_parts(first, self.shape.entry_count as usize)
        }
    }

    /// Size of the file: all of it was allocated when it was made.
    pub fn bytes(&self) -> u64 {
        self.length as u64
    }

    /// Number of the file.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Version of its layout.
    pub fn version(&self) -> u32 {
        self.shape.version
    }

    /// Number of blocks.
    pub fn block_count(&self) -> u32 {
        self.shape.block_count
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> u32 {
        self.shape.block_bytes
    }

    /// One of the blocks, counting from 0.
    pub fn block(&self, index: u32) -> MappedBlock<'_> {
        let Shape { version, block_offset, block_bytes, block_count, .. } = self.shape;
        assert!(index < block_count, "block {index} of {block_count}");
        // SAFETY: `check` found `block_count` blocks of `block_bytes` within the mapping.
        let base = unsafe { self.base.add(block_offset as usize + index as usize * block_bytes as usize) };
        MappedBlock { base, block_bytes, version, pool: std::marker::PhantomData }
    }

    /// Whether some process holds the pool: it lives, whatever its pid looks like from here.
    pub fn is_held(&self) -> io::Result<bool> {
        match &self.file {
            Some(file) => is_locked(file),
            None => is_locked(&open_file(&self.path)?),
        }
    }

    /// Whether a descriptor of it is open.
    pub fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Closes the file; the mapping stays, and whoever asks about the file opens it anew.
    pub fn close(&mut self) {
        self.file = None;
    }

    /// Whether the file was cut shorter than its mapping since it was opened: from there on the mapping reads as zeros.
    pub fn is_cut_off(&self) -> bool {
        self.guard.as_ref().is_some_and(Guard::was_hit)
    }

    /// Returns whether the beginning of each block takes memory; `None`: all do, as in every pool that a program made.
    /// Reading the others would make the file system give memory for them.
    pub fn blocks_with_memory(&self) -> Option<Vec<bool>> {
        let Shape { block_offset, block_bytes, block_count, .. } = self.shape;
        self.with_memory(block_offset, u64::from(block_bytes), block_count)
    }

    /// The same of each entry.
    pub fn entries_with_memory(&self) -> Option<Vec<bool>> {
        let (first, bytes) = (mem::size_of::<PoolHeader>() as u64, mem::size_of::<ChannelEntry>() as u64);
        self.with_memory(first, bytes, self.shape.entry_count)
    }

    /// Returns whether the beginning takes memory, of `count` things of so many bytes from `first` on.
    fn with_memory(&self, first: u64, bytes: u64, count: u32) -> Option<Vec<bool>> {
        if !self.sparse {
            return None;
        }
        let mut found = vec![false; count as usize];
        let opened = if self.file.is_none() { open_file(&self.path).ok() } else { None };
        let Some(file) = self.file.as_ref().or(opened.as_ref()) else { return Some(found) };
        let seek = |at: i64, to| {
            // SAFETY: a valid descriptor; nobody uses its position.
            let place = unsafe { libc::lseek(file.as_raw_fd(), at, to) };
            (place >= 0).then_some(place)
        };
        let mut end = 0;
        while let Some(start) = seek(end, libc::SEEK_DATA) {
            end = seek(start, libc::SEEK_HOLE).unwrap_or(self.length as i64).max(start + 1);
            let thing = |at: i64| (at as u64).saturating_sub(first).div_ceil(bytes).min(u64::from(count)) as usize;
            found[thing(start)..thing(end)].fill(true);
        }
        Some(found)
    }

    /// End of the program as it declared it; `None`: a state of no version.
    pub fn state(&self) -> Option<PoolState> {
        let state = self.header().state.load(Ordering::Acquire);
        [PoolState::Open, PoolState::Closed, PoolState::Recovered].into_iter().find(|&known| known as u32 == state)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.guard = None;
        // SAFETY: this mapping was made in `open` and nothing borrows it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// The most blocks that a pool may have: 64 GiB of the smallest.
const MOST_BLOCKS: u32 = 1 << 24;

/// Opens a pool file: no link, and without waiting for whoever is at the other end of a pipe.
fn open_file(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}

/// Returns whether somebody holds a lock on the first byte.
fn is_locked(file: &File) -> io::Result<bool> {
    let mut lock = lock_of_first_byte();
    // SAFETY: a valid descriptor and a flock that outlives the call.
    let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) };
    if asked == 0 { Ok(lock.l_type != libc::F_UNLCK as i16) } else { Err(io::Error::last_os_error()) }
}

/// A write lock of byte 0: what says that a pool's program, or a directory's collector, lives.
pub fn lock_of_first_byte() -> libc::flock {
    libc::flock { l_type: libc::F_WRLCK as i16, l_whence: libc::SEEK_SET as i16, l_start: 0, l_len: 1, l_pid: 0 }
}

const UNTRUSTED: &str = "Collect as the user that the program runs as, or see docs/block-format.md on TICKSCOPE_KEY \
                         and TICKSCOPE_GROUP; it is left alone.";

/// A block of a mapped pool.
#[derive(Clone, Copy, Debug)]
pub struct MappedBlock<'a> {
    base: NonNull<u8>,
    block_bytes: u32,
    /// Version of its pool.
    version: u32,
    pool: std::marker::PhantomData<&'a Pool>,
}

/// Records of one channel in a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tenancy {
    /// Slots of its records.
    pub slots: std::ops::Range<u32>,
    /// Channel, by its number within the pool.
    pub serial: u32,
    /// Thread.
    pub thread: i32,
}

/// One stamp as it lies in a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// When.
    pub tick: i64,
    /// Id of what was stamped.
    pub id: i64,
    /// Value that rode along; wide and full records only.
    pub rider: Option<Rider>,
}

/// Fields of a wide or full record beyond tick and id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rider {
    /// Class of the id.
    pub kind: i32,
    /// The value.
    pub value: i64,
    /// The core; `None`: not recorded.
    pub cpu: Option<i32>,
    /// Fields of a full record alone.
    pub origin: Option<Origin>,
}

/// Where a full record's id came from, and how much it stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    /// Id that this one is part of.
    pub parent: Option<i64>,
    /// Transmissions of the id before this one.
    pub attempt: Option<i32>,
    /// Number of things that the stamp stands for, whose ids are not said.
    pub batch: Option<i32>,
    /// Number of consecutive ids, from the stamp's on, that it stands for; the last is within 64 bits.
    pub ids: Option<i32>,
}

impl<'a> MappedBlock<'a> {
    /// A block at `base`.
    ///
    /// # Safety
    /// `block_bytes` mapped, 64-byte-aligned bytes must lie there for `'a`, `block_bytes` a power of two within
    /// [`BLOCK_BYTES`].
    pub(crate) unsafe fn at(base: NonNull<u8>, block_bytes: u32) -> Self {
        Self { base, block_bytes, version: VERSION, pool: std::marker::PhantomData }
    }

    /// Where the header lies, for the program that claimed the block.
    pub(crate) fn header_address(&self) -> *mut BlockHeader {
        self.base.cast().as_ptr()
    }

    /// The header; meaningful once [`MappedBlock::is_described`].
    pub fn header(&self) -> &'a BlockHeader {
        // SAFETY: a block is longer than its header and 64-byte aligned; fields that change while shared are atomic,
        // the rest is written before the magic's release store and read after its acquire load.
        unsafe { self.base.cast::<BlockHeader>().as_ref() }
    }

    /// A word of the header. For what is looked at while the block's program may describe it anew or a collector zero
    /// it: all three go by these words, so each is read as it was written, and what they say together counts only once
    /// the block can be claimed.
    pub(crate) fn word(&self, offset: usize) -> &'a AtomicU32 {
        let offset = offset.min(mem::size_of::<BlockHeader>() - 4) & !3;
        // SAFETY: a block begins with its header, which is 64-byte aligned; of what lies there nobody has a reference
        // that would rule out a change.
        unsafe { self.base.add(offset).cast::<AtomicU32>().as_ref() }
    }

    fn plain_word(&self, offset: usize) -> u32 {
        self.word(offset).load(Ordering::Relaxed)
    }

    /// Its channel, by its number within the pool, and its own number within the channel.
    pub fn name(&self) -> (u32, u32) {
        (self.plain_word(mem::offset_of!(BlockHeader, serial)), self.plain_word(mem::offset_of!(BlockHeader, number)))
    }

    /// Epoch of the policy that its records are under.
    pub(crate) fn policy_epoch(&self) -> u32 {
        self.plain_word(mem::offset_of!(BlockHeader, policy_epoch))
    }

    /// Numbers of an ordering, a shape and a counter.
    pub(crate) fn kind(&self) -> [u8; 3] {
        let [ordering, shape, counter, _] = self.plain_word(mem::offset_of!(BlockHeader, ordering)).to_ne_bytes();
        [ordering, shape, counter]
    }

    /// Returns whether it is of that point.
    pub(crate) fn is_named(&self, point: &[u8; block::NAME_BYTES]) -> bool {
        let (first, (words, _)) = (mem::offset_of!(BlockHeader, point), point.as_chunks::<4>());
        words.iter().enumerate().all(|(at, word)| self.plain_word(first + at * 4).to_ne_bytes() == *word)
    }

    /// Whether the header stands, of its pool's version and with a shape of that version.
    pub fn is_described(&self) -> bool {
        let version = || {
            let [low, high, ..] = self.plain_word(mem::offset_of!(BlockHeader, version)).to_ne_bytes();
            u16::from_ne_bytes([low, high])
        };
        self.word(mem::offset_of!(BlockHeader, magic)).load(Ordering::Acquire) == BLOCK_MAGIC
            && u32::from(version()) == self.version
            && Fields::from_number(self.kind()[1], self.version).is_some()
    }

    /// Fields that its records carry. A shape of no version reads as slim; [`MappedBlock::is_described`] refuses it.
    fn fields(&self) -> Fields {
        Fields::from_number(self.kind()[1], self.version).unwrap_or_default()
    }

    /// Slots of its records: all that fit, or those before the place where another policy began.
    fn slots(&self) -> u32 {
        let (fields, units) = (self.fields(), self.block_bytes / UNIT_BYTES as u32);
        // Acquire: what was written before the block ended is seen.
        let end =
            if self.version < 4 { 0 } else { self.word(mem::offset_of!(BlockHeader, end)).load(Ordering::Acquire) };
        let all = block::capacity(self.block_bytes, fields);
        match end.checked_sub(block::first_unit(self.block_bytes, fields)) {
            Some(units_used) if end <= units => units_used / fields as u32,
            _ => all, // no end, or one that no program writes: then it ends with its program
        }
    }

    /// Returns whether its program has said that its records end, wherever that is.
    pub fn is_ended(&self) -> bool {
        self.version >= 4 && self.header().end.load(Ordering::Acquire) != 0
    }

    /// The policy that its records are under, with its parameter; `None`: of a later version. In pools before version 4
    /// every block holds every stamp.
    pub fn choice(&self) -> Option<Choice> {
        let header = self.header();
        if self.version < 4 { Some(Choice::BUFFERED) } else { Choice::of(header.policy, header.parameter) }
    }

    /// Channels whose records lie here, in order: that of the header, and those that succeeded it. An error says what
    /// is wrong with their descriptions.
    ///
    /// Where a program was killed while it described a successor, the records end.
    pub fn tenancies(&self) -> Result<Vec<Tenancy>, &'static str> {
        let (header, fields) = (self.header(), self.fields());
        let (capacity, end) = (block::capacity(self.block_bytes, fields), self.slots());
        let slots_taken = block::successor_units(fields) / fields as u32;
        let mut tenancies = Vec::new();
        let mut last = Tenancy { slots: 0..end, serial: header.serial, thread: header.thread };
        // Acquire: a description is looked at after the one before pointed to it.
        let mut unit = if self.version < 3 { 0 } else { header.successor.load(Ordering::Acquire) };
        while unit != 0 {
            let slot = self.slot_of(unit, fields).ok_or("a successor outside its records")?;
            if slot < last.slots.start || slot + slots_taken >= capacity {
                return Err("a successor that precedes another, or leaves no room for a record");
            }
            last.slots.end = slot;
            tenancies.push(last);
            let successor = self.successor_at(unit);
            // Acquire: the description is whole.
            let whole = successor.whole.load(Ordering::Acquire);
            match (whole, whole as u32) {
                (0, _) => return Ok(tenancies),
                (_, SUCCESSOR_MAGIC) => {}
                _ => return Err("a successor of no version"),
            }
            let first = slot + slots_taken;
            let slots = first..end.max(first);
            let (serial, thread) = (successor.serial.load(Ordering::Relaxed), (whole >> 32) as i32);
            last = Tenancy { slots, serial, thread };
            unit = successor.next.load(Ordering::Acquire);
        }
        tenancies.push(last);
        Ok(tenancies)
    }

    /// A description of a successor that begins at a unit of this process's own block.
    pub(crate) fn successor_at(&self, unit: u32) -> &'a Successor {
        let offset = (unit as usize * UNIT_BYTES).min(self.block_bytes as usize - mem::size_of::<Successor>());
        // SAFETY: kept within the block; its fields are atomic.
        unsafe { self.base.add(offset).cast::<Successor>().as_ref() }
    }

    /// The slot that begins at a unit of the block; `None`: none does.
    fn slot_of(&self, unit: u32, fields: Fields) -> Option<u32> {
        let units = unit.checked_sub(block::first_unit(self.block_bytes, fields))?;
        let slot = units / fields as u32;
        let fits = units % fields as u32 == 0 && slot < block::capacity(self.block_bytes, fields);
        fits.then_some(slot)
    }

    /// A committed record, read after its tick was seen; `None`: not committed. What describes a successor is none,
    /// but reads as one: [`MappedBlock::tenancies`] tells which slots hold records.
    pub fn record(&self, slot: u32) -> Option<Record> {
        let (place, fields) = self.place(slot);
        // SAFETY: whatever its shape, a record begins with a slim one; its fields are atomic.
        let slim = unsafe { place.cast::<SlimRecord>().as_ref() };
        let tick = slim.tick.load(Ordering::Acquire);
        // SAFETY: the record is a wide one, or begins with it.
        let wide = (fields != Fields::Slim).then(|| unsafe { place.cast::<WideRecord>().as_ref() });
        // SAFETY: the record is a full one.
        let full = (fields == Fields::Full).then(|| unsafe { place.cast::<FullRecord>().as_ref() });
        (tick != 0).then(|| {
            let id = slim.id.load(Ordering::Relaxed);
            let rider = wide.map(|wide| Rider::of(wide, full.map(|full| Origin::of(full, id, self.version))));
            Record { tick, id, rider }
        })
    }

    /// The records of a block of slim ones, committed or not, all at once; `None`: its records carry more.
    pub fn slim_records(&self) -> Option<&'a [SlimRecord]> {
        let (first, fields) = self.place(0);
        let length = block::capacity(self.block_bytes, Fields::Slim) as usize;
        // SAFETY: so many slim records lie between the first and the block's end; their fields are atomic.
        (fields == Fields::Slim).then(|| unsafe { std::slice::from_raw_parts(first.cast().as_ptr(), length) })
    }

    /// Where a record lies, and what it carries; the shape is read once, for the other side may change it.
    /// A slot beyond what fits is the last one: a broken program may change the shape while its block is read.
    fn place(&self, slot: u32) -> (NonNull<u8>, Fields) {
        let fields = self.fields();
        let slot = slot.min(block::capacity(self.block_bytes, fields) - 1);
        let unit = (block::first_unit(self.block_bytes, fields) + slot * fields as u32) as usize;
        // SAFETY: the record is kept within the block.
        (unsafe { self.base.add(unit * UNIT_BYTES) }, fields)
    }

    fn slim(&self, slot: u32) -> &'a SlimRecord {
        // SAFETY: whatever its shape, a record begins with a slim one.
        unsafe { self.place(slot).0.cast::<SlimRecord>().as_ref() }
    }
}

impl Rider {
    fn of(wide: &WideRecord, origin: Option<Origin>) -> Self {
        let cpu = wide.cpu.load(Ordering::Relaxed);
        let (kind, value) = (wide.kind.load(Ordering::Relaxed), wide.value.load(Ordering::Relaxed));
        Self { kind, value, cpu: (cpu >= 0).then_some(cpu), origin }
    }
}

impl Origin {
    fn of(full: &FullRecord, id: i64, version: u32) -> Self {
        let (parent, attempt) = (full.parent.load(Ordering::Relaxed), full.attempt.load(Ordering::Relaxed));
        let batch = full.batch.load(Ordering::Relaxed);
        let ids = batch.checked_neg().filter(|&ids| ids > 0);
        Self {
            parent: (parent != id).then_some(parent),
            attempt: (attempt >= 0).then_some(attempt),
            batch: (batch > 0).then_some(batch),
            ids: ids.filter(|&ids| version >= FIRST_WITH_IDS && id.checked_add(i64::from(ids) - 1).is_some()),
        }
    }
}

impl Block for MappedBlock<'_> {
    fn magic(&self) -> &AtomicU32 {
        self.word(mem::offset_of!(BlockHeader, magic))
    }

    fn state(&self) -> &AtomicU32 {
        self.word(mem::offset_of!(BlockHeader, state))
    }

    fn capacity(&self) -> u32 {
        self.slots()
    }

    fn id(&self, slot: u32) -> &AtomicI64 {
        &self.slim(slot).id
    }

    fn tick(&self, slot: u32) -> &AtomicI64 {
        &self.slim(slot).tick
    }

    fn zero_contents(&self) {
        let (kept, header) =
            (mem::offset_of!(BlockHeader, state) + mem::size_of::<u32>(), mem::size_of::<BlockHeader>());
        // A program may look whether it is one that it left.
        (kept..header).step_by(4).for_each(|offset| self.word(offset).store(0, Ordering::Relaxed));
        // SAFETY: within the block; whoever calls this owns the block by the state machine of `handover`, so nobody
        // else reads or writes its records until its state is stored as free. Magic and state themselves are left
        // alone.
        unsafe { self.base.add(header).write_bytes(0, self.block_bytes as usize - header) };
    }

    fn is_full(&self) -> bool {
        // As the trait says, without asking for the shape at each record.
        let slots = self.capacity();
        match self.slim_records().and_then(|records| records.get(..slots as usize)) {
            Some(records) => records.iter().rev().all(|record| record.tick.load(Ordering::Acquire) != 0),
            None => (0..slots).rev().all(|slot| self.tick(slot).load(Ordering::Acquire) != 0),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::handover;
    use std::sync::atomic::{AtomicI32, AtomicI64};

    /// Memory of one block, as aligned as a mapped one's.
    #[repr(align(64))]
    struct Memory(std::cell::UnsafeCell<[u8; 4096]>);

    // SAFETY: it is reached through `MappedBlock` alone.
    unsafe impl Sync for Memory {}

    impl Memory {
        fn block(&self) -> MappedBlock<'_> {
            // SAFETY: 4096 bytes, aligned to 64, that live as long as the block.
            unsafe { MappedBlock::at(NonNull::new(self.0.get().cast()).unwrap(), 4096) }
        }
    }

    /// For Miri and ThreadSanitizer: a thread looks for a block that it left while a collector zeroes it and another
    /// thread describes it anew.
    #[test]
    fn a_block_is_looked_at_while_it_is_zeroed_and_described_anew() {
        let memory = Memory(std::cell::UnsafeCell::new([0; 4096]));
        let point = [7; block::NAME_BYTES];
        let (rounds, kind) = (if cfg!(miri) { 5 } else { 1000 }, u32::from_ne_bytes([1, 1, 1, 0]));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let block = memory.block();
                for number in 0..rounds {
                    assert!(handover::claim(&block));
                    let described = [
                        (mem::offset_of!(BlockHeader, version), VERSION),
                        (mem::offset_of!(BlockHeader, serial), 3),
                        (mem::offset_of!(BlockHeader, number), number),
                        (mem::offset_of!(BlockHeader, ordering), kind),
                    ];
                    for (offset, word) in described {
                        block.word(offset).store(word, Ordering::Relaxed);
                    }
                    handover::publish(&block, BLOCK_MAGIC);
                    handover::commit(block.id(0), block.tick(0), i64::from(number), 9);
                    handover::release(&block);
                    assert!(handover::take(&block, block::BlockState::Released));
                    assert_eq!(block.record(0).map(|record| record.id), Some(i64::from(number)));
                    handover::begin_zeroing(&block);
                    handover::finish_zeroing(&block);
                }
            });
            scope.spawn(|| {
                let block = memory.block();
                for _ in 0..rounds * 4 {
                    let found = (block.is_described(), block.name(), block.kind(), block.policy_epoch());
                    assert!(!block.is_named(&point) && [0, 3].contains(&found.1.0) && found.1.1 < rounds, "{found:?}");
                    assert!([[0; 3], [1; 3]].contains(&found.2), "written whole: {found:?}");
                }
            });
        });
    }

    #[test]
    fn ids_that_a_record_stands_for_lie_within_64_bits_and_in_pools_from_version_4_on() {
        let ids = |id: i64, batch: i32, version| {
            let (zero, none) = (|| AtomicI64::new(0), || AtomicI32::new(0));
            let wide = WideRecord { id: AtomicI64::new(id), tick: zero(), value: zero(), kind: none(), cpu: none() };
            let full = FullRecord { wide, parent: zero(), attempt: none(), batch: AtomicI32::new(batch) };
            let origin = Origin::of(&full, id, version);
            (origin.batch, origin.ids)
        };
        assert_eq!([ids(5, 3, 4), ids(5, 0, 4), ids(5, -3, 4)], [(Some(3), None), (None, None), (None, Some(3))]);
        assert_eq!([ids(5, 3, 3), ids(5, -3, 3), ids(5, -3, 1)], [(Some(3), None), (None, None), (None, None)]);
        assert_eq!([ids(i64::MAX - 2, -3, 4), ids(i64::MAX - 2, -4, 4)], [(None, Some(3)), (None, None)]);
        assert_eq!([ids(0, -i32::MAX, 4), ids(0, i32::MIN, 4)], [(None, Some(i32::MAX)), (None, None)]);
    }
}
