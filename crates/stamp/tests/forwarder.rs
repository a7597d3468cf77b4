//! The target `forwarder`: every packet ends somewhere and is counted, and what is misaddressed is judged as an
//! independent recount of its stamps judges it, with every primitive and in every layout.

mod c_program;
mod forwarder_fence;
mod forwarder_trace;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use c_program::{Running, StampDirectory, compile, until};
use tickscope_stamp::block::unpadded;
use tickscope_stamp::handover::Block;

const LAYOUTS: [&str; 4] = ["contended", "alone", "spread", "single"];
const POINTS: [&str; 9] =
    ["generated", "moved", "arrived", "move-arrived", "taken", "written", "addressed", "received", "misaddressed"];

/// Primitives of a forwarder built with all that this machine has.
fn primitives() -> Vec<&'static str> {
    let mut names =
        vec!["rwl-spin", "rwl-spin-readers", "rwl-park", "rwl-park-writer", "sharded", "seqlock", "left-right"];
    if libraries().iter().any(|flag| flag == "-DWITH_URCU") {
        names.extend(["rcu", "rcu-sync"]);
    } else {
        eprintln!("LEFT OUT: rcu and rcu-sync, there is no liburcu");
    }
    if has_dpdk("rte-hash-rwl and rte-hash-rcu") {
        names.extend(["rte-hash-rwl", "rte-hash-rcu"]);
    }
    names
}

/// Whether there is DPDK; what is left out without it is told.
fn has_dpdk(what: &str) -> bool {
    let there = libraries().iter().any(|flag| flag == "-DWITH_DPDK");
    if !there {
        eprintln!("LEFT OUT: {what}, there is no DPDK");
    }
    there
}

/// Prints what the Makefile compiles the forwarder with.
fn script() -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../targets/forwarder/libraries.sh"))
}

fn libraries() -> &'static [String] {
    static FLAGS: OnceLock<Vec<String>> = OnceLock::new();
    FLAGS.get_or_init(|| {
        let printed = script().stderr(Stdio::null()).output().unwrap();
        assert!(printed.status.success());
        String::from_utf8(printed.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
    })
}

fn compiled(compiler: &str, flags: &[&str], output: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../targets/forwarder/forwarder.c");
    compile(compiler, &source, &[&["-D_GNU_SOURCE"], flags].concat(), output)
}

fn forwarder() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compiled("cc", &libraries().iter().map(String::as_str).collect::<Vec<_>>(), "forwarder"))
}

/// Without any library that it could have.
fn bare() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compiled("cc", &[], "forwarder-bare"))
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Stamp {
    tick: i64,
    id: i64,
    value: i64,
}

/// A trial that ended: its line, and its stamps by point in the order of their ticks.
struct Trial {
    line: String,
    stamps: BTreeMap<String, Vec<Stamp>>,
    users: i64,
}

impl Trial {
    /// Under ordinary scheduling, as fast as it goes, with these options.
    fn of(users: i64, options: &[&str]) -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let directory = StampDirectory::new(&format!("forwarder-{serial}"));
        let mut command = Command::new(forwarder());
        command.args(["--scheduling", "shared", "--rate", "0", "--users", &users.to_string()]).args(options);
        directory.measure(&mut command).env("TICKSCOPE_POOL_BYTES", "8388608");
        let ended = command.output().unwrap();
        assert!(ended.status.success(), "{options:?}: {ended:?}");
        Self { line: String::from_utf8(ended.stdout).unwrap(), stamps: stamps(&directory), users }
    }

    fn at(&self, point: &str) -> &[Stamp] {
        self.stamps.get(point).map_or(&[], Vec::as_slice)
    }

    fn count(&self, point: &str) -> i64 {
        self.at(point).len() as i64
    }

    fn number(&self, name: &str) -> i64 {
        number(&self.line, name)
    }

    /// The last of its user's stamps at `point` before that tick; -1: there is none.
    fn last_before(&self, of_user: &BTreeMap<i64, Vec<Stamp>>, id: i64, tick: i64) -> i64 {
        let all = of_user.get(&(id % self.users)).map_or(&[][..], Vec::as_slice);
        all[..all.partition_point(|stamp| stamp.tick < tick)].iter().map(|stamp| stamp.id).max().unwrap_or(-1)
    }

    fn by_user(&self, point: &str) -> BTreeMap<i64, Vec<Stamp>> {
        let mut users: BTreeMap<i64, Vec<Stamp>> = BTreeMap::new();
        for stamp in self.at(point) {
            users.entry(stamp.id % self.users).or_default().push(*stamp);
        }
        users
    }
}

/// The number behind that name in a line of JSON.
fn number(line: &str, name: &str) -> i64 {
    let (_, rest) = line.split_once(&format!("\"{name}\": ")).unwrap_or_else(|| panic!("no {name} in {line}"));
    let text: String = rest.chars().take_while(|letter| letter.is_ascii_digit() || *letter == '-').collect();
    text.parse().unwrap_or_else(|_| panic!("{name} in {line}"))
}

