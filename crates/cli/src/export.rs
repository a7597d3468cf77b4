//! `tickscope export`: every duration of a run for another program.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde::Serialize;
use tickscope_analysis::{FaultJson, Outcome, Scan, analyse_counts};
use tickscope_export::{CSV, RowCounts, write};
use tickscope_store::WholeFile;
use tickscope_tick::{counted, printable};

use crate::failure::Failure;
use crate::options::ExportOptions;
use crate::output::{expect_folder, note, print_json};
use crate::show::{Opened, expect_sources, opened, query};

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
    faults: Vec<FaultJson>,
    findings: Vec<String>,
}

/// Writes the durations of a run, and ends as `show` does, once all is written.
pub fn export(options: &ExportOptions) -> Result<(), Failure> {
    let (file, format) = (options.csv.as_path(), &CSV);
    let to_stdout = file == Path::new("-");
    if to_stdout && options.json {
        return Err(Failure::input("--json and --csv - both print to standard output: give --csv a file"));
    }
    let query = query(&options.query)?;
    if !to_stdout {
        expect_folder(file, "--csv")?;
    }
    let Opened { ready, faults } = opened(options.run.as_deref(), &options.query)?;
    ready.preparation.notes.iter().for_each(note); // standard output may be the file
    let scan = Scan::of(&ready.run, &query)?;
    expect_sources(&ready.run, (scan.clock_maps(), scan.unrelated()), &query)?;
    let rows = if to_stdout {
        let mut out = Reader { out: io::stdout().lock(), gone: false };
        match write(&scan, BufWriter::new(&mut out), format, "standard output") {
            Err(_) if out.gone => return Ok(()),
            rows => rows?,
        }
    } else {
        let whole = WholeFile::begin(file)?;
        let rows = write(&scan, BufWriter::new(whole.file()), format, &file.display().to_string())?;
        whole.finish()?;
        rows
    };
    let analysis = analyse_counts(&ready.run, &query)?;
    let (faults, events) = (faults.also(analysis.refused.clone()), ready.run.events()?.found);
    let count = |outcome: Outcome| rows[outcome as usize];
    let report = Report {
        version: 1,
        file,
        rows: rows.iter().sum(),
        measured: count(Outcome::Measured),
        impossible: count(Outcome::Impossible),
        repeated: count(Outcome::Repeated),
        missing: count(Outcome::Missing),
        refused: count(Outcome::Refused),
        faults: faults.json(),
        findings: analysis.every_finding(&events),
    };
    match options.json {
        true => print_json(&report)?,
        false => print(file, &rows)?,
    }
    faults.verdict(match analysis.standing(&events) {
        Ok(()) if report.measured == 0 => {
            Err(Failure::work("expected a duration, found none: tickscope show says what is missing"))
        }
        standing => standing,
    })
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

fn print(file: &Path, rows: &RowCounts) -> Result<(), Failure> {
    let counts = Outcome::ALL.map(|outcome| format!("{} {}", rows[outcome as usize], outcome.name()));
    let (sum, file) = (rows.iter().sum::<u64>(), file.display().to_string());
    // On standard error, since standard output may be the file.
    writeln!(io::stderr(), "export: {} in {}: {}", counted(sum, "row"), printable(&file), counts.join(", "))
        .map_err(Failure::work)
}
