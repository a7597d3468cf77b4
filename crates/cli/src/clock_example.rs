//! `tickscope clock --example`: the example of the Cm* study on this host, beside what the paper found.

use std::path::Path;

use tickscope_clock::advice::duration;
use tickscope_clock::compensation::Method;
use tickscope_clock::example::{
    ByClock, Example, ExamplePlan, Figure, Guaranteed, Published, RunFacts, Slope, UnderPairs,
};
use tickscope_clock::measure;
use tickscope_host::facts::CounterFacts;
use tickscope_show::example_page;
use tickscope_store::write_whole;

use crate::clock::{Progress, between, brief, factor};
use crate::failure::Failure;
use crate::options::ClockOptions;
use crate::recorded_example::{Found, recorded};

/// Runs it, or reads it from a run, and prints its tables.
pub fn example(options: &ClockOptions, run: Option<&Path>) -> Result<(), Failure> {
    let Found { example: found, finding } = match run {
        Some(run) => from_run(options, run)?,
        None => Found { example: on_this_host(options)?, finding: None },
    };
    if let Some(place) = &options.html {
        write_whole(place, example_page(&found).as_bytes())?;
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&found).map_err(Failure::work)?);
    } else {
        print(&found);
    }
    finding.map_or(Ok(()), |finding| Err(Failure::finding(finding)))
}

fn from_run(options: &ClockOptions, run: &Path) -> Result<Found, Failure> {
    if options.words.is_some() || options.repetitions.is_some() {
        return Err(Failure::input(
            "expected --example RUN alone, found --words or --repetitions. The run has its own: its run file says which",
        ));
    }
    recorded(run)
}

fn on_this_host(options: &ClockOptions) -> Result<Example, Failure> {
    let paper = ExamplePlan::paper();
    let words = options.words.clone().unwrap_or(paper.words);
    let most = ExamplePlan::WORDS_MAX;
    if !words.is_sorted_by(|a, b| a < b) || words.last().is_none_or(|&last| last > most) {
        return Err(Failure::input(format!(
            "expected --words that ascend up to {most} at most, found {words:?}; give them as 0,500,1000"
        )));
    }
    let repetitions = options.repetitions.unwrap_or(paper.repetitions);
    let plan = ExamplePlan { repetitions, words, ..paper };
    let facts = CounterFacts::of_this_host().map_err(Failure::work)?;
    let mut progress = Progress::new();
    let found = measure::example(&plan, &facts, &mut |at| progress.say(at)).map_err(Failure::work)?;
    progress.over();
    Ok(found)
}

