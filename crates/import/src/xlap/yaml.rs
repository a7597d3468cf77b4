//! As much of YAML as an `xlap.yml` needs: maps of maps and words, by indentation or in braces.

use std::fmt;

/// A value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Yaml {
    Word(String),
    Map(Vec<(String, Yaml)>),
}

/// What is wrong, and in which line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct YamlError {
    pub line: usize,
    pub why: String,
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

/// Maps within maps.
const MOST_DEPTH: usize = 8;
const MAP: &str = "expected `key: value`, or a key with a map below it";

/// A line that says something: its number, indentation and text.
struct Line<'a> {
    number: usize,
    indent: usize,
    text: &'a str,
}

impl Yaml {
    /// Reads a map.
    pub fn read(text: &str) -> Result<Self, YamlError> {
        let mut lines = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = without_comment(line).trim_end();
            let text = line.trim_start_matches(' ');
            if text.starts_with('\t') {
                return Err(YamlError {
                    line: number,
                    why: "expected blanks before a key, found a tabulator; use blanks".into(),
                });
            }
            if !text.is_empty() && text != "---" {
                lines.push(Line { number, indent: line.len() - text.len(), text });
            }
        }
        let mut at = 0;
        let found = map(&lines, &mut at, 0)?;
        match lines.get(at) {
            Some(line) => Err(YamlError { line: line.number, why: "expected a key as far in as those above".into() }),
            None => Ok(found),
        }
    }

    /// The value of a key of a map.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The entries of a map; none of a word.
    pub fn entries(&self) -> &[(String, Self)] {
        match self {
            Self::Map(entries) => entries,
            Self::Word(_) => &[],
        }
    }

    /// The word; `None` of a map.
    pub fn word(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            Self::Map(_) => None,
        }
    }
}

/// The keys that stand as far in as the line at `at`, and what is below them.
fn map(lines: &[Line<'_>], at: &mut usize, depth: usize) -> Result<Yaml, YamlError> {
    let mut entries: Vec<(String, Yaml)> = Vec::new();
    let Some(indent) = lines.get(*at).map(|line| line.indent) else { return Ok(Yaml::Map(entries)) };
    while let Some(line) = lines.get(*at).filter(|line| line.indent == indent) {
        let wrong = |why: &str| YamlError { line: line.number, why: why.into() };
        if depth == MOST_DEPTH {
            return Err(wrong("expected fewer maps within maps"));
        }
        let (key, rest) = key_of(line.text).ok_or_else(|| wrong(MAP))?;
        if entries.iter().any(|(known, _)| *known == key) {
            return Err(wrong("expected each key once in a map, found this one again; take one out"));
        }
        *at += 1;
        let value = match (rest, lines.get(*at)) {
            ("", Some(next)) if next.indent > indent => map(lines, at, depth + 1)?,
            ("", _) => Yaml::Map(Vec::new()),
            _ => inline(rest, depth + 1).map_err(wrong)?,
        };
        entries.push((key, value));
    }
    Ok(Yaml::Map(entries))
}

/// A key, and what follows it.
fn key_of(text: &str) -> Option<(String, &str)> {
    let (key, rest) = text.split_once(':')?;
    let is_end = rest.is_empty() || rest.starts_with(' ');
    let key = bare(key.trim())?;
    (is_end && !key.is_empty()).then(|| (key.to_owned(), rest.trim()))
}

/// A word, or a map in braces.
fn inline(text: &str, depth: usize) -> Result<Yaml, &'static str> {
    if depth > MOST_DEPTH {
        return Err("expected fewer maps within maps");
    }
    let Some(inner) = text.strip_prefix('{') else {
        let is_other = text.starts_with(['[', '-', '&', '*', '|', '>', '!']);
        let word = bare(text).filter(|_| !is_other).ok_or("expected a word or a map in braces")?;
        return Ok(Yaml::Word(word.into()));
    };
    let inner = inner.strip_suffix('}').ok_or("expected a brace that ends the map in its line")?.trim();
    let mut entries = Vec::new();
    for part in parts(inner) {
        let (key, rest) = key_of(part.trim()).ok_or(MAP)?;
        entries.push((key, inline(rest, depth + 1)?));
    }
    Ok(Yaml::Map(entries))
}

/// What stands between the commas that are in no inner brace.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0_usize, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    if !text[from..].trim().is_empty() {
        parts.push(&text[from..]);
    }
    parts
}

/// A word without its quotes; `None`: a quote has no end.
fn bare(text: &str) -> Option<&str> {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote) {
            return inner.strip_suffix(quote);
        }
    }
    Some(text)
}

fn without_comment(line: &str) -> &str {
    let is_begin = |at: usize| at == 0 || line.as_bytes()[at - 1] == b' ';
    line.match_indices('#').find(|(at, _)| is_begin(*at)).map_or(line, |(at, _)| &line[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_read_by_indentation_and_in_braces() {
        let text = "# X-Lap\n---\nstamps:\n  A_C: {Source: sender, Type: cycle}\n  B_T:\n    Source: 'receiver'\n\n\
                    kinds: { Data: 0 }\n";
        let read = Yaml::read(text).unwrap();
        let word = |path: [&str; 3]| read.get(path[0])?.get(path[1])?.get(path[2])?.word().map(String::from);
        assert_eq!(word(["stamps", "A_C", "Type"]).as_deref(), Some("cycle"));
        assert_eq!(word(["stamps", "B_T", "Source"]).as_deref(), Some("receiver"));
        assert_eq!(read.get("kinds").unwrap().get("Data").unwrap().word(), Some("0"));
    }

    #[test]
    fn what_is_no_map_is_refused_with_its_line() {
        for (text, line) in [
            ("a: 1\n- b", 2),
            ("a:\n\tb: 1", 2),
            ("a: {b: 1", 1),
            ("a: 1\n  b: 2", 2),
            ("a: 1\na: 2", 2),
            ("a: [1]", 1),
        ] {
            assert_eq!(Yaml::read(text).unwrap_err().line, line, "{text}");
        }
        let deep: String = (0..20).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
        assert!(Yaml::read(&deep).unwrap_err().why.contains("fewer"));
        assert!(Yaml::read(&format!("a: {}", "{a: ".repeat(50_000))).is_err());
    }
}
