//! Application messages as evidence: an id was sent at one node before it was received at another.
//!
//! Idea: every message is a free bracket, `(send, receive, open)` one way and `(open, send, receive)` the other. It
//! holds only if the two stamps belong to one passage of the message. A retransmission paired with the receive of the
//! first transmission is a *false* constraint, so an id serves only if it was stamped once at either end, on points
//! that the run file declares to send an id once, and only if no stamp of the sending point can have vanished before:
//! a lost one may have been the first transmission (`docs/proof.md`, "Brackets").
//!
//! A sending point that the kernel stamped says less: what the kernel did not deliver (a transmit stamp that is
//! missing, or discarded while warming up) is no loss that is known here, so one stamp may be the second copy's. The
//! program's own stamp before that send proves what the kernel's cannot ([`own_send`]): an id serves if it was
//! stamped once *there*, and no stamp can have vanished there up to the kernel's. Where the layout names no such
//! point, "once" rests on the declaration alone, and is printed so; for the probes, on nonces.
//!
//! An id that two things have ([`Run::collisions`]) is of no message: what was sent may be the one and what was
//! received the other.
//!
//! Assumes: the declaration; stamps ordered `before` the send and `after` the receive, which is checked. Guarantees:
//! what is refused is counted by reason. Deliberately absent: the clocks; ticks are returned as they were stamped.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use tickscope_store::{Channel, Event, EventKind, PointStamps, Run};
use tickscope_tick::{Clock, NodeName, Place, PointName, own_points};
use tickscope_trace::Layout;

use crate::error::Error;

/// Two points that an id passes once, from one node to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MessagePair {
    /// Where it is sent.
    pub from: Place,
    /// Where it is received.
    pub to: Place,
    /// The kind of stamps that serve, where the points have others too; runs of before have no kinds.
    pub kind: Option<i32>,
}

/// Stamps of both ends of messages that may serve as evidence, and why others may not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Passages {
    /// Raw ticks at the sending and at the receiving point.
    pub ticks: Vec<(i64, i64)>,
    /// Ids stamped more than once at either end: sent again, or numbers used twice.
    pub repeated: u64,
    /// Messages sent after a stamp of the sending point was lost.
    pub after_a_loss: u64,
    /// Ids of which the program's own stamps do not show that exactly one copy was sent.
    pub unproven: u64,
    /// Ids that two originals have.
    pub collided: u64,
    /// Ids that lack one of the two stamps.
    pub one_ended: u64,
    /// The tick of the sending node's counter up to which the program's own stamps of its sends are all there;
    /// `None`: there are none beside the point's own.
    pub sends_until: Option<i64>,
}

/// What the run tells of its stamps, besides themselves.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// All of them.
    pub channels: &'a [Channel],
    /// All of them.
    pub events: &'a [Event],
    /// Ids that two originals have, sorted.
    pub collided: &'a [i64],
}

/// How many stamps are held at once, about.
const STAMPS_AT_ONCE: u64 = 1 << 22;

impl std::str::FromStr for MessagePair {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "expected evidence as node.point > node.point of two nodes, found '{text}'. Write client.send > server.received for example"
            )
        };
        let (from, to) = text.split_once('>').ok_or_else(wrong)?;
        let place = |text: &str| text.parse().map_err(|_| wrong());
        let pair = Self { from: place(from)?, to: place(to)?, kind: None };
        if pair.from.node == pair.to.node { Err(wrong()) } else { Ok(pair) }
    }
}

