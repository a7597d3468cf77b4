//! Stamps out of the shared memory that programs stamp into, and into a run.
//!
//! The [`Collector`] is the other half of crate `stamp`: it leases what programs filled, writes it as segments, and
//! recovers what a killed program left. [`import_log`] brings in what a program logged by itself.
//!
//! Assumes: one collector a node. Guarantees: a stamp whose call returned is stored exactly once, whoever is killed
//! at whatever moment; what was lost is counted by reason. Deliberately absent: any reading of a counter, and any
//! computation: stamps go in as they were taken.

mod clear;
mod clock_log;
mod collector;
mod ledger;
mod sampler;
mod spectator;
mod steps;
mod watched_pool;

#[cfg(test)]
mod fabricated;
#[cfg(test)]
#[path = "../../store/tests/sample/mod.rs"]
mod sample;
#[cfg(test)]
#[path = "../../store/src/scratch.rs"]
mod scratch;

pub use clear::{Cleared, Foreign, Stays, clear, expect_free};
pub use clock_log::{LogForm, LogIds, LogPlace, LogPoint, LogRead, LogSyntax, LogUnit, import_log};
pub use collector::{
    ChannelNow, Collector, Dumped, EVERY_POINT, LiveRule, Report, Settings, Switched, Trigger, UNNAMED, node_names,
};
pub use spectator::{Seen, Spectator};
