//! Cells of a line: between separators, in quotes where a cell holds one.

use std::borrow::Cow;

use serde::Deserialize;

/// What stands between two cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
pub(crate) enum Separator {
    /// A comma.
    #[default]
    #[serde(rename = ",")]
    Comma,
    /// A semicolon.
    #[serde(rename = ";")]
    Semicolon,
    /// A tabulator.
    #[serde(rename = "\t")]
    Tab,
    /// Blanks or commas, any number of them.
    #[serde(rename = " ")]
    Blanks,
}

/// The cells of a line, without the blanks around them; `Err`: what is wrong with it.
pub(crate) fn cells(line: &str, separator: Separator) -> Result<Vec<Cow<'_, str>>, &'static str> {
    let between = match separator {
        Separator::Comma => ',',
        Separator::Semicolon => ';',
        Separator::Tab => '\t',
        Separator::Blanks => {
            let cells = line.split(|letter: char| letter.is_whitespace() || letter == ',');
            return Ok(cells.filter(|cell| !cell.is_empty()).map(Cow::Borrowed).collect());
        }
    };
    let mut cells = Vec::new();
    let mut rest = line;
    loop {
        let begin = rest.trim_start_matches(|letter: char| letter.is_whitespace() && letter != between);
        let Some(quoted) = begin.strip_prefix('"') else {
            let (cell, more) = begin.split_once(between).map_or((begin, None), |(cell, more)| (cell, Some(more)));
            cells.push(Cow::Borrowed(cell.trim_end()));
            match more {
                Some(more) => rest = more,
                None => return Ok(cells),
            }
            continue;
        };
        let (cell, after) = unquoted(quoted)
            .ok_or("expected a quote that ends its cell in the same line, found none. Correct the line")?;
        cells.push(cell);
        let after = after.trim_start_matches(|letter: char| letter.is_whitespace() && letter != between);
        match after.strip_prefix(between) {
            Some(more) => rest = more,
            None if after.is_empty() => return Ok(cells),
            None => return Err("expected a separator behind a quoted cell, found more text. Correct the line"),
        }
    }
}

/// A cell up to its quote, where two of them stand for one, and what follows.
fn unquoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let mut from = 0;
    let mut has_quotes = false;
    loop {
        let at = from + text[from..].find('"')?;
        if !text[at + 1..].starts_with('"') {
            let cell = &text[..at];
            let cell = if has_quotes { Cow::Owned(cell.replace("\"\"", "\"")) } else { Cow::Borrowed(cell) };
            return Some((cell, &text[at + 1..]));
        }
        (from, has_quotes) = (at + 2, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_split_at_separators_outside_quotes() {
        let of = |line, separator| cells(line, separator).unwrap();
        assert_eq!(of("1, 2 ,,4", Separator::Comma), ["1", "2", "", "4"]);
        assert_eq!(of("\"a,b\",\"c\"\"d\" ,", Separator::Comma), ["a,b", "c\"d", ""]);
        assert_eq!(of("1\t\t3", Separator::Tab), ["1", "", "3"]);
        assert_eq!(of("  12   34, 5", Separator::Blanks), ["12", "34", "5"]);
        assert!(cells("\"a", Separator::Comma).is_err() && cells("\"a\" b,c", Separator::Comma).is_err());
    }
}
