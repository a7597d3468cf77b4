//! Kernel stamps of real datagrams over loopback: each is matched to its exchange, and lies where it must.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tickscope_counter::NodeCounter;
use tickscope_probe::PairKey;
use tickscope_probe::datagram::{NodeId, Nonce, RunId};
use tickscope_probe::driver::{self, Asking, Schedule};
use tickscope_probe::exchange::{Client, Memory, Parties, Server};
use tickscope_probe::kernel::{ExchangeId, KernelCounts, KernelEndpoint, KernelStamps, Passage, is_sampled};
use tickscope_probe::udp::UdpEndpoint;

/// By nonce, what the kernel stamped and when.
type Stamps = BTreeMap<u64, Vec<(Passage, i64)>>;
type Seen = Arc<Mutex<Stamps>>;

/// What a run of both ends gave.
struct Ran {
    /// `CLOCK_REALTIME` before either end asked for stamps, in nanoseconds.
    began_ns: i64,
    seen: Stamps,
    asked: KernelCounts,
    served: KernelCounts,
    answered: u64,
    brackets: u64,
}

struct StampLog {
    seen: Seen,
    brackets: Arc<Mutex<u64>>,
}

impl KernelStamps for StampLog {
    fn stamped(&mut self, passage: Passage, exchange: ExchangeId, realtime_ns: i64) {
        assert_eq!((exchange.client, exchange.server), (NodeId(1), NodeId(2)));
        self.seen.lock().unwrap().entry(exchange.nonce.0).or_default().push((passage, realtime_ns));
    }

    fn bracket(&mut self) {
        *self.brackets.lock().unwrap() += 1;
    }
}

/// Exchanges that have both their receive stamps after which a run may end.
const ENOUGH: usize = 200;

fn realtime_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
}

/// Runs both ends with one exchange in `every` stamped, until there are enough of them, however slow the machine is.
fn stamps_of(every: u64) -> Ran {
    let (seen, brackets): (Seen, _) = (Seen::default(), Arc::new(Mutex::new(0)));
    let log = || StampLog { seen: seen.clone(), brackets: brackets.clone() };
    let counter = NodeCounter::true_counter();
    let stop = AtomicBool::new(false);
    // The kernel begins to stamp later than it is asked to. One that stamps for somebody else leaves no datagram
    // unstamped.
    let beside = UdpSocket::bind("127.0.0.1:0").unwrap();
    let udp = UdpEndpoint::unconnected(&beside, &counter, Duration::ZERO).unwrap();
    let _stamping = KernelEndpoint::new(udp, log(), every).unwrap();
    thread::sleep(Duration::from_millis(200));
    let began_ns = realtime_ns();
    let answering = UdpSocket::bind("127.0.0.1:0").unwrap();
    let peer = answering.local_addr().unwrap();
    let asking = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (run, client, server) = (RunId(5), NodeId(1), NodeId(2));
    let (served, asked, answered) = thread::scope(|scope| {
        let serve = scope.spawn(|| {
            let udp = UdpEndpoint::unconnected(&answering, &counter, Duration::ZERO).unwrap();
            let mut endpoint = KernelEndpoint::new(udp, log(), every).unwrap();
            let clients = [(client, PairKey::new([0x5a; 32]))];
            driver::serve(&mut endpoint, Server::new(run, server, clients), &stop).unwrap();
            endpoint.counts()
        });
        let ends = scope.spawn(|| {
            let enough = || {
                let seen = seen.lock().unwrap();
                let received = |stamps: &&Vec<(Passage, i64)>| stamps.iter().any(|(p, _)| *p == Passage::ReplyReceived);
                seen.values().filter(received).count() >= ENOUGH
            };
            let patience = Instant::now() + Duration::from_secs(60);
            while !enough() && Instant::now() < patience {
                thread::sleep(Duration::from_millis(20));
            }
            stop.store(true, Relaxed);
        });
        let udp = UdpEndpoint::connected(&asking, peer, &counter, Duration::ZERO).unwrap();
        let mut endpoint = KernelEndpoint::new(udp, log(), every).unwrap();
        let asking = Asking {
            parties: Parties { run, client, server },
            key: PairKey::new([0x5a; 32]),
            memory: Memory::of_a_second(2_000_000_000),
            schedule: Schedule { period: Some(Duration::from_millis(1)), burst: 0, ..Schedule::default() },
        };
        let report = driver::probe(&mut endpoint, peer, asking, &stop, |_| ()).unwrap();
        ends.join().unwrap();
        (serve.join().unwrap(), endpoint.counts(), report.counts.answered)
    });
    let (seen, brackets) = (seen.lock().unwrap().clone(), *brackets.lock().unwrap());
    Ran { began_ns, seen, asked, served, answered, brackets }
}

