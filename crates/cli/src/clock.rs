//! `tickscope clock`: what this host's clocks cost, how finely each can be used, and what to subtract.

use std::io::{IsTerminal, Write};

use tickscope_clock::advice::duration;
use tickscope_clock::compensation::Method;
use tickscope_clock::load::{self, Load};
use tickscope_clock::measure::{Ramp, pulses, survey};
use tickscope_clock::study::{Across, Cell, ClockStudy, LoadStudy, Plan, PulseTest, SectionTest, Study, Sweep};
use tickscope_clock::two_word::{Table, Widths};
use tickscope_report::study_page;
use tickscope_store::write_whole;
use tickscope_tick::affinity;
use tickscope_tick::facts::CounterFacts;

use crate::failure::Failure;
use crate::options::{ClockOptions, LoadKind};
use crate::{clock_example, clock_gauge};

/// Studies the clocks and prints the table with its advice; exit code 3 where a clock breaks its promise.
pub fn clock(options: &ClockOptions) -> Result<(), Failure> {
    if options.two_words {
        print!("{}", Table::of(Widths { high_bits: 2, low_bits: 2 }));
        return Ok(());
    }
    let facts = CounterFacts::of_this_host().map_err(Failure::work)?;
    if options.example {
        return clock_example::example(options, &facts);
    }
    let plan = plan(options)?;
    let mut progress = Progress::new();
    if options.gauge {
        return clock_gauge::gauge(options, plan, &facts);
    }
    if options.granularity {
        return granularity(&plan, &facts, options.json, &mut progress);
    }
    let study = survey(&plan, &facts, &mut |at| progress.say(at)).map_err(Failure::work)?;
    progress.over();
    if let Some(place) = &options.html {
        write_whole(place, study_page(&study).as_bytes())?;
    }
    if options.json {
        let mut json = serde_json::to_value(&study).map_err(Failure::work)?;
        for (of, clock) in study.clocks.iter().enumerate() {
            json["clocks"][of]["words"] = clock.words().into();
        }
        json["advice"] = study.advice().into();
        json["findings"] = study.findings().into();
        println!("{}", serde_json::to_string_pretty(&json).map_err(Failure::work)?);
    } else {
        print(&study);
    }
    match study.findings().as_slice() {
        [] => Ok(()),
        findings => Err(Failure::finding(findings.join("; "))),
    }
}

fn plan(options: &ClockOptions) -> Result<Plan, Failure> {
    let refuse =
        |what: &str, found: &dyn std::fmt::Display| Err(Failure::input(format!("expected {what}, found {found}")));
    if !(options.seconds.is_finite() && options.seconds > 0.0) {
        return refuse("--seconds above 0", &options.seconds);
    }
    if !(options.percent.is_finite() && options.percent > 0.0) {
        return refuse("--percent above 0", &options.percent);
    }
    if options.readers == Some(0) {
        return refuse("--readers of at least 1", &0);
    }
    let allowed = affinity::allowed_cpus().map_err(Failure::work)?;
    if let Some(barred) = options.load_cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        return refuse(&format!("--load-cpus of {allowed:?}"), barred);
    }
    let processors = allowed.len();
    let most = options.readers.unwrap_or(processors.max(4));
    let doubling = std::iter::successors(Some(1), |readers| Some(readers * 2)).take_while(|&readers| readers < most);
    let mut loads = options.load.clone();
    loads.sort_unstable();
    loads.dedup();
    let load = Load {
        kind: match options.load_kind {
            LoadKind::Spin => load::LoadKind::Spin,
            LoadKind::Replica => load::LoadKind::Replica,
        },
        cpus: options.load_cpus.clone(),
        injected: options.inject,
    };
    Ok(Plan {
        seconds: options.seconds,
        loads,
        load,
        readers: doubling.chain([most]).collect(),
        percent: options.percent,
        section_ns: options.section_ns,
    })
}

