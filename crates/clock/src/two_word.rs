//! Clocks wider than what is read at once: a high and a low word, and a clock that runs on between two reads.
//!
//! The three routines of the Cm* study (3.2), each as the paper prints it and as corrected, and a proof by enumeration of
//! what each is worth: [`failures`] tries every way in which the clock can run on between the reads.
//!
//! **The model.** Words of a few bits stand for words of 16 or 32: the routines only compare, so what they do depends on
//! the order of values and on where the words wrap, not on how wide they are. The clock counts up by one a tick and wraps
//! to 0 after its largest value. It is written by an atomic counter, both words at once, or by a program with two
//! stores, in either order; a store of a high word that does not change is no store. Reads and stores happen one at a time and in
//! program order. Before every read the writer takes any number of steps, up to a whole turn of the clock in one call;
//! a call begins anywhere in the clock's range, and between the two stores too.
//!
//! **Right** is a result that the clock had at some instant of the call. While a program is between its two stores, both the
//! old and the new value count.
//!
//! What the routines cost on a clock that runs is measured (`measure/two_words.rs`); [`Live`] says what that shows.
//!
//! Assumes: one writer; stores seen in the order they were made (x86, or release and acquire). Deliberately absent: a
//! routine that is right with every writer. There is none with two words and two stores; read one atomic word.

mod enumeration;
mod live;
mod routine;
mod table;

pub use enumeration::{CounterExample, Failures, Regime, Tally, Widths, Writer, failures};
pub use live::{Live, LiveTest, Pair, Phase};
pub use routine::{OneRead, Reading, Routine, Text, Word, four_read, varying_read};
pub use table::{Row, Table};
