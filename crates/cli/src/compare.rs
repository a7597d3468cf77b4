//! `tickscope compare`: which stage changed from some runs to others.

use std::path::PathBuf;

use serde::Serialize;
use tickscope_analysis::{
    ChangeVerdict, FaultJson, QuantileChange, Query, ReadyRun, RunComparison, StageChange, analyse_counts,
    compare as compared,
};
use tickscope_show::comparison_text;
use tickscope_show::stage_table::View;
use tickscope_store::Run;

use crate::chosen_run;
use crate::failure::Failure;
use crate::options::{CompareOptions, FailOn};
use crate::output::{self, note, print_json};
use crate::show::{Opened, expect_sources, layout, query};

/// What was compared. Within a version keys are added, never removed or renamed.
#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    before: Vec<String>,
    after: Vec<String>,
    #[serde(flatten)]
    compared: &'a RunComparison,
    most_changed: Option<&'a str>,
    perhaps: Vec<&'a str>,
    faults: Vec<FaultJson>,
    findings: Vec<String>,
}

/// Compares runs, and ends as `show` does of the first that does not stand well; else with what `--fail-on` names.
pub fn compare(options: &CompareOptions) -> Result<(), Failure> {
    let quantiles = options.quantiles.clone().unwrap_or_default();
    let query = Query { quantiles: quantiles.shares(), ..query(&options.query)? };
    let mut judged = Judged::default();
    let ready = sides(options)?.map(|side| {
        side.into_iter().map(|run| judged.ready(run, options, &query)).collect::<Result<Vec<_>, Failure>>()
    });
    let [before, after] = ready;
    let (before, after) = (before?, after?);
    let Judged { faults, findings, standing } = judged;
    let compared = compared(&runs(&before), &runs(&after), &query, options.tolerance);
    // Why there is nothing to compare is said best by what a run lacks.
    let compared = compared.map_err(|why| standing.clone().filter(|_| why.code() == 1).unwrap_or(why))?;
    if options.json {
        print_json(&Report::of(&compared, [&before, &after], (faults, findings)))?;
    } else {
        let scale = options.unit.map(Into::into);
        let view = View { terminal: output::terminal(options.color), scale, ..View::default() };
        output::print(comparison_text(&compared, &view).as_bytes())?;
    }
    standing.map_or(Ok(()), Err)?;
    let of = |(stage, change): (&StageChange, &QuantileChange)| {
        (format!("{} {}", stage.stage, change.quantile), change.verdict, change.shift.map(|shift| shift.ticks))
    };
    expect_none(&options.fail_on, || compared.changes().map(of))
}

fn runs(side: &[ReadyRun]) -> Vec<&Run> {
    side.iter().map(|ready| &ready.run).collect()
}

/// The runs of both sides, as they were named.
fn sides(options: &CompareOptions) -> Result<[Vec<Run>; 2], Failure> {
    let open = |runs: &[PathBuf]| runs.iter().map(|run| chosen_run::open(Some(run))).collect::<Result<Vec<_>, _>>();
    match options.runs.as_slice() {
        [before, after] => Ok([vec![chosen_run::open(Some(before))?], vec![chosen_run::open(Some(after))?]]),
        _ => Ok([open(&options.before)?, open(&options.after)?]),
    }
}

/// How the runs stand.
#[derive(Default)]
struct Judged {
    faults: Vec<FaultJson>,
    findings: Vec<String>,
    /// Of the first that does not stand well.
    standing: Option<Failure>,
}

impl Judged {
    /// Makes a run ready, and says what is wrong with it.
    fn ready(&mut self, run: Run, options: &CompareOptions, query: &Query) -> Result<ReadyRun, Failure> {
        let Opened { ready, faults } = Opened::of(run, layout(&options.query)?)?;
        let (run, place) = (&ready.run, ready.run.root().display());
        ready.preparation.notes.iter().for_each(|told| note(format!("{place}: {told}")));
        let analysis = analyse_counts(run, query)?;
        expect_sources(run, (&analysis.clock_maps, &analysis.unrelated), query)?;
        let (faults, events) = (faults.also(analysis.refused.clone()), run.events()?.found);
        self.faults.extend(faults.json());
        self.findings.extend(analysis.every_finding(&events).into_iter().map(|found| format!("{place}: {found}")));
        if let Err(why) = faults.verdict(analysis.standing(&events)) {
            let why = why.of_run(place);
            match &self.standing {
                // The first ends the command, and says so then.
                None => self.standing = Some(why),
                Some(_) => note(&why),
            }
        }
        Ok(ready)
    }
}

impl<'a> Report<'a> {
    fn of(
        compared: &'a RunComparison,
        sides: [&[ReadyRun]; 2],
        (faults, findings): (Vec<FaultJson>, Vec<String>),
    ) -> Self {
        let [before, after] =
            sides.map(|side| side.iter().map(|ready| ready.run.root().display().to_string()).collect());
        let most = compared.most_changed();
        let name = |stage: usize| compared.stages[stage].stage.as_str();
        Self {
            version: 1,
            before,
            after,
            compared,
            most_changed: most.as_ref().map(|most| name(most.stage)),
            perhaps: most.iter().flat_map(|most| &most.perhaps).map(|&stage| name(stage)).collect(),
            faults,
            findings,
        }
    }
}

/// Refuses what is to end the command with exit code 4 or 5, of figures with their names, verdicts and changes.
pub(crate) fn expect_none<F>(fail_on: &[FailOn], figures: impl Fn() -> F) -> Result<(), Failure>
where
    F: Iterator<Item = (String, ChangeVerdict, Option<i64>)>,
{
    // 4 before 5, in whatever order they were named.
    let (open, sure): (Vec<FailOn>, Vec<FailOn>) = fail_on.iter().partition(|what| matches!(what, FailOn::Unresolved));
    sure.into_iter().chain(open).try_for_each(|what| expect_no(what, figures()))
}

fn expect_no(what: FailOn, figures: impl Iterator<Item = (String, ChangeVerdict, Option<i64>)>) -> Result<(), Failure> {
    let is = |verdict: ChangeVerdict, change: Option<i64>| match (what, verdict) {
        (FailOn::Slower, ChangeVerdict::Changed) => change > Some(0),
        (FailOn::Changed, ChangeVerdict::Changed) | (FailOn::Unresolved, ChangeVerdict::NotResolved { .. }) => true,
        _ => false,
    };
    let found = figures.filter(|(_, verdict, change)| is(*verdict, *change));
    let names: Vec<String> = found.map(|(name, ..)| name).collect();
    let word = match what {
        FailOn::Slower => "slower",
        FailOn::Changed => "changed",
        FailOn::Unresolved => "not resolved",
    };
    let told = || format!("{word}: {}", names.join(", "));
    match what {
        _ if names.is_empty() => Ok(()),
        FailOn::Unresolved => Err(Failure::unresolved(told())),
        FailOn::Slower | FailOn::Changed => Err(Failure::violated(told())),
    }
}
