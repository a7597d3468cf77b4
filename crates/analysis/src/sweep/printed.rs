//! Numbers that programs of a trial print of themselves: fields of the last line of a command, a JSON object.
//!
//! Guarantees: a number of one program, or a reason; a field is of one type in all trials of a sweep. Deliberately
//! absent: a bound; only the program knows how it came to its number.

use std::cmp::Ordering;

use serde::Serialize;
use serde_json::Value;
use tickscope_store::{Event, PrintedField};

use super::said;
use crate::error::Error;

/// Name of a node's program in events, before the node's.
const PROGRAM: &str = "command of ";
/// Characters of a value that is no number which are shown.
const MOST_SHOWN: usize = 60;

/// A number as a program prints it: a whole one keeps every digit.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum PrintedNumber {
    /// An integer of 64 bits, with a sign or without.
    Whole(i128),
    /// Any other.
    Real(f64),
}

impl PrintedNumber {
    fn of(value: &Value) -> Option<Self> {
        let whole = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
        whole.map(Self::Whole).or_else(|| value.as_f64().map(Self::Real))
    }

    /// The nearest of 64 bits, for drawing.
    pub fn near(self) -> f64 {
        match self {
            Self::Whole(number) => number as f64,
            Self::Real(number) => number,
        }
    }

    /// In the order of their values; what is as near as can be told, by the digits that a whole one has beyond.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        let whole = |number: Self| match number {
            Self::Whole(number) => number,
            Self::Real(number) => number as i128,
        };
        self.near().total_cmp(&other.near()).then_with(|| whole(*self).cmp(&whole(*other)))
    }
}

/// A number, or whether something is so.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Printed {
    Number(PrintedNumber),
    Flag(bool),
}

impl Printed {
    /// As a number: 1 of what is so, 0 of what is not.
    pub(super) fn number(self) -> PrintedNumber {
        match self {
            Self::Number(number) => number,
            Self::Flag(flag) => PrintedNumber::Whole(flag.into()),
        }
    }

    fn is_flag(self) -> bool {
        matches!(self, Self::Flag(_))
    }

    /// Refuses what is of another type than `first`, which an earlier trial has.
    pub(super) fn like(self, first: Self) -> Result<Self, String> {
        let words = |is_flag| if is_flag { "true or false" } else { "a number" };
        match self.is_flag() == first.is_flag() {
            true => Ok(self),
            false => Err(format!(
                "expected {}, as an earlier trial has, found {}. Let the program print one type",
                words(first.is_flag()),
                words(self.is_flag())
            )),
        }
    }
}

/// A field of one trial.
pub(super) fn printed(events: &[Event], asked: &PrintedField) -> Result<Printed, Error> {
    let is_asked = |node: &str| asked.node.as_ref().is_none_or(|asked| asked.as_str() == node);
    let lines = said(events).filter_map(|(program, line)| Some((program.strip_prefix(PROGRAM)?, line)));
    let lines: Vec<(&str, Value)> = lines.filter(|(node, line)| line.is_object() && is_asked(node)).collect();
    let found = lines.iter().filter_map(|(node, line)| Some((*node, value(line, &asked.field)?)));
    match found.collect::<Vec<(&str, &Value)>>().as_slice() {
        [(_, Value::Bool(flag))] => Ok(Printed::Flag(*flag)),
        [(node, other)] => PrintedNumber::of(other).map(Printed::Number).ok_or_else(|| {
            let found: String = other.to_string().chars().take(MOST_SHOWN).collect();
            Error::work(format!(
                "expected a number from the command of {node}, found {found}. Let it print one, or leave the field out"
            ))
        }),
        [] => Err(Error::work(format!(
            "expected it in the last line of a command, a JSON object; found {}. Let the program print it each time",
            if lines.is_empty() { "no such line".into() } else { format!("none in that of {}", names(&lines)) }
        ))),
        several => {
            let nodes = names(several);
            Err(Error::work(format!(
                "expected it from one command, found it from those of {nodes}. Name one as `node`"
            )))
        }
    }
}

