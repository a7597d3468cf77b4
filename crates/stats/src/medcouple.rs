//! Medcouple: skewness that outliers do not move, exact on ticks with ties.
//!
//! The median of `h(a, b) = ((a - m) - (m - b)) / (a - b)` over all values `a >= m >= b`, m the median of the sample
//! (Brys, Hubert and Struyf 2004). From -1 (all mass at the upper end) over 0 (symmetric) to 1. Where both equal
//! the median, h is the sign of `k - 1 - i - j` for the i-th and j-th (from 0) of the k such values: as many of 1 as of
//! -1, and k of 0.
//!
//! With `p = a - m` and `q = m - b`, h grows with p/q alone: two pairs are compared by products of integers. What
//! involves the median has value 1, -1 or 0 and is only counted; the rest is a selection among [`Pairs`].
//!
//! The median of an even number of values is the mean of the middle two, of h as of the sample: robustbase's
//! `mc(doReflect = TRUE)`. With `FALSE` it takes the upper one, which on tied ticks is off by up to 1.

use crate::Sample;
use crate::pairs::{Pairs, counts, select, successor};

/// An exact fraction between -1 and 1, in lowest terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Medcouple {
    numerator: i128,
    denominator: i128,
}

impl Sample {
    /// Its medcouple, in O(n log n).
    pub fn medcouple(&self) -> Medcouple {
        let spread = Spread::new(self.values());
        let (low, high) = match spread.middle() {
            [Place::Strict(rank), Place::Strict(next)] if next > rank => {
                let value = select(&spread, rank);
                (value, successor(&spread, value, rank))
            }
            [low, high] if low == high => [spread.kernel(low); 2].into(),
            [low, high] => (spread.kernel(low), spread.kernel(high)),
        };
        Medcouple::mean(low, high)
    }
}

impl Medcouple {
    /// Above 0.
    pub fn denominator(self) -> i128 {
        self.denominator
    }

    /// Negative: skewed to the left.
    pub fn numerator(self) -> i128 {
        self.numerator
    }

    /// As a floating-point number.
    pub fn value(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    /// Parts and their products fit: p + q is at most twice the sample's limit of 2^62.
    fn mean(a: Kernel, b: Kernel) -> Self {
        let [(a, of_a), (b, of_b)] = [a, b].map(Kernel::fraction);
        if (a, of_a) == (b, of_b) { Self::lowest(a, of_a) } else { Self::lowest(a * of_b + b * of_a, 2 * of_a * of_b) }
    }

    fn lowest(numerator: i128, denominator: i128) -> Self {
        let (mut a, mut b) = (numerator.abs(), denominator);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        Self { numerator: numerator / a, denominator: denominator / a }
    }
}

/// `h = (p - q) / (p + q)` of a pair: how far it lies above and below the median, in half ticks. The value -1 is (0,
/// 1).
#[derive(Clone, Copy)]
struct Kernel {
    p: u64,
    q: u64,
}

impl Kernel {
    const MINUS: Self = Self { p: 0, q: 1 };
    const ZERO: Self = Self { p: 1, q: 1 };
    const PLUS: Self = Self { p: 1, q: 0 };

    fn fraction(self) -> (i128, i128) {
        let (p, q) = (i128::from(self.p), i128::from(self.q));
        (p - q, p + q)
    }
}

/// A sample about its median.
struct Spread {
    /// Distances of the values above, ascending, in half ticks.
    above: Vec<u64>,
    /// Distances of the values below, descending.
    below: Vec<u64>,
    /// How many equal the median.
    tied: u128,
}

/// Where a rank among all h falls.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Minus,
    Zero,
    Plus,
    /// Rank among the pairs without a value at the median.
    Strict(u128),
}

impl Pairs for Spread {
    type Value = Kernel;

    fn rows(&self) -> usize {
        self.above.len()
    }

    fn columns(&self) -> usize {
        self.below.len()
    }

    fn value(&self, row: usize, column: usize) -> Kernel {
        Kernel { p: self.above[row], q: self.below[column] }
    }

    fn less(a: &Kernel, b: &Kernel) -> bool {
        u128::from(a.p) * u128::from(b.q) < u128::from(b.p) * u128::from(a.q)
    }
}

impl Spread {
    fn new(sorted: &[i64]) -> Self {
        // Twice the distance from the median is whole; in 64 bits, as no two values are 2^62 apart.
        let (middle, upper) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        let twice = |value: i64| (value - middle) + (value - upper);
        let distance = |value: &i64| twice(*value).unsigned_abs();
        let below = sorted.partition_point(|&value| twice(value) < 0);
        let above = sorted.partition_point(|&value| twice(value) <= 0);
        Self {
            above: sorted[above..].iter().map(distance).collect(),
            below: sorted[..below].iter().map(distance).collect(),
            tied: (above - below) as u128,
        }
    }

    /// The places of the middle two of all h; one and the same where their number is odd.
    fn middle(&self) -> [Place; 2] {
        let (tied, above, below) = (self.tied, self.above.len() as u128, self.below.len() as u128);
        let count = (above + tied) * (below + tied);
        let ranks = [count.div_ceil(2), count / 2 + 1];
        if tied == 0 {
            return ranks.map(Place::Strict);
        }
        let ones = tied * (tied - 1) / 2;
        let (minus, plus) = (below * tied + ones, above * tied + ones);
        if ranks[1] <= minus {
            return [Place::Minus; 2];
        }
        if count - ranks[0] < plus {
            return [Place::Plus; 2];
        }
        let (negative, not_positive) = counts(self, &Kernel::ZERO);
        ranks.map(|rank| match rank {
            rank if rank <= minus => Place::Minus,
            rank if rank > count - plus => Place::Plus,
            rank if rank <= minus + negative => Place::Strict(rank - minus),
            rank if rank <= minus + not_positive + tied => Place::Zero,
            rank => Place::Strict(rank - minus - tied),
        })
    }

    fn kernel(&self, place: Place) -> Kernel {
        match place {
            Place::Minus => Kernel::MINUS,
            Place::Zero => Kernel::ZERO,
            Place::Plus => Kernel::PLUS,
            Place::Strict(rank) => select(self, rank),
        }
    }
}
