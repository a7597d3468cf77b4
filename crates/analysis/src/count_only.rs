//! Points that only count: a run has no stamps of them, which is no fault of its program.
//!
//! Assumes: the channels' rows. Deliberately absent: what they counted ([`crate::counted_points`]).

use std::collections::BTreeMap;

use tickscope_store::{Choice, Event, EventKind, Policy, Run, policy_text};
use tickscope_tick::Place;

use crate::counted_points::only_counts;
use crate::error::Error;
use crate::inference::programs_points;

/// Points without a stamp that have a channel under the policy `count`, by name, with that policy.
pub(crate) fn counting(run: &Run) -> Result<BTreeMap<String, String>, Error> {
    let mut all = BTreeMap::new();
    for channel in run.channels()?.found.iter().filter(|channel| only_counts(channel)) {
        let place = Place { node: channel.node.clone(), point: channel.point.clone() };
        if run.stamps(&place)?.is_empty() {
            all.insert(place.to_string(), policy_text(channel));
        }
    }
    Ok(all)
}

/// `a.x (count 10ms), a.y (count 10ms)`.
pub(crate) fn named(counting: &BTreeMap<String, String>) -> String {
    let named: Vec<String> = counting.iter().map(|(point, policy)| format!("{point} ({policy})")).collect();
    named.join(", ")
}

/// Returns whether counts are all that a run has: no layout asks for more, and programs stored no stamp.
pub fn only_counted(run: &Run) -> Result<bool, Error> {
    Ok(run.manifest().layout.is_empty() && programs_points(run)?.is_empty() && !counting(run)?.is_empty())
}

/// Returns whether a point only counts, whatever others do.
pub fn some_count(run: &Run) -> Result<bool, Error> {
    Ok(!counting(run)?.is_empty())
}

/// Switches after which channels may count though no count of theirs is stored yet; one that does not tell its policy
/// is such a switch, too.
pub fn switches_to_count(events: &[Event]) -> impl Iterator<Item = &Event> {
    let counts = |policy: &str| policy.parse::<Choice>().is_ok_and(|choice| choice.policy() == Policy::Count);
    events.iter().filter(move |event| {
        let is_of_channels = event.what == EventKind::PolicySwitched && event.value != Some(0);
        is_of_channels && event.switched_to().is_none_or(counts)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_that_were_switched_to_count_may_count_and_those_that_got_another_policy_do_not() {
        let of = |text: &str, value| {
            let what = EventKind::PolicySwitched;
            let event = Event { what, value, text: text.into(), ..Event::default() };
            switches_to_count(&[event]).count() == 1
        };
        assert!(of("1 channel switched to count 1ms, by the rule x", Some(1)));
        assert!(of("channels that match x get the policy count 1ms; the collector ended before it had told", None));
        assert!(!of("1 channel switched to every 10, by the rule x", Some(1)));
        assert!(!of("0 channels switched to count 1ms, by the rule x", Some(0)));
        let other = Event { what: EventKind::Lost, text: "5 stamps were dropped".into(), ..Event::default() };
        assert_eq!(switches_to_count(&[other]).count(), 0);
    }
}
