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
    pub fn of(values: impl Iterator<Item = u64> + Clone) -> Self {
        let (mut least, mut most) = (u64::MAX, 0);
        for value in values.clone() {
            least = least.min(value);
            most = most.max(value);
        }
        let offsets = values.map(|value| value.wrapping_sub(least));
        let offsets = match most.wrapping_sub(least) {
            0 => Offsets::None,
            span if span <= u8::MAX.into() => Offsets::Bytes(offsets.map(|offset| offset as u8).collect()),
            span if span <= u16::MAX.into() => Offsets::Shorts(offsets.map(|offset| offset as u16).collect()),
            span if span <= u32::MAX.into() => Offsets::Words(offsets.map(|offset| offset as u32).collect()),
            _ => Offsets::Whole(offsets.collect()),
        };
        Self { least, most, offsets }
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

#[inline]
fn spread<T, O>(buffer: &mut [T], offsets: &[O], show: impl Fn(&mut T, &O)) {
    buffer.iter_mut().zip(offsets).for_each(|(place, offset)| show(place, offset));
}
