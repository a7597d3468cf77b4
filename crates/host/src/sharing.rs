//! Proof that the processors of this host read one counter, and how closely.
//!
//! Two pinned threads pass a cache line back and forth. Whoever passes it on reads the counter `before`, whoever
//! receives it reads it `after`; so each passage bounds the offset between their counters from one side, and the
//! fastest passage of each direction decides. Forward and backward passages are never paired.
//!
//! Assumes that a pair's offset stays put for the 50 ms it is looked at. Guarantees: each interval contains the offset;
//! what was not proven is said, not assumed. The affinity of the calling thread is never touched: both sides are
//! threads of their own. Deliberately absent: correcting stamps by an offset; processors that differ are two domains.

use std::fmt;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::{Finding, Problem, affinity};
use tickscope_counter::{after, before};
use tickscope_tick::counted;

/// Up to so many processors every pair is checked, 120 pairs at most; beyond, each one against the first.
pub const ALL_PAIRS_CPUS_MAX: usize = 16;

/// A pair is looked at for so many passages each way ...
const ROUNDS_MAX: u64 = 20_000;
/// ... or so long, whichever is over first.
const TIME_MAX: Duration = Duration::from_millis(50);

/// One passage of the cache line: who sent it read its counter, then who received it read theirs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passage {
    /// The sender's counter before the line was passed on, in ticks.
    pub sent: i64,
    /// The receiver's counter after the line was seen, in ticks.
    pub received: i64,
}

/// The two passages that bound a pair's offset: how far the second counter is ahead of the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offset {
    /// From the second processor to the first: the offset is at least `sent - received`.
    pub at_least: Passage,
    /// From the first processor to the second: the offset is at most `received - sent`.
    pub at_most: Passage,
}

/// Two processors, and what was proven about the offset of their counters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pair {
    /// The kernel's number of the first processor.
    pub first: usize,
    /// The kernel's number of the second.
    pub second: usize,
    /// The offset, or why nothing was proven.
    pub offset: Result<Offset, String>,
}

/// Which pairs were checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coverage {
    /// Every pair of the allowed processors.
    EveryPair,
    /// Each processor against the first: a bound between two others is the sum of theirs.
    EachAgainstFirst,
}

/// Proven offsets between the counters of the processors that this program may run on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sharing {
    /// The allowed processors, by the kernel's numbers.
    pub cpus: Vec<usize>,
    /// Which pairs of them were checked.
    pub coverage: Coverage,
    /// The pairs, in the order they were checked.
    pub pairs: Vec<Pair>,
}

impl Offset {
    /// The least offset that the passages allow, in ticks; positive: the second counter is ahead.
    pub fn lo_ticks(&self) -> i64 {
        self.at_least.sent - self.at_least.received
    }

    /// The greatest offset that the passages allow, in ticks.
    pub fn hi_ticks(&self) -> i64 {
        self.at_most.received - self.at_most.sent
    }

    /// Whether the two may be one counter.
    pub fn allows_zero(&self) -> bool {
        self.lo_ticks() <= 0 && 0 <= self.hi_ticks()
    }

    /// The greatest distance from zero that the passages allow, in ticks.
    pub fn reach_ticks(&self) -> u64 {
        self.lo_ticks().unsigned_abs().max(self.hi_ticks().unsigned_abs())
    }
}

impl Offset {
    /// Combines two looks at one pair: each side's tighter constraint.
    fn tightened(self, other: Self) -> Self {
        let at_least = if other.lo_ticks() > self.lo_ticks() { other.at_least } else { self.at_least };
        let at_most = if other.hi_ticks() < self.hi_ticks() { other.at_most } else { self.at_most };
        Self { at_least, at_most }
    }
}

impl Sharing {
    /// Checks the processors that the calling thread may run on. Takes at most about 50 ms a pair.
    pub fn of_this_host() -> Result<Self, Finding> {
        Ok(Self::of(affinity::allowed_cpus()?, ping_pong))
    }

    /// Checks `cpus` by `offset`, which looks at one pair.
    fn of(cpus: Vec<usize>, offset: impl Fn(usize, usize) -> Result<Offset, String>) -> Self {
        let coverage = if cpus.len() <= ALL_PAIRS_CPUS_MAX { Coverage::EveryPair } else { Coverage::EachAgainstFirst };
        let starts = if coverage == Coverage::EveryPair { cpus.len() } else { 1 };
        let mut pairs = Vec::new();
        for (position, &first) in cpus[..starts].iter().enumerate() {
            for &second in &cpus[position + 1..] {
                pairs.push(Pair { first, second, offset: offset(first, second) });
            }
        }
        Self { cpus, coverage, pairs }
    }

