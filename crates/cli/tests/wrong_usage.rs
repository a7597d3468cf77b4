//! Wrong usages, each with what its answer must hold and the exit code: what a newcomer types in the first hour.

mod site;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use site::{Ended, Experiment, Site, tickscope};
use tickscope_store::{KeyedWriter, Run};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/tests/golden/v1");

/// A copy of a run of two nodes.
fn copied(site: &Site, name: &str) -> PathBuf {
    copied_of(GOLDEN, site, name)
}

fn copied_of(golden: &str, site: &Site, name: &str) -> PathBuf {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
            let to = to.join(entry.file_name());
            match entry.path().is_dir() {
                true => copy(&entry.path(), &to),
                false => assert!(fs::copy(entry.path(), to).is_ok()),
            }
        }
    }
    let to = site.path(name);
    copy(golden.as_ref(), &to);
    to
}

/// In the site's directory.
fn asked(site: &Site, words: &[&str]) -> Ended {
    Ended::of(tickscope(words).current_dir(site.path(".")))
}

#[test]
fn e2e_a_command_line_that_makes_no_sense_is_answered_with_what_would() {
    let site = Site::new("words");
    fs::write(site.path("a-file"), "").unwrap();
    fs::create_dir(site.path("stamps")).unwrap();
    fs::create_dir_all(site.path("half/channels")).unwrap();
    for (words, says) in [
        (&[][..], &["Usage"][..]),
        (&["runn", "x"], &["'run'"]),
        (&["run"], &["FILE"]),
        (&["run", "nofile.toml"], &["nofile.toml"]),
        (&["run", "."], &["directory"]),
        (&["completions", "tcsh"], &["bash", "zsh", "fish"]),
        (&["clock", "--load", "a"], &["--load"]),
        (&["clock", "load-factor", "--clock", "nosuch"], &["nosuch", "monotonic"]),
        (&["clock", "--html", "nowhere/page.html"], &["--html", "nowhere"]),
        (&["noise", "--seconds", "-1"], &["--seconds above 0", "-1"]),
        (&["noise", "--cores", "0-"], &["expected cores such as 0,2-3", "'0-'"]),
        (&["noise", "--cores", "8192"], &["expected --cores of ", "8192", "taskset"]),
        (&["noise", "--detector", "nosuch"], &["selfish, ftq, fwq"]),
        (&["noise", "--begin-at", "5"], &["--begin-at", "within the next day", "found 5"]),
        (&["noise", "--out", "nowhere/profile.json"], &["--out", "nowhere"]),
        (&["noise", "--rule", "norule.json"], &["cannot read norule.json", "--save-rule"]),
        (&["noise", "fleet", "a", "b"], &["at least 3 machines", "found 2: a, b"]),
        (&["noise", "--memory", "16"], &["--memory is of --detector fwq alone"]),
        (&["noise", "--detector", "fwq", "--memory", "0"], &["--memory", "1..=16384"]),
        (&["collect", "nodir", "--run", "r"], &["nodir", "TICKSCOPE_DIR"]),
        (&["collect", "stamps", "--run", "r", "--encoders", "0"], &["1 thread or more, found '0'"]),
        (&["collect", "stamps", "--run", "half"], &["half", "without run.json", "--run"]),
        (&["collect", "stamps", "--run", "a-file"], &["expected a directory for the run", "a-file", "--run"]),
        (&["init", "nowhere/x.toml"], &["expected a directory", "nowhere/x.toml"]),
        (&["check", "nodir"], &["nodir", "below runs/"]),
        (&["check", "/etc"], &["/etc", "run.json"]),
        (&["finish", "nodir"], &["nodir", "run.json"]),
        (&["finish", "/etc"], &["/etc", "run.json"]),
        (&["resume", "nodir"], &["nodir", "below runs/"]),
        (&["show", "nodir"], &["nodir", "below runs/"]),
        (&["show", "/etc"], &["/etc", "run.json"]),
        (&["report", "nodir"], &["nodir"]),
        (&["export", "nodir", "--csv", "x.csv"], &["nodir"]),
        (&["show"], &["none below runs/", "tickscope run"]),
        (&["policy", GOLDEN, "hot", "every", "0"], &["expected a policy: null", "first-last [MARKER]", "'every 0'"]),
        (&["policy", GOLDEN, "hot", "1 of 4294967296"], &["expected a policy: null", "'1 of 4294967296'"]),
        (&["policy", GOLDEN, "hot", "sampled", "3"], &["expected a policy: null", "'sampled 3'"]),
        (&["show", GOLDEN, "--rho", "fast"], &["--rho", "unknown, server-room", "'fast'"]),
        (&["show", GOLDEN, "--rho", "-1"], &["--rho", "unknown, server-room", "'-1'"]),
        (&["show", GOLDEN, "--counts", "--rho", "1"], &["--counts", "--rho", "cannot be used with"]),
        (&["show", GOLDEN, "--by", "kind", "--counts"], &["--counts", "--by", "cannot be used with"]),
        (&["show", GOLDEN, "--slew", "abc"], &["--slew", "'abc'"]),
        (&["show", GOLDEN, "--slew", "-1"], &["--slew", "'-1'"]),
        (&["show", GOLDEN, "--evidence", "nonsense"], &["nonsense", "kernel-probes"]),
        (&["show", GOLDEN, "--evidence", "messages"], &["--evidence", "this run has", "'messages'"]),
        (&["show", GOLDEN, "--quantiles", "50,x"], &["--quantiles", "'x'"]),
        (&["show", GOLDEN, "--quantiles", "100.1"], &["'100.1'"]),
        (&["show", GOLDEN, "--unit", "h"], &["ns, us, ms"]),
        (&["show", GOLDEN, "--by", "day"], &["kind"]),
        (&["report", GOLDEN, "--out", "nowhere/page.html"], &["--out", "nowhere"]),
        (&["report", GOLDEN, "--out", "."], &["--out", "directory"]),
        (&["export", GOLDEN, "--csv", "nowhere/x.csv"], &["--csv", "nowhere"]),
    ] {
        let ended = asked(&site, words);
        ended.said(2, says);
        assert!(ended.out.is_empty() && !ended.err.contains("panicked"), "{words:?}: {ended:?}");
        assert!(!ended.err.contains("-- -1"), "{words:?}: {ended:?}");
    }
    assert_eq!(fs::read_dir(site.path(".")).unwrap().count(), 3, "nothing is made where input is wrong");
}

