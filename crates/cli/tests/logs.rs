//! Programs with nothing of tickscope in them: their logs of another clock become stamps of the same traces.

mod site;

use std::path::Path;

use site::c_program::compile;
use site::{Ended, Site, count, own_address, stage, udp_echo};

/// A client in Java that logs `System.nanoTime()` to files in the run's directory.
fn java_run(sent: &str, ordering: &str) -> String {
    let (echo, [server, at_client]) = (udp_echo().display(), [own_address(), own_address()]);
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../targets/java-echo/EchoClient.java");
    let client = client.display();
    format!(
        "run = {{ name = \"java\", seconds = 2 }}\nnetwork.kind = \"loopback\"\n\
         [clock]\nreference = \"client\"\nrho = 1\nsame_boot = \"ignore\"\nprobes_hz = 500\nprobe_port = 7411\n\
         [layout]\npath = [\"client.java-send\", \"server.received\", \"server.reply\", \"client.java-response\"]\n\
         [[node]]\nname = \"server\"\ncommand = [\"{echo}\", \"server\", \"{{address}}\", \"7400\"]\n\
         address = \"{server}\"\nready = 7400\n\
         [[node]]\nname = \"client\"\nends_run = true\naddress = \"{at_client}\"\n\
         command = [\"java\", \"{client}\", \"{{server.address}}\", \"7400\", \"{{run}}/sent.csv\", \"{{run}}/responses.csv\", \"500\", \"{{seconds}}\"]\n\
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
    ended.said(1, &["nowhere.csv", "cannot read the log", "passed every point"]);
    let table = ended.json(1);
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

/// A program that stamps before and after it reads clocks, and logs these as programs do.
fn forms_run(site: &Site) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/log_forms.c");
    let program = compile("cc", &source, &["-D_GNU_SOURCE"], "log-forms");
    let logs = site.path("logs");
    std::fs::create_dir_all(&logs).unwrap();
    let edges = ["us", "ms", "float", "ticks"].map(|log| format!("\"n.before > n.{log}\", \"n.{log} > n.after\""));
    format!(
        "run = {{ name = \"forms\", seconds = 1 }}\nclock.reference = \"n\"\n[layout]\nedges = [{}]\n\
         [[node]]\nname = \"n\"\nends_run = true\ncommand = [\"{}\", \"logs\"]\n\
         [[log]]\nnode = \"n\"\npoint = [\"us\", \"ms\"]\nfile = \"logs/cut.csv\"\n\
         clock = \"monotonic\"\nunit = \"s\"\n\
         [[log]]\nnode = \"n\"\npoint = \"float\"\nfile = \"logs/float.csv\"\nclock = \"realtime\"\nunit = \"s\"\n\
         [[log]]\nnode = \"n\"\npoint = \"ticks\"\nfile = \"logs/ticks.csv\"\nclock = \"counter\"\n",
        edges.join(", "),
        program.display()
    )
}

#[test]
fn e2e_rounded_and_cut_logs_are_believed_no_further_than_they_go_and_files_lie_beside_the_run_file() {
    let site = Site::new("forms");
    let table = Ended::of(&mut site.run_command(&forms_run(&site))).json(0);
    for log in ["us", "ms", "float", "ticks"] {
        for name in [format!("n.before>n.{log}"), format!("n.{log}>n.after")] {
            let stage = stage(&table, &name);
            assert_eq!((stage["count"].as_u64(), stage["impossible"].as_u64()), (Some(500), Some(0)), "{stage:#}");
        }
    }
    let manifest = site.opened().manifest().clone();
    let resolution = |name: &str| {
        let point = manifest.points.iter().find(|point| point.name.as_str() == name).unwrap();
        point.resolution_ticks.unwrap_or(0)
    };
    assert!((1000..1100).contains(&resolution("us")), "{}", resolution("us"));
    assert!((1_000_000..1_001_000).contains(&resolution("ms")), "{}", resolution("ms"));
    assert!((239..1000).contains(&resolution("float")), "seconds of today lie 238 ns apart: {}", resolution("float"));
    assert_eq!(resolution("ticks"), 0, "as the counter was read");
    let float = site.opened().stamps(&"n.float".parse().unwrap()).unwrap().read_all().unwrap();
    assert!(float.id.iter().enumerate().all(|(row, id)| float.value.get(row) == Some(2 * id)));
}

#[test]
fn e2e_a_log_whose_form_nothing_can_have_is_refused_before_anything_starts() {
    let site = Site::new("wrong-form");
    let text = forms_run(&site);
    for (right, wrong, said) in [
        ("unit = \"s\"", "unit = \"min\"", "unit = \"ns\", \"us\", \"ms\" or \"s\""),
        ("unit = \"s\"", "columns = [\"id\", \"value\"]", "expected a column time"),
        ("unit = \"s\"", "resolution = \"fine\"", "expected resolution = \"1us\""),
        ("clock = \"counter\"", "clock = \"counter\"\nunit = \"us\"", "no unit and no resolution"),
        ("logs/ticks.csv", "/dev/zero", "expected a regular file"),
    ] {
        assert!(text.contains(right), "{right}");
        Ended::of(&mut site.run_command(&text.replacen(right, wrong, 1))).said(2, &[said]);
        assert!(!site.run_directory().exists());
    }
}
