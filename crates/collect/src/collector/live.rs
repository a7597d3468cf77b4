//! What is asked of a collector while it collects: which channels there are, and other policies for some of them.
//!
//! A switch is noted as an event before it is made, with the tick before it, and once more after it, with the tick
//! after it. So a collector that is killed in between leaves an event without an end, and no switch without an event.
//!
//! Guarantees: a stamp whose call began before the first tick follows the policy before, one whose call began after the
//! last tick the new one; so behind the last tick each thread has at most one stamp of the policy before, and one more
//! for each signal handler that it was in. Live rules are applied to channels that are opened later, within
//! [`LIST_EVERY`] and a round. Deliberately absent: points of tickscope's own, which are evidence, and channels that
//! have no entry.

use std::collections::VecDeque;
use std::sync::atomic::fence;

use super::*;
use crate::watched_pool::{Due, Outcome};
use tickscope_counter::NodeCounter;
use tickscope_stamp::policies::Choice;
use tickscope_stamp::policy;
use tickscope_store::{Channel, ChannelState};
use tickscope_tick::{Clock, NodeName, own_points};

/// A rule that was given while the collector works.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveRule {
    /// Points that it is for; `*` and `?` as in a run file.
    pub glob: String,
    /// Their policy.
    pub policy: Choice,
}

/// What became of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Switched {
    /// Channels that have another policy now.
    pub channels: u64,
    /// Tick of the node's counter before the first of them was switched.
    pub before: i64,
    /// Tick after the last.
    pub after: i64,
}

/// A channel as it is known now.
#[derive(Clone, PartialEq, Debug)]
pub struct ChannelNow {
    /// Its row in the run's files, as of the last look.
    pub channel: Channel,
    /// Its policy.
    pub policy: String,
    /// Stamps a second, kept or lost, over the last seconds; absent: it is not known yet.
    pub rate: Option<f64>,
}

/// Rules, what is known of switches, and counts of the last seconds.
#[derive(Default)]
pub(super) struct Live {
    rules: Vec<LiveRule>,
    counter: NodeCounter,
    looked: Option<Instant>,
    events: Vec<Event>,
    /// Name of the file of these events.
    name: Option<String>,
    /// The events in the file are not these.
    is_unwritten: bool,
    samples: VecDeque<Sample>,
}

/// Stamps of each open channel at a time, by rising numbers of channels.
struct Sample {
    at: Instant,
    stamps: Vec<(i32, i64)>,
}

impl Sample {
    fn of(&self, channel: i32) -> Option<i64> {
        self.stamps.binary_search_by_key(&channel, |&(channel, _)| channel).ok().map(|at| self.stamps[at].1)
    }
}

/// Samples that a rate is taken from the ends of.
const SAMPLES: usize = 4;
/// Events of switches; further ones of channels that were opened later are added to the last of their rule.
const MOST_EVENTS: usize = 1000;

/// What led to a switch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Occasion {
    Command,
    OpenedLater,
}

/// How many channels a rule met.
#[derive(Clone, Copy, Default)]
struct SwitchCounts {
    /// Those that have its policy now.
    channels: u64,
    /// Those that opened at that instant where another had closed.
    strayed: u64,
}

impl Collector {
    /// Counter that ticks are read through.
    pub(super) fn counter(&self) -> NodeCounter {
        self.live.counter
    }

    /// Reads ticks of switches through this counter.
    pub fn set_counter(&mut self, counter: NodeCounter) {
        self.live.counter = counter;
    }

    /// Replaces all live rules, of which a later one goes before an earlier one, and switches the channels that are
    /// open.
    pub fn set_rules(&mut self, rules: Vec<LiveRule>) -> Result<Switched> {
        let now = Instant::now();
        self.list(now)?;
        self.live.rules = rules;
        for watched in self.pools.values_mut() {
            watched.pool.may_have_new_channels(now); // what is open is looked at here
        }
        self.switch_due(Occasion::Command, |_| true)
    }

    /// Every channel, those that were closed too if `all`.
    pub fn channels_now(&self, all: bool) -> Vec<ChannelNow> {
        let policies: BTreeMap<u64, _> =
            self.pools.iter().map(|(&pool, watched)| (pool, watched.pool.policies())).collect();
        let is_wanted = |channel: &&Channel| all || channel.state == ChannelState::Open;
        let now = |channel: &Channel| {
            let policy = policies.get(&channel.pool).and_then(|of| of.get(&channel.serial));
            let policy = policy.unwrap_or(&channel.policy).to_owned();
            ChannelNow { policy, rate: self.rate(channel), channel: channel.clone() }
        };
        self.ledger.channels().filter(is_wanted).map(now).collect()
    }

