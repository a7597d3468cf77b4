//! Programs with nothing of tickscope in them: their logs of another clock become stamps of the same traces.

mod site;

use std::path::Path;

use site::{Ended, Site, count, free_port, stage, udp_echo};

/// A client in Java that logs `System.nanoTime()` to files in the run's directory.
fn java_run(sent: &str, ordering: &str) -> String {
    let (echo, port, probe_port) = (udp_echo().display(), free_port(), free_port());
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../targets/java-echo/EchoClient.java");
    let client = client.display();
    format!(
        "run = {{ name = \"java\", seconds = 2 }}\nnetwork.kind = \"loopback\"\n\
         [clock]\nreference = \"client\"\nrho = 1\nsame_boot = \"ignore\"\nprobes_hz = 500\nprobe_port = {probe_port}\n\
         [layout]\npath = [\"client.java-send\", \"server.received\", \"server.reply\", \"client.java-response\"]\n\
         [[node]]\nname = \"server\"\ncommand = [\"{echo}\", \"server\", \"{{address}}\", \"{port}\"]\n\
         [[node]]\nname = \"client\"\nends_run = true\n\
         command = [\"java\", \"{client}\", \"{{server.address}}\", \"{port}\", \"{{run}}/sent.csv\", \"{{run}}/responses.csv\", \"500\", \"{{seconds}}\"]\n\
         [[log]]\nnode = \"client\"\npoint = \"java-send\"\nfile = \"{{run}}/{sent}\"\nclock = \"monotonic\"\nordering = \"{ordering}\"\n\
         [[log]]\nnode = \"client\"\npoint = \"java-response\"\nfile = \"{{run}}/responses.csv\"\nclock = \"monotonic\"\n"
    )
}

#[test]
fn e2e_a_java_client_that_only_logs_nano_time_is_in_the_trace() {
    let site = Site::new("java");
    let table = Ended::of(&mut site.run_command(&java_run("sent.csv", "plain"))).json(0);
    assert_eq!(count(&table, "end-to-end"), 1000);
    assert_eq!(table["path_sums"]["mismatches"], 0);
    for name in ["client.java-send>server.received", "server.reply>client.java-response", "end-to-end"] {
        assert_eq!(
            (stage(&table, name)["impossible"].as_u64(), stage(&table, name)["refused"].as_u64()),
            (Some(0), Some(0))
        );
        assert!(stage(&table, name)["p50"]["ns"].as_f64().unwrap() > 0.0);
    }
    let clocks = table["auxiliary_clocks"].as_array().unwrap();
    let monotonic = clocks.iter().find(|clock| clock["domain"] == "client.monotonic").unwrap();
    assert_eq!(monotonic["readings"], 2000);
    assert!(monotonic["published"]["inside"].as_u64().is_some());
    // One host's stage carries no error of the clock map between the hosts.
    let whole = stage(&table, "end-to-end")["common"]["below_ticks"].as_u64().unwrap();
    let across = stage(&table, "client.java-send>server.received")["common"]["below_ticks"].as_u64().unwrap();
    assert!(whole < across, "{whole} and {across}");
    assert_eq!(site.events("log").len(), 2);
}

#[test]
fn e2e_a_log_that_is_missing_is_told_and_costs_only_its_own_point() {
    let site = Site::new("no-log");
    let ended = Ended::of(&mut site.run_command(&java_run("nowhere.csv", "plain")));
    ended.said(0, &["nowhere.csv", "cannot read the log"]);
    let table = ended.json(0);
    assert_eq!(count(&table, "server.reply>client.java-response"), 1000);
    assert_eq!(stage(&table, "client.java-send>server.received")["missing"], 1000);
    assert_eq!(site.events("log-refused").len(), 1);
}

#[test]
fn e2e_a_log_with_a_clock_that_is_none_is_refused_before_anything_starts() {
    let site = Site::new("wrong-log");
    let text = java_run("sent.csv", "plain").replacen("clock = \"monotonic\"", "clock = \"sundial\"", 1);
    Ended::of(&mut site.run_command(&text)).said(2, &["realtime", "monotonic", "sundial"]);
    let text = java_run("sent.csv", "behind");
    Ended::of(&mut site.run_command(&text)).said(2, &["plain, before or after", "behind"]);
}
