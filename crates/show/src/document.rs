//! One document, shown twice: as text in a terminal, and as a page that opens offline; a run's page is a template
//! around blocks of the same kind.
//!
//! Idea: whoever has something to show says it once, in headings, paragraphs, tables, terms and figures. Text leaves
//! out the figures and what explains them; the numbers that they draw stand in tables.
//!
//! Assumes: nothing about the words in it: they may come from anywhere. Guarantees: words are escaped, here for every
//! page and for a terminal; on a document's page there is no script, and nothing is asked of a network; in text no
//! line of words is longer than [`WIDTH`].
//! Deliberately absent: computing.

use std::fmt::Write;

use crate::plot::Ink;
use crate::text::{Text, micro};
use crate::typesetting::{Side, columns, fold};
use tickscope_tick::printable;

/// Characters in a line of text; a table may be a little wider.
pub const WIDTH: usize = 100;

const STYLE: &str = include_str!("../page/page.css");

/// Words, some of them set off from the others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Words(Vec<(Tone, String)>);

/// How words are set off on a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tone {
    /// Like all others.
    Plain,
    /// Those that matter most.
    Strong,
    /// A contradiction or a loss.
    Bad,
    /// A remark in passing.
    Aside,
    /// The bounds of the number before.
    Bounds,
    /// An answer that the bounds leave open.
    Open,
    /// A number that a figure has too.
    Number,
    /// A line ends before it.
    Line,
}

impl<W: Into<String>> From<W> for Words {
    fn from(words: W) -> Self {
        Self::default().say(words)
    }
}

impl Words {
    /// More words.
    pub fn say(self, words: impl Into<String>) -> Self {
        self.set(Tone::Plain, words)
    }

    /// More words, which matter most.
    pub fn stress(self, words: impl Into<String>) -> Self {
        self.set(Tone::Strong, words)
    }

    /// More words in a tone.
    pub fn set(mut self, tone: Tone, words: impl Into<String>) -> Self {
        self.0.push((tone, words.into()));
        self
    }

    /// These words, then others on a line of their own.
    pub fn line(mut self, others: Self) -> Self {
        self.0.push((Tone::Line, String::new()));
        self.0.extend(others.0);
        self
    }

    /// All of them without their tones.
    pub fn plain(&self) -> String {
        self.0.iter().flat_map(|(tone, words)| [if *tone == Tone::Line { "; " } else { "" }, words]).collect()
    }

    fn html(&self) -> String {
        let piece = |(tone, words): &(Tone, String)| {
            let [begin, end] = match tone {
                Tone::Plain => ["", ""],
                Tone::Strong => ["<strong>", "</strong>"],
                Tone::Bad => ["<strong class=\"bad\">", "</strong>"],
                Tone::Aside => ["<span class=\"aside\">", "</span>"],
                Tone::Bounds => ["<span class=\"bounds\">", "</span>"],
                Tone::Open => ["<span class=\"open\">", "</span>"],
                Tone::Number => ["<b class=\"number\">", "</b>"],
                Tone::Line => ["<br>", ""],
            };
            format!("{begin}{}{end}", Text(words))
        };
        self.0.iter().map(piece).collect()
    }
}

/// What is shown.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// Its title.
    pub title: String,
    /// What it was taken from, in a line.
    pub about: String,
    /// What to know first.
    pub lead: Vec<Block>,
    /// What stands between the lead and the list of parts: one figure, and what it needs.
    pub first: Vec<Block>,
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
    /// Whether a page shows the title alone until it is opened.
    pub folded: bool,
}

