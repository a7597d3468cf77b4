//! What a load came to: one line of JSON at its end.

use serde::Serialize;
use tickscope_load::{Fault, Lateness};

use crate::replies::ReplyCounts;

/// What was sent, how late, and what the target did to it. Within a version keys are added, never removed or renamed.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LoadReport {
    /// Of these keys.
    pub version: u32,
    /// Tuples that were given to sockets.
    pub sent: u64,
    /// Tuples that were due and not sent, whoever's fault.
    pub unsent: u64,
    /// Bytes of them, framing included.
    pub bytes: u64,
    /// Replies that came; `None`: none were waited for.
    pub replies: Option<u64>,
    /// Those of them that say that the target did not take the tuple.
    pub refused: Option<u64>,
    /// What came and is a reply to no tuple.
    pub strange: Option<u64>,
    /// The share of the senders' time in which their sockets took nothing: back-pressure of the target, from 0 to 1.
    pub blocked_share: f64,
    /// The longest of these times, nanoseconds.
    pub blocked_longest_ns: u64,
    /// Whether tuples were sent when they were due.
    pub schedule: ScheduleReport,
    /// Why it ended before its time; `None`: it did not.
    pub ended: Option<String>,
    /// Whether the load was the one that was asked for, as far as that is the generator's part.
    pub valid: bool,
    /// Why not.
    pub why: Vec<String>,
}

/// Lateness of the sends.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ScheduleReport {
    /// Whether it was held.
    pub held: bool,
    /// Which fault it has: `none`, or the first.
    pub fault: &'static str,
    /// Tuples that were late, or unsent, by the generator's own fault.
    pub late: u64,
    /// Due and not sent, likewise.
    pub unsent: u64,
    /// Late or unsent because the target took nothing.
    pub held_up: u64,
    /// What late is, nanoseconds.
    pub late_limit_ns: u64,
    /// The lateness that half of the sends do not exceed.
    pub p50_ns: Option<u64>,
    /// That 999 of 1000 do not exceed.
    pub p999_ns: Option<u64>,
    /// The longest.
    pub worst_ns: u64,
}

/// What one sender, or all of them, came to.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub lateness: Lateness,
    pub bytes: u64,
    pub blocked_ticks: u64,
    pub blocked_longest_ticks: u64,
    /// From the first due tick to the end of the last send.
    pub lasted_ticks: u64,
    pub replies: Option<ReplyCounts>,
    pub ended: Option<String>,
}

impl Tally {
    pub fn merge(&mut self, other: Self) {
        self.lateness.merge(&other.lateness);
        self.bytes += other.bytes;
        self.blocked_ticks += other.blocked_ticks;
        self.blocked_longest_ticks = self.blocked_longest_ticks.max(other.blocked_longest_ticks);
        self.lasted_ticks += other.lasted_ticks;
        self.replies = self.replies.zip(other.replies).map(|(ours, more)| ReplyCounts {
            replies: ours.replies + more.replies,
            refused: ours.refused + more.refused,
            strange: ours.strange + more.strange,
        });
        self.ended = self.ended.take().or(other.ended);
    }

    pub fn report(&self, planned: u64, hertz: u64, late_limit_ns: u64) -> LoadReport {
        let ns = |ticks: u64| (u128::from(ticks) * 1_000_000_000).div_ceil(u128::from(hertz)) as u64;
        let faults = self.lateness.faults();
        let sent = self.lateness.sent();
        let strange = self
            .replies
            .map(|counts| counts.strange)
            .filter(|&count| count > 0)
            .map(|count| format!("replies: {count} unexpected; replies cannot be matched to tuples"));
        LoadReport {
            version: 1,
            sent,
            unsent: planned.saturating_sub(sent),
            bytes: self.bytes,
            replies: self.replies.map(|counts| counts.replies),
            refused: self.replies.map(|counts| counts.refused),
            strange: self.replies.map(|counts| counts.strange),
            blocked_share: self.blocked_ticks as f64 / self.lasted_ticks.max(1) as f64,
            blocked_longest_ns: ns(self.blocked_longest_ticks),
            schedule: ScheduleReport {
                held: faults.is_empty(),
                fault: faults.first().map_or("none", word),
                late: self.lateness.late(),
                unsent: self.lateness.unsent(),
                held_up: self.lateness.held_up(),
                late_limit_ns,
                p50_ns: self.lateness.quantile_ticks(500).map(ns),
                p999_ns: self.lateness.quantile_ticks(999).map(ns),
                worst_ns: ns(self.lateness.worst_ticks()),
            },
            ended: self.ended.clone(),
            valid: faults.is_empty() && strange.is_none(),
            why: faults.iter().map(|fault| format!("schedule: {fault}")).chain(strange).collect(),
        }
    }
}

fn word(fault: &Fault) -> &'static str {
    match fault {
        Fault::NothingSent => "nothing-sent",
        Fault::Early { .. } => "early",
        Fault::Late { .. } => "late",
        Fault::Unsent { .. } => "unsent",
        Fault::LostCredit { .. } => "lost-credit",
    }
}
