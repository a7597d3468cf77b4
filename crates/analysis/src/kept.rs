//! What the figures of a point cover: which of its stamps its policy kept.
//!
//! Idea: what a policy leaves out was never to be there, so it is neither lost nor missing. Assumes: the channels' rows
//! and the events of switches. Guarantees: every point of the layout one of whose channels leaves stamps out, or was
//! switched, has a line. Deliberately absent: counts a period ([`crate::CountedPoint`]).

use std::collections::BTreeMap;

use serde::Serialize;
use tickscope_store::{Channel, Choice, Event, Policy, Run, kept_stamps, policy_text};
use tickscope_tick::{Place, counted};
use tickscope_trace::{KeptStamps, Layout, Match};

use crate::error::Error;
use crate::reach::{self, Reach};
use crate::unused_rules::unused_rules;

/// A policy of a point of the layout, and how many stamps of it there are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct KeptPolicy {
    /// The point.
    pub point: String,
    /// Its policy with its parameter; `switched`: it keeps all now, and may not have done so before.
    pub policy: String,
    /// Channels that have it.
    pub channels: u64,
    /// Stamps of theirs that are stored; under `every` those alone that it kept.
    pub kept: i64,
    /// Stamps under `every`, kept or not; absent: not counted.
    pub seen: Option<i64>,
    /// Stamps under `count`; absent: none.
    pub counted: Option<i64>,
    /// Not every stamp was to be kept.
    pub leaves_out: bool,
}

/// What the policies of a layout's points leave out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// Policies of points, in the order of the layout; those alone that leave stamps out.
    pub policies: Vec<KeptPolicy>,
    /// What that means for the figures, a sentence each.
    pub lines: Vec<String>,
    /// What does not fit together, a sentence each.
    pub warnings: Vec<String>,
    /// Rules of the run that had no effect, a sentence each ([`Kept::of_run`]).
    pub unused: Vec<String>,
    /// All points keep the same ids, and did from the start: a stamp that a trace lacks is a loss.
    pub alike: bool,
    /// Points that may have kept one stamp of an id and left out another, with their policies ([`Kept::of_run`]).
    pub thinned: Vec<String>,
}

impl Kept {
    /// What the run keeps of the layout's points.
    pub fn of_run(run: &Run, layout: &Layout, channels: &[Channel], events: &[Event]) -> Result<Self, Error> {
        let places = layout.points().iter().map(|point| &point.place);
        let thinned = run.thinned_points(places, channels, events)?;
        let unused = unused_rules(run)?;
        let mut reaches = BTreeMap::new();
        for place in layout.points().iter().map(|point| &point.place) {
            reaches.extend(Reach::of(run, place, channels)?.map(|reach| (place.to_string(), reach)));
        }
        Ok(Self { thinned, unused, ..Self::with(layout, channels, events, &reaches) })
    }

    /// What the channels of the layout's points keep.
    pub fn of(layout: &Layout, channels: &[Channel], events: &[Event]) -> Self {
        Self::with(layout, channels, events, &BTreeMap::new())
    }

    /// The same, and how far back what points keep until asked for reaches.
    fn with(layout: &Layout, channels: &[Channel], events: &[Event], reaches: &BTreeMap<String, Reach>) -> Self {
        let places: Vec<&Place> = layout.points().iter().map(|point| &point.place).collect();
        let all: Vec<KeptPolicy> = places.iter().flat_map(|place| policies(place, channels)).collect();
        let alike = alike(&all) && !events.iter().any(|event| places.iter().any(|place| event.is_switch_of(place)));
        let policies: Vec<KeptPolicy> = all.into_iter().filter(|one| one.leaves_out).collect();
        let mut lines: Vec<String> = policies.iter().filter_map(|one| line(one, reaches.get(&one.point))).collect();
        lines.extend(chosen_ids(&policies));
        lines.extend(
            places
                .iter()
                .flat_map(|place| self::policies(place, channels))
                .filter_map(|one| counted_before(&one).map(|text| text + COUNTS_SAY)),
        );
        lines.extend(places.iter().filter_map(|place| switches(place, events)));
        let mut warnings = warnings(layout, &policies);
        warnings.extend(offsets_left_out(layout, channels, events));
        let kept = policies.iter().filter(|one| policy_of(one) == Some(Policy::Keep));
        let kept = kept.filter_map(|one| Some((one.point.as_str(), one.policy.as_str(), reaches.get(&one.point)?)));
        warnings.extend(reach::warnings(kept));
        Self { policies, lines, warnings, unused: Vec::new(), alike, thinned: Vec::new() }
    }

