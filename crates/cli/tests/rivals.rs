//! chrony and ptp4l beside a run, over namespaces, none of which sets a clock.

mod site;

use serde_json::{Value, json};
use site::{Ended, Experiment, Site, few_or_all, tickscope};
use tickscope_experiment::may_make_namespaces;
use tickscope_host::StatedError;

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../build/rivals/usr");

/// The PATH with what `scripts/setup.sh` unpacked.
fn path() -> String {
    format!("{}:{PROGRAMS}/sbin:{PROGRAMS}/bin", std::env::var("PATH").unwrap_or_default())
}

fn has(program: &str) -> bool {
    path().split(':').chain(["/usr/sbin"]).any(|folder| std::path::Path::new(folder).join(program).is_file())
}

fn method<'a>(table: &'a Value, name: &str) -> &'a Value {
    let methods = table["rivals"][0]["methods"].as_array().unwrap();
    methods.iter().find(|method| method["name"] == name).unwrap_or_else(|| panic!("no {name} in {methods:?}"))
}

/// A run of the demo's kind with these rivals, and with a machine on which nothing is stamped.
fn run(site: &Site, seconds: f64, rivals: &str, path: &str) -> Value {
    let experiment = Experiment { probes_hz: 200, addresses: None, ..Experiment::new(seconds, 50) };
    let text = experiment.text().replace("kind = \"loopback\"", "kind = \"namespaces\"");
    let mut command =
        site.run_command(&format!("{text}\n[[node]]\nname = \"idle\"\ncommand = [\"true\"]\n[rivals]\n{rivals}\n"));
    Ended::of(command.env("PATH", path)).json(0)
}

#[test]
fn e2e_chrony_and_ptp4l_are_asked_beside_the_run_and_the_truth_is_held_against_each() {
    if let Err(why) = may_make_namespaces() {
        println!("not tried: namespaces need rights: {why}");
        return;
    }
    if !["chronyd", "chronyc", "ptp4l"].into_iter().all(has) {
        println!("not tried: chrony and linuxptp are not installed; scripts/setup.sh unpacks them as root");
        return;
    }
    let site = Site::new("rivals");
    let rivals = "chrony = [{ name = \"fast\", poll = -4, xleave = true }]\nptp4l = true";
    let table = run(&site, few_or_all(16.0, 40.0), rivals, &path());
    assert_eq!(site.events("rival-missing"), [], "all of them took part");
    for name in ["tickscope", "the same two points, with rho"] {
        assert_eq!(
            (&method(&table, name)["bound"], &method(&table, name)["outside"]),
            (&"guaranteed".into(), &0.into())
        );
    }
    let chrony = method(&table, "chrony, fast");
    assert!(chrony["samples"].as_u64() >= Some(5) && chrony["bound"] == "stated", "{chrony}");
    assert!(chrony["error_ns"][0].as_i64() < Some(1_000_000), "{chrony}");
    let ptp4l = method(&table, "ptp4l, software stamps");
    assert!(ptp4l["samples"].as_u64() >= Some(1) && ptp4l["half_width"].is_null(), "it states no bound: {ptp4l}");
    for trip in table["rivals"][0]["round_trips_ns"].as_array().unwrap() {
        assert!(trip.as_i64() > Some(0));
    }
    let hertz = &table["rivals"][0]["hertz"];
    let declared = table["rivals"][0]["declared_hertz"].as_i64();
    assert!(hertz[0].as_i64() <= declared && declared <= hertz[1].as_i64(), "one counter: {hertz}");
    expect_every_node(&site, &table);
}

/// The run's one pair of nodes, with a link between namespaces that the client fills or hardly uses.
fn over_a_narrow_link(name: &str, rate_hz: u32) -> Value {
    let site = Site::new(name);
    let experiment = Experiment { probes_hz: 100, addresses: None, ..Experiment::new(few_or_all(2.5, 10.0), rate_hz) };
    let link = "kind = \"namespaces\"\nnetwork.link = { mbit = 1, queue_ms = 100 }";
    let text = experiment.text().replace("kind = \"loopback\"", link);
    Ended::of(&mut site.run_command(&text)).json(0)
}

