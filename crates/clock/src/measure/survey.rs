//! Every clock, under every load and number of readers, within a time.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tickscope_stats::{Error, Quantile, Sample};
use tickscope_tick::facts::CounterFacts;
use tickscope_tick::posix_clock::PosixClock;
use tickscope_tick::{Finding, Frequency, Ordering, affinity, counter};

use super::agreement::agreement;
use super::clock::{Clock, Unit};
use super::recording::{self, Costs, Rate, Recorded, Sampled, Steady, Window};
use super::running_load::RunningLoad;
use super::service::Service;
use super::speed::speeds;
use crate::compensation::{Halves, Length, Trial, Verdict, judge};
use crate::load::{Injection, Load};
use crate::series::Usable;
use crate::study::{
    Absent, Across, Bin, Cell, ClockStudy, Cost, CounterSeen, LoadStudy, Plan, PulseTest, SectionTest, Study, Sweep,
};

/// Studies this host's clocks; tells `progress` what it is at. Takes about `plan.seconds`, longer where busy processes keep
/// it from running.
pub fn survey(plan: &Plan, facts: &CounterFacts, progress: &mut dyn FnMut(&str)) -> Result<Study, Finding> {
    let begun = Instant::now();
    let cpus = affinity::allowed_cpus().map_err(|error| no_processors(&error))?;
    let clocks = Clock::all();
    let deadline = begun + Duration::from_secs_f64(plan.seconds);
    let mut survey = Survey {
        plan,
        cpus: &cpus,
        frequency: facts.frequency,
        budget: Budget { deadline, windows_left: windows(plan, &clocks, cpus.len()) },
    };
    progress("every processor: the same work");
    let speeds = speeds(&cpus, survey.window_ticks(SPEED_WINDOWS * cpus.len()), facts.frequency);
    let (mut present, mut studied, mut absent) = (Vec::new(), Vec::new(), Vec::new());
    for clock in clocks {
        progress(&format!("{clock}: from one processor to another"));
        match survey.opened(clock) {
            Ok(study) => {
                present.push(clock);
                studied.push(study);
            }
            Err(error) => absent.push(Absent { clock: clock.to_string(), why: error.to_string() }),
        }
    }
    for &count in &plan.loads {
        for (&clock, study) in present.iter().zip(&mut studied) {
            progress(&format!("{clock}, {} beside", plan.load.words(count)));
            let service = Arc::new(survey.service(clock).map_err(|error| broken(clock, &error))?);
            let load = RunningLoad::start(&plan.load, count, (clock, &service), survey.cpus, facts.frequency);
            let load = load.map_err(|error| no_load(count, &error))?;
            let found = survey.under_load(clock, &service).map_err(|error| broken(clock, &error))?;
            study.loads.push(LoadStudy { busy_processes: count, turns_per_s: load.turns_per_s(), ..found });
        }
    }
    Ok(Study {
        plan: plan.clone(),
        took_s: begun.elapsed().as_secs_f64(),
        counter: seen(facts),
        optimised: !cfg!(debug_assertions),
        cpus,
        speeds,
        clocks: studied,
        absent,
    })
}

/// Where Method I stops helping as the load's pulses get shorter (the Cm* study, 4.6: where they are about as short as a
/// reading). Sections of no length, beside a load that works and rests by turns, for every pulse in turn and every clock.
pub fn pulses(sweep: &Sweep, facts: &CounterFacts, progress: &mut dyn FnMut(&str)) -> Result<Vec<PulseTest>, Finding> {
    let cpus = affinity::allowed_cpus().map_err(|error| no_processors(&error))?;
    let windows = sweep.pulses_ns.len() * SWEPT.len();
    let ticks = (sweep.seconds / windows as f64 * facts.frequency.hertz as f64) as i64;
    let mut found = Vec::new();
    for &pulse_ns in &sweep.pulses_ns {
        let load = Load { injected: Some(Injection::by_turns(pulse_ns)), ..sweep.load.clone() };
        let count = sweep.busy_processes;
        for clock in SWEPT {
            progress(&format!("{clock}, pulses of {pulse_ns} ns"));
            let service = Service::open(clock, cpus[cpus.len() - 1]).map_err(|error| broken(clock, &error))?;
            let service = Arc::new(service);
            let running = RunningLoad::start(&load, count, (clock, &service), &cpus, facts.frequency)
                .map_err(|error| no_load(count, &error))?;
            let window = Window { cpus: &cpus, readers: 1, ticks, unit_per_tick: 1.0 };
            let zero = recording::trials(&service, window, 0).map_err(|error| broken(clock, &error))?;
            let ns = if clock.unit() == Unit::Ticks { facts.frequency.nanoseconds(1.0) } else { 1.0 };
            found.push(PulseTest {
                clock: clock.to_string(),
                pulse_ns,
                turns_per_s: running.turns_per_s(),
                ..pulse_test(&zero, ns).expect("a window holds trials")
            });
        }
    }
    Ok(found)
}

