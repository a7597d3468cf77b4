//! When events are due: ticks of a counter that depend on the plan alone, never on what was sent.
//!
//! The k-th release of a constant interval is due at `start + floor(k * hertz * seconds * burst / events)`. The
//! remainder of that division is carried from one to the next, so the sum is exact however long it goes on. The gaps
//! of a Poisson process are that interval times an exponential variate; their remainders are carried likewise.

use crate::random::{FRACTION_BITS, SplitMix};
use crate::{Error, EventRate};

/// The fastest counter, ticks a second: three times today's fastest TSC.
pub const MOST_COUNTER_HERTZ: u64 = 1 << 34;
/// The most events that are due at one tick.
pub const MOST_BURST: u32 = 1 << 16;
/// The most due ticks that are drawn ahead: 1 GiB of memory.
pub const MOST_HELD: u64 = 1 << 27;
/// The longest mean interval, ticks: half of what an instant can hold.
const MOST_INTERVAL_TICKS: u128 = 1 << 62;

/// What is to be sent, when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadPlan {
    /// How many events a second, all bursts together.
    pub rate: EventRate,
    /// The frequency of the counter that ticks are of.
    pub hertz: u64,
    /// The tick at which the load begins: the first event of a constant interval is due then.
    pub start: i64,
    /// The tick from which on nothing is due.
    pub until: i64,
    /// How many events are due at once, with one stamp; 1: each by itself.
    pub burst: u32,
}

impl LoadPlan {
    /// Mean ticks from one release to the next, as numerator and denominator.
    fn interval(&self) -> Result<(u128, u64), Error> {
        check_hertz(self.hertz)?;
        if self.burst == 0 || self.burst > MOST_BURST {
            let remedy = "Give 1 for events that are due one by one";
            return Err(Error::new(format!("bursts of 1 to {MOST_BURST} events"), self.burst, remedy));
        }
        let ticks = u128::from(self.hertz) * u128::from(self.rate.seconds()) * u128::from(self.burst);
        if ticks / u128::from(self.rate.events()) > MOST_INTERVAL_TICKS {
            let remedy = "Raise the rate, or make bursts smaller";
            return Err(Error::new("an interval of at most 2^62 ticks", "a longer one", remedy));
        }
        Ok((ticks, self.rate.events()))
    }
}

pub(crate) fn check_hertz(hertz: u64) -> Result<(), Error> {
    let remedy = "Give the counter's ticks a second, as `tickscope doctor` shows them";
    let expected = || format!("a counter of 1 to {MOST_COUNTER_HERTZ} Hz");
    if (1..=MOST_COUNTER_HERTZ).contains(&hertz) { Ok(()) } else { Err(Error::new(expected(), hertz, remedy)) }
}

/// The ticks at which a load is due, in order: an iterator that can be looked at first.
#[derive(Clone, Debug)]
pub struct DueTicks {
    next: Option<i64>,
    until: i64,
    burst: u32,
    law: Law,
}

#[derive(Clone, Debug)]
enum Law {
    /// `rest / of` is how far the exact instant lies beyond its tick.
    Constant {
        ticks: u128,
        whole: i64,
        part: u64,
        of: u64,
        rest: u64,
    },
    Held {
        ticks: Vec<i64>,
        at: usize,
    },
}

impl DueTicks {
    /// Releases at a constant interval, computed one by one.
    pub fn constant(plan: &LoadPlan) -> Result<Self, Error> {
        let (ticks, of) = plan.interval()?;
        let (whole, part) = (ticks / u128::from(of), ticks % u128::from(of));
        let law = Law::Constant { ticks, whole: whole as i64, part: part as u64, of, rest: 0 };
        let next = Some(plan.start).filter(|due| *due < plan.until);
        Ok(Self { next, until: plan.until, burst: plan.burst, law })
    }

    /// Releases of a Poisson process, drawn from a seed ahead and held in memory.
    pub fn poisson(plan: &LoadPlan, seed: u64) -> Result<Self, Error> {
        let (interval, of) = plan.interval()?;
        let lasts = (i128::from(plan.until) - i128::from(plan.start)).max(0) as u128;
        let expected = lasts.saturating_mul(of.into()) / interval;
        if expected > u128::from(MOST_HELD) {
            let (about, remedy) = (format!("about {expected}"), "Make the load shorter, or its rate lower");
            return Err(Error::new(format!("at most {MOST_HELD} due ticks, which are held in memory"), about, remedy));
        }
        let ticks = held(plan, SplitMix::new(seed), interval, u128::from(of) << FRACTION_BITS);
        let next = ticks.first().copied();
        Ok(Self { next, until: plan.until, burst: plan.burst, law: Law::Held { ticks, at: 1 } })
    }

