//! Every policy's rule on memory that two threads share, a program and its collector, small enough for Miri:
//! `cargo +nightly miri test -p tickscope-stamp --test memory_model`. Channels themselves need shared mappings and
//! locks of files, which Miri does not have; the interleavings are the model checker's (`model.rs`).
#![cfg(not(loom))]

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::thread;

use tickscope_stamp::block::BlockState;
use tickscope_stamp::handover::{self, Block};
use tickscope_stamp::policies::first_last::FirstLast;
use tickscope_stamp::policies::{Action, Choice, count};
use tickscope_stamp::policy;

const SLOTS: usize = FirstLast::SLOTS as usize;
const STAMPS: i64 = 3 * SLOTS as i64;
const POLICIES: [&str; 11] = [
    "null",
    "buffered",
    "all",
    "every 7",
    "2 of 5",
    "count 10ms",
    "first-last",
    "first-last 40",
    "return-trip",
    "keep 10s",
    "own",
];

struct Memory {
    magic: AtomicU32,
    state: AtomicU32,
    records: [[AtomicI64; 2]; SLOTS],
}

impl Memory {
    fn new() -> Self {
        let records = std::array::from_fn(|_| [AtomicI64::new(0), AtomicI64::new(0)]);
        Self { magic: AtomicU32::new(0), state: AtomicU32::new(0), records }
    }
}

impl Block for Memory {
    fn magic(&self) -> &AtomicU32 {
        &self.magic
    }
    fn state(&self) -> &AtomicU32 {
        &self.state
    }
    fn capacity(&self) -> u32 {
        SLOTS as u32
    }
    fn id(&self, slot: u32) -> &AtomicI64 {
        &self.records[slot as usize][0]
    }
    fn tick(&self, slot: u32) -> &AtomicI64 {
        &self.records[slot as usize][1]
    }
    fn zero_contents(&self) {
        self.records.iter().flatten().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

/// What a channel's entry and its blocks are to both sides.
struct Shared {
    word: AtomicU64,
    parameters: [AtomicU64; 2],
    seen: AtomicU64,
    counted: AtomicU64,
    blocks: [Memory; 4],
    ended: AtomicBool,
}

/// The program: stamps ids from 0 on, with the id plus 1 as the tick.
fn stamp_all(shared: &Shared) {
    let setting = policy::read(&shared.word, &shared.parameters);
    let rule = Choice::of(setting.policy, setting.parameter).unwrap().rule();
    let first = if let Action::Every(every) = rule { every.first(0) } else { 0 };
    let (kept_next, mut own, mut slot) = (AtomicU64::new(first), None, 0);
    for id in 0..STAMPS {
        let keeps = match rule {
            Action::Every(every) => every.keeps(&shared.seen, &kept_next),
            Action::XOfY(rule) => rule.keeps(id),
            Action::Own => id % 3 == 0,
            Action::Store | Action::All | Action::FirstLast(_) => true,
            Action::Count => {
                count::count(&shared.counted);
                false
            }
            Action::Nothing | Action::Unknown => false,
        };
        if !keeps {
            continue;
        }
        let block: &Memory = own.get_or_insert_with(|| {
            let claimed = shared.blocks.iter().find(|block| handover::claim(*block)).expect("a free block");
            handover::publish(claimed, 1);
            claimed
        });
        if let Action::FirstLast(rule) = rule {
            slot = rule.slot(0, |slot| block.tick(slot));
            block.tick(slot).store(0, Ordering::Relaxed);
        }
        handover::commit(block.id(slot), block.tick(slot), id, id + 1);
        slot += 1;
        match rule {
            Action::FirstLast(rule) if rule.ends(id) => break,
            Action::FirstLast(_) => {}
            _ if slot as usize == SLOTS => (own, slot) = (None, 0), // a full one is complete without our word
            _ => {}
        }
    }
    if let Some(block) = own {
        handover::release(block);
    }
    shared.ended.store(true, Ordering::Release);
}

/// The collector: takes blocks as they are done, and frees them.
fn collect_all(shared: &Shared, is_first_last: bool) -> Vec<(i64, i64)> {
    let mut found = Vec::new();
    loop {
        let ended = shared.ended.load(Ordering::Acquire);
        for block in &shared.blocks {
            let taken = match handover::state(block) {
                Some(BlockState::Released) => handover::take(block, BlockState::Released),
                Some(BlockState::Leased) => {
                    handover::take_done(block, || !is_first_last && handover::is_complete(block))
                }
                _ => false,
            };
            if taken {
                let read = |slot| (block.id(slot).load(Ordering::Relaxed), block.tick(slot).load(Ordering::Relaxed));
                found.extend(handover::committed(block).map(read));
                handover::begin_zeroing(block);
                handover::finish_zeroing(block);
            }
        }
        if ended {
            return found;
        }
        thread::yield_now();
    }
}

#[test]
fn what_a_collector_takes_beside_a_program_is_what_the_policy_says() {
    for text in POLICIES {
        let choice: Choice = text.parse().unwrap();
        let shared = Shared {
            word: AtomicU64::new(0),
            parameters: [AtomicU64::new(0), AtomicU64::new(0)],
            seen: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            blocks: std::array::from_fn(|_| Memory::new()),
            ended: AtomicBool::new(false),
        };
        policy::switch(&shared.word, &shared.parameters, choice.policy() as u32, choice.parameter());
        let is_first_last = text.starts_with("first-last");
        let mut found = thread::scope(|scope| {
            scope.spawn(|| stamp_all(&shared));
            collect_all(&shared, is_first_last)
        });
        found.sort_unstable();
        assert!(found.iter().all(|&(id, tick)| tick == id + 1), "{text}: {found:?}");
        let ids: Vec<i64> = found.iter().map(|&(id, _)| id).collect();
        let kept = |keeps: &dyn Fn(i64) -> bool| (0..STAMPS).filter(|&id| keeps(id)).collect::<Vec<_>>();
        let expected = match text {
            "null" | "count 10ms" => Vec::new(),
            "every 7" => kept(&|id| id % 7 == 6),
            "2 of 5" => kept(&|id| id % 5 < 2),
            "own" => kept(&|id| id % 3 == 0),
            "first-last" => vec![0, STAMPS - 2, STAMPS - 1],
            "first-last 40" => vec![0, 39, 40],
            _ => kept(&|_| true),
        };
        assert_eq!(ids, expected, "{text}");
        let counted = if text == "count 10ms" { STAMPS as u64 } else { 0 };
        assert_eq!(shared.counted.load(Ordering::Relaxed), counted);
    }
}

#[test]
fn a_policy_is_read_with_its_own_parameter_while_it_is_switched() {
    let (word, parameters) = (AtomicU64::new(0), [AtomicU64::new(0), AtomicU64::new(0)]);
    thread::scope(|scope| {
        scope
            .spawn(|| (1..20u32).for_each(|policy| policy::switch(&word, &parameters, policy, u64::from(policy) * 10)));
        for _ in 0..20 {
            let setting = policy::read(&word, &parameters);
            assert_eq!((setting.epoch, setting.parameter), (setting.policy, u64::from(setting.policy) * 10));
        }
    });
}
