//! What a stamp costs from Rust under each policy, which the environment gives to each point by its name.
//!
//! The commands, the protocol and the lines printed are those of `bench/policies.c`:
//! `policy_cost known POINT`, `latency CPU ROUNDS EVENTS PAUSE_US POINT...`,
//! `shared CPU OTHER_CPU ROUNDS EVENTS POINT`, `throughput CPU MILLISECONDS POINT`.

use std::error::Error;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rounds::{Variant, measure, repeat, variant};
use tickscope_counter as counter;
use tickscope_host::affinity;
use tickscope_stamp::{Channel, Fields, OpenError, Ordering};

#[path = "../../../bench/rounds.rs"]
mod rounds;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["known", point] => {
            open(point)?.stamp(1);
            Ok(())
        }
        ["latency", cpu, rounds, events, pause_us, ref points @ ..] => {
            affinity::pin(cpu.parse()?)?;
            let mut all = floors();
            for point in points {
                // Named for as long as the process runs.
                all.push(stamps_of(String::leak((*point).into()), open(point)?));
            }
            measure(&all, rounds.parse()?, events.parse()?, Duration::from_micros(pause_us.parse()?));
            Ok(())
        }
        ["shared", cpu, other, rounds, events, point] => {
            affinity::pin(cpu.parse()?)?;
            shared(other.parse()?, rounds.parse()?, events.parse()?, point)
        }
        ["throughput", cpu, milliseconds, point] => {
            affinity::pin(cpu.parse()?)?;
            throughput(Duration::from_millis(milliseconds.parse()?), &open(point)?);
            Ok(())
        }
        _ => Err("expected known, latency, shared or throughput with its arguments".into()),
    }
}

fn open(point: &str) -> Result<Channel, OpenError> {
    Channel::open(point, Ordering::Plain, Fields::Slim)
}

fn floors() -> Vec<Variant> {
    vec![
        variant("nothing", |events| repeat(events, |id| _ = black_box(id))),
        variant("rdtsc", |events| repeat(events, |_| _ = black_box(counter::plain()))),
    ]
}

/// Ids begin at 1: a point that keeps one id in many keeps none of a block's.
fn stamps_of(name: &'static str, channel: Channel) -> Variant {
    variant(name, move |events| repeat(events, |id| channel.stamp(id as i64 + 1)))
}

/// Words on cache lines of their own: one of both threads, and one for each.
#[repr(align(256))]
struct Word(AtomicI64);

static WORDS: [Word; 3] = [const { Word(AtomicI64::new(0)) }; 3];
/// The variant that both threads are to run, and the one that the other thread runs.
static ASKED: AtomicUsize = AtomicUsize::new(0);
static RUNNING: AtomicUsize = AtomicUsize::new(STOP);
const STOP: usize = usize::MAX;
/// Events after which the other thread looks at what is asked.
const CHUNK: u64 = 1000;

/// What each of the two threads runs, on a channel of its own.
fn loops(point: &str, own: &'static Word) -> Result<Vec<Variant>, OpenError> {
    let mut all = floors();
    all.push(stamps_of("point", open(point)?));
    let add = |word: &'static Word| move |events| repeat(events, |_| _ = word.0.fetch_add(1, Relaxed));
    all.push(variant("lock add, one word", add(&WORDS[0])));
    all.push(variant("lock add, a word each", add(own)));
    Ok(all)
}

/// Two threads at once: the blocks of this one, while the other does the same.
fn shared(other: usize, rounds: usize, events: u64, point: &str) -> Result<(), Box<dyn Error>> {
    let ours = loops(point, &WORDS[1])?;
    let both: Vec<Variant> = ours.into_iter().enumerate().map(|(which, ours)| while_other_runs(which, ours)).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if let Err(why) = do_as_asked(other, point) {
                eprintln!("policy_cost: {why}");
                std::process::exit(1); // this thread's blocks would wait for the other for ever
            }
        });
        measure(&both, rounds, events, Duration::ZERO);
        ASKED.store(STOP, Relaxed);
    });
    Ok(())
}

fn while_other_runs(which: usize, ours: Variant) -> Variant {
    variant(ours.name(), move |events| {
        ASKED.store(which, Relaxed);
        while RUNNING.load(Relaxed) != which {
            spin_loop();
        }
        ours.run(events);
    })
}

fn do_as_asked(cpu: usize, point: &str) -> Result<(), Box<dyn Error>> {
    affinity::pin(cpu)?;
    let loops = loops(point, &WORDS[2])?;
    loop {
        let now = ASKED.load(Relaxed);
        if now == STOP {
            return Ok(());
        }
        RUNNING.store(now, Relaxed);
        loops[now].run(CHUNK);
    }
}

/// As many stamps as fit.
fn throughput(duration: Duration, channel: &Channel) {
    let (start, mut id) = (Instant::now(), 1);
    while start.elapsed() < duration {
        let last = id + CHUNK as i64;
        while id < last {
            channel.stamp(id);
            id += 1;
        }
    }
    println!("{{\"stamps\": {}, \"seconds\": {:.6}}}", id - 1, start.elapsed().as_secs_f64());
}
