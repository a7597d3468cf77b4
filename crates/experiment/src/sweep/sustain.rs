//! `[sustain]` of a run file, and the searches that it asks for: each trial an ordinary run, as those of a sweep.
//!
//! Idea: the rates that may be tried are the values of a sweep's one parameter, and `sweep.json` gets a trial when a
//! search asks for it. What is there already is judged again and told to the search, which is a state machine: so one
//! that was cut off goes on where it was. Guarantees: a trial is made once; the rates do not depend on what is found.
//! Deliberately absent: what decides (`tickscope_analysis::judged`) and which rate is next ([`Search`]).

use std::path::{Path, PathBuf};

use serde::Deserialize;
use tickscope_analysis::{SustainRule, SustainSearch, SustainTrial, SustainVerdict, Sustained, judged};
use tickscope_store::{ParameterValue, SweepManifest, TrialRecord, TrialState};
use tickscope_tick::{counted, printable};

use super::parameters::{MOST_TRIALS, ParameterPlan};
use super::plan::SweepPlan;
use super::search::{Goal, Search, SearchBounds, SustainMethod};
use super::{SweepSettings, Sweeping, begun, opened};
use crate::run_file::{RunText, within};
use crate::{Error, conductor, interrupt, notice};

/// A search for the highest rate that a run file's system sustains.
#[derive(Clone, Debug)]
pub struct SustainPlan {
    /// Its trials, as a sweep that has them made one by one.
    pub(crate) sweep: SweepPlan,
    /// How the next rate is chosen.
    pub method: SustainMethod,
    /// How often the whole search is made.
    pub searches: u32,
    goal: Goal,
    rule: SustainRule,
}

#[derive(Deserialize)]
struct File {
    sustain: Option<Section>,
    sweep: Option<toml::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    #[serde(default = "rate")]
    parameter: String,
    from: ParameterValue,
    to: ParameterValue,
    precision: Option<f64>,
    step: Option<f64>,
    #[serde(default)]
    method: SustainMethod,
    #[serde(default = "three")]
    searches: u32,
    #[serde(default = "three")]
    trials: u32,
    #[serde(default = "half")]
    exceed: f64,
    #[serde(default = "end_to_end")]
    stage: String,
    #[serde(default = "half_a_percent")]
    lost: f64,
    #[serde(default = "half_a_percent")]
    lag: f64,
    #[serde(default = "half_a_percent")]
    blocked: f64,
    #[serde(default = "counts")]
    growth: bool,
}

fn rate() -> String {
    "rate".into()
}

fn three() -> u32 {
    3
}

fn half() -> f64 {
    0.5
}

fn half_a_percent() -> f64 {
    0.005
}

fn counts() -> bool {
    true
}

fn end_to_end() -> String {
    "end-to-end".into()
}

impl Section {
    /// The rates that may be tried, the lowest first: whole numbers where both ends are.
    fn rates(&self) -> Result<Vec<ParameterValue>, String> {
        let ends = self.from.number().zip(self.to.number()).filter(|(from, to)| 0.0 < *from && from < to);
        let Some((from, to)) = ends.filter(|(_, to)| *to <= 1e15) else {
            let (from, to) = (&self.from, &self.to);
            return Err(format!(
                "expected numbers above 0, from below to, found from = {from}, to = {to}. Correct them"
            ));
        };
        let steps = match (self.precision, self.step) {
            (Some(_), Some(_)) => return Err("expected precision or step, found both. Leave one out".into()),
            (_, Some(step)) => {
                within("sustain.step", step, (to - from) / MOST_TRIALS as f64, to - from)?;
                (to - from) / step
            }
            (precision, None) => {
                let precision = precision.unwrap_or(0.01);
                within("sustain.precision", precision, 1e-4, 1.0)?;
                (to / from).ln() / precision.ln_1p()
            }
        };
        let steps = (steps - 1e-9).ceil();
        within("the number of rates, from to precision,", steps + 1.0, 2.0, MOST_TRIALS as f64)?;
        let rate = |step: u32| match self.step {
            Some(by) => (from + f64::from(step) * by).min(to),
            None if f64::from(step) == steps => to,
            None => from * (to / from).powf(f64::from(step) / steps),
        };
        let whole = matches!((&self.from, &self.to), (ParameterValue::Integer(_), ParameterValue::Integer(_)));
        let value = |rate: f64| match whole {
            true => ParameterValue::Integer(rate.round() as i64),
            false => ParameterValue::Number(rate),
        };
        let mut values: Vec<ParameterValue> = (0..=steps as u32).map(|step| value(rate(step))).collect();
        values.dedup();
        Ok(values)
    }
}