    /// Counts of all channels together: how many are open, how many closed, stamps stored, stamps lost.
    pub fn totals(&self) -> [i64; 4] {
        let mut totals = [0_i64; 4];
        for channel in self.ledger.channels() {
            totals[usize::from(channel.state != ChannelState::Open)] += 1;
            totals[2] = totals[2].saturating_add(channel.ever_stored());
            totals[3] = totals[3].saturating_add(channel.ever_lost());
        }
        totals
    }

    fn rate(&self, channel: &Channel) -> Option<f64> {
        let (first, last) = (self.live.samples.front()?, self.live.samples.back()?);
        let seconds = last.at.saturating_duration_since(first.at).as_secs_f64();
        let now = last.of(channel.channel)?;
        let before = first.of(channel.channel).unwrap_or(0); // it was opened since
        (seconds > 0.0).then(|| now.saturating_sub(before).max(0) as f64 / seconds)
    }

    /// Remembers how many stamps each channel has.
    pub(super) fn sample(&mut self, at: Instant) {
        let open = self.ledger.channels().filter(|channel| channel.state == ChannelState::Open);
        let stamps =
            open.map(|channel| (channel.channel, channel.ever_stored().saturating_add(channel.ever_lost()))).collect();
        if self.live.samples.len() == SAMPLES {
            self.live.samples.pop_front();
        }
        self.live.samples.push_back(Sample { at, stamps });
    }

    /// Gives channels that were opened since the last time the policy that a live rule has for them.
    pub(super) fn apply_rules(&mut self, now: Instant) -> Result<()> {
        if self.live.is_unwritten {
            self.write_switches()?;
        }
        if self.live.rules.is_empty() || !is_due(self.live.looked, now, LIST_EVERY) {
            return Ok(());
        }
        let has_new = |(&pool, watched): (&u64, &mut Watched)| watched.pool.may_have_new_channels(now).then_some(pool);
        let new: HashSet<u64> = self.pools.iter_mut().filter_map(has_new).collect();
        if !new.is_empty() {
            self.switch_due(Occasion::OpenedLater, |pool| new.contains(&pool))?;
        }
        self.live.looked = Some(now);
        Ok(())
    }

    /// Switches what the rules want otherwise, in pools of programs that live.
    fn switch_due(&mut self, occasion: Occasion, is_meant: impl Fn(u64) -> bool) -> Result<Switched> {
        let mut due: BTreeMap<usize, Vec<(u64, Due)>> = BTreeMap::new();
        let rules = &self.live.rules;
        let wanted = |point: &tickscope_tick::PointName| {
            let matching = |rule: &&LiveRule| policy::matches(&rule.glob, point.as_str());
            let at = rules.iter().rposition(|rule| matching(&rule)).filter(|_| !own_points::are(point.as_str()))?;
            Some((at, rules[at].policy))
        };
        for (&pool, watched) in
            self.pools.iter_mut().filter(|(pool, watched)| is_meant(**pool) && watched.pool.is_held())
        {
            watched.pool.refresh_channels(&mut self.ledger);
            for one in watched.pool.due(wanted) {
                // One that was opened this instant has no number yet; it is next time's.
                if self.ledger.known_number((pool, one.serial)).is_some() {
                    due.entry(one.rule).or_default().push((pool, one));
                }
            }
        }
        let mut all = None::<Switched>;
        for (rule, due) in due {
            let rule = self.live.rules[rule].clone();
            let switched = self.switch_all(&rule, &due, occasion)?;
            let before = all.unwrap_or(Switched { channels: 0, ..switched });
            all = Some(Switched { channels: before.channels + switched.channels, after: switched.after, ..before });
        }
        let now = self.tick_after();
        Ok(all.unwrap_or(Switched { channels: 0, before: now, after: now }))
    }

