//! Text for a terminal: columns that are as wide as their widest cell, paragraphs that end before the screen does.

use std::iter;

/// Longest line of a paragraph, in characters.
const LINE: usize = 120;
/// Extra indent of a paragraph's second and later lines.
const INDENT: &str = "    ";

/// Where a column's cells stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
    /// What belongs to the cell before it: one space away instead of two.
    LeftClose,
}

/// Rows as lines; cells that a row lacks are empty.
pub fn columns(sides: &[Side], rows: &[Vec<String>]) -> Vec<String> {
    let widths: Vec<usize> = (0..sides.len()).map(|column| width(rows, column)).collect();
    let line = |row: &Vec<String>| {
        let cells = sides.iter().zip(&widths).enumerate().map(|(column, (side, &width))| {
            let cell = row.get(column).map_or("", String::as_str);
            match side {
                Side::Left => format!("  {cell:width$}"),
                Side::Right => format!("  {cell:>width$}"),
                Side::LeftClose => format!(" {cell:width$}"),
            }
        });
        let line: String = cells.collect();
        line.trim_end().chars().skip(2).collect()
    };
    rows.iter().map(line).collect()
}

fn width(rows: &[Vec<String>], column: usize) -> usize {
    rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
}

/// Breaks at spaces; a word that is longer than a line keeps whole.
pub fn paragraph(text: &str) -> String {
    let words = text.trim_start();
    let begin = &text[..text.len() - words.len()];
    let mut lines = vec![begin.to_owned()];
    let mut used = begin.chars().count();
    for word in words.split(' ') {
        let length = word.chars().count();
        let is_first = lines.last().is_some_and(|line| line.trim_start().is_empty());
        if !is_first && used + 1 + length > LINE {
            lines.push(format!("{begin}{INDENT}"));
            used = begin.chars().count() + INDENT.len();
        } else if !is_first {
            append(&mut lines, " ");
            used += 1;
        }
        append(&mut lines, word);
        used += length;
    }
    lines.join("\n")
}

fn append(lines: &mut [String], text: &str) {
    lines.iter_mut().rev().take(1).for_each(|line| line.push_str(text));
}

/// The text, or its beginning and where the rest is.
pub fn beginning(text: &str, most: usize, rest: &str) -> String {
    if text.chars().count() <= most {
        return text.into();
    }
    text.chars().take(most).chain(iter::once('…')).collect::<String>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_column_is_as_wide_as_its_widest_cell() {
        let sides = [Side::Left, Side::Right, Side::LeftClose];
        let lines = columns(&sides, &[row(&["stage", "us"]), row(&["a>b", "10.25", "±1.00"]), row(&["end-to-end"])]);
        assert_eq!(lines, ["stage          us", "a>b         10.25 ±1.00", "end-to-end"]);
    }

    #[test]
    fn a_paragraph_loses_no_word_and_no_line_of_it_is_too_long() {
        for begin in ["", "  - "] {
            let text = format!("{begin}{}", (0..200).map(|n| n.to_string()).collect::<Vec<_>>().join(" "));
            let set = paragraph(&text);
            assert_eq!(set.split_whitespace().collect::<Vec<_>>(), text.split_whitespace().collect::<Vec<_>>());
            assert!(set.lines().all(|line| line.chars().count() <= LINE), "{set}");
            assert!(set.lines().count() > 2);
        }
        assert_eq!(paragraph("one  two"), "one  two");
        let long = "x".repeat(LINE + 1);
        assert_eq!(paragraph(&long), long);
    }

    #[test]
    fn what_is_cut_says_where_the_rest_is() {
        assert_eq!(beginning("abc", 3, " (there)"), "abc");
        assert_eq!(beginning("abcd", 3, " (there)"), "abc… (there)");
    }
}
