//! A parameter's value in the place of its name: `{rate}` in any text of a run file.
//!
//! Guarantees: a text that is nothing but `{rate}` becomes the value itself, a number where that is one; in commands
//! and environments, which are text, its digits. Deliberately absent: words that the run itself fills in.

use std::collections::BTreeSet;

use tickscope_store::ParameterValue;
use toml::Value;

/// Keys whose values are words, whatever a parameter is.
const WORDS: [&str; 4] = ["command", "connect", "environment", "files"];

/// Values of parameters, and which of them were asked for.
pub(crate) struct Substitution<'a> {
    values: Vec<(&'a str, &'a ParameterValue)>,
    used: BTreeSet<&'a str>,
}

impl<'a> Substitution<'a> {
    pub fn of(values: impl Iterator<Item = (&'a str, &'a ParameterValue)>) -> Self {
        Self { values: values.collect(), used: BTreeSet::new() }
    }

    /// The file with values in the places of names.
    pub fn filled(&mut self, table: &toml::Table) -> toml::Table {
        table.iter().map(|(key, value)| (key.clone(), self.value(value, WORDS.contains(&key.as_str())))).collect()
    }

    /// A parameter that nothing asked for.
    pub fn unused(&self) -> Option<&'a str> {
        self.values.iter().map(|(name, _)| *name).find(|name| !self.used.contains(name))
    }

    fn value(&mut self, value: &Value, words: bool) -> Value {
        match value {
            Value::String(text) => self.text(text, words),
            Value::Array(all) => Value::Array(all.iter().map(|value| self.value(value, words)).collect()),
            Value::Table(table) if words => {
                Value::Table(table.iter().map(|(key, value)| (key.clone(), self.value(value, true))).collect())
            }
            Value::Table(table) => Value::Table(self.filled(table)),
            other => other.clone(),
        }
    }

    fn text(&mut self, text: &str, words: bool) -> Value {
        let mut filled = text.to_owned();
        for &(name, value) in &self.values {
            let place = format!("{{{name}}}");
            if !filled.contains(&place) {
                continue;
            }
            self.used.insert(name);
            if text == place && !words {
                return as_toml(value);
            }
            filled = filled.replace(&place, &value.to_string());
        }
        Value::String(filled)
    }
}

fn as_toml(value: &ParameterValue) -> Value {
    match value {
        ParameterValue::Flag(flag) => Value::Boolean(*flag),
        ParameterValue::Integer(number) => Value::Integer(*number),
        ParameterValue::Number(number) => Value::Float(*number),
        ParameterValue::Text(text) => Value::String(text.clone()),
    }
}

/// Words between braces that look like names, in a text.
pub(crate) fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |name: &&str| {
        name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-.".contains(letter))
    };
    text.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0)).filter(is_name)
}
