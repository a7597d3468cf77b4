//! One point on one thread: the stamp itself.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, compiler_fence};
use std::time::Duration;

use tickscope_counter as counter;
use tickscope_tick::Ordering as ReadOrdering;
use tickscope_tick::own_points::CLOCK_BRACKET;
use tickscope_tick::{Clock, PointName};

use crate::block::{
    self, BLOCK_MAGIC, BlockState, ChannelEntry, EntryState, Fields, FullRecord, HEADER_UNITS, NAME_BYTES, Policy,
    SUCCESSOR_MAGIC, SlimRecord, Successor, UNIT_BYTES, VERSION, WhenFull, WideRecord, padded, unpadded,
};
use crate::clock;
use crate::handover;
use crate::policy;
use crate::pool::MappedBlock;
use crate::primitive::{own_add, own_exchange, own_fetch_add};
use crate::process::{self, NewEntry, OpenError, OwnPool, Process, Spare, thread_id};

/// Fields that a stamp may carry beyond tick and id. A channel keeps as much of it as its [`Fields`] have room for.
///
/// ```
/// use tickscope_stamp::Extra;
/// let repair = Extra { parent: Some(17), attempt: 1, ..Extra::default() };
/// # assert_eq!(repair.kind, 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extra {
    /// Class of the id, analysed apart.
    pub kind: i32,
    /// Rides along: a queue's depth, a length.
    pub value: i64,
    /// Id that this one is part of, or was made from. An id is not its own parent: that reads as none.
    pub parent: Option<i64>,
    /// Transmissions of the id before this one; negative: not said.
    pub attempt: i32,
    /// Number of things that the stamp stands for; 0 or negative: not said.
    pub batch: i32,
}

/// One point on one thread. Dropping it closes it; the end of the process leaves it to the collector.
///
/// ```
/// use tickscope_stamp::{Channel, Fields, Ordering};
/// let sent = Channel::open("sent", Ordering::Before, Fields::Slim)?; // off unless TICKSCOPE_DIR is set
/// sent.stamp(7);
/// # Ok::<(), tickscope_stamp::OpenError>(())
/// ```
#[derive(Debug)]
pub struct Channel {
    handle: NonNull<Handle>,
    /// A channel belongs to the thread that opened it.
    this_thread: PhantomData<*const ()>,
}

/// A policy number that no channel has: the inline path then leaves everything to the slow one.
const NEVER: u32 = 0xffff_ffff;
/// Policy words of this process's own, that a handle points to when its entry's does not apply.
static OFF: AtomicU64 = AtomicU64::new(Policy::Null as u64);
static CLOSED: AtomicU64 = AtomicU64::new(0xffff_fffe);
static FORKED: AtomicU64 = AtomicU64::new(0xffff_fffd);
/// No entry was free: stamps are counted as lost until one is.
static WAITING: AtomicU64 = AtomicU64::new(0xffff_fffc);

/// The process's private side of a channel; never freed, but used again for another channel once its own is dropped.
#[repr(align(64))]
#[derive(Debug)]
pub(crate) struct Handle {
    /// High half: blocks leased so far; low half: unit of the pool where the next record goes.
    next: AtomicU64,
    /// The entry's policy word, or one of this process's own.
    policy: AtomicPtr<AtomicU64>,
    blocks: Cell<*mut u8>,
    /// Units a block, less one: these bits of a unit are its place in its block.
    unit_mask: Cell<u32>,
    /// The policy number under which `stamp` may go on inline.
    fast_slim: Cell<u32>,
    fast_wide: Cell<u32>,
    fast_full: Cell<u32>,
    ordering: ReadOrdering,
    fields: Fields,
    /// Clock of its ticks; `None`: the counter.
    clock: Option<Clock>,
    /// The clock that it relates to the counter.
    brackets: Option<Clock>,
    entry: Cell<Option<&'static ChannelEntry>>,
    /// Of a channel that waits for an entry: the one that counts what it loses.
    shared: Cell<Option<&'static ChannelEntry>>,
    pool: Cell<Option<OwnPool>>,
    serial: Cell<u32>,
    /// Unit of its block where this channel's description as a successor lies; 0: the block began as its own.
    successor: Cell<u32>,
    /// No block was free: not before this tick is one looked for again.
    retry_tick: Cell<i64>,
    point: [u8; NAME_BYTES],
}