/// Method I under a load in pulses, from far longer than a reading to far shorter.
fn granularity(plan: &Plan, facts: &CounterFacts, json: bool, progress: &mut Progress) -> Result<(), Failure> {
    let busy_processes = plan.loads.last().copied().unwrap_or(0);
    let pulses_ns = vec![100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1_000];
    let sweep = Sweep { seconds: plan.seconds, busy_processes, load: plan.load.clone(), pulses_ns };
    let found = pulses(&sweep, facts, &mut |at| progress.say(at)).map_err(Failure::work)?;
    progress.over();
    if json {
        println!("{}", serde_json::to_string_pretty(&found).map_err(Failure::work)?);
        return Ok(());
    }
    println!(
        "{} beside, at work and at rest by turns for as long as a pulse; k of method-1 above 1: it helps",
        plan.load.words(busy_processes)
    );
    println!(
        "{:24} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "clock", "pulse", "turns/s", "cost", "rho_1", "k pred.", "k", "k raw", "trials"
    );
    for PulseTest { clock, pulse_ns, turns_per_s, cost_ns, test } in &found {
        let outcome = test.outcome(Method::NearestPairs);
        println!(
            "{clock:24} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8}",
            duration(f64::from(*pulse_ns)),
            turns_per_s.map_or_else(|| "-".into(), rate),
            duration(*cost_ns),
            factor(test.memory.map(|memory| memory.rho_1)),
            factor(test.k_predicted),
            factor(outcome.and_then(|outcome| outcome.k_clipped)),
            factor(outcome.and_then(|outcome| outcome.k)),
            test.trials
        );
    }
    Ok(())
}

/// One line on standard error that is written over, where that is a terminal; else a line every so often.
pub(crate) struct Progress {
    terminal: bool,
    said: String,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), said: String::new() }
    }

    pub(crate) fn say(&mut self, at: &str) {
        if self.terminal {
            eprint!("\r\x1b[K{at}");
            // A line that cannot be shown is no loss.
            let _ = std::io::stderr().flush();
        } else {
            let (_, part) = at.split_once([':', ',']).unwrap_or(("", at));
            if part != self.said {
                eprintln!("clocks:{part}");
                part.clone_into(&mut self.said);
            }
        }
    }

    pub(crate) fn over(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }
}

fn print(study: &Study) {
    let counter = &study.counter;
    println!(
        "{} at {} Hz ({}), kernel's clocksource {}; {} processors; took {:.0} s",
        counter.name,
        counter.hertz,
        counter.declared,
        counter.clocksource.as_deref().unwrap_or("unknown"),
        study.cpus.len(),
        study.took_s
    );
    for speed in &study.speeds {
        println!(
            "processor {}: the same work in {}, median {}; {:.2} % slower than the fastest",
            speed.cpu,
            duration(speed.work_ns_min),
            duration(speed.work_ns_median),
            speed.slower_percent
        );
    }
    for (number, busy_processes) in study.plan.loads.iter().enumerate() {
        println!("\nwith {} beside; ns unless a unit stands there", study.plan.load.words(*busy_processes));
        print_load(study, number);
    }
    print_ramps(study);
    for absent in &study.absent {
        println!("absent: '{}', {}", absent.clock, absent.why);
    }
    println!();
    for words in LEGEND {
        println!("{words}");
    }
    println!(
        "\nin words: by how much two durations must differ to be told apart, and how long a section must be to be measured to {} %",
        study.plan.percent
    );
    for clock in &study.clocks {
        println!("- {}: {}", clock.clock, clock.words());
    }
    println!("\nadvice");
    for advice in study.advice() {
        println!("- {advice}");
    }
}

const LEGEND: [&str; 9] = [
    "cost of a reading: from one stamp of the counter to the next with a reading between; it holds the stamp, a 'tsc plain'.",
    "crowd: the median with the most readers at once. reads/s: of one reader, alone.",
    "step: what the clock itself leaves open: its quantum, or how long it stands still. usable: what two durations must differ by to",
    "be told apart in 19 of 20 measurements. from: the shortest section that is measured to the percentage asked for, as often.",
    "went back: readings less than one on another processor just before, of so many.",
    "left of nothing: sections of no length are measured and a method subtracts what reading cost; the median that is left, found on",
    "one half of the trials with what was fitted on the other. off: what the method to use leaves on average, in sections of no length",
    "and of the length asked for, in the better 19 of 20. k: variance without Method I over variance with it, clipped, as predicted from",
    "the other half and as measured; above 1 it helps.",
];

