//! The sending end: payloads leave at once, parity behind their block or where it is asked for, nothing after its
//! deadline.

use std::collections::VecDeque;

use crate::block::{MOST_BLOCKS, MOST_HELD_BYTES};
use crate::code::{Code, Coding};
use crate::estimate::{LossEstimate, upper_share};
use crate::packet::{
    Feedback, HEADER_BYTES, Header, LENGTH_BYTES, MOST_ID, MOST_LEFT_US, MOST_PAYLOAD_BYTES, Packet, PacketKind,
};
use crate::search::{CodingChoice, Demand, PathState, search};
use crate::{BlockState, Error};

/// Round trips that are remembered: the path's is taken to be the longest of them.
const RECENT_TRIPS: usize = 64;
/// Bits of what every packet has on the path beside its payload: the header, UDP's and IPv4's.
const OVERHEAD_BITS: f64 = 8.0 * (HEADER_BYTES + LENGTH_BYTES + 28) as f64;

/// Constraints of an application, for a sender that chooses its coding by itself.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Constraints {
    /// Share of payloads that may be missing at the deadline.
    pub residual_loss: f64,
    /// Bits a second that the path takes; infinite where nothing limits it.
    pub rate_bps: f64,
    /// Time that the receiver takes to notice a loss, nanoseconds.
    pub detection_ns: f64,
}

/// Settings of a sender.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SenderPlan {
    /// Number of the connection: packets of another one are refused.
    pub session: u32,
    /// Blocks and their parity.
    pub coding: Coding,
    /// Nanoseconds from a payload's submission until it is of no use any more, a minute at most.
    pub deadline_ns: i64,
    /// Nanoseconds that a block waits for its next payload before it is cut short.
    pub flush_ns: i64,
    /// Nanoseconds from one packet to the next at least; 0: none.
    pub pace_ns: i64,
}

/// Counts of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "docs/prrt.md has a line for each")]
pub struct SenderCounts {
    pub submitted: u64,
    pub sources: u64,
    pub parity: u64,
    pub bytes: u64,
    pub expired: u64,
    pub blocks: u64,
    pub cut_short: u64,
    pub feedback: u64,
    pub asked: u64,
    pub refused_asks: u64,
    pub malformed: u64,
    pub strangers: u64,
    pub stale: u64,
    pub contradicting: u64,
    pub settled: u64,
    pub missing: u64,
    pub restarts: u64,
}

/// A packet to be sent now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Kind of the packet: source or parity.
    pub kind: PacketKind,
    /// Id of its stamps.
    pub id: i64,
    /// Id of its block.
    pub block: u64,
}

/// State of one sender.
pub struct Sender {
    plan: SenderPlan,
    blocks: VecDeque<SentBlock>,
    next_base: u64,
    sequence: u64,
    held_bytes: usize,
    sources: VecDeque<(u64, u8)>,
    parity: VecDeque<(u64, u8)>,
    /// Blocks whose parity is to be computed.
    encodes: VecDeque<u64>,
    /// Before that, nothing is sent.
    paced_ns: i64,
    heard: Option<Heard>,
    /// The way to the receiver, where it was told.
    way_ns: Option<i64>,
    load: Load,
    code: Code,
    counts: SenderCounts,
}

struct SentBlock {
    base: u64,
    coding: Coding,
    sources: Vec<Vec<u8>>,
    deadlines_ns: Vec<i64>,
    parity: Vec<Vec<u8>>,
    /// Parity packets that are to be sent or were.
    granted: u8,
    rounds: u8,
    is_closed: bool,
}

struct Heard {
    /// The first packet that the receiver remembers.
    first: u64,
    /// The newest packet that was echoed.
    echo: u64,
    sequence: u64,
    /// Feedbacks that were taken.
    taken: u64,
    rtt_ns_min: i64,
    recent_ns: VecDeque<i64>,
    losses: LossEstimate,
    /// Payloads of blocks that are over, and those that are missing, as the last one told.
    payloads: [u64; 2],
}

/// The payloads of late.
#[derive(Default)]
struct Load {
    last_ns: Option<i64>,
    interval_ns: Option<f64>,
    /// The longest of late from one to the next; what lies farther back counts less and less.
    longest_ns: f64,
    longest: usize,
}