impl Channel {
    /// Opens the point for this thread; off, without an error, where `TICKSCOPE_DIR` is unset.
    ///
    /// Not for signal handlers. Errors say why the point cannot be measured; [`Channel::off`] then stands in for it.
    pub fn open(point: &str, ordering: ReadOrdering, fields: Fields) -> Result<Self, OpenError> {
        Self::open_clock(point, Clock::STAMPED, ordering, fields)
    }

    /// The same with ticks of another clock. [`Channel::stamp`] then reads that clock; mostly they come by
    /// [`Channel::record`].
    pub fn open_clock(point: &str, counter: Clock, ordering: ReadOrdering, fields: Fields) -> Result<Self, OpenError> {
        if point.starts_with(CLOCK_BRACKET) {
            return Err(OpenError::new(format!(
                "expected a point's name that does not begin with '{CLOCK_BRACKET}'; found '{point}'. Such \
                 points are opened by open_bracket"
            )));
        }
        let clock = Some(counter).filter(|&counter| counter != Clock::STAMPED);
        Self::enter(Handle { clock, ..Handle::new(name_of(point)?, ordering, fields) })
    }

    /// A channel for [`Channel::bracket`], of the point `clock-bracket.NAME` with the clock's name.
    pub fn open_bracket(clock: Clock) -> Result<Self, OpenError> {
        let name = name_of(&format!("{CLOCK_BRACKET}{clock}"))?;
        let handle = Handle::new(name, ReadOrdering::Before, Fields::Wide);
        Self::enter(Handle { brackets: Some(clock), ..handle })
    }

    fn enter(handle: Handle) -> Result<Self, OpenError> {
        let handle = process::with(|process| {
            if !process.start()? {
                return Ok(None);
            }
            let handle = process.keep(handle);
            // SAFETY: handles are leaked.
            enter(unsafe { handle.as_ref() }, process);
            Ok(Some(handle))
        })?;
        Ok(handle.map_or_else(Self::off, |handle| Self { handle, this_thread: PhantomData }))
    }

    /// A channel that keeps nothing.
    pub fn off() -> Self {
        let handle = Handle::new([0; NAME_BYTES], ReadOrdering::Plain, Fields::Slim);
        Self { handle: process::with(|process| process.keep(handle)), this_thread: PhantomData }
    }

    /// Stamps `id` now; a clock that can't be read is refused and counted. May be called from a signal handler on this
    /// thread, but for the first stamp of a forked child and under `TICKSCOPE_WHEN_FULL=wait`: those allocate here (in
    /// `tickscope.h` they do not).
    #[inline(always)]
    pub fn stamp(&self, id: i64) {
        let handle = self.handle();
        let policy = handle.policy_number();
        if policy != handle.fast_slim.get() {
            return if policy != Policy::Null as u32 {
                stamp_slow(handle, id, &Extra::default())
            };
        }
        // An `after` reading is taken at once, the others as late as can be: that keeps intervals narrow.
        let early = if handle.ordering == ReadOrdering::After { counter::after() } else { 0 };
        let Some(record) = handle.reserve(1) else { return stamp_slow(handle, id, &Extra::default()) };
        let tick = match handle.ordering {
            ReadOrdering::After => early,
            ReadOrdering::Plain => counter::plain(),
            ReadOrdering::Before => counter::before(),
        };
        commit_slim(record, id, tick);
    }

    /// Stamps `id` with what it carries, as far as the channel was opened for it.
    #[inline(always)]
    pub fn stamp_with(&self, id: i64, extra: Extra) {
        let handle = self.handle();
        let policy = handle.policy_number();
        if policy != handle.fast_wide.get() {
            return if policy != Policy::Null as u32 {
                stamp_full(handle, id, (extra.kind, extra.value), extra.parent, (extra.attempt, extra.batch))
            };
        }
        let tick = counter::read(handle.ordering);
        let Some(record) = handle.reserve(2) else {
            return stamp_full(handle, id, (extra.kind, extra.value), extra.parent, (extra.attempt, extra.batch));
        };
        commit_wide(record, id, extra.kind, extra.value, tick);
    }

    /// Stamps `id` with a tick that was read already from what the channel's ticks are of. The channel's ordering must
    /// be true of that reading. A tick of 0 is refused and counted.
    #[inline(always)]
    pub fn record(&self, id: i64, tick: i64) {
        let handle = self.handle();
        match handle.reserve_to_record(Fields::Slim, tick) {
            Reserved::Record(record) => commit_slim(record, id, tick),
            Reserved::Off => {}
            Reserved::Uncommon => record_slow(handle, id, &Extra::default(), tick),
        }
    }