/// Packets before the trace that make users known.
fn primed(line: &str) -> i64 {
    number(line, "primed_moves") + number(line, "primed_data")
}

fn stamps(directory: &StampDirectory) -> BTreeMap<String, Vec<Stamp>> {
    let mut points: BTreeMap<String, Vec<Stamp>> = BTreeMap::new();
    for pool in directory.pools() {
        for block in (0..pool.block_count()).map(|index| pool.block(index)).filter(|block| block.is_described()) {
            let stamps = points.entry(unpadded(&block.header().point).unwrap().to_string()).or_default();
            let records = (0..block.capacity()).filter_map(|slot| block.record(slot));
            stamps.extend(records.map(|record| Stamp {
                tick: record.tick,
                id: record.id,
                value: record.rider.map_or(0, |rider| rider.value),
            }));
        }
    }
    points.values_mut().for_each(|stamps| stamps.sort());
    points
}

/// 6000 packets of 50 users, a third of them moves, between short rings.
fn check_all_are_accounted_for(datapath: &str, layout: &str, fib: &str, ring: &str) {
    let path = ["--datapath", datapath, "--layout", layout, "--fib", fib, "--ring", ring];
    let trial = Trial::of(50, &[&path[..], &["--packets", "6000", "--link", "96", "--cdr", "0.5"]].concat());
    let [data, moves] = ["sent_data", "sent_moves"].map(|name| trial.number(name));
    let [control, lost, returning] = ["control", "data", "return"].map(|name| trial.number(name));
    let [received, misaddressed] = ["received", "misaddressed"].map(|name| trial.number(name));
    let what = format!("{layout} {fib} {}", trial.line);
    assert_eq!(data + moves, 6000 + primed(&trial.line), "{what}");
    assert_eq!(moves, trial.number("written") + control, "{what}");
    assert_eq!(data, received + misaddressed + lost + returning, "{what}");
    assert_eq!(trial.number("torn"), 0, "{what}");
    let taken = data - lost;
    let expected = [data, moves, data, moves, taken, moves - control, taken, received, misaddressed];
    assert_eq!(POINTS.map(|point| trial.count(point)), expected, "{what}");
    // One thread hands on what it takes, 32 at most: 8 have room, or one, but 256 always.
    assert!(layout != "single" || (lost > 0) == (ring != "256"), "{what}");
}

#[test]
fn c_every_packet_is_received_dropped_or_written_and_each_stamp_is_there() {
    for (layout, ring) in LAYOUTS.iter().flat_map(|layout| ["8", "256", "newest"].map(|ring| (*layout, ring))) {
        for fib in ["rwl-spin", "rwl-park", "seqlock"] {
            check_all_are_accounted_for("rings", layout, fib, ring);
        }
    }
    for fib in primitives().into_iter().filter(|fib| !fib.starts_with("rte")) {
        check_all_are_accounted_for("rings", "spread", fib, "8");
    }
}

#[test]
fn c_every_packet_is_accounted_for_over_dpdk() {
    if !has_dpdk("net_ring") {
        return;
    }
    for layout in LAYOUTS {
        for (fib, ring) in [("rwl-spin", "8"), ("none", "256")] {
            check_all_are_accounted_for("net_ring", layout, fib, ring);
        }
    }
    for fib in ["rte-hash-rwl", "rte-hash-rcu"] {
        check_all_are_accounted_for("net_ring", "spread", fib, "8");
    }
}

#[test]
fn c_memory_of_the_table_and_live_versions_are_told() {
    let told = |fib: &str| {
        let trial = Trial::of(50, &["--layout", "single", "--fib", fib, "--packets", "6000", "--cdr", "1"]);
        [trial.number("fib_bytes"), trial.number("versions_most"), trial.number("written")]
    };
    let [cells, none, _] = told("seqlock");
    assert_eq!((cells, none), (128 * 32, 0)); // twice as many cells as users, in a power of two
    assert_eq!(told("left-right")[..2], [cells + 128 * 2 * 16, 0]);
    assert_eq!(told("sharded")[..2], [cells + 64 * 64, 0]);
    if libraries().iter().any(|flag| flag == "-DWITH_URCU") {
        // The writer that waits has one version besides the users' own; else any number waits for call_rcu.
        assert_eq!(told("rcu-sync")[1], 51);
        let [_, versions, written] = told("rcu");
        assert!((51..=50 + written).contains(&versions), "{versions} {written}");
    }
    if !has_dpdk("memory of rte-hash-rwl and rte-hash-rcu") {
        return;
    }
    assert!(told("rte-hash-rwl")[0] > 50 * 16);
    // The reader rests once a turn, in which 64 moves are written at most: older versions are used again.
    let [bytes, versions, written] = told("rte-hash-rcu");
    assert!(bytes > 0 && (51..=50 + 2 * 64).contains(&versions) && written > 2000, "{bytes} {versions} {written}");
}

