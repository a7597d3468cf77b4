//! What measuring cost the measured: counted in every run, and found by passes with and without it where the truth is
//! known.

mod site;

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use site::{Ended, Experiment, Site};

/// A run file with one node, whose command is a shell script.
fn script(site: &Site, body: &str, more: &str) -> String {
    let file = site.path("target.sh");
    fs::write(&file, body).unwrap();
    format!(
        "run = {{ name = \"cost\", seconds = 0.1 }}\nnetwork.kind = \"loopback\"\nclock.reference = \"a\"\n\
         [[node]]\nname = \"a\"\ncommand = [\"sh\", \"{}\"]\nends_run = true\n[layout]\npath = [\"a.x\", \"a.y\"]\n{more}",
        file.display()
    )
}

fn with_overhead(site: &Site, text: &str) -> Command {
    let mut command = site.run_command(text);
    command.arg("--overhead");
    command
}

fn field<'a>(table: &'a Value, name: &str) -> &'a Value {
    let fields = table["cost"]["overhead"]["fields"].as_array().unwrap();
    fields.iter().find(|field| field["field"] == name).unwrap_or_else(|| panic!("no {name} in {fields:?}"))
}

/// The target gets slower from pass to pass, by more than measuring adds: only pairs that are turned round cancel it.
#[test]
fn e2e_overhead_is_found_under_a_trend_that_is_larger() {
    let site = Site::new("trend");
    let passes = site.path("passes");
    let body = format!(
        "echo >> {0}; pass=$(wc -l < {0})\n[ -n \"$TICKSCOPE_DIR\" ] && added=700 || added=0\n\
         echo not this line\necho \"{{\\\"took_ns\\\": $((50000 + 1000 * pass + added)), \\\"packets\\\": 3}}\"\n",
        passes.display()
    );
    let text = script(&site, &body, "[overhead]\npairs = 6\nseconds = 0.1\n");
    let ended = Ended::of(&mut with_overhead(&site, &text));
    let table = ended.json(1); // its target stamps nothing
    let took = field(&table, "took_ns");
    // Pairs differ by 700 + 1000 and 700 - 1000, in turn: the trend cancels in the middle.
    assert_eq!((&took["added"]["median"], &took["pairs"]), (&Value::from(700.0), &Value::from(6)), "{took}");
    assert_eq!((took["added"]["lo"].as_f64(), took["added"]["hi"].as_f64()), (Some(-300.0), Some(1700.0)));
    assert!(took["added"]["confidence"].as_f64().unwrap() >= 0.95);
    assert_eq!(table["cost"]["overhead"]["fields"].as_array().unwrap().len(), 1, "only names in _ns, unless asked");
    let lines = fs::read_to_string(passes).unwrap().lines().count();
    assert_eq!(lines, 1 + 2 * 6 + 1, "a pass that shows the fields, six pairs, and the run itself");
    assert!(!site.run_directory().join(".overhead").exists());
    let shown = Ended::of(site::tickscope(&["show"]).arg(site.run_directory()));
    let words = shown.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("measuring added 0.70 [-0.30, 1.70] us to took of a"), "{shown:?}");
    assert!(shown.out.contains("not resolved"), "{shown:?}");
}

#[test]
fn e2e_a_field_that_is_named_is_compared_whatever_its_unit() {
    let site = Site::new("named");
    let body = "[ -n \"$TICKSCOPE_DIR\" ] && n=5 || n=3\necho \"{\\\"misses\\\": $n, \\\"took_ns\\\": 1}\"\n";
    let text = script(&site, body, "[overhead]\nfields = [\"misses\"]\npairs = 6\nseconds = 0.1\n");
    let table = Ended::of(&mut with_overhead(&site, &text)).json(1); // its target stamps nothing
    let added = &field(&table, "misses")["added"];
    assert_eq!([&added["median"], &added["lo"], &added["hi"]], [2.0, 2.0, 2.0]);
    assert_eq!(table["cost"]["overhead"]["fields"].as_array().unwrap().len(), 1);
}

#[test]
fn e2e_a_target_that_says_nothing_of_itself_is_told_what_to_print() {
    let site = Site::new("silent");
    for (body, more, words) in [
        ("echo done", "", ["names end in _ns", "a: 'done'"]),
        ("true", "", ["names end in _ns", "a: nothing"]),
        ("echo '{\"took_ns\": 1}'", "[overhead]\nfields = [\"rtt_ns\"]\n", ["a number 'rtt_ns'", "took_ns"]),
        ("echo '{\"took_ns\": 1}'", "[overhead]\nfields = [\"took_ns\", \"b\"]\n", ["a number 'b'", "took_ns"]),
        ("echo '{\"took_ns\": \"1\"}'", "", ["names end in _ns", "last line"]),
    ] {
        Ended::of(&mut with_overhead(&site, &script(&site, body, more))).said(2, &words);
        assert!(!site.run_directory().exists(), "nothing was begun");
    }
    // Without the option the same target is measured as ever.
    let table = Ended::of(&mut site.run_command(&script(&site, "true", ""))).json(1);
    assert_eq!(table["cost"]["overhead"], Value::Null);
}

