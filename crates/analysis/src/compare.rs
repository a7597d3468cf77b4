//! Runs before a change and runs after it: which stage changed, by how much, and how sure that is.
//!
//! Idea: each change has one interval of two parts, which are told apart. *Statistics*: with one run a side, how far
//! its quantiles may be off is read off contiguous blocks of the run ([`Quantile::series_ranks`]), and both sides add
//! up in squares (MOVER, Zou and Donner 2008); with several, one quantile a run goes into the shift of Hodges and
//! Lehmann and its exact interval ([`Comparison`]). *Clocks*: the bounds of both runs, common to all traces of a run,
//! so they are added to either end whole, and no number of traces makes them smaller. Assumes: runs of one side are of
//! one kind; a run is long against what its values have in common. Guarantees: the confidence is shared among all
//! figures of the table (Bonferroni), so that tables of two equal programs tell a change in at most one of twenty; the
//! clocks' part is never averaged. Deliberately absent: what differs from run to run, where there is one run a side.

use serde::Serialize;
use tickscope_stats::{Comparison, Confidence, Sample};
use tickscope_store::Run;
use tickscope_trace::{Layout, Quantile, StageRole};

use crate::error::Error;
use crate::public_json::role;
use crate::query::Query;

mod run_figures;
mod verdict;

pub(crate) use run_figures::Reference;
use run_figures::figures;
pub use run_figures::{Ends, RunFigure};
use verdict::enough_runs;
pub use verdict::{ChangeTolerance, ChangeVerdict, LimitedBy};

/// What all figures of a table together leave to chance, parts per million.
const CHANCE_PER_MILLION: u32 = 50_000;

/// Runs compared, stage by stage. Ticks of the reference of the first run before.
#[derive(Clone, Debug, Serialize)]
pub struct RunComparison {
    /// How many runs before and after.
    pub runs: [usize; 2],
    /// Ticks of a second.
    pub hertz: u64,
    /// Confidence that every interval of the table holds, parts per million.
    pub confidence_per_million: u32,
    /// The stages that all runs have, in the order of the first.
    pub stages: Vec<StageChange>,
    /// Stages that not all runs have, of the runs before and of those after.
    pub not_compared: [Vec<String>; 2],
    /// What to mind, in sentences.
    pub notes: Vec<String>,
}

/// One stage.
#[derive(Clone, Debug, Serialize)]
pub struct StageChange {
    /// Its name.
    pub stage: String,
    /// The place it starts at.
    pub from: String,
    /// The place it ends at.
    pub to: String,
    /// Its role in the layout.
    pub role: &'static str,
    /// A figure a quantile, in the order that was asked for.
    pub changes: Vec<QuantileChange>,
}

/// One quantile of a stage.
#[derive(Clone, Debug, Serialize)]
pub struct QuantileChange {
    /// `p99`.
    pub quantile: String,
    /// Before the change; `None`: no trace has the stage.
    pub before: Option<Level>,
    /// After it.
    pub after: Option<Level>,
    /// From the one to the other; positive: longer.
    pub shift: Option<Shift>,
    /// What can be said of it.
    #[serde(flatten)]
    pub verdict: ChangeVerdict,
}

/// A quantile of a run; of several runs that of the middle one, between the ends of all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Level {
    /// Of the estimates.
    pub ticks: i64,
    /// The true one is not below, as far as clocks go.
    pub lo_ticks: i64,
    /// The true one is not above, as far as clocks go.
    pub hi_ticks: i64,
    /// Traces in all.
    pub count: u64,
}

/// A change, and what it lies between.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Shift {
    /// Of the estimates.
    pub ticks: i64,
    /// Not below, clocks and statistics together; `None`: too little is known for a lower end.
    pub lo_ticks: Option<i64>,
    /// Not above.
    pub hi_ticks: Option<i64>,
    /// The lower end, if the clocks were exact.
    pub statistics_lo_ticks: Option<i64>,
    /// The upper end, if the clocks were exact.
    pub statistics_hi_ticks: Option<i64>,
    /// What the clocks of both sides take the lower end down by.
    pub clocks_below_ticks: u64,
    /// What they take the upper end up by.
    pub clocks_above_ticks: u64,
}

