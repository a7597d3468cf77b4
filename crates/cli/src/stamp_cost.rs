//! `tickscope stamp-cost`: what one stamp costs on this host, in a process of its own with a pool of its own.
//!
//! The stamps of a run's target can't be timed one by one without taking longer than they do; so as many are timed here,
//! in a tight loop, in the machine's state of just before the run. Between other work, with cold caches, a stamp costs more.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use tickscope_stamp::{Channel, Fields};
use tickscope_store::StampCost;
use tickscope_tick::Ordering;

use crate::failure::Failure;

/// Blocks of stamps whose median is taken: of so many, half are seldom disturbed.
const BLOCKS: usize = 31;
/// Stamps in a block: the two readings around them vanish.
const STAMPS: i64 = 500;

/// Times stamps into the pool that the environment names, and prints the result.
pub fn print() -> Result<(), Failure> {
    let cost = StampCost {
        plain_ps: median_ps(Ordering::Plain)?,
        before_ps: median_ps(Ordering::Before)?,
        after_ps: median_ps(Ordering::After)?,
    };
    println!("{}", serde_json::to_string(&cost).map_err(Failure::work)?);
    Ok(())
}

fn median_ps(ordering: Ordering) -> Result<u64, Failure> {
    let channel = Channel::open("cost", ordering, Fields::Slim).map_err(Failure::work)?;
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

/// Asks a new process of this program, whose pool lies in `directory` for that long.
pub fn ask(mut program: Command, directory: &Path) -> Result<StampCost, Failure> {
    std::fs::create_dir_all(directory).map_err(|e| {
        Failure::work(format!("expected to make {}, found: {e}. Mount a tmpfs there", directory.display()))
    })?;
    program.arg("stamp-cost").env("TICKSCOPE_DIR", directory).stderr(Stdio::inherit());
    for variable in ["POLICY", "POOL_BYTES", "BLOCK_BYTES", "WHEN_FULL", "INJECT", "INJECT_REALTIME"] {
        program.env_remove(format!("TICKSCOPE_{variable}"));
    }
    let output = program.output().map_err(Failure::work);
    let _ = std::fs::remove_dir_all(directory); // whatever is left there is of no run
    let output = output?;
    serde_json::from_slice(&output.stdout).map_err(|e| {
        Failure::work(format!("expected the cost of a stamp, found {}: {e}. See its message above", output.status))
    })
}