    /// How far the counters of any two processors can be apart, in ticks; `None` if some pair proved nothing.
    pub fn within_ticks(&self) -> Option<u64> {
        let reach = |pair: &Pair| pair.offset.as_ref().map(Offset::reach_ticks).ok();
        let mut reaches: Vec<u64> = self.pairs.iter().map(reach).collect::<Option<_>>()?;
        reaches.sort_unstable_by(|a, b| b.cmp(a));
        // Two processors that were each checked against the first are apart by at most the sum.
        let summed = if self.coverage == Coverage::EveryPair { 1 } else { 2 };
        Some(reaches.iter().take(summed).sum())
    }

    /// Pairs whose counters are not one, and pairs that could not be checked.
    pub fn findings(&self) -> Vec<Finding> {
        self.pairs.iter().filter_map(Pair::finding).collect()
    }
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match self.coverage {
            Coverage::EveryPair => "every pair",
            Coverage::EachAgainstFirst => "each against the first",
        };
        let (cpus, pairs) = (self.cpus.len(), self.pairs.len());
        match self.within_ticks() {
            Some(ticks) => write!(f, "assumes kernel-synchronised counters, checked to ±{ticks} ticks")?,
            None => write!(f, "assumes kernel-synchronised counters, unproven")?,
        }
        write!(f, " ({}, {}: {how})", counted(cpus, "processor"), counted(pairs, "pair"))
    }
}

impl Pair {
    fn finding(&self) -> Option<Finding> {
        let Self { first, second, offset } = self;
        let finding = |problem, remedy: &str| Some(Finding { about: "shared counter", problem, remedy: remedy.into() });
        let value = |expected: &str, offset: &Offset| Problem::Value {
            expected: format!("cpus {first} and {second} to {expected}"),
            found: offset.to_string(),
        };
        match offset {
            Err(why) => finding(
                Problem::Failure { action: format!("check cpus {first} and {second}"), reason: why.clone() },
                "durations between stamps of these two rest on the kernel's word alone; allow pinning (cpuset, \
                 sched_setaffinity), or repeat the check on an idle machine",
            ),
            Ok(offset) if offset.lo_ticks() > offset.hi_ticks() => finding(
                value("keep one offset while they are checked", offset),
                "the two counters run apart, or a reading was not ordered; use stamps of one of them only",
            ),
            Ok(offset) if !offset.allows_zero() => finding(
                value("read one counter", offset),
                "treat them as two domains, or use stamps of one of them only",
            ),
            Ok(_) => None,
        }
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at_least, at_most } = self;
        write!(
            f,
            "the second ahead by {} to {} ticks: sent by the second at {} and received by the first at {}; sent by the \
             first at {} and received by the second at {}",
            self.lo_ticks(),
            self.hi_ticks(),
            at_least.sent,
            at_least.received,
            at_most.sent,
            at_most.received
        )
    }
}

/// The passage of one direction that took least, as far as the two counters can tell.
#[derive(Default)]
struct Fastest(Option<Passage>);

impl Fastest {
    fn admit(&mut self, passage: Passage) {
        let took = |passage: &Passage| passage.received - passage.sent;
        if self.0.is_none_or(|fastest| took(&passage) < took(&fastest)) {
            self.0 = Some(passage);
        }
    }
}

/// The line that two threads pass on. It fills two cache lines, which processors fetch in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Line {
    /// Even: with the first thread; odd: with the second. Whose turn it is alone may write.
    turn: AtomicU64,
    /// The counter of whoever passed the line on.
    sent: AtomicI64,
    /// Ends the second thread. Beside the turn, not in it: a second thread that was not running while time ran out
    /// still passes the line on, and would overwrite the end.
    over: AtomicBool,
}

impl Line {
    /// Passes the line on, having read the counter.
    fn pass(&self, turn: u64) {
        self.sent.store(before(), Ordering::Relaxed);
        // Release: who sees the turn sees the stamp that was stored first.
        self.turn.store(turn, Ordering::Release);
    }

