//! `tickscope clock`: what this host's clocks cost, how finely each can be used, and what to subtract.

use std::io::{IsTerminal, Write};

use tickscope_clock::advice::duration;
use tickscope_clock::compensation::Method;
use tickscope_clock::factor::Factor;
use tickscope_clock::granularity::by_clock;
use tickscope_clock::load::{self, Load};
use tickscope_clock::measure::{Clock, pulses, survey};
use tickscope_clock::study::{Plan, PulseTest, Sweep};
use tickscope_clock::two_word::{Table, Widths};
use tickscope_host::affinity;
use tickscope_host::facts::CounterFacts;
use tickscope_show::{granularity_page, study_page, two_words_page};
use tickscope_store::write_whole;

use crate::failure::Failure;
use crate::options::{ClockOptions, LoadKind};
use crate::{clock_example, clock_gauge, clock_text};

/// Studies the clocks and prints the table with its advice; exit code 3 where a clock breaks its promise.
pub fn clock(options: &ClockOptions) -> Result<(), Failure> {
    if options.two_words {
        let tried = Table::of(Widths { high_bits: 2, low_bits: 2 });
        if let Some(place) = &options.html {
            write_whole(place, two_words_page(&tried).as_bytes())?;
        }
        if options.json {
            println!("{}", serde_json::to_string_pretty(&tried).map_err(Failure::work)?);
        } else {
            print!("{tried}");
        }
        return Ok(());
    }
    if let Some(run) = &options.example {
        return clock_example::example(options, run.as_deref());
    }
    let facts = CounterFacts::of_this_host().map_err(Failure::work)?;
    let plan = plan(options)?;
    let mut progress = Progress::new();
    if options.gauge {
        return clock_gauge::gauge(options, plan, &facts);
    }
    if options.granularity {
        return granularity(&plan, &facts, options, &mut progress);
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
            for (number, load) in clock.loads.iter().enumerate() {
                let recipe = serde_json::to_value(load.recipe(study.plan.percent)).map_err(Failure::work)?;
                json["clocks"][of]["loads"][number]["recipe"] = recipe;
            }
        }
        json["advice"] = study.advice().into();
        json["order"] = study.order().into();
        json["findings"] = study.findings().into();
        println!("{}", serde_json::to_string_pretty(&json).map_err(Failure::work)?);
    } else {
        clock_text::print(&study);
    }
    match study.findings().as_slice() {
        [] => Ok(()),
        findings => Err(Failure::finding(findings.join("; "))),
    }
}

/// As long as nobody waits.
const SECONDS_MAX: f64 = 1e6;
/// Turns of an injected load in the time that a clock is studied in.
const TURNS_MIN: f64 = 5.0;

fn plan(options: &ClockOptions) -> Result<Plan, Failure> {
    let refuse =
        |what: &str, found: &dyn std::fmt::Display| Err(Failure::input(format!("expected {what}, found {found}")));
    if !(options.seconds > 0.0 && options.seconds <= SECONDS_MAX) {
        return refuse("--seconds above 0 and at most 1000000", &options.seconds);
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
    // A load is started for each clock anew: one that seldom works would meet some of them never.
    let each_ns = options.seconds * 1e9 / loads.len().max(1) as f64 / Clock::all().len() as f64;
    if let Some(injected) =
        options.inject.filter(|injected| !options.gauge && f64::from(injected.period_ns) > each_ns / TURNS_MIN)
    {
        return refuse(
            &format!(
                "a PERIOD of at most {} with --inject in --seconds {}, so that every clock is read through some turns of the load",
                duration(each_ns / TURNS_MIN),
                options.seconds
            ),
            &injected,
        );
    }
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
fn granularity(
    plan: &Plan,
    facts: &CounterFacts,
    options: &ClockOptions,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let busy_processes = plan.loads.last().copied().unwrap_or(0);
    let pulses_ns = vec![100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1_000];
    let sweep = Sweep { seconds: plan.seconds, busy_processes, load: plan.load.clone(), pulses_ns };
    let found = pulses(&sweep, facts, &mut |at| progress.say(at)).map_err(Failure::work)?;
    progress.over();
    if let Some(place) = &options.html {
        write_whole(place, granularity_page(&sweep, &found).as_bytes())?;
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&found).map_err(Failure::work)?);
        return Ok(());
    }
    println!(
        "{} beside, at work and at rest by turns for as long as a pulse; k of method-1 above 1: it helps",
        plan.load.words(busy_processes)
    );
    for clock in by_clock(&found) {
        println!("- {}", clock.words());
    }
    println!(
        "\nin brackets what each figure lies between with 95 %, by rounds; uninterrupted: without what an interrupt touched"
    );
    println!(
        "{:17} {:>8} {:>8} {:>8} {:>19} {:>19} {:>19} {:>19}",
        "clock", "pulse", "turns/s", "cost", "rho_1", "k predicted", "k, uninterrupted", "k of all"
    );
    for test in &found {
        let PulseTest { clock, pulse_ns, turns_per_s, cost_ns, test: zero, .. } = test;
        println!(
            "{clock:17} {:>8} {:>8} {:>8} {:>19} {:>19} {:>19} {:>19}",
            duration(f64::from(*pulse_ns)),
            turns_per_s.map_or_else(|| "-".into(), clock_text::rate),
            duration(*cost_ns),
            between(zero.rho_1),
            between(zero.k_predicted),
            between(test.k()),
            between(zero.outcome(Method::NearestPairs).and_then(|outcome| outcome.k)),
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

pub(crate) fn factor(k: Option<f64>) -> String {
    k.map_or_else(|| "-".into(), |k| if k >= 100.0 { format!("{k:.0}") } else { format!("{k:.2}") })
}

pub(crate) fn between(factor: Option<Factor>) -> String {
    factor.map_or_else(|| "-".into(), |factor| factor.to_string())
}

pub(crate) fn brief(ns: Option<f64>) -> String {
    match ns {
        None => "-".into(),
        Some(ns) if ns.abs() < 999.5 => format!("{ns:.1}"),
        Some(ns) => duration(ns),
    }
}
