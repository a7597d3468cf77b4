//! The kernel's time-stamps of real packets, over loopback and between two network namespaces.
//!
//! What is compared with: the clock read by the program around each send. Sends do not overlap, so a stamp in another
//! id's window is a stamp under the wrong id.

mod c_program;

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use c_program::{Running, StampDirectory, compile_with, until};
use tickscope_stamp::block::unpadded;
use tickscope_stamp::handover::Block;
use tickscope_stamp::pool::Record;
use tickscope_tick::{Clock, RealtimeInjection};

/// What a program told: windows of time by id, and its counts.
struct Told {
    lines: Vec<(String, Vec<i64>)>,
    matching: String,
    counts: Vec<u64>,
    errors: String,
}

/// Paths in `Told::counts` of the first count of a kind, and of the rest.
const SCHED: usize = 0;
const TX: usize = 3;
const RX: usize = 6;
const REFUSED: usize = 9;
const FAILED: usize = 10;
const UNMATCHED: usize = 11;
const MERGED: usize = 12;
const FOREIGN: usize = 13;

impl Told {
    fn of(output: &std::process::Output) -> Self {
        let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{:?}\n{text}{errors}", output.status);
        let mut told = Self { lines: Vec::new(), matching: String::new(), counts: Vec::new(), errors: errors.into() };
        for line in text.lines() {
            let mut words = line.split(' ');
            let word = words.next().unwrap().to_owned();
            if word == "counts" {
                told.matching = words.next().unwrap().to_owned();
                told.counts = words.map(|number| number.parse().unwrap()).collect();
            } else {
                told.lines.push((word, words.map(|number| number.parse().unwrap()).collect()));
            }
        }
        told
    }

    /// By id, the numbers of the lines that begin with `word`.
    fn by_id(&self, word: &str) -> BTreeMap<i64, Vec<i64>> {
        let mine = self.lines.iter().filter(|(first, _)| first == word);
        mine.map(|(_, numbers)| (numbers[0], numbers[1..].to_vec())).collect()
    }

    /// Stamped, missing, discarded.
    fn tally(&self, kind: usize) -> [u64; 3] {
        [self.counts[kind], self.counts[kind + 1], self.counts[kind + 2]]
    }

    fn count(&self, place: usize) -> u64 {
        self.counts[place]
    }
}

/// Committed records of a point by id, of all pools; they must be `CLOCK_REALTIME`'s and each id there once.
fn stamps(directory: &StampDirectory, point: &str) -> BTreeMap<i64, Record> {
    let mut found = BTreeMap::new();
    for pool in directory.pools() {
        for block in (0..pool.block_count()).map(|index| pool.block(index)).filter(|block| block.is_described()) {
            if unpadded(&block.header().point).is_none_or(|found| found != point) {
                continue;
            }
            let clock = if point.starts_with("clock-bracket") { Clock::STAMPED } else { Clock::Realtime };
            assert_eq!(Clock::from_number(block.header().counter), Some(clock));
            for record in (0..block.capacity()).filter_map(|slot| block.record(slot)) {
                assert_eq!(found.insert(record.id, record), None, "{point} {}", record.id);
            }
        }
    }
    found
}

fn program() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile_with("cc", "kernel", &[], "kernel"))
}

