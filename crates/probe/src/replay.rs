//! Which requests of one asking node were answered: each is answered once, however long ago it was captured.
//!
//! Idea: a process that asks numbers its requests one after the other, so the highest number and which of those right
//! below it came say of any other whether it is new; what is older than these is taken for a replay. Each process that
//! asks has such a window of its own, for one that dies is followed by another.
//!
//! Assumes: the code of a request was checked before it is asked about here, so that strangers open no windows.
//! Deliberately absent: what was answered before this process began.

use std::collections::VecDeque;

use crate::datagram::Nonce;

/// The requests of one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replays {
    /// Windows of the processes that asked, the latest last.
    windows: VecDeque<Window>,
}

/// Processes of one node that are remembered: how often it may be started again before what it asked first could be
/// replayed.
const PROCESSES: usize = 64;
/// Words of 64 requests below the highest.
const WORDS: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Window {
    session: u32,
    highest: u32,
    /// Bit k of the whole: the request k below the highest came.
    came: [u64; WORDS],
}

impl Replays {
    /// Returns whether this is the first request of that number, and notes that it came.
    pub fn admit(&mut self, nonce: Nonce) -> bool {
        let (session, count) = (nonce.session(), nonce.count());
        if let Some(window) = self.windows.iter_mut().rev().find(|window| window.session == session) {
            return window.admit(count);
        }
        if self.windows.len() >= PROCESSES {
            self.windows.pop_front();
        }
        self.windows.push_back(Window::new(session, count));
        true
    }
}

impl Window {
    fn new(session: u32, first: u32) -> Self {
        let mut came = [0; WORDS];
        came[0] = 1;
        Self { session, highest: first, came }
    }

    fn admit(&mut self, count: u32) -> bool {
        if count > self.highest {
            self.advance((count - self.highest) as usize);
            self.highest = count;
        }
        let below = (self.highest - count) as usize;
        let Some(word) = self.came.get_mut(below / 64) else { return false };
        let bit = 1 << (below % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Moves every request down by so many.
    fn advance(&mut self, by: usize) {
        let (words, bits) = (by / 64, by % 64);
        for at in (0..WORDS).rev() {
            let of = |at: Option<usize>| at.map_or(0, |at| self.came[at]);
            let high = of(at.checked_sub(words)) << bits;
            let low = if bits == 0 { 0 } else { of(at.checked_sub(words + 1)) >> (64 - bits) };
            self.came[at] = high | low;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn nonce(session: u32, count: u32) -> Nonce {
        Nonce(u64::from(session) << 32 | u64::from(count))
    }

    proptest! {
        #[test]
        fn property_each_request_is_admitted_once_and_one_in_order_always(
            steps in prop::collection::vec((0u32..3, prop_oneof![0u32..100, 0u32..5000, any::<u32>()]), 0..300),
        ) {
            let (mut replays, mut seen) = (Replays::default(), BTreeSet::new());
            let mut highest = std::collections::BTreeMap::new();
            for (session, count) in steps {
                let top: Option<u32> = highest.get(&session).copied();
                let remembered = top.is_none_or(|top| i64::from(count) > i64::from(top) - 64 * WORDS as i64);
                let new = seen.insert((session, count));
                prop_assert_eq!(replays.admit(nonce(session, count)), new && remembered);
                highest.insert(session, top.map_or(count, |top| top.max(count)));
            }
        }
    }

    #[test]
    fn a_process_that_follows_another_is_answered_and_what_the_first_asked_is_not() {
        let mut replays = Replays::default();
        assert!(replays.admit(nonce(1, 0)) && replays.admit(nonce(2, 0)) && replays.admit(nonce(2, 1)));
        assert!(!replays.admit(nonce(1, 0)) && !replays.admit(nonce(2, 1)));
        assert!(replays.admit(nonce(1, 1)), "a late one of the first");
    }
}
