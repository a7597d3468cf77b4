//! A running clock of two words, and readers of it by the routines of the Cm* study.
//!
//! Two kinds. The host's counter since some instant, of which each reading takes the half that was asked for: both
//! words change at once, as in the paper's hardware, and it runs whatever else does. And a program's: a thread on the
//! last processor keeps two words at the counter by two stores, in either order, between which a reader may come. A
//! word is read under a lock that all readers share, one at a time, as over the paper's bus.
//!
//! The low word wraps so often that calls meet it: a turn lasts some eight pairs of calls. Where the program's thread
//! was not running, as on a busy machine it may not be, pairs are counted and left out: it keeps a third word, stored
//! once, by which that shows, and by which a result off by half a turn shows too.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering::*};
use std::sync::{Mutex, PoisonError};
use std::thread;

use tickscope_counter as counter;
use tickscope_host::affinity;

use crate::live::{Live, Pair};
use crate::routine::{OneRead, Reading, Routine, Text, Word, Writer, four_read, varying_read};

/// Pairs that are kept at most, in bursts of so many one after another.
const PAIRS_MAX: usize = 1 << 15;
const BURST: usize = 256;
/// Pairs of calls that a turn of the low word lasts at least.
const PAIRS_A_TURN: i64 = 8;
/// Pairs from which their usual length is taken.
const TRIED: usize = 255;

/// How the clock is read and written.
#[derive(Clone, Copy)]
pub struct TwoWords<'a> {
    /// Allowed processors; two at least for a program's clock.
    pub cpus: &'a [usize],
    /// Threads that read at once.
    pub readers: usize,
    /// By which routine, as corrected.
    pub routine: Routine,
    /// How it is written.
    pub writer: Writer,
    /// Bits of the low word.
    pub low_bits: u32,
    /// How long, ticks.
    pub ticks: i64,
    /// A writer that did not come by for longer was not running, ticks.
    pub away_ticks: i64,
}

/// The clock; what is written alone in its cache lines, which processors fetch in pairs.
struct Clock {
    writer: Writer,
    bus: Mutex<()>,
    words: Words,
    beat: Beat,
    low_bits: u32,
    /// The counter when the clock was 0.
    origin: i64,
}

#[repr(align(128))]
struct Words {
    high: AtomicU32,
    low: AtomicU32,
}

/// Value of the clock when the writer last came by.
#[repr(align(128))]
struct Beat(AtomicI64);

impl TwoWords<'_> {
    /// Whether there are more readers than processors for them.
    pub fn takes_turns(&self) -> bool {
        self.readers > self.readers_cpus().len()
    }

    /// All processors but that of a thread that writes the clock.
    fn readers_cpus(&self) -> &[usize] {
        let written = usize::from(self.writer != Writer::Atomic);
        &self.cpus[..self.cpus.len() - written]
    }

    /// Reads for that long.
    pub fn read(&self) -> Live {
        let clock = Clock::new(self.writer, self.low_bits);
        let over = AtomicBool::new(false);
        let readers = self.readers_cpus();
        thread::scope(|scope| {
            if self.writer != Writer::Atomic {
                scope.spawn(|| {
                    // A writer that may not be pinned writes all the same.
                    let _ = affinity::pin(self.cpus[self.cpus.len() - 1]);
                    while !over.load(Relaxed) {
                        clock.advance();
                    }
                });
            }
            for other in 1..self.readers {
                let (clock, over) = (&clock, &over);
                scope.spawn(move || {
                    let _ = affinity::pin(readers[other % readers.len()]);
                    let mut reader = Reader::new(clock, self.routine);
                    while !over.load(Relaxed) {
                        black_box(reader.call());
                    }
                });
            }
            let measured = scope.spawn(|| {
                let _others_end = Raised(&over);
                let _ = affinity::pin(readers[0]);
                Reader::new(&clock, self.routine).pairs(self.ticks, self.away_ticks)
            });
            measured.join().expect("a reader's thread ends well")
        })
    }

    /// So many that a turn lasts some pairs, by how long pairs are here.
    pub fn low_bits_to_meet(&self) -> u32 {
        let tried = Self { low_bits: u32::BITS - 1, ..*self }.read();
        let mut took: Vec<i64> = tried.pairs.iter().take(TRIED).map(|pair| pair.took).collect();
        let usual = tickscope_stats::Quantile::MEDIAN.of(&mut took).unwrap_or(1_000);
        ((PAIRS_A_TURN * usual.max(1)) as u64).next_power_of_two().ilog2().min(u32::BITS - 1)
    }
}

impl Clock {
    fn new(writer: Writer, low_bits: u32) -> Self {
        let words = Words { high: AtomicU32::new(0), low: AtomicU32::new(0) };
        let (bus, beat) = (Mutex::new(()), Beat(AtomicI64::new(0)));
        Self { writer, bus, words, beat, low_bits, origin: counter::plain() }
    }

    fn turn(&self) -> i64 {
        1 << self.low_bits
    }

    fn split(&self, value: u64) -> Reading {
        Reading { high: (value >> self.low_bits) as u32, low: (value & ((1 << self.low_bits) - 1)) as u32 }
    }

    fn joined(&self, reading: Reading) -> i64 {
        (i64::from(reading.high) << self.low_bits) + i64::from(reading.low)
    }

