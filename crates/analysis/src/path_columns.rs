//! Estimates of the stages that add up to the whole, of the traces that have all of them: a sink that grows with the
//! run, 16 bytes a stage and trace, and 12 more a trace.

use tickscope_trace::{Layout, StageRole};

use crate::error::Error;
use crate::scan::{Part, Piece, Sink};

/// A column a stage, in the order of the traces.
pub(crate) struct PathColumns {
    /// Indices in the layout, the whole last.
    stages: Vec<usize>,
    values: Vec<Vec<i64>>,
    /// How far below each value the truth can lie, and above, rounded outward to 24 bits.
    reach: [Vec<Vec<f32>>; 2],
    /// Raw tick of each trace at the first point.
    begun: Vec<i64>,
    /// Class of each trace's id.
    kinds: Vec<i32>,
    left_out: u64,
    /// Raw ticks at the first point of those that have it.
    holes_begun: Vec<i64>,
}

impl PathColumns {
    pub(crate) fn of(layout: &Layout) -> Self {
        Self::none(route(layout).unwrap_or_default())
    }

    fn none(stages: Vec<usize>) -> Self {
        let reach = [(); 2].map(|()| vec![Vec::new(); stages.len()]);
        let (values, begun, kinds) = (vec![Vec::new(); stages.len()], Vec::new(), Vec::new());
        Self { stages, values, reach, begun, kinds, left_out: 0, holes_begun: Vec::new() }
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
        for column in self.reach.iter_mut().flatten() {
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

    /// Estimate, lower end and upper end of a stage in a trace.
    pub(crate) fn interval(&self, stage: usize, row: usize) -> [i64; 3] {
        let estimate = self.values[stage][row];
        let [below, above] = self.reach.each_ref().map(|columns| columns[stage][row] as u64);
        [estimate, estimate.saturating_sub_unsigned(below), estimate.saturating_add_unsigned(above)]
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

    /// Raw ticks at the first point, of those that lack a stage or the whole and have it.
    pub(crate) fn holes_begun(&self) -> &[i64] {
        &self.holes_begun
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
        let ends_of_whole = &piece.layout.stages()[whole];
        for row in
            (0..piece.traces.len()).filter(|&row| !piece.traces.repeats(row, [ends_of_whole.from, ends_of_whole.to]))
        {
            let ends = |&stage: &usize| {
                let of = &piece.durations.stages()[stage];
                Some([of.estimate.get(row)?, of.lo.get(row)?, of.hi.get(row)?])
            };
            let Some(all) = self.stages.iter().map(ends).collect::<Option<Vec<[i64; 3]>>>() else {
                self.left_out += 1;
                self.holes_begun.extend(piece.traces.points()[ends_of_whole.from].get(row));
                continue;
            };
            for (stage, [estimate, lo, hi]) in all.into_iter().enumerate() {
                self.values[stage].push(estimate);
                self.reach[0][stage].push(outward(estimate.abs_diff(lo)));
                self.reach[1][stage].push(outward(hi.abs_diff(estimate)));
            }
            self.begun.extend(piece.traces.points()[ends_of_whole.from].get(row));
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
        let reach = part.reach.into_iter().flatten();
        self.reach.iter_mut().flatten().zip(reach).for_each(|(all, mut more)| all.append(&mut more));
        self.begun.extend(part.begun);
        self.holes_begun.extend(part.holes_begun);
        self.kinds.extend(part.kinds);
        self.left_out += part.left_out;
        Ok(())
    }
}

/// The next distance of 24 bits that is no shorter.
fn outward(distance: u64) -> f32 {
    let near = distance as f32;
    if (near as u128) < u128::from(distance) { near.next_up() } else { near }
}

#[cfg(test)]
impl PathColumns {
    /// Columns that nobody scanned.
    pub(crate) fn made(values: Vec<Vec<i64>>, left_out: u64) -> Self {
        let rows = values.last().map_or(0, Vec::len);
        let reach = [(); 2].map(|()| vec![vec![0.0; rows]; values.len()]);
        let stages = (0..values.len()).collect();
        Self { values, left_out, kinds: vec![0; rows], reach, ..Self::none(stages) }
    }

    /// The same, the truth so far below and above each value of a stage.
    pub(crate) fn with_reach(mut self, stage: usize, reach: [Vec<u64>; 2]) -> Self {
        let columns = self.reach.iter_mut().zip(reach);
        columns.for_each(|(columns, of)| columns[stage] = of.into_iter().map(outward).collect());
        self
    }

    /// The same, and traces that lack a stage which began then.
    pub(crate) fn with_holes(self, holes_begun: Vec<i64>) -> Self {
        Self { holes_begun, ..self }
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
    fn a_distance_of_24_bits_is_never_shorter() {
        for distance in [0, 1, (1 << 24) - 1, (1 << 24) + 1, (1 << 40) + 1, u64::MAX - 1, u64::MAX] {
            let kept = outward(distance);
            assert!(kept as u64 >= distance && kept as f64 <= distance as f64 * (1.0 + 1e-6), "{distance} {kept}");
        }
    }

    #[test]
    fn traces_are_in_order_of_time_whatever_their_ids() {
        let columns = PathColumns::made(vec![vec![3, 1, 2], vec![30, 10, 20]], 0).begun_at(vec![300, 100, 200]);
        let sorted = columns.of_kinds(vec![7, 5, 6]).in_time();
        assert_eq!((sorted.whole(), sorted.begun()), (&[10, 20, 30][..], &[100, 200, 300][..]));
        assert_eq!((&sorted.values()[0][..], sorted.kinds()), (&[1, 2, 3][..], &[5, 6, 7][..]));
    }
}
