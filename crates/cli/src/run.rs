//! `tickscope run`: one experiment from start to end, and its table.

use std::io::{Write, stderr};

use tickscope_analysis::Query;
use tickscope_experiment::{Forward, RunSettings, RunSource, RunText, SustainPlan, SweepPlan, interrupt};
use tickscope_store::{Run, SweepManifest};
use tickscope_tick::printable;

use crate::failure::Failure;
use crate::options::{RelateOptions, ResumeOptions, RunOptions};
use crate::output::{line, note};
use crate::show::Opened;
use crate::{chosen_run, counts, memory, output, relate, report, show, stored, sweep};

/// Runs an experiment and prints its table.
pub fn run(options: &RunOptions) -> Result<(), Failure> {
    let file = options.file.as_deref().map(RunText::read).transpose()?;
    if let Some(plan) = file.as_ref().map(SweepPlan::of).transpose()?.flatten() {
        return sweep::run(options, plan);
    }
    if file.as_ref().map(SustainPlan::of).transpose()?.flatten().is_some() {
        return Err(Failure::input(
            "expected a run file of one run or of a [sweep], found one with a [sustain]. tickscope sustain FILE makes \
             its trials",
        ));
    }
    let settings = settings(options, file);
    if options.check {
        return output::print(tickscope_experiment::check(&settings)?.as_bytes());
    }
    memory::reuse_freed(); // its join holds as much as any command that reads it
    let (run, measured) = tickscope_experiment::run(&settings)?;
    print(&run, measured, Printed::of(options.json, options.report))
}

/// Runs the machines of a file without programs, and prints what is known of each pair; the page is always written.
pub fn relating(options: &RelateOptions, file: RunText) -> Result<(), Failure> {
    let RelateOptions { out, seconds, rivals, json, .. } = options;
    let source = RunSource::File(file);
    let settings = RunSettings {
        source,
        out: out.clone(),
        seconds: *seconds,
        keep: None,
        overhead: false,
        detach: false,
        trial: None,
    };
    let (run, measured) = tickscope_experiment::run(&settings)?;
    print(&run, measured, Printed { json: *json, report: true, rivals: *rivals })
}

/// What is printed of a run.
#[derive(Clone, Copy)]
struct Printed {
    json: bool,
    report: bool,
    /// Other methods' bounds of the clocks.
    rivals: bool,
}

impl Printed {
    fn of(json: bool, report: bool) -> Self {
        Self { json, report, rivals: false }
    }
}

/// Goes on with a run, and prints its table.
pub fn resume(options: &ResumeOptions) -> Result<(), Failure> {
    if SweepManifest::is_at(&options.run) {
        return sweep::resume(options);
    }
    memory::reuse_freed();
    let (run, measured) = tickscope_experiment::resume(chosen_run::open_to_steer(Some(&options.run))?.root())?;
    print(&run, measured, Printed::of(options.json, options.report))
}

/// Prints the table of a run that has come to its end.
fn print(run: &Run, measured: Result<(), Failure>, asked: Printed) -> Result<(), Failure> {
    let Printed { json, report, rivals } = asked;
    let root = run.root().display();
    if !json {
        let _ = writeln!(stderr(), "run: {}", printable(&root.to_string())); // nobody may be reading it
    }
    if let Some(shown) = stored::instead(run, json) {
        if let (Err(why), Err(_)) = (&shown, &measured) {
            note(why);
        }
        return measured.and(shown);
    }
    // The table first: a command that failed leaves what was measured until then.
    let (shown, reported) = match tickscope_analysis::only_counted(run) {
        Ok(true) => (counts::instead(run, json), if report { report::of_counts(run) } else { Ok(()) }),
        _ if tickscope_analysis::only_related(run).unwrap_or(false) => {
            (relate::instead(run, &Query::default(), relate::RelationsShown { json, rivals, page: report }), Ok(()))
        }
        _ => table(run, json, report),
    };
    if let (Err(why), Err(_)) = (&shown, &measured) {
        note(why);
    }
    if !json {
        line("")?;
        line(format_args!("the run's files: {root}"))?;
        match report {
            true if reported.is_ok() => line(format_args!("report: {}", run.paths().report().display()))?,
            _ => line(format_args!("report: tickscope report {root}"))?,
        }
    }
    measured.and(shown).and(reported)?;
    if interrupt::ended() {
        return Err(Failure::work("interrupted; what was measured until then is kept and shown above"));
    }
    Ok(())
}

/// Prints the table and writes the page; how each of them went.
fn table(run: &Run, json: bool, report: bool) -> (Result<(), Failure>, Result<(), Failure>) {
    let opened = match Opened::of(run.clone(), None) {
        Ok(opened) => opened,
        Err(why) => return (Err(why.clone()), Err(why)),
    };
    let shown = show::print(&opened, &Query::default(), json, true);
    (shown, if report { report::beside(&opened) } else { Ok(()) })
}

fn settings(options: &RunOptions, file: Option<RunText>) -> RunSettings {
    let RunOptions { command, out, seconds, keep, overhead, detach, json, .. } = options;
    // JSON alone goes to standard output.
    let forward = if *json { Forward::Stderr } else { Forward::Stdout };
    let source = match file {
        Some(file) => RunSource::File(file),
        None => RunSource::Command(command.clone(), forward),
    };
    let (out, seconds, keep) = (out.clone(), *seconds, *keep);
    RunSettings { source, out, seconds, keep, overhead: *overhead, detach: *detach, trial: None }
}