fn free_port() -> String {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

fn run(directory: &StampDirectory, arguments: &[&str]) -> Told {
    Told::of(&directory.measure(Command::new(program()).args(arguments)).output().unwrap())
}

/// A receiver that gets all that a sender sends, each as a command begins: in a namespace, or not.
fn exchange(
    directory: &StampDirectory,
    [receives, sends]: [&[&str]; 2],
    address: &str,
    sender: [&str; 3],
) -> [Told; 2] {
    let (program, port) = (program(), free_port());
    let within = |place: &[&str]| {
        let mut words = place.iter().map(|word| (*word).to_owned()).chain([program.display().to_string()]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let [count, every, flags] = sender;
    let mut receiver = within(receives);
    let child = directory.measure(receiver.args(["receive", address, &port, every])).spawn().unwrap();
    let mut receiver = Running(child);
    until(|| is_bound(receives, &port));
    let mut sending = within(sends);
    let sent = directory.measure(sending.args(["send", address, &port, count, every, flags])).output().unwrap();
    let (mut out, mut err) = (receiver.0.stdout.take().unwrap(), receiver.0.stderr.take().unwrap());
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    std::io::Read::read_to_end(&mut out, &mut stdout).unwrap();
    std::io::Read::read_to_end(&mut err, &mut stderr).unwrap();
    let status = receiver.0.wait().unwrap();
    [Told::of(&sent), Told::of(&std::process::Output { status, stdout, stderr })]
}

/// Whether some UDP socket there has the port.
fn is_bound(place: &[&str], port: &str) -> bool {
    let mut words = place.iter().copied().chain(["cat", "/proc/net/udp", "/proc/net/udp6"]);
    let mut command = Command::new(words.next().unwrap());
    let sockets = command.args(words).output().unwrap();
    let hexadecimal = format!(":{:04X} ", port.parse::<u16>().unwrap());
    String::from_utf8_lossy(&sockets.stdout).contains(&hexadecimal)
}

/// Holds all stamps of a sender against its own account, moved by what was injected; returns how many were stamped.
fn check_sender(directory: &StampDirectory, told: &Told, every: i64, map: &RealtimeInjection) -> usize {
    let windows = told.by_id("sent");
    let (sched, tx) = (stamps(directory, "sched"), stamps(directory, "tx"));
    assert_eq!(sched.keys().collect::<Vec<_>>(), tx.keys().collect::<Vec<_>>());
    for (id, stamp) in &tx {
        assert_eq!(id % every, 0);
        let Some(window) = windows.get(id) else { continue }; // the packets that end it all
        let (before, after) = (map.apply(window[0]), map.apply(window[1]));
        assert!(before <= sched[id].tick && sched[id].tick <= stamp.tick && stamp.tick <= after, "id {id}");
    }
    let sampled = windows.keys().filter(|&id| id % every == 0).count();
    assert_eq!(windows.keys().filter(|&id| tx.contains_key(id)).count(), sampled, "none is missing on loopback");
    assert_eq!([told.tally(SCHED)[1], told.tally(TX)[1], told.count(UNMATCHED), told.count(FOREIGN)], [0; 4]);
    sampled
}

/// The same for the receiver; a packet's own stamp lies between its hand-over to the driver and its receive. Returns
/// how many of the packets that came were asked for.
fn check_receiver(directory: &StampDirectory, told: &Told, every: i64) -> usize {
    let (tx, rx, received) = (stamps(directory, "tx"), stamps(directory, "rx"), told.by_id("received"));
    for (id, stamp) in &rx {
        assert_eq!(id % every, 0);
        assert!(tx[id].tick <= stamp.tick && stamp.tick <= received[id][0], "id {id}");
    }
    let sampled = received.keys().filter(|&id| id % every == 0).count() as u64;
    assert_eq!(told.tally(RX).iter().sum::<u64>(), sampled, "each is stamped, missing or discarded");
    assert_eq!(told.tally(RX)[0], rx.len() as u64);
    let warm = rx.keys().next().copied().unwrap_or(i64::MAX);
    assert!(
        received.keys().all(|id| *id < warm || id % every != 0 || rx.contains_key(id)),
        "once warm, each is stamped"
    );
    sampled as usize
}

fn identity() -> RealtimeInjection {
    "0:0:0:0:2".parse().unwrap()
}

#[test]
fn c_every_transmit_stamp_is_filed_under_the_id_of_its_own_send() {
    for (flags, matching) in
        [("w", "SCM_TS_OPT_ID"), ("wlf", "SCM_TS_OPT_ID"), ("wlfe", "payload-echo"), ("wfe", "payload-echo")]
    {
        let directory = StampDirectory::new("kernel-match");
        let own = ["env"];
        let [sent, received] = exchange(&directory, [&own, &own], "127.0.0.1", ["600", "4", flags]);
        assert_eq!(sent.matching, matching);
        let sampled = check_sender(&directory, &sent, 4, &identity());
        let fails = flags.contains('f');
        assert_eq!((sampled, sent.count(FAILED)), if fails { (100, 50) } else { (150, 0) }, "{flags}");
        check_receiver(&directory, &received, 4);
    }
}

#[test]
fn c_the_same_over_ipv6() {
    for (flags, matching) in [("w", "SCM_TS_OPT_ID"), ("wlfe", "payload-echo")] {
        let directory = StampDirectory::new("kernel-match6");
        let own = ["env"];
        let [sent, received] = exchange(&directory, [&own, &own], "::1", ["600", "4", flags]);
        assert_eq!(sent.matching, matching);
        assert!(check_sender(&directory, &sent, 4, &identity()) >= 100, "{flags}");
        check_receiver(&directory, &received, 4);
    }
}

#[test]
fn c_a_looped_packet_is_its_own_send_s_whatever_headers_stand_before_it_or_nobody_s() {
    let told = Told::of(&Command::new(program()).args(["looped", "-"]).output().unwrap());
    let owners: Vec<_> = told.lines.iter().map(|(what, owner)| (what.as_str(), owner[0])).collect();
    let found = ["ethernet-4", "ethernet-6", "no-link-4", "no-link-6", "vlan-4"].map(|what| (what, 1));
    let nobody = [("shorter", -1), ("unknown", -1)];
    assert_eq!(owners[..5], found);
    assert_eq!(owners[5..9], [[("smallest", 3), ("large-6", 4)], nobody].concat());
    assert_eq!(owners[9..], [("gre", 1), ("vxlan", 1), ("padded", -1), ("within", -1), ("not-within", 6)]);
}

#[test]
fn c_the_header_breaks_no_rule_of_aliasing_and_reads_nothing_beyond_what_it_has() {
    let strict = ["-O2", "-fstrict-aliasing", "-Wstrict-aliasing=2"];
    compile_with("cc", "kernel", &strict, "kernel-strict");
    let checked = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-static-libasan"];
    let program = compile_with("cc", "kernel", &checked, "kernel-checked");
    for arguments in [["looped", "-"], ["gro", &free_port()], ["again", &free_port()], ["narrow", &free_port()]] {
        let directory = StampDirectory::new("kernel-checked");
        Told::of(&directory.measure(Command::new(&program).args(arguments)).output().unwrap());
    }
}

#[test]
fn c_sends_that_an_earlier_packet_s_refusal_fails_do_not_shift_the_stamps() {
    let directory = StampDirectory::new("kernel-refused");
    let told = run(&directory, &["send", "127.0.0.1", &free_port(), "300", "1", "w"]); // nobody listens there
    assert!(told.count(FAILED) > 50, "no send met ECONNREFUSED");
    assert!(check_sender(&directory, &told, 1, &identity()) > 50);
}

#[test]
fn c_the_kernel_s_stamps_pass_through_what_is_injected_into_realtime() {
    let (directory, text) = (StampDirectory::new("kernel-inject"), "0:1000000000000:12500:0:2");
    let mut command = Command::new(program());
    command.args(["send", "127.0.0.1", &free_port(), "100", "1", "w"]).env("TICKSCOPE_INJECT_REALTIME", text);
    let told = Told::of(&directory.measure(&mut command).output().unwrap());
    assert!(check_sender(&directory, &told, 1, &text.parse().unwrap()) > 20);
}

#[test]
fn c_between_namespaces_every_sampled_packet_has_sched_tx_and_rx_in_this_order() {
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } != 0 {
        return eprintln!("LEFT OUT: network namespaces want root");
    }
    let network = Veth::make();
    let (there, here) = (network.within(0), network.within(1));
    let both = [Veth::ADDRESS, Veth::ADDRESS_6];
    for (address, flags, every) in [(both[0], "wp", 1), (both[0], "wpe", 3), (both[1], "wpe", 1), (both[1], "wplf", 2)]
    {
        let directory = StampDirectory::new("kernel-veth");
        let places = [&there.each_ref().map(String::as_str)[..], &here.each_ref().map(String::as_str)[..]];
        let [sent, received] = exchange(&directory, places, address, ["900", &every.to_string(), flags]);
        let sampled = check_sender(&directory, &sent, every, &identity());
        let came = check_receiver(&directory, &received, every);
        assert!(received.tally(RX)[0] > 0, "none of {came} received stamps was kept");
        let brackets = stamps(&directory, "clock-bracket.realtime").len();
        assert!(brackets >= sampled + came, "{brackets} brackets: one before each send, one after each receive");
    }
}

#[test]
fn c_stamps_taken_before_the_kernel_is_warm_are_discarded_and_counted() {
    let (directory, [sent, received], early) = loop {
        let (directory, own) = (StampDirectory::new("kernel-warm"), ["env"]);
        let told = exchange(&directory, [&own, &own], "127.0.0.1", ["20", "1", ""]);
        // A send that was over 100 ms after the program began to ask is one of those; a busy machine may leave none.
        let asked = told[0].by_id("attached")[&0][0];
        let windows = told[0].by_id("sent");
        let early = windows.iter().filter(|(_, window)| window[1] - asked < 99_000_000).map(|(&id, _)| id);
        let early: Vec<i64> = early.collect();
        if !early.is_empty() {
            break (directory, told, early);
        }
    };
    let tx = stamps(&directory, "tx");
    assert!(early.iter().all(|id| !tx.contains_key(id)), "a cold stamp was kept");
    assert_eq!(sent.tally(TX)[0] as usize, tx.len());
    assert!(sent.tally(TX)[2] >= early.len() as u64 && sent.tally(SCHED) == sent.tally(TX));
    // All came in one burst: the first was read before the queue was seen empty, so it at least is discarded.
    assert!(received.tally(RX)[2] > 0);
    assert_eq!(received.tally(RX).iter().sum::<u64>(), received.by_id("received").len() as u64);
}

#[test]
fn c_a_packet_without_a_stamp_is_discarded_while_cold_and_not_missing() {
    let told = run(&StampDirectory::new("kernel-cold"), &["cold", &free_port()]);
    assert_eq!(told.tally(RX), [0, 0, 1]);
}

#[test]
fn c_control_data_of_a_length_that_overflows_is_refused() {
    let told = run(&StampDirectory::new("kernel-long"), &["long", &free_port()]);
    assert_eq!((told.count(REFUSED), told.tally(TX)), (1, [0, 0, 0]));
}

#[test]
fn c_a_socket_with_gro_is_refused_and_merged_packets_are_counted() {
    let directory = StampDirectory::new("kernel-gro");
    let told = run(&directory, &["gro", &free_port()]);
    assert!(told.errors.contains("a socket without UDP_GRO") && told.errors.contains("a socket without UDP_SEGMENT"));
    assert_eq!((told.count(MERGED), told.tally(RX)), (2, [0, 0, 1]), "{}", told.errors);
    assert_eq!(stamps(&directory, "rx").len(), 0);
}

#[test]
fn c_stamps_that_never_come_are_counted_as_missing_by_kind() {
    let directory = StampDirectory::new("kernel-close");
    let told = run(&directory, &["close", &free_port()]);
    assert_eq!((told.tally(SCHED), told.tally(TX)), ([0, 10, 0], [0, 10, 0]));

    let directory = StampDirectory::new("kernel-narrow");
    let told = run(&directory, &["narrow", &free_port()]);
    for (kind, point) in [(SCHED, "sched"), (TX, "tx")] {
        let [stamped, missing, discarded] = told.tally(kind);
        assert!(stamped > 0 && missing > 0 && stamped + missing + discarded == 600, "{point} {:?}", told.tally(kind));
        assert_eq!(stamps(&directory, point).len() as u64, stamped);
    }
}

#[test]
fn c_an_id_whose_stamps_are_awaited_is_not_asked_for_again_where_the_packet_comes_back() {
    let directory = StampDirectory::new("kernel-again");
    let told = run(&directory, &["again", &free_port()]);
    let refused = told.count(REFUSED);
    assert!(refused > 0 && told.matching == "payload-echo");
    assert_eq!(told.tally(TX).iter().sum::<u64>(), 600 + 256 - refused);
}

#[test]
fn c_without_a_stamp_directory_nothing_is_asked_of_the_kernel() {
    let output = Command::new(program()).args(["send", "127.0.0.1", &free_port(), "10", "1", ""]).output().unwrap();
    let told = Told::of(&output);
    assert_eq!((told.matching.as_str(), told.counts), ("off", vec![0; 14]));
}

/// Two namespaces with a veth pair between them; gone with the value.
struct Veth {
    names: [String; 2],
}

impl Veth {
    /// Of the first one.
    const ADDRESS: &str = "10.77.9.1";
    const ADDRESS_6: &str = "fd77:9::1";

    fn make() -> Self {
        let names = ["a", "b"].map(|end| format!("tickscope-{end}{}", std::process::id()));
        let veth = Self { names };
        let [first, second] = &veth.names;
        let links = ["v0", "v1"].map(|end| format!("{end}-{}", std::process::id()));
        for (name, _) in veth.names.iter().zip(&links) {
            ip(&["netns", "add", name]);
        }
        ip(&["link", "add", &links[0], "netns", first, "type", "veth", "peer", "name", &links[1], "netns", second]);
        let addresses = [["10.77.9.1/24", "fd77:9::1/64"], ["10.77.9.2/24", "fd77:9::2/64"]];
        for ((name, link), [address, address_6]) in [(first, &links[0]), (second, &links[1])].into_iter().zip(addresses)
        {
            ip(&["-n", name, "addr", "add", address, "dev", link]);
            ip(&["-n", name, "addr", "add", address_6, "dev", link, "nodad"]);
            ip(&["-n", name, "link", "set", link, "up"]);
        }
        veth
    }

    /// What a command there begins with.
    fn within(&self, end: usize) -> [String; 4] {
        ["ip", "netns", "exec", &self.names[end]].map(str::to_owned)
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).status(); // it may not have been made
        }
    }
}

fn ip(arguments: &[&str]) {
    assert!(Command::new("ip").args(arguments).status().unwrap().success(), "ip {arguments:?}");
}
