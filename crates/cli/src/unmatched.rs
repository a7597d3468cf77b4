//! What is said where points that were named to a run that goes on match none of its channels.
//!
//! Guarantees: nobody who writes `node.point` for a point, or misspells one, is told only that no channel matched; of a
//! run that does not list all its channels nothing is said. Deliberately absent: rules of a run file.

use std::collections::BTreeSet;

use serde_json::Value;
use tickscope_analysis::{listed, without_node};
use tickscope_experiment::control::{RunRequest, ask};
use tickscope_store::{Run, matches};
use tickscope_tick::{NodeName, own_points};

use crate::failure::Failure;

/// Points that were named, and the one node that was meant; none: all.
pub(crate) struct Named<'a> {
    pub glob: &'a str,
    pub node: Option<&'a NodeName>,
}

/// Says that no channel matches a rule so far; `None`: some do.
pub(crate) fn rule(run: &Run, named: &Named) -> Option<String> {
    let (found, channels) = unmatched(named, listing(run)?);
    let hint = || hint(run, named, &channels);
    found.map(|found| format!("{found}; the rule stays, for channels of programs that are opened later. {}", hint()))
}

/// Says that what was named is a point with its node before it, which no rule matches; `None`: it is not.
pub(crate) fn with_node(run: &Run, named: &Named) -> Option<String> {
    let nodes: Vec<&str> = run.manifest().nodes.iter().map(|node| node.name.as_str()).collect();
    without_node(named.glob, &nodes)?;
    let channels = listing(run)?;
    let is_there = channels.iter().any(|channel| named.is(channel));
    (!is_there).then(|| format!("no channel matches '{}'. {}", named.glob, hint(run, named, &channels)))
}

/// What no rule is for, or that nothing is there; and the channels that rules are for.
fn unmatched(named: &Named, all: Vec<Channel>) -> (Option<String>, Vec<Channel>) {
    let (own, channels): (Vec<_>, Vec<_>) = all.into_iter().partition(|channel| own_points::are(&channel.point));
    let [is_own, is_theirs] = [&own, &channels].map(|of| of.iter().any(|channel| named.is(channel)));
    let glob = named.glob;
    let found = (!is_theirs).then(|| match is_own {
        true => {
            format!("only tickscope's own points match '{glob}' so far, and no rule is for them: they are evidence")
        }
        false => format!("no channel matches '{glob}' so far"),
    });
    (found, channels)
}

/// Fails if nothing that was named is under `keep`.
pub(crate) fn expect_kept(run: &Run, named: &Named) -> Result<(), Failure> {
    let Some(mut channels) = listing(run) else { return Ok(()) };
    channels.retain(|channel| !own_points::are(&channel.point)); // no rule is for them
    let matching: Vec<&Channel> = channels.iter().filter(|channel| named.is(channel)).collect();
    if matching.iter().any(|channel| channel.policy.starts_with("keep")) {
        return Ok(()); // it holds nothing now
    }
    let glob = named.glob;
    Err(Failure::work(match matching.first() {
        None => format!("no channel matches '{glob}': nothing is stored. {}", hint(run, named, &channels)),
        Some(Channel { point, policy, .. }) => format!(
            "no channel that matches '{glob}' is under the policy keep, so nothing is stored: {point} is under \
             {policy}. tickscope policy or a [[policy]] gives points keep"
        ),
    }))
}

/// A channel of a run that goes on.
struct Channel {
    node: String,
    point: String,
    policy: String,
}

impl Named<'_> {
    fn is(&self, channel: &Channel) -> bool {
        self.node.is_none_or(|node| node.as_str() == channel.node) && matches(self.glob, &channel.point)
    }
}

/// All channels; `None`: some are not listed.
fn listing(run: &Run) -> Option<Vec<Channel>> {
    channels(&ask(run.root(), &RunRequest::Channels { all: true }).ok()?)
}

fn channels(reply: &Value) -> Option<Vec<Channel>> {
    let mut all = Vec::new();
    for node in reply["nodes"].as_array()? {
        if node["failed"].is_string() || node["left_out"].as_u64() != Some(0) {
            return None;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let channel = |one: &Value| Channel {
            node: text(&node["node"]),
            point: text(&one["point"]),
            policy: text(&one["policy"]),
        };
        all.extend(node["channels"].as_array()?.iter().map(channel));
    }
    Some(all)
}

fn hint(run: &Run, named: &Named, channels: &[Channel]) -> String {
    let nodes: Vec<&str> = run.manifest().nodes.iter().map(|node| node.name.as_str()).collect();
    let instead = without_node(named.glob, &nodes)
        .map(|(node, point)| format!("Points are named without their node: write '{point}' --node {node}. "));
    let points: BTreeSet<&str> = channels.iter().map(|channel| channel.point.as_str()).collect();
    instead.unwrap_or_default() + &listed(points.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_reply_does_not_list_is_not_said_to_be_absent() {
        let channel = json!({ "point": "sent", "policy": "keep 10s" });
        let node = |left_out: u64| json!({ "node": "app", "channels": [channel], "left_out": left_out });
        let of = |node: Value| channels(&json!({ "nodes": [node] }));
        let found = of(node(0)).unwrap();
        let (app, other) = (NodeName::new("app").unwrap(), NodeName::new("other").unwrap());
        let is = |glob, node| Named { glob, node }.is(&found[0]);
        assert_eq!(
            [is("s*", None), is("s*", Some(&app)), is("sent", Some(&other)), is("app.sent", None)],
            [true, true, false, false]
        );
        assert!(of(node(1)).is_none() && of(json!({ "node": "app", "failed": "x", "channels": [] })).is_none());
    }

    #[test]
    fn no_rule_is_for_tickscopes_own_points_and_none_is_listed() {
        let of = |points: &[&str]| {
            let channel = |point: &&str| Channel { node: "app".into(), point: (*point).into(), policy: String::new() };
            unmatched(&Named { glob: "*", node: None }, points.iter().map(channel).collect())
        };
        let (found, listed) = of(&["probe-request-sent", "sent"]);
        assert_eq!((found, listed.len(), listed[0].point.as_str()), (None, 1, "sent"));
        let (found, listed) = of(&["probe-request-sent"]);
        assert!(found.unwrap().starts_with("only tickscope's own points match '*'") && listed.is_empty());
        assert!(of(&[]).0.unwrap().starts_with("no channel matches '*'"));
    }
}
