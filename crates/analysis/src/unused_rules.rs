//! Rules of a run that had no effect: policies that matched no channel, and durations of `[[dump]]` whose points kept
//! nothing that could be stored.
//!
//! Assumes: the rows of channels and the events of switches. A channel that kept nothing and was closed before a
//! collector saw it has no row, so what is said is of the run, not of the program. Guarantees: what is named is said
//! with what helps.
//! Deliberately absent: rules that were given while the run went on, which wait for channels to come.

use std::collections::BTreeSet;

use tickscope_store::{Channel, DumpRule, Event, Manifest, Policy, PolicyRule, Run, matches, policy_text};
use tickscope_tick::{NodeName, Place};

use crate::error::Error;
use crate::null_points::Rules;

/// Names that a sentence lists.
const MOST_NAMES: usize = 20;

/// A sentence for each rule of the run that had no effect; none where programs opened no channel.
pub fn unused_rules(run: &Run) -> Result<Vec<String>, Error> {
    Ok(unused(run.manifest(), &run.channels()?.found, &run.events()?.found))
}

fn unused(manifest: &Manifest, channels: &[Channel], events: &[Event]) -> Vec<String> {
    let channels: Vec<&Channel> = channels.iter().filter(|one| one.policy != Channel::LOG_POLICY).collect();
    if channels.is_empty() {
        return Vec::new(); // whoever shows the run says so
    }
    let nodes: BTreeSet<&str> = manifest
        .nodes
        .iter()
        .map(|node| &node.name)
        .chain(channels.iter().map(|one| &one.node))
        .map(NodeName::as_str)
        .collect();
    let nodes: Vec<&str> = nodes.into_iter().collect();
    let points: BTreeSet<&str> = channels.iter().map(|channel| channel.point.as_str()).collect();
    let has_none = |glob: &str| !points.iter().any(|point| matches(glob, point));
    let policies = manifest.policies.iter().filter(|rule| has_none(&rule.channels)).map(|rule| {
        let hint = match without_node(&rule.channels, &nodes) {
            Some((_, point)) => format!("Points are named without their node: write '{point}'. "),
            None => "One that kept nothing and was closed at once is in no file. ".into(),
        };
        let there = listed(points.iter().copied());
        format!("the policy {} for '{}' matched no channel of the run. {hint}{there}", rule.policy, rule.channels)
    });
    policies
        .chain(manifest.dumps.iter().filter_map(|rule| dump(rule, &channels, (&manifest.policies, events))))
        .collect()
}

/// Why a duration can have had nothing stored.
fn dump(rule: &DumpRule, channels: &[&Channel], (policies, events): (&[PolicyRule], &[Event])) -> Option<String> {
    let without = |place: &&Place| {
        let of: Vec<&&Channel> = channels.iter().filter(|channel| channel.is_at(place)).collect();
        let is_kept = of.iter().any(|channel| channel.policy == Policy::Keep.name());
        if is_kept || events.iter().any(|event| event.is_switch_of(place)) {
            return None;
        }
        Some(match of.first() {
            None => {
                let known: BTreeSet<String> =
                    channels.iter().map(|one| format!("{}.{}", one.node, one.point)).collect();
                let rules = Rules { policies, channels: &[], events: &[] };
                rules.sentence(place, &known.into_iter().collect::<Vec<_>>())
            }
            Some(channel) => {
                let policy = policy_text(channel);
                format!("{place} is under {policy}, and a dump stores what keep holds. Give it keep by a [[policy]]")
            }
        })
    };
    let why: Vec<String> = [&rule.from, &rule.to].iter().filter_map(without).collect();
    (!why.is_empty())
        .then(|| format!("the [[dump]] from {} to {} stored nothing: {}", rule.from, rule.to, why.join("; ")))
}

/// A glob that begins with a node's name and a dot: that node, and the rest.
pub fn without_node<'a>(glob: &'a str, nodes: &[&'a str]) -> Option<(&'a str, &'a str)> {
    let of = |node: &&'a str| glob.strip_prefix(node)?.strip_prefix('.').map(|point| (*node, point));
    nodes.iter().find_map(of).filter(|(_, point)| !point.is_empty())
}

/// A sentence that names points.
pub fn listed<'a>(points: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = points.collect();
    let more = match all.len().saturating_sub(MOST_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match all.is_empty() {
        true => "There are no points so far".into(),
        false => format!("The points are {}{more}", all[..all.len().min(MOST_NAMES)].join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::tests::channel;

    fn manifest(rules: &[(&str, &str)], dumps: &[(&str, &str)]) -> Manifest {
        let text = r#"{"schema": 2, "run": "0000000000000001", "tickscope": "x",
            "started_unix_ms": 0, "reference": "a.tsc", "nodes": []}"#;
        let mut manifest: Manifest = serde_json::from_str(text).unwrap();
        let rule = |&(channels, policy): &(&str, &str)| PolicyRule { channels: channels.into(), policy: policy.into() };
        manifest.policies = rules.iter().map(rule).collect();
        let dump = |&(from, to): &(&str, &str)| DumpRule {
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
            above_ns: 1000,
        };
        manifest.dumps = dumps.iter().map(dump).collect();
        manifest
    }

    #[test]
    fn a_policy_that_matched_no_channel_is_told_with_the_points_there_are() {
        let mut channels = [channel("sent", "buffered"), channel("got", "null"), channel("log", "buffered")];
        channels[0].policy = Channel::SWITCHED_POLICY.into();
        channels[2].policy = Channel::LOG_POLICY.into();
        let rules = [("sent", "null"), ("a.sent", "null"), ("*", "buffered"), ("send", "every 10")];
        let told = unused(&manifest(&rules, &[]), &channels, &[]);
        let there = "The points are got, sent";
        let closed = "One that kept nothing and was closed at once is in no file";
        let without = "Points are named without their node: write 'sent'";
        assert_eq!(
            told,
            [
                format!("the policy null for 'a.sent' matched no channel of the run. {without}. {there}"),
                format!("the policy every 10 for 'send' matched no channel of the run. {closed}. {there}"),
            ]
        );
        assert_eq!(without_node("app.sent*", &["ap", "app"]), Some(("app", "sent*")));
        assert_eq!([without_node("app.sent", &["ap"]), without_node("app.", &["app"])], [None, None]);
        assert_eq!(unused(&manifest(&rules, &[]), &[], &[]), Vec::<String>::new(), "no program stamped");
    }

    #[test]
    fn a_dump_between_points_that_keep_nothing_is_told() {
        let channels = [channel("early", "keep 10s"), channel("late", "buffered")];
        let told = |from, to| unused(&manifest(&[], &[(from, to)]), &channels, &[]);
        assert!(told("a.early", "a.early").is_empty());
        let late = told("a.early", "a.late");
        assert!(
            late.len() == 1 && late[0].contains("a.late is under buffered") && late[0].contains("keep"),
            "{late:?}"
        );
        let never = told("a.early", "a.later");
        assert!(never[0].contains("expected stamps at a.later, found none; did you mean 'a.late'?"), "{never:?}");
        let null = unused(&manifest(&[("late?", "null")], &[("a.early", "a.later")]), &channels, &[]);
        assert!(null.iter().any(|why| why.contains("a.later, found none: the policy null left out")), "{null:?}");
    }
}
