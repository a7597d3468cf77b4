//! Cost of one stamp from Rust, and of reading the counter in the same run.
//!
//! `TICKSCOPE_DIR=/dev/shm/somewhere TICKSCOPE_POLICY=off=null stamp_cost CPU ROUNDS STAMPS`. The protocol and the
//! lines printed are those of `bench/stamp.c`: a round measures every variant once, in random order, in blocks of
//! STAMPS stamps.

use std::hint::black_box;
use std::time::Duration;

use rounds::{Variant, measure, repeat, variant};
use tickscope_counter as counter;
use tickscope_host::affinity;
use tickscope_stamp::{Channel, Extra, Fields, OpenError};
use tickscope_tick::Ordering;

#[path = "../../../bench/rounds.rs"]
mod rounds;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<u64> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let &[cpu, rounds, stamps] = &numbers[..] else { return Err("expected CPU ROUNDS STAMPS".into()) };
    affinity::pin(usize::try_from(cpu)?)?;
    measure(&variants()?, usize::try_from(rounds)?, stamps, Duration::ZERO);
    Ok(())
}

/// The compiler sees each variant's body: a stamp inline, on a channel of its own.
fn variants() -> Result<Vec<Variant>, OpenError> {
    let slim = |point, ordering| Channel::open(point, ordering, Fields::Slim);
    let (plain, off) = (slim("plain", Ordering::Plain)?, slim("off", Ordering::Plain)?);
    let (before, after) = (slim("before", Ordering::Before)?, slim("after", Ordering::After)?);
    let wide = Channel::open("wide", Ordering::Plain, Fields::Wide)?;
    let full = Channel::open("full", Ordering::Plain, Fields::Full)?;
    Ok(vec![
        variant("nothing", |stamps| repeat(stamps, |id| _ = black_box(id))),
        variant("rdtsc", |stamps| repeat(stamps, |_| _ = black_box(counter::plain()))),
        variant("plain", move |stamps| repeat(stamps, |id| plain.stamp(id as i64))),
        variant("before", move |stamps| repeat(stamps, |id| before.stamp(id as i64))),
        variant("after", move |stamps| repeat(stamps, |id| after.stamp(id as i64))),
        variant("wide", move |stamps| {
            repeat(stamps, |id| wide.stamp_with(id as i64, Extra { kind: 1, value: id as i64, ..Extra::default() }))
        }),
        variant("full", move |stamps| repeat(stamps, |id| full.stamp_with(id as i64, part_of(id as i64)))),
        variant("off", move |stamps| repeat(stamps, |id| off.stamp(id as i64))),
    ])
}

#[inline(always)]
fn part_of(id: i64) -> Extra {
    Extra { kind: 1, value: id, parent: Some(id >> 3), attempt: 0, batch: 8 }
}