#[test]
fn e2e_nothing_is_written_into_a_run_but_what_is_derived_from_it() {
    let site = Site::new("inside");
    let digested = GOLDEN.replace("v1", "v2");
    for name in ["run", "other"] {
        copied_of(&digested, &site, name);
    }
    fs::create_dir(site.path("stamps")).unwrap();
    fs::write(site.path("x.toml"), "").unwrap();
    std::os::unix::fs::symlink(site.path("run"), site.path("link")).unwrap();
    assert_eq!(asked(&site, &["check", "run"]).code, Some(0));
    for words in [
        &["report", "run", "--out", "run/run.json"][..],
        &["report", "other", "--out", "run/stamps/node=a/page.html"],
        &["report", "other", "--out", "link/new/page.html"],
        &["report", "other", "--out", "other/../run/page.html"],
        &["export", "run", "--csv", "run/digests.json"],
        &["export", "run", "--arrow", "run/run.json"],
        &["export", "run", "--ctf", "run/ctf"],
        &["export", "run", "--perfetto", "run/run.json"],
        &["figures", "run", "--out", "run"],
        &["figures", "run", "--out", "run/stamps"],
        &["pack", "run", "--out", "run/run.tar"],
        &["unpack", "run.tar", "--out", "run/unpacked"],
        &["merge", "run", "other", "--out", "run/merged"],
        &["collect", "stamps", "--run", "run/stamps/new"],
        &["run", "--out", "run/sub", "--", "true"],
        &["run", "x.toml", "--out", "run/sub"],
        &["relate", "x.toml", "--out", "run/sub"],
        &["sustain", "x.toml", "--out", "run/sub"],
        &["import", "x.toml", "--out", "run/sub"],
        &["noise", "--out", "run/profile.json"],
        &["clock", "--html", "run/run.json"],
    ] {
        asked(&site, words).said(2, &["expected a place that is in no run", "/run, which it would damage"]);
        assert_eq!(asked(&site, &["check", "run"]).code, Some(0), "{words:?}");
    }
    for words in [
        &["report", "run", "--out", "run/report.html"][..],
        &["report", "run", "--out", "run/../page.html"],
        &["figures", "run", "--out", "run/figures"],
        &["export", "run", "--csv", "-"],
    ] {
        assert_eq!(asked(&site, words).code, Some(0), "{words:?}");
        assert_eq!(asked(&site, &["check", "run"]).code, Some(0), "{words:?}");
    }
}

