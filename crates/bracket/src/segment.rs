//! A clock map for engines without 128-bit integers: straight pieces in 64-bit arithmetic, bounds baked into a pad.

use std::fmt;

use crate::envelope::{Bounds, Envelope, ceil, floor};
use crate::evidence::Frame;
use crate::{Cone, Finding};

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
    /// Ticks of the reference to subtract and add for the guaranteed interval.
    pub pad: i64,
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sql("tick"))
    }
}

impl Segment {
    /// The expression of `a` in SQL, over a BIGINT column of raw local ticks. The anchor stands in brackets of its own,
    /// since `--` begins a comment.
    pub fn sql(&self, column: &str) -> String {
        let Self { anchor_b, base_a, mult, shift, .. } = self;
        format!("({base_a} + ((({column} - ({anchor_b})) * {mult}) >> {shift}))")
    }

    /// The reference tick that the segment gives for local tick `y`; `None` outside `[first_b, last_b]`.
    pub fn translate(&self, y: i64) -> Option<i64> {
        let inside = self.first_b <= y && y <= self.last_b;
        inside.then(|| self.base_a + (((y - self.anchor_b) * self.mult) >> self.shift))
    }
}

/// Segments from `first` to `last`, both ticks of `frame` in reach; none where `last < first`.
pub(crate) fn cover(envelope: &Envelope, frame: Frame, first: i64, last: i64) -> Result<Vec<Segment>, Finding> {
    let mut segments = Vec::new();
    let mut open = vec![(first, last)];
    while let Some((first, last)) = open.pop() {
        if last < first {
            continue;
        }
        match Chord::fit(envelope, first, last) {
            Some(chord) => segments.push(chord.in_frame(frame)?),
            None => {
                let middle = first + (last - first) / 2;
                open.extend([(middle + 1, last), (first, middle)]);
            }
        }
    }
    Ok(segments)
}

/// A straight piece in the frame of an envelope.
struct Chord {
    first: i64,
    last: i64,
    base: i128,
    mult: i64,
    shift: u32,
    pad: i128,
}

/// A pad may exceed the largest half-width by this many ticks, which rounding takes, or by one part in
/// [`SLACK_PARTS`] for the bends of the middle, whichever is more.
const SLACK_TICKS: i128 = 2;
const SLACK_PARTS: i128 = 50;

/// Bounds and lines here count units of 2^-61 reference ticks, so that the middle is exact.
const HALVES: u32 = Cone::FRACTION_BITS + 1;

impl Chord {
    /// The piece from `first` to `last`, if its pad stays tight and its products within 64 bits.
    fn fit(envelope: &Envelope, first: i64, last: i64) -> Option<Self> {
        let length = i128::from(last) - i128::from(first);
        let rise = envelope.at(last).doubled_middle() - envelope.at(first).doubled_middle();
        let (mult, shift) = multiplier(rise, length)?;
        let line = |y: i64| ((i128::from(y) - i128::from(first)) * i128::from(mult)) << (HALVES - shift);
        let bounds: Vec<(i64, Bounds)> = envelope.bends(first, last).into_iter().map(|y| (y, envelope.at(y))).collect();
        let above_lo = bounds.iter().map(|&(y, bounds)| line(y) - 2 * bounds.lo).max()?;
        let below_hi = bounds.iter().map(|&(y, bounds)| 2 * bounds.hi - line(y)).max()?;
        let half_width = bounds.iter().map(|(_, bounds)| half_width(*bounds)).max()?;
        let (base, pad) = centred(above_lo, below_hi);
        let tight = pad <= half_width + SLACK_TICKS.max(half_width / SLACK_PARTS);
        tight.then_some(Self { first, last, base, mult, shift, pad })
    }

    fn in_frame(&self, frame: Frame) -> Result<Segment, Finding> {
        let first_b = frame.local + self.first;
        let beyond = Finding::Unrepresentable { tick: first_b };
        let rise = (i128::from(self.last - self.first) * i128::from(self.mult)) >> self.shift;
        let whole = |ticks: i128| frame.reference(ticks).ok_or(beyond);
        whole(self.base - self.pad)?;
        whole(self.base + rise + self.pad)?;
        Ok(Segment {
            first_b,
            last_b: frame.local + self.last,
            anchor_b: first_b,
            base_a: whole(self.base)?,
            mult: self.mult,
            shift: self.shift as i32,
            pad: i64::try_from(self.pad).map_err(|_| beyond)?,
        })
    }
}

/// `rise / length` with as many fraction bits as leave `length` times it within 63 bits: the multiplier and the bits.
/// `rise` counts units of 2^-61.
fn multiplier(rise: i128, length: i128) -> Option<(i64, u32)> {
    let slope = rise.checked_div(length).unwrap_or(0);
    let rounded = |shift: u32| (slope >> (HALVES - shift), shift);
    let fits = |&(mult, _): &(i128, u32)| mult * length.max(1) <= i128::from(i64::MAX);
    let (mult, shift) = (0..=HALVES).rev().map(rounded).find(fits)?;
    Some((i64::try_from(mult).ok()?, shift))
}

/// The whole base around which the line's floor needs the smallest pad, and that pad, both in ticks.
///
/// `floor(line)` lies in `(line - 1, line]`: so `pad >= base + above_lo` keeps the lower bound, and
/// `pad >= below_hi - base + 1` the upper one.
fn centred(above_lo: i128, below_hi: i128) -> (i128, i128) {
    let one = 1i128 << HALVES;
    let ceil = |fixed: i128| -(-fixed >> HALVES);
    let base = (below_hi + one - above_lo + one) >> (HALVES + 1);
    let pad = ceil((base << HALVES) + above_lo).max(ceil(below_hi - (base << HALVES) + one));
    (base, pad)
}

/// Half the width of the interval in whole ticks, rounded up.
fn half_width(bounds: Bounds) -> i128 {
    (ceil(bounds.hi) - floor(bounds.lo) + 1) >> 1
}
