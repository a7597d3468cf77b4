//! Every option once: parser, help and completions derive from here.

use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PathBufValueParser, PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use tickscope_analysis::{AgeKey, ChangeTolerance, GroupedBy};
use tickscope_bracket::Rho;
use tickscope_clock::load::Injection;
use tickscope_clock::measure::Clock;
use tickscope_experiment::roles::{self, Role, RoleContext};
use tickscope_show::stage_table::Scale;
use tickscope_store::Codec;
use tickscope_tick::{DurationForm, NodeName, Place, Source, decimal};
use tickscope_trace::Quantile;

use crate::chosen_run;
use crate::failure::Failure;

mod exchange;
mod house;
mod load;
mod noise;
mod run;
mod seconds;
mod sustain;

pub use exchange::{ExportFormat, ExportOptions, ImportOptions};
pub use house::{MergeOptions, PackOptions, RmOptions, RunsOptions, UnpackOptions};
pub use load::{GeneratorOptions, RepliesOption, TransportOption};
pub use noise::{
    FleetOptions, NoiseOptions, NoisePart, ProfilesOptions, ShownProfileOptions, StudyOptions, SurveyOptions,
};
pub use run::{FinishOptions, RelateOptions, ResumeOptions, RunOptions};
use seconds::seconds;
pub use sustain::SustainOptions;

/// Measure where time goes - across layers, cores and hosts - with a guaranteed error bound on every duration.
///
/// Start with `tickscope doctor`, then `tickscope run -- COMMAND`, or `tickscope init` and `tickscope run FILE.toml`.
///
/// Exit codes: 0 done; 1 something went wrong; 2 wrong input; 3 the evidence contradicts itself or an assumption; 4 a
/// limit is violated, or what compare --fail-on names was found; 5 a limit, what --fail-on names, or a sustained
/// rate is not resolved.
#[derive(Debug, Parser)]
#[command(name = "tickscope", version)]
pub struct Options {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one experiment file, or one command: start the nodes, take brackets, collect, print the table
    Run(RunOptions),
    /// Relate the clocks of a run file's machines and start nothing there: how well each pair is known
    Relate(RelateOptions),
    /// Search the highest rate that a run file's system sustains, an interval: [sustain] in the run file
    Sustain(SustainOptions),
    /// Send a load of tuples over TCP, UDP, HTTP, ZeroMQ or Kafka, each when it is due
    Load(GeneratorOptions),
    /// Write a run file to start from
    Init(InitOptions),
    /// Show the state of a running run's nodes
    Status(StatusOptions),
    /// List the channels of a running run
    Channels(ChannelsOptions),
    /// Change the stamping policy of channels in a running run
    Policy(PolicyOptions),
    /// Store now what `keep` channels of a running run hold
    Dump(DumpOptions),
    /// Reattach to a run whose `tickscope run` was killed, or complete a sweep that was interrupted
    Resume(ResumeOptions),
    /// Complete a run that was cut off: collect what is left in shared memory, join, print the table
    Finish(FinishOptions),
    /// Print a run's table of stages, also under another rho
    Show(ShowOptions),
    /// Verify every file of a run; list damaged or missing ones
    Check(CheckOptions),
    /// Name the originals of ids that are hashes of text or of longer ids
    Ids(IdsOptions),
    /// Write a run's page: one HTML file that opens offline
    Report(ReportOptions),
    /// Draw a run's jitter as X-Lap does: a trace, box plots, causes, correlations, as SVG and PDF
    Figures(FiguresOptions),
    /// Say which stages make the slowest traces slow, and how sure that is
    Tail(TailOptions),
    /// Say which stage changed from a run to another, or from some to others, by how much and how surely
    Compare(CompareOptions),
    /// Write every duration of every trace in another program's format
    Export(ExportOptions),
    /// Make a run of other programs' files: X-Lap's tables, Cloudprofiler's logs, any table by a mapping
    Import(ImportOptions),
    /// List the runs of a folder: when, how long, nodes, stamps, size, findings
    Runs(RunsOptions),
    /// Remove whole runs
    Rm(RmOptions),
    /// Pack a run into one file, a tar archive, held against its digests
    Pack(PackOptions),
    /// Unpack a run, held against its digests
    Unpack(UnpackOptions),
    /// Make one run of two: the nodes of both, related where they share a counter
    Merge(MergeOptions),
    /// Check this host before measuring: what widens bounds, and by how much
    Doctor(DoctorOptions),
    /// Benchmark this host's clocks: what a reading costs, how finely each can be used, what to subtract
    Clock(Box<ClockOptions>),
    /// Measure how noisy this machine is: what takes its cores from a program, for how long and how often
    Noise(Box<NoiseOptions>),
    /// Turn the stamps that lie in a stamp directory into a run's files
    Collect(CollectOptions),
    /// Print completions for a shell
    Completions(CompletionsOptions),
    /// Print the man page: tickscope man | man -l -
    Man,
    /// The agent that `run` starts on each machine; --remove deletes what was copied there
    Agent(AgentOptions),
    /// Play a part in a run that `run` began on this host
    #[command(hide = true)]
    Role(RoleOptions),
}

