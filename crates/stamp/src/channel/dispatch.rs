//! What becomes of a stamp by its channel's policy: the one dispatch, and what follows from it.
//!
//! The inline path leaves everything to this file but stamps that are kept as they are and those under `null`. A
//! channel adopts its policy when it finds another word in its entry: then the block that it was writing ends, so
//! that all records of a block are of one policy.
//!
//! Guarantees: what is left out costs a call and no reading of a clock; no rule is mixed of two policies. Deliberately
//! absent: what each policy keeps, see [`crate::policies`].

use std::cell::Cell;
use std::sync::atomic::{Ordering, compiler_fence};

use tickscope_tick::Ordering as ReadOrdering;

use super::lease::{drop_stamp, has_lease, reserve_leasing};
use super::log::{open_log, write_log};
use super::{
    Extra, FORKED, Filter, Handle, NEVER, OFF, Read, WAITING, commit_full, commit_slim, enter, enter_late, word,
};
use crate::block::{self, ChannelEntry, Fields, Policy, UNIT_BYTES};
use crate::policies::first_last::{FirstLast, LEVELS};
use crate::policies::{Action, Choice, count};
use crate::policy::{self, Setting};
use crate::primitive::{AtomicI64, own_add, own_exchange, own_fetch_add};
use crate::process::{self, OwnPool};
use tickscope_counter as counter;

