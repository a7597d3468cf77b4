//! Noise of a host: detours that take a core from a program that only reads the counter, by length and by cause.
//!
//! After the study of operating-system noise on tablets (Rehn, Hamilton and Holdsworth). [`detector`] has the three
//! loops, [`survey`] runs one of them on all cores at once, [`cause`] names what took the core, [`tally`] and [`shape`]
//! say what came out, [`comparison`] sets two profiles beside each other, [`study`] is the tablets' study's analysis.
//!
//! Assumes: a core's counter never runs backward, and where it does both readings are told. Guarantees: a length is an
//! interval of ticks, as wide as two readings and the loop's own work; memory is bounded, however long it measures; all
//! detours above a printed resolution are found. Deliberately absent: removing anything in silence.

pub mod advice;
pub mod cause;
pub mod comparison;
pub mod detector;
pub mod detour;
mod fresh_memory;
mod kernel_record;
pub mod profile;
pub mod shape;
pub mod study;
pub mod survey;
pub mod tally;
pub mod window;

pub use cause::{CauseClass, CauseSum, DetourCause};
pub use detector::Detector;
pub use detour::{Detour, DetourLimit};
pub use profile::{CoreProfile, Machine, NoiseProfile};
