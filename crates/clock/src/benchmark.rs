//! Results of a benchmark of a host's clocks: figures in nanoseconds, as they are printed.
//!
//! Raw units are gone here; what needs them is done before. Every clock of a host is either studied or absent with a
//! reason.

use serde::Serialize;

use crate::compensation::{Memory, Method, Outcome, Verdict};
use crate::density::Density;
use crate::factor::Factor;
use crate::load::Load;
use crate::measure::{Agreement, CoreSpeed, InstructionCost, Ramp, Transient, Unit};

/// All of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Benchmark {
    /// What was asked.
    pub plan: BenchmarkPlan,
    /// How long it took, seconds.
    pub took_s: f64,
    /// The counter, and what stands between it and a program.
    pub counter: CounterSeen,
    /// Whether the program that measured was compiled with optimisation; otherwise costs are its own.
    pub optimised: bool,
    /// The processors used.
    pub cpus: Vec<usize>,
    /// The same work on each of them.
    pub speeds: Vec<CoreSpeed>,
    /// The instructions that read the counter, over few and over many readings in a row.
    pub instructions: Vec<InstructionCost>,
    /// Every clock that could be read.
    #[serde(skip)]
    pub clocks: Vec<ClockResult>,
    /// Every clock that could not.
    pub absent: Vec<Absent>,
    /// Whether the time was over before every clock was read under every load; those that were not are among the
    /// absent.
    pub cut_short: bool,
    /// What readings cost after the largest load is injected; none without a load.
    pub transients: Vec<Transient>,
}

/// What is asked of a study.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BenchmarkPlan {
    /// How long it may take, about.
    pub seconds: f64,
    /// Background-load sizes to test, in busy processes by default. Every clock is measured once per
    /// size.
    pub loads: Vec<u32>,
    /// What each of them does, where, and when.
    pub load: Load,
    /// Readers at once, ascending.
    pub readers: Vec<usize>,
    /// How exactly sections are to be measured, percent.
    pub percent: f64,
    /// Length of the sections that compensation is tested with beside those of no length, nanoseconds.
    pub section_ns: u32,
}

/// The counter as a program sees it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CounterSeen {
    /// Its name.
    pub name: String,
    /// Ticks a second, declared.
    pub hertz: u64,
    /// Who declares it.
    pub declared: String,
    /// The hypervisor's name; `None` on bare metal.
    pub hypervisor: Option<String>,
    /// Whether a reading costs so much that it must be trapped.
    pub trapped: bool,
    /// The kernel's clocksource: the counter that its clocks are derived from.
    pub clocksource: Option<String>,
}

/// A clock that could not be read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Absent {
    /// Its name.
    pub clock: String,
    /// Why.
    pub why: String,
}

/// One clock.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClockResult {
    /// Its name.
    pub clock: String,
    /// What its readings count.
    pub unit: Unit,
    /// The resolution that the kernel declares, nanoseconds; it says 1 of every clock that is not coarse.
    pub declared_resolution_ns: Option<i64>,
    /// How wide a reading is: the clock stands less than that above what it reads; `None`: it was not seen to move. By
    /// its step, which `step` tells.
    pub width_ns: Option<f64>,
    /// How it moves, and how that was seen.
    pub step: String,
    /// Whether it goes on from one processor to another.
    pub across_processors: Across,
    /// Under each load.
    #[serde(skip)]
    pub loads: Vec<LoadResult>,
}

/// What is known of a clock across processors.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Across {
    /// What was seen; the worst step is in the clock's unit.
    Seen(Agreement),
    /// Why it was not looked at.
    NotLooked(String),
}

/// One clock under one load.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LoadResult {
    /// Members of the load beside: busy processes, or what else the plan's load is.
    pub busy_processes: u32,
    /// Turns that each of them began a second, where they work in turns: fewer than asked where they were put aside.
    pub turns_per_s: Option<f64>,
    /// By number of readers.
    pub cells: Vec<Cell>,
    /// Sections of no length.
    pub zero: SectionTest,
    /// Sections of the plan's length.
    pub section: SectionTest,
    /// Requests to the clock that were not answered and made again, until now.
    pub lost_requests: u64,
}

