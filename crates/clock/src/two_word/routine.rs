//! `varying-read`, `4-read` and `1-read`, after the pseudo-code of the Cm* study, section 3.2.

use std::fmt;

use serde::Serialize;

/// One of the two words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// The high-order word.
    High,
    /// The low-order word.
    Low,
}

/// What a routine returns: the clock's value, or what it takes for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WordPair {
    /// The high-order word.
    pub high: u32,
    /// The low-order word.
    pub low: u32,
}

/// Which text of a routine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoutineText {
    /// As the paper prints it.
    Printed,
    /// With the comparisons that its prose asks for, and a high word that may wrap.
    Corrected,
}

/// A routine by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[allow(clippy::enum_variant_names)] // the names of the study
pub enum Routine {
    /// High, low, high, and low again if the high word changed.
    #[serde(rename = "varying-read")]
    VaryingRead,
    /// High, low, high, low; always returns the first low word.
    #[serde(rename = "4-read")]
    FourRead,
    /// Low alone; the high word is counted.
    #[serde(rename = "1-read")]
    OneRead,
}

/// What counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writer {
    /// A counter whose words change at once.
    Atomic,
    /// A program that stores the low word, then the high one.
    LowFirst,
    /// A program that stores the high word, then the low one.
    HighFirst,
}

impl RoutineText {
    /// Both texts.
    pub const ALL: [Self; 2] = [Self::Printed, Self::Corrected];

    /// Whether the high word went on. In print `>`, which a high word that wraps to 0 fails.
    fn high_went_on(self, first: u32, second: u32) -> bool {
        match self {
            Self::Printed => second > first,
            Self::Corrected => second != first,
        }
    }

    /// Whether the low word went on without wrapping. In print `>`; but both reads may fall in one tick.
    fn low_went_on(self, first: u32, second: u32) -> bool {
        match self {
            Self::Printed => second > first,
            Self::Corrected => second >= first,
        }
    }

    /// Whether the low word wrapped since the last call. In print `>=`, where the prose says "higher".
    fn low_wrapped(self, old: u32, low: u32) -> bool {
        match self {
            Self::Printed => old >= low,
            Self::Corrected => old > low,
        }
    }
}

impl Writer {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Atomic, Self::LowFirst, Self::HighFirst];
}

impl Routine {
    /// The three, in the order of the paper.
    pub const ALL: [Self; 3] = [Self::VaryingRead, Self::FourRead, Self::OneRead];
}

/// `Varying-Read`: three reads, or four where the high word changed between two of them.
pub fn varying_read(text: RoutineText, mut read: impl FnMut(Word) -> u32) -> WordPair {
    let first_high = read(Word::High);
    let first_low = read(Word::Low);
    let second_high = read(Word::High);
    if text.high_went_on(first_high, second_high) {
        WordPair { high: second_high, low: read(Word::Low) }
    } else {
        WordPair { high: first_high, low: first_low }
    }
}

/// `4-Read`: both words twice; the low word of the result is the one read first, whatever the clock shows, so that a
/// call always takes the same time.
pub fn four_read(text: RoutineText, mut read: impl FnMut(Word) -> u32) -> WordPair {
    let first_high = read(Word::High);
    let first_low = read(Word::Low);
    let second_high = read(Word::High);
    let second_low = read(Word::Low);
    // The clock flipped before the first low word was read, if that word and the second lie in one turn.
    let flipped_before = text.high_went_on(first_high, second_high) && text.low_went_on(first_low, second_low);
    WordPair { high: if flipped_before { second_high } else { first_high }, low: first_low }
}

/// `1-Read`: reads the low word and counts its wraps, so every reader must read at least once in each turn of the low
/// word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OneRead {
    old_low: u32,
    high: u32,
}

impl OneRead {
    /// A reader that knows the clock's value; the default is a clock just reset.
    pub fn at(reading: WordPair) -> Self {
        Self { old_low: reading.low, high: reading.high }
    }

    /// One call. The high word counts on beyond the clock's own width, as in the paper.
    pub fn call(&mut self, text: RoutineText, mut read: impl FnMut(Word) -> u32) -> WordPair {
        let low = read(Word::Low);
        if text.low_wrapped(self.old_low, low) {
            self.high = self.high.wrapping_add(1);
        }
        self.old_low = low;
        WordPair { high: self.high, low }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::High { "high" } else { "low" })
    }
}

impl fmt::Display for WordPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.high, self.low)
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Atomic => "atomic counter",
            Self::LowFirst => "two stores, low first",
            Self::HighFirst => "two stores, high first",
        })
    }
}

impl fmt::Display for RoutineText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Printed => "as printed",
            Self::Corrected => "corrected",
        })
    }
}

impl fmt::Display for Routine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::VaryingRead => "varying-read",
            Self::FourRead => "4-read",
            Self::OneRead => "1-read",
        })
    }
}
