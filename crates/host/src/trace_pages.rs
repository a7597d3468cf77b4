//! The kernel's trace of one core, from pages of its ring buffer to events: its text says the same, and takes the
//! kernel eighty times as long.
//!
//! Idea: the kernel describes its pages and the fields of its events (`events/header_page`, `events/*/*/format`), so
//! that nothing about their places is assumed; an event's tick is its page's and all differences up to it. Assumes: a
//! little-endian machine, and `trace_clock` of ticks. Guarantees: what is not understood is told as lost with all that
//! its page holds behind it. Deliberately absent: files, and what an event means for who had the core.

use std::borrow::Cow;
use std::collections::HashMap;

use tickscope_tick::printable;

use crate::kernel_trace::{Class, Departure, TaskName, TraceEdge, TraceEvent};

/// Words for a page that does not fit its description.
const NOT_UNDERSTOOD: &str = "pages that are not understood";

/// Where a field lies in a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Field {
    offset: usize,
    size: usize,
    is_signed: bool,
}

impl Field {
    /// Reads where the field of that name lies from a description.
    fn of(description: &str, name: &str) -> Option<Self> {
        description.lines().find_map(|line| {
            let mut parts = line.trim().strip_prefix("field:")?.split(';');
            let declared = parts.next()?.split_whitespace().last()?;
            let (found, _) = declared.split_once('[').unwrap_or((declared, ""));
            let mut number = |key: &str| parts.next()?.trim().strip_prefix(key)?.parse::<usize>().ok();
            let field = Self { offset: number("offset:")?, size: number("size:")?, is_signed: number("signed:")? == 1 };
            (found == name).then_some(field)
        })
    }

    fn bytes(self, record: &[u8]) -> Option<&[u8]> {
        record.get(self.offset..self.offset.checked_add(self.size)?)
    }

    fn number(self, record: &[u8]) -> Option<i64> {
        let (bytes, mut wide) = (self.bytes(record)?, [0; size_of::<i64>()]);
        wide.get_mut(..self.size)?.copy_from_slice(bytes);
        let (number, unused) = (i64::from_le_bytes(wide), i64::BITS - 8 * self.size as u32);
        Some(if self.is_signed { number << unused >> unused } else { number })
    }

    /// The text that a `__data_loc` says where to find: its offset below 16 bits of length.
    fn text(self, record: &[u8]) -> Option<Cow<'_, str>> {
        let place = self.number(record)?;
        let (offset, length) = ((place & 0xffff) as usize, (place >> 16 & 0xffff) as usize);
        let bytes = record.get(offset..offset + length)?;
        let until = bytes.iter().position(|&byte| byte == 0).unwrap_or(length);
        Some(String::from_utf8_lossy(&bytes[..until]))
    }
}

/// Numbers and names of `{ 0x1, "S" }, { 2, "D" }` in a description.
fn named_numbers(description: &str) -> impl Iterator<Item = (i64, &str)> {
    description.split("{ ").filter_map(|pair| {
        let (number, name) = pair.split_once(", \"")?;
        let number = match number.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16),
            None => number.parse(),
        };
        Some((number.ok()?, name.split_once('"')?.0))
    })
}

/// How records of one event are read.
#[derive(Debug)]
enum Record {
    Switch {
        from: Field,
        from_name: Field,
        next: Field,
        next_name: Field,
        state: Field,
        priorities: [Field; 2],
        /// Bits of a state that are set while a task waits, stands still or is gone.
        waits: i64,
    },
    Exec {
        file: Field,
        from: Field,
        to: Field,
    },
    Edge {
        is_entry: bool,
        class: Class,
        name: EdgeName,
    },
    Fault,
}

/// Where the name of what begins or ends is from.
#[derive(Debug)]
enum EdgeName {
    Fixed(String),
    /// An interrupt's, in the record.
    InRecord(Field),
    /// A softirq's, by its number.
    Numbered(Field, Vec<String>),
}

