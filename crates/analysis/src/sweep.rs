//! A sweep's trials in one table: for each point of its parameters what its repetitions say together.
//!
//! Idea: a trial gives one value a measure, the one that its own table shows, and what the clocks leave open of it. A
//! point's value is the median of its repetitions. Its interval is that of the median of all repetitions that could be
//! made, with 95 %: the ranks that the binomial distribution gives, read off the trials' lower ends and off their upper
//! ends, so it holds the spread over repetitions and the clocks' bounds. Fewer than 6 repetitions cannot give 95 %:
//! then it reaches from the least to the most, and [`SweepFigure::confidence_per_million`] says what that is worth.
//! Assumes: repetitions are independent, which a random order makes more likely. Guarantees: each trial that was made
//! is in a figure or has its reason; the clocks' part is never averaged. Deliberately absent: a confidence that holds
//! for all points of a table together.

mod printed;

use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use tickscope_stats::Confidence;
use tickscope_store::{
    AgeFigure, Event, EventKind, Measure, ParameterValue, PrintedField, Run, SweepManifest, TrialRecord, TrialState,
};
use tickscope_tick::{Place, counted};
use tickscope_trace::Quantile;

use crate::age::{Age, AgeKey, AgeQuery, AgeSpan, FEW_UPDATES, MOST_NAMED, NoAge, age};
use crate::analysis::{Analysis, analyse};
use crate::compare::{Ends, Reference};
use crate::error::Error;
use crate::query::Query;
use crate::ready::{ReadyRun, ready};
use crate::scan::Scan;
pub use printed::PrintedNumber;
use printed::{Printed, printed};

/// What all trials say. Ticks of the reference of the first trial that is in a figure; within a version keys are added,
/// never removed or renamed.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SweepTable {
    /// What the sweep's run file calls it.
    pub name: String,
    /// Ticks of a second; `None`: no trial is in a figure.
    pub hertz: Option<u64>,
    /// Names of the parameters.
    pub parameters: Vec<String>,
    /// What was taken from each trial.
    pub measures: Vec<Measure>,
    /// Numbers that programs print of themselves, without a bound.
    pub fields: Vec<PrintedField>,
    /// A row a point, in the order of the run file.
    pub points: Vec<SweepPoint>,
    /// In the order in which they were made.
    pub trials: Vec<SweepTrial>,
}

/// A point of the parameters.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SweepPoint {
    /// Its values.
    pub values: Vec<ParameterValue>,
    /// Repetitions that are in the figures.
    pub repetitions: usize,
    /// Those that are to be made.
    pub of: usize,
    /// By measure; `None`: no repetition has it.
    pub figures: Vec<Option<SweepFigure>>,
    /// By field; `None`: no repetition has it.
    pub numbers: Vec<Option<SweepNumber>>,
}

/// One measure of a point.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct SweepFigure {
    /// The median of the repetitions.
    pub ticks: i64,
    /// Not below, clocks and repetitions together; `None`: nothing bounds it.
    pub lo_ticks: Option<i64>,
    /// Not above.
    pub hi_ticks: Option<i64>,
    /// The lower end, if the clocks were exact.
    pub spread_lo_ticks: i64,
    /// The upper end, if the clocks were exact.
    pub spread_hi_ticks: i64,
    /// That the median of all repetitions that could be made lies between them; `None`: of one repetition, whose
    /// interval is the clocks' alone, nobody knows.
    pub confidence_per_million: Option<u32>,
    /// Repetitions that have it.
    pub repetitions: usize,
    /// Traces, or updates received, of all repetitions.
    pub count: u64,
    /// Traces without both stamps, or updates not received.
    pub lost: u64,
    /// Keys of so few updates that their age is a matter of chance, the most of a repetition; `None`: it is no age.
    pub keys_with_few: Option<usize>,
    /// Keys that a mean over keys is of, the fewest of a repetition; `None`: it is no such mean.
    pub keys: Option<usize>,
    /// Keys that it should be of, the most of a repetition.
    pub keys_of: Option<usize>,
}

