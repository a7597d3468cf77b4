//! Cells of a line that has no commas between them: what the named groups of a pattern match, or what a JSON object has
//! under some keys.
//!
//! Guarantees: a number is taken as its digits stand there, never by way of a floating-point number; a line that is of
//! another kind (no match, no such keys) is told from one that is wrong.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use regex::Regex;
use serde_json::value::RawValue;

/// What a line has in each column.
pub(super) enum Found<'a> {
    Cells(Vec<Cow<'a, str>>),
    /// It is no reading, and need not be one.
    Other,
    Wrong,
}

/// Columns that a line may lack.
fn is_spared(column: &str) -> bool {
    matches!(column, "kind" | "value")
}

/// A pattern, or an error that says what is wrong with it.
pub(super) fn pattern(text: &str) -> Result<Regex, String> {
    let pattern = Regex::new(text).map_err(|why| format!("expected a pattern, found '{text}': {why}. Correct it"))?;
    if pattern.capture_names().flatten().next().is_none() {
        return Err(format!("expected named groups as (?<id>[0-9]+), found none in '{text}'. Name them"));
    }
    Ok(pattern)
}

/// Names of a pattern's groups: its columns.
pub(super) fn groups(pattern: &Regex) -> Vec<String> {
    pattern.capture_names().flatten().map(String::from).collect()
}

/// What the groups of those names match; a group that took no part is an empty cell.
pub(super) fn matched<'a>(pattern: &Regex, names: &[String], line: &'a str) -> Found<'a> {
    let Some(found) = pattern.captures(line) else { return Found::Other };
    let cell = |name: &String| found.name(name).map_or(Cow::Borrowed(""), |group| Cow::Borrowed(group.as_str()));
    Found::Cells(names.iter().map(cell).collect())
}

/// What an object has under the columns' names, or under the keys that stand for them.
pub(super) fn keyed<'a>(keys: &BTreeMap<String, String>, names: &[String], line: &'a str) -> Found<'a> {
    let Ok(object) = serde_json::from_str::<HashMap<Cow<'a, str>, &'a RawValue>>(line) else { return Found::Wrong };
    let cell = |name: &String| {
        let value = object.get(keys.get(name).unwrap_or(name).as_str()).map(|value| value.get());
        match value.filter(|value| *value != "null") {
            None if is_spared(name) => Some(Cow::Borrowed("")),
            None => None,
            Some(text) if text.starts_with('"') => serde_json::from_str::<String>(text).ok().map(Cow::Owned),
            Some(digits) => Some(Cow::Borrowed(digits)),
        }
    };
    names.iter().map(cell).collect::<Option<_>>().map_or(Found::Other, Found::Cells)
}
