//! `[[sweep.parameter]]`: what takes several values, and the grid of all of them.

use serde::Deserialize;
use tickscope_store::{ParameterValue, SweepParameter};

/// Trials of a sweep, at most: a `sweep.json` is written again with each of them.
pub(crate) const MOST_TRIALS: u64 = 10_000;
/// The largest whole number up to which a float has each.
const MOST_EXACT: u64 = 1 << 53;
/// What commands have by themselves.
pub(crate) const OF_THE_RUN: [&str; 4] = ["address", "seconds", "run", REPETITION];
/// Which of a point's trials it is, from 1.
pub(crate) const REPETITION: &str = "repetition";

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ParameterPlan {
    pub name: String,
    values: Option<Vec<ParameterValue>>,
    from: Option<ParameterValue>,
    to: Option<ParameterValue>,
    steps: Option<u32>,
    scale: Option<Scale>,
}

/// How far the values between two ends are apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Scale {
    /// Evenly.
    Linear,
    /// By one factor.
    Logarithmic,
}

impl ParameterPlan {
    /// A parameter that takes these.
    pub fn of_values(name: String, values: Vec<ParameterValue>) -> Self {
        Self { name, values: Some(values), from: None, to: None, steps: None, scale: None }
    }

    /// Its values.
    pub fn parameter(&self) -> Result<SweepParameter, String> {
        let wrong = |why: String| format!("[[sweep.parameter]] '{}': {why}", self.name);
        self.check_name().map_err(wrong)?;
        let values = match (&self.values, &self.from, &self.to, self.steps) {
            (Some(values), None, None, None) if self.scale.is_none() => values.clone(),
            (None, Some(from), Some(to), Some(steps)) => self.between(from, to, steps).map_err(wrong)?,
            _ => {
                return Err(wrong(
                    "expected values = [...], or from, to and steps, found something else. Write one of the two".into(),
                ));
            }
        };
        if values.is_empty() {
            return Err(wrong("expected values, found none. Name those that it is to take".into()));
        }
        if let Some(endless) = values.iter().find(|value| value.number().is_some_and(|number| !number.is_finite())) {
            return Err(wrong(format!(
                "expected finite numbers, found {endless}. Leave it out, or write it as a text"
            )));
        }
        let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
        match texts.iter().enumerate().find(|(at, text)| texts[..*at].contains(text)) {
            Some((_, text)) => Err(wrong(format!(
                "expected values that differ, found '{text}' twice. Leave one out, or take fewer steps; repetitions \
                 says how often each point is measured"
            ))),
            None => Ok(SweepParameter { name: self.name.clone(), values }),
        }
    }

    fn check_name(&self) -> Result<(), String> {
        let is_word = |name: &str| {
            name.starts_with(|first: char| first.is_ascii_alphabetic())
                && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        };
        if OF_THE_RUN.contains(&self.name.as_str()) {
            return Err(format!(
                "expected another name than {}, which every trial has. Rename it",
                OF_THE_RUN.join(", ")
            ));
        }
        match is_word(&self.name) {
            true => Ok(()),
            false => Err("expected a name of letters, digits and _, such as rate. Rename it".into()),
        }
    }

    /// Whole numbers where both ends are.
    fn between(&self, from: &ParameterValue, to: &ParameterValue, steps: u32) -> Result<Vec<ParameterValue>, String> {
        let logarithmic = self.scale == Some(Scale::Logarithmic);
        let ends = from.number().zip(to.number()).filter(|(from, to)| from.is_finite() && to.is_finite());
        let Some((first, last)) = ends else {
            return Err(format!("expected numbers in from and to, found '{from}' and '{to}'. Write values = [...]"));
        };
        // Numbers between them are found by floating-point arithmetic.
        let is_exact = |end: &ParameterValue| match end {
            ParameterValue::Integer(number) => number.unsigned_abs() <= MOST_EXACT,
            _ => true,
        };
        if let Some(end) = [from, to].into_iter().find(|end| !is_exact(end)) {
            return Err(format!(
                "expected whole numbers up to {MOST_EXACT} in from and to, found {end}. Write values = [...]"
            ));
        }
        if !(2..=MOST_TRIALS).contains(&steps.into()) {
            return Err(format!("expected steps from 2 to {MOST_TRIALS}, found {steps}. Correct it"));
        }
        if logarithmic && (first <= 0.0 || last <= 0.0) {
            return Err(format!(
                "expected numbers above 0 in from and to of a logarithmic scale, found {from} and {to}. Correct them"
            ));
        }
        let whole = matches!((from, to), (ParameterValue::Integer(_), ParameterValue::Integer(_)));
        let value = |step: u32| {
            let share = f64::from(step) / f64::from(steps - 1);
            let number = match (step == 0, step == steps - 1) {
                (true, _) => first,
                (_, true) => last,
                _ if logarithmic => first * (last / first).powf(share),
                _ => first + (last - first) * share,
            };
            if whole { ParameterValue::Integer(number.round() as i64) } else { ParameterValue::Number(number) }
        };
        Ok((0..steps).map(value).collect())
    }
}

/// How many points a grid has, as far as 64 bits count.
pub(crate) fn points_of(parameters: &[SweepParameter]) -> u64 {
    parameters.iter().fold(1, |all: u64, of| all.saturating_mul(of.values.len() as u64))
}

/// All points, the last parameter's value changing first.
pub(crate) fn grid(parameters: &[SweepParameter]) -> Vec<Vec<usize>> {
    parameters.iter().fold(vec![Vec::new()], |points, of| {
        let with = |point: &Vec<usize>, value| point.iter().copied().chain([value]).collect();
        points.iter().flat_map(|point| (0..of.values.len()).map(move |value| with(point, value))).collect()
    })
}
