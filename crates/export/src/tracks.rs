//! What of a layout is drawn as spans of time, and where: each stage on the node that it begins on.
//!
//! Where nothing follows a stage that ends on another node, its arrival there is drawn as well, so that what crosses
//! between nodes always leads somewhere.

use tickscope_analysis::{Outcome, Piece, Span};
use tickscope_tick::Unit;
use tickscope_trace::{Layout, StageRole};

/// What is drawn of each trace, in one order.
pub(crate) struct Tracks {
    /// Names of the nodes, in the order of their first points.
    pub nodes: Vec<String>,
    /// The stages, in the layout's order; then arrivals.
    pub all: Vec<Track>,
    /// Pairs of tracks whose slices an arrow joins: a stage that ends on another node, and what follows there.
    pub hops: Vec<(usize, usize)>,
}

/// A stage, or an arrival.
pub(crate) struct Track {
    pub name: String,
    /// Index of its node.
    pub node: usize,
    /// Index of its first point; of an arrival of the only one.
    from: usize,
    to: usize,
    /// Index of the stage; of an arrival that of the one it ends.
    pub stage: usize,
    pub is_arrival: bool,
}

/// What is drawn of one stage of one trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    /// The nanosecond below the estimate of its beginning.
    pub begin_ns: i64,
    /// The nanosecond above that of its end; of a negative duration that of the beginning.
    pub end_ns: i64,
    /// Raw ticks of the two stamps, each of its own clock.
    pub ticks: [i64; 2],
    /// The duration, on the reference.
    pub span: Span,
    /// Whether its estimate is below 0, so that no slice can show it.
    pub is_negative: bool,
}

/// How one stage of one trace can be drawn.
pub(crate) enum Drawn {
    /// It can.
    Shape(Shape),
    /// There is no duration, or it was drawn with the trace before it.
    No,
    /// There is one, and nothing places it on the reference.
    Unplaced,
}

impl Tracks {
    pub fn of(layout: &Layout) -> Self {
        let mut nodes: Vec<String> = Vec::new();
        let mut node = |point: usize| {
            let name = layout.points()[point].place.node.as_str();
            nodes.iter().position(|known| known == name).unwrap_or_else(|| {
                nodes.push(name.into());
                nodes.len() - 1
            })
        };
        let node_of: Vec<usize> = (0..layout.points().len()).map(&mut node).collect();
        let stages = layout.stages().iter().enumerate();
        let mut all: Vec<Track> = stages
            .map(|(stage, of)| Track {
                name: of.name.clone(),
                node: node_of[of.from],
                from: of.from,
                to: of.to,
                stage,
                is_arrival: false,
            })
            .collect();
        let mut hops = Vec::new();
        for (stage, of) in layout.stages().iter().enumerate() {
            if of.role != StageRole::Path || node_of[of.from] == node_of[of.to] {
                continue;
            }
            let following =
                |(_, next): &(usize, &tickscope_trace::Stage)| next.role == StageRole::Path && next.from == of.to;
            let next: Vec<usize> = layout.stages().iter().enumerate().filter(following).map(|(next, _)| next).collect();
            if next.is_empty() {
                hops.push((stage, all.len()));
                let name = layout.points()[of.to].place.to_string();
                all.push(Track { name, node: node_of[of.to], from: of.to, to: of.to, stage, is_arrival: true });
            }
            hops.extend(next.into_iter().map(|next| (stage, next)));
        }
        Self { nodes, all, hops }
    }
}

impl Track {
    /// How the trace in that row is drawn here; `Err`: its place in nanoseconds, which 64 bits do not hold.
    pub fn drawn(&self, piece: &Piece<'_>, row: usize, unit: Unit) -> Result<Drawn, i128> {
        let (Outcome::Measured | Outcome::Impossible, Some(span)) = piece.outcome(self.stage, row) else {
            return Ok(Drawn::No);
        };
        let stamp = |point: usize| Some((piece.traces.points()[point].get(row)?, piece.instant(point, row)?));
        let Some((from, to)) = stamp(self.from).zip(stamp(self.to)) else { return Ok(Drawn::Unplaced) };
        let is_negative = span.estimate < 0 && !self.is_arrival;
        let nanoseconds = |ns: i128| i64::try_from(ns).map_err(|_| ns);
        let begin_ns = nanoseconds(unit.down(from.1.estimate).digits())?;
        let end_ns = match is_negative || self.is_arrival {
            true => begin_ns,
            false => nanoseconds(unit.up(to.1.estimate).digits())?,
        };
        Ok(Drawn::Shape(Shape { begin_ns, end_ns, ticks: [from.0, to.0], span, is_negative }))
    }
}
