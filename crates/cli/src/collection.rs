//! `tickscope collect`: stamps out of shared memory into a run.

use tickscope_collect::Report;
use tickscope_experiment::roles::collector::{CollectorSettings, collect as collected, json, node_of};
use tickscope_store::{Codec, EncodingChoice};
use tickscope_tick::counted;

use crate::failure::Failure;
use crate::options::CollectOptions;
use crate::output::{line, note, print_json_line};

/// Takes what lies in a stamp directory, once or until the process is told to end.
pub fn collect(options: &CollectOptions) -> Result<(), Failure> {
    let CollectOptions { directory, run, node, follow, every, codec, encoders, .. } = options;
    let collected = collected(&CollectorSettings {
        directory: directory.clone(),
        run: run.clone(),
        node: node.clone().map_or_else(|| node_of(directory, run), Ok)?,
        any_name: node.is_some(),
        follow: *follow,
        every: every.map(std::time::Duration::from_secs_f64),
        conducted: false,
        segments: EncodingChoice { codec: codec.map(Codec::from), encoders: *encoders },
    })?;
    let keyless = collected.report.keyless;
    let Report { stamps, pools_ended, left_alone, .. } = collected.report;
    if !follow && stamps + pools_ended + left_alone == 0 && collected.held.is_empty() {
        note(format_args!(
            "no program has stamped into {} since it was last collected: is it what TICKSCOPE_DIR names? --follow \
             waits for one",
            directory.display()
        ));
    }
    let whole = if keyless == 0 {
        Ok(())
    } else {
        Err(Failure::work(format!(
            "cannot collect {} of other users: nothing tells whether to believe them. Collect as their user, or start \
             programs and collector with the same TICKSCOPE_KEY; events/ in the run names the users",
            counted(keyless, "pool")
        )))
    };
    if options.json {
        return print_json_line(&json(&collected)).and(whole);
    }
    let Report { stamps, segments, bytes, uncommitted, lost, pools_ended, left_alone, .. } = collected.report;
    let [stamps, segments] = [(stamps, "stamp"), (segments, "segment")].map(|(number, of)| counted(number, of));
    line(format_args!("{stamps} in {segments} ({bytes} bytes), from {}", counted(pools_ended, "ended program")))?;
    if lost + uncommitted + left_alone > 0 {
        line(format_args!(
            "{lost} dropped, {uncommitted} never committed, {} left alone: see events/ in the run",
            counted(left_alone, "file")
        ))?;
    }
    if !collected.held.is_empty() {
        let (number, who) = (collected.held.len(), collected.held.join(", "));
        line(format_args!(
            "{} still held, all that they hold so far is stored: {who}. Collect again once they ended",
            if number == 1 { "1 pool is".into() } else { format!("{number} pools are") }
        ))?;
    }
    line(format_args!("the run's files: {}", run.display()))?;
    whole
}
