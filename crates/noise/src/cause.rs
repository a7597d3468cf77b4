//! Which of what the kernel did caused a detour: each has exactly one class.
//!
//! Idea: events and readings carry ticks of one counter, so an event belongs to a detour if it lies between its two
//! readings. Several may: a tick raises a softirq, which wakes a task, which takes the core. The class is the first of
//! these that holds, for each explains those after it:
//! 1. unknown: the kernel lost events there, or our thread was not seen on its core; not where it merely did not tell
//!    of a switch, and another task was seen there in the middle of the detour, or our thread to leave;
//! 2. the real-time limit: our thread had to stop for a task of lower than its real-time priority, though it wanted to
//!    go on, and it was away longer for that than for anything else;
//! 3. migration: our thread went on on another core;
//! 4. switch: our thread gave up the core, named after who had it longest: a task, or nobody;
//! 5. fault: a page fault of our thread, which the kernel tells without its length;
//! 6. softirq, and 7. interrupt, if all of them take at least a quarter of the detour ([`EXPLAINS`]);
//! 8. hypervisor or hardware: no kernel event explains it.
//!
//! Assumes: events of a core in the order of its trace. Guarantees: no detour without a class, none in two.
//! Deliberately absent: files and clocks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tickscope_host::kernel_trace::{Class, Departure, Lasted, UNTOLD_SWITCH};

use crate::detour::{Detour, DetourLimit};

/// Interrupts and softirqs explain a detour of at most so many times their length. Of a timer's tick in a virtual
/// machine about a half lies between its entry and its exit, the rest is on the way in and out.
const EXPLAINS: i64 = 4;
/// Causes that are told apart on a core.
const MOST_CAUSES: usize = 1_000;
/// What all others are called then.
const OTHERS: &str = "others";
/// Who has a core that no task has.
pub(crate) const NOBODY: &str = "nobody: the core was idle";

/// Classes of causes, in the order in which they are tried.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CauseClass {
    /// The kernel lost events there.
    Unknown,
    /// The kernel's limit for real-time tasks.
    RealTimeLimit,
    /// Our thread went on on another core.
    Migration,
    /// Another task had the core, or nobody, while our thread waited.
    Switch,
    /// A page fault of our thread.
    Fault,
    /// A softirq.
    Softirq,
    /// An interrupt.
    Interrupt,
    /// No kernel event explains it.
    HypervisorOrHardware,
}

impl CauseClass {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::RealTimeLimit => "real-time-limit",
            Self::Migration => "migration",
            Self::Switch => "switch",
            Self::Fault => "fault",
            Self::Softirq => "softirq",
            Self::Interrupt => "interrupt",
            Self::HypervisorOrHardware => "hypervisor-or-hardware",
        }
    }
}

/// The cause of a detour.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct DetourCause {
    /// Its class.
    pub class: CauseClass,
    /// The task, interrupt or softirq; of what is unknown, why.
    pub what: String,
    /// Of a switch, whether our thread waited for something: else it was preempted; `None`: not a switch, or unknown.
    pub waited: Option<bool>,
}

/// Detours of one cause.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CauseSum {
    /// The cause.
    #[serde(flatten)]
    pub cause: DetourCause,
    /// How many.
    pub count: u64,
    /// What they took, from and to.
    pub lost_ticks: [i64; 2],
    /// How much of it lies within events of the kernel.
    pub explained_ticks: i64,
    /// The longest of them.
    pub longest_ticks: i64,
}

/// Detours by cause.
#[derive(Clone, Debug, Default)]
pub struct Causes(BTreeMap<DetourCause, CauseSum>);

/// What the kernel did in a window of time.
#[derive(Clone, Debug, Default)]
pub struct KernelWindow(BTreeMap<usize, Timeline>);

/// What it did on one core.
#[derive(Clone, Debug, Default)]
struct Timeline {
    events: Vec<Lasted>,
    /// The latest end of all up to there.
    latest: Vec<i64>,
}

