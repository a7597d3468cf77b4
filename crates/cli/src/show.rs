//! `tickscope show`: the table of a run that was measured before.

use std::path::Path;

use tickscope_analysis::{Analysis, Query, ReadyRun, RunJson, analyse, ready};
use tickscope_bracket::Rho;
use tickscope_experiment::layout_of;
use tickscope_show::stage_table;
use tickscope_store::{Event, Run};

use crate::failure::Failure;
use crate::options::{QueryOptions, ShowOptions};
use crate::output;

/// Prints the table of a run.
pub fn show(options: &ShowOptions) -> Result<(), Failure> {
    let run = opened(&options.run, &options.query)?;
    let query = query(&options.query)?;
    print(&run, &query, options.json, false)
}

/// The run at `place`, ready to be asked by the layout that options name, or its own.
pub fn opened(place: &Path, options: &QueryOptions) -> Result<ReadyRun, Failure> {
    let layout = options.layout.as_deref().map(layout_of).transpose()?;
    ready(Run::open(place)?, layout)
}

/// The query that options make.
pub fn query(options: &QueryOptions) -> Result<Query, Failure> {
    let bound = |text: &Option<String>| text.as_deref().map(str::parse::<Rho>).transpose().map_err(Failure::input);
    Ok(Query { rho: bound(&options.rho)?, slew: bound(&options.slew)?, sources: options.evidence.clone() })
}

/// Analyses and prints; `write`: keep the durations in the run. An impossible duration ends with exit code 3.
pub fn print(ready: &ReadyRun, query: &Query, json: bool, write: bool) -> Result<(), Failure> {
    let run = &ready.run;
    // Before the analysis: what cannot be read may be why it fails.
    for refused in run.refused()? {
        eprintln!("tickscope: {refused}");
    }
    let analysis = Analysis { preparation: ready.preparation.clone(), ..analyse(run, query, write)? };
    for refused in &analysis.refused {
        eprintln!("tickscope: {refused}");
    }
    let listing = run.events()?;
    match json {
        true => output::print_json(&RunJson::of(run, &analysis, &listing.found))?,
        false => output::print(stage_table::text(run, &analysis, &listing.found).as_bytes())?,
    }
    ended(&analysis, &listing.found)
}

/// How a command ends that showed a run: with what contradicts itself, with what it could not show, or well.
pub fn ended(analysis: &Analysis, events: &[Event]) -> Result<(), Failure> {
    match analysis.finding(events) {
        Some(finding) => Err(Failure::finding(finding)),
        None => analysis.lack().map_or(Ok(()), |lack| Err(Failure::work(lack))),
    }
}
