//! Every way out of a run says how the run stands: what contradicts it (exit code 3), what of it is damaged (1).

mod site;

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use site::{Ended, Site, tickscope};
use tickscope_store::{Event, EventKind, write_events};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/tests/golden");

/// A copy of the golden run of that schema.
fn copied(site: &Site, schema: &str) -> String {
    let (from, run) = (Path::new(GOLDEN).join(schema), site.path("run"));
    assert!(Command::new("cp").arg("-r").args([&from, &run]).status().unwrap().success());
    run.display().to_string()
}

/// The JSON of `show`, `report`'s table, and `export`, which all end with that code; and what they said.
fn ways_out(site: &Site, run: &str, code: i32) -> Vec<(Value, String)> {
    let csv = site.path("run.csv").display().to_string();
    let ways: [&[&str]; 3] =
        [&["show", run, "--json"], &["report", run, "--json"], &["export", run, "--json", "--csv", &csv]];
    let all = ways.into_iter().map(|words| {
        let ended = Ended::of(&mut tickscope(words));
        let json = ended.json(code);
        (if json["table"].is_object() { json["table"].clone() } else { json }, ended.err)
    });
    all.collect()
}

fn event(what: EventKind, domain: &str) -> Event {
    let text = format!("what befell {domain}");
    Event { node: "server".into(), domain: Some(domain.into()), what, text, ..Event::default() }
}

#[test]
fn e2e_a_finding_is_told_and_ends_with_3_whichever_way_out() {
    use EventKind::{ClockBackward, ClockSuspend, CounterDisrupted, ImpossibleExchange, MemoryLost, StampsLeft};
    let site = Site::new("standing");
    let run = copied(&site, "v1");
    let checked = Ended::of(&mut tickscope(&["check", &run, "--json"])).json(0);
    assert_eq!(checked["findings"].as_array().unwrap().len(), 0);
    let gone = Path::new(&run).join("events/lost.parquet");
    for (what, why) in [(MemoryLost, "memory is gone"), (StampsLeft, "not all are taken yet")] {
        write_events(&gone, &[event(what, "server.tsc")]).unwrap();
        Ended::of(&mut tickscope(&["check", &run])).said(1, &["what befell server.tsc"]);
        for (json, said) in ways_out(&site, &run, 1) {
            assert!(json["lost"].is_null() && said.contains("what befell server.tsc"), "{json} {said}");
        }
        let shown = Ended::of(&mut tickscope(&["show", &run]));
        assert!(shown.out.contains("lost: unknown: ") && shown.out.contains(why), "{shown:?}");
        fs::remove_file(&gone).unwrap();
    }
    assert!(ways_out(&site, &run, 0)[0].0["lost"].is_u64(), "it is known");
    for (json, _) in ways_out(&site, &run, 0) {
        assert_eq!((json["findings"].as_array().unwrap().len(), json["faults"].as_array().unwrap().len()), (0, 0));
    }
    for what in [ClockBackward, ClockSuspend, CounterDisrupted, ImpossibleExchange] {
        let place = Path::new(&run).join("events/run.parquet");
        write_events(&place, &[event(what, "server.tsc")]).unwrap();
        for (json, said) in ways_out(&site, &run, 3) {
            assert_eq!(json["findings"][0], "what befell server.tsc", "{json}");
            assert!(said.contains("what befell server.tsc"), "{said}");
        }
        Ended::of(&mut tickscope(&["show", &run, "--by", "kind"])).said(3, &["what befell server.tsc"]);
        let check = |more: &[&str]| Ended::of(tickscope(&["check", &run]).args(more));
        assert_eq!(check(&["--json"]).json(3)["findings"][0], "what befell server.tsc");
        check(&[]).said(3, &["what befell server.tsc"]);
        assert!(check(&[]).out.contains("finding: what befell server.tsc"));
        fs::remove_file(place).unwrap();
    }
    let place = Path::new(&run).join("run.json");
    let text = fs::read_to_string(&place).unwrap();
    fs::write(&place, text.replacen("\"invariant\": true", "\"invariant\": false", 1)).unwrap();
    for (json, said) in ways_out(&site, &run, 3) {
        let told = json["findings"][0].as_str().unwrap();
        assert!(told.contains("a counter that runs at one rate") && said.contains(told), "{said}");
    }
}

#[test]
fn e2e_damage_is_in_the_json_and_first_on_the_page_by_the_right_word() {
    let site = Site::new("damage");
    let run = copied(&site, "v2");
    let missing = Path::new(&run).join("brackets/reference=client.tsc/domain=server.tsc");
    fs::remove_dir_all(missing).unwrap();
    let changed = Path::new(&run).join("run.json");
    fs::write(&changed, fs::read_to_string(&changed).unwrap() + " ").unwrap();
    fs::write(Path::new(&run).join("brackets/notes.txt"), "mine").unwrap();
    for (json, said) in ways_out(&site, &run, 1) {
        let faults = json["faults"].as_array().unwrap();
        assert_eq!(faults.len(), 3, "{json}");
        assert!(faults.iter().all(|fault| said.contains(fault["text"].as_str().unwrap())), "{said}");
        assert!(faults.iter().any(|fault| Path::new(fault["file"].as_str().unwrap()) == changed), "{json}");
    }
    let page = Ended::of(&mut tickscope(&["report", &run, "--out", "-"]));
    assert_eq!(page.code, Some(1));
    let (_, after) = page.out.split_once("<div class=\"alarm finding\"").expect("the red box");
    let (alarm, _) = after.split_once("</div>").unwrap();
    for part in ["This run is damaged", "1 file changed", "1 file missing", "1 file strange", "notes.txt"] {
        assert!(alarm.contains(part), "{part}: {alarm}");
    }
    assert!(!page.out.contains("could not be read"));
    let headline = Ended::of(&mut tickscope(&["report", &run, "--json"])).json(1)["headline"][0].clone();
    assert!(headline.as_str().unwrap().starts_with("This run is damaged"), "{headline}");
}