/// A number that programs print, at a point. Nothing of it is tickscope's but the ranks.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct SweepNumber {
    /// The median of the repetitions, the lower one of two; of true and false 1 and 0.
    pub value: PrintedNumber,
    /// The lower end of their spread.
    pub lo: PrintedNumber,
    /// The upper end.
    pub hi: PrintedNumber,
    /// That the median of all repetitions that could be made lies between them; `None`: of one repetition.
    pub confidence_per_million: Option<u32>,
    /// Repetitions that have it.
    pub repetitions: usize,
}

/// One trial.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SweepTrial {
    /// From 1, in the order in which they are made.
    pub number: u32,
    /// From 1.
    pub repetition: u32,
    /// Values of the parameters.
    pub values: Vec<ParameterValue>,
    /// Its run, below the sweep's folder.
    pub folder: Option<String>,
    /// How far it is, or that it is in no figure.
    pub state: &'static str,
    /// Why it is in no figure, or what else is wrong with it.
    pub why: Option<String>,
    /// Exit code that says so.
    pub code: u8,
    /// Stamps that found no room: of these traces some count as lost.
    pub dropped: u64,
    /// By measure, in ticks as the table's.
    pub figures: Vec<Option<TrialFigure>>,
    /// Keys that ages over keys leave out.
    pub left_out: Vec<KeysLeftOut>,
    /// By field, as its programs print them; of true and false 1 and 0.
    pub numbers: Vec<Option<PrintedNumber>>,
}

/// One measure of a trial: what its own table shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct TrialFigure {
    /// Of the estimates.
    pub ticks: i64,
    /// Not below; `None`: nothing bounds it.
    pub lo_ticks: Option<i64>,
    /// Not above.
    pub hi_ticks: Option<i64>,
    /// Traces, or updates received.
    pub count: u64,
    /// Traces without both stamps, or updates not received.
    pub lost: u64,
    /// Keys of so few updates that their age is a matter of chance; `None`: it is no age.
    pub keys_with_few: Option<usize>,
    /// Keys that a mean over keys is of; `None`: it is no such mean.
    pub keys: Option<usize>,
    /// Keys that it should be of: all of which an update was generated.
    pub keys_of: Option<usize>,
}

/// Keys that the mean over keys of one measure of a trial leaves out, for one reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct KeysLeftOut {
    /// Its place among the measures.
    pub measure: usize,
    /// Why.
    pub why: NoAge,
    /// Kind of the keys.
    pub key: AgeKey,
    /// How many.
    pub keys: usize,
    /// Some of them.
    pub named: Vec<Option<i64>>,
}

/// Looks at all trials; `progress` is told how many were looked at.
pub fn swept(
    root: &Path,
    sweep: &SweepManifest,
    query: &Query,
    mut progress: impl FnMut(usize),
) -> Result<SweepTable, Error> {
    let quantiles = sweep.measures.iter().filter_map(quantile).collect::<Result<Vec<_>, Error>>()?;
    let query = Query { quantiles, ..query.clone() };
    let (mut reference, mut trials) = (None::<Reference>, Vec::new());
    let mut types = vec![None; sweep.fields.len()];
    for (at, trial) in sweep.trials.iter().enumerate() {
        progress(at);
        let mut row = SweepTrial::of(sweep, trial);
        if let (TrialState::Made, Some(folder)) = (trial.state, &trial.folder) {
            let measured = Measured::of(&root.join(folder), sweep, &query, trial.run.as_deref());
            let measured = measured.map(|found| {
                let first = reference.get_or_insert_with(|| found.reference.clone());
                found.of_types(&mut types, &sweep.fields).by(first)
            });
            row.take(measured);
        }
        trials.push(row);
    }
    let points = points(sweep, &trials);
    Ok(SweepTable {
        name: sweep.name.clone(),
        hertz: reference.map(|reference| reference.hertz),
        parameters: sweep.parameters.iter().map(|of| of.name.clone()).collect(),
        measures: sweep.measures.clone(),
        fields: sweep.fields.clone(),
        points,
        trials,
    })
}

fn quantile(measure: &Measure) -> Option<Result<Quantile, Error>> {
    match measure {
        Measure::Stage { quantile, .. } => {
            Some(Quantile::per_million(Measure::quantile_per_million(*quantile)).map_err(Error::work))
        }
        Measure::Age { .. } => None,
    }
}

