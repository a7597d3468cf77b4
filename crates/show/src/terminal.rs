//! The terminal that text is for: how wide it is, and whether it shows colours.

/// Width of what is no terminal, in characters.
const ELSEWHERE: usize = 120;
/// No table can be set narrower.
const NARROWEST: usize = 20;

/// What text is made for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Terminal {
    width: usize,
    colours: bool,
    bounded: bool,
}

/// A colour, of the eight that every terminal has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ink {
    /// A contradiction.
    Red,
    /// What to mind.
    Yellow,
    /// A heading.
    Bold,
    /// An aside.
    Faint,
}

impl Ink {
    fn number(self) -> u8 {
        match self {
            Self::Red => 31,
            Self::Yellow => 33,
            Self::Bold => 1,
            Self::Faint => 2,
        }
    }
}

impl Default for Terminal {
    /// A file or a pipe.
    fn default() -> Self {
        Self { width: ELSEWHERE, colours: false, bounded: false }
    }
}

impl Terminal {
    /// A terminal of so many columns.
    pub fn of_width(columns: usize) -> Self {
        Self { width: columns.max(NARROWEST), colours: false, bounded: true }
    }

    /// The same with or without colours.
    pub fn with_colours(self, colours: bool) -> Self {
        Self { colours, ..self }
    }

    /// Longest line, in characters.
    pub fn width(self) -> usize {
        self.width
    }

    /// True where longer lines would be broken by the terminal, not only long.
    pub fn breaks_lines(self) -> bool {
        self.bounded
    }

    /// The text in that colour; as it is where there are none.
    pub fn inked(self, ink: Ink, text: &str) -> String {
        match self.colours && !text.is_empty() {
            true => format!("\u{1b}[{}m{text}\u{1b}[0m", ink.number()),
            false => text.into(),
        }
    }
}
