//! From raw ticks to durations: an estimate and a guaranteed interval for every stage of every trace.
//!
//! Each stamp is translated once, into the interval of the reference that holds it and an admissible tick within; the
//! *estimate* of a stage is the difference of two such ticks, so estimates telescope: path stages sum to `end-to-end`
//! to the tick. *Bounds* do not telescope: each stage's interval, end-to-end included, is computed directly between its
//! two stamps (`brackets.md`, "Several domains"):
//!
//! | from, to | interval |
//! | --- | --- |
//! | both on the reference | the difference, exact |
//! | both on one local domain | the relation's span: slopes times the difference, intersected with what follows |
//! | anything else | every distance between the two stamps' intervals |
//!
//! Assumes: the relations' brackets are true and their rho honest; cores of one host share one counter, unless a
//! [`CoreTerm`] says how far they may differ. Guarantees: the estimate lies in the interval; nothing is clamped: where
//! no interval exists the duration is missing and is counted as refused, with both stamps ([`crate::StageTally`]).
//! Deliberately absent: a direct relation between two local domains, which would narrow their stages further. It will
//! be one more argument of [`Clocks`]; the estimate must then stay admissible in the narrower interval.

use tickscope_bracket::Relation;
use tickscope_tick::{Interval, Local, Reference, Span, Tick};

use crate::{Column, Error, Layout, Stage, Traces};

/// How the ticks of one domain become ticks of the reference.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a run has a handful of clocks, and looks each up once a stamp")]
pub enum Clock {
    /// They are ticks of the reference.
    Reference,
    /// Through a relation.
    Related(Relation),
}

/// The clock of every point of a layout. Points of nodes that share one domain share one clock.
#[derive(Clone, Debug)]
pub struct Clocks {
    clocks: Vec<Clock>,
    /// By point: index into `clocks`.
    of_point: Vec<usize>,
    core: CoreTerm,
}

/// How far two cores' readings of one shared counter may differ: added where a stage's stamps came from different
/// threads of one domain. 0 assumes that the kernel synchronised them.
///
/// It stands for cores by threads: a thread that migrates within the run must be given as `None`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CoreTerm {
    /// Ticks of the reference, either way.
    pub ticks: u64,
    /// By point: the one thread that stamped there; `None`: several did, or it is not known.
    pub threads: Vec<Option<i64>>,
}

/// Every stage of some traces, row by row as the traces, stages in the layout's order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Durations {
    stages: Vec<StageDurations>,
}

/// One stage of some traces, in ticks of the reference. A row has all three values or none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StageDurations {
    /// Between the two stamps' estimates; lies in the interval.
    pub estimate: Column,
    /// No admissible duration is shorter.
    pub lo: Column,
    /// No admissible duration is longer.
    pub hi: Column,
}

/// A stamp, and where it lies on the reference.
#[derive(Clone, Copy)]
struct Placed {
    raw: i64,
    estimate: Tick<Reference>,
    interval: Interval<Tick<Reference>>,
}

impl Clocks {
    /// The clocks of the points of `layout`; `of_node`: each node's name with the index of its clock in `clocks`.
    pub fn new(layout: &Layout, clocks: Vec<Clock>, of_node: &[(String, usize)]) -> Result<Self, Error> {
        let clock = |node: &str| {
            let known = of_node.iter().find(|(name, _)| name == node);
            let Some(&(_, index)) = known else {
                let remedy = "take brackets between this node and the reference, or name it as the reference";
                return Err(Error::new("a clock for every node", format!("none for '{node}'"), remedy));
            };
            if index < clocks.len() {
                return Ok(index);
            }
            let found = format!("clock {index} of {} for '{node}'", clocks.len());
            Err(Error::new("the index of a clock", found, "count the clocks from 0"))
        };
        let of_point = layout.points().iter().map(|point| clock(&point.node)).collect::<Result<_, _>>()?;
        Ok(Self { clocks, of_point, core: CoreTerm::default() })
    }

    /// The same clocks, not trusting cores of one host to agree.
    pub fn with_core_term(self, core: CoreTerm) -> Result<Self, Error> {
        if core.threads.len() == self.of_point.len() {
            return Ok(Self { core, ..self });
        }
        let found = format!("{} threads for {} points", core.threads.len(), self.of_point.len());
        Err(Error::new("one thread a point", found, "give every point's thread, or none where it is not known"))
    }

