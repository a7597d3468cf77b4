//! The layout of pools and blocks, version 4: the one descriptor. `docs/block-format.md` has it as a page.
//!
//! No offset literal stands anywhere else in Rust; `tests/layout.rs` holds these structs against `tickscope.h`.
//! Fields that both processes touch while a block changes hands are atomic; the rest is written before a release store
//! of the same struct and read after an acquire load of it.

use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64};

use tickscope_tick::PointName;

/// Version of everything in this file.
pub const VERSION: u32 = 4;
/// Versions that a collector reads. What version 2 added is zero in a pool of version 1, and its records have two
/// shapes; what version 3 added is zero in one of version 2, and it has [`ENTRIES_BEFORE_3`] entries; what version 4
/// added is zero in one of version 3, whose programs know the policies 0 and 1 alone.
pub const READ_VERSIONS: std::ops::RangeInclusive<u32> = 1..=VERSION;
/// `TICKPOOL`, little endian.
pub const POOL_MAGIC: u64 = u64::from_le_bytes(*b"TICKPOOL");
/// `TBLK`, little endian.
pub const BLOCK_MAGIC: u32 = u32::from_le_bytes(*b"TBLK");
/// Bytes of a name, padded with zeros; the last is always zero.
pub const NAME_BYTES: usize = tickscope_tick::NAME_BYTES + 1;
/// `SUCC`, little endian.
pub const SUCCESSOR_MAGIC: u32 = u32::from_le_bytes(*b"SUCC");
/// Channel entries in a pool of versions 1 and 2.
pub const ENTRIES_BEFORE_3: u32 = 256;
/// The fewest entries for channels: a pool has one for each block where those are more.
pub const LEAST_ENTRIES: u32 = 256;
/// Entries after those of channels, for what threads without a channel lose: one a point.
pub const SHARED_ENTRIES: u32 = 64;
/// Bytes of the key that tells a collector whose pool it is.
pub const KEY_BYTES: usize = 16;
/// Bytes of what a program says of its readings.
pub const READING_BYTES: usize = 448;
/// A record is one to three units of this many bytes.
pub const UNIT_BYTES: usize = 16;
/// The smallest and the largest block.
pub const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 4096..=65536;
/// The size of a block unless `TICKSCOPE_BLOCK_BYTES` says otherwise: 1 s of stamps at 1 kHz.
pub const DEFAULT_BLOCK_BYTES: u32 = 16384;
/// The size of a pool's blocks together unless `TICKSCOPE_POOL_BYTES` says otherwise.
pub const DEFAULT_POOL_BYTES: u64 = 16 << 20;
/// The fewest blocks that a pool is made with.
pub const FEWEST_BLOCKS: u32 = 4;

/// Start of a pool file.
#[repr(C)]
#[derive(Debug)]
pub struct PoolHeader {
    /// [`POOL_MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: u32,
    /// Where the channel entries begin.
    pub entry_offset: u32,
    /// Size of a channel entry.
    pub entry_bytes: u32,
    /// Number of entries.
    pub entry_count: u32,
    /// Where the blocks begin.
    pub block_offset: u64,
    /// Size of a block, a power of two.
    pub block_bytes: u32,
    /// Number of blocks.
    pub block_count: u32,
    /// The pool's random identity.
    pub instance: u64,
    /// Boot of the kernel it was made under.
    pub boot_id: [u8; 16],
    /// Process, in its own pid namespace.
    pub pid: i32,
    /// Number of the stamped counter.
    pub counter: u8,
    /// A [`WhenFull`].
    pub when_full: u8,
    /// Zero.
    pub zero: u16,
    /// Start of the process, clock ticks since boot.
    pub process_start: i64,
    /// Epoch of the domain.
    pub epoch: u32,
    /// 1: the counter is read through an injected map.
    pub injected: u32,
    /// Tick at which the pool was made.
    pub created_tick: i64,
    /// Node, zero-padded.
    pub node: [u8; NAME_BYTES],
    /// Command, zero-padded.
    pub command: [u8; NAME_BYTES],
    /// A [`PoolState`].
    pub state: AtomicU32,
    /// Channels opened so far.
    pub channels: AtomicU32,
    /// What `TICKSCOPE_KEY` said; zero: nothing.
    pub key: [u8; KEY_BYTES],
    zero_to_256: [u8; 40],
    /// Blocks leased so far.
    pub leases: AtomicU64,
    zero_to_320: [u8; 56],
    /// Where to look for a free block first.
    pub hint: AtomicU32,
    zero_to_384: [u8; 60],
    /// Stamps on a channel that was never opened.
    pub without_channel: AtomicU64,
    /// Channels that could not be opened: no free entry, or no valid name.
    pub channels_refused: AtomicU64,
    /// Stamps on a channel that its thread had closed.
    pub after_close: AtomicU64,
    /// Times that the program asked for what its channels under `keep` hold.
    pub dumps: AtomicU64,
    /// Stamps under `all` that its log did not take; their records lie in blocks all the same.
    pub unwritten: AtomicU64,
    /// Tick before the pool was made, if that was when its program ran already: at a forked child's first stamp, or as
    /// a library was loaded late. 0: it was made as the program was loaded.
    pub late_from: AtomicI64,
    /// Tick after that; written last.
    pub late_until: AtomicI64,
    /// Picoseconds of a plain reading, as the program measured at its start; 0: it does not say.
    pub reading_ps: i64,
    /// What its stamps are read from and how that was checked, as UTF-8 padded with zeros; zero: it does not say.
    pub reading: [u8; READING_BYTES],
    zero_to_4096: [u8; 3200],
}

