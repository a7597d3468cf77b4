//! `tickscope run`: one experiment from start to end, and its table.

use tickscope_analysis::{Query, ready};
use tickscope_experiment::{RunSettings, interrupt};

use crate::failure::Failure;
use crate::options::RunOptions;
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
    let ready = ready(run.clone(), None);
    let shown = ready.as_ref().map_err(Clone::clone);
    let shown = shown.and_then(|ready| show::print(ready, &Query::default(), options.json, true));
    if let (Err(why), Err(_)) = (&shown, &measured) {
        eprintln!("tickscope: {why}");
    }
    let reported = match &ready {
        Ok(ready) if options.report => report::beside(ready),
        _ => Ok(()),
    };
    if !options.json {
        println!("\nthe run's files: {root}");
        match options.report {
            true if reported.is_ok() => println!("report: {}", run.paths().report().display()),
            _ => println!("report: tickscope report {root}"),
        }
    }
    measured.and(shown).and(reported)?;
    if interrupt::ended() {
        return Err(Failure::work("interrupted; what was measured until then is kept and shown above"));
    }
    Ok(())
}
