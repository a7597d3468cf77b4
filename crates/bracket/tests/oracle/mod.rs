//! Model `drift` once more, written differently: rationals, no hulls, no search, every pair of constraints.
//!
//! The slope programme by Fourier-Motzkin: eliminating `v` from each lower and each upper constraint leaves one
//! half-line of `r` a pair. The bounds by looking at every bracket for every question.
#![allow(dead_code, reason = "each test file uses another part")]

use num_bigint::BigInt;
use num_rational::Ratio as Rational;
use num_traits::{One, Signed, ToPrimitive, Zero};
use tickscope_bracket::{Bracket, Model};

pub type Exact = Rational<BigInt>;

pub fn whole(value: i64) -> Exact {
    Exact::from_integer(value.into())
}

pub fn fraction(numerator: i128, denominator: i128) -> Exact {
    Exact::new(numerator.into(), denominator.into())
}

pub struct Oracle {
    pub r_min: Exact,
    pub r_max: Exact,
    slowest: Exact,
    fastest: Exact,
    lowers: Vec<(Exact, Exact)>,
    uppers: Vec<(Exact, Exact)>,
}

impl Oracle {
    /// `None`: no rate fits.
    pub fn new(brackets: &[Bracket], model: &Model) -> Option<Self> {
        let rho = fraction(model.rho.ppb().into(), 1_000_000_000);
        let side = |tick: Option<i64>, at: i64| tick.map(|tick| (whole(at), whole(tick)));
        let lowers = brackets.iter().filter_map(|b| side(b.before.map(|t| t.get()), b.at.get())).collect::<Vec<_>>();
        let uppers = brackets.iter().filter_map(|b| side(b.after.map(|t| t.get()), b.at.get())).collect::<Vec<_>>();
        let (r_min, r_max) = programme(&lowers, &uppers, &rho, model)?;
        let (slowest, fastest) = (&r_min * (Exact::one() - &rho), &r_max * (Exact::one() + &rho));
        Some(Self { r_min, r_max, slowest, fastest, lowers, uppers })
    }

    pub fn lo(&self, y: i64) -> Exact {
        let from = |(b, l): &(Exact, Exact)| l + self.slope(&(whole(y) - b), &self.slowest, &self.fastest);
        self.lowers.iter().map(from).max().unwrap()
    }

    pub fn hi(&self, y: i64) -> Exact {
        let from = |(b, u): &(Exact, Exact)| u + self.slope(&(whole(y) - b), &self.fastest, &self.slowest);
        self.uppers.iter().map(from).min().unwrap()
    }

    fn slope(&self, distance: &Exact, after: &Exact, before: &Exact) -> Exact {
        if distance.is_negative() { distance * before } else { distance * after }
    }

    /// By how much the lower bound exceeds the upper at worst, over all ticks of evidence; negative: nowhere.
    pub fn worst_excess(&self, brackets: &[Bracket]) -> Exact {
        brackets.iter().map(|b| self.lo(b.at.get()) - self.hi(b.at.get())).max().unwrap()
    }

    pub fn span(&self, from: i64, to: i64) -> (i64, i64) {
        let distance = whole(to) - whole(from);
        let (a, b) = (&distance * &self.slowest, &distance * &self.fastest);
        let lo = a.clone().min(b.clone()).max(self.lo(to) - self.hi(from));
        let hi = a.max(b).min(self.hi(to) - self.lo(from));
        (floor(&lo), ceil(&hi))
    }
}

fn programme(
    lowers: &[(Exact, Exact)],
    uppers: &[(Exact, Exact)],
    rho: &Exact,
    model: &Model,
) -> Option<(Exact, Exact)> {
    let anchor = whole(model.anchor.get());
    let nominal = fraction(model.nominal.numerator() as i128, model.nominal.denominator() as i128);
    let prior = fraction(model.prior_ppm.into(), 1_000_000);
    let (mut r_min, mut r_max) = (&nominal * (Exact::one() - &prior), &nominal * (Exact::one() + &prior));
    for (bl, before) in lowers {
        for (bu, after) in uppers {
            let (dl, du) = (bl - &anchor, bu - &anchor);
            let coefficient = (&du - rho * du.abs()) - (&dl + rho * dl.abs());
            let room = after - before;
            if coefficient.is_zero() && room.is_negative() {
                return None;
            } else if coefficient.is_positive() {
                r_max = r_max.min(room / coefficient);
            } else if coefficient.is_negative() {
                r_min = r_min.max(room / coefficient);
            }
        }
    }
    (r_min <= r_max).then_some((r_min, r_max))
}

pub fn floor(value: &Exact) -> i64 {
    value.floor().to_integer().to_i64().unwrap()
}

pub fn ceil(value: &Exact) -> i64 {
    value.ceil().to_integer().to_i64().unwrap()
}
