//! The run that a command is asked about: a directory, or the newest one.
//!
//! Guarantees: what is no run is said to be none, with what is there instead, as wrong input; a run whose files are
//! damaged is another matter. Deliberately absent: making runs.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tickscope_store::{Paths, Run};

use crate::failure::Failure;
use crate::memory;
use crate::output::note;

/// Where `tickscope run` puts runs.
const RUNS: &str = "runs";
/// What may be written into the directory of a run.
const DERIVED: [&str; 2] = ["report.html", "figures"];
/// What commands of a run that goes on may write there.
const OUTPUTS: &str = "outputs";
/// Runs that a message names.
const MOST_NAMED: usize = 5;

/// Opens the run that was named, or the newest of `runs/`; one whose segments lie in object storage is refused.
pub fn open(named: Option<&Path>) -> Result<Run, Failure> {
    let run = open_to_steer(named)?;
    run.expect_here()?;
    memory::reuse_freed();
    Ok(run)
}

/// The same, to steer it or to go on with it, wherever its segments lie.
pub fn open_to_steer(named: Option<&Path>) -> Result<Run, Failure> {
    let place = match named {
        Some(named) => directory(named)?,
        None => newest()?,
    };
    Ok(Run::open(&place)?)
}

fn newest() -> Result<PathBuf, Failure> {
    let runs = runs_below(Path::new(RUNS));
    let Some(newest) = runs.first() else {
        return Err(Failure::input(
            "expected a run, found none below runs/ here. Name its directory, or make one: tickscope run FILE.toml",
        ));
    };
    note(format!("the newest run: {}", newest.display()));
    Ok(newest.clone())
}

/// Refuses a place in the directory of a run, but for what is derived from it there: anything else damages the run.
pub fn outside(place: PathBuf) -> Result<PathBuf, String> {
    match run_around(&place) {
        None => Ok(place),
        Some(run) => Err(format!(
            "expected a place that is in no run, found one in {}, which it would damage. Name another",
            run.display()
        )),
    }
}

/// The same for a folder that several files are written into.
pub fn outside_as_folder(folder: PathBuf) -> Result<PathBuf, String> {
    outside(folder.join("file")).map(|_| folder)
}

/// The run in whose directory a place lies, or would.
fn run_around(place: &Path) -> Option<PathBuf> {
    if place == Path::new("-") {
        return None; // standard output
    }
    let absolute = std::path::absolute(place).ok()?;
    let real = |folder: &Path| Some(fs::canonicalize(folder).ok()?.join(absolute.strip_prefix(folder).ok()?));
    let whole = absolute.ancestors().skip(1).find_map(real)?;
    let goes_on = |run: &Path| !run.join("digests.json").exists();
    let may_be = |run: &Path, path: &Path| {
        DERIVED.iter().any(|name| path.starts_with(name)) || path.starts_with(OUTPUTS) && goes_on(run)
    };
    let is_right = |run: &Path| whole.strip_prefix(run).is_ok_and(|path| may_be(run, path));
    let is_spoiled = |run: &&Path| Paths::of(run).manifest().exists() && !is_right(run);
    whole.ancestors().skip(1).find(is_spoiled).map(Path::to_path_buf)
}

/// The directory of a run that was named by its `run.json`; `None`: it was named in another way.
pub fn of_manifest(named: &Path) -> Option<PathBuf> {
    let is_manifest = named.is_file() && named.file_name().is_some_and(|name| name == "run.json");
    let parent = named.parent().filter(|parent| !parent.as_os_str().is_empty());
    is_manifest.then(|| parent.map_or_else(|| ".".into(), Path::to_path_buf))
}

/// The directory of the run that was named by it, or by its `run.json`.
fn directory(named: &Path) -> Result<PathBuf, Failure> {
    let (shown, manifest) = (named.display(), Paths::of(named).manifest());
    if manifest.exists() {
        return Ok(named.into());
    }
    let found = fs::metadata(named)
        .map_err(|error| Failure::input(format!("cannot open the run {shown}: {error}; {}", known_runs())))?;
    if found.is_dir() {
        // Also where the directory cannot be read: opening says why.
        return match (runs_below(named), fs::read_dir(named)) {
            (_, Err(error)) => Err(Failure::work(format!(
                "cannot read the directory {shown}: {error}; check its rights, or run as its owner"
            ))),
            (below, _) if below.is_empty() => Err(Failure::input(format!(
                "expected the directory of a run, which holds a run.json, found {shown} without one. Name another; {}",
                known_runs()
            ))),
            (below, _) => Err(Failure::input(format!(
                "expected the directory of a run, found {shown}, below which {}. Name one of them",
                list(&below)
            ))),
        };
    }
    if let Some(directory) = of_manifest(named) {
        return Ok(directory);
    }
    let remedy = match named.extension() {
        Some(extension) if extension == "toml" => format!("That is a run file: tickscope run {shown}"),
        _ => format!("Name a directory; {}", known_runs()),
    };
    Err(Failure::input(format!("expected the directory of a run, found the file {shown}. {remedy}")))
}

/// The directories in `folder` that hold a `run.json`, newest first, and last those that may not be looked into; none
/// with a hidden name, which is of a run that is not whole yet, or is being removed.
pub fn runs_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    let began = |path: PathBuf| {
        let written = match fs::metadata(Paths::of(&path).manifest()) {
            Err(e) if e.kind() == ErrorKind::PermissionDenied => None,
            found => Some(found.ok()?.modified().ok()?),
        };
        Some((Run::open(&path).map_or(0, |run| run.manifest().started_unix_ms), written, path))
    };
    let mut runs: Vec<_> = entries.filter_map(|entry| began(entry.path())).collect();
    runs.sort();
    runs.into_iter().rev().map(|(.., path)| path).collect()
}

fn known_runs() -> String {
    let runs = runs_below(Path::new(RUNS));
    if runs.is_empty() {
        return "there is none below runs/ here; correct the path, or make one: tickscope run FILE.toml".into();
    }
    format!("below runs/ {}", list(&runs))
}

/// `are a, b and 3 more`, the newest first.
fn list(runs: &[PathBuf]) -> String {
    let named: Vec<_> = runs.iter().take(MOST_NAMED).map(|run| run.display().to_string()).collect();
    let more = runs.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{} {}{more}", if runs.len() == 1 { "is" } else { "are" }, named.join(", "))
}