impl KernelWindow {
    /// Of events by core.
    pub fn of(events: impl IntoIterator<Item = (usize, Lasted)>) -> Self {
        let mut cores = BTreeMap::<usize, Timeline>::new();
        events.into_iter().for_each(|(core, event)| cores.entry(core).or_default().events.push(event));
        for Timeline { events, latest } in cores.values_mut() {
            events.sort_by_key(|event| (event.begin, event.end));
            let ends = events.iter().map(|event| event.end);
            *latest = ends
                .scan(i64::MIN, |latest, end| {
                    *latest = end.max(*latest);
                    Some(*latest)
                })
                .collect();
        }
        Self(cores)
    }

    /// Events of a core, by when they began.
    pub fn on(&self, core: usize) -> &[Lasted] {
        self.0.get(&core).map_or(&[], |of| &of.events)
    }

    /// The cause of a detour of the thread `own` on `core`, and how many of its ticks lie within events.
    pub fn cause(&self, detour: Detour, core: usize, own: i32) -> (DetourCause, i64) {
        let span = [detour.before, detour.after];
        let here: Vec<&Lasted> = self.0.get(&core).into_iter().flat_map(|of| of.overlapping(span)).collect();
        let elsewhere = self.0.iter().find(|(other, of)| {
            **other != core && of.overlapping(span).any(|event| event.class == Class::Task && event.thread == own)
        });
        let around = Around { span, here, own };
        let is_known = || self.on(core).iter().any(|event| event.thread == own);
        if let Some(why) = around.unknown(elsewhere.is_some(), is_known) {
            return (DetourCause { class: CauseClass::Unknown, what: why.into(), waited: None }, 0);
        }
        around.cause(elsewhere.map(|(other, _)| *other))
    }
}

impl Timeline {
    fn overlapping(&self, [lo, hi]: [i64; 2]) -> impl Iterator<Item = &Lasted> {
        let from = self.latest.partition_point(|&latest| latest < lo);
        let all = self.events[from..].iter().take_while(move |event| event.begin <= hi);
        all.filter(move |event| event.end >= lo)
    }
}

/// A detour with all that happened on its core.
struct Around<'a> {
    span: [i64; 2],
    here: Vec<&'a Lasted>,
    own: i32,
}

