//! Text that may hold anything, on its way into HTML.

use std::fmt::{self, Display, Write};

/// Writes a value so that HTML shows it as it is, in elements and in quoted attributes.
#[derive(Clone, Copy, Debug)]
pub struct Text<T>(pub T);

impl<T: Display> Display for Text<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            match letter {
                '&' => self.0.write_str("&amp;")?,
                '<' => self.0.write_str("&lt;")?,
                '>' => self.0.write_str("&gt;")?,
                '"' => self.0.write_str("&quot;")?,
                '\'' => self.0.write_str("&#39;")?,
                // Controls draw nothing, and some are no HTML at all; those of direction would turn what stands beside.
                letter if letter.is_control() && letter != '\n' => self.0.write_char('\u{fffd}')?,
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => self.0.write_char('\u{fffd}')?,
                letter => self.0.write_char(letter)?,
            }
        }
        Ok(())
    }
}

/// The same words with microseconds as `µs`: a page has the letter that a terminal may lack.
pub(crate) fn micro(words: &str) -> String {
    const UNIT: &str = " us";
    let mut pieces = words.split(UNIT);
    let mut text = String::from(pieces.next().unwrap_or_default());
    for piece in pieces {
        let is_unit = text.ends_with(|letter: char| letter.is_ascii_digit())
            && !piece.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        text.push_str(if is_unit { " µs" } else { UNIT });
        text.push_str(piece);
    }
    text
}

/// JSON for an inline script: no text in it can end the script or begin a comment.
pub(crate) fn inline_json(value: &impl serde::Serialize) -> Result<String, String> {
    let json = serde_json::to_string(value)
        .map_err(|e| format!("cannot write the figures as JSON: {e}. This is a bug: report it with the run"))?;
    Ok(json.replace('<', "\\u003c"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_have_their_letter_and_other_words_keep_theirs() {
        assert_eq!(micro("10 us, -0.5 us and 2 users; us 3 us"), "10 µs, -0.5 µs and 2 users; us 3 µs");
    }

    #[test]
    fn no_text_becomes_markup() {
        let hostile = "<script>alert('1')</script> & \"quoted\"\u{0}\u{202e}";
        let shown = Text(hostile).to_string();
        assert_eq!(shown, "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; &quot;quoted&quot;\u{fffd}\u{fffd}");
        assert!(!inline_json(&[hostile, "<!--"]).unwrap().contains('<'));
        let back: Vec<String> = serde_json::from_str(&inline_json(&[hostile]).unwrap()).unwrap();
        assert_eq!(back, [hostile]);
    }
}
