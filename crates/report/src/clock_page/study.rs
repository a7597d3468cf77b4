//! The page of a study of all clocks.

use std::fmt::Write;

use tickscope_clock::advice::duration;
use tickscope_clock::compensation::Method;
use tickscope_clock::study::{ClockStudy, Cost, LoadStudy, Study};

use super::{legend, page, table};
use crate::plot::{Axis, Figure, Ink, Row, short};
use crate::text::Text;

/// The page of a study.
pub fn study_page(study: &Study) -> String {
    let mut body = String::new();
    // Writing to a String cannot fail.
    let _ = write!(body, "<section class=\"lead\" aria-label=\"Advice\">");
    for advice in study.advice().iter().chain(&study.findings()) {
        let _ = writeln!(body, "<p>{}</p>", Text(advice));
    }
    let _ = write!(body, "</section>\n<section><h2>What a reading costs</h2>{}", costs(study));
    let _ = write!(body, "</section>\n<section><h2>Cost, reading by reading</h2>{}", histograms(study));
    let _ = write!(body, "</section>\n<section><h2>Several readers at once</h2>{}", crowds(study));
    for (number, busy) in study.plan.loads.iter().enumerate() {
        let _ = write!(
            body,
            "</section>\n<section><h2>With {busy} busy processes beside</h2>{}{}",
            figures_table(study, number),
            methods_table(study, number)
        );
    }
    let _ = write!(
        body,
        "</section>\n<section><h2>In words</h2><p class=\"note\">By how much two durations must differ to be told apart, and how long a section must be to be \
         measured to {} %.</p><ul>",
        study.plan.percent
    );
    for clock in &study.clocks {
        let _ = write!(body, "<li>{}: {}</li>", Text(&clock.clock), Text(clock.words()));
    }
    for absent in &study.absent {
        let _ = write!(body, "<li>{} is absent: {}</li>", Text(&absent.clock), Text(&absent.why));
    }
    body.push_str("</ul></section>");
    let counter = &study.counter;
    let about = format!(
        "{} at {} Hz, {}; kernel's clocksource {}; {} processors",
        counter.name,
        counter.hertz,
        counter.declared,
        counter.clocksource.as_deref().unwrap_or("unknown"),
        study.cpus.len()
    );
    page("Clocks of this host", &about, &body)
}

fn beside(load: &LoadStudy) -> String {
    format!("{} busy processes beside", load.busy_processes)
}

/// Least to 99 of 100, a dot at the median, for every clock under every load.
fn costs(study: &Study) -> String {
    const HEIGHT: f64 = 22.0;
    const APART: f64 = 6.0;
    let loads = || study.clocks.iter().flat_map(|clock| &clock.loads);
    let names: Vec<String> = study.clocks.iter().map(|clock| clock.clock.clone()).collect();
    let axis = Axis::of_durations(loads().flat_map(|load| [load.alone().cost.min_ns, load.alone().cost.p99_ns]));
    let mut figure = Figure::rows(axis, &names, HEIGHT);
    for (number, clock) in study.clocks.iter().enumerate() {
        for (kind, load) in clock.loads.iter().enumerate() {
            let cost = &load.alone().cost;
            let shift = (kind as f64 - (clock.loads.len() as f64 - 1.0) / 2.0) * APART;
            figure.range(
                [cost.min_ns, cost.p99_ns],
                cost.median_ns,
                Row { number, height: HEIGHT, shift },
                Ink::of(kind),
            );
        }
    }
    let words = "For every clock and load the cost of a reading: from the least to what 99 of 100 cost, a dot at the median. The table has the numbers.";
    let note = "<p class=\"note\">One reader. From the cheapest reading to what 99 of 100 cost at most, a dot at the median. Each holds a stamp of the counter.</p>";
    format!(
        "{note}{}{}",
        legend(study.clocks.first().into_iter().flat_map(|clock| &clock.loads).map(beside)),
        figure.svg(words)
    )
}

