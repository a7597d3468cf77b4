//! `tickscope clock load-factor`: how loaded a processor is, told by how fast a clock can be read on it.

use std::io::Write;
use std::time::Duration;

use serde::Serialize;
use tickscope_clock::advice::duration;
use tickscope_clock::measure::{self, LoadFactorPlan, LoadReading};
use tickscope_host::facts::CounterFacts;
use tickscope_show::clock_page::rate;

use crate::clock::{load, seconds, sizes};
use crate::failure::Failure;
use crate::options::LoadFactorOptions;

/// One interval as JSON.
#[derive(Serialize)]
struct ReadingJson<'a> {
    version: u32,
    at_s: f64,
    members: u32,
    load: &'a str,
    reading: LoadReading,
}

/// A line for every interval as soon as it is over; with `--json` an object on each.
pub fn load_factor(options: &LoadFactorOptions) -> Result<(), Failure> {
    let plan = LoadFactorPlan {
        clock: options.clock,
        seconds: seconds(options.seconds)?,
        every: Duration::from_millis(options.every_ms.into()),
        loads: sizes(&options.load),
        load: load(&options.background.placed, options.background.inject)?,
    };
    let facts = CounterFacts::of_this_host().map_err(Failure::work)?;
    if !options.json {
        println!(
            "reading '{}'; load factor: time of a reading in all, over the least cost seen until then; away: not run",
            plan.clock
        );
        println!(
            "{:>9} {:>12} {:>9} {:>12} {:>8}  background load",
            "seconds", "reads/s", "cost", "load factor", "away"
        );
    }
    let mut at_s = 0.0;
    let mut each = |members: u32, reading: LoadReading| {
        at_s += reading.seconds;
        let load = plan.load.words(members);
        if options.json {
            let line = ReadingJson { version: 1, at_s, members, load: &load, reading };
            println!("{}", serde_json::to_string(&line).expect("numbers and words are JSON"));
        } else {
            let LoadReading { reads_per_s, cost_ns, load_factor, away, .. } = reading;
            let (reads, cost, away) = (rate(reads_per_s), duration(cost_ns), away * 100.0);
            println!("{at_s:>9.1} {reads:>12} {cost:>9} {load_factor:>12.2} {away:>6.1} %  {load}");
        }
        // Whoever reads along a pipe wants it now; one that is gone ends the command with the next line.
        let _ = std::io::stdout().flush();
    };
    measure::load_factor(&plan, facts.frequency, &mut each).map_err(Failure::work)
}