#[derive(Debug, Args)]
pub struct InitOptions {
    /// The run file to write; - is standard output
    #[arg(default_value = "tickscope.toml")]
    pub file: PathBuf,
    /// A command to measure, which the file then names
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
    /// Replace a file that is there
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct StatusOptions {
    /// A run's directory [default: the newest below runs/]
    #[arg(value_hint = ValueHint::DirPath)]
    pub run: Option<PathBuf>,
    /// Print it as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ChannelsOptions {
    /// A run's directory [default: the newest below runs/]
    #[arg(value_hint = ValueHint::DirPath)]
    pub run: Option<PathBuf>,
    /// Channels that were closed, too
    #[arg(long)]
    pub all: bool,
    /// Print them as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct PolicyOptions {
    /// A run's directory
    #[arg(value_hint = ValueHint::DirPath)]
    pub run: PathBuf,
    /// Points, on every node, also of channels that are opened later: * stands for any letters, ? for one
    #[arg(value_hint = ValueHint::Other)]
    pub points: String,
    /// The policy: null, buffered, all, every N, X of Y, count PERIOD, first-last [MARKER], return-trip, keep
    /// DURATION, own
    #[arg(required = true, num_args = 1..=3, allow_negative_numbers = true)]
    pub policy: Vec<String>,
    /// Only channels of this node
    #[arg(long, value_name = "NODE", value_hint = ValueHint::Other)]
    pub node: Option<NodeName>,
    /// Print what became of it as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct DumpOptions {
    /// A run's directory
    #[arg(value_hint = ValueHint::DirPath)]
    pub run: PathBuf,
    /// Points, on every node: * stands for any letters, ? for one
    #[arg(value_hint = ValueHint::Other, default_value = "*")]
    pub points: String,
    /// Only this node
    #[arg(long, value_name = "NODE", value_hint = ValueHint::Other)]
    pub node: Option<NodeName>,
    /// Print what became of it as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ShowOptions {
    /// A run's directory, or a sweep's [default: the newest run below runs/]
    #[arg(value_hint = ValueHint::DirPath)]
    pub run: Option<PathBuf>,
    #[command(flatten)]
    pub query: QueryOptions,
    /// Check the [[limit]]s of this TOML file, also a whole run file, instead of the run's own
    #[arg(long, value_name = "FILE", conflicts_with_all = ["by", "counts"])]
    pub limits: Option<PathBuf>,
    /// Every column (mean, common, own, relative), and everything that is known of the clocks
    #[arg(long)]
    pub wide: bool,
    /// All assumptions, not only those that matter here
    #[arg(long)]
    pub assumptions: bool,
    /// All events, with their time
    #[arg(long)]
    pub events: bool,
    /// Compare with other clock methods: Min-RTT and its Table II, return trips, chrony and ptp4l if the run has them
    #[arg(long, conflicts_with_all = ["json", "by", "counts", "age"])]
    pub rivals: bool,
    /// Print the counts of `count` points per period instead of the table: of all, or of NODE.POINT
    #[arg(long, value_name = "POINT", num_args = 0..=1, default_missing_value = "", value_hint = ValueHint::Other)]
    #[arg(conflicts_with_all = ["QueryOptions", "by", "wide", "assumptions", "events", "quantiles", "unit"])]
    pub counts: Option<String>,
    /// Other quantiles than 50, 99, 99.9 and the longest, in percent with at most four decimals, such as 50,90,99.99
    #[arg(long, value_name = "LIST", value_hint = ValueHint::Other)]
    pub quantiles: Option<QuantileList>,
    /// A table for each kind of ids, each value of the first stamp that has one, or each channel (thread) that
    /// stamped a point: the first point that several stamped, or the one in channel:NODE.POINT
    #[arg(long, value_parser = by(), conflicts_with_all = ["json", "wide", "assumptions", "events"])]
    pub by: Option<GroupedBy>,
    /// How fresh what B receives is of what A generates, instead of the table: average age, peaks, for each key of
    /// updates; A and B are points, NODE.POINT
    #[arg(long, num_args = 2, value_names = ["A", "B"], value_hint = ValueHint::Other)]
    #[arg(conflicts_with_all = ["counts", "by", "wide", "events", "quantiles"])]
    pub age: Option<Vec<Place>>,
    /// With --age, how much of the time the age is above this, such as 5ms, 200us or 1s
    #[arg(long, value_name = "AGE", requires = "age", value_hint = ValueHint::Other)]
    #[arg(value_parser = |text: &str| DurationForm::LIMIT.read(text))]
    pub limit: Option<u64>,
    /// With --age, what tells updates of one thing from those of another [default: the value of A's stamps if they have
    /// one, else all are of one]
    #[arg(long, requires = "age")]
    pub key: Option<KeyName>,
    /// Unit of durations [default: the one that fits]
    #[arg(long)]
    pub unit: Option<UnitName>,
    /// Colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: When,
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

#[derive(Debug, Args)]
pub struct IdsOptions {
    /// A run's directory [default: the newest below runs/]
    #[arg(value_hint = ValueHint::DirPath)]
    pub run: Option<PathBuf>,
    /// This id only; may be given several times
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub id: Vec<i64>,
    /// Print the id of a text, and look at no run
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["run", "id", "json"], allow_hyphen_values = true)]
    pub of: Option<String>,
    /// Print them as JSON
    #[arg(long)]
    pub json: bool,
}

