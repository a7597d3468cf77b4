//! Errors of evidence: each says what was expected, what was found and what would mend it.

use std::fmt;

use tickscope_tick::{Local, Tick};

use crate::rho::Ppm;
use crate::{Bracket, Rho};

/// A bracket, with its position in the evidence that was given.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NamedBracket {
    /// Position in the slice of brackets, counting from 0.
    pub index: usize,
    /// The bracket itself.
    pub bracket: Bracket,
}

/// A question that has no answer, or evidence that contradicts itself. Never mended silently.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Finding {
    /// A bracket whose `before` is later than its `after`.
    Reversed(NamedBracket),
    /// No constant rate within the prior, relaxed by rho, satisfies all brackets.
    NoRate {
        /// Its `before` is one side of the contradiction.
        lower: NamedBracket,
        /// Its `after` is the other side.
        upper: NamedBracket,
    },
    /// At this tick, no reference tick satisfies all brackets.
    Empty {
        /// The local tick at which the interval is empty.
        at: Tick<Local>,
        /// The bracket that sets the lower bound there.
        lower: NamedBracket,
        /// The bracket that sets the upper bound there.
        upper: NamedBracket,
        /// By how many ticks of the reference the lower bound exceeds the upper, rounded up.
        excess_ticks: u64,
    },
    /// A tick, or the answer, lies too many local ticks from the first bracket.
    OutOfReach {
        /// The tick that was asked about: local, or of the reference for `inverse`.
        tick: i64,
        /// The first local tick of the evidence.
        first: Tick<Local>,
        /// It must lie less than this many local ticks from that.
        limit: i64,
    },
    /// The answer is no 64-bit tick.
    Unrepresentable {
        /// The tick that was asked about.
        tick: i64,
    },
}

/// The two sides of a bracket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// `before`: messages from the reference to the local domain.
    Lower,
    /// `after`: messages from the local domain to the reference.
    Upper,
}

/// Why a set of brackets gives no clock map.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// A declared value that is outside its limits or could not be read.
    Declaration {
        /// Which value.
        what: &'static str,
        /// Values that are allowed.
        expected: &'static str,
        /// The value found.
        found: String,
    },
    /// No bracket bounds this side, so no interval has that end.
    Missing {
        /// The side that is missing.
        side: Side,
        /// How many brackets were given.
        brackets: usize,
    },
    /// A bracket that needs both sides and lacks this one.
    OpenSide {
        /// The side that is missing.
        side: Side,
        /// Position of the bracket, counting from 0.
        index: usize,
    },
    /// A tick that lies too far from the first of its domain in the evidence.
    TooFar {
        /// `at`, `before`, `after` or `anchor`.
        what: &'static str,
        /// Position of the bracket, counting from 0; `None` for the anchor.
        index: Option<usize>,
        /// The tick.
        found: i64,
        /// The first tick of that domain in the evidence.
        first: i64,
        /// It must lie less than this many ticks from that.
        limit: i64,
    },
    /// The brackets contradict each other under the model.
    Inconsistent(Box<Inconsistency>),
}

/// A contradiction, the brackets that may have caused it, and what would resolve it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inconsistency {
    /// The contradiction itself.
    pub finding: Finding,
    /// The outlier brackets, most contradicted first: see [`Inconsistency::outliers_together`]. Empty where no
    /// bracket stands out.
    pub outliers: Vec<OutlierBracket>,
    /// True: leaving out *all* outliers is needed. False: leaving out any *one* of them resolves the contradiction, and
    /// the first is the one that most others speak against.
    pub outliers_together: bool,
    /// True if leaving them out resolves the contradiction.
    pub resolved: bool,
    /// The model's rho, under which the contradiction stands.
    pub rho: Rho,
    /// The smallest rho, parts per 10^9, under which nothing contradicts; `None`: no rho up to 10 % does.
    pub smallest_rho_ppb: Option<u32>,
}

/// A bracket that the others contradict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutlierBracket {
    /// The bracket.
    pub named: NamedBracket,
    /// How many other brackets contradict it, each taken alone with it.
    pub contradictions: usize,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Lower => "lower ('before')",
            Side::Upper => "upper ('after')",
        })
    }
}

