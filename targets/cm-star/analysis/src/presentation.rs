//! Document of the example: estimates, guaranteed bounds, and published figures.

use tickscope_clock::advice::duration;
use tickscope_clock::compensation::{Method, Outcome};
use tickscope_show::clock_page::between;
use tickscope_show::document::{Block, Document, Panel, panel, part};
use tickscope_show::plot::{Axis, Figure as Drawing, Ink};

use crate::figures::{CallCell, Example, Figure, Published, Slope, UnderPairs};
use crate::recording::{Guaranteed, RunFacts};

/// All of it.
pub fn document(example: &Example) -> Document {
    let [clients, servers] = example.cpus;
    let about = format!(
        "clients on processor {clients}, servers on {servers}; {} timed calls for each number of words, one every {} \
         at random; took {:.0} s",
        example.plan.repetitions,
        duration(f64::from(example.plan.interval_us) * 1e3),
        example.took_s
    );
    Document {
        title: "Messages and calls between processes".into(),
        about,
        lead: lead(example),
        first: Vec::new(),
        parts: vec![
            part("By tickscope stamps", estimates(example)),
            part("Guaranteed", guaranteed(example)),
            part("Next to what was published", published(example)),
        ],
    }
}

/// Source of the figures, how far they can be trusted, and what a word costs.
fn lead(example: &Example) -> Vec<Block> {
    let RunFacts { directory, network, rho, half_width, truth, incomplete, left_out, late, abandoned } = &example.run;
    let known =
        half_width.map_or_else(String::new, |reach| format!("; the server's clock is known to ±{} ns", reach.ns(0)));
    let mut lead = vec![
        "What a message and a remote procedure call cost between two nodes, against the words of 16 bits that their \
         datagrams carry, half of them as arguments, half as results, with one to three pairs at once: the example of \
         the Cm* study, from a run."
            .into(),
        "Figures are estimates: what the stamps cost was subtracted by the method that the test before every call \
         chose. What is guaranteed stands in a table of its own."
            .into(),
        format!("run {directory}: {network}; rho {rho}{known}"),
        format!(
            "{late} calls began late; {abandoned} repetitions were made again; {incomplete} calls lack a stamp, \
             {left_out} another call of their repetition: both left out"
        ),
    ];
    lead.extend(
        truth.map(|[known, inside]| format!("known truth: {inside} of {known} true durations lie in their intervals")),
    );
    if !example.optimised {
        lead.push(
            "The program that measured was built without optimisation: durations hold its own; make build does.".into(),
        );
    }
    for load in &example.loads {
        let pairs = count(load.pairs);
        lead.push(format!("{pairs}: {}", slope_words("call", &load.rpc_slope, 0.0)));
        lead.push(format!("{pairs}: {}", slope_words("message", &load.latency_slope, load.latency_slope_clock.into())));
    }
    lead.into_iter().map(Block::paragraph).collect()
}

fn count(pairs: u32) -> String {
    if pairs == 1 { "1 pair".into() } else { format!("{pairs} pairs") }
}

/// `clocks_ns`: how far the clocks may have moved the slope, next to what chance did.
fn slope_words(of: &str, slope: &Slope, clocks_ns: f64) -> String {
    let interval = slope.interval_ns.map(|[lo, hi]| [lo - clocks_ns, hi + clocks_ns]);
    match interval {
        Some([lo, hi]) if lo > 0.0 => {
            format!("every word costs a {of} {:.1} ns, between {lo:.1} and {hi:.1}", slope.median_ns)
        }
        Some([lo, hi]) => {
            format!("what a word costs a {of} is not resolved: {:.1} ns, between {lo:.1} and {hi:.1}", slope.median_ns)
        }
        None => format!("too few repetitions to say what a word costs a {of}"),
    }
}

/// Figures 16 and 17 of the paper, and their table.
fn estimates(example: &Example) -> Vec<Block> {
    let mut blocks = vec![
        Block::legend(example.loads.iter().map(|load| count(load.pairs))),
        Block::note(
            "Lines through the medians; thick: what the median lies between with 95 %; thin: up to what 95 of 100 \
             took at most.",
        ),
        Block::panels(vec![
            drawn(example, "Latency of a message", |cell| cell.latency),
            drawn(example, "Time of a call", |cell| cell.rpc),
        ]),
        calls(example),
    ];
    for UnderPairs { pairs, zero, cells, .. } in &example.loads {
        let negative: usize = cells.iter().map(|cell| cell.latency.negative + cell.rpc.negative).sum();
        let negative = if negative > 0 { format!("; {negative} durations came out negative") } else { String::new() };
        let (method, why) = (zero.chosen, &zero.why);
        blocks.push(Block::paragraph(format!("{}: subtracted by '{method}': {why}{negative}", count(*pairs))));
    }
    blocks.push(Block::terms(&[
        (
            "latency",
            "from the client's stamp before it sends to the server's after it received (figure 16 of the \
                     paper)",
        ),
        ("call", "from there to the client's stamp after it read the results (figure 17)"),
        ("deviation", "standard deviation, the bars of the paper's figures"),
        (
            "a word",
            "the median of the repetitions' own slopes, each by least squares over its calls; what that lies between \
             with 95 %, if repetitions are independent; by the means, which one long interruption tilts",
        ),
    ]));
    blocks
}

