//! Brackets to clock maps to intervals: what one domain's ticks say about another's, guaranteed and exact.
//!
//! A [`Bracket`] `(before, at, after)` says: an event that the local domain stamped `at` happened no earlier than tick
//! `before` and no later than tick `after` of the reference domain. A [`ClockMap`] made of many brackets answers, for
//! any tick of the local domain, the interval of the reference that contains the true tick for **every** map that the
//! [`Model`] and all the brackets allow.
//!
//! The idea (`docs/proof.md`, "Clock maps"): the rate of the true map stays within rho of some constant `r0`. A linear
//! programme over all brackets bounds `r0`; its ends, widened by rho, are the slopes of a [`Cone`]; every bracket opens
//! as that cone, and the intersection of all cones is the interval.
//!
//! A clock that somebody may set, step or slew has no single map: [`Epochs`] divides it where it broke, and has a clock
//! map for every stretch between.
//!
//! Several domains that are related in pairs narrow each other: [`Domains`].
//!
//! Assumes: every bracket is true, and rho is honest. A tick names an instant: where a counter is coarse, its
//! quantisation is added to the bracket by whoever makes the bracket. Guarantees: exact integers throughout; what is
//! rounded is rounded outward; no input panics; evidence that contradicts itself is an [`Error::Inconsistent`] that
//! names the outlier, and nothing is clamped or widened. Deliberately absent: statistics, clocks, files, sockets, and
//! seconds.
//!
//! ```
//! use tickscope_bracket::{Bracket, ClockMap, Model, Ratio, Rho};
//! use tickscope_tick::Tick;
//!
//! let exchange = |sent: i64, at: i64, received: i64| Bracket::new(Some(sent), at, Some(received));
//! let evidence = [exchange(1_000, 50, 1_100), exchange(1_001_010, 1_000_050, 1_001_090)];
//! let model = Model::new("1".parse::<Rho>()?, Ratio::new(1, 1)?, Tick::new(50));
//! let clock_map = ClockMap::new(&evidence, &model)?;
//! let interval = clock_map.interval(Tick::new(500_000))?;
//! assert!(interval.contains(clock_map.estimate(Tick::new(500_000))?));
//! assert_eq!((interval.lo().get(), interval.hi().get()), (500_913, 501_087));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod bracket;
mod clock_map;
mod closure;
mod cone;
mod contradiction;
mod envelope;
mod epochs;
mod evidence;
mod finding;
mod kept;
mod model;
mod outlier;
mod placer;
mod ratio;
mod rho;
mod segment;
mod short_spans;
mod slope;
mod widths;

pub use bracket::Bracket;
pub use clock_map::{ClockMap, Held, Near, Vertex};
pub use closure::{Closed, ClosureError, Conflict, Domains, PairEvidence};
pub use cone::Cone;
pub use epochs::{Break, Epoch, Epochs, Placement, Refused};
pub use evidence::LIMIT_TICKS;
pub use finding::{Error, Finding, Inconsistency, NamedBracket, OutlierBracket, Side};
pub use kept::KeptBrackets;
pub use model::{Model, ReadingWidths};
pub use placer::Placer;
pub use ratio::Ratio;
pub use rho::{Rho, RhoOrigin};
pub use segment::Segment;
pub use short_spans::ShortSpans;
pub use widths::HalfWidths;