#[test]
fn e2e_a_run_file_that_is_wrong_is_answered_with_what_it_may_say() {
    let site = Site::new("file");
    let text = Experiment::new(1.0, 100).text();
    for (right, wrong, says) in [
        ("seconds = 1.0", "secons = 1.0", &["secons", "seconds"][..]),
        ("seconds = 1.0", "seconds = \"three\"", &["three"]),
        ("name = \"e2e\"", "name = \"my service\"", &["my service", "rename the run"]),
        ("reference = \"client\"", "reference = \"clint\"", &["clint", "server, client"]),
        ("rho = \"unknown\"", "rho = \"office\"", &["office", "server-room"]),
        ("\"server.received\"", "\"srver.received\"", &["srver.received", "server, client"]),
        ("{server.address}", "{sever.address}", &["sever.address"]),
        ("name = \"server\"", "name = \"client\"", &["Rename"]),
        ("ends_run = true", "ends_run = false", &["ends the run"]),
        ("[layout]", "[layuot]", &["layuot"]),
        ("name = \"server\"", "name = \"server\"\nconnect = [\"\"]", &["line ", "connect = ", "[\"ssh\", \"host2\"]"]),
        (
            "name = \"server\"",
            "name = \"server\"\nprobe_address = \"a b\"",
            &["line ", "probe_address = ", "'a b'", "\"10.0.0.2\""],
        ),
        (
            "[layout]",
            "[[policy]]\nchannels = \"hot\"\npolicy = \"every 0\"\n[layout]",
            &["policy of 'hot'", "expected a policy: null", "'every 0'"],
        ),
        ("[[node]]", "[[nod]]", &["nod"]),
    ] {
        assert!(text.contains(right), "{right}");
        let ended = Ended::of(&mut site.run_command(&text.replace(right, wrong)));
        ended.said(2, says);
        if says.contains(&"line ") {
            Ended::of(site.run_command(&text.replace(right, wrong)).arg("--check")).said(2, says);
        }
        assert!(!site.run_directory().exists(), "{wrong}");
    }
    for seconds in ["-1", "0", "3 hours"] {
        let ended = Ended::of(site.run_command(&text).args(["--seconds", seconds]));
        ended.said(2, &["seconds"]);
        assert!(!ended.err.contains("-- -1"), "{ended:?}");
    }
    Ended::of(&mut site.run_command("")).said(2, &["run"]);
    Ended::of(&mut site.run_command("run = {")).said(2, &["experiment.toml"]);
}

#[test]
fn e2e_a_run_is_found_by_its_file_by_its_folder_and_by_being_the_newest() {
    let site = Site::new("found");
    let run = copied(&site, "runs/one");
    let manifest = run.join("run.json").display().to_string();
    assert_eq!(asked(&site, &["show", &manifest]).code, Some(0));
    let newest = asked(&site, &["show"]);
    newest.said(0, &["the newest run: runs/one"]);
    asked(&site, &["show", "runs"]).said(2, &["runs/one", "Name one of them"]);
    asked(&site, &["show", "nodir"]).said(2, &["below runs/ is runs/one"]);
    fs::write(site.path("service.toml"), "x").unwrap();
    asked(&site, &["show", "service.toml"]).said(2, &["run file", "tickscope run"]);
    let page = asked(&site, &["report", "--out", "-"]);
    page.said(0, &["newest"]);
    assert!(page.out.starts_with("<!") && !site.path("-").exists());
}

