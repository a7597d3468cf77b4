//! Ticks, domains and intervals, and the only Rust code that reads a clock.
//!
//! A *tick* is one reading of a counter, an `i64`. A *domain* is the counter it was read from. Ticks of different
//! domains do not compile together: every tick carries a marker type, and only a relation (crate `bracket`) turns one
//! into the other. Everything that is uncertain is an [`Interval`], rounded outward to whole ticks.
//!
//! Assumes: a counter never runs for 2^63 ticks. Guarantees: no operation here clamps; what cannot be represented is an
//! error that carries the values. Deliberately absent: arithmetic in nanoseconds. Seconds are presentation, and are declared
//! ([`Frequency`]), not measured; [`Unit`] is the one place where ticks become decimals of them.
//!
//! About the host whose counter it is: [`facts`] (is it fit to measure with?), [`sharing`] (do its processors read one
//! counter?), [`host_clocks`] (did somebody step, slew or suspend its clocks meanwhile? With [`clock_watch`], [`step_alarm`] and
//! [`posix_clock`] the only place with nanoseconds, because those clocks count them). [`simulated`] is the clock of simulations.

pub mod affinity;
pub mod clock_watch;
pub mod counter;
mod discipline;
mod domain;
pub mod facts;
mod finding;
pub mod host_clocks;
mod injection;
mod interval;
pub mod posix_clock;
mod realtime_injection;
pub mod sharing;
pub mod simulated;
mod stairs;
pub mod step;
pub mod step_alarm;
mod tick;
mod unit;

pub use counter::{NodeCounter, Ordering};
pub use domain::{BootId, Counter, Domain, DomainError, Frequency};
pub use finding::Finding;
pub use injection::{Injection, InjectionError};
pub use interval::{Contradiction, Count, Interval};
pub use realtime_injection::RealtimeInjection;
pub use stairs::Stairs;
pub use tick::{Local, Reference, Span, Tick};
pub use unit::{Decimal, Unit, fraction_down, fraction_up};