/// A piece of a document.
#[derive(Clone, Debug)]
pub enum Block {
    /// A heading within a part.
    Heading(String),
    /// A sentence or more.
    Paragraph(Words),
    /// What contradicts something.
    Alarm(String),
    /// How to read a figure; not in text.
    Note(String),
    /// Short lines.
    List(Vec<Words>),
    /// Terms, and what each means: heads of tables lead to them.
    Terms(Vec<(String, String)>),
    /// What is so, each with its name.
    Facts(Vec<(String, String)>),
    /// Figures in rows and columns.
    Table(Table),
    /// What the inks of a figure stand for; not in text.
    Legend(Vec<Key>),
    /// A figure; not in text.
    Figure(String),
    /// The place of a figure that the page's script draws, and of its caption, by its id; not in text.
    Place(String),
    /// The same figure in two shapes, of which a page shows what fits its screen; not in text.
    WideOrNarrow([String; 2]),
    /// Figures side by side.
    Panels(Panels),
    /// Blocks that a page shows once its line is opened.
    Folded(String, Vec<Block>),
    /// A contradiction or a state that comes before all else, in a box.
    Box(Tone, Vec<Block>),
    /// Text as it was written, line by line; not in text.
    Verbatim(String),
}

/// A table whose first column names the rows.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What a screen reader calls it.
    pub name: String,
    /// A head for every column.
    pub columns: Vec<String>,
    /// Rows from top to bottom: a cell a column; columns at the end may lack theirs.
    pub rows: Vec<Vec<Words>>,
    /// Whether the last column is words, not numbers.
    pub ends_in_words: bool,
    /// Whether its heads lead to the terms of the same page that say what they mean.
    pub explained: bool,
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
    pub fn paragraph(words: impl Into<Words>) -> Self {
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
    pub fn table<W: Into<Words>>(name: &str, columns: &[&str], rows: impl Iterator<Item = Vec<W>>) -> Self {
        Self::Table(Table::of(name, columns, rows))
    }

    /// A table whose last column is words.
    pub fn table_ending_in_words(name: &str, columns: &[&str], rows: impl Iterator<Item = Vec<Words>>) -> Self {
        Self::Table(Table { ends_in_words: true, ..Table::of(name, columns, rows) })
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

    /// The same table with heads that lead to the page's terms.
    pub fn explained(self) -> Self {
        match self {
            Self::Table(table) => Self::Table(Table { explained: true, ..table }),
            other => other,
        }
    }

    /// Figures none of which comes before the others.
    pub fn panels(first: Vec<Panel>) -> Self {
        Self::Panels(Panels { first, ..Panels::default() })
    }

    fn text(&self, text: &mut String, first: &str) {
        // Writing to a String cannot fail.
        let _ = match self {
            Self::Heading(words) => writeln!(text, "\n{}", printable(words)),
            Self::Paragraph(words) => writeln!(text, "{}", wrapped(first, &words.plain())),
            Self::Alarm(words) => writeln!(text, "{}", wrapped(first, words)),
            Self::List(lines) => lines.iter().try_for_each(|line| writeln!(text, "{}", wrapped("- ", &line.plain()))),
            Self::Terms(terms) | Self::Facts(terms) => {
                let line = |(term, words): &(String, String)| wrapped(&format!("{:20} ", printable(term)), words);
                terms.iter().try_for_each(|term| writeln!(text, "{}", line(term)))
            }
            Self::Table(table) => writeln!(text, "{}", table.text()),
            Self::Panels(Panels { first, .. }) => first.iter().try_for_each(|panel| match &panel.bars {
                Some(bars) => writeln!(text, "{}: {}", printable(&panel.title), printable(bars)),
                None => Ok(()),
            }),
            Self::Folded(line, blocks) => {
                let head = writeln!(text, "\n{}", printable(line));
                blocks.iter().for_each(|block| block.text(text, first));
                head
            }
            Self::Box(_, blocks) => {
                blocks.iter().for_each(|block| block.text(text, first));
                Ok(())
            }
            Self::Note(_) | Self::Legend(_) | Self::Figure(_) | Self::Place(_) | Self::WideOrNarrow(_) => Ok(()),
            Self::Verbatim(_) => Ok(()),
        };
    }

    fn html(&self) -> String {
        match self {
            Self::Heading(words) => format!("<h3>{}</h3>", Text(words)),
            Self::Paragraph(words) => format!("<p>{}</p>\n", words.html()),
            Self::Alarm(words) => format!("<p class=\"bad\">{}</p>\n", Text(words)),
            Self::Note(words) => format!("<p class=\"note\">{}</p>", Text(words)),
            Self::List(lines) => {
                let lines: String = lines.iter().map(|line| format!("<li>{}</li>\n", line.html())).collect();
                format!("<ul>\n{lines}</ul>\n")
            }
            Self::Terms(terms) => definitions(terms, |term| {
                term.split(", ").map(|word| format!("<span id=\"means-{}\"></span>", anchor(word))).collect()
            }),
            Self::Facts(facts) => definitions(facts, |_| String::new()),
            Self::Table(table) => table.html(),
            Self::Legend(keys) => {
                let key =
                    |Key { sample, words }: &Key| format!("<span><i class=\"{sample}\"></i>{}</span>", Text(words));
                format!("<p class=\"legend\">{}</p>", keys.iter().map(key).collect::<String>())
            }
            Self::Figure(svg) => svg.clone(),
            Self::Place(id) => {
                format!(
                    "<div class=\"figure\" id=\"{0}\"></div>\n<p class=\"caption\" id=\"{0}-caption\"></p>\n",
                    Text(id)
                )
            }
            Self::WideOrNarrow([wide, narrow]) => {
                format!("<div class=\"wide\">{wide}</div><div class=\"narrow\">{narrow}</div>")
            }
            Self::Panels(panels) => panels.html(),
            Self::Folded(line, blocks) => {
                format!("<details><summary>{}</summary>\n{}</details>\n", Text(line), html(blocks))
            }
            Self::Box(tone, blocks) => {
                let kind = if *tone == Tone::Bad { "finding" } else { "state" };
                format!("<div class=\"alarm {kind}\" role=\"alert\">\n{}</div>\n", html(blocks))
            }
            Self::Verbatim(text) => format!("<pre tabindex=\"0\">{}</pre>\n", Text(text)),
        }
    }

    /// Whether it says nothing without a figure.
    fn is_drawn(&self) -> bool {
        match self {
            Self::Note(_) | Self::Legend(_) | Self::Figure(_) | Self::Place(_) | Self::WideOrNarrow(_) => true,
            Self::Folded(_, blocks) => blocks.iter().all(Self::is_drawn),
            Self::Heading(_) => true,
            Self::Panels(panels) => panels.first.iter().all(|panel| panel.bars.is_none()),
            _ => false,
        }
    }
}

/// A part under its title.
pub fn part(title: &str, blocks: Vec<Block>) -> Part {
    Part { title: title.into(), blocks, folded: false }
}

/// Letters and digits of a term in lower case, the rest as hyphens: what its place on a page is called.
fn anchor(term: &str) -> String {
    // Of a column that is named after a figure that was asked for, what does not change.
    let term = term.rsplit_once("% ").map_or(term, |(_, fixed)| fixed);
    let words = term.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}

/// A figure under its title, with what is said of it.
pub fn panel(title: &str, blocks: Vec<Block>) -> Panel {
    Panel { title: title.into(), blocks, bars: None }
}

/// As a terminal shows them.
pub(crate) fn text(blocks: &[Block]) -> String {
    let mut text = String::new();
    for (at, block) in blocks.iter().enumerate() {
        // A terminal has no figures, and no heads of them.
        let is_head = matches!(block, Block::Heading(_))
            && matches!(blocks.get(at + 1), Some(Block::Figure(_) | Block::WideOrNarrow(_)));
        if !is_head {
            block.text(&mut text, "");
        }
    }
    text
}

/// A list of terms; before each, the places that links lead to.
fn definitions(terms: &[(String, String)], places: impl Fn(&str) -> String) -> String {
    let entry =
        |(term, words): &(String, String)| format!("<dt>{}{}</dt><dd>{}</dd>", places(term), Text(term), Text(words));
    format!("<dl class=\"terms\">{}</dl>", terms.iter().map(entry).collect::<String>())
}

/// As a page shows them.
pub(crate) fn html(blocks: &[Block]) -> String {
    blocks.iter().map(Block::html).collect()
}

impl Part {
    /// The same, folded.
    pub fn folded(self) -> Self {
        Self { folded: true, ..self }
    }

    /// As a section that `#id` leads to, opening it.
    fn html(&self, id: &str) -> String {
        let (title, blocks) = (Text(&self.title), html(&self.blocks));
        if self.folded {
            return format!(
                "<section class=\"chapter\"><details><summary><h2>{title}</h2></summary><div \
                 id=\"{id}\">{blocks}</div></details></section>\n"
            );
        }
        format!("<section id=\"{id}\"><h2>{title}</h2>\n{blocks}</section>\n")
    }
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
    fn of<W: Into<Words>>(name: &str, columns: &[&str], rows: impl Iterator<Item = Vec<W>>) -> Self {
        let columns = columns.iter().map(|&column| column.into()).collect();
        let rows = rows.map(|row| row.into_iter().map(Into::into).collect()).collect();
        Self { name: name.into(), columns, rows, ends_in_words: false, explained: false }
    }

    fn is_words(&self, column: usize) -> bool {
        self.ends_in_words && column + 1 == self.columns.len()
    }

    /// Numbers to the right; a head of several words stands in several lines.
    fn text(&self) -> String {
        let letters = |text: &str| text.chars().count();
        let cell = |words: &Words| printable(&words.plain()).into_owned();
        let rows: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
        let heads = self.columns.iter().enumerate().map(|(at, head)| {
            let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| letters(cell));
            let width = cells.chain(head.split(' ').map(letters)).max().unwrap_or(0);
            fold(head.split_whitespace(), [width; 2])
        });
        let heads: Vec<Vec<String>> = heads.collect();
        let height = heads.iter().map(Vec::len).max().unwrap_or(0);
        let head = |line: usize| -> Vec<String> {
            let of = |head: &Vec<String>| (line + head.len()).checked_sub(height).map(|at| head[at].clone());
            heads.iter().map(|head| of(head).unwrap_or_default()).collect()
        };
        let lines: Vec<Vec<String>> = (0..height).map(head).chain(rows).collect();
        let side = |at| match at {
            0 => Side::Left,
            _ if self.is_words(at) => Side::LeftClose,
            _ => Side::RightClose,
        };
        columns(&(0..heads.len()).map(side).collect::<Vec<_>>(), &lines).join("\n")
    }

    fn html(&self) -> String {
        let class = |at| if self.is_words(at) { " class=\"words\"" } else { "" };
        let heads = self.columns.iter().enumerate();
        let heads = heads.map(|(at, column)| {
            let name = match self.explained && at > 0 {
                true => format!("<a href=\"#means-{}\">{}</a>", anchor(column), Text(column)),
                false => Text(column).to_string(),
            };
            format!("<th scope=\"col\"{}>{name}</th>", class(at))
        });
        // The more columns, the wider the page that has room for them; elsewhere each row is a card.
        let size = match self.columns.len() {
            ..=5 => "few",
            6..=8 => "several",
            _ => "many",
        };
        let mut html = format!(
            "<div class=\"scroll {size}\" role=\"region\" aria-label=\"{}\"><table \
             class=\"cards\"><thead><tr>{}</tr></thead><tbody>\n",
            Text(&self.name),
            heads.collect::<String>()
        );
        for row in &self.rows {
            for (at, (cell, column)) in row.iter().zip(&self.columns).enumerate() {
                let (label, cell) = (Text(column), cell.html());
                let _ = match at {
                    0 => write!(html, "<tr><th scope=\"row\">{cell}</th>"),
                    // One element: in a card it stands beside its label as a whole.
                    _ if self.is_words(at) => {
                        write!(html, "<td data-label=\"{label}\" class=\"words\"><span>{cell}</span></td>")
                    }
                    _ => write!(html, "<td data-label=\"{label}\">{cell}</td>"),
                };
            }
            html.push_str("</tr>\n");
        }
        html + "</tbody></table></div>\n"
    }
}

