//! The target `udp-echo` in every way to wait: which points it stamps, in which order, and what it counts.

mod c_program;

use std::collections::BTreeMap;
use std::io::Read;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use c_program::{Running, StampDirectory, compile, until};
use tickscope_stamp::block::unpadded;
use tickscope_stamp::handover::Block;
use tickscope_tick::{Clock, Ordering};

const WAITS: [&str; 3] = ["epoll", "blocking", "busy"];
const PACKETS: usize = 500;
/// The kernel stamps every so many.
const EVERY: i64 = 5;

/// Ticks by id at one point, and what they are of.
struct Point {
    ticks: BTreeMap<i64, i64>,
    counter: Option<Clock>,
    ordering: Option<Ordering>,
}

fn udp_echo() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../targets/udp-echo/udp-echo.c");
        compile("cc", &source, &["-D_GNU_SOURCE"], "udp-echo")
    })
}

/// Both ends of an exchange as they ended: their points, and the lines they printed.
struct Exchange {
    points: BTreeMap<String, Point>,
    client: String,
    server: String,
}

/// A server and a client that wait in that way; strangers send to the server all the while.
fn exchange(wait: &str, kernel: &str, log: &Path) -> Exchange {
    let directory = StampDirectory::new(&format!("udp-echo-{wait}-{kernel}"));
    let port = free_port();
    let common = ["--wait", wait, "--kernel", kernel, "--token", "7"];
    let mut server = Command::new(udp_echo());
    directory.measure(server.args(["server", "127.0.0.1", &port]).args(common).stdout(Stdio::piped()));
    let mut server = Running(server.spawn().unwrap());
    until(|| is_bound(&port));
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.send_to(b"no packet of ours", format!("127.0.0.1:{port}")).unwrap();
    // Past the warm-up of the server, whose queue is then seen empty at the first packet.
    std::thread::sleep(std::time::Duration::from_millis(120));
    stranger.send_to(&[0; 64], format!("127.0.0.1:{port}")).unwrap();
    let mut client = Command::new(udp_echo());
    client.args([
        "client",
        "127.0.0.1",
        &port,
        "--seconds",
        "0.5",
        "--rate",
        "1000",
        "--linger",
        "5000",
        "--clock-log",
    ]);
    let client = directory.measure(client.arg(log).args(common)).output().unwrap();
    assert!(client.status.success());
    // SAFETY: the server is this test's own child and not waited for yet.
    unsafe { libc::kill(server.0.id() as i32, libc::SIGTERM) };
    let mut line = String::new();
    server.0.stdout.take().unwrap().read_to_string(&mut line).unwrap();
    assert!(server.0.wait().unwrap().success());
    Exchange { points: points(&directory), client: String::from_utf8(client.stdout).unwrap(), server: line }
}

fn free_port() -> String {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

/// Looks at the kernel's list: whoever tries to bind the port may be in the server's way.
fn is_bound(port: &str) -> bool {
    let own = format!(":{:04X} ", port.parse::<u16>().unwrap());
    std::fs::read_to_string("/proc/net/udp").unwrap().lines().any(|line| {
        let local = line.split_ascii_whitespace().nth(1);
        local.is_some_and(|local| format!("{local} ").ends_with(&own))
    })
}

fn points(directory: &StampDirectory) -> BTreeMap<String, Point> {
    let mut points: BTreeMap<String, Point> = BTreeMap::new();
    for pool in directory.pools() {
        for block in (0..pool.block_count()).map(|index| pool.block(index)).filter(|block| block.is_described()) {
            let header = block.header();
            let point = points.entry(unpadded(&header.point).unwrap().to_string()).or_insert(Point {
                ticks: BTreeMap::new(),
                counter: Clock::from_number(header.counter),
                ordering: Ordering::from_number(header.ordering),
            });
            let records = (0..block.capacity()).filter_map(|slot| block.record(slot));
            point.ticks.extend(records.map(|record| (record.id, record.tick)));
        }
    }
    points
}

/// Every id that both points have stands in this order; returns how many those are.
fn in_order(exchange: &Exchange, before: &str, after: &str) -> usize {
    let at = |name: &str| {
        let known = || exchange.points.keys().collect::<Vec<_>>();
        exchange.points.get(name).unwrap_or_else(|| panic!("nothing was stamped at {name}, but at {:?}", known()))
    };
    let (before, after) = (at(before), at(after));
    assert_eq!(before.counter, after.counter);
    let both: Vec<_> = before.ticks.iter().filter_map(|(id, tick)| Some((id, tick, after.ticks.get(id)?))).collect();
    assert!(both.iter().all(|(_, first, second)| first <= second), "{both:?}");
    both.len()
}

fn log_place(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("tickscope-clock-log-{name}-{}.csv", std::process::id()))
}

