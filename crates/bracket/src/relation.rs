//! The relation of two domains: for any local tick, the interval of the reference that must contain it.

use tickscope_tick::{Interval, Local, Reference, Span, Tick};

use crate::{Bracket, Cone, Error, Finding, HalfWidths, Model, Segment};

/// What all brackets together say about the map from local ticks to reference ticks. Immutable.
///
/// Build: O(n log n) in the number of brackets; a question: O(log n).
#[derive(Clone, Debug)]
pub struct Relation {
    model: Model,
}

impl Relation {
    /// The relation that `brackets`, in any order, allow under `model`.
    ///
    /// Errors: a side that no bracket bounds, ticks too far apart, or a contradiction, which names the suspect. A
    /// relation that was made has an interval at every tick in reach.
    pub fn new(_brackets: &[Bracket], _model: &Model) -> Result<Relation, Error> {
        todo!()
    }

    /// Contains `f(at)` for every map `f` that the model and the brackets allow; rounded outward to whole ticks.
    pub fn interval(&self, _at: Tick<Local>) -> Result<Interval<Tick<Reference>>, Finding> {
        todo!()
    }

    /// The middle of the exact bounds, rounded down: an admissible clock, so differences of estimates telescope.
    pub fn estimate(&self, _at: Tick<Local>) -> Result<Tick<Reference>, Finding> {
        todo!()
    }

    /// Contains `f(to) - f(from)` for every allowed `f`, and the difference of the estimates; negative where `to` is
    /// earlier than `from`.
    pub fn span(&self, _from: Tick<Local>, _to: Tick<Local>) -> Result<Interval<Span<Reference>>, Finding> {
        todo!()
    }

    /// How much the error of a translated tick may change over a distance: cone width times `apart`, in reference
    /// ticks, rounded up. Not capped by intervals; `u64::MAX` where it is more than that.
    pub fn relative_bound(&self, _apart: Span<Local>) -> u64 {
        todo!()
    }

    /// The slopes that the true map can have.
    pub fn cone(&self) -> Cone {
        todo!()
    }

    /// What was assumed.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Contains every local tick that an allowed map takes to `at`; rounded outward.
    pub fn inverse(&self, _at: Tick<Reference>) -> Result<Interval<Tick<Local>>, Finding> {
        todo!()
    }

    /// The relation from `from` to `to`, both included, for engines with 64-bit integers.
    pub fn segments(&self, _from: Tick<Local>, _to: Tick<Local>) -> Result<Vec<Segment>, Finding> {
        todo!()
    }

    /// Half the intervals' widths at these ticks, in reference ticks.
    pub fn half_widths(&self, _at: impl IntoIterator<Item = Tick<Local>>) -> Result<HalfWidths, Finding> {
        todo!()
    }
}
