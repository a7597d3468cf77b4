//! What measures, and goes on with what was begun.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use tickscope_experiment::Keep;

use super::{seconds, written};

#[derive(Debug, Args)]
pub struct RunOptions {
    /// The run file (TOML); - is standard input. One with a [sweep] is of many trials
    #[arg(required_unless_present = "command")]
    pub file: Option<PathBuf>,
    /// A command to measure without a run file, as one node; what it prints passes through
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["file", "seconds", "overhead"])]
    pub command: Vec<String>,
    /// Directory of the run, which must not exist or be empty [default: runs/NAME-TIME]
    #[arg(long, value_parser = written())]
    pub out: Option<PathBuf>,
    /// Seconds to measure, instead of the file's: what {seconds} stands for in its commands
    #[arg(long, allow_hyphen_values = true, value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Keep the stamps of this window alone, such as 30m, 90s or 2h, instead of the file's: older ones are removed
    /// while the run goes on, and counted
    #[arg(long, value_name = "WINDOW", value_hint = ValueHint::Other)]
    pub keep: Option<Keep>,
    /// Check everything that can be checked before a run, say what it would do, and run nothing
    #[arg(long)]
    pub check: bool,
    /// Write the run's page too, as `tickscope report` does
    #[arg(long)]
    pub report: bool,
    /// First compare numbers that the target reports, in passes with and without measuring: [overhead] in the run file
    #[arg(long)]
    pub overhead: bool,
    /// If this command is killed, nodes of this host go on for an hour too, until tickscope resume or finish
    #[arg(long, conflicts_with = "command")]
    pub detach: bool,
    /// Print the table as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct RelateOptions {
    /// The run file (TOML); - is standard input. Its commands, points and logs are passed over
    pub file: PathBuf,
    /// Directory of the run, which must not exist or be empty [default: runs/NAME-TIME]
    #[arg(long, value_parser = written())]
    pub out: Option<PathBuf>,
    /// Seconds to measure, instead of the file's
    #[arg(long, allow_hyphen_values = true, value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Print what other methods say of each pair, too; the page has it in any case
    #[arg(long, conflicts_with = "json")]
    pub rivals: bool,
    /// Print the table as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ResumeOptions {
    /// A run's directory, or a sweep's, whose missing trials are made
    pub run: PathBuf,
    /// Write the run's page too, as `tickscope report` does
    #[arg(long)]
    pub report: bool,
    /// Print the table as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct FinishOptions {
    /// A run's directory
    pub run: PathBuf,
    /// Print the table as JSON
    #[arg(long)]
    pub json: bool,
}
