//! `tickscope tail`: which stages make the slow traces slow.

use serde::Serialize;
use tickscope_analysis::{FaultJson, Query, Tail, analyse_with_figures};
use tickscope_show::SlowTraces;

use crate::failure::Failure;
use crate::options::TailOptions;
use crate::output::{note, print, print_json};
use crate::show::{Opened, expect_sources, opened, query};

/// What was found. Within a version keys are added, never removed or renamed.
#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    tail: &'a Tail,
    hertz: u64,
    faults: Vec<FaultJson>,
    findings: Vec<String>,
}

/// Prints what makes the slow traces of a run slow, and ends as `show` does.
pub fn tail(options: &TailOptions) -> Result<(), Failure> {
    let query = Query { tail: Some(options.slowest.0), ..query(&options.query)? };
    let Opened { ready, faults } = opened(options.run.as_deref(), &options.query)?;
    ready.preparation.notes.iter().for_each(note);
    let run = &ready.run;
    let (mut analysis, figures) = analyse_with_figures(run, &query, false)?;
    expect_sources(run, (&analysis.clock_maps, &analysis.unrelated), &query)?;
    let (faults, events) = (faults.also(std::mem::take(&mut analysis.refused)), run.events()?.found);
    if options.json {
        let (tail, hertz, findings) = (&figures.tail, analysis.frequency.hertz, analysis.every_finding(&events));
        print_json(&Report { version: 1, tail, hertz, faults: faults.json(), findings })?;
    } else {
        print(SlowTraces::of(&analysis, &figures.tail).text().as_bytes())?;
    }
    faults.verdict(analysis.standing(&events))
}
