//! Machines that are related and stamp nothing: each pair's bound over time, by itself and by way of others, and its
//! shortest round trips, as a table and a page.
//!
//! Guarantees: half-widths are rounded up; every pair stands in the table and in a figure, also one without a bound,
//! with the reason. Deliberately absent: durations.

use std::fmt::Write;

use tickscope_analysis::Assumption;
use tickscope_rivals::{KnownBound, PairRelation, PairState, Relations};
use tickscope_store::{Event, EventKind, Run};
use tickscope_tick::Label;

use crate::clock_errors::peaks;
use crate::document::{Block, Document, Panel, Panels, Words, panel, part};
use crate::plot::{Axis, Figure, Ink};
use crate::quantity::{count, counted, utc};
use crate::rivals::{MOST_PAIRS, MOST_WITH_FIGURES, TimeUnit, chosen, frequencies, of_node, round_trips, us};
use crate::text::Text;

/// Up to so many pairs each has a figure of its own; of more, each machine has one with all its pairs.
const MOST_DRAWN: usize = 66;
/// Figures of pairs that a page shows at once.
const AT_ONCE: usize = 12;
/// Pairs whose round trips before, during and after the run are listed; the shortest of all is in the pair's row.
const MOST_LISTED: usize = 66;
/// Points of a line in a figure, about.
const POINTS: usize = 50;
/// Pairs that are named where what is wrong with them is told.
const MOST_NAMED: usize = 20;
const BY_ITSELF: &str = "by the pair's own exchanges";
const BY_ALL: &str = "by all evidence";

const MEANING: &str = "Half the width of the interval that holds what one counter read when the other read a value: by \
                       the pair's own exchanges, and by all evidence, ways through other machines included. The bound \
                       holds while the rate of the two counters stays within rho. Round trips are on the way alone: \
                       what the other machine took to answer is taken off.";

/// Everything that a run of nothing but clocks says; `rivals`: other methods of the same pairs, too.
pub fn relations_document(run: &Run, relations: &Relations, events: &[Event], rivals: bool) -> Document {
    let pairs = match relations.pairs.is_empty() {
        true => Vec::new(), // and no head of a table without rows
        false => [vec![Block::note(MEANING)], matrix(relations), table(relations)].concat(),
    };
    let mut parts = vec![part("How well each pair is known", pairs), part("Over time", over_time(relations))];
    let all = &relations.rivals;
    if rivals {
        let shown = chosen(all).into_iter().take(MOST_PAIRS).enumerate();
        let told = shown.flat_map(|(number, node)| of_node(node, true, number < MOST_WITH_FIGURES));
        parts.push(part("Beside other methods", told.chain(more(all.len(), MOST_PAIRS)).collect()).folded());
    }
    let trips = round_trips(chosen(all).into_iter().take(MOST_LISTED));
    parts.push(part("Round trips", trips.into_iter().chain(more(all.len(), MOST_LISTED)).collect()).folded());
    parts.push(part("Frequencies", frequencies(all.iter(), &relations.reference)).folded());
    parts.push(part("What this rests on", rests_on(relations)));
    parts.push(part("What happened", happened(events)));
    parts.retain(|part| !part.blocks.is_empty());
    Document {
        title: crate::name(run),
        about: format!("{}. {}", utc(run.manifest().started_unix_ms), machines(relations)),
        lead: lead(relations),
        first: Vec::new(),
        parts,
    }
}

/// That there are more than so many pairs.
fn more(all: usize, shown: usize) -> Option<Block> {
    let more = all.checked_sub(shown).filter(|&more| more > 0)?;
    Some(Block::paragraph(format!("{} more pairs are in the public JSON.", count(more))))
}

/// `3 machines: a (host1), b (host2), c`.
fn machines(relations: &Relations) -> String {
    let named = relations.machines.iter().map(|machine| {
        let nodes: Vec<&str> = machine.nodes.iter().map(|node| node.as_str()).collect();
        let host = machine.host.as_ref().map_or(String::new(), |host| format!(" ({host})"));
        format!("{}{host}", nodes.join(" = "))
    });
    let named: Vec<String> = named.collect();
    format!("{}: {}", counted(named.len(), "machine"), named.join(", "))
}

