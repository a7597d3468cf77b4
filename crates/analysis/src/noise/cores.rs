//! What happened on a host's cores, for questions about the time between two stamps.
//!
//! Idea: a stamp's core is the one on which its thread ran at its tick. Assumes: rows are of one host. Guarantees:
//! where the core of a stamp is not known, or something on it was not seen, nothing is answered; otherwise the answer
//! is what asking every row would say.

use std::collections::{BTreeMap, HashMap};

use tickscope_store::{NoiseClass, NoiseRow};

/// Softirqs that carry messages: they may be what is measured, so they disturb nobody.
const CARRIERS: [&str; 2] = ["NET_RX", "NET_TX"];

/// The cores of one host.
#[derive(Debug, Default)]
pub(super) struct Cores {
    cores: BTreeMap<i32, OneCore>,
    /// By thread: when it had which core, in order.
    running: HashMap<i32, Vec<Ran>>,
    names: Vec<(NoiseClass, String)>,
}

#[derive(Debug, Default)]
struct OneCore {
    /// Stretches in which everything was seen, in order, none of which touch.
    seen: Vec<[i64; 2]>,
    /// By beginning.
    happened: Vec<Happened>,
    /// By position there: the latest end up to it.
    latest: Vec<i64>,
}

/// A thread had a core.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Ran {
    ticks: [i64; 2],
    core: i32,
    /// It wanted to go on at its end, for certain.
    preempted: bool,
}

/// How long something had a core.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Took {
    /// Ticks between the two stamps.
    pub ticks: i64,
    /// Ticks of these in which a thread of the two stamps was certainly held up by it.
    pub held_up: i64,
}

impl Took {
    pub(super) fn add(&mut self, other: Self) {
        self.ticks = self.ticks.saturating_add(other.ticks);
        self.held_up = self.held_up.saturating_add(other.held_up);
    }
}

/// Something that may disturb.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Happened {
    ticks: [i64; 2],
    is_task: bool,
    thread: i32,
    name: usize,
}

/// A stamp, by what its core is found by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamped {
    pub tick: i64,
    pub thread: i32,
}

impl Cores {
    pub(super) fn of(rows: impl Iterator<Item = NoiseRow>) -> Self {
        let (mut cores, mut names, mut lost) = (Self::default(), HashMap::new(), BTreeMap::<i32, Vec<[i64; 2]>>::new());
        for NoiseRow { core, begin, end, class, what, thread, preempted } in rows {
            let of = cores.cores.entry(core).or_default();
            match class {
                NoiseClass::Recorded => of.seen.push([begin, end]),
                NoiseClass::Lost => lost.entry(core).or_default().push([begin, end]),
                NoiseClass::Softirq if CARRIERS.contains(&what.as_str()) => {}
                _ => {
                    let is_task = class == NoiseClass::Task;
                    if is_task {
                        let ran = Ran { ticks: [begin, end], core, preempted: preempted == Some(1) };
                        cores.running.entry(thread).or_default().push(ran);
                    }
                    let next = names.len();
                    let name = *names.entry((class, what)).or_insert(next);
                    of.happened.push(Happened { ticks: [begin, end], is_task, thread, name });
                }
            }
        }
        for (number, core) in &mut cores.cores {
            core.order(lost.remove(number).unwrap_or_default());
        }
        cores.running.values_mut().for_each(|of| of.sort_unstable());
        let mut all: Vec<_> = names.into_iter().collect();
        all.sort_unstable_by_key(|(_, at)| *at);
        cores.names = all.into_iter().map(|(name, _)| name).collect();
        cores
    }

    /// The class and the name with that number.
    pub(super) fn name(&self, name: usize) -> &(NoiseClass, String) {
        &self.names[name]
    }