#[test]
fn c_a_packet_is_misaddressed_if_its_user_moved_on_before_it_was_received() {
    let mut judged = 0;
    // Sender and receiver share a thread, so ticks say what was sent before what was received.
    for layout in ["single", "alone", "contended"] {
        for fib in primitives().into_iter().filter(|fib| !fib.starts_with("rte")) {
            let trial = Trial::of(5, &["--layout", layout, "--fib", fib, "--packets", "4000", "--cdr", "0.2"]);
            let moved = trial.by_user("moved");
            let address: BTreeMap<i64, i64> =
                trial.at("addressed").iter().map(|stamp| (stamp.id, stamp.value)).collect();
            for (point, expected) in [("received", false), ("misaddressed", true)] {
                for stamp in trial.at(point) {
                    let last = trial.last_before(&moved, stamp.id, stamp.tick);
                    assert_eq!(address[&stamp.id] < last, expected, "{layout} {fib} {stamp:?} {last}");
                }
            }
            judged += trial.count("misaddressed");
        }
    }
    assert!(judged > 0);
}

#[test]
fn c_an_address_is_the_last_that_was_written() {
    for fib in primitives() {
        // Control and data share a thread: what was written before a packet was taken is what it is addressed by.
        for layout in ["single", "alone"] {
            let trial = Trial::of(5, &["--layout", layout, "--fib", fib, "--packets", "4000", "--cdr", "0.2"]);
            let (written, taken) = (trial.by_user("written"), trial.at("taken"));
            let taken: BTreeMap<i64, i64> = taken.iter().map(|stamp| (stamp.id, stamp.tick)).collect();
            let mut moved_users = 0;
            for stamp in trial.at("addressed") {
                let expected = trial.last_before(&written, stamp.id, taken[&stamp.id]);
                assert_eq!(stamp.value, expected, "{layout} {fib} {stamp:?}");
                moved_users += i64::from(expected >= 0);
            }
            assert!(moved_users > 100, "{layout} {fib}: {moved_users}");
        }
        // Where they do not, it never goes back, and is one of the user's own.
        let trial = Trial::of(3, &["--layout", "contended", "--fib", fib, "--packets", "20000", "--cdr", "1"]);
        let written: BTreeSet<i64> = trial.at("written").iter().map(|stamp| stamp.id).collect();
        let mut last = BTreeMap::new();
        let mut addressed = trial.at("addressed").to_vec();
        addressed.sort_by_key(|stamp| stamp.id);
        for stamp in addressed {
            let last = last.entry(stamp.id % 3).or_insert(-1);
            assert!(stamp.value >= *last, "{fib} {stamp:?} {last}");
            assert!(stamp.value == -1 || stamp.value % 3 == stamp.id % 3 && written.contains(&stamp.value));
            *last = stamp.value;
        }
        assert_eq!(trial.number("torn"), 0);
    }
}

#[test]
fn c_of_packets_that_wait_only_the_newest_is_taken() {
    let trial = Trial::of(50, &["--layout", "single", "--packets", "6000", "--ring", "newest"]);
    let newest_of_batch: BTreeMap<i64, i64> = trial.at("arrived").iter().map(|stamp| (stamp.tick, stamp.id)).collect();
    let mut taken: Vec<i64> = trial.at("taken").iter().map(|stamp| stamp.id).collect();
    taken.sort_unstable();
    assert_eq!(taken, newest_of_batch.into_values().collect::<Vec<_>>());
    assert_eq!(trial.number("data"), trial.count("arrived") - trial.count("taken"));
}

#[test]
fn c_without_a_table_nothing_is_misaddressed() {
    let trial = Trial::of(5, &["--layout", "single", "--fib", "none", "--packets", "4000", "--cdr", "0.2"]);
    assert_eq!((trial.number("misaddressed"), trial.count("misaddressed")), (0, 0));
    assert_eq!(trial.count("received"), trial.count("generated"));
    assert!(trial.at("addressed").iter().all(|stamp| stamp.value == -2));
}

#[test]
fn c_a_trace_of_so_many_moves_is_as_long_as_its_cdr_wants() {
    for (cdr, packets) in [("0.1", 5_500), ("0.01", 50_500), ("1", 1000)] {
        let trial = Trial::of(1, &["--layout", "single", "--moves", "500", "--cdr", cdr]);
        assert_eq!(trial.number("sent_data") + trial.number("sent_moves"), packets + primed(&trial.line));
    }
}

#[test]
fn c_the_way_back_has_room_of_its_own() {
    let datapaths = ["rings", "net_ring"].into_iter().filter(|name| *name == "rings" || has_dpdk("net_ring"));
    for datapath in datapaths {
        let words = ["--datapath", datapath, "--layout", "single", "--link-back", "8", "--packets", "6400"];
        let trial = Trial::of(1, &[&words[..], &["--cdr", "0"]].concat());
        // One thread sends 32 packets in turn, of which 8 find room on their way back.
        assert_eq!([trial.number("received"), trial.number("return")], [1600, 4800], "{}", trial.line);
    }
}

