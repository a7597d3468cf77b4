//! One histogram of three significant digits, and its text: "V2CompressedEncoding" of HdrHistogram's source.

use tickscope_tick::base64;

/// Buckets of a power of two: values up to twice as many are told apart one by one.
const HALF: u64 = 1024;
const HALF_BITS: u32 = HALF.trailing_zeros();
const DIGITS: u32 = 3;
const COOKIE: u32 = 0x1c84_9313;
const COOKIE_COMPRESSED: u32 = 0x1c84_9314;
/// Bytes of a stored block of zlib at most.
const MOST_STORED: usize = u16::MAX as usize;
const NS_PER_US: u64 = 1000;

/// How a value goes into buckets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reading {
    /// Into the highest that holds nothing above it.
    Below,
    /// Into the one that holds it.
    Within,
    /// Into the lowest that holds nothing below it.
    Above,
}

/// Counts of values from 0 to 2^62 - 1.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    /// Values that it cannot hold.
    pub unheld: u64,
}

/// Index of the bucket of a value, and the lowest and highest value that are the same to it.
fn bucket(value: u64) -> (usize, [u64; 2]) {
    let shift = (u64::BITS - (value | (2 * HALF - 1)).leading_zeros()) - (HALF_BITS + 1);
    let index = (u64::from(shift) << HALF_BITS) + (value >> shift);
    let lowest = value >> shift << shift;
    (index as usize, [lowest, lowest + ((1 << shift) - 1)])
}

/// Index of the bucket that a value goes into; `None`: there is none for it.
fn place(value: i128, reading: Reading) -> Option<usize> {
    const MOST: u64 = 1 << 62; // 146 years
    let value = u64::try_from(value).ok().filter(|&value| value < MOST)?;
    let (_, [lowest, highest]) = bucket(value);
    let value = match reading {
        Reading::Below if highest > value => lowest - 1, // 0 stands in a bucket of its own
        Reading::Above if lowest < value => highest + 1,
        _ => value,
    };
    Some(bucket(value).0)
}

impl Histogram {
    /// Counts a value.
    pub fn count(&mut self, value: i128, reading: Reading) {
        let Some(at) = place(value, reading) else {
            self.unheld += 1;
            return;
        };
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
    }

    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(all, more)| *all += more);
        self.unheld += other.unheld;
    }

    /// All values, also those that it cannot hold.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.unheld
    }

    /// The highest value of the last bucket in milliseconds, as logs have it.
    pub fn max_ms(&self) -> String {
        let us = self.max().div_ceil(NS_PER_US);
        format!("{}.{:03}", us / 1000, us % 1000)
    }

    fn max(&self) -> u64 {
        let last = self.counts.len().saturating_sub(1) as u64;
        let shift = (last >> HALF_BITS).saturating_sub(1);
        ((last - (shift << HALF_BITS)) << shift) + ((1 << shift) - 1)
    }

    /// It as logs have it.
    pub fn text(&self) -> String {
        let counts = self.packed_counts();
        let mut plain = Vec::new();
        plain.extend(COOKIE.to_be_bytes());
        plain.extend((counts.len() as u32).to_be_bytes());
        plain.extend(0_u32.to_be_bytes());
        plain.extend(DIGITS.to_be_bytes());
        plain.extend(1_u64.to_be_bytes());
        plain.extend(self.max().max(2).to_be_bytes());
        plain.extend(1_f64.to_be_bytes());
        plain.extend(counts);
        let stored = stored(&plain);
        let mut bytes = COOKIE_COMPRESSED.to_be_bytes().to_vec();
        bytes.extend((stored.len() as u32).to_be_bytes());
        bytes.extend(stored);
        base64(&bytes)
    }

    /// Counts as numbers of a varying length; how many zeros follow each other is a number below zero.
    fn packed_counts(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut zeros = 0_i64;
        for &count in &self.counts {
            if count == 0 {
                zeros += 1;
                continue;
            }
            match std::mem::take(&mut zeros) {
                0 => {}
                1 => zigzag(&mut bytes, 0),
                several => zigzag(&mut bytes, -several),
            }
            zigzag(&mut bytes, count as i64);
        }
        bytes
    }
}

/// A number with a sign, seven bits a byte, the ninth byte whole.
fn zigzag(bytes: &mut Vec<u8>, value: i64) {
    const GOES_ON: u64 = 0x80;
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    for _ in 0..8 {
        if rest < GOES_ON {
            return bytes.push(rest as u8);
        }
        bytes.push((rest | GOES_ON) as u8);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

/// A zlib stream of stored blocks (RFC 1950, RFC 1951).
fn stored(bytes: &[u8]) -> Vec<u8> {
    const HEAD: [u8; 2] = [0x78, 0x01];
    let mut stream = HEAD.to_vec();
    let blocks = bytes.len().div_ceil(MOST_STORED);
    for (number, block) in (1..).zip(bytes.chunks(MOST_STORED)) {
        stream.push(u8::from(number == blocks));
        stream.extend((block.len() as u16).to_le_bytes());
        stream.extend((!(block.len() as u16)).to_le_bytes());
        stream.extend(block);
    }
    stream.extend(adler(bytes).to_be_bytes());
    stream
}

fn adler(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    let (mut one, mut two) = (1, 0);
    for &byte in bytes {
        one = (one + u32::from(byte)) % MODULUS;
        two = (two + one) % MODULUS;
    }
    two << 16 | one
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn property_no_reader_of_a_bucket_finds_a_bound_inside_the_exact_one(value in 0..=i64::MAX as u64 >> 2) {
            let at = |reading| {
                let mut histogram = Histogram::default();
                histogram.count(value.into(), reading);
                histogram.max()
            };
            let (_, [lowest, highest]) = bucket(value);
            prop_assert!(lowest <= value && value <= highest);
            prop_assert!(at(Reading::Below) <= value, "also the highest value of its bucket");
            prop_assert!(bucket(at(Reading::Above)).1[0] >= value, "also the lowest value of its bucket");
            prop_assert_eq!(at(Reading::Within), highest);
        }
    }

    #[test]
    fn values_up_to_2047_stand_alone_and_a_tenth_of_a_percent_is_the_widest_bucket() {
        for value in 0..=2047 {
            assert_eq!(bucket(value), (value as usize, [value, value]));
        }
        assert_eq!(bucket(2048), (2048, [2048, 2049]));
        assert_eq!(bucket(1_000_001).1, [999_936, 1_000_447]);
    }

    #[test]
    fn what_is_below_zero_is_counted_and_nowhere_else() {
        let mut histogram = Histogram::default();
        histogram.count(-1, Reading::Below);
        histogram.count(0, Reading::Below);
        assert_eq!((histogram.unheld, histogram.total(), histogram.max()), (1, 2, 0));
    }
}
