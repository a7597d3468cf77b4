//! Load of a processor, measured by reading a clock steadily: whoever shares it makes readings fewer, or dearer.
//!
//! The Cm* study (6) proposes to use a clock's reading so: it costs what memory and bus let it cost. On a host of today
//! mostly the processor is shared, and then the reader is not dearer but *away*. Both are told: **cost** is the median
//! time of a reading while it runs, **away** the share of the time in which the kernel did not run it, and the **load
//! factor** time of a reading in all, over the least cost ever seen here: 1 alone, 3 if two others take their share.
//!
//! Assumes that the kernel's account of a thread's time is right; what a hypervisor takes it may count as running, and
//! then it shows in the load factor alone. Deliberately absent: a limit above which a machine counts as busy.

use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use tickscope_counter as counter;
use tickscope_host::posix_clock::PosixClock;
use tickscope_host::{Finding, Problem, affinity};
use tickscope_stats::Quantile;
use tickscope_tick::Frequency;

use super::benchmark::no_load;
use super::clock::Clock;
use super::recording::SpacedSamples;
use super::running_load::RunningLoad;
use super::service::{Job, Service};
use crate::load::Load;

/// Readings in a row, between looks at the time.
const STRETCH: usize = 16;
/// Stretches that an interval's median cost is taken from, at most.
const STRETCHES_MAX: usize = 1 << 13;

/// A clock that is read steadily by the calling thread.
pub struct LoadMeter {
    service: Arc<Service>,
    frequency: Frequency,
    least_cost_ns: f64,
}

/// Figures of one interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct LoadReading {
    /// How long it lasted, seconds.
    pub seconds: f64,
    /// Readings a second.
    pub reads_per_s: f64,
    /// Median time of a reading while the reader ran, nanoseconds.
    pub cost_ns: f64,
    /// Time of a reading in all, as a multiple of the least cost seen in any interval until now.
    pub load_factor: f64,
    /// Share of the time in which the reader was not run; by rounding a hair below 0 at the least.
    pub away: f64,
}

/// Settings of a measurement of the load factor.
#[derive(Clone, PartialEq, Debug)]
pub struct LoadFactorPlan {
    /// The clock to read.
    pub clock: Clock,
    /// Duration in all, seconds, under every load an equal part of it.
    pub seconds: f64,
    /// Length of an interval.
    pub every: Duration,
    /// Sizes of the background load, one after another.
    pub loads: Vec<u32>,
    /// Kind, place and schedule of the load.
    pub load: Load,
}

/// Measures the load of the first allowed processor; calls `each` with the figures of an interval and the size of our
/// load as soon as it is over, until it breaks off.
pub fn load_factor(
    plan: &LoadFactorPlan,
    frequency: Frequency,
    each: &mut dyn FnMut(u32, LoadReading) -> ControlFlow<()>,
) -> Result<(), Finding> {
    let cpus = affinity::allowed_cpus()?;
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    let mut meter = LoadMeter::open(plan.clock, last, frequency).map_err(|error| unread(plan.clock, &error))?;
    let share = plan.seconds / plan.loads.len() as f64 / plan.every.as_secs_f64();
    for &count in &plan.loads {
        let service = Arc::clone(&meter.service);
        let _load = RunningLoad::start(&plan.load, count, plan.clock, &service, &cpus, frequency)
            .map_err(|error| no_load(count, &error))?;
        let (sender, readings) = mpsc::channel();
        let meter = &mut meter;
        let broken_off = thread::scope(|scope| {
            // A thread of its own: the members of the next load are not to be pinned where it is.
            let reader = scope.spawn(move || {
                let _ = affinity::pin(first);
                for _ in 0..share.ceil() as u64 {
                    if sender.send(meter.interval(plan.every)?).is_err() {
                        break; // nobody listens any more
                    }
                }
                Ok(())
            });
            let broken_off = readings.iter().any(|seen| each(count, seen).is_break());
            drop(readings);
            let ended: io::Result<()> = reader.join().expect("the reader's thread ends well");
            ended.map(|()| broken_off)
        })
        .map_err(|error| unread(plan.clock, &error))?;
        if broken_off {
            break;
        }
    }
    Ok(())
}

fn unread(clock: Clock, error: &io::Error) -> Finding {
    Finding {
        about: "load factor",
        problem: Problem::Failure {
            action: format!("read '{clock}' and the thread's own time"),
            reason: error.to_string(),
        },
        remedy: "read another clock, with --clock".into(),
    }
}

impl LoadMeter {
    /// Opens that clock; its server, if it has one, on processor `server_cpu`.
    pub fn open(clock: Clock, server_cpu: usize, frequency: Frequency) -> io::Result<Self> {
        let service = Arc::new(Service::open(clock, server_cpu)?);
        Ok(Self { service, frequency, least_cost_ns: f64::INFINITY })
    }