/// The stage of the path that changed most.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MostChanged {
    /// Index of the stage.
    pub stage: usize,
    /// Index of the quantile.
    pub quantile: usize,
    /// Other stages of the path whose change may be as large, as far as is known.
    pub perhaps: Vec<usize>,
}

/// Compares runs. `query.quantiles`: those that are compared, else the median and p99; `tolerance`: a change within it
/// is none.
pub fn compare(
    before: &[&Run],
    after: &[&Run],
    query: &Query,
    tolerance: Option<ChangeTolerance>,
) -> Result<RunComparison, Error> {
    let sides = [before, after];
    expect_runs(sides)?;
    let quantiles = match query.quantiles.as_slice() {
        [] => vec![Quantile::MEDIAN, Quantile::P99],
        asked => asked.to_vec(),
    };
    let (common, not_compared) = stages(sides)?;
    let confidence = confidence(common.len() * quantiles.len())?;
    let references = all(sides).map(Reference::of).collect::<Result<Vec<_>, _>>()?;
    let is_one = references.iter().all(|reference| reference.is_one_with(&references[0]));
    let of_run = |run: &Run| -> Result<Vec<Vec<Option<RunFigure>>>, Error> {
        let scale = Reference::of(run)?.scale(&references[0], is_one);
        let found = figures(run, query, &common, &quantiles, confidence)?;
        if found.iter().flatten().all(Option::is_none) {
            return Err(nothing_in(run));
        }
        Ok(found
            .into_iter()
            .map(|stage| stage.into_iter().map(|one| one.map(|one| one.by(&scale))).collect())
            .collect())
    };
    let of_side = |side: &[&Run]| side.iter().copied().map(of_run).collect::<Result<Vec<_>, _>>();
    let found = [of_side(before)?, of_side(after)?];
    let hertz = references[0].hertz;
    let changes = |stage: usize| {
        let of = |(at, &quantile): (usize, &Quantile)| -> Result<QuantileChange, Error> {
            let sides = [0, 1].map(|side| found[side].iter().map(|run| run[stage][at]).collect::<Vec<_>>());
            QuantileChange::of(name(quantile), &sides, confidence, tolerance.map(|of| (of, hertz)))
        };
        quantiles.iter().enumerate().map(of).collect::<Result<Vec<_>, _>>()
    };
    let stages = common.iter().enumerate().map(|(at, key)| {
        let StageKey { name: stage, from, to, role: its } = key.clone();
        Ok(StageChange { stage, from, to, role: role(its), changes: changes(at)? })
    });
    Ok(RunComparison {
        runs: sides.map(<[&Run]>::len),
        hertz,
        confidence_per_million: 1_000_000 - CHANCE_PER_MILLION,
        stages: stages.collect::<Result<_, Error>>()?,
        notes: notes(sides, &not_compared, is_one),
        not_compared,
    })
}

