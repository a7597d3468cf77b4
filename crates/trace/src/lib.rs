//! Stamps become traces, traces become durations, durations become answers.
//!
//! A [`Layout`] names the points that an id passes, and which pairs of them are stages. [`join`] puts the stamps of one
//! id side by side, read from a [`StampSource`]. [`Durations`] are what the [`Clocks`] make of them, whatever clocks
//! the stamps were read from: for every stage of every trace an estimate and a guaranteed interval. A [`StageTally`]
//! bounds a stage's two errors, and a [`StageRow`] says which questions they leave open.
//!
//! Assumes: ids are equal at every point, and (kind, id) names one thing. Guarantees: nothing is dropped in silence:
//! what is missing, repeated, out of order or impossible is counted; no input panics. Deliberately absent: clocks,
//! files and sockets. Columns come in, columns go out.
#![forbid(unsafe_code)]

mod age;
mod bounds;
mod clocks;
mod duration;
mod error;
pub mod infer;
mod join;
mod layout;
mod marks;
mod nullable;
mod packed;
mod readings;
mod reconstruction;
mod share;
mod source;
mod stage_values;
mod table;
mod traces;

pub use age::{AgeBounds, Aged, Area, Arrival, AxisError, Sawtooth, aged, aged_without_delay, by_arrival, corners};
pub use bounds::{Apart, Common, RefusedBy, SUSPICIONS_KEPT, StageTally, Suspicion, tally};
pub use clocks::{Clock, Clocks, CounterPair, CounterWay, Refusal};
pub use duration::{Durations, OwnStamps, StageDurations};
pub use error::Error;
pub use infer::Sighting;
pub use join::{
    AttemptContradiction, JoinCounts, Limits, LinkCounts, MOST_SPANNED, MayPrecede, PointCounts, SHORT_SPAN, SPARSEST,
    StampAt, join,
};
pub use layout::{END_TO_END, Edge, Layout, LayoutText, Match, Point, Rule, Stage, StageRole, nearest, suggestion};
pub use marks::{Mark, Marks};
pub use nullable::Nullable;
pub use reconstruction::{Reconstruction, reconstruct};
pub use share::{Share, SharePlan, Sums};
pub use source::{Attribute, Columns, Extent, KeptStamps, LongSpans, StampColumns, StampSource};
pub use stage_values::{QuantileBounds, StageValues};
pub use table::{Answer, Sign, StageRow, largest_share, slowest};
pub use tickscope_stats::Quantile;
pub use traces::{Column, TraceKey, Traces};
