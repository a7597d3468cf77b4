//! `tickscope runs`, `rm`, `pack`, `unpack`: the runs of a folder, and what is done to whole ones.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tickscope_analysis::{Query, analyse_counts, time_of_day};
use tickscope_store::{Run, RunState, utc};
use tickscope_tick::{Unit, counted, printable};

use crate::archive::{self, Packed};
use crate::chosen_run::{self, runs_below};
use crate::failure::Failure;
use crate::options::{PackOptions, RmOptions, RunsOptions, UnpackOptions};
use crate::output::{line, note, print_json};

/// The runs of a folder. Within a version keys are added, never removed or renamed.
#[derive(Serialize)]
struct Report {
    version: u32,
    runs: Vec<RunJson>,
}

#[derive(Serialize)]
struct RunJson {
    run: PathBuf,
    /// Why it cannot be read; all else is null then.
    fault: Option<String>,
    state: Option<&'static str>,
    started_unix_ms: Option<i64>,
    /// `None`: it has no end.
    lasted_ms: Option<i64>,
    nodes: Vec<String>,
    stamps: Option<u64>,
    bytes: u64,
    /// `None`: there are no whole figures that could have any.
    findings: Option<usize>,
    time_of_day: Option<TimeOfDayJson>,
}

/// The time of day of the first stamp on the reference, by `CLOCK_REALTIME` of its node.
#[derive(Serialize)]
struct TimeOfDayJson {
    first_stamp_unix_ns: [i64; 2],
    readings: u64,
}

/// Lists the runs of a folder, newest first.
pub fn runs(options: &RunsOptions) -> Result<(), Failure> {
    let folder = &options.folder;
    if !folder.is_dir() {
        let shown = folder.display();
        return Err(Failure::input(format!(
            "expected a folder of runs, found none at {shown}. Name another, or measure: tickscope run"
        )));
    }
    let runs: Vec<RunJson> = runs_below(folder).into_iter().map(RunJson::of).collect();
    if options.json {
        return print_json(&Report { version: 1, runs });
    }
    runs.iter().try_for_each(|run| line(run.sentence()))?;
    line(format_args!("{} below {}", counted(runs.len(), "run"), folder.display()))
}

impl RunJson {
    fn of(path: PathBuf) -> Self {
        let (bytes, none) = (bytes_below(&path), Self::none(path.clone()));
        match Self::read(&path) {
            Ok(run) => Self { run: path, bytes, ..run },
            Err(fault) => Self { fault: Some(fault.to_string()), bytes, ..none },
        }
    }

    fn none(run: PathBuf) -> Self {
        Self {
            run,
            fault: None,
            state: None,
            started_unix_ms: None,
            lasted_ms: None,
            nodes: Vec::new(),
            stamps: None,
            bytes: 0,
            findings: None,
            time_of_day: None,
        }
    }

    fn read(path: &Path) -> Result<Self, Failure> {
        let run = Run::open(path)?;
        let (manifest, state) = (run.manifest(), run.state()?);
        let stored = run.channels()?.found.iter().map(|channel| u64::try_from(channel.stored).unwrap_or(0)).sum();
        // As `check` does: a run without traces has no figures.
        let whole = state == RunState::Ended && !run.traces()?.found.is_empty();
        let analysis = whole.then(|| analyse_counts(&run, &Query::default())).transpose()?;
        let events = run.events()?.found;
        let first = analysis.as_ref().and_then(|of| of.first_ticks.get(manifest.reference.node.as_str()).copied());
        let known = time_of_day(&run)?.zip(first).zip(analysis.as_ref());
        let time_of_day = known.and_then(|((known, first), analysis)| {
            let unit = Unit::nanoseconds(analysis.frequency.hertz, 0);
            let lo = i64::try_from(unit.down(first).digits()).ok()?.checked_add(known.lo_ns)?;
            let hi = i64::try_from(unit.up(i128::from(first) + 1).digits()).ok()?.checked_add(known.hi_ns)?;
            Some(TimeOfDayJson { first_stamp_unix_ns: [lo, hi], readings: known.readings })
        });
        Ok(Self {
            state: Some(name(state)),
            started_unix_ms: Some(manifest.started_unix_ms),
            lasted_ms: manifest.ended_unix_ms.map(|ended| ended - manifest.started_unix_ms),
            nodes: manifest.nodes.iter().map(|node| node.name.to_string()).collect(),
            stamps: Some(stored),
            findings: analysis.map(|analysis| analysis.every_finding(&events).len()),
            time_of_day,
            ..Self::none(path.into())
        })
    }

