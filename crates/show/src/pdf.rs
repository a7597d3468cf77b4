//! A figure's SVG as PDF, for papers: the few elements that `plot` and `x_lap` write, nothing else.
//!
//! Text is in Helvetica, which every reader of PDF has: no font is embedded and none need be installed. Assumes: nested
//! drawings are as large as their view boxes, so that places only shift. Guarantees: an element that is not known is an
//! error, never left out; what shines through in the one does so in the other.

use pdf_writer::{Content, Finish, Name, Pdf, Rect, Ref, Str};
use roxmltree::{Document, Node};

const FONTS: [(&[u8], &[u8]); 2] = [(b"F1", b"Helvetica"), (b"F2", b"Helvetica-Bold")];
/// Widths of Helvetica's letters from space to tilde, thousandths of its size.
const WIDTHS: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556,
    556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833,
    722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556,
    556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334,
    260, 334, 584,
];

/// How an element is drawn, as far as it and those around it say.
#[derive(Clone, Copy)]
struct Style {
    fill: Option<[f32; 3]>,
    stroke: Option<[f32; 3]>,
    opacity: f32,
    width: f32,
    dashes: Option<[f32; 2]>,
    font_size: f32,
    bold: bool,
}

/// The PDF of an SVG that this crate wrote.
pub(crate) fn pdf(svg: &str) -> Result<Vec<u8>, String> {
    let parsed = Document::parse(svg).map_err(|e| e.to_string())?;
    let root = parsed.root_element();
    let [left, top, width, height] = view_box(root)?;
    let mut drawn = Drawing { content: Content::new(), height, opacity: 1.0, opacities: Vec::new() };
    let none = Style {
        fill: Some([0.0; 3]),
        stroke: None,
        opacity: 1.0,
        width: 1.0,
        dashes: None,
        font_size: 12.0,
        bold: false,
    };
    drawn.children(root, none, [-left, -top])?;
    Ok(page(drawn, width, height))
}

fn page(Drawing { content, opacities, .. }: Drawing, width: f32, height: f32) -> Vec<u8> {
    let [catalog, tree, sheet, stream] = [1, 2, 3, 4].map(Ref::new);
    let mut pdf = Pdf::new();
    pdf.catalog(catalog).pages(tree);
    pdf.pages(tree).kids([sheet]).count(1);
    let mut page = pdf.page(sheet);
    page.media_box(Rect::new(0.0, 0.0, width, height)).parent(tree).contents(stream);
    let mut resources = page.resources();
    let mut fonts = resources.fonts();
    for (number, (name, _)) in (5..).zip(FONTS) {
        fonts.pair(Name(name), Ref::new(number));
    }
    fonts.finish();
    let mut states = resources.ext_g_states();
    for rank in 0..opacities.len() {
        states.pair(Name(&opacity_name(rank)), opacity_ref(rank));
    }
    states.finish();
    resources.finish();
    page.finish();
    for (number, (_, base)) in (5..).zip(FONTS) {
        pdf.type1_font(Ref::new(number)).base_font(Name(base)).encoding_predefined(Name(b"WinAnsiEncoding"));
    }
    for (rank, &opacity) in opacities.iter().enumerate() {
        pdf.ext_graphics(opacity_ref(rank)).non_stroking_alpha(opacity);
    }
    pdf.stream(stream, &content.finish());
    pdf.finish()
}

fn opacity_name(rank: usize) -> Vec<u8> {
    format!("G{rank}").into_bytes()
}

fn opacity_ref(rank: usize) -> Ref {
    Ref::new(5 + FONTS.len() as i32 + rank as i32)
}

struct Drawing {
    content: Content,
    /// Height of the page; PDF counts from below.
    height: f32,
    /// That of what is filled now.
    opacity: f32,
    /// Every other that was asked for.
    opacities: Vec<f32>,
}

impl Drawing {
    fn children(&mut self, of: Node<'_, '_>, style: Style, at: [f32; 2]) -> Result<(), String> {
        of.children().filter(Node::is_element).try_for_each(|node| self.element(node, style, at))
    }

