//! What happened on a host's cores, for questions about the time between two stamps.
//!
//! Idea: a stamp's core is the one on which its thread ran at its tick; the cores on which the two threads ran between
//! their stamps count as well. A task that came to an idle core without a switch to it had that core from some time
//! between two ticks on: whether it disturbs what ends before the later one is not known. Assumes: rows are of one
//! host. Guarantees: what is known to disturb is always answered; where nothing is, and the core of a stamp is not
//! known, something on one of these cores was not seen, or a thread may have run where nobody saw it, nothing is
//! answered; otherwise the answer is what asking every row would say. Deliberately absent: waits for a core on which
//! the thread did not get to run, which no row tells of.

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
    /// Stretches in which everything on every core was seen.
    seen_by_all: Vec<[i64; 2]>,
    /// Stretches in which no thread came to a core without being seen: longer where a core's first switch is late.
    arrivals_seen: Vec<[i64; 2]>,
}

#[derive(Debug, Default)]
struct OneCore {
    /// Stretches in which everything was seen, in order, none of which touch.
    seen: Vec<[i64; 2]>,
    /// Nothing was lost from then until the first stretch, which the first switch begins.
    whole_since: Option<i64>,
    /// By beginning.
    happened: Vec<Happened>,
    /// By position there: the latest end up to it.
    latest: Vec<i64>,
    /// Tasks that came to it at some time between two ticks, in order.
    arrived: Vec<Arrived>,
}

/// A task came to an idle core at some time in between.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Arrived {
    ticks: [i64; 2],
    thread: i32,
}

/// A thread had a core.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Ran {
    ticks: [i64; 2],
    core: i32,
    /// It wanted to go on at its end, for certain.
    preempted: bool,
    /// It came at some time in between, and stayed.
    is_arrival: bool,
}

impl Ran {
    /// Whether it had the core at or before that tick for certain.
    fn has_arrived_by(self, tick: i64) -> bool {
        !self.is_arrival || self.ticks[1] <= tick
    }
}

/// Cores on which one of two threads ran.
struct RanOn {
    for_certain: Vec<i32>,
    /// One of them came there by then, or later.
    perhaps: Vec<i32>,
}

