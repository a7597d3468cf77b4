//! What an experiment says on standard error while it goes on.
//!
//! Guarantees: no text of a program, a file or a name acts on a terminal, and a reader that is gone is no error.

use std::fmt::Display;
use std::io::Write;

use tickscope_tick::printable_lines;

/// Says something in lines of its own.
pub(crate) fn say(text: impl Display) {
    write(format_args!("tickscope: {}\n", printable_lines(&text.to_string())));
}

/// Shows how far the experiment is: on a terminal over what was shown last, elsewhere as a line.
pub(crate) fn show_progress(text: &str, place: Shown) {
    let text = tickscope_tick::printable(text);
    match place {
        Shown::OnTerminal { last: false } => write(format_args!("\r{text}")),
        Shown::OnTerminal { last: true } => write(format_args!("\r{text}\n")),
        Shown::AsLine => write(format_args!("{text}\n")),
    }
}

/// Ends a line that was written over.
pub(crate) fn end_progress() {
    write(format_args!("\n"));
}

/// Where progress is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shown {
    /// Written over; `last`: nothing follows.
    OnTerminal { last: bool },
    /// In a line of its own.
    AsLine,
}

fn write(text: std::fmt::Arguments<'_>) {
    let mut to = std::io::stderr().lock();
    let _ = to.write_fmt(text).and_then(|()| to.flush()); // nobody may be reading it
}
