//! Which rows of a page have a value, as Parquet's definition levels of one bit: runs of alike bytes, and bits between.
//!
//! Guarantees: a page in which every row is alike takes some bytes, however many rows it has. Deliberately absent:
//! decoding, which the Parquet crate does.

use super::delta::put_number;

/// One bit a row, the first row of a byte lowest.
#[derive(Default)]
pub struct Levels {
    bits: Vec<u8>,
    rows: usize,
    present: usize,
}

impl Levels {
    /// Appends `count` rows that are all alike.
    pub fn push_alike(&mut self, is_present: bool, count: usize) {
        let end = self.rows + count;
        self.present += if is_present { count } else { 0 };
        while self.rows < end && !self.rows.is_multiple_of(8) {
            self.push_bit(is_present);
        }
        self.bits.resize((end / 8).max(self.bits.len()), if is_present { u8::MAX } else { 0 });
        self.rows = self.rows.max(end / 8 * 8);
        while self.rows < end {
            self.push_bit(is_present);
        }
    }

    /// Appends a row for each of `present`.
    pub fn push_each(&mut self, present: &[bool]) {
        self.present += present.iter().filter(|&&present| present).count();
        let unaligned = present.len().min((8 - self.rows % 8) % 8);
        let (first, rest) = present.split_at(unaligned);
        first.iter().for_each(|&present| self.push_bit(present));
        let (bytes, last) = rest.as_chunks::<8>();
        let byte = |rows: &[bool; 8]| rows.iter().rev().fold(0, |byte, &is_present| byte << 1 | u8::from(is_present));
        self.bits.extend(bytes.iter().map(byte));
        self.rows += 8 * bytes.len();
        last.iter().for_each(|&present| self.push_bit(present));
    }

    fn push_bit(&mut self, is_present: bool) {
        if self.rows.is_multiple_of(8) {
            self.bits.push(0);
        }
        if let (true, Some(byte)) = (is_present, self.bits.last_mut()) {
            *byte |= 1 << (self.rows % 8);
        }
        self.rows += 1;
    }

    /// Number of rows without a value.
    pub fn nulls(&self) -> usize {
        self.rows - self.present
    }

    /// Appends them, behind their length, as a data page begins.
    pub fn finish(&self, into: &mut Vec<u8>) {
        let start = into.len();
        into.extend([0; 4]);
        if self.present == 0 || self.present == self.rows {
            put_run(self.present > 0, self.rows, into);
        } else {
            self.put_mixed(into);
        }
        let length = (into.len() - start - 4) as u32;
        into[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    fn put_mixed(&self, into: &mut Vec<u8>) {
        let (mut rest, mut rows) = (&self.bits[..], self.rows);
        while let Some(&first) = rest.first() {
            let alike = rest.iter().take_while(|&&byte| byte == first).count();
            if alike >= WORTHWHILE && [0, u8::MAX].contains(&first) {
                put_run(first > 0, (alike * 8).min(rows), into);
                (rest, rows) = (&rest[alike..], rows.saturating_sub(alike * 8));
                continue;
            }
            let is_long = |window: &[u8]| [[0; WORTHWHILE], [u8::MAX; WORTHWHILE]].iter().any(|run| window == run);
            let end = rest.windows(WORTHWHILE).position(is_long).unwrap_or(rest.len());
            put_number((end as u64) << 1 | 1, into);
            into.extend_from_slice(&rest[..end]);
            (rest, rows) = (&rest[end..], rows.saturating_sub(end * 8));
        }
    }
}

/// Bytes of rows that are alike for which a run of their own is shorter.
const WORTHWHILE: usize = 4;

fn put_run(is_present: bool, rows: usize, into: &mut Vec<u8>) {
    put_number((rows as u64) << 1, into);
    into.push(is_present.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows that a strict reader takes: no run of alike rows ends behind the page's last.
    fn read(levels: &Levels) -> Vec<bool> {
        let mut page = Vec::new();
        levels.finish(&mut page);
        let (length, mut rest) = page.split_first_chunk().unwrap();
        assert_eq!(u32::from_le_bytes(*length) as usize, rest.len());
        let mut rows = Vec::new();
        while !rest.is_empty() {
            let bytes = rest.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
            let header =
                rest[..bytes].iter().rev().fold(0_usize, |number, byte| number << 7 | usize::from(byte & 0x7f));
            rest = &rest[bytes..];
            if header & 1 == 0 {
                rows.extend(std::iter::repeat_n(rest[0] == 1, header >> 1));
                rest = &rest[1..];
                assert!(rows.len() <= levels.rows, "{} rows of {}", rows.len(), levels.rows);
            } else {
                let (bits, behind) = rest.split_at(header >> 1);
                rows.extend(bits.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1)));
                rest = behind;
            }
        }
        rows.truncate(levels.rows);
        rows
    }

    #[test]
    fn levels_are_those_that_were_appended_and_no_run_is_longer_than_the_page() {
        for behind in [0, 1, 7, 8, 31, 32, 33, 37, 70] {
            for (first, last) in [(true, false), (false, true)] {
                let mut levels = Levels::default();
                levels.push_each(&[first, last, first]);
                levels.push_alike(first, 77);
                let mixed: Vec<bool> = (0..behind + 1).map(|row| (row % 3 == 0) == last).collect();
                levels.push_each(&mixed);
                levels.push_alike(last, behind);
                let mut expected = vec![first, last, first];
                expected.extend(std::iter::repeat_n(first, 77));
                expected.extend(mixed);
                expected.extend(std::iter::repeat_n(last, behind));
                assert_eq!(read(&levels), expected, "{behind} rows of {last} behind others");
            }
        }
    }
}
