//! What points under the policy `count` counted, over time: a figure a point, the bounds of its rate as a band.
//!
//! Guarantees: a band holds the rates of all readings that it stands for, each with its bounds; where no rate is known
//! there is none. Deliberately absent: sums over points.

use tickscope_analysis::{CountedPeriod, CountedPoint};
use tickscope_store::Run;

use crate::Report;
use crate::document::{Block, Document, part};
use crate::plot::{Axis, Figure, Ink};
use crate::quantity::{count, counted, utc};

const HEADING: &str = "What was only counted";
/// Points that are drawn.
const MOST_POINTS: usize = 12;
/// Bars of a figure: about as many as it has pixels between its axes.
const BARS: usize = 240;
/// Width of a bar, pixels.
const BAR_PIXELS: f64 = 2.0;

/// The page of a run that has nothing but counts.
pub fn counts_document(run: &Run, counted: &[CountedPoint]) -> Document {
    let text = "The points of this run only count, so there are no durations: how many stamps they had, and when.";
    Document {
        title: crate::name(run),
        about: utc(run.manifest().started_unix_ms),
        lead: vec![Block::paragraph(text)],
        first: Vec::new(),
        parts: vec![part(HEADING, points(run, counted))],
    }
}

/// A heading, and a figure for each point; nothing, where nothing was counted.
pub(crate) fn blocks(report: &Report<'_>) -> Vec<Block> {
    if report.counted.is_empty() {
        return Vec::new();
    }
    std::iter::once(Block::heading(HEADING)).chain(points(report.run, report.counted)).collect()
}

fn points(run: &Run, all: &[CountedPoint]) -> Vec<Block> {
    let more = all.len().checked_sub(MOST_POINTS).filter(|&more| more > 0);
    let more = more.map(|more| Block::paragraph(format!("{} more points: tickscope show --counts.", count(more))));
    let began = |of: &CountedPoint| CountedPoint::first_reading(all, of.node());
    let points = all.iter().take(MOST_POINTS).flat_map(|of| point(of, hertz(run, of), began(of)));
    points.chain(more).collect()
}

fn hertz(run: &Run, of: &CountedPoint) -> u64 {
    let nodes = &run.manifest().nodes;
    nodes.iter().find(|known| known.name.as_str() == of.node()).map_or(1, |node| node.counter.frequency.hertz.max(1))
}

fn point(of: &CountedPoint, hertz: u64, began: i64) -> Vec<Block> {
    let least = if of.total_is_whole { "" } else { "at least " };
    let (stamps, channels) = (counted(of.total, "stamp"), counted(of.channels, "channel"));
    let words = format!("{}: {least}{stamps} of {channels}.", of.point);
    let rates = bars(&of.periods, hertz, began, |period| Some([period.lo_hz?, period.hi_hz?]));
    let rates = figure(&rates, "stamps a second", &format!("Stamps a second at {}", of.point));
    let paused = bars(&of.periods, hertz, began, paused_share);
    let paused = figure(&paused, "% paused", &format!("Share of the time in which a JVM of {} paused", of.node()));
    let notes = of.notes.iter().map(Block::paragraph);
    std::iter::once(Block::paragraph(words)).chain(notes).chain(rates).chain(paused).collect()
}

/// Per cent of a period that pauses took, at least and at most.
fn paused_share(period: &CountedPeriod) -> Option<[f64; 2]> {
    let (since, [least, most]) = (period.since?, period.paused_ticks?);
    let [shortest, longest] = [period.before.checked_sub(since.1)?, period.after.checked_sub(since.0)?];
    (shortest > 0).then(|| [100.0 * least as f64 / longest as f64, 100.0 * most as f64 / shortest as f64])
}

/// Seconds since the first reading of the node's points, and the bounds of what was found around it.
struct Bar {
    at: f64,
    ends: [f64; 2],
}