    /// The same with what the stamp carries, as far as the channel was opened for it.
    #[inline(always)]
    pub fn record_with(&self, id: i64, tick: i64, extra: Extra) {
        let handle = self.handle();
        match handle.reserve_to_record(Fields::Wide, tick) {
            Reserved::Record(record) => commit_wide(record, id, extra.kind, extra.value, tick),
            Reserved::Off => {}
            Reserved::Uncommon => {
                let (carried, tries) = ((extra.kind, extra.value), (extra.attempt, extra.batch));
                record_carrying(handle, (id, tick), carried, extra.parent, tries);
            }
        }
    }

    /// Relates the clock of [`Channel::open_bracket`] to the counter: the narrowest of eight readings counter, clock,
    /// counter, as one stamp; tick: the counter before, id: the clock in nanoseconds, value: the counter after.
    pub fn bracket(&self) {
        let handle = self.handle();
        if handle.policy_number() == Policy::Null as u32 {
            return;
        }
        match handle.brackets.and_then(|clock| clock::read_between(clock, process::clocks())) {
            Some(read) => {
                self.record_with(read.clock_ns, read.before, Extra { value: read.after, ..Extra::default() });
            }
            None => record_slow(handle, 0, &Extra::default(), 0), // refused and counted
        }
    }

    fn handle(&self) -> &Handle {
        // SAFETY: handles are leaked.
        unsafe { self.handle.as_ref() }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        process::with(|process| {
            close(self.handle(), process);
            process.unused.push(self.handle); // nobody else can have it: a channel stays on its thread
        });
    }
}

impl Handle {
    fn new(point: [u8; NAME_BYTES], ordering: ReadOrdering, fields: Fields) -> Self {
        Self {
            next: AtomicU64::new(0),
            policy: AtomicPtr::new(word(&OFF)),
            blocks: Cell::new(std::ptr::null_mut()),
            unit_mask: Cell::new(u32::MAX),
            fast_slim: Cell::new(NEVER),
            fast_wide: Cell::new(NEVER),
            fast_full: Cell::new(NEVER),
            ordering,
            fields,
            clock: None,
            brackets: None,
            entry: Cell::new(None),
            shared: Cell::new(None),
            pool: Cell::new(None),
            serial: Cell::new(0),
            successor: Cell::new(0),
            retry_tick: Cell::new(i64::MIN),
            point,
        }
    }

    #[inline(always)]
    fn policy_number(&self) -> u32 {
        // SAFETY: points to one of the statics above or to the entry in this process's mapping, both always valid.
        unsafe { (*self.policy.load(Ordering::Relaxed)).load(Ordering::Relaxed) as u32 }
    }

    fn points_to(&self, own: &'static AtomicU64) -> bool {
        std::ptr::eq(self.policy.load(Ordering::Relaxed), own)
    }

    /// Whether the channel's block is full, or it has none: `next` then stands in a header, where no record goes.
    #[inline(always)]
    fn is_full(&self, next: u64) -> bool {
        next as u32 & self.unit_mask.get() < HEADER_UNITS
    }

    /// Takes the next record of the channel's block; `None`: the block is full.
    ///
    /// A signal handler between the check and the add may have taken the last record: the add then went past the end,
    /// by at most the three units of one record, because whoever comes meanwhile finds `next` in a header, hence the
    /// block full, and adds nothing; and it is taken back before those who were interrupted go on. Where a handler
    /// has leased a block meanwhile, there is nothing to take back. The blocks' address comes first: in a child that
    /// a handler forked right here, a unit of the parent's must not be taken for one of the pool that the child has
    /// opened since.
    #[inline(always)]
    fn reserve(&self, units: u64) -> Option<*mut u8> {
        let blocks = self.blocks.get();
        compiler_fence(Ordering::SeqCst);
        if self.is_full(self.next.load(Ordering::Relaxed)) {
            return None;
        }
        let next = own_fetch_add(&self.next, units);
        if self.is_full(next) {
            let _ = own_exchange(&self.next, next + units, next);
            return None;
        }
        // SAFETY: the unit lies in a block leased to this channel: within the pool's mapping.
        Some(unsafe { blocks.add(next as u32 as usize * UNIT_BYTES) })
    }

    #[inline(always)]
    fn reserve_to_record(&self, fields: Fields, tick: i64) -> Reserved {
        let policy = self.policy_number();
        if policy == Policy::Null as u32 {
            return Reserved::Off;
        }
        if policy != Policy::Buffered as u32 || self.fields != fields || tick == 0 {
            return Reserved::Uncommon;
        }
        self.reserve(fields as u64).map_or(Reserved::Uncommon, Reserved::Record)
    }

