//! Where the points ran, how many stamps each had over time, and how fast a run went from its first stamp to its last.
//!
//! Idea: stamps are counted in windows of their own clock, a power of two long, that are halved in number whenever they
//! become too many; only the ends of windows are placed on the reference. Guarantees: every stamp of a trace is counted
//! once; the span from first to last holds the true one; the same for any number of workers. Deliberately absent: what
//! is in no trace: stamps that were lost or that a policy left out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use tickscope_store::{Channel, KeyedReader};
use tickscope_trace::{Attribute, Clocks, Layout, StageRole};

use super::boxes::Bounded;
use crate::error::Error;
use crate::scan::{Part, Piece, Sink, Wanted};

/// Windows of a point, at most.
const MOST_WINDOWS: usize = 120;

/// All points of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Traffic {
    /// One a point, in the layout's order.
    pub points: Vec<PointTraffic>,
    /// From the first stamp where paths begin to the last one where they end; `None`: nothing relates these clocks, or
    /// there is no such stamp.
    pub throughput: Option<Throughput>,
}

/// The stamps of one point.
#[derive(Clone, Debug, Serialize)]
pub struct PointTraffic {
    /// Its name.
    pub point: String,
    /// Stamps of all traces.
    pub stamps: u64,
    /// Processes that stamped here, in the order of their numbers.
    pub processes: Vec<PlacedProcess>,
    /// Cores and how many of these stamps were read there.
    pub cores: Vec<(i64, u64)>,
    /// Stamps that do not tell their core.
    pub no_core: u64,
    /// Stamps over time; empty where nothing relates the point's clock to the reference.
    pub windows: Vec<TrafficWindow>,
}

/// A process that stamps at a point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlacedProcess {
    /// Its number in its own namespace; 0: a log, which names none.
    pub pid: i32,
    /// Its threads that stamped here.
    pub threads: usize,
    /// Stamps that they stored.
    pub stored: i64,
}

/// Stamps within a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TrafficWindow {
    /// When it begins and ends, as estimated, after the run's first stamp: ticks of the reference.
    pub ticks: [i64; 2],
    /// How many stamps.
    pub stamps: u64,
}

/// How fast a run went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Throughput {
    /// Where paths begin.
    pub from: Vec<String>,
    /// Where they end.
    pub to: Vec<String>,
    /// Stamps where they end.
    pub arrived: u64,
    /// From the first stamp there to the last one here.
    pub span_ticks: Bounded,
}

/// Sink of [`Traffic`].
#[derive(Clone)]
pub(crate) struct TrafficCounter {
    /// By point: the request for the core of its stamps, where some have one.
    cores: Arc<Vec<Option<Wanted>>>,
    points: Vec<Counted>,
}

#[derive(Clone, Default)]
struct Counted {
    windows: Windows,
    cores: BTreeMap<i64, u64>,
    no_core: u64,
}

impl TrafficCounter {
    /// None yet of so many points.
    pub(crate) fn none(layout: &Layout, readers: &[KeyedReader]) -> Self {
        let core = |(point, of): (usize, &tickscope_trace::Point)| {
            let place = of.place.to_string();
            let is_told = readers.iter().any(|reader| reader.has_attribute(&place, Attribute::Cpu));
            is_told.then_some(Wanted { point, attribute: Attribute::Cpu })
        };
        let cores = layout.points().iter().enumerate().map(core).collect();
        Self { cores: Arc::new(cores), points: vec![Counted::default(); layout.points().len()] }
    }

    pub(crate) fn finish(self, layout: &Layout, clocks: &Clocks, channels: &[Channel]) -> Traffic {
        let instants = |point: usize| {
            let [first, last] = self.points[point].windows.ends?;
            let [first, last] = [first, last].map(|raw| clocks.instant(point, raw));
            Some([first?, last?].map(|[estimate, lo, hi]| Bounded { estimate, lo, hi }))
        };
        let begun = (0..self.points.len()).filter_map(instants).map(|[first, _]| first.estimate).min();
        let throughput = self.throughput(layout, &instants);
        let points = layout.points().iter().zip(&self.points).enumerate().map(|(at, (point, counted))| PointTraffic {
            point: point.place.to_string(),
            stamps: counted.windows.stamps(),
            processes: processes(channels.iter().filter(|channel| channel.is_at(&point.place))),
            cores: counted.cores.iter().map(|(&core, &stamps)| (core, stamps)).collect(),
            no_core: counted.no_core,
            windows: begun.map_or_else(Vec::new, |begun| {
                counted.windows.placed(|raw| clocks.instant(at, raw)?[0].checked_sub(begun))
            }),
        });
        Traffic { points: points.collect(), throughput }
    }

