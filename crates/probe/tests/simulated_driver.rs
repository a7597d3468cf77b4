//! The driver over an endpoint whose sends and receives take simulated time: a stamp at the wrong place shows as a
//! false bracket, every time.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering as Memory};
use std::time::Duration;

use tickscope_probe::PairKey;
use tickscope_probe::datagram::{NodeId, Nonce, RunId};
use tickscope_probe::driver::{Asking, Endpoint, Received, Schedule, probe, serve};
use tickscope_probe::exchange::{self, Client, Exchange, Parties, Server};
use tickscope_tick::{Ordering, Tick};

const PARTIES: Parties = Parties { run: RunId(5), client: NodeId(1), server: NodeId(2) };
const MEMORY: exchange::Memory = exchange::Memory { outstanding_max: 64, window_ticks: i64::MAX };

fn key() -> PairKey {
    PairKey::new([0x5a; 32])
}

fn server() -> Server {
    Server::new(PARTIES.run, PARTIES.server, [(PARTIES.client, key())])
}

/// The network of this simulation has one other end.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Peer;
const PEER: Peer = Peer;

/// What system calls take around the moment that the datagram leaves or arrives, ns.
const CALL_NS: i64 = 1000;
const MILLISECOND_NS: i64 = 1_000_000;

/// What becomes of a datagram that left: an error, or datagrams that come back, and when.
type Departure = io::Result<Vec<(i64, Vec<u8>)>>;

/// A node whose counter reads true nanoseconds, which only its own calls advance.
struct Simulated<'a, P> {
    now: i64,
    inbox: VecDeque<(i64, Vec<u8>)>,
    /// The network, asked with the moment at which a datagram leaves.
    peer: P,
    stop: &'a AtomicBool,
    ends_at: i64,
    nonce: u64,
}

impl<'a, P: FnMut(i64, &[u8]) -> Departure> Simulated<'a, P> {
    fn new(stop: &'a AtomicBool, ends_at: i64, peer: P) -> Self {
        Self { now: 0, inbox: VecDeque::new(), peer, stop, ends_at, nonce: 0 }
    }

    fn advance(&mut self, to: i64) {
        self.now = self.now.max(to);
        self.stop.fetch_or(self.now >= self.ends_at, Memory::Relaxed);
    }
}

impl<P: FnMut(i64, &[u8]) -> Departure> Endpoint for Simulated<'_, P> {
    type Address = Peer;

    fn stamp(&mut self, _: Ordering) -> i64 {
        self.now
    }

    fn send(&mut self, bytes: &[u8], to: Peer) -> io::Result<()> {
        assert_eq!(to, PEER);
        let leaves = self.now + CALL_NS;
        let answer = (self.peer)(leaves, bytes);
        self.advance(leaves + CALL_NS);
        self.inbox.extend(answer?);
        // Stable: what arrives at one moment keeps the order it was sent in.
        self.inbox.make_contiguous().sort_by_key(|(arrives, _)| *arrives);
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8], deadline: Duration) -> io::Result<Option<Received<Peer>>> {
        let deadline = deadline.as_nanos() as i64;
        if self.inbox.front().is_none_or(|(arrives, _)| *arrives > deadline) {
            self.advance(deadline);
            return Ok(None);
        }
        let (arrives, bytes) = self.inbox.pop_front().unwrap();
        self.advance(arrives);
        self.advance(self.now + CALL_NS);
        let length = bytes.len().min(buffer.len());
        buffer[..length].copy_from_slice(&bytes[..length]);
        Ok(Some(Received { length, from: PEER }))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.now as u64)
    }

    fn nonce(&mut self) -> io::Result<Nonce> {
        self.nonce += 1;
        Ok(Nonce(self.nonce))
    }
}

/// A server without any delay: it stamps a request when it leaves the client, and the reply is there at once.
fn instant_server() -> impl FnMut(i64, &[u8]) -> Departure {
    let mut server = server();
    move |now, bytes| {
        let pending = server.request(bytes, Tick::new(now)).unwrap();
        Ok(vec![(now, pending.at(Tick::new(now)).to_vec())])
    }
}

fn asking(burst: u32, period_ms: Option<u64>) -> Asking {
    let schedule = Schedule {
        burst,
        period: period_ms.map(Duration::from_millis),
        reply_wait: Duration::from_millis(20),
        burst_limit: Duration::from_millis(500),
    };
    Asking { parties: PARTIES, key: key(), memory: MEMORY, schedule }
}

/// Both nodes read the same true time, so every bracket must contain its own stamp.
fn assert_true(exchange: &Exchange) {
    let (request, reply) = (exchange.request_bracket(), exchange.reply_bracket());
    assert!(request.before.unwrap().get() <= request.at.get(), "{exchange:?}");
    assert!(reply.at.get() <= reply.after.unwrap().get(), "{exchange:?}");
}

#[test]
fn a_clients_stamps_enclose_what_happens_between_them() {
    let stop = AtomicBool::new(false);
    let mut endpoint = Simulated::new(&stop, 100 * MILLISECOND_NS, instant_server());
    let mut exchanges = 0;
    let report = probe(&mut endpoint, PEER, asking(5, Some(10)), &stop, |exchange| {
        assert_true(exchange);
        exchanges += 1;
    })
    .unwrap();
    assert_eq!((report.counts.answered, report.counts.lost, report.counts.refusals.total()), (exchanges, 0, 0));
    assert!(exchanges >= 5 + 10 + 5, "{exchanges}");
    assert_eq!(report.round_trip_ticks_min, Some(3 * CALL_NS), "in and out of the send, and the receive");
}

