//! Clocks of two words, read by halves: the routines of the Cm* study (3.2), and what a reading takes while several
//! read.
//!
//! What the routines are worth is in `docs/two-word-clocks.md`, by enumeration; `measure::two_words` reads a real one.

pub mod contention;
pub mod routine;