    fn throughput(&self, layout: &Layout, instants: &dyn Fn(usize) -> Option<[Bounded; 2]>) -> Option<Throughput> {
        let wholes = || layout.stages().iter().filter(|stage| stage.role == StageRole::EndToEnd);
        let [from, to]: [BTreeSet<usize>; 2] =
            [wholes().map(|stage| stage.from).collect(), wholes().map(|stage| stage.to).collect()];
        let stamped = |points: &BTreeSet<usize>| {
            points.iter().copied().filter(|&point| self.points[point].windows.stamps() > 0).collect::<Vec<_>>()
        };
        let (sources, sinks) = (stamped(&from), stamped(&to));
        // One that nothing relates may have been the first or the last.
        let firsts = sources.iter().map(|&point| Some(instants(point)?[0])).collect::<Option<Vec<Bounded>>>()?;
        let lasts = sinks.iter().map(|&point| Some(instants(point)?[1])).collect::<Option<Vec<Bounded>>>()?;
        let first = firsts.into_iter().reduce(|one, other| Bounded {
            estimate: one.estimate.min(other.estimate),
            lo: one.lo.min(other.lo),
            hi: one.hi.min(other.hi),
        })?;
        let last = lasts.into_iter().reduce(|one, other| Bounded {
            estimate: one.estimate.max(other.estimate),
            lo: one.lo.max(other.lo),
            hi: one.hi.max(other.hi),
        })?;
        let names = |points: &[usize]| points.iter().map(|&at| layout.points()[at].place.to_string()).collect();
        Some(Throughput {
            from: names(&sources),
            to: names(&sinks),
            arrived: sinks.iter().map(|&point| self.points[point].windows.stamps()).sum(),
            span_ticks: Bounded {
                estimate: last.estimate.checked_sub(first.estimate)?,
                lo: last.lo.checked_sub(first.hi)?,
                hi: last.hi.checked_sub(first.lo)?,
            },
        })
    }
}

fn processes<'a>(channels: impl Iterator<Item = &'a Channel>) -> Vec<PlacedProcess> {
    let mut found: BTreeMap<(i32, i64, u64), (BTreeSet<i32>, i64)> = BTreeMap::new();
    for channel in channels {
        let (threads, stored) = found.entry((channel.pid, channel.process_start, channel.pool)).or_default();
        threads.insert(channel.thread);
        *stored += channel.stored;
    }
    let process = |((pid, ..), (threads, stored)): ((i32, i64, u64), (BTreeSet<i32>, i64))| PlacedProcess {
        pid,
        threads: threads.len(),
        stored,
    };
    found.into_iter().map(process).collect()
}

/// Counts of ticks in windows of equal length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Windows {
    /// A window is 2 to that many ticks long.
    power: u32,
    /// By the tick above the window's power.
    counts: BTreeMap<i64, u64>,
    /// The first and the last tick.
    ends: Option<[i64; 2]>,
}

impl Windows {
    fn add(&mut self, tick: i64, stamps: u64) {
        let [first, last] = self.ends.map_or([tick; 2], |[first, last]| [first.min(tick), last.max(tick)]);
        self.reach([first, last]);
        *self.counts.entry(tick >> self.power).or_default() += stamps;
    }

    /// Makes windows so long that few enough reach from the first to the last.
    fn reach(&mut self, [first, last]: [i64; 2]) {
        self.ends = Some([first, last]);
        let before = self.power;
        while (last >> self.power).abs_diff(first >> self.power) >= MOST_WINDOWS as u64 {
            self.power += 1;
        }
        if self.power > before {
            for (window, stamps) in std::mem::take(&mut self.counts) {
                *self.counts.entry(window >> (self.power - before)).or_default() += stamps;
            }
        }
    }

    fn merge(&mut self, later: &Self) {
        let Some([first, last]) = later.ends else { return };
        let [own_first, own_last] = self.ends.unwrap_or([first, last]);
        let mut all = Self { power: self.power.max(later.power), ..Self::default() };
        all.reach([first.min(own_first), last.max(own_last)]);
        for (of, power) in [(&self.counts, self.power), (&later.counts, later.power)] {
            for (window, stamps) in of {
                *all.counts.entry(window >> (all.power - power)).or_default() += stamps;
            }
        }
        *self = all;
    }

    fn stamps(&self) -> u64 {
        self.counts.values().sum()
    }

