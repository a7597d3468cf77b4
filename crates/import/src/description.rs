//! The mapping: a description in TOML of any tables, also of Cloudprofiler's logs, a file a point.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tickscope_store::LayoutText;
use tickscope_tick::{Clock, NodeName, Ordering, PointName};

use crate::cells::Separator;
use crate::error::Error;
use crate::form::{MOST_TOLERANCE_PPM, Plan, ReadClock, Table, Times, Unit, Zero, misnamed, shortened, shortened_to};
use crate::records::Form;

/// Letters of what the reader of TOML says.
const MOST_TOLD: usize = 300;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mapping {
    file: Vec<FileText>,
    #[serde(default)]
    layout: LayoutText,
}

/// One `[[file]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    path: PathBuf,
    node: String,
    #[serde(default)]
    format: Format,
    #[serde(default)]
    clock: Option<String>,
    #[serde(default)]
    unit: Option<Unit>,
    #[serde(default)]
    hertz: Option<u64>,
    #[serde(default)]
    tolerance_ppm: Option<u32>,
    #[serde(default)]
    separator: Option<Separator>,
    #[serde(default)]
    columns: Option<Vec<String>>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    value: Option<String>,
    #[serde(default)]
    time: Option<String>,
    #[serde(default)]
    point: Option<String>,
    #[serde(default)]
    point_column: Option<String>,
    #[serde(default)]
    points: BTreeMap<String, String>,
    #[serde(default)]
    zero: Zero,
    #[serde(default)]
    ordering: Option<String>,
    #[serde(default)]
    service: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    /// A table with a line of names.
    #[default]
    Csv,
    /// A log of Cloudprofiler's identity handlers: a tick of the time-stamp counter and the id of a tuple in each line.
    Cloudprofiler,
    /// What `perf script` prints.
    Perf,
    /// What the kernel's tracer prints, and trace-cmd's report.
    Ftrace,
    /// Packets, as tcpdump writes them.
    Pcap,
    /// Spans of OpenTelemetry, as protobuf.
    Otlp,
    /// A table of Parquet.
    Parquet,
    /// A table of Arrow's IPC, file or stream.
    Arrow,
}

/// Reads a mapping; paths in it start at `folder`.
pub(crate) fn plan(text: &str, folder: &Path, place: &Path) -> Result<Plan, Error> {
    let wrong = |why: String| Error::input(place.display(), why);
    let mapping: Mapping = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
        wrong(format!("line {line}: {}. Correct it", shortened_to(error.message(), MOST_TOLD)))
    })?;
    if mapping.file.is_empty() {
        return Err(wrong("expected a [[file]], found none. Name one".into()));
    }
    let tables = (1..)
        .zip(mapping.file)
        .map(|(number, file)| file.table(folder).map_err(|why| wrong(format!("[[file]] {number}: {why}"))));
    let tables = tables.collect::<Result<Vec<_>, _>>()?;
    expect_one_clock_each(&tables).map_err(wrong)?;
    if !mapping.layout.is_empty() {
        mapping.layout.parse(None).map_err(|why| wrong(format!("[layout]: {why}")))?;
    }
    Ok(Plan { from: "tables".into(), tables, layout: mapping.layout, assumptions: Vec::new(), notes: Vec::new() })
}

/// A node has one clock, whichever of its files it stands in.
fn expect_one_clock_each(tables: &[Table]) -> Result<(), String> {
    for (number, table) in tables.iter().enumerate() {
        if let Some(other) =
            tables[..number].iter().find(|other| other.node == table.node && other.clock != table.clock)
        {
            return Err(format!(
                "expected one clock of the node {}, found {} and {}, of another kind or rate. Give each clock a node \
                 of its own: nothing in these files relates them",
                table.node, other.clock.clock, table.clock.clock
            ));
        }
    }
    Ok(())
}

impl Format {
    fn form(self, separator: Option<Separator>) -> Form {
        match self {
            Self::Csv => Form::Cells(separator.unwrap_or_default()),
            Self::Cloudprofiler => Form::Cells(separator.unwrap_or(Separator::Blanks)),
            Self::Perf | Self::Ftrace => Form::Events,
            Self::Pcap => Form::Packets,
            Self::Otlp => Form::Spans,
            Self::Parquet => Form::Parquet,
            Self::Arrow => Form::Arrow,
        }
    }
}