/// What those sections of no length say; whose and beside what is said elsewhere.
fn pulse_test(zero: &[Recorded], ns: f64) -> Result<PulseTest, Error> {
    let trials: Vec<Trial> = zero.iter().map(|trial| trial.trial(|_| 0, None)).collect();
    let verdict = judge(Halves::of(&trials), &read_costs(&zero[..zero.len() / 2]), Length::Zero)?;
    let test = SectionTest::new(0, zero.len(), verdict.in_nanoseconds(ns), Some("not tried".into()));
    let cost_ns = Sample::new(&read_costs(zero))?.quantile(Quantile::MEDIAN) as f64 * ns;
    Ok(PulseTest { clock: String::new(), pulse_ns: 0, turns_per_s: None, cost_ns, test })
}

/// Clocks whose readings take from nanoseconds to microseconds; readers of the mutex's are felt by each other.
const SWEPT: [Clock; 5] = [
    Clock::Counter(Ordering::After),
    Clock::Mutex,
    Clock::Library(PosixClock::MONOTONIC),
    Clock::SystemCall(PosixClock::MONOTONIC),
    Clock::UdpSocket,
];

pub(super) fn no_processors(error: &io::Error) -> Finding {
    Finding {
        subject: "processors",
        expected: "the list of allowed processors".into(),
        found: error.to_string(),
        remedy: "allow sched_getaffinity in the sandbox".into(),
    }
}

pub(super) fn no_load(count: u32, error: &io::Error) -> Finding {
    Finding {
        subject: "load",
        expected: format!("to start a load of {count}"),
        found: error.to_string(),
        remedy: "allow more processes (ulimit -u, pids.max), or ask for fewer with --load".into(),
    }
}

