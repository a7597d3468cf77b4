//! Counts a period: what channels under the policy `count` had, summed over the channels of a point, as rates.
//!
//! Idea: a total is one of an instant between two readings of the node's counter. A channel had none when it was
//! opened, and after it has ended its total stays. So at some readings of a point the total of every channel is known,
//! and between two of these so is what was counted. A reading leaves open where within its width the counter stood
//! (docs/proof.md, Readings 1): two instants are told apart only where their readings are a width apart.
//!
//! Guarantees: a rate's interval holds the true one by the declared frequency of the node's counter. There is none
//! where a channel's total is not known at both readings, or where its policy was switched between them. A total is
//! marked where there may be more: counts that cannot be read, channels that are open, stamps that nobody counted.
//! Deliberately absent: clock maps; each node's rates are of its own counter.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use tickscope_store::{Channel, ChannelState, Choice, CountRow, Error as FileError, Event, Policy, Run, policy_text};
use tickscope_tick::{Decimal, Place, counted, decimal_down, decimal_up, fraction_down, fraction_up};

use crate::error::Error;
use crate::evidence::reading_ticks;
use crate::kept::policy_notes;
use crate::noise::pauses::{NodePauses, on_counters};

/// The points of a run that counted, with their totals and rates.
#[derive(Debug)]
pub struct CountedPoints {
    /// In the order of their names.
    pub points: Vec<CountedPoint>,
    /// Files that could not be read, and why: their counts are missing.
    pub refused: Vec<FileError>,
}

/// What a point counted.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CountedPoint {
    /// The point.
    pub point: String,
    /// Stamps that its channels counted.
    pub total: i64,
    /// False: there may be more. A file cannot be read, a channel is open, or stamps of the point were not counted.
    pub total_is_whole: bool,
    /// Channels that counted.
    pub channels: u64,
    /// Sentences, each on stamps of the point that the counts leave out.
    pub notes: Vec<String>,
    /// Its periods, in order.
    pub periods: Vec<CountedPeriod>,
}

impl CountedPoint {
    /// The point's node.
    pub fn node(&self) -> &str {
        self.point.split('.').next().unwrap_or_default()
    }

    fn add_pauses(&mut self, pauses: Option<&NodePauses>, width_ticks: u64) {
        let Some(pauses) = pauses else { return };
        let within = |(before, after): (i64, i64)| (before, after.saturating_add_unsigned(width_ticks));
        for period in &mut self.periods {
            let since = period.since.map(within);
            period.paused_ticks = since.and_then(|since| pauses.took(since, within((period.before, period.after))));
        }
    }

    /// The first reading of any of `points` of a node, from which times of all its points are counted, so that they can
    /// be laid side by side.
    pub fn first_reading(points: &[Self], node: &str) -> i64 {
        let of_node = points.iter().filter(|of| of.node() == node);
        of_node.filter_map(|of| of.periods.first().map(|period| period.before)).min().unwrap_or(0)
    }
}

/// The total of a point at one reading, and what was counted since the reading before.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CountedPeriod {
    /// The node's counter before the reading that ends it.
    pub before: i64,
    /// After it.
    pub after: i64,
    /// The counter's readings around the one before; absent: the total of some channel is not known at both.
    pub since: Option<(i64, i64)>,
    /// Stamps of each channel that was read, since that channel's reading before.
    pub count: i64,
    /// Whole periods that it covers; 0: no known number, it is the first reading of a channel, or the rest.
    pub periods: i32,
    /// Length of a period, ns.
    pub period_ns: i64,
    /// Stamps a second, at least; absent: not known.
    pub lo_hz: Option<f64>,
    /// Stamps a second, at most.
    pub hi_hz: Option<f64>,
    /// Ticks of it in which at least one JVM of the node paused, at least and at most; absent: a log is missing, or not
    /// whole, or a total is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_ticks: Option<[i64; 2]>,
    /// Both, exact; `None`: neither is known.
    #[serde(skip)]
    pub rate: Option<CountedRate>,
}

/// The bounds of a rate as exact fractions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CountedRate {
    /// Stamps, times ticks a second.
    stamps: i128,
    /// The least and the most ticks between the instants of two readings, each exclusive.
    ticks: [i128; 2],
}

