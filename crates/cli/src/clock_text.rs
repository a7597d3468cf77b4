//! What `tickscope clock` found, as text for a terminal: what to do first, then the figures, then what the words mean.
//!
//! No line is longer than a table's. Deliberately absent: computing; every figure is the study's.

use tickscope_clock::advice::{ORDERINGS, duration};
use tickscope_clock::compensation::Method;
use tickscope_clock::load::Load;
use tickscope_clock::measure::{InstructionCost, PUBLISHED};
use tickscope_clock::study::{Cost, SectionTest, Study};
use tickscope_clock::two_word::{LiveTest, Writer};

use crate::clock::{between, brief};

/// Characters in a line of text; tables are a little wider.
const WIDTH: usize = 100;

/// Prints all of it.
pub fn print(study: &Study) {
    println!("Which clock to read on this machine, what to subtract, and how short a section it can time");
    println!("Columns are explained at the end. All figures as data: --json; as pictures: --html FILE.\n");
    for chapter in study.chapters().into_iter().filter(|chapter| chapter.head != ORDERINGS) {
        println!("{}", chapter.head);
        for sentence in &chapter.sentences {
            paragraph("- ", sentence);
        }
        println!();
    }
    for (number, &busy_processes) in study.plan.loads.iter().enumerate() {
        println!("== {} ==", study.plan.load.beside(busy_processes).trim_start_matches("with ").to_uppercase());
        if study.plan.load != Load::SPINNING {
            println!("the load: {}", study.plan.load.words(busy_processes));
        }
        print_recipes(study, number);
        print_methods(study, number);
        print_factors(study, number);
    }
    print_ramps(study);
    for sentence in study.order() {
        paragraph("", &sentence);
    }
    print_two_words(study);
    for absent in &study.absent {
        paragraph("absent: ", &format!("'{}', {}", absent.clock, absent.why));
    }
    print_terms(study);
    print_machine(study);
}

fn print_recipes(study: &Study, number: usize) {
    let (most, percent) = (study.plan.readers.last().copied().unwrap_or(1), study.plan.percent);
    println!(
        "how to time a section; what a reading takes, the counter's around it included (ns unless a unit stands there)"
    );
    let alone = format!("{:-^15}", " alone ");
    let by_turns = if most > study.cpus.len() { "by turns" } else { "threads" };
    let crowd = format!("{:-^15}", format!(" {most} {by_turns} "));
    println!("{:43} {:>7} {:>7} {:>7} {alone} {crowd}", "", "good", format!("{percent} %"), "tells");
    println!(
        "{:24} {:>8} {:9} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}",
        "clock", "subtract", "method", "to ±", "from", "apart", "median", "1/100 >", "median", "1/100 >", "reads/s"
    );
    for clock in &study.clocks {
        let load = &clock.loads[number];
        let recipe = load.recipe(percent);
        let crowd = load.cells.last().map_or(["-".into(), "-".into()], |cell| cost(&cell.cost));
        let ([median, p99], [crowd_median, crowd_p99]) = (cost(&load.alone().cost), crowd);
        let method = format!("{}{}", recipe.method, if recipe.refused.is_some() { "?" } else { "" });
        println!(
            "{:24} {:>8} {method:9} {:>7} {:>7} {:>7} {median:>7} {p99:>7} {crowd_median:>7} {crowd_p99:>7} {:>7}",
            clock.clock,
            brief(Some(recipe.subtract_ns)),
            brief(recipe.good_to_ns),
            brief(recipe.from_ns),
            brief(load.alone().usable_ns),
            rate(load.alone().reads_per_s)
        );
    }
}

fn cost(cost: &Cost) -> [String; 2] {
    [brief(Some(cost.median_ns)), brief(Some(cost.p99_ns))]
}

