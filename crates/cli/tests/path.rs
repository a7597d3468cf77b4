//! A packet's path through both kernels and both applications, in each way of waiting; and a line's, over TCP.

mod site;

use std::path::Path;

use serde_json::Value;
use site::{Ended, Site, c_program, count, free_port, stage, truth, udp_echo};

/// The run file of the demo for one way of waiting, over loopback, with ports of its own and two seconds long.
fn demo(wait: &str) -> String {
    let (echo, port, probe_port) = (udp_echo().display().to_string(), free_port(), free_port());
    let replaced = [
        ("../build/udp-echo", echo),
        ("\"7400\"", format!("\"{port}\"")),
        ("ready = 7400", format!("ready = {port}")),
        ("kind = \"auto\"", "kind = \"loopback\"".into()),
        ("seconds = 20", "seconds = 2".into()),
        ("probes_hz = 1000", format!("probes_hz = 500\nprobe_port = {probe_port}")),
    ];
    shipped(&format!("path-{wait}"), replaced)
}

/// A run file of `experiments`, changed in these places.
fn shipped<const N: usize>(name: &str, replaced: [(&str, String); N]) -> String {
    let file = format!("{}/../../experiments/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&file).unwrap();
    replaced.into_iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{file} lacks {from}");
        text.replace(from, &to)
    })
}

fn stages(table: &Value) -> impl Iterator<Item = &Value> {
    table["stages"].as_array().unwrap().iter()
}

fn measured(wait: &str) -> Value {
    let site = Site::new(wait);
    let table = Ended::of(&mut site.run_command(&demo(wait))).json(0);
    let (known, inside) = truth(&table);
    assert!(known > 0 && known == inside, "{inside} of {known}");
    assert_eq!(table["path_sums"]["mismatches"], 0);
    for stage in stages(&table) {
        assert_eq!((stage["impossible"].as_u64(), stage["refused"].as_u64()), (Some(0), Some(0)), "{stage}");
        assert!(stage["count"].as_u64().unwrap() > 100, "{stage}");
    }
    let said: Vec<_> = site.events("target").into_iter().map(|event| event.text).collect();
    for word in [format!("\"wait\": \"{wait}\""), "\"policy\"".into(), "\"pacing\"".into(), "\"core\"".into()] {
        assert!(said.iter().all(|text| text.contains(&word)), "{word}: {said:?}");
    }
    table
}

#[test]
fn e2e_every_stage_of_the_path_keeps_its_bound_in_each_way_of_waiting() {
    for (wait, path) in [("blocking", 9), ("epoll", 11), ("busy", 9)] {
        let table = measured(wait);
        assert_eq!(stages(&table).filter(|stage| stage["role"] == "path").count(), path, "{wait}");
        assert_eq!(stages(&table).filter(|stage| stage["role"] == "branch").count(), 2);
        // The right channel is no shorter than nothing; the published one is, whatever the clocks did.
        let channel = stage(&table, "client.tx>server.rx");
        assert!(channel["p50"]["hi_ticks"].as_i64().unwrap() >= 0);
        let published = stage(&table, "client.sent>server.rx");
        assert_eq!((published["role"].as_str(), published["sign"].as_str()), (Some("extra"), Some("< 0")));
        // Stages within a node are known to the width of the readings, not of the clock map.
        let within = stage(&table, "client.send>client.sched")["common"]["below_ns"].as_f64().unwrap();
        let across = channel["common"]["below_ns"].as_f64().unwrap();
        assert!(within * 3.0 < across, "{within} and {across}");
        let whole = count(&table, "end-to-end");
        println!("{wait}: {whole} packets, {} stages, clock map ±{} ns", path, table["clock_maps"][0]["half_width_ns"]);
    }
}

#[test]
fn e2e_lines_over_tcp_have_one_trace_from_question_to_answer_by_where_they_end() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../targets/tcp-lines/tcp-lines.c");
    let program = c_program::compile("cc", &source, &["-D_GNU_SOURCE"], "tcp-lines").display().to_string();
    let port = free_port();
    let replaced = [
        ("../build/tcp-lines", program),
        ("\"7500\"", format!("\"{port}\"")),
        ("ready = 7500", format!("ready = {port}")),
        ("kind = \"auto\"", "kind = \"loopback\"".into()),
        ("seconds = 20", "seconds = 2".into()),
        ("rho = 1", format!("rho = 1\nprobe_port = {}", free_port())),
    ];
    let site = Site::new("lines");
    let table = Ended::of(&mut site.run_command(&shipped("tcp", replaced))).json(0);
    let (known, inside) = truth(&table);
    assert!(known > 0 && known == inside, "{inside} of {known}");
    for stage in stages(&table) {
        assert_eq!((stage["impossible"].as_u64(), stage["refused"].as_u64()), (Some(0), Some(0)), "{stage}");
        assert!(stage["count"].as_u64().unwrap() > 100, "{stage}");
    }
    assert_eq!(stages(&table).filter(|stage| stage["role"] == "path").count(), 9);
    let said: Vec<_> = site.events("target").into_iter().map(|event| event.text).collect();
    let received = format!("\"received\": {}", count(&table, "end-to-end"));
    assert!(said.len() == 2 && said.iter().any(|text| text.contains(&received)), "{received}: {said:?}");
}
