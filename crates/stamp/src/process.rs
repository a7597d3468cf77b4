//! The one pool of this process: made when this code is loaded, named at the first opening, cut off from by fork,
//! collected when the process ends.
//!
//! Everything here is cold. What guards it is one spin lock, taken with signals blocked, so that a handler that makes
//! the first stamp after a fork never waits for the code it interrupted.

use std::cell::UnsafeCell;
use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::{fmt, io, mem};

use tickscope_tick::{Clock, Ordering as ReadOrdering, PointName, printable};

use crate::block::{
    ChannelEntry, EntryState, Fields, NAME_BYTES, POOL_MAGIC, PoolHeader, PoolState, SHARED_ENTRIES, VERSION,
    block_offset, channel_entries, padded,
};
use crate::channel::{Handle, cut_off};
use crate::clock::Clocks;
use crate::complaint;
use crate::descriptor::{Kept, limit, moved_up};
use crate::directory::{self, pool_file};
use crate::entropy;
use crate::environment::Environment;
use crate::policies::Choice;
use crate::pool::{MappedBlock, lock_of_first_byte};

/// Why a point could not be opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenError {
    message: String,
}

impl OpenError {
    pub(crate) fn new(message: String) -> Self {
        Self { message }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for OpenError {}

/// This process's own mapping of its pool; never unmapped. In a forked child other memory takes its place.
///
/// One word: a handler that forks may interrupt whoever copies it, and the child then changes what it was copied from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnPool(&'static Mapping);

/// Where a pool lies in this process; never freed.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    length: usize,
    /// Entries for channels; the shared ones follow.
    channel_entries: u32,
}

/// The rest of a block whose channel was closed before it was full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spare {
    /// Block of the pool.
    pub index: u32,
    /// Unit of the pool where the next record goes.
    pub unit: u32,
    /// Unit of the block of the last successor's description; 0: there is none.
    pub successor: u32,
    /// Serial and number in the block's header: of another block once the collector has taken this one.
    pub name: (u32, u32),
}

/// Fields that a new channel writes into its entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewEntry {
    pub point: [u8; NAME_BYTES],
    pub ordering: ReadOrdering,
    pub fields: Fields,
    /// Number of the counter that its ticks are of; 0: the pool's.
    pub counter: u8,
    pub policy: Choice,
    /// Tick of the pool's counter.
    pub now: i64,
}

pub(crate) struct Process {
    pub environment: Option<Environment>,
    pub clocks: Clocks,
    pub pool: Option<OwnPool>,
    pub lock: Option<Kept>,
    /// The stamp directory, wherever the program goes.
    base: Option<Kept>,
    /// User and group that made the pool at load; nobody knows of it yet. `None`: it has its name.
    unnamed: Option<(u32, u32)>,
    /// Every handle that was ever made.
    pub handles: Vec<NonNull<Handle>>,
    /// Those that nobody uses.
    pub unused: Vec<NonNull<Handle>>,
    pub spares: Vec<Spare>,
    /// Where to look for a free entry first.
    pub entry_hint: u32,
    /// Entries of closed channels that kept nothing, left to be told.
    pub null_entries: u32,
    pub told_crowding: bool,
    pub told_refusal: bool,
    pub told_logs: bool,
    /// What is said on stderr once the lock is let go of.
    pub said: String,
    mask_at_fork: Option<libc::sigset_t>,
}

struct Guarded {
    busy: AtomicBool,
    /// How many spares there are, for those who do not hold the lock.
    spare_count: AtomicUsize,
    started: AtomicU32,
    process: UnsafeCell<Process>,
}

// SAFETY: `process` is only touched by whoever holds `busy` (`with`), or between `before_fork` and `after_fork`.
unsafe impl Sync for Guarded {}

static PROCESS: Guarded = Guarded {
    busy: AtomicBool::new(false),
    spare_count: AtomicUsize::new(0),
    started: AtomicU32::new(0),
    process: UnsafeCell::new(Process {
        environment: None,
        clocks: Clocks::true_clocks(),
        pool: None,
        lock: None,
        base: None,
        unnamed: None,
        handles: Vec::new(),
        unused: Vec::new(),
        spares: Vec::new(),
        entry_hint: 0,
        null_entries: 0,
        told_crowding: false,
        told_refusal: false,
        told_logs: false,
        said: String::new(),
        mask_at_fork: None,
    }),
};

