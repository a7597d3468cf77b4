//! `tickscope runs`, `rm`, `pack`, `unpack`: the runs of a folder, and what is done to whole ones.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Serialize;
use tickscope_analysis::{FaultJson, Query, RunTimes, analyse_counts, unknown_loss};
use tickscope_store::{Channel, Error, Paths, Run, RunRemoval, RunState, utc};
use tickscope_tick::{counted, printable};

use crate::archive::{self, Packed};
use crate::check::Faults;
use crate::chosen_run::{self, runs_below};
use crate::failure::Failure;
use crate::options::{PackOptions, RmOptions, RunsOptions, UnpackOptions};
use crate::output::{line, note, print_json};

/// Bytes of runs, the newest first, whose traces a list of runs reads; the size of what [`Run::faults`] reads of one.
const ANALYSED_BYTES: u64 = 4 * tickscope_store::DIGESTED_AT_EVERY_READING;

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
    /// `None`: its files do not tell.
    stamps: Option<u64>,
    /// `None`: some of its folders cannot be listed.
    bytes: Option<u64>,
    /// Damage of its files.
    faults: Vec<FaultJson>,
    /// Why nobody knows how many stamps it lost.
    loss_unknown: Option<String>,
    /// `None`: for the reason in `findings_left_out`.
    findings: Option<usize>,
    findings_left_out: Option<&'static str>,
    time_of_day: Option<RunTimes>,
}

/// Lists the runs of a folder, newest first, or the one that it is; a run that is damaged or cannot be read ends it
/// with exit code 1.
pub fn runs(options: &RunsOptions) -> Result<(), Failure> {
    let folder = &options.folder;
    let shown = folder.display();
    if !folder.is_dir() {
        return Err(Failure::input(format!(
            "expected a folder of runs, found none at {shown}. Name another, or measure: tickscope run"
        )));
    }
    fs::read_dir(folder).map_err(|e| Failure::from(Error::io(folder, "list", e)))?;
    let mut to_analyse = ANALYSED_BYTES;
    let is_run = Paths::of(folder).manifest().exists();
    let places = if is_run { vec![folder.clone()] } else { runs_below(folder) };
    let runs: Vec<RunJson> = places.into_iter().map(|path| RunJson::of(path, &mut to_analyse)).collect();
    let troubles: Vec<String> = runs.iter().filter_map(RunJson::trouble).collect();
    if options.json {
        print_json(&Report { version: 1, runs })?;
    } else {
        runs.iter().try_for_each(|run| line(run.sentence()))?;
        if !is_run {
            line(format_args!("{} below {shown}", counted(runs.len(), "run")))?;
        }
    }
    match &troubles[..] {
        [] => Ok(()),
        [one] => Err(Failure::work(one)),
        [first, others @ ..] => {
            Err(Failure::work(format!("{first}; {} more of these runs cannot be trusted", others.len())))
        }
    }
}

impl RunJson {
    fn of(path: PathBuf, to_analyse: &mut u64) -> Self {
        let bytes = path.canonicalize().and_then(|path| bytes_below(&path)).ok();
        match Self::read(&path, bytes, to_analyse) {
            Ok(run) => run,
            Err(fault) => Self { fault: Some(fault.to_string()), bytes, ..Self::none(path) },
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
            bytes: None,
            faults: Vec::new(),
            loss_unknown: None,
            findings: None,
            findings_left_out: None,
            time_of_day: None,
        }
    }

