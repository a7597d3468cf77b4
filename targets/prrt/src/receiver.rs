//! The receiving end: hands payloads over as they come, recovers what is missing, asks for what could still help.

use std::collections::{BTreeMap, VecDeque};

use crate::block::{Block, MOST_BLOCKS, MOST_HELD_BYTES};
use crate::code::Code;
use crate::packet::{BLOCK_BYTES, FEEDBACK_BLOCKS, FEEDBACK_BYTES, Feedback, HEADER_BYTES, Header, Packet, PacketKind};
use crate::seen::{Seen, Sight};
use crate::sender_clock::{Deadline, Punctuality, SenderClock};

/// Blocks of which nothing came that it knows at most: one packet makes it ask for as many.
const MOST_MISSING: usize = 128;

/// Feedbacks that a packet allows for, and those that are allowed for at one time.
const FEEDBACKS_A_PACKET: u32 = 4;
const MOST_FEEDBACKS: u32 = 64;

/// Bytes of feedback for each byte that came from an address, at most: who forges one has no more sent there (RFC 9000,
/// section 8.1, before an address is validated; nothing here validates one).
const ANSWERS: usize = 3;

/// Distance of a packet to all that were taken, in its own number and in its block's, beyond which another one has to
/// follow it: as far as the numbers go that are remembered ([`Seen`]).
const MOST_AHEAD: u64 = 1024;

/// Settings of a receiver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceiverPlan {
    /// Nanoseconds from one feedback to the next, while packets come.
    pub feedback_ns: i64,
    /// Nanoseconds that a packet may come after one that was sent later, before more is asked for.
    pub reordered_ns: i64,
    /// Nanoseconds without a packet after which the sender is taken to have gone.
    pub vanished_ns: i64,
}

/// Counts of a receiver, of all senders that it had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "docs/prrt.md has a line for each")]
pub struct ReceiverCounts {
    pub sources: u64,
    pub parity: u64,
    pub recovered: u64,
    pub late: u64,
    pub undecided: u64,
    pub feedback: u64,
    pub asked: u64,
    pub hopeless: u64,
    pub given_up: u64,
    pub evicted: u64,
    pub malformed: u64,
    pub strangers: u64,
    pub replayed: u64,
    pub stale: u64,
    pub leaps: u64,
    pub contradicting: u64,
    pub superseded: u64,
    pub too_late: u64,
    pub undecodable: u64,
    pub vanished: u64,
}

/// A packet that was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Kind of the packet: source or parity.
    pub kind: PacketKind,
    /// Id of its stamps.
    pub id: i64,
    /// Id of its block.
    pub block: u64,
}

/// A payload for the application.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// Its id.
    pub id: u64,
    /// Its bytes, as they were submitted.
    pub payload: Vec<u8>,
    /// True if it was recovered instead of received.
    pub recovered: bool,
    /// Relation of the hand-over to its deadline.
    pub punctuality: Punctuality,
}

/// State of one receiver, which has one sender at a time.
pub struct Receiver {
    plan: ReceiverPlan,
    peer: Option<Peer>,
    blocks: BTreeMap<u64, Block>,
    /// Blocks that the ids between two known ones leave room for, as large as one of these: nothing came of them.
    missing: BTreeMap<u64, Block>,
    /// Blocks below are over.
    horizon: u64,
    held_bytes: usize,
    ready: VecDeque<u64>,
    deliveries: VecDeque<Waiting>,
    /// The way from the sender, where it was told.
    way_ns: Option<i64>,
    code: Code,
    counts: ReceiverCounts,
}

/// A payload that is to be handed over.
struct Waiting {
    id: u64,
    payload: Vec<u8>,
    recovered: bool,
    deadline: Deadline,
}

/// State of the connection with the sender.
struct Peer {
    session: u32,
    /// Number of the first packet.
    first: u64,
    seen: Seen,
    clock: SenderClock,
    heard_ns: i64,
    /// Number of the newest packet, its sender's clock, and the time at which it came.
    newest: (u64, i64, i64),
    rtt_ns: i64,
    feedback_ns: i64,
    feedbacks: u64,
    /// Feedbacks that may be sent before another packet comes: whoever forges one makes the receiver send no flood.
    allowance: u32,
    /// Bytes that may be sent before another packet comes.
    credit_bytes: usize,
    /// The highest number of a packet and of a block that were taken, and the size of that block.
    highest: [u64; 2],
    k: u8,
    /// Both numbers of a packet that was too far ahead, if none was taken since.
    ahead: Option<[u64; 2]>,
    /// The longest time to its deadline that a packet had.
    longest_left_ns: i64,
    /// Payloads of blocks that are over, and those of them that were not handed over.
    payloads: u64,
    missing: u64,
    /// A packet came since the last feedback.
    is_due: bool,
}

