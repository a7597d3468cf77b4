//! A run that goes on is asked and told: channels of every node, other policies, how it stands.
//!
//! Writers make turns of three stamps of one id: `early`, `switched`, `late`. So what `switched` may and must hold is
//! known of each turn by the ticks around it.

mod site;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use site::{Ended, Site, c_program, free_port, tickscope};
use tickscope_stamp::{Channel, Fields, Ordering};
use tickscope_store::{Channel as Row, Event, Run};
use tickscope_tick::{NodeName, Place, PointName};

const NODES: usize = 5;
const THREADS: usize = 4;

/// Set for the process that this test program is started as again.
const WRITER: &str = "TICKSCOPE_LIVE_WRITER";

/// As `c/live.c`, with Rust's library.
#[test]
fn a_writer_of_the_tests_below() {
    let Ok(words) = std::env::var(WRITER) else { return };
    let words: Vec<&str> = words.split(' ').collect();
    let (stop, later, pause) = (words[1], words[2], Duration::from_micros(words[3].parse().unwrap()));
    let work = |number: usize, point: &'static str| {
        let stop = stop.to_owned();
        std::thread::spawn(move || {
            let open = |point, ordering| Channel::open(point, ordering, Fields::Slim).unwrap();
            let early = open("early", Ordering::Before);
            let middle = open(point, Ordering::Plain);
            let late = open("late", Ordering::After);
            let mut turns = 0_i64;
            while turns % 64 != 0 || !Path::new(&stop).exists() {
                turns += 1;
                let id = (number as i64 + 1) << 40 | turns;
                early.stamp(id);
                middle.stamp(id);
                late.stamp(id);
                std::thread::sleep(pause);
            }
            turns
        })
    };
    let threads: usize = words[0].parse().unwrap();
    let workers: Vec<_> = (0..threads).map(|number| work(number, "switched")).collect();
    let mut of_later = Vec::new();
    while !Path::new(stop).exists() {
        if Path::new(&format!("{later}.{}", of_later.len())).exists() {
            of_later.push(work(threads + of_later.len(), "later"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let sum =
        |workers: Vec<std::thread::JoinHandle<i64>>| workers.into_iter().map(|one| one.join().unwrap()).sum::<i64>();
    let (turns, later_turns) = (sum(workers), sum(of_later));
    std::os::unix::fs::symlink(format!("{turns} {later_turns}"), words[4]).unwrap();
}

/// A run of nodes that write, while it goes on.
struct Going {
    site: Site,
    run: Ending,
}

/// A run that a test which fails does not leave behind: others would find what it holds.
struct Ending {
    run: Option<Child>,
    stop: PathBuf,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(mut run) = self.run.take() {
            let _ = fs::write(&self.stop, "");
            let _ = run.wait();
        }
    }
}

/// What is said of a collector that a busy machine keeps from its work.
const IN_TIME: &str = "did not answer within";

impl Going {
    /// Three nodes in C, the others in Rust; each stamps until it is told to stop.
    fn start(name: &str) -> Self {
        Self::start_at(name, (1000, 1), 3)
    }

    /// Pauses, after so many turns each; how many nodes are in C.
    fn start_at(name: &str, (pause_us, burst): (u32, u32), of_c: usize) -> Self {
        let site = Site::new(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/live.c");
        let program = c_program::compile("cc", &source, &["-D_GNU_SOURCE"], "live");
        let mut text = format!(
            "run = {{ name = \"live\", seconds = 600, pool_bytes = 67108864 }}\nnetwork.kind = \"loopback\"\n\
             [clock]\nreference = \"n0\"\nprobe_port = {}\n",
            free_port()
        );
        let [stop, later, own] = [site.path("stop"), site.path("later"), std::env::current_exe().unwrap()]
            .map(|path| path.display().to_string());
        for node in 0..NODES {
            let turns = site.path(&format!("turns-{node}"));
            let words = match node < of_c {
                true => format!(
                    "\"{}\", \"{THREADS}\", \"{stop}\", \"{later}\", \"{pause_us}\", \"{burst}\"",
                    program.display()
                ),
                false => format!(
                    "\"env\", \"{WRITER}={THREADS} {stop} {later} {pause_us} {}\", \"{own}\", \"--exact\", \
                     \"a_writer_of_the_tests_below\"",
                    turns.display()
                ),
            };
            let _ = write!(text, "[[node]]\nname = \"n{node}\"\nends_run = true\ncommand = [{words}]\n");
            if node == 4 {
                text += "inject = { offset = 1000000, drift_ppb = 500, wander_ppb = 0, wander_period = 1000000000 }\n";
            }
        }
        let mut command = site.run_command(&text);
        let run = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let run = Ending { run: Some(run), stop: site.path("stop") };
        Self { site, run }
    }

    fn ask(&self, words: &[&str]) -> Ended {
        let mut command = tickscope(&words[..1]);
        Ended::of(command.arg(self.site.run_directory()).args(&words[1..]).arg("--json"))
    }

    /// Asks until what is answered is as wanted.
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

    /// A collector that does not get to it in time is told as such, with 1; the rule stays, and it gets it later.
    fn policy(&self, glob: &str, policy: &str) -> Value {
        let ended = self.ask(&["policy", glob, policy]);
        let code = if ended.err.contains(IN_TIME) { 1 } else { 0 };
        ended.json(code)
    }

    fn await_channels(&self, point: &str, policy: &str, count: usize) -> Value {
        self.await_answer(&["channels"], |reply| {
            let of = |channel: &&Value| channel["point"] == point && channel["policy"] == policy;
            channels(reply).iter().filter(|(_, channel)| of(channel)).count() == count
        })
    }

    /// Stops the writers and waits for the run's end; how many turns each node made, and of `later`.
    fn stop(mut self) -> (Site, Vec<[i64; 2]>) {
        fs::write(&self.run.stop, "").unwrap();
        let ended = self.run.run.take().unwrap().wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        let printed = self.site.events("target");
        let of = |node: usize| {
            let link = fs::read_link(self.site.path(&format!("turns-{node}")));
            let text = link.map(|path| path.display().to_string()).unwrap_or_else(|_| {
                let of = |event: &&Event| event.text.starts_with(&format!("command of n{node} "));
                let event = printed.iter().find(of).unwrap_or_else(|| panic!("n{node}: {printed:?} {told}"));
                event.text.rsplit(": ").next().unwrap().to_owned()
            });
            let mut numbers = text.split(' ').map(|number| number.parse::<i64>().unwrap());
            [numbers.next().unwrap(), numbers.next().unwrap()]
        };
        let turns = (0..NODES).map(of).collect();
        (self.site, turns)
    }
}

fn channels(reply: &Value) -> Vec<(&str, &Value)> {
    let mut found = Vec::new();
    for node in reply["nodes"].as_array().unwrap() {
        let of = node["channels"].as_array().into_iter().flatten();
        found.extend(of.map(|channel| (node["node"].as_str().unwrap(), channel)));
    }
    found
}

/// Ticks of a node's stamps at a point, by their ids.
fn ticks(run: &Run, node: usize, point: &str) -> BTreeMap<i64, i64> {
    let place = Place { node: NodeName::new(format!("n{node}")).unwrap(), point: PointName::new(point).unwrap() };
    let all = run.stamps(&place).unwrap().read_all().unwrap();
    all.id.into_iter().zip(all.tick).collect()
}

/// A time in which a rule held, and its policy: the tick from which on whoever calls follows it, and the tick until
/// which whoever has returned has.
struct Period {
    keeps: bool,
    from: i64,
    until: i64,
}

/// Switches of a node by a rule, in the order of their ticks.
fn switches(events: &[Event], node: usize, glob: &str) -> Vec<Event> {
    let of = |event: &&Event| event.node == format!("n{node}") && event.text.ends_with(&format!("by the rule {glob}"));
    let mut found: Vec<_> = events.iter().filter(of).cloned().collect();
    found.sort_by_key(|event| event.tick);
    found
}

fn periods(switches: &[Event]) -> Vec<Period> {
    let mut periods = vec![Period { keeps: true, from: i64::MIN, until: i64::MAX }];
    for event in switches {
        let (tick, until) = (event.tick.unwrap(), event.until.unwrap());
        assert!(tick < until, "{event:?}");
        periods.last_mut().unwrap().until = tick;
        periods.push(Period { keeps: event.text.contains(" to buffered,"), from: until, until: i64::MAX });
    }
    periods
}

/// Every stamp of other points is there or counted as lost, and `switched` holds what its policy was at each turn.
fn expect_kept(run: &Run, node: usize, turns: i64, commands: usize) {
    let (events, all) = (run.events().unwrap().found, run.channels().unwrap().found);
    let of = |point: &str| {
        let is_it = |channel: &&Row| channel.node.as_str() == format!("n{node}") && channel.point.as_str() == point;
        all.iter().filter(is_it).collect::<Vec<_>>()
    };
    let sum = |point: &str| of(point).iter().map(|channel| channel.stored + channel.dropped).sum::<i64>();
    assert_eq!([sum("early"), sum("late")], [turns; 2], "n{node}: every call is stored or lost");
    let [early, switched, late] = ["early", "switched", "late"].map(|point| ticks(run, node, point));
    let dropped: i64 = of("switched").iter().map(|channel| channel.dropped).sum();
    let found = switches(&events, node, "switched*");
    assert_eq!(found.len(), commands, "{found:?}");
    assert!(found.iter().all(|event| event.value == Some(THREADS as i64)), "{found:?}");
    let periods = periods(&found);
    let (mut missing, mut kept, mut inside) = (0, 0, [0; 2]);
    for (id, &before) in &early {
        let Some(&after) = late.get(id).filter(|_| *id >> 40 <= THREADS as i64) else { continue };
        let Some(period) = periods.iter().find(|period| period.from < before && after < period.until) else { continue };
        inside[usize::from(period.keeps)] += 1;
        match (period.keeps, switched.contains_key(id)) {
            (true, false) => missing += 1,
            (false, true) => kept += 1,
            _ => {}
        }
    }
    assert!(missing <= dropped, "n{node}: {missing} stamps are missing, {dropped} were counted as lost");
    assert_eq!(kept, 0, "n{node}: stamps that began under null were kept");
    assert!(inside.iter().all(|&turns| turns > 0), "n{node}: {inside:?}");
    // Behind the last tick of a switch to null there is at most the stamp that each thread was in.
    for (period, event) in periods.iter().skip(1).zip(&found).filter(|(period, _)| !period.keeps) {
        let within = switched.iter().filter(|(_, tick)| period.from < **tick && **tick < period.until);
        let threads: Vec<i64> = within.map(|(id, _)| id >> 40).collect();
        let once: BTreeSet<i64> = threads.iter().copied().collect();
        assert_eq!(once.len(), threads.len(), "n{node}: {event:?}");
    }
    assert!(of("switched").iter().all(|channel| channel.policy == "switched" && !channel.keeps_all()));
    assert!(of("early").iter().all(|channel| channel.keeps_all()));
}

#[test]
fn e2e_channels_of_five_nodes_are_listed_and_switched_while_all_others_keep_every_stamp() {
    let going = Going::start("live");
    let every = |reply: &Value| channels(reply).len() == NODES * THREADS * 3 + own(reply);
    let listed = going.await_answer(&["channels"], every);
    let threads: BTreeSet<_> = channels(&listed)
        .iter()
        .map(|(node, of)| (node.to_string(), of["pid"].to_string(), of["thread"].to_string()))
        .collect();
    assert!(threads.len() >= NODES * THREADS, "{threads:?}");
    for policy in ["null", "buffered", "null", "buffered"] {
        let reply = going.policy("switched*", policy);
        let nodes = reply["nodes"].as_array().unwrap();
        assert_eq!(nodes.len(), NODES);
        let is_late = |node: &Value| node["failed"].as_str().is_some_and(|why| why.contains(IN_TIME));
        assert!(nodes.iter().all(|node| is_late(node) || node["switched"]["channels"] == THREADS), "{reply}");
        going.await_channels("switched", policy, NODES * THREADS);
        std::thread::sleep(Duration::from_millis(100));
    }
    expect_status(&going);
    // Rules hold for channels that are opened later, also where the collector is another one by then.
    going.policy("later", "null");
    fs::write(going.site.path("later.0"), "").unwrap();
    going.await_channels("later", "null", NODES);
    kill_collector(&going.site, "n0");
    fs::write(going.site.path("later.1"), "").unwrap();
    going.await_channels("later", "null", 2 * NODES);
    let (site, turns) = going.stop();
    let run = site.opened();
    let events = run.events().unwrap().found;
    for (node, [of_switched, of_later]) in turns.into_iter().enumerate() {
        expect_kept(&run, node, of_switched + of_later, 4);
        let later = switches(&events, node, "later");
        assert_eq!(later.iter().filter_map(|event| event.value).sum::<i64>(), 2, "n{node}: {later:?}");
        assert!(later.iter().all(|event| event.until > event.tick), "{later:?}");
        // What began behind the last of these ticks was kept by none of them.
        let (last, early) = (later.iter().filter_map(|event| event.until).max().unwrap(), ticks(&run, node, "early"));
        let stored = ticks(&run, node, "later");
        assert!((stored.len() as i64) < of_later, "n{node}: {} of {of_later}", stored.len());
        assert!(stored.keys().all(|id| early[id] < last), "n{node}");
    }
    for words in ["status", "channels"] {
        Ended::of(tickscope(&[words]).arg(site.run_directory())).said(1, &["it has ended", "tickscope show"]);
    }
}

/// Channels of tickscope's own.
fn own(reply: &Value) -> usize {
    let is_own = |point: &str| tickscope_tick::own_points::are(point);
    channels(reply).iter().filter(|(_, channel)| is_own(channel["point"].as_str().unwrap())).count()
}

fn expect_status(going: &Going) {
    let status = going.ask(&["status"]).json(0);
    let nodes = status["nodes"].as_array().unwrap();
    assert_eq!((nodes.len(), nodes[0]["is_reference"].as_bool()), (NODES, Some(true)));
    for node in nodes {
        assert_eq!(node["connection"], "open", "{status}");
        assert!(node["stamps"].as_i64() > Some(0) && node["bytes"].as_u64() > Some(0), "{status}");
    }
    // The one with a counter of its own is related by the burst before, once that is written.
    going.await_answer(&["status"], |status| status["nodes"][4]["clock_ns"].as_u64() > Some(0));
    assert!(status["disk_free_bytes"].as_u64() > Some(0) && status["rules"][0]["glob"] == "switched*", "{status}");
}

fn kill_collector(site: &Site, node: &str) {
    let run = site.run_directory().display().to_string();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        if line.contains(&format!("role\0collect\0--node\0{node}\0")) && line.contains(&run) {
            let pid = entry.file_name().to_str().unwrap().parse().unwrap();
            // SAFETY: kill takes numbers alone.
            assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
            return;
        }
    }
    panic!("no collector of {node}");
}

#[test]
fn e2e_another_user_is_not_answered_and_a_wrong_request_is_wrong_input() {
    let going = Going::start("live-user");
    going.await_answer(&["status"], |reply| reply["nodes"].as_array().is_some_and(|nodes| nodes.len() == NODES));
    let run = going.site.opened().manifest().run;
    let socket = format!("/dev/shm/tickscope-{run:016x}/.control");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    going.ask(&["policy", "a b", "null"]).said(2, &["expected the names of points", "'a b'"]);
    going.ask(&["policy", "a*", "null", "--node", "n9"]).said(2, &["expected a node of n0", "n9"]);
    // SAFETY: geteuid has no arguments and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
        // It is refused before it has asked, and may ask all the same.
        let script = "import socket, sys, time\n\
                      one = socket.socket(socket.AF_UNIX)\none.connect(sys.argv[1])\ntime.sleep(0.3)\n\
                      one.sendall(b'\"status\"\\n')\nprint(one.recv(4096).decode())";
        let mut command = Command::new("python3");
        let reply = Ended::of(command.args(["-c", script, &socket]).uid(65534).gid(65534));
        assert!(reply.out.contains("cannot answer user 65534"), "{reply:?}");
    }
    going.stop();
}

#[test]
fn e2e_a_million_stamps_a_second_are_kept_while_others_are_switched() {
    if std::env::var_os("TICKSCOPE_TESTS").is_none_or(|tests| tests != "all") {
        return println!("not tried: set TICKSCOPE_TESTS=all");
    }
    let going = Going::start_at("live-million", (2000, 50), NODES);
    going.await_answer(&["channels"], |reply| channels(reply).len() == NODES * THREADS * 3 + own(reply));
    for policy in ["null", "buffered", "null", "buffered", "null", "buffered"] {
        going.policy("switched*", policy);
        std::thread::sleep(Duration::from_secs(1));
    }
    let reply = going.ask(&["channels"]).json(0);
    let of_program = channels(&reply).into_iter().filter(|(_, channel)| channel["pid"] != channel["thread"]);
    let rate: f64 = of_program.filter_map(|(_, channel)| channel["rate"].as_f64()).sum();
    let (site, turns) = going.stop();
    let run = site.opened();
    let all = run.channels().unwrap().found;
    let [stored, dropped] = [|row: &Row| row.stored, |row: &Row| row.dropped].map(|of| all.iter().map(of).sum::<i64>());
    println!("{rate:.0} stamps a second; {stored} stored, {dropped} lost and counted");
    for (node, [turns, _]) in turns.into_iter().enumerate() {
        expect_kept(&run, node, turns, 6);
    }
}