    /// Waits for that turn, then reads the counter; `None` when `given_up` says so.
    fn await_turn(&self, turn: u64, given_up: impl Fn() -> bool) -> Option<Passage> {
        const SPINS_BETWEEN_LOOKS: u32 = 1000;
        let mut spins = 0;
        loop {
            // Acquire: pairs with the release in `pass`.
            let seen = self.turn.load(Ordering::Acquire);
            let received = after();
            if seen == turn {
                return Some(Passage { sent: self.sent.load(Ordering::Relaxed), received });
            }
            spins += 1;
            if spins % SPINS_BETWEEN_LOOKS == 0 && given_up() {
                return None;
            }
            spin_loop();
        }
    }
}

/// An offset known to more than this says that the threads hardly ever ran at the same time: 40 us at 2.5 GHz.
const USEFUL_TICKS: u64 = 100_000;
/// How often a pair is looked at again before such an offset is all that can be said.
const ATTEMPTS_MAX: usize = 20;

/// Looks at one pair, again where other programs kept the threads apart; keeps the fastest passage of each direction.
fn ping_pong(first: usize, second: usize) -> Result<Offset, String> {
    let mut best: Result<Offset, String> = Err(String::new());
    for _ in 0..ATTEMPTS_MAX {
        best = match (best, attempt(first, second)) {
            (Ok(known), Ok(found)) => Ok(known.tightened(found)),
            (Ok(known), Err(_)) => Ok(known),
            (Err(_), found) => found,
        };
        if best.as_ref().is_ok_and(|offset| offset.reach_ticks() <= USEFUL_TICKS) {
            break;
        }
    }
    best
}

/// Passes a line back and forth until there have been enough passages, or time is over.
fn attempt(first: usize, second: usize) -> Result<Offset, String> {
    let line = &Line::default();
    let (pinned, second_is_pinned) = mpsc::channel();
    let (backward, forward) = thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let result = pin(second);
            let ready = result.is_ok();
            // The other side waits for this; it can't have gone before.
            let _ = pinned.send(result);
            if ready { answer(line) } else { Fastest::default() }
        });
        let sender = scope.spawn(move || {
            let ready = second_is_pinned.recv().map_err(|_| "its thread ended".to_owned());
            let result = ready.and_then(|result| result).and_then(|()| pin(first)).map(|()| drive(line));
            line.over.store(true, Ordering::Relaxed);
            result
        });
        (sender.join(), receiver.join())
    });
    let panicked = |_| "a thread panicked".to_owned();
    let (backward, forward) = (backward.map_err(panicked)??, forward.map_err(panicked)?);
    match (backward.0, forward.0) {
        (Some(at_least), Some(at_most)) => Ok(Offset { at_least, at_most }),
        _ => Err(format!("no passage within {TIME_MAX:?} in one of the directions: the processors are busy")),
    }
}

/// The first thread: passes the line on and collects what comes back.
fn drive(line: &Line) -> Fastest {
    let mut backward = Fastest::default();
    let start = Instant::now();
    let late = || start.elapsed() >= TIME_MAX;
    for round in 0..ROUNDS_MAX {
        line.pass(2 * round + 1);
        match line.await_turn(2 * round + 2, late) {
            Some(passage) => backward.admit(passage),
            None => break,
        }
        if round % 100 == 0 && late() {
            break;
        }
    }
    backward
}

/// The second thread: collects what comes and passes it back, until the first says that it is over.
fn answer(line: &Line) -> Fastest {
    let mut forward = Fastest::default();
    let mut turn = 1;
    while let Some(passage) = line.await_turn(turn, || line.over.load(Ordering::Relaxed)) {
        line.pass(turn + 1);
        forward.admit(passage);
        turn += 2;
    }
    forward
}

