//! X-Lap's totals of a path from one node to another (its equations 1 to 4), beside ours.
//!
//! Its sender total is the time from the first point to the last one of the node that sends, its receiver total the
//! same on the node that receives, and its end-to-end is their sum: the channel in between is in neither, since two
//! clocks that nothing relates cannot tell it. Ours has the channel, with the interval that holds it. Assumes: 40
//! bytes a trace fit in memory. Guarantees: each total is computed directly between its two stamps, and the published
//! sum is of intervals. Deliberately absent: paths that lead back, which have no one sender.

use serde::Serialize;
use tickscope_store::Run;
use tickscope_tick::{Place, Unit};
use tickscope_trace::{Durations, Layout, LayoutText, Match, Quantile, QuantileBounds, StageRole, StageValues};

use crate::error::Error;
use crate::public_json::QuantileJson;
use crate::scan::{Part, Piece, Scan, Sink};
use crate::span::Span;

/// Decimals of a nanosecond.
const DECIMALS: u32 = 3;

/// The totals of a run whose path leads from one node to another.
#[derive(Clone, Debug)]
pub struct Totals {
    /// Traces that have all four points.
    pub traces: u64,
    /// Traces that lack one of them.
    pub left_out: u64,
    /// The sender's, the receiver's, the channel's, end-to-end as published, end-to-end with the channel.
    pub all: Vec<Total>,
}

/// One total.
#[derive(Clone, Debug)]
pub struct Total {
    /// Its name.
    pub name: &'static str,
    /// What it is the time of, in words.
    pub of: String,
    /// Quantiles, the longest and the mean, ticks of the reference.
    pub p50: Option<QuantileBounds>,
    /// The 99th percentile.
    pub p99: Option<QuantileBounds>,
    /// The longest.
    pub max: Option<QuantileBounds>,
    /// The mean.
    pub mean: Option<QuantileBounds>,
}

const NAMES: [&str; 5] = ["sender_total", "receiver_total", "channel", "end_to_end_published", "end_to_end"];

/// Totals as public JSON.
#[derive(Debug, Serialize)]
pub struct TotalsJson<'a> {
    traces: u64,
    left_out: u64,
    totals: Vec<TotalJson<'a>>,
}

#[derive(Debug, Serialize)]
struct TotalJson<'a> {
    name: &'a str,
    of: &'a str,
    p50: Option<QuantileJson>,
    p99: Option<QuantileJson>,
    max: Option<QuantileJson>,
    mean: Option<QuantileJson>,
}

/// X-Lap's totals of a run under `query`; `None`: its path does not lead once from one node to another, with two points
/// or more on each.
pub fn totals(run: &Run, scan: &Scan) -> Result<Option<Totals>, Error> {
    let Some(ends) = Ends::of(scan.layout()) else { return Ok(None) };
    let Some(mut columns) = Columns::of(&run.manifest().layout, scan.layout(), &ends) else { return Ok(None) };
    scan.over(&mut columns)?;
    Ok(Some(columns.totals(&ends)))
}

/// First and last point of the sender, then of the receiver.
struct Ends([Place; 4]);

impl Ends {
    fn of(layout: &Layout) -> Option<Self> {
        let stages = layout.stages();
        let mut wholes = stages.iter().filter(|stage| stage.role == StageRole::EndToEnd);
        let (whole, None) = (wholes.next()?, wholes.next()) else { return None };
        // Points between which ids change are stamped as often as there are ids, which is no path of one packet.
        let is_path = layout.edges().len() + 1 == layout.trunk().len();
        if !is_path || layout.edges().iter().any(|edge| edge.by != Match::Id) {
            return None;
        }
        let route = layout.route(whole);
        let points: Vec<usize> =
            std::iter::once(whole.from).chain(route.iter().map(|&stage| stages[stage].to)).collect();
        let place = |at: usize| &layout.points()[points[at]].place;
        let turn = (1..points.len()).find(|&at| place(at).node != place(0).node)?;
        let last = points.len() - 1;
        let is_once = (turn..=last).all(|at| place(at).node == place(turn).node);
        (is_once && turn >= 2 && last > turn).then(|| Self([0, turn - 1, turn, last].map(|at| place(at).clone())))
    }
}

