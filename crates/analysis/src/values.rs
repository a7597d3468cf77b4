//! Every stage's values in memory, for exact order statistics: a sink that grows with the run, 2 to 6 bytes a duration
//! as a rule.

use tickscope_trace::StageValues;

use crate::error::Error;
use crate::scan::{Part, Piece, Sink, in_parallel, processors};

/// The values of all stages.
pub(crate) struct Values {
    stages: usize,
    parts: Vec<GroupValues>,
}

/// By stage: the values of one row group.
pub(crate) struct GroupValues(Vec<StageValues>);

impl Values {
    /// No values of so many stages.
    pub(crate) fn none(stages: usize) -> Self {
        Self { stages, parts: Vec::new() }
    }

    /// Results of `finish` over the values of each stage, by stage; in parallel, since order statistics take as long as
    /// the scan.
    pub(crate) fn finish_stages<R: Send>(mut self, finish: impl Fn(usize, StageValues) -> R + Sync) -> Vec<R> {
        let mut results = Vec::with_capacity(self.stages);
        for first in (0..self.stages).step_by(processors()) {
            let some: Vec<_> =
                (first..self.stages.min(first + processors())).map(|stage| (stage, self.take(stage))).collect();
            results.extend(in_parallel(some.into_iter(), |(stage, parts)| {
                let whole = parts.into_iter().reduce(|mut all, more| {
                    all.append(more);
                    all
                });
                finish(stage, whole.unwrap_or_default())
            }));
        }
        results
    }

    /// The values of one stage, by row group.
    fn take(&mut self, stage: usize) -> Vec<StageValues> {
        self.parts.iter_mut().map(|part| std::mem::take(&mut part.0[stage])).collect()
    }
}

impl Sink for Values {
    type Part = GroupValues;

    fn part(&self) -> GroupValues {
        GroupValues(vec![StageValues::default(); self.stages])
    }

    fn merge(&mut self, part: GroupValues) -> Result<(), Error> {
        self.parts.push(part);
        Ok(())
    }
}

impl Part for GroupValues {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        let stages = self.0.iter_mut().enumerate();
        stages.for_each(|(stage, values)| values.add(piece.layout, piece.traces, piece.durations, stage));
        Ok(())
    }
}