fn lead(relations: &Relations) -> Vec<Block> {
    let pairs = &relations.pairs;
    let known = || pairs.iter().filter_map(|pair| Some((pair, pair.best()?)));
    let mut lead = Vec::new();
    if pairs.is_empty() {
        let text = "All nodes read one counter, so there is nothing to relate: same_boot = \"ignore\" in [clock] takes \
                    them for strangers.";
        return vec![Block::paragraph(text)];
    }
    if let Some((widest, bound)) = known().max_by_key(|(_, bound)| bound.half_width.median_ns) {
        let alone = widest.direct.as_ref().map_or("nothing".into(), |direct| width(direct.half_width.median_ns));
        let narrowed = pairs.iter().filter(|pair| pair.is_narrowed()).count();
        lead.push(Block::paragraph(format!(
            "{} of {} {} bounded{}; at the median over time the widest, {}, to {} ({alone} {BY_ITSELF}). \
             Narrower by way of other machines: {}.",
            count(known().count()),
            counted(pairs.len(), "pair"),
            if pairs.len() == 1 { "is" } else { "are" },
            relations.length_ns.map_or(String::new(), |ns| format!(" over {} s", seconds(ns))),
            name(widest),
            width(bound.half_width.median_ns),
            count(narrowed),
        )));
    }
    let truth: Vec<usize> = known().filter_map(|(_, bound)| bound.outside).collect();
    if !truth.is_empty() && truth.iter().all(|outside| *outside == 0) {
        let held = counted(truth.len(), "pair");
        lead.push(Block::paragraph(format!("The truth is known of {held}, and lies inside every interval.")));
    }
    lead.extend(relations.findings.iter().map(|finding| Block::Alarm(format!("finding: {finding}"))));
    let troubled: Vec<&PairRelation> = pairs.iter().filter(|pair| pair.state != PairState::Related).collect();
    let told = troubled.iter().take(MOST_NAMED).map(|pair| Words::from(format!("{}: {}", name(pair), state(pair))));
    let more = troubled.len().saturating_sub(MOST_NAMED);
    let more = (more > 0).then(|| Words::from(format!("and {} more", count(more))));
    let told: Vec<Words> = told.chain(more).collect();
    lead.extend((!told.is_empty()).then_some(Block::List(told)));
    lead
}

/// Tenths of a second.
fn seconds(ns: i64) -> String {
    format!("{}.{}", ns / 1_000_000_000, ns % 1_000_000_000 / 100_000_000)
}

fn width(ns: i64) -> String {
    format!("±{}", us(ns))
}

fn name(pair: &PairRelation) -> String {
    format!("{} and {}", pair.domain.node, pair.reference.node)
}

/// How a pair stands, and what holds of it nevertheless.
fn state(pair: &PairRelation) -> String {
    let reason = match (pair.state, &pair.reason) {
        (PairState::Contradicted, _) => Some("see the finding".into()),
        (_, reason) => reason.clone(),
    };
    let known = match (pair.state, &pair.closed) {
        (PairState::Related | PairState::Gone, Some(_)) => "",
        (PairState::OneWay, Some(_)) if pair.direct.is_some() => "",
        (_, Some(_)) => "; known by way of others",
        (_, None) => "; no bound",
    };
    format!("{}{}{known}", pair.state.words(), reason.map_or(String::new(), |reason| format!(": {reason}")))
}

/// The shortest of all round trips from one end.
fn shortest(pair: &PairRelation, from: &Label) -> Option<i64> {
    let of = pair.round_trips.iter().filter(|trips| trips.from == *from);
    of.flat_map(|trips| trips.shortest_ns).flatten().min()
}

/// Folded where a page would be little else.
fn table(relations: &Relations) -> Vec<Block> {
    const COLUMNS: [&str; 8] = [
        "pair",
        "by itself, median",
        "by itself, most",
        "by all, median",
        "by all, most",
        "shortest round trip from the first",
        "from the second",
        "how it stands",
    ];
    let told = |known: &Option<KnownBound>| match known {
        Some(bound) => [bound.half_width.median_ns, bound.half_width.most_ns].map(|ns| Words::from(width(ns))),
        None => ["–", "–"].map(Words::from),
    };
    let rows = relations.pairs.iter().map(|pair| {
        let trips = [&pair.domain, &pair.reference].map(|from| shortest(pair, from).map_or("–".into(), us));
        let figures = [told(&pair.direct), told(&pair.closed), trips.map(Words::from)].into_iter().flatten();
        std::iter::once(name(pair).into()).chain(figures).chain([state(pair).into()]).collect()
    });
    let table = Block::table_ending_in_words("Bounds of the pairs", &COLUMNS, rows);
    match relations.pairs.len() {
        ..=MOST_DRAWN => vec![table],
        many => vec![Block::Folded(format!("All {}", counted(many, "pair")), vec![table])],
    }
}

/// Pixels of a square of the matrix, and of the room left of it and above it.
const CELL: f64 = 22.0;
const ROOM: [f64; 2] = [150.0, 24.0];
/// The opacity of the narrowest and the widest bound: letters on the latter are still read.
const SHADES: [f64; 2] = [0.06, 0.5];

