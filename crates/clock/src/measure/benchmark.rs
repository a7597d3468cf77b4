//! Every clock, under every load and number of readers, within a time.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tickscope_counter as counter;
use tickscope_host::facts::CounterFacts;
use tickscope_host::posix_clock::PosixClock;
use tickscope_host::step::CounterStep;
use tickscope_host::{Finding, Problem, affinity};
use tickscope_stats::{Error, Quantile, Sample};
use tickscope_tick::{Frequency, Ordering};

use super::agreement::agreement;
use super::clock::{Clock, Unit};
use super::instructions::instructions;
use super::recording::{self, Costs, Rate, Recorded, Sampled, Steady, Window, read_costs};
use super::running_load::RunningLoad;
use super::service::Service;
use super::speed::speeds;
use super::transient::Transient;
use super::waits::Section;
use crate::benchmark::{
    Absent, Across, Benchmark, BenchmarkPlan, Bin, Cell, ClockResult, Cost, CounterSeen, LoadResult, SectionTest,
};
use crate::compensation::{Halves, Length, Trial, Verdict, judge, touched};
use crate::density::Bins;
use crate::load::{Injection, Load};
use crate::series::Usable;

/// Benchmarks this host's clocks; tells `progress` what it is at. Takes about `plan.seconds`: once they are over, the
/// clock that is being read is finished with the fewest readings, and those not read yet are absent, but for the two
/// that advice is about.
pub fn benchmark(
    plan: &BenchmarkPlan,
    facts: &CounterFacts,
    progress: &mut dyn FnMut(&str),
) -> Result<Benchmark, Finding> {
    let begun = Instant::now();
    let cpus = affinity::allowed_cpus()?;
    let clocks = Clock::all();
    let deadline = begun + Duration::from_secs_f64(plan.seconds);
    let latest = counter::plain() + (plan.seconds * facts.frequency.hertz as f64) as i64;
    let mut run = BenchmarkRun {
        plan,
        cpus: &cpus,
        frequency: facts.frequency,
        latest,
        budget: Budget::new(begun, deadline, windows(plan, &clocks, cpus.len())),
        counter_step: CounterStep::of_counter(counter::NodeCounter::true_counter()),
    };
    progress("every processor: the same work");
    let speeds = speeds(&cpus, run.window_ticks(SPEED_WINDOWS * cpus.len()), facts.frequency);
    progress("the counter: many readings in a row");
    let instructions = instructions(run.window_ticks(INSTRUCTION_WINDOWS), facts.frequency);
    let transients = run.transients(progress)?;
    let (mut measured, mut absent, mut cut_short) = (Vec::new(), Vec::new(), false);
    for clock in clocks {
        match run.measured(clock, progress)? {
            ClockOutcome::Whole(result) => measured.push(result),
            ClockOutcome::Absent(why) => absent.push(Absent { clock: clock.to_string(), why }),
            ClockOutcome::TimeOver => {
                cut_short = true;
                let why = format!("{} s were over before it was read under every load", plan.seconds);
                absent.push(Absent { clock: clock.to_string(), why });
            }
        }
    }
    Ok(Benchmark {
        plan: plan.clone(),
        took_s: begun.elapsed().as_secs_f64(),
        counter: seen(facts),
        optimised: !cfg!(debug_assertions),
        cpus,
        speeds,
        instructions,
        clocks: measured,
        absent,
        cut_short,
        transients,
    })
}

/// Outcome of measuring one clock.
enum ClockOutcome {
    Whole(ClockResult),
    /// Why the host has no such clock.
    Absent(String),
    TimeOver,
}

pub(super) fn no_load(count: u32, error: &io::Error) -> Finding {
    Finding {
        about: "load",
        problem: Problem::Failure { action: format!("start a load of {count}"), reason: error.to_string() },
        remedy: "allow more processes (ulimit -u, pids.max), or ask for fewer with --load".into(),
    }
}

