//! Somebody slews and steps the clocks that the kernel stamps with, in mid-run: no bound is false, and each event is
//! told.
//!
//! Both nodes read one counter, so every true duration is known; the clock map between them rests on the kernel's
//! stamps of the probes, which are read through the injected clocks.

mod site;

use serde_json::Value;
use site::{Ended, Site, own_address, tickscope, truth, udp_echo};

/// A run of a few seconds whose nodes' `CLOCK_REALTIME` are read through these maps.
fn run(site: &Site, server_map: &str, client_map: &str, clock: &str) -> Ended {
    let (echo, [server, client]) = (udp_echo().display(), [own_address(), own_address()]);
    let text = format!(
        "run = {{ name = \"clocks\", seconds = 6 }}\nnetwork.kind = \"loopback\"\n[clock]\nreference = \
         \"client\"\nrho = 1\nsame_boot = \"ignore\"\nprobes_hz = 1000\nprobe_port = \
         7411\n{clock}\n[layout]\npath = [\"client.send\", \"server.received\", \"server.reply\", \
         \"client.response\"]\n[[node]]\nname = \"server\"\ninject_realtime = {server_map}\ncommand = [\"{echo}\", \
         \"server\", \"{{address}}\", \"7400\"]\naddress = \"{server}\"\nready = 7400\n[[node]]\n\
         name = \"client\"\naddress = \"{client}\"\nends_run = true\ninject_realtime = \
         {client_map}\ncommand = [\"{echo}\", \"client\", \"{{server.address}}\", \"7400\", \"--rate\", \"1000\", \
         \"--seconds\", \"{{seconds}}\"]\n"
    );
    Ended::of(&mut site.run_command(&text))
}

fn all_inside(table: &Value) {
    let (known, inside) = truth(table);
    assert!(known >= 3 * 1000 && known == inside, "{inside} of {known}");
}

fn clock<'a>(table: &'a Value, domain: &str) -> &'a Value {
    let clocks = table["auxiliary_clocks"].as_array().unwrap();
    clocks.iter().find(|clock| clock["domain"] == domain).unwrap_or_else(|| panic!("{clocks:?}"))
}

fn source<'a>(table: &'a Value, name: &str) -> &'a Value {
    let sources = table["clock_maps"][0]["sources"].as_array().unwrap();
    sources.iter().find(|source| source["name"] == name).unwrap_or_else(|| panic!("{sources:?}"))
}

#[test]
fn e2e_clocks_that_keep_still_relate_the_nodes_ten_times_better_than_user_stamps() {
    let site = Site::new("still");
    // The counter of the server is off as well, by a map of its own.
    let server =
        "{}\ninject = { offset = 1000000000, drift_ppb = 12500, wander_ppb = 100, wander_period = 20000000000 }";
    let table = run(&site, server, "{ offset_ns = -7000000000 }", "").json(0);
    all_inside(&table);
    let alone = |name: &str| source(&table, name)["alone_ticks"].as_u64().unwrap();
    assert!(alone("kernel-probes") * 5 < alone("probes"), "{} and {}", alone("kernel-probes"), alone("probes"));
    assert_eq!(clock(&table, "client.realtime")["slew_ppm"], 1.0, "the kernel's account is constant");
    for what in ["clock-step", "clock-slew", "clock-suspend", "clock-backward"] {
        assert_eq!(site.events(what), [], "{what}");
    }
    assert!(source(&table, "kernel-probes")["brackets"].as_u64().unwrap() > 100);
}

#[test]
fn e2e_no_bound_is_false_under_slews_of_100_and_500_ppm_and_each_is_told() {
    let site = Site::new("slewed");
    let server = "{ slews = [{ from = 2, until = 4, ppb = 100000 }] }";
    let client = "{ slews = [{ from = 3, until = 5, ppb = -500000 }] }";
    let table = run(&site, server, client, "").json(0);
    all_inside(&table);
    let told = site.events("clock-slew");
    for (domain, ppb) in [("server.realtime", 100_000), ("client.realtime", -500_000)] {
        let of_clock: Vec<_> = told.iter().filter(|event| event.domain.as_deref() == Some(domain)).collect();
        assert_eq!(of_clock.len(), 1, "{told:?}");
        let rate = of_clock[0].value.unwrap();
        assert!((rate - ppb).abs() < 2_000, "{domain}: {rate}");
        assert!(clock(&table, domain)["breaks"].as_array().unwrap().iter().any(|found| found["declared"] == true));
    }
    // Under a bound that covers them nothing is void, and nothing is false.
    let covered = site.show(&["--slew", "600"]).json(0);
    all_inside(&covered);
    assert_eq!(clock(&covered, "client.realtime")["breaks"].as_array().unwrap().len(), 0);
    let used = |table: &Value| source(table, "kernel-probes")["brackets"].as_u64().unwrap();
    assert!(used(&covered) > used(&table));
    let report = Ended::of(tickscope(&["report", "--json", "--slew", "600"]).arg(site.run_directory())).json(0);
    assert_eq!(report["table"], covered);
}

#[test]
fn e2e_no_bound_is_false_across_steps_of_a_millisecond_and_a_second_and_each_is_told() {
    let site = Site::new("stepped");
    let server = "{ steps = [{ at = 2, ns = 1000000 }, { at = 4, ns = -1000000 }] }";
    let table = run(&site, server, "{ steps = [{ at = 3, ns = 1000000000 }] }", "").json(0);
    all_inside(&table);
    let told = site.events("clock-step");
    let of_clock = |domain: &str| -> Vec<i64> {
        let of = told.iter().filter(|event| event.domain.as_deref() == Some(domain));
        of.map(|event| event.value.unwrap()).collect()
    };
    let near = |found: Vec<i64>, steps: &[i64]| {
        assert_eq!(found.len(), steps.len(), "{told:?}");
        assert!(found.iter().zip(steps).all(|(found, step)| (found - step).abs() < 10_000), "{found:?}");
    };
    near(of_clock("server.realtime"), &[1_000_000, -1_000_000]);
    near(of_clock("client.realtime"), &[1_000_000_000]);
    assert_eq!(clock(&table, "server.realtime")["breaks"].as_array().unwrap().len(), 2);
    let unused = source(&table, "kernel-probes")["unused"].as_array().unwrap();
    assert!(unused.iter().any(|reason| reason["reason"].as_str().unwrap().contains("being set")), "{unused:?}");
}

#[test]
fn e2e_a_declared_slew_far_below_the_true_one_is_never_passed_over_in_silence() {
    let site = Site::new("dishonest-slew");
    let client = "{ slews = [{ from = 2, until = 5, ppb = 300000 }] }";
    let table = run(&site, "{}", client, "slew = 0.5").json(0);
    all_inside(&table);
    assert_eq!(clock(&table, "client.realtime")["slew_ppm"], 0.5);
    assert!(!clock(&table, "client.realtime")["breaks"].as_array().unwrap().is_empty());
}
