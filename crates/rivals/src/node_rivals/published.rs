//! The published size of error of a duration (Cloudprofiler, Table II) for a run's own exchanges, and our interval of
//! the same durations.
//!
//! Idea: with `e` half the longer round trip of two exchanges and `D` the time between them, the published error of a
//! duration `d` on one node is `2 d/D e` (scenario 1), from the reference to a node `e` (scenario 2), between two other
//! nodes `2 d/D e + r e` (scenario 3), and `2 e` where each end is translated by itself (baseline). Each pair has its
//! own `e`; the rate `r` brings the one between the two nodes into ticks of the reference.
//!
//! Assumes: durations between the two exchanges of every pair that takes part, as the paper does. Guarantees: sizes are
//! rounded up; a truth counts as outside where no reading's width explains it. Deliberately absent: wander, which the
//! published sizes leave out; where it matters, the truth lies outside.

use serde::Serialize;
use tickscope_analysis::reading_ticks;
use tickscope_bracket::ClockMap;
use tickscope_store::Node;
use tickscope_tick::Tick;

use super::{Comparing, RivalWidth, TwoPoint, ceil, ns_up};

/// The published errors of durations on a node and between it and another.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PublishedErrors {
    /// `e`: half the longer round trip of the two exchanges, ns, rounded up.
    pub e_ns: i64,
    /// `D`: the time between the two, ns.
    pub apart_ns: i64,
    /// A row for each case and duration.
    pub rows: Vec<PublishedError>,
}

/// One case of Table II at one duration.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PublishedError {
    /// `scenario-1` on the node, `scenario-2` from the reference to it, `scenario-3` and `baseline` between two others.
    pub case: PublishedCase,
    /// `d`, ns.
    pub duration_ns: i64,
    /// The published size of error, ns, rounded up.
    pub published_ns: i64,
    /// Half the width of our interval of the same durations.
    pub guaranteed: RivalWidth,
    /// How far the published value was off at the median and at most, ns; `None`: the truth is not known.
    pub error_ns: Option<[i64; 2]>,
    /// Durations whose truth lies beyond the published error; `None`: not known.
    pub outside_published: Option<usize>,
    /// Durations whose truth lies outside of our interval.
    pub outside_guaranteed: Option<usize>,
    /// Durations that were compared.
    pub durations: usize,
}

/// A case of Table II.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PublishedCase {
    /// Both ends on a node that is not the reference.
    #[serde(rename = "scenario-1")]
    Scenario1,
    /// From the reference to another node.
    #[serde(rename = "scenario-2")]
    Scenario2,
    /// Between two nodes that are not the reference, by their own two exchanges.
    #[serde(rename = "scenario-3")]
    Scenario3,
    /// The same, each end translated by itself.
    Baseline,
}

impl PublishedCase {
    /// As the table calls it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Scenario1 => "scenario 1: on one node",
            Self::Scenario2 => "scenario 2: from the reference to a node",
            Self::Scenario3 => "scenario 3: between two other nodes",
            Self::Baseline => "baseline: the same, each end by itself",
        }
    }
}

/// The durations: one of a request, and one that is long for it.
const DURATIONS_NS: [i64; 2] = [1_000_000, 1_000_000_000];
/// Durations of each length, spread between the two exchanges.
const COUNT: i128 = 100;

/// A node's two exchanges with the reference, and the map by all evidence.
#[derive(Clone, Copy)]
pub(super) struct AgainstReference<'a> {
    pub(super) node: &'a Node,
    pub(super) points: TwoPoint,
    pub(super) map: &'a ClockMap,
}

/// One duration: doubled ticks of the reference, but for the truth.
struct Compared {
    value: i128,
    half: i128,
    ours: [i128; 2],
    truth: Option<[i128; 2]>,
}

/// Durations of one length.
struct Length<'a> {
    case: PublishedCase,
    duration_ns: i64,
    /// The counter that they start on: its frequency, and between which ticks they lie.
    hertz: u64,
    span: [i128; 2],
    /// Who is compared: all of them are read, and a counter stands up to a reading's width beyond.
    nodes: &'a [&'a Node],
}