impl RanOn {
    /// Each core once.
    fn ordered(mut self) -> Self {
        for cores in [&mut self.for_certain, &mut self.perhaps] {
            cores.sort_unstable();
            cores.dedup();
        }
        self.perhaps.retain(|core| !self.for_certain.contains(core));
        self
    }
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
    /// Whether a task wanted to go on at its end, for certain.
    preempted: bool,
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
                NoiseClass::Arrived => of.arrived.push(Arrived { ticks: [begin, end], thread }),
                NoiseClass::Softirq if CARRIERS.contains(&what.as_str()) => {}
                _ => {
                    let is_task = class == NoiseClass::Task;
                    let next = names.len();
                    let name = *names.entry((class, what)).or_insert(next);
                    let preempted = preempted == Some(1);
                    of.happened.push(Happened { ticks: [begin, end], is_task, thread, name, preempted });
                }
            }
        }
        for (&number, core) in &mut cores.cores {
            core.order(lost.remove(&number).unwrap_or_default());
            for &Happened { ticks, thread, preempted, .. } in core.happened.iter().filter(|of| of.is_task) {
                let ran = Ran { ticks, core: number, preempted, is_arrival: false };
                cores.running.entry(thread).or_default().push(ran);
            }
        }
        cores.running.values_mut().for_each(|of| of.sort_unstable());
        cores.seen_by_all = shared(cores.cores.values().map(|core| core.seen.clone()));
        cores.arrivals_seen = shared(cores.cores.values().map(OneCore::arrivals_seen));
        cores.arrive();
        let mut all: Vec<_> = names.into_iter().collect();
        all.sort_unstable_by_key(|(_, at)| *at);
        cores.names = all.into_iter().map(|(name, _)| name).collect();
        cores
    }

    /// A task that came to a core at some time in between may have had it since it left the one before, and had no
    /// other meanwhile where all of them were seen.
    fn arrive(&mut self) {
        let mut ran = Vec::new();
        for (&number, core) in &mut self.cores {
            for Arrived { ticks: [from, to], thread } in &mut core.arrived {
                let before =
                    self.running.get(thread).map_or(&[][..], |of| &of[..of.partition_point(|ran| ran.ticks[0] < *to)]);
                *from = before.iter().map(|ran| ran.ticks[1]).fold(*from, i64::max).min(*to);
                if has_seen(&self.arrivals_seen, *from, *to) {
                    ran.push((*thread, Ran { ticks: [*from, *to], core: number, preempted: false, is_arrival: true }));
                }
            }
            core.arrived.sort_unstable();
        }
        for (thread, ran) in ran {
            let of = self.running.entry(thread).or_default();
            of.insert(of.partition_point(|other| *other < ran), ran);
        }
    }

    /// The class and the name with that number.
    pub(super) fn name(&self, name: usize) -> &(NoiseClass, String) {
        &self.names[name]
    }

    /// Hands to `sink` what disturbed two stamps' threads between them, and for how many ticks, on all cores on which
    /// the two ran: tasks besides those of `own`, and what interrupted one of the two threads. `None`: nothing is
    /// known to have disturbed them, and not all is known.
    pub(super) fn between(&self, ends: [Stamped; 2], own: &[i32], mut sink: impl FnMut(usize, Took)) -> Option<()> {
        let [from, to] = ends;
        let (lo, hi) = (from.tick.min(to.tick), from.tick.max(to.tick));
        let mut ran = RanOn { for_certain: vec![self.core_of(from)?, self.core_of(to)?], perhaps: Vec::new() };
        let mut is_known = true;
        for thread in [from.thread, to.thread] {
            is_known &= self.add_cores_of(thread, [lo, hi], &mut ran).is_some();
        }
        let RanOn { for_certain, perhaps } = ran.ordered();
        let mut is_disturbed = false;
        for (number, is_certain) in for_certain.iter().map(|of| (of, true)).chain(perhaps.iter().map(|of| (of, false)))
        {
            let Some(core) = self.cores.get(number) else { continue };
            let may_have_come = core.may_have_come(hi).any(|thread| !own.contains(&thread));
            is_known &= core.has_seen(lo, hi) && !may_have_come;
            for happened in core.overlapping(lo, hi) {
                let Happened { ticks: [begin, end], is_task, thread, name, .. } = *happened;
                let is_one_of_the_two = thread == from.thread || thread == to.thread;
                if if is_task { own.contains(&thread) } else { !is_one_of_the_two } {
                    continue;
                }
                if !is_certain {
                    is_known = false;
                    continue;
                }
                let span = [begin.max(lo), end.min(hi)];
                let ticks = span[1] - span[0];
                let waits = |thread| self.preempted_on(*number, thread, span);
                // Two threads that wait for one core leave it to each other in between: the longer wait is certain.
                let held_up = if is_task { waits(from.thread).max(waits(to.thread)) } else { ticks };
                sink(name, Took { ticks, held_up });
                is_disturbed = true;
            }
        }
        (is_known || is_disturbed).then_some(())
    }

    /// Adds the cores on which a thread ran in a span. `None`: it may have run where nobody saw it.
    fn add_cores_of(&self, thread: i32, [lo, hi]: [i64; 2], on: &mut RanOn) -> Option<()> {
        let ran = self.running.get(&thread)?;
        let (before, after) = ran.split_at(ran.partition_point(|ran| ran.ticks[1] < lo));
        let mut left = before.last().map(|ran| ran.ticks[1]);
        // It had no core from when it left one until it came to the next.
        let was_away = |left: Option<i64>, came: i64| {
            came <= lo
                || match left {
                    Some(left) => left >= came || has_seen(&self.arrivals_seen, left, came),
                    None => has_seen(&self.seen_by_all, lo, came),
                }
        };
        let mut is_known = true;
        for one in after.iter().take_while(|ran| ran.ticks[0] <= hi) {
            is_known &= was_away(left, one.ticks[0]);
            let cores = if one.has_arrived_by(hi) { &mut on.for_certain } else { &mut on.perhaps };
            cores.push(one.core);
            left = Some(one.ticks[1]);
        }
        (is_known && was_away(left, hi)).then_some(())
    }

    /// Ticks of a span in which a thread, though it wanted to go on there, did not have its core for certain: it may
    /// have had one that was not seen.
    fn preempted_on(&self, core: i32, thread: i32, [lo, hi]: [i64; 2]) -> i64 {
        let Some(ran) = self.running.get(&thread) else { return 0 };
        let from = ran.partition_point(|ran| ran.ticks[1] < lo).saturating_sub(1);
        let pairs = ran[from..].windows(2).take_while(|pair| pair[0].ticks[1] <= hi);
        let is_seen = |pair: &&[Ran]| has_seen(&self.arrivals_seen, pair[0].ticks[1], pair[1].ticks[0]);
        let waited = pairs.filter(|pair| pair[0].preempted && pair[0].core == core).filter(is_seen);
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
    /// Puts all in order, and takes what was lost out of what was seen, and out of what happened: a task that had the
    /// core before, or something that ended after, is not known to have been there all the while.
    fn order(&mut self, mut lost: Vec<[i64; 2]>) {
        lost.sort_unstable();
        lost = joined(lost);
        let happened = std::mem::take(&mut self.happened);
        for one in happened {
            for ticks in without(one.ticks, &lost) {
                let preempted = one.preempted && ticks[1] == one.ticks[1];
                self.happened.push(Happened { ticks, preempted, ..one });
            }
        }
        self.happened.sort_unstable();
        let ends = self.happened.iter().map(|happened| happened.ticks[1]);
        self.latest = ends
            .scan(i64::MIN, |latest, end| {
                *latest = end.max(*latest);
                Some(*latest)
            })
            .collect();
        self.seen.sort_unstable();
        let seen = joined(std::mem::take(&mut self.seen));
        let first = seen.first().map(|[first, _]| *first);
        self.seen = seen.into_iter().flat_map(|ticks| without(ticks, &lost)).collect();
        let is_first = |begin: i64| self.seen.first().is_some_and(|[first, _]| *first == begin);
        self.whole_since = first.filter(|begin| is_first(*begin)).map(|begin| {
            let before = lost.iter().take_while(|[gap, _]| *gap <= begin);
            before.last().map_or(i64::MIN, |[_, over]| over.saturating_add(1))
        });
    }

    fn has_seen(&self, lo: i64, hi: i64) -> bool {
        has_seen(&self.seen, lo, hi)
    }

    /// Tasks that came to this core by that tick, or later.
    fn may_have_come(&self, tick: i64) -> impl Iterator<Item = i32> {
        let from = self.arrived.partition_point(|of| of.ticks[1] <= tick);
        self.arrived[from..].iter().take_while(move |of| of.ticks[0] <= tick).map(|of| of.thread)
    }

    /// Stretches in which a thread that came to this core was seen to: also those before the first switch, for it
    /// would have been the first.
    fn arrivals_seen(&self) -> Vec<[i64; 2]> {
        let mut seen = self.seen.clone();
        if let (Some([first, _]), Some(since)) = (seen.first_mut(), self.whole_since) {
            *first = since;
        }
        seen
    }

    fn overlapping(&self, lo: i64, hi: i64) -> impl Iterator<Item = &Happened> {
        let from = self.latest.partition_point(|&latest| latest < lo);
        let all = self.happened[from..].iter().take_while(move |happened| happened.ticks[0] <= hi);
        all.filter(move |happened| happened.ticks[1] >= lo)
    }
}