    /// What the run's lists say of it; its traces are read where `to_analyse` has room for it, and takes that room.
    fn read(path: &Path, bytes: Option<u64>, to_analyse: &mut u64) -> Result<Self, Failure> {
        let run = Run::open(path)?;
        let (manifest, state, channels) = (run.manifest(), run.state()?, run.channels()?.found);
        let faults = Faults::of(&run)?.also(impossible_counts(&run, &channels));
        let is_damaged = !faults.all().is_empty();
        let events = run.events()?.found;
        let left_out = match state {
            _ if is_damaged => Some("its files are damaged"),
            RunState::GoingOn => Some("it goes on"),
            RunState::CutOff => Some("it was cut off"),
            // As `check` does: a run without traces has no figures.
            RunState::Ended if run.traces()?.found.is_empty() => Some("it has no traces"),
            RunState::Ended if bytes.is_none_or(|bytes| bytes > *to_analyse) => Some("tickscope show counts them"),
            RunState::Ended => None,
        };
        let mut listed = Self {
            state: Some(if is_damaged { "damaged" } else { name(state) }),
            started_unix_ms: Some(manifest.started_unix_ms),
            lasted_ms: manifest.ended_unix_ms.map(|ended| ended - manifest.started_unix_ms),
            nodes: manifest.nodes.iter().map(|node| node.name.to_string()).collect(),
            stamps: (!is_damaged).then(|| channels.iter().map(|channel| channel.stored.max(0) as u64).sum()),
            bytes,
            faults: faults.json(),
            loss_unknown: unknown_loss(&events),
            findings_left_out: left_out,
            ..Self::none(path.into())
        };
        if left_out.is_none() {
            *to_analyse = to_analyse.saturating_sub(bytes.unwrap_or(u64::MAX));
            let analysis = analyse_counts(&run, &Query::default())?;
            listed.findings = Some(analysis.every_finding(&events).len());
            listed.time_of_day = RunTimes::of(&run, &analysis)?;
        }
        Ok(listed)
    }

    /// What it is, if it is not whole.
    fn trouble(&self) -> Option<String> {
        let shown = self.run.display();
        let damaged = || {
            let first = self.faults.first()?;
            let faults = counted(self.faults.len(), "fault");
            let remedy = "do not trust its figures: tickscope check names all";
            Some(format!("{shown} is damaged: {faults} in its files, of {}; {remedy}", first.file().display()))
        };
        let unreadable = self.fault.as_ref().map(|fault| format!("{shown} cannot be read: {fault}"));
        unreadable.or_else(damaged).or_else(|| Some(format!("{shown}: {}", self.loss_unknown.as_ref()?)))
    }

    fn sentence(&self) -> String {
        let (shown, size) = (self.run.display(), megabytes(self.bytes));
        if let Some(fault) = &self.fault {
            return format!("{shown}: {size}, cannot be read: {fault}");
        }
        let began = utc(self.started_unix_ms.unwrap_or(0));
        let state = self.state.unwrap_or_default();
        let lasted = match self.lasted_ms {
            Some(ms) if state == "damaged" => format!("{state}, {}.{:03} s", ms / 1000, ms.unsigned_abs() % 1000),
            Some(ms) => format!("{}.{:03} s", ms / 1000, ms.unsigned_abs() % 1000),
            None => state.into(),
        };
        let stamps = self.stamps.map_or("stamps unknown".into(), |stamps| counted(stamps, "stamp"));
        let findings = match (self.findings, self.findings_left_out) {
            (Some(findings), _) => counted(findings, "finding"),
            (None, why) => format!("findings not counted: {}", why.unwrap_or_default()),
        };
        let nodes = self.nodes.join(" ");
        let mut text = format!("{shown}: {began}, {lasted}, {nodes}, {stamps}, {size}, {findings}");
        if let Some(times) = &self.time_of_day {
            let (first, last) = (clock_time(times.first_stamp_unix_ns), clock_time(times.last_stamp_unix_ns));
            text += &format!(", stamps from {first} to {last} by {}", times.rests_on);
        }
        text
    }
}

/// Counts that no program can have made, as faults of the files that hold them.
fn impossible_counts(run: &Run, channels: &[Channel]) -> Vec<Error> {
    let fault = |channel: &Channel| {
        let (name, count) = channel.impossible_count()?;
        let found = format!("{name} {count} of channel {} at {}", channel.channel, channel.point);
        Some(Error::corrupt(&run.paths().channels(channel.node.as_str()), "counts of stamps", found))
    };
    channels.iter().filter_map(fault).collect()
}

