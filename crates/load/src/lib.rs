//! A load that is sent when it is due, whatever happens to those before it.
//!
//! [`DueTicks`] says when: at a constant interval, or as a Poisson process that is drawn from a seed and held in
//! memory. A [`Pacer`] spins on a counter until the next one, so a late send does not shift the schedule, and a latency
//! that is counted from [`Release::due`] leaves nothing out. [`TokenBucket`] is the source of the forwarder study, with
//! the credit as published or capped; [`user_trace`] its users and their updates; [`Tuples`] carry their ids in their
//! bytes. [`Lateness`] keeps how late each event was, and which [`Fault`] makes a trial invalid: not failed, for it
//! says nothing of the target.
//!
//! Assumes: the counter that is passed in runs at the declared frequency; an instant of that counter is an `i64`.
//! Guarantees: due ticks are exact in integers, however many (no drift); the same seed gives the same ticks and rows on
//! every machine, and in C (`targets/harness/load.h`), since no float and no logarithm takes part; an early send is
//! counted and never hidden. Deliberately absent: a clock, a socket, the search for a rate that can be sustained.
//!
//! ```
//! use tickscope_load::{DueTicks, EventRate, LoadPlan, Pacer};
//! let hertz = 1_000_000_000; // of the counter; here a simulated one
//! let plan = LoadPlan { rate: EventRate::new(3, 1)?, hertz, start: 0, until: 1_000_000_000, burst: 1 };
//! let mut now = 0;
//! let counter = || {
//!     now += 10;
//!     now
//! };
//! let mut pacer = Pacer::new(DueTicks::constant(&plan)?, counter, 1_000);
//! let mut due = Vec::new();
//! while let Some(release) = pacer.wait() {
//!     due.push(release.due); // send here, and stamp `due` with the id `release.first`
//! }
//! assert_eq!(due, [0, 333_333_333, 666_666_666]);
//! assert!(pacer.end().faults().is_empty());
//! # Ok::<(), tickscope_load::Error>(())
//! ```
#![forbid(unsafe_code)]

mod bucket;
mod due;
mod error;
mod lateness;
mod pacer;
mod random;
mod rate;
mod trace;
mod tuples;

pub use bucket::{BucketPlan, TokenBucket};
pub use due::{DueTicks, LoadPlan, MOST_BURST, MOST_COUNTER_HERTZ, MOST_HELD};
pub use error::Error;
pub use lateness::{Fault, Lateness, ONE_IN};
pub use pacer::{Pacer, Release};
pub use random::{FRACTION_BITS, SplitMix};
pub use rate::{EventRate, MOST_A_SECOND, MOST_SECONDS};
pub use trace::{MOST_USERS, TracePlan, TraceRow, Zipf, user_trace};
pub use tuples::{Tuples, write_id};