#[test]
fn c_the_bucket_gives_no_more_than_its_rate_and_one_reading_to_a_batch() {
    let trial = Trial::of(10, &["--layout", "alone", "--rate", "20000", "--packets", "2000"]);
    let achieved = trial.number("achieved_pps");
    assert!(achieved <= 20_200, "{achieved}");
    check_verdict(&trial.line);
    let unpaced = Trial::of(10, &["--layout", "single", "--packets", "3200", "--cdr", "0"]);
    let ticks: BTreeSet<i64> = unpaced.at("generated").iter().map(|stamp| stamp.tick).collect();
    assert_eq!(ticks.len(), 100); // 32 packets each
}

#[test]
fn c_a_delay_of_the_consumer_is_spent_on_every_packet() {
    let trial = Trial::of(10, &["--layout", "single", "--packets", "640", "--cdr", "0", "--delay", "2000"]);
    let taken: BTreeMap<i64, i64> = trial.at("taken").iter().map(|stamp| (stamp.id, stamp.tick)).collect();
    let batches: BTreeSet<i64> = taken.values().copied().collect();
    for stamp in trial.at("addressed") {
        let of_batch = taken.values().filter(|tick| **tick == taken[&stamp.id]).count() as i64;
        assert!(stamp.tick - taken[&stamp.id] >= of_batch, "{stamp:?}");
    }
    // The counter's rate is the machine's: the program's own mean says that 32 packets took 64 us at least.
    assert!(trial.number("delay_mean_ns") >= 63_000 && batches.len() == 20, "{}", trial.line);
}

/// What this machine lets the program do: its words and exit code.
fn said(command: &mut Command) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = command.stdin(Stdio::null()).output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[test]
fn c_bad_input_ends_with_a_sentence() {
    let usage = "Usage: forwarder [--rate PPS]";
    for (words, expected) in [
        (&["--fib", "rwl"][..], "rcu-sync, rte-hash-rwl or rte-hash-rcu, found rwl"),
        (&["--layout", "L0"], "expected --layout contended, alone, spread or single, found L0"),
        (
            &["--datapath", "wires"],
            "expected --datapath rings, net_ring, udp, net_memif, net_af_packet or net_af_xdp, found wires",
        ),
        (&["--invalid", "no"], "expected --invalid tell or fail, found no"),
        (&["--scheduling", "mine"], "expected --scheduling own or shared, found mine"),
        (&["--rate", "-1"], "expected --rate in packets a second from 0 to 1e+08, found -1"),
        (&["--rate", "1e8", "--seconds", "60"], "expected --rate times --seconds of 1 to 67108864 packets"),
        (&["--rate", "0"], "expected --rate times --seconds of 1 to 67108864 packets"),
        (&["--cdr", "1.5"], "expected --cdr, control packets a data packet from 0 to 1, found 1.5"),
        (&["--users", "0"], "expected --users from 1 to 65536, found 0"),
        (&["--ring", "many"], "expected --ring in packets from 1 to 65536, found many"),
        (&["--cdr", "0", "--moves", "10"], "expected --moves with a --cdr of 0.000001 or more, found less"),
        (&["--moves", "10", "--packets", "10"], "expected --packets or --moves, found both"),
        (&["--cdr", "0.01", "--moves", "1000000"], "or --packets, or --moves among so many, found another number"),
        (
            &["--datapath", "udp", "--role", "source", "--at", "127.0.0.1:1", "--link-back", "8"],
            "expected --link-back with --datapath rings or net_ring, found udp",
        ),
        (&["--rings", "64"], "expected one of the options in forwarder.c, found --rings"),
        (&["--seed"], "found nothing"),
    ] {
        let (code, words_said) = said(Command::new(bare()).args(words));
        assert!(
            code == Some(2) && words_said.contains(expected) && words_said.contains(usage),
            "{words:?}: {words_said}"
        );
    }
}

#[test]
fn c_what_is_not_there_is_named() {
    let none = script().env("PKG_CONFIG_LIBDIR", "/nonexistent").env_remove("PKG_CONFIG_PATH").output().unwrap();
    let words_said = String::from_utf8(none.stderr).unwrap();
    assert!(none.status.success() && none.stdout.is_empty(), "a build without libraries goes on: {words_said}");
    for library in ["liburcu", "libdpdk"] {
        assert!(words_said.contains(&format!("expected {library}, found none. `make forwarder`")), "{words_said}");
    }
    for (words, expected) in [
        (["--fib", "rcu"], "built without liburcu; run `make forwarder`"),
        (["--fib", "rcu-sync"], "built without liburcu"),
        (["--fib", "rte-hash-rcu"], "built without DPDK"),
        (["--datapath", "net_ring"], "cannot use --datapath net_ring: built without DPDK; run `make forwarder`"),
    ] {
        let (code, words_said) = said(Command::new(bare()).args(words).args(["--scheduling", "shared"]));
        assert!(code == Some(1) && words_said.contains(expected), "{words:?}: {words_said}");
    }
    let one_core = ["taskset", "-c", &first_core(), bare().to_str().unwrap()].map(str::to_owned);
    for layout in ["contended", "alone", "spread"] {
        let (code, words) = said(Command::new(&one_core[0]).args(&one_core[1..]).args(["--layout", layout]));
        let expected = format!("cores for --layout {layout}, found 1. Use --layout");
        let reserve = words.contains("kernel.sched_rt_runtime_us"); // a machine without one is refused before
        assert!(code == Some(1) && (words.contains(&expected) || reserve), "{words}");
    }
}

