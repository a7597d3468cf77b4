//! Client and server over real sockets of this host, which share one counter: every bracket must contain the map that
//! was injected between them, or the identity.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tickscope_bracket::Bracket;
use tickscope_counter::{NodeCounter, before};
use tickscope_probe::PairKey;
use tickscope_probe::datagram::{NodeId, RunId};
use tickscope_probe::driver::{Asking, ClientReport, Prober, Schedule, ServerReport};
use tickscope_probe::exchange::{Exchange, Memory, Parties, Server};
use tickscope_probe::udp::{UdpEndpoint, probe, serve};
use tickscope_tick::{Injection, Stairs};

const PARTIES: Parties = Parties { run: RunId(0xbeef), client: NodeId(1), server: NodeId(2) };

struct Run {
    exchanges: Vec<Exchange>,
    client: ClientReport,
    server: ServerReport,
}

fn asking(burst: u32) -> Asking {
    // A machine that is busy may take long; nothing here is a claim about time.
    let (reply_wait, burst_limit) = (Duration::from_secs(10), Duration::from_secs(10));
    let schedule = Schedule { burst, period: Some(Duration::from_millis(1)), reply_wait, burst_limit };
    // Nor may a request be given up where the machine stood still for a while: those overdue then go out at once.
    let memory = Memory { outstanding_max: 100_000, window_ticks: i64::MAX };
    Asking { parties: PARTIES, key: PairKey::new([0x5a; 32]), memory, schedule }
}

/// 50 exchanges, 20 at the stated rate, 50 more.
fn run(address: &str, injection: Option<Injection>, spin: Duration) -> Option<Run> {
    let (server_socket, client_socket) = (UdpSocket::bind(address).ok()?, UdpSocket::bind(address).ok()?);
    let peer = server_socket.local_addr().unwrap();
    let (true_counter, server_counter) = (NodeCounter::default(), NodeCounter::new(injection));
    let (stop_client, stop_server) = (AtomicBool::new(false), AtomicBool::new(false));
    let answering = Server::new(PARTIES.run, PARTIES.server, [(PARTIES.client, PairKey::new([0x5a; 32]))]);
    let mut exchanges = Vec::new();
    let (client, server) = thread::scope(|scope| {
        let server = scope.spawn(|| serve(&server_socket, &server_counter, answering, spin, &stop_server).unwrap());
        let client = probe(&client_socket, peer, &true_counter, asking(50), spin, &stop_client, |exchange| {
            exchanges.push(*exchange);
            stop_client.store(exchanges.len() >= 70, Ordering::Relaxed);
        });
        stop_server.store(true, Ordering::Relaxed);
        (client.unwrap(), server.join().unwrap())
    });
    Some(Run { exchanges, client, server })
}

/// Whether a true tick that the injected counter reads as `at` lies in the bracket.
fn contains(bracket: &Bracket, injection: &Injection) -> bool {
    let (first, last) = injection.invert(bracket.at.get()).expect("the injected counter read this");
    bracket.before.is_none_or(|before| before.get() <= last) && bracket.after.is_none_or(|after| first <= after.get())
}

fn assert_sound(run: &Run, injection: &Injection) {
    assert!(run.exchanges.len() >= 100, "{:?}", run.client);
    for exchange in &run.exchanges {
        assert!(contains(&exchange.request_bracket(), injection), "{exchange:?}");
        assert!(contains(&exchange.reply_bracket(), injection), "{exchange:?}");
    }
    assert_eq!(run.client.counts.answered, run.exchanges.len() as u64);
    assert_eq!(run.client.counts.refusals.total() + run.server.counts.refusals.total(), 0);
    assert_eq!(run.server.answered, run.server.counts.admitted);
    println!("round trip, ticks: min {:?}", run.client.round_trip_ticks_min);
}

fn identity() -> Injection {
    "0:0:0:0:2".parse().unwrap()
}

#[test]
fn every_bracket_of_one_host_contains_offset_zero() {
    assert_sound(&run("127.0.0.1:0", None, Duration::ZERO).unwrap(), &identity());
}

#[test]
fn spinning_changes_nothing_about_what_holds() {
    assert_sound(&run("127.0.0.1:0", None, Duration::from_micros(50)).unwrap(), &identity());
}

#[test]
fn every_bracket_contains_the_map_that_was_injected_on_one_side() {
    let map = Injection {
        anchor: before(),
        offset: 1_000_000_000,
        drift_ppb: 12_500,
        wander_ppb: 10_000,
        wander_period: 1 << 26,
        stairs: Stairs::default(),
    };
    let run = run("127.0.0.1:0", Some(map), Duration::ZERO).unwrap();
    assert_sound(&run, &map);
    assert!(!contains(&run.exchanges[0].reply_bracket(), &identity()), "the map is really there");
}

#[test]
fn ipv6_carries_the_same_exchange() {
    // Not every container has IPv6.
    if let Some(run) = run("[::1]:0", None, Duration::ZERO) {
        assert_sound(&run, &identity());
    }
}

#[test]
fn a_port_that_nobody_listens_on_is_counted_and_does_not_end_the_run() {
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (client, stop) = (UdpSocket::bind("127.0.0.1:0").unwrap(), AtomicBool::new(true));
    let mut asking = asking(3);
    asking.schedule.reply_wait = Duration::from_millis(2);
    let report = probe(&client, nobody, &NodeCounter::default(), asking, Duration::ZERO, &stop, |_| {}).unwrap();
    assert_eq!(report.counts.answered, 0);
    assert!(report.network.unreachable + report.network.unsent > 0, "{report:?}");
}

#[test]
fn a_request_that_is_asked_for_leaves_at_once_and_its_exchange_begins_with_the_tick_that_was_told() {
    let (server_socket, client_socket) =
        (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let (peer, counter, stop) = (server_socket.local_addr().unwrap(), NodeCounter::default(), AtomicBool::new(false));
    let key = || PairKey::new([0x5a; 32]);
    let answering = Server::new(PARTIES.run, PARTIES.server, [(PARTIES.client, key())]);
    let mut began = Vec::new();
    let mut told = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| serve(&server_socket, &counter, answering, Duration::ZERO, &stop).unwrap());
        let mut endpoint = UdpEndpoint::unconnected(&client_socket, &counter, Duration::ZERO).unwrap();
        let nobody = Server::new(PARTIES.run, PARTIES.client, []);
        let mut prober = Prober::new(&mut endpoint, nobody, |_, exchange: &Exchange| began.push(exchange.t1));
        prober.add(PARTIES, key(), asking(0).memory, peer);
        assert_eq!(prober.request(NodeId(99)).unwrap(), None, "nobody is asked under that number");
        for _ in 0..20 {
            told.push(prober.request(PARTIES.server).unwrap().unwrap());
        }
        let report = prober.finish(Duration::from_secs(10)).unwrap();
        assert_eq!(report.asked[0].1.counts.answered, 20);
        stop.store(true, Ordering::Relaxed);
    });
    began.sort();
    assert_eq!(began, told);
}