/// A row a point, with its trials of any state.
fn points(sweep: &SweepManifest, trials: &[SweepTrial]) -> Vec<SweepPoint> {
    let mut known: Vec<&Vec<usize>> = sweep.trials.iter().map(|trial| &trial.point).collect();
    known.sort();
    known.dedup();
    let of_point = |point: &Vec<usize>| {
        let both = sweep.trials.iter().zip(trials).filter(|(trial, _)| trial.point == *point);
        let rows: Vec<&SweepTrial> = both.map(|(_, row)| row).collect();
        SweepPoint::of(values(sweep, point), &rows, [sweep.measures.len(), sweep.fields.len()])
    };
    known.into_iter().map(of_point).collect()
}

fn values(sweep: &SweepManifest, point: &[usize]) -> Vec<ParameterValue> {
    sweep.parameters.iter().zip(point).map(|(of, &at)| of.values[at].clone()).collect()
}

impl SweepPoint {
    fn of(values: Vec<ParameterValue>, rows: &[&SweepTrial], [measures, fields]: [usize; 2]) -> Self {
        let counted: Vec<&&SweepTrial> = rows.iter().filter(|row| row.is_counted()).collect();
        let figure = |measure: usize| {
            let all: Vec<TrialFigure> = counted.iter().filter_map(|row| row.figures[measure]).collect();
            SweepFigure::of(&all)
        };
        let number = |field: usize| {
            let all = counted.iter().filter_map(|row| row.numbers[field]);
            SweepNumber::of(all.collect())
        };
        Self {
            values,
            repetitions: counted.len(),
            of: rows.len(),
            figures: (0..measures).map(figure).collect(),
            numbers: (0..fields).map(number).collect(),
        }
    }
}

/// What the interval of so many repetitions is worth: 95 % where they are enough; from the least to the most of fewer,
/// the median lies beyond if all lie on one side of it.
fn confidence(repetitions: usize) -> Option<u32> {
    let exact = Quantile::MEDIAN.ranks(repetitions, Confidence::P95);
    match (exact.lo.zip(exact.hi), repetitions) {
        (Some(_), _) => Some(950_000),
        (None, ..2) => None,
        (None, few) => Some(1_000_000 - (2_000_000 >> few)),
    }
}

/// Between which ranks of so many repetitions the median of all lies: from the first to the last of few.
fn ends(repetitions: usize) -> [usize; 2] {
    let ranks = Quantile::MEDIAN.ranks(repetitions, Confidence::P95);
    ranks.lo.zip(ranks.hi).map_or([1, repetitions], |(lo, hi)| [lo, hi])
}

impl SweepNumber {
    fn of(mut all: Vec<PrintedNumber>) -> Option<Self> {
        all.sort_by(PrintedNumber::order);
        let at = |rank: usize| all.get(rank.checked_sub(1)?).copied();
        let [first, last] = ends(all.len());
        Some(Self {
            value: at(Quantile::MEDIAN.rank(all.len())?)?,
            lo: at(first)?,
            hi: at(last)?,
            confidence_per_million: confidence(all.len()),
            repetitions: all.len(),
        })
    }
}

impl SweepFigure {
    fn of(all: &[TrialFigure]) -> Option<Self> {
        let [first, last] = ends(all.len());
        let at = |rank: usize, of: fn(&TrialFigure) -> Option<i64>, unbound: i64| {
            let mut values: Vec<i64> = all.iter().map(|one| of(one).unwrap_or(unbound)).collect();
            let value = *values.select_nth_unstable(rank.checked_sub(1)?).1;
            Some(value).filter(|value| *value != unbound)
        };
        let ticks = |rank: usize| at(rank, |one| Some(one.ticks), i64::MAX);
        Some(Self {
            ticks: ticks(Quantile::MEDIAN.rank(all.len())?)?,
            lo_ticks: at(first, |one| one.lo_ticks, i64::MIN),
            hi_ticks: at(last, |one| one.hi_ticks, i64::MAX),
            spread_lo_ticks: ticks(first)?,
            spread_hi_ticks: ticks(last)?,
            confidence_per_million: confidence(all.len()),
            repetitions: all.len(),
            count: all.iter().map(|one| one.count).fold(0, u64::saturating_add),
            lost: all.iter().map(|one| one.lost).fold(0, u64::saturating_add),
            keys_with_few: all.iter().filter_map(|one| one.keys_with_few).max(),
            keys: all.iter().filter_map(|one| one.keys).min(),
            keys_of: all.iter().filter_map(|one| one.keys_of).max(),
        })
    }
}

