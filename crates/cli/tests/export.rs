//! `tickscope export` writes a file whole or none, and says what it wrote; options that mean nothing are refused.

mod site;

use std::fs::File;
use std::process::Stdio;

use site::{Ended, Site, tickscope};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/tests/golden/v1");

#[test]
fn e2e_an_export_prints_what_it_writes_and_counts_every_row() {
    let site = Site::new("export");
    let file = site.path("run.csv");
    let export = |more: &[&str]| Ended::of(tickscope(&["export", GOLDEN]).args(more));
    let report = export(&["--csv", file.to_str().unwrap(), "--json"]).json(0);
    let written = std::fs::read_to_string(&file).unwrap();
    assert_eq!(report["rows"], written.lines().count() as u64 - 1);
    let sum: u64 = ["measured", "impossible", "repeated", "missing", "refused"]
        .map(|of| report[of].as_u64().unwrap())
        .iter()
        .sum();
    assert_eq!((&report["version"], &report["rows"]), (&1.into(), &sum.into()));
    let printed = export(&["--csv", "-"]);
    assert_eq!((printed.code, printed.out.as_str()), (Some(0), written.as_str()));
    assert!(printed.err.contains(" measured"), "{}", printed.err);
    // Under a wider rho bounds are wider, and the estimates may differ.
    assert_ne!(export(&["--csv", "-", "--rho", "laptop"]).out, written);
}

#[test]
fn e2e_what_cannot_be_meant_is_refused_with_exit_code_2() {
    let refused = |words: &[&str], said: &[&str]| Ended::of(&mut tickscope(words)).said(2, said);
    refused(&["export", GOLDEN, "--csv", "-", "--json"], &["both print to standard output"]);
    refused(&["export", GOLDEN, "--perfetto", "-", "--json"], &["--perfetto - both print to standard output"]);
    refused(&["export", GOLDEN], &["--csv", "--perfetto"]);
    refused(&["export", GOLDEN, "--csv", "-", "--perfetto", "-"], &["cannot be used with"]);
    refused(
        &["export", GOLDEN, "--perfetto", "/nowhere/run.pftrace"],
        &["--perfetto", "there is no directory /nowhere"],
    );
    for command in [&["show", GOLDEN][..], &["report", GOLDEN, "--json"], &["export", GOLDEN, "--csv", "-"]] {
        refused(&[command, &["--evidence", "probes,bogus"]].concat(), &["bogus", "kernel-probes"]);
        refused(&[command, &["--slew", "bogus"]].concat(), &["bogus", "expected"]);
    }
}

#[test]
fn e2e_a_report_answers_the_query_that_show_answers() {
    let ask = |command, query: &[&str]| Ended::of(tickscope(&[command, GOLDEN, "--json"]).args(query));
    let shown = ask("show", &["--rho", "laptop"]).json(0);
    assert_eq!(ask("report", &["--rho", "laptop"]).json(0)["table"], shown);
    assert_ne!(ask("show", &[]).json(0), shown);
    // The golden run has probes alone.
    for command in ["show", "report"] {
        ask(command, &["--evidence", "probes"]).json(0);
        ask(command, &["--evidence", "messages"]).said(2, &["this run has", "'messages'"]);
    }
}

#[test]
fn e2e_an_export_without_evidence_ends_as_show_does() {
    let site = Site::new("evidence");
    let file = site.path("x.csv");
    let export = |more: &[&str]| Ended::of(tickscope(&["export", GOLDEN, "--csv"]).arg(&file).args(more));
    export(&["--evidence", "messages"]).said(2, &["this run has", "'messages'"]);
    assert!(!file.exists(), "nothing is made where input is wrong");
    export(&["--evidence", "probes"]).said(0, &[]);
    let run = site.path("bare");
    assert!(
        std::process::Command::new("cp").arg("-r").args([GOLDEN.as_ref(), run.as_path()]).status().unwrap().success()
    );
    std::fs::remove_dir_all(run.join("brackets")).unwrap();
    let bare = |words: &[&str]| Ended::of(tickscope(words).arg(&run));
    let shown = bare(&["show"]);
    let exported = bare(&["export", "--csv", "-"]);
    assert_eq!((shown.code, exported.code), (Some(1), Some(1)));
    let says = shown.err.lines().last().unwrap();
    assert_eq!(exported.err.lines().last(), Some(says));
    assert!(says.contains("brackets") && exported.out.contains(",refused,"), "{exported:?}");
}