    fn element(&mut self, node: Node<'_, '_>, style: Style, [dx, dy]: [f32; 2]) -> Result<(), String> {
        let style = style.of(node)?;
        let x = |name: &str| Ok::<_, String>(number(node, name)? + dx);
        let height = self.height;
        let y = |name: &str| Ok::<_, String>(height - number(node, name)? - dy);
        match node.tag_name().name() {
            "title" => {}
            "g" => self.children(node, style, [dx, dy])?,
            "svg" => {
                let [left, top, wide, high] = view_box(node)?;
                let opacity = self.opacity;
                self.content.save_state();
                self.content.rect(x("x")?, y("y")? - high, wide, high).clip_nonzero().end_path();
                self.children(node, style, [x("x")? - left, dy + number(node, "y")? - top])?;
                self.content.restore_state();
                self.opacity = opacity;
            }
            "rect" => {
                let [wide, high] = [number(node, "width")?, number(node, "height")?];
                // Without a width or a height it is not drawn, not even its edge.
                if wide > 0.0 && high > 0.0 {
                    self.begin(style);
                    self.content.rect(x("x")?, y("y")? - high, wide, high);
                    self.paint(style);
                }
            }
            "line" => {
                let style = Style { fill: None, ..style };
                self.begin(style);
                self.content.move_to(x("x1")?, y("y1")?).line_to(x("x2")?, y("y2")?);
                self.paint(style);
            }
            "circle" => {
                self.begin(style);
                self.circle([x("cx")?, y("cy")?], number(node, "r")?);
                self.paint(style);
            }
            "polyline" => {
                let style = Style { fill: None, ..style };
                self.begin(style);
                self.corners(node, [dx, dy])?;
                self.paint(style);
            }
            "polygon" => {
                self.begin(style);
                self.corners(node, [dx, dy])?;
                self.content.close_path();
                self.paint(style);
            }
            "text" => self.text(node, style, [x("x")?, y("y")?]),
            other => return Err(wrong("an element that figures have", &format!("<{other}>"))),
        }
        Ok(())
    }

    /// Sets how far what is filled next covers what is below it.
    fn fill_with(&mut self, opacity: f32) {
        if opacity == self.opacity {
            return;
        }
        let known = self.opacities.iter().position(|&known| known == opacity);
        let rank = known.unwrap_or(self.opacities.len());
        if known.is_none() {
            self.opacities.push(opacity);
        }
        self.content.set_parameters(Name(&opacity_name(rank)));
        self.opacity = opacity;
    }

    /// A path through the points of an element.
    fn corners(&mut self, node: Node<'_, '_>, [dx, dy]: [f32; 2]) -> Result<(), String> {
        let text = node.attribute("points").unwrap_or_default();
        for (rank, pair) in text.split_whitespace().enumerate() {
            let (left, right) = pair.split_once(',').ok_or_else(|| wrong("x,y", pair))?;
            let [px, py] = [parsed(left)? + dx, self.height - parsed(right)? - dy];
            let _ = if rank == 0 { self.content.move_to(px, py) } else { self.content.line_to(px, py) };
        }
        Ok(())
    }

    /// Sets what the next path is painted with, which PDF wants before the path.
    fn begin(&mut self, style: Style) {
        if let Some([r, g, b]) = style.fill {
            self.fill_with(style.opacity);
            self.content.set_fill_rgb(r, g, b);
        }
        if let Some([r, g, b]) = style.stroke {
            self.content.set_stroke_rgb(r, g, b).set_line_width(style.width);
            self.content.set_dash_pattern(style.dashes.into_iter().flatten(), 0.0);
        }
    }

    fn paint(&mut self, style: Style) {
        match (style.fill, style.stroke) {
            (Some(_), Some(_)) => self.content.fill_nonzero_and_stroke(),
            (Some(_), None) => self.content.fill_nonzero(),
            (None, Some(_)) => self.content.stroke(),
            (None, None) => self.content.end_path(),
        };
    }

    /// Draws a circle of four curves; the constant is the usual one, off by less than a thousandth of the radius.
    fn circle(&mut self, [x, y]: [f32; 2], r: f32) {
        let k = 0.552_285 * r;
        self.content.move_to(x + r, y);
        self.content.cubic_to(x + r, y + k, x + k, y + r, x, y + r);
        self.content.cubic_to(x - k, y + r, x - r, y + k, x - r, y);
        self.content.cubic_to(x - r, y - k, x - k, y - r, x, y - r);
        self.content.cubic_to(x + k, y - r, x + r, y - k, x + r, y).close_path();
    }