    /// All notes: first policies that do not fit together, then rules without effect, then what the figures cover.
    pub fn notes(&self) -> impl Iterator<Item = &String> {
        self.warnings.iter().chain(&self.unused).chain(&self.lines)
    }

    /// Returns whether a policy of the point leaves stamps out, so that ids which lack one there may be no loss.
    pub fn may_excuse(&self, point: &str) -> bool {
        !self.alike && self.policies.iter().any(|one| one.point == point)
    }
}

/// Where the counts are printed; nothing in their own output.
const COUNTS_SAY: &str = "; tickscope show RUN --counts says when";

fn policies(place: &Place, channels: &[Channel]) -> Vec<KeptPolicy> {
    let mut all: BTreeMap<String, KeptPolicy> = BTreeMap::new();
    for channel in channels.iter().filter(|channel| channel.is_at(place)) {
        let policy = policy_text(channel);
        let one = all.entry(policy.clone()).or_insert_with(|| KeptPolicy {
            point: place.to_string(),
            policy,
            channels: 0,
            kept: 0,
            seen: None,
            counted: None,
            leaves_out: !channel.keeps_all(),
        });
        one.channels += 1;
        // Stamps of a policy before are no part of those seen under `every`; older files do not count them apart.
        let kept = channel.kept.filter(|_| channel.policy == Policy::Every.name());
        one.kept = one.kept.saturating_add(kept.unwrap_or(channel.ever_stored()));
        let add =
            |sum: Option<i64>, more: Option<i64>| more.map_or(sum, |more| Some(sum.unwrap_or(0).saturating_add(more)));
        (one.seen, one.counted) = (add(one.seen, channel.seen), add(one.counted, channel.counted));
    }
    all.into_values().collect()
}

/// Returns whether all keep the same ids, of which others than those have no stamp anywhere.
fn alike(policies: &[KeptPolicy]) -> bool {
    let same = |one: &KeptPolicy| one.policy == policies[0].policy && policy_of(one) == Some(Policy::XOfY);
    !policies.is_empty() && policies.iter().all(same)
}

fn policy_of(one: &KeptPolicy) -> Option<Policy> {
    Some(one.policy.parse::<Choice>().ok()?.policy())
}

/// What one policy of one point keeps; `None`: it is said elsewhere.
fn line(one: &KeptPolicy, reach: Option<&Reach>) -> Option<String> {
    let KeptPolicy { point, policy, kept, .. } = one;
    let stamps = counted(*kept, "stamp");
    Some(match policy_of(one)? {
        Policy::Null => format!("{point} keeps nothing (null): its stages cover what was stamped before, {stamps}"),
        Policy::Every => {
            let n = policy.trim_start_matches("every ");
            let seen = one.seen.map_or("not counted".into(), |seen| seen.to_string());
            format!("{point} keeps {policy}: 1 of {n} of its stamps ({kept} kept, seen {seen})")
        }
        Policy::Count => {
            let seen = counted(one.counted.unwrap_or(0), "stamp");
            format!("{point} only counts ({policy}): {seen}{COUNTS_SAY}")
        }
        Policy::FirstLast => {
            format!(
                "{point} keeps the first stamp and the last of each of {} ({policy})",
                counted(one.channels, "channel")
            )
        }
        Policy::Keep => {
            let reach = reach.map_or(String::new(), Reach::words);
            format!("{point} keeps what was asked for ({policy}): {stamps}{reach}")
        }
        Policy::Own => format!("{point} keeps what its program's own function chose: {stamps}"),
        Policy::Buffered | Policy::All | Policy::ReturnTrip | Policy::XOfY => return None,
    })
}