#[test]
fn c_a_trial_whose_figures_may_not_be_used_fails_where_that_is_asked_for() {
    let words = ["--scheduling", "shared", "--packets", "100", "--invalid", "fail"];
    let (code, words) = said(Command::new(bare()).args(words));
    assert!(code == Some(1) && words.contains("may not be used: \"shared scheduling\""), "{words}");
}

/// A core that this process may use.
fn first_core() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    list.split([',', '-']).next().unwrap().to_owned()
}

#[test]
fn c_real_time_that_is_not_granted_is_refused() {
    let mut command = Command::new(bare());
    command.args(["--layout", "single", "--packets", "1000"]);
    // SAFETY: two system calls, without memory: root without this capability has no more rights than others.
    unsafe {
        command.pre_exec(|| {
            const CAP_SYS_NICE: libc::c_ulong = 23;
            libc::prctl(libc::PR_CAPBSET_DROP, CAP_SYS_NICE, 0, 0, 0);
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_RTPRIO, &none);
            Ok(())
        })
    };
    let (code, words) = said(&mut command);
    let expected = "cannot poll in real time: Operation not permitted; run as root, or use --scheduling shared";
    assert!(code == Some(1) && (words.contains(expected) || words.contains("sched_rt_runtime_us")), "{words}");
}

/// A trial that is under way: its sender has sent, and has a minute to go.
fn started(directory: &StampDirectory) -> Running {
    let mut command = Command::new(forwarder());
    command.args(["--scheduling", "shared", "--layout", "alone", "--rate", "2000", "--seconds", "60", "--users", "10"]);
    let running = Running(directory.measure(command.stdout(Stdio::piped())).spawn().unwrap());
    until(|| stamps(directory).get("received").is_some_and(|stamps| !stamps.is_empty()));
    running
}

fn line_of(mut running: Running, signal: libc::c_int) -> String {
    let mut line = String::new();
    // SAFETY: the program is this test's own child and not waited for yet.
    unsafe { libc::kill(running.0.id() as i32, signal) };
    std::io::Read::read_to_string(&mut running.0.stdout.take().unwrap(), &mut line).unwrap();
    assert!(running.0.wait().unwrap().success());
    line
}

#[test]
fn c_a_trial_that_is_stopped_drains_and_says_that_it_was_cut() {
    let directory = StampDirectory::new("forwarder-cut");
    let line = line_of(started(&directory), libc::SIGTERM);
    let [sent, moves] = ["sent_data", "sent_moves"].map(|name| number(&line, name));
    let ended = ["received", "misaddressed", "data", "return"].map(|name| number(&line, name));
    assert_eq!((sent, moves), (ended.iter().sum(), number(&line, "written") + number(&line, "control")));
    assert!(line.contains(&format!("cut after {} of 120000 packets", sent + moves)), "{line}");
    assert!(line.contains("\"shared scheduling\"") && line.ends_with("\"valid\": false}\n"), "{line}");
}

/// What the line calls a reason is one, and the other way round; on either side of each limit.
fn check_verdict(line: &str) {
    let threads = line.split("{\"core\": ").skip(1);
    for (at, thread) in threads.enumerate() {
        let share = decimal(thread, "stalled_share");
        assert_eq!(line.contains(&format!("thread {at} was stalled")), share > 0.01, "{line}");
    }
    let (achieved, asked) = (decimal(line, "achieved_pps"), decimal(line, "rate_pps"));
    assert_eq!(line.contains(" packets a second\""), achieved < 0.98 * asked, "{line}");
    assert!(line.contains("\"exchange_ns\": [0, 0]"), "{line}"); // not under shared scheduling
}

fn decimal(line: &str, name: &str) -> f64 {
    let (_, rest) = line.split_once(&format!("\"{name}\": ")).unwrap();
    rest.split([',', '}']).next().unwrap().parse().unwrap()
}