/// The channel's place in shared memory.
type Place = (&'static ChannelEntry, OwnPool);

/// Decision about a stamp by its id.
enum Decision {
    /// It goes to a block.
    Store,
    /// It does not, and that is all.
    Done,
    /// It takes more than that.
    Uncommon,
}

/// A slim stamp that is not simply kept. Not cold: most stamps under `x of y` end here.
#[inline(never)]
pub(super) fn stamp_by_policy(handle: &Handle, id: i64) {
    match decide(handle, id) {
        Decision::Done => {}
        Decision::Store if handle.fields == Fields::Slim && handle.reads_inline.get() => stamp_slim(handle, id),
        Decision::Store => store(handle, id, &Extra::default()),
        Decision::Uncommon => stamp_slow(handle, id, &Extra::default()),
    }
}

/// Returns whether `count` or `x of y` is done with a stamp: a call would cost more than they do. Everything else, and
/// what a signal handler changed meanwhile, is left to [`stamp_by_policy`].
#[inline(always)]
pub(super) fn is_done(handle: &Handle, id: i64, word: u64) -> bool {
    if word != handle.adopted.get() {
        return false;
    }
    compiler_fence(Ordering::SeqCst);
    let rule = handle.rule.get();
    compiler_fence(Ordering::SeqCst);
    match (rule, handle.entry.get()) {
        _ if word != handle.adopted.get() => false,
        (Action::XOfY(rule), _) => !rule.keeps(id),
        (Action::Count, Some(entry)) => {
            count::count(&entry.counted);
            true
        }
        _ => false,
    }
}

/// Decides by the rule that the channel has adopted; anything else is uncommon.
#[inline(always)]
fn decide(handle: &Handle, id: i64) -> Decision {
    let (word, before) = (handle.policy_word(), handle.adopted.get());
    compiler_fence(Ordering::SeqCst);
    let rule = handle.rule.get();
    // A signal handler may have adopted another policy while the rule was read, or right before.
    compiler_fence(Ordering::SeqCst);
    if word != before {
        return Decision::Uncommon;
    }
    let Some(entry) = handle.entry.get().filter(|_| word == handle.adopted.get()) else {
        return Decision::Uncommon;
    };
    match rule {
        Action::XOfY(rule) if !rule.keeps(id) => Decision::Done,
        Action::Every(rule) if !rule.keeps(&entry.seen, &handle.kept_next) => Decision::Done,
        Action::XOfY(_) | Action::Every(_) | Action::Store => Decision::Store,
        Action::Count => {
            count::count(&entry.counted);
            Decision::Done
        }
        Action::Nothing => Decision::Done,
        Action::All | Action::FirstLast(_) | Action::Own | Action::Unknown => Decision::Uncommon,
    }
}

/// As the inline path.
fn stamp_slim(handle: &Handle, id: i64) {
    let early = if handle.ordering == ReadOrdering::After { counter::after() } else { 0 };
    let Some(record) = handle.reserve(1) else { return store(handle, id, &Extra::default()) };
    let tick = match handle.ordering {
        ReadOrdering::After => early,
        ReadOrdering::Plain => counter::plain(),
        ReadOrdering::Before => counter::before(),
    };
    commit_slim(record, id, tick);
}

/// A stamp of a full channel; any other that is not wide is left to the slow path. In pairs, which go in registers,
/// here and below: were an [`Extra`] handed over, every wide stamp would store it to memory first.
#[inline(never)]
pub(super) fn stamp_full(handle: &Handle, id: i64, carried: (i32, i64), parent: Option<i64>, tries: (i32, i32)) {
    stamp_extra(handle, id, &carrying(carried, parent, tries));
}

/// A batch that is not said is 0: below that a record says ids ([`super::batch`]).
fn carrying(carried: (i32, i64), parent: Option<i64>, tries: (i32, i32)) -> Extra {
    Extra { kind: carried.0, value: carried.1, parent, attempt: tries.0, batch: if tries.1 > 0 { tries.1 } else { 0 } }
}

#[inline(always)]
pub(super) fn stamp_extra(handle: &Handle, id: i64, extra: &Extra) {
    if handle.policy_word() != handle.fast_full.get() {
        return match decide(handle, id) {
            Decision::Done => {}
            Decision::Store => store(handle, id, extra),
            Decision::Uncommon => stamp_slow(handle, id, extra),
        };
    }
    let tick = counter::read(handle.ordering);
    let Some(record) = handle.reserve(Fields::Full as u64) else { return store(handle, id, extra) };
    commit_full(record, id, extra, tick);
}

#[cold]
#[inline(never)]
pub(super) fn record_carrying(
    handle: &Handle,
    (id, tick): (i64, i64),
    carried: (i32, i64),
    parent: Option<i64>,
    tries: (i32, i32),
) {
    record_slow(handle, id, &carrying(carried, parent, tries), tick);
}

/// A stamp of a channel that has to adopt its policy, of one that is closed, forked or waits, or that takes more than a
/// record.
#[cold]
#[inline(never)]
fn stamp_slow(handle: &Handle, id: i64, extra: &Extra) {
    while let Some(place) = ready(handle, 0) {
        match decide(handle, id) {
            Decision::Done => return,
            Decision::Store => return store(handle, id, extra),
            Decision::Uncommon if is_done_specially(handle, place, (id, extra), None) => return,
            Decision::Uncommon => {}
        }
    }
}

/// A record that the inline path left: of another shape, of a tick of 0, under a policy that chooses.
#[cold]
#[inline(never)]
pub(super) fn record_slow(handle: &Handle, id: i64, extra: &Extra, tick: i64) {
    while let Some(place) = ready(handle, tick) {
        if tick == 0 {
            return own_add(&place.0.refused, 1); // reads as "not committed": the only tick that cannot be kept
        }
        match decide(handle, id) {
            Decision::Done => return,
            Decision::Store => return record_leasing(handle, place, (id, extra), Read::given(tick)),
            Decision::Uncommon if is_done_specially(handle, place, (id, extra), Some(tick)) => return,
            Decision::Uncommon => {}
        }
    }
}

/// Stores a stamp that is to be kept: where the block is full, of another clock, through the injected map.
#[cold]
#[inline(never)]
fn store(handle: &Handle, id: i64, extra: &Extra) {
    let (Some(entry), Some(pool)) = (handle.entry.get(), handle.pool.get()) else { return };
    // The counter as late as can be, as in `stamp`; a clock is read first: it may turn out unreadable.
    if handle.clock.is_some() || handle.ordering == ReadOrdering::After {
        let (read, extra) = handle.read_now(extra);
        return match read.tick {
            0 => own_add(&entry.refused, 1),
            _ => record_leasing(handle, (entry, pool), (id, &extra), read),
        };
    }
    let Some(record) = reserve_leasing(handle, (entry, pool), 0) else { return };
    let (read, extra) = handle.read_now(extra);
    match read.tick {
        0 => own_add(&entry.refused, 1),
        _ => handle.commit(record, id, &extra, read),
    }
}

fn record_leasing(handle: &Handle, place: Place, (id, extra): (i64, &Extra), read: Read) {
    let Some(record) = reserve_leasing(handle, place, read.tick) else { return };
    handle.commit(record, id, extra, read);
}

/// A stamp under a policy that needs its tick to decide, or does more than store it; `false`: its policy has changed
/// this instant, so decide anew. `tick`: as given; `None`: now.
fn is_done_specially(handle: &Handle, (entry, pool): Place, (id, extra): (i64, &Extra), tick: Option<i64>) -> bool {
    let (adopted, rule) = (handle.adopted.get(), handle.rule.get());
    compiler_fence(Ordering::SeqCst); // as in `decide`
    if handle.policy_word() != adopted || handle.adopted.get() != adopted {
        return false;
    }
    let chooses = match rule {
        Action::All | Action::FirstLast(_) => true,
        Action::Own => handle.filter.get().is_some() && handle.asked.get() < MOST_ASKED,
        Action::Unknown => false,
        _ => return false,
    };
    let (read, extra) = match tick {
        _ if !chooses => (Read::given(0), *extra),
        Some(tick) => (Read::given(tick), *extra),
        None => handle.read_now(extra),
    };
    let (tick, extra) = (read.tick, &extra);
    if tick == 0 {
        own_add(&entry.refused, 1);
        return true;
    }
    if let Action::FirstLast(rule) = rule {
        return is_kept_first_or_last(handle, (entry, pool), (rule, adopted), (id, extra), read);
    }
    if let (Action::Own, Some(filter)) = (rule, handle.filter.get()) {
        // SAFETY: it lives until the channel's thread sets another, or closes the channel.
        if is_chosen(handle, unsafe { filter.as_ref() }, (id, tick)) {
            record_leasing(handle, (entry, pool), (id, extra), read);
        }
        return true;
    }
    if let Some(record) = reserve_leasing(handle, (entry, pool), tick) {
        handle.commit(record, id, extra, read);
        // The collector may have taken the block since, and zeroed it.
        let mut copy = std::mem::MaybeUninit::<block::FullRecord>::zeroed();
        let copy = copy.as_mut_ptr().cast::<u8>();
        handle.commit(copy, id, extra, read);
        write_log(handle, pool, copy);
    }
    true
}

/// How often a channel's own function may be being asked at a time: stamps that it makes of its own channel ask it
/// again.
const MOST_ASKED: u32 = 4;

/// Asks the function that chooses.
fn is_chosen(handle: &Handle, filter: &Filter, (id, tick): (i64, i64)) -> bool {
    /// Counts back also where the function panics.
    struct Asked<'a>(&'a Cell<u32>);
    impl Drop for Asked<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() - 1);
        }
    }
    handle.asked.set(handle.asked.get() + 1); // a handler in between leaves the count as it found it
    let _asked = Asked(&handle.asked);
    filter(id, tick)
}

