//! `tickscope finish`: a run that was cut off, completed.

use tickscope_analysis::Query;
use tickscope_experiment::Finished;
use tickscope_store::Run;

use crate::failure::Failure;
use crate::options::FinishOptions;
use crate::output::note;
use crate::show::Opened;
use crate::{output, show};

/// Completes a run and prints its table. One without a trace has none to print, which is an error.
pub fn finish(options: &FinishOptions) -> Result<(), Failure> {
    let root = options.run.display();
    let Some(Finished { run, done, ids, outcome }) = tickscope_experiment::finish(&options.run)? else {
        let text = format!("{root} has ended and all its stamps are stored: there is nothing to do");
        return match options.json {
            true => show::print(&Opened::of(Run::open(&options.run)?, None)?, &Query::default(), true, false),
            false => output::line(text),
        };
    };
    for line in done {
        note(line);
    }
    if ids == Some(0) {
        outcome?;
        let missing = run.events()?.found.into_iter().find(|event| event.what == "cut-off").map(|event| event.text);
        return Err(Failure::work(format!(
            "cannot print a table of {root}: no trace was measured. {}. tickscope run measures again",
            missing.unwrap_or_default()
        )));
    }
    let shown = Opened::of(run, None).and_then(|opened| show::print(&opened, &Query::default(), options.json, true));
    if let (Err(why), Err(_)) = (&shown, &outcome) {
        note(why);
    }
    outcome.and(shown)
}