    /// Leaves every stamp to the slow path.
    fn forbid_inline(&self) {
        for fast in [&self.fast_slim, &self.fast_wide, &self.fast_full] {
            fast.set(NEVER);
        }
    }

    /// Fills a record of the channel's own shape.
    fn commit(&self, record: *mut u8, id: i64, extra: &Extra, tick: i64) {
        match self.fields {
            Fields::Slim => commit_slim(record, id, tick),
            Fields::Wide => commit_wide(record, id, extra.kind, extra.value, tick),
            Fields::Full => commit_full(record, id, extra, tick),
        }
    }

    /// Reads what the channel's ticks are of; 0: it can't be read.
    fn read(&self, ordering: ReadOrdering) -> i64 {
        match self.clock {
            None => process::clocks().counter.read(ordering),
            Some(clock) => clock::now(clock, process::clocks()).unwrap_or(0),
        }
    }
}

/// Outcome of the inline fast path.
enum Reserved {
    Record(*mut u8),
    /// Nothing is kept.
    Off,
    Uncommon,
}

fn name_of(point: &str) -> Result<[u8; NAME_BYTES], OpenError> {
    PointName::new(point).map(|name| padded(&name)).map_err(|wrong| OpenError::new(wrong.to_string()))
}

fn word(own: &'static AtomicU64) -> *mut AtomicU64 {
    std::ptr::from_ref(own).cast_mut()
}

#[inline(always)]
fn commit_slim(record: *mut u8, id: i64, tick: i64) {
    // SAFETY: `reserve` gave this record to us alone; a collector reads it by its atomics.
    let slim = unsafe { &*record.cast::<SlimRecord>() };
    handover::commit(&slim.id, &slim.tick, id, tick);
}

fn commit_full(record: *mut u8, id: i64, extra: &Extra, tick: i64) {
    // SAFETY: as in `commit_slim`; a full channel reserves three units.
    let full = unsafe { &*record.cast::<FullRecord>() };
    full.parent.store(extra.parent.unwrap_or(id), Ordering::Relaxed);
    full.attempt.store(extra.attempt, Ordering::Relaxed);
    full.batch.store(extra.batch, Ordering::Relaxed);
    commit_wide(record, id, extra.kind, extra.value, tick);
}

#[inline(always)]
fn commit_wide(record: *mut u8, id: i64, kind: i32, value: i64, tick: i64) {
    // SAFETY: as in `commit_slim`; a wide channel reserves two units, a full one three.
    let wide = unsafe { &*record.cast::<WideRecord>() };
    wide.value.store(value, Ordering::Relaxed);
    wide.kind.store(kind, Ordering::Relaxed);
    // SAFETY: no arguments; -1 where it fails, which is what "not recorded" is.
    wide.cpu.store(unsafe { libc::sched_getcpu() }, Ordering::Relaxed);
    handover::commit(&wide.id, &wide.tick, id, tick);
}

impl Process {
    /// Gives a handle its place, which it keeps.
    fn keep(&mut self, handle: Handle) -> NonNull<Handle> {
        if let Some(place) = self.unused.pop() {
            // SAFETY: handles are leaked, and nobody uses this one: its channel was dropped.
            unsafe { place.write(handle) };
            return place;
        }
        let place = NonNull::from(Box::leak(Box::new(handle)));
        self.handles.push(place);
        place
    }
}

