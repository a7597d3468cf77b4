//! The intersection of all cones: the exact lower and upper bound at any tick (`docs/proof.md`, "The envelopes").
//!
//! `lo(y)` is the largest of `l_k + s * (y - b_k)`, `s` the slowest slope for brackets at or before `y` and the fastest
//! for brackets after it; `hi(y)` mirrored. Between two neighbouring ticks of evidence each bound is made of two
//! straight lines, one from the brackets before and one from those after: a [`Piece`]. The pieces are kept where any
//! line changes, so a question is one binary search and one cache line.

use crate::Cone;
use crate::evidence::Point;

/// Bounds in units of 2^-60 reference ticks ([`Cone::FRACTION_BITS`]), from the frame's first reference tick.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Bounds {
    pub lo: i128,
    pub hi: i128,
}

/// The lines that bound ticks from one start to the next: their values at local tick 0 of the frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Piece {
    /// Through the brackets at or before: slowest slope below, fastest above.
    past: Bounds,
    /// Through the brackets after: fastest slope below, slowest above.
    coming: Bounds,
}

/// Ticks of the frame in which each bound is one straight line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stretch {
    pub first: i64,
    pub last: i64,
    /// Of the lower and of the upper bound.
    pub slopes: [i128; 2],
}

/// No bracket bounds this side. Lines with brackets stay within 2^124 of zero plus rounding at every tick in reach, and
/// this one beyond 2^125, so it never wins; and it leaves room to add a slope times a distance.
const NOTHING: Bounds = Bounds { lo: -(1 << 126), hi: 1 << 126 };

/// The exact bounds at every tick in reach of the frame's first.
#[derive(Clone, Hash, Debug)]
pub(crate) struct Envelope {
    cone: Cone,
    /// Where each piece begins, from the first local tick; the first begins before every tick.
    starts: Vec<i64>,
    pieces: Vec<Piece>,
}

/// A tick of evidence at which the lower bound exceeds the upper.
pub(crate) struct EmptyAt {
    pub at: i64,
    pub bounds: Bounds,
}

impl Envelope {
    /// The envelope of `points`, sorted by `at`; an error if it is empty anywhere.
    ///
    /// The difference of a lower and an upper cone grows up to the first of their two ticks, is constant between them
    /// and falls after, so a contradiction of any two brackets shows at the tick of either: checking those is exact.
    pub fn new(points: &[Point], cone: Cone) -> Result<Self, EmptyAt> {
        let groups: Vec<&[Point]> = points.chunk_by(|a, b| a.at == b.at).collect();
        let mut envelope = Self { cone, starts: Vec::new(), pieces: Vec::new() };
        let mut past = NOTHING;
        let coming = running_from_the_end(&groups, cone);
        envelope.begin(i64::MIN, Piece { past, coming: coming[0] });
        for (group, &coming) in groups.iter().zip(&coming[1..]) {
            past = group.iter().fold(past, |past, point| past.narrowed(point, cone.slowest(), cone.fastest()));
            let (at, piece) = (group[0].at, Piece { past, coming });
            let bounds = piece.at(at, cone);
            if bounds.is_empty() {
                return Err(EmptyAt { at, bounds });
            }
            envelope.begin(at, piece);
        }
        Ok(envelope)
    }

    fn begin(&mut self, start: i64, piece: Piece) {
        if self.pieces.last() != Some(&piece) {
            self.starts.push(start);
            self.pieces.push(piece);
        }
    }

    /// The bounds at a tick of the frame, which must be in reach.
    #[inline]
    pub fn at(&self, y: i64) -> Bounds {
        self.pieces[self.piece_of(y)].at(y, self.cone)
    }

    /// The bounds at two ticks of the frame, both in reach, `last` not before `first`: no search where they are near
    /// each other, and near the tick that was asked for before, which `near` holds.
    #[inline]
    pub fn ends(&self, first: i64, last: i64, near: &mut usize) -> [Bounds; 2] {
        let piece = self.piece_near(first, *near);
        *near = piece;
        let begins_between = self.starts.get(piece + 1).is_some_and(|&start| start <= last);
        let last_piece = if begins_between { self.piece_of(last) } else { piece };
        [self.pieces[piece].at(first, self.cone), self.pieces[last_piece].at(last, self.cone)]
    }

    /// The stretch around a tick of the frame, near the tick that `near` was left at.
    pub fn stretch(&self, y: i64, near: usize) -> Stretch {
        let piece = self.piece_near(y, near);
        let [first, last] = [self.starts[piece], self.starts.get(piece + 1).map_or(i64::MAX, |&next| next - 1)];
        self.pieces[piece].stretch(y, [first, last], self.cone)
    }

    /// The first tick at which the upper bound exceeds `target`, in units of 2^-60; unlimited by any reach.
    pub fn first_above(&self, target: i128) -> i128 {
        let piece = self.last_piece(|piece, start| piece.at(start, self.cone).hi <= target);
        let past = (target - piece.past.hi).div_euclid(self.cone.fastest()) + 1;
        past.max((target - piece.coming.hi).div_euclid(self.cone.slowest()) + 1)
    }

    /// The first tick at which the lower bound is at least `target`.
    pub fn first_reaching(&self, target: i128) -> i128 {
        let piece = self.last_piece(|piece, start| piece.at(start, self.cone).lo < target);
        let past = -(piece.past.lo - target).div_euclid(self.cone.slowest());
        past.min(-(piece.coming.lo - target).div_euclid(self.cone.fastest()))
    }

