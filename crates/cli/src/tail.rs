//! `tickscope tail`: which stages make the slow traces slow.

use serde::Serialize;
use tickscope_analysis::{FaultJson, Neighbour, Query, StageNoise, Tail, analyse_with_figures, noise_of_slow};
use tickscope_show::{SlowTraces, noise_of_slow_text};

use crate::failure::Failure;
use crate::options::TailOptions;
use crate::output::{note, print, print_json};
use crate::show::{Opened, expect_sources, opened, query};

/// What was found. Within a version keys are added, never removed or renamed.
#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    tail: &'a Tail,
    disturbed: Vec<Disturbed<'a>>,
    hertz: u64,
    faults: Vec<FaultJson>,
    findings: Vec<String>,
}

/// What disturbed a stage of the slow traces.
#[derive(Serialize)]
struct Disturbed<'a> {
    stage: &'a str,
    undisturbed: u64,
    disturbed: u64,
    unknown: u64,
    neighbours: &'a [Neighbour],
}

impl<'a> Disturbed<'a> {
    fn of(StageNoise { name, undisturbed, disturbed, unknown, neighbours, .. }: &'a StageNoise) -> Self {
        let [undisturbed, disturbed, unknown] = [*undisturbed, *disturbed, *unknown];
        Self { stage: name, undisturbed, disturbed, unknown, neighbours }
    }
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
    let slow = match figures.tail.threshold_ticks {
        Some(threshold) if !analysis.noise.is_empty() => noise_of_slow(run, &query, threshold)?,
        _ => Vec::new(),
    };
    if options.json {
        let disturbed = slow.iter().map(Disturbed::of).collect();
        let (tail, hertz, findings) = (&figures.tail, analysis.frequency.hertz, analysis.every_finding(&events));
        print_json(&Report { version: 1, tail, disturbed, hertz, faults: faults.json(), findings })?;
    } else {
        print(SlowTraces::of(&analysis, &figures.tail).text().as_bytes())?;
        print(noise_of_slow_text(&analysis, &figures.tail, &slow).as_bytes())?;
    }
    faults.verdict(analysis.standing(&events))
}