/// One channel, as the collector and whoever switches policies see it.
#[repr(C)]
#[derive(Debug)]
pub struct ChannelEntry {
    /// Low half a policy's number, high half its epoch. The hot path reads it at every stamp: on its cache line is only
    /// what changes together with it.
    pub policy: AtomicU64,
    /// Parameters of the policy, each epoch's at the place of its parity ([`crate::policy`]).
    pub parameters: [AtomicU64; 2],
    zero_to_64: [u8; 40],
    /// An [`EntryState`].
    pub state: AtomicU32,
    /// Number within the pool.
    pub serial: AtomicU32,
    /// Number within the node, given by the collector; 0: none yet.
    pub number: AtomicI32,
    /// Thread id.
    pub thread: AtomicI32,
    /// Number of a [`tickscope_tick::Ordering`].
    pub ordering: u8,
    /// Units a record.
    pub shape: u8,
    /// Number of the counter that its ticks are of; 0: the pool's.
    pub counter: u8,
    zero_to_88: [u8; 5],
    /// Tick at which it was opened.
    pub opened_tick: AtomicI64,
    zero_to_128: [u8; 32],
    /// Stamps that found no free block.
    pub dropped: AtomicU64,
    /// Stamps with a tick of 0, or under a policy of a later version.
    pub refused: AtomicU64,
    /// Times the program waited for a block.
    pub stalls: AtomicU64,
    /// Dropped since the last lease.
    pub lost: AtomicU64,
    /// Tick of the first of those.
    pub lost_first: AtomicI64,
    /// Tick of the last of those.
    pub lost_last: AtomicI64,
    /// Stamps under `count` since the channel was opened.
    pub counted: AtomicU64,
    /// Stamps under `every`, kept or not, since the channel was opened.
    pub seen: AtomicU64,
    /// Point, zero-padded.
    pub point: [u8; NAME_BYTES],
    zero_to_256: [u8; 16],
}

