//! Every option once: parser, help and completions derive from here.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use tickscope_clock::load::Injection;
use tickscope_clock::measure::Clock;
use tickscope_experiment::roles::{self, Role, RoleContext};
use tickscope_tick::{NodeName, Source};

use crate::failure::Failure;

/// Measure where time goes - across layers, cores and hosts - with a guaranteed error bound on every duration.
///
/// Start with `tickscope doctor`, then `tickscope run FILE.toml`.
///
/// Exit codes: 0 done; 1 something went wrong; 2 wrong input; 3 the evidence contradicts itself or an assumption.
#[derive(Debug, Parser)]
#[command(name = "tickscope", version)]
pub struct Options {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one experiment file: start the nodes, take brackets, collect, print the table
    Run(RunOptions),
    /// Print a run's table of stages, also under another rho
    Show(ShowOptions),
    /// Read a run wholly, and say what of it is damaged or missing
    Check(CheckOptions),
    /// Write a run's page: one HTML file that opens offline
    Report(ReportOptions),
    /// Write every duration of every trace in another program's format
    Export(ExportOptions),
    /// Look once before measuring: what is there, and what each thing costs the result
    Doctor(DoctorOptions),
    /// Benchmark this host's clocks: what a reading costs, how finely each can be used, what to subtract
    Clock(Box<ClockOptions>),
    /// Turn the stamps that lie in a stamp directory into a run's files
    Collect(CollectOptions),
    /// Print completions for a shell
    Completions(CompletionsOptions),
    /// Print the man page: tickscope man | man -l -
    Man,
    /// Play a part in a run that `run` began on this host
    #[command(hide = true)]
    Role(RoleOptions),
}

#[derive(Debug, Args)]
pub struct RunOptions {
    /// The run file (TOML)
    pub file: PathBuf,
    /// Directory of the run; it must not hold one yet [default: runs/NAME-TIME]
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Seconds to measure, instead of the file's
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Write the run's page too, as `tickscope report` does
    #[arg(long)]
    pub report: bool,
    /// First compare numbers that the target reports, in passes with and without measuring: [overhead] in the run file
    #[arg(long)]
    pub overhead: bool,
    /// Print the table as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ShowOptions {
    /// A run's directory
    pub run: PathBuf,
    #[command(flatten)]
    pub query: QueryOptions,
    /// Print the table as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CheckOptions {
    /// A run's directory
    pub run: PathBuf,
    /// Print what was found as JSON
    #[arg(long)]
    pub json: bool,
}

/// What may be asked differently than the run declares.
#[derive(Debug, Args)]
pub struct QueryOptions {
    /// Ask under another rho: unknown, server-room, lab, laptop, or a number of ppm
    #[arg(long)]
    pub rho: Option<String>,
    /// Ask under another slew bound for clocks that somebody may set, in ppm
    #[arg(long)]
    pub slew: Option<String>,
    /// Use these sources of evidence between nodes only
    #[arg(long, value_delimiter = ',', value_parser = source())]
    pub evidence: Option<Vec<Source>>,
}

/// Reads a source of evidence; help and completions list all.
fn source() -> impl TypedValueParser<Value = Source> {
    let parse = |name: String| name.parse::<Source>();
    PossibleValuesParser::new(Source::ALL.map(Source::name)).try_map(parse)
}

