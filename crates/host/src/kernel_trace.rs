//! The kernel's trace of one core, from its text to what lasted how long: who had the core, and what interrupted them.
//!
//! Assumes: lines are of one core, in its order, and their time-stamps are raw ticks (`trace_clock` is `x86-tsc`).
//! Guarantees: a line that is not understood is told as lost, never left out in silence; what was open when something
//! was lost is closed there, and nothing is paired across it; a task's name may hold any byte, ends of lines too.
//! Assumes, where an event shows a switch that the trace left out: it is the only one since the event before; whoever
//! trusts what follows has [`crate::switch_count`] compare the trace with the kernel's own count.
//! Deliberately absent: files, and judging what disturbed whom.

use std::collections::BTreeMap;

/// Classes of what the trace tells.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// A task had the core; that nobody had it is not told.
    Task,
    /// An interrupt.
    Interrupt,
    /// A softirq.
    Softirq,
    /// A page fault of a program.
    Fault,
    /// A task came to the core, which nobody had, at some time between both ticks.
    Arrived,
    /// The kernel did not tell what happened.
    Lost,
}

/// Something that lasted on a core, in ticks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lasted {
    /// Its class.
    pub class: Class,
    /// When it began.
    pub begin: i64,
    /// When it was over.
    pub end: i64,
    /// Name of the task, interrupt or softirq.
    pub what: String,
    /// The task that had the core, or was interrupted.
    pub thread: i32,
    /// Of a task, how it gave the core away at its end; `None`: it may still have it, or that is not known.
    pub departure: Option<Departure>,
}

/// Ways in which a task gives its core away.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Departure {
    /// It waits for something.
    Waits,
    /// It wanted to go on.
    Preempted,
    /// It wanted to go on and had real-time priority, and one of less than its own has the core: only the kernel's
    /// limit for such tasks does that.
    Limited,
}

impl Departure {
    /// Of `prev_state`, and of the priorities of the task that goes and of the one that comes: the lower the number,
    /// the higher, and real-time below 100.
    fn of(state: &str, [own, next]: [i32; 2]) -> Self {
        const FIRST_ORDINARY: i32 = 100;
        match state.starts_with('R') {
            false => Self::Waits,
            true if own < FIRST_ORDINARY && next > own => Self::Limited,
            true => Self::Preempted,
        }
    }
}

/// One line of the trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TraceLine {
    /// The core went over to another task.
    Switch {
        /// When.
        tick: i64,
        /// From whom.
        from: i32,
        /// To whom.
        next: i32,
        /// Its name.
        name: String,
        /// How the first gave it away; `None`: the line does not say.
        departure: Option<Departure>,
    },
    /// A thread has another number since it ran a program, with no switch.
    Renumbered {
        /// When.
        tick: i64,
        /// Its number until then.
        from: i32,
        /// Its number since.
        to: i32,
    },
    /// Something began.
    Entry(TraceEdge),
    /// Something ended.
    Exit(TraceEdge),
    /// A page fault.
    Fault(TraceEdge),
    /// The kernel says that it lost events here.
    Lost,
    /// A comment or an event that tells nothing.
    Nothing,
}

/// What is lost where an event says that another task has the core than the last switch said.
pub const UNTOLD_SWITCH: &str = "a switch that the kernel did not tell";

/// One end of something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceEdge {
    /// Its class.
    pub class: Class,
    /// When.
    pub tick: i64,
    /// The interrupt or softirq.
    pub what: String,
    /// The task that is interrupted.
    pub thread: i32,
}

/// Bytes of a task's name in front of a line, right-aligned: as many as the kernel keeps of one, and one more.
const NAME_BYTES: usize = 16;

impl TraceLine {
    /// Tick of its event.
    fn tick(&self) -> Option<i64> {
        match self {
            Self::Switch { tick, .. } | Self::Renumbered { tick, .. } => Some(*tick),
            Self::Entry(edge) | Self::Exit(edge) | Self::Fault(edge) => Some(edge.tick),
            Self::Lost | Self::Nothing => None,
        }
    }

