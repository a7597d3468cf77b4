//! A run file of many trials: each an ordinary run in a folder of its own, below that of the sweep.
//!
//! Idea: `sweep.json` says before a trial that it begins and after it how it ended; so whoever ends in between leaves a
//! trial that *began*, and the next one makes it anew in another folder. What it measured until then stays, finished
//! as `tickscope finish` would. Assumes: the programs that the run file starts are the same ones when it goes on.
//! Guarantees: each trial is made once; one that failed is none that is missing, and is not left out; a sweep goes on
//! by the run file that it was begun by, or not at all. Deliberately absent: looking at what a trial measured.

mod parameters;
mod plan;
pub mod search;
mod substitution;
mod sustain;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

use tickscope_store::{Run, RunState, SweepManifest, TrialRecord, TrialState, make_folders};
use tickscope_tick::{counted, quoted};

use crate::conductor::{self, RunSettings, RunSource};
use crate::finish::{finish, lock};
use crate::original::goes_on;
use crate::run_file::RunText;
use crate::window::Keep;
use crate::{Error, interrupt, leftovers, notice, preflight};
pub use plan::SweepPlan;
use plan::duration;
pub use search::SustainMethod;
pub use sustain::{SustainPlan, SustainSettings, check_sustain, sustain};

/// What is to be swept, and options that replace a run file's values.
#[derive(Clone, Debug)]
pub struct SweepSettings {
    /// The run file.
    pub plan: SweepPlan,
    /// The sweep's folder; `None`: the run file's, or `runs/NAME-TIME`.
    pub out: Option<PathBuf>,
    /// Seconds to measure in each trial; `None`: the run file's.
    pub seconds: Option<f64>,
    /// The window of stamps to keep; `None`: the run file's.
    pub keep: Option<Keep>,
}

impl SweepSettings {
    fn root(&self) -> PathBuf {
        let run = &self.plan.first.run;
        let given = || self.out.clone().or_else(|| run.out.clone());
        given().unwrap_or_else(|| Path::new("runs").join(format!("{}-{}", run.name, crate::unix_ms() / 1000)))
    }

    /// A trial of that point, the first or another repetition.
    fn trial(&self, point: &[usize], repetition: u32, out: PathBuf, told: String) -> RunSettings {
        let text = RunText { text: self.plan.text(point, repetition), ..self.plan.file.clone() };
        let (seconds, keep) = (self.seconds, self.keep);
        let source = RunSource::File(text);
        RunSettings { source, out: Some(out), seconds, keep, overhead: false, detach: false, trial: Some(told) }
    }

    fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(self.plan.first.run.seconds)
    }
}

/// Checks what would be swept, without running it; says what it would do.
pub fn check_sweep(settings: &SweepSettings) -> Result<String, Error> {
    let (first, root) = (vec![0; settings.plan.parameters.len()], settings.root());
    let trial = settings.trial(&first, 1, root.join(folder(1)), String::new());
    Ok(settings.plan.describe(settings.seconds()) + &conductor::check(&trial)?)
}

/// Makes all trials that are missing: of a sweep that is there, if it was begun by the same run file, else of a new
/// one. The sweep's folder; and why trials are missing still, if some are.
pub fn sweep(settings: &SweepSettings) -> Result<(PathBuf, Result<(), Error>), Error> {
    interrupt::catch();
    interrupt::catch_dump();
    let root = settings.root();
    conductor::say_orphans();
    conductor::say_unused(&settings.plan.first);
    let (sweep, lock) = match SweepManifest::is_at(&root) {
        true => opened(settings, &root)?,
        false => begun(settings, &root)?,
    };
    let mut sweep = Sweeping { settings, root, sweep, _lock: lock, spent: Vec::new() };
    sweep.set_aside()?;
    let outcome = sweep.make_missing();
    Ok((sweep.root, outcome))
}

/// Goes on with the sweep in `root`, by the run file that it was begun by.
pub fn continue_sweep(root: &Path) -> Result<(PathBuf, Result<(), Error>), Error> {
    let known = SweepManifest::read(root)?;
    let begun_by = || RunText {
        name: root.display().to_string(),
        place: known.run_file_place.clone(),
        text: known.run_file.clone(),
        folder: known.run_file_directory.clone(),
    };
    let there = known.run_file_place.as_deref().filter(|place| place.exists());
    let file = there.map_or_else(|| Ok(begun_by()), RunText::read)?;
    if SustainPlan::of(&file)?.is_some() {
        return Err(sustain::goes_on_by(root, &file));
    }
    let plan = SweepPlan::of(&file)?.ok_or_else(|| differs(root, "it has no [sweep] any more"))?;
    let keep = known.keep_ms.and_then(Keep::of_ms);
    sweep(&SweepSettings { plan, out: Some(root.into()), seconds: known.seconds, keep })
}