/// Sentences on the counts of a place that its table has no column for.
pub(crate) fn policy_notes(place: &Place, channels: &[Channel], events: &[Event]) -> Vec<String> {
    let before = policies(place, channels);
    before.iter().filter_map(counted_before).chain(switches(place, events)).collect()
}

/// Stamps of channels that only counted and were switched to another policy; `None`: there are none.
fn counted_before(one: &KeptPolicy) -> Option<String> {
    let seen = one.counted.filter(|_| policy_of(one) != Some(Policy::Count))?;
    let KeptPolicy { point, policy, .. } = one;
    let now = match policy.as_str() {
        Channel::SWITCHED_POLICY => "another policy".into(),
        policy => format!("the policy {policy}"),
    };
    let channels = counted(one.channels, "channel");
    Some(format!("{point} only counted {} of {channels} that got {now} since", counted(seen, "stamp")))
}

/// `ids 0, 1 of each 1024 are kept at a.send, b.receive`: a line for the points that choose alike.
fn chosen_ids(policies: &[KeptPolicy]) -> Vec<String> {
    let mut by: BTreeMap<(u64, u64), Vec<&str>> = BTreeMap::new();
    for one in policies.iter().filter(|one| policy_of(one) == Some(Policy::XOfY)) {
        let Ok(choice) = one.policy.parse::<Choice>() else { continue };
        let (x, y) = (choice.parameter() >> 32, choice.parameter() & 0xffff_ffff);
        by.entry((x, y)).or_default().push(&one.point);
    }
    let ids = |x: u64| match x {
        1 => "id 0".into(),
        2 => "ids 0, 1".into(),
        x => format!("ids 0 to {}", x - 1),
    };
    let line = |((x, y), points): ((u64, u64), Vec<&str>)| {
        let are = if x == 1 { "is" } else { "are" };
        format!("{} of each {y} {are} kept at {}", ids(x), points.join(", "))
    };
    by.into_iter().map(line).collect()
}

/// Which policies the channels of a point got while the run went on, in that order.
fn switches(place: &Place, events: &[Event]) -> Option<String> {
    let to = |event: &Event| Some((event.tick, event.switched_to()?.to_owned()));
    let mut switches: Vec<_> = events.iter().filter(|event| event.is_switch_of(place)).filter_map(to).collect();
    switches.sort();
    let told: Vec<String> = switches.into_iter().map(|(_, policy)| policy).collect();
    (!told.is_empty()).then(|| {
        format!(
            "switched while the run went on: {place} to {}; its figures cover what each kept, between the ticks that \
             --events shows",
            told.join(", then to ")
        )
    })
}

/// Points whose offsets others are looked up among, where a policy leaves some out.
fn offsets_left_out(layout: &Layout, channels: &[Channel], events: &[Event]) -> Vec<String> {
    let edges = layout.links().into_iter().filter(|edge| edge.by == Match::Range);
    let far = edges.map(|edge| (edge, &layout.points()[edge.far()].place));
    let thinned = far.filter(|(_, place)| kept_stamps(place, channels, events) != KeptStamps::All);
    let told = thinned.map(|(edge, place)| {
        let from = &layout.points()[edge.near()].place;
        format!(
            "{place} does not keep every stamp, so an offset of {from} is found there only where it was stamped \
             itself: what held its last byte may be left out"
        )
    });
    told.collect()
}