/// Start of a block.
#[repr(C)]
#[derive(Debug)]
pub struct BlockHeader {
    /// [`BLOCK_MAGIC`] once the rest of the header stands.
    pub magic: AtomicU32,
    /// [`VERSION`].
    pub version: u16,
    /// Where the records begin.
    pub header_bytes: u16,
    /// A [`BlockState`].
    pub state: AtomicU32,
    /// Channel, by its number within the pool.
    pub serial: u32,
    /// The block's number within its channel.
    pub number: u32,
    /// Epoch of the policy it was leased under; a later one may hold for its last record, and one more for each signal
    /// handler that the thread was in.
    pub policy_epoch: u32,
    /// The pool's identity.
    pub instance: u64,
    /// Boot of the kernel.
    pub boot_id: [u8; 16],
    /// Process.
    pub pid: i32,
    /// Thread.
    pub thread: i32,
    /// Start of the process, clock ticks since boot.
    pub process_start: i64,
    /// Number of an ordering.
    pub ordering: u8,
    /// Units a record.
    pub shape: u8,
    /// Number of the counter that its ticks are of; 0: the pool's.
    pub counter: u8,
    /// Zero.
    pub zero: u8,
    /// Epoch of the domain.
    pub epoch: u32,
    /// Stamps dropped between the previous block and this one.
    pub lost: u64,
    /// Tick of the first of those.
    pub lost_first: i64,
    /// Tick of the last of those.
    pub lost_last: i64,
    /// Point, zero-padded.
    pub point: [u8; NAME_BYTES],
    /// Parameter of the policy it was leased under.
    pub parameter: u64,
    /// Number of that policy.
    pub policy: u32,
    /// Unit of the block where the first [`Successor`] lies; 0: none.
    pub successor: AtomicU32,
    /// Unit of the block where its records end, because another policy began; 0: at the block's end.
    pub end: AtomicU32,
    /// Block of the pool, plus 1, that the channel leased next; 0: none yet.
    pub following: AtomicU32,
    /// Number of the channel's first block under the policy: blocks before it were under another.
    pub first_of_policy: u32,
    zero_to_192: [u8; 20],
}

/// A later thread's channel of the same point, whose records follow in a block that an ended thread left partly filled.
///
/// It takes the place of whole records, whose ticks are then not zero.
#[repr(C)]
#[derive(Debug)]
pub struct Successor {
    /// Unit of the block where the next one lies; 0: none.
    pub next: AtomicU32,
    /// Channel, by its number within the pool.
    pub serial: AtomicU32,
    /// Low half [`SUCCESSOR_MAGIC`], high half the thread; written last.
    pub whole: AtomicU64,
    /// Tick at which the channel was opened.
    pub opened_tick: AtomicI64,
    /// 1.
    pub one: AtomicI64,
}

/// One stamp; a tick of 0: not committed.
#[repr(C)]
#[derive(Debug)]
pub struct SlimRecord {
    /// Id of what was stamped.
    pub id: AtomicI64,
    /// When.
    pub tick: AtomicI64,
}

/// One stamp with what rides along; a tick of 0: not committed.
#[repr(C)]
#[derive(Debug)]
pub struct WideRecord {
    /// Id of what was stamped.
    pub id: AtomicI64,
    /// When.
    pub tick: AtomicI64,
    /// Value that rode along.
    pub value: AtomicI64,
    /// Class of the id.
    pub kind: AtomicI32,
    /// Core, -1: not recorded.
    pub cpu: AtomicI32,
}

/// One stamp with all that may ride along; a tick of 0: not committed.
#[repr(C)]
#[derive(Debug)]
pub struct FullRecord {
    /// Fields of a wide record.
    pub wide: WideRecord,
    /// Id that this one is part of; its own: none.
    pub parent: AtomicI64,
    /// Transmissions of the id before this one; negative: not said.
    pub attempt: AtomicI32,
    /// Number of things that the stamp stands for; 0: not said; negative: the stamp stands for so many consecutive ids,
    /// from its own on. In pools of versions before [`FIRST_WITH_IDS`] negative too: not said.
    pub batch: AtomicI32,
}

/// The first version whose records may stand for several ids.
pub const FIRST_WITH_IDS: u32 = 4;

/// Fields that a channel's records carry: the units that each takes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Fields {
    /// Tick and id: 16 bytes.
    #[default]
    Slim = 1,
    /// Kind, value and core too: 32 bytes.
    Wide = 2,
    /// Parent, attempt and batch too: 48 bytes.
    Full = 3,
}

impl Fields {
    /// The shape of that number in a block of that version; `None`: of a later one.
    pub fn from_number(number: u8, version: u32) -> Option<Self> {
        let known = [Self::Slim, Self::Wide, Self::Full].into_iter().find(|&fields| fields as u8 == number);
        known.filter(|&fields| fields != Self::Full || version > 1)
    }
}

/// State of a pool: used by its program, or closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum PoolState {
    /// In use, or left behind by a kill.
    Open = 0,
    /// The program said it was done.
    Closed = 1,
    /// A collector took what a dead process had left.
    Recovered = 2,
}