/// A stamp under `first-last`: it is the first, or takes the place of the last but one; `false`: the channel has
/// another block, or a signal handler has adopted another policy, so decide anew.
///
/// The block is looked up once: whatever a handler does meanwhile, the stamp goes where its policy holds.
fn is_kept_first_or_last(
    handle: &Handle,
    (entry, pool): Place,
    (rule, adopted): (FirstLast, u64),
    (id, extra): (i64, &Extra),
    read: Read,
) -> bool {
    let level = depth(own_fetch_add(&handle.level, 1));
    let slots = Slots::of(handle);
    compiler_fence(Ordering::SeqCst);
    let mut done = true;
    if handle.adopted.get() != adopted {
        done = false;
    } else if handle.newest.get() == ENDED {
        // Nothing is kept behind the marker.
    } else if level >= LEVELS {
        own_add(&entry.refused, 1);
    } else if let Some(slots) = slots {
        let slot = rule.slot(level, |slot| slots.tick(slot));
        slots.tick(slot).store(0, Ordering::Relaxed);
        // A kill between the two leaves a slot without a tick, and the other slot whole.
        std::sync::atomic::fence(Ordering::Release);
        handle.commit(slots.record(slot), id, extra, read);
        if rule.ends(id) && handle.adopted.get() == adopted {
            handle.newest.set(ENDED);
        }
    } else if has_lease(handle, entry, pool) {
        done = false;
    } else {
        drop_stamp(entry, read.tick);
    }
    let pool = handle.pool.get().unwrap_or(pool); // in a child that a handler forked, its own
    if level == 0 && handle.newest.get() == ENDED {
        end_block(handle, pool, 1); // also where a handler within this stamp has seen the marker
    }
    let before = own_fetch_add(&handle.level, u64::MAX);
    if depth(before) == 1 && left_over(before) != 0 {
        end_left_over(handle, pool);
    }
    done
}

