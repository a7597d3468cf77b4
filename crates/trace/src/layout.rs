//! Which points an id passes, which of them follow which, and which pairs of them are durations.
//!
//! A layout is a directed graph without cycles. Its *edges* say which point follows which: one point may have several
//! successors (fan-out) and several predecessors (fan-in); points without predecessors are *starts*, points without
//! successors *ends*. Every edge is a stage, and `end-to-end` runs from a start to an end. Points that edges join are
//! the *trunk*. A *branch* leaves it: the return of a send call is no station of the packet, which is already on its
//! way (measured on a veth pair, the peer's kernel had received the packet before the send call returned in every one
//! of 19 488 cases). So branches may be negative and never enter a sum. Any other two points may be an *extra* stage:
//! what somebody published as one, say, from a branch's point to the trunk's; it may be negative, too.
//!
//! Most edges join stamps of one id. *Links* lead to other ids: byte offsets of a stream ([`Match::Range`]), or the
//! whole that several parts become or come from ([`Match::FanIn`], [`Match::FanOut`]).
//!
//! Assumes: the first dot of `node.point` ends the node's name (a point's name may hold further dots).
//! Guarantees: a [`Layout`] is valid; whatever is wrong with its description is reported once, when it is read.
//! Deliberately absent: files. The caller hands over the description, read from whichever format it was written in.

mod graph;
mod text;

use tickscope_tick::Place;

use crate::{Column, Error};

pub use text::{LayoutText, nearest, suggestion};

/// Which passages of an id become traces where they part: at the first point that was stamped several times, or where
/// one stamp is followed by several. Further points follow the passage. Order is that of the ticks, not of arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rule {
    /// The first passage here of those that came furthest.
    #[default]
    First,
    /// The last passage here of those that came furthest.
    Last,
    /// Every one, each a trace of its own.
    All,
}

/// A named place in the code of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Point {
    /// Where it is.
    pub place: Place,
    /// Rule for an id that passed here several times.
    pub rule: Rule,
}

/// How the stamps at the two ends of an edge belong together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Match {
    /// They carry the same id.
    Id,
    /// Their ids are byte offsets of one stream, each the offset at which its bytes end: a stamp with offset `a`
    /// belongs to the stamp with the smallest offset that is not below `a`, of the same kind.
    Range,
    /// Parts become a whole: the parent of a stamp at the first point is the id of the one at the second, of the same
    /// kind.
    FanIn,
    /// A whole comes apart: the parent of a stamp at the second point is the id of the one at the first, of the same
    /// kind.
    FanOut,
}

/// One point follows another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    /// Index of the point it leaves, in [`Layout::points`].
    pub from: usize,
    /// Index of the point it leads to.
    pub to: usize,
    /// How their stamps belong together.
    pub by: Match,
}

impl Edge {
    /// The end whose ids lead on to those of the other: of parts and a whole that of the parts, since each has one
    /// whole.
    pub fn near(&self) -> usize {
        if self.by == Match::FanOut { self.to } else { self.from }
    }

    /// The other end.
    pub fn far(&self) -> usize {
        if self.by == Match::FanOut { self.from } else { self.to }
    }
}

/// Role of a stage in its layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StageRole {
    /// An edge; those along a route sum to the whole of it.
    Path,
    /// From a start to an end.
    EndToEnd,
    /// From a point of the trunk to one that leaves it; may be negative.
    Branch,
    /// Between any two points, for comparison; may be negative, and says nothing about the trunk.
    Extra,
}

/// The duration between two points for one id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stage {
    /// `node.point>node.point`; `end-to-end`, followed by the end's name where there are several ends.
    pub name: String,
    /// Index of the point it starts at, in [`Layout::points`].
    pub from: usize,
    /// Index of the point it ends at.
    pub to: usize,
    /// Role in the layout.
    pub role: StageRole,
}

/// Points, the edges between them, and the stages; always valid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    points: Vec<Point>,
    trunk: usize,
    edges: Vec<Edge>,
    stages: Vec<Stage>,
    graph: graph::Graph,
    /// By point: the first of those that share its ids.
    spaces: Vec<usize>,
    kinds: Vec<i32>,
    inferred: bool,
}

