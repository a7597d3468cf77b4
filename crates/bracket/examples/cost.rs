//! What a clock map costs: build and question times for 100 000 brackets. `cargo run --release --example cost`.

use std::hint::black_box;
use std::time::Instant;

use tickscope_bracket::{Bracket, ClockMap, Model, Ratio, Rho};
use tickscope_tick::{Injection, Tick};

const BRACKETS: i64 = 100_000;
/// 1 kHz at 2.5 GHz.
const PERIOD: i64 = 2_500_000;
const QUESTIONS: i64 = 1_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let map: Injection = "0:1000000000:12500:900:150000000000".parse()?;
    let mut random = 1u64;
    let mut delay = || {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        8_000 + (random >> 33) as i64 % 20_000
    };
    let exchange = |k: i64| Bracket::new(Some(k * PERIOD - delay()), map.apply(k * PERIOD), Some(k * PERIOD + delay()));
    let brackets: Vec<Bracket> = (0..BRACKETS).map(exchange).collect();
    let model = Model::new(Rho::declared_ppb(1000)?, Ratio::new(1, 1)?, Tick::new(1_000_000_000));

    let start = Instant::now();
    let clock_map = ClockMap::new(&brackets, &model)?;
    println!("build of {BRACKETS} brackets: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);

    let last = BRACKETS * PERIOD;
    let tick = |k: i64| Tick::new(1_000_000_000 + (k.wrapping_mul(0x5851_f42d_4c95_7f2d) as u64 >> 16) as i64 % last);
    per_question("interval, random ticks", |k| black_box(clock_map.interval(tick(k))).is_ok());
    per_question("interval and estimate, random ticks", |k| {
        black_box(clock_map.interval(tick(k))).is_ok() && black_box(clock_map.estimate(tick(k))).is_ok()
    });
    let ordered = |k: i64| Tick::new(1_000_000_000 + k * (last / QUESTIONS));
    per_question("interval and estimate, ticks in order", |k| {
        black_box(clock_map.interval(ordered(k))).is_ok() && black_box(clock_map.estimate(ordered(k))).is_ok()
    });
    per_question("span, random ticks", |k| black_box(clock_map.span(tick(k), tick(k + 1))).is_ok());

    let start = Instant::now();
    let segments = clock_map.segments(Tick::new(1_000_000_000), Tick::new(1_000_000_000 + last))?;
    println!("{} segments: {:.1} ms", segments.len(), start.elapsed().as_secs_f64() * 1e3);
    let widths = clock_map.half_widths((0..1000).map(tick))?;
    println!("median half-width: {:?} ticks", widths.median());

    let mut wrong = brackets;
    wrong[77_777].at = Tick::new(wrong[77_777].at.get() + 200_000);
    let start = Instant::now();
    let report = ClockMap::new(&wrong, &model).map(|_| ()).unwrap_err();
    println!("report of an outlier: {:.0} ms\n{report}", start.elapsed().as_secs_f64() * 1e3);
    Ok(())
}

fn per_question(what: &str, ask: impl Fn(i64) -> bool) {
    let start = Instant::now();
    let answered = (0..QUESTIONS).filter(|&k| ask(k)).count();
    let ns = start.elapsed().as_nanos() as f64 / QUESTIONS as f64;
    println!("{what}: {ns:.0} ns ({answered} answered)");
}
