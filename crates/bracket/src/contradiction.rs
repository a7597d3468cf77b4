//! A contradiction as it is found: a small set of brackets that cannot all be true.

use tickscope_tick::{Local, Tick};

use crate::envelope::{EmptyAt, Envelope, ceil};
use crate::evidence::{Frame, Point};
use crate::slope::{NoRate, Premise, Slopes};
use crate::{Bracket, Cone, Finding, NamedBracket};

/// Why points give no envelope.
pub(crate) struct Contradiction {
    lower: usize,
    upper: usize,
    /// Every single wrong bracket that explains the contradiction is one of these.
    pub culprits: Vec<usize>,
    /// Where the envelope is empty; `None`: there is no rate at all.
    empty: Option<EmptyAt>,
}

impl Envelope {
    /// Envelope of `points`, sorted by `at`, under `premise`.
    pub fn of(points: &[Point], premise: Premise) -> Result<Self, Contradiction> {
        let slopes = Slopes::new(points, premise)?;
        let cone = Cone::new(slopes.r_min, slopes.r_max, premise.rho);
        Envelope::new(points, cone).map_err(|empty| Contradiction::empty(points, cone, empty, slopes.set_by))
    }
}

impl From<NoRate> for Contradiction {
    fn from(NoRate { lower, upper, culprits }: NoRate) -> Self {
        Self { lower, upper, culprits: distinct(culprits), empty: None }
    }
}

impl Contradiction {
    /// The two brackets that set the bounds where they cross, and those that set the cone's slopes: a wrong one among
    /// the latter makes honest brackets contradict each other.
    fn empty(points: &[Point], cone: Cone, empty: EmptyAt, set_by: Vec<usize>) -> Self {
        let (slow, fast) = (cone.slowest(), cone.fastest());
        let lower = points.iter().max_by_key(|p| p.before.map(|value| value_at(empty.at, p, value, slow, fast)));
        let highest_first = |p: &&Point| p.after.map(|value| -value_at(empty.at, p, value, fast, slow));
        let upper = points.iter().max_by_key(highest_first);
        let index = |point: Option<&Point>| point.map_or(0, |point| point.index);
        let (lower, upper) = (index(lower), index(upper));
        Self { lower, upper, culprits: distinct([vec![lower, upper], set_by].concat()), empty: Some(empty) }
    }

    /// The contradiction with its brackets, in raw ticks.
    pub fn finding(&self, brackets: &[Bracket], frame: Frame) -> Finding {
        let named = |index: usize| NamedBracket { index, bracket: brackets[index] };
        let (lower, upper) = (named(self.lower), named(self.upper));
        match &self.empty {
            None => Finding::NoRate { lower, upper },
            Some(EmptyAt { at, bounds }) => Finding::Empty {
                at: Tick::<Local>::new(frame.local + at),
                lower,
                upper,
                excess_ticks: ceil(bounds.lo - bounds.hi).unsigned_abs() as u64,
            },
        }
    }
}

/// Where a side of `point` puts the map at tick `y`, with these slopes after and before the point.
fn value_at(y: i64, point: &Point, value: i64, after: i128, before: i128) -> i128 {
    let distance = i128::from(y) - i128::from(point.at);
    let slope = if distance >= 0 { after } else { before };
    (i128::from(value) << Cone::FRACTION_BITS) + slope * distance
}

fn distinct(mut indices: Vec<usize>) -> Vec<usize> {
    indices.sort_unstable();
    indices.dedup();
    indices
}