/// The name of the stage from the start to the end, where there is one of each.
pub const END_TO_END: &str = "end-to-end";

impl Layout {
    /// Returns whether nobody declared it: it was inferred from the stamps themselves, and a duration against it
    /// contradicts nothing.
    pub fn is_inferred(&self) -> bool {
        self.inferred
    }

    /// Kinds of the ids that it is of; empty: of any.
    pub fn kinds(&self) -> &[i32] {
        &self.kinds
    }

    /// All points: the trunk's, each after its predecessors and else in the order of the description; then those of
    /// branches in the order of the branches.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The points that edges join; at least two.
    pub fn trunk(&self) -> &[Point] {
        &self.points[..self.trunk]
    }

    /// The edges, in the order of the description.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// All stages: the edges in their order, end-to-end, the branches in order, the extra ones in order.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// The index of the stage of that name, or of the first between two points, as `node.point > node.point`.
    pub fn stage_named(&self, text: &str) -> Result<usize, Error> {
        let bare = |name: &str| name.split_whitespace().collect::<String>();
        let place = |point: usize| self.points[point].place.to_string();
        let ends = |stage: &Stage| format!("{}>{}", place(stage.from), place(stage.to));
        let named = bare(text);
        let by_name = self.stages.iter().position(|stage| bare(&stage.name) == named);
        by_name.or_else(|| self.stages.iter().position(|stage| ends(stage) == named)).ok_or_else(|| {
            let known: Vec<String> = self.stages.iter().map(|stage| stage.name.clone()).collect();
            let has = |place: &str| self.points.iter().any(|point| point.place.to_string() == place);
            let remedy = match (named.split_once('>'), nearest(&named, &known)) {
                (Some((from, to)), _) if has(from) && has(to) => {
                    format!("add \"{from} > {to}\" to extra in [layout]: any two points may be a stage")
                }
                (_, Some(name)) => format!("did you mean '{name}'?"),
                _ => "name one of them".into(),
            };
            Error::new(format!("a stage of the layout ({})", known.join(", ")), format!("'{text}'"), remedy)
        })
    }

    /// The point with that index, then each point that every way to it passes, the nearest first: on a path those
    /// before it, from a branch's point the one that it leaves and what lies before that.
    pub fn way_back(&self, point: usize) -> Vec<usize> {
        let before = |&point: &usize| self.graph.dominators.get(point).copied().flatten();
        std::iter::successors(Some(point).filter(|&point| point < self.points.len()), before).collect()
    }

    /// The stages of one route from a start to an end, first to last: the first in the order of the description.
    pub fn route(&self, whole: &Stage) -> Vec<usize> {
        let (mut at, mut route) = (whole.from, Vec::new());
        let leads = |edge: &Edge| edge.to == whole.to || self.graph.precedes(edge.to, whole.to);
        while at != whole.to {
            let next = self.edges.iter().position(|edge| edge.from == at && leads(edge));
            let Some(next) = next else { return Vec::new() };
            route.push(next);
            at = self.edges[next].to;
        }
        route
    }

    /// Points without a predecessor that lead to a point which another such point leads to as well.
    pub fn joining_starts(&self) -> Vec<&Point> {
        let is_start = |point: &usize| self.graph.predecessors[*point].is_empty();
        let starts: Vec<usize> = (0..self.trunk).filter(is_start).collect();
        let meet = |one: usize, other: usize| {
            (0..self.trunk).any(|point| self.precedes(one, point) && self.precedes(other, point))
        };
        let joins = |&start: &usize| starts.iter().any(|&other| other != start && meet(start, other));
        starts.iter().copied().filter(joins).map(|start| &self.points[start]).collect()
    }

    /// Returns whether an id that passed the points for which `seen` holds came from some start to some end with no
    /// point of that route missing.
    pub fn is_complete(&self, seen: impl Fn(usize) -> bool) -> bool {
        if (0..self.trunk).all(&seen) {
            return true; // most are, and need no memory
        }
        let mut whole = vec![false; self.trunk];
        (0..self.trunk).any(|point| {
            let before = &self.graph.predecessors[point];
            whole[point] = seen(point) && (before.is_empty() || before.iter().any(|&before| whole[before]));
            whole[point] && self.graph.is_end[point]
        })
    }

