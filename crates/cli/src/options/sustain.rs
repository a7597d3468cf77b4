//! Options of `tickscope sustain`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tickscope_experiment::SustainMethod;

use super::{seconds, written};

#[derive(Debug, Args)]
pub struct SustainOptions {
    /// The run file (TOML), with a [sustain]; - is standard input
    pub file: PathBuf,
    /// Directory of the search: a new one, or the one that it was begun in, to go on [default: runs/NAME-TIME]
    #[arg(long, value_parser = written())]
    pub out: Option<PathBuf>,
    /// Seconds to measure in each trial, instead of the file's
    #[arg(long, allow_hyphen_values = true, value_parser = seconds)]
    pub seconds: Option<f64>,
    /// How the next rate is chosen, instead of the file's way
    #[arg(long)]
    pub method: Option<MethodOption>,
    /// How often the whole search is made, instead of the file's number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub searches: Option<u32>,
    /// Check everything that can be checked before a run, say what it would do, and run nothing
    #[arg(long)]
    pub check: bool,
    /// Draw the delay over the time of the trials at both ends, as SVG and PDF, into the search's folder
    #[arg(long)]
    pub report: bool,
    /// Print what was found as JSON
    #[arg(long)]
    pub json: bool,
}

/// How a search chooses the next rate.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum MethodOption {
    /// The one in the middle of what is open
    Bisection,
    /// The next higher one
    Linear,
}

impl From<MethodOption> for SustainMethod {
    fn from(method: MethodOption) -> Self {
        match method {
            MethodOption::Bisection => Self::Bisection,
            MethodOption::Linear => Self::Linear,
        }
    }
}
