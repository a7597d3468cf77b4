//! `tickscope figures`: a run's jitter as X-Lap draws it, a file a figure.

use std::fs;
use std::path::PathBuf;

use serde::Serialize;
use tickscope_analysis::{FaultJson, Jitter, analyse_with_figures};
use tickscope_show::XLap;
use tickscope_store::write_whole;

use crate::failure::Failure;
use crate::options::FiguresOptions;
use crate::output::{line, note, print_json};
use crate::show::{Opened, expect_sources, opened, query};

/// What was drawn. Within a version keys are added, never removed or renamed.
#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    files: &'a [PathBuf],
    missing: &'a [String],
    jitter: &'a Jitter,
    hertz: u64,
    faults: Vec<FaultJson>,
    findings: Vec<String>,
}

/// Writes the figures of a run, and ends as `show` does, once all are written.
pub fn figures(options: &FiguresOptions) -> Result<(), Failure> {
    let query = query(&options.query)?;
    let Opened { ready, faults } = opened(options.run.as_deref(), &options.query)?;
    ready.preparation.notes.iter().for_each(note);
    let run = &ready.run;
    let (mut analysis, drawn) = analyse_with_figures(run, &query, false)?;
    expect_sources(run, (&analysis.clock_maps, &analysis.unrelated), &query)?;
    let (faults, events) = (faults.also(std::mem::take(&mut analysis.refused)), run.events()?.found);
    let hertz = analysis.frequency.hertz;
    let (found, missing) = XLap::of(&drawn, hertz).figures();
    let folder = options.out.clone().unwrap_or_else(|| run.root().join("figures"));
    if !found.is_empty() {
        let why = |e| Failure::work(format!("cannot make {}: {e}. Name another folder with --out", folder.display()));
        fs::create_dir_all(&folder).map_err(why)?;
    }
    let mut files = Vec::new();
    for figure in &found {
        let pdf = figure.pdf().map_err(|why| Failure::work(format!("cannot write {} as PDF: {why}", figure.name)))?;
        for (kind, bytes) in [("svg", figure.svg().as_bytes()), ("pdf", &pdf)] {
            let place = folder.join(figure.name).with_extension(kind);
            write_whole(&place, bytes)?;
            files.push(place);
        }
        if !options.json {
            let place = folder.join(figure.name);
            line(format_args!("{}.svg, .pdf: {}", place.display(), figure.title))?;
        }
    }
    if options.json {
        let findings = analysis.every_finding(&events);
        let (files, missing, faults) = (&files[..], &missing[..], faults.json());
        print_json(&Report { version: 1, files, missing, jitter: &drawn.jitter, hertz, faults, findings })?;
    } else {
        missing.iter().for_each(note);
    }
    faults.verdict(analysis.standing(&events))
}
