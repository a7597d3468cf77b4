//! Estimates of the stages that add up to the whole, of the traces that have all of them: a sink that grows with the
//! run, 8 bytes a stage and trace, and 12 more a trace.

use tickscope_trace::{Layout, StageRole};

use crate::error::Error;
use crate::scan::{Part, Piece, Sink};

/// A column a stage, in the order of the traces.
pub(crate) struct PathColumns {
    /// Indices in the layout, the whole last.
    stages: Vec<usize>,
    values: Vec<Vec<i64>>,
    /// Raw tick of each trace at the first point.
    begun: Vec<i64>,
    /// Class of each trace's id.
    kinds: Vec<i32>,
    left_out: u64,
}

impl PathColumns {
    pub(crate) fn of(layout: &Layout) -> Self {
        Self::none(route(layout).unwrap_or_default())
    }

    fn none(stages: Vec<usize>) -> Self {
        Self { values: vec![Vec::new(); stages.len()], stages, begun: Vec::new(), kinds: Vec::new(), left_out: 0 }
    }

    /// The same, the trace that began first first: ids need not be in order of time.
    pub(crate) fn in_time(mut self) -> Self {
        if self.begun.is_sorted() {
            return self;
        }
        let mut order: Vec<usize> = (0..self.begun.len()).collect();
        order.sort_by_key(|&row| self.begun[row]);
        for column in self.values.iter_mut().chain([&mut self.begun]) {
            *column = order.iter().map(|&row| column[row]).collect();
        }
        self.kinds = order.iter().map(|&row| self.kinds[row]).collect();
        self
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

    /// Raw tick of each trace at the first point.
    pub(crate) fn begun(&self) -> &[i64] {
        &self.begun
    }

    /// Class of each trace's id.
    pub(crate) fn kinds(&self) -> &[i32] {
        &self.kinds
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

/// The stages that add up to the whole, one after the other, and then the whole: where paths divide, those to its end.
/// `None`: there is no whole, or several ways lead to its end.
fn route(layout: &Layout) -> Option<Vec<usize>> {
    let stages = || layout.stages().iter().enumerate();
    let (at, whole) = stages().find(|(_, stage)| stage.role == StageRole::EndToEnd)?;
    let mut route = vec![at];
    let mut place = whole.to;
    while place != whole.from {
        let mut before = stages().filter(|(_, stage)| stage.role == StageRole::Path && stage.to == place);
        let (Some((at, stage)), None) = (before.next(), before.next()) else { return None };
        if route.contains(&at) {
            return None;
        }
        (place, route) = (stage.from, [vec![at], route].concat());
    }
    Some(route)
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
            self.begun.extend(piece.traces.points()[ends.from].get(row));
            self.kinds.push(piece.traces.kinds()[row]);
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
        self.kinds.extend(part.kinds);
        self.left_out += part.left_out;
        Ok(())
    }
}

#[cfg(test)]
impl PathColumns {
    /// Columns that nobody scanned.
    pub(crate) fn made(values: Vec<Vec<i64>>, left_out: u64) -> Self {
        let kinds = vec![0; values.last().map_or(0, Vec::len)];
        Self { values, left_out, kinds, ..Self::none(Vec::new()) }
    }

    /// The same, of ids of these kinds.
    pub(crate) fn of_kinds(self, kinds: Vec<i32>) -> Self {
        Self { kinds, ..self }
    }

    /// The same, of traces that began then.
    pub(crate) fn begun_at(self, begun: Vec<i64>) -> Self {
        Self { begun, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickscope_trace::LayoutText;

    fn names(edges: &[&str]) -> Vec<String> {
        let edges = edges.iter().map(|edge| (*edge).to_string()).collect();
        let layout = LayoutText { edges, ..LayoutText::default() }.parse(None).unwrap();
        PathColumns::of(&layout).names(&layout)
    }

    #[test]
    fn stages_are_those_that_add_up_to_the_whole() {
        let path = names(&["a.x > a.y", "a.y > a.z"]);
        assert_eq!(path, ["a.x>a.y", "a.y>a.z", "end-to-end"]);
        // The path to the other end is no part of the whole.
        let found = names(&["a.x > a.y", "a.y > a.z", "a.y > a.w"]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0] == "a.x>a.y" && found[2].contains("end-to-end"), "{found:?}");
        // Of two ways to one end nothing adds up.
        assert_eq!(names(&["a.x > a.y", "a.x > a.w", "a.y > a.z", "a.w > a.z"]), [""; 0]);
    }

    #[test]
    fn traces_are_in_order_of_time_whatever_their_ids() {
        let columns = PathColumns::made(vec![vec![3, 1, 2], vec![30, 10, 20]], 0).begun_at(vec![300, 100, 200]);
        let sorted = columns.of_kinds(vec![7, 5, 6]).in_time();
        assert_eq!((sorted.whole(), sorted.begun()), (&[10, 20, 30][..], &[100, 200, 300][..]));
        assert_eq!((&sorted.values()[0][..], sorted.kinds()), (&[1, 2, 3][..], &[5, 6, 7][..]));
    }
}
