//! Stamps become traces, traces become durations, durations become answers.
//!
//! A [`Layout`] names the points that an id passes, and which pairs of them are stages.
//!
//! Assumes: ids are equal at every point, and (kind, id) names one thing. Guarantees: nothing is dropped in silence:
//! what is missing, repeated, out of order or impossible is counted; no input panics. Deliberately absent: clocks, files
//! and sockets. Columns come in, columns go out.
#![forbid(unsafe_code)]

mod error;
mod join;
mod layout;
mod source;
mod traces;

pub use error::Error;
pub use join::{JoinCounts, Limits, PointCounts, SPARSEST, join};
pub use layout::{END_TO_END, Layout, LayoutText, NAME_BYTES, Point, Role, Rule, Stage};
pub use source::{Extent, StampColumns, StampSource};
pub use traces::{Column, Traces};
