//! What `tickscope clock` found, as a page: advice first, then figures and tables, in the style of a run's page.
//!
//! Assumes: names of clocks and hypervisors are untrusted as any text. Guarantees: no script, nothing asked of a network.
//! Deliberately absent: computing; every figure is drawn from what the study holds.

mod recorded;

use std::fmt::Write;

use tickscope_clock::advice::duration;
use tickscope_clock::compensation::{Method, Outcome};
use tickscope_clock::example::{ByClock, CallCell, Example, Figure as Spread, Slope};
use tickscope_clock::study::{ClockStudy, Cost, LoadStudy, Study};

use crate::plot::{Axis, Figure, Ink, Row, short};
use crate::text::Text;

const STYLE: &str = include_str!("../page/page.css");

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

/// The page of the Cm* example.
pub fn example_page(example: &Example) -> String {
    let mut body = recorded::lead(example);
    for clock in &example.clocks {
        let _ =
            write!(body, "<section><h2>By {}</h2>{}{}</section>", Text(&clock.clock), lines(clock), calls_table(clock));
        if example.run.is_some() {
            let _ = write!(body, "<section><h2>Guaranteed</h2>{}</section>", recorded::guaranteed(clock));
        }
    }
    let _ = write!(body, "<section><h2>Beside what was published</h2>{}</section>", published(example));
    let [clients, servers] = example.cpus;
    let about = format!(
        "clients on processor {clients}, servers on {servers}; {} timed calls for each number of words",
        example.plan.repetitions
    );
    page("Messages and calls between processes", &about, &body)
}

fn page(title: &str, about: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{0} · tickscope</title>\n<link rel=\"icon\" href=\"data:,\">\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<div class=\"bar\"><p class=\"brand\">tickscope</p></div>\n<h1>{0}</h1>\n\
         <p class=\"about\">{1}</p>\n</header>\n<main>\n{body}\n</main>\n<footer><p>tickscope {2}</p></footer>\n</body>\n</html>\n",
        Text(title),
        Text(about),
        env!("CARGO_PKG_VERSION")
    )
}

fn beside(load: &LoadStudy) -> String {
    format!("{} busy processes beside", load.busy_processes)
}

