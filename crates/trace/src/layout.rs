//! Which points a trace passes, and which pairs of them are durations.
//!
//! A layout is a small graph. The *path* is the order in which an id passes its points; consecutive points are the
//! path's stages, and `end-to-end` runs from the first point to the last. A *branch* leaves the path: the return of a
//! send call is no station of the packet, which is already on its way (measured on a veth pair, the peer's kernel had
//! received the packet before the send call returned in every one of 19 488 cases). So branches may be negative and
//! never enter a sum. Any other two points may be shown *beside*: what somebody published as a stage, say, from a branch's
//! point to the path's; it may be negative, too.
//!
//! Assumes: the first dot of `node.point` ends the node's name (a point's name may hold further dots).
//! Guarantees: a [`Layout`] is valid; whatever is wrong with its description is said once, when it is read.
//! Deliberately absent: files, and any format of them. The caller hands over plain strings.

use tickscope_tick::Place;

use crate::Error;

/// A layout as people write it, before anything about it is known to make sense.
///
/// ```
/// use tickscope_trace::LayoutText;
/// let text = LayoutText {
///     path: ["client.send", "server.recv"].map(String::from).to_vec(),
///     branches: vec!["client.send > client.sent".into()],
///     beside: vec!["client.sent > server.recv".into()],
///     rules: vec![("server.recv".into(), "last".into())],
/// };
/// let layout = text.parse(None).unwrap();
/// let stages: Vec<_> = layout.stages().iter().map(|stage| stage.name.as_str()).collect();
/// assert_eq!(stages[..3], ["client.send>server.recv", "end-to-end", "client.send>client.sent"]);
/// assert_eq!(stages[3], "client.sent>server.recv");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LayoutText {
    /// Points as `node.point`, in the order an id passes them.
    pub path: Vec<String>,
    /// Pairs that leave the path, as `node.point > node.point`; the first is on the path, the second is not.
    pub branches: Vec<String>,
    /// Pairs of any two points of the path or the branches, as `node.point > node.point`: shown beside.
    pub beside: Vec<String>,
    /// `(node.point, rule)` with rule `first`, `last` or `all`; a point without a rule uses `first`.
    pub rules: Vec<(String, String)>,
}

/// Which passages of an id become traces where they part: at the first point that was stamped several times, or where
/// one stamp is followed by several. Further points follow the passage. Order is that of the ticks, not of arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rule {
    /// Of those that came furthest, the one that came here first.
    #[default]
    First,
    /// Of those that came furthest, the one that came here last.
    Last,
    /// Every one, each a trace of its own.
    All,
}

/// A named place in the code of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Point {
    /// Where it is.
    pub place: Place,
    /// What to do with an id that passed here several times.
    pub rule: Rule,
}

/// What a stage means in its layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Between two consecutive points of the path; these sum to the whole.
    Path,
    /// From the path's first point to its last.
    EndToEnd,
    /// From a point of the path to one beside it; may be negative.
    Branch,
    /// Between any two points, for comparison; may be negative, and says nothing about the path.
    Beside,
}

/// The duration between two points for one id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stage {
    /// `node.point>node.point`, or `end-to-end`.
    pub name: String,
    /// Index of the point it starts at, in [`Layout::points`].
    pub from: usize,
    /// Index of the point it ends at.
    pub to: usize,
    /// What it means in the layout.
    pub role: Role,
}

/// Points, and the stages between them; always valid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    points: Vec<Point>,
    path: usize,
    stages: Vec<Stage>,
}

/// The name of the stage from the first point of a path to its last.
pub const END_TO_END: &str = "end-to-end";

impl Layout {
    /// All points: the path's in their order, then those of branches in the order of the branches.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The points of the path, in order; at least two.
    pub fn path(&self) -> &[Point] {
        &self.points[..self.path]
    }

    /// All stages: the path's in order, `end-to-end`, the branches in order, those beside in order.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// The point with that index, the one that an id comes to before it, and so on to the path's first: on the path the
    /// one before, from a branch's point the one that the branch leaves.
    pub(crate) fn way_back(&self, point: usize) -> Vec<usize> {
        let left = |branch: &usize| self.stages.iter().find(|stage| stage.role == Role::Branch && stage.to == *branch);
        let before = |&point: &usize| match point {
            0 => None,
            _ if point < self.path => Some(point - 1),
            _ => left(&point).map(|stage| stage.from),
        };
        std::iter::successors(Some(point), before).collect()
    }
}

impl Point {
    fn parse(text: &str) -> Result<Self, Error> {
        Ok(Self { place: text.parse::<Place>()?, rule: Rule::First })
    }
}

