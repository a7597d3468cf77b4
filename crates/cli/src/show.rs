//! `tickscope show`: the table of a run that was measured before.

use tickscope_analysis::{Query, RunJson, analyse};
use tickscope_bracket::Rho;
use tickscope_show::stage_table;
use tickscope_store::Run;

use crate::check::Faults;
use crate::failure::Failure;
use crate::options::{QueryOptions, ShowOptions};
use crate::output;

/// Prints the table of a run.
pub fn show(options: &ShowOptions) -> Result<(), Failure> {
    let run = Run::open(&options.run)?;
    let query = query(&options.query)?;
    print(&run, &query, options.json, false)
}

/// The query that options make.
pub fn query(options: &QueryOptions) -> Result<Query, Failure> {
    let bound = |text: &Option<String>| text.as_deref().map(str::parse::<Rho>).transpose().map_err(Failure::input);
    Ok(Query { rho: bound(&options.rho)?, slew: bound(&options.slew)?, sources: options.evidence.clone() })
}

/// Analyses and prints; `write`: keep the durations in the run. An impossible duration ends with exit code 3.
pub fn print(run: &Run, query: &Query, json: bool, write: bool) -> Result<(), Failure> {
    let faults = Faults::of(run)?;
    let mut analysis = analyse(run, query, write)?;
    let faults = faults.also(std::mem::take(&mut analysis.refused));
    let listing = run.events()?;
    match json {
        true => output::print_json(&RunJson::of(run, &analysis, &listing.found))?,
        false => output::print(stage_table::text(run, &analysis, &listing.found).as_bytes())?,
    }
    faults.verdict(analysis.finding(&listing.found).map_or(Ok(()), |finding| Err(Failure::finding(finding))))
}
