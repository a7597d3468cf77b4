//! From raw ticks to durations: an estimate and a guaranteed interval for every stage of every trace.
//!
//! Each stamp is translated once, into the interval of the reference that holds it and an admissible tick within; the
//! *estimate* of a stage is the difference of two such ticks, so estimates telescope: path stages sum to `end-to-end`
//! to the tick. *Bounds* do not telescope: each stage's interval, end-to-end included, is computed directly between its
//! two stamps (`docs/proof.md`, "Durations"):
//!
//! | from, to | interval |
//! | --- | --- |
//! | both on one counter | how far they are apart on it, at the clock map's slopes; intersected with what follows |
//! | anything else | every distance between the two stamps' intervals |
//!
//! How far two stamps are apart on a counter, whatever clocks they were read from: exactly, where both are its ticks;
//! by the slopes of another clock, where both were read from that; else every distance between the two intervals on it.
//!
//! Assumes: brackets are true and their rho honest; cores of one host share one counter, unless the width of its
//! readings holds how far they may differ. Guarantees: the estimate lies in the interval; nothing is clamped: where no
//! interval exists, or the two stamps are not known to be of one passage of their id, the duration is missing and is
//! counted as refused, with both stamps ([`crate::StageTally`]).

use std::cell::OnceCell;

use tickscope_bracket::Refused;

use crate::clocks::Placed;
use crate::readings::Readings;
use crate::{Clocks, Column, Error, Layout, Refusal, Stage, StageRole, Traces};

/// Every stage of some traces, row by row as the traces, stages in the layout's order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Durations {
    stages: Vec<StageDurations>,
    /// By point; `None` where it was stamped with its node's counter.
    own: Vec<Option<OwnStamps>>,
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

/// Where the stamps of one point, read from another clock than the node's counter, lie on that counter.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OwnStamps {
    /// The translated tick; lies in the interval.
    pub estimate: Column,
    /// The counter stood there or later.
    pub lo: Column,
    /// The counter stood there or earlier.
    pub hi: Column,
    /// Why a stamp has none of the three.
    pub refused: Vec<Option<Refused>>,
}

impl Durations {
    /// Every stage of `traces`, whose points are those of `layout`.
    pub fn of(layout: &Layout, clocks: &Clocks, traces: &Traces) -> Result<Self, Error> {
        Self::between(layout, clocks, traces, layout.stages())
    }

    /// From the first point of the layout to every point, in the order of [`Layout::points`]: where each trace stood,
    /// on one axis, with the interval that holds it. Computed directly, never as a sum over stages.
    pub fn since_first(layout: &Layout, clocks: &Clocks, traces: &Traces) -> Result<Self, Error> {
        let to =
            |to: usize| Stage { name: layout.points()[to].place.to_string(), from: 0, to, role: StageRole::EndToEnd };
        let stages: Vec<Stage> = (0..layout.points().len()).map(to).collect();
        Self::between(layout, clocks, traces, &stages)
    }

    fn between(layout: &Layout, clocks: &Clocks, traces: &Traces, stages: &[Stage]) -> Result<Self, Error> {
        let (points, columns) = (layout.points().len(), traces.points().len());
        if points != columns || points != clocks.points() {
            let found = format!("{columns} columns and clocks for {} points", clocks.points());
            let remedy = "use the layout that the traces were joined with";
            return Err(Error::new(format!("traces and clocks of the layout's {points} points"), found, remedy));
        }
        let placed: Vec<_> = (0..points).map(|point| Placing::of(clocks, point, &traces.points()[point])).collect();
        let measured = |stage: &Stage| {
            let together = |row| traces.together(layout, stage, row);
            let (from, to) = (&placed[stage.from], &placed[stage.to]);
            match clocks.way(stage).zip(from.readings.as_ref().zip(to.readings.as_ref())) {
                Some((way, (from, to))) => from.until(to, &way, traces.has_marks().then_some(together)),
                None => StageDurations::between(clocks, stage, from.stamps(clocks), to.stamps(clocks), together),
            }
        };
        let stages = stages.iter().map(measured).collect();
        let own = |placed: &Placing| clocks.own(placed.point).map(|_| OwnStamps::of(placed.stamps(clocks)));
        Ok(Self { stages, own: placed.iter().map(own).collect() })
    }

    /// The stages, in the layout's order; of [`Durations::since_first`] one a point.
    pub fn stages(&self) -> &[StageDurations] {
        &self.stages
    }