    /// The windows that lie between the first tick and the last one, empty ones too.
    fn placed(&self, at: impl Fn(i64) -> Option<i64>) -> Vec<TrafficWindow> {
        let Some([first, last]) = self.ends else { return Vec::new() };
        let inner = (first >> self.power) + 1..last >> self.power;
        let window = |number: i64| {
            let ticks = [number << self.power, (number + 1) << self.power].map(&at);
            let stamps = self.counts.get(&number).copied().unwrap_or(0);
            Some(TrafficWindow { ticks: [ticks[0]?, ticks[1]?], stamps })
        };
        inner.filter_map(window).collect()
    }
}

impl Sink for TrafficCounter {
    type Part = Self;

    fn part(&self) -> Self {
        Self { cores: Arc::clone(&self.cores), points: vec![Counted::default(); self.points.len()] }
    }

    fn merge(&mut self, later: Self) -> Result<(), Error> {
        for (all, more) in self.points.iter_mut().zip(later.points) {
            all.windows.merge(&more.windows);
            more.cores.into_iter().for_each(|(core, stamps)| *all.cores.entry(core).or_default() += stamps);
            all.no_core += more.no_core;
        }
        Ok(())
    }

    fn wanted(&self) -> Vec<Wanted> {
        self.cores.iter().copied().flatten().collect()
    }
}

impl Part for TrafficCounter {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        let Self { cores, points } = self;
        for (point, (counted, core)) in points.iter_mut().zip(cores.iter()).enumerate() {
            let column = &piece.traces.points()[point];
            for row in 0..piece.traces.len() {
                let Some(tick) = column.get(row).filter(|_| !piece.traces.repeats(row, [point; 2])) else { continue };
                counted.windows.add(tick, 1);
                match core.and_then(|wanted| piece.attribute(wanted, row)) {
                    Some(core) => *counted.cores.entry(core).or_default() += 1,
                    None => counted.no_core += 1,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tickscope_trace::LayoutText;

    proptest! {
        #[test]
        fn property_windows_count_every_stamp_once_whatever_part_it_was_in(
            ticks in prop::collection::vec(prop_oneof![0i64..300, -1_000_000i64..1_000_000_000, Just(i64::MAX)], 1..99),
            cut in 0usize..120,
        ) {
            let cut = cut.min(ticks.len());
            let count = |ticks: &[i64]| {
                let mut windows = Windows::default();
                ticks.iter().for_each(|&tick| windows.add(tick, 1));
                windows
            };
            let (all, mut parts) = (count(&ticks), count(&ticks[..cut]));
            parts.merge(&count(&ticks[cut..]));
            prop_assert_eq!(&parts, &all);
            prop_assert!(all.counts.len() <= MOST_WINDOWS);
            prop_assert_eq!(all.stamps(), ticks.len() as u64);
            for (&window, &stamps) in &all.counts {
                let here = ticks.iter().filter(|&&tick| tick >> all.power == window).count() as u64;
                prop_assert_eq!(here, stamps);
            }
        }
    }

    #[test]
    fn a_span_from_first_to_last_holds_all_that_clocks_of_several_starts_and_ends_leave_open() {
        let edges = ["a.s > c.m", "b.s > c.m", "c.m > d.t", "c.m > e.t"].map(String::from).to_vec();
        let layout = LayoutText { edges, ..LayoutText::default() }.parse(None).unwrap();
        let mut counter = TrafficCounter::none(&layout, &[]);
        counter.points.iter_mut().for_each(|point| point.windows.add(0, 5));
        let at = |estimate: i64| Bounded { estimate, lo: estimate - 10, hi: estimate + 30 };
        let ends = |point: usize| match layout.points()[point].place.node.as_str() {
            "a" => Some([at(100), at(700)]),
            "b" => Some([at(105), at(700)]),
            "d" => Some([at(200), at(900)]),
            _ => Some([at(200), at(890)]),
        };
        let found = counter.throughput(&layout, &ends).unwrap();
        assert_eq!(found.span_ticks, Bounded { estimate: 800, lo: 890 - 130, hi: 930 - 90 });
        assert_eq!((found.from.len(), found.to.len(), found.arrived), (2, 2, 10));
        let unrelated = |point: usize| ends(point).filter(|_| layout.points()[point].place.node.as_str() != "b");
        assert_eq!(counter.throughput(&layout, &unrelated), None);
    }

    #[test]
    fn windows_at_the_ends_are_not_whole_and_empty_ones_are_there() {
        let mut windows = Windows::default();
        [5, 700, 701, 900, 1_000].into_iter().for_each(|tick| windows.add(tick, 1));
        assert_eq!(windows.power, 4);
        let placed = windows.placed(Some);
        assert_eq!((placed[0].ticks, placed.last().unwrap().ticks), ([16, 32], [976, 992]));
        assert_eq!(placed.iter().map(|window| window.stamps).sum::<u64>(), 3);
    }
}
