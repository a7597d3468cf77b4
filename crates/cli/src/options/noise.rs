//! Options of `tickscope noise`.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use tickscope_noise::Detector;
use tickscope_noise::survey::MOST_BYTES;

#[derive(Debug, Args)]
pub struct NoiseOptions {
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