impl Comparing<'_> {
    /// Scenarios 1 and 2 of a node against the reference.
    pub(super) fn of_reference(&self, points: &TwoPoint) -> PublishedErrors {
        let length = |case, duration_ns| Length {
            case,
            duration_ns,
            hertz: self.hertz()[0],
            span: points.at,
            nodes: &self.nodes,
        };
        let one = |ns| self.row(&length(PublishedCase::Scenario1, ns), |u, d| self.scenario_1(points, u, d));
        let two = |ns| self.row(&length(PublishedCase::Scenario2, ns), |u, d| self.scenario_2(points, u, d));
        let rows = DURATIONS_NS.into_iter().flat_map(|ns| [one(ns), two(ns)]).flatten().collect();
        self.errors(points, rows)
    }

    /// Scenario 3 and the baseline of two nodes that are both related to the reference.
    pub(super) fn of_others(
        &self,
        points: &TwoPoint,
        [node, from]: [AgainstReference<'_>; 2],
        reference: &Node,
    ) -> PublishedErrors {
        let to_reference = Comparing { nodes: [from.node, reference], map: from.map, ..*self };
        let nodes = [node.node, from.node, reference];
        // A doubled middle of the pair's own exchanges is a tick of the first node's counter.
        let span = [from.points.at[0].max(ceil(points.middles[0], 2)), from.points.at[1].min(points.middles[1] / 2)];
        let between = |at: i128, ends: [i128; 2]| (ends[0]..=ends[1]).contains(&at);
        let compared = |case, duration_ns| {
            let length = Length { case, duration_ns, hertz: self.hertz()[1], span, nodes: &nodes };
            to_reference.row(&length, |u, d| {
                let v = self.map.inverse(Tick::new(u.checked_add(i64::try_from(d).ok()?)?)).ok()?;
                let v = v.lo().get().midpoint(v.hi().get());
                if !between(v.into(), node.points.at) || !between(v.into(), points.at) {
                    return None;
                }
                let (value, half) = match case {
                    PublishedCase::Baseline => baseline(&node.points, &from.points, [u, v]),
                    _ => scenario_3(points, &from.points, [u, v], d),
                };
                let ours = self.by_every_way([node, from], [u, v])?;
                let truth = to_reference.true_span((from.node, u), (node.node, v));
                Some(Compared { value, half, ours, truth })
            })
        };
        let both = |ns| [compared(PublishedCase::Scenario3, ns), compared(PublishedCase::Baseline, ns)];
        let rows = DURATIONS_NS.into_iter().flat_map(both).flatten().collect();
        self.errors(points, rows)
    }

    fn errors(&self, points: &TwoPoint, rows: Vec<PublishedError>) -> PublishedErrors {
        let [local, reference] = self.hertz();
        let e_ns = ns_up((points.longest() + 1) / 2, reference);
        PublishedErrors { e_ns, apart_ns: ns_up(points.length(), local), rows }
    }

    /// What is published of one length, and our intervals; `None`: it does not fit twice.
    fn row(&self, length: &Length<'_>, one: impl Fn(i64, i128) -> Option<Compared>) -> Option<PublishedError> {
        let d = i128::from(length.duration_ns) * i128::from(length.hertz) / 1_000_000_000;
        let [first, last] = length.span;
        if 2 * d > last - first {
            return None;
        }
        let start = |step: i128| i64::try_from(first + (last - first - d) * step / COUNT).ok();
        let all: Vec<Compared> = (0..COUNT).filter_map(start).filter_map(|u| one(u, d)).collect();
        let of_reference = self.hertz()[1];
        let ns = |doubled: i128| ns_up(ceil(doubled, 2), of_reference);
        let sorted = |mut all: Vec<i64>| {
            all.sort_unstable();
            all
        };
        let widths = sorted(all.iter().map(|one| ns(ceil(one.ours[1] - one.ours[0], 2))).collect());
        let known = || all.iter().filter_map(|one| Some((one, one.truth?)));
        let off = |(one, truth): (&Compared, [i128; 2])| truth.map(|tick| (2 * tick - one.value).abs());
        let errors = sorted(known().map(|known| ns(off(known).into_iter().fold(0, i128::max))).collect());
        let slack = self.slack(length.nodes);
        let outside = |ends: fn(&Compared) -> [i128; 2]| {
            let is_out = |(one, [first, last]): (&Compared, [i128; 2])| {
                let [lo, hi] = ends(one);
                2 * last + slack < lo || 2 * first - slack > hi
            };
            (!errors.is_empty()).then(|| known().filter(|&known| is_out(known)).count())
        };
        Some(PublishedError {
            case: length.case,
            duration_ns: length.duration_ns,
            published_ns: all.iter().map(|one| ns(one.half)).max()?,
            guaranteed: RivalWidth {
                least_ns: widths.first().copied(),
                median_ns: widths[widths.len() / 2],
                most_ns: *widths.last()?,
            },
            error_ns: errors.last().map(|&most| [errors[errors.len() / 2], most]),
            outside_published: outside(|one| [one.value - one.half, one.value + one.half]),
            outside_guaranteed: outside(|one| one.ours),
            durations: all.len(),
        })
    }

    /// How far readings of these nodes leave a duration open, doubled ticks of the reference.
    fn slack(&self, nodes: &[&Node]) -> i128 {
        let hertz = i128::from(self.hertz()[1]);
        let width = |node: &&Node| {
            ceil(i128::from(reading_ticks(self.manifest, node)) * hertz, node.counter.frequency.hertz.max(1).into()) + 1
        };
        2 * nodes.iter().map(width).sum::<i128>()
    }

    fn scenario_1(&self, points: &TwoPoint, u: i64, d: i128) -> Option<Compared> {
        let v = u.checked_add(i64::try_from(d).ok()?)?;
        let span = self.map.span(Tick::new(u), Tick::new(v)).ok()?;
        let [node, _] = self.nodes;
        Some(Compared {
            value: points.value(v.into()) - points.value(u.into()),
            half: 2 * ceil(d * points.longest(), points.length()),
            ours: [2 * i128::from(span.lo().get()), 2 * i128::from(span.hi().get())],
            truth: self.true_span((node, u), (node, v)),
        })
    }

    /// From a tick that the reference read to one of the node: the same as of the node's tick alone.
    fn scenario_2(&self, points: &TwoPoint, u: i64, d: i128) -> Option<Compared> {
        let v = u.checked_add(i64::try_from(d).ok()?)?;
        let interval = self.map.interval(Tick::new(v)).ok()?;
        Some(Compared {
            value: points.value(v.into()),
            half: points.longest(),
            ours: [2 * i128::from(interval.lo().get()), 2 * i128::from(interval.hi().get())],
            truth: self.true_ticks(v),
        })
    }

    /// Our interval of the duration from `u` to `v`, doubled: the two ends on the reference, and the way between the
    /// two nodes.
    fn by_every_way(&self, [node, from]: [AgainstReference<'_>; 2], [u, v]: [i64; 2]) -> Option<[i128; 2]> {
        let ends = |map: &ClockMap, at: i64| {
            let interval = map.interval(Tick::new(at)).ok()?;
            Some([i128::from(interval.lo().get()), i128::from(interval.hi().get())])
        };
        let ([start, end], between) = ([ends(from.map, u)?, ends(node.map, v)?], ends(self.map, v)?);
        let apart = between.map(|tick| i64::try_from(tick).ok());
        let span = |to: i64| from.map.span(Tick::new(u), Tick::new(to)).ok();
        let (lo, hi) = (span(apart[0]?)?.lo().get(), span(apart[1]?)?.hi().get());
        let ways = [[end[0] - start[1], end[1] - start[0]], [lo.into(), hi.into()]];
        Some([2 * ways[0][0].max(ways[1][0]), 2 * ways[0][1].min(ways[1][1])])
    }

    /// From a node's tick to another's, in ticks that the reference truly read.
    fn true_span(&self, (start, u): (&Node, i64), (end, v): (&Node, i64)) -> Option<[i128; 2]> {
        let reader = self.nodes[1].name.as_str();
        let truth = self.truth?;
        let read = |node: &Node, at| truth.read_by(reader, node.name.as_str(), at);
        let (start, end) = (read(start, u)?, read(end, v)?);
        Some([i128::from(end.0) - i128::from(start.1), i128::from(end.1) - i128::from(start.0)])
    }
}

/// The value where each end is translated by itself, and `2 e` of the longer `e`; doubled.
fn baseline(node: &TwoPoint, from: &TwoPoint, [u, v]: [i64; 2]) -> (i128, i128) {
    (node.value(v.into()) - from.value(u.into()), 2 * node.longest().max(from.longest()))
}

/// The value by the nodes' own two exchanges, then by the rate of the first against the reference, and
/// `2 d/D e + r e`; doubled.
fn scenario_3(own: &TwoPoint, from: &TwoPoint, [u, v]: [i64; 2], d: i128) -> (i128, i128) {
    let doubled = own.value(v.into()) - 2 * i128::from(u);
    let [rise, run] = [from.middles[1] - from.middles[0], 2 * from.length()];
    let value = (2 * doubled * rise + run).div_euclid(2 * run);
    (value, 2 * ceil(d * from.longest(), from.length()) + ceil(own.longest() * rise, run))
}

impl TwoPoint {
    fn longest(&self) -> i128 {
        self.round_trips[0].max(self.round_trips[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigInt;
    use num_rational::BigRational;
    use proptest::prelude::*;

    fn points(first: i64, length: i64, rate_ppb: i64, trips: [i64; 2]) -> TwoPoint {
        let last = i128::from(length) + i128::from(length) * i128::from(rate_ppb) / 1_000_000_000;
        TwoPoint {
            at: [first.into(), (first + length).into()],
            middles: [0, 2 * last],
            round_trips: trips.map(i128::from),
        }
    }

    fn whole(number: impl Into<BigInt>) -> BigRational {
        BigRational::from_integer(number.into())
    }

    proptest! {
        #[test]
        fn property_table_ii_is_the_published_table_rounded_up(
            length in 1_000_000_i64..1_000_000_000_000,
            share in 0_i128..500,
            rates in [-100_000_i64..100_000, -100_000_i64..100_000],
            trips in [[1_i64..1_000_000, 1_i64..1_000_000], [1_i64..1_000_000, 1_i64..1_000_000]],
        ) {
            let own = points(0, length, rates[0], trips[0]);
            let from = points(0, length, rates[1], trips[1]);
            let d = i128::from(length) * share / 1000;
            let e = trips.map(|of| whole(of[0].max(of[1])) / whole(2));
            let r = BigRational::new(from.middles[1].into(), (2 * length).into());
            let share = BigRational::new((2 * d).into(), length.into());
            // Doubled: 2 (2 d/D e + r e).
            let exact = whole(2) * (share * e[1].clone() + r * e[0].clone());
            let (_, half) = scenario_3(&own, &from, [0, d as i64], d);
            let above = whole(half) - exact;
            prop_assert!(whole(0) <= above && above < whole(3), "{above}");
            let (_, half) = baseline(&own, &from, [0, d as i64]);
            prop_assert_eq!(whole(half), whole(4) * e[0].clone().max(e[1].clone()));
        }

        #[test]
        fn property_scenario_3_and_the_baseline_are_right_of_steady_clocks_and_even_ways(
            length in 1_000_000_i64..1_000_000_000_000,
            at in [0_i128..500, 0_i128..500],
            rates in [-100_000_i64..100_000, -100_000_i64..100_000],
        ) {
            // A reference that reads `u * from` when the first node reads u, and a second that reads v when it reads
            // `v * own`: both exchanges are exact, so what is left is the rounding of their middles and of the lines.
            let own = points(0, length, rates[0], [2, 2]);
            let from = points(0, length, rates[1], [2, 2]);
            let rate = |of: &TwoPoint| BigRational::new(of.middles[1].into(), (2 * length).into());
            let (u, v) = (i128::from(length) * at[0] / 1000, i128::from(length) * (at[0] + at[1]) / 1000);
            let (value, _) = scenario_3(&own, &from, [u as i64, v as i64], v - u);
            let truth = (rate(&own) * whole(v) - whole(u)) * rate(&from);
            let off = whole(value) - whole(2) * truth;
            prop_assert!(off.clone() * off <= whole(4), "scenario 3");
            let node = points(0, length, rates[0], [2, 2]);
            let (value, _) = baseline(&node, &from, [u as i64, v as i64]);
            let off = whole(value) - whole(2) * (rate(&node) * whole(v) - rate(&from) * whole(u));
            prop_assert!(off.clone() * off <= whole(4), "baseline");
        }
    }
}
