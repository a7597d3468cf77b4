//! `tickscope clock`: every clock is there or named with the reason, and what is said of it hangs together. No figure
//! is compared with a limit: that is another machine's matter.

mod site;

use serde_json::Value;
use site::{Ended, tickscope};

/// Every clock that the command knows.
fn names() -> Vec<String> {
    let kernel = [
        "realtime",
        "monotonic",
        "monotonic-raw",
        "boottime",
        "tai",
        "realtime-coarse",
        "monotonic-coarse",
        "process-cpu",
        "thread-cpu",
    ];
    let counter = if cfg!(target_arch = "x86_64") { "tsc" } else { "cntvct" };
    let mut names: Vec<String> =
        ["plain", "before", "after"].iter().map(|ordering| format!("{counter} {ordering}")).collect();
    names.extend(kernel.iter().flat_map(|clock| [(*clock).to_owned(), format!("{clock} syscall")]));
    names.extend(["ticker thread", "mutex", "unix socket", "udp socket"].map(str::to_owned));
    names.sort();
    names
}

fn list<'a>(value: &'a Value, of: &str) -> &'a Vec<Value> {
    value[of].as_array().unwrap_or_else(|| panic!("expected a list {of}, found {value}"))
}

fn number(value: &Value, of: &str) -> f64 {
    value[of].as_f64().unwrap_or_else(|| panic!("expected a number {of}, found {value}"))
}

fn cells(benchmark: &Value) -> impl Iterator<Item = &Value> {
    list(benchmark, "clocks").iter().flat_map(|clock| list(clock, "loads")).flat_map(|load| list(load, "cells"))
}

#[test]
fn e2e_a_benchmark_of_the_clocks_names_every_clock_and_hangs_together() {
    let ended = Ended::of(&mut tickscope(&["clock", "--json", "--seconds", "2", "--load", "0,1", "--readers", "2"]));
    // 3: a clock of this machine breaks its promise, and is named below.
    let benchmark: Value = ended.json(if ended.code == Some(3) { 3 } else { 0 });
    assert_eq!(benchmark["version"], 1);
    assert_eq!(ended.code == Some(3), !list(&benchmark, "findings").is_empty());

    let said = |of: &'static str| list(&benchmark, of).iter().map(|clock| clock["clock"].as_str().unwrap().to_owned());
    let mut found: Vec<String> = said("clocks").chain(said("absent")).collect();
    found.sort();
    assert_eq!(found, names());
    assert!(list(&benchmark, "absent").iter().all(|absent| !absent["why"].as_str().unwrap().is_empty()));

    for clock in list(&benchmark, "clocks") {
        let loads: Vec<u64> =
            list(clock, "loads").iter().map(|load| load["busy_processes"].as_u64().unwrap()).collect();
        assert_eq!(loads, [0, 1], "{clock}");
        for load in list(clock, "loads") {
            let readers: Vec<u64> = list(load, "cells").iter().map(|cell| cell["readers"].as_u64().unwrap()).collect();
            assert_eq!(readers, [1, 2], "{clock}");
            let (correction, cell) = (&load["correction"], &load["cells"][0]);
            // What is recommended is doubted by no table: it left no more than nothing, on average and at the median.
            let left = |test: &Value, method: &Value| {
                let outcome = list(test, "outcomes").iter().find(|outcome| outcome["method"] == *method);
                outcome.map(|of| [number(of, "error"), number(of, "residual_median").abs(), number(of, "subtracts")])
            };
            let harmed = |method: &Value| {
                [&load["zero"], &load["section"]].into_iter().any(|test| {
                    let (with, without) = (left(test, method), left(test, &"none".into()).unwrap());
                    with.is_some_and(|with| with[0] > without[0] || with[1] > without[1])
                })
            };
            let (method, chosen) = (&correction["method"], &load["zero"]["chosen"]);
            assert!(!harmed(method), "{load}");
            assert_eq!(
                (correction["refused"].is_null(), method == chosen),
                (!harmed(chosen), !harmed(chosen)),
                "{correction}"
            );
            assert_eq!(left(&load["zero"], method).map(|left| left[2]), correction["subtract_ns"].as_f64());
            // Nothing is promised of a clock that stood still through whole sections.
            let section = &load["section"];
            let mut outcomes = list(section, "outcomes").iter();
            let timed = outcomes.find(|outcome| outcome["method"] == correction["method"]).unwrap();
            let stood = number(timed, "residual_median") < -0.9 * number(section, "section_ns");
            let promised = correction["good_to_ns"].as_f64();
            assert!(promised >= cell["usable_ns"].as_f64() || promised.is_none() && stood, "{load}");
            for test in [&load["zero"], &load["section"]] {
                assert!(test["why"].as_str().unwrap().contains("leaves"), "{test}");
                assert!(list(test, "outcomes").iter().any(|outcome| outcome["method"] == test["chosen"]), "{test}");
            }
        }
        assert_eq!(clock["words"].as_str().unwrap().split("; ").count(), 2, "{clock}");
    }
    assert!(!list(&benchmark, "advice").is_empty() && !list(&benchmark, "speeds").is_empty());
    assert!(list(&benchmark, "order").iter().all(|words| !words.as_str().unwrap().contains("in 0 handings")));
    assert!(
        list(&benchmark, "instructions").iter().all(|cost| number(cost, "ns") > 0.0 && number(cost, "reads") >= 1e4)
    );
    for cell in cells(&benchmark) {
        let cost = &cell["cost"];
        let [min, median, p99, max] = ["min_ns", "median_ns", "p99_ns", "max_ns"].map(|of| number(cost, of));
        assert!(0.0 < min && min <= median && median <= p99 && p99 <= max, "{cell}");
        let binned: u64 = list(cost, "histogram").iter().map(|bin| bin["readings"].as_u64().unwrap()).sum();
        assert_eq!(Some(binned), cost["readings"].as_u64(), "{cell}");
        let (mean, deviation) = (number(cost, "mean_ns"), number(cost, "deviation_ns"));
        assert!(min <= mean && mean <= max && deviation <= max - min, "{cell}");
        let density = &cost["density"];
        let drawn: u64 = list(density, "counts").iter().map(|count| count.as_u64().unwrap()).sum();
        let beyond = density["below"].as_u64().unwrap() + density["above"].as_u64().unwrap();
        assert_eq!(Some(drawn + beyond), cost["readings"].as_u64(), "{cell}");
        if !cell["usable_ns"].is_null() {
            assert!(number(cell, "usable_ns") >= number(cell, "resolution_ns"), "{cell}");
            assert!(number(cell, "shortest_section_ns") >= 99.9 * number(cell, "usable_ns"), "{cell}");
        }
    }
}

