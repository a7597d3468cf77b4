//! What a process prints: kept are its first line, its last ones, and whether the line that says it is ready came.
//!
//! Guarantees: memory stays bounded whatever is printed; what is passed on is passed on unchanged, and at once.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a line that are kept; the rest of it is passed over.
const MOST_BYTES: usize = 64 << 10;
/// Lines that a message shows, and characters of each.
const SHOWN_LINES: usize = 5;
const SHOWN_CHARACTERS: usize = 200;
/// How a line begins that one of tickscope's own answers with.
pub const ANSWER: &str = "answer ";
/// Answers that are kept until somebody asks for them.
const MOST_ANSWERS: usize = 10_000;
/// Bytes of them that are told at a time, and one line more.
const ANSWERS_BYTES: usize = 256 << 10;

/// Where a command's standard output goes on to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub enum Forward {
    /// Nowhere: its last line becomes an event.
    #[default]
    Nowhere,
    /// Standard output of this process.
    Stdout,
    /// Standard error of this process.
    Stderr,
}

/// The lines of both outputs of one process.
#[derive(Debug, Default)]
pub struct Lines {
    /// The text whose line says that it is ready.
    ready_text: Option<String>,
    /// True of one of tickscope's own, which answers.
    own: bool,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    ready: bool,
    last: VecDeque<String>,
    answers: VecDeque<String>,
}

impl Lines {
    /// Lines of a process that is ready once it has printed `ready_text`.
    pub fn awaiting(ready_text: Option<&str>) -> Self {
        Self { ready_text: ready_text.map(Into::into), ..Self::default() }
    }

    /// Lines of one of tickscope's own.
    pub fn of_own() -> Self {
        Self { own: true, ..Self::default() }
    }

    /// Returns whether the awaited text came.
    pub fn are_ready(&self) -> bool {
        self.seen().ready
    }

    /// The last lines, for a message.
    pub fn last(&self) -> String {
        let last = &self.seen().last;
        if last.is_empty() {
            return "it printed nothing".into();
        }
        last.iter().fold("its last lines:".into(), |text, line| format!("{text}\n  | {line}"))
    }

    /// Takes the answers that came since the last time, in order; of many the first ones.
    pub fn answers(&self) -> Vec<String> {
        let (mut seen, mut bytes) = (self.seen(), 0);
        let next = || {
            let answer = if bytes < ANSWERS_BYTES { seen.answers.pop_front()? } else { return None };
            bytes += answer.len();
            Some(answer)
        };
        std::iter::from_fn(next).collect()
    }