#[test]
fn e2e_files_that_are_missing_or_damaged_are_no_success() {
    let site = Site::new("damaged");
    for lost in ["brackets", "stamps"] {
        fs::remove_dir_all(copied(&site, lost).join(lost)).unwrap();
        let ended = asked(&site, &["show", lost]);
        assert!(ended.code == Some(1) && !ended.err.is_empty(), "{lost}: {ended:?}");
    }
    fs::remove_dir_all(copied(&site, "traces").join("traces")).unwrap();
    let joined = asked(&site, &["show", "traces"]);
    assert!(joined.code == Some(0) && joined.out.contains("joined now"), "{joined:?}");
    let run = copied(&site, "torn");
    fs::write(run.join("run.json"), "{").unwrap();
    asked(&site, &["show", "torn"]).said(1, &["run.json"]);
    let run = copied(&site, "events");
    let events = fs::read_dir(run.join("events")).unwrap().next().unwrap().unwrap().path();
    fs::write(&events, "PAR1 torn").unwrap();
    assert_eq!(asked(&site, &["show", "events"]).code, Some(1));
}

#[test]
fn e2e_traces_that_are_gone_are_joined_again_and_nobody_is_told_to_measure_again() {
    let site = Site::new("joined");
    let run = site.path("run");
    assert!(Command::new("cp").arg("-r").arg(GOLDEN.replace("v1", "v2")).arg(&run).status().unwrap().success());
    fs::remove_dir_all(run.join("traces")).unwrap();
    let shown = asked(&site, &["show", "run"]);
    shown.said(1, &["traces/part-00000000.parquet", "no such file", "let tickscope show join it again from stamps/"]);
    assert!(shown.out.contains("end-to-end") && !shown.err.contains("measure again"), "{shown:?}");
}

/// As where a point's name is misspelt: a table of nothing is no success.
#[test]
fn e2e_a_run_without_a_complete_trace_fails_and_says_what_is_missing() {
    let site = Site::new("incomplete");
    let run = copied(&site, "run");
    for reader in Run::open(&run).unwrap().traces().unwrap().found {
        let (names, mut rows) = (reader.names().to_vec(), reader.read_all().unwrap());
        rows.columns[0] = rows.columns[0].iter().map(|_| None).collect();
        let mut writer = KeyedWriter::begin(reader.path(), &names, &[]).unwrap();
        writer.write(rows).unwrap();
        writer.finish().unwrap();
    }
    for words in [&["show", "run"][..], &["show", "run", "--json"], &["report", "run"]] {
        asked(&site, words).said(1, &["passed every point of some way through the layout, found none"]);
    }
    let shown = asked(&site, &["show", "run"]).out;
    assert!(shown.contains("lack a stamp of") && !shown.contains("every trace has all"), "{shown}");
    assert!(!asked(&site, &["show", "run", "--wide"]).out.contains("exactly, in every trace"));
}

