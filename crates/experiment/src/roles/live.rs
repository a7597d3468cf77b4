//! What a collector is told while it collects, and what it answers: live rules, its channels, its counts.
//!
//! Each order is a line of JSON with a number, each answer too, with the number of its order. Guarantees: no answer is
//! longer than a line that is kept.

use std::io::BufRead;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde::{Deserialize, Serialize};
use tickscope_collect::{ChannelNow, Collector, Dumped, LiveRule, Switched, Trigger};
use tickscope_counter::NodeCounter;
use tickscope_stamp::policies::{Choice, forms};
use tickscope_tick::PointName;

use super::answer;
use crate::Error;

/// What a collector is told.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CollectorOrder {
    /// These are the live rules from now on, a later one before an earlier one.
    Rules(u64, Vec<RuleText>),
    /// List the open channels, or all.
    Channels(u64, bool),
    /// Tell the counts of all channels together.
    Totals(u64),
    /// Store what channels under `keep` hold of points that match the glob, for the reason.
    Dump {
        /// Number of the order.
        number: u64,
        /// Glob over points.
        points: String,
        /// What the event says.
        why: String,
    },
    /// These durations have it stored from now on.
    Triggers(u64, Vec<TriggerText>),
}

/// A duration that has what `keep` holds stored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TriggerText {
    /// The point that it begins at.
    pub from: PointName,
    /// The point that it ends at.
    pub to: PointName,
    /// Ticks of the node's counter that it is longer than.
    pub above_ticks: i64,
}

/// A live rule.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RuleText {
    /// The points that it is for.
    pub glob: String,
    /// Their policy, as a run file names it.
    pub policy: String,
}

/// What a collector answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CollectorAnswer {
    /// The order was followed, as far as that.
    Switched {
        /// Channels that have another policy now.
        channels: u64,
        /// Tick of the node's counter before.
        before: i64,
        /// Tick after.
        after: i64,
    },
    /// It could not be followed, for that reason.
    Failed(String),
    /// Channels; more follow unless it is the last of its order.
    Channels {
        /// Some of them.
        channels: Vec<ChannelText>,
        /// Channels that were left out: there are too many.
        left_out: u64,
        /// No more follow.
        last: bool,
    },
    /// What channels under `keep` held is stored.
    Dumped {
        /// Stamps of it.
        stamps: u64,
        /// Channels that they are of.
        channels: u64,
    },
    /// The counts.
    Totals {
        /// Channels that are open.
        open: i64,
        /// Channels that are closed.
        closed: i64,
        /// Stamps stored so far.
        stamps: i64,
        /// Stamps lost so far.
        lost: i64,
    },
}

/// A channel as it is listed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChannelText {
    /// Its number within the node.
    pub channel: i32,
    /// The point.
    pub point: String,
    /// Process id.
    pub pid: i32,
    /// Thread id.
    pub thread: i32,
    /// Policy.
    pub policy: String,
    /// `open`, `closed` or `recovered`.
    pub state: String,
    /// Stamps stored so far.
    pub stamps: i64,
    /// Stamps a second, over the last seconds.
    pub rate: Option<f64>,
    /// Stamps that found no block.
    pub lost: i64,
    /// Stamps refused.
    pub refused: i64,
}

/// Channels of a line: it stays below what is kept of one.
const CHANNELS_A_LINE: usize = 100;
/// Channels that are listed.
const MOST_CHANNELS: usize = 20_000;

/// The orders that standard input holds.
pub(super) struct Orders(Receiver<CollectorOrder>);

impl Orders {
    /// Begins to read them, in a thread of its own.
    pub fn listen(collector: &mut Collector) -> Result<Self, Error> {
        collector.set_counter(NodeCounter::from_environment().map_err(Error::input)?);
        let (send, receive) = channel();
        thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                let Ok(order) = serde_json::from_str(&line) else { continue };
                if send.send(order).is_err() {
                    return;
                }
            }
        });
        Ok(Self(receive))
    }

    /// Follows those that came.
    pub fn serve(&self, collector: &mut Collector) {
        for order in self.0.try_iter() {
            let number = order.number();
            for one in follow(collector, order) {
                answer(&line_of(number, &one));
            }
        }
    }
}

fn follow(collector: &mut Collector, order: CollectorOrder) -> Vec<CollectorAnswer> {
    match order {
        CollectorOrder::Rules(_, rules) => vec![follow_rules(collector, &rules)],
        CollectorOrder::Channels(_, all) => lines_of(&collector.channels_now(all)),
        CollectorOrder::Totals(_) => {
            let [open, closed, stamps, lost] = collector.totals();
            vec![CollectorAnswer::Totals { open, closed, stamps, lost }]
        }
        CollectorOrder::Dump { points, why, .. } => vec![match collector.dump(&points, &why) {
            Ok(Dumped { stamps, channels }) => CollectorAnswer::Dumped { stamps, channels },
            Err(why) => CollectorAnswer::Failed(why.to_string()),
        }],
        CollectorOrder::Triggers(_, triggers) => {
            let trigger = |TriggerText { from, to, above_ticks }| Trigger { from, to, above_ticks };
            collector.set_triggers(triggers.into_iter().map(trigger).collect());
            Vec::new()
        }
    }
}

