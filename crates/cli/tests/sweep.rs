//! `tickscope run` of a run file with a `[sweep]`: every trial an ordinary run, resumed after a kill, one table of all.

mod site;

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use site::{Ended, Experiment, Site, WITHIN, stage, tickscope, within};
use tickscope_store::{Paths, Run, SweepManifest, TrialRecord, TrialState};

/// Nodes of one counter: a trial lasts as long as its client does, and is valid however slow the machine is.
fn text(experiment: &Experiment, sweep: &str) -> String {
    let text = experiment.text().replace("same_boot = \"ignore\"", "same_boot = \"detect\"");
    let text = text.replace("\"--rate\"", "\"--late\", \"60000\", \"--rate\"");
    format!("{text}{sweep}")
}

/// A client that first waits until the file `gate-N` is there, N a parameter of each trial.
fn gated(site: &Site, extra: &str) -> String {
    let gate = format!("until [ -e {}-{{n}} ]; do sleep 0.01; done; exec", site.path("gate").display());
    let text = text(
        &Experiment::new(0.2, 250),
        &format!("[sweep]\norder = \"given\"\n{extra}[[sweep.parameter]]\nname = \"n\"\nvalues = [1, 2, 3]\n"),
    );
    let (before, after) = text.split_once("name = \"client\"").unwrap();
    let command = after.lines().find(|line| line.starts_with("command")).unwrap();
    let words = command.trim_start_matches("command = [").trim_end_matches(']').replace(['"', ','], "");
    let shell = format!("command = [\"sh\", \"-c\", \"{gate} {words}\"]");
    format!("{before}name = \"client\"{}", after.replace(command, &shell))
}

fn open(site: &Site, gate: u32) {
    fs::write(site.path(&format!("gate-{gate}")), "").unwrap();
}

