//! Lanes, so that slices that overlap in time lie beside one another and never within.
//!
//! Idea: in order of their beginnings each slice takes the lowest lane that is free. Assumes: 24 bytes a slice fit in
//! memory. Guarantees: of two slices of one lane one ends before the other begins, by a nanosecond at least, so that a
//! reader that knows no order within one nanosecond keeps them apart; no other rule needs fewer lanes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A slice and its lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Occupied {
    begin_ns: i64,
    end_ns: i64,
    /// The number of the slice.
    number: u32,
    lane: u32,
}

/// The lanes of slices, by the slices' numbers.
#[derive(Default, Debug)]
pub(crate) struct Lanes {
    of_slice: Vec<u32>,
    /// How many there are.
    pub count: u32,
}

impl Occupied {
    /// A slice without a lane and a number.
    pub fn new(begin_ns: i64, end_ns: i64) -> Self {
        Self { begin_ns, end_ns, number: 0, lane: 0 }
    }

    pub fn numbered(self, number: u32) -> Self {
        Self { number, ..self }
    }

    pub fn begin_ns(&self) -> i64 {
        self.begin_ns
    }
}

impl Lanes {
    /// Lanes for slices that are numbered from 0, in that order.
    pub fn of(mut slices: Vec<Occupied>) -> Self {
        slices.sort_unstable_by_key(|slice| (slice.begin_ns, slice.number));
        let mut count = 0;
        let mut free = BinaryHeap::new();
        let mut busy = BinaryHeap::new();
        for slice in &mut slices {
            while let Some(&Reverse((end_ns, lane))) = busy.peek()
                && end_ns < slice.begin_ns
            {
                busy.pop();
                free.push(Reverse(lane));
            }
            slice.lane = free.pop().map_or(count, |Reverse(lane)| lane);
            count = count.max(slice.lane + 1);
            busy.push(Reverse((slice.end_ns, slice.lane)));
        }
        slices.sort_unstable_by_key(|slice| slice.number);
        Self { of_slice: slices.into_iter().map(|slice| slice.lane).collect(), count }
    }

    /// The lane of the slice of that number.
    pub fn lane(&self, number: usize) -> u32 {
        self.of_slice[number]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lanes(extents: &[(i64, i64)]) -> Lanes {
        let numbered = extents.iter().zip(0..);
        Lanes::of(numbered.map(|(&(begin, end), number)| Occupied::new(begin, end).numbered(number)).collect())
    }

    #[test]
    fn a_lane_is_free_a_nanosecond_after_its_slice_and_no_sooner() {
        assert_eq!(lanes(&[(0, 10), (10, 20), (11, 12), (21, 22)]).of_slice, [0, 1, 0, 0]);
        assert_eq!(lanes(&[(5, 5), (5, 5), (6, 6)]).of_slice, [0, 1, 0]);
    }

    #[test]
    fn the_lowest_free_lane_is_taken_whatever_order_slices_come_in() {
        assert_eq!(lanes(&[(30, 40), (0, 100), (1, 2), (1, 20)]).of_slice, [1, 0, 1, 2]);
        assert_eq!(size_of::<Occupied>(), 24);
    }

    proptest! {
        #[test]
        fn property_no_two_slices_of_a_lane_touch_and_there_are_as_many_lanes_as_slices_at_once(
            extents in prop::collection::vec((0..200_i64, 0..40_i64), 1..80),
        ) {
            let extents: Vec<_> = extents.into_iter().map(|(begin, length)| (begin, begin + length)).collect();
            let found = lanes(&extents);
            for (one, (begin, end)) in extents.iter().enumerate() {
                for (other, (from, to)) in extents.iter().enumerate().take(one) {
                    prop_assert!(found.lane(one) != found.lane(other) || end < from || to < begin);
                }
            }
            let at_once = |at: i64| extents.iter().filter(|(begin, end)| (*begin..=*end).contains(&at)).count();
            prop_assert_eq!(found.count as usize, (0..240).map(at_once).max().unwrap());
        }
    }
}