fn names<T>(lines: &[(&str, T)]) -> String {
    lines.iter().map(|(node, _)| *node).collect::<Vec<_>>().join(", ")
}

/// A field of that name, or, of `a.b`, the field `b` of the object `a`.
fn value<'a>(line: &'a Value, field: &str) -> Option<&'a Value> {
    line.get(field).or_else(|| field.split('.').try_fold(line, |object, name| object.get(name)))
}

#[cfg(test)]
mod tests {
    use tickscope_store::EventKind;

    use super::*;

    fn told(lines: &[(&str, &str)], field: &str, node: Option<&str>) -> Result<Printed, String> {
        let event = |(node, line): &(&str, &str)| {
            let text = format!("command of {node} printed: {line}");
            Event { what: EventKind::Target, text, ..Event::default() }
        };
        let events: Vec<Event> = lines.iter().map(event).collect();
        let asked = PrintedField { field: field.into(), node: node.map(|node| node.parse().unwrap()), unit: None };
        printed(&events, &asked).map_err(|why| why.to_string())
    }

    #[test]
    fn a_field_is_the_number_that_one_command_prints_or_of_an_object_in_its_line() {
        let lines = [("a", r#"{"n": 3, "drops": {"data": 0.5}, "x.y": 7, "held": true}"#), ("b", r#"{"n": 4}"#)];
        assert_eq!(told(&lines, "drops.data", None), Ok(Printed::Number(PrintedNumber::Real(0.5))));
        assert_eq!(told(&lines, "x.y", None), Ok(whole(7)));
        assert_eq!(told(&lines, "n", Some("b")), Ok(whole(4)));
        assert_eq!(told(&lines, "held", None).map(Printed::number), Ok(PrintedNumber::Whole(1)));
    }

    fn whole(number: i128) -> Printed {
        Printed::Number(PrintedNumber::Whole(number))
    }

    #[test]
    fn a_whole_number_keeps_every_digit_and_its_place_among_others() {
        for digits in ["9007199254740993", "18446744073709551615", "-9223372036854775808"] {
            let found = told(&[("a", &format!("{{\"n\": {digits}}}"))], "n", None).unwrap().number();
            assert_eq!(serde_json::to_string(&found).unwrap(), digits);
        }
        let mut all = [9_007_199_254_740_993, 3, 9_007_199_254_740_992].map(PrintedNumber::Whole);
        all.sort_by(PrintedNumber::order);
        assert_eq!(all, [3, 9_007_199_254_740_992, 9_007_199_254_740_993].map(PrintedNumber::Whole));
        let real = PrintedNumber::Real(2.5);
        assert_eq!(real.order(&PrintedNumber::Whole(3)), Ordering::Less);
    }

    #[test]
    fn a_field_that_is_missing_no_number_or_of_two_commands_has_its_reason() {
        let lines = [("a", r#"{"n": 3, "share": null, "why": "late"}"#), ("b", r#"{"n": 4}"#), ("c", "done")];
        for (field, node, said) in [
            ("share", None, "expected a number from the command of a, found null"),
            ("why", None, "found \"late\""),
            ("lost", None, "found none in that of a, b. Let the program print it"),
            ("n.m", None, "found none in that of a, b"),
            ("share", Some("b"), "found none in that of b"),
            ("n", Some("c"), "found no such line"),
            ("n", None, "found it from those of a, b. Name one as `node`"),
        ] {
            let why = told(&lines, field, node).unwrap_err();
            assert!(why.contains(said), "{field} of {node:?}: {why}");
        }
        let mixed = Printed::Flag(true).like(whole(0)).unwrap_err();
        assert!(mixed.contains("expected a number, as an earlier trial has, found true or false"), "{mixed}");
        assert_eq!(whole(2).like(whole(1)), Ok(whole(2)));
    }
}