/// Every two machines as a square: below the diagonal by their own exchanges, above it by all evidence.
fn matrix(relations: &Relations) -> Vec<Block> {
    let count = relations.machines.len();
    if count < 3 {
        return Vec::new();
    }
    let median = |known: &Option<KnownBound>| known.as_ref().map(|bound| bound.half_width.median_ns.max(1));
    let all = || relations.pairs.iter().flat_map(|pair| [median(&pair.direct), median(&pair.closed)]).flatten();
    let (Some(least), Some(most)) = (all().min(), all().max()) else { return Vec::new() };
    let at = |label: &Label| relations.machines.iter().position(|machine| machine.counter == *label);
    let mut inside = String::new();
    for (number, machine) in relations.machines.iter().enumerate() {
        let middle = (number as f64 + 0.5) * CELL;
        let label = format!("{} {}", number + 1, crate::plot::shortened(machine.counter.node.as_str(), 18));
        let style = "style=\"fill:var(--muted);font-size:12px\"";
        // Writing to a String cannot fail.
        let _ = write!(
            inside,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" {style}>{}</text><text x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"middle\" {style}>{}</text>",
            ROOM[0] - 8.0,
            ROOM[1] + middle + 4.0,
            Text(&label),
            ROOM[0] + middle,
            ROOM[1] - 8.0,
            number + 1
        );
    }
    for pair in &relations.pairs {
        let (Some(domain), Some(reference)) = (at(&pair.domain), at(&pair.reference)) else { continue };
        let (low, high) = (domain.min(reference), domain.max(reference));
        let words = format!("{}: {}", name(pair), state(pair));
        square(&mut inside, [low, high], median(&pair.direct), [least, most], &format!("{words}, {BY_ITSELF}"));
        square(&mut inside, [high, low], median(&pair.closed), [least, most], &format!("{words}, {BY_ALL}"));
    }
    let [wide, high] = ROOM.map(|room| room + count as f64 * CELL + 4.0);
    let words = format!(
        "Half-widths at the median: below the diagonal {BY_ITSELF}, above it {BY_ALL}; from {} (lightest) to {} \
         (darkest), evenly by powers; a cross: no bound.",
        width(least),
        width(most)
    );
    let svg = format!(
        "<svg viewBox=\"0 0 {wide} {high}\" role=\"img\" aria-label=\"{}\" style=\"max-width:{wide}px;width:100%\">\
         {inside}</svg>",
        Text(&words)
    );
    vec![Block::Figure(svg), Block::note(words)]
}

/// A square of the matrix in the column and row of two machines.
fn square(inside: &mut String, [column, row]: [usize; 2], ns: Option<i64>, [least, most]: [i64; 2], words: &str) {
    let [x, y] = [ROOM[0] + column as f64 * CELL, ROOM[1] + row as f64 * CELL];
    let (told, size) = (ns.map_or("no bound".into(), width), CELL - 1.0);
    let title = format!("<title>{}: {told}</title>", Text(words));
    let Some(ns) = ns else {
        let _ = write!(
            inside,
            "<path d=\"M{:.1} {:.1}l10 10m0 -10l-10 10\" style=\"stroke:var(--bad);fill:none\">{title}</path>",
            x + 5.5,
            y + 5.5
        );
        return;
    };
    let spread = (most as f64 / least as f64).ln();
    let share = if spread > 0.0 { (ns as f64 / least as f64).ln() / spread } else { 1.0 };
    let shade = SHADES[0] + share * (SHADES[1] - SHADES[0]);
    let _ = write!(
        inside,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{size}\" height=\"{size}\" style=\"fill:var(--accent);\
         stroke:var(--rule)\" fill-opacity=\"{shade:.2}\">{title}</rect>"
    );
}

fn over_time(relations: &Relations) -> Vec<Block> {
    if relations.pairs.len() <= MOST_DRAWN {
        let mut panels: Vec<Panel> = relations.pairs.iter().map(pair_panel).collect();
        let others = panels.split_off(panels.len().min(AT_ONCE));
        let panels = Block::Panels(Panels { first: panels, others, summary: "The other pairs" });
        let words = "Where other machines narrow nothing, both are one line, drawn in the second colour.";
        let legend = Block::legend([BY_ITSELF, BY_ALL].map(String::from).into_iter());
        return vec![Block::note(words), legend, panels];
    }
    let words = "A figure for each machine, a line for each of its pairs: the bound by all evidence. The pair that is \
                 widest at the median is drawn in the second colour, and named.";
    let panels = relations.machines.iter().map(|machine| machine_panel(relations, &machine.counter));
    vec![Block::note(words), Block::panels(panels.collect())]
}