impl Around<'_> {
    fn of(&self, class: Class) -> impl Iterator<Item = &Lasted> {
        self.here.iter().copied().filter(move |event| event.class == class)
    }

    fn own_rows(&self) -> impl Iterator<Item = &Lasted> {
        self.of(Class::Task).filter(|task| task.thread == self.own)
    }

    fn others(&self) -> impl Iterator<Item = &Lasted> {
        self.of(Class::Task).filter(|task| task.thread != self.own)
    }

    /// How our thread left the core in the middle of it: of several times, as it did for those that took longest.
    fn departure(&self) -> Option<Departure> {
        let mut parts = BTreeMap::<Departure, i64>::new();
        for ([from, to], departure) in self.absences() {
            departure.into_iter().for_each(|departure| *parts.entry(departure).or_default() += to - from);
        }
        parts.into_iter().rev().max_by_key(|&(_, ticks)| ticks).map(|(departure, _)| departure)
    }

    /// Why nothing is known of it; `is_known`: whether our thread was ever seen on this core.
    fn unknown(&self, is_elsewhere: bool, is_known: impl Fn() -> bool) -> Option<&str> {
        const UNSEEN: &str = "the kernel's trace does not show the detector's thread there";
        let [lo, hi] = self.span;
        let has_core = |at: i64| self.own_rows().any(|row| row.begin <= at && at <= row.end);
        let mut lost = self.of(Class::Lost);
        if let Some(lost) = lost.find(|lost| lost.what != UNTOLD_SWITCH) {
            return Some(&lost.what);
        }
        if self.of(Class::Lost).next().is_some() {
            let is_seen = self.others().next().is_some() || self.departure().is_some();
            return (!is_seen || !is_known()).then_some(UNTOLD_SWITCH);
        }
        (!has_core(lo) || !has_core(hi) && !is_elsewhere).then_some(UNSEEN)
    }

    fn cause(&self, elsewhere: Option<usize>) -> (DetourCause, i64) {
        let [lo, hi] = self.span;
        let told = |class, what: &str| DetourCause { class, what: what.into(), waited: None };
        let away = self.away();
        let interrupted = union(self.of(Class::Interrupt).chain(self.of(Class::Softirq)).map(|one| self.clipped(one)));
        let explained = union(
            self.here
                .iter()
                .filter(|one| one.thread != self.own || one.class != Class::Task)
                .map(|one| self.clipped(one))
                .chain(away.iter().copied()),
        );
        let to = self.successor(&away);
        let is_explained = interrupted > 0 && interrupted * EXPLAINS >= hi - lo;
        let by_interrupt = || {
            let of = |class| longest(self.of(class), self.span).map(|(what, _)| what);
            let softirq = of(Class::Softirq).map(|what| told(CauseClass::Softirq, what));
            softirq.or_else(|| of(Class::Interrupt).map(|what| told(CauseClass::Interrupt, what)))
        };
        let cause = if self.departure() == Some(Departure::Limited) {
            told(CauseClass::RealTimeLimit, to)
        } else if let Some(other) = elsewhere {
            told(CauseClass::Migration, &format!("core {other}"))
        } else if !away.is_empty() || self.others().next().is_some() {
            let waited = self.departure().map(|departure| departure == Departure::Waits);
            DetourCause { waited, ..told(CauseClass::Switch, to) }
        } else if let Some(fault) = self.of(Class::Fault).find(|fault| fault.thread == self.own) {
            told(CauseClass::Fault, &fault.what)
        } else {
            by_interrupt().filter(|_| is_explained).unwrap_or_else(|| told(CauseClass::HypervisorOrHardware, ""))
        };
        (cause, explained)
    }

    /// Stretches in which our thread did not have the core.
    fn away(&self) -> Vec<[i64; 2]> {
        self.absences().map(|(span, _)| span).collect()
    }

    /// The same, with how it left the core.
    fn absences(&self) -> impl Iterator<Item = ([i64; 2], Option<Departure>)> {
        let rows: Vec<&Lasted> = self.own_rows().collect();
        let next = rows.iter().skip(1).map(|row| row.begin).chain([self.span[1]]);
        let all: Vec<_> = rows.iter().zip(next).map(|(row, next)| ([row.end, next], row.departure)).collect();
        all.into_iter().filter(|([from, to], _)| from < to)
    }

    /// Who had the core longest, while our thread did not: a task, or nobody.
    fn successor(&self, away: &[[i64; 2]]) -> &str {
        let Some((task, ticks)) = longest(self.others(), self.span) else { return NOBODY };
        let known = || self.others().chain(self.of(Class::Lost)).map(|one| self.clipped(one));
        let nobodys = union(away.iter().copied().chain(known())) - union(known());
        if nobodys > ticks { NOBODY } else { task }
    }

    fn clipped(&self, event: &Lasted) -> [i64; 2] {
        [event.begin.max(self.span[0]), event.end.min(self.span[1])]
    }
}

/// Name of what has the longest part of the span, and how long that is.
fn longest<'a>(events: impl Iterator<Item = &'a Lasted>, [lo, hi]: [i64; 2]) -> Option<(&'a str, i64)> {
    let mut parts = BTreeMap::<&str, i64>::new();
    events.for_each(|event| *parts.entry(&event.what).or_default() += event.end.min(hi) - event.begin.max(lo));
    // Of several as long, the first by name.
    parts.into_iter().rev().max_by_key(|&(_, ticks)| ticks)
}

