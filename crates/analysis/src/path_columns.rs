//! Estimates of every stage of the path, of the traces that have all of them: a sink that grows with the run, 8 bytes a
//! stage and trace, and 8 more a trace.

use tickscope_trace::{Layout, StageRole};

use crate::error::Error;
use crate::scan::{Part, Piece, Sink};

/// A column a stage, in the order of the traces.
pub(crate) struct PathColumns {
    /// Indices in the layout, the whole last.
    stages: Vec<usize>,
    values: Vec<Vec<i64>>,
    /// When each trace passed the first point.
    begun: Vec<i64>,
    /// Traces of which nothing says that.
    unplaced: u64,
    left_out: u64,
}

impl PathColumns {
    pub(crate) fn of(layout: &Layout) -> Self {
        let stages = layout.stages().iter().enumerate();
        let of = |role: StageRole| stages.clone().filter(move |(_, stage)| stage.role == role).map(|(at, _)| at);
        let stages: Vec<usize> = of(StageRole::Path).chain(of(StageRole::EndToEnd).take(1)).collect();
        Self::none(stages)
    }

    fn none(stages: Vec<usize>) -> Self {
        Self { values: vec![Vec::new(); stages.len()], stages, begun: Vec::new(), unplaced: 0, left_out: 0 }
    }

    /// Indices of the stages in the layout, that of the whole last.
    pub(crate) fn stages(&self) -> &[usize] {
        &self.stages
    }

    /// By stage: what it took in each trace.
    pub(crate) fn values(&self) -> &[Vec<i64>] {
        &self.values
    }

    /// What the whole took in each trace.
    pub(crate) fn whole(&self) -> &[i64] {
        self.values.last().map_or(&[], Vec::as_slice)
    }

    /// When each trace passed the first point, in ticks of the reference; `None`: nothing says that of some.
    pub(crate) fn begun(&self) -> Option<&[i64]> {
        (self.unplaced == 0).then_some(&self.begun)
    }

    /// Traces that lack a stage or the whole.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Names of the stages, that of the whole last.
    pub(crate) fn names(&self, layout: &Layout) -> Vec<String> {
        self.stages.iter().map(|&stage| layout.stages()[stage].name.clone()).collect()
    }
}

impl Part for PathColumns {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        let Some((&whole, _)) = self.stages.split_last() else { return Ok(()) };
        let ends = &piece.layout.stages()[whole];
        for row in (0..piece.traces.len()).filter(|&row| !piece.traces.repeats(row, [ends.from, ends.to])) {
            let estimate = |&stage: &usize| piece.durations.stages()[stage].estimate.get(row);
            match self.stages.iter().map(estimate).collect::<Option<Vec<i64>>>() {
                Some(all) => self.values.iter_mut().zip(all).for_each(|(column, value)| column.push(value)),
                None => {
                    self.left_out += 1;
                    continue;
                }
            }
            let begun = piece.instant(ends.from, row).map(|span| span.estimate);
            self.unplaced += u64::from(begun.is_none());
            self.begun.push(begun.unwrap_or(0));
        }
        Ok(())
    }
}

impl Sink for PathColumns {
    type Part = Self;

    fn part(&self) -> Self {
        Self::none(self.stages.clone())
    }

    fn merge(&mut self, part: Self) -> Result<(), Error> {
        self.values.iter_mut().zip(part.values).for_each(|(all, mut more)| all.append(&mut more));
        self.begun.extend(part.begun);
        self.unplaced += part.unplaced;
        self.left_out += part.left_out;
        Ok(())
    }
}

#[cfg(test)]
impl PathColumns {
    /// Columns that nobody scanned.
    pub(crate) fn made(values: Vec<Vec<i64>>, left_out: u64) -> Self {
        Self { values, left_out, ..Self::none(Vec::new()) }
    }

    /// The same, of traces that began then.
    pub(crate) fn begun_at(self, begun: Vec<i64>) -> Self {
        Self { begun, ..self }
    }
}
