//! A relation for engines without 128-bit integers: straight pieces in 64-bit arithmetic, bounds baked into a pad.

use std::fmt;

/// One straight piece: for every local tick `y` in `[first_b, last_b]`, the exact interval lies within
/// `[a - pad, a + pad]` where `a = base_a + (((y - anchor_b) * mult) >> shift)`, and no step overflows 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Segment {
    /// The first local tick it answers for.
    pub first_b: i64,
    /// The last local tick it answers for.
    pub last_b: i64,
    /// The local tick that differences are taken from; `first_b`, so that they are never negative and `>>` means the
    /// same in every engine.
    pub anchor_b: i64,
    /// The reference tick at the anchor.
    pub base_a: i64,
    /// Reference ticks per local tick, in units of `2^-shift`.
    pub mult: i64,
    /// Bits to shift the product right by.
    pub shift: i32,
    /// What to subtract and add for the guaranteed interval, in reference ticks.
    pub pad: i64,
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sql("tick"))
    }
}

impl Segment {
    /// The expression of `a` in SQL, over a BIGINT column of raw local ticks.
    pub fn sql(&self, column: &str) -> String {
        let Self { anchor_b, base_a, mult, shift, .. } = self;
        format!("({base_a} + ((({column} - {anchor_b}) * {mult}) >> {shift}))")
    }

    /// The reference tick that the segment gives for local tick `y`; `None` outside `[first_b, last_b]`.
    pub fn translate(&self, y: i64) -> Option<i64> {
        let inside = self.first_b <= y && y <= self.last_b;
        inside.then(|| self.base_a + (((y - self.anchor_b) * self.mult) >> self.shift))
    }
}
