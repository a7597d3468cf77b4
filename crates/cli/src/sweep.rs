//! A run file of many trials, run, resumed and shown: one table of all of them.

use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use tickscope_analysis::{Query, SweepTable, swept};
use tickscope_experiment::{SweepPlan, SweepSettings, check_sweep, continue_sweep};
use tickscope_show::stage_table::Scale;
use tickscope_show::{SweepText, sweep_figure};
use tickscope_store::SweepManifest;

use crate::failure::Failure;
use crate::figures;
use crate::memory;
use crate::options::{FiguresOptions, ResumeOptions, RunOptions, ShowOptions};
use crate::output::{line, note, print, print_json};
use crate::show::query;

/// What all trials say. Within a version keys are added, never removed or renamed.
#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    #[serde(flatten)]
    table: &'a SweepTable,
}

/// What was drawn. Within a version keys are added, never removed or renamed.
#[derive(Serialize)]
struct Drawn<'a> {
    version: u32,
    files: &'a [PathBuf],
    #[serde(flatten)]
    table: &'a SweepTable,
}

/// Makes the trials of a run file that are missing, and prints the table of all.
pub fn run(options: &RunOptions, plan: SweepPlan) -> Result<(), Failure> {
    for (given, option) in [(options.overhead, "--overhead"), (options.detach, "--detach")] {
        if given {
            return Err(Failure::input(format!(
                "{option}: expected a run file of one run, found one with a [sweep]. Leave {option} out"
            )));
        }
    }
    let (out, seconds, keep) = (options.out.clone(), options.seconds, options.keep);
    let settings = SweepSettings { plan, out, seconds, keep };
    if options.check {
        return print(check_sweep(&settings)?.as_bytes());
    }
    memory::reuse_freed();
    let (root, made) = tickscope_experiment::sweep(&settings)?;
    ended(&root, made, (options.json, options.report))
}

/// Goes on with a sweep, and prints its table.
pub fn resume(options: &ResumeOptions) -> Result<(), Failure> {
    memory::reuse_freed();
    let (root, made) = continue_sweep(&options.run)?;
    ended(&root, made, (options.json, options.report))
}

fn ended(root: &Path, made: Result<(), Failure>, (json, report): (bool, bool)) -> Result<(), Failure> {
    let shown = looked_at(root, &Query::default()).and_then(|table| {
        printed(&table, (json, None))?;
        if report {
            figures::written(sweep_figure(&table).as_slice(), &root.join("figures"), json)?;
        }
        verdict(&table)
    });
    if let (Err(why), Err(_)) = (&shown, &made) {
        note(why);
    }
    if !json {
        line("")?;
        line(format_args!("the sweep's trials, a run each: {}", root.display()))?;
    }
    made.and(shown)
}

/// Prints the table of a sweep; options that ask for something else of one run are refused.
pub fn show(options: &ShowOptions, root: &Path) -> Result<(), Failure> {
    let of_a_run = [
        ("--counts", options.counts.is_some()),
        ("--age", options.age.is_some()),
        ("--by", options.by.is_some()),
        ("--limits", options.limits.is_some()),
        ("--quantiles", options.quantiles.is_some()),
        ("--layout", options.query.layout.is_some()),
        ("--wide", options.wide),
        ("--assumptions", options.assumptions),
        ("--events", options.events),
    ];
    if let Some((option, _)) = of_a_run.iter().find(|(_, given)| *given) {
        return Err(Failure::input(format!(
            "{option}: expected a run, found the sweep {0}. Name one of its trials: {0}/trial-0001",
            root.display()
        )));
    }
    let table = looked_at(root, &query(&options.query)?)?;
    printed(&table, (options.json, options.unit.map(Into::into)))?;
    verdict(&table)
}

/// Draws the figure of a sweep, and ends as `show` does.
pub fn figures(options: &FiguresOptions, root: &Path) -> Result<(), Failure> {
    if options.query.layout.is_some() {
        return Err(Failure::input("--layout: expected a run, found a sweep. Leave it out, or name a trial"));
    }
    let table = looked_at(root, &query(&options.query)?)?;
    let folder = options.out.clone().unwrap_or_else(|| root.join("figures"));
    let figure = sweep_figure(&table);
    let files = figures::written(figure.as_slice(), &folder, options.json)?;
    if options.json {
        print_json(&Drawn { version: 1, files: &files, table: &table })?;
    } else if figure.is_none() {
        note("no figure: no trial of the sweep has a value");
    }
    verdict(&table)
}

fn printed(table: &SweepTable, (json, scale): (bool, Option<Scale>)) -> Result<(), Failure> {
    match json {
        true => print_json(&Report { version: 1, table }),
        false => print(SweepText { table, scale }.text().as_bytes()),
    }
}

/// What all trials say; how far it is, where somebody waits.
fn looked_at(root: &Path, query: &Query) -> Result<SweepTable, Failure> {
    let sweep = SweepManifest::read(root)?;
    let (terminal, mut told) = (stderr().is_terminal(), Instant::now());
    swept(root, &sweep, query, |at| {
        if terminal && told.elapsed() > Duration::from_secs(2) {
            told = Instant::now();
            note(format!("looked at {at} of {} trials", sweep.trials.len()));
        }
    })
}

/// How a command ends that showed or drew a sweep.
fn verdict(table: &SweepTable) -> Result<(), Failure> {
    let unwell = || table.trials.iter().filter(|trial| trial.code != 0);
    let Some(first) = unwell().next() else { return Ok(()) };
    let more = unwell().count() - 1;
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let why = first.why.as_deref().unwrap_or_default();
    Err(Failure::of_code(first.code, format!("trial {}{more}: {why}", first.number)))
}