impl SustainPlan {
    /// The search of a run file; `None`: it has none.
    pub fn of(file: &RunText) -> Result<Option<Self>, Error> {
        let in_file = |why: String| Error::input(format!("{}: {why}", file.name));
        let told = |e: toml::de::Error| in_file(e.to_string().trim_end().to_owned());
        let File { sustain: Some(section), sweep } = toml::from_str(&file.text).map_err(told)? else { return Ok(None) };
        if sweep.is_some() {
            return Err(in_file("expected [sustain] or [sweep], found both. Leave one out".into()));
        }
        Self::checked(file, &section).map(Some).map_err(|why| in_file(format!("[sustain] {why}")))
    }

    fn checked(file: &RunText, section: &Section) -> Result<Self, String> {
        within("searches", section.searches.into(), 1.0, 100.0)?;
        within("trials", section.trials.into(), 1.0, 100.0)?;
        within("exceed", section.exceed, 0.0, 0.999)?;
        within("lost", section.lost, 0.0, 1.0)?;
        within("lag", section.lag, 0.0, 1000.0)?;
        within("blocked", section.blocked, 0.0, 1.0)?;
        let ppm = |share: f64| (share * 1e6).round() as u32; // of a share, which was checked
        let parameter = ParameterPlan::of_values(section.parameter.clone(), section.rates()?);
        Ok(Self {
            sweep: SweepPlan::of_search(file, parameter, &section.stage)
                .map_err(|why| why.replace("[[sweep.parameter]] ", "").replace("[sweep] measure", "stage"))?,
            method: section.method,
            searches: section.searches,
            goal: Goal { trials: section.trials, exceed_ppm: ppm(section.exceed) },
            rule: SustainRule {
                stage: section.stage.clone(),
                lost_ppm: ppm(section.lost),
                lag_ppm: ppm(section.lag),
                blocked_ppm: ppm(section.blocked),
                growth: section.growth,
            },
        })
    }

    fn rates(&self) -> &[ParameterValue] {
        &self.sweep.parameters[0].values
    }

    fn describe(&self) -> String {
        let (rates, name) = (self.rates(), &self.sweep.parameters[0].name);
        let ends = rates.first().zip(rates.last());
        let (first, last) = ends.expect("a parameter has values");
        format!(
            "searching by {}, {}: {name} = {first} to {last}, {}",
            self.method.word(),
            counted(self.searches, "time"),
            counted(rates.len(), "rate")
        )
    }
}

/// Where a search's trials go, and options that replace a run file's values.
#[derive(Clone, Debug)]
pub struct SustainSettings {
    /// The run file.
    pub plan: SustainPlan,
    /// The search's folder; `None`: the run file's, or `runs/NAME-TIME`.
    pub out: Option<PathBuf>,
    /// Seconds to measure in each trial; `None`: the run file's.
    pub seconds: Option<f64>,
}

