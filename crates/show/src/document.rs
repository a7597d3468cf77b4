//! One document, shown twice: as text in a terminal, and as a page that opens offline.
//!
//! Idea: whoever has something to show says it once, in headings, paragraphs, tables, terms and figures. Text leaves
//! out the figures and what explains them; the numbers that they draw stand in tables.
//!
//! Assumes: nothing about the words in it: they may come from anywhere. Guarantees: on the page words are escaped,
//! there is no script, and nothing is asked of a network; in text no line of words is longer than [`WIDTH`].
//! Deliberately absent: computing.

use std::fmt::Write;

use crate::plot::Ink;
use crate::text::Text;

/// Characters in a line of text; a table may be a little wider.
pub const WIDTH: usize = 100;

const STYLE: &str = include_str!("../page/page.css");

/// What is shown.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// Its title.
    pub title: String,
    /// What it was taken from, in a line.
    pub about: String,
    /// What to know first.
    pub lead: Vec<Block>,
    /// The rest, listed after the lead on a page.
    pub parts: Vec<Part>,
}

/// A part of a document.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its title.
    pub title: String,
    /// What stands in it.
    pub blocks: Vec<Block>,
}

/// A piece of a document.
#[derive(Clone, Debug)]
pub enum Block {
    /// A heading within a part.
    Heading(String),
    /// A sentence or more.
    Paragraph(String),
    /// What contradicts something.
    Alarm(String),
    /// How to read a figure; not in text.
    Note(String),
    /// Short lines.
    List(Vec<String>),
    /// Terms, and what each means.
    Terms(Vec<(String, String)>),
    /// Figures in rows and columns.
    Table(Table),
    /// What the inks of a figure stand for; not in text.
    Legend(Vec<Key>),
    /// A figure; not in text.
    Figure(String),
    /// The same figure in two shapes, of which a page shows what fits its screen; not in text.
    WideOrNarrow([String; 2]),
    /// Figures side by side.
    Panels(Panels),
}

/// A table whose first column names the rows.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What a screen reader calls it.
    pub name: String,
    /// A head for every column.
    pub columns: Vec<String>,
    /// As many cells as columns.
    pub rows: Vec<Vec<String>>,
}

/// An entry of a legend.
#[derive(Clone, Debug)]
pub struct Key {
    /// The classes of its sample: `line`, `area`, `dot`, and a colour.
    pub sample: String,
    /// What it stands for.
    pub words: String,
}

/// Figures with titles.
#[derive(Clone, Debug, Default)]
pub struct Panels {
    /// Those worth showing first.
    pub first: Vec<Panel>,
    /// The others, behind a line that opens them.
    pub others: Vec<Panel>,
    /// That line.
    pub summary: &'static str,
}

/// A figure under its title.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Its title.
    pub title: String,
    /// The figure, and what is said of it.
    pub blocks: Vec<Block>,
    /// Its values as bars of letters, for a terminal; `None`: a table has them.
    pub bars: Option<String>,
}

impl Block {
    /// A paragraph.
    pub fn paragraph(words: impl Into<String>) -> Self {
        Self::Paragraph(words.into())
    }

    /// A note.
    pub fn note(words: impl Into<String>) -> Self {
        Self::Note(words.into())
    }

    /// A heading.
    pub fn heading(words: impl Into<String>) -> Self {
        Self::Heading(words.into())
    }

    /// Terms known beforehand.
    pub fn terms(terms: &[(&str, &str)]) -> Self {
        Self::Terms(terms.iter().map(|(term, words)| ((*term).into(), (*words).into())).collect())
    }