fn print_methods(study: &Study, number: usize) {
    println!("\nwhat is left of a section that does nothing, when this is subtracted (ns unless a unit stands there)");
    let off = format!("{:-^17}", " average error ");
    println!("{:75} {off}", "");
    let section = duration(f64::from(study.plan.section_ns));
    println!(
        "{:24} {:>9} {:>9} {:>9} {:>9} {:>9}  {:>8} {section:>8}",
        "clock", "nothing", "constant", "long-term", "method-1", "method-2", "empty"
    );
    for clock in &study.clocks {
        let load = &clock.loads[number];
        print!("{:24}", clock.clock);
        for method in Method::ALL {
            print!(" {:>9}", left(&load.zero, method));
        }
        let method = load.recipe(study.plan.percent).method;
        let off = |test: &SectionTest| brief(test.outcome(method).map(|outcome| outcome.error));
        println!("  {:>8} {:>8}", off(&load.zero), off(&load.section));
    }
    println!();
}

/// By what factor method-1 makes durations scatter less, and whether what it assumes holds.
fn print_factors(study: &Study, number: usize) {
    println!(
        "by what factor method-1 makes these scatter less, k; in brackets what each figure lies between with 95 %"
    );
    println!(
        "{:24} {:>20} {:>17} {:>17} {:>17} {:>10}",
        "clock", "rho_1", "k expected", "k found", "uninterrupted", "touched"
    );
    for clock in &study.clocks {
        let zero = &clock.loads[number].zero;
        let pairs = zero.outcome(Method::NearestPairs);
        let Some(found) = pairs.and_then(|pairs| pairs.k) else { continue };
        println!(
            "{:24} {:>20} {:>17} {:>17} {:>17} {:>10}",
            clock.clock,
            between(zero.rho_1),
            between(zero.k_predicted),
            between(Some(found)),
            between(pairs.and_then(|pairs| pairs.k_untouched)),
            format!("{} of {}", zero.touched, zero.trials - zero.trials / 2)
        );
    }
    println!();
}

/// What a running clock of two words shows, with one reader under the first load.
fn print_two_words(study: &Study) {
    let first = study.plan.loads.first();
    let alone = |test: &&LiveTest| test.readers == 1 && Some(&test.busy_processes) == first;
    for test in study.two_words.iter().filter(alone).filter(|test| test.writer == Writer::Atomic) {
        paragraph("a running clock of two words, read by ", &test.words());
    }
}

/// Marked where it is further from 0 than if nothing had been subtracted.
fn left(test: &SectionTest, method: Method) -> String {
    let residual = |method| test.outcome(method).map(|outcome| outcome.residual_median);
    let worse = residual(method).zip(residual(Method::None)).is_some_and(|(with, without)| with.abs() > without.abs());
    format!("{}{}", brief(residual(method)), if worse { "!" } else { "" })
}

pub(crate) fn rate(per_s: f64) -> String {
    match per_s {
        per_s if per_s >= 99.95e6 => format!("{:.0} M", per_s / 1e6),
        per_s if per_s >= 1e6 => format!("{:.1} M", per_s / 1e6),
        per_s if per_s >= 1e3 => format!("{:.1} k", per_s / 1e3),
        per_s => format!("{per_s:.0}"),
    }
}

/// Cost against time where other readers that start and stop are felt.
fn print_ramps(study: &Study) {
    let mut titled = false;
    for clock in &study.clocks {
        for load in &clock.loads {
            let Some(cell) = load.cells.last().filter(|cell| cell.readers > 1 && cell.ramp.felt()) else { continue };
            let slices = &cell.ramp.slices;
            if !titled {
                println!(
                    "what a reading costs as time goes on, while {} other threads start to read too and stop again \
                     (medians; blank: no reading)",
                    cell.readers - 1
                );
                println!("{:54} {}", "clock, members of the load, lowest to highest bar", stage_line(slices.len()));
                titled = true;
            }
            let ns = |ticks: i64| ticks as f64 * 1e9 / study.counter.hertz as f64;
            let costs: Vec<i64> = slices.iter().filter_map(|slice| slice.cost_ticks).collect();
            let (least, most) = (costs.iter().min().copied().unwrap_or(0), costs.iter().max().copied().unwrap_or(0));
            let bars: String = slices.iter().map(|slice| bar(slice.cost_ticks, least, most)).collect();
            let height = format!("{} to {}", duration(ns(least)), duration(ns(most)));
            println!("{:24} {:>2} more {height:>21} |{bars}|", clock.clock, load.busy_processes);
        }
    }
    if titled {
        println!();
    }
}