/// The stretches, which are in order, without those that touch or overlap.
fn joined(stretches: Vec<[i64; 2]>) -> Vec<[i64; 2]> {
    let mut joined: Vec<[i64; 2]> = Vec::new();
    for [begin, end] in stretches {
        match joined.last_mut() {
            Some([_, last]) if *last >= begin => *last = end.max(*last),
            _ => joined.push([begin, end]),
        }
    }
    joined
}

/// Parts of a stretch that lie outside of others, which are in order and do not touch.
fn without([begin, end]: [i64; 2], others: &[[i64; 2]]) -> Vec<[i64; 2]> {
    let (mut parts, mut from) = (Vec::new(), begin);
    let first = others.partition_point(|[_, over]| *over < begin);
    for &[gap, over] in others[first..].iter().take_while(|[gap, _]| *gap <= end) {
        if gap > from {
            parts.push([from, gap - 1]);
        }
        from = from.max(over.saturating_add(1));
    }
    if from <= end {
        parts.push([from, end]);
    }
    parts
}

/// Whether one of the stretches, which are in order, has both ticks.
fn has_seen(seen: &[[i64; 2]], lo: i64, hi: i64) -> bool {
    let after = seen.partition_point(|[begin, _]| *begin <= lo);
    seen[..after].last().is_some_and(|[_, end]| *end >= hi)
}

