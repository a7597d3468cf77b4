//! Who sends: rows of a trace, drawn from a seed and held in memory before the run (the forwarder study).
//!
//! A row is an update of a user's address (control) or a packet to the user (data), by a coin that shows control `c`
//! times in `c + d`; its user is Zipf(1): the k-th of N comes in proportion to 1/k. The coin is drawn first.

use crate::{Error, SplitMix};

/// The most users of a trace.
pub const MOST_USERS: u32 = 1 << 24;
/// The weight of the first user; that of the k-th is this over k, rounded down.
const FIRST_WEIGHT: u64 = 1 << 52;
const CONTROL: u32 = 1 << 31;

/// How a trace is drawn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TracePlan {
    /// N.
    pub users: u32,
    /// Updates for every [`TracePlan::data`] packets; 0: none.
    pub control: u32,
    /// Packets for every [`TracePlan::control`] updates.
    pub data: u32,
    /// How many rows.
    pub rows: usize,
    /// What they are drawn from.
    pub seed: u64,
}

/// One row: what is sent, of or to which user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceRow(u32);

impl TraceRow {
    /// Whether it updates the user's address.
    pub fn is_control(self) -> bool {
        self.0 & CONTROL != 0
    }

    /// The user, from 0, the most frequent.
    pub fn user(self) -> u32 {
        self.0 & !CONTROL
    }

    /// The row as 32 bits, control the highest: as it is in C.
    pub fn bits(self) -> u32 {
        self.0
    }
}

/// Draws a trace.
pub fn user_trace(plan: &TracePlan) -> Result<Vec<TraceRow>, Error> {
    let (users, mut random) = (Zipf::new(plan.users)?, SplitMix::new(plan.seed));
    let coins = u64::from(plan.control) + u64::from(plan.data);
    if coins == 0 {
        return Err(Error::new("a ratio of control and data", "0 to 0", "Give 1 to 10 for one update in ten packets"));
    }
    let mut row = || {
        let control = random.below(coins) < u64::from(plan.control);
        TraceRow(users.draw(&mut random) | if control { CONTROL } else { 0 })
    };
    Ok((0..plan.rows).map(|_| row()).collect())
}

/// Users in proportion to 1 / rank.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// Weights of each user and all before it.
    sums: Vec<u64>,
}

impl Zipf {
    /// So many users.
    pub fn new(users: u32) -> Result<Self, Error> {
        if users == 0 || users > MOST_USERS {
            return Err(Error::new(format!("1 to {MOST_USERS} users"), users, "The study has 1000"));
        }
        let weights = (1..=u64::from(users)).map(|rank| FIRST_WEIGHT / rank);
        let sum = |sum: &mut u64, weight| {
            *sum += weight;
            Some(*sum)
        };
        Ok(Self { sums: weights.scan(0, sum).collect() })
    }

    /// A user, from 0, the most frequent.
    pub fn draw(&self, random: &mut SplitMix) -> u32 {
        let at = random.below(self.sums[self.sums.len() - 1]);
        self.sums.partition_point(|sum| *sum <= at) as u32
    }
}
