//! The slope programme: which constant rates `r0` all brackets allow, exactly (`docs/proof.md`, "The slope programme").
//!
//! All `(v, r)` with `v + r*(d - rho|d|) <= after` and `v + r*(d + rho|d|) >= before`, where `d = at - anchor`, and `r`
//! within the prior. For a given `r`, some `v` exists exactly where `g(r) = min(after - r*x) - max(before - r*x')` is
//! not negative. `g` is concave and made of straight pieces, and the brackets that make it are corners of two convex
//! hulls. So each end of the feasible `r` is found by Newton steps from the prior's end: a tangent overestimates a
//! concave function, so no step jumps over the answer, and the last step is the answer itself, a fraction.
//!
//! `x` is scaled by 10^9, so that rho in parts per 10^9 is a whole number: `x` stays below 2^89, rates are fractions of
//! parts below 2^90, and products need 256 bits.

use ethnum::I256;

use crate::evidence::Point;
use crate::{Ratio, Rho};

const BILLION: i128 = 1_000_000_000;

/// The exact ends of the rates that all brackets allow.
#[derive(Clone, Debug)]
pub(crate) struct Slopes {
    pub r_min: Ratio,
    pub r_max: Ratio,
    /// The brackets that set those ends; empty where the prior does.
    pub set_by: Vec<usize>,
}

/// Brackets that no rate within the prior satisfies together.
pub(crate) struct NoRate {
    pub lower: usize,
    pub upper: usize,
    /// A contradictory subset: a single wrong bracket is one of these.
    pub culprits: Vec<usize>,
}

/// A model in the frame of its evidence.
#[derive(Clone, Copy)]
pub(crate) struct Premise {
    pub rho: Rho,
    /// The ends of the prior, in reference ticks per local tick.
    pub prior: (Ratio, Ratio),
    /// From the first local tick.
    pub anchor: i64,
}

impl Slopes {
    /// The ends of the programme over `points`, sorted by `at`.
    pub fn new(points: &[Point], premise: Premise) -> Result<Self, NoRate> {
        let gap = Gap::new(points, premise);
        let (low, high) = premise.prior;
        let (r_min, mut set_by) = gap.first_allowed(low, high, Side::Rising)?;
        let (r_max, also) = gap.first_allowed(high, low, Side::Falling)?;
        set_by.extend(also);
        Ok(Self { r_min, r_max, set_by })
    }
}

/// From which end of the prior the answer is approached.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Rising,
    Falling,
}

/// `g(r)`: the room for `v` that the brackets leave at rate `r`.
struct Gap {
    uppers: Hull,
    /// Mirrored through the origin, so that both hulls are lower hulls and `g` is the sum of their minima.
    lowers: Hull,
}

/// One straight piece of `g`: `g(r) <= y - r * x / 10^9` everywhere, with equality where it touches.
struct Tangent {
    x: i128,
    y: i128,
    upper: usize,
    lower: usize,
}

impl Gap {
    fn new(points: &[Point], premise: Premise) -> Self {
        let uppers = points.iter().filter_map(|p| corner(p, p.after?, premise.x(p.at, -1), 1));
        let lowers = points.iter().rev().filter_map(|p| corner(p, p.before?, premise.x(p.at, 1), -1));
        Self { uppers: Hull::of(uppers), lowers: Hull::of(lowers) }
    }

    /// The first rate from `start` towards `end` at which the gap is not negative, and the brackets that set it.
    fn first_allowed(&self, start: Ratio, end: Ratio, side: Side) -> Result<(Ratio, Vec<usize>), NoRate> {
        let mut rate = start;
        let mut set_by = Vec::new();
        while let Some(tangent) = self.tangent(rate).filter(|tangent| tangent.is_negative_at(rate)) {
            let next = tangent.zero().filter(|_| tangent.improves(side)).filter(|&next| !past(next, end, side));
            let ends = vec![tangent.lower, tangent.upper];
            let Some(next) = next else {
                let culprits = [ends, set_by].concat();
                return Err(NoRate { lower: tangent.lower, upper: tangent.upper, culprits });
            };
            (rate, set_by) = (next, ends);
        }
        Ok((rate, set_by))
    }