impl LayoutText {
    /// Reads the layout. `known`: the points that exist, as `node.point`; `None` where that is not known yet.
    pub fn parse(&self, known: Option<&[String]>) -> Result<Layout, Error> {
        let mut points = self.parse_path()?;
        let path = points.len();
        let mut stages = path_stages(&points);
        for text in &self.branches {
            let stage = parse_branch(text, &mut points, path)?;
            push_once(&mut stages, stage, "each branch once")?;
        }
        for text in &self.beside {
            let stage = parse_beside(text, &points)?;
            push_once(&mut stages, stage, "each pair once among stages, branches and beside")?;
        }
        self.apply_rules(&mut points)?;
        refuse_unknown(&points, known)?;
        Ok(Layout { points, path, stages })
    }

    fn parse_path(&self) -> Result<Vec<Point>, Error> {
        let mut points: Vec<Point> = Vec::with_capacity(self.path.len());
        for text in &self.path {
            let point = Point::parse(text)?;
            if position(&points, &point).is_some() {
                return Err(duplicate("each point of the path once", &point.place.to_string()));
            }
            points.push(point);
        }
        if points.len() < 2 {
            let found = format!("{} point(s)", points.len());
            return Err(Error::new(
                "a path of at least 2 points",
                found,
                "name the points that an id passes, in order",
            ));
        }
        Ok(points)
    }

