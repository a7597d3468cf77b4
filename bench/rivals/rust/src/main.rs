//! Recorders and clocks from crates.io, one a process, under the protocol of `bench/rounds.h` and with its lines.
//!
//! `tickscope-rivals RECORDER cost FOLDER CPU ROUNDS EVENTS PAUSE_US` or `... kill FOLDER CPU EVENTS`: as
//! `recorder.h` has it.

mod recorder;
#[path = "../../../rounds.rs"]
mod rounds;
mod spans;
mod tracing_events;

use std::hint::black_box;
use std::time::Instant;

use recorder::{Failed, Recorder};
use rounds::{repeat, variant};

fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [name, words @ ..] = words.as_slice() else { return Err("expected RECORDER and what it does".into()) };
    recorder::run(words, |folder| open(name, folder))
}

fn open(name: &str, folder: &str) -> Result<Recorder, Failed> {
    match name {
        "clocks" => Ok(clocks()),
        "tracing-memory" => tracing_events::to_memory(),
        "tracing-json" => tracing_events::to_json(folder),
        "fastrace" => Ok(spans::fastrace()),
        _ => Err(format!("expected clocks, tracing-memory, tracing-json or fastrace, found {name}").into()),
    }
}

/// Clocks only: what a reading costs.
fn clocks() -> Recorder {
    let quanta = quanta::Clock::new();
    let variants = vec![
        variant("event", |events| repeat(events, |_| _ = black_box(Instant::now()))),
        variant("quanta now", |events| repeat(events, |_| _ = black_box(quanta::Instant::now()))),
        variant("quanta raw", move |events| repeat(events, |_| _ = black_box(quanta.raw()))),
        variant("minstant", |events| repeat(events, |_| _ = black_box(minstant::Instant::now()))),
        variant("fastant", |events| repeat(events, |_| _ = black_box(fastant::Instant::now()))),
    ];
    Recorder { variants, record: Box::new(|_| ()), close: Box::new(|| None) }
}
