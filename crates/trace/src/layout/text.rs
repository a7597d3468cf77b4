//! Layouts as people write them, in a run file or in `run.json`.
//!
//! Idea: one struct for both; serde reads it, whatever the format. Guarantees: what is parsed is a valid [`Layout`];
//! what is not is refused with what was expected, found and would help; a key that is not known is refused, since it
//! would make another layout.

use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use tickscope_tick::Place;

use super::graph::{Graph, id_spaces, topological};
use super::{END_TO_END, Edge, Layout, Match, Point, Rule, Stage, StageRole};
use crate::Error;

/// A layout as people write it, before anything about it is known to make sense.
///
/// ```
/// use tickscope_trace::LayoutText;
/// let text = LayoutText {
///     path: ["client.send", "server.recv"].map(String::from).to_vec(),
///     edges: vec!["server.recv > server.stored".into(), "server.recv > client.response".into()],
///     branches: vec!["client.send > client.sent".into()],
///     extra: vec!["client.sent > server.recv".into()],
///     rules: vec![("server.recv".into(), "last".into())],
///     kinds: vec![],
///     inferred: false,
/// };
/// let layout = text.parse(None).unwrap();
/// let stages: Vec<_> = layout.stages().iter().map(|stage| stage.name.as_str()).collect();
/// assert_eq!(stages[..2], ["client.send>server.recv", "server.recv>server.stored"]);
/// assert_eq!(stages[3..5], ["end-to-end: server.stored", "end-to-end: client.response"]);
/// assert_eq!(stages[5..], ["client.send>client.sent", "client.sent>server.recv"]);
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LayoutText {
    /// Points as `node.point`, in the order an id passes them: short for an edge between each two neighbours.
    pub path: Vec<String>,
    /// Edges: `node.point > node.point` by id, `node.point ~ node.point` by range of byte offsets, `node.point +
    /// node.point` from parts to the whole that they become, `node.point / node.point` from a whole to its parts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edges: Vec<String>,
    /// Pairs that leave the trunk, as `node.point > node.point`; the first is on the trunk, the second is not.
    pub branches: Vec<String>,
    /// Extra stages: pairs of any two points, as `node.point > node.point`.
    #[serde(alias = "beside", skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<String>,
    /// `(node.point, rule)` with rule `first`, `last` or `all`; a point without a rule uses `first`.
    #[serde(deserialize_with = "rules")]
    pub rules: Vec<(String, String)>,
    /// Kinds of the ids that it is of; empty: of any. Stamps of others are left out, and counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<i32>,
    /// True if nobody declared it and it was [inferred](crate::infer) from stamps: then a duration against it
    /// contradicts nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inferred: bool,
}

/// Rules as a list of pairs, or as a table from point to rule.
fn rules<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, String)>, D::Error> {
    struct Rules;
    impl<'de> Visitor<'de> for Rules {
        type Value = Vec<(String, String)>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a table of rules by point, or a list of pairs")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            std::iter::from_fn(|| list.next_element().transpose()).collect()
        }
        fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Self::Value, A::Error> {
            let mut rules = std::iter::from_fn(|| table.next_entry().transpose()).collect::<Result<Vec<_>, _>>()?;
            rules.sort();
            Ok(rules)
        }
    }
    from.deserialize_any(Rules)
}