#[test]
fn c_udp_echo_stamps_the_whole_path_in_order_however_it_waits() {
    for wait in WAITS {
        let log = log_place(wait);
        let exchange = exchange(wait, &EVERY.to_string(), &log);
        let came = exchange.points["response"].ticks.len();
        assert!(came > 0 && exchange.points["send"].ticks.len() == PACKETS, "{wait}: {came}");
        let woken = |point: &str| exchange.points.contains_key(point);
        assert_eq!((woken("woken"), woken("response-woken")), (wait == "epoll", wait == "epoll"), "{wait}");
        let path = match wait {
            "epoll" => vec!["send", "woken", "received", "reply", "response-woken", "response"],
            _ => vec!["send", "received", "reply", "response"],
        };
        for pair in path.windows(2).chain([&["send", "sent"][..], &["reply", "replied"]]) {
            // A busy machine may lose packets, but no stamp of those that came back.
            assert!(in_order(&exchange, pair[0], pair[1]) >= came, "{wait}: {pair:?}");
        }
        for pair in ["sched", "tx", "rx", "reply-sched", "reply-tx", "response-rx"].windows(2) {
            assert!(in_order(&exchange, pair[0], pair[1]) > 0, "{wait}: {pair:?}");
            let point = &exchange.points[pair[1]];
            assert_eq!(point.counter, Some(Clock::Realtime));
            let expected = if pair[1].ends_with("rx") { Ordering::After } else { Ordering::Before };
            assert_eq!(point.ordering, Some(expected), "{pair:?}");
            assert!(point.ticks.keys().all(|id| id % EVERY == 0));
        }
        let logged = std::fs::read_to_string(&log).unwrap();
        let ids: Vec<i64> =
            logged.lines().skip(1).map(|line| line.split_once(',').unwrap().0.parse().unwrap()).collect();
        assert_eq!(
            (logged.lines().next(), ids),
            (Some("id,ns"), exchange.points["response"].ticks.keys().copied().collect())
        );
        std::fs::remove_file(log).unwrap();
        check_lines(&exchange, wait);
        if wait == "epoll" {
            check_wake_ups(&exchange);
        }
    }
}

/// No wake-up comes before the packet it tells of: the last bracket before the packet says what the counter stood at
/// least at.
fn check_wake_ups(exchange: &Exchange) {
    let brackets = &exchange.points["clock-bracket.realtime"].ticks;
    let ((first_ns, first), (last_ns, last)) =
        (brackets.first_key_value().unwrap(), brackets.last_key_value().unwrap());
    let slowest_rate = 0.999 * (last - first) as f64 / (last_ns - first_ns) as f64;
    for (rx, woken) in [("rx", "woken"), ("response-rx", "response-woken")] {
        for (id, rx_ns) in &exchange.points[rx].ticks {
            let (ns, before) = brackets.range(..=rx_ns).next_back().unwrap();
            let least = before + ((rx_ns - ns) as f64 * slowest_rate) as i64;
            assert!(least <= exchange.points[woken].ticks[id], "{woken} {id}");
        }
    }
}

fn check_lines(exchange: &Exchange, wait: &str) {
    let Exchange { client, server, points } = exchange;
    let counts = |sent: &str, received: &str, strangers: u32| {
        let [sent, received] = [sent, received].map(|point| points[point].ticks.len());
        format!("\"sent\": {sent}, \"send_failures\": 0, \"received\": {received}, \"strangers\": {strangers}")
    };
    for (line, expected) in [
        (client, counts("send", "response", 0).as_str()),
        (server, counts("reply", "received", 2).as_str()),
        (client, "\"policy\": \"other\", \"priority\": 0, \"core\": null"),
        (client, "\"matching\": \"SCM_TS_OPT_ID\""),
        (client, "\"refused\": 0, \"failed\": 0, \"unmatched\": 0, \"merged\": 0, \"foreign\": 0}, \"valid\": "),
        (client, &format!("\"wait\": \"{wait}\"")),
        (client, "\"schedule\": {\"held\": "),
        (client, "\"unsent\": 0, \"late_limit_ns\": 1000000, \"p50_ns\": "),
    ] {
        assert!(line.contains(expected), "expected {expected} in {line}");
    }
}

