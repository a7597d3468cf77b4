//! One point on one thread: the stamp itself.

mod batch;
mod dispatch;
mod lease;
mod log;

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, compiler_fence};

use tickscope_counter as counter;
use tickscope_tick::Ordering as ReadOrdering;
use tickscope_tick::own_points::{CLOCK_BRACKET, ID_ORIGINAL};
use tickscope_tick::{Clock, PointName};

use crate::block::{
    self, ChannelEntry, EntryState, Fields, FullRecord, HEADER_UNITS, NAME_BYTES, Policy, SlimRecord, UNIT_BYTES,
    WideRecord, padded, unpadded,
};
use crate::clock;
use crate::handover;
use crate::policies::{Action, Choice};
use crate::policy::{self, Setting};
use crate::primitive::{own_exchange, own_fetch_add};
use crate::process::{self, NewEntry, OpenError, OwnPool, Process, Spare};
use dispatch::{is_done, record_carrying, record_slow, stamp_by_policy, stamp_full, take_on};
use lease::RETRY_TICKS;
use log::{close_log, open_log};

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

/// What a stamp reads together with the counter, for a channel of [`Channel::open_reading`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reading {
    /// The core, by the instruction that reads the counter and not beside it. On x86-64 with rdtscp alone.
    pub core: bool,
    /// `CLOCK_MONOTONIC_RAW` in nanoseconds, right after the counter: it is the stamp's value, whatever value is given.
    pub monotonic_raw: bool,
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
const NEVER: u64 = u64::MAX;
/// Policy words of this process's own, that a handle points to when its entry's does not apply.
static OFF: AtomicU64 = AtomicU64::new(Policy::Null as u64);
static CLOSED: AtomicU64 = AtomicU64::new(0xffff_fffe);
static FORKED: AtomicU64 = AtomicU64::new(0xffff_fffd);
/// No entry was free: stamps are counted as lost until one is.
static WAITING: AtomicU64 = AtomicU64::new(0xffff_fffc);

