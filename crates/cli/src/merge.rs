//! `tickscope merge`: two runs into one.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use tickscope_store::{Merge, WholeFolder};
use tickscope_tick::counted;

use crate::archive::expect_whole;
use crate::chosen_run;
use crate::failure::Failure;
use crate::options::MergeOptions;
use crate::output::{line, note, print_json};

/// What was merged. Within a version keys are added, never removed or renamed.
#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    run: &'a Path,
    nodes: Vec<String>,
    /// Whether a node of one run reads a counter that one of the other reads.
    related: bool,
    notes: Vec<String>,
}

/// Makes a run of the nodes of two, or none.
pub fn merge(options: &MergeOptions) -> Result<(), Failure> {
    let (out, [first, second]) = (&options.out, [&options.first, &options.second]);
    if out.symlink_metadata().is_ok() {
        let shown = out.display();
        return Err(Failure::input(format!(
            "expected a place where nothing is, found {shown}. Name another with --out"
        )));
    }
    let [first, second] = [chosen_run::open(Some(first))?, chosen_run::open(Some(second))?];
    let renamed: BTreeMap<_, _> = options.rename.iter().map(|one| (one.old.clone(), one.new.clone())).collect();
    let merge = Merge::of(&first, &second, &renamed).map_err(Failure::input)?;
    for run in [&first, &second] {
        expect_whole(run, "merge")?;
        if let Some(unfinished) = run.unfinished()? {
            return Err(Failure::work(format!("cannot merge {}: {unfinished}", run.root().display())));
        }
    }
    let folder = WholeFolder::begin(out)?;
    let nodes = merge.write(folder.path())?.manifest().nodes.iter().map(|node| node.name.to_string()).collect();
    folder.finish()?;
    let mut notes = Vec::new();
    if !merge.is_related() {
        notes.push("no bound between the two runs: no node of one reads a counter that one of the other reads".into());
    }
    if [&first, &second].iter().any(|run| !run.manifest().limits.is_empty()) {
        notes.push(
            "the limits of the two runs are not the new one's: tickscope show --limits holds it against some".into(),
        );
    }
    let report = Report { version: 1, run: out, nodes, related: merge.is_related(), notes };
    if options.json {
        return print_json(&report);
    }
    report.notes.iter().for_each(note);
    let nodes = counted(report.nodes.len(), "node");
    line(format_args!("merged: {nodes}; tickscope show {}", out.display()))
}