    /// Parses a line; `None`: it is not understood.
    pub fn parse(line: &[u8]) -> Option<Self> {
        if line.is_empty() || line.starts_with(b"#") {
            return Some(Self::Nothing);
        }
        if line.starts_with(b"CPU:") {
            let text = std::str::from_utf8(line).ok()?;
            return Some(if text.contains("LOST") { Self::Lost } else { Self::Nothing });
        }
        let rest = line.get(NAME_BYTES..)?.strip_prefix(b"-")?;
        let text = String::from_utf8_lossy(rest);
        let (thread, rest) = text.split_once(' ')?;
        let thread = thread.parse().ok()?;
        let (core, rest) = rest.trim_start().strip_prefix('[')?.split_once("] ")?;
        core.parse::<u32>().ok()?;
        let (_flags, rest) = rest.trim_start().split_once(' ')?;
        let (tick, rest) = rest.trim_start().split_once(": ")?;
        // Ticks alone: a time in seconds has a point.
        let tick = tick.parse().ok()?;
        let (event, fields) = rest.split_once(':')?;
        Self::of_event(event, fields.trim_start(), tick, thread)
    }

    fn of_event(event: &str, fields: &str, tick: i64, thread: i32) -> Option<Self> {
        let edge = |class, what: &str| TraceEdge { class, tick, what: what.into(), thread };
        match event {
            "sched_switch" => {
                // A name may look like any field: numbers stand last, and names are short.
                let (rest, next) = fields.rsplit_once(" next_pid=")?;
                let (next, priority) = next.split_once(' ')?;
                let (rest, name) = rest.rsplit_once("next_comm=")?;
                let departure = departure(rest, priority.strip_prefix("next_prio="));
                Some(Self::Switch { tick, from: thread, next: next.parse().ok()?, name: name.into(), departure })
            }
            "irq_handler_entry" => {
                let name = fields.split_once(" name=").map_or(fields, |(_, name)| name);
                Some(Self::Entry(edge(Class::Interrupt, &format!("irq {name}"))))
            }
            "irq_handler_exit" => Some(Self::Exit(edge(Class::Interrupt, "irq"))),
            "softirq_entry" | "softirq_exit" => {
                let name = fields.split_once("[action=")?.1.strip_suffix(']')?;
                let edge = edge(Class::Softirq, name);
                Some(if event == "softirq_entry" { Self::Entry(edge) } else { Self::Exit(edge) })
            }
            "sched_process_exec" => {
                let (_, from) = fields.rsplit_once(" old_pid=")?;
                Some(Self::Renumbered { tick, from: from.parse().ok()?, to: thread })
            }
            "page_fault_user" => Some(Self::Fault(edge(Class::Fault, "page fault"))),
            _ if fields.starts_with("vector=") => match (event.strip_suffix("_entry"), event.strip_suffix("_exit")) {
                (Some(name), _) => Some(Self::Entry(edge(Class::Interrupt, name))),
                (_, Some(name)) => Some(Self::Exit(edge(Class::Interrupt, name))),
                _ => Some(Self::Nothing),
            },
            _ => Some(Self::Nothing),
        }
    }
}

/// Name of the task in front of a line.
fn name_in(line: &[u8]) -> String {
    String::from_utf8_lossy(line.get(..NAME_BYTES).unwrap_or_default()).trim_start().to_owned()
}

/// How the first task of a switch gave the core away, by the fields in front of the next one's.
fn departure(fields: &str, next: Option<&str>) -> Option<Departure> {
    let (rest, state) = fields.rsplit_once(" prev_state=")?;
    let (_, own) = rest.rsplit_once(" prev_prio=")?;
    let priorities = [own.parse().ok()?, next?.split(' ').next()?.parse().ok()?];
    Some(Departure::of(state, priorities))
}