/// What contradicts itself comes first, counted over all traces, with no figure to be proud of.
#[test]
fn e2e_impossible_durations_are_counted_by_stage_and_come_first() {
    let site = Site::new("impossible");
    let run = copied(&site, "run");
    let (mut all, mut stages) = (0, Vec::new());
    for reader in Run::open(&run).unwrap().traces().unwrap().found {
        let (names, mut rows) = (reader.names().to_vec(), reader.read_all().unwrap());
        rows.columns[1] = rows.columns[1].iter().map(|tick| tick.map(|tick| tick - 1_000_000_000)).collect();
        let mut writer = KeyedWriter::begin(reader.path(), &names, &[]).unwrap();
        writer.write(rows).unwrap();
        writer.finish().unwrap();
    }
    let table = asked(&site, &["show", "run", "--json"]).json(3);
    for stage in table["stages"].as_array().unwrap().iter().filter(|stage| stage["impossible"] != 0) {
        all += stage["impossible"].as_u64().unwrap();
        stages.push(stage["stage"].as_str().unwrap().to_string());
    }
    assert!(all > 48, "more than the list has room for: {all}");
    let shown = asked(&site, &["show", "run"]);
    let says = format!("{all} impossible durations in {} stage", stages.len());
    shown.said(3, &[&says]);
    assert!(shown.out.starts_with(&format!("finding: {says}")), "{shown:?}");
    for stage in &stages {
        assert_eq!(shown.out.matches(&format!("  {stage}: ")).count(), 1, "a line a stage: {shown:?}");
    }
    assert!(!shown.out.contains("slowest") && !asked(&site, &["show", "run", "--wide"]).out.contains("slowest"));
}

