//! One reading of a counter, and the distance between two readings of the same counter.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::{Add, Neg, Sub};

/// Marks ticks of the domain that durations are expressed in.
#[derive(Debug)]
pub enum Reference {}

/// Marks ticks of the other domain of a pair, before a clock map has translated them.
#[derive(Debug)]
pub enum Local {}

/// One reading of the counter of domain `D`.
///
/// Ticks of two domains do not mix:
/// ```compile_fail
/// use tickscope_tick::{Local, Reference, Tick};
/// let duration = Tick::<Reference>::new(7) - Tick::<Local>::new(3);
/// ```
/// Ticks of one domain have a distance:
/// ```
/// use tickscope_tick::{Local, Tick};
/// assert_eq!((Tick::<Local>::new(7) - Tick::new(3)).get(), 4);
/// ```
pub struct Tick<D> {
    count: i64,
    domain: PhantomData<fn() -> D>,
}

/// The distance between two ticks of domain `D`, in ticks; positive: the left-hand tick is the later one.
pub struct Span<D> {
    count: i64,
    domain: PhantomData<fn() -> D>,
}

/// What `Tick` and `Span` share: a count of domain `D`, compared, hashed and printed by that count alone.
macro_rules! count_of_domain {
    ($name:ident) => {
        impl<D> $name<D> {
            /// Wraps a raw count.
            #[inline]
            pub const fn new(count: i64) -> Self {
                Self { count, domain: PhantomData }
            }

            /// The raw count.
            #[inline]
            pub const fn get(self) -> i64 {
                self.count
            }
        }
        impl<D> Clone for $name<D> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<D> Copy for $name<D> {}
        impl<D> PartialEq for $name<D> {
            fn eq(&self, other: &Self) -> bool {
                self.count == other.count
            }
        }
        impl<D> Eq for $name<D> {}
        impl<D> PartialOrd for $name<D> {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
        impl<D> Ord for $name<D> {
            fn cmp(&self, other: &Self) -> Ordering {
                self.count.cmp(&other.count)
            }
        }
        impl<D> Hash for $name<D> {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.count.hash(state);
            }
        }
        impl<D> fmt::Debug for $name<D> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.count)
            }
        }
        impl<D> fmt::Display for $name<D> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.count.fmt(f)
            }
        }
    };
}
count_of_domain!(Tick);
count_of_domain!(Span);

const TOO_FAR: &str = "two ticks of one domain are less than 2^63 apart: a counter at 10 GHz takes 29 years for that";

impl<D> Sub for Tick<D> {
    type Output = Span<D>;

    /// Positive when `self` is the later tick.
    fn sub(self, earlier: Self) -> Span<D> {
        Span::new(self.count.checked_sub(earlier.count).expect(TOO_FAR))
    }
}

impl<D> Add<Span<D>> for Tick<D> {
    type Output = Tick<D>;

    fn add(self, span: Span<D>) -> Tick<D> {
        Tick::new(self.count.checked_add(span.count).expect(TOO_FAR))
    }
}

impl<D> Sub<Span<D>> for Tick<D> {
    type Output = Tick<D>;

    fn sub(self, span: Span<D>) -> Tick<D> {
        Tick::new(self.count.checked_sub(span.count).expect(TOO_FAR))
    }
}

impl<D> Add for Span<D> {
    type Output = Span<D>;

    fn add(self, other: Self) -> Span<D> {
        Span::new(self.count.checked_add(other.count).expect(TOO_FAR))
    }
}

impl<D> Sub for Span<D> {
    type Output = Span<D>;

    fn sub(self, other: Self) -> Span<D> {
        Span::new(self.count.checked_sub(other.count).expect(TOO_FAR))
    }
}

impl<D> Neg for Span<D> {
    type Output = Span<D>;

    fn neg(self) -> Span<D> {
        Span::new(self.count.checked_neg().expect(TOO_FAR))
    }
}
