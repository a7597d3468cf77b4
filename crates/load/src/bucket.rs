//! The token bucket of the forwarder study (Ramani, Chen and Yates, "Timely Mobile Routing", arXiv 2304.14603).
//!
//! At its i-th look, at tick t_i, a source that has credit for `N_i` packets offers `K_i = min(B, N_i)` of them, and
//! sends `L_i` of those; `N_0 = 0` and `N_(i+1) = N_i - L_i + (t_(i+1) - t_i) R`. So the offer is capped and the credit
//! is not: after a stall all that was missed is sent. The capped variant keeps `N <= B`: what a stall exceeds is lost,
//! and counted. Credit is exact: a whole number of parts of a packet.

use crate::due::check_hertz;
use crate::{Error, EventRate};

/// What a bucket is filled by, and what it offers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BucketPlan {
    /// R, packets a second.
    pub rate: EventRate,
    /// The frequency of the counter that ticks are of.
    pub hertz: u64,
    /// B, the most that is offered at once.
    pub most: u32,
    /// Whether credit beyond B is lost; as published, it is not.
    pub capped: bool,
    /// t_0.
    pub start: i64,
}

/// A token bucket.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    plan: BucketPlan,
    /// Parts that make a packet; a tick adds as many as the rate has events.
    packet: u128,
    last: i64,
    credit: u128,
    offered: u32,
    lost: u128,
}

impl TokenBucket {
    /// An empty bucket.
    pub fn new(plan: BucketPlan) -> Result<Self, Error> {
        check_hertz(plan.hertz)?;
        if plan.most == 0 {
            return Err(Error::new("an offer of 1 packet or more", 0, "The study offers 32"));
        }
        let packet = u128::from(plan.hertz) * u128::from(plan.rate.seconds());
        Ok(Self { packet, last: plan.start, credit: 0, offered: 0, lost: 0, plan })
    }

    /// Looks at tick `now`: how many packets may be sent, `K_i`.
    pub fn offer(&mut self, now: i64) -> Result<u32, Error> {
        if now < self.last {
            let remedy = "Read one counter, on one core where the counter of this machine differs among cores";
            return Err(Error::new(format!("a tick from {} on", self.last), now, remedy));
        }
        self.credit += u128::from(now.abs_diff(self.last)) * u128::from(self.plan.rate.events());
        self.last = now;
        let most = u128::from(self.plan.most) * self.packet;
        if self.plan.capped && self.credit > most {
            self.lost += self.credit - most;
            self.credit = most;
        }
        self.offered = (self.credit.min(most) / self.packet) as u32;
        Ok(self.offered)
    }

    /// Pays for `sent` packets of those that were offered, `L_i`.
    pub fn pay(&mut self, sent: u32) -> Result<(), Error> {
        if sent > self.offered {
            let remedy = "Send no more than `offer` returned";
            return Err(Error::new(format!("at most {} packets", self.offered), sent, remedy));
        }
        self.offered -= sent;
        self.credit -= u128::from(sent) * self.packet;
        Ok(())
    }

    /// The tick at which the next packet that may be sent was earned: what its latency counts from, and its lateness;
    /// rounded up. `None`: there is no credit for one.
    pub fn due(&self) -> Option<i64> {
        let beyond = self.credit.checked_sub(self.packet)? / u128::from(self.plan.rate.events());
        i64::try_from(beyond).ok().and_then(|ticks| self.last.checked_sub(ticks))
    }

    /// Credit that the cap threw away, in packets rounded up.
    pub fn lost(&self) -> u64 {
        u64::try_from(self.lost.div_ceil(self.packet)).unwrap_or(u64::MAX)
    }
}