#[test]
fn e2e_a_full_disk_is_a_failure_and_a_reader_that_has_seen_enough_is_none() {
    let site = Site::new("writer");
    for words in [
        &["show", GOLDEN][..],
        &["show", GOLDEN, "--json"],
        &["show", GOLDEN, "--by", "kind"],
        &["man"],
        &["completions", "bash"],
        &["doctor"],
        &["export", GOLDEN, "--csv", "-"],
        &["report", GOLDEN, "--out", "-"],
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ended = Ended::from(tickscope(words).stdout(full).stderr(Stdio::piped()).output_with_stdout());
        assert_eq!(ended.code, Some(1), "{words:?}: {ended:?}");
        assert!(ended.err.contains("No space left") || ended.err.contains("no storage space"), "{words:?}: {ended:?}");
        assert!(!ended.err.contains("panicked") && ended.err.lines().count() == 1, "{words:?}: {ended:?}");
        let mut child = tickscope(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = Ended::from(child.wait_with_output().unwrap());
        assert!(matches!(ended.code, Some(0 | 3)) && !ended.err.contains("panicked"), "{words:?}: {ended:?}");
    }
    drop(site);
}

/// It would go on for minutes, with a processor busy.
#[test]
fn e2e_the_load_factor_ends_when_its_reader_does() {
    for more in [&[][..], &["--json"]] {
        let words = ["clock", "load-factor", "--every-ms", "50", "--seconds", "600"];
        let mut child = tickscope(&words).args(more).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().take(3).count();
        let ended = Ended::from(child.wait_with_output().unwrap());
        assert_eq!((lines, ended.code), (3, Some(0)), "{ended:?}");
        assert!(ended.err.is_empty(), "{ended:?}");
    }
}

#[test]
fn e2e_colours_and_widths_follow_who_reads() {
    let shown = |words: &[&str], variables: &[(&str, &str)]| {
        let mut command = tickscope(&["show", GOLDEN]);
        command.args(words).env_remove("COLUMNS").env_remove("NO_COLOR").envs(variables.iter().copied());
        Ended::of(&mut command).out
    };
    let escape = '\u{1b}';
    assert!(!shown(&[], &[]).contains(escape), "a pipe");
    assert!(shown(&["--color", "always"], &[("NO_COLOR", "1")]).contains(escape), "asked for");
    assert!(!shown(&["--color", "never"], &[]).contains(escape));
    let narrow = shown(&[], &[("COLUMNS", "40")]);
    let table: Vec<&str> = narrow.split("\n\n").next().unwrap().lines().collect();
    assert!(table.iter().all(|line| line.chars().count() <= 40), "{narrow}");
    assert!(shown(&[], &[]).lines().all(|line| line.chars().count() <= 120));
    let all = shown(&["--wide", "--assumptions", "--events"], &[]);
    for part in ["mean", "common", "reading", "rel 1ms", "\nassumptions\n", "\nevents"] {
        assert!(all.contains(part), "{part}: {all}");
    }
    assert!(shown(&["--quantiles", "10,99.99"], &[]).lines().next().unwrap().contains("p99.99"));
    assert!(shown(&["--unit", "ns"], &[]).contains("p50 ns"));
    let by_kind = shown(&["--by", "kind"], &[]);
    assert!(by_kind.starts_with("kind ") && by_kind.contains("end-to-end"), "{by_kind}");
}

#[test]
fn e2e_completions_offer_neither_hidden_commands_nor_files_for_words() {
    for shell in ["bash", "zsh", "fish"] {
        let script = Ended::of(&mut tickscope(&["completions", shell])).out;
        assert!(script.contains("server-room") && script.contains("kernel-probes"), "{shell}");
        assert!(!script.contains("role"), "{shell}: {}", script.lines().find(|line| line.contains("role")).unwrap());
    }
}

/// Standard output as it was set, standard error as text.
trait OutputWithStdout {
    fn output_with_stdout(&mut self) -> std::process::Output;
}

impl OutputWithStdout for Command {
    fn output_with_stdout(&mut self) -> std::process::Output {
        self.stdin(Stdio::null()).spawn().unwrap().wait_with_output().unwrap()
    }
}

/// Paths, commands and what a command printed; what it prints itself is passed on as it is.
#[test]
fn e2e_no_text_of_a_run_acts_on_the_terminal_that_it_is_told_on() {
    const ACTS: &str = "\u{1b}[2J\u{202e}";
    let site = Site::new("terminal");
    let folder = site.path(&format!("of{ACTS}"));
    fs::create_dir(&folder).unwrap();
    let text = "run = { name = \"e2e\", seconds = 0.1 }\nnetwork.kind = \"loopback\"\n\
        [clock]\nreference = \"n\"\nrho = 1\n[[node]]\nname = \"n\"\n\
        ends_run = true\n\
        command = [\"sh\", \"-c\", \"printf 'all\\\\033[2J\\n\\\\033[1A'; exit 3 # \\u001b[2J\\nfinding\"]\n\
        [[log]]\nnode = \"n\"\npoint = \"x\"\nfile = \"{run}/log\\u001b[2J\"\nclock = \"monotonic\"\nunit = \"ns\"\n";
    fs::write(folder.join("x.toml"), text).unwrap();
    let said = |words: &[&str], code, says: &[&str]| {
        let ended = Ended::of(tickscope(words).current_dir(&folder));
        ended.said(code, says);
        let acts = |letter| letter != '\n' && tickscope_tick::acts(letter);
        assert!(!ended.out.chars().chain(ended.err.chars()).any(acts), "{words:?}: {ended:?}");
    };
    said(&["run", "x.toml", "--check"], 0, &[]);
    said(&["run", "x.toml", "--out", "a\u{1b}[2J"], 1, &["run: a\\u{1b}[2J\n", "log\\u{1b}[2J"]);
    said(&["finish", "a\u{1b}[2J"], 0, &[]);
    said(&["check", "a\u{1b}[2J"], 1, &["no stamp is stored in it"]);
    fs::write(folder.join("a\u{1b}[2J/run.json"), "{").unwrap();
    said(&["check", "a\u{1b}[2J"], 1, &["\\u{1b}[2J"]);
}

/// What the run file says is possible, and is not what its programs do: names of points, commands, folders.
#[test]
fn e2e_a_run_whose_file_does_not_fit_its_programs_says_which_word_is_wrong() {
    let site = Site::new("unfit");
    let text = Experiment::new(0.3, 100).text();
    let misspelt = text.replace("\"client.response\"]", "\"client.respnse\"]");
    let ran = Ended::of(&mut site.run_command(&misspelt));
    ran.said(1, &["stamps at client.respnse, found none; did you mean 'client.response'?"]);
    assert!(!ran.err.contains("probe-request") && !ran.err.contains("?."), "{ran:?}");

    let again = Ended::of(&mut site.run_command(&text));
    again.said(2, &["found a run.json", "its own directory"]);
    fs::remove_dir_all(site.run_directory()).unwrap();
    fs::create_dir(site.run_directory()).unwrap();
    fs::write(site.path("run/of somebody"), "").unwrap();
    Ended::of(&mut site.run_command(&text)).said(2, &["found files in it", "--out"]);
    assert_eq!(fs::read_dir(site.run_directory()).unwrap().count(), 1, "nothing is written there");
    fs::remove_dir_all(site.run_directory()).unwrap();

    let evidence = "[evidence]\nmessages = [\"client.send > server.receved\"]\n[layout]";
    let ran = Ended::of(&mut site.run_command(&text.replace("[layout]", evidence)));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let shown = Ended::of(tickscope(&["show"]).arg(site.run_directory()));
    let shown = shown.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("server.receved, found none; did you mean 'server.received'?"), "{shown}");
    fs::remove_dir_all(site.run_directory()).unwrap();

    let at = text.rfind("command = [").unwrap();
    let with = |command: &str| format!("{}command = [{command}]\n", &text[..at]);
    let failing = Ended::of(&mut site.run_command(&with("\"sh\", \"-c\", \"echo this is why >&2; exit 1\"")));
    failing.said(1, &["this is why", "command of client failed with exit status: 1"]);
    assert_eq!(failing.err.matches("No program stamped anything").count(), 1, "once for all points: {}", failing.err);
    fs::remove_dir_all(site.run_directory()).unwrap();
    let silent = Ended::of(&mut site.run_command(&with("\"false\"")));
    silent.said(1, &["failed with exit status: 1: it printed nothing.", "See its stderr above, if it wrote any"]);
    fs::remove_dir_all(site.run_directory()).unwrap();
    for (command, says) in [
        ("\"no-such-command\"", &["no-such-command", "PATH", "Install it"][..]),
        ("\"build/echo\"", &["build/echo", "start from the run file's directory"]),
    ] {
        let ended = Ended::of(&mut site.run_command(&with(command)));
        ended.said(2, says);
        assert!(ended.err.lines().count() == 1 && !site.run_directory().exists(), "told alone: {ended:?}");
    }
}