/// Gives the handle an entry of the process's pool; where none is free, it waits for one.
fn enter(handle: &Handle, process: &mut Process) {
    let (Some(environment), Some(pool)) = (&process.environment, process.pool) else { return };
    let policy = unpadded(&handle.point).map_or(Policy::Null, |point| environment.policy_of(&point));
    let now = process.clocks.counter.read(ReadOrdering::Plain);
    let wanted = NewEntry {
        point: handle.point,
        ordering: handle.ordering,
        fields: handle.fields,
        counter: handle.clock.map_or(0, Clock::number),
        policy,
        now,
    };
    let Some((index, entry)) = pool.enter(wanted, process.entry_hint) else {
        let first = !std::mem::replace(&mut process.told_crowding, true);
        return wait_for_entry(handle, pool, wanted, first);
    };
    process.entry_hint = index + 1;
    handle.entry.set(Some(entry));
    handle.shared.set(None);
    handle.successor.set(0);
    handle.pool.set(Some(pool));
    handle.serial.set(entry.serial.load(Ordering::Relaxed));
    handle.blocks.set(pool.blocks().as_ptr());
    handle.unit_mask.set(pool.header().block_bytes / UNIT_BYTES as u32 - 1);
    handle.next.store(0, Ordering::Relaxed);
    handle.retry_tick.set(i64::MIN);
    let reads_inline = environment.injection.is_none() && handle.clock.is_none();
    let inline = |fields| if reads_inline && handle.fields == fields { Policy::Buffered as u32 } else { NEVER };
    handle.fast_slim.set(inline(Fields::Slim));
    handle.fast_wide.set(inline(Fields::Wide));
    handle.fast_full.set(inline(Fields::Full));
    compiler_fence(Ordering::SeqCst); // a handler sees the handle whole once the policy applies
    handle.policy.store(std::ptr::from_ref(&entry.policy).cast_mut(), Ordering::Relaxed);
}

/// No entry is free: the channel's stamps are counted as lost until one is.
fn wait_for_entry(handle: &Handle, pool: OwnPool, wanted: NewEntry, first: bool) {
    if wanted.policy == Policy::Null {
        return handle.policy.store(word(&OFF), Ordering::Relaxed);
    }
    handle.pool.set(Some(pool));
    handle.shared.set(pool.shared(wanted));
    handle.retry_tick.set(counter::plain() + RETRY_TICKS);
    compiler_fence(Ordering::SeqCst);
    handle.policy.store(word(&WAITING), Ordering::Relaxed);
    if first {
        eprintln!(
            "tickscope: expected at most {} channels open at a time in a pool of this size, found more. Stamps of the \
             others are counted as lost until one is free; set TICKSCOPE_POOL_BYTES higher.",
            pool.most_channels()
        );
    }
}

/// Gives a channel that waits an entry, if one is free by now; otherwise its stamp is counted as lost, under `tick` or,
/// where that is 0, the present one.
fn enter_late(handle: &Handle, tick: i64) {
    if counter::plain() >= handle.retry_tick.get() {
        process::with(|process| {
            if handle.points_to(&WAITING) {
                enter(handle, process);
            }
        });
    }
    if handle.points_to(&WAITING) {
        let tick = if tick == 0 { handle.read(ReadOrdering::Plain) } else { tick };
        drop_shared(handle, tick);
    }
}

/// Counts a stamp of a channel that has no entry, under its point; several threads may be here at once.
fn drop_shared(handle: &Handle, tick: i64) {
    match (handle.shared.get(), handle.pool.get()) {
        (Some(entry), _) => {
            entry.lost_first.fetch_min(tick, Ordering::Relaxed);
            entry.lost_last.fetch_max(tick, Ordering::Relaxed);
            entry.lost.fetch_add(1, Ordering::Relaxed);
            entry.dropped.fetch_add(1, Ordering::Relaxed);
        }
        (None, Some(pool)) => _ = pool.header().without_channel.fetch_add(1, Ordering::Relaxed),
        (None, None) => {}
    }
}

/// In a forked child: the handle forgets the parent's pool.
pub(crate) fn cut_off(handle: &Handle) {
    let waited = handle.points_to(&WAITING);
    if handle.entry.take().is_none() && !waited {
        return;
    }
    handle.shared.set(None);
    handle.policy.store(word(&FORKED), Ordering::Relaxed);
    handle.forbid_inline();
    handle.pool.set(None);
    handle.next.store(0, Ordering::Relaxed);
}

/// Entries of channels under the policy null that one process leaves to the collector when it closes them.
const MOST_NULL_ENTRIES: u32 = 64;

fn close(handle: &Handle, process: &mut Process) {
    handle.policy.store(word(&CLOSED), Ordering::Relaxed);
    handle.forbid_inline();
    let (Some(entry), Some(pool)) = (handle.entry.take(), handle.pool.take()) else { return };
    let unit = handle.next.load(Ordering::Relaxed) as u32;
    if !handle.is_full(u64::from(unit)) {
        leave_block(handle, pool, unit, process); // a full one is complete without our word
    }
    // What the entry says stands in the blocks too, but for these counts: they wait for the collector.
    let counts = [&entry.dropped, &entry.refused, &entry.stalls, &entry.lost];
    let mut told = counts.iter().all(|count| count.load(Ordering::Relaxed) == 0);
    // Of a channel that kept nothing only the entry tells; a few are enough, or they would be all taken.
    let null = entry.policy.load(Ordering::Relaxed) as u32 == Policy::Null as u32;
    if told && null && process.null_entries < MOST_NULL_ENTRIES {
        (told, process.null_entries) = (false, process.null_entries + 1);
    }
    if told {
        process.entry_hint = pool.index_of(entry);
    }
    let state = if told { EntryState::Free } else { EntryState::Closed };
    entry.state.store(state as u32, Ordering::Release);
    pool.header().leases.fetch_add(1, Ordering::Release); // there is something to collect
}

