//! What `tickscope clock` found, as text for a terminal: what to do first, then the figures, then what the words mean.
//!
//! No line is longer than a table's. Deliberately absent: computing; every figure is the study's.

use tickscope_clock::advice::duration;
use tickscope_clock::compensation::Method;
use tickscope_clock::load::Load;
use tickscope_clock::study::{Across, ClockStudy, Cost, LoadStudy, SectionTest, Study};

use crate::clock::{brief, factor};

/// Characters in a line of text; tables are a little wider.
const WIDTH: usize = 100;

/// Prints all of it.
pub fn print(study: &Study) {
    println!("Which clock to read on this machine, what to subtract, and how short a section it can time");
    println!(
        "The words and the clocks are explained at the end. All figures as data: --json; as pictures: --html FILE.\n"
    );
    for chapter in study.chapters() {
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
    }
    print_ramps(study);
    print_order(study);
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
    let crowd = format!("{:-^15}", format!(" {most} threads "));
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
        let method = format!("{}{}", recipe.method, if recipe.doubtful { "?" } else { "" });
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
    let gain = format!("{:-^15}", " method-1 by ");
    println!("{:75} {off} {gain}", "");
    let section = duration(f64::from(study.plan.section_ns));
    println!(
        "{:24} {:>9} {:>9} {:>9} {:>9} {:>9}  {:>8} {section:>8} {:>8} {:>6}",
        "clock", "nothing", "constant", "long-term", "method-1", "method-2", "empty", "expected", "found"
    );
    for clock in &study.clocks {
        let load = &clock.loads[number];
        print!("{:24}", clock.clock);
        for method in Method::ALL {
            print!(" {:>9}", left(&load.zero, method));
        }
        let off = |test: &SectionTest| brief(test.outcome(load.zero.chosen).map(|outcome| outcome.error));
        let gained = load.zero.outcome(Method::NearestPairs).and_then(|outcome| outcome.k_clipped);
        let [expected, gained] = [load.zero.k_predicted, gained].map(factor);
        println!("  {:>8} {:>8} {expected:>8} {gained:>6}", off(&load.zero), off(&load.section));
    }
    println!();
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

/// Whether clocks went backward, within a thread or from one processor to another.
fn print_order(study: &Study) {
    let within = |clock: &ClockStudy| -> u64 {
        clock.loads.iter().flat_map(|load: &LoadStudy| &load.cells).map(|cell| cell.backward).sum()
    };
    let (mut kept, mut fewest, mut broken, mut not_looked) = (0, u64::MAX, Vec::new(), Vec::new());
    for clock in &study.clocks {
        match &clock.across_processors {
            Across::NotLooked(why) => not_looked.push(format!("'{}' ({why})", clock.clock)),
            Across::Seen(seen) if seen.backward + within(clock) > 0 => {
                let (name, backward, passages) = (&clock.clock, seen.backward, seen.passages);
                broken.push(format!("'{name}' {} times, and {backward} of {passages} times", within(clock)));
            }
            Across::Seen(seen) => {
                kept += 1;
                fewest = fewest.min(seen.passages);
            }
        }
    }
    if kept > 0 {
        let looks = format!("in {fewest} handings over or more");
        paragraph(
            "",
            &format!("{kept} clocks never went backward, within a thread or from one processor to another ({looks})"),
        );
    }
    if !broken.is_empty() {
        paragraph("went backward within a thread, and between two processors: ", &broken.join("; "));
    }
    if !not_looked.is_empty() {
        paragraph("not compared between processors: ", &not_looked.join(", "));
    }
}

fn print_terms(study: &Study) {
    let (most, percent) = (study.plan.readers.last().copied().unwrap_or(1), study.plan.percent);
    println!("\nthe columns");
    for (term, meaning) in [
        (
            "subtract",
            "take this from the difference of the two readings around a section: about what one reading takes. By a \
             method that finds it anew for each section, the typical value",
        ),
        (
            "method",
            "how it is found, see below. '?': it left more error than nothing subtracted did, in sections it was not \
             found on. Do not rely on it",
        ),
        (
            "good to ±",
            "in 19 of 20 sections the result is off by no more than this, as far as was seen. '-': nothing is known, the \
             clock stood still",
        ),
        (
            &format!("{percent} % from"),
            &format!(
                "sections of this length or more are known to {percent} % from one timing. A shorter one: run it this \
                 length divided by its own times between two readings, rounded up, and divide"
            ),
        ),
        (
            "tells apart",
            "usable resolution: two sections that differ by less cannot be told apart from one timing each. What both \
             are off by alike cancels, so it may be less than 'good to'",
        ),
        (
            "alone, threads",
            &format!(
                "what a reading takes when one thread reads, and when {most} do: the median, and what 1 reading in 100 \
                 exceeds. It holds a reading of the counter beside, to take the time: so it is not what to subtract"
            ),
        ),
        ("reads/s", "readings a second of one thread that does nothing else"),
        (
            "what is left",
            "should be 0: the median over sections that do nothing. What is subtracted was found in the first half of the trials, \
             what is left is from the second. '!': further from 0 than with nothing subtracted, because the cost of \
             reading changed in between: that method does not suit this clock",
        ),
        (
            "average error",
            &format!(
                "how far from the truth the method under 'method' comes out, in empty sections, that do nothing, and in \
                 waits of {}; the worst 1 in 20 left out",
                duration(f64::from(study.plan.section_ns))
            ),
        ),
        (
            "method-1 by",
            "by what factor method-1 makes the results scatter less (their variance); expected from the first half of \
             the trials, found in the second. Below 1 they scatter more. It is used where it is expected \
             above 1 and comes out nearer the truth, and where the constant is another from one stretch of time to the next. '-': they do not scatter",
        ),
    ] {
        term_line(term, meaning);
    }
    println!("\nthe methods: what is subtracted from the difference of the two readings around a section");
    for (term, meaning) in [
        (
            "none",
            "nothing: reading takes too little to be seen by this clock, or no method proved itself under this load",
        ),
        ("constant", "always the same: the median gap between two readings made one right after the other"),
        (
            "long-term",
            "always the same: the mean of these gaps. It holds the few that were interrupted, so it is mostly too much \
             on a busy machine",
        ),
        (
            "method-1",
            "anew for each section: the clock is read four times, r1 and r2 right before it, r3 and r4 right after it; \
             it took r3 - r2, less the mean of r2 - r1 and r4 - r3",
        ),
        (
            "method-2",
            "anew for each section: a thread on another processor reads the clock twice in a row all the time; the mean \
             of the gaps it found nearest to the start and to the end",
        ),
    ] {
        term_line(term, meaning);
    }
    println!("\nthe clocks");
    let name = &study.counter.name;
    for (term, meaning) in [
        (
            format!("{name} ..."),
            "the processor's counter. 'plain': unordered, the processor may move the reading past its neighbours. \
             'before': read before anything that follows begins. 'after': read after all that precedes is done. On \
             x86-64: rdtsc; rdtsc, lfence; lfence, rdtsc",
        ),
        (
            "realtime ... tai".into(),
            "clock_gettime(CLOCK_REALTIME) and so on: the kernel's clocks, mostly read without entering it. realtime and \
             tai can be set while a section runs, also backward",
        ),
        ("...-coarse".into(), "the kernel's time of its last tick: cheap, but it stands still for milliseconds"),
        (
            "process-, thread-cpu".into(),
            "the processor time that this process or thread has used: it stands still while others run",
        ),
        ("... syscall".into(), "the same clock through a system call, as where the fast way is not to be had"),
        (
            "ticker thread".into(),
            "a word in memory that another thread keeps setting to the counter: cheap, and still whenever that thread \
             does not run",
        ),
        (
            "mutex".into(),
            "the counter behind a lock, as in programs whose clock must never go backward: threads wait for each other",
        ),
        (
            "unix, udp socket".into(),
            "the counter asked of another thread by a message over a socket of this machine, as a time server's",
        ),
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
        let trial = Trial { t_1: pair, t_m: measured, t_4: pair, truth: 0, sampled: None };
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