    fn text(&mut self, node: Node<'_, '_>, style: Style, [x, y]: [f32; 2]) {
        let letters = latin(node.text().unwrap_or_default());
        let width = |&letter: &u8| WIDTHS.get(usize::from(letter).wrapping_sub(32)).copied().unwrap_or(556);
        let length = letters.iter().map(width).map(f32::from).sum::<f32>() * style.font_size / 1000.0;
        let start = match node.attribute("text-anchor") {
            Some("end") => x - length,
            Some("middle") => x - length / 2.0,
            _ => x,
        };
        let [r, g, b] = style.fill.unwrap_or_default();
        self.fill_with(style.opacity);
        self.content.set_fill_rgb(r, g, b).begin_text();
        self.content.set_font(Name(FONTS[usize::from(style.bold)].0), style.font_size);
        self.content.next_line(start, y).show(Str(&letters)).end_text();
    }
}

impl Style {
    /// As an element says by its attributes, and then by its style.
    fn of(mut self, node: Node<'_, '_>) -> Result<Self, String> {
        let attributes = node.attributes().map(|of| (of.name(), of.value()));
        let style = node.attribute("style").unwrap_or_default().split(';').filter_map(|one| one.split_once(':'));
        for (name, value) in attributes.chain(style) {
            match name {
                "fill" => self.fill = colour(value)?,
                "stroke" => self.stroke = colour(value)?,
                "fill-opacity" => self.opacity = parsed(value)?,
                "stroke-width" => self.width = parsed(value)?,
                "font-size" => self.font_size = parsed(value.trim_end_matches("px"))?,
                "font-weight" => self.bold = value == "600",
                "stroke-dasharray" => {
                    let (on, off) = value.split_once(' ').ok_or_else(|| wrong("two dashes", value))?;
                    self.dashes = Some([parsed(on)?, parsed(off)?]);
                }
                _ => {}
            }
        }
        Ok(self)
    }
}

/// Text in Latin-1, as the encoding of the font has it: signs, spaces and powers of ten in other letters; no name of a
/// point has any that it lacks.
fn latin(text: &str) -> Vec<u8> {
    const RAISED: &str = "⁰¹²³⁴⁵⁶⁷⁸⁹";
    let mut letters = Vec::new();
    let mut is_power = false;
    for letter in text.chars() {
        let digit = RAISED.chars().position(|raised| raised == letter).filter(|_| is_power || letters.ends_with(b"10"));
        if !is_power && (digit.is_some() || letter == '⁻') && letters.ends_with(b"10") {
            letters.pop();
            letters.push(b'e'); // 1e5
            is_power = true;
        }
        match (letter, digit) {
            (_, Some(digit)) => letters.push(b'0' + digit as u8),
            ('−' | '–' | '⁻', _) => letters.push(b'-'),
            ('→', _) => letters.extend(b"->"),
            ('\u{202f}' | '\u{2009}', _) => letters.push(b' '),
            _ => letters.push(u8::try_from(letter).unwrap_or(b'?')),
        }
        is_power &= digit.is_some() || letter == '⁻';
    }
    letters
}

fn wrong(expected: &str, found: &str) -> String {
    format!("expected {expected}, found '{found}'. This is a bug: report it with the run")
}

fn colour(text: &str) -> Result<Option<[f32; 3]>, String> {
    if text == "none" {
        return Ok(None);
    }
    let wrong = || wrong("a colour as #rrggbb", text);
    let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6).ok_or_else(wrong)?;
    let part = |at: usize| digits.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok()).ok_or_else(wrong);
    Ok(Some([part(0)?, part(2)?, part(4)?].map(|part| f32::from(part) / 255.0)))
}

fn number(node: Node<'_, '_>, name: &str) -> Result<f32, String> {
    node.attribute(name).map_or(Ok(0.0), parsed)
}

fn parsed(text: &str) -> Result<f32, String> {
    text.parse().map_err(|_| wrong("a number", text))
}