fn follow_rules(collector: &mut Collector, rules: &[RuleText]) -> CollectorAnswer {
    let rule = |rule: &RuleText| {
        let policy: Choice = rule.policy.parse().ok()?;
        Some(LiveRule { glob: rule.glob.clone(), policy })
    };
    let Some(rules) = rules.iter().map(rule).collect::<Option<Vec<_>>>() else {
        return CollectorAnswer::Failed(format!(
            "expected the policies {}, found another. Use one tickscope on all machines",
            forms("and")
        ));
    };
    match collector.set_rules(rules) {
        Ok(Switched { channels, before, after }) => CollectorAnswer::Switched { channels, before, after },
        Err(why) => CollectorAnswer::Failed(why.to_string()),
    }
}

/// The answers that list these channels.
fn lines_of(channels: &[ChannelNow]) -> Vec<CollectorAnswer> {
    let listed = &channels[..channels.len().min(MOST_CHANNELS)];
    let left_out = (channels.len() - listed.len()) as u64;
    let pieces = listed.len().div_ceil(CHANNELS_A_LINE).max(1);
    let piece = |number: usize| {
        let of = listed.iter().skip(number * CHANNELS_A_LINE).take(CHANNELS_A_LINE);
        let last = number + 1 == pieces;
        CollectorAnswer::Channels {
            channels: of.map(text_of).collect(),
            left_out: if last { left_out } else { 0 },
            last,
        }
    };
    (0..pieces).map(piece).collect()
}

fn text_of(ChannelNow { channel, policy, rate }: &ChannelNow) -> ChannelText {
    ChannelText {
        channel: channel.channel,
        point: channel.point.to_string(),
        pid: channel.pid,
        thread: channel.thread,
        policy: policy.clone(),
        state: channel.state.name().into(),
        stamps: channel.ever_stored(),
        rate: *rate,
        lost: channel.ever_lost(),
        refused: channel.refused,
    }
}

impl CollectorOrder {
    fn number(&self) -> u64 {
        match self {
            Self::Rules(number, _)
            | Self::Channels(number, _)
            | Self::Totals(number)
            | Self::Dump { number, .. }
            | Self::Triggers(number, _) => *number,
        }
    }

    /// The line that tells it.
    pub fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() // numbers and text: it cannot fail
    }
}

fn line_of(number: u64, answer: &CollectorAnswer) -> String {
    serde_json::to_string(&(number, answer)).unwrap_or_default() // numbers and text: it cannot fail
}

/// The number of the order that is answered, and the answer.
pub fn answer_of(line: &str) -> Option<(u64, CollectorAnswer)> {
    serde_json::from_str(line).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_and_answers_read_back() {
        let rule = RuleText { glob: "s*".into(), policy: "null".into() };
        let point = |name| PointName::new(name).unwrap();
        let trigger = TriggerText { from: point("a"), to: point("b"), above_ticks: 7 };
        for order in [
            CollectorOrder::Rules(1, vec![rule]),
            CollectorOrder::Channels(2, true),
            CollectorOrder::Totals(u64::MAX),
            CollectorOrder::Dump { number: 3, points: "s*".into(), why: "why".into() },
            CollectorOrder::Triggers(4, vec![trigger]),
        ] {
            assert_eq!(serde_json::from_str::<CollectorOrder>(&order.line()).unwrap(), order);
        }
        for answer in [
            CollectorAnswer::Switched { channels: 1, before: -2, after: 3 },
            CollectorAnswer::Dumped { stamps: 4, channels: 1 },
            CollectorAnswer::Failed("\n".into()),
        ] {
            assert_eq!(answer_of(&line_of(7, &answer)), Some((7, answer.clone())));
            assert!(!line_of(7, &answer).contains('\n'));
        }
        assert_eq!(answer_of("quiet"), None);
    }

    #[test]
    fn a_list_of_channels_is_cut_into_lines_that_are_kept_and_its_end_is_told() {
        assert_eq!(lines_of(&[]), [CollectorAnswer::Channels { channels: Vec::new(), left_out: 0, last: true }]);
        let channel = ChannelText {
            channel: i32::MIN,
            point: "p".repeat(47),
            pid: i32::MIN,
            thread: i32::MIN,
            policy: "buffered".into(),
            state: "recovered".into(),
            stamps: i64::MIN,
            rate: Some(0.1 + 0.2),
            lost: i64::MIN,
            refused: i64::MIN,
        };
        let channels = vec![channel; CHANNELS_A_LINE];
        let line = line_of(u64::MAX, &CollectorAnswer::Channels { channels, left_out: u64::MAX, last: false });
        assert!(line.len() < 60_000, "{}", line.len());
    }
}
