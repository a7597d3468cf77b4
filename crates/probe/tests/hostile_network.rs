//! Client and server over a network that delays, loses, repeats, reorders, forges and replays, with two clocks whose
//! true map is known.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;
use tickscope_bracket::Bracket;
use tickscope_probe::PairKey;
use tickscope_probe::datagram::{LENGTH, NodeId, Nonce, RunId};
use tickscope_probe::exchange::{Client, Exchange, Memory, Parties, Server};
use tickscope_tick::simulated::SimulatedClock;
use tickscope_tick::{Injection, Stairs, Tick};

const PARTIES: Parties = Parties { run: RunId(0xfeed), client: NodeId(1), server: NodeId(2) };

fn key() -> PairKey {
    PairKey::new([0x5a; 32])
}

fn client(memory: Memory) -> Client {
    Client::new(PARTIES, key(), memory)
}

fn server() -> Server {
    Server::new(PARTIES.run, PARTIES.server, [(PARTIES.client, key())])
}

/// True times are in nanoseconds; no simulated time is near this.
const FOREVER: i64 = 1 << 50;

/// What the network does to one exchange. Each copy of a datagram has a delay of its own; no copies: it is lost.
#[derive(Clone, Debug)]
struct Fate {
    pause: i64,
    requests: Vec<i64>,
    replies: Vec<i64>,
    /// From seeing the request to reading t3, and from a datagram's arrival to reading the counter.
    turnaround: i64,
    lag: i64,
    attack: Attack,
    attack_delay: i64,
}

/// What the attacker, who reads everything and has no key, adds to one exchange.
#[derive(Clone, Debug)]
enum Attack {
    None,
    Noise(Vec<u8>),
    /// The reply again, after it was used.
    Replay,
    /// The request, sent back to the client.
    Reflect,
    /// The true reply with any of its bytes changed and stamps of the attacker's choice, before the true one.
    Forge {
        field: usize,
        change: u8,
        t2: i64,
        t3: i64,
    },
    /// A reply cut short.
    Cut(usize),
}

enum Event {
    Ask(usize),
    Request { of: usize, bytes: Vec<u8> },
    Reply { bytes: Vec<u8>, lag: i64, hostile: bool },
}

struct Network {
    fates: Vec<Fate>,
    reference: SimulatedClock,
    local: SimulatedClock,
    client: Client,
    server: Server,
    queue: BinaryHeap<Reverse<(i64, usize)>>,
    events: Vec<Option<Event>>,
    evidence: Vec<Exchange>,
    replied: Vec<bool>,
    delivered: u64,
    hostile: u64,
}

impl Network {
    fn new(fates: Vec<Fate>, reference: SimulatedClock, local: SimulatedClock) -> Self {
        let memory = Memory { outstanding_max: 1000, window_ticks: i64::MAX };
        Self {
            replied: vec![false; fates.len()],
            fates,
            reference,
            local,
            client: client(memory),
            server: server(),
            queue: BinaryHeap::new(),
            events: Vec::new(),
            evidence: Vec::new(),
            delivered: 0,
            hostile: 0,
        }
    }

    fn schedule(&mut self, at: i64, event: Event) {
        self.queue.push(Reverse((at, self.events.len())));
        self.events.push(Some(event));
    }

    fn run(&mut self) {
        self.schedule(0, Event::Ask(0));
        while let Some(Reverse((now, number))) = self.queue.pop() {
            match self.events[number].take().unwrap() {
                Event::Ask(of) => self.ask(now, of),
                Event::Request { of, bytes } => self.answer(now, of, &bytes),
                Event::Reply { bytes, lag, hostile } => self.arrive(now + lag, &bytes, hostile),
            }
        }
    }

    fn ask(&mut self, now: i64, of: usize) {
        let nonce = Nonce(0xfeed_0000_0000 + of as u64);
        let request = self.client.request(nonce).unwrap();
        self.client.sent(nonce, Tick::new(self.reference.read(now)));
        let fate = self.fates[of].clone();
        for delay in &fate.requests {
            self.schedule(now + delay, Event::Request { of, bytes: request.bytes.to_vec() });
        }
        let hostile = match &fate.attack {
            Attack::Noise(bytes) => Some(bytes.clone()),
            Attack::Reflect => Some(request.bytes.to_vec()),
            _ => None,
        };
        self.attack(now, &fate, hostile);
        if of + 1 < self.fates.len() {
            self.schedule(now + fate.pause, Event::Ask(of + 1));
        }
    }

