//! The kernel's trace of one core, from its events to what lasted how long: who had the core, and what interrupted
//! them.
//!
//! Assumes: events are of one core, in its order, and their time-stamps are raw ticks (`trace_clock` is `x86-tsc`).
//! Guarantees: what was open when something was lost is closed there, and nothing is paired across it.
//! Assumes, where an event shows a switch that the trace left out: it is the only one since the event before; whoever
//! trusts what follows has [`crate::switch_count`] compare the trace with the kernel's own count.
//! Deliberately absent: files, and judging what disturbed whom.

use std::borrow::Cow;
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
    /// Tells by whether it wanted to go on, and by the priorities of the task that goes and of the one that comes: the
    /// lower the number, the higher, and real-time below 100. `None`: these are not known.
    pub(crate) fn of(is_runnable: bool, priorities: [Option<i32>; 2]) -> Option<Self> {
        const FIRST_ORDINARY: i32 = 100;
        let [own, next] = [priorities[0]?, priorities[1]?];
        Some(match is_runnable {
            false => Self::Waits,
            true if own < FIRST_ORDINARY && next > own => Self::Limited,
            true => Self::Preempted,
        })
    }
}

/// Name of a task, as the kernel keeps it: any bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskName([u8; Self::BYTES]);

impl TaskName {
    /// With a 0 at the end.
    const BYTES: usize = 16;

    /// Takes up to 15 bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let (mut name, length) = ([0; Self::BYTES], bytes.len().min(Self::BYTES - 1));
        name[..length].copy_from_slice(&bytes[..length]);
        Self(name)
    }

    fn text(self) -> String {
        let until = self.0.iter().position(|&byte| byte == 0).unwrap_or(Self::BYTES);
        String::from_utf8_lossy(&self.0[..until]).into_owned()
    }
}

/// One event of the trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TraceEvent<'a> {
    /// The core went over to another task.
    Switch {
        /// When.
        tick: i64,
        /// From whom.
        from: i32,
        /// Its name.
        from_name: TaskName,
        /// To whom.
        next: i32,
        /// Its name.
        name: TaskName,
        /// How the first gave it away; `None`: that is not known.
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
        /// Its name since.
        name: TaskName,
    },
    /// Something began.
    Entry(TraceEdge<'a>),
    /// Something ended.
    Exit(TraceEdge<'a>),
    /// A page fault.
    Fault(TraceEdge<'a>),
    /// Something was lost here, in words.
    Lost(&'static str),
}

/// What is lost where an event says that another task has the core than the last switch said.
pub const UNTOLD_SWITCH: &str = "a switch that the kernel did not tell";

/// One end of something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceEdge<'a> {
    /// Its class.
    pub class: Class,
    /// When.
    pub tick: i64,
    /// The interrupt or softirq.
    pub what: Cow<'a, str>,
    /// The task that is interrupted.
    pub thread: i32,
}

impl TraceEdge<'_> {
    fn owned(self) -> TraceEdge<'static> {
        let Self { class, tick, what, thread } = self;
        TraceEdge { class, tick, what: Cow::Owned(what.into_owned()), thread }
    }
}

impl TraceEvent<'_> {
    fn tick(&self) -> Option<i64> {
        match self {
            Self::Switch { tick, .. } | Self::Renumbered { tick, .. } => Some(*tick),
            Self::Entry(edge) | Self::Exit(edge) | Self::Fault(edge) => Some(edge.tick),
            Self::Lost(_) => None,
        }
    }
}

/// Name of a task of which no event has said it, as in the kernel's own text.
const UNNAMED: &str = "<...>";

/// Follows one core, event by event: who has it, and what interrupts that.
#[derive(Debug, Default)]
pub struct Core {
    /// Who has it; `None`: not known yet.
    task: Option<Running>,
    /// Since when everything is known.
    known: Option<i64>,
    /// Tick of the last event.
    reached: i64,
    /// What has begun and not ended, the innermost last.
    open: Vec<TraceEdge<'static>>,
    /// What was lost or not understood since [`Core::take_lost`].
    lost: BTreeMap<&'static str, u64>,
    /// First and last tick at which each switch may have been, until they are taken; `None`: nobody takes them.
    switches: Option<Vec<[i64; 2]>>,
}

