//! Options of what is done to whole runs.

use std::path::PathBuf;

use clap::{Args, ValueHint};

#[derive(Debug, Args)]
pub struct RunsOptions {
    /// The folder that the runs lie in
    #[arg(default_value = "runs", value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,
    /// Print them as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct RmOptions {
    /// The runs' directories
    #[arg(required = true, value_hint = ValueHint::DirPath)]
    pub runs: Vec<PathBuf>,
    /// Remove them; without it nothing is removed
    #[arg(long)]
    pub yes: bool,
    /// Print what was removed as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct PackOptions {
    /// The run's directory
    #[arg(value_hint = ValueHint::DirPath)]
    pub run: PathBuf,
    /// The file to write, where nothing may be [default: NAME.tar, by the run's directory]
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Print what was packed as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct UnpackOptions {
    /// What tickscope pack wrote
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Directory of the run, where nothing may be [default: runs/NAME, by the file's name]
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Print what was unpacked as JSON
    #[arg(long)]
    pub json: bool,
}