/// Begins a sweep: its first trial is one that can be made, as far as is known beforehand.
fn begun(settings: &SweepSettings, root: &Path) -> Result<(SweepManifest, File), Error> {
    preflight::expect_empty(root)?;
    preflight::check(&settings.plan.first, &root.join(folder(1)))?;
    make_folders(root)?;
    let lock = alone(root)?;
    if SweepManifest::is_at(root) {
        return Err(busy(root)); // and over by now
    }
    let seed = settings.plan.seed.map_or_else(|| conductor::random().map(|number| number as u32), Ok)?;
    let sweep = settings.plan.begun(seed, (settings.seconds, settings.keep.map(Keep::ms)));
    sweep.write(root)?;
    if settings.plan.is_search {
        return Ok((sweep, lock)); // who searches says so
    }
    let (trials, seconds) = (settings.plan.trials(), settings.plan.seconds(settings.seconds()));
    notice::say(format!(
        "{} in {}, seed {seed}, measuring for {} at least",
        counted(trials, "trial"),
        root.display(),
        duration(seconds)
    ));
    Ok((sweep, lock))
}

/// A sweep that is there.
fn opened(settings: &SweepSettings, root: &Path) -> Result<(SweepManifest, File), Error> {
    let lock = alone(root)?;
    let known = SweepManifest::read(root)?;
    let file = &settings.plan.file;
    if let Some(what) = first_difference(&known.run_file, &file.text) {
        return Err(differs(root, &what));
    }
    let given = (settings.seconds, settings.keep.map(Keep::ms));
    if given != (known.seconds, known.keep_ms) {
        return Err(differs(root, "--seconds and --keep are not those that it was begun with"));
    }
    if known.run_file_directory != file.folder {
        let [was, is] = [&known.run_file_directory, &file.folder].map(|folder| folder.display());
        return Err(differs(root, &format!("its paths started from {was}, and start from {is}")));
    }
    Ok((known, lock))
}

/// The first line that two texts do not have in common.
fn first_difference(was: &str, is: &str) -> Option<String> {
    if was == is {
        return None;
    }
    let (mut before, mut after) = (was.lines(), is.lines());
    let told = |line: Option<&str>| line.map_or("nothing".into(), |line| format!("'{line}'"));
    let mut lines = (1..).map(|number: usize| (number, before.next(), after.next()));
    let found = lines.find(|(_, before, after)| before != after || before.is_none());
    Some(match found {
        Some((number, before, after)) if before != after => {
            format!("line {number} was {}, and is {}", told(before), told(after))
        }
        _ => "its lines end differently".into(),
    })
}

fn differs(root: &Path, what: &str) -> Error {
    Error::input(format!(
        "cannot go on with the sweep in {}: the run file has changed since it began: {what}. Trials of both would not \
         be comparable: put it back, or begin another with --out",
        root.display()
    ))
}

/// Lets one process at a time add trials.
fn alone(root: &Path) -> Result<File, Error> {
    lock(&root.join(leftovers::CLAIM))?.ok_or_else(|| busy(root))
}

fn busy(root: &Path) -> Error {
    Error::work(format!("cannot sweep in {}: another process makes its trials. Wait for it", root.display()))
}

/// `trial-0007`.
fn folder(number: u32) -> String {
    format!("trial-{number:04}")
}

/// A sweep that goes on.
struct Sweeping<'a> {
    settings: &'a SweepSettings,
    root: PathBuf,
    sweep: SweepManifest,
    /// Seconds that each trial took.
    spent: Vec<f64>,
    _lock: File,
}

