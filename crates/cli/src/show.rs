//! `tickscope show`: the table of a run that was measured before.

use std::path::Path;

use tickscope_analysis::{
    Analysis, ClockMapSummary, Query, ReadyRun, RunJson, Scan, analyse, analyse_counts, ready, unused_rules,
};
use tickscope_bracket::Rho;
use tickscope_experiment::{LimitFile, layout_of};
use tickscope_rivals::{NodeRivals, analyse_and_compare, has_acknowledgements};
use tickscope_show::rivals_text;
use tickscope_show::stage_table::{Shown, View, text};
use tickscope_store::{Event, LayoutText, Run, SweepManifest};
use tickscope_tick::Source;
use tickscope_trace::Quantile;

use crate::check::Faults;
use crate::failure::Failure;
use crate::kept_answer::{ShowAnswer, TableQuestion};
use crate::options::{QuantileList, QueryOptions, ShowOptions, When};
use crate::output::{self, note};
use crate::{age, chosen_run, counts, groups, relate, sweep};

/// Prints the table of a run.
pub fn show(options: &ShowOptions) -> Result<(), Failure> {
    if let Some(root) = options.run.as_deref().filter(|root| SweepManifest::is_at(root)) {
        return sweep::show(options, root);
    }
    if let Some(point) = &options.counts {
        return counts::show(options, point);
    }
    if let Some(points) = &options.age {
        return age::show(options, points);
    }
    let quantiles = options.quantiles.clone().unwrap_or_default();
    let query = Query { quantiles: quantiles.shares(), ..query(&options.query)? };
    let limits = options.limits.as_deref().map(LimitFile::read).transpose()?;
    let run = chosen_run::open(options.run.as_deref())?;
    if options.by.is_none() && limits.is_none() && only_counted(&run, &options.query)? {
        run.unfinished()?.iter().for_each(note);
        return counts::instead(&run, options.json);
    }
    if options.by.is_none() && limits.is_none() && only_related(&run, &options.query)? {
        run.unfinished()?.iter().for_each(note);
        let shown = relate::RelationsShown { json: options.json, rivals: options.rivals, page: false };
        return relate::instead(&run, &query, shown);
    }
    let opened = Opened::of(run, layout(&options.query)?)?;
    let query = opened.under(query, limits.as_ref())?;
    let view = View {
        terminal: output::terminal(options.color),
        scale: options.unit.map(Into::into),
        wide: options.wide,
        assumptions: options.assumptions,
        events: options.events,
        rivals: options.rivals,
        quantiles: quantiles.named(),
    };
    if let Some(by) = &options.by {
        let Opened { ready, faults } = opened;
        let standing = analyse_counts(&ready.run, &query)?.standing(&ready.run.events()?.found);
        return faults.verdict(groups::show(ready, &query, by, &view).and(standing));
    }
    shown(&opened, &query, options.json, false, &view)
}

/// A run that is ready to be asked, and what is wrong with its files.
pub struct Opened {
    pub ready: ReadyRun,
    pub faults: Faults,
}

impl Opened {
    /// Makes a run ready, by `layout` or its own; says first what it lacks and what of its files is damaged, which may
    /// also be why figures cannot be had.
    pub fn of(run: Run, layout: Option<LayoutText>) -> Result<Self, Failure> {
        run.unfinished()?.iter().for_each(note);
        let faults = Faults::of(&run)?;
        let unused = unused_rules(&run)?;
        // The table has them where there is one.
        let ready =
            ready(run, layout).inspect_err(|_| unused.iter().for_each(|why| note(format!("warning: {why}"))))?;
        Ok(Self { ready, faults })
    }

    /// The query with the limits of a file, where one was named, instead of the run's own.
    pub fn under(&self, query: Query, limits: Option<&LimitFile>) -> Result<Query, Failure> {
        let layout = self.ready.run.layout()?;
        Ok(Query { limits: limits.map(|file| file.rules(&layout)).transpose()?, ..query })
    }
}

/// The run that was named, or the newest one, ready to be asked by the layout that options name, or its own.
pub fn opened(named: Option<&Path>, options: &QueryOptions) -> Result<Opened, Failure> {
    Opened::of(chosen_run::open(named)?, layout(options)?)
}

/// The layout that options name.
pub fn layout(options: &QueryOptions) -> Result<Option<LayoutText>, Failure> {
    options.layout.as_deref().map(layout_of).transpose()
}

/// Returns whether counts are all that a run has, and nobody asks for more.
pub fn only_counted(run: &Run, options: &QueryOptions) -> Result<bool, Failure> {
    Ok(options.layout.is_none() && tickscope_analysis::only_counted(run)?)
}

/// Returns whether the machines' clocks are all that a run has, and nobody asks for more.
pub fn only_related(run: &Run, options: &QueryOptions) -> Result<bool, Failure> {
    Ok(options.layout.is_none() && tickscope_analysis::only_related(run)?)
}

