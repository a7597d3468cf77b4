//! Packets on the wire: a header of 44 bytes, big-endian, and what follows it.
//!
//! ```text
//!  0 magic 'P'   1 version, kind   2 index   3 k        4 n          5 filled     6 length (16 bits)
//!  8 session (32 bits)                                 12 microseconds left until the deadline (32 bits)
//! 16 base: the id of the block's first source packet (64 bits)
//! 24 sequence: how many packets were sent before (64 bits)
//! 32 sent: the sender's clock, nanoseconds (64 bits)   40 round trip, microseconds; 0: not known (32 bits)
//! ```
//!
//! Source packets are indices 0 to k - 1, parity k to n - 1. `filled` is how many source packets the block has, where
//! the sender knows it already; 0: not yet. Feedback has the same header; what it means there is said by [`Feedback`].
//!
//! Guarantees: whatever bytes come, [`Packet::parse`] answers a packet within these limits or the reason why it is
//! none; it neither allocates nor panics.

use crate::code::MOST_PACKETS;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 44;
/// Bytes that an Ethernet frame of 1500 carries over IPv4.
pub const MOST_DATAGRAM_BYTES: usize = 1472;
/// The longest payload: parity covers its length as well.
pub const MOST_PAYLOAD_BYTES: usize = MOST_DATAGRAM_BYTES - HEADER_BYTES - LENGTH_BYTES;
/// Bytes of a payload's length, where parity covers it.
pub(crate) const LENGTH_BYTES: usize = 2;
/// The largest id: stamps of parity packets have it and an index in one number of 62 bits.
pub const MOST_ID: u64 = 1 << 53;
/// Blocks that one feedback can speak of.
pub const FEEDBACK_BLOCKS: usize = 8;

/// The longest time to a deadline, microseconds: a packet that claims more is none, and no sender has more.
pub(crate) const MOST_LEFT_US: u32 = 60_000_000;
/// The largest number of a packet: more than a sender sends in a thousand years.
const MOST_SEQUENCE: u64 = 1 << 60;

const MAGIC: u8 = b'P';
const VERSION: u8 = 2;
const BITMAP_BYTES: usize = MOST_PACKETS.div_ceil(8);
/// Bytes of a block in a feedback, and of what a feedback has before them, behind the header.
pub(crate) const BLOCK_BYTES: usize = 12 + BITMAP_BYTES;
pub(crate) const FEEDBACK_BYTES: usize = 96;

/// Kind of a packet, as on the wire and in stamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketKind {
    /// A payload as it was submitted.
    Source = 0,
    /// A parity packet of a block.
    Parity = 1,
    /// State of the channel and of blocks, from the receiver.
    Feedback = 2,
}

/// First 44 bytes of each packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Kind of the packet.
    pub kind: PacketKind,
    /// Place in its block.
    pub index: u8,
    /// Source packets of a full block.
    pub k: u8,
    /// Packets of a block, parity included.
    pub n: u8,
    /// Source packets that this block has; 0: not known yet.
    pub filled: u8,
    /// Number of the connection.
    pub session: u32,
    /// Time left until the deadline when it was sent, microseconds.
    pub left_us: u32,
    /// Id of the block's first source packet.
    pub base: u64,
    /// Packets that were sent before it.
    pub sequence: u64,
    /// Time of the send, by the sender's clock.
    pub sent_ns: i64,
    /// Shortest round trip that the sender saw, microseconds; 0: none yet.
    pub rtt_us: u32,
}

/// A parsed packet.
#[derive(Clone, PartialEq, Debug)]
pub enum Packet<'a> {
    /// A source or parity packet with what it carries.
    Data(Header, &'a [u8]),
    /// A feedback.
    Feedback(u32, Feedback),
}

