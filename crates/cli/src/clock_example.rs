//! `tickscope clock --example`: the example of the Cm* study on this host, beside what the paper found.

use tickscope_clock::advice::duration;
use tickscope_clock::compensation::Method;
use tickscope_clock::example::{ByClock, Example, ExamplePlan, Figure, Published, Slope, UnderPairs};
use tickscope_clock::measure;
use tickscope_report::example_page;
use tickscope_store::write_whole;
use tickscope_tick::facts::CounterFacts;

use crate::clock::{Progress, brief, factor};
use crate::failure::Failure;
use crate::options::ClockOptions;

/// Runs it and prints its tables.
pub fn example(options: &ClockOptions, facts: &CounterFacts) -> Result<(), Failure> {
    let words = options.words.clone();
    let most = ExamplePlan::WORDS_MAX;
    if !words.is_sorted_by(|a, b| a < b) || words.last().is_none_or(|&last| last > most) {
        return Err(Failure::input(format!(
            "expected --words that ascend up to {most} at most, found {words:?}; give them as 0,500,1000"
        )));
    }
    let plan = ExamplePlan { repetitions: options.repetitions, words, ..ExamplePlan::paper() };
    let mut progress = Progress::new();
    let found = measure::example(&plan, facts, &mut |at| progress.say(at)).map_err(Failure::work)?;
    progress.over();
    if let Some(place) = &options.html {
        write_whole(place, example_page(&found).as_bytes())?;
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&found).map_err(Failure::work)?);
    } else {
        print(&found);
    }
    Ok(())
}

fn print(found: &Example) {
    let [clients, servers] = found.cpus;
    println!(
        "clients on processor {clients}, servers on {servers}; {} timed calls for each number of words, one every {} at random; took {:.0} s",
        found.plan.repetitions,
        duration(f64::from(found.plan.interval_us) * 1e3),
        found.took_s
    );
    if !found.optimised {
        println!("this program was built without optimisation: durations hold its own; build it with --release");
    }
    for clock in &found.clocks {
        print_calls(clock);
    }
    println!();
    for words in LEGEND {
        println!("{words}");
    }
    print_factors(found);
    println!("\nin words");
    for clock in &found.clocks {
        for load in &clock.loads {
            let pairs = if load.pairs == 1 { "1 pair".into() } else { format!("{} pairs", load.pairs) };
            println!("- by '{}', {pairs}: {}", clock.clock, slope_words(&load.rpc_slope));
        }
    }
}

const LEGEND: [&str; 7] = [
    "latency: from the client's reading before it sends to the server's after it received (figure 16 of the paper). call: from there to",
    "the client's reading after it read the results (figure 17). words: of 16 bits as in the paper, in memory that both processes share;",
    "the server reads one half of them as arguments, the client the other half as results. The message itself is as long for any number.",
    "+-: standard deviation, the bars of the figures. Net: a latency holds one reading of the clock, a call two; each was subtracted by",
    "the method that the zero-time test in every repetition chose. a word: median of the repetitions' own slopes, each by least squares over its calls; in",
    "brackets what that lies between with 95 %, if repetitions are independent. By the means, one long interruption tilts the line.",
    "These are estimates, not bounds.",
];

fn print_calls(clock: &ByClock) {
    println!("\nby '{}'; ns unless a unit stands there", clock.clock);
    println!(
        "{:>5} {:>6}  {:>9} {:>9} {:>9} {:>9}  {:>9} {:>9} {:>9} {:>9}",
        "pairs", "words", "latency", "mean", "+-", "p95", "call", "mean", "+-", "p95"
    );
    for load in &clock.loads {
        for cell in &load.cells {
            println!("{:>5} {:>6}  {}  {}", load.pairs, cell.words, figures(&cell.latency), figures(&cell.rpc));
        }
        let UnderPairs { pairs, latency_slope, rpc_slope, zero, .. } = load;
        println!("{pairs:>5} a word  {:39}  {}", slope(latency_slope), slope(rpc_slope));
        println!("      subtracted by '{}': {}", zero.chosen, zero.why);
        let negative: usize = load.cells.iter().map(|cell| cell.latency.negative + cell.rpc.negative).sum();
        if negative + load.late as usize > 0 {
            println!("      {negative} durations came out negative; {} calls began late", load.late);
        }
    }
}

fn figures(figure: &Figure) -> String {
    let [median, mean, deviation, p95] =
        [figure.median_ns, figure.mean_ns, figure.deviation_ns, figure.p95_ns].map(|ns| brief(Some(ns)));
    format!("{median:>9} {mean:>9} {deviation:>9} {p95:>9}")
}

fn slope(slope: &Slope) -> String {
    let interval = slope.interval_ns.map_or_else(|| "too few".into(), |[lo, hi]| format!("{lo:.1} to {hi:.1}"));
    format!("{:.1} [{interval}], means {:.1}", slope.median_ns, slope.of_means_ns)
}

fn slope_words(slope: &Slope) -> String {
    match slope.interval_ns {
        Some([lo, hi]) if lo > 0.0 => {
            format!("every word costs a call {:.1} ns, between {lo:.1} and {hi:.1}", slope.median_ns)
        }
        Some([lo, hi]) => {
            format!("what a word costs a call is not resolved: {:.1} ns, between {lo:.1} and {hi:.1}", slope.median_ns)
        }
        None => "too few repetitions to say what a word costs a call".into(),
    }
}

/// The published k beside ours.
fn print_factors(found: &Example) {
    println!("\nk, variance without a method over variance with it, in the zero-time test; above 1 the method helps");
    println!(
        "{:24} {:>5}  {:>8} {:>8}  {:>8} {:>8}  {:>9}",
        "", "", "method-1", "clipped", "method-2", "clipped", "left"
    );
    for clock in &found.clocks {
        for UnderPairs { pairs, zero, .. } in &clock.loads {
            let of = |method| zero.outcome(method).map_or((None, None), |outcome| (outcome.k, outcome.k_clipped));
            let ((first, first_clipped), (second, second_clipped)) = (of(Method::NearestPairs), of(Method::Sampler));
            let left = zero.outcome(zero.chosen).map(|outcome| outcome.residual_median);
            println!(
                "{:24} {pairs:>5}  {:>8} {:>8}  {:>8} {:>8}  {:>9}",
                clock.clock,
                factor(first),
                factor(first_clipped),
                factor(second),
                factor(second_clipped),
                brief(left)
            );
        }
    }
    let Published { k, k_example, k_example_without_interrupts, mean_error_us, .. } = &found.published;
    println!("published:");
    for row in k {
        let column = if row.method == Method::NearestPairs { 0 } else { 18 };
        println!(
            "{:24} {:>5}  {:column$}{:>8}",
            format!("{} {}", row.system, row.routine),
            "",
            "",
            factor(Some(row.k))
        );
    }
    let [[from, to], [clean_from, clean_to]] = [k_example, k_example_without_interrupts];
    println!(
        "{:24} {:>5}  {:18}{:>8} {:>8}  {:>9}",
        "StarOS, the example",
        "1-3",
        "",
        format!("{from}-{to}"),
        format!("{clean_from}-{clean_to}"),
        format!("{mean_error_us} us")
    );
    let [one, two, three] = found.published.latency_us;
    println!(
        "published latencies {one}, {two} and {three} us with 1 to 3 pairs, {} us a word of a call with one pair; clipped there: without \
         interrupts, by simulation",
        found.published.rpc_slope_us
    );
}