fn start(site: &Site, text: &str) -> Child {
    let mut command = site.run_command(text);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn sweep(site: &Site) -> SweepManifest {
    SweepManifest::read(&site.run_directory()).unwrap()
}

fn folder(site: &Site, trial: &TrialRecord) -> PathBuf {
    site.run_directory().join(trial.folder.as_ref().unwrap())
}

fn run_of(site: &Site, trial: &TrialRecord) -> Run {
    Run::open(&folder(site, trial)).unwrap()
}

/// Waits until that trial has begun its run; a sweep that ended before has failed.
fn until_begun(site: &Site, sweep: &mut Child, trial: &str) {
    let until = Instant::now() + WITHIN;
    while !Paths::of(&site.run_directory().join(trial)).manifest().exists() {
        assert!(sweep.try_wait().unwrap().is_none(), "the sweep ended before {trial} began");
        assert!(Instant::now() < until, "expected {trial} within {WITHIN:?}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

fn trials(table: &Value) -> &Vec<Value> {
    table["trials"].as_array().unwrap()
}

#[test]
fn e2e_a_sweep_has_the_figures_that_each_of_its_trials_shows_by_itself() {
    let site = Site::new("sweep");
    let mut experiment = Experiment::new(0.2, 250);
    experiment.client_port = experiment.server_port;
    let own = text(
        &experiment,
        "[sweep]\nrepetitions = 2\nseed = 7\n\
         measure = [{ stage = \"client.send > server.received\" }, { stage = \"end-to-end\", quantile = 0.999 },\n\
         { age = [\"client.send\", \"server.received\"] }]\n\
         [[sweep.parameter]]\nname = \"rate\"\nvalues = [200, 400]\n",
    );
    let own = own.replace("\"--rate\", \"250\"", "\"--rate\", \"{rate}\"");
    let table = Ended::of(site.run_command(&own).arg("--report")).json(0);
    assert_eq!(table["points"].as_array().unwrap().len(), 2, "{table:#}");
    let mut seen = Vec::new();
    for (row, trial) in trials(&table).iter().zip(&sweep(&site).trials) {
        assert_eq!((row["state"].as_str(), trial.state), (Some("made"), TrialState::Made), "{row:#}");
        let rate = row["values"][0].as_u64().unwrap();
        seen.push((rate, row["repetition"].as_u64().unwrap()));
        let run = run_of(&site, trial);
        let client = run.manifest().nodes.iter().find(|node| node.name.as_str() == "client").unwrap();
        assert!(client.command.join(" ").contains(&format!("--rate {rate} ")), "{:?}", client.command);
        let shown = Ended::of(tickscope(&["show", "--json"]).arg(run.root())).json(0);
        let [first, whole] = ["client.send>server.received", "end-to-end"].map(|name| stage(&shown, name));
        for (at, of, quantile) in [(0, first, "p50"), (1, first, "p99"), (2, whole, "p999")] {
            let (found, own) = (&row["figures"][at], &of[quantile]);
            for key in ["ticks", "lo_ticks", "hi_ticks"] {
                assert_eq!(found[key], own[key], "{at} {key}");
            }
            assert_eq!((&found["count"], &found["lost"]), (&of["count"], &of["missing"]));
        }
        let points = ["show", "--json", "--age", "client.send", "server.received"];
        let aged = Ended::of(tickscope(&points).arg(run.root())).json(0);
        let (found, own) = (&row["figures"][3], &aged["age"]["over_keys"]["average"]);
        assert_eq!((&found["ticks"], &found["hi_ticks"]), (&own["estimate_ticks"], &own["hi_ticks"]), "{aged:#}");
    }
    seen.sort_unstable();
    assert_eq!(seen, [(200, 1), (200, 2), (400, 1), (400, 2)], "each point as often as it is to be measured");
    let again = Ended::of(tickscope(&["show", "--json"]).arg(site.run_directory())).json(0);
    assert_eq!(again, table);
    let drawn = fs::read_to_string(site.run_directory().join("figures/sweep.svg")).unwrap();
    assert_eq!(drawn.matches("<circle").count(), 8, "two points of four measures: {drawn}");
    let figures =
        Ended::of(tickscope(&["figures", "--json"]).arg(site.run_directory()).arg("--out").arg(site.path("out")));
    assert!(figures.json(0)["points"] == table["points"] && site.path("out/sweep.pdf").exists(), "{figures:?}");
    let words = Ended::of(tickscope(&["show"]).arg(site.run_directory()));
    assert!(words.out.contains("4 trials, 4 of them in the figures"), "{words:?}");
    Ended::of(tickscope(&["finish"]).arg(site.run_directory())).said(2, &["tickscope resume"]);
    Ended::of(tickscope(&["show", "--wide"]).arg(site.run_directory())).said(2, &["--wide", "trial-0001"]);
}

#[test]
fn e2e_a_sweep_that_was_killed_goes_on_with_the_trials_that_are_missing() {
    let site = Site::new("sweep-killed");
    let text = gated(&site, "");
    open(&site, 1);
    let mut killed = start(&site, &text);
    until_begun(&site, &mut killed, "trial-0002");
    let busy = Ended::of(&mut site.run_command(&text));
    busy.said(1, &["another process makes its trials"]);
    killed.kill().unwrap();
    killed.wait().unwrap();
    [2, 3].into_iter().for_each(|gate| open(&site, gate)); // from here on no trial waits
    let (before, first) = (sweep(&site), run_of(&site, &sweep(&site).trials[0]).manifest().run);
    assert_eq!(
        before.trials.iter().map(|trial| trial.state).collect::<Vec<_>>(),
        [TrialState::Made, TrialState::Begun, TrialState::Missing]
    );
    let changed = Ended::of(&mut site.run_command(&text.replace("values = [1, 2, 3]", "values = [1, 2, 4]")));
    changed.said(2, &["'values = [1, 2, 3]'", "'values = [1, 2, 4]'", "--out"]);
    Ended::of(site.run_command(&text).args(["--seconds", "1"])).said(2, &["--seconds"]);
    assert_eq!(sweep(&site), before, "what is refused changes nothing");
    let went_on = Ended::of(&mut site.run_command(&text));
    let table = went_on.json(0);
    went_on.said(0, &["trial 2 was cut off, and is made anew", "trial-0002"]);
    let after = sweep(&site);
    assert!(after.trials.iter().all(|trial| trial.state == TrialState::Made), "{after:#?}");
    let folders: Vec<_> = after.trials.iter().filter_map(|trial| trial.folder.as_deref()).collect();
    assert_eq!(folders, ["trial-0001", "trial-0002-2", "trial-0003"]);
    assert_eq!(run_of(&site, &after.trials[0]).manifest().run, first, "what was made is not made again");
    assert!(Paths::of(&site.run_directory().join("trial-0002")).manifest().exists(), "its remains stay");
    assert!(trials(&table).iter().all(|trial| trial["state"] == "made"), "{table:#}");
    let resumed = Ended::of(tickscope(&["resume", "--json"]).arg(site.run_directory()));
    assert_eq!(resumed.json(0), table, "there is nothing left to make");
}

#[test]
fn e2e_a_sweep_that_is_interrupted_says_how_to_go_on_and_resume_does() {
    let site = Site::new("sweep-interrupted");
    let text = gated(&site, "");
    open(&site, 1);
    let mut command = site.run_command(&text);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until_begun(&site, &mut child, "trial-0002");
    // SAFETY: a system call on a child that has not been waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let ended = Ended::from(child.wait_with_output().unwrap());
    ended.said(1, &["interrupted; 1 of 3 trials are made", "tickscope resume"]);
    let shown = Ended::of(tickscope(&["show"]).arg(site.run_directory()));
    assert!(shown.code == Some(1) && shown.out.contains("still to be made"), "{shown:?}");
    [2, 3].into_iter().for_each(|gate| open(&site, gate));
    let table = Ended::of(tickscope(&["resume", "--json"]).arg(site.run_directory())).json(0);
    assert!(trials(&table).iter().all(|trial| trial["state"] == "made"), "{table:#}");
}

#[test]
fn e2e_a_trial_that_fails_stands_in_the_table_with_its_reason_and_ends_the_command() {
    let site = Site::new("sweep-failed");
    (1..=3).for_each(|gate| open(&site, gate));
    let text = gated(&site, "").replace("exec", "[ {n} = 2 ] && exit 7; exec");
    let ended = Ended::of(&mut site.run_command(&text));
    let table = ended.json(1);
    let states: Vec<_> = trials(&table).iter().map(|trial| trial["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["made", "failed", "made"], "{table:#}");
    assert!(trials(&table)[1]["why"].as_str().unwrap().contains('7'), "{table:#}");
    let repetitions: Vec<_> = table["points"].as_array().unwrap().iter().map(|point| &point["repetitions"]).collect();
    assert_eq!(repetitions, [1, 0, 1], "{table:#}");
    let shown = Ended::of(tickscope(&["show"]).arg(site.run_directory()));
    assert!(shown.code == Some(1) && shown.out.contains("Trial 2 (n = 2): failed"), "{shown:?}");
    assert_eq!(within("a resumed sweep", || Some(sweep(&site))).count(TrialState::Failed), 1);
}

#[test]
fn e2e_a_trial_that_its_own_program_calls_invalid_or_that_holds_another_run_is_in_no_figure() {
    let site = Site::new("sweep-invalid");
    (1..=3).for_each(|gate| open(&site, gate));
    let measure = "measure = [{ stage = \"end-to-end\" }, { age = [\"client.send\", \"server.received\"] }]\n";
    fs::write(site.path("said"), "{\"valid\": false, \"why\": [\"no core\"]}").unwrap();
    let text = gated(&site, measure).replace("exec", "set -- `[ {n} = 3 ] && echo --rate 0.5`;");
    let text = text.replace(
        "{seconds}\"]",
        &format!("{{seconds}} $@; [ {{n}} != 2 ] || cat {}; echo\"]", site.path("said").display()),
    );
    let ended = Ended::of(&mut site.run_command(&text));
    let table = ended.json(1);
    let of = |key: &str| trials(&table).iter().map(|trial| trial[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("state"), ["made", "invalid", "made"], "{table:#}");
    assert!(trials(&table)[1]["why"].as_str().unwrap().contains("no core"), "{table:#}");
    // One update has no age: its delay stands all the same.
    let last = &trials(&table)[2];
    assert!(last["figures"][0].is_object() && last["figures"][2].is_null(), "{last:#}");
    assert!(last["why"].as_str().unwrap().contains("no age client.send server.received"), "{last:#}");
    let places: Vec<PathBuf> = sweep(&site).trials.iter().map(|trial| folder(&site, trial)).collect();
    fs::rename(&places[0], site.path("aside")).unwrap();
    fs::rename(&places[2], &places[0]).unwrap();
    let again = Ended::of(tickscope(&["show", "--json"]).arg(site.run_directory())).json(1);
    assert_eq!(trials(&again)[0]["state"], "invalid", "{again:#}");
    assert!(trials(&again)[0]["why"].as_str().unwrap().contains("found run"), "{again:#}");
}

#[test]
fn e2e_numbers_that_programs_print_stand_in_the_table_and_what_a_trial_lacks_takes_no_other_away() {
    let site = Site::new("sweep-fields");
    (1..=3).for_each(|gate| open(&site, gate));
    let fields = "measure = [{ stage = \"end-to-end\" }, { age = [\"client.send\", \"server.received\"], key = 5 },\n\
                  { field = \"rate\", node = \"client\", unit = \"packets/s\" }, { field = \"drops.data\" }]\n";
    let lines = [
        "{\"rate\": 250.5, \"drops\": {\"data\": 3}}",
        "{\"rate\": true}",
        "{\"rate\": 2, \"drops\": {\"data\": null}}",
    ];
    for (at, line) in lines.iter().enumerate() {
        fs::write(site.path(&format!("said-{}", at + 1)), line).unwrap();
    }
    let text = gated(&site, fields).replace("exec", "");
    let text = text.replace("{seconds}\"]", &format!("{{seconds}}; cat {}-{{n}}\"]", site.path("said").display()));
    let mut check = site.run_command(&text);
    let checked = Ended::of(check.arg("--check"));
    assert!(checked.out.contains("rate of client; drops.data"), "{checked:?}");
    let table = Ended::of(site.run_command(&text).arg("--report")).json(1);
    let of = |key: &str| trials(&table).iter().map(|trial| trial[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("numbers"), [json!([250.5, 3]), json!([null, null]), json!([2, null])], "{table:#}");
    let why: Vec<_> = of("why").iter().map(|why| why.as_str().unwrap().to_owned()).collect();
    for (trial, said) in [
        (0, "no age client.send server.received, average of key 5: expected updates of key 5, found none among"),
        (1, "no rate of client: expected a number, as an earlier trial has, found true or false"),
        (1, "; no drops.data: expected it in the last line of a command, a JSON object; found none in that of client"),
        (2, "no drops.data: expected a number from the command of client, found null"),
    ] {
        assert!(why[trial].contains(said), "{trial} {said}: {why:?}");
    }
    assert!(of("figures").iter().all(|figures| figures[0].is_object() && figures[2].is_null()), "{table:#}");
    assert_eq!((of("state"), of("code")), (vec![json!("made"); 3], vec![json!(1); 3]), "{table:#}");
    let point = &table["points"][0]["numbers"][0];
    assert_eq!((&point["value"], &point["confidence_per_million"]), (&json!(250.5), &Value::Null), "{table:#}");
    let shown = Ended::of(tickscope(&["show"]).arg(site.run_directory()));
    let words: Vec<&str> = shown.out.split_whitespace().collect();
    let remark = "rate of client; drops.data: as the program printed it, which tickscope does not bound";
    assert!(words.join(" ").contains(remark), "{shown:?}");
    let drawn = fs::read_to_string(site.run_directory().join("figures/sweep.svg")).unwrap();
    assert!(drawn.contains("rate of client, packets/s") && drawn.contains("drops.data"), "{drawn}");
}
