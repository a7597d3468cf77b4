//! The run's bounds beside those of other methods: one table and one figure for each node.

use std::collections::BTreeSet;

use tickscope_rivals::{Acknowledged, NodeRivals, PublishedError, RivalMethod, RoundTrips};
use tickscope_store::{Event, EventKind};
use tickscope_tick::Label;

use crate::clock_errors;
use crate::document::{self, Block, Words};
use crate::quantity::{Unit, count};

/// Pairs of nodes whose rivals are shown; the public JSON has all.
pub(crate) const MOST_PAIRS: usize = 30;
/// Pairs of nodes whose figures are drawn.
pub(crate) const MOST_WITH_FIGURES: usize = 10;

/// As a bound is stated of counters' rates: parts per million with three decimals, rounded up.
const PARTS: i128 = 1_000_000_000;

const MEANING: &str = "Each method's interval over the run, signed, as the method has it, and its true error where \
                       that is known. guaranteed: holds while the rate stays within rho; published: as the method's \
                       authors state it, which no proof supports where the rate wanders; corrected: a published \
                       method, of whose value half of the way there and back is taken off; of one node: between two \
                       stamps of it, what happened on the other; stated: what the program says of itself. chrony and \
                       ptp4l relate CLOCK_REALTIME, the others the nodes' counters; what they say of two nodes other \
                       than the reference is the difference of both, with both bounds. Table II is \
                       Cloudprofiler's size of error of a duration d by two \
                       exchanges D apart, half the longer of whose round trips is e.";

/// The pairs, those first by which every node is in one, as far as it is in any.
pub(crate) fn chosen(all: &[NodeRivals]) -> Vec<&NodeRivals> {
    let mut seen: BTreeSet<&Label> = BTreeSet::new();
    let (first, others): (Vec<_>, Vec<_>) = all.iter().partition(|node| {
        let ends = [&node.domain, &node.reference];
        let is_new = ends.iter().any(|end| !seen.contains(end));
        seen.extend(ends);
        is_new
    });
    [first, others].concat()
}

/// All that is compared; nothing, where nothing is.
pub(crate) fn blocks(all: &[NodeRivals], reference: &Label, events: &[Event]) -> Vec<Block> {
    if all.is_empty() {
        return Vec::new();
    }
    let all_chosen = chosen(all);
    let shown = || all_chosen.iter().copied().take(MOST_PAIRS);
    let more = all.len().checked_sub(MOST_PAIRS).filter(|&more| more > 0);
    let more = more.map(|more| Block::paragraph(format!("{} more pairs are in the public JSON.", count(more))));
    let missing = events.iter().filter(|event| event.what == EventKind::RivalMissing);
    let missing: Vec<Words> = missing.map(|event| Words::from(format!("{}: {}", event.node, event.text))).collect();
    let missing = (!missing.is_empty()).then_some(Block::List(missing));
    [Block::heading("Beside other methods"), Block::note(MEANING)]
        .into_iter()
        .chain(clock_errors::of_all(all))
        .chain(shown().enumerate().flat_map(|(number, node)| of_node(node, all.len() > 1, number < MOST_WITH_FIGURES)))
        .chain(round_trips(shown()))
        .chain(frequencies(shown(), reference))
        .chain(more)
        .chain(missing)
        .collect()
}

/// The same on a terminal.
pub fn rivals_text(all: &[NodeRivals], reference: &Label, events: &[Event]) -> String {
    match blocks(all, reference, events) {
        none if none.is_empty() => {
            "\nNo two counters of this run have a clock map, so no other method is compared.\n".into()
        }
        blocks => document::text(&blocks),
    }
}

/// Both directions of every pair.
pub(crate) fn round_trips<'a>(shown: impl Iterator<Item = &'a NodeRivals>) -> Vec<Block> {
    const COLUMNS: [&str; 5] = ["round trip from", "to and back", "shortest before the run", "during it", "after it"];
    let row = |RoundTrips { from, to, shortest_ns }: &RoundTrips| {
        let ends = [from, to].map(|end| Words::from(end.to_string()));
        let told = shortest_ns.map(|ns| Words::from(ns.map_or_else(|| "–".into(), us)));
        ends.into_iter().chain(told).collect::<Vec<_>>()
    };
    let rows: Vec<_> = shown.flat_map(|node| node.round_trips.iter().map(row)).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let words = "On the way alone: what the other node took to answer is taken off. Before and after the run nothing \
                 else was under way.";
    vec![Block::table("Shortest round trips", &COLUMNS, rows.into_iter()), Block::paragraph(words)]
}

