//! Where a clock broke: brackets in the order of the counter, divided into epochs.
//!
//! A bracket belongs to an epoch only if it certainly lies before the break that follows and after the one before; what
//! overlaps a break belongs to none. Two brackets that no clock can join are a break between their instants: they lie
//! on either side of it by what they say, whatever else overlaps it does not. Only two that don't overlap are compared:
//! of the others nobody knows which was read first, so which of them lies before the break. Where nothing else shows
//! it, the epoch that holds both is contradictory.

use std::cmp::Reverse;

use tickscope_tick::{Interval, Reference, Tick};

use crate::{Bracket, Cone, Error, Side};

/// A bracket with both sides, of raw counts, and its position in the evidence. The counter stood at `before` or later
/// when the reading began, and below `after + 1` when it had ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub before: i64,
    pub at: i64,
    pub after: i64,
    pub index: usize,
}

/// Uncertainty between two readings of a clock: its slopes, and how far clock and counter may stand beyond what they
/// read.
pub(super) struct Looseness {
    pub widest: Cone,
    pub clock_width: i64,
    pub counter_width: i64,
}

/// One break: it happened at or after `first`, and at or before `last`, ticks of the counter.
#[derive(Clone, Debug, Default)]
pub(super) struct Cut {
    pub first: i64,
    pub last: i64,
    pub declared: usize,
    /// Positions in the evidence of the brackets that show it.
    pub shown: Vec<[usize; 2]>,
}

/// The brackets of one epoch, at least one, in the order of the counter.
pub(super) struct Group {
    pub readings: Vec<Reading>,
}

/// Epochs, and the breaks around them.
pub(super) struct Division {
    pub groups: Vec<Group>,
    /// Before each group, and after the last one; the outer ones may be absent.
    pub cuts: Vec<Option<Cut>>,
    /// The first and the last reading.
    pub ends: [Reading; 2],
    /// Readings that lie among the breaks of one cut, each with the ticks between which the clock was as it was read.
    pub among: Vec<(Reading, [i64; 2])>,
}

impl Division {
    /// Divides at the declared breaks, and where no slope of `loose` joins two brackets.
    pub fn new(brackets: &[Bracket], declared: &[Interval<Tick<Reference>>], loose: &Looseness) -> Result<Self, Error> {
        let readings = ordered(brackets, loose.counter_width)?;
        let ends = [readings[0], readings[readings.len() - 1]];
        let cuts = cuts(&readings, merged(declared, loose.counter_width), loose);
        let mut groups: Vec<Vec<Reading>> = vec![Vec::new(); cuts.len() + 1];
        let (mut passed, mut of_none) = (0, Vec::new());
        for reading in readings {
            while cuts.get(passed).is_some_and(|cut| reading.before > cut.last) {
                passed += 1;
            }
            let shows_end = |cut: &Cut| cut.shown.iter().any(|pair| pair[1] == reading.index);
            let epoch = passed + cuts[passed..].iter().take_while(|cut| shows_end(cut)).count();
            let shows_begin = |cut: &Cut| cut.shown.iter().any(|pair| pair[0] == reading.index);
            if cuts.get(epoch).is_none_or(|cut| reading.after < cut.first || shows_begin(cut)) {
                groups[epoch].push(reading);
            } else {
                of_none.push(reading);
            }
        }
        let mut division = Self::joined(groups, cuts, ends);
        division.among = division.cuts.iter().flatten().flat_map(|cut| cut.among(&of_none)).collect();
        Ok(division)
    }

    /// Cuts without a bracket between them are one break.
    fn joined(groups: Vec<Vec<Reading>>, cuts: Vec<Cut>, ends: [Reading; 2]) -> Self {
        let mut division = Self { groups: Vec::new(), cuts: vec![None], ends, among: Vec::new() };
        let mut cuts = cuts.into_iter();
        for readings in groups {
            if !readings.is_empty() {
                division.groups.push(Group { readings });
                division.cuts.push(None);
            }
            if let (Some(cut), Some(last)) = (cuts.next(), division.cuts.last_mut()) {
                *last = Some(last.take().map_or(cut.clone(), |before| before.with(cut)));
            }
        }
        division
    }
}

