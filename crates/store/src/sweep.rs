//! A sweep's folder: `sweep.json`, which says what was to be measured and what became of each trial, and a run a trial.
//!
//! Assumes: one process at a time adds trials. Guarantees: `sweep.json` is whole at every moment; a trial whose state
//! is *begun* though nobody measures was cut off. Deliberately absent: what a trial says, which is in its run.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tickscope_tick::{NodeName, Place, printable};

use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::whole_file::{read_text, write_whole};

/// The version of `sweep.json` that this crate writes, and the latest that it reads.
const VERSION: u32 = 1;
/// Bytes of a `sweep.json`; a longer one is none.
const MOST_BYTES: u64 = 64 << 20;
const NAME: &str = "sweep.json";

/// What a sweep is, and how far it is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SweepManifest {
    /// Version of this file.
    pub sweep: u32,
    /// What its run file calls it.
    pub name: String,
    /// The text of the run file that it was begun by.
    pub run_file: String,
    /// That file; `None`: it was read from standard input.
    pub run_file_place: Option<PathBuf>,
    /// Where its paths start from.
    pub run_file_directory: PathBuf,
    /// Seconds that were asked for instead of the run file's.
    pub seconds: Option<f64>,
    /// The window of stamps to keep that was asked for, instead of the run file's.
    pub keep_ms: Option<u64>,
    /// The first is what figures have from left to right.
    pub parameters: Vec<SweepParameter>,
    /// Trials of each point.
    pub repetitions: u32,
    /// The order of trials.
    pub order: SweepOrder,
    /// What a random order was drawn by.
    pub seed: u32,
    /// What is taken from each trial.
    pub measures: Vec<Measure>,
    /// Numbers that are taken from what its programs print of themselves.
    #[serde(default)]
    pub fields: Vec<PrintedField>,
    /// In the order in which they are made.
    pub trials: Vec<TrialRecord>,
}

/// What takes several values.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SweepParameter {
    /// The word between braces in the run file.
    pub name: String,
    /// Its values, in the order of the run file.
    pub values: Vec<ParameterValue>,
}

impl SweepParameter {
    /// Names and values of the parameters at a point.
    pub fn at<'a>(parameters: &'a [Self], point: &'a [usize]) -> impl Iterator<Item = (&'a str, &'a ParameterValue)> {
        parameters.iter().zip(point).map(|(of, &at)| (of.name.as_str(), &of.values[at]))
    }

    /// `rate = 4000, lock = spin`.
    pub fn told(parameters: &[Self], point: &[usize]) -> String {
        let all: Vec<String> = Self::at(parameters, point).map(|(name, value)| format!("{name} = {value}")).collect();
        printable(&all.join(", ")).into_owned()
    }
}

/// A value of a parameter.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ParameterValue {
    /// True or false.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// Another number.
    Number(f64),
    /// Text.
    Text(String),
}

impl ParameterValue {
    /// Where it lies on an axis; `None`: it is no number.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(number) => Some(*number as f64),
            Self::Number(number) => Some(*number),
            Self::Flag(_) | Self::Text(_) => None,
        }
    }
}

impl Display for ParameterValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Integer(number) => number.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// The order in which trials are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SweepOrder {
    /// Each repetition goes through all points in an order of its own.
    #[default]
    Random,
    /// Each repetition goes through all points as the run file has them.
    Given,
}

/// What is taken from each trial.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Measure {
    /// A quantile of a stage.
    Stage {
        /// Its name.
        stage: String,
        /// The share of its traces, from 0 to 1.
        quantile: f64,
    },
    /// An age between two points, over all keys.
    Age {
        /// Where updates are generated, and where they are received.
        age: [Place; 2],
        /// Which age.
        #[serde(default)]
        of: AgeFigure,
        /// The key whose age it is; `None`: the mean over keys.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<i64>,
    },
}

