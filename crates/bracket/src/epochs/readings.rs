//! Which epoch a reading belongs to, if to only one.

use std::collections::BTreeSet;

use crate::Cone;
use crate::epochs::division::{Cut, Reading};
use crate::epochs::{Epoch, Refused};

/// Readings of a clock in one epoch: between its brackets, and at most up to the breaks around.
pub(super) struct Range {
    /// `None`: between breaks that were told together, where no reading is placed.
    known: Option<[i128; 2]>,
    reach: [i128; 2],
}

/// Every reading's epoch, by disjoint ranges.
#[derive(Clone, Hash, Debug)]
pub(super) struct Readings {
    /// Where each range begins; the first begins before every reading.
    starts: Vec<i128>,
    verdicts: Vec<Result<usize, Refused>>,
}

impl Range {
    /// The range of an epoch between two cuts, whose brackets are in the order of the counter from `first` to `last`.
    pub fn of(
        epoch: &Epoch,
        [first, last]: [Reading; 2],
        [before, after]: [Option<&Cut>; 2],
        cone: Cone,
        clock_width: i64,
    ) -> Self {
        let known = [epoch.first.get().into(), epoch.last.get().into()];
        let back = before.map_or(known[0], |cut| {
            let ticks = i128::from(first.after) + 1 - i128::from(cut.first);
            i128::from(first.at) - i128::from(clock_width - 1) - cone.local_at_most(ticks.max(0))
        });
        let on = after.map_or(known[1], |cut| {
            let ticks = i128::from(cut.last) + 1 - i128::from(last.before);
            i128::from(last.at) + i128::from(clock_width) + cone.local_at_most(ticks.max(0))
        });
        Self { known: Some(known), reach: [known[0].min(back), known[1].max(on)] }
    }

    /// What the clock may have read around a reading that lies among several breaks: the clock was set to what it then
    /// read at `from` or later, and set anew at `to` or earlier.
    pub fn among(reading: Reading, [from, to]: [i64; 2], cone: Cone, clock_width: i64) -> Self {
        let ran = |ticks: i128| cone.local_at_most(ticks.max(0));
        let back = ran(i128::from(reading.after) + 1 - i128::from(from));
        let on = ran(i128::from(to) + 1 - i128::from(reading.before));
        let at = i128::from(reading.at);
        Self { known: None, reach: [at - i128::from(clock_width - 1) - back, at + i128::from(clock_width) + on] }
    }
}

/// An event at a reading: something begins or ends there.
#[derive(Clone, Copy)]
enum Edge {
    Known { epoch: usize, begins: bool },
    Reach { epoch: usize, begins: bool },
}

impl Readings {
    pub fn new(ranges: &[Range]) -> Self {
        let mut edges: Vec<(i128, Edge)> = Vec::with_capacity(4 * ranges.len());
        for (epoch, &Range { known, reach }) in ranges.iter().enumerate() {
            if let Some([first, last]) = known {
                edges.push((first, Edge::Known { epoch, begins: true }));
                edges.push((last + 1, Edge::Known { epoch, begins: false }));
            }
            edges.push((reach[0], Edge::Reach { epoch, begins: true }));
            edges.push((reach[1] + 1, Edge::Reach { epoch, begins: false }));
        }
        edges.sort_unstable_by_key(|&(at, _)| at);
        let mut result = Self { starts: vec![i128::MIN], verdicts: vec![Err(Refused::Outside)] };
        let (mut known, mut reach) = (BTreeSet::new(), BTreeSet::new());
        for same in edges.chunk_by(|a, b| a.0 == b.0) {
            for &(_, edge) in same {
                match edge {
                    Edge::Known { epoch, begins: true } => known.insert(epoch),
                    Edge::Known { epoch, begins: false } => known.remove(&epoch),
                    Edge::Reach { epoch, begins: true } => reach.insert(epoch),
                    Edge::Reach { epoch, begins: false } => reach.remove(&epoch),
                };
            }
            result.starts.push(same[0].0);
            result.verdicts.push(verdict(&known, &reach));
        }
        result
    }

    #[inline]
    pub fn epoch_of(&self, reading: i64) -> Result<usize, Refused> {
        let next = self.starts.partition_point(|&start| start <= i128::from(reading));
        self.verdicts[next - 1]
    }
}

fn verdict(known: &BTreeSet<usize>, reach: &BTreeSet<usize>) -> Result<usize, Refused> {
    match (known.first(), reach.len()) {
        (Some(&epoch), 1) => Ok(epoch),
        (Some(_), _) => Err(Refused::Ambiguous),
        (None, 0) => Err(Refused::Outside),
        (None, _) => Err(Refused::InBreak),
    }
}
