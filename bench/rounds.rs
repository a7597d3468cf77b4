//! The rounds of `bench/rounds.h`: every variant once a round, in random order, each in a block of events.
//!
//! A file of each program that measures by it: `crates/stamp/examples/*_cost.rs`, `bench/rivals/rust`.

use std::time::{Duration, Instant};

use tickscope_counter as counter;

/// Rounds before the first that counts.
pub const WARM: usize = 10;

/// A name, and a block of so many events.
pub struct Variant(&'static str, Box<dyn Fn(u64)>);

impl Variant {
    /// The name that its blocks are printed under.
    pub fn name(&self) -> &'static str {
        self.0
    }

    /// Runs a block of so many events.
    pub fn run(&self, events: u64) {
        (self.1)(events);
    }
}

/// A variant of a name, of what runs a block of it.
pub fn variant(name: &'static str, block: impl Fn(u64) + 'static) -> Variant {
    Variant(name, Box::new(block))
}

/// The compiler sees each variant's body, and one iteration of it after the other.
#[inline(always)]
pub fn repeat(events: u64, once: impl Fn(u64)) {
    (0..events).for_each(once);
}

/// Measures and prints: `block VARIANT<tab>NANOSECONDS_AN_EVENT`.
pub fn measure(variants: &[Variant], rounds: usize, events: u64, pause: Duration) {
    let mut random = 1;
    (0..WARM).for_each(|_| _ = one_round(variants, events, pause, &mut random));
    let (start, start_tick) = (Instant::now(), counter::after());
    let all: Vec<_> = (0..rounds).map(|_| one_round(variants, events, pause, &mut random)).collect();
    let ns_a_tick = start.elapsed().as_nanos() as f64 / (counter::after() - start_tick) as f64;
    for (variant, ticks) in all.iter().flat_map(|round| variants.iter().zip(round)) {
        println!("block {}\t{:.3}", variant.name(), *ticks as f64 * ns_a_tick / events as f64);
    }
}

/// Ticks of one block of each variant.
fn one_round(variants: &[Variant], events: u64, pause: Duration, random: &mut u64) -> Vec<i64> {
    let mut order: Vec<usize> = (0..variants.len()).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, random_below(random, at + 1));
    }
    let mut ticks = vec![0; variants.len()];
    for at in order {
        let start = counter::after();
        variants[at].run(events);
        ticks[at] = counter::after() - start;
    }
    // Idle, not asleep: a consumer beside it keeps up, and this core keeps its frequency.
    let end = Instant::now() + pause;
    while Instant::now() < end {}
    ticks
}

/// A fixed sequence: every run visits the variants in the same random orders.
fn random_below(state: &mut u64, bound: usize) -> usize {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*state >> 33) as usize % bound
}