/// Each counter's rate by the bursts before and after the run.
pub(crate) fn frequencies<'a>(shown: impl Iterator<Item = &'a NodeRivals>, reference: &Label) -> Vec<Block> {
    const COLUMNS: [&str; 5] = ["counter", "by the two bursts", "declared", "declared by", "between them"];
    let row = |node: &NodeRivals| {
        let [least, most] = node.hertz?;
        let declared = i128::from(node.declared_hertz);
        let parts = |off: i128| millionths(off, declared);
        let [lo, hi] = [least, most].map(|hertz| i128::from(hertz) - declared);
        let middle = i64::midpoint(least, most);
        let by_bursts = format!(
            "{} Hz ±{} ppm",
            count(middle),
            parts((i128::from(most) - i128::from(middle)).max(i128::from(middle) - i128::from(least)))
        );
        Some(vec![
            Words::from(node.domain.to_string()),
            by_bursts.into(),
            format!("{} Hz ±{} ppm", count(node.declared_hertz), count(node.declared_tolerance_ppm)).into(),
            node.declared_by.as_str().into(),
            format!("{} to {} ppm", signed(lo, declared, End::Lower), signed(hi, declared, End::Upper)).into(),
        ])
    };
    let rows: Vec<Vec<Words>> = shown.filter(|node| node.reference == *reference).filter_map(row).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let words = format!(
        "Ticks between the fastest exchange before the run and the fastest after it, in seconds of {reference} at its \
         declared frequency, which is an error common to all of them. Between them: how much faster the counter runs \
         than declared."
    );
    vec![Block::table("Frequencies of the counters", &COLUMNS, rows.into_iter()), Block::paragraph(words)]
}

/// A share in parts per million, rounded away from 0.
fn millionths(off: i128, of: i128) -> String {
    let parts = -(-off.abs() * PARTS).div_euclid(of.max(1));
    format!("{}.{:03}", parts / 1000, parts % 1000)
}

/// The lower end rounded down, the upper one up: away from 0, but toward it where the sign is the other way.
fn signed(off: i128, of: i128, end: End) -> String {
    let exact = off * PARTS;
    let parts = match end {
        End::Lower => exact.div_euclid(of.max(1)),
        End::Upper => -(-exact).div_euclid(of.max(1)),
    };
    format!("{}{}.{:03}", if parts < 0 { "−" } else { "+" }, parts.abs() / 1000, parts.abs() % 1000)
}

/// An end of an interval.
#[derive(Clone, Copy)]
enum End {
    Lower,
    Upper,
}

pub(crate) fn of_node(node: &NodeRivals, one_of_several: bool, is_drawn: bool) -> Vec<Block> {
    const COLUMNS: [&str; 8] =
        ["method", "bound", "samples", "least", "median", "most", "true error, median and most", "truth outside"];
    let title = format!("{} against {}", node.domain, node.reference);
    let table = Block::table(&title, &COLUMNS, node.methods.iter().map(row));
    let mut blocks: Vec<Block> = one_of_several.then(|| Block::heading(&title)).into_iter().chain([table]).collect();
    blocks.extend(if is_drawn { clock_errors::of_node(node) } else { Vec::new() });
    blocks.extend(published(node));
    blocks.extend(
        node.acknowledged.as_ref().map(|found| Block::paragraph(format!("Return trip: {}", acknowledged(found)))),
    );
    blocks.extend(node.refused.iter().map(Block::paragraph));
    blocks
}