impl Receiver {
    /// A receiver that has heard nobody yet.
    pub fn new(plan: ReceiverPlan) -> Self {
        Self {
            plan,
            peer: None,
            blocks: BTreeMap::new(),
            missing: BTreeMap::new(),
            horizon: 0,
            held_bytes: 0,
            ready: VecDeque::new(),
            deliveries: VecDeque::new(),
            way_ns: None,
            code: Code::default(),
            counts: ReceiverCounts::default(),
        }
    }

    /// Tells how long a packet of the sender is under way at most, nanoseconds, as a clock map between both hosts
    /// bounds it; `None`: half a round trip is taken for it.
    pub fn set_way(&mut self, way_ns: Option<i64>) {
        self.way_ns = way_ns;
    }

    /// Tells that the last datagram, of so many bytes, came from another address than those before it: feedback that
    /// goes there is limited by what came from there.
    pub fn moved(&mut self, bytes: usize) {
        if let Some(peer) = &mut self.peer {
            peer.credit_bytes = peer.credit_bytes.min(ANSWERS * bytes);
        }
    }

    /// Counts so far.
    pub fn counts(&self) -> ReceiverCounts {
        self.counts
    }

    /// Bytes and blocks that it holds.
    pub fn held(&self) -> (usize, usize) {
        (self.held_bytes, self.blocks.len())
    }

    /// Takes a datagram that came at `now`; `None`: it was refused, and counted.
    pub fn handle(&mut self, bytes: &[u8], now: i64) -> Option<Arrival> {
        let (header, payload) = match Packet::parse(bytes) {
            Ok(Packet::Data(header, payload)) => (header, payload),
            _ => return Self::refuse(&mut self.counts.malformed),
        };
        if !self.knows(&header, now) {
            return Self::refuse(&mut self.counts.strangers);
        }
        if !self.agrees(&header, payload) {
            return Self::refuse(&mut self.counts.contradicting);
        }
        if self.leaps(&header) {
            return Self::refuse(&mut self.counts.leaps);
        }
        match self.hear(&header, bytes.len(), now) {
            Sight::New => {}
            Sight::Again => return Self::refuse(&mut self.counts.replayed),
            Sight::Stale => return Self::refuse(&mut self.counts.stale),
        }
        if header.base < self.horizon {
            return Self::refuse(&mut self.counts.too_late);
        }
        self.take(&header, payload, now)
    }

    fn refuse(count: &mut u64) -> Option<Arrival> {
        *count += 1;
        None
    }

    /// The next payload for the application, which is handed over at `now`; late ones are, too, and are counted.
    pub fn next_delivery(&mut self, now: i64) -> Option<Delivery> {
        let Waiting { id, payload, recovered, deadline } = self.deliveries.pop_front()?;
        let punctuality = self.peer.as_ref().map_or(Punctuality::Undecided, |peer| {
            let trip_ns = Some(peer.rtt_ns).filter(|rtt_ns| *rtt_ns > 0);
            let way_ns = [self.way_ns, trip_ns].into_iter().flatten().min();
            peer.clock.judge(deadline, now, way_ns)
        });
        self.counts.late += u64::from(punctuality == Punctuality::Late);
        self.counts.undecided += u64::from(punctuality == Punctuality::Undecided);
        Some(Delivery { id, payload, recovered, punctuality })
    }

    /// The id of the block that [`Receiver::decode`] would recover next.
    pub fn next_to_decode(&self) -> Option<u64> {
        self.ready.front().copied()
    }

    /// Recovers what the next ready block lacks; answers the ids of what was recovered.
    pub fn decode(&mut self) -> Vec<i64> {
        let Some(base) = self.ready.pop_front() else { return Vec::new() };
        let before_ns = self.blocks.range(..base).next_back().and_then(|(_, block)| block.last_deadline_ns());
        let Some(block) = self.blocks.get_mut(&base).filter(|block| block.is_ready()) else { return Vec::new() };
        let sources = block.sources();
        let Some(recovered) = self.code.recover(block.k, sources, &mut block.packets) else {
            self.counts.undecodable += 1;
            self.held_bytes -= block.end();
            return Vec::new();
        };
        for index in &recovered {
            let payload = block.packets[usize::from(*index)].take().expect("it was recovered");
            block.handed[usize::from(*index)] = true;
            let (id, deadline) = (base + u64::from(*index), block.deadline(*index, before_ns));
            self.deliveries.push_back(Waiting { id, payload, recovered: true, deadline });
        }
        self.held_bytes -= block.end();
        self.counts.recovered += recovered.len() as u64;
        recovered.iter().map(|index| (base + u64::from(*index)) as i64).collect()
    }