#[test]
fn e2e_the_text_of_a_benchmark_begins_with_what_to_do_and_explains_every_word_of_its_tables() {
    let ended = Ended::of(&mut tickscope(&["clock", "--seconds", "3", "--load", "0,1", "--readers", "2"]));
    let text = &ended.out;
    let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("expected {words} in {text}"));
    let order = [
        "To time a section",
        "== Each clock at a glance ==",
        "== All figures, with the machine as it is ==",
        "== All figures, with 1 busy process running ==",
        "== What the columns say ==",
        "== What the methods and clocks are ==",
        "== The machine ==",
    ];
    assert!(order.map(at).is_sorted(), "{text}");
    let explained = &text[at("== What the columns say ==")..];
    for word in ["subtract, method", "good to ±", "% from", "usable", "reads/s", "'?'", "'!'", "left by", "off"] {
        assert!(explained.contains(word), "{word}: {explained}");
    }
    for method in ["none", "constant", "long-term", "method-1", "method-2"] {
        assert!(explained.contains(&format!("\n{method} ")), "{method}: {explained}");
    }
    for name in names() {
        assert!(text.contains(&format!("\n{name} ")) || text.contains(&format!("\n- {name}: ")), "{name}: {text}");
    }
    for line in text.lines() {
        assert!(line.chars().count() <= 120, "{line}");
    }
}

