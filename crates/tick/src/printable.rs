//! Text from programs, files and names on its way to a terminal.
//!
//! A program's last line, an event or a file's name may hold what moves a cursor, recolours a screen, turns letters
//! around or begins a line of its own; shown as it is, it could say what tickscope never said.

use std::borrow::Cow;

/// The text with everything that a terminal acts on, or shows as nothing, spelt as an escape: `\u{1b}`, `\n`.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match acts(letter) {
            true => shown.extend(letter.escape_default()),
            false => shown.push(letter),
        }
    }
    Cow::Owned(shown)
}

/// The same of a message of several lines: they are kept, and the later ones indented, so that none can pass for a
/// message of its own.
pub fn printable_lines(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(printable).collect();
    lines.join("\n    ")
}

/// Returns whether a terminal acts on it instead of drawing it: controls, separators of lines, what turns the
/// direction of writing, and letters that take no room.
pub fn acts(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts that programs, files and names may hold, and what each is after.
    const HOSTILE: [(&str, &str); 18] = [
        ("\u{1b}[2J", "clears the screen"),
        ("\u{1b}]0;title\u{7}", "sets the window's title"),
        ("\u{1b}]8;;http://x\u{1b}\\here", "makes a link"),
        ("\u{1b}[31mred", "recolours"),
        ("\u{1b}[1A\u{1b}[2Kgone", "overwrites the line before"),
        ("\u{9b}31mred", "the same, of 8 bits"),
        ("\u{90}q\u{9c}", "a device string"),
        ("ring\u{7}", "rings"),
        ("back\u{8}\u{8}\u{8}\u{8}fake", "overwrites itself"),
        ("nul\0nul", "ends a string in C"),
        ("one\ntickscope: all is well", "begins a line of its own"),
        ("one\rtwo", "begins the line again"),
        ("a\tb\u{b}c\u{c}d", "breaks columns"),
        ("\u{202e}txt.exe", "turns the direction of writing"),
        ("a\u{2066}b\u{2069}", "isolates a direction"),
        ("ze\u{200b}ro", "takes no room"),
        ("line\u{2028}separator", "begins a line elsewhere"),
        ("\u{e0041}\u{e007f}", "tags that nobody sees"),
    ];

    #[test]
    fn nothing_that_a_terminal_acts_on_is_left_in_a_hostile_text() {
        for (text, what) in HOSTILE {
            let shown = printable(text);
            assert!(!shown.chars().any(acts), "{what}: {shown:?}");
            assert_ne!(shown, text, "{what}");
            assert!(!printable_lines(text).chars().any(|letter| acts(letter) && letter != '\n'), "{what}");
        }
        assert_eq!(printable("\u{1b}[2J\n\u{202e}"), "\\u{1b}[2J\\n\\u{202e}");
        assert_eq!(printable_lines("one\ntickscope: all is well"), "one\n    tickscope: all is well");
    }

    #[test]
    fn what_people_write_is_left_as_it_is() {
        for text in ["±0.75 µs", "client.send → server.received", "名前", "", "a 'quoted' \\ word", "naïve 🕐"]
        {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }
}
