//! `tickscope report`: a run as one page.

use std::path::Path;

use tickscope_analysis::{Query, analyse_with_figures};
use tickscope_show::Report;
use tickscope_store::{Run, write_whole};

use crate::check::Faults;
use crate::failure::Failure;
use crate::options::ReportOptions;
use crate::output::print_json;
use crate::show::query;

/// Writes the page of a run, or prints what it would say as JSON. A page is written also of a run whose evidence is a
/// finding, which ends with exit code 3: it shows what is wrong.
pub fn report(options: &ReportOptions) -> Result<(), Failure> {
    let run = Run::open(&options.run)?;
    let query = query(&options.query)?;
    let place = options.out.clone().unwrap_or_else(|| run.paths().report());
    made(&run, &query, |report| {
        if options.json {
            return print_json(&report.json());
        }
        write(report, &place)?;
        println!("report: {}", place.display());
        Ok(())
    })?
}

/// Writes the page of a run that was just shown into its directory.
pub fn beside(run: &Run) -> Result<(), Failure> {
    made(run, &Query::default(), |report| write(report, &run.paths().report())).map(|_| ())
}

fn write(report: &Report<'_>, place: &Path) -> Result<(), Failure> {
    Ok(write_whole(place, report.html().map_err(Failure::work)?.as_bytes())?)
}

/// Makes the report of a run and hands it on; returns what the run finds, apart from what went wrong.
fn made(
    run: &Run,
    query: &Query,
    use_it: impl FnOnce(&Report<'_>) -> Result<(), Failure>,
) -> Result<Result<(), Failure>, Failure> {
    let faults = Faults::of(run)?;
    let (mut analysis, figures) = analyse_with_figures(run, query, false)?;
    let faults = faults.also(std::mem::take(&mut analysis.refused));
    let (events, channels) = (run.events()?, run.channels()?);
    let refused = faults.texts();
    let report = Report {
        run,
        analysis: &analysis,
        figures: &figures,
        events: &events.found,
        channels: &channels.found,
        refused: &refused,
    };
    use_it(&report)?;
    let found = analysis.finding(&events.found).map_or(Ok(()), |finding| Err(Failure::finding(finding)));
    Ok(faults.verdict(found))
}