#[test]
fn e2e_a_folder_that_is_no_stamp_directory_is_left_as_it_is_and_a_folder_without_events_is_damaged() {
    let site = Site::new("folders");
    fs::create_dir(site.path("etc")).unwrap();
    fs::write(site.path("etc/passwd"), "x").unwrap();
    asked(&site, &["collect", "etc", "--run", "taken"]).said(2, &["expected a stamp directory", "TICKSCOPE_DIR"]);
    assert_eq!(fs::read_dir(site.path("etc")).unwrap().count(), 1);
    assert!(!site.path("taken").exists());
    let node = format!("[[node]]\nname = \"n\"\nstamps = {:?}\n", site.path("etc"));
    let text = format!("run = {{ name = \"n\", seconds = 1 }}\nclock.reference = \"n\"\n{node}");
    let ended = Ended::of(&mut site.run_command(&text));
    ended.said(2, &["expected a stamp directory", "other files, and no pool"]);
    assert!(ended.err.lines().count() == 1 && !site.run_directory().exists(), "told alone: {ended:?}");
    let doctor = tickscope(&["doctor", "--json", "--shared-memory"]).arg(site.path("")).output().unwrap();
    let looks = String::from_utf8(doctor.stdout).unwrap();
    assert!(looks.contains("MiB free") && !looks.contains("points would be off"), "they are on, on any disk: {looks}");
    site.run(&Experiment::new(0.3, 100)).json(0);
    fs::remove_dir_all(site.path("run/events")).unwrap();
    asked(&site, &["show", "run"]).said(1, &["events", "no such file", "do not trust the figures"]);
    asked(&site, &["clock", "example", "run"]).said(2, &["targets/cm-star", "experiments/cm-star.toml"]);
    let hurried = asked(&site, &["clock", "--seconds", "0.01"]);
    assert!(hurried.code == Some(0) && hurried.out.contains("ask for more"), "{hurried:?}");
}