/// Fate of a stamp that finds no free block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum WhenFull {
    /// It is dropped and counted.
    #[default]
    Drop = 0,
    /// The program waits while a collector lives, at most 1 s at a time; then it is dropped and counted.
    Wait = 1,
    /// It goes to the channel's oldest full block, whose stamps are gone: the numbers of its blocks tell how many.
    Overwrite = 2,
}

/// Where a channel entry is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum EntryState {
    /// Describes nothing.
    Free = 0,
    /// Being written by its program.
    Opening = 1,
    /// In use.
    Open = 2,
    /// Closed with counts that stand nowhere else; free again once all of it is stored.
    Closed = 3,
    /// No thread's: counts what threads without a channel lose at its point.
    Shared = 4,
}

/// Where a block is on its way from a program to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum BlockState {
    /// All zero, for any channel.
    Free = 0,
    /// A channel's.
    Leased = 1,
    /// A channel's that will not be written again.
    Released = 2,
    /// Stored, and being zeroed.
    Zeroing = 3,
    /// The collector's: no successor goes on in it, and its program does not overwrite it.
    Taken = 4,
    /// Its program is about to write it anew: its stamps are gone.
    Overwritten = 5,
}

/// Policy of a channel for its stamps: the low half of its policy word. [`crate::policies`] says what each does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Policy {
    /// Nothing.
    Null = 0,
    /// Every stamp, in blocks.
    Buffered = 1,
    /// Every stamp, in blocks and at once in a log.
    All = 2,
    /// Each n-th stamp.
    Every = 3,
    /// Stamps of the first x of any y consecutive ids.
    XOfY = 4,
    /// Their number in each period.
    Count = 5,
    /// The first stamp and the last.
    FirstLast = 6,
    /// Every stamp; each that ends a trace is sent back to where the trace began.
    ReturnTrip = 7,
    /// Every stamp, of which the newest are stored when somebody asks.
    Keep = 8,
    /// Stamps that a function of the program chooses.
    Own = 9,
}

impl Policy {
    /// Every policy; `tickscope.h` has their names in a table, each at its number.
    pub const ALL: [Self; 10] = [
        Self::Null,
        Self::Buffered,
        Self::All,
        Self::Every,
        Self::XOfY,
        Self::Count,
        Self::FirstLast,
        Self::ReturnTrip,
        Self::Keep,
        Self::Own,
    ];

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Null => "null",
            Policy::Buffered => "buffered",
            Policy::All => "all",
            Policy::Every => "every",
            Policy::XOfY => "x-of-y",
            Policy::Count => "count",
            Policy::FirstLast => "first-last",
            Policy::ReturnTrip => "return-trip",
            Policy::Keep => "keep",
            Policy::Own => "own",
        }
    }

    /// Returns whether it stores every stamp or counts it as lost: only then is a message known to be sent once.
    pub fn keeps_all(self) -> bool {
        matches!(self, Policy::Buffered | Policy::All | Policy::ReturnTrip)
    }

    /// The policy with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// The policy of that number; `None`: of a later version.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|&policy| policy as u32 == number)
    }
}

/// Units of 16 bytes that a block's header takes.
pub const HEADER_UNITS: u32 = (size_of::<BlockHeader>() / UNIT_BYTES) as u32;

/// Records that fit into a block of `block_bytes`.
pub const fn capacity(block_bytes: u32, fields: Fields) -> u32 {
    (block_bytes / UNIT_BYTES as u32 - HEADER_UNITS) / fields as u32
}

/// Unit of a block where its records begin. They end with the block: what does not make a record lies behind the
/// header.
pub const fn first_unit(block_bytes: u32, fields: Fields) -> u32 {
    block_bytes / UNIT_BYTES as u32 - capacity(block_bytes, fields) * fields as u32
}

/// Entries for channels in a pool of so many blocks: a multiple of 16, so that the blocks begin on a page.
pub const fn channel_entries(block_count: u32) -> u32 {
    let entries = if block_count < LEAST_ENTRIES { LEAST_ENTRIES } else { block_count };
    entries.next_multiple_of(16)
}

/// Where the blocks begin: after header and entries, on a page.
pub const fn block_offset(entry_count: u32) -> u64 {
    (size_of::<PoolHeader>() as u64 + entry_count as u64 * size_of::<ChannelEntry>() as u64).next_multiple_of(4096)
}

