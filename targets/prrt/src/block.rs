//! A block as the receiver has it.

use crate::packet::{BlockState, Header, PacketKind};
use crate::sender_clock::Deadline;

/// Time that a packet leaves out of what is left: less than a microsecond.
const FLOORED_NS: i64 = 999;

/// Blocks that either end holds at most.
pub const MOST_BLOCKS: usize = 1024;
/// Bytes of payloads and parity that either end holds at most.
pub const MOST_HELD_BYTES: usize = 16 << 20;

/// Packets of one block, and what became of them.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub k: u8,
    pub n: u8,
    /// Source packets that exist; 0: not known yet.
    pub filled: u8,
    pub packets: Vec<Option<Vec<u8>>>,
    /// Arrival, by index.
    there: Vec<bool>,
    /// Hand-over to the application, by index of a source packet.
    pub handed: Vec<bool>,
    /// Deadline by the sender's clock, by index, as the packets that came say it.
    deadlines_ns: Vec<Option<i64>>,
    /// The latest deadline of its packets that came.
    pub expires_ns: i64,
    /// The longest time to a deadline that a packet of the connection had so far: nearly all of it.
    longest_left_ns: i64,
    /// Number of requests for more of it so far.
    pub asked: u8,
    /// Time of the next request; `i64::MAX`: there is none.
    pub ask_ns: i64,
    /// End of the block: nothing more is to be had of it.
    pub is_over: bool,
    /// No answer to a request can be in time or enough.
    pub is_hopeless: bool,
    pub bytes: usize,
}

impl Block {
    /// A block of which nothing came yet.
    pub fn new(k: u8, n: u8) -> Self {
        Self {
            k,
            n,
            filled: 0,
            packets: vec![None; n.into()],
            there: vec![false; n.into()],
            handed: vec![false; k.into()],
            deadlines_ns: vec![None; n.into()],
            expires_ns: i64::MIN,
            longest_left_ns: 0,
            asked: 0,
            ask_ns: i64::MAX,
            is_over: false,
            is_hopeless: false,
            bytes: 0,
        }
    }

    /// Source packets that are to be handed over, as far as is known.
    pub fn sources(&self) -> u8 {
        if self.filled > 0 { self.filled } else { self.k }
    }

    /// Returns whether a packet fits what came before it.
    pub fn agrees(&self, header: &Header, payload: &[u8]) -> bool {
        if (self.k, self.n) != (header.k, header.n) {
            return false;
        }
        let filled = header.filled == 0
            || (self.filled == 0 || self.filled == header.filled)
                && !self.there[usize::from(header.filled)..self.k.into()].contains(&true);
        let within = self.filled == 0 || header.kind == PacketKind::Parity || header.index < self.filled;
        let parity = self.packets[usize::from(self.k)..].iter().flatten().next();
        let length = header.kind != PacketKind::Parity || parity.is_none_or(|other| other.len() == payload.len());
        filled && within && length
    }

    pub fn has(&self, index: u8) -> bool {
        self.there[usize::from(index)]
    }

    /// Takes a packet that agrees; what is over keeps no bytes.
    pub fn take(&mut self, header: &Header, payload: &[u8]) {
        let index = usize::from(header.index);
        self.there[index] = true;
        self.deadlines_ns[index] = header.sent_ns.checked_add(i64::from(header.left_us) * 1000);
        self.filled = self.filled.max(header.filled);
        if !self.is_over && self.n > self.k {
            self.packets[index] = Some(payload.to_vec());
            self.bytes += payload.len();
        }
    }

    /// Packets that it lacks to recover what is missing.
    pub fn needs(&self) -> u8 {
        let there = self.there.iter().filter(|there| **there).count() as u8;
        self.sources().saturating_sub(there)
    }

    /// Takes note that a packet came with that much time left, of what a packet had at most.
    pub fn lasts(&mut self, now: i64, left_ns: i64, longest_left_ns: i64) {
        self.expires_ns = self.expires_ns.max(now.saturating_add(left_ns));
        self.longest_left_ns = longest_left_ns;
    }

