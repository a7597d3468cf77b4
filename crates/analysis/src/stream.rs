//! Span of a stream: from the earliest first stamp at the layout's entries to the latest end at its exits.
//!
//! Idea: channels under `first-last` hold two stamps each, so the span of a stream of any length is that of a few
//! stamps. It is the largest distance of any first stamp from any end; so its bounds are the largest of theirs.
//!
//! Assumes: a marker's first stamp in a channel is that channel's end. Guarantees: the interval holds the span. It has
//! no upper end where an earlier first stamp or a later end is possible: a stamp that was lost, removed or refused, a
//! channel that is still open, an event after which nobody knows what was stamped, a marker that was not seen, a clock
//! that no map relates, a policy that keeps neither; each such reason is told.
//! Deliberately absent: layouts without a channel under `first-last` at an entry and at an exit.

use std::collections::BTreeSet;

use serde::Serialize;
use tickscope_store::{Channel, ChannelState, Choice, Event, Listing, NO_MARKER, Policy, Run};
use tickscope_tick::{Place, counted};
use tickscope_trace::{Clocks, Layout, StampAt};

use crate::error::Error;

/// The span of a stream over the layout, in ticks of the reference.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Stream {
    /// As estimated; absent: no first stamp is related to an end.
    pub ticks: Option<i64>,
    /// It is no shorter.
    pub lo_ticks: Option<i64>,
    /// It is no longer; absent: `unbounded` says why.
    pub hi_ticks: Option<i64>,
    /// The stamp that it begins with.
    pub from: Option<StreamEnd>,
    /// The stamp that it ends with.
    pub to: Option<StreamEnd>,
    /// Channels at exits that have a marker.
    pub sinks: u64,
    /// Those that saw it.
    pub sinks_ended: u64,
    /// Points of channels that have not seen their marker, each as `node.point, thread T`.
    pub unseen: Vec<String>,
    /// Why it may be longer, a reason each.
    pub unbounded: Vec<String>,
}

/// A stamp at an end of a stream.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StreamEnd {
    /// Where.
    pub point: String,
    /// The thread that stamped it.
    pub thread: i32,
    /// Its tick, of its node's counter.
    pub tick: i64,
}

/// A stamp at an end of a stream, and where its point is in the layout.
#[derive(Clone)]
struct End {
    stamp: StreamEnd,
    at: usize,
    /// The stream ended no earlier there.
    bounds_below: bool,
}

/// Channels and events of a run.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub channels: &'a Listing<Vec<Channel>>,
    pub events: &'a [Event],
}

impl Stream {
    /// The span over `layout`; `None`: its entries or exits have no channels under `first-last`.
    pub(crate) fn of(run: &Run, layout: &Layout, clocks: &Clocks, known: Known<'_>) -> Result<Option<Self>, Error> {
        let is_entry = |at: usize| layout.edges().iter().all(|edge| edge.to != at);
        let is_exit = |at: usize| layout.edges().iter().all(|edge| edge.from != at);
        let trunk = || (0..layout.trunk().len()).map(|at| (at, [is_entry(at), is_exit(at)]));
        let place = |at: usize| &layout.points()[at].place;
        let channels = &known.channels.found;
        let has = |at: usize| channels.iter().any(|one| one.is_at(place(at)) && marker_of(one).is_some());
        let has_end = |end: usize| trunk().any(|(at, ends)| ends[end] && has(at));
        if !has_end(0) || !has_end(1) {
            return Ok(None);
        }
        let mut ends = Ends::default();
        for file in &known.channels.refused {
            ends.may_be_longer(file);
        }
        let at_end = || trunk().filter(|(_, ends)| ends.contains(&true));
        let is_near = |event: &&Event| at_end().any(|(at, _)| place(at).node == event.node.as_str());
        for event in known.events.iter().filter(is_near) {
            ends.add_event(event);
        }
        for (at, of) in at_end() {
            let stamps = run.stamps(place(at))?;
            for file in stamps.refused() {
                ends.may_be_longer(file);
            }
            let stamps = stamps.read_all()?;
            let mut is_stamped = false;
            for channel in channels.iter().filter(|channel| channel.is_at(place(at))) {
                let rows = (0..stamps.id.len()).filter(|&row| stamps.channel[row] == channel.channel);
                let rows: Vec<(i64, i64)> = rows.map(|row| (stamps.tick[row], stamps.id[row])).collect();
                let switched = known.events.iter().any(|event| event.is_switch_of(place(at)));
                ends.add(at, of, &ChannelStamps { channel, rows, switched });
                is_stamped = true;
            }
            if !is_stamped {
                ends.may_be_longer(format!("no channel of {} is known", place(at)));
            }
        }
        Ok(Some(ends.span(|first, last| clocks.distance(first, last))))
    }

