//! Which side of a message a reading is known to lie on.

use std::fmt;
use std::str::FromStr;

/// What a reading of the counter is ordered against.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Ordering {
    /// Nothing: the processor may read a little early or late. For stages; never evidence.
    Plain = 0,
    /// The counter was read before anything that follows in the program could be seen by others.
    Before = 1,
    /// The counter was not read until everything that precedes in the program was seen.
    After = 2,
}

impl Ordering {
    /// Every ordering, in the order of its number in block headers.
    pub const ALL: [Ordering; 3] = [Ordering::Plain, Ordering::Before, Ordering::After];

    /// The name in files and options.
    pub fn name(self) -> &'static str {
        match self {
            Ordering::Plain => "plain",
            Ordering::Before => "before",
            Ordering::After => "after",
        }
    }

    /// The ordering with that number in block headers.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for Ordering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Ordering {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|ordering| ordering.name() == text);
        found.ok_or_else(|| format!("expected an ordering: plain, before or after; found '{text}'. Choose one of them"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orderings_keep_their_names_and_numbers() {
        for ordering in Ordering::ALL {
            assert_eq!(ordering.name().parse(), Ok(ordering));
            assert_eq!(Ordering::from_number(ordering as u8), Some(ordering));
        }
        assert_eq!(Ordering::from_number(3), None);
    }
}
