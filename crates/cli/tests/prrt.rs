//! The transport PRRT through all its layers: its run file, its figures, and both other layouts.

mod site;

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use site::{Ended, Site, count, free_port, stage, tickscope, truth};

const TREE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The target, built where the command was.
fn prrt() -> String {
    let command = Path::new(env!("CARGO_BIN_EXE_tickscope"));
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "-p", "tickscope-prrt", "--bin", "prrt"])
        .args(if command.parent().unwrap().ends_with("release") { &["--release"][..] } else { &[] })
        .current_dir(TREE)
        .status();
    assert!(built.unwrap().success(), "targets/prrt is built");
    command.with_file_name("prrt").display().to_string()
}

/// The run file over loopback, two seconds long, with a deadline that no pause of a machine passes.
fn run_file() -> String {
    let (port, probe_port) = (free_port(), free_port());
    let replaced = [
        ("../target/release/prrt", prrt()),
        ("\"7400\"", format!("\"{port}\"")),
        ("ready = 7400", format!("ready = {port}")),
        ("kind = \"auto\"", "kind = \"loopback\"".into()),
        ("seconds = 10", "seconds = 2".into()),
        ("\"1000\"", "\"500\"".into()),
        ("\"--deadline-ms\", \"50\"", "\"--deadline-ms\", \"3000\"".into()),
        ("rho = 1", format!("rho = 1\nprobe_port = {probe_port}")),
    ];
    let text = std::fs::read_to_string(format!("{TREE}/experiments/prrt.toml")).unwrap();
    replaced.into_iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "experiments/prrt.toml lacks {from}");
        text.replace(from, &to)
    })
}

#[test]
fn e2e_every_payload_of_prrt_has_its_trace_whether_it_came_or_was_recovered() {
    let site = Site::new("prrt");
    let table = Ended::of(&mut site.run_command(&run_file())).json(0);
    let (known, inside) = truth(&table);
    assert!(known > 0 && known == inside, "{inside} of {known}");
    let said = |role: &str| -> Value {
        let texts = site.events("target").into_iter().map(|event| event.text);
        let line = texts.into_iter().find(|text| text.contains(&format!("\"role\":\"{role}\"")));
        let line = line.unwrap_or_else(|| panic!("the {role} printed its counts"));
        serde_json::from_str(&line[line.find('{').unwrap()..]).unwrap()
    };
    let (sender, receiver) = (said("sender"), said("receiver"));
    let counted = |counts: &Value, name: &str| counts[name].as_u64().unwrap();
    assert_eq!(count(&table, "sender.send>sender.submitted"), counted(&sender, "submitted"));
    // The table is of payloads alone, and says what it leaves out; another layout has parity.
    assert_eq!(count(&table, "sender.link-send>receiver.link-receive"), counted(&receiver, "sources"));
    let sent = stage(&table, "sender.link-send>receiver.link-receive");
    assert_eq!(sent["missing"], counted(&sender, "sources") - counted(&receiver, "sources"), "{sent}");
    let left_out = site.events("kinds-left-out");
    let at = |place: &str| left_out.iter().find(|event| event.text.contains(place)).and_then(|event| event.value);
    assert_eq!(at("sender.link-send"), Some(counted(&sender, "parity") as i64), "{left_out:?}");
    for stage in table["stages"].as_array().unwrap() {
        assert_eq!((stage["impossible"].as_u64(), stage["refused"].as_u64()), (Some(0), Some(0)), "{stage}");
    }

    // By the other layout a recovered payload is whole, and those of a block meet where it is decoded.
    let by = |layout: &str| site.show(&["--layout", &format!("{TREE}/targets/prrt/{layout}.toml")]).json(0);
    let recovered = counted(&receiver, "delivered_recovered");
    assert!(recovered > 0, "{receiver}");
    let parity = by("parity");
    assert_eq!(count(&parity, "sender.link-send>receiver.link-receive"), counted(&receiver, "parity"));
    let both = by("recovered");
    assert_eq!(count(&both, "sender.link-send>receiver.recovered"), recovered);
    assert_eq!(count(&both, "end-to-end"), counted(&receiver, "delivered"));
    let decoded = by("blocks");
    let waited = stage(&decoded, "receiver.link-receive>receiver.decode-start");
    assert!(waited["p50"]["hi_ticks"].as_i64().unwrap() >= 0 && waited["refused"] == 0, "{waited}");

    let drawn = site.path("drawn");
    Ended::of(tickscope(&["figures", "--json"]).arg(site.run_directory()).arg("--out").arg(&drawn)).json(0);
    for figure in ["trace", "jitter", "causes", "correlation"] {
        assert!(drawn.join(format!("{figure}.pdf")).is_file(), "{figure}");
    }
}
