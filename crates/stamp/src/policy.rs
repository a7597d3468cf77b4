//! A channel's policy and its parameter, switched together while the program runs and stamps.
//!
//! The idea: a word holds policy and epoch, and two places hold parameters, of which an epoch uses the one of its
//! parity. A switch writes the place that nobody uses, then the word. So the pair changes by one store, a switcher
//! killed at any instruction leaves the old pair or the new one whole, and no stamp waits.
//!
//! Assumes: one switcher a pool at a time (whoever holds `collector.lock`), and fewer than 2^32 switches between two
//! loads of a reader. Guarantees: [`read`] returns a parameter that was given together with that policy and epoch.
//! Deliberately absent: a place in the stamp's path. A stamp looks at the word alone; a channel keeps what it made of
//! the pair that it read last, and reads anew when the word is another one.

use crate::primitive::{AtomicU64, Ordering};

/// Policy of a channel and its parameter: one consistent reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Setting {
    /// Number of a [`crate::block::Policy`], or of one of a later version.
    pub policy: u32,
    /// Switches since the channel was opened.
    pub epoch: u32,
    /// Parameter of the policy: the n of `every n`, x and y of `x of y` in two halves; 0 where it takes none.
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
    store_parameter(parameters, next);
    // Release: whoever sees the word sees its parameter.
    word.store(joined(next), Ordering::Release);
}

fn store_parameter(parameters: &[AtomicU64; 2], next: Setting) {
    // Release: whoever sees it sees the word that ended the epoch which used this place before.
    parameters[next.epoch as usize & 1].store(next.parameter, Ordering::Release);
}

/// The word of a setting.
pub(crate) fn joined(setting: Setting) -> u64 {
    u64::from(setting.epoch) << 32 | u64::from(setting.policy)
}

/// As [`switch`], if the channel still has the setting `before`; returns whether it had. For an entry that its program
/// may free meanwhile and give to another channel: that one's setting is not written over unseen.
pub fn exchange(word: &AtomicU64, parameters: &[AtomicU64; 2], before: Setting, next: Setting) -> bool {
    store_parameter(parameters, next);
    // Sequentially consistent: whatever follows comes after the word can be seen.
    word.compare_exchange(joined(before), joined(next), Ordering::SeqCst, Ordering::Relaxed).is_ok()
}

/// Returns whether the name of a point matches: `*` stands for any letters, `?` for one. Blanks around the glob mean
/// nothing: names hold none.
pub fn matches(glob: &str, name: &str) -> bool {
    let glob = glob.trim_ascii();
    let (glob, name): (Vec<char>, Vec<char>) = (glob.chars().collect(), name.chars().collect());
    // Where to go on after the last star: behind it, and one letter of the name further than before.
    let (mut at, mut found, mut star) = (0, 0, None::<(usize, usize)>);
    while found < name.len() {
        match (glob.get(at), star) {
            (Some('*'), _) => {
                at += 1;
                star = Some((at, found));
            }
            (Some(&letter), _) if letter == '?' || letter == name[found] => (at, found) = (at + 1, found + 1),
            (_, Some((behind, from))) => {
                (at, found) = (behind, from + 1);
                star = Some((at, found));
            }
            (_, None) => return false,
        }
    }
    glob[at..].iter().all(|&letter| letter == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_letters_and_a_question_mark_for_one() {
        let matching = ["*", "send", "s*", "*d", "s?nd", "*e*", "se*nd", "**", "????", "s*n*", "*send*"];
        let blanks = [" send", "s* ", "\tsend \n"];
        for glob in matching.into_iter().chain(blanks) {
            assert!(matches(glob, "send"), "{glob}");
        }
        for glob in ["", "sen", "sends", "?", "s?d", "*x*", "send?", "?send", "s*e", "S*", " ", "se nd", "send *"] {
            assert!(!matches(glob, "send"), "{glob}");
        }
        let long = "a".repeat(47);
        assert!(!matches(&"*a".repeat(40).replace("**", "*"), "b") && !matches(&("*a".repeat(30) + "b"), &long));
    }

    #[test]
    fn a_setting_is_exchanged_only_for_the_one_that_was_read() {
        let (word, parameters) = (AtomicU64::new(1), [AtomicU64::new(0), AtomicU64::new(0)]);
        let before = read(&word, &parameters);
        let next = Setting { policy: 0, epoch: 1, parameter: 0 };
        assert!(exchange(&word, &parameters, before, next));
        assert!(!exchange(&word, &parameters, before, next) && read(&word, &parameters) == next);
    }
}