/// The query that options make.
pub fn query(options: &QueryOptions) -> Result<Query, Failure> {
    let slew = |text: &str| {
        text.parse::<Rho>().ok().filter(|_| !Rho::PRESETS.iter().any(|(name, _)| *name == text)).ok_or_else(|| {
            Failure::input(format!(
                "--slew: expected a number of ppm from 0 to 100000 with at most three decimals, such as 1 or 0.05, \
                 found '{text}'. Correct it"
            ))
        })
    };
    let rho = options.rho.as_deref().map(str::parse::<Rho>).transpose();
    Ok(Query {
        rho: rho.map_err(|wrong| Failure::input(format!("--{wrong}")))?,
        slew: options.slew.as_deref().map(slew).transpose()?,
        sources: options.evidence.clone(),
        ..Query::default()
    })
}

/// Analyses and prints; `write`: keep the durations in the run. An impossible duration ends with exit code 3.
pub fn print(opened: &Opened, query: &Query, json: bool, write: bool) -> Result<(), Failure> {
    let view = View { terminal: output::terminal(When::Auto), ..View::default() };
    shown(opened, query, json, write, &view)
}

fn shown(opened: &Opened, query: &Query, json: bool, write: bool, view: &View) -> Result<(), Failure> {
    let Opened { ready, faults } = opened;
    let run = &ready.run;
    let question = if write { None } else { TableQuestion::of(opened, query, &view.terminal) };
    if let Some(kept) = question.as_ref().and_then(|question| question.answer(run)) {
        return kept.say();
    }
    let is_compared = json || view.rivals || has_acknowledgements(run);
    let (mut analysis, rivals) = match is_compared {
        true => analyse_and_compare(run, query, write)?,
        false => (analyse(run, query, write)?, Vec::new()),
    };
    if let Some(why) = &analysis.not_kept {
        note(format_args!("durations are not kept in the run, and will be computed again: {why}"));
    }
    let faults = faults.clone().also(std::mem::take(&mut analysis.refused));
    let analysis = Analysis { preparation: ready.preparation.clone(), refused: faults.all(), ..analysis };
    expect_sources(run, (&analysis.clock_maps, &analysis.unrelated), query)?;
    let events = run.events()?.found;
    let answer = ShowAnswer {
        notes: what_changes_nothing(&analysis, query),
        text: match json {
            true => output::json_text(&RunJson::beside(run, &analysis, &events, &rivals))?,
            false => printed(run, &analysis, &rivals, &events, view)?,
        },
        verdict: analysis.standing(&events).and_then(|()| analysis.expect_limits(&events)),
    };
    let said = answer.say();
    if let Some(question) = question.filter(|_| faults.all().is_empty()) {
        question.keep(run, &answer);
    }
    faults.verdict(said)
}

fn printed(
    run: &Run,
    analysis: &Analysis,
    rivals: &[NodeRivals],
    events: &[Event],
    view: &View,
) -> Result<String, Failure> {
    let channels = run.channels()?.found;
    let shown = Shown { run, analysis, rivals, events, channels: &channels };
    let beside = if view.rivals { rivals_text(rivals, &analysis.reference, events) } else { String::new() };
    Ok(text(&shown, view) + &beside)
}

/// Refuses sources of evidence that the run has none of, with those that it has; `found`: clock maps by those that were
/// asked for, and what they leave unrelated.
pub fn expect_sources(run: &Run, found: (&[ClockMapSummary], &[String]), query: &Query) -> Result<(), Failure> {
    let Some(asked) = &query.sources else { return Ok(()) };
    let (clock_maps, unrelated) = found;
    let has = match (clock_maps.is_empty(), unrelated.is_empty()) {
        (true, true) => return Ok(()), // nothing relates two counters here, and nothing has to
        (false, true) => sources(clock_maps),
        // Without those that were asked for; it may have others.
        (_, false) => sources(Scan::of(run, &Query { sources: None, ..query.clone() })?.clock_maps()),
    };
    asked.iter().find(|source| !has.contains(&source.name())).map_or(Ok(()), |missing| Err(unknown(*missing, &has)))
}

fn sources(clock_maps: &[ClockMapSummary]) -> Vec<&'static str> {
    let all = clock_maps.iter().flat_map(|clock_map| &clock_map.sources);
    let mut has: Vec<_> = all.filter(|source| source.brackets > 0).map(|source| source.name).collect();
    has.sort_unstable();
    has.dedup();
    has
}

fn unknown(missing: Source, has: &[&str]) -> Failure {
    let has = if has.is_empty() { "none".into() } else { has.join(", ") };
    Failure::input(format!(
        "--evidence: expected sources that this run has evidence of ({has}), found '{}', of which it has none. Name \
         others",
        missing.name()
    ))
}

/// Which options this run has no use for, a sentence each.
fn what_changes_nothing(analysis: &Analysis, query: &Query) -> Vec<String> {
    let mut notes = Vec::new();
    if analysis.clock_maps.is_empty() {
        for (asked, option) in [(query.rho.is_some(), "--rho"), (query.sources.is_some(), "--evidence")] {
            if asked {
                notes.push(format!("{option} changes nothing here: all points read one counter, nothing relates two"));
            }
        }
    }
    if query.slew.is_some() && analysis.auxiliary_clocks.is_empty() {
        notes.push("--slew changes nothing here: no stamp was read from a clock that somebody may set".into());
    }
    notes
}

impl QuantileList {
    fn named(self) -> Vec<(String, Quantile)> {
        self.0.into_iter().map(|(name, quantile)| (format!("p{name}"), quantile)).collect()
    }
}