/// Runs `f` with the process's state to itself, with signals blocked.
pub(crate) fn with<R>(f: impl FnOnce(&mut Process) -> R) -> R {
    let mask = hold();
    // SAFETY: `busy` is ours until `let_go`, and `f` cannot keep the reference.
    let process = unsafe { &mut *PROCESS.process.get() };
    let result = f(process);
    let said = mem::take(&mut process.said);
    let_go(&mask);
    if !said.is_empty() {
        complaint::say(&said);
    }
    result
}

/// Blocks all signals on this thread; returns what to give to [`restore_signals`].
pub(crate) fn block_signals() -> libc::sigset_t {
    // SAFETY: both sets are valid for writing; blocking signals has no other effect.
    unsafe {
        let (mut all, mut before) = (mem::zeroed(), mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        before
    }
}

/// Undoes [`block_signals`].
pub(crate) fn restore_signals(mask: &libc::sigset_t) {
    // SAFETY: a valid set that outlives the call.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, ptr::null_mut()) };
}

fn hold() -> libc::sigset_t {
    let mask = block_signals();
    while PROCESS.busy.swap(true, Ordering::Acquire) {
        // Not a spin: one of higher priority would keep the holder from letting go.
        std::thread::sleep(std::time::Duration::from_micros(50));
    }
    mask
}

fn let_go(mask: &libc::sigset_t) {
    PROCESS.busy.store(false, Ordering::Release);
    restore_signals(mask);
}

extern "C" fn before_fork() {
    let mask = hold();
    // SAFETY: `busy` is held until `after_fork_*`.
    unsafe { (*PROCESS.process.get()).mask_at_fork = Some(mask) };
}

extern "C" fn after_fork_in_parent() {
    // SAFETY: `before_fork` holds `busy`.
    if let Some(mask) = unsafe { (*PROCESS.process.get()).mask_at_fork.take() } {
        let_go(&mask);
    }
}

/// The child's handles must never write to the parent's blocks: cut them off; the first stamp opens a pool.
extern "C" fn after_fork_in_child() {
    // SAFETY: `before_fork` holds `busy`, and the child has this thread alone.
    let process = unsafe { &mut *PROCESS.process.get() };
    for &handle in &process.handles {
        // SAFETY: handles are never freed.
        cut_off(unsafe { handle.as_ref() });
    }
    if let Some(pool) = process.pool.take() {
        pool.forget();
    }
    (process.lock, process.unnamed) = (None, None);
    process.spares.clear();
    PROCESS.spare_count.store(0, Ordering::Relaxed);
    if let Some(mask) = process.mask_at_fork.take() {
        let_go(&mask);
    }
}

/// Other threads may still be stamping: blocks are left as they are, for the collector to take once the lock is free.
extern "C" fn process_ends() {
    with(|process| {
        if process.unnamed.is_some() {
            let pool = process.pool;
            process.leave_pool(); // this library may be unloaded, and the process go on
            pool.iter().for_each(OwnPool::give_back);
        }
        process.base = None;
        if let Some(pool) = process.pool.filter(|pool| pool.header().pid == std::process::id() as i32) {
            pool.header().state.store(PoolState::Closed as u32, Ordering::Release);
        }
    });
}

/// Whether there is a rest of a block that a channel might go on in: a look without the lock, and so without a system
/// call.
pub(crate) fn has_spares() -> bool {
    PROCESS.spare_count.load(Ordering::Relaxed) > 0
}

impl Process {
    pub fn add_spare(&mut self, spare: Spare) {
        self.spares.push(spare);
        PROCESS.spare_count.store(self.spares.len(), Ordering::Relaxed);
    }

    pub fn remove_spare(&mut self, at: usize) {
        self.spares.swap_remove(at);
        PROCESS.spare_count.store(self.spares.len(), Ordering::Relaxed);
    }

    /// Whether a collector holds the stamp directory.
    pub fn has_collector(&self) -> bool {
        let locked = self.lock.as_ref().and_then(Kept::get).is_some_and(|pool| directory::is_locked(pool, 1));
        locked
            || self.environment.as_ref().is_some_and(|environment| {
                let base = directory::open(&environment.directory, self.base.as_ref());
                base.is_ok_and(|base| directory::has_collector(base.as_fd()))
            })
    }

    /// Has read the environment, and a pool that collectors see; `Ok(false)`: nothing is to be measured.
    pub fn start(&mut self) -> Result<bool, OpenError> {
        self.configure()?;
        let Some(environment) = &self.environment else { return Ok(false) };
        if let (Some(pool), Some(made_by)) = (self.pool, self.unnamed) {
            let file = self.lock.as_ref().and_then(Kept::get).filter(|_| made_by == user());
            if file.is_some_and(|file| pool.take_name(file, environment, self.base.as_ref()).is_ok()) {
                self.unnamed = None;
            } else {
                self.leave_pool(); // it is another user's by now, or the program has closed it: for a new one
            }
        }
        if let (Some(environment), None) = (&self.environment, self.pool) {
            let from = self.clocks.counter.read(ReadOrdering::Plain);
            let (pool, lock) = OwnPool::make(environment, self.base.as_ref(), &self.clocks)?;
            pool.is_late(from, &self.clocks);
            (self.pool, self.lock) = (Some(pool), Some(Kept::of(lock)));
        }
        Ok(true)
    }

    /// Counts a channel that cannot be opened, and says why, once a process.
    pub fn refuse_channel(&mut self, error: &OpenError) {
        if let Some(pool) = self.pool {
            pool.header().channels_refused.fetch_add(1, Ordering::Relaxed);
        }
        if !mem::replace(&mut self.told_refusal, true) {
            self.said += &format!("tickscope: {}. This point is off.\n", printable(&error.to_string()));
        }
    }

    fn configure(&mut self) -> Result<(), OpenError> {
        if PROCESS.started.swap(1, Ordering::Relaxed) == 0 {
            self.environment = Environment::read(|name| std::env::var_os(name)).map_err(OpenError::new)?;
            self.clocks = self.environment.as_ref().map_or(Clocks::true_clocks(), Clocks::of);
            // Where it is not there yet, or no number is left, its name must do.
            let base = self.environment.as_ref().and_then(|own| directory::open(&own.directory, None).ok());
            self.base = base.and_then(|base| Kept::high(&base).ok());
            // SAFETY: the handlers are functions of this object that stay valid while it is loaded.
            unsafe {
                libc::pthread_atfork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork_in_child));
                libc::atexit(process_ends);
            }
        }
        Ok(())
    }

    /// A pool of a file without a name: nobody sees it, and nothing is left of it, however the process ends.
    fn make_unnamed_pool(&mut self) {
        let Some(environment) = self.environment.as_ref().filter(|_| self.pool.is_none()) else { return };
        let from = self.clocks.counter.read(ReadOrdering::Plain);
        // Not every file system has such files.
        if let Ok((pool, file)) = OwnPool::make_unnamed(environment, &self.clocks) {
            if is_old(pool.header().process_start) {
                pool.is_late(from, &self.clocks);
            }
            (self.pool, self.lock, self.unnamed) = (Some(pool), Some(Kept::of(file)), Some(user()));
        }
    }

    /// Lets go of a pool that no handle leads into.
    fn leave_pool(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.forget();
        }
        (self.lock, self.unnamed) = (None, None);
    }
}

