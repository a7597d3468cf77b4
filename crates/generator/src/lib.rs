//! A load of tuples that is sent over a socket when it is due, with the id of each in its bytes.
//!
//! Idea: crate `load` says when; here several senders write to a connection each. All bytes are laid out before the
//! first is due, framing included, and what is due already leaves in one call, so that a sender that is behind catches
//! up. A socket that takes nothing is waited for, and how long that took is told: it is the target's *back-pressure*,
//! and what is late for it is no fault of the generator. What it was late with itself makes the trial invalid.
//!
//! Points: `due` (`plain`: the tick at which a tuple is due, read by nobody), `send` (`before` it is written) and,
//! where replies are asked for, `reply` (`after` it was read). A latency that omits nothing begins at `due`.
//!
//! Assumes: a counter whose rate this host declares. Guarantees: each tuple has an id of its own; every one is counted
//! as sent, late, held up or unsent; nothing waits for a target without an end. Deliberately absent: TLS, HTTP/2,
//! answers that are looked into, a search for a rate.

mod error;
mod frames;
mod http;
mod kafka;
mod link;
mod plan;
mod replies;
mod report;
mod sender;
mod zmtp;

pub use error::{Error, ErrorKind};
pub use frames::{IdForm, IdPlace, TEXT_ID_BYTES};
pub use plan::{GeneratorPlan, Law, MOST_SENDERS, Replies, Transport, TupleSource};
pub use report::{LoadReport, ScheduleReport};
pub use sender::generate;
