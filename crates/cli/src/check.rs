//! What is wrong with a run's files: said before any figure of theirs, and in full by `tickscope check`.

use std::io::{IsTerminal, stderr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;
use tickscope_analysis::{FaultJson, Query, analyse_counts, expect_anything, unknown_loss};
use tickscope_store::{Error, Run, RunState};
use tickscope_tick::{counted, printable};

use crate::chosen_run;
use crate::failure::Failure;
use crate::options::CheckOptions;
use crate::output::{note, print, print_json};

/// Lines that are printed of a list of faults; the others are counted.
const LINES: usize = 20;

/// The faults of a run whose figures are about to be shown.
#[derive(Clone, Default)]
pub struct Faults {
    run: PathBuf,
    said: Vec<Error>,
}

impl Faults {
    /// Looks for them and says them, before the figures: they may also be why these cannot be had.
    pub fn of(run: &Run) -> Result<Self, Failure> {
        let faults = Self { run: run.root().into(), said: run.faults()? };
        faults.said.iter().take(LINES).for_each(note);
        if faults.said.len() > LINES {
            note(format!("and {} more", faults.said.len() - LINES));
        }
        Ok(faults)
    }

    /// Says also what the analysis could not read, where nothing is said of that file yet.
    pub fn also(mut self, refused: Vec<Error>) -> Self {
        for fault in refused {
            if self.said.iter().all(|said| said.place() != fault.place()) {
                note(&fault);
                self.said.push(fault);
            }
        }
        self
    }

    /// All of them.
    pub fn all(&self) -> Vec<Error> {
        self.said.clone()
    }

    /// All of them for programs.
    pub fn json(&self) -> Vec<FaultJson> {
        self.said.iter().map(FaultJson::of).collect()
    }

    /// The end of a command that showed figures: damage comes before what the figures find.
    pub fn verdict(&self, found: Result<(), Failure>) -> Result<(), Failure> {
        if self.said.is_empty() {
            return found;
        }
        if let Err(finding) = found {
            note(&finding);
        }
        let (faults, run) = (counted(self.said.len(), "fault"), self.run.display());
        Err(Failure::work(format!(
            "{faults} in the run's files: do not trust the figures. tickscope check {run} names all"
        )))
    }
}

/// Report of a check. Within a version keys are added, never removed or renamed.
#[derive(Serialize)]
struct Report {
    version: u32,
    complete: bool,
    state: &'static str,
    files: u64,
    stamps: u64,
    removed: u64,
    bytes: u64,
    faults: Vec<FaultJson>,
    /// `None`: there are no whole figures that could have any.
    findings: Option<Vec<String>>,
}

/// Reads a run wholly. A fault, or an end that was never written, ends with exit code 1; else it ends as `show` does.
pub fn check(options: &CheckOptions) -> Result<(), Failure> {
    let run = chosen_run::open(Some(&options.run))?;
    let (terminal, mut told) = (stderr().is_terminal(), Instant::now());
    let examined = run.examine(|bytes| {
        if terminal && told.elapsed() > Duration::from_secs(2) {
            told = Instant::now();
            note(format!("check: {} MB read", bytes / 1_000_000));
        }
    })?;
    let state = run.state()?;
    let events = run.events()?.found;
    let whole = examined.faults.is_empty() && state == RunState::Ended && !run.traces()?.found.is_empty();
    let analysis = whole.then(|| analyse_counts(&run, &Query::default())).transpose()?;
    let report = Report {
        version: 1,
        complete: examined.faults.is_empty() && state == RunState::Ended,
        state: match state {
            RunState::GoingOn => "goes-on",
            RunState::CutOff => "cut-off",
            RunState::Ended => "ended",
        },
        files: examined.files,
        stamps: examined.stamps,
        removed: examined.removed,
        bytes: examined.bytes,
        faults: examined.faults.iter().map(FaultJson::of).collect(),
        findings: analysis.as_ref().map(|analysis| analysis.every_finding(&events)),
    };
    match options.json {
        true => print_json(&report)?,
        false => print(text(&report, run.manifest().schema).as_bytes())?,
    }
    if !report.faults.is_empty() {
        return Err(Failure::work(format!("{} in the run's files", counted(report.faults.len(), "fault"))));
    }
    match (state, analysis) {
        (RunState::CutOff, _) => Err(Failure::work("the run was cut off: its end is missing")),
        (_, Some(analysis)) => Ok(analysis.standing(&events)?),
        (_, None) => {
            unknown_loss(&events).map_or(Ok(()), |loss| Err(Failure::work(loss)))?;
            Ok(expect_anything(&run)?)
        }
    }
}

fn text(report: &Report, schema: u32) -> String {
    let faults: String = report.faults.iter().map(|fault| printable(fault.text()).into_owned() + "\n").collect();
    let removed = match report.removed {
        0 => String::new(),
        removed => {
            format!(" ({} more were removed by the run's window, and are accounted for)", counted(removed, "stamp"))
        }
    };
    let (files, stamps) = (counted(report.files, "file"), counted(report.stamps, "stamp"));
    let read = format!("{files}, {stamps}{removed}, {} bytes", report.bytes);
    let verdict = match report.state {
        _ if !report.faults.is_empty() => format!("{} in {read}", counted(report.faults.len(), "fault")),
        "goes-on" => format!("no fault so far in {read}; the run goes on, what is missing is known at its end"),
        "cut-off" => format!("no fault in {read}; the run was cut off, so files that are gone may leave no trace"),
        _ if schema < 2 => {
            format!("no fault in {read}; runs of schema 1 have no digests, so other changes may show nothing")
        }
        _ => format!("complete: {read}"),
    };
    let findings = report.findings.iter().flatten();
    let findings: String = findings.map(|finding| format!("finding: {}\n", printable(finding))).collect();
    format!("{faults}{verdict}\n{findings}")
}
