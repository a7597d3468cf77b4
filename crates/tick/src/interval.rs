//! Closed intervals of whole ticks. All interval arithmetic of tickscope is here.

use std::fmt;

use crate::{Span, Tick};

/// A whole number of ticks: a [`Tick`] or a [`Span`].
pub trait Count: Copy + Ord + fmt::Display {
    /// The raw count.
    fn count(self) -> i64;
    /// Wraps a raw count.
    fn of(count: i64) -> Self;
}

impl<D> Count for Tick<D> {
    fn count(self) -> i64 {
        self.get()
    }
    fn of(count: i64) -> Self {
        Tick::new(count)
    }
}

impl<D> Count for Span<D> {
    fn count(self) -> i64 {
        self.get()
    }
    fn of(count: i64) -> Self {
        Span::new(count)
    }
}

/// All values from `lo` to `hi`, both included; never empty.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Interval<T> {
    lo: T,
    hi: T,
}

/// Two bounds that no value satisfies: a finding, carried with both values and never mended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contradiction {
    /// No value is below this count.
    pub lo: i64,
    /// No value is above this count.
    pub hi: i64,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lo, hi } = self;
        write!(f, "expected lo <= hi, found lo {lo} and hi {hi}: the evidence contradicts itself or the declared rho")
    }
}

impl std::error::Error for Contradiction {}

impl<T: Count> Interval<T> {
    /// The interval from `lo` to `hi`; an error if it would be empty.
    pub fn new(lo: T, hi: T) -> Result<Self, Contradiction> {
        if lo <= hi { Ok(Self { lo, hi }) } else { Err(Contradiction { lo: lo.count(), hi: hi.count() }) }
    }

    /// The interval that holds one value.
    pub fn exactly(value: T) -> Self {
        Self { lo: value, hi: value }
    }

    /// The lower end.
    pub fn lo(self) -> T {
        self.lo
    }

    /// The upper end.
    pub fn hi(self) -> T {
        self.hi
    }

    /// Whether `value` lies inside, ends included.
    pub fn contains(self, value: T) -> bool {
        self.lo <= value && value <= self.hi
    }

    /// What both intervals allow; an error if they have nothing in common.
    pub fn intersect(self, other: Self) -> Result<Self, Contradiction> {
        Self::new(self.lo.max(other.lo), self.hi.min(other.hi))
    }

    /// The whole tick at the middle, rounded down.
    pub fn middle(self) -> T {
        T::of(((i128::from(self.lo.count()) + i128::from(self.hi.count())) >> 1) as i64)
    }

    /// `hi - lo` in ticks.
    pub fn width(self) -> u64 {
        self.hi.count().abs_diff(self.lo.count())
    }

    /// Half the width in ticks, rounded up: `middle() ± half_width()` contains the interval.
    pub fn half_width(self) -> u64 {
        self.width().div_ceil(2)
    }
}

impl<D> Interval<Tick<D>> {
    /// All distances from a tick of `earlier` to a tick of `self`.
    pub fn since(self, earlier: Self) -> Interval<Span<D>> {
        Interval { lo: self.lo - earlier.hi, hi: self.hi - earlier.lo }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Local;
    use proptest::prelude::*;

    type Ticks = Interval<Tick<Local>>;

    fn interval(lo: i64, hi: i64) -> Ticks {
        Ticks::new(Tick::new(lo), Tick::new(hi)).unwrap()
    }

    #[test]
    fn an_empty_interval_is_an_error_with_both_values() {
        assert_eq!(Ticks::new(Tick::new(5), Tick::new(4)), Err(Contradiction { lo: 5, hi: 4 }));
        assert_eq!(interval(1, 3).intersect(interval(4, 9)), Err(Contradiction { lo: 4, hi: 3 }));
    }

    #[test]
    fn the_middle_rounds_down_and_the_half_width_up_on_both_sides_of_zero() {
        assert_eq!((interval(-4, -1).middle().get(), interval(-4, -1).half_width()), (-3, 2));
        assert_eq!((interval(1, 4).middle().get(), interval(1, 4).half_width()), (2, 2));
        assert_eq!(interval(i64::MIN, i64::MAX).half_width(), 1 << 63);
    }

    proptest! {
        #[test]
        fn property_every_distance_of_members_lies_in_the_distance_of_intervals(
            a in -1000i64..1000, wa in 0i64..50, x in 0i64..50, b in -1000i64..1000, wb in 0i64..50, y in 0i64..50,
        ) {
            let (earlier, later) = (interval(a, a + wa), interval(b, b + wb));
            let span = Tick::<Local>::new(b + y.min(wb)) - Tick::new(a + x.min(wa));
            prop_assert!(later.since(earlier).contains(span));
        }

        #[test]
        fn property_middle_plus_minus_half_width_covers_the_interval(lo in -1_000_000i64..1_000_000, width in 0i64..9999) {
            let i = interval(lo, lo + width);
            let (middle, half) = (i.middle().get(), i.half_width() as i64);
            prop_assert!(i.contains(i.middle()));
            prop_assert!(middle - half <= lo && lo + width <= middle + half);
        }
    }
}