fn pin(cpu: usize) -> Result<(), String> {
    affinity::pin(cpu).map_err(|error| format!("pinning to cpu {cpu} was refused: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tickscope_tick::simulated::SimulatedClock;

    fn offset(lo: i64, hi: i64) -> Offset {
        Offset { at_least: Passage { sent: 1000 + lo, received: 1000 }, at_most: Passage { sent: 0, received: hi } }
    }

    fn sharing(cpus: usize, of_pair: impl Fn(usize, usize) -> Result<Offset, String>) -> Sharing {
        Sharing::of((0..cpus).collect(), of_pair)
    }

    #[test]
    fn a_second_look_at_a_pair_only_tightens_what_is_known() {
        let both = offset(-900, 40).tightened(offset(-50, 700));
        assert_eq!((both.lo_ticks(), both.hi_ticks()), (-50, 40));
    }

    #[test]
    fn a_second_thread_that_comes_too_late_still_ends() {
        let line = Line::default();
        line.pass(1);
        line.over.store(true, Ordering::Relaxed); // the first gave up before the second saw its turn
        assert!(answer(&line).0.is_some(), "the late passage counts");
    }

    #[test]
    fn every_pair_is_checked_once_up_to_sixteen_processors_and_each_against_the_first_beyond() {
        let pairs = |cpus| {
            let sharing = sharing(cpus, |_, _| Ok(offset(-1, 1)));
            let numbers: std::collections::BTreeSet<_> = sharing.pairs.iter().map(|p| (p.first, p.second)).collect();
            assert!(numbers.len() == sharing.pairs.len() && numbers.iter().all(|(a, b)| a < b), "{numbers:?}");
            (sharing.coverage, numbers.len())
        };
        assert_eq!(pairs(1), (Coverage::EveryPair, 0));
        assert_eq!(pairs(3), (Coverage::EveryPair, 3));
        assert_eq!(pairs(16), (Coverage::EveryPair, 120));
        assert_eq!(pairs(17), (Coverage::EachAgainstFirst, 16));
        assert_eq!(sharing(0, |_, _| unreachable!()).pairs, []);
    }

    #[test]
    fn the_bound_is_the_farthest_reach_of_a_pair_and_the_sum_of_two_where_only_the_first_was_compared() {
        let reach = |_: usize, second: usize| Ok(offset(-(second as i64), 5));
        assert_eq!(sharing(10, reach).within_ticks(), Some(9));
        assert_eq!(sharing(20, reach).within_ticks(), Some(19 + 18));
        assert_eq!(sharing(1, reach).within_ticks(), Some(0), "one processor agrees with itself");
    }

    #[test]
    fn an_unproven_pair_leaves_the_whole_unproven_and_says_why() {
        let sharing = sharing(3, |_, second| if second == 2 { Err("refused".into()) } else { Ok(offset(-9, 9)) });
        assert_eq!(sharing.within_ticks(), None);
        assert_eq!(sharing.findings().len(), 2);
        assert!(sharing.findings()[0].to_string().contains("refused"));
        assert!(sharing.to_string().contains("unproven"));
    }

    #[test]
    fn an_interval_may_touch_zero_and_is_a_finding_with_its_stamps_beyond() {
        let findings = |lo, hi| sharing(2, |_, _| Ok(offset(lo, hi))).findings();
        assert_eq!(findings(0, 7), []);
        assert_eq!(findings(-7, 0), []);
        assert!(findings(1, 7)[0].to_string().contains("at 1001"), "{}", findings(1, 7)[0]);
        assert_eq!(findings(-7, -1).len(), 1);
        assert!(findings(3, -3)[0].to_string().contains("keep one offset"));
    }

    #[test]
    fn the_fastest_passage_decides() {
        let mut fastest = Fastest::default();
        for received in [30, 12, 50] {
            fastest.admit(Passage { sent: 5, received });
        }
        assert_eq!(fastest.0, Some(Passage { sent: 5, received: 12 }));
    }

    #[test]
    fn the_processors_of_this_host_are_checked_and_the_callers_affinity_is_left_alone() {
        let allowed = affinity::allowed_cpus().unwrap();
        let sharing = Sharing::of_this_host().unwrap();
        assert_eq!(affinity::allowed_cpus().unwrap(), allowed);
        assert_eq!(sharing.cpus, allowed);
        let proven = sharing.pairs.iter().filter_map(|pair| pair.offset.as_ref().ok());
        for offset in proven {
            assert!(offset.at_most.sent > 0 && offset.at_least.sent > 0, "real stamps: {offset}");
            assert!(offset.lo_ticks() <= offset.hi_ticks(), "{offset}");
        }
    }

    proptest! {
        #[test]
        fn property_the_true_offset_lies_in_the_interval_of_any_passages(
            ahead in -1_000_000i64..1_000_000, delays in prop::collection::vec((0i64..3000, 0i64..3000), 1..50),
        ) {
            let first = SimulatedClock::default();
            let second = SimulatedClock { offset: ahead, ..SimulatedClock::default() };
            let (mut now, mut forward, mut backward) = (0, Fastest::default(), Fastest::default());
            for (there, back) in delays {
                forward.admit(Passage { sent: first.read(now), received: second.read(now + there) });
                now += there;
                backward.admit(Passage { sent: second.read(now), received: first.read(now + back) });
                now += back;
            }
            let offset = Offset { at_least: backward.0.unwrap(), at_most: forward.0.unwrap() };
            prop_assert!(offset.lo_ticks() <= ahead && ahead <= offset.hi_ticks(), "{offset}");
        }
    }
}
