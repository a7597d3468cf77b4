//! Cost of one stamp from Rust, and of reading the counter in the same run.
//!
//! `TICKSCOPE_DIR=/dev/shm/somewhere TICKSCOPE_POLICY=off=null stamp_cost CPU ROUNDS STAMPS`. The protocol and the
//! lines printed are those of `bench/stamp.c`: a round measures every variant once, in random order, in blocks of
//! STAMPS stamps.

use std::hint::black_box;
use std::time::Instant;

use tickscope_counter as counter;
use tickscope_host::affinity;
use tickscope_stamp::{Channel, Extra, Fields};
use tickscope_tick::Ordering;

struct Channels {
    plain: Channel,
    before: Channel,
    after: Channel,
    wide: Channel,
    full: Channel,
    off: Channel,
}

type Block = fn(&Channels, i64);

const VARIANTS: [(&str, Block); 8] = [
    ("nothing", |_, stamps| repeat(stamps, |id| _ = black_box(id))),
    ("rdtsc", |_, stamps| repeat(stamps, |_| _ = black_box(counter::plain()))),
    ("plain", |channels, stamps| repeat(stamps, |id| channels.plain.stamp(id))),
    ("before", |channels, stamps| repeat(stamps, |id| channels.before.stamp(id))),
    ("after", |channels, stamps| repeat(stamps, |id| channels.after.stamp(id))),
    ("wide", |channels, stamps| {
        repeat(stamps, |id| channels.wide.stamp_with(id, Extra { kind: 1, value: id, ..Extra::default() }))
    }),
    ("full", |channels, stamps| repeat(stamps, |id| channels.full.stamp_with(id, part_of(id)))),
    ("off", |channels, stamps| repeat(stamps, |id| black_box(&channels.off).stamp(id))),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<i64> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let &[cpu, rounds, stamps] = &numbers[..] else { return Err("expected CPU ROUNDS STAMPS".into()) };
    affinity::pin(usize::try_from(cpu)?)?;
    let open = |point, ordering, fields| Channel::open(point, ordering, fields);
    let channels = Channels {
        plain: open("plain", Ordering::Plain, Fields::Slim)?,
        before: open("before", Ordering::Before, Fields::Slim)?,
        after: open("after", Ordering::After, Fields::Slim)?,
        wide: open("wide", Ordering::Plain, Fields::Wide)?,
        full: open("full", Ordering::Plain, Fields::Full)?,
        off: open("off", Ordering::Plain, Fields::Slim)?,
    };
    let mut random = 1;
    (0..10).for_each(|_| _ = one_round(&channels, stamps, &mut random));
    let (start, start_tick) = (Instant::now(), counter::after());
    let blocks: Vec<_> = (0..rounds).map(|_| one_round(&channels, stamps, &mut random)).collect();
    let ns_a_tick = start.elapsed().as_nanos() as f64 / (counter::after() - start_tick) as f64;
    for (variant, ticks) in blocks.iter().flat_map(|round| round.iter().enumerate()) {
        println!("block {}\t{:.3}", VARIANTS[variant].0, *ticks as f64 * ns_a_tick / stamps as f64);
    }
    Ok(())
}

#[inline(always)]
fn part_of(id: i64) -> Extra {
    Extra { kind: 1, value: id, parent: Some(id >> 3), attempt: 0, batch: 8 }
}

/// The compiler sees each variant's body, and one iteration of it after the other.
#[inline(always)]
fn repeat(stamps: i64, once: impl Fn(i64)) {
    (0..stamps).for_each(once);
}

/// Ticks of one block of each variant.
fn one_round(channels: &Channels, stamps: i64, random: &mut u64) -> [i64; VARIANTS.len()] {
    let mut order: [usize; VARIANTS.len()] = std::array::from_fn(|at| at);
    for at in (1..order.len()).rev() {
        order.swap(at, random_below(random, at + 1));
    }
    let mut ticks = [0; VARIANTS.len()];
    for variant in order {
        let start = counter::after();
        VARIANTS[variant].1(channels, stamps);
        ticks[variant] = counter::after() - start;
    }
    ticks
}

/// A fixed sequence: every run visits the variants in the same random orders.
fn random_below(state: &mut u64, bound: usize) -> usize {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*state >> 33) as usize % bound
}
