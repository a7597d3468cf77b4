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

/// A benchmark of all clocks of a host.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Benchmark {
    /// The settings that it was made with.
    pub plan: BenchmarkPlan,
    /// Duration of the benchmark, seconds.
    pub took_s: f64,
    /// The counter, and what stands between it and a program.
    pub counter: CounterSeen,
    /// Whether the measuring program was compiled with optimisation; otherwise costs are its own.
    pub optimised: bool,
    /// The processors used.
    pub cpus: Vec<usize>,
    /// Speed of the same work on each processor.
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
    /// Costs of readings after the largest load is injected; none without a load.
    pub transients: Vec<Transient>,
}

/// Settings of a benchmark.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BenchmarkPlan {
    /// Duration, seconds, about.
    pub seconds: f64,
    /// Background-load sizes to test, in busy processes by default. Every clock is measured once per
    /// size.
    pub loads: Vec<u32>,
    /// Kind, place and schedule of the load.
    pub load: Load,
    /// Readers at once, ascending.
    pub readers: Vec<usize>,
    /// How exactly sections are to be measured, percent.
    pub percent: f64,
    /// Length of the test sections, nanoseconds; sections of no length are tested too.
    pub section_ns: u32,
}

/// The counter as a program sees it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CounterSeen {
    /// Its name.
    pub name: String,
    /// Ticks a second, declared.
    pub hertz: u64,
    /// Origin of the declared rate.
    pub declared: String,
    /// The hypervisor's name; `None` on bare metal.
    pub hypervisor: Option<String>,
    /// Whether a reading is so slow that a hypervisor must trap it.
    pub trapped: bool,
    /// The kernel's clocksource: the counter that its clocks are derived from.
    pub clocksource: Option<String>,
}

/// A clock that could not be read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Absent {
    /// Its name.
    pub clock: String,
    /// Reason.
    pub why: String,
}

/// Figures of one clock.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClockResult {
    /// Its name.
    pub clock: String,
    /// Unit of its readings.
    pub unit: Unit,
    /// The resolution that the kernel declares, nanoseconds; it says 1 of every clock that is not coarse.
    pub declared_resolution_ns: Option<i64>,
    /// How wide a reading is: the clock stands less than that above what it reads; `None`: it was not seen to move. By
    /// its step, which `step` tells.
    pub width_ns: Option<f64>,
    /// Description of its step, with the evidence.
    pub step: String,
    /// Order of its readings from one processor to another.
    pub across_processors: Across,
    /// Under each load.
    #[serde(skip)]
    pub loads: Vec<LoadResult>,
}

/// Comparison of a clock's readings across processors.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Across {
    /// Result; the worst step is in the clock's unit.
    Seen(Agreement),
    /// Reason for no comparison.
    NotLooked(String),
}

/// One clock under one load.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LoadResult {
    /// Members of the background load: busy processes, or the plan's other kind of load.
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
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Cell {
    /// Threads that read the clock at once.
    pub readers: usize,
    /// Whether there are more readers than processors, so that they take turns.
    pub takes_turns: bool,
    /// Cost of a reading by one reader.
    pub cost: Cost,
    /// Readings a second of one of them.
    pub reads_per_s: f64,
    /// Readings a second of all together.
    pub reads_per_s_all: f64,
    /// The smallest step seen.
    pub finest_step_ns: Option<f64>,
    /// Whether the clock stands still between readings.
    pub stands_still: bool,
    /// Uncertainty due to the clock itself: the width of its readings, or the step within which it spends 95 % of its
    /// time if it stands still; of a kernel clock that was never seen to step, what the kernel declares. `None`: never
    /// seen to step.
    pub resolution_ns: Option<f64>,
    /// Two sections that differ by this are told apart in 19 of 20 measurements.
    pub usable_ns: Option<f64>,
    /// The shortest section measurable to the plan's percentage, in 19 of 20 measurements.
    pub shortest_section_ns: Option<f64>,
    /// Readings less than the one before by the same thread.
    pub backward: u64,
    /// Largest step backward.
    pub backward_worst_ns: f64,
    /// Cost against time, while the other readers start and stop.
    pub ramp: Ramp,
}

/// Cost of a reading, between two stamps of the counter: it holds the stamp's own cost, which is that of `tsc plain`.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
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
    /// Number of readings.
    pub readings: usize,
}

/// Test of the subtraction methods on sections of one length.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct SectionTest {
    /// Length of the sections.
    pub section_ns: u32,
    /// Number of sections.
    pub trials: usize,
    /// Residual errors of each method, nanoseconds.
    pub outcomes: Vec<Outcome>,
    /// The method to use under this load.
    pub chosen: Method,
    /// Reason for the choice.
    pub why: String,
    /// Whether the chosen method left no more than doing nothing, on the half that it was not chosen on.
    pub no_worse_than_none: bool,
    /// Trials of the half that figures are of which something interrupted.
    pub touched: usize,
    /// Memory of the cost of a reading.
    pub memory: Option<Memory>,
    /// Its correlation with the next reading's, in stretches of time: Method I assumes that it is not negative.
    pub rho_1: Option<Factor>,
    /// The k of Method I that it predicts, in stretches of time.
    pub k_predicted: Option<Factor>,
    /// Reason why Method II was not tested; `None`: it was.
    pub no_sampler: Option<String>,
}

/// Settings of a sweep over the granularity of a load.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Sweep {
    /// Duration, seconds, about.
    pub seconds: f64,
    /// Members of the load, which work and rest by turns.
    pub busy_processes: u32,
    /// Kind and place of the load.
    pub load: Load,
    /// How long they work, and rest, at a time, nanoseconds; one test of every clock for each.
    pub pulses_ns: Vec<u32>,
}

/// Test of the subtraction methods under a load in pulses.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PulseTest {
    /// The clock's name.
    pub clock: String,
    /// How long the load works, and rests, at a time.
    pub pulse_ns: u32,
    /// Turns that each member began a second; `None`: there were no members.
    pub turns_per_s: Option<f64>,
    /// Median cost of a reading, nanoseconds.
    pub cost_ns: f64,
    /// The load's time profile: how like one another readings are, by how far apart; the nearest first.
    pub profile: Vec<Lag>,
    /// Sections of no length.
    pub test: SectionTest,
}

/// Correlation of the costs of readings at one distance in time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Lag {
    /// The distance, nanoseconds.
    pub lag_ns: f64,
    /// The correlation of what they cost, found in several rounds.
    pub rho: Factor,
}

impl Benchmark {
    /// The figures of that clock.
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
    /// Converts a verdict whose errors are in nanoseconds.
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

    /// Residual errors of that method; `None`: it could not be tried.
    pub fn outcome(&self, method: Method) -> Option<&Outcome> {
        self.outcomes.iter().find(|outcome| outcome.method == method)
    }
}
