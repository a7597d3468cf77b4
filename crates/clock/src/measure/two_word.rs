//! A running clock of two words, and readers of it by the routines of the Cm* study.
//!
//! The clock is the host's counter since some instant, of which each reading takes the half that was asked for: both
//! words change at once, as in the paper's hardware. A word is read under a lock that all readers share, one at a time,
//! as over the paper's bus. The low word wraps so often that calls meet it: a turn lasts some eight pairs of calls.
//!
//! As in the paper, readers do not start and stop together: the others start one after another from a fifth of the time
//! on, and stop likewise from three fifths on. Deliberately absent: clocks that a program writes with two stores; what
//! routines are worth on those is enumerated (`docs/two-word-clocks.md`).

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::*};
use std::sync::{Mutex, PoisonError};
use std::thread;

use tickscope_counter as counter;
use tickscope_host::affinity;
use tickscope_stats::Quantile;
use tickscope_tick::Frequency;

use super::recording::{POLL, Raised};
use crate::two_word::contention::{CallPair, Contention, Crowd, Recording};
use crate::two_word::routine::{OneRead, Routine, RoutineText, Word, WordPair, four_read, varying_read};

/// Pairs that are stored at most, in bursts of so many one after another.
const PAIRS_MAX: usize = 1 << 15;
const BURST: usize = 256;
/// Pairs of calls that a turn of the low word lasts at least.
const PAIRS_A_TURN: i64 = 8;
/// Pairs from which their usual length is taken.
const TRIED: usize = 255;
/// Share of the time in which that is tried.
const TRIED_SHARE: i64 = 8;

/// Settings of a measurement of a clock of two words.
#[derive(Clone, Copy, Debug)]
pub struct TwoWordPlan {
    /// Duration in all, seconds, about.
    pub seconds: f64,
    /// Readers at once, next to one alone.
    pub readers: usize,
}

/// Reads a clock of two words by each routine, by one reader and by several.
pub fn two_words(
    plan: TwoWordPlan,
    frequency: Frequency,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Contention>, tickscope_host::Finding> {
    const RECORDINGS: f64 = 6.0;
    let cpus = affinity::allowed_cpus()?;
    let ticks = (plan.seconds / RECORDINGS * frequency.hertz as f64) as i64;
    let mut found = Vec::new();
    for routine in Routine::ALL {
        let alone = TwoWords { cpus: &cpus, readers: 1, routine, low_bits: 0, ticks };
        // One clock for both numbers of readers: what they differ in is theirs.
        let low_bits = alone.low_bits_to_meet();
        for readers in [1, plan.readers] {
            progress(&format!("a clock of two words, {routine}, {readers} at once"));
            let recording = TwoWords { readers, low_bits, ..alone }.read();
            let crowd = Crowd { readers, takes_turns: readers > cpus.len() };
            found.push(recording.contention(routine, crowd, frequency.nanoseconds(1.0)));
        }
    }
    Ok(found)
}

/// How the clock is read.
#[derive(Clone, Copy)]
struct TwoWords<'a> {
    /// Allowed processors.
    cpus: &'a [usize],
    /// Threads that read at once.
    readers: usize,
    /// By which routine, as corrected.
    routine: Routine,
    /// Bits of the low word.
    low_bits: u32,
    /// How long, ticks.
    ticks: i64,
}

/// The clock.
struct Clock {
    bus: Mutex<()>,
    low_bits: u32,
    /// The counter when the clock was 0.
    origin: i64,
}

/// Not begun: when another reader is to start is not known.
const NOT_BEGUN: i64 = i64::MIN;

