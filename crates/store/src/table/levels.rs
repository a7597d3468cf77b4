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
        present.iter().for_each(|&present| self.push_bit(present));
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
        let mut rest = &self.bits[..];
        while let Some(&first) = rest.first() {
            let alike = rest.iter().take_while(|&&byte| byte == first).count();
            if alike >= WORTHWHILE && [0, u8::MAX].contains(&first) {
                put_run(first > 0, alike * 8, into);
                rest = &rest[alike..];
                continue;
            }
            let is_long = |window: &[u8]| [[0; WORTHWHILE], [u8::MAX; WORTHWHILE]].iter().any(|run| window == run);
            let end = rest.windows(WORTHWHILE).position(is_long).unwrap_or(rest.len());
            put_number((end as u64) << 1 | 1, into);
            into.extend_from_slice(&rest[..end]);
            rest = &rest[end..];
        }
    }
}

/// Bytes of rows that are alike for which a run of their own is shorter.
const WORTHWHILE: usize = 4;

fn put_run(is_present: bool, rows: usize, into: &mut Vec<u8>) {
    put_number((rows as u64) << 1, into);
    into.push(is_present.into());
}