    /// The stamps of a point on its node's counter; `None` where they were read from it.
    pub fn own(&self, point: usize) -> Option<&OwnStamps> {
        self.own.get(point)?.as_ref()
    }

    /// Why a stage has no duration in this row, where both its stamps are there.
    pub(crate) fn refusal(&self, stage: &Stage, row: usize) -> Refusal {
        let refused = |point: usize| self.own(point).and_then(|own| *own.refused.get(row)?);
        refused(stage.from).or(refused(stage.to)).map_or(Refusal::NoInterval, Refusal::AuxiliaryClock)
    }
}

pub(crate) type Stamp = Option<Result<Placed, Refusal>>;

/// Where the stamps of a point lie.
struct Placing<'a> {
    point: usize,
    column: &'a Column,
    /// `None`: they were read from another clock than the node's counter.
    readings: Option<Readings<'a>>,
    /// One by one, where somebody asked.
    stamps: OnceCell<Vec<Stamp>>,
}

impl<'a> Placing<'a> {
    fn of(clocks: &'a Clocks, point: usize, column: &'a Column) -> Self {
        let readings = clocks.own(point).is_none().then(|| Readings::of(clocks, point, column));
        Self { point, column, readings, stamps: OnceCell::new() }
    }

    fn stamps(&self, clocks: &Clocks) -> &[Stamp] {
        self.stamps.get_or_init(|| placed(clocks, self.point, self.column))
    }
}

impl StageDurations {
    /// `together`: whether the stamps of a row are of one passage.
    pub(crate) fn between(
        clocks: &Clocks,
        stage: &Stage,
        from: &[Stamp],
        to: &[Stamp],
        together: impl Fn(usize) -> bool,
    ) -> Self {
        let counts = (0..from.len()).map(together).collect();
        Self::of_rows(counts, from.iter().zip(to), |stamps| match stamps {
            (Some(Ok(from)), Some(Ok(to))) => clocks.measure(stage, *from, *to),
            _ => None,
        })
    }

    /// So many rows without a duration.
    pub(crate) fn none(rows: usize) -> Self {
        let none = || Column::nulls(rows);
        Self { estimate: none(), lo: none(), hi: none() }
    }

    /// A row for each of `stamps`, with the values of those that count.
    #[inline]
    pub(crate) fn of_rows<S>(
        mut counts: Vec<bool>,
        stamps: impl Iterator<Item = S>,
        values: impl Fn(S) -> Option<[i64; 3]>,
    ) -> Self {
        let [mut estimates, mut lower, mut upper] = [(); 3].map(|()| vec![0; counts.len()]);
        let places = estimates.iter_mut().zip(&mut lower).zip(&mut upper).zip(&mut counts);
        for ((((estimate, lo), hi), counts), stamps) in places.zip(stamps) {
            if *counts {
                match values(stamps) {
                    Some(found) => [*estimate, *lo, *hi] = found,
                    None => *counts = false,
                }
            }
        }
        let column = |values| Column::of_rows(values, counts.clone());
        Self { estimate: column(estimates), lo: column(lower), hi: column(upper) }
    }

    /// Which rows have a duration, where one of the columns says so for all three, and the three; an empty slice: all.
    /// `None`: no row has one, or the columns differ.
    pub(crate) fn parts(&self) -> Option<(&[bool], [&[i64]; 3])> {
        let [estimate, lo, hi] = self.columns().map(|column| column.parts(0..column.len()));
        let ((estimate, valid), (lo, valid_lo), (hi, valid_hi)) = (estimate?, lo?, hi?);
        (valid == valid_lo && valid == valid_hi).then_some((valid, [estimate, lo, hi]))
    }
}

impl OwnStamps {
    fn of(placed: &[Stamp]) -> Self {
        let mut result = Self::default();
        for stamp in placed {
            let found = stamp.as_ref().and_then(|stamp| stamp.as_ref().ok());
            result.estimate.push(found.map(|stamp| stamp.counter_estimate.get()));
            result.lo.push(found.map(|stamp| stamp.counter.lo().get()));
            result.hi.push(found.map(|stamp| stamp.counter.hi().get()));
            result.refused.push(match stamp {
                Some(Err(Refusal::AuxiliaryClock(refused))) => Some(*refused),
                _ => None,
            });
        }
        result
    }
}

pub(crate) fn placed(clocks: &Clocks, point: usize, column: &Column) -> Vec<Stamp> {
    (0..column.len()).map(|row| column.get(row).map(|raw| clocks.place(point, raw))).collect()
}