impl Header {
    /// The id of its stamps: a source packet's own; of a parity packet one that no source packet or block has.
    pub fn id(&self) -> i64 {
        match self.kind {
            PacketKind::Parity => place(self.base, self.index),
            _ => (self.base + u64::from(self.index)) as i64,
        }
    }

    /// Writes the packet in place of what `bytes` holds.
    pub fn write(&self, payload: &[u8], bytes: &mut Vec<u8>) {
        bytes.clear();
        bytes.extend([MAGIC, VERSION << 4 | self.kind as u8, self.index, self.k, self.n, self.filled]);
        bytes.extend((payload.len() as u16).to_be_bytes());
        bytes.extend(self.session.to_be_bytes());
        bytes.extend(self.left_us.to_be_bytes());
        bytes.extend(self.base.to_be_bytes());
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend(self.sent_ns.to_be_bytes());
        bytes.extend(self.rtt_us.to_be_bytes());
        bytes.extend(payload);
    }

    fn is_sound(&self, length: usize) -> bool {
        let placed = match self.kind {
            PacketKind::Source => self.index < self.k && (self.filled == 0 || self.index < self.filled),
            PacketKind::Parity => self.index >= self.k && self.index < self.n && self.filled > 0,
            PacketKind::Feedback => false,
        };
        let longest = MOST_PAYLOAD_BYTES + if self.kind == PacketKind::Parity { LENGTH_BYTES } else { 0 };
        let shortest = if self.kind == PacketKind::Parity { LENGTH_BYTES } else { 0 };
        placed
            && (1..=self.n).contains(&self.k)
            && self.filled <= self.k
            && self.left_us <= MOST_LEFT_US
            && self.base <= MOST_ID
            && self.sequence <= MOST_SEQUENCE
            && (shortest..=longest).contains(&length)
    }
}

/// The id of a block's stamps, which is the parent of its packets' stamps.
pub fn block_id(base: u64) -> i64 {
    place(base, u8::MAX)
}

/// A place in a block as one number, beyond all ids of payloads.
fn place(base: u64, index: u8) -> i64 {
    1 << 62 | (base << 8) as i64 | i64::from(index)
}

impl<'a> Packet<'a> {
    /// The packet that `bytes` are, or why they are none.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, &'static str> {
        if bytes.len() > MOST_DATAGRAM_BYTES {
            return Err("longer than a datagram may be");
        }
        let (Some(head), Some(rest)) = (bytes.get(..HEADER_BYTES), bytes.get(HEADER_BYTES..)) else {
            return Err("shorter than a header");
        };
        if head[0] != MAGIC || head[1] >> 4 != VERSION {
            return Err("another protocol or version");
        }
        if rest.len() != usize::from(u16::from_be_bytes([head[6], head[7]])) {
            return Err("another length than it says");
        }
        let kind = match head[1] & 15 {
            0 => PacketKind::Source,
            1 => PacketKind::Parity,
            2 => return Ok(Self::Feedback(word(head, 8), Feedback::parse(head, rest)?)),
            _ => return Err("an unknown kind"),
        };
        let [index, k, n, filled] = [head[2], head[3], head[4], head[5]];
        let (session, left_us) = (word(head, 8), word(head, 12));
        let (base, sequence, sent_ns) = (long(head, 16), long(head, 24), long(head, 32) as i64);
        let rtt_us = word(head, 40);
        let header = Header { kind, index, k, n, filled, session, left_us, base, sequence, sent_ns, rtt_us };
        if header.is_sound(rest.len()) { Ok(Self::Data(header, rest)) } else { Err("a header that contradicts itself") }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// State of the channel and of blocks, from the receiver. Counts are of the whole connection, so that a lost feedback
/// loses nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Feedback {
    /// Number of this feedback, from 0.
    pub sequence: u64,
    /// Sequence number of the packet that is echoed: the newest that was received.
    pub echo: u64,
    /// The sender's clock in that packet, nanoseconds.
    pub echo_sent_ns: i64,
    /// Time that the receiver had it, nanoseconds of its own clock.
    pub held_ns: u64,
    /// Packets that were settled as received, and the runs that they form: lengths and number of *gaps* between losses.
    pub received: u64,
    /// Runs of received packets.
    pub gaps: u64,
    /// Packets that were settled as lost: the lengths of bursts.
    pub lost: u64,
    /// Runs of lost packets.
    pub bursts: u64,
    /// The losses of each 64 settled packets in turn, squared and summed.
    pub squares: u64,
    /// Payloads of blocks that are over; a block of which no packet said its size counts as full.
    pub payloads: u64,
    /// Those of them that were never handed over.
    pub missing: u64,
    /// The first packet that the receiver remembers: another one once it forgot the sender, or was started anew.
    pub first: u64,
    /// Blocks that the receiver wants more of.
    pub blocks: Vec<BlockState>,
}

