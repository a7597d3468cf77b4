//! Which stamps of a trace belong to one passage, where its id passed some point more than once.
//!
//! Every passage that came to a point passed the point's *dominators* too: those that every way of the layout to it
//! passes ([`Layout::way_back`]). On a path these are all points before it. [`Marks`] say of each point how the trace's
//! stamp there was found to belong to the one at its nearest dominator that saw the id: because there was only one, by
//! time, by thread, or not at all. From that follows for any two points whether their stamps are of one passage, and
//! only then the time between them is a duration (`docs/proof.md`, "Passages").

use crate::Layout;

/// Mark of the stamps of one id at one point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// No stamp of the id.
    Unseen,
    /// One stamp, of the passage or passages that came to the point before.
    Once,
    /// Several, told apart by time: no other assignment has each stamp after the one before it.
    ByTime,
    /// Told apart by thread: passages overlap, and each is taken to stay on its thread between the two points.
    ByThread,
    /// Told apart by what the stamps say: which attempt of the id each was.
    ByAttempt,
    /// One stamp, of one of several passages; nothing tells which.
    OnceUntold,
    /// Several stamps that can be assigned in more than one way, or in none.
    SeveralUntold,
}

/// A mark for every point of a layout, in its order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Marks(Box<[Mark]>);

impl Mark {
    const LETTERS: [(Self, char); 7] = [
        (Self::Unseen, '.'),
        (Self::Once, '1'),
        (Self::ByTime, 'n'),
        (Self::ByThread, 't'),
        (Self::ByAttempt, 'a'),
        (Self::OnceUntold, '?'),
        (Self::SeveralUntold, '*'),
    ];

    /// Returns whether it is not known which stamp of the point before belongs to the one here.
    pub fn is_untold(self) -> bool {
        matches!(self, Self::OnceUntold | Self::SeveralUntold)
    }

    /// Returns whether the id has several stamps at the point.
    pub fn is_several(self) -> bool {
        matches!(self, Self::ByTime | Self::ByThread | Self::ByAttempt | Self::SeveralUntold)
    }

    fn is_single(self) -> bool {
        matches!(self, Self::Once | Self::OnceUntold)
    }
}

impl Marks {
    pub(crate) fn new(marks: Vec<Mark>) -> Self {
        Self(marks.into())
    }

    /// The marks written as one letter a point; `None`: another letter is among them.
    pub fn parse(text: &str) -> Option<Self> {
        let mark = |letter| Mark::LETTERS.iter().find(|known| known.1 == letter).map(|known| known.0);
        text.chars().map(mark).collect::<Option<_>>().map(Self)
    }

    /// One letter a point: `.` no stamp, `1` one, `n` several told apart by time, `t` by thread, `a` by attempt, `?`
    /// one and `*` several that cannot be assigned to the stamps before them.
    pub fn text(&self) -> String {
        let letter = |mark: &Mark| Mark::LETTERS.iter().find(|known| known.0 == *mark).map_or('*', |known| known.1);
        self.0.iter().map(letter).collect()
    }

    /// Marks of an id that two things have: a stamp of it is nobody's for certain, wherever it was taken.
    pub(crate) fn ambiguous(points: usize, seen: impl Fn(usize) -> bool) -> Self {
        Self::new((0..points).map(|at| if seen(at) { Mark::SeveralUntold } else { Mark::Unseen }).collect())
    }

    /// By point of the layout.
    pub fn points(&self) -> &[Mark] {
        &self.0
    }

    /// Returns whether the stamps of two points are of one passage, in either order of the points.
    pub(crate) fn together(&self, layout: &Layout, one: usize, other: usize) -> bool {
        let (ways_one, ways_other) = (layout.way_back(one), layout.way_back(other));
        let shared = || ways_one.iter().copied().filter(|point| ways_other.contains(point));
        let meeting = shared().find(|&point| self.at(point) != Mark::Unseen).or_else(|| shared().next());
        let told = |way: &[usize]| !way.iter().take_while(|&&p| Some(p) != meeting).any(|&p| self.at(p).is_untold());
        let single = |point| self.at(point).is_single();
        match meeting {
            Some(meeting) if meeting == one => single(one) || told(&ways_other),
            Some(meeting) if meeting == other => single(other) || told(&ways_one),
            // Each stamp there is one passage's own.
            Some(meeting) if !single(meeting) => told(&ways_one) && told(&ways_other),
            // Copies of one stamp, on one way: two copies are strangers, a copy and what has none are not.
            Some(meeting) if layout.is_chain_between(meeting, one, other) => {
                told(&ways_one) && told(&ways_other) && (single(one) || single(other))
            }
            // Copies of one stamp may have gone several ways, unless nothing after it shows a second one.
            _ => {
                let after = |&point: &usize| meeting.is_none_or(|meeting| layout.precedes(meeting, point));
                (0..self.0.len()).filter(after).all(|point| matches!(self.at(point), Mark::Unseen | Mark::Once))
            }
        }
    }

    fn at(&self, point: usize) -> Mark {
        self.0.get(point).copied().unwrap_or(Mark::SeveralUntold)
    }
}
