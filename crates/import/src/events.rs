//! The text of `perf script` and of ftrace: `TASK-PID [CPU] FLAGS SECONDS: EVENT: KEY=VALUE ...`, a line an event.
//!
//! A column's name is an event for a time, and a key of its fields for anything else; `cpu` and `pid` are those of the
//! line. Lines of other events, of call chains and comments are counted.

use std::borrow::Cow;
use std::io::Read;

use crate::error::Error;
use crate::form::{Table, Times, shortened};
use crate::lines::Lines;
use crate::records::Record;

/// The lines of one file that are events of the table's points.
pub(crate) struct Events<R> {
    lines: Lines<R>,
    /// Names of keys, then of events.
    keys: Vec<String>,
    events: Vec<String>,
    others: u64,
}

/// A line as it is split.
struct Line<'a> {
    cpu: &'a str,
    pid: Option<&'a str>,
    time: &'a str,
    event: &'a str,
    fields: &'a str,
}

impl<R: Read> Events<R> {
    pub fn of(input: R, table: &Table) -> Self {
        let events = match &table.times {
            Times::Each(points) => points.iter().map(|(_, event)| event.clone()).collect(),
            Times::Of(_, event) => vec![event.clone()],
            Times::Named { .. } => Vec::new(), // the mapping refuses it
        };
        Self { lines: Lines::of(input, &table.file), keys: table.keys(), events, others: 0 }
    }

    pub fn number(&self) -> u64 {
        self.lines.number()
    }

    pub fn others(&self) -> u64 {
        self.others
    }

    pub fn next<'a>(&mut self) -> Result<Option<Record<'a>>, Error> {
        loop {
            let Some(text) = self.lines.next()? else { return Ok(None) };
            // A frame of a call chain, a comment, or what perf says of itself.
            let is_other = text.starts_with('#') || text.starts_with('\t') || text.starts_with("CPU ");
            let Some(line) = Line::of(text).filter(|_| !is_other) else {
                if is_other || is_frame(text) {
                    self.others += 1;
                    continue;
                }
                let found = shortened(text);
                return Err(self.lines.wrong(format_args!(
                    "expected an event as perf script or ftrace prints it, TASK [CPU] SECONDS: EVENT: FIELDS, found \
                     '{found}'. Complete the line if the file was cut off, or print with the fields comm, pid, cpu, \
                     time, event, trace"
                )));
            };
            let Some(at) = self.events.iter().position(|event| event == line.event) else {
                self.others += 1;
                continue;
            };
            let mut cells: Vec<Cow<'a, str>> = Vec::new();
            for key in &self.keys {
                let Some(value) = line.value(key) else {
                    let (event, found) = (line.event.to_owned(), shortened(line.fields));
                    return Err(self.lines.wrong(format_args!(
                        "expected {key}=NUMBER in the event {event}, found '{found}'. Name another key"
                    )));
                };
                cells.push(value.into());
            }
            let time = line.time.to_owned();
            cells.extend(self.events.iter().map(|_| Cow::Borrowed("")));
            cells[self.keys.len() + at] = time.into();
            return Ok(Some(cells));
        }
    }
}

/// Returns whether a line is a frame of a call chain: blanks, an address, a name.
fn is_frame(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let address = words.next().is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_hexdigit()));
    text.starts_with(' ') && address && words.next().is_some()
}

impl<'a> Line<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let (begin, cpu, rest) = text.match_indices('[').find_map(|(at, _)| {
            let (cpu, rest) = text[at + 1..].split_once(']')?;
            let is_cpu = !cpu.is_empty() && cpu.bytes().all(|byte| byte.is_ascii_digit());
            is_cpu.then_some((&text[..at], cpu, rest))
        })?;
        // Between the processor and the time there may be flags.
        const MOST_WORDS: usize = 3;
        let mut rest = rest.trim_start();
        let mut time = None;
        for _ in 0..MOST_WORDS {
            let (word, more) = rest.split_once(char::is_whitespace)?;
            rest = more.trim_start();
            time = word.strip_suffix(':').filter(|time| is_time(time));
            if time.is_some() {
                break;
            }
        }
        let (time, mut pieces) = (time?, rest.splitn(2, char::is_whitespace));
        let mut event = pieces.next()?.strip_suffix(':');
        let mut fields = pieces.next().unwrap_or("").trim_start();
        if event.is_none() {
            // A period stands ahead of a sampled event.
            let (word, more) = fields.split_once(char::is_whitespace).unwrap_or((fields, ""));
            (event, fields) = (word.strip_suffix(':'), more.trim_start());
        }
        let task = begin.trim_end();
        let pid = task.rsplit(|letter: char| letter == '-' || letter.is_whitespace()).next();
        let pid = pid.and_then(|pid| pid.split('/').next_back());
        Some(Self { cpu, pid, time, event: event?, fields })
    }

    /// A value in decimal.
    fn value(&self, key: &str) -> Option<String> {
        let found = match key {
            "cpu" => Some(self.cpu),
            "pid" => self.pid,
            _ => self.fields.split_whitespace().find_map(|field| field.strip_prefix(key)?.strip_prefix('=')),
        }?;
        let found = found.trim_end_matches(',');
        let decimal = match found.strip_prefix("0x") {
            // Addresses of the upper half are ids, too.
            Some(digits) => u64::from_str_radix(digits, 16).ok()?.cast_signed(),
            None => found.parse::<i64>().ok()?,
        };
        Some(decimal.to_string())
    }
}

fn is_time(text: &str) -> bool {
    text.split_once('.').is_some_and(|(whole, part)| {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits(whole) && digits(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_perf_and_of_ftrace_are_split_alike() {
        let perf =
            "  my prog  4711/4712 [003] 12345.678901234:  net:net_dev_xmit: dev=lo skbaddr=0xffff888100000000 len=60";
        let line = Line::of(perf).unwrap();
        assert_eq!(
            (line.cpu, line.pid, line.time, line.event),
            ("003", Some("4712"), "12345.678901234", "net:net_dev_xmit")
        );
        assert_eq!(line.value("skbaddr").as_deref(), Some("-131387344551936"));
        assert_eq!((line.value("len").as_deref(), line.value("le")), (Some("60"), None));
        let ftrace = "          <idle>-0     [001] d..2.  1234.567890: sched_switch: prev_comm=swapper/1 next_pid=17";
        let line = Line::of(ftrace).unwrap();
        assert_eq!((line.cpu, line.pid, line.event), ("001", Some("0"), "sched_switch"));
        assert_eq!(line.value("next_pid").as_deref(), Some("17"));
        let sampled = Line::of("a 1 [000] 5.000001: 250000 cycles: ffff main (a.out)").unwrap();
        assert_eq!(sampled.event, "cycles");
        assert!(Line::of("a 1 [000] 5.0000").is_none() && Line::of("").is_none());
        assert!(is_frame("   ffffffff8100 do_idle ([kernel])") && !is_frame("a 1 [000] 5.0"));
    }
}