impl SweepTrial {
    fn of(sweep: &SweepManifest, trial: &TrialRecord) -> Self {
        let (state, why) = match trial.state {
            TrialState::Missing => ("missing", Some("it is still to be made".into())),
            TrialState::Begun => ("missing", Some("it goes on, or was cut off".into())),
            TrialState::Made => ("made", None),
            TrialState::Failed => ("failed", trial.why.clone()),
        };
        Self {
            number: trial.number,
            repetition: trial.repetition,
            values: values(sweep, &trial.point),
            folder: trial.folder.clone(),
            state,
            why,
            code: if state == "missing" { 1 } else { trial.code },
            dropped: 0,
            figures: vec![None; sweep.measures.len()],
            left_out: Vec::new(),
            numbers: vec![None; sweep.fields.len()],
        }
    }

    /// Takes in what the trial's run says; what it finds wrong keeps it out of the figures.
    fn take(&mut self, measured: Result<Measured, Error>) {
        match measured {
            Ok(Measured { figures, left_out, numbers, dropped, lacks, .. }) => {
                (self.figures, self.left_out, self.dropped) = (figures, left_out, dropped);
                self.numbers = numbers.into_iter().map(|one| one.map(Printed::number)).collect();
                if let Some(first) = lacks.first() {
                    let all: Vec<String> = lacks.iter().map(ToString::to_string).collect();
                    (self.code, self.why) = (first.code(), Some(all.join("; ")));
                }
            }
            Err(why) => (self.state, self.code, self.why) = ("invalid", why.code(), Some(why.to_string())),
        }
    }

    /// Returns whether it is in the figures of its point.
    pub fn is_counted(&self) -> bool {
        self.state == "made"
    }
}

/// A trial's run, if it may be asked for figures.
pub(crate) struct TrialRun {
    pub ready: ReadyRun,
    pub analysis: Analysis,
    pub events: Vec<Event>,
}

impl TrialRun {
    /// The run in that folder, which is to be the one of that name; neither damaged nor a finding, nor called invalid
    /// by a program of its own.
    pub fn of(root: &Path, query: &Query, named: Option<&str>) -> Result<Self, Error> {
        let run = Run::open(root)?;
        let found = TrialRecord::run_name(run.manifest());
        if let Some(named) = named.filter(|named| *named != found) {
            return Err(Error::work(format!(
                "expected run {named}, found run {found} in its folder {}. Put the trial's own run back",
                root.display()
            )));
        }
        if let Some(fault) = run.faults()?.into_iter().next() {
            return Err(fault.into());
        }
        let ready = ready(run, None)?;
        let mut analysis = analyse(&ready.run, query, false)?;
        if let Some(fault) = std::mem::take(&mut analysis.refused).into_iter().next() {
            return Err(fault.into());
        }
        let events = ready.run.events()?.found;
        analysis.standing(&events)?;
        expect_valid(&events)?;
        Ok(Self { ready, analysis, events })
    }
}

/// What a trial's run says.
struct Measured {
    reference: Reference,
    figures: Vec<Option<TrialFigure>>,
    left_out: Vec<KeysLeftOut>,
    numbers: Vec<Option<Printed>>,
    dropped: u64,
    /// Which limits it does not keep, and which measures and numbers it lacks; it counts, however that is.
    lacks: Vec<Error>,
}