fn warnings(layout: &Layout, policies: &[KeptPolicy]) -> Vec<String> {
    let name = |point: usize| layout.points()[point].place.to_string();
    let chosen = |point: &str| {
        let of = policies.iter().filter(|one| one.point == point && policy_of(one) == Some(Policy::XOfY));
        of.map(|one| one.policy.clone()).collect::<Vec<_>>()
    };
    let mut warnings = Vec::new();
    for stage in layout.stages().iter().filter(|stage| layout.shares_ids(stage.from, stage.to)) {
        let [from, to] = [stage.from, stage.to].map(name);
        let (here, there) = (chosen(&from), chosen(&to));
        if !here.is_empty() && !there.is_empty() && here != there {
            warnings.push(format!(
                "{}: {from} keeps {} and {to} keeps {}: ids that one of them alone keeps have no duration. Give both \
                 the same",
                stage.name,
                here.join(", "),
                there.join(", ")
            ));
        }
    }
    let counting: Vec<&str> =
        policies.iter().filter(|one| policy_of(one) == Some(Policy::Every)).map(|one| one.point.as_str()).collect();
    if !counting.is_empty() {
        warnings.push(format!(
            "traces do not stay whole: under every N each channel of {} keeps other ids than other points. X of Y \
             keeps the same ids at all of them",
            counting.join(", ")
        ));
    }
    warnings
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tickscope_tick::{NodeName, PointName};
    use tickscope_trace::LayoutText;

    /// A change of a channel, and the reason that it is, or the beginning of it.
    pub(crate) type Change<'a> = (&'a dyn Fn(&mut Channel), &'a str);

    pub(crate) fn channel(point: &str, policy: &str) -> Channel {
        let choice: Option<Choice> = policy.parse().ok();
        Channel {
            channel: 0,
            node: NodeName::new("a").unwrap(),
            pid: 1,
            process_start: 0,
            pool: 1,
            serial: 0,
            thread: 1,
            point: PointName::new(point).unwrap(),
            ordering: "plain".into(),
            domain: "x/tsc/0".into(),
            policy: choice.map_or(policy, |choice| choice.policy().name()).into(),
            parameter: choice.filter(|choice| !choice.is_plain()).map(|choice| choice.parameter() as i64),
            stored: 3,
            dropped: 0,
            refused: 0,
            uncommitted: 0,
            state: Default::default(),
            removed: None,
            seen: (policy == "every 100").then_some(345),
            counted: policy.starts_with("count").then_some(77),
            overwritten: None,
            kept: None,
        }
    }

    fn kept(policies: &[&str]) -> Kept {
        let channels: Vec<_> =
            policies.iter().enumerate().map(|(at, policy)| channel(&format!("p{at}"), policy)).collect();
        let path = (0..policies.len()).map(|at| format!("a.p{at}")).collect();
        let layout = LayoutText { path, ..LayoutText::default() }.parse(None).unwrap();
        Kept::of(&layout, &channels, &[])
    }

    #[test]
    fn each_policy_that_leaves_stamps_out_is_told_and_what_keeps_all_is_not() {
        assert_eq!(kept(&["buffered", "all", "return-trip", "log"]), Kept::default());
        let found = kept(&["every 100", "2 of 1024", "2 of 1024", "count 10ms", "first-last -1", "null", "own"]);
        assert_eq!(found.policies.len(), 7);
        let said = [
            "a.p0 keeps every 100: 1 of 100 of its stamps (3 kept, seen 345)",
            "a.p3 only counts (count 10ms): 77 stamps",
            "a.p4 keeps the first stamp and the last of each of 1 channel (first-last -1)",
            "a.p5 keeps nothing (null)",
            "a.p6 keeps what its program's own function chose",
            "ids 0, 1 of each 1024 are kept at a.p1, a.p2",
        ];
        for (line, said) in found.lines.iter().zip(said) {
            assert!(line.starts_with(said), "{line}");
        }
        assert_eq!(found.lines.len(), said.len());
        assert!(found.may_excuse("a.p1") && !found.may_excuse("a.p9"));
        assert!(found.warnings.iter().any(|line| line.contains("each channel of a.p0") && line.contains("X of Y")));
    }

    #[test]
    fn stamps_of_a_policy_before_are_not_counted_as_kept_of_those_that_were_seen() {
        let switched = Channel { stored: 900, kept: Some(4), ..channel("p0", "every 100") };
        let path = vec!["a.p0".into(), "a.p1".into()];
        let layout = LayoutText { path, ..LayoutText::default() }.parse(None).unwrap();
        let found = Kept::of(&layout, &[switched], &[]);
        assert_eq!(found.lines[0], "a.p0 keeps every 100: 1 of 100 of its stamps (4 kept, seen 345)");
    }

    #[test]
    fn ids_that_are_chosen_differently_at_the_ends_of_a_stage_are_a_warning_that_names_both() {
        let found = kept(&["2 of 1024", "1 of 8"]).warnings;
        assert!(found[0].contains("a.p0 keeps 2 of 1024 and a.p1 keeps 1 of 8"), "{found:?}");
        assert!(kept(&["2 of 1024", "2 of 1024"]).warnings.is_empty());
        assert!(kept(&["2 of 1024", "buffered"]).warnings.is_empty());
    }

    #[test]
    fn what_is_missing_of_ids_that_all_points_choose_alike_is_no_choice_of_theirs() {
        assert!(!kept(&["2 of 8", "2 of 8"]).may_excuse("a.p0"));
        for policies in [&["2 of 8", "1 of 8"][..], &["2 of 8", "buffered"], &["every 2", "every 2"]] {
            assert!(kept(policies).may_excuse("a.p0"), "{policies:?}");
        }
    }

    #[test]
    fn stamps_that_were_only_counted_before_a_switch_are_told() {
        let mut switched = channel("p0", "buffered");
        (switched.policy, switched.counted) = (Channel::SWITCHED_POLICY.into(), Some(12));
        let notes = policy_notes(&"a.p0".parse().unwrap(), &[switched.clone()], &[]);
        assert!(
            notes[0].starts_with("a.p0 only counted 12 stamps of 1 channel that got another policy since"),
            "{notes:?}"
        );
        let layout = LayoutText { path: vec!["a.p0".into(), "a.p1".into()], ..LayoutText::default() };
        let found = Kept::of(&layout.parse(None).unwrap(), &[switched, channel("p1", "buffered")], &[]);
        assert!(!notes[0].contains("--counts"), "it is printed there: {notes:?}");
        assert_eq!(found.lines, [format!("{}{COUNTS_SAY}", notes[0])]);
        assert!(policy_notes(&"a.p0".parse().unwrap(), &[channel("p0", "count 1ms")], &[]).is_empty());
    }

    #[test]
    fn a_point_whose_offsets_are_not_all_there_is_a_warning() {
        let edges = vec!["a.p0 ~ a.p1".to_owned()];
        let layout = LayoutText { edges, ..LayoutText::default() }.parse(None).unwrap();
        let of = |policy| Kept::of(&layout, &[channel("p0", "every 2"), channel("p1", policy)], &[]).warnings;
        assert!(!of("buffered").iter().any(|line| line.contains("offset")));
        assert!(
            of("2 of 8").iter().any(|line| line.starts_with("a.p1 does not keep every stamp, so an offset of a.p0"))
        );
    }

    #[test]
    fn switches_are_told_in_their_order() {
        let event = |tick, text: &str| Event {
            node: "a".into(),
            what: tickscope_store::EventKind::PolicySwitched,
            tick: Some(tick),
            text: text.into(),
            ..Event::default()
        };
        let events = [
            event(9, "8 channels switched to every 100, by the rule p*"),
            event(5, "8 channels switched to null, by the rule p0"),
            event(7, "8 channels switched to null, by the rule q"),
        ];
        let line = switches(&"a.p0".parse().unwrap(), &events).unwrap();
        assert!(line.starts_with("switched while the run went on: a.p0 to null, then to every 100;"), "{line}");
        assert_eq!(switches(&"b.p0".parse().unwrap(), &events), None);
    }
}
