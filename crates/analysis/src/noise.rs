//! How much of the figures is the machine: each stage with and without the traces that something else disturbed.
//!
//! Idea: a trace is disturbed in a stage if, between its two stamps, a task that took none of its stamps had a core on
//! which the thread of one of the two ran between them, or an interrupt, a softirq or a page fault held up that thread.
//! A whole is disturbed if a stage of its path is. Assumes: rows tell the truth, as far as a run with `[noise]` states
//! (`tickscope show --assumptions`); they are compared with raw ticks of the same counter.
//! Guarantees: a trace that nothing is known to have disturbed, and of which something is not known, counts as unknown
//! and is in no figure of those without; nothing is removed: the figures of all stand beside. Deliberately absent:
//! whether it would have been faster.

mod cores;
pub(crate) mod pauses;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::Serialize;
use tickscope_store::{Channel, NoiseClass, NoiseRow, Run};
use tickscope_tick::Clock;
use tickscope_trace::{Attribute, Layout, Quantile, QuantileBounds, StageRole, StageValues};

use crate::error::Error;
use crate::inputs::Inputs;
use crate::query::Query;
use crate::scan::{Part, Piece, Scan, Sink, Wanted};
use cores::{Cores, Stamped, Took};
use pauses::Pauses;

/// Neighbours of a stage that are named.
const MOST_NAMED: usize = 100;

/// One stage without the traces that something disturbed.
#[derive(Clone, Debug)]
pub struct StageNoise {
    /// Its name.
    pub name: String,
    /// Durations of which it is known that nothing disturbed them; the quantiles are theirs.
    pub undisturbed: u64,
    /// Durations that something disturbed.
    pub disturbed: u64,
    /// Durations of which it is not known.
    pub unknown: u64,
    /// The median of the undisturbed.
    pub p50: Option<QuantileBounds>,
    /// Their 99th percentile.
    pub p99: Option<QuantileBounds>,
    /// Their 99.9th.
    pub p999: Option<QuantileBounds>,
    /// What disturbed it, those that took the most time first.
    pub neighbours: Vec<Neighbour>,
}

/// Something that disturbed a stage.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Neighbour {
    /// `task`, `interrupt`, `softirq` or `fault`; `pause` of a JVM.
    pub class: &'static str,
    /// The task, interrupt or softirq; the operation that a JVM paused for.
    pub name: String,
    /// Durations that it disturbed.
    pub disturbed: u64,
    /// How long it took of them, in ticks of its host's counter.
    pub ticks: i64,
    /// Durations in which a thread that stamped was certainly held up by it: interrupted, or preempted there.
    pub held_up: u64,
    /// For how long; a thread that was woken meanwhile waited without that being known.
    pub held_up_ticks: i64,
}

impl Neighbour {
    fn of((class, name): (&'static str, &str), took: &Sum) -> Self {
        let Sum { durations: disturbed, held_up, took: Took { ticks, held_up: held_up_ticks } } = *took;
        Self { class, name: name.into(), disturbed, ticks, held_up, held_up_ticks }
    }
}

/// A sink of all traces of a run whose noise was recorded.
#[derive(Debug)]
pub(crate) struct Noise {
    known: Arc<Known>,
    stages: Vec<OfStage>,
    /// Of traces with every stage of the path that took no less from end to end alone.
    at_least_ticks: Option<i64>,
}

/// What rows are asked about.
#[derive(Debug)]
struct Known {
    hosts: Vec<Cores>,
    points: Vec<Option<PointThreads>>,
    /// What JVMs say of themselves is asked instead.
    pauses: Option<Pauses>,
}

/// Who stamped at a point whose host was recorded.
#[derive(Clone, Debug)]
struct PointThreads {
    host: usize,
    /// By channel.
    threads: HashMap<i64, i32>,
}

/// What is gathered of one stage.
#[derive(Clone, Debug, Default)]
struct OfStage {
    values: StageValues,
    undisturbed: u64,
    disturbed: u64,
    unknown: u64,
    /// By host and name.
    neighbours: BTreeMap<(usize, usize), Sum>,
}

/// What one neighbour took of all durations.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    durations: u64,
    /// Those in which a thread was certainly held up by it.
    held_up: u64,
    took: Took,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.durations += other.durations;
        self.held_up += other.held_up;
        self.took.add(other.took);
    }
}

