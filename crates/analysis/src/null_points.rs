//! Points whose stamps the policy `null` left out, and the rule that gave it to them.
//!
//! Assumes: the channels' rows, the rules of `run.json` and the events of switches. Deliberately absent: whether the
//! program reached such a point; under `null` nobody knows.

use std::collections::BTreeSet;

use tickscope_store::{Channel, Choice, Event, Policy, PolicyRule, Run, matches};
use tickscope_tick::Place;
use tickscope_trace::nearest;

use crate::error::Error;

/// A run's rules, channels and events, from which the policy of a point is read.
pub(crate) struct Rules<'a> {
    pub policies: &'a [PolicyRule],
    pub channels: &'a [Channel],
    pub events: &'a [Event],
}

/// A sentence on a point that no stamp is stored of: the policy that left them out, or the nearest name of `known`,
/// which programs stamped.
pub fn unstamped_point(run: &Run, place: &Place, known: &[String]) -> Result<String, Error> {
    with_rules(run, |rules| rules.sentence(place, known))
}

/// Returns those of `places` whose stamps the policy `null` left out.
pub(crate) fn under_null<'a>(run: &Run, places: impl Iterator<Item = &'a Place>) -> Result<Vec<&'a Place>, Error> {
    with_rules(run, |rules| places.filter(|place| rules.null(place).is_some()).collect())
}

/// Points with a channel under `null`, in the order of their names.
pub(crate) fn null_channels(run: &Run) -> Result<BTreeSet<String>, Error> {
    let is_null = |channel: &Channel| channel.policy == Policy::Null.name();
    let channels = run.channels()?.found.into_iter().filter(is_null);
    Ok(channels.map(|channel| Place { node: channel.node, point: channel.point }.to_string()).collect())
}

fn with_rules<T>(run: &Run, asked: impl FnOnce(&Rules<'_>) -> T) -> Result<T, Error> {
    let (channels, events) = (run.channels()?.found, run.events()?.found);
    Ok(asked(&Rules { policies: &run.manifest().policies, channels: &channels, events: &events }))
}

impl Rules<'_> {
    /// The sentence of [`unstamped_point`].
    pub fn sentence(&self, place: &Place, known: &[String]) -> String {
        match self.null(place) {
            Some(rule) => format!(
                "expected stamps at {place}, found none: the policy null left out whatever was stamped there ({rule})"
            ),
            None => never_stamped(place, known),
        }
    }

    /// The rule that puts a point under `null`; `None`: nothing does.
    pub fn null(&self, place: &Place) -> Option<String> {
        let mut channels = self.channels.iter().filter(|channel| channel.is_at(place)).peekable();
        // One that kept nothing and was closed at once is in no file.
        let is_seen = channels.peek().is_some();
        let of_channel = channels.any(|channel| channel.policy == Policy::Null.name());
        let switches = self.events.iter().filter(|event| event.is_switch_of(place) && event.switched_to().is_some());
        let live = switches.max_by_key(|event| event.tick).filter(|event| is_null(event.switched_to()));
        if let (true, Some(event)) = (of_channel, live) {
            return Some(format!("switched while the run went on: {}", event.text));
        }
        let first = self.policies.iter().find(|rule| matches(&rule.channels, place.point.as_str()));
        match first.filter(|rule| is_null(Some(&rule.policy)) && (of_channel || !is_seen)) {
            Some(rule) => Some(format!("by the rule for '{}'", rule.channels)),
            None => of_channel.then(|| "by no rule of the run; see TICKSCOPE_POLICY of its program".into()),
        }
    }
}

fn is_null(policy: Option<&str>) -> bool {
    policy.and_then(|policy| policy.parse::<Choice>().ok()).is_some_and(|choice| choice.policy() == Policy::Null)
}

/// A sentence on a point that nothing was stamped at, with the nearest name of `known`, which programs stamped.
fn never_stamped(place: &Place, known: &[String]) -> String {
    let hint = match nearest(&place.to_string(), known) {
        Some(name) => format!("did you mean '{name}'?"),
        None if known.is_empty() => "no program stamped anything".into(),
        None => format!("was it reached? There are {}", known.join(", ")),
    };
    format!("expected stamps at {place}, found none; {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::tests::channel;
    use tickscope_store::EventKind;

    #[test]
    fn a_point_under_null_is_told_with_its_rule_and_one_under_another_policy_with_the_nearest_name() {
        let place: Place = "a.sent".parse().unwrap();
        let rule = |(channels, policy): (&str, &str)| PolicyRule { channels: channels.into(), policy: policy.into() };
        let said = |policies: &[(&str, &str)], channels: &[Channel], events: &[Event]| {
            let policies: Vec<PolicyRule> = policies.iter().copied().map(rule).collect();
            Rules { policies: &policies, channels, events }.sentence(&place, &["a.send".into()])
        };
        let (null, kept) = ([channel("sent", "null")], [channel("sent", "buffered")]);
        let why = "expected stamps at a.sent, found none: the policy null left out whatever was stamped there ";
        let by_rule = format!("{why}(by the rule for 's*')");
        let rules = [("x", "null"), ("s*", "null"), ("*", "buffered")];
        assert_eq!(said(&rules, &null, &[]), by_rule);
        assert_eq!(said(&rules, &[], &[]), by_rule, "a channel that was closed at once is in no file");
        assert_eq!(said(&[], &null, &[]), format!("{why}(by no rule of the run; see TICKSCOPE_POLICY of its program)"));
        let switch = |tick, policy: &str| Event {
            node: "a".into(),
            tick: Some(tick),
            what: EventKind::PolicySwitched,
            text: format!("1 channel switched to {policy}, by the rule sen?"),
            ..Event::default()
        };
        let live = [switch(2, "null"), switch(1, "buffered")];
        let told = "(switched while the run went on: 1 channel switched to null, by the rule sen?)";
        assert_eq!(said(&rules, &null, &live), format!("{why}{told}"));
        for (policies, channels) in [
            (&rules[..], &kept[..]),
            (&[("s*", "buffered"), ("*", "null")], &[]),
            (&[("receive*", "null")], &[]),
            (&[], &[channel("received", "null")]),
        ] {
            assert!(said(policies, channels, &[]).ends_with("did you mean 'a.send'?"), "{policies:?}");
        }
    }
}
