//! A layout out of the stamps themselves, where nobody declared one (`docs/inferred-layouts.md`).
//!
//! Idea: point a comes before point b where at least 99 % of the ids that both saw were at a before they were at b;
//! what is left of this order once everything that follows from the rest is taken away are the edges. Assumes: of each
//! id its first passage at every point. Guarantees: no edge whose two points disagree with it in more than 1 % of their
//! common ids; the same answer whatever the order of points and ids. Deliberately absent: evidence. An
//! inferred order was read off the ticks, so no tick can contradict it.

use tickscope_tick::Place;

use crate::LayoutText;

/// One of so many ids may disagree.
const ONE_IN: u64 = 100;
/// Points beyond this are refused: their pairs would take longer to count than whoever asks will wait.
pub const MOST_POINTS: usize = 512;

/// An id at a point: where on its counter, and on the reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sighting {
    /// Index of the point.
    pub point: usize,
    /// Which counter, and the ticks between which it was read.
    pub counter: (usize, i64, i64),
    /// Between which ticks of the reference; `None`: nothing relates that counter to it.
    pub reference: Option<(i64, i64)>,
}

/// What the ids at some points say of their order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Inferred {
    /// How many ids were looked at.
    pub ids: u64,
    /// Edges, each after those that lead to it.
    pub edges: Vec<InferredEdge>,
    /// Pairs of points that saw the same ids in no order that holds, from the first name to the second.
    pub wandering: Vec<InferredEdge>,
    /// Points that no edge joins.
    pub alone: Vec<String>,
}

/// An order of two points.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InferredEdge {
    /// `node.point` that comes first.
    pub from: String,
    /// `node.point` that follows.
    pub to: String,
    /// Ids that both saw.
    pub common: u64,
    /// Those of them that were at the first point before they were at the second, whatever the clocks did.
    pub agree: u64,
}

impl Sighting {
    /// Returns whether it was surely earlier than `other`.
    pub fn precedes(&self, other: &Self) -> bool {
        if self.counter.0 == other.counter.0 {
            return self.counter.2 < other.counter.1;
        }
        self.reference.zip(other.reference).is_some_and(|(earlier, later)| earlier.1 < later.0)
    }
}

/// Square table by two points.
struct Pairs<T> {
    points: usize,
    cells: Vec<T>,
}

impl<T: Copy + Default> Pairs<T> {
    fn new(points: usize) -> Self {
        Self { points, cells: vec![T::default(); points * points] }
    }

    fn at(&self, from: usize, to: usize) -> T {
        self.cells[from * self.points + to]
    }

    fn at_mut(&mut self, from: usize, to: usize) -> &mut T {
        &mut self.cells[from * self.points + to]
    }

    fn all(&self) -> impl Iterator<Item = (usize, usize)> + use<T> {
        let points = self.points;
        (0..points).flat_map(move |from| (0..points).map(move |to| (from, to)))
    }
}

/// Infers the order of at most [`MOST_POINTS`] `points` from `ids`, each the sightings of one id, one a point at most.
pub fn infer(points: &[Place], ids: &[Vec<Sighting>]) -> Inferred {
    if points.len() > MOST_POINTS {
        return Inferred { alone: points.iter().map(Place::to_string).collect(), ..Inferred::default() };
    }
    // By name, so that the order in which points come does not matter.
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by_key(|&point| points[point].to_string());
    let names: Vec<String> = order.iter().map(|&point| points[point].to_string()).collect();
    let mut rank = vec![0; points.len()];
    order.iter().enumerate().for_each(|(at, &point)| rank[point] = at);

    let (common, agree) = counted(ids, &rank);
    let before = order_of(&common, &agree);
    let reached = closure(&before);
    let direct = direct_share(ids, &rank, &reached);
    let edge = |from: usize, to: usize| InferredEdge {
        from: names[from].clone(),
        to: names[to].clone(),
        common: common.at(from, to),
        agree: agree.at(from, to),
    };
    let is_edge = |&(from, to): &(usize, usize)| {
        let between = (0..names.len()).any(|point| reached.at(from, point) && reached.at(point, to));
        before.at(from, to) && (!between || is_fair(direct.at(from, to), common.at(from, to)))
    };
    let mut edges: Vec<(usize, usize)> = common.all().filter(is_edge).collect();
    let depth = |point: usize| (0..names.len()).filter(|&other| reached.at(other, point)).count();
    edges.sort_by_key(|&(from, to)| (depth(from), from, depth(to), to));
    let joined = |point: usize| edges.iter().any(|&(from, to)| from == point || to == point);
    let alone = (0..names.len()).filter(|&point| !joined(point)).map(|point| names[point].clone()).collect();
    let wanders = |&(from, to): &(usize, usize)| {
        from < to && meet(&common, from, to) && !reached.at(from, to) && !reached.at(to, from)
    };
    let wandering = common.all().filter(wanders).map(|(from, to)| edge(from, to)).collect();
    let edges = edges.iter().map(|&(from, to)| edge(from, to)).collect();
    Inferred { ids: ids.len() as u64, edges, wandering, alone }
}

/// By pair of points: ids that both saw, and those that were surely at the first before the second. On the diagonal:
/// ids at that point.
fn counted(ids: &[Vec<Sighting>], rank: &[usize]) -> (Pairs<u64>, Pairs<u64>) {
    let (mut common, mut agree) = (Pairs::new(rank.len()), Pairs::new(rank.len()));
    for sightings in ids {
        for one in sightings {
            for other in sightings {
                *common.at_mut(rank[one.point], rank[other.point]) += 1;
                *agree.at_mut(rank[one.point], rank[other.point]) += u64::from(one.precedes(other));
            }
        }
    }
    (common, agree)
}

