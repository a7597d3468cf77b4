//! The erasure code of a block, and which of its parity packets are sent when.
//!
//! The code is systematic and maximum distance separable over GF(2^8) (crate `reed-solomon-erasure`): any `k` of the
//! `n` packets give all others. Packet `r` of a block depends on `k` and `r` alone, so that how many parity packets a
//! block may have does not change those it has. A block that was cut short is coded with empty packets in place of
//! those it lacks, which are never sent.

use std::collections::HashMap;

use reed_solomon_erasure::galois_8::{ReedSolomon, div, mul, mul_slice_xor};

use crate::Error;
use crate::packet::LENGTH_BYTES;

/// Packets of a block at most, parity included: an index is a byte, and the field has 256 elements.
pub const MOST_PACKETS: usize = 255;
/// Codes that are kept ready, 16 KiB each at most: beyond that all are made anew.
const MOST_CODES: usize = 8;

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

    /// Number of parity packets that the request of that number (from 1) brings; `None`: a block may not have as many
    /// requests.
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

/// Codes by k, made when they are first needed: the factors of each parity packet, one a source packet.
#[derive(Default)]
pub struct Code {
    codes: HashMap<u8, Vec<Vec<u8>>>,
}

impl Code {
    fn factors(&mut self, k: u8, n: u8) -> &[Vec<u8>] {
        let parity = usize::from(n - k);
        if self.codes.get(&k).is_none_or(|factors| factors.len() < parity) {
            if self.codes.len() >= MOST_CODES {
                self.codes.clear();
            }
            // Further requests want further packets.
            let most = parity.next_power_of_two().min(MOST_PACKETS - usize::from(k));
            self.codes.insert(k, factors(k, most));
        }
        &self.codes[&k][..parity]
    }

    /// Parity packets of a block of `k`, of which `sources` are there.
    ///
    /// # Panics
    /// If there are none, more than `k`, or `n <= k`.
    pub fn encode<S: AsRef<[u8]>>(&mut self, k: u8, n: u8, sources: &[S]) -> Vec<Vec<u8>> {
        let longest = sources.iter().map(|source| source.as_ref().len()).max().expect("a block has a packet");
        assert!(sources.len() <= usize::from(k) && n > k, "{} of {k} source packets, n = {n}", sources.len());
        let factors = self.factors(k, n);
        let mut parity = vec![vec![0; LENGTH_BYTES + longest]; factors.len()];
        for (index, source) in sources.iter().map(AsRef::as_ref).enumerate() {
            for (factors, sum) in factors.iter().zip(&mut parity) {
                let (length, bytes) = sum.split_at_mut(LENGTH_BYTES);
                add(factors[index], &length_of(source), length);
                add(factors[index], source, bytes);
            }
        }
        parity
    }

    /// Puts what is missing in place of `None` among the first `k` of the packets: payloads, then parity. `filled` of
    /// the source packets exist. Answers which were recovered; `None`: they are too few, or no such code made them.
    pub fn recover(&mut self, k: u8, filled: u8, packets: &mut [Option<Vec<u8>>]) -> Option<Vec<u8>> {
        let n = packets.len() as u8;
        let (sources, parity) = packets.split_at(k.into());
        let missing: Vec<u8> = (0..filled).filter(|index| sources[usize::from(*index)].is_none()).collect();
        let longest = parity.iter().flatten().next()?.len().checked_sub(LENGTH_BYTES)?;
        let are_sources = sources.iter().flatten().all(|packet| packet.len() <= longest);
        if !are_sources || !parity.iter().flatten().all(|packet| packet.len() == LENGTH_BYTES + longest) {
            return None;
        }
        let parity: Vec<Parity<'_>> = std::iter::zip(parity, self.factors(k, n))
            .filter_map(|(packet, factors)| Some(Parity { packet: packet.as_ref()?, factors }))
            .take(missing.len())
            .collect();
        if parity.len() < missing.len() {
            return None;
        }
        let sums = solved(&missing, sources, &parity, longest);
        let recovered = sums.into_iter().map(|(length, bytes)| payload(length, bytes)).collect::<Option<Vec<_>>>()?;
        for (index, payload) in missing.iter().zip(recovered) {
            packets[usize::from(*index)] = Some(payload);
        }
        Some(missing)
    }
}

