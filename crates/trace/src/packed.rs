//! Whole numbers in memory, as few bytes each as their distance from the least of them needs.
//!
//! Idea: values that were gathered together are near one another, and most take 2 bytes where 8 could hold any.
//! Deliberately absent: any order, and reading one value by itself.

/// Numbers of 64 bits, in their order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Packed {
    least: u64,
    most: u64,
    offsets: Offsets,
}

/// Distances from the least.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Offsets {
    /// All are 0.
    None,
    Bytes(Box<[u8]>),
    Shorts(Box<[u16]>),
    Words(Box<[u32]>),
    Whole(Box<[u64]>),
}

impl Packed {
    /// Those numbers.
    pub fn of(values: &[u64]) -> Self {
        let first = values.first().copied().unwrap_or_default();
        // Most columns of ends are one number, which needs no comparison to tell.
        if values.iter().fold(0, |differ, value| differ | (value ^ first)) == 0 {
            return Self { least: first, most: first, offsets: Offsets::None };
        }
        let (least, most) =
            values.iter().fold((u64::MAX, 0), |(least, most), &value| (least.min(value), most.max(value)));
        let offsets = values.iter().map(|value| value.wrapping_sub(least));
        let offsets = match most - least {
            span if span <= u8::MAX.into() => Offsets::Bytes(offsets.map(|offset| offset as u8).collect()),
            span if span <= u16::MAX.into() => Offsets::Shorts(offsets.map(|offset| offset as u16).collect()),
            span if span <= u32::MAX.into() => Offsets::Words(offsets.map(|offset| offset as u32).collect()),
            _ => Offsets::Whole(offsets.collect()),
        };
        Self { least, most, offsets }
    }

    /// The sum of its `count` numbers.
    pub fn sum(&self, count: usize) -> u128 {
        let offsets = match &self.offsets {
            Offsets::None => 0,
            Offsets::Bytes(offsets) => offsets.iter().map(|&offset| u64::from(offset)).sum::<u64>().into(),
            Offsets::Shorts(offsets) => offsets.iter().map(|&offset| u64::from(offset)).sum::<u64>().into(),
            Offsets::Words(offsets) => offsets.iter().map(|&offset| u64::from(offset)).sum::<u64>().into(),
            Offsets::Whole(offsets) => offsets.iter().map(|&offset| u128::from(offset)).sum(),
        };
        u128::from(self.least) * count as u128 + offsets
    }

    /// The least and the largest.
    pub fn ends(&self) -> [u64; 2] {
        [self.least, self.most]
    }

    /// The number that all of them are, if they are equal.
    pub fn only(&self) -> Option<u64> {
        (self.offsets == Offsets::None).then_some(self.least)
    }

    /// Shows each number and its place in `buffer`.
    #[inline]
    pub fn each<T>(&self, buffer: &mut [T], show: impl Fn(&mut T, u64)) {
        let least = self.least;
        match &self.offsets {
            Offsets::None => buffer.iter_mut().for_each(|place| show(place, least)),
            Offsets::Bytes(offsets) => spread(buffer, offsets, |place, &offset| show(place, least + u64::from(offset))),
            Offsets::Shorts(offsets) => {
                spread(buffer, offsets, |place, &offset| show(place, least + u64::from(offset)))
            }
            Offsets::Words(offsets) => spread(buffer, offsets, |place, &offset| show(place, least + u64::from(offset))),
            Offsets::Whole(offsets) => spread(buffer, offsets, |place, &offset| show(place, least + offset)),
        }
    }
}

impl Packed {
    /// Shows each of its `count` numbers, plus `shift` modulo 2^64.
    #[inline]
    pub fn each_shifted(&self, count: usize, shift: u64, mut show: impl FnMut(u64)) {
        let base = self.least.wrapping_add(shift);
        match &self.offsets {
            Offsets::None => (0..count).for_each(|_| show(base)),
            Offsets::Bytes(offsets) => offsets.iter().for_each(|&offset| show(base.wrapping_add(offset.into()))),
            Offsets::Shorts(offsets) => offsets.iter().for_each(|&offset| show(base.wrapping_add(offset.into()))),
            Offsets::Words(offsets) => offsets.iter().for_each(|&offset| show(base.wrapping_add(offset.into()))),
            Offsets::Whole(offsets) => offsets.iter().for_each(|&offset| show(base.wrapping_add(offset))),
        }
    }
}

#[inline]
fn spread<T, O>(buffer: &mut [T], offsets: &[O], show: impl Fn(&mut T, &O)) {
    buffer.iter_mut().zip(offsets).for_each(|(place, offset)| show(place, offset));
}