/// What goes on on one core, line by line.
#[derive(Debug, Default)]
pub struct Core {
    /// Who has it; `None`: not known yet.
    task: Option<Running>,
    /// Since when everything is known.
    known: Option<i64>,
    /// Tick of the last event.
    reached: i64,
    /// What has begun and not ended, the innermost last.
    open: Vec<TraceEdge>,
    /// Lines that are not understood, unless what comes next belongs to them: a task's name may hold the ends of some.
    torn: Vec<u8>,
    torn_lines: u64,
    /// Lines that were lost or not understood since [`Core::take_lost`].
    lost: BTreeMap<&'static str, u64>,
    /// First and last tick at which each switch may have been, until they are taken; `None`: nobody takes them.
    switches: Option<Vec<[i64; 2]>>,
}

/// A task that has a core.
#[derive(Debug)]
struct Running {
    thread: i32,
    name: String,
    /// Since then, and told up to then.
    begin: i64,
    /// An event said then that it had the core.
    confirmed: i64,
}

impl Core {
    /// One that keeps its switches until they are taken.
    pub fn keeping_switches() -> Self {
        Self { switches: Some(Vec::new()), ..Self::default() }
    }

    /// Takes the next line; whatever is over then goes to `sink`.
    pub fn take(&mut self, line: &[u8], sink: &mut impl FnMut(Lasted)) {
        if self.torn_lines == 0 {
            return match TraceLine::parse(line) {
                Some(parsed) => self.follow(parsed, line, sink),
                None => self.tear(line),
            };
        }
        let whole = [&self.torn, line].join(&b'\n');
        let is_piece = |line: &[u8]| line.is_empty() || line.starts_with(b"#");
        match (TraceLine::parse(&whole), TraceLine::parse(line).filter(|_| !is_piece(line))) {
            // A name is too short to hold a whole line.
            (_, Some(parsed)) => {
                self.lose_torn();
                self.follow(parsed, line, sink);
            }
            (Some(parsed), None) => {
                (self.torn, self.torn_lines) = (Vec::new(), 0);
                self.follow(parsed, &whole, sink);
            }
            (None, None) => self.tear(line),
        }
    }

    /// Keeps a line that may be a piece of one, as long as names could fill.
    fn tear(&mut self, line: &[u8]) {
        const MOST_BYTES: usize = 1024;
        if self.torn_lines > 0 {
            self.torn.push(b'\n');
        }
        self.torn.extend_from_slice(line);
        self.torn_lines += 1;
        if self.torn.len() > MOST_BYTES {
            self.lose_torn();
        }
    }

    fn lose_torn(&mut self) {
        if self.torn_lines > 0 {
            *self.lost.entry("lines that are not understood").or_default() += self.torn_lines;
        }
        (self.torn, self.torn_lines) = (Vec::new(), 0);
    }

    fn follow(&mut self, parsed: TraceLine, line: &[u8], sink: &mut impl FnMut(Lasted)) {
        self.reached = parsed.tick().unwrap_or(self.reached);
        match parsed {
            TraceLine::Lost => *self.lost.entry("events that the kernel says it lost").or_default() += 1,
            TraceLine::Nothing => {}
            TraceLine::Switch { tick, from, next, name, departure } => {
                self.confirm(tick, from, line, sink);
                self.lose_interrupts(tick, sink);
                self.task_until(tick, departure, sink);
                self.task = Some(Running { thread: next, name, begin: tick, confirmed: tick });
                self.known.get_or_insert(tick);
                self.keep_switch([tick; 2]);
            }
            TraceLine::Renumbered { tick, from, to } => {
                if self.task.as_ref().is_some_and(|running| running.thread == from && from != to) {
                    self.task_until(tick, None, sink);
                    self.task = Some(Running { thread: to, name: name_in(line), begin: tick, confirmed: tick });
                }
            }
            TraceLine::Entry(edge) => {
                self.confirm(edge.tick, edge.thread, line, sink);
                self.open.push(edge);
            }
            TraceLine::Exit(exit) => {
                self.confirm(exit.tick, exit.thread, line, sink);
                self.leave(exit, sink);
            }
            TraceLine::Fault(TraceEdge { class, tick, what, thread }) => {
                self.confirm(tick, thread, line, sink);
                sink(Lasted { class, begin: tick, end: tick, what, thread, departure: None });
            }
        }
    }

