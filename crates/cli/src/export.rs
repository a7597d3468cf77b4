//! `tickscope export`: every duration of a run for another program.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde::Serialize;
use tickscope_analysis::{FaultJson, Outcome, Scan, analyse_counts};
use tickscope_export::{CSV, PerfettoCounts, RowCounts, write, write_perfetto};
use tickscope_store::WholeFile;
use tickscope_tick::{counted, printable};

use crate::failure::Failure;
use crate::options::ExportOptions;
use crate::output::{expect_folder, note, print_json};
use crate::show::{Opened, expect_sources, opened, query};

/// What the file is to be.
#[derive(Clone, Copy)]
enum Written {
    Csv,
    Perfetto,
}

/// What was written of a run's durations.
struct Counts {
    outcomes: RowCounts,
    perfetto: Option<PerfettoCounts>,
}

/// Report of what was written. Within a version keys are added, never removed or renamed.
#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    file: &'a Path,
    rows: u64,
    measured: u64,
    impossible: u64,
    repeated: u64,
    missing: u64,
    refused: u64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    perfetto: Option<PerfettoJson<'a>>,
    faults: Vec<FaultJson>,
    findings: Vec<String>,
}

/// What a trace for Perfetto holds besides.
#[derive(Serialize)]
struct PerfettoJson<'a> {
    tracks: u64,
    flows: u64,
    flows_left_out: u64,
    shifted_ns: u64,
    stages: Vec<StageJson<'a>>,
}

#[derive(Serialize)]
struct StageJson<'a> {
    name: &'a str,
    slices: u64,
    negative: u64,
    unplaced: u64,
    repeated: u64,
    missing: u64,
    refused: u64,
}

/// Writes the durations of a run, and ends as `show` does, once all is written.
pub fn export(options: &ExportOptions) -> Result<(), Failure> {
    let (option, file, format) = match (&options.csv, &options.perfetto) {
        (Some(file), _) => ("--csv", file.as_path(), Written::Csv),
        (None, Some(file)) => ("--perfetto", file.as_path(), Written::Perfetto),
        (None, None) => return Err(Failure::input("name a format and its file, such as --csv run.csv")),
    };
    let to_stdout = file == Path::new("-");
    if to_stdout && options.json {
        let both = format!("--json and {option} - both print to standard output: give {option} a file");
        return Err(Failure::input(both));
    }
    let query = query(&options.query)?;
    if !to_stdout {
        expect_folder(file, option)?;
    }
    let Opened { ready, faults } = opened(options.run.as_deref(), &options.query)?;
    ready.preparation.notes.iter().for_each(note); // standard output may be the file
    let scan = Scan::of(&ready.run, &query)?;
    expect_sources(&ready.run, (scan.clock_maps(), scan.unrelated()), &query)?;
    let Some(counts) = written(&scan, file, format)? else { return Ok(()) };
    let analysis = analyse_counts(&ready.run, &query)?;
    let (faults, events) = (faults.also(analysis.refused.clone()), ready.run.events()?.found);
    let count = |outcome: Outcome| counts.outcomes[outcome as usize];
    let report = Report {
        version: 1,
        file,
        rows: counts.outcomes.iter().sum(),
        measured: count(Outcome::Measured),
        impossible: count(Outcome::Impossible),
        repeated: count(Outcome::Repeated),
        missing: count(Outcome::Missing),
        refused: count(Outcome::Refused),
        perfetto: counts.perfetto.as_ref().map(PerfettoJson::of),
        faults: faults.json(),
        findings: analysis.every_finding(&events),
    };
    match options.json {
        true => print_json(&report)?,
        false => print(file, &counts)?,
    }
    faults.verdict(match analysis.standing(&events) {
        Ok(()) if report.measured == 0 => {
            Err(Failure::work("expected a duration, found none: tickscope show says what is missing"))
        }
        standing => standing,
    })
}

/// Writes the file, whole or not at all, or standard output; `None`: its reader had seen enough.
fn written(scan: &Scan, file: &Path, format: Written) -> Result<Option<Counts>, Failure> {
    if file == Path::new("-") {
        let mut out = Reader { out: io::stdout().lock(), gone: false };
        return match format.write(scan, BufWriter::new(&mut out), "standard output") {
            Err(_) if out.gone => Ok(None),
            counts => Ok(Some(counts?)),
        };
    }
    let whole = WholeFile::begin(file)?;
    let counts = format.write(scan, BufWriter::new(whole.file()), &file.display().to_string())?;
    whole.finish()?;
    Ok(Some(counts))
}

impl Written {
    fn write(self, scan: &Scan, out: impl Write, place: &str) -> Result<Counts, Failure> {
        match self {
            Self::Csv => Ok(Counts { outcomes: write(scan, out, &CSV, place)?, perfetto: None }),
            Self::Perfetto => {
                let counts = write_perfetto(scan, out, place)?;
                let mut outcomes = RowCounts::default();
                let all = counts.stages.iter().flat_map(|stage| stage.outcomes.iter().enumerate());
                all.for_each(|(outcome, count)| outcomes[outcome] += count);
                Ok(Counts { outcomes, perfetto: Some(counts) })
            }
        }
    }
}

impl<'a> PerfettoJson<'a> {
    fn of(counts: &'a PerfettoCounts) -> Self {
        let PerfettoCounts { tracks, flows, flows_left_out, shifted_ns, .. } = *counts;
        let stages = counts.stages.iter().map(|stage| StageJson {
            name: &stage.name,
            slices: stage.slices,
            negative: stage.negative,
            unplaced: stage.unplaced,
            repeated: stage.outcomes[Outcome::Repeated as usize],
            missing: stage.outcomes[Outcome::Missing as usize],
            refused: stage.outcomes[Outcome::Refused as usize],
        });
        Self { tracks, flows, flows_left_out, shifted_ns, stages: stages.collect() }
    }
}

/// Standard output, whose reader may have seen enough: that is no error.
struct Reader<W> {
    out: W,
    gone: bool,
}

impl<W: Write> Write for Reader<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        self.gone |= written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn print(file: &Path, counts: &Counts) -> Result<(), Failure> {
    let outcomes = Outcome::ALL.map(|outcome| format!("{} {}", counts.outcomes[outcome as usize], outcome.name()));
    let (sum, file) = (counts.outcomes.iter().sum::<u64>(), file.display().to_string());
    let rows = format!("{} in {}: {}", counted(sum, "row"), printable(&file), outcomes.join(", "));
    let mut lines = std::iter::once(rows).chain(counts.perfetto.iter().flat_map(PerfettoCounts::lines));
    // On standard error, since standard output may be the file.
    lines.try_for_each(|line| writeln!(io::stderr(), "export: {line}")).map_err(Failure::work)
}