/// Stretches that lie in one of each.
fn shared(all: impl Iterator<Item = Vec<[i64; 2]>>) -> Vec<[i64; 2]> {
    let both = |one: Vec<[i64; 2]>, other: Vec<[i64; 2]>| {
        let (mut found, mut one, mut other) = (Vec::new(), one.into_iter().peekable(), other.into_iter().peekable());
        while let (Some(&[begin, end]), Some(&[from, until])) = (one.peek(), other.peek()) {
            if begin.max(from) <= end.min(until) {
                found.push([begin.max(from), end.min(until)]);
            }
            if end < until {
                one.next()
            } else {
                other.next()
            };
        }
        found
    };
    all.reduce(both).unwrap_or_default()
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

    /// Mark of a task that came to a core while it may have had another.
    const ELSEWHERE: Option<i32> = Some(9);

    /// Whether the row says that its thread had its core, from the beginning that [`clipped`] gave it on.
    fn has_core(row: &NoiseRow) -> bool {
        row.class == NoiseClass::Task || row.class == NoiseClass::Arrived && row.preempted != ELSEWHERE
    }

    /// Rows of which tasks, interrupts and faults have no tick that was lost on their core, a task came to no core
    /// before it left its last one, and is marked if it may have had another meanwhile.
    fn clipped(rows: &[NoiseRow]) -> Vec<NoiseRow> {
        let is_lost = |core: i32, tick: i64| {
            let mut lost = rows.iter().filter(|row| row.class == NoiseClass::Lost && row.core == core);
            lost.any(|row| row.begin <= tick && tick <= row.end)
        };
        let mut kept = Vec::new();
        for row in rows {
            if matches!(row.class, NoiseClass::Recorded | NoiseClass::Lost | NoiseClass::Arrived) {
                kept.push(row.clone());
                continue;
            }
            let seen: Vec<i64> = (row.begin..=row.end).filter(|tick| !is_lost(row.core, *tick)).collect();
            for run in seen.chunk_by(|one, next| one + 1 == *next) {
                let [begin, end] = [run[0], run[run.len() - 1]];
                kept.push(NoiseRow { begin, end, preempted: row.preempted.filter(|_| end == row.end), ..row.clone() });
            }
        }
        let rows = &came_since(&kept)[..];
        let mark = |row: &NoiseRow| {
            let is_elsewhere = row.class == NoiseClass::Arrived && !all_seen(rows, row.begin..=row.end, true);
            NoiseRow { preempted: if is_elsewhere { ELSEWHERE } else { row.preempted }, ..row.clone() }
        };
        rows.iter().map(mark).collect()
    }

    /// Rows of which a task came to no core before it left its last one.
    fn came_since(rows: &[NoiseRow]) -> Vec<NoiseRow> {
        let clip = |row: &NoiseRow| {
            let of = rows.iter().filter(|of| of.class == NoiseClass::Task && of.thread == row.thread);
            let left = of.filter(|of| of.begin < row.end).map(|of| of.end).max();
            let begin = left.map_or(row.begin, |left| left.clamp(row.begin, row.end));
            NoiseRow { begin: if row.class == NoiseClass::Arrived { begin } else { row.begin }, ..row.clone() }
        };
        rows.iter().map(clip).collect()
    }

    /// Whether the last that is known of a thread by then is that it wanted to go on on this core.
    fn is_preempted(rows: &[NoiseRow], core: i32, thread: i32, tick: i64) -> bool {
        let of = rows.iter().filter(|row| has_core(row) && row.thread == thread);
        let mut of: Vec<_> = of.map(|row| (row.begin, row.end, row.core, row.preempted == Some(1))).collect();
        of.sort_unstable();
        let next = of.iter().position(|&(begin, ..)| begin > tick);
        let Some((next, last)) = next.and_then(|next| Some((of[next], of[..next].last()?))) else { return false };
        let &(_, end, on, preempted) = last;
        preempted && on == core && end <= tick && all_seen(rows, end..=next.0, true)
    }

    /// Whether at each of these ticks all cores were seen; `was_seen_before`: or a core had no switch as yet, and
    /// nothing of it is lost from there until its first.
    fn all_seen(rows: &[NoiseRow], mut ticks: std::ops::RangeInclusive<i64>, was_seen_before: bool) -> bool {
        let is_seen = |row: &NoiseRow, tick: i64| {
            let of = |class: NoiseClass| rows.iter().filter(move |of| of.core == row.core && of.class == class);
            let lost_from = |until: i64| of(NoiseClass::Lost).any(|of| of.begin <= until && tick <= of.end);
            let Some(first) = of(NoiseClass::Recorded).map(|of| of.begin).min() else { return false };
            let is_recorded = of(NoiseClass::Recorded).any(|of| of.begin <= tick && tick <= of.end);
            is_recorded && !lost_from(tick) || was_seen_before && tick < first && !lost_from(first)
        };
        ticks.all(|tick| rows.iter().all(|row| is_seen(row, tick)))
    }

    /// Whether a thread may have had a core between two ticks, or since it left its last one before, of which no row
    /// tells.
    fn may_have_run_unseen(rows: &[NoiseRow], thread: i32, [lo, hi]: [i64; 2]) -> bool {
        let of = rows.iter().filter(|row| has_core(row) && row.thread == thread);
        let mut had: Vec<[i64; 2]> = of.map(|row| [row.begin, row.end]).collect();
        had.sort_unstable();
        let mut away: Vec<(bool, [i64; 2])> = had.windows(2).map(|pair| (true, [pair[0][1], pair[1][0]])).collect();
        away.extend(had.first().map(|[begin, _]| (false, [lo, *begin])));
        away.extend(had.last().map(|[_, end]| (true, [*end, hi])));
        away.iter().any(|&(was_seen_before, [left, came])| {
            let is_within = left < came.min(hi) && came > lo && left < hi && lo < hi;
            is_within && !all_seen(rows, left..=came.min(hi), was_seen_before)
        })
    }

    /// Every tick and every row, one by one.
    fn naive(rows: &[NoiseRow], [from, to]: [(i64, i32); 2], own: &[i32]) -> Answer {
        let rows = clipped(rows);
        let rows = &rows[..];
        let (lo, hi) = (from.0.min(to.0), from.0.max(to.0));
        let is =
            |row: &NoiseRow, class: NoiseClass, tick: i64| row.class == class && row.begin <= tick && tick <= row.end;
        let core = |(tick, thread): (i64, i32)| {
            let mut had: Vec<_> =
                rows.iter().filter(|row| is(row, row.class, tick) && has_core(row) && row.thread == thread).collect();
            had.sort_by_key(|row| (row.begin, row.end, row.core));
            had.last().map(|row| row.core)
        };
        let (mut cores, mut perhaps, mut is_known) = (vec![core(from)?, core(to)?], Vec::new(), true);
        for thread in [from.1, to.1] {
            let of = rows.iter().filter(|row| has_core(row) && row.thread == thread);
            for row in of.filter(|row| row.begin <= hi && row.end >= lo) {
                let has_come = row.class == NoiseClass::Task || row.end <= hi;
                if has_come { &mut cores } else { &mut perhaps }.push(row.core);
            }
            is_known &= !may_have_run_unseen(rows, thread, [lo, hi]);
        }
        perhaps.retain(|core| !cores.contains(core));
        let seen =
            |core: i32, tick: i64, class: NoiseClass| rows.iter().any(|row| row.core == core && is(row, class, tick));
        for core in cores.iter().chain(&perhaps) {
            is_known &=
                !(lo..=hi).any(|tick| !seen(*core, tick, NoiseClass::Recorded) || seen(*core, tick, NoiseClass::Lost));
        }
        let mut found = Vec::new();
        let on_either = |row: &&NoiseRow| cores.contains(&row.core) || perhaps.contains(&row.core);
        for row in rows.iter().filter(|row| row.begin <= hi && row.end >= lo).filter(on_either) {
            let disturbs = match row.class {
                NoiseClass::Task => !own.contains(&row.thread),
                NoiseClass::Softirq if row.what.starts_with("NET") => false,
                NoiseClass::Interrupt | NoiseClass::Softirq | NoiseClass::Fault => [from.1, to.1].contains(&row.thread),
                NoiseClass::Arrived => {
                    is_known &= row.end <= hi || own.contains(&row.thread);
                    false
                }
                _ => false,
            };
            if disturbs && perhaps.contains(&row.core) {
                is_known = false;
            } else if disturbs {
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
        (is_known || !found.is_empty()).then_some(found)
    }

    /// Threads never have two cores at once, and tasks of a core follow each other.
    fn any_rows() -> impl Strategy<Value = Vec<NoiseRow>> {
        let tasks = prop::collection::vec((1..8_i64, 0..5_i32, 0..5_i32), 0..12).prop_map(|turns| {
            let (mut at, mut rows) = (0, Vec::new());
            let mut idle_since = [None; 2];
            for (lasts, one, other) in turns {
                let ticks = [at, at + lasts - 1];
                // Nobody has a core in the turn of 0; the second core's may be the thread of the first.
                let had = [(0, one), (1, if other == one { 0 } else { other })];
                for (core, thread) in had {
                    // Every other switch from nobody is left out.
                    match idle_since[core as usize].take() {
                        Some(since) if thread > 0 && (at + since) % 2 == 0 => {
                            rows.push(row(NoiseClass::Arrived, core, [since, at], "", thread));
                        }
                        since if thread == 0 => idle_since[core as usize] = since.or(Some(at)),
                        _ => {}
                    }
                }
                rows.extend(had.iter().filter(|(_, thread)| *thread > 0).map(|&(core, thread)| {
                    let task = row(NoiseClass::Task, core, ticks, &format!("task{thread}"), thread);
                    NoiseRow { preempted: [None, Some(0), Some(1)][(lasts as usize + core as usize) % 3], ..task }
                }));
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
            row(class, core, [begin, begin + lasts], what, thread)
        });
        let seen = any::<[bool; 2]>().prop_map(|seen| {
            let core = |core: usize| seen[core].then(|| row(NoiseClass::Recorded, core as i32, [0, 90], "", 0));
            (0..2).filter_map(core).collect::<Vec<_>>()
        });
        (tasks, prop::collection::vec(other, 0..12), seen)
            .prop_map(|(tasks, others, seen)| tasks.into_iter().chain(others).chain(seen).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn property_the_answer_is_what_asking_every_row_at_every_tick_says(
            rows in any_rows(),
            ends in [(0..50_i64, 1..5_i32), (0..50_i64, 1..5_i32)],
            own in prop::collection::vec(1..5_i32, 0..3),
        ) {
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
    fn a_task_that_came_to_an_idle_core_unseen_disturbs_nobody_if_it_is_one_of_ours_and_is_not_known_before_it_is_seen()
    {
        let task = |core, ticks, name: &str, thread| row(NoiseClass::Task, core, ticks, name, thread);
        let rows = |comes: i32| {
            vec![
                row(NoiseClass::Recorded, 0, [0, 1000], "", 0),
                row(NoiseClass::Recorded, 1, [0, 1000], "", 0),
                task(0, [10, 900], "client", 7),
                task(1, [10, 100], "server", 9),
                row(NoiseClass::Arrived, 1, [150, 300], "", comes),
                task(1, [300, 400], "comes", comes),
                task(1, [400, 900], "server", 9),
            ]
        };
        let sent_to_received = |to| [(50, 7), (to, 9)];
        assert_eq!(asked(&rows(9), sent_to_received(350), &[7, 9]), Some(Vec::new()));
        assert_eq!(asked(&rows(9), sent_to_received(250), &[7, 9]), Some(Vec::new()), "it stamped, so it had come");
        assert_eq!(asked(&rows(9), [(50, 7), (120, 7)], &[7]), Some(Vec::new()), "before anybody can have come");
        let took = Took { ticks: 100, held_up: 0 };
        assert_eq!(asked(&rows(8), sent_to_received(450), &[7, 9]), Some(vec![("comes".into(), took)]));
        let ran_there = [(20, 9), (200, 7)];
        assert_eq!(asked(&rows(8), ran_there, &[7, 9]), None, "thread 8 may have come by 200");
        assert_eq!(asked(&rows(9), ran_there, &[7, 9]), Some(Vec::new()));
        let mut elsewhere = rows(9);
        elsewhere[3].core = 0;
        elsewhere[2].begin = 101;
        elsewhere.push(task(1, [20, 60], "before", 8));
        assert_eq!(asked(&elsewhere, ran_there, &[7, 9]), None, "thread 9 may have come to core 1 by 200");
        let took = Took { ticks: 40, held_up: 0 };
        assert_eq!(asked(&elsewhere, [(15, 9), (310, 7)], &[7, 9]), Some(vec![("before".into(), took)]));
    }

    #[test]
    fn a_thread_that_came_unseen_had_that_core_only_if_it_can_have_had_no_other() {
        let task = |core, ticks, name: &str, thread| row(NoiseClass::Task, core, ticks, name, thread);
        let mut rows = vec![
            row(NoiseClass::Recorded, 0, [0, 1000], "", 0),
            row(NoiseClass::Recorded, 1, [0, 1000], "", 0),
            task(0, [10, 100], "server", 9),
            row(NoiseClass::Arrived, 1, [50, 300], "", 9),
            task(1, [300, 900], "server", 9),
            task(0, [230, 400], "busy", 8),
        ];
        assert_eq!(asked(&rows, [(150, 9), (350, 9)], &[9]), Some(Vec::new()));
        rows.push(row(NoiseClass::Lost, 0, [100, 230], "a switch that the kernel did not tell", 0));
        assert_eq!(asked(&rows, [(150, 9), (350, 9)], &[9]), None, "it may have had core 0, with 8 in between");
    }

    #[test]
    fn nothing_is_certain_on_a_core_while_something_of_it_is_lost() {
        let mut rows = rows();
        rows[2].preempted = Some(1);
        rows.push(row(NoiseClass::Lost, 0, [101, 200], "2 switches", 0));
        let took = |ticks, held_up| Some(vec![("busy".into(), Took { ticks, held_up })]);
        assert_eq!(asked(&rows, [(50, 7), (350, 7)], &[7]), took(99, 0), "the thread may have had the core until 200");
        rows.push(row(NoiseClass::Lost, 0, [201, 300], "2 switches", 0));
        assert_eq!(asked(&rows, [(50, 7), (350, 7)], &[7]), None);
        rows.truncate(rows.len() - 2);
        rows.push(row(NoiseClass::Lost, 1, [150, 160], "2 switches", 0));
        assert_eq!(asked(&rows, [(50, 7), (350, 7)], &[7]), took(199, 0), "it may have had core 1 at 150");
    }

    #[test]
    fn a_core_on_which_a_thread_ran_only_between_its_stamps_counts_too() {
        // Thread 7 has core 0 at both stamps, and core 1 in between, where thread 8 preempts it.
        let task = |core, ticks, name: &str, thread| row(NoiseClass::Task, core, ticks, name, thread);
        let mut rows = vec![
            row(NoiseClass::Recorded, 0, [0, 1000], "", 0),
            row(NoiseClass::Recorded, 1, [0, 1000], "", 0),
            task(0, [10, 100], "own", 7),
            NoiseRow { preempted: Some(1), ..task(1, [200, 300], "own", 7) },
            task(1, [300, 600], "busy", 8),
            task(1, [600, 650], "own", 7),
            row(NoiseClass::Interrupt, 1, [220, 230], "timer", 7),
            task(0, [700, 900], "own", 7),
        ];
        let took = |name: &str, ticks| (name.into(), Took { ticks, held_up: ticks });
        let expected = vec![took("busy", 300), took("timer", 10)];
        assert_eq!(asked(&rows, [(50, 7), (750, 7)], &[7]), Some(expected.clone()));
        assert_eq!(asked(&rows, [(710, 7), (750, 7)], &[7]), Some(Vec::new()));
        rows.push(row(NoiseClass::Lost, 1, [610, 620], "5 events that found no room", 0));
        assert_eq!(asked(&rows, [(50, 7), (750, 7)], &[7]), Some(expected), "whatever else was not seen of core 1");
        rows.retain(|row| row.thread != 8 && row.class != NoiseClass::Interrupt);
        assert_eq!(asked(&rows, [(50, 7), (750, 7)], &[7]), None, "not all of core 1 was seen");
    }

    #[test]
    fn a_thread_that_may_have_run_on_a_core_which_nobody_saw_is_not_known() {
        let task = |core, ticks, name: &str, thread| row(NoiseClass::Task, core, ticks, name, thread);
        let mut rows = vec![
            row(NoiseClass::Recorded, 0, [0, 1000], "", 0),
            row(NoiseClass::Recorded, 1, [400, 1000], "", 0),
            task(0, [10, 100], "own", 7),
            task(0, [300, 900], "own", 7),
            task(0, [100, 300], "next", 9),
        ];
        let apart = [(50, 7), (350, 7)];
        let within = [(310, 7), (350, 7)];
        let next = [(50, 7), (250, 9)];
        let asked = |rows: &[NoiseRow], ends| asked(rows, ends, &[7, 9]);
        assert_eq!(asked(&rows, apart), Some(Vec::new()), "core 1's first switch, at 400, would have been its own");
        assert_eq!(asked(&rows, next), None, "thread 9 may have had core 1 from the start");
        rows.push(row(NoiseClass::Lost, 1, [150, 160], "5 events that found no room", 0));
        assert_eq!(asked(&rows, apart), None, "it may have come to core 1 at 150");
        assert_eq!(asked(&rows, within), Some(Vec::new()), "it had its core all the while");
        rows.retain(|row| row.class != NoiseClass::Lost);
        rows.push(row(NoiseClass::Recorded, 1, [0, 1000], "", 0));
        assert_eq!(asked(&rows, next), Some(Vec::new()));
        let lost = |ticks| row(NoiseClass::Lost, 1, ticks, "5 events that found no room", 0);
        let later = [&rows[..], &[lost([240, 245])]].concat();
        assert_eq!(asked(&later, next), None, "thread 7 may have come to core 1 while thread 9 had core 0");
        rows.push(lost([30, 40]));
        assert_eq!(asked(&rows, apart), Some(Vec::new()), "it was seen on core 0 after that");
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
        assert_eq!(asked(&rows, [(411, 7), (445, 7)], &[7]), None);
        assert_eq!(asked(&rows, [(411, 7), (500, 7)], &[7]), None);
        let timer = vec![("timer".into(), Took { ticks: 10, held_up: 10 })];
        assert_eq!(asked(&rows, [(350, 7), (500, 7)], &[7]), Some(timer), "that is certain, whatever else was");
        assert_eq!(asked(&rows, [(451, 7), (500, 7)], &[7]), Some(Vec::new()));
        rows.retain(|row| row.class != NoiseClass::Recorded);
        assert_eq!(asked(&rows, [(451, 7), (500, 7)], &[7]), None, "what was not recorded is no silence");
    }
}