#[test]
fn e2e_a_reader_that_stops_early_is_no_error() {
    let words: [&[&str]; 3] = [&["export", GOLDEN, "--csv", "-"], &["show", GOLDEN, "--json"], &["show", GOLDEN]];
    for words in words {
        let mut child = tickscope(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success() && ended.stderr.is_empty(), "{words:?}: {ended:?}");
    }
}

#[test]
fn e2e_a_trace_for_perfetto_counts_each_stage_of_each_trace_as_the_csv_does() {
    let site = Site::new("perfetto");
    let file = site.path("run.pftrace");
    let csv = Ended::of(&mut tickscope(&["export", GOLDEN, "--json", "--csv", site.path("run.csv").to_str().unwrap()]));
    let mut export = tickscope(&["export", GOLDEN, "--perfetto"]);
    let (csv, report) = (csv.json(0), Ended::of(export.arg(&file).arg("--json")).json(0));
    for count in ["rows", "measured", "impossible", "repeated", "missing", "refused"] {
        assert_eq!(csv[count], report[count], "{count}");
    }
    let sum = |name: &str| -> u64 {
        report["stages"].as_array().unwrap().iter().map(|stage| stage[name].as_u64().unwrap()).sum()
    };
    let drawn = sum("slices") + sum("negative") + sum("unplaced");
    assert_eq!(report["measured"].as_u64().unwrap() + report["impossible"].as_u64().unwrap(), drawn);
    assert!(sum("slices") > 0 && report["flows"].as_u64().unwrap() > 0 && report["tracks"].as_u64().unwrap() > 0);
    let printed = Ended::of(&mut tickscope(&["export", GOLDEN, "--perfetto", "/dev/null"]));
    printed.said(1, &["no ordinary file"]);
    let again = Ended::of(tickscope(&["export", GOLDEN, "--perfetto"]).arg(&file));
    assert!(again.err.contains(" between nodes"), "{}", again.err);
}

#[test]
fn e2e_every_format_counts_the_same_traces_and_ends_as_show_does() {
    let site = Site::new("formats");
    let csv = Ended::of(&mut tickscope(&["export", GOLDEN, "--json", "--csv", site.path("run.csv").to_str().unwrap()]));
    let csv = csv.json(0);
    for option in ["--folded", "--hdr", "--openmetrics", "--otlp", "--arrow", "--ctf"] {
        let mut export = tickscope(&["export", GOLDEN, option]);
        let report = Ended::of(export.arg(site.path(&format!("run{option}"))).arg("--json")).json(0);
        for key in ["rows", "measured", "impossible", "repeated", "missing", "refused", "findings"] {
            assert_eq!(csv[key], report[key], "{option}: {key}");
        }
        let left_out = report["left_out"].as_array().unwrap();
        let missing = left_out.iter().filter(|left| left["why"] == "without both stamps");
        let missing: u64 = missing.map(|left| left["count"].as_u64().unwrap()).sum();
        assert!(option == "--arrow" || report["missing"] == missing, "{option}: {report}");
    }
    let ctf = site.path("run--ctf");
    Ended::of(tickscope(&["export", GOLDEN, "--ctf"]).arg(&ctf)).said(2, &["--ctf", "where nothing is"]);
    Ended::of(&mut tickscope(&["export", GOLDEN, "--ctf", "-"])).said(2, &["--ctf", "where nothing is"]);
    Ended::of(&mut tickscope(&["export", GOLDEN, "--csv", "-", "--one-in", "2"])).said(2, &["--otlp"]);
    let printed = Ended::of(&mut tickscope(&["export", GOLDEN, "--folded", "-"]));
    assert!(printed.out.lines().all(|line| line.starts_with("end-to-end;")) && !printed.out.is_empty(), "{printed:?}");
}

#[test]
fn e2e_an_export_that_cannot_be_written_says_where_to() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    for (format, name) in [("--csv", "CSV"), ("--perfetto", "trace"), ("--arrow", "Arrow file"), ("--otlp", "spans")] {
        Ended::of(tickscope(&["export", GOLDEN, format, "-"]).stdout(full.try_clone().unwrap()))
            .said(1, &[&format!("cannot write the {name} to standard output: No space left"), "free some space"]);
    }
}