    fn apply_rules(&self, points: &mut [Point]) -> Result<(), Error> {
        let mut ruled = vec![false; points.len()];
        for (place, rule) in &self.rules {
            let place = Point::parse(place)?;
            let Some(index) = position(points, &place) else {
                let names: Vec<_> = points.iter().map(|point| point.place.to_string()).collect();
                return Err(unknown("a rule for a point of the layout", &place.place.to_string(), &names));
            };
            if std::mem::replace(&mut ruled[index], true) {
                return Err(duplicate("one rule a point", &place.place.to_string()));
            }
            points[index].rule = rule.parse()?;
        }
        Ok(())
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

fn path_stages(points: &[Point]) -> Vec<Stage> {
    let between = |from: usize| stage_between(points, from, from + 1, Role::Path);
    let mut stages: Vec<_> = (0..points.len().saturating_sub(1)).map(between).collect();
    stages.push(Stage { name: END_TO_END.into(), from: 0, to: points.len() - 1, role: Role::EndToEnd });
    stages
}

fn stage_between(points: &[Point], from: usize, to: usize, role: Role) -> Stage {
    Stage { name: format!("{}>{}", points[from].place.to_string(), points[to].place.to_string()), from, to, role }
}

fn push_once(stages: &mut Vec<Stage>, stage: Stage, expected: &str) -> Result<(), Error> {
    if stages.iter().any(|other| other.name == stage.name) {
        return Err(duplicate(expected, &stage.name));
    }
    stages.push(stage);
    Ok(())
}

fn parse_pair(text: &str, expected: &str, remedy: &str) -> Result<(Point, Point), Error> {
    let Some((from, to)) = text.split_once('>') else {
        return Err(Error::new(expected, format!("'{text}'"), remedy));
    };
    Ok((Point::parse(from)?, Point::parse(to)?))
}

fn parse_beside(text: &str, points: &[Point]) -> Result<Stage, Error> {
    let remedy = "put a '>' between the two points";
    let (from, to) = parse_pair(text, "a pair beside as node.point > node.point", remedy)?;
    let known = |place: &Point| {
        let names = || points.iter().map(|point| point.place.to_string()).collect::<Vec<_>>();
        let expected = "a pair beside of points of the path or the branches";
        position(points, place).ok_or_else(|| unknown(expected, &place.place.to_string(), &names()))
    };
    let (start, end) = (known(&from)?, known(&to)?);
    if start == end {
        let found = format!("'{}' with itself", from.place.to_string());
        return Err(Error::new("a pair beside of two points", found, "name the point to compare it with"));
    }
    Ok(stage_between(points, start, end, Role::Beside))
}

fn parse_branch(text: &str, points: &mut Vec<Point>, path: usize) -> Result<Stage, Error> {
    let remedy = "put a '>' between the point on the path and the point beside it";
    let (from, to) = parse_pair(text, "a branch as node.point > node.point", remedy)?;
    let Some(start) = position(&points[..path], &from) else {
        let names: Vec<_> = points[..path].iter().map(|point| point.place.to_string()).collect();
        return Err(unknown("a branch that starts at a point of the path", &from.place.to_string(), &names));
    };
    if position(&points[..path], &to).is_some() {
        let remedy = "two points of the path are already stages; remove the branch, or the point from the path";
        return Err(Error::new(
            "a branch that ends beside the path",
            format!("'{}' on it", to.place.to_string()),
            remedy,
        ));
    }
    let end = position(points, &to).unwrap_or_else(|| {
        points.push(to);
        points.len() - 1
    });
    Ok(stage_between(points, start, end, Role::Branch))
}

fn position(points: &[Point], place: &Point) -> Option<usize> {
    points.iter().position(|point| point.place == place.place)
}

fn refuse_unknown(points: &[Point], known: Option<&[String]>) -> Result<(), Error> {
    let Some(known) = known else { return Ok(()) };
    let names: Vec<_> = points.iter().map(|point| point.place.to_string()).collect();
    match names.iter().find(|name| !known.contains(name)) {
        Some(name) => Err(unknown("a point that the run has", name, known)),
        None => Ok(()),
    }
}

fn duplicate(expected: &str, name: &str) -> Error {
    Error::new(expected, format!("'{name}' twice"), "remove one of them")
}

fn unknown(expected: &str, found: &str, known: &[String]) -> Error {
    let remedy = match known.iter().min_by_key(|name| edits(found, name)) {
        Some(name) if edits(found, name) <= found.len() / 3 + 1 => format!("did you mean '{name}'?"),
        _ if known.is_empty() => "there is none yet: has the program stamped anything?".into(),
        _ => format!("use one of: {}", known.join(", ")),
    };
    Error::new(expected, format!("'{found}'"), remedy)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &[&str], branches: &[&str], rules: &[(&str, &str)]) -> LayoutText {
        LayoutText {
            path: path.iter().map(|&s| s.into()).collect(),
            branches: branches.iter().map(|&s| s.into()).collect(),
            beside: Vec::new(),
            rules: rules.iter().map(|&(p, r)| (p.into(), r.into())).collect(),
        }
    }

    fn refusal(path: &[&str], branches: &[&str], rules: &[(&str, &str)]) -> String {
        text(path, branches, rules).parse(None).unwrap_err().to_string()
    }

    #[test]
    fn points_and_stages_come_in_path_order_and_then_in_branch_order() {
        let layout = text(&["a.x", "b.y.z", "b.w"], &["b.y.z > b.q", "a.x>a.r", "a.x > b.q"], &[("a.r", "all")]);
        let layout = layout.parse(None).unwrap();
        let points: Vec<_> = layout.points().iter().map(|point| point.place.to_string()).collect();
        assert_eq!(points, ["a.x", "b.y.z", "b.w", "b.q", "a.r"]);
        assert_eq!(layout.path().len(), 3);
        let stages: Vec<_> = layout.stages().iter().map(|s| (s.name.as_str(), s.from, s.to, s.role)).collect();
        assert_eq!(
            stages,
            [
                ("a.x>b.y.z", 0, 1, Role::Path),
                ("b.y.z>b.w", 1, 2, Role::Path),
                ("end-to-end", 0, 2, Role::EndToEnd),
                ("b.y.z>b.q", 1, 3, Role::Branch),
                ("a.x>a.r", 0, 4, Role::Branch),
                ("a.x>b.q", 0, 3, Role::Branch),
            ]
        );
        assert_eq!((layout.points()[1].place.node.as_str(), layout.points()[1].place.point.as_str()), ("b", "y.z"));
        assert_eq!(layout.points()[4].rule, Rule::All);
        assert_eq!([2, 3, 4].map(|point| layout.way_back(point)), [vec![2, 1, 0], vec![3, 1, 0], vec![4, 0]]);
    }

    #[test]
    fn a_pair_beside_joins_any_two_points_and_comes_last() {
        let beside = |pairs: &[&str]| LayoutText {
            beside: pairs.iter().map(|&s| s.into()).collect(),
            ..text(&["a.x", "b.y", "b.z"], &["a.x > a.r"], &[])
        };
        let layout = beside(&["a.r > b.y", "b.z > a.x"]).parse(None).unwrap();
        let stages: Vec<_> = layout.stages().iter().map(|s| (s.name.as_str(), s.from, s.to, s.role)).collect();
        assert_eq!(stages[4..], [("a.r>b.y", 3, 1, Role::Beside), ("b.z>a.x", 2, 0, Role::Beside)]);
        assert_eq!(layout.points().len(), 4);
        for (pairs, says) in [
            (&["a.r > b.q"][..], "points of the path or the branches, found 'b.q'"),
            (&["a.r, b.y"], "a pair beside as node.point > node.point, found 'a.r, b.y'"),
            (&["a.r > a.r"], "found 'a.r' with itself"),
            (&["a.r > b.y", "a.r>b.y"], "'a.r>b.y' twice"),
            (&["a.x > a.r"], "'a.x>a.r' twice"),
        ] {
            let refused = beside(pairs).parse(None).unwrap_err().to_string();
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
            (refusal(path, &["c.z > a.q"], &[]), "starts at a point of the path, found 'c.z'"),
            (refusal(path, &["a.x > b.y"], &[]), "ends beside the path, found 'b.y' on it"),
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