impl Sweeping<'_> {
    /// Finishes what cut-off trials have left, apart from those that are made in their place.
    fn set_aside(&mut self) -> Result<(), Error> {
        for at in 0..self.sweep.trials.len() {
            let trial = &mut self.sweep.trials[at];
            if trial.state != TrialState::Begun {
                continue;
            }
            (trial.state, trial.code) = (TrialState::Missing, 0);
            let (number, folder) = (trial.number, trial.folder.take());
            let Some(remains) = folder.map(|folder| self.root.join(folder)).filter(|place| place.exists()) else {
                continue;
            };
            // Its processes end with it, before another trial wants their ports.
            let left = match settled(&remains) {
                Ok(_) => "what it measured stays".into(),
                Err(why) if is_going_on(&remains) => return Err(why),
                Err(why) => why.to_string(),
            };
            notice::say(format!(
                "trial {number} was cut off, and is made anew; it is in no figure: {left}, in {}",
                remains.display()
            ));
        }
        Ok(self.sweep.write(&self.root)?)
    }

    fn make_missing(&mut self) -> Result<(), Error> {
        for at in 0..self.sweep.trials.len() {
            if self.sweep.trials[at].state != TrialState::Missing {
                continue;
            }
            if !interrupt::ended() {
                self.make(at)?;
            }
            if interrupt::ended() {
                return Err(self.interrupted());
            }
        }
        Ok(())
    }

    /// Makes a trial, whatever becomes of it.
    fn make(&mut self, at: usize) -> Result<(), Error> {
        let told = self.told(at);
        let trial = &mut self.sweep.trials[at];
        let name = free(&self.root, trial.number);
        let settings = self.settings.trial(&trial.point, trial.repetition, self.root.join(&name), told.clone());
        (trial.state, trial.folder) = (TrialState::Begun, Some(name.clone()));
        self.sweep.write(&self.root)?;
        let began = Instant::now();
        let outcome = conductor::run(&settings).and_then(|(_, outcome)| outcome);
        // One that could not begin may have left nothing.
        let folder = Some(name).filter(|name| self.root.join(name).exists());
        if interrupt::ended() {
            return Ok(()); // it was cut short, and stays begun
        }
        self.spent.push(began.elapsed().as_secs_f64());
        let trial = &mut self.sweep.trials[at];
        let run = folder.as_ref().and_then(|folder| Run::open(&self.root.join(folder)).ok());
        trial.run = run.map(|run| TrialRecord::run_name(run.manifest()));
        trial.folder = folder;
        trial.state = if outcome.is_ok() { TrialState::Made } else { TrialState::Failed };
        if let Err(why) = outcome {
            notice::say(format!("{told}: failed: {why}"));
            (trial.code, trial.why) = (why.code(), Some(why.to_string()));
        }
        Ok(self.sweep.write(&self.root)?)
    }

    /// `trial 7 of 40, rate = 4000; 5 min left`.
    fn told(&self, at: usize) -> String {
        let trial = &self.sweep.trials[at];
        if self.settings.plan.is_search {
            return format!("trial {}, {}", trial.number, self.sweep.told(&trial.point));
        }
        let left = self.sweep.count(TrialState::Missing) as f64;
        let left = match self.spent.len() {
            0 => format!("{} left at least", duration(left * self.settings.seconds())),
            made => format!("about {} left", duration(left * self.spent.iter().sum::<f64>() / made as f64)),
        };
        format!("trial {} of {}, {}; {left}", trial.number, self.sweep.trials.len(), self.sweep.told(&trial.point))
    }

    fn interrupted(&self) -> Error {
        let made = self.sweep.count(TrialState::Made) + self.sweep.count(TrialState::Failed);
        if self.settings.plan.is_search {
            return Error::work(format!(
                "interrupted after {}. The same command with --out {} goes on",
                counted(made, "trial"),
                quoted(self.root.display())
            ));
        }
        Error::work(format!(
            "interrupted; {made} of {} are made. tickscope resume {} makes the others",
            counted(self.sweep.trials.len(), "trial"),
            quoted(self.root.display())
        ))
    }
}

/// Finishes a run whose conductor is dead, however long its processes take to end.
fn settled(root: &Path) -> Result<(), Error> {
    const ATTEMPTS: usize = 20; // each waits some seconds by itself
    let mut attempts = (0..ATTEMPTS).map(|_| finish(root));
    attempts.find(|found| found.is_ok() || !is_going_on(root)).unwrap_or_else(|| finish(root)).map(drop)
}

fn is_going_on(root: &Path) -> bool {
    Run::open(root)
        .is_ok_and(|run| goes_on(run.manifest().run) || run.state().is_ok_and(|state| state == RunState::GoingOn))
}

/// A folder for a trial: another one where a trial that was cut off has left its own.
fn free(root: &Path, number: u32) -> String {
    let first = folder(number);
    let again = (2..).map(|attempt: u32| format!("{first}-{attempt}"));
    let is_free = |name: &String| fs::symlink_metadata(root.join(name)).is_err();
    std::iter::once(first.clone()).chain(again).find(is_free).expect("there are more names than folders")
}