impl Record {
    /// Reads how an event is read from its description; `Ok(None)`: it says nothing of use. In words what it lacks.
    fn of(event: &str, description: &str) -> Result<Option<Self>, String> {
        let field = |name: &str| {
            Field::of(description, name).filter(|field| field.size <= 16).ok_or_else(|| {
                format!("expected a field {name} of the kernel's event {event}, found none: another kernel may have it")
            })
        };
        let edge = |is_entry, class, name| Some(Self::Edge { is_entry, class, name });
        Ok(match event {
            "sched_switch" => Some(Self::Switch {
                from: field("prev_pid")?,
                from_name: field("prev_comm")?,
                next: field("next_pid")?,
                next_name: field("next_comm")?,
                state: field("prev_state")?,
                priorities: [field("prev_prio")?, field("next_prio")?],
                waits: named_numbers(description).fold(0, |all, (bit, _)| all | bit),
            }),
            "sched_process_exec" => {
                Some(Self::Exec { file: field("filename")?, from: field("old_pid")?, to: field("pid")? })
            }
            "irq_handler_entry" => edge(true, Class::Interrupt, EdgeName::InRecord(field("name")?)),
            "irq_handler_exit" => edge(false, Class::Interrupt, EdgeName::Fixed("irq".into())),
            "softirq_entry" | "softirq_exit" => {
                let mut names = Vec::new();
                for (number, name) in named_numbers(description).filter(|(number, _)| (0..64).contains(number)) {
                    names.resize(names.len().max(number as usize + 1), String::new());
                    names[number as usize] = name.to_owned();
                }
                edge(event == "softirq_entry", Class::Softirq, EdgeName::Numbered(field("vec")?, names))
            }
            "page_fault_user" => Some(Self::Fault),
            _ if Field::of(description, "vector").is_some() => {
                let name = |end| event.strip_suffix(end).map(|name| EdgeName::Fixed(name.into()));
                match (name("_entry"), name("_exit")) {
                    (Some(name), _) => edge(true, Class::Interrupt, name),
                    (_, Some(name)) => edge(false, Class::Interrupt, name),
                    _ => None,
                }
            }
            _ => None,
        })
    }

    fn read<'a>(&'a self, record: &'a [u8], tick: i64, thread: i32) -> Option<TraceEvent<'a>> {
        let number = |field: Field| field.number(record)?.try_into().ok();
        Some(match self {
            Self::Switch { from, from_name, next, next_name, state, priorities: [own, comes], waits } => {
                let is_runnable = state.number(record)? & waits == 0;
                let priorities = [number(*own), number(*comes)];
                TraceEvent::Switch {
                    tick,
                    from: number(*from)?,
                    from_name: TaskName::of(from_name.bytes(record)?),
                    next: number(*next)?,
                    name: TaskName::of(next_name.bytes(record)?),
                    departure: (*waits != 0).then(|| Departure::of(is_runnable, priorities)).flatten(),
                }
            }
            Self::Exec { file, from, to } => {
                let file = file.text(record)?;
                let name = TaskName::of(file.rsplit('/').next()?.as_bytes());
                TraceEvent::Renumbered { tick, from: number(*from)?, to: number(*to)?, name }
            }
            Self::Edge { is_entry, class, name } => {
                let what = match name {
                    EdgeName::Fixed(name) => Cow::Borrowed(name.as_str()),
                    EdgeName::InRecord(field) => Cow::Owned(format!("irq {}", field.text(record)?)),
                    EdgeName::Numbered(field, names) => {
                        let at: usize = field.number(record)?.try_into().ok()?;
                        match names.get(at).filter(|name| !name.is_empty()) {
                            Some(name) => Cow::Borrowed(name.as_str()),
                            None => Cow::Owned(format!("softirq {at}")),
                        }
                    }
                };
                let edge = TraceEdge { class: *class, tick, what, thread };
                if *is_entry { TraceEvent::Entry(edge) } else { TraceEvent::Exit(edge) }
            }
            Self::Fault => {
                TraceEvent::Fault(TraceEdge { class: Class::Fault, tick, what: Cow::Borrowed("page fault"), thread })
            }
        })
    }
}

/// How pages and records are read, by the kernel's own description.
#[derive(Debug)]
pub(crate) struct PageFormat {
    tick: Field,
    commit: Field,
    data: Field,
    /// Common to all records, as is the next.
    kind: Field,
    thread: Field,
    by_kind: HashMap<i64, Record>,
}