impl TwoWords<'_> {
    /// Reads for that long.
    fn read(&self) -> Recording {
        let clock = Clock { bus: Mutex::new(()), low_bits: self.low_bits, origin: counter::plain() };
        let (begun, over) = (AtomicI64::new(NOT_BEGUN), AtomicBool::new(false));
        let others = self.readers - 1;
        let at = |first: f64, other: usize| (self.ticks as f64 * (first + 0.2 * other as f64 / others as f64)) as i64;
        thread::scope(|scope| {
            let threads: Vec<_> = (0..others)
                .map(|other| {
                    let (clock, begun, over, turn) = (&clock, &begun, &over, [at(0.2, other), at(0.6, other)]);
                    scope.spawn(move || {
                        // A reader that may not be pinned reads all the same.
                        let _ = affinity::pin(self.cpus[(other + 1) % self.cpus.len()]);
                        Reader::new(clock, self.routine).read_between(turn, begun, over)
                    })
                })
                .collect();
            let measured = scope.spawn(|| {
                let _others_end = Raised(&over);
                let _ = affinity::pin(self.cpus[0]);
                begun.store(clock.now(), Release);
                Reader::new(&clock, self.routine).pairs(self.ticks)
            });
            let mut recording = measured.join().expect("a reader's thread ends well");
            for thread in threads {
                let [started, stopped] = thread.join().expect("a reader's thread ends well");
                recording.started.push(started);
                recording.stopped.push(stopped);
            }
            recording
        })
    }

    /// So many that a turn lasts some pairs, by how long pairs are here.
    fn low_bits_to_meet(&self) -> u32 {
        let tried = Self { low_bits: u32::BITS - 1, ticks: self.ticks / TRIED_SHARE, ..*self }.read();
        let mut took: Vec<i64> = tried.pairs.iter().take(TRIED).map(|pair| pair.took).collect();
        let usual = Quantile::MEDIAN.of(&mut took).unwrap_or(1_000);
        ((PAIRS_A_TURN * usual.max(1)) as u64).next_power_of_two().ilog2().min(u32::BITS - 1)
    }
}

impl Clock {
    fn turn(&self) -> i64 {
        1 << self.low_bits
    }

    fn split(&self, value: u64) -> WordPair {
        WordPair { high: (value >> self.low_bits) as u32, low: (value & ((1 << self.low_bits) - 1)) as u32 }
    }

    fn joined(&self, reading: WordPair) -> i64 {
        (i64::from(reading.high) << self.low_bits) + i64::from(reading.low)
    }

    fn now(&self) -> i64 {
        counter::after() - self.origin
    }

    /// One of its words.
    #[inline]
    fn word(&self, word: Word) -> u32 {
        let _bus = self.bus.lock().unwrap_or_else(PoisonError::into_inner);
        let WordPair { high, low } = self.split(self.now() as u64);
        if word == Word::High { high } else { low }
    }
}

/// One thread's way to read it.
struct Reader<'a> {
    clock: &'a Clock,
    routine: Routine,
    one_read: OneRead,
    words: u64,
}

impl<'a> Reader<'a> {
    fn new(clock: &'a Clock, routine: Routine) -> Self {
        Self { clock, routine, one_read: OneRead::default(), words: 0 }
    }

    /// Reads the clock by the routine.
    #[inline]
    fn call(&mut self) -> i64 {
        let Self { clock, words, .. } = self;
        let read = |word| {
            *words += 1;
            clock.word(word)
        };
        let reading = match self.routine {
            Routine::VaryingRead => varying_read(RoutineText::Corrected, read),
            Routine::FourRead => four_read(RoutineText::Corrected, read),
            Routine::OneRead => self.one_read.call(RoutineText::Corrected, read),
        };
        self.clock.joined(reading)
    }

    /// Reads from one of these instants to the other, in ticks since the measured reader began; returns when it did.
    fn read_between(mut self, [start, stop]: [i64; 2], begun: &AtomicI64, over: &AtomicBool) -> [i64; 2] {
        let due = |after: i64| {
            let begun = begun.load(Acquire);
            begun != NOT_BEGUN && self.clock.now() >= begun + after
        };
        while !over.load(Relaxed) && !due(start) {
            thread::sleep(POLL);
        }
        let (clock, until) = (self.clock, begun.load(Acquire).saturating_add(stop));
        let started = clock.now();
        while !over.load(Relaxed) && clock.now() < until {
            black_box(self.call());
        }
        [started, clock.now()]
    }