/// Lets go of the channel's partly filled block: the collector may take it, or a later thread go on in it.
fn leave_block(handle: &Handle, pool: OwnPool, unit: u32, process: &mut Process) {
    let units = handle.unit_mask.get() + 1;
    let (index, left) = (unit / units, units - unit % units);
    let block = pool.block(index);
    if left >= block::successor_units(handle.fields) + handle.fields as u32 {
        let (name, successor) = ((block.header().serial, block.header().number), handle.successor.get());
        process.spares.push(Spare { index, unit, successor, name });
    }
    handover::release(&block);
}

/// Where a channel that keeps stamps now puts them; looks at everything but the common case: closed, forked, waiting,
/// off. `tick`: of the stamp, 0: now.
fn keeps(handle: &Handle, tick: i64) -> Option<(&'static ChannelEntry, OwnPool)> {
    if handle.points_to(&FORKED) && !reopen(handle) {
        return None;
    }
    if handle.points_to(&WAITING) {
        enter_late(handle, tick);
    }
    let policy = handle.policy_number();
    let (entry, pool) = (handle.entry.get()?, handle.pool.get()?);
    if policy != Policy::Null as u32 && policy != Policy::Buffered as u32 {
        own_add(&entry.refused, 1);
    }
    (policy == Policy::Buffered as u32).then_some((entry, pool))
}

/// A stamp of a full channel; any other that is not wide is left to the slow path. In pairs, which go in registers,
/// here and below: were an [`Extra`] handed over, every wide stamp would store it to memory first.
#[inline(never)]
fn stamp_full(handle: &Handle, id: i64, carried: (i32, i64), parent: Option<i64>, tries: (i32, i32)) {
    let extra = Extra { kind: carried.0, value: carried.1, parent, attempt: tries.0, batch: tries.1 };
    if handle.policy_number() != handle.fast_full.get() {
        return stamp_slow(handle, id, &extra);
    }
    let tick = counter::read(handle.ordering);
    let Some(record) = handle.reserve(Fields::Full as u64) else { return stamp_slow(handle, id, &extra) };
    commit_full(record, id, &extra, tick);
}

#[cold]
#[inline(never)]
fn record_carrying(
    handle: &Handle,
    (id, tick): (i64, i64),
    carried: (i32, i64),
    parent: Option<i64>,
    tries: (i32, i32),
) {
    let extra = Extra { kind: carried.0, value: carried.1, parent, attempt: tries.0, batch: tries.1 };
    record_slow(handle, id, &extra, tick);
}

/// Channels of another clock, the injected map, a stamp through the call for another shape, a full block.
#[cold]
#[inline(never)]
fn stamp_slow(handle: &Handle, id: i64, extra: &Extra) {
    let Some((entry, pool)) = keeps(handle, 0) else { return };
    // The counter as late as can be, as in `stamp`; a clock is read first: it may turn out unreadable.
    if handle.clock.is_some() || handle.ordering == ReadOrdering::After {
        return record_uncommon(handle, (entry, pool), (id, extra), handle.read(handle.ordering));
    }
    let Some(record) = reserve_leasing(handle, (entry, pool), 0) else { return };
    match handle.read(handle.ordering) {
        0 => own_add(&entry.refused, 1),
        tick => handle.commit(record, id, extra, tick),
    }
}

#[cold]
#[inline(never)]
fn record_slow(handle: &Handle, id: i64, extra: &Extra, tick: i64) {
    if let Some(kept) = keeps(handle, tick) {
        record_uncommon(handle, kept, (id, extra), tick);
    }
}