impl Sender {
    /// A sender that has sent nothing yet.
    pub fn new(plan: SenderPlan) -> Result<Self, Error> {
        let deadlines_ns = 1..=i64::from(MOST_LEFT_US) * 1000;
        for (is_kept, expected, ns, remedy) in [
            (
                deadlines_ns.contains(&plan.deadline_ns),
                "a deadline above 0 of 60 s at most",
                plan.deadline_ns,
                "Packets say no longer time than that, and what is due at once cannot come",
            ),
            (
                plan.flush_ns > 0,
                "a time to flush above 0",
                plan.flush_ns,
                "It is how long a block waits for its next payload: of blocks of one payload none waits, k = 1",
            ),
            (plan.pace_ns >= 0, "a pace of 0 or more", plan.pace_ns, "Without a pace, 0, packets leave at once"),
        ] {
            if !is_kept {
                return Err(Error::new(expected, format!("{ns} ns"), remedy));
            }
        }
        Ok(Self {
            plan,
            blocks: VecDeque::new(),
            next_base: 0,
            sequence: 0,
            held_bytes: 0,
            sources: VecDeque::new(),
            parity: VecDeque::new(),
            encodes: VecDeque::new(),
            paced_ns: i64::MIN,
            heard: None,
            way_ns: None,
            load: Load::default(),
            code: Code::default(),
            counts: SenderCounts::default(),
        })
    }

    /// Counts so far.
    pub fn counts(&self) -> SenderCounts {
        self.counts
    }

    /// The shortest of the last 64 round trips of a packet and its feedback, without the time that the receiver held
    /// it.
    pub fn rtt_ns_min(&self) -> Option<i64> {
        self.heard.as_ref().map(|heard| heard.rtt_ns_min)
    }

    /// Bytes and blocks that it holds.
    pub fn held(&self) -> (usize, usize) {
        (self.held_bytes, self.blocks.len())
    }

    /// The coding of blocks that begin from now on.
    pub fn set_coding(&mut self, coding: Coding) {
        self.plan.coding = coding;
    }

    /// Tells how long a packet is under way to the receiver at most, nanoseconds, as a clock map between both hosts
    /// bounds it; `None`: half a round trip is taken for it.
    pub fn set_way(&mut self, way_ns: Option<i64>) {
        self.way_ns = way_ns;
    }

    /// The id that the next payload gets; a block that was cut short leaves out those that it did not use.
    pub fn next_id(&self) -> u64 {
        let open = self.blocks.back().filter(|block| !block.is_closed);
        open.map_or(self.next_base, |block| block.base + block.sources.len() as u64)
    }

    /// Chooses the coding of blocks that begin from now on by what is known of the path; `None`: too little is yet.
    /// Where no coding keeps the constraints the present one stays, and the error names the constraint.
    pub fn adapt(&mut self, constraints: &Constraints) -> Option<Result<CodingChoice, Error>> {
        let (heard, interval_ns) = (self.heard.as_ref()?, self.load.interval_ns?);
        let path = PathState {
            loss: heard.losses.model()?,
            rtt_ns: *heard.recent_ns.iter().max()? as f64,
            way_ns: self.way_ns.map(|way_ns| way_ns as f64),
            response_ns: 0.0,
            detection_ns: constraints.detection_ns,
            next_ns: Some(self.load.longest_ns),
            requests_lost: self.requests_lost(),
        };
        let packet_bits = OVERHEAD_BITS + 8.0 * self.load.longest as f64;
        let demand = Demand {
            residual_loss: constraints.residual_loss,
            deadline_ns: self.plan.deadline_ns as f64,
            interval_ns,
            packet_bits,
            rate_bps: constraints.rate_bps.min(packet_bits * 1e9 / self.plan.pace_ns as f64),
        };
        let choice = search(&demand, &path);
        if let Ok(choice) = &choice {
            self.set_coding(choice.coding.clone());
        }
        Some(choice)
    }

