//! The datagram that requests and replies travel in, version 2. The only place that knows an offset.
//!
//! ```text
//!  offset  bytes
//!       0      4  magic      "tsPR"
//!       4      1  version    2
//!       5      1  kind       1: request, 2: reply
//!       6      2  pace       reply: exchanges a second that the server affords this client, 0: any; request: 0
//!       8      8  run        which run it belongs to
//!      16      8  nonce      which request; high half: of which process, low half: a count; repeated by the server
//!      24      4  from       number of the node that sent it
//!      28      4  to         number of the node that it is meant for
//!      32      8  t2         reply: the server's tick after it received the request; request: 0
//!      40      8  t3         reply: the server's tick before it sent the reply; request: 0
//!      48     16  mac        code of bytes 0 to 47 under the key of the two nodes
//!      64
//! ```
//!
//! Integers are little-endian. A request is as long as a reply, so that a server never sends more than it got and both
//! directions take alike. The code covers all that is before it: who lacks the key can neither change a field nor pass
//! a request off as a reply. The reply's is computed over t3 after reading t3, which only makes t3 earlier, so the
//! bracket stays true and is wider by that time (some 0.1 us); a second datagram that carried t3 would double the load
//! instead.

use crate::Refusal;
use crate::key::{MAC_LENGTH, PairKey};
use tickscope_tick::{Local, Tick};

/// Length of every datagram, bytes.
pub const LENGTH: usize = 64;

/// The version written and the only one read.
pub const VERSION: u8 = 2;

const MAGIC: [u8; 4] = *b"tsPR";

/// A number that no other request of a run's pair of nodes has: the process that asks in the high half, a count in the
/// low one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Nonce(pub u64);

impl Nonce {
    /// The process that asks, by a number that it drew at random.
    pub(crate) fn session(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The count of its requests.
    pub(crate) fn count(self) -> u32 {
        self.0 as u32
    }
}

/// Which run a datagram belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RunId(pub u64);

/// A node's number within its run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

/// Kind of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Message {
    /// Stamp this, and send it back.
    Request,
    /// Stamped on arrival and on departure.
    Reply { t2: Tick<Local>, t3: Tick<Local>, pace: u16 },
}

/// A datagram that was read, or is to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Datagram {
    pub run: RunId,
    pub nonce: Nonce,
    pub from: NodeId,
    pub to: NodeId,
    pub message: Message,
}

/// Bytes that the code covers; it lies behind them.
const COVERED: usize = LENGTH - MAC_LENGTH;

const REQUEST: u8 = 1;
const REPLY: u8 = 2;

impl Datagram {
    /// Writes it, with its code under `key`.
    pub fn encode(&self, key: &PairKey) -> [u8; LENGTH] {
        let (kind, t2, t3, pace) = match self.message {
            Message::Request => (REQUEST, 0, 0, 0),
            Message::Reply { t2, t3, pace } => (REPLY, t2.get(), t3.get(), pace),
        };
        let mut bytes = [0; LENGTH];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&[VERSION, kind]);
        bytes[6..8].copy_from_slice(&pace.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.run.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.nonce.0.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.from.0.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.to.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&t2.to_le_bytes());
        bytes[40..48].copy_from_slice(&t3.to_le_bytes());
        let code = key.code(&bytes[..COVERED]);
        bytes[COVERED..].copy_from_slice(&code);
        bytes
    }

    /// Refuses bytes that nobody with `key` wrote.
    pub fn authenticate(bytes: &[u8], key: &PairKey) -> Result<(), Refusal> {
        let bytes: &[u8; LENGTH] = bytes.try_into().map_err(|_| Refusal::Length { found: bytes.len() })?;
        if key.made(&field(bytes, COVERED), &bytes[..COVERED]) { Ok(()) } else { Err(Refusal::Mac) }
    }

    /// Reads one, whoever wrote it; whatever is not exactly a datagram of this version is refused.
    pub fn decode(bytes: &[u8]) -> Result<Self, Refusal> {
        // Foreign traffic is called foreign whatever its length.
        if bytes.len() >= MAGIC.len() && bytes[..4] != MAGIC {
            return Err(Refusal::Foreign { found: field(bytes, 0) });
        }
        let bytes: &[u8; LENGTH] = bytes.try_into().map_err(|_| Refusal::Length { found: bytes.len() })?;
        if bytes[4] != VERSION {
            return Err(Refusal::Version { found: bytes[4] });
        }
        let (t2, t3) = (i64::from_le_bytes(field(bytes, 32)), i64::from_le_bytes(field(bytes, 40)));
        let pace = u16::from_le_bytes(field(bytes, 6));
        let message = match bytes[5] {
            REQUEST if (t2, t3, pace) == (0, 0, 0) => Message::Request,
            REPLY => Message::Reply { t2: Tick::new(t2), t3: Tick::new(t3), pace },
            _ => return Err(Refusal::Malformed),
        };
        Ok(Self {
            run: RunId(u64::from_le_bytes(field(bytes, 8))),
            nonce: Nonce(u64::from_le_bytes(field(bytes, 16))),
            from: NodeId(u32::from_le_bytes(field(bytes, 24))),
            to: NodeId(u32::from_le_bytes(field(bytes, 28))),
            message,
        })
    }
}

