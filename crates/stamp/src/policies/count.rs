//! `count p`: the number of stamps in each period p.
//!
//! The program only counts: one addition to a word of shared memory that no other thread writes, no reading of a clock
//! and no thread. The collector reads the totals of all channels of a node once a period. A point that several threads
//! stamp has a channel, so a word, on each: they never wait for one another's cache line, and the collector adds them.

use crate::primitive::{AtomicU64, own_add};

/// Counts a stamp.
#[inline(always)]
pub fn count(counted: &AtomicU64) {
    own_add(counted, 1);
}