/// Makes the trials that the searches of a run file ask for, but for those that are there. Their folder, and what was
/// found.
pub fn sustain(settings: &SustainSettings) -> Result<(PathBuf, Sustained), Error> {
    interrupt::catch();
    interrupt::catch_dump();
    let SustainSettings { plan, out, seconds } = settings.clone();
    let sweep = SweepSettings { plan: plan.sweep.clone(), out, seconds, keep: None };
    let root = sweep.root();
    conductor::say_orphans();
    conductor::say_unused(&sweep.plan.first);
    let (manifest, lock) = match SweepManifest::is_at(&root) {
        true => opened(&sweep, &root)?,
        false => begun(&sweep, &root)?,
    };
    notice::say(format!("{} in {}", plan.describe(), root.display()));
    let mut trials = Sweeping { settings: &sweep, root, sweep: manifest, _lock: lock, spent: Vec::new() };
    trials.set_aside()?;
    let mut searching = Searching { plan: &plan, trials, judged: Vec::new() };
    let found = (1..=plan.searches).map(|search| searching.search(search)).collect::<Result<Vec<_>, _>>()?;
    Ok((searching.trials.root.clone(), searching.found(found)))
}

/// Searches under way.
struct Searching<'a> {
    plan: &'a SustainPlan,
    trials: Sweeping<'a>,
    judged: Vec<SustainTrial>,
}

impl Searching<'_> {
    /// One search from its beginning to its end.
    fn search(&mut self, number: u32) -> Result<SustainSearch, Error> {
        let mut search = Search::new(self.plan.rates().len(), self.plan.method, self.plan.goal);
        let first = self.judged.len();
        while let Some(rate) = search.next() {
            let verdict = self.trial(number, rate)?;
            search.take(verdict);
        }
        Ok(self.told(number, search.interval(), first))
    }

    /// Makes the next trial, if it is not there, and judges it.
    fn trial(&mut self, search: u32, rate: usize) -> Result<SustainVerdict, Error> {
        let at = self.judged.len();
        self.expect_known(at, search, rate)?;
        if self.trials.sweep.trials[at].state == TrialState::Missing {
            if !interrupt::ended() {
                self.trials.make(at)?;
            }
            if interrupt::ended() {
                return Err(self.trials.interrupted());
            }
        }
        let record = &self.trials.sweep.trials[at];
        if record.state == TrialState::Failed && Error::of_code(record.code, "").code() == Error::input("").code() {
            return Err(Error::input(format!(
                "trial {}: {}",
                record.number,
                record.why.as_deref().unwrap_or_default()
            )));
        }
        let trial = judged(&self.trials.root, record, self.plan.rates()[rate].clone(), &self.plan.rule);
        notice::say(format!("{}: {}: {}", told(&self.trials.sweep, record), trial.verdict.word(), trial.why));
        let verdict = trial.verdict;
        self.judged.push(trial);
        Ok(verdict)
    }

    /// The record of that trial, which is new, or the one that this search has asked for before.
    fn expect_known(&mut self, at: usize, search: u32, rate: usize) -> Result<(), Error> {
        let trials = &mut self.trials.sweep.trials;
        match trials.get(at) {
            None => {
                let number = at as u32 + 1;
                trials.push(TrialRecord::missing(number, search, vec![rate]));
                Ok(())
            }
            Some(known) if (known.repetition, known.point.as_slice()) == (search, &[rate]) => Ok(()),
            Some(known) => Err(Error::input(format!(
                "cannot go on with {}: expected trial {} of search {search} at {}, found search {} at {}: \
                 it was begun with another --method, or what its trials hold has changed. Begin another with --out",
                self.trials.root.display(),
                known.number,
                self.plan.rates()[rate],
                known.repetition,
                self.plan.rates()[known.point[0]],
            ))),
        }
    }

    fn told(&self, search: u32, found: SearchBounds, first: usize) -> SustainSearch {
        let (rates, trials) = (self.plan.rates(), &self.judged[first..]);
        let of = |place: Option<usize>| place.map(|place| rates[place].clone());
        let why_of = |rate: &ParameterValue, verdict: &dyn Fn(SustainVerdict) -> bool| {
            let last = trials.iter().rev().find(|trial| trial.rate == *rate && verdict(trial.verdict));
            last.map_or(String::new(), |trial| format!("{}: {}", trial.verdict.word(), trial.why))
        };
        let SearchBounds { lower, upper, untold } = found;
        let why = match (lower, upper, untold) {
            (_, _, Some(rate)) => Some(format!(
                "cannot tell from {} on: {}",
                rates[rate],
                why_of(&rates[rate], &|verdict| verdict == SustainVerdict::Invalid)
            )),
            (None, Some(rate), _) => Some(format!(
                "never sustained, down to the lowest rate, {}: {}",
                rates[rate],
                why_of(&rates[rate], &|verdict| verdict > SustainVerdict::Sustained)
            )),
            (Some(rate), None, None) => Some(format!("not reached: the highest rate, {}, is sustained", rates[rate])),
            _ => None,
        };
        let lower = of(lower);
        let throughput = lower.as_ref().and_then(|rate| throughput(rate, trials, self.plan.goal));
        SustainSearch { search, lower, upper: of(upper), throughput, why, trials: trials.len() }
    }

    fn found(self, searches: Vec<SustainSearch>) -> Sustained {
        let [lower, upper] = together(self.plan.rates(), &searches);
        Sustained {
            name: self.trials.sweep.name.clone(),
            parameter: self.plan.sweep.parameters[0].name.clone(),
            method: self.plan.method.word(),
            lower,
            upper,
            why: searches.iter().find_map(|search| search.why.clone()),
            searches,
            trials: self.judged,
        }
    }
}

