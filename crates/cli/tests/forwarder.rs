//! The age study's run file: its ages are of the packets that the program itself counted.

mod site;

use serde_json::Value;
use site::{Ended, Site, c_program};
use std::path::Path;

/// The run file with another program, which polls under ordinary scheduling and sends so many packets of 20 users.
fn experiment(packets: u32) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let source = root.join("targets/forwarder/forwarder.c");
    let program = c_program::compile("cc", &source, &["-D_GNU_SOURCE"], "forwarder");
    let text = std::fs::read_to_string(root.join("experiments/forwarder.toml")).unwrap();
    let count = format!("\"--scheduling\", \"shared\", \"--packets\", \"{packets}\", \"--users\", \"20\"]");
    let replaced = [
        ("../build/forwarder", program.display().to_string()),
        ("\"--seconds\", \"{seconds}\"]", count),
        ("seconds = 0.5", "seconds = 60".into()),
        ("pool_bytes = 536870912", "pool_bytes = 33554432".into()),
    ];
    replaced.into_iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "the run file lacks {from}");
        text.replace(from, &to)
    })
}

fn age(site: &Site, from: &str, to: &str) -> Value {
    site.show(&["--age", from, to]).json(0)["age"].take()
}

#[test]
fn e2e_ages_of_the_forwarder_are_of_the_packets_that_it_counted() {
    let site = Site::new("forwarder");
    let ended = Ended::of(&mut site.run_command(&experiment(20_000)));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let said: Vec<_> = site.events("target").into_iter().map(|event| event.text).collect();
    let line = said.iter().find_map(|text| text.find('{').map(|at| &text[at..])).unwrap();
    let told: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
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
        let users: Vec<i64> = age["keys"].as_array().unwrap().iter().map(|key| key["key"].as_i64().unwrap()).collect();
        assert!(users.iter().all(|user| (0..20).contains(user)), "{users:?}");
        // User 0 is the most popular: some 28 of 100 packets are its own, twice as many as the next one's.
        assert_eq!(users[0], 0, "{users:?}");
    }
    assert_eq!((number("sent_data") + number("sent_moves"), &told["valid"]), (20_000, &Value::Bool(false)));
}