    /// What leaves its end open: sinks that never saw the end of the stream.
    pub(crate) fn finding(&self) -> Option<String> {
        /// Beyond these the count says enough.
        const MOST_NAMED: usize = 5;
        if self.unseen.is_empty() {
            return None;
        }
        let named: Vec<&str> = self.unseen.iter().take(MOST_NAMED).map(String::as_str).collect();
        Some(format!(
            "expected every sink under first-last to see its marker, found {} of {} that did not: {}. The stream had \
             not ended there when the run did, or its source does not send the marker to each: send it, and let the \
             run end after it has arrived",
            self.unseen.len(),
            self.sinks,
            named.join("; ")
        ))
    }
}

/// Stamps of one channel.
struct ChannelStamps<'a> {
    channel: &'a Channel,
    /// Tick and id.
    rows: Vec<(i64, i64)>,
    /// It may have had another policy.
    switched: bool,
}

impl ChannelStamps<'_> {
    fn name(&self) -> String {
        let place = Place { node: self.channel.node.clone(), point: self.channel.point.clone() };
        format!("{place}, thread {}", self.channel.thread)
    }

    /// Why a stamp of it may not be there, or not yet.
    fn lost(&self) -> Option<String> {
        let Channel { stored, dropped, refused, uncommitted, .. } = *self.channel;
        let (removed, overwritten) = (self.channel.removed.unwrap_or(0), self.channel.overwritten.unwrap_or(0));
        let gone = stored.saturating_sub(self.rows.len() as i64);
        let losses = [
            (dropped, "dropped"),
            (refused, "refused"),
            (uncommitted, "cut off"),
            (overwritten, "overwritten"),
            (removed, "removed by the run's window"),
            (gone, "stored and not found"),
        ];
        let mut said: Vec<String> = losses
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, how)| format!("{} {how}", counted(*count, "stamp")))
            .collect();
        if self.channel.state == ChannelState::Open {
            said.push("it has not ended, so more stamps may come".into());
        }
        let policy = Choice::named(&self.channel.policy, self.channel.parameter).map(|choice| choice.policy());
        let keeps_ends = self.channel.keeps_all() || policy == Some(Policy::FirstLast);
        match (said.is_empty(), self.switched || !keeps_ends) {
            (false, _) => Some(said.join(", ")),
            (true, true) => Some("it had a policy that leaves stamps out".into()),
            (true, false) => None,
        }
    }
}

/// Ends of a stream.
#[derive(Default)]
struct Ends {
    firsts: Vec<End>,
    lasts: Vec<End>,
    found: Stream,
    unbounded: BTreeSet<String>,
}

impl Ends {
    fn may_be_longer(&mut self, why: impl ToString) {
        self.unbounded.insert(why.to_string());
    }

    /// Adds an event of a node that has an end.
    fn add_event(&mut self, event: &Event) {
        if event.what.leaves_untold() {
            let amount = event.value.map_or_else(String::new, |value| format!(" {value}"));
            self.may_be_longer(format!("{}: {}{amount}", event.node, event.what));
        }
    }

    /// Adds a channel of a point that is an entry, an exit or both.
    fn add(&mut self, at: usize, [is_entry, is_exit]: [bool; 2], stamps: &ChannelStamps<'_>) {
        let (name, lost) = (stamps.name(), stamps.lost());
        let marker = marker_of(stamps.channel).flatten();
        let point = stamps.channel.node.to_string() + "." + stamps.channel.point.as_str();
        let end = |tick, bounds_below| {
            let stamp = StreamEnd { point: point.clone(), thread: stamps.channel.thread, tick };
            End { stamp, at, bounds_below }
        };
        if let Some(why) = &lost {
            self.may_be_longer(format!("{name}: {why}"));
        }
        if is_entry {
            self.firsts.extend(stamps.rows.iter().min().map(|&(tick, _)| end(tick, true)));
        }
        if !is_exit {
            return;
        }
        let pill = stamps.rows.iter().filter(|(_, id)| Some(*id) == marker).min();
        // What threads without a channel lost at a point is counted under no thread.
        if marker.is_some() && stamps.channel.thread != 0 {
            self.found.sinks += 1;
            if pill.is_some() {
                self.found.sinks_ended += 1;
            } else {
                self.may_be_longer(format!("{name}: it has not seen its marker"));
                self.found.unseen.push(name);
            }
        }
        // The marker that was seen may not have been the first one.
        let bounds_below = pill.is_none() || lost.is_none();
        self.lasts.extend(pill.or_else(|| stamps.rows.iter().max()).map(|&(tick, _)| end(tick, bounds_below)));
    }