/// The conditional throughput of RFC 9971: what of a rate comes through in the worst of the trials that may not be left
/// out as exceeding.
fn throughput(rate: &ParameterValue, trials: &[SustainTrial], goal: Goal) -> Option<f64> {
    let of_rate = trials.iter().filter(|trial| trial.rate == *rate);
    let mut losses: Vec<u32> = of_rate.filter_map(SustainTrial::loss_ppm).collect();
    losses.sort_unstable();
    let left_out = losses.len() as u64 * u64::from(goal.exceed_ppm) / 1_000_000;
    let worst = losses.get(losses.len().checked_sub(1 + left_out as usize)?)?;
    Some(rate.number()? * (1.0 - f64::from(*worst) / 1e6))
}

/// The interval that holds that of each search; an end that one of them lacks is none.
fn together(rates: &[ParameterValue], searches: &[SustainSearch]) -> [Option<ParameterValue>; 2] {
    let place = |of: &Option<ParameterValue>| rates.iter().position(|rate| of.as_ref() == Some(rate));
    let all = |of: fn(&SustainSearch) -> &Option<ParameterValue>| {
        searches.iter().map(|search| place(of(search))).collect::<Option<Vec<usize>>>()
    };
    let lower = all(|search| &search.lower).and_then(|places| places.into_iter().min());
    let upper = all(|search| &search.upper).and_then(|places| places.into_iter().max());
    [lower, upper].map(|place| place.map(|place| rates[place].clone()))
}

/// `search 2, trial 7, rate = 4000`.
fn told(sweep: &SweepManifest, trial: &TrialRecord) -> String {
    let values = printable(&sweep.told(&trial.point)).into_owned();
    format!("search {}, trial {}, {values}", trial.repetition, trial.number)
}

/// What would be searched, and the plan of a trial at the lowest rate; nothing is run.
pub fn check_sustain(settings: &SustainSettings) -> Result<String, Error> {
    let SustainSettings { plan, out, seconds } = settings.clone();
    let sweep = SweepSettings { plan: plan.sweep.clone(), out, seconds, keep: None };
    let trial = sweep.trial(&[0], 1, sweep.root().join(super::folder(1)), String::new());
    Ok(format!("{}\nthe lowest rate's trial:\n{}", plan.describe(), conductor::check(&trial)?))
}

