//! Clients and servers that call each other, as in the example of the Cm* study (5): processes, sockets, shared words.
//!
//! A *pair* is a client and a server, two processes with a Unix datagram socket and a page of words between them. A call: the
//! client sends a message; the server reads the arguments and writes the results; its answer comes back; the client reads
//! the results. One pair is timed, by a clock that both of its processes read; the others do the same over and over, untimed:
//! load by replication. Timed calls are injected now and then, so that their server waits when they begin: at random from half to
//! three halves of the interval, and each repetition in an order of its own. At fixed intervals and in a fixed order, as in the
//! paper, they beat with the scheduler's tick: one number of words was then 30 us dearer than its neighbours.
//!
//! Guarantees: a call counts only if both sides read the very words that the other wrote. Assumes that a clock read by two
//! processes is one clock.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use tickscope_counter as counter;
use tickscope_host::affinity;

use super::load::BusyProcesses;
use super::recording::{Raised, Recorded, Sampled};
use super::service::{Job, Service};
use super::shared_words::{SharedWords, sum, write};
use crate::example::ExamplePlan;

/// A timed call, and the zero-time test right before it; in the clock's unit.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Words that client and server read together.
    pub words: u16,
    /// The section between the readings is empty.
    pub zero: Recorded,
    /// Its section is the message: from the client's reading before the send to the server's after the receive. The pair after
    /// follows the whole call.
    pub message: Recorded,
    /// From the client's reading before the send to the one after it read the results.
    pub rpc: i64,
}

/// What was timed, and the sampler's pairs meanwhile.
pub struct Calls {
    /// In order of time.
    pub calls: Vec<Call>,
    /// In order of time.
    pub sampled: Vec<Sampled>,
    /// Calls that began later than an interval after they were due.
    pub late: u32,
}

/// Times calls while `pairs - 1` other pairs call each other.
pub fn calls(service: &Service, cpus: &[usize], plan: &ExamplePlan, pairs: u32) -> io::Result<Calls> {
    /// Until start-up is over.
    const SETTLED: Duration = Duration::from_millis(100);
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    let words_now = SharedWords::new()?;
    let words_now = &words_now.all()[0];
    let mut processes = BusyProcesses::start(0)?;
    let timed = Pair::new()?;
    // Made before the fork: its child may not allocate.
    let reader = service.reader()?;
    processes.add(|| {
        let _ = affinity::pin(last);
        reader.drive(Serve { pair: &timed });
    })?;
    let others = (1..pairs).map(|_| Pair::new()).collect::<io::Result<Vec<Pair>>>()?;
    for pair in &others {
        processes.add(|| {
            let _ = affinity::pin(last);
            Serve { pair }.run(|| 0);
        })?;
        processes.add(|| {
            let _ = affinity::pin(first);
            loop {
                let words = words_now.load(Relaxed);
                pair.write_arguments(words);
                // What is not answered is no load; the next one is tried.
                let _ = pair.send(words).and_then(|()| pair.receive());
                std::hint::black_box(sum(pair.results(words)));
            }
        })?;
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let _ = affinity::pin(last);
            service.reader().map(|reader| reader.drive(Sample { over: &over }))
        });
        let client = scope.spawn(|| {
            let _sampler_ends = Raised(&over);
            let _ = affinity::pin(first);
            thread::sleep(SETTLED);
            service.reader().and_then(|reader| reader.drive(Timed { pair: &timed, plan, words_now }))
        });
        let timed = client.join().expect("the client's thread ends well");
        let sampled = sampler.join().expect("the sampler's thread ends well")?;
        let (calls, late) = timed?;
        Ok(Calls { calls, sampled, late })
    })
}

/// A client's and a server's ends.
struct Pair {
    client: UnixDatagram,
    server: UnixDatagram,
    page: SharedWords,
}

/// Where arguments and results lie in a page: on lines of their own, and further apart than a processor fetches ahead.
const RESULTS: usize = 1024;
/// A message holds the number of words, and room for a clock's reading and a sum on the way back.
const MESSAGE: usize = 16;
/// After so long without an answer the server is gone.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

struct Answer {
    /// The server's reading after it received.
    received: i64,
    /// The arguments' sum.
    sum: u16,
}

