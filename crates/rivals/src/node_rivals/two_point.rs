//! The relation of Min-RTT: a line between two exchanges, as published and with what is left open in between.
//!
//! Assumes: the second exchange is later. Guarantees: half-widths are rounded up. Deliberately absent: durations
//! ([`super::published`]).

use tickscope_analysis::reading_ticks;
use tickscope_bracket::Cone;

use super::{Comparing, Sample, ceil, up};
use crate::round_trips::{Bursts, Exchange, round_trip};

/// The relation of Min-RTT: a line between the fastest exchange before the run and the fastest after it, each with one
/// stamp of the node. Ticks of the reference are doubled, so that middles are whole.
#[derive(Clone, Copy)]
pub(super) struct TwoPoint {
    /// The node's ticks.
    pub(super) at: [i128; 2],
    /// The doubled middles between request and reply.
    pub(super) middles: [i128; 2],
    /// The round trips.
    pub(super) round_trips: [i128; 2],
}

impl TwoPoint {
    pub(super) fn of(bursts: &Bursts) -> Option<Self> {
        let fastest = |exchanges: &[Exchange]| exchanges.iter().min_by_key(|exchange| round_trip(exchange)).copied();
        let [first, last] = [fastest(&bursts.0[0])?, fastest(&bursts.0[2])?];
        let at = [first, last].map(|exchange| i128::from(exchange[1]));
        let middles = [first, last].map(|[t1, _, _, t4]| i128::from(t1) + i128::from(t4));
        let round_trips = [first, last].map(|exchange| i128::from(round_trip(&exchange)));
        (at[0] < at[1]).then_some(Self { at, middles, round_trips })
    }

    /// The doubled value of the line, rounded to the nearest.
    pub(super) fn value(&self, at: i128) -> i128 {
        let length = self.at[1] - self.at[0];
        let rise = (self.middles[1] - self.middles[0]) * (at - self.at[0]);
        self.middles[0] + (2 * rise + length).div_euclid(2 * length)
    }

    /// The doubled published half-width: the longer round trip between the two points, `|1 - x| + |x|` of it beyond.
    pub(super) fn published(&self, at: i128) -> i128 {
        let longer = self.round_trips[0].max(self.round_trips[1]);
        ceil((self.until_last(at).abs() + self.since_first(at).abs()) * longer, self.length())
    }

    /// The doubled half-width that holds while the rate stays within the cone: each point's share of its own round
    /// trip, what the readings leave open, and how far a map of such rates can lie off its own chord.
    pub(super) fn honest(&self, at: i128, cone: &Cone, reading: i128) -> i128 {
        let (since_first, until_last, length) = (self.since_first(at), self.until_last(at), self.length());
        let trips = until_last.abs() * self.round_trips[0] + since_first.abs() * self.round_trips[1];
        let weight = ceil((until_last.abs() + since_first.abs()) * 2 * reading, length);
        let off = if since_first < 0 {
            -since_first
        } else if until_last < 0 {
            -until_last
        } else {
            ceil(since_first * until_last, length)
        };
        ceil(trips, length) + weight + up(2 * cone.width() * off) + 2
    }

    pub(super) fn length(&self) -> i128 {
        self.at[1] - self.at[0]
    }

    pub(super) fn since_first(&self, at: i128) -> i128 {
        at - self.at[0]
    }

    pub(super) fn until_last(&self, at: i128) -> i128 {
        self.at[1] - at
    }

    pub(super) fn sample(&self, comparing: &Comparing<'_>, at: i64, first: i64, honest: bool) -> Sample {
        let tick = i128::from(at);
        let value = self.value(tick);
        let reading = comparing.reading_widths().iter().sum();
        let half = if honest { self.honest(tick, &comparing.map.cone(), reading) } else { self.published(tick) };
        comparing.sample(at, first, value, [value - half, value + half])
    }

    /// The node's frequency, Hz, if the reference's is what it declares.
    pub(super) fn hertz(&self, comparing: &Comparing<'_>) -> Option<[i64; 2]> {
        let widths = comparing.nodes.map(|node| i128::from(reading_ticks(comparing.manifest, node)));
        self.rate_at(comparing.hertz()[1].into(), widths)
    }

    /// The least and the most that the node's mean rate between the two points can be if the reference's is `hertz`;
    /// `widths`: how far readings leave both counters open.
    pub(super) fn rate_at(&self, hertz: i128, [local, reference]: [i128; 2]) -> Option<[i64; 2]> {
        let twice = self.middles[1] - self.middles[0];
        let off = self.round_trips[0] + self.round_trips[1] + 2 * reference;
        let [least, most] = [twice - off, twice + off];
        if least <= 0 {
            return None;
        }
        let lo = (2 * hertz * (self.length() - local)).div_euclid(most);
        let hi = ceil(2 * hertz * (self.length() + local), least);
        Some([i64::try_from(lo).ok()?, i64::try_from(hi).ok()?])
    }
}
