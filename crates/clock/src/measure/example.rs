//! The example of the Cm* study, run on this host.

use std::io;
use std::time::Instant;

use tickscope_host::facts::CounterFacts;
use tickscope_host::{Finding, affinity};
use tickscope_tick::Ordering;

use super::calls::{Call, calls};
use super::clock::{Clock, Unit};
use super::service::Service;
use super::survey::{near, no_processors};
use crate::compensation::Trial;
use crate::example::{ByClock, Example, ExamplePlan, Measured, Published, Readings, UnderPairs};

/// The clocks that it is measured by: the counter, and one that is read by a message, as far away as Cm*'s was.
const CLOCKS: [Clock; 2] = [Clock::Counter(Ordering::After), Clock::UnixSocket];

/// Runs it; tells `progress` what it is at.
pub fn example(plan: &ExamplePlan, facts: &CounterFacts, progress: &mut dyn FnMut(&str)) -> Result<Example, Finding> {
    let begun = Instant::now();
    let cpus = affinity::allowed_cpus().map_err(|error| no_processors(&error))?;
    let mut clocks = Vec::new();
    for clock in CLOCKS {
        let mut loads = Vec::new();
        for &pairs in &plan.pairs {
            progress(&format!("{clock}, {pairs} pairs of client and server"));
            let ns = match clock.unit() {
                Unit::Ticks => facts.frequency.nanoseconds(1.0),
                Unit::Nanoseconds => 1.0,
            };
            loads.push(under_pairs(clock, &cpus, plan, pairs, ns).map_err(|error| no_calls(clock, pairs, &error))?);
        }
        clocks.push(ByClock { clock: clock.to_string(), loads });
    }
    Ok(Example {
        plan: plan.clone(),
        took_s: begun.elapsed().as_secs_f64(),
        optimised: !cfg!(debug_assertions),
        cpus: [cpus[0], cpus[cpus.len() - 1]],
        clocks,
        published: Published::as_printed(),
        run: None,
    })
}

fn no_calls(clock: Clock, pairs: u32, error: &io::Error) -> Finding {
    Finding {
        about: "example",
        expected: format!("{pairs} pairs of processes to call each other, timed by '{clock}'"),
        found: error.to_string(),
        remedy: "allow more processes and open files (ulimit -u, ulimit -n), or ask for fewer with --pairs".into(),
    }
}

fn under_pairs(clock: Clock, cpus: &[usize], plan: &ExamplePlan, pairs: u32, ns: f64) -> io::Result<UnderPairs> {
    let service = Service::open(clock, cpus[cpus.len() - 1])?;
    let timed = calls(&service, cpus, plan, pairs)?;
    let sampled = |from: i64, to: i64| Some([near(&timed.sampled, from)?, near(&timed.sampled, to)?]);

    let trial = |call: &Call| call.zero.trial(|_| 0, sampled(call.zero.from, call.zero.to));
    let measured = |call: &Call| Measured {
        words: call.words,
        latency: call.message.t_m,
        rpc: call.rpc,
        pairs: [call.message.t_1, call.message.t_4],
        sampled: sampled(call.message.from, call.message.to),
    };
    let test: Vec<Trial> = timed.calls.iter().map(trial).collect();
    let measured: Vec<Measured> = timed.calls.iter().map(measured).collect();
    let found = UnderPairs::of(plan, pairs, (&test, &measured), Readings::SERVER_ONCE, ns).map_err(io::Error::other)?;
    Ok(UnderPairs { late: Some(timed.late), ..found })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_timed_in_order_and_its_words_arrive() {
        let plan = ExamplePlan { repetitions: 9, interval_us: 100, words: vec![0, 1, 50, 2000], pairs: vec![2] };
        let cpus = affinity::allowed_cpus().unwrap();
        for clock in CLOCKS {
            let service = Service::open(clock, cpus[0]).unwrap();
            let timed = calls(&service, &cpus, &plan, 2).unwrap();
            let repetition = |calls: &[Call]| calls.iter().map(|call| call.words).collect::<Vec<u16>>();
            let orders: Vec<Vec<u16>> = timed.calls.chunks(plan.words.len()).map(repetition).collect();
            assert!(orders.len() == 9 && orders.iter().any(|order| *order != plan.words), "{orders:?}");
            for mut order in orders {
                order.sort_unstable();
                assert_eq!(order, plan.words);
            }
            for call in &timed.calls {
                let Call { zero, message, rpc, .. } = call;
                assert!(zero.from < zero.to && zero.to <= message.from && message.from < message.to, "{call:?}");
                // The server's reading lies between the client's two, and all within the counter's outermost.
                assert!(0 < message.t_m && message.t_m < *rpc, "{call:?}");
                assert!(message.t_1 + rpc + message.t_4 <= message.to - message.from, "{call:?}");
                assert!(zero.t_1 + zero.t_m + zero.t_4 <= zero.to - zero.from, "{call:?}");
            }
        }
    }

    #[test]
    fn every_clock_and_number_of_pairs_has_its_zero_time_test_and_its_cells() {
        let plan = ExamplePlan { repetitions: 12, interval_us: 100, words: vec![0, 100], pairs: vec![1, 2] };
        let found = example(&plan, &CounterFacts::of_this_host().unwrap(), &mut |_| ()).unwrap();
        assert_eq!(found.clocks.len(), CLOCKS.len());
        for load in found.clocks.iter().flat_map(|clock| &clock.loads) {
            assert_eq!((load.zero.trials, load.cells.len(), load.zero.outcomes.len()), (24, 2, 5));
        }
        // Only a clock that costs next to nothing leaves their order for sure: others are subtracted twice from a call.
        for cell in found.clocks[0].loads.iter().flat_map(|load| &load.cells) {
            assert!(0.0 < cell.latency.median_ns && cell.latency.median_ns < cell.rpc.median_ns, "{cell:?}");
        }
    }
}
