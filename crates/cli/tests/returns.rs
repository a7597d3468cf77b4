//! Return trips: ends of a path acknowledged to where it begins, over loopback and over namespaces, with known
//! counters.

mod site;

use std::net::UdpSocket;

use serde_json::Value;
use site::{Ended, Experiment, Site, count, truth};
use tickscope_experiment::may_make_namespaces;
use tickscope_store::{ReturnRow, Run};
use tickscope_tick::Injection;

/// A run whose path ends at the server, under that policy; the server's counter is ahead by a known offset.
fn experiment(seconds: f64, rate_hz: u32, policy: &str, more: &str) -> String {
    let inject = Some(("server", [1_000_000_000_000, 0, 0, 2]));
    let text = Experiment { probes_hz: 200, inject, ..Experiment::new(seconds, rate_hz) }.text();
    let path = "path = [\"client.send\", \"server.received\", \"server.reply\", \"client.response\"]";
    assert!(text.contains(path));
    let text = text.replace(path, "path = [\"client.send\", \"server.received\"]");
    format!("{text}[[policy]]\nchannels = \"received\"\npolicy = \"{policy}\"\n[return_trip]\nport = 7413\n{more}")
}

fn rows(run: &Run, node: &str) -> Vec<ReturnRow> {
    let listing = run.returns(node).unwrap();
    assert!(listing.refused.is_empty(), "{:?}", listing.refused);
    listing.found.rows().collect()
}

fn method(table: &Value) -> &Value {
    let methods = table["rivals"][0]["methods"].as_array().unwrap();
    let found = methods.iter().find(|method| method["name"] == "return trip, less half of it");
    found.unwrap_or_else(|| panic!("no return trip in {methods:?}"))
}

/// Every tick lies where its stamp was taken, on the true counter; lateness and round trip are in the rows.
fn assert_sound(site: &Site, table: &Value, at_least: usize) {
    let (known, inside) = truth(table);
    assert!(known > 0 && known == inside, "{inside} of {known}");
    let run = site.opened();
    let injected = run.manifest().nodes.iter().find_map(|node| node.injected.as_ref()).unwrap();
    let injection: Injection = injected.parse().unwrap();
    let rows = rows(&run, "server");
    assert!(rows.len() >= at_least, "{} rows", rows.len());
    for row in &rows {
        assert_eq!((row.source.as_str(), row.point.as_str()), ("client", "received"));
        let true_tick = |raw: i64| injection.invert(raw).unwrap().0;
        let ticks = [row.end, row.sent].map(true_tick);
        let ticks = [ticks[0], ticks[1], row.received, row.answered, true_tick(row.returned)];
        assert!(ticks.is_sorted(), "{row:?}: {ticks:?}");
    }
    let mut stamps: Vec<(i64, i64)> = rows.iter().map(|row| (row.id, row.end)).collect();
    stamps.sort_unstable();
    stamps.dedup();
    assert_eq!(stamps.len(), rows.len(), "each stamp once");
    let (found, method) = (&table["rivals"][0]["acknowledged"], method(table));
    let compared = found["compared"].as_u64().unwrap();
    assert!(compared as usize == rows.len() && count(table, "end-to-end") >= compared, "{found}");
    assert_eq!((&found["repeated"], &found["unmatched"]), (&0.into(), &0.into()));
    // One true rate: the published value is off by half of what the ways differ, at most.
    assert_eq!((&method["outside"], method["samples"].as_u64()), (&0.into(), Some(compared)), "{method}");
    // T3 - T1 as published has the round trips as its bound, and is a method of its own.
    let methods = table["rivals"][0]["methods"].as_array().unwrap();
    let whole = methods.iter().find(|method| method["name"] == "return trip, T3 - T1").unwrap();
    assert_eq!((&whole["half_width"]["most_ns"], &whole["outside"]), (&found["round_trip_ns"][2], &0.into()));
    assert_eq!((&whole["samples"], &method["bound"]), (&method["samples"], &"corrected".into()));
    assert!(whole["error_ns"][0].as_i64() > Some(0) && whole["bound"] == "published", "{whole}");
    assert!(found["late_ns"][0].as_i64() > Some(0) && found["round_trip_ns"][0].as_i64() > Some(0), "{found}");
    println!("{found} {method}");
}