impl LayoutText {
    /// Returns whether it says nothing: no layout was declared.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Reads the layout. `known`: the points that exist, as `node.point`; `None` where that is not known yet.
    pub fn parse(&self, known: Option<&[String]>) -> Result<Layout, Error> {
        let (mut points, edges) = self.parse_trunk()?;
        let trunk = points.len();
        let edge_stages = edges.iter().map(|edge| stage_between(&points, edge.from, edge.to, StageRole::Path));
        let mut stages: Vec<Stage> = edge_stages.collect();
        let mut branches = Vec::new();
        for text in &self.branches {
            let stage = parse_branch(text, &mut points, trunk)?;
            branches.push((stage.from, stage.to));
            push_once(&mut stages, stage, "each branch once")?;
        }
        // A point that several branches lead to is said to leave the trunk where the first of them does.
        let left = |point| branches.iter().find(|branch| branch.1 == point).map_or(0, |branch| branch.0);
        let graph = Graph::new(trunk, &edges, &(trunk..points.len()).map(left).collect::<Vec<_>>());
        stages.splice(edges.len()..edges.len(), whole_stages(&points[..trunk], &graph));
        for text in &self.extra {
            let stage = parse_extra(text, &points)?;
            push_once(&mut stages, stage, "each pair once among stages, branches and extra")?;
        }
        self.apply_rules(&mut points)?;
        refuse_unknown(&points, known)?;
        let spaces = if edges.iter().any(|edge| edge.by != Match::Id) {
            id_spaces(points.len(), &edges, &branches)
        } else {
            vec![0; points.len()] // nothing leads from one id to another
        };
        refuse_links_out_of_scope(&points, &edges, &spaces)?;
        let (kinds, inferred) = (self.kinds.clone(), self.inferred);
        Ok(Layout { points, trunk, edges, stages, graph, spaces, kinds, inferred })
    }

    /// The points of the trunk in topological order, and the edges between them.
    fn parse_trunk(&self) -> Result<(Vec<Point>, Vec<Edge>), Error> {
        let mut points: Vec<Point> = Vec::with_capacity(self.path.len());
        for text in &self.path {
            let point = Point::parse(text)?;
            if position(&points, &point).is_some() {
                return Err(duplicate("each point of the path once", &point.place.to_string()));
            }
            points.push(point);
        }
        if points.len() == 1 || points.is_empty() && self.edges.is_empty() {
            let found = format!("{} point(s)", points.len());
            let remedy = "name the points that an id passes, in order, or write edges";
            return Err(Error::new("a path of at least 2 points", found, remedy));
        }
        let mut edges: Vec<Edge> = (1..points.len()).map(|to| Edge { from: to - 1, to, by: Match::Id }).collect();
        for text in &self.edges {
            let edge = parse_edge(text, &mut points)?;
            if edges.iter().any(|other| (other.from, other.to) == (edge.from, edge.to)) {
                return Err(duplicate("each edge once, the path's included", text));
            }
            edges.push(edge);
        }
        let order = topological(points.len(), &edges).map_err(|left| {
            let names: Vec<_> = left.iter().map(|&point| points[point].place.to_string()).collect();
            let remedy = "remove the edge that leads back";
            Error::new("edges without a cycle", format!("one among {}", names.join(", ")), remedy)
        })?;
        let place = |point: usize| order.iter().position(|&at| at == point).unwrap_or(point);
        edges.iter_mut().for_each(|edge| (edge.from, edge.to) = (place(edge.from), place(edge.to)));
        Ok((order.iter().map(|&point| points[point].clone()).collect(), edges))
    }

    fn apply_rules(&self, points: &mut [Point]) -> Result<(), Error> {
        let mut ruled = vec![false; points.len()];
        for (place, rule) in &self.rules {
            let place = Point::parse(place)?;
            let index = position(points, &place)
                .ok_or_else(|| unknown("a rule for a point of the layout", &place.place.to_string(), &names(points)))?;
            if std::mem::replace(&mut ruled[index], true) {
                return Err(duplicate("one rule a point", &place.place.to_string()));
            }
            points[index].rule = rule.parse()?;
        }
        Ok(())
    }
}

impl Point {
    fn parse(text: &str) -> Result<Self, Error> {
        Ok(Self { place: text.parse::<Place>()?, rule: Rule::First })
    }
}

impl std::str::FromStr for Rule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "first" => Ok(Rule::First),
            "last" => Ok(Rule::Last),
            "all" => Ok(Rule::All),
            _ => Err(unknown("a rule: first, last or all", text, &["first", "last", "all"].map(String::from))),
        }
    }
}

/// The stages from each start to each end that it leads to.
fn whole_stages(trunk: &[Point], graph: &Graph) -> Vec<Stage> {
    let starts: Vec<usize> = (0..trunk.len()).filter(|&point| graph.predecessors[point].is_empty()).collect();
    let ends: Vec<usize> = (0..trunk.len()).filter(|&point| graph.is_end[point]).collect();
    let name = |from: usize, to: usize| match (starts.len(), ends.len()) {
        (1, 1) => END_TO_END.into(),
        (1, _) => format!("{END_TO_END}: {}", trunk[to].place),
        _ => format!("{END_TO_END}: {}>{}", trunk[from].place, trunk[to].place),
    };
    let pairs = starts.iter().flat_map(|&from| ends.iter().map(move |&to| (from, to)));
    let reached = pairs.filter(|&(from, to)| graph.precedes(from, to));
    reached.map(|(from, to)| Stage { name: name(from, to), from, to, role: StageRole::EndToEnd }).collect()
}

