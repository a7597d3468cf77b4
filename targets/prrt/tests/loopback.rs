//! Both programs over real sockets on loopback.

use std::io::Read;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tickscope_prrt::{Feedback, Header, Packet, PacketKind};

const WITHIN: Duration = Duration::from_secs(60);

/// A program that ends with its test, however that ends.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // One that was waited for is let alone: its number may be another's by now.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

fn prrt(words: &[&str]) -> Program {
    let mut command = Command::new(env!("CARGO_BIN_EXE_prrt"));
    command.args(words).env_remove("TICKSCOPE_DIR").stdout(Stdio::piped()).stderr(Stdio::piped());
    Program(command.spawn().unwrap())
}

/// Exit code and output of a program, once it ended.
fn ended(mut program: Program) -> (Option<i32>, String, String) {
    let (mut out, mut err) = (String::new(), String::new());
    program.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    program.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    (program.0.wait().unwrap().code(), out, err)
}

/// A receiver that listens, and its port.
fn receiver(words: &[&str]) -> (Program, String) {
    let table = if words.contains(&"tcp") { "/proc/net/tcp" } else { "/proc/net/udp" };
    let port = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let mut program = prrt(&[&["receiver", "127.0.0.1", &port.to_string()], words].concat());
    let listens = || {
        let place = format!(":{port:04X} ");
        std::fs::read_to_string(table).unwrap().lines().any(|line| line.contains(&place))
    };
    let until = Instant::now() + WITHIN;
    while !listens() {
        assert!(program.0.try_wait().unwrap().is_none() && Instant::now() < until, "the receiver does not listen");
        std::thread::sleep(Duration::from_millis(2));
    }
    (program, port.to_string())
}

fn stopped(program: Program) -> Value {
    // SAFETY: the process is this test's own child, and was not waited for.
    unsafe { libc::kill(program.0.id() as i32, libc::SIGTERM) };
    let (code, out, err) = ended(program);
    assert_eq!(code, Some(0), "{err}");
    serde_json::from_str(&out).unwrap()
}

/// The counts of both ends.
fn transfer(sender_words: &[&str], receiver_words: &[&str]) -> (Value, Value) {
    let (receiver, port) = receiver(receiver_words);
    let (code, out, err) = ended(prrt(&[&["sender", "127.0.0.1", &port], sender_words].concat()));
    assert_eq!(code, Some(0), "{err}");
    (serde_json::from_str(&out).unwrap(), stopped(receiver))
}

fn count(counts: &Value, name: &str) -> u64 {
    counts[name].as_u64().unwrap_or_else(|| panic!("{name} of {counts}"))
}

#[test]
fn e2e_a_test_that_fails_leaves_no_receiver_running() {
    let (program, port) = receiver(&[]);
    let place = format!("/proc/{}", program.0.id());
    assert!(std::path::Path::new(&place).exists());
    let failed = std::panic::catch_unwind(move || {
        let _program = program;
        std::panic::resume_unwind(Box::new("it fails"));
    });
    assert!(failed.is_err() && !std::path::Path::new(&place).exists(), "the receiver on port {port} is there");
}

#[test]
fn e2e_what_the_application_gets_is_what_was_sent_and_all_else_is_counted() {
    let (sender, receiver) = transfer(
        &["--rate", "500", "--size", "200", "--seconds", "1", "--parity", "2,1", "--deadline-ms", "2000"],
        &["--drop", "0.05", "--seed", "3"],
    );
    assert_eq!((count(&sender, "submitted"), count(&sender, "unsubmitted")), (500, 0));
    assert_eq!((count(&receiver, "corrupt"), count(&receiver, "untaken")), (0, 0));
    let delivered = count(&receiver, "delivered");
    assert_eq!(delivered, count(&receiver, "sources") + count(&receiver, "recovered"));
    assert!(count(&receiver, "recovered") > 0 && delivered <= 500, "{receiver}");
    for name in ["malformed", "strangers", "replayed", "contradicting", "undecodable"] {
        assert_eq!(count(&receiver, name), 0, "{name}");
    }
    let refused = count(&receiver, "superseded") + count(&receiver, "too_late") + count(&receiver, "dropped");
    let taken = count(&receiver, "sources") + count(&receiver, "parity") + refused;
    assert!(taken <= count(&sender, "sources") + count(&sender, "parity"), "{sender} {receiver}");
    assert!(count(&sender, "feedback") <= count(&receiver, "feedback") && sender["rtt_min_ns"].is_u64());
}