/// What has both ends in a period, as many readings together as leave [`BARS`].
fn bars(
    periods: &[CountedPeriod],
    hertz: u64,
    began: i64,
    ends: impl Fn(&CountedPeriod) -> Option<[f64; 2]>,
) -> Vec<Bar> {
    let seconds = |tick: i64| (i128::from(tick) - i128::from(began)) as f64 / hertz as f64;
    let known = |period: &CountedPeriod| Some((seconds(period.before), ends(period)?));
    let together = periods.len().div_ceil(BARS).max(1);
    let hull = |periods: &[CountedPeriod]| {
        let found: Vec<(f64, [f64; 2])> = periods.iter().filter_map(known).collect();
        let at = found.first().map(|(at, _)| *at)?;
        let [least, most] = [
            found.iter().map(|(_, ends)| ends[0]).fold(f64::INFINITY, f64::min),
            found.iter().map(|(_, ends)| ends[1]).fold(0.0, f64::max),
        ];
        Some(Bar { at, ends: [least, most] })
    };
    periods.chunks(together).filter_map(hull).collect()
}

fn figure(bars: &[Bar], unit: &str, what: &str) -> Option<Block> {
    if bars.is_empty() {
        return None;
    }
    let x = Axis::from_0(bars.iter().map(|bar| bar.at), |at| format!("{at} s")).named("since the first reading");
    let y = Axis::from_0(bars.iter().map(|bar| bar.ends[1]), |at| format!("{at}")).named(unit);
    let mut figure = Figure::plane(x, y);
    for bar in bars {
        figure.upright(bar.at, bar.ends, BAR_PIXELS, Ink::of(0));
    }
    let middles: Vec<[f64; 2]> = bars.iter().map(|bar| [bar.at, f64::midpoint(bar.ends[0], bar.ends[1])]).collect();
    figure.curve(&middles, Ink::of(0));
    Some(figure.block(&format!("{what}, over the run: at least and at most.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(before: i64, rates: Option<[f64; 2]>) -> CountedPeriod {
        let [lo_hz, hi_hz] = [0, 1].map(|end| rates.map(|rates: [f64; 2]| rates[end]));
        let (after, since, count, periods, period_ns) = (before + 1, None, 1, 1, 1_000_000);
        CountedPeriod { before, after, since, count, periods, period_ns, lo_hz, hi_hz, paused_ticks: None, rate: None }
    }

    #[test]
    fn a_bar_holds_the_rates_of_all_readings_that_it_stands_for_and_none_stands_where_none_is_known() {
        let rates = |at: i64| (at >= 480).then_some([at as f64, at as f64 + 10.0]);
        let periods: Vec<CountedPeriod> = (0..1000).map(|at| period(at * 1000, rates(at))).collect();
        let rate = |period: &CountedPeriod| Some([period.lo_hz?, period.hi_hz?]);
        let found = bars(&periods, 1000, 0, rate);
        assert!(found.len() <= BARS && found[0].at >= 480.0, "{}", found.len());
        for at in 480..1000 {
            let of = found.iter().rfind(|bar| bar.at <= at as f64).unwrap();
            assert!(of.ends[0] <= at as f64 && of.ends[1] >= at as f64 + 10.0, "{at}: {:?}", of.ends);
        }
        let none = bars(&periods[..400], 1000, 0, rate);
        assert!(figure(&found, "", "").is_some() && figure(&none, "", "").is_none());
    }

    #[test]
    fn the_share_that_was_paused_is_the_least_of_the_longest_and_the_most_of_the_shortest_that_a_period_may_be() {
        let mut of = period(1000, None);
        (of.after, of.since, of.paused_ticks) = (1100, Some((0, 200)), Some([110, 400]));
        assert_eq!(paused_share(&of), Some([10.0, 50.0]));
        of.since = Some((0, 1000));
        assert_eq!(paused_share(&of), None, "readings that overlap");
    }
}
