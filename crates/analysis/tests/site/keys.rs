//! Keys of public JSON, by their paths.

use std::collections::BTreeSet;

use serde_json::Value;

/// Asserts that each key of `kept`, one a line, stands in one of `tables` at least.
pub fn hold(kept: &str, tables: &[Value]) {
    let mut found = BTreeSet::new();
    tables.iter().for_each(|table| collect(table, "", &mut found));
    let lacking: Vec<_> = kept.lines().filter(|key| !found.contains(*key)).collect();
    assert!(lacking.is_empty(), "{lacking:?} of {}", found.into_iter().collect::<Vec<_>>().join("\n"));
}

/// Every key of `value`, by its path; elements of lists share theirs.
fn collect(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            let path = format!("{path}{}{key}", if path.is_empty() { "" } else { "." });
            collect(value, &path, found);
            found.insert(path);
        }),
        Value::Array(all) => all.iter().for_each(|value| collect(value, &format!("{path}[]"), found)),
        _ => {}
    }
}