pub(super) fn unreachable_clock(clock: Clock, error: &io::Error) -> Finding {
    Finding {
        about: "clock",
        problem: Problem::Failure { action: format!("reach the clock '{clock}'"), reason: error.to_string() },
        remedy: "ask for fewer readers with --readers, or allow more open files (ulimit -n)".into(),
    }
}

fn seen(facts: &CounterFacts) -> CounterSeen {
    CounterSeen {
        name: facts.counter.to_string(),
        hertz: facts.frequency.hertz,
        declared: facts.frequency_origin.to_string(),
        hypervisor: facts.hypervisor.clone().filter(|name| !name.is_empty()),
        trapped: facts.trapped(),
        clocksource: facts.clocksource.clone(),
    }
}

/// Clocks that are read while a load comes and goes: one that readers fight over, and one that each reads by itself.
const TRANSIENT_CLOCKS: [Clock; 2] = [Clock::Mutex, Clock::Library(PosixClock::MONOTONIC)];

/// Time, shared out evenly among the windows that are left, less the overhead seen for each: on a busy machine
/// threads wait long before they run.
struct Budget {
    begun: Instant,
    deadline: Instant,
    windows_left: usize,
    windows_taken: usize,
    granted: Duration,
}

/// Windows for readings of the counter by the ten thousand and more.
const INSTRUCTION_WINDOWS: usize = 4;

/// Windows in which a load is injected again and again while one clock is read.
const TRANSIENT_WINDOWS: usize = 8;

/// Windows for a processor's speed: enough that it has it to itself once, where others run too.
const SPEED_WINDOWS: usize = 5;

/// Windows of every clock: how it agrees across processors; and under each load, costs and readings for each number of
/// readers, and two tests of sections, each alone and with a sampler.
fn windows(plan: &BenchmarkPlan, clocks: &[Clock], cpus: usize) -> usize {
    let under_load = |clock: &Clock| 2 * plan.readers.len() + 4 * windows_for_trials(*clock);
    let once = SPEED_WINDOWS * cpus + INSTRUCTION_WINDOWS + TRANSIENT_WINDOWS * TRANSIENT_CLOCKS.len();
    once + clocks.iter().map(|clock| 1 + plan.loads.len() * under_load(clock)).sum::<usize>()
}

/// A clock that is asked by a message takes a thousand times longer to read: it gets more time for as many trials.
fn windows_for_trials(clock: Clock) -> usize {
    if matches!(clock, Clock::UnixSocket | Clock::UdpSocket) { 4 } else { 1 }
}

impl Budget {
    fn new(begun: Instant, deadline: Instant, windows_left: usize) -> Self {
        Self { begun, deadline, windows_left, windows_taken: 0, granted: Duration::ZERO }
    }

    fn over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Expected overhead of the windows that are left, from that of the windows before.
    fn overhead(&self) -> Duration {
        let overhead = self.begun.elapsed().saturating_sub(self.granted);
        overhead.mul_f64(self.windows_left as f64 / self.windows_taken.max(1) as f64)
    }

    /// Whether the time left does not even cover that overhead.
    fn behind(&self) -> bool {
        self.overhead() >= self.left()
    }

    /// Leaves windows out.
    fn skip(&mut self, windows: usize) {
        self.windows_left -= windows.min(self.windows_left);
    }

    fn take(&mut self, windows: usize) -> Duration {
        /// Enough for a few readings of most clocks.
        const LEAST: Duration = Duration::from_millis(1);
        let free = self.left().saturating_sub(self.overhead());
        let share = free.mul_f64(windows as f64 / self.windows_left.max(windows) as f64).max(LEAST);
        self.skip(windows);
        self.windows_taken += windows;
        self.granted += share;
        share
    }
}

struct BenchmarkRun<'a> {
    plan: &'a BenchmarkPlan,
    cpus: &'a [usize],
    frequency: Frequency,
    /// The counter when the time is over.
    latest: i64,
    budget: Budget,
    counter_step: CounterStep,
}