fn broken(clock: Clock, error: &io::Error) -> Finding {
    Finding {
        subject: "clock",
        expected: format!("every reader of '{clock}' to reach it, as the first one did"),
        found: error.to_string(),
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

/// Time, shared out evenly among the windows that are left.
struct Budget {
    deadline: Instant,
    windows_left: usize,
}

/// Windows for a processor's speed: enough that it has it to itself once, where others run too.
const SPEED_WINDOWS: usize = 5;

/// Windows of every clock: how it agrees across processors; and under each load, costs and readings for each number of
/// readers, and two tests of sections, each alone and beside a sampler.
fn windows(plan: &Plan, clocks: &[Clock], cpus: usize) -> usize {
    let under_load = |clock: &Clock| 2 * plan.readers.len() + 4 * windows_for_trials(*clock);
    SPEED_WINDOWS * cpus + clocks.iter().map(|clock| 1 + plan.loads.len() * under_load(clock)).sum::<usize>()
}

/// A clock that is asked by a message takes a thousand times longer to read: it gets more time for as many trials.
fn windows_for_trials(clock: Clock) -> usize {
    if matches!(clock, Clock::UnixSocket | Clock::UdpSocket) { 4 } else { 1 }
}

impl Budget {
    fn take(&mut self, windows: usize) -> Duration {
        /// Enough for a few readings of the slowest clock.
        const LEAST: Duration = Duration::from_millis(1);
        let left = self.deadline.saturating_duration_since(Instant::now());
        let share = left.mul_f64(windows as f64 / self.windows_left.max(windows) as f64);
        self.windows_left -= windows.min(self.windows_left);
        share.max(LEAST)
    }
}

struct Survey<'a> {
    plan: &'a Plan,
    cpus: &'a [usize],
    frequency: Frequency,
    budget: Budget,
}

impl<'a> Survey<'a> {
    fn window_ticks(&mut self, windows: usize) -> i64 {
        (self.budget.take(windows).as_secs_f64() * self.frequency.hertz as f64) as i64
    }

    fn window(&mut self, readers: usize) -> Window<'a> {
        let ticks = self.window_ticks(1);
        Window { cpus: self.cpus, readers, ticks, unit_per_tick: 1.0 }
    }

    /// A window in which a coarse clock steps several times.
    fn window_for_steps(&mut self, readers: usize, clock: Clock) -> Window<'a> {
        const STEPS: f64 = 5.0;
        let declared = declared_ns(clock).unwrap_or(0);
        let least = (declared as f64 * STEPS * self.frequency.hertz as f64 / 1e9) as i64;
        let window = self.window(readers);
        let unit_per_tick = 1.0 / self.ns_per(clock.unit()) * self.ns_per(Unit::Ticks);
        Window { ticks: window.ticks.max(least), unit_per_tick, ..window }
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

    /// A clock that could be opened, with what is asked of it once.
    fn opened(&mut self, clock: Clock) -> io::Result<ClockStudy> {
        let service = self.service(clock)?;
        let ticks = self.window_ticks(1);
        let across_processors = match clock.private() {
            Some(why) => Across::NotLooked(why.into()),
            None if self.cpus.len() < 2 => Across::NotLooked("only one processor is allowed".into()),
            None => Across::Seen(agreement(&service, self.cpus, ticks)?),
        };
        Ok(ClockStudy {
            clock: clock.to_string(),
            unit: clock.unit(),
            declared_resolution_ns: declared_ns(clock),
            across_processors,
            loads: Vec::new(),
        })
    }

    /// As it is read beside a load, which is named elsewhere.
    fn under_load(&mut self, clock: Clock, service: &Service) -> io::Result<LoadStudy> {
        let mut cells = Vec::new();
        for &readers in &self.plan.readers {
            let costs = recording::costs(service, self.window(readers))?;
            let steady = recording::steady(service, self.window_for_steps(readers, clock))?;
            cells.push(self.cell(readers, costs, &steady, clock));
        }
        let (zero, section) = self.tests(service, clock)?;
        Ok(LoadStudy { busy_processes: 0, turns_per_s: None, cells, zero, section, lost_requests: service.lost() })
    }

    fn cell(&self, readers: usize, costs: Costs, steady: &Steady, clock: Clock) -> Cell {
        let ns = |value: i64| value as f64 * self.ns_per(clock.unit());
        let steps = steady.series.steps();
        // On a busy machine a coarse clock's ticks are just when the reader is put aside: then the kernel's word has to do.
        let declared = || Some(Usable { clock: declared_ns(clock)?, reading: 0 });
        let usable = steady.series.usable().expect("a window holds readings").or_else(declared);
        let per_s = |rate: &Rate| rate.readings as f64 * self.frequency.hertz as f64 / rate.ticks as f64;
        Cell {
            readers,
            cost: self.cost(&costs.ticks),
            reads_per_s: per_s(&steady.own),
            reads_per_s_all: steady.all.iter().map(per_s).sum(),
            finest_step_ns: steps.finest.map(ns),
            quantum_ns: steps.quantum.map(ns),
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
        Cost {
            readings: sample.count(),
            min_ns: ns(sample.least()),
            median_ns: ns(sample.quantile(Quantile::MEDIAN)),
            p99_ns: ns(sample.quantile(Quantile::P99)),
            max_ns: ns(sample.most()),
            histogram,
        }
    }

    /// Sections of no length and of the plan's, each alone and beside a sampler.
    fn tests(&mut self, service: &Service, clock: Clock) -> io::Result<(SectionTest, SectionTest)> {
        let nothing = Section { ns: 0, ticks: 0, overhead_ticks: 0, length: Length::Zero };
        let zero = self.recorded(service, clock, &nothing)?;
        let costs = read_costs(&zero[..zero.len() / 2]);
        // Anew for every test: what leaving its loop costs changes with what else the processor does.
        let wait = Section::of(self.plan.section_ns, self.frequency);
        let waits = self.recorded(service, clock, &wait)?;
        let tested = |survey: &mut Self, section: &Section, recorded: &[Recorded]| {
            let verdict = survey.verdict(recorded, &costs, section, clock.unit());
            let verdict = verdict.map_err(|_| io::Error::other("no section that the thread was not away from"))?;
            let (verdict, no_sampler) = survey.beside_a_sampler(service, clock, section, &costs, verdict)?;
            let verdict = verdict.in_nanoseconds(survey.ns_per(clock.unit()));
            io::Result::Ok(SectionTest::new(section.ns, recorded.len(), verdict, no_sampler))
        };
        Ok((tested(self, &nothing, &zero)?, tested(self, &wait, &waits)?))
    }

    fn recorded(&mut self, service: &Service, clock: Clock, section: &Section) -> io::Result<Vec<Recorded>> {
        let recorded = recording::trials(service, self.window_for_trials(clock), section.ticks)?;
        Ok(section.known(recorded, clock))
    }

    fn window_for_trials(&mut self, clock: Clock) -> Window<'a> {
        let ticks = self.window_ticks(windows_for_trials(clock));
        Window { cpus: self.cpus, readers: 1, ticks, unit_per_tick: 1.0 }
    }

    fn verdict(&self, recorded: &[Recorded], costs: &[i64], section: &Section, unit: Unit) -> Result<Verdict, Error> {
        let trials: Vec<Trial> = recorded.iter().map(|trial| trial.trial(self.truth(section, unit), None)).collect();
        judge(Halves::of(&trials), costs, section.length)
    }

    /// How long a section was, in the clock's unit, by how long it waited.
    fn truth(&self, section: &Section, unit: Unit) -> impl Fn(i64) -> i64 + use<> {
        let (overhead, frequency) = (section.overhead_ticks, self.frequency);
        move |waited| match unit {
            Unit::Ticks => waited + overhead,
            Unit::Nanoseconds => frequency.nanoseconds((waited + overhead) as f64).round() as i64,
        }
    }

    /// That verdict with Method II, where it can be tried; otherwise why not.
    fn beside_a_sampler(
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
        let window = self.window_for_trials(clock);
        let (recorded, pairs) = recording::trials_beside_a_sampler(service, window, section.ticks)?;
        let recorded = section.known(recorded, clock);
        let own_costs = read_costs(&recorded[..recorded.len() / 2]);
        let costs = if section.length == Length::Zero { &own_costs } else { costs };
        let truth = self.truth(section, clock.unit());
        let trials: Vec<Trial> = recorded
            .iter()
            .filter_map(|trial| Some(trial.trial(&truth, Some([near(&pairs, trial.from)?, near(&pairs, trial.to)?]))))
            .collect();
        Ok(match judge(Halves::of(&trials), costs, section.length) {
            Ok(beside) => (alone.with_sampler(&beside), None),
            Err(_) => (alone, Some("the sampler was kept from running near the sections".into())),
        })
    }
}