#[test]
fn e2e_too_few_pairs_for_an_interval_are_refused_by_the_run_file() {
    let site = Site::new("pairs");
    let text = script(&site, "echo '{\"took_ns\": 1}'", "[overhead]\npairs = 5\n");
    Ended::of(&mut with_overhead(&site, &text)).said(2, &["overhead.pairs from 6", "found 5"]);
}

#[test]
fn e2e_overhead_is_not_begun_where_a_run_lies_already() {
    let site = Site::new("held");
    let text = script(&site, "echo '{\"took_ns\": 1}'", "");
    assert_eq!(Ended::of(&mut site.run_command(&text)).code, Some(1), "its target stamps nothing");
    let ended = Ended::of(&mut with_overhead(&site, &text));
    ended.said(2, &["a directory without a run"]);
    assert!(!ended.err.contains("pass "), "{ended:?}");
}

#[test]
fn e2e_every_run_tells_what_it_spent_and_how_many_stamps_its_target_took() {
    let site = Site::new("spent");
    let table = site.run(&Experiment::new(2.0, 250)).json(0);
    let nodes = table["cost"]["nodes"].as_array().unwrap();
    let count = |node: &Value, name: &str| node[name].as_u64().unwrap_or_else(|| panic!("no {name} in {node}"));
    // Four points at either node; what the watches stamp is none of theirs.
    assert_eq!((count(&nodes[0], "stamps"), count(&nodes[1], "stamps")), (4 * 500, 4 * 500));
    assert_eq!(table["cost"]["stamps"], 8 * 500);
    for node in nodes {
        for name in ["ran_ns", "stamping_ns", "target_cpu_ns", "collector_cpu_ns", "probe_cpu_ns", "monitor_cpu_ns"] {
            assert!(count(node, name) > 0, "{name} of {node}");
        }
        assert!(count(node, "stamping_ns") < count(node, "target_cpu_ns"), "{node}");
        assert!(count(node, "shared_memory_bytes") >= 16 << 20, "a pool's default size");
        let seconds = node["ran_ns"].as_f64().unwrap() / 1e9;
        let rate = node["stamps_a_second"].as_f64().unwrap();
        assert!((rate * seconds - node["stamps"].as_f64().unwrap()).abs() < 1e-6 * rate, "{node}");
    }
    assert_eq!(site.show(&[]).json(0)["cost"], table["cost"], "it is in the run's files");
    let timed = format!("/dev/shm/tickscope-{}.cost", table["run_id"].as_str().unwrap());
    assert!(!Path::new(&timed).exists(), "the pool of the stamps that were timed is gone");
}

#[test]
fn e2e_the_echo_tells_its_round_trips_whether_it_is_measured_or_not() {
    let site = Site::new("echo");
    let text = Experiment::new(1.0, 500).text() + "[overhead]\npairs = 6\nseconds = 0.2\n";
    let table = Ended::of(&mut with_overhead(&site, &text)).json(0);
    let fields = table["cost"]["overhead"]["fields"].as_array().unwrap();
    let names: Vec<_> = fields.iter().map(|f| (f["node"].as_str().unwrap(), f["field"].as_str().unwrap())).collect();
    for known in
        [("client", "rtt_p50_ns"), ("client", "rtt_p99_ns"), ("client", "packet_cpu_ns"), ("server", "packet_cpu_ns")]
    {
        assert!(names.contains(&known), "{known:?} in {names:?}");
    }
    for pass in fields.iter().flat_map(|field| field["passes"].as_array().unwrap()) {
        assert!(pass[0].as_f64().unwrap() > 0.0 && pass[1].as_f64().unwrap() > 0.0, "{pass}");
    }
    // The stamped way lies between the two readings of the clock, packet by packet; so do the quantiles.
    let said = site.events("target").into_iter().find(|event| event.text.contains("rtt_p50_ns")).unwrap().text;
    let said: Value = serde_json::from_str(&said[said.find('{').unwrap()..]).unwrap();
    let stamped_ns = site::stage(&table, "end-to-end")["p50"]["ns"].as_f64().unwrap();
    // A nanosecond more for whole ticks and whole nanoseconds, and the declared tolerance of the counter's rate.
    let most = said["rtt_p50_ns"].as_f64().unwrap() * 1.001 + 1.0;
    assert!(stamped_ns <= most, "{stamped_ns} of {said}");
}

/// The processor time of a command is what the kernel took down, whatever the command says.
#[test]
fn e2e_the_processor_time_of_a_command_is_that_of_all_it_ran() {
    let site = Site::new("cpu");
    // A child spins for as long as its own account says, then tells it in ticks of a hundredth of a second.
    let spin = "sh -c 'while [ $(cut -d\" \" -f14 /proc/$$/stat) -lt 20 ]; do :; done'\n";
    let table = Ended::of(&mut site.run_command(&script(&site, spin, ""))).json(1); // it stamps nothing
    let cpu_ns = table["cost"]["nodes"][0]["target_cpu_ns"].as_u64().unwrap();
    assert!(cpu_ns >= 190_000_000, "{cpu_ns}");
}