impl<'a> BenchmarkRun<'a> {
    fn window_ticks(&mut self, windows: usize) -> i64 {
        (self.budget.take(windows).as_secs_f64() * self.frequency.hertz as f64) as i64
    }

    fn window(&mut self, readers: usize) -> Window<'a> {
        Window { ticks: self.window_ticks(1), ..self.window_of(readers) }
    }

    /// A window in which a coarse clock steps several times, if there is about as much time.
    fn window_for_steps(&mut self, readers: usize, clock: Clock) -> Window<'a> {
        const STEPS: f64 = 5.0;
        const LONGER: i64 = 4;
        let declared = declared_ns(clock).unwrap_or(0);
        let least = (declared as f64 * STEPS * self.frequency.hertz as f64 / 1e9) as i64;
        let window = self.window(readers);
        let unit_per_tick = 1.0 / self.ns_per(clock.unit()) * self.ns_per(Unit::Ticks);
        Window { ticks: window.ticks.max(least.min(LONGER * window.ticks)), unit_per_tick, ..window }
    }

    fn service(&self, clock: Clock) -> io::Result<Service> {
        Service::open(clock, self.cpus[self.cpus.len() - 1])
    }

    fn ns_per(&self, unit: Unit) -> f64 {
        match unit {
            Unit::Nanoseconds => 1.0,
            Unit::Ticks => self.frequency.nanoseconds(1.0),
        }
    }

    /// One clock, under every load.
    fn measured(&mut self, clock: Clock, progress: &mut dyn FnMut(&str)) -> Result<ClockOutcome, Finding> {
        let needed = matches!(clock, Clock::Counter(Ordering::After) | Clock::Library(PosixClock::MONOTONIC));
        if self.budget.over() && !needed {
            return Ok(ClockOutcome::TimeOver);
        }
        progress(&format!("{clock}: from one processor to another"));
        let mut result = match self.opened(clock) {
            Ok(result) => result,
            Err(error) => return Ok(ClockOutcome::Absent(error.to_string())),
        };
        for &count in &self.plan.loads {
            if self.budget.over() && !needed {
                return Ok(ClockOutcome::TimeOver);
            }
            progress(&format!("{clock}, with {}", self.plan.load.words(count)));
            let (load, service) = self.loaded(&self.plan.load, count, clock)?;
            let width = result.width_ns.map_or(0, |width| (width / self.ns_per(clock.unit())).ceil() as i64);
            let found = self.under_load(clock, &service, width).map_err(|error| unreachable_clock(clock, &error))?;
            result.loads.push(LoadResult { busy_processes: count, turns_per_s: load.turns_per_s(), ..found });
        }
        Ok(ClockOutcome::Whole(result))
    }

    /// Starts the load, and the clock's server.
    fn loaded(&self, load: &Load, count: u32, clock: Clock) -> Result<(RunningLoad, Arc<Service>), Finding> {
        let service = Arc::new(self.service(clock).map_err(|error| unreachable_clock(clock, &error))?);
        let running = RunningLoad::start(load, count, clock, &service, self.cpus, self.frequency);
        Ok((running.map_err(|error| no_load(count, &error))?, service))
    }

    /// Some clocks while the largest load comes and goes.
    fn transients(&mut self, progress: &mut dyn FnMut(&str)) -> Result<Vec<Transient>, Finding> {
        const PERIODS: i64 = 8;
        const PERIOD_NS: f64 = 40e6;
        let mut found = Vec::new();
        let Some(&count) = self.plan.loads.iter().max().filter(|&&most| most > 0) else { return Ok(found) };
        for clock in TRANSIENT_CLOCKS {
            if self.budget.over() {
                break;
            }
            progress(&format!("{clock}: after the load is injected"));
            let ticks = self.window_ticks(TRANSIENT_WINDOWS);
            let window = Window { ticks, ..self.window_of(1) };
            let period_ns = self.frequency.nanoseconds((window.ticks / PERIODS) as f64).clamp(2.0, PERIOD_NS);
            let injected = Some(Injection::by_turns((period_ns / 2.0) as u32));
            let load = Load { injected, ..self.plan.load.clone() };
            let (running, service) = self.loaded(&load, count, clock)?;
            let stamped = recording::stamped(&service, window).map_err(|error| unreachable_clock(clock, &error))?;
            let tick_ns = self.ns_per(Unit::Ticks);
            let period = running.period().unwrap_or(1);
            found.push(Transient::of(clock.to_string(), &stamped, running.origin(), period, tick_ns));
        }
        Ok(found)
    }

    fn window_of(&self, readers: usize) -> Window<'a> {
        Window { cpus: self.cpus, readers, ticks: 0, unit_per_tick: 1.0, latest: self.latest }
    }

    /// A clock that could be opened, with what is asked of it once.
    fn opened(&mut self, clock: Clock) -> io::Result<ClockResult> {
        let service = self.service(clock)?;
        let ticks = self.window_ticks(1);
        let across_processors = match clock.private() {
            Some(why) => Across::NotLooked(why.into()),
            None if self.cpus.len() < 2 => Across::NotLooked("only one processor is allowed".into()),
            None => Across::Seen(agreement(&service, self.cpus, ticks)?),
        };
        let step = self.step(clock, &service)?;
        let width = (step.width_ticks > 0).then_some(step.width_ticks as f64);
        Ok(ClockResult {
            width_ns: width.map(|width| width * self.ns_per(clock.unit())),
            step: step.to_string(),
            clock: clock.to_string(),
            unit: clock.unit(),
            declared_resolution_ns: declared_ns(clock),
            across_processors,
            loads: Vec::new(),
        })
    }

    /// How the clock steps. One that is the counter asked for by other ways steps as the counter does.
    fn step(&self, clock: Clock, service: &Service) -> io::Result<CounterStep> {
        const READINGS: i64 = 1_000_000;
        Ok(match clock {
            Clock::Library(posix) => CounterStep::measure(|| posix.read().unwrap_or(0)),
            Clock::SystemCall(posix) => CounterStep::measure(|| posix.read_by_system_call().unwrap_or(0)),
            Clock::Ticker => {
                let steady = recording::steady(service, Window { ticks: READINGS, ..self.window_of(1) })?;
                CounterStep::of(&steady.series.stretches())
            }
            Clock::Counter(_) | Clock::Mutex | Clock::UnixSocket | Clock::UdpSocket => self.counter_step.clone(),
        })
    }

    /// Measures the clock under the load that runs now; the caller fills in which load that is.
    fn under_load(&mut self, clock: Clock, service: &Service, width: i64) -> io::Result<LoadResult> {
        let mut cells = Vec::new();
        let most = self.plan.readers.last().copied();
        for &readers in &self.plan.readers {
            // One reader and the most tell more than any number between.
            if readers > 1 && Some(readers) != most && self.budget.behind() {
                self.budget.skip(2);
                continue;
            }
            let costs = recording::costs(service, self.window(readers))?;
            let steady = recording::steady(service, self.window_for_steps(readers, clock))?;
            cells.push(self.cell(readers, costs, &steady, (clock, width)));
        }
        let (zero, section) = self.tests(service, clock)?;
        Ok(LoadResult { busy_processes: 0, turns_per_s: None, cells, zero, section, lost_requests: service.lost() })
    }

    fn cell(&self, readers: usize, costs: Costs, steady: &Steady, (clock, width): (Clock, i64)) -> Cell {
        let ns = |value: i64| value as f64 * self.ns_per(clock.unit());
        let steps = steady.series.steps();
        // On a busy machine a coarse clock's ticks are just when the reader is put aside: then the kernel's word has to
        // do.
        let declared = || Some(Usable { clock: declared_ns(clock)?, reading: 0 });
        let usable = steady.series.usable(width).expect("a window holds readings").or_else(declared);
        let per_s = |rate: &Rate| rate.readings as f64 * self.frequency.hertz as f64 / rate.ticks as f64;
        Cell {
            readers,
            takes_turns: readers > self.cpus.len(),
            cost: self.cost(&costs.ticks),
            reads_per_s: per_s(&steady.own),
            reads_per_s_all: steady.all.iter().map(per_s).sum(),
            finest_step_ns: steps.finest.map(ns),
            stands_still: steps.stands_still,
            resolution_ns: usable.map(|usable| ns(usable.clock)),
            usable_ns: usable.map(|usable| ns(usable.resolution())),
            shortest_section_ns: usable.map(|usable| ns(usable.shortest_section(self.plan.percent))),
            backward: steps.backward,
            backward_worst_ns: ns(steps.backward_worst),
            ramp: costs.ramp,
        }
    }

    fn cost(&self, ticks: &[i64]) -> Cost {
        let sample = Sample::new(ticks).expect("a window holds readings");
        let ns = |ticks: i64| self.frequency.nanoseconds(ticks as f64);
        let histogram = histogram(&sample, ns);
        let moments = sample.moments();
        Cost {
            readings: sample.count(),
            min_ns: ns(sample.least()),
            median_ns: ns(sample.quantile(Quantile::MEDIAN)),
            p99_ns: ns(sample.quantile(Quantile::P99)),
            max_ns: ns(sample.most()),
            mean_ns: self.frequency.nanoseconds(moments.mean),
            deviation_ns: self.frequency.nanoseconds(moments.variance.sqrt()),
            density: Bins::around(&[&sample], self.counter_step.step_ticks.ceil() as i64)
                .map(|bins| bins.density(&sample).scaled(ns(1))),
            histogram,
        }
    }

    /// Tests sections of no length and of the plan's, each alone and with a sampler.
    fn tests(&mut self, service: &Service, clock: Clock) -> io::Result<(SectionTest, SectionTest)> {
        let nothing = Section::NOTHING;
        let zero = self.recorded(service, clock, &nothing)?;
        let costs = read_costs(&zero[..zero.len() / 2]);
        // Anew for every test: what leaving its loop costs changes with what else the processor does.
        let wait = Section::of(self.plan.section_ns, self.frequency);
        let waits = self.recorded(service, clock, &wait)?;
        let tested = |run: &mut Self, section: &Section, recorded: &[Recorded]| {
            let verdict = run.verdict(recorded, &costs, section, clock.unit());
            let verdict = verdict.map_err(|_| io::Error::other("no section that the thread was not away from"))?;
            let (verdict, no_sampler) = run.extend_by_sampler(service, clock, section, &costs, verdict)?;
            let verdict = verdict.in_nanoseconds(run.ns_per(clock.unit()));
            io::Result::Ok(SectionTest::new(section.ns, recorded.len(), verdict, no_sampler))
        };
        Ok((tested(self, &nothing, &zero)?, tested(self, &wait, &waits)?))
    }

    fn recorded(&mut self, service: &Service, clock: Clock, section: &Section) -> io::Result<Vec<Recorded>> {
        let recorded = recording::trials(service, self.window_for_trials(clock), section.ticks)?;
        Ok(section.known(recorded, clock))
    }

    fn window_for_trials(&mut self, clock: Clock) -> Window<'a> {
        Window { ticks: self.window_ticks(windows_for_trials(clock)), ..self.window_of(1) }
    }

    fn verdict(&self, recorded: &[Recorded], costs: &[i64], section: &Section, unit: Unit) -> Result<Verdict, Error> {
        let trials = marked_trials(recorded, self.truth(section, unit), self.ns_per(Unit::Ticks));
        judge(Halves::of(&trials), costs, section.length)
    }

    /// True length of a section, in the clock's unit, by how long it waited.
    fn truth(&self, section: &Section, unit: Unit) -> impl Fn(i64) -> i64 + use<> {
        let (overhead, frequency) = (section.overhead_ticks, self.frequency);
        move |waited| match unit {
            Unit::Ticks => waited + overhead,
            Unit::Nanoseconds => frequency.nanoseconds((waited + overhead) as f64).round() as i64,
        }
    }

    /// The verdict `alone`, extended by Method II where that can be tried; otherwise the reason why not.
    fn extend_by_sampler(
        &mut self,
        service: &Service,
        clock: Clock,
        section: &Section,
        costs: &[i64],
        alone: Verdict,
    ) -> io::Result<(Verdict, Option<String>)> {
        if self.cpus.len() < 2 {
            return Ok((alone, Some("it needs a processor of its own, and only one is allowed".into())));
        }
        if clock.posix().is_some_and(|posix| posix.of_cpu_time() && !posix.of_a_thread()) {
            return Ok((alone, Some("the clock counts the sampler's own time too".into())));
        }
        if self.budget.behind() {
            self.budget.skip(windows_for_trials(clock));
            return Ok((alone, Some("there was no time for it (--seconds)".into())));
        }
        let window = self.window_for_trials(clock);
        let (recorded, pairs) = recording::trials_with_sampler(service, window, section.ticks)?;
        let recorded = section.known(recorded, clock);
        let own_costs = read_costs(&recorded[..recorded.len() / 2]);
        let costs = if section.length == Length::Zero { &own_costs } else { costs };
        let truth = self.truth(section, clock.unit());
        let trials = marked_trials(&recorded, truth, self.ns_per(Unit::Ticks));
        let sampled = |(trial, of): (Trial, &Recorded)| {
            Some(Trial { sampled: Some([near(&pairs, of.from)?, near(&pairs, of.to)?]), ..trial })
        };
        let trials: Vec<Trial> = trials.into_iter().zip(&recorded).filter_map(sampled).collect();
        Ok(match judge(Halves::of(&trials), costs, section.length) {
            Ok(sampled) => (alone.with_sampler(&sampled), None),
            Err(_) => (alone, Some("the sampler did not get to run near the sections".into())),
        })
    }
}