    fn now(&self) -> i64 {
        counter::after() - self.origin
    }

    /// Sets a program's clock to the counter.
    fn advance(&self) {
        let now = self.now();
        let Reading { high, low } = self.split(now as u64);
        let stores = [(&self.words.low, low), (&self.words.high, high)];
        let order = if self.writer == Writer::HighFirst { [1, 0] } else { [0, 1] };
        for (word, value) in order.map(|at| stores[at]) {
            // Release: stores are seen in the order in which they were made.
            word.store(value, Release);
        }
        self.beat.0.store(now, Release);
    }

    /// When it was last known to run: a program's when its thread came by.
    fn seen(&self) -> i64 {
        if self.writer == Writer::Atomic { self.now() } else { self.beat.0.load(Acquire) }
    }

    /// One of its words. Acquire: later reads are not made before.
    #[inline]
    fn word(&self, word: Word) -> u32 {
        let _bus = self.bus.lock().unwrap_or_else(PoisonError::into_inner);
        match (self.writer, word) {
            (Writer::Atomic, Word::High) => self.split(self.now() as u64).high,
            (Writer::Atomic, Word::Low) => self.split(self.now() as u64).low,
            (_, Word::High) => self.words.high.load(Acquire),
            (_, Word::Low) => self.words.low.load(Acquire),
        }
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
            Routine::VaryingRead => varying_read(Text::Corrected, read),
            Routine::FourRead => four_read(Text::Corrected, read),
            Routine::OneRead => self.one_read.call(Text::Corrected, read),
        };
        self.clock.joined(reading)
    }

    /// `1-Read` must know the clock once in a turn: who was away takes it anew.
    fn settle(&mut self) -> i64 {
        let seen = self.clock.seen();
        self.one_read = OneRead::at(self.clock.split(seen as u64));
        seen
    }

    fn pairs(mut self, ticks: i64, away_ticks: i64) -> Live {
        let turn = self.clock.turn();
        let mut live =
            Live { pairs: Vec::with_capacity(PAIRS_MAX), turn, writer_away: 0, wrong: 0, words_per_tick: 0.0 };
        let begun = counter::plain();
        // Bursts are spread over the time; the first one waits until the writer has come.
        let every = ticks / (PAIRS_MAX / BURST) as i64;
        let (mut due, mut reading_ticks, mut now, mut pause) = (begun, 0, begun, Pause(1));
        while now - begun < ticks && live.pairs.len() + BURST <= PAIRS_MAX {
            now = counter::plain();
            if now < due || self.clock.seen() == 0 {
                spin_loop();
                continue;
            }
            due += every;
            for _ in 0..BURST {
                pause.a_little();
                self.pair(&mut live, away_ticks);
            }
            let done = counter::plain();
            (reading_ticks, now) = (reading_ticks + done - now, done);
        }
        live.words_per_tick = self.words as f64 / reading_ticks.max(1) as f64;
        live
    }

    /// A pair of calls, kept if the clock ran and both results are of that time.
    #[inline]
    fn pair(&mut self, live: &mut Live, away_ticks: i64) {
        let before = self.settle();
        let from = counter::before() - self.clock.origin;
        let first = self.call();
        let second = self.call();
        let to = counter::after() - self.clock.origin;
        let after = self.clock.seen();
        let half = live.turn / 2;
        let away = half.min(away_ticks);
        if from - before > away || to - after > away {
            live.writer_away += 1;
        } else if [first, second].iter().any(|&result| result < before - half || result > after + half) {
            live.wrong += 1;
        } else {
            live.pairs.push(Pair { at: from, elapsed: second - first, took: to - from });
        }
    }
}

/// Tells others that it is over, however the thread ends.
struct Raised<'a>(&'a AtomicBool);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
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

    fn live(routine: Routine, writer: Writer, low_bits: Option<u32>) -> Option<Live> {
        let cpus = affinity::allowed_cpus().unwrap();
        let (ticks, away_ticks) = (200_000_000, 5_000);
        let asked = TwoWords { cpus: &cpus, readers: 1, routine, writer, low_bits: u32::BITS - 1, ticks, away_ticks };
        let low_bits = low_bits.unwrap_or_else(|| asked.low_bits_to_meet());
        (cpus.len() > 1).then(|| TwoWords { low_bits, ..asked }.read())
    }

    #[test]
    fn a_writer_too_slow_to_flip_within_a_read_shows_nothing_however_it_is_read() {
        for routine in Routine::ALL {
            let Some(live) = live(routine, Writer::Atomic, Some(31)) else { return };
            let Ok(test) = live.test(routine, Writer::Atomic, 1.0) else { continue };
            if test.flipped == 0 {
                assert!(test.peak().is_none() && test.trough().is_none(), "{}", test.words());
            }
        }
    }

    #[test]
    fn calls_shorter_than_half_a_turn_never_go_backward_on_a_clock_that_is_stored_at_once() {
        for routine in Routine::ALL {
            let Some(live) = live(routine, Writer::Atomic, None) else { return };
            for pair in live.pairs.iter().filter(|pair| pair.took < live.turn / 2) {
                assert!(pair.elapsed >= 0 && pair.elapsed < pair.took + live.turn / 2, "{routine}: {pair:?}");
            }
        }
    }
}
