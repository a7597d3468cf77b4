//! A running exchange under a flood of random, changed, replayed and reflected datagrams: what it proves is the same
//! digit for digit as without them, and each of them is counted.

use tickscope_probe::PairKey;
use tickscope_probe::datagram::{LENGTH, NodeId, Nonce, RunId};
use tickscope_probe::exchange::{Client, Exchange, Memory, Parties, Server};
use tickscope_tick::Tick;

const PARTIES: Parties = Parties { run: RunId(0xfeed), client: NodeId(1), server: NodeId(2) };
/// Datagrams that earlier versions and other programs send, and that once were near a mistake: one a line, in hex.
const CORPUS: &str = include_str!("corpus.txt");
const EXCHANGES: usize = 1000;
/// Of each kind, for each exchange: a million in all.
const FLOOD: usize = 1000;

/// Random numbers (splitmix64), the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn noise(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; if self.below(4) > 0 { LENGTH } else { self.below(80) }];
        bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]));
        if self.below(2) == 0 && bytes.len() > 6 {
            bytes[..6].copy_from_slice(if self.below(2) == 0 { b"tsPR\x02\x01" } else { b"tsPR\x02\x02" });
        }
        bytes
    }

    /// Not the datagram itself: one bit, a few bytes, its length or two of its fields are others.
    fn changed(&mut self, of: &[u8]) -> Vec<u8> {
        loop {
            let mut bytes = of.to_vec();
            match self.below(if of.len() < LENGTH { 4 } else { 5 }) {
                0 => bytes[self.below(of.len())] ^= 1 << self.below(8),
                1 => (0..=self.below(8)).for_each(|_| bytes[self.below(of.len())] = self.next() as u8),
                2 => bytes.truncate(self.below(of.len())),
                3 => bytes.resize(of.len() + 1 + self.below(8), 0),
                _ => {
                    let (one, other) = (8 * self.below(of.len() / 8), 8 * self.below(of.len() / 8));
                    (0..8).for_each(|byte| bytes.swap(one + byte, other + byte));
                }
            }
            if bytes != of {
                return bytes;
            }
        }
    }
}

/// Both ends, and who reads and writes their network.
struct Scene {
    client: Client,
    server: Server,
    now: i64,
    random: Random,
    /// What the network carried until now.
    captured: Vec<[u8; LENGTH]>,
    corpus: Vec<Vec<u8>>,
    injected: u64,
}

impl Scene {
    fn new() -> Self {
        let key = PairKey::new([0x5a; 32]);
        let byte = |line: &str, at: usize| u8::from_str_radix(&line[at..at + 2], 16).unwrap();
        let line = |line: &str| (0..line.len()).step_by(2).map(|at| byte(line, at)).collect();
        let corpus = CORPUS.lines().filter(|text| !text.starts_with('#')).map(line).collect();
        Self {
            client: Client::new(PARTIES, key.clone(), Memory { outstanding_max: 16, window_ticks: 10_000 }),
            server: Server::new(PARTIES.run, PARTIES.server, [(PARTIES.client, key)]),
            now: 0,
            random: Random(14),
            captured: Vec::new(),
            corpus,
            injected: 0,
        }
    }

    /// Both ends get the same strange datagrams; none comes through.
    fn flood(&mut self, datagrams: usize) {
        for _ in 0..datagrams {
            let (noise, replayed) = (self.random.noise(), self.captured[self.random.below(self.captured.len())]);
            let old = &self.corpus[self.random.below(self.corpus.len())];
            let changed = match self.random.below(8) {
                0 => self.random.changed(old),
                _ => self.random.changed(&replayed),
            };
            let old = self.corpus[self.random.below(self.corpus.len())].clone();
            for bytes in [&noise, &changed, &old] {
                self.expect_refused(bytes);
            }
        }
    }

    fn expect_refused(&mut self, bytes: &[u8]) {
        let tick = self.now;
        assert!(self.server.request(bytes, Tick::new(tick)).is_err(), "answered: {bytes:02x?}");
        assert!(self.client.reply(bytes, Tick::new(tick)).is_err(), "became evidence: {bytes:02x?}");
        self.injected += 2;
    }

    /// What was carried before comes again, to both ends; the datagram under way may not come before itself.
    fn replay(&mut self, except: &[[u8; LENGTH]], datagrams: usize) {
        for _ in 0..datagrams {
            let bytes = self.captured[self.random.below(self.captured.len())];
            if !except.contains(&bytes) {
                self.expect_refused(&bytes);
            }
        }
    }

    /// One exchange, with so many strange datagrams of each kind around it.
    fn exchange(&mut self, number: usize, strange: usize) -> Exchange {
        let request = self.client.request(Nonce(7 << 32 | number as u64)).unwrap();
        self.client.sent(request.nonce, Tick::new(self.now));
        self.captured.push(request.bytes);
        self.flood(strange / 2);
        self.replay(&[request.bytes], strange / 100);
        self.now += 100;
        let pending = self.server.request(&request.bytes, Tick::new(self.now)).unwrap();
        self.now += 10;
        let reply = pending.at(Tick::new(self.now));
        self.captured.push(reply);
        self.flood(strange - strange / 2);
        self.replay(&[reply], strange / 100);
        self.now += 100;
        let exchange = self.client.reply(&reply, Tick::new(self.now)).unwrap();
        self.replay(&[], strange / 100);
        exchange
    }
}

fn all(exchanges: usize, strange: usize) -> (Vec<Exchange>, Scene) {
    let mut scene = Scene::new();
    ((0..exchanges).map(|number| scene.exchange(number, strange)).collect(), scene)
}

#[test]
fn a_million_random_and_a_million_changed_datagrams_and_replays_change_no_digit_and_are_all_counted() {
    let (calm, _) = all(EXCHANGES, 0);
    let (flooded, scene) = all(EXCHANGES, FLOOD);
    assert!(flooded == calm, "the same exchanges, digit for digit");
    let refused = scene.client.counts().refusals.total() + scene.server.counts().refusals.total();
    assert_eq!(refused, scene.injected);
    assert!(scene.injected > 2 * 2 * 1_000_000, "{}", scene.injected);
    let of = |name| scene.client.counts().refusals.of(name) + scene.server.counts().refusals.of(name);
    let names = ["wrong-length", "foreign", "wrong-version", "malformed", "wrong-kind", "wrong-run", "wrong-node"];
    for name in names.into_iter().chain(["wrong-mac", "duplicate", "unknown-nonce"]) {
        assert!(of(name) > 0, "{name}");
    }
    let counts = (scene.client.counts().answered, scene.server.counts().admitted);
    assert_eq!(counts, (EXCHANGES as u64, EXCHANGES as u64));
}