/// Whether the process began more than a second ago: what is loaded now is loaded late.
fn is_old(process_start: i64) -> bool {
    // SAFETY: a timespec that outlives the call; the other asks for a number.
    let (now, hertz) = unsafe {
        let mut now: libc::timespec = mem::zeroed();
        libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now);
        (now, libc::sysconf(libc::_SC_CLK_TCK))
    };
    process_start > 0 && now.tv_sec.saturating_mul(hertz).saturating_sub(process_start) > hertz
}

/// User and group that this process runs as now.
fn user() -> (u32, u32) {
    // SAFETY: getegid has no arguments and cannot fail.
    (directory::user(), unsafe { libc::getegid() })
}

/// Makes a pool before anything is opened. What fails is left to the first opening, which tells of it.
pub(crate) fn start_early() {
    if Environment::read(|name| std::env::var_os(name)).is_ok_and(|environment| environment.is_some()) {
        with(|process| {
            if process.configure().is_ok() {
                process.make_unnamed_pool();
            }
        });
    }
}

/// Asks the collector to store what this process's channels under the policy `keep` hold; may be called anywhere.
pub fn dump() {
    with(|process| {
        if let Some(pool) = process.pool {
            pool.header().dumps.fetch_add(1, Ordering::Release);
        }
    });
}

/// Counts a stamp at a point whose channel the end of this thread has closed already.
pub(crate) fn count_after_close() {
    with(|process| {
        if let Some(pool) = process.pool {
            pool.header().after_close.fetch_add(1, Ordering::Relaxed);
        }
    });
}

/// Says, once a process, why a point cannot be opened.
pub(crate) fn tell_refusal(error: &OpenError) {
    with(|process| process.refuse_channel(error));
}