/// What may be asked differently than the run declares.
#[derive(Debug, Args)]
pub struct QueryOptions {
    /// Ask under another rho: unknown, server-room, lab, laptop, or a number of ppm
    #[arg(long, allow_hyphen_values = true, value_parser = Known(rho_presets))]
    pub rho: Option<String>,
    /// Ask under another slew bound for clocks that somebody may set, in ppm
    #[arg(long, allow_hyphen_values = true, value_hint = ValueHint::Other)]
    pub slew: Option<String>,
    /// Use these sources of evidence between nodes only
    #[arg(long, value_delimiter = ',', value_parser = source())]
    pub evidence: Option<Vec<Source>>,
    /// Ask by the [layout] of this TOML file, also a whole run file, instead of the run's own
    #[arg(long, value_name = "FILE")]
    pub layout: Option<PathBuf>,
}

/// Reads any text; help and completions list what is known.
#[derive(Clone)]
struct Known(fn() -> Vec<PossibleValue>);

impl TypedValueParser for Known {
    type Value = String;

    fn parse_ref(&self, command: &clap::Command, arg: Option<&clap::Arg>, text: &OsStr) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, text)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter()))
    }
}

fn rho_presets() -> Vec<PossibleValue> {
    Rho::PRESETS.iter().map(|(name, _)| PossibleValue::new(*name)).collect()
}

