//! `tickscope sustain`: searches whose end is known at any speed of the machine, on a real queue of known capacity.

mod site;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;
use site::{Ended, Site, c_program, tickscope};

/// The target, compiled once.
fn queue() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../targets/queue/queue.c");
        c_program::compile("cc", &source, &["-D_GNU_SOURCE"], "queue")
    })
}

/// A run file of that queue with two rates, 1000 and 2000; `first` is what the shell does before. What it may lose, and
/// what delays may grow by, is more than the luck of a processor takes.
fn text(first: &str, options: &str, sustain: &str) -> String {
    format!(
        "run = {{ name = \"queue\", seconds = 0.2 }}\nnetwork.kind = \"loopback\"\nclock.reference = \"queue\"\n\
         [layout]\npath = [\"queue.enqueue\", \"queue.dequeue\"]\n[[node]]\nname = \"queue\"\nends_run = true\n\
         command = [\"sh\", \"-c\", \"{first} exec {} --rate {{rate}} --seconds {{seconds}} {options}\"]\n\
         [sustain]\nfrom = 1000\nto = 2000\nstep = 1000\ntrials = 1\nlag = 1000\n{sustain}",
        queue().display()
    )
}

/// Whatever the machine does, this queue loses nothing.
const FAST: &str = "--capacity 1000000 --buffer 100000 --linger 60000 --late 60000";
/// Of two hundred arrivals in a fifth of a second it serves a few.
const SLOW: &str = "--capacity 10 --buffer 1 --linger 60000 --late 60000";

fn command(site: &Site, text: &str) -> Command {
    let file = site.path("experiment.toml");
    fs::write(&file, text).unwrap();
    let mut command = tickscope(&["sustain", "--json"]);
    command.arg(&file).arg("--out").arg(site.run_directory());
    command
}

/// What a search found, if it ended with that code; each trial has its verdict and its reason.
fn searched(site: &Site, text: &str, code: i32) -> Value {
    let found = Ended::of(&mut command(site, text)).json(code);
    for trial in found["trials"].as_array().unwrap() {
        assert!(!trial["why"].as_str().unwrap().is_empty(), "{trial:#}");
        assert!(trial["folder"].as_str().is_some_and(|folder| site.run_directory().join(folder).exists()), "{trial:#}");
    }
    found
}

fn verdicts(found: &Value) -> Vec<&str> {
    found["trials"].as_array().unwrap().iter().map(|trial| trial["verdict"].as_str().unwrap()).collect()
}

fn said(found: &Value, word: &str) {
    assert!(found["why"].as_str().is_some_and(|why| why.contains(word)), "expected '{word}' in {found:#}");
}

#[test]
fn e2e_a_queue_that_is_always_overloaded_never_sustains_and_each_search_goes_on_where_it_was() {
    let site = Site::new("sustain-over");
    let text = text("", SLOW, "lost = 0.9\n");
    let found = searched(&site, &text, 5);
    assert_eq!(verdicts(&found), ["dropped"; 6], "three searches of two rates: {found:#}");
    assert!(found["lower"].is_null() && found["upper"] == 1000, "{found:#}");
    said(&found, "never sustained");
    let numbers: Vec<_> = found["trials"].as_array().unwrap().iter().map(|trial| trial["rate"].as_u64()).collect();
    assert_eq!(numbers, [2000, 1000, 2000, 1000, 2000, 1000].map(Some));
    // What is there is judged again, and not made again: nothing else could start now.
    fs::write(site.path("experiment.toml"), &text).unwrap();
    assert_eq!(searched(&site, &text, 5), found);
    Ended::of(command(&site, &text).args(["--method", "linear"])).said(2, &["--method", "2000"]);
    Ended::of(&mut command(&site, &text.replace("lost = 0.9", "lost = 0.8"))).said(2, &["'lost = 0.9'", "--out"]);
    Ended::of(tickscope(&["resume"]).arg(site.run_directory())).said(2, &["tickscope sustain"]);
    Ended::of(tickscope(&["run"]).arg(site.path("experiment.toml"))).said(2, &["tickscope sustain"]);
}

