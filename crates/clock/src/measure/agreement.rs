//! Order of a clock's readings from one processor to another.
//!
//! Two pinned threads pass a turn back and forth; whoever has it reads the clock and leaves the reading for the other.
//! A reading that is less than the one it was handed went backward across processors. Deliberately absent: how far the
//! counters of two processors are apart, which `tick::sharing` bounds.

use std::hint::spin_loop;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::*};
use std::thread;

use serde::Serialize;
use tickscope_counter as counter;
use tickscope_host::affinity;

use super::service::{Job, Service};

/// Readings compared between the first processor and each other one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Agreement {
    /// Readings compared with one on the other processor just before.
    pub passages: u64,
    /// How many were less.
    pub backward: u64,
    /// By how much at most, in the clock's unit.
    pub backward_worst: i64,
}

/// Passes the turn between the first processor and each of up to 15 others, for `ticks` together; on a busy machine for
/// up to so many times as long, until some turns were passed. Time that is over by then is over: nothing may have been
/// compared.
pub fn agreement(service: &Service, cpus: &[usize], ticks: i64) -> io::Result<Agreement> {
    const OTHERS_MAX: usize = 15;
    const PATIENCE: i64 = 8;
    let others = &cpus[1..cpus.len().min(1 + OTHERS_MAX)];
    let mut all = Agreement::default();
    for &other in others {
        let turn = Turn::default();
        let side = |parity: u64, cpu: usize| {
            // Where pinning is refused the two may share a processor: then nothing goes backward.
            let _ = affinity::pin(cpu);
            let ticks = ticks / others.len() as i64;
            let job = Side { turn: &turn, parity, ticks, latest: PATIENCE * ticks };
            let done = service.reader().map(|reader| reader.drive(job));
            turn.over.store(true, Relaxed);
            done
        };
        let [first, second] = thread::scope(|scope| {
            let second = scope.spawn(|| side(1, other));
            let first = scope.spawn(|| side(0, cpus[0]));
            [first.join(), second.join()].map(|side| side.expect("a side ends well"))
        });
        all = all.and(first?).and(second?);
    }
    Ok(all)
}

impl Agreement {
    fn and(self, other: Self) -> Self {
        Self {
            passages: self.passages + other.passages,
            backward: self.backward + other.backward,
            backward_worst: self.backward_worst.max(other.backward_worst),
        }
    }
}

/// Whose turn it is, and the last reading.
#[repr(align(128))]
struct Turn {
    number: AtomicU64,
    reading: AtomicI64,
    over: AtomicBool,
}

impl Default for Turn {
    fn default() -> Self {
        Self { number: AtomicU64::new(0), reading: AtomicI64::new(i64::MIN), over: AtomicBool::new(false) }
    }
}

struct Side<'a> {
    turn: &'a Turn,
    parity: u64,
    ticks: i64,
    /// The same where too few turns were passed.
    latest: i64,
}

impl Job for Side<'_> {
    type Output = Agreement;

    fn run(self, mut read: impl FnMut() -> i64) -> Agreement {
        let begun = counter::plain();
        let mut seen = Agreement::default();
        while let Some(number) = self.await_turn(begun) {
            let handed = self.turn.reading.load(Relaxed);
            let reading = read();
            if handed != i64::MIN {
                seen.passages += 1;
                seen.backward += u64::from(reading < handed);
                seen.backward_worst = seen.backward_worst.max(handed.saturating_sub(reading));
            }
            self.turn.reading.store(reading, Relaxed);
            // Release: who sees the turn sees the reading.
            self.turn.number.store(number + 1, Release);
        }
        seen
    }
}

impl Side<'_> {
    /// The turn's number once it is this side's; `None` when time is over.
    fn await_turn(&self, begun: i64) -> Option<u64> {
        /// Turns that are waited for.
        const TURNS_MIN: u64 = 16;
        const SPINS_BETWEEN_LOOKS: u32 = 500;
        let over = |number| {
            let passed = counter::plain() - begun;
            self.turn.over.load(Relaxed) || passed >= if number < TURNS_MIN { self.latest } else { self.ticks }
        };
        let mut spins = 0;
        loop {
            // Acquire: pairs with the release of the other side.
            let number = self.turn.number.load(Acquire);
            if number % 2 == self.parity {
                return (!over(number)).then_some(number);
            }
            spins += 1;
            if spins % SPINS_BETWEEN_LOOKS == 0 {
                if over(number) {
                    return None;
                }
                thread::yield_now();
            }
            spin_loop();
        }
    }
}
