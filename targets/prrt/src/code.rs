//! The erasure code of a block, and which of its parity packets are sent when.
//!
//! The code is systematic and maximum distance separable over GF(2^8) (crate `reed-solomon-erasure`): any `k` of the
//! `n` packets give all others. Packet `r` of a block depends on `k` and `r` alone, so that how many parity packets a
//! block may have does not change those it has. A block that was cut short is coded with empty packets in place of
//! those it lacks, which are never sent.

use std::collections::HashMap;

use reed_solomon_erasure::galois_8::ReedSolomon;

use crate::Error;
use crate::packet::LENGTH_BYTES;

/// Packets of a block at most, parity included: an index is a byte, and the field has 256 elements.
pub const MOST_PACKETS: usize = 255;
/// Codes that are kept ready, and bytes of what they keep of decodings, a matrix of k by k each: beyond that all are
/// made anew.
const MOST_CODES: usize = 8;
const MOST_KEPT_BYTES: usize = 4 << 20;

/// Size of a block, and the schedule of its parity: how many packets follow it at once, and how many each request
/// brings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Coding {
    k: u8,
    schedule: Vec<u8>,
}

impl Coding {
    /// Blocks of `k` source packets. `schedule[0]` parity packets follow each, `schedule[i]` the i-th request.
    ///
    /// ```
    /// let coding = tickscope_prrt::Coding::new(8, &[1, 1, 2])?;
    /// assert_eq!((coding.k(), coding.n(), coding.proactive()), (8, 12, 1));
    /// # Ok::<(), tickscope_prrt::Error>(())
    /// ```
    pub fn new(k: u8, schedule: &[u8]) -> Result<Self, Error> {
        let n = usize::from(k) + schedule.iter().map(|parity| usize::from(*parity)).sum::<usize>();
        if k == 0 || schedule.is_empty() || schedule.len() > MOST_PACKETS || n > MOST_PACKETS {
            let expected = format!("1 or more source packets, and at most {MOST_PACKETS} packets a block and rounds");
            let remedy = "Make blocks smaller, or their schedule shorter, which has at least the parity sent at once";
            return Err(Error::new(expected, format!("k = {k} and parity {schedule:?}"), remedy));
        }
        Ok(Self { k, schedule: schedule.to_vec() })
    }

    /// Source packets of a block.
    pub fn k(&self) -> u8 {
        self.k
    }

    /// Packets of a block.
    pub fn n(&self) -> u8 {
        self.k + self.schedule.iter().sum::<u8>()
    }

    /// Parity packets that follow a block at once.
    pub fn proactive(&self) -> u8 {
        self.schedule[0]
    }

    /// How many parity packets, and after which in all, the request of that number (from 1) brings; `None`: it may not
    /// ask as often.
    pub fn round(&self, round: u8) -> Option<u8> {
        self.schedule.get(usize::from(round)).copied().filter(|_| round > 0)
    }

    /// Requests that a block may have.
    pub fn rounds(&self) -> u8 {
        (self.schedule.len() - 1) as u8
    }

    /// The schedule: parity at once, then by request.
    pub fn schedule(&self) -> &[u8] {
        &self.schedule
    }
}

/// Codes by (k, n), made when they are first needed.
#[derive(Default)]
pub struct Code {
    codes: HashMap<(u8, u8), ReedSolomon>,
    /// Bytes that decodings left with the codes at most.
    kept_bytes: usize,
}

impl Code {
    fn of(&mut self, k: u8, n: u8) -> &ReedSolomon {
        let is_full = self.codes.len() >= MOST_CODES && !self.codes.contains_key(&(k, n));
        if is_full || self.kept_bytes > MOST_KEPT_BYTES {
            (self.codes, self.kept_bytes) = (HashMap::new(), 0);
        }
        let made = || ReedSolomon::new(k.into(), (n - k).into()).expect("a code of 1 to 255 packets with parity");
        self.codes.entry((k, n)).or_insert_with(made)
    }