    /// The same of each row of some traces, one column a point.
    pub fn complete_rows(&self, points: &[Column]) -> Vec<bool> {
        let rows = points.first().map_or(0, Column::len);
        let mut complete = vec![false; rows];
        let mut whole: Vec<Vec<bool>> = Vec::with_capacity(self.trunk);
        for (point, column) in points.iter().enumerate().take(self.trunk) {
            let before = &self.graph.predecessors[point];
            let mut reached = vec![before.is_empty(); rows];
            for &before in before {
                reached.iter_mut().zip(&whole[before]).for_each(|(reached, &before)| *reached |= before);
            }
            match column.parts(0..rows) {
                None => reached.fill(false),
                Some((_, seen)) => reached.iter_mut().zip(seen).for_each(|(reached, &seen)| *reached &= seen),
            }
            if self.graph.is_end[point] {
                complete.iter_mut().zip(&reached).for_each(|(complete, &reached)| *complete |= reached);
            }
            whole.push(reached);
        }
        complete
    }

    /// Returns whether an id passed two points of the trunk, one of which leads to the other, and misses a point on
    /// every route between them.
    pub(crate) fn has_hole(&self, seen: impl Fn(usize) -> bool) -> bool {
        let mut connected = vec![false; self.trunk];
        (0..self.trunk).filter(|&from| seen(from)).any(|from| {
            connected.fill(false);
            connected[from] = true;
            (from + 1..self.trunk).filter(|&to| seen(to)).any(|to| {
                connected[to] = self.graph.predecessors[to].iter().any(|&before| connected[before]);
                !connected[to] && self.graph.precedes(from, to)
            })
        })
    }

    /// Returns whether `meeting`, which every way to both points passes, leads to each of them by one way only.
    pub(crate) fn is_chain_between(&self, meeting: usize, one: usize, other: usize) -> bool {
        let leads = |point: usize, to: usize| point == to || self.graph.precedes(point, to);
        let between = |&point: &usize| (leads(point, one) || leads(point, other)) && !leads(point, meeting);
        let parts = |point: usize| self.edges.iter().filter(|edge| edge.from == point).count() > 1;
        let joins = |point: usize| self.graph.predecessors[point].len() > 1;
        let plain = |point: usize| !joins(point) && (point == one || point == other || !parts(point));
        !parts(meeting) && (0..self.trunk).filter(between).all(plain)
    }

    /// Returns whether a way leads from one point to the other.
    pub(crate) fn precedes(&self, from: usize, to: usize) -> bool {
        self.graph.precedes(from, to)
    }

    /// How many edges the longest route to a point has.
    pub(crate) fn depth(&self, point: usize) -> usize {
        self.graph.depths[point]
    }

    /// Returns whether the same id at both points names the same thing: no link separates them.
    pub fn shares_ids(&self, one: usize, other: usize) -> bool {
        self.spaces[one] == self.spaces[other]
    }

    /// The points that share the ids of `point`.
    pub(crate) fn id_space(&self, point: usize) -> Vec<usize> {
        (0..self.points.len()).filter(|&at| self.shares_ids(at, point)).collect()
    }

    /// Returns whether traces are named by the ids of that point.
    pub fn names_traces(&self, point: usize) -> bool {
        self.shares_ids(point, self.root())
    }

    /// The edges that lead to other ids, each after those that lead to the ids it leads on from.
    pub fn links(&self) -> Vec<Edge> {
        let mut links: Vec<Edge> = self.edges.iter().filter(|edge| edge.by != Match::Id).copied().collect();
        let before =
            |space| links.iter().find(|edge| self.spaces[edge.far()] == space).map(|edge| self.spaces[edge.near()]);
        let steps = |edge: &Edge| std::iter::successors(Some(self.spaces[edge.near()]), |&space| before(space)).count();
        let order: Vec<usize> = links.iter().map(steps).collect();
        let mut numbered: Vec<(usize, Edge)> = order.into_iter().zip(links.drain(..)).collect();
        numbered.sort_by_key(|(steps, _)| *steps);
        numbered.into_iter().map(|(_, edge)| edge).collect()
    }

