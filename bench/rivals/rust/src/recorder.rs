//! One recorder under the protocol of `bench/rounds.h`: `cost` and `kill`, as `bench/rivals/recorder.h` has them.

use std::hint::black_box;
use std::time::{Duration, Instant};

use tickscope_counter as counter;
use tickscope_host::affinity;
use tickscope_stamp::{Channel, Fields};
use tickscope_tick::Ordering;

use crate::rounds::{self, Variant, measure, repeat, variant};

/// A recorder once it is open.
pub struct Recorder {
    /// Its own variants; `event` is the one that counts as recorded.
    pub variants: Vec<Variant>,
    /// One event, as in `event`.
    pub record: Box<dyn Fn(u64)>,
    /// Writes what is left; says how many events it kept, where that is not to be seen in files.
    pub close: Box<dyn FnOnce() -> Option<u64>>,
}

/// Why a recorder could not be measured.
pub type Failed = Box<dyn std::error::Error>;

/// Does what the words say: `cost FOLDER CPU ROUNDS EVENTS PAUSE_US` or `kill FOLDER CPU EVENTS`.
pub fn run(words: &[&str], open: impl FnOnce(&str) -> Result<Recorder, Failed>) -> Result<(), Failed> {
    match *words {
        ["cost", folder, cpu, rounds, events, pause_us] => {
            // Opened before the thread is pinned: threads of its own go elsewhere.
            let recorder = open(folder)?;
            affinity::pin(cpu.parse()?)?;
            cost(recorder, rounds.parse()?, events.parse()?, Duration::from_micros(pause_us.parse()?))
        }
        ["kill", folder, cpu, events] => {
            let recorder = open(folder)?;
            affinity::pin(cpu.parse()?)?;
            kill(&recorder, events.parse()?)
        }
        _ => Err("expected cost FOLDER CPU ROUNDS EVENTS PAUSE_US, or kill FOLDER CPU EVENTS".into()),
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
