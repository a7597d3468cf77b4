//! Lanes, so that slices that overlap in time lie beside one another and never within.
//!
//! Idea: in order of their beginnings each slice takes the lowest lane that is free. Assumes: 24 bytes a slice, and 4 a
//! trace, fit in memory. Guarantees: of two slices of one lane one ends before the other begins, by a nanosecond at
//! least, so that a reader that knows no order within one nanosecond keeps them apart; no other rule needs fewer lanes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A slice and its lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Occupied {
    begin_ns: i64,
    end_ns: i64,
    /// The number of its trace.
    trace: u32,
}

/// The lanes of one track's slices, by the numbers of their traces.
#[derive(Default, Debug)]
pub(crate) struct Lanes {
    of_trace: Vec<u32>,
    /// How many there are.
    pub count: u32,
}

impl Occupied {
    /// The slice of the trace of that number.
    pub fn new(begin_ns: i64, end_ns: i64, trace: u32) -> Self {
        Self { begin_ns, end_ns, trace }
    }

    pub fn begin_ns(&self) -> i64 {
        self.begin_ns
    }
}

impl Lanes {
    /// Lanes for slices of so many traces, one a trace at most.
    pub fn of(mut slices: Vec<Occupied>, traces: usize) -> Self {
        slices.sort_unstable_by_key(|slice| (slice.begin_ns, slice.trace));
        let (mut of_trace, mut count) = (vec![0; traces], 0);
        let mut free = BinaryHeap::new();
        let mut busy = BinaryHeap::new();
        for slice in slices {
            while let Some(&Reverse((end_ns, lane))) = busy.peek()
                && end_ns < slice.begin_ns
            {
                busy.pop();
                free.push(Reverse(lane));
            }
            let lane = free.pop().map_or(count, |Reverse(lane)| lane);
            count = count.max(lane + 1);
            of_trace[slice.trace as usize] = lane;
            busy.push(Reverse((slice.end_ns, lane)));
        }
        Self { of_trace, count }
    }

    /// The lane of the slice of the trace of that number.
    pub fn lane(&self, trace: usize) -> u32 {
        self.of_trace[trace]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lanes(extents: &[(i64, i64)]) -> Lanes {
        let numbered = extents.iter().zip(0..);
        let slices = numbered.map(|(&(begin, end), trace)| Occupied::new(begin, end, trace));
        Lanes::of(slices.collect(), extents.len())
    }

    #[test]
    fn a_lane_is_free_a_nanosecond_after_its_slice_and_no_sooner() {
        assert_eq!(lanes(&[(0, 10), (10, 20), (11, 12), (21, 22)]).of_trace, [0, 1, 0, 0]);
        assert_eq!(lanes(&[(5, 5), (5, 5), (6, 6)]).of_trace, [0, 1, 0]);
    }

    #[test]
    fn the_lowest_free_lane_is_taken_whatever_order_slices_come_in() {
        assert_eq!(lanes(&[(30, 40), (0, 100), (1, 2), (1, 20)]).of_trace, [1, 0, 1, 2]);
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