    /// Does what is due at `now`: blocks that expired are cleaned, a sender that vanished is forgotten.
    pub fn on_time(&mut self, now: i64) {
        while self.blocks.first_key_value().is_some_and(|(_, block)| block.forgotten_ns() <= now) {
            self.drop_first();
        }
        let horizon = self.horizon;
        self.miss(|base, block| block.expires_ns <= now || base < horizon);
        let vanished_ns = self.plan.vanished_ns;
        if self.peer.as_ref().is_some_and(|peer| now.saturating_sub(peer.heard_ns) >= vanished_ns) {
            self.counts.vanished += 1;
            self.forget();
        }
    }

    /// Time at which something is due next; `None`: nothing is.
    pub fn wake_at(&self) -> Option<i64> {
        let peer = self.peer.as_ref()?;
        let feedback = peer.is_due.then_some(peer.feedback_ns);
        let expiry = self.blocks.first_key_value().map(|(_, block)| block.forgotten_ns());
        let blocks = self.missing.values().chain(self.blocks.values());
        let asked = blocks.map(|block| block.ask_ns).min().filter(|ask_ns| *ask_ns < i64::MAX);
        let vanished = peer.heard_ns.saturating_add(self.plan.vanished_ns);
        let [feedback, asked] =
            [(feedback, 0), (asked, 1)].map(|(at, blocks)| at.filter(|_| peer.room() >= Some(blocks)));
        [feedback, expiry, asked].into_iter().flatten().chain([vanished]).min()
    }

    /// Writes the feedback that is due at `now`, and answers its number; `None`: none is due.
    pub fn feedback(&mut self, now: i64, bytes: &mut Vec<u8>) -> Option<u64> {
        let peer = self.peer.as_mut()?;
        let (room, mut asked) = (peer.room()?, Vec::new());
        for (base, block) in self.missing.iter_mut().chain(&mut self.blocks) {
            if block.ask_ns > now || asked.len() == room {
                continue;
            }
            // What is asked for takes a round trip; the packets that told the deadline took one way. What no packet
            // can help is not asked for either.
            let way_ns = self.way_ns.unwrap_or(peer.rtt_ns / 2);
            let left_ns = block.expires_ns.saturating_sub(way_ns).saturating_sub(now);
            if left_ns < peer.rtt_ns || block.needs() > block.unsent() {
                self.counts.hopeless += 1;
                (block.ask_ns, block.is_hopeless) = (i64::MAX, true);
                continue;
            }
            block.asked = block.asked.saturating_add(1);
            // Until a round trip is known nobody can tell when an answer is overdue.
            let again_ns = now.saturating_add(peer.rtt_ns).saturating_add(self.plan.reordered_ns.max(1));
            block.ask_ns = if peer.rtt_ns > 0 { again_ns } else { i64::MAX };
            asked.push(block.state(*base));
        }
        if asked.is_empty() && !(peer.is_due && peer.feedback_ns <= now) {
            return None;
        }
        self.counts.asked += asked.len() as u64;
        self.counts.feedback += 1;
        peer.write_feedback(asked, now, bytes);
        peer.is_due = false;
        peer.allowance -= 1;
        peer.credit_bytes -= bytes.len();
        peer.feedback_ns = now.saturating_add(self.plan.feedback_ns);
        Some(peer.feedbacks - 1)
    }

    /// Returns whether the packet is of the sender at hand, or there is none, and it may become that.
    fn knows(&mut self, header: &Header, now: i64) -> bool {
        self.on_time(now);
        self.peer.as_ref().is_none_or(|peer| peer.session == header.session)
    }

    fn agrees(&self, header: &Header, payload: &[u8]) -> bool {
        let ends = |base: u64, k: u8| base + u64::from(k);
        let before = self.blocks.range(..header.base).next_back();
        let after = self.blocks.range(header.base + 1..).next();
        before.is_none_or(|(base, block)| ends(*base, block.k) <= header.base)
            && after.is_none_or(|(base, _)| ends(header.base, header.k) <= *base)
            && self.blocks.get(&header.base).is_none_or(|block| block.agrees(header, payload))
    }