/// One small figure a clock: how many readings cost more than so much.
fn histograms(study: &Study) -> String {
    let mut html = String::from(
        "<p class=\"note\">Share of readings that cost more than so much, both by powers of ten: the tail is to the right. Alone, one line a load \
         in the colours above; where a line ends, nothing costlier was seen.</p><div class=\"multiples\">",
    );
    for clock in &study.clocks {
        let tails: Vec<Vec<[f64; 2]>> = clock.loads.iter().map(|load| tail(&load.alone().cost)).collect();
        let of = |axis: usize| tails.iter().flatten().map(move |point| point[axis]);
        let percent = |share: f64| format!("{} %", share * 100.0);
        let y = Axis::logarithmic(of(1).chain([1.0]), percent);
        let mut figure = Figure::plane(Axis::of_durations(of(0)), y);
        for (kind, points) in tails.iter().enumerate() {
            figure.line(points, Ink::of(kind));
        }
        let words = format!("Share of readings of {} that cost more than so much, one line a load.", clock.clock);
        let _ = write!(html, "<div><h3>{}</h3>{}</div>", Text(&clock.clock), figure.svg(&words));
    }
    html.push_str("</div>");
    html
}

/// What share of the readings cost as much as a bin's limit or more; from the limit that none lay below.
fn tail(cost: &Cost) -> Vec<[f64; 2]> {
    let mut left = cost.readings;
    let all = cost.readings as f64;
    let from = [[cost.min_ns, 1.0]];
    let bins = cost.histogram.iter().filter_map(|bin| {
        left -= bin.readings;
        (left > 0).then_some([bin.below_ns, left as f64 / all])
    });
    from.into_iter().chain(bins).collect()
}

/// The median cost against the number of readers, where it is felt.
fn crowds(study: &Study) -> String {
    let felt = |clock: &&ClockStudy| {
        clock.loads.iter().any(|load| {
            let medians = || load.cells.iter().map(|cell| cell.cost.median_ns);
            medians().fold(0.0, f64::max) >= 1.5 * medians().fold(f64::INFINITY, f64::min)
        })
    };
    let mut html = String::from(
        "<p class=\"note\">The median cost against the readers at once, for the clocks whose cost it changes by half or more.</p><div class=\"multiples\">",
    );
    for clock in study.clocks.iter().filter(felt) {
        let cells = || clock.loads.iter().flat_map(|load| &load.cells);
        let x = Axis::from_0(cells().map(|cell| cell.readers as f64), |at| format!("{at:.0}"));
        let mut figure = Figure::plane(x, Axis::from_0(cells().map(|cell| cell.cost.median_ns), short));
        for (kind, load) in clock.loads.iter().enumerate() {
            let points: Vec<[f64; 2]> =
                load.cells.iter().map(|cell| [cell.readers as f64, cell.cost.median_ns]).collect();
            figure.line(&points, Ink::of(kind));
        }
        let words =
            format!("Median cost of a reading of {} against the number of readers, one line a load.", clock.clock);
        let _ = write!(html, "<div><h3>{}</h3>{}</div>", Text(&clock.clock), figure.svg(&words));
    }
    html.push_str("</div>");
    html
}

fn or_dash(ns: Option<f64>) -> String {
    ns.map_or_else(|| "–".into(), duration)
}

fn figures_table(study: &Study, number: usize) -> String {
    let row = |clock: &ClockStudy| {
        let load = &clock.loads[number];
        let cell = load.alone();
        let crowd = load.cells.last().map(|cell| cell.cost.median_ns);
        let cost = [cell.cost.min_ns, cell.cost.median_ns, cell.cost.p99_ns].map(Some);
        let ns = [cost[0], cost[1], cost[2], crowd, cell.resolution_ns, cell.usable_ns, cell.shortest_section_ns];
        [vec![clock.clock.clone()], ns.map(or_dash).to_vec()].concat()
    };
    let from = format!("measures to {} % from", study.plan.percent);
    let columns = ["clock", "least", "median", "99 of 100", "median in a crowd", "step", "usable", &from];
    table("Cost and resolution", &columns, study.clocks.iter().map(row))
}

fn methods_table(study: &Study, number: usize) -> String {
    let row = |clock: &ClockStudy| {
        let zero = &clock.loads[number].zero;
        let left = Method::ALL.map(|method| or_dash(zero.outcome(method).map(|outcome| outcome.residual_median)));
        let k = |k: Option<f64>| k.map_or_else(|| "–".into(), |k| format!("{k:.2}"));
        let found = zero.outcome(Method::NearestPairs).and_then(|outcome| outcome.k_clipped);
        [vec![clock.clock.clone()], left.to_vec(), vec![zero.chosen.to_string(), k(zero.k_predicted), k(found)]]
            .concat()
    };
    let columns =
        ["left of nothing by", "none", "constant", "long-term", "method-1", "method-2", "use", "k predicted", "k"];
    table("What methods leave of sections of no length", &columns, study.clocks.iter().map(row))
}