/// The counts of a run's points.
pub fn counted_points(run: &Run) -> Result<CountedPoints, Error> {
    let (channels, events) = (run.channels()?, run.events()?);
    let pauses = on_counters(run)?;
    let (mut points, mut refused) = (Vec::new(), Vec::new());
    for node in &run.manifest().nodes {
        let counts = run.counts(node.name.as_str())?;
        let of_node: Vec<&Channel> = channels.found.iter().filter(|channel| channel.node == node.name).collect();
        let mut of: BTreeMap<String, Counted> = BTreeMap::new();
        let place = |channel: &Channel| Place { node: channel.node.clone(), point: channel.point.clone() };
        // Also points whose counts are all in files that cannot be read, or were never read from their programs.
        let is_damaged = !counts.refused.is_empty();
        let counted = of_node.iter().filter(|channel| match only_counts(channel) {
            true => is_damaged || may_have_stamped(channel),
            false => is_damaged && channel.counted.is_some(),
        });
        of.extend(counted.map(|channel| (place(channel).to_string(), Counted::default())));
        for row in counts.found.rows() {
            let channel = of_node.iter().find(|one| one.channel == row.channel).copied();
            let name = channel.map_or_else(|| format!("{}.?", node.name), |channel| place(channel).to_string());
            let counted = of.entry(name).or_default().channels.entry(row.channel).or_default();
            counted.channel = channel;
            counted.rows.push(row);
        }
        for (name, mut counted) in of {
            let place: Option<Place> = name.parse().ok();
            let of_place = |event: &&Event| place.as_ref().is_some_and(|place| event.is_switch_of(place));
            counted.switches = events.found.iter().filter(of_place).map(|event| (event.tick, event.until)).collect();
            let untold = untold(node.name.as_str(), &events.found);
            counted.is_whole = counts.refused.is_empty() && untold.is_none();
            counted.width_ticks = i128::from(reading_ticks(run.manifest(), node));
            let mut notes = Vec::new();
            if let Some(place) = &place {
                notes = policy_notes(place, &channels.found, &events.found);
                counted.add_uncounted(of_node.iter().copied().filter(|channel| channel.is_at(place)));
                notes.extend(counted.uncounted_notes(place));
                notes.extend(untold);
            }
            let mut point = CountedPoint { notes, ..counted.point(name, node.counter.frequency.hertz) };
            point.add_pauses(pauses.get(&node.name), reading_ticks(run.manifest(), node));
            points.push(point);
        }
        refused.extend(counts.refused);
    }
    refused.extend(channels.refused.into_iter().chain(events.refused));
    points.sort_by(|one, other| one.point.cmp(&other.point));
    Ok(CountedPoints { points, refused })
}

/// Which events of a node tell of stamps that may be of any of its points, as a sentence.
fn untold(node: &str, events: &[Event]) -> Option<String> {
    let of_node = events.iter().filter(|event| event.node == node && event.what.leaves_untold());
    let kinds: BTreeSet<String> = of_node.map(|event| event.what.to_string()).collect();
    let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
    (!kinds.is_empty()).then(|| {
        format!(
            "totals and rates of {node} are of the channels that are known: see its events ({kinds}) for the others"
        )
    })
}

pub(crate) fn only_counts(channel: &Channel) -> bool {
    Choice::named(&channel.policy, channel.parameter).is_some_and(|choice| choice.policy() == Policy::Count)
}

/// Counts for threads that found no free channel: what those lost is all that there is of them.
fn is_of_no_thread(channel: &Channel) -> bool {
    channel.thread == 0 && channel.policy != Channel::LOG_POLICY
}

/// Returns whether a channel without a total may have stamped.
fn may_have_stamped(channel: &Channel) -> bool {
    let Channel { stored, dropped, refused, uncommitted, .. } = *channel;
    let more = [channel.removed, channel.overwritten, channel.counted].map(Option::unwrap_or_default);
    let is_told = [stored, dropped, refused, uncommitted].into_iter().chain(more).any(|count| count > 0);
    let tells_all = channel.keeps_all() || only_counts(channel);
    is_told || !is_of_no_thread(channel) && (channel.state == ChannelState::Open || !tells_all)
}

/// All that is known of what a point counted.
#[derive(Default)]
struct Counted<'a> {
    channels: BTreeMap<i32, CountedChannel<'a>>,
    /// Channels of the point of which no total was read, and that may have stamped.
    uncounted: Vec<&'a Channel>,
    /// When its channels got another policy: between these ticks, where they are known.
    switches: Vec<(Option<i64>, Option<i64>)>,
    /// Every file could be read.
    is_whole: bool,
    /// The counter stands less than this beyond what it reads.
    width_ticks: i128,
}