    fn sentence(&self) -> String {
        let shown = self.run.display();
        if let Some(fault) = &self.fault {
            return format!("{shown}: {} MB, cannot be read: {fault}", megabytes(self.bytes));
        }
        let began = utc(self.started_unix_ms.unwrap_or(0));
        let lasted = match (self.lasted_ms, self.state) {
            (Some(ms), _) => format!("{}.{:03} s", ms / 1000, ms.unsigned_abs() % 1000),
            (None, state) => state.unwrap_or_default().into(),
        };
        let (nodes, stamps) = (self.nodes.join(" "), counted(self.stamps.unwrap_or(0), "stamp"));
        let findings = self.findings.map_or("no figures yet".into(), |findings| counted(findings, "finding"));
        let mut text =
            format!("{shown}: {began}, {lasted}, {nodes}, {stamps}, {} MB, {findings}", megabytes(self.bytes));
        if let Some(TimeOfDayJson { first_stamp_unix_ns: [lo, hi], .. }) = self.time_of_day {
            text += &format!(
                ", first stamp {}.{:09} s since 1970 within {} ns",
                lo / 1_000_000_000,
                lo % 1_000_000_000,
                hi - lo
            );
        }
        text
    }
}

fn name(state: RunState) -> &'static str {
    match state {
        RunState::GoingOn => "goes-on",
        RunState::CutOff => "cut-off",
        RunState::Ended => "ended",
    }
}

fn megabytes(bytes: u64) -> String {
    let tenths = bytes.div_ceil(100_000);
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => bytes_below(&entry.path()),
        _ => entry.metadata().map_or(0, |found| found.len()),
    });
    bytes.sum()
}

/// What was removed. Within a version keys are added, never removed or renamed.
#[derive(Serialize)]
struct RemovedJson<'a> {
    version: u32,
    removed: &'a [PathBuf],
    bytes: u64,
}

/// Removes runs, all of them or none: none that goes on, and nothing that is no run.
pub fn rm(options: &RmOptions) -> Result<(), Failure> {
    for path in &options.runs {
        let run = chosen_run::open(Some(path))?;
        let shown = path.display();
        if path.is_symlink() || run.root() != path {
            return Err(Failure::input(format!(
                "expected the directory of a run itself, found {shown}. Name the directory"
            )));
        }
        if run.state()? == RunState::GoingOn {
            return Err(Failure::input(format!(
                "{shown}: expected a run that nobody writes, found one that goes on. End it first"
            )));
        }
        let manifest = run.manifest();
        if !manifest.stamp_directories.is_empty() || !manifest.sessions.is_empty() {
            note(format!("{shown}: stamps of it are stored nowhere yet; tickscope finish {shown} takes them"));
        }
    }
    let bytes = options.runs.iter().map(|run| bytes_below(run)).sum();
    if !options.yes {
        let (runs, size) = (counted(options.runs.len(), "run"), megabytes(bytes));
        return Err(Failure::input(format!("{runs} of {size} MB would be gone for good. Add --yes")));
    }
    for run in &options.runs {
        let remedy = "what is left of it is no run; remove it by hand";
        fs::remove_dir_all(run)
            .map_err(|e| Failure::work(format!("cannot remove {}: {e}; {remedy}", run.display())))?;
    }
    match options.json {
        true => print_json(&RemovedJson { version: 1, removed: &options.runs, bytes }),
        false => line(format_args!("removed {}, {} MB", counted(options.runs.len(), "run"), megabytes(bytes))),
    }
}

/// What was packed or unpacked. Within a version keys are added, never removed or renamed.
#[derive(Serialize)]
struct PackedJson<'a> {
    version: u32,
    run: &'a Path,
    file: &'a Path,
    files: u64,
    bytes: u64,
}

/// Packs a run into one file.
pub fn pack(options: &PackOptions) -> Result<(), Failure> {
    let run = chosen_run::open(Some(&options.run))?;
    let name = run.root().canonicalize().ok().and_then(|root| Some(root.file_name()?.to_string_lossy().into_owned()));
    let file = options.out.clone().unwrap_or_else(|| format!("{}.tar", name.unwrap_or("run".into())).into());
    if file.exists() {
        let shown = file.display();
        return Err(Failure::input(format!(
            "expected a place where nothing is, found {shown}. Name another with --out"
        )));
    }
    let packed = archive::pack(&run, &file)?;
    told(options.json, "packed", (run.root(), &file), packed)
}

/// Unpacks a run.
pub fn unpack(options: &UnpackOptions) -> Result<(), Failure> {
    let file = options.file.as_path();
    let named = || Path::new("runs").join(file.file_stem().unwrap_or(file.as_os_str()));
    let run = options.out.clone().unwrap_or_else(named);
    if run.symlink_metadata().is_ok() {
        let shown = run.display();
        return Err(Failure::input(format!(
            "expected a place where nothing is, found {shown}. Name another with --out"
        )));
    }
    if !file.is_file() {
        let shown = file.display();
        return Err(Failure::input(format!(
            "expected a packed run, found no file {shown}. Name what tickscope pack wrote"
        )));
    }
    let packed = archive::unpack(file, &run)?;
    told(options.json, "unpacked", (&run, file), packed)
}

fn told(json: bool, done: &str, (run, file): (&Path, &Path), packed: Packed) -> Result<(), Failure> {
    let Packed { files, bytes } = packed;
    if json {
        return print_json(&PackedJson { version: 1, run, file, files, bytes });
    }
    let (count, size) = (counted(files, "file"), megabytes(bytes));
    let (run, file) = (run.display().to_string(), file.display().to_string());
    line(format_args!("{done}: {} and {}, {count}, {size} MB", printable(&run), printable(&file)))
}
