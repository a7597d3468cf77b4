//! A word of a command that is shown, to be copied into a shell.

use std::fmt::Display;

/// The word as a shell takes it: in single quotes where it holds anything but letters, digits and what no shell acts
/// on.
pub fn quoted(word: impl Display) -> String {
    let word = word.to_string();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-+=./:,@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) { word } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_a_shell_would_act_on_is_quoted_and_any_other_stays_as_it_is() {
        assert_eq!(quoted("/tmp/run-1.a"), "/tmp/run-1.a");
        for word in ["/tmp/x; touch y", "$(reboot)", "`id`", "a\nb", "*", "~", "a&b", "a|b", "<a", "#a", "!a", "{a,b}"]
        {
            assert_eq!(quoted(word), format!("'{word}'"));
        }
        assert_eq!([quoted(""), quoted("it's")], ["''", "'it'\\''s'"]);
    }
}
