//! Serialised tuples that carry their ids in their bytes, made before the run.

use crate::Error;

const ID_BYTES: usize = size_of::<i64>();

/// Tuples of one length in one piece of memory; that of number n carries the id `first + n`.
#[derive(Clone, Debug)]
pub struct Tuples {
    bytes: Vec<u8>,
    length: usize,
}

impl Tuples {
    /// `count` copies of a serialised tuple, each with its id in the eight bytes from `at` on, the lowest byte first.
    pub fn new(tuple: &[u8], at: usize, first: i64, count: usize) -> Result<Self, Error> {
        let mut bytes = tuple.repeat(count);
        for (id, tuple) in (first..).zip(bytes.chunks_exact_mut(tuple.len().max(1))) {
            write_id(tuple, at, id)?;
        }
        Ok(Self { bytes, length: tuple.len() })
    }

    /// The tuple of that number, from 0; `None`: there are fewer.
    pub fn get(&self, number: usize) -> Option<&[u8]> {
        let from = number.checked_mul(self.length)?;
        self.bytes.get(from..from.checked_add(self.length)?)
    }
}

/// Writes an id into the eight bytes from `at` on, the lowest byte first.
pub fn write_id(tuple: &mut [u8], at: usize, id: i64) -> Result<(), Error> {
    let length = tuple.len();
    match at.checked_add(ID_BYTES).and_then(|end| tuple.get_mut(at..end)) {
        Some(place) => place.copy_from_slice(&id.to_le_bytes()),
        None => {
            let expected = format!("{ID_BYTES} bytes for an id from byte {at} on");
            return Err(Error::new(expected, format!("a tuple of {length}"), "Serialise a field of 64 bits there"));
        }
    }
    Ok(())
}