impl Measured {
    fn of(root: &Path, sweep: &SweepManifest, query: &Query, named: Option<&str>) -> Result<Self, Error> {
        let TrialRun { ready, analysis, events } = TrialRun::of(root, query, named)?;
        let run = &ready.run;
        let (mut quantiles, mut figures, mut left_out, mut aged) = (0, Vec::new(), Vec::new(), None);
        let mut lacks = Vec::from_iter(analysis.expect_limits(&events).err());
        for measure in &sweep.measures {
            let found = match measure {
                Measure::Stage { stage, .. } => {
                    quantiles += 1;
                    of_stage(run, &analysis, stage, quantiles - 1)
                }
                Measure::Age { age: points, of, key } => ages(run, query, points, &mut aged).and_then(|found| {
                    let figure = of_age(found, *of, *key)?;
                    left_out.extend(key.is_none().then(|| keys_left_out(figures.len(), found)).into_iter().flatten());
                    Ok(figure)
                }),
            };
            // What one measure lacks takes no other away: points that are overloaded would keep survivors alone.
            figures.push(match found {
                Err(why) if why.is_finding() => return Err(why),
                Err(why) => {
                    lacks.push(Error::of_code(why.code(), format!("no {measure}: {why}")));
                    None
                }
                Ok(found) => Some(found),
            });
        }
        let mut numbers = Vec::new();
        for field in &sweep.fields {
            let found = printed(&events, field);
            numbers.push(found.map_err(|why| lacks.push(Error::work(format!("no {field}: {why}")))).ok());
        }
        let channels = run.channels()?.found;
        let dropped = channels.iter().map(|channel| channel.dropped.unsigned_abs()).fold(0, u64::saturating_add);
        Ok(Self { reference: Reference::of(run)?, figures, left_out, numbers, dropped, lacks })
    }

    /// The same without numbers of another type than `types`, those of earlier trials, to which its own are added.
    fn of_types(mut self, types: &mut [Option<Printed>], fields: &[PrintedField]) -> Self {
        for ((number, first), field) in self.numbers.iter_mut().zip(types).zip(fields) {
            let Some(found) = *number else { continue };
            if let Err(why) = found.like(*first.get_or_insert(found)) {
                self.lacks.push(Error::work(format!("no {field}: {why}")));
                *number = None;
            }
        }
        self
    }

    /// The same in ticks of another reference.
    fn by(self, reference: &Reference) -> Self {
        let scale = self.reference.scale(reference, self.reference.is_one_with(reference));
        let of = |found: TrialFigure| {
            let TrialFigure { ticks, lo_ticks, hi_ticks, .. } = found;
            let ends = scale.of(Ends { ticks, lo: lo_ticks.unwrap_or(ticks), hi: hi_ticks.unwrap_or(ticks) });
            let (lo_ticks, hi_ticks) = (lo_ticks.map(|_| ends.lo), hi_ticks.map(|_| ends.hi));
            TrialFigure { ticks: ends.ticks, lo_ticks, hi_ticks, ..found }
        };
        Self { figures: self.figures.into_iter().map(|one| one.map(of)).collect(), ..self }
    }
}

/// Refuses a trial whose own programs say that it tells nothing: the last line of one is JSON with `"valid": false`.
/// One that begins as JSON and cannot be read may have said so.
fn expect_valid(events: &[Event]) -> Result<(), Error> {
    for (program, line) in last_lines(events).filter(|(_, line)| line.trim_start().starts_with('{')) {
        let said: Value = serde_json::from_str(line).map_err(|e| {
            Error::work(format!(
                "expected JSON as the last line of {program}, which begins with {{, found: {e}. Correct what it \
                 prints: it may say that the trial is not valid"
            ))
        })?;
        match said.get("valid") {
            None | Some(Value::Null | Value::Bool(true)) => {}
            Some(Value::Bool(false)) => {
                return Err(Error::work(format!("{program} says that the trial is not valid: {}", said["why"])));
            }
            Some(found) => {
                return Err(Error::work(format!(
                    "expected true, false or null as \"valid\" of {program}, found {found}. Correct what it prints"
                )));
            }
        }
    }
    Ok(())
}

/// Last lines of a run's programs.
fn last_lines(events: &[Event]) -> impl Iterator<Item = (&str, &str)> {
    events
        .iter()
        .filter(|event| event.what == EventKind::Target)
        .filter_map(|event| event.text.split_once(" printed: "))
}

/// What programs of a run say at their ends: their last lines, where these are JSON.
fn said(events: &[Event]) -> impl Iterator<Item = (&str, Value)> {
    last_lines(events).filter_map(|(program, line)| Some((program, serde_json::from_str(line).ok()?)))
}