/// Clock and clocks as this node reads them: set before the first channel exists and never again.
pub(crate) fn clocks() -> &'static Clocks {
    // SAFETY: `start` writes it once, under the lock, before any channel exists that could lead here.
    unsafe { &(*PROCESS.process.get()).clocks }
}

impl OwnPool {
    pub fn header(&self) -> &'static PoolHeader {
        // SAFETY: the mapping is longer than a header and never unmapped while a handle can reach it.
        unsafe { self.0.base.cast::<PoolHeader>().as_ref() }
    }

    /// Entries of channels and, behind them, those that are shared.
    fn entries(&self) -> (&'static [ChannelEntry], &'static [ChannelEntry]) {
        // SAFETY: `make` laid the entries out here.
        let all = unsafe {
            let count = (self.0.channel_entries + SHARED_ENTRIES) as usize;
            std::slice::from_raw_parts(self.0.base.as_ptr().add(mem::size_of::<PoolHeader>()).cast(), count)
        };
        all.split_at(self.0.channel_entries as usize)
    }

    /// Number of channels that can be open at a time.
    pub fn most_channels(&self) -> u32 {
        self.0.channel_entries
    }

    /// Puts other memory where the pool was, as empty as a new one, in a forked child. Not a hole: fork may have been
    /// called in a signal handler that interrupted a stamp, and that stamp goes on there.
    fn forget(&self) {
        const DESCRIPTION: usize = mem::offset_of!(PoolHeader, state);
        let base = self.0.base.as_ptr();
        // SAFETY: a header is longer than its description. The mapping is this process's own, as long as `length`,
        // and its replacement can be read and written like it; where there is none, a crash is better than the
        // parent's blocks.
        unsafe {
            let description = base.cast::<[u8; DESCRIPTION]>().read();
            let (both, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let flags = flags | libc::MAP_NORESERVE | libc::MAP_FIXED;
            if libc::mmap(base.cast(), self.0.length, both, flags, -1, 0) == libc::MAP_FAILED {
                libc::munmap(base.cast(), self.0.length);
            } else {
                base.cast::<[u8; DESCRIPTION]>().write(description);
            }
        }
    }

    /// Gives back the range of a pool that was left and that nothing leads into, but for its first page: another thread
    /// may be counting there.
    fn give_back(&self) {
        // SAFETY: asks for a number; the mapping was this process's own, and no reference leads beyond its header.
        unsafe {
            let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
            if self.0.length > page {
                libc::munmap(self.0.base.as_ptr().add(page).cast(), self.0.length - page);
            }
        }
    }

    /// Address of the first block.
    pub fn blocks(&self) -> NonNull<u8> {
        // SAFETY: within the mapping.
        unsafe { self.0.base.add(block_offset(self.0.channel_entries + SHARED_ENTRIES) as usize) }
    }

    pub fn block(&self, index: u32) -> MappedBlock<'static> {
        let block_bytes = self.header().block_bytes;
        // SAFETY: callers take `index` from below `block_count`; the mapping stays.
        unsafe { MappedBlock::at(self.blocks().add(index as usize * block_bytes as usize), block_bytes) }
    }

    /// Named when it is whole, in the directory of the user that the process runs as now.
    fn make(environment: &Environment, base: Option<&Kept>, clocks: &Clocks) -> Result<(Self, File), OpenError> {
        let make = || {
            let place = own_directory(environment, base)?;
            let (place, instance) = (place.as_fd(), entropy::number()?);
            let hidden = CString::new(format!(".pool-{instance:016x}.ticks"))?;
            let file = directory::private_file_in(place, &hidden, environment.group).and_then(moved_up);
            let made = file.and_then(|file| {
                let pool = Self::of(&file, environment, clocks, instance)?;
                directory::rename_in(place, &hidden, &pool.file_name())?;
                Ok((pool, file))
            });
            made.inspect_err(|_| directory::remove_in(place, &hidden))
        };
        make().map_err(|error| refused(environment, base, &error, Self::shape(environment).1))
    }

    fn make_unnamed(environment: &Environment, clocks: &Clocks) -> io::Result<(Self, File)> {
        let file = moved_up(directory::unnamed_file(&environment.directory, environment.group)?)?;
        let pool = Self::of(&file, environment, clocks, entropy::number()?)?;
        Ok((pool, file))
    }

    /// Says that the program waited for its pool since that tick.
    fn is_late(&self, from: i64, clocks: &Clocks) {
        self.header().late_from.store(from, Ordering::Relaxed);
        self.header().late_until.store(clocks.counter.read(ReadOrdering::Plain), Ordering::Release);
    }

    /// Names a file that was made without one, in the directory of the user that the process runs as now.
    fn take_name(&self, file: BorrowedFd<'_>, environment: &Environment, base: Option<&Kept>) -> io::Result<()> {
        directory::name_file(file, own_directory(environment, base)?.as_fd(), &self.file_name())
    }

    fn file_name(&self) -> CString {
        CString::new(pool_file(self.header().instance)).unwrap_or_default()
    }

    /// Entries for channels, and length of the file.
    fn shape(environment: &Environment) -> (u32, u64) {
        let blocks = environment.block_count();
        let entries = channel_entries(blocks);
        (entries, block_offset(entries + SHARED_ENTRIES) + u64::from(blocks) * u64::from(environment.block_bytes))
    }

    /// A pool of a new file: sized before it is mapped, locked and whole before it has its name.
    fn of(file: &File, environment: &Environment, clocks: &Clocks, instance: u64) -> io::Result<Self> {
        let (channel_entries, length) = Self::shape(environment);
        let base = Self::fill(file, length)?;
        let pool = Self(Box::leak(Box::new(Mapping { base, length: length as usize, channel_entries })));
        pool.describe(environment, clocks, instance, environment.block_count());
        lock(file).map(|()| pool)
    }

    fn fill(file: &File, length: u64) -> io::Result<NonNull<u8>> {
        // Beyond it the kernel sends SIGXFSZ, which ends a program that does not expect it.
        if limit(libc::RLIMIT_FSIZE).is_some_and(|limit| length > limit) {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        // SAFETY: a valid descriptor. Reserving the space now makes a full tmpfs an error here and not a SIGBUS later.
        let error = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length as libc::off_t) };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        // SAFETY: a new shared mapping of a file that is `length` long.
        let map = unsafe {
            let (both, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
            libc::mmap(ptr::null_mut(), length as usize, both, flags, file.as_raw_fd(), 0)
        };
        NonNull::new(map.cast()).filter(|_| map != libc::MAP_FAILED).ok_or_else(io::Error::last_os_error)
    }

    fn describe(&self, environment: &Environment, clocks: &Clocks, instance: u64, block_count: u32) {
        let (process_start, command) = process_identity();
        let header = self.0.base.cast::<PoolHeader>().as_ptr();
        // SAFETY: the file has no name yet that anyone looks for, so this is the only access to it.
        unsafe {
            (*header).version = VERSION;
            (*header).entry_offset = mem::size_of::<PoolHeader>() as u32;
            (*header).entry_bytes = mem::size_of::<ChannelEntry>() as u32;
            (*header).entry_count = self.0.channel_entries + SHARED_ENTRIES;
            (*header).block_offset = block_offset(self.0.channel_entries + SHARED_ENTRIES);
            (*header).block_bytes = environment.block_bytes;
            (*header).block_count = block_count;
            (*header).instance = instance;
            (*header).boot_id = environment.boot_id;
            (*header).pid = std::process::id() as i32;
            (*header).counter = Clock::STAMPED.number();
            (*header).when_full = environment.when_full as u8;
            (*header).process_start = process_start;
            (*header).injected = u32::from(clocks.are_injected());
            (*header).created_tick = clocks.counter.read(ReadOrdering::Plain);
            (*header).node = padded(&environment.node);
            (*header).command = command;
            (*header).key = environment.key;
        }
        self.header().magic.store(POOL_MAGIC, Ordering::Release);
    }

    /// An entry for a new channel, and its place; `None`: all are taken.
    pub fn enter(&self, wanted: NewEntry, hint: u32) -> Option<(u32, &'static ChannelEntry)> {
        let entries = self.entries().0;
        let count = entries.len() as u32;
        let index =
            (0..count).map(|step| (hint + step) % count).find(|&index| claim_entry(&entries[index as usize]))?;
        let entry = &entries[index as usize];
        self.describe_entry(entry, wanted, EntryState::Open);
        Some((index, entry))
    }

    /// The entry that counts what threads without a channel lose at this point; `None`: all of those are other points'.
    pub fn shared(&self, wanted: NewEntry) -> Option<&'static ChannelEntry> {
        let shared = self.entries().1;
        let same = |entry: &&ChannelEntry| {
            entry.state.load(Ordering::Acquire) == EntryState::Shared as u32
                && (entry.ordering, entry.shape) == (wanted.ordering as u8, wanted.fields as u8)
                && (entry.counter, entry.point) == (wanted.counter, wanted.point)
        };
        shared.iter().find(same).or_else(|| {
            let entry = shared.iter().find(|entry| claim_entry(entry))?;
            self.describe_entry(entry, wanted, EntryState::Shared);
            Some(entry)
        })
    }

    /// Place of a channel's entry.
    pub fn index_of(&self, entry: &ChannelEntry) -> u32 {
        let first = self.entries().0.as_ptr();
        ((ptr::from_ref(entry).addr() - first.addr()) / mem::size_of::<ChannelEntry>()) as u32
    }

    fn describe_entry(&self, entry: &'static ChannelEntry, wanted: NewEntry, state: EntryState) {
        let shared = state == EntryState::Shared;
        for counter in [&entry.dropped, &entry.refused, &entry.stalls, &entry.lost, &entry.counted, &entry.seen] {
            counter.store(0, Ordering::Relaxed);
        }
        let (first, last) = if shared { (i64::MAX, i64::MIN) } else { (0, 0) };
        entry.lost_first.store(first, Ordering::Relaxed);
        entry.lost_last.store(last, Ordering::Relaxed);
        entry.serial.store(self.header().channels.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        entry.number.store(0, Ordering::Relaxed);
        entry.thread.store(if shared { 0 } else { thread_id() }, Ordering::Relaxed);
        entry.opened_tick.store(wanted.now, Ordering::Relaxed);
        entry.policy.store(wanted.policy.policy() as u64, Ordering::Relaxed);
        entry.parameters[0].store(wanted.policy.parameter(), Ordering::Relaxed);
        entry.parameters[1].store(0, Ordering::Relaxed);
        // SAFETY: the entry lies in this process's own mapping, which can be written; the state `Opening` gives it to
        // us; a collector reads these after the release store of its state.
        unsafe {
            let offset = ptr::from_ref(entry).addr() - self.0.base.addr().get();
            let plain = self.0.base.as_ptr().add(offset).cast::<ChannelEntry>();
            (*plain).ordering = wanted.ordering as u8;
            (*plain).shape = wanted.fields as u8;
            (*plain).counter = wanted.counter;
            (*plain).point = wanted.point;
        }
        entry.state.store(state as u32, Ordering::Release);
    }
}