fn clock_names() -> Vec<PossibleValue> {
    // They live as long as the command does, and there are a dozen.
    Clock::all().iter().map(|clock| PossibleValue::new(&*clock.to_string().leak())).collect()
}

/// Reads a clock; completions list all.
fn clock() -> impl TypedValueParser<Value = Clock> {
    Known(clock_names).try_map(|name: String| name.parse::<Clock>())
}

fn group_words() -> Vec<PossibleValue> {
    vec![
        PossibleValue::new("kind").help("The class of the ids"),
        PossibleValue::new("value").help("The number that the program gave with a stamp"),
        PossibleValue::new("channel").help("The channel that took the stamp at a point: one for each thread"),
    ]
}

/// Reads what `show --by` groups by; completions list the words.
fn by() -> impl TypedValueParser<Value = GroupedBy> {
    Known(group_words).try_map(|text: String| match (text.as_str(), text.strip_prefix("channel:")) {
        ("kind", _) => Ok(GroupedBy::Kind),
        ("value", _) => Ok(GroupedBy::Value),
        ("channel", _) => Ok(GroupedBy::Channel(None)),
        (_, Some(place)) => place.parse().map(|place| GroupedBy::Channel(Some(place))).map_err(|e| format!("{e}")),
        _ => Err(format!("expected kind, value, channel or channel:NODE.POINT, found '{text}'. Correct it")),
    })
}

/// A unit of time.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum UnitName {
    /// Nanoseconds
    Ns,
    /// Microseconds
    Us,
    /// Milliseconds
    Ms,
}

impl From<UnitName> for Scale {
    fn from(name: UnitName) -> Self {
        match name {
            UnitName::Ns => Self::Nanoseconds,
            UnitName::Us => Self::Microseconds,
            UnitName::Ms => Self::Milliseconds,
        }
    }
}

/// What tells updates of one thing from those of another.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum KeyName {
    /// The number that the program gave with the stamp of the generation
    Value,
    /// The class of the ids
    Kind,
    /// All updates are of one thing
    None,
}

impl From<KeyName> for AgeKey {
    fn from(name: KeyName) -> Self {
        match name {
            KeyName::Value => Self::Value,
            KeyName::Kind => Self::Kind,
            KeyName::None => Self::None,
        }
    }
}

/// When to show colours.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum When {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Quantiles in percent, as they were written.
#[derive(Clone, Debug, Default)]
pub struct QuantileList(pub Vec<(String, Quantile)>);

impl QuantileList {
    /// The quantiles alone.
    pub fn shares(&self) -> Vec<Quantile> {
        self.0.iter().map(|(_, quantile)| *quantile).collect()
    }
}

impl FromStr for QuantileList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let one = |name: &str| {
            let expected = "percentages from 0 to 100 with at most four decimals";
            let wrong = || format!("expected {expected}, found '{name}'. Write 50,99.9");
            let (whole, part) = name.split_once('.').unwrap_or((name, "0"));
            let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            if !digits(whole) || !digits(part) || part.len() > 4 || whole.len() > 3 {
                return Err(wrong());
            }
            let share = format!("{whole}{part:0<4}").parse().map_err(|_| wrong())?;
            Ok((name.into(), Quantile::per_million(share).map_err(|_| wrong())?))
        };
        text.split(',').map(|name| one(name.trim())).collect::<Result<_, _>>().map(Self)
    }
}

/// Reads a source of evidence; help and completions list all.
fn source() -> impl TypedValueParser<Value = Source> {
    let parse = |name: String| name.parse::<Source>();
    PossibleValuesParser::new(Source::ALL.map(Source::name)).try_map(parse)
}