fn legend(words: impl Iterator<Item = String>) -> String {
    let entries: String = words.enumerate().map(|(number, words)| Ink::of(number).legend(&words)).collect();
    format!("<p class=\"legend\">{entries}</p>")
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

/// A table whose first column names the rows.
fn table(name: &str, columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut html = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{name}\"><table class=\"cards\"><thead><tr>{}</tr></thead><tbody>",
        columns.iter().map(|column| format!("<th scope=\"col\">{}</th>", Text(column))).collect::<String>()
    );
    for row in rows {
        let mut cells = row.iter().zip(columns);
        let first = cells.next().map(|(cell, _)| cell.as_str()).unwrap_or_default();
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", Text(first));
        for (cell, column) in cells {
            let _ = write!(html, "<td data-label=\"{}\">{}</td>", Text(column), Text(cell));
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div>");
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

/// Figures 16 and 17 of the paper.
fn lines(clock: &ByClock) -> String {
    let names = clock.loads.iter().map(|load| count(load.pairs));
    let mut html = format!(
        "{}<p class=\"note\">Lines through the medians; thick: what the median lies between with 95 %; thin: up to what 95 of 100 took at most.</p><div class=\"multiples\">",
        legend(names)
    );
    type Of = fn(&CallCell) -> Spread;
    let quantities: [(&str, Of); 2] =
        [("Latency of a message", |cell| cell.latency), ("Time of a call", |cell| cell.rpc)];
    for (name, of) in quantities {
        let cells = || clock.loads.iter().flat_map(|load| &load.cells);
        let x = Axis::from_0(cells().map(|cell| f64::from(cell.words)), |at| format!("{at:.0}"));
        let mut figure = Figure::plane(x, Axis::from_0(cells().map(|cell| of(cell).p95_ns), short));
        for (kind, load) in clock.loads.iter().enumerate() {
            let ink = Ink::of(kind);
            // Side by side, so that bars of different loads can be told apart.
            let x = |cell: &CallCell| f64::from(cell.words) + 3.0 * kind as f64;
            for cell in &load.cells {
                let spread = of(cell);
                figure.upright(x(cell), [spread.median_ns, spread.p95_ns], 0.8, ink);
                if let Some(ends) = spread.median_interval_ns {
                    figure.upright(x(cell), ends, 4.0, ink);
                }
            }
            let points: Vec<[f64; 2]> = load.cells.iter().map(|cell| [x(cell), of(cell).median_ns]).collect();
            figure.line(&points, ink);
        }
        let words =
            format!("{name} against the words accessed, one line a number of pairs. The table has the numbers.");
        let _ = write!(html, "<div><h3>{name} against words</h3>{}</div>", figure.svg(&words));
    }
    html.push_str("</div>");
    html
}

fn count(pairs: u32) -> String {
    if pairs == 1 { "1 pair".into() } else { format!("{pairs} pairs") }
}

fn calls_table(clock: &ByClock) -> String {
    let spread = |spread: &Spread| [spread.median_ns, spread.mean_ns, spread.deviation_ns].map(duration).to_vec();
    let rows = clock.loads.iter().flat_map(|load| {
        let cell = move |cell: &CallCell| {
            let name = vec![format!("{}, {} words", count(load.pairs), cell.words)];
            [name, spread(&cell.latency), spread(&cell.rpc)].concat()
        };
        let slope = |slope: &Slope| {
            let between = slope.interval_ns.map_or_else(|| "–".into(), |[lo, hi]| format!("{lo:.1} to {hi:.1} ns"));
            vec![format!("{:.1} ns", slope.median_ns), format!("{:.1} ns", slope.of_means_ns), between]
        };
        let name = vec![format!("{}, a word: median, by means, between", count(load.pairs))];
        let slopes = [name, slope(&load.latency_slope), slope(&load.rpc_slope)].concat();
        load.cells.iter().map(cell).chain([slopes]).collect::<Vec<_>>()
    });
    let columns = ["pairs", "latency, median", "mean", "deviation", "call, median", "mean", "deviation"];
    table("Latency and time of calls", &columns, rows)
}

fn published(example: &Example) -> String {
    let k = |k: Option<f64>| k.map_or_else(|| "–".into(), |k| format!("{k:.2}"));
    let ours = example
        .clocks
        .iter()
        .flat_map(|clock| &clock.loads)
        .zip(example.clocks.iter().flat_map(|clock| clock.loads.iter().map(move |_| &clock.clock)));
    let ours = ours.map(|(load, clock)| {
        let of = |method| load.zero.outcome(method);
        let [first, second] = [Method::NearestPairs, Method::Sampler].map(of);
        let both = |outcome: Option<&Outcome>| {
            [outcome.and_then(|outcome| outcome.k), outcome.and_then(|outcome| outcome.k_clipped)].map(k).to_vec()
        };
        [vec![format!("{clock}, {}", count(load.pairs)), k(load.zero.k_predicted)], both(first), both(second)].concat()
    });
    let printed = example.published.k.iter().map(|row| {
        let dash = || k(None);
        let of = |method| if row.method == method { k(Some(row.k)) } else { dash() };
        let name = format!("published: {}, {}", row.system, row.routine);
        vec![name, dash(), of(Method::NearestPairs), dash(), of(Method::Sampler), dash()]
    });
    let columns = ["k of the zero-time test", "method-1 predicted", "method-1", "clipped", "method-2", "clipped"];
    let note = "<p class=\"note\">Variance without a method over variance with it, on the later half of the tests; above 1 it helps. Predicted: from the memory of the readings' cost on the earlier half. Clipped: values beyond the 0.5 and 99.5 % quantiles held there.</p>";
    format!("{note}{}", table("Improvement factors", &columns, ours.chain(printed)))
}