/// The readings of a channel's total.
#[derive(Default)]
struct CountedChannel<'a> {
    /// Its row; `None`: it is missing.
    channel: Option<&'a Channel>,
    rows: Vec<CountRow>,
}

impl<'a> Counted<'a> {
    /// Adds those of the point's channels that no total tells of.
    fn add_uncounted(&mut self, of_place: impl Iterator<Item = &'a Channel>) {
        let counted = &self.channels;
        self.uncounted.extend(of_place.filter(|one| !counted.contains_key(&one.channel) && may_have_stamped(one)));
    }

    /// Sentences, each on stamps of the point that are in no total.
    fn uncounted_notes(&self, place: &Place) -> Vec<String> {
        let (homeless, others): (Vec<&Channel>, Vec<&Channel>) =
            self.uncounted.iter().partition(|channel| is_of_no_thread(channel));
        let dropped =
            homeless.iter().fold(0i64, |sum, one| sum.saturating_add(one.dropped).saturating_add(one.refused));
        let (unread, others): (Vec<&Channel>, Vec<&Channel>) =
            others.into_iter().partition(|channel| only_counts(channel));
        let policies: BTreeSet<String> = others.iter().map(|channel| policy_text(channel)).collect();
        let policies = policies.into_iter().collect::<Vec<_>>().join(", ");
        let notes = [
            (dropped > 0).then(|| {
                format!(
                    "the total of {place} leaves out {} dropped by threads that found no free channel, so it has no \
                     rate; a larger pool_bytes has more channels",
                    counted(dropped, "stamp")
                )
            }),
            (!others.is_empty()).then(|| {
                format!(
                    "the total of {place} is of the channels under count alone, so it has no rate: {} had another \
                     policy ({policies})",
                    counted(others.len(), "channel")
                )
            }),
            (!unread.is_empty()).then(|| {
                let channels = counted(unread.len(), "channel");
                format!("the total of {place} leaves out {channels} whose counts are not read, so it has no rate")
            }),
        ];
        notes.into_iter().flatten().collect()
    }

    fn point(mut self, point: String, hertz: u64) -> CountedPoint {
        self.channels.values_mut().for_each(|one| one.rows.sort_by_key(CountedChannel::order));
        let mut periods: BTreeMap<(i64, i64), CountedPeriod> = BTreeMap::new();
        for row in self.channels.values().flat_map(|one| one.rows.iter().filter(|row| !is_beginning(row))) {
            let period = periods.entry((row.before, row.after)).or_insert_with(|| CountedPeriod::none_of(row));
            period.count = period.count.saturating_add(row.count);
            period.periods = period.periods.max(row.periods);
        }
        let mut periods: Vec<CountedPeriod> = periods.into_values().collect();
        for (at, known) in self.between(&periods).into_iter().enumerate().skip(1) {
            let since = (periods[at - 1].before, periods[at - 1].after);
            // The counts of channels that were read have to be all of it.
            let is_known = known == Some(i128::from(periods[at].count)) && self.uncounted.is_empty();
            if is_known && !self.was_switched(since.0, periods[at].after) {
                periods[at].rate_since(since, self.width_ticks, hertz);
            }
        }
        let total = self.channels.values().fold(0i64, |sum, one| sum.saturating_add(one.total()));
        let all_is_counted = self.uncounted.is_empty() && self.switches.is_empty();
        let total_is_whole =
            self.is_whole && all_is_counted && self.channels.values().all(|one| one.is_whole() && one.has_ended());
        let channels = self.channels.len() as u64;
        CountedPoint { point, total, total_is_whole, channels, notes: Vec::new(), periods }
    }

    /// By reading of the point: stamps since the reading before; `None`: the total of a channel is not known at both.
    fn between(&self, readings: &[CountedPeriod]) -> Vec<Option<i128>> {
        // The latest tick of all readings so far: one that was taken meanwhile may have ended earlier.
        let ends: Vec<i64> = readings
            .iter()
            .scan(i64::MIN, |end, reading| {
                *end = reading.after.max(*end);
                Some(*end)
            })
            .collect();
        let mut known = vec![Some(0i128); readings.len()];
        for one in self.channels.values() {
            let totals: BTreeMap<(i64, i64), i64> = one
                .rows
                .iter()
                .filter(|row| !is_beginning(row))
                .map(|row| ((row.before, row.after), row.total))
                .collect();
            let begins = one.began().map_or(0, |tick| ends.partition_point(|&end| self.is_past(end, tick)));
            let ended = one
                .ended()
                .map_or(readings.len(), |tick| readings.partition_point(|one| !self.is_past(tick, one.before)));
            let total = |at: usize| match at {
                at if at < begins => Some(0),
                at if at >= ended => Some(one.total()),
                at => totals.get(&(readings[at].before, readings[at].after)).copied(),
            };
            for (at, known) in known.iter_mut().enumerate().take(ended + 1).skip(begins.max(1)) {
                let counted = total(at - 1).zip(total(at)).map(|(first, last)| i128::from(last) - i128::from(first));
                let counted = counted.filter(|&counted| counted >= 0);
                *known = known.zip(counted).map(|(sum, counted)| sum + counted);
            }
        }
        known
    }