fn stage_between(points: &[Point], from: usize, to: usize, role: StageRole) -> Stage {
    Stage { name: format!("{}>{}", points[from].place, points[to].place), from, to, role }
}

fn push_once(stages: &mut Vec<Stage>, stage: Stage, expected: &str) -> Result<(), Error> {
    if stages.iter().any(|other| other.name == stage.name) {
        return Err(duplicate(expected, &stage.name));
    }
    stages.push(stage);
    Ok(())
}

fn parse_pair(text: &str, sign: char, expected: &str, remedy: &str) -> Result<(Point, Point), Error> {
    let Some((from, to)) = text.split_once(sign) else {
        return Err(Error::new(expected, format!("'{text}'"), remedy));
    };
    Ok((Point::parse(from)?, Point::parse(to)?))
}

fn parse_edge(text: &str, points: &mut Vec<Point>) -> Result<Edge, Error> {
    const SIGNS: [(char, Match); 3] = [('~', Match::Range), ('+', Match::FanIn), ('/', Match::FanOut)];
    let (sign, by) = SIGNS.into_iter().find(|(sign, _)| text.contains(*sign)).unwrap_or(('>', Match::Id));
    let remedy = "put a '>' between two points that stamp the same id, a '~' between two that stamp byte offsets, \
                  a '+' between parts and what they become, a '/' between a whole and its parts";
    let (from, to) = parse_pair(text, sign, "an edge as node.point > node.point", remedy)?;
    if from.place == to.place {
        let found = format!("'{}' with itself", from.place);
        return Err(Error::new("an edge of two points", found, "name the point that follows"));
    }
    let mut index = |point: Point| {
        position(points, &point).unwrap_or_else(|| {
            points.push(point);
            points.len() - 1
        })
    };
    Ok(Edge { from: index(from), to: index(to), by })
}

fn parse_extra(text: &str, points: &[Point]) -> Result<Stage, Error> {
    let remedy = "put a '>' between the two points";
    let (from, to) = parse_pair(text, '>', "an extra pair as node.point > node.point", remedy)?;
    let known = |place: &Point| {
        let expected = "an extra pair of points of the path, the edges or the branches";
        position(points, place).ok_or_else(|| unknown(expected, &place.place.to_string(), &names(points)))
    };
    let (start, end) = (known(&from)?, known(&to)?);
    if start == end {
        let found = format!("'{}' with itself", from.place);
        return Err(Error::new("an extra pair of two points", found, "name the point to compare it with"));
    }
    Ok(stage_between(points, start, end, StageRole::Extra))
}

fn parse_branch(text: &str, points: &mut Vec<Point>, trunk: usize) -> Result<Stage, Error> {
    let remedy = "put a '>' between the point on the path and the point that leaves it";
    let (from, to) = parse_pair(text, '>', "a branch as node.point > node.point", remedy)?;
    let Some(start) = position(&points[..trunk], &from) else {
        let expected = "a branch that starts at a point of the path or the edges";
        return Err(unknown(expected, &from.place.to_string(), &names(&points[..trunk])));
    };
    if position(&points[..trunk], &to).is_some() {
        let remedy = "write an edge between the two, or remove the point from the path";
        let found = format!("'{}' on it", to.place);
        return Err(Error::new("a branch that ends off the path and the edges", found, remedy));
    }
    let end = position(points, &to).unwrap_or_else(|| {
        points.push(to);
        points.len() - 1
    });
    Ok(stage_between(points, start, end, StageRole::Branch))
}