#[derive(Debug, Args)]
pub struct ReportOptions {
    /// A run's directory [default: the newest below runs/]
    #[arg(value_hint = ValueHint::DirPath)]
    pub run: Option<PathBuf>,
    /// The file to write; - is standard output [default: RUN/report.html]
    #[arg(long, value_name = "FILE", value_parser = written())]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub query: QueryOptions,
    /// Check the [[limit]]s of this TOML file, also a whole run file, instead of the run's own
    #[arg(long, value_name = "FILE")]
    pub limits: Option<PathBuf>,
    /// With a chapter on how fresh what B receives is of what A generates; A and B are points, NODE.POINT
    #[arg(long, num_args = 2, value_names = ["A", "B"], value_hint = ValueHint::Other)]
    pub age: Option<Vec<Place>>,
    /// With --age, how much of the time the age is above this, such as 5ms, 200us or 1s
    #[arg(long, value_name = "AGE", requires = "age", value_hint = ValueHint::Other)]
    #[arg(value_parser = |text: &str| DurationForm::LIMIT.read(text))]
    pub limit: Option<u64>,
    /// With --age, what tells updates of one thing from those of another, as `show` has it
    #[arg(long, requires = "age")]
    pub key: Option<KeyName>,
    /// Print what the page says and draws as JSON, and write no page
    #[arg(long, conflicts_with = "out")]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct FiguresOptions {
    /// A run's directory, or a sweep's [default: the newest run below runs/]
    #[arg(value_hint = ValueHint::DirPath)]
    pub run: Option<PathBuf>,
    /// The folder to write into [default: RUN/figures]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, value_parser = written_folder())]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub query: QueryOptions,
    /// Print what is drawn, and the files, as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct TailOptions {
    /// A run's directory [default: the newest below runs/]
    #[arg(value_hint = ValueHint::DirPath)]
    pub run: Option<PathBuf>,
    /// How many of the traces are slow, in percent with at most four decimals
    #[arg(long, value_name = "PERCENT", default_value = "1", value_hint = ValueHint::Other)]
    pub slowest: Slowest,
    #[command(flatten)]
    pub query: QueryOptions,
    /// Print all figures as JSON
    #[arg(long)]
    pub json: bool,
}

fn encoders(text: &str) -> Result<NonZeroUsize, String> {
    let wrong = |_| format!("expected 1 thread or more, found '{text}'. Leave --encoders out for one a processor");
    text.parse().map_err(wrong)
}

/// A share of the traces, those that took longest.
#[derive(Clone, Copy, Debug)]
pub struct Slowest(pub Quantile);

impl FromStr for Slowest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("expected a percentage from 0.0001 to 99.9999, such as 1 or 0.1, found '{text}'. Write --slowest 1")
        };
        let share = QuantileList::from_str(text).ok().filter(|list| list.0.len() == 1).ok_or_else(wrong)?.shares()[0];
        let rest = 1_000_000_u32.checked_sub(share.share()).filter(|rest| (1..1_000_000).contains(rest));
        rest.and_then(|rest| Quantile::per_million(rest).ok()).map(Self).ok_or_else(wrong)
    }
}

#[derive(Debug, Args)]
pub struct CompareOptions {
    /// The run before and the run after
    #[arg(value_names = ["BEFORE", "AFTER"], num_args = 2, value_hint = ValueHint::DirPath)]
    #[arg(required_unless_present = "before")]
    pub runs: Vec<PathBuf>,
    /// Several runs before, instead: intervals then include run-to-run variation
    #[arg(long, value_name = "RUN", num_args = 1.., value_hint = ValueHint::DirPath)]
    #[arg(conflicts_with = "runs", requires = "after")]
    pub before: Vec<PathBuf>,
    /// Several runs after; measure them in turn with those before
    #[arg(long, value_name = "RUN", num_args = 1.., value_hint = ValueHint::DirPath)]
    #[arg(conflicts_with = "runs", requires = "before")]
    pub after: Vec<PathBuf>,
    #[command(flatten)]
    pub query: QueryOptions,
    /// Other quantiles than 50 and 99, in percent with at most four decimals; each widens all intervals a little
    #[arg(long, value_name = "LIST", value_hint = ValueHint::Other)]
    pub quantiles: Option<QuantileList>,
    /// Ignore changes smaller than this: such as 2%, of the figure before, or 500ns, 2us, 1.5ms
    #[arg(long, value_name = "AMOUNT", value_parser = tolerance, value_hint = ValueHint::Other)]
    pub tolerance: Option<ChangeTolerance>,
    /// End with exit code 4 if a figure is slower or changed, with 5 if it is unresolved
    #[arg(long, value_name = "VERDICT", value_delimiter = ',')]
    pub fail_on: Vec<FailOn>,
    /// Unit of durations [default: the one that fits]
    #[arg(long)]
    pub unit: Option<UnitName>,
    /// Colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: When,
    /// Print the comparison as JSON
    #[arg(long)]
    pub json: bool,
}