/// Durations of the four pairs of points, and of the published sum.
struct Columns {
    /// The run's layout with the totals as stages.
    layout: Layout,
    /// Sender, receiver, channel, whole.
    stages: [usize; 4],
    values: [StageValues; 5],
    traces: u64,
    left_out: u64,
}

impl Columns {
    fn of(text: &LayoutText, layout: &Layout, Ends([first, sent, received, last]): &Ends) -> Option<Self> {
        let pairs = [(first, sent), (received, last), (sent, received), (first, last)];
        let pairs = pairs.map(|(from, to)| format!("{from} > {to}"));
        let mut text = text.clone();
        text.extra.extend(pairs.iter().filter(|pair| layout.stage_named(pair).is_err()).cloned());
        let with_totals = text.parse(None).ok().filter(|with| with.points() == layout.points())?;
        let stages = pairs.map(|pair| with_totals.stage_named(&pair));
        let [Ok(sender), Ok(receiver), Ok(channel), Ok(whole)] = stages else { return None };
        Some(Self::none(&with_totals, [sender, receiver, channel, whole]))
    }

    fn none(layout: &Layout, stages: [usize; 4]) -> Self {
        Self { layout: layout.clone(), stages, values: Default::default(), traces: 0, left_out: 0 }
    }

    fn totals(self, Ends([first, sent, received, last]): &Ends) -> Totals {
        let Self { values, traces, left_out, .. } = self;
        let ways = [
            format!("{first} > {sent}"),
            format!("{received} > {last}"),
            format!("{sent} > {received}"),
            format!("{first} > {sent} and {received} > {last}, without the channel"),
            format!("{first} > {last}"),
        ];
        let all = NAMES.into_iter().zip(ways).zip(values).map(|((name, of), mut values)| {
            let [p50, p99, max] = [Quantile::MEDIAN, Quantile::P99, Quantile::MAXIMUM].map(|at| values.quantile(at));
            Total { name, of, p50, p99, max, mean: values.mean() }
        });
        Totals { traces, left_out, all: all.collect() }
    }
}

impl Part for Columns {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        let durations = Durations::of(&self.layout, piece.clocks, piece.traces).map_err(Error::work)?;
        let whole = &self.layout.stages()[self.stages[3]];
        for row in (0..piece.traces.len()).filter(|&row| !piece.traces.repeats(row, [whole.from, whole.to])) {
            let spans = self.stages.map(|stage| Span::of(&durations.stages()[stage], row));
            let all = spans.into_iter().collect::<Option<Vec<Span>>>();
            let all = all.and_then(|all| Some([all[0], all[1], all[2], sum(all[0], all[1])?, all[3]]));
            let Some(all) = all else {
                self.left_out += 1;
                continue;
            };
            self.traces += 1;
            let values = self.values.iter_mut().zip(all);
            values.for_each(|(values, Span { estimate, lo, hi })| values.push([estimate, lo, hi]));
        }
        Ok(())
    }
}

/// Two durations one after the other; `None`: longer than a tick counts.
fn sum(one: Span, other: Span) -> Option<Span> {
    let [estimate, lo, hi] = [(one.estimate, other.estimate), (one.lo, other.lo), (one.hi, other.hi)]
        .map(|(one, other)| one.checked_add(other));
    Some(Span { estimate: estimate?, lo: lo?, hi: hi? })
}

impl Sink for Columns {
    type Part = Self;

    fn part(&self) -> Self {
        Self::none(&self.layout, self.stages)
    }

    fn merge(&mut self, part: Self) -> Result<(), Error> {
        self.values.iter_mut().zip(part.values).for_each(|(all, later)| all.append(later));
        self.traces += part.traces;
        self.left_out += part.left_out;
        Ok(())
    }
}

impl Totals {
    /// The same for programs, of a reference that makes so many ticks a second.
    pub fn json(&self, hertz: u64) -> TotalsJson<'_> {
        let unit = Unit::nanoseconds(hertz, DECIMALS);
        let json = |bounds: Option<QuantileBounds>| bounds.map(|bounds| QuantileJson::of(bounds, unit));
        let totals = self.all.iter().map(|Total { name, of, p50, p99, max, mean }| {
            let [p50, p99, max, mean] = [*p50, *p99, *max, *mean].map(json);
            TotalJson { name, of, p50, p99, max, mean }
        });
        TotalsJson { traces: self.traces, left_out: self.left_out, totals: totals.collect() }
    }
}