    /// Ticks that `stage` is widened by on either side because its stamps came from different cores.
    pub fn core_ticks(&self, stage: &Stage) -> u64 {
        let thread = |point: usize| self.core.threads.get(point).copied().flatten();
        let one_thread = thread(stage.from).is_some() && thread(stage.from) == thread(stage.to);
        if one_thread || !self.share_a_domain(stage) { 0 } else { self.core.ticks }
    }

    /// The relation that a point's ticks go through; `None` on the reference.
    pub(crate) fn relation(&self, point: usize) -> Option<&Relation> {
        match self.clocks.get(*self.of_point.get(point)?)? {
            Clock::Reference => None,
            Clock::Related(relation) => Some(relation),
        }
    }

    fn share_a_domain(&self, stage: &Stage) -> bool {
        let both_reference = self.relation(stage.from).is_none() && self.relation(stage.to).is_none();
        both_reference || self.of_point.get(stage.from) == self.of_point.get(stage.to)
    }

    fn place(&self, point: usize, raw: i64) -> Option<Placed> {
        let Some(relation) = self.relation(point) else {
            let estimate = Tick::new(raw);
            return Some(Placed { raw, estimate, interval: Interval::exactly(estimate) });
        };
        let estimate = relation.estimate(Tick::new(raw)).ok()?;
        Some(Placed { raw, estimate, interval: relation.interval(Tick::new(raw)).ok()? })
    }

    /// The guaranteed interval of one duration; `None` where there is none.
    fn bounds(&self, stage: &Stage, from: Placed, to: Placed) -> Option<Interval<Span<Reference>>> {
        match self.relation(stage.from) {
            Some(relation) if self.share_a_domain(stage) => {
                relation.span(Tick::<Local>::new(from.raw), Tick::new(to.raw)).ok()
            }
            _ => difference(to.interval, from.interval),
        }
    }

    /// Estimate, lo and hi of one duration; `None` where the evidence contradicts itself, or 64 bits do not hold it.
    fn measure(&self, stage: &Stage, from: Placed, to: Placed) -> Option<[i64; 3]> {
        let estimate = to.estimate.get().checked_sub(from.estimate.get())?;
        let bounds = self.bounds(stage, from, to)?;
        if !bounds.contains(Span::new(estimate)) {
            return None;
        }
        let core = self.core_ticks(stage);
        Some([estimate, bounds.lo().get().checked_sub_unsigned(core)?, bounds.hi().get().checked_add_unsigned(core)?])
    }
}

impl Durations {
    /// Every stage of `traces`, whose points are those of `layout`.
    pub fn of(layout: &Layout, clocks: &Clocks, traces: &Traces) -> Result<Self, Error> {
        let (points, columns) = (layout.points().len(), traces.points().len());
        if points != columns || points != clocks.of_point.len() {
            let found = format!("{columns} columns and clocks for {} points", clocks.of_point.len());
            let remedy = "use the layout that the traces were joined with";
            return Err(Error::new(format!("traces and clocks of the layout's {points} points"), found, remedy));
        }
        let placed: Vec<_> = (0..points).map(|point| placed(clocks, point, &traces.points()[point])).collect();
        let measured = |stage: &Stage| StageDurations::between(clocks, stage, &placed);
        Ok(Self { stages: layout.stages().iter().map(measured).collect() })
    }

    /// The stages, in the layout's order.
    pub fn stages(&self) -> &[StageDurations] {
        &self.stages
    }
}

impl StageDurations {
    fn between(clocks: &Clocks, stage: &Stage, placed: &[Vec<Option<Placed>>]) -> Self {
        let mut result = Self::default();
        for (&from, &to) in placed[stage.from].iter().zip(&placed[stage.to]) {
            let values = from.zip(to).and_then(|(from, to)| clocks.measure(stage, from, to));
            result.estimate.push(values.map(|[estimate, ..]| estimate));
            result.lo.push(values.map(|[_, lo, _]| lo));
            result.hi.push(values.map(|[.., hi]| hi));
        }
        result
    }
}

fn placed(clocks: &Clocks, point: usize, column: &Column) -> Vec<Option<Placed>> {
    (0..column.len()).map(|row| column.get(row).and_then(|raw| clocks.place(point, raw))).collect()
}

/// All distances from a tick of `earlier` to a tick of `later`; `None` where 64 bits do not hold them.
fn difference(
    later: Interval<Tick<Reference>>,
    earlier: Interval<Tick<Reference>>,
) -> Option<Interval<Span<Reference>>> {
    later.lo().get().checked_sub(earlier.hi().get())?;
    later.hi().get().checked_sub(earlier.lo().get())?;
    Some(later.since(earlier))
}
