//! The background load of a measurement: what it does, on which processors, how often it is injected.
//!
//! The Cm* study (4.1) made its load by replicating the measured experiment, and injected the timed experiment at fixed
//! intervals into a load that had settled. Here the load itself can be injected: what a change of load does to a clock.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::advice::duration;

/// Work of each member of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadKind {
    /// Burns time, a process of its own.
    Spin,
    /// Reads the very clock that is measured, over and over: the measured experiment replicated (4.4).
    Replica,
    /// A pair of processes that send each other messages, one after the other (4.5).
    Messages,
}

/// When the members of a load work: for that long, every so often; else they rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Injection {
    /// How long at a time, nanoseconds.
    pub length_ns: u32,
    /// From one beginning to the next, nanoseconds.
    pub period_ns: u32,
}

/// A load without its size.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Load {
    /// Work of each member.
    pub kind: LoadKind,
    /// Processors that they are pinned to, in turn, both of a pair to the same; empty: busy processes and pairs run on
    /// any, replicas as readers do: pinned to the ones after the measured reader's.
    pub cpus: Vec<usize>,
    /// When each works; `None`: all the time.
    pub injected: Option<Injection>,
}

impl Load {
    /// Busy processes, free to run anywhere, all the time.
    pub const SPINNING: Self = Self { kind: LoadKind::Spin, cpus: Vec::new(), injected: None };

    /// A load of so many members, in words.
    pub fn words(&self, count: u32) -> String {
        let what = match (self.kind, count) {
            (LoadKind::Spin, 1) => "1 busy process of ours".to_owned(),
            (LoadKind::Spin, _) => format!("{count} busy processes of ours"),
            (LoadKind::Replica, 1) => "1 more reader of the same clock".to_owned(),
            (LoadKind::Replica, _) => format!("{count} more readers of the same clock"),
            (LoadKind::Messages, 1) => "1 pair of processes that send each other messages".to_owned(),
            (LoadKind::Messages, _) => format!("{count} pairs of processes that send each other messages"),
        };
        let list = self.cpus.iter().map(ToString::to_string).collect::<Vec<String>>().join(", ");
        let at = if self.cpus.is_empty() { String::new() } else { format!(" on processors {list} in turn") };
        let when = self.injected.map(|injected| format!(", each {injected}")).unwrap_or_default();
        format!("{what}{at}{when}")
    }
}

impl Load {
    /// Phrase for this load with so many members: "with 2 busy processes running".
    pub fn phrase(&self, count: u32) -> String {
        match count {
            0 => "with the machine as it is".into(),
            1 if *self == Self::SPINNING => "with 1 busy process running".into(),
            count if *self == Self::SPINNING => format!("with {count} busy processes running"),
            count => format!("with {}", self.words(count)),
        }
    }
}

impl Injection {
    /// Busy and at rest by turns, each for that long.
    pub fn by_turns(pulse_ns: u32) -> Self {
        Self { length_ns: pulse_ns, period_ns: pulse_ns.saturating_mul(2) }
    }
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [length, period] = [self.length_ns, self.period_ns].map(|ns| duration(ns.into()));
        write!(f, "for {length} every {period}")
    }
}

impl FromStr for Injection {
    type Err = String;

    /// `LENGTH/PERIOD`, each a whole number of ns, us, ms or s.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "expected LENGTH/PERIOD, found '{text}'; give each as a whole number of ns, us, ms or s, at most 4s: \
                 1ms/10ms"
            )
        };
        let (length, period) = text.split_once('/').ok_or_else(expected)?;
        let [length_ns, period_ns] = [length, period].map(nanoseconds);
        let (Some(length_ns), Some(period_ns)) = (length_ns, period_ns) else { return Err(expected()) };
        if length_ns == 0 || length_ns >= period_ns {
            return Err(format!(
                "expected a LENGTH above 0 and below its PERIOD, found '{text}'; leave it out for a load that never \
                 rests"
            ));
        }
        Ok(Self { length_ns, period_ns })
    }
}

/// `None`: not a duration, or longer than fits.
fn nanoseconds(text: &str) -> Option<u32> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit_ns = match &text[digits.len()..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    digits.parse::<u32>().ok()?.checked_mul(unit_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_injection_is_read_in_any_unit_and_refused_where_it_never_rests_or_works() {
        let read = |text: &str| text.parse::<Injection>();
        assert_eq!(read("250us/1ms"), Ok(Injection { length_ns: 250_000, period_ns: 1_000_000 }));
        assert_eq!(read("1s/4s"), Ok(Injection { length_ns: 1_000_000_000, period_ns: 4_000_000_000 }));
        for wrong in ["", "1ms", "1/2", "1 ms/2ms", "1ms/5s", "-1ms/2ms", "1.5ms/2ms", "1ms/2ms/3ms", "ms/2ms"] {
            assert!(read(wrong).is_err_and(|why| why.contains("expected LENGTH/PERIOD")), "{wrong}");
        }
        for wrong in ["0ns/1ms", "1ms/1ms", "2ms/1ms"] {
            assert!(read(wrong).is_err_and(|why| why.contains("below its PERIOD")), "{wrong}");
        }
    }

    #[test]
    fn a_load_in_words_says_what_where_and_how_often() {
        assert_eq!(Load::SPINNING.words(0), "0 busy processes of ours");
        let load = Load {
            kind: LoadKind::Replica,
            cpus: vec![1, 0],
            injected: Some(Injection { length_ns: 250_000, period_ns: 1_000_000 }),
        };
        let words = "2 more readers of the same clock on processors 1, 0 in turn, each for 250 us every 1.0 ms";
        assert_eq!(load.words(2), words);
        assert_eq!(load.phrase(2), format!("with {words}"));
        let messages = Load { kind: LoadKind::Messages, ..Load::SPINNING };
        assert_eq!(messages.phrase(2), "with 2 pairs of processes that send each other messages");
        let [none, two] = [0, 2].map(|count| Load::SPINNING.phrase(count));
        assert_eq!([none.as_str(), &two], ["with the machine as it is", "with 2 busy processes running"]);
    }
}