/// The `N` bytes at `offset`; callers have checked the length.
fn field<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes[offset..offset + N].try_into().expect("a slice of N bytes is an array of N bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reply() -> Datagram {
        let message = Message::Reply { t2: Tick::new(-2), t3: Tick::new(0x0102_0304_0506_0708), pace: 0x0506 };
        Datagram { run: RunId(0x1122), nonce: Nonce(7), from: NodeId(0xa0b0), to: NodeId(3), message }
    }

    fn key() -> PairKey {
        PairKey::new([7; 32])
    }

    #[test]
    fn a_reply_lies_in_its_bytes_as_the_diagram_says() {
        let mut expected = b"tsPR\x02\x02\x06\x05\x22\x11\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\xb0\xa0\0\0\x03\0\0\0".to_vec();
        expected.extend(b"\xfe\xff\xff\xff\xff\xff\xff\xff\x08\x07\x06\x05\x04\x03\x02\x01");
        expected.extend(key().code(&expected));
        assert_eq!(reply().encode(&key()).to_vec(), expected);
        assert_eq!(Datagram::decode(&expected), Ok(reply()));
    }

    #[test]
    fn what_is_no_datagram_of_this_version_is_refused_by_name() {
        let bytes = reply().encode(&key());
        let with = |position: usize, value: u8| {
            let mut bytes = bytes;
            bytes[position] = value;
            Datagram::decode(&bytes)
        };
        assert_eq!(Datagram::decode(&[]), Err(Refusal::Length { found: 0 }));
        assert_eq!(Datagram::decode(&bytes[..63]), Err(Refusal::Length { found: 63 }));
        assert_eq!(Datagram::decode(&[&bytes[..], &[0]].concat()), Err(Refusal::Length { found: 65 }));
        assert_eq!(with(0, b'T'), Err(Refusal::Foreign { found: *b"TsPR" }));
        for version in [1, 3] {
            assert_eq!(with(4, version), Err(Refusal::Version { found: version }));
        }
        for (position, value) in [(5, 0), (5, 1), (5, 3)] {
            assert_eq!(with(position, value), Err(Refusal::Malformed), "byte {position} as {value}");
        }
    }

    #[test]
    fn the_code_covers_every_bit_and_belongs_to_one_key() {
        for datagram in [reply(), Datagram { message: Message::Request, ..reply() }] {
            let bytes = datagram.encode(&key());
            assert_eq!(Datagram::authenticate(&bytes, &key()), Ok(()));
            assert_eq!(Datagram::authenticate(&bytes, &PairKey::new([8; 32])), Err(Refusal::Mac));
            for bit in 0..8 * LENGTH {
                let mut other = bytes;
                other[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Datagram::authenticate(&other, &key()), Err(Refusal::Mac), "bit {bit}");
            }
        }
    }

    proptest! {
        #[test]
        fn property_any_bytes_are_read_or_refused_and_what_is_read_writes_the_same_fields(
            mut bytes in prop::collection::vec(any::<u8>(), 0..80), plausible in any::<bool>(),
        ) {
            if plausible {
                bytes.resize(LENGTH, 0);
                bytes[..6].copy_from_slice(b"tsPR\x02\x02");
            }
            let read = Datagram::decode(&bytes);
            prop_assert!(read.is_ok() || !plausible);
            if let Ok(datagram) = read {
                prop_assert_eq!(&datagram.encode(&key())[..COVERED], &bytes[..COVERED]);
            }
        }
    }
}