/// Ticks that lie in one of the spans at least.
fn union(spans: impl Iterator<Item = [i64; 2]>) -> i64 {
    let mut spans: Vec<[i64; 2]> = spans.collect();
    spans.sort_unstable();
    let (mut ticks, mut until) = (0, i64::MIN);
    for [from, to] in spans {
        ticks += (to - from.max(until)).max(0);
        until = until.max(to);
    }
    ticks
}

impl Causes {
    /// Adds a detour.
    pub fn add(&mut self, cause: &DetourCause, explained: i64, detour: Detour, limit: DetourLimit) {
        let others = DetourCause { what: OTHERS.into(), ..cause.clone() };
        let has_room = self.0.len() < MOST_CAUSES || self.0.contains_key(cause);
        let cause = if has_room { cause.clone() } else { others };
        let sum = self.0.entry(cause).or_insert_with_key(|cause| CauseSum {
            cause: cause.clone(),
            count: 0,
            lost_ticks: [0; 2],
            explained_ticks: 0,
            longest_ticks: 0,
        });
        let lost = limit.lost_ticks(detour.difference());
        sum.count += 1;
        sum.lost_ticks = [0, 1].map(|end| sum.lost_ticks[end] + lost[end]);
        sum.explained_ticks += explained;
        sum.longest_ticks = sum.longest_ticks.max(detour.difference());
    }