impl Cut {
    /// The readings that lie among its breaks, and from and up to when the clock was as each says: it is told of each
    /// break between two readings.
    fn among(&self, of_none: &[Reading]) -> Vec<(Reading, [i64; 2])> {
        let is_here = |reading: &&Reading| reading.before <= self.last && reading.after >= self.first;
        let here: Vec<Reading> = of_none.iter().filter(is_here).copied().collect();
        // Two that overlap may have been taken in either order: only what was over before the other began bounds it.
        let mut over = here.clone();
        over.sort_unstable_by_key(|reading| reading.after);
        let later_begin = |begun: &mut i64, reading: &Reading| {
            *begun = reading.before.max(*begun);
            Some(*begun)
        };
        let earlier_end = |ended: &mut i64, reading: &Reading| {
            *ended = reading.after.min(*ended);
            Some(*ended)
        };
        let begun: Vec<i64> = over.iter().scan(self.first, later_begin).collect();
        let ended: Vec<i64> = here.iter().rev().scan(self.last, earlier_end).collect();
        let from = |reading: &Reading| {
            let earlier = over.partition_point(|other| other.after < reading.before);
            earlier.checked_sub(1).map_or(self.first, |last| begun[last])
        };
        let to = |reading: &Reading| {
            let later = here.len() - here.partition_point(|other| other.before <= reading.after);
            later.checked_sub(1).map_or(self.last, |first| ended[first])
        };
        here.iter().map(|reading| (*reading, [from(reading), to(reading)])).collect()
    }

    fn with(mut self, other: Self) -> Self {
        self.shown.extend(other.shown);
        let (first, last) = (self.first.min(other.first), self.last.max(other.last));
        Self { first, last, declared: self.declared + other.declared, shown: self.shown }
    }
}

impl Reading {
    fn of(index: usize, bracket: &Bracket, counter_width: i64) -> Result<Self, Error> {
        let open = |side| Error::OpenSide { side, index };
        let before = bracket.before.ok_or(open(Side::Lower))?.get();
        let after = bracket.after.ok_or(open(Side::Upper))?.get();
        let too_far = Error::TooFar { what: "after", index: Some(index), found: after, first: before, limit: i64::MAX };
        let after = after.checked_add(counter_width - 1).ok_or(too_far)?;
        Ok(Self { before, at: bracket.at.get(), after, index })
    }

    /// Returns whether no clock that is as loose can have read both, this one earlier in the order of the counter.
    fn contradicts(&self, later: &Self, loose: &Looseness) -> bool {
        let read = i128::from(later.at) - i128::from(self.at);
        let least = i128::from(later.before) - i128::from(self.after) - 1;
        let most = i128::from(later.after) + 1 - i128::from(self.before);
        let (cone, width) = (loose.widest, i128::from(loose.clock_width));
        cone.reference_at_least(read - width) > fixed(most) || cone.reference_at_most(read + width) < fixed(least)
    }

    pub fn is_reversed(&self) -> bool {
        self.before > self.after
    }
}

/// In units of 2^-60 ticks, as slopes count: differences of 64-bit ticks stay below 2^126.
fn fixed(ticks: i128) -> i128 {
    ticks << Cone::FRACTION_BITS
}

fn ordered(brackets: &[Bracket], counter_width: i64) -> Result<Vec<Reading>, Error> {
    let readings = brackets.iter().enumerate().map(|(index, bracket)| Reading::of(index, bracket, counter_width));
    let mut readings = readings.collect::<Result<Vec<Reading>, Error>>()?;
    if readings.is_empty() {
        return Err(Error::Missing { side: Side::Lower, brackets: 0 });
    }
    readings.sort_unstable_by_key(|reading| (reading.before, reading.after, reading.index));
    Ok(readings)
}