/// What disturbed one duration, by host and name; `None`: not known.
type Verdict = Option<BTreeMap<(usize, usize), Took>>;

impl Noise {
    /// Beside it, files that could not be read. `None`: no noise was recorded. `other_clock`: whether the stamps of a
    /// point are readings of another clock than its node's counter.
    pub(crate) fn of(
        run: &Run,
        layout: &Layout,
        other_clock: impl Fn(usize) -> bool,
    ) -> Result<(Option<Self>, Vec<tickscope_store::Error>), Error> {
        let (mut unread, mut boots, mut hosts) = (Vec::new(), Vec::new(), Vec::new());
        for node in &run.manifest().nodes {
            let listing = run.noise(node.name.as_str())?;
            unread.extend(listing.refused);
            if !listing.found.is_empty() && !boots.contains(&node.boot) {
                boots.push(node.boot);
                hosts.push(Cores::of(listing.found.rows()));
            }
        }
        if hosts.is_empty() {
            return Ok((None, unread));
        }
        let channels = run.channels()?.found;
        let point = |(at, point): (usize, &tickscope_trace::Point)| {
            let node = run.manifest().nodes.iter().find(|node| node.name == point.place.node)?;
            let is_raw = node.injected.is_none() && node.counter.counter == Clock::Tsc && !other_clock(at);
            let host = boots.iter().position(|boot| *boot == node.boot).filter(|_| is_raw)?;
            let of_point =
                |channel: &&Channel| channel.node == node.name.as_str() && channel.point == point.place.point.as_str();
            let threads = channels.iter().filter(of_point).map(|of| (i64::from(of.channel), of.thread));
            Some(PointThreads { host, threads: threads.collect() })
        };
        let points = layout.points().iter().enumerate().map(point).collect();
        let stages = vec![OfStage::default(); layout.stages().len()];
        let known = Arc::new(Known { hosts, points, pauses: None });
        Ok((Some(Self { known, stages, at_least_ticks: None }), unread))
    }

    /// Of pauses of JVMs instead. `None`: no log of one was taken in.
    pub(crate) fn of_pauses(run: &Run, inputs: &Inputs, query: &Query) -> Result<Option<Self>, Error> {
        let [points, stages] = [inputs.layout.points().len(), inputs.layout.stages().len()];
        let known = |pauses| Known { hosts: Vec::new(), points: vec![None; points], pauses: Some(pauses) };
        let pauses = Pauses::of(run, inputs, query)?.map(known);
        let of =
            |known| Self { known: Arc::new(known), stages: vec![OfStage::default(); stages], at_least_ticks: None };
        Ok(pauses.map(of))
    }

    /// Each stage, in the layout's order.
    pub(crate) fn finish(self, layout: &Layout) -> Vec<StageNoise> {
        let Self { known, stages, .. } = self;
        let stages = layout.stages().iter().zip(stages);
        stages.map(|(stage, of)| of.finish(stage.name.clone(), &known)).collect()
    }
}

/// Cores of one host by its rows alone, without a run.
#[derive(Debug)]
pub struct HostNoise(Cores);

impl HostNoise {
    /// By its rows, in any order.
    pub fn of(rows: impl Iterator<Item = NoiseRow>) -> Self {
        Self(Cores::of(rows))
    }

    /// Classes and names of all that disturbed the threads of two stamps between them; `None`: not known. `ends`: tick
    /// and thread of each stamp; `own`: threads that disturb nobody.
    pub fn between(&self, ends: [(i64, i32); 2], own: &[i32]) -> Option<BTreeSet<&(NoiseClass, String)>> {
        let mut found = BTreeSet::new();
        let ends = ends.map(|(tick, thread)| Stamped { tick, thread });
        self.0.between(ends, own, |name, _| {
            found.insert(self.0.name(name));
        })?;
        Some(found)
    }
}