    /// Returns whether the packet is too far ahead for one alone: were it forged, all that truly follows would be too
    /// old.
    fn leaps(&mut self, header: &Header) -> bool {
        let Some(peer) = &mut self.peer else { return false };
        let at = [header.sequence, header.base];
        let most = [MOST_AHEAD, MOST_AHEAD.max(MOST_MISSING as u64 * u64::from(peer.k))];
        let is_far = |from: [u64; 2]| (0..2).any(|each| at[each] > from[each].saturating_add(most[each]));
        let follows = |from: [u64; 2]| at[0] > from[0] && at[1] >= from[1] && !is_far(from);
        let leaps = is_far(peer.highest) && !peer.ahead.is_some_and(follows);
        peer.ahead = leaps.then_some(at).or(peer.ahead);
        leaps
    }

    fn hear(&mut self, header: &Header, bytes: usize, now: i64) -> Sight {
        let peer = self.peer.get_or_insert_with(|| Peer::new(header, now));
        let sight = peer.seen.see(header.sequence);
        if sight == Sight::New {
            peer.heard_ns = now;
            peer.clock.hear(header.sent_ns, now);
            peer.is_due = true;
            peer.allowance = (peer.allowance + FEEDBACKS_A_PACKET).min(MOST_FEEDBACKS);
            peer.credit_bytes = peer.credit_bytes.saturating_add(ANSWERS * bytes);
            if header.base >= peer.highest[1] {
                peer.k = header.k;
            }
            peer.highest = [peer.highest[0].max(header.sequence), peer.highest[1].max(header.base)];
            peer.ahead = None;
            peer.longest_left_ns = peer.longest_left_ns.max(i64::from(header.left_us) * 1000);
            if peer.newest.2 == i64::MIN || header.sequence >= peer.newest.0 {
                peer.newest = (header.sequence, header.sent_ns, now);
                peer.rtt_ns = i64::from(header.rtt_us) * 1000;
            }
        }
        sight
    }

    fn take(&mut self, header: &Header, payload: &[u8], now: i64) -> Option<Arrival> {
        let arrival = Arrival { kind: header.kind, id: header.id(), block: header.base };
        let longest_left_ns = self.peer.as_ref().map_or(0, |peer| peer.longest_left_ns);
        if !self.blocks.contains_key(&header.base) {
            self.begin(header, now);
        }
        let block = self.blocks.get_mut(&header.base).expect("it has begun");
        let index = usize::from(header.index);
        if block.has(header.index) || header.kind == PacketKind::Source && block.handed[index] {
            return Self::refuse(&mut self.counts.superseded);
        }
        let held = block.bytes;
        block.take(header, payload);
        self.held_bytes += block.bytes - held;
        block.lasts(now, i64::from(header.left_us) * 1000, longest_left_ns);
        if header.kind == PacketKind::Source {
            self.counts.sources += 1;
            block.handed[index] = true;
            let (id, payload) = (arrival.id as u64, payload.to_vec());
            let deadline = block.deadline(header.index, None);
            self.deliveries.push_back(Waiting { id, payload, recovered: false, deadline });
        } else {
            self.counts.parity += 1;
        }
        if block.is_whole() {
            self.held_bytes -= block.end();
        } else if block.is_ready() {
            self.ready.push_back(header.base);
        }
        self.plan_asks(header.base, now);
        while self.held_bytes > MOST_HELD_BYTES || self.blocks.len() > MOST_BLOCKS {
            self.counts.evicted += 1;
            self.drop_first();
        }
        Some(arrival)
    }

    /// Begins a block, and takes note of those before it of which nothing came: ids leave no gap between blocks.
    fn begin(&mut self, header: &Header, now: i64) {
        let (base, own) = (header.base, (header.k, header.n));
        let before = self.blocks.range(..base).next_back().map(|(other, block)| (*other, block.k, block.n));
        // Who joins late knows nothing of what came before.
        let first = if self.horizon > 0 { self.horizon } else { base };
        let from = before.map_or(first, |(other, k, _)| other + u64::from(k));
        // The size of its neighbours, where that fits. The first is where it is said to be whatever its size; another
        // may be a guess that the sender refuses.
        let fits = |(k, _): &(u8, u8)| (base - from).is_multiple_of(u64::from(*k));
        let (k, n) = before.map(|(_, k, n)| (k, n)).filter(fits).unwrap_or(own);
        let count = (base - from).div_ceil(k.into());
        for number in count.saturating_sub(MOST_MISSING as u64)..count {
            let block = self.missing.entry(from + number * u64::from(k)).or_insert_with(|| Block::new(k, n));
            if block.asked == 0 {
                // It was submitted before what came; when, nobody knows.
                block.lasts(now, i64::from(header.left_us) * 1000, 0);
                block.ask_ns = block.ask_ns.min(now.saturating_add(self.plan.reordered_ns));
            }
        }
        let block = self.missing.remove(&base).filter(|block| (block.k, block.n) == own);
        self.blocks.insert(base, block.unwrap_or_else(|| Block::new(own.0, own.1)));
        let end = base + u64::from(header.k);
        self.missing.retain(|other, block| *other >= end || other + u64::from(block.k) <= base);
        if let Some(last) = self.missing.len().checked_sub(MOST_MISSING + 1) {
            let last = *self.missing.keys().nth(last).expect("there are as many");
            self.miss(|base, _| base <= last);
        }
    }