    /// The piece of `g` that touches it at `rate`; there is one wherever both sides have a bracket.
    fn tangent(&self, rate: Ratio) -> Option<Tangent> {
        let (up, low) = (self.uppers.lowest(rate)?, self.lowers.lowest(rate)?);
        Some(Tangent { x: up.x + low.x, y: up.y + low.y, upper: up.index, lower: low.index })
    }
}

fn past(next: Ratio, end: Ratio, side: Side) -> bool {
    if side == Side::Rising { next > end } else { next < end }
}

impl Premise {
    /// `10^9 * (d ± rho|d|)` with `d = at - anchor`.
    fn x(self, at: i64, sign: i128) -> i128 {
        let d = i128::from(at) - i128::from(self.anchor);
        d * BILLION + sign * i128::from(self.rho.ppb()) * d.abs()
    }
}

impl Tangent {
    fn is_negative_at(&self, rate: Ratio) -> bool {
        scaled(self.y, rate) < I256::from(self.x) * I256::from(rate.numerator())
    }

    /// Returns whether the piece grows in the direction of search; where it does not, a negative gap stays negative.
    fn improves(&self, side: Side) -> bool {
        if side == Side::Rising { self.x < 0 } else { self.x > 0 }
    }

    /// The positive rate at which the piece is zero.
    fn zero(&self) -> Option<Ratio> {
        let sign = self.x.signum();
        let numerator = u128::try_from(self.y * BILLION * sign).ok().filter(|&numerator| numerator > 0)?;
        Some(Ratio::lowest(numerator, self.x.unsigned_abs()))
    }
}

/// `y * 10^9 * q` for a rate `p/q`: what `x * p` is compared with.
fn scaled(y: i128, rate: Ratio) -> I256 {
    I256::from(y * BILLION) * I256::from(rate.denominator())
}

/// A corner of a hull: `x` scaled by 10^9, `y` in reference ticks.
#[derive(Clone, Copy)]
struct Corner {
    x: i128,
    y: i128,
    index: usize,
}

fn corner(point: &Point, y: i64, x: i128, mirror: i128) -> Option<Corner> {
    Some(Corner { x: x * mirror, y: i128::from(y) * mirror, index: point.index })
}

/// The lower convex hull of points that come sorted by `x`.
struct Hull {
    corners: Vec<Corner>,
}

impl Hull {
    fn of(sorted: impl Iterator<Item = Corner>) -> Self {
        let mut corners: Vec<Corner> = Vec::new();
        for new in sorted {
            while corners.last().is_some_and(|last| last.x == new.x && last.y > new.y) || bends_down(&corners, new) {
                corners.pop();
            }
            if corners.last().is_none_or(|last| last.x < new.x) {
                corners.push(new);
            }
        }
        Self { corners }
    }

    /// The corner at which `y - rate * x` is smallest.
    fn lowest(&self, rate: Ratio) -> Option<&Corner> {
        let edges = self.corners.len().saturating_sub(1);
        let (mut low, mut high) = (0, edges);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.falls_along(middle, rate) { low = middle + 1 } else { high = middle }
        }
        self.corners.get(low)
    }

    /// Returns whether `y - rate * x` is smaller at the far end of this edge than at the near one.
    fn falls_along(&self, edge: usize, rate: Ratio) -> bool {
        let (near, far) = (&self.corners[edge], &self.corners[edge + 1]);
        scaled(far.y - near.y, rate) < I256::from(far.x - near.x) * I256::from(rate.numerator())
    }
}

/// Returns whether the last corner lies on or above the line from the one before it to `new`.
fn bends_down(corners: &[Corner], new: Corner) -> bool {
    let [.., a, b] = corners else {
        return false;
    };
    let rise =
        |from: &Corner, to: &Corner, by: &Corner, at: &Corner| I256::from(to.y - from.y) * I256::from(at.x - by.x);
    rise(b, &new, a, b) <= rise(a, b, b, &new)
}
