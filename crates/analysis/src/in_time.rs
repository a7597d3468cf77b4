//! The traces of a run in order of time: what a [`crate::Scan`], which goes by id, shows for whoever needs neighbours.
//!
//! Idea: each row group is sorted by the worker that reads it, and the groups are merged afterwards. Assumes: what is
//! kept of all rows fits in memory; a sink says how much it keeps of one. Guarantees: instants of one tick stay in the
//! order of the traces, so the order does not depend on the number of workers. Deliberately absent: bounds; the order
//! is that of the ticks that are given, which are the estimates or one end of their intervals.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::error::Error;
use crate::scan::{Part, Piece, Sink, Wanted};

/// Gathers something of each row, by tick: a sink.
pub struct InTime<T, F> {
    wanted: Vec<Wanted>,
    of: F,
    /// Each in order.
    groups: Vec<Vec<(i64, T)>>,
}

/// The things found in one row group, in any order.
pub struct Unsorted<T, F> {
    of: F,
    found: Vec<(i64, T)>,
}

impl<T: Send, F: FnMut(&Piece<'_>, usize, &mut Vec<(i64, T)>) + Clone + Send> InTime<T, F> {
    /// `of` adds what it keeps of a row, each with its tick; it may read the attributes `wanted`.
    pub fn new(wanted: Vec<Wanted>, of: F) -> Self {
        Self { wanted, of, groups: Vec::new() }
    }

    /// All of it, the earliest tick first.
    pub fn ordered(self) -> Ordered<T> {
        let mut groups: Vec<_> = self.groups.into_iter().map(|group| group.into_iter().peekable()).collect();
        let first = |(number, group): (usize, &mut Group<T>)| Some(Reverse((group.peek()?.0, number)));
        let next = groups.iter_mut().enumerate().filter_map(first).collect();
        Ordered { groups, next }
    }
}

impl<T: Send, F: FnMut(&Piece<'_>, usize, &mut Vec<(i64, T)>) + Clone + Send> Part for Unsorted<T, F> {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        (0..piece.traces.len()).for_each(|row| (self.of)(piece, row, &mut self.found));
        Ok(())
    }

    fn end(&mut self) {
        self.found.sort_by_key(|&(tick, _)| tick);
    }
}

impl<T: Send, F: FnMut(&Piece<'_>, usize, &mut Vec<(i64, T)>) + Clone + Send> Sink for InTime<T, F> {
    type Part = Unsorted<T, F>;

    fn part(&self) -> Self::Part {
        Unsorted { of: self.of.clone(), found: Vec::new() }
    }

    fn merge(&mut self, part: Self::Part) -> Result<(), Error> {
        self.groups.push(part.found);
        Ok(())
    }

    fn wanted(&self) -> Vec<Wanted> {
        self.wanted.clone()
    }
}

type Group<T> = std::iter::Peekable<std::vec::IntoIter<(i64, T)>>;

/// Everything gathered, in order of time.
pub struct Ordered<T> {
    groups: Vec<Group<T>>,
    /// Next tick and number of each group that goes on.
    next: BinaryHeap<Reverse<(i64, usize)>>,
}

impl<T> Iterator for Ordered<T> {
    type Item = (i64, T);

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse((_, number)) = self.next.pop()?;
        let group = &mut self.groups[number];
        let found = group.next();
        if let Some(&(tick, _)) = group.peek() {
            self.next.push(Reverse((tick, number)));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_overlap_in_time_are_merged_and_equal_ticks_stay_in_their_order() {
        type Of = fn(&Piece<'_>, usize, &mut Vec<(i64, char)>);
        let none: Of = |_, _, _| {};
        let mut sink = InTime::new(Vec::new(), none);
        for group in [vec![(5, 'e'), (1, 'a'), (5, 'f')], vec![], vec![(9, 'z'), (2, 'b')], vec![(5, 'g'), (3, 'c')]] {
            let mut part = Unsorted { of: none, found: group };
            part.end();
            sink.merge(part).unwrap();
        }
        let found: String = sink.ordered().map(|(_, name)| name).collect();
        assert_eq!(found, "abcefgz");
    }
}
