//! Cost of a medcouple and of sorting the same values. `cargo run --release --example medcouple_cost [COUNT]`.

use std::hint::black_box;
use std::time::Instant;

use tickscope_stats::Sample;

/// Values from a number uniform on (0, 1).
type Shape = fn(f64) -> f64;

const ROUNDS: usize = 9;

fn main() {
    let count = std::env::args().nth(1).map_or(1_000_000, |count| count.parse().expect("a count of values"));
    let shapes: [(&str, Shape); 7] = [
        ("uniform", |unit| unit * 1e12),
        ("exponential", |unit| -unit.ln() * 1e6),
        ("Pareto of shape 2", |unit| 1e3 * unit.powi(-2)),
        ("two modes", |unit| if unit < 0.3 { 1e6 + unit * 1e5 } else { unit * 1e4 }),
        ("1000 values", |unit| (unit * unit * 1e3).floor()),
        ("exponential, tied", |unit| (-unit.ln() * 100.0).floor() * 2.0),
        ("three values", |unit| (unit * 3.0).floor() * 2.0),
    ];
    for (name, shape) in shapes {
        let values = values(count, shape);
        // Round by round, as the machine's speed changes from one second to the next.
        for _ in 0..ROUNDS {
            let sort = milliseconds(|| {
                let mut sorted = black_box(&values).clone();
                sorted.sort_unstable();
                black_box(&sorted);
            });
            let medcouple = milliseconds(|| {
                let sample = Sample::new(black_box(&values)).expect("a sample within its limits");
                black_box(sample.medcouple());
            });
            println!("round {name}\t{sort:.3}\t{medcouple:.3}");
        }
    }
}

fn values(count: usize, shape: Shape) -> Vec<i64> {
    let mut random = 1u64;
    let mut unit = || {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((random >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    };
    (0..count).map(|_| shape(unit()) as i64).collect()
}

fn milliseconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e3
}