    /// A point whose ids the rows of traces have.
    pub(crate) fn root(&self) -> usize {
        let beyond = |point: usize| self.edges.iter().any(|e| e.by != Match::Id && self.shares_ids(e.far(), point));
        (0..self.trunk).find(|&point| !beyond(point)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &[&str], branches: &[&str], rules: &[(&str, &str)]) -> LayoutText {
        LayoutText {
            path: path.iter().map(|&s| s.into()).collect(),
            branches: branches.iter().map(|&s| s.into()).collect(),
            rules: rules.iter().map(|&(p, r)| (p.into(), r.into())).collect(),
            ..LayoutText::default()
        }
    }

    fn refusal(path: &[&str], branches: &[&str], rules: &[(&str, &str)]) -> String {
        text(path, branches, rules).parse(None).unwrap_err().to_string()
    }

    #[test]
    fn rows_are_complete_as_each_by_itself() {
        let edges =
            |of: &[&str]| LayoutText { edges: of.iter().map(|&edge| edge.into()).collect(), ..LayoutText::default() };
        let fork = edges(&["a.x > a.y", "a.y > a.z", "a.x > b.y", "b.y > b.z", "b.y > a.z"]);
        for text in [text(&["a.x", "a.y", "b.x"], &["a.y > b.y"], &[]), fork] {
            let layout = text.parse(None).unwrap();
            let points = layout.points().len();
            let column =
                |point: usize| (0..1_i64 << points).map(|row| (row & 1 << point != 0).then_some(row)).collect();
            let columns: Vec<Column> = (0..points).map(column).collect();
            let complete = layout.complete_rows(&columns);
            assert!(complete.contains(&true) && complete.len() == 1 << points);
            for (row, &complete) in complete.iter().enumerate() {
                assert_eq!(complete, layout.is_complete(|point| columns[point].get(row).is_some()), "{row:b}");
            }
            let unseen = vec![Column::nulls(3); points];
            assert_eq!(layout.complete_rows(&unseen), [false; 3]);
        }
    }

    #[test]
    fn points_and_stages_come_in_path_order_and_then_in_branch_order() {
        let layout = text(&["a.x", "b.y.z", "b.w"], &["b.y.z > b.q", "a.x>a.r", "a.x > b.q"], &[("a.r", "all")]);
        let layout = layout.parse(None).unwrap();
        let points: Vec<_> = layout.points().iter().map(|point| point.place.to_string()).collect();
        assert_eq!(points, ["a.x", "b.y.z", "b.w", "b.q", "a.r"]);
        assert_eq!(layout.trunk().len(), 3);
        let stages: Vec<_> = layout.stages().iter().map(|s| (s.name.as_str(), s.from, s.to, s.role)).collect();
        assert_eq!(
            stages,
            [
                ("a.x>b.y.z", 0, 1, StageRole::Path),
                ("b.y.z>b.w", 1, 2, StageRole::Path),
                ("end-to-end", 0, 2, StageRole::EndToEnd),
                ("b.y.z>b.q", 1, 3, StageRole::Branch),
                ("a.x>a.r", 0, 4, StageRole::Branch),
                ("a.x>b.q", 0, 3, StageRole::Branch),
            ]
        );
        assert_eq!((layout.points()[1].place.node.as_str(), layout.points()[1].place.point.as_str()), ("b", "y.z"));
        assert_eq!(layout.points()[4].rule, Rule::All);
        assert_eq!([2, 3, 4].map(|point| layout.way_back(point)), [vec![2, 1, 0], vec![3, 1, 0], vec![4, 0]]);
    }

    #[test]
    fn an_extra_pair_joins_any_two_points_and_comes_last() {
        let extra = |pairs: &[&str]| LayoutText {
            extra: pairs.iter().map(|&s| s.into()).collect(),
            ..text(&["a.x", "b.y", "b.z"], &["a.x > a.r"], &[])
        };
        let layout = extra(&["a.r > b.y", "b.z > a.x"]).parse(None).unwrap();
        let stages: Vec<_> = layout.stages().iter().map(|s| (s.name.as_str(), s.from, s.to, s.role)).collect();
        assert_eq!(stages[4..], [("a.r>b.y", 3, 1, StageRole::Extra), ("b.z>a.x", 2, 0, StageRole::Extra)]);
        assert_eq!(layout.points().len(), 4);
        for (pairs, says) in [
            (&["a.r > b.q"][..], "points of the path, the edges or the branches, found 'b.q'"),
            (&["a.r, b.y"], "an extra pair as node.point > node.point, found 'a.r, b.y'"),
            (&["a.r > a.r"], "found 'a.r' with itself"),
            (&["a.r > b.y", "a.r>b.y"], "'a.r>b.y' twice"),
            (&["a.x > a.r"], "'a.x>a.r' twice"),
        ] {
            let refused = extra(pairs).parse(None).unwrap_err().to_string();
            assert!(refused.contains(says), "{refused:?} lacks {says:?}");
        }
    }

    #[test]
    fn a_typo_is_answered_with_the_closest_known_name() {
        let known = ["client.send", "server.recv"].map(String::from);
        let layout = text(&["client.sned", "server.recv"], &[], &[]);
        assert_eq!(
            layout.parse(Some(&known)).unwrap_err().to_string(),
            "expected a point that the run has, found 'client.sned'; did you mean 'client.send'?"
        );
        let none = layout.parse(Some(&[])).unwrap_err().to_string();
        assert!(none.contains("has the program stamped anything"), "{none}");
        let far = text(&["gateway.forwarded", "server.recv"], &[], &[]).parse(Some(&known)).unwrap_err().to_string();
        assert!(far.ends_with("use one of: client.send, server.recv"), "{far}");
        assert!(refusal(&["a.x", "a.y"], &[], &[("a.x", "frist")]).ends_with("did you mean 'first'?"));
    }

    #[test]
    fn every_wrong_layout_is_refused_with_what_was_found() {
        let path = &["a.x", "b.y"];
        for (refused, says) in [
            (refusal(&[], &[], &[]), "found 0 point(s)"),
            (refusal(&["a.x"], &[], &[]), "at least 2 points, found 1"),
            (refusal(&["a.x", "b.y", "a.x"], &[], &[]), "'a.x' twice"),
            (refusal(path, &["c.z > a.q"], &[]), "starts at a point of the path or the edges, found 'c.z'"),
            (refusal(path, &["a.x > b.y"], &[]), "ends off the path and the edges, found 'b.y' on it"),
            (refusal(path, &["a.x > a.q", "a.x > a.q"], &[]), "'a.x>a.q' twice"),
            (refusal(path, &["a.x a.q"], &[]), "found 'a.x a.q'"),
            (refusal(path, &[], &[("c.z", "last")]), "a rule for a point of the layout, found 'c.z'"),
            (refusal(path, &[], &[("a.x", "last"), ("a.x", "all")]), "one rule a point, found 'a.x' twice"),
            (refusal(path, &[], &[("a.x", "middle")]), "first, last or all, found 'middle'"),
        ] {
            assert!(refused.contains(says), "{refused:?} lacks {says:?}");
        }
    }

    #[test]
    fn a_point_that_is_not_node_dot_point_is_refused_and_the_longest_name_is_not() {
        let long = "n".repeat(tickscope_tick::NAME_BYTES);
        assert!(text(&[&format!("{long}.{long}"), "b.y"], &[], &[]).parse(None).is_ok());
        for bad in ["", "x", ".x", "a.", "a b.x", "a.x>b.y", "ä.x", &format!("{long}n.x"), &format!("a.{long}n")] {
            let refused = refusal(&[bad, "b.y"], &[], &[]);
            assert!(refused.contains("a point as node.point") && refused.contains(bad), "{refused}");
        }
    }
}
