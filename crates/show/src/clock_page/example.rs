//! The page of the example of the Cm* study.

use std::fmt::Write;

use tickscope_clock::advice::duration;
use tickscope_clock::compensation::{Method, Outcome};
use tickscope_clock::example::{ByClock, CallCell, Example, Figure as Spread, Slope};

use super::{between, legend, page, recorded, table};
use crate::plot::{Axis, Figure, Ink};
use crate::text::Text;

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
        let y = Axis::of_durations_by_spread(cells().flat_map(|cell| [of(cell).median_ns, of(cell).p95_ns]));
        let mut figure = Figure::plane(x.named("words of 16 bits"), y.named("time"));
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

pub(super) fn count(pairs: u32) -> String {
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
            [outcome.and_then(|outcome| outcome.k), outcome.and_then(|outcome| outcome.k_untouched)]
                .map(between)
                .to_vec()
        };
        [vec![format!("{clock}, {}", count(load.pairs)), between(load.zero.k_predicted)], both(first), both(second)]
            .concat()
    });
    let printed = example.published.k.iter().map(|row| {
        let dash = || k(None);
        let of = |method| if row.method == method { k(Some(row.k)) } else { dash() };
        let name = format!("published: {}, {}", row.system, row.routine);
        vec![name, dash(), of(Method::NearestPairs), dash(), of(Method::Sampler), dash()]
    });
    let columns = [
        "k of the zero-time test",
        "method-1 predicted",
        "method-1",
        "without interrupted",
        "method-2",
        "without interrupted",
    ];
    let note = "<p class=\"note\">Variance without a method over variance with it, on the later half of the tests; above 1 it helps. Of stretches of time: the median, and what it lies between with 95 %. Predicted: from the memory of the readings' cost on the earlier half. Without interrupted: without the tests that an interrupt touched.</p>";
    format!("{note}{}", table("Improvement factors", &columns, ours.chain(printed)))
}