impl MessagePair {
    /// What the kernel stamped of the probes between each two nodes: requests and replies, of whichever of the two
    /// asked.
    ///
    /// The points of a node have the stamps of all its peers, told apart by their kind.
    pub fn of_kernel_probes(nodes: &[NodeName], channels: &[Channel]) -> Vec<Self> {
        let stamped: HashSet<(&str, &str)> =
            channels.iter().map(|channel| (channel.node.as_str(), channel.point.as_str())).collect();
        let place = |node: &NodeName, point: &str| Place {
            node: node.clone(),
            point: PointName::new(point).expect("names of the probes' points are names"),
        };
        let mut pairs = Vec::new();
        for (asker, asking) in (0..).zip(nodes) {
            for (answerer, answering) in (0..).zip(nodes).filter(|&(answerer, _)| answerer != asker) {
                let there = (asking, own_points::PROBE_REQUEST_SENT, answering, own_points::PROBE_REQUEST_RECEIVED);
                let back = (answering, own_points::PROBE_REPLY_SENT, asking, own_points::PROBE_REPLY_RECEIVED);
                let kind = Some(own_points::probe_kind(asker, answerer));
                for (sender, sent, receiver, received) in [there, back] {
                    if [(sender, sent), (receiver, received)].iter().all(|(n, p)| stamped.contains(&(n.as_str(), p))) {
                        pairs.push(Self { from: place(sender, sent), to: place(receiver, received), kind });
                    }
                }
            }
        }
        pairs
    }
}

impl std::fmt::Display for MessagePair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} > {}", self.from, self.to)
    }
}

/// Where the program itself stamps, by its node's counter, the sends that another clock stamps here: the point before
/// this one in the layout, with nothing but stamps of one send between them, or where its branch leaves the path. An
/// inferred layout is no declaration: `None`.
pub fn own_send(place: &Place, layout: &Layout, channels: &[Channel]) -> Option<Place> {
    if !channels_of(place, channels).any(|channel| !reads_counter(channel)) {
        return None; // the program stamps its sends right here
    }
    if layout.is_inferred() {
        return None; // read off the stamps that it would vouch for
    }
    let is_here = |point: &tickscope_trace::Point| point.place == *place;
    let position = layout.points().iter().position(is_here)?;
    let earlier = layout
        .way_back(position)
        .into_iter()
        .skip(1)
        .filter(|&at| layout.shares_ids(at, position))
        .map(|point| &layout.points()[point]);
    let earlier = earlier.take_while(|point| point.place.node == place.node);
    for point in earlier {
        let place = point.place.clone();
        let all = |is: &dyn Fn(&Channel) -> bool| channels_of(&place, channels).all(is);
        if channels_of(&place, channels).next().is_none() || all(&|channel| channel.ordering == "after") {
            return None; // never stamped, or of a receive: what lies before it is another message
        }
        if all(&|channel| channel.ordering == "before" && reads_counter(channel)) {
            return Some(place);
        }
    }
    None
}

impl Passages {
    /// The passages of `run` between the points of `pair`, in the order of their ids. `own_send`: where the program
    /// stamped the sends of the pair's first point itself.
    pub fn of(
        run: &Run,
        pair: &MessagePair,
        own_send: Option<&Place>,
        Told { channels, events, collided }: Told<'_>,
    ) -> Result<Self, Error> {
        expect_ordering(pair, &pair.from, "before", channels)?;
        expect_ordering(pair, &pair.to, "after", channels)?;
        let sent = run.stamps(&pair.from)?;
        let received = run.stamps(&pair.to)?;
        let own = own_send.map(|place| run.stamps(place)).transpose()?;
        let mut passages = Self::default();
        let complete = Complete::until(&pair.from, &sent, channels, events);
        let sends = own_send.zip(own.as_ref());
        passages.sends_until = sends.map(|(place, own)| Complete::until(place, own, channels, events).before);
        for ids in slices(&sent, &received) {
            let listed = |place| move |channel| channels_of(place, channels).any(|known| known.channel == channel);
            let sent =
                stamps(&sent, &ids, pair.kind, listed(&pair.from)).map_err(|e| e.untold(run, pair, &pair.from))?;
            let received =
                stamps(&received, &ids, pair.kind, listed(&pair.to)).map_err(|e| e.untold(run, pair, &pair.to))?;
            let own = own.as_ref().map(|own| ids_of(own, &ids)).transpose()?;
            passages.pair_up(&sent, &received, own.as_deref(), &complete, collided);
        }
        Ok(passages)
    }