    /// Returns whether what was read as `tick` was before what was read as `later`.
    fn is_past(&self, tick: i64, later: i64) -> bool {
        i128::from(tick) + self.width_ticks <= i128::from(later)
    }

    fn was_switched(&self, from: i64, to: i64) -> bool {
        let within = |&(begin, end): &(Option<i64>, Option<i64>)| {
            begin.is_none_or(|begin| !self.is_past(to, begin)) && end.is_none_or(|end| !self.is_past(end, from))
        };
        self.switches.iter().any(within)
    }
}

/// Returns whether a row says where a channel began, with nothing counted.
fn is_beginning(row: &CountRow) -> bool {
    (row.periods, row.total, row.count) == (0, 0, 0) && row.before == row.after
}

impl CountedChannel<'_> {
    fn order(row: &CountRow) -> (i64, i64, i64) {
        (row.before, row.after, row.total)
    }

    /// The tick at which it had counted nothing; `None`: nobody said.
    fn began(&self) -> Option<i64> {
        let first = self.rows.iter().find(|row| !is_beginning(row))?.before;
        self.rows.iter().find(|row| is_beginning(row)).map(|row| row.before).filter(|&tick| tick <= first)
    }

    /// The tick from which its total stays; `None`: nobody knows that it does.
    fn ended(&self) -> Option<i64> {
        let channel = self.channel.filter(|one| one.state != ChannelState::Open && only_counts(one))?;
        let last = self.rows.last().filter(|row| channel.counted == Some(row.total) && self.is_whole())?;
        Some(last.after)
    }

    /// The largest total that was read.
    fn total(&self) -> i64 {
        self.rows.iter().map(|row| row.total).max().unwrap_or(0)
    }

    /// Returns whether no stamp of it can come any more, and each that came was counted.
    fn has_ended(&self) -> bool {
        let all_is_counted =
            |one: &Channel| only_counts(one) && [one.ever_stored(), one.dropped, one.refused] == [0; 3];
        self.channel.is_some_and(|one| one.state != ChannelState::Open && all_is_counted(one))
    }

    /// Returns whether its counts are all there: they add up to its total, and its program counted no more.
    fn is_whole(&self) -> bool {
        let sum: i128 = self.rows.iter().map(|row| i128::from(row.count)).sum();
        let counted = self.channel.and_then(|channel| channel.counted);
        sum == i128::from(self.total()) && counted.is_none_or(|counted| counted <= self.total())
    }
}

impl CountedPeriod {
    fn none_of(row: &CountRow) -> Self {
        Self {
            before: row.before,
            after: row.after,
            since: None,
            count: 0,
            periods: row.periods,
            period_ns: row.period_ns,
            lo_hz: None,
            hi_hz: None,
            paused_ticks: None,
            rate: None,
        }
    }

    fn rate_since(&mut self, since: (i64, i64), width_ticks: i128, hertz: u64) {
        /// Above this a double cannot hold the digits of the exact figure.
        const MOST: i128 = 10i128.pow(22);
        let apart = |from: i64, to: i64| i128::from(to) - i128::from(from);
        // Each total was read before the reading after it, which shows no more than a width too little.
        let ticks = [apart(since.1, self.before) - width_ticks, apart(since.0, self.after) + width_ticks];
        let stamps = i128::from(self.count) * i128::from(hertz);
        if ticks[1] <= 0 || !(0..MOST).contains(&stamps) {
            return;
        }
        self.since = Some(since);
        self.rate = Some(CountedRate { stamps, ticks });
        self.lo_hz = Some(fraction_down(stamps, ticks[1]));
        self.hi_hz = (ticks[0] > 0).then(|| fraction_up(stamps, ticks[0]));
    }
}

impl CountedRate {
    /// Stamps a second, at least: not above, at so many decimals.
    pub fn least(&self, decimals: u32) -> Decimal {
        decimal_down(self.stamps, self.ticks[1], decimals)
    }

