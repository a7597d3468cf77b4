//! How far a command is that takes long, for whoever waits.

use std::io::{IsTerminal, Write};

/// One line on standard error that is written over, where that is a terminal; else a line every so often.
pub struct Progress {
    about: &'static str,
    terminal: bool,
    last: String,
}

impl Progress {
    /// Of what `about` names.
    pub fn of(about: &'static str) -> Self {
        Self { about, terminal: std::io::stderr().is_terminal(), last: String::new() }
    }

    /// Says how far it is.
    pub fn say(&mut self, at: &str) {
        if self.terminal {
            eprint!("\r\x1b[K{at}");
            // A line that cannot be shown is no loss.
            let _ = std::io::stderr().flush();
        } else {
            let (_, part) = at.split_once([':', ',']).unwrap_or(("", at));
            if part != self.last {
                eprintln!("{}:{part}", self.about);
                part.clone_into(&mut self.last);
            }
        }
    }

    /// Takes the line away.
    pub fn over(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }
}
