//! `tickscope figures`: a run's jitter as X-Lap draws it, a file a figure; of a sweep its one figure.

use std::path::{Path, PathBuf};

use serde::Serialize;
use tickscope_analysis::figures::{Figures, Kinds, StageHistogram, Traffic, Transfer};
use tickscope_analysis::{FaultJson, Jitter, Query, ScatterMatrix, Total, Totals, TotalsJson, totals};
use tickscope_rivals::draw_and_compare;
use tickscope_show::{DrawnFigure, XLap, clock_figures};
use tickscope_store::{Run, SweepManifest, make_folders, write_whole};
use tickscope_tick::{Unit, counted};
use tickscope_trace::QuantileBounds;

use crate::failure::Failure;
use crate::options::FiguresOptions;
use crate::output::{line, note, print_json};
use crate::show::{Opened, expect_sources, only_related, opened, query};
use crate::{chosen_run, relate, sweep};

/// What was drawn. Within a version keys are added, never removed or renamed.
#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    files: &'a [PathBuf],
    missing: &'a [String],
    jitter: &'a Jitter,
    histograms: &'a [StageHistogram],
    scatter_matrix: &'a ScatterMatrix,
    transfers: &'a [Transfer],
    traffic: &'a Traffic,
    kinds: &'a Kinds,
    totals: Option<TotalsJson<'a>>,
    hertz: u64,
    faults: Vec<FaultJson>,
    findings: Vec<String>,
}

/// What was drawn of a run that has nothing but its machines' clocks.
#[derive(Serialize)]
struct OfClocks<'a> {
    version: u32,
    files: &'a [PathBuf],
    missing: &'a [String],
}

/// Writes the figures of a run, and ends as `show` does, once all are written.
pub fn figures(options: &FiguresOptions) -> Result<(), Failure> {
    if let Some(root) = options.run.as_deref().filter(|root| SweepManifest::is_at(root)) {
        return sweep::figures(options, root);
    }
    let query = query(&options.query)?;
    let related = chosen_run::open(options.run.as_deref())?;
    if only_related(&related, &options.query)? {
        return of_clocks(options, &related, &query);
    }
    let Opened { ready, faults } = opened(options.run.as_deref(), &options.query)?;
    ready.preparation.notes.iter().for_each(note);
    let run = &ready.run;
    let mut found = None;
    let (mut analysis, drawn, rivals) = draw_and_compare(run, &query, |scan| {
        found = totals(run, scan)?;
        Ok(())
    })?;
    let totals = found;
    expect_sources(run, (&analysis.clock_maps, &analysis.unrelated), &query)?;
    let (faults, events) = (faults.also(std::mem::take(&mut analysis.refused)), run.events()?.found);
    let hertz = analysis.frequency.hertz;
    let (found, missing) = XLap::of(&drawn, hertz).figures(&rivals);
    let folder = options.out.clone().unwrap_or_else(|| run.root().join("figures"));
    let files = written(&found, &folder, options.json)?;
    if options.json {
        let findings = analysis.every_finding(&events);
        let (files, missing, faults) = (&files[..], &missing[..], faults.json());
        let totals = totals.as_ref().map(|totals| totals.json(hertz));
        let Figures { jitter, histograms, scatter_matrix, transfers, traffic, kinds, .. } = &drawn;
        print_json(&Report {
            version: 1,
            files,
            missing,
            jitter,
            histograms,
            scatter_matrix,
            transfers,
            traffic,
            kinds,
            totals,
            hertz,
            faults,
            findings,
        })?;
    } else {
        totals.iter().flat_map(|totals| total_lines(totals, hertz)).try_for_each(line)?;
        missing.iter().for_each(note);
    }
    faults.verdict(analysis.standing(&events))
}

/// Writes the figures of a run that has nothing but its machines' clocks.
fn of_clocks(options: &FiguresOptions, run: &Run, query: &Query) -> Result<(), Failure> {
    relate::drawn(run, query, |relations| {
        let (found, missing) = clock_figures(&relations.rivals);
        let folder = options.out.clone().unwrap_or_else(|| run.root().join("figures"));
        let files = written(&found, &folder, options.json)?;
        match options.json {
            true => print_json(&OfClocks { version: 1, files: &files, missing: &missing })?,
            false => missing.iter().for_each(note),
        }
        Ok(())
    })
}

/// Writes figures into a folder, each as SVG and as PDF, and says so.
pub fn written(figures: &[DrawnFigure], folder: &Path, quiet: bool) -> Result<Vec<PathBuf>, Failure> {
    if !figures.is_empty() {
        make_folders(folder).map_err(|e| Failure::work(format!("{e}. Name another folder with --out")))?;
    }
    let mut files = Vec::new();
    for figure in figures {
        let pdf = figure.pdf().map_err(|why| Failure::work(format!("cannot write {} as PDF: {why}", figure.name)))?;
        for (kind, bytes) in [("svg", figure.svg().as_bytes()), ("pdf", &pdf)] {
            let place = folder.join(figure.name).with_extension(kind);
            write_whole(&place, bytes)?;
            files.push(place);
        }
        if !quiet {
            let place = folder.join(figure.name);
            line(format_args!("{}.svg, .pdf: {}", place.display(), figure.title))?;
        }
    }
    Ok(files)
}

/// X-Lap's totals and ours, a line each.
fn total_lines(totals: &Totals, hertz: u64) -> Vec<String> {
    let longest = totals.all.iter().filter_map(|total| Some(total.p99?.estimate)).max();
    let unit = Unit::for_durations_up_to(hertz, longest.unwrap_or(0));
    let figure = |bounds: Option<QuantileBounds>| {
        bounds.map_or("not known".into(), |QuantileBounds { estimate, lo, hi }| {
            format!("{} [{}, {}]", unit.near(estimate), unit.down(lo), unit.up(hi))
        })
    };
    let line = |Total { name, of, p50, p99, .. }: &Total| {
        format!("{name} ({of}): p50 {} {}, p99 {}", figure(*p50), unit.name(), figure(*p99))
    };
    let left_out = match totals.left_out {
        0 => String::new(),
        some => format!("; {some} more lack a point"),
    };
    let head = format!("X-Lap's totals of {}{left_out}", counted(totals.traces, "trace"));
    std::iter::once(head).chain(totals.all.iter().map(line)).collect()
}
