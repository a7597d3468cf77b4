//! Cost of the instructions that read the counter, over many readings in a row (the Cloudprofiler study, 6.2): whether
//! a hypervisor traps them shows there, since a trap costs a hundred times more.

use std::hint::black_box;

use serde::Serialize;
use tickscope_counter as counter;
use tickscope_stats::Quantile;
use tickscope_tick::Frequency;

/// One instruction, so often in a row.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct InstructionCost {
    /// Its name.
    pub instruction: &'static str,
    /// Readings.
    pub reads: u64,
    /// Time of each reading, nanoseconds, interruptions and all.
    pub ns: f64,
    /// The same in the middle one of blocks of 10 000.
    pub median_ns: f64,
}

/// Published cost of one instruction, nanoseconds: on a cloud's node, and on bare metal over 10^5 and over 10^10
/// readings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Published {
    /// Its name.
    pub instruction: &'static str,
    /// On a node of a cloud, KVM.
    pub cloud_ns: f64,
    /// On an Intel i5-6600, over 10^5 and 10^10 readings.
    pub bare_ns: [f64; 2],
}

/// The paper's text says 10 000 readings where its figures say 100 000.
pub const PUBLISHED: [Published; 2] = [
    Published { instruction: "rdtsc", cloud_ns: 10.0, bare_ns: [9.0, 6.0] },
    Published { instruction: "rdtscp", cloud_ns: 16.0, bare_ns: [14.0, 8.0] },
];

/// As in the paper: few, and then as many as the time allows, by powers of ten.
const FEW: u64 = 10_000;
const MANY: u64 = 10_000_000_000;
/// Blocks that the median is taken from at most.
const BLOCKS_MAX: usize = 10_000;

/// Each instruction over few readings and over many, in about `ticks` together.
pub fn instructions(ticks: i64, frequency: Frequency) -> Vec<InstructionCost> {
    #[cfg(target_arch = "x86_64")]
    return [
        costs("rdtsc", ticks / 2, frequency, counter::plain),
        costs("rdtscp", ticks / 2, frequency, counter::with_processor),
    ]
    .concat();
    #[cfg(not(target_arch = "x86_64"))]
    costs("mrs cntvct_el0", ticks, frequency, counter::plain).to_vec()
}

fn costs(
    instruction: &'static str,
    ticks: i64,
    frequency: Frequency,
    read: impl Fn() -> i64 + Copy,
) -> [InstructionCost; 2] {
    let cost = |reads: u64| {
        let mut blocks = Vec::new();
        let from = counter::before();
        for _ in 0..reads / FEW {
            let took = in_a_row(FEW, read);
            if blocks.len() < BLOCKS_MAX {
                blocks.push(took);
            }
        }
        let took = counter::after() - from;
        let median = Quantile::MEDIAN.of(&mut blocks).unwrap_or(took);
        let each = |ticks: i64, reads: u64| frequency.nanoseconds(ticks as f64) / reads as f64;
        InstructionCost { instruction, reads, ns: each(took, reads), median_ns: each(median, FEW) }
    };
    let few = cost(FEW);
    let fit = frequency.nanoseconds(ticks as f64) / few.median_ns.max(f64::MIN_POSITIVE);
    let many = std::iter::successors(Some(10 * FEW), |reads| Some(reads * 10));
    let many = many.take_while(|&reads| reads <= MANY && reads as f64 <= fit).last().unwrap_or(FEW);
    [few, cost(many)]
}

fn in_a_row(reads: u64, read: impl Fn() -> i64) -> i64 {
    let from = counter::before();
    for _ in 0..reads {
        black_box(read());
    }
    counter::after() - from
}