fn all<'a>(sides: [&'a [&'a Run]; 2]) -> impl Iterator<Item = &'a Run> + Clone {
    sides[0].iter().chain(sides[1]).copied()
}

/// Refuses what is no comparison: one run a side or several, and none twice.
fn expect_runs(sides: [&[&Run]; 2]) -> Result<(), Error> {
    match sides.map(<[&Run]>::len) {
        [1, 1] => {}
        [before, after] if before > 1 && after > 1 => {}
        [before, after] => {
            return Err(Error::input(format!(
                "expected one run before and one after, or several of each, found {before} and {after}. Runs differ \
                 from each other without any change, which takes several of both sides to tell"
            )));
        }
    }
    let runs: Vec<&Run> = all(sides).collect();
    for (at, run) in runs.iter().enumerate() {
        if let Some(same) = runs[..at].iter().find(|other| other.manifest().run == run.manifest().run) {
            return Err(Error::input(format!(
                "expected different runs, found one twice: {} and {} are the run {:016x}. Name another",
                same.root().display(),
                run.root().display(),
                run.manifest().run
            )));
        }
    }
    Ok(())
}

fn nothing_in(run: &Run) -> Error {
    Error::work(format!(
        "expected traces with the stages to compare, found none in {0}. tickscope show {0} says what is missing",
        run.root().display()
    ))
}

/// The stretch that a stage is, whatever the run.
#[derive(Clone, PartialEq, Eq, Debug)]
struct StageKey {
    name: String,
    from: String,
    to: String,
    role: StageRole,
}

impl StageKey {
    fn all(layout: &Layout) -> Vec<Self> {
        let place = |point: usize| layout.points()[point].place.to_string();
        let key = |stage: &tickscope_trace::Stage| {
            let (from, to) = (place(stage.from), place(stage.to));
            Self { name: stage.name.clone(), from, to, role: stage.role }
        };
        layout.stages().iter().map(key).collect()
    }

    fn is_stretch(&self, other: &Self) -> bool {
        (&self.name, &self.from, &self.to) == (&other.name, &other.from, &other.to)
    }

    /// Its name, and its ends where the name does not have them.
    fn spelt(&self) -> String {
        match self.role {
            StageRole::EndToEnd => format!("{} ({}>{})", self.name, self.from, self.to),
            _ => self.name.clone(),
        }
    }
}

/// The stages that all runs have, and those that some lack, by side.
fn stages(sides: [&[&Run]; 2]) -> Result<(Vec<StageKey>, [Vec<String>; 2]), Error> {
    let mut keys = [Vec::new(), Vec::new()];
    for (side, keys) in sides.iter().zip(&mut keys) {
        for run in *side {
            keys.push(StageKey::all(&run.layout()?));
        }
    }
    let runs: Vec<&Vec<StageKey>> = keys.iter().flatten().collect();
    let is_common = |key: &StageKey| runs.iter().all(|run| run.iter().any(|other| other.is_stretch(key)));
    let common: Vec<StageKey> = runs[0].iter().filter(|key| is_common(key)).cloned().collect();
    let others = |side: &Vec<Vec<StageKey>>| {
        let mut names: Vec<String> = Vec::new();
        for key in side.iter().flatten().filter(|key| !is_common(key)) {
            if !names.contains(&key.spelt()) {
                names.push(key.spelt());
            }
        }
        names
    };
    let not_compared = [others(&keys[0]), others(&keys[1])];
    if common.is_empty() {
        let [before, after] = not_compared.map(|names| names.join(", "));
        return Err(Error::input(format!(
            "expected runs that have a stage in common, found none: before {before}; after {after}. Ask both by one \
             layout with --layout FILE, or name other runs"
        )));
    }
    Ok((common, not_compared))
}

/// Of each figure, so that all of them hold together.
fn confidence(figures: usize) -> Result<Confidence, Error> {
    let chance = CHANCE_PER_MILLION / u32::try_from(figures).unwrap_or(u32::MAX);
    Confidence::per_million(1_000_000 - chance.max(1)).map_err(Error::work)
}

/// `p99.9`.
fn name(quantile: Quantile) -> String {
    let (whole, part) = (quantile.share() / 10_000, quantile.share() % 10_000);
    let digits = format!("{part:04}");
    match digits.trim_end_matches('0') {
        "" => format!("p{whole}"),
        part => format!("p{whole}.{part}"),
    }
}

fn notes(sides: [&[&Run]; 2], not_compared: &[Vec<String>; 2], is_one: bool) -> Vec<String> {
    let mut notes = Vec::new();
    for (names, side) in not_compared.iter().zip(["before", "after"]) {
        if !names.is_empty() {
            notes.push(format!("not compared, as not all runs have them: {side} {}", names.join(", ")));
        }
    }
    let began = |side: &[&Run]| side.iter().map(|run| run.manifest().started_unix_ms).collect::<Vec<_>>();
    let (before, after) = (began(sides[0]), began(sides[1]));
    if sides[0].len() == 1 {
        notes.push(
            "how much a run differs from the next without any change is in no interval of one run a side: give \
             several of each, interleaved, with --before and --after"
                .into(),
        );
    } else if before.iter().max() < after.iter().min() || after.iter().max() < before.iter().min() {
        notes.push(
            "all runs of one side began before those of the other: what changed on the machine meanwhile is in these \
             changes. Interleave them (before, after, before, after)"
                .into(),
        );
    }
    if !is_one {
        notes.push(
            "the runs' references are not one counter: how far their declared frequencies are off is part of the \
             clocks' bounds here"
                .into(),
        );
    }
    notes
}

impl QuantileChange {
    fn of(
        quantile: String,
        sides: &[Vec<Option<RunFigure>>; 2],
        confidence: Confidence,
        tolerance: Option<(ChangeTolerance, u64)>,
    ) -> Result<Self, Error> {
        let known = sides.each_ref().map(|side| side.iter().copied().flatten().collect::<Vec<RunFigure>>());
        let [before, after] = known.each_ref().map(|side| Level::of(side));
        let is_whole = known.iter().zip(sides).all(|(known, side)| known.len() == side.len());
        let shift = match known.each_ref().map(Vec::as_slice) {
            _ if !is_whole => None,
            [[before], [after]] => Some(Shift::between(before, after)),
            [before, after] => Some(Shift::of_runs(before, after, confidence)?),
        };
        let verdict = match (shift, before) {
            (Some(shift), Some(before)) => {
                ChangeVerdict::of(&shift, before.ticks, tolerance, LimitedBy::of_few(&known, confidence))
            }
            _ => ChangeVerdict::NotResolved { limited_by: LimitedBy::Missing, needs: None },
        };
        Ok(Self { quantile, before, after, shift, verdict })
    }
}

impl Level {
    fn of(runs: &[RunFigure]) -> Option<Self> {
        let mut ticks: Vec<i64> = runs.iter().map(|run| run.at.ticks).collect();
        Some(Self {
            ticks: Quantile::MEDIAN.of(&mut ticks)?,
            lo_ticks: runs.iter().map(|run| run.at.lo).min()?,
            hi_ticks: runs.iter().map(|run| run.at.hi).max()?,
            count: runs.iter().map(|run| run.count).sum(),
        })
    }
}

impl Shift {
    /// Between two runs.
    pub fn between(before: &RunFigure, after: &RunFigure) -> Self {
        let ticks = after.at.ticks.saturating_sub(before.at.ticks);
        let away = |one: Option<(u64, u64)>| one.map(|(a, b)| (a as f64).hypot(b as f64).ceil() as i64);
        let down = away(after.down_ticks().zip(before.up_ticks()));
        let up = away(after.up_ticks().zip(before.down_ticks()));
        let below = after.clocks_below().saturating_add(before.clocks_above());
        let above = after.clocks_above().saturating_add(before.clocks_below());
        let statistics = [down.map(|down| ticks.saturating_sub(down)), up.map(|up| ticks.saturating_add(up))];
        Self {
            ticks,
            lo_ticks: statistics[0].map(|end| end.saturating_sub_unsigned(below)),
            hi_ticks: statistics[1].map(|end| end.saturating_add_unsigned(above)),
            statistics_lo_ticks: statistics[0],
            statistics_hi_ticks: statistics[1],
            clocks_below_ticks: below,
            clocks_above_ticks: above,
        }
    }

    /// Between runs of both sides: the same ranks of the differences of all pairs, of the estimates, of the least that
    /// each may be, and of the largest.
    fn of_runs(before: &[RunFigure], after: &[RunFigure], confidence: Confidence) -> Result<Self, Error> {
        let samples = |runs: &[RunFigure]| {
            let of = |end: fn(&Ends) -> i64| Sample::new(&runs.iter().map(|run| end(&run.at)).collect::<Vec<_>>());
            Ok([of(|at| at.lo)?, of(|at| at.ticks)?, of(|at| at.hi)?])
        };
        let all = samples(before).and_then(|before| Ok([before, samples(after)?]));
        let [[before_lo, before, before_hi], [after_lo, after, after_hi]] =
            all.map_err(|why: tickscope_stats::Error| Error::work(why))?;
        let between = |before: &Sample, after: &Sample| {
            let compared = Comparison::new(before, after).map_err(Error::work)?;
            Ok::<_, Error>((compared.shift(), compared.shift_interval(confidence)))
        };
        let (shift, statistics) = between(&before, &after)?;
        let ((least, below), (most, above)) = (between(&before_hi, &after_lo)?, between(&before_lo, &after_hi)?);
        let reach = |all: Option<(i64, i64)>, shifts: f64| {
            all.map_or(shifts.max(0.0).ceil() as u64, |(statistics, all)| statistics.abs_diff(all))
        };
        Ok(Self {
            ticks: shift.round() as i64,
            lo_ticks: below.lo,
            hi_ticks: above.hi,
            statistics_lo_ticks: statistics.lo,
            statistics_hi_ticks: statistics.hi,
            clocks_below_ticks: reach(statistics.lo.zip(below.lo), shift - least),
            clocks_above_ticks: reach(statistics.hi.zip(above.hi), most - shift),
        })
    }

    /// The largest size that the change may have; `None`: nobody knows.
    pub fn most_ticks(&self) -> Option<u64> {
        Some(self.lo_ticks?.unsigned_abs().max(self.hi_ticks?.unsigned_abs()))
    }

    /// The least size that it has; 0 where it may be none.
    pub fn least_ticks(&self) -> u64 {
        let above = self.lo_ticks.filter(|&lo| lo > 0).map(i64::unsigned_abs);
        above.or(self.hi_ticks.filter(|&hi| hi < 0).map(i64::unsigned_abs)).unwrap_or(0)
    }
}

impl RunComparison {
    /// The stage of the path that changed most, at the first quantile at which one did. `None`: none did for sure.
    pub fn most_changed(&self) -> Option<MostChanged> {
        let quantiles = self.stages.first().map_or(0, |stage| stage.changes.len());
        let path = || self.stages.iter().enumerate().filter(|(_, stage)| stage.role == role(StageRole::Path));
        (0..quantiles).find_map(|quantile| {
            let shift = |stage: &StageChange| stage.changes[quantile].shift;
            let changed = path().filter(|(_, stage)| stage.changes[quantile].verdict == ChangeVerdict::Changed);
            let (most, first) =
                changed.max_by_key(|(_, stage)| shift(stage).map(|shift| shift.ticks.unsigned_abs()))?;
            let least = shift(first)?.least_ticks();
            let may_be_larger =
                |stage: &StageChange| shift(stage).and_then(|shift| shift.most_ticks()).is_none_or(|most| most > least);
            let perhaps = path().filter(|&(at, stage)| at != most && may_be_larger(stage)).map(|(at, _)| at);
            Some(MostChanged { stage: most, quantile, perhaps: perhaps.collect() })
        })
    }

    /// The fewest runs of each side by which all these figures have an interval of the spread from run to run.
    pub fn enough_runs(&self) -> Option<u64> {
        enough_runs(confidence(self.changes().count()).ok()?)
    }

    /// All figures, with the stage of each.
    pub fn changes(&self) -> impl Iterator<Item = (&StageChange, &QuantileChange)> {
        self.stages.iter().flat_map(|stage| stage.changes.iter().map(move |change| (stage, change)))
    }
}

#[cfg(test)]
mod tests;