impl Document {
    /// For a terminal.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n{}\n", printable(&self.title), wrapped("", &self.about));
        for block in self.lead.iter().chain(&self.first) {
            block.text(&mut text, "- ");
        }
        for part in self.parts.iter().filter(|part| !part.blocks.iter().all(Block::is_drawn)) {
            let _ = writeln!(text, "\n== {} ==", printable(&part.title));
            text += &self::text(&part.blocks);
        }
        text
    }

    /// As one file that opens offline.
    pub fn html(&self) -> String {
        let links = self.parts.iter().enumerate();
        let links = links.map(|(number, part)| format!("<a href=\"#part-{number}\">{}</a>", Text(&part.title)));
        let parts = self.parts.iter().enumerate();
        let parts = parts.map(|(number, part)| part.html(&format!("part-{number}")));
        let page = format!(
            include_str!("../page/document.html"),
            title = Text(&self.title),
            about = Text(&self.about),
            style = STYLE,
            lead = html(&self.lead),
            first = html(&self.first),
            links = links.collect::<String>(),
            parts = parts.collect::<String>(),
            version = env!("CARGO_PKG_VERSION"),
        );
        micro(&page)
    }
}

/// Text in lines of at most [`WIDTH`] letters; all but the first stand under the text of the first, unless that begins
/// far to the right.
fn wrapped(first: &str, words: &str) -> String {
    let begins = first.chars().count();
    let indent = if begins <= 24 { begins } else { 2 };
    let words: Vec<_> = words.split_whitespace().map(printable).collect();
    let lines = fold(words.iter().map(|word| &**word), [WIDTH - begins; 2]);
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
            first: vec![Block::Figure("<svg/>".into())],
            parts: vec![
                part("Table", vec![table, Block::terms(&[("clock", "what is read")])]),
                part("Figures", figures),
                part("Bars", vec![Block::panels(first)]).folded(),
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
    fn no_word_of_a_document_moves_a_cursor_or_begins_a_line_of_its_own() {
        let bad = || String::from("\u{1b}[31mOWNED\u{7}\n== Forged ==");
        let table = Block::table("T", &["x", "y"], [vec![bad(), bad()]].into_iter());
        let terms = vec![(bad(), bad())];
        let folded = Block::Folded(bad(), vec![Block::List(vec![Words::from(bad())])]);
        let bars = vec![Panel { title: bad(), blocks: Vec::new(), bars: Some(bad()) }];
        let blocks = vec![Block::Heading(bad()), table, Block::Terms(terms.clone()), Block::Facts(terms), folded];
        let text = Document {
            title: bad(),
            about: bad(),
            lead: vec![Block::paragraph(bad()), Block::Alarm(bad())],
            first: Vec::new(),
            parts: vec![part(&bad(), blocks), part("Bars", vec![Block::panels(bars)])],
        }
        .text();
        assert!(text.chars().all(|letter| letter == '\n' || !tickscope_tick::acts(letter)), "{text:?}");
        assert!(!text.lines().any(|line| line.starts_with("== Forged")), "{text}");
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
            page.find("not that") < page.find("<nav") && page.find("<nav") < page.find("<h2"),
            "advice stands first"
        );
    }

    #[test]
    fn words_have_their_tones_on_a_page_and_lose_them_in_text() {
        let cell = Words::from("a<b ").set(Tone::Open, "not resolved").line("c".into());
        let table = Block::table_ending_in_words("T", &["x", "y"], [vec!["r".into(), cell]].into_iter());
        let expected = "<td data-label=\"y\" class=\"words\"><span>a&lt;b <span class=\"open\">not \
                        resolved</span><br>c</span></td>";
        assert!(table.html().contains(expected), "{}", table.html());
        let mut text = String::new();
        table.text(&mut text, "");
        assert_eq!(text, "x y\nr a<b not resolved; c\n");
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