/// A verdict that is to end `compare` with exit code 4, or 5 where it is none.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum FailOn {
    /// It takes longer, for sure
    Slower,
    /// It takes another time, for sure
    Changed,
    /// It is not known whether it changed
    Unresolved,
}

/// Up to eleven days.
const TOLERANCE: DurationForm = DurationForm::picoseconds(0..=1_000_000_000_000_000);

fn tolerance(text: &str) -> Result<ChangeTolerance, String> {
    let Some(percent) = text.strip_suffix('%') else {
        let wrong = |why| format!("{why}, or a share such as 2%");
        return TOLERANCE.read(text).map(ChangeTolerance::Picoseconds).map_err(wrong);
    };
    let share = decimal(percent.trim_end(), 4).and_then(|share| u32::try_from(share).ok());
    share.filter(|share| *share <= 1_000_000).map(ChangeTolerance::PerMillion).ok_or_else(|| {
        format!("expected a share from 0% to 100% with at most four decimals, found '{text}'. Write 2% for example")
    })
}

#[derive(Debug, Args)]
pub struct DoctorOptions {
    /// Print the findings as JSON
    #[arg(long)]
    pub json: bool,
    /// List and remove leftovers of dead runs; never stamps that no run has taken
    #[arg(long)]
    pub clean: bool,
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
    /// Read one clock steadily and report its processor's load per interval
    LoadFactor(LoadFactorOptions),
    /// Read the counter by halves, by the three routines of the Cm* study, while other readers start and stop
    TwoWords(TwoWordsOptions),
    /// Print the Cm* study's example from a run of experiments/cm-star.toml: latency of messages, time of calls
    Example(ExampleOptions),
}

#[derive(Debug, Args)]
pub struct BenchmarkOptions {
    /// Seconds that the benchmark may take, about
    #[arg(long, default_value_t = 45.0, allow_negative_numbers = true)]
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
    #[arg(long, default_value_t = 45.0, allow_negative_numbers = true)]
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
pub struct TwoWordsOptions {
    /// Seconds that it may take, about
    #[arg(long, default_value_t = 6.0, allow_negative_numbers = true)]
    pub seconds: f64,
    /// Readers at once, next to one alone [default: the processors, at least 4]
    #[arg(long)]
    pub readers: Option<usize>,
    #[command(flatten)]
    pub output: OutputOptions,
}

#[derive(Debug, Args)]
pub struct LoadFactorOptions {
    /// The clock to read
    #[arg(long, default_value = "monotonic", value_parser = clock())]
    pub clock: Clock,
    /// Milliseconds of an interval
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=3_600_000))]
    pub every_ms: u32,
    /// Seconds in all, shared out evenly among the sizes of the load
    #[arg(long, default_value_t = 45.0, allow_negative_numbers = true)]
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
    /// What the load is: busy processes, further readers of the very clock that is measured, or pairs of processes that
    /// send each other messages
    #[arg(long, default_value = "spin")]
    pub load_kind: LoadKind,
    /// Pin the load to these processors in turn [default: a replica on the next processor, others anywhere]
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
    #[arg(long, value_name = "FILE", value_parser = written())]
    pub html: Option<PathBuf>,
}

/// What the background load is.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LoadKind {
    /// Busy processes
    Spin,
    /// Further readers of the clock that is measured
    Replica,
    /// Pairs of processes that send each other messages
    Messages,
}