    fn answer(&self, answer: &str) {
        let mut seen = self.seen();
        if seen.answers.len() < MOST_ANSWERS {
            seen.answers.push_back(answer.into());
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, line: &str) {
        let mut seen = self.seen();
        seen.ready |= self.ready_text.as_ref().is_some_and(|text| line.contains(text));
        if seen.last.len() == SHOWN_LINES {
            seen.last.pop_front();
        }
        seen.last.push_back(line.chars().take(SHOWN_CHARACTERS).collect());
    }
}

/// Reads all of a process's standard output, so that it never waits for a reader; sends the first line, and the
/// last one that is not empty. Answers of one of tickscope's own are kept apart.
pub fn drain(
    output: impl Read,
    forward: Forward,
    lines: &Lines,
    first: &Sender<String>,
    last: &Sender<Option<String>>,
) {
    let mut latest = None;
    let keep = |line: String| {
        if let Some(answer) = line.strip_prefix(ANSWER).filter(|_| lines.own) {
            return lines.answer(answer);
        }
        lines.add(&line);
        if latest.is_none() {
            let _ = first.send(line.clone()); // nobody waits for it but `ready`
        }
        if latest.is_none() || !line.is_empty() {
            latest = Some(line);
        }
    };
    pass_on(output, forward, keep);
    let _ = last.send(latest); // nobody waits for it but `end`
}

/// Reads a process's standard error and passes it on to ours.
pub fn drain_errors(output: impl Read, lines: &Lines) {
    pass_on(output, Forward::Stderr, |line| lines.add(&line));
}

/// Passes on what is read and hands over its lines. A reader of ours that went away takes the process's with it.
fn pass_on(output: impl Read, forward: Forward, mut keep: impl FnMut(String)) {
    let (mut reader, mut line) = (BufReader::new(output), Vec::new());
    while let Some(chunk) = reader.fill_buf().ok().filter(|chunk| !chunk.is_empty()) {
        if forward.write(chunk).is_err() {
            return;
        }
        let taken = chunk.len();
        for piece in chunk.split_inclusive(|&byte| byte == b'\n') {
            line.extend_from_slice(&piece[..piece.len().min(MOST_BYTES - line.len())]);
            if piece.ends_with(b"\n") {
                keep(text(&line));
                line.clear();
            }
        }
        reader.consume(taken);
    }
    if !line.is_empty() {
        keep(text(&line));
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).trim_end().to_owned()
}

impl Forward {
    fn write(self, bytes: &[u8]) -> io::Result<()> {
        let all = |mut to: Box<dyn Write>| to.write_all(bytes).and_then(|()| to.flush());
        match self {
            Self::Nowhere => Ok(()),
            Self::Stdout => all(Box::new(io::stdout())),
            Self::Stderr => all(Box::new(io::stderr())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn drained(output: impl Read, lines: &Lines) -> (Option<String>, Option<String>) {
        let ((send_first, first), (send_last, last)) = (channel(), channel());
        drain(output, Forward::Nowhere, lines, &send_first, &send_last);
        (first.try_recv().ok(), last.recv().unwrap())
    }

    #[test]
    fn a_line_without_end_is_kept_as_far_as_a_line_may_reach() {
        let endless = io::repeat(b'x').take(100 << 20).chain("\nshort\nno newline".as_bytes());
        let (first, last) = drained(endless, &Lines::default());
        assert_eq!((first.unwrap().len(), last.as_deref()), (MOST_BYTES, Some("no newline")));
        let (first, last) = drained(io::empty(), &Lines::default());
        assert_eq!((first, last), (None, None));
        let (first, last) = drained("\n{\"valid\": false}\n\n \r\n".as_bytes(), &Lines::default());
        assert_eq!((first.as_deref(), last.as_deref()), (Some(""), Some("{\"valid\": false}")));
    }

    #[test]
    fn readiness_is_a_line_that_contains_the_text_and_the_last_lines_are_kept() {
        let lines = Lines::awaiting(Some("listening on"));
        drained("1\n2\n3\n4\n5\n".as_bytes(), &lines);
        assert!(!lines.are_ready());
        drained("now listening on 7\n".as_bytes(), &lines);
        assert!(lines.are_ready());
        assert_eq!(lines.last(), "its last lines:\n  | 2\n  | 3\n  | 4\n  | 5\n  | now listening on 7");
        assert_eq!(Lines::default().last(), "it printed nothing");
    }

    #[test]
    fn answers_of_ones_own_are_kept_apart_and_those_of_a_target_are_lines() {
        let printed = "ready\nanswer burst 3\nanswer burst 4\n{}\n";
        let own = Lines::of_own();
        assert_eq!(drained(printed.as_bytes(), &own), (Some("ready".into()), Some("{}".into())));
        assert_eq!((own.answers(), own.answers()), (vec!["burst 3".to_owned(), "burst 4".into()], Vec::new()));
        let many = "answer ".to_owned() + &"x".repeat(MOST_BYTES - 10) + "\n";
        (0..12).for_each(|_| drop(drained(many.as_bytes(), &own)));
        let told: Vec<usize> = std::iter::from_fn(|| Some(own.answers().len()).filter(|&told| told > 0)).collect();
        assert!(told.len() > 1 && told.iter().sum::<usize>() == 12, "the rest comes the next time: {told:?}");
        let target = Lines::default();
        assert_eq!(drained(&printed.as_bytes()[..20], &target).1.as_deref(), Some("answer burst 3"));
    }
}
