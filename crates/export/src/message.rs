//! Protocol buffers, as far as a trace needs them: bytes that grow field by field.
//!
//! Guarantees: the least bytes of each number and length. Deliberately absent: reading; a schema, whose field numbers
//! stand where they are written.

/// A message that is being written; fields may come in any order.
#[derive(Default)]
pub(crate) struct Message(pub Vec<u8>);

const VARINT: u32 = 0;
const FIXED_64: u32 = 1;
const BYTES: u32 = 2;
/// Bits of a number in each byte of it.
const GROUP_BITS: u32 = 7;
/// Set in each byte of a number but the last.
const GOES_ON: u8 = 1 << GROUP_BITS;

impl Message {
    /// A number without a sign.
    pub fn number(&mut self, field: u32, value: u64) {
        self.tag(field, VARINT);
        self.varint(value);
    }

    /// A number with a sign, of the type `int64`: negative ones take ten bytes.
    pub fn signed(&mut self, field: u32, value: i64) {
        self.number(field, value.cast_unsigned());
    }

    /// Eight bytes.
    pub fn fixed(&mut self, field: u32, value: u64) {
        self.tag(field, FIXED_64);
        self.0.extend(value.to_le_bytes());
    }

    /// A text.
    pub fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    /// Bytes of any kind.
    pub fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.within(field, |inner| inner.0.extend(bytes));
    }

    /// A message within this one.
    pub fn within(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.tag(field, BYTES);
        let at = self.0.len();
        self.0.push(0); // most are shorter than 128 bytes, and so is their length then
        write(self);
        let mut length = Self::default();
        length.varint((self.0.len() - at - 1) as u64);
        match length.0[..] {
            [one] => self.0[at] = one,
            _ => drop(self.0.splice(at..=at, length.0)),
        }
    }

    fn tag(&mut self, field: u32, form: u32) {
        self.varint(u64::from(field << 3 | form));
    }

    fn varint(&mut self, mut value: u64) {
        while value >= u64::from(GOES_ON) {
            self.0.push(value as u8 | GOES_ON);
            value >>= GROUP_BITS;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the specification, "Encoding".
    #[test]
    fn fields_are_written_as_the_specification_of_protocol_buffers_has_them() {
        let of = |write: fn(&mut Message)| {
            let mut message = Message::default();
            write(&mut message);
            message.0
        };
        assert_eq!(of(|message| message.number(1, 150)), [0x08, 0x96, 0x01]);
        assert_eq!(of(|message| message.text(2, "testing")), *b"\x12\x07testing");
        assert_eq!(of(|message| message.within(3, |inner| inner.number(1, 150))), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        assert_eq!(of(|message| message.signed(1, -2))[1..], [0xfe, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
        assert_eq!(of(|message| message.fixed(47, 1)), [0xf9, 0x02, 1, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn the_length_of_a_message_takes_as_many_bytes_as_it_needs() {
        for (length, head) in [(127, &[0x0a, 127][..]), (128, &[0x0a, 0x80, 1]), (20_000, &[0x0a, 0xa0, 0x9c, 1])] {
            let mut message = Message::default();
            message.text(1, &"x".repeat(length));
            assert_eq!((&message.0[..head.len()], message.0.len()), (head, head.len() + length));
        }
    }
}
