//! Every option once: parser, help and completions derive from here.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use tickscope_clock::load::Injection;
use tickscope_clock::measure::Clock;
use tickscope_tick::Source;

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
    /// Write a run's page: one HTML file that opens offline
    Report(ReportOptions),
    /// Write every duration of every trace in another program's format
    Export(ExportOptions),
    /// Look once before measuring: what is there, and what each thing costs the result
    Doctor(DoctorOptions),
    /// Study this host's clocks: what a reading costs, how finely each can be used, what to subtract
    Clock(ClockOptions),
    /// Turn the stamps that lie in a stamp directory into a run's files
    Collect(CollectOptions),
    /// Print completions for a shell
    Completions(CompletionsOptions),
    /// Print the man page: tickscope man | man -l -
    Man,
    /// Answer a probe's requests (started by `run` on every node but the reference)
    #[command(hide = true)]
    ProbeServe(ProbeServeOptions),
    /// Take brackets with one peer (started by `run` on the reference node)
    #[command(hide = true)]
    ProbeAsk(ProbeAskOptions),
    /// Watch this host's clocks, and take brackets of them (started by `run` on every node)
    #[command(hide = true)]
    ClockMonitor(ClockMonitorOptions),
    /// Time stamps on this host (started by `run` before it measures)
    #[command(hide = true)]
    StampCost,
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
    /// First compare what the target says of itself, measured and not, in pairs of passes: [overhead] in the run file
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
    /// Ask under another rho: unknown, server-room, lab, laptop, or a number of ppm
    #[arg(long)]
    pub rho: Option<String>,
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
pub struct ClockOptions {
    /// Seconds that the study may take, about
    #[arg(long, default_value_t = 45.0, conflicts_with_all = ["two_words", "example"])]
    pub seconds: f64,
    /// Busy processes beside, one table for each number; 0 is the machine as it is
    #[arg(long, value_delimiter = ',', default_value = "0,2", default_value_if("gauge", "true", "0"), conflicts_with_all = ["two_words", "example"])]
    pub load: Vec<u32>,
    /// What the load beside is: busy processes, or further readers of the very clock that is measured
    #[arg(long, default_value = "spin", conflicts_with_all = ["two_words", "example"])]
    pub load_kind: LoadKind,
    /// Pin the load to these processors in turn [default: spin runs anywhere, a replica on the next processor]
    #[arg(long, value_delimiter = ',', conflicts_with_all = ["two_words", "example"])]
    pub load_cpus: Vec<usize>,
    /// Let the load work for a LENGTH every PERIOD, such as 1ms/10ms, and rest meanwhile [default: it never rests]
    #[arg(long, value_name = "LENGTH/PERIOD", conflicts_with_all = ["two_words", "example", "granularity"])]
    pub inject: Option<Injection>,
    /// Readers at once, from 1 by doubling up to this [default: the processors, at least 4]
    #[arg(long, conflicts_with_all = ["two_words", "example", "granularity", "gauge"])]
    pub readers: Option<usize>,
    /// How exactly sections are to be measured, in percent
    #[arg(long, default_value_t = 1.0, conflicts_with_all = ["two_words", "example", "granularity", "gauge"])]
    pub percent: f64,
    /// Length of the sections that compensation is tested with beside those of no length, in nanoseconds
    #[arg(long, default_value_t = 10_000, conflicts_with_all = ["two_words", "example", "granularity", "gauge"])]
    pub section_ns: u32,
    /// Print every figure as JSON
    #[arg(long)]
    pub json: bool,
    /// Write the figures as a page too, which opens offline: of the study, or of what is asked for instead
    #[arg(long, value_name = "FILE", conflicts_with = "gauge")]
    pub html: Option<PathBuf>,
    /// Find instead where subtracting nearby readings stops helping as the load's pulses get shorter
    #[arg(long, conflicts_with = "two_words")]
    pub granularity: bool,
    /// Read one clock steadily instead, and tell in every interval how loaded its processor is
    #[arg(long, conflicts_with_all = ["two_words", "granularity", "example"])]
    pub gauge: bool,
    /// The clock that the gauge reads
    #[arg(long, default_value = "monotonic", requires = "gauge")]
    pub clock: Clock,
    /// Milliseconds of an interval of the gauge
    #[arg(long, default_value_t = 1000, requires = "gauge", value_parser = clap::value_parser!(u32).range(1..=3_600_000))]
    pub every_ms: u32,
    /// Print instead what reading a clock of two words is worth, by enumeration
    #[arg(long)]
    pub two_words: bool,
    /// Run instead the example of the Cm* study: latency of messages and time of remote procedure calls between processes; or
    /// show it from a run of experiments/cm-star.toml, between nodes
    #[arg(long, value_name = "RUN", num_args = 0..=1, conflicts_with_all = ["two_words", "granularity"])]
    pub example: Option<Option<PathBuf>>,
    /// Words of 16 bits that the example's client and server access, ascending, 2000 at most [default: 0,50,100,150,200]
    #[arg(long, value_delimiter = ',', requires = "example")]
    pub words: Option<Vec<u16>>,
    /// Timed calls for each number of words in the example [default: 512]
    #[arg(long, requires = "example", value_parser = clap::value_parser!(u32).range(8..=1_000_000))]
    pub repetitions: Option<u32>,
}

/// What the load beside is.
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
    pub node: String,
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
pub struct ProbeServeOptions {
    #[arg(long)]
    pub listen: SocketAddr,
    /// The run's id, hexadecimal
    #[arg(long, value_parser = hexadecimal)]
    pub run_id: u64,
    #[arg(long)]
    pub node_id: u32,
    /// Let the kernel stamp one exchange in so many; 0: none
    #[arg(long, default_value_t = 0)]
    pub kernel_every: u32,
}

#[derive(Debug, Args)]
pub struct ProbeAskOptions {
    #[arg(long)]
    pub bind: SocketAddr,
    #[arg(long)]
    pub peer: SocketAddr,
    /// The run's id, hexadecimal
    #[arg(long, value_parser = hexadecimal)]
    pub run_id: u64,
    #[arg(long)]
    pub node_id: u32,
    #[arg(long)]
    pub peer_id: u32,
    /// Requests a second during the run; 0: bursts only
    #[arg(long)]
    pub hertz: f64,
    /// Let the kernel stamp one exchange in so many; 0: none
    #[arg(long, default_value_t = 0)]
    pub kernel_every: u32,
    /// Folder of the pair's brackets
    #[arg(long)]
    pub brackets: PathBuf,
}

#[derive(Debug, Args)]
pub struct ClockMonitorOptions {
    /// The node's name
    #[arg(long)]
    pub node: String,
    /// The run's directory
    #[arg(long)]
    pub run: PathBuf,
    /// Milliseconds from one look to the next
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub every_ms: u32,
}

fn hexadecimal(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16)
        .map_err(|e| format!("expected hexadecimal digits, found '{text}': {e}. Leave this command to `tickscope run`"))
}