    /// The deadline of a payload, by that of its packet, or by those of its neighbours: payloads have their deadlines
    /// in the order of their ids, parity has the last one's. `before_ns`: one of the block before.
    pub fn deadline(&self, index: u8, before_ns: Option<i64>) -> Deadline {
        let (before, from) = self.deadlines_ns.split_at(index.into());
        let earliest_ns = from[0].or_else(|| before.iter().flatten().copied().max().or(before_ns));
        let latest_ns = from[0].or_else(|| from.iter().flatten().copied().min());
        Deadline { earliest_ns, latest_ns: latest_ns.and_then(|at| at.checked_add(FLOORED_NS)) }
    }

    /// The latest deadline that a packet of it said, by the sender's clock.
    pub fn last_deadline_ns(&self) -> Option<i64> {
        self.deadlines_ns.iter().flatten().copied().max()
    }

    /// Time from which on nothing of it can come in time. Parity and the last payload have the last deadline; as long
    /// as neither came, a payload may come that was submitted a whole deadline after the others.
    pub fn forgotten_ns(&self) -> i64 {
        let last = usize::from(self.sources()) - 1;
        let is_known = self.there[last] || self.there[self.k.into()..].contains(&true);
        self.expires_ns.saturating_add(if is_known { 0 } else { self.longest_left_ns })
    }

    /// Returns whether all its source packets were handed over.
    pub fn is_whole(&self) -> bool {
        self.handed[..self.sources().into()].iter().all(|handed| *handed)
    }

    /// Returns whether what is missing can be recovered now.
    pub fn is_ready(&self) -> bool {
        !self.is_over && !self.is_whole() && self.needs() == 0
    }

    /// Parity packets that may still be sent: those behind the last that came.
    pub fn unsent(&self) -> u8 {
        let behind = (self.k..self.n).rev().take_while(|index| !self.there[usize::from(*index)]).count();
        behind as u8
    }

    /// Returns whether its last source packet has certainly been sent.
    pub fn has_ended(&self) -> bool {
        self.filled > 0 || self.there[usize::from(self.k) - 1..].contains(&true)
    }

    /// Gives its memory back; answers how much that was.
    pub fn end(&mut self) -> usize {
        self.is_over = true;
        self.ask_ns = i64::MAX;
        self.packets = vec![None; self.n.into()];
        std::mem::take(&mut self.bytes)
    }

    pub fn state(&self, base: u64) -> BlockState {
        let mut bitmap = [0; 32];
        for index in (0..usize::from(self.n)).filter(|index| self.there[*index]) {
            bitmap[index / 8] |= 1 << (index % 8);
        }
        BlockState { base, round: self.asked, needs: self.needs(), bitmap }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deadline_of_what_was_recovered_lies_between_those_of_its_neighbours() {
        let mut block = Block::new(4, 6);
        for (index, sent_ns) in [(1, 100), (3, 300), (5, 310)] {
            let kind = if index < 4 { PacketKind::Source } else { PacketKind::Parity };
            let (k, n, filled, session, left_us, base, sequence, rtt_us) = (4, 6, 4, 7, 1, 0, 0, 0);
            block
                .take(&Header { kind, index, k, n, filled, session, left_us, base, sequence, sent_ns, rtt_us }, b"abc");
        }
        let between = |earliest_ns, latest_ns| Deadline { earliest_ns, latest_ns: Some(latest_ns) };
        assert_eq!(block.deadline(0, None), between(None, 1100 + 999));
        assert_eq!(block.deadline(0, Some(50)), between(Some(50), 1100 + 999));
        assert_eq!(block.deadline(1, Some(50)), between(Some(1100), 1100 + 999));
        assert_eq!(block.deadline(2, Some(50)), between(Some(1100), 1300 + 999));
        assert_eq!(block.last_deadline_ns(), Some(1310));
    }
}
