//! Data of a run's figures: everything computed, nothing left to the page but to place it.
//!
//! Idea: one scan of the traces feeds the table and a sink, [`Collector`], that keeps the few traces worth drawing;
//! each stage's values are sorted once, and box and histogram are read from them. Guarantees: memory grows with the
//! number of traces and brackets no further than the table's does; every figure carries its bounds; what is thinned
//! says how much is shown of how much, and is the same every time, for any number of workers. Deliberately absent:
//! seconds, names for people, colours.

mod bins;
mod boxes;
mod curve;
mod histogram;
mod kinds;
mod traces;
mod traffic;
mod transfers;

use std::sync::Arc;

use serde::Serialize;
use tickscope_store::{Channel, KeyedReader};
use tickscope_trace::{Clocks, Layout, Quantile, Stage, StageRole, StageRow, StageValues};

use crate::error::Error;
use crate::jitter::Jitter;
use crate::over_time::OverTime;
use crate::overview::Overview;
use crate::path_columns::PathColumns;
use crate::scan::{Part, Piece, Sink, Wanted};
use crate::scatter_matrix::ScatterMatrix;
use crate::tail::Tail;
pub use bins::LengthBin;
pub use boxes::{Bounded, Quantiles, StageBox};
pub use curve::{ClockMapCurve, ShownBracket, ShownSource};
pub use histogram::Histogram;
pub use kinds::{KindDurations, KindStage, Kinds, MOST_KINDS};
pub use traces::{Cause, Drawn, DrawnTrace, KeptTraces, MOST_WORST};
pub use traffic::{PlacedProcess, PointTraffic, Throughput, Traffic, TrafficWindow};
pub use transfers::{Distance, Transfer};

/// Everything that a page draws. All figures are ticks of the reference.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// The points, in the layout's order.
    pub points: Vec<FigurePoint>,
    /// One a stage, in the layout's order.
    pub stages: Vec<StageBox>,
    /// How long the whole path took; `None`: no trace has both its ends.
    pub end_to_end: Option<Histogram>,
    /// How long each stage took, in the layout's order.
    pub histograms: Vec<StageHistogram>,
    /// The traces worth looking at one by one.
    pub traces: KeptTraces,
    /// One a related domain.
    pub clock_maps: Vec<ClockMapCurve>,
    /// The path's stages against its end-to-end.
    pub jitter: Jitter,
    /// How they go with each other.
    pub scatter_matrix: ScatterMatrix,
    /// What each of them adds to the slowest traces.
    pub tail: Tail,
    /// The whole while the run goes on; `None`: no trace is whole, or nothing says when they began.
    pub over_time: Option<OverTime>,
    /// The whole and its stages while the run goes on, with bounds; `None` as above.
    pub overview: Option<Overview>,
    /// How long it took from point to point, by how far apart the two ran.
    pub transfers: Vec<Transfer>,
    /// Where the points ran, and their stamps over time.
    pub traffic: Traffic,
    /// How long each stage took, kinds of ids apart.
    pub kinds: Kinds,
}

/// How often a stage took how long.
#[derive(Clone, Debug, Serialize)]
pub struct StageHistogram {
    /// The stage's name.
    pub stage: String,
    /// True of a stage from the path's first point to its last.
    pub is_whole: bool,
    /// Traces with a duration: those counted.
    pub traces: u64,
    /// Traces that lack a stamp of the stage: in no bin.
    pub missing: u64,
    /// Traces with both stamps but no interval: in no bin.
    pub refused: u64,
    /// The counts; `None`: no trace has a duration.
    pub histogram: Option<Histogram>,
}

/// A point of the layout.
#[derive(Debug, Serialize)]
pub struct FigurePoint {
    /// Its node.
    pub node: String,
    /// Its name within the node.
    pub name: String,
    /// True if edges join it; else it is at the end of a branch.
    pub on_path: bool,
    /// The first and the last raw tick of all traces there; `None` also where it is stamped with another clock than its
    /// node's counter.
    pub ticks: Option<(i64, i64)>,
}

impl StageHistogram {
    fn of(row: &StageRow, histogram: Option<Histogram>) -> Self {
        Self {
            stage: row.name.clone(),
            is_whole: row.role == StageRole::EndToEnd,
            traces: row.count,
            missing: row.missing,
            refused: row.refused,
            histogram,
        }
    }
}

/// What is drawn besides what was collected.
pub(crate) struct ToDraw {
    pub stages: Vec<StageFigures>,
    pub clock_maps: Vec<ClockMapCurve>,
    /// From which quantile on a trace is slow.
    pub slow: Quantile,
}

/// Data of one stage's figures.
#[derive(Debug)]
pub(crate) struct StageFigures {
    stage_box: StageBox,
    histogram: Option<Histogram>,
}

impl StageFigures {
    /// Figures of all values of `stage`, which are left sorted.
    pub(crate) fn of(stage: &Stage, values: &mut StageValues) -> Self {
        let stage_box = StageBox::of(stage, values);
        Self { stage_box, histogram: Histogram::of(values.sorted()) }
    }
}