fn print_load(study: &Study, number: usize) {
    println!(
        "{:24} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9}  went back",
        "clock", "min", "median", "p99", "crowd", "reads/s", "step", "usable", "from"
    );
    for clock in &study.clocks {
        let load = &clock.loads[number];
        let Cell { cost, reads_per_s, resolution_ns, usable_ns, shortest_section_ns, .. } = load.alone();
        let crowd = load.cells.last().map(|cell| cell.cost.median_ns);
        println!(
            "{:24} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9}  {}",
            clock.clock,
            brief(Some(cost.min_ns)),
            brief(Some(cost.median_ns)),
            brief(Some(cost.p99_ns)),
            brief(crowd),
            rate(*reads_per_s),
            brief(*resolution_ns),
            brief(*usable_ns),
            brief(*shortest_section_ns),
            across(clock)
        );
    }
    println!(
        "\n{:24} {:>9} {:>9} {:>9} {:>9} {:>9}  {:10} {:>8} {:>8}  {:>13}",
        "left of nothing by",
        "none",
        "constant",
        "long-term",
        "method-1",
        "method-2",
        "use",
        "off",
        "in sect.",
        "k of method-1"
    );
    for clock in &study.clocks {
        let load = &clock.loads[number];
        print!("{:24}", clock.clock);
        for method in Method::ALL {
            print!(" {:>9}", brief(load.zero.outcome(method).map(|outcome| outcome.residual_median)));
        }
        let (off, in_section) = (brief(left(&load.zero)), brief(left(&load.section)));
        println!("  {:10} {off:>8} {in_section:>8}  {:>13}", load.zero.chosen, pairs(load));
    }
}

fn left(test: &SectionTest) -> Option<f64> {
    test.outcome(test.chosen).map(|outcome| outcome.error)
}

/// Predicted and measured.
fn pairs(load: &LoadStudy) -> String {
    let measured = load.zero.outcome(Method::NearestPairs).and_then(|outcome| outcome.k_clipped);
    format!("{} {}", factor(load.zero.k_predicted), factor(measured))
}

pub(crate) fn factor(k: Option<f64>) -> String {
    k.map_or_else(|| "-".into(), |k| if k >= 100.0 { format!("{k:.0}") } else { format!("{k:.2}") })
}

fn across(clock: &ClockStudy) -> String {
    match &clock.across_processors {
        Across::Seen(seen) => format!("{} of {}", seen.backward, seen.passages),
        Across::NotLooked(why) => why.clone(),
    }
}

pub(crate) fn brief(ns: Option<f64>) -> String {
    match ns {
        None => "-".into(),
        Some(ns) if ns.abs() < 999.5 => format!("{ns:.1}"),
        Some(ns) => duration(ns),
    }
}

pub(crate) fn rate(per_s: f64) -> String {
    match per_s {
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
            let Some(cell) = load.cells.last().filter(|cell| cell.readers > 1 && felt(&cell.ramp)) else { continue };
            if !titled {
                println!(
                    "\nmedian cost against time, where it at least doubled between {} others' start and stop",
                    cell.readers - 1
                );
                titled = true;
            }
            let ns = |ticks: i64| ticks as f64 * 1e9 / study.counter.hertz as f64;
            let costs: Vec<i64> = cell.ramp.slices.iter().filter_map(|slice| slice.cost_ticks).collect();
            let (least, most) = (costs.iter().min().copied().unwrap_or(0), costs.iter().max().copied().unwrap_or(0));
            let bars: String = cell.ramp.slices.iter().map(|slice| bar(slice.cost_ticks, least, most)).collect();
            let (clock, busy) = (&clock.clock, load.busy_processes);
            println!("{clock:24} {busy} beside  |{bars}|  {} to {}", duration(ns(least)), duration(ns(most)));
        }
    }
}

/// Whether the median of the slices in the middle, while all read, is at least twice that of the first.
fn felt(ramp: &Ramp) -> bool {
    let median = |from: usize, to: usize| {
        let mut costs: Vec<i64> = ramp.slices.get(from..to)?.iter().filter_map(|slice| slice.cost_ticks).collect();
        costs.sort_unstable();
        costs.get(costs.len() / 2).copied()
    };
    let count = ramp.slices.len();
    let [first, middle] = [median(0, count / 6), median(count * 2 / 5, count * 3 / 5)];
    first.zip(middle).is_some_and(|(first, middle)| middle >= 2 * first)
}

fn bar(cost: Option<i64>, least: i64, most: i64) -> char {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    cost.map_or(' ', |cost| BARS[((cost - least) * (BARS.len() as i64 - 1) / (most - least).max(1)) as usize])
}
