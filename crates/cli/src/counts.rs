//! `tickscope show --counts`: what points under the policy `count` counted.

use std::path::Path;

use serde_json::json;
use tickscope_analysis::{CountedPeriod, CountedPoint, counted_points, switches_to_count, unknown_loss_of};
use tickscope_show::terminal::{Ink, Terminal};
use tickscope_store::{Event, Run, RunState};
use tickscope_tick::{Place, Unit, counted, decimal_down, decimal_up, printable};

use crate::check::Faults;
use crate::chosen_run;
use crate::failure::Failure;
use crate::options::ShowOptions;
use crate::output::{line, note, print, print_json, terminal};

/// Version of the JSON: within it keys are added, never removed or renamed.
const VERSION: u32 = 1;

/// Decimals of stamps a second.
const DECIMALS: u32 = 1;

/// Prints the counts of a point, or of all where it is empty.
pub fn show(options: &ShowOptions, point: &str) -> Result<(), Failure> {
    if options.run.is_none() && Path::new(point).is_dir() {
        return Err(Failure::input(format!(
            "expected a point behind --counts, found the directory {point}. Name the run first: tickscope show {point} \
             --counts"
        )));
    }
    let run = chosen_run::open(options.run.as_deref())?;
    run.unfinished()?.iter().for_each(note);
    let faults = Faults::of(&run)?;
    let found = counted_points(&run)?;
    let (all, faults) = (found.points, faults.also(found.refused));
    let printed = print_all(&run, all, point, &faults, options);
    faults.verdict(printed.and_then(|()| standing(&run)))
}

/// How a run stands whose counts were shown: where nobody knows what was lost, they are not all.
pub fn standing(run: &Run) -> Result<(), Failure> {
    unknown_loss_of(run, &run.events()?.found)?.map_or(Ok(()), |loss| Err(Failure::work(loss)))
}

/// Prints what the points of a run counted that has nothing but counts, a line each.
pub fn instead(run: &Run, json: bool) -> Result<(), Failure> {
    let faults = Faults::of(run)?;
    let found = counted_points(run)?;
    let faults = faults.also(found.refused);
    if json {
        let printed = print_counts(&found.points.iter().collect::<Vec<_>>(), &faults);
        return faults.verdict(printed.and_then(|()| standing(run)));
    }
    found.points.iter().try_for_each(|of| line(printable(&head(of))))?;
    let root = run.root().display();
    let more = format!("tickscope show {root} --counts has each reading, tickscope report {root} draws them");
    line(format!("these points only count, so there are no durations: {more}"))?;
    faults.verdict(standing(run))
}

fn print_counts(all: &[&CountedPoint], faults: &Faults) -> Result<(), Failure> {
    print_json(&json!({ "version": VERSION, "faults": faults.json(), "counts": all }))
}

fn head(of: &CountedPoint) -> String {
    let (stamps, channels) = (counted(of.total, "stamp"), counted(of.channels, "channel"));
    let least = if of.total_is_whole { "" } else { "at least " };
    format!("{}: {least}{stamps} of {channels}, {}", of.point, counted(of.periods.len(), "reading"))
}

fn print_all(
    run: &Run,
    all: Vec<CountedPoint>,
    point: &str,
    faults: &Faults,
    options: &ShowOptions,
) -> Result<(), Failure> {
    let known: Vec<String> = all.iter().map(|of| of.point.clone()).collect();
    let began = |of: &CountedPoint| CountedPoint::first_reading(&all, of.node());
    let shown: Vec<&CountedPoint> = all.iter().filter(|of| point.is_empty() || of.point == point).collect();
    if shown.is_empty() {
        let events = run.events()?.found;
        return Err(not_stored_yet(run, point, &known, &events)?.unwrap_or_else(|| nothing(run, point, &known)));
    }
    if options.json {
        return print_counts(&shown, faults);
    }
    let terminal = terminal(options.color);
    for of in shown {
        print_point(run, of, began(of), terminal)?;
    }
    Ok(())
}

/// Channels count, and none of their counts is stored: those of `point`, or any where nothing else counted. `None`: no
/// switch tells of such channels.
fn not_stored_yet(run: &Run, point: &str, known: &[String], events: &[Event]) -> Result<Option<Failure>, Failure> {
    let place: Option<Place> = point.parse().ok();
    let is_asked = |event: &&Event| known.is_empty() || place.as_ref().is_some_and(|place| event.is_switch_of(place));
    let switches = switches_to_count(events).filter(is_asked);
    let told: Vec<String> = switches.map(|event| format!("{}: {}", event.node, event.text)).collect();
    if told.is_empty() {
        return Ok(None);
    }
    let remedy = match run.state()? {
        RunState::GoingOn => "the first counts take a second or two; ask again",
        RunState::CutOff | RunState::Ended => "none was stored before the run ended",
    };
    let (root, told) = (run.root().display(), told.join("; "));
    Ok(Some(Failure::work(format!("expected counts in {root}, found none stored. On node {told}; {remedy}"))))
}

fn nothing(run: &Run, point: &str, known: &[String]) -> Failure {
    let root = run.root().display();
    if known.is_empty() {
        return Failure::work(format!(
            "expected counts in {root}, found none: no channel was under the policy count. Write \
             policy = \"count 10ms\" \
             in a [[policy]] of the run file, or tickscope policy RUN POINT count 10ms"
        ));
    }
    Failure::input(format!("expected a point that counted ({}), found '{point}'. Choose one of them", known.join(", ")))
}

/// `began`: the tick from which times are counted.
fn print_point(run: &Run, of: &CountedPoint, began: i64, terminal: Terminal) -> Result<(), Failure> {
    let node = run.manifest().nodes.iter().find(|known| known.name.as_str() == of.node());
    let hertz = node.map_or(1, |node| node.counter.frequency.hertz);
    let unit = Unit::seconds(hertz, 6);
    print(format!("{}\n", terminal.inked(Ink::Bold, &printable(&head(of)))).as_bytes())?;
    of.notes.iter().try_for_each(|note| line(format!("policy: {note}")))?;
    line(format!("{:>14}  {:>12}  {}", "AT s", "STAMPS", "A SECOND"))?;
    for period in &of.periods {
        let at = unit.near(i128::from(period.before) - i128::from(began)).to_string();
        line(format!("{at:>14}  {:>12}  {}{}", period.count, rate(period), paused(period, hertz)))?;
    }
    Ok(())
}

/// How long JVMs of the node paused meanwhile, in ms; nothing, where that is not known or was certainly not at all.
fn paused(period: &CountedPeriod, hertz: u64) -> String {
    let Some([least, most]) = period.paused_ticks.filter(|[_, most]| *most > 0) else { return String::new() };
    let ms = |ticks: i64| i128::from(ticks) * 1000;
    let (least, most) = (decimal_down(ms(least), hertz.into(), 3), decimal_up(ms(most), hertz.into(), 3));
    format!("  paused {least} to {most} ms")
}

fn rate(period: &CountedPeriod) -> String {
    let late = match period.periods {
        1 => String::new(),
        0 => "  the first or the rest".into(),
        several => format!("  {several} periods"),
    };
    match period.rate.map(|rate| (rate.least(DECIMALS), rate.most(DECIMALS))) {
        Some((least, Some(most))) => format!("{least} to {most}{late}"),
        Some((least, None)) => format!("at least {least}{late}"),
        None => format!("-{late}"),
    }
}
