//! `tickscope clock --gauge`: how loaded a processor is, told by how fast a clock can be read on it.

use std::io::Write;
use std::time::Duration;

use serde_json::json;
use tickscope_clock::advice::duration;
use tickscope_clock::measure::{GaugePlan, Gauged, gauge as read_steadily};
use tickscope_clock::study::Plan;
use tickscope_host::facts::CounterFacts;

use crate::clock_text::rate;
use crate::failure::Failure;
use crate::options::ClockOptions;

/// A line for every interval as soon as it is over; with `--json` an object on each.
pub fn gauge(options: &ClockOptions, plan: Plan, facts: &CounterFacts) -> Result<(), Failure> {
    let every = Duration::from_millis(options.every_ms.into());
    let Plan { seconds, loads, load, .. } = plan;
    let plan = GaugePlan { clock: options.clock, seconds, every, loads, load };
    if !options.json {
        println!(
            "reading '{}'; load factor: time of a reading in all, beside the least cost seen until then; away: not run",
            plan.clock
        );
        println!("{:>9} {:>12} {:>9} {:>12} {:>8}  beside", "seconds", "reads/s", "cost", "load factor", "away");
    }
    let mut at_s = 0.0;
    let mut each = |count: u32, seen: Gauged| {
        at_s += seen.seconds;
        let beside = plan.load.words(count);
        if options.json {
            println!("{}", json!({ "at_s": at_s, "members": count, "beside": beside, "gauged": seen }));
        } else {
            let Gauged { reads_per_s, cost_ns, load_factor, away, .. } = seen;
            let (reads, cost, away) = (rate(reads_per_s), duration(cost_ns), away * 100.0);
            println!("{at_s:>9.1} {reads:>12} {cost:>9} {load_factor:>12.2} {away:>6.1} %  {beside}");
        }
        // Whoever reads along a pipe wants it now; one that is gone ends the command with the next line.
        let _ = std::io::stdout().flush();
    };
    read_steadily(&plan, facts.frequency, &mut each).map_err(Failure::work)
}