impl FileText {
    fn table(self, folder: &Path) -> Result<Table, String> {
        let is_log = self.format == Format::Cloudprofiler;
        let clock = self.clock(is_log)?;
        let times = self.times(is_log)?;
        let of_log = |name: &str| is_log.then(|| name.to_owned());
        let id = self
            .id
            .or_else(|| of_log("id"))
            .ok_or("expected the name of the column of ids, found none. Add id = \"NAME\"")?;
        let ordering = self.ordering.as_deref().unwrap_or("plain");
        let known = Ordering::ALL.into_iter().find(|known| known.name() == ordering);
        let table = Table {
            file: folder.join(self.path),
            node: NodeName::new(self.node).map_err(misnamed)?,
            clock,
            form: self.format.form(self.separator),
            service: self.service,
            columns: self.columns.or_else(|| is_log.then(|| ["tick", "id"].map(String::from).to_vec())),
            id,
            kind: self.kind,
            value: self.value,
            times,
            zero: self.zero,
            ordering: known.ok_or_else(|| {
                format!("expected an ordering (plain, before, after), found '{}'. Correct it", shortened(ordering))
            })?,
        };
        table.form.check(&table)?;
        Ok(table)
    }

    fn clock(&self, is_log: bool) -> Result<ReadClock, String> {
        let name = self.clock.as_deref().or(is_log.then_some("tsc"));
        let known = Clock::ALL.map(|(_, name, _)| name).join(", ");
        let name =
            name.ok_or_else(|| format!("expected the clock that was read, found none. Add clock = one of {known}"))?;
        let clock = Clock::ALL.into_iter().find(|(_, known, _)| *known == name).map(|(clock, ..)| clock);
        let clock =
            clock.ok_or_else(|| format!("expected a clock of {known}, found '{}'. Correct it", shortened(name)))?;
        let is_counter = matches!(clock, Clock::Tsc | Clock::Cntvct);
        let unit = self.unit.unwrap_or(if is_counter { Unit::Ticks } else { Unit::Ns });
        let hertz = match (unit, is_counter, self.hertz) {
            (Unit::Ticks, true, Some(hertz)) => hertz,
            (Unit::Ticks, true, None) => {
                return Err(format!("expected how fast {name} ran, found nothing. Add hertz = its ticks a second"));
            }
            (Unit::Ticks, false, _) => return Err(format!("expected a unit of time for {name}, found ticks. Use ns")),
            (_, true, _) => {
                return Err(format!("expected {name} in ticks, found a unit of time. Name the clock that was read"));
            }
            (_, false, Some(_)) => return Err("expected hertz for clocks in ticks alone. Leave it out".into()),
            (_, false, None) => 1_000_000_000,
        };
        let believed = 1_000..=100_000_000_000;
        if !believed.contains(&hertz) {
            return Err(format!("expected a clock of 1 kHz to 100 GHz, found {hertz} Hz. Correct hertz"));
        }
        let tolerance_ppm = self.tolerance_ppm.unwrap_or(tickscope_tick::Frequency::DEFAULT_TOLERANCE_PPM);
        if tolerance_ppm > MOST_TOLERANCE_PPM {
            return Err(format!(
                "expected a tolerance_ppm of at most {MOST_TOLERANCE_PPM}, found {tolerance_ppm}. Correct it"
            ));
        }
        Ok(ReadClock { clock, unit, hertz, tolerance_ppm, origin: "declared by the mapping".into() })
    }

    fn times(&self, is_log: bool) -> Result<Times, String> {
        let time = self.time.clone().or_else(|| is_log.then(|| "tick".into()));
        let point = |name: &str| PointName::new(name).map_err(misnamed);
        match (&self.point, &self.point_column, self.points.is_empty(), time) {
            (Some(name), None, true, Some(time)) => Ok(Times::Of(point(name)?, time)),
            (None, Some(column), true, Some(time)) => Ok(Times::Named { point: column.clone(), time }),
            (None, None, false, None) => {
                let each = self.points.iter().map(|(name, column)| Ok((point(name)?, column.clone())));
                each.collect::<Result<_, String>>().map(Times::Each)
            }
            _ => Err("expected one of: point and time; point_column and time; points, a table of columns by point. \
                      Name where the times stand"
                .into()),
        }
    }
}