/// Stamps under `first-last` within one another: the low half of `level`.
fn depth(level: u64) -> u32 {
    level as u32
}

/// Place of the block, plus 1, that the outermost of them is to end: the high half; 0: none.
fn left_over(level: u64) -> u32 {
    (level >> 32) as u32
}

/// Ends the blocks that handlers left over because stamps were within: none is now, for this was the outermost.
fn end_left_over(handle: &Handle, pool: OwnPool) {
    let mut level = handle.level.load(Ordering::Relaxed);
    // A signal handler that has stamped since has ended them.
    while let Err(now) = own_exchange(&handle.level, level, u64::from(depth(level))) {
        level = now;
    }
    let mut place = left_over(level);
    while let Some(index) = place.checked_sub(1) {
        let block = pool.block(index);
        // Before it ends: then it is the collector's.
        place = block.header().following.load(Ordering::Relaxed);
        block.header().end.store(handle.unit_mask.get() + 1, Ordering::Release);
        pool.header().leases.fetch_add(1, Ordering::Release); // there is something to collect
    }
}

/// `newest` of a channel under `first-last` that has seen its marker: it has no such block otherwise.
const ENDED: u32 = u32::MAX;

/// Slots of a channel's block under `first-last`.
struct Slots {
    first: *mut u8,
    bytes: usize,
}

impl Slots {
    /// Those of its present block; `None`: it has none.
    fn of(handle: &Handle) -> Option<Self> {
        // In this order, as in `reserve`.
        let blocks = handle.blocks.get();
        compiler_fence(Ordering::SeqCst);
        let next = handle.next.load(Ordering::Relaxed);
        let (units, unit) = (handle.unit_mask.get() + 1, next as u32);
        let place = unit - unit % units + block::first_unit(units * UNIT_BYTES as u32, handle.fields);
        // SAFETY: within the pool's mapping.
        let first = || unsafe { blocks.add(place as usize * UNIT_BYTES) };
        (!handle.is_full(next)).then(|| Self { first: first(), bytes: handle.fields as usize * UNIT_BYTES })
    }

    fn record(&self, slot: u32) -> *mut u8 {
        // SAFETY: the smallest block has `FirstLast::SLOTS` of them.
        unsafe { self.first.add(slot as usize * self.bytes) }
    }

    fn tick(&self, slot: u32) -> &AtomicI64 {
        // SAFETY: whatever its shape, a record begins with a slim one, whose fields are atomic.
        unsafe { &(*self.record(slot).cast::<block::SlimRecord>()).tick }
    }
}