impl fmt::Display for NamedBracket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bracket {} {}", self.index, self.bracket)
    }
}

impl Finding {
    /// The same, with its brackets named by their positions in other evidence.
    pub(crate) fn renamed(self, name: impl Fn(NamedBracket) -> NamedBracket) -> Self {
        match self {
            Finding::Reversed(named) => Finding::Reversed(name(named)),
            Finding::NoRate { lower, upper } => Finding::NoRate { lower: name(lower), upper: name(upper) },
            Finding::Empty { at, lower, upper, excess_ticks } => {
                Finding::Empty { at, lower: name(lower), upper: name(upper), excess_ticks }
            }
            Finding::OutOfReach { .. } | Finding::Unrepresentable { .. } => self,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Reversed(named) => write!(
                f,
                "expected before <= after, found {named}; were its ends swapped, or read on cores that differ?"
            ),
            Finding::NoRate { lower, upper } => {
                write!(
                    f,
                    "expected one rate that fits all brackets, found none: {lower} against {upper}; find out which of \
                     them is false"
                )
            }
            Finding::Empty { at, lower, upper, excess_ticks } => write!(
                f,
                "expected an interval at tick {at}, found it empty by up to {excess_ticks} ticks: {lower} bounds it \
                 below, {upper} above"
            ),
            Finding::OutOfReach { tick, first, limit } => write!(
                f,
                "expected local ticks less than {limit} from the first bracket's {first}, found a question beyond, about tick \
                 {tick}; split the run, or bring evidence nearer to it"
            ),
            Finding::Unrepresentable { tick } => {
                write!(f, "expected an answer of 64 bits, found one beyond, about tick {tick}; check the nominal ratio")
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Declaration { what, expected, found } => {
                write!(f, "{what}: expected {expected}; found {found}. Declare it so")
            }
            Error::Missing { side, brackets } => write!(
                f,
                "expected at least one bracket of the {side} side, found none in {brackets}; send probes, or record \
                 messages in the missing direction"
            ),
            Error::OpenSide { side, index } => write!(
                f,
                "expected brackets with both sides, found bracket {index} without its {side} side; read the counter \
                 before and after the clock"
            ),
            Error::TooFar { what, index, found, first, limit } => {
                let place = index.map_or(String::new(), |index| format!(" in bracket {index}"));
                write!(
                    f,
                    "expected {what} less than {limit} ticks from the first, {first}; found {found}{place}; split the run into \
                     shorter clock maps, each with its own anchor, or remove the stray bracket"
                )
            }
            Error::Inconsistent(inconsistency) => inconsistency.fmt(f),
        }
    }
}

impl fmt::Display for Inconsistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the evidence contradicts itself under rho {}: {}.", self.rho, self.finding)?;
        self.outlier_text(f)?;
        match self.smallest_rho_ppb {
            Some(ppb) => write!(f, " The smallest rho that fits all of it is {} ppm.", Ppm(ppb)),
            None => write!(f, " No rho up to {} ppm fits all of it.", Ppm(Rho::MOST_PPB)),
        }
    }
}

impl Inconsistency {
    fn outlier_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.outliers.is_empty() {
            return f.write_str(" No bracket stands out: check rho, a clock step, or the ordering of the stamps.");
        }
        let remedy = match (self.resolved, self.outliers_together || self.outliers.len() == 1) {
            (true, true) => "without it, or them, the rest agrees",
            (true, false) => "without any one of them the rest agrees; the first is contradicted by most",
            (false, _) => {
                "even without them the rest disagrees: check rho, a clock step, or the ordering of the stamps"
            }
        };
        let names: Vec<String> = self.outliers.iter().map(OutlierBracket::to_string).collect();
        write!(f, " Outlier brackets: {} - {remedy}.", names.join("; "))
    }
}

impl fmt::Display for OutlierBracket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, contradicted by {} others", self.named, self.contradictions)
    }
}

impl std::error::Error for Finding {}
impl std::error::Error for Error {}

impl From<Inconsistency> for Error {
    fn from(inconsistency: Inconsistency) -> Self {
        Error::Inconsistent(Box::new(inconsistency))
    }
}