fn print(found: &Example) {
    let [clients, servers] = found.cpus;
    println!(
        "clients on processor {clients}, servers on {servers}; {} timed calls for each number of words, one every {} at random; took {:.0} s",
        found.plan.repetitions,
        duration(f64::from(found.plan.interval_us) * 1e3),
        found.took_s
    );
    if let Some(run) = &found.run {
        print_run(run);
    }
    if !found.optimised {
        let remedy = if found.run.is_some() { "make build does" } else { "build it with --release" };
        println!("the program that measured was built without optimisation: durations hold its own; {remedy}");
    }
    for clock in &found.clocks {
        print_calls(clock);
        print_guaranteed(clock);
    }
    println!();
    for words in if found.run.is_some() { &RUN_LEGEND[..] } else { &LEGEND[..] } {
        println!("{words}");
    }
    print_factors(found);
    println!("\nin words");
    for clock in &found.clocks {
        for load in &clock.loads {
            let pairs = if load.pairs == 1 { "1 pair".into() } else { format!("{} pairs", load.pairs) };
            println!("- by '{}', {pairs}: {}", clock.clock, slope_words("call", &load.rpc_slope, 0.0));
            if let Some(clocks) = load.latency_slope_clock {
                let clocks_ns = f64::from(clocks);
                println!("- by '{}', {pairs}: {}", clock.clock, slope_words("message", &load.latency_slope, clocks_ns));
            }
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

const RUN_LEGEND: [&str; 12] = [
    "latency: from the client's stamp before it sends to the server's after it received (figure 16 of the paper). call: from there to",
    "the client's stamp after it read the results (figure 17). words: of 16 bits as in the paper, but in the datagrams: half of them are",
    "arguments, on the way there, the other half results, on the way back. In the paper, and without a run, they are in shared memory.",
    "Estimates: a latency is what the clock map of the two clocks makes of it; one stamp was subtracted from it and four from a call, by the",
    "method that the zero-time test before every call chose. +-: standard deviation, the bars of the figures. a word: median of the",
    "repetitions' own slopes, each by least squares over its calls; in brackets what that lies between with 95 %, if repetitions are",
    "independent. By the means, one long interruption tilts the line.",
    "Guaranteed: from stamp to stamp, nothing subtracted, whatever network and clocks did within rho, in seconds as the client's counter is",
    "declared to run. A call begins and ends on one counter, a latency on two: that is its interval. All latencies of the run are off",
    "together, but for drift; so by how much two cells differ is known better than either. by clocks: a word of a latency is off by so much at",
    "most because the clocks moved against each other within a repetition. Where the time of these calls lies is guaranteed, not that other",
    "calls take as long.",
];

fn print_run(run: &RunFacts) {
    let RunFacts { directory, network, rho, half_width, truth, incomplete, left_out, late, abandoned } = run;
    println!("run {directory}: {network}; rho {rho}");
    if let Some(reach) = half_width {
        println!("the server's clock is known to ±{} ns at the median", reach.ns(0));
    }
    if let Some([known, inside]) = truth {
        println!("known truth: {inside} of {known} true durations lie in their intervals");
    }
    println!(
        "{late} calls began late; {abandoned} repetitions were made again; {incomplete} calls lack a stamp, {left_out} another call of their repetition: \
         both left out"
    );
}

/// What holds whatever the clocks did, where there is more than one.
fn print_guaranteed(clock: &ByClock) {
    let cells = || clock.loads.iter().flat_map(|load| load.cells.iter().map(move |cell| (load, cell)));
    if cells().all(|(_, cell)| cell.guaranteed.is_none()) {
        return;
    }
    println!("\nguaranteed, from stamp to stamp, us");
    println!("{:>5} {:>6}  {:>19} {:>21} {:>21}", "pairs", "words", "median latency", "p95", "median call");
    for (load, cell) in cells() {
        let Some(Guaranteed { latency_median, latency_p95, rpc_median }) = cell.guaranteed else { continue };
        let [median, p95, call] = [latency_median, latency_p95, rpc_median].map(|bound| bound.to_string());
        println!("{:>5} {:>6}  {median:>19} {p95:>21} {call:>21}", load.pairs, cell.words);
    }
    for load in &clock.loads {
        if let Some(reach) = load.latency_slope_clock {
            println!("{:>5} a word  by clocks at most ±{} ns", load.pairs, reach.ns(2));
        }
    }
}

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
        let late = load.late.unwrap_or(0);
        if negative + late as usize > 0 {
            println!("      {negative} durations came out negative; {late} calls began late");
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

/// `clocks_ns`: how far the clocks may have moved the slope, beside what chance did.
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

/// The published k beside ours.
fn print_factors(found: &Example) {
    println!(
        "\nk, variance without a method over variance with it, in stretches of the later half of the zero-time tests: the median, and what it lies\n\
         between; above 1 the method helps. predicted: for method-1, from the memory of the readings' cost on the earlier half"
    );
    println!(
        "{:24} {:>5}  {:>17} {:>17} {:>17} {:>17} {:>17}  {:>9}",
        "", "", "predicted", "method-1", "uninterrupted", "method-2", "uninterrupted", "left"
    );
    for clock in &found.clocks {
        for UnderPairs { pairs, zero, .. } in &clock.loads {
            let of = |method| zero.outcome(method).map_or((None, None), |outcome| (outcome.k, outcome.k_untouched));
            let ((first, first_untouched), (second, second_untouched)) =
                (of(Method::NearestPairs), of(Method::Sampler));
            let left = zero.outcome(zero.chosen).map(|outcome| outcome.residual_median);
            println!(
                "{:24} {pairs:>5}  {:>17} {:>17} {:>17} {:>17} {:>17}  {:>9}",
                clock.clock,
                between(zero.k_predicted),
                between(first),
                between(first_untouched),
                between(second),
                between(second_untouched),
                brief(left)
            );
        }
    }
    let Published { k, k_example, k_example_without_interrupts, mean_error_us, .. } = &found.published;
    println!("published:");
    for row in k {
        let column = if row.method == Method::NearestPairs { 18 } else { 54 };
        println!(
            "{:24} {:>5}  {:column$}{:>17}",
            format!("{} {}", row.system, row.routine),
            "",
            "",
            factor(Some(row.k))
        );
    }
    let [[from, to], [clean_from, clean_to]] = [k_example, k_example_without_interrupts];
    println!(
        "{:24} {:>5}  {:54}{:>17} {:>17}  {:>9}",
        "StarOS, the example",
        "1-3",
        "",
        format!("{from}-{to}"),
        format!("{clean_from}-{clean_to}"),
        format!("{mean_error_us} us")
    );
    let [one, two, three] = found.published.latency_us;
    println!(
        "published latencies {one}, {two} and {three} us with 1 to 3 pairs, {} us a word of a call with one pair; uninterrupted there: by \
         simulation",
        found.published.rpc_slope_us
    );
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
