//! Numbers that programs of a trial print of themselves: fields of the last line of a command, a JSON object.
//!
//! Guarantees: a number of one program, or a reason; a field is of one type in all trials of a sweep. Deliberately
//! absent: a bound; only the program knows how it came to its number.

use serde_json::Value;
use tickscope_store::{Event, PrintedField};

use super::said;
use crate::error::Error;

/// Name of a node's program in events, before the node's.
const PROGRAM: &str = "command of ";
/// Characters of a value that is no number which are shown.
const MOST_SHOWN: usize = 60;

/// A number, or whether something is so.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Printed {
    Number(f64),
    Flag(bool),
}

impl Printed {
    /// As a number: 1 of what is so, 0 of what is not.
    pub(super) fn number(self) -> f64 {
        match self {
            Self::Number(number) => number,
            Self::Flag(flag) => f64::from(u8::from(flag)),
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
        [(node, other)] => other.as_f64().map(Printed::Number).ok_or_else(|| {
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
        assert_eq!(told(&lines, "drops.data", None), Ok(Printed::Number(0.5)));
        assert_eq!(told(&lines, "x.y", None), Ok(Printed::Number(7.0)));
        assert_eq!(told(&lines, "n", Some("b")), Ok(Printed::Number(4.0)));
        assert_eq!(told(&lines, "held", None).map(Printed::number), Ok(1.0));
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
        let mixed = Printed::Flag(true).like(Printed::Number(0.0)).unwrap_err();
        assert!(mixed.contains("expected a number, as an earlier trial has, found true or false"), "{mixed}");
        assert_eq!(Printed::Number(2.0).like(Printed::Number(1.0)), Ok(Printed::Number(2.0)));
    }
}