/// What disturbed the traces with every stage of the path that took at least so long from end to end, in the layout's
/// order; empty: no noise was recorded.
pub fn noise_of_slow(run: &Run, query: &Query, at_least_ticks: i64) -> Result<Vec<StageNoise>, Error> {
    let scan = Scan::of(run, query)?;
    let (noise, _) = Noise::of(run, scan.layout(), |point| scan.inputs.clock_of_point[point].is_some())?;
    let Some(noise) = noise else { return Ok(Vec::new()) };
    let mut slow = Noise { at_least_ticks: Some(at_least_ticks), ..noise };
    scan.over(&mut slow)?;
    Ok(slow.finish(scan.layout()))
}

/// True of a trace that has every stage of the path and took no less from end to end.
fn is_slow(piece: &Piece<'_>, row: usize, at_least_ticks: i64) -> bool {
    let stages = piece.layout.stages().iter().enumerate();
    let mut of_path = stages.filter(|(_, stage)| matches!(stage.role, StageRole::Path | StageRole::EndToEnd));
    of_path.all(|(at, stage)| {
        let took = piece.durations.stages()[at].estimate.get(row);
        took.is_some_and(|took| stage.role == StageRole::Path || took >= at_least_ticks)
    })
}

impl OfStage {
    fn add(&mut self, values: [i64; 3], verdict: &Verdict) {
        match verdict {
            None => self.unknown += 1,
            Some(found) if found.is_empty() => {
                self.undisturbed += 1;
                self.values.push(values);
            }
            Some(found) => {
                self.disturbed += 1;
                for (&name, &took) in found {
                    let held_up = u64::from(took.held_up > 0);
                    self.neighbours.entry(name).or_default().add(Sum { durations: 1, held_up, took });
                }
            }
        }
    }

    fn append(&mut self, other: Self) {
        self.values.append(other.values);
        self.undisturbed += other.undisturbed;
        self.disturbed += other.disturbed;
        self.unknown += other.unknown;
        other.neighbours.into_iter().for_each(|(name, sum)| self.neighbours.entry(name).or_default().add(sum));
    }

    fn finish(self, name: String, known: &Known) -> StageNoise {
        let Self { mut values, undisturbed, disturbed, unknown, neighbours } = self;
        let neighbour = |(&(host, name), sum): (&(usize, usize), &Sum)| Neighbour::of(known.name(host, name), sum);
        let mut neighbours: Vec<Neighbour> = neighbours.iter().map(neighbour).collect();
        neighbours.sort_by(|one, other| (other.ticks, &one.name).cmp(&(one.ticks, &other.name)));
        neighbours.truncate(MOST_NAMED);
        let [p50, p99, p999] =
            [Quantile::MEDIAN, Quantile::P99, Quantile::P999].map(|quantile| values.quantile(quantile));
        StageNoise { name, undisturbed, disturbed, unknown, p50, p99, p999, neighbours }
    }
}

impl Known {
    /// Class and name of what disturbed.
    fn name(&self, host: usize, name: usize) -> (&'static str, &str) {
        match &self.pauses {
            Some(pauses) => ("pause", pauses.name(name)),
            None => {
                let (class, what) = self.hosts[host].name(name);
                (class.name(), what)
            }
        }
    }

    /// The host and the stamp of a point in that row.
    fn stamp(&self, piece: &Piece<'_>, point: usize, row: usize) -> Option<(usize, Stamped)> {
        let tick = piece.traces.points()[point].get(row)?;
        let of = self.points[point].as_ref()?;
        let thread = match piece.attribute(Wanted { point, attribute: Attribute::Channel }, row) {
            Some(channel) => *of.threads.get(&channel)?,
            // One channel stamped all of the point, or nobody knows which of them.
            None => *of.threads.values().next().filter(|_| of.threads.len() == 1)?,
        };
        Some((of.host, Stamped { tick, thread }))
    }

