//! The sender's clock as a receiver knows it, between two bounds, and whether payloads are in time by it.
//!
//! Nothing comes before it was sent. So of all packets the quickest says best how far the sender's clock is at least,
//! and how long that one was under way at most, how far at most. A packet says its deadline by that clock: when it was
//! sent, and how much was left then.
//!
//! Assumes: of two clocks neither gains more than [`APART`] on the other. Guarantees: what is called late is, what is
//! called in time is if the quickest packet took no longer than the way that is given; all else is undecided.

/// Nanoseconds of which two clocks gain one on each other at most: Linux steers a clock by 500 millionths at most.
const APART: u64 = 1000;

/// Relation of a hand-over to the payload's deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Punctuality {
    /// In time, if the quickest packet of late took no longer than the way that was told, or the shortest round trip.
    InTime,
    /// The clocks of both ends are not known well enough.
    Undecided,
    /// Late for certain: no packet comes before it was sent.
    Late,
}

/// Earliest and latest instant at which a deadline may be, of the sender's clock; `None`: nothing says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Deadline {
    pub earliest_ns: Option<i64>,
    pub latest_ns: Option<i64>,
}

/// Bounds on the sender's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SenderClock {
    /// Lead of the receiver's clock when the quickest packet came, the time of that packet's way included.
    ahead_ns: i128,
    /// Time at which it came.
    came_ns: i64,
}

impl SenderClock {
    /// Reads the sender's clock off one packet.
    pub fn new(sent_ns: i64, now: i64) -> Self {
        Self { ahead_ns: i128::from(now) - i128::from(sent_ns), came_ns: now }
    }

    /// Takes what another packet says, which may have been quicker.
    pub fn hear(&mut self, sent_ns: i64, now: i64) {
        let other = Self::new(sent_ns, now);
        if other.ahead_ns <= self.ahead_ns + self.apart_ns(now) {
            *self = other;
        }
    }

    /// Judges a hand-over at `now`, of packets of which the quickest takes `way_ns` at most.
    pub fn judge(&self, deadline: Deadline, now: i64, way_ns: Option<i64>) -> Punctuality {
        let (here, apart_ns) = (i128::from(now) - self.ahead_ns, self.apart_ns(now));
        let is_past = |latest_ns: i64| here - apart_ns > i128::from(latest_ns);
        let is_ahead =
            |(earliest_ns, way_ns): (i64, i64)| here + apart_ns + i128::from(way_ns) <= i128::from(earliest_ns);
        if deadline.latest_ns.is_some_and(is_past) {
            Punctuality::Late
        } else if deadline.earliest_ns.zip(way_ns).is_some_and(is_ahead) {
            Punctuality::InTime
        } else {
            Punctuality::Undecided
        }
    }

    /// Most that the clocks gained on each other since the quickest packet.
    fn apart_ns(&self, now: i64) -> i128 {
        now.abs_diff(self.came_ns).div_ceil(APART).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(deadline_ns: i64) -> Deadline {
        Deadline { earliest_ns: Some(deadline_ns), latest_ns: Some(deadline_ns + 999) }
    }

    #[test]
    fn what_is_late_is_past_its_deadline_by_the_earliest_clock_and_in_time_by_the_latest() {
        // The sender's clock is 5000 ahead, the quickest packet took 200: it says 4800.
        let mut clock = SenderClock::new(6000, 1200);
        clock.hear(6100, 1800);
        let judge = |deadline, now, way_ns| clock.judge(deadline, now, way_ns);
        assert_eq!(judge(at(6600), 1900, Some(0)), Punctuality::Undecided, "6700, and one that the clocks may gain");
        assert_eq!(judge(at(5701), 1901, Some(0)), Punctuality::Undecided, "6701 less one is the deadline's end");
        assert_eq!(judge(at(5700), 1901, Some(0)), Punctuality::Late);
        assert_eq!(judge(at(7001), 1900, Some(300)), Punctuality::InTime, "6700, the way, and one");
        assert_eq!(judge(at(7000), 1900, Some(300)), Punctuality::Undecided);
        assert_eq!(judge(at(9000), 1900, None), Punctuality::Undecided, "nobody knows the way");
        let open = Deadline { earliest_ns: None, ..at(5700) };
        assert_eq!(
            [judge(open, 1900, Some(0)), judge(open, 1901, Some(0))],
            [Punctuality::Undecided, Punctuality::Late]
        );
        assert_eq!(judge(Deadline::default(), 1 << 60, Some(0)), Punctuality::Undecided, "nothing says a deadline");
    }

    #[test]
    fn the_quickest_packet_counts_until_the_clocks_may_have_parted_by_more() {
        let mut clock = SenderClock::new(0, 1000);
        clock.hear(1_000_000, 1_002_001); // 1001 slower in a millisecond, in which the clocks may gain 1002
        assert_eq!(clock.came_ns, 1000 + 1_001_001);
        let mut clock = SenderClock::new(0, 1000);
        clock.hear(1_000_000, 1_002_003);
        assert_eq!(clock.came_ns, 1000);
    }

    #[test]
    fn clocks_at_their_ends_are_judged_without_a_panic() {
        for (sent_ns, now) in [(i64::MAX, i64::MIN), (i64::MIN, i64::MAX)] {
            let mut clock = SenderClock::new(sent_ns, now);
            clock.hear(now, sent_ns);
            clock.judge(at(i64::MAX - 999), i64::MIN, Some(i64::MAX));
        }
    }
}
