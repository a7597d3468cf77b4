//! The age study's run files: their ages are of the packets that the program itself counted.

mod site;

use serde_json::Value;
use site::{Ended, Site, c_program, tickscope};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tickscope_store::Run;
use tickscope_tick::Injection;

/// Words of the command where no core is its own: one thread does all in turn, so nothing depends on the machine.
const ANYWHERE: &str = "\"--scheduling\", \"shared\", \"--layout\", \"single\", \"--users\", \"20\"";

/// Users of a trial, of whom some have so few packets that no two come in one batch.
const USERS: i64 = 200;

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
    let sent = number("sent_data") + number("sent_moves") - number("primed_data") - number("primed_moves");
    assert_eq!((sent, &told["valid"]), (20_000, &Value::Bool(false)));
}

#[test]
fn e2e_ages_of_rare_moves_are_those_of_their_stamps_and_of_every_user() {
    let site = Site::new("forwarder-rare");
    let few = format!(
        "\"--scheduling\", \"shared\", \"--layout\", \"single\", \"--users\", \"{USERS}\", \"--moves\", \"1500\"]"
    );
    let replaced =
        [("\"--seconds\", \"{seconds}\"]", few.as_str()), ("seconds = 0.5", "seconds = 60"), ("\"1e6\"", "\"20000\"")];
    let ended = Ended::of(&mut site.run_command(&experiment("forwarder.toml", &replaced)));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let (told, moves) = (told(&site.opened()), age(&site, "node.moved", "node.written"));
    assert!(told["primed_moves"].as_i64().unwrap() > 20, "some hardly move: {told}");
    let keys = moves["keys"].as_array().unwrap();
    assert!(keys.len() as i64 == USERS && keys.iter().all(|key| key["why"] != "never-received"), "{moves}");
    check_truth(&moves, &true_updates(&site.opened(), ["node.moved", "node.written"]));
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

/// Packets by user: true ticks at two points, in the order of the second one, whose clock may be an injected one.
fn true_updates(run: &Run, [from, to]: [&str; 2]) -> BTreeMap<i64, Vec<[i64; 2]>> {
    let read = |place: &str| run.stamps(&place.parse().unwrap()).unwrap().read_all().unwrap();
    let injected = run.manifest().nodes.iter().find_map(|node| node.injected.as_ref());
    let injection: Option<Injection> = injected.map(|injected| injected.parse().unwrap());
    let generated = read(from);
    let generated: BTreeMap<i64, i64> = generated.id.into_iter().zip(generated.tick).collect();
    let (arrived, mut updates) = (read(to), BTreeMap::<i64, Vec<[i64; 2]>>::new());
    for (id, tick) in arrived.id.into_iter().zip(arrived.tick) {
        let true_tick = injection.as_ref().map_or(tick, |injection| injection.invert(tick).unwrap().0);
        updates.entry(id % USERS).or_default().push([generated[&id], true_tick]);
    }
    updates.values_mut().for_each(|of_user| of_user.sort_by_key(|[_, arrived]| *arrived));
    updates
}

/// Average and mean peak age of a user from `first` to `last`, ticks: the area under the sawtooth, by definition.
fn true_age(updates: &[[i64; 2]], [first, last]: [i64; 2]) -> [f64; 2] {
    let (mut area, mut peaks, mut freshest, mut at) = (0_i128, Vec::new(), i64::MIN, first);
    let below = |from: i64, to: i64, freshest: i64| {
        let [from, to] = [from, to].map(|tick| i128::from(tick - freshest));
        (to - from) * (to + from)
    };
    for &[generated, arrived] in updates.iter().filter(|[_, arrived]| *arrived <= last) {
        if generated <= freshest {
            continue;
        }
        if arrived > first {
            area += below(at, arrived, freshest);
            peaks.push((arrived - freshest) as f64);
            at = arrived;
        }
        freshest = generated;
    }
    area += below(at, last, freshest);
    [area as f64 / (2 * (last - first)) as f64, peaks.iter().sum::<f64>() / peaks.len() as f64]
}

/// The truth lies within what is told of each user, and of their mean. Returns how many peaks have ends.
fn check_truth(age: &Value, updates: &BTreeMap<i64, Vec<[i64; 2]>>) -> usize {
    let counted = age["keys"].as_array().unwrap().iter().filter(|user| user["ages"].is_object());
    let counted: Vec<(&Value, &Vec<[i64; 2]>)> =
        counted.map(|user| (&user["ages"], &updates[&user["key"].as_i64().unwrap()])).collect();
    let first = counted.iter().map(|(_, updates)| updates[0][1]).max().unwrap();
    let last = updates.values().map(|updates| updates[updates.len() - 1][1]).max().unwrap();
    let ends = |age: &Value| Some([age["lo_ticks"].as_f64()?, age["hi_ticks"].as_f64()?]);
    let within = |[lo, hi]: [f64; 2], truth: f64| lo < hi && lo - 1.0 <= truth && truth <= hi + 1.0;
    let (mut sum, mut bounded_peaks) = (0.0, 0);
    for (found, updates) in &counted {
        let [average, peak] = true_age(updates, [first, last]);
        sum += average;
        assert!(ends(&found["average"]).is_some_and(|ends| within(ends, average)), "{average}: {found}");
        // Two packets of a user that arrived in one batch leave the order open, and the peaks without ends.
        if let Some(ends) = ends(&found["peak"]) {
            bounded_peaks += 1;
            assert!(within(ends, peak), "{peak}: {found}");
        }
    }
    let (mean, found) = (sum / counted.len() as f64, &age["over_keys"]["average"]);
    assert!(ends(found).is_some_and(|ends| within(ends, mean)), "{mean}: {found}");
    assert_eq!(age["counted_keys"].as_u64(), Some(counted.len() as u64), "{age}");
    bounded_peaks
}

#[test]
fn e2e_the_true_one_way_age_lies_within_its_bound_whatever_the_clock_of_the_forwarder_shows() {
    let mut bounded_peaks = 0;
    for map in [
        "offset = 70000000000, drift_ppb = 12500, wander_ppb = 0, wander_period = 20000000000",
        "offset = -40000000, drift_ppb = -9000, wander_ppb = 100, wander_period = 20000000000",
    ] {
        let site = Site::new("forwarder-truth");
        let few = format!("\"--scheduling\", \"shared\", \"--users\", \"{USERS}\", \"--packets\", \"8000\"");
        let inject = format!("name = \"forwarder\"\ninject = {{ {map} }}\ncommand");
        let replaced = [
            ("\"--seconds\", \"{seconds}\"", few.as_str()),
            ("seconds = 0.5", "seconds = 60"),
            ("\"50000\"", "\"5000\""),
            ("reference = \"source\"", "reference = \"source\"\nsame_boot = \"ignore\""),
            ("name = \"forwarder\"\ncommand", inject.as_str()),
        ];
        let ended = Ended::of(&mut site.run_command(&experiment("forwarder-two.toml", &replaced)));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let there = age(&site, "source.generated", "forwarder.arrived");
        let updates = true_updates(&site.opened(), ["source.generated", "forwarder.arrived"]);
        bounded_peaks += check_truth(&there, &updates);
    }
    assert!(bounded_peaks > 0, "every user had two packets in a batch");
}

/// The sweep's run file with two small loads and two primitives; `more` are words of the command.
fn sweep(more: &str) -> String {
    let words = format!("{ANYWHERE}, \"--packets\", \"4000\", {more}");
    let replaced = [
        ("\"net_ring\"", "\"rings\""),
        ("\"--moves\", \"37500\", \"--seed\", \"{repetition}\",", words.as_str()),
        ("seconds = 1", "seconds = 60"),
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