    /// Both sides sorted by kind and id; `own_sends`: the ids of the program's own stamps of its sends, sorted;
    /// `collided`: ids that two originals have, sorted.
    fn pair_up(
        &mut self,
        sent: &[Stamp],
        received: &[Stamp],
        own_sends: Option<&[i64]>,
        complete: &Complete,
        collided: &[i64],
    ) {
        let (mut sent, mut received) = (runs(sent).peekable(), runs(received).peekable());
        while let (Some(first), Some(second)) = (sent.peek(), received.peek()) {
            let order = first[0].key.cmp(&second[0].key);
            if order.is_ne() {
                self.one_ended += 1;
            } else if collided.binary_search(&first[0].key.1).is_ok() {
                self.collided += 1;
            } else if first.len() > 1 || second.len() > 1 {
                self.repeated += 1;
            } else if own_sends.is_some_and(|ids| copies(ids, first[0].key.1) != 1) {
                self.unproven += 1;
            } else if !complete.at(first[0].tick) {
                self.after_a_loss += 1;
            } else {
                self.ticks.push((first[0].tick, second[0].tick));
            }
            if order.is_le() {
                sent.next();
            }
            if order.is_ge() {
                received.next();
            }
        }
        self.one_ended += (sent.count() + received.count()) as u64;
    }
}

/// One stamp; the key is kind and id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Stamp {
    key: (i32, i64),
    tick: i64,
}

/// Stamps of equal keys stand together in what is sorted.
fn runs(stamps: &[Stamp]) -> impl Iterator<Item = &[Stamp]> {
    stamps.chunk_by(|a, b| a.key == b.key)
}

/// How many times `id` stands in `ids`, which are sorted.
fn copies(ids: &[i64], id: i64) -> usize {
    ids[ids.partition_point(|&other| other < id)..].iter().take_while(|&&other| other == id).count()
}

/// The ids of all stamps of a point, of whatever kind: sorted, each as often as it was stamped.
fn ids_of(point: &PointStamps, ids: &RangeInclusive<i64>) -> Result<Vec<i64>, Error> {
    let mut found = Vec::new();
    point.read(ids.clone(), |columns| found.extend_from_slice(&columns.id))?;
    found.sort_unstable();
    Ok(found)
}

/// `kind`: of the stamps that serve, beside those without one; `listed`: whether a file of channels has this channel of
/// the point.
fn stamps(
    point: &PointStamps,
    ids: &RangeInclusive<i64>,
    kind: Option<i32>,
    listed: impl Fn(i32) -> bool,
) -> Result<Vec<Stamp>, Unread> {
    let (mut found, mut untold) = (Vec::new(), None);
    point.read(ids.clone(), |columns| {
        let mut channels = columns.channel.chunk_by(|a, b| a == b).map(|same| same[0]);
        untold = untold.or_else(|| channels.find(|&channel| !listed(channel)));
        let kinds = columns.kind.iter().map(|kind| kind.copied().unwrap_or(0));
        let rows = columns.tick.iter().zip(&columns.id).zip(kinds);
        let serves = |&(_, of): &(_, i32)| of == 0 || kind.is_none_or(|kind| kind == of);
        found.extend(rows.filter(serves).map(|((&tick, &id), kind)| Stamp { key: (kind, id), tick }));
    })?;
    found.sort_unstable();
    untold.map_or(Ok(found), |channel| Err(Unread::Untold(channel)))
}

/// Why the stamps of a point are no evidence.
enum Unread {
    /// No file of channels tells of this channel: its stamps may be unordered, and nobody knows what was lost there.
    Untold(i32),
    Store(tickscope_store::Error),
}

impl From<tickscope_store::Error> for Unread {
    fn from(error: tickscope_store::Error) -> Self {
        Self::Store(error)
    }
}

impl Unread {
    fn untold(self, run: &Run, pair: &MessagePair, place: &Place) -> Error {
        match self {
            Unread::Store(error) => error.into(),
            Unread::Untold(channel) => Error::work(format!(
                "evidence '{pair}': expected {} to tell how channel {channel}, by which {place} was stamped, is ordered and \
                 what it lost, found no such channel there. Restore the file, or leave the pair out of [evidence]",
                run.paths().channels(place.node.as_str()).display()
            )),
        }
    }
}