/// A sender of this test's own making: what no true one sends it can.
struct Forger(UdpSocket);

/// The payload of block 0 of one, from connection 7, with a minute left.
const PLAIN: Header = Header {
    kind: PacketKind::Source,
    index: 0,
    k: 1,
    n: 1,
    filled: 1,
    session: 7,
    left_us: 60_000_000,
    base: 0,
    sequence: 0,
    sent_ns: 0,
    rtt_us: 0,
};

impl Forger {
    fn of(port: &str) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.connect((Ipv4Addr::LOCALHOST, port.parse().unwrap())).unwrap();
        socket.set_read_timeout(Some(WITHIN)).unwrap();
        Self(socket)
    }

    /// Sends a packet with eight bytes; answers how many that is.
    fn send(&self, header: Header) -> usize {
        self.send_with(header, &[0; 8])
    }

    fn send_with(&self, header: Header, payload: &[u8]) -> usize {
        let mut bytes = Vec::new();
        header.write(payload, &mut bytes);
        self.0.send(&bytes).unwrap()
    }

    /// The next feedback, and its bytes.
    fn heard(&self) -> (Feedback, usize) {
        let mut bytes = [0; 2000];
        let length = self.0.recv(&mut bytes).expect("a feedback in time");
        let Ok(Packet::Feedback(7, feedback)) = Packet::parse(&bytes[..length]) else { panic!("it is no feedback") };
        (feedback, length)
    }

    /// Waits until the packet of that number is the newest that was taken.
    fn until_taken(&self, sequence: u64) {
        while self.heard().0.echo != sequence {}
    }
}

#[test]
fn e2e_a_payload_that_is_handed_over_after_its_deadline_is_counted_as_late() {
    let (program, port) = receiver(&[]);
    let forger = Forger::of(&port);
    // By the first packet the sender's clock is at a thousand seconds at least; the second had a microsecond from 0 on.
    let (base, sequence) = (1, 1);
    forger.send(Header { sent_ns: 1_000_000_000_000, ..PLAIN });
    forger.send(Header { base, sequence, left_us: 1, ..PLAIN });
    forger.until_taken(1);
    let counts = stopped(program);
    let told = ["delivered", "late", "undecided"].map(|name| count(&counts, name));
    assert_eq!(told, [2, 1, 1], "of the first nothing but a round trip could say how old it is: {counts}");
}

/// Header of a block of four, which lacks three.
const LACKING: Header = Header { k: 4, n: 12, filled: 4, ..PLAIN };

#[test]
fn e2e_who_forges_an_address_has_three_times_the_bytes_sent_there_at_most() {
    // More is asked for at once, and once: no round trip is known.
    let (program, port) = receiver(&["--reordered-ms", "0", "--feedback-ms", "0"]);
    let [sender, other] = [Forger::of(&port), Forger::of(&port)];
    for sequence in 0..20 {
        sender.send_with(Header { base: 4 * sequence, sequence, ..LACKING }, &[0; 1000]);
        sender.until_taken(sequence);
    }
    let sent = other.send(Header { base: 80, sequence: 20, ..LACKING });
    let (feedback, answered) = other.heard();
    assert_eq!((feedback.echo, feedback.blocks.len()), (20, 0));
    stopped(program);
    other.0.set_nonblocking(true).unwrap();
    let rest: usize = std::iter::from_fn(|| other.0.recv(&mut [0; 2000]).ok()).sum();
    assert!(answered + rest <= 3 * sent, "{answered} and {rest} bytes for {sent}");
}

#[test]
fn e2e_one_forged_packet_far_ahead_has_nothing_refused_that_follows() {
    let (program, port) = receiver(&[]);
    let [sender, other] = [Forger::of(&port), Forger::of(&port)];
    sender.send(PLAIN);
    sender.until_taken(0);
    other.send(Header { sequence: 1 << 60, base: 1 << 50, ..PLAIN });
    sender.send(Header { sequence: 1, base: 1, ..PLAIN });
    sender.until_taken(1);
    let counts = stopped(program);
    let told = ["sources", "leaps", "stale", "too_late"].map(|name| count(&counts, name));
    assert_eq!(told, [2, 1, 0, 0], "{counts}");
}

