//! `tickscope compare` at the command line: its exit codes, and a sentence for whatever cannot be compared.

mod site;

use std::fs;
use std::path::Path;
use std::process::Command;

use site::{Ended, Site, tickscope};
use tickscope_store::{Event, EventKind, KeyedWriter, Run, write_events};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/tests/golden/v1");

/// A copy of the golden run as a run of its own.
fn copied(site: &Site, name: &str, number: u64) -> String {
    let to = site.path(name);
    assert!(Command::new("cp").arg("-r").arg(GOLDEN).arg(&to).status().unwrap().success());
    let mut run = Run::open(&to).unwrap();
    let mut manifest = run.manifest().clone();
    manifest.run = number;
    run.set_manifest(manifest).unwrap();
    to.display().to_string()
}

/// Puts the last point of all traces later by so many ticks.
fn slow_down(run: &str, ticks: i64) {
    let file = Run::open(run.as_ref()).unwrap().traces().unwrap().found.remove(0);
    let (names, place, mut rows) = (file.names().to_vec(), file.path().to_path_buf(), file.read_all().unwrap());
    let last = rows.columns.len() - 1;
    rows.columns[last] = rows.columns[last].iter().map(|tick| tick.map(|tick| tick + ticks)).collect();
    let mut writer = KeyedWriter::begin(&place, &names, &[]).unwrap();
    writer.write(rows).unwrap();
    writer.finish().unwrap();
}

#[test]
fn e2e_what_cannot_be_compared_is_said_in_a_sentence() {
    let site = Site::new("compare-wrong");
    let [one, two] = [1, 2].map(|number| copied(&site, &format!("run{number}"), number));
    let (one, two) = (one.as_str(), two.as_str());
    for (words, code, says) in [
        (&["compare"][..], 2, &["BEFORE"][..]),
        (&["compare", one], 2, &["2 values"]),
        (&["compare", one, "nowhere"], 2, &["nowhere", "below runs/"]),
        (&["compare", one, "/etc"], 2, &["/etc", "run.json"]),
        (&["compare", one, one], 2, &["found one twice"]),
        (&["compare", "--before", one], 2, &["--after"]),
        (&["compare", "--before", one, "--after", two, two], 2, &["found 1 and 2"]),
        (&["compare", one, two, "--tolerance", "5"], 2, &["--tolerance", "a duration from 0ns to 1000000s", "2%"]),
        (&["compare", one, two, "--tolerance", "1.00005%"], 2, &["at most four decimals, found '1.00005%'"]),
        (&["compare", one, two, "--tolerance", "0.0005ns"], 2, &["in whole picoseconds, found '0.0005ns'"]),
        (&["compare", one, two, "--quantiles", "101"], 2, &["--quantiles", "50,99.9"]),
        (&["compare", one, two, "--fail-on", "faster"], 2, &["slower"]),
        (&["compare", one, two, "--layout", "nowhere.toml"], 2, &["nowhere.toml"]),
    ] {
        Ended::of(&mut tickscope(words)).said(code, says);
    }
    for table in ["traces", "stamps"] {
        fs::remove_dir_all(Path::new(two).join(table)).unwrap();
    }
    Ended::of(&mut tickscope(&["compare", one, two])).said(1, &["run2"]);
}

#[test]
fn e2e_a_comparison_ends_as_its_runs_stand_and_with_4_or_5_where_somebody_asks() {
    let site = Site::new("compare-codes");
    let [one, two] = [1, 2].map(|number| copied(&site, &format!("run{number}"), number));
    let (one, two) = (one.as_str(), two.as_str());
    let found = Ended::of(&mut tickscope(&["compare", one, two, "--json"])).json(0);
    assert_eq!((found["version"].as_u64(), &found["most_changed"]), (Some(1), &serde_json::Value::Null));
    assert!(found["stages"].as_array().unwrap().len() > 1 && found["notes"][0].is_string(), "{found}");
    let shown = Ended::of(&mut tickscope(&["compare", one, two]));
    for words in ["no change was found", "before  after", "not resolved", "in no interval of one run a side"] {
        assert!(shown.out.contains(words), "{words}: {}", shown.out);
    }
    Ended::of(&mut tickscope(&["compare", one, two, "--fail-on", "slower,changed"])).said(0, &[]);
    Ended::of(&mut tickscope(&["compare", one, two, "--fail-on", "unresolved"])).said(5, &["not resolved: "]);
    slow_down(two, 10_000_000);
    Ended::of(&mut tickscope(&["compare", one, two])).said(0, &[]);
    Ended::of(&mut tickscope(&["compare", one, two, "--fail-on", "slower"])).said(4, &["slower: "]);
    // What is sure comes before what is left open.
    Ended::of(&mut tickscope(&["compare", one, two, "--fail-on", "unresolved,slower"])).said(4, &["slower: "]);
    Ended::of(&mut tickscope(&["compare", two, one, "--fail-on", "slower"])).said(0, &[]);
    Ended::of(&mut tickscope(&["compare", two, one, "--fail-on", "changed"])).said(4, &["changed: "]);
    Ended::of(&mut tickscope(&["compare", one, two, "--tolerance", "1s", "--fail-on", "slower"])).said(0, &[]);
    let text = "what befell server.tsc".to_string();
    let event = Event {
        node: "server".into(),
        domain: Some("server.tsc".into()),
        what: EventKind::ClockBackward,
        text,
        ..Event::default()
    };
    write_events(&Path::new(two).join("events/run.parquet"), &[event]).unwrap();
    let ended = Ended::of(&mut tickscope(&["compare", one, two, "--fail-on", "unresolved", "--json"]));
    let found = ended.json(3);
    assert_eq!(found["findings"][0], format!("{two}: what befell server.tsc"));
    assert!(ended.err.contains("what befell server.tsc"), "{}", ended.err);
}
