//! Ids that are text, or more than 64 bits: a hash stands for them, and the original is kept once.
//!
//! A stamp's id has 64 bits. [`id_of`] gives SipHash-2-4 of the original's bytes, under the key 00 01 .. 0f that its
//! authors' vectors are of: the same in every language, on every host, in every version. Where an id is born
//! [`Ids::keep`] also stores the original, as records of the point `id-original` that share one tick: 16 bytes each, so
//! it lies in shared memory before the call returns, and outlives SIGKILL as stamps do. [`assemble`] is the way back.
//!
//! Assumes: originals are not chosen by an enemy. Guarantees: whoever has both originals of one hash can tell that they
//! differ. Deliberately absent: a table of ids in the program; whoever keeps one original twice stores it twice.
//! `include/tickscope_id.h` is the same for C.

use tickscope_tick::Ordering;
use tickscope_tick::own_points::ID_ORIGINAL;

use crate::block::Fields;
use crate::channel::{Channel, Extra};
use crate::process::{self, OpenError};

/// Bytes of an original that one record holds.
pub const CHUNK_BYTES: usize = 16;
/// Bytes of an original that are kept; of a longer one they are the first, and its length is kept too.
pub const KEPT_BYTES: usize = 1024;

/// The id of something that has a name instead of a number: equal bytes have equal ids, on every host and in every
/// language.
///
/// ```
/// assert_eq!(tickscope_stamp::id_of("order-7"), tickscope_stamp::id_of(b"order-7"));
/// assert_eq!(tickscope_stamp::id_of(""), 0x726f_db47_dd0e_0e31);
/// ```
pub fn id_of(original: impl AsRef<[u8]>) -> i64 {
    sip_hash(original.as_ref()) as i64
}

/// Keeper of originals on one thread.
///
/// ```
/// # use tickscope_stamp::{Channel, Fields, Ids, Ordering, id_of};
/// let ids = Ids::open()?; // off unless TICKSCOPE_DIR is set
/// let placed = Channel::open("placed", Ordering::Before, Fields::Slim)?;
/// placed.stamp(ids.keep("order-7")); // where the id is born; elsewhere id_of is enough
/// assert_eq!(ids.keep("order-7"), id_of("order-7"));
/// # Ok::<(), tickscope_stamp::OpenError>(())
/// ```
#[derive(Debug)]
pub struct Ids {
    channel: Channel,
}

impl Ids {
    /// Opens the point of originals for this thread; off, without an error, where `TICKSCOPE_DIR` is unset.
    pub fn open() -> Result<Self, OpenError> {
        Ok(Self { channel: Channel::open_own(ID_ORIGINAL, Ordering::Plain, Fields::Full)? })
    }

    /// Keeps the original, and returns its id. Not for signal handlers.
    pub fn keep(&self, original: impl AsRef<[u8]>) -> i64 {
        let (original, id) = (original.as_ref(), id_of(original.as_ref()));
        let tick = process::clocks().counter.read(Ordering::Plain);
        for chunk in parts(original) {
            self.channel.record_with(id, tick, chunk.extra());
        }
        id
    }
}

/// Part of an original, as one record of it says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct OriginalPart {
    /// Which part, from 0; the record's `kind`.
    pub number: i32,
    /// Bytes of the whole original; the record's `attempt`.
    pub length: i32,
    /// The bytes, little endian, zero behind the end; the record's `value` and `parent`.
    pub words: [i64; 2],
}

impl OriginalPart {
    fn extra(self) -> Extra {
        let [value, parent] = self.words;
        Extra { kind: self.number, value, parent: Some(parent), attempt: self.length, batch: 0 }
    }
}

/// The parts of an original that are kept; an empty one has one part.
fn parts(original: &[u8]) -> impl Iterator<Item = OriginalPart> {
    let kept = &original[..original.len().min(KEPT_BYTES)];
    let length = i32::try_from(original.len()).unwrap_or(i32::MAX);
    (0..kept.len().div_ceil(CHUNK_BYTES).max(1)).map(move |number| {
        let mut bytes = [0; CHUNK_BYTES];
        let part = &kept[number * CHUNK_BYTES..kept.len().min((number + 1) * CHUNK_BYTES)];
        bytes[..part.len()].copy_from_slice(part);
        let word = |half: usize| i64::from_le_bytes(std::array::from_fn(|at| bytes[half * 8 + at]));
        OriginalPart { number: number as i32, length, words: [word(0), word(1)] }
    })
}

/// An original as it was kept.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Original {
    /// Its bytes, or the first of them.
    pub bytes: Vec<u8>,
    /// How many it has.
    pub length: usize,
}

