//! Switches of policies in a pool while its program runs.
//!
//! Assumes: nobody else switches (this process holds `collector.lock`). Guarantees: a channel that its program opened
//! in the place of one that was to be switched gets its own policy back, and that is told.

use std::time::{Duration, Instant};

use super::*;
use tickscope_stamp::policy::Setting;

/// How long entries are looked at anew after a channel was opened: its number is given before its entry is whole.
const AFTER_OPENING: Duration = Duration::from_secs(1);

/// A channel that is to be switched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    /// Its number within the pool.
    pub serial: u32,
    /// Position of the rule that decides.
    pub rule: usize,
    place: usize,
    before: Setting,
}

/// Outcome of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The channel has the policy.
    Done,
    /// Its program closed it first.
    Closed,
    /// Its program had opened another channel there, which was under the policy until it got its own back.
    Strayed,
}

/// When channels were opened, as far as it was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opened {
    channels: u32,
    seen: Instant,
}

impl WatchedPool {
    /// Returns whether a channel may have been opened that was not looked at yet.
    pub(crate) fn may_have_new_channels(&mut self, now: Instant) -> bool {
        let channels = self.pool.header().channels.load(Acquire);
        match &self.opened {
            Some(opened) if opened.channels == channels => now.saturating_duration_since(opened.seen) < AFTER_OPENING,
            _ => {
                self.opened = Some(Opened { channels, seen: now });
                true
            }
        }
    }

    /// The open channels for which `wanted` names another policy than they have, by the number of a policy and of the
    /// rule that decides.
    pub(crate) fn due(&self, wanted: impl Fn(&PointName) -> Option<(usize, Choice)>) -> Vec<Due> {
        let mut due = Vec::new();
        for (place, entry) in self.entries_with_memory() {
            if entry.state.load(Acquire) != EntryState::Open as u32 {
                continue;
            }
            let (serial, point) = (entry.serial.load(Relaxed), unpadded(&entry.point));
            let before = policy::read(&entry.policy, &entry.parameters);
            if !still_describes(entry, serial, EntryState::Open) {
                continue;
            }
            let Some((rule, choice)) = point.as_ref().and_then(&wanted) else { continue };
            let is_other = (before.policy, before.parameter) != (choice.policy() as u32, choice.parameter());
            if is_other && self.knows(choice) {
                due.push(Due { serial, rule, place, before });
            }
        }
        due
    }

    /// Returns whether programs of the pool's version know a policy.
    fn knows(&self, choice: Choice) -> bool {
        self.pool.version() >= 4 || matches!(choice, Choice::NULL | Choice::BUFFERED)
    }

    /// Gives a channel another policy. When this returns, whoever loads its word sees it.
    pub(crate) fn switch(&self, due: &Due, to: Choice) -> Outcome {
        let entry = &self.pool.entries()[due.place];
        let (policy, parameter) = (to.policy() as u32, to.parameter());
        let next = Setting { policy, epoch: due.before.epoch.wrapping_add(1), parameter };
        let done = policy::exchange(&entry.policy, &entry.parameters, due.before, next);
        if still_describes(entry, due.serial, EntryState::Open) {
            return if done { Outcome::Done } else { Outcome::Closed };
        }
        // It was another channel's, whose word was the same, if its program wrote it before.
        let strayed = done && policy::exchange(&entry.policy, &entry.parameters, next, due.before);
        let is_open = entry.state.load(Acquire) == EntryState::Open as u32;
        if strayed && is_open { Outcome::Strayed } else { Outcome::Closed }
    }

    /// The policy that a channel has now, or had when it was closed.
    pub(super) fn choice_of(&self, serial: u32) -> Option<Choice> {
        let (entry, _) = self.entries().find(|(entry, _)| entry.serial.load(Relaxed) == serial)?;
        let setting = policy::read(&entry.policy, &entry.parameters);
        Choice::of(setting.policy, setting.parameter)
    }

    /// The policies of its open channels, by their numbers within the pool.
    pub(crate) fn policies(&self) -> HashMap<u32, String> {
        let of = |(entry, _): (&ChannelEntry, EntryState)| {
            let setting = policy::read(&entry.policy, &entry.parameters);
            let choice = Choice::of(setting.policy, setting.parameter);
            let text = choice.map_or_else(|| "unknown".into(), |choice| choice.to_string());
            (entry.serial.load(Relaxed), text)
        };
        self.entries().map(of).collect()
    }
}
