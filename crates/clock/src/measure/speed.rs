//! Speed of every processor, by the same work on each: the Cm* study's 4.3.

use std::hint::black_box;
use std::thread;

use serde::Serialize;
use tickscope_counter as counter;
use tickscope_host::affinity;
use tickscope_stats::{Quantile, Sample};
use tickscope_tick::Frequency;

/// The same work on one processor.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct CoreSpeed {
    /// The kernel's number of the processor.
    pub cpu: usize,
    /// The work at its fastest, nanoseconds.
    pub work_ns_min: f64,
    /// Its median, nanoseconds.
    pub work_ns_median: f64,
    /// How much longer it takes than the fastest processor, percent: by the fastest work or by the median, whichever
    /// says less, since what else runs lengthens either.
    pub slower_percent: f64,
}

/// Runs the same work on every processor, one after another and each `ROUNDS` times, for `ticks` together.
pub fn speeds(cpus: &[usize], ticks: i64, frequency: Frequency) -> Vec<CoreSpeed> {
    /// Rounds between which whatever else runs may change.
    const ROUNDS: usize = 8;
    let turn = ticks / (ROUNDS * cpus.len()) as i64;
    let mut taken = vec![Vec::new(); cpus.len()];
    for _ in 0..ROUNDS {
        for (taken, &cpu) in taken.iter_mut().zip(cpus) {
            taken.extend(thread::scope(|scope| scope.spawn(|| works(cpu, turn)).join().expect("the work ends")));
        }
    }
    let samples: Vec<Sample> = taken.iter().map(|taken| Sample::new(taken).expect("works at least once")).collect();
    let median = |sample: &Sample| sample.quantile(Quantile::MEDIAN);
    let longer = |of: &dyn Fn(&Sample) -> i64, sample: &Sample| {
        let fastest = samples.iter().map(of).min().unwrap_or(1);
        (of(sample) - fastest) as f64 * 100.0 / fastest as f64
    };
    let ns = |ticks: i64| frequency.nanoseconds(ticks as f64);
    let of = |(&cpu, sample): (&usize, &Sample)| CoreSpeed {
        cpu,
        work_ns_min: ns(sample.least()),
        work_ns_median: ns(median(sample)),
        slower_percent: longer(&Sample::least, sample).min(longer(&median, sample)),
    };
    cpus.iter().zip(&samples).map(of).collect()
}

/// Times of the work, ticks.
fn works(cpu: usize, ticks: i64) -> Vec<i64> {
    // Where pinning is refused the figure is that of wherever the scheduler puts it.
    let _ = affinity::pin(cpu);
    let until = counter::plain() + ticks;
    let mut taken = Vec::new();
    loop {
        let from = counter::after();
        work();
        let to = counter::before();
        taken.push(to - from);
        if to >= until {
            return taken;
        }
    }
}

/// A chain of multiplications, each needing the one before, that has no shorter form: no memory, nothing to guess, some
/// 20 us.
#[inline(never)]
fn work() {
    const STEPS: u64 = 10_000;
    let mut value = black_box(1_u64);
    for step in 0..STEPS {
        value = (value ^ step).wrapping_mul(6_364_136_223_846_793_005).rotate_left(17);
    }
    black_box(value);
}
