//! The cost of one stamp on a host, timed in a process of its own with a pool of its own.
//!
//! The stamps of a run's target can't be timed one by one without taking longer than they do; so as many are timed
//! here, in a tight loop, in the machine's state of just before the run. Between other work, with cold caches, a stamp
//! costs more.

use std::time::Instant;

use tickscope_stamp::{Channel, Fields};
use tickscope_store::StampCost;
use tickscope_tick::Ordering;

use crate::Error;

/// Blocks of stamps whose median is taken: of so many, half are seldom disturbed.
const BLOCKS: usize = 31;
/// Stamps in a block: the two readings around them vanish.
const STAMPS: i64 = 500;

/// Times stamps into the pool that the environment names.
pub(super) fn measure() -> Result<StampCost, Error> {
    Ok(StampCost {
        plain_ps: median_ps(Ordering::Plain)?,
        before_ps: median_ps(Ordering::Before)?,
        after_ps: median_ps(Ordering::After)?,
    })
}

fn median_ps(ordering: Ordering) -> Result<u64, Error> {
    let channel = Channel::open("cost", ordering, Fields::Slim).map_err(Error::work)?;
    (0..STAMPS).for_each(|id| channel.stamp(id)); // the first block of shared memory is leased, code is in the caches
    let mut blocks: Vec<u64> = (0..BLOCKS).map(|_| block_ps(&channel)).collect();
    blocks.sort_unstable();
    Ok(blocks[BLOCKS / 2])
}

fn block_ps(channel: &Channel) -> u64 {
    let start = Instant::now();
    (0..STAMPS).for_each(|id| channel.stamp(id));
    start.elapsed().as_nanos() as u64 * 1000 / STAMPS as u64
}