    /// `1-Read` must know the clock once in a turn: a reader that was away takes it anew.
    fn settle(&mut self) -> i64 {
        let now = self.clock.now();
        self.one_read = OneRead::at(self.clock.split(now as u64));
        now
    }

    fn pairs(mut self, ticks: i64) -> Recording {
        let mut recording = Recording {
            pairs: Vec::with_capacity(PAIRS_MAX),
            turn: self.clock.turn(),
            wrong: 0,
            words_per_tick: 0.0,
            started: Vec::new(),
            stopped: Vec::new(),
        };
        let begun = counter::plain();
        // Bursts are spread over the time.
        let every = ticks / (PAIRS_MAX / BURST) as i64;
        let (mut due, mut reading_ticks, mut now, mut pause) = (begun, 0, begun, Pause(1));
        while now - begun < ticks && recording.pairs.len() + BURST <= PAIRS_MAX {
            now = counter::plain();
            if now < due {
                spin_loop();
                continue;
            }
            due += every;
            for _ in 0..BURST {
                pause.a_little();
                self.pair(&mut recording);
            }
            let done = counter::plain();
            (reading_ticks, now) = (reading_ticks + done - now, done);
        }
        recording.words_per_tick = self.words as f64 / reading_ticks.max(1) as f64;
        recording
    }

    /// A pair of calls, stored if both results are of that time.
    #[inline]
    fn pair(&mut self, recording: &mut Recording) {
        let before = self.settle();
        let from = counter::before() - self.clock.origin;
        let first = self.call();
        let second = self.call();
        let to = counter::after() - self.clock.origin;
        let half = recording.turn / 2;
        if [first, second].iter().any(|&result| result < before - half || result > to + half) {
            recording.wrong += 1;
        } else {
            recording.pairs.push(CallPair { at: from, elapsed: second - first, took: to - from });
        }
    }
}

/// Lets pairs begin anywhere in a turn, however regular their lengths are.
struct Pause(u32);

impl Pause {
    fn a_little(&mut self) {
        const ROUNDS: u32 = 256;
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        for round in 0..(self.0 >> 16) % ROUNDS {
            black_box(round);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(routine: Routine, readers: usize, low_bits: Option<u32>) -> Recording {
        let cpus = affinity::allowed_cpus().unwrap();
        let asked = TwoWords { cpus: &cpus, readers, routine, low_bits: u32::BITS - 1, ticks: 100_000_000 };
        TwoWords { low_bits: low_bits.unwrap_or_else(|| asked.low_bits_to_meet()), ..asked }.read()
    }

    #[test]
    fn a_clock_too_slow_to_flip_within_a_read_shows_nothing_however_it_is_read() {
        for routine in Routine::ALL {
            let found =
                recorded(routine, 1, Some(31)).contention(routine, Crowd { readers: 1, takes_turns: false }, 1.0);
            let together = found.together.as_ref().expect("a reader alone reads");
            if together.flipped == 0 {
                assert!(together.peak.is_none() && together.trough.is_none(), "{}", found.words());
            }
        }
    }

    #[test]
    fn calls_shorter_than_half_a_turn_never_go_backward_however_many_read() {
        for (routine, readers) in [(Routine::VaryingRead, 1), (Routine::FourRead, 3), (Routine::OneRead, 3)] {
            let recording = recorded(routine, readers, None);
            assert_eq!([recording.started.len(), recording.stopped.len()], [readers - 1; 2]);
            assert!(recording.started.iter().zip(&recording.stopped).all(|(started, stopped)| started <= stopped));
            for pair in recording.pairs.iter().filter(|pair| pair.took < recording.turn / 2) {
                assert!(pair.elapsed >= 0 && pair.elapsed < pair.took + recording.turn / 2, "{routine}: {pair:?}");
            }
        }
    }
}
