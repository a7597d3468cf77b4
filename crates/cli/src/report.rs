//! `tickscope report`: a run as one page.

use std::path::Path;

use tickscope_analysis::{AgeQuery, Analysis, Query, age, counted_points};
use tickscope_experiment::LimitFile;
use tickscope_rivals::draw_and_compare;
use tickscope_show::{Report, counts_document};
use tickscope_store::{Run, write_whole};

use crate::check::Faults;
use crate::failure::Failure;
use crate::options::ReportOptions;
use crate::output::{expect_folder, line, print, print_json};
use crate::show::{Opened, expect_sources, layout, only_counted, only_related, query};
use crate::{chosen_run, counts, relate};

/// The name of standard output.
const STDOUT: &str = "-";

/// Writes the page of a run, or prints what it would say as JSON. A page is written also of a run whose evidence is a
/// finding, which ends with exit code 3: it shows what is wrong.
pub fn report(options: &ReportOptions) -> Result<(), Failure> {
    let query = query(&options.query)?;
    let limits = options.limits.as_deref().map(LimitFile::read).transpose()?;
    if let Some(out) = options.out.as_deref().filter(|out| *out != Path::new(STDOUT)) {
        expect_folder(out, "--out")?;
    }
    let run = chosen_run::open(options.run.as_deref())?;
    let place = options.out.clone().unwrap_or_else(|| run.paths().report());
    let put = |html: &str| {
        if place == Path::new(STDOUT) {
            return print(html.as_bytes());
        }
        write_whole(&place, html.as_bytes())?;
        line(format_args!("report: {}", place.display()))
    };
    if !options.json && limits.is_none() && options.age.is_none() && only_counted(&run, &options.query)? {
        return counts_page(&run, |html| put(html));
    }
    if limits.is_none() && options.age.is_none() && only_related(&run, &options.query)? {
        return match options.json {
            true => relate::instead(
                &run,
                &query,
                relate::RelationsShown { json: true, ..relate::RelationsShown::default() },
            ),
            false => relate::page(&run, &query, |html| put(html)),
        };
    }
    let opened = Opened::of(run, layout(&options.query)?)?;
    let query = opened.under(query, limits.as_ref())?;
    let asked =
        options.age.as_deref().map(|points| crate::age::query(points, options.limit, options.key)).transpose()?;
    made(&opened, &query, asked.as_ref(), |report| match options.json {
        true => print_json(&report.json()),
        false => put(&report.html().map_err(Failure::work)?),
    })?
}

/// Writes the page of a run that has nothing but counts into its directory.
pub fn of_counts(run: &Run) -> Result<(), Failure> {
    counts_page(run, |html| Ok(write_whole(&run.paths().report(), html.as_bytes())?))
}

fn counts_page(run: &Run, put: impl FnOnce(&str) -> Result<(), Failure>) -> Result<(), Failure> {
    let faults = Faults::of(run)?;
    let found = counted_points(run)?;
    put(&counts_document(run, &found.points).html())?;
    faults.also(found.refused).verdict(counts::standing(run))
}

/// Writes the page of a run that was just shown into its directory.
pub fn beside(opened: &Opened) -> Result<(), Failure> {
    made(opened, &Query::default(), None, |report| write(report, &opened.ready.run.paths().report())).map(|_| ())
}

fn write(report: &Report<'_>, place: &Path) -> Result<(), Failure> {
    Ok(write_whole(place, report.html().map_err(Failure::work)?.as_bytes())?)
}

/// Makes the report of a run and hands it on; returns what the run finds, apart from what went wrong.
fn made(
    opened: &Opened,
    query: &Query,
    asked: Option<&AgeQuery>,
    use_it: impl FnOnce(&Report<'_>) -> Result<(), Failure>,
) -> Result<Result<(), Failure>, Failure> {
    let Opened { ready, faults } = opened;
    let run = &ready.run;
    let mut aged = None;
    let (mut analysis, figures, rivals) = draw_and_compare(run, query, |scan| {
        aged = asked.map(|asked| age(scan, asked)).transpose()?;
        Ok(())
    })?;
    expect_sources(run, (&analysis.clock_maps, &analysis.unrelated), query)?;
    let counted = counted_points(run)?;
    let faults = faults.clone().also(std::mem::take(&mut analysis.refused)).also(counted.refused);
    let analysis = Analysis { preparation: ready.preparation.clone(), refused: faults.all(), ..analysis };
    let (events, channels) = (run.events()?, run.channels()?);
    let report = Report {
        run,
        analysis: &analysis,
        rivals: &rivals,
        figures: &figures,
        events: &events.found,
        channels: &channels.found,
        counted: &counted.points,
        age: aged.as_ref(),
    };
    use_it(&report)?;
    let standing = analysis.standing(&events.found).and_then(|()| analysis.expect_limits(&events.found));
    let standing =
        aged.and_then(|age| age.findings.into_iter().next()).map_or(standing, |why| Err(Failure::finding(why)));
    Ok(faults.verdict(standing))
}