#[test]
fn every_exchange_of_the_sample_has_its_four_stamps_in_the_order_of_the_path() {
    let Ran { began_ns, seen, asked, served, answered, brackets } = stamps_of(1);
    let whole = [Passage::RequestSent, Passage::RequestReceived, Passage::ReplySent, Passage::ReplyReceived];
    let mut complete = 0;
    for (nonce, stamps) in &seen {
        let of = |passage| {
            let found: Vec<i64> = stamps.iter().filter(|(p, _)| *p == passage).map(|&(_, ns)| ns).collect();
            assert!(found.len() <= 1, "{nonce}: {passage:?} stamped {} times", found.len());
            found.first().copied()
        };
        if let [Some(a), Some(b), Some(c), Some(d)] = whole.map(of) {
            assert!(a <= b && b <= c && c <= d, "{nonce}: {a} {b} {c} {d}");
            complete += 1;
        }
    }
    assert!(complete > 100, "{complete} of {answered} exchanges have all four; {asked:?} {served:?}");
    assert_eq!(asked.unstamped + served.unstamped, 0);
    // A millisecond for a REALTIME that runs slow.
    let trusted_ns = began_ns + 99_000_000;
    let first_ns = seen.values().flatten().map(|&(_, ns)| ns).min().unwrap();
    assert!(first_ns >= trusted_ns, "the first tenth of a second is not trusted: {} ns after", first_ns - began_ns);
    assert!(brackets >= 2 * complete, "{brackets} brackets for {complete} exchanges");
}

#[test]
fn both_ends_stamp_the_same_sample() {
    let Ran { seen, asked, answered, .. } = stamps_of(4);
    assert!(seen.keys().all(|&nonce| is_sampled(Nonce(nonce), 4)));
    assert!(asked.asked > 0 && asked.asked < answered, "{asked:?} of {answered}");
    let both = |stamps: &Vec<(Passage, i64)>| {
        let has = |passage| stamps.iter().any(|(p, _)| *p == passage);
        has(Passage::RequestSent) && has(Passage::RequestReceived)
    };
    assert!(seen.values().filter(|stamps| both(stamps)).count() > 20, "{}", seen.len());
}

#[test]
fn a_strangers_datagrams_leave_neither_stamps_nor_brackets() {
    let (seen, brackets): (Seen, _) = (Seen::default(), Arc::new(Mutex::new(0)));
    let log = StampLog { seen: seen.clone(), brackets: brackets.clone() };
    let (counter, stop) = (NodeCounter::true_counter(), AtomicBool::new(false));
    let answering = UdpSocket::bind("127.0.0.1:0").unwrap();
    let peer = answering.local_addr().unwrap();
    let answering_of = Server::new(RunId(5), NodeId(2), [(NodeId(1), PairKey::new([0x5a; 32]))]);
    let (counts, report) = thread::scope(|scope| {
        let serve = scope.spawn(|| {
            let udp = UdpEndpoint::unconnected(&answering, &counter, Duration::ZERO).unwrap();
            let mut endpoint = KernelEndpoint::new(udp, log, 1).unwrap();
            let report = driver::serve(&mut endpoint, answering_of, &stop).unwrap();
            (endpoint.counts(), report)
        });
        thread::sleep(Duration::from_millis(200)); // stamps are trusted by now
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        let parties = Parties { run: RunId(5), client: NodeId(1), server: NodeId(2) };
        let mut client = Client::new(parties, PairKey::new([0xa5; 32]), Memory::of_a_second(2_000_000_000));
        for nonce in 1..=200 {
            stranger.send_to(&client.request(Nonce(nonce)).unwrap().bytes, peer).unwrap();
            client.withdraw(Nonce(nonce));
            thread::sleep(Duration::from_micros(200));
        }
        thread::sleep(Duration::from_millis(100));
        stop.store(true, Relaxed);
        serve.join().unwrap()
    });
    let refused: u64 = report.counts.refusals.counts().map(|(_, count)| count).sum();
    assert!(refused > 0 && report.answered == 0, "{report:?}");
    assert!(seen.lock().unwrap().is_empty(), "{counts:?}");
    assert_eq!((counts.received, counts.received_early, counts.unstamped), (0, 0, 0));
    assert_eq!(*brackets.lock().unwrap(), 1, "the one at the start");
}