/// Ranges of ids, together all that there are.
fn slices(sent: &PointStamps, received: &PointStamps) -> Vec<RangeInclusive<i64>> {
    let extents = || [sent, received].into_iter().flat_map(|point| point.segments().iter().flat_map(|s| s.extents()));
    let (Some(first), Some(last)) = (extents().map(|(id, ..)| id).min(), extents().map(|(_, id, _)| id).max()) else {
        return Vec::new();
    };
    let pieces = i128::from((sent.len() + received.len()).div_ceil(STAMPS_AT_ONCE).max(1));
    let (begin, length) = (i128::from(first), i128::from(last) - i128::from(first) + 1);
    let edge = |piece: i128| begin + length * piece / pieces;
    let slices = (0..pieces).map(|piece| (edge(piece), edge(piece + 1) - 1)).filter(|(first, last)| first <= last);
    slices.map(|(first, last)| first as i64..=last as i64).collect()
}

fn expect_ordering(pair: &MessagePair, place: &Place, expected: &str, channels: &[Channel]) -> Result<(), Error> {
    let wrong = channels_of(place, channels).find(|channel| channel.ordering != expected);
    wrong.map_or(Ok(()), |channel| {
        Err(Error::work(format!(
            "evidence '{pair}': expected stamps of {place} with ordering {expected}, found {}. Open the point with that \
             ordering, or leave it out of [evidence]",
            channel.ordering
        )))
    })
}

fn channels_of<'a>(place: &'a Place, channels: &'a [Channel]) -> impl Iterator<Item = &'a Channel> {
    channels.iter().filter(|channel| channel.is_at(place))
}

/// Returns whether its stamps are of the counter that programs read, rather than of another clock.
fn reads_counter(channel: &Channel) -> bool {
    channel.domain().is_ok_and(|domain| domain.counter == Clock::STAMPED)
}

/// Until when every stamp of a point is known to be there.
struct Complete {
    /// No stamp read at this tick, or later, is trusted to be an id's first.
    before: i64,
}

impl Complete {
    fn until(place: &Place, stamps: &PointStamps, channels: &[Channel], events: &[Event]) -> Self {
        let untold = |event: &&Event| event.node == place.node.as_str() && event.what.leaves_untold();
        let cut_off = events.iter().any(|event| event.what == EventKind::FinishFailed);
        // Of a stamp of many ids each was sent, as the single one may have been that stands for it elsewhere.
        if stamps.has_spans().unwrap_or(true) {
            return Self { before: i64::MIN };
        }
        if cut_off || !stamps.refused().is_empty() || events.iter().any(|event| untold(&event)) {
            return Self { before: i64::MIN };
        }
        let first_loss = |channel: &Channel| {
            let is_of_channel =
                |event: &&Event| event.node == place.node.as_str() && event.channel == Some(channel.channel);
            let told = |what: EventKind| events.iter().filter(is_of_channel).filter(move |event| event.what == what);
            let lost = told(EventKind::Lost);
            let reported: i64 = lost.clone().filter_map(|event| event.value).sum();
            // A slot that was reserved and never filled has no tick; nor has a refused stamp, or a loss without its
            // event. Nor does a clock that can be set back order what was lost and what was sent.
            let ordered = reads_counter(channel) || channel.dropped == 0;
            // Of what the window removed nobody knows the ids: what is left of an id may not be its first stamp.
            let all = channel.keeps_all() && channel.uncommitted == 0 && channel.refused == 0 && !channel.was_thinned();
            // What was overwritten was stamped before all that is left. In older runs its events are of the kind of
            // drops: more of them than drops tell of it.
            let none_told = told(EventKind::Overwritten).next().is_none() && reported == channel.dropped;
            let none_overwritten = channel.overwritten.unwrap_or(0) == 0 && none_told;
            let timed = all && ordered && none_overwritten;
            if timed { lost.filter_map(|event| event.tick).min() } else { Some(i64::MIN) }
        };
        if channels_of(place, channels).next().is_none() {
            return Self { before: i64::MIN }; // nobody tells what was lost
        }
        Self { before: channels_of(place, channels).filter_map(first_loss).min().unwrap_or(i64::MAX) }
    }