/// A task that has a core.
#[derive(Debug)]
struct Running {
    thread: i32,
    /// `None`: no event has said it yet.
    name: Option<TaskName>,
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

    /// Takes the next event; whatever is over then goes to `sink`.
    pub fn take(&mut self, event: TraceEvent<'_>, sink: &mut impl FnMut(Lasted)) {
        self.reached = event.tick().unwrap_or(self.reached);
        match event {
            TraceEvent::Lost(what) => *self.lost.entry(what).or_default() += 1,
            TraceEvent::Switch { tick, from, from_name, next, name, departure } => {
                self.confirm(tick, from, Some(from_name), sink);
                self.lose_interrupts(tick, sink);
                self.task_until(tick, departure, sink);
                self.task = Some(Running { thread: next, name: Some(name), begin: tick, confirmed: tick });
                self.known.get_or_insert(tick);
                self.keep_switch([tick; 2]);
            }
            TraceEvent::Renumbered { tick, from, to, name } => {
                if self.task.as_ref().is_some_and(|running| running.thread == from && from != to) {
                    self.task_until(tick, None, sink);
                    self.task = Some(Running { thread: to, name: Some(name), begin: tick, confirmed: tick });
                }
            }
            TraceEvent::Entry(edge) => {
                self.confirm(edge.tick, edge.thread, None, sink);
                self.open.push(edge.owned());
            }
            TraceEvent::Exit(exit) => {
                self.confirm(exit.tick, exit.thread, None, sink);
                self.leave(exit, sink);
            }
            TraceEvent::Fault(TraceEdge { class, tick, what, thread }) => {
                self.confirm(tick, thread, None, sink);
                sink(Lasted { class, begin: tick, end: tick, what: what.into(), thread, departure: None });
            }
        }
    }

    /// Every event says which task has the core. Where that is another than the last switch said, the kernel did not
    /// tell of a switch, as it now and then does: since the last event that agrees, nobody knows which of the two had
    /// the core; where the first is nobody, the other came at some time in between. `name`: of that task, if it says.
    fn confirm(&mut self, tick: i64, thread: i32, name: Option<TaskName>, sink: &mut impl FnMut(Lasted)) {
        let Some(running) = &mut self.task else { return };
        if running.thread == thread {
            running.confirmed = tick.max(running.confirmed);
            running.name = name.or(running.name);
            return;
        }
        let (begin, from, was_nobodys) = (running.begin, running.confirmed, running.thread == 0);
        if begin < from {
            self.task_until(from, None, sink);
        }
        let (class, what, comes) = match was_nobodys {
            true => (Class::Arrived, text(name), thread),
            false => (Class::Lost, UNTOLD_SWITCH.into(), 0),
        };
        sink(Lasted { class, begin: from, end: tick.max(from), what, thread: comes, departure: None });
        self.keep_switch([from, tick.max(from)]);
        self.task = Some(Running { thread, name, begin: tick, confirmed: tick });
    }

    /// No task switches within an interrupt: one that is open at a switch has ended at some time that was not told.
    fn lose_interrupts(&mut self, tick: i64, sink: &mut impl FnMut(Lasted)) {
        let is_interrupt = |edge: &TraceEdge<'_>| edge.class == Class::Interrupt;
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
    fn leave(&mut self, exit: TraceEdge<'_>, sink: &mut impl FnMut(Lasted)) {
        let is_same = |entry: &TraceEdge<'_>| {
            entry.class == exit.class
                && (entry.what == exit.what || exit.what == "irq" && entry.what.starts_with("irq "))
        };
        let from = self.open.iter().rposition(is_same);
        if let Some(from) = from {
            let over = self.open.drain(from..);
            over.for_each(|TraceEdge { class, tick, what, thread }| {
                let (begin, what) = (tick, what.into());
                sink(Lasted { class, begin, end: exit.tick, what, thread, departure: None });
            });
        } else {
            // It began before anything was seen: that it was there is certain, for how long is not.
            let TraceEdge { class, tick, what, thread } = exit;
            sink(Lasted { class, begin: tick, end: tick, what: what.into(), thread, departure: None });
        }
    }

