//! What a clock's epochs cost: build and question times for 2 000 000 readings of it. `cargo run --release --example
//! epochs_cost`.

use std::hint::black_box;
use std::time::Instant;

use tickscope_bracket::{Bracket, Epochs, Model, Ratio, Rho};
use tickscope_tick::Tick;

const READINGS: i64 = 2_000_000;
const QUESTIONS: i64 = 10_000_000;
/// Counter at 2.1 GHz, clock in nanoseconds, an exchange of five readings every 100 us.
const PERIOD: i64 = 210_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut random = 1u64;
    let mut draw = |below: u64| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((random >> 33) % below) as i64
    };
    let model = |ppb: u32| -> Result<Model, tickscope_bracket::Error> {
        let model = Model::new(Rho::declared_ppb(ppb)?, Ratio::new(2_100_000_000, 1_000_000_000)?, Tick::new(0));
        Ok(Model { prior_ppm: Epochs::KERNEL_PRIOR_PPM, ..model })
    };
    for steps in [0, 20] {
        let epoch = READINGS / (steps + 1) + 1;
        let mut last = 0;
        let mut read = |k: i64| {
            let counter = k / 5 * PERIOD + k % 5 * 10_000 + draw(500);
            let ns =
                1_700_000_000_000_000_000 + (counter as i128 * 10_000_500 / 21_000_000) as i64 + k / epoch * 1_000_000;
            last = last.max(ns);
            Bracket::new(Some(counter - 30 - draw(150)), ns, Some(counter + 30 + draw(150)))
        };
        let evidence: Vec<Bracket> = (0..READINGS).map(&mut read).collect();
        for (what, ppb) in [("1 ppm", 1_000), ("500 ppm", 500_000)] {
            let start = Instant::now();
            let clock = Epochs::new(&evidence, &[], &model(ppb)?)?;
            println!(
                "{READINGS} readings, {steps} steps, rho {what}: {:.2} s, {} epochs, {} without contradiction",
                start.elapsed().as_secs_f64(),
                clock.epochs().len(),
                clock.epochs().iter().filter(|epoch| epoch.clock_map.is_ok()).count()
            );
            let first = evidence[0].at.get();
            let length = last - first;
            let tick = |k: i64| Tick::new(first + (k.wrapping_mul(0x5851_f42d_4c95_7f2d) as u64 >> 16) as i64 % length);
            per_question("place, random readings", |k| black_box(clock.place(tick(k))).is_ok());
            let ordered =
                |k: i64| Tick::new(first + (i128::from(k) * i128::from(length) / i128::from(QUESTIONS)) as i64);
            per_question("place, readings in order", |k| black_box(clock.place(ordered(k))).is_ok());
            per_question("span of 500 ns, in order", |k| {
                let from = ordered(k);
                black_box(clock.span(from, Tick::new(from.get() + 500))).is_ok()
            });
            println!("half-widths of {:?} ticks", clock.half_widths((0..10_000).map(tick)).median());
        }
    }
    Ok(())
}

fn per_question(what: &str, ask: impl Fn(i64) -> bool) {
    let start = Instant::now();
    let answered = (0..QUESTIONS).filter(|&k| ask(k)).count();
    let ns = start.elapsed().as_nanos() as f64 / QUESTIONS as f64;
    println!("  {what}: {ns:.0} ns ({answered} of {QUESTIONS} answered)");
}
