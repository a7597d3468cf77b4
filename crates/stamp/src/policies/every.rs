//! `every n`: each n-th stamp of a channel.
//!
//! The idea: the stamps are counted in the channel's entry, so that a reader knows how many were left out, and the
//! count at which the next is kept is private. Whoever reaches it takes it by one exchange.
//!
//! Guarantees: of any number of stamps, those of signal handlers too, that number divided by n is kept. Which of two
//! that a handler interrupted one another in is the n-th is not said. Deliberately absent: ids; see [`super::x_of_y`].

use crate::primitive::{AtomicU64, Ordering, own_exchange, own_fetch_add};

/// Largest n.
const MOST: u64 = i64::MAX as u64;

/// Each n-th stamp.
#[derive(Clone, Copy, Debug)]
pub struct Every {
    n: u64,
}

/// Returns whether a policy may have that n.
pub(super) fn is_valid(n: u64) -> bool {
    (1..=MOST).contains(&n)
}

/// The n; `None`: it is no whole number from 1 on.
pub(super) fn parse(n: &str) -> Option<u64> {
    let is_plain = n.bytes().all(|digit| digit.is_ascii_digit());
    n.parse().ok().filter(|&n| is_plain && is_valid(n))
}

impl Every {
    /// The rule of a valid parameter.
    pub fn of(n: u64) -> Self {
        Self { n }
    }

    /// The count at which the first is kept of the stamps that follow those `seen` so far.
    pub fn first(self, seen: u64) -> u64 {
        seen.wrapping_add(self.n)
    }

    /// Counts a stamp in `seen`; returns whether it is kept. `kept_next`: the count at which the next one is.
    #[inline(always)]
    pub fn keeps(self, seen: &AtomicU64, kept_next: &AtomicU64) -> bool {
        let count = own_fetch_add(seen, 1).wrapping_add(1);
        // A signal handler may have come since, and gone beyond.
        let mut next = kept_next.load(Ordering::Relaxed);
        while count.wrapping_sub(next) as i64 >= 0 {
            match own_exchange(kept_next, next, next.wrapping_add(self.n)) {
                Ok(()) => return true,
                Err(found) => next = found,
            }
        }
        false
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_nth_stamp_is_kept() {
        for n in [1, 2, 3, 100] {
            let (every, seen, next) = (Every::of(n), AtomicU64::new(0), AtomicU64::new(n));
            let kept: Vec<u64> = (1..=300).filter(|_| every.keeps(&seen, &next)).collect();
            assert_eq!(kept, (1..=300).filter(|id| id % n == 0).collect::<Vec<_>>());
            assert_eq!(seen.load(Ordering::Relaxed), 300);
        }
    }

    #[test]
    fn a_channel_that_had_stamps_under_another_epoch_counts_anew() {
        let (every, seen) = (Every::of(3), AtomicU64::new(7));
        let next = AtomicU64::new(every.first(7));
        assert_eq!([(); 6].map(|()| every.keeps(&seen, &next)), [false, false, true, false, false, true]);
    }
}
