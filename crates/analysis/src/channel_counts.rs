//! Sums of what channels counted.
//!
//! Counts of a damaged pool are any numbers: no sum of them goes around or stops at an end, and
//! [`crate::Analysis::findings`] names those that cannot be. Deliberately absent: leaving those out.

use tickscope_store::{Channel, Event};

use crate::Analysis;

/// Reads one count of a channel.
pub type CountReader = fn(&Channel) -> i64;

/// Counts of stamps that are in no file, though a program made them.
const LOST: [CountReader; 4] = [
    |channel| channel.dropped,
    |channel| channel.overwritten.unwrap_or(0),
    |channel| channel.refused,
    |channel| channel.uncommitted,
];

/// The sum of a count over channels.
pub fn sum<'a>(channels: impl IntoIterator<Item = &'a Channel>, of: CountReader) -> i128 {
    channels.into_iter().map(|channel| i128::from(of(channel))).sum()
}

/// How many stamps were lost in all.
pub fn lost(channels: &[Channel]) -> i128 {
    LOST.into_iter().map(|of| sum(channels, of)).sum()
}

/// Returns whether a channel counts something that it lost.
pub fn loses(channel: &Channel) -> bool {
    LOST.into_iter().any(|of| of(channel) != 0)
}

/// How many channels have counts that cannot be: what was lost is not known then.
pub fn impossible(channels: &[Channel]) -> usize {
    channels.iter().filter(|channel| channel.impossible_count().is_some()).count()
}

/// How many stamps were lost, those of no channel included; `None`: nobody knows.
pub fn known_loss(channels: &[Channel], events: &[Event], analysis: &Analysis) -> Option<i128> {
    let is_known = !channels.is_empty() && impossible(channels) == 0 && analysis.unknown_loss(events).is_none();
    is_known.then(|| lost(channels) + of_no_channel(events))
}

/// How many stamps no channel could take.
pub fn of_no_channel(events: &[Event]) -> i128 {
    let events = events.iter().filter(|event| event.what.is_of_no_channel());
    events.filter_map(|event| u64::try_from(event.value?).ok()).map(i128::from).sum()
}
