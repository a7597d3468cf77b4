//! How late a paced load is on this machine, next to bare readings of the counter: `pacing CPU ROUNDS MS`.
//!
//! Each round reads the counter alone, then sends nothing by every law at every rate for so many milliseconds: what is
//! measured is the pacer. A line of JSON for each. Ticks are the counter's; `ppm` is how much longer the sends took
//! than the schedule by the counter, `clock_ppm` by CLOCK_MONOTONIC, with what the declared frequency is off.

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use tickscope_counter as counter;
use tickscope_host::affinity;
use tickscope_host::facts::CounterFacts;
use tickscope_host::step::CounterStep;
use tickscope_load::{BucketPlan, DueTicks, EventRate, Lateness, LoadPlan, Pacer, TokenBucket};

const RATES: [u64; 4] = [10_000, 100_000, 1_000_000, 5_000_000];
/// From a plan to its start, and for each event that is drawn or kept: all is ready by then.
const LEAD_NS: u64 = 20_000_000;
const LEAD_AN_EVENT_NS: u64 = 400;
/// An event that is later than this counts as late.
const LATE_NS: u64 = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Vec<u64> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let &[cpu, rounds, milliseconds] = &numbers[..] else { return Err("expected CPU ROUNDS MS".into()) };
    let step = CounterStep::measure(counter::plain);
    affinity::pin(usize::try_from(cpu)?)?;
    let hertz = CounterFacts::of_this_host().map_err(|finding| finding.to_string())?.frequency.hertz;
    println!("{{\"hertz\": {hertz}, \"step_ticks\": {}, \"width_ticks\": {}}}", step.step_ticks, step.width_ticks);
    for round in 0..rounds {
        println!("{{\"rdtsc\": {}, \"ordered\": {}}}", reading(counter::plain), reading(counter::before));
        for rate in RATES {
            let lead_ns = LEAD_NS + rate * milliseconds / 1000 * LEAD_AN_EVENT_NS;
            let rate = EventRate::new(rate, 1)?;
            let plan = || {
                // Its sleep leaves the kernel's share to the kernel: FIFO threads are stopped where they take it.
                thread::sleep(Duration::from_millis(milliseconds / 8));
                let start = counter::before() + (u128::from(hertz) * u128::from(lead_ns) / 1_000_000_000) as i64;
                LoadPlan { rate, hertz, start, until: start + (hertz * milliseconds / 1000) as i64, burst: 1 }
            };
            let constant = plan();
            paced("constant", DueTicks::constant(&constant)?, &constant);
            let poisson = plan();
            paced("poisson", DueTicks::poisson(&poisson, round)?, &poisson);
            for capped in [false, true] {
                filled(&BucketPlan { rate, hertz, most: 32, capped, start: counter::before() }, milliseconds)?;
            }
        }
    }
    Ok(())
}

/// The median distance of two readings that follow each other.
fn reading(read: impl Fn() -> i64) -> i64 {
    let mut readings = vec![0; 10_001];
    readings.iter_mut().for_each(|reading| *reading = read());
    let mut apart: Vec<i64> = readings.windows(2).map(|pair| pair[1] - pair[0]).collect();
    apart.sort_unstable();
    apart[apart.len() / 2]
}

fn paced(law: &str, due: DueTicks, plan: &LoadPlan) {
    let mut late = vec![0_i64; due.clone().count()];
    late.fill(-1); // the pages are there before the first event is due
    let Some(first) = due.peek() else { return };
    let mut pacer = Pacer::new(due, counter::before, plan.hertz * LATE_NS / 1_000_000_000);
    let (mut began, mut first_sent, mut last) = (None, 0, None);
    for late in &mut late {
        let Some(release) = pacer.wait() else { break };
        if began.is_none() {
            (began, first_sent) = (Some(Instant::now()), release.sent);
        }
        *late = release.sent - release.due;
        last = Some(release);
    }
    let took = began.map_or(0.0, |began| began.elapsed().as_secs_f64());
    let (lateness, Some(last)) = (pacer.end(), last) else { return };
    late.sort_unstable();
    let of = |share: usize| late[(late.len() * share / 1000).min(late.len() - 1)];
    let span = (last.due - first) as f64;
    let ppm = ((last.sent - first_sent) as f64 / span - 1.0) * 1e6;
    let clock_ppm = (took * plan.hertz as f64 / span - 1.0) * 1e6;
    println!(
        "{{\"law\": \"{law}\", \"rate\": {}, \"sent\": {}, \"p50\": {}, \"p99\": {}, \"p999\": {}, \"worst\": {}, \
         \"late\": {}, \"ppm\": {ppm:.3}, \"clock_ppm\": {clock_ppm:.3}, \"held\": {}}}",
        plan.rate.events(),
        lateness.sent(),
        of(500),
        of(990),
        of(999),
        of(1000),
        lateness.late(),
        lateness.faults().is_empty()
    );
}

fn filled(plan: &BucketPlan, milliseconds: u64) -> Result<(), Box<dyn Error>> {
    let mut bucket = TokenBucket::new(plan.clone())?;
    let mut lateness = Lateness::new(plan.hertz * LATE_NS / 1_000_000_000);
    let end = plan.start + (plan.hertz * milliseconds / 1000) as i64;
    let mut now = plan.start;
    while now < end {
        now = counter::before();
        let offer = bucket.offer(now)?;
        if let Some(due) = bucket.due() {
            lateness.record(due, now, offer);
            bucket.pay(offer)?;
        }
    }
    lateness.lose(bucket.lost());
    let earned = (now - plan.start) as f64 * plan.rate.events() as f64 / plan.hertz as f64;
    println!(
        "{{\"law\": \"{}\", \"rate\": {}, \"sent\": {}, \"p50\": {}, \"lost\": {}, \"ppm\": {:.3}, \"held\": {}}}",
        if plan.capped { "bucket, capped" } else { "bucket" },
        plan.rate.events(),
        lateness.sent(),
        lateness.quantile_ticks(500).unwrap_or(0),
        bucket.lost(),
        (earned / lateness.sent().max(1) as f64 - 1.0) * 1e6,
        lateness.faults().is_empty()
    );
    Ok(())
}
