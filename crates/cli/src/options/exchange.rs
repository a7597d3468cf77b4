//! Options of what other programs are handed, and of what is taken from them.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::QueryOptions;

#[derive(Debug, Args)]
#[group(id = "format", required = true, multiple = false, args = ["csv", "perfetto"])]
pub struct ExportOptions {
    /// A run's directory [default: the newest below runs/]
    #[arg(value_hint = ValueHint::DirPath)]
    pub run: Option<PathBuf>,
    /// Write comma-separated values to this file, a row for each trace and stage; - is standard output
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write a trace for <https://ui.perfetto.dev> to this file, each node a process; - is standard output
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
    #[command(flatten)]
    pub query: QueryOptions,
    /// Print what was written as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ImportOptions {
    /// What describes the files: X-Lap's xlap.yml, or a mapping in TOML
    #[arg(value_hint = ValueHint::FilePath)]
    pub description: PathBuf,
    /// Directory of the run, where nothing may be [default: runs/NAME, by the description's name]
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Print what was found as JSON
    #[arg(long)]
    pub json: bool,
}