    /// Stamps a second, at most: not below; `None`: the two readings overlap.
    pub fn most(&self, decimals: u32) -> Option<Decimal> {
        (self.ticks[0] > 0).then(|| decimal_up(self.stamps, self.ticks[0], decimals))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::tests::{Change, channel};
    use proptest::prelude::*;
    use tickscope_store::EventKind;

    fn row(channel: i32, before: i64, total: i64, count: i64) -> CountRow {
        CountRow { channel, before, total, after: before + 10, count, periods: 1, period_ns: 1_000_000 }
    }

    fn opened(channel: i32, tick: i64) -> CountRow {
        CountRow { periods: 0, after: tick, ..row(channel, tick, 0, 0) }
    }

    /// By channel: its row, if there is one, and its readings.
    fn counted(all: Vec<(Option<&Channel>, Vec<CountRow>)>) -> Counted<'_> {
        let channels =
            all.into_iter().enumerate().map(|(at, (channel, rows))| (at as i32, CountedChannel { channel, rows }));
        Counted { channels: channels.collect(), is_whole: true, width_ticks: 1, ..Counted::default() }
    }

    fn rates(found: &CountedPoint) -> Vec<Option<(f64, f64)>> {
        found.periods.iter().map(|period| period.lo_hz.zip(period.hi_hz)).collect()
    }

    #[test]
    fn times_of_all_points_of_a_node_are_counted_from_the_first_reading_of_any() {
        let of = |name: &str, before| counted(vec![(None, vec![row(0, before, 1, 1)])]).point(name.into(), 1_000);
        let points = [of("a.p", 700), of("a.q", 400), of("b.p", 100)];
        assert_eq!(["a", "b", "c"].map(|node| CountedPoint::first_reading(&points, node)), [400, 100, 0]);
    }

    #[test]
    fn channels_of_a_point_are_summed_and_a_rate_is_rounded_away_from_what_it_bounds() {
        let channels = vec![
            (None, vec![row(0, 1000, 5, 5), row(0, 2000, 55, 50)]),
            (None, vec![row(1, 1000, 7, 7), row(1, 2000, 57, 50)]),
            (None, vec![opened(2, 1500), row(2, 2000, 9, 9)]),
        ];
        let found = counted(channels).point("a.p".into(), 1_000_000);
        assert_eq!((found.total, found.channels, found.periods.len()), (121, 3, 2));
        assert_eq!((found.periods[0].count, found.periods[0].lo_hz), (12, None));
        let second = &found.periods[1];
        assert_eq!((second.count, second.since), (109, Some((1000, 1010))));
        // 109 stamps in 989 to 1011 ticks of a megahertz.
        let (lo, hi) = (second.lo_hz.unwrap(), second.hi_hz.unwrap());
        assert!(lo <= 109.0e6 / 1011.0 && 109.0e6 / 1011.0 - lo < 1e-3, "{lo}");
        assert!(hi >= 109.0e6 / 989.0 && hi - 109.0e6 / 989.0 < 1e-3, "{hi}");
        let rate = second.rate.unwrap();
        assert_eq!([rate.least(1), rate.most(1).unwrap()].map(|end| end.to_string()), ["107814.0", "110212.4"]);
    }

    #[test]
    fn a_first_row_has_no_rate_nor_has_any_before_it_unless_the_channels_opening_is_told() {
        let first = (1..5).map(|at| row(0, at * 1000, at * 10, 10)).collect::<Vec<_>>();
        let late = |opening: Option<i64>| {
            let beginning = opening.map(|tick| opened(1, tick)).into_iter();
            let rows = beginning.chain([row(1, 3000, 500, 500), row(1, 4000, 510, 10)]).collect();
            rates(&counted(vec![(None, first.clone()), (None, rows)]).point("a.p".into(), 1000))
                .iter()
                .map(Option::is_some)
                .collect()
        };
        let known: [Vec<bool>; 3] = [late(None), late(Some(1500)), late(Some(2500))];
        // Opened between the first two readings, it may have counted before the second.
        assert_eq!(known, [[false, false, false, true], [false, false, false, true], [false, true, true, true]]);
    }