#[test]
fn c_udp_echo_asks_the_kernel_for_nothing_unless_told_to() {
    let log = log_place("off");
    let exchange = exchange("epoll", "0", &log);
    std::fs::remove_file(log).unwrap();
    let expected = ["received", "replied", "reply", "response", "response-woken", "send", "sent", "woken"];
    assert_eq!(exchange.points.keys().collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
    assert!(exchange.client.contains("\"every\": 0, \"matching\": \"off\""), "{}", exchange.client);
}

#[test]
fn c_udp_echo_ends_in_time_though_every_packet_is_lost() {
    // A socket that takes and never answers, and a port where nobody is: sends then fail too.
    let deaf = UdpSocket::bind("127.0.0.1:0").unwrap();
    for port in [deaf.local_addr().unwrap().port().to_string(), free_port()] {
        for wait in WAITS {
            let mut client = Command::new(udp_echo());
            client.args([
                "client",
                "127.0.0.1",
                &port,
                "--seconds",
                "0.2",
                "--linger",
                "20",
                "--wait",
                wait,
                "--kernel",
                "2",
            ]);
            let directory = StampDirectory::new("udp-echo-lost");
            let ended = directory.measure(&mut client).output().unwrap();
            let line = String::from_utf8(ended.stdout).unwrap();
            assert!(ended.status.success() && line.contains("\"received\": 0"), "{wait}: {line}");
            assert_eq!(points(&directory)["send"].ticks.len(), 200);
        }
    }
}

fn number_of(line: &str, name: &str) -> u64 {
    let from = line.find(&format!("\"{name}\": ")).unwrap() + name.len() + 4;
    line[from..].split([',', '}']).next().unwrap().parse().unwrap()
}

#[test]
fn c_udp_echo_sees_a_stall_whole_and_sends_all_that_was_due_meanwhile() {
    const STALL: Duration = Duration::from_millis(100);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let port = socket.local_addr().unwrap().port().to_string();
    for wait in WAITS {
        let mut client = Command::new(udp_echo());
        client.args(["client", "127.0.0.1", &port, "--seconds", "2", "--linger", "0", "--wait", wait, "--due", "due"]);
        let directory = StampDirectory::new(&format!("udp-echo-stall-{wait}"));
        let mut client = Running(directory.measure(client.stdout(Stdio::piped())).spawn().unwrap());
        let signal = |number| {
            // SAFETY: the client is this test's own child and not waited for yet.
            unsafe { libc::kill(client.0.id() as i32, number) };
        };
        socket.recv(&mut [0; 64]).expect("a datagram within a minute");
        signal(libc::SIGSTOP);
        // SAFETY: no status is asked for; the child stays to be waited for.
        unsafe { libc::waitpid(client.0.id() as i32, std::ptr::null_mut(), libc::WUNTRACED) };
        let stopped = Instant::now();
        until(|| stopped.elapsed() >= STALL);
        let lasted_ns = stopped.elapsed().as_nanos() as u64;
        signal(libc::SIGCONT);
        let mut line = String::new();
        client.0.stdout.take().unwrap().read_to_string(&mut line).unwrap();
        client.0.wait().unwrap();
        assert_eq!(number_of(&line, "sent") + number_of(&line, "send_failures"), 2000, "{wait}: {line}");
        let due = &points(&directory)["due"];
        assert_eq!(due.counter, Some(Clock::Monotonic));
        let first = due.ticks[&0];
        assert!(due.ticks.iter().map(|(id, tick)| (*id, *tick)).eq((0..2000).map(|id| (id, first + id * 1_000_000))));
        // One that was due within a millisecond of the stop could not be sent before its end.
        assert!(number_of(&line, "worst_ns") >= lasted_ns - 1_000_000, "{wait}: {lasted_ns}: {line}");
        let beyond = number_of(&line, "late") * 1000 > number_of(&line, "sent");
        assert_eq!(beyond, line.contains("\"schedule\": {\"held\": false, \"fault\": \"late\""), "{wait}: {line}");
        assert!(number_of(&line, "late") >= STALL.as_millis() as u64 - 3, "{wait}: {line}");
        while socket.set_nonblocking(true).is_ok() && socket.recv(&mut [0; 64]).is_ok() {}
        socket.set_nonblocking(false).unwrap();
    }
}