/// A parity packet: the sum of the source packets, each multiplied by its factor.
struct Parity<'a> {
    packet: &'a [u8],
    factors: &'a [u8],
}

/// The source packets that are missing, by as many parity packets: their lengths and their bytes, with zeros behind.
/// The matrix that is inverted for it is no larger than they are many.
fn solved(
    missing: &[u8],
    sources: &[Option<Vec<u8>>],
    parity: &[Parity<'_>],
    longest: usize,
) -> Vec<([u8; LENGTH_BYTES], Vec<u8>)> {
    let of_missing = |parity: &Parity<'_>| missing.iter().map(|index| parity.factors[usize::from(*index)]).collect();
    let inverse = inverted(parity.iter().map(of_missing).collect());
    let mut sums = vec![([0; LENGTH_BYTES], vec![0; longest]); missing.len()];
    for (index, source) in sources.iter().enumerate().filter_map(|(index, source)| Some((index, source.as_ref()?))) {
        for (row, (length, bytes)) in inverse.iter().zip(&mut sums) {
            let products = row.iter().zip(parity).map(|(factor, parity)| mul(*factor, parity.factors[index]));
            let factor = products.fold(0, |sum, product| sum ^ product);
            add(factor, &length_of(source), length);
            add(factor, source, bytes);
        }
    }
    for (at, parity) in parity.iter().enumerate() {
        for (row, (length, bytes)) in inverse.iter().zip(&mut sums) {
            add(row[at], &parity.packet[..LENGTH_BYTES], length);
            add(row[at], &parity.packet[LENGTH_BYTES..], bytes);
        }
    }
    sums
}

/// The factors of a code: its parity of packets that together are the identity.
fn factors(k: u8, parity: usize) -> Vec<Vec<u8>> {
    let code = ReedSolomon::new(k.into(), parity).expect("a code of 1 to 255 packets with parity");
    let unit = |at: u8| (0..k).map(|index| u8::from(index == at)).collect();
    let identity: Vec<Vec<u8>> = (0..k).map(unit).collect();
    let mut factors = vec![vec![0; k.into()]; parity];
    code.encode_sep(&identity, &mut factors).expect("packets of one length");
    factors
}

/// The inverse of a square part of a code's factors: no such part is singular, so no pivot is 0.
fn inverted(mut matrix: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    for at in 0..matrix.len() {
        let mut pivot = std::mem::take(&mut matrix[at]);
        let scale = div(1, std::mem::replace(&mut pivot[at], 1));
        pivot.iter_mut().for_each(|factor| *factor = mul(scale, *factor));
        for row in matrix.iter_mut().filter(|row| !row.is_empty()) {
            let factor = std::mem::take(&mut row[at]);
            add(factor, &pivot, row);
        }
        matrix[at] = pivot;
    }
    matrix
}

/// Adds a multiple to a sum that is as long, or longer.
fn add(factor: u8, bytes: &[u8], sum: &mut [u8]) {
    if !bytes.is_empty() {
        mul_slice_xor(factor, bytes, &mut sum[..bytes.len()]);
    }
}

/// Length of a payload, as the code has it before its bytes; zeros follow them.
fn length_of(payload: &[u8]) -> [u8; LENGTH_BYTES] {
    (payload.len() as u16).to_be_bytes()
}

fn payload(length: [u8; LENGTH_BYTES], mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let length = u16::from_be_bytes(length).into();
    let is_payload = bytes.get(length..)?.iter().all(|byte| *byte == 0);
    bytes.truncate(length);
    bytes.shrink_to_fit();
    is_payload.then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_many_sizes_leave_little_memory() {
        let mut code = Code::default();
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