fn declared_ns(clock: Clock) -> Option<i64> {
    clock.posix().and_then(|posix| posix.declared_resolution_ns().ok())
}

/// The median cost of the sampler's pairs nearest an instant; `None` where it took none within the time of as many.
pub fn near(pairs: &[Sampled], at: i64) -> Option<i64> {
    const NEAREST: usize = 9;
    let next = pairs.partition_point(|pair| pair.at < at);
    let from = next.saturating_sub(NEAREST / 2).min(pairs.len().checked_sub(NEAREST)?);
    let mut costs = pairs[from..from + NEAREST].iter().map(|pair| pair.cost).collect::<Vec<i64>>();
    Quantile::MEDIAN.of(&mut costs)
}

/// Trials with what is known of their interruptions, by what their readings took.
pub(super) fn marked_trials(recorded: &[Recorded], truth: impl Fn(i64) -> i64, tick_ns: f64) -> Vec<Trial> {
    const LEAST_NS: f64 = 1_000.0;
    let spent: Vec<i64> = recorded.iter().map(Recorded::spent).collect();
    let touched = touched(&spent, (LEAST_NS / tick_ns) as i64);
    recorded.iter().zip(touched).map(|(of, touched)| of.trial(&truth, touched)).collect()
}

/// Bins of 1, 2 and 5 to the power of ten, from the one that holds the least to the one that holds the most.
fn histogram(sample: &Sample, ns: impl Fn(i64) -> f64) -> Vec<Bin> {
    let limits = (0..13).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)));
    let (mut bins, mut counted) = (Vec::new(), 0);
    for below_ns in limits {
        let below = sample.values().partition_point(|&ticks| ns(ticks) < below_ns);
        if below > 0 {
            bins.push(Bin { below_ns, readings: below - counted });
        }
        counted = below;
        if below == sample.count() {
            break;
        }
    }
    bins
}