    fn switch_all(&mut self, rule: &LiveRule, due: &[(u64, Due)], occasion: Occasion) -> Result<Switched> {
        // Whoever finds them after a kill must not take them for channels that kept all.
        for (pool, one) in due {
            let change = |channel: &mut Channel| channel.policy = Channel::SWITCHED_POLICY.into();
            self.ledger.update((*pool, one.serial), change);
        }
        self.ledger.write()?;
        let at = self.begin_switch(rule, occasion)?;
        let before = self.live.events[at].tick.unwrap_or_default();
        self.steps.reached("a switch is noted")?;
        let mut counts = SwitchCounts::default();
        for (pool, one) in due {
            match self.pools[pool].pool.switch(one, rule.policy) {
                Outcome::Done => counts.channels += 1,
                Outcome::Closed => {}
                Outcome::Strayed => counts.strayed += 1,
            }
        }
        let after = self.tick_after();
        self.steps.reached("channels are switched")?;
        self.end_switch(at, rule, occasion, counts, after);
        // Should this fail, the event stands there without an end until it is written again.
        let written = self.write_switches();
        for pool in due.iter().map(|(pool, _)| *pool).collect::<BTreeSet<_>>() {
            if let Some(watched) = self.pools.get_mut(&pool) {
                watched.pool.refresh_channels(&mut self.ledger);
            }
        }
        written.map(|()| Switched { channels: counts.channels, before, after })
    }

    /// Notes that channels are about to be switched; where.
    fn begin_switch(&mut self, rule: &LiveRule, occasion: Occasion) -> Result<usize> {
        let (glob, policy) = (&rule.glob, rule.policy);
        let text = format!(
            "channels that match {glob} get the policy {policy}; the collector exited before it reported how many \
             channels it switched"
        );
        let tick = self.tick_before();
        let domain = tick_domain(&self.settings.node);
        let event = Event { tick: Some(tick), domain, ..self.event(EventKind::PolicySwitched, text) };
        let last = (self.live.events.len() >= MOST_EVENTS && occasion == Occasion::OpenedLater)
            .then(|| self.live.events.iter().rposition(|known| known.text.ends_with(&of_rule(rule))))
            .flatten();
        let at = match last {
            Some(at) => at,
            None => {
                self.live.events.push(event);
                self.live.events.len() - 1
            }
        };
        self.live.events[at].until = None;
        if let Err(why) = self.write_switches() {
            if last.is_none() {
                self.live.events.pop();
            }
            return Err(why);
        }
        Ok(at)
    }

    fn end_switch(&mut self, at: usize, rule: &LiveRule, occasion: Occasion, counts: SwitchCounts, after: i64) {
        let SwitchCounts { channels, strayed } = counts;
        let event = &mut self.live.events[at];
        let all = event.value.unwrap_or(0).saturating_add_unsigned(channels);
        let later = if occasion == Occasion::OpenedLater { " opened since and" } else { "" };
        let plural = if all == 1 { "channel" } else { "channels" };
        let strays = match strayed {
            0 => String::new(),
            _ => format!("; {strayed} opened at that instant where another had closed may have had it for a moment"),
        };
        let text = format!("{all} {plural}{later} switched{strays}{}", of_rule(rule));
        (event.until, event.value, event.text) = (Some(after), Some(all), text);
    }

    fn write_switches(&mut self) -> Result<()> {
        self.live.is_unwritten = true;
        let first = self.live.events.first().and_then(|event| event.tick).unwrap_or_default();
        let name = self.live.name.get_or_insert_with(|| format!("policy-{first:020}")).clone();
        self.write_events(&name, &self.live.events)?;
        self.live.is_unwritten = false;
        Ok(())
    }

    /// A tick before anything that follows can be seen by a program.
    fn tick_before(&self) -> i64 {
        self.live.counter.read(tickscope_tick::Ordering::Before)
    }

    /// A tick after everything that precedes can be seen by every program.
    fn tick_after(&self) -> i64 {
        // A store may wait in this processor's buffer while the counter is read, unless this is between the two.
        fence(std::sync::atomic::Ordering::SeqCst);
        self.live.counter.read(tickscope_tick::Ordering::After)
    }
}

/// How the texts of events of a rule end.
fn of_rule(rule: &LiveRule) -> String {
    format!(" to {}, by the rule {}", rule.policy, rule.glob)
}

/// Label of the domain of a node's counter.
fn tick_domain(node: &NodeName) -> Option<String> {
    Some(format!("{node}.{}", Clock::STAMPED))
}