    fn task_until(&mut self, tick: i64, departure: Option<Departure>, sink: &mut impl FnMut(Lasted)) {
        let Some(Running { begin, thread, name, .. }) = self.task.take() else { return };
        if begin > tick {
            *self.lost.entry("events out of their order").or_default() += 1;
        } else if thread != 0 {
            let what = text(name);
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
            sink(Lasted { class, begin, end: tick.max(begin), what: what.into(), thread, departure: None });
        }
    }

    /// The task that has the core is told up to `tick`, and goes on: whoever reads what is written knows of it.
    pub fn tell(&mut self, tick: i64, sink: &mut impl FnMut(Lasted)) {
        let told = |running: &&mut Running| running.begin < tick && running.thread != 0;
        if let Some(Running { thread, name, begin, .. }) = self.task.as_mut().filter(told) {
            let (what, thread) = (text(*name), *thread);
            sink(Lasted { class: Class::Task, begin: *begin, end: tick, what, thread, departure: None });
            *begin = tick;
        }
    }

    /// First and last tick at which each switch may have been that the trace shows since the last call.
    pub fn take_switches(&mut self) -> impl Iterator<Item = [i64; 2]> {
        self.switches.iter_mut().flat_map(|kept| kept.drain(..))
    }

    /// What was lost since the last call, in words.
    pub fn take_lost(&mut self) -> Option<String> {
        let lost = std::mem::take(&mut self.lost);
        let words: Vec<String> = lost.into_iter().map(|(what, count)| format!("{count} {what}")).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

fn text(name: Option<TaskName>) -> String {
    name.map_or_else(|| UNNAMED.into(), TaskName::text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(tick: i64, from: (i32, &str), next: (i32, &str)) -> TraceEvent<'static> {
        let [from_name, name] = [from.1, next.1].map(|name| TaskName::of(name.as_bytes()));
        TraceEvent::Switch { tick, from: from.0, from_name, next: next.0, name, departure: Some(Departure::Preempted) }
    }

    const RUSTC: (i32, &str) = (10468, "rustc");
    const RCU: (i32, &str) = (15, "rcu_preempt");
    const IDLE: (i32, &str) = (0, "swapper/1");

    /// At 1000, from `rustc` to `rcu_preempt`.
    fn first() -> TraceEvent<'static> {
        switch(1000, RUSTC, RCU)
    }

    fn edge(class: Class, tick: i64, what: &'static str, thread: i32) -> TraceEdge<'static> {
        TraceEdge { class, tick, what: what.into(), thread }
    }

    fn fault(tick: i64, thread: i32) -> TraceEvent<'static> {
        TraceEvent::Fault(edge(Class::Fault, tick, "page fault", thread))
    }

    fn take(core: &mut Core, events: impl IntoIterator<Item = TraceEvent<'static>>, all: &mut Vec<Lasted>) {
        events.into_iter().for_each(|event| core.take(event, &mut |one| all.push(one)));
    }

    fn lasted(events: impl IntoIterator<Item = TraceEvent<'static>>) -> (Core, Vec<Lasted>) {
        let (mut core, mut all) = (Core::keeping_switches(), Vec::new());
        take(&mut core, events, &mut all);
        (core, all)
    }

    fn one(class: Class, [begin, end]: [i64; 2], what: &str, thread: i32) -> Lasted {
        Lasted { class, begin, end, what: what.into(), thread, departure: None }
    }

    #[test]
    fn every_kind_of_event_is_told_with_its_ticks_its_name_and_whom_it_interrupts() {
        use TraceEvent::{Entry, Exit};
        let (mut core, mut all) = lasted([
            first(),
            Entry(edge(Class::Interrupt, 1010, "local_timer", 15)),
            Exit(edge(Class::Interrupt, 1030, "local_timer", 15)),
            Entry(edge(Class::Softirq, 1031, "RCU", 15)),
            Entry(edge(Class::Interrupt, 1032, "irq virtio2-input.0", 15)),
            Exit(edge(Class::Interrupt, 1034, "irq", 15)),
            Exit(edge(Class::Softirq, 1040, "RCU", 15)),
            fault(1041, 15),
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
    fn a_name_may_be_any_bytes_and_is_the_one_that_the_task_had_last() {
        assert_eq!(TaskName::of(b"sixteen bytes or more").text(), "sixteen bytes o");
        assert_eq!(TaskName::of(b"\xff\n").text(), "\u{fffd}\n");
        let (_, all) = lasted([first(), switch(1100, (15, "renamed"), RUSTC)]);
        let renamed = one(Class::Task, [1000, 1100], "renamed", 15);
        assert_eq!(all, [Lasted { departure: Some(Departure::Preempted), ..renamed }]);
    }

    #[test]
    fn how_a_task_left_its_core_follows_from_its_state_and_both_priorities() {
        for (own, is_runnable, next, expected) in [
            (120, true, 120, Departure::Preempted),
            (120, true, 130, Departure::Preempted),
            (49, true, 49, Departure::Preempted),
            (49, true, 120, Departure::Limited),
            (99, true, 100, Departure::Limited),
            (49, false, 120, Departure::Waits),
            (120, false, 98, Departure::Waits),
        ] {
            let found = Departure::of(is_runnable, [own, next].map(Some));
            assert_eq!(found, Some(expected), "{own} {is_runnable} {next}");
        }
        assert_eq!(Departure::of(true, [Some(120), None]), None);
    }

    #[test]
    fn what_is_lost_is_told_once_with_how_often() {
        let lost = || TraceEvent::Lost("pages that are not understood");
        let (mut core, all) = lasted([lost(), TraceEvent::Lost("events"), lost(), first()]);
        assert_eq!(all, []);
        let told = "1 events, 2 pages that are not understood";
        assert_eq!((core.take_lost().as_deref(), core.take_lost()), (Some(told), None));
    }

    #[test]
    fn a_switch_that_was_not_told_shows_at_the_next_event_and_nobody_is_said_to_have_had_the_core_until_then() {
        let (mut core, mut all) =
            lasted([first(), fault(1041, 15), fault(1060, 77), switch(1070, (77, "stress"), RCU)]);
        core.close(1090, &mut |one| all.push(one));
        let preempted = Some(Departure::Preempted);
        let expected = [
            one(Class::Fault, [1041, 1041], "page fault", 15),
            one(Class::Task, [1000, 1041], "rcu_preempt", 15),
            one(Class::Lost, [1041, 1060], "a switch that the kernel did not tell", 0),
            one(Class::Fault, [1060, 1060], "page fault", 77),
            Lasted { departure: preempted, ..one(Class::Task, [1060, 1070], "stress", 77) },
            one(Class::Task, [1070, 1090], "rcu_preempt", 15),
        ];
        assert_eq!(all, expected);
        let (mut core, mut all) = lasted([first(), fault(1060, 77)]);
        core.close(1090, &mut |one| all.push(one));
        assert_eq!(all.last(), Some(&one(Class::Task, [1060, 1090], "<...>", 77)), "no event said its name");
        let (_, all) = lasted([first(), switch(1100, RUSTC, RCU)]);
        assert_eq!(all[0], one(Class::Lost, [1000, 1100], "a switch that the kernel did not tell", 0));
        assert_eq!(all.len(), 2, "the one that had it at its end is told for that instant: {all:?}");
    }

    #[test]
    fn a_thread_that_has_another_number_since_it_ran_a_program_has_not_switched() {
        let renumbered = |tick, from| TraceEvent::Renumbered { tick, from, to: 9, name: TaskName::of(b"true") };
        let (mut core, mut all) = lasted([first(), renumbered(1040, 15), fault(1041, 9), renumbered(1050, 9)]);
        core.close(1090, &mut |one| all.push(one));
        let of = |ticks, name, thread| one(Class::Task, ticks, name, thread);
        let fault = one(Class::Fault, [1041, 1041], "page fault", 9);
        assert_eq!(all, [of([1000, 1040], "rcu_preempt", 15), fault, of([1040, 1090], "true", 9)]);
        assert_eq!((core.take_switches().count(), core.reached()), (1, 1050));
    }

    #[test]
    fn an_interrupt_whose_end_was_not_told_is_over_at_the_next_switch_and_when_is_not_known() {
        let (_, all) = lasted([
            first(),
            TraceEvent::Entry(edge(Class::Interrupt, 1010, "local_timer", 15)),
            TraceEvent::Entry(edge(Class::Softirq, 1031, "RCU", 15)),
            switch(1100, RCU, RCU),
            TraceEvent::Exit(edge(Class::Softirq, 1131, "RCU", 15)),
        ]);
        let lost = one(Class::Lost, [1010, 1100], "the end of local_timer, which the kernel did not tell", 0);
        assert_eq!((&all[0], all.len()), (&lost, 3), "{all:?}");
    }

    #[test]
    fn a_task_that_shows_up_where_nobody_had_the_core_came_at_some_time_since() {
        let (mut core, mut all) = lasted([
            switch(1000, RUSTC, IDLE),
            TraceEvent::Entry(edge(Class::Interrupt, 1010, "call_function_single", 0)),
            TraceEvent::Exit(edge(Class::Interrupt, 1012, "call_function_single", 0)),
            switch(1030, (77, "srv"), RCU),
        ]);
        assert_eq!(core.take_switches().collect::<Vec<_>>(), [[1000; 2], [1012, 1030], [1030; 2]]);
        assert_eq!(core.take_switches().count(), 0);
        let mut of_nobody = Core::default();
        of_nobody.take(first(), &mut |_| {});
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
        let softirq = |tick| edge(Class::Softirq, tick, "RCU", 15);
        let (mut core, mut all) = lasted([first(), TraceEvent::Entry(softirq(1031))]);
        core.close(1050, &mut |one| all.push(one));
        take(&mut core, [TraceEvent::Exit(softirq(1090))], &mut all);
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
        let (mut core, mut all) = lasted([fault(800, 15)]);
        assert_eq!(core.known_since(), None);
        take(&mut core, [switch(900, RUSTC, IDLE), switch(1000, IDLE, RCU)], &mut all);
        assert_eq!(core.known_since(), Some(900));
        core.close(1050, &mut |one| all.push(one));
        let classes: Vec<_> = all.iter().map(|one| (one.class, one.begin)).collect();
        assert_eq!(classes, [(Class::Fault, 800), (Class::Task, 1000)], "that nobody had it is no task");
        assert_eq!(core.known_since(), None);
        core.take(first(), &mut |_| {});
        core.take(switch(999, RCU, RUSTC), &mut |one| panic!("{one:?}"));
        assert_eq!(core.take_lost().as_deref(), Some("1 events out of their order"));
    }

    #[test]
    fn a_task_that_is_told_goes_on_from_there() {
        let (mut core, mut all) = lasted([first()]);
        core.tell(1000, &mut |one| all.push(one));
        core.tell(1020, &mut |one| all.push(one));
        core.close(1050, &mut |one| all.push(one));
        let task = |ticks| one(Class::Task, ticks, "rcu_preempt", 15);
        assert_eq!(all, [task([1000, 1020]), task([1020, 1050])]);
    }
}
