//! Drawings under a title, with a caption: on a page, or a file of its own as SVG and as PDF.
//!
//! Guarantees: a file has its own colours, title and caption, and asks for nothing else. Deliberately absent: what is
//! drawn ([`crate::plot`]).

use crate::document::Block;
use crate::pdf;
use crate::plot::Figure;
use crate::text::Text;

/// One of the figures.
pub struct DrawnFigure {
    /// A name for files.
    pub name: &'static str,
    /// What it shows.
    pub title: String,
    /// Units, counts, and how to read it.
    pub caption: String,
    /// The drawings, from left to right and from top to bottom.
    pub(crate) drawings: Vec<Drawing>,
}

pub(crate) struct Drawing {
    pub size: [f64; 2],
    /// Begins with its view box.
    pub svg: String,
}

impl DrawnFigure {
    pub(crate) fn of(name: &'static str, title: String, caption: String, drawings: Vec<Figure>) -> Self {
        let drawing = |figure: Figure| Drawing { size: figure.size(), svg: figure.svg(&title) };
        let drawings = drawings.into_iter().map(drawing).collect();
        Self { name, title, caption, drawings }
    }

    /// The same of drawings that are no [`Figure`].
    pub(crate) fn of_drawings(name: &'static str, title: String, caption: String, drawings: Vec<Drawing>) -> Self {
        Self { name, title, caption, drawings }
    }

    /// In a page, drawings side by side where there is room.
    pub(crate) fn blocks(self) -> Vec<Block> {
        let drawings = self.drawings.into_iter().map(|drawing| Block::Figure(drawing.svg));
        [Block::Heading(self.title), Block::Note(self.caption)].into_iter().chain(drawings).collect()
    }

    /// The same as PDF. An error would be a fault of ours.
    pub fn pdf(&self) -> Result<Vec<u8>, String> {
        pdf::pdf(&self.svg())
    }

    /// A file of its own: title, drawings two abreast where they are small, caption.
    pub fn svg(&self) -> String {
        const WIDTH: f64 = 860.0;
        const LINE: f64 = 17.0;
        const LETTERS: usize = 125;
        let mut body = format!(
            "<text x=\"0\" y=\"20\" style=\"font-size:16px;font-weight:600;fill:var(--ink)\">{}</text>",
            Text(&self.title)
        );
        let (mut x, mut y, mut row) = (0.0, 32.0, 0.0_f64);
        for Drawing { size: [width, height], svg } in &self.drawings {
            if x > 0.0 && x + width > WIDTH {
                (x, y, row) = (0.0, y + row, 0.0);
            }
            let placed = format!("<svg x=\"{x:.0}\" y=\"{y:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox");
            body += &svg.replacen("<svg viewBox", &placed, 1);
            x += width + 20.0;
            row = row.max(height + 8.0);
        }
        y += row + LINE;
        for line in wrapped(&self.caption, LETTERS) {
            body += &format!(
                "<text x=\"0\" y=\"{y:.0}\" style=\"font-size:12px;fill:var(--muted)\">{}</text>",
                Text(&line)
            );
            y += LINE;
        }
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1:.0}\" viewBox=\"-12 0 {0} {1:.0}\" \
             font-family=\"Helvetica, Arial, sans-serif\"><title>{2}</title><rect x=\"-12\" width=\"{0}\" \
             height=\"{1:.0}\" fill=\"#ffffff\"/>{body}</svg>\n",
            WIDTH + 24.0,
            y + 8.0,
            Text(&self.title),
        );
        // Programs that draw a file by itself know no variables of a page.
        for (name, colour) in COLOURS {
            svg = svg.replace(&format!("var(--{name})"), colour);
        }
        svg
    }
}

/// Colours of the page's light style.
const COLOURS: [(&str, &str); 7] = [
    ("ink", "#1b1f24"),
    ("muted", "#545d68"),
    ("rule", "#d8dde3"),
    ("soft", "#dbe8f5"),
    ("accent", "#0b5cad"),
    ("second", "#8f4e00"),
    ("third", "#1d6b45"),
];

/// Lines of at most so many letters, broken between words.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > most {
            lines.push(word.into());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caption_is_broken_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("far-too-long x", 4), ["far-too-long", "x"]);
    }
}