/// What chooses under the policy `own`, by id and tick.
type Filter = dyn Fn(i64, i64) -> bool;

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
    /// The policy word under which `stamp` may go on inline.
    fast_slim: Cell<u64>,
    fast_wide: Cell<u64>,
    fast_full: Cell<u64>,
    /// The policy word under which every stamp goes to a block.
    stores: Cell<u64>,
    /// The policy word that the rule is of.
    adopted: Cell<u64>,
    rule: Cell<Action>,
    setting: Cell<Setting>,
    /// Number of the first block under it.
    first_of_policy: Cell<u32>,
    /// Under `every`: the count at which the next stamp is kept.
    kept_next: AtomicU64,
    /// Under `first-last`, low half: stamps within one another, by signal handlers; high half: place, plus 1, of the
    /// last block that the outermost of them is to end, which names the one before in `following`.
    level: AtomicU64,
    /// Under `all`: descriptor of the log; -1: there is none.
    log: Cell<i32>,
    /// Position of that descriptor: no file of the program has it.
    log_mark: Cell<i64>,
    log_length: AtomicU64,
    /// Under `own`: what chooses.
    filter: Cell<Option<NonNull<Filter>>>,
    /// How often that is being asked now, by stamps within one another.
    asked: Cell<u32>,
    /// Place in the pool, plus 1, and number of the oldest block of a channel that overwrites, and place of its
    /// newest.
    oldest: Cell<(u32, u32)>,
    newest: Cell<u32>,
    /// Its ticks are of the counter as it is.
    reads_inline: Cell<bool>,
    ordering: ReadOrdering,
    fields: Fields,
    /// Clock of its ticks; `None`: the counter.
    clock: Option<Clock>,
    /// The clock that it relates to the counter.
    brackets: Option<Clock>,
    /// What its stamps read together with the counter.
    reading: Reading,
    entry: Cell<Option<&'static ChannelEntry>>,
    /// The entry that counts what a channel loses while it waits for one.
    shared: Cell<Option<&'static ChannelEntry>>,
    pool: Cell<Option<OwnPool>>,
    serial: Cell<u32>,
    /// Unit of its block where this channel's description as a successor lies; 0: the block began as its own.
    successor: Cell<u32>,
    /// No block was free: not before this tick is one looked for again.
    retry_tick: Cell<i64>,
    /// The same of a channel that overwrites its own blocks meanwhile.
    claim_tick: Cell<i64>,
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
        if point == ID_ORIGINAL {
            return Err(OpenError::new(format!(
                "expected a point's name other than '{ID_ORIGINAL}'. Ids::open opens that one"
            )));
        }
        let clock = Some(counter).filter(|&counter| counter != Clock::STAMPED);
        Self::enter(Handle { clock, ..Handle::new(name_of(point)?, ordering, fields) })
    }

    /// The same with ticks of the counter, and more that is read together with it; stamps must have room for that:
    /// [`Fields::Wide`] or [`Fields::Full`]. Ticks that are given ([`Channel::record`]) bring nothing but themselves.
    pub fn open_reading(
        point: &str,
        ordering: ReadOrdering,
        fields: Fields,
        reading: Reading,
    ) -> Result<Self, OpenError> {
        let refuse = |found: String| Err(OpenError::new(found));
        if reading != Reading::default() && fields == Fields::Slim {
            return refuse(format!(
                "expected wide or full stamps for what is read with the counter at '{point}', found slim ones. Open \
                 it with Fields::Wide"
            ));
        }
        if reading.core && !counter::has_core() {
            return refuse(format!(
                "expected an x86-64 processor with rdtscp for the core at '{point}', found none. Without that option \
                 the core is read beside the counter"
            ));
        }
        Self::enter(Handle { reading, ..Handle::new(name_of(point)?, ordering, fields) })
    }

    /// A channel for [`Channel::bracket`], of the point `clock-bracket.NAME` with the clock's name.
    pub fn open_bracket(clock: Clock) -> Result<Self, OpenError> {
        let name = name_of(&format!("{CLOCK_BRACKET}{clock}"))?;
        let handle = Handle::new(name, ReadOrdering::Before, Fields::Wide);
        Self::enter(Handle { brackets: Some(clock), ..handle })
    }

    /// A channel of one of tickscope's own points.
    pub(crate) fn open_own(point: &str, ordering: ReadOrdering, fields: Fields) -> Result<Self, OpenError> {
        Self::enter(Handle::new(name_of(point)?, ordering, fields))
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
        let word = handle.policy_word();
        if word != handle.fast_slim.get() {
            return if word as u32 != Policy::Null as u32 && !is_done(handle, id, word) {
                stamp_by_policy(handle, id)
            };
        }
        // An `after` reading is taken at once, the others as late as can be: that keeps intervals narrow.
        let early = if handle.ordering == ReadOrdering::After { counter::after() } else { 0 };
        let Some(record) = handle.reserve(1) else { return stamp_by_policy(handle, id) };
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
        let word = handle.policy_word();
        if word != handle.fast_wide.get() {
            return if word as u32 != Policy::Null as u32 {
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

    /// Has `keep` choose under the policy `own`: it is asked with each stamp's id and tick, and returns whether the
    /// stamp is kept. Asked on this thread, and by signal handlers on it while it is being asked: it must stand that.
    /// Stamps of this channel that it makes itself ask it again, to a depth of four; deeper ones are refused and
    /// counted.
    ///
    /// ```
    /// # use tickscope_stamp::{Channel, Fields, Ordering};
    /// # let received = Channel::open("received", Ordering::After, Fields::Slim)?;
    /// received.choose(|id, _tick| id % 3 == 0); // if the run file gives the point the policy `own`
    /// # Ok::<(), tickscope_stamp::OpenError>(())
    /// ```
    pub fn choose(&self, keep: impl Fn(i64, i64) -> bool + 'static) {
        self.handle().set_filter(Some(Box::new(keep)));
    }

    /// Relates the clock of [`Channel::open_bracket`] to the counter: the narrowest of eight readings counter, clock,
    /// counter, as one stamp; tick: the counter before, id: the clock in nanoseconds, value: the counter after.
    pub fn bracket(&self) {
        let handle = self.handle();
        if handle.policy_word() as u32 == Policy::Null as u32 {
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
            stores: Cell::new(NEVER),
            adopted: Cell::new(NEVER),
            rule: Cell::new(Action::Nothing),
            setting: Cell::new(Setting::default()),
            first_of_policy: Cell::new(0),
            kept_next: AtomicU64::new(0),
            level: AtomicU64::new(0),
            log: Cell::new(-1),
            log_mark: Cell::new(0),
            log_length: AtomicU64::new(0),
            filter: Cell::new(None),
            asked: Cell::new(0),
            oldest: Cell::new((0, 0)),
            newest: Cell::new(0),
            reads_inline: Cell::new(false),
            ordering,
            fields,
            clock: None,
            brackets: None,
            reading: Reading::default(),
            entry: Cell::new(None),
            shared: Cell::new(None),
            pool: Cell::new(None),
            serial: Cell::new(0),
            successor: Cell::new(0),
            retry_tick: Cell::new(i64::MIN),
            claim_tick: Cell::new(i64::MIN),
            point,
        }
    }

    #[inline(always)]
    fn policy_word(&self) -> u64 {
        // SAFETY: points to one of the statics above or to the entry in this process's mapping, both always valid.
        unsafe { (*self.policy.load(Ordering::Relaxed)).load(Ordering::Relaxed) }
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
        let word = self.policy_word();
        if word as u32 == Policy::Null as u32 {
            return Reserved::Off;
        }
        if word != self.stores.get() || self.fields != fields || tick == 0 {
            return Reserved::Uncommon;
        }
        self.reserve(fields as u64).map_or(Reserved::Uncommon, Reserved::Record)
    }

    /// Has another function choose, or none.
    fn set_filter(&self, filter: Option<Box<Filter>>) {
        let filter = filter.map(|filter| NonNull::from(Box::leak(filter)));
        let mask = process::block_signals(); // its address is two words
        let before = self.filter.replace(filter);
        process::restore_signals(&mask);
        if let Some(before) = before {
            // SAFETY: it was leaked here, and nobody is in it: a stamp ends before its thread calls this.
            drop(unsafe { Box::from_raw(before.as_ptr()) });
        }
    }

    /// Leaves every stamp to the slow path.
    fn forbid_inline(&self) {
        for word in [&self.fast_slim, &self.fast_wide, &self.fast_full, &self.stores, &self.adopted] {
            word.set(NEVER);
        }
    }

    /// Fills a record of the channel's own shape.
    fn commit(&self, record: *mut u8, id: i64, extra: &Extra, read: Read) {
        if self.fields == Fields::Slim {
            return commit_slim(record, id, read.tick);
        }
        if self.fields == Fields::Full {
            commit_origin(record, id, extra);
        }
        commit_on(record, id, (extra.kind, extra.value), read.tick, read.core.unwrap_or_else(core));
    }

    /// Reads what the channel's ticks are of; 0: it can't be read.
    fn read(&self, ordering: ReadOrdering) -> i64 {
        match self.clock {
            None => process::clocks().counter.read(ordering),
            Some(clock) => clock::now(clock, process::clocks()).unwrap_or(0),
        }
    }

    /// Reads what a stamp of this channel reads; what it carries then. A tick of 0: it can't be read.
    fn read_now(&self, extra: &Extra) -> (Read, Extra) {
        if self.reading == Reading::default() {
            return (Read::given(self.read(self.ordering)), *extra);
        }
        let clocks = process::clocks();
        let (raw, core) = if self.reading.core {
            let (raw, core) = counter::with_core(); // waits for what precedes, as `after` does
            if self.ordering == ReadOrdering::Before {
                counter::fence();
            }
            (raw, Some(core))
        } else {
            (counter::read(self.ordering), None)
        };
        let value =
            if self.reading.monotonic_raw { clock::now(Clock::MonotonicRaw, clocks) } else { Some(extra.value) };
        let tick = clocks.counter.injection().map_or(raw, |map| map.apply(raw));
        value.map_or((Read::given(0), *extra), |value| (Read { tick, core }, Extra { value, ..*extra }))
    }
}

/// One reading for a stamp.
#[derive(Clone, Copy, Debug)]
struct Read {
    tick: i64,
    /// The core that it was read on; `None`: no instruction told it.
    core: Option<i32>,
}

impl Read {
    /// A tick alone.
    fn given(tick: i64) -> Self {
        Self { tick, core: None }
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
    commit_origin(record, id, extra);
    commit_wide(record, id, extra.kind, extra.value, tick);
}

#[inline(always)]
fn commit_origin(record: *mut u8, id: i64, extra: &Extra) {
    // SAFETY: as in `commit_slim`; a full channel reserves three units.
    let full = unsafe { &*record.cast::<FullRecord>() };
    full.parent.store(extra.parent.unwrap_or(id), Ordering::Relaxed);
    full.attempt.store(extra.attempt, Ordering::Relaxed);
    full.batch.store(extra.batch, Ordering::Relaxed);
}

#[inline(always)]
fn commit_wide(record: *mut u8, id: i64, kind: i32, value: i64, tick: i64) {
    commit_on(record, id, (kind, value), tick, core());
}

/// The core that this thread runs on now.
#[inline(always)]
fn core() -> i32 {
    // SAFETY: no arguments; -1 where it fails, which is what "not recorded" is.
    unsafe { libc::sched_getcpu() }
}

#[inline(always)]
fn commit_on(record: *mut u8, id: i64, (kind, value): (i32, i64), tick: i64, core: i32) {
    // SAFETY: as in `commit_slim`; a wide channel reserves two units, a full one three.
    let wide = unsafe { &*record.cast::<WideRecord>() };
    wide.value.store(value, Ordering::Relaxed);
    wide.kind.store(kind, Ordering::Relaxed);
    wide.cpu.store(core, Ordering::Relaxed);
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
    let policy = unpadded(&handle.point).map_or(Choice::NULL, |point| environment.policy_of(&point));
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
        return wait_for_entry(handle, pool, wanted, first.then_some(&mut process.said));
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
    handle.claim_tick.set(i64::MIN);
    handle.oldest.set((0, 0));
    handle.newest.set(0);
    let alone = handle.clock.is_none() && handle.reading == Reading::default();
    handle.reads_inline.set(environment.injection.is_none() && alone);
    take_on(handle, entry, policy::read(&entry.policy, &entry.parameters));
    open_log(handle, pool, process);
    compiler_fence(Ordering::SeqCst); // a handler sees the handle whole once the policy applies
    handle.policy.store(std::ptr::from_ref(&entry.policy).cast_mut(), Ordering::Relaxed);
}

/// No entry is free: the channel's stamps are counted as lost until one is.
fn wait_for_entry(handle: &Handle, pool: OwnPool, wanted: NewEntry, said: Option<&mut String>) {
    if wanted.policy == Choice::NULL {
        return handle.policy.store(word(&OFF), Ordering::Relaxed);
    }
    handle.pool.set(Some(pool));
    handle.shared.set(pool.shared(wanted));
    handle.retry_tick.set(counter::plain() + RETRY_TICKS);
    compiler_fence(Ordering::SeqCst);
    handle.policy.store(word(&WAITING), Ordering::Relaxed);
    if let Some(said) = said {
        *said += &format!(
            "tickscope: expected at most {} channels open at a time in a pool of this size, found more. Stamps of the \
             others are counted as lost until one is free; set TICKSCOPE_POOL_BYTES higher.\n",
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
    handle.level.store(u64::from(handle.level.load(Ordering::Relaxed) as u32), Ordering::Relaxed);
    handle.policy.store(word(&FORKED), Ordering::Relaxed);
    handle.forbid_inline();
    handle.pool.set(None);
    handle.next.store(0, Ordering::Relaxed);
    close_log(handle);
}

/// Entries of channels under the policy null that one process leaves to the collector when it closes them.
const MOST_NULL_ENTRIES: u32 = 64;

fn close(handle: &Handle, process: &mut Process) {
    handle.policy.store(word(&CLOSED), Ordering::Relaxed);
    handle.forbid_inline();
    close_log(handle);
    handle.set_filter(None);
    let (Some(entry), Some(pool)) = (handle.entry.take(), handle.pool.take()) else { return };
    let unit = handle.next.load(Ordering::Relaxed) as u32;
    if !handle.is_full(u64::from(unit)) {
        leave_block(handle, pool, unit, process); // a full one is complete without our word
    }
    // What the entry says stands in the blocks too, but for these counts: they wait for the collector.
    let counts = [&entry.dropped, &entry.refused, &entry.stalls, &entry.lost, &entry.counted, &entry.seen];
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
    let has_room = left >= block::successor_units(handle.fields) + handle.fields as u32;
    if has_room && lease::shares_blocks(handle, pool) {
        let (name, successor) = ((block.header().serial, block.header().number), handle.successor.get());
        process.add_spare(Spare { index, unit, successor, name });
    }
    handover::release(&block);
}