/// The largest share of its time for which a program says that it was blocked, in a million; `None`: none says it.
pub(crate) fn blocked_ppm(events: &[Event]) -> Result<Option<u32>, Error> {
    let shares = said(events).filter_map(|(program, said)| Some((program, said.get("blocked_share")?.as_f64()?)));
    shares.map(of_a_million).try_fold(None, |most, found| Ok(most.max(Some(found?))))
}

fn of_a_million((program, share): (&str, f64)) -> Result<u32, Error> {
    if (0.0..=1.0).contains(&share) {
        return Ok((1e6 * share).ceil() as u32);
    }
    Err(Error::work(format!(
        "expected a blocked_share from 0 to 1 of {program}, found {share}. Correct what it prints"
    )))
}

/// A quantile of a stage, which is that of the trial's own table.
fn of_stage(run: &Run, analysis: &Analysis, stage: &str, quantile: usize) -> Result<TrialFigure, Error> {
    let row = &analysis.rows[run.layout()?.stage_named(stage).map_err(Error::work)?];
    let found = row.quantiles.get(quantile).ok_or_else(|| Error::work("no trace has both of its stamps"))?;
    Ok(TrialFigure {
        ticks: found.estimate,
        lo_ticks: Some(found.lo),
        hi_ticks: Some(found.hi),
        count: row.count,
        lost: row.missing,
        keys_with_few: None,
        keys: None,
        keys_of: None,
    })
}

/// Ages between two points of a run; those in `aged` are not looked for again.
fn ages<'a>(
    run: &Run,
    query: &Query,
    [from, to]: &[Place; 2],
    aged: &'a mut Option<(AgeQuery, Age)>,
) -> Result<&'a Age, Error> {
    let asked = AgeQuery { from: from.clone(), to: to.clone(), key: None, limit_ns: None };
    let (_, found) = match aged.take().filter(|(known, _)| *known == asked) {
        Some(known) => aged.insert(known),
        None => {
            let found = age(&Scan::of(run, query)?, &asked)?;
            aged.insert((asked, found))
        }
    };
    found.findings.first().map_or(Ok(&*found), |finding| Err(Error::finding(finding)))
}

/// An age over all keys, or of one.
fn of_age(found: &Age, of: AgeFigure, key: Option<i64>) -> Result<TrialFigure, Error> {
    let of_key = key.map(|key| {
        found.keys.iter().find(|one| one.key == Some(key)).ok_or_else(|| {
            let keys = counted(found.keys.len(), "key");
            Error::work(format!("expected updates of key {key}, found none among those of {keys}. Ask for another key"))
        })
    });
    let of_key = of_key.transpose()?;
    let span = of_key.map_or(found.over_keys, |one| one.ages).and_then(|ages| match of {
        AgeFigure::Average => Some(ages.average),
        AgeFigure::Peak => ages.peak,
        AgeFigure::WithoutDelay => ages.without_delay,
        AgeFigure::Excess => ages.excess,
    });
    let updates = found.updates;
    let [count, lost] = of_key.map_or([updates.received, updates.lost], |one| [one.received, one.lost]);
    let few = of_key.map(|one| usize::from(one.effective + one.obsolete < FEW_UPDATES));
    let AgeSpan { estimate_ticks: ticks, lo_ticks, hi_ticks } =
        span.ok_or_else(|| Error::work("too few updates were received"))?;
    let keys_with_few = Some(few.unwrap_or(found.keys_with_few));
    let of_all = |keys: usize| key.is_none().then_some(keys);
    let [keys, keys_of] = [found.counted_keys, found.keys.len() + found.keys_left_out].map(of_all);
    Ok(TrialFigure { ticks, lo_ticks, hi_ticks, count, lost, keys_with_few, keys, keys_of })
}

