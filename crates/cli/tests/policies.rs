//! Policies of a run as its user meets them: switched while it goes on, counted, kept until asked for, and told in the
//! table.

#[path = "../../../examples/fir/fir.rs"]
mod fir;
mod site;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use site::{Ended, Site, c_program, few_or_all, free_port, tickscope, within};
use tickscope_stamp::{Channel, Fields, Ordering};
use tickscope_store::{Channel as Row, Run, RunState};

/// Set for the process that this test program is started as again.
const WRITER: &str = "TICKSCOPE_POLICIES_WRITER";
/// Threads of the writer of the switched channels.
const THREADS: i64 = 8;
/// Stamps of the switched point of each of the one that keeps all.
const BURST: i64 = 64;

/// Stamps until its file of that name is there, and leaves how many turns it made.
#[test]
fn a_writer_of_the_tests_below() {
    let Ok(words) = std::env::var(WRITER) else { return };
    let (how, stop) = words.split_once(' ').unwrap();
    let stopped = || Path::new(stop).exists();
    let turns = match how {
        "switched" => switched(stopped),
        "fir" => fir::main().map(|()| 0).unwrap(),
        _ => every_policy(stopped),
    };
    fs::write(format!("{stop}.turns"), turns.to_string()).unwrap();
}

fn switched(stopped: impl Fn() -> bool + Sync) -> i64 {
    // Some 5 million stamps a second from eight threads, where the collector is not a debug build.
    let all = Duration::from_micros(if cfg!(debug_assertions) { 100 } else { 10 });
    let pause = few_or_all(Duration::from_millis(2), all);
    let work = |number: i64| {
        let whole = Channel::open("whole", Ordering::Plain, Fields::Slim).unwrap();
        let hot = Channel::open("hot", Ordering::Plain, Fields::Slim).unwrap();
        let mut turns = 0;
        while turns % 64 != 0 || !stopped() {
            let first = (number << 40) | (turns * BURST);
            whole.stamp(first);
            (first..first + BURST).for_each(|id| hot.stamp(id));
            turns += 1;
            std::thread::sleep(pause); // the rate, not a wait for something
        }
        turns
    };
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(move || work(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

fn every_policy(stopped: impl Fn() -> bool) -> i64 {
    let points = ["in", "out", "sent", "received", "nth", "counted", "recent", "early", "late"];
    let channels = points.map(|point| Channel::open(point, Ordering::Plain, Fields::Slim).unwrap());
    let mut turns = 0;
    while !stopped() {
        channels.iter().for_each(|channel| channel.stamp(turns));
        turns += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    channels[..2].iter().for_each(|channel| channel.stamp(-1));
    turns
}

/// A run of one node that goes on; one that a failed test leaves ends.
struct Going {
    site: Site,
    run: Option<Child>,
    stop: PathBuf,
}

impl Drop for Going {
    fn drop(&mut self) {
        if let Some(mut run) = self.run.take() {
            let _ = fs::write(&self.stop, "");
            let _ = run.wait();
        }
    }
}

impl Going {
    fn start(how: &str, more: &str) -> Self {
        let site = Site::new(how);
        let stop = site.path("stop");
        let own = std::env::current_exe().unwrap();
        let text = format!(
            "run = {{ name = \"{how}\", seconds = 600, pool_bytes = 536870912, when_full = \"drop\" }}\n\
             network.kind = \"loopback\"\n[clock]\nreference = \"n\"\nprobe_port = {}\n[[node]]\nname = \"n\"\n\
             ends_run = true\ncommand = [\"env\", \"{WRITER}={how} {}\", \"{}\", \"--exact\", \
             \"a_writer_of_the_tests_below\"]\n{more}",
            free_port(),
            stop.display(),
            own.display()
        );
        let mut command = site.run_command(&text);
        let run = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let going = Self { site, run: Some(run), stop };
        going.await_answer(&["channels"], |reply| channels(reply).iter().any(|one| one["stamps"] != Value::Null));
        going
    }

    fn ask(&self, words: &[&str]) -> Ended {
        let mut command = tickscope(&words[..1]);
        Ended::of(command.arg(self.site.run_directory()).args(&words[1..]).arg("--json"))
    }

    fn await_answer(&self, words: &[&str], is_it: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + Duration::from_secs(120);
        loop {
            let ended = self.ask(words);
            let reply = serde_json::from_str::<Value>(&ended.out).unwrap_or_default();
            if ended.code == Some(0) && is_it(&reply) {
                return reply;
            }
            assert!(Instant::now() < until, "{words:?}: {ended:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until these points have a rate, which takes two readings: what a figure is drawn of.
    fn await_rates(&self, points: &[&str]) {
        let until = Instant::now() + Duration::from_secs(120);
        let has_rate = |found: &Value, point: &str| {
            let of_point = found["counts"].as_array().into_iter().flatten().filter(|of| of["point"] == point);
            let mut periods = of_point.flat_map(|of| of["periods"].as_array().into_iter().flatten());
            periods.any(|period| period["lo_hz"] != Value::Null)
        };
        loop {
            let shown = self.shown(&["--counts", "--json"]);
            let found = serde_json::from_str(&shown.out).unwrap_or_default();
            if points.iter().all(|point| has_rate(&found, point)) {
                return;
            }
            assert!(Instant::now() < until, "no rate of {points:?}: {shown:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Stops the writer and waits for the run's end; how many turns it made.
    fn stop(&mut self) -> i64 {
        self.stopped().1
    }

    /// The same of a run that ends with exit code 0.
    fn stop_well(&mut self) -> i64 {
        let (code, turns) = self.stopped();
        assert_eq!(code, Some(0));
        turns
    }

    fn stopped(&mut self) -> (Option<i32>, i64) {
        fs::write(&self.stop, "").unwrap();
        let ended = self.run.take().unwrap().wait_with_output().unwrap();
        let turns = fs::read_to_string(self.stop.with_extension("turns"));
        let turns = turns.unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(&ended.stderr)));
        (ended.status.code(), turns.parse().unwrap())
    }

    fn shown(&self, words: &[&str]) -> Ended {
        Ended::of(tickscope(&["show"]).arg(self.site.run_directory()).args(words))
    }
}

fn channels(reply: &Value) -> Vec<&Value> {
    reply["nodes"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|node| node["channels"].as_array().into_iter().flatten())
        .collect()
}

fn rows(run: &Run, point: &str) -> Vec<Row> {
    run.channels().unwrap().found.into_iter().filter(|channel| channel.point.as_str() == point).collect()
}

#[test]
fn e2e_channels_that_are_switched_through_policies_take_no_stamp_from_one_that_keeps_all() {
    let policy = "[[policy]]\nchannels = \"hot\"\npolicy = \"null\"\n[layout]\npath = [\"n.whole\", \"n.hot\"]\n";
    let mut going = Going::start("switched", policy);
    let has = |policy: &str| {
        let of = |one: &&&Value| one["point"] == "hot" && one["policy"] == policy;
        going.await_answer(&["channels"], |reply| channels(reply).iter().filter(of).count() as i64 == THREADS);
    };
    has("null");
    for policy in [&["buffered"][..], &["every", "100"], &["null"]] {
        let reply = going.ask(&[&["policy", "hot"], policy].concat()).json(0);
        assert_eq!(reply["nodes"][0]["switched"]["channels"], THREADS, "{reply}");
        std::thread::sleep(Duration::from_millis(300));
    }
    let turns = going.stop();
    let run = going.site.opened();
    let whole = rows(&run, "whole");
    assert_eq!(whole.iter().map(|channel| channel.stored).sum::<i64>(), turns, "every stamp of the other is there");
    assert!(whole.iter().all(|channel| channel.dropped == 0 && channel.keeps_all()));
    let mut events = going.site.events("policy-switched");
    events.sort_by_key(|event| event.tick);
    let [buffered, every, null] = &events[..] else { panic!("{events:?}") };
    assert!(events.iter().all(|event| event.value == Some(THREADS) && event.tick < event.until), "{events:?}");
    let hot = run.stamps(&"n.hot".parse().unwrap()).unwrap().read_all().unwrap();
    let mut of: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
    for (id, tick) in hot.id.iter().zip(&hot.tick) {
        of.entry(id >> 40).or_default().push((*tick, *id));
    }
    let dropped: i64 = rows(&run, "hot").iter().map(|channel| channel.dropped).sum();
    let ticks = run.stamps(&"n.whole".parse().unwrap()).unwrap().read_all().unwrap().tick;
    let took = (ticks.iter().max().unwrap() - ticks.iter().min().unwrap()) as f64;
    let hertz = turns as f64 * (BURST + 1) as f64 * run.manifest().nodes[0].counter.frequency.hertz as f64 / took;
    println!("{turns} bursts of {BURST}, {hertz:.0} stamps a second; {} kept, {dropped} dropped", hot.id.len());
    let mut few = 0;
    for stamps in of.values_mut() {
        stamps.sort_unstable();
        let between = |from: Option<i64>, to: Option<i64>| {
            let is_it = |stamp: &&(i64, i64)| from.unwrap() < stamp.0 && stamp.0 < to.unwrap();
            stamps.iter().filter(is_it).map(|&(_, id)| id).collect::<Vec<_>>()
        };
        assert!(stamps[0].0 > buffered.tick.unwrap(), "nothing under null");
        let behind = between(null.until, Some(i64::MAX));
        assert!(behind.len() <= 1, "behind the last tick at most the stamp that a thread was in: {behind:?}");
        let all = between(buffered.until, every.tick);
        assert!(dropped > 0 || all.windows(2).all(|two| two[1] == two[0] + 1), "each one under buffered");
        let nth = between(every.until, null.tick);
        let steps = nth.windows(2).skip(1);
        assert!(dropped > 0 || steps.clone().all(|two| two[1] == two[0] + 100), "{nth:?}");
        few += nth.len();
    }
    assert!(few > 0 && of.len() as i64 == THREADS);
    let ended = going.shown(&[]);
    let told = ended.out.replace('\n', " ").split_whitespace().collect::<Vec<_>>().join(" ");
    let said = "switched while the run went on: n.hot to buffered, then to every 100, then to null";
    assert!(told.contains(said) && !told.contains("lack a stamp of"), "{ended:?}");
    // The other one has one id of each burst.
    let missing = going.site.events("ids-missing");
    assert!(missing.iter().all(|event| event.text.starts_with("at n.whole")), "{missing:?}");
}

#[test]
fn e2e_each_policy_keeps_what_it_says_and_the_table_tells_it_and_what_is_kept_is_stored_when_asked() {
    let rules = [
        ("in", "first-last -1"),
        ("out", "first-last -1"),
        ("sent", "2 of 8"),
        ("received", "2 of 8"),
        ("nth", "every 10"),
        ("counted", "count 10ms"),
        ("recent", "keep 1h"),
        ("early", "keep 1h"),
        ("late", "keep 1h"),
    ];
    let rules = rules.into_iter().chain([("n.sent", "null")]);
    let rules: Vec<String> =
        rules.map(|(point, policy)| format!("[[policy]]\nchannels = \"{point}\"\npolicy = \"{policy}\"\n")).collect();
    let trigger = "[[dump]]\nfrom = \"n.early\"\nto = \"n.late\"\nabove = \"1us\"\n";
    let layout = "[layout]\npath = [\"n.sent\", \"n.received\"]\n";
    let mut going = Going::start("all", &format!("{}{trigger}{layout}", rules.concat()));
    going.await_rates(&["n.counted"]);
    expect_hints(&going);
    let early = going.ask(&["dump", "earl?"]).json(0);
    assert_eq!(early["nodes"][0]["dumped"]["channels"], 1, "{early}");
    going.ask(&["dump", "a b"]).said(2, &["expected the names of points", "found 'a b'"]);
    let dumped = going.ask(&["dump"]).json(0);
    assert!(dumped["nodes"][0]["dumped"]["channels"].as_u64() > Some(0), "{dumped}");
    going.ask(&["dump", "--node", "other"]).said(2, &["expected a node of n, found other"]);
    // SAFETY: a signal to a child of this test.
    unsafe { libc::kill(going.run.as_ref().unwrap().id() as i32, libc::SIGUSR1) };
    let until = Instant::now() + Duration::from_secs(60);
    let has = |why: &str| going.site.events("dumped").iter().any(|event| event.text.contains(why));
    while !(has("SIGUSR1") && has("id ") && has("tickscope dump asked")) {
        assert!(Instant::now() < until, "{:?}", going.site.events("dumped"));
        std::thread::sleep(Duration::from_millis(50));
    }
    let turns = going.stop();
    let run = going.site.opened();
    let stored = |point: &str| rows(&run, point).iter().map(|channel| channel.stored).sum::<i64>();
    assert_eq!([stored("in"), stored("nth"), stored("counted")], [2, turns / 10, 0]);
    assert_eq!(stored("sent"), (0..turns).filter(|id| id % 8 < 2).count() as i64);
    assert!(going.site.events("ids-missing").is_empty() && going.site.events("lost").is_empty());
    let ended = going.shown(&[]);
    assert!(ended.out.contains("ids 0, 1 of each 8 are kept at n.sent, n.received"), "{ended:?}");
    assert!(!ended.out.contains("lack"), "{ended:?}");
    let by = |path: &str| {
        let file = going.site.path("layout.toml");
        fs::write(&file, format!("[layout]\npath = [{path}]\n")).unwrap();
        going.shown(&["--json", "--layout", file.to_str().unwrap()])
    };
    let stream = by("\"n.in\", \"n.out\"").json(0);
    let of = &stream["stream"];
    assert_eq!((of["sinks"].as_i64(), of["sinks_ended"].as_i64()), (Some(1), Some(1)), "{stream}");
    assert!(of["lo_ticks"].as_i64() <= of["ticks"].as_i64() && of["ticks"].as_i64() <= of["hi_ticks"].as_i64());
    assert!(of["lo_ticks"].as_i64() > Some(0) && of["unbounded"] == serde_json::json!([]), "{of}");
    let nth = by("\"n.nth\", \"n.recent\"").json(0);
    let notes = nth["policy_notes"].to_string();
    let unused =
        "the policy null for 'n.sent' matched no channel of the run. Points are named without their node: write 'sent'";
    assert!(notes.contains(unused), "{notes}");
    assert!(notes.contains("n.recent keeps what was asked for (keep 1h)") && notes.contains("stored ones reach over"));
    assert!(!notes.contains("reach less far back"), "the pool holds all that was stamped: {notes}");
    assert!(notes.contains("each channel of n.nth") && notes.contains("X of Y keeps the same ids"), "{nth}");
    expect_counts(&going, &run, turns);
}

/// Fails unless the counts of the point that only counts are told, drawn, and refused where their file is damaged.
fn expect_counts(going: &Going, run: &Run, turns: i64) {
    let counts = going.shown(&["--counts", "--json"]).json(0);
    assert_eq!(
        (&counts["counts"][0]["point"], counts["counts"][0]["total"].as_i64()),
        (&"n.counted".into(), Some(turns))
    );
    assert_eq!(counts["counts"][0]["total_is_whole"], true);
    let before = Ended::of(tickscope(&["show", "--counts"]).arg(going.site.run_directory()));
    before.said(2, &["Name the run first: tickscope show", " --counts"]);
    going.shown(&["--counts", "n.nth"]).said(2, &["expected a point that counted (n.counted)"]);
    let reported = Ended::of(tickscope(&["report"]).arg(going.site.run_directory()));
    assert_eq!(reported.code, Some(0), "{reported:?}");
    let page = fs::read_to_string(run.paths().report()).unwrap();
    assert!(page.contains("What was only counted") && page.contains("Stamps a second at n.counted"));
    let file = run.paths().counts("n").join("part-00000000.parquet");
    fs::write(&file, "no table").unwrap();
    let damaged = going.shown(&["--counts"]);
    damaged.said(1, &["counts/node=n/part-00000000.parquet", "do not trust the figures"]);
    assert!(damaged.out.contains("n.counted: at least 0 stamps"), "{damaged:?}");
}

/// What names no channel is answered with what does.
fn expect_hints(going: &Going) {
    let points = "The points are counted, early, in, late, nth, out, received, recent, sent";
    let dump = going.ask(&["dump", "n.early"]);
    dump.said(1, &["no channel matches 'n.early'", "write 'early' --node n", points]);
    going.ask(&["dump", "in"]).said(1, &["is under the policy keep", "in is under first-last -1"]);
    going.ask(&["policy", "n.in", "null"]).said(2, &["no channel matches 'n.in'", "write 'in' --node n", "early, in"]);
    let policy = going.ask(&["policy", "soon", "null"]);
    assert!(policy.code == Some(0) && policy.err.contains("the rule stays"), "{policy:?}");
    let again = going.ask(&["policy", "in", "first-last -1"]);
    assert!(again.json(0)["nodes"][0]["switched"]["channels"] == 0 && again.err.is_empty(), "{again:?}");
}

#[test]
fn e2e_a_run_whose_points_only_count_ends_well_and_prints_and_draws_the_counts() {
    let policy = "[[policy]]\nchannels = \"*\"\npolicy = \"count 10ms\"\n";
    let mut going = Going::start("only-counted", policy);
    going.await_rates(&["n.counted"]);
    let turns = going.stop_well();
    let ended = going.shown(&[]);
    let said = format!("n.in: {} stamps of 1 channel, ", turns + 1);
    assert!(ended.code == Some(0) && ended.out.contains(&said), "{ended:?}");
    assert!(ended.out.contains("these points only count, so there are no durations: tickscope show "), "{ended:?}");
    let json = going.shown(&["--json"]).json(0);
    assert!(json["counts"].as_array().unwrap().iter().any(|of| of["total"] == turns + 1), "{json}");
    let reported = Ended::of(tickscope(&["report"]).arg(going.site.run_directory()));
    assert_eq!(reported.code, Some(0), "{reported:?}");
    let page = fs::read_to_string(going.site.opened().paths().report()).unwrap();
    assert!(page.contains("What was only counted") && page.contains("Stamps a second at n.counted"));
    going.shown(&["--by", "kind"]).said(1, &["its points only count", "n.in (count 10ms)", " --counts prints"]);
    let file = going.site.path("layout.toml");
    fs::write(&file, "[layout]\npath = [\"n.in\", \"n.out\"]\n").unwrap();
    going.shown(&["--layout", file.to_str().unwrap()]).said(1, &["its points only count", "n.in (count 10ms)"]);
}

#[test]
fn e2e_a_layout_with_a_point_under_null_is_told_the_rule_that_left_it_out() {
    let policy = "[[policy]]\nchannels = \"in\"\npolicy = \"null\"\n";
    let mut going = Going::start("null-end", &format!("{policy}[layout]\npath = [\"n.in\", \"n.out\"]\n"));
    let (code, _) = going.stopped();
    let ended = going.shown(&[]);
    let said = "found none: the policy null left out whatever was stamped there (by the rule for 'in')";
    assert!(code == Some(1) && ended.code == Some(1) && ended.err.contains(said), "{code:?} {ended:?}");
    let events = going.site.events("point-unstamped");
    let told: Vec<&str> = events.iter().map(|event| event.text.as_str()).collect();
    assert!(![ended.err.as_str()].iter().chain(&told).any(|text| text.contains("did you mean")), "{told:?} {ended:?}");
}

#[test]
fn e2e_a_run_that_was_killed_is_finished_as_it_would_have_ended_where_points_count() {
    let rule = |points: &str, policy: &str| format!("[[policy]]\nchannels = \"{points}\"\npolicy = \"{policy}\"\n");
    let only_counts = rule("in", "count 10ms") + &rule("*", "null");
    let with_layout = rule("in", "count 10ms") + "[layout]\npath = [\"n.in\", \"n.out\"]\n";
    for (name, more, says) in [
        ("cut-counts", only_counts, "these points only count, so there are no durations: tickscope show "),
        ("cut-layout", with_layout, "policy: n.in only counts (count 10ms): "),
    ] {
        let mut going = Going::start(name, &more);
        going.await_rates(&["n.in"]);
        let mut run = going.run.take().unwrap();
        run.kill().unwrap();
        run.wait().unwrap();
        if name == "cut-counts" {
            within("that nobody writes it", || {
                (going.site.opened().state().unwrap() == RunState::CutOff).then_some(())
            });
            going.shown(&[]).said(1, &["how many stamps it lost is not known"]);
            going.shown(&["--counts"]).said(1, &["how many stamps it lost is not known"]);
        }
        let finish = || Ended::of(tickscope(&["finish"]).arg(going.site.run_directory()));
        let mut finished = finish();
        let until = Instant::now() + Duration::from_secs(60);
        while finished.err.contains("it goes on") && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50)); // the kernel lets go of what the killed process held
            finished = finish();
        }
        fs::write(&going.stop, "").unwrap();
        finished.said(0, &[]);
        assert!(finished.out.contains(says), "{finished:?}");
        let again = finish();
        assert!(again.code == Some(0) && again.out.contains("nothing to do"), "{again:?}");
        Ended::of(tickscope(&["finish", "--json"]).arg(going.site.run_directory())).json(0);
        let reported = Ended::of(tickscope(&["report"]).arg(going.site.run_directory()));
        assert_eq!(reported.code, Some(0), "{reported:?}");
    }
}

#[test]
fn e2e_points_that_were_just_switched_to_count_are_not_said_to_be_under_another_policy() {
    let mut going = Going::start("just-switched", "");
    let switched = going.ask(&["policy", "early", "count 1ms"]).json(0);
    assert_eq!(switched["nodes"][0]["switched"]["channels"], 1, "{switched}");
    let told = "n: 1 channel switched to count 1ms, by the rule early";
    for words in [&["--counts"][..], &["--counts", "n.early"]] {
        let shown = going.shown(words);
        // On a machine that took its time the counts are there.
        assert!(shown.code == Some(0) || shown.code == Some(1) && shown.err.contains(told), "{shown:?}");
        assert!(shown.code == Some(0) || shown.err.contains("ask again"), "{shown:?}");
    }
    let until = Instant::now() + Duration::from_secs(60);
    while going.shown(&["--counts"]).code != Some(0) {
        assert!(Instant::now() < until, "{:?}", going.shown(&["--counts"]));
        std::thread::sleep(Duration::from_millis(100));
    }
    going.ask(&["policy", "late", "count 1ms"]).json(0);
    let shown = going.shown(&["--counts", "n.late"]);
    assert!(shown.code == Some(0) || shown.err.contains("switched to count 1ms, by the rule late"), "{shown:?}");
    going.shown(&["--counts", "n.in"]).said(2, &["expected a point that counted (n.early"]);
    going.stop_well();
}

#[test]
fn e2e_a_layout_with_a_point_that_only_counts_ends_well_and_says_why_no_trace_is_whole() {
    let policy = "[[policy]]\nchannels = \"in\"\npolicy = \"count 10ms\"\n";
    let mut going = Going::start("counted-end", &format!("{policy}[layout]\npath = [\"n.in\", \"n.out\"]\n"));
    going.stop_well();
    let ended = going.shown(&[]);
    assert!(ended.code == Some(0) && ended.out.contains("policy: n.in only counts (count 10ms): "), "{ended:?}");
    assert!(!ended.err.contains("did you mean"), "{ended:?}");
    let reported = Ended::of(tickscope(&["report", "--out", "-"]).arg(going.site.run_directory()));
    assert!(reported.code == Some(0), "{reported:?}");
    assert!(reported.out.contains("since n.in only counts (count 10ms): tickscope show "), "{}", reported.out);
}

#[test]
fn e2e_the_example_of_an_own_policy_keeps_the_slow_stretches_alone_in_c_and_in_rust() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fir/fir.c");
    let (program, own) =
        (c_program::compile("cc", &source, &["-D_GNU_SOURCE"], "fir"), std::env::current_exe().unwrap());
    let site = Site::new("fir");
    let text = format!(
        "run = {{ name = \"fir\", seconds = 60 }}\nnetwork.kind = \"loopback\"\n[clock]\nreference = \"c\"\n\
         probe_port = {}\n[[policy]]\nchannels = \"passed\"\npolicy = \"own\"\n[[node]]\nname = \"c\"\n\
         ends_run = true\ncommand = [\"{}\"]\n[[node]]\nname = \"rust\"\nends_run = true\n\
         command = [\"env\", \"{WRITER}=fir {}\", \"{}\", \"--exact\", \"a_writer_of_the_tests_below\"]\n",
        free_port(),
        program.display(),
        site.path("stop").display(),
        own.display()
    );
    let ended = Ended::of(&mut site.run_command(&text));
    let slow: Vec<i64> = (0..10).flat_map(|thousand| (501..=517).map(move |id| thousand * 1000 + id)).collect();
    for node in ["c", "rust"] {
        let place = format!("{node}.passed").parse().unwrap();
        let mut kept = site.opened().stamps(&place).unwrap().read_all().unwrap().id;
        kept.sort_unstable();
        assert_eq!(kept, slow, "{node}: {ended:?}");
    }
    let told: Vec<_> = rows(&site.opened(), "passed").into_iter().map(|one| (one.policy, one.refused)).collect();
    assert_eq!(told, [("own".to_owned(), 0), ("own".to_owned(), 0)]);
}