    /// Every event says which task has the core. Where that is another than the last switch said, the kernel did not
    /// tell of a switch, as it now and then does: since the last event that agrees, nobody knows which of the two had
    /// the core; where the first is nobody, the other came at some time in between.
    fn confirm(&mut self, tick: i64, thread: i32, line: &[u8], sink: &mut impl FnMut(Lasted)) {
        let Some(running) = &mut self.task else { return };
        if running.thread == thread {
            running.confirmed = tick.max(running.confirmed);
            return;
        }
        let (begin, from, was_nobodys) = (running.begin, running.confirmed, running.thread == 0);
        if begin < from {
            self.task_until(from, None, sink);
        }
        let name = name_in(line);
        let (class, what, comes) = match was_nobodys {
            true => (Class::Arrived, name.clone(), thread),
            false => (Class::Lost, UNTOLD_SWITCH.into(), 0),
        };
        sink(Lasted { class, begin: from, end: tick.max(from), what, thread: comes, departure: None });
        self.keep_switch([from, tick.max(from)]);
        self.task = Some(Running { thread, name, begin: tick, confirmed: tick });
    }

    /// No task switches within an interrupt: one that is open at a switch has ended at some time that was not told.
    fn lose_interrupts(&mut self, tick: i64, sink: &mut impl FnMut(Lasted)) {
        let is_interrupt = |edge: &TraceEdge| edge.class == Class::Interrupt;
        let (over, open) = std::mem::take(&mut self.open).into_iter().partition(is_interrupt);
        self.open = open;
        Vec::into_iter(over).for_each(|TraceEdge { tick: begin, what, .. }| {
            let (class, what) = (Class::Lost, format!("the end of {what}, which the kernel did not tell"));
            sink(Lasted { class, begin, end: tick.max(begin), what, thread: 0, departure: None });
        });
    }

    fn keep_switch(&mut self, ticks: [i64; 2]) {
        self.switches.iter_mut().for_each(|kept| kept.push(ticks));
    }

    /// The innermost thing of that kind ends; whatever began within it and never ended does so as well.
    fn leave(&mut self, exit: TraceEdge, sink: &mut impl FnMut(Lasted)) {
        let is_same = |entry: &TraceEdge| {
            entry.class == exit.class
                && (entry.what == exit.what || exit.what == "irq" && entry.what.starts_with("irq "))
        };
        let from = self.open.iter().rposition(is_same);
        if let Some(from) = from {
            let over = self.open.drain(from..);
            over.for_each(|TraceEdge { class, tick, what, thread }| {
                sink(Lasted { class, begin: tick, end: exit.tick, what, thread, departure: None });
            });
        } else {
            // It began before anything was seen: that it was there is certain, for how long is not.
            let TraceEdge { class, tick, what, thread } = exit;
            sink(Lasted { class, begin: tick, end: tick, what, thread, departure: None });
        }
    }

    fn task_until(&mut self, tick: i64, departure: Option<Departure>, sink: &mut impl FnMut(Lasted)) {
        let Some(Running { begin, thread, name: what, .. }) = self.task.take() else { return };
        if begin > tick {
            *self.lost.entry("lines out of their order").or_default() += 1;
        } else if thread != 0 {
            sink(Lasted { class: Class::Task, begin, end: tick, what, thread, departure });
        }
    }

    /// Tick of the last event.
    pub fn reached(&self) -> i64 {
        self.reached
    }

    /// Since when everything that happens there is known: the first switch, before which nobody knows who had the
    /// core.
    pub fn known_since(&self) -> Option<i64> {
        self.known
    }

