//! The duration cache: files derived from traces and clock maps, so that asking once more costs nothing.
//!
//! Idea: the footer holds a digest of all that they were derived from: the clocks in full, which evidence, breaks,
//! rho, widths of readings and the cores' term went into; what `run.json` says, but for what measuring cost; the
//! bytes of the traces. Files whose digest is today's are the answer; others are written again. Assumes: one process
//! at a time writes a run; two different runs do not meet in 128 bits by chance (the digest is no defence against
//! somebody who wants that). Guarantees: what is returned belongs to the evidence and the traces that are there now.
//! Deliberately absent: any change to the run but the files of durations.

use std::hash::Hash;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tickscope_bracket::Rho;
use tickscope_store::{Digest, KeyedReader, KeyedRows, KeyedWriter, Nullable, Run, rho_folder};
use tickscope_trace::StageDurations;

use crate::Query;
use crate::error::Error;
use crate::inputs::{Inputs, traces_of};
use crate::scan::{self, Part, Piece, Sink};

/// Folder of the durations of all traces under `rho`, the run's own where it is `None`: as cached in the run, else
/// computed into it, or into `aside` where the run cannot be written.
pub fn durations(run: &Run, rho: Option<Rho>, aside: &Path) -> Result<PathBuf, Error> {
    let inputs = Inputs::of(run, &Query::under(rho), None)?;
    let readers = traces_of(run, &inputs.layout)?;
    let table = Table::of(run, &inputs, &readers)?;
    let ppb = inputs.rho.ppb().into();
    let places = [run.derived().durations(ppb), rho_folder(aside, ppb)];
    for folder in &places {
        if table.is_in(folder) {
            return Ok(folder.clone());
        }
    }
    let [inside, outside] = places;
    let (folder, mut writer) = match table.begin(&inside) {
        Ok(writer) => (inside, writer),
        Err(_) => (outside.clone(), table.begin(&outside)?), // the run is on a medium that cannot be written, or not ours
    };
    let mut rows = DurationRows::to(&mut writer);
    scan::over(&inputs, &readers, scan::processors(), &mut rows)?;
    rows.failed.map_or(Ok(()), Err)?;
    writer.finish()?;
    Ok(folder)
}

/// Columns of a file of durations, and the inputs it was derived from.
pub(crate) struct Table {
    names: Vec<String>,
    keys: [(&'static str, String); 6],
}

/// The one file in a folder of durations.
const FILE: &str = "part-00000000.parquet";

impl Table {
    pub(crate) fn of(run: &Run, inputs: &Inputs, traces: &[KeyedReader]) -> Result<Self, Error> {
        let derived_from = digest(run, inputs, traces)?;
        let Inputs { layout, rho, clock_maps, auxiliary_clocks, .. } = inputs;
        let names =
            layout.stages().iter().flat_map(|stage| ["", ".lo", ".hi"].map(|end| format!("{}{end}", stage.name)));
        let slopes = clock_maps.iter().map(|clock_map| {
            let (slowest, fastest) = clock_map.slopes;
            json!({"domain": clock_map.domain, "slowest": slowest, "fastest": fastest, "brackets": clock_map.brackets})
        });
        let stages = layout.stages().iter().map(|stage| {
            let name = |point: usize| layout.points()[point].place.to_string();
            json!({"stage": stage.name, "from": name(stage.from), "to": name(stage.to)})
        });
        let auxiliary_clocks = auxiliary_clocks.iter().map(|clock| {
            json!({"domain": clock.domain, "slew": clock.slew.key(), "brackets": clock.brackets, "breaks": clock.breaks.len()})
        });
        let traces = traces.iter().map(|reader| json!([reader.file_name(), reader.rows(), reader.bytes()]));
        Ok(Self {
            names: names.collect(),
            keys: [
                ("tickscope.model", format!("drift; rho {}; anchor: middle of the evidence", rho.key())),
                ("tickscope.stages", Value::from_iter(stages).to_string()),
                ("tickscope.cones", Value::from_iter(slopes).to_string()),
                ("tickscope.auxiliary_clocks", Value::from_iter(auxiliary_clocks).to_string()),
                ("tickscope.traces", Value::from_iter(traces).to_string()),
                ("tickscope.derived_from", format!("{derived_from:032x}")),
            ],
        })
    }

    pub(crate) fn begin(&self, folder: &Path) -> Result<KeyedWriter, tickscope_store::Error> {
        KeyedWriter::begin(&folder.join(FILE), &self.names, &self.keys)
    }

    fn is_in(&self, folder: &Path) -> bool {
        let Ok(cached) = KeyedReader::open(&folder.join(FILE)) else { return false };
        cached.names() == self.names && self.keys.iter().all(|(key, value)| cached.key(key) == Some(value))
    }
}

/// Writes the durations of all traces, in their order. A failure ends that and no scan: whoever asked for figures gets
/// them.
pub(crate) struct DurationRows<'a> {
    writer: &'a mut KeyedWriter,
    /// Why no more were written.
    pub failed: Option<tickscope_store::Error>,
}

impl<'a> DurationRows<'a> {
    pub fn to(writer: &'a mut KeyedWriter) -> Self {
        Self { writer, failed: None }
    }
}

/// Rows of one row group.
pub(crate) struct GroupRows(KeyedRows);

impl Sink for DurationRows<'_> {
    type Part = GroupRows;

    fn part(&self) -> GroupRows {
        GroupRows(KeyedRows::default())
    }

    fn merge(&mut self, part: GroupRows) -> Result<(), Error> {
        if self.failed.is_none() {
            self.failed = self.writer.write(part.0).err();
        }
        Ok(())
    }
}

impl Part for GroupRows {
    fn add(&mut self, &Piece { traces, durations, .. }: &Piece<'_>) -> Result<(), Error> {
        let rows = &mut self.0;
        rows.kind.extend_from_slice(traces.kinds());
        rows.id.extend_from_slice(traces.ids());
        rows.occurrence.extend_from_slice(traces.occurrences());
        rows.columns.resize_with(3 * durations.stages().len(), Nullable::default);
        let values = durations.stages().iter().flat_map(StageDurations::columns);
        for (column, values) in rows.columns.iter_mut().zip(values) {
            (0..values.len()).for_each(|row| column.push(values.get(row)));
        }
        Ok(())
    }
}

/// Digest of everything that durations depend on. Another digest of the same things, as another build of tickscope may
/// have it, costs no more than deriving once.
fn digest(run: &Run, inputs: &Inputs, traces: &[KeyedReader]) -> Result<u128, Error> {
    let mut digest = Digest::default();
    env!("CARGO_PKG_VERSION").hash(&mut digest);
    inputs.clocks.hash(&mut digest);
    let mut manifest = serde_json::to_value(run.manifest()).map_err(Error::work)?;
    for result in ["cost", "ended_unix_ms"] {
        manifest.as_object_mut().map(|fields| fields.remove(result));
    }
    manifest.to_string().hash(&mut digest);
    for reader in traces {
        reader.file_name().hash(&mut digest);
        digest.read(reader.path()).map_err(|e| {
            Error::work(format!("cannot read the traces {}: {e}. Join the run again", reader.path().display()))
        })?;
    }
    Ok(digest.finish_128())
}