/// Units that a [`Successor`] takes: whole records.
pub const fn successor_units(fields: Fields) -> u32 {
    let (least, record) = ((size_of::<Successor>() / UNIT_BYTES) as u32, fields as u32);
    least.next_multiple_of(record)
}

/// The name of a point or a node as it stands in shared memory, zero-padded.
pub fn padded(name: &impl AsRef<str>) -> [u8; NAME_BYTES] {
    let name = name.as_ref().as_bytes();
    let mut bytes = [0; NAME_BYTES];
    bytes[..name.len()].copy_from_slice(name);
    bytes
}

/// The name in a zero-padded field; `None` if it is not one that [`padded`] could have written.
pub fn unpadded(bytes: &[u8; NAME_BYTES]) -> Option<PointName> {
    let length = bytes.iter().position(|&byte| byte == 0)?;
    let name = PointName::new(std::str::from_utf8(&bytes[..length]).ok()?).ok()?;
    (padded(&name) == *bytes).then_some(name)
}

const _: () = {
    assert!(size_of::<PoolHeader>() == 4096 && size_of::<ChannelEntry>() == 256 && size_of::<BlockHeader>() == 192);
    assert!(size_of::<SlimRecord>() == UNIT_BYTES && size_of::<WideRecord>() == 2 * UNIT_BYTES);
    assert!(size_of::<FullRecord>() == 3 * UNIT_BYTES && offset_of!(FullRecord, wide) == 0);
    assert!(size_of::<Successor>() == 2 * UNIT_BYTES && offset_of!(Successor, whole) == offset_of!(SlimRecord, tick));
    assert!(offset_of!(Successor, one) == UNIT_BYTES + offset_of!(SlimRecord, tick));
    assert!(offset_of!(PoolHeader, key) == 200 && offset_of!(BlockHeader, successor) == 156);
    assert!(offset_of!(BlockHeader, end) == 160 && offset_of!(ChannelEntry, counted) == 176);
    assert!(offset_of!(PoolHeader, dumps) == 408);
    assert!(offset_of!(PoolHeader, state) == 192 && offset_of!(PoolHeader, leases) == 256);
    assert!(offset_of!(PoolHeader, hint) == 320 && offset_of!(PoolHeader, without_channel) == 384);
    assert!(offset_of!(ChannelEntry, state) == 64 && offset_of!(ChannelEntry, dropped) == 128);
    assert!(offset_of!(ChannelEntry, counter) == 82 && offset_of!(BlockHeader, counter) == 66);
    assert!(offset_of!(ChannelEntry, point) == 192 && offset_of!(BlockHeader, point) == 96);
    assert!(offset_of!(SlimRecord, tick) == offset_of!(WideRecord, tick));
    assert!(offset_of!(ChannelEntry, parameters) == 8 && offset_of!(BlockHeader, parameter) == 144);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_fill_a_block_to_its_last_byte() {
        assert_eq!([Fields::Slim, Fields::Wide, Fields::Full].map(|fields| capacity(16384, fields)), [1012, 506, 337]);
        for block_bytes in [4096, 8192, 16384, 32768, 65536] {
            for fields in [Fields::Slim, Fields::Wide, Fields::Full] {
                let first = first_unit(block_bytes, fields);
                assert!((HEADER_UNITS..HEADER_UNITS + fields as u32).contains(&first));
                assert_eq!((first + capacity(block_bytes, fields) * fields as u32) * 16, block_bytes);
            }
        }
    }

    #[test]
    fn names_are_kept_within_47_bytes_of_plain_characters() {
        let longest = PointName::new("a".repeat(NAME_BYTES - 1)).unwrap();
        assert_eq!(unpadded(&padded(&longest)), Some(longest));
        for wrong in ["", "a b", "a/b", ".hidden", "a\0b", "\u{e4}"] {
            let mut bytes = [0; NAME_BYTES];
            bytes[..wrong.len()].copy_from_slice(wrong.as_bytes());
            assert_eq!(unpadded(&bytes), None, "{wrong}");
        }
        assert_eq!(unpadded(&[b'a'; NAME_BYTES]), None);
    }
}
