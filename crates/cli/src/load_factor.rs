//! `tickscope clock load-factor`: how loaded a processor is, told by how fast a clock can be read on it.

use std::ops::ControlFlow;
use std::time::Duration;

use serde::Serialize;
use tickscope_clock::advice::duration;
use tickscope_clock::measure::{self, LoadFactorPlan, LoadReading};
use tickscope_host::facts::CounterFacts;
use tickscope_show::clock_page::rate;

use crate::clock::{load, seconds, sizes};
use crate::failure::Failure;
use crate::options::LoadFactorOptions;
use crate::output::{is_unread, line, print_json_line};

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
        line(format_args!(
            "reading '{}'; load factor: time of a reading in all, over the least cost seen until then; away: not run",
            plan.clock
        ))?;
        line(format_args!(
            "{:>9} {:>12} {:>9} {:>12} {:>8}  background load",
            "seconds", "reads/s", "cost", "load factor", "away"
        ))?;
    }
    let (mut at_s, mut printed) = (0.0, Ok(()));
    let mut each = |members: u32, reading: LoadReading| {
        at_s += reading.seconds;
        let load = plan.load.words(members);
        printed = if options.json {
            let reading = ReadingJson { version: 1, at_s, members, load: &load, reading };
            print_json_line(&reading)
        } else {
            let LoadReading { reads_per_s, cost_ns, load_factor, away, .. } = reading;
            let (reads, cost, away) = (rate(reads_per_s), duration(cost_ns), away * 100.0);
            line(format_args!("{at_s:>9.1} {reads:>12} {cost:>9} {load_factor:>12.2} {away:>6.1} %  {load}"))
        };
        if printed.is_err() || is_unread() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    measure::load_factor(&plan, facts.frequency, &mut each).map_err(Failure::work)?;
    printed
}