#[test]
fn a_servers_stamps_lie_between_arrival_and_departure() {
    let stop = AtomicBool::new(false);
    let mut client = Client::new(PARTIES, key(), MEMORY);
    let requests: VecDeque<(i64, Vec<u8>)> = (1..=20)
        .map(|k| {
            let (nonce, sent) = (Nonce(k as u64), k * MILLISECOND_NS);
            let request = client.request(nonce).unwrap();
            client.sent(nonce, Tick::new(sent));
            (sent, request.bytes.to_vec())
        })
        .collect();
    let mut exchanges = 0;
    let mut endpoint = Simulated::new(&stop, 21 * MILLISECOND_NS, |leaves, reply: &[u8]| {
        assert_true(&client.reply(reply, Tick::new(leaves)).unwrap());
        exchanges += 1;
        Ok(vec![])
    });
    endpoint.inbox = requests;
    let report = serve(&mut endpoint, server(), &stop).unwrap();
    assert_eq!((report.answered, report.counts.admitted, exchanges), (20, 20, 20));
}

#[test]
fn a_late_request_does_not_shift_those_after_it() {
    let stop = AtomicBool::new(false);
    let mut left = Vec::new();
    let mut endpoint = Simulated::new(&stop, 100 * MILLISECOND_NS, |leaves, _: &[u8]| {
        left.push(leaves - CALL_NS);
        Ok(vec![])
    });
    // The process does not get to run from 20 ms to 45 ms.
    struct Stalled<E>(E);
    impl<P: FnMut(i64, &[u8]) -> Departure> Endpoint for Stalled<&mut Simulated<'_, P>> {
        type Address = Peer;
        fn stamp(&mut self, ordering: Ordering) -> i64 {
            self.0.stamp(ordering)
        }
        fn send(&mut self, bytes: &[u8], to: Peer) -> io::Result<()> {
            let stalls = self.0.now == 20 * MILLISECOND_NS;
            self.0.send(bytes, to)?;
            self.0.advance(if stalls { 45 * MILLISECOND_NS } else { 0 });
            Ok(())
        }
        fn receive(&mut self, buffer: &mut [u8], deadline: Duration) -> io::Result<Option<Received<Peer>>> {
            self.0.receive(buffer, deadline)
        }
        fn elapsed(&self) -> Duration {
            self.0.elapsed()
        }
        fn nonce(&mut self) -> io::Result<Nonce> {
            self.0.nonce()
        }
    }
    let report = probe(&mut Stalled(&mut endpoint), PEER, asking(0, Some(10)), &stop, |_| {}).unwrap();
    let milliseconds = |sent: &[i64]| sent.iter().map(|ns| ns / MILLISECOND_NS).collect::<Vec<_>>();
    assert_eq!(milliseconds(&left), [0, 10, 20, 45, 45, 50, 60, 70, 80, 90]);
    assert_eq!(left[5..].iter().map(|ns| ns % (10 * MILLISECOND_NS)).collect::<Vec<_>>(), [0; 5]);
    assert_eq!((report.late_sends, report.counts.lost), (1, 10), "30 ms was 15 ms late, 40 ms within a period");
}

#[test]
fn a_peer_that_never_answers_ends_a_burst_at_its_limit() {
    let stop = AtomicBool::new(true);
    let mut endpoint = Simulated::new(&stop, 0, |_, _: &[u8]| Ok(vec![]));
    let report = probe(&mut endpoint, PEER, asking(1000, None), &stop, |_| {}).unwrap();
    assert_eq!((report.counts.asked, report.counts.lost), (50, 50), "two bursts of 500 ms, 20 ms each");
}

#[test]
fn a_network_that_refuses_is_counted_and_does_not_end_the_run() {
    let stop = AtomicBool::new(false);
    let (mut server, mut sends) = (instant_server(), 0);
    let mut endpoint = Simulated::new(&stop, 100 * MILLISECOND_NS, |now, bytes: &[u8]| {
        sends += 1;
        if sends % 2 == 0 { Err(io::ErrorKind::ConnectionRefused.into()) } else { server(now, bytes) }
    });
    let report = probe(&mut endpoint, PEER, asking(0, Some(10)), &stop, assert_true).unwrap();
    assert_eq!((report.counts.asked, report.counts.answered, report.network.unsent), (5, 5, 5));
}

#[test]
fn strangers_and_repeats_are_counted_and_the_true_reply_still_counts() {
    let stop = AtomicBool::new(true);
    let mut server = instant_server();
    let mut endpoint = Simulated::new(&stop, 0, |now, bytes: &[u8]| {
        let reply = server(now, bytes)?.remove(0);
        let long = (now, [&reply.1[..], b"more"].concat());
        Ok(vec![(now, b"GET / HTTP/1.1".to_vec()), long, reply.clone(), reply])
    });
    let report = probe(&mut endpoint, PEER, asking(3, None), &stop, assert_true).unwrap();
    let refused = |name| report.counts.refusals.of(name);
    assert_eq!((report.counts.answered, refused("foreign"), refused("wrong-length")), (6, 6, 6));
    assert_eq!(refused("duplicate"), 5, "nobody waits for the very last one");
}