fn claim_entry(entry: &ChannelEntry) -> bool {
    let (free, opening) = (EntryState::Free as u32, EntryState::Opening as u32);
    entry.state.load(Ordering::Relaxed) == free
        && entry.state.compare_exchange(free, opening, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

pub(crate) fn thread_id() -> i32 {
    // SAFETY: gettid has no arguments and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

fn lock(file: &File) -> io::Result<()> {
    let lock = lock_of_first_byte();
    // SAFETY: a valid descriptor and a flock that outlives the call.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The directory of this process's user within the stamp directory.
fn own_directory(environment: &Environment, base: Option<&Kept>) -> io::Result<File> {
    let base = directory::open(&environment.directory, base)?;
    directory::own(base.as_fd(), environment.group, entropy::number)
}

/// Leaves an empty file that tells the collector why this process has no pool: it needs no space
/// and no descriptor, neither of which there may be.
fn refused(environment: &Environment, base: Option<&Kept>, error: &io::Error, bytes: u64) -> OpenError {
    let name = format!("refused-{}-{}", std::process::id(), error.raw_os_error().unwrap_or(0));
    let place = own_directory(environment, base).or_else(|_| directory::open(&environment.directory, base)).ok();
    let path = if place.is_some() { PathBuf::from(name) } else { environment.directory.join(name) };
    directory::note_refusal(place.as_ref().map(File::as_fd), &path, environment.group);
    OpenError::new(format!(
        "cannot make a pool of {bytes} bytes in {}: {error}. {}",
        environment.directory.display(),
        directory::remedy(error.raw_os_error().unwrap_or(0))
    ))
}

/// Start of this process in clock ticks since boot, and its command as a name.
fn process_identity() -> (i64, [u8; NAME_BYTES]) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The command before the last ')' may hold spaces; the start is the 20th field after it.
    let start = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(19)?.parse().ok());
    let command: String = fs::read_to_string("/proc/self/comm").unwrap_or_default().trim().chars().map(plain).collect();
    (start.unwrap_or(0), PointName::new(command).map_or([0; NAME_BYTES], |name| padded(&name)))
}

fn plain(c: char) -> char {
    if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' }
}