/// Sink of what [`Figures`] need of single traces.
#[derive(Clone)]
pub(crate) struct Collector {
    traces: traces::Keeper,
    /// By point: first and last raw tick.
    ticks: Vec<Option<(i64, i64)>>,
    transfers: transfers::Transfers,
    traffic: traffic::TrafficCounter,
    kinds: kinds::KindCounter,
    channels: Arc<Vec<Channel>>,
}

impl Collector {
    /// None yet of traces that `readers` read and `channels` stamped.
    pub(crate) fn none(layout: &Layout, readers: &[KeyedReader], channels: Vec<Channel>) -> Self {
        Self {
            traces: traces::Keeper::default(),
            ticks: Vec::new(),
            transfers: transfers::Transfers::none(layout, &channels),
            traffic: traffic::TrafficCounter::none(layout, readers),
            kinds: kinds::KindCounter::none(layout),
            channels: Arc::new(channels),
        }
    }

    /// The figures; stages and `rows` in the layout's order.
    pub(crate) fn figures(
        self,
        layout: &Layout,
        clocks: &Clocks,
        drawn: ToDraw,
        rows: &[StageRow],
        path: PathColumns,
    ) -> Result<Figures, Error> {
        let ToDraw { stages, clock_maps, slow } = drawn;
        let (stages, histograms): (Vec<StageBox>, Vec<Option<Histogram>>) =
            stages.into_iter().map(|stage| (stage.stage_box, stage.histogram)).unzip();
        let histograms: Vec<_> = rows.iter().zip(histograms).map(|(row, of)| StageHistogram::of(row, of)).collect();
        let relative_ticks: Vec<u64> = rows.iter().map(|row| row.relative_ticks).collect();
        let path = path.in_time();
        let names = path.names(layout);
        let whole = path.stages().last().copied();
        let first = whole.map(|whole| layout.stages()[whole].from);
        let instant = |raw: i64| Some(clocks.instant(first?, raw)?[0]);
        let origin = path.begun().iter().filter_map(|&raw| instant(raw)).min();
        let bounds: Vec<u64> = path.stages().iter().map(|&stage| relative_ticks[stage]).collect();
        let begins = |ticks: &[Option<i64>]| instant(ticks[layout.stages()[whole?].from]?)?.checked_sub(origin?);
        let on_path = layout.trunk().len();
        let points = layout.points().iter().enumerate();
        let points = points.map(|(at, point)| FigurePoint {
            node: point.place.node.to_string(),
            name: point.place.point.to_string(),
            on_path: at < on_path,
            ticks: self.ticks.get(at).copied().flatten(),
        });
        Ok(Figures {
            points: points.collect(),
            traces: self.traces.finish(layout, clocks, &stages, &relative_ticks, begins)?,
            stages,
            end_to_end: histograms.iter().filter(|of| of.is_whole).find_map(|of| of.histogram.clone()),
            histograms,
            clock_maps,
            jitter: Jitter::of(&path, &names),
            scatter_matrix: ScatterMatrix::of(&path, &names),
            tail: Tail::of(&path, &names, &bounds, slow),
            over_time: OverTime::of(&path, instant, bounds.last().copied().unwrap_or(0)),
            overview: Overview::of(&path, instant),
            transfers: self.transfers.finish(),
            traffic: self.traffic.finish(layout, clocks, &self.channels),
            kinds: self.kinds.finish(layout),
        })
    }
}

impl Sink for Collector {
    type Part = Self;

    fn part(&self) -> Self {
        Self {
            traces: traces::Keeper::default(),
            ticks: Vec::new(),
            transfers: self.transfers.part(),
            traffic: self.traffic.part(),
            kinds: self.kinds.part(),
            channels: Arc::clone(&self.channels),
        }
    }

    fn wanted(&self) -> Vec<Wanted> {
        [self.transfers.wanted(), self.traffic.wanted()].concat()
    }

    fn merge(&mut self, later: Self) -> Result<(), Error> {
        self.transfers.merge(later.transfers)?;
        self.traffic.merge(later.traffic)?;
        self.kinds.merge(later.kinds)?;
        self.traces.merge(later.traces);
        self.ticks.resize(later.ticks.len().max(self.ticks.len()), None);
        for (known, more) in self.ticks.iter_mut().zip(later.ticks) {
            more.into_iter().for_each(|more| stretch(known, more));
        }
        Ok(())
    }
}

impl Part for Collector {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        self.transfers.add(piece)?;
        self.traffic.add(piece)?;
        self.kinds.add(piece)?;
        let &Piece { layout, traces, durations, .. } = piece;
        self.traces.add(layout, traces, durations);
        self.ticks.resize(layout.points().len(), None);
        for (point, (known, column)) in self.ticks.iter_mut().zip(traces.points()).enumerate() {
            if durations.own(point).is_none() {
                column.present().for_each(|&tick| stretch(known, (tick, tick)));
            }
        }
        Ok(())
    }
}

fn stretch(known: &mut Option<(i64, i64)>, more: (i64, i64)) {
    let (first, last) = known.unwrap_or(more);
    *known = Some((first.min(more.0), last.max(more.1)));
}
