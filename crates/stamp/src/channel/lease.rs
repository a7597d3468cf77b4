//! Blocks of a channel: leased, gone on in where another channel left room, overwritten, waited for.

use std::mem::offset_of;
use std::sync::atomic::{Ordering, compiler_fence};
use std::time::{Duration, Instant};

use tickscope_counter as counter;
use tickscope_tick::{Clock, Ordering as ReadOrdering};

use super::Handle;
use crate::block::{
    self, BLOCK_MAGIC, BlockHeader, BlockState, ChannelEntry, Policy, SUCCESSOR_MAGIC, Successor, UNIT_BYTES, VERSION,
    WhenFull,
};
use crate::handover;
use crate::policies::Action;
use crate::policies::first_last::FirstLast;
use crate::pool::MappedBlock;
use crate::primitive::{AtomicU32, own_add, own_exchange};
use crate::process::{self, OwnPool, Spare, thread_id};

/// Ticks after a failed search before the next one: a pool that is full should cost little to find full.
pub(super) const RETRY_TICKS: i64 = 100_000;

/// A record for one stamp, leasing as needed; `None`: dropped and counted, under `tick` or, where that is 0, the
/// present one.
pub(super) fn reserve_leasing(
    handle: &Handle,
    (entry, pool): (&'static ChannelEntry, OwnPool),
    tick: i64,
) -> Option<*mut u8> {
    loop {
        if let Some(record) = handle.reserve(handle.fields as u64) {
            return Some(record);
        }
        if has_lease(handle, entry, pool) {
            continue;
        }
        drop_stamp(entry, if tick == 0 { handle.read(ReadOrdering::Plain) } else { tick });
        return None;
    }
}

/// Moves the full channel to another block, by whatever its policy and its program allow; `false`: there is none.
pub(super) fn has_lease(handle: &Handle, entry: &ChannelEntry, pool: OwnPool) -> bool {
    let now = counter::plain();
    if now < handle.retry_tick.get() {
        return false;
    }
    let claims = now >= handle.claim_tick.get();
    if claims && lease(handle, entry, pool) {
        return true;
    }
    if overwrites(handle, pool) {
        if overwrite_oldest(handle, pool) {
            if claims {
                handle.claim_tick.set(now + OVERWRITING_TICKS);
            }
            return true;
        }
        handle.claim_tick.set(i64::MIN); // the collector has all full blocks, and frees them in a moment
    } else if pool.header().when_full == WhenFull::Wait as u8 && wait_for_block(handle, entry, pool) {
        return true;
    }
    handle.retry_tick.set(counter::plain() + RETRY_TICKS);
    false
}

/// Whether a channel that finds no free block takes its own oldest one.
pub(super) fn overwrites(handle: &Handle, pool: OwnPool) -> bool {
    pool.header().when_full == WhenFull::Overwrite as u8 || handle.setting.get().policy == Policy::Keep as u32
}

pub(super) fn drop_stamp(entry: &ChannelEntry, tick: i64) {
    if entry.lost.load(Ordering::Relaxed) == 0 {
        entry.lost_first.store(tick, Ordering::Relaxed);
    }
    entry.lost_last.store(tick, Ordering::Relaxed);
    own_add(&entry.lost, 1);
    own_add(&entry.dropped, 1);
}

/// Ticks after a failed search while the channel has blocks of its own to overwrite: longer, for a look at each block
/// of a large pool takes longer than writing one.
const OVERWRITING_TICKS: i64 = 25_000_000;

/// Spares that are looked at for one channel.
const SPARES_TRIED: usize = 4096;

/// Goes on in a block that another channel of the same point left partly filled; `false`: there is none.
fn succeed(handle: &Handle, entry: &ChannelEntry, pool: OwnPool) -> bool {
    if !process::has_spares() {
        return false;
    }
    let done = process::with(|process| {
        let mut at = process.spares.len();
        let last = at.saturating_sub(SPARES_TRIED);
        while at > last {
            at -= 1;
            let spare = process.spares[at];
            let block = pool.block(spare.index);
            let is_spare = handover::state(&block) == Some(BlockState::Released) && block.name() == spare.name;
            if is_spare && !fits(handle, entry, pool, &block) {
                continue;
            }
            process.remove_spare(at);
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
/// header says of the policy is true of this one too. The collector may take it at any moment: what is found counts
/// only if the block can be resumed then.
fn fits(handle: &Handle, entry: &ChannelEntry, pool: OwnPool, block: &MappedBlock<'_>) -> bool {
    let counter = handle.clock.map_or(pool.header().counter, Clock::number);
    block.kind() == [handle.ordering as u8, handle.fields as u8, counter]
        && block.is_named(&handle.point)
        && block.policy_epoch() == 0
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
    let (is_new, shares) = (full >> 32 == 0 && handle.successor.get() == 0, shares_blocks(handle, pool));
    if is_new && shares && succeed(handle, entry, pool) {
        return true;
    }
    match claim(pool) {
        Some(claimed) => {
            move_to(handle, (entry, pool), full, claimed);
            true
        }
        None => shares && succeed(handle, entry, pool),
    }
}

/// Moves the channel whose cursor stands at `full` to a block that it has claimed.
fn move_to(
    handle: &Handle,
    (entry, pool): (&ChannelEntry, OwnPool),
    full: u64,
    (index, block): (u32, MappedBlock<'static>),
) {
    let number = (full >> 32) as u32;
    let lost = describe(handle, entry, pool, block, number);
    handover::publish(&block, BLOCK_MAGIC);
    let block_bytes = pool.header().block_bytes;
    let first_last = matches!(handle.rule.get(), Action::FirstLast(_));
    // A stamp that a handler interrupted under another policy goes behind the slots that are written in turn.
    let kept_free = if first_last { FirstLast::SLOTS * handle.fields as u32 } else { 0 };
    let first = index * (handle.unit_mask.get() + 1) + block::first_unit(block_bytes, handle.fields) + kept_free;
    if own_exchange(&handle.next, full, u64::from(number + 1) << 32 | u64::from(first)).is_ok() {
        handle.successor.set(0);
        own_add(&entry.lost, lost.wrapping_neg());
        if overwrites(handle, pool) && !first_last {
            link(handle, pool, index, number);
        }
        pool.header().leases.fetch_add(1, Ordering::Release);
    } else {
        handover::withdraw(&block); // a signal handler leased one meanwhile
    }
}

/// Whether the rest of a block may go to another channel of the point: what its header says of the policy is true of
/// both, and nobody counts its stamps by its number.
pub(super) fn shares_blocks(handle: &Handle, pool: OwnPool) -> bool {
    !overwrites(handle, pool) && !matches!(handle.rule.get(), Action::FirstLast(_))
}

/// Remembers the order in which blocks were leased, so that the oldest can be found: each says which one followed.
fn link(handle: &Handle, pool: OwnPool, index: u32, number: u32) {
    let last = handle.newest.replace(index + 1);
    match last.checked_sub(1) {
        // The collector may have freed it, and another channel have it: whoever follows the link looks at the numbers.
        Some(last) => following(&pool.block(last)).store(index + 1, Ordering::Relaxed),
        None => handle.oldest.set((index + 1, number)),
    }
}

/// Where a block says which one followed.
fn following(block: &MappedBlock<'static>) -> &'static AtomicU32 {
    block.word(offset_of!(BlockHeader, following))
}

/// Moves the channel to its own oldest full block, whose stamps are gone then; `false`: it has none.
fn overwrite_oldest(handle: &Handle, pool: OwnPool) -> bool {
    let Some(entry) = handle.entry.get() else { return false };
    let mask = process::block_signals();
    let full = handle.next.load(Ordering::Relaxed);
    let moved = !handle.is_full(full) // a signal handler was here first
        || take_oldest(handle, pool).is_some_and(|claimed| {
            move_to(handle, (entry, pool), full, claimed);
            true
        });
    process::restore_signals(&mask);
    moved
}

/// The oldest full block of the channel, as empty as a claimed one.
fn take_oldest(handle: &Handle, pool: OwnPool) -> Option<(u32, MappedBlock<'static>)> {
    for _ in 0..2 {
        let (place, number) = handle.oldest.get();
        if let Some(index) = place.checked_sub(1) {
            let block = pool.block(index);
            let next = following(&block).load(Ordering::Relaxed);
            let is_it = block.is_described() && block.name() == (handle.serial.get(), number);
            if is_it && handover::overwrite(&block) {
                handle.oldest.set((next, number.wrapping_add(1)));
                if handle.newest.get() == place {
                    handle.newest.set(0); // it was the only one
                }
                handover::clear(&block);
                return Some((index, block));
            }
        }
        // The collector has taken that one: look for it.
        let blocks = (0..pool.header().block_count).map(|index| (index, pool.block(index)));
        let own = blocks.filter(|(_, block)| {
            handover::state(block) == Some(BlockState::Leased)
                && block.is_described()
                // Of another policy's stamps nobody counts what is overwritten.
                && (block.name().0, block.policy_epoch()) == (handle.serial.get(), handle.setting.get().epoch)
        });
        let (index, number) = own.map(|(index, block)| (index, block.name().1)).min_by_key(|&(_, number)| number)?;
        handle.oldest.set((index + 1, number));
    }
    None
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
    let setting = handle.setting.get(); // under which its records will be, whatever the entry says by now
    let plain = block.header_address();
    // SAFETY: the block is claimed and its magic not yet stored, so nobody else reads or writes these fields.
    unsafe {
        (*plain).first_of_policy = handle.first_of_policy.get();
        (*plain).policy = setting.policy;
        (*plain).parameter = setting.parameter;
        (*plain).instance = header.instance;
        (*plain).boot_id = header.boot_id;
        (*plain).pid = header.pid;
        (*plain).thread = thread_id();
        (*plain).process_start = header.process_start;
        (*plain).epoch = header.epoch;
        (*plain).lost = lost;
        (*plain).lost_first = entry.lost_first.load(Ordering::Relaxed);
        (*plain).lost_last = entry.lost_last.load(Ordering::Relaxed);
    }
    // These are looked at by threads that may have left the block: see `fits` and `take_oldest`.
    let store = |offset, word: u32| block.word(offset).store(word, Ordering::Relaxed);
    let header_bytes = block::first_unit(header.block_bytes, handle.fields) as usize * UNIT_BYTES;
    let [[a, b], [c, d]] = [(VERSION as u16).to_ne_bytes(), (header_bytes as u16).to_ne_bytes()];
    store(offset_of!(BlockHeader, version), u32::from_ne_bytes([a, b, c, d]));
    store(offset_of!(BlockHeader, serial), handle.serial.get());
    store(offset_of!(BlockHeader, number), number);
    store(offset_of!(BlockHeader, policy_epoch), setting.epoch);
    let counter = handle.clock.map_or(header.counter, Clock::number);
    let kind = [handle.ordering as u8, handle.fields as u8, counter, 0];
    store(offset_of!(BlockHeader, ordering), u32::from_ne_bytes(kind));
    for (at, &word) in handle.point.as_chunks::<4>().0.iter().enumerate() {
        store(offset_of!(BlockHeader, point) + at * 4, u32::from_ne_bytes(word));
    }
    lost
}

/// Waits for a block while a collector lives, at most 1 s.
fn wait_for_block(handle: &Handle, entry: &ChannelEntry, pool: OwnPool) -> bool {
    const NAP: Duration = Duration::from_micros(50);
    const PATIENCE: Duration = Duration::from_secs(1);
    const NAPS_BETWEEN_LOOKS: u32 = 200;
    own_add(&entry.stalls, 1);
    let began = Instant::now(); // a nap may last longer
    for nap in 0_u32.. {
        if nap % NAPS_BETWEEN_LOOKS == 0 && !process::with(|process| process.has_collector()) {
            return false;
        }
        std::thread::sleep(NAP);
        if lease(handle, entry, pool) {
            return true;
        }
        if began.elapsed() > PATIENCE {
            return false;
        }
    }
    false
}