#[test]
fn c_a_core_that_was_away_is_told_as_stalled() {
    let directory = StampDirectory::new("forwarder-stall");
    let running = started(&directory);
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", running.0.id())).unwrap();
    let id = running.0.id() as i32;
    // SAFETY: the program is this test's own child and not waited for yet.
    unsafe { libc::kill(id, libc::SIGSTOP) };
    until(|| state().contains(") T "));
    let stopped = Instant::now();
    until(|| stopped.elapsed().as_millis() > 100);
    let away_us = stopped.elapsed().as_micros() as i64;
    // SAFETY: as above.
    unsafe { libc::kill(id, libc::SIGCONT) };
    let line = line_of(running, libc::SIGTERM);
    for thread in line.split("{\"core\": ").skip(1) {
        assert!(number(thread, "longest_stall_us") >= away_us * 99 / 100, "{away_us}: {line}");
        assert!(number(thread, "stalls") >= 1, "{line}");
    }
    check_verdict(&line);
}

/// Two processes that meet somewhere, each in a namespace or in none.
struct Pair {
    words: Vec<String>,
    spaces: [Vec<String>; 2],
}

impl Pair {
    /// Under ordinary scheduling, 6000 packets of 50 users.
    fn of(datapath: &str, at: [&str; 2], spaces: [Vec<String>; 2]) -> [Command; 2] {
        let common = ["--scheduling", "shared", "--users", "50", "--packets", "6000", "--datapath", datapath];
        let pair = Self { words: common.map(str::to_owned).into(), spaces };
        ["source", "forwarder"].map(|role| {
            let end = usize::from(role == "forwarder");
            let program = forwarder().to_str().unwrap().to_owned();
            let line = [&pair.spaces[end][..], &[program], &pair.words[..]].concat();
            let mut command = Command::new(&line[0]);
            command.args(&line[1..]).args(["--role", role, "--at", at[end]]);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command
        })
    }

    fn here(datapath: &str, at: &str) -> [Command; 2] {
        Self::of(datapath, [at, at], [vec![], vec![]])
    }
}

/// What a process said at its end: exit code, line of JSON, words.
fn ended(running: Running) -> (Option<i32>, String, String) {
    let running = std::cell::RefCell::new(running);
    until(|| running.borrow_mut().0.try_wait().unwrap().is_some());
    let (mut running, mut line, mut words) = (running.into_inner(), String::new(), String::new());
    std::io::Read::read_to_string(&mut running.0.stdout.take().unwrap(), &mut line).unwrap();
    std::io::Read::read_to_string(&mut running.0.stderr.take().unwrap(), &mut words).unwrap();
    (running.0.wait().unwrap().code(), line, words)
}

fn running(command: &mut Command) -> Running {
    Running(command.spawn().unwrap())
}

fn free_port() -> String {
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// A path for a socket of this test.
fn socket_path(name: &str) -> String {
    let path = std::env::temp_dir().join(format!("tsf-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path); // of a test that was killed
    path.to_str().unwrap().to_owned()
}

/// What both counted is the whole; where nothing may be lost on the way, nothing is.
fn check_pair([source, mut forwarder]: [Command; 2], may_lose: bool) -> [String; 2] {
    let [source, forwarder] = check_counts(source, running(&mut forwarder), may_lose);
    [source.2, forwarder.2]
}

fn check_counts(mut source: Command, forwarder: Running, may_lose: bool) -> [(Option<i32>, String, String); 2] {
    let (source, forwarder) = (ended(running(&mut source)), ended(forwarder));
    let what = format!("{source:?} {forwarder:?}");
    assert_eq!((source.0, forwarder.0), (Some(0), Some(0)), "{what}");
    let (of_source, of_forwarder) = (|name: &str| number(&source.1, name), |name: &str| number(&forwarder.1, name));
    let sent = of_source("sent_data") + of_source("sent_moves");
    assert_eq!(sent, 6000 + primed(&source.1), "{what}");
    assert_eq!(sent, of_forwarder("arrived") + of_source("there"), "{what}");
    assert_eq!(
        of_forwarder("returned"),
        of_source("received") + of_source("misaddressed") + of_source("back"),
        "{what}"
    );
    let ended = ["written", "control", "data", "return", "returned"].map(of_forwarder);
    assert_eq!(of_forwarder("arrived"), ended.iter().sum::<i64>(), "{what}");
    assert!(of_source("there") >= 0 && of_source("back") >= 0 && of_forwarder("torn") == 0, "{what}");
    assert!(may_lose || of_source("there") + of_source("back") == 0, "{what}");
    [source, forwarder]
}

#[test]
fn c_two_processes_count_what_is_lost_between_them() {
    let port = free_port();
    let mut pair = Pair::here("udp", &port);
    pair.iter_mut().for_each(|command| _ = command.args(["--rate", "0", "--layout", "spread", "--fib", "seqlock"]));
    check_pair(pair, true);
    if has_dpdk("net_memif, and net_af_packet") {
        let at = socket_path("counts");
        let mut pair = Pair::here("net_memif", &at);
        pair.iter_mut().for_each(|command| _ = command.args(["--rate", "0", "--fib", "rte-hash-rcu"]));
        check_pair(pair, false);
        assert!(!Path::new(&at).exists());
    }
}

/// Two namespaces with a link between them.
struct Spaces([String; 2]);

impl Spaces {
    fn new() -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(0); // tests of one process run at once
        let id = format!("{}-{}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed));
        let (spaces, links) =
            (["a", "b"].map(|end| format!("tsf{id}{end}")), ["a", "b"].map(|end| format!("vf{id}{end}")));
        let spaces = Self(spaces);
        let ip = |words: &[&str]| assert!(Command::new("ip").args(words).status().unwrap().success(), "ip {words:?}");
        let [a, b] = &spaces.0;
        ip(&["netns", "add", a]);
        ip(&["netns", "add", b]);
        ip(&["link", "add", &links[0], "netns", a, "type", "veth", "peer", "name", &links[1], "netns", b]);
        for (space, link) in [(a, &links[0]), (b, &links[1])] {
            ip(&["-n", space, "link", "set", link, "name", "wire"]);
            ip(&["-n", space, "link", "set", "wire", "up"]);
        }
        spaces
    }

    fn pair(&self, datapath: &str) -> [Command; 2] {
        let inside = self.0.clone().map(|name| ["ip", "netns", "exec", &name].map(str::to_owned).to_vec());
        Pair::of(datapath, ["wire", "wire"], inside)
    }
}

impl Drop for Spaces {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = Command::new("ip").args(["netns", "del", name]).status(); // it may not have been made
        }
    }
}

/// Namespaces for a pair over an interface; what is left out without them is told.
fn spaces() -> Option<Spaces> {
    // SAFETY: it has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("LEFT OUT: net_af_packet and net_af_xdp, only root makes namespaces");
        return None;
    }
    has_dpdk("net_af_packet and net_af_xdp").then(Spaces::new)
}