    /// Everything that goes on is told up to `tick`, from where on nothing is known.
    pub fn close(&mut self, tick: i64, sink: &mut impl FnMut(Lasted)) {
        self.known = None;
        match &self.task {
            Some(running) if running.begin > tick => self.task = None,
            _ => self.task_until(tick, None, sink),
        }
        for TraceEdge { class, tick: begin, what, thread } in self.open.drain(..) {
            sink(Lasted { class, begin, end: tick.max(begin), what, thread, departure: None });
        }
    }

    /// The task that has the core is told up to `tick`, and goes on: whoever reads what is written knows of it.
    pub fn tell(&mut self, tick: i64, sink: &mut impl FnMut(Lasted)) {
        let told = |running: &&mut Running| running.begin < tick && running.thread != 0;
        if let Some(Running { thread, name, begin, .. }) = self.task.as_mut().filter(told) {
            let (what, thread) = (name.clone(), *thread);
            sink(Lasted { class: Class::Task, begin: *begin, end: tick, what, thread, departure: None });
            *begin = tick;
        }
    }

    /// First and last tick at which each switch may have been that the trace shows since the last call.
    pub fn take_switches(&mut self) -> impl Iterator<Item = [i64; 2]> {
        self.switches.iter_mut().flat_map(|kept| kept.drain(..))
    }