    /// Hands to `sink` what disturbed two stamps' threads between them, and for how many ticks, on the cores of the
    /// two: tasks besides those of `own`, and what interrupted one of the two threads. `None`: it is not known.
    pub(super) fn between(&self, ends: [Stamped; 2], own: &[i32], mut sink: impl FnMut(usize, Took)) -> Option<()> {
        let [from, to] = ends;
        let (lo, hi) = (from.tick.min(to.tick), from.tick.max(to.tick));
        let [first, second] = [self.core_of(from)?, self.core_of(to)?];
        let both = [Some(first), (second != first).then_some(second)];
        let of = |core: i32| Some((core, self.cores.get(&core)?));
        let cores: Vec<(i32, &OneCore)> = both.into_iter().flatten().filter_map(of).collect();
        if !cores.iter().all(|(_, core)| core.has_seen(lo, hi)) {
            return None;
        }
        for (number, happened) in
            cores.iter().flat_map(|(number, of)| of.overlapping(lo, hi).map(move |one| (*number, one)))
        {
            let Happened { ticks: [begin, end], is_task, thread, name } = *happened;
            let is_one_of_the_two = thread == from.thread || thread == to.thread;
            if if is_task { !own.contains(&thread) } else { is_one_of_the_two } {
                let span = [begin.max(lo), end.min(hi)];
                let ticks = span[1] - span[0];
                let waits = |thread| self.preempted_on(number, thread, span);
                // Two threads that wait for one core leave it to each other in between: the longer wait is certain.
                let held_up = if is_task { waits(from.thread).max(waits(to.thread)) } else { ticks };
                sink(name, Took { ticks, held_up });
            }
        }
        Some(())
    }

    /// Ticks of a span in which a thread, though it wanted to go on there, did not have its core.
    fn preempted_on(&self, core: i32, thread: i32, [lo, hi]: [i64; 2]) -> i64 {
        let Some(ran) = self.running.get(&thread) else { return 0 };
        let from = ran.partition_point(|ran| ran.ticks[1] < lo).saturating_sub(1);
        let pairs = ran[from..].windows(2).take_while(|pair| pair[0].ticks[1] <= hi);
        let waited = pairs.filter(|pair| pair[0].preempted && pair[0].core == core);
        waited.map(|pair| (pair[1].ticks[0].min(hi) - pair[0].ticks[1].max(lo)).max(0)).sum()
    }

    /// The core on which a stamp was taken; `None`: its thread is not known to have had one then.
    fn core_of(&self, Stamped { tick, thread }: Stamped) -> Option<i32> {
        let running = self.running.get(&thread)?;
        let after = running.partition_point(|ran| ran.ticks[0] <= tick);
        let ran = running[..after].last()?;
        (ran.ticks[1] >= tick).then_some(ran.core)
    }
}

impl OneCore {
    /// Puts all in order, and takes what was lost out of what was seen.
    fn order(&mut self, mut lost: Vec<[i64; 2]>) {
        self.happened.sort_unstable();
        let ends = self.happened.iter().map(|happened| happened.ticks[1]);
        self.latest = ends
            .scan(i64::MIN, |latest, end| {
                *latest = end.max(*latest);
                Some(*latest)
            })
            .collect();
        self.seen.sort_unstable();
        lost.sort_unstable();
        let mut seen: Vec<[i64; 2]> = Vec::new();
        for [begin, end] in self.seen.drain(..) {
            match seen.last_mut() {
                Some([_, last]) if *last >= begin => *last = end.max(*last),
                _ => seen.push([begin, end]),
            }
        }
        for [begin, end] in seen {
            let mut from = begin;
            for &[gap, over] in lost.iter().filter(|[gap, over]| *gap <= end && *over >= begin) {
                if gap > from {
                    self.seen.push([from, gap - 1]);
                }
                from = from.max(over.saturating_add(1));
            }
            if from <= end {
                self.seen.push([from, end]);
            }
        }
    }

    fn has_seen(&self, lo: i64, hi: i64) -> bool {
        let after = self.seen.partition_point(|[begin, _]| *begin <= lo);
        self.seen[..after].last().is_some_and(|[_, end]| *end >= hi)
    }

