//! Losses of a channel, drawn from a seed: independent ones, and those of Gilbert and Elliott's channel, which is good
//! or bad for a while.

use tickscope_load::SplitMix;

use crate::Error;

/// Probabilities of a channel of two states; all from 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LossModel {
    /// Probability to turn from good to bad between two packets.
    pub good_to_bad: f64,
    /// Probability to turn from bad to good.
    pub bad_to_good: f64,
    /// Probability that a packet is lost while the channel is good.
    pub lost_in_good: f64,
    /// Probability that a packet is lost while it is bad.
    pub lost_in_bad: f64,
}

impl LossModel {
    /// Losses that do not depend on one another.
    pub fn independent(lost: f64) -> Result<Self, Error> {
        Self { good_to_bad: 0.0, bad_to_good: 1.0, lost_in_good: lost, lost_in_bad: lost }.checked()
    }

    /// A loss share, `0.05`, or `GOOD-TO-BAD,BAD-TO-GOOD,LOST-IN-GOOD,LOST-IN-BAD`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let numbers: Option<Vec<f64>> = text.split(',').map(|part| part.trim().parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[lost]) => Self::independent(lost),
            Some(&[good_to_bad, bad_to_good, lost_in_good, lost_in_bad]) => {
                Self { good_to_bad, bad_to_good, lost_in_good, lost_in_bad }.checked()
            }
            _ => {
                Err(Error::new("one probability, or four with commas between them", text, "As in 0.02,0.25,0.001,0.6"))
            }
        }
    }

    /// The share of packets that is lost in the long run.
    pub fn mean(&self) -> f64 {
        let bad = self.bad_share();
        (1.0 - bad) * self.lost_in_good + bad * self.lost_in_bad
    }

    /// Probability that the packet after a lost one is lost.
    pub fn after_a_loss(&self) -> f64 {
        let (bad, lost) = (self.bad_share(), [self.lost_in_good, self.lost_in_bad]);
        let from_good = (1.0 - self.good_to_bad) * lost[0] + self.good_to_bad * lost[1];
        let from_bad = self.bad_to_good * lost[0] + (1.0 - self.bad_to_good) * lost[1];
        let both = (1.0 - bad) * lost[0] * from_good + bad * lost[1] * from_bad;
        if self.mean() > 0.0 { both / self.mean() } else { 0.0 }
    }

    /// The share of time in which the channel is bad.
    pub fn bad_share(&self) -> f64 {
        let leaves = self.good_to_bad + self.bad_to_good;
        if leaves > 0.0 { self.good_to_bad / leaves } else { 0.0 }
    }

    fn checked(self) -> Result<Self, Error> {
        let all = [self.good_to_bad, self.bad_to_good, self.lost_in_good, self.lost_in_bad];
        match all.iter().find(|share| !(0.0..=1.0).contains(*share)) {
            Some(share) => Err(Error::new("probabilities from 0 to 1", share, "Give shares, not per cent")),
            None => Ok(self),
        }
    }
}

/// A channel's losses, packet by packet: the same for the same seed.
#[derive(Clone, Debug)]
pub struct LossProcess {
    model: LossModel,
    random: SplitMix,
    is_bad: bool,
}

impl LossProcess {
    /// A channel that begins good.
    pub fn new(model: LossModel, seed: u64) -> Self {
        Self { model, random: SplitMix::new(seed), is_bad: false }
    }

    /// Returns whether the next packet is lost.
    pub fn loses(&mut self) -> bool {
        let (lost, leaves) = match self.is_bad {
            true => (self.model.lost_in_bad, self.model.bad_to_good),
            false => (self.model.lost_in_good, self.model.good_to_bad),
        };
        let loses = self.happens(lost);
        self.is_bad ^= self.happens(leaves);
        loses
    }

    fn happens(&mut self, probability: f64) -> bool {
        (self.random.bits() >> 11) as f64 / (1_u64 << 53) as f64 >= 1.0 - probability && probability > 0.0
    }
}
