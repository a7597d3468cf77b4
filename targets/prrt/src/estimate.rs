//! What a sender knows of its path, from the receiver's counts: losses and how they come, over a window of packets.
//!
//! Counts are cumulative: a lost feedback costs nothing. Losses are of Gilbert's channel: nothing is lost while it is
//! good, and a share while it is bad, by the lengths and number of bursts and by how spread the losses of windows are.
//! That share matters: a bad time that loses a third looks like many short bursts, and lasts for a whole block.

use std::collections::VecDeque;

use crate::seen::SPREAD;
use crate::{Feedback, LossModel};

/// Packets that an estimate looks back over, at least.
const WINDOW: u64 = 4000;
/// Lambda of the slowest channel: windows are too short for what takes longer.
const MOST_LAMBDA: f64 = 0.995;
/// Feedbacks that are remembered at most.
const MOST_SNAPSHOTS: usize = 1024;

/// Counts of the newest feedbacks.
#[derive(Clone, Debug)]
pub(crate) struct LossEstimate {
    /// Received, gaps, lost, bursts, squares; never empty.
    snapshots: VecDeque<[u64; 5]>,
}

impl LossEstimate {
    pub fn new() -> Self {
        Self { snapshots: VecDeque::from([[0; 5]]) }
    }

    /// Takes the counts of a feedback; those that step back belong to none of this connection, and are left out.
    pub fn take(&mut self, feedback: &Feedback) {
        let counts = [feedback.received, feedback.gaps, feedback.lost, feedback.bursts, feedback.squares];
        if self.snapshots.back().is_some_and(|last| last.iter().zip(&counts).any(|(last, now)| now < last)) {
            return;
        }
        self.snapshots.push_back(counts);
        let packets = |counts: &[u64; 5]| counts[0].saturating_add(counts[2]);
        let spans = |first: &[u64; 5]| packets(&counts).saturating_sub(packets(first)) >= WINDOW;
        while self.snapshots.len() > MOST_SNAPSHOTS || self.snapshots.get(1).is_some_and(spans) {
            self.snapshots.pop_front();
        }
    }

    /// The channel over the window, its numbers at the upper end of what the counts allow: the share that is lost, two
    /// standard deviations of a count that is as spread as the windows' and three; how often a loss follows a loss,
    /// Wilson's bound at two standard deviations; and how spread the losses of windows are, at two of theirs. A window
    /// in which none did says little of that, and a parity packet is then worth less than it seems. `None`: fewer than
    /// a hundred packets.
    pub fn model(&self) -> Option<LossModel> {
        let (first, last) = (self.snapshots.front()?, self.snapshots.back()?);
        let [received, _, lost, bursts, squares] = std::array::from_fn(|at| (last[at] - first[at]) as f64);
        let packets = received + lost;
        if packets < 100.0 {
            return None;
        }
        let dispersion = dispersion(squares, windows(last) - windows(first), lost / packets);
        let more = (lost + 2.0 * (dispersion.max(1.0) * lost).sqrt() + 3.0).min(packets);
        let bad = more / packets;
        let after = upper_share((lost - bursts).max(0.0), lost.max(1.0)).max(bad);
        Some(channel(bad, after, dispersion))
    }
}

/// Windows of settled packets that are full.
fn windows(counts: &[u64; 5]) -> f64 {
    (counts[0].saturating_add(counts[2]) / SPREAD) as f64
}

/// The variance of the losses of a window as a share of their mean, at its upper end; 0: there are too few windows.
fn dispersion(squares: f64, windows: f64, lost: f64) -> f64 {
    let mean = lost * SPREAD as f64;
    if windows < 2.0 || mean == 0.0 {
        return 0.0;
    }
    let found = (squares / windows - mean * mean).max(0.0) / mean;
    // The fourth moment of clusters whose lengths are exponential: the rarer they are, the less a variance is known.
    found * (1.0 + 2.0 * ((2.0 + 3.0 * found / mean) / windows).sqrt())
}

/// The channel of that share of losses, of which one is followed by another as often as `after` says and whose windows
/// are as spread as `dispersion` says: it is good, and nothing is lost, or bad, and something is. Its state after `d`
/// packets has to do with the present one as lambda to the `d`; where losses are no more spread than the runs of them
/// make them, all is lost while it is bad.
fn channel(lost: f64, after: f64, dispersion: f64) -> LossModel {
    let beyond = after - lost;
    let excess = (dispersion - (1.0 - lost)) / 2.0;
    let least = if lost < 1.0 { beyond / (1.0 - lost) } else { 0.0 };
    let spread = |lambda: f64| {
        let share = |apart: u64| (1.0 - apart as f64 / SPREAD as f64) * lambda.powi(apart as i32 - 1);
        beyond * (1..SPREAD).map(share).sum::<f64>()
    };
    let (mut low, mut high) = (least, MOST_LAMBDA.max(least));
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        *(if spread(middle) < excess { &mut low } else { &mut high }) = middle;
    }
    let lambda = if spread(least) >= excess { least } else { high };
    let lost_in_bad = if lambda > 0.0 { (lost + beyond / lambda).min(1.0) } else { 1.0 };
    let bad = lost / lost_in_bad;
    let leaves = 1.0 - lambda;
    LossModel { good_to_bad: bad * leaves, bad_to_good: (1.0 - bad) * leaves, lost_in_good: 0.0, lost_in_bad }
}

/// The upper end of a share of which `seen` in `all` were seen: Wilson's interval at two standard deviations.
pub(crate) fn upper_share(seen: f64, all: f64) -> f64 {
    let (share, z2) = (seen / all, 4.0);
    let spread = (z2 * (share * (1.0 - share) / all + z2 / (4.0 * all * all))).sqrt();
    (share + z2 / (2.0 * all) + spread) / (1.0 + z2 / all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LossProcess;
    use crate::seen::Seen;

    /// Model that is fitted to 400 windows of a channel.
    fn fitted(model: LossModel) -> LossModel {
        let (mut process, mut seen, mut estimate) = (LossProcess::new(model, 40), Seen::new(), LossEstimate::new());
        for sequence in 0..400 * SPREAD {
            if !process.loses() {
                seen.see(sequence);
            }
        }
        let Seen { received, gaps, lost, bursts, squares, .. } = seen;
        estimate.take(&Feedback { received, gaps, lost, bursts, squares, ..Feedback::default() });
        estimate.model().unwrap()
    }

    #[test]
    fn a_bad_time_that_loses_a_third_is_not_taken_for_short_ones_that_lose_all() {
        for [good_to_bad, bad_to_good, lost_in_bad] in [[0.005, 0.05, 0.3], [0.01, 0.1, 0.5], [0.01, 0.5, 1.0]] {
            let model = LossModel { good_to_bad, bad_to_good, lost_in_good: 0.0, lost_in_bad };
            let fitted = fitted(model);
            assert!((1.0..1.5).contains(&(fitted.mean() / model.mean())), "{model:?}: {fitted:?}");
            assert!((0.9..1.3).contains(&(fitted.after_a_loss() / model.after_a_loss())), "{model:?}: {fitted:?}");
            // How long a bad time is, what else the counts allow included: not longer than three times.
            let length = fitted.bad_to_good / model.bad_to_good;
            assert!((0.3..1.1).contains(&length), "{length}, {model:?}: {fitted:?}");
        }
        let independent = fitted(LossModel::independent(0.05).unwrap());
        assert!(independent.mean() < 0.065 && independent.after_a_loss() < 0.08, "{independent:?}");
    }
}
