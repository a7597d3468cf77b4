//! Recorders and clocks from crates.io, one a process, under the protocol of `bench/rounds.h` and with its lines.
//!
//! `tickscope-rivals RECORDER cost FOLDER CPU ROUNDS EVENTS PAUSE_US` or `... kill FOLDER CPU EVENTS`: as
//! `recorder.h` has it.

mod rounds;
mod spans;
mod tracing_events;

use std::hint::black_box;
use std::time::{Duration, Instant};

use rounds::{Variant, measure, repeat, variant};
use tickscope_stamp::{Channel, Fields};
use tickscope_counter as counter;
use tickscope_host::affinity;
use tickscope_tick::Ordering;

/// A recorder once it is open.
pub struct Recorder {
    /// Its own variants; `event` is the one that counts as recorded.
    pub variants: Vec<Variant>,
    /// One event, as in `event`.
    pub record: Box<dyn Fn(u64)>,
    /// Writes what is left; says how many events it kept, where that is not to be seen in files.
    pub close: Box<dyn FnOnce() -> Option<u64>>,
}

type Failed = Box<dyn std::error::Error>;

fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [name, "cost", folder, cpu, rounds, events, pause_us] => {
            // Opened before the thread is pinned: threads of its own go elsewhere.
            let recorder = open(name, folder)?;
            affinity::pin(cpu.parse()?)?;
            cost(recorder, rounds.parse()?, events.parse()?, Duration::from_micros(pause_us.parse()?))
        }
        [name, "kill", folder, cpu, events] => {
            let recorder = open(name, folder)?;
            affinity::pin(cpu.parse()?)?;
            kill(&recorder, events.parse()?)
        }
        _ => Err("expected RECORDER cost FOLDER CPU ROUNDS EVENTS PAUSE_US, or RECORDER kill FOLDER CPU EVENTS".into()),
    }
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

fn cost(recorder: Recorder, rounds: usize, events: u64, pause: Duration) -> Result<(), Failed> {
    let beside = Channel::open("beside", Ordering::Plain, Fields::Slim)?;
    let mut all = vec![
        variant("nothing", |events| repeat(events, |id| _ = black_box(id))),
        variant("rdtsc", |events| repeat(events, |_| _ = black_box(counter::plain()))),
        variant("tickscope", move |events| repeat(events, |id| beside.stamp(id as i64))),
    ];
    all.extend(recorder.variants);
    measure(&all, rounds, events, pause);
    if let Some(kept) = (recorder.close)() {
        println!("count kept\t{kept}");
    }
    println!("count recorded\t{}", (rounds + rounds::WARM) as u64 * events);
    Ok(())
}

/// One event a microsecond, then SIGKILL.
fn kill(recorder: &Recorder, events: u64) -> Result<(), Failed> {
    let start = Instant::now();
    for id in 0..events {
        while start.elapsed() < Duration::from_micros(id) {}
        (recorder.record)(id);
    }
    // SAFETY: a plain system call on this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    Err("expected to be killed".into())
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
