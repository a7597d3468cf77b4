//! The page of clocks that are read by halves: every routine against every writer, and how each that fails does.

use tickscope_clock::two_word::{CounterExample, Reading, Regime, Row, Table, Widths, Word, Writer};

use super::{Part, lead, page, panel, parts, table, terms};
use crate::plot::{Axis, Figure, Ink};
use crate::text::Text;

const TERMS: [(&str, &str); 7] = [
    ("varying-read", "reads high, low, high; and low again if the high word changed in between"),
    ("4-read", "reads high, low, high, low, and returns the low word it read first: always as long"),
    (
        "1-read",
        "reads low alone and counts its wraps: right only for who reads at least once in each turn of the low word",
    ),
    ("as printed", "as the Cm* study prints it (Kong, Spector and Siewiorek, CMU-CS-86-136, 3.2)"),
    ("corrected", "with the comparisons that its prose asks for, and a high word that may wrap"),
    ("two stores", "a program writes the clock, one word and then the other; a reader may come in between"),
    (
        "wrong",
        "the result is a time that the clock had at no instant of the call. Every way in which the clock can run on between the reads was tried",
    ),
];

/// The page of a table.
pub fn two_words_page(tried: &Table) -> String {
    let Widths { high_bits, low_bits } = tried.widths();
    let (first, others) = examples(tried);
    let failures = format!(
        "<p class=\"note\">The shortest call of each that goes wrong. A time is written high:low. From left to right the reads of the call: what the clock's words \
         were then. What is returned should lie on the shaded ground: the times that the clock had during the call.</p>\
         <p class=\"legend\"><span><i class=\"dot\"></i>the clock's words at each read</span><span><i class=\"area soft\"></i>right results</span>\
         <span><i class=\"line second\"></i>what is returned</span></p>{}",
        super::multiples(&first, &others, "Those that fail only where a turn of the low word or more passes")
    );
    let body = [
        lead(&advice(tried)),
        parts(&[
            Part::of("Who is right", format!("{}{}", counts(tried), terms(&TERMS))),
            Part::of("How they fail", failures),
        ]),
    ]
    .concat();
    let about = format!(
        "by every interleaving of words of {high_bits} and {low_bits} bits, which stand for words of any width"
    );
    page("Clocks of two words", &about, &body)
}

/// As long as less than a turn of the low word passes.
const SOON: [Regime; 2] = [Regime::Within, Regime::WholeWrap];

fn right(row: &Row) -> bool {
    SOON.into_iter().all(|regime| row.failures.of(regime).wrong() == 0)
}

fn advice(tried: &Table) -> Vec<String> {
    let list = |writers: &[Writer], is_right: bool| {
        let rows = tried.rows().iter().filter(|row| writers.contains(&row.writer) && right(row) == is_right);
        let mut names: Vec<String> = rows.map(|row| format!("{} {}", row.routine, row.text)).collect();
        names.dedup();
        if names.is_empty() { "none".into() } else { names.join(", ") }
    };
    vec![
        "Read a clock as one word wherever the machine can: no routine here is needed then.".into(),
        format!(
            "Where both words change at once and less than a turn of the low word passes in a call, right in every way tried: {}. Wrong: {}.",
            list(&[Writer::Atomic], true),
            list(&[Writer::Atomic], false)
        ),
        format!(
            "Where a program stores the words one after the other, right: {}.",
            list(&[Writer::LowFirst, Writer::HighFirst], true)
        ),
    ]
}

fn counts(tried: &Table) -> String {
    let row = |row: &Row| {
        let count = |regime: Regime| {
            let tally = row.failures.of(regime);
            if tally.wrong() == 0 {
                format!("none of {}", tally.tried)
            } else {
                format!("{} of {}", tally.wrong(), tally.tried)
            }
        };
        let verdict = if right(row) { "right" } else { "wrong" };
        let name = format!("{} {}", row.routine, row.text);
        let counts = Regime::ALL.map(count).to_vec();
        [vec![name, row.writer.to_string(), verdict.into()], counts].concat()
    };
    let columns = [
        "routine",
        "written by",
        "before a turn of low",
        "wrong: no wrap",
        "whole clock wraps",
        "a turn of low or more",
    ];
    let note = "<p class=\"note\">Wrong results of all calls tried, by how far the clock runs on during a call (of 1-read: since the call before).</p>";
    format!("{note}{}", table("Wrong results", &columns, tried.rows().iter().map(row)))
}

/// The counter-examples: of those that fail before a turn of the low word, then of those that fail only later.
fn examples(tried: &Table) -> (String, String) {
    let (mut soon, mut later) = (String::new(), String::new());
    for row in tried.rows() {
        let found =
            Regime::ALL.into_iter().find_map(|regime| Some((regime, row.failures.of(regime).example.as_ref()?)));
        let Some((regime, example)) = found else { continue };
        let among = if SOON.contains(&regime) { &mut soon } else { &mut later };
        let title = format!("{} {}: {}", row.routine, row.text, row.writer);
        let words = format!("<p class=\"note\">{}: {}</p>", Text(regime), Text(example));
        among.push_str(&panel(&title, &format!("{}{words}", figure(tried.widths(), example, &title))));
    }
    (soon, later)
}

fn figure(widths: Widths, example: &CounterExample, title: &str) -> String {
    let lows = 1_u32 << widths.low_bits;
    let values = lows << widths.high_bits;
    let value = |reading: Reading| f64::from(reading.high % (1 << widths.high_bits) * lows + reading.low);
    let labels = (0..values).step_by(lows as usize).map(|at| (f64::from(at), format!("{}:0", at / lows)));
    let y = Axis::of_places([-0.6, f64::from(values) - 0.4], labels.collect()).named("high:low");
    let mut instants: Vec<(String, Reading)> = example.known.map(|known| ("known".into(), known)).into_iter().collect();
    instants.extend(example.reads.iter().map(|&(word, words)| {
        let (name, read) = if word == Word::High { ("high", words.high) } else { ("low", words.low) };
        (format!("{name} {read}"), words)
    }));
    let count = instants.len();
    let labels = instants.iter().enumerate().map(|(number, (name, _))| (number as f64, name.clone()));
    let x = Axis::of_places([-0.5, count as f64 - 0.5], labels.collect()).named("what is read, in order");
    let mut figure = Figure::plane(x, y);
    let [from, to] = [value(example.at_least), value(example.at_most)];
    let half = 0.4;
    if from <= to {
        figure.band([from - half, to + half]);
    } else {
        figure.band([from - half, f64::from(values) - 1.0 + half]);
        figure.band([-half, to + half]);
    }
    for (number, &(_, words)) in instants.iter().enumerate() {
        figure.line(&[[number as f64, value(words)]], Ink::of(0));
    }
    figure.level(value(example.returned), Ink::of(1));
    figure.svg(&format!("A call that goes wrong, {title}: {example}"))
}
