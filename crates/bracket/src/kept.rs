//! Brackets as they come, of which only those are kept that can still matter (`docs/proof.md`, "Dominated brackets").
//!
//! A bracket is dominated by another whose widest admissible cone says as much at its tick: no slope programme and no
//! envelope is changed by leaving it out. So the clock map of what is kept is that of all brackets, to the last tick.

use ethnum::I256;
use tickscope_tick::{Local, Tick};

use crate::{Bracket, ClockMap, Cone, Error, Model};

/// The brackets of one pair, in any order, in memory that grows with those that matter.
#[derive(Clone, Debug)]
pub struct KeptBrackets {
    cone: Cone,
    lowers: Kept,
    uppers: Kept,
    count: u64,
}

/// One side: `(tick, bound)`, the upper side mirrored, so that a larger bound says more on both.
#[derive(Clone, Debug)]
struct Kept {
    slopes: [i128; 2],
    sides: Vec<(i64, i64)>,
    /// So many were left when they were last thinned.
    thinned: usize,
}

/// Fewer than these are not worth thinning.
const FEW: usize = 256;

impl KeptBrackets {
    /// No brackets yet, of a pair under `model`; where its ticks are anchored does not matter.
    pub fn new(model: &Model) -> Result<Self, Error> {
        let (slow, fast) = model.prior()?;
        let cone = Cone::new(slow, fast, model.rho);
        let (slowest, fastest) = (cone.slowest(), cone.fastest());
        let kept = |slopes| Kept { slopes, sides: Vec::new(), thinned: 0 };
        // Mirrored, an upper bound falls by the fastest slope after its tick, and by the slowest before.
        Ok(Self { cone, lowers: kept([slowest, fastest]), uppers: kept([-fastest, -slowest]), count: 0 })
    }

    /// Adds a bracket of the continuous clocks behind its readings.
    pub fn add(&mut self, bracket: &Bracket) {
        self.count += 1;
        if let Some(before) = bracket.before {
            self.lowers.add(bracket.at.get(), before.get());
        }
        if let Some(after) = bracket.after {
            self.uppers.add(bracket.at.get(), !after.get());
        }
    }

    /// How many were added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The widest cone that the model admits.
    pub fn cone(&self) -> Cone {
        self.cone
    }

    /// Those that matter, a side each.
    pub fn brackets(&mut self) -> Vec<Bracket> {
        self.lowers.thin();
        self.uppers.thin();
        let lowers = self.lowers.sides.iter().map(|&(at, before)| Bracket::new(Some(before), at, None));
        let uppers = self.uppers.sides.iter().map(|&(at, after)| Bracket::new(None, at, Some(!after)));
        lowers.chain(uppers).collect()
    }

    /// The clock map of all brackets that were added, with the anchor of `model`.
    pub fn clock_map(&mut self, model: &Model) -> Result<ClockMap, Error> {
        ClockMap::new(&self.brackets(), model)
    }

    /// The first and last tick of what is kept.
    pub fn ends(&self) -> Option<(Tick<Local>, Tick<Local>)> {
        let at = || self.lowers.sides.iter().chain(&self.uppers.sides).map(|&(at, _)| Tick::new(at));
        at().min().zip(at().max())
    }
}

impl Kept {
    fn add(&mut self, at: i64, bound: i64) {
        self.sides.push((at, bound));
        if self.sides.len() >= FEW.max(2 * self.thinned) {
            self.thin();
        }
    }

    /// Leaves out what another one dominates: of two that say the same, the earlier one stays.
    fn thin(&mut self) {
        self.sides.sort_unstable_by_key(|&(at, bound)| (at, std::cmp::Reverse(bound)));
        let [after, before] = self.slopes;
        // Each in its turn: domination is transitive, so what dominated one that is gone dominates it as well.
        keep(&mut self.sides, |last, next| !says_as_much(last, next, after));
        self.sides.reverse();
        keep(&mut self.sides, |last, next| !says_as_much(last, next, before));
        self.sides.reverse();
        self.thinned = self.sides.len();
    }
}

/// Returns whether the line through `by` with this slope, in units of 2^-60, reaches the bound of `at`.
fn says_as_much(by: (i64, i64), at: (i64, i64), slope: i128) -> bool {
    let apart = i128::from(at.0) - i128::from(by.0);
    let more = (i128::from(at.1) - i128::from(by.1)) << 20;
    // A slope has at most 73 bits: with 20 bits of fraction, rounded down, the product nearly always fits 128.
    match (slope >> (Cone::FRACTION_BITS - 20)).checked_mul(apart) {
        Some(grown) if apart >= 0 => grown >= more,
        _ => I256::from(slope) * I256::from(apart) >= I256::from(more) << (Cone::FRACTION_BITS - 20),
    }
}

/// Keeps each one that the last one kept does not make superfluous.
fn keep(sides: &mut Vec<(i64, i64)>, needed: impl Fn((i64, i64), (i64, i64)) -> bool) {
    let mut last: Option<(i64, i64)> = None;
    sides.retain(|&side| {
        let is_kept = last.is_none_or(|last| needed(last, side));
        if is_kept {
            last = Some(side);
        }
        is_kept
    });
}
