//! The hand-over and the switch of a policy under every interleaving: loom, with blocks shrunk to two records.
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p tickscope-stamp --test model`.
#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use tickscope_stamp::block::BlockState;
use tickscope_stamp::handover::{self, Block};
use tickscope_stamp::policy::{self, Setting};
use tickscope_stamp::primitive::{AtomicI64, AtomicU32, AtomicU64, Ordering};

const MAGIC: u32 = 7;

struct Shrunk {
    magic: AtomicU32,
    state: AtomicU32,
    ids: [AtomicI64; 2],
    ticks: [AtomicI64; 2],
}

impl Shrunk {
    fn new() -> Self {
        let word = || [AtomicI64::new(0), AtomicI64::new(0)];
        Self { magic: AtomicU32::new(0), state: AtomicU32::new(0), ids: word(), ticks: word() }
    }
}

impl Block for Shrunk {
    fn magic(&self) -> &AtomicU32 {
        &self.magic
    }
    fn state(&self) -> &AtomicU32 {
        &self.state
    }
    fn capacity(&self) -> u32 {
        2
    }
    fn id(&self, slot: u32) -> &AtomicI64 {
        &self.ids[slot as usize]
    }
    fn tick(&self, slot: u32) -> &AtomicI64 {
        &self.ticks[slot as usize]
    }
    fn zero_contents(&self) {
        for word in self.ids.iter().chain(&self.ticks) {
            word.store(0, Ordering::Relaxed);
        }
    }
}

/// What the collector takes from a block that is ready, as (id, tick); then frees it.
fn collect(block: &Shrunk, taken: &mut Vec<(i64, i64)>) {
    let described = block.magic().load(Ordering::Acquire) == MAGIC;
    let ready = match handover::state(block) {
        Some(BlockState::Leased) => described && handover::is_complete(block),
        Some(BlockState::Released) => described,
        _ => false,
    };
    if ready {
        let read = |slot| (block.id(slot).load(Ordering::Relaxed), block.tick(slot).load(Ordering::Relaxed));
        taken.extend(handover::committed(block).map(read));
        handover::begin_zeroing(block);
        handover::finish_zeroing(block);
    }
}

/// A program that stamps `ids` into whatever blocks it can claim, and counts what it must drop.
fn program(blocks: &[Shrunk], ids: std::ops::Range<i64>) -> i64 {
    let (mut dropped, mut current, mut slot) = (0, None, 2);
    for id in ids {
        if slot == 2 {
            current = blocks.iter().find(|block| handover::claim(*block));
            slot = 0;
            if let Some(block) = current {
                handover::publish(block, MAGIC);
            }
        }
        let Some(block) = current else {
            (dropped, slot) = (dropped + 1, 2);
            continue;
        };
        handover::commit(block.id(slot), block.tick(slot), id, id + 100);
        slot += 1;
    }
    if let Some(block) = current.filter(|_| slot < 2) {
        handover::release(block);
    }
    dropped
}

fn stored_once_and_whole(mut taken: Vec<(i64, i64)>, dropped: i64, stamped: i64) {
    assert!(taken.iter().all(|&(id, tick)| tick == id + 100), "torn: {taken:?}");
    taken.sort_unstable();
    taken.windows(2).for_each(|pair| assert_ne!(pair[0], pair[1], "twice"));
    assert_eq!(taken.len() as i64 + dropped, stamped, "{taken:?} and {dropped} dropped");
}

#[test]
fn model_every_stamp_is_stored_once_and_whole_or_counted_as_dropped() {
    loom::model(|| {
        let blocks = Arc::new([Shrunk::new()]);
        let theirs = Arc::clone(&blocks);
        let stamping = thread::spawn(move || program(&*theirs, 1..4));
        let mut taken = Vec::new();
        collect(&blocks[0], &mut taken);
        let dropped = stamping.join().unwrap();
        collect(&blocks[0], &mut taken);
        stored_once_and_whole(taken, dropped, 3);
    });
}

#[test]
fn model_two_programs_never_share_a_block() {
    loom::model(|| {
        let blocks = Arc::new([Shrunk::new(), Shrunk::new()]);
        let theirs = Arc::clone(&blocks);
        let other = thread::spawn(move || program(&*theirs, 10..12));
        let dropped = program(&*blocks, 1..3) + other.join().unwrap();
        let mut taken = Vec::new();
        blocks.iter().for_each(|block| collect(block, &mut taken));
        stored_once_and_whole(taken, dropped, 4);
    });
}

#[test]
fn model_a_collector_killed_while_zeroing_leaves_a_block_that_only_gets_zeroed() {
    loom::model(|| {
        let blocks = Arc::new([Shrunk::new()]);
        assert_eq!(program(&*blocks, 1..3), 0);
        handover::begin_zeroing(&blocks[0]); // killed here; the next collector finds the state
        let theirs = Arc::clone(&blocks);
        let stamping = thread::spawn(move || program(&*theirs, 5..7));
        let mut taken = Vec::new();
        collect(&blocks[0], &mut taken);
        assert!(taken.is_empty() || taken == [(5, 105), (6, 106)]);
        if handover::state(&blocks[0]) == Some(BlockState::Zeroing) {
            handover::finish_zeroing(&blocks[0]);
        }
        let dropped = stamping.join().unwrap();
        collect(&blocks[0], &mut taken);
        stored_once_and_whole(taken, dropped, 2);
    });
}

/// What the collector takes from a complete block whose program may be about to overwrite it; then frees it.
fn collect_from_overwriter(block: &Shrunk, taken: &mut Vec<(i64, i64)>) {
    let done = || block.magic().load(Ordering::Acquire) == MAGIC && handover::is_complete(block);
    if done() && handover::take_done(block, done) {
        let read = |slot| (block.id(slot).load(Ordering::Relaxed), block.tick(slot).load(Ordering::Relaxed));
        taken.extend(handover::committed(block).map(read));
        handover::begin_zeroing(block);
        handover::finish_zeroing(block);
    }
}

/// Fills a block with two stamps from `first` on.
fn fill(block: &Shrunk, first: i64) {
    handover::publish(block, MAGIC);
    (0..2).for_each(|slot| {
        handover::commit(block.id(slot), block.tick(slot), first + i64::from(slot), first + i64::from(slot) + 100)
    });
}

#[test]
fn model_a_full_block_is_stored_once_or_overwritten_and_never_both() {
    loom::model(|| {
        let blocks = Arc::new([Shrunk::new()]);
        let theirs = Arc::clone(&blocks);
        let stamping = thread::spawn(move || {
            assert!(handover::claim(&theirs[0]));
            fill(&theirs[0], 1);
            let given_up = handover::overwrite(&theirs[0]);
            if given_up {
                handover::clear(&theirs[0]);
            }
            let again = given_up || handover::claim(&theirs[0]);
            if again {
                fill(&theirs[0], 5);
            }
            (given_up, again)
        });
        let mut taken = Vec::new();
        collect_from_overwriter(&blocks[0], &mut taken);
        let (given_up, again) = stamping.join().unwrap();
        collect_from_overwriter(&blocks[0], &mut taken);
        stored_once_and_whole(taken, 2 * i64::from(given_up), 2 + 2 * i64::from(again));
    });
}

/// An ended block: `end` says how many of its slots hold records.
struct Ended(Shrunk, AtomicU32);

impl Block for Ended {
    fn magic(&self) -> &AtomicU32 {
        self.0.magic()
    }
    fn state(&self) -> &AtomicU32 {
        self.0.state()
    }
    fn capacity(&self) -> u32 {
        match self.1.load(Ordering::Acquire) {
            0 => 2,
            end => end,
        }
    }
    fn id(&self, slot: u32) -> &AtomicI64 {
        self.0.id(slot)
    }
    fn tick(&self, slot: u32) -> &AtomicI64 {
        self.0.tick(slot)
    }
    fn zero_contents(&self) {
        self.0.zero_contents();
        self.1.store(0, Ordering::Relaxed);
    }
}

#[test]
fn model_a_block_that_ended_around_an_interrupted_stamp_waits_for_it() {
    loom::model(|| {
        let block = Arc::new(Ended(Shrunk::new(), AtomicU32::new(0)));
        let theirs = Arc::clone(&block);
        let stamping = thread::spawn(move || {
            assert!(handover::claim(&*theirs));
            handover::publish(&*theirs, MAGIC);
            theirs.1.store(1, Ordering::Release); // a handler adopts another policy; its stamp is elsewhere
            handover::commit(theirs.id(0), theirs.tick(0), 1, 101); // the one that it interrupted
        });
        let mut taken = Vec::new();
        let mut collect = || {
            let done = || block.magic().load(Ordering::Acquire) == MAGIC && handover::is_complete(&*block);
            if done() && handover::take_done(&*block, done) {
                let read = |slot| (block.id(slot).load(Ordering::Relaxed), block.tick(slot).load(Ordering::Relaxed));
                taken.extend(handover::committed(&*block).map(read));
                handover::begin_zeroing(&*block);
                handover::finish_zeroing(&*block);
            }
        };
        collect();
        stamping.join().unwrap();
        collect();
        assert_eq!(taken, [(1, 101)]);
    });
}

/// Two slots that the stamps of `first-last` take in turn; a reader, or a kill at any instruction, finds whole stamps.
#[test]
fn model_of_two_slots_in_turn_one_is_whole_at_any_instant() {
    loom::model(|| {
        let block = Arc::new(Shrunk::new());
        handover::commit(block.id(0), block.tick(0), 1, 101);
        let theirs = Arc::clone(&block);
        let stamping = thread::spawn(move || {
            for (slot, id) in [(1, 2), (0, 3)] {
                theirs.tick(slot).store(0, Ordering::Relaxed);
                loom::sync::atomic::fence(Ordering::Release);
                handover::commit(theirs.id(slot), theirs.tick(slot), id, id + 100);
            }
        });
        // From the later slot in turn: whoever reads while the program lives looks at the tick again.
        let read = |slot| {
            let tick = block.tick(slot).load(Ordering::Acquire);
            let id = block.id(slot).load(Ordering::Relaxed);
            loom::sync::atomic::fence(Ordering::Acquire);
            (tick != 0 && block.tick(slot).load(Ordering::Relaxed) == tick).then_some((id, tick))
        };
        for (id, tick) in [read(0), read(1)].into_iter().flatten() {
            assert_eq!(tick, id + 100, "torn");
        }
        stamping.join().unwrap();
        assert_eq!([read(0), read(1)], [Some((3, 103)), Some((2, 102))]);
    });
}

/// Switches to policy k with parameter 10 k in each epoch k. The checker sees no race of a store that its own
/// thread's load came right before, so the epoch is not read here.
fn switch_in(epochs: std::ops::RangeInclusive<u32>, (word, parameters): &(AtomicU64, [AtomicU64; 2])) {
    for epoch in epochs {
        policy::write(word, parameters, Setting { policy: epoch, epoch, parameter: u64::from(epoch) * 10 });
    }
}

fn channel() -> Arc<(AtomicU64, [AtomicU64; 2])> {
    Arc::new((AtomicU64::new(0), [AtomicU64::new(0), AtomicU64::new(0)]))
}

#[test]
fn model_a_policy_is_read_with_its_own_parameter_however_often_it_is_switched() {
    loom::model(|| {
        let channel = channel();
        let theirs = Arc::clone(&channel);
        let switching = thread::spawn(move || switch_in(1..=2, &theirs));
        let mut last = 0;
        for _ in 0..2 {
            let read = policy::read(&channel.0, &channel.1);
            assert_eq!((read.policy, read.parameter), (read.epoch, u64::from(read.epoch) * 10));
            assert!(read.epoch >= last, "back to {} from {last}", read.epoch);
            last = read.epoch;
        }
        switching.join().unwrap();
        assert_eq!(policy::read(&channel.0, &channel.1).epoch, 2);
    });
}

#[test]
fn model_a_switcher_killed_before_its_word_leaves_the_old_pair() {
    loom::model(|| {
        let channel = channel();
        switch_in(1..=1, &channel);
        let theirs = Arc::clone(&channel);
        let switching = thread::spawn(move || {
            theirs.1[0].store(666, Ordering::Release); // killed here; the next switcher finds epoch 1
            switch_in(2..=2, &theirs);
        });
        let read = policy::read(&channel.0, &channel.1);
        assert_eq!(u64::from(read.epoch) * 10, read.parameter);
        switching.join().unwrap();
    });
}