#[test]
fn e2e_the_return_trip_is_compared_on_a_saturated_link_and_refused_on_an_idle_one() {
    if let Err(why) = may_make_namespaces() {
        println!("not tried: namespaces need rights: {why}");
        return;
    }
    const RETURN_TRIP: &str = "return trip, the longest of each moment";
    let width = |table: &Value, name: &str| method(table, name)["half_width"]["median_ns"].as_i64().unwrap();
    let full = over_a_narrow_link("saturated", 3000);
    let trip = method(&full, RETURN_TRIP);
    assert_eq!(
        (&trip["bound"], &trip["outside"], &full["rivals"][0]["refused"]),
        (&"published".into(), &0.into(), &json!([]))
    );
    assert!(trip["error_ns"][0].as_i64() > Some(0), "the truth is known: {trip}");
    // A queue of 100 ms, which a pause of the client does not empty, and a bound that was found before and after it.
    assert!(
        width(&full, RETURN_TRIP) > 5_000_000 && width(&full, RETURN_TRIP) > 10 * width(&full, "tickscope"),
        "{trip}"
    );
    let alone = "one exchange during the run, the fastest of its moment";
    let alone = method(&full, alone);
    assert!(alone["half_width"]["most_ns"].as_i64() > Some(1_000_000) && alone["outside"] == 0, "{alone}");
    let refused = |table: &Value| table["rivals"][0]["refused"][0].as_str().map(str::to_owned);
    // On a busy machine exchanges wait for a processor, which looks like a queue: it gets four chances.
    let mut tables = (0..4).map(|_| over_a_narrow_link("idle-link", 50));
    let idle = tables.find(|table| refused(table).is_some()).expect("none of four idle links was told");
    let methods = idle["rivals"][0]["methods"].as_array().unwrap();
    assert!(methods.iter().all(|method| method["name"] != RETURN_TRIP), "{methods:?}");
    let refused = refused(&idle).unwrap();
    assert!(refused.contains("the link was idle") && refused.contains("a quarter and"), "{refused}");
}

#[test]
fn e2e_a_narrow_link_needs_namespaces() {
    let site = Site::new("no-link");
    let text = Experiment::new(0.5, 50).text();
    let text = text.replace("kind = \"loopback\"", "kind = \"loopback\"\nnetwork.link = { mbit = 1, queue_ms = 20 }");
    let ended = Ended::of(&mut site.run_command(&text));
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("expected network namespaces for network.link"), "{ended:?}");
}

#[test]
fn e2e_timestamps_synchronised_by_ntp_are_a_row_and_an_undisciplined_clock_is_told() {
    let site = Site::new("ntp");
    let experiment = Experiment { probes_hz: 200, ..Experiment::new(2.5, 50) };
    let mut command = site.run_command(&format!("{}\n[rivals]\nntp = true\n", experiment.text()));
    let table = Ended::of(&mut command).json(0);
    let ntp = method(&table, "NTP, synchronised timestamps");
    let taken = [&ntp["samples"], &ntp["not_yet"]].map(|count| count.as_u64().unwrap());
    assert!(taken[0] + taken[1] >= 1, "{ntp}");
    let told = site.events("rival-missing");
    if StatedError::of_this_host().is_some_and(|stated| stated.synchronised) {
        assert!(ntp["bound"] == "stated" && ntp["outside"] == 0 && told.is_empty(), "{ntp} {told:?}");
    } else {
        assert!(taken[0] == 0 && ntp["bound"] == "none" && ntp["half_width"].is_null(), "{ntp}");
        assert!(told.len() == 2 && told.iter().all(|event| event.text.contains("unsynchronised")), "{told:?}");
    }
}

#[test]
fn e2e_a_rival_that_is_not_installed_is_told_with_its_package_and_the_run_goes_on() {
    if may_make_namespaces().is_err() || ["chronyd", "ptp4l"].into_iter().any(on_this_machine) {
        println!("not tried: namespaces need rights, and chrony must not be installed");
        return;
    }
    let site = Site::new("no-rivals");
    let table = run(&site, 0.5, "chrony = true\nptp4l = true", "/usr/bin:/bin:/usr/sbin:/sbin");
    let told: Vec<String> = site.events("rival-missing").into_iter().map(|event| event.text).collect();
    assert!(told.iter().any(|text| text.contains("the package is chrony")), "{told:?}");
    assert!(told.iter().any(|text| text.contains("the package is linuxptp")), "{told:?}");
    assert_eq!(method(&table, "tickscope")["outside"], 0);
    assert_eq!(method(&table, "Min-RTT, two points")["bound"], "published");
    expect_every_node(&site, &table);
}

/// A node without a point of the layout is compared, too, and a terminal shows what the JSON has.
fn expect_every_node(site: &Site, table: &Value) {
    let rivals = table["rivals"].as_array().unwrap();
    assert_eq!(rivals.len(), 3, "two nodes against the reference, and each other: {rivals:?}");
    assert!(rivals.iter().all(|of| !of["published"]["rows"].as_array().unwrap().is_empty()), "{rivals:?}");
    let shown = Ended::of(tickscope(&["show", "--rivals"]).arg(site.run_directory()));
    assert_eq!(shown.code, Some(0), "{shown:?}");
    for words in ["idle.tsc against", "Table II as published: e ", "scenario 1: on one node", "baseline: the same"] {
        assert!(shown.out.contains(words), "{words}: {}", shown.out);
    }
}

fn on_this_machine(program: &str) -> bool {
    ["/usr/sbin", "/sbin", "/usr/bin", "/bin"]
        .into_iter()
        .any(|folder| std::path::Path::new(folder).join(program).is_file())
}
