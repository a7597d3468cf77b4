//! `tickscope export`: every duration of a run for another program.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde::Serialize;
use tickscope_analysis::{
    Analysis, FaultJson, Outcome, RunTimes, Scan, TimeOfDay, analyse, analyse_counts, time_of_day,
};
use tickscope_export::{
    About, CSV, Exported, LeftOut, PerfettoCounts, RowCounts, Sample, write, write_arrow, write_ctf, write_folded,
    write_hdr, write_openmetrics, write_otlp, write_perfetto,
};
use tickscope_store::{Run, WholeFile, WholeFolder};
use tickscope_tick::{counted, printable};

use crate::failure::Failure;
use crate::options::{ExportFormat, ExportOptions};
use crate::output::{expect_folder, note, print_json};
use crate::show::{Opened, expect_sources, opened, query};

/// What is exported: a scan of a run's traces, what its table says, and what its file says of it.
struct Source<'a> {
    run: &'a Run,
    scan: &'a Scan,
    analysis: &'a Analysis,
    about: &'a About,
    one_in: u64,
    time_of_day: Option<TimeOfDay>,
}

/// What was written of a run's durations.
struct Counts {
    outcomes: RowCounts,
    perfetto: Option<PerfettoCounts>,
    exported: Option<Exported>,
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
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    exported: Option<ExportedJson<'a>>,
    faults: Vec<FaultJson>,
    findings: Vec<String>,
}

/// What other formats leave out.
#[derive(Serialize)]
struct ExportedJson<'a> {
    left_out: Vec<LeftOutJson<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct LeftOutJson<'a> {
    stage: &'a str,
    count: u64,
    why: &'a str,
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

/// Says where stamps lie beyond all readings of the clock that a format's times are of.
fn warn_of_time_of_day(run: &Run, analysis: &Analysis, format: ExportFormat) -> Result<(), Failure> {
    let is_of_day = matches!(format, ExportFormat::Otlp | ExportFormat::Ctf);
    if is_of_day && RunTimes::of(run, analysis)?.is_some_and(|times| !times.between_readings) {
        note(
            "warning: stamps of the reference lie beyond the readings of CLOCK_REALTIME, where nothing bounds it: \
             their time of day may be further off than the file says",
        );
    }
    Ok(())
}

/// Writes the durations of a run, and ends as `show` does, once all is written.
pub fn export(options: &ExportOptions) -> Result<(), Failure> {
    let chosen = options.chosen();
    let (option, file, format) =
        chosen.ok_or_else(|| Failure::input("name a format and its file, such as --csv run.csv"))?;
    let to_stdout = file == Path::new("-");
    if format == ExportFormat::Ctf && (to_stdout || file.exists()) {
        return Err(Failure::input(format!(
            "--ctf: expected a folder where nothing is, found {}. Name another",
            if to_stdout { "-".into() } else { file.display().to_string() }
        )));
    }
    if options.one_in.is_some() && format != ExportFormat::Otlp {
        return Err(Failure::input(
            "--one-in: expected --otlp, which alone takes a sample of the traces. Leave it out",
        ));
    }
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
    let analysis = match format {
        ExportFormat::OpenMetrics | ExportFormat::Otlp => analyse(&ready.run, &query, false)?,
        _ => analyse_counts(&ready.run, &query)?,
    };
    let source = Source {
        run: &ready.run,
        scan: &scan,
        analysis: &analysis,
        about: &About::of(&ready.run, &analysis)?,
        one_in: options.one_in.unwrap_or(1),
        time_of_day: time_of_day(&ready.run)?,
    };
    warn_of_time_of_day(&ready.run, &analysis, format)?;
    let Some(counts) = source.written(file, format)? else { return Ok(()) };
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
        exported: counts.exported.as_ref().map(ExportedJson::of),
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

impl Source<'_> {
    /// Writes the file, whole or not at all, or standard output; `None`: its reader had seen enough.
    fn written(&self, file: &Path, format: ExportFormat) -> Result<Option<Counts>, Failure> {
        if format == ExportFormat::Ctf {
            return self.write_folder(file).map(Some);
        }
        if file == Path::new("-") {
            let mut out = Reader { out: io::stdout().lock(), gone: false };
            return match self.write(format, BufWriter::new(&mut out), "standard output") {
                Err(_) if out.gone => Ok(None),
                counts => Ok(Some(counts?)),
            };
        }
        let whole = WholeFile::begin(file)?;
        let counts = self.write(format, BufWriter::new(whole.file()), &file.display().to_string())?;
        whole.finish()?;
        Ok(Some(counts))
    }

    fn write_folder(&self, place: &Path) -> Result<Counts, Failure> {
        let folder = WholeFolder::begin(place)?;
        let exported = write_ctf(self.run, self.scan, self.about, self.time_of_day, folder.path())?;
        folder.finish()?;
        Ok(Counts::of(exported))
    }

    fn write(&self, format: ExportFormat, out: impl Write, place: &str) -> Result<Counts, Failure> {
        let Self { scan, analysis, about, one_in, time_of_day, .. } = *self;
        let exported = match format {
            ExportFormat::Csv => {
                return Ok(Counts { outcomes: write(scan, out, &CSV, place)?, perfetto: None, exported: None });
            }
            ExportFormat::Ctf => return self.write_folder(Path::new(place)),
            ExportFormat::Perfetto => return Ok(Counts::drawn(write_perfetto(scan, out, place)?)),
            ExportFormat::Folded => write_folded(scan, out, place)?,
            ExportFormat::Arrow => write_arrow(scan, about, out, place)?,
            ExportFormat::Hdr => write_hdr(scan, about, out, place)?,
            ExportFormat::OpenMetrics => write_openmetrics(scan, analysis, about, out, place)?,
            ExportFormat::Otlp => write_otlp(scan, about, &Sample::new(one_in, analysis), time_of_day, out, place)?,
        };
        Ok(Counts::of(exported))
    }
}

impl Counts {
    fn of(exported: Exported) -> Self {
        Self { outcomes: exported.outcomes, perfetto: None, exported: Some(exported) }
    }

    fn drawn(counts: PerfettoCounts) -> Self {
        let mut outcomes = RowCounts::default();
        let all = counts.stages.iter().flat_map(|stage| stage.outcomes.iter().enumerate());
        all.for_each(|(outcome, count)| outcomes[outcome] += count);
        Self { outcomes, perfetto: Some(counts), exported: None }
    }

    /// What the file holds and what not, a line each.
    fn lines(&self) -> Vec<String> {
        let drawn = self.perfetto.iter().flat_map(PerfettoCounts::lines);
        drawn.chain(self.exported.iter().flat_map(Exported::lines)).collect()
    }
}

impl<'a> ExportedJson<'a> {
    fn of(exported: &'a Exported) -> Self {
        let json = |LeftOut { stage, count, why }: &'a LeftOut| LeftOutJson { stage, count: *count, why };
        Self { left_out: exported.left_out.iter().map(json).collect(), notes: &exported.notes }
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
    let mut lines = std::iter::once(rows).chain(counts.lines());
    // On standard error, since standard output may be the file.
    lines.try_for_each(|line| writeln!(io::stderr(), "export: {line}")).map_err(Failure::work)
}
