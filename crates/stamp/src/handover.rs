//! Hand-over of a block between a program and a collector: each step once, for mapped memory and for the model.
//!
//! | step | who | runs concurrently with |
//! | --- | --- | --- |
//! | [`claim`], [`publish`], [`withdraw`] | program, any thread | everything |
//! | [`commit`] | the one thread of the channel, and signal handlers on it | everything |
//! | [`release`], [`resume`] | the one thread of the channel | collector |
//! | [`take`], [`take_done`] | the one collector | programs that [`resume`] or [`overwrite`] |
//! | [`overwrite`], [`clear`] | the one thread of the channel | collector |
//! | [`is_complete`], [`committed`] | collector | everything |
//! | [`begin_zeroing`], [`finish_zeroing`] | the one collector | programs, on other blocks |
//!
//! Guarantees: a stamp whose [`commit`] returned is in [`committed`] of that block, whole, until the block is zeroed;
//! the collector zeroes only blocks that nobody writes any more: complete, released, or of a dead process.

use crate::block::BlockState;
use crate::primitive::{AtomicI64, AtomicU32, Ordering, fence};

/// Access to a block by the steps; implemented by mapped memory and, shrunk, by the model checker's tests.
pub trait Block {
    /// `BLOCK_MAGIC` once the header stands.
    fn magic(&self) -> &AtomicU32;
    /// A [`BlockState`].
    fn state(&self) -> &AtomicU32;
    /// Records that fit, by the shape in the header.
    fn capacity(&self) -> u32;
    /// Id of a record.
    fn id(&self, slot: u32) -> &AtomicI64;
    /// Tick of a record; 0: not committed.
    fn tick(&self, slot: u32) -> &AtomicI64;
    /// Zeroes all but magic and state.
    fn zero_contents(&self);

    /// Whether every record is committed.
    fn is_full(&self) -> bool {
        // From the end: the last record is the last to be committed, so a block in use costs one load.
        (0..self.capacity()).rev().all(|slot| self.tick(slot).load(Ordering::Acquire) != 0)
    }
}