#[derive(Debug, Args)]
pub struct CollectOptions {
    /// The stamp directory: the value of TICKSCOPE_DIR
    pub directory: PathBuf,
    /// The run's directory; its run.json is made where it has none
    #[arg(long, value_parser = written())]
    pub run: PathBuf,
    /// The node's name, whatever the programs' TICKSCOPE_NODE says; without it theirs, which must be one
    #[arg(long)]
    pub node: Option<NodeName>,
    /// Go on until SIGTERM or Ctrl-C, instead of taking once what lies there
    #[arg(long)]
    pub follow: bool,
    /// Seconds until a stamp is in the run's files, with --follow
    #[arg(long, value_name = "SECONDS", requires = "follow", value_parser = interval)]
    pub every: Option<f64>,
    /// What compresses the files of stamps [default: zstd]
    #[arg(long, value_enum)]
    pub codec: Option<CodecWord>,
    /// Threads that encode them [default: as many as there are processors]
    #[arg(long, value_name = "THREADS", value_parser = encoders)]
    pub encoders: Option<NonZeroUsize>,
    /// Print what was collected as JSON
    #[arg(long)]
    pub json: bool,
}

/// A codec of segments, as an option names it.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum CodecWord {
    /// Nothing: read and written in the least time, about as small where ticks are not regular
    None,
    /// zstd at level 1
    Zstd,
    /// LZ4's blocks, for readers without zstd
    Lz4,
}

impl From<CodecWord> for Codec {
    fn from(word: CodecWord) -> Self {
        match word {
            CodecWord::None => Self::None,
            CodecWord::Zstd => Self::Zstd,
            CodecWord::Lz4 => Self::Lz4,
        }
    }
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| (0.01..=3600.0).contains(seconds));
    seconds.ok_or_else(|| {
        format!("expected seconds from 0.01 to 3600, found '{text}'. The shorter, the more often files are written")
    })
}

#[derive(Debug, Args)]
pub struct CompletionsOptions {
    /// Which shell
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AgentOptions {
    /// Remove the copies of tickscope in this user's cache directory, and the folders of sessions that are over
    #[arg(long, required = true)]
    pub remove: bool,
    /// Remove sessions, too, that hold stamps which no run has fetched
    #[arg(long)]
    pub unfetched: bool,
    /// Words that run a command on another machine, such as ssh host2: remove them there
    #[arg(last = true, value_name = "PREFIX")]
    pub prefix: Vec<String>,
    #[command(subcommand)]
    pub part: Option<AgentPart>,
}

/// Parts of an agent, which `run` starts.
#[derive(Debug, Subcommand)]
pub enum AgentPart {
    /// Next to the run, on a socket that is open already
    #[command(hide = true)]
    Local {
        /// The socket's descriptor
        #[arg(long)]
        pipe: i32,
    },
    /// Connect standard input and output to a session's agent
    #[command(hide = true)]
    Attach {
        /// Number of the session, in hexadecimal
        #[arg(long, value_parser = session)]
        session: u64,
        /// What is printed before the first frame
        #[arg(long)]
        token: String,
    },
    /// Remove the folders of sessions that are over
    #[command(hide = true)]
    Sessions {
        /// Those that hold stamps, too
        #[arg(long)]
        unfetched: bool,
    },
    /// Serve a session
    #[command(hide = true)]
    Daemon {
        /// Number of the session, in hexadecimal
        #[arg(long, value_parser = session)]
        session: u64,
    },
}

fn session(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16)
        .map_err(|_| "expected 16 hexadecimal digits. Leave this command to tickscope run".into())
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
}

impl RoleOptions {
    /// Plays the role, whose settings standard input begins with, in this process.
    pub fn play(&self) -> Result<(), Failure> {
        let place = RoleContext { node: self.node.clone(), run: self.run.clone() };
        roles::play(&Role::read(&self.name)?, &place)
    }
}

/// The parser of a place that is written to.
fn written() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(chosen_run::outside)
}

/// The parser of a folder that several files are written into.
fn written_folder() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(chosen_run::outside_as_folder)
}