/// Above the bars: when the others start, when all read, when they stop.
fn stage_line(slices: usize) -> String {
    let fifth = slices / 5;
    let all = slices.saturating_sub(4 * fifth);
    format!("|{:fifth$}{:^fifth$}{:^all$}{:^fifth$}{:fifth$}|", "", "they", "all", "they", "")
        + &format!("\n{:54} |{:fifth$}{:^fifth$}{:^all$}{:^fifth$}{:fifth$}|", "", "", "come", "read", "go", "")
}

fn bar(cost: Option<i64>, least: i64, most: i64) -> char {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    cost.map_or(' ', |cost| BARS[((cost - least) * (BARS.len() as i64 - 1) / (most - least).max(1)) as usize])
}

fn print_terms(study: &Study) {
    let percent = study.plan.percent;
    println!("\nthe columns");
    for (term, meaning) in [
        (
            "subtract",
            "from the difference of the readings around a section; of a method that finds it anew, the typical value",
        ),
        ("method", "how it is found. '?': what one half of the trials called for left more than nothing in the other"),
        ("good to ±", "19 of 20 timings are off by no more. '-': nothing is known, the clock stood still"),
        (&format!("{percent} % from"), "the shortest section that one timing measures so well"),
        ("tells apart", "two sections that differ by less cannot be told apart from one timing each"),
        (
            "alone, threads",
            "a reading between two of the counter: median, what 1 in 100 exceeds. 'by turns': more threads than processors",
        ),
        ("reads/s", "of one thread that does nothing else"),
        (
            "what is left",
            "median over sections that do nothing; should be 0. '!': further from 0 than with nothing subtracted",
        ),
        ("average error", "of the method under 'method', the worst 1 in 20 left out"),
        (
            "k",
            "above 1 method-1 helps; it assumes a rho_1 (correlation with the next reading) of 0 or more. Uninterrupted: without those touched, \
         the trials that took a microsecond and eight spreads longer",
        ),
    ] {
        term_line(term, meaning);
    }
    println!("\nthe methods");
    for (term, meaning) in [
        ("none", "nothing is subtracted"),
        ("constant", "the median gap between two readings one right after the other"),
        ("long-term", "the mean of these gaps, interruptions and all"),
        (
            "method-1",
            "r3 - r2 less the mean of r2 - r1 and r4 - r3, read right before (r1, r2) and after (r3, r4) the section",
        ),
        (
            "method-2",
            "the mean of the gaps nearest to start and end, found by a thread on another processor all the time",
        ),
    ] {
        term_line(term, meaning);
    }
    println!("\nthe clocks");
    let name = &study.counter.name;
    for (term, meaning) in [
        (format!("{name} ..."), "the processor's counter: unordered; read before what follows; after what precedes"),
        (
            "realtime ... tai".into(),
            "clock_gettime; ...-coarse: stands still for milliseconds; ... syscall: by a system call",
        ),
        ("process-, thread-cpu".into(), "processor time that this process or thread has used"),
        ("ticker thread".into(), "a word in memory that another thread keeps at the counter"),
        ("mutex".into(), "the counter behind a lock"),
        ("unix, udp socket".into(), "the counter, asked of another thread by a message"),
    ] {
        term_line(&term, meaning);
    }
}

