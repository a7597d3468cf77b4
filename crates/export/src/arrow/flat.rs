//! FlatBuffers, as far as Arrow's metadata needs them: tables, vectors, texts, from the end to the beginning.
//!
//! Idea: bytes are held in reverse, so that what is written later lies before, and a place is its distance from the
//! end; offsets lead forward. Guarantees: each number is aligned to its size. Deliberately absent: reading; a schema,
//! whose field numbers stand where they are written; sharing of equal tables.

/// A buffer that is being written.
#[derive(Default)]
pub(super) struct Flat {
    /// The last byte first.
    reversed: Vec<u8>,
}

/// Where something begins, by its distance from the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct At(usize);

/// The value of a field of a table.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    Byte(u8),
    Short(i16),
    Int(i32),
    Long(i64),
    To(At),
}

/// Bytes that the largest number takes.
const MOST_ALIGNED: usize = 8;

impl Flat {
    /// Writes a table; `fields` by their numbers, those left out have their defaults.
    pub fn table(&mut self, fields: &[(usize, Value)]) -> At {
        let end = self.reversed.len();
        let mut places = Vec::new();
        for (number, value) in fields {
            places.push((*number, self.value(*value)));
        }
        self.align(4, 4);
        self.reversed.extend([0; 4]); // how far the fields' places lie before
        let table = self.reversed.len();
        let count = fields.iter().map(|(number, _)| number + 1).max().unwrap_or(0);
        for number in (0..count).rev() {
            let place = places.iter().find(|(known, _)| *known == number);
            let offset = place.map_or(0, |(_, place)| (table - place) as u16);
            self.push(&offset.to_le_bytes());
        }
        self.push(&((table - end) as u16).to_le_bytes());
        self.push(&((2 * count + 4) as u16).to_le_bytes());
        let back = ((self.reversed.len() - table) as i32).to_le_bytes();
        self.reversed[table - 4..table].iter_mut().rev().zip(back).for_each(|(place, byte)| *place = byte);
        At(table)
    }

    fn value(&mut self, value: Value) -> usize {
        match value {
            Value::Byte(byte) => self.push(&[byte]),
            Value::Short(number) => self.aligned(&number.to_le_bytes()),
            Value::Int(number) => self.aligned(&number.to_le_bytes()),
            Value::Long(number) => self.aligned(&number.to_le_bytes()),
            Value::To(at) => self.offset(at),
        }
        self.reversed.len()
    }

    /// Writes a text.
    pub fn text(&mut self, text: &str) -> At {
        self.align(4, text.len() + 1);
        self.push(&[0]);
        self.push(text.as_bytes());
        self.push(&(text.len() as u32).to_le_bytes());
        At(self.reversed.len())
    }

    /// Writes a vector of what lies elsewhere.
    pub fn vector(&mut self, all: &[At]) -> At {
        self.align(4, 0);
        all.iter().rev().for_each(|&at| self.offset(at));
        self.push(&(all.len() as u32).to_le_bytes());
        At(self.reversed.len())
    }

    /// Writes a vector of structs of so many numbers of eight bytes each.
    pub fn structs<const N: usize>(&mut self, all: &[[i64; N]]) -> At {
        self.align(MOST_ALIGNED, 0);
        for numbers in all.iter().rev() {
            numbers.iter().rev().for_each(|number| self.push(&number.to_le_bytes()));
        }
        self.push(&(all.len() as u32).to_le_bytes());
        At(self.reversed.len())
    }

    /// All bytes, with `root` as what readers begin at; a multiple of eight.
    pub fn finish(mut self, root: At) -> Vec<u8> {
        self.align(MOST_ALIGNED, 4);
        self.offset(root);
        self.reversed.reverse();
        self.reversed
    }

    fn offset(&mut self, to: At) {
        self.align(4, 4);
        let from = self.reversed.len() + 4;
        self.push(&((from - to.0) as u32).to_le_bytes());
    }

    fn aligned(&mut self, bytes: &[u8]) {
        self.align(bytes.len(), bytes.len());
        self.push(bytes);
    }

    /// Fills up so that after `bytes` more a multiple of `size` is reached.
    fn align(&mut self, size: usize, bytes: usize) {
        let after = (self.reversed.len() + bytes).next_multiple_of(size);
        self.reversed.resize(after - bytes, 0);
    }

    fn push(&mut self, bytes: &[u8]) {
        self.reversed.extend(bytes.iter().rev());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader of one field, as the format's own description has it.
    fn field(bytes: &[u8], table: usize, number: usize) -> Option<usize> {
        let short = |at: usize| usize::from(u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()));
        let places =
            (table as i64 - i64::from(i32::from_le_bytes(bytes[table..table + 4].try_into().unwrap()))) as usize;
        let at = 4 + 2 * number;
        let offset = if at < short(places) { short(places + at) } else { 0 };
        (offset > 0).then_some(table + offset)
    }

    #[test]
    fn a_table_is_read_by_the_formats_own_rules_and_every_number_is_aligned() {
        let mut flat = Flat::default();
        let name = flat.text("seven");
        let pairs = flat.structs(&[[1, 2], [3, 4]]);
        let inner = flat.table(&[(1, Value::Long(-5)), (0, Value::Byte(9))]);
        let all = flat.vector(&[inner]);
        let root = flat.table(&[
            (0, Value::Short(7)),
            (1, Value::To(name)),
            (3, Value::To(pairs)),
            (4, Value::Int(70_000)),
            (5, Value::To(all)),
        ]);
        let bytes = flat.finish(root);
        let int = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let long = |at: usize| i64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let root = int(0);
        assert_eq!(bytes.len() % 8, 0);
        assert_eq!(bytes[field(&bytes, root, 0).unwrap()], 7);
        assert_eq!(field(&bytes, root, 2), None);
        let text = field(&bytes, root, 1).map(|at| at + int(at)).unwrap();
        assert_eq!((int(text), &bytes[text + 4..text + 10]), (5, &b"seven\0"[..]));
        let pairs = field(&bytes, root, 3).map(|at| at + int(at)).unwrap();
        assert_eq!((int(pairs), (pairs + 4) % 8, long(pairs + 12), long(pairs + 20)), (2, 0, 2, 3));
        assert_eq!(int(field(&bytes, root, 4).unwrap()), 70_000);
        let vector = field(&bytes, root, 5).map(|at| at + int(at)).unwrap();
        let inner = vector + 4 + int(vector + 4);
        let number = field(&bytes, inner, 1).unwrap();
        assert_eq!((long(number), number % 8, bytes[field(&bytes, inner, 0).unwrap()]), (-5, 0, 9));
    }
}
