//! The rows of one chunk, complete, on their way out as traces.

use super::rows::{Keys, Rows, Slots};
use crate::{Rule, Traces};

/// Rows that no stamp is added to any more.
pub struct Gathered {
    points: Vec<Slots>,
    order: Order,
    /// `(row, occurrences beyond the first)` of the rows that have any, by row.
    more: Vec<(u32, usize)>,
}

/// Which row is which key, in the order that traces leave.
enum Order {
    /// Planes as `(kind, first row)`, by kind; a row without a stamp is no trace.
    Planes { first: i64, width: usize, planes: Vec<(i32, usize)>, used: Vec<bool> },
    /// `(id, kind, row)`, sorted.
    Keys(Vec<(i64, i32, u32)>),
}

/// One trace to be: a row, and which of its occurrences.
#[derive(Clone, Copy)]
struct Pick {
    row: usize,
    occurrence: usize,
}

impl Rows {
    /// Sorts what has to be sorted; nothing is added afterwards.
    pub fn finish(mut self) -> Gathered {
        let rows = self.len();
        for slots in &mut self.points {
            slots.grow(rows);
            slots.later.sort_unstable();
        }
        let order = self.order();
        let more = more_occurrences(&self.points);
        Gathered { points: self.points, order, more }
    }

    fn order(&self) -> Order {
        match &self.keys {
            Keys::Planes { kinds } => {
                let width = self.width();
                let mut planes: Vec<_> = kinds.iter().enumerate().map(|(plane, &kind)| (kind, plane * width)).collect();
                planes.sort_unstable();
                Order::Planes { first: self.first(), width, planes, used: used(&self.points, self.len()) }
            }
            Keys::Table(table) => {
                let mut keys: Vec<_> = table.iter().map(|(&(id, kind), &row)| (id, kind, row)).collect();
                keys.sort_unstable();
                Order::Keys(keys)
            }
        }
    }
}

impl Gathered {
    /// Hands every trace to `sink`, about `rows` at a time, in `batch`.
    pub fn emit<E>(
        &self,
        batch: &mut Traces,
        rows: usize,
        sink: &mut dyn FnMut(&Traces) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut picks = Vec::with_capacity(rows);
        self.each_key(&mut |id, kind, row| {
            for occurrence in 0..=self.more_of(row) {
                batch.push_key(id, kind, i32::try_from(occurrence).unwrap_or(i32::MAX));
                picks.push(Pick { row, occurrence });
            }
            if picks.len() >= rows { self.flush(&mut picks, batch, sink) } else { Ok(()) }
        })?;
        if picks.is_empty() { Ok(()) } else { self.flush(&mut picks, batch, sink) }
    }

    /// `(stamps, duplicates)` of each point.
    pub fn stamps(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.points.iter().map(|slots| (slots.stamps, slots.duplicates))
    }

    /// Keys that passed points with rule `all` unequally often, so that the n-th here may not be the n-th there.
    pub fn uneven(&self) -> u64 {
        let uneven = |&&(row, _): &&(u32, usize)| {
            let mut counts = self.points.iter().filter(|slots| slots.rule == Rule::All).map(|slots| slots.count(row));
            let first = counts.next();
            counts.any(|count| Some(count) != first)
        };
        self.more.iter().filter(uneven).count() as u64
    }

    fn each_key<E>(&self, visit: &mut dyn FnMut(i64, i32, usize) -> Result<(), E>) -> Result<(), E> {
        match &self.order {
            Order::Keys(keys) => keys.iter().try_for_each(|&(id, kind, row)| visit(id, kind, row as usize)),
            Order::Planes { first, width, planes, used } => (0..*width).try_for_each(|offset| {
                let id = first.wrapping_add_unsigned(offset as u64);
                let rows = planes.iter().map(|&(kind, base)| (kind, base + offset));
                rows.filter(|&(_, row)| used[row]).try_for_each(|(kind, row)| visit(id, kind, row))
            }),
        }
    }

    fn more_of(&self, row: usize) -> usize {
        if self.more.is_empty() {
            return 0;
        }
        self.more.binary_search_by_key(&row, |&(row, _)| row as usize).map_or(0, |found| self.more[found].1)
    }

    fn flush<E>(
        &self,
        picks: &mut Vec<Pick>,
        batch: &mut Traces,
        sink: &mut dyn FnMut(&Traces) -> Result<(), E>,
    ) -> Result<(), E> {
        for (point, slots) in self.points.iter().enumerate() {
            batch.point_mut(point).extend(picks.iter().map(|&pick| slots.at(pick)));
        }
        let answer = sink(batch);
        picks.clear();
        batch.clear();
        answer
    }
}

impl Slots {
    /// The tick of that occurrence, 0 if missing, and whether it is there.
    #[inline]
    fn at(&self, Pick { row, occurrence }: Pick) -> (i64, bool) {
        if occurrence == 0 || self.rule != Rule::All {
            return (self.ticks[row], self.seen[row]);
        }
        let from = self.later.partition_point(|&(other, _)| (other as usize) < row);
        match self.later.get(from + occurrence - 1) {
            Some(&(other, tick)) if other as usize == row => (tick, true),
            _ => (0, false),
        }
    }

    /// How many stamps `row` has here, under rule `all`.
    fn count(&self, row: u32) -> usize {
        let later = self.later.partition_point(|&(other, _)| other <= row);
        let earlier = self.later.partition_point(|&(other, _)| other < row);
        usize::from(self.seen[row as usize]) + later - earlier
    }
}

/// The most later stamps of a row at any point, for rows that have any.
fn more_occurrences(points: &[Slots]) -> Vec<(u32, usize)> {
    let mut more = Vec::new();
    for slots in points {
        more.extend(slots.later.chunk_by(|a, b| a.0 == b.0).map(|group| (group[0].0, group.len())));
    }
    more.sort_unstable();
    // Of equal rows the last has the most occurrences.
    more.reverse();
    more.dedup_by_key(|&mut (row, _)| row);
    more.reverse();
    more
}

/// Which rows have a stamp at any point.
fn used(points: &[Slots], rows: usize) -> Vec<bool> {
    let mut used = vec![false; rows];
    for slots in points {
        used.iter_mut().zip(&slots.seen).for_each(|(used, &seen)| *used |= seen);
    }
    used
}
