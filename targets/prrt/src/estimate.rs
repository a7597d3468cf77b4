//! What a sender knows of its path, from the receiver's counts: losses and how they come, over a window of packets.
//!
//! Counts are cumulative: a lost feedback costs nothing. Losses are of Gilbert's channel: everything is lost while it
//! is bad, nothing while it is good; lengths and number of bursts and of gaps are all that this takes.

use std::collections::VecDeque;

use crate::{Feedback, LossModel};

/// Packets that an estimate looks back over, at least.
const WINDOW: u64 = 4000;
/// Feedbacks that are remembered at most.
const MOST_SNAPSHOTS: usize = 1024;

/// Counts of the newest feedbacks.
#[derive(Clone, Debug)]
pub(crate) struct LossEstimate {
    /// Received, gaps, lost, bursts; never empty.
    snapshots: VecDeque<[u64; 4]>,
}

impl LossEstimate {
    pub fn new() -> Self {
        Self { snapshots: VecDeque::from([[0; 4]]) }
    }

    /// Takes the counts of a feedback; those that step back belong to none of this connection, and are left out.
    pub fn take(&mut self, feedback: &Feedback) {
        let counts = [feedback.received, feedback.gaps, feedback.lost, feedback.bursts];
        if self.snapshots.back().is_some_and(|last| last.iter().zip(&counts).any(|(last, now)| now < last)) {
            return;
        }
        self.snapshots.push_back(counts);
        let packets = |counts: &[u64; 4]| counts[0].saturating_add(counts[2]);
        let spans = |first: &[u64; 4]| packets(&counts).saturating_sub(packets(first)) >= WINDOW;
        while self.snapshots.len() > MOST_SNAPSHOTS || self.snapshots.get(1).is_some_and(spans) {
            self.snapshots.pop_front();
        }
    }

    /// The channel over the window, both its numbers at the upper end of what the counts allow: the share that is
    /// lost, two standard deviations of a count and three; and how often a loss follows a loss, Wilson's bound at two
    /// standard deviations. A window in which none did says little of that, and a parity packet is then worth less
    /// than it seems. `None`: fewer than a hundred packets.
    pub fn model(&self) -> Option<LossModel> {
        let (first, last) = (self.snapshots.front()?, self.snapshots.back()?);
        let [received, _, lost, bursts] = std::array::from_fn(|at| (last[at] - first[at]) as f64);
        let packets = received + lost;
        if packets < 100.0 {
            return None;
        }
        let more = (lost + 2.0 * lost.sqrt() + 3.0).min(packets);
        let bad = more / packets;
        let bad_to_good = 1.0 - upper_share((lost - bursts).max(0.0), lost.max(1.0)).max(bad);
        let good_to_bad = if bad < 1.0 { (bad_to_good * bad / (1.0 - bad)).min(1.0) } else { 1.0 };
        Some(LossModel { good_to_bad, bad_to_good, lost_in_good: 0.0, lost_in_bad: 1.0 })
    }
}

/// The upper end of a share of which `seen` in `all` were seen: Wilson's interval at two standard deviations.
pub(crate) fn upper_share(seen: f64, all: f64) -> f64 {
    let (share, z2) = (seen / all, 4.0);
    let spread = (z2 * (share * (1.0 - share) / all + z2 / (4.0 * all * all))).sqrt();
    (share + z2 / (2.0 * all) + spread) / (1.0 + z2 / all)
}