impl Pair {
    fn new() -> io::Result<Self> {
        let (client, server) = UnixDatagram::pair()?;
        client.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Self { client, server, page: SharedWords::new()? })
    }

    /// The server reads one half of the words.
    fn arguments(&self, words: u16) -> &[AtomicU16] {
        &self.page.all()[..usize::from(words) / 2]
    }

    /// The client reads the rest.
    fn results(&self, words: u16) -> &[AtomicU16] {
        &self.page.all()[RESULTS..RESULTS + usize::from(words).div_ceil(2)]
    }

    fn write_arguments(&self, words: u16) -> u16 {
        write(self.arguments(words), words);
        sum(self.arguments(words))
    }

    fn send(&self, words: u16) -> io::Result<()> {
        let mut message = [0; MESSAGE];
        message[..2].copy_from_slice(&words.to_le_bytes());
        self.client.send(&message).map(drop)
    }

    fn receive(&self) -> io::Result<Answer> {
        let mut message = [0; MESSAGE];
        self.client.recv(&mut message)?;
        let [a, b, c, d, e, f, g, h, low, high, ..] = message;
        Ok(Answer { received: i64::from_le_bytes([a, b, c, d, e, f, g, h]), sum: u16::from_le_bytes([low, high]) })
    }
}

struct Serve<'a> {
    pair: &'a Pair,
}

impl Job for Serve<'_> {
    type Output = ();

    /// Until the process is ended.
    fn run(self, mut read: impl FnMut() -> i64) {
        let mut message = [0; MESSAGE];
        loop {
            if self.pair.server.recv(&mut message).is_err() {
                continue;
            }
            let received = read();
            let words = u16::from_le_bytes([message[0], message[1]]);
            let sum = sum(self.pair.arguments(words));
            write(self.pair.results(words), sum);
            message[..8].copy_from_slice(&received.to_le_bytes());
            message[8..10].copy_from_slice(&sum.to_le_bytes());
            // A client that does not hear of it counts no call.
            let _ = self.pair.server.send(&message);
        }
    }
}

struct Timed<'a> {
    pair: &'a Pair,
    plan: &'a ExamplePlan,
    words_now: &'a AtomicU16,
}

impl Job for Timed<'_> {
    type Output = io::Result<(Vec<Call>, u32)>;

    fn run(self, mut read: impl FnMut() -> i64) -> Self::Output {
        let Self { pair, plan, words_now } = self;
        let interval = Duration::from_micros(plan.interval_us.into());
        let (mut due, mut late) = (Instant::now(), 0);
        let mut calls = Vec::with_capacity(plan.repetitions as usize * plan.words.len());
        let (mut order, mut dice) = (plan.words.clone(), Dice(SEED));
        for _ in 0..plan.repetitions {
            dice.shuffle(&mut order);
            for &words in &order {
                words_now.store(words, Relaxed);
                let written = pair.write_arguments(words);
                due += Duration::from_micros((plan.interval_us / 2 + dice.below(plan.interval_us)).into());
                thread::sleep(due.saturating_duration_since(Instant::now()));
                if due.elapsed() > interval {
                    (due, late) = (Instant::now(), late + 1);
                }
                let zero_from = counter::plain();
                let [first, second, third, fourth] = [read(), read(), read(), read()];
                let from = counter::plain();
                let before = read();
                let t1 = read();
                pair.send(words)?;
                let answer = pair.receive()?;
                let results = sum(pair.results(words));
                let t3 = read();
                let after = read();
                let to = counter::plain();
                let expected =
                    (0..words.div_ceil(2)).fold(0, |sum: u16, at| sum.wrapping_add(written.wrapping_add(at)));
                if (answer.sum, results) != (written, expected) {
                    return Err(io::Error::other("a call whose words are not those that were written"));
                }
                let zero = Recorded {
                    from: zero_from,
                    to: from,
                    t_1: second - first,
                    t_m: third - second,
                    t_4: fourth - third,
                    waited: 0,
                };
                let message =
                    Recorded { from, to, t_1: t1 - before, t_m: answer.received - t1, t_4: after - t3, waited: 0 };
                calls.push(Call { words, zero, message, rpc: t3 - t1 });
            }
        }
        Ok((calls, late))
    }
}

/// The order and the times are the same in every run; a program whose rhythm they met would not know it.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Marsaglia's xorshift: enough to keep out of step.
struct Dice(u64);

impl Dice {
    /// From 0 to less than `count`.
    fn below(&mut self, count: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * u64::from(count)) >> 32) as u32
    }

    fn shuffle(&mut self, words: &mut [u16]) {
        for last in (1..words.len()).rev() {
            words.swap(last, self.below(last as u32 + 1) as usize);
        }
    }
}

/// Method II's clock process: a pair of readings every so often.
struct Sample<'a> {
    over: &'a AtomicBool,
}

impl Job for Sample<'_> {
    type Output = Vec<Sampled>;

    fn run(self, mut read: impl FnMut() -> i64) -> Self::Output {
        const EVERY: Duration = Duration::from_micros(200);
        let mut pairs = Vec::new();
        while !self.over.load(Relaxed) {
            let first = read();
            let second = read();
            pairs.push(Sampled { at: counter::plain(), cost: second - first });
            thread::sleep(EVERY);
        }
        pairs
    }
}
