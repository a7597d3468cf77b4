//! The age study's run files: their ages are of the packets that the program itself counted.

mod site;

use serde_json::Value;
use site::{Ended, Site, c_program, tickscope};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tickscope_store::Run;

/// Words of the command where no core is its own: one thread does all in turn, so nothing depends on the machine.
const ANYWHERE: &str = "\"--scheduling\", \"shared\", \"--layout\", \"single\", \"--users\", \"20\"";

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn program() -> &'static str {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let source = tree().join("targets/forwarder/forwarder.c");
    PROGRAM.get_or_init(|| c_program::compile("cc", &source, &["-D_GNU_SOURCE"], "forwarder")).to_str().unwrap()
}

/// A run file with another program, and with what it needs where no core is its own.
fn experiment(name: &str, replaced: &[(&str, &str)]) -> String {
    let text = std::fs::read_to_string(tree().join("experiments").join(name)).unwrap();
    let pool = text.lines().find(|line| line.starts_with("pool_bytes = ")).unwrap().to_owned();
    let common = [("../build/forwarder", program()), (&*pool, "pool_bytes = 33554432")];
    common.iter().chain(replaced).fold(text.clone(), |text, (from, to)| {
        assert!(text.contains(from), "{name} lacks {from}");
        text.replace(from, to)
    })
}

/// The line that the program of a run printed.
fn told(run: &Run) -> Value {
    told_by(run, "both")
}

fn told_by(run: &Run, role: &str) -> Value {
    let (events, role) = (run.events().unwrap().found, format!("{{\"role\": \"{role}\""));
    let line = events.iter().find(|event| event.what == "target" && event.text.contains(&role)).unwrap();
    let at = line.text.find('{').unwrap();
    serde_json::from_str(&line.text[at..]).unwrap_or_else(|e| panic!("{e}: {}", line.text))
}

fn age(site: &Site, from: &str, to: &str) -> Value {
    site.show(&["--age", from, to]).json(0)["age"].take()
}

#[test]
fn e2e_ages_of_the_forwarder_are_of_the_packets_that_it_counted() {
    let site = Site::new("forwarder");
    let few = format!("{ANYWHERE}, \"--packets\", \"20000\"]");
    let replaced = [("\"--seconds\", \"{seconds}\"]", few.as_str()), ("seconds = 0.5", "seconds = 60")];
    let ended = Ended::of(&mut site.run_command(&experiment("forwarder.toml", &replaced)));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let told = told(&site.opened());
    let number = |name: &str| told[name].as_u64().unwrap();
    let data = age(&site, "node.generated", "node.received");
    assert_eq!(data["updates"]["received"], told["received"]);
    let lost = told["drops"]["data"].as_u64().unwrap() + told["drops"]["return"].as_u64().unwrap();
    assert_eq!(data["updates"]["lost"], lost + number("misaddressed"));
    let moves = age(&site, "node.moved", "node.written");
    assert_eq!(moves["updates"]["received"], told["written"]);
    assert_eq!(moves["updates"]["lost"], told["drops"]["control"]);
    for age in [&data, &moves] {
        assert_eq!(age["key"], "value");
        let keys = age["keys"].as_array().unwrap();
        assert!(keys.iter().all(|key| (0..20).contains(&key["key"].as_i64().unwrap())), "{keys:?}");
        // User 0 is the most popular: some 28 of 100 packets are its own, twice as many as the next one's.
        let most = keys.iter().max_by_key(|key| key["generated"].as_u64()).unwrap();
        assert_eq!(most["key"], 0, "{keys:?}");
    }
    assert_eq!((number("sent_data") + number("sent_moves"), &told["valid"]), (20_000, &Value::Bool(false)));
}

