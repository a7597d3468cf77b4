//! Clocks wider than what is read at once: a high and a low word, and a clock that runs on between two reads.
//!
//! The three routines of the Cm* study (3.2), each as the paper prints it and as corrected, and a proof by enumeration
//! of what each is worth: `enumeration::failures` tries every way in which the clock can run on between the reads.
//!
//! **The model.** Words of a few bits stand for words of 16 or 32: the routines only compare, so what they do depends
//! on the order of values and on where the words wrap, not on how wide they are. The clock counts up by one a tick and
//! wraps to 0 after its largest value. It is written by an atomic counter, both words at once, or by a program with two
//! stores, in either order; a store of a high word that does not change is no store. Reads and stores happen one at a
//! time and in program order. Before every read the writer takes any number of steps, up to a whole turn of the clock
//! in one call; a call begins anywhere in the clock's range, and between the two stores too.
//!
//! **Right** is a result that the clock had at some instant of the call. While a program is between its two stores,
//! both the old and the new value count.
//!
//! What the routines cost on a clock that runs is measured by `tickscope clock two-words`.
//!
//! Assumes: one writer; stores seen in the order they were made (x86, or release and acquire). Deliberately absent: a
//! routine that is right with every writer. There is none with two words and two stores; read one atomic word.

mod enumeration;
mod table;

use enumeration::{Failures, Regime, Widths, failures};
use table::Table;
use tickscope_clock::two_word::routine::{self, Routine, RoutineText, WordPair, Writer, four_read};

/// Small words and unequal ones: what holds for all of them does not hang on a width.
const WIDTHS: [Widths; 4] = [
    Widths { high_bits: 1, low_bits: 1 },
    Widths { high_bits: 1, low_bits: 2 },
    Widths { high_bits: 2, low_bits: 1 },
    Widths { high_bits: 2, low_bits: 2 },
];

fn wrong(failures: &Failures) -> [bool; 3] {
    Regime::ALL.map(|regime| failures.of(regime).wrong() > 0)
}

/// Whether each regime (no wrap, whole wrap, a low turn or more) goes wrong: the first two the same at all widths, as a
/// turn of a word of one bit leaves little room beyond it.
fn goes_wrong(writer: Writer, routine: Routine, text: RoutineText) -> [bool; 3] {
    let found = WIDTHS.map(|widths| wrong(&failures(widths, writer, routine, text)));
    assert!(found.iter().all(|one| one[..2] == found[3][..2]), "{routine} {text}, {writer}: {found:?}");
    found[3]
}

#[test]
fn the_printed_4_read_is_one_carry_too_old_on_an_atomic_counter_where_both_low_reads_fall_in_one_tick() {
    let found = failures(WIDTHS[3], Writer::Atomic, Routine::FourRead, RoutineText::Printed);
    let within = found.of(Regime::Within);
    assert!(within.wrong() > 0 && within.too_new == 0);
    let example = within.example.as_ref().unwrap();
    println!("{example}");
    let [_, (_, first_low), _, (_, second_low)] = example.reads[..] else { panic!("{example}") };
    assert_eq!(first_low, second_low);
    assert_eq!(example.returned, WordPair { high: first_low.high - 1, low: first_low.low });
}

#[test]
fn corrected_routines_are_right_on_an_atomic_counter_through_a_wrap_of_the_whole_clock() {
    for routine in Routine::ALL {
        assert_eq!(goes_wrong(Writer::Atomic, routine, RoutineText::Corrected), [false, false, true], "{routine}");
    }
}

#[test]
fn printed_routines_fail_when_the_whole_clock_wraps() {
    assert_eq!(goes_wrong(Writer::Atomic, Routine::VaryingRead, RoutineText::Printed), [false, true, true]);
    assert_eq!(goes_wrong(Writer::Atomic, Routine::FourRead, RoutineText::Printed), [true, true, true]);
}

#[test]
fn the_printed_1_read_counts_a_wrap_whenever_two_reads_fall_in_one_tick() {
    let found = failures(WIDTHS[3], Writer::Atomic, Routine::OneRead, RoutineText::Printed);
    let (within, values) = (found.of(Regime::Within), 16);
    assert_eq!((within.too_new + within.too_old, within.tried), (values, 4 * values - 6));
    let example = within.example.as_ref().unwrap();
    assert_eq!((example.known, example.at_most), (Some(example.at_least), example.at_least));
}

#[test]
fn no_routine_that_reads_the_high_word_is_right_with_two_stores_in_either_order() {
    for routine in [Routine::VaryingRead, Routine::FourRead] {
        for writer in [Writer::LowFirst, Writer::HighFirst] {
            for text in RoutineText::ALL {
                assert!(goes_wrong(writer, routine, text)[0], "{routine} {text}, {writer}");
            }
        }
    }
}

#[test]
fn the_corrected_1_read_is_right_with_two_stores_in_either_order() {
    for writer in [Writer::LowFirst, Writer::HighFirst] {
        assert_eq!(goes_wrong(writer, Routine::OneRead, RoutineText::Corrected), [false, false, true], "{writer}");
    }
}

#[test]
fn every_execution_of_one_bit_words_is_tried() {
    // 4 values; three delays that sum to at most 3 can be chosen in C(6, 3) = 20 ways.
    let found = failures(WIDTHS[0], Writer::Atomic, Routine::FourRead, RoutineText::Corrected);
    assert_eq!(Regime::ALL.iter().map(|&regime| found.of(regime).tried).sum::<u64>(), 4 * 20);
    // 6 states, two of them between stores; three delays that sum to at most 5 can be chosen in C(8, 3) = 56 ways.
    let found = failures(WIDTHS[0], Writer::LowFirst, Routine::FourRead, RoutineText::Corrected);
    assert_eq!(Regime::ALL.iter().map(|&regime| found.of(regime).tried).sum::<u64>(), 6 * 56);
}

#[test]
fn the_routines_run_on_a_real_pair_of_words_too() {
    let words = [7, 9];
    assert_eq!(four_read(RoutineText::Corrected, |word| words[word as usize]), WordPair { high: 7, low: 9 });
}

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/two-word-clocks.md");

#[test]
fn the_page_has_every_routine_against_every_writer_with_an_example_where_it_fails() {
    let table = Table::of(WIDTHS[3]);
    assert_eq!(table.rows().len(), 3 * 2 * 3);
    let (page, generated) = (std::fs::read_to_string(PAGE).unwrap(), table.to_string());
    let (head, _) = page.split_once("| routine |").unwrap();
    if std::env::var_os("TICKSCOPE_WRITE_DOCS").is_some() {
        std::fs::write(PAGE, format!("{head}{generated}")).unwrap();
    }
    let page = std::fs::read_to_string(PAGE).unwrap();
    assert!(page.ends_with(&generated), "write the page anew with TICKSCOPE_WRITE_DOCS=1");
}