/// Packets of a block that the receiver has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockState {
    /// Id of its first source packet.
    pub base: u64,
    /// Number of requests for more so far, this one included.
    pub round: u8,
    /// Packets that it lacks to recover the rest.
    pub needs: u8,
    /// A bit for each packet of the block that is there, the lowest of the first byte for index 0.
    pub bitmap: [u8; BITMAP_BYTES],
}

impl BlockState {
    /// Returns whether the packet with that index is there.
    pub fn has(&self, index: u8) -> bool {
        self.bitmap[usize::from(index / 8)] >> (index % 8) & 1 == 1
    }
}

impl Feedback {
    /// Writes the packet in place of what `bytes` holds.
    ///
    /// # Panics
    /// If it has more than [`FEEDBACK_BLOCKS`] blocks.
    pub fn write(&self, session: u32, bytes: &mut Vec<u8>) {
        assert!(self.blocks.len() <= FEEDBACK_BLOCKS, "{} blocks", self.blocks.len());
        let mut body = Vec::with_capacity(FEEDBACK_BYTES + self.blocks.len() * BLOCK_BYTES);
        let echo = [self.echo, self.echo_sent_ns as u64, self.held_ns];
        let packets = [self.received, self.gaps, self.lost, self.bursts, self.squares];
        let rest = [self.payloads, self.missing, self.first, self.blocks.len() as u64];
        body.extend(echo.iter().chain(&packets).chain(&rest).flat_map(|number| number.to_be_bytes()));
        for block in &self.blocks {
            body.extend(block.base.to_be_bytes());
            body.extend([block.round, block.needs, 0, 0]);
            body.extend(block.bitmap);
        }
        bytes.clear();
        bytes.extend([MAGIC, VERSION << 4 | PacketKind::Feedback as u8, 0, 0, 0, 0]);
        bytes.extend((body.len() as u16).to_be_bytes());
        bytes.extend(session.to_be_bytes());
        bytes.extend([0; 12]);
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend([0; 12]);
        bytes.extend(body);
    }

    fn parse(head: &[u8], body: &[u8]) -> Result<Self, &'static str> {
        let Some((fixed, rest)) = body.split_at_checked(FEEDBACK_BYTES) else {
            return Err("a feedback shorter than one");
        };
        let [echo, echo_sent, held_ns, received, gaps, lost, bursts, squares, payloads, missing, first, count] =
            std::array::from_fn(|at| long(fixed, at * 8));
        if count > FEEDBACK_BLOCKS as u64 || rest.len() != count as usize * BLOCK_BYTES {
            return Err("a feedback with another number of blocks than it says");
        }
        let blocks = rest.chunks_exact(BLOCK_BYTES).map(|bytes| BlockState {
            base: long(bytes, 0),
            round: bytes[8],
            needs: bytes[9],
            bitmap: bytes[12..].try_into().expect("a bitmap"),
        });
        let (sequence, echo_sent_ns, blocks) = (long(head, 24), echo_sent as i64, blocks.collect());
        Ok(Self {
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
        })
    }
}
