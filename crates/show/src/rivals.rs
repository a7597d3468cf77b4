//! The run's bounds beside those of other methods: one table and one figure for each node.

use tickscope_analysis::{NodeRivals, RivalMethod};
use tickscope_store::EventKind;

use crate::Report;
use crate::document::{Block, Words};
use crate::plot::{Axis, Figure, Ink};
use crate::quantity::{Unit, count};

/// Nodes whose rivals are shown; the public JSON has all.
const MOST_NODES: usize = 30;

const MEANING: &str = "Half the width of each method's interval over the run; lines without a bound are their true \
                       error. guaranteed: holds while the rate stays within rho; published: as the method's authors \
                       state it, which no proof supports where the rate wanders; stated: what the program says of \
                       itself. chrony and ptp4l relate CLOCK_REALTIME, the others the nodes' counters. Between two \
                       nodes other than the reference, what is said of both adds up.";

/// All that is compared; nothing, where nothing is.
pub(crate) fn blocks(report: &Report<'_>) -> Vec<Block> {
    let all = &report.analysis.rivals;
    if all.is_empty() {
        return Vec::new();
    }
    let shown = all.iter().take(MOST_NODES).flat_map(|node| of_node(report, node));
    let more = all.len().checked_sub(MOST_NODES).filter(|&more| more > 0);
    let more = more.map(|more| Block::paragraph(format!("{} more nodes are in the public JSON.", count(more))));
    let missing = report.events.iter().filter(|event| event.what == EventKind::RivalMissing);
    let missing: Vec<Words> = missing.map(|event| Words::from(event.text.as_str())).collect();
    let missing = (!missing.is_empty()).then_some(Block::List(missing));
    [Block::heading("Beside other methods"), Block::note(MEANING)]
        .into_iter()
        .chain(shown)
        .chain(more)
        .chain(missing)
        .collect()
}

fn of_node(report: &Report<'_>, node: &NodeRivals) -> Vec<Block> {
    const COLUMNS: [&str; 8] =
        ["method", "bound", "samples", "least", "median", "most", "true error, median and most", "truth outside"];
    let title = format!("{} against {}", node.domain, report.analysis.reference);
    let table = Block::table(&title, &COLUMNS, node.methods.iter().map(row));
    let drawn: Vec<&RivalMethod> = node.methods.iter().filter(|method| method.curve.len() > 1).collect();
    let legend = Block::legend(drawn.iter().map(|method| method.name.clone()));
    let mut blocks = vec![table];
    if !drawn.is_empty() {
        blocks.extend([figure(&title, &drawn), legend]);
    }
    blocks.push(Block::Paragraph(facts(node)));
    blocks.extend(node.refused.iter().map(Block::paragraph));
    blocks
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
        method.bound.into(),
        format!("{}{not_yet}", count(method.samples)).into(),
        width(of.and_then(|of| of.least_ns)),
        width(of.map(|of| of.median_ns)),
        width(of.map(|of| of.most_ns)),
        error.into(),
        method.outside.map_or_else(|| "–".into(), count).into(),
    ]
}

fn figure(title: &str, drawn: &[&RivalMethod]) -> Block {
    let points = || drawn.iter().flat_map(|method| method.curve.iter());
    let seconds = |ns: i64| ns as f64 / 1e9;
    let x = Axis::around(points().map(|at| seconds(at[0])), |at| format!("{at} s")).named("since the first exchange");
    let y = Axis::of_durations(points().map(|at| at[1] as f64)).named("half-width");
    let mut figure = Figure::plane(x, y);
    for (number, method) in drawn.iter().enumerate() {
        // What is 0 has no place among powers of ten.
        let points = method.curve.iter().filter(|at| at[1] > 0);
        let points: Vec<[f64; 2]> = points.map(|&[at, ns]| [seconds(at), ns as f64]).collect();
        figure.curve(&points, Ink::of(number));
    }
    figure.block(&format!("How well each method knows {title}, over the run."))
}

fn facts(node: &NodeRivals) -> Words {
    let [before, during, after] = node.round_trips_ns.map(|ns| ns.map_or_else(|| "not known".into(), us));
    let words =
        Words::from(format!("Shortest round trip before, during and after the run: {before}, {during}, {after}."));
    match node.hertz {
        Some([least, most]) => words.say(format!(
            " The counter's frequency, from the exchanges before and after the run and the reference's declared one: \
             {} to {} Hz; declared for it: {} Hz.",
            count(least),
            count(most),
            count(node.declared_hertz)
        )),
        None => words,
    }
}

/// Microseconds, rounded up.
fn us(ns: i64) -> String {
    let unit = Unit(tickscope_tick::Unit::microseconds(1_000_000_000, 3));
    format!("{} {}", unit.up(ns), unit.name())
}