    /// The last piece at whose start a condition still holds, one that ceases once; the first before that.
    fn last_piece(&self, holds: impl Fn(&Piece, i64) -> bool) -> &Piece {
        let (mut with, mut without) = (0, self.pieces.len());
        while without - with > 1 {
            let middle = with + (without - with) / 2;
            if holds(&self.pieces[middle], self.starts[middle]) { with = middle } else { without = middle }
        }
        &self.pieces[with]
    }

    /// The piece of a tick, looked for first in the one `near` and the one after it.
    #[inline]
    fn piece_near(&self, y: i64, near: usize) -> usize {
        let holds = |piece: usize| {
            let next = self.starts.get(piece + 1);
            self.starts.get(piece).is_some_and(|&start| start <= y) && next.is_none_or(|&start| y < start)
        };
        [near, near + 1].into_iter().find(|&piece| holds(piece)).unwrap_or_else(|| self.piece_of(y))
    }

    #[inline]
    fn piece_of(&self, y: i64) -> usize {
        self.starts.partition_point(|&start| start <= y).saturating_sub(1)
    }

    /// All ticks within `[from, to]` next to which a bound bends, and both ends: between two neighbours each bound is
    /// straight.
    pub fn bends(&self, from: i64, to: i64) -> Vec<i64> {
        let (first, last) = (self.piece_of(from), self.piece_of(to));
        let mut bends = vec![from, to];
        for (piece, &start) in self.pieces[first..=last].iter().zip(&self.starts[first..=last]) {
            bends.push(start);
            bends.extend(piece.crossings(self.cone.width()));
        }
        bends.retain(|&y| from <= y && y <= to);
        bends.sort_unstable();
        bends.dedup();
        bends
    }

    /// The ticks of all evidence that makes up a bound anywhere, in order.
    pub fn evidence(&self) -> impl Iterator<Item = i64> {
        // The first piece lies before all evidence.
        self.starts.iter().skip(1).copied()
    }

    pub fn cone(&self) -> Cone {
        self.cone
    }
}

/// For each position, the lines through the brackets of the groups from there on.
fn running_from_the_end(groups: &[&[Point]], cone: Cone) -> Vec<Bounds> {
    let mut running = vec![NOTHING; groups.len() + 1];
    for (position, group) in groups.iter().enumerate().rev() {
        let narrow = |all: Bounds, point: &Point| all.narrowed(point, cone.fastest(), cone.slowest());
        running[position] = group.iter().fold(running[position + 1], narrow);
    }
    running
}

impl Bounds {
    /// These lines and those through `point`, with these slopes below and above.
    fn narrowed(self, point: &Point, slope_lo: i128, slope_hi: i128) -> Self {
        let line = |value: i64, slope: i128| (i128::from(value) << Cone::FRACTION_BITS) - slope * i128::from(point.at);
        let lo = point.before.map_or(self.lo, |before| self.lo.max(line(before, slope_lo)));
        let hi = point.after.map_or(self.hi, |after| self.hi.min(line(after, slope_hi)));
        Self { lo, hi }
    }

    pub fn is_empty(self) -> bool {
        self.lo > self.hi
    }

    /// Twice the middle, exactly.
    #[inline]
    pub fn doubled_middle(self) -> i128 {
        self.lo + self.hi
    }
}

impl Piece {
    #[inline]
    fn at(&self, y: i64, cone: Cone) -> Bounds {
        let (slow, fast) = (cone.slowest() * i128::from(y), cone.fastest() * i128::from(y));
        Bounds {
            lo: (self.past.lo + slow).max(self.coming.lo + fast),
            hi: (self.past.hi + fast).min(self.coming.hi + slow),
        }
    }

    /// The ticks around `y`, within `first` and `last`, in which neither its two lower nor its two upper lines cross.
    fn stretch(&self, y: i64, [mut first, mut last]: [i64; 2], cone: Cone) -> Stretch {
        let [slow, fast] = [cone.slowest(), cone.fastest()];
        let apart = [self.past.lo - self.coming.lo, self.coming.hi - self.past.hi];
        let slopes = [[slow, fast], [fast, slow]];
        let slopes = std::array::from_fn(|side| {
            // The line of the brackets before bounds up to there, that of those after from the next tick on.
            let Some(crossing) = apart[side].checked_div_euclid(cone.width()) else { return slow };
            let crossing = crossing.clamp(i64::MIN.into(), (i64::MAX - 1).into()) as i64;
            if y <= crossing {
                last = last.min(crossing);
                slopes[side][0]
            } else {
                first = first.max(crossing + 1);
                slopes[side][1]
            }
        });
        Stretch { first, last, slopes }
    }

    /// The whole ticks on both sides of where its two lower, and its two upper, lines cross.
    fn crossings(&self, width: i128) -> impl Iterator<Item = i64> {
        let apart = [self.past.lo - self.coming.lo, self.coming.hi - self.past.hi];
        let crossing = move |apart: i128| apart.checked_div_euclid(width).and_then(|y| i64::try_from(y).ok());
        apart.into_iter().filter_map(crossing).flat_map(|y| [y, y.saturating_add(1)])
    }
}

/// Rounds a fixed-point bound down to whole ticks.
#[inline]
pub(crate) fn floor(fixed: i128) -> i128 {
    fixed >> Cone::FRACTION_BITS
}

/// Rounds a fixed-point bound up to whole ticks.
#[inline]
pub(crate) fn ceil(fixed: i128) -> i128 {
    -(-fixed >> Cone::FRACTION_BITS)
}