    #[test]
    fn a_first_reading_at_which_nothing_was_counted_yet_is_no_opening_and_begins_a_rate() {
        let first = CountRow { periods: 0, ..row(0, 1000, 0, 0) };
        let found = counted(vec![(None, vec![first, row(0, 2000, 50, 50)])]).point("a.p".into(), 1_000_000);
        assert_eq!(found.periods.iter().map(|period| period.periods).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(found.periods[1].since, Some((1000, 1010)));
    }

    #[test]
    fn a_channel_that_is_not_read_at_both_ends_leaves_no_rate_unless_it_has_ended() {
        let known = |channel: Option<&Channel>| {
            let first = (1..6).map(|at| row(0, at * 1000, at * 10, 10)).collect::<Vec<_>>();
            let slow = vec![row(1, 1000, 7, 7), row(1, 4000, 90, 83)];
            let found = counted(vec![(None, first), (channel, slow)]).point("a.p".into(), 1000);
            rates(&found).iter().map(Option::is_some).collect::<Vec<_>>()
        };
        assert_eq!(known(None), [false; 5], "it is read more rarely");
        let of = |policy, state, stamps| Channel { state, counted: Some(stamps), ..channel("p", policy) };
        let closed = of("count 1ms", ChannelState::Closed, 90);
        assert_eq!(known(Some(&closed)), [false, false, false, false, true]);
        for (channel, why) in [
            (of("count 1ms", ChannelState::Open, 90), "it may count on"),
            (of("count 1ms", ChannelState::Closed, 91), "its rest is not stored yet"),
            (of("buffered", ChannelState::Closed, 90), "it went on under another policy"),
        ] {
            assert_eq!(known(Some(&channel)), [false; 5], "{why}");
        }
    }

    #[test]
    fn what_is_missing_of_a_total_is_told_and_leaves_no_rate() {
        let of_all = closed(30);
        let rows = vec![row(0, 1000, 5, 5), row(0, 3000, 25, 10), row(0, 4000, 30, 5)];
        let found = counted(vec![(Some(&of_all), rows)]).point("a.p".into(), 1000);
        assert_eq!((found.total, found.total_is_whole), (30, false));
        assert_eq!(rates(&found).iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, true]);
        let of_more = closed(6);
        let found = counted(vec![(Some(&of_more), vec![row(0, 1000, 5, 5)])]).point("a.p".into(), 1000);
        assert_eq!((found.total, found.total_is_whole), (5, false));
    }

    /// A channel that counted so many stamps and was closed.
    fn closed(counted: i64) -> Channel {
        Channel { state: ChannelState::Closed, stored: 0, counted: Some(counted), ..channel("p", "count 1ms") }
    }

    #[test]
    fn a_total_is_whole_once_its_channels_have_ended_and_only_counted() {
        let rows = || vec![row(0, 1000, 5, 5), row(0, 2000, 15, 10)];
        let is_whole =
            |channel: Option<&Channel>| counted(vec![(channel, rows())]).point("a.p".into(), 1000).total_is_whole;
        assert!(is_whole(Some(&closed(15))) && !is_whole(None));
        let changes: [Change<'_>; 5] = [
            (&|one| one.state = ChannelState::Open, "it may count on"),
            (&|one| one.counted = Some(16), "its rest is not stored yet"),
            (&|one| one.stored = 1, "it kept stamps under another policy before"),
            (&|one| one.dropped = 1, "it dropped stamps under another policy before"),
            (&|one| (one.policy, one.parameter) = ("buffered".into(), None), "it went on under another policy"),
        ];
        for (change, why) in changes {
            let mut changed = closed(15);
            change(&mut changed);
            assert!(!is_whole(Some(&changed)), "{why}");
        }
        let whole = closed(15);
        let mut switched = counted(vec![(Some(&whole), rows())]);
        switched.switches = vec![(Some(0), Some(10))];
        assert!(!switched.point("a.p".into(), 1000).total_is_whole);
    }

