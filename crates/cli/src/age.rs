//! `tickscope show --age A B`: how fresh what one point receives is of what another generates.

use serde::Serialize;
use tickscope_analysis::{Age, AgeQuery, AssumptionJson, FaultJson, Scan, age, analyse_scan};
use tickscope_show::AgeTable;
use tickscope_show::stage_table::{Shown, View, assumed};
use tickscope_tick::Place;

use crate::failure::Failure;
use crate::options::{KeyName, ShowOptions, When};
use crate::output::{self, note, print, print_json};
use crate::show::{self, Opened, expect_sources, opened};

/// Version of the JSON: within it keys are added, never removed or renamed.
const VERSION: u32 = 1;

/// What was found.
#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    hertz: u64,
    age: &'a Age,
    assumptions: Vec<AssumptionJson>,
    faults: Vec<FaultJson>,
    findings: Vec<String>,
}

/// What options ask of two points.
pub fn query(points: &[Place], limit_ns: Option<u64>, key: Option<KeyName>) -> Result<AgeQuery, Failure> {
    let [from, to] = points else {
        return Err(Failure::input("--age: expected two points, found others. Write --age NODE.POINT NODE.POINT"));
    };
    Ok(AgeQuery { from: from.clone(), to: to.clone(), key: key.map(Into::into), limit_ns })
}

/// Prints the ages between two points of a run. An update that was received before it was generated is a finding.
pub fn show(options: &ShowOptions, points: &[Place]) -> Result<(), Failure> {
    let asked = query(points, options.limit, options.key)?;
    let query = show::query(&options.query)?;
    let Opened { ready, faults } = opened(options.run.as_deref(), &options.query)?;
    ready.preparation.notes.iter().for_each(note);
    let (run, scan) = (&ready.run, Scan::of(&ready.run, &query)?);
    expect_sources(run, (scan.clock_maps(), scan.unrelated()), &query)?;
    let (found, hertz) = (age(&scan, &asked)?, scan.hertz());
    let (analysis, events) = (analyse_scan(run, &query, scan)?, run.events()?.found);
    let faults = faults.also(analysis.refused.clone());
    if options.json {
        let findings = found.findings.iter().cloned().chain(analysis.every_finding(&events)).collect();
        let assumptions = AssumptionJson::all(run.manifest(), &analysis);
        print_json(&Report { version: VERSION, hertz, age: &found, assumptions, faults: faults.json(), findings })?;
    } else {
        let scale = options.unit.map(Into::into);
        print(AgeTable { age: &found, hertz, scale }.text().as_bytes())?;
        let (channels, terminal) = (run.channels()?.found, output::terminal(When::Auto));
        let shown = Shown { run, analysis: &analysis, rivals: &[], events: &events, channels: &channels };
        let view = View { terminal, assumptions: options.assumptions, ..View::default() };
        print(assumed(&shown, &view).as_bytes())?;
    }
    let standing = analysis.standing(&events);
    faults.verdict(match found.findings.first() {
        Some(finding) => Err(Failure::finding(finding)),
        None => standing,
    })
}