#[test]
fn e2e_a_receiver_hands_over_in_each_of_its_three_ways_whatever_is_lost() {
    for way in ["condvar", "spin", "inline"] {
        let (sender, receiver) = transfer(
            &["--rate", "500", "--size", "200", "--seconds", "0.3", "--parity", "2", "--deadline-ms", "2000"],
            &["--drop", "0.1", "--seed", "3", "--hand-over", way],
        );
        assert_eq!((receiver["hand_over"].as_str(), count(&sender, "submitted")), (Some(way), 150));
        assert_eq!((count(&receiver, "corrupt"), count(&receiver, "untaken")), (0, 0), "{way}");
        let recovered = count(&receiver, "recovered");
        assert!(recovered > 0 && count(&receiver, "delivered_recovered") == recovered, "{way}: {receiver}");
        assert_eq!(count(&receiver, "delivered"), count(&receiver, "sources") + recovered, "{way}");
    }
}

#[test]
fn e2e_a_receiver_is_not_impressed_by_what_is_no_packet() {
    let (program, port) = receiver(&[]);
    let stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for length in [0, 1, 43, 44, 200, 1472, 1473, 9000] {
        stranger.send_to(&vec![b'P'; length], ("127.0.0.1", port.parse().unwrap())).unwrap();
    }
    // All that was sent before lies in the socket once this is there: the sender's end says that it was answered.
    let (code, out, err) = ended(prrt(&["sender", "127.0.0.1", &port, "--rate", "100", "--seconds", "0.1"]));
    assert_eq!(code, Some(0), "{err}");
    let (sender, receiver) = (serde_json::from_str::<Value>(&out).unwrap(), stopped(program));
    if count(&sender, "feedback") > 0 {
        assert_eq!(count(&receiver, "malformed"), 8, "{receiver}");
    }
}

#[test]
fn e2e_a_sender_without_a_receiver_ends_in_time_and_says_that_nobody_answered() {
    // A port that is taken, for nobody else to get it, and closed to all but one.
    let closed = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    closed.connect((Ipv4Addr::LOCALHOST, 1)).unwrap();
    let port = closed.local_addr().unwrap().port().to_string();
    let (code, out, _) = ended(prrt(&[
        "sender",
        "127.0.0.1",
        &port,
        "--rate",
        "200",
        "--seconds",
        "0.2",
        "--size",
        "100",
        "--k",
        "1",
        "--parity",
        "1",
    ]));
    let sender: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, count(&sender, "submitted"), count(&sender, "feedback")), (Some(0), 40, 0));
    assert!(sender["rtt_min_ns"].is_null());
    // The kernel may have said by then that nobody was there, and then takes the next packet no more.
    let sent = count(&sender, "sources") + count(&sender, "parity") - count(&sender, "refused_sends");
    let wire_bytes = count(&sender, "wire_bytes");
    assert!((sent * 172..=sent * 174).contains(&wire_bytes), "what did not leave is on no wire: {sender}");
}

#[test]
fn e2e_options_that_contradict_are_refused_with_what_helps() {
    for (words, says) in [
        (&["--k", "250", "--parity", "3,3"][..], "at most 255 packets a block"),
        (&["--size", "1427"], "--size of 8 to 1426 bytes, found 1427"),
        (&["--deadline-ms", "0"], "a deadline above 0"),
        (&["--deadline-ms", "61000"], "a deadline above 0 of 60 s at most"),
        (&["--rate", "0"], "a rate from 0.000001"),
        (&["--seconds", "1e9"], "--seconds of 0 to a day"),
        (&["--over", "udp", "--kernel", "1"], "--kernel of --over prrt, found --over udp"),
    ] {
        let (code, _, err) = ended(prrt(&[&["sender", "127.0.0.1", "7400"], words].concat()));
        assert!(code == Some(2) && err.contains(says), "{words:?}: {err}");
    }
    let (code, _, err) = ended(prrt(&["receiver", "127.0.0.1", "0", "--drop", "1.5"]));
    assert!(code == Some(2) && err.contains("probabilities from 0 to 1, found 1.5"), "{err}");
    let (code, _, err) = ended(prrt(&["receiver", "192.0.2.1", "7400"]));
    assert!(code == Some(2) && err.contains("cannot use 192.0.2.1:7400"), "{err}");
}