    #[test]
    fn stamps_of_a_point_that_nobody_counted_leave_no_rate_and_are_told() {
        let place: Place = "a.p".parse().unwrap();
        let of_no_thread = Channel { thread: 0, counted: None, ..closed(0) };
        let never = Channel { counted: None, ..closed(0) };
        let buffered = Channel { state: ChannelState::Closed, ..channel("p", "buffered") };
        let null = Channel { stored: 0, ..Channel { policy: "null".into(), parameter: None, ..never.clone() } };
        let others = [
            (Channel { dropped: 7, ..of_no_thread.clone() }, "leaves out 7 stamps dropped by threads that found no"),
            (
                buffered.clone(),
                "is of the channels under count alone, so it has no rate: 1 channel had another policy (buf",
            ),
            (null, "1 channel had another policy (null)"),
            (closed(3), "leaves out 1 channel whose counts are not read"),
            (Channel { state: ChannelState::Open, ..never.clone() }, "leaves out 1 channel whose counts are not read"),
            (of_no_thread, ""),
            (never, ""),
            (Channel { stored: 0, ..buffered }, ""),
        ];
        for (other, why) in others {
            let (one, other) = (closed(15), Channel { channel: 1, ..other });
            let mut all = counted(vec![(Some(&one), vec![row(0, 1000, 5, 5), row(0, 2000, 15, 10)])]);
            all.add_uncounted([&one, &other].into_iter());
            let notes = all.uncounted_notes(&place);
            let found = all.point("a.p".into(), 1000);
            let is_all = why.is_empty();
            assert_eq!((found.total, found.total_is_whole), (15, is_all), "{why}");
            assert_eq!(found.periods[1].rate.is_some(), is_all, "{why}");
            assert_eq!(notes.len(), usize::from(!is_all), "{notes:?}");
            assert!(notes.iter().all(|note| note.starts_with("the total of a.p ") && note.contains(why)), "{notes:?}");
        }
    }

    #[test]
    fn events_of_a_node_that_tell_of_unknown_stamps_are_named() {
        let event = |node: &str, what| Event { node: node.into(), what, ..Event::default() };
        let events =
            [event("a", EventKind::PoolRefused), event("a", EventKind::Recovered), event("b", EventKind::Lost)];
        assert!(untold("a", &events).unwrap().contains("see its events (pool-refused)"));
        assert_eq!(untold("b", &events), None);
    }

