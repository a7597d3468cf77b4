//! Which of a point's stamps are in the run, by the policies of its channels.
//!
//! Idea: only a rule on ids that all channels of a point have had from their begin keeps every stamp of an id or none.
//! Assumes: the channels' rows and the events of switches. Guarantees: what is not known to be whole is not taken to
//! be. Deliberately absent: what was lost, or removed by the run's window, which events and counts tell.

use tickscope_stamp::block::Policy;
use tickscope_stamp::policies::Choice;
use tickscope_tick::Place;
use tickscope_trace::KeptStamps;

use crate::channels::Channel;
use crate::error::Result;
use crate::events::Event;
use crate::run::Run;

impl Run {
    /// Which stamps of a point are there. A stamp of many ids has some with it that a rule on ids did not choose, of
    /// which other stamps may be left out.
    pub fn kept_stamps(&self, place: &Place, channels: &[Channel], events: &[Event]) -> Result<KeptStamps> {
        let kept = kept_stamps(place, channels, events);
        let is_mixed = kept == KeptStamps::WholeIds && self.stamps(place)?.has_spans()?;
        Ok(if is_mixed { KeptStamps::Any } else { kept })
    }

    /// Points that were stamped, of which a policy may have kept one stamp of an id and left out another, with their
    /// policies.
    pub fn thinned_points<'a>(
        &self,
        places: impl IntoIterator<Item = &'a Place>,
        channels: &[Channel],
        events: &[Event],
    ) -> Result<Vec<String>> {
        let mut thinned = Vec::new();
        for place in places {
            let of_point = || channels.iter().filter(|channel| channel.is_at(place));
            let is_stamped = of_point().any(|channel| channel.ever_stored() > 0);
            if !is_stamped || self.kept_stamps(place, channels, events)? != KeptStamps::Any {
                continue;
            }
            let mut policies: Vec<String> = of_point().map(policy_text).collect();
            policies.sort_unstable();
            policies.dedup();
            thinned.push(format!("{place} ({})", policies.join(", ")));
        }
        Ok(thinned)
    }
}

/// Which stamps of a point are there, where each is of one id.
pub fn kept_stamps(place: &Place, channels: &[Channel], events: &[Event]) -> KeptStamps {
    let mut of_point = channels.iter().filter(|channel| channel.is_at(place)).peekable();
    let Some(&first) = of_point.peek() else { return KeptStamps::All };
    let of_ids = |channel: &Channel| Policy::from_name(&channel.policy) == Some(Policy::XOfY);
    let (mut all, mut alike) = (true, of_ids(first));
    for channel in of_point {
        all &= channel.keeps_all();
        alike &= (&channel.policy, channel.parameter) == (&first.policy, first.parameter);
    }
    match () {
        () if all => KeptStamps::All,
        () if alike && !events.iter().any(|event| event.is_switch_of(place)) => KeptStamps::WholeIds,
        () => KeptStamps::Any,
    }
}

/// The policy of a channel with its parameter, as it is written.
pub fn policy_text(channel: &Channel) -> String {
    Choice::named(&channel.policy, channel.parameter)
        .map_or_else(|| channel.policy.clone(), |choice| choice.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_kind::EventKind;
    use crate::kept_ids::tests::under;
    use crate::sample::manifest;
    use crate::scratch::Scratch;
    use crate::{Origin, StampColumns, next_segment, write_segment};

    fn channel(policy: &str) -> Channel {
        under("a.send", policy)
    }

    fn kept(policies: &[&str], events: &[Event]) -> KeptStamps {
        let channels: Vec<Channel> = policies.iter().map(|policy| channel(policy)).collect();
        kept_stamps(&"a.send".parse().unwrap(), &channels, events)
    }

    #[test]
    fn stamps_of_an_id_are_whole_under_one_rule_on_ids_alone() {
        for (policies, expected) in [
            (&["buffered", "all", "return-trip", "log"][..], KeptStamps::All),
            (&[], KeptStamps::All),
            (&["2 of 8", "2 of 8"], KeptStamps::WholeIds),
            (&["2 of 8", "3 of 8"], KeptStamps::Any),
            (&["2 of 8", "buffered"], KeptStamps::Any),
            (&["buffered", "null"], KeptStamps::Any),
            (&["every 3"], KeptStamps::Any),
            (&["keep 10s"], KeptStamps::Any),
            (&["own"], KeptStamps::Any),
            (&["first-last"], KeptStamps::Any),
            (&["switched"], KeptStamps::Any),
            (&["of a later version"], KeptStamps::Any),
        ] {
            assert_eq!(kept(policies, &[]), expected, "{policies:?}");
        }
    }

    #[test]
    fn a_rule_on_ids_that_came_later_keeps_no_ids_whole() {
        let event = |node: &str, glob: &str| Event {
            node: node.into(),
            what: EventKind::PolicySwitched,
            text: format!("8 channels switched to 2 of 8, by the rule {glob}"),
            ..Event::default()
        };
        assert_eq!(kept(&["2 of 8"], &[event("a", "sen*")]), KeptStamps::Any);
        assert_eq!(kept(&["2 of 8"], &[event("b", "sen*"), event("a", "other")]), KeptStamps::WholeIds);
    }

    #[test]
    fn a_stamp_of_many_ids_has_some_with_it_that_the_rule_did_not_choose() {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        let place: Place = "a.send".parse().unwrap();
        let told = |policy| {
            let channels = [channel(policy)];
            let kept = run.kept_stamps(&place, &channels, &[]).unwrap();
            (kept, run.thinned_points([&place], &channels, &[]).unwrap().concat())
        };
        let put = |ids| {
            let columns =
                StampColumns { ids: [ids].into_iter().collect(), ..StampColumns::slim(vec![1], vec![0], vec![0]) };
            let segment = next_segment(&run.paths().stamps(&place)).unwrap();
            write_segment(&segment, &columns, &Origin::default()).unwrap();
        };
        put(None);
        assert_eq!(told("2 of 8"), (KeptStamps::WholeIds, String::new()));
        assert_eq!(told("every 3"), (KeptStamps::Any, "a.send (every 3)".into()));
        put(Some(20));
        assert_eq!(told("2 of 8"), (KeptStamps::Any, "a.send (2 of 8)".into()));
        assert_eq!(told("buffered"), (KeptStamps::All, String::new()));
    }
}