    fn answer(&mut self, now: i64, of: usize, bytes: &[u8]) {
        let fate = self.fates[of].clone();
        let seen = now + fate.lag;
        let Ok(pending) = self.server.request(bytes, Tick::new(self.local.read(seen))) else { return };
        let leaves = seen + fate.turnaround;
        let reply = pending.at(Tick::new(self.local.read(leaves))).to_vec();
        for delay in &fate.replies {
            self.replied[of] = true;
            self.schedule(leaves + delay, Event::Reply { bytes: reply.clone(), lag: fate.lag, hostile: false });
        }
        let hostile = match fate.attack {
            Attack::Replay => Some(reply),
            Attack::Cut(length) => Some(reply[..length].to_vec()),
            Attack::Forge { field, change, t2, t3 } => {
                let bytes = forged(reply, field, change, [t2, t3]);
                self.schedule(seen, Event::Reply { bytes: bytes.clone(), lag: 0, hostile: true });
                Some(bytes)
            }
            _ => None,
        };
        // A replay comes after every copy that the network made itself, or it would be the first.
        let last = fate.replies.iter().max().copied();
        if last.is_some() || !matches!(self.fates[of].attack, Attack::Replay) {
            self.attack(leaves + last.unwrap_or(0) + fate.lag, &fate, hostile);
        }
    }

    fn attack(&mut self, now: i64, fate: &Fate, bytes: Option<Vec<u8>>) {
        if let Some(bytes) = bytes {
            self.schedule(now + 1 + fate.attack_delay, Event::Reply { bytes, lag: fate.lag, hostile: true });
        }
    }

    fn arrive(&mut self, seen: i64, bytes: &[u8], hostile: bool) {
        self.delivered += 1;
        self.hostile += u64::from(hostile);
        let verdict = self.client.reply(bytes, Tick::new(self.reference.read(seen)));
        assert!(!hostile || verdict.is_err(), "became evidence: {bytes:02x?}");
        self.evidence.extend(verdict);
    }

    /// Whether some true moment at which the server's counter read `at` lies within the bracket.
    fn holds(&self, bracket: &Bracket) -> bool {
        let first = first_reading(&self.local, bracket.at.get());
        let last = first_reading(&self.local, bracket.at.get() + 1) - 1;
        assert_eq!(self.local.exact(first), bracket.at.get(), "a stamp that the server never read");
        bracket.before.is_none_or(|before| before.get() <= self.reference.exact(last))
            && bracket.after.is_none_or(|after| self.reference.exact(first) <= after.get())
    }
}

/// The reply with one byte changed, and other stamps.
fn forged(mut reply: Vec<u8>, field: usize, change: u8, stamps: [i64; 2]) -> Vec<u8> {
    reply[field] ^= change;
    reply[32..40].copy_from_slice(&stamps[0].to_le_bytes());
    reply[40..48].copy_from_slice(&stamps[1].to_le_bytes());
    reply
}

/// The first true time at which the clock reads at least `tick`.
fn first_reading(clock: &SimulatedClock, tick: i64) -> i64 {
    let (mut below, mut reached) = (-FOREVER, FOREVER);
    while reached - below > 1 {
        let middle = below + (reached - below) / 2;
        if clock.exact(middle) >= tick { reached = middle } else { below = middle }
    }
    reached
}

fn clock() -> impl Strategy<Value = SimulatedClock> {
    let injection = (-50_000i64..50_000, 0i64..10_000).prop_map(|(drift_ppb, wander_ppb)| Injection {
        anchor: 0,
        offset: 0,
        drift_ppb,
        wander_ppb,
        wander_period: 1 << 28,
        stairs: Stairs::default(),
    });
    let rate = prop::sample::select(vec![(1, 1), (2, 5), (5, 2), (24, 1000)]);
    (rate, -1_000_000_000i64..1_000_000_000, prop::option::of(injection)).prop_map(|(rate, offset, wander)| {
        SimulatedClock { rate_numerator: rate.0, rate_denominator: rate.1, offset, wander, ..SimulatedClock::default() }
    })
}