    /// What was lost since the last call, in words. The kernel hands out whole events, so a line that is still not
    /// understood is no piece of one.
    pub fn take_lost(&mut self) -> Option<String> {
        self.lose_torn();
        let lost = std::mem::take(&mut self.lost);
        let words: Vec<String> = lost.into_iter().map(|(what, count)| format!("{count} {what}")).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "           rustc-10468   [001] d..2. 1000: sched_switch: prev_comm=rustc prev_pid=10468 \
                          prev_prio=120 prev_state=R ==> next_comm=rcu_preempt next_pid=15 next_prio=120";

    fn lasted(lines: &[&str]) -> (Core, Vec<Lasted>) {
        let (mut core, mut all) = (Core::keeping_switches(), Vec::new());
        lines.iter().for_each(|line| core.take(line.as_bytes(), &mut |one| all.push(one)));
        (core, all)
    }

    fn one(class: Class, [begin, end]: [i64; 2], what: &str, thread: i32) -> Lasted {
        Lasted { class, begin, end, what: what.into(), thread, departure: None }
    }

    #[test]
    fn every_kind_of_line_is_read_with_its_tick_its_name_and_whom_it_interrupts() {
        let (mut core, mut all) = lasted(&[
            "# tracer: nop",
            SWITCH,
            "     rcu_preempt-15      [001] d.h.. 1010: local_timer_entry: vector=236",
            "     rcu_preempt-15      [001] d.h.. 1030: local_timer_exit: vector=236",
            "     rcu_preempt-15      [001] .Ns1. 1031: softirq_entry: vec=9 [action=RCU]",
            "     rcu_preempt-15      [001] d.h1. 1032: irq_handler_entry: irq=27 name=virtio2-input.0",
            "     rcu_preempt-15      [001] d.h1. 1034: irq_handler_exit: irq=27 ret=handled",
            "     rcu_preempt-15      [001] .Ns1. 1040: softirq_exit: vec=9 [action=RCU]",
            "     rcu_preempt-15      [001] d.... 1041: page_fault_user: address=0x7f ip=0x7f error_code=0x6",
            "     rcu_preempt-15      [001] d.... 1042: vector_setup: vector=1 is_legacy=0 ret=0",
        ]);
        core.close(1050, &mut |one| all.push(one));
        let expected = [
            one(Class::Interrupt, [1010, 1030], "local_timer", 15),
            one(Class::Interrupt, [1032, 1034], "irq virtio2-input.0", 15),
            one(Class::Softirq, [1031, 1040], "RCU", 15),
            one(Class::Fault, [1041, 1041], "page fault", 15),
            one(Class::Task, [1000, 1050], "rcu_preempt", 15),
        ];
        assert_eq!((all.as_slice(), core.take_lost()), (&expected[..], None));
    }

    #[test]
    fn a_task_may_be_called_anything_and_its_number_is_read_all_the_same() {
        for name in ["a b", "x [000] d..2. 5:", " next_pid=77", "next_comm=z", "1: y-9 [0]", "==> next_comm=", "-"] {
            let line = format!(
                "{name:>16}-12      [001] d..2. 7: sched_switch: prev_comm={name} prev_pid=12 prev_prio=120 \
                 prev_state=S ==> next_comm={name} next_pid=13 next_prio=120"
            );
            match TraceLine::parse(line.as_bytes()) {
                Some(TraceLine::Switch { tick: 7, from: 12, next: 13, name: found, departure }) => {
                    assert!(name.ends_with(&found), "{name}: {found}");
                    assert_eq!(departure, Some(Departure::Waits), "{name}");
                }
                other => panic!("{name}: {other:?}"),
            }
        }
        let bytes = [&b"             \xff\xfe\x80"[..], &SWITCH.as_bytes()[16..]].concat();
        assert!(matches!(TraceLine::parse(&bytes), Some(TraceLine::Switch { next: 15, .. })));
    }

    #[test]
    fn a_name_that_holds_ends_of_lines_hides_nothing() {
        for name in ["x\ny", "\n", "a\n\nb", "#\n#", "\n-1 [000]\n"] {
            let of = |from: &str, to: &str, tick: u32, [own, next]: [i32; 2]| {
                format!(
                    "{from:>16}-{own:<7} [001] d..2. {tick}: sched_switch: prev_comm={from} prev_pid={own} \
                     prev_prio=120 prev_state=S ==> next_comm={to} next_pid={next} next_prio=120"
                )
            };
            let text = [of("before", name, 5, [7, 13]), of(name, "after", 9, [13, 8]), of("after", "-", 12, [8, 9])];
            let text = text.join("\n");
            let (mut core, all) = lasted(&text.split('\n').collect::<Vec<_>>());
            let all: Vec<_> = all.iter().map(|it| (it.begin, it.end, it.thread, &*it.what)).collect();
            assert_eq!(all, [(5, 9, 13, name), (9, 12, 8, "after")], "{name:?}");
            assert_eq!(core.take_lost(), None, "{name:?}");
            core.take(b"a piece of none", &mut |_| ());
            assert!(core.take_lost().is_some_and(|told| told.starts_with("1 lines")), "{name:?}");
        }
    }

    #[test]
    fn how_a_task_left_its_core_follows_from_its_state_and_both_priorities() {
        let of = |own: &str, state: &str, next: &str| {
            let line = SWITCH.replace("prev_prio=120", &format!("prev_prio={own}"));
            let line = line.replace("prev_state=R", &format!("prev_state={state}"));
            match TraceLine::parse(line.replace("next_prio=120", &format!("next_prio={next}")).as_bytes()) {
                Some(TraceLine::Switch { departure, .. }) => departure,
                other => panic!("{other:?}"),
            }
        };
        for (own, state, next, expected) in [
            ("120", "R", "120", Some(Departure::Preempted)),
            ("120", "R+", "130", Some(Departure::Preempted)),
            ("49", "R", "49", Some(Departure::Preempted)),
            ("49", "R", "120", Some(Departure::Limited)),
            ("99", "R+", "100", Some(Departure::Limited)),
            ("49", "S", "120", Some(Departure::Waits)),
            ("120", "D|K", "98", Some(Departure::Waits)),
            ("120", "R", "x", None),
        ] {
            assert_eq!(of(own, state, next), expected, "{own} {state} {next}");
        }
    }

    #[test]
    fn a_line_that_is_not_understood_and_one_that_says_lost_are_told_and_a_time_in_seconds_is_none() {
        let of_another_clock = SWITCH.replace(" 1000:", " 1000.000001:");
        let (mut core, all) = lasted(&["what is this", "CPU:1 [LOST 12 EVENTS]", &of_another_clock, SWITCH]);
        assert!(all.is_empty());
        let told = "1 events that the kernel says it lost, 2 lines that are not understood";
        assert_eq!((core.take_lost().as_deref(), core.take_lost()), (Some(told), None));
    }

    #[test]
    fn a_switch_that_was_not_told_shows_at_the_next_event_and_nobody_is_said_to_have_had_the_core_until_then() {
        let (mut core, mut all) = lasted(&[
            SWITCH,
            "     rcu_preempt-15      [001] d.... 1041: page_fault_user: address=0x7f",
            "          stress-77      [001] d.... 1060: page_fault_user: address=0x7f",
        ]);
        core.close(1090, &mut |one| all.push(one));
        let expected = [
            one(Class::Fault, [1041, 1041], "page fault", 15),
            one(Class::Task, [1000, 1041], "rcu_preempt", 15),
            one(Class::Lost, [1041, 1060], "a switch that the kernel did not tell", 0),
            one(Class::Fault, [1060, 1060], "page fault", 77),
            one(Class::Task, [1060, 1090], "stress", 77),
        ];
        assert_eq!(all, expected);
        let (_, all) = lasted(&[SWITCH, SWITCH.replace(" 1000:", " 1100:").as_str()]);
        assert_eq!(all[0], one(Class::Lost, [1000, 1100], "a switch that the kernel did not tell", 0));
        assert_eq!(all.len(), 2, "the one that had it at its end is told for that instant: {all:?}");
    }

    #[test]
    fn a_thread_that_has_another_number_since_it_ran_a_program_has_not_switched() {
        let (mut core, mut all) = lasted(&[
            SWITCH,
            "            true-9       [001] d.... 1040: sched_process_exec: filename=/bin/true pid=9 old_pid=15",
            "            true-9       [001] d.... 1041: page_fault_user: address=0x7f",
            "            true-9       [001] d.... 1050: sched_process_exec: filename=/bin/true pid=9 old_pid=9",
        ]);
        core.close(1090, &mut |one| all.push(one));
        let of = |ticks, name, thread| one(Class::Task, ticks, name, thread);
        let fault = one(Class::Fault, [1041, 1041], "page fault", 9);
        assert_eq!(all, [of([1000, 1040], "rcu_preempt", 15), fault, of([1040, 1090], "true", 9)]);
        assert_eq!((core.take_switches().count(), core.reached()), (1, 1050));
    }

    #[test]
    fn an_interrupt_whose_end_was_not_told_is_over_at_the_next_switch_and_when_is_not_known() {
        let (_, all) = lasted(&[
            SWITCH,
            "     rcu_preempt-15      [001] d.h.. 1010: local_timer_entry: vector=236",
            "     rcu_preempt-15      [001] .Ns1. 1031: softirq_entry: vec=9 [action=RCU]",
            &SWITCH.replace("rustc-10468", "  srv-15   ").replace(" 1000:", " 1100:"),
            "     rcu_preempt-15      [001] .Ns1. 1131: softirq_exit: vec=9 [action=RCU]",
        ]);
        let lost = one(Class::Lost, [1010, 1100], "the end of local_timer, which the kernel did not tell", 0);
        assert_eq!((&all[0], all.len()), (&lost, 3), "{all:?}");
    }

    #[test]
    fn a_line_that_was_cut_takes_no_whole_one_with_it() {
        let (mut core, all) = lasted(&[SWITCH, &SWITCH[..100], SWITCH.replace(" 1000:", " 1100:").as_str()]);
        assert_eq!((all.len(), core.take_lost().as_deref()), (2, Some("1 lines that are not understood")), "{all:?}");
    }

    #[test]
    fn a_task_that_shows_up_where_nobody_had_the_core_came_at_some_time_since() {
        let idle = SWITCH.replace("next_comm=rcu_preempt next_pid=15", "next_comm=swapper/1 next_pid=0");
        let (mut core, mut all) = lasted(&[
            &idle,
            "          <idle>-0      [001] d.h.. 1010: call_function_single_entry: vector=251",
            "          <idle>-0      [001] d.h.. 1012: call_function_single_exit: vector=251",
            &SWITCH.replace("rustc-10468", "  srv-77   ").replace(" 1000:", " 1030:"),
        ]);
        assert_eq!(core.take_switches().collect::<Vec<_>>(), [[1000; 2], [1012, 1030], [1030; 2]]);
        assert_eq!(core.take_switches().count(), 0);
        let mut of_nobody = Core::default();
        of_nobody.take(SWITCH.as_bytes(), &mut |_| {});
        assert_eq!(of_nobody.take_switches().count(), 0, "nobody takes them, so that they are not kept");
        core.close(1090, &mut |one| all.push(one));
        all.retain(|one| one.class != Class::Interrupt);
        let left = Lasted { departure: Some(Departure::Preempted), ..one(Class::Task, [1030, 1030], "srv", 77) };
        let expected =
            [one(Class::Arrived, [1012, 1030], "srv", 77), left, one(Class::Task, [1030, 1090], "rcu_preempt", 15)];
        assert_eq!(all, expected);
    }

    #[test]
    fn nothing_is_paired_across_a_gap_and_an_end_without_a_beginning_lasts_no_time() {
        let exit = "     rcu_preempt-15      [001] .Ns1. 1090: softirq_exit: vec=9 [action=RCU]";
        let (mut core, mut all) =
            lasted(&[SWITCH, "     rcu_preempt-15      [001] .Ns1. 1031: softirq_entry: vec=9 [action=RCU]"]);
        core.close(1050, &mut |one| all.push(one));
        core.take(exit.as_bytes(), &mut |one| all.push(one));
        core.close(2000, &mut |one| all.push(one));
        let expected = [
            one(Class::Task, [1000, 1050], "rcu_preempt", 15),
            one(Class::Softirq, [1031, 1050], "RCU", 15),
            one(Class::Softirq, [1090, 1090], "RCU", 15),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn everything_is_known_from_the_first_switch_on_and_nothing_once_it_is_closed() {
        let nobody = SWITCH.replace("next_pid=15", "next_pid=0").replace(" 1000:", " 900:");
        let (mut core, mut all) = lasted(&["     rcu_preempt-15      [001] d.... 800: page_fault_user: address=0x7f"]);
        assert_eq!(core.known_since(), None);
        [nobody.as_str(), &SWITCH.replace("rustc-10468   ", "rustc-0       ")]
            .iter()
            .for_each(|line| core.take(line.as_bytes(), &mut |one| all.push(one)));
        assert_eq!(core.known_since(), Some(900));
        core.close(1050, &mut |one| all.push(one));
        let classes: Vec<_> = all.iter().map(|one| (one.class, one.begin)).collect();
        assert_eq!(classes, [(Class::Fault, 800), (Class::Task, 1000)], "that nobody had it is no task");
        assert_eq!(core.known_since(), None);
        core.take(SWITCH.as_bytes(), &mut |_| {});
        let earlier = SWITCH.replace(" 1000:", " 999:").replace("rustc-10468   ", "rustc-15      ");
        core.take(earlier.as_bytes(), &mut |one| panic!("{one:?}"));
        assert_eq!(core.take_lost().as_deref(), Some("1 lines out of their order"));
    }

    #[test]
    fn a_task_that_is_told_goes_on_from_there() {
        let (mut core, mut all) = lasted(&[SWITCH]);
        core.tell(1000, &mut |one| all.push(one));
        core.tell(1020, &mut |one| all.push(one));
        core.close(1050, &mut |one| all.push(one));
        let task = |ticks| one(Class::Task, ticks, "rcu_preempt", 15);
        assert_eq!(all, [task([1000, 1020]), task([1020, 1050])]);
    }
}