#[test]
fn e2e_a_benchmark_without_time_reads_what_its_advice_is_about_and_names_what_it_did_not_read() {
    let ended = Ended::of(&mut tickscope(&["clock", "--json", "--seconds", "0.01", "--load", "0", "--readers", "1"]));
    let benchmark: Value = ended.json(if ended.code == Some(3) { 3 } else { 0 });
    let read: Vec<&str> = list(&benchmark, "clocks").iter().map(|clock| clock["clock"].as_str().unwrap()).collect();
    assert!(read.contains(&"monotonic") && read.iter().any(|clock| clock.ends_with(" after")), "{read:?}");
    assert_eq!((benchmark["cut_short"].as_bool(), read.len() < names().len()), (Some(true), true));
    let advice = list(&benchmark, "advice").iter().map(|words| words.as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert!(advice.iter().any(|words| words.contains("--seconds 0.01 were over before all was read")), "{advice:?}");
    let late = |absent: &&Value| absent["why"].as_str().unwrap().contains("0.01 s were over");
    assert_eq!(list(&benchmark, "absent").iter().filter(late).count() + read.len(), names().len());
}

#[test]
fn e2e_the_kernels_monotonic_clocks_and_the_ordered_counter_never_go_backward() {
    let ended = Ended::of(&mut tickscope(&["clock", "--json", "--seconds", "1", "--load", "0", "--readers", "1"]));
    let benchmark: Value = ended.json(0);
    let counter = if cfg!(target_arch = "x86_64") { "tsc after" } else { "cntvct after" };
    let promised = ["monotonic", "monotonic-raw", "monotonic syscall", "boottime", "mutex", counter];
    let kept = list(&benchmark, "clocks").iter().filter(|clock| promised.contains(&clock["clock"].as_str().unwrap()));
    for clock in kept {
        let across = &clock["across_processors"];
        assert!(across["seen"]["backward"] == 0 || across["not-looked"].is_string(), "{clock}");
        assert!(list(clock, "loads").iter().all(|load| load["cells"][0]["backward"] == 0), "{clock}");
    }
}

#[test]
fn e2e_the_granularity_of_the_load_is_swept_for_cheap_and_dear_clocks() {
    let ended = Ended::of(&mut tickscope(&["clock", "sweep", "--json", "--seconds", "1", "--load", "1"]));
    let found: Value = ended.json(0);
    assert_eq!(found["version"], 1);
    let tests = list(&found, "tests");
    let mut pulses: Vec<u64> = tests.iter().map(|test| test["pulse_ns"].as_u64().unwrap()).collect();
    pulses.dedup();
    assert_eq!((tests.len(), pulses.len()), (30, 6));
    for test in tests {
        assert!(test["test"]["trials"].as_u64() > Some(0) && test["clock"].is_string(), "{test}");
        assert!(list(&test["test"], "outcomes").iter().any(|outcome| outcome["method"] == "method-1"), "{test}");
    }
}

#[test]
fn e2e_an_option_that_another_command_takes_is_refused() {
    for (command, option) in [("sweep", "--readers=2"), ("load-factor", "--percent=2"), ("load-factor", "--html=x")] {
        Ended::of(&mut tickscope(&["clock", command, option])).said(2, &["unexpected argument", "Usage"]);
    }
    Ended::of(&mut tickscope(&["clock", "--seconds=1", "sweep"])).said(2, &["cannot be used with"]);
}

#[test]
fn e2e_a_benchmark_that_cannot_be_made_is_refused_with_what_was_expected() {
    for (option, value) in
        [("--seconds", "0"), ("--seconds", "2000000"), ("--percent", "0"), ("--percent", "NaN"), ("--readers", "0")]
    {
        let ended = Ended::of(&mut tickscope(&["clock", option, value]));
        ended.said(2, &["expected", option, value]);
    }
}

#[test]
fn e2e_a_benchmark_says_of_its_load_what_it_is_where_and_how_often_it_works() {
    let cpu = allowed_cpu().to_string();
    let load = ["--load", "1", "--load-kind", "replica", "--load-cpus", &cpu, "--inject", "1ms/4ms"];
    let benchmark = ["clock", "--json", "--seconds", "2", "--readers", "1"];
    let ended = Ended::of(&mut tickscope(&[&benchmark[..], &load].concat()));
    let benchmark: Value = ended.json(if ended.code == Some(3) { 3 } else { 0 });
    let asked = serde_json::json!({
        "kind": "replica", "cpus": [allowed_cpu()], "injected": { "length_ns": 1_000_000, "period_ns": 4_000_000 },
    });
    assert_eq!(benchmark["plan"]["load"], asked);
    for clock in list(&benchmark, "clocks") {
        assert!(number(&clock["loads"][0], "turns_per_s") > 0.0, "{clock}");
        for test in ["zero", "section"] {
            for outcome in list(&clock["loads"][0][test], "outcomes") {
                let Some(between) = outcome["residual_interval"].as_array() else { continue };
                let median = number(outcome, "residual_median");
                assert!(between[0].as_f64() <= Some(median) && Some(median) <= between[1].as_f64(), "{outcome}");
            }
        }
    }
}

#[test]
fn e2e_a_load_factor_tells_every_interval_under_every_load_and_that_eight_others_take_the_most() {
    let cpu = allowed_cpu().to_string();
    let asked = ["--load", "0,8", "--load-cpus", &cpu, "--seconds", "3", "--every-ms", "500", "--json"];
    let ended = Ended::of(&mut tickscope(&[&["clock", "load-factor"][..], &asked].concat()));
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let lines: Vec<Value> = ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let members: Vec<u64> = lines.iter().map(|line| line["members"].as_u64().unwrap()).collect();
    assert_eq!(members, [0, 0, 0, 8, 8, 8]);
    for line in &lines[3..] {
        // Its fair share is a ninth.
        assert!(number(&line["reading"], "away") > 0.5 && number(&line["reading"], "load_factor") > 2.0, "{line}");
    }
    let asked = ["clock", "load-factor", "--seconds", "0.2", "--every-ms", "100", "--clock", "mutex"];
    let text = Ended::of(&mut tickscope(&asked));
    assert_eq!(text.out.matches("0 busy processes of ours").count(), 2, "{}", text.out);
    let asked = ["--seconds", "0.1", "--every-ms", "100", "--load", "1", "--load-kind", "messages"];
    let text = Ended::of(&mut tickscope(&[&["clock", "load-factor"][..], &asked].concat()));
    assert!(text.out.contains("1 pair of processes that send each other messages"), "{}", text.out);
}

#[test]
fn e2e_a_counter_read_by_halves_is_told_of_every_routine_by_one_reader_and_by_several() {
    let asked = ["clock", "two-words", "--seconds", "1", "--readers", "3"];
    let found: Value = Ended::of(&mut tickscope(&[&asked[..], &["--json"]].concat())).json(0);
    let tests = list(&found, "tests");
    let of: Vec<(&str, u64)> =
        tests.iter().map(|of| (of["routine"].as_str().unwrap(), of["readers"].as_u64().unwrap())).collect();
    let routines = ["varying-read", "4-read", "1-read"];
    assert_eq!(of, routines.map(|routine| [(routine, 1), (routine, 3)]).concat());
    for alone in tests.iter().filter(|of| of["readers"] == 1) {
        let slices: f64 = list(alone, "slices").iter().map(|slice| number(slice, "pairs")).sum();
        assert_eq!(slices, number(alone, "pairs"), "{alone}");
        assert!(number(&alone["together"], "level_ns") > 0.0, "{alone}");
    }
    Ended::of(&mut tickscope(&["clock", "two-words", "--readers", "1"])).said(2, &["--readers of at least 2", "1"]);
    Ended::of(&mut tickscope(&["clock", "two-words", "--seconds", "0"])).said(2, &["--seconds above 0"]);
}

#[test]
fn e2e_a_load_or_a_load_factor_that_cannot_be_is_refused_with_what_was_expected() {
    for (option, value, expected) in [
        ("--inject", "2ms/1ms", "below its PERIOD"),
        ("--inject", "often", "expected LENGTH/PERIOD"),
        ("--inject", "1s/4s", "for 1.0 s every 4.0 s"),
        ("--load-cpus", "8191", "expected --load-cpus of"),
        ("--load-kind", "sleep", "replica"),
    ] {
        Ended::of(&mut tickscope(&["clock", option, value])).said(2, &[expected, option.trim_start_matches('-')]);
    }
    Ended::of(&mut tickscope(&["clock", "load-factor", "--clock", "sundial"])).said(2, &["'monotonic'", "sundial"]);
}

/// The first processor that this test may run on: the one that measured readers are pinned to.
fn allowed_cpu() -> usize {
    tickscope_host::affinity::allowed_cpus().unwrap()[0]
}