    /// The share of feedback that is lost, at the upper end of what the gaps in their numbers allow.
    fn requests_lost(&self) -> f64 {
        let [sent, taken] =
            self.heard.as_ref().map_or([0.0; 2], |heard| [heard.sequence as f64 + 1.0, heard.taken as f64]);
        upper_share((sent - taken).max(0.0), sent.max(1.0))
    }

    /// Takes a payload; answers its id.
    pub fn submit(&mut self, payload: &[u8], now: i64) -> Result<u64, Error> {
        if payload.len() > MOST_PAYLOAD_BYTES {
            let expected = format!("a payload of at most {MOST_PAYLOAD_BYTES} bytes");
            return Err(Error::new(expected, payload.len(), "Divide it: a payload is one datagram"));
        }
        self.on_time(now);
        let is_open = self.blocks.back().is_some_and(|block| !block.is_closed);
        if !is_open && self.blocks.len() == MOST_BLOCKS || self.held_bytes + payload.len() > MOST_HELD_BYTES {
            let expected = format!("at most {MOST_BLOCKS} blocks and {MOST_HELD_BYTES} bytes before their deadline");
            return Err(Error::new(expected, "more", "Submit less often, make blocks larger, or the deadline shorter"));
        }
        if !is_open {
            self.open()?;
        }
        let block = self.blocks.back_mut().expect("a block is open");
        let index = block.sources.len() as u8;
        block.sources.push(payload.to_vec());
        block.deadlines_ns.push(now.saturating_add(self.plan.deadline_ns));
        self.held_bytes += payload.len();
        self.sources.push_back((block.base, index));
        self.counts.submitted += 1;
        self.load.take(payload.len(), now);
        let id = block.base + u64::from(index);
        if block.sources.len() == usize::from(block.coding.k()) {
            self.close();
        }
        Ok(id)
    }

    fn open(&mut self) -> Result<(), Error> {
        let (base, coding) = (self.next_base, self.plan.coding.clone());
        if base + u64::from(coding.k()) > MOST_ID {
            return Err(Error::new(format!("ids up to {MOST_ID}"), base, "Open another connection"));
        }
        self.next_base += u64::from(coding.k());
        self.counts.blocks += 1;
        let (sources, deadlines_ns, parity) = (Vec::new(), Vec::new(), Vec::new());
        self.blocks.push_back(SentBlock {
            base,
            coding,
            sources,
            deadlines_ns,
            parity,
            granted: 0,
            rounds: 0,
            is_closed: false,
        });
        Ok(())
    }

    /// Ends the block that is open.
    fn close(&mut self) {
        let block = self.blocks.back_mut().expect("a block is open");
        block.is_closed = true;
        self.counts.cut_short += u64::from(block.sources.len() < usize::from(block.coding.k()));
        block.granted = block.coding.proactive();
        if block.granted > 0 {
            self.encodes.push_back(block.base);
        }
    }

    /// Cuts the open block short, so that its parity is sent: for a stream's end.
    pub fn flush(&mut self) {
        if self.blocks.back().is_some_and(|block| !block.is_closed) {
            self.close();
        }
    }

    /// The id of the block that [`Sender::encode`] would compute parity of; there is no hurry while payloads wait.
    pub fn next_to_encode(&self) -> Option<u64> {
        self.encodes.front().copied()
    }

    /// Computes the parity that the next such block is to have.
    pub fn encode(&mut self) {
        let Some(base) = self.encodes.pop_front() else { return };
        let Some(block) = find(&mut self.blocks, base) else { return };
        let (k, sent) = (block.coding.k(), block.parity.len());
        let made = self.code.encode(k, k + block.granted, &block.sources);
        for (index, parity) in made.into_iter().enumerate().skip(sent) {
            self.held_bytes += parity.len();
            block.parity.push(parity);
            self.parity.push_back((base, k + index as u8));
        }
    }

    /// Writes the packet that is to be sent at `now`; `None`: there is none, or not yet.
    pub fn transmit(&mut self, now: i64, bytes: &mut Vec<u8>) -> Option<Datagram> {
        if now < self.paced_ns {
            return None;
        }
        while let Some((base, index)) = self.sources.pop_front().or_else(|| self.parity.pop_front()) {
            if let Some(sent) = self.write(base, index, now, bytes) {
                self.paced_ns = now.max(self.paced_ns).saturating_add(self.plan.pace_ns);
                return Some(sent);
            }
        }
        None
    }