#[test]
fn e2e_ages_between_source_and_forwarder_are_one_way_with_a_bound_and_of_what_both_counted() {
    let site = Site::new("forwarder-two");
    let few = "\"--scheduling\", \"shared\", \"--users\", \"20\", \"--packets\", \"4000\"";
    let replaced = [("\"--seconds\", \"{seconds}\"", few), ("seconds = 0.5", "seconds = 60")];
    let ended = Ended::of(&mut site.run_command(&experiment("forwarder-two.toml", &replaced)));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let run = site.opened();
    let [source, forwarder] = ["source", "forwarder"].map(|role| told_by(&run, role));
    let there = age(&site, "source.generated", "forwarder.arrived");
    let back = age(&site, "source.generated", "source.received");
    let moves = age(&site, "source.moved", "forwarder.written");
    assert_eq!(back["updates"]["received"], source["received"]);
    assert_eq!(moves["updates"]["received"], forwarder["written"]);
    let move_drops = forwarder["drops"]["control"].as_u64().unwrap();
    let arrived = forwarder["arrived"].as_u64().unwrap() - forwarder["written"].as_u64().unwrap() - move_drops;
    assert_eq!(there["updates"]["received"], arrived);
    let ends = |age: &Value| ["lo_ticks", "hi_ticks"].map(|end| age["over_keys"]["average"][end].as_i64().unwrap());
    for age in [&there, &back, &moves] {
        assert!(ends(age)[0] < ends(age)[1], "no age is known without an error: {age}");
    }
}

/// The sweep's run file with two small loads and two primitives; `more` are words of the command.
fn sweep(more: &str) -> String {
    let words = format!("{ANYWHERE}, \"--packets\", \"4000\", {more}");
    let replaced = [
        ("\"net_ring\"", "\"rings\""),
        ("\"--seconds\", \"{seconds}\",", words.as_str()),
        ("seconds = 0.3", "seconds = 60"),
        ("repetitions = 3", "repetitions = 1"),
        ("    { field", "    { age = [\"node.generated\", \"node.received\"], key = 0 },\n    { field"),
        ("values = [500000, 1000000, 2000000, 4000000, 6000000, 8000000, 10000000]", "values = [20000, 40000]"),
        ("values = [\"none\", \"rwl-spin\", \"rcu\"]", "values = [\"none\", \"rwl-spin\"]"),
    ];
    experiment("age-vs-load.toml", &replaced)
}

#[test]
fn e2e_the_age_over_load_is_one_figure_of_trials_that_the_program_counted() {
    let site = Site::new("forwarder-sweep");
    // Without a core of its own no trial is valid, and none would be in a figure; its counts are right all the same.
    let silent = site.path("silent");
    let script = format!("#!/bin/sh\n{} \"$@\" | sed 's/\"valid\": false/\"valid\": null/'\n", program());
    std::fs::write(&silent, script).unwrap();
    std::fs::set_permissions(&silent, PermissionsExt::from_mode(0o755)).unwrap();
    let text = sweep("").replace(program(), silent.to_str().unwrap());
    let table = Ended::of(&mut site.run_command(&text)).json(0);
    let trials = table["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 4, "{table:#}");
    for trial in trials {
        let folder = site.run_directory().join(trial["folder"].as_str().unwrap());
        let told = told(&Run::open(&folder).unwrap());
        assert_eq!((&told["rate_pps"], &told["fib"]), (&trial["values"][0], &trial["values"][1]));
        assert_eq!(trial["figures"][0]["count"], told["received"], "{trial:#}");
        assert_eq!(trial["figures"][1]["count"], told["written"], "{trial:#}");
        assert_eq!(trial["numbers"][0].as_f64(), told["achieved_pps"].as_f64(), "{trial:#}");
        let shown = Ended::of(tickscope(&["show", "--json", "--age", "node.generated", "node.received"]).arg(&folder));
        let shown = &shown.json(0)["age"];
        let user = shown["keys"].as_array().unwrap().iter().find(|user| user["key"] == 0).unwrap();
        assert_eq!(trial["figures"][2]["ticks"], user["ages"]["average"]["estimate_ticks"], "{trial:#}");
        assert_eq!(trial["figures"][2]["count"], user["received"], "{trial:#}");
        assert_eq!(trial["figures"][0]["keys_with_few"], shown["keys_with_few"], "{trial:#}");
    }
}

#[test]
fn e2e_a_trial_whose_figures_may_not_be_used_is_in_no_figure() {
    let site = Site::new("forwarder-refused");
    let ended = Ended::of(&mut site.run_command(&sweep("\"--invalid\", \"fail\",")));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("may not be used: \"shared scheduling\""), "{ended:?}");
    let table: Value = serde_json::from_str(&ended.out).unwrap();
    for point in table["points"].as_array().unwrap() {
        assert_eq!((point["repetitions"].as_u64(), &point["figures"][0]), (Some(0), &Value::Null), "{point:#}");
    }
}
