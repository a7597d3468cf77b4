//! Policies: what a channel keeps of its stamps, chosen by text, and what each does with one stamp.
//!
//! A run file, the environment or a command names a [`Choice`]: a [`Policy`] with its parameter. A channel adopts it
//! as a [`Action`] with everything that does not change from stamp to stamp worked out. `null`, and those that store
//! every stamp, are decided inline in [`crate::Channel`] by one comparison; all others go through the one dispatch
//! there. Each policy has a file here: its text, its parameter, what it keeps.
//!
//! Guarantees: nothing here reads a clock, allocates or waits, so a rule may be asked in a signal handler. The same
//! text means the same in `tickscope.h`; `tests/conformance` holds both. Deliberately absent: blocks and records.

pub mod count;
pub mod every;
pub mod first_last;
pub mod keep;
mod span;
pub mod x_of_y;

use std::fmt;
use std::str::FromStr;

use crate::block::Policy;
use every::Every;
use first_last::FirstLast;
use x_of_y::XOfY;

/// A policy with its parameter: what a run file, `TICKSCOPE_POLICY` or `tickscope policy` names.
///
/// ```
/// use tickscope_stamp::policies::Choice;
/// let choice: Choice = "2 of 1024".parse()?;
/// assert_eq!(choice.to_string(), "2 of 1024");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    policy: Policy,
    parameter: u64,
}

/// How each policy is written, in the order of their numbers.
pub const FORMS: [&str; 10] = [
    "null",
    "buffered",
    "all",
    "every N",
    "X of Y",
    "count PERIOD",
    "first-last [MARKER]",
    "return-trip",
    "keep DURATION",
    "own",
];

/// All forms as a message lists them, `word` before the last.
pub fn forms(word: &str) -> String {
    let [others @ .., last] = FORMS;
    format!("{} {word} {last}", others.join(", "))
}

/// The rules of `TICKSCOPE_POLICY`, `glob=policy,...`, of which the first whose glob matches a point decides.
pub fn rules(text: &str) -> Result<Vec<(String, Choice)>, String> {
    let rule = |rule: &str| {
        let (glob, policy) = rule.split_once('=').ok_or_else(|| {
            format!("expected TICKSCOPE_POLICY as glob=policy,...; found '{rule}'. Write send*=null for example")
        })?;
        let policy = policy.parse().map_err(|wrong| format!("TICKSCOPE_POLICY: {wrong}"))?;
        Ok((glob.trim_ascii().to_owned(), policy))
    };
    text.split(',').filter(|rule| !rule.trim_ascii().is_empty()).map(rule).collect()
}

impl Choice {
    /// Every stamp, in blocks: what a point has that no rule matches.
    pub const BUFFERED: Self = Self { policy: Policy::Buffered, parameter: 0 };
    /// Nothing.
    pub const NULL: Self = Self { policy: Policy::Null, parameter: 0 };

    /// The policy.
    pub fn policy(self) -> Policy {
        self.policy
    }

    /// Its parameter as it stands in a channel's entry; 0 where it takes none.
    pub fn parameter(self) -> u64 {
        self.parameter
    }

    /// The choice that a channel's entry names; `None`: of a later version, or a parameter that no text gives.
    pub fn of(policy: u32, parameter: u64) -> Option<Self> {
        let policy = Policy::from_number(policy)?;
        let is_valid = match policy {
            Policy::Every => every::is_valid(parameter),
            Policy::XOfY => x_of_y::is_valid(parameter),
            Policy::Count | Policy::Keep => span::is_valid(parameter),
            Policy::FirstLast => true,
            _ => return Some(Self { policy, parameter: 0 }),
        };
        is_valid.then_some(Self { policy, parameter })
    }

    /// The choice that a row of a run's channels names; `None`: no policy, or one of a later version.
    pub fn named(policy: &str, parameter: Option<i64>) -> Option<Self> {
        let policy = Policy::from_name(policy)?;
        let without = if policy == Policy::FirstLast { first_last::NO_MARKER } else { 0 };
        Self::of(policy as u32, parameter.map_or(without, |parameter| parameter as u64))
    }

    /// Returns whether it has no parameter.
    pub fn is_plain(self) -> bool {
        self.parameter == if self.policy == Policy::FirstLast { first_last::NO_MARKER } else { 0 }
    }

    /// What it does with a stamp.
    pub fn rule(self) -> Action {
        match self.policy {
            Policy::Null => Action::Nothing,
            Policy::Buffered | Policy::ReturnTrip | Policy::Keep => Action::Store,
            Policy::All => Action::All,
            Policy::Every => Action::Every(Every::of(self.parameter)),
            Policy::XOfY => Action::XOfY(XOfY::of(self.parameter)),
            Policy::Count => Action::Count,
            Policy::FirstLast => Action::FirstLast(FirstLast::of(self.parameter)),
            Policy::Own => Action::Own,
        }
    }
}