fn fate() -> impl Strategy<Value = Fate> {
    let copies = || {
        let delay = prop_oneof![0i64..50, 0i64..100_000, 0i64..50_000_000];
        let count = prop_oneof![1 => 0usize..1, 6 => 1usize..2, 2 => 2usize..4];
        count.prop_flat_map(move |count| prop::collection::vec(delay.clone(), count))
    };
    let attack = prop_oneof![
        3 => Just(Attack::None),
        1 => prop::collection::vec(any::<u8>(), 0..100).prop_map(Attack::Noise),
        1 => Just(Attack::Replay),
        1 => Just(Attack::Reflect),
        1 => (0usize..LENGTH, any::<u8>(), any::<i64>(), 0i64..1 << 40)
            .prop_map(|(field, change, t2, ahead)| Attack::Forge { field, change, t2, t3: t2.saturating_add(ahead) }),
        1 => (0usize..LENGTH).prop_map(Attack::Cut),
    ];
    (0i64..20_000_000, copies(), copies(), 0i64..100_000, 0i64..1000, attack, 0i64..50_000_000).prop_map(
        |(pause, requests, replies, turnaround, lag, attack, attack_delay)| Fate {
            pause,
            requests,
            replies,
            turnaround,
            lag,
            attack,
            attack_delay,
        },
    )
}

proptest! {
    #[test]
    fn property_every_bracket_contains_the_truth_and_no_stranger_becomes_evidence(
        fates in prop::collection::vec(fate(), 1..40), reference in clock(), local in clock(),
    ) {
        let mut network = Network::new(fates, reference, local);
        network.run();
        for exchange in &network.evidence {
            for bracket in [exchange.request_bracket(), exchange.reply_bracket()] {
                prop_assert!(network.holds(&bracket), "{bracket:?}");
            }
        }
        let counts = network.client.counts();
        prop_assert_eq!(network.evidence.len(), network.replied.iter().filter(|&&replied| replied).count(),
            "each request that was answered is evidence once");
        prop_assert_eq!(counts.answered + counts.refusals.total(), network.delivered, "nothing is dropped unseen");
        prop_assert!(counts.refusals.total() >= network.hostile);
        prop_assert_eq!(counts.refusals.impossible(), &[]);
    }

    #[test]
    fn property_no_bytes_break_either_side_or_are_admitted(
        datagrams in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..80), any::<bool>(), any::<i64>()), 0..50),
    ) {
        let mut client = client(Memory { outstanding_max: 4, window_ticks: 1000 });
        client.request(Nonce(1)).unwrap();
        client.sent(Nonce(1), Tick::new(0));
        let mut server = server();
        let count = datagrams.len() as u64;
        for (mut bytes, plausible, tick) in datagrams {
            if plausible && bytes.len() >= 6 {
                bytes[..6].copy_from_slice(b"tsPR\x02\x02");
            }
            prop_assert!(client.reply(&bytes, Tick::new(tick)).is_err());
            prop_assert!(server.request(&bytes, Tick::new(tick)).is_err());
        }
        prop_assert_eq!((client.counts().refusals.total(), server.counts().refusals.total()), (count, count));
    }

    #[test]
    fn property_memory_stays_bounded_and_every_request_is_accounted_for(
        outstanding_max in 1usize..20, steps in prop::collection::vec((0u8..4, 0usize..30, 0i64..3000), 0..200),
    ) {
        let mut client = client(Memory { outstanding_max, window_ticks: 2000 });
        let mut server = server();
        let mut replies = Vec::new();
        for (now, (action, which, late)) in steps.into_iter().enumerate() {
            match action {
                0 | 1 => {
                    let request = client.request(Nonce(now as u64)).unwrap();
                    client.sent(request.nonce, Tick::new(0));
                    replies.push(server.request(&request.bytes, Tick::new(5)).unwrap().at(Tick::new(6)));
                }
                2 if !replies.is_empty() => drop(client.reply(&replies[which % replies.len()], Tick::new(late))),
                _ => {}
            }
            prop_assert!(client.outstanding() <= outstanding_max);
        }
        let counts = client.counts();
        let settled = counts.answered + counts.refusals.of("late") + counts.lost;
        prop_assert_eq!(counts.asked, settled + client.outstanding() as u64);
    }
}
