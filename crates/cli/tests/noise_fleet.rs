//! `tickscope noise fleet` of a run file: profiles that were begun at one instant, here and behind a pipe, and judged.

mod site;

use std::fs;

use serde_json::{Value, json};
use site::{Ended, Site, free_port, tickscope};

/// Three machines that are this one, two of them behind a pipe, whose counters nothing but exchanges relates.
fn machines() -> String {
    let agent = env!("CARGO_BIN_EXE_tickscope");
    let node = |name: &str, more: &str| format!("[[node]]\nname = \"{name}\"\n{more}\n");
    let behind = |number: usize| format!("connect = [\"env\"]\nagent = \"{agent}\"\naddress = \"127.0.0.{number}\"");
    format!(
        "run = {{ name = \"fleet\", seconds = 60, pool_bytes = 4194304 }}\n[clock]\nreference = \"a\"\n\
         same_boot = \"ignore\"\nprobe_port = {}\n{}{}{}",
        free_port(),
        node("a", "address = \"127.0.0.1\""),
        node("b", &behind(2)),
        node("c", &behind(3))
    )
}

fn fleet(site: &Site, of: &str, more: &[&str]) -> Ended {
    let mut command = tickscope(&["noise", "fleet"]);
    command.arg(site.path(of)).args(more);
    for home in ["XDG_STATE_HOME", "XDG_CACHE_HOME"] {
        command.env(home, site.path("homes"));
    }
    Ended::of(&mut command)
}

#[test]
fn e2e_machines_of_a_run_file_are_measured_at_one_instant_and_judged_as_their_profiles_are() {
    let site = Site::new("noise-fleet");
    fs::write(site.path("machines.toml"), machines()).unwrap();
    let out = site.path("fleet");
    let out = out.to_str().unwrap();
    let more = ["--json", "--seconds", "1.5", "--out", out];
    let measured = fleet(&site, "machines.toml", &more).json(0);
    assert_eq!(measured["profiles"], json!(["a", "b", "c"]));
    let place = |node: &str| site.path(&format!("fleet/outputs/node={node}/noise.json"));
    let profile = |node: &str| -> Value { serde_json::from_slice(&fs::read(place(node)).unwrap()).unwrap() };
    let profiles = ["a", "b", "c"].map(profile);
    // All three read one counter, whatever the run was told: so the truth is known.
    let began = profiles.each_ref().map(|profile| profile["machine"]["began_tick"].as_i64().unwrap());
    let apart = began.iter().max().unwrap() - began.iter().min().unwrap();
    let apart_ns = i128::from(apart) * 1_000_000_000 / i128::from(profiles[0]["hertz"].as_u64().unwrap());
    let within_ns = i128::from(measured["began_within_ns"].as_i64().unwrap());
    assert!(apart_ns <= within_ns && within_ns < apart_ns + 1_000_000_000, "{apart_ns} {within_ns}");
    // The run is judged again as it was, and as its profiles are.
    assert_eq!(fleet(&site, "fleet", &["--json"]).json(0), measured);
    let files = ["b", "c"].map(|node| place(node).display().to_string());
    let of_files = fleet(&site, "fleet/outputs/node=a/noise.json", &["--json", &files[0], &files[1]]).json(0);
    assert_eq!([&of_files["odd"].as_array().unwrap().len()], [&measured["odd"].as_array().unwrap().len()]);
    assert!(of_files["began_within_ns"].is_null(), "no run relates their clocks");
    // A machine that began ten seconds before the others is told, and so is one without a profile.
    let mut early = profiles[0].clone();
    let ten_seconds = 10 * early["hertz"].as_i64().unwrap();
    early["machine"]["began_tick"] = json!(began[0] - ten_seconds);
    fs::write(place("a"), early.to_string()).unwrap();
    let text = fleet(&site, "fleet", &[]).out;
    assert!(text.contains("the profiles may have begun") && text.contains("by the run's clock maps"), "{text}");
    fs::write(place("c"), "{}").unwrap();
    fleet(&site, "fleet", &[])
        .said(2, &["at least 3 machines, found 2: a, b", "c is left out", "noise.json: expected a profile"]);
    fs::remove_file(place("c")).unwrap();
    fleet(&site, "fleet", &[]).said(2, &["at least 3 machines, found 2: a, b", "c left no profile"]);
}

#[test]
fn e2e_what_is_no_fleet_is_refused_and_an_output_that_is_not_there_is_told() {
    let site = Site::new("noise-no-fleet");
    let text = "run = { name = \"t\", seconds = 1 }\nnetwork.kind = \"loopback\"\nclock.reference = \"a\"\n\
                [[node]]\nname = \"a\"\ncommand = [\"true\"]\nends_run = true\noutputs = [\"noise.json\"]\n";
    fs::write(site.path("one.toml"), text).unwrap();
    fleet(&site, "one.toml", &[]).said(2, &["two machines or more"]);
    fleet(&site, "one.json", &["--seconds", "1"]).said(2, &["expected a run file (.toml) beside --seconds"]);
    fleet(&site, "one.json", &[]).said(2, &["a run file (.toml) or a run, found 1", "one.json"]);
    fs::write(site.path("wrong.toml"), text.replace("noise.json", "../run.json")).unwrap();
    Ended::of(tickscope(&["run"]).arg(site.path("wrong.toml"))).said(2, &["node 'a'", "a file's name", "../run.json"]);
    let run = Ended::of(tickscope(&["run", "--json"]).arg(site.path("one.toml")).arg("--out").arg(site.path("run")));
    assert!(run.err.contains("expected the output noise.json of node a, found none"), "{}", run.err);
}
