//! The shape of a layout: what follows from its edges alone.

use super::{Edge, Match};

/// Facts about each point, by index. Trunk points come first and in topological order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Graph {
    /// Points of the trunk with an edge to this one; none of a branch's point.
    pub predecessors: Vec<Vec<usize>>,
    /// The nearest other point that every way to this one passes; of a branch's point the one it leaves.
    pub dominators: Vec<Option<usize>>,
    /// True if no edge leaves the point; false of a branch's point.
    pub is_end: Vec<bool>,
    /// Edges on the longest route to the point; of a branch's point, to the one it leaves.
    pub depths: Vec<usize>,
    /// By point: whether another one leads to it, over edges and branches.
    leads: Vec<Vec<bool>>,
}

impl Graph {
    /// The shape of `edges` between `trunk` points; `branches`: the point that each further point leaves.
    pub fn new(trunk: usize, edges: &[Edge], branches: &[usize]) -> Self {
        let points = trunk + branches.len();
        let mut graph = Self {
            predecessors: vec![Vec::new(); points],
            dominators: vec![None; points],
            is_end: (0..points).map(|point| point < trunk && edges.iter().all(|edge| edge.from != point)).collect(),
            depths: vec![0; points],
            leads: vec![vec![false; points]; points],
        };
        edges.iter().for_each(|edge| graph.predecessors[edge.to].push(edge.from));
        for point in 0..points {
            let before = if point < trunk { graph.predecessors[point].clone() } else { vec![branches[point - trunk]] };
            let common = before.iter().map(|&before| Some(before)).reduce(|one, other| graph.common(one, other));
            graph.dominators[point] = common.flatten();
            let further = usize::from(point < trunk);
            graph.depths[point] = before.iter().map(|&before| graph.depths[before] + further).max().unwrap_or(0);
            for before in before {
                let earlier = graph.leads[before].clone();
                graph.leads[point].iter_mut().zip(earlier).for_each(|(leads, earlier)| *leads |= earlier);
                graph.leads[point][before] = true;
            }
        }
        graph
    }

    /// Returns whether a way leads from one point to the other.
    pub fn precedes(&self, from: usize, to: usize) -> bool {
        self.leads[to][from]
    }

    /// The nearest point that all ways to both pass.
    fn common(&self, mut one: Option<usize>, mut other: Option<usize>) -> Option<usize> {
        while one != other {
            let later = if one > other { &mut one } else { &mut other };
            *later = later.and_then(|point| self.dominators[point]);
        }
        one
    }
}

/// The points `0..points` in an order in which each comes after its predecessors, else as they are numbered; what is
/// left over lies on a cycle or behind one.
pub fn topological(points: usize, edges: &[Edge]) -> Result<Vec<usize>, Vec<usize>> {
    let mut order = Vec::with_capacity(points);
    let mut left: Vec<usize> = (0..points).collect();
    while !left.is_empty() {
        let free = |point: &usize| !edges.iter().any(|edge| edge.to == *point && left.contains(&edge.from));
        let Some(at) = left.iter().position(free) else { return Err(left) };
        order.push(left.remove(at));
    }
    Ok(order)
}

/// By point: the set of points that share its ids, named by its first member. Range edges alone lead from one set to
/// another.
pub fn id_spaces(points: usize, edges: &[Edge], branches: &[(usize, usize)]) -> Vec<usize> {
    let mut space: Vec<usize> = (0..points).collect();
    let shared = edges.iter().filter(|edge| edge.by == Match::Id).map(|edge| (edge.from, edge.to));
    for (one, other) in shared.chain(branches.iter().copied()) {
        let (kept, gone) = (space[one].min(space[other]), space[one].max(space[other]));
        space.iter_mut().filter(|space| **space == gone).for_each(|space| *space = kept);
    }
    space
}
