//! Options of what is done to whole runs.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueHint};
use tickscope_tick::NodeName;

use super::written;

#[derive(Debug, Args)]
pub struct RunsOptions {
    /// The folder that the runs lie in, or a run
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
    #[arg(long, value_parser = written())]
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
    #[arg(long, value_parser = written())]
    pub out: Option<PathBuf>,
    /// Print what was unpacked as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct MergeOptions {
    /// Directory of the run whose reference is that of the new one
    #[arg(value_hint = ValueHint::DirPath)]
    pub first: PathBuf,
    /// Directory of the run whose nodes join it
    #[arg(value_hint = ValueHint::DirPath)]
    pub second: PathBuf,
    /// Directory of the new run, where nothing may be
    #[arg(long, value_parser = written())]
    pub out: PathBuf,
    /// Give a node of the second run another name; once for each
    #[arg(long, value_name = "OLD=NEW")]
    pub rename: Vec<Renamed>,
    /// Print what was merged as JSON
    #[arg(long)]
    pub json: bool,
}

/// A node's name, and the one that it gets.
#[derive(Clone, Debug)]
pub struct Renamed {
    pub old: NodeName,
    pub new: NodeName,
}

impl FromStr for Renamed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (old, new) = text.split_once('=').ok_or("expected OLD=NEW, found no '='. Write server=server-2")?;
        let name = |text: &str| NodeName::new(text).map_err(|why| why.to_string());
        Ok(Self { old: name(old)?, new: name(new)? })
    }
}
