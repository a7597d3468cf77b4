//! The example of the Cm* study (5) from a run of `targets/cm-star`: latency of a message and execution time of a
//! remote procedure call, against the words that they carry and against how many pairs of client and server there are.
#![forbid(unsafe_code)]

pub mod figures;
mod presentation;
pub mod recording;
mod run;

pub use presentation::document;
pub use run::{Found, recorded};
