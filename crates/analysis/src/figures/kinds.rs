//! How long each stage took, kinds of ids apart.
//!
//! Guarantees: every duration of the table's is in one kind; a run of more kinds than [`MOST_KINDS`] has no figures of
//! some of them, which would look like all. Deliberately absent: choosing which kinds are worth a look.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;
use tickscope_trace::{Layout, StageRole};

use super::bins::{BoundedBins, LengthBin};
use super::boxes::Bounded;
use crate::error::Error;
use crate::scan::{Outcome, Part, Piece, Sink};

/// Kinds that are told apart.
pub const MOST_KINDS: usize = 64;
/// Stages of the path that are.
const MOST_STAGES: usize = 12;

/// The kinds of a run's ids.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Kinds {
    /// True if there are more than [`MOST_KINDS`]: then `stages` is empty.
    pub too_many: bool,
    /// Those with durations, wholes first, then the first stages of the path.
    pub stages: Vec<KindStage>,
}

/// One stage.
#[derive(Clone, Debug, Serialize)]
pub struct KindStage {
    /// Its name.
    pub stage: String,
    /// True of a stage from a path's start to its end.
    pub is_whole: bool,
    /// Those that have durations, the most frequent first.
    pub kinds: Vec<KindDurations>,
}

/// How long one stage took for ids of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct KindDurations {
    /// The kind.
    pub kind: i32,
    /// How many durations.
    pub count: u64,
    /// The median, to a 32nd.
    pub median_ticks: Bounded,
    /// Estimates by length.
    pub shape: Vec<LengthBin>,
}

/// Sink of [`Kinds`].
#[derive(Clone)]
pub(crate) struct KindCounter {
    /// Indices of the stages that are counted.
    stages: Vec<usize>,
    /// By kind, then by place in `stages`; `None`: there are too many.
    found: Option<BTreeMap<i32, Vec<BoundedBins>>>,
}

impl KindCounter {
    pub(crate) fn none(layout: &Layout) -> Self {
        let of = |role: StageRole| {
            let stages = layout.stages().iter().enumerate();
            stages.filter(move |(_, stage)| stage.role == role).map(|(at, _)| at)
        };
        let stages = of(StageRole::EndToEnd).take(MOST_STAGES).chain(of(StageRole::Path).take(MOST_STAGES));
        Self { stages: stages.collect(), found: Some(BTreeMap::new()) }
    }

    pub(crate) fn finish(self, layout: &Layout) -> Kinds {
        let Some(found) = self.found else { return Kinds { too_many: true, stages: Vec::new() } };
        let stage = |(place, &stage): (usize, &usize)| {
            let of = &layout.stages()[stage];
            let kinds = found.iter().filter_map(|(&kind, bins)| {
                let (bins, count) = (&bins[place], bins[place].estimates.values());
                let median_ticks = bins.quantile(500_000)?;
                Some(KindDurations { kind, count, median_ticks, shape: bins.estimates.shape() })
            });
            let mut kinds: Vec<KindDurations> = kinds.collect();
            kinds.sort_by_key(|of| Reverse(of.count));
            KindStage { stage: of.name.clone(), is_whole: of.role == StageRole::EndToEnd, kinds }
        };
        let stages = self.stages.iter().enumerate().map(stage).filter(|stage| !stage.kinds.is_empty());
        Kinds { too_many: false, stages: stages.collect() }
    }
}

impl Sink for KindCounter {
    type Part = Self;

    fn part(&self) -> Self {
        Self { stages: self.stages.clone(), found: self.found.is_some().then(BTreeMap::new) }
    }

    fn merge(&mut self, later: Self) -> Result<(), Error> {
        let (Some(found), Some(later)) = (self.found.as_mut(), later.found) else {
            self.found = None;
            return Ok(());
        };
        for (kind, bins) in later {
            let known = found.entry(kind).or_insert_with(|| vec![BoundedBins::default(); self.stages.len()]);
            known.iter_mut().zip(&bins).for_each(|(all, more)| all.merge(more));
        }
        if found.len() > MOST_KINDS {
            self.found = None;
        }
        Ok(())
    }
}

impl Part for KindCounter {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        for row in 0..piece.traces.len() {
            let Some(found) = self.found.as_mut() else { return Ok(()) };
            let kind = piece.traces.kinds()[row];
            let bins = found.entry(kind).or_insert_with(|| vec![BoundedBins::default(); self.stages.len()]);
            for (bins, &stage) in bins.iter_mut().zip(&self.stages) {
                if let (Outcome::Measured | Outcome::Impossible, Some(span)) = piece.outcome(stage, row) {
                    bins.add([span.estimate, span.lo, span.hi]);
                }
            }
            if found.len() > MOST_KINDS {
                self.found = None;
            }
        }
        Ok(())
    }
}