fn drawn(example: &Example, name: &str, of: fn(&CallCell) -> Figure) -> Panel {
    let cells = || example.loads.iter().flat_map(|load| &load.cells);
    let x = Axis::from_0(cells().map(|cell| f64::from(cell.words)), |at| format!("{at:.0}"));
    let y = Axis::of_durations_by_spread(cells().flat_map(|cell| [of(cell).median_ns, of(cell).p95_ns]));
    let mut figure = Drawing::plane(x.named("words of 16 bits"), y.named("time"));
    for (kind, load) in example.loads.iter().enumerate() {
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
    let words = format!("{name} against the words accessed, one line a number of pairs. The table has the numbers.");
    panel(&format!("{name} against words"), vec![figure.block(&words)])
}

fn calls(example: &Example) -> Block {
    let spread = |of: &Figure| [of.median_ns, of.mean_ns, of.deviation_ns, of.p95_ns].map(duration).to_vec();
    let rows = example.loads.iter().flat_map(|load| {
        let cell = move |cell: &CallCell| {
            let name = vec![format!("{}, {} words", count(load.pairs), cell.words)];
            [name, spread(&cell.latency), spread(&cell.rpc)].concat()
        };
        let slope = |of: &Slope| {
            let [lo, hi] =
                of.interval_ns.map_or(["–".into(), "–".into()], |ends| ends.map(|end| format!("{end:.1}")));
            vec![format!("{:.1}", of.median_ns), lo, hi, format!("{:.1}", of.of_means_ns)]
        };
        let name = vec![format!("{}, a word, ns: median, from, to, by means", count(load.pairs))];
        let slopes = [name, slope(&load.latency_slope), slope(&load.rpc_slope)].concat();
        load.cells.iter().map(cell).chain([slopes]).collect::<Vec<_>>()
    });
    let columns = [
        "pairs",
        "latency, median",
        "mean",
        "deviation",
        "95 of 100",
        "call, median",
        "mean",
        "deviation",
        "95 of 100",
    ];
    Block::table("Latency and time of calls", &columns, rows)
}

/// Figures that hold whatever the clocks of the nodes did.
fn guaranteed(example: &Example) -> Vec<Block> {
    let cells = example.loads.iter().flat_map(|load| load.cells.iter().map(move |cell| (load.pairs, cell)));
    let rows = cells.map(|(pairs, cell)| {
        let Guaranteed { latency_median, latency_p95, rpc_median } = cell.guaranteed;
        let bounds = [latency_median, latency_p95, rpc_median].map(|bound| format!("{bound} us"));
        [vec![format!("{}, {} words", count(pairs), cell.words)], bounds.to_vec()].concat()
    });
    let mut words = String::from(
        "From stamp to stamp, nothing subtracted, whatever the network and the clocks did within rho, in seconds as \
         the client's counter is declared to run. All latencies of the run are off together, but for drift. Where the \
         time of these calls lies is guaranteed, not that other calls take as long.",
    );
    if let Some(most) = example.loads.iter().map(|load| load.latency_slope_clock).max_by_key(|reach| reach.ns(2)) {
        words += &format!(" The clocks can have moved what a word costs a message by {} ns at most.", most.ns(2));
    }
    let columns = ["pairs", "latency, median", "95 of 100", "call, median"];
    vec![Block::paragraph(words), Block::table("Guaranteed intervals", &columns, rows)]
}

/// The published k and latencies next to ours.
fn published(example: &Example) -> Vec<Block> {
    let Published { k, k_example, k_example_without_interrupts, mean_error_us, latency_us, rpc_slope_us } =
        &example.published;
    let dash = || String::from("–");
    let ours = example.loads.iter().map(|load| {
        let both = |method| {
            let outcome: Option<&Outcome> = load.zero.outcome(method);
            [outcome.and_then(|of| of.k), outcome.and_then(|of| of.k_untouched)].map(between)
        };
        let [first, first_untouched] = both(Method::NearestPairs);
        let [second, second_untouched] = both(Method::Sampler);
        let left = load.zero.outcome(load.zero.chosen).map_or_else(dash, |outcome| duration(outcome.residual_median));
        let predicted = between(load.zero.k_predicted);
        vec![count(load.pairs), predicted, first, first_untouched, second, second_untouched, left]
    });
    let printed = k.iter().map(|row| {
        let of = |method| if row.method == method { format!("{:.2}", row.k) } else { dash() };
        let name = format!("published: {}, {}", row.system, row.routine);
        vec![name, dash(), of(Method::NearestPairs), dash(), of(Method::Sampler), dash(), dash()]
    });
    let between_two = |[from, to]: &[f64; 2]| format!("{from} to {to}");
    let of_example = vec![
        "published: StarOS, the example".into(),
        dash(),
        dash(),
        dash(),
        between_two(k_example),
        between_two(k_example_without_interrupts),
        format!("{mean_error_us} us"),
    ];
    let words = "k: variance without a method over variance with it, in stretches of the later half of the zero-time \
                 tests; above 1 the method helps. In brackets what it lies between. Predicted: from the memory of the \
                 readings' cost on the earlier half. Uninterrupted: without the tests that an interrupt touched; as \
                 published, by simulation.";
    let [one, two, three] = latency_us;
    let latencies = format!(
        "Published mean latencies {one}, {two} and {three} us with 1 to 3 pairs, {rpc_slope_us} us a word of a call \
         with one pair."
    );
    let columns =
        ["k of the zero-time test", "predicted", "method-1", "uninterrupted", "method-2", "uninterrupted", "left"];
    vec![
        Block::paragraph(words),
        Block::table("Improvement factors", &columns, ours.chain(printed).chain([of_example])),
        Block::paragraph(latencies),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_that_the_clocks_may_have_made_is_not_resolved() {
        let slope = Slope { median_ns: 4.0, interval_ns: Some([2.0, 6.0]), of_means_ns: 4.0 };
        assert_eq!(slope_words("message", &slope, 1.9), "every word costs a message 4.0 ns, between 0.1 and 7.9");
        assert!(slope_words("message", &slope, 2.1).contains("not resolved: 4.0 ns, between -0.1 and 8.1"));
    }
}