/// What a channel does with a stamp, worked out from its policy and parameter.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// Nothing is kept.
    Nothing,
    /// It is stored.
    Store,
    /// It is stored, and written to the channel's log at once.
    All,
    /// It is stored if it is the n-th.
    Every(Every),
    /// It is stored if its id is chosen.
    XOfY(XOfY),
    /// It is counted.
    Count,
    /// It is the first, or takes the place of the last.
    FirstLast(FirstLast),
    /// It is stored if the program's own function says so.
    Own,
    /// A policy of a later version: the stamp is refused and counted.
    Unknown,
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let plain = |policy| Some((policy, 0));
        let found = match words[..] {
            ["null"] => plain(Policy::Null),
            ["buffered"] => plain(Policy::Buffered),
            ["all"] => plain(Policy::All),
            ["return-trip"] => plain(Policy::ReturnTrip),
            ["own"] => plain(Policy::Own),
            ["every", n] => every::parse(n).map(|n| (Policy::Every, n)),
            [x, "of", y] => x_of_y::parse(x, y).map(|both| (Policy::XOfY, both)),
            ["count", period] => span::parse(period).map(|ns| (Policy::Count, ns)),
            ["first-last"] => Some((Policy::FirstLast, first_last::NO_MARKER)),
            ["first-last", marker] => first_last::parse(marker).map(|marker| (Policy::FirstLast, marker)),
            ["keep", window] => span::parse(window).map(|ns| (Policy::Keep, ns)),
            _ => None,
        };
        let (policy, parameter) = found.ok_or_else(|| {
            format!(
                "expected a policy: {}; found '{text}'. N and Y are at least 1, X is below Y, PERIOD and DURATION are \
                 from 1us to 24h as 10ms or 5s, MARKER is an id",
                forms("or")
            )
        })?;
        Ok(Self { policy, parameter })
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameter = self.parameter;
        match self.policy {
            Policy::Every => write!(f, "every {parameter}"),
            Policy::XOfY => write!(f, "{} of {}", parameter >> 32, parameter as u32),
            Policy::Count => write!(f, "count {}", span::text(parameter)),
            Policy::Keep => write!(f, "keep {}", span::text(parameter)),
            Policy::FirstLast if parameter != first_last::NO_MARKER => write!(f, "first-last {}", parameter as i64),
            other => f.write_str(other.name()),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_form_is_read_and_written_alike() {
        let texts = [
            "null",
            "buffered",
            "all",
            "every 1",
            "every 100",
            "2 of 1024",
            "1 of 4294967295",
            "count 10ms",
            "count 1us",
            "first-last",
            "first-last -1",
            "first-last 9223372036854775807",
            "return-trip",
            "keep 10s",
            "keep 24h",
            "own",
        ];
        for text in texts {
            let choice: Choice = text.parse().unwrap();
            assert_eq!(choice.to_string(), text);
            assert_eq!(Choice::of(choice.policy() as u32, choice.parameter()), Some(choice), "{text}");
            let raw = (choice.parameter() != 0).then_some(choice.parameter() as i64);
            assert_eq!(Choice::named(choice.policy().name(), raw).unwrap().policy(), choice.policy());
        }
        assert_eq!("count 1000us".parse::<Choice>().unwrap().to_string(), "count 1ms");
        assert_eq!("  every   7 ".parse::<Choice>().unwrap().to_string(), "every 7");
    }

    #[test]
    fn what_is_no_policy_is_refused_with_every_form() {
        let wrong = [
            "",
            "every",
            "every 0",
            "every -1",
            "every 9223372036854775808",
            "1 of 0",
            "0 of 3",
            "3 of 3",
            "4 of 3",
            "1 of 4294967296",
            "count",
            "count 10",
            "count 0s",
            "count 999ns",
            "count 25h",
            "count -1s",
            "keep",
            "keep 10",
            "first-last x",
            "first-last -9223372036854775808",
            "first-last 1 2",
            "Buffered",
            "every 1 2",
            "count 1e3ms",
            "every +1",
            "every 1_0",
        ];
        for text in wrong {
            let why = text.parse::<Choice>().unwrap_err();
            assert!(why.contains("first-last [MARKER]") && why.contains(&format!("'{text}'")), "{why}");
        }
    }

    proptest! {
        #[test]
        fn property_no_text_panics_and_what_is_read_is_written_so_that_it_is_read_again(text in ".{0,40}") {
            if let Ok(choice) = text.parse::<Choice>() {
                prop_assert_eq!(choice.to_string().parse(), Ok(choice));
            }
        }
    }
}
