//! Durations as files: derived from traces and relations, and kept so that asking once more costs nothing.
//!
//! Idea: the footer says what they were derived from. Files that say what would be derived now are the answer; others are
//! written again. Assumes: traces are immutable, so that file name, rows and size name them; one process at a time writes a
//! run. Guarantees: what is returned belongs to the evidence and the traces that are there now. Deliberately absent: any
//! change to the run but the files of durations.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tickscope_bracket::Rho;
use tickscope_store::{KeyedReader, KeyedWriter, Run, rho_folder};

use crate::Terms;
use crate::analysis::{Prepared, traces_of};
use crate::error::Error;
use crate::pass::{self, Wanted};

/// Folder of the durations of all traces under `rho`, the run's own where it is `None`: as kept in the run, else computed
/// into it, or into `aside` where the run cannot be written.
pub fn durations(run: &Run, rho: Option<Rho>, aside: &Path) -> Result<PathBuf, Error> {
    let prepared = Prepared::of(run, &Terms::under(rho), None)?;
    let readers = traces_of(run, &prepared.layout)?;
    let table = Table::of(&prepared, &readers);
    let ppb = prepared.rho.ppb().into();
    let places = [run.places().durations(ppb), rho_folder(aside, ppb)];
    for folder in &places {
        if table.is_kept_in(folder) {
            return Ok(folder.clone());
        }
    }
    let [inside, outside] = places;
    let (folder, mut writer) = match table.begin(&inside) {
        Ok(writer) => (inside, writer),
        Err(_) => (outside.clone(), table.begin(&outside)?), // the run is on a medium that cannot be written, or not ours
    };
    let wanted = Wanted { values: false, figures: false, rows: Some(&mut writer), truth: None };
    pass::over(&prepared, &readers, wanted)?;
    writer.finish()?;
    Ok(folder)
}

/// What a file of durations holds and was derived from.
pub(crate) struct Table {
    names: Vec<String>,
    keys: [(&'static str, String); 5],
}

/// The one file in a folder of durations.
const FILE: &str = "part-00000000.parquet";

impl Table {
    pub(crate) fn of(prepared: &Prepared, traces: &[KeyedReader]) -> Self {
        let Prepared { layout, rho, relations, own_clocks, .. } = prepared;
        let names =
            layout.stages().iter().flat_map(|stage| ["", ".lo", ".hi"].map(|end| format!("{}{end}", stage.name)));
        let slopes = relations.iter().map(|relation| {
            let (slowest, fastest) = relation.slopes;
            json!({"domain": relation.domain, "slowest": slowest, "fastest": fastest, "brackets": relation.brackets})
        });
        let stages = layout.stages().iter().map(|stage| {
            let name = |point: usize| layout.points()[point].full_name();
            json!({"stage": stage.name, "from": name(stage.from), "to": name(stage.to)})
        });
        let own_clocks = own_clocks.iter().map(|clock| {
            json!({"domain": clock.domain, "slew": clock.slew.key(), "brackets": clock.brackets, "breaks": clock.breaks.len()})
        });
        let traces = traces.iter().map(|reader| json!([reader.file_name(), reader.rows(), reader.bytes()]));
        Self {
            names: names.collect(),
            keys: [
                ("tickscope.model", format!("drift; rho {}; anchor: middle of the evidence", rho.key())),
                ("tickscope.stages", Value::from_iter(stages).to_string()),
                ("tickscope.cones", Value::from_iter(slopes).to_string()),
                ("tickscope.own_clocks", Value::from_iter(own_clocks).to_string()),
                ("tickscope.traces", Value::from_iter(traces).to_string()),
            ],
        }
    }

    pub(crate) fn begin(&self, folder: &Path) -> Result<KeyedWriter, tickscope_store::Error> {
        KeyedWriter::begin(&folder.join(FILE), &self.names, &self.keys)
    }

    fn is_kept_in(&self, folder: &Path) -> bool {
        let Ok(kept) = KeyedReader::open(&folder.join(FILE)) else { return false };
        kept.names() == self.names && self.keys.iter().all(|(key, value)| kept.key(key) == Some(value))
    }
}
