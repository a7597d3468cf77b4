//! Sums of what channels counted.
//!
//! Counts of a damaged pool are any numbers: no sum of them goes around or stops at an end, and
//! [`tickscope_analysis::Analysis::findings`] names those that cannot be. Deliberately absent: leaving those out.

use tickscope_store::Channel;

/// Reads one count of a channel.
pub(crate) type Count = fn(&Channel) -> i64;

/// Counts of stamps that are in no file, though a program made them.
const LOST: [Count; 4] = [
    |channel| channel.dropped,
    |channel| channel.overwritten.unwrap_or(0),
    |channel| channel.refused,
    |channel| channel.uncommitted,
];

/// The sum of a count over channels.
pub(crate) fn sum<'a>(channels: impl IntoIterator<Item = &'a Channel>, of: Count) -> i128 {
    channels.into_iter().map(|channel| i128::from(of(channel))).sum()
}

/// How many stamps were lost in all.
pub(crate) fn lost(channels: &[Channel]) -> i128 {
    LOST.into_iter().map(|of| sum(channels, of)).sum()
}

/// Returns whether a channel counts something that it lost.
pub(crate) fn loses(channel: &Channel) -> bool {
    LOST.into_iter().any(|of| of(channel) != 0)
}

/// How many channels have counts that cannot be: what was lost is not known then.
pub(crate) fn impossible(channels: &[Channel]) -> usize {
    channels.iter().filter(|channel| channel.impossible_count().is_some()).count()
}
