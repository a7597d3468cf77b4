//! Time of a reading of a running clock of two words, by routine and writer: figures 1 to 3 of the Cm* study, as text.
//!
//! `cargo run --release -p tickscope-clock --example two_word_clocks`. What the routines are worth is in
//! `docs/two-word-clocks.md`; nothing of this is part of the command.

mod live;
mod reader;
#[allow(dead_code, reason = "the model's test uses the rest")]
#[path = "../../tests/two_word/routine.rs"]
mod routine;

use live::LiveTest;
use reader::TwoWords;
use routine::{Routine, Writer};
use tickscope_host::affinity;
use tickscope_host::facts::CounterFacts;

/// The writer of a clock of two words comes by every some tens of ns: one that does not for so long was put aside.
const WRITER_AWAY_NS: f64 = 2_000.0;
/// How long each is read, seconds.
const SECONDS: f64 = 0.5;

fn main() {
    let cpus = affinity::allowed_cpus().expect("the list of allowed processors");
    let frequency = CounterFacts::of_this_host().expect("a counter").frequency;
    let ns = frequency.nanoseconds(1.0);
    let (ticks, away_ticks) = ((SECONDS * frequency.hertz as f64) as i64, (WRITER_AWAY_NS / ns) as i64);
    for routine in Routine::ALL {
        let alone =
            TwoWords { cpus: &cpus, readers: 1, routine, writer: Writer::Atomic, low_bits: 0, ticks, away_ticks };
        // One clock for all numbers of readers: what they differ in is theirs.
        let low_bits = alone.low_bits_to_meet();
        let by_readers = [1, cpus.len().max(4)].map(|readers| (Writer::Atomic, readers));
        let stored = [(Writer::LowFirst, 1), (Writer::HighFirst, 1)].into_iter().filter(|_| cpus.len() > 1);
        for (writer, readers) in by_readers.into_iter().chain(stored) {
            let asked = TwoWords { writer, readers, low_bits, ..alone };
            // Of a writer that never ran there is nothing to tell.
            let Ok(test) = asked.read().test(routine, writer, ns) else { continue };
            print(&test, readers, asked.takes_turns());
        }
    }
}

fn print(test: &LiveTest, readers: usize, takes_turns: bool) {
    let turns = if takes_turns { " taking turns" } else { "" };
    println!(
        "{}; {}, {readers} reading{turns}, {:.1} M words/s each",
        test.words(),
        test.writer,
        test.words_per_s / 1e6
    );
    println!(
        "  mean {:.1} ns, deviation {:.1}; {} pairs, {} saw a flip; off by half a turn or more: {}; left out, no \
         writer: {}",
        test.mean_ns, test.deviation_ns, test.pairs, test.flipped, test.wrong, test.writer_away
    );
    println!("  ns after a flip of {:.0}, median, what it lies between with 99.9 %, pairs", test.turn_ns);
    for phase in test.phases.iter().step_by(4) {
        let [lo, hi] = phase.between_ns;
        println!("  {:>9.1} {:>9.1} [{lo:.1} to {hi:.1}] {}", phase.at_ns, phase.median_ns, phase.pairs);
    }
}