/// The declared spans in order, each to the end of its last reading; those that overlap are one.
fn merged(declared: &[Interval<Tick<Reference>>], counter_width: i64) -> Vec<Cut> {
    let last = |span: &Interval<Tick<Reference>>| span.hi().get().saturating_add(counter_width - 1);
    let mut spans: Vec<_> = declared.iter().map(|span| (span.lo().get(), last(span))).collect();
    spans.sort_unstable();
    let mut cuts: Vec<Cut> = Vec::new();
    for (first, last) in spans {
        let new = Cut { first, last, declared: 1, shown: Vec::new() };
        match cuts.last_mut().filter(|cut| first <= cut.last) {
            Some(cut) => *cut = std::mem::take(cut).with(new),
            None => cuts.push(new),
        }
    }
    cuts
}

/// All cuts in order: the declared ones, and between them those that the brackets show.
fn cuts(readings: &[Reading], declared: Vec<Cut>, loose: &Looseness) -> Vec<Cut> {
    // Those that are over first show a break closest to it; of two that are over at once the shorter.
    let mut readings = readings.to_vec();
    readings.sort_unstable_by_key(|reading| (reading.after, Reverse(reading.before), reading.index));
    let mut cuts: Vec<Cut> = Vec::new();
    let mut declared = declared.into_iter().peekable();
    let mut trail = Trail::default();
    for reading in readings.into_iter().filter(|reading| !reading.is_reversed()) {
        while let Some(cut) = declared.next_if(|cut| cut.last < reading.before) {
            cuts.push(cut);
            trail = Trail::default();
        }
        let in_next = declared.peek().is_some_and(|cut| reading.after >= cut.first);
        if in_next || cuts.last().is_some_and(|cut| reading.before <= cut.last) {
            continue;
        }
        if let Some(earlier) = trail.contradicting(reading, loose) {
            let shown = vec![[earlier.index, reading.index]];
            cuts.push(Cut { first: earlier.before, last: reading.after, declared: 0, shown });
            trail = Trail::default();
        }
        trail.push(reading, loose);
    }
    cuts.extend(declared);
    cuts
}

/// The readings since the last break in the order of their ends, and which of them bound the next one.
#[derive(Default)]
struct Trail {
    readings: Vec<Reading>,
    /// Which of each and those before it bounds the next most from below, and from above.
    extremes: Vec<[usize; 2]>,
}

impl Trail {
    fn push(&mut self, reading: Reading, loose: &Looseness) {
        let cone = loose.widest;
        let new = self.readings.len();
        self.readings.push(reading);
        let [mut lowest, mut highest] = self.extremes.last().copied().unwrap_or_default();
        let [low, high] = [self.readings[lowest], self.readings[highest]];
        let since = |other: Reading| i128::from(reading.at) - i128::from(other.at);
        let risen = |now: i64, then: i64| fixed(i128::from(now) - i128::from(then));
        if risen(reading.before, low.before) >= cone.slowest().saturating_mul(since(low)) {
            lowest = new;
        }
        if risen(reading.after, high.after) <= cone.fastest().saturating_mul(since(high)) {
            highest = new;
        }
        self.extremes.push([lowest, highest]);
    }

    /// The last to begin of the readings that were over before this one began and contradict it: it shows the break
    /// closest to it. Looked for only where one of the two that bound it most does, or its neighbour: a bound by
    /// any other is weaker.
    fn contradicting(&self, reading: Reading, loose: &Looseness) -> Option<Reading> {
        let over = self.readings.partition_point(|earlier| earlier.after < reading.before);
        let last = over.checked_sub(1)?;
        let [lowest, highest] = self.extremes[last];
        let culprits = [last, lowest, highest];
        culprits.into_iter().find(|&earlier| self.readings[earlier].contradicts(&reading, loose))?;
        let all = self.readings[..over].iter().filter(|earlier| earlier.contradicts(&reading, loose));
        all.max_by_key(|earlier| earlier.before).copied()
    }
}