    /// What disturbed a row between two points.
    fn verdict(&self, piece: &Piece<'_>, [from, to]: [usize; 2], own: &[(usize, i32)], row: usize) -> Verdict {
        if let Some(pauses) = &self.pauses {
            return pauses.verdict(piece, [from, to], row);
        }
        let [(host, from), (other, to)] = [self.stamp(piece, from, row)?, self.stamp(piece, to, row)?];
        if host != other {
            return None; // two hosts' ticks are no interval of either
        }
        let own: Vec<i32> = own.iter().filter(|(at, _)| *at == host).map(|(_, thread)| *thread).collect();
        let mut found = BTreeMap::new();
        self.hosts[host].between([from, to], &own, |name, took| {
            let all: &mut Took = found.entry((host, name)).or_default();
            all.add(took);
        })?;
        Some(found)
    }

    /// What disturbed a whole: what did so with the stages of its path, if they are all of it.
    fn of_whole(&self, piece: &Piece<'_>, whole: usize, parts: &[(usize, Verdict)], row: usize) -> Verdict {
        let took = |stage: usize| piece.durations.stages()[stage].estimate.get(row);
        let sum = parts.iter().map(|(stage, _)| took(*stage)).sum::<Option<i64>>()?;
        let found: Vec<_> = parts.iter().flat_map(|(_, verdict)| verdict).flatten().collect();
        // One stage that is disturbed is enough, whatever is known of the others, where all of them are of this whole.
        let wholes = piece.layout.stages().iter().filter(|stage| stage.role == StageRole::EndToEnd).count();
        let is_all = Some(sum) == took(whole);
        let is_known = is_all && parts.iter().all(|(_, verdict)| verdict.is_some());
        if if found.is_empty() { !is_known } else { !is_all && wholes > 1 } {
            return None;
        }
        let mut all = BTreeMap::new();
        for (&name, &took) in found {
            let known: &mut Took = all.entry(name).or_default();
            known.add(took);
        }
        Some(all)
    }
}

/// What is gathered of one row group.
pub(crate) struct NoisePart {
    known: Arc<Known>,
    stages: Vec<OfStage>,
    at_least_ticks: Option<i64>,
}

impl Sink for Noise {
    type Part = NoisePart;

    fn part(&self) -> NoisePart {
        let stages = vec![OfStage::default(); self.stages.len()];
        NoisePart { known: self.known.clone(), stages, at_least_ticks: self.at_least_ticks }
    }

    fn merge(&mut self, part: NoisePart) -> Result<(), Error> {
        self.stages.iter_mut().zip(part.stages).for_each(|(all, more)| all.append(more));
        Ok(())
    }

    fn wanted(&self) -> Vec<Wanted> {
        let several = self.known.points.iter().enumerate();
        let several = several.filter(|(_, of)| of.as_ref().is_some_and(|of| of.threads.len() > 1));
        several.map(|(point, _)| Wanted { point, attribute: Attribute::Channel }).collect()
    }
}

impl Part for NoisePart {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        let Self { known, stages, at_least_ticks } = self;
        let all = || piece.layout.stages().iter().enumerate();
        let is_asked = |row: &usize| at_least_ticks.is_none_or(|ticks| is_slow(piece, *row, ticks));
        for row in (0..piece.traces.len()).filter(is_asked) {
            let stamps = (0..piece.layout.points().len()).filter_map(|point| known.stamp(piece, point, row));
            let own: Vec<(usize, i32)> = stamps.map(|(host, stamp)| (host, stamp.thread)).collect();
            let mut parts = Vec::new();
            for (at, stage) in all().filter(|(_, stage)| stage.role != StageRole::EndToEnd) {
                let (_, Some(span)) = piece.outcome(at, row) else { continue };
                let verdict = known.verdict(piece, [stage.from, stage.to], &own, row);
                if !piece.traces.repeats(row, [stage.from, stage.to]) {
                    stages[at].add([span.estimate, span.lo, span.hi], &verdict);
                }
                if stage.role == StageRole::Path {
                    parts.push((at, verdict));
                }
            }
            for (at, stage) in all().filter(|(_, stage)| stage.role == StageRole::EndToEnd) {
                let (_, Some(span)) = piece.outcome(at, row) else { continue };
                if !piece.traces.repeats(row, [stage.from, stage.to]) {
                    let verdict = known.of_whole(piece, at, &parts, row);
                    stages[at].add([span.estimate, span.lo, span.hi], &verdict);
                }
            }
        }
        Ok(())
    }
}