    /// Gives up blocks of which nothing came.
    fn miss(&mut self, is_over: impl Fn(u64, &Block) -> bool) {
        let (blocks, mut payloads) = (self.missing.len(), 0);
        self.missing.retain(|base, block| {
            let is_over = is_over(*base, block);
            payloads += u64::from(block.k) * u64::from(is_over);
            !is_over
        });
        self.counts.given_up += (blocks - self.missing.len()) as u64;
        self.tally(payloads, 0);
    }

    /// Takes note of payloads whose block is over, of which so many were handed over.
    fn tally(&mut self, payloads: u64, handed: u64) {
        if let Some(peer) = &mut self.peer {
            peer.payloads += payloads;
            peer.missing += payloads.saturating_sub(handed);
        }
    }

    /// Sets the time to ask for more of this block and those before it, which have ended, since this one began.
    fn plan_asks(&mut self, base: u64, now: i64) {
        let (reordered_ns, rtt_ns) = (self.plan.reordered_ns, self.peer.as_ref().map_or(0, |peer| peer.rtt_ns));
        for (other, block) in self.blocks.range_mut(..=base) {
            if block.is_over || block.is_hopeless || block.asked > 0 || block.n == block.k || block.needs() == 0 {
                continue;
            }
            let soon = now.saturating_add(reordered_ns);
            if *other < base || block.has_ended() {
                block.ask_ns = block.ask_ns.min(soon);
            } else {
                // Nothing says that it ended: the last moment at which asking may help.
                block.ask_ns = block.expires_ns.saturating_sub(rtt_ns.saturating_mul(2)).max(soon);
            }
        }
    }

    fn drop_first(&mut self) {
        let Some((base, mut block)) = self.blocks.pop_first() else { return };
        self.counts.given_up += u64::from(!block.is_whole());
        self.tally(block.sources().into(), block.handed.iter().filter(|handed| **handed).count() as u64);
        self.held_bytes -= block.end();
        self.horizon = base + u64::from(block.k);
    }

    fn forget(&mut self) {
        while !self.blocks.is_empty() {
            self.drop_first();
        }
        self.miss(|_, _| true);
        self.ready.clear();
        (self.peer, self.horizon) = (None, 0);
    }
}

impl Peer {
    fn new(header: &Header, now: i64) -> Self {
        Self {
            session: header.session,
            first: header.sequence,
            seen: Seen::new(),
            clock: SenderClock::new(header.sent_ns, now),
            heard_ns: now,
            newest: (0, 0, i64::MIN),
            rtt_ns: 0,
            feedback_ns: now,
            feedbacks: 0,
            allowance: 0,
            credit_bytes: 0,
            highest: [header.sequence, header.base],
            k: header.k,
            ahead: None,
            longest_left_ns: 0,
            payloads: 0,
            missing: 0,
            is_due: false,
        }
    }

    /// Blocks that the next feedback may ask for; `None`: there may be none before another packet comes.
    fn room(&self) -> Option<usize> {
        let rest = self.credit_bytes.checked_sub(HEADER_BYTES + FEEDBACK_BYTES).filter(|_| self.allowance > 0)?;
        Some((rest / BLOCK_BYTES).min(FEEDBACK_BLOCKS))
    }

    fn write_feedback(&mut self, blocks: Vec<crate::BlockState>, now: i64, bytes: &mut Vec<u8>) {
        let (echo, echo_sent_ns, came_ns) = self.newest;
        let Seen { received, gaps, lost, bursts, squares, .. } = self.seen;
        let (sequence, held_ns) = (self.feedbacks, now.saturating_sub(came_ns).max(0) as u64);
        self.feedbacks += 1;
        let (payloads, missing, first) = (self.payloads, self.missing, self.first);
        let feedback = Feedback {
            sequence,
            echo,
            echo_sent_ns,
            held_ns,
            received,
            gaps,
            lost,
            bursts,
            squares,
            payloads,
            missing,
            first,
            blocks,
        };
        feedback.write(self.session, bytes);
    }
}
