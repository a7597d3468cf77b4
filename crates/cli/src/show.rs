//! `tickscope show`: the table of a run that was measured before.

use tickscope_analysis::{Query, RunJson, analyse};
use tickscope_bracket::Rho;
use tickscope_show::stage_table;
use tickscope_store::Run;

use crate::failure::Failure;
use crate::manual;
use crate::options::{QueryOptions, ShowOptions};

/// Prints the table of a run.
pub fn show(options: &ShowOptions) -> Result<(), Failure> {
    let run = Run::open(&options.run)?;
    let query = query(&options.query)?;
    print(&run, &query, options.json, false)
}

/// The query that options make.
pub fn query(options: &QueryOptions) -> Result<Query, Failure> {
    let rho = |text: &Option<String>| text.as_deref().map(str::parse::<Rho>).transpose().map_err(Failure::input);
    Ok(Query { rho: rho(&options.rho)?, slew: rho(&options.slew)?, sources: options.evidence.clone() })
}

/// Analyses and prints; `write`: keep the durations in the run. An impossible duration ends with exit code 3.
pub fn print(run: &Run, query: &Query, json: bool, write: bool) -> Result<(), Failure> {
    // Before the analysis: what cannot be read may be why it fails.
    for refused in run.refused()? {
        eprintln!("tickscope: {refused}");
    }
    let analysis = analyse(run, query, write)?;
    for refused in &analysis.refused {
        eprintln!("tickscope: {refused}");
    }
    let listing = run.events()?;
    let text = if json {
        let table = RunJson::of(run, &analysis, &listing.found);
        serde_json::to_string_pretty(&table).map_err(Failure::work)? + "\n"
    } else {
        stage_table::text(run, &analysis, &listing.found)
    };
    manual::print(text.as_bytes())?;
    analysis.finding(&listing.found).map_or(Ok(()), |finding| Err(Failure::finding(finding)))
}