    /// A table.
    pub fn table(name: &str, columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Self {
        let columns = columns.iter().map(|&column| column.into()).collect();
        Self::Table(Table { name: name.into(), columns, rows: rows.collect() })
    }

    /// A legend of lines, in the order of their inks.
    pub fn legend(words: impl Iterator<Item = String>) -> Self {
        let key = |(number, words): (usize, String)| Key { sample: Ink::of(number).sample(), words };
        Self::Legend(words.enumerate().map(key).collect())
    }

    /// A legend of samples of any kind.
    pub fn keys(keys: &[(&str, &str)]) -> Self {
        Self::Legend(keys.iter().map(|&(sample, words)| Key { sample: sample.into(), words: words.into() }).collect())
    }

    /// Figures none of which comes before the others.
    pub fn panels(first: Vec<Panel>) -> Self {
        Self::Panels(Panels { first, ..Panels::default() })
    }

    fn text(&self, text: &mut String, first: &str) {
        // Writing to a String cannot fail.
        let _ = match self {
            Self::Heading(words) => writeln!(text, "\n{words}"),
            Self::Paragraph(words) | Self::Alarm(words) => writeln!(text, "{}", wrapped(first, words)),
            Self::List(lines) => lines.iter().try_for_each(|line| writeln!(text, "{}", wrapped("- ", line))),
            Self::Terms(terms) => {
                terms.iter().try_for_each(|(term, words)| writeln!(text, "{}", wrapped(&format!("{term:20} "), words)))
            }
            Self::Table(table) => writeln!(text, "{}", table.text()),
            Self::Panels(Panels { first, .. }) => first.iter().try_for_each(|panel| match &panel.bars {
                Some(bars) => writeln!(text, "{}: {bars}", panel.title),
                None => Ok(()),
            }),
            Self::Note(_) | Self::Legend(_) | Self::Figure(_) | Self::WideOrNarrow(_) => Ok(()),
        };
    }

    fn html(&self) -> String {
        match self {
            Self::Heading(words) => format!("<h3>{}</h3>", Text(words)),
            Self::Paragraph(words) => format!("<p>{}</p>\n", Text(words)),
            Self::Alarm(words) => format!("<p class=\"bad\">{}</p>\n", Text(words)),
            Self::Note(words) => format!("<p class=\"note\">{}</p>", Text(words)),
            Self::List(lines) => {
                let lines: String = lines.iter().map(|line| format!("<li>{}</li>", Text(line))).collect();
                format!("<ul>{lines}</ul>")
            }
            Self::Terms(terms) => {
                let entries =
                    terms.iter().map(|(term, words)| format!("<dt>{}</dt><dd>{}</dd>", Text(term), Text(words)));
                format!("<dl class=\"terms\">{}</dl>", entries.collect::<String>())
            }
            Self::Table(table) => table.html(),
            Self::Legend(keys) => {
                let key =
                    |Key { sample, words }: &Key| format!("<span><i class=\"{sample}\"></i>{}</span>", Text(words));
                format!("<p class=\"legend\">{}</p>", keys.iter().map(key).collect::<String>())
            }
            Self::Figure(svg) => svg.clone(),
            Self::WideOrNarrow([wide, narrow]) => {
                format!("<div class=\"wide\">{wide}</div><div class=\"narrow\">{narrow}</div>")
            }
            Self::Panels(panels) => panels.html(),
        }
    }

    /// Whether it says nothing without a figure.
    fn is_drawn(&self) -> bool {
        match self {
            Self::Note(_) | Self::Legend(_) | Self::Figure(_) | Self::WideOrNarrow(_) | Self::Heading(_) => true,
            Self::Panels(panels) => panels.first.iter().all(|panel| panel.bars.is_none()),
            _ => false,
        }
    }
}

fn html(blocks: &[Block]) -> String {
    blocks.iter().map(Block::html).collect()
}

impl Panels {
    fn html(&self) -> String {
        let all = |panels: &[Panel]| {
            let panel = |panel: &Panel| {
                format!("<div class=\"panel\"><h3>{}</h3>{}</div>", Text(&panel.title), html(&panel.blocks))
            };
            format!("<div class=\"multiples\">{}</div>", panels.iter().map(panel).collect::<String>())
        };
        let first = if self.first.is_empty() { String::new() } else { all(&self.first) };
        if self.others.is_empty() {
            return first;
        }
        format!("{first}<details><summary>{}</summary>{}</details>", Text(self.summary), all(&self.others))
    }
}

impl Table {
    /// Numbers to the right; a head of several words stands in several lines.
    fn text(&self) -> String {
        let letters = |text: &str| text.chars().count();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|at| {
                let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| letters(cell));
                let words = self.columns[at].split(' ').map(letters);
                cells.chain(words).max().unwrap_or(0)
            })
            .collect();
        let heads: Vec<Vec<String>> =
            self.columns.iter().zip(&widths).map(|(head, &width)| fold(head, width)).collect();
        let height = heads.iter().map(Vec::len).max().unwrap_or(0);
        let head = |line: usize| -> Vec<String> {
            let of = |head: &Vec<String>| (line + head.len()).checked_sub(height).map(|at| head[at].clone());
            heads.iter().map(|head| of(head).unwrap_or_default()).collect()
        };
        let line = |cells: &[String]| {
            let mut line = String::new();
            for (at, (cell, &width)) in cells.iter().zip(&widths).enumerate() {
                let _ = if at == 0 { write!(line, "{cell:width$}") } else { write!(line, " {cell:>width$}") };
            }
            line.trim_end().to_owned()
        };
        let lines = (0..height).map(|at| line(&head(at))).chain(self.rows.iter().map(|row| line(row)));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn html(&self) -> String {
        let heads = self.columns.iter().map(|column| format!("<th scope=\"col\">{}</th>", Text(column)));
        let mut html = format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table \
             class=\"cards\"><thead><tr>{}</tr></thead><tbody>",
            Text(&self.name),
            heads.collect::<String>()
        );
        for row in &self.rows {
            let mut cells = row.iter().zip(&self.columns);
            let first = cells.next().map(|(cell, _)| cell.as_str()).unwrap_or_default();
            let _ = write!(html, "<tr><th scope=\"row\">{}</th>", Text(first));
            for (cell, column) in cells {
                let _ = write!(html, "<td data-label=\"{}\">{}</td>", Text(column), Text(cell));
            }
            html.push_str("</tr>");
        }
        html + "</tbody></table></div>"
    }
}

