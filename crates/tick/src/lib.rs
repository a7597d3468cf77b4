//! Ticks, spans and intervals, and the names of what they belong to.
//!
//! A *tick* is one reading of a clock, an `i64`. A *domain* is the clock it was read from. Ticks of different
//! domains do not compile together: every tick carries a marker type, and only a clock map (crate `bracket`) turns one
//! into the other. Everything that is uncertain is an [`Interval`], rounded outward to whole ticks.
//!
//! Assumes: a counter never runs for 2^63 ticks. Guarantees: no operation here clamps; what cannot be represented is
//! an error that carries the values. Deliberately absent: any reading of a clock, and arithmetic in nanoseconds.
//! Seconds are presentation, and are declared ([`Frequency`]), not measured; [`Unit`] is the one place where ticks
//! become decimals of them. [`simulated`] is the clock of simulations.

#![forbid(unsafe_code)]

mod base64;
mod domain;
mod duration;
mod injection;
mod interval;
mod name;
mod ordering;
mod plural;
mod printable;
mod realtime_injection;
mod shell;
pub mod simulated;
mod source;
mod stairs;
mod tick;
mod unit;

pub use base64::base64;
pub use domain::{BootId, Clock, Domain, DomainError, Frequency};
pub use duration::{DurationForm, decimal};
pub use injection::{Injection, InjectionError};
pub use interval::{Contradiction, Count, Interval};
pub use name::{Label, NAME_BYTES, NameError, NodeName, Place, PointName, RunName, own_points};
pub use ordering::Ordering;
pub use plural::counted;
pub use printable::{acts, printable, printable_lines};
pub use realtime_injection::RealtimeInjection;
pub use shell::quoted;
pub use source::Source;
pub use stairs::Stairs;
pub use tick::{Local, Reference, Span, Tick};
pub use unit::{Decimal, Unit, decimal_down, decimal_up, fraction_down, fraction_up};