    fn overlapping(&self, lo: i64, hi: i64) -> impl Iterator<Item = &Happened> {
        let from = self.latest.partition_point(|&latest| latest < lo);
        let all = self.happened[from..].iter().take_while(move |happened| happened.ticks[0] <= hi);
        all.filter(move |happened| happened.ticks[1] >= lo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CLASSES: [NoiseClass; 6] = [
        NoiseClass::Task,
        NoiseClass::Interrupt,
        NoiseClass::Softirq,
        NoiseClass::Fault,
        NoiseClass::Recorded,
        NoiseClass::Lost,
    ];

    fn row(class: NoiseClass, core: i32, [begin, end]: [i64; 2], what: &str, thread: i32) -> NoiseRow {
        NoiseRow { core, begin, end, class, what: what.into(), thread, preempted: None }
    }

    type Answer = Option<Vec<(String, Took)>>;

    fn asked(rows: &[NoiseRow], ends: [(i64, i32); 2], own: &[i32]) -> Answer {
        let cores = Cores::of(rows.iter().cloned());
        let mut found = Vec::new();
        let ends = ends.map(|(tick, thread)| Stamped { tick, thread });
        cores.between(ends, own, |name, took| found.push((cores.name(name).1.clone(), took)))?;
        found.sort();
        Some(found)
    }

    /// Whether the last that is known of a thread by then is that it wanted to go on on this core.
    fn is_preempted(rows: &[NoiseRow], core: i32, thread: i32, tick: i64) -> bool {
        let of = rows.iter().filter(|row| row.class == NoiseClass::Task && row.thread == thread);
        let mut of: Vec<_> = of.map(|row| (row.begin, row.end, row.core, row.preempted == Some(1))).collect();
        of.sort_unstable();
        let next = of.iter().position(|&(begin, ..)| begin > tick);
        let last = next.and_then(|next| of[..next].last());
        last.is_some_and(|&(_, end, on, preempted)| preempted && on == core && end <= tick)
    }

    /// Every tick and every row, one by one.
    fn naive(rows: &[NoiseRow], [from, to]: [(i64, i32); 2], own: &[i32]) -> Answer {
        let (lo, hi) = (from.0.min(to.0), from.0.max(to.0));
        let is =
            |row: &NoiseRow, class: NoiseClass, tick: i64| row.class == class && row.begin <= tick && tick <= row.end;
        let core = |(tick, thread): (i64, i32)| {
            let mut had: Vec<_> =
                rows.iter().filter(|row| is(row, NoiseClass::Task, tick) && row.thread == thread).collect();
            had.sort_by_key(|row| (row.begin, row.end, row.core));
            had.last().map(|row| row.core)
        };
        let cores = [core(from)?, core(to)?];
        let seen =
            |core: i32, tick: i64, class: NoiseClass| rows.iter().any(|row| row.core == core && is(row, class, tick));
        for core in cores {
            if (lo..=hi).any(|tick| !seen(core, tick, NoiseClass::Recorded) || seen(core, tick, NoiseClass::Lost)) {
                return None;
            }
        }
        let mut found = Vec::new();
        for row in rows.iter().filter(|row| cores.contains(&row.core) && row.begin <= hi && row.end >= lo) {
            let disturbs = match row.class {
                NoiseClass::Task => !own.contains(&row.thread),
                NoiseClass::Softirq if row.what.starts_with("NET") => false,
                NoiseClass::Interrupt | NoiseClass::Softirq | NoiseClass::Fault => [from.1, to.1].contains(&row.thread),
                _ => false,
            };
            if disturbs {
                let ticks = row.begin.max(lo)..row.end.min(hi);
                let waits =
                    |thread: i32| ticks.clone().filter(|&tick| is_preempted(rows, row.core, thread, tick)).count();
                let took = ticks.end - ticks.start;
                let held_up = match row.class {
                    NoiseClass::Task => waits(from.1).max(waits(to.1)) as i64,
                    _ => took,
                };
                found.push((row.what.clone(), Took { ticks: took, held_up }));
            }
        }
        found.sort();
        Some(found)
    }

    /// Threads never have two cores at once, and tasks of a core follow each other.
    fn any_rows() -> impl Strategy<Value = Vec<NoiseRow>> {
        let task = (0..2_i32, prop::collection::vec((1..8_i64, 1..4_i32), 0..12)).prop_map(|(core, tasks)| {
            let mut at = i64::from(core) * 100; // so that no thread is on both
            let mut rows = Vec::new();
            for (lasts, thread) in tasks {
                let thread = thread + 10 * core;
                let ticks = [at % 100, at % 100 + lasts - 1];
                let task = row(NoiseClass::Task, core, ticks, &format!("task{thread}"), thread);
                rows.push(NoiseRow { preempted: [None, Some(0), Some(1)][lasts as usize % 3], ..task });
                at += lasts;
            }
            rows
        });
        let other = (1..6_usize, 0..2_i32, 0..60_i64, 0..9_i64, 0..4_usize, 1..4_i32);
        let other = other.prop_map(|(class, core, begin, lasts, what, thread)| {
            let (class, what) = (CLASSES[class], ["NET_RX", "RCU", "timer", "x"][what]);
            let lasts = match class {
                NoiseClass::Recorded => lasts * 6,
                NoiseClass::Lost => lasts / 3,
                _ => lasts * 3,
            };
            row(class, core, [begin, begin + lasts], what, thread + 10 * core)
        });
        let seen = any::<[bool; 2]>().prop_map(|seen| {
            let core = |core: usize| seen[core].then(|| row(NoiseClass::Recorded, core as i32, [0, 90], "", 0));
            (0..2).filter_map(core).collect::<Vec<_>>()
        });
        (prop::collection::vec(task, 0..3), prop::collection::vec(other, 0..12), seen).prop_map(
            |(tasks, others, seen)| {
                let mut kept: Vec<Vec<NoiseRow>> = Vec::new();
                for tasks in tasks {
                    let is_new = |row: &NoiseRow| kept.iter().flatten().all(|known| known.core != row.core);
                    if tasks.first().is_none_or(is_new) {
                        kept.push(tasks);
                    }
                }
                kept.into_iter().flatten().chain(others).chain(seen).collect()
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn property_the_answer_is_what_asking_every_row_at_every_tick_says(
            rows in any_rows(),
            ends in [(0..70_i64, 1..4_i32, 0..2_i32), (0..70_i64, 1..4_i32, 0..2_i32)],
            own in prop::collection::vec(1..14_i32, 0..3),
        ) {
            let ends = ends.map(|(tick, thread, core)| (tick, thread + 10 * core));
            prop_assert_eq!(asked(&rows, ends, &own), naive(&rows, ends, &own));
        }
    }

    /// Thread 7 has core 0 around a task 8 that is named `busy`, and thread 9 core 1.
    fn rows() -> Vec<NoiseRow> {
        vec![
            row(NoiseClass::Recorded, 0, [0, 1000], "", 0),
            row(NoiseClass::Recorded, 1, [0, 1000], "", 0),
            row(NoiseClass::Task, 0, [10, 100], "own", 7),
            row(NoiseClass::Task, 0, [101, 300], "busy", 8),
            row(NoiseClass::Task, 0, [301, 900], "own", 7),
            row(NoiseClass::Task, 1, [0, 1000], "other", 9),
            row(NoiseClass::Interrupt, 0, [400, 410], "timer", 7),
            row(NoiseClass::Interrupt, 0, [200, 210], "timer", 8),
            row(NoiseClass::Softirq, 0, [420, 430], "NET_RX", 7),
        ]
    }

    #[test]
    fn what_had_the_core_or_interrupted_the_thread_is_named_with_its_time_and_messages_are_not() {
        let said = |answer: &[(&str, i64, i64)]| {
            let one = |&(name, ticks, held_up): &(&str, _, _)| (name.into(), Took { ticks, held_up });
            Some(answer.iter().map(one).collect())
        };
        let mut rows = rows();
        assert_eq!(
            asked(&rows, [(50, 7), (350, 7)], &[7]),
            said(&[("busy", 199, 0)]),
            "nobody is known to have waited"
        );
        rows[2].preempted = Some(0);
        assert_eq!(asked(&rows, [(50, 7), (350, 7)], &[7]), said(&[("busy", 199, 0)]), "it waited for something else");
        rows[2].preempted = Some(1);
        assert_eq!(asked(&rows, [(50, 7), (350, 7)], &[7]), said(&[("busy", 199, 199)]));
        assert_eq!(asked(&rows, [(350, 7), (500, 7)], &[7]), said(&[("timer", 10, 10)]));
        assert_eq!(asked(&rows, [(411, 7), (500, 7)], &[7]), said(&[]));
        assert_eq!(asked(&rows, [(500, 9), (411, 7)], &[7, 9]), said(&[]), "both cores, in either order");
    }

    #[test]
    fn a_thread_that_wants_its_core_back_is_held_up_by_no_task_of_another_core() {
        let mut rows = rows();
        rows[2].preempted = Some(1);
        rows.retain(|row| row.core != 1 || row.class != NoiseClass::Task);
        let on_the_other = [([0, 99], "other", 9), ([100, 199], "elsewhere", 10), ([200, 1000], "other", 9)];
        rows.extend(on_the_other.map(|(ticks, name, thread)| row(NoiseClass::Task, 1, ticks, name, thread)));
        let took = |name: &str, ticks, held_up| (name.into(), Took { ticks, held_up });
        let expected = vec![took("busy", 199, 199), took("elsewhere", 99, 0)];
        assert_eq!(asked(&rows, [(50, 7), (350, 9)], &[7, 9]), Some(expected));
    }

    #[test]
    fn what_began_long_before_and_lasts_is_found_behind_what_is_short() {
        let mut rows = rows();
        rows.retain(|row| row.what != "timer");
        rows.push(row(NoiseClass::Interrupt, 1, [100, 700], "long", 9));
        rows.extend((0..40).map(|at| row(NoiseClass::Fault, 1, [200 + at, 200 + at], "short", 9)));
        rows.retain(|row| row.core != 1 || row.class != NoiseClass::Task);
        rows.extend([[0, 599], [600, 1000]].map(|ticks| row(NoiseClass::Task, 1, ticks, "other", 9)));
        assert_eq!(
            asked(&rows, [(610, 9), (650, 9)], &[9]),
            Some(vec![("long".into(), Took { ticks: 40, held_up: 40 })])
        );
    }

    #[test]
    fn nothing_is_said_of_a_stamp_whose_core_is_not_known_nor_where_an_overrun_was() {
        let mut rows = rows();
        assert_eq!(asked(&rows, [(50, 7), (200, 7)], &[7]), None, "another task had the core then");
        assert_eq!(asked(&rows, [(50, 70), (90, 70)], &[70]), None, "no such thread was seen");
        rows.push(row(NoiseClass::Lost, 0, [440, 450], "5 events that found no room", 0));
        assert_eq!(asked(&rows, [(350, 7), (445, 7)], &[7]), None);
        assert_eq!(asked(&rows, [(350, 7), (500, 7)], &[7]), None);
        assert_eq!(asked(&rows, [(451, 7), (500, 7)], &[7]), Some(Vec::new()));
        rows.retain(|row| row.class != NoiseClass::Recorded);
        assert_eq!(asked(&rows, [(451, 7), (500, 7)], &[7]), None, "what was not recorded is no silence");
    }
}
