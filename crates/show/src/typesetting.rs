//! Text for a terminal: columns that are as wide as their widest cell, paragraphs that end before the screen does.

/// Extra indent of a paragraph's second and later lines.
const INDENT: &str = "    ";

/// Where a column's cells stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
    /// Numbers one space away from the cell before instead of two.
    RightClose,
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
                Side::RightClose => format!(" {cell:>width$}"),
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

/// Breaks at spaces into lines of so many characters; a word that is longer than a line keeps whole.
pub fn paragraph(text: &str, width: usize) -> String {
    let words = text.trim_start();
    let begin = &text[..text.len() - words.len()];
    let room = width.saturating_sub(begin.chars().count());
    let lines = fold(words.split(' '), [room, room.saturating_sub(INDENT.len())]);
    format!("{begin}{}", lines.join(&format!("\n{begin}{INDENT}")))
}

/// Words in lines of so many characters, the first line and each of the others; a longer word has a line of its own.
pub fn fold<'a>(words: impl Iterator<Item = &'a str>, [first, others]: [usize; 2]) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words {
        let room = if lines.len() == 1 { first } else { others };
        let line = lines.last_mut().expect("there is a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= room {
            line.extend([" ", word]);
        } else {
            lines.push(word.into());
        }
    }
    lines
}

/// The text, or its first `most` letters, marked, and where the rest is.
pub fn beginning(text: &str, most: usize, rest: &str) -> String {
    match text.char_indices().nth(most) {
        None => text.into(),
        Some((end, _)) => format!("{}…{rest}", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(ToString::to_string).collect()
    }

    const LINE: usize = 120;

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
            let set = paragraph(&text, LINE);
            assert_eq!(set.split_whitespace().collect::<Vec<_>>(), text.split_whitespace().collect::<Vec<_>>());
            assert!(set.lines().all(|line| line.chars().count() <= LINE), "{set}");
            assert!(set.lines().count() > 2);
        }
        assert_eq!(paragraph("one  two", LINE), "one  two");
        let long = "x".repeat(LINE + 1);
        assert_eq!(paragraph(&long, LINE), long);
    }

    #[test]
    fn what_is_cut_says_where_the_rest_is() {
        assert_eq!(beginning("abc", 3, " (there)"), "abc");
        assert_eq!(beginning("µµµµ", 3, " (there)"), "µµµ… (there)");
    }
}