/// Cloudprofiler's Table II for the pair's own exchanges.
fn published(node: &NodeRivals) -> Vec<Block> {
    const COLUMNS: [&str; 7] =
        ["duration", "d", "published", "ours, median", "true error, median and most", "beyond it", "beyond ours"];
    let Some(found) = node.published.as_ref().filter(|found| !found.rows.is_empty()) else { return Vec::new() };
    let outside = |count_of: Option<usize>, of: usize| {
        Words::from(count_of.map_or_else(|| "–".into(), |out| format!("{} of {}", count(out), count(of))))
    };
    let row = |one: &PublishedError| {
        let error = |[median, most]: [i64; 2]| format!("{}, {}", us(median), us(most));
        vec![
            Words::from(one.case.words()),
            us(one.duration_ns).into(),
            format!("±{}", us(one.published_ns)).into(),
            format!("±{}", us(one.guaranteed.median_ns)).into(),
            one.error_ns.map_or_else(|| "not known".into(), error).into(),
            outside(one.outside_published, one.durations),
            outside(one.outside_guaranteed, one.durations),
        ]
    };
    let words = format!("Table II as published: e {}, D {}.", us(found.e_ns), us(found.apart_ns));
    let title = format!("Table II: {} against {}", node.domain, node.reference);
    vec![Block::paragraph(words), Block::table(&title, &COLUMNS, found.rows.iter().map(row))]
}

/// What the published return trip says of durations, against our intervals of the same.
pub(crate) fn acknowledged(found: &Acknowledged) -> String {
    let Acknowledged { compared, outside_guaranteed, late_ns: [late, latest], round_trip_ns, unmatched, repeated } =
        found;
    let [shortest, median, longest] = round_trip_ns.map(us);
    let uncompared = match unmatched + repeated {
        0 => String::new(),
        more => format!(" {} more had no trace, or several acknowledgements.", count(more)),
    };
    format!(
        "of {} durations with an acknowledgement the corrected value lies outside the guaranteed interval \
         {} times. Acknowledgements left {} after the stamp (median; at most {}), which is taken off, and took \
         {shortest} to {longest} there and back, {median} at the median.{uncompared}",
        count(*compared),
        count(*outside_guaranteed),
        us(*late),
        us(*latest)
    )
}

fn row(method: &RivalMethod) -> Vec<Words> {
    let width = |ns: Option<i64>| Words::from(ns.map_or_else(|| "–".into(), |ns| format!("±{}", us(ns))));
    let of = method.half_width;
    let not_yet = match method.not_yet {
        0 => String::new(),
        more => format!(", {} did not count yet", count(more)),
    };
    let error =
        method.error_ns.map_or_else(|| "not known".into(), |[median, most]| format!("{}, {}", us(median), us(most)));
    vec![
        method.name.as_str().into(),
        method.bound.words().into(),
        format!("{}{not_yet}", count(method.samples)).into(),
        width(of.and_then(|of| of.least_ns)),
        width(of.map(|of| of.median_ns)),
        width(of.map(|of| of.most_ns)),
        error.into(),
        method.outside.map_or_else(|| "–".into(), count).into(),
    ]
}

/// What time since the beginning is counted in.
pub(crate) struct TimeUnit {
    pub name: &'static str,
    pub seconds: f64,
}

impl TimeUnit {
    /// The largest of which so many ns are at least three.
    pub fn of(ns: i64) -> Self {
        let units = [("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)].map(|(name, seconds)| Self { name, seconds });
        let fits = |unit: &Self| ns as f64 / 1e9 >= 3.0 * unit.seconds;
        units.into_iter().find(fits).unwrap_or(Self { name: "s", seconds: 1.0 })
    }
}

/// Microseconds, rounded up.
pub(crate) fn us(ns: i64) -> String {
    let unit = Unit(tickscope_tick::Unit::microseconds(1_000_000_000, 3));
    format!("{} {}", unit.up(ns), unit.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_is_in_one_of_the_pairs_that_are_shown_first() {
        let pair = |domain: usize, reference: usize| {
            let name = |node: usize| format!("n{node}.tsc").parse().unwrap();
            NodeRivals { domain: name(domain), reference: name(reference), ..clock_errors::no_rivals() }
        };
        let all: Vec<NodeRivals> = (1..30)
            .flat_map(|domain| (0..domain).map(move |reference| (domain, reference)))
            .map(|of| pair(of.0, of.1))
            .collect();
        let chosen = chosen(&all);
        assert_eq!(chosen.len(), all.len());
        let shown: BTreeSet<&Label> = chosen[..29].iter().flat_map(|of| [&of.domain, &of.reference]).collect();
        assert_eq!(shown.len(), 30);
    }
}
