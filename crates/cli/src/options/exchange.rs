//! Options of what other programs are handed, and of what is taken from them.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use super::{QueryOptions, written, written_folder};

#[derive(Debug, Args)]
#[group(id = "format", required = true, multiple = false,
    args = ["csv", "perfetto", "folded", "hdr", "openmetrics", "otlp", "arrow", "ctf"])]
pub struct ExportOptions {
    /// A run's directory [default: the newest below runs/]
    #[arg(value_hint = ValueHint::DirPath)]
    pub run: Option<PathBuf>,
    /// Write comma-separated values to this file, a row for each trace and stage; - is standard output
    #[arg(long, value_name = "FILE", value_parser = written())]
    pub csv: Option<PathBuf>,
    /// Write a trace for <https://ui.perfetto.dev> to this file, each node a process; - is standard output
    #[arg(long, value_name = "FILE", value_parser = written())]
    pub perfetto: Option<PathBuf>,
    /// Write folded stacks for a flame graph to this file: each stage's least total, and what its bounds leave open
    #[arg(long, value_name = "FILE", value_parser = written())]
    pub folded: Option<PathBuf>,
    /// Write a log of HdrHistogram to this file: lower ends, estimates and upper ends of each stage
    #[arg(long, value_name = "FILE", value_parser = written())]
    pub hdr: Option<PathBuf>,
    /// Write OpenMetrics text to this file: quantiles, bounds and counts of each stage
    #[arg(long, value_name = "FILE", value_parser = written())]
    pub openmetrics: Option<PathBuf>,
    /// Write spans of OpenTelemetry (OTLP's protobuf) to this file; - is standard output
    #[arg(long, value_name = "FILE", value_parser = written())]
    pub otlp: Option<PathBuf>,
    /// Write a file of Arrow (IPC), a row for each trace and stage; - is standard output
    #[arg(long, value_name = "FILE", value_parser = written())]
    pub arrow: Option<PathBuf>,
    /// Write a trace in the Common Trace Format to this folder, which must not be there: a clock for each node
    #[arg(long, value_name = "FOLDER", value_parser = written_folder())]
    pub ctf: Option<PathBuf>,
    /// Export one trace in N as spans, by its id, plus every one of the slowest 1 %
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub one_in: Option<u64>,
    #[command(flatten)]
    pub query: QueryOptions,
    /// Print what was written as JSON
    #[arg(long)]
    pub json: bool,
}

/// What a file is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExportFormat {
    Csv,
    Perfetto,
    Folded,
    Hdr,
    OpenMetrics,
    Otlp,
    Arrow,
    Ctf,
}

impl ExportOptions {
    /// The option that was given, its file, and the format; `None`: there is none.
    pub fn chosen(&self) -> Option<(&'static str, &Path, ExportFormat)> {
        let all = [
            ("--csv", &self.csv, ExportFormat::Csv),
            ("--perfetto", &self.perfetto, ExportFormat::Perfetto),
            ("--folded", &self.folded, ExportFormat::Folded),
            ("--hdr", &self.hdr, ExportFormat::Hdr),
            ("--openmetrics", &self.openmetrics, ExportFormat::OpenMetrics),
            ("--otlp", &self.otlp, ExportFormat::Otlp),
            ("--arrow", &self.arrow, ExportFormat::Arrow),
            ("--ctf", &self.ctf, ExportFormat::Ctf),
        ];
        all.into_iter().find_map(|(option, file, format)| Some((option, file.as_deref()?, format)))
    }
}

#[derive(Debug, Args)]
pub struct ImportOptions {
    /// What describes the files: X-Lap's xlap.yml, or a mapping in TOML
    #[arg(value_hint = ValueHint::FilePath)]
    pub description: PathBuf,
    /// Directory of the run, where nothing may be [default: runs/NAME, by the description's name]
    #[arg(long, value_parser = written())]
    pub out: Option<PathBuf>,
    /// Print what was found as JSON
    #[arg(long)]
    pub json: bool,
}
