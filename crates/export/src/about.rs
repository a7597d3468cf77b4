//! What a file of another format says of the run that it is of, and what it could not hold.
//!
//! Guarantees: findings are those that [`Analysis::every_finding`] gives every way out. Deliberately absent: figures.

use tickscope_analysis::{Analysis, Error, Outcome, assumptions};
use tickscope_store::Run;
use tickscope_trace::Layout;

use crate::rows::RowCounts;

/// The run that a file is of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct About {
    /// Its identity, as `run.json` has it.
    pub run: String,
    /// The counter that durations are expressed in.
    pub reference: String,
    /// Ticks a second that it is declared to make.
    pub hertz: u64,
    /// When the run began, milliseconds since the epoch of Unix, by an ordinary clock.
    pub started_unix_ms: i64,
    /// When it ended; `None`: nobody knows.
    pub ended_unix_ms: Option<i64>,
    /// What its figures rest on, a sentence each with its origin.
    pub assumptions: Vec<String>,
    /// What contradicts them, a sentence each.
    pub findings: Vec<String>,
}

impl About {
    /// What there is to say of a run and its analysis.
    pub fn of(run: &Run, analysis: &Analysis) -> Result<Self, Error> {
        let manifest = run.manifest();
        let assumed = assumptions(manifest, analysis).into_iter();
        Ok(Self {
            run: format!("{:016x}", manifest.run),
            reference: manifest.reference.to_string(),
            hertz: analysis.frequency.hertz,
            started_unix_ms: manifest.started_unix_ms,
            ended_unix_ms: manifest.ended_unix_ms,
            assumptions: assumed.map(|(statement, origin)| format!("{statement} ({origin})")).collect(),
            findings: analysis.every_finding(&run.events()?.found),
        })
    }

    /// When the run ended, or began where nobody knows the end.
    pub(crate) fn last_unix_ms(&self) -> i64 {
        self.ended_unix_ms.unwrap_or(self.started_unix_ms)
    }
}

/// What a file holds of each trace and stage, and what it does not.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Exported {
    /// Traces and stages by outcome, as the table counts them.
    pub outcomes: RowCounts,
    /// What the format could not hold.
    pub left_out: Vec<LeftOut>,
    /// What else whoever reads the file has to know, a sentence each.
    pub notes: Vec<String>,
}

/// What a format could not hold of one stage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// The stage.
    pub stage: String,
    /// How many of its traces.
    pub count: u64,
    /// Why.
    pub why: &'static str,
}

impl Exported {
    /// What is not in the file, and what has to be known of it, a line each.
    pub fn lines(&self) -> Vec<String> {
        let left_out = self.left_out.iter();
        let left_out = left_out.map(|LeftOut { stage, count, why }| format!("{stage}: {count} left out, {why}"));
        left_out.chain(self.notes.iter().cloned()).collect()
    }
}

/// Traces of each stage by outcome.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Tally {
    pub stages: Vec<RowCounts>,
}

impl Tally {
    pub fn of(layout: &Layout) -> Self {
        Self { stages: vec![RowCounts::default(); layout.stages().len()] }
    }

    pub fn note(&mut self, stage: usize, outcome: Outcome) {
        self.stages[stage][outcome as usize] += 1;
    }

    pub fn merge(&mut self, other: &Self) {
        for (all, more) in self.stages.iter_mut().zip(&other.stages) {
            all.iter_mut().zip(more).for_each(|(all, more)| *all += more);
        }
    }

    /// The sum of all stages.
    pub fn outcomes(&self) -> RowCounts {
        let mut outcomes = RowCounts::default();
        self.stages.iter().for_each(|stage| outcomes.iter_mut().zip(stage).for_each(|(all, more)| *all += more));
        outcomes
    }

    /// Durations that are not there, and those that stand in the file with the passage before them.
    pub fn without_a_duration(&self, layout: &Layout) -> Vec<LeftOut> {
        let whys = [
            (Outcome::Missing, "without both stamps"),
            (Outcome::Refused, "without an interval"),
            (Outcome::Repeated, "counted with the passage before them"),
        ];
        let of_stage = |(stage, counts): (&tickscope_trace::Stage, &RowCounts)| {
            let stage = stage.name.clone();
            whys.map(|(outcome, why)| LeftOut { stage: stage.clone(), count: counts[outcome as usize], why })
        };
        let all = layout.stages().iter().zip(&self.stages).flat_map(of_stage);
        all.filter(|left_out| left_out.count > 0).collect()
    }
}
