//! Everything that the command prints: the one writer of standard output, and messages on standard error.
//!
//! Guarantees: a reader that has seen enough is no error, and is told apart from a disk that is full, which is one;
//! neither is a panic. No text of a program, a file or a name moves a cursor. Deliberately absent: `println!`, which
//! panics; a lint refuses it in this crate.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde::Serialize;
use tickscope_show::terminal::Terminal;
use tickscope_tick::{acts, printable, printable_lines};

use crate::failure::Failure;
use crate::options::When;

/// Whether the reader of standard output has gone.
static GONE: AtomicBool = AtomicBool::new(false);

/// Returns whether nobody reads any more: whoever prints for as long as somebody does may end.
pub fn is_unread() -> bool {
    GONE.load(Relaxed)
}

/// Prints text.
pub fn print(text: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            GONE.store(true, Relaxed);
            Ok(())
        }
        Err(error) => Err(unwritten(&error)),
        Ok(()) => Ok(()),
    }
}

/// The failure to write standard output.
fn unwritten(error: &io::Error) -> Failure {
    let remedy = match error.kind() {
        io::ErrorKind::StorageFull => "free some space",
        _ => "check where it leads",
    };
    Failure::work(format!("cannot write standard output: {error}; {remedy}"))
}

/// Prints a line; what a terminal would act on is escaped.
pub fn line(text: impl Display) -> Result<(), Failure> {
    print(format!("{}\n", printable(&text.to_string())).as_bytes())
}

/// Prints JSON for programs, indented. What a terminal would act on is escaped, as JSON can.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print(json_text(value)?.as_bytes())
}

/// What [`print_json`] prints.
pub fn json_text(value: &impl Serialize) -> Result<String, Failure> {
    Ok(escaped(&(serde_json::to_string_pretty(value).map_err(Failure::work)? + "\n")).into_owned())
}

/// The same in a line.
pub fn print_json_line(value: &impl Serialize) -> Result<(), Failure> {
    print(escaped(&(serde_json::to_string(value).map_err(Failure::work)? + "\n")).as_bytes())
}

fn escaped(json: &str) -> Cow<'_, str> {
    if json.chars().all(|letter| letter == '\n' || !acts(letter)) {
        return json.into();
    }
    let mut safe = String::with_capacity(json.len());
    for letter in json.chars() {
        match acts(letter) && letter != '\n' {
            true => letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| safe += &format!("\\u{unit:04x}")),
            false => safe.push(letter),
        }
    }
    safe.into()
}

/// Refuses a file that cannot be made where it is to lie, before anything is computed; `option` named it. No folder is
/// made for it: a misspelt path would be one more.
pub fn expect_folder(file: &Path, option: &str) -> Result<(), Failure> {
    if file.is_dir() {
        let found = file.display();
        return Err(Failure::input(format!("{option}: expected a file, found the directory {found}. Name the file")));
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if folder.is_dir() {
        return Ok(());
    }
    Err(Failure::input(format!(
        "{option}: expected a file in a directory that is there, found {}: there is no directory {}. Make it first",
        file.display(),
        folder.display()
    )))
}

/// Says something on standard error. If nobody can read that either, there is nobody left to tell.
pub fn note(text: impl Display) {
    let _ = writeln!(io::stderr(), "tickscope: {}", printable_lines(&text.to_string()));
}

/// The terminal that standard output is, if it is one.
pub fn terminal(colours: When) -> Terminal {
    let is_terminal = io::stdout().is_terminal();
    let width = columns_told().or_else(|| columns_of_stdout().filter(|_| is_terminal));
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    let colours = match colours {
        When::Always => true,
        When::Never => false,
        When::Auto => is_terminal && !plain,
    };
    width.map_or_else(Terminal::default, Terminal::of_width).with_colours(colours)
}

/// What `COLUMNS` says.
fn columns_told() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.parse().ok().filter(|&columns| columns > 0)
}

fn columns_of_stdout() -> Option<usize> {
    // SAFETY: the request fills the zeroed struct that it is given, and keeps no pointer to it.
    let (status, size) = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        (libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size), size)
    };
    (status == 0 && size.ws_col > 0).then_some(size.ws_col.into())
}