    /// What one of several senders is to send: its first release is that of this number, from 0, and then each
    /// `of`-th. All of them together are the whole load, each tick once.
    ///
    /// ```
    /// use tickscope_load::{DueTicks, EventRate, LoadPlan};
    /// let plan = LoadPlan { rate: EventRate::new(3, 1)?, hertz: 100, start: 0, until: 200, burst: 1 };
    /// let of = |number| DueTicks::constant(&plan).map(|due| due.share(number, 2).collect::<Vec<_>>());
    /// assert_eq!((of(0)?, of(1)?), (vec![0, 66, 133], vec![33, 100, 166]));
    /// # Ok::<(), tickscope_load::Error>(())
    /// ```
    ///
    /// # Panics
    /// If `of` is 0.
    pub fn share(mut self, number: usize, of: usize) -> Self {
        if let Some(before) = number.checked_sub(1) {
            self.nth(before);
        }
        self.law = match self.law {
            Law::Constant { ticks, of: parts, rest, .. } => {
                let ticks = ticks.saturating_mul(of as u128);
                let whole = i64::try_from(ticks / u128::from(parts)).unwrap_or(i64::MAX);
                Law::Constant { ticks, whole, part: (ticks % u128::from(parts)) as u64, of: parts, rest }
            }
            Law::Held { ticks, at } => {
                let first = at.saturating_sub(1).min(ticks.len());
                Law::Held { ticks: ticks[first..].iter().copied().step_by(of).collect(), at: 1 }
            }
        };
        self
    }

    /// How many releases there are still.
    pub fn left(&self) -> u64 {
        let Some(next) = self.next else { return 0 };
        match &self.law {
            // The n-th from here is due before the end where n * ticks + rest < (until - next) * of.
            Law::Constant { ticks, of, rest, .. } => {
                let until = u128::from(self.until.abs_diff(next)) * u128::from(*of) - u128::from(*rest);
                u64::try_from(until.div_ceil(*ticks)).unwrap_or(u64::MAX)
            }
            Law::Held { ticks, at } => (ticks.len() - at + 1) as u64,
        }
    }

    /// The next due tick; it stays the next.
    pub fn peek(&self) -> Option<i64> {
        self.next
    }

    /// How many events are due at each.
    pub fn burst(&self) -> u32 {
        self.burst
    }
}

fn held(plan: &LoadPlan, mut random: SplitMix, interval: u128, of: u128) -> Vec<i64> {
    let (mut ticks, mut last, mut rest) = (Vec::new(), plan.start, 0);
    // A gap that no number of 128 bits holds lies beyond any end.
    while let Some(beyond) = interval.checked_mul(random.exponential().into()).and_then(|gap| gap.checked_add(rest)) {
        let due = i64::try_from(beyond / of).ok().and_then(|gap| last.checked_add(gap));
        let Some(due) = due.filter(|due| *due < plan.until) else { break };
        (last, rest) = (due, beyond % of);
        ticks.push(due);
    }
    ticks
}

impl Iterator for DueTicks {
    type Item = i64;

    #[inline]
    fn next(&mut self) -> Option<i64> {
        let due = self.next?;
        self.next = match &mut self.law {
            Law::Constant { whole, part, of, rest, .. } => {
                *rest += *part;
                let carry = *rest >= *of;
                *rest -= if carry { *of } else { 0 };
                due.checked_add(*whole)
                    .and_then(|next| next.checked_add(carry.into()))
                    .filter(|next| *next < self.until)
            }
            Law::Held { ticks, at } => {
                *at += 1;
                ticks.get(*at - 1).copied()
            }
        };
        Some(due)
    }

    /// Skips without a step for each.
    fn nth(&mut self, skipped: usize) -> Option<i64> {
        let due = self.next?;
        self.next = match &mut self.law {
            Law::Constant { ticks, of, rest, .. } => {
                let beyond = ticks.checked_mul(skipped as u128).and_then(|gap| gap.checked_add((*rest).into()));
                *rest = beyond.map_or(0, |beyond| beyond % u128::from(*of)) as u64;
                let gap = beyond.and_then(|beyond| i64::try_from(beyond / u128::from(*of)).ok());
                gap.and_then(|gap| due.checked_add(gap)).filter(|next| *next < self.until)
            }
            Law::Held { ticks, at } => {
                *at = at.saturating_add(skipped);
                ticks.get(*at - 1).copied()
            }
        };
        self.next()
    }
}
