//! Both ends and a channel between them in virtual time: losses, delay, reordering and duplicates from a seed.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::{BTreeMap, HashMap};

use tickscope_load::SplitMix;
use tickscope_prrt::{LossModel, LossProcess, PacketKind, Punctuality, Receiver, ReceiverPlan, Sender, SenderPlan};

pub const MS: i64 = 1_000_000;

/// Delays, losses and repeats of a way.
#[derive(Clone)]
pub struct Way {
    pub loss: LossModel,
    pub delay_ns: i64,
    /// Added to the delay, evenly drawn from 0 to this: more than the gap between packets reorders them.
    pub jitter_ns: i64,
    /// Packets of a hundred that come twice.
    pub doubled_percent: u64,
}

impl Way {
    pub fn clean(delay_ns: i64) -> Self {
        Self { loss: LossModel::independent(0.0).unwrap(), delay_ns, jitter_ns: 0, doubled_percent: 0 }
    }

    pub fn losing(self, lost: f64) -> Self {
        Self { loss: LossModel::independent(lost).unwrap(), ..self }
    }
}

/// A way with its own losses, and packets that are under way by when they come.
pub struct Line {
    pub way: Way,
    losses: LossProcess,
    random: SplitMix,
    under_way: BTreeMap<(i64, u64), Vec<u8>>,
    count: u64,
    pub lost: u64,
}

impl Line {
    fn new(way: Way, seed: u64) -> Self {
        let losses = LossProcess::new(way.loss, seed);
        Self { way, losses, random: SplitMix::new(!seed), under_way: BTreeMap::new(), count: 0, lost: 0 }
    }

    fn carry(&mut self, bytes: &[u8], now: i64) {
        if self.losses.loses() {
            self.lost += 1;
            return;
        }
        let copies = 1 + u64::from(self.random.below(100) < self.way.doubled_percent);
        for _ in 0..copies {
            let jitter = self.random.below(self.way.jitter_ns as u64 + 1) as i64;
            self.count += 1;
            self.under_way.insert((now + self.way.delay_ns + jitter, self.count), bytes.to_vec());
        }
    }

    fn next(&self) -> Option<i64> {
        self.under_way.first_key_value().map(|((at, _), _)| *at)
    }

    fn arrived(&mut self, now: i64) -> Option<Vec<u8>> {
        self.next().filter(|at| *at <= now)?;
        self.under_way.pop_first().map(|(_, bytes)| bytes)
    }
}

/// A payload that went over the channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trip {
    pub submitted_ns: i64,
    pub delivered_ns: i64,
    pub recovered: bool,
    pub punctuality: Punctuality,
}

pub struct Network {
    pub sender: Sender,
    pub receiver: Receiver,
    pub forth: Line,
    pub back: Line,
    pub now: i64,
    pub submitted: HashMap<u64, (i64, Vec<u8>)>,
    pub trips: HashMap<u64, Trip>,
    /// Parity that followed blocks without being asked for, and all of it.
    pub parity: u64,
    random: SplitMix,
}

impl Network {
    pub fn new(plan: SenderPlan, receiver: ReceiverPlan, (forth, back): (Way, Way), seed: u64) -> Self {
        Self {
            sender: Sender::new(plan).unwrap(),
            receiver: Receiver::new(receiver),
            forth: Line::new(forth, seed),
            back: Line::new(back, seed ^ 0xbac),
            now: 0,
            submitted: HashMap::new(),
            trips: HashMap::new(),
            parity: 0,
            random: SplitMix::new(seed ^ 0xda7a),
        }
    }

    /// Submits a payload of a random length at the present instant.
    pub fn submit(&mut self) -> u64 {
        let payload: Vec<u8> = (0..self.random.below(200)).map(|_| self.random.bits() as u8).collect();
        let id = self.sender.submit(&payload, self.now).unwrap();
        assert!(self.submitted.insert(id, (self.now, payload)).is_none(), "id {id} twice");
        self.turn();
        id
    }

    /// Lets time pass until `until`, event by event.
    pub fn run_until(&mut self, until: i64) {
        loop {
            self.turn();
            let due = [self.forth.next(), self.back.next(), self.sender.wake_at(), self.receiver.wake_at()];
            let next = due.into_iter().flatten().min().unwrap_or(until).min(until);
            assert!(next > self.now || next == until, "an end wants to wake at {next}, it is {} already", self.now);
            self.now = next;
            if next == until {
                return self.turn();
            }
        }
    }

    /// All that happens at this instant.
    fn turn(&mut self) {
        let mut bytes = Vec::new();
        while let Some(datagram) = self.forth.arrived(self.now) {
            self.receiver.handle(&datagram, self.now);
            self.deliver();
        }
        while let Some(datagram) = self.back.arrived(self.now) {
            self.sender.handle(&datagram, self.now);
        }
        self.receiver.on_time(self.now);
        self.sender.on_time(self.now);
        while self.receiver.feedback(self.now, &mut bytes).is_some() {
            self.back.carry(&bytes, self.now);
        }
        loop {
            while let Some(sent) = self.sender.transmit(self.now, &mut bytes) {
                self.parity += u64::from(sent.kind == PacketKind::Parity);
                self.forth.carry(&bytes, self.now);
            }
            if self.sender.next_to_encode().is_none() {
                return;
            }
            self.sender.encode();
        }
    }

    fn deliver(&mut self) {
        while self.receiver.next_to_decode().is_some() {
            self.receiver.decode();
        }
        while let Some(delivery) = self.receiver.next_delivery(self.now) {
            let (submitted_ns, payload) = self.submitted.get(&delivery.id).expect("it was submitted");
            assert_eq!(&delivery.payload, payload, "id {}", delivery.id);
            let (submitted_ns, delivered_ns) = (*submitted_ns, self.now);
            let (recovered, punctuality) = (delivery.recovered, delivery.punctuality);
            let trip = Trip { submitted_ns, delivered_ns, recovered, punctuality };
            assert_eq!(self.trips.insert(delivery.id, trip), None, "id {} twice", delivery.id);
        }
    }
}
