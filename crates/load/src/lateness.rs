//! How late events were sent, and whether the schedule was held.
//!
//! A trial whose generator was late says nothing of the target: it is invalid, not failed. The shares are those that
//! generators of throughput benchmarks are judged by: at least 999 of 1000 events sent, in time, with no credit lost.
//! What is kept is of one size: sums, the worst, and a histogram whose buckets are single ticks up to 32 and at most
//! 1/16 wide above, so that recording allocates nothing.

use std::fmt;

/// One event in so many may be late, or unsent.
pub const ONE_IN: u64 = 1000;
/// Buckets of an octave: 2^4.
const OCTAVE_BITS: u32 = 4;
const BUCKETS: usize = (64 - OCTAVE_BITS as usize + 1) << OCTAVE_BITS;

/// What one generator's sends suffered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lateness {
    late_ticks: u64,
    sent: u64,
    late: u64,
    early: u64,
    unsent: u64,
    lost: u64,
    held_up: u64,
    worst_ticks: u64,
    buckets: Box<[u64]>,
}

impl Lateness {
    /// Nothing was sent yet; an event is late if it is sent more than `late_ticks` after its due tick.
    pub fn new(late_ticks: u64) -> Self {
        let buckets = vec![0; BUCKETS].into_boxed_slice();
        Self { late_ticks, sent: 0, late: 0, early: 0, unsent: 0, lost: 0, held_up: 0, worst_ticks: 0, buckets }
    }

    /// Takes events that were sent together.
    #[inline]
    pub fn record(&mut self, due: i64, sent: i64, events: u32) {
        self.record_held(due, sent, 0, events);
    }

    /// The same where the target took nothing for `held_ticks` since the schedule was last held: events that are not
    /// late but for that are held up, and no fault of the generator.
    #[inline]
    pub fn record_held(&mut self, due: i64, sent: i64, held_ticks: i64, events: u32) {
        let count = u64::from(events);
        self.sent += count;
        if sent < due {
            self.early += count;
            return;
        }
        let ticks = sent.abs_diff(due);
        if ticks > self.late_ticks {
            *self.whose(ticks, held_ticks, |own| &mut own.late) += count;
        }
        self.worst_ticks = self.worst_ticks.max(ticks);
        self.buckets[bucket_of(ticks)] += count;
    }

    /// Takes events that were due and not sent.
    pub fn miss(&mut self, events: u32) {
        self.unsent += u64::from(events);
    }

    /// The same where the target took nothing for `held_ticks` of the time until `now`.
    pub fn miss_held(&mut self, due: i64, now: i64, held_ticks: i64, events: u32) {
        *self.whose(now.abs_diff(due), held_ticks, |own| &mut own.unsent) += u64::from(events);
    }

    /// The count of what so much lateness is: the generator's own, unless so much was the target's.
    fn whose(&mut self, ticks: u64, held_ticks: i64, own: impl Fn(&mut Self) -> &mut u64) -> &mut u64 {
        let held = held_ticks > 0 && ticks.saturating_sub(held_ticks.unsigned_abs()) <= self.late_ticks;
        if held { &mut self.held_up } else { own(self) }
    }