#[test]
fn e2e_a_queue_that_is_never_overloaded_is_sustained_and_its_end_not_reached() {
    let site = Site::new("sustain-under");
    let found = searched(&site, &text("", FAST, "lost = 1.0\nmethod = \"linear\"\nsearches = 1\n"), 5);
    assert_eq!(verdicts(&found), ["sustained"; 2], "{found:#}");
    assert!(found["lower"] == 2000 && found["upper"].is_null() && found["method"] == "linear", "{found:#}");
    said(&found, "not reached");
    let offered: Vec<_> = found["trials"].as_array().unwrap().iter().map(|trial| trial["offered"].as_u64()).collect();
    assert_eq!(offered, [Some(200), Some(400)], "{found:#}");
}

#[test]
fn e2e_a_rate_that_a_program_does_not_survive_is_the_upper_end_of_an_interval() {
    let site = Site::new("sustain-between");
    let found = searched(&site, &text("[ {rate} = 1000 ] || exit 7;", FAST, "lost = 1.0\nsearches = 2\n"), 0);
    assert_eq!(verdicts(&found), ["failed", "sustained", "failed", "sustained"], "{found:#}");
    assert!(found["lower"] == 1000 && found["upper"] == 2000 && found["why"].is_null(), "{found:#}");
    let words =
        Ended::of(tickscope(&["sustain"]).arg(site.path("experiment.toml")).arg("--out").arg(site.run_directory()));
    assert!(words.out.contains("sustained is between 1000 and 2000, by bisection (2 searches"), "{words:?}");
    let shown = Ended::of(tickscope(&["show", "--json"]).arg(site.run_directory())).json(1);
    assert_eq!(shown["trials"].as_array().unwrap().len(), 4, "its trials are a sweep's: {shown:#}");
}

#[test]
fn e2e_a_generator_that_is_late_says_nothing_of_the_rate() {
    let site = Site::new("sustain-late");
    let late = searched(&site, &text("", "--late 0", "searches = 1\n"), 5);
    assert_eq!(verdicts(&late), ["invalid"; 6], "each rate is tried three times: {late:#}");
    assert!(late["lower"].is_null() && late["upper"].is_null(), "{late:#}");
    said(&late, "cannot tell from 1000 on: invalid");
    said(&late, "schedule: late");
}

#[test]
fn e2e_a_rate_at_which_a_sender_says_that_it_was_blocked_is_not_sustained() {
    let folder = Site::new("sustain-blocked-script");
    let script = folder.path("blocked.sh");
    let say = "sed 's/}$/, \"blocked_share\": 0.25}/'";
    fs::write(&script, format!("\"{}\" \"$@\" | {say}\n", queue().display())).unwrap();
    let text = text("", FAST, "lost = 1.0\nmethod = \"linear\"\nsearches = 1\n");
    let text = text.replace(&queue().display().to_string(), &format!("sh {}", script.display()));
    let site = Site::new("sustain-blocked");
    let found = searched(&site, &text, 5);
    assert_eq!(verdicts(&found), ["back-pressure"], "{found:#}");
    assert!(found["trials"][0]["blocked_ppm"] == 250_000 && found["upper"] == 1000, "{found:#}");
    said(&found, "blocked for 25 %");
    let site = Site::new("sustain-blocked-allowed");
    let found = searched(&site, &format!("{text}blocked = 0.25\n"), 5);
    assert_eq!(verdicts(&found), ["sustained"; 2], "{found:#}");
    let drawn = Ended::of(command(&site, &format!("{text}blocked = 0.25\n")).arg("--report"));
    assert!(drawn.code == Some(5) && site.run_directory().join("figures/sustain.svg").exists(), "{drawn:?}");
}