/// Tells whoever goes on with a folder of trials what goes on with a search.
pub(super) fn goes_on_by(root: &Path, file: &RunText) -> Error {
    Error::input(format!(
        "expected a sweep, found a search in {}. tickscope sustain {} --out {0} goes on with it",
        root.display(),
        file.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "run = { name = \"t\", seconds = 1 }\nclock.reference = \"a\"\n\
                        [layout]\npath = [\"a.x\", \"a.y\"]\n\
                        [[node]]\nname = \"a\"\nends_run = true\ncommand = [\"true\", \"{rate}\"]\n\
                        [sustain]\nfrom = 1000\nto = 2000\n";

    fn rates(sustain: &str) -> Vec<String> {
        let file = RunText { name: "t.toml".into(), place: None, text: format!("{TEXT}{sustain}"), folder: "/".into() };
        let plan = SustainPlan::of(&file).unwrap().unwrap();
        plan.rates().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rates_reach_from_end_to_end_each_at_most_the_precision_above_the_one_before() {
        let of_a_percent = rates("");
        assert_eq!((of_a_percent.len(), of_a_percent[0].as_str(), of_a_percent[70].as_str()), (71, "1000", "2000"));
        let numbers: Vec<f64> = of_a_percent.iter().map(|rate| rate.parse().unwrap()).collect();
        let steps = numbers.windows(2).map(|pair| pair[1] / pair[0]);
        assert!(steps.clone().all(|step| 1.0 < step && step < 1.011), "{:?}", steps.collect::<Vec<_>>());
        assert_eq!(rates("precision = 1.0"), ["1000", "2000"]);
        assert_eq!(rates("step = 300"), ["1000", "1300", "1600", "1900", "2000"]);
        assert_eq!(rates("step = 500"), ["1000", "1500", "2000"]);
    }

    #[test]
    fn the_throughput_is_the_rate_less_the_loss_of_the_worst_trial_that_counts() {
        let trial = |verdict, lost, backlog_ppm| SustainTrial {
            number: 1,
            search: 1,
            rate: ParameterValue::Integer(1_000),
            folder: None,
            verdict,
            why: String::new(),
            offered: Some(100),
            lost: Some(lost),
            backlog_ppm: Some(backlog_ppm),
            lag_ppm: None,
            blocked_ppm: None,
            delays: Vec::new(),
        };
        let (good, bad) = (trial(SustainVerdict::Sustained, 1, 2_000), trial(SustainVerdict::Dropped, 20, 0));
        let said_nothing = trial(SustainVerdict::Invalid, 50, 0);
        let shrunk = trial(SustainVerdict::Sustained, 0, -70_000);
        let of = |trials: &[SustainTrial], exceed_ppm| {
            throughput(&ParameterValue::Integer(1_000), trials, Goal { trials: 3, exceed_ppm })
        };
        assert_eq!(of(&[good.clone(), bad.clone(), shrunk.clone(), said_nothing], 500_000), Some(988.0));
        assert_eq!(of(&[good, bad, shrunk.clone()], 0), Some(800.0));
        assert_eq!(of(&[shrunk], 0), Some(1_000.0));
        assert_eq!(of(&[], 0), None);
    }

    #[test]
    fn the_interval_of_all_searches_holds_each_and_lacks_what_one_lacks() {
        let rates: Vec<ParameterValue> = (1..9).map(ParameterValue::Integer).collect();
        let search = |lower: Option<i64>, upper: Option<i64>| {
            let [lower, upper] = [lower, upper].map(|rate| rate.map(ParameterValue::Integer));
            SustainSearch { search: 1, lower, upper, throughput: None, why: None, trials: 1 }
        };
        let of =
            |searches: &[SustainSearch]| together(&rates, searches).map(|rate| rate.and_then(|rate| rate.number()));
        let all = [search(Some(4), Some(5)), search(Some(3), Some(4)), search(Some(5), Some(6))];
        assert_eq!(of(&all), [Some(3.0), Some(6.0)]);
        assert_eq!(of(&[search(Some(4), Some(5)), search(Some(3), None)]), [Some(3.0), None]);
        assert_eq!(of(&[search(None, Some(1)), search(Some(3), Some(4))]), [None, Some(4.0)]);
    }
}