/// The original whose parts these are, of one call of [`Ids::keep`] in any order. Where parts are missing, as after a
/// kill, its bytes end before the first of those; `None`: there is none, or they contradict each other.
pub fn assemble(parts: &mut [OriginalPart]) -> Option<Original> {
    parts.sort_unstable();
    let length = usize::try_from(parts.first()?.length).ok()?;
    let mut bytes = Vec::with_capacity(length.min(KEPT_BYTES));
    for (chunk, number) in parts.iter().zip(0..) {
        if usize::try_from(chunk.length) != Ok(length) {
            return None;
        }
        if chunk.number != number {
            break;
        }
        bytes.extend(chunk.words.iter().flat_map(|word| word.to_le_bytes()));
    }
    bytes.truncate(length.min(KEPT_BYTES));
    Some(Original { bytes, length })
}

impl Original {
    /// Whether these are all of its bytes.
    pub fn is_whole(&self) -> bool {
        self.bytes.len() == self.length
    }
}

/// Text as it is, where it has no control characters; else hexadecimal digits. What was not kept is told behind it.
impl std::fmt::Display for Original {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cut = std::str::from_utf8(&self.bytes).map_err(|e| (e.valid_up_to(), e.error_len()));
        let text = match cut {
            Ok(text) => Some(text),
            Err((valid, None)) if !self.is_whole() => std::str::from_utf8(&self.bytes[..valid]).ok(),
            Err(_) => None,
        };
        match text.filter(|text| !text.is_empty() && !text.chars().any(char::is_control)) {
            Some(text) => f.write_str(text)?,
            None => self.bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?,
        }
        if self.is_whole() { Ok(()) } else { write!(f, "... ({} bytes)", self.length) }
    }
}

/// SipHash-2-4 of J.-P. Aumasson and D. J. Bernstein ("SipHash: a fast short-input PRF", 2012, section 2; the reference
/// is CC0).
fn sip_hash(bytes: &[u8]) -> u64 {
    const KEY: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
    const CONSTANTS: [u64; 4] =
        [0x736f_6d65_7073_6575, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573];
    let mut state: [u64; 4] = std::array::from_fn(|at| CONSTANTS[at] ^ KEY[at % 2]);
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = bytes.len() as u8;
    for word in words.iter().chain([&last]).map(|word| u64::from_le_bytes(*word)) {
        state[3] ^= word;
        (0..2).for_each(|_| sip_round(&mut state));
        state[0] ^= word;
    }
    state[2] ^= 0xff;
    (0..4).for_each(|_| sip_round(&mut state));
    state.iter().fold(0, |all, word| all ^ word)
}

fn sip_round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[1]);
    v[0] = v[0].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hashes_are_those_of_the_authors_vectors() {
        let bytes: Vec<u8> = (0..63).collect();
        // vectors.h of the reference, "vectors_sip64", the first, the second, that of the paper, and the last.
        for (length, hash) in [
            (0, 0x726f_db47_dd0e_0e31),
            (1, 0x74f8_39c5_93dc_67fd),
            (15, 0xa129_ca61_49be_45e5),
            (63, 0x958a_324c_eb06_4572),
        ] {
            assert_eq!(sip_hash(&bytes[..length]), hash, "{length}");
        }
    }

    #[test]
    fn an_original_that_a_kill_cut_off_is_told_from_a_whole_one() {
        let mut all: Vec<OriginalPart> = parts(b"a name of more than thirty-two bytes").collect();
        assert_eq!(assemble(&mut all).unwrap().to_string(), "a name of more than thirty-two bytes");
        let cut = assemble(&mut all[..2]).unwrap();
        assert!(!cut.is_whole());
        assert_eq!(cut.to_string(), "a name of more than thirty-two b... (36 bytes)");
        assert_eq!(assemble(&mut [all[0], OriginalPart { length: 7, ..all[1] }]), None);
        assert_eq!(assemble(&mut []), None);
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_as_hexadecimal_digits() {
        let shown = |bytes: &[u8]| Original { bytes: bytes.to_vec(), length: bytes.len() }.to_string();
        assert_eq!(shown(&[0x4b, 0xf9, 0, 1]), "4bf90001");
        assert_eq!((shown("häuser".as_bytes()), shown(b"")), ("häuser".into(), String::new()));
    }

    proptest! {
        #[test]
        fn property_what_is_kept_of_an_original_comes_back_whatever_the_order_of_its_parts(
            bytes in prop::collection::vec(any::<u8>(), 0..1100), turn in 0usize..70,
        ) {
            let mut parts: Vec<OriginalPart> = parts(&bytes).collect();
            let turns = turn % parts.len();
            parts.rotate_left(turns);
            let original = assemble(&mut parts).unwrap();
            prop_assert_eq!(&original.bytes, &bytes[..bytes.len().min(KEPT_BYTES)]);
            prop_assert_eq!((original.length, original.is_whole()), (bytes.len(), bytes.len() <= KEPT_BYTES));
        }
    }
}