    /// All of them, what took most first.
    pub fn sums(self) -> Vec<CauseSum> {
        let mut sums: Vec<CauseSum> = self.0.into_values().collect();
        sums.sort_by_key(|sum| (-sum.lost_ticks[1], sum.cause.clone()));
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CauseClass::{Fault, HypervisorOrHardware, Interrupt, Migration, RealTimeLimit, Softirq, Switch, Unknown};
    use proptest::prelude::*;

    const OWN: i32 = 7;
    const LIMIT: DetourLimit = DetourLimit { pass_ticks: 2, width_ticks: 1, threshold_ticks: 18 };

    fn event(class: Class, [begin, end]: [i64; 2], what: &str, thread: i32) -> Lasted {
        Lasted { class, begin, end, what: what.into(), thread, departure: None }
    }

    fn task(ticks: [i64; 2], what: &str, thread: i32, departure: Option<Departure>) -> Lasted {
        Lasted { departure, ..event(Class::Task, ticks, what, thread) }
    }

    /// Our thread has core 0 but for what `away` says: ticks, to whom, and how it left.
    fn around(away: Option<([i64; 2], &str, Departure)>, more: &[Lasted]) -> Vec<Lasted> {
        let mut events = more.to_vec();
        match away {
            None => events.push(task([0, 10_000], "own", OWN, None)),
            Some(([from, to], other, departure)) => {
                events.push(task([0, from], "own", OWN, Some(departure)));
                events.push(task([to, 10_000], "own", OWN, None));
                if !other.is_empty() {
                    events.push(task([from, to], other, 8, Some(Departure::Preempted)));
                }
            }
        }
        events
    }

    /// Of a detour from 1000 to 2000.
    fn cause(events: &[Lasted]) -> (CauseClass, String, Option<bool>, i64) {
        let window = KernelWindow::of(events.iter().map(|event| (0, event.clone())));
        let (DetourCause { class, what, waited }, explained) =
            window.cause(Detour { before: 1_000, after: 2_000 }, 0, OWN);
        (class, what, waited, explained)
    }

    fn said(
        class: CauseClass,
        what: &str,
        waited: Option<bool>,
        explained: i64,
    ) -> (CauseClass, String, Option<bool>, i64) {
        (class, what.into(), waited, explained)
    }

    fn tick(ticks: [i64; 2]) -> Lasted {
        event(Class::Interrupt, ticks, "local_timer", OWN)
    }

    #[test]
    fn each_class_is_told_by_the_event_that_explains_the_others() {
        let [softirq, fault] =
            [event(Class::Softirq, [1_400, 1_500], "RCU", OWN), event(Class::Fault, [1_450, 1_450], "page fault", OWN)];
        let ticked = tick([1_100, 1_400]);
        assert_eq!(cause(&around(None, &[])), said(HypervisorOrHardware, "", None, 0));
        assert_eq!(cause(&around(None, std::slice::from_ref(&ticked))), said(Interrupt, "local_timer", None, 300));
        let both = [ticked.clone(), softirq.clone()];
        assert_eq!(cause(&around(None, &both)), said(Softirq, "RCU", None, 400));
        let all = [ticked, softirq, fault];
        assert_eq!(cause(&around(None, &all)), said(Fault, "page fault", None, 400));
        let [preempted, waits, limited] = [Departure::Preempted, Departure::Waits, Departure::Limited]
            .map(|departure| cause(&around(Some(([1_200, 1_900], "busy", departure)), &all)));
        assert_eq!(preempted, said(Switch, "busy", Some(false), 800));
        assert_eq!(waits, said(Switch, "busy", Some(true), 800));
        assert_eq!(limited, said(RealTimeLimit, "busy", None, 800));
        let idle = cause(&around(Some(([1_200, 1_900], "", Departure::Waits)), &[]));
        assert_eq!(idle, said(Switch, NOBODY, Some(true), 700));
    }

    #[test]
    fn a_tick_in_a_detour_that_it_cannot_have_caused_is_not_its_cause() {
        assert_eq!(cause(&around(None, &[tick([1_100, 1_349])])), said(HypervisorOrHardware, "", None, 249));
        assert_eq!(cause(&around(None, &[tick([1_100, 1_350])])), said(Interrupt, "local_timer", None, 250));
        assert_eq!(cause(&around(None, &[tick([2_001, 2_900])])).0, HypervisorOrHardware, "it came later");
    }

    #[test]
    fn the_task_that_had_the_core_longest_is_named_and_a_fault_of_another_is_not_ours() {
        let more = [
            task([1_200, 1_300], "first", 9, Some(Departure::Preempted)),
            event(Class::Fault, [1_350, 1_350], "page fault", 8),
        ];
        let away = Some(([1_300, 1_900], "busy", Departure::Preempted));
        assert_eq!(cause(&around(away, &more)), said(Switch, "busy", Some(false), 700));
        let fault = event(Class::Fault, [1_350, 1_350], "page fault", 8);
        assert_eq!(cause(&around(None, &[fault])).0, HypervisorOrHardware);
    }

    #[test]
    fn of_several_absences_the_longest_says_how_it_left_and_idle_time_counts() {
        let twice = |[first, second]: [Departure; 2]| {
            [
                task([0, 1_100], "own", OWN, Some(first)),
                task([1_100, 1_250], "busy", 8, Some(Departure::Waits)),
                task([1_250, 1_300], "own", OWN, Some(second)),
                task([1_900, 10_000], "own", OWN, None),
            ]
        };
        let [limited, waits, preempted] = [Departure::Limited, Departure::Waits, Departure::Preempted];
        assert_eq!(cause(&twice([limited, waits])), said(Switch, NOBODY, Some(true), 750), "stopped for 600");
        assert_eq!(cause(&twice([waits, preempted])), said(Switch, NOBODY, Some(false), 750));
        assert_eq!(cause(&twice([waits, limited])), said(RealTimeLimit, NOBODY, None, 750));
        let busy = [&twice([preempted, waits])[..], &[task([1_300, 1_700], "busy", 8, None)]].concat();
        assert_eq!(cause(&busy), said(Switch, "busy", Some(true), 750));
    }

    #[test]
    fn a_thread_that_goes_on_elsewhere_has_migrated() {
        let own = [
            (0, task([0, 1_200], "own", OWN, Some(Departure::Preempted))),
            (3, task([1_300, 9_000], "own", OWN, None)),
        ];
        let (found, _) = KernelWindow::of(own).cause(Detour { before: 1_000, after: 2_000 }, 0, OWN);
        assert_eq!((found.class, found.what.as_str()), (Migration, "core 3"));
    }

    #[test]
    fn where_events_were_lost_or_our_thread_was_not_seen_nothing_is_named() {
        let away = Some(([1_200, 1_900], "busy", Departure::Preempted));
        let lost = event(Class::Lost, [1_900, 5_000], "5 events that found no room", 0);
        assert_eq!(cause(&around(away, &[lost])), said(Unknown, "5 events that found no room", None, 0));
        let lost = event(Class::Lost, [2_001, 5_000], "5 events that found no room", 0);
        assert_eq!(cause(&around(away, &[lost])).0, Switch, "it came later");
        let strange: Vec<Lasted> =
            around(away, &[]).into_iter().map(|one| Lasted { thread: one.thread + 900, ..one }).collect();
        assert_eq!(cause(&strange).0, Unknown, "a process number of another namespace");
        assert_eq!(cause(&[]).0, Unknown);
    }

    #[test]
    fn a_switch_that_was_not_told_hides_no_other_that_was() {
        let untold = |ticks| event(Class::Lost, ticks, UNTOLD_SWITCH, 0);
        let back = [
            task([0, 1_200], "own", OWN, Some(Departure::Preempted)),
            task([1_200, 1_300], "busy", 8, None),
            untold([1_300, 4_000]),
            task([4_000, 10_000], "own", OWN, None),
        ];
        assert_eq!(cause(&back), said(Switch, "busy", Some(false), 800));
        let away = [
            task([0, 500], "own", OWN, None),
            untold([500, 1_200]),
            task([1_200, 1_700], "busy", 8, Some(Departure::Waits)),
            task([1_700, 10_000], "own", OWN, None),
        ];
        let (class, what, waited, _) = cause(&away);
        assert_eq!((class, what.as_str(), waited), (Switch, "busy", None), "how it left is not known");
        assert_eq!(cause(&around(None, &[untold([900, 1_500])])).0, Unknown, "nobody was seen there");
        let strange: Vec<Lasted> = away.iter().map(|one| Lasted { thread: one.thread + 900, ..one.clone() }).collect();
        assert_eq!(cause(&strange).0, Unknown);
    }

    #[test]
    fn causes_add_up_to_the_detours_and_are_bounded() {
        let mut causes = Causes::default();
        let (many, mut lost) = (MOST_CAUSES as i64 + 500, [0; 2]);
        for at in 0..many {
            let cause = DetourCause { class: Switch, what: format!("task{at}"), waited: None };
            let detour = Detour { before: 0, after: 100 + at };
            lost = [0, 1].map(|end| lost[end] + LIMIT.lost_ticks(100 + at)[end]);
            causes.add(&cause, 10, detour, LIMIT);
        }
        let sums = causes.sums();
        assert_eq!((sums.len(), sums.iter().map(|sum| sum.count).sum::<u64>()), (MOST_CAUSES + 1, many as u64));
        assert_eq!([0, 1].map(|end| sums.iter().map(|sum| sum.lost_ticks[end]).sum::<i64>()), lost);
        assert_eq!((sums[0].cause.what.as_str(), sums[0].count), (OTHERS, 500));
        assert_eq!(sums.iter().map(|sum| sum.explained_ticks).sum::<i64>(), 10 * many);
    }

    proptest! {
        #[test]
        fn property_what_is_explained_is_within_the_detour(
            spans in prop::collection::vec((0..4_000_i64, 0..900_i64, 0..3_usize), 0..9),
        ) {
            let classes = [Class::Interrupt, Class::Softirq, Class::Fault];
            let one = |&(begin, lasts, class): &(i64, i64, usize)| {
                event(classes[class], [begin, begin + lasts], "x", OWN)
            };
            let events: Vec<Lasted> = spans.iter().map(one).collect();
            let (_, _, _, explained) = cause(&around(None, &events));
            let within = |tick: &i64| events.iter().any(|event| event.begin <= *tick && *tick < event.end);
            prop_assert_eq!(explained, (1_000..2_000).filter(within).count() as i64);
        }
    }
}