    #[test]
    fn a_switch_between_two_readings_leaves_no_rate() {
        let rows = (1..6).map(|at| row(0, at * 1000, at * 10, 10)).collect::<Vec<_>>();
        let mut all = counted(vec![(None, rows)]);
        all.switches = vec![(Some(2500), Some(2600))];
        let found = all.point("a.p".into(), 1000);
        assert_eq!(rates(&found).iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false, true, true]);
    }

    #[test]
    fn a_coarse_counter_widens_a_rate_and_tells_no_order_within_its_width() {
        // It shows whole thousands: totals of 1999 and 5000 read 1000 and 5000, and are 3001 ticks apart.
        let rows = vec![
            CountRow { after: 1000, ..row(0, 1000, 5, 5) },
            CountRow { after: 5000, ..row(0, 5000, 105, 100) },
            CountRow { after: 5000, ..row(0, 5000, 155, 50) },
        ];
        let of_width = |rows: Vec<CountRow>| Counted { width_ticks: 1000, ..counted(vec![(None, rows)]) };
        let found = of_width(rows.clone()).point("a.p".into(), 1000);
        assert_eq!(found.periods[1].rate.unwrap(), CountedRate { stamps: 150_000, ticks: [3000, 5000] });
        // Opened at a tick that the reading before shows, too: it may have counted before that reading.
        let late = vec![opened(1, 1000), CountRow { after: 5000, ..row(1, 5000, 9, 9) }];
        let mut both = of_width(rows);
        both.channels.insert(1, CountedChannel { channel: None, rows: late });
        assert_eq!(both.point("a.p".into(), 1000).periods[1].rate, None);
        // Its last total was read at a tick that the next reading shows, too: which came first nobody knows.
        let ended = Channel { state: ChannelState::Closed, counted: Some(9), ..channel("p", "count 1ms") };
        let rows = [(0, 10), (1, 20), (2, 30), (5, 40)];
        let rows = rows.map(|(at, total)| CountRow { after: at * 1000, ..row(0, at * 1000, total, 10) });
        let last = vec![CountRow { after: 1000, ..row(1, 0, 9, 9) }];
        let all = counted(vec![(None, rows.to_vec()), (Some(&ended), last)]);
        let found = Counted { width_ticks: 1000, ..all }.point("a.p".into(), 1000);
        let known: Vec<bool> = found.periods.iter().map(|period| period.rate.is_some()).collect();
        assert_eq!(known, [false, false, false, false, true]);
        // Switched at a tick that the first reading shows, too.
        let mut switched = of_width(vec![row(0, 1000, 5, 5), row(0, 5000, 105, 100)]);
        switched.switches = vec![(Some(0), Some(500))];
        assert_eq!(switched.point("a.p".into(), 1000).periods[1].rate, None);
    }

    /// A thread that stamps at these instants; what it had counted before one is known.
    #[derive(Clone, Debug)]
    struct Thread {
        opened: i64,
        closed: i64,
        stamps: Vec<i64>,
        /// It is read at each n-th reading.
        every: usize,
        /// Whether its opening is told.
        told: bool,
    }

    fn threads() -> impl Strategy<Value = Vec<Thread>> {
        let thread = (0i64..4000, 1i64..6000, prop::collection::vec(0i64..6000, 0..60), 1usize..4, any::<bool>());
        let thread = thread.prop_map(|(opened, lives, stamps, every, told)| {
            let closed = opened + lives;
            let mut stamps: Vec<i64> = stamps.into_iter().filter(|at| (opened..closed).contains(at)).collect();
            stamps.sort_unstable();
            Thread { opened, closed, stamps, every, told }
        });
        prop::collection::vec(thread, 1..5)
    }

    proptest! {
        #[test]
        fn property_the_rates_that_are_told_hold_the_true_ones(
            threads in threads(),
            readings in prop::collection::vec((10i64..400, 0i64..40), 2..20),
            late in 0i64..600,
            lost in prop::option::of(0usize..8),
            step in prop::sample::select(vec![1i64, 2, 25, 300, 1000]),
        ) {
            // What a counter of that step shows.
            let read = |at: i64| at / step * step;
            // Readings one after another, each of a total somewhere within.
            let mut end = 0;
            let readings: Vec<(i64, i64)> = readings.into_iter().map(|(rest, long)| {
                let begin = end + rest;
                end = begin + long;
                (begin, end)
            }).collect();
            let before = |thread: &Thread, at: i64| thread.stamps.iter().filter(|&&stamp| stamp < at).count() as i64;
            let instant = |at: usize, (begin, end): (i64, i64)| begin + (end - begin) * (at as i64 % 3) / 2;
            let (mut channels, mut all, mut passes) = (Vec::new(), Vec::new(), readings.clone());
            for (number, thread) in threads.iter().enumerate() {
                let mut row_of = channel("p", "count 1ms");
                let (mut rows, mut total, mut read_last) = (Vec::new(), 0, 0);
                rows.extend(thread.told.then(|| opened(number as i32, read(thread.opened))));
                for (at, &(begin, end)) in readings.iter().enumerate() {
                    let is_read = at % thread.every == 0 && begin >= thread.opened + late && begin < thread.closed;
                    if !is_read {
                        continue;
                    }
                    let now = before(thread, instant(at, (begin, end)));
                    rows.push(CountRow { after: read(end), ..row(number as i32, read(begin), now, now - total) });
                    read_last = end;
                    total = now;
                }
                let rest = thread.stamps.len() as i64 - total;
                if thread.closed < end && rest > 0 {
                    let at = thread.closed.max(read_last) + 7;
                    passes.push((at, at + 10));
                    let rest = row(number as i32, read(at), total + rest, rest);
                    rows.push(CountRow { periods: 0, after: read(at + 10), ..rest });
                }
                if thread.closed < end {
                    (row_of.state, row_of.counted) = (ChannelState::Closed, Some(thread.stamps.len() as i64));
                }
                if let Some(lost) = lost.filter(|&lost| lost < rows.len()) {
                    rows.remove(lost);
                }
                channels.push(row_of);
                all.push(rows);
            }
            let all = channels.iter().map(Some).zip(all).collect();
            let found = Counted { width_ticks: step.into(), ..counted(all) }.point("a.p".into(), 1000);
            // Between which instants the totals were read that the counter shows there.
            let instants = |shown: (i64, i64)| {
                let of: Vec<_> = passes.iter().filter(|(begin, end)| (read(*begin), read(*end)) == shown).collect();
                (of.iter().map(|pass| pass.0).min().unwrap(), of.iter().map(|pass| pass.1).max().unwrap())
            };
            for period in &found.periods {
                let Some(since) = period.since else { continue };
                let ((first, last), (begin, end)) = (instants(since), instants((period.before, period.after)));
                // Whatever the instants within the two readings, no fewer and no more can have come.
                let until = |at: i64| threads.iter().map(|one| before(one, at)).sum::<i64>();
                let sum = |from: i64, to: i64| until(to) - until(from);
                let (fewest, most) = (sum(last, begin).max(0), sum(first, end + 1));
                prop_assert!((fewest..=most).contains(&period.count), "{period:?}: {fewest} to {most}");
                let [least, longest] = period.rate.unwrap().ticks;
                let [shortest, whole] = [begin - last, end - first].map(i128::from);
                prop_assert!(least < shortest && longest > whole, "{period:?}");
            }
        }
    }
}