/// Returns whether so many of all are one in a hundred, or more.
fn is_fair(some: u64, all: u64) -> bool {
    some > 0 && u128::from(some) * u128::from(ONE_IN) >= u128::from(all)
}

/// Two points meet where one in a hundred ids of the one that saw fewer was at the other.
fn meet(common: &Pairs<u64>, one: usize, other: usize) -> bool {
    is_fair(common.at(one, other), common.at(one, one).min(common.at(other, other)))
}

/// Which points come before which; none in a circle.
fn order_of(common: &Pairs<u64>, agree: &Pairs<u64>) -> Pairs<bool> {
    let mut before = Pairs::new(common.points);
    for (from, to) in common.all().filter(|&(from, to)| from != to && meet(common, from, to)) {
        let (all, agreeing) = (u128::from(common.at(from, to)), u128::from(agree.at(from, to)));
        *before.at_mut(from, to) = agreeing * u128::from(ONE_IN) >= all * u128::from(ONE_IN - 1);
    }
    let reached = closure(&before);
    for (from, to) in common.all().filter(|&(from, to)| reached.at(to, from)) {
        *before.at_mut(from, to) = false; // ids of different kinds of ways: no order holds for all of them
    }
    before
}

/// Which points some way leads to.
fn closure(before: &Pairs<bool>) -> Pairs<bool> {
    let mut reached = Pairs { points: before.points, cells: before.cells.clone() };
    for through in 0..before.points {
        let onward = reached.cells[through * before.points..][..before.points].to_vec();
        for row in reached.cells.chunks_mut(before.points).filter(|row| row[through]) {
            row.iter_mut().zip(&onward).for_each(|(reached, onward)| *reached |= onward);
        }
    }
    reached
}

/// By pair of points that are in order: ids that both saw, and no point between them.
fn direct_share(ids: &[Vec<Sighting>], rank: &[usize], reached: &Pairs<bool>) -> Pairs<u64> {
    let points = rank.len();
    let after: Vec<Set> = (0..points).map(|point| Set::of((0..points).filter(|&to| reached.at(point, to)))).collect();
    let before: Vec<Set> = (0..points).map(|point| Set::of((0..points).filter(|&at| reached.at(at, point)))).collect();
    let mut direct = Pairs::new(points);
    for sightings in ids {
        let here = Set::of(sightings.iter().map(|sighting| rank[sighting.point]));
        let seen = || sightings.iter().map(|sighting| rank[sighting.point]);
        for (from, to) in seen().flat_map(|from| seen().map(move |to| (from, to))) {
            *direct.at_mut(from, to) += u64::from(reached.at(from, to) && !here.meets(&after[from], &before[to]));
        }
    }
    direct
}

/// Some of at most [`MOST_POINTS`] points.
#[derive(Clone, Default)]
struct Set([u64; MOST_POINTS / 64]);

impl Set {
    fn of(points: impl Iterator<Item = usize>) -> Self {
        let mut set = Self::default();
        points.for_each(|point| set.0[point / 64] |= 1 << (point % 64));
        set
    }

    /// Returns whether some point is in all three.
    fn meets(&self, one: &Self, other: &Self) -> bool {
        self.0.iter().zip(&one.0).zip(&other.0).any(|((this, one), other)| this & one & other != 0)
    }
}

impl Inferred {
    /// The layout that the edges make: a path where they are one chain; `None` without an edge.
    pub fn layout(&self) -> Option<LayoutText> {
        let first = self.edges.first()?;
        let chained = self.edges.windows(2).all(|pair| pair[0].to == pair[1].from);
        let mut text = LayoutText { inferred: true, ..LayoutText::default() };
        if chained {
            text.path = std::iter::once(&first.from).chain(self.edges.iter().map(|edge| &edge.to)).cloned().collect();
        } else {
            text.edges = self.edges.iter().map(|edge| format!("{} > {}", edge.from, edge.to)).collect();
        }
        Some(text)
    }

    /// The same as TOML to paste, with how many ids agree with each edge.
    pub fn toml(&self) -> Option<String> {
        let layout = self.layout()?;
        let mut text = String::from("[layout]\n");
        if layout.path.is_empty() {
            text.push_str("edges = [\n");
            let width = layout.edges.iter().map(String::len).max().unwrap_or(0);
            for (edge, name) in self.edges.iter().zip(&layout.edges) {
                text.push_str(&format!("  \"{name}\",{:pad$}  # {}\n", "", edge.share(), pad = width - name.len()));
            }
        } else {
            text.push_str("path = [\n");
            let width = layout.path.iter().map(String::len).max().unwrap_or(0);
            for (at, name) in layout.path.iter().enumerate() {
                let share = at.checked_sub(1).map_or(String::new(), |edge| {
                    format!("{:pad$}  # {}", "", self.edges[edge].share(), pad = width - name.len())
                });
                text.push_str(&format!("  \"{name}\",{share}\n"));
            }
        }
        text.push_str("]\n");
        Some(text)
    }
}

impl InferredEdge {
    /// Share of the common ids that agree, in hundredths of a percent, rounded down.
    pub fn agreement_bp(&self) -> u64 {
        (u128::from(self.agree) * 10_000 / u128::from(self.common.max(1))) as u64
    }

    fn share(&self) -> String {
        let (whole, rest) = (self.agreement_bp() / 100, self.agreement_bp() % 100);
        let share = if rest == 0 { whole.to_string() } else { format!("{whole}.{rest:02}") };
        format!("{share} % of {} ids", self.common)
    }
}