fn print_machine(study: &Study) {
    let counter = &study.counter;
    println!("\nthe machine");
    let looked = if counter.trapped { "each reading of it is trapped" } else { "read directly, not trapped" };
    paragraph(
        "",
        &format!(
            "{} at {} Hz ({}), {looked}; hypervisor: {}; the kernel's clocksource: {}; {} processors; the study took \
             {:.0} s",
            counter.name,
            counter.hertz,
            counter.declared,
            counter.hypervisor.as_deref().unwrap_or("none"),
            counter.clocksource.as_deref().unwrap_or("unknown"),
            study.cpus.len(),
            study.took_s
        ),
    );
    for published in PUBLISHED {
        let of = |cost: &&InstructionCost| cost.instruction == published.instruction;
        let ours: Vec<String> = study.instructions.iter().filter(of).map(instruction).collect();
        if !ours.is_empty() {
            let [few, many] = published.bare_ns;
            paragraph(
                "",
                &format!(
                    "{}: {}; published: {few:.0} ns over 10^5 and {many:.0} over 10^10 on bare metal, {:.0} on a cloud's node",
                    published.instruction,
                    ours.join(", "),
                    published.cloud_ns
                ),
            );
        }
    }
    println!("the same piece of computing, again and again on each processor, to see whether they are equally fast:");
    for speed in &study.speeds {
        println!(
            "processor {}: {} at best, {} in the median; {:.2} % slower than the fastest at best",
            speed.cpu,
            duration(speed.work_ns_min),
            duration(speed.work_ns_median),
            speed.slower_percent
        );
    }
}

fn instruction(cost: &InstructionCost) -> String {
    format!(
        "{:.1} ns over 10^{:.0} readings ({:.1} uninterrupted)",
        cost.ns,
        (cost.reads as f64).log10(),
        cost.median_ns
    )
}

fn term_line(term: &str, meaning: &str) {
    paragraph(&format!("{term:20} "), meaning);
}

/// Prints text in lines of at most [`WIDTH`] characters; all but the first stand under the text of the first, unless that
/// begins far to the right.
fn paragraph(first: &str, text: &str) {
    let indent = Some(first.chars().count()).filter(|&indent| indent <= 24).unwrap_or(2);
    for line in wrapped(first, indent, text) {
        println!("{line}");
    }
}

fn wrapped(first: &str, indent: usize, text: &str) -> Vec<String> {
    let (mut lines, mut line, mut empty) = (Vec::new(), first.to_owned(), true);
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickscope_clock::compensation::{Halves, Length, Trial, judge};

    /// Sections of no length that seem to take `measured`, beside pairs of readings that take `pair`.
    fn test([pair, measured]: [i64; 2]) -> SectionTest {
        let trial = Trial { t_1: pair, t_m: measured, t_4: pair, truth: 0, sampled: None, touched: false };
        let trials = vec![trial; 100];
        SectionTest::new(0, 100, judge(Halves::of(&trials), &[pair, pair + 1, pair], Length::Zero).unwrap(), None)
    }

    #[test]
    fn what_is_left_is_marked_where_it_is_further_from_0_than_with_nothing_subtracted() {
        let said = |trial| left(&test(trial), Method::Constant);
        let trials = [[4_034_000, 34_000], [41, 20], [40, 20], [40, 40], [0, 0]];
        assert_eq!(trials.map(said), ["-4.0 ms!", "-21.0!", "-20.0", "0.0", "0.0"]);
        assert_eq!(left(&test([40, 40]), Method::Sampler), "-");
    }

    #[test]
    fn lines_of_text_are_as_long_as_they_may_be_and_hold_every_word() {
        let text = "word ".repeat(60);
        let lines = wrapped("term  ", 6, &text);
        assert_eq!(lines.iter().flat_map(|line| line.split_whitespace()).count(), 61);
        assert!(lines[1..].iter().all(|line| line.starts_with("      word")), "{lines:?}");
        let longest = lines.iter().map(|line| line.chars().count()).max();
        assert_eq!(longest, Some(WIDTH), "6 and 19 words of 4 with 18 blanks between are {WIDTH} and one less");
    }
}