fn declared_ns(clock: Clock) -> Option<i64> {
    clock.posix().and_then(|posix| posix.declared_resolution_ns().ok())
}

/// What the readings around sections of no length cost, in order of time.
fn read_costs(recorded: &[Recorded]) -> Vec<i64> {
    recorded.iter().flat_map(|trial| [trial.t_1, trial.t_m, trial.t_4]).collect()
}

/// The median cost of the sampler's pairs nearest an instant; `None` where it took none within the time of as many.
pub(crate) fn near(pairs: &[Sampled], at: i64) -> Option<i64> {
    const NEAREST: usize = 9;
    let next = pairs.partition_point(|pair| pair.at < at);
    let from = next.saturating_sub(NEAREST / 2).min(pairs.len().checked_sub(NEAREST)?);
    let mut costs = pairs[from..from + NEAREST].iter().map(|pair| pair.cost).collect::<Vec<i64>>();
    Quantile::MEDIAN.of(&mut costs)
}

/// Sections of a known length: zero-work waits.
#[derive(Clone, Copy)]
struct Section {
    /// As asked.
    ns: u32,
    ticks: i64,
    /// By how much a wait is longer than the counter within it says: leaving its loop costs a mispredicted branch.
    overhead_ticks: i64,
    length: Length,
}

impl Section {
    /// Waits of that length. Its overhead is known to a reading's spread, a few ticks: what the counter shows of a wait is
    /// compared with what it shows of nothing.
    fn of(ns: u32, frequency: Frequency) -> Self {
        const TRIES: usize = 101;
        let ticks = (f64::from(ns) / frequency.nanoseconds(1.0)) as i64;
        let around = |section: &dyn Fn() -> i64| {
            let from = counter::plain();
            let known = section();
            counter::plain() - from - known
        };
        let median = |section: &dyn Fn() -> i64| {
            let mut excess: Vec<i64> = (0..TRIES).map(|_| around(section)).collect();
            Quantile::MEDIAN.of(&mut excess).expect("tried")
        };
        let (waiting, nothing) = (median(&|| recording::wait(ticks)), median(&|| 0));
        Self { ns, ticks, overhead_ticks: waiting - nothing, length: Length::Long }
    }

    /// Those whose length is known by that clock: one of processor time stands still while the thread is away.
    fn known(&self, mut recorded: Vec<Recorded>, clock: Clock) -> Vec<Recorded> {
        if clock.posix().is_some_and(PosixClock::of_cpu_time) {
            let longest = self.ticks + self.ticks / 10;
            recorded.retain(|trial| trial.waited <= longest);
        }
        recorded
    }
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
