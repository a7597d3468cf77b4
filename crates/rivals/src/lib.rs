//! A run's clocks by other methods, beside its own bounds, and how every two of its machines stand.
//!
//! Idea: [`analyse_and_compare`] and [`draw_and_compare`] are the analysis with one more question to the same evidence
//! and the same scan: what chrony, ptp4l, Min-RTT and the return trip say of each pair ([`NodeRivals`]).
//! [`relations`] tells the pairs of machines that stamp nothing. Assumes: what `analysis` assumes. Guarantees: no
//! effect on a figure or a bound of the analysis; a bound that its method does not guarantee is never called one of
//! ours. Deliberately absent: asking the programs, which a role of `experiment` does; showing.
#![forbid(unsafe_code)]

mod acknowledgements;
mod comparison;
mod node_rivals;
mod relations;
mod return_trips;
mod round_trips;
#[cfg(test)]
#[path = "../../store/tests/sample/mod.rs"]
mod sample;

pub use acknowledgements::Acknowledged;
pub use comparison::{analyse_and_compare, draw_and_compare, has_acknowledgements};
pub use node_rivals::{
    KnownBound, NodeRivals, PublishedCase, PublishedError, PublishedErrors, RivalBound, RivalMethod, RivalWidth,
};
pub use relations::{MachineClock, PairRelation, PairState, Relations, RelationsJson, relations};
pub use round_trips::RoundTrips;