    /// Reads the clock for that long, where the calling thread is run.
    pub fn interval(&mut self, length: Duration) -> io::Result<LoadReading> {
        let own_time = PosixClock::ALL.into_iter().find(|clock| clock.of_a_thread());
        let own_time = own_time.ok_or_else(|| io::Error::other("no clock of a thread's own time"))?;
        let reader = self.service.reader()?;
        let ticks = (length.as_secs_f64() * self.frequency.hertz as f64) as i64;
        let (from, ran_from) = (counter::plain(), own_time.read()?);
        let Steadily { readings, mut stretches } = reader.drive(Steady { from, ticks });
        let (ran_to, to) = (own_time.read()?, counter::plain());
        let stretch_ticks = Quantile::MEDIAN.of(&mut stretches).expect("an interval holds a stretch");
        let lasted_ns = self.frequency.nanoseconds((to - from) as f64);
        let cost_ns = self.frequency.nanoseconds(stretch_ticks as f64) / STRETCH as f64;
        self.least_cost_ns = self.least_cost_ns.min(cost_ns);
        Ok(LoadReading {
            seconds: lasted_ns / 1e9,
            reads_per_s: readings as f64 * 1e9 / lasted_ns,
            cost_ns,
            load_factor: lasted_ns / readings as f64 / self.least_cost_ns,
            away: 1.0 - (ran_to - ran_from) as f64 / lasted_ns,
        })
    }
}

struct Steady {
    from: i64,
    ticks: i64,
}

struct Steadily {
    readings: u64,
    /// Ticks of each.
    stretches: Vec<i64>,
}

impl Job for Steady {
    type Output = Steadily;

    fn run(self, mut read: impl FnMut() -> i64) -> Steadily {
        let mut samples = SpacedSamples::new(0_i64, STRETCHES_MAX, self.ticks);
        let mut readings = 0;
        let mut at = counter::plain();
        loop {
            let due = samples.due(at, 1);
            let from = counter::plain();
            for _ in 0..STRETCH {
                std::hint::black_box(read());
            }
            at = counter::plain();
            readings += STRETCH as u64;
            if due {
                samples.values.push(at - from);
            }
            if at - self.from >= self.ticks && !samples.values.is_empty() {
                return Steadily { readings, stretches: samples.values };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickscope_host::facts::CounterFacts;

    #[test]
    fn the_more_processes_share_the_readers_processor_the_longer_it_is_away_and_the_fewer_it_reads() {
        let frequency = CounterFacts::of_this_host().unwrap().frequency;
        // By turns, so that what else this machine does meanwhile is felt by all three alike.
        let plan = LoadFactorPlan {
            clock: Clock::Library(PosixClock::MONOTONIC),
            seconds: 4.2,
            every: Duration::from_millis(200),
            loads: [0, 2, 8].repeat(7),
            load: Load { cpus: vec![affinity::allowed_cpus().unwrap()[0]], ..Load::SPINNING },
        };
        let mut seen = Vec::new();
        let mut keep = |count, reading| {
            seen.push((count, reading));
            std::ops::ControlFlow::Continue(())
        };
        load_factor(&plan, frequency, &mut keep).unwrap();
        assert_eq!(seen.iter().map(|&(count, _)| count).collect::<Vec<u32>>(), plan.loads);
        let middle = |of: fn(&LoadReading) -> f64| {
            [0, 2, 8].map(|count| {
                let mut values: Vec<f64> =
                    seen.iter().filter(|(members, _)| *members == count).map(|(_, reading)| of(reading)).collect();
                values.sort_by(f64::total_cmp);
                values[values.len() / 2]
            })
        };
        let [away, factor, rate] =
            [middle(|seen| seen.away), middle(|seen| seen.load_factor), middle(|seen| seen.reads_per_s)];
        assert!(away[0] < away[1] && away[1] < away[2] && away[2] > 0.5, "{seen:?}");
        assert!(factor[0] < factor[1] && factor[1] < factor[2], "{seen:?}");
        assert!(rate[0] > rate[1] && rate[1] > rate[2], "{seen:?}");
        assert!(seen.iter().all(|(_, reading)| reading.load_factor > 0.5 && reading.cost_ns > 0.0), "{seen:?}");
    }

    #[test]
    fn a_clock_is_found_by_its_name_and_no_other() {
        for clock in Clock::all() {
            assert_eq!(clock.to_string().parse(), Ok(clock));
        }
        assert!("sundial".parse::<Clock>().is_err_and(|why| why.contains("'monotonic'") && why.contains("'sundial'")));
    }
}
