//! What the three routines of the Cm* study are worth, by enumeration; and that the enumeration itself can go red.

use tickscope_clock::two_word::{Failures, Reading, Regime, Routine, Table, Text, Widths, Writer, failures, four_read};

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

/// Whether each regime (no wrap, whole wrap, a low turn or more) goes wrong: the first two the same at all widths, as a turn
/// of a word of one bit leaves little room beyond it.
fn goes_wrong(writer: Writer, routine: Routine, text: Text) -> [bool; 3] {
    let found = WIDTHS.map(|widths| wrong(&failures(widths, writer, routine, text)));
    assert!(found.iter().all(|one| one[..2] == found[3][..2]), "{routine} {text}, {writer}: {found:?}");
    found[3]
}

#[test]
fn the_printed_4_read_is_one_carry_too_old_on_an_atomic_counter_where_both_low_reads_fall_in_one_tick() {
    let found = failures(WIDTHS[3], Writer::Atomic, Routine::FourRead, Text::Printed);
    let within = found.of(Regime::Within);
    assert!(within.wrong() > 0 && within.too_new == 0);
    let example = within.example.as_ref().unwrap();
    println!("{example}");
    let [_, (_, first_low), _, (_, second_low)] = example.reads[..] else { panic!("{example}") };
    assert_eq!(first_low, second_low);
    assert_eq!(example.returned, Reading { high: first_low.high - 1, low: first_low.low });
}

#[test]
fn corrected_routines_are_right_on_an_atomic_counter_through_a_wrap_of_the_whole_clock() {
    for routine in Routine::ALL {
        assert_eq!(goes_wrong(Writer::Atomic, routine, Text::Corrected), [false, false, true], "{routine}");
    }
}

#[test]
fn printed_routines_fail_when_the_whole_clock_wraps() {
    assert_eq!(goes_wrong(Writer::Atomic, Routine::VaryingRead, Text::Printed), [false, true, true]);
    assert_eq!(goes_wrong(Writer::Atomic, Routine::FourRead, Text::Printed), [true, true, true]);
}

#[test]
fn the_printed_1_read_counts_a_wrap_whenever_two_reads_fall_in_one_tick() {
    let found = failures(WIDTHS[3], Writer::Atomic, Routine::OneRead, Text::Printed);
    let (within, values) = (found.of(Regime::Within), 16);
    assert_eq!((within.too_new + within.too_old, within.tried), (values, 4 * values - 6));
    let example = within.example.as_ref().unwrap();
    assert_eq!((example.known, example.at_most), (Some(example.at_least), example.at_least));
}

#[test]
fn no_routine_that_reads_the_high_word_is_right_with_two_stores_in_either_order() {
    for routine in [Routine::VaryingRead, Routine::FourRead] {
        for writer in [Writer::LowFirst, Writer::HighFirst] {
            for text in Text::ALL {
                assert!(goes_wrong(writer, routine, text)[0], "{routine} {text}, {writer}");
            }
        }
    }
}

#[test]
fn the_corrected_1_read_is_right_with_two_stores_in_either_order() {
    for writer in [Writer::LowFirst, Writer::HighFirst] {
        assert_eq!(goes_wrong(writer, Routine::OneRead, Text::Corrected), [false, false, true], "{writer}");
    }
}

#[test]
fn every_execution_of_one_bit_words_is_tried() {
    // 4 values; three delays that sum to at most 3 can be chosen in C(6, 3) = 20 ways.
    let found = failures(WIDTHS[0], Writer::Atomic, Routine::FourRead, Text::Corrected);
    assert_eq!(Regime::ALL.iter().map(|&regime| found.of(regime).tried).sum::<u64>(), 4 * 20);
    // 6 states, two of them between stores; three delays that sum to at most 5 can be chosen in C(8, 3) = 56 ways.
    let found = failures(WIDTHS[0], Writer::LowFirst, Routine::FourRead, Text::Corrected);
    assert_eq!(Regime::ALL.iter().map(|&regime| found.of(regime).tried).sum::<u64>(), 6 * 56);
}

#[test]
fn the_routines_run_on_a_real_pair_of_words_too() {
    let words = [7, 9];
    assert_eq!(four_read(Text::Corrected, |word| words[word as usize]), Reading { high: 7, low: 9 });
}

#[test]
fn the_table_has_every_routine_against_every_writer_with_an_example_where_it_fails() {
    let table = Table::of(WIDTHS[3]);
    assert_eq!(table.rows().len(), 3 * 2 * 3);
    let text = table.to_string();
    println!("{text}");
    assert!(text.contains("- 4-read as printed, atomic counter, no whole wrap: words "), "{text}");
}