    fn write(&mut self, base: u64, index: u8, now: i64, bytes: &mut Vec<u8>) -> Option<Datagram> {
        let rtt_us = self.rtt_ns_min().map_or(0, |rtt_ns| (rtt_ns / 1000).clamp(1, u32::MAX.into()) as u32);
        let block = find(&mut self.blocks, base)?;
        let (k, n) = (block.coding.k(), block.coding.n());
        let (kind, payload, deadline_ns) = match index.checked_sub(k) {
            None => (PacketKind::Source, &block.sources[usize::from(index)], block.deadlines_ns[usize::from(index)]),
            Some(parity) => (PacketKind::Parity, &block.parity[usize::from(parity)], block.expires_ns()),
        };
        if deadline_ns <= now {
            self.counts.expired += u64::from(kind == PacketKind::Source);
            return None;
        }
        let left_us = u32::try_from((deadline_ns - now) / 1000).unwrap_or(u32::MAX);
        let filled = if block.is_closed { block.sources.len() as u8 } else { 0 };
        let (session, sequence) = (self.plan.session, self.sequence);
        let sent_ns = now;
        let header = Header { kind, index, k, n, filled, session, left_us, base, sequence, sent_ns, rtt_us };
        header.write(payload, bytes);
        self.sequence += 1;
        self.counts.bytes += bytes.len() as u64;
        *(if kind == PacketKind::Source { &mut self.counts.sources } else { &mut self.counts.parity }) += 1;
        Some(Datagram { kind, id: header.id(), block: base })
    }

    /// Takes a datagram that came at `now`; answers the number of the feedback. `None`: it was refused, and counted.
    pub fn handle(&mut self, bytes: &[u8], now: i64) -> Option<u64> {
        let refused = match Packet::parse(bytes) {
            Ok(Packet::Feedback(session, _)) if session != self.plan.session => &mut self.counts.strangers,
            Ok(Packet::Feedback(_, feedback)) => match self.hear(&feedback, now) {
                Ok(()) => {
                    feedback.blocks.iter().for_each(|state| self.answer(state, now));
                    self.counts.feedback += 1;
                    return Some(feedback.sequence);
                }
                Err(count) => count,
            },
            _ => &mut self.counts.malformed,
        };
        *refused += 1;
        None
    }

    fn hear(&mut self, feedback: &Feedback, now: i64) -> Result<(), &mut u64> {
        let rtt_ns = i64::try_from(feedback.held_ns)
            .ok()
            .and_then(|held_ns| now.checked_sub(feedback.echo_sent_ns)?.checked_sub(held_ns))
            .filter(|rtt_ns| *rtt_ns >= 0 && feedback.echo < self.sequence);
        let Some(rtt_ns) = rtt_ns else { return Err(&mut self.counts.contradicting) };
        let is_other = |heard: &Heard| heard.first != feedback.first;
        let is_stale = |heard: &Heard| {
            if is_other(heard) { heard.echo >= feedback.echo } else { heard.sequence >= feedback.sequence }
        };
        if self.heard.as_ref().is_some_and(is_stale) {
            return Err(&mut self.counts.stale);
        }
        if self.heard.as_ref().is_some_and(is_other) {
            (self.heard, self.counts.restarts) = (None, self.counts.restarts + 1);
        }
        let heard = self.heard.get_or_insert_with(|| Heard {
            first: feedback.first,
            echo: feedback.echo,
            sequence: feedback.sequence,
            taken: 0,
            rtt_ns_min: rtt_ns,
            recent_ns: VecDeque::new(),
            losses: LossEstimate::new(),
            payloads: [0; 2],
        });
        (heard.sequence, heard.echo) = (feedback.sequence, heard.echo.max(feedback.echo));
        heard.taken += 1;
        heard.recent_ns.push_back(rtt_ns);
        if heard.recent_ns.len() > RECENT_TRIPS {
            heard.recent_ns.pop_front();
        }
        heard.rtt_ns_min = heard.recent_ns.iter().copied().min().unwrap_or(rtt_ns);
        heard.losses.take(feedback);
        let told = [feedback.payloads, feedback.missing];
        let [settled, missing] = [0, 1].map(|at| told[at].saturating_sub(heard.payloads[at]));
        heard.payloads = told;
        self.counts.settled = self.counts.settled.saturating_add(settled);
        self.counts.missing = self.counts.missing.saturating_add(missing);
        Ok(())
    }