/// Keys that are in no mean over keys, by reason.
fn keys_left_out(measure: usize, found: &Age) -> impl Iterator<Item = KeysLeftOut> {
    [NoAge::Late, NoAge::NeverReceived].into_iter().filter_map(move |why| {
        let keys: Vec<Option<i64>> = found.keys_without(why).collect();
        let named = keys.iter().take(MOST_NAMED).copied().collect();
        (!keys.is_empty()).then_some(KeysLeftOut { measure, why, key: found.key, keys: keys.len(), named })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(ticks: i64, reach: Option<i64>) -> TrialFigure {
        let (lo_ticks, hi_ticks) = (reach.map(|reach| ticks - reach), reach.map(|reach| ticks + reach));
        TrialFigure { ticks, lo_ticks, hi_ticks, count: 10, lost: 1, keys_with_few: None, keys: None, keys_of: None }
    }

    fn of(all: &[TrialFigure]) -> SweepFigure {
        SweepFigure::of(all).unwrap()
    }

    #[test]
    fn a_point_is_the_median_of_its_repetitions_between_the_least_and_the_most_of_few() {
        let found = of(&[figure(30, Some(1)), figure(10, Some(5)), figure(20, Some(100))]);
        assert_eq!((found.ticks, found.spread_lo_ticks, found.spread_hi_ticks), (20, 10, 30));
        // Of three lower ends -80, 5 and 29 the least, of three upper ends 15, 31 and 120 the most.
        assert_eq!((found.lo_ticks, found.hi_ticks), (Some(-80), Some(120)));
        assert_eq!((found.count, found.lost, found.repetitions), (30, 3, 3));
        assert_eq!(SweepFigure::of(&[]), None);
    }

    #[test]
    fn a_mean_over_keys_is_of_the_fewest_of_a_repetition() {
        let of_keys = |keys, of| TrialFigure { keys: Some(keys), keys_of: Some(of), ..figure(10, Some(1)) };
        let found = of(&[of_keys(1000, 1000), of_keys(417, 1000), of_keys(999, 999)]);
        assert_eq!((found.keys, found.keys_of), (Some(417), Some(1000)));
        assert_eq!(of(&[figure(10, None)]).keys, None);
    }

    #[test]
    fn the_interval_of_few_is_worth_what_the_chance_of_all_on_one_side_leaves() {
        let worth = [0, 1, 2, 3, 4, 5, 6, 7, 50].map(confidence);
        let few = [None, None, Some(500_000), Some(750_000), Some(875_000), Some(937_500)];
        assert_eq!(worth[..6], few);
        assert_eq!(worth[6..], [Some(950_000); 3]);
    }

    #[test]
    fn of_many_repetitions_the_extremes_are_outside() {
        let all: Vec<TrialFigure> = (1..=20).map(|ticks| figure(ticks, Some(0))).collect();
        // Binomial (20, 1/2): the ranks 6 and 15 leave 2.07 % on each side, 7 and 14 would leave 5.8 %.
        let found = of(&all);
        assert_eq!((found.ticks, found.lo_ticks, found.hi_ticks), (10, Some(6), Some(15)));
    }

    #[test]
    fn a_last_line_that_may_call_its_trial_invalid_refuses_it() {
        let of = |line: &str| {
            let text = format!("command of a printed: {line}");
            let why = expect_valid(&[Event { what: EventKind::Target, text, ..Event::default() }]);
            why.map_err(|why| why.to_string())
        };
        for line in ["done", "{\"n\": 1}", "{\"valid\": true}", "{\"valid\": null}", "[{\"valid\": false}]"] {
            assert_eq!(of(line), Ok(()), "{line}");
        }
        for (line, why) in [
            ("{\"valid\": false, \"why\": \"late\"}", "is not valid: \"late\""),
            (" {\"x\": nan, \"valid\": false}", "expected JSON as the last line of command of a"),
            ("{\"valid\": \"false\"}", "expected true, false or null as \"valid\" of command of a, found \"false\""),
        ] {
            let told = of(line).unwrap_err();
            assert!(told.contains(why), "{line}: {told}");
        }
    }

    #[test]
    fn an_end_that_nothing_bounds_is_none_and_never_a_number() {
        let found = of(&[figure(10, None), figure(20, Some(1))]);
        assert_eq!((found.lo_ticks, found.hi_ticks, found.spread_lo_ticks), (None, None, 10));
        let mut all: Vec<TrialFigure> = (1..=20).map(|ticks| figure(ticks, Some(0))).collect();
        all[19] = figure(20, None);
        assert_eq!((of(&all).lo_ticks, of(&all).hi_ticks), (Some(5), Some(15)), "one end of 20 moves a rank by one");
    }
}