#[derive(Debug, Args)]
pub struct ReportOptions {
    /// A run's directory
    pub run: PathBuf,
    /// The file to write [default: RUN/report.html]
    #[arg(long)]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub query: QueryOptions,
    /// Print what the page says and draws as JSON, and write no page
    #[arg(long, conflicts_with = "out")]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ExportOptions {
    /// A run's directory
    pub run: PathBuf,
    /// Write comma-separated values to this file, a row for each trace and stage; - is standard output
    #[arg(long, value_name = "FILE")]
    pub csv: PathBuf,
    #[command(flatten)]
    pub query: QueryOptions,
    /// Print what was written as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct DoctorOptions {
    /// Print the findings as JSON
    #[arg(long)]
    pub json: bool,
    /// Directory on tmpfs that stamps are to go to
    #[arg(long, default_value = "/dev/shm")]
    pub shared_memory: PathBuf,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ClockOptions {
    #[command(subcommand)]
    pub part: Option<ClockPart>,
    #[command(flatten)]
    pub benchmark: BenchmarkOptions,
}

#[derive(Debug, Subcommand)]
pub enum ClockPart {
    /// Find where subtracting nearby readings stops helping as the load's pulses get shorter
    Sweep(SweepOptions),
    /// Read one clock steadily and tell in every interval how loaded its processor is
    LoadFactor(LoadFactorOptions),
    /// Print the Cm* study's example from a run of experiments/cm-star.toml: latency of messages, time of calls
    Example(ExampleOptions),
}

#[derive(Debug, Args)]
pub struct BenchmarkOptions {
    /// Seconds that the benchmark may take, about
    #[arg(long, default_value_t = 45.0)]
    pub seconds: f64,
    /// Background-load sizes to test, in processes; every clock is measured once per size, 0 is the machine as it is
    #[arg(long, value_delimiter = ',', default_value = "0,2")]
    pub load: Vec<u32>,
    #[command(flatten)]
    pub background: RestingLoadOptions,
    /// Readers at once, from 1 by doubling up to this [default: the processors, at least 4]
    #[arg(long)]
    pub readers: Option<usize>,
    /// How exactly sections are to be measured, in percent
    #[arg(long, default_value_t = 1.0)]
    pub percent: f64,
    /// Length of the sections that compensation is tested with, next to those of no length, in nanoseconds
    #[arg(long, default_value_t = 10_000)]
    pub section_ns: u32,
    #[command(flatten)]
    pub output: OutputOptions,
}

#[derive(Debug, Args)]
pub struct SweepOptions {
    /// Seconds that the sweep may take, about
    #[arg(long, default_value_t = 45.0)]
    pub seconds: f64,
    /// Processes of the load
    #[arg(long, default_value_t = 2)]
    pub load: u32,
    #[command(flatten)]
    pub placed: LoadOptions,
    #[command(flatten)]
    pub output: OutputOptions,
}

#[derive(Debug, Args)]
pub struct LoadFactorOptions {
    /// The clock to read
    #[arg(long, default_value = "monotonic")]
    pub clock: Clock,
    /// Milliseconds of an interval
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=3_600_000))]
    pub every_ms: u32,
    /// Seconds in all, shared out evenly among the sizes of the load
    #[arg(long, default_value_t = 45.0)]
    pub seconds: f64,
    /// Background-load sizes, in processes, one after another
    #[arg(long, value_delimiter = ',', default_value = "0")]
    pub load: Vec<u32>,
    #[command(flatten)]
    pub background: RestingLoadOptions,
    /// Print an object a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ExampleOptions {
    /// A run's directory
    pub run: PathBuf,
    #[command(flatten)]
    pub output: OutputOptions,
}

/// Where the background load runs, and what it does.
#[derive(Debug, Args)]
pub struct LoadOptions {
    /// What the load is: busy processes, or further readers of the very clock that is measured
    #[arg(long, default_value = "spin")]
    pub load_kind: LoadKind,
    /// Pin the load to these processors in turn [default: spin runs anywhere, a replica on the next processor]
    #[arg(long, value_delimiter = ',')]
    pub load_cpus: Vec<usize>,
}

/// A background load that may rest in between.
#[derive(Debug, Args)]
pub struct RestingLoadOptions {
    #[command(flatten)]
    pub placed: LoadOptions,
    /// Let the load work for a LENGTH every PERIOD, such as 1ms/10ms, and rest meanwhile [default: it never rests]
    #[arg(long, value_name = "LENGTH/PERIOD")]
    pub inject: Option<Injection>,
}

/// What is made of the figures.
#[derive(Debug, Args)]
pub struct OutputOptions {
    /// Print every figure as JSON
    #[arg(long)]
    pub json: bool,
    /// Write the figures as a page too, which opens offline
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// What the background load is.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LoadKind {
    /// Busy processes
    Spin,
    /// Further readers of the clock that is measured
    Replica,
}

#[derive(Debug, Args)]
pub struct CollectOptions {
    /// The stamp directory: what TICKSCOPE_DIR named
    pub directory: PathBuf,
    /// The run's directory; its run.json is made where it has none
    #[arg(long)]
    pub run: PathBuf,
    /// The node's name
    #[arg(long, default_value = "node")]
    pub node: NodeName,
    /// Go on until SIGTERM or Ctrl-C, instead of taking once what lies there
    #[arg(long)]
    pub follow: bool,
    /// Print what was collected as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CompletionsOptions {
    /// Which shell
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub struct RoleOptions {
    pub name: String,
    /// The node that it is played for
    #[arg(long)]
    pub node: NodeName,
    /// The run's directory
    #[arg(long)]
    pub run: PathBuf,
    /// The role's settings, JSON
    #[arg(long, default_value = "null")]
    pub settings: String,
}

impl RoleOptions {
    /// Plays the role in this process.
    pub fn play(&self) -> Result<(), Failure> {
        let place = RoleContext { node: self.node.clone(), run: self.run.clone() };
        roles::play(&Role::parse(&self.name, &self.settings)?, &place)
    }
}