    /// Takes what another sender of the same load suffered, with the same limit.
    ///
    /// # Panics
    /// If its limit is another.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.late_ticks, other.late_ticks, "one limit for all senders");
        self.sent += other.sent;
        self.late += other.late;
        self.early += other.early;
        self.unsent += other.unsent;
        self.lost += other.lost;
        self.held_up += other.held_up;
        self.worst_ticks = self.worst_ticks.max(other.worst_ticks);
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(bucket, more)| *bucket += more);
    }

    /// Takes credit of a capped bucket that was thrown away, in events.
    pub fn lose(&mut self, events: u64) {
        self.lost += events;
    }

    /// How many events were sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// How many of them were sent more than the limit after they were due.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// How many were due and not sent.
    pub fn unsent(&self) -> u64 {
        self.unsent
    }

    /// How many were sent late, or not at all, because the target took nothing.
    pub fn held_up(&self) -> u64 {
        self.held_up
    }

    /// How late the worst was, ticks.
    pub fn worst_ticks(&self) -> u64 {
        self.worst_ticks
    }

    /// The lateness that `of_1000` of a thousand events do not exceed, ticks, rounded up by at most 1/16; early events
    /// apart. `None`: there is no event.
    pub fn quantile_ticks(&self, of_1000: u32) -> Option<u64> {
        let count = self.sent - self.early;
        let rank = (u128::from(count) * u128::from(of_1000)).div_ceil(1000).max(1);
        let mut below = 0;
        let reached = self.buckets.iter().position(|bucket| {
            below += u128::from(*bucket);
            below >= rank
        })?;
        Some(last_of(reached).min(self.worst_ticks))
    }

    /// Why the trial is invalid; empty: the schedule was held.
    pub fn faults(&self) -> Vec<Fault> {
        let Self { late_ticks, sent, late, early, unsent, lost, worst_ticks, .. } = *self;
        let beyond = |count: u64, of: u64| u128::from(count) * u128::from(ONE_IN) > u128::from(of);
        let mut faults = Vec::new();
        faults.extend((sent == 0).then_some(Fault::NothingSent));
        faults.extend((early > 0).then_some(Fault::Early { early }));
        faults.extend(beyond(late, sent).then_some(Fault::Late { late, sent, late_ticks, worst_ticks }));
        faults.extend(beyond(unsent, sent + unsent).then_some(Fault::Unsent { unsent, due: sent + unsent }));
        faults.extend(beyond(lost, sent + lost).then_some(Fault::LostCredit { lost, due: sent + lost }));
        faults
    }
}

fn bucket_of(ticks: u64) -> usize {
    let octave = (u64::BITS - ticks.leading_zeros()).saturating_sub(OCTAVE_BITS + 1);
    ((octave as usize) << OCTAVE_BITS) + (ticks >> octave) as usize
}

/// The last tick of a bucket.
fn last_of(bucket: usize) -> u64 {
    let octave = (bucket >> OCTAVE_BITS).saturating_sub(1);
    let next = (bucket - (octave << OCTAVE_BITS) + 1) as u128;
    ((next << octave) - 1) as u64
}

/// A reason why a trial says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// No event was sent.
    NothingSent,
    /// Events were sent before they were due, which no pacer does.
    Early {
        /// How many.
        early: u64,
    },
    /// More than one event in [`ONE_IN`] was sent too late.
    Late {
        /// How many.
        late: u64,
        /// Of how many that were sent.
        sent: u64,
        /// How late an event may be, ticks.
        late_ticks: u64,
        /// How late the worst was, ticks.
        worst_ticks: u64,
    },
    /// More than one event in [`ONE_IN`] was due and not sent.
    Unsent {
        /// How many.
        unsent: u64,
        /// Of how many that were due.
        due: u64,
    },
    /// A capped bucket threw away more than one event in [`ONE_IN`].
    LostCredit {
        /// How many.
        lost: u64,
        /// Of how many that its rate stands for.
        due: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slower = "Lower the rate, or give the generator a core of its own";
        match *self {
            Self::NothingSent => write!(f, "no event was sent. Make the trial longer than one interval"),
            Self::Early { early } => {
                write!(f, "{early} events were sent before they were due. Read one counter for due ticks and sends")
            }
            Self::Late { late, sent, late_ticks, worst_ticks } => write!(
                f,
                "{late} of {sent} events were sent more than {late_ticks} ticks late, the worst {worst_ticks}; one in \
                 {ONE_IN} may be. {slower}"
            ),
            Self::Unsent { unsent, due } => {
                write!(f, "{unsent} of {due} events were due and not sent; one in {ONE_IN} may be. {slower}")
            }
            Self::LostCredit { lost, due } => {
                write!(f, "the capped bucket lost {lost} of {due} events; one in {ONE_IN} may be. {slower}")
            }
        }
    }
}