fn view_box(node: Node<'_, '_>) -> Result<[f32; 4], String> {
    let text = node.attribute("viewBox").unwrap_or_default();
    let numbers = text.split_whitespace().map(parsed).collect::<Result<Vec<f32>, String>>()?;
    numbers.try_into().map_err(|_| wrong("a view box of four numbers", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SVG: &str = "<svg viewBox=\"-10 0 100 50\" xmlns=\"http://www.w3.org/2000/svg\"><title>t</title>\
        <g style=\"stroke:#0b5cad;fill:#0b5cad\">\
        <rect x=\"1\" y=\"2\" width=\"3\" height=\"4\" fill-opacity=\"0.5\"/></g>\
        <svg x=\"20\" y=\"5\" viewBox=\"4 0 30 20\">\
        <line x1=\"4\" y1=\"0\" x2=\"8\" y2=\"10\" stroke=\"#000000\"/></svg>\
        <text x=\"90\" y=\"40\" text-anchor=\"end\" style=\"font-size:10px;fill:#ff0000\">5 µs</text></svg>";

    #[test]
    fn places_count_from_below_and_text_ends_where_it_is_to_end() {
        let bytes = pdf(SVG).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.starts_with("%PDF-") && text.contains("/MediaBox [0 0 100 50]"), "{text}");
        // 1 + 10 from the left, 50 - 2 - 4 from below.
        assert!(text.contains("11 44 3 4 re") && text.contains("0.043137256 0.36078432 0.6784314 rg"), "{text}");
        // The inner drawing begins at 20 + 10, and is cut off at its edges.
        assert!(text.contains("30 25 30 20 re\nW") && text.contains("30 45 m\n34 35 l"), "{text}");
        // 5, space, micro sign and s are 556 + 278 + 556 + 500 thousandths wide.
        assert!(text.contains("81.1 10 Td"), "{text}");
        assert!(text.contains("<3520B573> Tj") || text.contains("(5 \\265s) Tj"), "{text}");
    }

    #[test]
    fn what_shines_through_in_the_svg_does_so_in_the_pdf_and_nothing_after_it() {
        let text = String::from_utf8_lossy(&pdf(SVG).unwrap()).into_owned();
        let [faint, rect, line, full, words] = ["/G0 gs", "11 44 3 4 re", "30 45 m", "/G1 gs", "BT"].map(|of| {
            assert_eq!(text.matches(of).count(), 1, "{of}: {text}");
            text.find(of).unwrap()
        });
        assert!(faint < rect && rect < line && line < full && full < words, "{text}");
        assert!(text.contains("/ca 0.5") && text.contains("/ca 1"), "{text}");
        // Within a drawing of its own it ends with that.
        let nested = "<svg viewBox=\"0 0 9 9\"><svg x=\"0\" y=\"0\" viewBox=\"0 0 9 9\">\
            <circle r=\"1\" fill-opacity=\"0.4\"/></svg><circle r=\"2\" fill-opacity=\"0.4\"/></svg>";
        let text = String::from_utf8_lossy(&pdf(nested).unwrap()).into_owned();
        assert_eq!((text.matches("/G0 gs").count(), text.matches("/ca 0.4").count()), (2, 1), "{text}");
    }

    #[test]
    fn a_bar_of_no_length_has_no_edge() {
        let drawn = |wide: &str| {
            let bar = format!("<rect width=\"{wide}\" height=\"4\" stroke=\"#000000\"/>");
            String::from_utf8_lossy(&pdf(&format!("<svg viewBox=\"0 0 9 9\">{bar}</svg>")).unwrap()).contains(" re")
        };
        assert!(!drawn("0") && drawn("0.1"));
    }

    #[test]
    fn a_polygon_is_closed_and_filled() {
        let bytes =
            pdf("<svg viewBox=\"0 0 9 9\"><polygon points=\"1,1 3,1 3,4\" style=\"fill:#ff0000\"/></svg>").unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains("1 0 0 rg\n1 8 m\n3 8 l\n3 5 l\nh\nf"), "{text}");
    }

    #[test]
    fn signs_and_powers_that_the_font_lacks_are_written_in_its_letters() {
        for (text, expected) in [
            ("10⁵", "1e5"),
            ("10⁻¹², 10⁷ or 10000", "1e-12, 1e7 or 10000"),
            ("[−0.50, 1\u{202f}024], a → b, 5 – 7", "[-0.50, 1 024], a -> b, 5 - 7"),
            ("±3.00\u{a0}µs² of 10", "±3.00\u{a0}µs² of 10"),
        ] {
            let letters: String = latin(text).into_iter().map(char::from).collect();
            assert_eq!(letters, expected);
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for (broken, why) in
            [("<path/>", "<path>"), ("<line x1=\"wide\"/>", "'wide'"), ("<rect fill=\"red\"/>", "'red'")]
        {
            let found = pdf(&format!("<svg viewBox=\"0 0 9 9\">{broken}</svg>")).unwrap_err();
            assert!(found.contains(why), "{found}");
        }
        assert!(pdf("<svg/>").unwrap_err().contains("view box") && pdf("<svg>").is_err());
    }
}