/// A number in the last line of a trial's command, a JSON object: as the program has it, without a bound.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrintedField {
    /// Its name there; `a.b` is the field `b` of the object `a`.
    pub field: String,
    /// The node whose command prints it; `None`: one of them does.
    pub node: Option<NodeName>,
    /// Its unit; `None`: it has none, or nobody named it.
    pub unit: Option<String>,
}

impl Display for PrintedField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.field)?;
        self.node.as_ref().map_or(Ok(()), |node| write!(f, " of {node}"))
    }
}

/// Which age is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgeFigure {
    /// Over time.
    #[default]
    Average,
    /// Right before an update lowers it.
    Peak,
    /// The average if every update had been received when it was generated.
    WithoutDelay,
    /// How much of the average is beyond that.
    Excess,
}

impl AgeFigure {
    fn word(self) -> &'static str {
        match self {
            Self::Average => "average",
            Self::Peak => "peak",
            Self::WithoutDelay => "without delay",
            Self::Excess => "excess",
        }
    }
}

impl Measure {
    /// The quantile in parts per million, of a stage.
    pub fn quantile_per_million(quantile: f64) -> u32 {
        (quantile * 1e6).round() as u32 // of a share, which was checked
    }
}

impl Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stage { stage, quantile } => {
                write!(f, "p{} {stage}", f64::from(Self::quantile_per_million(*quantile)) / 1e4)
            }
            Self::Age { age: [from, to], of, key } => {
                write!(f, "age {from} {to}, {}", of.word())?;
                key.map_or(Ok(()), |key| write!(f, " of key {key}"))
            }
        }
    }
}

/// One trial.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TrialRecord {
    /// From 1, in the order in which they are made.
    pub number: u32,
    /// From 1.
    pub repetition: u32,
    /// For each parameter, which of its values it has.
    pub point: Vec<usize>,
    /// How far it is.
    pub state: TrialState,
    /// Its run, below the sweep's folder.
    pub folder: Option<String>,
    /// Id of that run; `None`: there is none, or a tickscope before this key wrote it.
    #[serde(default)]
    pub run: Option<String>,
    /// Why it failed.
    pub why: Option<String>,
    /// Exit code that says so.
    pub code: u8,
}

/// How far a trial is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrialState {
    /// It is still to be made.
    Missing,
    /// It goes on, or was cut off.
    Begun,
    /// It was measured to its end.
    Made,
    /// It was, and something went wrong.
    Failed,
}

impl TrialRecord {
    /// One that is still to be made.
    pub fn missing(number: u32, repetition: u32, point: Vec<usize>) -> Self {
        let (state, folder, run, why, code) = (TrialState::Missing, None, None, None, 0);
        Self { number, repetition, point, state, folder, run, why, code }
    }

    /// What [`Self::run`] says of a run.
    pub fn run_name(manifest: &Manifest) -> String {
        format!("{:016x}", manifest.run)
    }
}

impl SweepManifest {
    /// The version that is written.
    pub const VERSION: u32 = VERSION;

    /// Returns whether a folder is a sweep's.
    pub fn is_at(root: &Path) -> bool {
        root.join(NAME).exists()
    }

    /// Reads `sweep.json` of that folder.
    pub fn read(root: &Path) -> Result<Self> {
        let place = root.join(NAME);
        let text = read_text(&place, MOST_BYTES).map_err(|e| Error::io(&place, "read", e))?;
        let wrong = |found: String| Error::foreign(&place, "the sweep.json of a sweep", found);
        let value: serde_json::Value = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        match value.get("sweep").and_then(serde_json::Value::as_u64) {
            Some(version) if version > u64::from(VERSION) => {
                Err(Error::newer(&place, "a sweep of version", VERSION, version))
            }
            Some(_) => {
                let sweep: Self = serde_json::from_value(value).map_err(|e| wrong(e.to_string()))?;
                sweep.check().map_err(wrong)?;
                Ok(sweep)
            }
            None => Err(wrong("none of its keys".into())),
        }
    }