fn pair_panel(pair: &PairRelation) -> Panel {
    let drawn: Vec<(&KnownBound, Ink)> = [(&pair.direct, 0), (&pair.closed, 1)]
        .into_iter()
        .filter_map(|(known, ink)| Some((known.as_ref().filter(|known| known.curve.len() > 1)?, Ink::of(ink))))
        .collect();
    let title = name(pair);
    if drawn.is_empty() {
        return panel(&title, vec![Block::paragraph(format!("Nothing to draw: {}.", state(pair)))]);
    }
    let lines: Vec<(Vec<[i64; 2]>, Ink)> = drawn.into_iter().map(|(known, ink)| (known.curve.clone(), ink)).collect();
    let troubled = (pair.state != PairState::Related).then(|| Block::paragraph(state(pair)));
    let figure = figure(&lines, &format!("How well {title} are known over time, {BY_ITSELF} and {BY_ALL}."));
    panel(&title, std::iter::once(figure).chain(troubled).collect())
}

fn machine_panel(relations: &Relations, machine: &Label) -> Panel {
    let of = relations.pairs.iter().filter(|pair| pair.domain == *machine || pair.reference == *machine);
    let mut known: Vec<(&PairRelation, &KnownBound)> = of.filter_map(|pair| Some((pair, pair.best()?))).collect();
    known.retain(|(_, bound)| bound.curve.len() > 1);
    known.sort_by_key(|(_, bound)| bound.half_width.median_ns);
    let title = machine.node.as_str();
    let Some((widest, bound)) = known.last() else {
        return panel(title, vec![Block::paragraph("Nothing to draw: none of its pairs has a bound.")]);
    };
    let last = known.len() - 1;
    let lines =
        known.iter().enumerate().map(|(at, (_, bound))| (bound.curve.clone(), Ink::of(usize::from(at == last))));
    let other = if widest.domain == *machine { &widest.reference } else { &widest.domain };
    let words = format!(
        "{} with a bound; widest with {}: {} at the median.",
        counted(known.len(), "pair"),
        other.node,
        width(bound.half_width.median_ns)
    );
    let figure = figure(&lines.collect::<Vec<_>>(), &format!("How well the pairs of {title} are known over time."));
    panel(title, vec![figure, Block::paragraph(words)])
}

fn figure(lines: &[(Vec<[i64; 2]>, Ink)], words: &str) -> Block {
    let points = || lines.iter().flat_map(|(points, _)| points.iter());
    let unit = TimeUnit::of(points().map(|at| at[0]).max().unwrap_or(0));
    let time = |ns: i64| ns as f64 / 1e9 / unit.seconds;
    let x = Axis::around(points().map(|at| time(at[0])), |at| format!("{at} {}", unit.name));
    let y = Axis::of_durations_by_spread(points().map(|at| at[1] as f64));
    let mut figure = Figure::plane(x.named("since the first exchange"), y.named("half-width"));
    for (points, ink) in lines {
        let drawn: Vec<[f64; 2]> = peaks(points, POINTS).map(|[at, ns]| [time(at), ns as f64]).collect();
        figure.curve(&drawn, *ink);
    }
    figure.block(words)
}

fn rests_on(relations: &Relations) -> Vec<Block> {
    let told = |one: &Assumption| Words::from(format!("{}: {}", one.statement(), one.origin().words));
    let all: Vec<Words> = relations.assumptions.iter().map(told).collect();
    if all.is_empty() { Vec::new() } else { vec![Block::List(all)] }
}

/// The run's events, a few of each kind: what slows one machine's probe slows all.
fn happened(events: &[Event]) -> Vec<Block> {
    /// Of each kind.
    const FEW: usize = 3;
    let mut kinds: Vec<(&EventKind, Vec<&Event>)> = Vec::new();
    for event in events {
        match kinds.iter_mut().find(|(kind, _)| **kind == event.what) {
            Some((_, of)) => of.push(event),
            None => kinds.push((&event.what, vec![event])),
        }
    }
    let told = kinds.into_iter().flat_map(|(kind, of)| {
        let more = of.len().saturating_sub(FEW);
        let more = (more > 0).then(|| Words::from(format!("{}: {} more of this kind", kind.name(), count(more))));
        let lines = of.into_iter().take(FEW).map(|event| Words::from(format!("{}: {}", event.node, event.text)));
        lines.chain(more).collect::<Vec<_>>()
    });
    let told: Vec<Words> = told.collect();
    if told.is_empty() { Vec::new() } else { vec![Block::List(told)] }
}
