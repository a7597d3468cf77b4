//! A channel's policy and its parameter, switched together while the program runs and stamps.
//!
//! The idea: a word holds policy and epoch, and two places hold parameters, of which an epoch uses the one of its
//! parity. A switch writes the place that nobody uses, then the word. So the pair changes by one store, a switcher
//! killed at any instruction leaves the old pair or the new one whole, and no stamp waits.
//!
//! Assumes: one switcher a pool at a time (whoever holds `collector.lock`), and fewer than 2^32 switches between two
//! loads of a reader. Guarantees: [`read`] returns a parameter that was given together with that policy and epoch.
//! Deliberately absent: a place in the stamp's path. A stamp looks at the word alone; whoever needs the parameter
//! keeps the pair it read last, and reads anew when the word is another one.

use crate::primitive::{AtomicU64, Ordering};

/// Policy of a channel and its parameter: one consistent reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Setting {
    /// Number of a [`crate::block::Policy`], or of one of a later version.
    pub policy: u32,
    /// Switches since the channel was opened.
    pub epoch: u32,
    /// Parameter of the policy: the n of `every n`, x and y of `x of y` in two halves; 0 where it takes nothing.
    pub parameter: u64,
}

/// Reads policy, epoch and parameter of one switch. Repeats only when a switch came between.
pub fn read(word: &AtomicU64, parameters: &[AtomicU64; 2]) -> Setting {
    // Acquire: the parameter that was stored before this word is seen.
    let mut before = word.load(Ordering::Acquire);
    loop {
        let (policy, epoch) = (before as u32, (before >> 32) as u32);
        // Acquire: whoever sees the parameter of the switch after next sees that the word has moved on.
        let parameter = parameters[epoch as usize & 1].load(Ordering::Acquire);
        let after = word.load(Ordering::Acquire);
        if after == before {
            return Setting { policy, epoch, parameter };
        }
        before = after;
    }
}

/// Gives a channel another policy and parameter, in its next epoch.
pub fn switch(word: &AtomicU64, parameters: &[AtomicU64; 2], policy: u32, parameter: u64) {
    let epoch = ((word.load(Ordering::Relaxed) >> 32) as u32).wrapping_add(1);
    write(word, parameters, Setting { policy, epoch, parameter });
}

/// Second half of [`switch`], in the epoch that follows the word's.
pub fn write(word: &AtomicU64, parameters: &[AtomicU64; 2], next: Setting) {
    // Release: whoever sees it sees the word that ended the epoch which used this place before.
    parameters[next.epoch as usize & 1].store(next.parameter, Ordering::Release);
    // Release: whoever sees the word sees its parameter.
    word.store(u64::from(next.epoch) << 32 | u64::from(next.policy), Ordering::Release);
}