    /// Parity packets of a block of `k`, of which `sources` are there.
    ///
    /// # Panics
    /// If there are none, more than `k`, or `n <= k`.
    pub fn encode<S: AsRef<[u8]>>(&mut self, k: u8, n: u8, sources: &[S]) -> Vec<Vec<u8>> {
        let longest = sources.iter().map(|source| source.as_ref().len()).max().expect("a block has a packet");
        assert!(sources.len() <= usize::from(k) && n > k, "{} of {k} source packets, n = {n}", sources.len());
        let bytes = longest + LENGTH_BYTES;
        let mut shards = Vec::with_capacity(usize::from(k) * bytes);
        for (index, source) in sources.iter().enumerate() {
            add_shard(source.as_ref(), &mut shards);
            shards.resize((index + 1) * bytes, 0);
        }
        shards.resize(usize::from(k) * bytes, 0);
        let shards: Vec<&[u8]> = shards.chunks_exact(bytes).collect();
        let mut parity = vec![vec![0; bytes]; (n - k).into()];
        self.of(k, n).encode_sep(&shards, &mut parity).expect("shards of one length");
        parity
    }

    /// Puts what is missing in place of `None` among the first `k` of the packets: payloads, then parity. `filled` of
    /// the source packets exist. Answers which were recovered; `None`: they are too few, or no such code made them.
    pub fn recover(&mut self, k: u8, filled: u8, packets: &mut [Option<Vec<u8>>]) -> Option<Vec<u8>> {
        let [sources, n] = [usize::from(k), packets.len()];
        let missing: Vec<u8> = (0..filled).filter(|index| packets[usize::from(*index)].is_none()).collect();
        let bytes = packets[sources..].iter().flatten().map(Vec::len).next()?;
        let fits = |(index, packet): (usize, &Option<Vec<u8>>)| {
            packet.as_ref().is_none_or(|packet| {
                if index < sources { packet.len() + LENGTH_BYTES <= bytes } else { packet.len() == bytes }
            })
        };
        if !packets.iter().enumerate().all(fits) {
            return None;
        }
        let (mut shards, mut are_known, mut lacking) = (Vec::with_capacity(n * bytes), Vec::with_capacity(n), sources);
        for (index, packet) in packets.iter().enumerate() {
            // More than k packets the code would not look at.
            let is_empty = (usize::from(filled)..sources).contains(&index);
            let is_known = lacking > 0 && (packet.is_some() || is_empty);
            match packet.as_deref().filter(|_| is_known) {
                Some(payload) if index < sources => add_shard(payload, &mut shards),
                Some(parity) => shards.extend(parity),
                None => {}
            }
            shards.resize((index + 1) * bytes, 0);
            are_known.push(is_known);
            lacking -= usize::from(is_known);
        }
        let mut slices: Vec<(&mut [u8], bool)> = shards.chunks_exact_mut(bytes).zip(are_known).collect();
        self.kept_bytes += sources * sources;
        self.of(k, n as u8).reconstruct_data(&mut slices).ok()?;
        for index in missing.iter().map(|index| usize::from(*index)) {
            packets[index] = Some(payload(&shards[index * bytes..(index + 1) * bytes])?);
        }
        Some(missing)
    }
}

/// Adds a payload as the code takes it: its length before it; zeros behind it are still to come.
fn add_shard(payload: &[u8], bytes: &mut Vec<u8>) {
    bytes.extend((payload.len() as u16).to_be_bytes());
    bytes.extend(payload);
}

fn payload(shard: &[u8]) -> Option<Vec<u8>> {
    let (length, rest) = shard.split_at_checked(LENGTH_BYTES)?;
    let (payload, zeros) = rest.split_at_checked(u16::from_be_bytes([length[0], length[1]]).into())?;
    zeros.iter().all(|byte| *byte == 0).then(|| payload.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodings_of_many_codes_and_losses_leave_little_memory() {
        let mut code = Code::default();
        let parity = code.encode(20, 21, &[b"a payload"]).remove(0);
        for lost in (0..600).flat_map(|_| 0..20_u8) {
            let sources = (0..20).map(|index| (index != lost).then(Vec::new));
            let mut packets: Vec<Option<Vec<u8>>> = sources.chain([Some(parity.clone())]).collect();
            assert!(code.recover(20, 20, &mut packets).is_some() || lost > 0);
            assert!(code.kept_bytes <= MOST_KEPT_BYTES + 20 * 20, "{}", code.kept_bytes);
        }
        for k in 1..=40 {
            code.encode(k, k + 1, &[b"a payload"]);
            assert!(code.codes.len() <= MOST_CODES, "{}", code.codes.len());
        }
    }

    #[test]
    fn a_schedule_has_no_more_rounds_than_feedback_can_number() {
        assert_eq!(Coding::new(1, &[vec![0], vec![1; 254]].concat()).unwrap().rounds(), 254);
        assert!(Coding::new(1, &[0; 256]).is_err());
    }
}