    fn at(&self, tick: i64) -> bool {
        tick < self.before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickscope_trace::LayoutText;

    const PAIR: &str = "client.send > server.received";
    const BOOT: &str = "0b000000-0000-0000-0000-00000000000b";

    fn stamp(id: i64, tick: i64) -> Stamp {
        Stamp { key: (0, id), tick }
    }

    fn place() -> Place {
        PAIR.parse::<MessagePair>().unwrap().from
    }

    fn channel(dropped: i64, uncommitted: i64) -> Channel {
        Channel {
            channel: 3,
            node: NodeName::new("client").unwrap(),
            pid: 1,
            process_start: 0,
            pool: 1,
            serial: 0,
            thread: 1,
            point: PointName::new("send").unwrap(),
            ordering: "before".into(),
            domain: format!("{BOOT}/tsc/0"),
            policy: "buffered".into(),
            parameter: None,
            stored: 0,
            dropped,
            refused: 0,
            uncommitted,
            state: Default::default(),
            removed: None,
            seen: None,
            counted: None,
            overwritten: None,
            kept: None,
        }
    }

    fn none() -> PointStamps {
        PointStamps::open(std::path::Path::new("/nonexistent/of/this/test")).unwrap()
    }

    fn complete(channels: &[Channel], events: &[Event]) -> i64 {
        Complete::until(&place(), &none(), channels, events).before
    }

    #[test]
    fn an_id_serves_if_it_was_stamped_once_at_either_end() {
        let mut passages = Passages::default();
        let sent = [stamp(1, 10), stamp(2, 20), stamp(2, 25), stamp(3, 30), stamp(5, 50), stamp(6, 60)];
        let received = [stamp(1, 11), stamp(2, 26), stamp(3, 31), stamp(3, 32), stamp(4, 41), stamp(6, 61)];
        passages.pair_up(&sent, &received, None, &Complete { before: i64::MAX }, &[]);
        assert_eq!(
            passages,
            Passages { ticks: vec![(10, 11), (60, 61)], repeated: 2, one_ended: 2, ..Passages::default() }
        );
    }

    #[test]
    fn an_id_that_two_originals_have_is_no_evidence_and_is_counted() {
        let mut passages = Passages::default();
        let (sent, received) = ([stamp(1, 10), stamp(2, 20), stamp(3, 30)], [stamp(2, 21), stamp(3, 31), stamp(4, 41)]);
        passages.pair_up(&sent, &received, None, &Complete { before: i64::MAX }, &[-5, 2, 4]);
        let expected = Passages { ticks: vec![(30, 31)], collided: 1, one_ended: 2, ..Passages::default() };
        assert_eq!(passages, expected);
    }

    #[test]
    fn equal_ids_of_different_kinds_are_different_messages() {
        let mut passages = Passages::default();
        let other = Stamp { key: (1, 1), tick: 12 };
        passages.pair_up(&[stamp(1, 10), other], &[stamp(1, 11)], None, &Complete { before: i64::MAX }, &[]);
        assert_eq!((passages.ticks, passages.repeated, passages.one_ended), (vec![(10, 11)], 0, 1));
    }

    #[test]
    fn nothing_sent_from_the_first_loss_on_is_evidence() {
        let mut passages = Passages::default();
        let lost = Event {
            node: "client".into(),
            channel: Some(3),
            tick: Some(20),
            until: Some(22),
            what: EventKind::Lost,
            value: Some(2),
            ..Event::default()
        };
        let before = complete(&[channel(2, 0)], std::slice::from_ref(&lost));
        assert_eq!(before, 20);
        let both = [stamp(1, 19), stamp(2, 20), stamp(3, 30)];
        passages.pair_up(&both, &both, None, &Complete { before }, &[]);
        assert_eq!((passages.ticks, passages.after_a_loss), (vec![(19, 19)], 2));
        assert_eq!(complete(&[channel(0, 0)], &[]), i64::MAX);
        // Losses that are not reported in full, or have no tick, leave nothing.
        assert_eq!(complete(&[channel(3, 0)], std::slice::from_ref(&lost)), i64::MIN);
        assert_eq!(complete(&[channel(0, 1)], &[]), i64::MIN);
        assert_eq!(complete(&[Channel { refused: 1, ..channel(0, 0) }], &[]), i64::MIN, "a stamp that was refused");
        let thinned = |removed| complete(&[Channel { removed, ..channel(0, 0) }], &[]);
        assert_eq!([None, Some(0), Some(1)].map(thinned), [i64::MAX, i64::MAX, i64::MIN], "what the window removed");
        let gone =
            |dropped, overwritten, lost: &[Event]| complete(&[Channel { overwritten, ..channel(dropped, 0) }], lost);
        assert_eq!(gone(0, Some(5), &[]), i64::MIN, "what was overwritten came before all that is left");
        let of_both = Event { value: Some(5), ..lost.clone() };
        assert_eq!(gone(3, None, &[of_both]), i64::MIN, "more than was dropped: some of it was overwritten");
        let overwritten = Event { what: EventKind::Overwritten, ..lost.clone() };
        assert_eq!(gone(0, None, std::slice::from_ref(&overwritten)), i64::MIN, "its event tells it, too");
        assert_eq!(gone(2, None, &[lost.clone(), overwritten.clone()]), i64::MIN, "also where all drops are told");
        let of_another = Event { channel: Some(4), ..overwritten };
        assert_eq!(gone(2, None, &[lost.clone(), of_another]), 20, "what another channel overwrote");
        assert_eq!(complete(&[], &[]), i64::MIN, "nobody tells of any");
        for (policy, before) in [("null", i64::MIN), ("every", i64::MIN), ("log", i64::MAX)] {
            assert_eq!(complete(&[Channel { policy: policy.into(), ..channel(0, 0) }], &[]), before, "{policy}");
        }
        for what in EventKind::UNTOLD.into_iter().chain([EventKind::FinishFailed]) {
            let untold = Event { node: "client".into(), what: what.clone(), ..Event::default() };
            assert_eq!(complete(&[channel(0, 0)], &[untold]), i64::MIN, "{what}");
        }
        let settable = Channel { domain: format!("{BOOT}/realtime/0"), ..channel(2, 0) };
        assert_eq!(complete(&[settable], std::slice::from_ref(&lost)), i64::MIN, "a clock that can be set back");
    }

    #[test]
    fn a_kernels_stamp_serves_if_the_program_stamped_that_send_once() {
        let mut passages = Passages::default();
        let (sent, received) = ([stamp(1, 10), stamp(2, 20), stamp(3, 30)], [stamp(1, 11), stamp(2, 21), stamp(3, 31)]);
        passages.pair_up(&sent, &received, Some(&[0, 1, 2, 2, 4]), &Complete { before: i64::MAX }, &[]);
        assert_eq!(passages, Passages { ticks: vec![(10, 11)], unproven: 2, ..Passages::default() });
    }

    #[test]
    fn a_send_of_the_program_is_the_point_before_it_on_the_path_or_where_its_branch_leaves() {
        let of = |node: &str, point: &str, ordering: &str, clock: &str| Channel {
            node: NodeName::new(node).unwrap(),
            point: PointName::new(point).unwrap(),
            ordering: ordering.into(),
            domain: format!("{BOOT}/{clock}/0"),
            ..channel(0, 0)
        };
        let channels = [
            of("c", "send", "before", Clock::STAMPED.name()),
            of("c", "built", "plain", Clock::STAMPED.name()),
            of("c", "sched", "before", "realtime"),
            of("c", "tx", "before", "realtime"),
            of("c", "response", "after", Clock::STAMPED.name()),
            of("s", "received", "after", Clock::STAMPED.name()),
        ];
        let by = |path: &[&str], branches: &[&str], inferred| {
            let text = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
            let layout = LayoutText { path: text(path), branches: text(branches), inferred, ..LayoutText::default() };
            let tx = "c.tx".parse().unwrap();
            own_send(&tx, &layout.parse(None).unwrap(), &channels).map(|place| place.to_string())
        };
        let found = |path: &[&str], branches: &[&str]| by(path, branches, false);
        let send = Some("c.send".to_owned());
        assert_eq!(found(&["c.send", "c.built", "c.sched", "c.tx", "s.received"], &[]), send);
        assert_eq!(found(&["c.send", "s.received"], &["c.send > c.tx"]), send);
        assert_eq!(by(&["c.send", "c.tx", "s.received"], &[], true), None, "an inferred order proves no send");
        // Not of the same send, or not known to be.
        assert_eq!(found(&["c.send", "s.received", "c.tx"], &[]), None);
        assert_eq!(found(&["c.send", "c.response", "c.tx"], &[]), None);
        assert_eq!(found(&["c.send", "c.never", "c.tx"], &[]), None);
        assert_eq!(found(&["c.tx", "c.send"], &[]), None);
        assert_eq!(found(&["c.send", "s.received"], &[]), None);
    }

    #[test]
    fn the_kernels_stamps_of_the_probes_serve_every_two_nodes() {
        let nodes = ["a", "b", "c"].map(|name| NodeName::new(name).unwrap());
        let points = [
            own_points::PROBE_REQUEST_SENT,
            own_points::PROBE_REQUEST_RECEIVED,
            own_points::PROBE_REPLY_SENT,
            own_points::PROBE_REPLY_RECEIVED,
        ];
        // `b` asks nobody and `a` answers nobody.
        let stamps = |node: &NodeName, point: &str| match node.as_str() {
            "a" => point != points[1] && point != points[2],
            "b" => point != points[0] && point != points[3],
            _ => true,
        };
        let of = |node: &NodeName, point| Channel {
            node: node.clone(),
            point: PointName::new(point).unwrap(),
            ..channel(0, 0)
        };
        let all = nodes.iter().flat_map(|node| points.map(|point| (node, point)));
        let channels: Vec<_> = all.filter(|(node, point)| stamps(node, point)).map(|(n, p)| of(n, p)).collect();
        let pairs = MessagePair::of_kernel_probes(&nodes, &channels);
        let told: Vec<_> = pairs.iter().map(|pair| (pair.to_string(), pair.kind.unwrap())).collect();
        let both = |asker: u32, answerer: u32| {
            let (a, b, kind) =
                (&nodes[asker as usize], &nodes[answerer as usize], own_points::probe_kind(asker, answerer));
            [
                (format!("{a}.probe-request-sent > {b}.probe-request-received"), kind),
                (format!("{b}.probe-reply-sent > {a}.probe-reply-received"), kind),
            ]
        };
        assert_eq!(told, [both(0, 1), both(0, 2), both(2, 1)].concat());
        let kinds: HashSet<i32> = pairs.iter().filter_map(|pair| pair.kind).collect();
        assert!(kinds.len() == 3 && !kinds.contains(&0), "runs of before have kind 0");
    }

    #[test]
    fn a_pair_is_two_points_of_two_nodes() {
        assert_eq!(PAIR.parse::<MessagePair>().unwrap().to_string(), PAIR);
        for wrong in ["", "client.send", "client > server.received", "client.send > client.sent", ".a > b.c"] {
            assert!(wrong.parse::<MessagePair>().unwrap_err().contains("of two nodes"), "{wrong}");
        }
    }

    #[test]
    fn a_point_without_an_ordering_is_no_evidence() {
        let pair: MessagePair = PAIR.parse().unwrap();
        let plain = Channel { ordering: "plain".into(), ..channel(0, 0) };
        let refused = expect_ordering(&pair, &pair.from, "before", &[channel(0, 0), plain]).unwrap_err().to_string();
        assert!(refused.contains("ordering before, found plain"), "{refused}");
    }
}
