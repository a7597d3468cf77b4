//! The return trip: where ids come back to the node that they started on, that node's two stamps bound what happened
//! between, without any other clock.
//!
//! Idea: the published method (Cloudprofiler, 2.2) takes the time until an end event's acknowledgement is back for the
//! time until it happened, off by the acknowledgement's way (6.5); [`crate::acknowledgements`] does so. Of ids that
//! come back by themselves the same node has both stamps, and the end lies between them. Kept is the longest of each
//! moment, some thousand moments a run. Guarantees: what is kept does not depend on the number of workers. Deliberately
//! absent: whether the link was busy, without which the comparison says nothing new; that is the rivals'.

use std::collections::BTreeMap;

use tickscope_analysis::{Error, Part, Piece, Sink};
use tickscope_tick::NodeName;
use tickscope_trace::{Layout, StageRole};

/// Raw ticks at the start, at the last point on another node, and back at the start's node.
pub(crate) type Trip = [i64; 3];

/// Moments that are kept, at most; from then on each is twice as long.
const MOMENTS: usize = 2048;

/// Sink of the trips of a layout that comes back.
#[derive(Clone, Debug)]
pub(crate) struct ReturnTrips {
    /// Indices of the three points.
    points: [usize; 3],
    /// A moment is 2 to the power of this ticks long.
    length_log2: u32,
    /// By moment: the longest.
    longest: BTreeMap<i64, Trip>,
    /// The first start and the last return of all.
    span: Option<(i64, i64)>,
}

impl ReturnTrips {
    /// `None`: no id comes back by way of another node.
    pub(crate) fn of(layout: &Layout) -> Option<Self> {
        let whole = layout.stages().iter().find(|stage| stage.role == StageRole::EndToEnd)?;
        let node = |at: usize| &layout.points()[at].place.node;
        let [start, end] = [whole.from, whole.to];
        let turn = (0..layout.trunk().len()).rev().find(|&at| node(at) != node(start))?;
        let comes_back = node(start) == node(end) && start < turn && turn < end;
        comes_back.then(|| Self { points: [start, turn, end], length_log2: 0, longest: BTreeMap::new(), span: None })
    }

    /// The node that they start on and the one that they turn at.
    pub(crate) fn nodes<'a>(&self, layout: &'a Layout) -> [&'a NodeName; 2] {
        let [start, turn, _] = self.points;
        [start, turn].map(|at| &layout.points()[at].place.node)
    }

    /// The longest of each moment, in order.
    pub(crate) fn longest(&self) -> impl Iterator<Item = Trip> {
        self.longest.values().copied()
    }

    /// The first start and the last return.
    pub(crate) fn span(&self) -> Option<(i64, i64)> {
        self.span
    }

    fn keep(&mut self, trip: Trip) {
        let [start, _, end] = trip;
        let (first, last) = self.span.unwrap_or((start, end));
        self.span = Some((first.min(start), last.max(end)));
        keep_longest(&mut self.longest, start >> self.length_log2, trip);
        while self.longest.len() > MOMENTS {
            self.lengthen(self.length_log2 + 1);
        }
    }

    fn lengthen(&mut self, length_log2: u32) {
        self.length_log2 = length_log2;
        for trip in std::mem::take(&mut self.longest).into_values() {
            keep_longest(&mut self.longest, trip[0] >> length_log2, trip);
        }
    }
}

/// Keeps the longest trip of a moment, the earlier of two that took as long; an impossible one is as long as it is.
fn keep_longest(longest: &mut BTreeMap<i64, Trip>, moment: i64, trip: Trip) {
    let length = |[start, _, end]: Trip| i128::from(end) - i128::from(start);
    let known = longest.entry(moment).or_insert(trip);
    if (length(trip), known[0]) > (length(*known), trip[0]) {
        *known = trip;
    }
}

impl Sink for ReturnTrips {
    type Part = Self;

    fn part(&self) -> Self {
        Self { length_log2: 0, longest: BTreeMap::new(), span: None, ..self.clone() }
    }

    fn merge(&mut self, later: Self) -> Result<(), Error> {
        if later.length_log2 > self.length_log2 {
            self.lengthen(later.length_log2);
        }
        later.longest.into_values().for_each(|trip| self.keep(trip));
        if let Some((first, last)) = later.span {
            let known = self.span.unwrap_or((first, last));
            self.span = Some((known.0.min(first), known.1.max(last)));
        }
        Ok(())
    }
}

impl Part for ReturnTrips {
    fn add(&mut self, &Piece { traces, durations, .. }: &Piece<'_>) -> Result<(), Error> {
        if self.points.iter().any(|&point| durations.own(point).is_some()) {
            return Ok(()); // stamps of another clock are no ticks of the counter
        }
        for row in 0..traces.len() {
            let [start, turn, end] = self.points.map(|point| traces.points()[point].get(row));
            if let (Some(start), Some(turn), Some(end)) = (start, turn, end) {
                self.keep([start, turn, end]);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tickscope_trace::LayoutText;

    fn of(path: &[&str]) -> Option<ReturnTrips> {
        let path = path.iter().map(|&point| point.to_owned()).collect();
        ReturnTrips::of(&LayoutText { path, ..LayoutText::default() }.parse(None).unwrap())
    }

    #[test]
    fn ids_turn_at_the_last_point_of_another_node_and_come_back_to_their_own() {
        assert_eq!(of(&["a.send", "b.in", "b.out", "a.back"]).unwrap().points, [0, 2, 3]);
        assert_eq!(of(&["a.send", "a.sent", "b.in", "c.in", "a.back", "a.done"]).unwrap().points, [0, 3, 5]);
        for path in [&["a.send", "b.in"][..], &["a.send", "b.in", "c.in"], &["a.send", "a.sent"]] {
            assert!(of(path).is_none(), "{path:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn property_the_longest_trip_is_kept_and_workers_change_nothing(
            trips in prop::collection::vec((0_i64..1 << 40, 1_i64..1 << 20), 1..5000),
            cut in any::<prop::sample::Index>(),
        ) {
            let trips: Vec<Trip> = trips.iter().map(|&(start, length)| [start, start, start + length]).collect();
            let mut at_once = of(&["a.send", "b.in", "a.back"]).unwrap();
            let (mut one, mut other, mut parts) = (at_once.part(), at_once.part(), at_once.clone());
            trips.iter().for_each(|&trip| at_once.keep(trip));
            let (before, after) = trips.split_at(cut.index(trips.len()));
            before.iter().for_each(|&trip| one.keep(trip));
            after.iter().for_each(|&trip| other.keep(trip));
            parts.merge(one).unwrap();
            parts.merge(other).unwrap();
            prop_assert_eq!(at_once.longest().collect::<Vec<_>>(), parts.longest().collect::<Vec<_>>());
            prop_assert_eq!(at_once.span(), parts.span());
            let length = |[start, _, end]: Trip| end - start;
            prop_assert_eq!(at_once.longest().map(length).max(), trips.iter().copied().map(length).max());
            prop_assert!(at_once.longest().count() <= MOMENTS);
        }
    }
}