    /// Refuses points that no parameter has, and folders that lie elsewhere: whoever wrote it may be anybody.
    fn check(&self) -> std::result::Result<(), String> {
        let is_known = |point: &[usize]| {
            let of_each = point.iter().zip(&self.parameters);
            point.len() == self.parameters.len() && of_each.into_iter().all(|(&at, of)| at < of.values.len())
        };
        let is_below = |folder: &str| !folder.is_empty() && !folder.contains('/') && !folder.starts_with('.');
        let unfit = self
            .trials
            .iter()
            .find(|trial| !is_known(&trial.point) || trial.folder.as_deref().is_some_and(|folder| !is_below(folder)));
        unfit.map_or(Ok(()), |trial| Err(format!("trial {} of no point, or in a folder elsewhere", trial.number)))
    }

    /// Writes it, whole.
    pub fn write(&self, root: &Path) -> Result<()> {
        let mut text = serde_json::to_string_pretty(self).expect("its keys are text");
        text.push('\n');
        write_whole(&root.join(NAME), text.as_bytes())
    }

    /// The values at a point, in words.
    pub fn told(&self, point: &[usize]) -> String {
        SweepParameter::told(&self.parameters, point)
    }

    /// How many trials are as `state` says.
    pub fn count(&self, state: TrialState) -> usize {
        self.trials.iter().filter(|trial| trial.state == state).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn sweep() -> SweepManifest {
        let values = vec![ParameterValue::Integer(1), ParameterValue::Number(2.0), ParameterValue::Text("3".into())];
        let trial = TrialRecord {
            number: 1,
            repetition: 1,
            point: vec![2],
            state: TrialState::Made,
            folder: Some("trial-0001".into()),
            run: Some("7f".into()),
            why: None,
            code: 0,
        };
        SweepManifest {
            sweep: VERSION,
            name: "t".into(),
            run_file: "text".into(),
            run_file_place: None,
            run_file_directory: "/".into(),
            seconds: None,
            keep_ms: Some(5000),
            parameters: vec![SweepParameter { name: "rate".into(), values }],
            repetitions: 1,
            order: SweepOrder::Random,
            seed: u32::MAX,
            measures: vec![
                Measure::Stage { stage: "end-to-end".into(), quantile: 0.999 },
                Measure::Age {
                    age: ["a.x", "a.y"].map(|place| place.parse().unwrap()),
                    of: AgeFigure::Peak,
                    key: Some(-1),
                },
            ],
            fields: vec![PrintedField { field: "drops.data".into(), node: Some("a".parse().unwrap()), unit: None }],
            trials: vec![trial],
        }
    }

    #[test]
    fn a_sweep_is_read_as_it_was_written_and_values_keep_their_types() {
        let (root, sweep) = (Scratch::new(), sweep());
        sweep.write(root.path()).unwrap();
        assert!(SweepManifest::is_at(root.path()) && SweepManifest::read(root.path()).unwrap() == sweep);
        assert_eq!(sweep.told(&[1]), "rate = 2");
    }

    #[test]
    fn points_and_folders_that_are_none_of_a_sweep_and_later_versions_are_refused() {
        let (root, whole) = (Scratch::new(), sweep());
        let refused = |change: &dyn Fn(&mut SweepManifest)| {
            let mut sweep = whole.clone();
            change(&mut sweep);
            sweep.write(root.path()).unwrap();
            SweepManifest::read(root.path()).unwrap_err()
        };
        for folder in ["../other", "", ".", "/etc"] {
            assert!(refused(&|sweep| sweep.trials[0].folder = Some(folder.into())).is_foreign(), "{folder}");
        }
        for point in [vec![3], vec![], vec![0, 0]] {
            assert!(refused(&|sweep| sweep.trials[0].point = point.clone()).is_foreign(), "{point:?}");
        }
        assert!(refused(&|sweep| sweep.sweep = VERSION + 1).is_newer());
    }
}