/// After the queue something stamps its first arrivals once more, as done.
#[test]
fn e2e_ids_that_come_twice_where_work_is_done_make_every_trial_invalid() {
    let site = Site::new("sustain-twice");
    let source = site.path("twice.c");
    let stamps = "tickscope_channel *c = tickscope_open(\"dequeue\", TICKSCOPE_AFTER, 0);\n\
                  for (int id = 0; id < 10; id++) tickscope_stamp(c, id);\nreturn 0;";
    fs::write(&source, format!("#include \"tickscope.h\"\nint main(void) {{\n{stamps}\n}}\n")).unwrap();
    let twice = c_program::compile("cc", &source, &[], "sustain-twice");
    let text = text("", &format!("{FAST}; exec {}", twice.display()), "lost = 1.0\nsearches = 1\n");
    let found = searched(&site, &text.replace("\" exec ", "\""), 5);
    assert_eq!(verdicts(&found), ["invalid"; 6], "each rate is tried three times: {found:#}");
    assert!(found["trials"][0]["why"].as_str().unwrap().contains("10 ids came twice"), "{found:#}");
}

#[test]
fn e2e_a_service_that_ends_by_itself_is_told_beside_the_verdict_and_named_before_its_client() {
    let beside = |command: &str| format!("[[node]]\nname = \"service\"\ncommand = [\"sh\", \"-c\", \"{command}\"]\n");
    let text = text("", SLOW, "lost = 0.9\nmethod = \"linear\"\nsearches = 1\n");
    let searched_beside = |name: &str, text: &str| {
        let site = Site::new(name);
        let found = searched(&site, text, 5);
        found["trials"][0]["why"].as_str().unwrap().to_string()
    };
    for (command, ended) in [("exec true", true), ("exec sleep 60", false)] {
        let text = text.replacen("[[node]]", &format!("{}[[node]]", beside(command)), 1);
        let why = searched_beside(&format!("sustain-ended-{ended}"), &text);
        assert!(why.contains("lost ") && why.contains("service ended by itself after ") == ended, "{command}: {why}");
    }
    let failing = text.replacen("[[node]]", &format!("{}[[node]]", beside("exit 3")), 1);
    let why = searched_beside(
        "sustain-both-failed",
        &failing.replace("\"sh\", \"-c\", \" exec", "\"sh\", \"-c\", \"exit 4; exec"),
    );
    let [service, client] = ["command of service failed", "command of queue failed"].map(|word| why.find(word));
    assert!(service.is_some() && service < client, "{why}");
}

#[test]
fn e2e_a_search_that_cannot_be_made_is_refused_before_it_begins() {
    let site = Site::new("sustain-refused");
    let right = text("", FAST, "lost = 0.9\n");
    for (from, to, words) in [
        ("from = 1000", "from = 3000", "from below to"),
        ("step = 1000", "step = 1000\nprecision = 0.1", "found both"),
        ("step = 1000", "step = 0.01", "sustain.step"),
        ("step = 1000", "precision = 0.00001", "sustain.precision"),
        ("trials = 1", "trials = 0", "trials from 1"),
        ("lost = 0.9", "lots = 0.9", "lots"),
        ("--rate {rate}", "--rate 7", "{rate}"),
        ("[sustain]", "[sustained]", "[sustain]"),
        ("[sustain]\n", "[sustain]\nstage = \"queue.x > queue.y\"\n", "queue.x > queue.y"),
    ] {
        Ended::of(&mut command(&site, &right.replacen(from, to, 1))).said(2, &[words]);
        assert!(!site.run_directory().exists(), "{to}");
    }
    let checked = Ended::of(command(&site, &right).arg("--check"));
    checked.said(0, &[]);
    assert!(checked.out.contains("searching by bisection, 3 times: rate = 1000 to 2000, 2 rates"), "{checked:?}");
}