/// Place of a channel that is open and has adopted its policy; looks at everything but the common case: closed, forked,
/// waiting, off. `tick`: of the stamp, 0: now.
pub(super) fn ready(handle: &Handle, tick: i64) -> Option<Place> {
    if handle.points_to(&FORKED) && !reopen(handle) {
        return None;
    }
    if handle.points_to(&WAITING) {
        enter_late(handle, tick);
    }
    let (entry, pool) = (handle.entry.get()?, handle.pool.get()?);
    if handle.policy_word() as u32 == Policy::Null as u32 {
        return None;
    }
    if handle.policy_word() != handle.adopted.get() {
        adopt(handle, entry, pool);
    }
    Some((entry, pool))
}

/// Goes over to the policy that the entry names: the present block ends, and the next is of that policy alone.
fn adopt(handle: &Handle, entry: &'static ChannelEntry, pool: OwnPool) {
    let mask = process::block_signals();
    let setting = policy::read(&entry.policy, &entry.parameters);
    if policy::joined(setting) != handle.adopted.get() {
        end_block(handle, pool, 0);
        take_on(handle, entry, setting);
        if matches!(handle.rule.get(), Action::All) {
            process::with(|process| open_log(handle, pool, process));
        }
    }
    process::restore_signals(&mask);
}

/// Ends the channel's block where its records end now. One that more stamps under `first-last` than `within` are in,
/// because this is a handler that interrupted one, is left for the outermost of them to end.
fn end_block(handle: &Handle, pool: OwnPool, within: u32) {
    let full = handle.next.load(Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    let first_last = matches!(handle.rule.get(), Action::FirstLast(_));
    // To where no record goes, with the number that the next block will have. First: whoever moves it ends the block.
    if handle.is_full(full) || own_exchange(&handle.next, full, full & !u64::from(u32::MAX)).is_err() {
        return; // a signal handler was here first
    }
    let (unit, units) = (full as u32, handle.unit_mask.get() + 1);
    let (header, level) = (pool.block(unit / units).header(), handle.level.load(Ordering::Relaxed));
    if !first_last {
        header.end.store(unit % units, Ordering::Release);
    } else if depth(level) <= within {
        header.end.store(units, Ordering::Release);
    } else {
        // With signals blocked, as a policy is adopted: a marker ends a block in the outermost stamp alone.
        header.following.store(left_over(level), Ordering::Relaxed);
        handle.level.store(u64::from(unit / units + 1) << 32 | u64::from(depth(level)), Ordering::Relaxed);
    }
    pool.header().leases.fetch_add(1, Ordering::Release); // there is something to collect
}

/// Works out what the channel does under a policy from now on.
pub(super) fn take_on(handle: &Handle, entry: &ChannelEntry, setting: Setting) {
    let rule = Choice::of(setting.policy, setting.parameter).map_or(Action::Unknown, Choice::rule);
    if let Action::Every(every) = rule {
        handle.kept_next.store(every.first(entry.seen.load(Ordering::Relaxed)), Ordering::Relaxed);
    }
    handle.setting.set(setting);
    handle.first_of_policy.set((handle.next.load(Ordering::Relaxed) >> 32) as u32);
    handle.rule.set(rule);
    handle.oldest.set((0, 0));
    handle.newest.set(0);
    let now = policy::joined(setting);
    let stores = if matches!(rule, Action::Store) { now } else { NEVER };
    let inline = |fields| if handle.reads_inline.get() && handle.fields == fields { stores } else { NEVER };
    handle.fast_slim.set(inline(Fields::Slim));
    handle.fast_wide.set(inline(Fields::Wide));
    handle.fast_full.set(inline(Fields::Full));
    handle.stores.set(stores);
    handle.adopted.set(now);
}

/// The first stamp after fork: a pool of the child's own, and the same point on it.
fn reopen(handle: &Handle) -> bool {
    let opened = process::with(|process| match process.start() {
        Ok(true) if handle.points_to(&FORKED) => {
            enter(handle, process);
            true
        }
        Ok(started) => started,
        Err(error) => {
            process.refuse_channel(&error);
            false
        }
    });
    if !opened {
        handle.policy.store(word(&OFF), Ordering::Relaxed);
    }
    opened
}