impl Document {
    /// For a terminal.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n{}\n", self.title, wrapped("", &self.about));
        for block in &self.lead {
            block.text(&mut text, "- ");
        }
        for part in self.parts.iter().filter(|part| !part.blocks.iter().all(Block::is_drawn)) {
            let _ = writeln!(text, "\n== {} ==", part.title);
            for block in &part.blocks {
                block.text(&mut text, "");
            }
        }
        text
    }

    /// As one file that opens offline.
    pub fn html(&self) -> String {
        let links = self.parts.iter().enumerate();
        let links = links.map(|(number, part)| format!("<a href=\"#part-{number}\">{}</a>", Text(&part.title)));
        let parts = self.parts.iter().enumerate().map(|(number, part)| {
            format!("<section id=\"part-{number}\"><h2>{}</h2>{}</section>\n", Text(&part.title), html(&part.blocks))
        });
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta \
             http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src \
             data:\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{0} · \
             tickscope</title>\n<link rel=\"icon\" \
             href=\"data:,\">\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<div class=\"bar\"><p \
             class=\"brand\">tickscope</p></div>\n<h1>{0}</h1>\n<p \
             class=\"about\">{1}</p>\n</header>\n<main>\n<section class=\"lead\" \
             aria-label=\"Advice\">{2}</section><nav aria-label=\"Parts of this \
             page\">{3}</nav>\n{4}\n</main>\n<footer><p>tickscope {5}</p></footer>\n</body>\n</html>\n",
            Text(&self.title),
            Text(&self.about),
            html(&self.lead),
            links.collect::<String>(),
            parts.collect::<String>(),
            env!("CARGO_PKG_VERSION")
        )
    }
}

/// Words in lines of so many letters, a longer word on a line of its own.
fn fold(words: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in words.split_whitespace() {
        let line = lines.last_mut().expect("there is a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            let _ = write!(line, " {word}");
        } else {
            lines.push(word.into());
        }
    }
    lines
}

/// Text in lines of at most [`WIDTH`] letters; all but the first stand under the text of the first, unless that begins
/// far to the right.
fn wrapped(first: &str, words: &str) -> String {
    let begins = first.chars().count();
    let indent = if begins <= 24 { begins } else { 2 };
    let lines = fold(words, WIDTH - begins);
    format!("{first}{}", lines.join(&format!("\n{}", " ".repeat(indent))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        let cells = |cells: [&str; 3]| cells.map(String::from).to_vec();
        let rows = [cells(["<b>", "1", "22.5 us"]), cells(["mutex", "333", "–"])];
        let table = Block::table("Costs", &["clock", "of the readings", "median"], rows.into_iter());
        let panel = |title: &str, bars: Option<&str>| Panel {
            title: title.into(),
            blocks: vec![Block::Figure("<svg/>".into())],
            bars: bars.map(String::from),
        };
        let first = vec![panel("drawn", None), panel("told", Some("1 to 2 |▁█|"))];
        let figures = vec![Block::note("a note"), Block::panels(vec![panel("figure", None)])];
        Document {
            title: "Clocks & more".into(),
            about: "of here".into(),
            lead: vec![Block::heading("Do"), Block::paragraph("this"), Block::Alarm("not that".into())],
            parts: vec![
                Part { title: "Table".into(), blocks: vec![table, Block::terms(&[("clock", "what is read")])] },
                Part { title: "Figures".into(), blocks: figures },
                Part { title: "Bars".into(), blocks: vec![Block::panels(first)] },
            ],
        }
    }

    #[test]
    fn text_has_every_word_and_table_of_a_document_and_none_of_its_figures() {
        let text = document().text();
        let expected = "Clocks & more\nof here\n\nDo\n- this\n- not that\n\n== Table ==\n        of the\nclock \
                        readings  median\n<b>          1 22.5 us\nmutex      333       –\nclock                what \
                        is read\n\n== Bars ==\ntold: 1 to 2 |▁█|\n";
        assert_eq!(text, expected, "{text}");
    }

    #[test]
    fn a_page_has_all_of_it_escaped_and_no_script() {
        let page = document().html();
        for words in [
            "<h1>Clocks &amp; more</h1>",
            "&lt;b&gt;",
            "<p class=\"bad\">not that</p>",
            "<p class=\"note\">a note</p>",
            "#part-2",
        ] {
            assert!(page.contains(words), "{words} in {page}");
        }
        assert!(page.contains("default-src 'none'") && !page.contains("<script") && !page.contains("<b>"));
        assert!(
            page.find("not that") < page.find("<nav") && page.find("<nav") < page.find("<h2>"),
            "advice stands first"
        );
    }

    #[test]
    fn lines_of_text_are_as_long_as_they_may_be_and_hold_every_word() {
        let lines = wrapped("term  ", &"word ".repeat(60));
        assert_eq!(lines.split_whitespace().count(), 61);
        assert!(lines.lines().skip(1).all(|line| line.starts_with("      word")), "{lines}");
        // 6 and 19 words of 4 with 18 blanks between are WIDTH.
        assert_eq!(lines.lines().map(|line| line.chars().count()).max(), Some(WIDTH));
    }
}
