//! `tickscope collect`: stamps out of shared memory into a run.

use tickscope_collect::Report;
use tickscope_experiment::roles::collector::{CollectorSettings, collect as collected, json};

use crate::failure::Failure;
use crate::options::CollectOptions;
use crate::output::line;

/// Takes what lies in a stamp directory, once or until the process is told to end.
pub fn collect(options: &CollectOptions) -> Result<(), Failure> {
    let CollectOptions { directory, run, node, follow, .. } = options;
    let report = collected(&CollectorSettings {
        directory: directory.clone(),
        run: run.clone(),
        node: node.clone(),
        follow: *follow,
    })?;
    if options.json {
        return line(json(&report));
    }
    let Report { stamps, segments, bytes, uncommitted, lost, pools_ended, left_alone, .. } = report;
    line(format_args!("{stamps} stamps in {segments} segments ({bytes} bytes), from {pools_ended} ended programs"))?;
    if lost + uncommitted + left_alone > 0 {
        line(format_args!(
            "{lost} dropped, {uncommitted} never committed, {left_alone} files left alone: see events/ in the run"
        ))?;
    }
    line(format_args!("the run's files: {}", run.display()))
}