/// `2026-11-21 07:04:31.000000123 UTC within 450 ns`.
fn clock_time([lo, hi]: [i64; 2]) -> String {
    let second = utc(lo.div_euclid(1_000_000));
    let whole = second.strip_suffix(" UTC").unwrap_or(&second);
    format!("{whole}.{:09} UTC within {} ns", lo.rem_euclid(1_000_000_000), hi - lo)
}

fn name(state: RunState) -> &'static str {
    match state {
        RunState::GoingOn => "goes-on",
        RunState::CutOff => "cut-off",
        RunState::Ended => "ended",
    }
}

/// `1.3 MB`, rounded up.
fn megabytes(bytes: Option<u64>) -> String {
    bytes.map_or("size unknown".into(), |bytes| {
        let tenths = bytes.div_ceil(100_000);
        format!("{}.{} MB", tenths / 10, tenths % 10)
    })
}

/// Bytes of a file, or of all files of a folder; what is gone since it was listed has none.
fn bytes_below(place: &Path) -> io::Result<u64> {
    let gone = |e: io::Error| if e.kind() == ErrorKind::NotFound { Ok(0) } else { Err(e) };
    match fs::symlink_metadata(place) {
        Ok(found) if found.is_dir() => match fs::read_dir(place) {
            Ok(mut entries) => entries.try_fold(0, |sum, entry| Ok(sum + bytes_below(&entry?.path())?)),
            Err(e) => gone(e),
        },
        Ok(found) => Ok(found.len()),
        Err(e) => gone(e),
    }
}

/// What was removed. Within a version keys are added, never removed or renamed.
#[derive(Serialize)]
struct RemovedJson<'a> {
    version: u32,
    removed: &'a [PathBuf],
    bytes: Option<u64>,
}

/// Removes runs as [`RunRemoval`] does: none that goes on, and nothing that is no run.
pub fn rm(options: &RmOptions) -> Result<(), Failure> {
    let mut known = BTreeSet::new();
    for path in &options.runs {
        let run = chosen_run::open(Some(path))?;
        let shown = path.display();
        // A slash at its end would look through a link.
        let itself = path.components().as_path();
        if itself.is_symlink() || run.root() != path || !known.insert(path.canonicalize().ok()) {
            return Err(Failure::input(format!(
                "expected the directory of a run itself, and each once, found {shown}. Name the directory"
            )));
        }
        let manifest = run.manifest();
        if !manifest.stamp_directories.is_empty() || !manifest.sessions.is_empty() {
            note(format!("{shown}: stamps of it are stored nowhere yet; tickscope finish {shown} takes them"));
        }
    }
    let bytes = options.runs.iter().try_fold(0, |sum, run| Some(sum + bytes_below(run).ok()?));
    let (runs, size) = (counted(options.runs.len(), "run"), megabytes(bytes));
    if !options.yes {
        return Err(Failure::input(format!("{runs}, {size}, would be deleted permanently. Add --yes")));
    }
    let held = RunRemoval::hold(&options.runs).map_err(|e| match (e.is_busy(), e.place().parent()) {
        (true, Some(run)) => Failure::input(format!(
            "{}: expected a run that nobody writes, found one that goes on. End it first",
            run.display()
        )),
        _ => e.into(),
    })?;
    held.finish()?;
    match options.json {
        true => print_json(&RemovedJson { version: 1, removed: &options.runs, bytes }),
        false => line(format_args!("removed {runs}, {size}")),
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
    if file == Path::new("-") {
        let found =
            "expected a file that is whole or not there, found standard output. Name one; ./- is one of that name";
        return Err(Failure::input(found));
    }
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
    let (count, size) = (counted(files, "file"), megabytes(Some(bytes)));
    let (run, file) = (run.display().to_string(), file.display().to_string());
    line(format_args!("{done}: {} and {}, {count}, {size}", printable(&run), printable(&file)))
}
