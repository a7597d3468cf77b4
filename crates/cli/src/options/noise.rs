//! Options of `tickscope noise`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueHint};
use tickscope_analysis::ChangeTolerance;
use tickscope_noise::Detector;
use tickscope_noise::survey::MOST_BYTES;

use super::{FailOn, tolerance, written, written_folder};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct NoiseOptions {
    #[command(subcommand)]
    pub part: Option<NoisePart>,
    #[command(flatten)]
    pub survey: SurveyOptions,
}

#[derive(Debug, Subcommand)]
pub enum NoisePart {
    /// Print a profile that --out saved
    Show(ShownProfileOptions),
    /// Compare two saved profiles: what is lost, how often, for how long and from what
    Compare(ProfilesOptions),
    /// Name the odd one of several machines, by profiles that were begun at one instant
    Fleet(FleetOptions),
    /// Print the OS-noise study's tables of a saved profile of fwq, and tune its rule for outliers
    Study(StudyOptions),
}

#[derive(Debug, Args)]
pub struct FleetOptions {
    /// Saved profiles, one a machine, at least three; or a run file (.toml), on whose machines profiles are taken
    /// first; or the run that this made
    #[arg(num_args = 1.., required = true, value_hint = ValueHint::AnyPath)]
    pub profiles: Vec<PathBuf>,
    /// With a run file: seconds to measure, about [default: 30]
    #[arg(long, allow_negative_numbers = true)]
    pub seconds: Option<f64>,
    /// With a run file: the detector [default: selfish]
    #[arg(long, value_parser = detector())]
    pub detector: Option<Detector>,
    /// With a run file: the run's directory [default: as tickscope run has it]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// A difference within this share is none, such as 2%
    #[arg(long, value_name = "SHARE", value_parser = tolerated_share, value_hint = ValueHint::Other)]
    pub tolerance: Option<ChangeTolerance>,
    /// Print what was found as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct StudyOptions {
    /// The saved profile
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Use the rule that --save-rule saved, instead of tuning one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub rule: Option<PathBuf>,
    /// Save the rule to this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = written())]
    pub save_rule: Option<PathBuf>,
    /// Write scatter plots of the exemplars into this directory, as SVG and as PDF
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, value_parser = written_folder())]
    pub figures: Option<PathBuf>,
    /// Print every figure as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ShownProfileOptions {
    /// The saved profile
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Print every figure as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ProfilesOptions {
    /// The profile before
    #[arg(value_hint = ValueHint::FilePath)]
    pub before: PathBuf,
    /// The profile after
    #[arg(value_hint = ValueHint::FilePath)]
    pub after: PathBuf,
    /// A change within this share of the figure before is none, such as 2%
    #[arg(long, value_name = "SHARE", value_parser = tolerated_share, value_hint = ValueHint::Other)]
    pub tolerance: Option<ChangeTolerance>,
    /// End with exit code 4 if a figure is slower (more is lost) or changed, with 5 if it is unresolved
    #[arg(long, value_name = "VERDICT", value_delimiter = ',')]
    pub fail_on: Vec<FailOn>,
    /// Print the comparison as JSON
    #[arg(long)]
    pub json: bool,
}

/// A figure may be a rate, so that no duration fits all of them.
fn tolerated_share(text: &str) -> Result<ChangeTolerance, String> {
    let is_share = |found: &ChangeTolerance| matches!(found, ChangeTolerance::PerMillion(_));
    let wrong = || format!("expected a share such as 2%, found '{text}'. Leave it out for any change that is sure");
    tolerance(text).ok().filter(is_share).ok_or_else(wrong)
}

#[derive(Debug, Args)]
pub struct SurveyOptions {
    /// Seconds to measure, about
    #[arg(long, default_value_t = 30.0, allow_negative_numbers = true)]
    pub seconds: f64,
    /// Cores to measure, all at once, such as 0,2-3 [default: all that this program may run on]
    #[arg(long, value_name = "LIST", value_parser = cores, value_hint = ValueHint::Other)]
    pub cores: Option<CoreList>,
    /// selfish notes detours alone, for as long as you like; ftq counts work in quanta of time, too; fwq takes 10 000
    /// readings in a row and keeps every difference
    #[arg(long, default_value = "selfish", value_parser = detector())]
    pub detector: Detector,
    /// With fwq, write into fresh blocks of so many bytes between readings [default: multiples of 16 and 4096, primes]
    #[arg(long, value_name = "BYTES", num_args = 1.., value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_BYTES)))]
    pub memory: Option<Vec<u32>>,
    /// Begin when this machine's clock shows so many seconds since 1970: on several machines at one instant
    #[arg(long, value_name = "SECONDS", value_hint = ValueHint::Other)]
    pub begin_at: Option<f64>,
    /// Leave the kernel's trace out: no causes, and none of what it costs
    #[arg(long)]
    pub no_trace: bool,
    /// Judge by this rule, too, which tickscope noise study --save-rule saved
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub rule: Option<PathBuf>,
    /// Save the profile to this file, for tickscope noise show and compare
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = written())]
    pub out: Option<PathBuf>,
    /// Print every figure as JSON
    #[arg(long)]
    pub json: bool,
}

/// Cores in ascending order, each once.
#[derive(Clone, Debug)]
pub struct CoreList(pub Vec<usize>);

fn cores(text: &str) -> Result<CoreList, String> {
    let wrong = || format!("expected cores such as 0,2-3, found '{text}'. Leave it out for all");
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let ends = [first, last].map(|end| end.trim().parse::<usize>().ok().filter(|&core| core <= MOST_CORES));
        match ends {
            [Some(first), Some(last)] if first <= last => Ok(first..=last),
            _ => Err(wrong()),
        }
    };
    let mut cores: Vec<usize> =
        text.split(',').map(range).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    cores.sort_unstable();
    cores.dedup();
    Ok(CoreList(cores))
}

/// Linux is built for at most so many.
const MOST_CORES: usize = 8192;

/// Reads a detector; help and completions list all.
fn detector() -> impl TypedValueParser<Value = Detector> {
    let parse = |name: String| name.parse::<Detector>();
    PossibleValuesParser::new(Detector::ALL.map(Detector::name)).try_map(parse)
}