#[test]
fn c_frames_of_an_interface_are_counted_by_both_ends() {
    let Some(spaces) = spaces() else { return };
    for datapath in ["net_af_packet", "net_af_xdp"] {
        let mut pair = spaces.pair(datapath);
        pair.iter_mut().for_each(|command| _ = command.args(["--rate", "100000", "--fib", "left-right"]));
        for words in check_pair(pair, true) {
            assert!(!words.contains("libxdp") && !words.contains("libbpf"), "{words}");
        }
    }
}

#[test]
fn c_an_interface_that_cannot_be_used_is_named_with_what_helps() {
    let Some(spaces) = spaces() else { return };
    for datapath in ["net_af_packet", "net_af_xdp"] {
        let (code, _, words) = ended(running(&mut Pair::here(datapath, "nosuch")[0]));
        assert!(code == Some(1) && words.contains("forwarder: nosuch: No such device"), "{words}");
        let [mut source, _] = spaces.pair(datapath);
        without_network_rights(&mut source);
        let (code, _, words) = ended(running(&mut source));
        let remedy = "; its interface is opened by root, and has to be up";
        assert!(code == Some(1) && words.contains("cannot use DPDK: ") && words.contains(remedy), "{words}");
    }
}

/// A process that was root, and opens no interface any more.
fn without_network_rights(command: &mut Command) {
    // SAFETY: system calls alone, without memory.
    unsafe {
        command.pre_exec(|| {
            const CAP_NET_ADMIN: libc::c_ulong = 12;
            const CAP_NET_RAW: libc::c_ulong = 13;
            for right in [CAP_NET_ADMIN, CAP_NET_RAW] {
                libc::prctl(libc::PR_CAPBSET_DROP, right, 0, 0, 0);
            }
            Ok(())
        })
    };
}

#[test]
fn c_a_process_at_an_interface_whose_peer_is_killed_ends_and_says_what_it_counted() {
    let Some(spaces) = spaces() else { return };
    for datapath in ["net_af_packet", "net_af_xdp"] {
        for role in ["source", "forwarder"] {
            check_survivor(spaces.pair(datapath), "wire", role);
        }
    }
    check_pair(spaces.pair("net_af_xdp"), true); // though programs of those that were killed are still there
}

#[test]
fn c_a_source_is_who_greets_and_what_others_send_is_counted() {
    let port = free_port();
    let [source, mut forwarder] = Pair::here("udp", &port);
    let forwarder = running(&mut forwarder);
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.connect(&port).unwrap();
    // What is sent before the forwarder is there is refused at once.
    until(|| stranger.send(&[0; 60]).is_ok() && stranger.take_error().unwrap().is_none());
    let mut greeting = [0; 60];
    greeting[36] = 2; // the kind of a greeting, without its words
    for datagram in [&greeting[..], &[1; 60], &[0; 59], &[]] {
        stranger.send(datagram).unwrap();
    }
    let [_, forwarder] = check_counts(source, forwarder, true);
    assert_eq!(number(&forwarder.1, "strange"), 5, "{forwarder:?}");
}