#[test]
fn e2e_the_applications_own_clock_says_how_long_payloads_took_without_any_point() {
    for over in ["prrt", "tcp", "udp"] {
        let sent = ["--over", over, "--rate", "200", "--size", "100", "--seconds", "0.3", "--own-clock"];
        let (_, receiver) = transfer(&sent, &["--over", over, "--own-clock"]);
        assert!(count(&receiver, "delivered") > 0 && count(&receiver, "corrupt") == 0, "{over}: {receiver}");
        let [middle, late] = ["delay_p50_ns", "delay_p99_ns"].map(|name| count(&receiver, name));
        // Less than nothing, or than any system call takes, is no delay, and more than the test takes is none either.
        assert!((1000..60_000_000_000).contains(&middle) && middle <= late, "{over}: {receiver}");
        // At one end alone it says nothing, and is told.
        for (sent, received) in [(&sent[..8], &["--over", over, "--own-clock"][..]), (&sent[..], &["--over", over])] {
            let (_, receiver) = transfer(sent, received);
            assert!(receiver["delay_p50_ns"].is_null() && count(&receiver, "corrupt") == 0, "{over}: {receiver}");
            let delivered = count(&receiver, "delivered");
            assert!(delivered > 0 && count(&receiver, "one_sided_clock") == delivered, "{over}: {receiver}");
        }
    }
    let (code, _, err) = ended(prrt(&["sender", "127.0.0.1", "1", "--size", "15", "--own-clock"]));
    assert!(code == Some(2) && err.contains("--size of 16 to 1426 bytes, found 15"), "{err}");
}

#[test]
fn e2e_the_same_payloads_go_over_each_rival_with_their_bytes_on_the_wire_counted() {
    let quic = cfg!(feature = "quic").then_some(("quic", "0.02"));
    for (over, lose) in [("udp", "0.3"), ("tcp", "0.02"), ("prrt", "0.02")].into_iter().chain(quic) {
        let (sender, receiver) = transfer(
            &["--over", over, "--rate", "500", "--size", "100", "--seconds", "0.4", "--deadline-ms", "300"],
            &["--over", over, "--lose", lose],
        );
        let (submitted, delivered) = (count(&sender, "submitted"), count(&receiver, "delivered"));
        assert_eq!((submitted, count(&receiver, "corrupt"), count(&receiver, "untaken")), (200, 0, 0), "{over}");
        assert!(delivered > 0 && delivered <= submitted, "{over}: {delivered}");
        // 0.7^200 is no chance: the kernel loses what it is told to, and UDP alone brings none of it back.
        assert!(over != "udp" || delivered < submitted && count(&sender, "wire_bytes") == 200 * 128, "{sender}");
        // What every payload takes at least: IPv4 and the headers of its protocol, or of a stream its length.
        let least = match over {
            "udp" => 128,
            "tcp" => 102,
            "quic" => 128,
            _ => 172,
        };
        assert!(count(&sender, "wire_bytes") >= 200 * least, "{over}: {sender}");
        assert!(over != "quic" || delivered == submitted, "QUIC sends what was lost again: {delivered}");
        let overhead = count(&sender, "wire_bytes") as f64 / 20_000.0 - 1.0;
        assert!((sender["overhead"].as_f64().unwrap() - overhead).abs() < 1e-9, "{over}: {sender}");
    }
    let (code, _, err) = ended(prrt(&["receiver", "127.0.0.1", "0", "--lose", "1.5"]));
    assert!(code == Some(2) && err.contains("a share from 0 to below 1, found 1.5"), "{err}");
    let (code, _, err) = ended(prrt(&["sender", "127.0.0.1", "1", "--over", "tcp"]));
    assert!(code == Some(2) && err.contains("cannot connect to 127.0.0.1:1"), "{err}");
    if !cfg!(feature = "quic") {
        let (code, _, err) = ended(prrt(&["sender", "127.0.0.1", "1", "--over", "quic"]));
        assert!(code == Some(2) && err.contains("built without. Run make quic"), "{err}");
    }
}