/// Takes a free block; `false`: it is not free.
pub fn claim(block: &impl Block) -> bool {
    // Acquire: what the collector zeroed is zero here.
    let (free, leased) = (BlockState::Free as u32, BlockState::Leased as u32);
    block.state().compare_exchange(free, leased, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// Says that the header of a claimed block stands.
pub fn publish(block: &impl Block, magic: u32) {
    // Release: whoever sees the magic sees the header.
    block.magic().store(magic, Ordering::Release);
}

/// Gives a claimed block back that holds no stamp.
pub fn withdraw(block: &impl Block) {
    block.magic().store(0, Ordering::Relaxed);
    block.zero_contents();
    // Release: the next to claim it sees it zeroed.
    block.state().store(BlockState::Free as u32, Ordering::Release);
}

/// Fills a reserved record.
#[inline(always)]
pub fn commit(id_field: &AtomicI64, tick_field: &AtomicI64, id: i64, tick: i64) {
    id_field.store(id, Ordering::Relaxed);
    // Release: the record is whole before its tick is seen.
    tick_field.store(tick, Ordering::Release);
}

/// Says that a block will not be written again.
pub fn release(block: &impl Block) {
    // Release: whoever sees the state sees every stamp.
    block.state().store(BlockState::Released as u32, Ordering::Release);
}

/// Takes a released block back, to go on in it; `false`: the collector has it, or had.
pub fn resume(block: &impl Block) -> bool {
    // Acquire: every stamp of the thread that released it is seen.
    let (released, leased) = (BlockState::Released as u32, BlockState::Leased as u32);
    block.state().compare_exchange(released, leased, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// Takes a block that is released, or complete, for the collector; `false`: a program has resumed it, or is about to
/// overwrite it.
pub fn take(block: &impl Block, from: BlockState) -> bool {
    // Acquire: every stamp before the release is seen.
    block.state().compare_exchange(from as u32, BlockState::Taken as u32, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// Takes a leased block that `is_done`; `false`: it is not, or its program is about to overwrite it. Asked only once
/// the block is taken: one that was done before may have been overwritten since, and be leased again.
pub fn take_done(block: &impl Block, is_done: impl FnOnce() -> bool) -> bool {
    take_if(block, BlockState::Leased, is_done)
}

/// Takes a block in that state if `is_it` once it is taken: nobody overwrites it or goes on in it meanwhile.
pub fn take_if(block: &impl Block, from: BlockState, is_it: impl FnOnce() -> bool) -> bool {
    if !take(block, from) {
        return false;
    }
    let keeps = is_it();
    if !keeps {
        // Its program may have released it meanwhile: that stands.
        let (taken, from) = (BlockState::Taken as u32, from as u32);
        let _ = block.state().compare_exchange(taken, from, Ordering::Release, Ordering::Relaxed);
    }
    keeps
}

/// Takes a complete block of the program's own, whose stamps are given up; `false`: it is not complete, or the
/// collector has it.
pub fn overwrite(block: &impl Block) -> bool {
    let (leased, overwritten) = (BlockState::Leased as u32, BlockState::Overwritten as u32);
    is_complete(block)
        && block.state().compare_exchange(leased, overwritten, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// Makes an overwritten block as empty as a claimed one.
pub fn clear(block: &impl Block) {
    block.magic().store(0, Ordering::Relaxed);
    // Release: no record goes while the header still stands.
    fence(Ordering::Release);
    block.zero_contents();
    // Release: whoever sees it leased sees it zeroed.
    block.state().store(BlockState::Leased as u32, Ordering::Release);
}

/// Where the block is; `None`: a state of no version.
pub fn state(block: &impl Block) -> Option<BlockState> {
    let state = block.state().load(Ordering::Acquire);
    let known = [
        BlockState::Free,
        BlockState::Leased,
        BlockState::Released,
        BlockState::Zeroing,
        BlockState::Taken,
        BlockState::Overwritten,
    ];
    known.into_iter().find(|&known| known as u32 == state)
}

/// Whether every record is committed, so that nobody writes the block any more.
pub fn is_complete(block: &impl Block) -> bool {
    block.is_full()
}

/// The slots of the committed records, in order, up to the last that was committed when this was called.
///
/// Its program may go on meanwhile. So the last is looked for first: whatever its thread committed before that one is
/// seen then. Looked for from the first slot on, one could be passed just before it is committed, and its successors
/// be found.
pub fn committed(block: &impl Block) -> impl Iterator<Item = u32> {
    let is_committed = move |&slot: &u32| block.tick(slot).load(Ordering::Acquire) != 0;
    let end = (0..block.capacity()).rev().find(is_committed).map_or(0, |last| last + 1);
    (0..end).filter(is_committed)
}

/// First half of freeing a block whose stamps are stored: from here on it only ever gets zeroed.
pub fn begin_zeroing(block: &impl Block) {
    block.state().store(BlockState::Zeroing as u32, Ordering::Relaxed);
}

/// Second half: zeroes the block and frees it. May be repeated after a kill.
pub fn finish_zeroing(block: &impl Block) {
    withdraw(block);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    const SLOTS: usize = 8;

    /// A block whose program commits so many records just before one of the looks at a tick.
    struct Filling {
        word: AtomicU32,
        ids: [AtomicI64; SLOTS],
        ticks: [AtomicI64; SLOTS],
        looks: Cell<usize>,
        commits: (usize, usize),
    }

    impl Filling {
        fn of(at_first: usize, look: usize, then: usize) -> Self {
            let (ids, ticks) = Default::default();
            let block = Self { word: AtomicU32::new(0), ids, ticks, looks: Cell::new(0), commits: (look, then) };
            block.commit_up_to(at_first);
            block
        }

        fn commit_up_to(&self, end: usize) {
            for (id, tick) in self.ids.iter().zip(&self.ticks).take(end) {
                commit(id, tick, 5, 7);
            }
        }
    }

    impl Block for Filling {
        fn magic(&self) -> &AtomicU32 {
            &self.word
        }
        fn state(&self) -> &AtomicU32 {
            &self.word
        }
        fn capacity(&self) -> u32 {
            SLOTS as u32
        }
        fn id(&self, slot: u32) -> &AtomicI64 {
            &self.ids[slot as usize]
        }
        fn tick(&self, slot: u32) -> &AtomicI64 {
            if self.looks.replace(self.looks.get() + 1) == self.commits.0 {
                self.commit_up_to(self.commits.1);
            }
            &self.ticks[slot as usize]
        }
        fn zero_contents(&self) {}
    }

    #[test]
    fn records_of_a_block_that_is_being_filled_are_found_with_all_before_them() {
        for (at_first, then) in (0..=SLOTS).flat_map(|first| (first..=SLOTS).map(move |then| (first, then))) {
            for look in 0..=2 * SLOTS {
                let found: Vec<u32> = committed(&Filling::of(at_first, look, then)).collect();
                assert!((at_first..=then).contains(&found.len()), "{at_first}, {then} at look {look}: {found:?}");
                assert!(found.iter().copied().eq(0..found.len() as u32), "{at_first}, {then} at {look}: {found:?}");
            }
        }
    }
}