#[test]
fn c_a_fault_of_dpdks_own_thread_is_how_the_other_process_is_seen_to_go() {
    if !has_dpdk("a fault of DPDK's own thread") {
        return;
    }
    for role in ["source", "forwarder"] {
        let at = socket_path(&format!("fault-{role}"));
        check_left(Pair::here("net_memif", &at), &at, role, |survivor, other| {
            fault_dpdks_thread(survivor.0.id());
            Some(other)
        });
        let _ = std::fs::remove_file(&at); // a process that is left in this way leaves it
    }
}

/// Lets DPDK's thread of that process fault as one does whose shared memory was taken away.
fn fault_dpdks_thread(process: u32) {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap().map(|thread| thread.unwrap().path());
    let is_dpdks = |thread: &PathBuf| std::fs::read_to_string(thread.join("comm")).unwrap().starts_with("eal-intr");
    let thread = threads.into_iter().find(is_dpdks).unwrap();
    let thread: libc::c_long = thread.file_name().unwrap().to_str().unwrap().parse().unwrap();
    // SAFETY: the process is this test's own child and not waited for yet.
    assert_eq!(unsafe { libc::syscall(libc::SYS_tgkill, i64::from(process), thread, libc::SIGSEGV) }, 0);
}

#[test]
fn c_a_socket_that_was_left_behind_is_replaced_and_nothing_else_is() {
    if !has_dpdk("stale sockets of net_memif") {
        return;
    }
    let at = socket_path("stale");
    let of_another = std::os::unix::net::UnixListener::bind(&at).unwrap();
    let (code, _, words) = ended(running(&mut Pair::here("net_memif", &at)[1]));
    assert!(code == Some(2) && words.contains("expected --at PATH of a socket"), "{words}");
    drop(of_another);
    std::fs::remove_file(&at).unwrap();
    std::fs::write(&at, "kept").unwrap();
    let (code, _, words) = ended(running(&mut Pair::here("net_memif", &at)[1]));
    assert!(code == Some(2) && words.contains("or of nothing"), "{words}");
    assert_eq!(std::fs::read(&at).unwrap(), b"kept");
    std::fs::remove_file(&at).unwrap();
    let left = running(&mut Pair::here("net_memif", &at)[1]);
    until(|| Path::new(&at).exists());
    left.kill();
    let [_, words] = check_pair(Pair::here("net_memif", &at), false);
    assert!(words.contains("the socket of a process that is gone"), "{words}");
}

/// The other process is killed while this one polls.
fn check_survivor(pair: [Command; 2], at: &str, role: &str) {
    check_left(pair, at, role, |_, other| {
        other.kill();
        None
    });
}

/// Something happens to the process of that role, or to the other one, while both poll.
fn check_left(pair: [Command; 2], at: &str, role: &str, happens: impl FnOnce(&Running, Running) -> Option<Running>) {
    let directory = StampDirectory::new(&format!("forwarder-left-{role}-{}", at.replace('/', "-")));
    let [mut source, mut forwarder] = pair;
    for command in [&mut source, &mut forwarder] {
        command.args(["--rate", "2000", "--packets", "120000"]);
    }
    directory.measure(&mut source);
    let (forwarder, source) = (running(&mut forwarder), running(&mut source));
    until(|| stamps(&directory).get("received").is_some_and(|stamps| !stamps.is_empty()));
    let (survivor, other) = if role == "source" { (source, forwarder) } else { (forwarder, source) };
    let _other = happens(&survivor, other);
    let (code, line, words) = ended(survivor);
    let gone = if role == "source" { "forwarder" } else { "source" };
    let expected = format!("the {gone} at {at} went before it parted; what was counted until then is told");
    assert!(code == Some(1) && words.contains(&expected), "{role}: {code:?} {words} {line}");
    assert!(line.contains("\"the other process went\"") && line.contains("\"valid\": false"), "{line}");
    let counted = if role == "source" { "received" } else { "arrived" };
    assert!(number(&line, counted) > 0, "{line}");
}

#[test]
fn c_a_process_whose_peer_is_killed_ends_and_says_what_it_counted() {
    for role in ["source", "forwarder"] {
        let port = free_port();
        check_survivor(Pair::here("udp", &port), &port, role);
        if has_dpdk("a peer of net_memif that is killed") {
            let at = socket_path(role);
            check_survivor(Pair::here("net_memif", &at), &at, role);
            let _ = std::fs::remove_file(&at); // a killed forwarder leaves it
        }
    }
}

#[test]
fn c_two_processes_of_two_traces_are_refused() {
    let port = free_port();
    let [mut source, mut forwarder] = Pair::here("udp", &port);
    let forwarder = running(forwarder.args(["--seed", "7"]));
    let source = running(&mut source);
    let (code, _, words) = ended(forwarder);
    assert!(code == Some(1) && words.contains("Give both the same --rate, --seconds, --packets"), "{words}");
    assert_eq!(ended(source).0, Some(1));
}