    /// Grants what the rounds up to the one asked for bring, if it can still be in time.
    fn answer(&mut self, state: &BlockState, now: i64) {
        self.counts.asked += 1;
        let way_ns = self.way_ns.unwrap_or(self.rtt_ns_min().unwrap_or(0) / 2);
        let is_open = self.blocks.back().is_some_and(|block| block.base == state.base && !block.is_closed);
        if is_open {
            self.close(); // whoever asks for it believes that it ended: its deadline is near
        }
        let in_time = |block: &&mut SentBlock| block.expires_ns().saturating_sub(now) > way_ns;
        let granted = find(&mut self.blocks, state.base).filter(in_time).and_then(|block| {
            let rounds = block.rounds.saturating_add(1)..=state.round.min(block.coding.rounds());
            let more: u8 = rounds.filter_map(|round| block.coding.round(round)).sum();
            block.rounds = block.rounds.max(state.round.min(block.coding.rounds()));
            block.granted += more;
            (more > 0).then_some(block.base)
        });
        match granted {
            Some(base) => self.encodes.push_back(base),
            None => self.counts.refused_asks += 1,
        }
    }

    /// Does what is due at `now`: cuts a block short that waited too long, cleans those that expired.
    pub fn on_time(&mut self, now: i64) {
        if self.flush_at().is_some_and(|flush_ns| flush_ns <= now) {
            self.close();
        }
        while self.blocks.front().is_some_and(|block| block.is_closed && block.expires_ns() <= now) {
            let block = self.blocks.pop_front().expect("a block is there");
            let held = block.sources.iter().chain(&block.parity).map(Vec::len).sum::<usize>();
            self.held_bytes -= held;
            // Its payloads that were never sent; they come first in the queue.
            while self.sources.front().is_some_and(|(base, _)| *base == block.base) {
                self.sources.pop_front();
                self.counts.expired += 1;
            }
        }
    }

    fn flush_at(&self) -> Option<i64> {
        let block = self.blocks.back().filter(|block| !block.is_closed)?;
        let submitted_ns = block.expires_ns() - self.plan.deadline_ns;
        Some(submitted_ns.saturating_add(self.plan.flush_ns.min(self.plan.deadline_ns)))
    }

    /// Time at which something is due next; `None`: nothing is.
    pub fn wake_at(&self) -> Option<i64> {
        let sends = !self.sources.is_empty() || !self.parity.is_empty();
        let expiry = self.blocks.front().map(SentBlock::expires_ns);
        [sends.then_some(self.paced_ns), self.flush_at(), expiry].into_iter().flatten().min()
    }
}

impl Load {
    fn take(&mut self, bytes: usize, now: i64) {
        self.longest = self.longest.max(bytes);
        if let Some(last_ns) = self.last_ns.replace(now) {
            let interval_ns = now.saturating_sub(last_ns) as f64;
            let before = self.interval_ns.unwrap_or(interval_ns);
            self.interval_ns = Some(before + (interval_ns - before) / 64.0);
            self.longest_ns = interval_ns.max(self.longest_ns - (self.longest_ns - before) / 512.0);
        }
    }
}

impl SentBlock {
    /// The deadline of its last payload.
    fn expires_ns(&self) -> i64 {
        *self.deadlines_ns.last().expect("a block has a payload")
    }
}

/// Blocks are in the order of their ids.
fn find(blocks: &mut VecDeque<SentBlock>, base: u64) -> Option<&mut SentBlock> {
    let at = blocks.binary_search_by_key(&base, |block| block.base).ok()?;
    blocks.get_mut(at)
}