/// One clock under one load and number of readers.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Cell {
    /// Threads that read the clock at once.
    pub readers: usize,
    /// Whether these are more than there are processors, so that they take turns.
    pub takes_turns: bool,
    /// What a reading costs one of them.
    pub cost: Cost,
    /// Readings a second of one of them.
    pub reads_per_s: f64,
    /// Readings a second of all together.
    pub reads_per_s_all: f64,
    /// The smallest step seen.
    pub finest_step_ns: Option<f64>,
    /// Whether the clock stands still between readings.
    pub stands_still: bool,
    /// What the clock itself leaves open: how wide its readings are, or the step within which it spends 95 % of its
    /// time if it stands still; of a kernel clock that was never seen to step, what the kernel declares. `None`: never
    /// seen to step.
    pub resolution_ns: Option<f64>,
    /// Two sections that differ by this are told apart in 19 of 20 measurements.
    pub usable_ns: Option<f64>,
    /// The shortest section measurable to the plan's percentage, in 19 of 20 measurements.
    pub shortest_section_ns: Option<f64>,
    /// Readings less than the one before by the same thread.
    pub backward: u64,
    /// By how much at most.
    pub backward_worst_ns: f64,
    /// Cost against time, while the other readers start and stop.
    pub ramp: Ramp,
}

/// Cost of a reading, between two stamps of the counter: it holds the stamp's own cost, which is that of `tsc plain`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Cost {
    /// Readings that it was taken from.
    pub readings: usize,
    /// The cheapest.
    pub min_ns: f64,
    /// The median.
    pub median_ns: f64,
    /// 99 of 100 cost no more.
    pub p99_ns: f64,
    /// The dearest.
    pub max_ns: f64,
    /// Their mean.
    pub mean_ns: f64,
    /// Their standard deviation.
    pub deviation_ns: f64,
    /// How they are spread, nanoseconds.
    pub density: Option<Density>,
    /// All of them.
    pub histogram: Vec<Bin>,
}

/// Readings whose cost lies below a limit, and not below the limit of the bin before.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Bin {
    /// The limit, nanoseconds.
    pub below_ns: f64,
    /// How many.
    pub readings: usize,
}

/// What can be subtracted from sections of one length.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SectionTest {
    /// How long they were.
    pub section_ns: u32,
    /// How many.
    pub trials: usize,
    /// What each method left, nanoseconds.
    pub outcomes: Vec<Outcome>,
    /// The one to use here.
    pub chosen: Method,
    /// Why.
    pub why: String,
    /// Whether it left no more than doing nothing, on the half it was not chosen on.
    pub no_worse_than_none: bool,
    /// Of the half that figures are of, those that something interrupted.
    pub touched: usize,
    /// Memory of the cost of a reading.
    pub memory: Option<Memory>,
    /// Its correlation with the next reading's, in stretches of time: Method I assumes that it is not negative.
    pub rho_1: Option<Factor>,
    /// The k of Method I that it predicts, in stretches of time.
    pub k_predicted: Option<Factor>,
    /// Why there was no Method II; `None`: there was.
    pub no_sampler: Option<String>,
}

/// What is asked of a sweep over the granularity of a load.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Sweep {
    /// How long it may take, about.
    pub seconds: f64,
    /// Members of the load, which work and rest by turns.
    pub busy_processes: u32,
    /// What each of them does, and where.
    pub load: Load,
    /// How long they work, and rest, at a time, nanoseconds; one test of every clock for each.
    pub pulses_ns: Vec<u32>,
}

/// What can be subtracted under a load in pulses.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PulseTest {
    /// The clock's name.
    pub clock: String,
    /// How long the load works, and rests, at a time.
    pub pulse_ns: u32,
    /// Turns that each member began a second; `None`: there were no members.
    pub turns_per_s: Option<f64>,
    /// What a reading cost at the median, nanoseconds.
    pub cost_ns: f64,
    /// The load's time profile: how like one another readings are, by how far apart; the nearest first.
    pub profile: Vec<Lag>,
    /// Sections of no length.
    pub test: SectionTest,
}

/// How like readings are that are so far apart.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Lag {
    /// How far, nanoseconds.
    pub lag_ns: f64,
    /// The correlation of what they cost, found in several rounds.
    pub rho: Factor,
}

impl Benchmark {
    /// The study of that clock.
    pub fn clock(&self, name: &str) -> Option<&ClockResult> {
        self.clocks.iter().find(|clock| clock.clock == name)
    }
}

impl LoadResult {
    /// With one reader.
    pub fn alone(&self) -> &Cell {
        &self.cells[0]
    }
}

impl SectionTest {
    /// What a verdict says, its errors in nanoseconds.
    pub fn new(section_ns: u32, trials: usize, verdict: Verdict, no_sampler: Option<String>) -> Self {
        Self {
            section_ns,
            trials,
            chosen: verdict.chosen,
            why: verdict.why("ns"),
            no_worse_than_none: verdict.no_worse_than_none(),
            touched: verdict.touched,
            memory: verdict.memory,
            rho_1: verdict.rho_1,
            k_predicted: verdict.k_stretches,
            outcomes: verdict.outcomes,
            no_sampler,
        }
    }

    /// What that method left; `None`: it could not be tried.
    pub fn outcome(&self, method: Method) -> Option<&Outcome> {
        self.outcomes.iter().find(|outcome| outcome.method == method)
    }
}