/// Rows of traces have one id: that of the points that no link leads to.
fn refuse_links_out_of_scope(points: &[Point], edges: &[Edge], spaces: &[usize]) -> Result<(), Error> {
    let links: Vec<&Edge> = edges.iter().filter(|edge| edge.by != Match::Id).collect();
    let name = |edge: &Edge| format!("'{} {} {}'", points[edge.from].place, edge.by.sign(), points[edge.to].place);
    for (number, edge) in links.iter().enumerate() {
        if spaces[edge.from] == spaces[edge.to] {
            let remedy = "let one id lead from point to point on each side of it, and none across";
            let expected = format!("{} between points that share no id", edge.by.name());
            return Err(Error::new(expected, name(edge), remedy));
        }
        if let Some(other) = links[..number].iter().find(|other| spaces[other.far()] == spaces[edge.far()]) {
            let found = format!("{} and {}", name(other), name(edge));
            let remedy = "leave one of them to a run of its own: whose ids the rows have would be open";
            let expected = format!(
                "one {} to the points of one id",
                edge.by.name().trim_start_matches("an ").trim_start_matches("a ")
            );
            return Err(Error::new(expected, found, remedy));
        }
    }
    let before = |space: usize| links.iter().find(|edge| spaces[edge.far()] == space).map(|edge| spaces[edge.near()]);
    let first = |space: usize| std::iter::successors(Some(space), |&space| before(space)).nth(points.len());
    let roots = (0..points.len()).filter(|&point| spaces[point] == point && before(point).is_none()).count();
    if !links.is_empty() && (roots != 1 || spaces.iter().any(|&space| first(space).is_some())) {
        let remedy = "join them by edges, or leave them to a run of their own";
        return Err(Error::new(
            "range edges, and edges of parts, that lead on from the points of one id",
            format!("{roots} such sets of points"),
            remedy,
        ));
    }
    let ruled = |edge: &&Edge| {
        (0..points.len()).find(|&point| spaces[point] == spaces[edge.far()] && points[point].rule == Rule::All)
    };
    match links.iter().copied().find_map(|edge| Some((edge, ruled(&edge)?))) {
        None => Ok(()),
        Some((edge, point)) => {
            let found = format!("'all' at '{}'", points[point].place);
            let expected = if edge.by == Match::Range {
                "rule first or last beyond a range edge"
            } else {
                "rule first or last at a whole of parts"
            };
            Err(Error::new(expected, found, "use one of them there"))
        }
    }
}

impl Match {
    fn sign(self) -> char {
        match self {
            Match::Id => '>',
            Match::Range => '~',
            Match::FanIn => '+',
            Match::FanOut => '/',
        }
    }

    fn name(self) -> &'static str {
        match self {
            Match::Id => "an edge",
            Match::Range => "a range edge",
            Match::FanIn | Match::FanOut => "an edge of parts",
        }
    }
}

fn names(points: &[Point]) -> Vec<String> {
    points.iter().map(|point| point.place.to_string()).collect()
}

fn position(points: &[Point], place: &Point) -> Option<usize> {
    points.iter().position(|point| point.place == place.place)
}

fn refuse_unknown(points: &[Point], known: Option<&[String]>) -> Result<(), Error> {
    let Some(known) = known else { return Ok(()) };
    match names(points).iter().find(|name| !known.contains(name)) {
        Some(name) => Err(unknown("a point that the run has", name, known)),
        None => Ok(()),
    }
}

fn duplicate(expected: &str, name: &str) -> Error {
    Error::new(expected, format!("'{name}' twice"), "remove one of them")
}

fn unknown(expected: &str, found: &str, known: &[String]) -> Error {
    Error::new(expected, format!("'{found}'"), suggestion(found, known))
}

/// The known name that may have been meant, if one is near.
pub fn nearest<'a>(found: &str, known: &'a [String]) -> Option<&'a String> {
    known.iter().min_by_key(|name| edits(found, name)).filter(|name| edits(found, name) <= found.len() / 3 + 1)
}

/// What helps where a name is none of those known: the nearest, or all.
pub fn suggestion(found: &str, known: &[String]) -> String {
    match nearest(found, known) {
        Some(name) => format!("did you mean '{name}'?"),
        _ if known.is_empty() => "there is none yet: has the program stamped anything?".into(),
        _ => format!("use one of: {}", known.join(", ")),
    }
}

/// Levenshtein's distance: how many bytes to insert, remove or replace.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
