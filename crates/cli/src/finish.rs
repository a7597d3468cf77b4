//! `tickscope finish`: a run that was cut off, completed.

use tickscope_analysis::{Query, only_counted, only_related, some_count, unknown_loss};
use tickscope_experiment::Finished;
use tickscope_store::{Run, SweepManifest};

use crate::failure::Failure;
use crate::options::FinishOptions;
use crate::output::note;
use crate::show::Opened;
use crate::{chosen_run, counts, memory, output, relate, show, stored};

/// Completes a run and prints its table, or what it counted if it has nothing else, as at its own end. One without a
/// trace has none to print, which is an error.
pub fn finish(options: &FinishOptions) -> Result<(), Failure> {
    let named = chosen_run::of_manifest(&options.run).unwrap_or_else(|| options.run.clone());
    let root = named.display();
    if SweepManifest::is_at(&named) {
        return Err(Failure::input(format!(
            "expected a run, found the sweep {root}. tickscope resume {root} makes the trials that are missing; \
             tickscope finish {root}/trial-0001 finishes one of them"
        )));
    }
    memory::reuse_freed();
    let Some(Finished { run, done, ids, outcome }) = tickscope_experiment::finish(&named)? else {
        let run = Run::open(&named)?;
        if let Some(why) = unknown_loss(&run.events()?.found) {
            return Err(Failure::work(format!("{root} has ended, and nothing more of it can be taken: {why}")));
        }
        let text = format!("{root} has ended and all its stamps are stored: there is nothing to do");
        return match options.json {
            true => print(run, true, false),
            false => output::line(text),
        };
    };
    for line in done {
        note(line);
    }
    if ids == Some(0) && !some_count(&run)? {
        outcome?;
        let missing = run.events()?.found.into_iter().find(|event| event.what == "cut-off").map(|event| event.text);
        return Err(Failure::work(format!(
            "cannot print a table of {root}: no trace was measured. {}. tickscope run measures again",
            missing.unwrap_or_default()
        )));
    }
    let shown = print(run, options.json, true);
    if let (Err(why), Err(_)) = (&shown, &outcome) {
        note(why);
    }
    outcome.and(shown)
}

/// Prints the table of a run, or its counts; `write`: keep the durations in the run.
fn print(run: Run, json: bool, write: bool) -> Result<(), Failure> {
    if let Some(shown) = stored::instead(&run, json) {
        return shown;
    }
    if only_counted(&run)? {
        run.unfinished()?.iter().for_each(note);
        return counts::instead(&run, json);
    }
    if only_related(&run)? {
        return relate::instead(
            &run,
            &Query::default(),
            relate::RelationsShown { json, ..relate::RelationsShown::default() },
        );
    }
    show::print(&Opened::of(run, None)?, &Query::default(), json, write)
}
