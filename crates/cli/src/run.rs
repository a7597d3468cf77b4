//! `tickscope run`: one experiment from start to end, and its table.

use tickscope_analysis::Query;
use tickscope_experiment::{RunSettings, interrupt};

use crate::failure::Failure;
use crate::options::RunOptions;
use crate::output::{line, note};
use crate::{report, show};

/// Runs an experiment and prints its table.
pub fn run(options: &RunOptions) -> Result<(), Failure> {
    let RunOptions { file, out, seconds, overhead, .. } = options;
    let settings = RunSettings { file: file.clone(), out: out.clone(), seconds: *seconds, overhead: *overhead };
    let (run, measured) = tickscope_experiment::run(&settings)?;
    let root = run.root().display();
    if !options.json {
        eprintln!("run: {root}");
    }
    // The table first: a command that failed leaves what was measured until then.
    let shown = show::print(&run, &Query::default(), options.json, true);
    if let (Err(why), Err(_)) = (&shown, &measured) {
        note(why);
    }
    let reported = if options.report { report::beside(&run) } else { Ok(()) };
    if !options.json {
        line(format_args!("\nthe run's files: {root}"))?;
        match options.report {
            true if reported.is_ok() => line(format_args!("report: {}", run.paths().report().display()))?,
            _ => line(format_args!("report: tickscope report {root}"))?,
        }
    }
    measured.and(shown).and(reported)?;
    if interrupt::ended() {
        return Err(Failure::work("interrupted; what was measured until then is kept and shown above"));
    }
    Ok(())
}
