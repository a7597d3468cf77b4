//! Ids that the policies of a point keep: whether one that has no stamp there is missing.
//!
//! Guarantees: an id is called kept only if every channel of the point, under every policy that it may have had, keeps
//! its stamps. Deliberately absent: how many stamps a policy left out.

use tickscope_stamp::block::Policy;
use tickscope_stamp::policies::{Choice, x_of_y::XOfY};
use tickscope_tick::Place;

use crate::channels::Channel;
use crate::event_kind::EventKind;
use crate::events::Event;

/// Which ids have to be there.
#[derive(Clone, Debug)]
pub(crate) enum KeptIds {
    /// All.
    All,
    /// Those that each of these rules keeps.
    Chosen(Vec<XOfY>),
    /// Nobody knows of any.
    Unknown,
}

impl KeptIds {
    /// Those of a place, by its channels and by the switches of their policies.
    pub(crate) fn of(place: &Place, channels: &[Channel], events: &[Event]) -> Self {
        let mut rules = Vec::new();
        let mut all = true;
        for channel in channels.iter().filter(|channel| channel.is_at(place) && !channel.keeps_all()) {
            all = false;
            match Choice::named(&channel.policy, channel.parameter) {
                Some(choice) if choice.policy() == Policy::XOfY => rules.push(XOfY::of(choice.parameter())),
                _ => return Self::Unknown,
            }
        }
        match all {
            true => Self::All,
            // What it kept before, it had from another rule.
            false if events.iter().any(|event| event.is_switch_of(place)) => Self::Unknown,
            false => Self::Chosen(rules),
        }
    }

    /// Returns whether stamps of that id are kept for certain.
    pub(crate) fn keeps(&self, id: i64) -> bool {
        match self {
            Self::All => true,
            Self::Chosen(rules) => rules.iter().all(|rule| rule.keeps(id)),
            Self::Unknown => false,
        }
    }
}

impl Event {
    /// Words before the glob in the text of a switch.
    const OF_RULE: &str = ", by the rule ";

    /// The text of a switch before its rule; `None`: it does not tell one.
    pub fn switched_to(&self) -> Option<&str> {
        Some(self.text.rsplit_once(Self::OF_RULE)?.0.rsplit_once(" to ")?.1)
    }

    /// Returns whether it says that channels of the place may have got another policy.
    pub fn is_switch_of(&self, place: &Place) -> bool {
        let of_node = self.what == EventKind::PolicySwitched && self.node == place.node.as_str();
        // One that does not tell its rule may be of any point.
        let of_point = |(_, glob)| tickscope_stamp::policy::matches(glob, place.point.as_str());
        of_node && self.text.rsplit_once(Self::OF_RULE).is_none_or(of_point)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A channel of that place under that policy.
    pub(crate) fn under(place: &str, policy: &str) -> Channel {
        let Place { node, point } = place.parse().unwrap();
        let choice: Option<Choice> = policy.parse().ok();
        Channel {
            channel: 0,
            node,
            pid: 1,
            process_start: 0,
            pool: 1,
            serial: 0,
            thread: 1,
            point,
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
            seen: None,
            kept: None,
            counted: None,
            overwritten: None,
        }
    }

    fn kept(policies: &[&str], events: &[Event]) -> Vec<i64> {
        let channels: Vec<Channel> = policies.iter().map(|policy| under("a.p", policy)).collect();
        let kept = KeptIds::of(&"a.p".parse().unwrap(), &channels, events);
        (0..8).filter(|&id| kept.keeps(id)).collect()
    }

    #[test]
    fn an_id_is_kept_if_every_channel_of_the_point_keeps_it_under_all_that_it_was_told() {
        let all: Vec<i64> = (0..8).collect();
        assert_eq!(kept(&["buffered", "all", "log"], &[]), all);
        assert_eq!(kept(&["2 of 4"], &[]), [0, 1, 4, 5]);
        assert_eq!(kept(&["buffered", "2 of 4", "3 of 8"], &[]), [0, 1]);
        for policy in
            ["every 2", "own", "null", "first-last", "count 1ms", Channel::SWITCHED_POLICY, "of a later version"]
        {
            assert!(kept(&["2 of 4", policy], &[]).is_empty(), "{policy}");
        }
        let switch = |glob: &str| Event {
            node: "a".into(),
            what: EventKind::PolicySwitched,
            text: format!("1 channel switched to 2 of 4, by the rule {glob}"),
            ..Event::default()
        };
        assert!(kept(&["2 of 4"], &[switch("*")]).is_empty());
        assert_eq!(kept(&["2 of 4"], &[switch("elsewhere")]), [0, 1, 4, 5]);
        assert_eq!(switch("*").switched_to(), Some("2 of 4"));
    }
}