#[test]
fn e2e_each_stamp_at_the_end_of_a_path_is_acknowledged_to_its_beginning_with_four_true_ticks() {
    let site = Site::new("returns");
    let table = Ended::of(&mut site.run_command(&experiment(2.0, 100, "return-trip", ""))).json(0);
    assert_sound(&site, &table, 50);
    let reported = Ended::of(site::tickscope(&["report"]).arg(site.run_directory()));
    assert_eq!(reported.code, Some(0), "{reported:?}");
    let page = std::fs::read_to_string(site.opened().paths().report()).unwrap();
    assert!(page.contains("the corrected value lies outside the guaranteed interval"));
    let shown = Ended::of(site::tickscope(&["show"]).arg(site.run_directory()));
    let said = shown.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("return trip, ") && said.contains("lies outside the guaranteed interval"), "{shown:?}");
    let checked = Ended::of(site::tickscope(&["check"]).arg(site.run_directory()));
    assert_eq!(checked.code, Some(0), "{checked:?}");
}

#[test]
fn e2e_return_trips_go_from_one_namespace_to_another() {
    if let Err(why) = may_make_namespaces() {
        println!("not tried: namespaces need rights: {why}");
        return;
    }
    let site = Site::new("returns-namespaces");
    let text = experiment(2.0, 100, "return-trip", "");
    let text = text.replace("kind = \"loopback\"", "kind = \"namespaces\"");
    let lines = text.split_inclusive('\n');
    let text: String = lines.filter(|line| !line.starts_with("address = ")).collect(); // those of the namespaces
    let table = Ended::of(&mut site.run_command(&text)).json(0);
    assert_sound(&site, &table, 50);
}

#[test]
fn e2e_a_run_without_the_policy_has_no_return_trips_nor_has_one_that_ends_where_it_began() {
    let back = experiment(0.5, 100, "return-trip", "").replace(
        "path = [\"client.send\", \"server.received\"]",
        "path = [\"client.send\", \"server.received\", \"server.reply\", \"client.response\"]",
    );
    for text in [experiment(0.5, 100, "buffered", ""), back] {
        let site = Site::new("no-returns");
        let table = Ended::of(&mut site.run_command(&text)).json(0);
        assert!(!site.run_directory().join("returns").exists());
        assert!(table["rivals"][0]["acknowledged"].is_null());
        assert_eq!((site.events("returns-lost"), site.events("returns-thinned")), (vec![], vec![]));
    }
}

#[test]
fn e2e_above_the_stated_rate_a_share_of_the_ids_is_acknowledged_and_that_is_told() {
    let site = Site::new("returns-thinned");
    let text = experiment(3.0, 250, "return-trip", "most_hz = 20");
    Ended::of(&mut site.run_command(&text)).json(0);
    let rows = rows(&site.opened(), "server");
    let told = site.events("returns-thinned");
    assert_eq!(told.len(), 1, "{told:?}");
    let of_ids = told[0].value.unwrap();
    assert!(of_ids >= 8 && told[0].text.contains(&format!("1 of {of_ids}")), "{told:?}");
    // At most two in a tenth of a second; the run, its start and its end take some seconds.
    let stamped: u64 = 3 * 250;
    assert!(!rows.is_empty() && (rows.len() as u64) < stamped / 4, "{} rows", rows.len());
    assert!(rows.iter().rev().take(5).all(|row| row.id.rem_euclid(8) == 0), "{rows:?}");
}

#[test]
fn e2e_acknowledgements_that_nobody_answers_are_counted_and_end_no_run() {
    let silent = UdpSocket::bind("0.0.0.0:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let text = experiment(1.0, 100, "return-trip", "");
    let at = text.find("[return_trip]").unwrap();
    let text = format!("{}[return_trip]\nport = {port}\n", &text[..at]);
    let site = Site::new("returns-lost");
    let ended = Ended::of(&mut site.run_command(&text));
    assert!(ended.err.contains("return_trip.port"), "{ended:?}");
    let table = ended.json(0);
    assert!(count(&table, "end-to-end") > 10);
    let lost = site.events("returns-lost");
    assert!(lost.iter().any(|event| event.node == "client" && event.value.is_none()), "{lost:?}");
    assert!(lost.iter().any(|event| event.node == "server" && event.value > Some(10)), "{lost:?}");
    assert!(!site.run_directory().join("returns").exists());
}