    fn span(mut self, distance: impl Fn(StampAt, StampAt) -> Option<[i64; 3]>) -> Stream {
        let mut found = std::mem::take(&mut self.found);
        let stamp = |end: &End| StampAt { point: end.at, tick: end.stamp.tick };
        let mut most = None;
        for first in &self.firsts {
            for last in &self.lasts {
                let Some([ticks, lo, hi]) = distance(stamp(first), stamp(last)) else {
                    let (from, to) = (&first.stamp, &last.stamp);
                    self.unbounded.insert(format!(
                        "no clock map relates {}, thread {}, to {}, thread {}",
                        to.point, to.thread, from.point, from.thread
                    ));
                    continue;
                };
                if found.ticks.is_none_or(|known| ticks > known) {
                    found.ticks = Some(ticks);
                    (found.from, found.to) = (Some(first.stamp.clone()), Some(last.stamp.clone()));
                }
                found.lo_ticks = found.lo_ticks.max(last.bounds_below.then_some(lo));
                most = most.max(Some(hi));
            }
        }
        found.hi_ticks = most.filter(|_| self.unbounded.is_empty());
        found.unbounded = self.unbounded.into_iter().collect();
        found
    }
}

/// The marker of a channel under `first-last`, if it has one; `None`: it is under another policy.
fn marker_of(channel: &Channel) -> Option<Option<i64>> {
    let choice = Choice::named(&channel.policy, channel.parameter).filter(|one| one.policy() == Policy::FirstLast)?;
    Some((choice.parameter() != NO_MARKER).then_some(choice.parameter() as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::tests::{Change, channel};
    use tickscope_store::EventKind;

    fn of<'a>(channel: &'a Channel, rows: &[(i64, i64)]) -> ChannelStamps<'a> {
        ChannelStamps { channel, rows: rows.to_vec(), switched: false }
    }

    fn sound(point: &str, policy: &str) -> Channel {
        Channel { stored: 0, state: ChannelState::Closed, ..channel(point, policy) }
    }

    /// The span from one source to one sink, whose clocks agree within a tick.
    fn span(source: &ChannelStamps<'_>, sink: &ChannelStamps<'_>) -> Stream {
        let mut ends = Ends::default();
        ends.add(0, [true, false], source);
        ends.add(1, [false, true], sink);
        ends.span(|first, last| {
            Some([-1, 0, 1].map(|off| last.tick - first.tick + off)).map(|[lo, at, hi]| [at, lo, hi])
        })
    }

    #[test]
    fn a_stream_reaches_from_the_earliest_first_stamp_to_the_latest_end_and_a_sink_ends_with_its_first_marker() {
        let (source, sink) = (sound("s", "first-last -1"), sound("t", "first-last -1"));
        let found = span(&of(&source, &[(100, 1), (200, 2)]), &of(&sink, &[(150, 1), (400, -1), (500, -1)]));
        assert_eq!((found.ticks, found.lo_ticks, found.hi_ticks), (Some(300), Some(299), Some(301)));
        assert_eq!((found.sinks, found.sinks_ended, found.unbounded.len(), found.finding()), (1, 1, 0, None));
    }

    #[test]
    fn a_stamp_that_may_be_gone_at_either_end_leaves_no_upper_end_and_the_reason_is_told() {
        let (source, sink) = (sound("s", "first-last -1"), sound("t", "first-last -1"));
        let (first, last) = ([(100, 1), (200, 2)], [(150, 1), (400, -1)]);
        let changes: [Change<'_>; 9] = [
            (&|one| one.state = ChannelState::Open, "it has not ended"),
            (&|one| one.dropped = 1, "1 stamp dropped"),
            (&|one| one.refused = 2, "2 stamps refused"),
            (&|one| one.uncommitted = 1, "1 stamp cut off"),
            (&|one| one.overwritten = Some(1), "1 stamp overwritten"),
            (&|one| one.removed = Some(3), "3 stamps removed"),
            (&|one| one.stored = 3, "1 stamp stored and not found"),
            (&|one| one.policy = "null".into(), "it had a policy"),
            (&|one| one.policy = Channel::SWITCHED_POLICY.into(), "it had a policy"),
        ];
        for (change, why) in changes {
            let (mut source_with, mut sink_with) = (source.clone(), sink.clone());
            change(&mut source_with);
            change(&mut sink_with);
            let found = span(&of(&source_with, &first), &of(&sink, &last));
            assert_eq!((found.lo_ticks, found.hi_ticks), (Some(299), None), "{why}");
            assert!(found.unbounded[0].starts_with(&format!("a.s, thread 1: {why}")), "{found:?}");
            let found = span(&of(&source, &first), &of(&sink_with, &last));
            assert_eq!(found.hi_ticks, None, "{why}");
            assert!(found.unbounded[0].starts_with(&format!("a.t, thread 1: {why}")), "{found:?}");
            // Where a marker was lost, the one that was seen may have come later than the end.
            let saw_marker = found.sinks > 0;
            assert_eq!(found.lo_ticks.is_none(), saw_marker, "{found:?}");
        }
        let switched = ChannelStamps { switched: true, ..of(&source, &first) };
        assert_eq!(span(&switched, &of(&sink, &last)).hi_ticks, None);
    }

    #[test]
    fn an_event_after_which_nobody_knows_what_was_stamped_leaves_no_upper_end_and_is_told() {
        let (source, sink) = (sound("s", "first-last -1"), sound("t", "first-last -1"));
        for what in EventKind::UNTOLD {
            let mut ends = Ends::default();
            ends.add_event(&Event { node: "a".into(), what: what.clone(), value: Some(3), ..Event::default() });
            ends.add(0, [true, false], &of(&source, &[(100, 1)]));
            ends.add(1, [false, true], &of(&sink, &[(400, -1)]));
            let found = ends.span(|first, last| Some([last.tick - first.tick; 3]));
            assert_eq!(
                (found.lo_ticks, found.hi_ticks, found.unbounded),
                (Some(300), None, vec![format!("a: {what} 3")])
            );
        }
    }

    #[test]
    fn a_sink_without_its_marker_and_one_without_any_stamp_have_not_seen_it_and_leave_no_upper_end() {
        let (source, sink) = (sound("s", "first-last -1"), sound("t", "first-last -1"));
        for (rows, ticks) in [(&[(150, 1), (400, 2)][..], Some(300)), (&[], None)] {
            let found = span(&of(&source, &[(100, 1)]), &of(&sink, rows));
            assert_eq!((found.ticks, found.hi_ticks, found.sinks, found.sinks_ended), (ticks, None, 1, 0));
            assert_eq!(found.unseen, ["a.t, thread 1"]);
            assert_eq!(found.unbounded, ["a.t, thread 1: it has not seen its marker"]);
            assert!(found.finding().unwrap().contains("1 of 1 that did not: a.t, thread 1"));
        }
        let unmarked = sound("t", "first-last");
        let found = span(&of(&source, &[(100, 1)]), &of(&unmarked, &[(150, 1), (400, 2)]));
        assert_eq!((found.hi_ticks, found.sinks, found.finding()), (Some(301), 0, None));
    }

    #[test]
    fn a_sink_without_a_clock_map_leaves_no_upper_end_and_is_named() {
        let (source, sink) = (sound("s", "first-last -1"), sound("t", "first-last -1"));
        let mut ends = Ends::default();
        ends.add(0, [true, false], &of(&source, &[(100, 1)]));
        ends.add(1, [false, true], &of(&sink, &[(400, -1)]));
        ends.add(2, [false, true], &of(&sound("u", "first-last -1"), &[(900, -1)]));
        let known = |first: StampAt, last: StampAt| (last.point != 2).then(|| [last.tick - first.tick; 3]);
        let found = ends.span(known);
        assert_eq!((found.ticks, found.lo_ticks, found.hi_ticks), (Some(300), Some(300), None));
        assert_eq!(found.unbounded, ["no clock map relates a.u, thread 1, to a.s, thread 1"]);
    }
}