impl PageFormat {
    /// Takes the description of a page (`events/header_page`), and those of events with their names; in words what is
    /// not as expected.
    pub(crate) fn of(page: &str, events: &[(String, String)]) -> Result<Self, String> {
        let unlike = |what: &str, found: &str| {
            format!(
                "expected {what} of the kernel's trace, found '{}': this kernel describes it otherwise",
                printable(found)
            )
        };
        let of_page = |name, size| {
            let field = Field::of(page, name).filter(|field| size == 0 || field.size == size);
            field.ok_or_else(|| unlike(&format!("a field {name} in a page"), page))
        };
        let (_, first) = events.first().ok_or_else(|| unlike("an event", ""))?;
        let of_record = |name| Field::of(first, name).ok_or_else(|| unlike(&format!("a field {name}"), first));
        let mut format = Self {
            tick: of_page("timestamp", 8)?,
            commit: of_page("commit", 8)?,
            data: of_page("data", 0)?,
            kind: of_record("common_type")?,
            thread: of_record("common_pid")?,
            by_kind: HashMap::new(),
        };
        for (name, description) in events {
            let id = description.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok());
            let id = id.ok_or_else(|| unlike(&format!("an ID of {name}"), description))?;
            if !description.lines().any(|line| line.trim_start().starts_with("print fmt:")) {
                // It is the last line: a description without it is cut, and names of numbers are lacking.
                return Err(unlike(&format!("a print fmt of {name}"), description));
            }
            if let Some(record) = Record::of(name, description)? {
                format.by_kind.insert(id, record);
            }
        }
        Ok(format)
    }

    /// Bytes of a page.
    pub(crate) fn page_bytes(&self) -> usize {
        self.data.offset + self.data.size
    }

    /// Hands the events of a page to `sink`, in order.
    pub(crate) fn read(&self, page: &[u8], sink: &mut impl FnMut(TraceEvent<'_>)) {
        if self.walk(page, sink).is_none() {
            sink(TraceEvent::Lost(NOT_UNDERSTOOD));
        }
    }

    /// `None`: from here on it is not understood.
    fn walk(&self, page: &[u8], sink: &mut impl FnMut(TraceEvent<'_>)) -> Option<()> {
        // As in the kernel's ring_buffer.h and ring_buffer.c.
        const MISSED: i64 = 1 << 31;
        const LENGTH: i64 = (1 << 27) - 1;
        const PADDING: u32 = 29;
        const TIME_EXTEND: u32 = 30;
        const TIME_STAMP: u32 = 31;
        const HIGHEST_BITS: i64 = 31 << 59;
        let mut tick = self.tick.number(page)?;
        let commit = self.commit.number(page)?;
        if commit & MISSED != 0 {
            sink(TraceEvent::Lost("events that the kernel says it lost"));
        }
        let data = page.get(self.data.offset..)?.get(..(commit & LENGTH) as usize)?;
        let word = |at: usize| Some(u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?));
        let mut at = 0;
        while at < data.len() {
            let (kind, since) = (word(at)? & 31, i64::from(word(at)? >> 5));
            let extended = |high: u32| (i64::from(high) << 27) + since;
            let [record, end] = match kind {
                PADDING if since == 0 => return Some(()),
                // The rest of a page without room for a record. One that was taken back has more behind it: no event of
                // ours has a filter that does so.
                PADDING => return (at + 4 + word(at + 4)? as usize >= data.len()).then_some(()),
                TIME_EXTEND => {
                    tick += extended(word(at + 4)?);
                    at += 8;
                    continue;
                }
                TIME_STAMP => {
                    tick = tick & HIGHEST_BITS | extended(word(at + 4)?);
                    at += 8;
                    continue;
                }
                0 => [at + 8, at + 4 + word(at + 4)? as usize],
                words => [at + 4, at + 4 + 4 * words as usize],
            };
            tick += since;
            let record = data.get(record..end)?;
            let thread = self.thread.number(record)?.try_into().ok()?;
            sink(self.by_kind.get(&self.kind.number(record)?)?.read(record, tick, thread)?);
            at = end;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
                        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
    const COMMON: &str = "format:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                          \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

    fn events() -> Vec<(String, String)> {
        let of = |name: &str, id: u32, fields: &str| {
            let format = if fields.contains("print fmt:") { "" } else { "\nprint fmt: \"\"" };
            (name.into(), format!("name: {name}\nID: {id}\n{COMMON}{fields}{format}\n"))
        };
        vec![
            of(
                "sched_switch",
                372,
                "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
                 \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
                 \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
                 \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
                 \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
                 \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\
                 \tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n\
                 print fmt: \"%s\", __print_flags(REC->prev_state, { 0x00000001, \"S\" }, \
                 { 0x00000002, \"D\" }, { 0x00000080, \"I\" })",
            ),
            of("irq_handler_entry", 225, "\tfield:__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:0;\n"),
            of(
                "softirq_exit",
                222,
                "\tfield:unsigned int vec;\toffset:8;\tsize:4;\tsigned:0;\n\n\
                 print fmt: \"%u\", __print_symbolic(REC->vec, { 0, \"HI\" }, { 3, \"NET_RX\" })",
            ),
            of("local_timer_entry", 165, "\tfield:int vector;\toffset:8;\tsize:4;\tsigned:1;\n"),
            of("vector_setup", 137, "\tfield:unsigned int irq;\toffset:8;\tsize:4;\tsigned:0;\n"),
        ]
    }

    /// A record of that event by thread 15, with its fields, and its common ones in front.
    fn record(id: u16, fields: &[u8]) -> Vec<u8> {
        [&id.to_le_bytes()[..], &[0, 0], &15_i32.to_le_bytes(), fields].concat()
    }

    fn word(kind: u32, since: u32) -> Vec<u8> {
        (since << 5 | kind).to_le_bytes().to_vec()
    }

    /// Behind its header, by its length in words.
    fn small(since: u32, record: &[u8]) -> Vec<u8> {
        assert!(record.len().is_multiple_of(4));
        [word(record.len() as u32 / 4, since), record.to_vec()].concat()
    }

    fn page(tick: i64, flags: i64, data: &[u8]) -> Vec<u8> {
        let commit = data.len() as i64 | flags;
        [&tick.to_le_bytes()[..], &commit.to_le_bytes(), data].concat()
    }

    fn read(page: &[u8]) -> Vec<String> {
        let (format, mut found) = (PageFormat::of(PAGE, &events()).unwrap(), Vec::new());
        assert_eq!(format.page_bytes(), 4096);
        format.read(page, &mut |event| {
            found.push(match event {
                TraceEvent::Entry(edge) => format!("{} {} {} of {}", edge.tick, "entry", edge.what, edge.thread),
                TraceEvent::Exit(edge) => format!("{} {} {} of {}", edge.tick, "exit", edge.what, edge.thread),
                TraceEvent::Switch { tick, from, next, departure, .. } => {
                    format!("{tick} switch {from} to {next} {departure:?}")
                }
                TraceEvent::Lost(what) => what.into(),
                other => panic!("{other:?}"),
            });
        });
        found
    }

    fn timer() -> Vec<u8> {
        record(165, &236_i32.to_le_bytes())
    }

    fn switch(state: i64) -> Vec<u8> {
        let of = |pid: i32, prio: i32| [pid.to_le_bytes(), prio.to_le_bytes()].concat();
        let fields = [&[b'a'; 16][..], &of(15, 120), &state.to_le_bytes(), &[b'b'; 16], &of(-7, 120)];
        record(372, &fields.concat())
    }

    #[test]
    fn ticks_are_the_pages_and_all_differences_up_to_an_event() {
        let data = [
            small(0, &timer()),
            small(30, &record(222, &3_u32.to_le_bytes())),
            word(30, 5),
            vec![2, 0, 0, 0], // 2 * 2^27, and 5
            small(1, &record(222, &2_u32.to_le_bytes())),
            word(31, 9),
            vec![3, 0, 0, 0],
            small(0, &timer()),
        ];
        let [extended, stamped] = [1031 + (2 << 27) + 5, (3 << 27) + 9];
        let expected = [
            "1000 entry local_timer of 15".into(),
            "1030 exit NET_RX of 15".into(),
            format!("{extended} exit softirq 2 of 15"),
            format!("{stamped} entry local_timer of 15"),
        ];
        assert_eq!(read(&page(1000, 0, &data.concat())), expected);
        // Of a stamp the highest five bits are the page's.
        let late = 1_i64 << 60;
        assert_eq!(read(&page(late, 0, &data[5..].concat())), [format!("{} entry local_timer of 15", late | stamped)]);
    }

    #[test]
    fn a_switch_says_who_goes_who_comes_and_why_and_a_name_in_a_record_is_found() {
        let data = [small(0, &switch(0x100)), small(1, &switch(2)), small(1, &switch(0))].concat();
        let expected = ["7 switch 15 to -7 Some(Preempted)", "8 switch 15 to -7 Some(Waits)"];
        assert_eq!(read(&page(7, 0, &data))[..2], expected);
        let irq = record(225, &[27_i32.to_le_bytes(), (8_i32 << 16 | 16).to_le_bytes(), *b"vdev", *b"\0??\0"].concat());
        // Where a record is longer than 112 bytes its length stands behind the header, itself included.
        let long = [word(0, 3), (irq.len() as u32 + 4).to_le_bytes().to_vec(), irq.clone()].concat();
        let expected = ["10 entry irq vdev of 15", "13 entry irq vdev of 15"];
        assert_eq!(read(&page(10, 0, &[small(0, &irq), long].concat())), expected);
    }

    #[test]
    fn what_a_page_says_it_lost_or_does_not_hold_is_lost_and_padding_ends_it() {
        let lost = ["events that the kernel says it lost", "5 entry local_timer of 15"];
        assert_eq!(read(&page(5, 1 << 31, &small(0, &timer()))), lost);
        let padded = [small(0, &timer()), word(29, 0), vec![1; 40]].concat();
        assert_eq!(read(&page(5, 0, &padded)), lost[1..]);
        let filled = [small(0, &timer()), word(29, 1), vec![8, 0, 0, 0, 7, 7, 7, 7]].concat();
        assert_eq!(read(&page(5, 0, &filled)), lost[1..], "a rest without room");
        let taken_back = [&filled[..], &small(3, &timer())].concat();
        assert_eq!(read(&page(5, 0, &taken_back)), [lost[1], NOT_UNDERSTOOD]);
        let whole = page(5, 0, &small(0, &timer()));
        for cut in 0..whole.len() {
            assert_eq!(read(&whole[..cut]), [NOT_UNDERSTOOD], "{cut}");
        }
        let unlike = [record(9, &[0; 4]), record(137, &[0; 4]), record(225, &[0xff; 8]), vec![0; 4]];
        for record in unlike {
            let data = [small(0, &timer()), small(1, &record), small(1, &timer())].concat();
            assert_eq!(read(&page(5, 0, &data)), [lost[1], NOT_UNDERSTOOD], "{record:?}");
        }
        for header in [word(29, 1), word(0, 1), word(30, 1), word(28, 1)] {
            let data = [small(0, &timer()), header].concat();
            assert_eq!(read(&page(5, 0, &data)), [lost[1], NOT_UNDERSTOOD]);
        }
    }

    #[test]
    fn a_kernel_that_describes_its_trace_otherwise_is_refused_by_name() {
        let refused = |page: &str, events: &[(String, String)]| PageFormat::of(page, events).unwrap_err();
        for (page, what) in
            [("", "timestamp"), (&PAGE.replace("commit;\toffset:8;\tsize:8", "commit;\toffset:8;\tsize:4"), "commit")]
        {
            assert!(refused(page, &events()).contains(what), "{page}");
        }
        for (from, to, what) in [
            ("prev_state", "state", "prev_state"),
            ("common_pid", "pid", "common_pid"),
            ("ID: 372", "ID: x", "an ID"),
            ("print fmt: \"%u\"", "print f", "a print fmt of softirq_exit"),
        ] {
            let changed: Vec<_> = events().into_iter().map(|(name, of)| (name, of.replace(from, to))).collect();
            assert!(refused(PAGE, &changed).contains(what), "{what}");
        }
        assert!(refused(PAGE, &[]).contains("an event"));
    }
}