fn record_uncommon(
    handle: &Handle,
    (entry, pool): (&'static ChannelEntry, OwnPool),
    (id, extra): (i64, &Extra),
    tick: i64,
) {
    if tick == 0 {
        return own_add(&entry.refused, 1); // reads as "not committed": the only tick that cannot be kept
    }
    let Some(record) = reserve_leasing(handle, (entry, pool), tick) else { return };
    handle.commit(record, id, extra, tick);
}

/// The first stamp after fork: a pool of the child's own, and the same point on it.
fn reopen(handle: &Handle) -> bool {
    let opened = process::with(|process| match process.start() {
        Ok(true) if handle.points_to(&FORKED) => {
            enter(handle, process);
            true
        }
        Ok(started) => started,
        Err(_) => false, // the refusal lies in the stamp directory
    });
    if !opened {
        handle.policy.store(word(&OFF), Ordering::Relaxed);
    }
    opened
}

/// Ticks after a failed search before the next one: a pool that is full should cost little to find full.
const RETRY_TICKS: i64 = 100_000;

/// A record for one stamp, leasing as needed; `None`: dropped and counted, under `tick` or, where that is 0, the
/// present one.
fn reserve_leasing(handle: &Handle, (entry, pool): (&'static ChannelEntry, OwnPool), tick: i64) -> Option<*mut u8> {
    loop {
        if let Some(record) = handle.reserve(handle.fields as u64) {
            return Some(record);
        }
        if counter::plain() >= handle.retry_tick.get() {
            if lease(handle, entry, pool) || (waits(pool) && wait_for_block(handle, entry, pool)) {
                continue;
            }
            handle.retry_tick.set(counter::plain() + RETRY_TICKS);
        }
        drop_stamp(entry, if tick == 0 { handle.read(ReadOrdering::Plain) } else { tick });
        return None;
    }
}

fn waits(pool: OwnPool) -> bool {
    pool.header().when_full == WhenFull::Wait as u8
}

fn drop_stamp(entry: &ChannelEntry, tick: i64) {
    if entry.lost.load(Ordering::Relaxed) == 0 {
        entry.lost_first.store(tick, Ordering::Relaxed);
    }
    entry.lost_last.store(tick, Ordering::Relaxed);
    own_add(&entry.lost, 1);
    own_add(&entry.dropped, 1);
}

/// Spares that are looked at for one channel.
const SPARES_TRIED: usize = 4096;

/// Goes on in a block that another channel of the same point left partly filled; `false`: there is none.
fn succeed(handle: &Handle, entry: &ChannelEntry, pool: OwnPool) -> bool {
    let done = process::with(|process| {
        let mut at = process.spares.len();
        let last = at.saturating_sub(SPARES_TRIED);
        while at > last {
            at -= 1;
            let spare = process.spares[at];
            let block = pool.block(spare.index);
            let is_spare = handover::state(&block) == Some(BlockState::Released)
                && (block.header().serial, block.header().number) == spare.name;
            if is_spare && !fits(handle, entry, pool, &block) {
                continue;
            }
            process.spares.swap_remove(at);
            if is_spare && handover::resume(&block) {
                succeed_at(handle, entry, &block, &spare); // else the collector took it
                return true;
            }
        }
        false
    });
    if done {
        pool.header().leases.fetch_add(1, Ordering::Release);
    }
    done
}

/// Whether the block is of the channel's point, and was leased under the policy that a new channel has: so what its
/// header says of the policy is true of this one too.
fn fits(handle: &Handle, entry: &ChannelEntry, pool: OwnPool, block: &MappedBlock<'_>) -> bool {
    let header = block.header();
    let counter = handle.clock.map_or(pool.header().counter, Clock::number);
    (header.ordering, header.shape) == (handle.ordering as u8, handle.fields as u8)
        && (header.counter, header.point) == (counter, handle.point)
        && header.policy_epoch == 0
        && entry.policy.load(Ordering::Relaxed) >> 32 == 0
}

/// Describes the channel at the unit where another's records ended, and moves it behind that.
fn succeed_at(handle: &Handle, entry: &ChannelEntry, block: &MappedBlock<'_>, spare: &Spare) {
    let within = spare.unit & handle.unit_mask.get();
    let link = match spare.successor {
        0 => &block.header().successor,
        unit => &block.successor_at(unit).next,
    };
    // Release, and first: whoever sees what is written here knows that it is no record.
    link.store(within, Ordering::Release);
    compiler_fence(Ordering::SeqCst); // so it is, too, where the process is killed right here
    let successor: &Successor = block.successor_at(within);
    successor.serial.store(handle.serial.get(), Ordering::Relaxed);
    successor.opened_tick.store(entry.opened_tick.load(Ordering::Relaxed), Ordering::Relaxed);
    successor.one.store(1, Ordering::Relaxed);
    let thread = u64::from(thread_id() as u32);
    // Release: the description is whole.
    successor.whole.store(thread << 32 | u64::from(SUCCESSOR_MAGIC), Ordering::Release);
    handle.successor.set(within);
    let number = handle.next.load(Ordering::Relaxed) & !u64::from(u32::MAX);
    let behind = spare.unit + block::successor_units(handle.fields);
    handle.next.store(number | u64::from(behind), Ordering::Relaxed);
}

/// Moves the full channel to a new block, or to the rest of one; `false`: there is none.
fn lease(handle: &Handle, entry: &ChannelEntry, pool: OwnPool) -> bool {
    let full = handle.next.load(Ordering::Relaxed);
    if !handle.is_full(full) {
        return true; // a signal handler was here first
    }
    // A thread that lives long takes blocks of its own.
    let is_new = full >> 32 == 0 && handle.successor.get() == 0;
    if is_new && succeed(handle, entry, pool) {
        return true;
    }
    let Some((index, block)) = claim(pool) else { return succeed(handle, entry, pool) };
    let number = (full >> 32) as u32;
    let lost = describe(handle, entry, pool, block, number);
    handover::publish(&block, BLOCK_MAGIC);
    let block_bytes = pool.header().block_bytes;
    let first = index * (handle.unit_mask.get() + 1) + block::first_unit(block_bytes, handle.fields);
    if own_exchange(&handle.next, full, u64::from(number + 1) << 32 | u64::from(first)).is_ok() {
        handle.successor.set(0);
        own_add(&entry.lost, lost.wrapping_neg());
        pool.header().leases.fetch_add(1, Ordering::Release);
    } else {
        handover::withdraw(&block); // a signal handler leased one meanwhile
    }
    true
}

/// Claims a free block, looking at each once.
fn claim(pool: OwnPool) -> Option<(u32, MappedBlock<'static>)> {
    let header = pool.header();
    let start = header.hint.load(Ordering::Relaxed);
    let mut order = (0..header.block_count).map(|step| (start.wrapping_add(step)) % header.block_count);
    let index = order.find(|&index| handover::claim(&pool.block(index)))?;
    header.hint.store((index + 1) % header.block_count, Ordering::Relaxed);
    Some((index, pool.block(index)))
}

/// Writes the header of a claimed block; returns how many lost stamps it tells of.
fn describe(handle: &Handle, entry: &ChannelEntry, pool: OwnPool, block: MappedBlock<'_>, number: u32) -> u64 {
    let header = pool.header();
    let lost = entry.lost.load(Ordering::Relaxed);
    let setting = policy::read(&entry.policy, &entry.parameters);
    let plain = block.header_address();
    // SAFETY: the block is claimed and its magic not yet stored, so nobody else reads or writes these fields.
    unsafe {
        (*plain).version = VERSION as u16;
        (*plain).header_bytes = (block::first_unit(header.block_bytes, handle.fields) * UNIT_BYTES as u32) as u16;
        (*plain).serial = handle.serial.get();
        (*plain).number = number;
        (*plain).policy_epoch = setting.epoch;
        (*plain).policy = setting.policy;
        (*plain).parameter = setting.parameter;
        (*plain).instance = header.instance;
        (*plain).boot_id = header.boot_id;
        (*plain).pid = header.pid;
        (*plain).thread = thread_id();
        (*plain).process_start = header.process_start;
        (*plain).ordering = handle.ordering as u8;
        (*plain).shape = handle.fields as u8;
        (*plain).counter = handle.clock.map_or(header.counter, Clock::number);
        (*plain).epoch = header.epoch;
        (*plain).lost = lost;
        (*plain).lost_first = entry.lost_first.load(Ordering::Relaxed);
        (*plain).lost_last = entry.lost_last.load(Ordering::Relaxed);
        (*plain).point = handle.point;
    }
    lost
}

/// Waits for a block while a collector lives, at most 1 s.
fn wait_for_block(handle: &Handle, entry: &ChannelEntry, pool: OwnPool) -> bool {
    const NAP: Duration = Duration::from_micros(50);
    const NAPS: u32 = 20_000;
    const NAPS_BETWEEN_LOOKS: u32 = 200;
    own_add(&entry.stalls, 1);
    for nap in 0..NAPS {
        if nap % NAPS_BETWEEN_LOOKS == 0 && !process::with(|process| process.has_collector()) {
            return false;
        }
        std::thread::sleep(NAP);
        if lease(handle, entry, pool) {
            return true;
        }
    }
    false
}
