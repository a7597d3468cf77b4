//! Tables of FlatBuffers (<https://flatbuffers.dev/internals>), as Arrow's messages are made of. Guarantees: every
//! function gives `None` where the bytes are damaged, and reads nothing from beyond them.

/// A table in a message.
#[derive(Clone, Copy)]
pub(crate) struct FlatTable<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> FlatTable<'a> {
    /// The table of a message.
    pub fn root(bytes: &'a [u8]) -> Option<Self> {
        Some(Self { bytes, at: offset(bytes, 0)? })
    }

    /// The lowest byte of a field, all of a truth or of a number of few values; `default`: where it is left out.
    pub fn byte(self, field: usize, default: u8) -> Option<u8> {
        self.place(field)?.map_or(Some(default), |at| self.bytes.get(at).copied())
    }

    /// A number of 64 bits.
    pub fn long(self, field: usize) -> Option<u64> {
        self.place(field)?.map_or(Some(0), |at| read(self.bytes, at).map(u64::from_le_bytes))
    }

    /// The table of a field; `Some(None)`: it is left out.
    pub fn table(self, field: usize) -> Option<Option<Self>> {
        self.place(field)?.map_or(Some(None), |at| Some(Some(Self { at: offset(self.bytes, at)?, ..self })))
    }

    pub fn text(self, field: usize) -> Option<&'a str> {
        let (at, bytes) = self.entries(field, 1)?;
        std::str::from_utf8(&self.bytes[at..at + bytes]).ok()
    }

    /// The tables of a field.
    pub fn tables(self, field: usize) -> Option<impl Iterator<Item = Option<Self>>> {
        let (at, count) = self.entries(field, 4)?;
        Some((0..count).map(move |number| Some(Self { at: offset(self.bytes, at + 4 * number)?, ..self })))
    }

    /// The entries of a field, each two numbers of 64 bits.
    pub fn pairs(self, field: usize) -> Option<impl Iterator<Item = [u64; 2]>> {
        let (at, count) = self.entries(field, 16)?;
        let number = move |at| read(self.bytes, at).map_or(0, u64::from_le_bytes);
        Some((0..count).map(move |entry| [number(at + 16 * entry), number(at + 16 * entry + 8)]))
    }

    /// Where a field lies; `Some(None)`: it is left out.
    fn place(self, field: usize) -> Option<Option<usize>> {
        let back = i32::from_le_bytes(read(self.bytes, self.at)?) as isize;
        let (fields, slot) = (self.at.checked_add_signed(back.checked_neg()?)?, 4 + 2 * field);
        let short = |at| read(self.bytes, at).map(u16::from_le_bytes);
        let offset = if usize::from(short(fields)?) < slot + 2 { 0 } else { short(fields.checked_add(slot)?)? };
        Some((offset > 0).then_some(self.at + usize::from(offset)))
    }

    /// Where the entries of a field begin, and how many there are, each of so many bytes; none where it is left out.
    fn entries(self, field: usize, bytes: usize) -> Option<(usize, usize)> {
        let Some(at) = self.place(field)? else { return Some((0, 0)) };
        let at = offset(self.bytes, at)?;
        let count = u32::from_le_bytes(read(self.bytes, at)?) as usize;
        let end = (at + 4).checked_add(count.checked_mul(bytes)?)?;
        (end <= self.bytes.len()).then_some((at + 4, count))
    }
}

/// Where an offset leads that lies at `at`.
fn offset(bytes: &[u8], at: usize) -> Option<usize> {
    at.checked_add(u32::from_le_bytes(read(bytes, at)?) as usize)
}

fn read<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}
